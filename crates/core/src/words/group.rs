//! Groups as hosts see them: their maximum depth, whether they are idle, and why a change is
//! refused.

use crate::words::error::{GIVE_RT, NO_RT_RUNTIME, NotHere, RtGroupError};
use core::fmt;
use zerolag_model::{CpuMaxError, GroupId};

/// The maximum level of a group; the root has level 0.
pub(crate) const MAX_DEPTH: usize = 32;

/// Why a group cannot be created or changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum GroupError {
    /// There is no such group.
    NoSuchGroup(GroupId),
    /// All reserved groups are in use.
    NoneFree,
    /// The group would be deeper than 32 levels.
    TooDeep(GroupId),
    /// The root group cannot be changed or removed.
    IsRoot,
    /// The weight of an idle group cannot be changed (EINVAL).
    IsIdle(GroupId),
    /// Tasks are still in the group.
    HasTasks(GroupId),
    /// The group still has child groups.
    HasChildren(GroupId),
    /// The task is not on the given run queue: look up its home again.
    NotHere(NotHere),
    /// A real-time task is to join a group without real-time runtime (EINVAL).
    NoRtRuntime(GroupId),
    /// The group's real-time runtime is refused.
    Rt(GroupId, RtGroupError),
    /// The limit is out of range (EINVAL).
    Max(CpuMaxError),
}

impl fmt::Display for GroupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchGroup(group) => write!(f, "there is no group {group}"),
            Self::NoneFree => f.write_str("every reserved group is in use"),
            Self::TooDeep(parent) => write!(f, "a group below group {parent} would be deeper than {MAX_DEPTH} levels"),
            Self::IsRoot => f.write_str("the root group has no weight and no limit and cannot be removed"),
            Self::IsIdle(group) => write!(f, "group {group} is idle, and its weight is that of idle groups (EINVAL)"),
            Self::HasTasks(group) => write!(f, "group {group} still has tasks"),
            Self::HasChildren(group) => write!(f, "group {group} still has groups"),
            Self::NotHere(error) => error.fmt(f),
            Self::NoRtRuntime(_) => {
                write!(f, "a real-time task is to join a group {NO_RT_RUNTIME} (EINVAL): {GIVE_RT}")
            }
            Self::Rt(_, wrong) => wrong.fmt(f),
            Self::Max(wrong) => write!(f, "{wrong} (EINVAL)"),
        }
    }
}

impl From<NotHere> for GroupError {
    fn from(error: NotHere) -> Self {
        Self::NotHere(error)
    }
}

impl core::error::Error for GroupError {}

/// How a group competes with others (`cpu.idle`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Idleness {
    /// It competes by its weight.
    Normal,
    /// It yields to everything that is not idle, as SCHED_IDLE tasks do, and has their weight.
    Idle,
}

//! Groups as hosts see them: their maximum depth, whether they are idle, and why a change is
//! refused.

use crate::words::error::{GIVE_RT, NO_RT_RUNTIME, NameOr, Named, NotHere, RtGroupError};
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

impl GroupError {
    /// Returns the group above that has too little left for the one that asks, if that is why.
    #[must_use]
    pub const fn above(&self) -> Option<GroupId> {
        match self {
            Self::Rt(_, wrong) => wrong.above(),
            _ => None,
        }
    }

    /// Returns the text of the error with a host's names in place of ids: of the group that asks,
    /// or that a task is to join, and of the one [above](Self::above).
    #[must_use]
    pub const fn named<'a>(&'a self, group: &'a str, above: Option<&'a str>) -> Named<'a, Self> {
        Named { error: self, subject: Some(group), group: above }
    }
}

impl fmt::Display for GroupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Named { error: self, subject: None, group: None }.fmt(f)
    }
}

impl fmt::Display for Named<'_, GroupError> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |group: &GroupId| NameOr(self.subject, *group);
        match self.error {
            GroupError::NoSuchGroup(group) => write!(f, "there is no group {}", name(group)),
            GroupError::NoneFree => f.write_str("every reserved group is in use"),
            GroupError::TooDeep(parent) => match self.subject {
                Some(group) => write!(f, "group `{group}` would be deeper than {MAX_DEPTH} levels"),
                None => write!(f, "a group below group {parent} would be deeper than {MAX_DEPTH} levels"),
            },
            GroupError::IsRoot => f.write_str("the root group has no weight and no limit and cannot be removed"),
            GroupError::IsIdle(group) => {
                write!(f, "group {} is idle, and its weight is that of idle groups (EINVAL)", name(group))
            }
            GroupError::HasTasks(group) => write!(f, "group {} still has tasks", name(group)),
            GroupError::HasChildren(group) => write!(f, "group {} still has groups", name(group)),
            GroupError::NotHere(error) => error.fmt(f),
            GroupError::NoRtRuntime(group) => {
                write!(f, "a real-time task is to join group {}, {NO_RT_RUNTIME} (EINVAL): {GIVE_RT}", name(group))
            }
            GroupError::Rt(group, error) => {
                write!(f, "group {}: {}", name(group), Named { error, subject: self.subject, group: self.group })
            }
            GroupError::Max(wrong) => match self.subject {
                Some(group) => write!(f, "group `{group}`: {wrong} (EINVAL)"),
                None => write!(f, "{wrong} (EINVAL)"),
            },
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

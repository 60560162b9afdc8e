//! [`Task`]: the body of a task, and [`Parcel`]: that body while no run queue owns it.
//!
//! A body is allocated once, when the task is created, and then moves: from the host's hands onto a
//! run queue at a wakeup, from run queue to run queue when it migrates, back into the host's hands
//! when it blocks. Whoever holds it may change it; so no task is ever shared and no lock protects
//! one.
//!
//! ```text
//!              create_task
//!                  |
//!                  v   wake          leave(Block)
//!   host: Parcel ----> Rq slab ----------------------> host: Parcel
//!                       |   ^                              (or Dead after leave(Exit))
//!                       +---+  push, pull, balance: another Rq's slab
//! ```

use crate::entity::dl::DlEntity;
use crate::entity::fair::FairEntity;
use crate::entity::rt::RtEntity;
use crate::words::ids::CpusetId;
use crate::words::life::{Bound, Engaged};
use crate::words::mode::TaskMode;
use crate::words::wait::Lent;
use alloc::boxed::Box;
use alloc::sync::Arc;
use zerolag_model::{CpuId, CpuMask, GroupId, Instant, Prio, SchedAttr, TaskCounters, TaskId};

/// What a new task is to be.
#[derive(Clone, Debug)]
pub struct TaskSpec {
    /// Its id: dense.
    pub id: TaskId,
    /// What it asks for.
    pub attr: SchedAttr,
    /// Where it may run; `None` is every CPU of its cpuset.
    pub affinity: Option<Arc<CpuMask>>,
    /// Its group.
    pub group: GroupId,
    /// Its cpuset.
    pub cpuset: CpusetId,
    /// The CPU of its parent: where looking for a place begins.
    pub born_on: CpuId,
}

/// The body of a task. Its fields are the scheduler's.
#[derive(Debug)]
pub struct Task {
    pub(crate) id: TaskId,
    /// How often it has been put on a run queue.
    pub(crate) stay: u32,
    pub(crate) attr: SchedAttr,
    /// Effective priority: its own or an inherited one.
    pub(crate) prio: Prio,
    pub(crate) inherited: Option<Lent>,
    /// Where it may run, its cpuset considered; `None` is every CPU.
    pub(crate) allowed: Option<Arc<CpuMask>>,
    /// What it asked for itself.
    pub(crate) affinity: Option<Arc<CpuMask>>,
    pub(crate) group: GroupId,
    pub(crate) cpuset: CpusetId,
    pub(crate) last_cpu: CpuId,
    pub(crate) is_new: bool,
    pub(crate) mode: TaskMode,
    pub(crate) engaged: Engaged,
    /// Where active balance sends it, while it is on its way.
    pub(crate) bound: Option<Bound>,
    /// Task clock up to which `counters.exec` is charged.
    pub(crate) exec_start: Instant,
    /// Wall clock when it last left a CPU: how cold its cache is.
    pub(crate) last_ran: Instant,
    pub(crate) counters: TaskCounters,
    pub(crate) rt: RtEntity,
    pub(crate) fair: FairEntity,
    pub(crate) dl: DlEntity,
}

impl Task {
    /// Returns whether it may run on a CPU.
    pub(crate) fn may_run_on(&self, cpu: CpuId) -> bool {
        self.allowed.as_ref().is_none_or(|mask| mask.contains(cpu))
    }

    /// Returns what it lends to the holder of a lock that it waits for.
    pub(crate) fn lends(&self) -> Lent {
        match (self.prio, self.dl.boost, self.attr) {
            (Prio::DEADLINE, Some(params), _) | (Prio::DEADLINE, None, SchedAttr::Deadline(params)) => {
                Lent::Deadline { params, deadline: self.dl.abs_deadline }
            }
            (prio, _, _) => Lent::Prio(prio),
        }
    }

    /// Returns whether it may be moved to another CPU of `nr_cpus`.
    #[inline]
    pub(crate) fn can_migrate(&self, nr_cpus: usize) -> bool {
        self.engaged == Engaged::No
            && match &self.allowed {
                None => nr_cpus > 1,
                Some(mask) => mask.first() != mask.last(),
            }
    }
}

/// The body of a task in its owner's hands. It is not `Clone`: a task is in one place.
#[derive(Debug)]
pub struct Parcel(pub(crate) Box<Task>);

impl Parcel {
    /// Returns whose body it is.
    #[must_use]
    pub const fn id(&self) -> TaskId {
        self.0.id
    }

    /// Returns the effective priority.
    #[must_use]
    pub const fn prio(&self) -> Prio {
        self.0.prio
    }

    /// Returns what the task lends to the holder of a lock that it waits for.
    #[must_use]
    pub fn lends(&self) -> Lent {
        self.0.lends()
    }

    /// Returns what the task asks for.
    #[must_use]
    pub const fn attr(&self) -> SchedAttr {
        self.0.attr
    }

    /// Returns the CPU it ran on last.
    #[must_use]
    pub const fn last_cpu(&self) -> CpuId {
        self.0.last_cpu
    }

    /// Returns where it may run; `None` is every CPU.
    #[must_use]
    pub fn allowed(&self) -> Option<Arc<CpuMask>> {
        self.0.allowed.clone()
    }

    /// Returns what was counted for it.
    #[must_use]
    pub const fn counters(&self) -> TaskCounters {
        self.0.counters
    }
}

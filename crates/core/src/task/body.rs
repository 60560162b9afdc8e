//! [`Task`]: the body of a task. [`Parcel`]: that body while no run queue owns it.
//!
//! A task that several CPUs could access would need a lock of its own. Here a body has exactly one
//! owner, which can change it freely. So no task is ever shared, and no lock protects one. A body
//! is allocated once, when the task is created, and then moves: from the host to a run queue at a
//! wakeup, between run queues in a migration, and back to the host when it blocks.
//!
//! ```text
//!              create_task
//!                  |
//!                  v   wake          leave(Block)
//!   host: Parcel ----> Rq slab ----------------------> host: Parcel
//!                       |   ^                              (or Dead after leave(Exit))
//!                       +---+  push, pull, balance: another Rq's slab
//! ```

use crate::entity::dl::{DlPart, Faults};
use crate::entity::fair::FairEntity;
use crate::entity::rt::RtEntity;
use crate::words::ids::{CpusetId, ProcessId};
use crate::words::life::{Bound, Engaged};
use crate::words::mode::TaskMode;
use crate::words::wait::Lent;
use alloc::boxed::Box;
use alloc::sync::Arc;
use zerolag_model::{CpuId, CpuMask, GroupId, Instant, Prio, SchedAttr, TaskCounters, TaskId, UtilClamp};

/// The description of a new task.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TaskSpec {
    /// Its id, a dense number.
    pub id: TaskId,
    /// Its scheduling attributes.
    pub attr: SchedAttr,
    /// The CPUs on which it is allowed; `None` means every CPU of its cpuset.
    pub affinity: Option<Arc<CpuMask>>,
    /// Its group.
    pub group: GroupId,
    /// Its cpuset.
    pub cpuset: CpusetId,
    /// The CPU of its parent, where the search for a CPU begins.
    pub born_on: CpuId,
    /// The process whose memory it shares; `None` means that it shares none.
    pub process: Option<ProcessId>,
}

impl TaskSpec {
    /// Returns it with the attributes that every process has before it asks for others.
    #[must_use]
    pub fn before_it_asks(self) -> Self {
        Self { attr: SchedAttr::NORMAL, ..self }
    }
}

/// The body of a task. Only the scheduler accesses its fields.
///
/// Fields that are read together are neighbours. A balancer examines many tasks and moves few of
/// them: it reads only the first cache line (64 bytes) of the others. The search for a CPU for a
/// woken task reads the same line.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Task {
    pub(crate) id: TaskId,
    /// The number of times it has been enqueued.
    pub(crate) stay: u32,
    pub(crate) group: GroupId,
    /// The effective priority: its own or an inherited one.
    pub(crate) prio: Prio,
    pub(crate) mode: TaskMode,
    pub(crate) is_new: bool,
    pub(crate) engaged: Engaged,
    pub(crate) last_cpu: CpuId,
    /// The CPUs on which it is allowed, limited by its cpuset; `None` means every CPU.
    pub(crate) allowed: Option<Arc<CpuMask>>,
    /// The wall time when it last left a CPU; it tells how cold its cache is.
    pub(crate) last_ran: Instant,
    pub(crate) fair: FairEntity,
    /// The task clock up to which `counters.exec` is charged.
    pub(crate) exec_start: Instant,
    pub(crate) rt: RtEntity,
    pub(crate) dl: DlPart,
    pub(crate) loan: Loan,
    /// The clamps that it asked for itself; those of its group bound them.
    pub(crate) clamp: UtilClamp,
    pub(crate) counters: TaskCounters,
    pub(crate) attr: SchedAttr,
    /// The affinity that it asked for itself.
    pub(crate) affinity: Option<Arc<CpuMask>>,
    /// The destination to which active balance is moving it.
    pub(crate) bound: Option<Bound>,
    pub(crate) cpuset: CpusetId,
}

// A runtime has a hundred thousand tasks that sleep. A larger body needs a reason, and this line.
#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<Task>() <= 344, "the body of a task has become larger");

/// What a task has inherited.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Loan {
    /// Nothing.
    #[default]
    None,
    /// A priority.
    Prio(Prio),
    /// Deadline parameters, which are in its deadline entity.
    Deadline,
}

impl Task {
    /// Returns whether it is allowed to run on a CPU.
    pub(crate) fn may_run_on(&self, cpu: CpuId) -> bool {
        self.allowed.as_ref().is_none_or(|mask| mask.contains(cpu))
    }

    /// Returns the value that it has inherited.
    pub(crate) fn inherited(&self) -> Option<Lent> {
        match self.loan {
            Loan::None => None,
            Loan::Prio(prio) => Some(Lent::Prio(prio)),
            Loan::Deadline => self.dl.inherited.map(|(params, deadline)| Lent::Deadline { params, deadline }),
        }
    }

    /// Sets the value that it has inherited.
    pub(crate) fn set_inherited(&mut self, from: Option<Lent>, faults: Faults) {
        let (loan, params) = match from {
            None => (Loan::None, None),
            Some(Lent::Prio(prio)) => (Loan::Prio(prio), None),
            Some(Lent::Deadline { params, deadline }) => (Loan::Deadline, Some((params, deadline))),
        };
        self.loan = loan;
        match (params, self.dl.get_mut()) {
            (None, None) => {}
            (_, Some(entity)) => entity.inherited = params,
            (Some(_), None) => self.dl.or_new(faults).inherited = params,
        }
    }

    /// Returns the value that it lends to the holder of a lock for which it waits.
    pub(crate) fn lends(&self) -> Lent {
        match (self.prio, self.dl.boost, self.attr) {
            (Prio::DEADLINE, Some(params), _) | (Prio::DEADLINE, None, SchedAttr::Deadline(params)) => {
                Lent::Deadline { params, deadline: self.dl.abs_deadline }
            }
            (prio, _, _) => Lent::Prio(prio),
        }
    }

    /// Returns whether it can be moved to another CPU of `nr_cpus`.
    #[inline(always)]
    pub(crate) fn can_migrate(&self, nr_cpus: usize) -> bool {
        self.engaged == Engaged::No
            && match &self.allowed {
                None => nr_cpus > 1,
                Some(mask) => mask.first() != mask.last(),
            }
    }
}

/// The body of a task that its owner holds. It is not `Clone`: a task is in one place.
#[derive(Debug)]
pub struct Parcel(pub(crate) Box<Task>);

impl Parcel {
    /// Returns the id of the task.
    #[must_use]
    pub const fn id(&self) -> TaskId {
        self.0.id
    }

    /// Returns a copy of the body for a copy of the whole machine: see
    /// [`Scheduler::snapshot`](crate::Scheduler::snapshot).
    #[must_use]
    pub fn snapshot(&self) -> Self {
        Self(self.0.clone())
    }

    /// Returns the effective priority.
    #[must_use]
    pub const fn prio(&self) -> Prio {
        self.0.prio
    }

    /// Returns the value that the task lends to the holder of a lock for which it waits.
    #[must_use]
    pub fn lends(&self) -> Lent {
        self.0.lends()
    }

    /// Returns the scheduling attributes of the task.
    #[must_use]
    pub const fn attr(&self) -> SchedAttr {
        self.0.attr
    }

    /// Returns whether its sleeps end in the interrupt of the timer also under PREEMPT_RT: those of
    /// real-time and deadline tasks do (Linux v6.12 `kernel/time/hrtimer.c`,
    /// `__hrtimer_init_sleeper`).
    #[must_use]
    pub const fn has_hard_timers(&self) -> bool {
        !matches!(self.0.attr, SchedAttr::Fair { .. } | SchedAttr::Ext { .. })
    }

    /// Returns the CPU on which it last ran.
    #[must_use]
    pub const fn last_cpu(&self) -> CpuId {
        self.0.last_cpu
    }

    /// Returns the CPUs on which it is allowed; `None` means every CPU.
    #[must_use]
    pub fn allowed(&self) -> Option<Arc<CpuMask>> {
        self.0.allowed.clone()
    }

    /// Returns true if the task is allowed on a CPU.
    #[must_use]
    pub fn may_run_on(&self, cpu: CpuId) -> bool {
        self.0.may_run_on(cpu)
    }

    /// Sets its utilisation clamps (`sched_util_min`, `sched_util_max`).
    pub fn set_clamp(&mut self, clamp: UtilClamp) {
        self.0.clamp = clamp;
    }

    /// Returns its counters.
    #[must_use]
    pub const fn counters(&self) -> TaskCounters {
        self.0.counters
    }
}

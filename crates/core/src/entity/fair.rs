//! [`FairEntity`]: the state of a task or a group in the fair class.
//!
//! ```text
//!           enqueue [1]                dequeue, or finished [2]
//!   Off ------------------> Runnable ---------------------------> Off
//!                            |   ^
//!     blocks with            |   | wakes with lag still
//!     negative lag [3]       v   | negative [4]
//!                        DelayedDequeue -------- picked [2] ----> Off
//! ```
//!
//! A queued entity is either the current entity of its queue or waits on one of the queue's
//! timelines, selected by its [`Standing`]. A *parked* task is runnable but off its queue
//! ([`crate::class::fair::bandwidth`]).

use crate::entity::pelt::Average;
use crate::entity::vtime::{Vlag, Vtime};
use crate::entity::weight::{LoadWeight, Weight};
use crate::words::ids::Slot;
use core::num::NonZeroU32;
use zerolag_model::{CpuId, Duration, FairPolicy, SchedAttr};

/// The index of a fair queue of this CPU; 0 is the root.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct QueueIx(pub(crate) u32);

impl QueueIx {
    pub(crate) const ROOT: Self = Self(0);

    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The reference frame of a vruntime: one life of one queue on one CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct VruntimeFrame {
    pub(crate) cpu: u32,
    pub(crate) life: u32,
}

/// A task or a group, by its place in the run queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum EntityRef {
    /// A task, by its slot.
    Task(Slot),
    /// A group, by the queue that it owns on this CPU.
    Group(QueueIx),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FairState {
    /// Not queued.
    Off,
    /// Queued and runnable.
    Runnable,
    /// Blocked, and queued only until its negative lag is repaid.
    DelayedDequeue,
    /// Off its queue because its group is throttled; listed at the throttled queue `at`.
    Parked { at: QueueIx },
}

/// The precedence of an entity among the waiting entities of its queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Standing {
    /// Ordered by the algorithm.
    #[default]
    Ordinary,
    /// Before the ordinary entities of its queue: a task that must leave the kernel, or a group
    /// that contains one.
    Boosted,
    /// A task that must leave the kernel. It is ordered by the algorithm; its groups are not
    /// detached.
    Spared,
}

/// What an entity has of its request (EEVDF), besides its end: one thing while it is off a queue,
/// another one while it is current.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Claim {
    /// Nothing.
    None,
    /// It is off a queue and continues its request: the remaining part.
    Left(Vlag),
    /// It keeps the CPU until this virtual time while it is eligible (`RUN_TO_PARITY`): the end of
    /// the request for which it was picked, or of the shortest one ([`crate::queue::fair::slice`]).
    Protected(Vtime),
}

/// The fair state of an entity, during a stay on a queue and between two stays.
///
/// Its fields are in the order of their use: those that a balancer looks at come first.
#[derive(Clone, Debug)]
#[repr(C)]
pub(crate) struct FairEntity {
    pub(crate) state: FairState,
    /// Its queue, or the last one. With `fair_hierarchy = flat` that of every task is the root's;
    /// that of its group is [`Rq::group_queue`](crate::rq::run_queue::Rq::group_queue).
    pub(crate) queue: QueueIx,
    pub(crate) standing: Standing,
    /// Whether it yields to every entity that is not idle (SCHED_IDLE, `cpu.idle`).
    pub(crate) is_idle: bool,
    /// Whether a queued task counts as idle, so that its CPU is not considered busy: it has policy
    /// SCHED_IDLE, or a group above it was idle when it was enqueued.
    pub(crate) counts_as_idle: bool,
    /// Whether the slice is set by the user (`sched_setattr` runtime).
    pub(crate) has_custom_slice: bool,
    pub(crate) load: LoadWeight,
    /// Its node on the timeline; `None` while it is current or off a queue.
    pub(crate) node: Option<NodeIx>,
    pub(crate) vruntime: Vtime,
    /// The end of the current request in virtual time (EEVDF). While off a queue: the
    /// `min_vruntime` of that queue when it left (CFS).
    pub(crate) virtual_deadline: Vtime,
    /// While off a queue: the lag with which it left, in virtual time (EEVDF).
    pub(crate) vlag: Vlag,
    pub(crate) claim: Claim,
    /// The size of a request.
    pub(crate) slice: Duration,
    /// The decaying averages of its load, runnable time and utilisation.
    pub(crate) average: Average,
    /// The time that it has run since it was picked.
    pub(crate) ran: Duration,
    /// The queue that includes its averages, while it is queued or sleeps.
    pub(crate) attached: Option<Attached>,
    /// While off a queue: the reference frame of its vruntime (CFS).
    pub(crate) frame: Option<VruntimeFrame>,
    /// The estimated utilisation, on machines with CPUs of different capacity.
    pub(crate) estimate: Estimate,
}

impl Default for FairEntity {
    fn default() -> Self {
        Self {
            vruntime: Vtime::ZERO,
            virtual_deadline: Vtime::ZERO,
            vlag: Vlag::ZERO,
            claim: Claim::None,
            load: LoadWeight::of_task(Weight::NICE_0),
            slice: Duration::ZERO,
            ran: Duration::ZERO,
            frame: None,
            state: FairState::Off,
            standing: Standing::Ordinary,
            node: None,
            queue: QueueIx::ROOT,
            average: Average::default(),
            estimate: Estimate::default(),
            attached: None,
            is_idle: false,
            counts_as_idle: false,
            has_custom_slice: false,
        }
    }
}

impl FairEntity {
    pub(crate) const fn is_queued(&self) -> bool {
        match self.state {
            FairState::Off | FairState::Parked { .. } => false,
            FairState::Runnable | FairState::DelayedDequeue => true,
        }
    }

    pub(crate) const fn is_delayed(&self) -> bool {
        matches!(self.state, FairState::DelayedDequeue)
    }

    /// Returns the number of runnable tasks that a task's entity represents: 1 or 0.
    pub(crate) const fn runnable_task(&self) -> u32 {
        matches!(self.state, FairState::Runnable) as u32
    }

    pub(crate) const fn is_parked(&self) -> bool {
        matches!(self.state, FairState::Parked { .. })
    }

    /// Sets weight, slice and idleness from a task's attributes. The entity must not be queued.
    /// Its lag has followed a change of them ([`follow`](Self::follow)). With one queue of all
    /// tasks its weight depends on the others of its group, too, and is set later.
    pub(crate) fn obey(&mut self, attr: SchedAttr, base_slice: Duration, is_flat: bool) {
        let SchedAttr::Fair { policy, nice, slice } = attr else { return };
        let weight = Weight::of_policy(policy, nice);
        if !is_flat && u64::from(weight.value()) != self.load.value() {
            self.load = LoadWeight::of_task(weight);
        }
        self.is_idle = policy == FairPolicy::Idle;
        self.has_custom_slice = slice.is_some();
        self.slice = slice.unwrap_or(base_slice);
    }

    /// Scales what is saved of a task in the fair class whose attributes change, as
    /// [`reweigh`](Self::reweigh) does. A task of another class whose attributes change keeps it:
    /// the weight is then set alone. A SCHED_IDLE task that leaves the class gets the weight of its
    /// nice level. With one queue of all tasks the weight there is another one, and changes later.
    /// The rest of its request is scaled only `with_request`.
    ///
    /// Linux v6.12 `kernel/sched/core.c`, `set_load_weight`, before the class changes
    /// (`__sched_setscheduler`).
    pub(crate) fn follow(&mut self, before: SchedAttr, after: SchedAttr, with_request: bool) {
        let SchedAttr::Fair { nice, .. } = before else { return };
        let new = match after {
            SchedAttr::Fair { .. } | SchedAttr::Ext { .. } => own_weight(after),
            SchedAttr::Rt { .. } | SchedAttr::Deadline(_) => Weight::from_nice(nice),
        };
        let (old, new) = (own_weight(before).value().into(), new.value().into());
        match with_request {
            true => self.rescale(old, new),
            false => self.vlag = self.vlag.mul_div(old, new),
        }
    }

    /// Changes the weight of an entity that is off its queue. Lag is service, so saved virtual
    /// times are scaled by the ratio of the weights (Linux v6.12 `fair.c`, `reweight_entity`).
    pub(crate) fn reweigh(&mut self, load: LoadWeight) {
        self.rescale(self.load.fine(), load.fine());
        self.load = load;
    }

    fn rescale(&mut self, old: u64, new: u64) {
        self.vlag = self.vlag.mul_div(old, new);
        if let Claim::Left(left) = &mut self.claim {
            *left = left.mul_div(old, new);
        }
    }
}

/// The recent utilisation of a task, kept while its average decays: `util_est`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Estimate(pub(crate) u32);

impl Estimate {
    /// Returns the estimate after a turn that ended with these averages of util and runnable time.
    /// It rises at once and falls by a quarter of the difference, but not if the task waited much.
    /// Linux: `util_est_update`.
    pub(crate) fn after(self, util: u64, runnable: u64) -> Self {
        const MARGIN: u64 = 10; // 1 % of 1024.
        let old = u64::from(self.0);
        if old <= util {
            return Self(util as u32);
        }
        let less = old - util;
        if less < MARGIN || util + MARGIN < runnable {
            return self;
        }
        Self(((old * 4 - less) / 4) as u32)
    }

    /// Returns the utilisation to expect of a task with this average: the average or the estimate,
    /// the larger one.
    pub(crate) fn at_least(self, util: u64) -> u64 {
        util.max(u64::from(self.0))
    }
}

/// Returns the weight that a task has in its group.
pub(crate) const fn own_weight(attr: SchedAttr) -> Weight {
    match attr {
        SchedAttr::Fair { policy, nice, .. } => Weight::of_policy(policy, nice),
        SchedAttr::Rt { .. } | SchedAttr::Deadline(_) | SchedAttr::Ext { .. } => Weight::NICE_0,
    }
}

/// Returns whether a task has policy SCHED_IDLE.
pub(crate) const fn is_idle_policy(attr: SchedAttr) -> bool {
    matches!(attr, SchedAttr::Fair { policy: FairPolicy::Idle, .. })
}

/// The queue to which an entity's averages are attached: a life of a queue on a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Attached {
    pub(crate) cpu: CpuId,
    pub(crate) queue: QueueIx,
    pub(crate) life: u32,
}

/// The index of a timeline node. Index 0 is never used, so that an absent node costs no space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NodeIx(pub(crate) NonZeroU32);

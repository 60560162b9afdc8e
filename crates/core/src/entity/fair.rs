//! [`FairEntity`]: what a task or a group carries for the fair class.
//!
//! ```text
//!           enqueue [1]                dequeue, or finished [2]
//!   Off ------------------> Runnable ---------------------------> Off
//!                            |   ^
//!     blocks while it owes   |   | wakes before it has paid [4]
//!     service [3]            v   |
//!                        DelayedDequeue -------- picked [2] ----> Off
//! ```
//!
//! A queued entity is either the current one of its queue or waits on one of the queue's timelines,
//! by its [`Standing`]. A task that is *parked* is runnable but off its queue
//! ([`super::bandwidth`]).

use crate::entity::pelt::Average;
use crate::entity::vtime::{Vlag, Vtime};
use crate::entity::weight::{LoadWeight, Weight};
use crate::words::ids::Slot;
use core::num::NonZeroU32;
use zerolag_model::{CpuId, Duration, FairPolicy, SchedAttr};

/// A queue of this CPU's fair class; 0 is the root.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct QueueIx(pub(crate) u32);

impl QueueIx {
    pub(crate) const ROOT: Self = Self(0);

    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// What a vruntime is relative to: one life of one queue on one CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Frame {
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
    /// Queued and wants to run.
    Runnable,
    /// Queued only until the service that it owes is paid.
    DelayedDequeue,
    /// Off its queue because its group may not run; it waits at the queue that is throttled.
    Parked { at: QueueIx },
}

/// Before whom an entity is picked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Standing {
    /// As the algorithm has it.
    #[default]
    Ordinary,
    /// Before the ordinary ones of its queue: a task that must leave the kernel, or a group that
    /// has one.
    Boosted,
}

/// What is kept of an entity between two stays on a queue, and where it is during one.
#[derive(Clone, Debug)]
pub(crate) struct FairEntity {
    pub(crate) vruntime: Vtime,
    /// End of the current request in virtual time (EEVDF).
    pub(crate) virtual_deadline: Vtime,
    /// While off a queue: how far behind the average it was when it left (EEVDF).
    pub(crate) vlag: Vlag,
    /// While off a queue: how much of its request was left, if it is to go on with it (EEVDF).
    pub(crate) request_left: Option<Vlag>,
    /// Up to where in its virtual time only an ineligible entity gives way (`RUN_TO_PARITY`): the
    /// end of the request that it was picked for, or of the shortest one ([`super::slice`]).
    pub(crate) protected: Option<Vtime>,
    pub(crate) load: LoadWeight,
    /// The size of a request.
    pub(crate) slice: Duration,
    /// Time run since it was picked.
    pub(crate) ran: Duration,
    /// While off a queue: the reference of its vruntime (CFS).
    pub(crate) frame: Option<Frame>,
    /// While off a queue: that queue's `min_vruntime` when it left (CFS).
    pub(crate) left_at: Vtime,
    pub(crate) state: FairState,
    pub(crate) standing: Standing,
    /// Where it waits; `None` while it is current or off.
    pub(crate) node: Option<NodeIx>,
    /// The queue that it is on, or was on last.
    pub(crate) queue: QueueIx,
    /// What it has lately been.
    pub(crate) average: Average,
    /// What it has needed of late, on machines whose CPUs differ.
    pub(crate) estimate: Estimate,
    /// The queue in whose averages its own are counted, while it is queued or sleeps.
    pub(crate) attached: Option<Attached>,
    /// Whether it gives way to everything that is not idle (SCHED_IDLE, `cpu.idle`).
    pub(crate) is_idle: bool,
    /// Whether a queued task counts as nothing that keeps a CPU busy: it is idle, or a group that
    /// it is in was when it joined.
    pub(crate) counts_as_idle: bool,
    /// Whether its slice is its own (`sched_setattr` runtime).
    pub(crate) has_custom_slice: bool,
}

impl Default for FairEntity {
    fn default() -> Self {
        Self {
            vruntime: Vtime::ZERO,
            virtual_deadline: Vtime::ZERO,
            vlag: Vlag::ZERO,
            request_left: None,
            protected: None,
            load: LoadWeight::of_task(Weight::NICE_0),
            slice: Duration::ZERO,
            ran: Duration::ZERO,
            frame: None,
            left_at: Vtime::ZERO,
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

    /// Returns how many tasks want to run by it if it is a task: itself, or none.
    pub(crate) const fn runnable_task(&self) -> u32 {
        matches!(self.state, FairState::Runnable) as u32
    }

    pub(crate) const fn is_parked(&self) -> bool {
        matches!(self.state, FairState::Parked { .. })
    }

    /// Reads weight, slice and idleness from what the task asks for. It must not be queued.
    pub(crate) fn obey(&mut self, attr: SchedAttr, base_slice: Duration) {
        let SchedAttr::Fair { policy, nice, slice } = attr else { return };
        let weight = Weight::of_policy(policy, nice);
        if weight != self.load.weight() {
            self.reweigh(LoadWeight::of_task(weight));
        }
        self.is_idle = policy == FairPolicy::Idle;
        self.has_custom_slice = slice.is_some();
        self.slice = slice.unwrap_or(base_slice);
    }

    /// Changes the weight of an entity that is off its queue: lag is service, so what is kept in
    /// virtual time is scaled by the ratio of the weights (Linux v6.12 `fair.c`,
    /// `reweight_entity`).
    pub(crate) fn reweigh(&mut self, load: LoadWeight) {
        let (old, new) = (self.load.value(), load.value());
        self.vlag = self.vlag.mul_div(old, new);
        self.request_left = self.request_left.map(|left| left.mul_div(old, new));
        self.load = load;
    }
}

/// What a task has needed of late, kept while its util decays: `util_est`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Estimate(pub(crate) u32);

impl Estimate {
    /// Returns the estimate after a turn that ended with these averages of util and of wanting to
    /// run: up at once, down by a quarter of the difference, and not at all if it waited much.
    /// `util_est_update`.
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

    /// Returns what a task needs whose util is this.
    pub(crate) fn at_least(self, util: u64) -> u64 {
        util.max(u64::from(self.0))
    }
}

/// Returns whether a task weighs only what is left over.
pub(crate) const fn is_idle_policy(attr: SchedAttr) -> bool {
    matches!(attr, SchedAttr::Fair { policy: FairPolicy::Idle, .. })
}

/// Where an entity's averages are counted: a life of a queue on a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Attached {
    pub(crate) cpu: CpuId,
    pub(crate) queue: QueueIx,
    pub(crate) life: u32,
}

/// A node of the arena. Place 0 is never used, so that an absent node costs no space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NodeIx(pub(crate) NonZeroU32);

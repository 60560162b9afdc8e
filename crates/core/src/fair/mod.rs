//! The fair class: SCHED_OTHER, SCHED_BATCH, SCHED_IDLE, and groups of them, on one CPU. Where a task is put is decided
//! in [`select`], what moves between CPUs in [`balance`]; how it joins and leaves a queue in [`mod@enqueue`], who runs and for
//! how long in [`run`], who preempts whom in [`preempt`].
//!
//! Tasks and groups are *entities*; each [`queue`] holds the entities of one group on this CPU, and a group's queue is
//! itself an entity of its parent's. Picking goes down from the root, one entity per level; charging and queueing go up
//! from the task. What orders a queue is one of two algorithms: [`eevdf`] or [`cfs`].
//!
//! ```text
//!   root queue:    task  task  group A  group B          current: A
//!                               |        |
//!   A's queue:            task  task     task  group C   current: a task of A
//! ```
//!
//! The entities on the way from the root to the running task are each *current* in their queue and are not on its
//! timeline. A switch within a group leaves the entities above as they are: they have not been picked anew.
//!
//! Every entry point is O(depth x log n). Nothing is allocated once the arenas have grown to what is queued at most.
//!
//! Sources: Linux v6.12 and v6.1 `kernel/sched/fair.c` (see the modules).

pub(crate) mod balance;
pub(crate) mod bandwidth;
pub(crate) mod capacity;
mod cfs;
mod check;
mod control;
mod delay;
mod eevdf;
mod enqueue;
mod entity;
pub(crate) mod group;
mod imbalance;
pub(crate) mod load;
mod member;
pub(crate) mod misfit;
pub(crate) mod newidle;
pub(crate) mod pelt;
mod preempt;
mod queue;
mod recency;
pub(crate) mod recent_used;
mod run;
pub(crate) mod select;
pub(crate) mod sis_prop;
mod slice;
mod timeline;
mod vtime;
pub(crate) mod wakers;
mod weight;

pub(crate) use delay::{finish_delayed, finish_if_only_delayed, is_delayed, wake_delayed};
pub(crate) use enqueue::{dequeue, enqueue};
pub(crate) use entity::FairEntity;
pub use group::{GroupError, Idleness};
pub(crate) use preempt::check_preempt;
pub(crate) use run::{charge, pick, put_prev, set_next, tick, yield_current};
pub use weight::Weight;

use crate::config::Config;
use crate::rq::Rq;
use crate::slab::Slot;
use crate::step::Resched;
use alloc::vec::Vec;
use entity::EntityRef;
use queue::{Frame, Queue, QueueIx};
use recency::Recency;
use timeline::Timeline;
use zerolag_model::settings::{FairAlgorithm, Grain, SliceProtection, Throttle};
use zerolag_model::{CpuId, Duration, GroupId, SchedAttr};

/// The fair class's part of a run queue.
#[derive(Debug)]
pub(crate) struct FairRq {
    tune: Tunables,
    timeline: Timeline,
    /// Queue 0 is the root's.
    queues: Vec<Queue>,
    /// Places in `queues` that are free.
    free: Vec<QueueIx>,
    /// Queues of groups, live or at rest, by id.
    by_group: Vec<(GroupId, QueueIx)>,
    /// Queues of groups that have nothing here, longest first.
    resting: Vec<QueueIx>,
    /// Queues made so far.
    lives: u32,
    /// Whether a charge found that the current task's turn is over.
    due: Resched,
    /// Whether the queue of any group has ever had a limit: if not, nothing is throttled or boosted.
    has_limits: bool,
    /// Queues of groups that are out of quota.
    nr_throttled: u32,
    /// Tasks in them, which do not count as running.
    pub(crate) nr_apart: u32,
    recency: Recency,
    balance: balance::BalanceState,
    newidle: newidle::NewIdle,
    pressure: capacity::Pressure,
    /// On machines whose CPUs differ.
    asymmetric: Option<misfit::Asymmetric>,
}

/// The settings that the paths read, scaled for the machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tunables {
    algorithm: FairAlgorithm,
    enforce: Grain,
    base_slice: Duration,
    /// The base slice before scaling.
    quantum: Duration,
    latency: Duration,
    min_granularity: Duration,
    wakeup_granularity: Duration,
    tick: Duration,
    nr_latency: u64,
    run_to_parity: bool,
    protection: SliceProtection,
    group_min_slice: bool,
    preempt_short: bool,
    place_lag: bool,
    keep_requests: bool,
    delay_dequeue: bool,
    wakeup_preemption: bool,
    yield_forfeits: bool,
    /// Whether averages are kept (`load_tracking = pelt`, more than one CPU).
    tracks_load: bool,
    throttle: Throttle,
}

/// Why an entity joins a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Join {
    Wakeup,
    New,
    /// It was taken off while runnable.
    Back,
}

impl FairRq {
    pub(crate) fn new(cpu: CpuId, config: &Config) -> Self {
        let settings = &config.settings;
        let tune = Tunables {
            algorithm: settings.fair,
            enforce: settings.enforce_fair,
            base_slice: config.scaled(settings.base_slice),
            quantum: settings.base_slice,
            latency: config.scaled(settings.latency),
            min_granularity: config.scaled(settings.min_granularity),
            wakeup_granularity: config.scaled(settings.wakeup_granularity),
            tick: settings.tick_period(),
            nr_latency: settings.latency.as_nanos().div_ceil(settings.min_granularity.as_nanos().max(1)),
            run_to_parity: settings.run_to_parity,
            protection: settings.slice_protection,
            group_min_slice: settings.group_min_slice && settings.fair == FairAlgorithm::Eevdf,
            preempt_short: settings.preempt_short,
            place_lag: settings.place_lag,
            keep_requests: settings.place_rel_deadline,
            delay_dequeue: settings.delay_dequeue,
            wakeup_preemption: settings.wakeup_preemption,
            yield_forfeits: settings.yield_forfeits,
            throttle: settings.throttle,
            tracks_load: settings.tracks_load() && config.topology.nr_cpus() > 1,
        };
        let mut queues = Vec::with_capacity(8);
        queues.push(Queue::new(GroupId::ROOT, 1, None, Frame { cpu: u32::MAX, life: 0 }));
        Self {
            tune,
            timeline: Timeline::with_capacity(config.queue_reserve),
            queues,
            free: Vec::with_capacity(8),
            by_group: Vec::with_capacity(8),
            resting: Vec::with_capacity(group::RESTING_MAX),
            lives: 0,
            due: Resched::No,
            has_limits: false,
            nr_throttled: 0,
            nr_apart: 0,
            recency: Recency::with_capacity(config.queue_reserve),
            balance: balance::BalanceState::new(config),
            newidle: newidle::NewIdle::new(config),
            pressure: capacity::Pressure::default(),
            asymmetric: misfit::Asymmetric::new(config, cpu).filter(|_| tune.tracks_load),
        }
    }

    fn root(&self) -> &Queue {
        &self.queues[0]
    }

    /// Returns whether averages are kept.
    pub(crate) const fn tracks_load(&self) -> bool {
        self.tune.tracks_load
    }

    /// Returns the sum of the weights of the root's entities.
    pub(crate) fn load(&self) -> u64 {
        self.root().load
    }

    /// Returns the tasks that want to run and may, the current one included.
    pub(crate) fn nr_running(&self) -> u32 {
        self.root().tally.runnable
    }

    /// Returns the blocked tasks that stay queued until their lag is paid.
    pub(crate) fn nr_delayed(&self) -> u32 {
        self.root().tally.delayed
    }

    /// Returns the tasks of policy SCHED_IDLE that want to run, the current one included.
    pub(crate) fn nr_idle_policy(&self) -> u32 {
        self.root().tally.idle_policy
    }
}

impl Rq {
    fn entity(&self, entity: EntityRef) -> &FairEntity {
        match entity {
            EntityRef::Task(slot) => &self.tasks[slot].fair,
            EntityRef::Group(q) => &self.fair.queues[q.index()].entity,
        }
    }

    fn entity_mut(&mut self, entity: EntityRef) -> &mut FairEntity {
        match entity {
            EntityRef::Task(slot) => &mut self.tasks[slot].fair,
            EntityRef::Group(q) => &mut self.fair.queues[q.index()].entity,
        }
    }

    fn queue(&self, q: QueueIx) -> &Queue {
        &self.fair.queues[q.index()]
    }

    fn queue_mut(&mut self, q: QueueIx) -> &mut Queue {
        &mut self.fair.queues[q.index()]
    }
}

/// Returns the load that a queued task has on this CPU, its groups considered: its part of the root queue's.
/// O(depth). Linux `task_h_load`.
pub(crate) fn task_load(rq: &mut Rq, slot: Slot) -> u64 {
    let tracks_load = rq.fair.tune.tracks_load;
    let (mut entity, mut q) = (EntityRef::Task(slot), rq.tasks[slot].fair.queue);
    let mut load = 1_u64 << 20;
    loop {
        rq.age_queue(q);
        rq.age_entity(q, entity);
        let (queue, part) = (rq.queue(q), rq.entity(entity));
        let (of_queue, of_part) = if tracks_load {
            (queue.average.load + 1, part.average.load)
        } else {
            (queue.load.max(1), part.load.value())
        };
        let Some(parent) = queue.parent else {
            // Of the root's own load; what is left over is rounded down once.
            let all = if tracks_load { queue.average.load } else { of_queue };
            let parts = u128::from(load) * u128::from(of_part) * u128::from(all) / u128::from(of_queue);
            return (parts >> 20) as u64;
        };
        load = load * of_part / of_queue;
        (entity, q) = (EntityRef::Group(q), parent);
    }
}

/// Returns whether a task weighs only what is left over.
pub(crate) const fn is_idle_policy(attr: SchedAttr) -> bool {
    matches!(attr, SchedAttr::Fair { policy: zerolag_model::FairPolicy::Idle, .. })
}

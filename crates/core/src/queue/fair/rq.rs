//! [`FairRq`]: the fair class's part of a run queue. It holds the queues, one arena of timeline
//! nodes, and the settings that hot paths read.

use crate::entity::fair::{QueueIx, VruntimeFrame};
use crate::queue::fair::asymmetric::Asymmetric;
use crate::queue::fair::balance::BalanceState;
use crate::queue::fair::by_group::ByGroup;
use crate::queue::fair::newidle::NewIdle;
use crate::queue::fair::pressure::Pressure;
use crate::queue::fair::queue::Queue;
use crate::queue::fair::recency::Recency;
use crate::queue::fair::resting::Resting;
use crate::queue::fair::timeline::Timeline;
use crate::words::config::Config;
use crate::words::level::FULL_CAPACITY;
use crate::words::resched::Resched;
use crate::words::unpublished::Unpublished;
use alloc::vec::Vec;
use zerolag_model::settings::{FairAlgorithm, LagLimit, SliceProtection, Throttle, ThrottleAt, TimerGrain};
use zerolag_model::{CpuId, Duration, GroupId, Instant};

/// The fair class's part of a run queue.
///
/// What only groups and searches for work need comes last.
#[derive(Clone, Debug)]
#[repr(C)]
pub(crate) struct FairRq {
    pub(crate) cpu: CpuId,
    /// The published fields that may be out of date.
    pub(crate) changed: Unpublished,
    /// Whether a charge found that the current task's turn is over.
    pub(crate) due: Resched,
    /// Whether the timer of `enforce.fair = hrtick` is set.
    pub(crate) has_hrtick: bool,
    /// Whether the queue of any group has ever had a limit. If not, nothing is throttled or
    /// boosted.
    pub(crate) has_limits: bool,
    /// The number of group queues that are out of quota.
    pub(crate) nr_throttled: u32,
    /// With `fair_hierarchy = flat`: the queue of the group of the task that was switched to last.
    pub(crate) last_group_queue: QueueIx,
    /// The number of tasks in those queues; they do not count as running.
    pub(crate) nr_apart: u32,
    /// The task clock from which on a tick looks how far the references of virtual time are behind.
    pub(crate) references_due: Instant,
    pub(crate) tune: Tunables,
    /// The queues; queue 0 belongs to the root group.
    pub(crate) queues: Vec<Queue>,
    pub(crate) timeline: Timeline,
    pub(crate) recency: Recency,
    pub(crate) balance: BalanceState,
    pub(crate) pressure: Pressure,
    /// The state for CPUs of different capacity; `None` if all CPUs are equal.
    pub(crate) asymmetric: Option<Asymmetric>,
    pub(crate) newidle: NewIdle,
    /// Queues of groups, live or resting.
    pub(crate) by_group: ByGroup,
    /// The number of queues created so far.
    pub(crate) lives: u32,
    /// How often a task has been parked so far: the order in which they are taken back.
    pub(crate) nr_parks: i64,
    /// Queues of groups without entities on this CPU.
    pub(crate) resting: Resting,
    /// Unused places in `queues`.
    pub(crate) free: Vec<QueueIx>,
}

/// The settings that hot paths read, scaled for the machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tunables {
    pub(crate) algorithm: FairAlgorithm,
    pub(crate) enforce: TimerGrain,
    pub(crate) base_slice: Duration,
    /// The base slice before scaling.
    pub(crate) quantum: Duration,
    pub(crate) latency: Duration,
    pub(crate) min_granularity: Duration,
    pub(crate) wakeup_granularity: Duration,
    pub(crate) tick: Duration,
    pub(crate) nr_latency: u64,
    pub(crate) run_to_parity: bool,
    pub(crate) protection: SliceProtection,
    pub(crate) group_min_slice: bool,
    pub(crate) preempt_short: bool,
    pub(crate) place_lag: bool,
    pub(crate) keep_requests: bool,
    pub(crate) delay_dequeue: bool,
    pub(crate) wakeup_preemption: bool,
    /// Whether CFS prefers every woken task.
    pub(crate) next_buddy: bool,
    pub(crate) last_buddy: bool,
    pub(crate) wakeup_past_delayed: bool,
    pub(crate) wakeup_ends_protection: bool,
    pub(crate) short_wakeup_first: bool,
    pub(crate) pick_buddy: bool,
    pub(crate) wakeup_after_buddy: bool,
    pub(crate) buddy_before_short: bool,
    pub(crate) lag_limit: LagLimit,
    pub(crate) delayed_debt_shrinks: bool,
    pub(crate) yield_forfeits: bool,
    /// Whether averages are maintained (`load_tracking = pelt` and more than one CPU).
    pub(crate) tracks_load: bool,
    pub(crate) throttle: Throttle,
    /// Whether the tasks of all groups are on the root's queue (`fair_hierarchy = flat`).
    pub(crate) is_flat: bool,
    /// Whether tasks are moved to the cache that their process prefers (`llc_balancing`).
    pub(crate) gathers: bool,
    /// Whether a tick of a fair task has more to do than its charge: what `gathers` needs, or
    /// `throttle_at = charge`.
    pub(crate) ticks_further: bool,
    /// Whether the tick of a task of the root's queue is a plain one
    /// ([`crate::entry::plain_tick`]).
    pub(crate) ticks_plainly: bool,
}

/// Why an entity joins a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Join {
    Wakeup,
    New,
    /// It was dequeued while runnable.
    Back,
}

impl FairRq {
    #[expect(clippy::too_many_lines, reason = "one line per field")]
    pub(crate) fn new(cpu: CpuId, config: &Config) -> Self {
        let gathers = config.gathers();
        let settings = &config.settings;
        let tracks_load = settings.tracks_load() && config.topology.nr_cpus() > 1;
        let is_flat = config.is_flat();
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
            next_buddy: settings.next_buddy && settings.fair == FairAlgorithm::Cfs,
            last_buddy: settings.last_buddy,
            wakeup_past_delayed: settings.wakeup_past_delayed,
            wakeup_ends_protection: settings.wakeup_ends_protection && settings.fair == FairAlgorithm::Eevdf,
            short_wakeup_first: settings.short_wakeup_first
                && settings.preempt_short
                && settings.fair == FairAlgorithm::Eevdf,
            pick_buddy: settings.pick_buddy && settings.fair == FairAlgorithm::Eevdf,
            wakeup_after_buddy: settings.pick_buddy && settings.wakeup_after_buddy,
            buddy_before_short: settings.buddy_before_short,
            lag_limit: settings.lag_limit,
            delayed_debt_shrinks: settings.delayed_debt_shrinks,
            yield_forfeits: settings.yield_forfeits,
            throttle: settings.throttle,
            is_flat,
            tracks_load,
            gathers,
            ticks_further: gathers
                || settings.throttle == Throttle::Immediate && settings.throttle_at == ThrottleAt::Charge,
            ticks_plainly: tracks_load
                && !gathers
                && !is_flat
                && settings.fair == FairAlgorithm::Eevdf
                && settings.enforce_fair != TimerGrain::Exact,
        };
        let groups = Resting::room(config);
        let mut queues = Vec::with_capacity(1 + groups);
        queues.push(Queue::new(GroupId::ROOT, 1, None, VruntimeFrame { cpu: u32::MAX, life: 0 }));
        Self {
            cpu,
            changed: Unpublished::NONE,
            tune,
            timeline: Timeline::with_capacity(config.queue_reserve),
            queues,
            free: Vec::with_capacity(groups),
            by_group: ByGroup::with_capacity(groups),
            resting: Resting::new(config),
            nr_parks: 0,
            lives: 0,
            due: Resched::No,
            references_due: Instant::ZERO,
            last_group_queue: QueueIx::ROOT,
            has_hrtick: false,
            has_limits: false,
            nr_throttled: 0,
            nr_apart: 0,
            recency: Recency::with_capacity(config.queue_reserve),
            balance: BalanceState::new(config),
            newidle: NewIdle::new(config, cpu),
            pressure: Pressure::default(),
            asymmetric: Asymmetric::new(config, cpu).filter(|_| tune.tracks_load),
        }
    }

    pub(crate) fn queue(&self, q: QueueIx) -> &Queue {
        &self.queues[q.index()]
    }

    pub(crate) fn queue_mut(&mut self, q: QueueIx) -> &mut Queue {
        &mut self.queues[q.index()]
    }

    /// Returns the queue of a group that has one here.
    pub(crate) fn queue_of_group(&self, group: GroupId) -> QueueIx {
        if group == GroupId::ROOT {
            return QueueIx::ROOT;
        }
        self.by_group.get(group).expect("invariant: the group of a task here has a queue")
    }

    fn root(&self) -> &Queue {
        &self.queues[0]
    }

    /// Returns whether averages are maintained.
    pub(crate) const fn tracks_load(&self) -> bool {
        self.tune.tracks_load
    }

    /// Returns the sum of the weights of the root's entities.
    pub(crate) fn load(&self) -> u64 {
        self.root().load.whole()
    }

    /// Returns the number of runnable tasks that are allowed to run, including the current one.
    pub(crate) fn nr_running(&self) -> u32 {
        self.root().tally.runnable
    }

    /// Returns the number of queued tasks that are not throttled, including those that stay queued
    /// only to repay negative lag.
    #[inline]
    pub(crate) fn nr_queued(&self) -> u32 {
        let tally = self.root().tally;
        tally.runnable + tally.delayed
    }

    /// Returns the number of blocked tasks that stay queued until their negative lag is repaid.
    pub(crate) fn nr_delayed(&self) -> u32 {
        self.root().tally.delayed
    }

    /// Returns the number of runnable SCHED_IDLE tasks, including the current one.
    pub(crate) fn nr_idle_policy(&self) -> u32 {
        self.root().tally.idle_policy
    }

    /// Returns the capacity of this CPU.
    pub(crate) fn full_capacity(&self) -> u64 {
        self.asymmetric.as_ref().map_or(FULL_CAPACITY, |uneven| uneven.capacity)
    }
}

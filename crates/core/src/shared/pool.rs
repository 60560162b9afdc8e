//! [`Pool`]: the quota of one group that no CPU has taken yet, and the CPUs that wait for it.
//!
//! A setting selects where that quota is kept: in one place for all CPUs, or divided over them
//! ([`HardLimits`]). Periods, the list of throttled CPUs and statistics are the same for both.
//!
//! ```text
//!                 take [1]                        refresh, idle, none throttled [3]
//!   Stopped ------------------> Active(fresh) ---------------------------------------> Stopped
//!                                 |      ^
//!                 refresh, none   |      |  take
//!                 throttled [2]   v      |
//!                               Active(idle)
//! ```
//!
//! The period timer runs while the pool is active. The ends of periods stay on their grid while it
//! is stopped. The grid begins at the machine's start, or at a time that the host sets for each
//! group.
//!
//! Everything here is under the group's own lock. It is an inner lock: at most one run queue is
//! locked when it is taken, and no run queue is locked under it. Operations are O(1), except for a
//! search of the list of throttled CPUs, O(throttled CPUs of the group), and the costs of
//! [`HardLimits`].
//!
//! Sources: Linux v6.12 `kernel/sched/fair.c`, `__refill_cfs_bandwidth_runtime`,
//! `__assign_cfs_rq_runtime`, `start_cfs_bandwidth`, `do_sched_cfs_period_timer`,
//! `distribute_cfs_runtime`, `do_sched_cfs_slack_timer`.

use crate::shared::hard_limits::HardLimits;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use zerolag_model::settings::{BandwidthControl, Borrowing};
use zerolag_model::{CpuId, CpuMax, CpuStat, Duration, Instant, Settings, SignedDuration};

/// The slack timer hands out no quota if the period ends within this time
/// (`min_bandwidth_expiration`).
const ENDS_SOON: Duration = Duration::from_millis(2);

/// How long slack is collected before it is handed out (`cfs_bandwidth_slack_period`).
const SLACK_PERIOD: Duration = Duration::from_millis(5);

/// The quota of one group.
#[derive(Clone, Debug)]
pub struct Pool {
    max: CpuMax,
    /// Counts the limits that the group has had.
    epoch: u32,
    quota: FreeQuota,
    /// The end of the current period, or of the last one before the pool was stopped.
    ends: Instant,
    state: PoolState,
    slack: SlackState,
    /// CPUs on which the group's queue is throttled, in the order of throttling.
    throttled: VecDeque<CpuId>,
    stat: CpuStat,
}

/// The quota that no CPU has taken.
#[derive(Clone, Debug)]
enum FreeQuota {
    /// In one place.
    Common {
        /// (`runtime`).
        runtime: Duration,
        /// The runtime after the last refresh (`runtime_snap`).
        filled: Duration,
    },
    /// Divided into a part per CPU.
    ///
    /// Boxed: the row of a group has the size of the usual case.
    Divided(Box<HardLimits>),
}

impl FreeQuota {
    const EMPTY: Self = Self::Common { runtime: Duration::ZERO, filled: Duration::ZERO };

    /// Returns the total. O(CPUs) if it is divided.
    fn total(&self) -> Duration {
        match self {
            Self::Common { runtime, .. } => *runtime,
            Self::Divided(parts) => parts.left(),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum PoolState {
    /// The period timer does not run.
    Stopped,
    /// It runs, and quota was taken in this period.
    Fresh,
    /// It runs, and no quota was taken since the last refresh.
    Idle,
}

/// The timer that hands out returned quota.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum SlackState {
    Stopped,
    Armed,
}

/// A CPU's request for quota.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QuotaRequest {
    /// The amount wanted if there is plenty.
    pub most: Duration,
    /// The amount wanted if there is little. Beyond it, at most a quarter of the remaining quota is
    /// given.
    pub least: Duration,
}

impl QuotaRequest {
    /// Requests as much as there is, up to `amount`.
    #[must_use]
    pub const fn exactly(amount: Duration) -> Self {
        Self { most: amount, least: amount }
    }
}

/// The quota that a CPU got.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TakenQuota {
    /// The amount.
    pub amount: Duration,
    /// The time to arm the period timer for.
    pub arm: Option<Instant>,
    /// The number of CPUs with a part that was examined under its lock.
    pub scanned: u32,
}

impl TakenQuota {
    /// Returns no quota, only a timer to arm.
    pub(crate) const fn nothing(arm: Option<Instant>) -> Self {
        Self { amount: Duration::ZERO, arm, scanned: 0 }
    }
}

/// The result of a refresh: quota to distribute and a timer to arm.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refreshed {
    /// The quota in the pool now.
    pub runtime: Duration,
    /// The time to arm the period timer for.
    pub arm: Option<Instant>,
    /// The first throttled CPU, and how many there are.
    pub first: Option<(CpuId, u32)>,
    /// The number of CPUs with a part that was examined under its lock.
    pub scanned: u32,
}

/// The quota that a throttled CPU gets from the pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Share {
    /// The amount.
    pub amount: Duration,
    /// The next throttled CPU, if there is quota left for it.
    pub next: Option<CpuId>,
    /// The number of CPUs with a part that was examined under its lock.
    pub scanned: u32,
}

impl Pool {
    /// Returns the pool of a group without a limit, on a machine of `cpus` CPUs. O(1), or O(CPUs)
    /// if it is divided.
    #[must_use]
    pub fn new(control: BandwidthControl, cpus: usize) -> Self {
        Self::with(match control {
            BandwidthControl::Pool => FreeQuota::EMPTY,
            BandwidthControl::HardLimits => FreeQuota::Divided(Box::new(HardLimits::new(cpus, Borrowing::Always))),
        })
    }

    /// Returns the pool of a group without a limit as the settings say.
    pub(crate) fn as_set(settings: &Settings, cpus: usize) -> Self {
        match settings.bandwidth {
            BandwidthControl::Pool => Self::new(BandwidthControl::Pool, cpus),
            BandwidthControl::HardLimits => {
                Self::with(FreeQuota::Divided(Box::new(HardLimits::new(cpus, settings.hard_limits_borrow))))
            }
        }
    }

    const fn with(quota: FreeQuota) -> Self {
        Self {
            max: CpuMax::UNLIMITED,
            epoch: 0,
            quota,
            ends: Instant::ZERO,
            state: PoolState::Stopped,
            slack: SlackState::Stopped,
            throttled: VecDeque::new(),
            stat: CpuStat {
                nr_periods: 0,
                nr_throttled: 0,
                throttled: Duration::ZERO,
                nr_bursts: 0,
                burst: Duration::ZERO,
            },
        }
    }

    /// Returns the limit.
    #[must_use]
    pub const fn max(&self) -> CpuMax {
        self.max
    }

    /// Returns the quota that no CPU has taken.
    pub(crate) fn left(&self) -> Duration {
        self.quota.total()
    }

    /// Returns its `cpu.stat`.
    #[must_use]
    pub const fn stat(&self) -> CpuStat {
        self.stat
    }

    /// Returns whether its period timer runs, for checks.
    pub(crate) fn is_active(&self) -> bool {
        self.state != PoolState::Stopped
    }

    /// Returns the CPUs on which the group is throttled, for checks.
    pub(crate) fn throttled(&self) -> impl Iterator<Item = CpuId> + '_ {
        self.throttled.iter().copied()
    }

    /// Returns the number of the current limit; 0 without one.
    pub(crate) const fn limit(&self) -> u32 {
        if self.max.quota.is_some() { self.epoch } else { 0 }
    }

    /// Sets the start of the first period, before the first limit. Linux v6.4 `fair.c`,
    /// `init_cfs_bandwidth`: a random part of the usual period after the machine's start.
    pub(crate) fn set_phase(&mut self, phase: Duration) {
        debug_assert!(self.state == PoolState::Stopped, "a group without a limit");
        self.ends = Instant::ZERO + phase;
    }

    /// Sets a limit and fills the pool, or the part of every CPU.
    pub fn set(&mut self, now: Instant, max: CpuMax) -> Refreshed {
        self.max = max;
        if self.state == PoolState::Stopped {
            // A real machine has been up for many periods when a group gets its limit, even if the
            // clock of the host starts then.
            self.ends = Instant::from_nanos(self.ends.as_nanos() % max.period.as_nanos());
        }
        self.epoch = self.epoch.wrapping_add(1).max(1);
        match &mut self.quota {
            FreeQuota::Common { runtime, .. } if max.quota.is_none() => *runtime = Duration::ZERO,
            FreeQuota::Common { .. } => {}
            FreeQuota::Divided(parts) => parts.divide(max.quota.unwrap_or_default()),
        }
        let scanned = self.fill(0);
        let arm = if max.quota.is_some() { self.start(now) } else { None };
        Refreshed { runtime: self.quota.total(), arm, first: self.first_throttled(), scanned }
    }

    /// Resets the pool of a removed group. The count of limits continues.
    pub(crate) fn clear(&mut self) {
        assert!(self.throttled.is_empty(), "a group without tasks is throttled nowhere");
        let quota = match &mut self.quota {
            FreeQuota::Common { .. } => FreeQuota::EMPTY,
            FreeQuota::Divided(parts) => FreeQuota::Divided(Box::new(parts.forget())),
        };
        *self = Self { epoch: self.epoch, ..Self::with(quota) };
    }

    fn first_throttled(&self) -> Option<(CpuId, u32)> {
        self.throttled.front().map(|cpu| (*cpu, self.throttled.len() as u32))
    }

    /// Adds the quota of one period to the pool, up to quota plus burst. A divided quota is
    /// refilled CPU by CPU. Returns the number of examined CPUs.
    fn fill(&mut self, periods: u64) -> u32 {
        let Some(quota) = self.max.quota else { return 0 };
        match &mut self.quota {
            FreeQuota::Common { runtime, filled } => {
                *runtime += quota;
                let above = filled.saturating_sub(*runtime);
                if !above.is_zero() {
                    self.stat.nr_bursts += 1;
                    self.stat.burst += above;
                }
                *runtime = (*runtime).min(quota + self.max.burst);
                *filled = *runtime;
                0
            }
            FreeQuota::Divided(parts) => parts.refill(periods),
        }
    }

    /// Starts the period timer; returns the time to arm it for if it did not run.
    fn start(&mut self, now: Instant) -> Option<Instant> {
        if self.state != PoolState::Stopped {
            return None;
        }
        self.state = PoolState::Fresh; // [1]
        self.forward(now);
        Some(self.ends)
    }

    /// Moves the end of the period past `now`, by whole periods; returns their number.
    fn forward(&mut self, now: Instant) -> u64 {
        if now < self.ends {
            return 0;
        }
        let periods = now.since(self.ends) / self.max.period + 1;
        self.ends += self.max.period * periods;
        periods
    }

    /// Takes quota for a CPU.
    pub fn take(&mut self, now: Instant, cpu: CpuId, want: QuotaRequest) -> TakenQuota {
        if self.max.quota.is_none() {
            return TakenQuota { amount: want.most, arm: None, scanned: 0 };
        }
        let arm = self.start(now);
        let (amount, scanned) = self.draw(cpu, want);
        if !amount.is_zero() {
            self.state = PoolState::Fresh;
        }
        TakenQuota { amount, arm, scanned }
    }

    /// Hands out quota as far as there is some; returns the amount and the number of examined CPUs.
    fn draw(&mut self, cpu: CpuId, want: QuotaRequest) -> (Duration, u32) {
        match &mut self.quota {
            FreeQuota::Common { runtime, .. } => {
                let amount = want.most.min(want.least.max(*runtime / 4)).min(*runtime);
                *runtime -= amount;
                (amount, 0)
            }
            FreeQuota::Divided(parts) => parts.take(cpu, want.most, self.max.period),
        }
    }

    /// Throttles a CPU that is out of quota, unless its debt and 1 ns can be paid.
    pub fn throttle(&mut self, now: Instant, cpu: CpuId, remaining: SignedDuration) -> TakenQuota {
        let taken = self.take(now, cpu, QuotaRequest::exactly(above(remaining, 1)));
        if remaining.as_nanos() + taken.amount.as_nanos().cast_signed() <= 0 {
            debug_assert!(!self.throttled.contains(&cpu), "a CPU is throttled once");
            self.throttled.push_back(cpu);
        }
        taken
    }

    /// Removes a CPU from the throttled ones; it was throttled for `lasted`.
    ///
    /// # Panics
    /// If it is not throttled.
    pub fn release(&mut self, cpu: CpuId, lasted: Duration) {
        let place = self.throttled.iter().position(|throttled| *throttled == cpu);
        self.throttled.remove(place.expect("invariant: the list has every throttled CPU"));
        self.stat.throttled += lasted;
    }

    /// Gives quota to a throttled CPU: its debt and 1 ns, so that it runs and asks again.
    ///
    /// # Panics
    /// If it is not throttled.
    pub fn share(&mut self, cpu: CpuId, remaining: SignedDuration, lasted: Duration) -> Share {
        let (amount, scanned) = self.draw(cpu, QuotaRequest::exactly(above(remaining, 1)));
        if remaining.as_nanos() + amount.as_nanos().cast_signed() > 0 {
            self.release(cpu, lasted);
        } else if matches!(self.quota, FreeQuota::Divided(_)) {
            // Its own part does not pay its debt; the parts of others may.
            let place = self.throttled.iter().position(|throttled| *throttled == cpu);
            self.throttled.remove(place.expect("invariant: the list has every throttled CPU"));
            self.throttled.push_back(cpu);
        }
        Share { amount, next: self.next_to_serve(), scanned }
    }

    /// Returns the first throttled CPU if there is quota to give.
    pub(crate) fn next_to_serve(&self) -> Option<CpuId> {
        let has_some = match &self.quota {
            FreeQuota::Common { runtime, .. } => !runtime.is_zero(),
            FreeQuota::Divided(_) => true,
        };
        self.throttled.front().copied().filter(|_| has_some)
    }

    /// Handles the period timer. Returns `None` if the timer is outdated.
    pub fn refresh(&mut self, now: Instant) -> Option<Refreshed> {
        if self.state == PoolState::Stopped || self.max.quota.is_none() {
            self.state = PoolState::Stopped;
            return None;
        }
        let periods = self.forward(now);
        if periods == 0 {
            return None;
        }
        self.stat.nr_periods += periods;
        let scanned = self.fill(periods);
        let first = self.first_throttled();
        self.state = match (first, self.state) {
            (Some(_), _) => {
                self.stat.nr_throttled += periods;
                PoolState::Fresh
            }
            (None, PoolState::Fresh) => PoolState::Idle, // [2]
            (None, PoolState::Idle | PoolState::Stopped) => PoolState::Stopped, // [3]
        };
        let arm = (self.state != PoolState::Stopped).then_some(self.ends);
        Some(Refreshed { runtime: self.quota.total(), arm, first, scanned })
    }

    /// Takes back unused quota of a CPU; returns the time to arm the slack timer for. `slice` is
    /// the slice of groups without one of their own.
    pub(crate) fn give_back(&mut self, now: Instant, cpu: CpuId, amount: Duration, slice: Duration) -> Option<Instant> {
        self.max.quota?;
        match &mut self.quota {
            FreeQuota::Common { runtime, .. } => *runtime += amount,
            FreeQuota::Divided(parts) => {
                parts.settle(cpu, amount.to_signed());
                return None;
            }
        }
        let is_worth_it = self.quota.total() > self.max.slice.unwrap_or(slice) && !self.throttled.is_empty();
        if !is_worth_it || self.slack == SlackState::Armed || self.ends_within(now, SLACK_PERIOD + ENDS_SOON) {
            return None;
        }
        self.slack = SlackState::Armed;
        Some(now + SLACK_PERIOD)
    }

    /// Settles the account of a queue that is freed: the rest goes back, and a debt is paid as far
    /// as there is quota.
    pub fn settle(&mut self, cpu: CpuId, remaining: SignedDuration) {
        match &mut self.quota {
            FreeQuota::Common { runtime, .. } if remaining.is_negative() => {
                *runtime = runtime.saturating_sub((-remaining).max_zero());
            }
            FreeQuota::Common { runtime, .. } => *runtime += remaining.max_zero(),
            FreeQuota::Divided(parts) => parts.settle(cpu, remaining),
        }
    }

    /// Handles the slack timer: returns the first throttled CPU, and how many there are, if they
    /// are to be served.
    pub(crate) fn serve_slack(&mut self, now: Instant, slice: Duration) -> Option<(CpuId, u32)> {
        if self.slack == SlackState::Stopped {
            return None;
        }
        self.slack = SlackState::Stopped;
        if self.max.quota.is_none()
            || self.ends_within(now, ENDS_SOON)
            || self.quota.total() <= self.max.slice.unwrap_or(slice)
        {
            return None;
        }
        self.first_throttled()
    }

    /// Returns whether the pool is refilled within this time anyway (`runtime_refresh_within`).
    fn ends_within(&self, now: Instant, time: Duration) -> bool {
        self.state != PoolState::Stopped && self.ends.since(now) < time
    }
}

/// Returns the amount that is missing to `target` nanoseconds.
fn above(remaining: SignedDuration, target: i64) -> Duration {
    SignedDuration::from_nanos(target - remaining.as_nanos()).max_zero()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    const CPU: CpuId = CpuId(0);
    const MS: Duration = Duration::from_millis(1);

    fn at(ms: u64) -> Instant {
        Instant::ZERO + MS * ms
    }

    fn pool(quota: u64, burst: u64) -> Pool {
        let mut pool = Pool::new(BandwidthControl::Pool, 2);
        let max = CpuMax { quota: Some(MS * quota), period: MS * 100, burst: MS * burst, slice: None };
        let set = pool.set(at(30), max);
        assert_eq!(set, Refreshed { runtime: MS * quota, arm: Some(at(100)), first: None, scanned: 0 });
        pool
    }

    #[test]
    fn the_timer_stops_after_an_idle_period_and_keeps_its_grid() {
        let mut pool = pool(20, 0);
        assert_eq!(
            pool.take(at(40), CPU, QuotaRequest::exactly(MS * 5)),
            TakenQuota { amount: MS * 5, arm: None, scanned: 0 }
        );
        assert_eq!(pool.refresh(at(100)).and_then(|refreshed| refreshed.arm), Some(at(200)));
        assert_eq!(pool.refresh(at(200)).and_then(|refreshed| refreshed.arm), None);
        assert_eq!(pool.refresh(at(300)), None, "it does not run");
        assert_eq!(
            pool.take(at(725), CPU, QuotaRequest::exactly(MS * 5)),
            TakenQuota { amount: MS * 5, arm: Some(at(800)), scanned: 0 }
        );
        assert_eq!(pool.stat.nr_periods, 2);
    }

    #[test]
    fn periods_begin_where_the_host_says() {
        let max = |period| CpuMax { quota: Some(MS), period: MS * period, ..CpuMax::UNLIMITED };
        let armed = |period, now| {
            let mut pool = Pool::new(BandwidthControl::Pool, 1);
            pool.set_phase(MS * 73);
            pool.set(at(now), max(period)).arm
        };
        assert_eq!([armed(100, 0), armed(100, 80), armed(10, 0)], [at(73), at(173), at(3)].map(Some));
    }

    #[test]
    fn a_burst_is_saved_up_and_counted() {
        let mut pool = pool(20, 30);
        for end in [100, 200, 300] {
            pool.take(at(end - 10), CPU, QuotaRequest::exactly(MS));
            pool.refresh(at(end));
        }
        assert_eq!(pool.quota.total(), MS * 50);
        assert_eq!(pool.take(at(310), CPU, QuotaRequest::exactly(MS * 60)).amount, MS * 50);
        let refreshed = pool.refresh(at(400)).expect("it runs");
        assert_eq!(refreshed.runtime, MS * 20);
        assert_eq!((pool.stat.nr_bursts, pool.stat.burst), (1, MS * 30));
    }

    #[test]
    fn little_is_left_to_others_too() {
        let mut pool = pool(20, 0);
        let stepped = QuotaRequest { most: MS * 5, least: MS };
        let taken: Vec<u64> = (0..30).map(|_| pool.take(at(40), CPU, stepped).amount.as_nanos() / 10_000).collect();
        assert_eq!(taken[..6], [500, 375, 281, 210, 158, 118]);
        assert_eq!(taken[6..12], [100, 100, 100, 55, 0, 0], "what is owed and 1 ms is given while there is some");
    }

    #[test]
    fn a_throttled_cpu_gets_its_debt_and_one_nanosecond() {
        let mut pool = pool(20, 0);
        pool.take(at(40), CPU, QuotaRequest::exactly(MS * 20));
        let debt = SignedDuration::from_nanos(-3_000_000);
        assert_eq!(pool.throttle(at(44), CpuId(1), debt).amount, Duration::ZERO);
        assert_eq!(pool.throttle(at(44), CpuId(0), debt).amount, Duration::ZERO);
        let refreshed = pool.refresh(at(100)).expect("it runs");
        assert_eq!(refreshed.first, Some((CpuId(1), 2)));
        let share = pool.share(CpuId(1), debt, MS * 56);
        let one = Duration::from_nanos(1);
        assert_eq!(share, Share { amount: MS * 3 + one, next: Some(CpuId(0)), scanned: 0 });
        assert_eq!(pool.share(CpuId(0), debt, MS * 56).next, None);
        assert_eq!((pool.stat.nr_throttled, pool.stat.throttled), (1, MS * 112));
    }

    #[test]
    fn slack_is_handed_out_unless_the_period_ends_soon() {
        let mut pool = pool(20, 0);
        pool.take(at(40), CPU, QuotaRequest::exactly(MS * 20));
        pool.throttle(at(44), CpuId(1), SignedDuration::from_nanos(0));
        assert_eq!(pool.give_back(at(50), CPU, MS * 4, MS * 5), None, "not more than a slice");
        assert_eq!(pool.give_back(at(50), CPU, MS * 4, MS * 5), Some(at(55)));
        assert_eq!(pool.give_back(at(51), CPU, MS * 4, MS * 5), None, "the timer runs");
        assert_eq!(pool.serve_slack(at(55), MS * 5), Some((CpuId(1), 1)));
        assert_eq!(pool.give_back(at(94), CPU, MS, MS * 5), None, "the period ends in 6 ms");
        pool.max.slice = Some(MS * 20);
        assert_eq!(pool.give_back(at(60), CPU, MS, MS * 5), None, "its own slice is larger than what is there");
    }

    /// Linux v6.12 `runtime_refresh_within`: the remaining time is compared by `<`.
    #[test]
    fn a_period_that_ends_in_two_milliseconds_does_not_end_soon() {
        let served = |now| {
            let mut pool = pool(20, 0);
            pool.take(at(40), CPU, QuotaRequest::exactly(MS * 20));
            pool.throttle(at(44), CpuId(1), SignedDuration::from_nanos(0));
            pool.give_back(at(50), CPU, MS * 4, MS * 5);
            assert_eq!(pool.give_back(at(50), CPU, MS * 4, MS * 5), Some(at(55)));
            pool.serve_slack(now, MS * 5)
        };
        assert_eq!(served(at(98)), Some((CpuId(1), 1)));
        assert_eq!(served(at(98) + Duration::from_nanos(1)), None);
    }
}

//! Supply: the CPU time that a limit or a server leaves to its tasks in a window.
//!
//! ```text
//! Reservation (budget Q, period P, deadline D): any time before D      Quota (quota Q, period P), one CPU
//!  |QQ......|......QQ|......QQ|                                         |QQ......|QQ......|QQ......|
//!     └── blackout ─┘  D + P - 2 Q                                         └blackout┘  P - Q
//! ```
//!
//! * A *reservation* (a deadline task, a CBS, a deadline server) gets its budget once per period,
//!   somewhere before its deadline. At worst it has just got all of it as early as possible, and
//!   gets the next as late as possible.
//! * The *quota* of a group (`cpu.max`) is there at the begin of every period. At worst it has just
//!   been spent as early as possible. That is a promise only if nothing else computes on the CPU;
//!   [`Window`] counts the rest. A burst can only help, so the least supply is the same.
//!
//! The quota is also a promise to the others: [`Quota::most`] is what the group can take from them.
//!
//! Sources: Abeni & Buttazzo 1998 (CBS); Shin & Lee 2003, sec. 3 (periodic resources); Easwaran,
//! Anand & Lee 2007, sec. 3 (with a deadline); Linux `Documentation/scheduler/sched-bwc.rst`.

use crate::task::{Sporadic, fits_one_cpu, fixed_point, sum, times};
use zerolag_model::{CpuMax, Duration};

/// The most iterations of one search. Beyond it no bound is known.
pub const ROUNDS: usize = 1_000_000;

/// A budget per period, given somewhere before a deadline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reservation {
    budget: Duration,
    deadline: Duration,
    period: Duration,
}

/// A quota per period, given at its begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Quota {
    quota: Duration,
    period: Duration,
    burst: Duration,
    overrun: Duration,
}

/// The least CPU time in windows of a length.
pub trait Supply {
    /// Returns the CPU time per time in the long run; after the [blackout](Self::blackout) no
    /// window has less.
    fn rate(&self) -> f64;

    /// Returns the least CPU time in a window of this length.
    fn least(&self, window: Duration) -> Duration;

    /// Returns the length of the shortest window with at least this CPU time.
    fn time_for(&self, work: Duration) -> Duration;

    /// Returns the longest time without any.
    fn blackout(&self) -> Duration;
}

/// The least of budgets that are each available for their own length at the end of a gap.
pub(crate) fn least(window: Duration, blackout: Duration, budget: Duration, period: Duration) -> Duration {
    let Some(rest) = window.as_nanos().checked_sub(blackout.as_nanos()) else { return Duration::ZERO };
    let (whole, part) = (rest / period.as_nanos(), Duration::from_nanos(rest % period.as_nanos()));
    times(whole, budget).saturating_add(part.min(budget))
}

pub(crate) fn time_for(work: Duration, blackout: Duration, budget: Duration, period: Duration) -> Duration {
    if work.is_zero() {
        return Duration::ZERO;
    }
    let before = (work.as_nanos() - 1) / budget.as_nanos();
    let part = work.saturating_sub(times(before, budget));
    blackout.saturating_add(times(before, period)).saturating_add(part)
}

impl Reservation {
    /// Returns a reservation; none if not 0 < budget <= deadline <= period.
    #[must_use]
    pub fn new(budget: Duration, deadline: Duration, period: Duration) -> Option<Self> {
        let is_valid = !budget.is_zero() && budget <= deadline && deadline <= period && period <= Sporadic::LONGEST;
        is_valid.then_some(Self { budget, deadline, period })
    }

    /// Returns the budget over the period.
    #[must_use]
    pub fn utilization(&self) -> f64 {
        self.budget.as_nanos() as f64 / self.period.as_nanos() as f64
    }
}

impl Supply for Reservation {
    fn rate(&self) -> f64 {
        self.utilization()
    }

    fn least(&self, window: Duration) -> Duration {
        least(window, self.blackout(), self.budget, self.period)
    }

    fn time_for(&self, work: Duration) -> Duration {
        time_for(work, self.blackout(), self.budget, self.period)
    }

    fn blackout(&self) -> Duration {
        self.deadline.saturating_sub(self.budget).saturating_add(self.period.saturating_sub(self.budget))
    }
}

impl Quota {
    /// Returns the quota of a group; none without a limit, or with a quota of zero.
    #[must_use]
    pub fn of(max: CpuMax) -> Option<Self> {
        let quota = max.quota.filter(|quota| !quota.is_zero())?;
        let is_valid = !max.period.is_zero() && max.period <= Sporadic::LONGEST;
        is_valid.then_some(Self { quota, period: max.period, burst: max.burst, overrun: Duration::ZERO })
    }

    /// Returns it for a host that stops the group up to this time late, and takes it off the next
    /// quota: a tick.
    #[must_use]
    pub const fn with_overrun(self, overrun: Duration) -> Self {
        Self { overrun, ..self }
    }

    /// Returns the time for which one CPU stands still in a window at most, because the quota is
    /// used up.
    #[must_use]
    pub fn throttled(&self, window: Duration) -> Duration {
        window.saturating_sub(self.least(window))
    }

    /// Returns the same if the group has this much work in the window, and none is left from
    /// before.
    ///
    /// The group stands still at the ends of n periods. By the last of them it has used the n - 1
    /// quotas that it got in the window, but for what it owed at its begin; so n is bounded by the
    /// work, and the group stands still for n periods less these quotas.
    #[must_use]
    pub fn throttled_with(&self, window: Duration, work: Duration) -> Duration {
        let used = work.saturating_add(self.overrun);
        let ends = (used.as_nanos() / self.quota.as_nanos()).saturating_add(1);
        let gaps = times(ends, self.period.saturating_sub(self.quota));
        let still = gaps.saturating_add(self.quota.min(self.period)).saturating_add(self.overrun);
        self.throttled(window).min(still)
    }

    /// Returns the most CPU time that the group takes in a window of this length on `cpus` CPUs:
    /// the quota of every period that the window meets, what was saved, and what CPUs hold of the
    /// period before, at most `slice` each.
    #[must_use]
    pub fn most(&self, window: Duration, cpus: u64, slice: Duration) -> Duration {
        let (window, period) = (window.as_nanos(), self.period.as_nanos());
        let (whole, part) = (window / period, Duration::from_nanos(window % period));
        let twice = times(2, self.quota);
        // A window that is no whole number of periods meets one more, or parts of two.
        let rest = if whole > 0 { twice.min(times(cpus, part)).max(self.quota) } else { twice.min(times(cpus, part)) };
        let held = self.burst.saturating_add(times(cpus, slice.saturating_add(self.overrun)));
        let all = times(cpus, Duration::from_nanos(window));
        times(whole, self.quota).saturating_add(rest).saturating_add(held).min(all)
    }
}

impl Supply for Quota {
    fn rate(&self) -> f64 {
        (self.quota.as_nanos() as f64 / self.period.as_nanos() as f64).min(1.0)
    }

    fn least(&self, window: Duration) -> Duration {
        // A quota of more than a CPU never stops one.
        let quota = self.quota.min(self.period);
        least(window, self.blackout(), quota, self.period)
    }

    fn time_for(&self, work: Duration) -> Duration {
        time_for(work, self.blackout(), self.quota.min(self.period), self.period)
    }

    fn blackout(&self) -> Duration {
        self.period.saturating_sub(self.quota).saturating_add(self.overrun)
    }
}

/// Returns the longest response of any job of a set that has a supply to itself, in whatever order
/// it is served, as long as the supply is not left unused: the length of the longest busy period
/// (Cruz 1991, sec. III, for a server with a supply function). None if the supply is not enough.
#[must_use]
pub fn any_order(tasks: &[Sporadic], supply: &impl Supply) -> Option<Duration> {
    fixed_point(Duration::from_nanos(1), ROUNDS, |length| {
        supply.time_for(sum(tasks.iter().map(|task| task.requests(length))))
    })
}

/// A CPU that runs tasks of limited groups and others, in whatever order.
#[derive(Clone, Debug, Default)]
pub struct Window {
    /// All tasks that can run on the CPU.
    pub tasks: Vec<Sporadic>,
    /// The limits of the groups that some of them are in, each with the tasks in it.
    pub limits: Vec<(Quota, Vec<Sporadic>)>,
}

impl Window {
    /// Returns the longest time for which some task is left to run: no job responds later. None if
    /// the tasks are too much.
    ///
    /// In such a time the CPU runs a task, or stands still since groups have no quota; both are
    /// bounded, so the time is.
    #[must_use]
    pub fn any_order(&self) -> Option<Duration> {
        if !fits_one_cpu(&self.tasks) {
            return None;
        }
        fixed_point(Duration::from_nanos(1), ROUNDS, |length| {
            let work = |tasks: &[Sporadic]| sum(tasks.iter().map(|task| task.requests(length)));
            let limits = self.limits.iter();
            let throttled = sum(limits.map(|(limit, tasks)| limit.throttled_with(length, work(tasks))));
            work(&self.tasks).saturating_add(throttled)
        })
    }

    /// Returns the longest time for which the CPU runs tasks without a break while `unlimited`
    /// tasks, those outside of the limited groups, are left to run: none of them responds later.
    /// None if they and the limits are too much.
    ///
    /// The groups can have work from before, but take no more than their limits allow; `slice` is
    /// what the CPU holds of a quota from before.
    #[must_use]
    pub fn any_order_outside(&self, unlimited: &[Sporadic], slice: Duration) -> Option<Duration> {
        fixed_point(Duration::from_nanos(1), ROUNDS, |length| {
            let work = sum(unlimited.iter().map(|task| task.requests(length)));
            work.saturating_add(sum(self.limits.iter().map(|(limit, _)| limit.most(length, 1, slice))))
        })
    }
}

/// Returns whether EDF keeps the deadlines of a set on a supply: the demand of no window exceeds
/// the least supply in it (Shin & Lee 2003, theorem 1). If the utilization is not below the rate of
/// the supply, the answer is no, since a supply with a blackout needs some rest.
///
/// Cost: one evaluation per deadline before the end of the search, [`ROUNDS`] at most, then no.
#[must_use]
pub fn edf_fits(tasks: &[Sporadic], supply: &impl Supply) -> bool {
    let nanos = |time: Duration| time.as_nanos() as f64;
    let utilization: f64 = tasks.iter().map(Sporadic::utilization).sum();
    let rest = supply.rate() - utilization;
    if rest <= 1e-9 {
        return false;
    }
    // Beyond this window the line below the supply is above the line above the demand.
    let early = |task: &Sporadic| (nanos(task.period()) - nanos(task.deadline())) * task.utilization();
    let early: f64 = tasks.iter().map(early).sum();
    let end = (early.max(0.0) + supply.rate() * nanos(supply.blackout())) / rest * (1.0 + 1e-9) + 1.0;
    let end = Duration::from_nanos(end.min(nanos(Sporadic::LONGEST)) as u64);
    let mut rounds = 0;
    for task in tasks {
        let mut window = task.deadline();
        while window <= end {
            rounds += 1;
            if rounds > ROUNDS || crate::edf::demand(tasks, window) > supply.least(window) {
                return false;
            }
            window = window.saturating_add(task.period());
        }
    }
    true
}

/// Returns whether fixed priorities, the most urgent first, keep the deadlines of a set on a supply
/// (Shin & Lee 2003, theorem 2). Deadlines are at most the period.
#[must_use]
pub fn fixed_fits(by_urgency: &[Sporadic], supply: &impl Supply) -> bool {
    (0..by_urgency.len()).all(|of| {
        let (task, above) = (&by_urgency[of], &by_urgency[..of]);
        let mut time = task.cost();
        loop {
            let work = task.cost().saturating_add(sum(above.iter().map(|other| other.requests(time))));
            let next = supply.time_for(work);
            if next > task.deadline() {
                return false;
            }
            if next <= time {
                return true;
            }
            time = next;
        }
    })
}

/// Returns the longest response of a task on a supply that it shares with more urgent tasks, and
/// with no other; none if the supply is not enough, or the search was too long.
///
/// The jobs of a busy period are examined in turn, as on a whole CPU (Lehoczky 1990): each ends
/// when the least supply since the period began covers it, the jobs before it and the more urgent
/// ones (Shin & Lee 2003, theorem 2, for deadlines beyond the period).
///
/// ```
/// use zerolag_analysis::Sporadic;
/// use zerolag_analysis::supply::{Reservation, fixed_response};
/// use zerolag_model::Duration;
///
/// let ms = Duration::from_millis;
/// let half = Reservation::new(ms(5), ms(10), ms(10)).unwrap();
/// let task = Sporadic::new(ms(2), ms(40)).unwrap();
/// assert_eq!(fixed_response(&task, &[], &half), Some(ms(12)), "10 ms without supply, then 2 ms");
/// ```
#[must_use]
pub fn fixed_response(task: &Sporadic, above: &[Sporadic], supply: &impl Supply) -> Option<Duration> {
    let utilization: f64 = above.iter().chain([task]).map(Sporadic::utilization).sum();
    if utilization >= supply.rate() {
        return None;
    }
    let mut worst = Duration::ZERO;
    for job in 0..ROUNDS as u64 {
        let base = task.blocking().saturating_add(times(job + 1, task.cost()));
        let end = fixed_point(Duration::from_nanos(1), ROUNDS, |time| {
            supply.time_for(base.saturating_add(sum(above.iter().map(|other| other.requests(time)))))
        })?;
        let since = end.saturating_add(task.jitter());
        worst = worst.max(since.saturating_sub(times(job, task.period())));
        if since <= times(job + 1, task.period()) {
            return Some(worst);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    fn quota(quota: u64, period: u64, burst: u64) -> Quota {
        Quota::of(CpuMax { quota: Some(MS(quota)), period: MS(period), burst: MS(burst), slice: None })
            .expect("a limit")
    }

    #[test]
    fn supply_and_its_inverse_agree() {
        let reservation = Reservation::new(MS(3), MS(7), MS(10)).expect("a reservation");
        assert_eq!((reservation.blackout(), quota(3, 10, 0).blackout()), (MS(11), MS(7)));
        for work in 1..40 {
            for supply in [&reservation as &dyn Supply, &quota(3, 10, 5), &quota(25, 10, 0)] {
                let time = supply.time_for(MS(work));
                assert!(supply.least(time) >= MS(work), "{work} ms in {time}");
                assert!(supply.least(time.saturating_sub(Duration::from_nanos(1))) < MS(work), "{work} ms in {time}");
            }
        }
    }

    #[test]
    fn the_worst_start_is_the_least_supply() {
        // Quota at the begin of each period, windows from every millisecond.
        let given = |from: u64, to: u64| (from..to).filter(|at| at % 10 < 3).count() as u64;
        let quota = quota(3, 10, 0);
        for length in 0..60 {
            let all = (0..10).map(|from| given(from, from + length));
            assert_eq!(quota.least(MS(length)), MS(all.clone().min().unwrap_or(0)), "{length}");
            assert!(quota.most(MS(length), 1, Duration::ZERO) >= MS(all.max().unwrap_or(0)), "{length}");
        }
        // The most is what three CPUs take at the end of a period and at the begin of the next.
        assert_eq!(quota.most(MS(2), 3, Duration::ZERO), MS(6));
        assert_eq!(quota.most(MS(10), 3, Duration::ZERO), MS(6));
        assert_eq!(quota.most(MS(12), 3, Duration::ZERO), MS(9));
    }

    #[test]
    fn busy_periods_with_and_without_a_limit() {
        let task = |cost, period| Sporadic::new(MS(cost), MS(period)).expect("a task");
        let alone = Window { tasks: vec![task(5, 100), task(10, 100)], limits: vec![] };
        assert_eq!(alone.any_order(), Some(MS(15)));
        // A quota of 3 in 10: 15 ms take five budgets, the first after 7 ms.
        let limited = Window { limits: vec![(quota(3, 10, 0), alone.tasks.clone())], ..alone.clone() };
        assert_eq!(limited.any_order(), Some(MS(7 + 4 * 10 + 3)));
        assert_eq!(any_order(&alone.tasks, &quota(3, 10, 0)), limited.any_order());
        assert_eq!(any_order(&[task(31, 100)], &quota(3, 10, 0)), None);
        // A group that is seldom stopped: 2 ms of work meet the end of one period without quota.
        let (batch, other) = (task(2, 200), task(50, 200));
        let mixed = Window { tasks: vec![batch, other], limits: vec![(quota(5, 50, 0), vec![batch])] };
        assert_eq!(mixed.any_order(), Some(MS(2 + 50 + 50)));
    }
}

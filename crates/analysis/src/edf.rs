//! Earliest deadline first on one CPU: whether deadlines are kept, and the longest response of a
//! task, both exactly.
//!
//! *Deadlines.* A set is schedulable if in no window the demand, the computation of jobs with
//! release and deadline in it, exceeds its length. Demand changes only at deadlines; QPA steps from
//! the end of the first busy period backwards, mostly over many deadlines at a time.
//!
//! *Responses.* The longest response of a task is found in a busy period in which all other tasks
//! are released together at its begin, and one job of the task at some later time such that its
//! deadline equals that of another job. All such times are tried. If they are too many and all
//! deadlines are kept, the deadline is the bound.
//!
//! Sources: Baruah, Rosier & Howell 1990 (demand); Zhang & Burns 2009 (QPA); Spuri 1996, sec. 3,
//! and George, Rivierre & Spuri 1996 (responses).

use crate::task::{Sporadic, fits_one_cpu, fixed_point, jobs_in, sum, times};
use zerolag_model::Duration;

/// The most iterations of one analysis. Beyond it no bound is known.
pub const ROUNDS: usize = 4_000_000;

/// Why a set cannot keep its deadlines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Miss {
    /// The tasks need more than one CPU in the long run.
    Overload,
    /// In windows of this length the demand is larger than the window.
    Demand {
        /// The length.
        window: Duration,
        /// The demand.
        demand: Duration,
    },
    /// The search was too long: nothing is known.
    TooLong,
}

/// Returns the demand of a set in windows of a length.
#[must_use]
pub fn demand(tasks: &[Sporadic], window: Duration) -> Duration {
    sum(tasks.iter().map(|task| task.demand(window)))
}

/// Returns the length of the longest busy period: the time until all work is done for the first
/// time when all tasks are released together. None if that is beyond [`Sporadic::LONGEST`].
#[must_use]
pub fn busy_period(tasks: &[Sporadic]) -> Option<Duration> {
    if !fits_one_cpu(tasks) {
        return None;
    }
    let costs = sum(tasks.iter().map(Sporadic::cost));
    fixed_point(costs, ROUNDS, |length| sum(tasks.iter().map(|task| task.requests(length))))
}

/// The number of windows that a test looked at, for comparisons with publications.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Effort {
    /// Windows.
    pub windows: u64,
}

/// Checks that every task keeps its deadline on one CPU.
///
/// ```
/// use zerolag_analysis::{Sporadic, edf};
/// use zerolag_model::Duration;
///
/// let ms = Duration::from_millis;
/// let task = |cost, deadline, period| Sporadic::new(ms(cost), ms(period)).unwrap().with_deadline(ms(deadline));
/// assert!(edf::check(&[task(2, 5, 6), task(2, 4, 8), task(3, 8, 12)]).is_ok());
/// assert!(edf::check(&[task(2, 3, 6), task(2, 3, 8)]).is_err());
/// ```
///
/// # Errors
/// The reason why a deadline can be missed.
pub fn check(tasks: &[Sporadic]) -> Result<Effort, Miss> {
    let mut effort = Effort::default();
    if !fits_one_cpu(tasks) {
        return Err(Miss::Overload);
    }
    if tasks.iter().all(|task| task.deadline() >= task.period() && task.jitter().is_zero()) {
        return Ok(effort);
    }
    let busy = busy_period(tasks).ok_or(Miss::TooLong)?;
    // The window from which on a sum of shares below one keeps the demand below its length (Zhang &
    // Burns 2009, theorem 3); rounded up.
    let utilization: f64 = tasks.iter().map(Sporadic::utilization).sum();
    let nanos = |time: Duration| time.as_nanos() as f64;
    let late = tasks
        .iter()
        .map(|task| (nanos(task.period()) - nanos(task.deadline()) + nanos(task.jitter())) * task.utilization());
    let longest_deadline = tasks.iter().map(Sporadic::deadline).max().unwrap_or_default();
    let by_shares = if utilization < 1.0 - 1e-9 {
        let end = late.sum::<f64>().max(0.0) / (1.0 - utilization) * (1.0 + 1e-9) + 1.0;
        Duration::from_nanos(end.min(nanos(Sporadic::LONGEST)) as u64).max(longest_deadline)
    } else {
        Duration::MAX
    };
    let end = busy.min(by_shares);
    let first = tasks.iter().map(|task| task.deadline().saturating_sub(task.jitter())).min().unwrap_or_default();
    let Some(mut window) = last_deadline(tasks, end.saturating_add(Duration::from_nanos(1))) else { return Ok(effort) };
    for _ in 0..ROUNDS {
        let demand = demand(tasks, window);
        effort.windows += 1;
        if demand > window {
            return Err(Miss::Demand { window, demand });
        }
        if demand <= first {
            return Ok(effort);
        }
        window = if demand < window {
            demand
        } else {
            match last_deadline(tasks, window) {
                Some(before) => before,
                None => return Ok(effort),
            }
        };
    }
    Err(Miss::TooLong)
}

/// Returns the last deadline before a time, if all tasks are released together at zero.
fn last_deadline(tasks: &[Sporadic], before: Duration) -> Option<Duration> {
    let of = |task: &Sporadic| {
        let first = task.deadline().saturating_sub(task.jitter());
        let rest = before.as_nanos().checked_sub(1)?.checked_sub(first.as_nanos())?;
        Some(first.saturating_add(times(rest / task.period().as_nanos(), task.period())))
    };
    tasks.iter().filter_map(of).max()
}

/// Returns the longest response of each task of a set on one CPU; none for all if the CPU is
/// overloaded, for one if its search is too long and nothing else is known.
#[must_use]
pub fn responses(tasks: &[Sporadic]) -> Vec<Option<Duration>> {
    let Some(busy) = busy_period(tasks) else {
        return match check(tasks) {
            Ok(_) => tasks.iter().map(|task| Some(task.deadline())).collect(),
            Err(_) => vec![None; tasks.len()],
        };
    };
    let mut is_kept = None;
    (0..tasks.len())
        .map(|of| {
            response(tasks, of, busy).or_else(|| {
                let is_kept = *is_kept.get_or_insert_with(|| check(tasks).is_ok());
                is_kept.then(|| tasks[of].deadline())
            })
        })
        .collect()
}

/// Returns the longest response of a task in busy periods of this length.
fn response(tasks: &[Sporadic], of: usize, busy: Duration) -> Option<Duration> {
    let task = &tasks[of];
    // Jitter of others moves their first release to the begin of the busy period, and their
    // deadlines with it (Spuri 1996, sec. 5). Own jitter is not needed, and blocking not known
    // here.
    if !task.jitter().is_zero() || tasks.iter().any(|task| !task.blocking().is_zero()) {
        return None;
    }
    // Releases of the task at which its deadline is that of another job.
    let mut rounds = sum_of_jobs(tasks, busy);
    if rounds > ROUNDS {
        return None;
    }
    let mut worst = task.cost();
    let mut releases: Vec<Duration> = Vec::with_capacity(rounds);
    for other in tasks {
        let last = busy.saturating_add(task.deadline());
        let mut deadline = other.deadline();
        while deadline <= last.saturating_add(other.jitter()) {
            let due = deadline.saturating_sub(other.jitter());
            if due >= task.deadline() {
                releases.push(due.saturating_sub(task.deadline()));
            }
            deadline = deadline.saturating_add(other.period());
        }
    }
    releases.sort_unstable();
    releases.dedup();
    for release in releases.into_iter().filter(|release| *release <= busy) {
        let due = release.saturating_add(task.deadline());
        let own = times(release.as_nanos() / task.period().as_nanos() + 1, task.cost());
        let work = |length: Duration| {
            let is_urgent = |other: &Sporadic| other.deadline() <= due.saturating_add(other.jitter());
            let others = tasks.iter().enumerate().filter(|(other, task)| *other != of && is_urgent(task));
            own.saturating_add(sum(others.map(|(_, other)| {
                let room = due.saturating_add(other.jitter()).saturating_sub(other.deadline());
                let by_deadline = room.as_nanos() / other.period().as_nanos() + 1;
                times(jobs_in(length.saturating_add(other.jitter()), other.period()).min(by_deadline), other.cost())
            })))
        };
        let mut length = work(Duration::from_nanos(1));
        loop {
            rounds += 1;
            if rounds > ROUNDS {
                return None;
            }
            let next = work(length);
            if next == length {
                break;
            }
            length = next;
        }
        worst = worst.max(length.saturating_sub(release));
    }
    Some(worst)
}

fn sum_of_jobs(tasks: &[Sporadic], busy: Duration) -> usize {
    let all = tasks.iter().map(|task| jobs_in(busy, task.period())).fold(0, u64::saturating_add);
    usize::try_from(all).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(cost: u64, deadline: u64, period: u64) -> Sporadic {
        let us = Duration::from_micros;
        Sporadic::new(us(cost), us(period)).expect("a task").with_deadline(us(deadline))
    }

    /// A set that has been used to test other implementations of QPA.
    fn eight() -> Vec<Sporadic> {
        [
            (6_000, 18_000, 31_000),
            (2_000, 9_000, 9_800),
            (1_000, 12_000, 17_000),
            (90, 3_000, 4_200),
            (8, 78, 96),
            (2, 16, 12),
            (10, 120, 280),
            (26, 160, 660),
        ]
        .map(|(cost, deadline, period)| task(cost, deadline, period))
        .to_vec()
    }

    #[test]
    fn windows_at_every_deadline_say_the_same() {
        let mut set = eight();
        assert!(check(&set).is_ok());
        set.push(task(10, 15, 100));
        let Err(Miss::Demand { window, demand }) = check(&set) else { panic!("it cannot be scheduled") };
        assert!(demand > window);
        // Every window up to the end of the busy period, one by one.
        let mut random = 7_u64;
        let mut below = |end: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % end
        };
        let mut counts = [0, 0];
        for _ in 0..2_000 {
            let set: Vec<Sporadic> = (0..2 + below(3))
                .map(|_| {
                    let period = 3 + below(20);
                    let cost = 1 + below(period / 2);
                    task(cost, cost + below(2 * period), period)
                })
                .collect();
            let all = |end: Duration| {
                (1..=end.as_micros_floor())
                    .map(Duration::from_micros)
                    .all(|window| super::demand(&set, window) <= window)
            };
            let expected = busy_period(&set).is_some_and(all);
            assert_eq!(check(&set).is_ok(), expected, "{set:?}");
            let kept = responses(&set);
            let is_kept =
                |(task, response): (&Sporadic, &Option<Duration>)| response.is_some_and(|time| time <= task.deadline());
            assert_eq!(set.iter().zip(&kept).all(is_kept), expected, "{set:?}: {kept:?}");
            counts[usize::from(expected)] += 1;
        }
        assert!(counts.iter().all(|count| *count > 300), "{counts:?}");
    }

    /// Runs two tasks unit by unit; returns the responses of the first, which loses ties.
    fn run(first: (u64, u64, u64), second: (u64, u64, u64), offsets: (u64, u64)) -> Vec<u64> {
        let end = 4 * first.2 * second.2;
        let (mut jobs, mut responses) = (Vec::new(), Vec::new());
        for now in 0..end {
            for (of, (cost, deadline, period), offset) in [(1, first, offsets.0), (0, second, offsets.1)] {
                if now >= offset && (now - offset) % period == 0 {
                    jobs.push((now + deadline, of, now, cost));
                }
            }
            jobs.sort_unstable();
            if let Some((_, of, release, left)) = jobs.first_mut() {
                *left -= 1;
                if *left == 0 {
                    if *of == 1 {
                        responses.push(now + 1 - *release);
                    }
                    jobs.remove(0);
                }
            }
        }
        responses
    }

    #[test]
    fn responses_are_those_of_the_worst_offsets() {
        let (mut later, mut sets) = (0, 0);
        for (deadline, other_deadline) in [(4, 5), (6, 5), (9, 3), (5, 7), (8, 9)] {
            for (period, other_period) in [(5, 7), (6, 4), (8, 5), (7, 7)] {
                for (cost, other_cost) in [(1, 2), (2, 2), (3, 1), (2, 3)] {
                    let set = [task(cost, deadline, period), task(other_cost, other_deadline, other_period)];
                    let Some(bound) = responses(&set)[0] else { continue };
                    let (first, second) = ((cost, deadline, period), (other_cost, other_deadline, other_period));
                    let worst = |own| (0..other_period).flat_map(move |other| run(first, second, (own, other))).max();
                    let together = run(first, second, (0, 0))[0];
                    let worst = (0..period).filter_map(worst).max().unwrap_or(0);
                    assert_eq!(bound, Duration::from_micros(worst), "{set:?}");
                    later += u32::from(worst > together);
                    sets += 1;
                }
            }
        }
        assert!(sets > 50 && later > 10, "{sets} sets; in {later} it is not the first job of all");
    }

    #[test]
    fn overload_has_no_bound() {
        let set = [task(6, 10, 10), task(5, 10, 10)];
        assert_eq!((check(&set), responses(&set)), (Err(Miss::Overload), vec![None, None]));
    }
}

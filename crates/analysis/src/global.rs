//! Global scheduling: one queue for several identical CPUs.
//!
//! While a job waits, all CPUs run other jobs. So a job of cost C that is not done after a window
//! has waited for a time in which the others computed that long on every CPU: it waits no longer
//! than a CPU's share of their work. The bound is as good as the bound of the others' work in a
//! window, and that depends on how early they are done with their jobs (their *slack*): a job that
//! is released before the window begins reaches into it less. So the analysis begins without slack,
//! and goes on with the slack that it finds.
//!
//! A task that is not seen to keep its deadline has no slack, and its work in a window is not
//! bounded: no bound that counts on it holds. Deadlines are at most the period here.
//!
//! | function | of | source |
//! |---|---|---|
//! | [`edf`], [`fixed`] | longest responses | Bertogna & Cirinei 2007, theorems 5 to 7; its first round: Bertogna, Cirinei & Lipari 2005 |
//! | [`density_test`] | no deadline is missed under EDF | Goossens, Funk & Baruah 2003, with densities |
//! | [`tardiness`] | how late a job can be under EDF | Devi & Anderson 2005, theorem 2 |
//!
//! Cost: rounds times tasks squared times iterations; [`ROUNDS`] iterations at most.

use crate::task::{Sporadic, times};
use zerolag_model::Duration;

/// The most iterations of one analysis. Beyond it no bound is known.
pub const ROUNDS: u32 = 1_000_000;

/// How the jobs of tasks are ordered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum JobOrder<'a> {
    /// By absolute deadline.
    Deadline,
    /// By these ranks of the tasks, the lowest first.
    Rank(&'a [u32]),
}

/// Returns the longest response of each task under global EDF on `cpus` CPUs. Without a bound for
/// one task there is none for any.
#[must_use]
pub fn edf(tasks: &[Sporadic], cpus: u64) -> Vec<Option<Duration>> {
    let bounds = search(tasks, &[], cpus, JobOrder::Deadline);
    if bounds.iter().all(Option::is_some) { bounds } else { vec![None; tasks.len()] }
}

/// Returns the longest response of each task under global fixed priorities on `cpus` CPUs. A task
/// of a lower rank is more urgent, and tasks of equal rank delay each other. `above` is more urgent
/// than all of them, with the response of each, which is at most its deadline.
///
/// # Panics
/// If there is not one rank per task.
#[must_use]
pub fn fixed(tasks: &[Sporadic], ranks: &[u32], above: &[(Sporadic, Duration)], cpus: u64) -> Vec<Option<Duration>> {
    assert_eq!(tasks.len(), ranks.len(), "a rank per task");
    let mut bounds = search(tasks, above, cpus, JobOrder::Rank(ranks));
    // A task without a bound can be late, and reach into any window of those that it delays.
    let without = bounds.iter().zip(ranks).filter(|(bound, _)| bound.is_none()).map(|(_, rank)| *rank);
    if let Some(first) = without.min() {
        for (bound, _) in bounds.iter_mut().zip(ranks).filter(|(_, rank)| **rank >= first) {
            *bound = None;
        }
    }
    bounds
}

fn search(tasks: &[Sporadic], above: &[(Sporadic, Duration)], cpus: u64, order: JobOrder<'_>) -> Vec<Option<Duration>> {
    let mut slacks = vec![Duration::ZERO; tasks.len()];
    let mut rounds = 0;
    loop {
        let window = BusyWindow { tasks, above, slacks: &slacks, cpus: cpus.max(1), order };
        let bounds: Vec<Option<Duration>> = (0..tasks.len()).map(|of| window.response(of, &mut rounds)).collect();
        let slack = |(task, bound): (&Sporadic, &Option<Duration>)| {
            bound.map_or(Duration::ZERO, |bound| task.deadline().saturating_sub(bound))
        };
        let found: Vec<Duration> = tasks.iter().zip(&bounds).map(slack).collect();
        if found == slacks || rounds > ROUNDS {
            return if rounds > ROUNDS { vec![None; tasks.len()] } else { bounds };
        }
        slacks = found;
    }
}

struct BusyWindow<'a> {
    tasks: &'a [Sporadic],
    above: &'a [(Sporadic, Duration)],
    slacks: &'a [Duration],
    cpus: u64,
    order: JobOrder<'a>,
}

impl BusyWindow<'_> {
    fn response(&self, of: usize, rounds: &mut u32) -> Option<Duration> {
        let task = &self.tasks[of];
        let due = task.deadline().min(task.period());
        let mut response = task.cost();
        let mut work_of_others: Vec<u64> = Vec::with_capacity(self.tasks.len() + self.above.len());
        loop {
            *rounds += 1;
            if response > due || *rounds > ROUNDS {
                return None;
            }
            let others = self.tasks.iter().zip(self.slacks).enumerate().filter(|(other, _)| *other != of);
            let interferes = |(other, (theirs, slack)): (usize, (&Sporadic, &Duration))| match self.order {
                JobOrder::Rank(ranks) if ranks[other] > ranks[of] => Duration::ZERO,
                JobOrder::Rank(_) => work(theirs, *slack, response),
                JobOrder::Deadline => work(theirs, *slack, response).min(work_by_deadline(theirs, *slack, due)),
            };
            let more_urgent = |(theirs, bound): &(Sporadic, Duration)| {
                work(theirs, theirs.deadline().saturating_sub(*bound), response)
            };
            work_of_others.clear();
            work_of_others.extend(others.map(interferes).map(Duration::as_nanos));
            work_of_others.extend(self.above.iter().map(more_urgent).map(Duration::as_nanos));
            let next = task.cost().saturating_add(self.longest_wait(&mut work_of_others));
            if next <= response {
                return Some(response);
            }
            response = next;
        }
    }

    /// Returns the longest time for which a job can wait for these amounts of work.
    ///
    /// A job that waited for x ns and is not done has waited for the x + 1st, in which m CPUs
    /// computed: the sum of min(work, x + 1) is then m (x + 1) or more. The sum is the least, over
    /// k, of k (x + 1) and all work but the k largest amounts; so the least x + 1 that is
    /// impossible is the least, over k < m, of the rest over m - k, plus one. Stepping from x to x
    /// + 1 instead, as the theorem is written, takes a round per nanosecond.
    fn longest_wait(&self, work: &mut [u64]) -> Duration {
        work.sort_unstable_by(|a, b| b.cmp(a));
        let mut rest = work.iter().fold(0, |sum: u64, next| sum.saturating_add(*next));
        let mut least = rest / self.cpus;
        for (busy, largest) in (1..self.cpus).zip(work.iter()) {
            rest = rest.saturating_sub(*largest);
            least = least.min(rest / (self.cpus - busy));
        }
        Duration::from_nanos(least)
    }
}

/// Returns the most work of a task in any window of a length: its first job in it ends as late as
/// it can, the next ones run as early as they can.
pub(crate) fn work(task: &Sporadic, slack: Duration, window: Duration) -> Duration {
    let reach = window.saturating_add(task.deadline()).saturating_sub(task.cost()).saturating_sub(slack);
    jobs(task, reach, |rest| rest)
}

/// Returns the most work of jobs whose deadline is at the end of a window or before.
fn work_by_deadline(task: &Sporadic, slack: Duration, window: Duration) -> Duration {
    let jobs = match window.as_nanos().checked_sub(task.deadline().as_nanos()) {
        Some(rest) => rest / task.period().as_nanos() + 1,
        None => 0,
    };
    let rest = window.saturating_sub(times(jobs, task.period())).saturating_sub(slack);
    times(jobs, task.cost()).saturating_add(rest.min(task.cost()))
}

fn jobs(task: &Sporadic, reach: Duration, rest: impl Fn(Duration) -> Duration) -> Duration {
    let (period, reach) = (task.period().as_nanos(), reach.as_nanos());
    let whole = times(reach / period, task.cost());
    whole.saturating_add(rest(Duration::from_nanos(reach % period)).min(task.cost()))
}

/// Returns whether the densities add up to no more than m - (m - 1) times the largest: then no
/// deadline is missed under global EDF on m CPUs.
#[must_use]
pub fn density_test(tasks: &[Sporadic], cpus: u64) -> bool {
    let densities = tasks.iter().map(Sporadic::density);
    let largest = densities.clone().fold(0.0, f64::max);
    let most = cpus as f64 - (cpus.saturating_sub(1)) as f64 * largest;
    // Sums of floating point numbers are a little apart: the test refuses then.
    densities.sum::<f64>() <= most - 1e-9
}

/// Returns how long after its deadline a job of each task ends at most, under global EDF on `cpus`
/// CPUs, with deadlines at the end of periods; none if the tasks need more than all CPUs.
#[must_use]
pub fn tardiness(tasks: &[Sporadic], cpus: u64) -> Option<Vec<Duration>> {
    let shares: Vec<f64> = tasks.iter().map(Sporadic::utilization).collect();
    if shares.iter().sum::<f64>() > cpus as f64 + 1e-9 || shares.iter().any(|share| *share > 1.0) {
        return None;
    }
    let largest = |mut values: Vec<f64>, count: u64| -> f64 {
        values.sort_by(|a, b| b.total_cmp(a));
        values.iter().take(usize::try_from(count).unwrap_or(usize::MAX)).sum()
    };
    if cpus <= 1 {
        return Some(vec![Duration::ZERO; tasks.len()]);
    }
    let costs: Vec<f64> = tasks.iter().map(|task| task.cost().as_nanos() as f64).collect();
    let shortest = costs.iter().copied().fold(f64::INFINITY, f64::min);
    let x = (largest(costs, cpus - 1) - shortest).max(0.0) / (cpus as f64 - largest(shares, cpus - 2));
    let late = |task: &Sporadic| Duration::from_nanos((x.ceil() as u64).saturating_add(1)).saturating_add(task.cost());
    Some(tasks.iter().map(late).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(cost: u64, period: u64) -> Sporadic {
        Sporadic::new(Duration::from_micros(cost), Duration::from_micros(period)).expect("a task")
    }

    fn set() -> [Sporadic; 4] {
        [us(1_000, 4_000), us(1_000, 5_000), us(3_000, 9_000), us(9_000, 18_000)]
    }

    #[test]
    fn responses_are_those_of_other_implementations() {
        let found = fixed(&set(), &[0, 1, 2, 3], &[], 2);
        let whole: Vec<Option<u64>> =
            found.iter().map(|bound| bound.map(|time| time.as_micros_floor() / 1_000)).collect();
        assert_eq!(whole, [1, 1, 4, 15].map(Some));
        assert_eq!(fixed(&set(), &[0, 1, 2, 3], &[], 1)[3], None);
        assert_eq!(fixed(&set(), &[0; 4], &[], 4), set().map(|task| Some(task.cost())));
    }

    #[test]
    fn more_urgent_tasks_count_wherever_they_are_listed() {
        let whole = fixed(&set(), &[0, 1, 2, 3], &[], 2);
        let above: Vec<(Sporadic, Duration)> =
            set()[..2].iter().copied().zip(whole.iter().flatten().copied()).collect();
        assert_eq!(fixed(&set()[2..], &[2, 3], &above, 2), whole[2..]);
    }

    #[test]
    fn a_heavy_task_among_light_ones_is_refused() {
        // Dhall & Liu 1978: two light tasks and one of a whole CPU miss on two CPUs, if all begin
        // together.
        let dhall = [us(200, 1_000), us(200, 1_000), us(1_000, 1_010)];
        assert!(edf(&dhall, 2).iter().all(Option::is_none) && !density_test(&dhall, 2));
        assert!(tardiness(&dhall, 2).is_some());
        let light = [us(200, 1_000); 5];
        assert!(density_test(&light, 2) && edf(&light, 2).iter().all(Option::is_some));
        assert_eq!(tardiness(&[us(700, 1_000); 3], 2), None);
    }
}

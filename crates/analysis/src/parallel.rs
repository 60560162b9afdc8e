//! Fixed priorities on several servers at once: tasks that move between the servers of a group.
//!
//! Each server gives its group CPU time by its own pattern, and the tasks of the group run on
//! whatever the servers give together. While a job waits, every server that supplies runs a task as
//! urgent. While the job runs, it takes one of them, and the others are not counted:
//!
//! ```text
//!   supply of m servers in a window   <=   work of the tasks as urgent  +  m * (time the job runs)
//! ```
//!
//! So a job of cost C has ended in a window of length t if m C and the work of the tasks as urgent
//! are at most the least supply of m servers in t, which is m times that of one, since the worst
//! patterns can coincide. This is theorem 1 of Bini, Bertogna & Baruah 2009 ("Virtual multiprocessor
//! platforms: specification and use", RTSS) for the parallel supply function of m equal and
//! independent servers; with fewer than m servers counted it is never better, since they are equal.
//! The work in a window is bounded as in [`global`](crate::global) (Bertogna & Cirinei 2007).
//!
//! It assumes that no server stands idle, or runs a less urgent task, while a task of the group
//! waits that may run there. Deadlines are at most the period.
//!
//! Cost: rounds times tasks squared times iterations; [`global::ROUNDS`](crate::global::ROUNDS)
//! iterations at most.

use crate::global::{ROUNDS, work};
use crate::supply::{Supply, least, time_for};
use crate::task::{Sporadic, sum};
use zerolag_model::Duration;

/// A server that runs as soon as it has a task and runtime, because no other reservation competes
/// for its CPU. At worst its runtime has just been used, and the next period has not begun.
///
/// ```text
///  |........|QQ......|QQ......|
///   └ P - Q ┘
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AtOnce {
    budget: Duration,
    period: Duration,
}

impl AtOnce {
    /// Returns a server; none if not 0 < budget <= period.
    #[must_use]
    pub fn new(budget: Duration, period: Duration) -> Option<Self> {
        let is_valid = !budget.is_zero() && budget <= period && period <= Sporadic::LONGEST;
        is_valid.then_some(Self { budget, period })
    }
}

impl Supply for AtOnce {
    fn rate(&self) -> f64 {
        self.budget.as_nanos() as f64 / self.period.as_nanos() as f64
    }

    fn least(&self, window: Duration) -> Duration {
        least(window, self.blackout(), self.budget, self.period)
    }

    fn time_for(&self, work: Duration) -> Duration {
        time_for(work, self.blackout(), self.budget, self.period)
    }

    fn blackout(&self) -> Duration {
        self.period.saturating_sub(self.budget)
    }
}

/// Returns the longest response of each task on `servers` servers with this supply each. A task of
/// a lower rank is more urgent, and tasks of equal rank delay each other. A task that is not seen to
/// end within its deadline has no bound, and neither has any that it can delay.
///
/// # Panics
/// If there is not one rank per task.
///
/// ```
/// use zerolag_analysis::Sporadic;
/// use zerolag_analysis::parallel::{AtOnce, fixed};
/// use zerolag_model::Duration;
///
/// let ms = Duration::from_millis;
/// let half = AtOnce::new(ms(5), ms(10)).unwrap();
/// let tasks = [Sporadic::new(ms(4), ms(40)).unwrap(), Sporadic::new(ms(3), ms(60)).unwrap()];
/// // 5 ms without supply, then 4 ms; the second waits for half of the first's work.
/// assert_eq!(fixed(&tasks, &[0, 1], 2, &half), [Some(ms(9)), Some(ms(10))]);
/// ```
#[must_use]
pub fn fixed(tasks: &[Sporadic], ranks: &[u32], servers: u64, supply: &impl Supply) -> Vec<Option<Duration>> {
    assert_eq!(tasks.len(), ranks.len(), "a rank per task");
    let mut slacks = vec![Duration::ZERO; tasks.len()];
    let mut rounds = 0;
    let mut bounds = loop {
        let bound = |of| response((tasks, ranks, &slacks), of, servers.max(1), supply, &mut rounds);
        let bounds: Vec<Option<Duration>> = (0..tasks.len()).map(bound).collect();
        let slack = |(task, bound): (&Sporadic, &Option<Duration>)| {
            bound.map_or(Duration::ZERO, |bound| task.deadline().saturating_sub(bound))
        };
        let found: Vec<Duration> = tasks.iter().zip(&bounds).map(slack).collect();
        if rounds > ROUNDS {
            return vec![None; tasks.len()];
        }
        if found == slacks {
            break bounds;
        }
        slacks = found;
    };
    // A task without a bound can reach into any window of those that it delays.
    let without = bounds.iter().zip(ranks).filter(|(bound, _)| bound.is_none()).map(|(_, rank)| *rank);
    if let Some(first) = without.min() {
        for (bound, _) in bounds.iter_mut().zip(ranks).filter(|(_, rank)| **rank >= first) {
            *bound = None;
        }
    }
    bounds
}

fn response(
    (tasks, ranks, slacks): (&[Sporadic], &[u32], &[Duration]),
    of: usize,
    servers: u64,
    supply: &impl Supply,
    rounds: &mut u32,
) -> Option<Duration> {
    let task = &tasks[of];
    let due = task.deadline().min(task.period());
    let others = || (0..tasks.len()).filter(|other| *other != of && ranks[*other] <= ranks[of]);
    let mut response = supply.time_for(task.cost());
    while response <= due && *rounds <= ROUNDS {
        *rounds += 1;
        let urgent = sum(others().map(|other| work(&tasks[other], slacks[other], response)));
        let each = Duration::from_nanos(urgent.as_nanos().div_ceil(servers));
        let next = supply.time_for(task.cost().saturating_add(each));
        if next <= response {
            return Some(response);
        }
        response = next;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::supply::Reservation;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    fn ms(cost: u64, period: u64) -> Sporadic {
        Sporadic::new(MS(cost), MS(period)).expect("a task")
    }

    #[test]
    fn one_server_alone_is_as_on_its_supply() {
        let third = Reservation::new(MS(10), MS(30), MS(30)).expect("a budget");
        // 40 ms without supply, then the job.
        assert_eq!(fixed(&[ms(5, 100)], &[0], 1, &third), [Some(MS(45))]);
        assert_eq!(fixed(&[ms(5, 44)], &[0], 1, &third), [None], "it is later than its period");
        let at_once = AtOnce::new(MS(10), MS(30)).expect("a budget");
        assert_eq!(fixed(&[ms(5, 100), ms(12, 100)], &[1, 0], 1, &at_once), [Some(MS(57)), Some(MS(52))]);
    }

    #[test]
    fn a_whole_cpu_each_is_the_sum_of_work_over_them() {
        let whole = AtOnce::new(MS(10), MS(10)).expect("a budget");
        let tasks = [ms(10, 100), ms(10, 100), ms(10, 100)];
        // Without a cap on the work of one task: 10 + 20 / 2.
        assert_eq!(fixed(&tasks, &[0, 0, 1], 2, &whole), [Some(MS(15)), Some(MS(15)), Some(MS(20))]);
        assert_eq!(fixed(&[ms(60, 100), ms(10, 30)], &[0, 1], 1, &whole), [Some(MS(60)), None]);
        assert_eq!(fixed(&[ms(60, 50), ms(1, 50)], &[0, 1], 2, &whole), [None, None], "the first delays the second");
    }

    /// A stream of numbers.
    struct Dice(u64);

    impl Dice {
        fn below(&mut self, end: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) % end
        }
    }

    /// Runs tasks by priority on servers in steps of 1 ms; returns the longest response of each.
    /// Every server gives its budget somewhere in each of its periods, as `at_once` says as soon as
    /// the period begins.
    fn simulated(tasks: &[Sporadic], servers: u64, (budget, period): (u64, u64), dice: &mut Dice) -> Vec<u64> {
        const END: u64 = 3_000;
        let patterns: Vec<Vec<bool>> = (0..servers)
            .map(|_| {
                let (phase, mut pattern) = (dice.below(period), vec![false; 2 * period as usize + END as usize]);
                for begin in (0..pattern.len() as u64 - period).step_by(period as usize) {
                    let late = [0, period - budget, dice.below(period - budget + 1)][dice.below(3) as usize];
                    (0..budget).for_each(|at| pattern[(begin + late + at) as usize] = true);
                }
                pattern.split_off(phase as usize)
            })
            .collect();
        let ms = |time: Duration| time.as_nanos() / 1_000_000;
        let mut worst = vec![0; tasks.len()];
        let mut jobs: Vec<(u64, u64)> = tasks.iter().map(|task| (dice.below(ms(task.period())), 0)).collect();
        let mut next: Vec<u64> = jobs.iter().map(|(release, _)| *release).collect();
        for now in 0..END {
            for (of, task) in tasks.iter().enumerate() {
                if next[of] == now {
                    assert_eq!(jobs[of].1, 0, "a set with bounds ends its jobs within their periods");
                    jobs[of] = (now, ms(task.cost()));
                    next[of] = now + ms(task.period()) + [0, dice.below(10)][dice.below(2) as usize];
                }
            }
            let supplies = patterns.iter().filter(|pattern| pattern[now as usize]).count();
            let running: Vec<usize> = (0..tasks.len()).filter(|of| jobs[*of].1 > 0).take(supplies).collect();
            for of in running {
                jobs[of].1 -= 1;
                if jobs[of].1 == 0 {
                    worst[of] = worst[of].max(now + 1 - jobs[of].0);
                }
            }
        }
        worst
    }

    #[test]
    fn no_response_on_random_supplies_is_above_its_bound() {
        let (mut sets, mut closest) = (0, 0.0_f64);
        for seed in 0..3_000 {
            let dice = &mut Dice(seed);
            let (servers, period) = (1 + dice.below(3), 4 + dice.below(20));
            let budget = 1 + dice.below(period);
            let count = 1 + dice.below(4);
            let tasks: Vec<Sporadic> = (0..count)
                .map(|_| {
                    let period = 10 + dice.below(150);
                    ms(1 + dice.below((period / 4).min(budget * 2)), period)
                })
                .collect();
            let ranks: Vec<u32> = (0..count as u32).collect();
            let supply = Reservation::new(MS(budget), MS(period), MS(period)).expect("a budget");
            let Some(bounds) = fixed(&tasks, &ranks, servers, &supply).into_iter().collect::<Option<Vec<_>>>() else {
                continue;
            };
            sets += 1;
            let worst = simulated(&tasks, servers, (budget, period), dice);
            for (of, (bound, worst)) in bounds.iter().zip(worst).enumerate() {
                let share = worst as f64 * 1e6 / bound.as_nanos() as f64;
                assert!(share <= 1.0, "seed {seed}: task {of} responds in {worst} ms, bound {bound}");
                closest = closest.max(share);
            }
        }
        assert!(sets > 500 && closest > 0.8, "{sets} sets, up to {closest:.3} of the bounds");
    }
}

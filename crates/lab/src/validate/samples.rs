//! [`Told`]: whether our runs and a kernel's takes can be told apart.
//!
//! On two CPUs microseconds decide which task moves, and takes of one kernel differ by points. A
//! mean of four takes is then no value that a simulator could reach. The question that has an
//! answer is whether runs and takes are draws of one distribution. It is asked with a two-sample
//! test on the shares of all tasks of a case together:
//!
//! * the statistic is the energy distance (Szekely and Rizzo 2004): twice the mean distance between
//!   a take and a run, less the mean distances within takes and within runs. It sees differences of
//!   means and of spreads;
//! * its distribution, if takes and runs are alike, is that of all ways to call as many of the
//!   values takes. So the false alarms are as stated for any distribution of shares.
//!
//! **Power.** With four takes and eight runs of normal shares a shift by 3.25 standard deviations
//! is found nine times in ten, with false alarms of one in a hundred (`power` below proves both).

use zerolag_workload::random::Stream;

/// The part of cases that are told apart although they are alike.
pub const FALSE_ALARMS: f64 = 0.01;
/// A shift by so many standard deviations is found in nine of ten cases.
const FOUND: f64 = 3.25;
/// Up to so many ways to name takes, all are counted; of more, so many are drawn.
const ALL_WAYS: usize = 5000;

/// The result of a two-sample test.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Told {
    /// How many of all ways to name takes are at least as far apart: the significance.
    pub p: f64,
    /// The shift of shares that would be found in nine of ten cases, in their unit.
    pub finds: f64,
}

impl Told {
    /// Compares samples: a row per take or run, with a value per share. `None` if there are too few
    /// of them to tell any apart at [`FALSE_ALARMS`].
    #[must_use]
    pub fn of(takes: &[Vec<f64>], runs: &[Vec<f64>]) -> Option<Self> {
        let (few, all) = (takes.len(), takes.len() + runs.len());
        let ways = ways(few, all);
        if few < 2 || runs.len() < 2 || 1.0 / (ways as f64) > FALSE_ALARMS / 2.0 {
            return None;
        }
        let rows: Vec<&Vec<f64>> = takes.iter().chain(runs).collect();
        let between = |one: &[f64], other: &[f64]| one.iter().zip(other).map(|(a, b)| (a - b) * (a - b)).sum::<f64>();
        let distances: Vec<f64> =
            rows.iter().flat_map(|one| rows.iter().map(move |other| between(one, other).sqrt())).collect();
        let observed = energy(&distances, all, &(0..few).collect::<Vec<_>>());
        // Sums in another order are not equal to the last bit.
        let is_as_far = |chosen: &[usize]| energy(&distances, all, chosen) >= observed - 1e-9;
        let p = if ways <= ALL_WAYS {
            let mut chosen: Vec<usize> = (0..few).collect();
            let mut far = 0;
            loop {
                far += usize::from(is_as_far(&chosen));
                if !next(&mut chosen, all) {
                    break;
                }
            }
            far as f64 / ways as f64
        } else {
            let mut stream = Stream::new(0, "takes", 0, "ways");
            let far = (0..ALL_WAYS).filter(|_| is_as_far(&draw(&mut stream, few, all))).count();
            (far + 1) as f64 / (ALL_WAYS + 1) as f64
        };
        let within = variance(takes) + variance(runs);
        Some(Self { p, finds: FOUND * (within / (all - 2) as f64).sqrt() })
    }

    /// Returns whether they are told apart.
    #[must_use]
    pub fn is_apart(&self) -> bool {
        self.p <= FALSE_ALARMS
    }
}

/// Returns the energy distance between the chosen rows and the others.
fn energy(distances: &[f64], all: usize, chosen: &[usize]) -> f64 {
    let mut is_chosen = vec![false; all];
    chosen.iter().for_each(|row| is_chosen[*row] = true);
    let (mut within, mut among, mut between) = (0.0, 0.0, 0.0);
    for one in 0..all {
        for other in 0..one {
            let sum = match (is_chosen[one], is_chosen[other]) {
                (true, true) => &mut within,
                (false, false) => &mut among,
                _ => &mut between,
            };
            *sum += distances[one * all + other];
        }
    }
    let (takes, runs) = (chosen.len() as f64, (all - chosen.len()) as f64);
    2.0 * between / (takes * runs) - 2.0 * within / (takes * takes) - 2.0 * among / (runs * runs)
}

/// Returns the summed squares of distances from the mean, of all values.
fn variance(rows: &[Vec<f64>]) -> f64 {
    let columns = rows.first().map_or(0, Vec::len);
    let of = |column: usize| {
        let mean = rows.iter().map(|row| row[column]).sum::<f64>() / rows.len() as f64;
        rows.iter().map(|row| (row[column] - mean) * (row[column] - mean)).sum::<f64>()
    };
    (0..columns).map(of).sum()
}

/// Returns in how many ways `few` of `all` can be chosen, at most `usize::MAX`.
fn ways(few: usize, all: usize) -> usize {
    (0..few).fold(1_usize, |ways, at| ways.saturating_mul(all - at) / (at + 1))
}

/// Goes on to the next choice, in order; returns whether there is one.
fn next(chosen: &mut [usize], all: usize) -> bool {
    let few = chosen.len();
    let Some(at) = (0..few).rev().find(|at| chosen[*at] < all - few + at) else { return false };
    chosen[at] += 1;
    for later in at + 1..few {
        chosen[later] = chosen[later - 1] + 1;
    }
    true
}

/// Draws `few` of `all`.
fn draw(stream: &mut Stream, few: usize, all: usize) -> Vec<usize> {
    let mut rows: Vec<usize> = (0..all).collect();
    for at in 0..few {
        let other = at + stream.below((all - at) as u64) as usize;
        rows.swap(at, other);
    }
    rows.truncate(few);
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Draws shares of two tasks, about normal: sums of twelve uniform values.
    fn normal(stream: &mut Stream, rows: usize, shift: f64) -> Vec<Vec<f64>> {
        let mut one = || (0..12).map(|_| stream.below(1_000_000) as f64 / 1e6).sum::<f64>() - 6.0;
        (0..rows).map(|_| vec![one() + shift]).collect()
    }

    /// Returns in how many of 1000 trials four takes and eight shifted runs are told apart.
    fn found(shift: f64) -> usize {
        let mut stream = Stream::new(1, "told", 0, "power");
        let trial = |_: &usize| {
            let (takes, runs) = (normal(&mut stream, 4, 0.0), normal(&mut stream, 8, shift));
            Told::of(&takes, &runs).expect("495 ways").is_apart()
        };
        (0..1000).filter(trial).count()
    }

    #[test]
    fn power() {
        let alike = found(0.0);
        assert!(alike <= 18, "{alike} false alarms in 1000 trials, of which 10 are stated");
        let shifted = found(FOUND);
        assert!(shifted >= 900, "{shifted} of 1000 shifts by {FOUND} standard deviations are found");
    }

    #[test]
    fn ways_are_counted_once_each() {
        let mut chosen = vec![0, 1, 2, 3];
        let mut count = 1;
        while next(&mut chosen, 12) {
            count += 1;
        }
        assert_eq!((count, chosen, ways(4, 12)), (495, vec![8, 9, 10, 11], 495));
        assert!(ways(40, 80) > ALL_WAYS, "no overflow");
    }

    #[test]
    fn few_takes_tell_nothing_apart() {
        let rows = |count: usize| vec![vec![1.0]; count];
        assert_eq!(Told::of(&rows(4), &rows(4)), None, "the least p is 1 of 70");
        assert_eq!(Told::of(&rows(1), &rows(400)), None);
        let told = Told::of(&rows(4), &rows(8)).expect("495 ways");
        assert_eq!((told.p, told.finds, told.is_apart()), (1.0, 0.0, false));
        let apart = Told::of(&rows(4), &vec![vec![2.0]; 8]).expect("495 ways");
        assert!(apart.is_apart() && (apart.p - 1.0 / 495.0).abs() < 1e-9, "{apart:?}");
        let drawn = Told::of(&vec![vec![1.0]; 8], &vec![vec![2.0]; 32]).expect("drawn ways");
        assert!(drawn.is_apart(), "{drawn:?}");
    }
}

//! Fixed priorities on one CPU: the longest response of a task, exactly.
//!
//! The longest response of a task is found in the busy period that begins when it and all more
//! urgent tasks are released together. If responses can exceed the period, it is not always that of
//! the first job, so each job of the busy period is looked at. Tasks of equal priority are counted
//! as more urgent: in FIFO order a job waits for those released before it, which are no more.
//!
//! Cost: one iteration per release in the busy period, at most [`ROUNDS`] in all.
//!
//! Sources: Joseph & Pandya 1986 (the first job); Lehoczky 1990, sec. 3 (busy periods, any
//! deadline); Audsley et al. 1993 (jitter and blocking); Tindell, Burns & Wellings 1994 (both).

use crate::task::{Sporadic, jobs_in, sum, times};
use zerolag_model::Duration;

/// The most iterations of one analysis. Beyond it no bound is known.
pub const ROUNDS: u32 = 1_000_000;

/// Returns the longest response of a task on one CPU, from its arrival on, if only `above` delays
/// it; none if there is no bound: the CPU is overloaded, or the search was too long.
///
/// ```
/// use zerolag_analysis::{Sporadic, fixed};
/// use zerolag_model::Duration;
///
/// let ms = Duration::from_millis;
/// let set = [(1, 4), (1, 5), (3, 9), (3, 18)].map(|(cost, period)| Sporadic::new(ms(cost), ms(period)).unwrap());
/// let responses: Vec<_> = (0..4).map(|of| fixed::response(&set[of], &set[..of]).unwrap()).collect();
/// assert_eq!(responses, [ms(1), ms(2), ms(7), ms(18)]);
/// ```
#[must_use]
pub fn response(task: &Sporadic, above: &[Sporadic]) -> Option<Duration> {
    let mut rounds = 0;
    // The least time by which `base` and everything more urgent is done.
    let mut done = |base: Duration| {
        let mut time = base;
        loop {
            rounds += 1;
            let next = base.saturating_add(sum(above.iter().map(|other| other.requests(time))));
            if next == time {
                return Some(time);
            }
            if next > Sporadic::LONGEST || rounds > ROUNDS {
                return None;
            }
            time = next;
        }
    };
    let mut all: Vec<Sporadic> = above.to_vec();
    all.push(*task);
    if !crate::task::fits_one_cpu(&all) {
        return None;
    }
    let mut worst = Duration::ZERO;
    for job in 0..u64::from(ROUNDS) {
        let end = done(task.blocking().saturating_add(times(job + 1, task.cost())))?;
        let arrival = times(job, task.period());
        // The first job arrives with all its jitter, later ones as soon as they can.
        let response = end.saturating_add(task.jitter()).saturating_sub(arrival);
        worst = worst.max(response);
        // The next job arrives when all is done: another busy period.
        if jobs_in(end.saturating_add(task.jitter()), task.period()) <= job + 1 {
            return Some(worst);
        }
    }
    None
}

/// Returns the longest response of each task of a set, the most urgent first, on one CPU; none for
/// tasks without a bound.
#[must_use]
pub fn responses(by_urgency: &[Sporadic]) -> Vec<Option<Duration>> {
    (0..by_urgency.len()).map(|of| response(&by_urgency[of], &by_urgency[..of])).collect()
}

/// Returns whether every task of a set, the most urgent first, keeps its deadline on one CPU.
#[must_use]
pub fn is_schedulable(by_urgency: &[Sporadic]) -> bool {
    (0..by_urgency.len()).all(|of| {
        response(&by_urgency[of], &by_urgency[..of]).is_some_and(|response| response <= by_urgency[of].deadline())
    })
}

/// Returns the largest factor by which all costs can be multiplied so that the set, the most urgent
/// first, keeps its deadlines; times the utilization it is the breakdown utilization. In steps of a
/// millionth.
///
/// Source: Lehoczky, Sha & Ding 1989, sec. 4.
#[must_use]
pub fn breakdown(by_urgency: &[Sporadic]) -> f64 {
    let scaled = |millionths: u64| -> Option<Vec<Sporadic>> {
        let scale = |task: &Sporadic| {
            let cost = task.cost().mul_div_floor(millionths, 1_000_000).max(Duration::from_nanos(1));
            Sporadic::new(cost, task.period()).ok().map(|scaled| scaled.with_deadline(task.deadline()))
        };
        by_urgency.iter().map(scale).collect()
    };
    let fits = |millionths| scaled(millionths).is_some_and(|set| is_schedulable(&set));
    let utilization: f64 = by_urgency.iter().map(Sporadic::utilization).sum();
    // No factor can load the CPU with more than 1.
    let (mut low, mut high) = (0, (1.0 / utilization.max(1e-9) * 1e6) as u64 + 2);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if fits(middle) { low = middle } else { high = middle }
    }
    low as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(cost: u64, period: u64) -> Sporadic {
        Sporadic::new(Duration::from_micros(cost), Duration::from_micros(period)).expect("a task")
    }

    /// Audsley et al. 1993, table of the avionics platform (Locke et al. 1991): cost, period,
    /// deadline, blocking, jitter, longest response from the release.
    const AVIONICS: [(u64, u64, u64, u64, u64, u64); 18] = [
        (51, 1_000, 1_000, 0, 0, 51),
        (3_000, 2_000_000, 5_000, 300, 0, 3_504),
        (2_000, 25_000, 25_000, 600, 0, 5_906),
        (5_000, 25_000, 25_000, 900, 0, 11_512),
        (1_000, 40_000, 40_000, 1_350, 0, 13_064),
        (3_000, 50_000, 50_000, 1_350, 0, 16_217),
        (5_000, 50_000, 50_000, 750, 0, 20_821),
        (8_000, 59_000, 59_000, 750, 0, 36_637),
        (9_000, 80_000, 80_000, 1_350, 0, 47_798),
        (2_000, 80_000, 80_000, 450, 0, 48_949),
        (5_000, 100_000, 100_000, 1_050, 0, 99_150),
        (1_000, 200_000, 200_000, 450, 1_000, 99_550),
        (3_000, 200_000, 200_000, 450, 0, 140_641),
        (1_000, 200_000, 200_000, 450, 0, 141_692),
        (1_000, 200_000, 200_000, 1_350, 0, 143_694),
        (3_000, 1_000_000, 1_000_000, 0, 0, 145_446),
        (1_000, 1_000_000, 1_000_000, 0, 0, 146_497),
        (1_000, 1_000_000, 1_000_000, 0, 0, 147_548),
    ];

    #[test]
    fn the_published_table_is_reproduced() {
        let micros = Duration::from_micros;
        let set = AVIONICS.map(|(cost, period, deadline, blocking, jitter, _)| {
            us(cost, period).with_deadline(micros(deadline)).with_blocking(micros(blocking)).with_jitter(micros(jitter))
        });
        for (of, (.., jitter, published)) in AVIONICS.iter().enumerate() {
            assert_eq!(response(&set[of], &set[..of]), Some(micros(published + jitter)), "task {of}");
        }
        assert!(is_schedulable(&set));
    }

    #[test]
    fn the_longest_response_need_not_be_the_first() {
        // Lehoczky 1990, sec. 3: (26, 70) above (62, 100). Responses 114, 102, 116, 104, 118, 106,
        // 94.
        let set = [us(26, 70), us(62, 100)];
        assert_eq!(response(&set[1], &set[..1]), Some(Duration::from_micros(118)));
    }

    #[test]
    fn an_overloaded_cpu_has_no_bound() {
        let set = [us(6, 10), us(5, 10)];
        assert_eq!(responses(&set), [Some(Duration::from_micros(6)), None]);
        let full = [us(5, 10), us(5, 10)];
        assert_eq!(responses(&full), [5, 10].map(|time| Some(Duration::from_micros(time))));
        assert!((breakdown(&set) * 1.1 - 1.0).abs() < 1e-5, "{}", breakdown(&set));
    }
}

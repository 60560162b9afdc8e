//! Utilization bounds: curves of publications in closed form.
//!
//! A set whose utilization is at most the bound is schedulable, whatever its periods. The bounds
//! are no substitute for the tests of the other modules, which accept more: they are what these
//! tests, and the simulator, are compared with point by point
//! (`docs/lab/schedulability.md`).
//!
//! | function | curve over | scheduling | some set above it fails |
//! |---|---|---|---|
//! | [`rate_monotonic`] | tasks | fixed priorities, one CPU | yes |
//! | [`deadline_monotonic`] | tasks, deadline over period | fixed priorities, one CPU | yes |
//! | [`rate_monotonic_limit`] | longest over shortest period | the same, very many tasks | a mean |
//! | [`partitioned_edf`] | CPUs, largest share | EDF, first fit | yes |
//! | [`global_edf`] | CPUs, largest share | global EDF | yes |
//! | [`global_fixed`] | CPUs, largest and least share | global rate monotonic | not known |
//! | [`reservation_edf`] | periods of supply, rate | EDF on a reservation | yes |
//! | [`reservation_fixed`] | tasks, periods of supply, rate | fixed priorities on a reservation | in the limit |
//!
//! Deadlines are at the end of periods, except for [`deadline_monotonic`]. Utilizations are CPU
//! time per time: up to the number of CPUs. Arguments outside their range give the value at its
//! end.

/// Returns the least upper bound for `tasks` tasks under rate monotonic priorities on one CPU:
/// `n (2^(1/n) - 1)`, from 1 down to 0.693.
///
/// Source: Liu & Layland 1973, theorem 5.
///
/// ```
/// use zerolag_analysis::bounds::rate_monotonic;
///
/// assert_eq!(rate_monotonic(1), 1.0);
/// assert!((rate_monotonic(2) - 0.8284).abs() < 1e-4);
/// ```
#[must_use]
pub fn rate_monotonic(tasks: u32) -> f64 {
    deadline_monotonic(tasks, 1.0)
}

/// Returns the least upper bound if all deadlines are the same part of their periods, `part` from 0
/// to 1: `n ((2 part)^(1/n) - 1) + 1 - part`, or `part` if it is at most a half.
///
/// Source: Lehoczky 1990, sec. 5 (a bound per ratio of deadline and period).
#[must_use]
pub fn deadline_monotonic(tasks: u32, part: f64) -> f64 {
    let (tasks, part) = (f64::from(tasks.max(1)), part.clamp(0.0, 1.0));
    if part <= 0.5 { part } else { tasks * ((2.0 * part).powf(1.0 / tasks) - 1.0) + 1.0 - part }
}

/// Returns the utilization at which a rate monotonic set breaks down on one CPU, in the limit of
/// very many tasks: periods are uniform between 1 and `ratio`, costs do not depend on them.
///
/// Source: Lehoczky, Sha & Ding 1989, sec. 5. The least urgent task decides, at the last whole
/// multiple of the shortest period.
///
/// ```
/// use zerolag_analysis::bounds::rate_monotonic_limit;
///
/// // "A reasonable characterization" for periods up to a hundred times the shortest: 88 percent.
/// assert!((rate_monotonic_limit(100.0) - 0.889).abs() < 1e-3);
/// ```
#[must_use]
pub fn rate_monotonic_limit(ratio: f64) -> f64 {
    if ratio <= 1.0 {
        return 1.0;
    }
    if ratio < 2.0 {
        return ratio.ln() / (ratio - 1.0);
    }
    let whole = ratio.floor();
    let sum: f64 = (2..whole as u64).map(|period| 1.0 / period as f64).sum();
    ratio.ln() / (ratio / whole + sum)
}

/// Returns the bound for partitioned EDF by first fit if no task has a larger share than
/// `largest`: `(b m + 1) / (b + 1)`, with `b` the number of such tasks that fit on one CPU.
///
/// Source: López, García, Díaz & García 2000: no partitioning has a better one.
#[must_use]
pub fn partitioned_edf(cpus: u32, largest: f64) -> f64 {
    // Shares are read from decimals: a third is three to a CPU.
    let fit = (1.0 / largest.clamp(1e-9, 1.0) + 1e-9).floor();
    (fit * f64::from(cpus.max(1)) + 1.0) / (fit + 1.0)
}

/// Returns the bound for global EDF if no task has a larger share than `largest`:
/// `m - (m - 1) u_max`.
///
/// Source: Goossens, Funk & Baruah 2003, theorem 5.
#[must_use]
pub fn global_edf(cpus: u32, largest: f64) -> f64 {
    let cpus = f64::from(cpus.max(1));
    cpus - (cpus - 1.0) * largest.clamp(0.0, 1.0)
}

/// Returns the bound for global rate monotonic priorities if all shares are between `least` and
/// `largest`: `m (1 - u_max) / 2 + u_min`.
///
/// Source: Baker 2006.
#[must_use]
pub fn global_fixed(cpus: u32, least: f64, largest: f64) -> f64 {
    f64::from(cpus.max(1)) * (1.0 - largest.clamp(0.0, 1.0)) / 2.0 + least.clamp(0.0, 1.0)
}

/// Returns the bound for EDF on a reservation of this rate (budget over period): `k r / (k + 2 (1 -
/// r))`.
///
/// `whole` is k: in the shortest period of a task at least so many whole periods of the reservation
/// follow the longest time without it. The shortest period is then at least `k + 2 (1 - r)` periods
/// of the reservation.
///
/// Source: Shin & Lee 2008, sec. 5 (utilization bounds of the periodic resource model).
#[must_use]
pub fn reservation_edf(whole: u32, rate: f64) -> f64 {
    let (whole, rate) = (f64::from(whole), rate.clamp(0.0, 1.0));
    if whole == 0.0 { 0.0 } else { whole * rate / (whole + 2.0 * (1.0 - rate)) }
}

/// Returns the bound for `tasks` tasks with fixed priorities on a reservation of this rate: `n r
/// (q^(1/n) - 1)`, where `q = (2 k + 2 (1 - r)) / (k + 2 (1 - r))`; `whole` is k, as for
/// [`reservation_edf`]. A whole CPU, r = 1, has that of [`rate_monotonic`].
///
/// Source: Shin & Lee 2008, sec. 5.
#[must_use]
pub fn reservation_fixed(tasks: u32, whole: u32, rate: f64) -> f64 {
    let (tasks, whole, rate) = (f64::from(tasks.max(1)), f64::from(whole), rate.clamp(0.0, 1.0));
    if whole == 0.0 {
        return 0.0;
    }
    let gap = 2.0 * (1.0 - rate);
    tasks * rate * (((2.0 * whole + gap) / (whole + gap)).powf(1.0 / tasks) - 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::supply::{Reservation, edf_fits, fixed_fits};
    use crate::{Sporadic, edf, fixed};
    use zerolag_model::Duration;

    /// Returns tasks from pairs of cost and period in nanoseconds.
    fn set(tasks: impl IntoIterator<Item = (f64, f64)>) -> Vec<Sporadic> {
        let nanos = |value: f64| Duration::from_nanos(value.round() as u64);
        tasks.into_iter().map(|(cost, period)| Sporadic::new(nanos(cost), nanos(period)).expect("a task")).collect()
    }

    fn utilization(tasks: &[Sporadic]) -> f64 {
        tasks.iter().map(Sporadic::utilization).sum()
    }

    /// Returns the worst set of Liu & Layland: every cost is the distance to the next period.
    fn worst(tasks: u32, longest_over_shortest: f64, rate: f64, shortest: f64) -> Vec<Sporadic> {
        let step = longest_over_shortest.powf(1.0 / f64::from(tasks));
        set((0..tasks).map(|of| {
            let period = shortest * step.powi(of as i32);
            (rate * period * (step - 1.0), period)
        }))
    }

    #[test]
    fn the_worst_sets_break_down_at_the_bound_of_liu_and_layland() {
        for tasks in 1..=20 {
            let set = worst(tasks, 2.0, 1.0, 1e9);
            let broken = fixed::breakdown(&set) * utilization(&set);
            assert!((broken - rate_monotonic(tasks)).abs() < 1e-5, "{tasks} tasks: {broken}");
        }
    }

    #[test]
    fn earlier_deadlines_break_down_at_the_bound_of_lehoczky() {
        for tasks in 1..=10_u32 {
            for part in [0.2, 0.5, 0.6, 0.75, 0.9, 1.0] {
                let step = (2.0_f64 * part).max(1.0).powf(1.0 / f64::from(tasks));
                let of_last = f64::from(tasks - 1);
                let urgent = (0..tasks - 1).map(|of| 1e9 * step.powi(of as i32));
                // Every cost is the distance to the next point at which work arrives, the last of
                // which is the last task's deadline; what is left in the first period is its own.
                let mut tasks_of: Vec<(f64, f64)> =
                    urgent.map(|period| ((period * (step - 1.0)).max(1.0), period)).collect();
                let deadline = 1e9 * step.powf(of_last);
                tasks_of.push((if part <= 0.5 { deadline } else { 2e9 - deadline }, deadline / part));
                let set: Vec<Sporadic> = set(tasks_of)
                    .into_iter()
                    .map(|task| task.with_deadline(task.period().mul_div_floor((part * 1e6).round() as u64, 1_000_000)))
                    .collect();
                let broken = fixed::breakdown(&set) * utilization(&set);
                assert!((broken - deadline_monotonic(tasks, part)).abs() < 1e-4, "{tasks} tasks, {part}: {broken}");
            }
        }
    }

    #[test]
    fn edf_on_a_reservation_breaks_down_at_the_bound_of_shin_and_lee() {
        for rate in [0.2, 0.4, 0.5, 0.6, 0.8, 0.95] {
            for whole in [1, 2, 3, 5, 10, 50] {
                let period = 1e6;
                let budget = Duration::from_nanos((rate * period) as u64);
                let supply =
                    Reservation::new(budget, Duration::from_millis(1), Duration::from_millis(1)).expect("valid");
                // One task, with the shortest period that there can be.
                let shortest = (f64::from(whole) + 2.0 * (1.0 - rate)) * period;
                let bound = reservation_edf(whole, rate);
                let fits = |factor: f64| edf_fits(&set([(bound * factor * shortest, shortest)]), &supply);
                assert!(fits(0.9999) && !fits(1.0001), "rate {rate}, {whole} periods: {bound}");
                let alone = reservation_fixed(1, whole, rate);
                assert!((alone - bound).abs() < 1e-12, "one task has one order: {alone}");
                // Several, in the order that is worst on a supply without steps.
                for tasks in [2, 4, 8] {
                    let gap = 2.0 * (1.0 - rate);
                    let whole = f64::from(whole);
                    let set = worst(tasks, (2.0 * whole + gap) / (whole + gap), rate, shortest);
                    let scaled = |factor: f64| {
                        let task =
                            |task: &Sporadic| (task.cost().as_nanos() as f64 * factor, task.period().as_nanos() as f64);
                        self::set(set.iter().map(task))
                    };
                    let sum = utilization(&set);
                    assert!((sum - reservation_fixed(tasks, whole as u32, rate)).abs() < 1e-4);
                    assert!(fixed_fits(&scaled(0.999), &supply), "rate {rate}, {whole} periods, {tasks} tasks: {sum}");
                    // The steps of the supply give at most one period's budget more.
                    if whole >= 50.0 {
                        assert!(!fixed_fits(&scaled(1.03), &supply), "rate {rate}, {tasks} tasks: {sum}");
                    }
                }
            }
        }
        assert!((reservation_fixed(3, 7, 1.0) - rate_monotonic(3)).abs() < 1e-12);
    }

    #[test]
    fn many_tasks_break_down_near_the_limit() {
        // A fixed sequence that is spread evenly, in place of dice: multiples of the golden ratio.
        for ratio in [1.5, 2.0, 2.5, 5.0] {
            let tasks = 300;
            let part = |of: u32, of_what: f64| (f64::from(of) * of_what).fract();
            let mut drawn: Vec<(f64, f64)> = (1..=tasks)
                .map(|of| (part(of, 0.754_877_666), 1e6 * (1.0 + (ratio - 1.0) * part(of, 0.569_840_29))))
                .collect();
            drawn.sort_by(|a, b| a.1.total_cmp(&b.1));
            let sum: f64 = drawn.iter().map(|(cost, period)| cost * 1e6 / period).sum();
            let set = set(drawn.iter().map(|(cost, period)| (cost * 1e9 * 0.2 / sum, period * 1e3)));
            let broken = fixed::breakdown(&set) * utilization(&set);
            let limit = rate_monotonic_limit(ratio);
            assert!((broken - limit).abs() < 0.015, "periods 1 to {ratio}: {broken}, limit {limit}");
        }
    }

    #[test]
    fn edf_fills_a_cpu() {
        let full = set([(5e5, 1e6), (1e6, 2e6)]);
        assert!(edf::check(&full).is_ok());
        for largest in [0.1, 0.5, 1.0] {
            assert!((global_edf(1, largest) - 1.0).abs() < 1e-12 && (partitioned_edf(1, largest) - 1.0).abs() < 1e-12);
        }
        // The abstract of López et al.: half of the CPUs and a half, if nothing is known of shares.
        assert!((partitioned_edf(7, 1.0) - 4.0).abs() < 1e-12);
    }
}

//! How the times of single operations vary: sketches of what a switch and a wakeup take on top of
//! their medians.
//!
//! The recorded lateness of a timer contains both operations, so what they take is taken out of it
//! again, place by place: as if the slowest wakeups were those of the latest timers. A time that
//! is drawn from three sketches is never later than the recorded one at its last place, and
//! earlier in between where the three are late at different times.

use crate::calibrate::median;
use zerolag_linux::calibrate::Direct;
use zerolag_model::Duration;
use zerolag_sim::Costs;
use zerolag_sim::sketch::Sketch;

/// Sets the sketches of a switch (a FIFO thread sleeps beside a computing one) and of a wakeup (the
/// timer of a less urgent thread) from what was measured. A tick that came during a measured
/// operation is in it; the simulation has ticks of its own, so one sample in a hundred is too late
/// where operations take a hundredth of a tick.
pub(super) fn set(costs: &mut Costs, direct: &Direct) {
    costs.switch_late = above_median(&direct.fair.fifo_block);
    let wakes = if direct.timer_wake.is_empty() { &direct.wake_local } else { &direct.timer_wake };
    costs.wakeup_late = above_median(wakes);
}

/// Returns the sketch of samples beyond their median.
fn above_median(samples: &[u64]) -> Sketch {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    Sketch::of(&sorted, median(&sorted))
}

/// Takes what a switch and a wakeup vary out of the recorded lateness of a timer.
pub(super) fn without(late: &Sketch, costs: &Costs) -> Sketch {
    late.less(|place| costs.switch_late.at(place) + costs.wakeup_late.at(place))
}

/// Returns the lines of the profile.
pub(super) fn rows(costs: &Costs) -> String {
    let rows = [
        (
            "switch_late",
            &costs.switch_late,
            "what a FIFO thread that sleeps beside a computing one took beyond the median",
        ),
        ("wakeup_late", &costs.wakeup_late, "what wakeups of `wakeup_local` took beyond the median"),
    ];
    let drawn = rows.into_iter().filter(|(_, sketch, _)| !sketch.is_zero());
    drawn
        .map(|(key, sketch, from)| format!("\n# measured: {from}; places in millionths\n{key} = {}\n", text(sketch)))
        .collect()
}

/// Returns a sketch as TOML.
pub(super) fn text(sketch: &Sketch) -> String {
    let quantile = |(place, time): &(u64, Duration)| format!("[{place}, \"{}ns\"]", time.as_nanos());
    format!("[{}]", sketch.quantiles().iter().map(quantile).collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_vary_by_what_is_above_their_median_and_timers_by_the_rest() {
        let mut costs = Costs::zero();
        // 1 to 1001 ns.
        let sorted: Vec<u64> = (1..=1001).collect();
        let mut direct = Direct { timer_wake: sorted.iter().rev().copied().collect(), ..Direct::default() };
        direct.fair.fifo_block = sorted;
        set(&mut costs, &direct);
        let ns = Duration::from_nanos;
        assert_eq!([0, 500_000, 990_000].map(|place| costs.switch_late.at(place)), [ns(0), ns(0), ns(490)]);
        assert_eq!(costs.wakeup_late, costs.switch_late);
        let late = Sketch::of(&(0..=10_000).collect::<Vec<u64>>(), Duration::ZERO);
        let rest = without(&late, &costs);
        assert_eq!([500_000, 990_000].map(|place| rest.at(place)), [ns(5_000), ns(9_900 - 980)]);
    }

    #[test]
    fn the_written_profile_is_read_back() {
        let mut costs = Costs::zero();
        let mut direct = Direct { wake_local: vec![5, 9, 1_000], ..Direct::default() };
        direct.fair.fifo_block = vec![700, 20, 10];
        set(&mut costs, &direct);
        let file = rows(&costs);
        let read = Costs::from_toml("x", &file).expect("a profile");
        assert_eq!((read.switch_late, read.wakeup_late), (costs.switch_late, costs.wakeup_late));
    }
}

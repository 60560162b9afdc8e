//! Where in a wakeup and a switch the kernel writes its events.
//!
//! The simulator's wakeup begins with the interrupt, or with the effect of a call, and its switch
//! with the scheduler. The kernel writes `sched_switch` later, when it has picked the next task. So
//! what a delay between the two events is longer than the simulated costs before it is the way to
//! that choice, and it is taken out of the switch, whose sum was fitted from user space:
//!
//! | entry | delay | less |
//! |---|---|---|
//! | `pick` | a FIFO thread, by its timer | `timer_irq`, `wakeup_local`, `rq_lock_hold` |
//! | `fair_pick` | the same beside a fair thread that computes | the same beside a FIFO one |
//! | `group_wakeup` | the same in two groups, halved | the same in none |
//! | `call_rest` | a fair thread, by a pipe | `wakeup_local`, `fair_wakeup`, `rq_lock_hold`, `pick`, `fair_pick` |
//!
//! Predicted is then a fair thread that its timer wakes beside a fair one.

use zerolag_linux::calibrate::Delays;
use zerolag_model::Duration;
use zerolag_sim::Costs;

/// Sets the entries that delays tell. Without delays nothing is changed; returns whether it was.
pub(super) fn set(costs: &mut Costs, delays: &Delays) -> bool {
    let (Some(fifo), Some(beside_fair)) = (middle(&delays.fifo), middle(&delays.fifo_beside_fair)) else {
        return false;
    };
    let wakeup = costs.wakeup_local + costs.rq_lock_hold;
    let fair_wakeup = wakeup + costs.fair_wakeup;
    let pick = fifo.saturating_sub(costs.timer_irq + wakeup).min(costs.context_switch);
    let fair_pick = beside_fair.saturating_sub(fifo).min(costs.fair_switch);
    costs.pick = pick;
    costs.context_switch -= pick;
    costs.fair_pick = fair_pick;
    costs.fair_switch -= fair_pick;
    if let (Some(grouped), Some(fair)) = (middle(&delays.grouped), middle(&delays.fair)) {
        costs.group_wakeup = grouped.saturating_sub(fair) / LEVELS;
    }
    if let Some(piped) = middle(&delays.piped) {
        let call = costs.syscall + costs.waiting_call;
        costs.call_rest = piped.saturating_sub(fair_wakeup + pick + fair_pick).min(call);
    }
    true
}

/// Returns the mean of the middle half of sorted samples: the trace counts microseconds, so that a
/// median would be one of few values.
pub(super) fn middle(sorted: &[u64]) -> Option<Duration> {
    let quarter = sorted.len() / 4;
    let half = &sorted[quarter..sorted.len() - quarter];
    (!half.is_empty()).then(|| Duration::from_nanos(half.iter().sum::<u64>() / half.len() as u64))
}

/// Returns the rows of the profile.
pub(super) fn rows(costs: &Costs, delays: &Delays) -> Vec<(&'static str, String, String)> {
    let rows = [
        ("pick", costs.pick, "a FIFO thread's timer", &delays.fifo),
        ("fair_pick", costs.fair_pick, "that timer beside a fair thread", &delays.fifo_beside_fair),
        ("group_wakeup", costs.group_wakeup, "a fair thread's timer, in two groups", &delays.grouped),
        ("call_rest", costs.call_rest, "a fair thread woken by a pipe", &delays.piped),
    ];
    let traced = rows.into_iter().filter_map(|(key, cost, what, samples)| {
        let delay = middle(samples)?;
        let samples = samples.len();
        let origin =
            format!("traced: {what}, {delay} from waking to switch (middle half of {samples}), less what is known");
        Some((key, format!("\"{}ns\"", cost.as_nanos()), origin))
    });
    traced.collect()
}

/// The groups in which [`Delays::grouped`] was measured.
const LEVELS: u64 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_event_moves_and_the_sums_stay() {
        let us = Duration::from_micros;
        let mut costs = Costs {
            context_switch: us(9),
            fair_switch: us(5),
            wakeup_local: us(7),
            fair_wakeup: us(4),
            timer_irq: us(4),
            syscall: us(2),
            waiting_call: us(3),
            ..Costs::zero()
        };
        let sum = costs.context_switch + costs.fair_switch;
        let at = |us: u64| vec![us * 1_000; 8];
        let delays = Delays {
            fifo: at(14),
            fifo_beside_fair: at(16),
            fair: at(20),
            grouped: at(26),
            limited: at(30),
            piped: at(20),
        };
        assert!(set(&mut costs, &delays));
        assert_eq!([costs.pick, costs.fair_pick, costs.group_wakeup, costs.call_rest], [us(3), us(2), us(3), us(4)]);
        assert_eq!(costs.context_switch + costs.fair_switch + costs.pick + costs.fair_pick, sum);
        let keys: Vec<&str> = rows(&costs, &delays).iter().map(|(key, ..)| *key).collect();
        assert_eq!(keys, ["pick", "fair_pick", "group_wakeup", "call_rest"]);
    }

    #[test]
    fn nothing_is_told_without_a_trace() {
        let mut costs = Costs::server();
        assert!(!set(&mut costs, &Delays::default()));
        assert_eq!(costs, Costs::server());
        assert!(rows(&costs, &Delays::default()).is_empty());
    }

    #[test]
    fn the_middle_half_is_finer_than_the_clock() {
        assert_eq!(middle(&[1_000, 14_000, 14_000, 15_000, 15_000, 90_000]), Some(Duration::from_nanos(14_500)));
        assert_eq!(middle(&[]), None);
    }
}

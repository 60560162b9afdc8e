//! Damaged times: events far from all others.
//!
//! One damaged time makes a recording of a second last for months, and a simulation of it does not
//! end. A machine that is recorded is never silent for a quarter of an hour on all of its CPUs; so
//! a few events behind or before such a silence, beside thousands, have damaged times. If both
//! sides have many events, a recorder was stopped and started again, and both are kept.

use super::event::{Event, KernelEvent};
use super::skips::Skips;
use zerolag_model::{Duration, Instant};

/// Returns whether so much time is between two events, one after the other, that one of them can
/// be damaged.
pub(crate) const fn is_jump(from: Instant, to: Instant) -> bool {
    to.since(from).as_nanos() > JUMP.as_nanos()
}

/// Takes out the events, in order of time, whose times are damaged. Names and processes, whose
/// times do not matter, are kept.
pub(crate) fn repair(events: &mut Vec<Event<'_>>, skips: &mut Skips) {
    let jumps: Vec<usize> = (1..events.len()).filter(|at| is_jump(events[at - 1].at, events[*at].at)).collect();
    if jumps.is_empty() {
        return;
    }
    let ends = jumps.iter().copied().chain([events.len()]);
    let starts = core::iter::once(0).chain(jumps.iter().copied());
    let counted = |start: usize, end: usize| events[start..end].iter().filter(|event| has_time(event)).count();
    let parts: Vec<_> = starts.zip(ends).map(|(start, end)| (start, end, counted(start, end))).collect();
    let all: usize = parts.iter().map(|(_, _, count)| count).sum();
    let most = parts.iter().map(|(_, _, count)| *count).max().unwrap_or(0);
    let few = (all / 100).max(FEW).min(most.saturating_sub(1));
    let mut part = 0;
    let mut last = None;
    let mut kept = Vec::with_capacity(events.len());
    let mut waiting = Vec::new();
    for (index, event) in events.drain(..).enumerate() {
        while index >= parts[part].1 {
            part += 1;
        }
        if parts[part].2 > few {
            // What has no time of its own comes with the first event that is kept.
            kept.extend(waiting.drain(..).map(|remark| Event { at: event.at, ..remark }));
            last = Some(event.at);
            kept.push(event);
        } else {
            // Those before the first event that is kept have no time of their own; others come with
            // a sample, which counts.
            if has_time(&event) || (last.is_some() && parts[part].2 == 0) {
                skips.note("events with a damaged time", || {
                    format!("at {} on CPU {}, more than {JUMP_SECONDS} s from all others", event.at, event.cpu)
                });
            }
            match last {
                _ if has_time(&event) => {}
                Some(at) => kept.push(Event { at, ..event }),
                None => waiting.push(event),
            }
        }
    }
    *events = kept;
}

/// Returns whether an event has a time of its own.
const fn has_time(event: &Event<'_>) -> bool {
    !matches!(event.event, KernelEvent::Name { .. } | KernelEvent::Process { .. })
}

/// No CPU of a machine is silent for so long.
const JUMP: Duration = Duration::from_secs(JUMP_SECONDS);
const JUMP_SECONDS: u64 = 1000;
/// So many events can have damaged times in a short recording.
const FEW: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::event::TaskRef;
    use zerolag_model::{CpuId, Prio};

    fn left(seconds: &[u64]) -> (Vec<u64>, Vec<crate::meta::Skipped>) {
        let task = TaskRef { comm: "a", tid: 1 };
        let event = |second: &u64| {
            let waking = KernelEvent::Waking { task, prio: Prio::from_raw(120), target: CpuId(0) };
            Event::new(Instant::from_nanos(second * 1_000_000_000), CpuId(0), waking)
        };
        let (mut events, mut skips) = (seconds.iter().map(event).collect(), Skips::default());
        repair(&mut events, &mut skips);
        (events.iter().map(|event| event.at.as_nanos() / 1_000_000_000).collect(), skips.done())
    }

    #[test]
    fn few_events_far_from_many_are_damaged() {
        let (kept, skipped) = left(&[1, 5000, 5001, 5002, 5003, 11_537_896]);
        assert_eq!(kept, [5000, 5001, 5002, 5003]);
        assert_eq!((skipped.len(), skipped[0].count), (1, 2));
        assert!(skipped[0].first.starts_with("at 1.0"), "{skipped:?}");
    }

    #[test]
    fn a_name_with_a_damaged_time_is_kept_without_it() {
        let task = TaskRef { comm: "a", tid: 1 };
        let at = |second: u64, event| Event::new(Instant::from_nanos(second * 1_000_000_000), CpuId(0), event);
        let waking = KernelEvent::Waking { task, prio: Prio::from_raw(120), target: CpuId(0) };
        let mut events = vec![at(1, waking), at(2, waking), at(5000, KernelEvent::Name { task })];
        let mut skips = Skips::default();
        repair(&mut events, &mut skips);
        assert_eq!(events, [at(1, waking), at(2, waking), at(2, KernelEvent::Name { task })]);
        assert_eq!(skips.done()[0].count, 1);
        // Those that were collected before the start have the time of the first event, here a
        // damaged one.
        let mut events = vec![at(1, KernelEvent::Name { task }), at(1, waking), at(5000, waking), at(5001, waking)];
        repair(&mut events, &mut Skips::default());
        assert_eq!(events, [at(5000, KernelEvent::Name { task }), at(5000, waking), at(5001, waking)]);
    }

    #[test]
    fn what_could_be_two_recordings_is_kept() {
        for seconds in [&[1, 2, 900][..], &[1, 5000], &[1, 2, 3, 4, 5000, 5001, 5002, 5003], &[7], &[]] {
            assert_eq!(left(seconds), (seconds.to_vec(), Vec::new()), "{seconds:?}");
        }
    }
}

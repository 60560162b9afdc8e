//! [`Time`]: what time it is, which events are still to come, and why the run ends.
//!
//! Half of the path ends of a small machine are the very next event of all. Such a path can go on
//! to its end at once, without an event. Then time passes in the midst of an event, so nothing else
//! may be left to be done at this instant: no other CPU is to be driven, and the main loop need not
//! look whether the run is over. A handler that had to say so would forget it.
//!
//! So it is the main loop that gives the right to go on, and each of these takes it away:
//!
//! | place | sets | because |
//! |---|---|---|
//! | [`Time::next_event`], where each event passes | the pause or the end of the run | the CPU that the event leads to is driven last |
//! | each CPU that is driven before the event is over, ticks included | nothing | the handler goes on after it |
//! | a task ends | nothing | it can have been the last |
//! | a path that has gone on for very long | nothing | the main loop looks at the time |
//!
//! A handler returns the CPU that is to be driven last. It can forget nothing: if it drives a CPU
//! itself, that CPU has no right.

use crate::kernel::words::Event;
use crate::outcome::End;
use crate::queue::EventQueue;
use zerolag_model::Instant;

/// Now, what is to come, and the end.
#[derive(Clone, Debug)]
pub(super) struct Time {
    pub(super) now: Instant,
    pub(super) queue: EventQueue<Event>,
    /// Until when the path of the CPU that is driven may go on without an event. Zero if something
    /// else is to be done at this instant.
    alone_until: Instant,
    /// Why the run ends, as soon as it is to end.
    pub(super) stop: Option<End>,
}

impl Time {
    pub(super) fn new(cpus: usize) -> Self {
        Self { now: Instant::ZERO, queue: EventQueue::new(cpus), alone_until: Instant::ZERO, stop: None }
    }

    /// Takes the next event out if it comes up by `limit`, and goes to its time. The path that the
    /// event leads to may go on without an event up to `until`.
    #[inline(always)]
    pub(super) fn next_event(&mut self, limit: Instant, until: Instant) -> Option<Event> {
        let (at, event) = self.queue.pop_until(limit)?;
        debug_assert!(at >= self.now, "time goes forward");
        self.now = at;
        self.alone_until = until;
        Some(event)
    }

    /// Something else is to be done at this instant.
    #[inline(always)]
    pub(super) const fn share(&mut self) {
        self.alone_until = Instant::ZERO;
    }

    /// Returns whether a path that ends then may go on to its end, as far as events are concerned.
    #[inline(always)]
    pub(super) fn may_go_on_to(&mut self, end: Instant) -> bool {
        end <= self.alone_until && self.queue.is_quiet_until(end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::Phase;
    use zerolag_model::CpuId;

    fn at(ns: u64) -> Instant {
        Instant::from_nanos(ns)
    }

    #[test]
    fn a_path_goes_on_up_to_the_next_event_the_pause_or_what_else_is_to_be_done() {
        let mut time = Time::new(1);
        assert!(!time.may_go_on_to(at(1)), "no event has given the right");
        for ns in [10, 20] {
            time.queue.push(at(ns), Phase::PathEnd, CpuId(0), ns as u32, Event::PathEnd { cpu: CpuId(0) });
        }
        time.next_event(at(100), at(15)).expect("it is queued");
        assert_eq!(time.now, at(10));
        assert!(time.may_go_on_to(at(15)) && !time.may_go_on_to(at(16)), "up to the pause");
        time.next_event(at(100), at(100)).expect("it is queued");
        time.queue.push(at(30), Phase::PathEnd, CpuId(0), 30, Event::PathEnd { cpu: CpuId(0) });
        assert!(time.may_go_on_to(at(29)) && !time.may_go_on_to(at(30)), "before the next event");
        time.share();
        assert!(!time.may_go_on_to(at(21)), "something else is to be done");
    }
}

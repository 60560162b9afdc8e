//! Where a poll spends its time: the places in the source that it passes.
//!
//! A report of a long poll names the task and the place that spawned it, which is the handler's
//! `spawn`, not the loop that computes. The stack would say more, but only the thread itself can
//! read it, in a signal handler: that needs `unsafe`, interrupts every system call of the program,
//! and unwinds where locks can be held. So a poll leaves *marks* where it calls the runtime anyway:
//! [`checkpoint`](crate::checkpoint), [`should_yield`](crate::should_yield),
//! [`yield_now`](crate::yield_now), [`sleep`](crate::sleep), [`timeout`](crate::timeout),
//! [`Interval::tick`](crate::Interval::tick), [`Mutex::lock`](crate::Mutex::lock). A mark is one
//! store, and a look at a flag:
//!
//! ```text
//!   marks of a poll:   a ------ b --------------------------------- c ------ end
//!                                        ^ a tick finds the poll too long: `is_long`
//!   report:                     from b ............................ to c
//! ```
//!
//! The first mark after the tick closes the pair: the code between the two places is what ran when
//! the poll became too long. Without a further mark the pair is closed by the end of the poll.
//! Code that calls none of these functions has no marks; its report has the type of the future.

use crate::sync::AtomicBool;
use std::cell::Cell;
use std::panic::Location;
use std::sync::atomic::Ordering;

/// A place in the source.
pub(crate) type Site = &'static Location<'static>;

/// What other threads tell the thread of a CPU about its poll. A thread that takes the CPU over
/// begins with new ones.
#[derive(Debug, Default)]
pub(crate) struct Signals {
    /// Another thread has the CPU now: the poll is asked to yield for good.
    pub(crate) is_lost: AtomicBool,
    /// The poll in progress is longer than allowed.
    pub(crate) is_long: AtomicBool,
}

/// The marks of the poll in progress on a thread.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    last: Cell<Option<Site>>,
    /// The mark before and the one after the tick that found the poll too long.
    pair: Cell<Option<Pair>>,
}

/// The places between which a poll became too long; `None` is its start, or its end.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Pair {
    pub(crate) from: Option<Site>,
    pub(crate) to: Option<Site>,
}

impl Marks {
    /// Begins a poll.
    pub(crate) fn begin(&self) {
        self.last.set(None);
        self.pair.set(None);
    }

    /// The poll passes a place.
    pub(crate) fn pass(&self, site: Site, signals: &Signals) {
        let from = self.last.replace(Some(site));
        if signals.is_long.load(Ordering::Relaxed) && self.pair.get().is_none() {
            self.pair.set(Some(Pair { from, to: Some(site) }));
        }
    }

    /// Returns the places of a poll that was too long, at its end.
    pub(crate) fn of_long_poll(&self) -> Pair {
        self.pair.get().unwrap_or(Pair { from: self.last.get(), to: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sites() -> [Site; 3] {
        #[track_caller]
        fn here() -> Site {
            Location::caller()
        }
        [here(), here(), here()]
    }

    #[test]
    fn the_places_around_the_tick_are_reported() {
        shuttle::check_random(report_the_places_around_the_tick, 1);
    }

    fn report_the_places_around_the_tick() {
        let ([a, b, c], marks) = (sites(), Marks::default());
        let signals = Signals::default();
        marks.begin();
        marks.pass(a, &signals);
        marks.pass(b, &signals);
        assert_eq!(marks.of_long_poll(), Pair { from: Some(b), to: None });
        signals.is_long.store(true, Ordering::Relaxed);
        assert_eq!(marks.of_long_poll(), Pair { from: Some(b), to: None }, "it ends without a mark");
        marks.pass(c, &signals);
        marks.pass(a, &signals);
        assert_eq!(marks.of_long_poll(), Pair { from: Some(b), to: Some(c) });
        marks.begin();
        assert_eq!(marks.of_long_poll(), Pair::default());
    }
}

//! [`Patience`]: how long a run may stay at one instant.

use crate::outcome::FORKED_MAX;
use zerolag_model::Instant;

/// How long a run may stay at one instant before it is ended ([`End::NoTime`](crate::End::NoTime)).
///
/// Without a bound a rule that asks for the same thing again and again, at no cost, fills the
/// memory with records. Time is looked at only once in many steps: a look at each would cost every
/// run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// Events between two looks, and between two calls of a progress reporter.
    pub(crate) steps: u32,
    /// Looks that may see the same instant.
    pub(crate) looks: u32,
    /// Turns of one CPU that may follow each other without an event.
    pub(crate) turns: u64,
}

impl Patience {
    /// As much as no legal run needs: each task that is due at an instant takes a few events and
    /// turns there.
    pub(crate) const fn for_tasks(tasks: usize) -> Self {
        let tasks = tasks as u64 + FORKED_MAX as u64;
        Self { steps: 1 << 16, looks: 32 + (tasks / 1024) as u32, turns: (1 << 20) + 64 * tasks }
    }

    /// Notes what a look saw; `false` when the run has stayed there for too long.
    pub(crate) fn lasts(self, seen: &mut Option<(Instant, u32)>, now: Instant) -> bool {
        let times = match *seen {
            Some((at, times)) if at == now => times + 1,
            _ => 1,
        };
        *seen = Some((now, times));
        times <= self.looks
    }
}

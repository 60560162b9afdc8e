//! What a CPU tells others about itself, packed into words so that each fact is consistent.
//!
//! Written by [`crate::rq`], read through a [`View`](crate::shared::view::View).

use zerolag_model::{Instant, Prio};

/// How many tasks a CPU has that want to run, the current one included.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct PublishedCounts {
    /// Of all classes.
    pub(crate) running: u32,
    /// Of the fair class.
    pub(crate) fair: u32,
    /// Whether there are some, and all are SCHED_IDLE.
    pub(crate) only_idle_policy: bool,
    /// Whether one waits that the balancer may move.
    pub(crate) has_waiting: bool,
}

impl PublishedCounts {
    pub(crate) const fn pack(self) -> u64 {
        self.running as u64
            | (self.fair as u64 & 0x3fff_ffff) << 32
            | (self.only_idle_policy as u64) << 62
            | (self.has_waiting as u64) << 63
    }

    pub(crate) const fn unpack(word: u64) -> Self {
        Self {
            running: word as u32,
            fair: (word >> 32) as u32 & 0x3fff_ffff,
            only_idle_policy: word >> 62 & 1 != 0,
            has_waiting: word >> 63 != 0,
        }
    }
}

/// The priorities that a CPU publishes, in one word so that they are consistent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PublishedPrios {
    /// Of the current task.
    pub(crate) current: Prio,
    /// Of the most urgent RT task queued, the current one included ([`Prio::IDLE`] if none).
    pub(crate) highest: Prio,
    /// Of the most urgent pushable RT task ([`Prio::IDLE`] if none).
    pub(crate) pushable: Prio,
    /// Whether the current task may run elsewhere.
    pub(crate) current_movable: bool,
}

impl PublishedPrios {
    pub(crate) const IDLE: Self =
        Self { current: Prio::IDLE, highest: Prio::IDLE, pushable: Prio::IDLE, current_movable: true };

    pub(crate) const fn pack(self) -> u64 {
        const fn field(prio: Prio) -> u64 {
            prio.raw().cast_unsigned() as u64
        }
        field(self.current)
            | field(self.highest) << 16
            | field(self.pushable) << 32
            | (self.current_movable as u64) << 48
    }

    pub(crate) const fn unpack(word: u64) -> Self {
        Self {
            current: Prio::from_raw(word as i16),
            highest: Prio::from_raw((word >> 16) as i16),
            pushable: Prio::from_raw((word >> 32) as i16),
            current_movable: word >> 48 != 0,
        }
    }
}

/// The deadlines that a CPU publishes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PublishedDeadlines {
    /// Of the first deadline task queued, the current one included.
    pub(crate) earliest: Option<Instant>,
    /// Of the first that waits and could run elsewhere.
    pub(crate) pushable: Option<Instant>,
}

impl PartialEq for PublishedDeadlines {
    /// As words: these are compared at most switches, and two options have four cases each.
    fn eq(&self, other: &Self) -> bool {
        self.words() == other.words()
    }
}

impl Eq for PublishedDeadlines {}

impl PublishedDeadlines {
    pub(crate) const NONE: Self = Self { earliest: None, pushable: None };

    /// Returns what is published.
    pub(crate) fn words(self) -> [u64; 2] {
        [pack_deadline(self.earliest), pack_deadline(self.pushable)]
    }
}

fn pack_deadline(deadline: Option<Instant>) -> u64 {
    deadline.unwrap_or(Instant::FAR_FUTURE).as_nanos()
}

pub(crate) fn unpack_deadline(word: u64) -> Option<Instant> {
    Some(Instant::from_nanos(word)).filter(|deadline| *deadline != Instant::FAR_FUTURE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priorities_survive_packing() {
        for (current, highest) in [(Prio::STOP, Prio::DEADLINE), (Prio::from_raw(0), Prio::IDLE)] {
            let prios = PublishedPrios { current, highest, pushable: Prio::from_raw(98), current_movable: false };
            assert_eq!(PublishedPrios::unpack(prios.pack()), prios);
        }
    }
}

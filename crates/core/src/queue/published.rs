//! The state that a CPU publishes to others, packed into words so that each fact is consistent.
//!
//! [`crate::rq`] writes it; other CPUs read it through a [`View`](crate::shared::view::View).

use zerolag_model::{Instant, Prio};

/// The number of runnable tasks of a CPU, including the current one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct PublishedCounts {
    /// The number in all classes.
    pub(crate) running: u32,
    /// The number in the fair class.
    pub(crate) fair: u32,
    /// Whether there are runnable tasks and all are SCHED_IDLE.
    pub(crate) only_idle_policy: bool,
    /// Whether a task waits that the balancer is allowed to move.
    pub(crate) has_waiting: bool,
    /// The number of blocked tasks that stay queued until their negative lag is repaid; not counted
    /// above.
    pub(crate) delayed: u32,
}

impl PublishedCounts {
    /// Returns the word. Each count saturates at its width: the first two 23 bits, the last 16.
    pub(crate) fn pack(self) -> u64 {
        let fits = self.running | self.fair <= Self::MOST && self.delayed <= u32::from(u16::MAX);
        let Self { running, fair, delayed, .. } = if fits { self } else { self.saturated() };
        u64::from(running)
            | u64::from(fair) << 23
            | u64::from(delayed) << 46
            | u64::from(self.only_idle_policy) << 62
            | u64::from(self.has_waiting) << 63
    }

    #[cold]
    fn saturated(self) -> Self {
        Self {
            running: self.running.min(Self::MOST),
            fair: self.fair.min(Self::MOST),
            delayed: self.delayed.min(u32::from(u16::MAX)),
            ..self
        }
    }

    pub(crate) const fn unpack(word: u64) -> Self {
        Self {
            running: word as u32 & Self::MOST,
            fair: (word >> 23) as u32 & Self::MOST,
            only_idle_policy: word >> 62 & 1 != 0,
            has_waiting: word >> 63 != 0,
            delayed: (word >> 46) as u32 & u16::MAX as u32,
        }
    }

    const MOST: u32 = (1 << 23) - 1;
}

/// The priorities that a CPU publishes, packed into one word so that they are consistent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PublishedPrios {
    /// The priority of the current task.
    pub(crate) current: Prio,
    /// The priority of the most urgent queued RT task, including the current one ([`Prio::IDLE`] if
    /// none).
    pub(crate) highest: Prio,
    /// The priority of the most urgent pushable RT task ([`Prio::IDLE`] if none).
    pub(crate) pushable: Prio,
    /// Whether the current task is allowed to run on another CPU.
    pub(crate) current_movable: bool,
    /// With `pull_claimed`: a pushable task may use any CPU, so that the mask of CPUs that pushable
    /// tasks may use says nothing.
    pub(crate) reaches_all: bool,
}

impl PublishedPrios {
    pub(crate) const IDLE: Self = Self {
        current: Prio::IDLE,
        highest: Prio::IDLE,
        pushable: Prio::IDLE,
        current_movable: true,
        reaches_all: false,
    };

    pub(crate) const fn pack(self) -> u64 {
        Self::pack_current(self.current, self.current_movable)
            | field(self.highest) << 16
            | field(self.pushable) << 32
            | (self.reaches_all as u64) << 49
    }

    const fn pack_current(current: Prio, movable: bool) -> u64 {
        field(current) | (movable as u64) << 48
    }

    /// Returns whether a published word shows this of the current task.
    pub(crate) const fn shows_current(word: u64, current: Prio, movable: bool) -> bool {
        word & Self::OF_CURRENT == Self::pack_current(current, movable)
    }

    /// Returns a published word with this of the current task instead.
    pub(crate) const fn with_current(word: u64, current: Prio, movable: bool) -> u64 {
        word & !Self::OF_CURRENT | Self::pack_current(current, movable)
    }

    const OF_CURRENT: u64 = 0xffff | 1 << 48;

    /// Returns whether two published words have the same most urgent task.
    pub(crate) const fn has_same_highest(one: u64, other: u64) -> bool {
        (one ^ other) & 0xffff << 16 == 0
    }

    pub(crate) const fn unpack(word: u64) -> Self {
        Self {
            current: Prio::from_raw(word as i16),
            highest: Prio::from_raw((word >> 16) as i16),
            pushable: Prio::from_raw((word >> 32) as i16),
            current_movable: word >> 48 & 1 != 0,
            reaches_all: word >> 49 & 1 != 0,
        }
    }
}

const fn field(prio: Prio) -> u64 {
    prio.raw().cast_unsigned() as u64
}

/// The deadlines that a CPU publishes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PublishedDeadlines {
    /// The deadline of the first queued deadline task, including the current one.
    pub(crate) earliest: Option<Instant>,
    /// The deadline of the first waiting task that could run on another CPU.
    pub(crate) pushable: Option<Instant>,
}

impl PartialEq for PublishedDeadlines {
    /// Compares the packed words: this runs at most switches, and comparing two options has four
    /// cases each.
    fn eq(&self, other: &Self) -> bool {
        self.words() == other.words()
    }
}

impl Eq for PublishedDeadlines {}

impl PublishedDeadlines {
    pub(crate) const NONE: Self = Self { earliest: None, pushable: None };

    /// Returns the published words.
    pub(crate) const fn words(self) -> [u64; 2] {
        [pack_deadline(self.earliest), pack_deadline(self.pushable)]
    }
}

const fn pack_deadline(deadline: Option<Instant>) -> u64 {
    match deadline {
        Some(deadline) => deadline.as_nanos(),
        None => Instant::FAR_FUTURE.as_nanos(),
    }
}

pub(crate) fn unpack_deadline(word: u64) -> Option<Instant> {
    Some(Instant::from_nanos(word)).filter(|deadline| *deadline != Instant::FAR_FUTURE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_survive_packing_and_saturate() {
        for (only_idle_policy, has_waiting) in [(false, true), (true, false)] {
            let counts = PublishedCounts { running: 4096, fair: 4095, delayed: 77, only_idle_policy, has_waiting };
            assert_eq!(PublishedCounts::unpack(counts.pack()), counts);
            let many = PublishedCounts { running: 1 << 23, delayed: 1 << 16, ..counts };
            let most = PublishedCounts { running: (1 << 23) - 1, delayed: (1 << 16) - 1, ..counts };
            assert_eq!(PublishedCounts::unpack(many.pack()), most);
        }
    }

    #[test]
    fn priorities_survive_packing() {
        for (current, highest) in [(Prio::STOP, Prio::DEADLINE), (Prio::from_raw(0), Prio::IDLE)] {
            for (current_movable, reaches_all) in [(false, true), (true, false)] {
                let pushable = Prio::from_raw(98);
                let prios = PublishedPrios { current, highest, pushable, current_movable, reaches_all };
                assert_eq!(PublishedPrios::unpack(prios.pack()), prios);
            }
        }
    }
}

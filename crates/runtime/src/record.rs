//! The flight recorder: every call of the core, in the order in which the calls took effect, with
//! its result. [`Recording::replay`] makes the same calls again on one thread and compares the
//! results.
//!
//! While the recorder is on, the CPUs make their calls one at a time: that defines the order. The
//! core's decisions depend on nothing else.

use crate::sync::Mutex;
use parking_lot::RawMutex;
use std::fmt;
use zerolag_core::call::{Answer, Call, Made, Player, Refused, Rqs};
use zerolag_core::{Config, Io, Parcel, Scheduler};

#[derive(Debug, Default)]
struct Log {
    entries: Vec<Made>,
    /// The number of calls that no longer fitted.
    missed: u64,
}

pub(crate) struct Recorder {
    limit: usize,
    log: Mutex<Log>,
}

impl Recorder {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, log: Mutex::default() }
    }

    /// Makes a call and records it.
    pub(crate) fn apply(
        &self,
        scheduler: &Scheduler<RawMutex>,
        rqs: Rqs<'_>,
        call: Call,
        hand: &mut Option<Parcel>,
        io: &mut Io,
    ) -> Result<Answer, Refused> {
        let mut log = self.log.lock();
        let made = Made::apply(scheduler, rqs, call, hand, io);
        let answer = made.answer.clone();
        if log.entries.len() < self.limit {
            log.entries.push(made);
        } else {
            log.missed += 1;
        }
        answer
    }

    pub(crate) fn take(&self, config: Config, tasks: usize) -> Recording {
        let log = std::mem::take(&mut *self.log.lock());
        Recording { config, tasks, log }
    }
}

/// The calls of a runtime, from its start.
pub struct Recording {
    config: Config,
    tasks: usize,
    log: Log,
}

impl fmt::Debug for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recording").field("calls", &self.len()).field("missed", &self.missed()).finish_non_exhaustive()
    }
}

/// The first difference between a recording and its replay.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Diverged {
    /// The index of the call, from 0.
    pub call: usize,
    /// The call, its recorded result and its result in the replay.
    pub what: String,
}

impl fmt::Display for Diverged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "call {}: {}", self.call, self.what)
    }
}

impl std::error::Error for Diverged {}

impl Recording {
    /// Returns how many calls were recorded.
    #[must_use]
    pub fn len(&self) -> usize {
        self.log.entries.len()
    }

    /// Returns whether no call was recorded.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.log.entries.is_empty()
    }

    /// Returns how many further calls had no room in the recording.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.log.missed
    }

    /// Makes all calls again on one thread, with a scheduler of its own, and compares every result.
    ///
    /// # Errors
    /// The first result that differs. Then the core is not a function of its inputs.
    pub fn replay(&self) -> Result<(), Diverged> {
        let mut player: Player<RawMutex> = Player::new(self.config.clone(), self.tasks);
        for (index, made) in self.log.entries.iter().enumerate() {
            player.repeat(made).map_err(|again| {
                let what = format!("recorded {made:?}, and now {again:?}");
                Diverged { call: index, what }
            })?;
        }
        Ok(())
    }
}

//! The flight recorder: every call of the core, in the order in which the calls took effect, with
//! its result. [`Recording::replay`] makes the same calls again on one thread and compares the
//! results.
//!
//! While the recorder is on, the CPUs make their calls one at a time: that defines the order. The
//! core's decisions depend on nothing else.

use crate::calls::{self, Answer, Call, Refused, Rqs, Under};
use parking_lot::{Mutex, RawMutex};
use std::fmt;
use zerolag_core::{Clock, Config, Io, PairClock, Parcel, Rq, Scheduler, Tracing};

#[derive(Clone, Copy, Debug)]
enum Now {
    One(Clock),
    Two(PairClock),
}

#[derive(Debug)]
struct Entry {
    call: Call,
    now: Now,
    answer: Result<Answer, Refused>,
}

#[derive(Debug, Default)]
struct Log {
    entries: Vec<Entry>,
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
        let now = match &rqs {
            Rqs::None(now) | Rqs::One(_, now) => Now::One(*now),
            Rqs::Two(_, now) => Now::Two(*now),
        };
        let mut log = self.log.lock();
        let answer = calls::apply(scheduler, rqs, &call, hand, io);
        if log.entries.len() < self.limit {
            log.entries.push(Entry { call, now, answer: answer.clone() });
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
        let mut scheduler: Scheduler<RawMutex> = Scheduler::new(self.config.clone());
        scheduler.reserve_tasks(self.tasks);
        let mut rqs: Vec<Rq> = self.config.topology().cpus().map(|cpu| scheduler.new_rq(cpu)).collect();
        let mut bodies: Vec<Option<Parcel>> = (0..self.tasks).map(|_| None).collect();
        let mut io = Io::new(Tracing::Off);
        for (index, entry) in self.log.entries.iter().enumerate() {
            let mut hand = entry.call.handed().and_then(|task| bodies[task.index()].take());
            let rqs = match (entry.call.under(), entry.now) {
                (Under::None, Now::One(now)) => Rqs::None(now),
                (Under::One(cpu), Now::One(now)) => Rqs::One(&mut rqs[cpu.index()], now),
                (Under::Two(own, other), Now::Two(now)) => {
                    let pair = rqs.get_disjoint_mut([own.index(), other.index()]);
                    Rqs::Two(pair.expect("invariant: a pair is two CPUs"), now)
                }
                (Under::None | Under::One(_), Now::Two(_)) | (Under::Two(..), Now::One(_)) => {
                    unreachable!("invariant: recorded together")
                }
            };
            let answer = calls::apply(&scheduler, rqs, &entry.call, &mut hand, &mut io);
            if answer != entry.answer {
                let what = format!("{:?} answered {:?}, and {answer:?} again", entry.call, entry.answer);
                return Err(Diverged { call: index, what });
            }
            for parcel in hand.into_iter().chain(io.parked.drain(..)) {
                let task = parcel.id();
                bodies[task.index()] = Some(parcel);
            }
            io.ops.clear();
        }
        Ok(())
    }
}

//! [`Made`], a call with what came of it, and [`Player`], which makes recorded calls again.
//!
//! What the core does is a function of its configuration, of the calls in the order in which they
//! took effect, and of what each read of the other CPUs. A host whose calls take turns while it
//! records needs only the order. A host whose CPUs call at the same time also records the reads
//! ([`Observer::Record`]): two calls that overlap have an order of their locks, but not of their
//! reads.

use crate::call::apply::Rqs;
use crate::call::data::{Answer, Call, Refused, Under};
use crate::entry::scheduler::Scheduler;
use crate::rq::run_queue::Rq;
use crate::task::body::Parcel;
use crate::task::io::{Io, Tracing};
use crate::words::clock::{Clock, PairClock};
use crate::words::config::Config;
use crate::words::observe::Observer;
use alloc::boxed::Box;
use alloc::vec::Vec;
use lock_api::RawMutex;
use zerolag_model::{CpuId, TaskId};

/// The clocks of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Now {
    /// Of a call that needs one run queue or none.
    One(Clock),
    /// Of a call that needs two.
    Two(PairClock),
}

impl Rqs<'_> {
    /// Returns the clocks.
    #[must_use]
    pub const fn now(&self) -> Now {
        match self {
            Self::None(now) | Self::One(_, now) => Now::One(*now),
            Self::Two(_, now) => Now::Two(*now),
        }
    }
}

/// A call that was made, and everything that came of it but its operations.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Made {
    /// The call.
    pub call: Call,
    /// Its clocks.
    pub now: Now,
    /// What it read of the other CPUs, if that was recorded.
    pub reads: Option<Vec<u64>>,
    /// What it returned.
    pub answer: Result<Answer, Refused>,
    /// The task whose body was in hand afterwards.
    pub hand: Option<TaskId>,
    /// The tasks whose bodies it parked ([`Io::parked`](crate::Io::parked)).
    pub parked: Vec<TaskId>,
}

impl Made {
    /// Makes a call and describes it. The operations and the parked bodies stay in `io`; recorded
    /// reads are taken out of it.
    ///
    /// # Panics
    /// As [`Call::apply`].
    pub fn apply<L: RawMutex>(
        scheduler: &Scheduler<L>,
        rqs: Rqs<'_>,
        call: Call,
        hand: &mut Option<Parcel>,
        io: &mut Io,
    ) -> Self {
        let now = rqs.now();
        let answer = call.apply(scheduler, rqs, hand, io);
        let reads = match &mut io.observer {
            Observer::Record(reads) => Some(core::mem::take(reads)),
            Observer::Off | Observer::Lines(_) | Observer::Replay { .. } => None,
        };
        let parked = io.parked.iter().map(Parcel::id).collect();
        Self { call, now, reads, answer, hand: hand.as_ref().map(Parcel::id), parked }
    }
}

/// A scheduler with its run queues and the bodies that are not on them: it makes recorded calls
/// again, one after the other, on one thread.
#[derive(Debug)]
pub struct Player<L: RawMutex> {
    scheduler: Scheduler<L>,
    rqs: Vec<Rq>,
    bodies: Vec<Option<Parcel>>,
    /// The operations of the last call.
    pub io: Io,
}

impl<L: RawMutex> Player<L> {
    /// Returns a player with a scheduler of its own.
    #[must_use]
    pub fn new(config: Config, tasks: usize) -> Self {
        let mut scheduler = Scheduler::new(config);
        scheduler.reserve_tasks(tasks);
        let rqs = scheduler.config().topology().cpus().map(|cpu| scheduler.new_rq(cpu)).collect();
        let bodies = (0..tasks).map(|_| None).collect();
        Self { scheduler, rqs, bodies, io: Io::new(Tracing::Off) }
    }

    /// Returns the scheduler.
    #[must_use]
    pub const fn scheduler(&self) -> &Scheduler<L> {
        &self.scheduler
    }

    /// Returns the run queue of a CPU.
    ///
    /// # Panics
    /// If there is no such CPU.
    #[must_use]
    pub fn rq(&self, cpu: CpuId) -> &Rq {
        &self.rqs[cpu.index()]
    }

    /// Returns the body of a task that is not on a run queue.
    #[must_use]
    pub fn body(&self, task: TaskId) -> Option<&Parcel> {
        self.bodies.get(task.index())?.as_ref()
    }

    /// Makes a recorded call again. Its operations are in [`io`](Self::io) until the next one.
    ///
    /// # Errors
    /// What came of it this time, if that differs.
    ///
    /// # Panics
    /// As [`Call::apply`]: if the calls are not those of one host in their order, from the
    /// beginning.
    pub fn repeat(&mut self, made: &Made) -> Result<(), Box<Made>> {
        self.io.ops.clear();
        self.io.observer = match &made.reads {
            Some(reads) => Observer::Replay { values: reads.clone(), next: 0 },
            None => Observer::Off,
        };
        let mut hand = made.call.handed().and_then(|task| self.bodies[task.index()].take());
        let rqs = match (made.call.under(), made.now) {
            (Under::None, Now::One(now)) => Rqs::None(now),
            (Under::One(cpu), Now::One(now)) => Rqs::One(&mut self.rqs[cpu.index()], now),
            (Under::Two(own, other), Now::Two(now)) => {
                let pair = self.rqs.get_disjoint_mut([own.index(), other.index()]);
                Rqs::Two(pair.expect("a pair is two CPUs of this machine"), now)
            }
            (Under::None | Under::One(_), Now::Two(_)) | (Under::Two(..), Now::One(_)) => {
                panic!("the clocks of a call are those of its run queues")
            }
        };
        let mut again = Made::apply(&self.scheduler, rqs, made.call.clone(), &mut hand, &mut self.io);
        if let Observer::Replay { values, next } = &self.io.observer {
            again.reads = Some(values[..*next].to_vec());
        }
        for parcel in hand.into_iter().chain(self.io.parked.drain(..)) {
            let task = parcel.id();
            self.bodies[task.index()] = Some(parcel);
        }
        if again == *made { Ok(()) } else { Err(Box::new(again)) }
    }
}

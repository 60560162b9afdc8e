//! [`Life`]: where the body of a task is, and how its poll is made.
//!
//! The body of a task (its parcel) is in one place: a run queue of the scheduler owns it, a thread
//! has it in its hands, or it is here. Wakers, the CPU of the task, a thread that takes this CPU
//! over and the relay of another task change this at the same time, so each of them has to see a
//! state in which it knows what it is allowed to do. Flags beside a place have combinations that
//! no thread expects: a parked task that passes its turn on, one that has left and is awake. So
//! the state is one enum, and a transition that finds another state than its own is an error.
//!
//! ```text
//!                 woken [1]            placed [2]
//!   New, Parked ------------> Moving -------------> Queued -- exits [8] --> Dead
//!                               ^                     |
//!                               +--- displaced [4] ---+
//!
//!   To sleep:
//!
//!            blocks [3]                      switched [5]
//!   Queued -+---------> LeavingInHand -----------------------------> Parked
//!           |                                                          ^
//!           | and owes lag [3]      lag paid [6]          switched [5] |
//!           +---------> LeavingQueued -----------> LeavingParked ------+
//!                            | switched [5]                            |
//!        woken there [7]     v                     lag paid [6]        |
//!   Queued <------------- Delayed -------------------------------------+
//!
//!   On the turn of another task (relay):
//!
//!   Queued -- passes its turn on, or has riders [9] --> Owner -- its turn again [10] --> Queued
//!
//!     +------------------ blocks [12] -------------------+
//!     v                                                  |
//!   Parked, New -- is polled on that turn [11] --> Runner, NewRunner -- exits [13] --> Dead
//!                                                        |
//!                                                        +-- gets a turn [14] --> Moving
//!
//!   A poll that loses its CPU (worker):
//!
//!   Queued, Runner, NewRunner -- the CPU is handed over [15] --> Detached: Queued, Parked, New
//!   Detached: any phase -------- the poll ends [16] -----------> Attached: the same phase
//! ```
//!
//! * \[5\]: until its CPU has switched away from it, that CPU owns the task, and a waker only
//!   leaves a note. Its lag can be paid before that \[6\].
//! * \[6\] and \[7\] happen under the lock of the task's run queue. The lock of the body is taken
//!   inside that lock, never around it.
//! * While a task is detached the scheduler makes it leave as if it slept: \[3\], \[5\] and \[6\]
//!   change its phase. It cannot be woken before its poll ends.
//! * A wakeup that finds the task neither asleep nor `Delayed` leaves a note ([`Wakeup`]); the next
//!   poll clears it. A task that is about to block looks for a note under both locks, and its CPU
//!   looks again at \[5\], so no wakeup is lost.

use super::join::Join;
use zerolag_core::call::LeftAs;
use zerolag_core::{Parcel, Placement};
use zerolag_model::{Duration, Instant};

/// See the [module](self).
#[derive(Debug)]
pub(crate) enum Life {
    /// The thread of its CPU polls it, or no thread does.
    Attached(Phase),
    /// Its CPU was taken from it in the middle of a poll that still runs.
    Detached(Box<WithoutCpu>),
    /// It is current for the scheduler while another task is polled on its turn: it sleeps, and has
    /// passed the turn on, or it is awake, and has riders.
    Owner,
    /// It sleeps for the scheduler, and is polled on the turn of another task.
    Runner(Parcel),
    /// The same of a task that was never placed on a CPU.
    NewRunner(Parcel),
    /// A thread has it in its hands, about to place it.
    Moving,
    /// It has ended.
    Dead,
}

/// Where the scheduler sees a task that takes part in no relay.
#[derive(Debug)]
pub(crate) enum Phase {
    /// It was never placed on a CPU.
    New(Parcel),
    /// It sleeps.
    Parked(Parcel),
    /// It is on a run queue, and runs or waits.
    Queued,
    /// It has left to sleep, and the thread of its CPU has it until the CPU has switched away.
    LeavingInHand,
    /// It has left to sleep on the run queue, which its CPU has not switched away from yet.
    LeavingQueued,
    /// The same; its lag has been paid meanwhile.
    LeavingParked(Parcel),
    /// It sleeps on a run queue until its lag is paid.
    Delayed,
}

/// A poll that continues without a CPU of the scheduler.
#[derive(Debug)]
pub(crate) struct WithoutCpu {
    pub(crate) phase: Phase,
    /// The time at which it lost its CPU.
    pub(crate) since: Instant,
    pub(crate) tid: rustix::thread::Pid,
    pub(crate) charge: Charge,
    /// The CPU time without a CPU that was charged so far.
    pub(crate) paid: Duration,
    /// When the clock looks at the CPU time of the thread next.
    pub(crate) look_at: Instant,
}

impl WithoutCpu {
    /// Returns the CPU time since it lost its CPU and the CPU was switched; `clock` is that of its
    /// thread. The thread that takes the CPU over can wait long for a processor before the switch.
    pub(crate) fn used(&self, clock: Option<Duration>, now: Instant) -> Duration {
        match (self.charge, clock) {
            (Charge::ByThread(Some(had)), Some(used)) => used.saturating_sub(had),
            (Charge::ByThread(_), _) => now.since(self.since),
            (Charge::ByCpu, _) => Duration::ZERO,
        }
    }

    /// Returns the CPU time that is to be charged now; `None` as long as its CPU charges it.
    pub(crate) fn take_due(&mut self, clock: Duration, now: Instant) -> Option<Duration> {
        if self.charge == Charge::ByCpu {
            return None;
        }
        let used = self.used(Some(clock), now);
        let due = used.saturating_sub(self.paid);
        self.paid = self.paid.max(used);
        Some(due)
    }
}

/// Which clock charges the task for a detached poll.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Charge {
    /// That of its CPU: the scheduler still sees it, or the owner of its turn, as current there.
    ByCpu,
    /// That of its thread, from this CPU time on, if the kernel reports it.
    ByThread(Option<Duration>),
}

/// Whether a task was woken while it was not asleep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wakeup {
    Absent,
    Noted,
}

/// What a waker has to do.
#[derive(Debug)]
pub(crate) enum Woken {
    /// Place it.
    Place(Parcel, Placement),
    /// Wake it on its run queue.
    OnQueue,
    /// Ask its CPU to schedule: the task owns the turn of another one.
    Kick,
    /// Nothing more: its CPU, or the end of its poll, finds the note.
    Noted,
}

/// What the lock of a task protects.
#[derive(Debug)]
pub(crate) struct Body {
    life: Life,
    wakeup: Wakeup,
    pub(crate) join: Join,
}

impl Phase {
    /// Sets a phase after one that owns nothing.
    fn set(&mut self, phase: Self) {
        std::mem::forget(std::mem::replace(self, phase));
    }

    const fn parcel(&self) -> Option<&Parcel> {
        match self {
            Self::New(parcel) | Self::Parked(parcel) | Self::LeavingParked(parcel) => Some(parcel),
            Self::Queued | Self::LeavingInHand | Self::LeavingQueued | Self::Delayed => None,
        }
    }

    fn with_parcel(self, change: impl FnOnce(Parcel) -> Parcel) -> Self {
        match self {
            Self::New(parcel) => Self::New(change(parcel)),
            Self::Parked(parcel) => Self::Parked(change(parcel)),
            Self::LeavingParked(parcel) => Self::LeavingParked(change(parcel)),
            phase @ (Self::Queued | Self::LeavingInHand | Self::LeavingQueued | Self::Delayed) => phase,
        }
    }

    const fn is_leaving(&self) -> bool {
        match self {
            Self::LeavingInHand | Self::LeavingQueued | Self::LeavingParked(_) => true,
            Self::New(_) | Self::Parked(_) | Self::Queued | Self::Delayed => false,
        }
    }
}

impl Life {
    /// Returns the phase; `None` while it takes part in a relay, moves, or has ended.
    const fn phase(&self) -> Option<&Phase> {
        match self {
            Self::Attached(phase) => Some(phase),
            Self::Detached(poll) => Some(&poll.phase),
            Self::Owner | Self::Runner(_) | Self::NewRunner(_) | Self::Moving | Self::Dead => None,
        }
    }

    fn phase_mut(&mut self) -> Option<&mut Phase> {
        match self {
            Self::Attached(phase) => Some(phase),
            Self::Detached(poll) => Some(&mut poll.phase),
            Self::Owner | Self::Runner(_) | Self::NewRunner(_) | Self::Moving | Self::Dead => None,
        }
    }
}

/// A transition that found another state than its own.
#[cold]
#[track_caller]
fn unexpected(wanted: &str, life: &Life) -> ! {
    unreachable!("invariant: a task is {wanted}, not {life:?}")
}

impl Body {
    pub(crate) const fn new(parcel: Parcel) -> Self {
        Self { life: Life::Attached(Phase::New(parcel)), wakeup: Wakeup::Absent, join: Join::new() }
    }

    pub(crate) const fn life(&self) -> &Life {
        &self.life
    }

    /// Sets a state after one that owns nothing: to drop that would be a call.
    fn set(&mut self, life: Life) {
        std::mem::forget(std::mem::replace(&mut self.life, life));
    }

    /// Returns whether it sleeps, and a wakeup has to place it.
    pub(crate) const fn sleeps(&self) -> bool {
        matches!(self.life, Life::Attached(Phase::New(_) | Phase::Parked(_)))
    }

    /// Returns whether it is on a run queue, awake or asleep.
    pub(crate) const fn is_on_queue(&self) -> bool {
        match self.life.phase() {
            Some(Phase::Queued | Phase::LeavingQueued | Phase::Delayed) => true,
            Some(Phase::New(_) | Phase::Parked(_) | Phase::LeavingInHand | Phase::LeavingParked(_)) => false,
            None => self.is_owner(),
        }
    }

    /// Returns whether it sleeps on a run queue, and a wakeup has to wake it there.
    pub(crate) const fn is_delayed(&self) -> bool {
        matches!(self.life, Life::Attached(Phase::Delayed))
    }

    /// Returns whether another task is polled on its turn.
    pub(crate) const fn is_owner(&self) -> bool {
        matches!(self.life, Life::Owner)
    }

    /// Returns whether its CPU can have it, although it is parked.
    pub(crate) const fn is_held_by_cpu(&self) -> bool {
        match &self.life {
            Life::Runner(_) | Life::NewRunner(_) => true,
            Life::Attached(phase) => phase.is_leaving(),
            Life::Detached(poll) => poll.phase.is_leaving(),
            Life::Owner | Life::Moving | Life::Dead => false,
        }
    }

    /// Returns its parcel, if that is here.
    pub(crate) const fn parcel(&self) -> Option<&Parcel> {
        match &self.life {
            Life::Attached(phase) => phase.parcel(),
            Life::Detached(poll) => poll.phase.parcel(),
            Life::Runner(parcel) | Life::NewRunner(parcel) => Some(parcel),
            Life::Owner | Life::Moving | Life::Dead => None,
        }
    }

    /// Changes its parcel, if that is here; returns whether it is.
    pub(crate) fn with_parcel(&mut self, change: impl FnOnce(Parcel) -> Parcel) -> bool {
        let is_here = self.parcel().is_some();
        if is_here {
            let after = match std::mem::replace(&mut self.life, Life::Moving) {
                Life::Attached(phase) => Life::Attached(phase.with_parcel(change)),
                Life::Detached(mut poll) => {
                    poll.phase = std::mem::replace(&mut poll.phase, Phase::Queued).with_parcel(change);
                    Life::Detached(poll)
                }
                Life::Runner(parcel) => Life::Runner(change(parcel)),
                Life::NewRunner(parcel) => Life::NewRunner(change(parcel)),
                life @ (Life::Owner | Life::Moving | Life::Dead) => life,
            };
            self.set(after);
        }
        is_here
    }

    pub(crate) const fn is_notified(&self) -> bool {
        matches!(self.wakeup, Wakeup::Noted)
    }

    pub(crate) const fn notify(&mut self) {
        self.wakeup = Wakeup::Noted;
    }

    /// Forgets a note: what it was for is found by the poll that follows.
    pub(crate) const fn forget_wakeup(&mut self) {
        self.wakeup = Wakeup::Absent;
    }

    /// Returns whether it was woken, and its poll goes on here: it does not block.
    pub(crate) const fn is_awake(&self) -> bool {
        self.is_notified() && !matches!(self.life, Life::Detached(_))
    }

    /// Takes the parcel of a task that sleeps out, to place it.
    pub(crate) fn take(&mut self) -> Option<(Parcel, Placement)> {
        if !self.sleeps() {
            return None;
        }
        match std::mem::replace(&mut self.life, Life::Moving) {
            // [1]
            Life::Attached(Phase::New(parcel)) => {
                self.wakeup = Wakeup::Absent;
                Some((parcel, Placement::Fork))
            }
            Life::Attached(Phase::Parked(parcel)) => {
                self.wakeup = Wakeup::Noted;
                Some((parcel, Placement::Wakeup))
            }
            other => unexpected("asleep", &other),
        }
    }

    /// Wakes it, or leaves a note.
    pub(crate) fn wake(&mut self) -> Woken {
        if let Some((parcel, why)) = self.take() {
            return Woken::Place(parcel, why);
        }
        let woken = match &self.life {
            Life::Attached(Phase::Delayed) => return Woken::OnQueue,
            Life::Owner => Woken::Kick,
            Life::Attached(_) | Life::Detached(_) => Woken::Noted,
            Life::Runner(_) | Life::NewRunner(_) | Life::Moving | Life::Dead => Woken::Noted,
        };
        self.notify();
        woken
    }

    /// It is placed on a run queue.
    pub(crate) fn place(&mut self) {
        match &self.life {
            Life::Moving => self.set(Life::Attached(Phase::Queued)), // [2]
            other => unexpected("about to be placed", other),
        }
    }

    /// It was woken on its run queue.
    pub(crate) fn wake_on_queue(&mut self) {
        match &mut self.life {
            Life::Attached(phase @ Phase::Delayed) => phase.set(Phase::Queued), // [7]
            other => unexpected("asleep on a run queue", other),
        }
        self.notify();
    }

    /// It leaves its CPU; `had` is what [`Charge::ByThread`] contains if its poll is detached.
    pub(crate) fn leave(&mut self, left: LeftAs, had: Option<Duration>) {
        let phase = match left {
            LeftAs::Queued => Phase::Queued,
            LeftAs::Parked => Phase::LeavingInHand,  // [3]
            LeftAs::Delayed => Phase::LeavingQueued, // [3]
            LeftAs::Displaced | LeftAs::Dead => {
                let Life::Attached(Phase::Queued) = &self.life else { unexpected("on a run queue", &self.life) };
                return self.set(if left == LeftAs::Dead { Life::Dead } else { Life::Moving }); // [8], [4]
            }
        };
        match &mut self.life {
            Life::Attached(before @ Phase::Queued) => before.set(phase),
            Life::Detached(poll) if matches!(poll.phase, Phase::Queued) => {
                poll.phase.set(phase);
                poll.charge = Charge::ByThread(had);
            }
            other => unexpected("on a run queue", other),
        }
    }

    /// Its CPU has switched away from it; `parcel` is what the CPU's thread has in its hands.
    /// Returns whether it was woken meanwhile.
    pub(crate) fn switch_away(&mut self, parcel: Option<Parcel>) -> bool {
        let Some(phase) = self.life.phase_mut() else { unexpected("leaving", &self.life) };
        // [5]
        let slept = match (std::mem::replace(phase, Phase::Queued), parcel) {
            (Phase::LeavingInHand, Some(parcel)) | (Phase::LeavingParked(parcel), None) => Phase::Parked(parcel),
            (Phase::LeavingQueued, None) => Phase::Delayed,
            (phase, _) => unreachable!("invariant: a task is leaving, not {phase:?}"),
        };
        phase.set(slept);
        self.is_awake()
    }

    /// Its lag is paid: it sleeps on no run queue any more.
    pub(crate) fn pay_lag(&mut self, parcel: Parcel) {
        match self.life.phase_mut() {
            Some(phase @ Phase::Delayed) => phase.set(Phase::Parked(parcel)), // [6]
            Some(phase @ Phase::LeavingQueued) => phase.set(Phase::LeavingParked(parcel)), // [6]
            Some(_) | None => unexpected("asleep on a run queue", &self.life),
        }
    }

    /// Another task is polled on its turn.
    pub(crate) fn lend_turn(&mut self) {
        match &self.life {
            Life::Attached(Phase::Queued) => self.set(Life::Owner), // [9]
            other => unexpected("current", other),
        }
    }

    /// Its turn is its own again.
    pub(crate) fn get_turn_back(&mut self) {
        match &self.life {
            Life::Owner => self.set(Life::Attached(Phase::Queued)), // [10]
            other => unexpected("the owner of a turn", other),
        }
    }

    /// It is polled on the turn of another task. It sleeps.
    pub(crate) fn run_on_turn(&mut self) {
        let after = match std::mem::replace(&mut self.life, Life::Moving) {
            Life::Attached(Phase::New(parcel)) => Life::NewRunner(parcel), // [11]
            Life::Attached(Phase::Parked(parcel)) => Life::Runner(parcel), // [11]
            other => unexpected("asleep", &other),
        };
        self.set(after);
        self.wakeup = Wakeup::Absent;
    }

    /// It was polled on the turn of another task, and blocks. Returns `false` if it was woken
    /// meanwhile: then it is polled again.
    pub(crate) fn block_runner(&mut self) -> bool {
        let blocks = !self.is_notified();
        self.wakeup = Wakeup::Absent;
        if blocks {
            let after = match std::mem::replace(&mut self.life, Life::Moving) {
                Life::NewRunner(parcel) => Life::Attached(Phase::New(parcel)), // [12]
                Life::Runner(parcel) => Life::Attached(Phase::Parked(parcel)), // [12]
                other => unexpected("a runner", &other),
            };
            self.set(after);
        }
        blocks
    }

    /// It was polled on the turn of another task, and ends. Returns its parcel.
    pub(crate) fn exit_runner(&mut self) -> Parcel {
        match std::mem::replace(&mut self.life, Life::Dead) {
            Life::NewRunner(parcel) | Life::Runner(parcel) => parcel, // [13]
            other => unexpected("a runner", &other),
        }
    }

    /// It was polled on the turn of another task, and is placed on a turn of its own.
    pub(crate) fn take_runner(&mut self) -> (Parcel, Placement) {
        match std::mem::replace(&mut self.life, Life::Moving) {
            Life::NewRunner(parcel) => (parcel, Placement::Fork), // [14]
            Life::Runner(parcel) => (parcel, Placement::Wakeup),  // [14]
            other => unexpected("a runner", &other),
        }
    }

    /// Its CPU is taken from it in the middle of a poll.
    pub(crate) fn detach(&mut self, since: Instant, tid: rustix::thread::Pid, look_at: Instant) {
        let phase = match std::mem::replace(&mut self.life, Life::Moving) {
            Life::Attached(Phase::Queued) => Phase::Queued,
            Life::NewRunner(parcel) => Phase::New(parcel),
            Life::Runner(parcel) => Phase::Parked(parcel),
            other => unexpected("in a poll", &other),
        };
        let poll = WithoutCpu { phase, since, tid, charge: Charge::ByCpu, paid: Duration::ZERO, look_at };
        self.set(Life::Detached(Box::new(poll))); // [15]
    }

    /// Returns its poll, if that has lost its CPU.
    pub(crate) fn detached(&mut self) -> Option<&mut WithoutCpu> {
        match &mut self.life {
            Life::Detached(poll) => Some(poll),
            Life::Attached(_) | Life::Owner | Life::Runner(_) | Life::NewRunner(_) => None,
            Life::Moving | Life::Dead => None,
        }
    }

    /// Its detached poll has ended. Returns that poll.
    pub(crate) fn attach(&mut self) -> Option<WithoutCpu> {
        match std::mem::replace(&mut self.life, Life::Moving) {
            Life::Detached(mut poll) => {
                self.set(Life::Attached(std::mem::replace(&mut poll.phase, Phase::Queued))); // [16]
                Some(*poll)
            }
            life => {
                self.set(life);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests;

//! [`Body`]: where the body of a task is.
//!
//! The body of a task (its parcel) is in one place; the host keeps track of it in [`Body`]:
//!
//! ```text
//!               placed [1]                leave(Block) [2]
//!    OnItsWay ------------> Queued ----------------------------> Parked (its parcel is here, from
//!        ^                   | ^  \                                |     the start); woken [4]
//!        |                   | |   \ leave(Block), its lag is owed v
//!        +-------------------+ |    +--------> Delayed -------> OnItsWay
//!        | displaced [3]       |  woken there [5] |  |
//!        |                     +------------------+  +-> Parked (its lag is paid)
//!        |      leave(Exit)
//!        +---- Dead <------- Queued
//! ```
//!
//! * \[2\] becomes visible to others only once the CPU has switched away from the task. Until then
//!   the task is leaving: the CPU owns it, and a waker only sets `is_notified`. Its lag can be paid
//!   before the switch has ended; then it is `Parked` and leaving.
//! * \[5\] and the transition from `Delayed` to `Parked` happen under the lock of the task's run
//!   queue. The lock of the body is taken inside that lock, never around it.
//! * A wakeup that finds the task neither `Parked` nor `Delayed` sets `is_notified` as well; the
//!   next poll clears it.
//! * A task that is about to block checks `is_notified` under both locks, and its CPU checks it
//!   again at \[2\], so no wakeup is lost.

use std::task::Waker;
use zerolag_core::call::Place;
use zerolag_core::{Parcel, Placement};
use zerolag_model::{Duration, Instant};

#[derive(Debug)]
pub(crate) struct Body {
    pub(crate) at: Place,
    /// It was woken while it was not asleep.
    pub(crate) is_notified: bool,
    /// It has left for the scheduler, but its CPU has not switched away from it yet.
    pub(crate) is_leaving: bool,
    /// It has passed its turn on ([`relay`](crate::relay)): it is current for the scheduler, and
    /// asleep.
    pub(crate) is_relaying: bool,
    /// Its CPU was taken from it in the middle of a poll that still runs. The task cannot be woken
    /// before that poll ends.
    pub(crate) detached: Option<Box<Detached>>,
    /// It has not been placed on a CPU yet.
    pub(crate) is_new: bool,
    /// The waker of the task that waits for its end.
    pub(crate) waiter: Option<Waker>,
    /// A task whose wakeup can be left to the end of a poll waits ([`wake`](crate::wake)).
    pub(crate) is_awaited_by_task: bool,
    /// The job has the result, and the handle has not taken it.
    pub(crate) has_result: bool,
    /// The handle was dropped: results are dropped where they arise.
    pub(crate) is_unjoined: bool,
    /// The task has ended and its place is free.
    pub(crate) is_over: bool,
}

/// A poll that continues without a CPU of the scheduler.
#[derive(Debug)]
pub(crate) struct Detached {
    /// The time at which it lost its CPU.
    pub(crate) since: Instant,
    /// The thread, and its CPU time when the task left its CPU, if the kernel reports it.
    pub(crate) tid: rustix::thread::Pid,
    pub(crate) had: Option<Duration>,
    /// When the clock looks at the CPU time of the thread next.
    pub(crate) look_at: Instant,
    /// Whether the task has left its CPU for the scheduler as well.
    pub(crate) has_left: bool,
}

impl Body {
    pub(crate) const fn new(at: Place) -> Self {
        Self {
            at,
            is_notified: false,
            is_leaving: false,
            is_relaying: false,
            detached: None,
            is_new: true,
            waiter: None,
            is_awaited_by_task: false,
            has_result: false,
            is_unjoined: false,
            is_over: false,
        }
    }

    /// Takes the parcel of a task that sleeps out, to place it. \[4\]
    pub(crate) fn take(&mut self) -> Option<(Parcel, Placement)> {
        if !self.sleeps() {
            return None;
        }
        let Place::Parked(parcel) = std::mem::replace(&mut self.at, Place::OnItsWay) else { return None };
        let is_new = std::mem::take(&mut self.is_new);
        self.is_notified = !is_new;
        Some((parcel, if is_new { Placement::Fork } else { Placement::Wakeup }))
    }

    /// Returns whether it sleeps, and a wakeup has to place it.
    pub(crate) const fn sleeps(&self) -> bool {
        matches!(self.at, Place::Parked(_)) && !self.is_leaving && self.detached.is_none()
    }
}

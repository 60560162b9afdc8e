//! [`Place`]: the table of where each task is that a host keeps.

use crate::call::data::LeftAs;
use crate::task::body::Parcel;

/// Where the body of a task is, as its host knows.
///
/// ```text
///               placed [1]                leave(Block) [2]
///    OnItsWay ------------> Queued ----------------------------> Parked (its body is here)
///        ^                   | ^  \                                | woken [4]
///        |                   | |   \ leave(Block), it owes lag     v
///        +-------------------+ |    +--------> Delayed -------> OnItsWay
///        | displaced [3]       |  woken there [5] |  |
///        |                     +------------------+  +-> Parked (Io::parked) [6]
///        |      leave(Exit)
///        +---- Dead <------- Queued
/// ```
///
/// Transitions 5 and 6 happen under the lock of the run queue. A host with threads takes the lock
/// of a place inside that of a run queue and never around it; one that read
/// [`Delayed`](Self::Delayed) without the lock of the run queue must read again with it.
#[derive(Debug)]
pub enum Place {
    /// Here: it sleeps.
    Parked(Parcel),
    /// In the host's hands, about to be placed.
    OnItsWay,
    /// On a run queue, running or not.
    Queued,
    /// On a run queue, asleep.
    Delayed,
    /// Nowhere: the task has ended.
    Dead,
}

impl Place {
    /// Returns the place of a task that has left its CPU, which takes the body out of the hand if
    /// it is to be kept here. One that is displaced or dead stays in hand. `[2]`
    ///
    /// # Panics
    /// If the hand is empty and the task was parked.
    #[must_use]
    pub fn after(left: LeftAs, hand: &mut Option<Parcel>) -> Self {
        match left {
            LeftAs::Queued => Self::Queued,
            LeftAs::Delayed => Self::Delayed,
            LeftAs::Parked => Self::Parked(hand.take().expect("invariant: a parked task is in hand")),
            LeftAs::Displaced => Self::OnItsWay,
            LeftAs::Dead => Self::Dead,
        }
    }

    /// Returns whether the task is on a run queue.
    #[must_use]
    pub const fn is_on_rq(&self) -> bool {
        match self {
            Self::Queued | Self::Delayed => true,
            Self::Parked(_) | Self::OnItsWay | Self::Dead => false,
        }
    }
}

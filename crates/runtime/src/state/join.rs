//! [`Join`]: the result of a task, between the task, its handle and the waiter for it.
//!
//! ```text
//!        the future is done [1]        its CPU has left it [2]      taken [3]
//!   Open ----------------------> Done -----------------------> Over ----------> Taken
//!     |                            |                             |                |
//!     +----------------------------+-----------------------------+----------------+
//!                                  | the handle is dropped [4]
//!                                  v
//!                               Unjoined
//! ```
//!
//! * From \[1\] to \[3\] the job of the task has the result.
//! * The handle is ready from \[2\] on. A waiter that is a fair task can be woken at \[1\]: its
//!   wakeup can be left to the end of the poll that does it ([`wake`](crate::wake)).
//! * Of a task without a handle no result is kept.

use std::task::Waker;

/// See the [module](self).
#[derive(Debug)]
pub(crate) enum Join {
    /// The future is not done.
    Open(Option<JoinWaiter>),
    /// The job has the result, and the place of the task is not free yet.
    Done(Option<Waker>),
    /// The job has the result, and the handle can take it.
    Over,
    /// The handle has taken the result.
    Taken,
    /// There is no handle.
    Unjoined,
}

/// What waits for the end of a task.
#[derive(Debug)]
pub(crate) struct JoinWaiter {
    pub(crate) waker: Waker,
    pub(crate) is: WaiterIs,
}

/// Whether a waiter can be woken before the task has left its CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WaiterIs {
    /// A task whose wakeup can be left to the end of a poll.
    FairTask,
    /// Another task, or a thread.
    Other,
}

/// What is to be done with a result.
#[derive(Debug)]
pub(crate) enum Delivery {
    /// Wake this waiter, if there is one: it can wait for the end of the poll.
    Kept(Option<Waker>),
    /// Drop it: there is no handle.
    Unwanted,
}

/// What a handle finds.
#[derive(Debug)]
pub(crate) enum JoinPoll {
    /// The result, in the job.
    Ready,
    /// It waits; this is the waker that its own replaces.
    Waits(Option<Waker>),
}

impl Join {
    pub(crate) const fn new() -> Self {
        Self::Open(None)
    }

    /// Sets a state after one whose waiter was taken: to drop that would be a call.
    fn set(&mut self, join: Self) {
        std::mem::forget(std::mem::replace(self, join));
    }

    /// The job has the result. `can_postpone`: a wakeup can be left to the end of this poll.
    pub(crate) fn deliver(&mut self, can_postpone: bool) -> Delivery {
        match self {
            Self::Open(waiter) => {
                let (now, later) = match waiter.take() {
                    Some(JoinWaiter { waker, is: WaiterIs::FairTask }) if can_postpone => (Some(waker), None),
                    waiter => (None, waiter.map(|waiter| waiter.waker)),
                };
                self.set(Self::Done(later)); // [1]
                Delivery::Kept(now)
            }
            Self::Unjoined => Delivery::Unwanted,
            Self::Done(_) | Self::Over | Self::Taken => unreachable!("invariant: a task has one result"),
        }
    }

    /// The place of the task is free. Returns the waiter, to be woken.
    #[inline]
    pub(crate) fn end(&mut self) -> Option<Waker> {
        let waiter = match self {
            Self::Open(waiter) => waiter.take().map(|waiter| waiter.waker),
            Self::Done(waiter) => waiter.take(),
            Self::Over | Self::Taken | Self::Unjoined => return None,
        };
        self.set(Self::Over); // [2]
        waiter
    }

    /// The handle is polled by a waiter. Inlined: a handle is generic, and its code is in another
    /// crate.
    #[inline]
    pub(crate) fn poll(&mut self, waiter: JoinWaiter) -> JoinPoll {
        match self {
            Self::Open(before) => JoinPoll::Waits(before.replace(waiter).map(|before| before.waker)),
            Self::Done(before) => JoinPoll::Waits(before.replace(waiter.waker)),
            Self::Over | Self::Taken => {
                self.set(Self::Taken); // [3]
                JoinPoll::Ready
            }
            Self::Unjoined => unreachable!("invariant: a dropped handle is not polled"),
        }
    }

    /// The handle is dropped. Returns whether the job has a result, which is to be dropped as well,
    /// and the waker of the waiter.
    #[inline]
    pub(crate) fn drop_handle(&mut self) -> (bool, Option<Waker>) {
        // [4]
        match std::mem::replace(self, Self::Unjoined) {
            Self::Open(waiter) => (false, waiter.map(|waiter| waiter.waker)),
            Self::Done(waiter) => (true, waiter),
            Self::Over => (true, None),
            Self::Taken | Self::Unjoined => (false, None),
        }
    }

    /// Returns whether the task has ended; its handle exists.
    pub(crate) const fn is_over(&self) -> bool {
        match self {
            Self::Over | Self::Taken => true,
            Self::Open(_) | Self::Done(_) | Self::Unjoined => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiter(is: WaiterIs) -> JoinWaiter {
        JoinWaiter { waker: Waker::noop().clone(), is }
    }

    fn waiting(is: WaiterIs) -> Join {
        let mut join = Join::new();
        assert!(matches!(join.poll(waiter(is)), JoinPoll::Waits(None)));
        join
    }

    #[test]
    fn a_result_is_taken_once_its_task_has_left() {
        let mut join = waiting(WaiterIs::Other);
        assert!(matches!(join.poll(waiter(WaiterIs::Other)), JoinPoll::Waits(Some(_))), "the waker is replaced");
        assert!(matches!(join.deliver(true), Delivery::Kept(None)), "a thread is woken at the end only"); // [1]
        assert!(!join.is_over());
        assert!(join.end().is_some() && join.is_over()); // [2]
        assert!(matches!(join.poll(waiter(WaiterIs::Other)), JoinPoll::Ready)); // [3]
        assert!(join.is_over());
        assert!(!join.drop_handle().0, "the result is gone"); // [4]
    }

    #[test]
    fn a_fair_task_is_woken_early_and_once() {
        let mut join = waiting(WaiterIs::FairTask);
        assert!(matches!(join.deliver(true), Delivery::Kept(Some(_))));
        assert!(join.end().is_none());
        let mut join = waiting(WaiterIs::FairTask);
        assert!(matches!(join.deliver(false), Delivery::Kept(None)), "no wakeup can be left");
        assert!(join.end().is_some());
        let mut join = waiting(WaiterIs::FairTask);
        assert!(matches!(join.deliver(true), Delivery::Kept(Some(_))));
        assert!(matches!(join.poll(waiter(WaiterIs::FairTask)), JoinPoll::Waits(None)), "polled too early");
        assert!(join.end().is_some());
    }

    #[test]
    fn a_dropped_handle_drops_the_result() {
        let mut open = waiting(WaiterIs::Other);
        assert!(matches!(open.drop_handle(), (false, Some(_))));
        assert!(matches!(open.deliver(true), Delivery::Unwanted));
        assert!(open.end().is_none());
        let mut done = waiting(WaiterIs::Other);
        assert!(matches!(done.deliver(true), Delivery::Kept(None)));
        assert!(matches!(done.drop_handle(), (true, Some(_))));
        let mut over = Join::new();
        assert!(matches!(over.deliver(true), Delivery::Kept(None)));
        assert!(over.end().is_none());
        assert!(matches!(over.drop_handle(), (true, None)));
    }

    #[test]
    #[should_panic(expected = "a task has one result")]
    fn a_second_result_is_an_error() {
        let mut join = Join::new();
        assert!(matches!(join.deliver(false), Delivery::Kept(None)));
        let _ = join.deliver(false);
    }
}

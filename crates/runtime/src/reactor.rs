//! [`Reactor`]: the tokio runtime in whose context the threads of this runtime are, if any.
//!
//! A future of tokio finds its I/O driver and its timers through a thread-local handle. Entering it
//! around every poll would cost two writes for each; every thread of the runtime enters it once, at
//! its start. The tokio runtime keeps its own threads for I/O and timers. They call the wakers of
//! our tasks, as any thread is allowed to.
//!
//! # The budget of a poll
//!
//! A task of tokio that receives from a channel with a backlog is asked to yield after 128 messages
//! (`tokio::task::coop`): tokio's types return `Pending` once the budget of the poll is used up.
//! Outside of tokio's executor there is no budget, so such a poll did not end before the backlog
//! did. tokio has no function that gives a poll a budget; but `poll_proceed` takes one part of it
//! and returns a value that puts the budget back as it was when it is dropped \[2\]. So each thread
//! of a CPU takes such a value out of a `block_on`, which has a budget, and drops it outside \[1\]:
//! then the thread itself has one. What a poll uses up is put back at its end.

#[cfg(feature = "tokio")]
use std::cell::Cell;
#[cfg(feature = "tokio")]
use std::future::poll_fn;
#[cfg(feature = "tokio")]
use std::task::{Context, Poll, Waker};
#[cfg(feature = "tokio")]
use tokio::runtime::Handle;
#[cfg(feature = "tokio")]
use tokio::task::coop::poll_proceed;

/// See the [module](self).
#[derive(Clone, Debug, Default)]
pub(crate) struct Reactor {
    #[cfg(feature = "tokio")]
    handle: Option<Handle>,
}

#[cfg(feature = "tokio")]
impl Reactor {
    pub(crate) const fn new(handle: Handle) -> Self {
        Self { handle: Some(handle) }
    }

    /// Returns it, or that of the thread that calls it.
    pub(crate) fn or_current(self) -> Self {
        Self { handle: self.handle.or_else(|| Handle::try_current().ok()) }
    }

    /// Enters the context of the thread that calls it, until the result is dropped.
    pub(crate) fn enter(&self) -> impl Sized + '_ {
        self.handle.as_ref().map(Handle::enter)
    }

    /// Gives a poll on this thread the budget of a task of tokio, until the result is dropped. Some
    /// nanoseconds, but for the first one on a thread.
    pub(crate) fn budget(&self) -> impl Sized + use<> {
        let handle = self.handle.as_ref()?;
        if !HAS_BUDGET.replace(true) {
            let whole = poll_fn(|cx| Poll::Ready(poll_proceed(cx)));
            drop(handle.block_on(whole)); // [1]
        }
        Some(poll_proceed(&mut Context::from_waker(Waker::noop()))) // [2]
    }
}

#[cfg(feature = "tokio")]
thread_local! {
    /// This thread has a budget outside of polls.
    static HAS_BUDGET: Cell<bool> = const { Cell::new(false) };
}

#[cfg(not(feature = "tokio"))]
impl Reactor {
    pub(crate) const fn or_current(self) -> Self {
        self
    }

    /// There is no context to enter.
    #[expect(clippy::unused_self, reason = "with the feature `tokio` it has a handle")]
    pub(crate) const fn enter(&self) -> impl Sized + '_ {}

    /// Types of tokio are not limited.
    #[expect(clippy::unused_self, reason = "with the feature `tokio` it has a handle")]
    pub(crate) const fn budget(&self) -> impl Sized + use<> {}
}

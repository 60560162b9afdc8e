//! [`Reactor`]: the tokio runtime in whose context the threads of this runtime are, if any.
//!
//! A future of tokio finds its I/O driver and its timers through a thread-local handle. Entering it
//! around every poll would cost two writes for each; every thread of the runtime enters it once, at
//! its start. The tokio runtime keeps its own threads for I/O and timers. They call the wakers of
//! our tasks, as any thread is allowed to.

#[cfg(feature = "tokio")]
use tokio::runtime::Handle;

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

    /// Enters the context of the thread that calls it, until the result is dropped.
    pub(crate) fn enter(&self) -> impl Sized + '_ {
        self.handle.as_ref().map(Handle::enter)
    }
}

#[cfg(not(feature = "tokio"))]
impl Reactor {
    /// There is no context to enter.
    #[expect(clippy::unused_self, reason = "with the feature `tokio` it has a handle")]
    pub(crate) const fn enter(&self) -> impl Sized + '_ {}
}

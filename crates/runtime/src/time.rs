//! [`sleep`].

use crate::clock::Key;
use crate::coop;
use crate::engine::Engine;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use zerolag_model::Instant;

/// Waits for `length`, counted from this call. The task is woken within some microseconds and then
/// runs when the scheduler picks it. A sleep beyond the range of the clock (584 years) does not
/// end.
///
/// # Panics
/// Outside of a runtime's tasks and of [`Runtime::block_on`](crate::Runtime::block_on).
pub fn sleep(length: std::time::Duration) -> Sleep {
    let engine = coop::current_engine().expect("`sleep` is called by a task of a runtime");
    let at = engine.now().saturating_add(crate::to_model(length));
    Sleep { engine, at, key: None }
}

/// The end of the clock: a sleep until then does not end.
const NEVER: Instant = Instant::from_nanos(u64::MAX);

/// A future that waits until a time. See [`sleep`].
#[must_use = "nothing sleeps unless it is awaited"]
pub struct Sleep {
    engine: Arc<Engine>,
    at: Instant,
    key: Option<Key>,
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleep").field("at", &self.at).finish_non_exhaustive()
    }
}

impl Sleep {
    /// Returns the following sleep: it ends `length` after the planned end of this one, however
    /// late this one ended. Periodic work does not drift this way.
    pub fn then(&self, length: std::time::Duration) -> Self {
        Self { engine: Arc::clone(&self.engine), at: self.at.saturating_add(crate::to_model(length)), key: None }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(key) = self.key.take() {
            self.engine.timeline.forget(key);
        }
        if self.at < NEVER && self.engine.now() >= self.at {
            return Poll::Ready(());
        }
        self.key = Some(self.engine.timeline.remember(self.at, cx.waker().clone()));
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.engine.timeline.forget(key);
        }
    }
}

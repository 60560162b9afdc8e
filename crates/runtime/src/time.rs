//! [`sleep`], [`timeout`] and [`interval`].

use crate::coop;
use crate::marks::Site;
use crate::state::engine::Engine;
use crate::state::timeline::Key;
use crate::units::to_model;
use pin_project_lite::pin_project;
use std::fmt;
use std::future::Future;
use std::panic::Location;
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
#[track_caller]
pub fn sleep(length: std::time::Duration) -> Sleep {
    let engine = coop::current_engine().expect("`sleep` is called by a task of a runtime");
    let at = engine.now().saturating_add(to_model(length));
    Sleep { engine, at, key: None, site: Location::caller() }
}

/// The end of the clock: a sleep until then does not end.
const NEVER: Instant = Instant::from_nanos(u64::MAX);

/// A future that waits until a time. See [`sleep`].
#[must_use = "nothing sleeps unless it is awaited"]
pub struct Sleep {
    engine: Arc<Engine>,
    at: Instant,
    key: Option<Key>,
    site: Site,
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleep").field("at", &self.at).finish_non_exhaustive()
    }
}

impl Sleep {
    /// Waits for `length` from now, on any thread.
    #[cfg(feature = "tower")]
    #[track_caller]
    pub(crate) fn within(engine: &Arc<Engine>, length: std::time::Duration) -> Self {
        let at = engine.now().saturating_add(to_model(length));
        Self { engine: Arc::clone(engine), at, key: None, site: Location::caller() }
    }

    /// Returns the following sleep: it ends `length` after the planned end of this one, however
    /// late this one ended. Periodic work does not drift this way.
    #[track_caller]
    pub fn then(&self, length: std::time::Duration) -> Self {
        let at = self.at.saturating_add(to_model(length));
        Self { engine: Arc::clone(&self.engine), at, key: None, site: Location::caller() }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        coop::mark(self.site);
        if let Some(key) = self.key.take() {
            self.engine.timeline.forget(key);
        }
        if self.at < NEVER && self.engine.now() >= self.at {
            return Poll::Ready(());
        }
        self.key = Some(self.engine.timeline.remember(self.at, self.engine.waker_for_clock(cx.waker())));
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

/// Waits for a future, at most for `length`. The future is polled first, so one that is ready is
/// never late.
///
/// A timeout is noticed when the task is polled: a poll that does not yield is not interrupted.
///
/// # Panics
/// Outside of a runtime's tasks and of [`Runtime::block_on`](crate::Runtime::block_on).
#[track_caller]
pub fn timeout<F: Future>(length: std::time::Duration, future: F) -> Timeout<F> {
    Timeout { future, ends: sleep(length) }
}

pin_project! {
    /// A future that waits for another one, but not for longer than a time. See [`timeout`].
    #[derive(Debug)]
    #[must_use = "nothing is waited for unless it is awaited"]
    pub struct Timeout<F> {
        #[pin]
        future: F,
        ends: Sleep,
    }
}

/// The time of a [`timeout`] has passed before its future was ready.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Elapsed;

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the time has passed")
    }
}

impl std::error::Error for Elapsed {}

impl<F: Future> Future for Timeout<F> {
    type Output = Result<F::Output, Elapsed>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        coop::mark(this.ends.site);
        match this.future.poll(cx) {
            Poll::Ready(output) => Poll::Ready(Ok(output)),
            Poll::Pending => Pin::new(this.ends).poll(cx).map(|()| Err(Elapsed)),
        }
    }
}

/// Returns a source of ticks `period` apart. The first one is a period from now.
///
/// # Panics
/// If the period is zero; and outside of a runtime's tasks and of
/// [`Runtime::block_on`](crate::Runtime::block_on).
#[track_caller]
pub fn interval(period: std::time::Duration) -> Interval {
    assert!(!period.is_zero(), "the period of an interval must not be zero");
    Interval { next: sleep(period), period }
}

/// Ticks on a grid of time. See [`interval`].
///
/// A tick that is late does not shift the following ones, and ticks that were missed are not made
/// up for: the next one is on the grid, after now.
#[derive(Debug)]
pub struct Interval {
    next: Sleep,
    period: std::time::Duration,
}

impl Interval {
    /// Waits for the next tick. Returns how many ticks passed without a call since the last one: 0,
    /// unless the task was late. A dropped wait loses no tick.
    #[track_caller]
    pub fn tick(&mut self) -> impl Future<Output = u64> + Send + '_ {
        self.next.site = Location::caller();
        async {
            (&mut self.next).await;
            let (period, late) = (to_model(self.period), self.next.engine.now().since(self.next.at));
            let missed = late.as_nanos() / period.as_nanos();
            let at = self.next.at.saturating_add(period);
            self.next.at = at.saturating_add(zerolag_model::Duration::from_nanos(period.as_nanos() * missed));
            missed
        }
    }
}

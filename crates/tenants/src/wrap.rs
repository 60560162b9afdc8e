//! [`Wrapped`]: a future whose polls wait at the gate of a group and are charged to it.

use crate::gate::Gate;
use crate::group::{Group, GroupState};
use crate::thread::Scope;
use pin_project_lite::pin_project;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

pin_project! {
    /// A future in a group: see [`Group::wrap`].
    #[must_use = "futures do nothing unless they are awaited"]
    pub struct Wrapped<F> {
        // `None` once it is ready: its destructor is charged as well.
        #[pin]
        future: Option<F>,
        group: Option<Arc<GroupState>>,
        gate: Gate,
    }

    impl<F> PinnedDrop for Wrapped<F> {
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            if this.future.is_some() {
                let _scope = Scope::enter(this.group);
                this.future.set(None);
            }
        }
    }
}

impl<F> fmt::Debug for Wrapped<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wrapped").field("is_ready", &self.future.is_none()).finish_non_exhaustive()
    }
}

impl<F: Future> Future for Wrapped<F> {
    type Output = F::Output;

    /// # Panics
    /// If it is polled again after it was ready, or if there is no tokio runtime with timers while
    /// its group is throttled.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let mut this = self.project();
        let group = this.group.as_ref().expect("invariant: a scope gives the group back");
        ready!(this.gate.poll(group, cx));
        let _scope = Scope::enter(this.group);
        let future = this.future.as_mut().as_pin_mut().expect("a future is not polled after it was ready");
        let output = ready!(future.poll(cx));
        this.future.set(None);
        Poll::Ready(output)
    }
}

impl Group {
    /// Puts a future into this group, on the executor that polls it: each poll waits until the
    /// group has quota and it is its turn, and is charged to it, as is the future's destructor. It
    /// need not be `Send`.
    ///
    /// ```
    /// # use zerolag_tenants::Builder;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let rt = Builder::new().build()?;
    /// let acme = rt.group("acme").quota(0.4).create()?;
    /// let local = std::rc::Rc::new(7);
    /// assert_eq!(acme.wrap(async { *local }).await, 7);
    /// # Ok(())
    /// # }
    /// ```
    pub fn wrap<F>(&self, future: F) -> Wrapped<F> {
        Wrapped { future: Some(future), group: Some(Arc::clone(&self.state)), gate: Gate::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_future_takes_three_words_more() {
        assert_eq!(size_of::<Wrapped<[usize; 4]>>(), size_of::<[usize; 4 + 3]>());
    }
}

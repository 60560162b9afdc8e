//! [`Job`]: the future of a task, and then its result, in one allocation.
//!
//! A task has three: the scheduler's body, the task itself, and this one. Its type is known to the
//! handle only, so the task calls it as a trait object, and the handle takes the result out by
//! type.
//!
//! ```text
//!             ready, or dropped and failed [1]           taken, or discarded [2]
//!    Running ----------------------------------> Done ---------------------------> Gone
//! ```
//!
//! A future is dropped in place, before its result is stored: a panic of its destructor is the
//! result then.

use pin_project_lite::pin_project;
use std::any::{Any, type_name};
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// See the [module](self).
pub(crate) trait Job: Send {
    /// Returns the type of the future.
    fn name(&self) -> &'static str;

    /// Returns a job without a future and a result, for a place from which this one is taken. It
    /// takes no memory.
    fn nothing(&self) -> Pin<Box<dyn Job>>;

    /// Returns whether there is a future.
    fn is_running(&self) -> bool;

    /// Polls the future. Once it is ready it is dropped, and its output is kept. \[1\]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()>;

    /// Drops the future.
    fn cancel(self: Pin<&mut Self>);

    /// Sets an error as the result; the future has been dropped. \[1\]
    fn fail(self: Pin<&mut Self>, error: JoinError);

    /// Moves the result to `to`, an `Option<Result<T, JoinError>>`. \[2\]
    fn take(self: Pin<&mut Self>, to: &mut dyn Any);

    /// Drops a result that no handle will return; returns the payload of a panic. \[2\]
    #[must_use = "a panic that no handle reports is counted"]
    fn discard(self: Pin<&mut Self>) -> Option<Box<dyn Any + Send>>;
}

pin_project! {
    #[project = StageView]
    #[project_replace = StageBefore]
    enum JobStage<F: Future> {
        Running { #[pin] future: F },
        Done { result: Result<F::Output, JoinError> },
        Gone,
    }
}

/// The job of a task whose result has been taken.
struct Nothing<F>(PhantomData<fn() -> F>);

impl<F: 'static> Job for Nothing<F> {
    fn name(&self) -> &'static str {
        type_name::<F>()
    }

    fn nothing(&self) -> Pin<Box<dyn Job>> {
        Box::pin(Self(PhantomData))
    }

    fn is_running(&self) -> bool {
        false
    }

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }

    fn cancel(self: Pin<&mut Self>) {}

    fn fail(self: Pin<&mut Self>, _: JoinError) {}

    fn take(self: Pin<&mut Self>, _: &mut dyn Any) {}

    fn discard(self: Pin<&mut Self>) -> Option<Box<dyn Any + Send>> {
        None
    }
}

/// Takes a job out, so that its future or its result can be dropped without the lock.
pub(crate) fn take_out(job: &mut Pin<Box<dyn Job>>) -> Pin<Box<dyn Job>> {
    let nothing = job.nothing();
    std::mem::replace(job, nothing)
}

/// Returns the job of a future.
pub(crate) fn of<F>(future: F) -> Pin<Box<dyn Job>>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    Box::pin(JobStage::Running { future })
}

impl<F> Job for JobStage<F>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn name(&self) -> &'static str {
        type_name::<F>()
    }

    fn nothing(&self) -> Pin<Box<dyn Job>> {
        Box::pin(Nothing::<F>(PhantomData))
    }

    fn is_running(&self) -> bool {
        matches!(self, Self::Running { .. })
    }

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let StageView::Running { future } = self.as_mut().project() else { return Poll::Ready(()) };
        let output = ready!(future.poll(cx));
        self.as_mut().cancel();
        self.project_replace(Self::Done { result: Ok(output) });
        Poll::Ready(())
    }

    fn cancel(self: Pin<&mut Self>) {
        self.project_replace(Self::Gone);
    }

    fn fail(self: Pin<&mut Self>, error: JoinError) {
        debug_assert!(matches!(*self, Self::Gone), "a job must have one result");
        self.project_replace(Self::Done { result: Err(error) });
    }

    fn take(self: Pin<&mut Self>, to: &mut dyn Any) {
        let to = to.downcast_mut::<Option<Result<F::Output, JoinError>>>();
        let to = to.expect("invariant: a handle has the type of its task's result");
        if let StageBefore::Done { result } = self.project_replace(Self::Gone) {
            *to = Some(result);
        }
    }

    fn discard(self: Pin<&mut Self>) -> Option<Box<dyn Any + Send>> {
        match self.project_replace(Self::Gone) {
            StageBefore::Done { result: Err(JoinError::Panicked(with)) } => Some(with),
            StageBefore::Done { result: Ok(_) | Err(JoinError::Aborted) } => None,
            StageBefore::Running { .. } | StageBefore::Gone => None,
        }
    }
}

/// The reason why a task has no result.
#[derive(Debug)]
#[non_exhaustive]
pub enum JoinError {
    /// The task was aborted, or the runtime ended before it.
    Aborted,
    /// The task panicked, with this payload.
    Panicked(Box<dyn Any + Send>),
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Aborted => f.write_str("the task was aborted"),
            Self::Panicked(with) => {
                let text = with.downcast_ref::<&str>().copied();
                let text = text.or_else(|| with.downcast_ref::<String>().map(String::as_str));
                write!(f, "the task panicked: {}", text.unwrap_or("with something that is no text"))
            }
        }
    }
}

impl std::error::Error for JoinError {}

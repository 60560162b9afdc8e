//! Tasks of tokio in groups: their start, and [`JoinHandle`], which waits for their end.

use crate::group::Group;
use crate::thread::Scope;
use std::any::Any;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::runtime::Handle;

/// The reason why a task was not started.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SpawnError {
    /// There is no tokio runtime here, and none was set
    /// ([`Builder::reactor`](crate::Builder::reactor)).
    NoReactor,
    /// [`spawn`] was called outside of the futures of groups.
    Outside,
}

impl fmt::Display for SpawnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoReactor => "there is no tokio runtime here: use `Builder::reactor`",
            Self::Outside => "it is not called in a future of a group: use the `spawn` of a group",
        })
    }
}

impl std::error::Error for SpawnError {}

/// The reason why a task has no result.
#[derive(Debug)]
pub enum JoinError {
    /// Its future panicked, with this payload.
    Panicked(Box<dyn Any + Send>),
    /// It was aborted, or its tokio runtime has ended.
    Aborted,
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Panicked(_) => "the task has panicked",
            Self::Aborted => "the task was aborted",
        })
    }
}

impl std::error::Error for JoinError {}

/// A future of the result of a task. The task continues if the handle is dropped.
#[derive(Debug)]
pub struct JoinHandle<T>(tokio::task::JoinHandle<T>);

impl<T> JoinHandle<T> {
    /// Drops the task's future when it is polled next, if it has not ended by then; its result is
    /// [`JoinError::Aborted`]. That does not wait for the quota of its group.
    pub fn abort(&self) {
        self.0.abort();
    }

    /// Returns whether the task has ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.0.is_finished()
    }

    /// Makes a handle that aborts the task when it is dropped.
    pub const fn abort_on_drop(self) -> AbortOnDrop<T> {
        AbortOnDrop(self)
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(ready!(Pin::new(&mut self.0).poll(cx)).map_err(|error| match error.try_into_panic() {
            Ok(with) => JoinError::Panicked(with),
            Err(_) => JoinError::Aborted,
        }))
    }
}

/// A [`JoinHandle`] whose task is aborted when the handle is dropped.
#[derive(Debug)]
#[must_use = "a task is aborted with this handle"]
pub struct AbortOnDrop<T>(JoinHandle<T>);

impl<T> Future for AbortOnDrop<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx)
    }
}

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Starts a task in the group of the calling future, in place of `tokio::spawn`: the tasks that a
/// handler starts stay in the group of its tenant.
///
/// ```
/// # use zerolag_tenants::{Builder, Group, spawn};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let rt = Builder::new().build()?;
/// let acme = rt.group("acme").quota(0.5).create()?;
/// let handler = acme.spawn(async {
///     let part = spawn(async { Group::current().expect("it inherits the group").path() })?;
///     Ok::<_, zerolag_tenants::SpawnError>(part.await.expect("no panic"))
/// })?;
/// assert_eq!(handler.await??, "/acme");
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// Those of [`Group::spawn`], and [`SpawnError::Outside`].
#[track_caller]
pub fn spawn<F>(future: F) -> Result<JoinHandle<F::Output>, SpawnError>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    // No closure: it would not pass on the place of the caller.
    match Group::current() {
        Some(group) => group.spawn(future),
        None => Err(SpawnError::Outside),
    }
}

impl Group {
    fn executor(&self) -> Result<Handle, SpawnError> {
        self.state.shared.executor(&self.state).ok_or(SpawnError::NoReactor)
    }

    /// Starts a task of tokio in this group: on the tokio runtime that this is called in, on that
    /// of [`Builder::reactor`](crate::Builder::reactor) outside, or on the second one if the group
    /// is beside.
    ///
    /// # Errors
    /// There is no tokio runtime.
    #[track_caller]
    pub fn spawn<F>(&self, future: F) -> Result<JoinHandle<F::Output>, SpawnError>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        Ok(self.spawn_on(&self.executor()?, future))
    }

    #[track_caller]
    pub(crate) fn spawn_on<F>(&self, executor: &Handle, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        JoinHandle(executor.spawn(self.wrap(future)))
    }

    /// Starts a task of this group on the tokio `LocalSet` that this is called in.
    ///
    /// # Panics
    /// If it is called outside of a `LocalSet`, as `tokio::task::spawn_local`.
    #[track_caller]
    pub fn spawn_local<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        JoinHandle(tokio::task::spawn_local(self.wrap(future)))
    }

    /// Runs a function that blocks or computes on a thread of tokio for such functions, once the
    /// group has quota and it is its turn. Its CPU time is charged at its end.
    ///
    /// # Errors
    /// Those of [`spawn`](Self::spawn).
    #[track_caller]
    pub fn spawn_blocking<F, T>(&self, run: F) -> Result<JoinHandle<T>, SpawnError>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let (executor, mut home) = (self.executor()?, Some(Arc::clone(&self.state)));
        let (threads, passes) = (executor.clone(), self.wrap(std::future::ready(())));
        Ok(JoinHandle(executor.spawn(async move {
            passes.await;
            let run = move || {
                let _scope = Scope::enter(&mut home);
                run()
            };
            match threads.spawn_blocking(run).await {
                Ok(result) => result,
                Err(error) => match error.try_into_panic() {
                    Ok(with) => std::panic::resume_unwind(with),
                    // The runtime ends, and with it this task.
                    Err(_) => std::future::pending().await,
                },
            }
        })))
    }
}

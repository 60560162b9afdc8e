//! [`AbortOnDrop`] and [`JoinSet`]: tasks that do not outlive their owner.

use crate::spawn::{SpawnError, TaskBuilder};
use crate::state::job::JoinError;
use crate::task::JoinHandle;
use futures_util::stream::{FuturesUnordered, Stream};
use std::fmt;
use std::future::{Future, poll_fn};
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::task::{Context, Poll};

/// A [`JoinHandle`] whose task is aborted when the handle is dropped.
///
/// ```
/// # use zerolag_runtime::Builder;
/// let rt = Builder::new().cpus(1).build()?;
/// let task = rt.spawn(std::future::pending::<()>())?.abort_on_drop();
/// drop(task); // nobody needs it any more
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "a task is aborted with this handle"]
pub struct AbortOnDrop<T>(Option<JoinHandle<T>>);

const HANDLE: &str = "invariant: the handle exists until it is detached";

impl<T> AbortOnDrop<T> {
    pub(crate) const fn new(handle: JoinHandle<T>) -> Self {
        Self(Some(handle))
    }

    /// Lets the task outlive the handle again.
    #[must_use = "the task continues if the handle is dropped"]
    pub fn detach(mut self) -> JoinHandle<T> {
        self.0.take().expect(HANDLE)
    }
}

impl<T> JoinHandle<T> {
    /// Makes a handle that aborts the task when it is dropped.
    pub const fn abort_on_drop(self) -> AbortOnDrop<T> {
        AbortOnDrop::new(self)
    }
}

impl<T> Deref for AbortOnDrop<T> {
    type Target = JoinHandle<T>;

    fn deref(&self) -> &JoinHandle<T> {
        self.0.as_ref().expect(HANDLE)
    }
}

impl<T> DerefMut for AbortOnDrop<T> {
    fn deref_mut(&mut self) -> &mut JoinHandle<T> {
        self.0.as_mut().expect(HANDLE)
    }
}

impl<T: 'static> Future for AbortOnDrop<T> {
    type Output = Result<T, JoinError>;

    /// # Panics
    /// If it is polled again after it was ready.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut **self).poll(cx)
    }
}

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        if let Some(task) = self.0.take() {
            task.abort();
        }
    }
}

/// Tasks with results of one type, in any groups. Dropping the set aborts those that are left.
///
/// ```
/// # use zerolag_runtime::{Builder, JoinSet};
/// let rt = Builder::new().cpus(2).build()?;
/// let acme = rt.group("acme").quota(0.5).create()?;
/// let mut parts = JoinSet::new();
/// for n in 0..10_u64 {
///     parts.spawn(acme.task(), async move { n * n })?;
/// }
/// let sum = rt.block_on(async {
///     let mut sum = 0;
///     while let Some(part) = parts.join_next().await {
///         sum += part?;
///     }
///     Ok::<_, zerolag_runtime::JoinError>(sum)
/// })?;
/// assert_eq!(sum, 285);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct JoinSet<T> {
    tasks: FuturesUnordered<AbortOnDrop<T>>,
}

impl<T> fmt::Debug for JoinSet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinSet").field("len", &self.tasks.len()).finish_non_exhaustive()
    }
}

impl<T> Default for JoinSet<T> {
    fn default() -> Self {
        Self { tasks: FuturesUnordered::new() }
    }
}

impl<T: 'static> JoinSet<T> {
    /// Creates an empty set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts a task and adds it.
    ///
    /// # Errors
    /// Those of [`TaskBuilder::spawn`].
    #[track_caller]
    pub fn spawn<F>(&mut self, task: TaskBuilder, future: F) -> Result<(), SpawnError>
    where
        F: Future<Output = T> + Send + 'static,
        T: Send + 'static,
    {
        self.add(task.spawn(future)?);
        Ok(())
    }

    /// Adds a task that was started elsewhere.
    pub fn add(&mut self, task: JoinHandle<T>) {
        self.tasks.push(task.abort_on_drop());
    }

    /// Returns how many tasks have not been returned by [`join_next`](Self::join_next) yet.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Returns whether no task is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Waits until one of the tasks has ended and returns its result; `None` if the set is empty. A
    /// dropped wait loses no result.
    pub async fn join_next(&mut self) -> Option<Result<T, JoinError>> {
        poll_fn(|cx| Pin::new(&mut self.tasks).poll_next(cx)).await
    }

    /// Aborts all tasks; they stay in the set until they have ended.
    pub fn abort_all(&self) {
        self.tasks.iter().for_each(|task| task.abort());
    }

    /// Aborts all tasks and waits for their ends. Their results are dropped.
    pub async fn shutdown(&mut self) {
        self.abort_all();
        while self.join_next().await.is_some() {}
    }

    /// Lets all tasks outlive the set.
    pub fn detach_all(&mut self) {
        for task in std::mem::take(&mut self.tasks) {
            drop(task.detach());
        }
    }
}

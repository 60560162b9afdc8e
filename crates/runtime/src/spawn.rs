//! [`TaskBuilder`]: the scheduling parameters of a new task, and its start.

use crate::blocking;
use crate::caller::Caller;
use crate::coop;
use crate::group::Group;
use crate::state::job::{self, JoinError};
use crate::state::task::{Affinity, NewTask, Task};
use crate::task::JoinHandle;
use crate::units::to_model;
use std::fmt;
use std::future::Future;
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use zerolag_core::call::Refused;
use zerolag_core::{CpusetId, TaskError, TaskSpec};
use zerolag_model::{CpuId, CpuMask, DlParams, Nice, RtPriority, SchedAttr, TraceEvent};

/// A task that has not been started yet.
#[derive(Clone, Debug)]
#[must_use = "a task is there once it is spawned"]
pub struct TaskBuilder {
    group: Group,
    name: Arc<str>,
    attr: SchedAttr,
    cpus: Option<CpuMask>,
}

/// The reason why a task was not started.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SpawnError {
    /// The largest number of tasks already live ([`Builder::tasks`](crate::Builder::tasks)).
    Full,
    /// The runtime has ended.
    Ended,
    /// This process is a fork of the one that built the runtime, whose threads exist there only.
    Forked,
    /// The scheduler refuses the task: its reservation does not fit, or its CPUs do not exist.
    Refused(TaskError),
    /// [`spawn`] was called outside of the tasks and functions of a runtime.
    Outside,
}

impl fmt::Display for SpawnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("there is no room for another task"),
            Self::Ended => f.write_str("the runtime has ended"),
            Self::Forked => f.write_str("the process was forked: the threads of the runtime are in its parent"),
            Self::Refused(error) => fmt::Display::fmt(error, f),
            Self::Outside => f.write_str("it is not called in a task of a runtime: use the `spawn` of a group"),
        }
    }
}

impl std::error::Error for SpawnError {}

/// Starts a task of nice 0 in the group of the calling task, in place of `tokio::spawn`: the tasks
/// that a handler starts stay in the group of its tenant.
///
/// ```
/// # use zerolag_runtime::{Builder, Group, spawn};
/// let rt = Builder::new().cpus(1).build()?;
/// let acme = rt.group("acme").quota(0.5).create()?;
/// let handler = acme.spawn(async {
///     let part = spawn(async { Group::current().expect("it inherits the group").path() })?;
///     Ok::<_, zerolag_runtime::SpawnError>(part.await.expect("no panic"))
/// })?;
/// assert_eq!(rt.block_on(handler)??, "/acme");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Those of [`TaskBuilder::spawn`], and [`SpawnError::Outside`].
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

impl TaskBuilder {
    pub(crate) fn new(group: Group) -> Self {
        Self { group, name: Arc::default(), attr: SchedAttr::NORMAL, cpus: None }
    }

    /// Sets the name of the task, in traces and reports.
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets the attributes as `sched_setattr` does; they replace those that were set before.
    pub fn attr(mut self, attr: SchedAttr) -> Self {
        self.attr = attr;
        self
    }

    /// Makes it a SCHED_OTHER task with a nice value.
    pub fn nice(self, nice: Nice) -> Self {
        self.attr(SchedAttr::nice(nice))
    }

    /// Makes it a SCHED_FIFO task: it runs before all fair tasks of all groups, and limits of
    /// groups do not apply to it.
    pub fn fifo(self, priority: RtPriority) -> Self {
        self.attr(SchedAttr::fifo(priority))
    }

    /// Makes it a SCHED_DEADLINE task: it gets `runtime` of a CPU in every `period`, before all
    /// other tasks, and no more. [`spawn`](Self::spawn) refuses it if the sum of all reservations
    /// does not fit.
    pub fn reserve(self, runtime: Duration, period: Duration) -> Self {
        let (runtime, period) = (to_model(runtime), to_model(period));
        self.attr(SchedAttr::Deadline(DlParams::new(runtime, period, period)))
    }

    /// Restricts the task to these CPUs of the runtime.
    pub fn cpus(mut self, cpus: CpuMask) -> Self {
        self.cpus = Some(cpus);
        self
    }

    /// Starts the task.
    ///
    /// # Errors
    /// The runtime has no room for another task, the scheduler does not admit it, the runtime has
    /// ended, or this process is a fork of the one that built it.
    #[track_caller]
    pub fn spawn<F>(self, future: F) -> Result<JoinHandle<F::Output>, SpawnError>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let engine = Arc::clone(self.group.engine());
        // A thread of the runtime is in its process.
        if coop::owner().is_none() && engine.is_forked() {
            return Err(SpawnError::Forked);
        }
        let _open = engine.spawning.read();
        if engine.is_closed.load(Ordering::Acquire) {
            return Err(SpawnError::Ended);
        }
        let (id, ended) = engine.take_id().ok_or(SpawnError::Full)?;
        let born_on = coop::current_cpu().unwrap_or_else(|| CpuId(id.0 % engine.cpus.len() as u32));
        let affinity = if self.cpus.is_some() { Affinity::SomeCpus } else { Affinity::AllCpus };
        let spec = TaskSpec {
            id,
            attr: self.attr,
            affinity: self.cpus.map(Arc::new),
            group: self.group.state.id,
            cpuset: CpusetId::default(),
            born_on,
            process: None,
        };
        let mut caller = Caller::new(&engine, born_on);
        if let Err(refused) = caller.create(spec, ended) {
            engine.give_back(id, caller.hand.take());
            return Err(match refused {
                Refused::Task(error) => SpawnError::Refused(error),
                _ => unreachable!("invariant: a refused call about a task has an error of tasks"),
            });
        }
        let parcel = caller.hand.take().expect("invariant: `CreateTask` leaves the parcel in `hand`");
        drop(caller);
        let (attr, group, name) = (self.attr, self.group.state.id, self.name);
        let named = Arc::clone(&name);
        engine.emit(|| TraceEvent::TaskNew { task: id, name: named, parent: None, attr, group });
        let new = NewTask {
            id,
            name,
            spawned_at: Location::caller(),
            group: self.group.state,
            parcel,
            job: job::of(future),
            attr,
            affinity,
            born_on,
        };
        let task = Arc::new(Task::new(new));
        engine.admit(Arc::clone(&task));
        engine.wake(&task);
        Ok(JoinHandle::new(task))
    }

    /// Runs a function that blocks or computes on a thread beside the CPUs. It starts when the
    /// scheduler picks this task, so not before its group has quota and it is the group's turn.
    /// The CPU time that it uses there is charged to the group: at ticks while it runs, and the
    /// rest before the handle returns the result. Nothing interrupts the function; a group that
    /// has used more than its quota this way starts no other task until it has paid.
    ///
    /// At most [`Builder::blocking_max`](crate::Builder::blocking_max) such functions run at a
    /// time, and one of a group in any case; of those that wait, one of the group with the fewest
    /// running ones is next. After 50 ms of CPU time, divided by the number of the group's running
    /// functions, the thread gets nice 19. An abort drops a function that was not started yet; one
    /// that runs goes on, and its result is dropped.
    ///
    /// # Errors
    /// Those of [`spawn`](Self::spawn).
    #[track_caller]
    pub fn spawn_blocking<F, T>(self, run: F) -> Result<JoinHandle<T>, SpawnError>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let call = blocking::Call::new(self.group.engine(), &self.group.state, run);
        self.spawn(call)
    }
}

impl Group {
    /// Runs a future as a task of this group while the result is polled and not dropped, as
    /// `zerolag_tenants::Group::wrap` does in place.
    ///
    /// # Panics
    /// The result panics if the future does, if the task cannot be started ([`SpawnError`]), and if
    /// the runtime ends.
    pub fn wrap<F>(&self, future: F) -> impl Future<Output = F::Output> + Send + use<F>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let group = self.clone();
        async move {
            let task = group.spawn(future).unwrap_or_else(|error| panic!("no task in {group:?}: {error}"));
            match task.abort_on_drop().await {
                Ok(output) => output,
                Err(JoinError::Panicked(with)) => std::panic::resume_unwind(with),
                Err(JoinError::Aborted) => panic!("the runtime has ended"),
            }
        }
    }

    /// Starts building a task in this group.
    pub fn task(&self) -> TaskBuilder {
        TaskBuilder::new(self.clone())
    }

    /// Starts a task of nice 0 in this group.
    ///
    /// # Errors
    /// The largest number of tasks already live ([`Builder::tasks`](crate::Builder::tasks)).
    #[track_caller]
    pub fn spawn<F>(&self, future: F) -> Result<JoinHandle<F::Output>, SpawnError>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.task().spawn(future)
    }

    /// Runs a function that blocks or computes on a thread of its own, at the expense of this
    /// group. See [`TaskBuilder::spawn_blocking`].
    ///
    /// # Errors
    /// The largest number of tasks already live ([`Builder::tasks`](crate::Builder::tasks)).
    #[track_caller]
    pub fn spawn_blocking<F, T>(&self, run: F) -> Result<JoinHandle<T>, SpawnError>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.task().spawn_blocking(run)
    }
}

//! [`Builder`] and [`Runtime`].

use crate::group::{Group, GroupBuilder, Usage};
use crate::latency::Latencies;
use crate::reactor::Reactor;
use crate::record::{Recorder, Recording};
use crate::shutdown::Shutdown;
use crate::spawn::{SpawnError, TaskBuilder};
use crate::state::engine::{Engine, EngineParts};
use crate::state::group::GroupState;
use crate::state::info::{Hooks, Overrun, TaskInfo};
use crate::state::time_source::TimeSource;
use crate::sync::park;
use crate::sync::thread::{Thread, current};
use crate::task::JoinHandle;
use crate::units::{to_model, to_std};
use crate::{clock, confine, coop, worker};
use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;
use zerolag_core::{Config, Scheduler};
use zerolag_model::settings::FairServer;
use zerolag_model::topology::TopologyError;
use zerolag_model::{KernelVersion, ServerParams, Settings, Topology};
use zerolag_trace::Trace;

/// The configuration of a runtime.
#[derive(Clone, Debug)]
#[must_use = "a runtime is there once it is built"]
pub struct Builder {
    cpus: Option<u32>,
    processors: Option<f64>,
    settings: Settings,
    tasks: usize,
    groups: usize,
    hand_off_after: Option<Duration>,
    detached_max: usize,
    spare_at_most: Duration,
    blocking_max: usize,
    recorded: Option<usize>,
    is_traced: bool,
    reactor: Reactor,
    hooks: Hooks,
    is_measuring: bool,
}

/// The reason why a runtime cannot be built.
#[derive(Debug)]
#[non_exhaustive]
pub enum BuildError {
    /// The number of CPUs is zero or too large.
    Cpus(TopologyError),
    /// The floor is longer than its period, or the period is out of range.
    Floor(ServerParams),
    /// The system could not start another thread.
    Thread(std::io::Error),
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpus(error) => fmt::Display::fmt(error, f),
            Self::Floor(ServerParams { runtime, period, .. }) => {
                write!(f, "a floor of {runtime} in {period}: the period is 100us to 4194304us, the floor at most that")
            }
            Self::Thread(error) => write!(f, "no thread could be started: {error}"),
        }
    }
}

impl std::error::Error for BuildError {}

impl Default for Builder {
    fn default() -> Self {
        Self::new()
    }
}

impl Builder {
    /// Creates a configuration with as many CPUs as the process is allowed to use, which schedules
    /// like Linux 6.18 without its faults and without delayed dequeue, with ticks of 1 ms.
    /// Real-time tasks leave 5 % of every CPU to the other tasks (`fair_server`). A poll that
    /// ignores a preemption request loses its CPU after 2 ms.
    pub fn new() -> Self {
        Self {
            cpus: None,
            processors: None,
            // A task with a delayed dequeue sleeps on its run queue. A CPU that wakes it cannot
            // take it over, so four tasks that contend for a lock on two CPUs put one of the two
            // to sleep at each hand-over (20 us instead of 2).
            settings: Settings {
                hz: 1000,
                delay_dequeue: false,
                fair_server_resched_lost: false,
                ..KernelVersion::V6_18.settings()
            },
            tasks: 16_384,
            groups: 1024,
            hand_off_after: Some(Duration::from_millis(2)),
            detached_max: 256,
            spare_at_most: Duration::from_millis(50),
            blocking_max: 64,
            recorded: None,
            is_traced: false,
            reactor: Reactor::default(),
            hooks: Hooks::default(),
            is_measuring: false,
        }
    }

    /// Sets the number of CPUs of the scheduler; each is a thread. At most 4096. With more CPUs
    /// than the machine has, promises are not kept.
    pub fn cpus(mut self, cpus: u32) -> Self {
        self.cpus = Some(cpus);
        self
    }

    /// Sets the number of processors that the process gets of the machine, if that is less than the
    /// CPUs of the scheduler. Reservations are admitted up to 95 % of it. The default is the limit
    /// of the process's cgroup and of those above (`cpu.max`), when the runtime is built.
    pub fn processors(mut self, processors: f64) -> Self {
        self.processors = Some(processors);
        self
    }

    /// Replaces all settings of the scheduler.
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// Sets the floor: when fair tasks starve, real-time and reserved work leaves them `runtime` of
    /// every CPU in every `period`, of 100 us to 4 s. A zero runtime disables the floor.
    pub fn floor(mut self, runtime: Duration, period: Duration) -> Self {
        if runtime.is_zero() {
            self.settings.fair_server = FairServer::Off;
            return self;
        }
        self.settings.fair_server = FairServer::Deferred;
        (self.settings.fair_server_runtime, self.settings.fair_server_period) = (to_model(runtime), to_model(period));
        self
    }

    /// Sets the largest number of tasks that live at a time; each takes some 100 bytes.
    pub fn tasks(mut self, tasks: usize) -> Self {
        self.tasks = tasks;
        self
    }

    /// Sets the largest number of groups that live at a time.
    pub fn groups(mut self, groups: usize) -> Self {
        self.groups = groups;
        self
    }

    /// Sets how long a poll can ignore a preemption request before its CPU is handed over to
    /// another thread; `None` is forever. It is checked at ticks, and time during which the kernel
    /// keeps the thread from running does not count.
    pub fn hand_off_after(mut self, after: Option<Duration>) -> Self {
        self.hand_off_after = after;
        self
    }

    /// Sets the largest number of polls at a time that have lost their CPU and still run; each has
    /// a thread. Once there are so many, a poll that does not yield keeps its CPU. The default is
    /// 256.
    pub fn detached_max(mut self, threads: usize) -> Self {
        self.detached_max = threads;
        self
    }

    /// Sets for how long the tasks of a group that has used up its quota run on per second of real
    /// time, because they hold a [`Mutex`](crate::Mutex) that a task outside the group waits for.
    /// They are charged for it. The default is 50 ms of CPU time, for each group with a limit; zero
    /// switches it off.
    pub fn spare_at_most(mut self, time: Duration) -> Self {
        self.spare_at_most = time;
        self
    }

    /// Sets the largest number of functions of [`TaskBuilder::spawn_blocking`] that run at a time,
    /// at least 1; each has a thread. The default is 64. A group of which none runs starts one in
    /// addition to them, so no group waits for another; for a group there is
    /// [`GroupBuilder::blocking_max`].
    pub fn blocking_max(mut self, threads: usize) -> Self {
        self.blocking_max = threads;
        self
    }

    /// Sets the tokio runtime whose I/O and timers tasks use: every poll, and every function of
    /// [`TaskBuilder::spawn_blocking`], runs in its context, as after
    /// [`Handle::enter`](tokio::runtime::Handle::enter). Types of tokio and of what is built on it
    /// work unchanged. The default is the runtime in whose context [`build`](Self::build) is
    /// called, if there is one: under `#[tokio::main]` there is.
    ///
    /// The tokio runtime has to have its I/O and time drivers enabled, and a thread that drives
    /// them: at least one worker, or a thread in its `block_on`. Tasks that are started with
    /// `tokio::spawn` are tokio's: no group limits them.
    #[cfg(feature = "tokio")]
    pub fn reactor(mut self, tokio: tokio::runtime::Handle) -> Self {
        self.reactor = Reactor::new(tokio);
        self
    }

    /// Calls a function after every poll that was longer than `after` (real time), with the task,
    /// the place that started it, the places between which the poll became too long
    /// ([`Overrun::from`]), and the length. Polls are checked at ticks, so one that is longer
    /// by less than a tick can be missed. The function runs on the thread of the poll.
    pub fn on_overrun(mut self, after: Duration, call: impl Fn(&Overrun) + Send + Sync + 'static) -> Self {
        self.hooks.overrun = Some((to_model(after), Arc::new(call)));
        self
    }

    /// Calls a function at the start of every thread of the runtime, on that thread.
    pub fn on_thread_start(mut self, call: impl Fn() + Send + Sync + 'static) -> Self {
        self.hooks.thread_start = Some(Arc::new(call));
        self
    }

    /// Calls a function at the end of every thread of the runtime, on that thread.
    pub fn on_thread_stop(mut self, call: impl Fn() + Send + Sync + 'static) -> Self {
        self.hooks.thread_stop = Some(Arc::new(call));
        self
    }

    /// Counts how long the tasks of each group wait for a CPU, and how long their polls are
    /// ([`Group::latencies`]). Each poll reads the clock once or twice more for it, some 50 ns.
    pub fn latencies(mut self) -> Self {
        self.is_measuring = true;
        self
    }

    /// Records the first `calls` calls of the scheduler ([`Runtime::into_recording`]). While the
    /// runtime records, CPUs call the scheduler one at a time.
    pub fn record(mut self, calls: usize) -> Self {
        self.recorded = Some(calls);
        self
    }

    /// Keeps a trace of the scheduler's actions ([`Runtime::take_trace`]), for the tools and
    /// monitors that read traces of simulations and kernels.
    pub fn trace(mut self) -> Self {
        self.is_traced = true;
        self
    }

    /// Starts the threads.
    ///
    /// # Errors
    /// The number of CPUs is zero or above 4096, the floor is out of range, or the system could not
    /// start a thread.
    pub fn build(self) -> Result<Runtime, BuildError> {
        let runtime = self.assemble(TimeSource::real())?;
        let engine = &runtime.engine;
        let ticking = Arc::clone(engine);
        engine.start("zerolag-clock".to_owned(), move || clock::run(&ticking)).map_err(BuildError::Thread)?;
        Ok(runtime)
    }

    /// Starts the threads of the CPUs. Time has to be advanced, and timers and ticks to be served,
    /// by the caller.
    pub(crate) fn assemble(mut self, time: TimeSource) -> Result<Runtime, BuildError> {
        let available = || std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32);
        let topology = Topology::flat(self.cpus.unwrap_or_else(available)).map_err(BuildError::Cpus)?;
        if let Some(params) =
            topology.cpus().map(|cpu| self.settings.fair_server_params(cpu)).find(|one| !one.is_valid())
        {
            return Err(BuildError::Floor(params));
        }
        let processors = self.processors.or_else(confine::processors).filter(|number| *number > 0.0);
        let part = processors.map_or(1.0, |number| (number / topology.nr_cpus() as f64).min(1.0));
        self.settings.rt_runtime = to_model(to_std(self.settings.rt_runtime).mul_f64(part));
        let config = Config::new(topology, self.settings).with_group_reserve(self.groups);
        let mut scheduler = Scheduler::new(config);
        scheduler.reserve_tasks(self.tasks);
        let parts = EngineParts {
            time,
            tasks: self.tasks,
            recorder: self.recorded.map(Recorder::new),
            is_traced: self.is_traced,
            hand_off_after: self.hand_off_after.map(to_model),
            detached_max: self.detached_max,
            spare_at_most: to_model(self.spare_at_most),
            blocking_max: self.blocking_max,
            reactor: self.reactor.or_current(),
            hooks: self.hooks,
            is_measuring: self.is_measuring,
        };
        let engine = Arc::new(Engine::new(scheduler, parts));
        let root = Group { state: GroupState::root(&engine) };
        let _ = engine.root.set(Arc::downgrade(&root.state));
        let runtime = Runtime { engine: Arc::clone(&engine), root, is_over: false };
        for cpu in engine.scheduler.config().topology().cpus() {
            worker::start(&engine, cpu).map_err(BuildError::Thread)?;
        }
        Ok(runtime)
    }
}

/// A scheduler on real threads. Dropping it ends the threads and drops the remaining tasks; their
/// handles return [`JoinError::Aborted`](crate::JoinError::Aborted). It waits for that, unless a
/// task of the runtime drops it.
pub struct Runtime {
    pub(crate) engine: Arc<Engine>,
    root: Group,
    is_over: bool,
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime").field("cpus", &self.engine.cpus.len()).finish_non_exhaustive()
    }
}

impl Runtime {
    /// Returns the root group.
    #[must_use]
    pub const fn root(&self) -> &Group {
        &self.root
    }

    /// Starts building a group below the root.
    pub fn group(&self, name: impl Into<String>) -> GroupBuilder {
        self.root.group(name)
    }

    /// Starts building a task in the root group.
    pub fn task(&self) -> TaskBuilder {
        self.root.task()
    }

    /// Starts a task of nice 0 in the root group.
    ///
    /// # Errors
    /// The largest number of tasks already live ([`Builder::tasks`]).
    #[track_caller]
    pub fn spawn<F>(&self, future: F) -> Result<JoinHandle<F::Output>, SpawnError>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.root.spawn(future)
    }

    /// Waits for a future on this thread, which must not belong to the runtime.
    ///
    /// # Panics
    /// If a task calls it; and in a fork of the process that built the runtime.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        assert!(
            coop::current_task().is_none(),
            "a task must not call `block_on`: it would block a CPU of the runtime; use `await`"
        );
        assert!(!self.engine.is_forked(), "the process was forked: the threads of the runtime are in its parent");
        let waker = Waker::from(Arc::new(Unpark(current())));
        let _within = coop::BlockOnScope::enter(&self.engine, Some(&waker));
        let _entered = self.engine.enter_reactor();
        let mut cx = Context::from_waker(&waker);
        let mut future = pin!(future);
        loop {
            if let Poll::Ready(output) = future.as_mut().poll(&mut cx) {
                return output;
            }
            park();
        }
    }

    /// Returns how many panics no handle reports: those of tasks whose handle was dropped, of their
    /// results, of wakers that a CPU or the clock called, and of destructors after a panic. Such a
    /// panic ends nothing but the code in which it arose.
    #[must_use]
    pub fn stray_panics(&self) -> u64 {
        self.engine.stray_panics.load(Ordering::Acquire)
    }

    /// Returns the live tasks, by id. O([`Builder::tasks`]): it is for people and their tools.
    #[must_use]
    pub fn tasks(&self) -> Vec<TaskInfo> {
        self.engine.infos()
    }

    /// Returns the usage of every group, by path; the first one is the root, `/`.
    #[must_use]
    pub fn usage(&self) -> Vec<(String, Usage)> {
        self.groups().into_iter().map(|(path, group)| (path, group.usage())).collect()
    }

    /// Returns every group, by path; the first one is the root, `/`.
    #[must_use]
    pub fn groups(&self) -> Vec<(String, Group)> {
        self.engine.groups()
    }

    /// Returns the histograms of every group, by path; empty without
    /// [`Builder::latencies`](crate::Builder::latencies).
    #[must_use]
    pub fn latencies(&self) -> Vec<(String, Latencies)> {
        self.groups().into_iter().filter_map(|(path, group)| Some((path, group.latencies()?))).collect()
    }

    /// Runs a function that blocks or computes on a thread of its own, in the root group. See
    /// [`TaskBuilder::spawn_blocking`].
    ///
    /// # Errors
    /// The largest number of tasks already live ([`Builder::tasks`]).
    #[track_caller]
    pub fn spawn_blocking<F, T>(&self, run: F) -> Result<JoinHandle<T>, SpawnError>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.root.spawn_blocking(run)
    }

    /// Ends the runtime: waits until all tasks have ended, for at most `limit`. Tasks can still be
    /// started meanwhile. Then it aborts the remaining tasks, waits for them for 100 ms at most,
    /// and returns which they were. A poll, or a function of [`TaskBuilder::spawn_blocking`], that
    /// does not return is left behind; its thread ends with it.
    ///
    /// # Panics
    /// If a task of this runtime calls it.
    pub fn shutdown(mut self, limit: Duration) -> Shutdown {
        assert!(!self.engine.owns_this_thread(), "a task cannot wait for the end of its own runtime");
        self.is_over = true;
        if self.engine.is_forked() {
            return Shutdown { is_complete: false, unfinished: Vec::new() };
        }
        self.engine.shut_down(limit)
    }

    /// Takes the trace since the last call, in the format that the tools and monitors read; empty
    /// without [`Builder::trace`].
    #[must_use]
    pub fn take_trace(&self) -> Trace {
        self.engine.take_trace()
    }

    /// Ends the runtime and returns the recording; `None` without [`Builder::record`].
    ///
    /// # Panics
    /// If a task of this runtime calls it.
    #[must_use]
    pub fn into_recording(self) -> Option<Recording> {
        assert!(!self.engine.owns_this_thread(), "a task cannot wait for the end of its own runtime");
        self.engine.end();
        let config = self.engine.scheduler.config().clone();
        self.engine.recorder.as_ref().map(|recorder| recorder.take(config, self.engine.room()))
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        // In a fork there is no thread to wait for, and a lock can be held for good.
        if !self.is_over && !self.engine.is_forked() {
            self.engine.end();
        }
    }
}

/// Wakes a thread that waits in [`Runtime::block_on`].
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

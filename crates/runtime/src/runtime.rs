//! [`Builder`] and [`Runtime`].

use crate::engine::{Engine, Parts};
use crate::group::{Group, GroupBuilder, GroupState};
use crate::record::{Recorder, Recording};
use crate::spawn::{SpawnError, TaskBuilder};
use crate::{JoinHandle, clock, coop, to_model, worker};
use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;
use zerolag_core::{Config, Scheduler};
use zerolag_model::settings::FairServer;
use zerolag_model::topology::TopologyError;
use zerolag_model::{KernelVersion, Settings, Topology};
use zerolag_trace::Trace;

/// How a runtime is to be.
#[derive(Clone, Debug)]
#[must_use = "a runtime is there once it is built"]
pub struct Builder {
    cpus: Option<u32>,
    settings: Settings,
    tasks: usize,
    groups: usize,
    hand_off_after: Option<Duration>,
    detached_max: usize,
    recorded: Option<usize>,
    is_traced: bool,
}

/// Why a runtime cannot be built.
#[derive(Debug)]
#[non_exhaustive]
pub enum BuildError {
    /// There is no machine of so many CPUs.
    Cpus(TopologyError),
    /// The system has no thread left.
    Thread(std::io::Error),
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpus(error) => fmt::Display::fmt(error, f),
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
    /// A runtime of as many CPUs as the process may use, scheduled as Linux 6.18 schedules but for
    /// its faults, with ticks of 1 ms. Real-time tasks leave the others 5 % of each CPU
    /// (`fair_server`); a poll that was asked to give way loses its CPU after 2 ms.
    pub fn new() -> Self {
        Self {
            cpus: None,
            settings: Settings { hz: 1000, fair_server_resched_lost: false, ..KernelVersion::V6_18.settings() },
            tasks: 16_384,
            groups: 1024,
            hand_off_after: Some(Duration::from_millis(2)),
            detached_max: 16,
            recorded: None,
            is_traced: false,
        }
    }

    /// CPUs of the scheduler, each a thread. At most 4096; no more than the machine has, or
    /// promises are not kept.
    pub fn cpus(mut self, cpus: u32) -> Self {
        self.cpus = Some(cpus);
        self
    }

    /// All of the scheduler's settings.
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// The floor: real-time and reserved work leaves the fair class, if it starves, so much of each
    /// CPU in each period. A zero runtime is no floor.
    pub fn floor(mut self, runtime: Duration, period: Duration) -> Self {
        self.settings.fair_server = if runtime.is_zero() { FairServer::Off } else { FairServer::Deferred };
        (self.settings.fair_server_runtime, self.settings.fair_server_period) = (to_model(runtime), to_model(period));
        self
    }

    /// The most tasks that live at a time; some 100 bytes each.
    pub fn tasks(mut self, tasks: usize) -> Self {
        self.tasks = tasks;
        self
    }

    /// The most groups that live at a time.
    pub fn groups(mut self, groups: usize) -> Self {
        self.groups = groups;
        self
    }

    /// When a poll that was asked to give way loses its CPU to another thread, seen at ticks;
    /// `None` is never.
    pub fn hand_off_after(mut self, after: Option<Duration>) -> Self {
        self.hand_off_after = after;
        self
    }

    /// The most polls at a time that have lost their CPU and go on beside the runtime.
    pub fn detached_max(mut self, threads: usize) -> Self {
        self.detached_max = threads;
        self
    }

    /// Records the first calls of the scheduler ([`Runtime::into_recording`]). CPUs then take turns
    /// in it.
    pub fn record(mut self, calls: usize) -> Self {
        self.recorded = Some(calls);
        self
    }

    /// Keeps a trace of what the scheduler does ([`Runtime::take_trace`]), for the tools and
    /// monitors that read those of simulations and kernels.
    pub fn trace(mut self) -> Self {
        self.is_traced = true;
        self
    }

    /// Starts the threads.
    ///
    /// # Errors
    /// No CPU, or more than 4096; no thread.
    pub fn build(self) -> Result<Runtime, BuildError> {
        let available = || std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32);
        let topology = Topology::flat(self.cpus.unwrap_or_else(available)).map_err(BuildError::Cpus)?;
        let config = Config::new(topology, self.settings).with_group_reserve(self.groups);
        let mut scheduler = Scheduler::new(config);
        scheduler.reserve_tasks(self.tasks);
        let parts = Parts {
            tasks: self.tasks,
            recorder: self.recorded.map(Recorder::new),
            is_traced: self.is_traced,
            hand_off_after: self.hand_off_after.map(to_model),
            detached_max: self.detached_max,
        };
        let engine = Arc::new(Engine::new(scheduler, parts));
        let root = Group { state: GroupState::root(&engine) };
        let runtime = Runtime { engine: Arc::clone(&engine), root };
        for cpu in engine.scheduler.config().topology().cpus() {
            worker::start(&engine, cpu).map_err(BuildError::Thread)?;
        }
        let ticking = Arc::clone(&engine);
        engine.start("zerolag-clock".to_owned(), move || clock::run(&ticking)).map_err(BuildError::Thread)?;
        Ok(runtime)
    }
}

/// A scheduler on real threads. Dropping it ends them and drops what is left of its tasks; their
/// handles answer [`JoinError::Aborted`](crate::JoinError::Aborted).
pub struct Runtime {
    engine: Arc<Engine>,
    root: Group,
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

    /// Begins a group below the root.
    pub fn group(&self, name: impl Into<String>) -> GroupBuilder {
        self.root.group(name)
    }

    /// Begins a task in the root group.
    pub fn task(&self) -> TaskBuilder {
        self.root.task()
    }

    /// Starts a task of nice 0 in the root group.
    ///
    /// # Errors
    /// As many tasks live as there is room for ([`Builder::tasks`]).
    pub fn spawn<F>(&self, future: F) -> Result<JoinHandle<F::Output>, SpawnError>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.root.spawn(future)
    }

    /// Waits on this thread, which is none of the runtime's.
    ///
    /// # Panics
    /// If it is called by a task.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        assert!(coop::current_task().is_none(), "a task that blocks its thread keeps a CPU from the others: await");
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let mut cx = Context::from_waker(&waker);
        let mut future = pin!(future);
        loop {
            if let Poll::Ready(output) = future.as_mut().poll(&mut cx) {
                return output;
            }
            std::thread::park();
        }
    }

    /// Takes what has happened since the last call, as the tools and monitors read it; empty
    /// without [`Builder::trace`].
    #[must_use]
    pub fn take_trace(&self) -> Trace {
        self.engine.take_trace()
    }

    /// Ends the runtime and returns what was recorded; `None` without [`Builder::record`].
    #[must_use]
    pub fn into_recording(self) -> Option<Recording> {
        self.engine.end();
        let config = self.engine.scheduler.config().clone();
        self.engine.recorder.as_ref().map(|recorder| recorder.take(config, self.engine.room()))
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        self.engine.end();
    }
}

/// Wakes a thread that waits in [`Runtime::block_on`].
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

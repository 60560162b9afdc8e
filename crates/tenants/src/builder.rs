//! [`Builder`] and [`Runtime`]: the root of the groups, and the threads for long polls.

use crate::group::{Group, GroupBuilder, GroupState, Usage};
use crate::task::{JoinHandle, SpawnError};
use crate::units::{to_model, to_std};
use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;
use tokio::runtime::Handle;
use zerolag_model::Instant;

/// How long the tasks of a group start on the second runtime after a poll that was too long.
pub(crate) const BESIDE_FOR: zerolag_model::Duration = zerolag_model::Duration::from_millis(10_000);

/// The time of tokio, which tests can pause.
pub(crate) struct Clock {
    base: tokio::time::Instant,
}

impl Clock {
    /// Returns the time since the runtime was built.
    pub(crate) fn now(&self) -> Instant {
        Instant::ZERO + to_model(tokio::time::Instant::now().saturating_duration_since(self.base))
    }

    pub(crate) fn to_tokio(&self, time: Instant) -> tokio::time::Instant {
        self.base + to_std(time.since(Instant::ZERO))
    }
}

/// What all groups share.
pub(crate) struct Shared {
    pub(crate) clock: Clock,
    /// The most CPU time between two polls that is the executor's own work.
    pub(crate) between: Duration,
    /// The CPU time from which on a poll is long.
    pub(crate) long_poll: Duration,
    /// The executor of tasks that are started outside of it.
    reactor: Option<Handle>,
    /// The threads for groups whose polls are long.
    beside: Option<Handle>,
    beside_runtime: Mutex<Option<tokio::runtime::Runtime>>,
    groups: Mutex<Vec<Weak<GroupState>>>,
    /// The root, for its rounds.
    root: OnceLock<Weak<GroupState>>,
    is_watched: AtomicBool,
}

/// How often the queues are looked at while polls wait in them.
const WATCH: Duration = Duration::from_millis(50);

/// Looks at the queues ([`Queue::watch`](crate::queue::Queue::watch)), in a task of tokio that ends
/// when they are empty.
struct Watch(Weak<Shared>);

impl Drop for Watch {
    fn drop(&mut self) {
        // Its tokio runtime can end before the queues are empty: the next poll starts another one.
        if let Some(shared) = self.0.upgrade() {
            shared.is_watched.store(false, Ordering::Release);
        }
    }
}

impl Watch {
    async fn run(self) {
        loop {
            tokio::time::sleep(WATCH).await;
            let Some(shared) = self.0.upgrade() else { return };
            let root = shared.root.get().and_then(Weak::upgrade);
            let mut is_needed = false;
            for group in shared.live().into_iter().chain(root) {
                for queue in [&group.account.queue, &group.turn.queue, &group.rounds().queue] {
                    is_needed |= !queue.is_empty();
                    queue.watch();
                }
            }
            if !is_needed {
                return;
            }
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Its drop would wait, which tasks must not do.
        if let Some(runtime) = self.beside_runtime.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            runtime.shutdown_background();
        }
    }
}

impl Shared {
    /// Returns the live groups, without the root.
    pub(crate) fn live(&self) -> Vec<Arc<GroupState>> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner).iter().filter_map(Weak::upgrade).collect()
    }

    pub(crate) fn admit(&self, group: &Arc<GroupState>) {
        // A group whose last reference goes here is dropped after the lock.
        let mut groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        if groups.len() == groups.capacity() {
            groups.retain(|group| group.strong_count() > 0);
        }
        groups.push(Arc::downgrade(group));
    }

    /// A poll waits in a queue: looks at the queues from now on.
    pub(crate) fn watch(self: &Arc<Self>) {
        if self.is_watched.load(Ordering::Relaxed) {
            return;
        }
        if let Ok(executor) = Handle::try_current()
            && !self.is_watched.swap(true, Ordering::AcqRel)
        {
            executor.spawn(Watch(Arc::downgrade(self)).run());
        }
    }

    /// Returns the executor for a task of a group.
    pub(crate) fn executor(&self, group: &GroupState) -> Option<Handle> {
        let beside = self.beside(group, false).cloned();
        beside.or_else(|| Handle::try_current().ok()).or_else(|| self.reactor.clone())
    }

    /// Returns the threads for long polls, if the group's tasks run there or are to.
    pub(crate) fn beside(&self, group: &GroupState, is_wanted: bool) -> Option<&Handle> {
        self.beside.as_ref().filter(|_| is_wanted || group.is_beside())
    }
}

/// The reason why a runtime cannot be built.
#[derive(Debug)]
#[non_exhaustive]
pub enum BuildError {
    /// The threads of the second runtime cannot be started.
    Thread(std::io::Error),
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Thread(error) => write!(f, "a thread of the second runtime cannot be started: {error}"),
        }
    }
}

impl std::error::Error for BuildError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Thread(error) => Some(error),
        }
    }
}

/// Settings of a [`Runtime`].
#[derive(Clone, Debug)]
#[must_use = "settings alone do nothing"]
pub struct Builder {
    reactor: Option<Handle>,
    between: Duration,
    long_poll: Duration,
    beside: Option<(usize, i32)>,
}

impl Default for Builder {
    fn default() -> Self {
        Self::new()
    }
}

impl Builder {
    /// The default settings: no second runtime.
    pub const fn new() -> Self {
        let (between, long_poll) = (Duration::from_micros(20), Duration::from_millis(5));
        Self { reactor: None, between, long_poll, beside: None }
    }

    /// Sets the tokio runtime of tasks that are started outside of one. Tasks that are started
    /// inside run where they are started.
    pub fn reactor(mut self, tokio: Handle) -> Self {
        self.reactor = Some(tokio);
        self
    }

    /// Starts a second tokio runtime for groups whose polls are long: with `threads` threads at
    /// this nice value, 1 to 19. A group's tasks start there for 10 s after one of its polls took 5
    /// ms of CPU time ([`long_poll`](Self::long_poll)), or always
    /// ([`GroupBuilder::beside`]); so its next poll that does not yield delays only its like.
    /// Where the kernel has nothing else to do they run as fast as others.
    pub const fn second_runtime(mut self, threads: usize, nice: i32) -> Self {
        self.beside = Some((threads, nice));
        self
    }

    /// Sets the CPU time from which on a poll is long; the default is 5 ms.
    pub const fn long_poll(mut self, time: Duration) -> Self {
        self.long_poll = time;
        self
    }

    /// Sets the most CPU time between two polls on a thread that is taken for the executor's own
    /// work, and charged to the second; the default is 20 us. Longer times are of tasks without a
    /// group, and charged to none. If a process has no such tasks, [`Duration::MAX`] is exact.
    pub const fn between_polls(mut self, time: Duration) -> Self {
        self.between = time;
        self
    }

    /// Makes the root of the groups.
    ///
    /// # Errors
    /// The second runtime cannot be started.
    pub fn build(self) -> Result<Runtime, BuildError> {
        let runtime = self.beside.map(|(threads, nice)| {
            tokio::runtime::Builder::new_multi_thread()
                .worker_threads(threads.max(1))
                .thread_name("zerolag-beside")
                .on_thread_start(move || {
                    if !cfg!(miri) {
                        // Refused to lower values only, which are none.
                        let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), nice.clamp(1, 19));
                    }
                })
                .enable_all()
                .build()
        });
        let runtime = runtime.transpose().map_err(BuildError::Thread)?;
        let shared = Shared {
            clock: Clock { base: tokio::time::Instant::now() },
            between: self.between,
            long_poll: self.long_poll,
            reactor: self.reactor,
            beside: runtime.as_ref().map(|runtime| runtime.handle().clone()),
            beside_runtime: Mutex::new(runtime),
            groups: Mutex::default(),
            root: OnceLock::new(),
            is_watched: AtomicBool::new(false),
        };
        let root = Group { state: Arc::new(GroupState::new("/".to_owned(), None, Arc::new(shared))) };
        let _ = root.state.shared.root.set(Arc::downgrade(&root.state));
        Ok(Runtime { root })
    }
}

/// The root of the groups. It is no executor: futures run on the tokio runtime that polls them.
#[derive(Clone, Debug)]
pub struct Runtime {
    root: Group,
}

impl Runtime {
    /// Returns the root group. It has no weight and no limit; futures in it are counted.
    #[must_use]
    pub const fn root(&self) -> &Group {
        &self.root
    }

    /// Starts building a group below the root.
    pub fn group(&self, name: impl Into<String>) -> GroupBuilder {
        self.root.group(name)
    }

    /// Starts a task in the root group.
    ///
    /// # Errors
    /// There is no tokio runtime ([`Builder::reactor`]).
    #[track_caller]
    pub fn spawn<F>(&self, future: F) -> Result<JoinHandle<F::Output>, SpawnError>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.root.spawn(future)
    }

    /// Returns the live groups by path; the first one is the root, `/`. O(groups).
    #[must_use]
    pub fn groups(&self) -> Vec<(String, Group)> {
        let groups = self.root.state.shared.live().into_iter().map(|state| Group { state });
        let mut groups: Vec<_> = groups.map(|group| (group.path(), group)).collect();
        groups.push(("/".to_owned(), self.root.clone()));
        groups.sort_by(|(one, _), (other, _)| one.cmp(other));
        groups
    }

    /// Returns the usage of the live groups by path. O(groups).
    #[must_use]
    pub fn usage(&self) -> Vec<(String, Usage)> {
        self.groups().into_iter().map(|(path, group)| (path, group.usage())).collect()
    }
}

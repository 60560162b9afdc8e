//! What a runtime tells its users: tasks ([`TaskInfo`]), polls that were too long ([`Overrun`]),
//! and the functions of the user that are told ([`Hooks`]).

use std::fmt;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::sync::Arc;
use std::time::Duration;
use zerolag_model::TaskId;

/// A task, for people.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TaskInfo {
    /// Its id in traces. Ids of ended tasks are reused.
    pub id: TaskId,
    /// Its name; empty without [`TaskBuilder::name`](crate::TaskBuilder::name).
    pub name: Arc<str>,
    /// The path of its group, `/` for the root.
    pub group: String,
    /// The place in the source that started it.
    pub spawned_at: &'static Location<'static>,
    /// Its state.
    pub state: TaskState,
}

impl fmt::Display for TaskInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = if self.name.is_empty() { "without a name" } else { &*self.name };
        write!(f, "task {} ({name}) of {}, started at {}, {}", self.id.0, self.group, self.spawned_at, self.state)
    }
}

/// The state of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum TaskState {
    /// A poll of it is in progress.
    Polled,
    /// It waits for a CPU, or for the quota of its group.
    Runnable,
    /// It waits for a wakeup.
    Asleep,
}

impl fmt::Display for TaskState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Polled => "in a poll",
            Self::Runnable => "waiting for a CPU",
            Self::Asleep => "asleep",
        })
    }
}

/// A poll that was longer than allowed.
///
/// `from` and `to` are calls of [`checkpoint`](crate::checkpoint),
/// [`should_yield`](crate::should_yield), [`yield_now`](crate::yield_now), [`sleep`](crate::sleep),
/// [`timeout`](crate::timeout), [`Interval::tick`](crate::Interval::tick) or
/// [`Mutex::lock`](crate::Mutex::lock) that the poll passed. Code that calls none of them, such as
/// a handler that awaits nothing but tokio's types, is known by its future and by the name of its
/// task: below `GroupLayer` `task` can name it after the route.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Overrun {
    /// The task that was polled.
    pub task: TaskInfo,
    /// The type of its future, with the path of the function that made it.
    pub future: &'static str,
    /// The last such call before the poll became too long; `None` if there was none in the poll.
    pub from: Option<&'static Location<'static>>,
    /// The next such call; `None` if the poll ended without one.
    pub to: Option<&'static Location<'static>>,
    /// The real time from the start of the poll to its end.
    pub length: Duration,
}

impl fmt::Display for Overrun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a poll of {:?}, ", self.length)?;
        match (self.from, self.to) {
            (None, None) => write!(f, "in {}", self.future)?,
            (Some(from), None) => write!(f, "after {from}")?,
            (None, Some(to)) => write!(f, "before {to}")?,
            (Some(from), Some(to)) => write!(f, "between {from} and {to}")?,
        }
        write!(f, ": {}", self.task)
    }
}

type OverrunHook = Arc<dyn Fn(&Overrun) + Send + Sync>;
type Hook = Arc<dyn Fn() + Send + Sync>;

/// The functions of the user that the runtime calls. None of them is called under a lock.
#[derive(Clone, Default)]
pub(crate) struct Hooks {
    pub(crate) thread_start: Option<Hook>,
    pub(crate) thread_stop: Option<Hook>,
    pub(crate) overrun: Option<(zerolag_model::Duration, OverrunHook)>,
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { thread_start, thread_stop, overrun } = self;
        f.debug_struct("Hooks")
            .field("thread_start", &thread_start.is_some())
            .field("thread_stop", &thread_stop.is_some())
            .field("overrun", &overrun.as_ref().map(|(after, _)| after))
            .finish()
    }
}

impl Hooks {
    /// Tells the user that a thread starts, and that it ends when the result is dropped. A panic of
    /// the function is dropped: no runtime can be asked, its engine can be gone.
    pub(crate) fn around_thread(&self) -> impl Drop + '_ {
        struct Stops<'a>(&'a Hooks);
        impl Drop for Stops<'_> {
            fn drop(&mut self) {
                call(self.0.thread_stop.as_ref());
            }
        }
        call(self.thread_start.as_ref());
        Stops(self)
    }
}

fn call(hook: Option<&Hook>) {
    if let Some(hook) = hook
        && let Err(with) = catch_unwind(AssertUnwindSafe(|| hook()))
    {
        // Dropping what a panic carries can panic as well.
        std::mem::forget(with);
    }
}

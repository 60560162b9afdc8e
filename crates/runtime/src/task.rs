//! [`Task`]: a future with its place in the scheduler, and [`JoinHandle`], which waits for its end.
//!
//! The body of a task (its parcel) is in one place; the host keeps track of it in [`Body`]:
//!
//! ```text
//!               placed [1]                leave(Block) [2]
//!    OnItsWay ------------> Queued ----------------------------> Parked (its parcel is here, from
//!        ^                   | ^  \                                |     the start); woken [4]
//!        |                   | |   \ leave(Block), its lag is owed v
//!        +-------------------+ |    +--------> Delayed -------> OnItsWay
//!        | displaced [3]       |  woken there [5] |  |
//!        |                     +------------------+  +-> Parked (its lag is paid)
//!        |      leave(Exit)
//!        +---- Dead <------- Queued
//! ```
//!
//! * \[2\] becomes visible to others only once the CPU has switched away from the task. Until then
//!   the task is leaving: the CPU owns it, and a waker only sets `is_notified`. Its lag can be paid
//!   before the switch has ended; then it is `Parked` and leaving.
//! * \[5\] and the transition from `Delayed` to `Parked` happen under the lock of the task's run
//!   queue. The lock of the body is taken inside that lock, never around it.
//! * A wakeup that finds the task neither `Parked` nor `Delayed` sets `is_notified` as well; the
//!   next poll clears it.
//! * A task that is about to block checks `is_notified` under both locks, and its CPU checks it
//!   again at \[2\], so no wakeup is lost.

use crate::boost::{Upkeep, settle};
use crate::coop;
use crate::engine::Engine;
use crate::group::GroupState;
use crate::mutex::Line;
use crate::report::TaskInfo;
use crate::set::AbortOnDrop;
use crate::sync::{AtomicBool, AtomicU32, Mutex};
use std::any::Any;
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Wake, Waker};
use zerolag_core::call::Place;
use zerolag_core::{Lent, most_urgent};
use zerolag_model::{ClassId, CpuId, Duration, Instant, Prio, RtPriority, TaskId};

/// The work of a task, including the delivery of its result to the handle.
pub(crate) type Job = Pin<Box<dyn Future<Output = ()> + Send>>;

#[derive(Debug)]
pub(crate) struct Body {
    pub(crate) at: Place,
    /// It was woken while it was not asleep.
    pub(crate) is_notified: bool,
    /// It has left for the scheduler, but its CPU has not switched away from it yet.
    pub(crate) is_leaving: bool,
    /// Its CPU was taken from it in the middle of a poll that still runs. The task cannot be woken
    /// before that poll ends.
    pub(crate) detached: Option<Detached>,
    /// The CPU time that it has used on a CPU that was no longer its own.
    pub(crate) debt: Duration,
    /// It has not been placed on a CPU yet.
    pub(crate) is_new: bool,
}

/// A poll that continues without a CPU of the scheduler.
#[derive(Debug)]
pub(crate) struct Detached {
    /// The time at which it lost its CPU.
    pub(crate) since: Instant,
    /// The thread, and its CPU time when the task left its CPU, if the kernel reports it.
    pub(crate) tid: rustix::thread::Pid,
    pub(crate) had: Option<Duration>,
    /// When the clock looks at the CPU time of the thread next.
    pub(crate) look_at: Instant,
    /// Whether the task has left its CPU for the scheduler as well.
    pub(crate) has_left: bool,
}

impl Body {
    pub(crate) const fn new(at: Place) -> Self {
        Self { at, is_notified: false, is_leaving: false, detached: None, debt: Duration::ZERO, is_new: true }
    }

    /// Returns whether it sleeps, and a wakeup has to place it.
    pub(crate) const fn sleeps(&self) -> bool {
        matches!(self.at, Place::Parked(_)) && !self.is_leaving && self.detached.is_none()
    }
}

pub(crate) struct Task {
    pub(crate) id: TaskId,
    pub(crate) name: Arc<str>,
    /// The place in the source that started it.
    pub(crate) spawned_at: &'static Location<'static>,
    pub(crate) engine: Arc<Engine>,
    pub(crate) group: Arc<GroupState>,
    pub(crate) body: Mutex<Body>,
    /// `None` during a poll, and once the future is done or dropped.
    pub(crate) job: Mutex<Option<Job>>,
    pub(crate) outcome: Arc<dyn Outcome>,
    pub(crate) is_aborted: AtomicBool,
    /// Its poll continues at nice 19: it gets no lock before the poll ends. Set under the locks of
    /// `body`, `held` and `waits_for`.
    pub(crate) is_slow: AtomicBool,
    /// It is a fair task by its own parameters.
    pub(crate) is_fair: bool,
    /// It is not allowed on all CPUs.
    pub(crate) is_bound: bool,
    /// It left its CPU in kernel mode since it is spared ([`spare`](crate::spare)).
    pub(crate) is_in_kernel: AtomicBool,
    /// It has borrowed a real-time priority since it is spared.
    pub(crate) is_lifted: AtomicBool,
    /// The CPU where it ran last. Threads outside the runtime wake it in the name of this CPU.
    pub(crate) last_cpu: AtomicU32,
    /// The locks that it holds and that others can wait for.
    pub(crate) held: Mutex<Vec<Arc<Line>>>,
    /// The locks that it waits for: several if it polls several futures.
    pub(crate) waits_for: Mutex<Vec<Arc<Line>>>,
    /// The loan that it has inherited.
    pub(crate) inherited: Mutex<Option<Lent>>,
    pub(crate) upkeep: Mutex<Upkeep>,
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task").field("id", &self.id).field("body", &self.body).finish_non_exhaustive()
    }
}

impl Task {
    pub(crate) fn is_in_kernel(&self) -> bool {
        self.is_in_kernel.load(Ordering::Relaxed)
    }

    /// Returns whether it runs in another class than its own.
    pub(crate) fn has_borrowed_class(&self) -> bool {
        self.is_fair && self.inherited.lock().is_some_and(|lent| lent.prio().class() != ClassId::Fair)
    }

    /// Returns whether it holds a lock.
    pub(crate) fn holds_locks(&self) -> bool {
        !self.held.lock().is_empty()
    }

    /// Returns the most urgent loan: of the waiters for its locks; a task that is aborted or lifted
    /// also gets the lowest real-time priority, so that no limit stops it.
    pub(crate) fn inherits(&self) -> Option<Lent> {
        let held = self.held.lock().clone();
        let is_hurried = self.is_aborted.load(Ordering::Acquire) || self.is_lifted.load(Ordering::Relaxed);
        let own = is_hurried.then_some(Lent::Prio(Prio::from_rt(RtPriority::MIN)));
        most_urgent(held.iter().filter_map(|lock| lock.most_urgent()).chain(own))
    }

    /// Drops the future.
    pub(crate) fn cancel(&self) {
        let job = self.job.lock().take();
        match catch_unwind(AssertUnwindSafe(|| drop(job))) {
            Ok(()) => self.outcome.fail(JoinError::Aborted),
            Err(with) => self.outcome.fail(JoinError::Panicked(with)),
        }
    }

    /// Asks for the end of the task: see [`JoinHandle::abort`].
    pub(crate) fn abort(self: &Arc<Self>) {
        self.is_aborted.store(true, Ordering::Release);
        settle([Arc::clone(self)]);
        self.engine.wake(self);
        self.engine.kick(self.cpu());
    }

    pub(crate) fn cpu(&self) -> CpuId {
        CpuId(self.last_cpu.load(Ordering::Relaxed))
    }
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.engine.wake(self);
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

/// The end of a task as its waiters see it, whatever the type of its result.
pub(crate) trait Outcome: Send + Sync {
    /// Sets an error as the result, if there is no result yet.
    fn fail(&self, error: JoinError);

    /// Announces that the task has ended and its place is free: wakes its waiter.
    fn announce(&self);
}

/// The result of a task on the way to its [`JoinHandle`].
pub(crate) struct Shared<T> {
    engine: Arc<Engine>,
    state: Mutex<State<T>>,
}

struct State<T> {
    result: Option<Result<T, JoinError>>,
    is_over: bool,
    /// The handle was dropped: results are dropped where they arise.
    is_unjoined: bool,
    waker: Option<Waker>,
    /// A task whose wakeup can be left to the end of a poll waits ([`Engine::wake`]).
    is_awaited_by_task: bool,
}

impl<T> Shared<T> {
    pub(crate) fn new(engine: &Arc<Engine>) -> Self {
        let state = State { result: None, is_over: false, is_unjoined: false, waker: None, is_awaited_by_task: false };
        Self { engine: Arc::clone(engine), state: Mutex::new(state) }
    }

    /// Sets the result; only the first one counts.
    ///
    /// It is announced once the task has left its CPU. A task that waits for it is woken before
    /// that, if the wakeup can be left to the end of this poll: then it runs next on this CPU,
    /// which does not idle in between. If it is polled too early, on another CPU, it waits again.
    pub(crate) fn set(&self, result: Result<T, JoinError>) {
        let can_wait = self.engine.can_postpone();
        let (surplus, waker) = {
            let mut state = self.state.lock();
            if state.is_over || state.is_unjoined || state.result.is_some() {
                (Some(result), None)
            } else {
                state.result = Some(result);
                (None, if can_wait && state.is_awaited_by_task { state.waker.take() } else { None })
            }
        };
        if let Some(waker) = waker {
            self.engine.contain(|| waker.wake());
        }
        if let Some(result) = surplus {
            self.discard(result);
        }
    }

    /// Drops a result that no handle will return. The value of a task is dropped in its last poll,
    /// which catches a panic.
    fn discard(&self, result: Result<T, JoinError>) {
        match result {
            Err(JoinError::Panicked(with)) => self.engine.note_panic(with),
            Ok(_) | Err(JoinError::Aborted) => {}
        }
    }
}

impl<T: Send> Outcome for Shared<T> {
    fn fail(&self, error: JoinError) {
        self.set(Err(error));
    }

    fn announce(&self) {
        let waker = {
            let mut state = self.state.lock();
            state.is_over = true;
            state.waker.take()
        };
        if let Some(waker) = waker {
            self.engine.contain(|| waker.wake());
        }
    }
}

/// A future of the result of a task. The task continues if the handle is dropped.
pub struct JoinHandle<T> {
    pub(crate) task: Arc<Task>,
    pub(crate) shared: Arc<Shared<T>>,
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle").field("task", &self.task.id).finish_non_exhaustive()
    }
}

impl<T> Drop for JoinHandle<T> {
    fn drop(&mut self) {
        let (result, waker) = {
            let mut state = self.shared.state.lock();
            state.is_unjoined = true;
            (state.result.take(), state.waker.take())
        };
        self.shared.engine.contain(|| drop(waker));
        if let Some(result) = result {
            self.shared.engine.contain(|| self.shared.discard(result));
        }
    }
}

impl<T> JoinHandle<T> {
    /// Drops the task's future when it is polled next, if it has not ended by then; its result is
    /// [`JoinError::Aborted`]. Until then it has the lowest real-time priority: the end of a task
    /// does not wait for the quota of its group. A poll in progress is asked to yield.
    pub fn abort(&self) {
        self.task.abort();
    }

    /// Makes a handle that aborts the task when it is dropped.
    pub const fn abort_on_drop(self) -> AbortOnDrop<T> {
        AbortOnDrop::new(self)
    }

    /// Returns the task as it is now: its name, its group, where it was started, its state.
    #[must_use]
    pub fn info(&self) -> TaskInfo {
        self.task.info()
    }

    /// Returns whether the task has ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.shared.state.lock().is_over
    }

    /// Returns the id of the task in traces. Ids of ended tasks are reused.
    #[must_use]
    pub fn id(&self) -> TaskId {
        self.task.id
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    /// # Panics
    /// If it is polled again after it was ready.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let waker = cx.waker().clone();
        let is_awaited_by_task = coop::polls_fair_task(&self.shared.engine);
        let _replaced = {
            let mut state = self.shared.state.lock();
            if state.is_over {
                return Poll::Ready(state.result.take().expect("the result of a task is taken once"));
            }
            state.is_awaited_by_task = is_awaited_by_task;
            state.waker.replace(waker)
        };
        Poll::Pending
    }
}

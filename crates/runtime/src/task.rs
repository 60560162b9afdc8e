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
use crate::job::{self, Job};
use crate::mutex::{Line, presses};
use crate::report::TaskInfo;
use crate::set::AbortOnDrop;
use crate::span::TaskSpan;
use crate::sync::{AtomicBool, AtomicU32, AtomicU64, Mutex, MutexGuard};
use futures_util::task::ArcWake;
use std::any::Any;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};
use zerolag_core::call::Place;
use zerolag_core::{Lent, Parcel, Placement, most_urgent};
use zerolag_model::{ClassId, CpuId, Duration, Instant, Prio, RtPriority, SchedAttr, TaskId};

#[derive(Debug)]
pub(crate) struct Body {
    pub(crate) at: Place,
    /// It was woken while it was not asleep.
    pub(crate) is_notified: bool,
    /// It has left for the scheduler, but its CPU has not switched away from it yet.
    pub(crate) is_leaving: bool,
    /// It has passed its turn on ([`relay`](crate::relay)): it is current for the scheduler, and
    /// asleep.
    pub(crate) is_relaying: bool,
    /// Its CPU was taken from it in the middle of a poll that still runs. The task cannot be woken
    /// before that poll ends.
    pub(crate) detached: Option<Box<Detached>>,
    /// It has not been placed on a CPU yet.
    pub(crate) is_new: bool,
    /// The waker of the task that waits for its end.
    waiter: Option<Waker>,
    /// A task whose wakeup can be left to the end of a poll waits ([`Engine::wake`]).
    is_awaited_by_task: bool,
    /// The job has the result, and the handle has not taken it.
    has_result: bool,
    /// The handle was dropped: results are dropped where they arise.
    is_unjoined: bool,
    /// The task has ended and its place is free.
    is_over: bool,
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
        Self {
            at,
            is_notified: false,
            is_leaving: false,
            is_relaying: false,
            detached: None,
            is_new: true,
            waiter: None,
            is_awaited_by_task: false,
            has_result: false,
            is_unjoined: false,
            is_over: false,
        }
    }

    /// Takes the parcel of a task that sleeps out, to place it. \[4\]
    pub(crate) fn take(&mut self) -> Option<(Parcel, Placement)> {
        if !self.sleeps() {
            return None;
        }
        let Place::Parked(parcel) = std::mem::replace(&mut self.at, Place::OnItsWay) else { return None };
        let is_new = std::mem::take(&mut self.is_new);
        self.is_notified = !is_new;
        Some((parcel, if is_new { Placement::Fork } else { Placement::Wakeup }))
    }

    /// Returns whether it sleeps, and a wakeup has to place it.
    pub(crate) const fn sleeps(&self) -> bool {
        matches!(self.at, Place::Parked(_)) && !self.is_leaving && self.detached.is_none()
    }
}

/// A task of the runtime. Servers have a hundred thousand that sleep, so what most tasks do without
/// is behind a pointer: names, spans, locks.
pub(crate) struct Task {
    pub(crate) id: TaskId,
    /// The place in the source that started it.
    pub(crate) spawned_at: &'static Location<'static>,
    pub(crate) group: Arc<GroupState>,
    pub(crate) body: Mutex<Body>,
    /// Locked during a poll. The lock of the body is taken inside this one, never around it.
    pub(crate) job: Mutex<Pin<Box<dyn Job>>>,
    pub(crate) is_aborted: AtomicBool,
    /// Its poll continues at nice 19: it gets no lock before the poll ends. Set under the locks of
    /// `body`, `held` and `waits_for`.
    pub(crate) is_slow: AtomicBool,
    pub(crate) kind: Kind,
    /// It is not allowed on all CPUs.
    pub(crate) is_bound: bool,
    /// A poll of it on the turn of another task was seen at two ticks; `false` again after a poll
    /// on its own turn that was seen at none.
    pub(crate) is_long: AtomicBool,
    /// It has inherited a loan: `inherited` is not `None`. Set under the lock of `inherited`.
    pub(crate) is_inheriting: AtomicBool,
    /// It left its CPU in kernel mode since it is spared ([`spare`](crate::spare)).
    pub(crate) is_in_kernel: AtomicBool,
    /// It has borrowed a real-time priority since it is spared.
    pub(crate) is_lifted: AtomicBool,
    /// The CPU where it ran last. Threads outside the runtime wake it in the name of this CPU.
    pub(crate) last_cpu: AtomicU32,
    /// Most tasks have none: no name, no lock, no subscriber that wants their span.
    more: OnceLock<Box<More>>,
}

/// What a task is by its own parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// A fair task of nice 0.
    Plain,
    /// Another fair task.
    Fair,
    /// A real-time task, or one with a reservation.
    Urgent,
}

impl Kind {
    fn of(attr: SchedAttr) -> Self {
        match attr.class() {
            ClassId::Fair if attr == SchedAttr::NORMAL => Self::Plain,
            ClassId::Fair => Self::Fair,
            // The runtime loads no scheduler: its tasks with that policy are fair ones.
            ClassId::Ext => Self::Fair,
            ClassId::Stop | ClassId::Deadline | ClassId::Rt | ClassId::Idle => Self::Urgent,
        }
    }

    pub(crate) fn is_fair(self) -> bool {
        self != Self::Urgent
    }
}

// Servers have a hundred thousand of them: a larger one needs a reason, and this line.
#[cfg(all(not(test), target_pointer_width = "64"))]
const _: () = assert!(size_of::<Task>() <= 128, "a task has become larger");

/// What few tasks have.
#[derive(Default)]
struct More {
    name: Arc<str>,
    span: TaskSpan,
    /// When it was woken, or its last poll ended, in nanoseconds; 0 once it is polled.
    ready_at: AtomicU64,
    /// The CPU time that it has used on a CPU that was no longer its own, in nanoseconds. It is
    /// charged when the task runs next.
    debt: AtomicU64,
    /// Other tasks are polled on its next turn before it. Written under the lock of `riders`.
    has_riders: AtomicBool,
    /// These tasks, in reverse.
    riders: Mutex<Vec<Arc<Task>>>,
    ties: Ties,
}

/// What a task has to do with locks.
#[derive(Default)]
pub(crate) struct Ties {
    /// The locks that it holds and that others can wait for.
    pub(crate) held: Mutex<Vec<Arc<Line>>>,
    /// The locks that it waits for: several if it polls several futures.
    pub(crate) waits_for: Mutex<Vec<Arc<Line>>>,
    /// The loan that it has inherited.
    pub(crate) inherited: Mutex<Option<Lent>>,
    pub(crate) upkeep: Mutex<Upkeep>,
}

/// A task that is about to be started.
pub(crate) struct NewTask {
    pub(crate) id: TaskId,
    pub(crate) name: Arc<str>,
    pub(crate) spawned_at: &'static Location<'static>,
    pub(crate) group: Arc<GroupState>,
    pub(crate) parcel: Parcel,
    pub(crate) job: Pin<Box<dyn Job>>,
    pub(crate) attr: SchedAttr,
    pub(crate) is_bound: bool,
    pub(crate) born_on: CpuId,
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task").field("id", &self.id).field("body", &self.body).finish_non_exhaustive()
    }
}

impl Task {
    pub(crate) fn new(new: NewTask) -> Self {
        let NewTask { id, name, spawned_at, group, parcel, job, attr, is_bound, born_on } = new;
        let span = TaskSpan::new(&name, &group, spawned_at);
        let more = OnceLock::new();
        if !name.is_empty() || !span.is_disabled() || group.engine.is_measuring {
            let _ = more.set(Box::new(More { name, span, ..More::default() }));
        }
        Self {
            id,
            spawned_at,
            group,
            body: Mutex::new(Body::new(Place::Parked(parcel))),
            job: Mutex::new(job),
            is_aborted: AtomicBool::new(false),
            is_slow: AtomicBool::new(false),
            kind: Kind::of(attr),
            is_bound,
            is_long: AtomicBool::new(false),
            is_inheriting: AtomicBool::new(false),
            is_in_kernel: AtomicBool::new(false),
            is_lifted: AtomicBool::new(false),
            last_cpu: AtomicU32::new(born_on.0),
            more,
        }
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.group.engine
    }

    pub(crate) fn name(&self) -> Arc<str> {
        self.more.get().map_or_else(Arc::default, |more| Arc::clone(&more.name))
    }

    /// Runs a poll, or the drop of the future, inside the span of the task.
    pub(crate) fn around<T>(&self, run: impl FnOnce() -> T) -> T {
        match self.more.get() {
            Some(more) => more.span.around(run),
            None => run(),
        }
    }

    pub(crate) fn ties(&self) -> &Ties {
        &self.more.get_or_init(Box::default).ties
    }

    /// Returns when it was woken or its last poll ended, in nanoseconds, or 0; `None` unless waits
    /// are counted.
    pub(crate) fn ready_at(&self) -> Option<&AtomicU64> {
        self.more.get().map(|more| &more.ready_at)
    }

    /// Adds to the CPU time that is charged when the task runs next.
    pub(crate) fn owe(&self, time: Duration) {
        if !time.is_zero() {
            self.more.get_or_init(Box::default).debt.fetch_add(time.as_nanos(), Ordering::Relaxed);
        }
    }

    /// Returns whether CPU time will be charged when the task runs next.
    pub(crate) fn owes(&self) -> bool {
        self.more.get().is_some_and(|more| more.debt.load(Ordering::Relaxed) > 0)
    }

    /// Returns the CPU time that is charged now.
    pub(crate) fn take_debt(&self) -> Duration {
        if !self.owes() {
            return Duration::ZERO;
        }
        Duration::from_nanos(self.more.get().map_or(0, |more| more.debt.swap(0, Ordering::Relaxed)))
    }

    /// Lets tasks ride on its next turn. The caller has its parcel and is about to place it, so it
    /// has none yet.
    pub(crate) fn carry(&self, mut riders: Vec<Arc<Self>>) {
        riders.reverse();
        let more = self.more.get_or_init(Box::default);
        let mut place = more.riders.lock();
        debug_assert!(place.is_empty(), "a task sleeps without riders");
        more.has_riders.store(!riders.is_empty(), Ordering::Release);
        *place = riders;
    }

    pub(crate) fn has_riders(&self) -> bool {
        self.more.get().is_some_and(|more| more.has_riders.load(Ordering::Acquire))
    }

    /// Takes the next rider.
    pub(crate) fn take_rider(&self) -> Option<Arc<Self>> {
        let more = self.more.get().filter(|more| more.has_riders.load(Ordering::Acquire))?;
        let mut riders = more.riders.lock();
        let rider = riders.pop();
        more.has_riders.store(!riders.is_empty(), Ordering::Release);
        rider
    }

    pub(crate) fn is_in_kernel(&self) -> bool {
        self.is_in_kernel.load(Ordering::Relaxed)
    }

    /// Returns whether it runs in another class than its own.
    pub(crate) fn has_borrowed_class(&self) -> bool {
        self.kind.is_fair()
            && self.is_inheriting.load(Ordering::Acquire)
            && self.ties().inherited.lock().is_some_and(|lent| lent.prio().class() != ClassId::Fair)
    }

    /// Returns whether it holds a lock.
    pub(crate) fn holds_locks(&self) -> bool {
        self.more.get().is_some_and(|more| !more.ties.held.lock().is_empty())
    }

    /// Returns the most urgent loan: of the waiters for its locks; a task that is aborted or lifted
    /// also gets the lowest real-time priority, so that no limit stops it.
    pub(crate) fn inherits(&self) -> Option<Lent> {
        let held = self.ties().held.lock().clone();
        let is_hurried = self.is_aborted.load(Ordering::Acquire) || self.is_lifted.load(Ordering::Relaxed);
        let own = is_hurried.then_some(Lent::Prio(Prio::from_rt(RtPriority::MIN)));
        let inherits = most_urgent(held.iter().filter_map(|lock| lock.most_urgent()).chain(own));
        // A loan counts only if it is more urgent than the task itself.
        inherits.filter(|lent| self.kind != Kind::Plain || presses(*lent))
    }

    /// Drops the future, if there is one.
    pub(crate) fn cancel(&self) {
        let job = self.job.lock();
        if job.is_running() {
            let dropped =
                |dropped: std::thread::Result<()>| dropped.map_or_else(JoinError::Panicked, |()| JoinError::Aborted);
            self.fail(job, dropped);
        }
    }

    /// Polls the future; returns whether the task is over. It has its result then.
    pub(crate) fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut job = self.job.lock();
        if !job.is_running() {
            return Poll::Ready(());
        }
        match catch_unwind(AssertUnwindSafe(|| self.around(|| job.as_mut().poll(cx)))) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(())) => {}
            Err(with) => {
                // The destructors can panic as well; of two panics the first is the one that is
                // reported.
                self.fail(job, |dropped| {
                    dropped.unwrap_or_else(|again| self.engine().note_panic(again));
                    JoinError::Panicked(with)
                });
                return Poll::Ready(());
            }
        }
        self.deliver(job);
        Poll::Ready(())
    }

    /// Drops the future without the lock, and makes an error the result of the task.
    fn fail(
        &self,
        mut locked: MutexGuard<'_, Pin<Box<dyn Job>>>,
        error: impl FnOnce(std::thread::Result<()>) -> JoinError,
    ) {
        let mut job = job::take_out(&mut locked);
        drop(locked);
        let dropped = catch_unwind(AssertUnwindSafe(|| self.around(|| job.as_mut().cancel())));
        job.as_mut().fail(error(dropped));
        let mut locked = self.job.lock();
        *locked = job;
        self.deliver(locked);
    }

    /// Tells the handle of the result, which the job has.
    ///
    /// It is announced once the task has left its CPU. A task that waits for it is woken before
    /// that, if the wakeup can be left to the end of this poll: then it runs next on this CPU,
    /// which does not idle in between. If it is polled too early, on another CPU, it waits again.
    fn deliver(&self, mut job: MutexGuard<'_, Pin<Box<dyn Job>>>) {
        let can_wait = self.engine().can_postpone();
        let (is_wanted, waiter) = {
            let mut body = self.body.lock();
            debug_assert!(!body.has_result && !body.is_over, "a task has one result");
            body.has_result = !body.is_unjoined;
            let is_due = body.has_result && can_wait && body.is_awaited_by_task;
            (body.has_result, if is_due { body.waiter.take() } else { None })
        };
        let unwanted = (!is_wanted).then(|| job::take_out(&mut job));
        drop(job);
        if let Some(mut job) = unwanted {
            self.engine().contain(|| job.as_mut().discard(self.engine()));
        }
        if let Some(waiter) = waiter {
            self.engine().contain(|| waiter.wake());
        }
    }

    /// Announces that the task has ended and its place is free: wakes its waiter.
    pub(crate) fn announce(&self) {
        let waiter = {
            let mut body = self.body.lock();
            body.is_over = true;
            body.waiter.take()
        };
        if let Some(waiter) = waiter {
            self.engine().contain(|| waiter.wake());
        }
    }

    /// Asks for the end of the task: see [`JoinHandle::abort`].
    pub(crate) fn abort(self: &Arc<Self>) {
        self.is_aborted.store(true, Ordering::Release);
        settle([Arc::clone(self)]);
        self.engine().wake(self);
        self.engine().kick(self.cpu());
    }

    pub(crate) fn cpu(&self) -> CpuId {
        CpuId(self.last_cpu.load(Ordering::Relaxed))
    }
}

/// Not `std::task::Wake`: a poll borrows its waker from the task, and counts no reference.
impl ArcWake for Task {
    fn wake_by_ref(task: &Arc<Self>) {
        task.engine().wake(task);
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

/// A future of the result of a task. The task continues if the handle is dropped.
pub struct JoinHandle<T> {
    pub(crate) task: Arc<Task>,
    result: PhantomData<fn() -> T>,
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle").field("task", &self.task.id).finish_non_exhaustive()
    }
}

impl<T> Drop for JoinHandle<T> {
    fn drop(&mut self) {
        let task = &self.task;
        let (has_result, waiter) = {
            let mut body = task.body.lock();
            body.is_unjoined = true;
            (std::mem::take(&mut body.has_result), body.waiter.take())
        };
        task.engine().contain(|| drop(waiter));
        if has_result {
            let mut job = job::take_out(&mut task.job.lock());
            task.engine().contain(|| job.as_mut().discard(task.engine()));
        }
    }
}

impl<T> JoinHandle<T> {
    pub(crate) const fn new(task: Arc<Task>) -> Self {
        Self { task, result: PhantomData }
    }

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
        self.task.body.lock().is_over
    }

    /// Returns the id of the task in traces. Ids of ended tasks are reused.
    #[must_use]
    pub fn id(&self) -> TaskId {
        self.task.id
    }
}

impl<T: 'static> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    /// # Panics
    /// If it is polled again after it was ready.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let waker = cx.waker().clone();
        let is_awaited_by_task = coop::polls_fair_task(self.task.engine());
        let _replaced = {
            let mut body = self.task.body.lock();
            if !body.is_over {
                body.is_awaited_by_task = is_awaited_by_task;
                body.waiter.replace(waker)
            } else {
                body.has_result = false;
                drop(body);
                let (mut job, mut result) = (job::take_out(&mut self.task.job.lock()), None::<Self::Output>);
                job.as_mut().take(&mut result);
                return Poll::Ready(result.expect("the result of a task is taken once"));
            }
        };
        Poll::Pending
    }
}

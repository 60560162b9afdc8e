//! Cooperation: [`checkpoint`] and [`yield_now`], and the thread-local link from a thread to its
//! CPU.

use crate::marks::{Marks, Pair, Signals, Site};
use crate::state::engine::Engine;
use crate::state::group::GroupState;
use crate::state::task::Task;
use crate::sync::AtomicBool;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};
use zerolag_core::Leave;
use zerolag_model::CpuId;

/// The CPU of a thread.
struct ThisCpu {
    engine: Arc<Engine>,
    cpu: CpuId,
    is_kicked: Arc<AtomicBool>,
    signals: Arc<Signals>,
    marks: Marks,
    task: RefCell<Option<Arc<Task>>>,
    /// The poll has left a wakeup to its end.
    has_postponed: Cell<bool>,
}

crate::sync::thread_local! {
    static THIS_CPU: RefCell<Option<ThisCpu>> = const { RefCell::new(None) };
    /// The runtime whose `block_on` this thread is in, and the waker of the call.
    static BLOCK_ON: RefCell<Option<(Arc<Engine>, Option<Waker>)>> = const { RefCell::new(None) };
    /// The group in whose name this thread runs code that is no poll.
    static WITHIN: RefCell<Option<Arc<GroupState>>> = const { RefCell::new(None) };
    /// The runtime that started this thread ([`join_runtime`]).
    static OWNER: Cell<Option<usize>> = const { Cell::new(None) };
    /// This thread was slowed down for good.
    static IS_SLOWED: Cell<bool> = const { Cell::new(false) };
    /// The wakeups that this thread gathers, to make them together.
    static GATHERED: RefCell<Option<Vec<Arc<Task>>>> = const { RefCell::new(None) };
    /// How the task that returns from its poll leaves its CPU.
    static LEAVES_AS: Cell<Option<Leave>> = const { Cell::new(None) };
}

/// Makes this thread the thread of a CPU.
pub(crate) fn bind_cpu(engine: &Arc<Engine>, cpu: CpuId, signals: Arc<Signals>) {
    let is_kicked = Arc::clone(&engine.cpus[cpu.index()].is_kicked);
    let here = ThisCpu {
        engine: Arc::clone(engine),
        cpu,
        is_kicked,
        signals,
        marks: Marks::default(),
        task: RefCell::new(None),
        has_postponed: Cell::new(false),
    };
    THIS_CPU.with(|place| *place.borrow_mut() = Some(here));
}

/// Notes which runtime has started this thread.
pub(crate) fn join_runtime(owner: usize) {
    OWNER.with(|place| place.set(Some(owner)));
}

impl Engine {
    /// Returns whether this thread belongs to the runtime.
    pub(crate) fn owns_this_thread(&self) -> bool {
        owner() == Some(self.address())
    }
}

/// Runs a function on a thread of the runtime, and returns the tasks of the runtime that it woke
/// and that [`gather`] has taken: they are still to be woken.
pub(crate) fn gathering(run: impl FnOnce()) -> Vec<Arc<Task>> {
    GATHERED.with(|place| *place.borrow_mut() = Some(Vec::new()));
    run();
    GATHERED.with(|place| place.borrow_mut().take()).unwrap_or_default()
}

/// Adds a wakeup to those that this thread gathers; returns whether it does.
pub(crate) fn gather(task: &Arc<Task>) -> bool {
    let add = |gathered: &RefCell<Option<Vec<Arc<Task>>>>| match &mut *gathered.borrow_mut() {
        Some(tasks) if task.engine().owns_this_thread() => {
            tasks.push(Arc::clone(task));
            true
        }
        Some(_) | None => false,
    };
    GATHERED.try_with(add).unwrap_or(false)
}

/// Notes that this thread has nice 19 and serves no further CPU.
pub(crate) fn note_slowed() {
    IS_SLOWED.with(|place| place.set(true));
}

pub(crate) fn is_slowed() -> bool {
    IS_SLOWED.with(Cell::get)
}

pub(crate) fn owner() -> Option<usize> {
    OWNER.try_with(Cell::get).ok().flatten()
}

pub(crate) fn unbind_cpu() {
    THIS_CPU.with(|place| *place.borrow_mut() = None);
}

/// Returns the CPU of this thread.
pub(crate) fn current_cpu() -> Option<CpuId> {
    THIS_CPU.try_with(|here| here.borrow().as_ref().map(|here| here.cpu)).ok().flatten()
}

/// Returns whether this thread polls a task.
pub(crate) fn polls(task: &Arc<Task>) -> bool {
    let is_it = |here: &ThisCpu| here.task.borrow().as_ref().is_some_and(|polled| Arc::ptr_eq(polled, task));
    THIS_CPU.try_with(|here| here.borrow().as_ref().is_some_and(is_it)).unwrap_or(false)
}

/// Returns the CPU on which this thread polls a task of a runtime, unless it has lost the CPU.
pub(crate) fn polling_cpu(engine: &Arc<Engine>) -> Option<CpuId> {
    let is_ours = |here: &&ThisCpu| {
        Arc::ptr_eq(&here.engine, engine)
            && here.task.borrow().is_some()
            && !here.signals.is_lost.load(Ordering::Acquire)
    };
    THIS_CPU.try_with(|here| here.borrow().as_ref().filter(is_ours).map(|here| here.cpu)).ok().flatten()
}

/// Returns whether this thread polls a task of a runtime whose wakeup can be left to the end of a
/// poll.
pub(crate) fn polls_fair_task(engine: &Arc<Engine>) -> bool {
    let is_fair = |task: &Option<Arc<Task>>| task.as_ref().is_some_and(|task| task.kind.is_fair() && !task.is_bound());
    let is_ours = |here: &ThisCpu| Arc::ptr_eq(&here.engine, engine) && is_fair(&here.task.borrow());
    THIS_CPU.try_with(|here| here.borrow().as_ref().is_some_and(is_ours)).unwrap_or(false)
}

/// Notes that the poll on this thread has left a wakeup to its end.
pub(crate) fn note_postponed() {
    THIS_CPU.with(|here| {
        if let Some(here) = &*here.borrow() {
            here.has_postponed.set(true);
        }
    });
}

/// Returns whether the poll that has ended on this thread has left a wakeup; once.
pub(crate) fn take_postponed() -> bool {
    THIS_CPU.with(|here| here.borrow().as_ref().is_some_and(|here| here.has_postponed.take()))
}

/// Returns the task that this thread is polling.
pub(crate) fn current_task() -> Option<Arc<Task>> {
    THIS_CPU.try_with(|here| here.borrow().as_ref().and_then(|here| here.task.borrow().clone())).ok().flatten()
}

/// Returns the runtime that this thread belongs to, or waits in.
pub(crate) fn current_engine() -> Option<Arc<Engine>> {
    let own = THIS_CPU.try_with(|here| here.borrow().as_ref().map(|here| Arc::clone(&here.engine))).ok().flatten();
    own.or_else(|| {
        BLOCK_ON.try_with(|within| within.borrow().as_ref().map(|(engine, _)| Arc::clone(engine))).ok().flatten()
    })
}

/// A thread outside the runtime waits for a future; the thread leaves it when this is dropped.
pub(crate) struct BlockOnScope(Option<(Arc<Engine>, Option<Waker>)>);

impl BlockOnScope {
    pub(crate) fn enter(engine: &Arc<Engine>, waker: Option<&Waker>) -> Self {
        Self(BLOCK_ON.with(|within| within.replace(Some((Arc::clone(engine), waker.cloned())))))
    }
}

impl Drop for BlockOnScope {
    fn drop(&mut self) {
        let before = self.0.take();
        let _ = BLOCK_ON.try_with(|within| within.replace(before));
    }
}

/// This thread runs code in the name of a group until this is dropped.
pub(crate) struct GroupScope(Option<Arc<GroupState>>);

impl GroupScope {
    pub(crate) fn enter(group: &Arc<GroupState>) -> Self {
        Self(WITHIN.with(|within| within.replace(Some(Arc::clone(group)))))
    }
}

impl Drop for GroupScope {
    fn drop(&mut self) {
        let before = self.0.take();
        let _ = WITHIN.try_with(|within| within.replace(before));
    }
}

/// Returns the group of the task that this thread polls, or of the code that it runs beside.
pub(crate) fn current_group() -> Option<Arc<GroupState>> {
    let polled = current_task().map(|task| Arc::clone(&task.group));
    polled.or_else(|| WITHIN.try_with(|within| within.borrow().clone()).ok().flatten())
}

/// Returns whether a waker is the one of the task that this thread polls, or of its `block_on`. The
/// address of the task is compared, as there can be several tables of one type's functions.
pub(crate) fn is_own_waker(waker: &Waker) -> bool {
    let is_its = |task: &Arc<Task>| std::ptr::addr_eq(Arc::as_ptr(task), waker.data());
    let is_polled = |here: &ThisCpu| here.task.borrow().as_ref().is_some_and(is_its);
    let is_waiting =
        |within: &(Arc<Engine>, Option<Waker>)| within.1.as_ref().is_some_and(|own| own.data() == waker.data());
    THIS_CPU.try_with(|here| here.borrow().as_ref().is_some_and(is_polled)).unwrap_or(false)
        || BLOCK_ON.try_with(|within| within.borrow().as_ref().is_some_and(is_waiting)).unwrap_or(false)
}

/// Marks the start of a poll on this thread.
pub(crate) fn begin(task: Arc<Task>) {
    LEAVES_AS.with(|place| place.set(None));
    THIS_CPU.with(|here| {
        here.borrow().as_ref().and_then(|here| {
            here.marks.begin();
            here.task.replace(Some(task))
        })
    });
}

/// Marks its end.
pub(crate) fn end() {
    THIS_CPU.with(|here| here.borrow().as_ref().and_then(|here| here.task.take()));
}

/// The poll on this thread passes a place in the source.
pub(crate) fn mark(site: Site) {
    let pass = |here: &ThisCpu| here.marks.pass(site, &here.signals);
    let _ = THIS_CPU.try_with(|here| here.borrow().as_ref().map(pass));
}

/// Returns the places between which the poll that has ended on this thread became too long.
pub(crate) fn long_between() -> Pair {
    THIS_CPU.with(|here| here.borrow().as_ref().map(|here| here.marks.of_long_poll()).unwrap_or_default())
}

/// Takes how the polled task asked to leave its CPU; `None` if it did not ask.
pub(crate) fn take_leave() -> Option<Leave> {
    LEAVES_AS.with(Cell::take)
}

/// Returns whether the calling task is asked to yield its CPU. Costs three relaxed loads; `false`
/// outside the tasks of a runtime.
///
/// It is for loops that compute and cannot `await`: they can end early, or return a part of their
/// work. Reports of long polls name the calls around the slow code ([`Overrun`](crate::Overrun)).
#[must_use]
#[track_caller]
pub fn should_yield() -> bool {
    should_yield_at(Location::caller())
}

fn should_yield_at(site: Site) -> bool {
    let is_asked = |here: &ThisCpu| {
        here.marks.pass(site, &here.signals);
        here.is_kicked.load(Ordering::Relaxed) || here.signals.is_lost.load(Ordering::Relaxed)
    };
    THIS_CPU.try_with(|here| here.borrow().as_ref().is_some_and(is_asked)).unwrap_or(false)
}

/// Yields the CPU if a more urgent task waits for it or the time slice is used up; otherwise
/// continues at once.
///
/// A task that computes for a long time has to call it every few hundred microseconds: only there
/// can it be preempted. It keeps its place among the other tasks ([`Leave::Preempted`]).
#[track_caller]
pub fn checkpoint() -> impl Future<Output = ()> + Send + Sync + Unpin {
    YieldOnce { how: Leave::Preempted, site: Location::caller(), has_left: false }
}

/// Yields the CPU to other tasks of the same class and group, as `sched_yield` does.
#[track_caller]
pub fn yield_now() -> impl Future<Output = ()> + Send + Sync + Unpin {
    YieldOnce { how: Leave::Yield, site: Location::caller(), has_left: false }
}

/// A future that is pending once, unless it is a checkpoint at which nothing is asked.
#[must_use = "a task yields when it awaits this"]
struct YieldOnce {
    how: Leave,
    site: Site,
    has_left: bool,
}

impl Future for YieldOnce {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let is_asked = should_yield_at(self.site);
        if self.has_left || self.how == Leave::Preempted && !is_asked {
            return Poll::Ready(());
        }
        self.has_left = true;
        LEAVES_AS.with(|place| place.set(Some(self.how)));
        // A combinator between this future and the task can wait for its own wakeup.
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

//! What a task does for the others: [`checkpoint`] and [`yield_now`]; and what a thread knows of
//! the CPU that it is.

use crate::engine::Engine;
use crate::task::Task;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use zerolag_core::Leave;
use zerolag_model::CpuId;

/// The CPU that a thread is.
struct Here {
    engine: Arc<Engine>,
    cpu: CpuId,
    is_kicked: Arc<AtomicBool>,
    /// The CPU is another thread's now.
    is_lost: Arc<AtomicBool>,
    task: RefCell<Option<Arc<Task>>>,
}

thread_local! {
    static HERE: RefCell<Option<Here>> = const { RefCell::new(None) };
    /// How the task that returns from its poll wants to leave.
    static GIVES: Cell<Option<Leave>> = const { Cell::new(None) };
}

/// Makes this thread a CPU, or none.
pub(crate) fn sit_down(engine: &Arc<Engine>, cpu: CpuId, is_lost: Arc<AtomicBool>) {
    let is_kicked = Arc::clone(&engine.cpus[cpu.index()].is_kicked);
    let here = Here { engine: Arc::clone(engine), cpu, is_kicked, is_lost, task: RefCell::new(None) };
    HERE.with(|place| *place.borrow_mut() = Some(here));
}

pub(crate) fn stand_up() {
    HERE.with(|place| *place.borrow_mut() = None);
}

/// Returns the CPU that this thread is.
pub(crate) fn current_cpu() -> Option<CpuId> {
    HERE.try_with(|here| here.borrow().as_ref().map(|here| here.cpu)).ok().flatten()
}

/// Returns the task that this thread polls.
pub(crate) fn current_task() -> Option<Arc<Task>> {
    HERE.try_with(|here| here.borrow().as_ref().and_then(|here| here.task.borrow().clone())).ok().flatten()
}

/// Returns the runtime that this thread belongs to.
pub(crate) fn current_engine() -> Option<Arc<Engine>> {
    HERE.try_with(|here| here.borrow().as_ref().map(|here| Arc::clone(&here.engine))).ok().flatten()
}

/// A poll of a task begins on this thread.
pub(crate) fn begin(task: Arc<Task>) {
    GIVES.set(None);
    HERE.with(|here| here.borrow().as_ref().and_then(|here| here.task.replace(Some(task))));
}

/// It has ended.
pub(crate) fn end() {
    HERE.with(|here| here.borrow().as_ref().and_then(|here| here.task.take()));
}

/// Takes how the task that returned from its poll wants to leave, if it said so.
pub(crate) fn take_gives() -> Option<Leave> {
    GIVES.take()
}

/// Returns whether the task that calls is asked to give its CPU up. Two relaxed loads; `false`
/// outside of a runtime's tasks.
///
/// For loops that compute and cannot `await`: they can end their work early, or hand a part of it
/// back.
#[must_use]
pub fn should_yield() -> bool {
    let is_asked = |here: &Here| here.is_kicked.load(Ordering::Relaxed) || here.is_lost.load(Ordering::Relaxed);
    HERE.try_with(|here| here.borrow().as_ref().is_some_and(is_asked)).unwrap_or(false)
}

/// Gives the CPU up if something more urgent waits for it, or the turn is over; goes on at once
/// otherwise.
///
/// A task that computes for long calls this every few hundred microseconds: it is where it can be
/// preempted. Its place among the others is kept ([`Leave::Preempted`]).
pub async fn checkpoint() {
    if should_yield() {
        Give(Some(Leave::Preempted)).await;
    }
}

/// Gives the CPU to others of the same class and group, as `sched_yield` does.
pub async fn yield_now() {
    Give(Some(Leave::Yield)).await;
}

/// Is pending once.
struct Give(Option<Leave>);

impl Future for Give {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        match self.0.take() {
            Some(how) => {
                GIVES.set(Some(how));
                // Whoever is between this and the task may wait for its own wakeup.
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            None => Poll::Ready(()),
        }
    }
}

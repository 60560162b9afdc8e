//! Wakes another worker of tokio before a long poll, so that one waits for sockets and timers.
//!
//! A worker of tokio that is woken by the driver (I/O or a timer) and finds one task runs it
//! without waking another worker, and none polls the driver until that poll ends: here all requests
//! stood still for 50 ms although the second worker slept. tokio wakes a worker for work that
//! can be stolen, which the last task that was woken here is not. So two that do nothing are
//! woken: one is stolen, and its worker goes to sleep on the driver. A runtime with one thread
//! has no other. `block_in_place` would do the same, but panics there and in a `LocalSet`.
//!
//! Each thread has two such tasks, from its first long poll on. Two new ones for each poll did the
//! same, but filled the list of tasks of tokio-console.
//!
//! Source: tokio 1.54 `runtime/scheduler/multi_thread/worker.rs`, `should_notify_others`,
//! `schedule_local`.

use std::cell::RefCell;
use std::future::poll_fn;
use std::sync::{Arc, OnceLock};
use std::task::{Poll, Waker};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::JoinHandle;

/// A task that does nothing whenever it is woken.
struct Idle {
    task: JoinHandle<()>,
    /// That of the task, once it has been polled. Until then it waits to be polled, and needs none.
    waker: Arc<OnceLock<Waker>>,
}

impl Idle {
    fn start(runtime: &Handle) -> Self {
        let waker = Arc::new(OnceLock::new());
        let own = Arc::clone(&waker);
        let task = runtime.spawn(poll_fn(move |cx| {
            own.get_or_init(|| cx.waker().clone());
            Poll::<()>::Pending
        }));
        Self { task, waker }
    }
}

thread_local! {
    static IDLE: RefCell<Option<[Idle; 2]>> = const { RefCell::new(None) };
}

/// A long poll begins on this thread: wakes another worker of its runtime.
#[cold]
pub(crate) fn ring() {
    let Ok(runtime) = Handle::try_current() else { return };
    if runtime.runtime_flavor() != RuntimeFlavor::MultiThread {
        return;
    }
    // A thread that is about to end has no tasks any more, and needs no other worker.
    let _ = IDLE.try_with(|idle| {
        let mut idle = idle.borrow_mut();
        match &*idle {
            Some(both) if both.iter().all(|one| !one.task.is_finished()) => {
                both.iter().filter_map(|one| one.waker.get()).for_each(Waker::wake_by_ref);
            }
            // The first long poll here, or the runtime that had them has ended.
            _ => *idle = Some([Idle::start(&runtime), Idle::start(&runtime)]),
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::runtime::{Builder, Runtime};

    fn ids() -> Option<[tokio::task::Id; 2]> {
        IDLE.with(|idle| idle.borrow().as_ref().map(|both| [both[0].task.id(), both[1].task.id()]))
    }

    fn runtime() -> Runtime {
        Builder::new_multi_thread().worker_threads(2).build().expect("two threads")
    }

    /// New ones would fill the list of a console.
    #[test]
    fn a_thread_wakes_the_same_two_tasks() {
        let runtime = runtime();
        let before_and_after = runtime.spawn(async {
            ring();
            let before = ids().expect("this runtime has several threads");
            for _ in 0..50 {
                ring();
            }
            (before, ids().expect("they are kept"))
        });
        let (before, after) = runtime.block_on(before_and_after).expect("no panic");
        assert_eq!(before, after);
    }

    #[test]
    fn those_of_a_runtime_that_has_ended_are_replaced() {
        let in_one = || runtime().block_on(async { (ring(), ids().expect("it has several threads")).1 });
        assert_ne!(in_one(), in_one());
    }

    #[test]
    fn a_runtime_of_one_thread_has_none() {
        Builder::new_current_thread().build().expect("no thread").block_on(async { ring() });
        ring();
        assert_eq!(ids(), None);
    }
}

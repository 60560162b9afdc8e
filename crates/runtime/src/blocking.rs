//! [`Blocking`]: threads for functions that block or compute, at the expense of their groups.
//!
//! Such a function is a task of its group. When the scheduler first picks the task, the group has
//! quota and it is the group's turn; then the function gets a thread beside the CPUs \[2\]. The CPU
//! time that it uses there becomes a debt of the group: at ticks while it runs, and at its end. The
//! next tasks of the group pay, and the task itself before it returns the result. So a function
//! cannot be stopped in the middle, but a group that used its quota in one starts no other.
//!
//! ```text
//!              polled first [1]         gets a thread [2]           returns [3]
//!    Waiting ------------------> Queued -----------------> Running -------------> Done --> taken
//!                                   |                         |
//!                                   +-- future dropped [4] ---+--> Dropped
//! ```
//!
//! The number of threads is bounded. Of the functions in the queue the first one of the group with
//! the fewest running functions gets the next thread, so one group does not keep the others out.
//!
//! A thread that has used [`SLOW_AFTER`] in one function competes with the CPUs of the scheduler
//! for the processors: it gets nice 19, as a poll that has lost its CPU does, and ends with the
//! function.

use crate::coop;
use crate::meter::{ThreadClock, own_cpu_time};
use crate::patience::{SLOW_AFTER, slow};
use crate::state::blocking::{Blocking, BlockingJob, QueuedCall, RunningCall};
use crate::state::engine::Engine;
use crate::state::group::GroupState;
use crate::sync::Mutex;
use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration as StdDuration;
use zerolag_model::{CpuId, Duration};

/// A thread without work ends after this time.
const IDLE: StdDuration = StdDuration::from_secs(5);

/// The CPU time between two charges of a running function.
const CHARGE_AGAIN: Duration = Duration::from_millis(5);

impl Engine {
    /// Charges the running functions, and slows long ones down. Called at ticks. Returns whether
    /// there are any.
    pub(crate) fn charge_blocking(&self) -> bool {
        let mut state = self.blocking.state.lock();
        for one in &mut state.running {
            let Some(used) = ThreadClock::of(one.tid).read() else { continue };
            if one.charged.is_some_and(|charged| used.saturating_sub(charged) >= CHARGE_AGAIN) {
                pay(one, used);
            }
            if !one.is_slow && one.began.is_some_and(|began| used.saturating_sub(began) >= SLOW_AFTER) {
                one.is_slow = true;
                slow(one.tid);
            }
        }
        !state.running.is_empty()
    }
}

/// Charges the group of a running function for the CPU time up to `used`.
fn pay(running: &mut RunningCall<GroupState>, used: Duration) {
    let took = used.saturating_sub(running.charged.replace(used).unwrap_or(used));
    running.group.charge(CpuId(0), took);
}

impl Engine {
    /// Gives a function to the threads. Without any thread that could run it, it runs here.
    fn submit(self: &Arc<Self>, group: Arc<GroupState>, job: Arc<dyn BlockingJob>) {
        let blocking = &self.blocking;
        let is_to_start = {
            let mut state = blocking.state.lock();
            if state.is_closed {
                return;
            }
            state.queue.push(QueuedCall { group, job });
            let is_to_start = state.idle < state.queue.len() && state.threads < blocking.threads_max;
            state.threads += usize::from(is_to_start);
            is_to_start
        };
        blocking.changed.notify_one();
        if !is_to_start {
            return;
        }
        let engine = Arc::clone(self);
        if self.start("zerolag-blocking".to_owned(), move || serve(&engine)).is_err() {
            let alone = {
                let mut state = blocking.state.lock();
                state.threads -= 1;
                if state.threads == 0 { std::mem::take(&mut state.queue) } else { Vec::new() }
            };
            alone.iter().for_each(|queued| queued.job.run());
        }
    }
}

/// Runs functions until there are none, or the thread is slow.
fn serve(engine: &Arc<Engine>) {
    let _within = coop::BlockOnScope::enter(engine);
    let Blocking { state, changed, .. } = &engine.blocking;
    let tid = rustix::thread::gettid();
    let mut is_over = false;
    // The CPU time of this thread up to which groups were charged.
    let mut charged = ThreadClock::own().read().map(|_| Duration::ZERO);
    loop {
        let QueuedCall { group, job } = {
            let mut state = state.lock();
            let queued = loop {
                if let Some(queued) = state.take() {
                    break Some(queued);
                }
                if state.is_closed || is_over {
                    break None;
                }
                state.idle += 1;
                is_over = changed.wait_for(&mut state, IDLE).timed_out();
                state.idle -= 1;
            };
            let Some(queued) = queued else {
                state.threads -= 1;
                return;
            };
            let had = ThreadClock::own().read();
            let group = Arc::clone(&queued.group);
            // The way out of the queue is charged as well.
            let charged = charged.or(had);
            state.running.push(RunningCall { group, tid, charged, began: had, is_slow: false });
            queued
        };
        engine.timeline.begin_ticks();
        is_over = false;
        job.run(); // [2]
        let is_slow = {
            let mut state = state.lock();
            let place = state.running.iter().position(|one| one.tid == tid && Arc::ptr_eq(&one.group, &group));
            let mut one = state.running.swap_remove(place.expect("invariant: a running function is in the list"));
            pay(&mut one, own_cpu_time());
            charged = one.charged;
            state.threads -= usize::from(one.is_slow);
            one.is_slow
        };
        engine.contain(|| job.announce()); // [3]
        drop((job, group));
        if is_slow {
            return;
        }
    }
}

enum CallStage<F, T> {
    Queued(F),
    Running,
    Done(Result<T, Box<dyn Any + Send>>),
    Dropped,
}

struct Cell<F, T> {
    engine: Arc<Engine>,
    stage: Mutex<(CallStage<F, T>, Option<Waker>)>,
}

impl<F: FnOnce() -> T + Send, T: Send> BlockingJob for Cell<F, T> {
    fn run(&self) {
        let run = {
            let mut stage = self.stage.lock();
            if !matches!(stage.0, CallStage::Queued(_)) {
                return;
            }
            let CallStage::Queued(run) = std::mem::replace(&mut stage.0, CallStage::Running) else { return };
            run
        };
        let result = catch_unwind(AssertUnwindSafe(run));
        let unwanted = {
            let mut stage = self.stage.lock();
            if matches!(stage.0, CallStage::Running) {
                stage.0 = CallStage::Done(result);
                None
            } else {
                Some(result)
            }
        };
        match unwanted {
            Some(Err(with)) => self.engine.note_panic(with),
            Some(Ok(value)) => self.engine.contain(|| drop(value)),
            None => {}
        }
    }

    fn announce(&self) {
        let waker = self.stage.lock().1.take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// The future of the task in whose name a function runs.
pub(crate) struct Call<F: FnOnce() -> T + Send + 'static, T: Send + 'static> {
    group: Option<Arc<GroupState>>,
    cell: Arc<Cell<F, T>>,
}

impl<F: FnOnce() -> T + Send + 'static, T: Send + 'static> Call<F, T> {
    pub(crate) fn new(engine: &Arc<Engine>, group: &Arc<GroupState>, run: F) -> Self {
        let stage = Mutex::new((CallStage::Queued(run), None));
        Self { group: Some(Arc::clone(group)), cell: Arc::new(Cell { engine: Arc::clone(engine), stage }) }
    }
}

impl<F: FnOnce() -> T + Send + 'static, T: Send + 'static> Future for Call<F, T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let waker = cx.waker().clone();
        let _replaced = {
            let mut stage = self.cell.stage.lock();
            if matches!(stage.0, CallStage::Done(_)) {
                let CallStage::Done(result) = std::mem::replace(&mut stage.0, CallStage::Dropped) else {
                    unreachable!()
                };
                drop(stage);
                return Poll::Ready(result.unwrap_or_else(|with| resume_unwind(with)));
            }
            stage.1.replace(waker)
        };
        if let Some(group) = self.group.take() {
            let engine = Arc::clone(&self.cell.engine);
            engine.submit(group, Arc::clone(&self.cell) as _); // [1]
            // It can have run here.
            if matches!(self.cell.stage.lock().0, CallStage::Done(_)) {
                cx.waker().wake_by_ref();
            }
        }
        Poll::Pending
    }
}

impl<F: FnOnce() -> T + Send + 'static, T: Send + 'static> Drop for Call<F, T> {
    fn drop(&mut self) {
        // [4] The function, or its result, is dropped without the lock.
        let _unused = {
            let mut stage = self.cell.stage.lock();
            (std::mem::replace(&mut stage.0, CallStage::Dropped), stage.1.take())
        };
    }
}

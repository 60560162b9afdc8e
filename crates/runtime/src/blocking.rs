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
//! The number of threads is bounded, and a group can have a bound of its own; a group of which no
//! function runs starts one in any case, so no group keeps the others out
//! ([`state::blocking`](crate::state::blocking)).
//!
//! The running functions of a group have 50 ms of CPU time together, divided by their number
//! ([`slow_after`]). A thread that has used its part in one function competes with the CPUs of the
//! scheduler for the processors: it gets nice 19, as a poll that has lost its CPU does, and
//! ends with the function. With the whole time for each, 64 functions of a tenant had 3.2 s of CPU
//! time as equals of the CPUs.
//!
//! # Code of the users that is no poll
//!
//! Two further kinds of it run on threads of this sort, one at a time of each group:
//!
//! * The destructors of an aborted task whose group is limited. The abort waits for no quota, so
//!   the task has a real-time priority until it is picked; its destructors must not have it. They
//!   are charged to the group. Without a limit they run in a poll of the task, at its priority.
//! * A waker in a [`sleep`](crate::sleep) that is not the one of a task (that of a combinator, for
//!   example). If it panics, the standard library reads the symbols of the program for the
//!   backtrace: half a second in which the clock's thread would serve no timer.

use crate::coop;
use crate::meter::{ThreadClock, own_cpu_time};
use crate::patience::{slow, slow_after};
use crate::state::blocking::{Blocking, BlockingJob, Help, QueuedCall, RunningCall};
use crate::state::engine::Engine;
use crate::state::group::GroupState;
use crate::state::task::{Abort, Task};
use crate::sync::Mutex;
use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration as StdDuration;
use zerolag_model::{CpuId, Duration};

/// A thread without work ends after this time.
const IDLE: StdDuration = StdDuration::from_secs(5);

/// The CPU time between two charges of a running function.
const CHARGE_AGAIN: Duration = Duration::from_millis(5);

/// Which threads run code of the users that is no poll.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Beside {
    /// Functions of [`TaskBuilder::spawn_blocking`](crate::TaskBuilder::spawn_blocking).
    Functions,
    /// Destructors of aborted tasks, and wakers that are not the runtime's: one at a time of each
    /// group.
    Callbacks,
}

impl Engine {
    fn threads_for(&self, which: Beside) -> &Blocking<GroupState> {
        match which {
            Beside::Functions => &self.blocking,
            Beside::Callbacks => &self.callbacks,
        }
    }

    /// Charges what runs beside the CPUs, and slows it down if it takes long. Called at ticks.
    /// Returns whether there is any.
    pub(crate) fn charge_blocking(&self) -> bool {
        [Beside::Functions, Beside::Callbacks].map(|which| self.charge_threads(which)).contains(&true)
    }

    fn charge_threads(&self, which: Beside) -> bool {
        let mut state = self.threads_for(which).state.lock();
        let mut running = std::mem::take(&mut state.running);
        for one in &mut running {
            let Some(used) = ThreadClock::of(one.tid).read() else { continue };
            if one.charged.is_some_and(|charged| used.saturating_sub(charged) >= CHARGE_AGAIN) {
                pay(one, used);
            }
            let after = slow_after(state.running_of(&one.group));
            if !one.is_slow && one.began.is_some_and(|began| used.saturating_sub(began) >= after) {
                one.is_slow = true;
                slow(one.tid);
            }
        }
        state.running = running;
        !state.running.is_empty()
    }
}

/// Charges the group of a running function for the CPU time up to `used`.
fn pay(running: &mut RunningCall<GroupState>, used: Duration) {
    let took = used.saturating_sub(running.charged.replace(used).unwrap_or(used));
    running.group.charge(CpuId(0), took);
}

impl Engine {
    /// Gives a function to the threads.
    pub(crate) fn submit(self: &Arc<Self>, which: Beside, group: &Arc<GroupState>, job: Arc<dyn BlockingJob>) {
        let bound = match which {
            Beside::Functions => group.blocking_max,
            Beside::Callbacks => 1,
        };
        {
            let mut state = self.threads_for(which).state.lock();
            if state.is_closed {
                return;
            }
            state.push(group, bound, job);
        }
        self.help(which);
    }

    /// Finds a thread for the next function. Without any thread that could run it, it runs here.
    fn help(self: &Arc<Self>, which: Beside) {
        let Blocking { state, changed, threads_max } = self.threads_for(which);
        let help = state.lock().find_help(*threads_max);
        match help {
            Help::No => return,
            Help::Call => {
                changed.notify_one();
                return;
            }
            Help::Start => {}
        }
        let engine = Arc::clone(self);
        if self.start("zerolag-blocking".to_owned(), move || serve(&engine, which)).is_err() {
            let alone = {
                let mut state = state.lock();
                state.threads -= 1;
                if state.threads == 0 { state.take_all() } else { Vec::new() }
            };
            for job in alone {
                job.run();
                self.contain(|| job.announce());
            }
        }
    }
}

/// Runs functions until there are none, or the thread is slow.
fn serve(engine: &Arc<Engine>, which: Beside) {
    let _within = coop::BlockOnScope::enter(engine, None);
    let Blocking { state, changed, threads_max } = engine.threads_for(which);
    let tid = rustix::thread::gettid();
    let mut is_over = false;
    // The CPU time of this thread up to which groups were charged.
    let mut charged = ThreadClock::own().read().map(|_| Duration::ZERO);
    loop {
        let QueuedCall { group, job } = {
            let mut state = state.lock();
            let queued = loop {
                if let Some(queued) = state.take(*threads_max) {
                    break Some(queued);
                }
                if state.is_closed || is_over {
                    break None;
                }
                state.idle += 1;
                is_over = changed.wait_for(&mut state, IDLE).timed_out();
                state.idle -= 1;
                state.called = if is_over { state.called.min(state.idle) } else { state.called.saturating_sub(1) };
            };
            let Some(queued) = queued else {
                state.threads -= 1;
                return;
            };
            let began = ThreadClock::own().read();
            let group = Arc::clone(&queued.group);
            // The way out of the queue is charged as well.
            let charged = charged.or(began);
            state.running.push(RunningCall { group, tid, charged, began, is_slow: false });
            queued
        };
        is_over = false;
        engine.help(which);
        engine.timeline.begin_ticks();
        {
            let _within = coop::GroupScope::enter(&group);
            job.run(); // [2]
        }
        let is_slow = {
            let mut state = state.lock();
            let mut one = state.end(&group, tid);
            pay(&mut one, own_cpu_time());
            charged = one.charged;
            state.threads -= usize::from(one.is_slow);
            one.is_slow
        };
        engine.contain(|| job.announce()); // [3]
        drop((job, group));
        if is_slow {
            // It counts as none any more: the next function needs another one.
            engine.help(which);
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

impl Engine {
    /// Lets another thread drop the future of an aborted task, if its group is limited. Returns
    /// whether it does; the task is woken when it is done.
    pub(crate) fn drops_beside(self: &Arc<Self>, task: &Arc<Task>) -> bool {
        let does = task.is_hurried() && task.job.lock().is_running();
        if does {
            task.set_abort(Abort::Handed);
            self.submit(Beside::Callbacks, &task.group, Arc::new(DropJob(Arc::clone(task))));
        }
        does
    }
}

/// Drops the future of a task.
struct DropJob(Arc<Task>);

impl BlockingJob for DropJob {
    fn run(&self) {
        self.0.cancel();
        self.0.set_abort(Abort::Dropped);
    }

    fn announce(&self) {
        self.0.engine().wake(&self.0);
    }
}

/// A waker that calls another one, which is not the runtime's, on a thread for it.
struct Elsewhere {
    group: Arc<GroupState>,
    waker: Waker,
}

impl Wake for Elsewhere {
    fn wake(self: Arc<Self>) {
        let group = Arc::clone(&self.group);
        group.engine.submit(Beside::Callbacks, &group, self);
    }
}

impl BlockingJob for Elsewhere {
    fn run(&self) {
        self.group.engine.contain(|| self.waker.wake_by_ref());
    }

    fn announce(&self) {}
}

impl Engine {
    /// Returns a waker that the thread of the clock can call instead of another one.
    pub(crate) fn waker_for_clock(&self, waker: &Waker) -> Waker {
        if coop::is_own_waker(waker) {
            return waker.clone();
        }
        let group = coop::current_group().or_else(|| self.root.get().and_then(Weak::upgrade));
        let elsewhere = |group| Waker::from(Arc::new(Elsewhere { group, waker: waker.clone() }));
        group.map_or_else(|| waker.clone(), elsewhere)
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
            engine.submit(Beside::Functions, &group, Arc::clone(&self.cell) as _); // [1]
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

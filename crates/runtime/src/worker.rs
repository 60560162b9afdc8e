//! The thread of a CPU: it polls what the scheduler picks. And what happens if a poll does not end:
//! the CPU is handed to another thread.
//!
//! ```text
//!                    +--------- kicked, or nothing to run: leave, pick
//!                    v                        |
//!    idle (parked) <---> task picked ---> poll ---+--> pending, woken meanwhile: poll again
//!                                             |   +--> pending: leave(Block), pick
//!                                             |   +--> ready, panicked: leave(Exit), pick
//!                                             +------> the seat was taken meanwhile [1]: end the poll, account for it, retire [2]
//! ```
//!
//! A poll cannot be stopped. One that was asked to give way and has not for `hand_off_after` loses
//! its CPU: the task is taken off it as if it slept, another thread takes the seat and runs what
//! waits, and the thread in the poll is made as nice as can be [1]. When the poll ends, what it
//! took meanwhile is the task's debt, charged when it runs next [2]: a quota is kept on average
//! even by who does not cooperate.

use crate::caller::{Caller, Switched};
use crate::coop;
use crate::engine::Engine;
use crate::task::{Detached, JoinError, Task};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread::Thread;
use zerolag_core::Leave;
use zerolag_model::{CpuId, Duration, Instant};

/// Who sits at a CPU.
#[derive(Debug, Default)]
pub(crate) struct Seat {
    /// Counts those who have sat here.
    turn: u64,
    thread: Option<Thread>,
    /// Its number for the kernel.
    tid: Option<rustix::thread::Pid>,
    polling: Option<Polling>,
    /// Set when the seat is taken from who sits there: what it polls is asked to give way for good.
    is_lost: Arc<AtomicBool>,
}

/// A poll that is under way.
#[derive(Debug)]
struct Polling {
    task: Arc<Task>,
    /// Up to when its group has been told.
    told: Instant,
    /// When it was first seen that it is asked to give way.
    asked: Option<Instant>,
}

impl Seat {
    /// Tells the group of the task that is polled what that has used up to now.
    fn tell(&mut self, now: Instant) {
        if let Some(polling) = &mut self.polling {
            let told = std::mem::replace(&mut polling.told, now);
            polling.task.group.add_usage(now.since(told));
        }
    }

    /// Returns whether a poll has been asked to give way for so long.
    fn is_overdue(&self, after: Duration, now: Instant) -> bool {
        let asked = self.polling.as_ref().and_then(|polling| polling.asked);
        asked.is_some_and(|asked| now >= asked + after)
    }

    pub(crate) fn unpark(&self) {
        if let Some(thread) = &self.thread {
            thread.unpark();
        }
    }
}

/// What became of a poll.
enum Polled {
    Pending,
    Over,
}

/// Starts the thread of a CPU.
///
/// # Errors
/// The system has no thread left.
pub(crate) fn start(engine: &Arc<Engine>, cpu: CpuId) -> std::io::Result<()> {
    let sitting = Arc::clone(engine);
    let turn = engine.cpus[cpu.index()].seat.lock().turn;
    engine.start(name_of(cpu), move || run(&sitting, cpu, turn, None))
}

fn name_of(cpu: CpuId) -> String {
    format!("zerolag-{cpu}")
}

fn run(engine: &Arc<Engine>, cpu: CpuId, turn: u64, detached: Option<Arc<Task>>) {
    let is_lost = {
        let mut seat = engine.cpus[cpu.index()].seat.lock();
        if seat.turn != turn {
            return;
        }
        (seat.thread, seat.tid) = (Some(std::thread::current()), Some(rustix::thread::gettid()));
        Arc::clone(&seat.is_lost)
    };
    coop::sit_down(engine, cpu, is_lost);
    serve(engine, cpu, turn, detached);
    coop::stand_up();
}

fn serve(engine: &Arc<Engine>, cpu: CpuId, turn: u64, detached: Option<Arc<Task>>) {
    let mut running = detached.and_then(|task| schedule(engine, cpu, Some(task), Leave::Block));
    loop {
        if engine.is_stopping.load(Ordering::Acquire) {
            return;
        }
        if engine.cpus[cpu.index()].is_kicked.load(Ordering::SeqCst) {
            running = schedule(engine, cpu, running, Leave::Preempted);
        }
        let Some(task) = running.take() else {
            rest(engine, cpu);
            continue;
        };
        match poll(engine, cpu, turn, &task) {
            None => return,
            Some(Polled::Over) => running = schedule(engine, cpu, Some(task), Leave::Exit),
            Some(Polled::Pending) => {
                running = match coop::take_gives() {
                    Some(how) => schedule(engine, cpu, Some(task), how),
                    None if task.body.lock().is_notified => Some(task),
                    None => schedule(engine, cpu, Some(task), Leave::Block),
                };
            }
        }
    }
}

/// Leaves a task, unless it has something to do after all, and goes on with the next.
fn schedule(engine: &Arc<Engine>, cpu: CpuId, running: Option<Arc<Task>>, why: Leave) -> Option<Arc<Task>> {
    let Switched::To(next) = Caller::new(engine, cpu).switch(running.as_ref(), why) else { return running };
    let was_busy = engine.cpus[cpu.index()].is_busy.swap(next.is_some(), Ordering::SeqCst);
    if next.is_some() && !was_busy {
        engine.timeline.begin_ticks();
    }
    next
}

/// Nothing is to be run: waits for a kick.
fn rest(engine: &Engine, cpu: CpuId) {
    let place = &engine.cpus[cpu.index()];
    // Who kicks sets the one before reading the other, as here.
    place.is_busy.store(false, Ordering::SeqCst);
    while !place.is_kicked.load(Ordering::SeqCst) && !engine.is_stopping.load(Ordering::Acquire) {
        std::thread::park();
    }
}

/// Polls a task once. `None`: the seat was taken meanwhile; all that is to be done for the task has
/// been done.
fn poll(engine: &Arc<Engine>, cpu: CpuId, turn: u64, task: &Arc<Task>) -> Option<Polled> {
    let seat = &engine.cpus[cpu.index()].seat;
    task.body.lock().is_notified = false;
    let began = engine.now();
    seat.lock().polling = Some(Polling { task: Arc::clone(task), told: began, asked: None });
    coop::begin(Arc::clone(task));
    let polled = poll_job(task);
    coop::end();
    {
        let mut seat = seat.lock();
        if seat.turn == turn {
            seat.tell(engine.now());
            seat.polling = None;
            return Some(polled);
        }
    }
    // [2] The task is asleep as far as the scheduler knows; it is awake if it has something to do,
    //     be it to end.
    let is_awake = {
        let mut body = task.body.lock();
        if let Some(detached) = body.detached.take().filter(|detached| detached.has_left) {
            let took = match detached.had {
                Some(had) => own_cpu_time().saturating_sub(had),
                None => engine.now().since(detached.since),
            };
            task.group.add_usage(took);
            body.debt += took;
        }
        matches!(polled, Polled::Over) || body.is_notified
    };
    if is_awake {
        engine.wake(task);
    }
    engine.detached.fetch_sub(1, Ordering::AcqRel);
    None
}

fn poll_job(task: &Arc<Task>) -> Polled {
    let mut job = task.job.lock();
    if task.is_aborted.load(Ordering::Acquire) {
        drop(job.take());
        task.outcome.fail(JoinError::Aborted);
    }
    let Some(future) = job.as_mut() else { return Polled::Over };
    let waker = Waker::from(Arc::clone(task));
    match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(&mut Context::from_waker(&waker)))) {
        Ok(Poll::Pending) => return Polled::Pending,
        Ok(Poll::Ready(())) => drop(job.take()),
        Err(with) => {
            // Its destructors may panic as well; the first reason is the one that counts.
            let _ = catch_unwind(AssertUnwindSafe(|| drop(job.take())));
            task.outcome.fail(JoinError::Panicked(with));
        }
    }
    Polled::Over
}

impl Engine {
    /// Accounts for the poll that a CPU is in; finds another thread for the CPU if it has not given
    /// way for too long. Called at its ticks.
    pub(crate) fn look_after(self: &Arc<Self>, cpu: CpuId) {
        let place = &self.cpus[cpu.index()];
        let is_overdue = {
            let mut seat = place.seat.lock();
            let now = self.now();
            seat.tell(now);
            if let Some(polling) = &mut seat.polling
                && place.is_kicked.load(Ordering::SeqCst)
            {
                polling.asked.get_or_insert(now);
            }
            self.hand_off_after.is_some_and(|after| seat.is_overdue(after, now))
        };
        if !is_overdue {
            return;
        }
        if self.detached.fetch_add(1, Ordering::AcqRel) >= self.detached_max {
            self.detached.fetch_sub(1, Ordering::AcqRel);
            return;
        }
        let engine = Arc::clone(self);
        let take_over = move || {
            if !take_over(&engine, cpu) {
                engine.detached.fetch_sub(1, Ordering::AcqRel);
            }
        };
        // Without a thread the poll keeps its CPU; the next tick tries again.
        if self.start(name_of(cpu), take_over).is_err() {
            self.detached.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

/// Takes the seat of a thread whose poll still takes too long, and serves the CPU. Answers whether
/// it did.
fn take_over(engine: &Arc<Engine>, cpu: CpuId) -> bool {
    let (task, turn) = {
        let mut seat = engine.cpus[cpu.index()].seat.lock();
        let now = engine.now();
        if !engine.hand_off_after.is_some_and(|after| seat.is_overdue(after, now)) {
            return false;
        }
        let Some(tid) = seat.tid.take() else { return false };
        seat.tell(now);
        let Some(Polling { task, .. }) = seat.polling.take() else { return false };
        task.body.lock().detached = Some(Detached { since: now, had: cpu_time_of(tid), has_left: false });
        // [1] For good: nobody without privileges takes that back, so the thread retires. If it is
        //     refused, it competes as before.
        let _ = rustix::process::setpriority_process(Some(tid), 19);
        std::mem::take(&mut seat.is_lost).store(true, Ordering::Release);
        seat.turn += 1;
        (task, seat.turn)
    };
    run(engine, cpu, turn, Some(task));
    true
}

/// Returns what a thread has used of CPUs, as of the kernel's last tick; `None` if the kernel does
/// not say.
fn cpu_time_of(tid: rustix::thread::Pid) -> Option<Duration> {
    let path = format!("/proc/self/task/{}/schedstat", tid.as_raw_nonzero());
    let text = std::fs::read_to_string(path).ok()?;
    text.split(' ').next()?.parse().ok().map(Duration::from_nanos)
}

/// Returns what this thread has used of CPUs.
fn own_cpu_time() -> Duration {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::from_nanos(used.tv_sec.unsigned_abs() * 1_000_000_000 + used.tv_nsec.unsigned_abs())
}

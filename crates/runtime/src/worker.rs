//! The thread of a CPU: it polls the task that the scheduler picks. If a poll does not end, the CPU
//! is handed to another thread.
//!
//! ```text
//!                    +--------- kicked, or nothing to run: leave, pick
//!                    v                        |
//!    idle (parked) <---> task picked ---> poll ---+--> pending, woken meanwhile: poll again
//!                                             |   +--> pending: leave(Block), pick
//!                                             |   +--> ready, panicked: leave(Exit), pick
//!                                             +--> seat taken [1]: end poll, account, retire [2]
//! ```
//!
//! A poll cannot be stopped. If it ignores a preemption request for `hand_off_after`
//! ([`patience`](crate::patience)), its CPU is handed over: the task is taken off the CPU as if it
//! slept, and another thread takes the seat and runs the waiting tasks \[1\]. When the poll ends,
//! the CPU time that it used meanwhile becomes the task's debt, which is charged when the task runs
//! next \[2\]. So even a task that does not cooperate keeps its quota on average.
//!
//! A thread that lost its CPU competes with the others for the processors of the machine. Once it
//! has used its part of [`SLOW_AFTER`] there, it gets nice 19 \[3\], unless its task holds a lock
//! or waits for one: others would wait for it at that priority. Such a task gets no lock before its
//! poll ends. Nice 19 cannot be undone without privileges, so the thread ends after the poll; all
//! others wait in the [`pool`](crate::pool) for another CPU.

use crate::boost::settle;
use crate::caller::Caller;
use crate::coop;
use crate::hold_back::COUNTS_FOR;
use crate::meter::{Measured, ThreadClock, own_cpu_time};
use crate::patience::{Request, SLOW_AFTER, Sample, slow};
use crate::relay;
use crate::spare::Standing;
use crate::state::detached::Adrift;
use crate::state::engine::Engine;
use crate::state::life::Charge;
use crate::state::seat::Polling;
use crate::state::task::Task;
use crate::switch::schedule;
use crate::sync::{park, thread};
use futures_util::task::waker_ref;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use zerolag_core::Leave;
use zerolag_model::{CpuId, Duration, Instant};

/// The shortest time between two looks at such a thread.
const SLOW_AGAIN: Duration = Duration::from_millis(5);

/// The result of a poll.
enum Polled {
    Pending,
    Over,
}

/// Starts the thread of a CPU.
///
/// # Errors
/// The system could not start another thread.
pub(crate) fn start(engine: &Arc<Engine>, cpu: CpuId) -> std::io::Result<()> {
    let sitting = Arc::clone(engine);
    let turn = engine.cpus[cpu.index()].seat.lock().turn;
    engine.start(format!("zerolag-{cpu}"), move || {
        run(&sitting, cpu, turn, None);
        stand_by(&sitting);
    })
}

/// Takes CPUs over as long as there are some to take. The thread has enlisted, unless the runtime
/// ends.
fn stand_by(engine: &Arc<Engine>) {
    while !coop::is_worn_out()
        && !engine.is_stopping.load(Ordering::SeqCst)
        && let Some(cpu) = engine.pool.wait()
    {
        attempt(engine, cpu);
    }
}

fn attempt(engine: &Arc<Engine>, cpu: CpuId) {
    if !take_over(engine, cpu) {
        set_free(engine);
    }
}

/// Marks the end of a hand-over. Unless it is slow, the thread waits for another CPU.
fn set_free(engine: &Engine) {
    if !coop::is_worn_out() {
        engine.pool.enlist();
    }
    engine.detached.fetch_sub(1, Ordering::AcqRel);
}

fn run(engine: &Arc<Engine>, cpu: CpuId, turn: u64, detached: Option<Detachment>) {
    let signals = {
        let mut seat = engine.cpus[cpu.index()].seat.lock();
        if seat.turn != turn {
            return;
        }
        (seat.thread, seat.tid) = (Some(thread::current()), Some(rustix::thread::gettid()));
        Arc::clone(&seat.signals)
    };
    coop::sit_down(engine, cpu, signals);
    serve(engine, cpu, turn, detached);
    coop::stand_up();
}

/// A task whose CPU is handed over, and the owner of its turn if that is another one.
struct Detachment {
    task: Arc<Task>,
    owner: Option<Arc<Task>>,
}

impl Detachment {
    /// Takes the task off its CPU, and switches to the next.
    fn leave(self, engine: &Arc<Engine>, cpu: CpuId) -> Option<Arc<Task>> {
        match self.owner {
            None => schedule(engine, cpu, Some(self.task), Leave::Block),
            Some(owner) => relay::leave_behind(engine, cpu, owner, &self.task),
        }
    }
}

fn serve(engine: &Arc<Engine>, cpu: CpuId, turn: u64, detached: Option<Detachment>) {
    let mut running = detached.and_then(|detachment| detachment.leave(engine, cpu));
    // The task on whose turn the running one is polled, if that is another one.
    let mut owner: Option<Arc<Task>> = None;
    loop {
        if engine.is_stopping.load(Ordering::Acquire) {
            return;
        }
        if let Some(task) = running.as_ref().filter(|task| task.is_lifted.load(Ordering::Relaxed)) {
            // It can have been spared for long enough.
            settle([Arc::clone(task)]);
        }
        if engine.cpus[cpu.index()].is_kicked.load(Ordering::SeqCst) {
            running = match (owner.take(), &running) {
                (Some(owner), Some(runner)) => relay::part(engine, cpu, owner, runner),
                (None | Some(_), _) => schedule(engine, cpu, running, Leave::Preempted),
            };
            // The switch itself can ask for another one: a task whose group has no quota left is
            // switched to and left again.
            continue;
        }
        let Some(task) = running.take() else {
            rest(engine, cpu);
            continue;
        };
        if owner.is_none() && engine.holds_back(&task) {
            relay::set_down(engine, &task);
            running = schedule(engine, cpu, Some(task), Leave::Block);
            continue;
        }
        let (task, on) = match owner.take() {
            None if task.has_riders() => relay::board(engine, cpu, task),
            owner => (task, owner),
        };
        let Some((polled, still)) = poll(engine, cpu, turn, &task, on) else { return };
        let leaves = match polled {
            Polled::Over => Some(Leave::Exit),
            Polled::Pending => match coop::take_gives() {
                Some(how) => Some(how),
                // A relay looks itself.
                None if still.is_none() && task.body.lock().is_notified() => None,
                None => Some(Leave::Block),
            },
        };
        if engine.is_measuring
            && !matches!(leaves, Some(Leave::Block | Leave::Exit))
            && let Some(ready_at) = task.ready_at()
        {
            ready_at.store(engine.now().as_nanos(), Ordering::Relaxed);
        }
        let next = coop::take_postponed().then(|| engine.cpus[cpu.index()].next.lock().take()).flatten();
        (running, owner) = match (still, leaves) {
            (Some(owner), Some(why @ (Leave::Block | Leave::Exit))) => {
                relay::go_on(engine, cpu, owner, task, why, next)
            }
            (None, Some(Leave::Block))
                if next.as_ref().is_some_and(|next| relay::pass_on(engine, cpu, &task, next)) =>
            {
                (next, Some(task))
            }
            (owner, leaves) => {
                if let Some(next) = next {
                    wake_next(engine, cpu, leaves, &next);
                }
                match (owner, leaves) {
                    (owner, None) => (Some(task), owner),
                    (None, Some(why)) => (schedule(engine, cpu, Some(task), why), None),
                    (Some(owner), Some(_)) => (relay::part(engine, cpu, owner, &task), None),
                }
            }
        };
    }
}

/// Makes the wakeup that the last poll has left to its end. The task runs next here if the polled
/// one sleeps or ends.
fn wake_next(engine: &Arc<Engine>, cpu: CpuId, leaves: Option<Leave>, next: &Arc<Task>) {
    match leaves {
        Some(Leave::Block | Leave::Exit) => Caller::new(engine, cpu).wake_here(next),
        Some(_) | None => engine.wake(next),
    }
}

/// Waits for a kick: no task is runnable here.
fn rest(engine: &Engine, cpu: CpuId) {
    let place = &engine.cpus[cpu.index()];
    // A kick sets `is_kicked` before it reads `is_busy`; here the order is reversed.
    place.is_busy.store(false, Ordering::SeqCst);
    while !place.is_kicked.load(Ordering::SeqCst) && !engine.is_stopping.load(Ordering::Acquire) {
        park();
    }
}

/// Polls a task once. Returns `None` if the seat was taken meanwhile; then nothing remains to be
/// done for the task.
/// Otherwise returns the owner of the turn with the result, if that is another task.
fn poll(
    engine: &Arc<Engine>,
    cpu: CpuId,
    turn: u64,
    task: &Arc<Task>,
    owner: Option<Arc<Task>>,
) -> Option<(Polled, Option<Arc<Task>>)> {
    let seat = &engine.cpus[cpu.index()].seat;
    if owner.is_none() {
        task.body.lock().forget_wakeup(); // A relay has done so.
    }
    // Polls of a relay are short, mostly: their clock is read at ticks.
    let began = (owner.is_none() || engine.is_measuring).then(|| {
        match engine.cpus[cpu.index()].began.swap(0, Ordering::Relaxed) {
            0 => engine.now(),
            at => Instant::from_nanos(at),
        }
    });
    // Its own poll is what a task with a limit is charged.
    let rounds = task.group.limited().map(|_| &engine.cpus[cpu.index()].rounds);
    let rounds = rounds.filter(|rounds| {
        if owner.is_some() {
            rounds.forget();
        }
        owner.is_none()
    });
    let latency = task.group.latency.as_deref().zip(began);
    if let Some((latency, began)) = latency
        && let Some(ready_at) = task.ready_at()
        && let ready @ 1.. = ready_at.swap(0, Ordering::Relaxed)
    {
        latency.add_wait(Instant::from_nanos(ready), began);
    }
    let standing = Standing::of(task);
    let had = standing.is_timed().then(own_cpu_time);
    let polling =
        Polling { task: Arc::clone(task), owner, began, is_seen: false, seen: None, asked: None, is_long: false };
    seat.lock().polling = Some(polling);
    coop::begin(Arc::clone(task));
    if let Some(rounds) = rounds {
        rounds.begin(engine.now(), began);
    }
    let polled = poll_job(task);
    let ended = rounds.map(|_| engine.now());
    coop::end();
    if let Some((latency, began)) = latency {
        latency.add_poll(began, engine.now());
    }
    {
        let mut seat = seat.lock();
        if seat.turn == turn {
            let polling = seat.polling.take();
            if polling.as_ref().is_some_and(|polling| polling.is_long) {
                seat.signals.is_long.store(false, Ordering::Relaxed);
            }
            drop(seat);
            engine.let_go(&task.group);
            if let Some((rounds, ended)) = rounds.zip(ended) {
                rounds.end(ended);
            }
            let Some(polling) = polling else { unreachable!("invariant: a seat that was not taken has its poll") };
            if polling.owner.is_none() && !polling.is_seen && task.is_long.load(Ordering::Relaxed) {
                task.is_long.store(false, Ordering::Relaxed);
            }
            if let Some(began) = polling.began.filter(|_| polling.is_long) {
                engine.report_overrun(task, began);
            }
            if let Some(had) = had {
                engine.charge(task, standing, own_cpu_time().saturating_sub(had));
            }
            if matches!(polled, Polled::Over) {
                task.group.owe(task.take_debt());
            }
            return Some((polled, polling.owner));
        }
    }
    // [2] For the scheduler the task is asleep. It is woken if it was notified, or if it has to
    //     exit.
    engine.adrift.lock().retain(|other| !Arc::ptr_eq(&other.task, task));
    engine.let_go(&task.group);
    if coop::take_postponed() {
        // The CPU has another thread, which does not know of it.
        engine.wake_postponed(cpu);
    }
    let began = began.or_else(|| task.body.lock().detached().map(|poll| poll.since));
    if let Some(began) = began
        && engine.overrun_after().is_some_and(|after| engine.now().since(began) >= after)
    {
        engine.report_overrun(task, began);
    }
    let is_awake = {
        let mut body = task.body.lock();
        if task.is_slow.swap(false, Ordering::Relaxed) {
            coop::wear_out();
        }
        if let Some((since, Charge::ByThread(had))) = body.attach() {
            let took = match had {
                Some(had) => own_cpu_time().saturating_sub(had),
                None => engine.now().since(since),
            };
            task.group.add_usage(cpu, Measured { ran: took, lost: Duration::ZERO });
            task.owe(took);
        }
        matches!(polled, Polled::Over) || body.is_notified()
    };
    if is_awake {
        engine.wake(task);
    }
    set_free(engine);
    None
}

fn poll_job(task: &Arc<Task>) -> Polled {
    if task.is_aborted.load(Ordering::Acquire) {
        task.cancel();
    }
    match task.poll(&mut Context::from_waker(&waker_ref(task))) {
        Poll::Pending => Polled::Pending,
        Poll::Ready(()) => Polled::Over,
    }
}

impl Engine {
    /// Accounts for the current poll of a CPU, and starts another thread for the CPU if the poll
    /// has not yielded for too long. Called at the CPU's ticks.
    pub(crate) fn look_after(self: &Arc<Self>, cpu: CpuId) {
        let place = &self.cpus[cpu.index()];
        let tick = self.tick_period();
        let (current, sleeps) = {
            let mut seat = place.seat.lock();
            let current = seat.polling.as_ref().map(|polling| polling.owner.as_ref().unwrap_or(&polling.task));
            (current.cloned(), seat.sleeps(tick))
        };
        if let Some(task) = &current {
            relay::set_down(self, task);
        }
        if let Some(task) = current {
            let mut queue = place.queue.lock();
            if queue.rq.current() == Some(task.id) {
                task.group.add_usage(cpu, queue.meter.take());
            }
            if sleeps && queue.rq.nr_running() > 1 {
                place.is_kicked.store(true, Ordering::SeqCst);
            }
        }
        let is_overdue = {
            let seat = &mut *place.seat.lock();
            let now = self.now();
            let tid = seat.tid;
            if self.hand_off_after.is_some()
                && let Some(polling) = &mut seat.polling
                && place.is_kicked.load(Ordering::SeqCst)
            {
                match &mut polling.asked {
                    Some(asked) => asked.tick(),
                    None => polling.asked = Some(Request::new(now, tid.and_then(Sample::of))),
                }
            }
            if let Some(polling) = &mut seat.polling {
                let began = *polling.began.get_or_insert(now);
                if std::mem::replace(&mut polling.is_seen, true) && polling.owner.is_some() {
                    polling.task.is_long.store(true, Ordering::Relaxed);
                }
                if !polling.is_long && self.overrun_after().is_some_and(|after| now.since(began) >= after) {
                    polling.is_long = true;
                    seat.signals.is_long.store(true, Ordering::Relaxed);
                }
                let (task, running) = (&polling.task, now.since(began));
                let is_spared = task.is_in_kernel() || task.is_lifted.load(Ordering::Relaxed);
                if is_spared && !self.spares(task, running) {
                    // Whether it can run without that is decided when it has yielded.
                    place.is_kicked.store(true, Ordering::SeqCst);
                }
            }
            seat.is_overdue(self.hand_off_after, tick, now)
        };
        if !is_overdue {
            return;
        }
        if self.detached.fetch_add(1, Ordering::AcqRel) >= self.detached_max {
            self.detached.fetch_sub(1, Ordering::AcqRel);
            return;
        }
        if self.pool.ask(cpu) {
            return;
        }
        let engine = Arc::clone(self);
        let take_over = move || {
            attempt(&engine, cpu);
            stand_by(&engine);
        };
        // If no thread can be started, the poll keeps its CPU and the next tick tries again.
        if self.start("zerolag-pool".to_owned(), take_over).is_err() {
            self.detached.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// Slows the threads down that have used much CPU time without a CPU of the scheduler. Called
    /// at ticks.
    pub(crate) fn slow_down(self: &Arc<Self>) {
        let adrift = self.adrift.lock().clone();
        let after = slow_after(adrift.len());
        for Adrift { task, counts, began, signals } in adrift {
            let now = self.now();
            if self.overrun_after().is_some_and(|after| began.is_some_and(|began| now.since(began) >= after)) {
                signals.is_long.store(true, Ordering::Relaxed);
            }
            let mut body = task.body.lock();
            let Some(poll) = body.detached().filter(|poll| poll.look_at <= now) else { continue };
            let used = match (poll.charge, ThreadClock::of(poll.tid).read()) {
                (Charge::ByThread(Some(had)), Some(used)) => used.saturating_sub(had),
                (Charge::ByThread(_) | Charge::ByCpu, _) => now.since(poll.since),
            };
            poll.look_at = now + SLOW_AGAIN;
            let tid = poll.tid;
            let (held, waits_for) = (task.ties().held.lock(), task.ties().waits_for.lock());
            if used >= after && held.is_empty() && waits_for.is_empty() && !task.is_slow.load(Ordering::Relaxed) {
                // [3] If the kernel refuses, the thread competes at its old priority.
                task.is_slow.store(true, Ordering::Relaxed);
                slow(tid);
            }
            drop((held, waits_for, body));
            if counts && (used >= COUNTS_FOR || Sample::of(tid).is_some_and(|sample| sample.sleeps)) {
                self.adrift
                    .lock()
                    .iter_mut()
                    .filter(|one| Arc::ptr_eq(&one.task, &task))
                    .for_each(|one| one.counts = false);
                self.let_go(&task.group);
            }
        }
    }
}

/// Returns the CPU time after which one of `threads` without a CPU is slowed down.
fn slow_after(threads: usize) -> Duration {
    Duration::from_nanos(SLOW_AFTER.as_nanos() / (threads as u64).max(1))
}

/// Takes the seat of a thread if its poll is still overdue, and serves the CPU. Returns whether it
/// took the seat.
fn take_over(engine: &Arc<Engine>, cpu: CpuId) -> bool {
    let (detachment, turn) = {
        let mut seat = engine.cpus[cpu.index()].seat.lock();
        let now = engine.now();
        if !seat.is_overdue(engine.hand_off_after, engine.tick_period(), now) {
            return false;
        }
        let Some(tid) = seat.tid.take() else { return false };
        let Some(Polling { task, owner, began, .. }) = seat.polling.take() else { return false };
        let look_at = now + SLOW_AGAIN;
        task.body.lock().detach(now, tid, look_at); // [1]
        let signals = std::mem::take(&mut seat.signals);
        signals.is_lost.store(true, Ordering::Release);
        engine.adrift.lock().push(Adrift { task: Arc::clone(&task), counts: true, began, signals });
        seat.turn += 1;
        (Detachment { task, owner }, seat.turn)
    };
    run(engine, cpu, turn, Some(detachment));
    true
}

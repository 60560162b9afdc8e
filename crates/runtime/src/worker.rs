//! The thread of a CPU: it polls the task that the scheduler picks. If a poll does not end, the CPU
//! is handed to another thread.
//!
//! ```text
//!                    +--------- kicked, or nothing to run: leave, pick
//!                    v                        |
//!    idle (parked) <---> task picked ---> poll ---+--> pending, woken meanwhile: poll again
//!                                             |   +--> pending: leave(Block), pick
//!                                             |   +--> ready, panicked: leave(Exit), pick
//!                                             +--> handed over [1]: end poll, account, retire [2]
//! ```
//!
//! A poll cannot be stopped. If it ignores a preemption request for `hand_off_after`
//! ([`patience`](crate::patience)), its CPU is handed over: the task is taken off the CPU as if it
//! slept, and another thread becomes that of the CPU and runs the waiting tasks \[1\]. When the
//! poll uses from then on is charged at ticks: the tasks of its group that run next pay \[2\].
//! So even a task that does not cooperate keeps its quota on average.
//!
//! A thread that lost its CPU competes with the others for the processors of the machine. Once it
//! has used its part of 50 ms there ([`slow_after`]), it gets nice 19 \[3\], unless its task holds
//! a lock or waits for one: others would wait for it at that priority. Such a task gets no lock
//! before its poll ends. Nice 19 cannot be undone without privileges, so the thread ends after the
//! poll; all others wait in the [`pool`](crate::pool) for another CPU.

use crate::boost::settle;
use crate::caller::Caller;
use crate::coop;
use crate::hold_back::COUNTS_FOR;
use crate::meter::{Measured, ThreadClock, own_cpu_time, pay_thread, take_unpaid};
use crate::patience::{Request, Sample, slow, slow_after};
use crate::relay;
use crate::spare::PollCharge;
use crate::state::cpu_thread::Polling;
use crate::state::detached::DetachedPoll;
use crate::state::engine::Engine;
use crate::state::task::{Abort, Task};
use crate::switch::schedule;
use crate::sync::{park, thread};
use futures_util::task::waker_ref;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use zerolag_core::Leave;
use zerolag_model::{ClassId, CpuId, Duration, Instant};

/// The shortest time between two looks at such a thread.
const LOOK_EVERY: Duration = Duration::from_millis(5);

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
    let epoch = engine.cpus[cpu.index()].thread.lock().epoch;
    engine.start(format!("zerolag-{cpu}"), move || {
        pay_thread();
        run(&sitting, cpu, epoch, None);
        wait_for_cpus(&sitting);
    })
}

/// Takes CPUs over as long as there are some to take. The thread has enlisted, unless the runtime
/// ends.
fn wait_for_cpus(engine: &Arc<Engine>) {
    while !coop::is_slowed()
        && !engine.is_stopping.load(Ordering::SeqCst)
        && let Some(cpu) = engine.pool.wait()
    {
        try_take_over(engine, cpu);
    }
}

fn try_take_over(engine: &Arc<Engine>, cpu: CpuId) {
    if !take_over(engine, cpu) {
        end_hand_over(engine);
    }
}

/// Marks the end of a hand-over. Unless it is slow, the thread waits for another CPU.
fn end_hand_over(engine: &Engine) {
    if !coop::is_slowed() {
        engine.pool.enlist();
    }
    engine.detached.fetch_sub(1, Ordering::AcqRel);
}

fn run(engine: &Arc<Engine>, cpu: CpuId, epoch: u64, detached: Option<HandOver>) {
    let signals = {
        let mut cpu_thread = engine.cpus[cpu.index()].thread.lock();
        if cpu_thread.epoch != epoch {
            return;
        }
        (cpu_thread.handle, cpu_thread.tid) = (Some(thread::current()), Some(rustix::thread::gettid()));
        Arc::clone(&cpu_thread.signals)
    };
    coop::bind_cpu(engine, cpu, signals);
    serve(engine, cpu, epoch, detached);
    coop::unbind_cpu();
}

/// A task whose CPU is handed over, and the owner of its turn if that is another one.
struct HandOver {
    task: Arc<Task>,
    owner: Option<Arc<Task>>,
}

impl HandOver {
    /// Takes the task off its CPU, and switches to the next.
    fn leave(self, engine: &Arc<Engine>, cpu: CpuId) -> Option<Arc<Task>> {
        match self.owner {
            None => schedule(engine, cpu, Some(self.task), Leave::Block),
            Some(owner) => relay::hand_over_turn(engine, cpu, owner, &self.task),
        }
    }
}

fn serve(engine: &Arc<Engine>, cpu: CpuId, epoch: u64, detached: Option<HandOver>) {
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
                (Some(owner), Some(runner)) => relay::end_relay(engine, cpu, owner, runner),
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
            relay::wake_riders(engine, &task);
            running = schedule(engine, cpu, Some(task), Leave::Block);
            continue;
        }
        let (task, on) = match owner.take() {
            None if task.has_riders() => relay::start_riders(engine, cpu, task),
            owner => (task, owner),
        };
        let Some((polled, still)) = poll(engine, cpu, epoch, &task, on) else { return };
        let leaves = match polled {
            Polled::Over => Some(Leave::Exit),
            Polled::Pending => match coop::take_leave() {
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
                relay::next_on_turn(engine, cpu, owner, task, why, next)
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
                    (Some(owner), Some(_)) => (relay::end_relay(engine, cpu, owner, &task), None),
                }
            }
        };
    }
}

/// Makes the wakeup that the last poll has left to its end. The task runs next here if the polled
/// one sleeps or ends.
fn wake_next(engine: &Arc<Engine>, cpu: CpuId, leaves: Option<Leave>, next: &Arc<Task>) {
    match leaves {
        Some(Leave::Block | Leave::Exit) => Caller::new(engine, cpu).wake_on_this_cpu(next),
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

/// Polls a task once. Returns `None` if the CPU was handed over meanwhile; then nothing remains to
/// be done for the task. Otherwise returns the owner of the turn with the result, if that is
/// another task.
#[expect(clippy::too_many_lines, reason = "one poll; the order in which it takes and releases locks is visible")]
fn poll(
    engine: &Arc<Engine>,
    cpu: CpuId,
    epoch: u64,
    task: &Arc<Task>,
    owner: Option<Arc<Task>>,
) -> Option<(Polled, Option<Arc<Task>>)> {
    let cpu_thread = &engine.cpus[cpu.index()].thread;
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
    let latency = task.group.latency.as_deref().zip(began);
    if let Some((latency, began)) = latency
        && let Some(ready_at) = task.ready_at()
        && let ready @ 1.. = ready_at.swap(0, Ordering::Relaxed)
    {
        latency.add_wait(Instant::from_nanos(ready), began);
    }
    let poll_charge = PollCharge::of(task);
    let had = poll_charge.is_timed().then(own_cpu_time);
    let polling =
        Polling { task: Arc::clone(task), owner, began, is_seen: false, seen: None, asked: None, is_long: false };
    cpu_thread.lock().polling = Some(polling);
    coop::begin(Arc::clone(task));
    let polled = poll_job(task);
    coop::end();
    if let Some((latency, began)) = latency {
        latency.add_poll(began, engine.now());
    }
    {
        let mut cpu_thread = cpu_thread.lock();
        if cpu_thread.epoch == epoch {
            let polling = cpu_thread.polling.take();
            if polling.as_ref().is_some_and(|polling| polling.is_long) {
                cpu_thread.signals.is_long.store(false, Ordering::Relaxed);
            }
            drop(cpu_thread);
            engine.wake_held_back(&task.group);
            let Some(polling) = polling else {
                unreachable!("invariant: the poll of a CPU that was not handed over is noted")
            };
            if polling.owner.is_none() && !polling.is_seen && task.is_long.load(Ordering::Relaxed) {
                task.is_long.store(false, Ordering::Relaxed);
            }
            if let Some(began) = polling.began.filter(|_| polling.is_long) {
                engine.report_overrun(task, began);
            }
            if let Some(had) = had {
                engine.charge(task, poll_charge, own_cpu_time().saturating_sub(had));
            }
            if matches!(polled, Polled::Over) {
                task.group.owe(task.take_debt());
            }
            return Some((polled, polling.owner));
        }
    }
    // [2] For the scheduler the task is asleep. It is woken if it was notified, or if it has to
    //     exit.
    let counted = {
        let mut polls = engine.detached_polls.lock();
        let place = polls.iter().position(|other| Arc::ptr_eq(&other.task, task));
        polls.swap_remove(place.expect("invariant: a poll without a CPU is in the list")).counts
    };
    if counted {
        engine.discount_detached(&task.group);
    } else {
        engine.wake_held_back(&task.group);
    }
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
            coop::note_slowed();
        }
        let poll = body.attach();
        if let Some(due) = poll.and_then(|mut poll| poll.take_due(own_cpu_time(), engine.now())) {
            engine.charge_beside(task, due);
        }
        pay_thread();
        matches!(polled, Polled::Over) || body.is_notified()
    };
    if is_awake {
        engine.wake(task);
    }
    end_hand_over(engine);
    None
}

fn poll_job(task: &Arc<Task>) -> Polled {
    match task.abort_state() {
        Abort::Not => {}
        Abort::Asked if task.engine().drops_beside(task) => return Polled::Pending,
        Abort::Asked => task.cancel(),
        Abort::Handed => return Polled::Pending,
        Abort::Dropped => return Polled::Over,
    }
    let _budget = task.engine().reactor.budget();
    match task.poll(&mut Context::from_waker(&waker_ref(task))) {
        Poll::Pending => Polled::Pending,
        Poll::Ready(()) => Polled::Over,
    }
}

impl Engine {
    /// Accounts for the current poll of a CPU, and starts another thread for the CPU if the poll
    /// has not yielded for too long. Called at the CPU's ticks. Returns the task whose turn it is.
    pub(crate) fn watch_poll(self: &Arc<Self>, cpu: CpuId) -> Option<Arc<Task>> {
        let place = &self.cpus[cpu.index()];
        let tick = self.tick_period();
        let (current, sleeps) = {
            let mut cpu_thread = place.thread.lock();
            let current = cpu_thread.polling.as_ref().map(|polling| polling.owner.as_ref().unwrap_or(&polling.task));
            (current.cloned(), cpu_thread.sleeps(tick))
        };
        if let Some(task) = &current {
            relay::wake_riders(self, task);
        }
        if let Some(task) = &current {
            let mut queue = place.queue.lock();
            if queue.rq.current() == Some(task.id) {
                task.group.add_usage(cpu, queue.meter.take());
                if task.kind.is_fair() && !task.has_borrowed_class() {
                    // A turn can be long: it pays what its group owes meanwhile.
                    queue.meter.skip(task.group.take_debt());
                }
            }
            if sleeps && queue.rq.nr_running() > 1 {
                place.is_kicked.store(true, Ordering::SeqCst);
            }
        }
        let is_overdue = {
            let cpu_thread = &mut *place.thread.lock();
            let now = self.now();
            let tid = cpu_thread.tid;
            if self.hand_off_after.is_some()
                && let Some(polling) = &mut cpu_thread.polling
                && place.is_kicked.load(Ordering::SeqCst)
            {
                match &mut polling.asked {
                    Some(asked) => asked.tick(),
                    None => polling.asked = Some(Request::new(now, tid.and_then(Sample::of))),
                }
            }
            if let Some(polling) = &mut cpu_thread.polling {
                let began = *polling.began.get_or_insert(now);
                if std::mem::replace(&mut polling.is_seen, true) && polling.owner.is_some() {
                    polling.task.is_long.store(true, Ordering::Relaxed);
                }
                if !polling.is_long && self.overrun_after().is_some_and(|after| now.since(began) >= after) {
                    polling.is_long = true;
                    cpu_thread.signals.is_long.store(true, Ordering::Relaxed);
                }
                let (task, running) = (&polling.task, now.since(began));
                let is_spared = task.is_in_kernel() || task.is_lifted.load(Ordering::Relaxed);
                if is_spared && !self.spares(task, running) {
                    // Whether it can run without that is decided when it has yielded.
                    place.is_kicked.store(true, Ordering::SeqCst);
                }
            }
            cpu_thread.is_overdue(self.hand_off_after, tick, now)
        };
        if is_overdue && !self.keeps_for_waiters(cpu) {
            self.hand_over(cpu);
        }
        current
    }

    /// Returns whether a poll that has not yielded keeps its CPU: others wait for a lock that its
    /// task holds, and no more urgent task waits for the CPU. Without one, the holder would compete
    /// with the CPUs for a processor, and an urgent task that waits for the lock as well.
    fn keeps_for_waiters(&self, cpu: CpuId) -> bool {
        let place = &self.cpus[cpu.index()];
        let (task, is_young) = {
            let cpu_thread = place.thread.lock();
            let Some(polling) = &cpu_thread.polling else { return false };
            let sample = cpu_thread.tid.and_then(Sample::of);
            (Arc::clone(&polling.task), polling.asked.is_some_and(|asked| asked.is_young(sample)))
        };
        if !is_young || !task.holds_locks() || !task.locks().held.lock().iter().any(|lock| lock.is_wanted()) {
            return false;
        }
        let queue = place.queue.lock();
        let current = queue.rq.current();
        !queue.rq.inspect().queued().any(|(id, prio)| Some(id) != current && prio.class() != ClassId::Fair)
    }

    /// Asks another thread to take a CPU over, if there can be another one.
    fn hand_over(self: &Arc<Self>, cpu: CpuId) {
        if self.detached.fetch_add(1, Ordering::AcqRel) >= self.detached_max {
            self.detached.fetch_sub(1, Ordering::AcqRel);
            return;
        }
        if self.pool.ask(cpu) {
            return;
        }
        let engine = Arc::clone(self);
        let take_over = move || {
            try_take_over(&engine, cpu);
            wait_for_cpus(&engine);
        };
        // If no thread can be started, the poll keeps its CPU and the next tick tries again.
        if self.start("zerolag-pool".to_owned(), take_over).is_err() {
            self.detached.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// Charges the polls that go on without a CPU of the scheduler, and slows the threads down that
    /// have used much CPU time so. Called at ticks. Returns whether there are any.
    pub(crate) fn watch_detached_polls(self: &Arc<Self>) -> bool {
        let detached_polls = self.detached_polls.lock().clone();
        let are_there = !detached_polls.is_empty();
        // An urgent task waits for a lock of one of them: the others make room for it.
        let is_urgent = detached_polls.iter().any(|one| one.task.has_borrowed_class());
        let after = if is_urgent { Duration::ZERO } else { slow_after(detached_polls.len()) };
        for DetachedPoll { task, counts, began, signals } in detached_polls {
            let now = self.now();
            if self.overrun_after().is_some_and(|after| began.is_some_and(|began| now.since(began) >= after)) {
                signals.is_long.store(true, Ordering::Relaxed);
            }
            let mut body = task.body.lock();
            let Some(poll) = body.detached().filter(|poll| is_urgent || poll.look_at <= now) else { continue };
            let clock = ThreadClock::of(poll.tid).read();
            let due = clock.and_then(|clock| poll.take_due(clock, now));
            let used = poll.used(clock, now);
            poll.look_at = now + LOOK_EVERY;
            let tid = poll.tid;
            if let Some(due) = due {
                self.charge_beside(&task, due);
            }
            let (held, waits_for) = (task.locks().held.lock(), task.locks().waits_for.lock());
            if used >= after && held.is_empty() && waits_for.is_empty() && !task.is_slow.load(Ordering::Relaxed) {
                // [3] If the kernel refuses, the thread competes at its old priority.
                task.is_slow.store(true, Ordering::Relaxed);
                slow(tid);
            }
            drop((held, waits_for, body));
            if counts && (used >= COUNTS_FOR || Sample::of(tid).is_some_and(|sample| sample.sleeps)) {
                // It can have ended meanwhile.
                let counted = {
                    let mut polls = self.detached_polls.lock();
                    let poll = polls.iter_mut().find(|one| Arc::ptr_eq(&one.task, &task));
                    poll.is_some_and(|poll| std::mem::replace(&mut poll.counts, false))
                };
                if counted {
                    self.discount_detached(&task.group);
                }
            }
        }
        are_there
    }
}

impl Engine {
    /// Charges a task for CPU time that its poll has used without a CPU. The group pays with
    /// whichever of its tasks runs next, as this one can go on without end. Tasks of the root group
    /// and urgent ones pay themselves.
    fn charge_beside(&self, task: &Task, due: Duration) {
        if task.kind.is_fair() && task.group.parent.is_some() {
            task.group.charge(task.cpu(), due);
        } else {
            task.group.add_usage(task.cpu(), Measured { ran: due, lost: Duration::ZERO });
            task.owe(due);
        }
    }
}

/// Takes a CPU over from its thread if the poll there is still overdue, and serves the CPU. Returns
/// whether it did.
fn take_over(engine: &Arc<Engine>, cpu: CpuId) -> bool {
    let (detachment, epoch) = {
        let mut cpu_thread = engine.cpus[cpu.index()].thread.lock();
        let now = engine.now();
        if !cpu_thread.is_overdue(engine.hand_off_after, engine.tick_period(), now) {
            return false;
        }
        let Some(tid) = cpu_thread.tid.take() else { return false };
        let Some(Polling { task, owner, began, .. }) = cpu_thread.polling.take() else { return false };
        let look_at = now + LOOK_EVERY;
        task.body.lock().detach(now, tid, look_at); // [1]
        let signals = std::mem::take(&mut cpu_thread.signals);
        signals.is_lost.store(true, Ordering::Release);
        Engine::count_detached(&task.group);
        engine.detached_polls.lock().push(DetachedPoll { task: Arc::clone(&task), counts: true, began, signals });
        cpu_thread.epoch += 1;
        (HandOver { task, owner }, cpu_thread.epoch)
    };
    // The start of this thread, or its way out of the pool.
    engine.charge_beside(&detachment.task, take_unpaid());
    run(engine, cpu, epoch, Some(detachment));
    true
}

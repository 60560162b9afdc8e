//! Relays: a task that blocks passes its turn on to the one task that it has woken. Riders: tasks
//! that wake together share a turn.
//!
//! Two tasks that work in turns (a request and its answer, a channel with room for one, a task and
//! the one that waits for its end) switched the CPU at every message: the woken task was placed,
//! the other one left, the scheduler picked, and published each of the three. The decision was the
//! same every time: of the two tasks exactly one could run, and no other task was concerned.
//!
//! So the scheduler is not asked. The task that blocks, the *owner*, stays current for the
//! scheduler, and the woken task, the *runner*, is polled on the owner's turn. A runner that blocks
//! passes the turn on again: to the owner, which then runs on its own turn, or to a third task. The
//! turn is charged to the owner, and ends when the scheduler says so.
//!
//! ```text
//!              blocks, has woken a task [1]                 blocks, has woken a third [2]
//!                                                               +---------+
//!   owner runs ---------------------------> runner is polled ---+         |
//!        ^                                   |  |  |       ^--------------+
//!        |  blocks, has woken the owner [3]  |  |  |
//!        +-----------------------------------+  |  | kicked, yields: it takes a turn of its own,
//!        |  blocks or ends, has woken nothing:  |  | and the owner blocks [5]
//!        |  the owner blocks [4]                |  +----------------------> the scheduler picks
//!        +-- unless it was woken meanwhile -----+-------------------------> the scheduler picks
//! ```
//!
//! Rules:
//!
//! * Both are fair tasks of nice 0 in the same group, without loans, without debts of their own. So
//!   no limit, no weight and no class sees a difference; of two tasks of one group, one is charged
//!   for both. What the group owes is paid at ticks.
//! * A relay lasts as long as the turn: at most a time slice if other tasks wait for the CPU.
//! * A thread that wakes the owner, or changes the loan of either, kicks the CPU \[5\].
//! * A task whose poll was seen at two ticks is no runner before it has had a shorter one on a turn
//!   of its own: a woken owner would wait for it.
//! * A runner that ends was never on a run queue in this relay: it ends there
//!   ([`Call::ExitParked`]).
//! * There are no relays while a trace is kept, which has every switch by name.
//!
//! # Riders
//!
//! Timers wake many tasks at once. Each was placed, picked and switched to for a poll that often
//! does less than these calls. So of many equal tasks that wake at the same time for the same CPU,
//! one is placed, the *lead*, and some others *ride* on its turn: when the scheduler picks it, each
//! of them is the runner for a poll, one after the other, and then the lead has its own.
//!
//! ```text
//!                                       +--------------------+
//!   lead is picked, and has riders [6]  v                    | blocks or ends, another rides [7]
//!      -----------------------------> a rider is polled -----+
//!                                       |  |
//!   lead is polled <--- none is left ---+  +--- kicked [5]: the lead is awake, so it stays queued
//! ```
//!
//! * Until then a rider sleeps, and other threads can wake it. It is no rider then.
//! * Riders are wakeups that wait, so a tick makes them: each is placed if its turn has not come by
//!   then. Long polls are balanced among CPUs as before, a tick later.
//! * A task that has riders is not asleep, and is not polled itself before it has none.
//!
//! The states of both are those of [`life`](crate::state::life): `Owner`, `Runner` and `NewRunner`.
//! A wakeup of a runner only leaves a note.

use crate::caller::{Caller, Switched};
use crate::state::engine::Engine;
use crate::state::life::Charge;
use crate::state::task::Task;
use crate::switch::{note_switch, schedule};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use zerolag_core::Leave;
use zerolag_core::call::Call;
use zerolag_model::CpuId;

/// The task that a CPU polls next, and the owner of the turn if that is another one.
pub(crate) type NextPoll = (Option<Arc<Task>>, Option<Arc<Task>>);

/// Makes a task the runner of a turn, if it sleeps and is like the owner.
fn try_run_on_turn(cpu: CpuId, owner: &Task, runner: &Task) -> bool {
    if !runner.can_relay()
        || runner.is_bound()
        || runner.is_long.load(Ordering::Relaxed)
        || !Arc::ptr_eq(&owner.group, &runner.group)
    {
        return false;
    }
    let mut body = runner.body.lock();
    if !body.sleeps() || runner.owes() {
        return false;
    }
    body.run_on_turn();
    drop(body);
    runner.last_cpu.store(cpu.0, Ordering::Relaxed);
    true
}

/// Makes the next rider of a turn its runner. One that cannot be is woken.
fn next_rider(engine: &Arc<Engine>, cpu: CpuId, lead: &Task) -> Option<Arc<Task>> {
    while let Some(rider) = lead.take_rider() {
        if engine.can_relay() && try_run_on_turn(cpu, lead, &rider) {
            return Some(rider);
        }
        engine.wake(&rider);
    }
    None
}

/// Wakes the riders of a task: they do not run on its turn.
pub(crate) fn wake_riders(engine: &Arc<Engine>, lead: &Task) {
    while let Some(rider) = lead.take_rider() {
        engine.wake(&rider);
    }
}

/// Returns the task that is polled first on the turn of a picked task, and the owner of the turn if
/// that is another one.
pub(crate) fn start_riders(engine: &Arc<Engine>, cpu: CpuId, lead: Arc<Task>) -> (Arc<Task>, Option<Arc<Task>>) {
    if !engine.can_relay() || !lead.can_relay() {
        wake_riders(engine, &lead);
        return (lead, None);
    }
    {
        let mut body = lead.body.lock();
        // It was woken, and keeps its turn at the end of the relay. [6]
        body.lend_turn();
        body.notify();
    }
    match next_rider(engine, cpu, &lead) {
        Some(rider) => {
            // The time of the switch is not when the lead's own poll begins.
            engine.cpus[cpu.index()].began.store(0, Ordering::Relaxed);
            (rider, Some(lead))
        }
        None => {
            lead.body.lock().get_turn_back();
            (lead, None)
        }
    }
}

/// Lets a task that blocks pass its turn on to `next`; returns whether it has. \[1\]
pub(crate) fn pass_on(engine: &Engine, cpu: CpuId, owner: &Task, next: &Task) -> bool {
    if !engine.can_relay() || !owner.can_relay() {
        return false;
    }
    {
        let mut body = owner.body.lock();
        if body.is_notified() {
            return false;
        }
        body.lend_turn();
    }
    let is_passed = try_run_on_turn(cpu, owner, next);
    if !is_passed {
        owner.body.lock().get_turn_back();
    }
    is_passed
}

/// Goes on after a runner that has blocked, or ended; `next` is the task that its poll has woken.
pub(crate) fn next_on_turn(
    engine: &Arc<Engine>,
    cpu: CpuId,
    owner: Arc<Task>,
    runner: Arc<Task>,
    why: Leave,
    next: Option<Arc<Task>>,
) -> NextPoll {
    if why == Leave::Exit {
        exit_runner(engine, cpu, &runner);
    } else {
        let blocks = runner.body.lock().block_runner();
        if !blocks {
            if let Some(next) = next {
                engine.wake(&next);
            }
            return (Some(runner), Some(owner));
        }
    }
    if let Some(next) = &next {
        if Arc::ptr_eq(next, &owner) {
            owner.body.lock().get_turn_back(); // [3]
            return (Some(owner), None);
        }
        if try_run_on_turn(cpu, &owner, next) {
            return (Some(Arc::clone(next)), Some(owner)); // [2]
        }
    }
    if let Some(rider) = next_rider(engine, cpu, &owner) {
        if let Some(next) = next {
            engine.wake(&next);
        }
        return (Some(rider), Some(owner)); // [7]
    }
    owner.body.lock().get_turn_back();
    if let Some(next) = next {
        Caller::new(engine, cpu).wake_on_this_cpu(&next);
    }
    // [4] It stays if it was woken.
    (schedule(engine, cpu, Some(owner), Leave::Block), None)
}

/// Ends a runner whose future is done.
fn exit_runner(engine: &Arc<Engine>, cpu: CpuId, runner: &Arc<Task>) {
    let mut caller = Caller::new(engine, cpu);
    caller.hand = Some(runner.body.lock().exit_runner());
    caller.make(Call::ExitParked { task: runner.id });
    let body = caller.hand.take().expect("invariant: the call leaves the parcel in `hand`");
    drop(caller);
    engine.free_task(runner, body);
}

/// Gives a runner that is awake a turn of its own, and lets the scheduler pick. \[5\]
pub(crate) fn end_relay(engine: &Arc<Engine>, cpu: CpuId, owner: Arc<Task>, runner: &Arc<Task>) -> Option<Arc<Task>> {
    let mut caller = Caller::new(engine, cpu);
    let queue = engine.cpus[cpu.index()].queue.lock();
    let (parcel, why) = runner.body.lock().take_runner();
    caller.hand = Some(parcel);
    caller.place_on(cpu, queue, runner.id, why);
    drop(caller);
    let why = {
        let mut body = owner.body.lock();
        body.get_turn_back();
        if body.is_notified() { Leave::Preempted } else { Leave::Block }
    };
    schedule(engine, cpu, Some(owner), why)
}

/// Makes the owner leave after its CPU was handed over in the middle of a runner's poll, and
/// switches to the next task. What the runner's thread uses from here on is the runner's debt.
pub(crate) fn hand_over_turn(engine: &Arc<Engine>, cpu: CpuId, owner: Arc<Task>, runner: &Task) -> Option<Arc<Task>> {
    owner.body.lock().get_turn_back();
    let mut caller = Caller::new(engine, cpu);
    let switched = caller.switch(Some(&owner), Leave::Block);
    let had = caller.had;
    drop(caller);
    if let Some(poll) = runner.body.lock().detached() {
        poll.charge = Charge::ByThread(had);
    }
    match switched {
        Switched::Stays => Some(owner),
        Switched::To(next) => note_switch(engine, cpu, next),
    }
}

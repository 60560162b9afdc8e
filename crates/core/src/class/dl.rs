//! The deadline class: SCHED_DEADLINE on one CPU, earliest deadline first. The budget of a task is
//! kept by its [`entity`](crate::entity::dl), admission is in
//! [`admission`](crate::entry::admission), and migration is in [`dl_push`](crate::balance::dl_push)
//! and [`dl_pull`](crate::balance::dl_pull).
//!
//! A deadline entity is a task or a [server](dl_server), which runs the task that its class would
//! run.
//!
//! The entity with the earliest absolute deadline runs. Among equals the one that was enqueued
//! first runs; only an earlier deadline preempts. The current task stays queued. A *throttled* task
//! stays on its run queue, but does not count as running there: it waits in a queue of its own, and
//! one timer per CPU ([`RqTimer::Replenish`]) is armed for the first of that queue. Each call of
//! the timer replenishes one task; if more are due, the timer is armed again at once.
//!
//! The bandwidth that the tasks have reserved, and its active part, are in [`dl_sums`]. A task with
//! `SCHED_FLAG_RECLAIM` spends its budget the slower the more of that bandwidth is unused.
//!
//! An exhausted budget takes effect at the tick, or at once with `enforce.dl = exact`: the CPU is
//! asked to reschedule, and the task is throttled when the CPU leaves it. The exec time until then
//! is debt. A lock holder that a deadline task waits for runs with that task's parameters and is
//! not throttled. It can be of another class itself; then it has no reserved bandwidth.
//!
//! Enqueueing, throttling and picking are O(log n).
//!
//! Sources: Linux v6.12 `kernel/sched/deadline.c` (`enqueue_task_dl`, `update_curr_dl`,
//! `dl_task_timer`, `yield_task_dl`, `wakeup_preempt_dl`, `select_task_rq_dl`). differs: an
//! exhausted budget is acted on only when the CPU reschedules, not while the task runs on.

use crate::class::{dl_server, dl_sums, rt};
use crate::entity::dl::{DlState, Overrun};
use crate::queue::dl::server::ServedBy;
use crate::queue::dl::sums::{Note, Then};
use crate::rq::cx::Cx;
use crate::rq::run_queue::Rq;
use crate::shared::state::Shared;
use crate::task::body::Task;
use crate::task::deadline;
use crate::words::bandwidth::{Bandwidth, Reserved};
use crate::words::ids::Slot;
use crate::words::life::{Dequeue, Enqueue};
use crate::words::lines::LineAccess;
use crate::words::op::{Op, RqTimer};
use crate::words::resched::Resched;
use crate::words::unpublished::Unpublished;
use lock_api::RawMutex;
use zerolag_model::settings::TimerGrain;
use zerolag_model::{ClassId, Duration, Instant, ServerKind, Settings, TraceEvent};

/// Enqueues a task, ready or throttled.
pub(crate) fn enqueue<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot, why: Enqueue) {
    rq.note(Unpublished::DL_QUEUED);
    let (now, runs) = (cx.now.wall, rq.current_slot() == Some(slot));
    join(rq, cx, slot);
    let task = &mut rq.tasks[slot];
    let params = deadline::params(task);
    let (id, dl) = (task.id, &mut *task.dl);
    let (was_throttled, deadline) = (dl.is_throttled(), dl.abs_deadline);
    match (why, dl.state) {
        (Enqueue::Wakeup | Enqueue::Sync | Enqueue::New, _) | (_, DlState::Fresh) => dl.activate(params, now),
        (Enqueue::Changed, DlState::Left { .. }) => dl.come_back(params, now, runs),
        (_, DlState::Throttled { until }) if until <= now => {
            dl.replenish(params, now); // [8] its timer was on another CPU
        }
        (Enqueue::Migrated | Enqueue::Changed | Enqueue::Dispatched, _) => {}
    }
    let (state, left) = (dl.state, dl.runtime_left);
    if dl.abs_deadline != deadline {
        trace_job(rq, cx, slot);
    }
    match state {
        DlState::Contending => enqueue_ready(rq, cx, slot),
        DlState::Throttled { until } => {
            if !was_throttled {
                cx.io.event(cx.now, rq.cpu(), || TraceEvent::DlThrottle { task: id, until, left });
            }
            enqueue_throttled(rq, cx, slot, until);
        }
        DlState::Fresh | DlState::NonContending { .. } | DlState::Inactive { .. } | DlState::Left { .. } => {
            unreachable!("a queued entity contends or is throttled")
        }
    }
    if rq.dl.reclaims {
        rate_changed(rq, cx);
    }
}

/// Makes the bandwidth of a task that is about to be enqueued belong here and active
/// (`task_contending`).
fn join<L: RawMutex>(rq: &mut Rq, cx: &Cx<'_, L>, slot: Slot) {
    dl_sums::read_notes(rq, cx);
    let task = &rq.tasks[slot];
    let (id, dl) = (task.id, &*task.dl);
    let bandwidth = dl.bandwidth();
    let place = match dl.state {
        DlState::NonContending { place, .. } => Some(place),
        DlState::Inactive { .. }
        | DlState::Fresh
        | DlState::Contending
        | DlState::Throttled { .. }
        | DlState::Left { .. } => None,
    };
    match dl.sleeps_on() {
        Some(cpu) if cpu == rq.cpu() => rq.dl.sums.wake(id, bandwidth, place),
        Some(cpu) => {
            cx.shared.leave_dl_note(cpu, Note { task: id, gone: bandwidth, come: Bandwidth(0) });
            rq.dl.sums.join(bandwidth);
        }
        None => rq.dl.sums.join(bandwidth),
    }
}

/// Retires the bandwidth of a task that blocks or ends: it stays active until the 0-lag time
/// (`task_non_contending`).
fn retire(rq: &mut Rq, now: Instant, slot: Slot, then: Then) -> DlState {
    let on = rq.cpu();
    let task = &rq.tasks[slot];
    let Some(own) = deadline::own_params(task) else { return DlState::Inactive { on } };
    let dl = &*task.dl;
    let (bandwidth, until) = (dl.bandwidth(), dl.zero_lag(own));
    if now < until {
        let place = rq.dl.sums.linger(task.id, bandwidth, until, then);
        return DlState::NonContending { on, place };
    }
    match then {
        Then::Inactive => rq.dl.sums.rest(bandwidth),
        Then::Gone => rq.dl.sums.quit(bandwidth),
    }
    DlState::Inactive { on }
}

/// Traces the start of a job.
pub(crate) fn trace_job<L: RawMutex>(rq: &Rq, cx: &mut Cx<'_, L>, slot: Slot) {
    let task = &rq.tasks[slot];
    let (id, dl) = (task.id, &*task.dl);
    let (deadline, budget) = (dl.abs_deadline, dl.runtime_left);
    cx.io.event(cx.now, rq.cpu(), || TraceEvent::DlReplenish { task: id, deadline, budget });
}

fn enqueue_ready<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot) {
    let was_empty = rq.dl.is_empty();
    rq.dl.push_ready(&mut rq.tasks, slot);
    if rq.current_slot() != Some(slot) {
        add_pushable(rq, cx, slot);
    }
    if was_empty {
        rq.note(Unpublished::PRIOS);
        rt::deadline_came_or_went(rq, cx);
    }
}

fn dequeue_ready<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot) {
    let was_queued = rq.dl.ready.remove(&mut rq.tasks, slot);
    assert!(was_queued, "a task that contends is queued");
    remove_pushable(rq, cx, slot);
    if rq.dl.is_empty() {
        rq.note(Unpublished::PRIOS);
        rt::deadline_came_or_went(rq, cx);
    }
}

/// Enqueues a throttled task, which does not count as running.
fn enqueue_throttled<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot, until: Instant) {
    let seq = rq.dl.take_seq();
    rq.dl.throttled.insert(&mut rq.tasks, slot, until, seq);
    set_timer(rq, cx);
}

fn dequeue_throttled<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot) {
    let was_throttled = rq.dl.throttled.remove(&mut rq.tasks, slot);
    assert!(was_throttled, "a throttled task waits for its budget");
    set_timer(rq, cx);
}

/// Dequeues a task, ready or throttled.
pub(crate) fn dequeue<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot, why: Dequeue) {
    rq.note(Unpublished::DL_QUEUED);
    match rq.tasks[slot].dl.state {
        DlState::Contending => dequeue_ready(rq, cx, slot),
        DlState::Throttled { .. } => dequeue_throttled(rq, cx, slot),
        DlState::Fresh | DlState::NonContending { .. } | DlState::Inactive { .. } | DlState::Left { .. } => {
            unreachable!("a queued entity contends or is throttled")
        }
    }
    let bandwidth = deadline::bandwidth_of(&rq.tasks[slot]);
    match why {
        Dequeue::Sleep => {
            let state = retire(rq, cx.now.wall, slot, Then::Inactive);
            rq.tasks[slot].dl.block(state);
        }
        Dequeue::Exit => {
            let _ = retire(rq, cx.now.wall, slot, Then::Gone);
        }
        Dequeue::Migrate => {
            let now = cx.now.wall;
            let task = &mut rq.tasks[slot];
            let params = deadline::params(task);
            task.dl.migrate(params, now);
            rq.dl.sums.quit(bandwidth);
        }
        Dequeue::Change => rq.dl.sums.quit(bandwidth),
    }
    if rq.dl.reclaims {
        rate_changed(rq, cx);
    }
}

/// Adapts the budget timer of a reclaiming current task: its rate has changed, so its budget lasts
/// for a shorter or a longer time. The kernel's timer stays.
fn rate_changed<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) {
    if cx.config.settings.enforce_dl != TimerGrain::Exact {
        return;
    }
    if let Some(slot) = rq
        .current_slot()
        .filter(|slot| deadline::is_contending(&rq.tasks[*slot]) && deadline::reclaims(&rq.tasks[*slot]))
    {
        arm_budget(rq, cx, slot);
    }
}

/// Handles the switch away from a current task that is still runnable and ran by a deadline, its
/// own or a server's. `asked` is the server that the switch asked for its task.
#[inline(never)]
pub(crate) fn put_back<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot, asked: Option<ServerKind>) {
    let task = &rq.tasks[slot];
    if task.prio.class() == ClassId::Deadline && task.dl.is_exhausted() {
        throttle_current(rq, cx, slot);
    }
    if let Some(kind) = asked {
        dl_server::overlook(rq, cx, kind);
    }
}

/// Throttles the current task until its next period, because it has exhausted its budget or gives
/// it up (`sched_yield`). If that period is due, it begins at once.
pub(crate) fn throttle_current<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot) {
    rq.note(Unpublished::DL_QUEUED);
    assert!(rq.current_slot() == Some(slot), "only the current task spends its budget");
    let now = cx.now.wall;
    dequeue_ready(rq, cx, slot);
    let task = &mut rq.tasks[slot];
    let params = deadline::params(task);
    let wants_overrun = deadline::wants_overrun(task);
    let dl = &mut *task.dl;
    if wants_overrun && dl.is_exhausted() {
        dl.overrun = Overrun::Pending;
    }
    let until = dl.throttle(params);
    if until <= now || dl.boost.is_some() {
        dl.replenish(params, now);
        trace_job(rq, cx, slot);
        enqueue_ready(rq, cx, slot);
        arm_budget(rq, cx, slot); // If the task runs on, no switch does that.
        return;
    }
    let (id, left) = (task.id, dl.runtime_left);
    task.last_ran = now;
    rq.quit_current(slot);
    rq.dl.reclaims = false;
    cx.io.event(cx.now, rq.cpu(), || TraceEvent::DlThrottle { task: id, until, left });
    enqueue_throttled(rq, cx, slot, until);
}

/// Replenishes the first throttled task if it is due. Arms the timer for the next one.
pub(crate) fn replenish_due<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) -> Option<Slot> {
    rq.note(Unpublished::DL_QUEUED);
    let now = cx.now.wall;
    rq.dl.timer = None;
    let due = rq.dl.throttled.first().filter(|(until, _)| *until <= now).map(|(_, slot)| slot);
    let Some(slot) = due else {
        set_timer(rq, cx);
        return None;
    };
    dequeue_throttled(rq, cx, slot);
    let task = &mut rq.tasks[slot];
    let params = deadline::params(task);
    task.dl.replenish(params, now);
    trace_job(rq, cx, slot);
    enqueue_ready(rq, cx, slot);
    Some(slot)
}

/// Keeps the replenishment timer at the first throttled task.
fn set_timer<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) {
    let wanted = rq.dl.throttled.first().map(|(until, _)| until);
    if wanted == rq.dl.timer {
        return;
    }
    rq.dl.timer = wanted;
    let (cpu, timer) = (rq.cpu(), RqTimer::Replenish);
    cx.io.op(match wanted {
        Some(at) => Op::ArmTimer { cpu, timer, at },
        None => Op::CancelTimer { cpu, timer },
    });
}

fn add_pushable<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot) {
    let task = &rq.tasks[slot];
    if task.can_migrate(cx.shared.nr_cpus()) {
        let (at, seq) = (task.dl.abs_deadline, task.dl.seq);
        // The bit first: the last call saves no registers.
        if !rq.dl.is_in_mask && rq.is_online() {
            change_overload(rq, cx, true);
        }
        rq.dl.pushable.insert(&mut rq.tasks, slot, at, seq);
    }
}

#[inline(always)]
fn remove_pushable<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot) {
    if rq.dl.has_pushable() && rq.dl.pushable.remove(&mut rq.tasks, slot) {
        update_overload(rq, cx);
    }
}

/// Keeps this CPU's bit in the overload mask of the root domain (`dlo_mask`): set while a waiting
/// task could run elsewhere.
#[inline(always)]
fn update_overload<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) {
    let overloaded = rq.is_online() && rq.dl.has_pushable();
    if overloaded != rq.dl.is_in_mask {
        change_overload(rq, cx, overloaded);
    }
}

#[inline(never)]
fn change_overload<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, overloaded: bool) {
    rq.dl.is_in_mask = overloaded;
    if !cx.io.observer.is_off() {
        return change_overload_observed(rq, cx, overloaded);
    }
    cx.shared.domain(rq.cpu()).dl_overload.assign(rq.cpu(), overloaded);
}

/// Ends with its caller's work, so that the caller saves no registers for it.
#[cold]
#[inline(never)]
fn change_overload_observed<L: RawMutex>(rq: &Rq, cx: &mut Cx<'_, L>, overloaded: bool) {
    cx.io.log(LineAccess::DeadlineOverload { cpu: rq.cpu() });
    cx.shared.domain(rq.cpu()).dl_overload.assign(rq.cpu(), overloaded);
}

/// Takes the CPU out of the overload mask, regardless of waiting tasks.
pub(crate) fn leave_overload<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) {
    if core::mem::take(&mut rq.dl.is_in_mask) {
        cx.shared.domain(rq.cpu()).dl_overload.remove(rq.cpu());
    }
}

/// Adapts the overload mask after the CPU went offline or online: only an online CPU is pulled
/// from.
pub(crate) fn online_changed<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) {
    rq.note(Unpublished::DL_QUEUED);
    update_overload(rq, cx);
}

/// Returns whether the CPU belongs in the overload mask; for checks.
pub(crate) const fn is_overloaded(rq: &Rq) -> bool {
    rq.is_online() && rq.dl.has_pushable()
}

/// Changes the allowed CPUs of a queued task.
pub(crate) fn change_allowed<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot, change: impl FnOnce(&mut Task)) {
    rq.note(Unpublished::DEADLINES);
    remove_pushable(rq, cx, slot);
    change(&mut rq.tasks[slot]);
    if rq.current_slot() != Some(slot) && deadline::is_contending(&rq.tasks[slot]) {
        add_pushable(rq, cx, slot);
    }
}

/// Changes the parameters of a deadline task on a run queue. Its current job continues as it is.
pub(crate) fn change_reserved(rq: &mut Rq, slot: Slot, had: Reserved, reserved: Reserved) {
    rq.tasks[slot].dl.reserved = Some(reserved);
    rq.dl.sums.change(had.bandwidth, reserved.bandwidth);
}

/// Applies changed flags of the current task.
pub(crate) fn flags_changed<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot) {
    rq.dl.reclaims = deadline::reclaims(&rq.tasks[slot]);
    arm_budget(rq, cx, slot);
}

/// Changes the parameters of a sleeping deadline task; `has` is `None` if it has left the class.
/// Tells the CPU where the task blocked.
pub(crate) fn change_asleep<L: RawMutex>(shared: &Shared<L>, task: &mut Task, had: Reserved, has: Option<Reserved>) {
    let Some(on) = task.dl.sleeps_on() else { return };
    let come = has.map_or(Bandwidth::default(), |has| has.bandwidth);
    if come == had.bandwidth {
        return;
    }
    shared.leave_dl_note(on, Note { task: task.id, gone: had.bandwidth, come });
    task.dl.state = DlState::Inactive { on };
}

/// Returns the server that a switch would ask now for its task, if the server runs the current
/// task.
#[inline(always)]
pub(crate) fn asked(rq: &Rq) -> Option<ServerKind> {
    rq.dl.serving.and_then(ServedBy::kind).filter(|kind| rq.dl.is_first(*kind))
}

/// Ends the service of the current task if it has left the class, or the group, of the server that
/// ran it. It then runs by its own class.
///
/// differs: in the kernel it keeps the server until the next switch (`p->dl_server`).
pub(crate) fn stop_serving(rq: &mut Rq, slot: Slot) {
    let class = rq.tasks[slot].prio.class();
    let has_left = |by: ServedBy| match by {
        ServedBy::Class(kind) => kind.class() != class || rq.tasks.seat(slot).local.is_some(),
        ServedBy::Group(at) => rq.tasks.seat(slot).local != Some(at),
    };
    if rq.dl.serving.is_some_and(has_left) {
        rq.note(Unpublished::PRIOS);
        rq.dl.serving = None;
    }
}

/// Returns whether a deadline entity precedes the current task.
///
/// Linux v6.12 `kernel/sched/deadline.c`, `prio_changed_dl`.
pub(crate) fn is_overtaken(rq: &Rq) -> bool {
    rq.dl.earliest().is_some_and(|earliest| rq.current_deadline().is_none_or(|current| earliest < current))
}

/// Makes a queued task the current one: it is no longer pushable.
pub(crate) fn set_next<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot) {
    rq.note(Unpublished::DEADLINES);
    remove_pushable(rq, cx, slot);
    rq.dl.reclaims = deadline::reclaims(&rq.tasks[slot]);
    arm_budget(rq, cx, slot);
}

/// Handles the switch away from a task that stays queued: it becomes pushable.
pub(crate) fn put_prev<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot) {
    settle(rq, cx); // Another task could wake since the CPU left this one.
    rq.note(Unpublished::DEADLINES);
    rq.dl.reclaims = false;
    if !rq.dl.pushable.contains(&rq.tasks, slot) {
        add_pushable(rq, cx, slot);
    }
}

/// Returns whether a task that was just queued preempts the current deadline task.
pub(crate) fn check_preempt(rq: &Rq, woken: Slot) -> Resched {
    let is_earlier = rq.current_deadline().is_none_or(|current| rq.tasks[woken].dl.abs_deadline < current);
    if is_earlier { Resched::Now } else { Resched::No }
}

/// Charges exec time to the budget. That of a task that reclaims is charged later ([`settle`]).
#[inline]
pub(crate) fn charge(rq: &mut Rq, slot: Slot, delta: Duration) {
    let task = &mut rq.tasks[slot];
    if deadline::reclaims(task) { rq.dl.uncharged += delta } else { task.dl.charge(delta) }
}

/// Charges the budget of a reclaiming current task for its exec time since the last time, all of it
/// at the present rate. O(servers + sleeping tasks).
///
/// Linux v6.12 `kernel/sched/deadline.c`, `update_curr_dl`, `grub_reclaim`.
#[inline(always)]
pub(crate) fn settle<L: RawMutex>(rq: &mut Rq, cx: &Cx<'_, L>) {
    if !rq.dl.uncharged.is_zero() {
        settle_reclaiming(rq, cx);
    }
}

#[cold]
#[inline(never)]
fn settle_reclaiming<L: RawMutex>(rq: &mut Rq, cx: &Cx<'_, L>) {
    let delta = core::mem::take(&mut rq.dl.uncharged);
    if let Some(slot) = rq.current_slot() {
        let delta = dl_sums::reclaimed(rq, cx, slot, delta);
        rq.tasks[slot].dl.charge(delta);
    }
}

/// Tells the current task at the tick that it has exhausted a budget (SIGXCPU), if it asked for
/// that.
///
/// Linux v6.12 `kernel/time/posix-cpu-timers.c`, `check_dl_overrun`: at the first tick that finds
/// the task running afterwards.
pub(crate) fn tell_overrun<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot) {
    let task = &mut rq.tasks[slot];
    match core::mem::take(&mut task.dl.overrun) {
        Overrun::None => {}
        Overrun::Pending => {
            let id = task.id;
            cx.io.event(cx.now, rq.cpu(), || TraceEvent::DlOverrun { task: id });
        }
    }
}

/// Requests a reschedule if the budget of the current task is exhausted, at a tick.
pub(crate) fn tick<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot) -> Resched {
    if rq.tasks[slot].dl.is_exhausted() {
        return Resched::Now;
    }
    if cx.config.settings.enforce_dl == TimerGrain::Exact {
        arm_budget_timer(rq, cx, slot);
    }
    Resched::No
}

/// As [`tick`], when the timer of the budget fires. It is set again if it was early: the task clock
/// stood still during interrupts, or the task reclaims.
pub(crate) fn hrtick<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot) -> Resched {
    if rq.tasks[slot].dl.is_exhausted() {
        return Resched::Now;
    }
    arm_budget(rq, cx, slot);
    Resched::No
}

/// Arms the timer that ends the budget of the current task, unless only ticks look at it.
#[inline]
fn arm_budget<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot) {
    match cx.config.settings.enforce_dl {
        TimerGrain::Hrtick | TimerGrain::Exact => arm_budget_timer(rq, cx, slot),
        TimerGrain::Tick => {}
    }
}

/// With `hrtick` the timer is set to the remaining budget also for a task that reclaims and spends
/// it more slowly, so it fires again and again (Linux v7.1 `start_hrtick_dl`, `task_tick_dl`).
fn arm_budget_timer<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot) {
    let left = rq.tasks[slot].dl.runtime_left.max_zero();
    let left = match cx.config.settings.enforce_dl {
        TimerGrain::Hrtick => left.max(Settings::SHORTEST_HRTICK),
        TimerGrain::Exact | TimerGrain::Tick if rq.dl.reclaims => {
            dl_sums::time_of(rq, cx, slot, left).saturating_sub(rq.dl.uncharged)
        }
        TimerGrain::Exact | TimerGrain::Tick => left,
    };
    let at = cx.now.wall.saturating_add(left);
    cx.io.op(Op::ArmTimer { cpu: rq.cpu(), timer: RqTimer::Slice, at });
}

//! Real-time tasks of groups with a deadline server per CPU (`rt_group_sched = hcbs`, HCBS): a
//! hierarchical constant bandwidth server.
//!
//! RT groups of cgroup v1 ([`rt_groups`](super::rt_groups)) count the time of a group and stop it
//! when it has run too long. A limit is not a guarantee: what a group gets depends on the tasks of
//! all other groups, and the analysis of one group needs all of them. A server has both: a group
//! gets its runtime in every period whatever others do, and no more.
//!
//! * The tasks of a group are in a local queue per CPU, by priority. The queue has a deadline
//!   server, which competes by EDF with deadline tasks and other servers. So it runs *before* the
//!   FIFO and RR tasks of the root group.
//! * The server is immediate. It is started when its queue gets its first task, and stopped when it
//!   is picked without a task and finds none on other CPUs.
//! * A group without a budget of its own (`max`) uses the servers of the nearest group above that
//!   has one, its *context*; if there is none, its tasks are in the CPU's own queue.
//! * The servers of a group have its budget less those of the contexts right below it.
//!
//! ```text
//!            [1] a task comes to the empty queue, by the CBS wakeup rule
//!   Stopped -------------------------------------------------> Queued
//!      |  ^------------- [4] picked without a task ------------- |  ^
//!      |                                        [5] runtime      v  |  [6] the period ends:
//!      +--- [1] with debt --------------------> exhausted: Throttled        replenished
//! ```
//!
//! The rules of a server, \[1\] to \[6\], are those of [`dl_server`](super::dl_server), of which a
//! group's server is the simplest case. Only the tasks of its queue are charged to it.
//!
//! Sources: HCBS v6 (RFC of 2026-06-08 on 7.1, 20260608121546.69910), patches 1 (a period that is
//! over is replenished at once), 14 (`rt_server_pick`, `enqueue_task_rt`, `update_curr_rt`,
//! `inc_rt_prio_smp`), 15 (`wakeup_preempt_rt`), 17 (`active_context`, `dl_init_tg`), 20 to 22
//! (migration); Abeni, Balsini & Cucinotta 2019, "Container-based real-time scheduling in the Linux
//! kernel". differs: a task that wakes in a group without runtime left asks for no reschedule,
//! which would find nothing; a server's timer is one of the CPU, set to the earliest.

use crate::class::rt;
use crate::queue::dl::server::{ServedBy, Server, ServerPhase, Since};
use crate::queue::rt::local::{LocalQueue, LocalQueues};
use crate::queue::rt::prio_queue::QueueEnd;
use crate::rq::cx::Cx;
use crate::rq::run_queue::Rq;
use crate::shared::rt_served::PublishedLocal;
use crate::task::body::Task;
use crate::words::ids::{LocalIx, Slot};
use crate::words::op::{Op, RqTimer};
use crate::words::resched::Resched;
use crate::words::unpublished::Unpublished;
use lock_api::RawMutex;
use zerolag_model::settings::TimerGrain;
use zerolag_model::{Duration, GroupId, Instant, TraceEvent};

pub(crate) fn queues(rq: &Rq) -> &LocalQueues {
    rq.rt.local.as_ref().expect("invariant: groups have servers")
}

pub(crate) fn queues_mut(rq: &mut Rq) -> &mut LocalQueues {
    rq.rt.local.as_mut().expect("invariant: groups have servers")
}

/// Returns the queue for the real-time tasks of a group here; `None` is the CPU's own.
fn home_of<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, group: GroupId) -> Option<LocalIx> {
    if group == GroupId::ROOT {
        return None;
    }
    let shared = cx.shared;
    let context = GroupId(cx.io.observer.u64(|| u64::from(shared.served.context(group).0)) as u32);
    (context != GroupId::ROOT).then(|| queue_of(rq, cx, context))
}

/// Returns the queue of a context here; makes it if there is none.
fn queue_of<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, context: GroupId) -> LocalIx {
    let generation = cx.shared.groups.generation(context);
    let known = queues(rq).find(context);
    if let Some(at) = known.filter(|at| queues(rq).queue(*at).generation == generation) {
        return at;
    }
    let queue = LocalQueue::new(context, generation);
    let at = match known {
        Some(at) => {
            assert!(queues(rq).queue(at).nr_running == 0, "group {context} was removed with real-time tasks");
            if rq.dl.group(at).state.is_started() {
                stop(rq, cx, at);
            }
            *queues_mut(rq).queue_mut(at) = queue;
            at
        }
        None => {
            rq.dl.groups.push(Server::new(cx.shared.served.params(context)));
            queues_mut(rq).push(queue)
        }
    };
    adopt(rq, cx, at);
    at
}

/// Takes over the parameters of a stopped server. It begins a new period when it is started
/// (`dl_init_tg`).
fn adopt<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, at: LocalIx) {
    let (shared, group) = (cx.shared, queues(rq).queue(at).group);
    let mut read = |nanos: fn(zerolag_model::ServerParams) -> Duration| {
        Duration::from_nanos(cx.io.observer.u64(|| nanos(shared.served.params(group)).as_nanos()))
    };
    let (runtime, period) = (read(|params| params.runtime), read(|params| params.period));
    let server = rq.dl.group_mut(at);
    server.params = zerolag_model::ServerParams { runtime, period, ..server.params };
    server.runtime_left = zerolag_model::SignedDuration::default();
    server.abs_deadline = Instant::ZERO;
    server.left_when_stopped = server.runtime_left;
}

/// Enqueues a real-time task, in the queue of its group or in that of the CPU.
#[inline(always)]
pub(crate) fn enqueue<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot, end: QueueEnd) {
    if rq.rt.local.is_some() && enqueue_served(rq, cx, slot, end) {
        return;
    }
    match end {
        QueueEnd::Back => rt::enqueue(rq, cx, slot),
        QueueEnd::Front => rt::enqueue_first(rq, cx, slot),
    }
}

#[cold]
#[inline(never)]
fn enqueue_served<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot, end: QueueEnd) -> bool {
    let group = rq.tasks[slot].group;
    let Some(at) = home_of(rq, cx, group) else { return false };
    rq.note(Unpublished::PRIOS);
    rq.tasks.seat_or_new(slot).local = Some(at);
    let can_wait = rq.current_slot() != Some(slot) && rq.tasks[slot].can_migrate(cx.shared.nr_cpus());
    let local = rq.rt.local.as_mut().expect("invariant: groups have servers");
    let queue = local.queue_mut(at);
    queue.run.insert(&mut rq.tasks, slot, end);
    queue.nr_running += 1;
    queue.has_searched = false;
    if can_wait {
        queue.pushable.insert(&mut rq.tasks, slot, end);
    }
    if rq.tasks[slot].rt.slice_left.is_zero() {
        rq.tasks[slot].rt.slice_left = cx.config.settings.rr_timeslice;
    }
    start(rq, cx, at); // [1]
    follow(rq, cx, at);
    true
}

/// Dequeues a real-time task.
#[inline(always)]
pub(crate) fn dequeue<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot) {
    match rt::local_of(rq, slot) {
        None => rt::dequeue(rq, cx, slot),
        Some(at) => dequeue_served(rq, cx, slot, at),
    }
}

#[cold]
#[inline(never)]
fn dequeue_served<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot, at: LocalIx) {
    rq.note(Unpublished::PRIOS);
    let (is_current, prio) = (rq.current_slot() == Some(slot), rq.tasks[slot].prio);
    let local = rq.rt.local.as_mut().expect("invariant: groups have servers");
    if is_current {
        local.left = Some((at, prio));
    }
    let queue = local.queue_mut(at);
    let was_queued = queue.run.remove(&mut rq.tasks, slot);
    assert!(was_queued, "a task that is dequeued was queued");
    queue.pushable.remove(&mut rq.tasks, slot);
    queue.nr_running -= 1;
    rq.tasks.seat_mut(slot).local = None;
    follow(rq, cx, at);
}

/// Changes the allowed CPUs of a queued task, which keeps its place among its equals.
pub(crate) fn change_allowed<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot, change: impl FnOnce(&mut Task)) {
    let Some(at) = rt::local_of(rq, slot) else { return rt::change_allowed(rq, cx, slot, change) };
    change(&mut rq.tasks[slot]);
    let can_wait = rq.current_slot() != Some(slot) && rq.tasks[slot].can_migrate(cx.shared.nr_cpus());
    set_pushable(rq, slot, at, can_wait);
    follow(rq, cx, at);
}

fn set_pushable(rq: &mut Rq, slot: Slot, at: LocalIx, can_wait: bool) {
    let local = rq.rt.local.as_mut().expect("invariant: groups have servers");
    let pushable = &mut local.queue_mut(at).pushable;
    pushable.remove(&mut rq.tasks, slot);
    if can_wait {
        pushable.insert(&mut rq.tasks, slot, QueueEnd::Back);
    }
}

/// Makes a queued task the current one: it is no longer pushable, and those that wait behind it are
/// pushed after the switch (`set_next_task_rt`).
#[inline(always)]
pub(crate) fn set_next<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot) {
    match rt::local_of(rq, slot) {
        None => rt::set_next(rq, cx, slot),
        Some(at) => set_next_served(rq, cx, slot, at),
    }
}

#[cold]
#[inline(never)]
fn set_next_served<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot, at: LocalIx) {
    set_pushable(rq, slot, at, false);
    rt::arm_slice(rq, cx, slot);
    let local = queues_mut(rq);
    if !local.queue(at).pushable.is_empty() {
        local.push_from.get_or_insert(at);
    }
    follow(rq, cx, at);
}

/// Handles the switch away from a task that stays queued: it becomes pushable. It is pushed if its
/// server has no runtime left (`put_prev_task_rt`).
#[inline(always)]
pub(crate) fn put_prev<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot) {
    match rt::local_of(rq, slot) {
        None => rt::put_prev(rq, cx, slot),
        Some(at) => put_prev_served(rq, cx, slot, at),
    }
}

#[cold]
#[inline(never)]
fn put_prev_served<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot, at: LocalIx) {
    let can_wait = rq.tasks[slot].can_migrate(cx.shared.nr_cpus());
    set_pushable(rq, slot, at, can_wait);
    let is_throttled = is_throttled(rq, at);
    let local = queues_mut(rq);
    if is_throttled && !local.queue(at).pushable.is_empty() {
        local.push_from.get_or_insert(at);
    }
    follow(rq, cx, at);
}

/// Returns whether a task that was just queued preempts the current one, where one of both is in a
/// group with servers; `None` if neither is.
///
/// HCBS v6, patch 15, `wakeup_preempt_rt`: tasks of one queue by priority, without a search for
/// another CPU among equals; else by deadline, and before all tasks without one.
#[cold]
#[inline(never)]
pub(crate) fn check_preempt(rq: &Rq, woken: Slot) -> Option<Resched> {
    let current = rq.current_slot();
    let (from, to) = (current.and_then(|slot| rt::local_of(rq, slot)), rt::local_of(rq, woken));
    let Some(at) = to else {
        let is_served = matches!(rq.dl.serving, Some(ServedBy::Group(_)));
        return is_served.then_some(Resched::No);
    };
    let Some((deadline, _)) = rq.dl.group(at).queued() else { return Some(Resched::No) };
    let preempts = if from == to {
        rq.tasks[woken].prio.beats(rq.current_prio())
    } else {
        rq.current_deadline().is_none_or(|running| deadline < running)
    };
    Some(if preempts { Resched::Now } else { Resched::No })
}

/// Charges exec time of a real-time task. Returns whether it is in a group with servers.
#[inline(always)]
pub(crate) fn charge<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot, delta: Duration) -> bool {
    let Some(at) = rt::local_of(rq, slot) else { return false };
    charge_server(rq, cx, at, delta);
    true
}

#[cold]
#[inline(never)]
fn charge_server<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, at: LocalIx, delta: Duration) {
    let shared = cx.shared;
    // `dl_bandwidth_enabled`: without a limit of all real-time tasks nothing is charged.
    let is_limited = cx.io.observer.flag(|| shared.rt_groups.is_limited());
    let server = rq.dl.group_mut(at);
    if !is_limited || !matches!(server.state, ServerPhase::Queued(_)) {
        return;
    }
    server.runtime_left = server.runtime_left - delta.to_signed();
    if server.is_exhausted() {
        used_up(rq, cx, at);
    }
}

pub(crate) fn is_throttled(rq: &Rq, at: LocalIx) -> bool {
    matches!(rq.dl.group(at).state, ServerPhase::Throttled { .. })
}

/// Returns the queue of a group, as other CPUs are to see it.
pub(crate) fn published(rq: &Rq, at: LocalIx) -> PublishedLocal {
    let queue = queues(rq).queue(at);
    PublishedLocal {
        highest: queue.highest(),
        pushable: queue.highest_pushable(),
        is_throttled: is_throttled(rq, at),
        has_more: queue.nr_running > 1,
    }
}

/// Returns the number of tasks here whose server has runtime.
pub(crate) fn count_served(rq: &Rq) -> u32 {
    let queued = queues(rq).all().filter(|at| rq.dl.group(*at).queued().is_some());
    queued.map(|at| queues(rq).queue(at).nr_running).sum()
}

/// Follows a change of a queue or of its server: counts, published state, records.
fn follow<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, at: LocalIx) {
    let nr_served = count_served(rq);
    if core::mem::replace(&mut rq.rt.nr_served, nr_served) != nr_served {
        rq.note(Unpublished::COUNTS);
    }
    let (local, cpu) = (published(rq, at), rq.cpu());
    let queue = queues_mut(rq).queue_mut(at);
    let group = queue.group;
    let throttled = local.is_throttled;
    if core::mem::replace(&mut queue.is_shown, throttled) != throttled {
        cx.io.event(cx.now, cpu, || TraceEvent::RtGroupThrottle { group, throttled });
    }
    if cx.shared.groups.generation(group) == queues(rq).queue(at).generation {
        cx.shared.served.publish(group, cpu, local);
    }
}

/// \[1\] Starts the server of a queue that has tasks.
fn start<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, at: LocalIx) {
    let (now, is_online) = (cx.now.wall, rq.is_online());
    let server = rq.dl.group_mut(at);
    if server.state.is_started() || !server.params.is_on() || !is_online {
        return;
    }
    if server.abs_deadline <= now || server.overflows(now) {
        server.begin_period(now);
    }
    if server.is_exhausted() {
        let until = server.abs_deadline;
        throttle(rq, cx, at, until);
    } else {
        queue_server(rq, cx, at);
    }
}

/// \[4\] Stops a server.
pub(crate) fn stop<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, at: LocalIx) {
    let server = rq.dl.group_mut(at);
    let was_queued = server.queued().is_some();
    server.left_when_stopped = server.runtime_left;
    enter(rq, cx, at, ServerPhase::Stopped);
    if was_queued {
        left_queue(rq, cx, at);
    }
    follow(rq, cx, at);
}

fn enter<L: RawMutex>(rq: &mut Rq, _cx: &mut Cx<'_, L>, at: LocalIx, state: ServerPhase) {
    rq.note(Unpublished::DL_QUEUED.and(Unpublished::PRIOS));
    rq.dl.set_group_state(at, state);
}

fn queue_server<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, at: LocalIx) {
    let was_empty = rq.dl.is_empty();
    rq.dl.group_mut(at).seq = rq.dl.take_seq();
    enter(rq, cx, at, ServerPhase::Queued(Since::Start));
    if was_empty {
        rt::deadline_came_or_went(rq, cx);
    }
    if rq.dl.is_first_group(at) {
        rq.resched(cx, Resched::Now);
    }
}

/// Handles a server that is no longer queued: the task that it ran waits from now on.
fn left_queue<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, at: LocalIx) {
    if rq.dl.serving == Some(ServedBy::Group(at)) {
        rq.dl.serving = None;
    }
    rq.dl.has_lowered = true;
    if rq.dl.is_empty() {
        rt::deadline_came_or_went(rq, cx);
    }
    rq.resched(cx, Resched::Now);
}

/// \[5\] Ends the job of a server that has exhausted its runtime. The overrun is debt. If the
/// period is over, the next one begins at once.
fn used_up<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, at: LocalIx) {
    let now = cx.now.wall;
    let server = rq.dl.group_mut(at);
    let until = server.abs_deadline;
    if now < until {
        throttle(rq, cx, at, until);
        left_queue(rq, cx, at);
    } else {
        server.replenish(now);
        enter(rq, cx, at, ServerPhase::Queued(Since::Start));
        rq.dl.has_lowered = true;
        rq.resched(cx, Resched::Now);
    }
    follow(rq, cx, at);
}

fn throttle<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, at: LocalIx, until: Instant) {
    enter(rq, cx, at, ServerPhase::Throttled { until });
    rq.dl.group_mut(at).timer = Some(until);
    arm(rq, cx, until);
}

/// Ensures that the timer of the groups' servers fires no later than `at`.
fn arm<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, at: Instant) {
    if rq.dl.groups_timer.is_none_or(|timer| at < timer) {
        rq.dl.groups_timer = Some(at);
        cx.io.op(Op::ArmTimer { cpu: rq.cpu(), timer: RqTimer::GroupServers, at });
    }
}

/// Handles the timer of the groups' servers. The current task has been charged. O(queues).
pub(crate) fn timer<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) {
    if rq.rt.local.is_none() {
        return;
    }
    let now = cx.now.wall;
    rq.dl.groups_timer = Some(Instant::ZERO); // It is set once, at the end.
    for at in queues(rq).all() {
        if rq.dl.group(at).timer.is_some_and(|at| at <= now) {
            rq.dl.group_mut(at).timer = None;
            timer_of(rq, cx, at);
        }
    }
    rq.dl.groups_timer = None;
    if let Some(next) = rq.dl.groups.iter().filter_map(|server| server.timer).min() {
        arm(rq, cx, next);
    }
}

fn timer_of<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, at: LocalIx) {
    let now = cx.now.wall;
    let server = rq.dl.group_mut(at);
    match server.state {
        ServerPhase::Queued(_) if server.is_exhausted() => used_up(rq, cx, at),
        ServerPhase::Queued(_) => arm_budget(rq, cx, at),
        ServerPhase::Throttled { until } if now < until => server.timer = Some(until),
        ServerPhase::Throttled { .. } => {
            server.replenish(now);
            queue_server(rq, cx, at); // [6]
            follow(rq, cx, at);
        }
        ServerPhase::Stopped | ServerPhase::Interrupted | ServerPhase::Deferred | ServerPhase::Idle => {}
    }
}

/// Returns the task that a server runs.
pub(crate) fn first_of(rq: &Rq, at: LocalIx) -> Option<Slot> {
    queues(rq).queue(at).run.first()
}

/// Arms the timer of the remaining runtime of a server that now runs a task, unless only ticks look
/// at it.
pub(crate) fn arm_budget<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, at: LocalIx) {
    match cx.config.settings.enforce_dl {
        TimerGrain::Exact if rq.dl.serving == Some(ServedBy::Group(at)) => {
            let due = cx.now.wall.saturating_add(rq.dl.group(at).runtime_left.max_zero());
            rq.dl.group_mut(at).timer = Some(due);
            arm(rq, cx, due);
        }
        TimerGrain::Tick | TimerGrain::Hrtick | TimerGrain::Exact => {}
    }
}

/// Follows changed budgets: servers with other parameters begin anew. The current task has been
/// charged. O(queues).
///
/// HCBS v6, patch 17, `tg_set_rt_bandwidth`, `dl_init_tg`.
pub(crate) fn follow_budgets<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) {
    for at in queues(rq).all() {
        let queue = queues(rq).queue(at);
        let (group, shared) = (queue.group, cx.shared);
        if shared.groups.generation(group) != queue.generation {
            continue;
        }
        let has = rq.dl.group(at).params;
        let is_other = cx.io.observer.flag(|| shared.served.params(group) != has);
        if !is_other {
            continue;
        }
        if rq.dl.group(at).state.is_started() {
            stop(rq, cx, at);
        }
        adopt(rq, cx, at);
        if queues(rq).queue(at).nr_running > 0 {
            start(rq, cx, at);
        }
        follow(rq, cx, at);
    }
}

/// Stops the servers of a CPU that goes offline, and starts those with tasks when it is back.
pub(crate) fn online_changed<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) {
    if rq.rt.local.is_none() {
        return;
    }
    for at in queues(rq).all() {
        match rq.is_online() {
            true if queues(rq).queue(at).nr_running > 0 => start(rq, cx, at),
            false if rq.dl.group(at).state.is_started() => stop(rq, cx, at),
            true | false => {}
        }
        follow(rq, cx, at);
    }
}

/// Returns the queue of `other` for the same group as one of `own`.
pub(crate) fn queue_in(other: &Rq, own: &Rq, at: LocalIx) -> Option<LocalIx> {
    let queue = queues(own).queue(at);
    queues(other).find(queue.group).filter(|at| queues(other).queue(*at).generation == queue.generation)
}

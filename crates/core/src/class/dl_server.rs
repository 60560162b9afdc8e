//! Deadline servers: a [`Server`](server::Server) is a deadline entity without a task. It serves
//! one class on one CPU.
//!
//! Real-time tasks can starve fair tasks. RT throttling prevents that, but it also stops real-time
//! tasks when no fair task waits. A server reserves time for the fair class instead: while the
//! server is the first entity of the deadline queue, the CPU runs the task that the class would
//! run. A *deferred* server takes that time from real-time tasks only when the class has starved
//! until the last possible moment.
//!
//! A server has a runtime per period and obeys the rules of [`crate::entity::dl`].
//!
//! * It is *started* when its class has tasks. It is stopped when the class has none: at once, or
//!   when it is picked and finds no task ([`ServerStop`]).
//! * An *immediate* server is enqueued when it starts. A *deferred* server waits for its
//!   zero-laxity instant: deadline - runtime.
//! * The exec time of its class is charged to the server whether or not the server ran the task.
//!   Idle time is charged too. If the runtime is exhausted before the zero-laxity instant, the
//!   class has not starved, and a new period begins.
//!
//! ```text
//!                   +-------------------- [4] --------------------+
//!                   v                                             |
//!   Stopped ------ [1] started, deferred -----> Deferred --- [3] zero laxity ---> Queued
//!      |  ^                                     |  ^   ^                             |  ^
//!      |  +---------------- [4] ----------------+  |   |                             |  |
//!      |                                           |   +----------- [9] ---------+   |  |
//!      |              [2] its class had its runtime (a loop)                     |   |  |
//!      |                                                                         |   |  |
//!      +-- [1] started, immediate -----------------------------------------------|---|->+
//!      ^                                                                         |   |  |
//!      +------------- [4] ------------ Throttled{until} <--- [5] exhausted ------|---+  |
//!                                          |    |                                |      |
//!                                          |    +--------------------------------+      |
//!                                          +----------- [6] `until`: next period -------+
//!   Interrupted: a deferred server that was stopped [4] after zero laxity had enqueued it
//!      [7] started while that job is valid: -> Queued
//!      [8] else by `ServerWakeup`: as [1], or -> Queued
//! ```
//!
//! * \[10\] Idle time that exhausts a server that is not queued begins a new period, once: it is
//!   `Idle`. \[11\] When its CPU runs a task again it is Deferred. \[12\] At its zero laxity on a
//!   CPU that still idles it is stopped ([`ServerStop::Idle`]).
//! * \[1\] keeps the old job if the wakeup rule allows it.
//! * \[4\] happens when its class has no task left here, when the CPU goes offline, and when the
//!   server is switched off.
//! * \[3\] \[4\] \[7\]: a server that stops only when it is picked reaches its zero laxity also
//!   without a task to serve. The next pick stops it. If its class then wakes in the period that
//!   began at the zero laxity, the server is enqueued at once, so its class runs first.
//! * \[5\] \[9\] The task that a server ran usually runs on for the microseconds until the switch.
//!   They are charged to the throttled server, and begin a new period of a deferred one: the cycle
//!   is longer by the overrun. If the task blocks at \[5\], there is no such charge, and the
//!   server waits for its next period \[6\] instead of being deferred again.
//!
//! * \[13\] In the patches of 2023 ([`ServerStop::Unneeded`]) a deferred server is throttled
//!   without runtime at its start, until the instant that would be its zero laxity. Then it obeys
//!   the rules of an immediate one until it is stopped: when its class or the real-time class has
//!   no task.
//!
//! The served class follows from [`ServerKind::class`]: see [`has_tasks`] and
//! [`pick_client`](crate::lifecycle). Another server is a variant of [`ServerKind`]: kernels have
//! one of the fair class, and since 7.0 one of a loaded scheduler's (`ext_server`), which obeys the
//! same rules. The tests use one more, for the real-time class, and repeat every test with it.
//!
//! The timer of a server stays armed when the server needs it later or not at all. When it fires,
//! the server notices that and arms it again. Starting and stopping happen at every wakeup and
//! therefore cost no timer operation. All operations are O(1), except that enqueueing can change
//! the real-time overload mask.
//!
//! Sources: de Oliveira, "SCHED_DEADLINE server infrastructure", v4 (2023); Linux v6.12
//! `kernel/sched/deadline.c` (`dl_server_start`, `dl_server_stop`, `dl_server_timer`,
//! `update_curr_dl_se`, `dl_server_update_idle_time`; in v6.12.117 `update_dl_entity`,
//! `update_dl_revised_wakeup`, `__pick_task_dl` too), `fair.c` (`update_curr`,
//! `enqueue_task_fair`).
//!
//! differs: tasks that stay queued only until their lag is repaid need no server; runtime is scaled
//! by capacity if `fair_server.scaled` says so, but never by frequency; an immediate server that is
//! stopped keeps its debt; a switch is a charge also where it costs no time: [`put_back`]. If a
//! switch notices \[5\], the reschedule request is lost with `fault.fair_server_resched_lost`:
//! [`overlook`].

use crate::class::rt;
use crate::queue::dl::server;
use crate::queue::dl::server::{ServedBy, ServerPhase, Since};
use crate::rq::cx::Cx;
use crate::rq::run_queue::Rq;
use crate::words::bandwidth::Bandwidth;
use crate::words::level::FULL_CAPACITY;
use crate::words::op::{Op, RqTimer};
use crate::words::resched::Resched;
use crate::words::unpublished::Unpublished;
use lock_api::RawMutex;
use zerolag_model::settings::{ServerStart, ServerStop, ServerWakeup, TimerGrain};
use zerolag_model::{
    Activation, ClassId, Duration, Instant, ServerKind, ServerParams, Settings, SignedDuration, TraceEvent,
};

/// A deferred server starts although its zero-laxity instant has moved, if it has moved by less
/// than this (`dl_server_min_res`).
const MIN_RESOLUTION: Duration = Duration::from_millis(1);

/// Returns the bandwidth that the servers of a CPU reserve.
pub(crate) fn bandwidth_of_all(rq: &Rq) -> Bandwidth {
    Bandwidth(ServerKind::ALL.map(|kind| server::bandwidth(rq.dl.server(kind).params).0).iter().sum())
}

/// Returns whether the class of a server has a task to serve.
fn has_tasks(rq: &Rq, class: ClassId) -> bool {
    match class {
        ClassId::Fair => rq.fair.nr_running() > 0,
        ClassId::Rt => rq.rt.nr_allowed() > 0,
        ClassId::Ext => rq.ext.nr_running > 0,
        ClassId::Stop | ClassId::Deadline | ClassId::Idle => false,
    }
}

/// Returns whether a stopped server should be started.
fn is_wanted<L: RawMutex>(rq: &Rq, cx: &Cx<'_, L>, kind: ServerKind) -> bool {
    let begins = match cx.config.settings.fair_server_start {
        ServerStart::RtAndFair if matches!(kind, ServerKind::Fair) => rq.rt.nr_running() > 0,
        ServerStart::Fair | ServerStart::RtAndFair => true,
    };
    let is_needed = cx.config.settings.fair_server_stop != ServerStop::Unneeded || is_needed(rq, kind);
    begins && is_needed && may_be_started(rq, kind) && has_tasks(rq, kind.class())
}

/// Returns whether the patches of 2023 need a server: a real-time task can starve its class.
fn is_needed(rq: &Rq, kind: ServerKind) -> bool {
    !matches!(kind, ServerKind::Fair) || rq.rt.nr_running() > 0
}

/// Returns whether a deferred server that has exhausted its runtime is deferred in its next period.
/// It is not in the patches of 2023 ([`ServerStop::Unneeded`]).
fn is_deferred_again<L: RawMutex>(rq: &Rq, cx: &Cx<'_, L>, kind: ServerKind) -> bool {
    rq.dl.server(kind).is_deferred() && cx.config.settings.fair_server_stop != ServerStop::Unneeded
}

/// Returns whether a started server stays started. Since 6.12 it does so without real-time tasks,
/// even where only a real-time task starts it (`fair_server.start`): otherwise two CPUs would push
/// a real-time task back and forth, because its arrival would start the server of each.
fn goes_on<L: RawMutex>(rq: &Rq, cx: &Cx<'_, L>, kind: ServerKind) -> bool {
    may_be_started(rq, kind)
        && match cx.config.settings.fair_server_stop {
            ServerStop::Empty => has_tasks(rq, kind.class()),
            ServerStop::Picked | ServerStop::Idle => true,
            ServerStop::Unneeded => is_needed(rq, kind) && has_tasks(rq, kind.class()),
        }
}

fn may_be_started(rq: &Rq, kind: ServerKind) -> bool {
    rq.dl.server(kind).params.is_on() && rq.is_online()
}

/// Starts or stops the servers of a CPU according to the tasks of their classes. Called after every
/// change of those, but not for the class of a loaded scheduler, which most machines do not have:
/// [`update_ext`] is called after a change of its tasks.
#[inline(always)]
pub(crate) fn update<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) {
    for kind in ServerKind::ALL {
        if kind.class() != ClassId::Ext {
            update_kind(rq, cx, kind);
        }
    }
}

/// As [`update`], for every server: the CPU went online or offline.
pub(crate) fn update_all<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) {
    update(rq, cx);
    update_ext(rq, cx);
}

/// As [`update`], for the server of a loaded scheduler's tasks.
#[cold]
#[inline(never)]
pub(crate) fn update_ext<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) {
    update_kind(rq, cx, ServerKind::Ext);
}

#[inline(always)]
fn update_kind<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, kind: ServerKind) {
    if rq.dl.server(kind).state.is_started() {
        if !goes_on(rq, cx, kind) {
            stop(rq, cx, kind);
        }
    } else if is_wanted(rq, cx, kind) {
        start(rq, cx, kind);
    }
}

/// Starts a server. Out of line, as [`stop`] is: [`update`] seldom does either.
#[inline(never)]
fn start<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, kind: ServerKind) {
    let now = cx.now.wall;
    let server = rq.dl.server_mut(kind);
    let has_starved = server.state == ServerPhase::Interrupted;
    let since = if has_starved { Since::ZeroLaxity } else { Since::Start };
    if cx.config.settings.fair_server_stop == ServerStop::Unneeded && server.is_deferred() {
        let ServerParams { runtime, period, .. } = server.params;
        let at = now.saturating_add(period.saturating_sub(runtime));
        server.abs_deadline = at;
        server.runtime_left = SignedDuration::default();
        return throttle(rq, cx, kind, at); // [13]
    }
    let wakeup = cx.config.settings.fair_server_wakeup;
    let is_over = server.abs_deadline <= now;
    let has_lapsed = is_over || server.overflows(now);
    if has_lapsed && server.is_deferred() && !is_over && wakeup.cuts(has_starved) {
        server.trim_runtime(now);
        return enqueue(rq, cx, kind, since); // [8]
    }
    if has_lapsed {
        server.begin_period(now);
    }
    match server.params.activation {
        Activation::Deferred if has_starved && (!has_lapsed || wakeup == ServerWakeup::Stuck) => {
            enqueue(rq, cx, kind, since); // [7], and in place of [8] where kernels forgot to defer
        }
        Activation::Deferred => defer(rq, cx, kind), // [1] [8]
        Activation::Immediate if server.is_exhausted() => {
            let until = server.abs_deadline;
            throttle(rq, cx, kind, until);
        }
        Activation::Immediate => enqueue(rq, cx, kind, since), // [1]
    }
}

/// \[4\] Stops a started server.
#[inline(never)]
pub(crate) fn stop<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, kind: ServerKind) {
    let is_deferred_again = is_deferred_again(rq, cx, kind);
    let server = rq.dl.server_mut(kind);
    let was_queued = matches!(server.state, ServerPhase::Queued(_));
    let keeps_running = match server.state {
        ServerPhase::Queued(since) => since == Since::ZeroLaxity && is_deferred_again,
        ServerPhase::Throttled { .. } => is_deferred_again,
        ServerPhase::Stopped | ServerPhase::Interrupted | ServerPhase::Deferred | ServerPhase::Idle => false,
    };
    server.left_when_stopped = server.runtime_left;
    enter(rq, cx, kind, if keeps_running { ServerPhase::Interrupted } else { ServerPhase::Stopped });
    if was_queued {
        left_queue(rq, cx, kind);
    }
}

fn enter<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, kind: ServerKind, state: ServerPhase) {
    rq.note(Unpublished::DL_QUEUED.and(Unpublished::PRIOS));
    rq.dl.set_state(kind, state);
    let (now, cpu) = (cx.now, rq.cpu());
    let server = rq.dl.server(kind);
    cx.io.event(now, cpu, || TraceEvent::Server { kind, state: server.shows().0 });
}

fn enqueue<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, kind: ServerKind, since: Since) {
    let was_empty = rq.dl.is_empty();
    let seq = rq.dl.take_seq();
    rq.dl.server_mut(kind).seq = seq;
    enter(rq, cx, kind, ServerPhase::Queued(since));
    if was_empty {
        rt::deadline_came_or_went(rq, cx);
    }
    if rq.dl.is_first(kind) {
        rq.resched(cx, Resched::Now);
    }
}

/// Handles a server that is no longer queued: the task that it served runs by its own class again.
fn left_queue<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, kind: ServerKind) {
    if rq.dl.serving == Some(ServedBy::Class(kind)) {
        rq.dl.serving = None;
    }
    rq.dl.has_lowered = true;
    if rq.dl.is_empty() {
        rt::deadline_came_or_went(rq, cx);
    }
    rq.resched(cx, Resched::Now);
}

/// \[1\] \[2\] \[5\] Waits for the zero-laxity instant.
fn defer<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, kind: ServerKind) {
    enter(rq, cx, kind, ServerPhase::Deferred);
    let at = rq.dl.server(kind).zero_laxity();
    wait(rq, cx, kind, at);
}

fn throttle<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, kind: ServerKind, until: Instant) {
    enter(rq, cx, kind, ServerPhase::Throttled { until });
    wait(rq, cx, kind, until);
}

fn wait<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, kind: ServerKind, until: Instant) {
    rq.dl.server_mut(kind).due = until;
    arm(rq, cx, kind, until);
}

/// Ensures that the timer fires no later than `at`.
fn arm<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, kind: ServerKind, at: Instant) {
    let (cpu, server) = (rq.cpu(), rq.dl.server_mut(kind));
    if server.timer.is_none_or(|timer| at < timer) {
        server.timer = Some(at);
        cx.io.op(Op::ArmTimer { cpu, timer: RqTimer::Server(kind), at });
    }
}

/// Returns the charge of a server for a time: with `fair_server.scaled` the time that a CPU of full
/// capacity would have needed.
fn charged<L: RawMutex>(rq: &Rq, cx: &Cx<'_, L>, time: Duration) -> Duration {
    if !cx.config.settings.fair_server_scaled {
        return time;
    }
    match u64::from(cx.config.topology.capacity(rq.cpu())) {
        FULL_CAPACITY => time,
        capacity => time.mul_div_floor(capacity, FULL_CAPACITY),
    }
}

/// Returns the time in which a server is charged this much: the inverse of [`charged`], rounded up.
fn time_of<L: RawMutex>(rq: &Rq, cx: &Cx<'_, L>, charge: Duration) -> Duration {
    if !cx.config.settings.fair_server_scaled {
        return charge;
    }
    charge.mul_div_ceil(FULL_CAPACITY, u64::from(cx.config.topology.capacity(rq.cpu())))
}

/// Charges the exec time of a class to its server, if it has one.
#[inline(always)]
pub(crate) fn charge<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, class: ClassId, delta: Duration) {
    for kind in ServerKind::ALL {
        if kind.class() == class {
            charge_server(rq, cx, kind, delta);
        }
    }
}

#[inline]
fn charge_server<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, kind: ServerKind, delta: Duration) {
    match rq.dl.server(kind).state {
        ServerPhase::Stopped | ServerPhase::Interrupted => return,
        ServerPhase::Throttled { .. } if !is_deferred_again(rq, cx, kind) => return,
        ServerPhase::Deferred | ServerPhase::Idle | ServerPhase::Queued(_) | ServerPhase::Throttled { .. } => {}
    }
    let delta = charged(rq, cx, delta);
    let server = rq.dl.server_mut(kind);
    server.runtime_left = server.runtime_left - delta.to_signed();
    if server.is_exhausted() {
        spent(rq, cx, kind);
    }
}

/// Handles an exhausted server: its class got the runtime without it \[2\] \[9\], or the server ran
/// for it \[5\].
#[cold]
fn spent<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, kind: ServerKind) {
    let now = cx.now.wall;
    let server = rq.dl.server_mut(kind);
    if matches!(server.state, ServerPhase::Queued(_)) {
        used_up(rq, cx, kind);
    } else {
        server.begin_period(now); // [2] [9]
        defer(rq, cx, kind);
    }
}

/// \[5\] Ends the job of a queued server that has exhausted its runtime. The overrun is debt,
/// unless the period is over: then a deferred server is deferred in a new one.
///
/// differs: in that case kernels until 6.17 enqueue it at once, with the late deadline, so that it
/// can run for good; later ones make it wait for a whole period (commit 421fc59cf58c, "Fix RT task
/// potential starvation when expiry time passed").
fn used_up<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, kind: ServerKind) {
    let now = cx.now.wall;
    let is_deferred_again = is_deferred_again(rq, cx, kind);
    let server = rq.dl.server_mut(kind);
    let until = server.abs_deadline;
    if now < until {
        throttle(rq, cx, kind, until);
    } else if is_deferred_again {
        server.begin_period(now);
        defer(rq, cx, kind);
    } else {
        server.replenish(now);
        return requeue(rq, cx, kind);
    }
    left_queue(rq, cx, kind);
}

/// Handles the switch away from a task of `class` that is still runnable and that no server runs:
/// if its server was exhausted by it, the time until the switch is charged \[9\]. That is some
/// microseconds in a kernel. On a machine whose switches cost nothing it is the same charge, of
/// no time.
#[inline]
pub(crate) fn put_back<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, class: ClassId) {
    for kind in ServerKind::ALL {
        let is_throttled = matches!(rq.dl.server(kind).state, ServerPhase::Throttled { .. });
        if kind.class() == class && is_throttled && is_deferred_again(rq, cx, kind) {
            spent(rq, cx, kind);
        }
    }
}

/// Requeues a server with a later deadline. Another entity can be first now, here or on another
/// CPU.
fn requeue<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, kind: ServerKind) {
    enter(rq, cx, kind, ServerPhase::Queued(Since::Start));
    rq.dl.has_lowered = true;
    rq.resched(cx, Resched::Now);
}

/// Charges idle time of the CPU: the class could have run.
pub(crate) fn idled<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, delta: Duration) {
    let delta = charged(rq, cx, delta);
    match cx.config.settings.fair_server_stop {
        ServerStop::Idle => return idled_for_all(rq, cx, delta),
        ServerStop::Unneeded => return, // It is charged for the tasks that it runs only.
        ServerStop::Empty | ServerStop::Picked => {}
    }
    for kind in ServerKind::ALL {
        if kind.class() != ClassId::Ext {
            idled_beside(rq, kind, delta);
        }
    }
    if rq.ext.is_loaded {
        idled_loaded(rq, delta);
    }
}

fn idled_for_all<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, delta: Duration) {
    for kind in ServerKind::ALL {
        let server = rq.dl.server(kind);
        if server.state.is_started() && server.is_deferred() {
            idled_for(rq, cx, kind, delta);
        }
    }
}

/// Charges a started server, which is deferred where it can be, for idle time: it begins one new
/// period \[10\], and waits for its zero laxity without another.
fn idled_for<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, kind: ServerKind, delta: Duration) {
    let now = cx.now.wall;
    let server = rq.dl.server_mut(kind);
    server.runtime_left = server.runtime_left - delta.to_signed();
    if !server.is_exhausted() {
        return;
    }
    match server.state {
        ServerPhase::Stopped | ServerPhase::Interrupted => unreachable!("only a started server is charged"),
        ServerPhase::Queued(_) => used_up(rq, cx, kind),
        ServerPhase::Idle => server.runtime_left = SignedDuration::default(),
        ServerPhase::Deferred | ServerPhase::Throttled { .. } => {
            let is_due = server.due <= now; // Its timer charges.
            server.begin_period(now);
            if is_due {
                rq.dl.set_state(kind, ServerPhase::Deferred);
                return stop(rq, cx, kind); // [12]
            }
            enter(rq, cx, kind, ServerPhase::Idle);
            let at = rq.dl.server(kind).zero_laxity();
            wait(rq, cx, kind, at);
        }
    }
}

/// Handles the switch from the idle CPU to a task, of whatever class \[11\].
#[inline]
pub(crate) fn idles_no_more(rq: &mut Rq) {
    for kind in ServerKind::ALL {
        if rq.dl.server(kind).state == ServerPhase::Idle {
            rq.dl.set_state(kind, ServerPhase::Deferred);
        }
    }
}

#[cold]
#[inline(never)]
fn idled_loaded(rq: &mut Rq, delta: Duration) {
    idled_beside(rq, ServerKind::Ext, delta);
}

#[inline(always)]
fn idled_beside(rq: &mut Rq, kind: ServerKind, delta: Duration) {
    let server = rq.dl.server_mut(kind);
    if !server.is_deferred() || server.runtime_left.is_negative() {
        return;
    }
    server.runtime_left = server.runtime_left - delta.to_signed();
    if server.runtime_left.is_negative() {
        server.runtime_left = SignedDuration::default();
        if server.state == ServerPhase::Interrupted {
            server.state = ServerPhase::Stopped;
        }
    }
}

/// Handles the timer of a server. The current task has been charged.
pub(crate) fn timer<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, kind: ServerKind) {
    let now = cx.now.wall;
    let idles = rq.current_slot().is_none() && !rq.has_running() && rq.ext.nr_running == 0;
    let server = rq.dl.server_mut(kind);
    server.timer = None;
    match server.state {
        ServerPhase::Stopped | ServerPhase::Interrupted => {}
        ServerPhase::Queued(_) if server.is_exhausted() => used_up(rq, cx, kind),
        ServerPhase::Queued(_) => arm_budget(rq, cx, kind),
        ServerPhase::Throttled { until } if now < until => arm(rq, cx, kind, until),
        ServerPhase::Idle if now < server.due => {
            let due = server.due;
            arm(rq, cx, kind, due);
        }
        ServerPhase::Idle if idles => stop(rq, cx, kind), // [12]
        ServerPhase::Throttled { .. } => {
            server.replenish(now);
            let since = if server.is_deferred() { Since::ZeroLaxity } else { Since::Start };
            enqueue(rq, cx, kind, since); // [6]
        }
        ServerPhase::Deferred | ServerPhase::Idle => {
            let at = server.zero_laxity();
            if now.saturating_add(MIN_RESOLUTION) < at {
                wait(rq, cx, kind, at);
                return;
            }
            if server.is_exhausted() {
                server.replenish(now);
            }
            if server.abs_deadline <= now || server.overflows(now) {
                server.begin_period(now);
            }
            enqueue(rq, cx, kind, Since::ZeroLaxity); // [3]
        }
    }
}

/// Reproduces a kernel fault (`fault.fair_server_resched_lost`): a switch asks a server for its
/// task, and the class charges the current task only while it picks. That can exhaust the server,
/// which then leaves the queue. The picked task keeps the CPU nevertheless, and the switch clears
/// the pending reschedule request. The task runs on as one of its class, ahead of all waiting
/// tasks, until the next reschedule request.
///
/// Linux v6.12 `kernel/sched/deadline.c`, `__pick_task_dl`; `fair.c`, `pick_task_fair`; `core.c`,
/// `__schedule`. Earlier kernels charged a task when it was put back, and picked after that.
///
/// The period of a deferred server begins at the next charge of that task, usually at a tick.
pub(crate) fn overlook<L: RawMutex>(rq: &mut Rq, cx: &Cx<'_, L>, asked: ServerKind) {
    let is_used_up = rq.dl.serving.is_none();
    if is_used_up && cx.config.settings.fair_server_resched_lost {
        rq.dl.serving = Some(ServedBy::Class(asked));
    }
}

/// Arms the budget timer of a server that now runs a task of its class.
pub(crate) fn set_next<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, kind: ServerKind) {
    if cx.config.settings.fair_server_hrtick {
        let at = cx.now.wall.saturating_add(Settings::SHORTEST_HRTICK);
        cx.io.op(Op::ArmTimer { cpu: rq.cpu(), timer: RqTimer::Slice, at });
    }
    arm_budget(rq, cx, kind);
}

/// Returns whether the high-resolution tick of a served task is that of `fair_server.hrtick`: it
/// reschedules, and the next pick sets it again.
pub(crate) fn has_hrtick<L: RawMutex>(rq: &Rq, cx: &Cx<'_, L>) -> bool {
    cx.config.settings.fair_server_hrtick && rq.dl.serving.is_some_and(|by| by.kind().is_some())
}

fn arm_budget<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, kind: ServerKind) {
    match cx.config.settings.enforce_dl {
        TimerGrain::Exact if rq.dl.serving == Some(ServedBy::Class(kind)) => {
            let left = time_of(rq, cx, rq.dl.server(kind).runtime_left.max_zero());
            let at = cx.now.wall.saturating_add(left);
            arm(rq, cx, kind, at);
        }
        TimerGrain::Tick | TimerGrain::Hrtick | TimerGrain::Exact => {}
    }
}

/// Changes the parameters of a server. The current period keeps its deadline and runtime.
pub(crate) fn set_params<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, kind: ServerKind, params: ServerParams) {
    if rq.dl.server(kind).state.is_started() {
        stop(rq, cx, kind);
    }
    let (now, cpu) = (cx.now, rq.cpu());
    cx.io.event(now, cpu, || TraceEvent::ServerParams { kind, params });
    let server = rq.dl.server_mut(kind);
    server.params = params;
    if server.state == ServerPhase::Interrupted {
        server.state = ServerPhase::Stopped;
    }
    update_all(rq, cx);
}

//! [`Server`]: a deadline entity without a task. It serves a class of one CPU: whoever that class
//! would run, runs when the server is the first of the deadline queue. So fair tasks are not
//! starved by real-time tasks, and by no more than they must be.
//!
//! The server has a runtime per period and obeys the rules of [`super::entity`]. It is *started*
//! when its class has tasks, and stopped when it has none: at once, or when it is picked and finds
//! nobody ([`ServerStop`]). An *immediate* server is queued then; a *deferred* one waits for its
//! zero-laxity instant, deadline less runtime. Its class's time is charged to it all the while,
//! whoever let it run, and so is idle time: if the runtime is used up before that instant, nobody
//! starved and a new period begins.
//!
//! ```text
//!                   +-------------------- [4] --------------------+
//!                   v                                             |
//!   Stopped ------ [1] started, deferred -----> Deferred --- [3] zero laxity ---> Queued
//!      |  ^                                     |  ^   ^                          |  |  ^
//!      |  +---------------- [4] ----------------+  |   |                          |  |  |
//!      |                                           |   +-- [5] used up, deferred -+  |  |
//!      |              [2] its class had its runtime (a loop)                         |  |
//!      |                                                                             |  |
//!      +-- [1] started, immediate ---------------------------------------------------|->+
//!      ^                                                                             |  |
//!      +------------- [4] ------------ Throttled{until} <---- [5] used up, immediate +  |
//!                                          |                                            |
//!                                          +----------- [6] `until`: next period -------+
//!   Interrupted: a deferred server that was stopped [4] after it had been queued at its zero laxity
//!      [7] started while that job is good: -> Queued     [8] else: [`ServerWakeup`] says; as [1], or -> Queued
//! ```
//!
//! [1] keeps the old job if the wakeup rule allows it. [4]: its class has no task left here, the
//!     CPU goes, or it is switched off. A server that stops only when it is picked reaches its zero
//!     laxity without anybody to serve too, is stopped there, and its class comes first when it
//!     wakes in the period that begins then [7]. [5] begins a new period for a deferred server, at
//!     the moment of the switch: so its period is the longer by what it ran too long.
//!
//! Whom a server serves follows from its class ([`ServerKind::class`]): [`has_tasks`] and
//! [`pick_client`]. Another server is a variant of [`ServerKind`]; tests do with a second one, for
//! the real-time class, all that they do with the first.
//!
//! The timer of a server is left armed when the server needs it later or not at all: it fires,
//! finds that out and is set anew. So starting and stopping, which happens at each wakeup, costs no
//! timer. All of it is O(1), but that queueing may change the real-time overload mask.
//!
//! Sources: de Oliveira, "SCHED_DEADLINE server infrastructure", v4 (2023); Linux v6.12
//! `kernel/sched/deadline.c` (`dl_server_start`, `dl_server_stop`, `dl_server_timer`,
//! `update_curr_dl_se`, `dl_server_update_idle_time`; in v6.12.117 `update_dl_entity`,
//! `update_dl_revised_wakeup`, `__pick_task_dl` too), `fair.c` (`update_curr`,
//! `enqueue_task_fair`). differs: tasks that stay queued only until their lag is paid need no
//! server; runtime is scaled by capacity where `fair_server.scaled` says so, by frequency never; an
//! immediate server that is stopped keeps its debt; [5] the kernel throttles the server, and begins
//! the new period when the microseconds until the switch are charged to it. [5] found by a switch
//! loses its request with `fair_server.resched_lost`: [`overlook`].

use crate::class::rt;
use crate::queue::dl::server;
use crate::queue::dl::server::{Since, State};
use crate::rq::cx::Cx;
use crate::rq::run_queue::Rq;
use crate::words::bandwidth::Bandwidth;
use crate::words::level::FULL_CAPACITY;
use crate::words::op::{Op, RqTimer};
use crate::words::resched::Resched;
use crate::words::unpublished::Unpublished;
use lock_api::RawMutex;
use zerolag_model::settings::{Grain, ServerStart, ServerStop, ServerWakeup};
use zerolag_model::{Activation, ClassId, Duration, Instant, ServerKind, ServerParams, SignedDuration, TraceEvent};

/// A deferred server whose instant has moved by less than this starts nevertheless
/// (`dl_server_min_res`).
const MIN_RESOLUTION: Duration = Duration::from_millis(1);

/// Returns the bandwidth that the servers of a CPU take.
pub(crate) fn bandwidth_of_all(rq: &Rq) -> Bandwidth {
    Bandwidth(ServerKind::ALL.map(|kind| server::bandwidth(rq.dl.server(kind).params).0).iter().sum())
}

/// Returns whether the class of a server has somebody to serve.
fn has_tasks(rq: &Rq, class: ClassId) -> bool {
    match class {
        ClassId::Fair => rq.fair.nr_running() > 0,
        ClassId::Rt => rq.rt.nr_running() > 0 && !rq.rt.throttle.is_throttled(),
        ClassId::Stop | ClassId::Deadline | ClassId::Idle => false,
    }
}

/// Returns whether a server that is stopped should be started.
fn is_wanted<L: RawMutex>(rq: &Rq, cx: &Cx<'_, L>, kind: ServerKind) -> bool {
    let begins = match cx.config.settings.fair_server_start {
        ServerStart::RtAndFair if matches!(kind, ServerKind::Fair) => rq.rt.nr_running() > 0,
        ServerStart::Fair | ServerStart::RtAndFair => true,
    };
    begins && may_be_started(rq, kind) && has_tasks(rq, kind.class())
}

/// Returns whether a server that is started goes on. It does so also without real-time tasks,
/// whatever it takes to start it: otherwise two CPUs would push one of these to and fro, each
/// starting its server when it comes.
fn goes_on<L: RawMutex>(rq: &Rq, cx: &Cx<'_, L>, kind: ServerKind) -> bool {
    let without_tasks = match cx.config.settings.fair_server_stop {
        ServerStop::Empty => false,
        ServerStop::Picked => true,
    };
    may_be_started(rq, kind) && (without_tasks || has_tasks(rq, kind.class()))
}

fn may_be_started(rq: &Rq, kind: ServerKind) -> bool {
    rq.dl.server(kind).params.is_on() && rq.is_online()
}

/// Starts or stops the servers of a CPU as their classes have tasks. Called after each change of
/// that.
#[inline]
pub(crate) fn update<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) {
    for kind in ServerKind::ALL {
        if rq.dl.server(kind).state.is_started() {
            if !goes_on(rq, cx, kind) {
                stop(rq, cx, kind);
            }
        } else if is_wanted(rq, cx, kind) {
            start(rq, cx, kind);
        }
    }
}

fn start<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, kind: ServerKind) {
    let now = cx.now.wall;
    let server = rq.dl.server_mut(kind);
    let has_starved = server.state == State::Interrupted;
    let since = if has_starved { Since::ZeroLaxity } else { Since::Start };
    let wakeup = cx.config.settings.fair_server_wakeup;
    let is_over = server.abs_deadline <= now;
    let has_lapsed = is_over || server.overflows(now);
    if has_lapsed && server.is_deferred() && !is_over && wakeup.cuts(has_starved) {
        server.cut(now);
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

/// [4] There is nobody to serve any more.
pub(crate) fn stop<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, kind: ServerKind) {
    let server = rq.dl.server_mut(kind);
    let was_queued = matches!(server.state, State::Queued(_));
    let keeps_running = server.state == State::Queued(Since::ZeroLaxity);
    server.left_when_stopped = server.runtime_left;
    enter(rq, cx, kind, if keeps_running { State::Interrupted } else { State::Stopped });
    if was_queued {
        left_queue(rq, cx, kind);
    }
}

fn enter<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, kind: ServerKind, state: State) {
    rq.note(Unpublished::DL_QUEUED);
    rq.dl.server_mut(kind).state = state;
    let (now, cpu) = (cx.now, rq.cpu());
    let server = rq.dl.server(kind);
    cx.io.event(now, cpu, || TraceEvent::Server { kind, state: server.shows().0 });
}

fn enqueue<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, kind: ServerKind, since: Since) {
    let was_empty = rq.dl.is_empty();
    let seq = rq.dl.take_seq();
    rq.dl.server_mut(kind).seq = seq;
    enter(rq, cx, kind, State::Queued(since));
    if was_empty {
        rt::deadline_came_or_went(rq, cx);
    }
    if rq.dl.is_first(kind) {
        rq.resched(cx, Resched::Now);
    }
}

/// The server is not queued any more: whoever it served is an ordinary task of its class again.
fn left_queue<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, kind: ServerKind) {
    if rq.dl.serving == Some(kind) {
        rq.dl.serving = None;
    }
    rq.dl.has_lowered = true;
    if rq.dl.is_empty() {
        rt::deadline_came_or_went(rq, cx);
    }
    rq.resched(cx, Resched::Now);
}

/// [1] [2] [5] Waits for the zero-laxity instant.
fn defer<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, kind: ServerKind) {
    enter(rq, cx, kind, State::Deferred);
    let at = rq.dl.server(kind).zero_laxity();
    arm(rq, cx, kind, at);
}

fn throttle<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, kind: ServerKind, until: Instant) {
    enter(rq, cx, kind, State::Throttled { until });
    arm(rq, cx, kind, until);
}

/// Sees that the timer fires at `at`, or before.
fn arm<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, kind: ServerKind, at: Instant) {
    let (cpu, server) = (rq.cpu(), rq.dl.server_mut(kind));
    if server.timer.is_none_or(|timer| at < timer) {
        server.timer = Some(at);
        cx.io.op(Op::ArmTimer { cpu, timer: RqTimer::Server(kind), at });
    }
}

/// Returns what a server is charged for a time: with `fair_server.scaled` what a CPU of full
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

/// Returns in what time a server is charged so much: the inverse of [`charged`], rounded up.
fn time_of<L: RawMutex>(rq: &Rq, cx: &Cx<'_, L>, charge: Duration) -> Duration {
    if !cx.config.settings.fair_server_scaled {
        return charge;
    }
    charge.mul_div_ceil(FULL_CAPACITY, u64::from(cx.config.topology.capacity(rq.cpu())))
}

/// Charges time that a class has run to its server, if it has one.
#[inline]
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
        State::Stopped | State::Interrupted | State::Throttled { .. } => return,
        State::Deferred | State::Queued(_) => {}
    }
    let delta = charged(rq, cx, delta);
    let server = rq.dl.server_mut(kind);
    server.runtime_left = server.runtime_left - delta.to_signed();
    if server.is_exhausted() {
        spent(rq, cx, kind);
    }
}

/// A server has had its runtime: nobody starved [2], or it ran for its tasks.
#[cold]
fn spent<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, kind: ServerKind) {
    let now = cx.now.wall;
    let server = rq.dl.server_mut(kind);
    if matches!(server.state, State::Queued(_)) {
        used_up(rq, cx, kind);
    } else {
        server.begin_period(now); // [2]
        defer(rq, cx, kind);
    }
}

/// [5] It ran for as long as it may, or longer: that is debt.
fn used_up<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, kind: ServerKind) {
    let now = cx.now.wall;
    let server = rq.dl.server_mut(kind);
    match server.params.activation {
        Activation::Deferred => {
            server.begin_period(now);
            defer(rq, cx, kind);
        }
        Activation::Immediate => {
            if server.abs_deadline <= now {
                server.replenish(now); // Its period is over.
                return requeue(rq, cx, kind);
            }
            let until = server.abs_deadline;
            throttle(rq, cx, kind, until);
        }
    }
    left_queue(rq, cx, kind);
}

/// It stays queued with a later deadline: somebody else may come first now, here or from elsewhere.
fn requeue<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, kind: ServerKind) {
    enter(rq, cx, kind, State::Queued(Since::Start));
    rq.dl.has_lowered = true;
    rq.resched(cx, Resched::Now);
}

/// Charges time in which the CPU idled: the class could have run.
pub(crate) fn idled<L: RawMutex>(rq: &mut Rq, cx: &Cx<'_, L>, delta: Duration) {
    let delta = charged(rq, cx, delta);
    for kind in ServerKind::ALL {
        let server = rq.dl.server_mut(kind);
        if !server.is_deferred() || server.runtime_left.is_negative() {
            continue;
        }
        server.runtime_left = server.runtime_left - delta.to_signed();
        if server.runtime_left.is_negative() {
            server.runtime_left = SignedDuration::default();
            if server.state == State::Interrupted {
                server.state = State::Stopped;
            }
        }
    }
}

/// Its timer fired; the current task has been charged.
pub(crate) fn timer<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, kind: ServerKind) {
    let now = cx.now.wall;
    let server = rq.dl.server_mut(kind);
    server.timer = None;
    match server.state {
        State::Stopped | State::Interrupted => {}
        State::Queued(_) if server.is_exhausted() => used_up(rq, cx, kind),
        State::Queued(_) => arm_budget(rq, cx, kind),
        State::Throttled { until } if now < until => arm(rq, cx, kind, until),
        State::Throttled { .. } => {
            server.replenish(now);
            enqueue(rq, cx, kind, Since::Start); // [6]
        }
        State::Deferred => {
            let at = server.zero_laxity();
            if now.saturating_add(MIN_RESOLUTION) < at {
                arm(rq, cx, kind, at);
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

/// A switch asks the server that runs the current task whom to run, and only its class's answer
/// charges that task: a server that is found used up has left the queue by then, but the answer
/// stands, and with the switch its request for another is done. From then on the task runs as one
/// of its class before whoever waits, until something else asks for a switch. A known fault
/// (`fair_server.resched_lost`).
///
/// Linux v6.12 `kernel/sched/deadline.c`, `__pick_task_dl`; `fair.c`, `pick_task_fair`; `core.c`,
/// `__schedule`. Kernels before charged a task when it was put back, and picked after that.
pub(crate) fn overlook<L: RawMutex>(rq: &mut Rq, cx: &Cx<'_, L>, asked: ServerKind) {
    let is_used_up = rq.dl.serving.is_none();
    if is_used_up && cx.config.settings.fair_server_resched_lost {
        rq.dl.serving = Some(asked);
        // The period of a deferred server begins when the task that runs on is charged next, at a
        // tick as a rule.
        let server = rq.dl.server_mut(asked);
        if server.state == State::Deferred {
            server.runtime_left = SignedDuration::default();
        }
    }
}

/// The server runs its class's task now.
pub(crate) fn set_next<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, kind: ServerKind) {
    arm_budget(rq, cx, kind);
}

fn arm_budget<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, kind: ServerKind) {
    match cx.config.settings.enforce_dl {
        Grain::Exact if rq.dl.serving == Some(kind) => {
            let left = time_of(rq, cx, rq.dl.server(kind).runtime_left.max_zero());
            let at = cx.now.wall.saturating_add(left);
            arm(rq, cx, kind, at);
        }
        Grain::Exact | Grain::Tick => {}
    }
}

/// Changes what a server promises; the period that is under way keeps its deadline and runtime.
pub(crate) fn set_params<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, kind: ServerKind, params: ServerParams) {
    if rq.dl.server(kind).state.is_started() {
        stop(rq, cx, kind);
    }
    let (now, cpu) = (cx.now, rq.cpu());
    cx.io.event(now, cpu, || TraceEvent::ServerParams { kind, params });
    let server = rq.dl.server_mut(kind);
    server.params = params;
    if server.state == State::Interrupted {
        server.state = State::Stopped;
    }
    update(rq, cx);
}

//! [`Server`]: a deadline entity without a task. It serves a class of one CPU: whoever that class would run, runs when the
//! server is the first of the deadline queue. So fair tasks are not starved by real-time tasks, and by no more than they
//! must be.
//!
//! The server has a runtime per period and obeys the rules of [`super::entity`]. It is *started* when its class has
//! tasks, and stopped when it has none: at once, or when it is picked and finds nobody ([`ServerStop`]). An *immediate* server is queued then; a *deferred* one waits for its zero-laxity
//! instant, deadline less runtime. Its class's time is charged to it all the while, whoever let it run, and so is idle time:
//! if the runtime is used up before that instant, nobody starved and a new period begins.
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
//! [1] keeps the old job if the wakeup rule allows it. [4]: its class has no task left here, the CPU goes, or it is switched
//! off. A server that stops only when it is picked reaches its zero laxity without anybody to serve too, is stopped there, and its class
//! comes first when it wakes in the period that begins then [7]. [5] begins a new period for a deferred server, at the moment of the switch: so its period is the longer by what
//! it ran too long.
//!
//! Whom a server serves follows from its class ([`ServerKind::class`]): [`has_tasks`] and [`pick_client`]. Another server is a variant of
//! [`ServerKind`]; tests do with a second one, for the real-time class, all that they do with the first.
//!
//! The timer of a server is left armed when the server needs it later or not at all: it fires, finds that out and is set
//! anew. So starting and stopping, which happens at each wakeup, costs no timer. All of it is O(1), but that queueing may
//! change the real-time overload mask.
//!
//! Sources: de Oliveira, "SCHED_DEADLINE server infrastructure", v4 (2023); Linux v6.12 `kernel/sched/deadline.c`
//! (`dl_server_start`, `dl_server_stop`, `dl_server_timer`, `update_curr_dl_se`, `dl_server_update_idle_time`; in v6.12.117
//! `update_dl_entity`, `update_dl_revised_wakeup`, `__pick_task_dl` too), `fair.c` (`update_curr`, `enqueue_task_fair`). differs: tasks that stay queued only until their lag is paid need no
//! server; runtime is scaled by capacity where `fair_server.scaled` says so, by frequency never; an immediate server that is stopped keeps its debt; [5] the kernel throttles the server, and begins the new
//! period when the microseconds until the switch are charged to it. [5] found by a switch loses its request with `fair_server.resched_lost`: [`overlook`].

use super::admission::Bandwidth;
use super::entity;
use crate::class;
use crate::fair;
use crate::rq::{Cx, Rq};
use crate::rt;
use crate::scheduler::Scheduler;
use crate::slab::Slot;
use crate::step::{Clock, Io, Op, Resched, RqTimer};
use core::fmt;
use lock_api::RawMutex;
use zerolag_model::settings::{Grain, ServerStart, ServerStop, ServerWakeup};
use zerolag_model::{
    Activation, ClassId, DlParams, Duration, Instant, ServerKind, ServerParams, ServerState, SignedDuration, TraceEvent,
};

/// A deferred server whose instant has moved by less than this starts nevertheless (`dl_server_min_res`).
const MIN_RESOLUTION: Duration = Duration::from_millis(1);

/// The capacity of the fastest CPU (`SCHED_CAPACITY_SCALE`).
const FULL_CAPACITY: u64 = 1024;

/// The server of one class on one CPU.
#[derive(Debug)]
pub(crate) struct Server {
    params: ServerParams,
    state: State,
    runtime_left: SignedDuration,
    abs_deadline: Instant,
    /// Order among equal deadlines on the run queue.
    seq: u64,
    /// What its timer is set to.
    timer: Option<Instant>,
    /// What was left of its runtime when it was stopped: its 0-lag time follows from that.
    left_when_stopped: SignedDuration,
}

/// Where a server is: see the diagram of the module.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Stopped,
    Interrupted,
    Deferred,
    Queued(Since),
    Throttled { until: Instant },
}

/// Since when a server is queued: whether it may go on at once if it is stopped and started again (`dl_defer_running`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Since {
    /// Its start.
    Start,
    /// Its zero laxity: its class had starved until then.
    ZeroLaxity,
}

impl State {
    const fn is_started(self) -> bool {
        match self {
            Self::Stopped | Self::Interrupted => false,
            Self::Deferred | Self::Queued(_) | Self::Throttled { .. } => true,
        }
    }
}

impl Server {
    pub(super) const fn new(params: ServerParams) -> Self {
        Self {
            params,
            state: State::Stopped,
            runtime_left: SignedDuration::from_nanos(0),
            abs_deadline: Instant::ZERO,
            seq: 0,
            timer: None,
            left_when_stopped: SignedDuration::from_nanos(0),
        }
    }

    /// Returns whether its bandwidth is active (`running_bw`): while it is started, and until its 0-lag time after that.
    pub(super) fn is_active(&self, now: Instant) -> bool {
        self.state.is_started() || self.zero_lag().is_some_and(|at| now < at)
    }

    /// Returns when it is not active any more, if it has been stopped.
    pub(super) fn zero_lag(&self) -> Option<Instant> {
        let is_on = self.params.is_on() && !self.state.is_started();
        is_on.then(|| super::sums::zero_lag(entity_params(self.params), self.abs_deadline, self.left_when_stopped))
    }

    pub(crate) const fn params(&self) -> ServerParams {
        self.params
    }

    /// Returns its deadline and its order among equals, if it is queued.
    pub(crate) const fn queued(&self) -> Option<(Instant, u64)> {
        match self.state {
            State::Queued(_) => Some((self.abs_deadline, self.seq)),
            State::Stopped | State::Interrupted | State::Deferred | State::Throttled { .. } => None,
        }
    }

    /// Returns what it does, and what is left of its runtime.
    pub(crate) const fn shows(&self) -> (ServerState, SignedDuration) {
        let state = match self.state {
            State::Stopped | State::Interrupted => ServerState::Stopped,
            State::Deferred => ServerState::Deferred { until: self.zero_laxity() },
            State::Queued(_) => ServerState::Queued { deadline: self.abs_deadline },
            State::Throttled { until } => ServerState::Throttled { until },
        };
        (state, self.runtime_left)
    }

    const fn is_exhausted(&self) -> bool {
        self.runtime_left.as_nanos() <= 0
    }

    const fn is_deferred(&self) -> bool {
        matches!(self.params.activation, Activation::Deferred)
    }

    const fn zero_laxity(&self) -> Instant {
        let left = SignedDuration::from_nanos(-self.runtime_left.as_nanos());
        self.abs_deadline.saturating_offset(left)
    }

    fn begin_period(&mut self, now: Instant) {
        self.abs_deadline = now.saturating_add(self.params.period);
        self.runtime_left = self.params.runtime.to_signed();
    }

    /// Returns whether more of its runtime is left than its bandwidth allows until its deadline.
    fn overflows(&self, now: Instant) -> bool {
        entity::overflows(self.runtime_left, self.abs_deadline, entity_params(self.params), now)
    }

    /// Cuts what is left of its runtime to what its bandwidth allows until its deadline: `update_dl_revised_wakeup`.
    fn cut(&mut self, now: Instant) {
        let ServerParams { runtime, period, .. } = self.params;
        let laxity = self.abs_deadline.since(now);
        self.runtime_left = laxity.mul_div_floor(runtime.as_nanos(), period.as_nanos()).to_signed();
    }

    /// [6] The next period begins; debt skips as many as it takes.
    fn replenish(&mut self, now: Instant) {
        let debt = (-self.runtime_left).max_zero();
        let periods = debt.as_nanos() / self.params.runtime.as_nanos() + 1;
        self.runtime_left = self.runtime_left + (self.params.runtime * periods).to_signed();
        self.abs_deadline = self.abs_deadline.saturating_add(self.params.period * periods);
        if self.abs_deadline < now {
            self.begin_period(now);
        }
    }
}

/// Returns a server's parameters as those of a task.
const fn entity_params(params: ServerParams) -> DlParams {
    DlParams::new(params.runtime, params.period, params.period)
}

/// Returns the bandwidth that a server takes from its root domain.
pub(crate) const fn bandwidth(params: ServerParams) -> Bandwidth {
    Bandwidth::of(entity_params(params))
}

/// Returns the bandwidth that the servers of a CPU take.
pub(crate) fn bandwidth_of_all(rq: &Rq) -> Bandwidth {
    Bandwidth(ServerKind::ALL.map(|kind| bandwidth(rq.dl.server(kind).params).0).iter().sum())
}

/// Returns whether the class of a server has somebody to serve.
fn has_tasks(rq: &Rq, class: ClassId) -> bool {
    match class {
        ClassId::Fair => rq.fair.nr_running() > 0,
        ClassId::Rt => rq.rt.nr_running() > 0 && !rq.rt.throttle.is_throttled(),
        ClassId::Stop | ClassId::Deadline | ClassId::Idle => false,
    }
}

/// Returns whom the class of a server would run.
pub(super) fn pick_client<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, class: ClassId) -> Option<Slot> {
    match class {
        ClassId::Fair => fair::pick(rq, cx),
        ClassId::Rt => rt::pick(rq),
        ClassId::Stop | ClassId::Deadline | ClassId::Idle => None,
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

/// Returns whether a server that is started goes on. It does so also without real-time tasks, whatever it takes to start it:
/// otherwise two CPUs would push one of these to and fro, each starting its server when it comes.
fn goes_on<L: RawMutex>(rq: &Rq, cx: &Cx<'_, L>, kind: ServerKind) -> bool {
    let without_tasks = match cx.config.settings.fair_server_stop {
        ServerStop::Empty => false,
        ServerStop::Picked => true,
    };
    may_be_started(rq, kind) && (without_tasks || has_tasks(rq, kind.class()))
}

fn may_be_started(rq: &Rq, kind: ServerKind) -> bool {
    rq.dl.server(kind).params.is_on() && rq.is_online
}

/// Starts or stops the servers of a CPU as their classes have tasks. Called after each change of that.
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
    let now = rq.clock.wall;
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
fn stop<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, kind: ServerKind) {
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
    rq.unpublished.add(super::QUEUED);
    rq.dl.server_mut(kind).state = state;
    let (now, cpu) = (cx.now, rq.cpu);
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
    if super::is_first(rq, kind) {
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
    let (cpu, server) = (rq.cpu, rq.dl.server_mut(kind));
    if server.timer.is_none_or(|timer| at < timer) {
        server.timer = Some(at);
        cx.io.op(Op::ArmTimer { cpu, timer: RqTimer::Server(kind), at });
    }
}

/// Returns what a server is charged for a time: with `fair_server.scaled` what a CPU of full capacity would have needed.
fn charged<L: RawMutex>(rq: &Rq, cx: &Cx<'_, L>, time: Duration) -> Duration {
    if !cx.config.settings.fair_server_scaled {
        return time;
    }
    match u64::from(cx.config.topology.capacity(rq.cpu)) {
        FULL_CAPACITY => time,
        capacity => time.mul_div_floor(capacity, FULL_CAPACITY),
    }
}

/// Returns in what time a server is charged so much: the inverse of [`charged`], rounded up.
fn time_of<L: RawMutex>(rq: &Rq, cx: &Cx<'_, L>, charge: Duration) -> Duration {
    if !cx.config.settings.fair_server_scaled {
        return charge;
    }
    charge.mul_div_ceil(FULL_CAPACITY, u64::from(cx.config.topology.capacity(rq.cpu)))
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
    let now = rq.clock.wall;
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
    let now = rq.clock.wall;
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
    let now = rq.clock.wall;
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

/// Returns whom a server that is first runs. If its class has nobody after all, it is stopped.
pub(super) fn pick<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, kind: ServerKind) -> Option<Slot> {
    let client = pick_client(rq, cx, kind.class());
    if client.is_none() {
        stop(rq, cx, kind);
    }
    client
}

/// A switch asks the server that runs the current task whom to run, and only its class's answer charges that task: a server that is found used up
/// has left the queue by then, but the answer stands, and with the switch its request for another is done. From then on the task runs as one of its class
/// before whoever waits, until something else asks for a switch. A known fault (`fair_server.resched_lost`).
///
/// Linux v6.12 `kernel/sched/deadline.c`, `__pick_task_dl`; `fair.c`, `pick_task_fair`; `core.c`, `__schedule`. Kernels before charged a task when it
/// was put back, and picked after that.
pub(crate) fn overlook<L: RawMutex>(rq: &mut Rq, cx: &Cx<'_, L>, asked: ServerKind) {
    let is_used_up = rq.dl.serving.is_none();
    if is_used_up && cx.config.settings.fair_server_resched_lost {
        rq.dl.serving = Some(asked);
        // The period of a deferred server begins when the task that runs on is charged next, at a tick as a rule.
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
            let at = rq.clock.wall.saturating_add(left);
            arm(rq, cx, kind, at);
        }
        Grain::Exact | Grain::Tick => {}
    }
}

/// Changes what a server promises; the period that is under way keeps its deadline and runtime.
fn set_params<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, kind: ServerKind, params: ServerParams) {
    if rq.dl.server(kind).state.is_started() {
        stop(rq, cx, kind);
    }
    let (now, cpu) = (cx.now, rq.cpu);
    cx.io.event(now, cpu, || TraceEvent::ServerParams { kind, params });
    let server = rq.dl.server_mut(kind);
    server.params = params;
    if server.state == State::Interrupted {
        server.state = State::Stopped;
    }
    update(rq, cx);
}

/// Why a server cannot be changed so.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ServerError {
    /// The runtime is above the period, or the period is out of range (EINVAL).
    Params,
    /// The root domain has not that much bandwidth left (EBUSY).
    NoBandwidth,
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Params => write!(
                f,
                "runtime is above period, or period is outside {} to {} (EINVAL)",
                ServerParams::PERIOD_MIN,
                ServerParams::PERIOD_MAX
            ),
            Self::NoBandwidth => f.write_str("the root domain has not enough bandwidth left (EBUSY)"),
        }
    }
}

impl core::error::Error for ServerError {}

impl<L: RawMutex> Scheduler<L> {
    /// Changes what the deadline server of a CPU promises (`fair_server/cpuN/runtime`, `period`). O(CPUs of the domain).
    ///
    /// Linux v6.12 `kernel/sched/debug.c`, `sched_fair_server_write`; `deadline.c`, `dl_server_apply_params`.
    ///
    /// # Errors
    /// The parameters make no sense, or the root domain is booked up; nothing is changed then.
    pub fn set_server(
        &self,
        rq: &mut Rq,
        now: Clock,
        kind: ServerKind,
        params: ServerParams,
        io: &mut Io,
    ) -> Result<(), ServerError> {
        if !params.is_valid() {
            return Err(ServerError::Params);
        }
        let (old, new) = (bandwidth(rq.dl.server(kind).params), bandwidth(params));
        self.rebook(self.shared.domain_of(rq.cpu), old, new, now.wall).map_err(|_| ServerError::NoBandwidth)?;
        rq.set_clock(now);
        let cx = &mut self.cx(rq.cpu, now, io);
        class::charge_current(rq, cx);
        set_params(rq, cx, kind, params);
        rq.publish(cx);
        Ok(())
    }
}

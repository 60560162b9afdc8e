//! RT throttling: the real-time tasks of a CPU may run for `sched_rt_runtime_us` in each `sched_rt_period_us`, 950 ms of a
//! second. Who runs beyond that waits, for the benefit of fair tasks, or of nobody. What came before deadline servers.
//!
//! ```text
//!             [1] a real-time task is queued: the period begins
//!   Idle ------------------------------------------------------> Counting
//!   Idle <---- [4] a period ends, nothing is queued or owed ------- |   ^
//!                                        [2] more than the runtime  v   |  [3] a period ends: what was run
//!                                                              Throttled       becomes less by the runtime
//! ```
//!
//! Time is counted whenever a real-time or deadline task is charged, so the limit takes effect at the tick as a rule; what
//! was run beyond it is debt. Throttled tasks stay on their run queue and do not count as running there; the CPU goes on
//! with fair tasks, or idles.
//!
//! With `features.RT_RUNTIME_SHARE` a CPU that exceeds its runtime first borrows from the others of its root domain: of
//! what each has not used, that CPU's part. O(CPUs of the domain), once per exceeding charge; all else is O(1).
//!
//! Sources: Linux v6.6 `kernel/sched/rt.c` (`sched_rt_runtime_exceeded`, `do_balance_runtime`,
//! `do_sched_rt_period_timer`, `start_rt_bandwidth`). differs: each CPU has its own period timer, the kernel one for all;
//! a CPU that goes offline keeps what it borrowed.

use crate::rq::{Cx, Phase, Rq, Unpublished};
use crate::step::{Op, Resched, RqTimer};
use lock_api::RawMutex;
use zerolag_model::{Duration, Instant, TraceEvent};

/// What real-time tasks have run here, and whether they may go on.
#[derive(Debug)]
pub(crate) struct Throttle {
    /// Run in the present period, or owed from earlier ones (`rt_time`).
    time: Duration,
    state: State,
}

/// See the diagram of the module.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Idle,
    Counting { period_ends: Instant },
    Throttled { period_ends: Instant },
}

impl Throttle {
    pub(crate) const fn new() -> Self {
        Self { time: Duration::ZERO, state: State::Idle }
    }

    /// Returns whether the real-time tasks of this CPU may not run.
    pub(crate) const fn is_throttled(&self) -> bool {
        matches!(self.state, State::Throttled { .. })
    }
}

/// A real-time task is queued here now; it has been counted as running.
pub(super) fn queued<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) {
    match rq.rt.throttle.state {
        State::Throttled { .. } => rq.nr_running -= 1,
        State::Counting { .. } => {}
        State::Idle if cx.config.settings.rt_throttling => begin_period(rq, cx, rq.clock.wall), // [1]
        State::Idle => {}
    }
}

/// A real-time task is not queued here any more; it will be counted off.
pub(super) fn dequeued(rq: &mut Rq) {
    if rq.rt.throttle.is_throttled() {
        rq.nr_running += 1;
    }
}

fn begin_period<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, from: Instant) {
    let at = from.saturating_add(cx.config.settings.rt_period);
    rq.rt.throttle.state = State::Counting { period_ends: at };
    cx.io.op(Op::ArmTimer { cpu: rq.cpu, timer: RqTimer::RtPeriod, at });
}

/// Counts what a real-time or deadline task has run.
pub(crate) fn charge<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, delta: Duration) {
    let State::Counting { period_ends } = rq.rt.throttle.state else { return };
    rq.rt.throttle.time += delta;
    let time = rq.rt.throttle.time;
    let settings = &cx.config.settings;
    if settings.rt_runtime_share {
        cx.shared.publish_rt_time(rq.cpu, time);
    }
    if settings.rt_runtime >= settings.rt_period || rq.rt.nr_running == 0 || time <= runtime(rq, cx, time) {
        return;
    }
    rq.rt.throttle.state = State::Throttled { period_ends }; // [2]
    rq.unpublished.add(Unpublished::ALL);
    rq.nr_running -= rq.rt.nr_running;
    cx.io.event(cx.now, rq.cpu, || TraceEvent::RtThrottle { throttled: true });
    rq.resched(cx, Resched::Now);
}

/// Returns what this CPU's real-time tasks may run per period; more than it has by itself if it needs that and may borrow.
fn runtime<L: RawMutex>(rq: &Rq, cx: &mut Cx<'_, L>, needed: Duration) -> Duration {
    if !cx.config.settings.rt_runtime_share {
        return cx.config.settings.rt_runtime;
    }
    let (shared, cpu, period) = (cx.shared, rq.cpu, cx.config.settings.rt_period);
    let nanos = cx.io.observer.u64(|| shared.rt_runtime(cpu, needed, period).as_nanos());
    cx.io.costs.inner_locks += 1;
    Duration::from_nanos(nanos)
}

/// The period timer fired; the current task has been charged.
pub(crate) fn period_over<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) {
    let (period_ends, was_throttled) = match rq.rt.throttle.state {
        State::Idle => return,
        State::Counting { period_ends } => (period_ends, false),
        State::Throttled { period_ends } => (period_ends, true),
    };
    let period = cx.config.settings.rt_period;
    // A timer that comes late ends several periods.
    let periods = rq.clock.wall.since(period_ends).as_nanos() / period.as_nanos() + 1;
    let (time, runtime) = (rq.rt.throttle.time, runtime(rq, cx, Duration::ZERO));
    let left = time.saturating_sub(runtime * periods);
    rq.rt.throttle.time = left;
    if cx.config.settings.rt_runtime_share {
        cx.shared.publish_rt_time(rq.cpu, left);
    }
    if time.is_zero() && rq.rt.nr_running == 0 {
        rq.rt.throttle.state = State::Idle; // [4]
        return;
    }
    begin_period(rq, cx, period_ends.saturating_add(period * (periods - 1)));
    if !was_throttled {
        return;
    }
    if left >= runtime {
        let State::Counting { period_ends } = rq.rt.throttle.state else { unreachable!("a period has begun") };
        rq.rt.throttle.state = State::Throttled { period_ends };
        return;
    }
    rq.unpublished.add(Unpublished::ALL); // [3]
    rq.nr_running += rq.rt.nr_running;
    cx.io.event(cx.now, rq.cpu, || TraceEvent::RtThrottle { throttled: false });
    let waits = super::pick(rq).is_some_and(|slot| rq.tasks[slot].prio.beats(rq.current_prio()));
    if waits && rq.phase == Phase::Running {
        rq.resched(cx, Resched::Now);
    }
}

//! RT throttling: the real-time tasks of a CPU can run for `sched_rt_runtime_us` in every
//! `sched_rt_period_us`, 950 ms of a second. Tasks that exceed this wait, for the benefit of fair
//! tasks, or of no task at all. Deadline servers are its successor.
//!
//! ```text
//!             [1] a real-time task is queued: the period begins
//!   Idle ------------------------------------------------------> Counting
//!   Idle <---- [4] a period ends, nothing is queued or owed ------- |   ^
//!                          [2] exec time exceeds the runtime        v   |  [3] a period ends: exec
//!                                                              Throttled       time is reduced
//!                                                                              by the runtime
//! ```
//!
//! Time is counted whenever a real-time or deadline task is charged. Only the charge of a real-time
//! task throttles, so the limit usually takes effect at the tick. The overrun is debt. Throttled
//! tasks stay on their run queue, but do not count as running there. The CPU continues with fair
//! tasks, or idles.
//!
//! With `features.RT_RUNTIME_SHARE` a CPU that exceeds its runtime first borrows from the other
//! CPUs of its root domain: 1/n of the unused runtime of each, on n CPUs. This is O(CPUs of the
//! domain), once per exceeding charge; everything else is O(1).
//!
//! Limit and period can be set or lifted at any time: see
//! [`Scheduler::set_rt_bandwidth`](crate::Scheduler::set_rt_bandwidth). The timer that ends periods
//! is started when a real-time task is enqueued while there is a limit. Tasks that already run when
//! a limit is set are therefore counted without that timer, until they exceed the runtime or
//! another real-time task is enqueued. Then the timer is started, and fires at once. A kernel fault
//! (`fault.rt_period_timer_lost`): only enqueueing started the timer, so a busy loop that exceeded
//! its runtime was throttled forever (commit 9b58e976b3b3).
//!
//! Sources: Linux v6.6 `kernel/sched/rt.c` (`sched_rt_runtime_exceeded`, `do_balance_runtime`,
//! `do_start_rt_bandwidth`, `do_sched_rt_period_timer`, `start_rt_bandwidth`,
//! `sched_rt_global_constraints`, `__disable_runtime`). differs: every CPU has its own period
//! timer; the kernel has one for all CPUs, so there a task that is enqueued on another CPU starts
//! it too.

use crate::queue::rt::throttle::RtThrottleState;
use crate::rq::cx::Cx;
use crate::rq::run_queue::{Phase, Rq};
use crate::words::bandwidth::RtLimit;
use crate::words::op::{Op, RqTimer};
use crate::words::resched::Resched;
use crate::words::unpublished::Unpublished;
use lock_api::RawMutex;
use zerolag_model::{Duration, Instant, RtBandwidth, TraceEvent};

/// Starts the period timer if a real-time task is now queued here. The task has been counted as
/// running.
pub(crate) fn queued<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) {
    let RtBandwidth { runtime, period } = rq.rt.throttle.limit.bandwidth;
    if runtime.is_none() || rq.rt.throttle.period_ends.is_some() {
        return;
    }
    let now = cx.now.wall;
    if rq.rt.throttle.state == RtThrottleState::Idle {
        rq.rt.throttle.state = RtThrottleState::Counting; // [1]
        start_timer(rq, cx, now.saturating_add(period));
    } else {
        start_timer(rq, cx, now);
    }
}

fn start_timer<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, at: Instant) {
    rq.rt.throttle.period_ends = Some(at);
    // The timer is also that of the groups here.
    let at = if rq.rt.tree.is_some() { rq.rt.next_period_end().unwrap_or(at) } else { at };
    cx.io.op(Op::ArmTimer { cpu: rq.cpu(), timer: RqTimer::RtPeriod, at });
}

/// Counts the exec time of a real-time task. A task also runs while it is throttled: in the kernel,
/// where it cannot leave the CPU at once, or because it has become a real-time task since. That
/// time is debt as well, and each charge asks the CPU again to leave the task.
///
/// A runtime of zero throttles nothing: the time is forgotten instead, since no period could ever
/// repay it (`sched_rt_runtime_exceeded`, until v6.11).
#[inline]
pub(crate) fn charge<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, delta: Duration) {
    if rq.rt.throttle.state != RtThrottleState::Idle {
        charge_period(rq, cx, delta);
    }
}

fn charge_period<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, delta: Duration) {
    let RtBandwidth { runtime: Some(limit), period } = rq.rt.throttle.limit.bandwidth else { return };
    let time = rq.rt.throttle.time + delta;
    set_time(rq, cx, time);
    if rq.rt.throttle.is_throttled() {
        if rq.rt.is_throttled() {
            rq.resched(cx, Resched::Now);
        }
        return;
    }
    if limit >= period || rq.rt.nr_running == 0 || time <= runtime(rq, cx, limit, time) || !rq.is_online() {
        return;
    }
    if limit.is_zero() {
        set_time(rq, cx, Duration::ZERO);
        return;
    }
    rq.rt.throttle.state = RtThrottleState::Throttled; // [2]
    rq.note(Unpublished::ALL);
    cx.io.event(cx.now, rq.cpu(), || TraceEvent::RtThrottle { throttled: true });
    rq.resched(cx, Resched::Now);
    if rq.rt.throttle.period_ends.is_none() && !cx.config.settings.rt_period_timer_lost {
        start_timer(rq, cx, cx.now.wall);
    }
}

/// Counts the exec time of a deadline task, also while the real-time tasks are throttled. It
/// throttles nothing itself: the next charge of a real-time task notices that the runtime is
/// exceeded.
///
/// Linux v6.6 `kernel/sched/deadline.c`, `update_curr_dl`, with `sched_rt_bandwidth_account`: time
/// counts while the period timer is active. While it is not, the kernel counts up to the runtime,
/// which the timer then removes as soon as a real-time task starts it; here that time is not
/// counted at all.
pub(crate) fn charge_deadline<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, delta: Duration) {
    if rq.rt.throttle.state != RtThrottleState::Idle && rq.rt.throttle.limit.bandwidth.runtime.is_some() {
        let time = rq.rt.throttle.time + delta;
        set_time(rq, cx, time);
    }
}

fn set_time<L: RawMutex>(rq: &mut Rq, cx: &Cx<'_, L>, time: Duration) {
    rq.rt.throttle.time = time;
    if cx.config.settings.rt_runtime_share {
        cx.shared.publish_rt_time(rq.cpu(), time);
    }
}

/// Returns how long this CPU's real-time tasks can run per period: more than its limit if they need
/// more and the CPU can borrow it.
fn runtime<L: RawMutex>(rq: &Rq, cx: &mut Cx<'_, L>, limit: Duration, needed: Duration) -> Duration {
    if !cx.config.settings.rt_runtime_share {
        return limit;
    }
    let (shared, cpu, period) = (cx.shared, rq.cpu(), rq.rt.throttle.limit.bandwidth.period);
    let nanos = cx.io.observer.u64(|| shared.rt_runtime(cpu, needed, period).as_nanos());
    cx.io.costs.inner_locks += 1;
    Duration::from_nanos(nanos)
}

/// Handles the period timer. The current task has been charged.
pub(crate) fn period_over<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) {
    // The timer can be that of a group: then this period has not ended.
    let is_due = rq.rt.throttle.period_ends.is_some_and(|at| at <= cx.now.wall || rq.rt.tree.is_none());
    let Some(period_ends) = rq.rt.throttle.period_ends.take_if(|_| is_due) else { return };
    let RtBandwidth { runtime: Some(limit), period } = rq.rt.throttle.limit.bandwidth else {
        set_time(rq, cx, Duration::ZERO);
        end_throttling(rq, cx, RtThrottleState::Idle);
        return;
    };
    // A late timer ends several periods.
    let periods = cx.now.wall.since(period_ends).as_nanos() / period.as_nanos() + 1;
    let (time, runtime) = (rq.rt.throttle.time, runtime(rq, cx, limit, Duration::ZERO));
    let left = time.saturating_sub(runtime * periods);
    set_time(rq, cx, left);
    if time.is_zero() && rq.rt.nr_running == 0 {
        rq.rt.throttle.state = RtThrottleState::Idle; // [4]
        return;
    }
    start_timer(rq, cx, period_ends.saturating_add(period * periods));
    if left < runtime {
        end_throttling(rq, cx, RtThrottleState::Counting); // [3]
    }
}

/// Ends throttling, if the real-time tasks were throttled.
fn end_throttling<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, next: RtThrottleState) {
    let was_throttled = rq.rt.throttle.is_throttled();
    rq.rt.throttle.state = next;
    if !was_throttled {
        return;
    }
    rq.note(Unpublished::ALL);
    cx.io.event(cx.now, rq.cpu(), || TraceEvent::RtThrottle { throttled: false });
    let waits = rq.rt.pick().is_some_and(|slot| rq.tasks[slot].prio.beats(rq.current_prio()));
    if waits && rq.phase() == Phase::Running {
        rq.resched(cx, Resched::Now);
    }
}

/// Ends throttling here, because the CPU goes offline or leaves its root domain, and settles loans
/// with the other CPUs there: `__disable_runtime`.
pub(crate) fn go_offline<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) {
    if rq.rt.throttle.is_throttled() {
        end_throttling(rq, cx, RtThrottleState::Counting);
    }
    if let Some(limit) = rq.rt.throttle.limit.bandwidth.runtime
        && cx.config.settings.rt_runtime_share
    {
        cx.shared.settle_rt_runtime(rq.cpu(), limit);
        cx.io.costs.inner_locks += 1;
    }
}

/// Begins anew when the CPU is back, or in another root domain: `__enable_runtime`.
pub(crate) fn come_online<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) {
    set_time(rq, cx, Duration::ZERO);
    if rq.rt.throttle.limit.bandwidth.runtime.is_some() && cx.config.settings.rt_runtime_share {
        cx.shared.set_rt_runtime(rq.cpu(), rq.rt.throttle.limit);
        cx.io.costs.inner_locks += 1;
    }
}

/// Reads the limit of all CPUs.
pub(crate) fn observed<L: RawMutex>(cx: &mut Cx<'_, L>) -> RtLimit {
    let RtLimit { bandwidth: RtBandwidth { runtime, period }, round } = *cx.shared.rt_limit.lock();
    let observer = &mut cx.io.observer;
    let runtime = observer.u64(|| runtime.map_or(u64::MAX, Duration::as_nanos));
    let period = Duration::from_nanos(observer.u64(|| period.as_nanos()));
    let round = u32::try_from(observer.u64(|| u64::from(round))).expect("invariant: a recorded round");
    let runtime = (runtime != u64::MAX).then(|| Duration::from_nanos(runtime));
    RtLimit { bandwidth: RtBandwidth { runtime, period }, round }
}

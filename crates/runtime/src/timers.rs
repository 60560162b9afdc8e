//! Fires timers that are due.
//!
//! The thread of the clock ([`clock`](crate::clock)) competes for the processors of the machine
//! like any other, and beside other programs it can wait for one for milliseconds, in which the
//! CPUs would run tasks that are less urgent than the ones whose timers are due. So a CPU looks at
//! the earliest expiry after each switch, and fires timers that are overdue itself.

use crate::caller::Caller;
use crate::causes::Causes;
use crate::coop;
use crate::meter::own_cpu_time;
use crate::state::engine::Engine;
use crate::state::group::GroupState;
use crate::state::timeline::{Due, Expired};
use std::sync::Arc;
use zerolag_core::call::Call;
use zerolag_model::{CpuId, Instant};

/// Fires the timers that are overdue, if the thread of the clock does not. Called by CPUs, at a
/// time that they have read anyway.
pub(crate) fn catch_up(engine: &Arc<Engine>, cpu: CpuId, now: Instant) {
    if engine.timeline.is_late(now) {
        let due = {
            let mut timers = engine.timeline.timers.lock();
            engine.timeline.take_due(&mut timers, now)
        };
        let (had, mut causes) = (own_cpu_time(), Causes::default());
        fire_all(engine, due, &mut causes);
        if !causes.is_empty() {
            // The task that was switched to does not pay for them.
            let work = own_cpu_time().saturating_sub(had);
            causes.charge(cpu, work);
            engine.cpus[cpu.index()].queue.lock().meter.excuse(work);
        }
    }
}

/// Fires timers that are due. The tasks that they wake are placed together.
pub(crate) fn fire_all(engine: &Arc<Engine>, due: Expired, causes: &mut Causes) {
    for timer in due.timers {
        causes.extend(cause(engine, timer).as_ref());
        fire(engine, timer);
    }
    if due.sleeps.is_empty() {
        return;
    }
    let wake = || due.sleeps.into_iter().for_each(|waker| engine.contain(|| waker.wake()));
    let woken = coop::gathering(wake);
    causes.extend(woken.iter().map(|task| &task.group));
    Caller::new(engine, CpuId(0)).wake_all(woken);
}

/// Returns the group that a timer is for: its own, or that of the task which runs on its CPU.
fn cause(engine: &Engine, due: Due) -> Option<Arc<GroupState>> {
    match due {
        Due::Rq(cpu, _) => engine.cpus[cpu.index()].thread.lock().polled().map(|task| Arc::clone(&task.group)),
        Due::Group(group, _) => engine.live_group(group),
    }
}

fn fire(engine: &Arc<Engine>, due: Due) {
    match due {
        Due::Rq(cpu, timer) => Caller::new(engine, cpu).make(Call::Timer { cpu, timer }),
        Due::Group(group, timer) => {
            let by = CpuId(0);
            Caller::new(engine, by).make(Call::GroupTimer { group, timer, by });
        }
    }
}

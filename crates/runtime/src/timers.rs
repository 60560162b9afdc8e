//! Fires timers that are due.
//!
//! The thread of the clock ([`clock`](crate::clock)) competes for the processors of the machine
//! like any other, and beside other programs it can wait for one for milliseconds, in which the
//! CPUs would run tasks that are less urgent than the ones whose timers are due. So a CPU looks at
//! the earliest expiry after each switch, and fires timers that are overdue itself.

use crate::caller::Caller;
use crate::coop;
use crate::state::engine::Engine;
use crate::state::timeline::{Due, Expired};
use std::sync::Arc;
use zerolag_core::call::Call;
use zerolag_model::{CpuId, Instant};

/// Fires the timers that are overdue, if the thread of the clock does not. Called by CPUs, at a
/// time that they have read anyway.
pub(crate) fn catch_up(engine: &Arc<Engine>, now: Instant) {
    if engine.timeline.is_late(now) {
        let due = {
            let mut timers = engine.timeline.timers.lock();
            engine.timeline.take_due(&mut timers, now)
        };
        fire_all(engine, due);
    }
}

/// Fires timers that are due. The tasks that they wake are placed together.
pub(crate) fn fire_all(engine: &Arc<Engine>, due: Expired) {
    due.timers.into_iter().for_each(|timer| fire(engine, timer));
    if due.sleeps.is_empty() {
        return;
    }
    let wake = || due.sleeps.into_iter().for_each(|waker| engine.contain(|| waker.wake()));
    Caller::new(engine, CpuId(0)).wake_all(coop::gathering(wake));
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

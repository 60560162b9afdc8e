//! Time: the timers of run queues, groups and sleeping tasks, and the ticks of busy CPUs, all on
//! one thread.
//!
//! Ticks lie on the grid of `hz` and reach only CPUs that run a task; while all CPUs idle there are
//! none. A tick or a timer of a CPU is a call under the lock of its run queue. It does not need the
//! CPU's own thread, which can be in the middle of a poll.

use crate::caller::Caller;
use crate::causes::Causes;
use crate::meter::{pay_thread, take_unpaid};
use crate::state::engine::Engine;
use crate::timers::fire_all;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use zerolag_core::call::Call;
use zerolag_model::{CpuId, Instant};

/// Runs the thread of the clock.
pub(crate) fn run(engine: &Arc<Engine>) {
    // The slack that the kernel can add to every wait; the default is 50 us.
    if !cfg!(miri) {
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZero::new(1));
    }
    let tick = engine.tick_period();
    let mut next_tick = Instant::ZERO;
    pay_thread();
    loop {
        let (now, due) = {
            let mut timers = engine.timeline.timers.lock();
            loop {
                if engine.is_stopping.load(Ordering::Acquire) {
                    return;
                }
                let now = engine.now();
                let due = engine.timeline.take_due(&mut timers, now);
                if timers.is_ticking && next_tick <= now || !due.is_empty() {
                    engine.timeline.is_firing.store(true, Ordering::Relaxed);
                    break (now, due);
                }
                let tick_at = timers.is_ticking.then_some(next_tick);
                match timers.first().into_iter().chain(tick_at).min() {
                    Some(at) => {
                        let until = engine.time.as_std(at);
                        engine.timeline.changed.wait_until(&mut timers, until);
                    }
                    None => engine.timeline.changed.wait(&mut timers),
                }
            }
        };
        let mut causes = Causes::default();
        fire_all(engine, due, &mut causes);
        engine.timeline.is_firing.store(false, Ordering::Relaxed);
        if next_tick <= now {
            next_tick = (now + tick).round_down_to(tick);
            tick_all(engine, &mut causes);
        }
        if !causes.is_empty() {
            causes.charge(CpuId(0), take_unpaid());
        }
    }
}

/// Fires the timers that are due and ticks the busy CPUs, in tests that set the clock.
#[cfg(test)]
pub(crate) fn step(engine: &Arc<Engine>) {
    loop {
        let due = {
            let mut timers = engine.timeline.timers.lock();
            let now = engine.now();
            engine.timeline.take_due(&mut timers, now)
        };
        if due.is_empty() {
            break;
        }
        fire_all(engine, due, &mut Causes::default());
    }
    tick_all(engine, &mut Causes::default());
}

fn tick_all(engine: &Arc<Engine>, causes: &mut Causes) {
    let mut any = false;
    for cpu in engine.scheduler.config().topology().cpus() {
        if engine.cpus[cpu.index()].is_busy.load(Ordering::SeqCst) {
            any = true;
            engine.wake_postponed(cpu);
            Caller::new(engine, cpu).make(Call::Tick { cpu });
            causes.extend(engine.watch_poll(cpu).as_ref().map(|task| &task.group));
        }
    }
    // Without ticks they would not be charged, nor would it be seen that a poll counts no longer.
    any |= engine.watch_detached_polls() | engine.charge_blocking();
    if !any {
        engine.timeline.timers.lock().is_ticking = false;
        // A CPU can have become busy between the two checks.
        if engine.cpus.iter().any(|cpu| cpu.is_busy.load(Ordering::SeqCst)) {
            engine.timeline.timers.lock().is_ticking = true;
        }
    }
}

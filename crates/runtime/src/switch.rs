//! Switches of a CPU: from the task that leaves to the one that the scheduler picks.

use crate::caller::{Caller, Switched};
use crate::state::engine::Engine;
use crate::state::task::Task;
use crate::timers;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use zerolag_core::Leave;
use zerolag_model::{CpuId, Instant};

/// Leaves a task, unless it was woken before it could block, and switches to the next.
pub(crate) fn schedule(engine: &Arc<Engine>, cpu: CpuId, running: Option<Arc<Task>>, why: Leave) -> Option<Arc<Task>> {
    match Caller::new(engine, cpu).switch(running.as_ref(), why) {
        Switched::Stays => running,
        Switched::To(next) => {
            if next.is_some() {
                // When it was switched to. If a more urgent one is woken, this CPU is kicked.
                let began = engine.cpus[cpu.index()].began.load(Ordering::Relaxed);
                timers::catch_up(engine, cpu, Instant::from_nanos(began));
            }
            note_switch(engine, cpu, next)
        }
    }
}

/// Notes whether the CPU runs a task after a switch.
pub(crate) fn note_switch(engine: &Arc<Engine>, cpu: CpuId, next: Option<Arc<Task>>) -> Option<Arc<Task>> {
    // Only this thread writes it: most switches are between tasks, and write nothing.
    let is_busy = &engine.cpus[cpu.index()].is_busy;
    let was_busy = is_busy.load(Ordering::SeqCst);
    if next.is_some() != was_busy {
        is_busy.store(next.is_some(), Ordering::SeqCst);
        if next.is_some() {
            engine.timeline.begin_ticks();
        }
    }
    next
}

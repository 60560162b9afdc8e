//! Spinning locks of the kernel: whoever waits for one burns the time of its own CPU, and nothing preempts a CPU whose task has one or
//! waits for one.
//!
//! Served in order of arrival (Linux `kernel/locking/qspinlock.c`). Who is served next goes on when the lock's cache line has reached
//! its CPU. Under `preempt = rt` these are sleeping locks whose holders inherit (`kernel/locking/spinlock_rt.c`): mutexes of ours.

use crate::kernel::cpu::Segment;
use crate::machine::Machine;
use crate::program::sync::Shared;
use std::collections::VecDeque;
use zerolag_model::{CpuId, CpuLayer, Duration, TaskId, TraceEvent};
use zerolag_workload::program::ResourceId;

/// Who has it, and who spins for it where.
#[derive(Debug, Default)]
pub(crate) struct SpinLock {
    pub(crate) owner: Option<TaskId>,
    spinning: VecDeque<(TaskId, CpuId)>,
}

/// Longer than any run: spinning ends when the lock is given up.
const FOREVER: Duration = Duration::from_secs(1 << 30);

impl Machine {
    pub(crate) fn spin_lock(&mut self, cpu: CpuId, task: TaskId, id: ResourceId) {
        let Shared::SpinLock(lock) = &mut self.shared[id.index()] else {
            if self.take_mutex(cpu, task, id) {
                self.step_over(task);
            }
            return;
        };
        let holder = lock.owner;
        match holder {
            None => lock.owner = Some(task),
            Some(_) => lock.spinning.push_back((task, cpu)),
        }
        let body = &mut self.tasks[task.index()];
        body.cursor.spin_locks += 1;
        body.cursor.action += 1;
        if holder.is_none() {
            self.emit(cpu, TraceEvent::TakeLock { task, lock: id.0 });
            return;
        }
        body.cursor.spins_for = Some(id);
        body.idle_actions = 0;
        let place = &mut self.cpus[cpu.index()];
        place.segment = Segment::Work { left: FOREVER, layer: CpuLayer::Kernel };
        place.segment_since = place.busy_until;
        self.emit(cpu, TraceEvent::WaitLock { task, lock: id.0, holder });
        self.stop_if_circle(task);
    }

    pub(crate) fn spin_unlock(&mut self, cpu: CpuId, task: TaskId, id: ResourceId) {
        self.step_over(task);
        let Shared::SpinLock(lock) = &mut self.shared[id.index()] else {
            self.drop_mutex(cpu, task, id);
            return;
        };
        if lock.owner != Some(task) {
            self.stop_not_held(task, id);
            return;
        }
        let next = lock.spinning.pop_front();
        lock.owner = next.map(|(next, _)| next);
        self.tasks[task.index()].cursor.spin_locks -= 1;
        self.emit(cpu, TraceEvent::DropLock { task, lock: id.0 });
        let Some((next, on)) = next else { return };
        self.tasks[next.index()].cursor.spins_for = None;
        self.emit(cpu, TraceEvent::TakeLock { task: next, lock: id.0 });
        let left = self.costs.rq_lock_transfer.at(self.topology.distance(cpu, on));
        let place = &mut self.cpus[on.index()];
        if !place.is_in_kernel(self.now) {
            place.advance_segment(self.now);
        }
        place.segment = Segment::Work { left, layer: CpuLayer::Kernel };
        place.completion_at = None;
        if place.jobs.is_empty() {
            self.arm_completion(on);
        }
    }
}

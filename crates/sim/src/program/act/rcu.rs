//! Readers of RCU, the tasks that wait for them, and the thread of grace periods
//! ([`Rcu`]).
//!
//! The thread `rcu_preempt` sleeps between its looks, and is woken earlier by the end of the last
//! section that it waits for. It can be late: it is a fair task, or real-time of
//! `rcu.kthread_prio`. differs: a look takes no time, and the tasks that wait are woken by it, not
//! by callbacks in the softirqs of their CPUs.
//!
//! The thread `rcub/0` boosts a reader as the kernel does: it makes the reader the holder of a
//! mutex that inherits, and waits for that. So the reader runs at the priority of the thread until
//! it ends its section. A fair reader is then a real-time task, and no deadline server of the fair
//! class serves it any more.
//!
//! Sources: see there; Linux v6.12 `kernel/rcu/tree_plugin.h`, `rcu_boost`, `rcu_boost_kthread`;
//! `kernel/rcu/tree.c`, `rcu_gp_kthread`; `kernel/time/timer.c`, `calc_index` (a timeout of n ticks
//! is n ticks after the next one).

use crate::kernel::state::Kernel;
use crate::program::shared::Shared;
use crate::program::shared::rcu::{Due, Looked, Rcu};
use crate::program::state::Programs;
use crate::program::task::{TaskActivity, WaitFor};
use zerolag_model::event::RcuStep;
use zerolag_model::{CpuId, Instant, TaskId, TraceEvent};

impl Programs {
    /// The current task begins a section. Out of line, as all of RCU: other programs have none.
    #[cold]
    pub(crate) fn rcu_read_lock(&mut self, kernel: &mut Kernel, cpu: CpuId, task: TaskId) {
        self.step_over(task);
        kernel.emit(cpu, TraceEvent::Rcu { task, step: RcuStep::ReadBegins });
        if let Some(rcu) = &mut self.rcu {
            rcu.lock(task, cpu, kernel.switches(cpu));
        }
    }

    /// The current task ends its section.
    #[cold]
    pub(crate) fn rcu_read_unlock(&mut self, kernel: &mut Kernel, cpu: CpuId, task: TaskId) {
        self.step_over(task);
        kernel.emit(cpu, TraceEvent::Rcu { task, step: RcuStep::ReadEnds });
        let Some(rcu) = &mut self.rcu else { return };
        let thread = rcu.unlock(task, cpu, kernel.jiffy());
        let was_boosted = rcu.boosted.take_if(|reader| *reader == task).is_some();
        let mutex = rcu.boost.filter(|_| was_boosted).map(|(boost, _)| boost.mutex);
        if let Some(thread) = thread
            && self.task(thread).state == TaskActivity::Waits(WaitFor::Time)
        {
            self.wake(kernel, cpu, thread);
        }
        if let Some(mutex) = mutex {
            self.drop_mutex(kernel, cpu, task, mutex);
        }
    }

    /// The current task waits for a grace period.
    #[cold]
    pub(crate) fn synchronize_rcu(&mut self, kernel: &mut Kernel, cpu: CpuId, task: TaskId) {
        self.step_over(task);
        kernel.emit(cpu, TraceEvent::Rcu { task, step: RcuStep::WaitBegins });
        let rcu = self.rcu();
        let thread = rcu.wakes;
        if rcu.wait(task) {
            self.signal(kernel, cpu, thread);
        }
        self.block(kernel, cpu, task, WaitFor::GracePeriod);
    }

    /// The thread of grace periods does what is due, until no task waits.
    #[cold]
    pub(crate) fn rcu_periods(&mut self, kernel: &mut Kernel, cpu: CpuId, task: TaskId) {
        match self.rcu().due(kernel.now()) {
            Due::Nothing => self.step_over(task),
            Due::Begin => {
                kernel.emit(cpu, TraceEvent::Rcu { task, step: RcuStep::PeriodBegins });
                let look_at = self.next_look(kernel);
                let switches = (0..kernel.nr_cpus()).map(|cpu| kernel.switches(CpuId::from_index(cpu))).collect();
                self.rcu().begin(task, kernel.jiffy(), look_at, switches);
                self.sleep_until(kernel, cpu, task, look_at);
            }
            Due::Look => {
                let look_at = self.next_look(kernel);
                let passes = |cpu, switches, readers: &[TaskId]| is_quiescent(kernel, cpu, switches, readers);
                let looked = self.rcu().look(kernel.jiffy(), look_at, passes);
                if looked == Looked::Boosts {
                    let (boost, _) = self.rcu().boost.expect("invariant: readers are boosted");
                    self.signal(kernel, cpu, boost.wakes);
                }
                if looked != Looked::Over {
                    self.sleep_until(kernel, cpu, task, look_at);
                }
            }
            // The timer of the look is still set.
            Due::Later => self.block(kernel, cpu, task, WaitFor::Time),
            Due::End => {
                kernel.emit(cpu, TraceEvent::Rcu { task, step: RcuStep::PeriodEnds });
                for waiter in self.rcu().end() {
                    kernel.emit(cpu, TraceEvent::Rcu { task: waiter, step: RcuStep::WaitEnds });
                    self.wake(kernel, cpu, waiter);
                }
            }
        }
    }

    /// The thread of boosts boosts the next reader, or has done so with all.
    #[cold]
    pub(crate) fn rcu_boost(&mut self, kernel: &mut Kernel, cpu: CpuId, task: TaskId) {
        let rcu = self.rcu();
        let (boost, _) = rcu.boost.expect("invariant: readers are boosted");
        let (mutex, next, is_boosting) = (boost.mutex, rcu.next_to_boost(), rcu.boosted.is_some());
        if is_boosting || self.task(task).cursor.handed == Some(mutex) {
            if self.take_mutex(kernel, cpu, task, mutex) {
                self.drop_mutex(kernel, cpu, task, mutex);
            }
            return;
        }
        let Some(reader) = next else {
            self.step_over(task);
            return;
        };
        self.rcu().boosted = Some(reader);
        let Shared::Mutex { owner, .. } = &mut self.shared[mutex.index()] else { unreachable!("it is a mutex") };
        debug_assert!(owner.is_none(), "one reader after the other");
        *owner = Some(reader);
        self.task_mut(reader).holds.push(mutex);
        kernel.emit(cpu, TraceEvent::Rcu { task: reader, step: RcuStep::Boosted });
        kernel.emit(cpu, TraceEvent::TakeLock { task: reader, lock: mutex.0 });
        kernel.publish_owner(cpu, mutex.0, Some(reader));
        let _ = self.take_mutex(kernel, cpu, task, mutex);
    }

    /// Returns the time of the look after the present one.
    fn next_look(&mut self, kernel: &Kernel) -> Instant {
        let ticks = self.rcu().ticks_between_looks(kernel.nr_cpus());
        kernel.instant_of(kernel.jiffy() + ticks + 1)
    }

    fn rcu(&mut self) -> &mut Rcu {
        self.rcu.as_mut().expect("invariant: a program in which tasks wait for RCU has it")
    }
}

/// Returns whether a CPU has passed a quiescent state since it had made so many switches.
fn is_quiescent(kernel: &Kernel, cpu: CpuId, switches: u64, readers: &[TaskId]) -> bool {
    let Some(task) = kernel.current(cpu).filter(|_| kernel.is_online(cpu)) else { return true };
    kernel.switches(cpu) != switches || !readers.contains(&task) && !kernel.has_disabled_preemption(cpu, task)
}

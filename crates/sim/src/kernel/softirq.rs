//! Softirqs: work that an interrupt leaves for later, with interrupts enabled.
//!
//! Without threads a CPU does it at the end of the interrupt, before it goes on with a task or
//! switches. Other interrupts are served meanwhile. In the books of a path that is a stretch whose
//! end moves: an interrupt takes the rest of the work out of the path, is served, and the rest
//! follows it.
//!
//! ```text
//!   handler ---> raise ---> begin ---------------------------> end ---> switch or task
//!                             |  interrupted: the rest waits     ^
//!                             +---> handler, its jobs -----------+
//! ```
//!
//! A task in a section with softirqs disabled keeps them waiting to its end. differs: a CPU that
//! has done softirqs for 2 ms leaves the rest to `ksoftirqd` (Linux v6.12 `kernel/softirq.c`,
//! `MAX_SOFTIRQ_TIME`); here it goes on.

use crate::kernel::cpu::Ends;
use crate::kernel::state::Kernel;
use crate::kernel::words::Left;
use zerolag_model::event::Irq;
use zerolag_model::{CpuId, CpuLayer, Duration, TaskId, TraceEvent};

impl Kernel {
    /// Softirqs are done by threads, or at the end of interrupts.
    pub(crate) const fn use_softirq_threads(&mut self, yes: bool) {
        self.has_softirq_threads = yes;
    }

    /// Returns the entry and exit of a handler that does no more.
    pub(crate) const fn handler_cost(&self) -> Duration {
        self.costs.timer_irq
    }

    /// Raises a softirq on a CPU.
    pub(crate) fn raise(&mut self, cpu: CpuId, work: Duration) {
        self.cpus[cpu.index()].raised.push_back(work);
    }

    /// Takes the work of the softirq that has waited longest on a CPU.
    pub(crate) fn take_raised(&mut self, cpu: CpuId) -> Option<Duration> {
        self.cpus[cpu.index()].raised.pop_front()
    }

    /// Leaves the expiry of a task's timer to a thread.
    pub(crate) fn defer_timer(&mut self, cpu: CpuId, task: TaskId) {
        self.cpus[cpu.index()].late_timers.push_back(task);
    }

    /// Takes the timer that has waited longest on a CPU.
    pub(crate) fn take_late_timer(&mut self, cpu: CpuId) -> Option<TaskId> {
        self.cpus[cpu.index()].late_timers.pop_front()
    }

    /// Moves what waits for the threads of a CPU to those of another one; returns whether softirqs,
    /// and whether timers were among it. Without threads the CPU does it itself.
    pub(crate) fn hand_over_softirqs(&mut self, from: CpuId, to: CpuId) -> [bool; 2] {
        if !self.has_softirq_threads {
            return [false, false];
        }
        let place = &mut self.cpus[from.index()];
        let (mut raised, mut timers) = (core::mem::take(&mut place.raised), core::mem::take(&mut place.late_timers));
        let has = [!raised.is_empty(), !timers.is_empty()];
        let place = &mut self.cpus[to.index()];
        place.raised.append(&mut raised);
        place.late_timers.append(&mut timers);
        has
    }

    /// Returns whether the timers of a task expire in the interrupt under every preemption model.
    pub(crate) fn has_hard_timers(&self, task: TaskId) -> bool {
        // A task that sleeps and is still queued is of the fair class: none other is left queued.
        self.bodies[task.index()].parcel.as_ref().is_some_and(zerolag_core::Parcel::has_hard_timers)
    }

    /// The current task enters a section with softirqs disabled.
    pub(crate) fn disable_softirqs(&mut self, task: TaskId) {
        self.bodies[task.index()].bh_sections += 1;
    }

    /// The current task leaves it.
    pub(crate) fn enable_softirqs(&mut self, task: TaskId) {
        self.bodies[task.index()].bh_sections -= 1;
    }

    /// Begins the next softirq at the end of an interrupt. Returns whether one was waiting that
    /// this CPU does now.
    #[inline(always)]
    pub(super) fn begin_softirq(&mut self, cpu: CpuId) -> bool {
        !self.cpus[cpu.index()].raised.is_empty() && !self.has_softirq_threads && self.begin_raised(cpu)
    }

    fn begin_raised(&mut self, cpu: CpuId) -> bool {
        let place = &mut self.cpus[cpu.index()];
        if place.current.is_some_and(|task| self.bodies[task.index()].bh_sections > 0) {
            return false;
        }
        let Some(work) = place.raised.pop_front() else { return false };
        place.begin_interrupt();
        place.spend(CpuLayer::Softirq, work);
        let is_noted = !work.is_zero();
        place.ends = Ends::Softirq { is_noted };
        if is_noted {
            self.emit(cpu, TraceEvent::IrqEnter { irq: Irq::Softirq });
        }
        true
    }

    /// A softirq is done, or a section with interrupts disabled, or the handler of a device: then
    /// returns what that leaves to be done.
    pub(super) fn end_with_path(&mut self, cpu: CpuId) -> Option<Left> {
        match core::mem::take(&mut self.cpus[cpu.index()].ends) {
            Ends::Softirq { is_noted: true } => self.emit(cpu, TraceEvent::IrqExit { irq: Irq::Softirq }),
            Ends::IrqsOff(task) => self.irqs_on(cpu, task),
            Ends::Handler(left) => return Some(left),
            Ends::Softirq { is_noted: false } | Ends::Nothing => {}
        }
        None
    }

    /// The handler of a device leaves something to be done. Returns that if it is to be done now,
    /// else it is done at the end of the path.
    ///
    /// A handler takes no run-queue lock before it wakes, and that is the last thing it does. If it
    /// woke when it begins, the lock would be held for all its time, and other CPUs would spin.
    pub(crate) fn after_handler(&mut self, cpu: CpuId, left: Left) -> Option<Left> {
        let place = &mut self.cpus[cpu.index()];
        if left == Left::default() || place.busy_until <= self.now {
            return Some(left);
        }
        debug_assert!(place.ends == Ends::Nothing, "what ended with the path has ended");
        place.ends = Ends::Handler(left);
        None
    }

    /// An interrupt reaches a CPU in a softirq: the rest of the work waits for the end of its
    /// handler.
    pub(super) fn interrupt_softirq(&mut self, cpu: CpuId) {
        let place = &mut self.cpus[cpu.index()];
        let rest = place.busy_until.since(self.now);
        place.unspend(CpuLayer::Softirq, rest);
        place.raised.push_front(rest);
        let left = self.end_with_path(cpu);
        debug_assert_eq!(left, None, "it is a softirq that ends");
    }
}

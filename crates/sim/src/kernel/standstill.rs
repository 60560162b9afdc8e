//! Standstills: times in which a CPU does nothing, and the kernel is not asked.
//!
//! A hypervisor runs something else on the real CPU, or the firmware takes all CPUs (SMI). An
//! interrupt would be the wrong model for that: a path with interrupts disabled waits for no
//! interrupt to end, but it stands still in the middle, and what it has locked stays locked. Then
//! other CPUs spin for a holder that does not run.
//!
//! ```text
//!   task or idle -----------------------> standstill ---> what was pending, then the task
//!   softirq -----> the rest waits ------> standstill ---> the rest
//!   kernel path -> [to its end] --------> standstill ---> what the path ends with
//!                  its locks: until the end of the standstill
//!   spins for a lock -------------------> pending: after the jobs that need the lock
//! ```
//!
//! A path is decided when it begins, so its standstill follows its work instead of interrupting it,
//! and the end of the path moves. differs: interrupts that the path sends, and tasks that it wakes,
//! are not delayed; a CPU that spins stands still after it has got the lock.
//!
//! The time is that of the current task. A kernel that knows the time stolen by the hypervisor
//! takes it off the clock by which tasks are charged (`steal_clock`). differs: if another CPU
//! updates the clock of a run queue in the midst of a standstill, the kernel charges the time up to
//! then, because a hypervisor tells what it has taken afterwards, and drops that from the rest.
//!
//! Sources: Linux v7.3 `kernel/sched/core.c`, `update_rq_clock_task`;
//! `arch/x86/kernel/kvm.c`, `kvm_steal_clock`.

use crate::kernel::cpu::Ends;
use crate::kernel::state::Kernel;
use crate::kernel::words::{Interrupt, Stands};
use zerolag_model::event::Irq;
use zerolag_model::{CpuId, Duration, Record, TraceEvent};

impl Kernel {
    /// A CPU stands still from now on. Returns whether it is to be driven: it was not in a kernel
    /// path. O(CPUs) if it was.
    pub(crate) fn stand_still(&mut self, cpu: CpuId, why: Stands, time: Duration) -> bool {
        let place = &mut self.cpus[cpu.index()];
        if !place.jobs.is_empty() {
            place.owed[why as usize] += time;
            if !place.pending.contains(&Interrupt::StandsStill(why)) {
                place.pending.push_back(Interrupt::StandsStill(why));
            }
            return false;
        }
        if self.time.now < place.busy_until && !matches!(place.ends, Ends::Softirq { .. }) {
            self.lengthen_path(cpu, why, time);
            return false;
        }
        let takes = self.takes_interrupt(cpu, Interrupt::StandsStill(why));
        debug_assert!(takes, "no path is under way that interrupts wait for");
        self.stand(cpu, why, time);
        true
    }

    /// The path of a CPU stands still, and holds its locks meanwhile.
    fn lengthen_path(&mut self, cpu: CpuId, why: Stands, time: Duration) {
        for rq in &mut self.cpus {
            if rq.lock.last == cpu && rq.lock.free_at > self.time.now {
                rq.lock.free_at += time;
            }
        }
        self.stand(cpu, why, time);
        // What ends the path comes up at the old end, and then asks for the new one.
        let place = &mut self.cpus[cpu.index()];
        place.segment_since = place.busy_until;
    }

    /// Spends the standstills of a CPU for whose end a lock was waited for.
    pub(crate) fn stand_as_owed(&mut self, cpu: CpuId, why: Stands) {
        let time = core::mem::take(&mut self.cpus[cpu.index()].owed[why as usize]);
        self.stand(cpu, why, time);
    }

    /// Spends a standstill at the end of the present path.
    pub(crate) fn stand(&mut self, cpu: CpuId, why: Stands, time: Duration) {
        let (irq, is_charged) = match why {
            Stands::Stolen => (Irq::Stolen, !self.rules.steal_clock),
            Stands::Smi => (Irq::Hardware, true),
        };
        let place = &mut self.cpus[cpu.index()];
        let begins = place.busy_until.max(self.time.now);
        place.spend_below(time, is_charged);
        if self.books.tracer.is_on() && !time.is_zero() {
            self.emit_at(begins, cpu, TraceEvent::IrqEnter { irq });
            let at = self.cpus[cpu.index()].busy_until;
            self.books.tracer.push_later(Record { at, cpu, event: TraceEvent::IrqExit { irq } });
        }
    }
}

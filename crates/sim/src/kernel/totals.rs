//! The books of the kernel, closed at the end of a run.

use crate::kernel::state::Kernel;
use crate::outcome::Stats;
use zerolag_core::Home;
use zerolag_model::{CpuId, Instant, TaskCounters, TaskId, TraceEvent};

impl Kernel {
    /// Closes the accounts of all CPUs and tasks, and records them.
    pub(crate) fn close_accounts(&mut self, end: Instant) {
        for index in 0..self.cpus.len() {
            let cpu = &mut self.cpus[index];
            cpu.close_account(end);
            if cpu.current.is_some() && cpu.busy_until <= end {
                let clock = cpu.clock(end);
                self.scheduler.charge(&mut cpu.rq, clock, &mut self.calls.io);
            }
            let times = cpu.times;
            self.emit(CpuId::from_index(index), TraceEvent::CpuTotals { times });
        }
        for task in (0..self.bodies.len()).map(TaskId::from_index) {
            let counters = self.counters_of(task);
            self.emit(CpuId(0), TraceEvent::TaskTotals { task, counters });
        }
    }

    fn counters_of(&self, task: TaskId) -> TaskCounters {
        if let Some(parcel) = &self.bodies[task.index()].parcel {
            return parcel.counters();
        }
        match self.scheduler.home(task) {
            Home::Rq(cpu) => self.scheduler.counters(&self.cpus[cpu.index()].rq, task).unwrap_or_default(),
            Home::Parcel => TaskCounters::default(),
        }
    }

    /// Returns what the run has counted.
    pub(crate) fn final_stats(&mut self) -> Stats {
        self.books.stats.switches = self.cpus.iter().map(|cpu| cpu.rq.nr_switches()).sum();
        self.books.stats
    }

    /// Checks what must hold of the scheduler's shared state when nothing is under way.
    ///
    /// # Errors
    /// A sentence that names what is wrong.
    pub(crate) fn check_quiescent(&self) -> Result<(), String> {
        let rqs: Vec<_> = self.cpus.iter().map(|cpu| &cpu.rq).collect();
        self.scheduler.check_quiescent(&rqs)
    }
}

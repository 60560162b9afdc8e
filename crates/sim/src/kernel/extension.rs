//! Time slice extensions: a task that is in a short section of user mode is preempted a little
//! later.
//!
//! A task that is preempted while it holds a lock of user space makes all that spin for it wait for
//! its next turn. With `rseq` a task can say that it is in such a section, at the cost of a write
//! to its own memory. An interrupt that asks for a switch then lets it go on for a few
//! microseconds; it leaves the CPU by a call at the end of the section.
//!
//! ```text
//!            takes a lock [1]           an interrupt returns to user mode, and a switch is due [2]
//!   nothing ------------------> asked ----------------------------------------------> granted
//!      ^                          |  releases the lock, or is switched out               |
//!      |<-------------------------+                                                      |
//!      +--------------------- releases the lock, is switched out, or the time is over ---+
//! ```
//!
//! The switch follows at once when a grant ends. One extension is granted per request: a task that
//! has been switched out has to ask again.
//!
//! * Only the return of an interrupt to user mode grants one: a task that is preempted in a page
//!   fault has none.
//! * Under `preempt = rt` only requests that are lazy can wait (`TIF_SLICE_EXT_SCHED`).
//!
//! differs: the kernel ends a grant when a second switch is asked for meanwhile, and at any system
//! call; here at the end of the section or of the time.
//!
//! A kernel on which no task has asked looks at one flag where it preempts and where it switches.
//!
//! Sources: Linux v7.0 `include/linux/rseq_entry.h`, `rseq_grant_slice_extension`; `kernel/rseq.c`,
//! `rseq_slice_yield`, `rseq_slice_expired`; `kernel/entry/common.c`, `__exit_to_user_mode_loop`
//! (commits dfb630f548a7, 0ac3b5c3dc45, 99d2592023e5, 3c78aaec19b0);
//! `Documentation/userspace-api/rseq.rst`.

use crate::kernel::body::Extension;
use crate::kernel::state::Kernel;
use crate::kernel::words::{Event, Job};
use zerolag_core::{CpuMode, Leave, Resched};
use zerolag_model::event::Disables;
use zerolag_model::{CpuId, CpuLayer, TaskId, TraceEvent};

impl Kernel {
    /// The current task asks for an extension, if the kernel grants any.
    pub(crate) fn ask_extension(&mut self, task: TaskId) {
        if self.rules.extension.is_some() {
            self.extensions.are_asked = true;
            self.bodies[task.index()].extension = Extension::Asked; // [1]
        }
    }

    /// Returns whether the current task of a CPU, which is to be preempted, goes on because of an
    /// extension.
    #[cold]
    pub(super) fn goes_on_extended(&mut self, cpu: CpuId, request: Resched) -> bool {
        let place = &self.cpus[cpu.index()];
        let (Some(rule), Some(task)) = (self.rules.extension, place.current) else { return false };
        match self.bodies[task.index()].extension {
            Extension::Nothing => false,
            Extension::Granted(_) => true,
            Extension::Asked => {
                let may_wait = request == Resched::Lazy || !rule.only_lazy;
                let grants = may_wait && place.is_in_interrupt() && Self::mode_on(place, &self.bodies) == CpuMode::User;
                if grants {
                    self.extensions.granted = self.extensions.granted.wrapping_add(1);
                    let nth = self.extensions.granted;
                    self.bodies[task.index()].extension = Extension::Granted(nth); // [2]
                    let until = self.path_end(cpu) + rule.time;
                    self.time.queue.arm(until, Event::ExtensionOver { cpu, nth });
                    self.emit(cpu, TraceEvent::NoPreempt { task, disables: Some(Disables::Preemption) });
                }
                grants
            }
        }
    }

    /// Returns whether this grant of the current task of a CPU is not over.
    pub(crate) fn is_extended(&self, cpu: CpuId, nth: u32) -> bool {
        let task = self.cpus[cpu.index()].current;
        task.is_some_and(|task| self.bodies[task.index()].extension == Extension::Granted(nth))
    }

    /// The current task of a CPU leaves its section, or the CPU. Returns whether an extension has
    /// been granted.
    pub(crate) fn take_extension(&mut self, cpu: CpuId) -> bool {
        let Some(task) = self.cpus[cpu.index()].current else { return false };
        let was = core::mem::take(&mut self.bodies[task.index()].extension);
        let is_granted = matches!(was, Extension::Granted(_));
        if is_granted {
            self.emit(cpu, TraceEvent::NoPreempt { task, disables: None });
        }
        is_granted
    }

    /// The current task has left its section: if it has been granted an extension, it gives its CPU
    /// up (`rseq_slice_yield`).
    pub(crate) fn end_extension(&mut self, cpu: CpuId, task: TaskId) {
        debug_assert!(self.current(cpu) == Some(task), "it is the current task");
        if self.extensions.are_asked && self.take_extension(cpu) {
            let call = self.costs.syscall;
            self.cpus[cpu.index()].spend(CpuLayer::Kernel, call);
            self.push_job(cpu, Job::Switch(Leave::Preempted));
        }
    }

    /// The current task of a CPU spins in user mode until it sees a lock free.
    pub(crate) fn spin_in_user_mode(&mut self, cpu: CpuId) {
        self.set_segment(cpu, Self::ENDLESS);
    }

    /// A task that spins in user mode sees a lock free that the current task of another CPU has
    /// released: when the cache line has arrived, or when it runs again.
    pub(crate) fn sees_user_lock_free(&mut self, from: CpuId, task: TaskId) {
        let ran_on = self.bodies[task.index()].last_ran_on;
        match ran_on.filter(|on| self.current(*on) == Some(task)) {
            Some(on) => self.spin_on_in(on, self.transfer(from, on), CpuLayer::User),
            None => self.cut_off_stored(task),
        }
    }
}

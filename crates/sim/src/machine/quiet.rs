//! Quiet times: the main loop as long as nothing happens but ticks and plain preemptions.
//!
//! In these, CPUs owe ticks ([`lazy`](crate::kernel::lazy)). Whatever else comes up ends the quiet
//! time first, and is done as it always is; so the loop is a short way, not another one.

use super::Machine;
use crate::kernel::ticks::Ticked;
use crate::kernel::words::Event;
use zerolag_model::{CpuId, Instant};

/// The most ticks of one quiet time: between two the main loop looks at its patience and reports
/// progress.
const TICKS: u32 = 32;

impl Machine {
    /// Handles events and ticks up to `until` while they are quiet, and the first one that is not.
    #[inline(never)]
    pub(super) fn pass_quiet_time(&mut self, until: Instant) {
        for _ in 0..TICKS {
            let Some(tick) = self.kernel.next_tick().filter(|tick| *tick <= until) else { break };
            while let Some(event) = self.kernel.next_event(tick) {
                self.kernel.set_alone_until(until);
                let Event::PathEnd { cpu } = event else {
                    self.kernel.make_noise();
                    return self.dispatch(event);
                };
                if self.kernel.path_ends(cpu) && !self.preempts_quietly(cpu) {
                    self.kernel.make_noise();
                    return self.drive(cpu);
                }
            }
            self.tick_all_quietly();
            if !self.kernel.is_quiet() {
                return;
            }
        }
        self.kernel.make_noise();
    }

    /// Lets a CPU preempt its task, if it looks at no other CPU for that and has nothing else to
    /// do.
    #[inline(always)]
    fn preempts_quietly(&mut self, cpu: CpuId) -> bool {
        self.kernel.preempts_alone(cpu) && self.preempt(cpu) && self.kernel.rests(cpu)
    }

    fn tick_all_quietly(&mut self) {
        self.kernel.set_alone_until(Instant::ZERO);
        self.kernel.begin_ticks();
        let mut from = CpuId(0);
        while let Some(cpu) = self.kernel.next_ticking(from) {
            from = CpuId(cpu.0 + 1);
            let ticked = self.kernel.quiet_tick_due(cpu);
            if ticked != Ticked::Done {
                self.after_quiet_tick(cpu, ticked);
            }
        }
    }

    /// As [`after_tick`](Self::after_tick). Mostly the CPU is to switch when the tick is over.
    #[inline(never)]
    fn after_quiet_tick(&mut self, cpu: CpuId, ticked: Ticked) {
        if ticked != Ticked::Drive || !self.kernel.is_busy(cpu) {
            self.kernel.make_noise();
        }
        self.after_tick(cpu, ticked);
    }
}

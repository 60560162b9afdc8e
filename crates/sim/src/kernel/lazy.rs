//! Lazy ticks: a CPU whose next ticks decide nothing does them later, all in one step.
//!
//! On a machine of busy fair tasks most work is ticks, and of those most only charge. The core
//! knows before which tick nothing can be decided ([`Foreseen`](zerolag_core::Foreseen)); until
//! then nothing but the CPU itself changes, and it changes by a formula. So the main loop passes
//! such a CPU by and counts the ticks that it *owes*.
//!
//! What else happens may look at any CPU. To ask at each of the hundred places that do whether the
//! CPU owes ticks would cost all runs. So ticks are only owed in *quiet* times, in which nothing
//! happens but ticks and plain preemptions, which look at their own CPU. Quiet times have a main
//! loop of their own (`machine/quiet.rs`), which begins after a tick and ends before anything else
//! is done, with no tick owed. So no other run pays for them.
//!
//! No time is quiet with records, of which each tick has some, with delayed ticks, with SMT threads
//! (a switch on one changes the speed of the other), while a task spins for the holder of a lock,
//! or if the costs of switches differ.

use crate::kernel::cpu::{Completion, Ends};
use crate::kernel::state::Kernel;
use crate::kernel::ticks::Ticked;
use zerolag_model::{CpuId, Duration, Instant};

impl Kernel {
    /// Begins a quiet time, if there can be one.
    #[inline(always)]
    pub(crate) fn quieten(&mut self) -> bool {
        self.lazy.is_quiet = self.lazy.is_possible && self.ticks.late.is_none() && self.spinners.is_empty();
        self.lazy.is_quiet
    }

    /// Something else than a tick or a plain preemption is about to happen: ends the quiet time, if
    /// it is one.
    #[inline(always)]
    pub(crate) fn make_noise(&mut self) {
        if self.lazy.is_quiet {
            self.do_all_owed();
        }
    }

    #[cold]
    #[inline(never)]
    fn do_all_owed(&mut self) {
        self.lazy.is_quiet = false;
        if core::mem::take(&mut self.lazy.is_used) {
            for cpu in (0..self.cpus.len()).map(CpuId::from_index) {
                self.do_owed(cpu);
            }
        }
    }

    /// Returns whether the time is quiet.
    #[inline(always)]
    pub(crate) const fn is_quiet(&self) -> bool {
        self.lazy.is_quiet
    }

    /// The tick of a CPU is due in a quiet time. The CPU owes it if it was foreseen.
    #[inline(always)]
    pub(crate) fn quiet_tick_due(&mut self, cpu: CpuId) -> Ticked {
        self.stats.ticks += 1;
        let owed = &mut self.lazy.cpus[cpu.index()];
        if self.now <= owed.until {
            owed.count += 1;
            return Ticked::Done;
        }
        self.do_owed(cpu);
        self.tick(cpu)
    }

    /// Does the ticks that a CPU owes.
    #[inline(always)]
    fn do_owed(&mut self, cpu: CpuId) {
        let owed = &mut self.lazy.cpus[cpu.index()];
        owed.until = Instant::ZERO;
        if owed.count > 0 {
            let (first, count) = (owed.first, core::mem::take(&mut owed.count));
            self.catch_up(cpu, first, count);
        }
    }

    #[inline(never)]
    fn catch_up(&mut self, cpu: CpuId, first: Instant, count: u32) {
        let place = &mut self.cpus[cpu.index()];
        let cost = self.costs.tick_of(|| place.rq.is_current_fair());
        let (clock, ticks) = place.take_plain_ticks(first, self.ticks.period, count, cost);
        self.scheduler.foreseen_ticks(&mut place.rq, clock, ticks, &mut self.io);
        place.end_plain_tick(cpu);
        debug_assert!(self.io.is_quiet(), "ticks that were foreseen ask for nothing");
    }

    /// Begins the preemption of a CPU's current task, if that is what the CPU does next and no
    /// other CPU is looked at. Its path has gone on at this moment. Returns whether it is.
    #[inline(always)]
    pub(crate) fn preempts_alone(&mut self, cpu: CpuId) -> bool {
        let place = &mut self.cpus[cpu.index()];
        let request = place.rq.need_resched();
        let is_alone = place.jobs.is_empty()
            && place.pending.is_empty()
            && place.ends == Ends::Nothing
            && place.raised.is_empty()
            && !place.in_works
            && self.stop.is_none()
            && place.rq.is_current_fair()
            && place.lock.is_free(place.busy_until)
            && self.scheduler.preempts(request, Self::mode_on(place, &self.bodies));
        if is_alone {
            place.begin_own_path();
        }
        is_alone
    }

    /// A CPU has switched in quiet times. If nothing else is to be done there it goes on computing,
    /// and the core is asked which of its next ticks decide nothing. Returns whether that is so.
    #[inline(always)]
    pub(crate) fn rests(&mut self, cpu: CpuId) -> bool {
        let next = self.ticks.next;
        let place = &mut self.cpus[cpu.index()];
        if !self.lazy.is_quiet || place.busy_until <= self.now || !place.jobs.is_empty() || place.has_more_to_do() {
            return false;
        }
        let completion = place.goes_on_computing(place.busy_until, next);
        if !matches!(completion, Completion::Stays) {
            self.arm(cpu, completion);
        } else {
            self.foresee(cpu);
        }
        true
    }

    #[inline(always)]
    fn foresee(&mut self, cpu: CpuId) {
        let next = self.ticks.next;
        let place = &self.cpus[cpu.index()];
        let is_plain = place.busy_until < next
            && place.lock.free_at <= next
            && place.slack_timers.is_empty()
            && place.path_end_at.is_none()
            && place.completion_at.is_none()
            && place.ticking;
        // Each tick asks whether the computation ends before the next one.
        let Some(ends) = place.usual_segment_end(place.segment_since).filter(|_| is_plain) else { return };
        let Some(foreseen) = self.scheduler.foresee(&place.rq, &mut self.io) else { return };
        let before = |at: Instant, by: Duration| Instant::from_nanos(at.as_nanos().saturating_sub(by.as_nanos()));
        let until = place.wall_of(foreseen.task).min(foreseen.wall).min(before(ends, self.ticks.period));
        self.lazy.is_used = true;
        let owed = &mut self.lazy.cpus[cpu.index()];
        (owed.until, owed.first) = (before(until, Duration::from_nanos(1)), next);
    }

    /// Returns whether the present path of a CPU takes time, so that it ends later.
    pub(crate) fn is_busy(&self, cpu: CpuId) -> bool {
        self.cpus[cpu.index()].busy_until > self.now
    }
}

//! Ticks: when they come, what they do, and which CPUs need them ([`Ticks`] has the state).
//!
//! Most ticks change nothing for the task that runs. Those are done without a kernel path, in one
//! call of the core; any other tick is taken as an interrupt.
//!
//! [`Ticks`]: crate::kernel::ticking::Ticks

use crate::kernel::cpu::Segment;
use crate::kernel::state::Kernel;
use crate::kernel::ticking::LateTicks;
use crate::kernel::words::{Event, Interrupt};
use crate::queue::Phase;
use zerolag_core::{Resched, Step};
use zerolag_model::{CpuId, Duration, Instant};
use zerolag_workload::random::Dist;

/// What remains of a tick.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ticked {
    /// Nothing.
    Done,
    /// The CPU is in the kernel and must be driven.
    Drive,
    /// All: it must be taken as an interrupt.
    Interrupt,
}

impl Kernel {
    /// Returns when the next tick comes, if a CPU ticks.
    #[inline(always)]
    pub(crate) fn next_tick(&self) -> Option<Instant> {
        if self.ticks.cpus.is_empty() { None } else { Some(self.ticks.next) }
    }

    /// Goes to the time of the next tick.
    #[inline]
    pub(crate) fn begin_ticks(&mut self) {
        self.time.now = self.ticks.next;
        self.ticks.next = self.time.now + self.ticks.period;
    }

    /// Returns the first CPU that ticks from one on.
    #[inline(always)]
    pub(crate) fn next_ticking(&self, from: CpuId) -> Option<CpuId> {
        // Mostly it is close by: then no summary is needed.
        let (word, bit) = (from.0 / u64::BITS, from.0 % u64::BITS);
        let bits = self.ticks.cpus.word(word as usize) & (u64::MAX << bit);
        if bits != 0 {
            Some(CpuId(word * u64::BITS + bits.trailing_zeros()))
        } else if self.ticks.cpus.summary() & u64::MAX.checked_shl(word + 1).unwrap_or(0) == 0 {
            None
        } else {
            self.next_ticking_far(from)
        }
    }

    #[inline(never)]
    fn next_ticking_far(&self, from: CpuId) -> Option<CpuId> {
        self.ticks.cpus.next_from(from)
    }

    /// The tick of a CPU is due. Most ticks change nothing: those are done here, without a path.
    #[inline]
    pub(crate) fn tick_due(&mut self, cpu: CpuId) -> Ticked {
        self.books.stats.ticks += 1;
        if self.ticks.late.is_some() {
            self.delay_tick(cpu);
            return Ticked::Done;
        }
        self.tick(cpu)
    }

    /// Delays a tick that is due.
    #[cold]
    fn delay_tick(&mut self, cpu: CpuId) {
        let Some(late) = &mut self.ticks.late else { return };
        let at = self.time.now + late.next(cpu, self.time.now, self.ticks.period);
        self.queue_event(at, Phase::LateTick, cpu, Event::LateTick { cpu });
        self.arm_completion(cpu); // It may end before, and was left to this tick.
    }

    /// Delays the ticks of each CPU by random times.
    pub(crate) fn delay_ticks(&mut self, by: Dist, seed: u64) {
        self.ticks.late = Some(LateTicks::new(by, seed, self.cpus.len()));
    }

    /// Delays the ticks of CPUs that run in turns.
    pub(crate) fn tick_in_turns(&mut self, turn: Duration, first_permille: u32, seed: u64) {
        self.ticks.late = Some(LateTicks::in_turns(turn, first_permille, seed, self.cpus.len()));
    }

    /// A delayed tick comes. The lowest CPU that ticks counts for all: a CPU that ticks before it
    /// sees the count of the tick before. In turns the first does.
    pub(crate) fn late_tick(&mut self, cpu: CpuId) -> Ticked {
        let is_in_turns = matches!(self.ticks.late, Some(LateTicks::Turns { .. }));
        if is_in_turns || self.ticks.cpus.next_from(CpuId(0)) == Some(cpu) {
            self.scheduler.count_tick(self.time.now);
        }
        if self.ticks.cpus.contains(cpu) { self.tick(cpu) } else { Ticked::Done }
    }

    fn tick(&mut self, cpu: CpuId) -> Ticked {
        let (now, next_tick) = (self.time.now, self.ticks.next);
        let place = &mut self.cpus[cpu.index()];
        // A softirq that waits for the end of a section is looked at when the path ends.
        let is_plain = now > place.busy_until
            && place.jobs.is_empty()
            && place.segment != Segment::None
            && place.lock.is_free(now)
            && place.raised.is_empty()
            && place.slack_timers.is_empty()
            // The call that a policy gets takes its time, which the short way does not spend.
            && self.costs.policy_call.is_zero();
        if !is_plain || self.books.tracer.is_on() {
            return Ticked::Interrupt;
        }
        let clock = place.take_plain_tick(now, self.costs.tick_of(|| place.rq.is_current_fair()));
        let step = self.scheduler.tick(&mut place.rq, clock, &mut self.calls.io);
        if step == Step::Done && place.rq.need_resched() == Resched::No && self.calls.io.is_quiet() {
            place.segment_since = place.busy_until;
            place.lock.free_at = place.lock.free_at.max(place.busy_until);
            place.lock.last = cpu;
            let completes = place.segment_end(place.busy_until) <= next_tick;
            let toggles = self.scheduler.needs_tick(&place.rq) != place.ticking;
            if completes {
                self.arm_completion(cpu);
            }
            if toggles {
                self.toggle_tick(cpu);
            }
            return Ticked::Done;
        }
        self.unlock_own(cpu, Duration::ZERO);
        self.raise_softirq(cpu, step);
        Ticked::Drive
    }

    /// Notes the work that a tick requests as a softirq (`SCHED_SOFTIRQ`). It comes after the
    /// tick's handler, and so after the ticks of all other CPUs at this instant.
    #[inline(always)]
    pub(super) fn raise_softirq(&mut self, cpu: CpuId, step: Step) {
        if step != Step::Done {
            self.raise_balancing(cpu, step);
        }
    }

    #[inline(never)]
    fn raise_balancing(&mut self, cpu: CpuId, step: Step) {
        let place = &mut self.cpus[cpu.index()];
        debug_assert!(place.softirq == Step::Done, "a tick comes after the softirq of the one before");
        place.softirq = step;
        place.pending.push_back(Interrupt::Softirq);
    }

    /// Takes the work of a softirq.
    pub(crate) fn take_softirq(&mut self, cpu: CpuId) -> Step {
        core::mem::replace(&mut self.cpus[cpu.index()].softirq, Step::Done)
    }

    /// Starts or stops the tick of a CPU as the core needs it.
    #[inline(always)]
    pub(crate) fn update_tick(&mut self, cpu: CpuId) {
        let place = &self.cpus[cpu.index()];
        let needed = self.scheduler.needs_tick(&place.rq);
        if needed != place.ticking {
            self.toggle_tick(cpu);
        }
    }

    pub(super) fn toggle_tick(&mut self, cpu: CpuId) {
        let place = &mut self.cpus[cpu.index()];
        place.ticking = !place.ticking;
        if place.ticking {
            if self.ticks.cpus.is_empty() {
                if self.ticks.late.is_some() {
                    self.scheduler.count_tick(self.time.now);
                }
                self.ticks.next = (self.time.now + Duration::from_nanos(1)).round_up_to(self.ticks.period);
            }
            self.ticks.cpus.insert(cpu);
        } else {
            self.ticks.cpus.remove(cpu);
            // The tick would have asked for it. A path that is under way sets it again when it
            // ends: it can spin for the lock that is held here, and the end of the computation is
            // that of before the path, so it can be over.
            if self.cpus[cpu.index()].jobs.is_empty() {
                self.arm_completion(cpu);
            }
        }
    }

    /// Returns whether a CPU runs a task without a tick.
    pub(crate) fn runs_without_tick(&self, cpu: CpuId) -> bool {
        let place = &self.cpus[cpu.index()];
        !place.ticking && place.current.is_some()
    }
}

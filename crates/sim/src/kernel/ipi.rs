//! Interrupts between CPUs: how they are sent and taken, what they cost, and the watchdog over
//! them.
//!
//! An IPI per request would let a CPU drown in requests that one handler could have served. So work
//! for another CPU is put on a list of the target. A CPU that finds the list empty sends an
//! interrupt, and the handler takes the whole list with one entry (`irq_work_queue_on`,
//! `irq_work_run`). Work that arrives meanwhile raises the next interrupt. IPIs are taken before
//! timers: their vectors have the higher priority on x86.
//!
//! ```text
//!   Op::Ipi -> works of the target -- was empty: interrupt --> handler: all works become jobs
//!                                  -- was not: the one on its way takes it along
//! ```
//!
//! A CPU that idles and polls its own `need_resched` flag ([`IdleState::polling`]) is sent no
//! interrupt: the sender writes the flag, and the target takes its list on the way out of idle.
//!
//! The list bounds the interrupts, but not the work. A CPU to which work comes faster than it is
//! done serves no timer and runs no task; so does a CPU that spins for lock after lock. The
//! [`Stretch`] of each CPU is the time since it last was free for a timer. When it passes
//! `watchdog_thresh`, the run ends with [`End::Lockup`] instead of running away.
//!
//! The state of a root domain's IPI is one cache line, and so is the word of each CPU by which
//! others claim to pull from it: accesses queue ([`CacheLines`]).
//!
//! Sources: Linux v4.1 and v6.12 `kernel/irq_work.c`; `arch/x86/include/asm/irq_vectors.h`
//! (`LOCAL_TIMER_VECTOR` is below `CALL_FUNCTION_SINGLE_VECTOR`); `kernel/watchdog.c` (a CPU whose
//! timer interrupt has not come for `watchdog_thresh`); v6.12 `kernel/sched/core.c`, `resched_curr`
//! (`set_nr_and_not_polling`) and, since 5.8 (b2a02fc43a1f) for queued work too,
//! `call_function_single_prep_ipi` (`set_nr_if_polling`); `kernel/sched/idle.c`, `do_idle`
//! (`flush_smp_call_function_queue`). differs: before 5.8 work queued to a polling CPU raised an
//! interrupt all the same.
//!
//! [`CacheLines`]: crate::kernel::cache_lines::CacheLines

use crate::costs::IdleState;
use crate::kernel::cpu::Stretch;
use crate::kernel::state::Kernel;
use crate::kernel::words::{Event, Interrupt, Job};
use crate::outcome::End;
use crate::queue::Phase;
use zerolag_core::Work;
use zerolag_model::event::Irq;
use zerolag_model::{CpuId, CpuLayer, Duration, TraceEvent};

impl Kernel {
    /// Puts work on the list of a CPU, and interrupts it if that was empty.
    pub(super) fn queue_work(&mut self, from: CpuId, to: CpuId, work: Work) {
        self.books.stats.rt_ipis +=
            u64::from(matches!(work, Work::RtPush(_) | Work::RtPushFor(_) | Work::RtPullFrom(_)));
        let works = &mut self.cpus[to.index()].works;
        let was_empty = works.is_empty();
        works.push_back((from, work));
        if !was_empty {
            return;
        }
        if from == to {
            self.cpus[from.index()].pending.push_back(Interrupt::Works);
        } else if self.polls(to) {
            self.set_flag(from, to);
        } else {
            self.send(from, to, Interrupt::Works);
        }
    }

    /// Sends an interrupt.
    #[inline(always)]
    pub(super) fn send(&mut self, from: CpuId, to: CpuId, what: Interrupt) {
        self.books.stats.ipis += 1;
        let latency = self.idle_state(to).and_then(|state| state.ipi_latency).unwrap_or(self.costs.ipi_latency);
        let latency = latency.at(self.topology.distance(from, to));
        let place = &mut self.cpus[from.index()];
        place.spend(CpuLayer::Sched, self.costs.ipi_send);
        let (at, count) = (place.busy_until + latency, place.next_count());
        self.time.queue.push(at, Phase::Ipi, from, count, Event::Interrupt { cpu: to, what });
    }

    /// Returns the state of `idle_states` in which a CPU idles.
    #[inline]
    fn idle_state(&self, cpu: CpuId) -> Option<&IdleState> {
        if self.costs.idle_states.is_empty() { None } else { self.one_of_idle_states(cpu) }
    }

    #[inline(never)]
    fn one_of_idle_states(&self, cpu: CpuId) -> Option<&IdleState> {
        let place = &self.cpus[cpu.index()];
        if place.current.is_some() || place.is_in_kernel(self.time.now) {
            return None;
        }
        let idled = self.time.now.since(place.busy_until);
        let states = &self.costs.idle_states;
        match &self.menu {
            None => self.costs.state_after(idled),
            Some(menu) => states.get(menu.select(cpu, self.time_to_timer(cpu, idled), states)),
        }
    }

    /// Returns whether a CPU idles in a state in which it polls its flag.
    pub(super) fn polls(&self, cpu: CpuId) -> bool {
        self.idle_state(cpu).is_some_and(|state| state.polling)
    }

    /// Sets the flag that an idle CPU polls.
    pub(super) fn set_flag(&mut self, from: CpuId, to: CpuId) {
        let sees = self.idle_state(to).and_then(|state| state.ipi_latency).unwrap_or(self.costs.rq_lock_transfer);
        let transfer = sees.at(self.topology.distance(from, to));
        let place = &mut self.cpus[from.index()];
        place.spend(CpuLayer::Sched, self.costs.inner_lock);
        let (at, count) = (place.busy_until + transfer, place.next_count());
        let what = Interrupt::Noticed;
        self.time.queue.push(at, Phase::Ipi, from, count, Event::Interrupt { cpu: to, what });
    }

    /// Takes the list of queued work. Returns the first; the others are noted as jobs.
    pub(crate) fn take_works(&mut self, cpu: CpuId) -> Option<Job> {
        let first = self.take_work(cpu)?;
        if !self.cpus[cpu.index()].works.is_empty() {
            self.take_more_works(cpu);
        }
        Some(Job::Remote(first))
    }

    /// Out of line: mostly one work is on the list.
    #[inline(never)]
    fn take_more_works(&mut self, cpu: CpuId) {
        while let Some(work) = self.take_work(cpu) {
            self.cpus[cpu.index()].jobs.push_back(Job::Remote(work));
        }
    }

    /// Takes the first work off a CPU's list, and charges the transfer of its cache lines.
    #[inline(always)]
    fn take_work(&mut self, cpu: CpuId) -> Option<Work> {
        let place = &mut self.cpus[cpu.index()];
        let (from, work) = place.works.pop_front()?;
        place.spend(CpuLayer::Irq, self.costs.ipi_work.at(self.topology.distance(from, cpu)));
        Some(work)
    }

    /// Begins the handler of queued work.
    pub(crate) fn begin_works(&mut self, cpu: CpuId) -> Option<Job> {
        self.cpus[cpu.index()].in_handler = true;
        self.take_works(cpu)
    }

    /// The handler of queued work ends: its jobs are done. That is told in a trace, and watched if
    /// the CPU has been busy for longer than any was before.
    pub(super) fn end_works(&mut self, cpu: CpuId) {
        let at = self.cpus[cpu.index()].busy_until;
        if self.books.tracer.is_on() {
            self.emit_at(at, cpu, TraceEvent::IrqExit { irq: Irq::Ipi });
        }
        self.watch(cpu);
    }

    /// Measures how long a CPU will have been in IPI and lock work at the end of its present path,
    /// and ends the run if that is too long.
    pub(super) fn watch(&mut self, cpu: CpuId) {
        let place = &self.cpus[cpu.index()];
        let Stretch::Since(since) = place.stretch else { return };
        let stretch = place.stretch_so_far();
        self.books.stats.ipi_stretch = self.books.stats.ipi_stretch.max(stretch);
        let threshold = self.scheduler.config().settings().watchdog_thresh;
        if !threshold.is_zero() && stretch > threshold && self.time.stop.is_none() {
            self.time.stop = Some(End::Lockup { cpu, since, stretch });
        }
    }

    /// Spends the first access to the state of a root domain's IPI. Such a kernel has no claims.
    #[cold]
    pub(super) fn spend_first_rto(&mut self, cpu: CpuId, domain: usize, takes: Duration) {
        let place = &mut self.cpus[cpu.index()];
        let time = self.cache_lines.access_new_rto(domain, place.busy_until, takes);
        place.spend(CpuLayer::Sched, time);
    }

    /// Spends accesses to the word by which CPUs claim to pull from `of`, including the wait for
    /// others.
    #[inline(never)]
    pub(super) fn spend_claim(&mut self, cpu: CpuId, of: CpuId, accesses: u32) {
        let cpus = self.cpus.len();
        let place = &mut self.cpus[cpu.index()];
        let takes = self.costs.inner_lock * u64::from(accesses);
        let time = self.cache_lines.access_claims(of, cpus, place.busy_until, takes);
        place.spend(CpuLayer::Sched, time);
    }
}

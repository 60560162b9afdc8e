//! Interrupts between CPUs: how they are sent and taken, what they cost, and the watchdog over them.
//!
//! Work that a CPU asks another to do waits on a list of the target. Only who finds the list empty sends an interrupt, and
//! the handler takes the whole list with one entry (`irq_work_queue_on`, `irq_work_run`). What comes meanwhile raises the
//! next interrupt, and IPIs are taken before timers: their vectors have the higher priority on x86.
//!
//! ```text
//!   Op::Ipi -> works of the target -- was empty: interrupt --> handler: all works become jobs --> next interrupt
//!                                  -- was not: the one on its way takes it along
//! ```
//!
//! A CPU that idles and watches its own `need_resched` flag ([`IdleState::polling`]) is sent
//! none: who wants it writes the flag, and it takes its list on the way out of idle.
//!
//! So a CPU to which work comes faster than it does it gets no further: no timer, no task. Likewise one that spins for lock
//! after lock. The [`Stretch`] of each CPU is the time since it last was free for a timer; where it passes
//! `watchdog_thresh`, the run is ended with [`End::Lockup`] instead of running away.
//!
//! The state of a root domain's IPI is one cache line: accesses queue for it, in order of arrival.
//!
//! Sources: Linux v4.1 and v6.12 `kernel/irq_work.c`; `arch/x86/include/asm/irq_vectors.h` (`LOCAL_TIMER_VECTOR` is below
//! `CALL_FUNCTION_SINGLE_VECTOR`); `kernel/watchdog.c` (a CPU whose timer interrupt has not come for `watchdog_thresh`);
//! v6.12 `kernel/sched/core.c`, `resched_curr` (`set_nr_and_not_polling`) and, since 5.8 (b2a02fc43a1f) for queued work too,
//! `call_function_single_prep_ipi` (`set_nr_if_polling`); `kernel/sched/idle.c`, `do_idle` (`flush_smp_call_function_queue`).
//! differs: before 5.8 work queued to a polling CPU raised an interrupt all the same.

use crate::costs::IdleState;
use crate::kernel::cpu::{Cpu, Interrupt, Job};
use crate::machine::{Event, Machine};
use crate::outcome::End;
use crate::queue::{Phase, Source};
use zerolag_core::Work;
use zerolag_model::event::Irq;
use zerolag_model::{CpuId, CpuLayer, Duration, Instant, TraceEvent};

/// Since when a CPU has been in IPI and lock work without being free for a timer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Stretch {
    /// It is not.
    #[default]
    Free,
    /// Since then.
    Since(Instant),
}

impl Stretch {
    /// Begins, unless it has begun.
    pub(crate) fn begin(&mut self, at: Instant) {
        if *self == Self::Free {
            *self = Self::Since(at);
        }
    }
}

impl Cpu {
    /// Returns the interrupt to take next: of those that wait the IPIs first, each kind in order of arrival.
    pub(crate) fn next_interrupt(&mut self) -> Option<Interrupt> {
        if self.pending.len() < 2 {
            return self.pending.pop_front();
        }
        let is_ipi = |what: &Interrupt| matches!(what, Interrupt::Works | Interrupt::Resched);
        let first = self.pending.iter().position(is_ipi).unwrap_or(0);
        self.pending.remove(first)
    }
}

impl Machine {
    /// Puts work on the list of a CPU, and interrupts it if that was empty.
    pub(crate) fn queue_work(&mut self, from: CpuId, to: CpuId, work: Work) {
        self.stats.rt_ipis += u64::from(matches!(work, Work::RtPush(_) | Work::RtPushFor(_)));
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
    pub(crate) fn send(&mut self, from: CpuId, to: CpuId, what: Interrupt) {
        self.stats.ipis += 1;
        let latency = self.idle_state(to).and_then(|state| state.ipi_latency).unwrap_or(self.costs.ipi_latency);
        let latency = latency.at(self.topology.distance(from, to));
        let place = &mut self.cpus[from.index()];
        place.spend(CpuLayer::Sched, self.costs.ipi_send);
        let (at, count) = (place.busy_until + latency, place.next_count());
        self.queue.push(at, Phase::Ipi, Source::cpu(from), count, Event::Interrupt { cpu: to, what });
    }

    /// Returns the state of `idle_states` that a CPU idles in.
    fn idle_state(&self, cpu: CpuId) -> Option<&IdleState> {
        if self.costs.idle_states.is_empty() {
            return None;
        }
        let place = &self.cpus[cpu.index()];
        let is_idle = place.current.is_none() && !place.is_in_kernel(self.now);
        if is_idle { self.costs.state_after(self.now.since(place.busy_until)) } else { None }
    }

    /// Returns whether a CPU idles in a state in which it watches its flag.
    pub(crate) fn polls(&self, cpu: CpuId) -> bool {
        self.idle_state(cpu).is_some_and(|state| state.polling)
    }

    /// Sets the flag that an idle CPU watches.
    pub(crate) fn set_flag(&mut self, from: CpuId, to: CpuId) {
        let transfer = self.costs.rq_lock_transfer.at(self.topology.distance(from, to));
        let place = &mut self.cpus[from.index()];
        place.spend(CpuLayer::Sched, self.costs.inner_lock);
        let (at, count) = (place.busy_until + transfer, place.next_count());
        let what = Interrupt::Noticed;
        self.queue.push(at, Phase::Ipi, Source::cpu(from), count, Event::Interrupt { cpu: to, what });
    }

    /// Takes the list of queued work. The first work is the answer, the others are jobs.
    pub(crate) fn take_works(&mut self, cpu: CpuId) -> Option<Job> {
        let first = self.take_work(cpu)?;
        while let Some(work) = self.take_work(cpu) {
            self.cpus[cpu.index()].jobs.push_back(Job::Remote(work));
        }
        Some(Job::Remote(first))
    }

    /// Takes the first work off a CPU's list, and lets the CPU fetch what it is about.
    #[inline]
    fn take_work(&mut self, cpu: CpuId) -> Option<Work> {
        let place = &mut self.cpus[cpu.index()];
        let (from, work) = place.works.pop_front()?;
        place.spend(CpuLayer::Irq, self.costs.ipi_work.at(self.topology.distance(from, cpu)));
        Some(work)
    }

    /// The jobs of a handler are done: says so, and lets the watchdog look.
    pub(crate) fn works_done(&mut self, cpu: CpuId) {
        let place = &mut self.cpus[cpu.index()];
        place.in_works = false;
        let at = place.busy_until;
        self.emit_at(at, cpu, TraceEvent::IrqExit { irq: Irq::Ipi });
        self.watch(cpu);
    }

    /// Measures how long a CPU has been in IPI and lock work by the end of its present path, and ends a run in which one does
    /// not leave it.
    pub(crate) fn watch(&mut self, cpu: CpuId) {
        let place = &self.cpus[cpu.index()];
        let Stretch::Since(since) = place.stretch else { return };
        let stretch = place.busy_until.since(since);
        self.stats.ipi_stretch = self.stats.ipi_stretch.max(stretch);
        let threshold = self.scheduler.config().settings().watchdog_thresh;
        if !threshold.is_zero() && stretch > threshold && self.stop.is_none() {
            self.stop = Some(End::Lockup { cpu, since, stretch });
        }
    }

    /// Returns what accesses to the state of a root domain's IPI take, those included for which they queue.
    pub(crate) fn queue_for_rto(&mut self, cpu: CpuId, accesses: u32) -> Duration {
        self.stats.rto_accesses += u64::from(accesses);
        let domain = self.scheduler.root_domain(cpu);
        if self.rto_free_at.len() <= domain {
            self.rto_free_at.resize(domain + 1, Instant::ZERO);
        }
        let at = self.cpus[cpu.index()].busy_until;
        let free_at = &mut self.rto_free_at[domain];
        let done = (*free_at).max(at) + self.costs.inner_lock * u64::from(accesses);
        *free_at = done;
        done.since(at)
    }
}

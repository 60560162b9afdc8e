//! After a call of the core: its costs become time, its operations are carried out, its records
//! taken.
//!
//! The core counts what it does and says what it wants done; it neither waits nor sends. Here is
//! the only place where counts become time and [`Op`]s become events.

use crate::kernel::shared_lines;
use crate::kernel::spread::Drawn;
use crate::kernel::state::Kernel;
use crate::kernel::words::{Interrupt, Job};
use zerolag_core::{Costs, LineAccess, Observer, Op, Parcel};
use zerolag_model::event::IpiReason;
use zerolag_model::{CpuId, CpuLayer, TraceEvent};

impl Kernel {
    /// Carries out what a call of the core has left in `io`.
    #[inline(always)]
    pub(crate) fn after_call(&mut self, cpu: CpuId) {
        self.spend_costs(cpu);
        if self.calls.io.has_orders() {
            self.carry_out(cpu);
        }
    }

    /// Mostly it is one operation, and the most frequent one asks a CPU to do what it does at the
    /// end of its path anyway.
    #[inline(never)]
    fn carry_out(&mut self, cpu: CpuId) {
        let is_alone = self.calls.io.parked.is_empty() && self.calls.io.trace.is_empty();
        match *self.calls.io.ops {
            [op] if is_alone => {
                self.calls.io.ops.clear();
                if op != (Op::Kick { cpu }) {
                    self.operate(cpu, op);
                }
            }
            _ => self.carry_out_all(cpu),
        }
    }

    #[inline(never)]
    fn carry_out_all(&mut self, cpu: CpuId) {
        while let Some(parcel) = self.calls.io.parked.pop() {
            self.park_waiter(cpu, parcel);
        }
        if self.books.tracer.is_on() {
            self.books.tracer.take(&mut self.calls.io.trace);
        }
        for index in 0..self.calls.io.ops.len() {
            self.operate(cpu, self.calls.io.ops[index]);
        }
        self.calls.io.ops.clear();
    }

    /// Takes the records of a call that leaves nothing else to be done.
    pub(crate) fn take_records(&mut self) {
        self.books.tracer.take(&mut self.calls.io.trace);
    }

    /// Parks a blocked task. If it waits for a lock for whose holder it may lend its turn, it looks
    /// for the holder.
    pub(super) fn park_waiter(&mut self, cpu: CpuId, parcel: Parcel) {
        let task = parcel.id();
        self.park(parcel);
        if self.bodies[task.index()].blocked_on.is_some() {
            self.push_job(cpu, Job::Lend { task });
        }
    }

    #[inline(never)]
    pub(super) fn operate(&mut self, cpu: CpuId, op: Op) {
        match op {
            Op::Kick { cpu: to } if to == cpu => {}
            Op::Kick { cpu: to } => {
                if self.polls(to) {
                    self.set_flag(cpu, to);
                    return;
                }
                if self.books.tracer.is_on() {
                    self.emit(cpu, TraceEvent::IpiSend { to, reason: IpiReason::Resched });
                }
                self.send(cpu, to, Interrupt::Resched);
            }
            Op::Ipi { cpu: to, work } => self.queue_work(cpu, to, work),
            Op::ArmTimer { cpu: of, timer, at } => self.arm_rq_timer(of, timer, at),
            Op::ArmGroupTimer { group, timer, at } => self.arm_group_timer(cpu, group, timer, at),
            Op::ExtExit => self.govern_all(cpu),
            Op::PolicyTimer { at } => self.arm_policy_timer(cpu, at),
            Op::CancelTimer { cpu: of, timer } => self.cancel_rq_timer(of, timer),
        }
    }

    /// Turns the counts of the core into time.
    #[inline(always)]
    pub(super) fn spend_costs(&mut self, cpu: CpuId) {
        // Calls of a policy that cost nothing stay counted until something does.
        if !self.calls.io.costs.is_zero() || !self.costs.policy_call.is_zero() {
            self.spend_counted(cpu);
        }
    }

    /// What is rare is a function of its own, called last, so that this one saves few registers.
    #[inline(never)]
    fn spend_counted(&mut self, cpu: CpuId) {
        let counts = &self.calls.io.costs;
        if self.costs_vary || counts.claimed.is_some() {
            return self.spend_varying(cpu);
        }
        let place = &mut self.cpus[cpu.index()];
        let mut time = self.costs.scan_per_cpu * u64::from(counts.cpus_scanned)
            + self.costs.scan_per_task * u64::from(counts.tasks_scanned)
            + self.costs.migrate_task * u64::from(counts.tasks_moved)
            + self.costs.throttle * u64::from(counts.throttles)
            + self.costs.policy_call * u64::from(counts.policy_calls)
            + self.costs.inner_lock * u64::from(counts.inner_locks);
        if counts.rto_accesses > 0 {
            let domain = self.scheduler.root_domain(cpu);
            let takes = self.costs.inner_lock * u64::from(counts.rto_accesses);
            let Some(takes) = self.cache_lines.access_rto(domain, place.busy_until + time, takes) else {
                return self.spend_all_counted(cpu);
            };
            time += takes;
            self.books.stats.rto_accesses += u64::from(counts.rto_accesses);
        }
        place.spend(CpuLayer::Sched, time);
        self.books.stats.migrations += u64::from(counts.tasks_moved);
        self.books.stats.rt_balance += u64::from(counts.rt_balance);
        self.calls.unlocked += self.costs.scan_per_cpu * u64::from(counts.cpus_searched);
        self.calls.io.costs = Costs::default();
    }

    /// The same where costs are drawn, where lines have owners, or where a CPU has claimed to pull
    /// from another. Locks that are lines cost no more than their lines.
    #[cold]
    fn spend_varying(&mut self, cpu: CpuId) {
        let accesses = match &mut self.calls.io.observer {
            Observer::Lines(all) => core::mem::take(all),
            Observer::Off | Observer::Record(_) | Observer::Replay { .. } => Vec::new(),
        };
        let counts = &mut self.calls.io.costs;
        counts.inner_locks = counts.inner_locks.saturating_sub(shared_lines::locks(&accesses));
        self.spend_all_counted(cpu);
        if !accesses.is_empty() {
            self.spend_lines(cpu, accesses);
        }
    }

    /// Spends accesses to lines with owners, including the wait for other CPUs.
    fn spend_lines(&mut self, cpu: CpuId, mut accesses: Vec<LineAccess>) {
        let domain = self.scheduler.root_domain(cpu);
        let Some(lines) = &mut self.shared_lines else { return };
        let place = &mut self.cpus[cpu.index()];
        let time = lines.access(cpu, domain, &accesses, place.busy_until, &self.costs, &self.topology);
        place.spend(CpuLayer::Sched, time);
        accesses.clear();
        self.calls.io.observer = Observer::Lines(accesses);
    }

    /// All costs but those of lines. Also used for the first access to a root domain's IPI.
    #[cold]
    fn spend_all_counted(&mut self, cpu: CpuId) {
        let counts = core::mem::take(&mut self.calls.io.costs);
        self.books.stats.migrations += u64::from(counts.tasks_moved);
        self.books.stats.rt_balance += u64::from(counts.rt_balance);
        let time = self.costs.scan_per_cpu * u64::from(counts.cpus_scanned)
            + self.costs.scan_per_task * u64::from(counts.tasks_scanned)
            + self.costs.migrate_task * u64::from(counts.tasks_moved)
            + self.costs.throttle * u64::from(counts.throttles)
            + self.costs.policy_call * u64::from(counts.policy_calls)
            + self.costs.inner_lock * u64::from(counts.inner_locks);
        self.cpus[cpu.index()].spend(CpuLayer::Sched, time);
        self.calls.unlocked += self.costs.scan_per_cpu * u64::from(counts.cpus_searched);
        if counts.rto_accesses > 0 {
            self.books.stats.rto_accesses += u64::from(counts.rto_accesses);
            let domain = self.scheduler.root_domain(cpu);
            let takes = self.costs.inner_lock * u64::from(counts.rto_accesses);
            let place = &mut self.cpus[cpu.index()];
            let Some(time) = self.cache_lines.access_rto(domain, place.busy_until, takes) else {
                return self.spend_first_rto(cpu, domain, takes);
            };
            place.spend(CpuLayer::Sched, time);
        }
        if self.draws.has_spreads() {
            self.spend_more(cpu, Drawn::Move, counts.tasks_moved);
        }
        if let Some(of) = counts.claimed {
            self.spend_claim(cpu, of, counts.claim_accesses);
        }
    }
}

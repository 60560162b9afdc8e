//! CPUs as a policy sees them: which idle, the kernel's choice of one, and kicks.
//!
//! Sources: Linux v7.3 `kernel/sched/ext/idle.c` (`scx_select_cpu_dfl`, `scx_pick_idle_cpu`),
//! `ext.c` (`scx_kick_cpu`). differs: among idle CPUs of one level the lowest is chosen, the kernel
//! begins behind the one that it chose last.

use crate::scx::{Effect, Scx};
use crate::words::{KickFlags, WakeFlags};
use core::ops::Range;
use zerolag_model::{CpuId, CpuMask, Distance, TaskId};

/// CPUs: idle ones, and kicks.
impl Scx {
    /// Returns the CPUs that idle and have not been chosen for a task since
    /// (`scx_bpf_get_idle_cpumask`).
    #[must_use]
    pub const fn idle_cpumask(&self) -> &CpuMask {
        &self.idle
    }

    /// Returns whether all CPUs of a core idle (`scx_bpf_get_idle_smtmask`).
    #[must_use]
    pub fn is_core_idle(&self, cpu: CpuId) -> bool {
        self.count();
        self.topology.span(cpu, Distance::Smt).all(|cpu| self.idle.contains(CpuId(cpu)))
    }

    /// Chooses an idle CPU (`scx_bpf_test_and_clear_cpu_idle`); returns whether it idled. No later
    /// search finds it until it has run.
    pub fn test_and_clear_cpu_idle(&mut self, cpu: CpuId) -> bool {
        self.count();
        self.idle.remove(cpu)
    }

    /// Chooses the lowest idle CPU on which a task is allowed, if there is one: with `whole_core`
    /// of a core that idles as a whole, if there is one (`scx_bpf_pick_idle_cpu`,
    /// `SCX_PICK_IDLE_CORE`).
    pub fn pick_idle_cpu(&mut self, p: TaskId, whole_core: bool) -> Option<CpuId> {
        self.count();
        self.pick_idle(p, 0..self.nr_cpus() as u32, whole_core)
    }

    /// Chooses a CPU as the kernel's default does (`scx_bpf_select_cpu_dfl`): an idle one, rather
    /// of an idle core, rather `prev_cpu`, rather near that. Returns whether it idles; otherwise
    /// the result is `prev_cpu`, or the task's lowest CPU.
    pub fn select_cpu_dfl(&mut self, p: TaskId, prev_cpu: CpuId, wake_flags: WakeFlags) -> (CpuId, bool) {
        self.count();
        let may_stay = self.allowed(p, prev_cpu);
        if wake_flags.has(WakeFlags::SYNC)
            && let Some(by) = self.call.as_ref().and_then(|call| call.cpu).filter(|by| self.allowed(p, *by))
        {
            let shares_cache = self.topology.distance(by, prev_cpu) <= Distance::Llc;
            if shares_cache && may_stay && self.idle.remove(prev_cpu) {
                return (prev_cpu, true);
            }
            if !self.idle.is_empty() && self.cpus[by.index()].local.is_empty() {
                return (by, true);
            }
        }
        let levels = [Distance::Smt, Distance::Llc, Distance::Socket, Distance::Remote];
        for whole_core in [true, false] {
            if whole_core && self.topology.span(prev_cpu, Distance::Smt).len() == 1 {
                continue;
            }
            if may_stay && (!whole_core || self.is_core_idle(prev_cpu)) && self.idle.remove(prev_cpu) {
                return (prev_cpu, true);
            }
            for level in levels {
                let span = self.topology.span(prev_cpu, level);
                if let Some(cpu) = self.pick_idle(p, span, whole_core) {
                    return (cpu, true);
                }
            }
        }
        let first = self.get(p).and_then(|task| task.allowed.as_deref()).and_then(CpuMask::first);
        (first.filter(|_| !may_stay).unwrap_or(prev_cpu), false)
    }

    fn pick_idle(&mut self, p: TaskId, span: Range<u32>, whole_core: bool) -> Option<CpuId> {
        let mut from = CpuId(span.start);
        loop {
            let next = match self.cpumask(p) {
                Some(allowed) => self.idle.next_and_from(allowed, from),
                None => self.idle.next_from(from),
            };
            let cpu = next.filter(|cpu| cpu.0 < span.end)?;
            if !whole_core || self.is_core_idle(cpu) {
                self.idle.remove(cpu);
                return Some(cpu);
            }
            from = CpuId(cpu.0 + 1);
        }
    }

    /// Lets a CPU schedule (`scx_bpf_kick_cpu`). A CPU that runs a task of a class above does not.
    pub fn kick_cpu(&mut self, cpu: CpuId, flags: KickFlags) {
        self.count();
        if !self.cpu_valid(cpu, "") || self.bypasses {
            return;
        }
        if flags.has(KickFlags::IDLE) {
            if self.cpus[cpu.index()].idles {
                self.effects.push(Effect::WakeIdle(cpu));
            }
            return;
        }
        if flags.has(KickFlags::PREEMPT) {
            self.end_slice(cpu);
        }
        self.effects.push(Effect::Resched(cpu));
    }
}

//! CPUs that are kept free: where tasks begin that may not use them, and remote ticks.
//!
//! A CPU of `nohz_full` that runs one task stops its tick, so nothing charges that task. Once a
//! second the lowest CPU that is not of `nohz_full` does it for each of them, under the run-queue
//! lock of that CPU. It takes the time of a tick on the CPU that does it, and none on the other.
//!
//! Sources: Linux v6.12 `kernel/sched/core.c`, `sched_tick_remote`; `kernel/sched/isolation.c`.
//! differs: the kernel's remote ticks begin when each CPU comes online, here all come at whole
//! seconds.

use crate::kernel::state::Kernel;
use crate::kernel::words::Event;
use crate::queue::Phase;
use zerolag_model::{CpuId, Duration};

/// The distance of remote ticks (`sched_tick_remote`: HZ jiffies).
const DISTANCE: Duration = Duration::from_secs(1);

/// Returns the CPU on which the n-th task is born: one after the other, without isolated ones.
pub(crate) fn birthplace(kernel: &Kernel, nth: usize) -> CpuId {
    let isolated = kernel.scheduler().config().isolated();
    if isolated.is_empty() {
        return CpuId::from_index(nth % kernel.nr_cpus());
    }
    let free = kernel.nr_cpus() - isolated.count();
    let free = kernel.topology().cpus().filter(|cpu| !isolated.contains(*cpu)).nth(nth % free);
    free.expect("invariant: a CPU is left that is not isolated")
}

/// Arms the first remote ticks, if the machine has CPUs of `nohz_full`.
pub(crate) fn plan_remote_ticks(kernel: &mut Kernel) {
    if !kernel.scheduler().config().full_dynticks().is_empty() {
        arm_remote_ticks(kernel);
    }
}

/// Arms the next remote ticks. Returns the CPU that does the present ones.
pub(crate) fn arm_remote_ticks(kernel: &mut Kernel) -> CpuId {
    let by = housekeeper(kernel);
    let at = kernel.now().saturating_add(DISTANCE);
    kernel.queue_event(at, Phase::Device, by, Event::RemoteTicks);
    by
}

/// Returns the lowest online CPU that is not of `nohz_full`; if there is none, CPU 0.
fn housekeeper(kernel: &Kernel) -> CpuId {
    let full = kernel.scheduler().config().full_dynticks();
    let free = |cpu: &CpuId| !full.contains(*cpu) && kernel.is_online(*cpu);
    kernel.topology().cpus().find(free).unwrap_or(CpuId(0))
}

/// Returns the first CPU of `nohz_full` from one on that runs a task without a tick, and is not the
/// one that does the remote ticks.
pub(crate) fn next_without_tick(kernel: &Kernel, from: CpuId, by: CpuId) -> Option<CpuId> {
    let mut from = from;
    loop {
        let of = kernel.scheduler().config().full_dynticks().next_from(from)?;
        if of != by && kernel.runs_without_tick(of) {
            return Some(of);
        }
        from = CpuId(of.0 + 1);
    }
}

//! CPUs that go offline and come back during the run.
//!
//! The CPU does so itself, in an interrupt. It hands its waiting tasks out, one after another, to
//! be placed elsewhere; the current task leaves it as soon as it is preempted. Then every other CPU
//! builds its domains anew, under the lock of its own run queue. Timers that were armed on the CPU
//! still fire there; the tasks that they wake are placed on other CPUs.

use crate::kernel::state::Kernel;
use crate::kernel::words::{Done, Job, WakeKind};
use zerolag_core::Step;
use zerolag_model::{CpuId, TraceEvent};

/// Takes this CPU offline, or brings it back. All others are to be interrupted, to
/// [rebuild](rebuild_domains) their domains.
pub(crate) fn hotplug(kernel: &mut Kernel, cpu: CpuId, is_online: bool, change: u32) -> Done {
    kernel.lock_for(cpu, cpu, Job::Change(change))?;
    if kernel.is_traced() {
        kernel.emit(cpu, TraceEvent::Hotplug { online: is_online });
    }
    let mut evicted = Vec::new();
    let step = kernel.under_lock(cpu, |scheduler, rq, clock, io| {
        assert!(rq.is_online() != is_online, "changes of CPUs are checked when they are read");
        if is_online {
            return scheduler.online(rq, clock, io);
        }
        scheduler.offline(rq, clock, io);
        while let Some(parcel) = scheduler.evict(rq, clock, io) {
            evicted.push(parcel);
        }
        Step::Done
    });
    kernel.unlock_usual(cpu, cpu);
    for parcel in evicted {
        let wake = Job::wake(parcel.id(), WakeKind::Displaced);
        kernel.park(parcel);
        kernel.push_job(cpu, wake);
    }
    kernel.push_step(cpu, step);
    Ok(())
}

/// Builds the domains of this CPU anew: another CPU has gone offline or has come back.
pub(crate) fn rebuild_domains(kernel: &mut Kernel, cpu: CpuId) -> Done {
    kernel.locked(cpu, cpu, Job::Rebuild, |scheduler, rq, clock, io| scheduler.domains_rebuilt(rq, clock, io))
}

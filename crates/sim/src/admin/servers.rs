//! Deadline servers and RT throttling that are set during the run: writes to
//! `fair_server/cpuN/runtime`, `period` and the 2023 text's `defer`, and to `sched_rt_runtime_us`
//! and `sched_rt_period_us`.
//!
//! Each CPU concerned sets its own, under the lock of its run queue. A write that the core refuses
//! changes nothing, as in the kernel. The run ends with it, because the scenario asks for something
//! impossible.

use crate::kernel::state::Kernel;
use crate::kernel::words::{Done, Job};
use crate::outcome::SimError;
use zerolag_model::settings::RtGroupSched;
use zerolag_model::{Activation, CpuId, Duration, GroupId, RtBandwidth, ServerKind, ServerParams, TraceEvent};

/// The parameters of a server to be set; those that are `None` stay.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) runtime: Option<Duration>,
    pub(crate) period: Option<Duration>,
    pub(crate) activation: Option<Activation>,
}

/// Sets the server of this CPU.
pub(crate) fn set_server(kernel: &mut Kernel, cpu: CpuId, wanted: Wanted, change: u32) -> Done {
    let kind = ServerKind::Fair;
    let set = kernel.locked(cpu, cpu, Job::Change(change), |scheduler, rq, clock, io| {
        let (has, _, _) = rq.server(kind);
        let params = ServerParams {
            runtime: wanted.runtime.unwrap_or(has.runtime),
            period: wanted.period.unwrap_or(has.period),
            activation: wanted.activation.unwrap_or(has.activation),
        };
        scheduler.set_server(rq, clock, kind, params, io)
    })?;
    if let Err(error) = set {
        kernel.refuse(SimError::Server { cpu, error });
    }
    Ok(())
}

/// Sets the bandwidth of real-time tasks, which is one for the machine. Returns whether the core
/// accepts it; each CPU is to [follow](follow_rt_limit) then.
pub(crate) fn set_rt_bandwidth(kernel: &mut Kernel, bandwidth: RtBandwidth) -> bool {
    let set = kernel.scheduler().set_rt_bandwidth(kernel.now(), bandwidth);
    if set.is_ok() && kernel.scheduler().config().settings().rt_group_sched != RtGroupSched::Off {
        kernel.emit(CpuId(0), TraceEvent::RtGroup { group: GroupId::ROOT, bandwidth });
    }
    if let Err(error) = set {
        kernel.refuse(kernel.rt_bandwidth_error(bandwidth, error));
    }
    set.is_ok()
}

/// Lets a CPU follow the bandwidth of real-time tasks.
pub(crate) fn follow_rt_limit(kernel: &mut Kernel, cpu: CpuId, change: u32) -> Done {
    kernel.locked(cpu, cpu, Job::Change(change), |scheduler, rq, clock, io| scheduler.follow_rt_limit(rq, clock, io))
}

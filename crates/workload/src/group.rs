//! [`GroupDef`], [`RootDef`] and [`CpusetDef`]: the groups and cpusets of tasks.

use crate::limits::Conversion;
use std::sync::Arc;
use zerolag_model::{CpuMask, CpuMax, Duration, Nice, PressureTrigger, RtBandwidth, UtilClamp};

/// A task group.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupDef {
    /// Its path below the root, as `/pod/a`.
    pub path: Arc<str>,
    /// Its parent: index into [`Program::groups`](crate::Program::groups); `None` is the root.
    pub parent: Option<usize>,
    /// Its share in competition with its siblings.
    pub weight: GroupWeight,
    /// Whether it yields to all groups that are not idle (`cpu.idle`); then it has the weight of
    /// idle groups.
    pub is_idle: bool,
    /// Its initial limit.
    pub max: CpuMax,
    /// The utilisation clamps that bound those of its tasks.
    pub clamp: UtilClamp,
    /// The limit and the weight as numbers of CPUs, if they were given as such.
    pub cpus: InCpus,
    /// The time of its real-time tasks on each CPU (`cpu.rt_runtime_us`), if it was given.
    pub rt: Option<RtBandwidth>,
    /// The triggers on its pressure (`cpu.pressure`), each of a file of its own.
    pub triggers: Vec<PressureTrigger>,
}

/// The root group, which is the machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RootDef {
    /// The part of each CPU that is set apart for the real-time tasks of all groups (`cpu.rt.max`
    /// with `rt_group_sched = hcbs`), if it was given.
    pub rt: Option<RtBandwidth>,
    /// The triggers on the pressure of the machine (`/proc/pressure/cpu`).
    pub triggers: Vec<PressureTrigger>,
}

impl GroupDef {
    /// The time of real-time tasks in a new group: none (Linux v5.4 `kernel/sched/rt.c`,
    /// `alloc_rt_sched_group`).
    pub const NO_RT: RtBandwidth = RtBandwidth { runtime: Some(Duration::ZERO), period: Duration::from_secs(1) };
}

/// Numbers of CPUs from which the limit and the weight of a group were computed, in thousandths.
/// They stay as they are when the period changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InCpus {
    /// The limit: `limits.cpu`, `CPUQuota`, `--cpus`.
    pub limit_milli: Option<u64>,
    /// The weight: `requests.cpu`.
    pub request_milli: Option<u64>,
    /// How the request became the weight: `oci.weight_conversion`.
    pub conversion: Conversion,
}

/// The weight of a group, in the unit in which it was written: a kernel's conversion between the
/// units loses precision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupWeight {
    /// `cpu.weight`, 1..=10000.
    Weight(u32),
    /// `cpu.shares`, 2..=262144.
    Shares(u32),
    /// `cpu.weight.nice`: the weight of a task of this nice level.
    Nice(Nice),
}

/// A cpuset.
#[derive(Clone, Debug, PartialEq)]
pub struct CpusetDef {
    /// Its name.
    pub name: Arc<str>,
    /// `cpuset.cpus`.
    pub cpus: Arc<CpuMask>,
    /// Whether it is a partition of its own (`cpuset.cpus.partition = "root"`): its CPUs are a root
    /// domain.
    pub partition: bool,
}

/// Returns whether a path is that of a group or of one below it.
///
/// ```
/// use zerolag_workload::program::is_below;
///
/// assert!(is_below("/web", "/web") && is_below("/web/a", "/web") && !is_below("/webs", "/web"));
/// ```
#[must_use]
pub fn is_below(path: &str, above: &str) -> bool {
    path.strip_prefix(above.trim_end_matches('/')).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

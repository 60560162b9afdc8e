//! [`TimedChange`]: changes at given times from outside of the tasks: limits and weights, groups
//! and threads that are created and removed, partitions, deadline servers, the limit of real-time
//! tasks, schedulers of `sched_ext`.

use crate::group::GroupWeight;
use std::sync::Arc;
use zerolag_model::settings::{SchedExt, SchedExtPolicy};
use zerolag_model::{Activation, CpuId, CpuMask, CpuMax, Duration, RtBandwidth, SchedAttr};

/// A change in the middle of the run.
#[derive(Clone, Debug, PartialEq)]
pub struct TimedChange {
    /// Its time from the start.
    pub at: Duration,
    /// The change.
    pub what: Change,
}

/// A kind of change. Tasks are named by index into [`Program::tasks`](crate::Program::tasks), and
/// the change affects all their live threads; groups by index into
/// [`Program::groups`](crate::Program::groups).
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// A group is created (`mkdir`), with the weight and limit of its definition.
    Create {
        /// The group.
        group: usize,
    },
    /// The tasks in a group and below it end, as if killed (`cgroup.kill`), and the group is
    /// removed when the last has exited (`rmdir`).
    Remove {
        /// The group.
        group: usize,
    },
    /// A group's limit is set (`cpu.max`).
    Max {
        /// The group.
        group: usize,
        /// The new limit.
        max: CpuMax,
    },
    /// A group's weight is set.
    Weight {
        /// The group.
        group: usize,
        /// The new weight.
        weight: GroupWeight,
    },
    /// The time of a group's real-time tasks is set (`cpu.rt_runtime_us`, `cpu.rt_period_us`).
    RtGroup {
        /// The group; `None` is the root.
        group: Option<usize>,
        /// The new time and period.
        bandwidth: RtBandwidth,
    },
    /// A group becomes idle or stops being idle; then it has the default weight.
    Idle {
        /// The group.
        group: usize,
        /// Whether it is idle.
        is_idle: bool,
    },
    /// A task's attributes are set.
    Attr {
        /// The task.
        task: usize,
        /// The new attributes, until the task's program changes them.
        attr: SchedAttr,
    },
    /// A task's affinity is set.
    Affinity {
        /// The task.
        task: usize,
        /// The new CPUs; `None` is every CPU of its cpuset.
        cpus: Option<Arc<CpuMask>>,
    },
    /// A task moves to another group.
    Group {
        /// The task.
        task: usize,
        /// The new group; `None` is the root.
        group: Option<usize>,
    },
    /// More threads of a task are started.
    Start {
        /// The task.
        task: usize,
        /// The number of threads.
        count: u32,
    },
    /// All threads of a task end, as if killed.
    End {
        /// The task.
        task: usize,
    },
    /// A pool is resized: threads are started, or the youngest ones end at the end of their turn.
    Resize {
        /// The task.
        task: usize,
        /// The new number of threads.
        threads: u32,
    },
    /// A cpuset becomes a partition, or stops being one.
    Partition {
        /// The cpuset: index into [`Program::cpusets`](crate::Program::cpusets).
        cpuset: usize,
        /// Whether it is a root domain of its own.
        is_root: bool,
    },
    /// A CPU goes online or offline.
    Cpu {
        /// The CPU.
        cpu: CpuId,
        /// Whether it is online.
        is_online: bool,
    },
    /// The parameters of the fair servers of some CPUs are set (`fair_server/cpuN/runtime`,
    /// `period`; of the 2023 text also `defer`).
    Server {
        /// The CPUs; `None` is every CPU.
        cpus: Option<Arc<CpuMask>>,
        /// The new runtime; `None` keeps the old one.
        runtime: Option<Duration>,
        /// The new period; `None` keeps the old one.
        period: Option<Duration>,
        /// When the server competes from now on; `None` keeps the old rule.
        activation: Option<Activation>,
    },
    /// The runtime of real-time tasks per CPU and period is set (`sched_rt_runtime_us`).
    RtRuntime {
        /// The new runtime; `None` is no limit (-1).
        runtime: Option<Duration>,
    },
    /// The period of that limit is set (`sched_rt_period_us`).
    RtPeriod {
        /// The new period.
        period: Duration,
    },
    /// A scheduler of `sched_ext` is loaded.
    Load {
        /// Which one; `None` is that of the run.
        policy: Option<SchedExtPolicy>,
        /// Which tasks it has; `None` are those of the setting `sched_ext`.
        tasks: Option<SchedExt>,
    },
    /// The scheduler of `sched_ext` is unloaded.
    Unload,
}

impl Change {
    /// Returns whether threads can start or end by it. A run in which no thread can continue is not
    /// over while such a change is pending.
    #[must_use]
    pub const fn moves_threads(&self) -> bool {
        match self {
            Self::Remove { .. } | Self::Start { .. } | Self::End { .. } | Self::Resize { .. } => true,
            Self::Create { .. }
            | Self::Max { .. }
            | Self::Weight { .. }
            | Self::Idle { .. }
            | Self::RtGroup { .. }
            | Self::Cpu { .. }
            | Self::Attr { .. }
            | Self::Affinity { .. }
            | Self::Group { .. }
            | Self::Partition { .. }
            | Self::Server { .. }
            | Self::RtRuntime { .. }
            | Self::RtPeriod { .. }
            | Self::Load { .. }
            | Self::Unload => false,
        }
    }

    /// Returns whether a scheduler of `sched_ext` is loaded or unloaded by it.
    #[must_use]
    pub const fn is_of_policy(&self) -> bool {
        matches!(self, Self::Load { .. } | Self::Unload)
    }
}

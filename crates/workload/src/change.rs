//! [`TimedChange`]: what somebody does at a time, whatever the tasks do: limits and weights that are set, groups and threads that
//! come and go, partitions, deadline servers, the limit of real-time tasks.

use crate::group::GroupWeight;
use std::sync::Arc;
use zerolag_model::{CpuId, CpuMask, CpuMax, Duration, SchedAttr};

/// Something that is changed in the middle of the run.
#[derive(Clone, Debug, PartialEq)]
pub struct TimedChange {
    /// When, from the start.
    pub at: Duration,
    /// What.
    pub what: Change,
}

/// What is changed; tasks by index into [`Program::tasks`](crate::Program::tasks): all their threads that there are; groups by index into
/// [`Program::groups`](crate::Program::groups).
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// A group comes to be (`mkdir`), with the weight and limit of its definition.
    Create {
        /// Which.
        group: usize,
    },
    /// The tasks in a group and below it end, as if killed (`cgroup.kill`), and it goes when the last has gone (`rmdir`).
    Remove {
        /// Which.
        group: usize,
    },
    /// What a group may use (`cpu.max`).
    Max {
        /// Whose.
        group: usize,
        /// From then on.
        max: CpuMax,
    },
    /// What a group gets in competition.
    Weight {
        /// Whose.
        group: usize,
        /// From then on.
        weight: GroupWeight,
    },
    /// Whether a group is idle; one that ceases to be has the weight of a new one.
    Idle {
        /// Whose.
        group: usize,
        /// From then on.
        is_idle: bool,
    },
    /// What a task asks for.
    Attr {
        /// Whose.
        task: usize,
        /// From then on, until its program changes it.
        attr: SchedAttr,
    },
    /// Where a task may run.
    Affinity {
        /// Whose.
        task: usize,
        /// From then on; `None` is every CPU of its cpuset.
        cpus: Option<Arc<CpuMask>>,
    },
    /// The group of a task.
    Group {
        /// Whose.
        task: usize,
        /// From then on; `None` is the root.
        group: Option<usize>,
    },
    /// More threads.
    Start {
        /// Of which task.
        task: usize,
        /// How many.
        count: u32,
    },
    /// All its threads end, as if killed.
    End {
        /// Of which task.
        task: usize,
    },
    /// A pool has this many threads from now on: more are started, or those started last end when they have done what they do: at
    /// the end of their turn.
    Resize {
        /// Of which task.
        task: usize,
        /// How many.
        threads: u32,
    },
    /// A cpuset becomes a partition, or ceases to be one.
    Partition {
        /// Which: index into [`Program::cpusets`](crate::Program::cpusets).
        cpuset: usize,
        /// What it is from then on: a root domain of its own, or not.
        is_root: bool,
    },
    /// Whether a CPU is online.
    Cpu {
        /// Which.
        cpu: CpuId,
        /// From then on.
        is_online: bool,
    },
    /// The deadline servers of the fair class of some CPUs promise something else (`fair_server/cpuN/runtime`, `period`).
    Server {
        /// Whose; `None` is every CPU.
        cpus: Option<Arc<CpuMask>>,
        /// The runtime from then on; `None` leaves it.
        runtime: Option<Duration>,
        /// The period, likewise.
        period: Option<Duration>,
    },
    /// What real-time tasks of each CPU may run per period (`sched_rt_runtime_us`).
    RtRuntime {
        /// From then on; `None` is no limit (-1).
        runtime: Option<Duration>,
    },
    /// What that period is (`sched_rt_period_us`).
    RtPeriod {
        /// From then on.
        period: Duration,
    },
}

impl Change {
    /// Returns whether threads may begin or end by it: a run in which nobody can go on is not over while such a change is to
    /// come.
    #[must_use]
    pub const fn moves_threads(&self) -> bool {
        match self {
            Self::Remove { .. } | Self::Start { .. } | Self::End { .. } | Self::Resize { .. } => true,
            Self::Create { .. }
            | Self::Max { .. }
            | Self::Weight { .. }
            | Self::Idle { .. }
            | Self::Cpu { .. }
            | Self::Attr { .. }
            | Self::Affinity { .. }
            | Self::Group { .. }
            | Self::Partition { .. }
            | Self::Server { .. }
            | Self::RtRuntime { .. }
            | Self::RtPeriod { .. } => false,
        }
    }
}

//! [`GroupDef`] and [`CpusetDef`]: what tasks are put into.

use std::sync::Arc;
use zerolag_model::{CpuMask, CpuMax, Nice};

/// A task group.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupDef {
    /// Its path below the root, as `/pod/a`.
    pub path: Arc<str>,
    /// Its parent: index into [`Program::groups`](crate::Program::groups); `None` is the root.
    pub parent: Option<usize>,
    /// What it gets in competition.
    pub weight: GroupWeight,
    /// Whether it gives way to all that is not idle (`cpu.idle`); its weight is that of idle groups then.
    pub is_idle: bool,
    /// What it may use at the start.
    pub max: CpuMax,
}

/// The weight of a group, as it was written: a kernel converts the one to the other, not without loss.
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
    /// Whether it is a partition of its own (`cpuset.cpus.partition = "root"`): its CPUs are a root domain.
    pub partition: bool,
}

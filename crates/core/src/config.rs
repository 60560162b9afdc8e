//! [`Config`]: what a scheduler is built from: machine, settings, root domains, cpusets; and what follows from them.

use crate::atomic_mask::Threads;
use alloc::vec::Vec;
use core::fmt;
use zerolag_model::settings::TunableScaling;
use zerolag_model::{CpuId, CpuMask, Duration, ServerKind, ServerParams, Settings, Topology};

/// What a scheduler is built from.
#[derive(Clone, Debug)]
pub struct Config {
    pub(crate) topology: Topology,
    pub(crate) settings: Settings,
    pub(crate) cpusets: Vec<CpuMask>,
    pub(crate) domains: Vec<CpuMask>,
    /// Tasks that a run queue has room for from the start.
    pub(crate) queue_reserve: usize,
    /// Groups that can exist besides the root.
    pub(crate) group_reserve: usize,
    /// How many threads will drive the scheduler.
    pub(crate) threads: Threads,
    /// The factor of the fair class's granularities.
    pub(crate) scaling: u32,
}

/// Why a configuration cannot be used.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ConfigError {
    /// A cpuset (by index) has no CPU of the machine.
    EmptyCpuset(usize),
    /// A cpuset names a CPU that the machine does not have.
    NoSuchCpu {
        /// The cpuset's index.
        cpuset: usize,
        /// CPUs of the machine.
        nr_cpus: usize,
    },
    /// Two root domains share CPUs.
    OverlappingDomains(CpuMask),
    /// More cpusets than 65535.
    TooManyCpusets,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EmptyCpuset(index) => write!(f, "cpuset {index} has no CPU"),
            Self::NoSuchCpu { cpuset, nr_cpus } => {
                write!(f, "cpuset {cpuset} names CPUs beyond the machine's {nr_cpus}")
            }
            Self::OverlappingDomains(shared) => write!(f, "CPUs {shared} are in two root domains"),
            Self::TooManyCpusets => f.write_str("more than 65535 cpusets"),
        }
    }
}

impl core::error::Error for ConfigError {}

impl Config {
    /// Returns the configuration of a machine with one root domain and no cpusets.
    #[must_use]
    pub fn new(topology: Topology, settings: Settings) -> Self {
        let all = CpuMask::first_n(topology.nr_cpus());
        let scaling = scaling_factor(topology.nr_cpus(), settings.tunable_scaling);
        Self {
            topology,
            settings,
            cpusets: alloc::vec![all.clone()],
            domains: alloc::vec![all],
            queue_reserve: 64,
            group_reserve: 64,
            threads: Threads::Many,
            scaling,
        }
    }

    /// Returns the configuration with cpusets (ids from 1; 0 stays the machine) and the root domains that partitions
    /// make; CPUs in no partition form the remaining domain.
    ///
    /// # Errors
    /// A cpuset is empty or beyond the machine; partitions overlap.
    pub fn with_cpusets(mut self, cpusets: &[(CpuMask, Partition)]) -> Result<Self, ConfigError> {
        let nr_cpus = self.topology.nr_cpus();
        let mut rest = CpuMask::first_n(nr_cpus);
        let mut domains = Vec::new();
        if cpusets.len() >= usize::from(u16::MAX) {
            return Err(ConfigError::TooManyCpusets);
        }
        for (index, (cpus, partition)) in cpusets.iter().enumerate() {
            let last = cpus.last().ok_or(ConfigError::EmptyCpuset(index))?;
            if last.index() >= nr_cpus {
                return Err(ConfigError::NoSuchCpu { cpuset: index, nr_cpus });
            }
            self.cpusets.push(cpus.clone());
            if *partition == Partition::Root {
                let shared: CpuMask = cpus.iter().filter(|cpu| !rest.contains(*cpu)).collect();
                if !shared.is_empty() {
                    return Err(ConfigError::OverlappingDomains(shared));
                }
                for cpu in cpus.iter() {
                    rest.remove(cpu);
                }
                domains.push(cpus.clone());
            }
        }
        if !rest.is_empty() {
            domains.insert(0, rest);
        }
        self.domains = domains;
        Ok(self)
    }

    /// Returns the configuration with room for `tasks` on each run queue before anything must grow.
    #[must_use]
    pub const fn with_queue_reserve(mut self, tasks: usize) -> Self {
        self.queue_reserve = tasks;
        self
    }

    /// Returns the configuration with room for `groups` groups besides the root.
    #[must_use]
    pub const fn with_group_reserve(mut self, groups: usize) -> Self {
        self.group_reserve = groups;
        self
    }

    /// Returns the configuration for a host with so many threads.
    #[must_use]
    pub const fn with_threads(mut self, threads: Threads) -> Self {
        self.threads = threads;
        self
    }

    /// Returns what a deadline server promises at first.
    pub(crate) fn server(&self, cpu: CpuId, kind: ServerKind) -> ServerParams {
        match kind {
            ServerKind::Fair => self.settings.fair_server_params(cpu),
        }
    }

    /// Returns the machine.
    #[must_use]
    pub const fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Returns the settings.
    #[must_use]
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns a granularity of the fair class scaled for this machine.
    pub(crate) fn scaled(&self, granularity: Duration) -> Duration {
        granularity * u64::from(self.scaling)
    }
}

/// What a cpuset is to the root domains (`cpuset.cpus.partition`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Partition {
    /// A part of its parent's.
    Member,
    /// A root domain of its own.
    Root,
}

/// Returns the factor of `tunable_scaling`: Linux v6.12 `kernel/sched/fair.c`, `get_update_sysctl_factor`.
fn scaling_factor(nr_cpus: usize, scaling: TunableScaling) -> u32 {
    let cpus = u32::try_from(nr_cpus.min(8)).expect("invariant: at most 8");
    match scaling {
        TunableScaling::None => 1,
        TunableScaling::Linear => cpus,
        TunableScaling::Logarithmic => 1 + cpus.ilog2(),
    }
}

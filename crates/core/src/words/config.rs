//! [`Config`]: what a scheduler is built from: machine, settings, root domains, cpusets; and what
//! follows from them.

use crate::words::atomic_mask::Threads;
use crate::words::ids::{CpusetId, DomainId};
use alloc::sync::Arc;
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
    /// The root domains at the start, by [`DomainId`].
    pub(crate) domains: Vec<CpuMask>,
    /// The root domain of each cpuset that is a partition or may become one.
    pub(crate) domain_of_cpuset: Vec<Option<DomainId>>,
    /// Tasks that a run queue has room for from the start.
    pub(crate) queue_reserve: usize,
    /// Groups that can exist besides the root.
    pub(crate) group_reserve: usize,
    /// How many threads will drive the scheduler.
    pub(crate) threads: Threads,
    /// CPUs without load balancing (`isolcpus`): a root domain of their own, the last.
    pub(crate) isolated: CpuMask,
    /// Where tasks may run that ask for nothing, if that is not every CPU.
    pub(crate) housekeeping: Option<Arc<CpuMask>>,
    /// CPUs whose tick stops while one task runs (`nohz_full`).
    pub(crate) full_dynticks: CpuMask,
    /// The factor of the fair class's granularities.
    pub(crate) scaling: u32,
    /// What one look at another CPU takes on this host.
    pub(crate) scan_cost: Duration,
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
        let nr_cpus = topology.nr_cpus();
        let all = CpuMask::first_n(nr_cpus);
        let scaling = scaling_factor(nr_cpus, settings.tunable_scaling);
        let (isolated, full_dynticks) = (settings.isolated_cpus(nr_cpus), settings.full_dynticks_cpus(nr_cpus));
        let rest: CpuMask = all.iter().filter(|cpu| !isolated.contains(*cpu)).collect();
        let housekeeping = (!isolated.is_empty()).then(|| Arc::new(rest.clone()));
        let mut domains = alloc::vec![rest];
        domains.extend(housekeeping.is_some().then(|| isolated.clone()));
        Self {
            topology,
            settings,
            cpusets: alloc::vec![all],
            domains,
            domain_of_cpuset: alloc::vec![Some(DomainId::REST)],
            queue_reserve: 64,
            group_reserve: 64,
            threads: Threads::Many,
            isolated,
            housekeeping,
            full_dynticks,
            scaling,
            scan_cost: Duration::ZERO,
        }
    }

    /// Returns the configuration with cpusets (ids from 1; 0 stays the machine) and the root
    /// domains that partitions make; CPUs in no partition form the remaining domain, isolated ones
    /// another, whatever partition they are in. With `isolcpus_conflict` a cpuset with isolated
    /// CPUs is no partition and does not become one. A root domain of 4096 CPUs takes some 60 KB.
    ///
    /// # Errors
    /// A cpuset is empty or beyond the machine; partitions overlap.
    pub fn with_cpusets(mut self, cpusets: &[(CpuMask, Partition)]) -> Result<Self, ConfigError> {
        let nr_cpus = self.topology.nr_cpus();
        let mut rest = self.domains[DomainId::REST.index()].clone();
        let mut domains = alloc::vec![CpuMask::new()];
        let mut domain_of_cpuset = alloc::vec![Some(DomainId::REST)];
        if cpusets.len() >= usize::from(u16::MAX) {
            return Err(ConfigError::TooManyCpusets);
        }
        for (index, (cpus, partition)) in cpusets.iter().enumerate() {
            let last = cpus.last().ok_or(ConfigError::EmptyCpuset(index))?;
            if last.index() >= nr_cpus {
                return Err(ConfigError::NoSuchCpu { cpuset: index, nr_cpus });
            }
            self.cpusets.push(cpus.clone());
            let is_forbidden = self.settings.forbids_partition(cpus, nr_cpus);
            let partition = if is_forbidden { &Partition::Member } else { partition };
            domain_of_cpuset.push(match partition {
                Partition::Member => None,
                Partition::Prepared | Partition::Root => {
                    domains.push(CpuMask::new());
                    Some(DomainId(u16::try_from(domains.len() - 1).expect("invariant: fewer cpusets than 65535")))
                }
            });
            if *partition == Partition::Root {
                let own: CpuMask = cpus.iter().filter(|cpu| !self.isolated.contains(*cpu)).collect();
                let shared: CpuMask = own.iter().filter(|cpu| !rest.contains(*cpu)).collect();
                if !shared.is_empty() {
                    return Err(ConfigError::OverlappingDomains(shared));
                }
                for cpu in own.iter() {
                    rest.remove(cpu);
                }
                *domains.last_mut().expect("invariant: it was just made") = own;
            }
        }
        domains[DomainId::REST.index()] = rest;
        domains.extend((!self.isolated.is_empty()).then(|| self.isolated.clone()));
        self.domains = domains;
        self.domain_of_cpuset = domain_of_cpuset;
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

    /// Returns the configuration for a host on which looking at another CPU takes so long: what
    /// searches for work and for idle CPUs are worth is weighed with it. Nothing, if the host does
    /// not say.
    #[must_use]
    pub const fn with_scan_cost(mut self, per_cpu: Duration) -> Self {
        self.scan_cost = per_cpu;
        self
    }

    /// Returns what a deadline server promises at first.
    pub(crate) fn server(&self, cpu: CpuId, kind: ServerKind) -> ServerParams {
        self.settings.server_params(cpu, kind)
    }

    /// Returns the root domain of a cpuset, 0 being the machine: that of the CPUs in no partition.
    /// `None` if it cannot be a partition.
    #[must_use]
    pub fn domain_of(&self, cpuset: CpusetId) -> Option<DomainId> {
        *self.domain_of_cpuset.get(usize::from(cpuset.0))?
    }

    /// Returns whether a CPU is isolated.
    pub(crate) fn isolates(&self, cpu: CpuId) -> bool {
        self.housekeeping.is_some() && self.isolated.contains(cpu)
    }

    /// Returns the CPUs that tasks are kept away from which do not ask for them (`isolcpus`).
    #[must_use]
    pub const fn isolated(&self) -> &CpuMask {
        &self.isolated
    }

    /// Returns the CPUs whose tick stops while one task runs (`nohz_full`).
    #[must_use]
    pub const fn full_dynticks(&self) -> &CpuMask {
        &self.full_dynticks
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
    /// Likewise at first; room is kept for a root domain, so that it may become one
    /// ([`Scheduler::join_domain`](crate::Scheduler::join_domain)).
    Prepared,
    /// A root domain of its own.
    Root,
}

/// Returns the factor of `tunable_scaling`: Linux v6.12 `kernel/sched/fair.c`,
/// `get_update_sysctl_factor`.
fn scaling_factor(nr_cpus: usize, scaling: TunableScaling) -> u32 {
    let cpus = u32::try_from(nr_cpus.min(8)).expect("invariant: at most 8");
    match scaling {
        TunableScaling::None => 1,
        TunableScaling::Linear => cpus,
        TunableScaling::Logarithmic => 1 + cpus.ilog2(),
    }
}

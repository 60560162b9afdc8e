//! [`Config`]: the configuration of a scheduler (machine, settings, root domains, cpusets) and the
//! values derived from it.

use crate::words::atomic_mask::Threads;
use crate::words::ids::{CpusetId, DomainId};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use zerolag_model::settings::{FairAlgorithm, FairHierarchy, Throttle, TimerGrain, TunableScaling};
use zerolag_model::{CpuId, CpuMask, Distance, Duration, ServerKind, ServerParams, Settings, Topology};

/// The configuration of a scheduler.
#[derive(Clone, Debug)]
pub struct Config {
    pub(crate) topology: Topology,
    pub(crate) settings: Settings,
    pub(crate) cpusets: Vec<CpuMask>,
    /// The initial root domains, by [`DomainId`].
    pub(crate) domains: Vec<CpuMask>,
    /// The root domain of each cpuset that is a partition or can become one.
    pub(crate) domain_of_cpuset: Vec<Option<DomainId>>,
    /// The number of tasks for which a run queue initially has room.
    pub(crate) queue_reserve: usize,
    /// The number of groups that can exist besides the root.
    pub(crate) group_reserve: usize,
    /// The number of processes with several threads.
    pub(crate) process_reserve: usize,
    /// The number of threads that drive the scheduler.
    pub(crate) threads: Threads,
    /// CPUs without load balancing (`isolcpus`). They form a root domain of their own, the last
    /// one.
    pub(crate) isolated: CpuMask,
    /// The CPUs for tasks without an explicit affinity; `None` if these are all CPUs.
    pub(crate) housekeeping: Option<Arc<CpuMask>>,
    /// CPUs that stop their tick while a single task runs (`nohz_full`).
    pub(crate) full_dynticks: CpuMask,
    /// The scaling factor of the fair class's granularities.
    pub(crate) scaling: u32,
    /// The cost of reading the state of one other CPU on this host.
    pub(crate) scan_cost: Duration,
    /// The seed of the draws of `features.NI_RANDOM`.
    pub(crate) seed: u64,
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
        /// The number of CPUs of the machine.
        nr_cpus: usize,
    },
    /// Two root domains share CPUs.
    OverlappingDomains(CpuMask),
    /// There are more than 65535 cpusets.
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
            process_reserve: 0,
            threads: Threads::Many,
            isolated,
            housekeeping,
            full_dynticks,
            scaling,
            scan_cost: Duration::ZERO,
            seed: 0,
        }
    }

    /// Returns the configuration with cpusets and the root domains of their partitions. Ids begin
    /// at 1; 0 remains the machine.
    ///
    /// * CPUs in no partition form the remaining domain.
    /// * Isolated CPUs form another domain, whatever partition they are in.
    /// * With `isolcpus_conflict` a cpuset with isolated CPUs is no partition and cannot become
    ///   one.
    ///
    /// A root domain of 4096 CPUs uses some 60 KB.
    ///
    /// # Errors
    /// If a cpuset is empty or has CPUs beyond the machine, or if partitions overlap.
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

    /// Returns the configuration with room for `tasks` tasks on each run queue before anything is
    /// reallocated.
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

    /// Returns the configuration with room for `processes` processes. Their threads are gathered
    /// under one cache (`llc_balancing`); a task without a process is one by itself. The default is
    /// zero.
    #[must_use]
    pub const fn with_process_reserve(mut self, processes: usize) -> Self {
        self.process_reserve = processes;
        self
    }

    /// Returns the configuration for a host with this number of threads.
    #[must_use]
    pub const fn with_threads(mut self, threads: Threads) -> Self {
        self.threads = threads;
        self
    }

    /// Returns the configuration for a host on which reading the state of another CPU takes this
    /// long. Searches for work and for idle CPUs weigh their benefit against it. The default is
    /// zero.
    #[must_use]
    pub const fn with_scan_cost(mut self, per_cpu: Duration) -> Self {
        self.scan_cost = per_cpu;
        self
    }

    /// Returns the configuration with a seed of the draws that the kernel makes
    /// (`features.NI_RANDOM`). The default is zero; the same seed gives the same draws.
    #[must_use]
    pub const fn with_seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Returns whether tasks are moved to the cache that their process prefers: the machine has
    /// several caches, and several CPUs share one (`sd_in_multi_llcs`), load is tracked, and there
    /// are processes.
    pub(crate) fn gathers(&self) -> bool {
        let cache = self.topology.span(CpuId(0), Distance::Llc).len();
        self.settings.llc_balancing
            && self.process_reserve > 0
            && self.settings.tracks_load()
            && !self.settings.fair_balance.is_by_load()
            && (2..self.topology.nr_cpus()).contains(&cache)
    }

    /// Returns whether the fair tasks of all groups are on one queue.
    pub(crate) fn is_flat(&self) -> bool {
        let settings = &self.settings;
        settings.fair_hierarchy == FairHierarchy::Flat
            && settings.fair == FairAlgorithm::Eevdf
            && settings.throttle == Throttle::AtUserReturn
            && settings.enforce_fair != TimerGrain::Exact
    }

    /// Returns the initial parameters of a deadline server.
    pub(crate) fn server(&self, cpu: CpuId, kind: ServerKind) -> ServerParams {
        self.settings.server_params(cpu, kind)
    }

    /// Returns the root domain of a cpuset; `None` if the cpuset cannot be a partition. Cpuset 0 is
    /// the machine, and its domain has the CPUs in no partition.
    #[must_use]
    pub fn domain_of(&self, cpuset: CpusetId) -> Option<DomainId> {
        *self.domain_of_cpuset.get(usize::from(cpuset.0))?
    }

    /// Returns whether a CPU is isolated.
    pub(crate) fn isolates(&self, cpu: CpuId) -> bool {
        self.housekeeping.is_some() && self.isolated.contains(cpu)
    }

    /// Returns the CPUs that only tasks with an explicit affinity use (`isolcpus`).
    #[must_use]
    pub const fn isolated(&self) -> &CpuMask {
        &self.isolated
    }

    /// Returns the CPUs that stop their tick while a single task runs (`nohz_full`).
    #[must_use]
    pub const fn full_dynticks(&self) -> &CpuMask {
        &self.full_dynticks
    }

    /// Returns the topology of the machine.
    #[must_use]
    pub const fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Returns the settings.
    #[must_use]
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns a granularity of the fair class, scaled for this machine.
    pub(crate) fn scaled(&self, granularity: Duration) -> Duration {
        granularity * u64::from(self.scaling)
    }
}

/// The relation of a cpuset to the root domains (`cpuset.cpus.partition`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Partition {
    /// It belongs to its parent's root domain.
    Member,
    /// It belongs to its parent's root domain at first. A root domain is reserved, so that it can
    /// become one ([`Scheduler::join_domain`](crate::Scheduler::join_domain)).
    Prepared,
    /// It has a root domain of its own.
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

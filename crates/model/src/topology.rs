//! [`Topology`]: which CPUs share a core, a last-level cache, a socket; and the capacity of each
//! CPU.
//!
//! A table of masks per CPU, as the kernel keeps, takes megabytes at 4096 CPUs. Here CPUs are
//! numbered depth first instead: the SMT siblings of a core are neighbours, then the cores of a
//! last-level cache (LLC), then the LLCs of a socket. So every domain is a range of CPUs, and
//! [`Topology::span`] is arithmetic. (Kernels number SMT siblings apart on many x86 machines; a
//! workload that names CPUs by number must know this.)

use crate::cpumask::MAX_CPUS;
use crate::ids::CpuId;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

/// The distance of two CPUs: the smallest domain that contains both.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Distance {
    /// The same CPU.
    Same,
    /// SMT siblings: one core.
    Smt,
    /// Cores under one last-level cache.
    Llc,
    /// One socket (NUMA node), other caches.
    Socket,
    /// Different sockets.
    Remote,
}

impl Distance {
    /// From near to far.
    pub const ALL: [Self; 5] = [Self::Same, Self::Smt, Self::Llc, Self::Socket, Self::Remote];
}

/// The shape of a machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Topology {
    /// CPUs within each [`Distance`] of one, itself included.
    sizes: [u32; Distance::ALL.len()],
    /// Capacity per CPU on the kernel's scale (1024 = the strongest); empty = all 1024.
    capacities: Vec<u16>,
    /// The smallest domain that contains all capacities around every CPU, if there are several.
    asymmetry: Option<Distance>,
}

/// The capacity of the strongest CPU (`SCHED_CAPACITY_SCALE`).
pub const CAPACITY_SCALE: u16 = 1024;

/// Why a topology cannot be built.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum TopologyError {
    /// A count is zero.
    Empty,
    /// More CPUs than [`MAX_CPUS`].
    TooManyCpus(u64),
    /// The list of capacities does not have one entry per CPU.
    CapacityCount {
        /// CPUs of the machine.
        cpus: usize,
        /// Capacities given.
        given: usize,
    },
    /// A capacity outside 1..=1024.
    CapacityRange(u16),
}

impl fmt::Display for TopologyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("a machine has at least one socket, cache, core and thread"),
            Self::TooManyCpus(cpus) => write!(f, "{cpus} CPUs are more than the {MAX_CPUS} that can be simulated"),
            Self::CapacityCount { cpus, given } => write!(f, "{given} capacities given for {cpus} CPUs"),
            Self::CapacityRange(capacity) => write!(f, "capacity {capacity} is outside 1..=1024"),
        }
    }
}

impl core::error::Error for TopologyError {}

impl Topology {
    /// Returns a machine of one socket and one cache with `nr_cpus` single-threaded cores.
    ///
    /// # Errors
    /// Zero or more than [`MAX_CPUS`] CPUs.
    pub fn flat(nr_cpus: u32) -> Result<Self, TopologyError> {
        Self::new(1, 1, nr_cpus, 1)
    }

    /// Returns a regular machine.
    ///
    /// # Errors
    /// A count of zero, or more than [`MAX_CPUS`] CPUs in all.
    pub fn new(sockets: u32, llcs_per_socket: u32, cores_per_llc: u32, smt: u32) -> Result<Self, TopologyError> {
        let counts = [sockets, llcs_per_socket, cores_per_llc, smt];
        if counts.contains(&0) {
            return Err(TopologyError::Empty);
        }
        let cpus = counts.iter().fold(1_u64, |product, count| product.saturating_mul(u64::from(*count)));
        if cpus > MAX_CPUS as u64 {
            return Err(TopologyError::TooManyCpus(cpus));
        }
        let core = smt;
        let llc = core * cores_per_llc;
        let socket = llc * llcs_per_socket;
        Ok(Self { sizes: [1, core, llc, socket, socket * sockets], capacities: Vec::new(), asymmetry: None })
    }

    /// Returns the machine with a capacity per CPU (1..=1024).
    ///
    /// # Errors
    /// Not one capacity per CPU, or one out of range.
    pub fn with_capacities(mut self, capacities: Vec<u16>) -> Result<Self, TopologyError> {
        if capacities.len() != self.nr_cpus() {
            return Err(TopologyError::CapacityCount { cpus: self.nr_cpus(), given: capacities.len() });
        }
        if let Some(bad) = capacities.iter().find(|capacity| !(1..=CAPACITY_SCALE).contains(*capacity)) {
            return Err(TopologyError::CapacityRange(*bad));
        }
        // Equal ones are what a machine without a list has, and are not written into a trace.
        let is_even = capacities.iter().all(|capacity| *capacity == CAPACITY_SCALE);
        self.capacities = if is_even { Vec::new() } else { capacities };
        let kinds = |range: Range<u32>| {
            let mut kinds: Vec<u16> = range.map(|cpu| self.capacity(CpuId(cpu))).collect();
            kinds.sort_unstable();
            kinds.dedup();
            kinds
        };
        let all = kinds(self.span(CpuId(0), Distance::Remote));
        let has_all = |distance| self.cpus().all(|cpu| kinds(self.span(cpu, distance)) == all);
        self.asymmetry =
            (all.len() > 1).then(|| Distance::ALL.into_iter().find(|distance| has_all(*distance))).flatten();
        Ok(self)
    }

    /// Returns the number of CPUs.
    #[must_use]
    pub const fn nr_cpus(&self) -> usize {
        self.size(Distance::Remote) as usize
    }

    /// Returns all CPUs in order.
    pub fn cpus(&self) -> impl Iterator<Item = CpuId> + use<> {
        (0..self.nr_cpus()).map(CpuId::from_index)
    }

    /// Returns sockets, LLCs per socket, cores per LLC and threads per core.
    #[must_use]
    pub const fn shape(&self) -> [u32; 4] {
        let [one, core, llc, socket, machine] = self.sizes;
        [machine / socket, socket / llc, llc / core, core / one]
    }

    /// Returns the capacity of a CPU; 1024 is the strongest.
    #[must_use]
    pub fn capacity(&self, cpu: CpuId) -> u16 {
        self.capacities.get(cpu.index()).copied().unwrap_or(CAPACITY_SCALE)
    }

    /// Returns the smallest domain that contains CPUs of every capacity around each CPU
    /// (`SD_ASYM_CPUCAPACITY_FULL`); `None` if all are equal.
    #[must_use]
    #[inline]
    pub const fn asymmetry(&self) -> Option<Distance> {
        self.asymmetry
    }

    /// Returns how many CPUs a domain has.
    const fn size(&self, distance: Distance) -> u32 {
        self.sizes[distance as usize]
    }

    /// Returns whether cores have several CPUs.
    #[must_use]
    pub const fn has_smt(&self) -> bool {
        self.size(Distance::Smt) > 1
    }

    /// Returns the CPUs within `distance` of `cpu`, itself included, as a range of CPU numbers.
    /// O(1).
    #[must_use]
    pub const fn span(&self, cpu: CpuId, distance: Distance) -> Range<u32> {
        let size = self.size(distance);
        // Divisions are slow; flat machines need none.
        if size == 1 {
            return cpu.0..cpu.0 + 1;
        }
        if size == self.size(Distance::Remote) {
            return 0..size;
        }
        let start = cpu.0 / size * size;
        start..start + size
    }

    /// Returns the distance of two CPUs. O(1).
    #[must_use]
    #[inline]
    pub fn distance(&self, a: CpuId, b: CpuId) -> Distance {
        if a == b { Distance::Same } else { self.distance_of_two(a, b) }
    }

    #[inline]
    fn distance_of_two(&self, a: CpuId, b: CpuId) -> Distance {
        if self.are_together(a, b, Distance::Smt) {
            Distance::Smt
        } else if self.are_together(a, b, Distance::Llc) {
            Distance::Llc
        } else if self.are_together(a, b, Distance::Socket) {
            Distance::Socket
        } else {
            Distance::Remote
        }
    }

    /// Returns whether two different CPUs are in one domain.
    const fn are_together(&self, a: CpuId, b: CpuId, distance: Distance) -> bool {
        let size = self.size(distance);
        // Divisions are slow; flat machines need none.
        size > 1 && (size == self.size(Distance::Remote) || a.0 / size == b.0 / size)
    }
}

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [sockets, llcs, cores, smt] = self.shape();
        write!(f, "{} CPUs", self.nr_cpus())?;
        if sockets > 1 || llcs > 1 || smt > 1 {
            write!(f, " ({sockets} sockets x {llcs} LLCs x {cores} cores x {smt} threads)")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_follow_the_numbering() {
        let machine = Topology::new(2, 2, 4, 2).expect("32 CPUs");
        assert_eq!(machine.nr_cpus(), 32);
        let from_zero = |cpu| machine.distance(CpuId(0), CpuId(cpu));
        assert_eq!(from_zero(0), Distance::Same);
        assert_eq!(from_zero(1), Distance::Smt);
        assert_eq!(from_zero(2), Distance::Llc);
        assert_eq!(from_zero(7), Distance::Llc);
        assert_eq!(from_zero(8), Distance::Socket);
        assert_eq!(from_zero(16), Distance::Remote);
        assert_eq!(machine.span(CpuId(13), Distance::Llc), 8..16);
    }

    #[test]
    fn the_asymmetric_domain_has_every_capacity_around_each_cpu() {
        let asymmetry = |llcs, cores, capacities: &[u16]| {
            let machine = Topology::new(1, llcs, cores, 1).expect("4 CPUs").with_capacities(capacities.to_vec());
            machine.expect("as many as CPUs").asymmetry()
        };
        assert_eq!(asymmetry(1, 4, &[512, 512, 1024, 1024]), Some(Distance::Llc));
        assert_eq!(asymmetry(2, 2, &[512, 512, 1024, 1024]), Some(Distance::Socket));
        assert_eq!(asymmetry(2, 2, &[512, 1024, 512, 1024]), Some(Distance::Llc));
        assert_eq!(asymmetry(2, 2, &[512; 4]), None);
    }

    /// A trace has no list of equal capacities, so the machine that is read has none.
    #[test]
    fn equal_capacities_are_those_of_no_list() {
        let two = Topology::flat(2).expect("2 CPUs");
        assert_eq!(two.clone().with_capacities(alloc::vec![CAPACITY_SCALE; 2]), Ok(two));
    }

    #[test]
    fn impossible_machines_are_refused() {
        assert_eq!(Topology::flat(0), Err(TopologyError::Empty));
        assert_eq!(Topology::flat(4097), Err(TopologyError::TooManyCpus(4097)));
        assert!(Topology::new(u32::MAX, u32::MAX, 2, 2).is_err());
        let two = Topology::flat(2).expect("2 CPUs");
        assert_eq!(
            two.clone().with_capacities(alloc::vec![512]),
            Err(TopologyError::CapacityCount { cpus: 2, given: 1 })
        );
        assert_eq!(two.with_capacities(alloc::vec![512, 0]), Err(TopologyError::CapacityRange(0)));
    }
}

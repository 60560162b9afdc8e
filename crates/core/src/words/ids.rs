//! Numbers that stand for things: cpusets, root domains, locks, slots. All are dense.

/// A place in the slab of one run queue.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Slot(pub(crate) u32);

/// The number of a lock: dense, chosen by the host
/// ([`Scheduler::reserve_locks`](crate::Scheduler::reserve_locks)).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LockId(pub u32);

/// Index of a cpuset that the scheduler was configured with; 0 is the machine.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct CpusetId(pub u16);

/// A root domain: an exclusive set of CPUs within which real-time and deadline tasks move. 0 is
/// that of the CPUs in no partition, the others are those of the cpusets that are partitions or may
/// become ones.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DomainId(pub(crate) u16);

impl DomainId {
    /// The CPUs that are in no partition.
    pub const REST: Self = Self(0);

    /// Returns its place in a list of all root domains.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

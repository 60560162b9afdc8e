//! Identifiers of cpusets, root domains, locks, slots and queues. All are dense numbers.

use core::num::NonZeroU32;

/// An index into the slab of one run queue. Index 0 is never used, so that an absent slot costs no
/// space.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Slot(NonZeroU32);

impl Slot {
    pub(crate) const fn new(index: u32) -> Self {
        Self(NonZeroU32::new(index).expect("invariant: slot 0 is not used"))
    }

    pub(crate) const fn index(self) -> usize {
        self.0.get() as usize
    }

    /// Returns the index as it is packed into words.
    pub(crate) const fn raw(self) -> u32 {
        self.0.get()
    }
}

/// The index of a group's local queue on a CPU
/// ([`LocalQueues`](crate::queue::rt::local::LocalQueues)), and of its server.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct LocalIx(NonZeroU32);

impl LocalIx {
    pub(crate) fn new(index: usize) -> Self {
        let number = u32::try_from(index + 1).ok().and_then(NonZeroU32::new);
        Self(number.expect("invariant: fewer than 2^32 groups"))
    }

    pub(crate) const fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// The identifier of a lock: a dense number, chosen by the host
/// ([`Scheduler::reserve_locks`](crate::Scheduler::reserve_locks)).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LockId(pub u32);

/// The number of a process, whose threads share a memory: a dense number, chosen by the host
/// ([`Config::with_process_reserve`](crate::Config::with_process_reserve)).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ProcessId(pub u32);

/// The index of a cpuset of the scheduler's configuration; 0 is the machine.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct CpusetId(pub u16);

/// A root domain: an exclusive set of CPUs within which real-time and deadline tasks move. Domain 0
/// has the CPUs in no partition. Each other domain belongs to a cpuset that is a partition or can
/// become one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DomainId(pub(crate) u16);

impl DomainId {
    /// The domain of the CPUs that are in no partition.
    pub const REST: Self = Self(0);

    /// Returns its index in a list of all root domains.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

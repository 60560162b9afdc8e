//! [`LineAccess`]: an access to a word that many CPUs write.

use zerolag_model::{CpuId, GroupId};

/// An access of the calling CPU to words that CPUs of the whole machine write. A host that knows
/// the cost of a cache line and where it is can charge it; see
/// [`Observer::Lines`](crate::Observer::Lines).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LineAccess {
    /// A CPU has another priority in `cpupri`: it left one level and joined another.
    Level {
        /// The CPU.
        cpu: CpuId,
        /// The level that it left; `None` if it was at none.
        from: Option<u8>,
        /// The level that it joined; `None` if it left the domain.
        to: Option<u8>,
    },
    /// A search of `cpupri` looked at all levels below this one.
    Search {
        /// The first level that was not looked at.
        below: u8,
    },
    /// A bit of an RT overload mask, and the count beside it, were changed.
    Overload {
        /// The CPU of the bit.
        cpu: CpuId,
    },
    /// The counts of CPUs with waiting real-time or deadline tasks were read; they share a line.
    OverloadLook,
    /// A bit of the mask of CPUs with waiting deadline tasks, and the count, were changed.
    DeadlineOverload {
        /// The CPU of the bit.
        cpu: CpuId,
    },
    /// The lock of `cpudl` was taken. It is held for the following [`DeadlineItem`]s and the
    /// [`DeadlineFree`].
    ///
    /// [`DeadlineItem`]: Self::DeadlineItem
    /// [`DeadlineFree`]: Self::DeadlineFree
    Deadlines,
    /// An item of the heap of deadlines was written.
    DeadlineItem {
        /// Its place in the heap, or the number of the CPU whose place it holds: an array has both.
        item: u32,
    },
    /// The bit of a CPU in the set of CPUs without deadline tasks was changed.
    DeadlineFree {
        /// The CPU.
        cpu: CpuId,
    },
    /// A search of `cpudl` looked at the CPUs without deadline tasks.
    DeadlineSearch {
        /// Whether it found none, and looked at the first item of the heap.
        looks_at_first: bool,
    },
    /// The lock of a group's quota was taken.
    Pool {
        /// The group.
        group: GroupId,
    },
    /// The parts of so many CPUs of a divided quota were examined, each under its own lock, with
    /// the group's lock held.
    Parts {
        /// The group.
        group: GroupId,
        /// The number of CPUs.
        cpus: u32,
    },
}

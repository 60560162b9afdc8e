//! [`LineAccess`]: an access to a word that many CPUs write.

use zerolag_model::{CpuId, GroupId};

/// An access of the calling CPU to words that CPUs of the whole machine write. A host that knows
/// the cost of a cache line and where it is can charge it; see
/// [`Scheduler::take_line_accesses`](crate::Scheduler::take_line_accesses).
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
    /// The count of RT-overloaded CPUs was read.
    OverloadLook,
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

/// The level of a CPU that is at none.
const NONE: u64 = 0xff;

impl LineAccess {
    /// Returns the access as a word.
    pub(crate) const fn pack(self) -> u64 {
        const fn level(level: Option<u8>) -> u64 {
            match level {
                Some(level) => level as u64,
                None => NONE,
            }
        }
        match self {
            Self::Level { cpu, from, to } => (cpu.0 as u64) << 16 | level(from) << 8 | level(to),
            Self::Search { below } => 1 << 56 | below as u64,
            Self::Overload { cpu } => 2 << 56 | cpu.0 as u64,
            Self::OverloadLook => 3 << 56,
            Self::Pool { group } => 4 << 56 | group.0 as u64,
            // Both numbers are below 2^24: CPUs are at most 4096.
            Self::Parts { group, cpus } => 5 << 56 | (cpus as u64) << 32 | group.0 as u64,
        }
    }

    /// Reads such a word.
    pub(crate) const fn unpack(word: u64) -> Self {
        const fn level(byte: u64) -> Option<u8> {
            if byte & NONE == NONE { None } else { Some(byte as u8) }
        }
        match word >> 56 {
            0 => Self::Level { cpu: CpuId((word >> 16) as u32), from: level(word >> 8), to: level(word) },
            1 => Self::Search { below: word as u8 },
            2 => Self::Overload { cpu: CpuId(word as u32) },
            3 => Self::OverloadLook,
            4 => Self::Pool { group: GroupId(word as u32) },
            _ => Self::Parts { group: GroupId(word as u32), cpus: (word >> 32) as u32 & 0xff_ffff },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_the_access() {
        for access in [
            LineAccess::Level { cpu: CpuId(4095), from: None, to: Some(100) },
            LineAccess::Level { cpu: CpuId(0), from: Some(80), to: None },
            LineAccess::Search { below: 40 },
            LineAccess::Overload { cpu: CpuId(300) },
            LineAccess::OverloadLook,
            LineAccess::Pool { group: GroupId(7) },
            LineAccess::Parts { group: GroupId(u32::MAX), cpus: 4095 },
        ] {
            assert_eq!(LineAccess::unpack(access.pack()), access);
        }
    }
}

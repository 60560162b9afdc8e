//! The frame of the container: its first bytes, versions, and kinds and sizes of blocks.

/// The first bytes of a file.
pub const MAGIC: [u8; 8] = *b"\x89ZLT\r\n\x1a\n";

/// A version of the format.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Version(pub(super) u16);

impl Version {
    /// The version that this program writes, and the latest that it reads.
    pub(super) const CURRENT: Self = Self(1);
}

/// The contents of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum BlockKind {
    Meta,
    Records,
    End,
}

impl BlockKind {
    pub(super) const fn number(self) -> u8 {
        match self {
            Self::Meta => 1,
            Self::Records => 2,
            Self::End => 3,
        }
    }

    pub(super) fn from_number(number: u8) -> Option<Self> {
        [Self::Meta, Self::Records, Self::End].into_iter().find(|kind| kind.number() == number)
    }
}

/// A block is written when it has reached this size.
pub(super) const BLOCK_TARGET: usize = 64 * 1024;
/// A longer block is treated as damage. One record can be large: a name, a mask of 4096 CPUs.
pub(super) const BLOCK_MAX: usize = 16 * 1024 * 1024;

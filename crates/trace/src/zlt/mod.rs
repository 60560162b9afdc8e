//! Our own binary container, `.zlt`: exact, streamed, small, and damage is always detected.
//!
//! ```text
//! file    = magic version block* end-block
//! magic   = 89 'Z' 'L' 'T' 0d 0a 1a 0a         (a transfer in text mode breaks it, as with PNG)
//! version = u16, little endian
//! block   = kind:u8 length:varint payload[length] crc32:u32 little endian over kind, length and payload
//! kind    = 1 meta (exactly one, first) | 2 records | 3 end (exactly one, last)
//! meta    = (tag:varint length:varint value[length])*    unknown tags are skipped
//! records = (head:u8 [time:zigzag] [cpu:varint] [extended-kind:varint] fields)*
//! end     = end-time:varint lost-events:varint record-count:varint
//! ```
//!
//! The head of a record is its kind in the low six bits; bit 6 means "same CPU as the previous
//! record", bit 7 "same time". Kind 62 is an escape: the kind follows as a varint, because all
//! other numbers are in use. Times are differences to the previous record. Every block of records
//! starts again from time 0 on CPU 0, so a block can be decoded alone. A typical record takes 6 to
//! 10 bytes. Integers are LEB128 varints, signed ones zigzag.
//!
//! A file that ends without its end block is *cut off*, one whose checksum fails is *damaged*; both
//! are errors with an offset, never a shorter trace that looks complete. Memory of reader and
//! writer is one block: 64 KiB and the largest record.
//!
//! | reader \ file | version 1 |
//! |---|---|
//! | 0.1 | reads |
//!
//! A later file is refused with both versions named. New events and new meta tags that old readers
//! may skip do not change the version; an event kind that a reader does not know is an error,
//! because skipping events would make checks give wrong results.

mod reader;
mod record;
mod wire;
mod writer;

pub use reader::TraceReader;
pub use writer::TraceWriter;

/// The first bytes of a file.
pub const MAGIC: [u8; 8] = *b"\x89ZLT\r\n\x1a\n";

/// A version of the format.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Version(u16);

impl Version {
    /// The version that this program writes, and the latest that it reads.
    const CURRENT: Self = Self(1);
}

/// The contents of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum BlockKind {
    Meta,
    Records,
    End,
}

impl BlockKind {
    const fn number(self) -> u8 {
        match self {
            Self::Meta => 1,
            Self::Records => 2,
            Self::End => 3,
        }
    }

    fn from_number(number: u8) -> Option<Self> {
        [Self::Meta, Self::Records, Self::End].into_iter().find(|kind| kind.number() == number)
    }
}

/// A block is written when it has reached this size.
const BLOCK_TARGET: usize = 64 * 1024;
/// A longer block is treated as damage. One record can be large: a name, a mask of 4096 CPUs.
const BLOCK_MAX: usize = 16 * 1024 * 1024;

#[cfg(test)]
mod tests;

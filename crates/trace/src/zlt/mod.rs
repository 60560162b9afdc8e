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

mod block;
mod reader;
mod record;
mod wire;
mod writer;

pub use block::MAGIC;
pub use reader::TraceReader;
pub use writer::TraceWriter;

#[cfg(test)]
mod tests;

//! The records of a file, through a window if it is not in memory.

use super::layout::{self, Next, Record};
use crate::file_bytes::{FileBytes, append};
use crate::kernel::raw::ByteOrder;
use core::ops::Range;
use std::borrow::Cow;
use std::io;

impl<'b> FileBytes<'b> {
    /// Gives the records of a range in order; returns where they end.
    ///
    /// # Errors
    /// The file cannot be read, or the error of `each`.
    pub(super) fn records<E: From<io::Error>>(
        self,
        order: ByteOrder,
        range: Range<usize>,
        mut each: impl FnMut(&Record<'_>) -> Result<(), E>,
    ) -> Result<usize, E> {
        let mut at = range.start;
        // The bytes that are in memory, and the place of the first of them.
        let mut window: (Cow<'b, [u8]>, usize) = match self {
            Self::Memory(bytes) => (Cow::Borrowed(bytes), 0),
            Self::File(..) => (Cow::Owned(Vec::new()), at),
        };
        loop {
            let bytes = window.0.get(at - window.1..).unwrap_or_default();
            match layout::next(order, bytes, at, range.end) {
                Next::Record(record) => {
                    at = record.end;
                    each(&record)?;
                }
                Next::More => {
                    let Self::File(file, len) = self else { return Ok(at) };
                    let bytes = window.0.to_mut();
                    bytes.drain(..bytes.len().min(at - window.1));
                    window.1 = at;
                    let until = at.saturating_add(WINDOW).min(range.end).min(len);
                    append(file, at + bytes.len()..until, bytes)?;
                }
                Next::End => return Ok(at),
            }
        }
    }
}

/// So much of the records is in memory: more than the longest one.
const WINDOW: usize = 1 << 18;

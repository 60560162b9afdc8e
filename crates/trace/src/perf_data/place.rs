//! [`Place`]: the bytes of a file, in memory or not.
//!
//! A short file is read as a whole, a long one by parts: its header, tables and descriptions as
//! ranges, its records through a window.

use super::layout::{self, Next, Record};
use crate::kernel::raw::ByteOrder;
use core::ops::Range;
use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

/// Where the bytes of a file are.
#[derive(Clone, Copy)]
pub(super) enum Place<'b> {
    Memory(&'b [u8]),
    /// A file and its length.
    File(&'b File, usize),
}

impl<'b> Place<'b> {
    /// Returns the length of the file.
    pub(super) const fn len(self) -> usize {
        match self {
            Self::Memory(bytes) => bytes.len(),
            Self::File(_, len) => len,
        }
    }

    /// Returns the bytes of a range; those behind the end of the file are missing.
    pub(super) fn range(self, range: Range<usize>) -> io::Result<Cow<'b, [u8]>> {
        let range = range.start.min(self.len())..range.end.min(self.len());
        match self {
            Self::Memory(bytes) => Ok(Cow::Borrowed(bytes.get(range).unwrap_or_default())),
            Self::File(file, _) => {
                let mut bytes = Vec::new();
                append(file, range, &mut bytes)?;
                Ok(Cow::Owned(bytes))
            }
        }
    }

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

/// Reads a range of a file.
fn append(mut file: &File, range: Range<usize>, to: &mut Vec<u8>) -> io::Result<()> {
    file.seek(SeekFrom::Start(range.start as u64))?;
    let read = file.take(range.len() as u64).read_to_end(to)?;
    if read < range.len() {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file has become shorter"));
    }
    Ok(())
}

/// So much of the records is in memory: more than the longest one.
const WINDOW: usize = 1 << 18;

//! [`FileBytes`]: the bytes of a file, in memory or not.
//!
//! A short file is read as a whole, a long one by parts.

use core::ops::Range;
use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

/// Opens a file that is read by parts; also returns its length. `None` if no address reaches its
/// end.
pub(crate) fn open(path: &Path) -> io::Result<Option<(File, usize)>> {
    let file = File::open(path)?;
    let len = file.metadata()?.len();
    Ok(usize::try_from(len).ok().map(|len| (file, len)))
}

/// Where the bytes of a file are.
#[derive(Clone, Copy)]
pub(crate) enum FileBytes<'b> {
    Memory(&'b [u8]),
    /// A file and its length.
    File(&'b File, usize),
}

impl<'b> FileBytes<'b> {
    /// Returns the length of the file.
    pub(crate) const fn len(self) -> usize {
        match self {
            Self::Memory(bytes) => bytes.len(),
            Self::File(_, len) => len,
        }
    }

    /// Returns the bytes of a range; those behind the end of the file are missing.
    pub(crate) fn range(self, range: Range<usize>) -> io::Result<Cow<'b, [u8]>> {
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
}

/// Reads a range of a file.
pub(crate) fn append(mut file: &File, range: Range<usize>, to: &mut Vec<u8>) -> io::Result<()> {
    file.seek(SeekFrom::Start(range.start as u64))?;
    let read = file.take(range.len() as u64).read_to_end(to)?;
    if read < range.len() {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file has become shorter"));
    }
    Ok(())
}

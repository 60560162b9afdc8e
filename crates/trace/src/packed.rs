//! Unpacks compressed traces: xz, gzip and zstd archives.
//!
//! Recordings are text of high redundancy and are stored compressed. The decoders are written in
//! Rust and need nothing of the host. The unpacked size is bounded where it is kept, by the packed
//! size and as a whole, so that a small hostile archive cannot fill the memory. Without the feature
//! `recordings` an archive is refused by name.

use crate::error::ReadError;
#[cfg(feature = "recordings")]
use ruzstd::decoding::{FrameDecoder, StreamingDecoder};
use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

/// The most bytes that an archive may unpack to, if they are kept.
const UNPACKED_MAX: u64 = 4 << 30;
/// The most for each packed byte: traces get 10 to 200 times smaller, zeros at most 1032 times by
/// gzip. A small archive may unpack to more.
const RATIO_MAX: u64 = 1024;
const SMALL: u64 = 64 << 20;

/// Returns the unpacked bytes of an archive, which is recognised by its first bytes; other bytes
/// unchanged. An archive within an archive is not unpacked.
pub(crate) fn unpack(bytes: &[u8]) -> Result<Cow<'_, [u8]>, ReadError> {
    match Archive::of(bytes)? {
        Some(archive) => archive.read_all(bytes).map(Cow::Owned),
        None => Ok(Cow::Borrowed(bytes)),
    }
}

/// Returns whether bytes are an archive, by the first of them.
pub(crate) fn is_archive(bytes: &[u8]) -> bool {
    Archive::ALL.into_iter().any(|archive| bytes.starts_with(archive.known().0))
}

/// Returns the first bytes, unpacked; `None` if they cannot be unpacked.
pub(crate) fn unpack_some(bytes: &[u8], most: usize) -> Option<Cow<'_, [u8]>> {
    match Archive::of(bytes).ok()? {
        Some(archive) => {
            let mut head = Vec::new();
            // The rest can be damaged or cut off.
            let _ = archive.reader(bytes).ok()?.take(most as u64).read_to_end(&mut head);
            Some(Cow::Owned(head))
        }
        None => Some(Cow::Borrowed(&bytes[..bytes.len().min(most)])),
    }
}

/// A file that is read from its beginning any number of times, unpacked if it is an archive.
pub(crate) struct Input<'f> {
    path: &'f Path,
    archive: Option<Archive>,
}

impl<'f> Input<'f> {
    /// Looks at the beginning of a file.
    ///
    /// # Errors
    /// The file cannot be read, or it is an archive that this program cannot unpack.
    pub(crate) fn new(path: &'f Path) -> Result<Self, ReadError> {
        let mut head = Vec::new();
        File::open(path)?.take(8).read_to_end(&mut head)?;
        Ok(Self { path, archive: Archive::of(&head)? })
    }

    /// Returns the path of a file that is no archive.
    pub(crate) fn plain(&self) -> Option<&'f Path> {
        self.archive.is_none().then_some(self.path)
    }

    /// Returns the length of the file; `None` if it is an archive.
    #[cfg(feature = "recordings")]
    pub(crate) fn len(&self) -> io::Result<Option<usize>> {
        let Some(path) = self.plain() else { return Ok(None) };
        Ok(usize::try_from(std::fs::metadata(path)?.len()).ok())
    }

    /// Opens the file, or the contents of the archive.
    pub(crate) fn open(&self) -> io::Result<Box<dyn Read>> {
        let file = File::open(self.path)?;
        match self.archive {
            Some(archive) => archive.reader(BufReader::with_capacity(1 << 16, file)),
            None => Ok(Box::new(file)),
        }
    }

    /// Reads an archive to its end.
    ///
    /// # Errors
    /// It is damaged.
    pub(crate) fn check(&self) -> io::Result<()> {
        if self.archive.is_some() {
            io::copy(&mut self.open()?, &mut io::sink())?;
        }
        Ok(())
    }
}

/// A kind of archive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Archive {
    Xz,
    Gzip,
    Zstd,
}

impl Archive {
    const ALL: [Self; 3] = [Self::Xz, Self::Gzip, Self::Zstd];

    /// Returns its first bytes, and its name in sentences.
    const fn known(self) -> (&'static [u8], &'static str) {
        match self {
            Self::Xz => (b"\xfd7zXZ\0", "an xz archive"),
            Self::Gzip => (b"\x1f\x8b", "a gzip archive"),
            Self::Zstd => (b"\x28\xb5\x2f\xfd", "a zstd archive"),
        }
    }

    /// Returns the kind of an archive by its first bytes. Without the feature `recordings` it is
    /// refused: its decoder is not part of the program.
    fn of(bytes: &[u8]) -> Result<Option<Self>, ReadError> {
        let found = Self::ALL.into_iter().find(|archive| bytes.starts_with(archive.known().0));
        #[cfg(not(feature = "recordings"))]
        if let Some(archive) = found {
            return Err(ReadError::Foreign { format: archive.known().1, hint: crate::formats::WITHOUT_RECORDINGS });
        }
        Ok(found)
    }

    /// Returns the contents. Reading them fails if the archive is damaged.
    fn reader<'a>(self, packed: impl Read + 'a) -> io::Result<Box<dyn Read + 'a>> {
        let unpacked = decoder(self, packed).map_err(|error| self.damaged(&error))?;
        Ok(Box::new(Contents { archive: self, unpacked }))
    }

    fn read_all(self, packed: &[u8]) -> Result<Vec<u8>, ReadError> {
        let mut unpacked = Vec::new();
        let most = (packed.len() as u64).saturating_mul(RATIO_MAX).clamp(SMALL, UNPACKED_MAX);
        self.reader(packed)?.take(most + 1).read_to_end(&mut unpacked)?;
        if unpacked.len() as u64 > most {
            let reason = format_args!("its {} bytes unpack to more than {} MiB", packed.len(), most >> 20);
            return Err(ReadError::Io(self.damaged(&reason)));
        }
        Ok(unpacked)
    }

    fn damaged(self, error: &dyn core::fmt::Display) -> io::Error {
        let reason = format!("this is {} that cannot be unpacked: {error}", self.known().1);
        io::Error::new(io::ErrorKind::InvalidData, reason)
    }
}

#[cfg(feature = "recordings")]
fn decoder<'a>(archive: Archive, packed: impl Read + 'a) -> io::Result<Box<dyn Read + 'a>> {
    Ok(match archive {
        Archive::Xz => Box::new(lzma_rust2::XzReader::new(packed, true)),
        Archive::Gzip => Box::new(flate2::read::MultiGzDecoder::new(packed)),
        Archive::Zstd => Box::new(Frames { frame: Frame::next(packed)? }),
    })
}

/// The contents of a zstd archive: its frames, of which its decoder reads one. An archive that was
/// packed in parts has several, and some of them have no contents (*skippable frames*).
#[cfg(feature = "recordings")]
struct Frames<R: Read> {
    frame: Option<Frame<R>>,
}

/// A frame, whose first bytes have been read.
#[cfg(feature = "recordings")]
struct Frame<R: Read>(StreamingDecoder<io::Chain<io::Cursor<[u8; 4]>, R>, FrameDecoder>);

#[cfg(feature = "recordings")]
impl<R: Read> Frame<R> {
    /// Begins the next frame with contents; `None` at the end.
    fn next(mut packed: R) -> io::Result<Option<Self>> {
        const SKIPPABLE: core::ops::RangeInclusive<u32> = 0x184d_2a50..=0x184d_2a5f;
        loop {
            let mut begin = Vec::new();
            packed.by_ref().take(4).read_to_end(&mut begin)?;
            if begin.is_empty() {
                return Ok(None);
            }
            let begin: [u8; 4] = begin.try_into().map_err(|_| io::ErrorKind::UnexpectedEof)?;
            if !SKIPPABLE.contains(&u32::from_le_bytes(begin)) {
                let frame = StreamingDecoder::new(io::Cursor::new(begin).chain(packed));
                return frame.map(|frame| Some(Self(frame))).map_err(io::Error::other);
            }
            let mut length = [0; 4];
            packed.read_exact(&mut length)?;
            let length = u32::from_le_bytes(length).into();
            if io::copy(&mut packed.by_ref().take(length), &mut io::sink())? < length {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

#[cfg(feature = "recordings")]
impl<R: Read> Read for Frames<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        while let Some(Frame(frame)) = &mut self.frame {
            match frame.read(bytes)? {
                0 if !bytes.is_empty() => {}
                count => return Ok(count),
            }
            let Some(Frame(ended)) = self.frame.take() else { break };
            self.frame = Frame::next(ended.into_inner().into_inner().1)?;
        }
        Ok(0)
    }
}

#[cfg(not(feature = "recordings"))]
fn decoder<'a>(_: Archive, packed: impl Read + 'a) -> io::Result<Box<dyn Read + 'a>> {
    Ok(Box::new(packed))
}

/// The contents of an archive. An error of reading says of what.
struct Contents<'a> {
    archive: Archive,
    unpacked: Box<dyn Read + 'a>,
}

impl Read for Contents<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.unpacked.read(bytes).map_err(|error| match error.kind() {
            io::ErrorKind::Interrupted => error,
            _ => self.archive.damaged(&error),
        })
    }
}

#[cfg(test)]
#[cfg(feature = "recordings")]
mod tests {
    use super::*;

    #[test]
    fn archives_are_unpacked_and_damage_is_named() {
        // "hello\n", packed by xz, gzip and zstd.
        let xz: &[u8] = include_bytes!("../tests/data/hello.xz");
        let gz: &[u8] = include_bytes!("../tests/data/hello.gz");
        let zst: &[u8] = include_bytes!("../tests/data/hello.zst");
        for archive in [xz, gz, zst] {
            assert_eq!(&*unpack(archive).expect("a whole archive"), b"hello\n");
            let cut = unpack(&archive[..archive.len() - 9]).expect_err("its end is missing").to_string();
            assert!(cut.contains("cannot be unpacked"), "{cut}");
        }
        assert_eq!(&*unpack(b"plain").expect("no archive"), b"plain");
    }

    #[test]
    fn archives_that_were_packed_in_parts_are_read_to_their_end() {
        let xz: &[u8] = include_bytes!("../tests/data/hello.xz");
        let gz: &[u8] = include_bytes!("../tests/data/hello.gz");
        let zst: &[u8] = include_bytes!("../tests/data/hello.zst");
        for archive in [xz, gz, zst] {
            assert_eq!(&*unpack(&archive.repeat(3)).expect("an archive"), b"hello\nhello\nhello\n");
            assert!(unpack(&[archive, &archive[..9]].concat()).is_err());
        }
        // With a frame that has no contents.
        let skipped = [b"\x50\x2a\x4d\x18\x03\0\0\0abc", zst].concat();
        assert_eq!(&*unpack(&[zst, &skipped].concat()).expect("an archive"), b"hello\nhello\n");
        assert!(unpack(&[zst, &skipped[..10]].concat()).is_err());
    }
}

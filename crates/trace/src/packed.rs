//! Unpacks compressed traces: xz, gzip and zstd archives.
//!
//! Recordings are text of high redundancy and are stored compressed. The decoders are written in
//! Rust and need nothing of the host. The unpacked size is bounded, so that a small hostile archive
//! cannot fill the memory. Without the feature `recordings` an archive is refused by name.

use crate::error::ReadError;
use std::borrow::Cow;
use std::io::Read;

/// The most bytes that an archive may unpack to.
const UNPACKED_MAX: u64 = 4 << 30;

/// Returns the unpacked bytes of an archive, which is recognised by its first bytes; other bytes
/// unchanged. An archive within an archive is not unpacked.
pub(crate) fn unpack(bytes: &[u8]) -> Result<Cow<'_, [u8]>, ReadError> {
    match reader(bytes)? {
        Some((what, reader)) => read_all(reader, what).map(Cow::Owned),
        None => Ok(Cow::Borrowed(bytes)),
    }
}

/// Returns the first bytes, unpacked; `None` if they cannot be unpacked.
pub(crate) fn unpack_some(bytes: &[u8], most: usize) -> Option<Cow<'_, [u8]>> {
    match reader(bytes).ok()? {
        Some((_, reader)) => {
            let mut head = Vec::new();
            // The rest can be damaged or cut off.
            let _ = reader.take(most as u64).read_to_end(&mut head);
            Some(Cow::Owned(head))
        }
        None => Some(Cow::Borrowed(&bytes[..bytes.len().min(most)])),
    }
}

/// The name of an archive and its contents.
type Archive<'a> = (&'static str, Box<dyn Read + 'a>);

#[cfg(feature = "recordings")]
fn reader(bytes: &[u8]) -> Result<Option<Archive<'_>>, ReadError> {
    if bytes.starts_with(b"\xfd7zXZ\0") {
        return Ok(Some(("an xz archive", Box::new(lzma_rust2::XzReader::new(bytes, true)))));
    }
    if bytes.starts_with(b"\x1f\x8b") {
        return Ok(Some(("a gzip archive", Box::new(flate2::read::MultiGzDecoder::new(bytes)))));
    }
    if bytes.starts_with(b"\x28\xb5\x2f\xfd") {
        let reader = ruzstd::decoding::StreamingDecoder::new(bytes);
        let reader = reader.map_err(|error| damaged("a zstd archive", &error))?;
        return Ok(Some(("a zstd archive", Box::new(reader))));
    }
    Ok(None)
}

/// Refuses archives by their first bytes: their decoders are not part of this program.
#[cfg(not(feature = "recordings"))]
fn reader(bytes: &[u8]) -> Result<Option<Archive<'_>>, ReadError> {
    let known: [(&[u8], &'static str); 3] =
        [(b"\xfd7zXZ\0", "an xz archive"), (b"\x1f\x8b", "a gzip archive"), (b"\x28\xb5\x2f\xfd", "a zstd archive")];
    match known.iter().find(|(magic, _)| bytes.starts_with(magic)) {
        Some((_, format)) => Err(ReadError::Foreign { format, hint: crate::open::WITHOUT_RECORDINGS }),
        None => Ok(None),
    }
}

fn read_all(reader: impl Read, what: &str) -> Result<Vec<u8>, ReadError> {
    let mut unpacked = Vec::new();
    reader.take(UNPACKED_MAX + 1).read_to_end(&mut unpacked).map_err(|error| damaged(what, &error))?;
    if unpacked.len() as u64 > UNPACKED_MAX {
        return Err(damaged(what, &format_args!("it unpacks to more than {} GiB", UNPACKED_MAX >> 30)));
    }
    Ok(unpacked)
}

fn damaged(what: &str, error: &dyn std::fmt::Display) -> ReadError {
    let reason = format!("this is {what} that cannot be unpacked: {error}");
    ReadError::Io(std::io::Error::new(std::io::ErrorKind::InvalidData, reason))
}

#[cfg(all(test, feature = "recordings"))]
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
}

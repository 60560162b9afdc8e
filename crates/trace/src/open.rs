//! Recognises formats: from bytes of any known format to a [`Trace`], and back to our own format.

use crate::container::Trace;
use crate::error::ReadError;
use crate::ftrace;
use crate::packed;
use crate::zlt::{self, TraceReader, TraceWriter};
use std::borrow::Cow;
use std::io::Write;
use std::path::Path;

impl Trace {
    /// Reads a trace in any known format, packed (xz, gzip, zstd) or not.
    ///
    /// # Errors
    /// The format is foreign, or the trace is damaged, cut off or malformed.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ReadError> {
        let bytes = &*packed::unpack(bytes)?;
        if bytes.starts_with(&zlt::MAGIC) {
            return TraceReader::new(bytes)?.read_all();
        }
        if let Some((_, format, hint)) = FOREIGN.iter().find(|(magic, ..)| bytes.starts_with(magic)) {
            return Err(ReadError::Foreign { format, hint });
        }
        ftrace::read(&String::from_utf8_lossy(bytes))
    }

    /// Returns bytes as they are, or unpacked if they are an xz, gzip or zstd archive.
    ///
    /// # Errors
    /// The archive is damaged, or unpacks to more than 4 GiB.
    pub fn unpack(bytes: &[u8]) -> Result<Cow<'_, [u8]>, ReadError> {
        packed::unpack(bytes)
    }

    /// Writes the trace in our own binary format.
    ///
    /// # Errors
    /// The error of the output.
    pub fn write(&self, out: impl Write) -> std::io::Result<()> {
        let mut writer = TraceWriter::new(out, &self.meta)?;
        for record in &self.records {
            writer.push(record)?;
        }
        writer.finish(self.meta.end, self.meta.lost_events).map(drop)
    }
}

/// Opens a trace file of any known format.
///
/// # Errors
/// The file cannot be read, its format is foreign, or the trace is damaged, cut off or malformed.
pub fn open(path: &Path) -> Result<Trace, ReadError> {
    Trace::from_bytes(&std::fs::read(path)?)
}

/// Formats that are common but not supported: first bytes, name, advice.
const FOREIGN: [(&[u8], &str, &str); 4] = [
    (b"PERFILE2", "perf.data", "convert it with `perf script --ns -F comm,tid,cpu,time,event,trace`"),
    (b"\x17\x08\x44tracing", "trace.dat of trace-cmd", "convert it with `trace-cmd report -t -R`"),
    (b"{", "JSON", "export the trace as ftrace text"),
    (b"\x7fELF", "a program", "a trace is wanted"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_formats_are_named_with_the_way_out() {
        let refused = |bytes: &[u8]| Trace::from_bytes(bytes).unwrap_err().to_string();
        assert!(refused(b"PERFILE2....").starts_with("this is perf.data; convert it with `perf script --ns"));
        assert!(refused(b"\x17\x08\x44tracing7").contains("trace-cmd report -t -R"));
        assert_eq!(
            refused(b""),
            "no scheduler event found; known are tracefs `trace`, `perf script`, `trace-cmd report`"
        );
        assert!(open(Path::new("does/not/exist")).is_err());
    }
}

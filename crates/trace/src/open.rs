//! Recognises formats: from bytes of any known format to a [`Trace`], and back to our own format.
//!
//! A format is a variant of [`Format`], and a file with its reader.

use crate::container::Trace;
use crate::error::ReadError;
use crate::formats::Format;
#[cfg(not(feature = "recordings"))]
use crate::formats::WITHOUT_RECORDINGS;
use crate::ftrace;
use crate::kernel::stream::{Each, Keep, Way};
use crate::meta::Meta;
use crate::packed::{self, Input};
use crate::text::{HEAD, as_text, escaped, text_head};
use crate::tool_output::tool_output;
use crate::zlt::{self, TraceReader, TraceWriter};
#[cfg(feature = "recordings")]
use crate::{perf_data, perfetto, trace_dat};
use std::borrow::Cow;
use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::path::Path;
use zerolag_model::Record;

impl Format {
    /// Returns the format of a file that begins so.
    fn of(head: &[u8]) -> Option<Self> {
        Self::ALL.iter().copied().find(|format| format.begins(head))
    }

    /// Returns whether a file that begins so has this format.
    fn begins(self, head: &[u8]) -> bool {
        match self {
            Self::Zlt => head.starts_with(&zlt::MAGIC),
            #[cfg(feature = "recordings")]
            Self::PerfData => perf_data::is(head),
            #[cfg(feature = "recordings")]
            Self::TraceDat => trace_dat::is(head),
            #[cfg(feature = "recordings")]
            Self::SchedViz => trace_dat::schedviz::is(head),
            Self::Page => text_head(head).is_some_and(|text| ftrace::html::is_page(&text)),
            Self::Text => text_head(head).is_some_and(|text| ftrace::is_trace(&text)),
            #[cfg(feature = "recordings")]
            Self::Perfetto => perfetto::reader::is(head),
        }
    }

    fn read(self, bytes: &[u8]) -> Result<Trace, ReadError> {
        match self {
            Self::Zlt => TraceReader::new(bytes)?.read_all(),
            #[cfg(feature = "recordings")]
            Self::PerfData => perf_data::read(bytes),
            #[cfg(feature = "recordings")]
            Self::TraceDat => trace_dat::read(bytes),
            #[cfg(feature = "recordings")]
            Self::SchedViz => trace_dat::read_schedviz(bytes),
            Self::Page => match ftrace::html::text_of(&as_text(bytes)) {
                Some(text) => ftrace::read(&text),
                None => Err(ReadError::Foreign {
                    format: "an HTML page",
                    hint: "it has no text of ftrace in it, as those of systrace have",
                }),
            },
            Self::Text => ftrace::read(&as_text(bytes)),
            #[cfg(feature = "recordings")]
            Self::Perfetto => perfetto::reader::read(bytes),
        }
    }
}

/// Formats that are common but not supported: first bytes, name, advice.
const FOREIGN: &[(&[u8], &str, &str)] = &[
    #[cfg(not(feature = "recordings"))]
    (b"PERFILE2", "perf.data", WITHOUT_RECORDINGS),
    #[cfg(not(feature = "recordings"))]
    (b"\x17\x08\x44tracing", "trace.dat of trace-cmd", WITHOUT_RECORDINGS),
    (b"{", "JSON", "export the trace as ftrace text"),
    (b"\x7fELF", "a program", "a trace is wanted"),
];

/// Returns the error of a file that begins so and has no known format.
fn not_known(head: &[u8]) -> ReadError {
    foreign(head).unwrap_or_else(|| ReadError::Unknown { begins: escaped(head) })
}

fn foreign(head: &[u8]) -> Option<ReadError> {
    if let Some((_, format, hint)) = FOREIGN.iter().find(|(magic, ..)| head.starts_with(magic)) {
        return Some(ReadError::Foreign { format, hint });
    }
    if head.get(257..262) == Some(b"ustar") {
        return Some(ReadError::Foreign { format: "a tar archive", hint: "unpack it, and give the trace in it" });
    }
    let tool = tool_output(&text_head(head)?)?;
    Some(ReadError::Foreign { format: tool.what, hint: tool.advice })
}

/// Returns whether bytes are a trace of a known format, packed or not. Only the beginning is
/// looked at, so the rest can be damaged.
#[must_use]
pub fn is_trace(bytes: &[u8]) -> bool {
    packed::unpack_some(bytes, HEAD).is_some_and(|bytes| Format::of(&bytes).is_some())
}

impl Trace {
    /// Reads a trace in any known format, packed (xz, gzip, zstd) or not.
    ///
    /// # Errors
    /// The format is foreign or unknown, or the trace is damaged, cut off or malformed.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ReadError> {
        // Of an archive of anything else not more is unpacked than tells so.
        if packed::is_archive(bytes)
            && let Some(head) = packed::unpack_some(bytes, HEAD)
            && Format::of(&head).is_none()
            && text_head(&head).is_none_or(|text| ftrace::is_other_text(&text))
        {
            return Err(not_known(&head));
        }
        let bytes = &*packed::unpack(bytes)?;
        if let Some(format) = Format::of(bytes) {
            return format.read(bytes);
        }
        match text_head(bytes) {
            // It has no line of a trace at its beginning, but can have one later.
            Some(_) if foreign(bytes).is_none() => ftrace::read(&as_text(bytes)),
            Some(_) | None => Err(not_known(bytes)),
        }
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
/// The file cannot be read, its format is foreign or unknown, or the trace is damaged, cut off or
/// malformed.
pub fn open(path: &Path) -> Result<Trace, ReadError> {
    // The events are in memory, and not the file, if its format and order allow it.
    match read_in(path, Keep)? {
        Some(trace) => Ok(trace),
        None => Trace::from_bytes(&std::fs::read(path)?),
    }
}

/// Opens a trace file of our own format to be read record by record, in the memory of one block;
/// `None` if it has another format, or is no regular file. The other formats cannot be read so: a
/// gap, a name or a priority is known only from later events, and what they do to earlier ones.
/// [`stream_recording`] reads some of them three times instead.
///
/// # Errors
/// The file cannot be read, or its head is damaged or of a later version.
pub fn stream(path: &Path) -> Result<Option<TraceReader<BufReader<File>>>, ReadError> {
    let mut head = [0; zlt::MAGIC.len()];
    if !path.is_file() || File::open(path)?.read_exact(&mut head).is_err() || head != zlt::MAGIC {
        return Ok(None);
    }
    TraceReader::new(BufReader::new(File::open(path)?)).map(Some)
}

/// Reads a recording two or three times, record by record: its memory grows with the numbers of
/// tasks, their names and gaps, and not with the length. `start` gets the description of the run,
/// and what it makes of it gets each record. Both are returned; `None` if the file cannot be read
/// so and has to be [opened](open()):
///
/// * Only text of tracefs, `perf script` and `trace-cmd report`, `perf.data`, `trace.dat` and
///   Perfetto's traces are read so; these once more, and in any order of their packets.
/// * It is no regular file, it has packed records (`perf record -z`), or it is an archive of
///   `perf.data` or `trace.dat`; those of text and Perfetto's traces are unpacked at each reading.
/// * Its events are not in order of time; those of `perf.data` need not be within two rounds, and
///   those of `trace.dat` only need to be per CPU.
///
/// # Errors
/// As [`open`].
pub fn stream_recording<T>(
    path: &Path,
    start: impl FnOnce(&Meta) -> T,
    each: impl FnMut(&mut T, &Record),
) -> Result<Option<(T, Meta)>, ReadError> {
    read_in(path, Each(start, each))
}

/// Reads a recording in a way; `None` if it has to be read as a whole.
fn read_in<W: Way>(path: &Path, way: W) -> Result<Option<W::Done>, ReadError> {
    if !path.is_file() {
        return Ok(None);
    }
    let (input, mut head) = (Input::new(path)?, Vec::new());
    // What an archive unpacks to is bounded where it is kept.
    if W::IS_ONCE && input.plain().is_none() {
        return Ok(None);
    }
    input.open()?.take(HEAD as u64).read_to_end(&mut head)?;
    let read = match (Format::of(&head), input.plain()) {
        (Some(Format::Text), _) => ftrace::each(&input, way),
        #[cfg(feature = "recordings")]
        (Some(Format::PerfData), Some(path)) => perf_data::each(path, way),
        // To keep their events takes longer so than with the file in memory.
        _ if W::IS_ONCE => Ok(None),
        #[cfg(feature = "recordings")]
        (Some(Format::Perfetto), _) => perfetto::stream::each(&input, way),
        #[cfg(feature = "recordings")]
        (Some(Format::TraceDat), Some(path)) => trace_dat::each(path, way),
        _ => Ok(None),
    };
    // Of a damaged archive nothing is said about its contents.
    if read.is_err() {
        input.check()?;
    }
    read
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(bytes: &[u8]) -> String {
        Trace::from_bytes(bytes).unwrap_err().to_string()
    }

    #[test]
    fn foreign_formats_are_named_with_the_way_out() {
        let line = "T: 0 ( 1234) P:80 I:1000 C:  10000 Min:      2 Act:    3 Avg:    3 Max:      20\n";
        assert!(refused(line.as_bytes()).starts_with("this is the output of cyclictest; it has latencies, and not"));
        let mut tar = vec![0; 1024];
        tar[257..262].copy_from_slice(b"ustar");
        assert!(refused(&tar).contains("this is a tar archive; unpack it"), "{}", refused(&tar));
        assert!(refused(b"\x7fELF").contains("this is a program"));
        assert!(open(Path::new("does/not/exist")).is_err());
        assert!(refused(b"").starts_with("this is no trace; it begins with ``. Known are zerolag's own"));
    }

    #[test]
    fn garbage_is_one_error_without_control_bytes() {
        let mut binary: Vec<u8> = (0..=255).cycle().take(10_000).collect();
        binary[0] = 0x1b;
        let text = "\x1b]0;title\x07 hello\n".repeat(5000);
        for garbage in [binary, text.into_bytes()] {
            let error = refused(&garbage);
            assert!(error.starts_with("this is no trace"), "{error}");
            assert!(error.lines().count() == 1 && !error.chars().any(char::is_control), "{error}");
        }
    }

    #[test]
    #[cfg(not(feature = "recordings"))]
    fn a_program_without_the_readers_names_the_format_and_the_feature() {
        for archive in [
            &include_bytes!("../tests/data/hello.xz")[..],
            b"\x1f\x8b",
            b"\x28\xb5\x2f\xfd",
            b"PERFILE2",
            b"\x17\x08\x44tracing7\0",
        ] {
            let error = refused(archive);
            assert!(
                error.contains("recordings")
                    && ["archive", "perf.data", "trace.dat"].iter().any(|what| error.contains(what)),
                "{error}"
            );
        }
    }

    #[test]
    #[cfg(feature = "recordings")]
    fn an_archive_of_something_else_is_not_unpacked_as_a_whole() {
        let packed = |write: &dyn Fn(&mut dyn Write)| {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            write(&mut encoder);
            encoder.finish().expect("memory takes it")
        };
        let mut zeros = packed(&|to| (0..64).for_each(|_| to.write_all(&[0; 1 << 14]).expect("memory takes it")));
        // Nothing behind the first block is read: not that it is damaged.
        let end = zeros.len();
        zeros[end - 8..].fill(0xff);
        assert!(refused(&zeros).starts_with("this is no trace; it begins with `\\x00"), "{}", refused(&zeros));
        let mut words = packed(&|to| (0..9000).for_each(|_| to.write_all(b"hello, this is a text\n").expect("memory")));
        let end = words.len();
        words[end - 8..].fill(0xff);
        assert!(refused(&words).starts_with("this is no trace; it begins with `hello"), "{}", refused(&words));
        let json = packed(&|to| to.write_all(&[b"{".as_slice(), &[b' '; 200_000]].concat()).expect("memory takes it"));
        assert!(refused(&json).contains("this is JSON"), "{}", refused(&json));
    }

    #[test]
    fn pages_of_systrace_are_read() {
        let switch = "a-1 [000] d..2. 1.5: sched_switch: prev_comm=a prev_pid=1 prev_prio=120 prev_state=S ==> next_comm=b next_pid=2 next_prio=120";
        let page = |text: &str| {
            format!("<!DOCTYPE html>\n<body>\n<script class=\"trace-data\" type=\"x\">\n{text}\n</script>")
        };
        let trace = Trace::from_bytes(page(&format!("# tracer: nop\n{switch}")).as_bytes()).expect("a trace");
        assert_eq!(trace.meta.recorded.threads.len(), 2);
        assert!(refused(page("PROCESS DUMP").as_bytes()).contains("this is an HTML page"));
    }

    #[test]
    fn a_stream_has_the_same_records_and_meta() {
        let path = |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name);
        let whole = open(&path("every-kind.zlt")).expect("a trace");
        let mut records = stream(&path("every-kind.zlt")).expect("a trace").expect("our own format");
        let streamed: Vec<_> = (&mut records).map(|record| record.expect("whole")).collect();
        assert_eq!((streamed, records.meta()), (whole.records, &whole.meta));
        assert!(stream(&path("every-kind.txt")).is_ok_and(|other| other.is_none()));
        assert!(stream(&path("does-not-exist")).is_ok_and(|other| other.is_none()));
        assert!(stream(&path("")).is_ok_and(|other| other.is_none()));
    }

    #[test]
    fn a_trace_is_recognised_without_being_read() {
        assert!(is_trace(include_bytes!("../tests/data/version-1.zlt")));
        #[cfg(feature = "recordings")]
        assert!(is_trace(include_bytes!("../tests/data/mixed-2cpu.perf.txt.gz")));
        assert!(is_trace(b"# tracer: nop\n#\n"));
        assert!(!is_trace(b"[[task]]\nname = \"a\"\n"));
        // A remark of trace-cmd, and a key of a workload.
        assert!(is_trace(b"cpus=4\n") && is_trace(b"version = 6\ncpus=4\n"));
        assert!(!is_trace(b"[machine]\ncpus=4\n[task.a]\nsteps=[{run=\"1s\"}]\n"));
        assert!(!is_trace(b"cpus=4\n[task.a]\n"));
        assert!(!is_trace(b"{}"));
    }
}

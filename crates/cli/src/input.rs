//! Reads workloads from a file or the standard input, and traces.

use super::failure::{Failure, eprintln_lossy};
use std::io::{self, Read};
use std::path::Path;
use std::sync::OnceLock;
use zerolag::Workload;
use zerolag::advise::samples::are_samples;
use zerolag::trace::{Meta, Trace, is_trace, open, stream, stream_recording};
use zerolag::workload::input::INPUT_MAX;
use zerolag_model::Record;

/// The standard input, which can be read once only: a tool reads its workload before it is
/// simulated.
static STDIN: OnceLock<Vec<u8>> = OnceLock::new();

/// Returns whether a file is read as a workload, by its name, unless it is a trace all the same;
/// others are traces.
pub(crate) fn is_workload(path: &Path) -> bool {
    const NAMED: [&str; 6] = ["toml", "json", "csv", "xml", "yml", "yaml"];
    let is_named = path.extension().is_none_or(|ending| NAMED.iter().any(|named| ending == *named));
    is_named && (path == Path::new("-") || !head(path).is_ok_and(|head| is_trace(&head)))
}

/// Returns whether a file holds counters of a limit. Scenarios can name counters in their goals.
pub(crate) fn is_counters(path: &Path, head: &[u8]) -> bool {
    path.extension().is_none_or(|ending| ending != "toml") && are_samples(head)
}

/// Returns the beginning of a file.
pub(crate) fn head(path: &Path) -> Result<Vec<u8>, Failure> {
    let mut head = Vec::new();
    let read = std::fs::File::open(path).and_then(|file| file.take(1 << 16).read_to_end(&mut head));
    read.map_err(|error| Failure::reading(path.display(), &error))?;
    Ok(head)
}

/// Returns the trace of a file, and says on stderr if it is cut off: what is missing is part of no
/// result.
pub(crate) fn trace(path: &Path) -> Result<Trace, Failure> {
    let trace = open(path).map_err(|error| Failure::trace(path, &error))?;
    say_dropped(path, &trace.meta);
    Ok(trace)
}

/// Passes the records of a trace to what `start` makes of its description; also returns the
/// description at the end. A long trace is not kept: if it is not of our own format it is read
/// several times instead, which takes longer. The number of lost events, and the end, are known at
/// the end only.
pub(crate) fn each_record<T>(
    path: &Path,
    start: impl Fn(&Meta) -> T,
    observe: impl Fn(&mut T, &Record),
) -> Result<(T, Meta), Failure> {
    let failed = |error| Failure::trace(path, &error);
    if let Some(mut records) = stream(path).map_err(failed)? {
        let mut to = start(records.meta());
        for record in &mut records {
            observe(&mut to, &record.map_err(failed)?);
        }
        return Ok((to, records.meta().clone()));
    }
    if is_long(path)
        && let Some(done) = stream_recording(path, &start, &observe).map_err(failed)?
    {
        return Ok(done);
    }
    let trace = open(path).map_err(failed)?;
    let mut to = start(&trace.meta);
    for record in &trace.records {
        observe(&mut to, record);
    }
    Ok((to, trace.meta))
}

/// Returns whether a trace is read once and kept: neither zerolag's own, nor a long recording.
pub(crate) fn is_kept(path: &Path) -> bool {
    !is_long(path) && stream(path).is_ok_and(|own| own.is_none())
}

/// Returns whether a recording is so long that it is read several times rather than kept.
fn is_long(path: &Path) -> bool {
    let length = std::fs::metadata(path).map_or(0, |file| file.len());
    let head = head(path).unwrap_or_default();
    let begins = |with: &[&[u8]]| with.iter().any(|with| head.starts_with(with));
    length
        >= match () {
            () if begins(&[b"PERFILE2"]) => STREAMED_PERF,
            // xz, gzip, zstd.
            () if begins(&[b"\xfd7zXZ\0", b"\x1f\x8b", b"\x28\xb5\x2f\xfd"]) => STREAMED_PACKED,
            // The field of a packet.
            () if begins(&[b"\n"]) => STREAMED_PERFETTO,
            () => STREAMED,
        }
}

/// The length of such a file: of text, of Perfetto's packets, which take no longer so, and of
/// `perf.data`, of which a million events, about 100 MB, are still read in the shortest time.
/// Packed text has about an eighth of its length.
const STREAMED: u64 = 64 << 20;
const STREAMED_PERFETTO: u64 = 4 << 20;
const STREAMED_PERF: u64 = 128 << 20;
const STREAMED_PACKED: u64 = 8 << 20;

/// Says on stderr what was left out of a trace: its end if it is cut off, and odd parts.
pub(crate) fn say_dropped(path: &Path, meta: &Meta) {
    let skipped = meta.recorded.skipped.iter().map(ToString::to_string);
    for note in meta.recorded.dropped.iter().cloned().chain(skipped) {
        eprintln_lossy(&format!("note: {}: {note}", path.display()));
    }
}

/// Returns the workload of a file, or of the standard input, up to the largest size of a workload.
pub(crate) fn workload(path: &Path) -> Result<Workload, Failure> {
    if path != Path::new("-") {
        return Ok(Workload::file(path).read()?);
    }
    let name = "<stdin>";
    let bytes = match STDIN.get() {
        Some(bytes) => bytes,
        None => {
            let mut bytes = Vec::new();
            let read = io::stdin().lock().take(INPUT_MAX as u64 + 1).read_to_end(&mut bytes);
            read.map_err(|error| Failure::reading(name, &error))?;
            STDIN.get_or_init(|| bytes)
        }
    };
    Ok(Workload::text(name, bytes))
}

//! Reads workloads from a file or the standard input, and traces.

use super::failure::{Failure, eprintln_lossy};
use std::io::{self, Read};
use std::path::Path;
use std::sync::OnceLock;
use zerolag::Workload;
use zerolag::advise::samples::are_samples;
use zerolag::trace::{Trace, is_trace, open};
use zerolag::workload::input::INPUT_MAX;

/// The standard input, which can be read once only: a tool reads its workload before it is
/// simulated.
static STDIN: OnceLock<Vec<u8>> = OnceLock::new();

/// Returns whether a file is read as a workload, by its name, unless it is a trace all the same;
/// others are traces.
pub(crate) fn is_workload(path: &Path) -> bool {
    let is_named = path.extension().is_none_or(|ending| ending == "toml" || ending == "json" || ending == "csv");
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
    if let Some(dropped) = &trace.meta.recorded.dropped {
        say_dropped(path, dropped);
    }
    Ok(trace)
}

/// Says on stderr what was left out of a trace that is cut off.
pub(crate) fn say_dropped(path: &Path, dropped: &str) {
    eprintln_lossy(&format!("note: {}: {dropped}", path.display()));
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

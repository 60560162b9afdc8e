//! Reads workloads from a file or the standard input, and traces.

use super::failure::{Failure, eprintln_lossy};
use std::io::{self, Read};
use std::path::Path;
use std::sync::OnceLock;
use zerolag::Workload;
use zerolag::trace::{Trace, open};
use zerolag::workload::input::INPUT_MAX;

/// The standard input, which can be read once only: a tool reads its workload before it is
/// simulated.
static STDIN: OnceLock<Vec<u8>> = OnceLock::new();

/// Returns whether a file is read as a workload, by its name; others are traces.
pub(crate) fn is_workload(path: &Path) -> bool {
    path.extension().is_none_or(|ending| ending == "toml" || ending == "json" || ending == "csv")
}

/// Returns the trace of a file, and says on stderr if it is cut off: what is missing is part of no
/// result.
pub(crate) fn trace(path: &Path) -> Result<Trace, Failure> {
    let trace = open(path).map_err(|error| Failure::trace(path, &error))?;
    if let Some(dropped) = &trace.meta.recorded.dropped {
        eprintln_lossy(&format!("note: {}: {dropped}", path.display()));
    }
    Ok(trace)
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

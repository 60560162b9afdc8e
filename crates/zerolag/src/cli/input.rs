//! Reads workloads from a file or the standard input.

use super::failure::Failure;
use std::io::{self, Read};
use std::path::Path;
use zerolag::workload;

/// Reads a file, or stdin, up to the largest size of a workload.
pub(crate) fn read(path: &Path) -> Result<(String, Vec<u8>), Failure> {
    let limit = workload::input::INPUT_MAX as u64 + 1;
    let mut bytes = Vec::new();
    let (name, done) = if path == Path::new("-") {
        ("<stdin>".to_owned(), io::stdin().lock().take(limit).read_to_end(&mut bytes))
    } else {
        let name = path.display().to_string();
        (name, std::fs::File::open(path).and_then(|file| file.take(limit).read_to_end(&mut bytes)))
    };
    done.map_err(|error| Failure::reading(&name, &error))?;
    Ok((name, bytes))
}

/// Reads an included file.
pub(crate) fn read_bytes(path: &Path) -> Result<Vec<u8>, String> {
    let limit = workload::scenario::SCENARIO_MAX as u64 + 1;
    let mut bytes = Vec::new();
    let done = std::fs::File::open(path).and_then(|file| file.take(limit).read_to_end(&mut bytes));
    done.map(|_| bytes).map_err(|error| super::failure::plain(&error))
}

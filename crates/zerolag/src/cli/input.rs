//! Reads workloads from a file or the standard input.

use super::failure::Failure;
use std::io::{self, Read};
use std::path::Path;
use std::sync::OnceLock;
use zerolag::workload;

/// The standard input, which can be read once only: a comparison loads its workload for each
/// variant.
static STDIN: OnceLock<Vec<u8>> = OnceLock::new();

/// Reads a file, or stdin, up to the largest size of a workload.
pub(crate) fn read(path: &Path) -> Result<(String, Vec<u8>), Failure> {
    let limit = workload::input::INPUT_MAX as u64 + 1;
    let all = |from: &mut dyn Read| {
        let mut bytes = Vec::new();
        from.take(limit).read_to_end(&mut bytes).map(|_| bytes)
    };
    let is_stdin = path == Path::new("-");
    let name = if is_stdin { "<stdin>".to_owned() } else { path.display().to_string() };
    let bytes = match STDIN.get().filter(|_| is_stdin) {
        Some(bytes) => Ok(bytes.clone()),
        None if is_stdin => all(&mut io::stdin().lock()).map(|bytes| STDIN.get_or_init(|| bytes).clone()),
        None => std::fs::File::open(path).and_then(|mut file| all(&mut file)),
    };
    match bytes {
        Ok(bytes) if zerolag::trace::is_trace(&bytes) => Err(Failure::input_help(
            format!("`{name}` is a trace, not a workload"),
            format!("its figures: `zerolag report {name}`; a workload of it: `zerolag import {name} -o FILE.toml`"),
        )),
        Ok(bytes) => Ok((name, bytes)),
        Err(error) => Err(Failure::reading(&name, &error)),
    }
}

/// Reads an included file.
pub(crate) fn read_bytes(path: &Path) -> Result<Vec<u8>, String> {
    let limit = workload::scenario::SCENARIO_MAX as u64 + 1;
    let mut bytes = Vec::new();
    let done = std::fs::File::open(path).and_then(|file| file.take(limit).read_to_end(&mut bytes));
    done.map(|_| bytes).map_err(|error| super::failure::plain(&error))
}

//! Where results go: stdout, which may be a closed pipe, and files, which appear whole or not at all.

use super::failure::Failure;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use zerolag::trace::write_atomically;

/// Prints to stdout.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| stdout_failure(&error))
}

/// Returns what a failed write to stdout means.
fn stdout_failure(error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::PipeClosed,
        _ => Failure::Failed(format!("cannot write to the standard output: {error}")),
    }
}

/// Writes a file aside and renames it.
pub(crate) fn write_file<T>(
    path: &Path,
    body: impl FnOnce(&mut BufWriter<std::fs::File>) -> io::Result<T>,
) -> Result<T, Failure> {
    let mut value = None;
    write_atomically(path, |out| {
        value = Some(body(out)?);
        Ok(())
    })
    .map_err(|error| Failure::writing(path, &error))?;
    Ok(value.expect("invariant: the body succeeded"))
}

/// Refuses early what could not be written in the end.
pub(crate) fn check_target(path: &Path) -> Result<(), Failure> {
    if path.is_dir() {
        return Err(Failure::input(format!("`{}` is a directory; name a file", path.display())));
    }
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() && !parent.is_dir() => Err(Failure::input(format!(
            "cannot write `{}`: there is no directory `{}`",
            path.display(),
            parent.display()
        ))),
        _ => Ok(()),
    }
}

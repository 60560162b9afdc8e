//! [`write`] writes every output file of the program.
//!
//! A regular file must appear complete or not at all: a run that fails, is killed or fills the disk
//! must leave the old file. The usual way is to write a temporary file and rename it. But a rename
//! replaces whatever has the name: a symbolic link becomes a file, and so does `/dev/full` or a
//! FIFO for root. So the name is resolved first, and only a regular file is renamed over.
//!
//! | the name leads to | handling |
//! |---|---|
//! | a regular file, or nothing yet | temporary file in the same directory, then rename; the mode is kept |
//! | a device, a FIFO | opened and streamed to |
//! | the standard output or error (`/dev/stdout`, `/proc/self/fd/1`) | streamed to at its position; can be a socket |
//! | another open descriptor (`/dev/fd/3`, `>(xz)` of a shell) | opened and appended to |
//! | a directory, a loop of links | refused |
//!
//! On Linux the temporary file has no name until it is complete (`O_TMPFILE`), so that even
//! `kill -9` leaves nothing, but in the instant between its naming and its renaming. Where the file
//! system does not support that, its name is `NAME.RANDOM.part` from the beginning, and it is
//! removed when writing fails. No process reads such a file, so any can be deleted.
//!
//! The name is random, and never that of a file that exists: several processes can write one file
//! at once, and the process number of the first is that of the second too if each is in a container
//! of its own. Each result is whole, and the last one stays.
//!
//! Does not call `fsync`: after a power cut the new file can be missing or empty.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// The stream that a body writes to.
pub(crate) type Out = BufWriter<File>;

/// The target of a name after all links.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum OutputTarget {
    /// A regular file or nothing yet; the path has no link as its last part.
    Regular(PathBuf),
    /// A device, a FIFO, a socket.
    Special(PathBuf),
    /// Descriptor 1 of this process.
    Stdout,
    /// Descriptor 2 of this process.
    Stderr,
    /// Another descriptor of a process, by its name in `/proc`.
    Descriptor(PathBuf),
}

impl OutputTarget {
    /// Follows symbolic links.
    ///
    /// # Errors
    /// A directory, more than [`LINKS_MAX`] links, errors of the file system.
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        let mut at = path.to_owned();
        for _ in 0..=LINKS_MAX {
            if let Some(place) = Self::descriptor(&at) {
                return Ok(place);
            }
            let found = match fs::symlink_metadata(&at) {
                Ok(found) => found,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::Regular(at)),
                Err(error) => return Err(error),
            };
            if found.is_symlink() {
                let target = fs::read_link(&at)?;
                // An absolute target replaces all of the path.
                at = at.parent().unwrap_or(Path::new("")).join(target);
            } else if found.is_dir() {
                return Err(io::ErrorKind::IsADirectory.into());
            } else if found.is_file() {
                return Ok(Self::Regular(at));
            } else {
                return Ok(Self::Special(at));
            }
        }
        Err(io::Error::other("too many levels of symbolic links"))
    }

    /// Recognises names of open descriptors. They look like links, but following one loses its
    /// position in the file.
    fn descriptor(path: &Path) -> Option<Self> {
        let number: u32 = path.file_name()?.to_str()?.parse().ok()?;
        let dir = fs::canonicalize(path.parent()?).ok()?;
        if !dir.starts_with("/proc") || dir.file_name()? != "fd" {
            return None;
        }
        let own = fs::canonicalize("/proc/self/fd").ok();
        Some(match number {
            1 if own.as_ref() == Some(&dir) => Self::Stdout,
            2 if own.as_ref() == Some(&dir) => Self::Stderr,
            _ => Self::Descriptor(path.to_owned()),
        })
    }
}

/// Writes a file by its name: complete or not at all if it is a regular one.
///
/// # Errors
/// Errors of `body` or of the file system. A regular file is then as it was.
pub(super) fn write<T>(place: &OutputTarget, body: impl FnOnce(&mut Out) -> io::Result<T>) -> io::Result<T> {
    match place {
        OutputTarget::Regular(path) => replace(path, body),
        OutputTarget::Special(path) => stream(OpenOptions::new().write(true).open(path)?, body),
        OutputTarget::Descriptor(path) => stream(OpenOptions::new().append(true).open(path)?, body),
        #[cfg(unix)]
        OutputTarget::Stdout => stream(duplicate(io::stdout())?, body),
        #[cfg(unix)]
        OutputTarget::Stderr => stream(duplicate(io::stderr())?, body),
        #[cfg(not(unix))]
        OutputTarget::Stdout | OutputTarget::Stderr => Err(io::ErrorKind::Unsupported.into()),
    }
}

#[cfg(unix)]
fn duplicate(stream: impl std::os::fd::AsFd) -> io::Result<File> {
    stream.as_fd().try_clone_to_owned().map(File::from)
}

fn stream<T>(file: File, body: impl FnOnce(&mut Out) -> io::Result<T>) -> io::Result<T> {
    let mut out = BufWriter::new(file);
    let value = body(&mut out);
    if value.is_err() {
        // The rest of the buffer belongs to a result that failed.
        drop(out.into_parts());
        return value;
    }
    out.flush()?;
    value
}

/// Writes a temporary file and renames it.
fn replace<T>(path: &Path, body: impl FnOnce(&mut Out) -> io::Result<T>) -> io::Result<T> {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    replace_by(path, nameless::create(dir), body)
}

/// The same with this file without a name, if there can be one.
fn replace_by<T>(path: &Path, nameless: Option<File>, body: impl FnOnce(&mut Out) -> io::Result<T>) -> io::Result<T> {
    let Some(name) = path.file_name() else { return Err(io::ErrorKind::InvalidFilename.into()) };
    let mut random = [0; 8];
    getrandom::fill(&mut random).map_err(io::Error::other)?;
    let mut aside: OsString = name.to_owned();
    aside.push(format!(".{:016x}.part", u64::from_ne_bytes(random)));
    let aside = path.with_file_name(aside);
    let (file, is_named) = match nameless {
        Some(file) => (file, false),
        None => (File::create_new(&aside)?, true),
    };
    let written = (|| {
        let mut out = BufWriter::new(file);
        let value = body(&mut out)?;
        let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        if let Ok(old) = fs::metadata(path) {
            file.set_permissions(old.permissions())?;
        }
        if !is_named {
            nameless::name(&file, &aside)?;
        }
        drop(file);
        fs::rename(&aside, path)?;
        Ok(value)
    })();
    if written.is_err() {
        // The first error is the one to report.
        drop(fs::remove_file(&aside));
    }
    written
}

/// Files without a name.
#[cfg(target_os = "linux")]
mod nameless {
    use super::*;
    use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, open};
    use std::os::fd::AsRawFd;

    /// Creates a file in a directory, or returns `None` where that is not possible.
    pub(super) fn create(dir: &Path) -> Option<File> {
        let file = open(dir, OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC, Mode::from_raw_mode(0o666)).ok()?;
        // It is named by its entry in /proc.
        Path::new("/proc/self/fd").is_dir().then(|| File::from(file))
    }

    /// Gives it a name.
    pub(super) fn name(file: &File, path: &Path) -> io::Result<()> {
        let entry = format!("/proc/self/fd/{}", file.as_raw_fd());
        Ok(linkat(CWD, entry, CWD, path, AtFlags::SYMLINK_FOLLOW)?)
    }
}

/// Other systems have no files without a name.
#[cfg(not(target_os = "linux"))]
mod nameless {
    use super::*;

    pub(super) fn create(_: &Path) -> Option<File> {
        None
    }

    pub(super) fn name(_: &File, _: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// The limit of Linux.
const LINKS_MAX: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_write_leaves_the_old_file_and_nothing_else() {
        let dir = std::env::temp_dir().join(format!("zerolag-output-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let path = OutputTarget::Regular(dir.join("a.txt"));
        let content = || fs::read(dir.join("a.txt")).unwrap();
        write(&path, |out| out.write_all(b"old")).unwrap();
        let failed = write(&path, |out| {
            out.write_all(b"new")?;
            Err::<(), _>(io::Error::other("disk full"))
        });
        assert_eq!(failed.unwrap_err().to_string(), "disk full");
        assert_eq!(content(), b"old");
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
        write(&path, |out| out.write_all(b"new")).unwrap();
        assert_eq!(content(), b"new");
        fs::remove_dir_all(&dir).unwrap();
    }

    /// Eight writers of one process, which have one process number as those of eight containers do.
    #[test]
    fn of_several_writers_at_once_each_result_is_whole() {
        let dir = std::env::temp_dir().join(format!("zerolag-writers-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let path = dir.join("a.txt");
        let whole = |letter: u8| vec![letter; 300_000];
        let begin = std::sync::Barrier::new(8);
        for has_nameless in [true, false] {
            let write = &|letter: u8| {
                // Failures are told at the end: a thread that is gone would never be at the
                // barrier.
                let turn = |_| {
                    begin.wait();
                    let file = if has_nameless { nameless::create(&dir) } else { None };
                    let written = replace_by(&path, file, |out| out.write_all(&whole(letter)));
                    let found = fs::read(&path).unwrap_or_default();
                    let is_whole = found.first().is_some_and(|first| found == whole(*first));
                    written.err().map(|error| error.to_string()).or((!is_whole).then(|| "a mixture".to_owned()))
                };
                (0..20).filter_map(turn).collect::<Vec<String>>()
            };
            let wrong: Vec<String> = std::thread::scope(|scope| {
                let all: Vec<_> = (b'a'..=b'h').map(|letter| scope.spawn(move || write(letter))).collect();
                all.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
            });
            assert!(wrong.is_empty(), "{} of 160: {:?}", wrong.len(), wrong.first());
        }
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_directory_is_refused() {
        assert_eq!(OutputTarget::of(Path::new("/")).unwrap_err().kind(), io::ErrorKind::IsADirectory);
    }
}

//! [`write_atomically`]: a file appears under its name complete or not at all.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// Writes a file beside its place and renames it there when `body` has succeeded.
///
/// Whoever opens `path` sees the old file or the whole new one. The name aside is that of the file with the process id and
/// `.part` added, in the same directory, since a rename does not cross file systems.
///
/// # Errors
/// What `body` or the file system reports; the file aside is removed and `path` is as it was.
pub fn write_atomically(path: &Path, body: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) -> io::Result<()> {
    let Some(name) = path.file_name() else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("`{}` names no file", path.display())));
    };
    let mut aside: OsString = name.to_owned();
    aside.push(format!(".{}.part", std::process::id()));
    let aside = path.with_file_name(aside);
    let written = File::create(&aside).and_then(|file| {
        let mut out = BufWriter::new(file);
        body(&mut out)?;
        out.flush()?;
        drop(out);
        fs::rename(&aside, path)
    });
    if written.is_err() {
        // The first error is the one to report; that the rest could not be removed either adds nothing.
        drop(fs::remove_file(&aside));
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_write_leaves_the_old_file_and_nothing_else() {
        let dir = std::env::temp_dir().join(format!("zerolag-trace-file-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let path = dir.join("a.txt");
        write_atomically(&path, |out| out.write_all(b"old")).unwrap();
        let failed = write_atomically(&path, |out| {
            out.write_all(b"new")?;
            Err(io::Error::other("disk full"))
        });
        assert_eq!(failed.unwrap_err().to_string(), "disk full");
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
        write_atomically(&path, |out| out.write_all(b"new")).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_directory_is_refused() {
        assert!(write_atomically(Path::new("/"), |_| Ok(())).is_err());
    }
}

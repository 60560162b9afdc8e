//! Destinations of results, as a user sees them: links, devices, pipes, full disks, killed runs.

#![cfg(unix)]

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const RUN: [&str; 5] = ["run", "examples/rt-overload.toml", "-d", "300ms", "-q"];

fn zerolag(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_zerolag"));
    command.args(args).current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")).stdin(Stdio::null());
    command
}

fn end(command: &mut Command) -> Output {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).output().expect("the program starts")
}

/// A fresh directory for one test.
fn scratch(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("output").join(name);
    drop(fs::remove_dir_all(&dir));
    fs::create_dir_all(&dir).expect("a directory can be made");
    dir
}

fn list(dir: &Path) -> Vec<OsString> {
    let mut names: Vec<_> = fs::read_dir(dir).expect("listed").map(|entry| entry.expect("entry").file_name()).collect();
    names.sort();
    names
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_symlink_is_followed_and_survives() {
    let dir = scratch("symlink");
    fs::create_dir(dir.join("deep")).expect("made");
    symlink("deep/real.zlt", dir.join("second.zlt")).expect("linked");
    symlink("second.zlt", dir.join("first.zlt")).expect("linked");
    // The first run creates the file that the links name, the second replaces it and keeps its
    // mode.
    for mode in [None, Some(0o640)] {
        if let Some(mode) = mode {
            fs::set_permissions(dir.join("deep/real.zlt"), fs::Permissions::from_mode(mode)).expect("set");
        }
        let output = end(zerolag(&RUN).arg("--trace").arg(dir.join("first.zlt")));
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert!(dir.join("first.zlt").is_symlink());
        assert!(dir.join("second.zlt").is_symlink());
        assert_eq!(list(&dir), ["deep", "first.zlt", "second.zlt"]);
        assert_eq!(list(&dir.join("deep")), ["real.zlt"]);
        let found = fs::metadata(dir.join("deep/real.zlt")).expect("it exists");
        assert!(found.len() > 1_000);
        if let Some(mode) = mode {
            assert_eq!(found.permissions().mode() & 0o7777, mode);
        }
    }
    symlink("loop.zlt", dir.join("loop.zlt")).expect("linked");
    let output = end(zerolag(&RUN).arg("--trace").arg(dir.join("loop.zlt")));
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("symbolic links"), "{}", stderr(&output));
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_device_is_reported_as_full_and_is_not_replaced() {
    let dir = scratch("full");
    for name in ["full.zlt", "full.pftrace", "full.txt"] {
        symlink("/dev/full", dir.join(name)).expect("linked");
        let output = end(zerolag(&RUN).arg("--trace").arg(dir.join(name)));
        assert_eq!(output.status.code(), Some(1), "{name}: {}", stderr(&output));
        assert!(stderr(&output).contains("no space left on device"), "{name}: {}", stderr(&output));
        assert!(dir.join(name).is_symlink(), "{name}");
    }
    let explain = ["explain", "examples/rt-overload.toml", "-d", "300ms"];
    let others: [&[&str]; 5] = [
        &[&explain[..], &["--perfetto", "/dev/full"]].concat(),
        &[&RUN[..], &["--json=/dev/full"]].concat(),
        &[&RUN[..], &["--trace", "/dev/full", "--trace-format", "zlt"]].concat(),
        &["export", "examples/audio.json", "-o", "/dev/full"],
        &["rt-migrate-test", "-l", "2", "--json", "/dev/full"],
    ];
    for args in others {
        let output = end(&mut zerolag(args));
        assert_eq!(output.status.code(), Some(1), "{args:?}: {}", stderr(&output));
        let said = "cannot write `/dev/full`: no space left on device";
        assert!(stderr(&output).contains(said), "{args:?}: {}", stderr(&output));
        assert!(fs::symlink_metadata("/dev/full").expect("it exists").file_type().is_char_device(), "{args:?}");
    }
    assert_eq!(list(&dir), ["full.pftrace", "full.txt", "full.zlt"]);
}

#[test]
fn a_pipe_gets_the_same_bytes_as_a_file_and_a_closed_one_is_reported() {
    let dir = scratch("fifo");
    let (file, fifo) = (dir.join("file.zlt"), dir.join("fifo.zlt"));
    assert_eq!(end(zerolag(&RUN).arg("--trace").arg(&file)).status.code(), Some(0));
    let made = Command::new("mkfifo").arg(&fifo).status().expect("mkfifo starts");
    assert!(made.success());
    let reader = std::thread::spawn({
        let fifo = fifo.clone();
        move || fs::read(fifo).expect("read")
    });
    let output = end(zerolag(&RUN).arg("--trace").arg(&fifo));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(reader.join().expect("no panic"), fs::read(&file).expect("read"));
    // A reader that leaves at once.
    let reader = std::thread::spawn({
        let fifo = fifo.clone();
        move || drop(fs::File::open(fifo).expect("opened"))
    });
    let long = ["run", "examples/rt-overload.toml", "-d", "20s", "-q"];
    let output = end(zerolag(&long).arg("--trace").arg(&fifo));
    reader.join().expect("no panic");
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("broken pipe"), "{}", stderr(&output));
    assert!(fs::symlink_metadata(&fifo).expect("it exists").file_type().is_fifo());
}

/// The standard output by its name: a file is neither replaced nor truncated, and a closed pipe is
/// no failure.
#[test]
#[cfg(target_os = "linux")]
fn the_standard_output_can_be_named() {
    let dir = scratch("stdout");
    let whole = dir.join("whole.zlt");
    assert_eq!(end(zerolag(&RUN).arg("--trace").arg(&whole)).status.code(), Some(0));
    let trace = fs::read(&whole).expect("read");
    let args = [&RUN[..], &["--trace", "/dev/stdout", "--trace-format", "zlt"]].concat();
    let text = end(zerolag(&RUN).arg("--trace").arg(&whole)).stdout;
    let expected = [&trace[..], &text].concat();
    assert_eq!(end(&mut zerolag(&args)).stdout, expected, "a pipe");
    let path = dir.join("redirected");
    fs::write(&path, "before\n").expect("written");
    let file = fs::OpenOptions::new().append(true).open(&path).expect("opened");
    assert!(zerolag(&args).stdout(file).stderr(Stdio::null()).status().expect("starts").success());
    assert_eq!(fs::read(&path).expect("read"), [b"before\n", &expected[..]].concat(), "a file");
    let (near, mut far) = std::os::unix::net::UnixStream::pair().expect("a pair of sockets");
    let mut child =
        zerolag(&args).stdout(std::os::fd::OwnedFd::from(near)).stderr(Stdio::null()).spawn().expect("starts");
    let mut got = Vec::new();
    std::io::Read::read_to_end(&mut far, &mut got).expect("read");
    assert!(child.wait().expect("ends").success());
    assert_eq!(got, expected, "a socket");
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let output = zerolag(&args).stdout(writer).stderr(Stdio::piped()).output().expect("starts");
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), String::new()), "a closed pipe");
}

#[test]
#[cfg(target_os = "linux")]
fn a_killed_run_leaves_the_old_file_and_nothing_else() {
    let dir = scratch("killed");
    let path = dir.join("a.zlt");
    fs::write(&path, "old").expect("written");
    // A run of an hour, killed while it writes: its file aside is open and has no name.
    let mut child = zerolag(&["run", "examples/rt-overload.toml", "-d", "1000h", "-q", "--trace"])
        .arg(&path)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("starts");
    let descriptors = PathBuf::from(format!("/proc/{}/fd", child.id()));
    let writes = || {
        fs::read_dir(&descriptors).is_ok_and(|mut entries| {
            entries.any(|entry| {
                let file = entry.and_then(|entry| fs::read_link(entry.path()));
                file.is_ok_and(|file| file.starts_with(fs::canonicalize(&dir).expect("it exists")))
            })
        })
    };
    while !writes() {
        assert!(child.try_wait().expect("asked").is_none(), "it ended before it wrote");
        std::thread::yield_now();
    }
    child.kill().expect("killed");
    child.wait().expect("ended");
    assert_eq!(fs::read(&path).expect("read"), b"old");
    assert_eq!(list(&dir), ["a.zlt"]);
}

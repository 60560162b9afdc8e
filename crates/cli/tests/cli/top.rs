//! `zerolag top` and a process that listens.

use super::{scratch, zerolag};
use std::os::unix::fs::MetadataExt;
use zerolag_runtime::Builder;

#[test]
fn a_runtime_is_shown() {
    let dir = scratch("top");
    let socket = dir.join("runtime.sock");
    let rt = Builder::new().cpus(1).latencies().build().expect("threads");
    let tenant = rt.group("acme").quota(0.25).create().expect("a group");
    rt.block_on(tenant.spawn(async { 7 }).expect("room")).expect("a result");
    let listening = rt.listen(&socket).expect("a socket");
    let path = socket.to_str().expect("UTF-8");
    let (file, folder) = (socket.metadata().expect("a file"), dir.metadata().expect("a folder"));
    assert_eq!((file.mode() & 0o777, file.uid()), (0o600, folder.uid()), "for its owner only");
    rt.listen(&socket).expect_err("another runtime listens there");
    let shown = zerolag(&["top", "--socket", path, "--every", "1ms", "--number", "2"]);
    assert_eq!((shown.code, shown.stderr.as_str()), (Some(0), ""), "{}", shown.stdout);
    let line = shown.stdout.lines().find(|line| line.starts_with("/acme")).expect("the tenant's line");
    // A share of periods is there once a period has ended, which can be so on a busy machine.
    let line = line.replace(" %", "%");
    let cells: Vec<_> = line.split_whitespace().collect();
    assert_eq!((cells[2], cells.len()), ("0.250", 8), "{line}");
    assert!(cells[6].ends_with("us") || cells[6].ends_with("ms"), "its task waited for a CPU: {line}");
    assert_eq!(shown.stdout.matches("since its start").count(), 1, "{}", shown.stdout);
    drop(listening);
    assert!(!socket.exists(), "the file is removed");
    let gone = zerolag(&["top", "--socket", path]);
    assert_eq!((gone.code, gone.stdout.as_str()), (Some(2), ""));
    assert!(
        gone.stderr.contains("no process listens there") && gone.stderr.contains("Runtime::listen"),
        "{}",
        gone.stderr
    );
}

/// A file that a process has left behind is replaced, and one that answers something else is named.
#[test]
fn other_files_and_other_servers() {
    let dir = scratch("top-other");
    let socket = dir.join("old.sock");
    drop(std::os::unix::net::UnixListener::bind(&socket).expect("a socket"));
    assert!(socket.exists());
    let rt = Builder::new().cpus(1).build().expect("threads");
    drop(rt.listen(&socket).expect("nobody listens there"));
    let other = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
    let answers = std::thread::spawn(move || {
        let (mut client, _) = other.accept().expect("a client");
        std::io::Write::write_all(&mut client, b"hello").expect("it reads");
    });
    let shown = zerolag(&["top", "--socket", socket.to_str().expect("UTF-8")]);
    answers.join().expect("no panic");
    assert_eq!(shown.code, Some(2));
    assert!(shown.stderr.contains("this is no runtime"), "{}", shown.stderr);
}

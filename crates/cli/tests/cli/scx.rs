//! `zerolag scx`, without a kernel: which program it becomes.

use super::scratch;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

fn scx(path: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_zerolag"));
    command.arg("scx").args(args).env("PATH", path).output().expect("the program starts")
}

#[test]
fn the_program_in_path_gets_all_arguments() {
    let dir = scratch("scx");
    let program = dir.join("zerolag-scx");
    std::fs::write(&program, "#!/bin/sh\necho \"$@\"\nexit 7\n").expect("a file");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("an executable file");
    for args in [&["run", "--policy", "vtime", "--for", "1s"][..], &["--help"], &[]] {
        let output = scx(&dir, args);
        assert_eq!(output.status.code(), Some(7), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim_end(), args.join(" "));
    }
}

#[test]
fn without_the_program_it_says_how_to_build_it() {
    let output = scx(&scratch("no-scx"), &["run", "--policy", "vtime"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("there is no zerolag-scx beside this program or in PATH"), "{said}");
    assert!(said.contains("--manifest-path crates/scx/Cargo.toml"), "{said}");
}

//! Runs `conformance/measure-bandwidth.sh` on a simulated cgroup v2 tree: checks which files it
//! writes and reads, and that it leaves nothing behind.
//!
//! `mkdir`, `rmdir` and `sleep` are replaced by scripts: a created group has the kernel's files,
//! and each pause adds to its counters. The kernel's behaviour is not tested here.
#![cfg(target_os = "linux")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A tree with a controller, and the commands that replace the kernel.
fn tree(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("measure-{name}"));
    drop(fs::remove_dir_all(&root));
    fs::create_dir_all(root.join("bin")).expect("writable");
    fs::write(root.join("cgroup.controllers"), "cpuset cpu io\n").expect("writable");
    fs::write(root.join("cgroup.subtree_control"), "cpu\n").expect("writable");
    let files = root.display();
    for (command, script) in [
        ("mkdir", "/bin/mkdir \"$1\" && echo 0 0 0 > \"$1/counters\" && COUNTERS=\"$1\" sleep 0".to_owned()),
        ("rmdir", "[ ! -e \"$1/cpu.max\" ] || cp \"$1/cpu.max\" \"$1/../last.max\"; /bin/rm -r \"$1\"".to_owned()),
        // Counters grow by 40 periods, 30 throttled, 2500 us per pause.
        (
            "sleep",
            format!(
                "for d in \"${{COUNTERS:-}}\" {files}/zerolag-*; do [ -e \"$d/counters\" ] || continue; \
                 read -r p n t < \"$d/counters\"; echo $((p + 40)) $((n + 30)) $((t + 2500)) > \"$d/counters\"; \
                 printf 'usage_usec 1\\nnr_periods %s\\nnr_throttled %s\\nthrottled_usec %s\\n' $p $n $t > \"$d/cpu.stat\"; done"
            ),
        ),
    ] {
        let path = root.join("bin").join(command);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("writable");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("its own file");
    }
    root
}

fn measure(root: &Path, args: &[&str]) -> Output {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../conformance/measure-bandwidth.sh");
    Command::new("bash")
        .arg(script)
        .args(args)
        .env("CGROUP_ROOT", root)
        .env("PATH", format!("{}:/usr/bin:/bin", root.join("bin").display()))
        .output()
        .expect("bash runs")
}

fn groups_left(root: &Path) -> usize {
    let entries = fs::read_dir(root).expect("the tree").filter_map(Result::ok);
    entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("zerolag-")).count()
}

#[test]
fn a_case_is_a_row_and_the_group_goes() {
    let root = tree("row");
    let output = measure(&root, &["1", "2:20000:50000", "1:max:100000"]);
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{errors}");
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(
        rows[0].join(","),
        "kernel,cpus,hogs,quota_us,period_us,window_us,used_us,nr_periods,nr_throttled,throttled_us"
    );
    assert_eq!(rows.len(), 3, "{text}");
    assert_eq!((&rows[1][2..5], &rows[1][7..]), (&["2", "20000", "50000"][..], &["40", "30", "2500"][..]), "{text}");
    assert_eq!((&rows[2][2..5], &rows[2][7..]), (&["1", "max", "100000"][..], &["40", "30", "2500"][..]), "{text}");
    assert!(rows[1..].iter().flatten().all(|field| !field.is_empty()), "{text}");
    assert_eq!(fs::read_to_string(root.join("last.max")).expect("the last limit"), "max 100000\n");
    assert_eq!(groups_left(&root), 0);
}

#[test]
fn a_loop_that_cannot_join_is_no_measurement() {
    let root = tree("join");
    let mkdir = root.join("bin/mkdir");
    let made = fs::read_to_string(&mkdir).expect("a script");
    // A directory takes the place of the file, so that even root cannot write it.
    fs::write(&mkdir, format!("{made}/bin/mkdir \"$1/cgroup.procs\"\n")).expect("writable");
    let output = measure(&root, &["1", "1:20000:50000"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && errors.contains("could not join"), "{errors}");
    assert_eq!(groups_left(&root), 0);
}

#[test]
fn a_tree_that_grants_no_controller_is_refused() {
    let root = tree("refused");
    fs::write(root.join("cgroup.subtree_control"), "io\n").expect("writable");
    let output = measure(&root, &["1", "1:20000:50000"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && errors.contains("the cpu controller is not enabled"), "{errors}");
    assert_eq!(groups_left(&root), 0);
}

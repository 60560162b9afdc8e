//! `zerolag run --on linux` as a user sees it. A test that the host does not permit is skipped, and
//! the reason printed.
#![cfg(target_os = "linux")]

use std::io::Write;
use std::process::{Command, Output, Stdio};

fn zerolag(args: &[&str], stdin: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_zerolag"))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    // A program that refuses its arguments closes the pipe early: not an error of the test.
    drop(child.stdin.take().expect("piped").write_all(stdin.as_bytes()));
    child.wait_with_output().expect("the program ends")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

const FAIR: &str = "[task.hog]\nsteps = [{ run = \"1s\" }]\n[task.tick]\nsteps = [{ run = \"50us\" }, { timer = { period = \"5ms\" } }]\n";

#[test]
fn a_plain_workload_runs_here_with_the_tables_of_a_simulation() {
    let ended = zerolag(&["run", "-", "--on", "linux", "--cpus", "1", "-d", "200ms", "--json"], FAIR);
    if ended.status.code() != Some(0) {
        // A process that may not use CPU 0.
        assert!(text(&ended.stderr).contains("may use"), "{}", text(&ended.stderr));
        println!("skipped: {}", text(&ended.stderr));
        return;
    }
    let value: serde_json::Value = serde_json::from_slice(&ended.stdout).expect("JSON");
    assert_eq!(value["meta"]["source"], "linux");
    assert_eq!(value["ended"]["why"], "duration");
    assert_eq!(value["elapsed_ns"], 200_000_000);
    assert_eq!(value["tasks"][0]["name"], "hog-0");
    assert!(value["tasks"][0]["run_ns"].as_u64().is_some_and(|ns| ns > 1_000_000 && ns < 250_000_000), "{value:#}");
    assert!(value["tasks"][1]["wakeup_latency"]["count"].as_u64().is_some_and(|count| count > 0), "{value:#}");
    assert!(value["host"]["release"].is_string() && value["checks"].is_null());
    let ended = zerolag(&["run", "-", "--on", "linux", "-d", "100ms"], FAIR);
    for part in ["run time", "hog-0", "ended at 100ms: the duration is over; other programs used"] {
        assert!(text(&ended.stdout).contains(part), "`{part}` is not said\n{}", text(&ended.stdout));
    }
}

#[test]
fn what_this_host_cannot_do_is_said_and_nothing_is_run() {
    let refused = |args: &[&str], workload: &str, code: i32, part: &str| {
        let ended = zerolag(&[&["run", "-", "--on", "linux"], args].concat(), workload);
        assert_eq!(ended.status.code(), Some(code), "{}", text(&ended.stderr));
        assert_eq!(text(&ended.stdout), "");
        assert!(text(&ended.stderr).contains(part), "`{part}` is not said\n{}", text(&ended.stderr));
    };
    refused(&["--kernel", "6.1"], FAIR, 2, "--kernel applies to simulations");
    refused(&["--set", "hz=100"], FAIR, 2, "--set applies to simulations");
    refused(&["--cpus", "4096"], FAIR, 2, "this host has");
    let fifo = "[task.a]\npolicy = \"fifo\"\npriority = 99\nsteps = [{ run = \"1ms\" }, { sleep = \"1ms\" }]\n";
    refused(&[], fifo, 1, "nothing was run");
}

#[test]
fn a_trace_is_recorded_or_the_reason_said() {
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("on-linux.zlt");
    let path = file.to_str().expect("UTF-8");
    let ended = zerolag(&["run", "-", "--on", "linux", "-d", "100ms", "--trace", path], FAIR);
    assert_eq!(ended.status.code(), Some(0), "{}", text(&ended.stderr));
    let said = text(&ended.stderr);
    if said.contains("cannot be recorded") {
        println!("skipped: {said}");
    }
    let report = zerolag(&["report", path], "");
    assert_eq!(report.status.code(), Some(0), "{}", text(&report.stderr));
    assert!(
        text(&report.stdout).contains("(linux, ") && text(&report.stdout).contains("hog-0"),
        "{}",
        text(&report.stdout)
    );
}

#[test]
fn a_case_is_held_against_this_host() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let case = |name: &str| root.join("conformance").join(name).to_str().expect("UTF-8").to_owned();
    let cases = [case("fair/two-hogs.toml"), case("rt/fifo-against-fair.toml")];
    let args = ["validate", "--live", "--runs", "2", "-d", "150ms", "--json", "-q", &cases[0], &cases[1]];
    let ended = zerolag(&args, "");
    // In so short a time on a busy machine figures can be outside their bands, which is not tested
    // here.
    assert!(matches!(ended.status.code(), Some(0 | 99)), "{}", text(&ended.stderr));
    let value: serde_json::Value = serde_json::from_slice(&ended.stdout).expect("JSON");
    assert_eq!(value["schema"], "zerolag.validate.live.v1");
    for compared in value["cases"].as_array().expect("two cases") {
        if let Some(why) = compared["skipped"].as_str() {
            println!("skipped: {why}");
            continue;
        }
        let figures = compared["figures"].as_array().expect("figures");
        let all = figures.iter().all(|figure| figure["host"].as_array().is_some_and(|host| host.len() == 2));
        assert!(all && !figures.is_empty(), "{compared:#}");
        if compared["case"] == "two-hogs" {
            let is_part = |name: &str| name.starts_with("part.");
            let parts = figures.iter().filter(|figure| figure["name"].as_str().is_some_and(is_part));
            let sum: f64 = parts.filter_map(|figure| figure["mean"].as_f64()).sum();
            assert!((99.0..101.0).contains(&sum), "{compared:#}");
        }
    }
}

#[test]
fn a_case_of_a_machine_with_other_settings_is_not_held_against_this_host() {
    let case = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/rt/server-off.toml");
    let ended = zerolag(&["validate", "--live", "--json", "-q", case.to_str().expect("UTF-8")], "");
    assert_eq!(ended.status.code(), Some(0), "{}", text(&ended.stderr));
    let value: serde_json::Value = serde_json::from_slice(&ended.stdout).expect("JSON");
    let why = value["cases"][0]["skipped"].as_str().unwrap_or_default();
    assert!(why.contains("fair_server.runtime = 0ms"), "{value:#}");
}

#[test]
fn rt_apps_log_and_marks_and_goals_are_those_of_this_host() {
    let dir = std::env::temp_dir().join(format!("zerolag-marks-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a directory");
    let trace = dir.join("trace.txt");
    let workload = r#"{"tasks": {"a": {"loop": 3, "run": 1000, "timer": {"ref": "unique", "period": 5000}}}}"#;
    let paths = [&dir, &trace].map(|path| path.to_str().expect("text").to_owned());
    let args = ["run", "-", "--on", "linux", "--rtapp-log", &paths[0], "--trace", &paths[1], "--rtapp-marks"];
    let ended = zerolag(&args, workload);
    assert_eq!(ended.status.code(), Some(0), "{}", text(&ended.stderr));
    let log = std::fs::read_to_string(dir.join("rt-app-a-0.log")).expect("a log");
    let marks = std::fs::read_to_string(&trace).expect("a trace");
    std::fs::remove_dir_all(&dir).expect("ours");
    assert_eq!(log.lines().count(), 4, "a head and a row for each loop\n{log}");
    let columns: Vec<&str> = log.lines().nth(1).expect("a row").split_whitespace().collect();
    assert_eq!(columns[8..10], ["1000", "5000"], "what was asked for\n{log}");
    for (line, count) in [
        ("rtapp_loop: event=end", 3),
        ("desc=run", 3),
        ("desc=timer", 3),
        ("rtapp_stats: ", 3),
        ("rtapp_task: event=end", 1),
    ] {
        assert_eq!(marks.matches(line).count(), count, "{line}\n{marks}");
    }

    let goals = |goal: &str| {
        let text =
            format!("goals = [\"{goal}\"]\n[task.a]\nloop = 5\nsteps = [{{ run = \"1ms\" }}, {{ sleep = \"1ms\" }}]\n");
        zerolag(&["run", "-", "--on", "linux"], &text)
    };
    assert_eq!(goals("a.run >= 1us").status.code(), Some(0));
    let missed = goals("a.run >= 1h");
    assert_eq!(missed.status.code(), Some(99), "{}", text(&missed.stderr));
    assert!(text(&missed.stderr).contains("goal "), "{}", text(&missed.stderr));
}

/// Returns the directories of groups that a process has made, three levels deep below the mounts of
/// cgroups.
fn groups_of(pid: u32) -> Vec<std::path::PathBuf> {
    let prefix = format!("zerolag-{pid}-");
    let mut level = vec![std::path::PathBuf::from("/sys/fs/cgroup")];
    let mut found = Vec::new();
    for _ in 0..4 {
        let inside = |folder: &std::path::PathBuf| std::fs::read_dir(folder).into_iter().flatten().flatten();
        let below: Vec<_> =
            level.iter().flat_map(inside).map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
        let is_own = |path: &&std::path::PathBuf| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&prefix))
        };
        found.extend(below.iter().filter(is_own).cloned());
        level = below;
    }
    found
}

/// A killed process cannot clean up: what removes its groups is a process of its own.
#[test]
fn no_group_outlives_a_run_however_it_ends() {
    const POLLS: usize = 20_000;
    let limited = "[group.\"/g\"]\n\"cpu.max\" = \"20000 100000\"\n[task.a]\ngroup = \"/g\"\nsteps = [{ run = \"1ms\" }, { sleep = \"1ms\" }]\n";
    for (signal, polls) in [("INT", 1), ("TERM", 1), ("KILL", 1), ("KILL", 2), ("KILL", 5), ("TERM", 20), ("KILL", 60)]
    {
        let mut child = Command::new(env!("CARGO_BIN_EXE_zerolag"))
            .args(["run", "-", "--on", "linux", "-d", "60s", "-q"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let pid = child.id();
        drop(child.stdin.take().expect("piped").write_all(limited.as_bytes()));
        // Its groups exist for some time when the signal comes: for that of a number of searches.
        let mut seen = 0;
        while seen < polls && child.try_wait().expect("a child").is_none() {
            seen += usize::from(!groups_of(pid).is_empty());
        }
        if seen < polls {
            let ended = child.wait_with_output().expect("it has ended");
            assert_ne!(ended.status.code(), Some(0), "a run of a minute ended before {polls} searches");
            println!("skipped: {}", text(&ended.stderr));
            return;
        }
        let killed = Command::new("kill").args([&format!("-{signal}"), &pid.to_string()]).status();
        assert!(killed.is_ok_and(|status| status.success()), "kill -{signal}");
        let status = child.wait().expect("a child");
        assert!(!status.success(), "SIG{signal}: {status}");
        let gone = (0..POLLS).any(|_| groups_of(pid).is_empty());
        assert!(gone, "SIG{signal} after {polls} searches: {:?} are left", groups_of(pid));
    }
}

//! The gallery: every example gives its answer, and the contrast that it names exists.
//!
//! The goals in a file are what its owner wants. An example of something that hurts misses one of
//! them until it is cured; the others meet theirs until one value is changed. Answers of rt-app
//! files, which cannot contain goals, are checked here.

use std::path::{Path, PathBuf};
use std::process::Command;

struct Ended {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn run(example: &str, more: &[&str]) -> Ended {
    let path = example.strip_prefix("../").map_or_else(|| format!("examples/{example}"), str::to_owned);
    let output = Command::new(env!("CARGO_BIN_EXE_zerolag"))
        .args(["run", &path, "--json"])
        .args(more)
        .current_dir(workspace())
        .output()
        .expect("the program runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    Ended { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// A figure of a task.
fn figure(example: &str, more: &[&str], task: &str, key: &str) -> u64 {
    let ended = run(example, more);
    assert_eq!(ended.code, Some(0), "{example} {more:?}: {}", ended.stderr);
    let json: serde_json::Value = serde_json::from_str(&ended.stdout).expect("JSON");
    let tasks = json["tasks"].as_array().expect("tasks");
    let found = tasks.iter().find(|found| found["name"] == task).unwrap_or_else(|| panic!("{task} in {example}"));
    found[key].as_u64().unwrap_or_else(|| panic!("{key} of {task}"))
}

/// Whether an example meets its goals as it is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Well,
    Hurt,
}

/// The examples with goals, and a change that breaks the well ones and cures the others.
const STATED: &[(&str, State, &[&str])] = &[
    ("rt-overload.toml", State::Well, &["--set", "rt_balance=passive"]),
    ("web-build.toml", State::Well, &["--set", "weight=100"]),
    ("cpusets.toml", State::Well, &[]),
    ("nice-hogs.toml", State::Well, &[]),
    ("noisy-neighbour.toml", State::Well, &["--set", "weight=100"]),
    ("gc-pauses.toml", State::Hurt, &["--set", "pause=1ms"]),
    ("stolen-time.toml", State::Hurt, &["--set", "steal=100us"]),
    ("fork-storm.toml", State::Hurt, &["--kernel", "6.1"]),
    ("upgrade.toml", State::Hurt, &["--kernel", "6.1"]),
    ("rt-hog.toml", State::Hurt, &["--set", "busy=500ms"]),
    ("web-service-limit.toml", State::Hurt, &["--set", "burst=200ms"]),
];

/// The exit codes of goals that are met and missed.
const MET_AND_MISSED: [Option<i32>; 2] = [Some(0), Some(99)];

#[test]
fn every_example_is_as_its_goals_say() {
    let page = std::fs::read_to_string(workspace().join("docs/tutorial/gallery.md")).expect("readable");
    for (example, state, _) in STATED {
        let ended = run(example, &[]);
        assert_eq!(ended.code, MET_AND_MISSED[usize::from(*state == State::Hurt)], "{example}\n{}", ended.stderr);
        assert!(ended.stderr.contains("goal m"), "{example} states a goal\n{}", ended.stderr);
        for goal in ended.stderr.lines().filter(|line| line.starts_with("goal ")) {
            assert!(
                page.contains(goal),
                "docs/tutorial/gallery.md is out of date (./x gallery writes it): {example}: {goal}"
            );
        }
    }
}

#[test]
fn the_change_breaks_or_cures_it() {
    for (example, state, change) in STATED.iter().filter(|(.., change)| !change.is_empty()) {
        let ended = run(example, change);
        let expected = MET_AND_MISSED[usize::from(*state == State::Well)];
        assert_eq!(ended.code, expected, "{example} {change:?}\n{}", ended.stderr);
    }
}

#[test]
fn the_sound_card_never_waits() {
    assert_eq!(figure("audio.json", &[], "audio-0", "timers_missed"), 0);
    // Next to the indexers the interface is late, not the sound.
    assert!(figure("audio.json", &[], "audio-0", "timers") > 900);
}

#[test]
fn inheritance_makes_the_third_task_wait_instead() {
    let text = std::fs::read_to_string(workspace().join("examples/locks-pi.json")).expect("readable");
    let text = text.replace("\"pi_enabled\" : true", "\"pi_enabled\" : false");
    let without = Path::new(env!("CARGO_TARGET_TMPDIR")).join("locks.json");
    std::fs::write(&without, text).expect("writable");
    let without = format!("../{}", without.display());
    let wait = |file: &str| figure(file, &[], "middle-0", "wait_ns_max");
    // With inheritance the holder runs at the waiter's priority, so `middle` waits for both;
    // without it no task stops `middle`.
    assert!(wait("locks-pi.json") > 1_000_000);
    assert!(wait(&without) < 100_000);
}

#[test]
fn a_reservation_that_does_not_fit_is_refused() {
    assert_eq!(run("deadline.json", &[]).code, Some(0));
    let refused = run("deadline.json", &["--cpus", "1"]);
    assert_eq!((refused.code, &*refused.stdout), (Some(2), ""), "{}", refused.stderr);
    assert!(refused.stderr.contains("reserved-0") && refused.stderr.contains("EBUSY"), "{}", refused.stderr);
}

#[test]
fn a_gallery_of_twelve_is_there() {
    let examples = std::fs::read_dir(workspace().join("examples")).expect("readable");
    let count = examples.filter(|entry| entry.as_ref().is_ok_and(|entry| entry.path().extension().is_some())).count();
    assert!(count >= 12, "{count} examples");
}

//! `scripts/on-pull-request.sh`, which `action.yml` calls: scenarios as they are beside those of a
//! commit, in a repository of their own.

#![cfg(unix)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const SCENARIO: &str = r#"
goals = ["web.request_latency.p50 <= 10ms"]
duration = "2s"
[group."/pod"]
"cpu.max" = "50000 100000"
[service.web]
arrivals = { every = "10ms" }
workers = 1
steps = [{ run = "1ms" }]
group = "/pod"
"#;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn git(dir: &Path, args: &[&str]) -> bool {
    let named = ["-c", "user.name=test", "-c", "user.email=test@example.org"];
    Command::new("git").args(named).args(args).current_dir(dir).output().is_ok_and(|output| output.status.success())
}

/// Runs the script in a directory; returns its output and the summary.
fn simulate(dir: &Path, scenarios: &str, variables: &[(&str, &str)]) -> (Output, String) {
    let summary = dir.join("summary.md");
    drop(fs::remove_file(&summary));
    let output = Command::new(root().join("scripts/on-pull-request.sh"))
        .env("ZEROLAG", env!("CARGO_BIN_EXE_zerolag"))
        .env("SCENARIOS", scenarios)
        .env("GITHUB_STEP_SUMMARY", &summary)
        .env("GITHUB_OUTPUT", dir.join("outputs"))
        .envs(variables.iter().copied())
        .current_dir(dir)
        .output()
        .expect("bash is there");
    (output, fs::read_to_string(&summary).unwrap_or_default())
}

#[test]
fn a_pull_request_that_breaks_a_goal_fails_and_says_which() {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("on-pull-request");
    drop(fs::remove_dir_all(&dir));
    fs::create_dir_all(dir.join("deploy")).expect("made");
    let file = dir.join("deploy/web.toml");
    fs::write(&file, SCENARIO).expect("written");
    let (met, summary) = simulate(&dir, "deploy/*.toml", &[]);
    assert_eq!(met.status.code(), Some(0), "{}", String::from_utf8_lossy(&met.stderr));
    assert!(summary.contains("`deploy/web.toml`: goals are met"), "{summary}");
    assert!(dir.join("zerolag-pages/deploy-web.html").is_file());

    if !git(&dir, &["init", "-q", "."]) {
        eprintln!("not compared with a commit: git is not there");
        return;
    }
    assert!(git(&dir, &["add", "deploy"]) && git(&dir, &["commit", "-q", "-m", "the base"]));
    let (same, summary) = simulate(&dir, "deploy/*.toml", &[("BASE", "HEAD")]);
    assert_eq!(same.status.code(), Some(0));
    assert!(summary.contains("As before."), "{summary}");

    fs::write(&file, SCENARIO.replace("\"50000 100000\"", "\"5000 100000\"")).expect("written");
    let (missed, summary) = simulate(&dir, "deploy/*.toml", &[("BASE", "HEAD"), ("KERNELS", "6.1 6.12")]);
    assert_eq!(missed.status.code(), Some(99), "{}", String::from_utf8_lossy(&missed.stderr));
    assert!(summary.contains("- goal met") && summary.contains("+ goal missed"), "{summary}");
    assert!(summary.contains("6.1 against 6.12"), "{summary}");
    assert!(dir.join("zerolag-pages/deploy-web-kernels.html").is_file());
    assert!(fs::read_to_string(dir.join("outputs")).expect("written").ends_with("missed=1\n"));

    for (scenarios, place) in [("deploy/other.toml", "deploy/other.toml: no such file"), ("*.toml", "no file matches")]
    {
        let (wrong, _) = simulate(&dir, scenarios, &[]);
        assert_eq!(wrong.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&wrong.stderr).contains(place));
    }
    fs::write(&file, "[service.web]\nworker = 1\n").expect("written");
    let (wrong, _) = simulate(&dir, "deploy/web.toml", &[]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("worker"));
}

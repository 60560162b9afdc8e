//! `--draw`: plots below the tables, for people only.

use super::zerolag;

const RUN: [&str; 4] = ["run", "examples/web-service-limit.toml", "--duration", "2s"];
const SWEEP: [&str; 7] =
    ["sweep", "examples/web-service-limit.toml", "--set", "cpu.max.burst=0,20ms", "--runs=1", "--duration", "2s"];
const TIMERLAT: [&str; 5] = ["timerlat", "-d", "1s", "--cpus", "2"];

/// The output of a command line that succeeds, or fails a goal.
fn printed(args: &[&str], more: &[&str]) -> String {
    let ended = zerolag(&[args, more].concat());
    assert!(matches!(ended.code, Some(0 | 99)), "{args:?} {more:?}: {}", ended.stderr);
    ended.stdout
}

fn is_drawn(text: &str) -> bool {
    text.contains(|letter| ('\u{2800}'..='\u{28ff}').contains(&letter) || ('▁'..='▏').contains(&letter))
}

#[test]
fn a_pipe_has_the_tables_only_and_plots_follow_them_if_asked() {
    for args in [&RUN[..], &SWEEP, &TIMERLAT] {
        let tables = printed(args, &[]);
        assert!(!is_drawn(&tables), "{tables}");
        assert_eq!(tables, printed(args, &["--draw", "never"]));
        let drawn = printed(args, &["--draw", "always"]);
        let plots = drawn.strip_prefix(&*tables).unwrap_or_else(|| panic!("{args:?}: the tables come first: {drawn}"));
        assert!(is_drawn(plots), "{args:?}: {drawn}");
        assert!(!plots.contains('\u{1b}') && plots.lines().all(|line| line.chars().count() <= 80), "{plots}");
    }
}

#[test]
fn plots_have_the_latency_and_the_load_of_a_run_the_values_of_a_sweep_and_both_timers() {
    let run = printed(&RUN, &["--draw", "always"]);
    assert!(run.contains("\nrequest latency: ") && run.contains("\nload of the CPUs over time\n"), "{run}");
    let sweep = printed(&SWEEP, &["--draw", "always"]);
    let bar = |name: &str| sweep.lines().rfind(|line| line.starts_with(name)).map(|line| line.matches('█').count());
    assert!(bar("20ms").is_some() && bar("20ms") < bar("0 "), "a burst shortens the requests: {sweep}");
    let timerlat = printed(&TIMERLAT, &["--draw", "always"]);
    assert!(timerlat.contains("\ntimer latency: thread, ") && timerlat.contains("\nirq "), "{timerlat}");
}

#[test]
fn quiet_runs_and_json_have_no_plots() {
    let quiet = printed(&RUN, &["--draw", "always", "--quiet"]);
    assert!(!is_drawn(&quiet), "{quiet}");
    let json = printed(&RUN, &["--draw", "always", "--json"]);
    assert!(serde_json::from_str::<serde_json::Value>(&json).is_ok(), "{}", &json[..json.len().min(300)]);
}

#[test]
fn an_unknown_time_to_draw_is_refused() {
    let ended = zerolag(&[&RUN[..], &["--draw", "sometimes"]].concat());
    assert_eq!((ended.code, &*ended.stdout), (Some(2), ""));
    assert!(ended.stderr.contains("auto, always, never"), "{}", ended.stderr);
}

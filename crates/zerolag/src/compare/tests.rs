//! Tests of comparisons.

use super::*;
use crate::Workload;
use crate::simulation::Histograms;
use crate::sweep::shard::{Shard, merge};
use crate::sweep::{Axis, Grid, SweptFigure, prepare};
use zerolag_model::Duration;

/// Two busy tasks on one CPU, imported with this base error of all figures.
fn imported(error: &str) -> Simulation {
    let origin = format!(
        "[origin]\ntrace = \"x\"\nbase_error = {{ run = \"{error}\", wait = \"{error}\", latency = \"{error}\" }}\n"
    );
    let text = "[machine]\ncpus = 1\n[task.a]\ninstances = 2\nsteps = [{ run = \"20ms\" }, { sleep = \"1ms\" }]\n";
    let origin = if error.is_empty() { String::new() } else { origin };
    Simulation::new(Workload::toml(&(origin + text))).duration(Duration::from_secs(1))
}

fn compared_import(error: &str) -> Comparison {
    let variants = Variant::per_value(&imported(error), "hz", ["100", "1000"]).expect("valid");
    run(&variants, 1, |_| ControlFlow::Continue(())).expect("it runs")
}

const TEXT: &str = "[machine]\ncpus = 1\n[task.hog]\ninstances = 2\nsteps = [{ run = \"1s\" }]\n[task.short]\n\
                    steps = [{ run = \"200us\" }, { timer = { period = \"9ms\" } }]\n";

/// Returns a small workload under two values of a key.
pub(super) fn variants(key: &str, values: [&str; 2]) -> Vec<Variant> {
    let simulation = Simulation::new(Workload::toml(TEXT)).duration(Duration::from_secs(2));
    Variant::per_value(&simulation, key, values).expect("it is valid")
}

#[test]
fn an_effect_below_the_base_error_is_not_told() {
    let (plain, close, far) = (compared_import(""), compared_import("1%"), compared_import("10000%"));
    let changed = plain.rows.iter().filter(|row| row.has_changed()).count();
    assert!(changed > 0 && !plain.to_string().contains("cannot tell") && plain.to_json().get("origin").is_none());
    let told = |of: &Comparison| of.rows.iter().filter(|row| row.has_changed() && !of.cannot_tell(row)).count();
    assert_eq!((told(&plain), told(&far)), (changed, 0));
    assert!(told(&close) > 0, "{close}");
    let text = far.to_string();
    assert_eq!(text.lines().filter(|line| line.ends_with("  cannot tell")).count(), changed, "{text}");
    assert!(text.contains("imported from x, base error 10000.0 % of CPU time"), "{text}");
    let json = far.to_json();
    assert_eq!(json["origin"]["base_error"]["wait_percent"], 10000.0);
    let rows = json["rows"].as_array().expect("rows");
    assert!(rows.iter().all(|row| row["below_base_error"] == row["changed"]));
}

/// The task moves from one group to the other: each has one member under one of the variants.
const MOVES: &str = "duration = \"1s\"\n[parameters]\ng = \"/a\"\n[machine]\ncpus = 2\n[group.\"/a\"]\n\
                     \"cpu.max\" = \"30000 100000\"\n[group.\"/b\"]\n\"cpu.max\" = \"60000 100000\"\n\
                     [task.x]\ngroup = \"${g}\"\nsteps = [{ run = \"1h\" }]\n\
                     [task.y]\ngroup = \"/b\"\nsteps = [{ run = \"3ms\" }, { sleep = \"7ms\" }]\n";

#[test]
fn figures_are_joined_by_their_owners() {
    let simulation = Simulation::new(Workload::toml(MOVES)).costs("zero".to_owned());
    let variants = Variant::per_value(&simulation, "g", ["/a", "/b"]).expect("valid");
    let compared = run(&variants, 1, |_| ControlFlow::Continue(())).expect("it runs");
    let means = |owner: &str, key: &str| -> Vec<Option<f64>> {
        let row = compared.rows.iter().find(|row| row.owner == owner && row.figure.key() == key);
        row.expect("a row").values.iter().map(|range| range.map(|range| (range.mean / 1e4).round())).collect()
    };
    assert_eq!(means("/a", "usage.share"), [Some(33.0), Some(0.0)], "{compared}");
    assert_eq!(means("/b", "usage.share"), [Some(30.0), Some(64.0)], "{compared}");
    assert_eq!(means("x", "share"), [Some(33.0), Some(49.0)], "{compared}");
}

#[test]
fn what_was_asked_for_is_shown_without_a_change() {
    let asked = ["hog.turns.per_second", "short.run"].map(|name| Figure::parse(name).expect("a figure"));
    let of = |more: &[Asked]| {
        let values = ["passive", "pull_locked"];
        run_with(&variants("rt_balance", values), 1, more, |_| ControlFlow::Continue(())).expect("it runs")
    };
    let (bare, shown) = (of(&[]), of(&asked));
    assert!(!bare.to_string().contains("none"), "{bare}");
    let lines: Vec<String> = shown.to_string().lines().map(ToOwned::to_owned).collect();
    let of_owner = |owner: &str| lines.iter().filter(|line| line.starts_with(owner)).count();
    assert_eq!((of_owner("hog"), of_owner("short")), (1, 1), "{shown}");
    assert_eq!(lines.iter().filter(|line| line.ends_with("  none")).count(), 2, "{shown}");
}

#[test]
fn closed_loops_have_a_throughput() {
    // 400 us a turn, of which the service computes 100; then its group has a tenth of a CPU.
    let text = "[machine]\ncpus = 2\n[group.\"/s\"]\n\"cpu.max\" = \"100000 100000\"\n\
                [service.db]\ngroup = \"/s\"\nworkers = 1\nsteps = [{ run = \"100us\" }]\n\
                [task.client]\nsteps = [{ call = \"db\" }, { sleep = \"300us\" }]\n[task.hog]\nsteps = [{ run = \"1h\" }]\n";
    let simulation = Simulation::new(Workload::toml(text)).duration(Duration::from_secs(2)).costs("zero".to_owned());
    let variants = Variant::per_value(&simulation, "cpu.max", ["max", "10000 100000"]).expect("valid");
    let compared = run(&variants, 1, |_| ControlFlow::Continue(())).expect("it runs");
    let rates = |owner: &str, key: &str| {
        let row = compared.rows.iter().find(|row| row.owner == owner && row.figure.key() == key);
        row.map(|row| row.values.iter().map(|range| range.map(|range| range.mean / 1e3)).collect::<Vec<_>>())
    };
    let [turns, requests] = [("client", "turns.per_second"), ("db", "requests.per_second")]
        .map(|(owner, key)| rates(owner, key).unwrap_or_else(|| panic!("{owner} has no {key}")));
    assert_eq!(turns, requests, "a turn is a request");
    assert!(
        matches!(turns[..], [Some(free), Some(limited)] if (2450.0..=2500.0).contains(&free)
        && (950.0..=1050.0).contains(&limited)),
        "{turns:?}"
    );
    assert_eq!(rates("hog", "turns.per_second"), None, "it completes none");
}

#[test]
fn a_sweep_names_the_figures_of_which_nothing_is_known() {
    let swept = |error: &str| {
        let axes = vec![Axis { key: "hz".to_owned(), values: ["100", "1000"].map(str::to_owned).to_vec() }];
        let plans: Vec<Plan> =
            prepare(&imported(error), &axes).expect("valid").into_iter().map(|one| one.plan).collect();
        let figures =
            ["a.wakeup_latency.max", "a.run"].map(|name| SweptFigure::parse(name).expect("a figure")).to_vec();
        Grid::run(axes, figures, &plans, 1, |_| ControlFlow::Continue(())).expect("it runs")
    };
    let names = |of: &Grid| of.unknown().map(|figure| figure.name.clone()).collect::<Vec<_>>();
    assert!(names(&swept("")).is_empty() && !swept("").to_json().contains("base_error"));
    let far = swept("10000%");
    assert!(names(&far).contains(&"a.wakeup_latency.max".to_owned()), "{far}");
    assert!(far.to_string().contains("cannot tell what changes: a.wakeup_latency.max"), "{far}");
    let json: Value = serde_json::from_str(&far.to_json()).expect("JSON");
    assert_eq!(json["below_base_error"][0], "a.wakeup_latency.max_ns");
    assert_eq!(json["origin"]["trace"], "x");
}

#[test]
fn parts_of_a_sweep_keep_the_base_error() {
    let axes = vec![Axis { key: "hz".to_owned(), values: ["100", "1000"].map(str::to_owned).to_vec() }];
    let figures = [SweptFigure::parse("a.wakeup_latency.max").expect("a figure")];
    let plans: Vec<Plan> =
        prepare(&imported("10000%"), &axes).expect("valid").into_iter().map(|one| one.plan).collect();
    let part = |text: &str| {
        let part = text.parse().expect("a part");
        let go_on = |_| ControlFlow::Continue(());
        let ran = Shard::run(axes.clone(), &figures, &plans, 1, part, Histograms::Off, go_on).expect("it runs");
        Shard::from_json(text, ran.to_json().as_bytes()).expect("its own JSON")
    };
    let merged = merge(&[], &[part("1/2"), part("2/2")]).expect("a whole grid");
    let whole = Grid::run(axes.clone(), figures.to_vec(), &plans, 1, |_| ControlFlow::Continue(())).expect("it runs");
    assert!(whole.unknown().count() == 1 && merged.origin == whole.origin, "{merged}");
    assert_eq!(merged.to_json(), whole.to_json());
}

#[test]
fn a_run_names_the_base_error() {
    let (plain, close) = (imported("").run().expect("it runs"), imported("0.7%").run().expect("it runs"));
    assert!(plain.origin().is_none() && !plain.to_json().contains("\"origin\""));
    assert!(close.headline().contains("base error 0.7 % of CPU time, 0.7 % of waits"), "{close}");
    assert!(close.to_string().contains("imported from x"), "{close}");
    let json: Value = serde_json::from_str(&close.to_json()).expect("JSON");
    assert_eq!(json["origin"]["base_error"]["run_percent"], 0.7);
}

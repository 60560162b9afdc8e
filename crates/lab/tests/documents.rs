//! The tables of docs/explanation are those that `zerolag repro` prints.
//!
//! Whole experiments take minutes, so a part of each is run here: small machines, a few cells. Each
//! printed row must be a row of the page, cell by cell; the width of columns depends on the other
//! rows and does not matter.

use std::ops::ControlFlow;
use std::path::Path;
use zerolag::report::frame::rows::Kept;
use zerolag::{Simulation, Workload as Source};
use zerolag_lab::repro::bandwidth::{Bandwidth2010, Scale, Workload};
use zerolag_lab::repro::inversion::{Inversion2012, Placements};
use zerolag_lab::repro::rt_balance::{Mode, Results, RtBalance2007};
use zerolag_lab::repro::rt_ipi::{Build, RtIpi2017, Variant};
use zerolag_sim::Costs;

/// Returns the rows of a page's fenced blocks, as cells.
fn quoted(page: &str) -> Vec<Vec<String>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/explanation").join(page);
    let text = std::fs::read_to_string(&path).expect("a page");
    let mut is_fenced = false;
    let fenced = text.lines().filter(|line| {
        let is_fence = line.starts_with("```");
        is_fenced ^= is_fence;
        is_fenced && !is_fence
    });
    fenced.map(cells).collect()
}

fn cells(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

/// Checks that the page has every row that begins as `is_row` says; at least `least` of them.
fn has_rows(page: &str, printed: &str, least: usize, is_row: impl Fn(&[String]) -> bool) {
    let quoted = quoted(page);
    let rows: Vec<Vec<String>> = printed.lines().map(cells).filter(|row| is_row(row)).collect();
    assert!(rows.len() >= least, "only {} rows were printed:\n{printed}", rows.len());
    for row in rows {
        assert!(quoted.contains(&row), "{page} has no row `{}`: `zerolag repro all` prints its tables", row.join(" "));
    }
}

fn is_number(cell: &str) -> bool {
    cell.parse::<u32>().is_ok()
}

#[test]
fn rt_ipi_is_quoted_as_printed() {
    let small = || RtIpi2017 { cpus: vec![4, 16, 80], sensitivity: Vec::new(), threads: 2, ..RtIpi2017::default() };
    let is_row = |row: &[String]| row.len() > 7 && is_number(&row[0]);
    let results = small().run_all(|_| ControlFlow::Continue(()));
    has_rows("rt-ipi.md", &results.to_string(), 30, is_row);
    let xeon = RtIpi2017 { cpus: vec![80], costs: Costs::xeon_e7_4s(), ..small() };
    has_rows("rt-ipi.md", &xeon.run_all(|_| ControlFlow::Continue(())).to_string(), 10, is_row);
    let contended =
        RtIpi2017 { cpus: vec![80], costs: Costs::xeon_e7_8s_contended(), build: Build::EightSockets, ..small() };
    has_rows("rt-ipi.md", &contended.run_all(|_| ControlFlow::Continue(())).to_string(), 10, is_row);
    let reverted = RtIpi2017 { cpus: vec![80], variants: vec![Variant::IpiSkipPushing], ..small() };
    has_rows("rt-ipi.md", &reverted.run_all(|_| ControlFlow::Continue(())).to_string(), 2, is_row);
}

#[test]
fn bandwidth_is_quoted_as_printed() {
    let workloads = vec![Workload::Loops];
    let cells = Bandwidth2010 {
        cpus: vec![1, 7, 15],
        periods: vec![100, 500],
        workloads,
        threads: 2,
        ..Bandwidth2010::default()
    };
    let results = cells.run_all(|_| ControlFlow::Continue(()));
    has_rows("repro-bandwidth.md", &results.to_string(), 6, |row| row.len() > 7 && is_number(&row[0]));
}

#[test]
fn the_cost_of_a_limit_is_quoted_as_printed() {
    let scaled = Scale { threads: 2, ..Scale::default() }.run(|_| ControlFlow::Continue(()));
    let is_row = |row: &[String]| row.len() > 5 && (row[0] == "pool," || row[0] == "hard");
    has_rows("repro-bandwidth.md", &scaled.to_string(), 7, is_row);
}

#[test]
fn placements_are_quoted_as_printed() {
    let idle = ["idle_states", "menu"].map(|key| Some((key, "sandy_bridge"))).to_vec();
    let mut small = Placements { idle, threads: 2, ..Placements::default() };
    small.irqs.retain(|(name, _)| *name == "CPU 2 (free)");
    let placed = small.run(|_| ControlFlow::Continue(())).expect("not interrupted");
    has_rows("inversion.md", &placed.to_string(), 2, |row| row.len() > 7 && row[0].ends_with("=sandy_bridge"));
}

#[test]
fn inversion_is_quoted_as_printed() {
    let small = Inversion2012 {
        preempts: Vec::new(),
        sensitivity: vec![("copy", "40us")],
        threads: 2,
        ..Inversion2012::default()
    };
    let results = small.run(|_| ControlFlow::Continue(())).expect("not interrupted");
    has_rows("inversion.md", &results.to_string(), 1, |row| row.contains(&"+-".to_owned()) && row[0] == "voluntary");
}

#[test]
fn rt_balance_is_quoted_as_printed() {
    let experiment = RtBalance2007 { tests: 20, threads: 2, ..RtBalance2007::default() };
    let modes = [Mode::Passive, Mode::PullLocked];
    let run = |mode| (mode, experiment.run(mode, |_| ControlFlow::Continue(())));
    let results = Results { modes: modes.map(run).to_vec(), experiment: experiment.clone() };
    has_rows("rt-balance.md", &results.to_string(), 2, |row| row.len() > 7 && row[2] == "1000");
}

/// The switches of a file of the repository, with the costs of another one.
fn switches(file: &str, costs: Option<&str>, method: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let kept = Kept { switches: true, ..Kept::default() };
    let path = |file: &str| root.join(file).display().to_string();
    let simulation = Simulation::new(Source::file(path(file))).set("rt_balance", method).keep(kept);
    let simulation = costs.map_or_else(|| simulation.clone(), |costs| simulation.clone().costs(path(costs)));
    let result = simulation.run().expect("it runs");
    format!("{:?}", result.table("switches").expect("they are kept"))
}

/// 2007: "as little overhead (practically none) to the non RT cases": balancing moves no cache line
/// where there are fair tasks alone.
#[test]
fn real_time_balancing_moves_no_line_beside_fair_tasks() {
    const SLOW: Option<&str> = Some("docs/lab/documents/line-transfers.toml");
    let fair = |costs, method| switches("docs/lab/documents/fair-only.toml", costs, method);
    let expected = fair(None, "passive");
    for method in ["passive", "pull_locked", "ipi_root_domain"] {
        assert!(fair(SLOW, method) == expected, "{method}");
    }
    let rt = |costs| switches("examples/rt-overload.toml", costs, "pull_locked");
    assert!(rt(SLOW) != rt(None), "lines that move are seen");
}

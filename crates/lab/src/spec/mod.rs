//! Specs: Markdown files with a rule, a scenario and the expected timeline.
//!
//! One file is documentation, specification and regression test. The prose states the rule and its
//! source; a `toml` block is a scenario (`docs/reference/scenario.md`); the blocks below it are the
//! expected results, in one of these forms:
//!
//! | block | shows |
//! |---|---|
//! | `timeline` | a row per CPU; with the word `tasks`, a row per task too |
//! | `switches` | every switch, exact |
//! | `events` | every event, exact; `only=ipi,migrate` limits the kinds |
//! | `totals` | the time of each CPU by layer, and the counters of each task |
//! | `end` | how the run ended; without this block a run must end well |
//!
//! The rest of such a block's first line varies the run, so that one scenario shows a switch off
//! and on:
//!
//! | word | means |
//! |---|---|
//! | `KEY=VALUE` | a setting, on top of the scenario's |
//! | `kernel=`, `cpus=`, `duration=`, `seed=`, `costs=` | replaces the scenario's value |
//! | `cost.NAME=TIME` | one entry of the cost profile |
//! | `policy.NAME=VALUE` | a parameter of the policy; `"` encloses a value with white space |
//! | `from=`, `to=`, `step=` | window of a timeline or of events, column of a timeline; the default is the whole run, 1 ms |
//! | `violates=MONITOR` | this run shows a bug: that monitor must find it. All others must not |
//! | `settle=TIME` | how long the machine must be quiet before monitors expect order: where IPIs take their time |
//!
//! Costs are `zero` unless the scenario has others, so that events fall on columns. Every run is
//! checked by all monitors.
//!
//! [`check`] runs one spec; [`Checked::blessed`] is its text with the actual results.

mod block;
mod diff;
mod variation;

use block::{Block, SpecBlockKind};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use variation::Variation;
use zerolag_check::Verdict;
use zerolag_model::{CpuLayer, Duration, Instant, TaskId, TraceEvent};
use zerolag_report::events;
use zerolag_report::human::Percent;
use zerolag_report::timeline::{Window, switches, timeline};
use zerolag_sim::{Outcome, Tracing};
use zerolag_trace::{Meta, Trace};
use zerolag_workload::{LoadOptions, scenario};

use zerolag::simulation::Plan;

/// The result of a spec.
#[derive(Clone, Debug)]
pub struct Checked {
    /// Its problems, in order of line.
    pub problems: Vec<Problem>,
    /// The spec's text with the actual results in place of the expected ones.
    pub blessed: String,
    /// The number of blocks compared with a run.
    pub blocks: usize,
}

impl Checked {
    /// Returns whether all results are as expected.
    #[must_use]
    pub const fn is_ok(&self) -> bool {
        self.problems.is_empty()
    }
}

/// A problem in a spec.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// Its line, from 1.
    pub line: usize,
    /// The description; can have several lines.
    pub says: String,
    /// Whether blessing the spec would solve it.
    pub is_difference: bool,
}

impl Problem {
    fn at(line: usize, says: impl Into<String>) -> Self {
        Self { line, says: says.into(), is_difference: false }
    }
}

/// Runs a spec. `name` is its path in messages.
///
/// Cost: that of the runs, one per block of output.
#[must_use]
pub fn check(name: &str, text: &str) -> Checked {
    let mut checked = Checked { problems: Vec::new(), blessed: String::new(), blocks: 0 };
    let mut scenario: Option<Block<'_>> = None;
    let mut is_shown = true;
    let mut copied = 0;
    let blocks = block::blocks(text).unwrap_or_else(|problem| {
        checked.problems.push(problem);
        Vec::new()
    });
    for block in blocks {
        if block.kind == SpecBlockKind::Scenario {
            if let Some(unused) = scenario.as_ref().filter(|_| !is_shown) {
                checked.problems.push(Problem::at(unused.line, "nothing is shown of this scenario"));
            }
            (scenario, is_shown) = (Some(block), false);
            continue;
        }
        is_shown = true;
        checked.blocks += 1;
        let shown = match &scenario {
            Some(scenario) => show(name, scenario, &block),
            None => Err(vec![Problem::at(block.line, "there is no scenario above this block")]),
        };
        match shown {
            Ok(actual) => {
                if actual != block.body {
                    let says = format!(
                        "{} differs (- expected, + found)\n{}",
                        block.kind.name(),
                        diff::lines(block.body, &actual)
                    );
                    checked.problems.push(Problem { line: block.line, says, is_difference: true });
                }
                checked.blessed.push_str(&text[copied..block.range.start]);
                checked.blessed.push_str(&actual);
                copied = block.range.end;
            }
            Err(problems) => checked.problems.extend(problems),
        }
    }
    if let Some(unused) = scenario.filter(|_| !is_shown) {
        checked.problems.push(Problem::at(unused.line, "nothing is shown of this scenario"));
    } else if checked.blocks == 0 && checked.problems.is_empty() {
        checked.problems.push(Problem::at(1, "this spec shows nothing: it has no block of output"));
    }
    checked.blessed.push_str(&text[copied..]);
    checked
}

/// Returns the specs below `path`, sorted: itself if it is a file, else all `.md` files except
/// `README.md`.
///
/// # Errors
/// The path or a directory below it cannot be read.
pub fn find(path: &Path) -> std::io::Result<Vec<PathBuf>> {
    if !path.is_dir() {
        std::fs::metadata(path)?;
        return Ok(vec![path.to_owned()]);
    }
    let mut found = Vec::new();
    let mut pending = vec![path.to_owned()];
    while let Some(dir) = pending.pop() {
        for entry in std::fs::read_dir(&dir)? {
            let path = entry?.path();
            if path.is_dir() {
                pending.push(path);
            } else if path.extension().is_some_and(|ext| ext == "md")
                && path.file_name().is_some_and(|name| name != "README.md")
            {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// A run that has ended.
struct EndedRun {
    trace: Trace,
    outcome: Outcome,
    broken: Vec<(&'static str, String)>,
}

/// Runs a scenario as a block varies it, judges the run and returns the block's actual content.
fn show(name: &str, scenario: &Block<'_>, block: &Block<'_>) -> Result<String, Vec<Problem>> {
    let here = |says| vec![Problem::at(block.line, says)];
    let variation = Variation::read(block.info).map_err(here)?;
    let plan = plan(name, scenario, &variation).map_err(|says| vec![Problem::at(scenario.line, says)])?;
    if plan.config.duration.is_none() && plan.is_endless() {
        return Err(vec![Problem::at(scenario.line, "tasks loop forever: give a `duration`")]);
    }
    let options = zerolag_check::Options { settle: variation.settle, ..zerolag_check::Options::default() };
    let run = run(&plan, &options).map_err(here)?;
    let problems = judge(&run, block, &variation);
    if problems.is_empty() { Ok(render(&run, block.kind, &variation)) } else { Err(problems) }
}

/// Returns the plan of a scenario, varied.
fn plan(name: &str, scenario: &Block<'_>, variation: &Variation) -> Result<Plan, String> {
    // Preceded by empty lines, so that messages have the line numbers of the spec.
    let padded = "\n".repeat(scenario.line) + scenario.body;
    let options = LoadOptions { machine_override: variation.machine.clone(), ..LoadOptions::default() };
    let mut scenario =
        scenario::load(name, &padded, &options).map_err(|error| error.to_string().trim_end().to_owned())?;
    if scenario.costs.is_none() {
        scenario.costs = Some("zero".to_owned());
    }
    variation.apply_to_scenario(&mut scenario);
    let mut plan = Plan::on_kernel(scenario, variation.kernel).map_err(|error| error.to_string())?;
    variation.apply_to_plan(&mut plan)?;
    Ok(plan)
}

fn run(plan: &Plan, options: &zerolag_check::Options) -> Result<EndedRun, String> {
    let mut machine = plan.build(Tracing::On).map_err(|error| error.to_string())?;
    let mut records = Vec::new();
    let outcome = machine.run(&mut records);
    let trace = Trace { meta: Meta { end: outcome.end, ..plan.meta() }, records };
    let report = zerolag_check::check(&trace, options);
    let mut broken = Vec::new();
    for (name, verdict) in report.verdicts {
        if let Verdict::Broken(found) = verdict {
            let first = found.first().first().map_or_else(String::new, ToString::to_string);
            broken.push((name, first));
        }
    }
    Ok(EndedRun { trace, outcome, broken })
}

/// Returns the problems of a run, independent of its output: unexpected violations, missing
/// expected ones, a bad end.
fn judge(run: &EndedRun, block: &Block<'_>, variation: &Variation) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (monitor, first) in &run.broken {
        if !variation.violates.iter().any(|named| named == monitor) {
            problems.push(Problem::at(block.line, format!("the run breaks `{monitor}`: {first}")));
        }
    }
    for named in &variation.violates {
        if !run.broken.iter().any(|(monitor, _)| monitor == named) {
            problems.push(Problem::at(block.line, format!("violates={named}: the run does not break it")));
        }
    }
    if block.kind != SpecBlockKind::End && !run.outcome.why.is_ok() {
        problems.push(Problem::at(block.line, run.outcome.why.to_string()));
    }
    problems
}

fn render(run: &EndedRun, kind: SpecBlockKind, variation: &Variation) -> String {
    let from = variation.from.map_or(Instant::ZERO, |from| Instant::ZERO + from);
    let to = variation.to.map_or(run.outcome.end, |to| Instant::ZERO + to);
    match kind {
        SpecBlockKind::Scenario => unreachable!("a scenario shows nothing"),
        SpecBlockKind::Timeline => {
            timeline(&run.trace, Window { from, to, step: variation.step, rows: variation.rows })
        }
        SpecBlockKind::Switches => switches(&run.trace),
        SpecBlockKind::Events => events::events(&run.trace, |at, kind| {
            let is_wanted = variation.only.is_empty() || variation.only.iter().any(|wanted| wanted == kind);
            is_wanted && from <= at && at <= to
        }),
        SpecBlockKind::Totals => totals(&run.trace),
        SpecBlockKind::End => format!("{} {}\n", run.outcome.end, run.outcome.why),
    }
}

/// Lists the time of each CPU by layer and the counters of each task.
fn totals(trace: &Trace) -> String {
    let mut out = String::new();
    let mut names: BTreeMap<TaskId, Arc<str>> = BTreeMap::new();
    let elapsed = trace.meta.end.since(trace.meta.start);
    for record in &trace.records {
        let written = match &record.event {
            TraceEvent::TaskNew { task, name, .. } => {
                names.insert(*task, Arc::clone(name));
                Ok(())
            }
            TraceEvent::CpuTotals { times } => {
                let layers: Vec<String> = CpuLayer::ALL
                    .into_iter()
                    .filter(|layer| !times.of(*layer).is_zero())
                    .map(|layer| format!("{} {}", layer.name(), times.of(layer)))
                    .collect();
                writeln!(out, "cpu{} {}", record.cpu, layers.join(", "))
            }
            TraceEvent::TaskTotals { task, counters } => {
                let name = names.get(task).map_or("?", |name| name);
                let share = Percent { part: counters.exec, whole: elapsed };
                writeln!(
                    out,
                    "{name} ran {} ({share} of a CPU), {} switches, {} migrations, {} wakeups",
                    counters.exec, counters.switches_in, counters.migrations, counters.wakeups
                )
            }
            // Only totals are listed.
            _ => Ok(()),
        };
        written.expect("invariant: writing to a String cannot fail");
    }
    out
}

/// The byte range of a part of a text.
type ByteRange = Range<usize>;

/// The default column of a timeline.
const STEP: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "# A rule\n\n```toml\nduration = \"4ms\"\n[machine]\ncpus = 1\n[task.a]\nsteps = [{ run = \"2ms\" }, { sleep = \"2ms\" }]\n```\n\n";
    const SHOWN: &str = "1 column = 1.00ms, from 0.000000000\n     |0   |\ncpu0 |aa..|\n      a = a-0\n";

    fn spec(rest: &str) -> String {
        format!("{HEAD}{rest}")
    }

    #[track_caller]
    fn problem(text: &str, line: usize, says: &str) {
        let checked = check("x.md", text);
        let [problem] = &*checked.problems else { panic!("{:#?}", checked.problems) };
        assert_eq!(problem.line, line, "{problem:?}");
        assert!(problem.says.contains(says), "{problem:?}");
    }

    #[test]
    fn what_comes_out_is_compared_and_can_be_blessed() {
        let right = spec(&format!("```timeline\n{SHOWN}```\n"));
        let checked = check("x.md", &right);
        assert!(checked.is_ok(), "{:#?}", checked.problems);
        assert_eq!((checked.blocks, &checked.blessed), (1, &right));

        let wrong = spec("```timeline\nnonsense\n```\ntext\n\n```switches\n```\n");
        let checked = check("x.md", &wrong);
        assert!(checked.problems.iter().all(|problem| problem.is_difference));
        assert_eq!(checked.problems.iter().map(|problem| problem.line).collect::<Vec<_>>(), [11, 16]);
        assert!(checked.problems[0].says.contains("- nonsense") && checked.problems[0].says.contains("+ cpu0 |aa..|"));
        assert!(check("x.md", &checked.blessed).is_ok(), "{}", checked.blessed);
    }

    #[test]
    fn a_block_varies_the_run() {
        let text = spec("```timeline step=2ms duration=8ms tasks\n```\n\n```totals cost.tick=100us hz=1000\n```\n");
        let blessed = check("x.md", &text).blessed;
        assert!(blessed.contains("cpu0 |a.a.|"), "{blessed}");
        assert!(blessed.contains("a-0  |# # |  OTHER 0"), "{blessed}");
        assert!(blessed.contains("cpu0 irq "), "{blessed}");
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        problem("# A rule\n", 1, "shows nothing");
        problem("```timeline\n```\n", 1, "no scenario above");
        problem("a\n```timeline\nx\n", 2, "never closed");
        problem(HEAD, 3, "nothing is shown of this scenario");
        problem(&spec("```timeline hertz=1\n```\n"), 11, "unknown setting `hertz`");
        problem(&spec("```timeline hz=no\n```\n"), 11, "`hz`");
        problem(&spec("```timeline wide\n```\n"), 11, "unknown word `wide`");
        problem(&spec("```timeline violates=one-cpu\n```\n"), 11, "does not break it");
        problem(&spec("```timeline violates=two-cpus\n```\n"), 11, "unknown monitor `two-cpus`");
        problem(&spec("```events only=swich\n```\n"), 11, "unknown kind `swich`");
    }

    #[test]
    fn errors_of_a_scenario_name_the_lines_of_the_spec() {
        let text = spec("```timeline\n```\n").replace("run =", "walk =");
        problem(&text, 3, "x.md:8:");
    }

    #[test]
    fn other_blocks_are_prose() {
        let text = spec(&format!("````\n```timeline\n```\n````\n\n```sh\ntrue\n```\n\n```timeline\n{SHOWN}```\n"));
        assert!(check("x.md", &text).is_ok());
    }
}

//! `zerolag sweep`: a workload for every combination of values, or the smallest value that meets a
//! goal.

use super::failure::{Failure, eprintln_lossy};
use super::options::{self, RunArgs, RunsArgs, WorkloadArgs};
use super::output::JsonArgs;
use super::plan::{load_scenario, plan_of};
use super::progress::{Progress, catch_interrupts};
use super::{Done, code, output};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use zerolag::goals::Verdict;
use zerolag::report::table::{Align, Table};
use zerolag::simulation::Plan;
use zerolag::sweep::search::{self, Found, Trial};
use zerolag::sweep::{self, Axis, Figure, Grid, Knob, RunError, knob};
use zerolag::variant::{self, Label};
use zerolag::workload::goal::Goal;

/// Arguments of `zerolag sweep`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Keys of --set: a parameter of the scenario, a setting (`zerolag settings`), kernel, cpus, seed, cpu.max, cpu.max.burst, \
cpu.cfs_period_us, cpu.cfs_quota_us, cpu.weight, workers; prefix it with OWNER: if ambiguous \
(/web:cpu.max, web:workers).

Examples:
  zerolag sweep web.toml --set cpu.max=100000,200000,400000 --set cpu.max.burst=0,100000
  zerolag sweep web.toml --set kernel=5.15,6.12 --show '*.latency.p99,request_latency.p99'
  zerolag sweep web.toml --smallest cpu.max --such-that 'request_latency.p99 <= 20ms'")]
pub(crate) struct Args {
    #[command(flatten)]
    workload: WorkloadArgs,
    #[command(flatten)]
    run: RunArgs,
    /// Figures, as in goals, separated by commas [default: of services, of limits, else of tasks]
    #[arg(long, value_name = "FIGURE,...", value_delimiter = ',')]
    show: Vec<String>,
    #[command(flatten)]
    runs: RunsArgs<3>,
    /// Search for the smallest value of this instead: cpu.max, cpu.max.burst, cpu.weight, workers
    #[arg(long, value_name = "KEY", requires = "such_that")]
    smallest: Option<String>,
    /// A goal that every run must meet; may be repeated
    #[arg(long, value_name = "GOAL", requires = "smallest")]
    such_that: Vec<String>,
    #[command(flatten)]
    json: JsonArgs,
    /// Plot the first figure over the first --set, as SVG
    #[arg(long, value_name = "FILE", conflicts_with = "smallest")]
    plot: Option<PathBuf>,
}

/// More cells than this are treated as a mistake.
const CELLS_MAX: usize = 100_000;

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> Done {
    args.json.check()?;
    args.plot.as_deref().map_or(Ok(()), output::check_target)?;
    let (axes, fixed) = axes(args)?;
    match &args.smallest {
        None => run_grid(args, axes, &fixed),
        Some(key) => {
            if let Some(axis) = axes.first() {
                let help = "give one value, or leave --smallest out";
                return Err(Failure::input_help(format!("--set {} has several values in a search", axis.key), help));
            }
            run_search(args, key, &fixed)
        }
    }
}

type Pairs = Vec<(String, String)>;

/// Splits the settings into varied and fixed ones.
fn axes(args: &Args) -> Result<(Vec<Axis>, Pairs), Failure> {
    let (mut axes, mut fixed): (Vec<Axis>, Pairs) = (Vec::new(), Vec::new());
    let mut seen = BTreeSet::new();
    for (key, values) in &args.run.sim.machine.set {
        if !seen.insert(key) {
            let help = format!("write --set {key}=V1,V2");
            return Err(Failure::input_help(format!("--set {key} is given twice"), help));
        }
        let values: Vec<String> = values.split(',').map(|value| value.trim().to_owned()).collect();
        if values.iter().any(String::is_empty) {
            return Err(Failure::input(format!("--set {key}={}: a value is empty", values.join(","))));
        }
        match &values[..] {
            [only] => fixed.push((key.clone(), only.clone())),
            _ => axes.push(Axis { key: key.clone(), values }),
        }
    }
    let cells = axes.iter().fold(1_usize, |cells, axis| cells.saturating_mul(axis.values.len()));
    if cells > CELLS_MAX {
        return Err(Failure::input(format!("these are {cells} cells; at most {CELLS_MAX} are run")));
    }
    Ok((axes, fixed))
}

/// Returns the plan under these values.
fn plan(args: &Args, pairs: &[(String, String)], is_first: bool) -> Result<Plan, Failure> {
    let mut run = args.run.clone();
    run.sim.quiet.quiet |= !is_first;
    let machine = &mut run.sim.machine;
    machine.set.clear();
    // The file's declarations are known only after reading it.
    let declared = load_scenario(&args.workload, machine, machine.topology())?;
    let mut knobs: Vec<(Knob, &str, &str)> = Vec::new();
    for (key, value) in pairs {
        let wrong = |reason: String| Failure::input(format!("--set {key}={value}: {reason}"));
        if declared.parameters.contains(key) {
            machine.set.push((key.clone(), value.clone()));
            continue;
        }
        match key.as_str() {
            "kernel" => run.kernel.kernel = Some(options::kernel(value).map_err(wrong)?),
            "cpus" => (machine.machine, machine.cpus) = (None, Some(options::cpus(value).map_err(wrong)?)),
            "seed" => run.sim.seed = Some(value.parse().map_err(|_| wrong("expected a whole number".to_owned()))?),
            _ => match Knob::find(key, &declared.program) {
                None => machine.set.push((key.clone(), value.clone())),
                Some(found) => knobs.push((found.map_err(|error| knob_failure(key, value, &error))?, key, value)),
            },
        }
    }
    let mut plan = plan_of(&args.workload, &run)?;
    let mut program = (*plan.program).clone();
    // A burst above the quota is only wrong once everything is set: the burst is applied where it
    // is valid first.
    for (knob, key, value) in &knobs {
        if let Err(error) = knob.set(&mut program, value) {
            return Err(knob_failure(key, value, &error));
        }
    }
    plan.program = Arc::new(program);
    Ok(plan)
}

fn knob_failure(key: &str, value: &str, error: &knob::KnobError) -> Failure {
    Failure::input_help(format!("--set {key}={value}: {error}"), error.help.clone())
}

fn run_grid(args: &Args, axes: Vec<Axis>, fixed: &[(String, String)]) -> Done {
    if axes.is_empty() {
        let help =
            "for example --set cpu.max=100000,200000, or --smallest cpu.max --such-that 'request_latency.p99 <= 20ms'";
        return Err(Failure::input_help("nothing to vary: give --set KEY=V1,V2 with several values", help));
    }
    let mut plans = Vec::new();
    for (index, values) in sweep::combinations(&axes).into_iter().enumerate() {
        let varied = axes.iter().map(|axis| axis.key.clone()).zip(values);
        let pairs: Pairs = fixed.iter().cloned().chain(varied).collect();
        plans.push(plan(args, &pairs, index == 0)?);
    }
    let figures = match &args.show[..] {
        [] => plans.first().map(|plan| Figure::usual(&plan.program)).unwrap_or_default(),
        names => names.iter().map(|name| figure(name)).collect::<Result<_, _>>()?,
    };
    catch_interrupts();
    let mut progress = Progress::new(plans.len() as u64 * args.runs.runs, "runs", args.run.sim.is_quiet());
    let grid = Grid::run(axes, figures, &plans, args.runs.runs, |done| progress.at(done as u64));
    progress.finish();
    let grid = match grid {
        Ok(grid) => grid,
        Err(error) => return failed(&error),
    };
    if let Some(path) = &args.plot {
        let title =
            format!("{}: {}", args.workload.file.display(), grid.figures.first().map_or("", |first| &first.name));
        output::write_text(path, &grid.to_svg(&title))?;
    }
    args.json.publish(|| grid.to_string(), || grid.to_json())?;
    Ok(code::OK)
}

fn figure(name: &str) -> Result<Figure, Failure> {
    Figure::parse(name.trim())
        .map_err(|help| Failure::input_help(format!("--show: there is no figure `{}`", name.trim()), help))
}

fn run_search(args: &Args, key: &str, fixed: &[(String, String)]) -> Done {
    let plan = plan(args, fixed, true)?;
    let known = || "known are cpu.max, cpu.max.burst, cpu.cfs_quota_us, cpu.weight, workers".to_owned();
    let knob = match Knob::find(key, &plan.program) {
        None => return Err(Failure::input_help(format!("--smallest: cannot search for `{key}`"), known())),
        Some(Err(error)) => return Err(Failure::input_help(format!("--smallest {key}: {error}"), error.help)),
        Some(Ok(knob)) => knob,
    };
    if knob.range(&plan.program, plan.config.topology.nr_cpus()).is_none() {
        let help =
            if knob.part == knob::Part::Burst { "a burst needs a quota: set cpu.max".to_owned() } else { known() };
        return Err(Failure::input_help(format!("--smallest {key}: it has no smallest value"), help));
    }
    let goal = |text: &String| {
        Goal::parse(text).map_err(|(message, help)| Failure::Input { message: format!("--such-that: {message}"), help })
    };
    let goals: Vec<Goal> = args.such_that.iter().map(goal).collect::<Result<_, _>>()?;
    catch_interrupts();
    let mut progress = Progress::new(12 * args.runs.runs, "runs or so", args.run.sim.is_quiet());
    let found = search::smallest(&plan, knob, &goals, args.runs.runs, |done| progress.at(done as u64));
    progress.finish();
    let found = match found {
        Ok(found) => found,
        Err(error) => return failed(&error),
    };
    args.json.publish(
        || search_text(key, &found, args.runs.runs),
        || search_json(key, &found, args.runs.runs, plan.config.seed),
    )?;
    Ok(if found.least.is_some() { code::OK } else { code::GOAL_MISSED })
}

fn search_text(key: &str, found: &Found, runs: u64) -> String {
    let mut text = match &found.least {
        Some(least) => format!("the smallest {key} is {}\n\n", least.written),
        None => format!("no {key} meets the goals\n\n"),
    };
    let goals = found.trials.first().map(|trial| &trial.verdicts[..]).unwrap_or_default();
    let heads = [(key, Align::Left), ("", Align::Left)].into_iter();
    let mut table =
        Table::new(&heads.chain(goals.iter().map(|verdict| (&*verdict.goal.text, Align::Right))).collect::<Vec<_>>());
    for trial in &found.trials {
        let met = if trial.is_met() { "met" } else { "missed" };
        let figures = trial.verdicts.iter().map(Verdict::figure_text);
        table.push([trial.written.clone(), met.to_owned()].into_iter().chain(figures));
    }
    text += &table.to_string();
    let tried = found.trials.len();
    text + &format!(
        "\n{tried} values tried, {runs} runs each; the worst run decides; the search assumes that a larger value is never worse\n"
    )
}

fn search_json(key: &str, found: &Found, runs: u64, seed: u64) -> String {
    let trial = |trial: &Trial| {
        let goals: Vec<_> = trial
            .verdicts
            .iter()
            .map(|verdict| serde_json::json!({ "goal": verdict.goal.text, "met": verdict.is_met(), "figure": verdict.figure }))
            .collect();
        let label = Label { name: trial.written.clone(), values: vec![(key.to_owned(), trial.written.clone())] };
        label.to_json([("met", trial.is_met().into()), ("goals", goals.into())])
    };
    let trials: Vec<_> = found.trials.iter().map(trial).collect();
    let least = found.least.as_ref().map(|trial| trial.written.clone());
    let mut json = variant::document("zerolag.sweep.smallest.v1", runs, Some(seed), &trials);
    json["key"] = key.into();
    json["least"] = least.into();
    format!("{json:#}\n")
}

fn failed(error: &RunError) -> Done {
    match error {
        RunError::Interrupted => {
            eprintln_lossy("interrupted: no partial results are printed");
            Ok(code::INTERRUPTED)
        }
        RunError::Failed { values, why } => Err(Failure::Failed(format!("the run of {values}: {why}"))),
    }
}

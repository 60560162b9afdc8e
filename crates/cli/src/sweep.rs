//! `zerolag sweep`: a workload for every combination of values, or the smallest value that meets a
//! goal.

use super::failure::{Failure, eprintln_lossy};
use super::options::{RuleArgs, RunArgs, RunsArgs, ShowArgs, WorkloadArgs, keys_of_set};
use super::output::{DrawArgs, HtmlArgs, JsonArgs};
use super::plan::{notes, prepare, simulation_of};
use super::progress::{Progress, catch_interrupts, say_interrupted};
use super::{Done, code, output};
use std::collections::BTreeSet;
use std::path::PathBuf;
use zerolag::Error;
use zerolag::model::KernelVersion;
use zerolag::page::{self, Shown};
use zerolag::report::plot::terminal;
use zerolag::simulation::{Histograms, Note, Plan, Simulation};
use zerolag::sweep::resume::Kept;
use zerolag::sweep::search::Search;
use zerolag::sweep::shard::{Part, Shard};
use zerolag::sweep::until::Until;
use zerolag::sweep::{self, Axis, Cell, Grid, RunError, SweptFigure};

/// Returns the keys of `--set` and examples.
fn after_help() -> String {
    format!(
        "{}\n\
Examples:
  zerolag sweep web.toml --set cpu.max=100000,200000,400000 --set cpu.max.burst=0,100000
  zerolag sweep web.toml --set kernel=5.15,6.12 --show '*.wakeup_latency.p99,request_latency.p99'
  zerolag sweep web.toml --set limits.cpu=2 --set cpu.cfs_period_us=10000,20000,100000
  zerolag sweep web.toml --smallest limits.cpu --such-that 'request_latency.p99 <= 20ms'",
        keys_of_set()
    )
}

/// Arguments of `zerolag sweep`.
#[derive(Debug, clap::Args)]
#[command(after_help = after_help())]
pub(crate) struct Args {
    #[command(flatten)]
    workload: WorkloadArgs,
    #[command(flatten)]
    run: RunArgs,
    #[command(flatten)]
    show: ShowArgs,
    #[command(flatten)]
    runs: RunsArgs,
    /// Add runs to all variants until the mean of the first figure is known within this part of it
    /// to each side, with a confidence of 95 %
    #[arg(long, value_name = "PERCENT", value_parser = percent, conflicts_with_all = ["smallest", "shard", "resume"])]
    until: Option<f64>,
    #[command(flatten)]
    rule: RuleArgs,
    /// Search for the smallest value of this instead: a limit, a weight, a burst, workers
    #[arg(long, value_name = "KEY", requires = "such_that")]
    smallest: Option<String>,
    /// A goal, as in scenarios; `p99 <= 40ms` is that of requests; may be repeated
    #[arg(long, value_name = "GOAL", requires = "smallest")]
    such_that: Vec<String>,
    #[command(flatten)]
    json: JsonArgs,
    #[command(flatten)]
    html: HtmlArgs,
    #[command(flatten)]
    draw: DrawArgs,
    /// Run only part I of N, and write its runs as JSON for `zerolag merge`: for the jobs of an
    /// array
    #[arg(long, value_name = "I/N", requires = "json", conflicts_with_all = ["smallest", "plot", "html"])]
    shard: Option<Part>,
    /// Keep the runs that are done in FILE, also at Ctrl-C, and go on from there if it exists
    #[arg(long, value_name = "FILE", conflicts_with_all = ["smallest", "shard"])]
    resume: Option<PathBuf>,
    /// Write a line per run as CSV: values, limit, seed, figures
    #[arg(long, value_name = "FILE", conflicts_with_all = ["smallest", "shard"])]
    csv: Option<PathBuf>,
    /// Write the same as a Parquet file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["smallest", "shard"])]
    parquet: Option<PathBuf>,
    /// Add to the JSON the distributions behind the quantiles, of each variant and each run; they
    /// can be added up
    #[arg(long, requires = "json", conflicts_with = "smallest")]
    histograms: bool,
    /// Plot the first figure over the first --set, as SVG
    #[arg(long, value_name = "FILE", conflicts_with = "smallest")]
    plot: Option<PathBuf>,
}

/// The most runs of a variant with `--until`, if nothing else is asked.
const MOST: u64 = 200;

/// More cells than this are treated as a mistake.
const CELLS_MAX: usize = 100_000;

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> Done {
    args.json.check()?;
    args.html.check()?;
    for path in [&args.plot, &args.csv, &args.parquet, &args.resume].into_iter().flatten() {
        output::check_target(path)?;
    }
    let of_search =
        [("--risk", args.rule.risk.is_some()), ("--most", args.rule.most.is_some() && args.until.is_none())];
    if let Some((option, _)) = of_search.iter().find(|(_, given)| *given && args.smallest.is_none()) {
        let help = if *option == "--most" {
            "add --until PERCENT, or --smallest KEY --such-that GOAL"
        } else {
            "add --smallest KEY --such-that GOAL"
        };
        return Err(Failure::input_help(format!("{option} is for a search"), help));
    }
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

type KeyValues = Vec<(String, String)>;

/// Splits the settings into varied and fixed ones.
fn axes(args: &Args) -> Result<(Vec<Axis>, KeyValues), Failure> {
    let (mut axes, mut fixed): (Vec<Axis>, KeyValues) = (Vec::new(), Vec::new());
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

/// Returns the simulation with the values that every run has.
fn simulation(args: &Args, fixed: &[(String, String)]) -> Result<Simulation, Failure> {
    let mut run = args.run.clone();
    run.sim.machine.set = fixed.to_vec();
    simulation_of(&args.workload, &run)
}

#[expect(clippy::too_many_lines, reason = "the steps of a sweep in their order; each can end the command")]
fn run_grid(args: &Args, axes: Vec<Axis>, fixed: &[(String, String)]) -> Done {
    if axes.is_empty() {
        let help =
            "for example --set cpu.max=100000,200000, or --smallest cpu.max --such-that 'request_latency.p99 <= 20ms'";
        return Err(Failure::input_help("nothing to vary: give --set KEY=V1,V2 with several values", help));
    }
    let prepared = sweep::prepare(&simulation(args, fixed)?, &axes)?;
    if let Some(first) = prepared.first().filter(|_| !args.run.sim.is_quiet()) {
        // Notes about the file are printed once, and of those about cells one per kind.
        notes(first);
        let is_kept = |note: &&Note| matches!(note, Note::QuotaKept { .. });
        if first.notes.iter().all(|note| !is_kept(&note))
            && let Some(note) = prepared.iter().flat_map(|prepared| &prepared.notes).find(is_kept)
        {
            eprintln_lossy(&format!("note: {note}"));
        }
        let mut others: Vec<KernelVersion> = prepared.iter().map(|prepared| prepared.plan.kernel).collect();
        others.retain(|kernel| *kernel != first.plan.kernel);
        others.dedup();
        for note in others.into_iter().filter_map(Note::of_kernel) {
            eprintln_lossy(&format!("note: {note}"));
        }
    }
    let plans: Vec<Plan> = prepared.into_iter().map(|prepared| prepared.plan).collect();
    let figures = match &args.show.show[..] {
        [] => plans.first().map(|plan| SweptFigure::usual(&plan.program)).unwrap_or_default(),
        names => names.iter().map(|name| figure(name)).collect::<Result<_, _>>()?,
    };
    catch_interrupts();
    let parts = args.shard.map_or(1, |part| part.of);
    let mut progress =
        Progress::new((plans.len() as u64 * args.runs.per_variant()).div_ceil(parts), "runs", args.run.sim.is_quiet());
    if let Some(part) = args.shard {
        let histograms = if args.histograms { Histograms::On } else { Histograms::Off };
        let progress_of = |done| progress.at(done as u64);
        let shard = Shard::run(axes, &figures, &plans, args.runs.per_variant(), part, histograms, progress_of);
        progress.finish();
        let shard = match shard {
            Err(RunError::Interrupted) => return Ok(say_interrupted()),
            shard => shard.map_err(Error::from)?,
        };
        let failed = if shard.failed() == 0 { String::new() } else { format!(", of which {} failed", shard.failed()) };
        args.json.publish(|| format!("part {part}: {} runs{failed}\n", shard.len()), || shard.to_json())?;
        // The part is whole; `merge` says what failed.
        return Ok(code::OK);
    }
    let mut kept = Kept::new(axes, &figures, &plans, args.runs.per_variant());
    if args.histograms {
        kept = kept.with_histograms();
    }
    if let Some(path) = args.resume.as_ref().filter(|path| path.exists()) {
        let name = path.display().to_string();
        let bytes = std::fs::read(path).map_err(|error| Failure::reading(&name, &error))?;
        kept.resume(&name, &bytes)?;
    }
    let until = args
        .until
        .map(|percent| Until::new(percent, args.rule.most.unwrap_or(MOST)))
        .transpose()
        .map_err(Failure::input)?;
    let ran = match until {
        Some(until) => kept.run_until(&figures, &plans, until, |done| progress.at(done as u64)),
        None => kept.run(&figures, &plans, |done| progress.at(done as u64)),
    };
    progress.finish();
    if let Some(path) = &args.resume {
        output::write_text(path, &kept.to_json())?;
    }
    let is_interrupted = ran == Err(RunError::Interrupted);
    if !is_interrupted {
        ran.map_err(Error::from)?;
    }
    let grid = kept.grid(figures);
    if is_interrupted && grid.cells.is_empty() && args.resume.is_none() {
        return Ok(say_interrupted());
    }
    if let Some(until) = until.filter(|_| !args.run.sim.is_quiet()) {
        note_width(&grid, until);
    }
    if let Some(path) = &args.csv {
        output::write_text(path, &grid.to_csv())?;
    }
    if let Some(path) = &args.parquet {
        output::write_parquet(path, &grid.frame())?;
    }
    if let Some(path) = &args.plot {
        let title =
            format!("{}: {}", args.workload.file.display(), grid.figures.first().map_or("", |first| &first.name));
        output::write_text(path, &grid.to_svg(&title))?;
    }
    args.html.publish(|| Ok(page::of_grid(&grid, plans.first(), &HtmlArgs::about(args.workload.file.display()))))?;
    let look = args.draw.look().filter(|_| !args.run.sim.is_quiet());
    let drawn = || look.zip(grid.plot(0, "")).map(|(look, plot)| format!("\n{}", terminal::bars(&plot, look)));
    let goals = plans.first().map(|plan| &*plan.goals).unwrap_or_default();
    let judged: String = grid.judged(goals).iter().map(|(_, says)| format!("\ngoal {says}")).collect();
    let judged = if judged.is_empty() { judged } else { judged + "\n" };
    args.json.publish_drawn(|| (grid.to_string() + &judged, drawn().unwrap_or_default()), || grid.to_json())?;
    if is_interrupted {
        let (done, all) = kept.done();
        let how = args.resume.as_ref().map_or_else(
            || "only complete cells are printed; --resume FILE keeps all".to_owned(),
            |path| format!("go on with --resume {}", path.display()),
        );
        eprintln_lossy(&format!("interrupted: {done} of {all} runs are done; {how}"));
        return Ok(code::INTERRUPTED);
    }
    Ok(code_of(&grid))
}

/// Notes the variant whose mean of the first figure is known least, if that is not well enough.
fn note_width(grid: &Grid, until: Until) {
    let Some(figure) = grid.figures.first() else { return };
    let first = |cell: &Cell| cell.runs.iter().map(|run| run.first().copied().flatten()).collect::<Vec<_>>();
    let missed = grid.cells.iter().filter_map(|cell| Some((until.misses(&first(cell))?, cell)));
    if let Some((percent, cell)) = missed.max_by(|(one, _), (other, _)| one.total_cmp(other)) {
        let values: Vec<String> =
            grid.axes.iter().zip(&cell.values).map(|(axis, value)| format!("{}={value}", axis.key)).collect();
        let (runs, name, values) = (grid.runs, &figure.name, values.join(", "));
        eprintln_lossy(&format!(
            "note: after {runs} runs {name} is known within {percent:.1} %, not {until}: {values}"
        ));
    }
}

/// Reads a part: `5` or `5%`.
fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim_end();
    let percent = number.parse().map_err(|_| "expected a part in percent, as in 5%".to_owned())?;
    Until::new(percent, 2).map(|_| percent)
}

/// Returns the exit code of a grid: that of a failure if a run failed.
pub(super) fn code_of(grid: &Grid) -> u8 {
    if grid.failed().next().is_some() { code::FAILURE } else { code::OK }
}

fn figure(name: &str) -> Result<SweptFigure, Failure> {
    SweptFigure::parse(name.trim())
        .map_err(|help| Failure::input_help(format!("--show: there is no figure `{}`", name.trim()), help))
}

fn run_search(args: &Args, key: &str, fixed: &[(String, String)]) -> Done {
    let plan = prepare(&simulation(args, fixed)?, args.run.sim.is_quiet())?.plan;
    catch_interrupts();
    let rule = args.rule.rule(args.runs.runs)?;
    let mut progress = Progress::new(10 * rule.search() + 5 * rule.needs(), "runs or so", args.run.sim.is_quiet());
    let search = Search::run(&plan, key, &args.such_that, rule, |done| progress.at(done as u64));
    progress.finish();
    let search = match search {
        Err(Error::Interrupted) => return Ok(say_interrupted()),
        search => search.map_err(|error| Failure::of(error, "--such-that"))?,
    };
    let about = || HtmlArgs::about(args.workload.file.display());
    let shown =
        || Shown { answer: search.answer(), plots: search.plots(), tables: vec![search.titled()], ..Shown::default() };
    args.html.publish(|| Ok(page::of_figures(shown(), &about())))?;
    args.json.publish(|| search.to_string(), || format!("{:#}\n", search.to_json()))?;
    Ok(if search.found.least.is_some() { code::OK } else { code::GOAL_MISSED })
}

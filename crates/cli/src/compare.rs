//! `zerolag compare`: one workload, or all of a directory, under several kernels or settings.

use super::failure::{Failure, eprintln_lossy};
use super::options::{
    self, DurationArgs, KernelArgs, MACHINE, ManifestArgs, PolicyArgs, RunArgs, RunsArgs, ShowArgs, SimArgs,
    WorkloadArgs,
};
use super::output::{HtmlArgs, JsonArgs, TableArgs};
use super::plan::{notes, simulation_of};
use super::policy;
use super::progress::{Progress, busy, catch_interrupts, interrupted, say_interrupted};
use super::{Done, code};
use std::path::PathBuf;
use zerolag::Error;
use zerolag::compare::{self, Bisection, Comparison, Suite, SuiteBisection, Variant};
use zerolag::model::KernelVersion;
use zerolag::model::figure::Figure;
use zerolag::page::{self, Shown};
use zerolag::simulation::Note;

/// Arguments of `zerolag compare`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    workload: WorkloadArgs,
    /// A kernel; give two or more, the first is the baseline. With --vary one: all run on it
    #[arg(long = "kernel", help_heading = MACHINE, value_name = "VERSION", value_parser = options::kernel)]
    kernels: Vec<KernelVersion>,
    /// A scheduler of sched_ext, as in `run`; give two or more, instead of kernels
    #[arg(long = "policy", help_heading = MACHINE, value_name = "NAME|FILE.so", conflicts_with = "vary")]
    policies: Vec<String>,
    /// The values of a setting, as in rt_balance=passive,pull_locked; instead of kernels
    #[arg(long, value_name = "KEY=VALUE,...")]
    vary: Option<String>,
    #[command(flatten)]
    show: ShowArgs,
    #[command(flatten)]
    runs: RunsArgs,
    #[command(flatten)]
    duration: DurationArgs,
    #[command(flatten)]
    sim: SimArgs,
    #[command(flatten)]
    manifest: ManifestArgs,
    #[command(flatten)]
    json: JsonArgs,
    #[command(flatten)]
    html: HtmlArgs,
    #[command(flatten)]
    table: TableArgs,
    /// Also find the settings that explain the largest change: switch them one by one, then
    /// together
    #[arg(long, conflicts_with = "html")]
    bisect: bool,
}

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> Done {
    args.show.check()?;
    args.json.check()?;
    args.html.check()?;
    args.table.check()?;
    if args.workload.file.is_dir() {
        return run_suite(args);
    }
    let variants = variants(args, &args.workload, Notes::Printed)?;
    catch_interrupts();
    let Some(compared) = compared(args, &variants)? else { return Ok(say_interrupted()) };
    let bisection = match args.bisect {
        true => match bisection(args, &variants, &compared)? {
            None => return Ok(say_interrupted()),
            Some(found) => found,
        },
        false => None,
    };
    let text = || match (&bisection, args.bisect) {
        (Some(bisection), _) => format!("{compared}{}\n{bisection}", compared.faults_text()),
        (None, true) => format!("{compared}\nnothing to explain: no figure has changed, or no setting differs\n"),
        (None, false) => compared.to_string() + &compared.faults_text(),
    };
    let json = || {
        let json = match args.bisect {
            true => compared.to_json_bisected(bisection.as_ref()),
            false => compared.to_json(),
        };
        format!("{json:#}\n")
    };
    let about = || HtmlArgs::about(args.workload.file.display());
    busy("writing the page", args.sim.is_quiet(), || {
        args.html.publish(|| Ok(page::of_comparison(&compared, &variants, &about())?))
    })?;
    args.table.publish(|| compared.frame())?;
    args.json.publish(text, json)?;
    Ok(code::OK)
}

/// Runs the variants; `None` after Ctrl-C.
fn compared(args: &Args, variants: &[Variant]) -> Result<Option<Comparison>, Failure> {
    let runs = args.runs.per_variant();
    let mut progress = Progress::new(2 * variants.len() as u64 * runs, "runs", args.sim.is_quiet());
    let more = args.show.show.iter().filter_map(|name| Figure::parse(name.trim()).ok());
    let compared = compare::run_with(variants, runs, &more.collect::<Vec<_>>(), |done| progress.at(done));
    progress.finish();
    match compared {
        Err(Error::Interrupted) => Ok(None),
        compared => Ok(Some(compared?)),
    }
}

/// Finds the settings behind the largest change; `None` after Ctrl-C, `Some(None)` if nothing is to
/// be explained.
fn bisection(args: &Args, variants: &[Variant], compared: &Comparison) -> Result<Option<Option<Bisection>>, Failure> {
    let runs = args.runs.per_variant();
    let mut progress = Progress::new(40 * runs, "runs or so", args.sim.is_quiet());
    let found = compare::bisect(variants, compared, runs, |done| progress.at(done));
    progress.finish();
    match found {
        Err(Error::Interrupted) => Ok(None),
        found => Ok(Some(found?)),
    }
}

/// Compares all workloads of a directory. After Ctrl-C those that are done are printed.
fn run_suite(args: &Args) -> Done {
    let dir = &args.workload.file;
    let entries = std::fs::read_dir(dir).map_err(|error| Failure::reading(dir.display(), &error))?;
    let is_workload = |path: &PathBuf| {
        path.is_file()
            && path.extension().is_some_and(|ending| ["toml", "json", "csv"].iter().any(|known| ending == *known))
    };
    let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).filter(is_workload).collect();
    files.sort();
    if files.is_empty() {
        let message = format!("`{}` has no workload", dir.display());
        return Err(Failure::input_help(message, "workloads end in .toml, .json or .csv"));
    }
    catch_interrupts();
    let (mut suite, mut bisected) = (Suite::default(), SuiteBisection::default());
    for file in files {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let workload = args.workload.with_file(file);
        let outcome = variants(args, &workload, Notes::Omitted)
            .and_then(|variants| Ok(compared(args, &variants)?.map(|compared| (variants, compared))));
        match outcome {
            Ok(None) => break,
            Ok(Some((variants, compared))) => {
                if args.bisect {
                    match bisection(args, &variants, &compared) {
                        Ok(None) => break,
                        Ok(Some(found)) => bisected.workloads.push((name.clone(), found)),
                        Err(failure) => {
                            suite.workloads.push((name, Err(failure.headline())));
                            continue;
                        }
                    }
                }
                suite.workloads.push((name, Ok(compared)));
            }
            Err(failure) => suite.workloads.push((name, Err(failure.headline()))),
        }
    }
    let about = || HtmlArgs::about(dir.display());
    let shown = || Shown { answer: suite.answer(), tables: suite.titled(), ..Shown::default() };
    args.html.publish(|| Ok(page::of_figures(shown(), &about())))?;
    args.table.publish(|| suite.frame())?;
    let text = || if args.bisect { format!("{suite}\n{bisected}") } else { suite.to_string() };
    let json = || if args.bisect { suite.to_json_bisected(&bisected) } else { suite.to_json() };
    args.json.publish(text, || format!("{:#}\n", json()))?;
    if interrupted() {
        eprintln_lossy("interrupted: the workloads that were done are printed");
        return Ok(code::INTERRUPTED);
    }
    Ok(if suite.workloads.iter().any(|(_, compared)| compared.is_ok()) { code::OK } else { code::USAGE })
}

/// Whether notes about a file are printed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Notes {
    Printed,
    Omitted,
}

fn variants(args: &Args, workload: &WorkloadArgs, shown: Notes) -> Result<Vec<Variant>, Failure> {
    let (key, values) = varied(args)?;
    let is_on_one_kernel = args.vary.is_some() || args.policies.len() > 1;
    let kernel = KernelArgs { kernel: args.kernels.first().copied().filter(|_| is_on_one_kernel) };
    let duration = args.duration.clone();
    let policy = PolicyArgs { policy: args.policies.first().cloned().filter(|_| args.policies.len() == 1) };
    let run = RunArgs { sim: args.sim.clone(), kernel, duration, manifest: args.manifest.clone(), policy };
    let simulation = simulation_of(workload, &run)?;
    if args.policies.len() > 1 {
        policy::check(args.policies.iter().map(String::as_str), &simulation)?;
    }
    if let Some(first) = values.first().filter(|_| shown == Notes::Printed && !args.sim.is_quiet()) {
        // Notes about the file are printed once.
        notes(&simulation.clone().set(key, first).plan()?);
    }
    let variants = Variant::per_value(&simulation, key, values.iter().map(String::as_str))?;
    let others = variants.iter().skip(1).filter(|_| shown == Notes::Printed && !args.sim.is_quiet());
    for note in others.filter_map(|variant| Note::of_kernel(variant.plan.kernel)) {
        eprintln_lossy(&format!("note: {note}"));
    }
    Ok(variants)
}

/// Returns the key that is varied, and its values.
fn varied(args: &Args) -> Result<(&str, Vec<String>), Failure> {
    if let Some(vary) = &args.vary {
        let (key, values) = vary
            .split_once('=')
            .ok_or_else(|| Failure::input("--vary: expected KEY=VALUE,..., as in rt_balance=passive,pull_locked"))?;
        let values: Vec<String> = values.split(',').map(ToOwned::to_owned).collect();
        if values.len() < 2 {
            return Err(Failure::input(format!("--vary {vary}: two values or more are wanted")));
        }
        if args.kernels.len() > 1 || key == "kernel" && !args.kernels.is_empty() {
            let help = "give one --kernel, on which all values run, or compare kernels without --vary";
            return Err(Failure::input_help("--vary with several kernels", help));
        }
        return Ok((key, values));
    }
    if args.policies.len() > 1 {
        if args.kernels.len() > 1 {
            let help = "give one --kernel, on which all policies run, or one --policy on several kernels";
            return Err(Failure::input_help("several policies with several kernels", help));
        }
        return Ok(("policy", args.policies.clone()));
    }
    if args.kernels.len() < 2 {
        let help = "for example `--kernel 5.15 --kernel 6.12`, or `--vary base_slice_ns=700000,3000000`";
        return Err(Failure::input_help("nothing to compare: give two kernels or more", help));
    }
    Ok(("kernel", args.kernels.iter().map(|kernel| kernel.name()).collect()))
}

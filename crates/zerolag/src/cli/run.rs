//! `zerolag run`: a workload on a simulated machine, or on the host.

use super::convert::TraceFormat;
use super::failure::{Failure, carets, eprintln_lossy};
use super::options::{self, MachineArgs, WorkloadArgs};
use super::output::JsonArgs;
use super::progress::{Progress, catch_interrupts};
use super::tracing::{self, Target};
use super::{Done, code, input, output, view};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use zerolag::Plan;
use zerolag::goals::{self, Verdict};
use zerolag::model::{Duration, Topology};
use zerolag::report::human::Human;
use zerolag::sim::{End, Wait};
use zerolag::simulation::{Checks, DEFAULT_DURATION, Observe, Report};
use zerolag::tools::rtapp_log::{self, Log};
use zerolag::tools::rtapp_marks::{self, Category};
use zerolag::workload::{self, LoadOptions, Scenario};

/// Arguments of `zerolag run`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) workload: WorkloadArgs,
    /// Where to run it: on the simulated machine, or with real threads on this host's kernel
    #[arg(long, value_name = "HOST", default_value = "sim")]
    on: On,
    #[command(flatten)]
    pub(crate) machine: MachineArgs,
    /// Duration of the run [default: the file's, else until all tasks end, else 10s]
    #[arg(short, long, value_name = "TIME", value_parser = options::duration, allow_hyphen_values = true)]
    pub(crate) duration: Option<Duration>,
    #[command(flatten)]
    pub(crate) json: JsonArgs,
    /// Write a trace
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// The trace's format [default: by extension, .zlt, .pftrace or .txt]
    #[arg(long, value_name = "FORMAT", requires = "trace")]
    pub(crate) trace_format: Option<TraceFormat>,
    /// Write rt-app's own log into this directory, a file per thread (it must exist)
    #[arg(long, value_name = "DIR")]
    pub(crate) rtapp_log: Option<PathBuf>,
    /// Write rt-app's marks into the text of the trace: all, or a list of main, task, loop, event,
    /// stats
    #[arg(long, value_name = "CATEGORIES", requires = "trace", num_args = 0..=1, require_equals = true,
        value_delimiter = ',', default_missing_value = "main,task,loop,event,stats", value_parser = category)]
    pub(crate) rtapp_marks: Vec<Category>,
    /// Do not check the run against the scheduling invariants
    #[arg(long)]
    no_check: bool,
    /// Print only a summary
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

/// Where a workload runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum On {
    /// On the simulated machine
    Sim,
    /// On this host's kernel
    Linux,
}

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> Done {
    match args.on {
        On::Sim => run_simulated(args),
        #[cfg(target_os = "linux")]
        On::Linux => super::on_linux::run(args),
        #[cfg(not(target_os = "linux"))]
        On::Linux => Err(Failure::input("--on linux: this host's kernel is not Linux")),
    }
}

/// Reads a category of rt-app's marks.
fn category(text: &str) -> Result<Category, String> {
    let known = || Category::ALL.map(Category::name).join(", ");
    let found = Category::ALL.into_iter().find(|category| category.name() == text.trim());
    found.ok_or_else(|| format!("known are {}", known()))
}

fn run_simulated(args: &Args) -> Done {
    let trace = args.trace.as_deref().map(|path| Target::new(path, args.trace_format)).transpose()?;
    let trace = trace.map(|target| target.with_marks(&args.rtapp_marks)).transpose()?;
    args.json.check()?;
    if let Some(dir) = &args.rtapp_log {
        output::check_target(&dir.join("log"))?;
    }
    let mut plan = plan_of(&args.workload, &args.machine, args.duration, args.quiet)?;
    let mut log = args.rtapp_log.as_ref().map(|_| Log::new(Arc::clone(&plan.program)));
    if log.is_some() || !args.rtapp_marks.is_empty() {
        plan.program = Arc::new(rtapp_marks::instrument(&plan.program, &args.rtapp_marks));
    }
    catch_interrupts();
    let report = simulate(&plan, trace, args, log.as_mut())?;
    if let (Some(dir), Some(log)) = (&args.rtapp_log, &log) {
        write_log(dir, log)?;
    }
    args.json.publish(|| view::text(&report, args.quiet), || view::json(&report))?;
    let verdicts = goals::judge(&plan.goals, &report.summary);
    for verdict in &verdicts {
        eprintln_lossy(&format!("goal {verdict}"));
    }
    Ok(match verdict(&report) {
        code::OK if !verdicts.iter().all(Verdict::is_met) => code::GOAL_MISSED,
        code => code,
    })
}

/// Reports failures on stderr, and returns the exit code.
fn verdict(report: &Report) -> u8 {
    match &report.outcome.why {
        End::Interrupted => {
            eprintln_lossy(&format!("interrupted after {} of simulated time", Human(report.summary.elapsed)));
            return code::INTERRUPTED;
        }
        why if !why.is_ok() => {
            eprintln_lossy(&format!("error: {why}"));
            return code::FAILURE;
        }
        _ => {}
    }
    if !report.outcome.left_waiting.is_empty() {
        eprintln_lossy(&left_waiting(&report.outcome.left_waiting));
    }
    if report.checks.as_ref().is_some_and(|checks| !checks.is_clean()) {
        eprintln_lossy("error: the run breaks rules of scheduling (see `checks`)");
        return code::FAILURE;
    }
    code::OK
}

/// Lists the tasks that still wait for an event that never came: the run idled to its end.
fn left_waiting(waits: &[Wait]) -> String {
    const LISTED: usize = 10;
    let mut text = "warning: no event will wake these tasks; the run idled to its end".to_owned();
    for wait in waits.iter().take(LISTED) {
        text.push_str(&format!("\n  {wait}"));
    }
    if let Some(more) = waits.len().checked_sub(LISTED).filter(|more| *more > 0) {
        text.push_str(&format!("\n  and {more} more"));
    }
    text
}

/// Reads the workload and applies the command line.
pub(super) fn plan_of(
    workload: &WorkloadArgs,
    machine: &MachineArgs,
    duration: Option<Duration>,
    quiet: bool,
) -> Result<Plan, Failure> {
    let mut scenario = load_scenario(workload, machine, machine.topology())?;
    if !quiet && !scenario.warnings.is_empty() {
        eprintln_lossy(&carets(scenario.warnings.clone()));
    }
    let costs = scenario_costs(machine, &mut scenario)?;
    let parameters = core::mem::take(&mut scenario.parameters);
    let mut plan = Plan::on_kernel(scenario, machine.kernel)
        .map_err(|error| Failure::input(format!("{}: {error}", workload.file.display())))?;
    if let Some(costs) = costs {
        plan = plan.with_costs(costs);
    }
    machine.apply_settings_but(&parameters, &mut plan.config.settings)?;
    if let Some(seed) = machine.seed {
        plan.config.seed = seed;
    }
    if duration.is_some() {
        plan.config.duration = duration;
    }
    if !quiet {
        for cpuset in plan.invalid_partitions() {
            eprintln_lossy(&format!(
                "note: cpuset `{cpuset}`: root invalid (partition config conflicts with housekeeping setup): it has isolated CPUs"
            ));
        }
    }
    if plan.config.duration.is_none() && plan.is_endless() {
        if !quiet {
            eprintln_lossy(&format!(
                "note: tasks loop forever and no duration is given: running {DEFAULT_DURATION} (-d)"
            ));
        }
        plan.config.duration = Some(DEFAULT_DURATION);
    }
    Ok(plan)
}

/// Reads the workload for a machine; `None` is the file's own.
pub(super) fn load_scenario(
    workload: &WorkloadArgs,
    machine: &MachineArgs,
    topology: Option<Topology>,
) -> Result<Scenario, Failure> {
    let (name, bytes) = input::read(&workload.file)?;
    let load = LoadOptions { machine_override: topology, ..workload.load_options(machine) };
    workload::load(&name, &bytes, &load).map_err(|error| Failure::Workload(Box::new(error)))
}

/// Returns the profile named by the command line or the file, if it is not the default.
fn scenario_costs(args: &MachineArgs, scenario: &mut Scenario) -> Result<Option<zerolag::sim::Costs>, Failure> {
    let from_file = scenario.costs.take();
    match args.costs()? {
        Some(costs) => Ok(Some(costs)),
        None => from_file.as_deref().map(options::costs).transpose(),
    }
}

/// Runs the plan, with or without a trace.
fn simulate(plan: &Plan, trace: Option<Target<'_>>, args: &Args, log: Option<&mut Log>) -> Result<Report, Failure> {
    let checks = if args.no_check { Checks::Off } else { Checks::On };
    let total = plan.config.duration.unwrap_or_default().as_nanos() / 1_000_000;
    let mut progress = Progress::new(total, "ms", args.quiet);
    let report = tracing::record(plan, trace, |recorder| {
        let observe = Observe { checks, ..Observe::default() };
        let mut sink = (recorder, log);
        let report = plan.run_into(observe, &mut sink, |now, _| progress.at(now.as_nanos() / 1_000_000))?;
        let end = report.outcome.end;
        Ok((report, end))
    });
    progress.finish();
    report
}

/// Writes rt-app's log, a file per thread.
pub(crate) fn write_log(dir: &Path, log: &Log) -> Result<(), Failure> {
    for (name, rows) in log.threads() {
        // A task's name can contain characters that a file's name cannot.
        let name: String = name.chars().map(|c| if c == '/' || c.is_control() { '_' } else { c }).collect();
        output::write_file(&dir.join(format!("rt-app-{name}.log")), |out| {
            writeln!(out, "{}", rtapp_log::HEAD)?;
            rows.iter().try_for_each(|row| writeln!(out, "{row}"))
        })?;
    }
    Ok(())
}

//! `zerolag rt-migrate-test`: the tool's options and output, on a simulated machine.
//!
//! stdout is the tool's, byte for byte in its format; machine, kernel, costs and seed go to stderr
//! and into the JSON. Differs: the exit code of a failed check is 1, not 255; `-D` ends the test
//! without calling it a failure; process ids are those of the trace.

use super::failure::Failure;
use super::options::{self, TraceArgs};
use super::progress::interrupted;
use super::tool::{Steps, SysInfo, ToolArgs, micros, millis, nanos, tool_duration};
use super::{Done, code, output};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use zerolag::Plan;
use zerolag::model::Duration;
use zerolag::results::{self, Document};
use zerolag_tools::json::Simulated;
use zerolag_tools::rt_migrate::{Edition, Printed, Row, RtMigrate, Totals};
use zerolag_tools::shown;

/// Arguments of `zerolag rt-migrate-test`.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = false)]
pub(crate) struct Args {
    /// Number of threads [default: CPUs + 1]
    #[arg(value_name = "NR_TASKS", allow_negative_numbers = true)]
    tasks: Option<u32>,
    /// Stop if lower prio task is quicker than higher (off)
    #[arg(short, long)]
    check: bool,
    /// Specify a length for the test run; append 'm', 'h' or 'd' to specify minutes, hours or days
    #[arg(short = 'D', long, value_name = "TIME", value_parser = tool_duration)]
    duration: Option<Duration>,
    /// Use equal prio for #CPU-1 tasks (requires > 2 CPUS)
    #[arg(short, long)]
    equal: bool,
    /// Write final results into FILENAME, JSON formatted
    #[arg(long, value_name = "FILENAME")]
    json: Option<PathBuf>,
    /// Number of iterations to run
    #[arg(short, long, value_name = "LOOPS", default_value_t = 50, allow_negative_numbers = true)]
    loops: u32,
    /// Max allowed error (microsecs)
    #[arg(short, long, value_name = "TIME", default_value = "1000", value_parser = micros)]
    maxerr: Duration,
    /// Base priority to start RT tasks with
    #[arg(short, long, value_name = "PRIO", default_value_t = 2, allow_negative_numbers = true)]
    prio: u8,
    /// Run time (ms) to busy loop the threads
    #[arg(short, long, value_name = "TIME", default_value = "20", value_parser = millis)]
    run_time: Duration,
    /// Sleep time (ms) between intervals
    #[arg(short, long, value_name = "TIME", default_value = "100", value_parser = millis)]
    sleep_time: Duration,
    #[command(flatten)]
    tool: ToolArgs,
    /// The tool's edition: 2.4, or 2007 (no thread is pinned; only iterations are printed)
    #[arg(long, value_name = "EDITION", default_value = "2.4", value_parser = edition, help_heading = "Simulation")]
    edition: Edition,
    /// CPU time of one read of the clock in the busy loop
    #[arg(long, value_name = "TIME", default_value = "119ns", value_parser = options::duration, help_heading = "Simulation")]
    loop_time: Duration,
    /// The longest time to leave the barrier [default: 2us; 0ns with costs zero]
    #[arg(long, value_name = "TIME", value_parser = nanos, help_heading = "Simulation")]
    jitter: Option<Duration>,
    #[command(flatten)]
    trace: TraceArgs,
}

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> Done {
    let trace = args.trace.target()?;
    if let Some(path) = &args.json {
        output::check_target(path)?;
    }
    let (test, plan) = plan(args)?;
    let steps = Steps { count: u64::from(test.loops), unit: "iterations", each: test.sleep * 2 };
    let (collector, pictured) = args.tool.collect(&plan, trace, test.collector(), &steps)?;
    let mut rows = collector.into_complete_rows();
    let failed = args.check.then(|| rows.iter().position(|row| test.is_failure(row))).flatten();
    if let Some(at) = failed {
        rows.truncate(at + 1);
    }
    let text = printed(args, &test, &rows, failed.is_some());
    args.tool.publish_page("rt-migrate-test", || shown::of_rt_migrate(&test, &rows), &plan, pictured.as_ref())?;
    output::print(&text)?;
    if let Some(path) = &args.json {
        let text = json_text(&plan, &test, &rows, failed.is_some());
        output::write_text(path, &text)?;
    }
    Ok(match failed {
        _ if interrupted() => code::INTERRUPTED,
        Some(_) => code::FAILURE,
        None => code::OK,
    })
}

/// Builds the plan of the run.
fn plan(args: &Args) -> Result<(RtMigrate, Plan), Failure> {
    let machine = args.tool.machine();
    let cpus = machine.nr_cpus();
    let tasks = args.tasks.unwrap_or_else(|| u32::try_from(cpus + 1).unwrap_or(u32::MAX));
    let is_exact = args.tool.sim.costs()?.is_some_and(|costs| costs.name == "zero");
    let defaults = RtMigrate::new(tasks);
    let mut test = RtMigrate {
        edition: args.edition,
        loops: args.loops,
        base_priority: args.prio,
        equal: args.equal,
        run: args.run_time,
        sleep: args.sleep_time,
        loop_time: args.loop_time,
        jitter: args.jitter.unwrap_or(if is_exact { Duration::ZERO } else { defaults.jitter }),
        max_error: args.maxerr,
        ..defaults
    };
    test.check(cpus).map_err(|error| Failure::input(error.to_string()))?;
    if let Some(duration) = args.duration {
        // The tool ends after the iteration in which the time is over.
        let iterations = duration.as_nanos() / (test.sleep * 2).as_nanos() + 1;
        test.loops = test.loops.min(u32::try_from(iterations).unwrap_or(u32::MAX));
    }
    let plan = args.tool.plan(test.program(cpus), machine)?;
    Ok((test, plan))
}

/// Returns the output of the tool.
fn printed(args: &Args, test: &RtMigrate, rows: &[Row], failed: bool) -> String {
    let mut out = String::new();
    write_results(&mut out, args, test, rows, failed).expect("invariant: a string takes everything");
    out
}

fn write_results(out: &mut String, args: &Args, test: &RtMigrate, rows: &[Row], failed: bool) -> std::fmt::Result {
    if test.edition == Edition::V2_4 {
        out.push_str("Iter: ");
        (0..test.tasks).try_for_each(|task| write!(out, "{task:6}  "))?;
        out.push('\n');
    }
    for (iteration, row) in rows.iter().enumerate() {
        writeln!(out, "{}", Printed(iteration, row))?;
    }
    if test.edition == Edition::V2_4 {
        writeln!(out, "Parent pid: {PARENT_PID}")?;
        for task in 0..test.tasks {
            let pid = PARENT_PID + RtMigrate::task_id(task).0;
            writeln!(out, " Task {task} (prio {}) (pid {pid}):", test.priority(task))?;
            let Some(totals) = Totals::of(rows, task) else { continue };
            writeln!(out, "   Max: {} us", totals.max)?;
            writeln!(out, "   Min: {} us", totals.min)?;
            writeln!(out, "   Tot: {} us", totals.total)?;
            writeln!(out, "   Avg: {} us\n", totals.avg)?;
        }
    }
    match (args.check, failed) {
        (false, _) => Ok(()),
        (true, true) => writeln!(out, " Failed!"),
        (true, false) => writeln!(out, " Passed!"),
    }
}

/// The result of `zerolag rt-migrate-test --json`.
pub(super) const DOCUMENT: Document = Document::of::<RtMigrateFigures>(SCHEMA, "rt-migrate-test");
const SCHEMA: &str = "zerolag.rt-migrate-test.v1";

/// More real-time threads than CPUs: the tool's own form, and the simulation.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct RtMigrateFigures {
    /// The name and version of this form.
    #[schemars(extend("const" = SCHEMA))]
    schema: &'static str,
    /// The version of the tool's form.
    file_version: u32,
    /// The version of the tool.
    rt_test_version: &'static str,
    /// The tool's exit code.
    return_code: u8,
    /// The simulated system.
    sysinfo: SysInfo,
    /// The number of threads.
    num_threads: u32,
    /// The threads, by number.
    thread: BTreeMap<String, RtMigrateThread>,
    /// The number of completed iterations.
    iterations: usize,
    /// The simulation.
    simulation: Simulated,
}

/// A thread of rt-migrate-test. Times are in microseconds; null without an iteration.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct RtMigrateThread {
    /// Its real-time priority.
    prio: u8,
    /// The shortest time to its start.
    min: Option<u64>,
    /// The mean time to its start, rounded down.
    avg: Option<u64>,
    /// The longest time to its start.
    max: Option<u64>,
    /// The sum of the times to its start.
    total: Option<u64>,
}

/// Returns the tool's JSON, without the colons that end two of its keys and without wall time, plus
/// our own keys.
fn json_text(plan: &Plan, test: &RtMigrate, rows: &[Row], failed: bool) -> String {
    let thread = |task: u32| {
        let totals = Totals::of(rows, task);
        let of = |value: fn(&Totals) -> u64| totals.as_ref().map(value);
        RtMigrateThread {
            prio: test.priority(task).value(),
            min: of(|totals| totals.min),
            avg: of(|totals| totals.avg),
            max: of(|totals| totals.max),
            total: of(|totals| totals.total),
        }
    };
    results::text(&RtMigrateFigures {
        schema: SCHEMA,
        file_version: 1,
        rt_test_version: "2.40",
        return_code: u8::from(failed),
        sysinfo: SysInfo::of(plan, None),
        num_threads: test.tasks,
        thread: (0..test.tasks).map(|task| (task.to_string(), thread(task))).collect(),
        iterations: rows.len(),
        simulation: Simulated::by(plan),
    })
}

fn edition(text: &str) -> Result<Edition, String> {
    match text {
        "2007" => Ok(Edition::Y2007),
        "2.4" => Ok(Edition::V2_4),
        _ => Err("known are 2007, 2.4".to_owned()),
    }
}

/// Process ids as in the trace's text: task 0 is 1000.
const PARENT_PID: u32 = 1_000;

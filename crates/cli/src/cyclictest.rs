//! `zerolag cyclictest`: the tool's options and output, on a simulated machine, alone or next to a
//! workload.
//!
//! stdout is the tool's, byte for byte in its format (without the line on `/dev/cpu_dma_latency`,
//! which says that the device could be opened). Machine, kernel, costs and seed go to stderr and
//! into the JSON.
//! Differs: without `-l` and `-D` the test ends after 10 s of simulated time; process ids are those
//! of the trace.

use super::failure::{Failure, eprintln_lossy};
use super::options::{TraceArgs, WorkloadArgs};
use super::progress::interrupted;
use super::tool::{Load, LoadArgs, Steps, SysInfo, ToolArgs, micros, tool_duration};
use super::{Done, code, output};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use zerolag::model::{CpuId, CpuMask, Duration, FairPolicy, Nice, RtPolicy, RtPriority, SchedAttr};
use zerolag::results::{self, Document};
use zerolag::simulation::DEFAULT_DURATION;
use zerolag::workload::{self, Program};
use zerolag::{Plan, Workload};
use zerolag_tools::cyclictest::{Cyclictest, Latencies, Line, Overall, Unit, histogram};
use zerolag_tools::json::Simulated;
use zerolag_tools::shown;

/// Arguments of `zerolag cyclictest`.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// A workload that runs next to the test: scenario TOML, rt-app JSON or a task set
    #[arg(value_name = "WORKLOAD")]
    workload: Option<PathBuf>,
    /// Run thread #N on processor #N, or on the processors of a set in round-robin order
    #[arg(short, long, value_name = "CPUSET", num_args = 0..=1, default_missing_value = "all")]
    affinity: Option<String>,
    /// Align thread wakeups to a specific offset (us)
    #[arg(short = 'A', long, value_name = "USEC", num_args = 0..=1, default_missing_value = "0", value_parser = micros)]
    aligned: Option<Duration>,
    /// Distance of thread intervals in us
    #[arg(short, long, value_name = "DIST", default_value = "500", value_parser = micros)]
    distance: Duration,
    /// Specify a length for the test run; append 'm', 'h' or 'd' to specify minutes, hours or days
    #[arg(short = 'D', long, value_name = "TIME", value_parser = tool_duration)]
    duration: Option<Duration>,
    /// Dump a latency histogram to stdout after the run; US is the max latency time to be tracked
    /// in microseconds
    #[arg(short = 'h', long, value_name = "US", conflicts_with = "histofall")]
    histogram: Option<usize>,
    /// Same as -h except with an additional summary column
    #[arg(short = 'H', long, value_name = "US")]
    histofall: Option<usize>,
    /// Dump the latency histogram to PATH instead of stdout
    #[arg(long, value_name = "PATH")]
    histfile: Option<PathBuf>,
    /// Base interval of thread in us
    #[arg(short, long, value_name = "INTV", default_value = "1000", value_parser = micros)]
    interval: Duration,
    /// Write final results into FILENAME, JSON formatted
    #[arg(long, value_name = "FILENAME")]
    json: Option<PathBuf>,
    /// Keeps CPUs out of idle states that take longer to leave (us): the tool holds
    /// /dev/cpu_dma_latency at this value. Acts on the `idle_states` of a cost profile
    #[arg(long, value_name = "USEC", default_value = "0", value_parser = micros)]
    latency: Duration,
    /// Number of loops; 0 is endless
    #[arg(short, long, value_name = "LOOPS", default_value_t = 0)]
    loops: u64,
    /// Lock current and future memory allocations: no effect on a simulation
    #[arg(short, long)]
    mlockall: bool,
    /// Print results in ns instead of us
    #[arg(short = 'N', long)]
    nsecs: bool,
    /// Priority of highest prio thread
    #[arg(short, long, value_name = "PRIO", value_parser = clap::value_parser!(u8).range(0..=99))]
    priority: Option<u8>,
    /// Policy of measurement thread: other, normal, batch, idle, fifo or rr
    #[arg(long, value_name = "NAME", value_parser = ["other", "normal", "batch", "idle", "fifo", "rr"])]
    policy: Option<String>,
    /// Spread priority levels starting at specified value
    #[arg(long)]
    priospread: bool,
    /// Use relative timer instead of absolute
    #[arg(short, long)]
    relative: bool,
    /// Standard SMP testing: options -a -t and same priority of all threads
    #[arg(short = 'S', long, conflicts_with = "priospread")]
    smp: bool,
    /// Number of threads; without NUM one per processor
    #[arg(short, long, value_name = "NUM", num_args = 0..=1, default_missing_value = "0")]
    threads: Option<u32>,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
    #[command(flatten)]
    load: LoadArgs,
    #[command(flatten)]
    tool: ToolArgs,
    #[command(flatten)]
    trace: TraceArgs,
}

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> Done {
    let trace = args.trace.target()?;
    for path in args.json.iter().chain(&args.histfile) {
        output::check_target(path)?;
    }
    let (test, plan) = plan(args)?;
    let each = Duration::from_millis(1);
    let steps =
        Steps { count: plan.config.duration.unwrap_or_default().as_nanos() / each.as_nanos(), unit: "ms", each };
    let (collector, pictured) = args.tool.collect(&plan, trace, test.collector(), &steps)?;
    let threads = collector.into_threads();
    let lines = printed(args, &test, &threads);
    args.tool.publish_page("cyclictest", || shown::of_cyclictest(&test, &threads), &plan, pictured.as_ref())?;
    match &args.histfile {
        Some(path) if test.histogram.is_some() => {
            output::write_text(path, &lines)?;
        }
        _ => output::print(&lines)?,
    }
    if let Some(path) = &args.json {
        let text = json_text(&plan, &test, &threads);
        output::write_text(path, &text)?;
    }
    Ok(if interrupted() { code::INTERRUPTED } else { code::OK })
}

/// Builds the plan of the run.
fn plan(args: &Args) -> Result<(Cyclictest, Plan), Failure> {
    let workload = args.workload.clone().map(WorkloadArgs::of);
    let machine_args = &args.tool.sim.machine;
    if workload.is_some() && args.load.load != Load::None {
        let help = "put the load into the workload, or leave the workload out";
        return Err(Failure::input_help("--load is for a test without a workload", help));
    }
    let beside = workload.map(|workload| workload.scenario(machine_args));
    let (test, simulation) = match beside.transpose()? {
        Some(mut scenario) => {
            let machine = machine_args.topology().unwrap_or_else(|| scenario.machine_or_default());
            let test = test(args, machine.nr_cpus())?;
            scenario.machine = Some(machine);
            scenario.program = test.program(scenario.program);
            (test, args.tool.simulation(scenario.into()))
        }
        None => {
            let machine = args.tool.machine();
            let test = test(args, machine.nr_cpus())?;
            let mut beside = Program::default();
            if args.load.load != Load::None {
                // The load keeps off isolated CPUs, which are a setting.
                args.load.add_to(&mut beside, &args.tool.plan(Program::default(), machine.clone())?);
            }
            let program = test.program(beside);
            (test, args.tool.simulation(Workload::of_program(program, machine)))
        }
    };
    let mut plan = simulation.duration(duration(args, &test)).plan()?.plan;
    plan.config.costs.bound_idle_exit(args.latency);
    Ok((test, plan))
}

/// Returns how long the test takes at most.
fn duration(args: &Args, test: &Cyclictest) -> Duration {
    // All cycles of the slowest thread, plus time for the last one to be late.
    let longest = test.interval(test.threads.saturating_sub(1));
    let cycles = test.loops.map(|loops| {
        let all = longest.as_nanos().saturating_mul(loops.saturating_add(2));
        Duration::from_nanos(all).saturating_add(Duration::from_secs(1))
    });
    let duration = match (args.duration, cycles) {
        (Some(duration), Some(cycles)) => duration.min(cycles),
        (Some(duration), None) => duration,
        (None, Some(cycles)) => cycles,
        (None, None) => DEFAULT_DURATION,
    };
    duration.min(workload::random::MAX_TIME)
}

fn test(args: &Args, cpus: usize) -> Result<Cyclictest, Failure> {
    let threads = match args.threads {
        Some(0) => u32::try_from(cpus).unwrap_or(u32::MAX),
        Some(threads) => threads,
        None if args.smp => u32::try_from(cpus).unwrap_or(u32::MAX),
        None => 1,
    };
    if threads > THREADS_MAX {
        return Err(Failure::input(format!("{threads} threads are too many; at most {THREADS_MAX}")));
    }
    if args.interval.is_zero() {
        return Err(Failure::input("--interval: a thread needs an interval above zero"));
    }
    let histogram = args.histogram.or(args.histofall);
    if histogram.is_some_and(|size| size == 0 || size > HISTOGRAM_MAX) {
        return Err(Failure::input(format!("the histogram has 1..={HISTOGRAM_MAX} latencies")));
    }
    if histogram.is_some() && args.distance != Duration::from_micros(500) {
        eprintln_lossy("WARN: distance is ignored and set to 0, if histogram enabled");
    }
    Ok(Cyclictest {
        threads,
        attr: attr(args)?,
        spread: args.priospread,
        affinity: affinity(args, cpus)?,
        interval: args.interval,
        distance: if args.smp { Duration::ZERO } else { args.distance },
        loops: (args.loops > 0).then_some(args.loops),
        relative: args.relative,
        aligned: args.aligned,
        unit: if args.nsecs { Unit::Nanos } else { Unit::Micros },
        histogram,
    })
}

/// Chooses the attributes as the tool does: a priority alone means FIFO, a real-time policy alone
/// priority 2.
fn attr(args: &Args) -> Result<SchedAttr, Failure> {
    let priority = args.priority.unwrap_or(0);
    let policy = args.policy.as_deref().unwrap_or(if priority > 0 { "fifo" } else { "other" });
    let rt = |policy| {
        if priority == 0 {
            eprintln_lossy("defaulting realtime priority to 2");
        }
        let value = if priority == 0 { 2 } else { i64::from(priority) };
        RtPriority::new(value).map(|priority| SchedAttr::Rt { policy, priority })
    };
    let fair = |policy| Some(SchedAttr::Fair { policy, nice: Nice::ZERO, slice: None });
    let attr = match policy {
        "fifo" => rt(RtPolicy::Fifo),
        "rr" => rt(RtPolicy::Rr),
        "batch" => fair(FairPolicy::Batch),
        "idle" => fair(FairPolicy::Idle),
        _ => fair(FairPolicy::Other),
    };
    attr.ok_or_else(|| Failure::input(format!("priority {priority} is outside 1..=99")))
}

fn affinity(args: &Args, cpus: usize) -> Result<Option<Vec<CpuId>>, Failure> {
    let all = || Some((0..cpus).map(CpuId::from_index).collect());
    match args.affinity.as_deref() {
        None if args.smp => Ok(all()),
        None => Ok(None),
        Some("all") => Ok(all()),
        Some(list) => {
            let mask: CpuMask = list.parse().map_err(|error| Failure::input(format!("--affinity {list}: {error}")))?;
            if mask.is_empty() || mask.next_from(CpuId::from_index(cpus)).is_some() {
                return Err(Failure::input(format!("--affinity {list}: the machine has CPUs 0..={}", cpus - 1)));
            }
            Ok(Some(mask.iter().collect()))
        }
    }
}

/// Returns the output of the tool.
fn printed(args: &Args, test: &Cyclictest, threads: &[Latencies]) -> String {
    if test.histogram.is_some() {
        return histogram(threads, if args.histofall.is_some() { Overall::Yes } else { Overall::No });
    }
    let line = |(thread, latencies): (u32, &Latencies)| {
        let priority = match test.attr(thread) {
            SchedAttr::Rt { priority, .. } => priority.value(),
            SchedAttr::Fair { .. } | SchedAttr::Ext { .. } | SchedAttr::Deadline(_) => 0,
        };
        let (interval, unit) = (test.interval(thread), test.unit);
        format!("{}\n", Line { thread, pid: FIRST_PID + thread, priority, interval, latencies, unit })
    };
    (0..).zip(threads).map(line).collect()
}

/// The result of `zerolag cyclictest --json`.
pub(super) const DOCUMENT: Document = Document::of::<CyclictestFigures>(SCHEMA, "cyclictest");
const SCHEMA: &str = "zerolag.cyclictest.v1";

/// Wakeup latency of threads: the tool's own form, and the simulation.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct CyclictestFigures {
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
    /// 1 if latencies are in nanoseconds (`-N`), 0 if they are in microseconds.
    resolution_in_ns: u8,
    /// The threads, by number.
    thread: BTreeMap<String, CyclictestThread>,
    /// The simulation.
    simulation: Simulated,
}

/// A thread of cyclictest. Latencies are in the unit of `resolution_in_ns`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct CyclictestThread {
    /// With `-h`: the number of cycles by latency.
    #[serde(skip_serializing_if = "Option::is_none")]
    histogram: Option<BTreeMap<String, u64>>,
    /// The number of cycles.
    cycles: u64,
    /// The smallest latency.
    min: u64,
    /// The largest latency.
    max: u64,
    /// The mean latency, with two digits.
    avg: f64,
    /// The CPU; 0 if the thread is not bound.
    cpu: u32,
    /// The node: -1, none.
    node: i32,
}

/// Returns the tool's JSON, without the colons that end two of its keys and without wall time, plus
/// our own keys.
fn json_text(plan: &Plan, test: &Cyclictest, threads: &[Latencies]) -> String {
    let thread = |number: u32, latencies: &Latencies| {
        let filled = latencies.buckets.iter().enumerate().filter(|(_, count)| **count > 0);
        let buckets = || filled.map(|(at, count)| (at.to_string(), *count)).collect();
        CyclictestThread {
            histogram: test.histogram.is_some().then(buckets),
            cycles: latencies.cycles,
            min: latencies.min,
            max: latencies.max,
            // Two digits, as in the tool's output.
            avg: hundredths(latencies),
            cpu: test.cpu(number).map_or(0, |cpu| cpu.0),
            node: -1,
        }
    };
    let list = (0..).zip(threads).map(|(number, latencies)| (number.to_string(), thread(number, latencies)));
    results::text(&CyclictestFigures {
        schema: SCHEMA,
        file_version: 1,
        rt_test_version: "2.40",
        return_code: 0,
        sysinfo: SysInfo::of(plan, Some(0)),
        num_threads: test.threads,
        resolution_in_ns: u8::from(test.unit == Unit::Nanos),
        thread: list.collect(),
        simulation: Simulated::by(plan),
    })
}

/// Returns the mean with two digits after the point.
fn hundredths(latencies: &Latencies) -> f64 {
    let scaled = (u128::from(latencies.sum) * 100).checked_div(u128::from(latencies.cycles)).unwrap_or(0);
    u32::try_from(scaled).map_or(f64::from(u32::MAX), f64::from) / 100.0
}

/// The process id of the first thread: that of task 0 in the trace's text.
const FIRST_PID: u32 = 1_000;
/// The most threads.
const THREADS_MAX: u32 = 100_000;
/// The largest histogram, as in the tool.
const HISTOGRAM_MAX: usize = 1_000_000;

//! `zerolag timerlat` and `zerolag osnoise`: rtla's options and output, on a simulated machine.
//!
//! stdout is the final output of `rtla timerlat top -q`, `rtla osnoise top -q` and both tools'
//! `hist`; machine, kernel, costs and seed go to stderr. Differs:
//!
//! * nothing is printed during the run, and without `-d` a run lasts a minute;
//! * `--cpus` is the machine's size, as for every subcommand; rtla's option of that name is only
//!   `-c`. Without it the machine has four CPUs, or as many as `-c` and `--isolcpus` name;
//! * threads are kernel threads unless `-u` is given;
//! * there is no auto-analysis: `zerolag explain` does that with the trace.
//!
//! As in rtla, collection stops at a threshold, and only then `-t` saves a trace: the last records
//! of the run, as many as fit into a buffer of the kernel's default size. The exit code is 2 then
//! (EXIT STATUS of its manual). `table` has rtla's options: followed, without effect, or refused.

mod run;
mod table;
mod values;

use super::Done;
use super::failure::Failure;
use super::output::{DrawArgs, of_timerlat};
use clap::ValueEnum;
use run::{Shape, SimulationArgs};
use table::{Given, OfOsnoise, OfTimerlat, Tool};
pub(crate) use values::cpu_list;
use zerolag::model::{Duration, SchedAttr};
use zerolag_tools::json;
use zerolag_tools::osnoise::{self, Osnoise};
use zerolag_tools::rtla::{Histogram, TableOptions};
use zerolag_tools::shown;
use zerolag_tools::timerlat::{self, HistOptions, Timerlat};

/// How latencies are shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum RtlaMode {
    /// A line per CPU
    Top,
    /// A histogram
    Hist,
}

/// Arguments of `zerolag timerlat`.
#[derive(Debug, clap::Args)]
pub(crate) struct TimerlatArgs {
    /// The form of the output
    #[arg(value_enum, default_value = "top")]
    mode: RtlaMode,
    #[command(flatten)]
    given: Given<OfTimerlat>,
    #[command(flatten)]
    draw: DrawArgs,
    #[command(flatten)]
    simulation: SimulationArgs,
}

/// Arguments of `zerolag osnoise`.
#[derive(Debug, clap::Args)]
pub(crate) struct OsnoiseArgs {
    /// The form of the output
    #[arg(value_enum, default_value = "top")]
    mode: RtlaMode,
    #[command(flatten)]
    given: Given<OfOsnoise>,
    #[command(flatten)]
    simulation: SimulationArgs,
}

/// Arguments of `zerolag rtla`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    tool: RtlaTool,
}

/// The tools of rtla.
#[derive(Debug, clap::Subcommand)]
enum RtlaTool {
    /// timerlat: latency of a periodic real-time thread per CPU
    Timerlat(TimerlatArgs),
    /// osnoise: interruptions of a busy thread per CPU
    Osnoise(OsnoiseArgs),
}

/// Runs `zerolag rtla`.
pub(crate) fn run(args: &Args) -> Done {
    match &args.tool {
        RtlaTool::Timerlat(args) => timerlat(args),
        RtlaTool::Osnoise(args) => osnoise(args),
    }
}

/// Runs `zerolag timerlat`.
pub(crate) fn timerlat(args: &TimerlatArgs) -> Done {
    let given = &args.given;
    given.refuse(args.mode)?;
    let shape = Shape::of(given, "timerlat");
    let (mut plan, all) = args.simulation.plan(&shape)?;
    if let Some(latency) = given.get::<u64>("dma-latency") {
        plan.config.costs.bound_idle_exit(Duration::from_micros(latency));
    }
    if let Some(deepest) = given.get::<i64>("deepest-idle-state") {
        // The kernel uses its first state also if all are disabled.
        let states = usize::try_from(deepest.max(0)).unwrap_or(usize::MAX).saturating_add(1);
        plan.config.costs.idle_states.truncate(states);
    }
    let cpus = shape.cpus(&all)?;
    let unit = if given.has("nano") { 1 } else { 1_000 };
    let test = Timerlat {
        cpus,
        period: given.get("period").unwrap_or_default(),
        attr: given.get("priority").unwrap_or(const { SchedAttr::fifo_at(95) }),
        user: given.has("user-threads"),
        stop_irq: threshold(given.get("irq").or(given.get("auto"))),
        stop_thread: threshold(given.get("thread").or(given.get("auto"))),
        kernel: if plan.config.costs.name == "zero" { Duration::ZERO } else { Duration::from_micros(2) },
    };
    if test.period.is_zero() {
        return Err(Failure::input("--period 0: the period must be above zero".to_owned()));
    }
    plan.program = args.simulation.program(test.threads(), &plan, &all).into();
    let classes = histogram(given, unit);
    let collector = test.collector(plan.config.topology.nr_cpus(), Some(classes));
    let mut collector = collector.with_costs(plan.config.costs.clone());
    given.note();
    let (ran, ended) = args.simulation.run(&plan, &all, &mut collector, &shape)?;
    let text = match args.mode {
        RtlaMode::Top => timerlat::top(&collector, ran),
        RtlaMode::Hist => {
            let options =
                HistOptions { no_irq: given.has("no-irq"), no_thread: given.has("no-thread"), table: options(given) };
            timerlat::hist(&collector, ran, classes, options)
        }
    };
    ended.publish_page(&args.simulation, "timerlat", || shown::of_timerlat(&collector, classes), &plan)?;
    let json = &args.simulation.json;
    let look = args.draw.look().filter(|_| !args.simulation.is_quiet());
    let drawn = || look.map(|look| format!("\n{}", of_timerlat(&collector, classes, look)));
    json.publish(
        || drawn().map_or(text.clone(), |drawn| text.clone() + &drawn),
        || json::timerlat(&collector, classes, ran, &plan),
    )?;
    ended.save("timerlat", &shape.saves, &plan, json)
}

/// Runs `zerolag osnoise`.
pub(crate) fn osnoise(args: &OsnoiseArgs) -> Done {
    let given = &args.given;
    given.refuse(args.mode)?;
    let shape = Shape::of(given, "osnoise");
    let (mut plan, all) = args.simulation.plan(&shape)?;
    let time = |long| given.get::<Duration>(long).unwrap_or_default();
    let (period, runtime) = (time("period"), time("runtime"));
    if runtime.is_zero() || runtime > period {
        return Err(Failure::input("--runtime must be above zero and at most --period".to_owned()));
    }
    let test = Osnoise {
        cpus: shape.cpus(&all)?,
        period,
        runtime,
        attr: given.get("priority").unwrap_or(SchedAttr::NORMAL),
        threshold: time("threshold"),
        stop: threshold(given.get("stop").or(given.get("auto"))),
        stop_total: threshold(given.get("stop-total")),
    };
    plan.program = args.simulation.program(test.threads(), &plan, &all).into();
    let classes = histogram(given, 1_000);
    let mut collector = test.collector(plan.config.topology.nr_cpus(), Some(classes));
    given.note();
    let (ran, ended) = args.simulation.run(&plan, &all, &mut collector, &shape)?;
    let text = match args.mode {
        RtlaMode::Top => osnoise::top(&collector, ran),
        RtlaMode::Hist => osnoise::hist(&collector, ran, classes, options(given)),
    };
    ended.publish_page(&args.simulation, "osnoise", || shown::of_osnoise(&collector, classes), &plan)?;
    let json = &args.simulation.json;
    json.publish(|| text, || json::osnoise(&collector, classes, ran, &plan))?;
    ended.save("osnoise", &shape.saves, &plan, json)
}

fn histogram<T: Tool>(given: &Given<T>, unit: u64) -> Histogram {
    let entries = given.get::<u32>("entries").unwrap_or(256) as usize;
    Histogram { bucket: given.get("bucket-size").unwrap_or(1), entries, unit }
}

fn options<T: Tool>(given: &Given<T>) -> TableOptions {
    TableOptions {
        no_header: given.has("no-header"),
        no_summary: given.has("no-summary"),
        no_index: given.has("no-index"),
        with_zeros: given.has("with-zeros"),
    }
}

/// Returns a threshold; zero means none, as in the tracer's own files.
fn threshold(given: Option<Duration>) -> Option<Duration> {
    given.filter(|threshold| !threshold.is_zero())
}

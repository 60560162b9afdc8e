//! `zerolag repro`: published experiments, repeated.

use super::failure::{Failure, eprintln_lossy};
use super::output::HtmlArgs;
use super::progress::{Progress, catch_interrupts, interrupted};
use super::{Done, code, output};
use clap::Subcommand;
use std::fmt;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use zerolag::model::Duration;
use zerolag::page::{self, Shown};
use zerolag::values::{costs, setting};
use zerolag_lab::repro::bandwidth::{Bandwidth2010, Scale, Why};
use zerolag_lab::repro::dl_server::DlServer2023;
use zerolag_lab::repro::inversion::{Inversion2012, Placements};
use zerolag_lab::repro::rt_balance::{Mode, Results, RtBalance2007};
use zerolag_lab::repro::rt_ipi::{Build, RtIpi2017, Variant};

/// Arguments of `zerolag repro`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    experiment: Option<Experiment>,
}

#[derive(Debug, Subcommand)]
enum Experiment {
    /// 2007: push and pull of real-time tasks against the periodic balancer
    RtBalance(RtBalanceArgs),
    /// 2010: a limit enforced by a pool, by hard limits, and by pinning to as many CPUs
    Bandwidth(BandwidthArgs),
    /// 2012: tasks throttled while they hold what others wait for, and five cures
    Inversion(InversionArgs),
    /// 2017: three generations of pulling real-time tasks, from 4 to 4096 CPUs
    RtIpi(RtIpiArgs),
    /// 2023: deadline servers against starvation, next to RT throttling
    DlServer(DlServerArgs),
    /// All of them, with every table and plot of docs/explanation: some ten minutes of two CPUs
    All(AllArgs),
}

/// How an experiment is run, and the place of its results.
#[derive(Clone, Debug, clap::Args)]
struct ExperimentArgs {
    /// Number of worker threads [default: one per CPU of this host]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Directory for tables, plots and JSON
    #[arg(long, value_name = "DIR", default_value = "target/repro")]
    out: PathBuf,
    #[command(flatten)]
    html: HtmlArgs,
}

impl ExperimentArgs {
    /// Returns the number of worker threads.
    fn threads(&self) -> usize {
        self.threads.map_or_else(|| std::thread::available_parallelism().map_or(1, usize::from), usize::from)
    }
}

#[derive(Debug, clap::Args)]
struct RtBalanceArgs {
    /// Tests per mode, each of 50 wakeups
    #[arg(long, value_name = "N", default_value_t = 6_500, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    tests: u64,
    /// The first test's seed
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Beside the test, a fair task on each CPU is in the kernel for up to this many microseconds
    #[arg(long, value_name = "US", value_parser = clap::value_parser!(u64).range(2..=1_000_000))]
    kernel_load: Option<u64>,
    #[command(flatten)]
    work: ExperimentArgs,
}

#[derive(Debug, clap::Args)]
struct BandwidthArgs {
    /// Change a setting of the frozen ones (`zerolag settings` lists them)
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = setting, allow_hyphen_values = true)]
    set: Vec<(String, String)>,
    /// Instead: hard limits with one mechanism changed at a time, each against the published cells
    #[arg(long, conflicts_with_all = ["set", "scale"])]
    why: bool,
    /// Instead: what keeping a limit costs on 4 to 1024 CPUs, by slice
    #[arg(long, conflicts_with = "set")]
    scale: bool,
    #[command(flatten)]
    work: ExperimentArgs,
}

#[derive(Debug, clap::Args)]
struct RtIpiArgs {
    /// Leave out machines with more CPUs than this
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(4..=4096))]
    max_cpus: u32,
    /// Only machines with this many CPUs
    #[arg(long, value_name = "N,N", value_delimiter = ',')]
    cpus: Vec<u32>,
    /// The cost profile: a name, or a TOML file (`zerolag run --costs`)
    #[arg(long, value_name = "NAME|FILE", default_value = "default")]
    costs: String,
    /// Machines of 80 to 511 CPUs have eight sockets and one thread per core instead of four and
    /// two, as those of the profiles xeon-e7-8s, for which it is the default
    #[arg(long)]
    eight_sockets: bool,
    /// The mean sleep of a task of the stress in microseconds: 200 is some 4000 turns a second
    #[arg(long, value_name = "US", default_value_t = 200, value_parser = clap::value_parser!(u64).range(10..=100_000))]
    pause: u64,
    /// Run our reading of the reverted patch of 2016 too
    #[arg(long)]
    reverted: bool,
    /// The seed of every run
    #[arg(long, value_name = "N", default_value_t = 2017)]
    seed: u64,
    #[command(flatten)]
    work: ExperimentArgs,
}

#[derive(Debug, clap::Args)]
struct InversionArgs {
    /// Runs of each row
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    seeds: u64,
    /// Instead: by the CPU of the disk's interrupt and by how long a CPU takes to leave idle, ten
    /// runs of each
    #[arg(long, conflicts_with = "seeds")]
    placements: bool,
    #[command(flatten)]
    work: ExperimentArgs,
}

#[derive(Debug, clap::Args)]
struct DlServerArgs {
    /// Simulated minutes of each run
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    minutes: u64,
    /// Seed of all random numbers
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    #[command(flatten)]
    work: ExperimentArgs,
}

#[derive(Debug, clap::Args)]
struct AllArgs {
    #[command(flatten)]
    work: ExperimentArgs,
}

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> Done {
    match &args.experiment {
        None => {
            output::print(
                "rt-balance  2007: push and pull of real-time tasks against the periodic balancer\n\
                 bandwidth   2010: a limit enforced by a pool, by hard limits, and by pinning to as many CPUs\n\
                 inversion   2012: tasks throttled while they hold what others wait for, and five cures\n\
                 rt-ipi      2017: three generations of pulling real-time tasks, from 4 to 4096 CPUs\n\
                 dl-server   2023: deadline servers against starvation, next to RT throttling\n\
                 all         every table and plot of docs/explanation\n",
            )?;
            Ok(code::OK)
        }
        Some(Experiment::RtBalance(args)) => rt_balance(args),
        Some(Experiment::Bandwidth(args)) => bandwidth(args),
        Some(Experiment::Inversion(args)) => inversion(args),
        Some(Experiment::RtIpi(args)) => rt_ipi(args),
        Some(Experiment::DlServer(args)) => dl_server(args),
        Some(Experiment::All(args)) => all(args),
    }
}

/// Runs every experiment as its page quotes it.
fn all(args: &AllArgs) -> Done {
    let work = || args.work.clone();
    let balance = |tests, kernel_load| RtBalanceArgs { tests, seed: 0, kernel_load, work: work() };
    let ipi = |cpus, costs: &str| RtIpiArgs {
        max_cpus: 4_096,
        cpus,
        costs: costs.to_owned(),
        eight_sockets: false,
        pause: 200,
        reverted: false,
        seed: 2_017,
        work: work(),
    };
    let runs: [&dyn Fn() -> Done; 7] = [
        &|| rt_balance(&balance(6_500, None)),
        &|| rt_balance(&balance(40, Some(KERNEL_LOAD))),
        &|| bandwidth(&BandwidthArgs { set: Vec::new(), why: false, scale: false, work: work() }),
        &|| inversion(&InversionArgs { seeds: 10, placements: false, work: work() }),
        &|| rt_ipi(&ipi(Vec::new(), "default")),
        &|| rt_ipi(&ipi(vec![80, 120], "xeon-e7-4s")),
        &|| dl_server(&DlServerArgs { minutes: 10, seed: 0, work: work() }),
    ];
    for run in runs {
        let code = run()?;
        if code != code::OK {
            return Ok(code);
        }
    }
    Ok(code::OK)
}

/// The load beside the test of 2007 in docs/explanation, in microseconds.
const KERNEL_LOAD: u64 = 3_000;

/// Progress that several threads report; a thread that finds it locked does not wait.
struct Told(Mutex<Progress>);

impl Told {
    /// Starts to report `count` steps.
    fn begin(count: u64, things: &'static str) -> Self {
        catch_interrupts();
        Self(Mutex::new(Progress::new(count, things, false)))
    }

    fn at(&self, done: u64) -> ControlFlow<()> {
        match self.0.try_lock() {
            Ok(mut progress) => progress.at(done),
            Err(_) => go_on(),
        }
    }

    fn finish(&self) {
        if let Ok(progress) = self.0.lock() {
            progress.finish();
        }
    }
}

fn go_on() -> ControlFlow<()> {
    if interrupted() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

/// Creates the directory of the results, before they are computed.
fn make_room(work: &ExperimentArgs) -> Result<(), Failure> {
    work.html.check()?;
    std::fs::create_dir_all(&work.out).map_err(|error| Failure::writing(&work.out, &error))
}

/// Writes the results: `text` to standard output and to `NAME.txt`, the other files next to that,
/// and a page if it is wanted.
fn publish(work: &ExperimentArgs, name: &str, text: &str, mut files: Vec<(String, String)>, shown: Shown) -> Done {
    let out: &Path = &work.out;
    let about = || HtmlArgs::about(format_args!("repro {name}"));
    work.html.publish(|| Ok(page::of_figures(shown, &about())))?;
    files.push((format!("{name}.txt"), text.to_owned()));
    for (file, content) in &files {
        output::write_text(&out.join(file), content)?;
    }
    output::print(text)?;
    let names: Vec<&str> = files.iter().map(|(file, _)| file.as_str()).collect();
    eprintln_lossy(&format!("wrote to {}: {}", out.display(), names.join(", ")));
    Ok(if interrupted() { code::INTERRUPTED } else { code::OK })
}

fn json(name: &str, value: &impl fmt::Display) -> (String, String) {
    (format!("{name}.json"), format!("{value:#}\n"))
}

fn dl_server(args: &DlServerArgs) -> Done {
    let experiment = DlServer2023 {
        duration: Duration::from_secs(60) * args.minutes,
        seed: args.seed,
        threads: args.work.threads(),
    };
    make_room(&args.work)?;
    catch_interrupts();
    let Some(results) = experiment.run(|_| go_on()) else { return Ok(code::INTERRUPTED) };
    let shown =
        Shown { answer: results.answer(), plots: results.plots(), tables: results.tables(), ..Shown::default() };
    publish(&args.work, "dl-server", &results.to_string(), vec![json("dl-server", &results.to_json())], shown)
}

/// The read times by what the text does not say of its machine.
fn inversion_placements(args: &InversionArgs) -> Done {
    let experiment = Placements { threads: args.work.threads(), ..Placements::default() };
    make_room(&args.work)?;
    let told = Told::begin(experiment.nr_runs(), "runs");
    let placed = experiment.run(|run| told.at(run));
    told.finish();
    let Some(placed) = placed else { return Ok(code::INTERRUPTED) };
    let shown = Shown { tables: vec![placed.titled()], ..Shown::default() };
    publish(&args.work, "inversion-placements", &placed.to_string(), Vec::new(), shown)
}

fn inversion(args: &InversionArgs) -> Done {
    if args.placements {
        return inversion_placements(args);
    }
    let experiment = Inversion2012 { seeds: args.seeds, threads: args.work.threads(), ..Inversion2012::default() };
    make_room(&args.work)?;
    let told = Told::begin(experiment.cases().len() as u64 * args.seeds, "runs");
    let results = experiment.run(|run| told.at(run));
    told.finish();
    let Some(results) = results else { return Ok(code::INTERRUPTED) };
    let shown =
        Shown { answer: results.answer(), plots: results.plots(), tables: results.tables(), ..Shown::default() };
    publish(&args.work, "inversion", &results.to_string(), vec![json("inversion", &results.to_json())], shown)
}

/// The experiments that decide what made hard limits lose the machine.
fn bandwidth_why(args: &BandwidthArgs) -> Done {
    let cells = Bandwidth2010 { threads: args.work.threads(), ..Bandwidth2010::default() };
    let experiment = Why { cells, ..Why::default() };
    make_room(&args.work)?;
    let told = Told::begin(experiment.nr_runs(), "runs");
    let reasons = experiment.run(|run| told.at(run));
    told.finish();
    let shown = Shown { tables: vec![reasons.titled()], ..Shown::default() };
    publish(&args.work, "bandwidth-why", &reasons.to_string(), Vec::new(), shown)
}

/// The costs of a limit by the size of the machine.
fn bandwidth_scale(args: &BandwidthArgs) -> Done {
    let experiment = Scale { threads: args.work.threads(), ..Scale::default() };
    make_room(&args.work)?;
    let told = Told::begin(experiment.runs().len() as u64, "runs");
    let scaled = experiment.run(|run| told.at(run));
    told.finish();
    let shown = Shown { tables: vec![scaled.titled()], ..Shown::default() };
    publish(&args.work, "bandwidth-scale", &scaled.to_string(), Vec::new(), shown)
}

fn bandwidth(args: &BandwidthArgs) -> Done {
    if args.why {
        return bandwidth_why(args);
    }
    if args.scale {
        return bandwidth_scale(args);
    }
    let settings = args.set.clone();
    let experiment = Bandwidth2010 { settings, threads: args.work.threads(), ..Bandwidth2010::default() };
    experiment.check().map_err(|error| Failure::input(error.to_string()))?;
    make_room(&args.work)?;
    let told = Told::begin(experiment.nr_runs(), "runs");
    let results = experiment.run_all(|run| told.at(run));
    told.finish();
    let mut files = vec![json("bandwidth", &results.to_json())];
    let mut plots = Vec::new();
    for (workload, period) in results.graphs() {
        let name = format!("bandwidth-{}-{period}ms.svg", workload.name());
        let plot = results.plot(workload, period);
        files.push((name, plot.to_svg()));
        plots.push(plot);
    }
    let shown = Shown { answer: results.answer(), plots, tables: results.tables(), ..Shown::default() };
    publish(&args.work, "bandwidth", &results.to_string(), files, shown)
}

fn rt_ipi(args: &RtIpiArgs) -> Done {
    let (seed, pause, threads) = (args.seed, args.pause, args.work.threads());
    let mut experiment = RtIpi2017 { seed, pause, threads, ..RtIpi2017::default() };
    if args.reverted {
        experiment.variants.insert(2, Variant::IpiSkipPushing);
    }
    experiment.cpus.retain(|cpus| *cpus <= args.max_cpus);
    experiment.sensitivity.retain(|cpus| *cpus <= args.max_cpus);
    if let Some(wrong) = args.cpus.iter().find(|cpus| !experiment.cpus.contains(cpus)) {
        let known = experiment.cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
        let message = format!("--cpus {wrong} is not a machine of the experiment");
        return Err(Failure::input_help(message, format!("known are {known}")));
    }
    if !args.cpus.is_empty() {
        experiment.cpus.retain(|cpus| args.cpus.contains(cpus));
        experiment.sensitivity.retain(|cpus| args.cpus.contains(cpus));
    }
    experiment.costs = costs(&args.costs)?;
    if args.eight_sockets || args.costs.starts_with("xeon-e7-8s") {
        experiment.build = Build::EightSockets;
    }
    make_room(&args.work)?;
    let told = Told::begin(experiment.runs().len() as u64, "runs");
    let results = experiment.run_all(|run| told.at(run));
    told.finish();
    let name = match results.experiment.costs.name.as_str() {
        "default" => "rt-ipi".to_owned(),
        other => format!("rt-ipi-{}", other.replace(|letter: char| !letter.is_ascii_alphanumeric(), "-")),
    };
    let name = name.as_str();
    let plots = [("stretch", results.stretch_plot()), ("latency", results.latency_plot())];
    let mut files = vec![json(name, &results.to_json())];
    files.extend(plots.iter().map(|(what, plot)| (format!("{name}-{what}.svg"), plot.to_svg())));
    let plots = plots.map(|(_, plot)| plot).into();
    let shown = Shown { answer: results.answer(), plots, tables: results.tables(), ..Shown::default() };
    publish(&args.work, name, &results.to_string(), files, shown)
}

fn rt_balance(args: &RtBalanceArgs) -> Done {
    let threads = args.work.threads();
    let kernel_load = args.kernel_load.map(Duration::from_micros);
    let experiment =
        RtBalance2007 { tests: args.tests, seed: args.seed, kernel_load, threads, ..RtBalance2007::default() };
    make_room(&args.work)?;
    let told = Told::begin(args.tests * Mode::ALL.len() as u64, "tests");
    let mut modes = Vec::new();
    for (mode, done) in Mode::ALL.into_iter().zip(0_u64..) {
        modes.push((mode, experiment.run(mode, |test| told.at(done * args.tests + test))));
    }
    told.finish();
    let results = Results { experiment, modes };
    let name = if args.kernel_load.is_some() { "rt-balance-load" } else { "rt-balance" };
    let files = vec![json(name, &results.to_json()), (format!("{name}.svg"), results.plot().to_svg())];
    let shown =
        Shown { answer: results.answer(), plots: vec![results.plot()], tables: results.tables(), ..Shown::default() };
    publish(&args.work, name, &results.to_string(), files, shown)
}

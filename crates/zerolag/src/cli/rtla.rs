//! `zerolag timerlat` and `zerolag osnoise`: rtla's options and output, on a simulated machine.
//!
//! stdout is what `rtla timerlat top -q`, `rtla osnoise top -q` and both tools' `hist` print when they end; what a result of
//! ours always says goes to stderr. Differs: nothing is printed while it runs; a threshold ends the run a moment later
//! than it was passed; without `-d` a run lasts a minute.

use super::failure::{Failure, eprintln_lossy};
use super::options::{self, MachineArgs};
use super::progress::{Progress, catch_interrupts, interrupted};
use super::{Done, code, output};
use clap::{Args as ClapArgs, ValueEnum};
use std::ops::ControlFlow;
use zerolag::Plan;
use zerolag::model::{CpuMask, DlParams, Duration, Nice, RtPriority, SchedAttr};
use zerolag::sim::{Sink, Tracing};
use zerolag::tools::build_load::BuildLoad;
use zerolag::tools::busy_loop;
use zerolag::tools::osnoise::{self, Osnoise};
use zerolag::tools::rtla::{Histogram, TableOptions};
use zerolag::tools::timerlat::{self, HistOptions, Timerlat};
use zerolag::tools::workstation::{Noise, sources};
use zerolag::workload::Program;
use zerolag::workload::default_machine;
use zerolag::workload::program::TaskDef;

/// How latencies are shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Mode {
    /// A line per CPU
    Top,
    /// A histogram
    Hist,
}

/// What runs beside the tool.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Load {
    /// Nothing
    None,
    /// As many short-lived compilers as CPUs
    Build,
    /// A fair busy loop on each CPU
    Hogs,
}

/// Which interrupts the CPUs have besides timers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum NoiseArg {
    /// None
    None,
    /// Devices, softirqs, NMIs
    Workstation,
}

#[derive(Debug, ClapArgs)]
struct Common {
    /// CPUs with a thread [default: all]
    #[arg(id = "measured", short = 'c', long = "on-cpus", value_name = "CPU-LIST", value_parser = cpu_list)]
    cpus: Option<CpuMask>,
    /// How long to run: a number of seconds, or with s, m, h, d
    #[arg(short, long, value_name = "TIME", default_value = "1m", value_parser = rtla_duration)]
    duration: Duration,
    /// What the threads ask for: o:nice, r:prio, f:prio or d:runtime:period (ms)
    #[arg(short = 'P', long, value_name = "POLICY", value_parser = priority)]
    priority: Option<SchedAttr>,
    /// Say nothing but the result
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    machine: MachineArgs,
    /// What runs beside it
    #[arg(long, value_enum, default_value = "none", help_heading = "Simulation")]
    load: Load,
    /// Interrupts besides timers
    #[arg(long, value_enum, default_value = "workstation", help_heading = "Simulation")]
    noise: NoiseArg,
    /// CPUs that the load and devices leave alone: the setting of that name
    #[arg(long, value_name = "CPU-LIST", value_parser = cpu_list, help_heading = "Simulation")]
    isolcpus: Option<CpuMask>,
}

/// How a histogram is printed. As in rtla, `top` has no such options.
#[derive(Debug, ClapArgs)]
struct HistArgs {
    /// hist: width of a class [default: 1]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..1_000_000))]
    bucket_size: Option<u64>,
    /// hist: number of classes [default: 256]
    #[arg(short = 'E', long, value_name = "N", value_parser = clap::value_parser!(u32).range(10..=9_999_999))]
    entries: Option<u32>,
    /// hist: without the lines above
    #[arg(long)]
    no_header: bool,
    /// hist: without the lines below
    #[arg(long)]
    no_summary: bool,
    /// hist: without the first column
    #[arg(long)]
    no_index: bool,
    /// hist: with empty classes
    #[arg(long)]
    with_zeros: bool,
}

/// Arguments of `zerolag timerlat`.
#[derive(Debug, ClapArgs)]
pub(crate) struct TimerlatArgs {
    /// What is printed
    #[arg(value_enum, default_value = "top")]
    mode: Mode,
    /// Stop when an interrupt or a thread is later than this (us)
    #[arg(short, long, value_name = "US", value_parser = micros)]
    auto: Option<Duration>,
    /// Distance of expiries (us)
    #[arg(short, long, value_name = "US", default_value = "1000", value_parser = micros)]
    period: Duration,
    /// Stop when an interrupt is later than this (us)
    #[arg(short, long, value_name = "US", value_parser = micros)]
    irq: Option<Duration>,
    /// Stop when a thread is later than this (us)
    #[arg(short = 'T', long, value_name = "US", value_parser = micros)]
    thread: Option<Duration>,
    /// Show nanoseconds
    #[arg(short, long)]
    nano: bool,
    /// Threads in user mode
    #[arg(short, long)]
    user_threads: bool,
    /// hist: without latencies of interrupts
    #[arg(long)]
    no_irq: bool,
    /// hist: without latencies of threads
    #[arg(long)]
    no_thread: bool,
    #[command(flatten)]
    hist: HistArgs,
    #[command(flatten)]
    common: Common,
}

/// Arguments of `zerolag osnoise`.
#[derive(Debug, ClapArgs)]
pub(crate) struct OsnoiseArgs {
    /// What is printed
    #[arg(value_enum, default_value = "top")]
    mode: Mode,
    /// Distance of samples (us)
    #[arg(short, long, value_name = "US", default_value = "1000000", value_parser = micros)]
    period: Duration,
    /// Length of a sample (us)
    #[arg(short, long, value_name = "US", default_value = "1000000", value_parser = micros)]
    runtime: Duration,
    /// A gap shorter than this is no noise (us)
    #[arg(short = 'T', long, value_name = "US", default_value = "1", value_parser = micros)]
    threshold: Duration,
    #[command(flatten)]
    hist: HistArgs,
    #[command(flatten)]
    common: Common,
}

/// Runs `zerolag timerlat`.
pub(crate) fn timerlat(args: &TimerlatArgs) -> Done {
    args.hist.refuse_in(args.mode, &[("--no-irq", args.no_irq), ("--no-thread", args.no_thread)])?;
    let (mut plan, all) = args.common.plan()?;
    let cpus = args.common.cpus(&all)?;
    let unit = if args.nano { 1 } else { 1_000 };
    let test = Timerlat {
        cpus,
        period: args.period,
        attr: args.common.priority.unwrap_or(const { SchedAttr::fifo_at(95) }),
        user: args.user_threads,
        stop_irq: args.irq.or(args.auto),
        stop_thread: args.thread.or(args.auto),
        kernel: if plan.config.costs.name == "zero" { Duration::ZERO } else { Duration::from_micros(2) },
    };
    if test.period.is_zero() {
        return Err(Failure::input("--period 0: the period must be above zero".to_owned()));
    }
    plan.program = args.common.program(test.threads(), &plan, &all).into();
    let histogram = args.hist.histogram(unit);
    let mut collector = test.collector(plan.config.topology.nr_cpus(), Some(histogram));
    let ran = args.common.run(&plan, &all, &mut collector, |collector| collector.hit().is_some())?;
    let text = match args.mode {
        Mode::Top => timerlat::top(&collector, ran),
        Mode::Hist => {
            let options = HistOptions { no_irq: args.no_irq, no_thread: args.no_thread, table: args.hist.options() };
            timerlat::hist(&collector, ran, histogram, options)
        }
    };
    output::print(&text)?;
    if collector.hit().is_some() {
        output::print("rtla timerlat hit stop tracing\n")?;
    }
    Ok(if interrupted() { code::INTERRUPTED } else { code::OK })
}

/// Runs `zerolag osnoise`.
pub(crate) fn osnoise(args: &OsnoiseArgs) -> Done {
    args.hist.refuse_in(args.mode, &[])?;
    let (mut plan, all) = args.common.plan()?;
    if args.runtime.is_zero() || args.runtime > args.period {
        return Err(Failure::input("--runtime must be above zero and at most --period".to_owned()));
    }
    let test = Osnoise {
        cpus: args.common.cpus(&all)?,
        period: args.period,
        runtime: args.runtime,
        attr: args.common.priority.unwrap_or(SchedAttr::NORMAL),
        threshold: args.threshold,
    };
    plan.program = args.common.program(test.threads(), &plan, &all).into();
    let histogram = args.hist.histogram(1_000);
    let mut collector = test.collector(plan.config.topology.nr_cpus(), Some(histogram));
    let ran = args.common.run(&plan, &all, &mut collector, |_| false)?;
    output::print(&match args.mode {
        Mode::Top => osnoise::top(&collector, ran),
        Mode::Hist => osnoise::hist(&collector, ran, histogram, args.hist.options()),
    })?;
    Ok(if interrupted() { code::INTERRUPTED } else { code::OK })
}

impl HistArgs {
    /// Refuses what only `hist` has in another mode, options of one tool included.
    fn refuse_in(&self, mode: Mode, more: &[(&str, bool)]) -> Result<(), Failure> {
        let own = [
            ("--bucket-size", self.bucket_size.is_some()),
            ("--entries", self.entries.is_some()),
            ("--no-header", self.no_header),
            ("--no-summary", self.no_summary),
            ("--no-index", self.no_index),
            ("--with-zeros", self.with_zeros),
        ];
        match own.iter().chain(more).find(|(_, is_given)| *is_given && mode == Mode::Top) {
            Some((name, _)) => {
                Err(Failure::input_help(format!("{name}: `top` prints no histogram"), "say `hist` first"))
            }
            None => Ok(()),
        }
    }

    fn histogram(&self, unit: u64) -> Histogram {
        Histogram { bucket: self.bucket_size.unwrap_or(1), entries: self.entries.unwrap_or(256) as usize, unit }
    }

    const fn options(&self) -> TableOptions {
        let Self { no_header, no_summary, no_index, with_zeros, .. } = *self;
        TableOptions { no_header, no_summary, no_index, with_zeros }
    }
}

impl Common {
    /// Returns the plan without its program, and the machine's CPUs.
    fn plan(&self) -> Result<(Plan, CpuMask), Failure> {
        let machine = self.machine.topology().unwrap_or_else(default_machine);
        let kernel = self.machine.kernel.unwrap_or_default();
        let all = CpuMask::first_n(machine.nr_cpus());
        let mut plan = Plan::of_program(Program::default(), machine, kernel)
            .with_seed(self.machine.seed.unwrap_or(0))
            .for_duration(self.duration);
        if let Some(costs) = self.machine.costs()? {
            plan = plan.with_costs(costs);
        }
        self.machine.apply_settings(&mut plan.config.settings)?;
        if let Some(isolated) = &self.isolcpus {
            plan.config.settings.isolcpus.clone_from(isolated);
        }
        Ok((plan, all))
    }

    fn cpus(&self, all: &CpuMask) -> Result<CpuMask, Failure> {
        let cpus = self.cpus.clone().unwrap_or_else(|| all.clone());
        match cpus.last().filter(|last| !all.contains(*last)) {
            Some(last) => Err(Failure::input(format!("-c: there is no CPU {last} on a machine of {}", all.count()))),
            None => Ok(cpus),
        }
    }

    fn program(&self, threads: Vec<TaskDef>, plan: &Plan, all: &CpuMask) -> Program {
        let mut program = Program { tasks: threads, ..Program::default() };
        let (_, free) = parted(plan, all);
        match self.load {
            Load::None => {}
            Load::Build => {
                let jobs = u32::try_from(free.count()).unwrap_or(u32::MAX);
                BuildLoad { cpus: Some(free), ..BuildLoad::new(jobs) }.add_to(&mut program);
            }
            Load::Hogs => program.tasks.extend(all.iter().map(busy_loop)),
        }
        program
    }

    fn run<S: Sink>(
        &self,
        plan: &Plan,
        all: &CpuMask,
        sink: &mut S,
        stop: impl Fn(&S) -> bool,
    ) -> Result<Duration, Failure> {
        catch_interrupts();
        let mut machine = plan.build(Tracing::On).map_err(|error| Failure::input(error.to_string()))?;
        if self.noise == NoiseArg::Workstation {
            let (isolated, free) = parted(plan, all);
            for (noise, cpus) in [(Noise::Workstation, free), (Noise::Isolated, isolated)] {
                sources(noise, &cpus).into_iter().for_each(|source| machine.add_source(source));
            }
        }
        let mut progress = Progress::new(self.duration.as_nanos() / 1_000_000, "ms", self.quiet);
        // Looked at now and then: whoever watches records has no say in how long the run lasts.
        let over = core::cell::Cell::new(false);
        let mut watched = Watched { sink, stop, over: &over };
        let outcome = machine.run_with(&mut watched, |now, _| {
            if over.get() { ControlFlow::Break(()) } else { progress.at(now.as_nanos() / 1_000_000) }
        });
        progress.finish();
        if !self.quiet {
            let meta = plan.meta();
            eprintln_lossy(&format!(
                "simulated: {}, kernel {}, costs {}, seed {}",
                meta.machine, meta.kernel, meta.costs, plan.config.seed
            ));
        }
        Ok(outcome.end.since(zerolag::model::Instant::ZERO))
    }
}

/// Returns the CPUs that are isolated, and the others.
fn parted(plan: &Plan, all: &CpuMask) -> (CpuMask, CpuMask) {
    let isolated = plan.config.settings.isolated_cpus(all.count());
    let free = all.iter().filter(|cpu| !isolated.contains(*cpu)).collect();
    (isolated, free)
}

/// Hands records on, and notes when there have been enough.
struct Watched<'a, S, F> {
    sink: &'a mut S,
    stop: F,
    over: &'a core::cell::Cell<bool>,
}

impl<S: Sink, F: Fn(&S) -> bool> Sink for Watched<'_, S, F> {
    fn record(&mut self, record: &zerolag::model::Record) {
        self.sink.record(record);
        if !self.over.get() && (self.stop)(self.sink) {
            self.over.set(true);
        }
    }
}

fn cpu_list(text: &str) -> Result<CpuMask, String> {
    text.parse().map_err(|error: zerolag::model::cpumask::ParseCpuListError| error.to_string())
}

fn micros(text: &str) -> Result<Duration, String> {
    let count: u32 = text.parse().map_err(|_| format!("`{text}` is not a whole number of microseconds"))?;
    Ok(Duration::from_micros(u64::from(count)))
}

/// Reads rtla's durations: seconds, or a number with s, m, h, d.
fn rtla_duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = match text.char_indices().last() {
        Some((at, 's' | 'S')) => (&text[..at], 1),
        Some((at, 'm' | 'M')) => (&text[..at], 60),
        Some((at, 'h' | 'H')) => (&text[..at], 3_600),
        Some((at, 'd' | 'D')) => (&text[..at], 86_400),
        _ => (text, 1),
    };
    let count: u32 = number.parse().map_err(|_| format!("`{text}` is no duration: 10, 10s, 10m, 1h or 1d"))?;
    match count {
        0 => Err("a run of no time measures nothing".to_owned()),
        count => Ok(Duration::from_secs(u64::from(count) * unit)),
    }
}

/// Reads rtla's `-P`: `o:0`, `r:50`, `f:95`, `d:RUNTIME:PERIOD` with `us` or `ms`.
fn priority(text: &str) -> Result<SchedAttr, String> {
    let wrong = || format!("`{text}` is none of o:NICE, r:PRIO, f:PRIO, d:RUNTIME:PERIOD (with us or ms)");
    let (policy, rest) = text.split_once(':').ok_or_else(wrong)?;
    let rt = || rest.parse().ok().and_then(RtPriority::new).ok_or_else(|| format!("`{rest}` is outside 1..=99"));
    match policy {
        "f" | "F" => Ok(SchedAttr::fifo(rt()?)),
        "r" | "R" => Ok(SchedAttr::rr(rt()?)),
        "o" | "O" => {
            let nice = rest.parse().ok().and_then(Nice::new).ok_or_else(|| format!("`{rest}` is outside -20..=19"))?;
            Ok(SchedAttr::nice(nice))
        }
        "d" | "D" => {
            let (runtime, period) = rest.split_once(':').ok_or_else(wrong)?;
            let (runtime, period) = (options::duration(runtime)?, options::duration(period)?);
            Ok(SchedAttr::Deadline(DlParams::new(runtime, period, period)))
        }
        _ => Err(wrong()),
    }
}

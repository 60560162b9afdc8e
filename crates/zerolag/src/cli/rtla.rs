//! `zerolag timerlat` and `zerolag osnoise`: rtla's options and output, on a simulated machine.
//!
//! stdout is the final output of `rtla timerlat top -q`, `rtla osnoise top -q` and both tools'
//! `hist`; machine, kernel, costs and seed go to stderr. Differs:
//!
//! * nothing is printed during the run, and without `-d` a run lasts a minute;
//! * `--cpus` is the machine's size, as for every subcommand; rtla's option of that name is only
//!   `-c`;
//! * threads are kernel threads unless `-u` is given;
//! * there is no auto-analysis: `zerolag explain` does that with the trace.
//!
//! As in rtla, collection stops at a threshold, and only then `-t` saves a trace: the last records
//! of the run, as many as fit into a buffer of the kernel's default size. The exit code is 2 then
//! (EXIT STATUS of its manual). Options that control the kernel's tracer are accepted, with a note
//! that they have no effect. Options whose result a simulation cannot give are refused, with the
//! reason.
//!
//! Sources: rtla's manual pages of Linux 6.18, `Documentation/tools/rtla`; `rtla --help` of
//! Debian's 6.1.

use super::failure::{Failure, eprintln_lossy};
use super::options;
use super::progress::{Progress, catch_interrupts, interrupted};
use super::tool::ToolArgs;
use super::tracing::Target;
use super::{Done, code, output};
use clap::{Args as ClapArgs, ValueEnum};
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::path::PathBuf;
use zerolag::Plan;
use zerolag::model::{CpuMask, DlParams, Duration, Instant, Nice, Record, RtPriority, SchedAttr, TraceEvent};
use zerolag::sim::{Sink, Tracing};
use zerolag::tools::build_load::BuildLoad;
use zerolag::tools::busy_loop;
use zerolag::tools::osnoise::{self, Osnoise};
use zerolag::tools::rtla::{Histogram, TableOptions};
use zerolag::tools::timerlat::{self, HistOptions, Timerlat};
use zerolag::tools::workstation::{Noise, sources};
use zerolag::trace::{Meta, Trace};
use zerolag::workload::Program;
use zerolag::workload::program::TaskDef;

/// How latencies are shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Mode {
    /// A line per CPU
    Top,
    /// A histogram
    Hist,
}

/// The load next to the tool.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Load {
    /// Nothing
    None,
    /// As many short-lived compilers as CPUs
    Build,
    /// A fair busy loop on each CPU
    Hogs,
}

/// The interrupts of the CPUs besides timers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum NoiseArg {
    /// None
    None,
    /// Devices, softirqs, NMIs
    Workstation,
}

#[derive(Debug, ClapArgs)]
struct Common {
    /// CPUs with a thread, rtla's --cpus (here the machine's size) [default: all]
    #[arg(id = "measured", short = 'c', long = "on-cpus", value_name = "CPU-LIST", value_parser = cpu_list)]
    cpus: Option<CpuMask>,
    /// Duration: a number of seconds, or with s, m, h, d
    #[arg(short, long, value_name = "TIME", default_value = "1m", value_parser = rtla_duration)]
    duration: Duration,
    /// Policy of the threads: o:nice, r:prio, f:prio or d:runtime:period (ms)
    #[arg(short = 'P', long, value_name = "POLICY", value_parser = priority)]
    priority: Option<SchedAttr>,
    /// Warm-up: seconds before counting starts
    #[arg(long, value_name = "S", default_value = "0", value_parser = seconds)]
    warm_up: Duration,
    /// Save a trace when a threshold stops it; by extension .txt, .zlt or .pftrace [default:
    /// <tool>_trace.txt]
    #[arg(short, long, value_name = "FILE")]
    trace: Option<Option<PathBuf>>,
    /// At the threshold: trace[,file=FILE], as -t [=FILE]
    #[arg(long, value_name = "ACTION", value_parser = action)]
    on_threshold: Option<SaveTrace>,
    /// At the end, however it is reached: trace[,file=FILE]
    #[arg(long, value_name = "ACTION", value_parser = action)]
    on_end: Option<SaveTrace>,
    #[command(flatten)]
    idle: IdleArgs,
    #[command(flatten)]
    tool: ToolArgs,
    /// Load next to the tool
    #[arg(long, value_enum, default_value = "none", help_heading = "Simulation")]
    load: Load,
    /// Interrupts besides timers
    #[arg(long, value_enum, default_value = "workstation", help_heading = "Simulation")]
    noise: NoiseArg,
    /// CPUs without load and devices: the setting of that name
    #[arg(long, value_name = "CPU-LIST", value_parser = cpu_list, help_heading = "Simulation")]
    isolcpus: Option<CpuMask>,
}

/// The heading of options without effect.
const IDLE: &str = "Accepted as rtla's, without effect";
/// The heading of refused options.
const REFUSED: &str = "Refused of rtla's";

/// Options of rtla that have no effect in a simulation: accepted, so that copied command lines
/// work.
#[derive(Debug, ClapArgs)]
struct IdleArgs {
    /// CPUs of rtla's own threads
    #[arg(short = 'H', long, value_name = "CPU-LIST", value_parser = cpu_list, help_heading = IDLE)]
    house_keeping: Option<CpuMask>,
    /// The threads' control group
    #[arg(short = 'C', long, value_name = "CGROUP", require_equals = true, help_heading = IDLE)]
    cgroup: Option<Option<String>>,
    /// Print rtla's own actions
    #[arg(short = 'D', long, help_heading = IDLE)]
    debug: bool,
    /// Events to trace
    #[arg(short, long, value_name = "SYS:EVENT", help_heading = IDLE)]
    event: Vec<String>,
    /// A filter of the preceding event
    #[arg(long, value_name = "FILTER", help_heading = IDLE)]
    filter: Vec<String>,
    /// A trigger of the preceding event
    #[arg(long, value_name = "TRIGGER", help_heading = IDLE)]
    trigger: Vec<String>,
    /// Size of the trace's buffer
    #[arg(long, value_name = "KB", help_heading = IDLE)]
    trace_buffer_size: Option<u64>,
}

/// rtla's action at a threshold or at the end (`--on-threshold`, `--on-end`): the only one that a
/// simulation supports.
#[derive(Clone, PartialEq, Eq, Debug)]
struct SaveTrace(Option<PathBuf>);

/// Reads an action.
fn action(text: &str) -> Result<SaveTrace, String> {
    match text.split_once(',').map_or((text, None), |(kind, rest)| (kind, Some(rest))) {
        ("trace", None) => Ok(SaveTrace(None)),
        ("trace", Some(rest)) => match rest.strip_prefix("file=") {
            Some(file) if !file.is_empty() => Ok(SaveTrace(Some(file.into()))),
            _ => Err(format!("`{rest}` is not file=FILE")),
        },
        ("signal", _) => Err("a simulation sends no signals".to_owned()),
        ("shell", _) => {
            Err("a simulation starts no programs: look at the exit code, which is 2 at a threshold".to_owned())
        }
        ("continue", _) => Err("a simulation ends at its threshold: leave the threshold out".to_owned()),
        _ => Err(format!("`{text}` is not trace[,file=FILE]; rtla's signal, shell and continue are refused")),
    }
}

/// Options of `rtla timerlat` that would change the result, and that a simulation cannot follow.
#[derive(Debug, ClapArgs)]
struct RefusedArgs {
    /// Wait for a program that reads timerlat_fd: a simulation has none, use -u
    #[arg(short = 'U', long, help_heading = REFUSED)]
    user_load: bool,
    /// Wake the threads at offsets from each other: they start together
    #[arg(short = 'A', long, value_name = "US", help_heading = REFUSED)]
    aligned: Option<u64>,
    /// Print the auto-analysis only: use -a, and `zerolag explain` with the trace
    #[arg(long, value_name = "US", help_heading = REFUSED)]
    aa_only: Option<u64>,
    /// Print the running tasks at the threshold: the trace of -t contains them
    #[arg(long, help_heading = REFUSED)]
    dump_tasks: bool,
    /// Run a BPF program at the threshold: a simulation starts no programs
    #[arg(long, value_name = "PROGRAM", help_heading = REFUSED)]
    bpf_action: Option<String>,
}

impl RefusedArgs {
    fn refuse(&self) -> Result<(), Failure> {
        let given = [
            ("--user-load", self.user_load, "rtla would wait for a program that reads timerlat_fd: use -u"),
            ("--aligned", self.aligned.is_some(), "the threads of a simulation start together"),
            (
                "--aa-only",
                self.aa_only.is_some(),
                "there is no auto-analysis: use -a, then `zerolag explain` with the trace",
            ),
            ("--dump-tasks", self.dump_tasks, "use -t: the trace contains the running tasks at the threshold"),
            ("--bpf-action", self.bpf_action.is_some(), "a simulation starts no programs"),
        ];
        match given.iter().find(|(_, is_given, _)| *is_given) {
            Some((name, _, help)) => Err(Failure::input_help(format!("{name}: not in a simulation"), *help)),
            None => Ok(()),
        }
    }
}

/// The format of a histogram. As in rtla, `top` has no such options.
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
    /// The form of the output
    #[arg(value_enum, default_value = "top")]
    mode: Mode,
    /// Stop when the interrupt or thread latency reaches this (us), and save a trace: -i US -T US
    /// -t
    #[arg(short, long, value_name = "US", value_parser = micros)]
    auto: Option<Duration>,
    /// Period of the timer (us)
    #[arg(short, long, value_name = "US", default_value = "1000", value_parser = micros)]
    period: Duration,
    /// Stop when the interrupt latency reaches this (us)
    #[arg(short, long, value_name = "US", value_parser = micros)]
    irq: Option<Duration>,
    /// Stop when the thread latency reaches this (us)
    #[arg(short = 'T', long, value_name = "US", value_parser = micros)]
    thread: Option<Duration>,
    /// Show nanoseconds
    #[arg(short, long)]
    nano: bool,
    /// Threads in user mode
    #[arg(short, long)]
    user_threads: bool,
    /// Kernel threads (the default)
    #[arg(short, long, conflicts_with = "user_threads")]
    kernel_threads: bool,
    /// Stack traces of the interrupt before a late thread (us)
    #[arg(short, long, value_name = "US", help_heading = IDLE)]
    stack: Option<u64>,
    /// Bound of the exit from idle states (us)
    #[arg(long, value_name = "US", help_heading = IDLE)]
    dma_latency: Option<u64>,
    /// Disable auto-analysis: there is none
    #[arg(long, help_heading = IDLE)]
    no_aa: bool,
    /// Truncation of stacks: truncate, skip, full
    #[arg(long, value_name = "FORMAT", help_heading = IDLE)]
    stack_format: Option<String>,
    /// Deepest idle state of measured CPUs
    #[arg(long, value_name = "N", allow_negative_numbers = true, help_heading = IDLE)]
    deepest_idle_state: Option<i64>,
    /// hist: without latencies of interrupts
    #[arg(long)]
    no_irq: bool,
    /// hist: without latencies of threads
    #[arg(long)]
    no_thread: bool,
    #[command(flatten)]
    refused: RefusedArgs,
    #[command(flatten)]
    hist: HistArgs,
    #[command(flatten)]
    common: Common,
}

/// Arguments of `zerolag osnoise`.
#[derive(Debug, ClapArgs)]
pub(crate) struct OsnoiseArgs {
    /// The form of the output
    #[arg(value_enum, default_value = "top")]
    mode: Mode,
    /// Stop when a gap is longer than this (us), and save a trace: -s US -t
    #[arg(short, long, value_name = "US", value_parser = micros, conflicts_with = "stop")]
    auto: Option<Duration>,
    /// Stop when a gap is longer than this (us)
    #[arg(short, long, value_name = "US", value_parser = micros)]
    stop: Option<Duration>,
    /// Stop when the noise of a sample is more than this (us)
    #[arg(short = 'S', long, value_name = "US", value_parser = micros)]
    stop_total: Option<Duration>,
    /// Period of samples (us)
    #[arg(short, long, value_name = "US", default_value = "1000000", value_parser = micros)]
    period: Duration,
    /// Length of a sample (us)
    #[arg(short, long, value_name = "US", default_value = "1000000", value_parser = micros)]
    runtime: Duration,
    /// A shorter gap is not noise (us)
    #[arg(short = 'T', long, value_name = "US", default_value = "1", value_parser = micros)]
    threshold: Duration,
    #[command(flatten)]
    hist: HistArgs,
    #[command(flatten)]
    common: Common,
}

/// Runs `zerolag timerlat`.
pub(crate) fn timerlat(args: &TimerlatArgs) -> Done {
    args.refused.refuse()?;
    args.hist.refuse_in(args.mode, &[("--no-irq", args.no_irq), ("--no-thread", args.no_thread)])?;
    let (mut plan, all) = args.common.plan()?;
    let cpus = args.common.cpus(&all)?;
    let unit = if args.nano { 1 } else { 1_000 };
    let test = Timerlat {
        cpus,
        period: args.period,
        attr: args.common.priority.unwrap_or(const { SchedAttr::fifo_at(95) }),
        user: args.user_threads,
        stop_irq: threshold(args.irq.or(args.auto)),
        stop_thread: threshold(args.thread.or(args.auto)),
        kernel: if plan.config.costs.name == "zero" { Duration::ZERO } else { Duration::from_micros(2) },
    };
    if test.period.is_zero() {
        return Err(Failure::input("--period 0: the period must be above zero".to_owned()));
    }
    plan.program = args.common.program(test.threads(), &plan, &all).into();
    let histogram = args.hist.histogram(unit);
    let mut collector = test.collector(plan.config.topology.nr_cpus(), Some(histogram));
    args.common.idle.note(&[
        ("--stack", args.stack.is_some()),
        ("--dma-latency", args.dma_latency.is_some()),
        ("--deepest-idle-state", args.deepest_idle_state.is_some()),
        ("--no-aa", args.no_aa),
        ("--stack-format", args.stack_format.is_some()),
    ]);
    let saves = args.common.saves(args.auto.is_some(), "timerlat");
    let (ran, ended) = args.common.run(&plan, &all, &mut collector, &saves)?;
    let text = match args.mode {
        Mode::Top => timerlat::top(&collector, ran),
        Mode::Hist => {
            let options = HistOptions { no_irq: args.no_irq, no_thread: args.no_thread, table: args.hist.options() };
            timerlat::hist(&collector, ran, histogram, options)
        }
    };
    output::print(&text)?;
    ended.save("timerlat", &saves, &plan)
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
        stop: threshold(args.stop.or(args.auto)),
        stop_total: threshold(args.stop_total),
    };
    plan.program = args.common.program(test.threads(), &plan, &all).into();
    let histogram = args.hist.histogram(1_000);
    let mut collector = test.collector(plan.config.topology.nr_cpus(), Some(histogram));
    args.common.idle.note(&[]);
    let saves = args.common.saves(args.auto.is_some(), "osnoise");
    let (ran, ended) = args.common.run(&plan, &all, &mut collector, &saves)?;
    output::print(&match args.mode {
        Mode::Top => osnoise::top(&collector, ran),
        Mode::Hist => osnoise::hist(&collector, ran, histogram, args.hist.options()),
    })?;
    ended.save("osnoise", &saves, &plan)
}

impl HistArgs {
    /// Refuses options of `hist` in another mode, including those of one tool.
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
                Err(Failure::input_help(format!("{name}: `top` prints no histogram"), "write `hist` first"))
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

impl IdleArgs {
    /// Lists the options without effect, including those of one tool.
    fn note(&self, more: &[(&str, bool)]) {
        let own = [
            ("--house-keeping", self.house_keeping.is_some()),
            ("--cgroup", self.cgroup.is_some()),
            ("--debug", self.debug),
            ("--event", !self.event.is_empty()),
            ("--filter", !self.filter.is_empty()),
            ("--trigger", !self.trigger.is_empty()),
            ("--trace-buffer-size", self.trace_buffer_size.is_some()),
        ];
        let given: Vec<&str> =
            own.iter().chain(more).filter(|(_, is_given)| *is_given).map(|(name, _)| *name).collect();
        if !given.is_empty() {
            eprintln_lossy(&format!("note: without effect in a simulation: {}", given.join(", ")));
        }
    }
}

impl Common {
    /// Returns the places of the requested traces.
    fn saves(&self, is_auto: bool, tool: &str) -> Saves {
        let path = |named: Option<PathBuf>| named.unwrap_or_else(|| format!("{tool}_trace.txt").into());
        let of = |action: &Option<SaveTrace>| action.clone().map(|SaveTrace(file)| file);
        let at_threshold = self.trace.clone().or(of(&self.on_threshold)).or(is_auto.then_some(None));
        Saves { at_threshold: at_threshold.map(path), in_the_end: of(&self.on_end).map(path) }
    }

    /// Returns the plan without its program, and the machine's CPUs.
    fn plan(&self) -> Result<(Plan, CpuMask), Failure> {
        let machine = self.tool.machine();
        let all = CpuMask::first_n(machine.nr_cpus());
        let mut plan = self.tool.plan(Program::default(), machine)?;
        plan.config.duration = Some(self.warm_up.saturating_add(self.duration));
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

    /// Runs the plan. Returns for how long figures were collected, and the rest of the run.
    fn run(
        &self,
        plan: &Plan,
        all: &CpuMask,
        tool: &mut impl Tool,
        saves: &Saves,
    ) -> Result<(Duration, Ended), Failure> {
        for path in saves.at_threshold.iter().chain(&saves.in_the_end) {
            Target::new(path, None)?;
        }
        catch_interrupts();
        let mut machine = plan.build(Tracing::On).map_err(|error| Failure::input(error.to_string()))?;
        if self.noise == NoiseArg::Workstation {
            let (isolated, free) = parted(plan, all);
            for (noise, cpus) in [(Noise::Workstation, free), (Noise::Isolated, isolated)] {
                sources(noise, &cpus).into_iter().for_each(|source| machine.add_source(source));
            }
        }
        let total = self.warm_up.saturating_add(self.duration);
        let mut progress = Progress::new(total.as_nanos() / 1_000_000, "ms", self.tool.sim.is_quiet());
        let begin = Instant::ZERO.saturating_add(self.warm_up);
        // Checked periodically: an observer of records cannot end the run.
        let over = core::cell::Cell::new(None);
        let kept = saves.are_wanted().then(|| Kept::new(all.count() * KEPT_PER_CPU));
        let mut watched = Watched { tool, warm_up: Some(begin), kept, over: &over };
        let outcome = machine.run_with(&mut watched, |now, _| {
            if over.get().is_some() { ControlFlow::Break(()) } else { progress.at(now.as_nanos() / 1_000_000) }
        });
        progress.finish();
        self.tool.say_what_was_simulated(plan);
        let kept = watched.kept;
        if over.get().is_none() && saves.at_threshold.is_some() && saves.in_the_end.is_none() {
            eprintln_lossy("note: no threshold was passed, no trace is saved");
        }
        let at = over.get().unwrap_or(outcome.end);
        Ok((at.since(begin), Ended { at, by_threshold: over.get().is_some(), kept }))
    }
}

/// The places of traces.
struct Saves {
    at_threshold: Option<PathBuf>,
    in_the_end: Option<PathBuf>,
}

impl Saves {
    const fn are_wanted(&self) -> bool {
        self.at_threshold.is_some() || self.in_the_end.is_some()
    }
}

/// The end of a run.
struct Ended {
    at: Instant,
    by_threshold: bool,
    kept: Option<Kept>,
}

impl Ended {
    /// Reports that a threshold was passed, saves the requested traces, and returns the exit code.
    fn save(self, tool: &str, saves: &Saves, plan: &Plan) -> Done {
        if self.by_threshold {
            output::print(&format!("rtla {tool} hit stop tracing\n"))?;
        }
        if let Some(kept) = self.kept {
            let trace = kept.into_trace(plan.meta(), self.at);
            let at_threshold = saves.at_threshold.as_deref().filter(|_| self.by_threshold);
            for path in at_threshold.into_iter().chain(saves.in_the_end.as_deref()) {
                output::print(&format!("  Saving trace to {}\n", path.display()))?;
                Target::new(path, None)?.write(&trace, &plan.program)?;
            }
        }
        Ok(match self.by_threshold {
            true => code::THRESHOLD,
            false if interrupted() => code::INTERRUPTED,
            false => code::OK,
        })
    }
}

/// Records per CPU in a buffer of the kernel's default size: 1408 kB, at about 48 bytes each.
const KEPT_PER_CPU: usize = 30_000;

/// The last records of a run, and all tasks' names.
struct Kept {
    size: usize,
    names: Vec<Record>,
    last: VecDeque<Record>,
    lost: u64,
}

impl Kept {
    const fn new(size: usize) -> Self {
        Self { size, names: Vec::new(), last: VecDeque::new(), lost: 0 }
    }

    fn push(&mut self, record: &Record) {
        if self.last.len() == self.size {
            let oldest = self.last.pop_front();
            match oldest.filter(|oldest| matches!(oldest.event, TraceEvent::TaskNew { .. })) {
                Some(name) => self.names.push(name),
                None => self.lost += 1,
            }
        }
        self.last.push_back(record.clone());
    }

    fn into_trace(self, meta: Meta, end: Instant) -> Trace {
        let meta = Meta { end, lost_events: self.lost, ..meta };
        Trace { meta, records: self.names.into_iter().chain(self.last).collect() }
    }
}

/// The common operations of both tools' collectors.
trait Tool: Sink {
    /// Discards figures of the warm-up.
    fn discard(&mut self);

    /// Whether a threshold was passed.
    fn is_hit(&self) -> bool;
}

impl Tool for timerlat::Collector {
    fn discard(&mut self) {
        self.discard();
    }

    fn is_hit(&self) -> bool {
        self.hit().is_some()
    }
}

impl Tool for osnoise::Collector {
    fn discard(&mut self) {
        self.discard();
    }

    fn is_hit(&self) -> bool {
        self.hit().is_some()
    }
}

/// Returns the CPUs that are isolated, and the others.
fn parted(plan: &Plan, all: &CpuMask) -> (CpuMask, CpuMask) {
    let isolated = plan.config.settings.isolated_cpus(all.count());
    let free = all.iter().filter(|cpu| !isolated.contains(*cpu)).collect();
    (isolated, free)
}

/// Passes records on until a threshold is passed, and notes that time.
struct Watched<'a, T> {
    tool: &'a mut T,
    /// Start of counting; `None` once it has started.
    warm_up: Option<Instant>,
    kept: Option<Kept>,
    over: &'a core::cell::Cell<Option<Instant>>,
}

impl<T: Tool> Sink for Watched<'_, T> {
    fn record(&mut self, record: &Record) {
        if self.over.get().is_some() {
            return;
        }
        if self.warm_up.is_some_and(|begin| record.at >= begin) {
            self.warm_up = None;
            self.tool.discard();
        }
        self.tool.record(record);
        if let Some(kept) = &mut self.kept {
            kept.push(record);
        }
        if self.warm_up.is_none() && self.tool.is_hit() {
            self.over.set(Some(record.at));
        }
    }
}

fn cpu_list(text: &str) -> Result<CpuMask, String> {
    text.parse().map_err(|error: zerolag::model::cpumask::ParseCpuListError| error.to_string())
}

/// Returns a threshold; zero means none, as in the tracer's own files.
fn threshold(given: Option<Duration>) -> Option<Duration> {
    given.filter(|threshold| !threshold.is_zero())
}

fn seconds(text: &str) -> Result<Duration, String> {
    let count: u32 = text.parse().map_err(|_| format!("`{text}` is not a whole number of seconds"))?;
    Ok(Duration::from_secs(u64::from(count)))
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
    let count: u32 = number.parse().map_err(|_| format!("`{text}` is not a duration: 10, 10s, 10m, 1h or 1d"))?;
    match count {
        0 => Err("the duration must be above zero".to_owned()),
        count => Ok(Duration::from_secs(u64::from(count) * unit)),
    }
}

/// Reads rtla's `-P`: `o:0`, `r:50`, `f:95`, `d:RUNTIME:PERIOD` with `us` or `ms`.
fn priority(text: &str) -> Result<SchedAttr, String> {
    let wrong = || format!("`{text}` is not one of o:NICE, r:PRIO, f:PRIO, d:RUNTIME:PERIOD (with us or ms)");
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

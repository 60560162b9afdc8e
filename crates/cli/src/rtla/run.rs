//! The run under rtla's tools: the load and the interrupts next to them, the threshold that ends
//! it, the traces that are saved.

use super::table::{Given, Tool};
use super::values::{SaveTrace, cpu_list};
use crate::failure::{Failure, eprintln_lossy};
use crate::output::JsonArgs;
use crate::progress::{Progress, catch_interrupts, interrupted};
use crate::tool::{LoadArgs, ToolArgs, parted};
use crate::tracing::Target;
use crate::{Done, code, output};
use clap::ValueEnum;
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::path::PathBuf;
use zerolag::model::{CpuMask, Duration, Instant, Record, Topology, TraceEvent};
use zerolag::page::Shown;
use zerolag::page::{Pictured, Portrait};
use zerolag::sim::{Sink, Tracing};
use zerolag::trace::{Meta, Trace};
use zerolag::workload::Program;
use zerolag::workload::program::TaskDef;
use zerolag::{Plan, Workload};
use zerolag_tools::osnoise;
use zerolag_tools::timerlat;
use zerolag_tools::workstation::{Noise, hard_sources, lines};

/// The interrupts of the CPUs besides timers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum NoiseArg {
    /// None
    None,
    /// Devices, softirqs, NMIs
    Workstation,
}

/// The simulation under a tool, its load and its interrupts.
#[derive(Debug, clap::Args)]
pub(crate) struct SimulationArgs {
    #[command(flatten)]
    tool: ToolArgs,
    #[command(flatten)]
    pub(crate) json: JsonArgs,
    #[command(flatten)]
    load: LoadArgs,
    /// Interrupts besides timers
    #[arg(long, value_enum, default_value = "workstation", help_heading = "Simulation")]
    noise: NoiseArg,
    /// CPUs without load and devices: the setting of that name
    #[arg(long, value_name = "CPU-LIST", value_parser = cpu_list, help_heading = "Simulation")]
    isolcpus: Option<CpuMask>,
}

/// The options of both tools that shape the run.
pub(crate) struct Shape {
    cpus: Option<CpuMask>,
    warm_up: Duration,
    duration: Duration,
    pub(crate) saves: Saves,
}

impl Shape {
    /// Reads the options; `name` is the tool's, for the trace's file.
    pub(crate) fn of<T: Tool>(given: &Given<T>, name: &str) -> Self {
        let path = |named: Option<PathBuf>| named.unwrap_or_else(|| format!("{name}_trace.txt").into());
        let action = |long| given.get::<SaveTrace>(long).map(|SaveTrace(file)| file);
        let trace = given.has("trace").then(|| given.get::<PathBuf>("trace"));
        let at_threshold = trace.or(action("on-threshold")).or(given.has("auto").then_some(None));
        Self {
            cpus: given.get("on-cpus"),
            warm_up: given.get("warm-up").unwrap_or_default(),
            duration: given.get("duration").unwrap_or_default(),
            saves: Saves { at_threshold: at_threshold.map(path), in_the_end: action("on-end").map(path) },
        }
    }

    /// Returns the CPUs with a thread.
    pub(crate) fn cpus(&self, all: &CpuMask) -> Result<CpuMask, Failure> {
        let cpus = self.cpus.clone().unwrap_or_else(|| all.clone());
        match cpus.last().filter(|last| !all.contains(*last)) {
            Some(last) => Err(Failure::input(format!("-c: there is no CPU {last} on a machine of {}", all.count()))),
            None => Ok(cpus),
        }
    }
}

impl SimulationArgs {
    /// Returns the machine: without a size of its own one that has the CPUs that are named. A line
    /// of another machine has no option for the size.
    fn machine(&self, shape: &Shape) -> Topology {
        let machine = self.tool.machine();
        let named = [&shape.cpus, &self.isolcpus, &self.load.load_cpus];
        let last = named.into_iter().filter_map(|cpus| cpus.as_ref()?.last()).max();
        let larger = last.filter(|last| !self.tool.has_machine() && last.index() >= machine.nr_cpus());
        match larger.map(|last| (last, Topology::flat(last.0.saturating_add(1)))) {
            Some((last, Ok(machine))) => {
                eprintln_lossy(&format!("note: a machine of {} CPUs, because CPU {last} is named", machine.nr_cpus()));
                machine
            }
            // Too large for any machine: the list is refused, with the size of this one.
            Some((_, Err(_))) | None => machine,
        }
    }

    /// Returns the plan without its program, and the machine's CPUs.
    pub(crate) fn plan(&self, shape: &Shape) -> Result<(Plan, CpuMask), Failure> {
        let machine = self.machine(shape);
        let all = CpuMask::first_n(machine.nr_cpus());
        let mut simulation = self.tool.simulation(Workload::of_program(Program::default(), machine));
        if let Some(isolated) = &self.isolcpus {
            if let Some(cpu) = isolated.last().filter(|cpu| !all.contains(*cpu)) {
                let last = all.count() - 1;
                return Err(Failure::input(format!(
                    "--isolcpus: CPU {cpu} does not exist: the machine has CPUs 0..={last}"
                )));
            }
            simulation = simulation.set("isolcpus", isolated.to_string());
        }
        let mut plan = simulation.plan()?.plan;
        plan.config.duration = Some(shape.warm_up.saturating_add(shape.duration));
        Ok((plan, all))
    }

    /// Whether only results are wanted.
    pub(crate) fn is_quiet(&self) -> bool {
        self.tool.sim.is_quiet()
    }

    /// Adds the load to the tool's threads.
    pub(crate) fn program(&self, threads: Vec<TaskDef>, plan: &Plan, all: &CpuMask) -> Program {
        let mut program = Program { tasks: threads, ..Program::default() };
        let (isolated, free) = parted(plan, all);
        if self.noise == NoiseArg::Workstation {
            for (noise, cpus) in [(Noise::Workstation, &free), (Noise::Isolated, &isolated)] {
                program.interrupts.extend(lines(noise, cpus));
            }
        }
        self.load.add_to(&mut program, plan);
        // The plan was made of nothing: what it has is `--background`.
        if !plan.program.tasks.is_empty() {
            program.kernel_work.first_task = Some(program.tasks.len());
            program.tasks.extend(plan.program.tasks.iter().cloned());
        }
        program
    }

    /// Runs the plan. Returns for how long figures were collected, and the rest of the run.
    pub(crate) fn run(
        &self,
        plan: &Plan,
        all: &CpuMask,
        tool: &mut impl Collector,
        shape: &Shape,
    ) -> Result<(Duration, Ended), Failure> {
        self.json.check()?;
        self.tool.html.check()?;
        for path in shape.saves.at_threshold.iter().chain(&shape.saves.in_the_end) {
            Target::new(path, None)?;
        }
        catch_interrupts();
        let mut machine = plan.build(Tracing::On).map_err(|error| Failure::input(error.to_string()))?;
        if self.noise == NoiseArg::Workstation {
            let (isolated, free) = parted(plan, all);
            for (noise, cpus) in [(Noise::Workstation, free), (Noise::Isolated, isolated)] {
                hard_sources(noise, &cpus).into_iter().for_each(|source| machine.add_source(source));
            }
        }
        let total = shape.warm_up.saturating_add(shape.duration);
        let mut progress = Progress::new(total.as_nanos() / 1_000_000, "ms", self.tool.sim.is_quiet());
        let begin = Instant::ZERO.saturating_add(shape.warm_up);
        // Checked periodically: an observer of records cannot end the run.
        let over = core::cell::Cell::new(None);
        let kept = shape.saves.are_wanted().then(|| LastRecords::new(all.count() * KEPT_PER_CPU));
        let portrait = self.tool.html.is_wanted().then(|| Portrait::new(&plan.meta()));
        let watched = UntilThreshold { tool, warm_up: Some(begin), kept, over: &over };
        let mut sink = (watched, portrait);
        let outcome = machine.run_with(&mut sink, |now, _| {
            if over.get().is_some() { ControlFlow::Break(()) } else { progress.at(now.as_nanos() / 1_000_000) }
        });
        progress.finish();
        self.tool.say_what_was_simulated(plan);
        let (watched, portrait) = sink;
        let kept = watched.kept;
        let pictured = portrait.map(|portrait| portrait.finish(outcome.end));
        if over.get().is_none() && shape.saves.at_threshold.is_some() && shape.saves.in_the_end.is_none() {
            eprintln_lossy("note: no threshold was passed, no trace is saved");
        }
        let at = over.get().unwrap_or(outcome.end);
        Ok((at.since(begin), Ended { at, by_threshold: over.get().is_some(), kept, pictured }))
    }
}

/// The places of traces.
pub(crate) struct Saves {
    at_threshold: Option<PathBuf>,
    in_the_end: Option<PathBuf>,
}

impl Saves {
    const fn are_wanted(&self) -> bool {
        self.at_threshold.is_some() || self.in_the_end.is_some()
    }
}

/// The end of a run.
pub(crate) struct Ended {
    at: Instant,
    by_threshold: bool,
    kept: Option<LastRecords>,
    pictured: Option<Pictured>,
}

impl Ended {
    /// Writes the page of the run, if it is wanted.
    pub(crate) fn publish_page(
        &self,
        args: &SimulationArgs,
        tool: &str,
        shown: impl FnOnce() -> Shown,
        plan: &Plan,
    ) -> Result<(), Failure> {
        args.tool.publish_page(tool, shown, plan, self.pictured.as_ref())
    }

    /// Reports that a threshold was passed, saves the requested traces, and returns the exit code.
    /// The lines about them go to stderr if the JSON takes stdout.
    pub(crate) fn save(self, tool: &str, saves: &Saves, plan: &Plan, json: &JsonArgs) -> Done {
        let say = |text: &str| match json.takes_stdout() {
            true => {
                eprintln_lossy(text.trim_end());
                Ok(())
            }
            false => output::print(text),
        };
        if self.by_threshold {
            say(&format!("rtla {tool} hit stop tracing\n"))?;
        }
        if let Some(kept) = self.kept {
            let trace = kept.into_trace(plan.meta(), self.at);
            let at_threshold = saves.at_threshold.as_deref().filter(|_| self.by_threshold);
            for path in at_threshold.into_iter().chain(saves.in_the_end.as_deref()) {
                say(&format!("  Saving trace to {}\n", path.display()))?;
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
struct LastRecords {
    size: usize,
    names: Vec<Record>,
    last: VecDeque<Record>,
    lost: u64,
}

impl LastRecords {
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
pub(crate) trait Collector: Sink {
    /// Discards figures of the warm-up.
    fn discard(&mut self);

    /// Whether a threshold was passed.
    fn is_hit(&self) -> bool;
}

impl Collector for timerlat::Collector {
    fn discard(&mut self) {
        self.discard();
    }

    fn is_hit(&self) -> bool {
        self.hit().is_some()
    }
}

impl Collector for osnoise::Collector {
    fn discard(&mut self) {
        self.discard();
    }

    fn is_hit(&self) -> bool {
        self.hit().is_some()
    }
}

/// Passes records on until a threshold is passed, and notes that time.
struct UntilThreshold<'a, T> {
    tool: &'a mut T,
    /// Start of counting; `None` once it has started.
    warm_up: Option<Instant>,
    kept: Option<LastRecords>,
    over: &'a core::cell::Cell<Option<Instant>>,
}

impl<T: Collector> Sink for UntilThreshold<'_, T> {
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

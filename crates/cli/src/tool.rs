//! The common part of tools that build their own workload: `cyclictest`, `rt-migrate-test`,
//! `timerlat`, `osnoise`.
//!
//! stdout is the tool's; machine, kernel, costs and seed of the simulation go to stderr.

use super::failure::{Failure, eprintln_lossy};
use super::options::{Background, KernelArgs, SimArgs};
use super::output::HtmlArgs;
use super::plan::simulation_with;
use super::progress::{Progress, catch_interrupts};
use super::rtla::cpu_list;
use super::tracing::{self, Target};
use clap::ValueEnum;
use schemars::JsonSchema;
use serde::Serialize;
use zerolag::model::{CpuId, CpuMask, Duration, Instant, Topology};
use zerolag::page::Shown;
use zerolag::page::{self, Pictured, Portrait};
use zerolag::sim::{Sink, Tracing};
use zerolag::workload::{Program, default_machine};
use zerolag::{Plan, Simulation, Workload};
use zerolag_tools::build_load::BuildLoad;
use zerolag_tools::{busy_loop, kernel_load};

/// The simulation under a tool.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ToolArgs {
    #[command(flatten)]
    pub(crate) sim: SimArgs,
    #[command(flatten)]
    pub(crate) kernel: KernelArgs,
    #[command(flatten)]
    pub(crate) html: HtmlArgs,
}

/// The load next to a tool, and the setting by which models of preemption are told apart.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct LoadArgs {
    /// Load next to the tool; `kernel` tells preemption models apart: --set
    /// preempt=none|voluntary|full|lazy|rt
    #[arg(long, value_enum, default_value = "none", help_heading = "Simulation")]
    pub(crate) load: Load,
    /// The CPUs of the load [default: all; isolated ones have only hogs]
    #[arg(long, value_name = "CPU-LIST", value_parser = cpu_list, help_heading = "Simulation")]
    pub(crate) load_cpus: Option<CpuMask>,
}

/// The load next to a tool.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Load {
    /// Nothing
    None,
    /// As many short-lived compilers as CPUs
    Build,
    /// A fair busy loop on each CPU
    Hogs,
    /// Tasks that work in the kernel, under locks, and a network card on each CPU
    Kernel,
}

impl LoadArgs {
    /// Adds the load to a program without resources and groups, on the machine of a plan. Only
    /// `hogs` uses CPUs that are isolated.
    pub(crate) fn add_to(&self, program: &mut Program, plan: &Plan) {
        let all = CpuMask::first_n(plan.config.topology.nr_cpus());
        let is_wanted = |cpu: &CpuId| self.load_cpus.as_ref().is_none_or(|cpus| cpus.contains(*cpu));
        let all: CpuMask = all.iter().filter(is_wanted).collect();
        let (_, free) = parted(plan, &all);
        match self.load {
            Load::None => {}
            Load::Build => {
                let jobs = u32::try_from(free.count()).unwrap_or(u32::MAX);
                BuildLoad { cpus: Some(free), ..BuildLoad::new(jobs) }.add_to(program);
            }
            Load::Hogs => program.tasks.extend(all.iter().map(busy_loop)),
            Load::Kernel => kernel_load::add_to(program, &plan.config.topology, &free),
        }
    }
}

/// Returns the CPUs that are isolated, and the others.
pub(crate) fn parted(plan: &Plan, all: &CpuMask) -> (CpuMask, CpuMask) {
    let isolated = plan.config.settings.isolated_cpus(all.count());
    let free = all.iter().filter(|cpu| !isolated.contains(*cpu)).collect();
    (isolated, free)
}

impl ToolArgs {
    /// Returns whether the machine is given.
    pub(crate) fn has_machine(&self) -> bool {
        self.sim.machine.topology().is_some()
    }

    /// Returns the machine of a tool that runs alone.
    pub(crate) fn machine(&self) -> Topology {
        self.sim.machine.topology().unwrap_or_else(default_machine)
    }

    /// Returns the plan of a program built by the tool.
    pub(crate) fn plan(&self, program: Program, machine: Topology) -> Result<Plan, Failure> {
        Ok(self.simulation(Workload::of_program(program, machine)).plan()?.plan)
    }

    /// Returns the simulation of a workload: beside the kernel's own threads, if none are chosen.
    /// On an empty machine a tool finds nothing: rt-migrate-test passes on kernels that fail it
    /// within a second.
    pub(crate) fn simulation(&self, workload: Workload) -> Simulation {
        let simulation = simulation_with(workload, &self.sim, &self.kernel);
        // A profile from a file has the threads of its host, and without costs nothing disturbs.
        let is_built_in = self.sim.costs.as_ref().is_none_or(|name| name == "default");
        match self.sim.background {
            Background::Profile if is_built_in => simulation.background(Background::Idle.threads()),
            _ => simulation,
        }
    }

    /// Prints the parts of the plan that the tool's own output does not name.
    pub(crate) fn say_what_was_simulated(&self, plan: &Plan) {
        if !self.sim.is_quiet() {
            let meta = plan.meta();
            let (machine, kernel, costs, seed) = (meta.machine, meta.kernel, meta.costs, plan.config.seed);
            eprintln_lossy(&format!("simulated: {machine}, kernel {kernel}, costs {costs}, seed {seed}"));
        }
    }
}

/// The steps in which the progress of a run is shown.
pub(crate) struct Steps {
    /// Their number.
    pub(crate) count: u64,
    /// Their name, in the plural.
    pub(crate) unit: &'static str,
    /// The duration of each.
    pub(crate) each: Duration,
}

impl ToolArgs {
    /// Runs the plan, passes its records to the tool's collector and to the trace, and returns the
    /// collector, and what a page shows of the run if it is wanted.
    pub(crate) fn collect<C: Sink>(
        &self,
        plan: &Plan,
        trace: Option<Target<'_>>,
        collector: C,
        steps: &Steps,
    ) -> Result<(C, Option<Pictured>), Failure> {
        self.html.check()?;
        catch_interrupts();
        let mut progress = Progress::new(steps.count, steps.unit, self.sim.is_quiet());
        let collected = tracing::record(plan, trace, |recorder| {
            let mut machine = plan.build(Tracing::On)?;
            let portrait = self.html.is_wanted().then(|| Portrait::new(&plan.meta()));
            let mut sink = (collector, (recorder, portrait));
            let at = |now: Instant| now.as_nanos() / steps.each.as_nanos();
            let outcome = machine.run_with(&mut sink, |now, _| progress.at(at(now)));
            let (collector, (_, portrait)) = sink;
            let pictured = portrait.map(|portrait| portrait.finish(outcome.end));
            Ok(((collector, pictured), outcome.end))
        });
        progress.finish();
        let collected = collected?;
        self.say_what_was_simulated(plan);
        Ok(collected)
    }
}

impl ToolArgs {
    /// Writes the page of a run, if it is wanted: with the tool's figures.
    pub(crate) fn publish_page(
        &self,
        tool: &str,
        shown: impl FnOnce() -> Shown,
        plan: &Plan,
        pictured: Option<&Pictured>,
    ) -> Result<(), Failure> {
        let Some(pictured) = pictured else { return Ok(()) };
        self.html.publish(|| Ok(page::of_tool(shown(), plan, pictured, &HtmlArgs::about(tool))))
    }
}

/// The simulated system, under the keys of the tools.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct SysInfo {
    /// `zerolag`.
    sysname: &'static str,
    /// The kernel's preset.
    release: String,
    /// The version of zerolag.
    version: &'static str,
    /// The machine.
    machine: String,
    /// Of cyclictest: whether the kernel is a real-time one.
    #[serde(skip_serializing_if = "Option::is_none")]
    realtime: Option<u8>,
}

impl SysInfo {
    /// Returns that of a plan.
    pub(super) fn of(plan: &Plan, realtime: Option<u8>) -> Self {
        let meta = plan.meta();
        Self {
            sysname: "zerolag",
            release: meta.kernel.to_string(),
            version: zerolag::VERSION,
            machine: meta.machine.to_string(),
            realtime,
        }
    }
}

/// Reads whole units, or a number with a unit of its own.
fn in_unit(text: &str, unit: Duration) -> Result<Duration, String> {
    if let Ok(count) = text.parse::<u64>() {
        return count.checked_mul(unit.as_nanos()).map(Duration::from_nanos).ok_or_else(|| "it is too long".to_owned());
    }
    text.parse().map_err(|_| format!("expected a whole number (its unit is {unit}), or one with a unit, as in 20ms"))
}

/// Reads milliseconds.
pub(crate) fn millis(text: &str) -> Result<Duration, String> {
    in_unit(text, Duration::from_millis(1))
}

/// Reads microseconds.
pub(crate) fn micros(text: &str) -> Result<Duration, String> {
    in_unit(text, Duration::from_micros(1))
}

/// Reads nanoseconds.
pub(crate) fn nanos(text: &str) -> Result<Duration, String> {
    in_unit(text, Duration::from_nanos(1))
}

/// Reads seconds, or a number with `s`, `m`, `h` or `d`.
pub(crate) fn tool_duration(text: &str) -> Result<Duration, String> {
    let units = [("s", 1), ("m", 60), ("h", 3_600), ("d", 86_400)];
    let unit = units.into_iter().find_map(|(suffix, seconds)| Some((text.strip_suffix(suffix)?, seconds)));
    let (number, seconds) = unit.unwrap_or((text, 1));
    let count: u64 =
        number.parse().map_err(|_| "expected a whole number of seconds, or one with m, h or d".to_owned())?;
    let most = zerolag::workload::random::MAX_TIME.as_nanos() / 1_000_000_000;
    match count.checked_mul(seconds) {
        Some(0) => Err("the duration must be above zero".to_owned()),
        Some(time) if time <= most => Ok(Duration::from_secs(time)),
        _ => Err("at most 10 years can be simulated".to_owned()),
    }
}

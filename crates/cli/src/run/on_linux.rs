//! `zerolag run --on linux`: a workload on the host's own kernel.

use super::args::{Args, write_log};
use crate::failure::{Failure, eprint_carets, eprintln_lossy};
use crate::output::HtmlArgs;
use crate::progress::{catch_interrupts, interrupted};
use crate::{Done, code};
use std::fmt::Write as _;
use std::sync::Arc;
use zerolag::goals::{self, ONE_RUN, Verdict};
use zerolag::model::{CpuMask, Topology};
use zerolag::page::{self, Pictured};
use zerolag::report::frame;
use zerolag::report::human::{Human, Percent};
use zerolag::report::text;
use zerolag::sim::Sink;
use zerolag::simulation::{DEFAULT_DURATION, verdicts};
use zerolag::workload::Scenario;
use zerolag::workload::goal::Goal;
use zerolag_host::{HostReport, measure};
use zerolag_linux::plan::Recording;
use zerolag_linux::{End, Host, Options, Plan, run as run_on_host};
use zerolag_tools::rtapp_log::Log;
use zerolag_tools::rtapp_marks;

/// The slowdown of a CPU between the start and the end of the run, in thousandths, from which a
/// warning is printed.
const DRIFT_WARNING: i64 = 20;

/// Runs the workload.
pub(crate) fn run(args: &Args) -> Done {
    let trace = args.outputs()?;
    let (plan, goals) = plan(args, if trace.is_some() { Recording::Kernel } else { Recording::Off })?;
    catch_interrupts();
    let figures = run_on_host(&plan, interrupted)
        .map_err(|error| Failure::Failed(format!("nothing was run: {}", error.to_string().replace('\n', "\n  "))))?;
    let report = measure(figures);
    if let Some(target) = trace {
        target.write(&report.figures.trace, &plan.program)?;
    }
    args.html.publish(|| {
        let about = HtmlArgs::about(args.workload.file.display());
        Ok(page::of_trace(&Pictured::of(&report.figures.trace), None, &about))
    })?;
    args.tables.publish(|| frame::summary::all(&report.summary))?;
    if let Some(dir) = &args.rtapp_log {
        let mut log = Log::new(Arc::clone(&plan.program));
        report.figures.trace.records.iter().for_each(|record| log.record(record));
        write_log(dir, &log)?;
    }
    args.json.publish(|| as_text(&report, args.run.sim.is_quiet()), || report.to_json())?;
    let verdicts = goals::judge(&goals, &report.summary);
    for verdict in &verdicts {
        eprintln_lossy(&format!("goal {}", verdict.line(ONE_RUN)));
    }
    Ok(match verdict(&report, args.run.sim.is_quiet()) {
        code::OK if !verdicts.iter().all(Verdict::is_met) => code::GOAL_MISSED,
        code => code,
    })
}

/// Prints warnings on stderr, and returns the exit code.
fn verdict(report: &HostReport, quiet: bool) -> u8 {
    if !quiet {
        if !report.figures.is_recorded {
            eprintln_lossy("note: without the kernel's events (--trace) only waits after wakeups are known");
        }
        for note in &report.figures.notes {
            eprintln_lossy(&format!("note: {note}"));
        }
        for (cpu, drift) in report.figures.drift.iter().filter(|(_, drift)| drift.abs() >= DRIFT_WARNING) {
            let (by, how) = (drift.abs(), if *drift > 0 { "slower" } else { "faster" });
            eprintln_lossy(&format!(
                "warning: cpu {cpu} was {}.{}% {how} after the run than before (clock speed, a sibling, a hypervisor): \
                 computations took a different time than stated",
                by / 10,
                by % 10
            ));
        }
    }
    match &report.figures.end {
        End::Duration | End::Finished => {}
        End::Interrupted => {
            eprintln_lossy(&format!("interrupted after {}", Human(report.figures.elapsed)));
            return code::INTERRUPTED;
        }
        why @ (End::Deadlock(_) | End::Failed(_)) => {
            eprintln_lossy(&format!("error: {why}"));
            return code::FAILURE;
        }
    }
    if report.checks.as_ref().is_some_and(|checks| !checks.is_clean()) {
        eprintln_lossy("warning: the recorded events break rules of scheduling (see `checks`)");
    }
    code::OK
}

fn as_text(report: &HostReport, quiet: bool) -> String {
    let figures = &report.figures;
    let limits = text::Limits::default();
    let tables = text::render(&report.summary, limits);
    let head = tables.find("\n\n").map_or(&*tables, |end| &tables[..=end]);
    let mut out = if quiet { head.to_owned() } else { format!("{tables}\n") };
    let (others, available) = report.others();
    let speeds: Vec<String> =
        figures.speeds.iter().map(|(cpu, ps)| format!("cpu {cpu} {}.{:03} ns", ps / 1000, ps % 1000)).collect();
    writeln!(
        out,
        "ended at {}: {}; other programs used {} of these CPUs; a turn of the calibrated loop: {}",
        figures.elapsed,
        figures.end,
        Percent { part: others, whole: available },
        speeds.join(", ")
    )
    .expect("invariant: a string takes everything");
    if let Some(checks) = &report.checks {
        out.push_str(&verdicts::line(checks));
    }
    out
}

/// Reads the workload for this host and checks it against the host; also returns the workload's
/// goals.
fn plan(args: &Args, record: Recording) -> Result<(Plan, Vec<Goal>), Failure> {
    let host = Host::look();
    let (sim, machine_args) = (&args.run.sim, &args.run.sim.machine);
    let simulated = [
        ("--machine", machine_args.machine.is_some()),
        ("--kernel", args.run.kernel.kernel.is_some()),
        ("--set", !machine_args.set.is_empty()),
        ("--costs", sim.costs.is_some()),
        ("--manifest", args.run.manifest.manifest.is_some()),
        ("--show", !args.show.show.is_empty()),
    ];
    if let Some((option, _)) = simulated.iter().find(|(_, given)| *given) {
        return Err(Failure::input_help(
            format!(
                "{option} applies to simulations; with `--on linux` the machine is this host, Linux {}",
                host.release
            ),
            "leave it out, or leave `--on linux` out",
        ));
    }
    let nr_cpus = machine_args.cpus.as_ref().map_or(host.nr_cpus, |cpus| to_u32(cpus.nr_cpus()));
    if nr_cpus > host.nr_cpus {
        return Err(Failure::input(format!("--cpus {nr_cpus}: this host has {} CPUs", host.nr_cpus)));
    }
    let machine = Topology::flat(nr_cpus).map_err(|error| Failure::input(error.to_string()))?;
    let scenario = args.workload.scenario_on(Some(machine), machine_args)?;
    if !args.run.sim.is_quiet() {
        say_what_does_not_apply(&scenario, &host);
    }
    let mut duration = args.run.duration.duration.or(scenario.duration);
    if duration.is_none() && scenario.program.tasks.iter().any(|task| task.turns.is_none()) {
        if !args.run.sim.is_quiet() {
            eprintln_lossy(&format!(
                "note: tasks loop forever and no duration is given: running {DEFAULT_DURATION} (-d)"
            ));
        }
        duration = Some(DEFAULT_DURATION);
    }
    let cpus = machine_args.cpus.as_ref().map(|_| CpuMask::first_n(nr_cpus as usize));
    let seed = sim.seed.or(scenario.seed).unwrap_or_default();
    let options = Options { duration, cpus, seed, record };
    let program = if args.rtapp_log.is_some() || !args.rtapp_marks.is_empty() {
        rtapp_marks::instrument(&scenario.program, &args.rtapp_marks)
    } else {
        scenario.program
    };
    let plan = Plan::new(Arc::new(program), options).map_err(|refusals| {
        let lines: Vec<String> = refusals.iter().map(|refusal| format!("\n  {refusal}")).collect();
        Failure::Failed(format!("this host refuses the workload; nothing was run:{}", lines.concat()))
    })?;
    Ok((plan, scenario.goals))
}

fn say_what_does_not_apply(scenario: &Scenario, host: &Host) {
    if !scenario.warnings.is_empty() {
        eprint_carets(scenario.warnings.clone());
    }
    let said = [
        ("kernel", scenario.kernel.is_some()),
        ("settings", !scenario.settings.is_empty()),
        ("costs", scenario.costs.is_some()),
    ];
    let names: Vec<&str> = said.iter().filter(|(_, said)| *said).map(|(name, _)| *name).collect();
    if !names.is_empty() {
        let names = names.join(", ");
        eprintln_lossy(&format!("note: this is Linux {}, unchanged; ignored parts of the file: {names}", host.release));
    }
}

fn to_u32(count: usize) -> u32 {
    u32::try_from(count).expect("invariant: a machine has at most 4096 CPUs")
}

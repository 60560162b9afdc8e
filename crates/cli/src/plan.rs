//! The simulation of a run: a workload's file under the values of the command line.

use super::failure::{Failure, eprint_carets, eprintln_lossy};
use super::options::{KernelArgs, RunArgs, SimArgs, WorkloadArgs};
use super::policy;
use zerolag::Workload;
use zerolag::simulation::{Note, Prepared, Simulation};

/// Returns the simulation that the command line asks for.
pub(super) fn simulation_of(workload: &WorkloadArgs, args: &RunArgs) -> Result<Simulation, Failure> {
    simulation_of_workload(workload.workload()?, args)
}

/// Returns the simulation of a workload that the command line asks for.
pub(super) fn simulation_of_workload(workload: Workload, args: &RunArgs) -> Result<Simulation, Failure> {
    let simulation = simulation_with(workload, &args.sim, &args.kernel);
    let mut simulation = args.manifest.apply(simulation)?;
    if let Some(policy) = &args.policy.policy {
        policy::check([policy.as_str()], &simulation)?;
        simulation = simulation.set("policy", policy);
    }
    Ok(match args.duration.duration {
        Some(duration) => simulation.duration(duration),
        None => simulation,
    })
}

/// Returns the simulation of a workload under the values of the command line.
pub(super) fn simulation_with(workload: Workload, sim: &SimArgs, kernel: &KernelArgs) -> Simulation {
    let mut simulation = Simulation::new(workload).policies_by(policy::load);
    if let Some(kernel) = kernel.kernel {
        simulation = simulation.kernel(kernel.name());
    }
    if let Some(machine) = sim.machine.topology() {
        simulation = simulation.machine(machine);
    }
    if let Some(costs) = &sim.costs {
        simulation = simulation.costs(costs);
    }
    if let Some(seed) = sim.seed {
        simulation = simulation.seed(seed);
    }
    simulation = simulation.background(sim.background.threads());
    if sim.force {
        simulation = simulation.forced();
    }
    sim.machine.set.iter().fold(simulation, |simulation, (key, value)| simulation.set(key, value))
}

/// Reads the workload and checks the values; prints warnings and notes unless `is_quiet`.
pub(super) fn prepare(simulation: &Simulation, is_quiet: bool) -> Result<Prepared, Failure> {
    let prepared = simulation.plan()?;
    if !is_quiet {
        notes(&prepared);
    }
    Ok(prepared)
}

/// Prints warnings about the file, and notes.
pub(super) fn notes(prepared: &Prepared) {
    if let Some(warnings) = prepared.warnings.as_ref().filter(|warnings| !warnings.is_empty()) {
        eprint_carets(warnings.clone());
    }
    for note in &prepared.notes {
        let option = if *note == Note::DefaultDuration { " (-d)" } else { "" };
        eprintln_lossy(&format!("note: {note}{option}"));
    }
}

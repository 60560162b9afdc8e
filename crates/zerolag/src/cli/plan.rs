//! The plan of a run: a workload's file under the values of the command line.

use super::failure::{Failure, carets, eprintln_lossy};
use super::input;
use super::options::{self, KernelArgs, MachineArgs, RunArgs, SimArgs, WorkloadArgs};
use zerolag::Plan;
use zerolag::model::Topology;
use zerolag::simulation::DEFAULT_DURATION;
use zerolag::workload::{self, LoadOptions, Scenario};

/// Reads the workload and applies the command line.
pub(super) fn plan_of(workload: &WorkloadArgs, args: &RunArgs) -> Result<Plan, Failure> {
    let quiet = args.sim.is_quiet();
    let scenario = load_scenario(workload, &args.sim.machine, args.sim.machine.topology())?;
    if !quiet && !scenario.warnings.is_empty() {
        eprintln_lossy(&carets(scenario.warnings.clone()));
    }
    let mut plan = plan_of_scenario(workload, scenario, &args.sim, &args.kernel)?;
    if args.duration.duration.is_some() {
        plan.config.duration = args.duration.duration;
    }
    if !quiet {
        for cpuset in plan.invalid_partitions() {
            eprintln_lossy(&format!(
                "note: cpuset `{cpuset}`: root invalid (partition config conflicts with housekeeping setup): it has isolated CPUs"
            ));
        }
    }
    if plan.config.duration.is_none() && plan.is_endless() {
        if !quiet {
            eprintln_lossy(&format!(
                "note: tasks loop forever and no duration is given: running {DEFAULT_DURATION} (-d)"
            ));
        }
        plan.config.duration = Some(DEFAULT_DURATION);
    }
    Ok(plan)
}

/// Reads the workload for a machine; `None` is the file's own.
pub(super) fn load_scenario(
    workload: &WorkloadArgs,
    machine: &MachineArgs,
    topology: Option<Topology>,
) -> Result<Scenario, Failure> {
    let (name, bytes) = input::read(&workload.file)?;
    let load = LoadOptions { machine_override: topology, ..workload.load_options(machine) };
    workload::load(&name, &bytes, &load).map_err(|error| Failure::Workload(Box::new(error)))
}

/// Returns the plan of a scenario that was read from this file.
pub(super) fn plan_of_scenario(
    workload: &WorkloadArgs,
    mut scenario: Scenario,
    sim: &SimArgs,
    kernel: &KernelArgs,
) -> Result<Plan, Failure> {
    let from_file = scenario.costs.take().filter(|_| sim.costs.is_none());
    let parameters = core::mem::take(&mut scenario.parameters);
    let mut plan = Plan::on_kernel(scenario, kernel.kernel)
        .map_err(|error| Failure::input(format!("{}: {error}", workload.file.display())))?;
    if let Some(profile) = from_file {
        plan = plan.with_costs(options::costs(&profile)?);
    }
    sim.apply(&parameters, plan)
}

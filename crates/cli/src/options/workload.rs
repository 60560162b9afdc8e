//! The workload, and how its file is read.

use super::MachineArgs;
use crate::failure::Failure;
use crate::input;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use std::path::PathBuf;
use zerolag::Workload;
use zerolag::model::Topology;
use zerolag::workload::builtin::PeriodicPolicy;
use zerolag::workload::{DuplicatePolicy, LoadOptions, Scenario};

/// The workload and how its file is read.
#[derive(Clone, Debug, Args)]
pub(crate) struct WorkloadArgs {
    /// The workload: scenario TOML, rt-app JSON, or a task set: CSV (task,runtime,period,deadline),
    /// XML of SimSo or Cheddar, YAML of PARTSim; `-` is the standard input
    #[arg(value_name = "WORKLOAD")]
    pub(crate) file: PathBuf,
    /// The meaning of a duplicate key in an object of an rt-app file
    #[arg(long, value_name = "POLICY", default_value = "workgen", value_parser = duplicates())]
    rtapp_duplicates: DuplicatePolicy,
    /// How the tasks of a task set are scheduled: as its file says (a table: by deadline), by
    /// SCHED_DEADLINE, or by SCHED_FIFO in rate monotonic order
    #[arg(long, value_name = "POLICY", default_value = "file", value_parser = task_set())]
    task_set: PeriodicPolicy,
}

impl WorkloadArgs {
    /// Returns a file that is read with the default options.
    pub(crate) fn of(file: PathBuf) -> Self {
        let LoadOptions { duplicates, task_set, .. } = LoadOptions::default();
        Self { file, rtapp_duplicates: duplicates, task_set }
    }

    /// Returns another file that is read in the same way.
    pub(crate) fn with_file(&self, file: PathBuf) -> Self {
        Self { file, ..self.clone() }
    }

    /// Returns the workload.
    pub(crate) fn workload(&self) -> Result<Workload, Failure> {
        Ok(input::workload(&self.file)?.duplicates(self.rtapp_duplicates).task_set(self.task_set))
    }

    /// Returns the scenario for the machine of the command line, if it names one.
    pub(crate) fn scenario(&self, machine: &MachineArgs) -> Result<Scenario, Failure> {
        self.scenario_on(machine.topology(), machine)
    }

    /// Returns the scenario for a machine.
    pub(crate) fn scenario_on(&self, on: Option<Topology>, machine: &MachineArgs) -> Result<Scenario, Failure> {
        Ok(self.workload()?.scenario(on, &machine.set)?)
    }
}

/// Reads the meaning of duplicate keys in rt-app files.
fn duplicates() -> impl TypedValueParser<Value = DuplicatePolicy> {
    PossibleValuesParser::new(DuplicatePolicy::ALL.map(DuplicatePolicy::name))
        .map(|name| DuplicatePolicy::from_name(&name).unwrap_or_default())
}

/// Reads the scheduling of a task set.
fn task_set() -> impl TypedValueParser<Value = PeriodicPolicy> {
    PossibleValuesParser::new(["file", "deadline", "fifo"]).map(|name| match &*name {
        "fifo" => PeriodicPolicy::RateMonotonicFifo,
        "deadline" => PeriodicPolicy::Deadline,
        _ => PeriodicPolicy::OfFile,
    })
}

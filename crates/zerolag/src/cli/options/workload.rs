//! The workload, and how its file is read.

use super::MachineArgs;
use crate::cli::input;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use std::path::{Path, PathBuf};
use zerolag::workload::builtin::PeriodicPolicy;
use zerolag::workload::{DuplicatePolicy, Includes, LoadOptions};

/// The workload and how its file is read.
#[derive(Clone, Debug, Args)]
pub(crate) struct WorkloadArgs {
    /// The workload: scenario TOML, rt-app JSON or a CSV task set (task,runtime,period,deadline);
    /// `-` is the standard input
    #[arg(value_name = "WORKLOAD")]
    pub(crate) file: PathBuf,
    /// The meaning of a duplicate key in an object of an rt-app file
    #[arg(long, value_name = "POLICY", default_value = "workgen", value_parser = duplicates())]
    rtapp_duplicates: DuplicatePolicy,
    /// How the tasks of a CSV task set are scheduled: by deadline, or by SCHED_FIFO in rate
    /// monotonic order
    #[arg(long, value_name = "POLICY", default_value = "deadline", value_parser = task_set())]
    task_set: PeriodicPolicy,
}

impl WorkloadArgs {
    /// Returns a file that is read with the default options.
    pub(crate) fn of(file: PathBuf) -> Self {
        let LoadOptions { duplicates, task_set, .. } = LoadOptions::default();
        Self { file, rtapp_duplicates: duplicates, task_set }
    }

    /// Returns the options of reading the file.
    pub(crate) fn load_options(&self, machine: &MachineArgs) -> LoadOptions {
        LoadOptions {
            machine_override: machine.topology(),
            duplicates: self.rtapp_duplicates,
            task_set: self.task_set,
            parameters: machine.set.clone(),
            includes: Some(Includes::new(|path| input::read_bytes(Path::new(path)))),
        }
    }
}

/// Reads the meaning of duplicate keys in rt-app files.
fn duplicates() -> impl TypedValueParser<Value = DuplicatePolicy> {
    PossibleValuesParser::new(DuplicatePolicy::ALL.map(DuplicatePolicy::name))
        .map(|name| DuplicatePolicy::from_name(&name).unwrap_or_default())
}

/// Reads the scheduling of a CSV task set.
fn task_set() -> impl TypedValueParser<Value = PeriodicPolicy> {
    PossibleValuesParser::new(["deadline", "fifo"]).map(|name| match &*name {
        "fifo" => PeriodicPolicy::RateMonotonicFifo,
        _ => PeriodicPolicy::Deadline,
    })
}

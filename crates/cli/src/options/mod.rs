//! Options that several subcommands share: each is written once, and flattened into the arguments
//! of every subcommand that has it.
//!
//! | struct | options | in |
//! |---|---|---|
//! | [`WorkloadArgs`] | the workload's file and how it is read | subcommands that need a workload |
//! | [`MachineArgs`] | `--cpus`, `--machine`, `--set` | whatever reads a workload for a machine |
//! | [`SimArgs`] | those, `--costs`, `--seed`, `--quiet` | every subcommand that runs a workload |
//! | [`KernelArgs`] | `--kernel` | those that run it on one kernel |
//! | [`DurationArgs`] | `--duration` | all but tools, which have their own |
//! | [`ManifestArgs`] | `--manifest` | those that run a workload with limited groups |
//! | [`RunArgs`] | [`SimArgs`], [`KernelArgs`], [`DurationArgs`] and [`ManifestArgs`] | `run`, `sweep`, `explain`, `advise` |
//! | [`QuietArgs`] | `--quiet` | those, and `validate` |
//! | [`RunsArgs`] | `--runs` | subcommands that compare variants |
//! | [`RuleArgs`] | `--risk`, `--most` | those that search for a value that meets a goal |
//! | [`ShowArgs`] | `--show` | those that print figures |
//! | [`TraceArgs`] | `--trace`, `--trace-format` | those that can write a trace of the whole run |
//!
//! The test of this module checks that an option has one help text, one value name and one parser
//! wherever it occurs; exceptions are named there, each with its reason.

mod run;
#[cfg(test)]
mod tests;

mod trace;
mod workload;

pub(crate) use run::{
    Background, DurationArgs, KernelArgs, MACHINE, MachineArgs, ManifestArgs, PolicyArgs, QuietArgs, RuleArgs, RunArgs,
    RunsArgs, ShowArgs, SimArgs, keys_of_set, share,
};
pub(crate) use trace::{TRACE, TraceArgs};
pub(crate) use workload::WorkloadArgs;
pub(crate) use zerolag::values::{costs, duration, kernel, setting};

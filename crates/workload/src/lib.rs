//! Workloads: programs, rt-app JSON and scenario TOML.
//!
//! [`load`] reads a workload file and returns a [`Scenario`]: a resolved [`Program`], and the
//! machine, kernel and run that the file asks for. All mistakes in the file are returned at once,
//! with positions ([`Diagnostics`]).
//!
//! | module | holds |
//! |---|---|
//! | [`program`] | the [`Program`] that every format lowers to; hosts read nothing else |
//! | [`arrivals`] | the arrival times of requests |
//! | [`change`] | changes at given times |
//! | [`nature`] | properties of each action |
//! | [`random`] | distributions and the named streams they draw from |
//! | [`rtapp`] | JSON as rt-app reads it |
//! | [`scenario`] | scenario TOML |
//! | [`builtin`] | programs built in code: periodic task sets |
//! | [`diagnostic`], [`render`] | errors, warnings and notes, and how they are printed |
//! | [`goal`] | figures that a run must reach |
//! | [`input`] | limits of inputs |
//! | [`interrupt`] | interrupts of devices, and the threads that they become |
//! | [`limits`] | CPU limits and weights in the notations of Kubernetes, systemd and Docker |
//! | `task_set` | task sets of other tools: tables, SimSo, Cheddar, PARTSim |
//! | [`yaml`] | YAML as a tree with positions |
#![warn(missing_docs)]

pub mod arrivals;
mod assemble;
pub mod builtin;
pub mod change;
mod check;
pub mod diagnostic;
pub mod generate;
pub mod goal;
mod group;
pub mod input;
pub mod interrupt;
mod kernel_action;
pub mod limits;
pub mod nature;
pub mod origin;
mod plan;
pub mod program;
pub mod random;
pub mod render;
mod resource;
pub mod rtapp;
pub mod scenario;
mod task_set;
pub mod yaml;

pub use diagnostic::{Diagnostic, Diagnostics, Severity};
pub use program::Program;
pub use random::{Dist, Stream};
pub use rtapp::DuplicatePolicy;

use builtin::PeriodicPolicy;
use core::fmt;
use goal::Goal;
use input::Format;
use std::sync::Arc;
use zerolag_model::{Duration, KernelVersion, Topology};

/// The CPUs against which CPU numbers are checked if neither the file nor the caller names a
/// machine.
pub const DEFAULT_CPUS: u32 = 4;

/// The most tasks that a program may start with: the sum of all instances.
pub const INSTANCES_MAX: u64 = 1_000_000;

/// Options of reading.
#[derive(Clone, Debug, Default)]
pub struct LoadOptions {
    /// The machine against which CPU numbers are checked, instead of the file's.
    pub machine_override: Option<Topology>,
    /// The meaning of duplicate keys in rt-app files.
    pub duplicates: DuplicatePolicy,
    /// The scheduling of the tasks of a task set.
    pub task_set: PeriodicPolicy,
    /// Values for parameters that a scenario declares; others are ignored.
    pub parameters: Vec<(String, String)>,
    /// The reader of included files; without it, including is an error.
    pub includes: Option<Includes>,
}

/// Reads included files.
#[derive(Clone)]
pub struct Includes(Arc<ReadFile>);

type ReadFile = dyn Fn(&str) -> Result<Vec<u8>, String> + Send + Sync;

impl Includes {
    /// Returns a reader. It gets a path, relative to the caller's directory, and returns the reason
    /// if the file cannot be read.
    pub fn new(read: impl Fn(&str) -> Result<Vec<u8>, String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(read))
    }

    pub(crate) fn read(&self, path: &str) -> Result<Vec<u8>, String> {
        (self.0)(path)
    }
}

impl fmt::Debug for Includes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Includes")
    }
}

/// The contents of a workload file.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The tasks and their programs.
    pub program: Program,
    /// The machine: the override if there is one, else the file's; `None` if neither names one
    /// (then CPU numbers were checked against [`DEFAULT_CPUS`]).
    pub machine: Option<Topology>,
    /// The kernel whose settings are the base.
    pub kernel: Option<KernelVersion>,
    /// Settings on top of the kernel's, in the order of the file; each has been accepted by
    /// [`zerolag_model::Settings::set`].
    pub settings: Vec<(String, String)>,
    /// The duration; `None` is until all tasks end.
    pub duration: Option<Duration>,
    /// The seed of all random streams.
    pub seed: Option<u64>,
    /// The cost profile, by name.
    pub costs: Option<String>,
    /// The goals of a run.
    pub goals: Vec<Goal>,
    /// The parameters that the file declares.
    pub parameters: Vec<String>,
    /// Warnings and notes; never an error.
    pub warnings: Diagnostics,
}

impl Scenario {
    /// Returns a scenario with nothing but these warnings.
    pub(crate) fn empty(warnings: Diagnostics) -> Self {
        Self {
            program: Program::default(),
            machine: None,
            kernel: None,
            settings: Vec::new(),
            duration: None,
            seed: None,
            costs: None,
            goals: Vec::new(),
            parameters: Vec::new(),
            warnings,
        }
    }

    /// Returns the machine that the program was checked against.
    #[must_use]
    pub fn machine_or_default(&self) -> Topology {
        self.machine.clone().unwrap_or_else(default_machine)
    }
}

/// Returns the machine of [`DEFAULT_CPUS`] CPUs.
#[must_use]
pub fn default_machine() -> Topology {
    Topology::flat(DEFAULT_CPUS).expect("invariant: a machine of 4 CPUs is possible")
}

/// Reads a workload file. `name` is used in messages and, by its extension, chooses the format:
/// `.json` is rt-app, `.toml` a scenario, `.csv` a table of periodic tasks, `.xml` and `.yml` those
/// of other tools; otherwise the contents decide.
///
/// Does not check decisions that a kernel makes at run time: whether a deadline task is admitted,
/// whether a setting fits the kernel version. Cost: O(input), at most [`input::INPUT_MAX`] bytes.
///
/// # Errors
/// All mistakes in the file, in order of position.
pub fn load(name: &str, bytes: &[u8], options: &LoadOptions) -> Result<Scenario, Diagnostics> {
    let text = input::text_of(name, bytes)?;
    match input::format_of(name, text) {
        Format::RtApp => rtapp::load(name, text, options),
        Format::Scenario => scenario::load(name, text, options),
        format @ (Format::TaskSet | Format::Xml | Format::Yaml) => task_set::load(format, name, text, options),
    }
}

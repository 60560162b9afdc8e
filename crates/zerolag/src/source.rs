//! [`Workload`]: where the program of a simulation comes from.
//!
//! A text is read for one machine and one set of parameters, so it is kept as text until both are
//! known: [`Workload::scenario`].

use crate::error::{Error, plain};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use zerolag_model::Topology;
use zerolag_sim::SimError;
use zerolag_workload::builtin::PeriodicPolicy;
use zerolag_workload::input::INPUT_MAX;
use zerolag_workload::scenario::SCENARIO_MAX;
use zerolag_workload::{DuplicatePolicy, Includes, LoadOptions, Program, Scenario};

/// The workload of a simulation: a file, a text, or a program built in code.
///
/// Included files are read relative to the current directory.
#[derive(Clone, Debug)]
pub struct Workload {
    pub(crate) source: WorkloadSource,
    duplicates: DuplicatePolicy,
    task_set: PeriodicPolicy,
}

#[derive(Clone, Debug)]
pub(crate) enum WorkloadSource {
    File(PathBuf),
    Text { name: Arc<str>, bytes: Arc<[u8]> },
    Scenario(Box<Scenario>),
    Program { program: Arc<Program>, machine: Topology },
}

impl Workload {
    fn of(source: WorkloadSource) -> Self {
        let LoadOptions { duplicates, task_set, .. } = LoadOptions::default();
        Self { source, duplicates, task_set }
    }

    /// Returns the workload of a file: scenario TOML, rt-app JSON, or a task set as CSV, XML or
    /// YAML. It is read by each call that needs it.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self::of(WorkloadSource::File(path.into()))
    }

    /// Returns the workload of a text. `name` stands for the file in messages; by its extension it
    /// chooses the format: `.toml`, `.json`, `.csv`, `.xml`, `.yml`; otherwise the contents decide.
    pub fn text(name: &str, text: impl AsRef<[u8]>) -> Self {
        Self::of(WorkloadSource::Text { name: name.into(), bytes: text.as_ref().into() })
    }

    /// Returns the workload of a scenario in TOML.
    pub fn toml(text: &str) -> Self {
        Self::text("scenario.toml", text)
    }

    /// Returns the workload of a scenario that was read before, or built.
    #[must_use]
    pub fn of_scenario(scenario: Scenario) -> Self {
        Self::of(WorkloadSource::Scenario(Box::new(scenario)))
    }

    /// Returns the workload of a program built in code, on a machine.
    #[must_use]
    pub fn of_program(program: Program, machine: Topology) -> Self {
        Self::of(WorkloadSource::Program { program: Arc::new(program), machine })
    }

    /// Returns it with another meaning of duplicate keys in rt-app files.
    #[must_use]
    pub const fn duplicates(mut self, policy: DuplicatePolicy) -> Self {
        self.duplicates = policy;
        self
    }

    /// Returns it with another scheduling of the tasks of a task set.
    #[must_use]
    pub const fn task_set(mut self, policy: PeriodicPolicy) -> Self {
        self.task_set = policy;
        self
    }

    /// Returns its name in messages.
    #[must_use]
    pub fn name(&self) -> String {
        match &self.source {
            WorkloadSource::File(path) => path.display().to_string(),
            WorkloadSource::Text { name, .. } => name.to_string(),
            WorkloadSource::Scenario(_) | WorkloadSource::Program { .. } => "the workload".to_owned(),
        }
    }

    /// Returns an error of a simulation, after the place of the table that asks for it.
    pub(crate) fn placed(&self, error: &SimError) -> String {
        let place = error.subject().and_then(|(kind, name)| {
            // A thread has the name of its task and a number.
            let of_thread = name.rsplit_once('-').filter(|(_, number)| number.parse::<u32>().is_ok());
            let line = self.line_of(kind, name);
            line.or_else(|| self.line_of(kind, of_thread?.0)).map(|line| format!("{}:{line}: ", self.name()))
        });
        format!("{}{error}", place.unwrap_or_default())
    }

    /// Returns the line, from 1, at which a table of the text begins: `[task.NAME]`, or the task of
    /// an rt-app file. `None` if it is elsewhere, as in an included file.
    pub(crate) fn line_of(&self, kind: &str, name: &str) -> Option<usize> {
        let bytes: Arc<[u8]> = match &self.source {
            WorkloadSource::File(path) => std::fs::read(path).ok()?.into(),
            WorkloadSource::Text { bytes, .. } => Arc::clone(bytes),
            WorkloadSource::Scenario(_) | WorkloadSource::Program { .. } => return None,
        };
        let text = String::from_utf8_lossy(&bytes);
        let heads = [format!("[{kind}.{name}]"), format!("[{kind}.\"{name}\"]"), format!("\"{name}\"")];
        let is_head = |line: &str| heads.iter().any(|head| line.trim_start().starts_with(head));
        text.lines().position(is_head).map(|index| index + 1)
    }

    /// Returns it with its file read, so that many simulations of it read the file once.
    ///
    /// # Errors
    /// The file cannot be read, or is a trace.
    pub fn read(self) -> Result<Self, Error> {
        let WorkloadSource::File(path) = &self.source else { return Ok(self) };
        let name = path.display().to_string();
        let mut bytes = Vec::new();
        let read = std::fs::File::open(path).and_then(|file| file.take(INPUT_MAX as u64 + 1).read_to_end(&mut bytes));
        read.map_err(|error| Error::reading(&name, &error))?;
        Ok(Self { source: WorkloadSource::Text { name: name.into(), bytes: bytes.into() }, ..self })
    }

    /// Reads it for a machine (`None` is its own), with values for the parameters that it declares;
    /// other values are ignored.
    ///
    /// # Errors
    /// The file cannot be read, is a trace, or has mistakes: all of them.
    pub fn scenario(&self, machine: Option<Topology>, values: &[(String, String)]) -> Result<Scenario, Error> {
        let read;
        let (name, bytes) = match &self.source {
            WorkloadSource::Text { name, bytes } => (name, bytes),
            WorkloadSource::File(_) => {
                read = self.clone().read()?;
                let WorkloadSource::Text { name, bytes } = &read.source else { unreachable!("it was read above") };
                (name, bytes)
            }
            WorkloadSource::Scenario(scenario) => {
                let machine = machine.or_else(|| scenario.machine.clone());
                return Ok(Scenario { machine, ..(**scenario).clone() });
            }
            WorkloadSource::Program { .. } => return Err(Error::input("a program built in code is no scenario")),
        };
        if zerolag_trace::is_trace(bytes) {
            return Err(Error::is_trace(name));
        }
        let options = LoadOptions {
            machine_override: machine,
            duplicates: self.duplicates,
            task_set: self.task_set,
            parameters: values.to_vec(),
            includes: Some(Includes::new(|path| read_included(Path::new(path)))),
        };
        Ok(zerolag_workload::load(name, bytes, &options)?)
    }
}

impl From<PathBuf> for Workload {
    fn from(path: PathBuf) -> Self {
        Self::file(path)
    }
}

impl From<&Path> for Workload {
    fn from(path: &Path) -> Self {
        Self::file(path)
    }
}

impl From<Scenario> for Workload {
    fn from(scenario: Scenario) -> Self {
        Self::of_scenario(scenario)
    }
}

/// Reads an included file.
fn read_included(path: &Path) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let limit = SCENARIO_MAX as u64 + 1;
    let done = std::fs::File::open(path).and_then(|file| file.take(limit).read_to_end(&mut bytes));
    done.map(|_| bytes).map_err(|error| plain(&error))
}

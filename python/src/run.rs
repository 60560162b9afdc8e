//! A run and its result.

use crate::errors::{diagnostics, raise};
use crate::spec::Spec;
use crate::table::Table;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::ops::ControlFlow;
use zerolag::model::KernelVersion;
use zerolag::page::{self, About, Pictured};
use zerolag::simulation::{Prepared, Progress, RunResult};
use zerolag::values;

/// The result of a run.
#[pyclass(frozen, module = "zerolag")]
pub(crate) struct Result {
    result: RunResult,
    prepared: Prepared,
}

/// Runs a simulation. The interpreter is free meanwhile; Ctrl-C ends the run.
#[pyfunction]
#[pyo3(signature = (spec, progress=None))]
pub(crate) fn run(py: Python<'_>, spec: Spec, progress: Option<Py<PyAny>>) -> PyResult<Result> {
    let mut raised = None;
    let at = |at: Progress| {
        if spec.has_raised() {
            return ControlFlow::Break(());
        }
        let asked = Python::attach(|py| {
            py.check_signals()?;
            let Some(progress) = &progress else { return Ok(true) };
            let end = at.end.map(|end| end.as_nanos());
            let answer = progress.call1(py, (at.at.as_nanos(), end))?.into_bound(py);
            Ok(answer.is_none() || answer.is_truthy()?)
        });
        match asked {
            Ok(true) => ControlFlow::Continue(()),
            Ok(false) => ControlFlow::Break(()),
            Err(error) => {
                raised = Some(error);
                ControlFlow::Break(())
            }
        }
    };
    let done = py.detach(|| {
        let prepared = spec.simulation()?.plan()?;
        let result = prepared.run_into(&mut zerolag::sim::NoTrace, at)?;
        Ok::<_, zerolag::Error>((prepared, result))
    });
    if let Some(error) = raised {
        return Err(error);
    }
    spec.check_raised()?;
    let (prepared, result) = done.map_err(|error| raise(py, &error))?;
    Ok(Result { result, prepared })
}

#[pymethods]
impl Result {
    /// Whether the run ended by itself, met every goal and broke no rule of scheduling.
    #[getter]
    fn ok(&self) -> bool {
        self.result.is_ok()
    }

    /// Whether `progress` ended the run.
    #[getter]
    fn interrupted(&self) -> bool {
        self.result.is_interrupted()
    }

    /// How the run ended, as a sentence.
    #[getter]
    fn ended(&self) -> String {
        self.result.report().outcome.why.to_string()
    }

    /// The simulated time in nanoseconds.
    #[getter]
    fn elapsed_ns(&self) -> u64 {
        self.result.summary().elapsed.as_nanos()
    }

    /// The simulated kernel.
    #[getter]
    fn kernel(&self) -> String {
        self.prepared.plan.kernel.name()
    }

    /// The seed of all random streams.
    #[getter]
    fn seed(&self) -> u64 {
        self.prepared.plan.config.seed
    }

    /// What the caller should know about values and defaults.
    #[getter]
    fn notes(&self) -> Vec<String> {
        self.prepared.notes.iter().map(ToString::to_string).collect()
    }

    /// Warnings and notes about the workload's text.
    #[getter]
    fn warnings<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        self.prepared.warnings.as_ref().map_or_else(|| Ok(Vec::new()), |found| diagnostics(py, found))
    }

    /// Returns a table by its name.
    fn table(&self, name: &str) -> PyResult<Table> {
        self.result.table(name).map(Table::from).ok_or_else(|| {
            let all: Vec<&str> = RunResult::TABLES.into_iter().chain(RunResult::ROWS).collect();
            let reason = if RunResult::ROWS.contains(&name) {
                format!("the run kept no {name}; run it with keep=[\"{name}\"]")
            } else {
                format!("no table `{name}`; known are {}", all.join(", "))
            };
            PyValueError::new_err(reason)
        })
    }

    /// Returns the result as JSON, as `zerolag run --json` prints it.
    fn to_json(&self) -> String {
        self.result.to_json()
    }

    /// Returns the page that `zerolag run --html` writes. The run kept no events, so it runs again.
    fn to_html(&self, py: Python<'_>, title: String, command: String) -> PyResult<String> {
        let page = py.detach(|| {
            let pictured = Pictured::of_plan(&self.prepared.plan)?;
            Ok(page::of_run(&self.result, &self.prepared.plan, &pictured, &About { title, command }))
        });
        page.map_err(|error: zerolag::Error| raise(py, &error))
    }

    fn __str__(&self) -> String {
        self.result.to_string()
    }
}

/// Returns the names of the presets, the oldest first.
#[pyfunction]
pub(crate) fn kernels() -> Vec<&'static str> {
    KernelVersion::NAMES.to_vec()
}

/// The settings of a kernel.
#[pyclass(frozen, module = "zerolag")]
pub(crate) struct Settings(KernelVersion);

/// Returns the settings of a kernel.
#[pyfunction]
pub(crate) fn settings(kernel: &str) -> PyResult<Settings> {
    values::kernel(kernel).map(Settings).map_err(PyValueError::new_err)
}

#[pymethods]
impl Settings {
    /// Returns every setting and its value, in the order of the table.
    fn values(&self) -> Vec<(String, String)> {
        self.0.settings().entries().map(|(setting, value)| (setting.name.to_owned(), value)).collect()
    }

    /// A row per setting.
    #[getter]
    fn table(&self) -> Table {
        zerolag::settings::frame(self.0).into()
    }

    /// Returns the settings as JSON, as `zerolag settings --json` prints them.
    fn to_json(&self) -> String {
        zerolag::settings::json(self.0)
    }

    fn __str__(&self) -> String {
        zerolag::settings::text(self.0)
    }
}

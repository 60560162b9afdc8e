//! Recorded traces: their figures, rows, checks and explanations.

use crate::errors::raise;
use crate::spec::Spec;
use crate::table::Table;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use zerolag::Error;
use zerolag::check::Report;
use zerolag::explanation::Answer;
use zerolag::page::{self, About, Pictured};
use zerolag::report::explain::Options;
use zerolag::report::frame::{self, Bucket, Follower, Rows};
use zerolag::report::{Metrics, Summary, json, text};
use zerolag::simulation::{Plan, verdicts};

/// A recorded trace.
#[pyclass(frozen, module = "zerolag")]
pub(crate) struct Trace {
    name: String,
    trace: Arc<zerolag::trace::Trace>,
    summary: Summary,
    histograms: Vec<Bucket>,
    /// A row per event: made when it is first asked for.
    rows: OnceLock<Rows>,
}

/// Reads a trace: `perf.data`, Perfetto, text of ftrace, perf or trace-cmd, or zerolag's own.
#[pyfunction]
pub(crate) fn read_trace(py: Python<'_>, path: PathBuf) -> PyResult<Trace> {
    let read = py.detach(|| {
        let trace = zerolag::trace::open(&path).map_err(|error| Error::trace(&path, &error))?;
        let mut metrics = Metrics::new(&trace.meta);
        trace.records.iter().for_each(|record| metrics.observe(record));
        let (summary, histograms) = metrics.finish_with_buckets(trace.meta.end);
        let name = path.display().to_string();
        Ok(Trace { name, trace: Arc::new(trace), summary, histograms, rows: OnceLock::new() })
    });
    read.map_err(|error| raise(py, &error))
}

impl Trace {
    fn rows(&self, py: Python<'_>) -> &Rows {
        py.detach(|| self.rows.get_or_init(|| Follower::of(&self.trace, frame::rows::Kept::ALL)))
    }
}

#[pymethods]
impl Trace {
    /// The file.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// Returns a scenario that does what the trace shows, and the relative base error of its waits.
    #[pyo3(signature = (groups, limits, kernel = None))]
    fn imported(
        &self,
        py: Python<'_>,
        groups: Vec<(String, String)>,
        limits: Vec<(String, String)>,
        kernel: Option<&str>,
    ) -> PyResult<(String, f64)> {
        let kernel_text = kernel.unwrap_or_default();
        let kernel = kernel.map(zerolag::values::kernel).transpose();
        let kernel = kernel.map_err(|why| {
            raise(py, &Error::Values(vec![zerolag::error::ValueError::new("kernel", kernel_text, why)]))
        })?;
        let options = zerolag::import::Options { groups, limits, kernel, ..Default::default() };
        let found = py.detach(|| zerolag::import::to_advise(&self.trace, &self.name, &options));
        found.map(|(scenario, base)| (scenario, base.wait_share())).map_err(|error| raise(py, &error))
    }

    /// The length of the trace in nanoseconds.
    #[getter]
    fn elapsed_ns(&self) -> u64 {
        self.summary.elapsed.as_nanos()
    }

    /// How many events the recorder lost.
    #[getter]
    fn lost_events(&self) -> u64 {
        self.summary.meta.lost_events
    }

    fn __len__(&self) -> usize {
        self.trace.records.len()
    }

    /// Returns a table by its name.
    fn table(&self, py: Python<'_>, name: &str) -> PyResult<Table> {
        Ok(Table::from(match name {
            "tasks" => frame::summary::tasks(&self.summary),
            "cpus" => frame::summary::cpus(&self.summary),
            "groups" => frame::summary::groups(&self.summary),
            "services" => frame::summary::services(&self.summary),
            "worst_waits" => frame::summary::worst_waits(&self.summary),
            "histograms" => frame::buckets::frame(&self.histograms),
            "switches" => self.rows(py).switches_frame(),
            "waits" => self.rows(py).waits_frame(),
            "requests" => self.rows(py).requests_frame(),
            _ => {
                let known = "tasks, cpus, groups, services, worst_waits, histograms, switches, waits, requests";
                return Err(PyValueError::new_err(format!("no table `{name}`; known are {known}")));
            }
        }))
    }

    /// Checks the trace against the rules of scheduling.
    fn check(&self, py: Python<'_>) -> Checks {
        Checks(py.detach(|| zerolag::check::check(&self.trace, &zerolag::check::Options::default())))
    }

    /// Explains the longest waits.
    #[pyo3(signature = (worst, task=None))]
    fn explain(&self, py: Python<'_>, worst: usize, task: Option<String>) -> Explanation {
        let answer = py.detach(|| Answer::of_trace(&self.trace, Options { worst, task, ..Options::default() }));
        Explanation { answer, of: Explained::Trace(Arc::clone(&self.trace)) }
    }

    /// Returns the page that `zerolag report --html` writes.
    fn to_html(&self, py: Python<'_>, title: String, command: String) -> String {
        py.detach(|| page::of_trace(&Pictured::of(&self.trace), None, &About { title, command }))
    }

    /// Returns the figures as JSON, as `zerolag report --json` prints them.
    fn to_json(&self) -> String {
        json::render(&self.summary).unwrap_or_default() + "\n"
    }

    fn __str__(&self) -> String {
        text::render(&self.summary, text::Limits::default())
    }
}

/// The verdicts of the monitors.
#[pyclass(frozen, module = "zerolag")]
pub(crate) struct Checks(Report);

#[pymethods]
impl Checks {
    /// Whether no rule is broken.
    #[getter]
    fn clean(&self) -> bool {
        self.0.is_clean()
    }

    /// A row per monitor.
    #[getter]
    fn table(&self) -> Table {
        verdicts::frame(&self.0).into()
    }

    /// Returns the verdicts as JSON, as `zerolag check --json` prints them.
    fn to_json(&self) -> String {
        verdicts::json(&self.0)
    }

    fn __str__(&self) -> String {
        verdicts::text(&self.0)
    }
}

/// Why the longest waits were long.
#[pyclass(frozen, module = "zerolag")]
pub(crate) struct Explanation {
    answer: Answer,
    of: Explained,
}

/// Where the waits are from: for the page, which shows the events around them.
enum Explained {
    Trace(Arc<zerolag::trace::Trace>),
    Plans(Box<Plan>, Option<Box<Plan>>),
}

#[pymethods]
impl Explanation {
    /// Returns the explanation as JSON, as `zerolag explain --json` prints it.
    fn to_json(&self) -> String {
        format!("{:#}\n", self.answer.to_json())
    }

    /// Returns the page that `zerolag explain --html` writes.
    fn to_html(&self, py: Python<'_>, title: String, command: String) -> PyResult<String> {
        let page = py.detach(|| {
            let (first, changed) = match &self.of {
                Explained::Trace(trace) => (Pictured::of(trace), None),
                Explained::Plans(first, changed) => {
                    let changed = changed.as_ref().map(|plan| Pictured::of_plan(plan)).transpose()?;
                    (Pictured::of_plan(first)?, changed)
                }
            };
            Ok(page::of_explanation(&self.answer, &first, changed.as_ref(), &About { title, command }))
        });
        page.map_err(|error: Error| raise(py, &error))
    }

    fn __str__(&self) -> String {
        self.answer.to_string()
    }
}

/// Explains the longest waits of a simulation and, if asked, of the same with a value changed.
#[pyfunction]
#[pyo3(signature = (spec, worst, task=None, what_if=None))]
pub(crate) fn explain(
    py: Python<'_>,
    spec: Spec,
    worst: usize,
    task: Option<String>,
    what_if: Option<(String, String)>,
) -> PyResult<Explanation> {
    let options = Options { worst, task, ..Options::default() };
    let answered = py.detach(|| {
        let simulation = spec.simulation()?;
        let first = simulation.plan()?;
        let answer = Answer::of(&first, options.clone())?;
        let (answer, changed) = match what_if {
            None => (answer, None),
            Some((key, value)) => {
                let changed = simulation.set(&key, &value).plan()?;
                (answer.what_if(&key, &value, &changed, options)?, Some(Box::new(changed.plan)))
            }
        };
        Ok(Explanation { answer, of: Explained::Plans(Box::new(first.plan), changed) })
    });
    spec.check_raised()?;
    answered.map_err(|error: Error| raise(py, &error))
}

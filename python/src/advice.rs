//! What to set for a goal.

use crate::errors::raise;
use crate::spec::Spec;
use crate::study::{rule, signals};
use pyo3::prelude::*;
use zerolag::advise::samples::Samples;
use zerolag::advise::{Question, counters};
use zerolag::error::ValueError;
use zerolag::page::{self, About};
use zerolag::{Error, limit};

/// The smallest limit, burst and number of workers for a goal.
#[pyclass(frozen, module = "zerolag")]
pub(crate) struct Advice(zerolag::advise::Advice);

/// Searches for what meets the goals.
#[pyfunction]
#[pyo3(signature = (spec, goals, risk, seeds = None, most = None, group = None))]
pub(crate) fn advise(
    py: Python<'_>,
    spec: Spec,
    goals: Vec<String>,
    risk: f64,
    seeds: Option<u64>,
    most: Option<u64>,
    group: Option<String>,
) -> PyResult<Advice> {
    let rule = rule(py, risk, ("seeds", seeds), most)?;
    let question = Question { goals, rule, group, base_error: None };
    let mut raised = None;
    let found = py.detach(|| {
        let plan = spec.simulation()?.plan()?.plan;
        zerolag::advise::advise(&plan, &question, |_| signals(&mut raised))
    });
    match raised {
        Some(error) => Err(error),
        None => found.map(Advice).map_err(|error| raise(py, &error)),
    }
}

#[pymethods]
impl Advice {
    /// The sentence for a ticket.
    #[getter]
    fn ticket(&self) -> String {
        self.0.ticket()
    }

    /// Returns the advice as JSON, as `zerolag advise --json` prints it.
    fn to_json(&self) -> String {
        format!("{:#}\n", self.0.to_json())
    }

    /// Returns the page that `zerolag advise --html` writes.
    fn to_html(&self, title: String, command: String) -> String {
        page::of_advice(&self.0, &About { title, command })
    }

    fn __str__(&self) -> String {
        self.0.to_string()
    }
}

/// What the counters of a limit say.
#[pyclass(frozen, module = "zerolag")]
pub(crate) struct Demand(counters::Demand);

/// Bounds the demand behind a limit from files of counters.
#[pyfunction]
#[pyo3(signature = (files, now, throttled, cpus = None))]
pub(crate) fn advise_counters(
    py: Python<'_>,
    files: Vec<String>,
    now: &str,
    throttled: f64,
    cpus: Option<u32>,
) -> PyResult<Demand> {
    let found = || {
        let max = limit::read(now).map_err(|why| Error::Values(vec![ValueError::new("now", now, why)]))?;
        if !(0.0..1.0).contains(&throttled) {
            let value = throttled.to_string();
            let reason = "expected a share from 0 to below 1";
            return Err(Error::Values(vec![ValueError::new("throttled", &value, reason)]));
        }
        let mut samples = Samples::default();
        for path in &files {
            let bytes = std::fs::read(path).map_err(|error| Error::reading(path, &error))?;
            samples.read(path, &bytes)?;
        }
        counters::demand(&samples.all(), max, cpus, throttled)
    };
    found().map(Demand).map_err(|error| raise(py, &error))
}

#[pymethods]
impl Demand {
    /// The sentence for a ticket.
    #[getter]
    fn ticket(&self) -> String {
        self.0.ticket()
    }

    /// Returns it as JSON, as `zerolag advise --json` prints it for counters.
    fn to_json(&self) -> String {
        format!("{:#}\n", self.0.to_json())
    }

    fn __str__(&self) -> String {
        self.0.to_string()
    }
}

//! Bounds on responses, and schedulability studies.

use crate::errors::raise;
use crate::spec::Spec;
use crate::study::signals;
use crate::table::Table;
use pyo3::prelude::*;
use zerolag::analyse::Analysis;
use zerolag::model::Duration;
use zerolag::schedulability::{Study, Test};
use zerolag::workload::generate::{Periods, Shares, TaskSets, to_csv};
use zerolag::{Error, values};

/// Bounds beside simulated responses.
#[pyclass(frozen, module = "zerolag")]
pub(crate) struct Bounds(Analysis);

/// Bounds the responses of a workload's tasks, next to the longest of `runs` simulations.
#[pyfunction]
pub(crate) fn analyse(py: Python<'_>, spec: Spec, runs: u64) -> PyResult<Bounds> {
    let mut raised = None;
    let found = py.detach(|| {
        let plan = spec.simulation()?.plan()?.plan;
        zerolag::analyse::analyse(&plan, runs, |_| signals(&mut raised))
    });
    match raised {
        Some(error) => Err(error),
        None => found.map(Bounds).map_err(|error| raise(py, &error)),
    }
}

#[pymethods]
impl Bounds {
    /// A row per task.
    #[getter]
    fn table(&self) -> Table {
        self.0.frame().into()
    }

    /// Whether every deadline is kept by a bound of which no assumption is broken.
    #[getter]
    fn schedulable(&self) -> bool {
        let keeps = |row: &zerolag::analyse::Row| {
            row.deadline.is_none() || row.keeps_deadline() == Some(true) && row.breaks.is_empty()
        };
        self.0.tasks.iter().all(keeps)
    }

    /// Returns the analysis as JSON, as `zerolag analyse --json` prints it.
    fn to_json(&self) -> String {
        format!("{:#}\n", self.0.to_json())
    }

    fn __str__(&self) -> String {
        self.0.to_string()
    }
}

/// The attributes of `zerolag._bounds.TaskSets`.
#[derive(FromPyObject)]
pub(crate) struct Sets {
    tasks: usize,
    utilization: f64,
    shares: Option<(f64, f64)>,
    uniform: bool,
    shortest: String,
    longest: String,
    grain: String,
    deadlines: (f64, f64),
}

fn time(key: &str, text: &str) -> Result<Duration, Error> {
    values::duration(text).map_err(|reason| Error::Values(vec![zerolag::error::ValueError::new(key, text, reason)]))
}

impl Sets {
    fn sets(&self) -> Result<TaskSets, Error> {
        Ok(TaskSets {
            tasks: self.tasks,
            utilization: self.utilization,
            shares: self.shares.map_or(Shares::UUniFast, |(low, high)| Shares::Drs { low, high }),
            periods: if self.uniform { Periods::Uniform } else { Periods::LogUniform },
            shortest: time("shortest", &self.shortest)?,
            longest: time("longest", &self.longest)?,
            grain: time("grain", &self.grain)?,
            deadlines: self.deadlines,
        })
    }
}

/// Returns a random task set as the text of a workload.
#[pyfunction]
pub(crate) fn draw(py: Python<'_>, sets: Sets, seed: u64) -> PyResult<String> {
    let drawn = sets.sets().and_then(|sets| sets.draw(seed).map_err(|error| Error::input(error.to_string())));
    drawn.map(|set| to_csv(&set)).map_err(|error| raise(py, &error))
}

/// Returns which share of random task sets each test accepts.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "the arguments of a Python function")]
pub(crate) fn schedulability(
    py: Python<'_>,
    sets: Sets,
    utilizations: Vec<f64>,
    tests: Vec<String>,
    count: u64,
    cpus: u32,
    seed: u64,
    supply: Option<(String, String)>,
    simulated: &str,
) -> PyResult<Table> {
    let mut raised = None;
    let found = py.detach(|| {
        let supply =
            supply.map(|(budget, period)| Ok::<_, Error>((time("supply", &budget)?, time("supply", &period)?)));
        let study = Study {
            sets: sets.sets()?,
            utilizations,
            tests: tests.iter().map(|name| Test::from_name(name)).collect::<Result<_, _>>()?,
            count,
            seed,
            cpus,
            supply: supply.transpose()?,
            simulated: time("simulated", simulated)?,
        };
        study.run(|_| signals(&mut raised))
    });
    match raised {
        Some(error) => Err(error),
        None => found.map(|points| zerolag::schedulability::frame(&points).into()).map_err(|error| raise(py, &error)),
    }
}

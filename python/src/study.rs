//! Comparisons, sweeps and searches: many simulations of one workload.

use crate::errors::raise;
use crate::spec::Spec;
use crate::table::Table;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::ops::ControlFlow;
use std::sync::Arc;
use zerolag::Error;
use zerolag::compare::Variant;
use zerolag::error::ValueError;
use zerolag::page::{self, About};
use zerolag::report::frame::{Frame, Values};
use zerolag::risk::Rule;
use zerolag::simulation::Plan;
use zerolag::sweep::{self, SweptFigure};
use zerolag::workload::goal::{Goal, Relation};

/// Asks Python for signals now and then; what it raised ends the work.
pub(crate) fn signals(raised: &mut Option<PyErr>) -> ControlFlow<()> {
    match Python::attach(|py| py.check_signals()) {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => {
            *raised = Some(error);
            ControlFlow::Break(())
        }
    }
}

/// One workload under several values.
#[pyclass(frozen, module = "zerolag")]
pub(crate) struct Comparison {
    compared: zerolag::compare::Comparison,
    variants: Vec<Variant>,
}

/// Compares the values of a key.
#[pyfunction]
pub(crate) fn compare(py: Python<'_>, spec: Spec, key: &str, of: Vec<String>, runs: u64) -> PyResult<Comparison> {
    let mut raised = None;
    let compared = py.detach(|| {
        let variants = Variant::per_value(&spec.simulation()?, key, of.iter().map(String::as_str))?;
        let compared = zerolag::compare::run(&variants, runs, |_| signals(&mut raised))?;
        Ok(Comparison { compared, variants })
    });
    spec.check_raised()?;
    match raised {
        Some(error) => Err(error),
        None => compared.map_err(|error: Error| raise(py, &error)),
    }
}

#[pymethods]
impl Comparison {
    /// A row per figure and variant.
    #[getter]
    fn table(&self) -> Table {
        self.compared.frame().into()
    }

    /// Returns the comparison as JSON, as `zerolag compare --json` prints it.
    fn to_json(&self) -> String {
        format!("{:#}\n", self.compared.to_json())
    }

    /// Returns the page that `zerolag compare --html` writes. Each variant runs once more for it.
    fn to_html(&self, py: Python<'_>, title: String, command: String) -> PyResult<String> {
        let about = About { title, command };
        let page = py.detach(|| page::of_comparison(&self.compared, &self.variants, &about));
        page.map_err(|error| raise(py, &error))
    }

    fn __str__(&self) -> String {
        self.compared.to_string()
    }
}

/// Returns the rule of a search; its seeds have another name where advice is asked for.
pub(crate) fn rule(
    py: Python<'_>,
    risk: f64,
    (name, search): (&str, Option<u64>),
    most: Option<u64>,
) -> PyResult<Rule> {
    let mut wrong = Vec::new();
    for (name, value) in [(name, search), ("most", most)] {
        if let Some(value) = value.filter(|value| !(1..=10_000).contains(value)) {
            wrong.push(ValueError::new(name, value.to_string(), "it is outside 1..=10000"));
        }
    }
    match Rule::new(risk, search, most) {
        Ok(rule) if wrong.is_empty() => return Ok(rule),
        Ok(_) => {}
        Err(why) => wrong.push(ValueError::new("risk", risk.to_string(), why)),
    }
    Err(raise(py, &Error::Values(wrong)))
}

/// A search for the smallest value that meets goals.
#[pyclass(frozen, module = "zerolag")]
pub(crate) struct Search(sweep::search::Search);

/// Searches for the smallest value of a key with which fewer than the share `risk` of all seeds miss
/// a goal.
#[pyfunction]
#[pyo3(signature = (spec, key, goals, risk, runs = None, most = None))]
pub(crate) fn smallest(
    py: Python<'_>,
    spec: Spec,
    key: &str,
    goals: Vec<String>,
    risk: f64,
    runs: Option<u64>,
    most: Option<u64>,
) -> PyResult<Search> {
    let rule = rule(py, risk, ("runs", runs), most)?;
    let mut raised = None;
    let found = py.detach(|| {
        let plan = spec.simulation()?.plan()?.plan;
        sweep::search::Search::run(&plan, key, &goals, rule, |_| signals(&mut raised))
    });
    spec.check_raised()?;
    match raised {
        Some(error) => Err(error),
        None => found.map(Search).map_err(|error| raise(py, &error)),
    }
}

#[pymethods]
impl Search {
    /// The smallest value, as it is written; None if no value meets the goals.
    #[getter]
    fn least(&self) -> Option<&str> {
        self.0.found.least.as_ref().map(|trial| &*trial.written)
    }

    /// Returns the search as JSON, as `zerolag sweep --smallest --json` prints it.
    fn to_json(&self) -> String {
        format!("{:#}\n", self.0.to_json())
    }

    fn __str__(&self) -> String {
        self.0.to_string()
    }
}

/// Reads a workload and its values as a run does, without a run.
#[pyfunction]
pub(crate) fn validate(py: Python<'_>, spec: Spec) -> PyResult<()> {
    spec.to_simulation(py)?.plan().map(drop).map_err(|error| raise(py, &error))
}

/// Returns the figures that a sweep shows if none are named.
#[pyfunction]
pub(crate) fn usual_figures(py: Python<'_>, spec: Spec) -> PyResult<Vec<String>> {
    let plan = spec.to_simulation(py)?.plan().map_err(|error| raise(py, &error))?.plan;
    Ok(SweptFigure::usual(&plan.program).into_iter().map(|figure| figure.name).collect())
}

fn figures(py: Python<'_>, names: &[String]) -> PyResult<Vec<SweptFigure>> {
    let mut wrong = Vec::new();
    let mut refuse = |name: &str, help: String| {
        wrong.push(ValueError::new("figures", name, format!("there is no figure `{name}`")).help(help));
    };
    let found =
        names.iter().filter_map(|name| SweptFigure::parse(name).map_err(|help| refuse(name, help)).ok()).collect();
    if wrong.is_empty() { Ok(found) } else { Err(raise(py, &Error::Values(wrong))) }
}

/// Returns the names of figures with their units, as in JSON.
#[pyfunction]
pub(crate) fn figure_keys(py: Python<'_>, names: Vec<String>) -> PyResult<Vec<String>> {
    Ok(figures(py, &names)?.iter().map(SweptFigure::key).collect())
}

/// The seed of a run, its figures in the order of their names, and why there are none.
type Row = (Option<u64>, Option<Vec<Option<u64>>>, Option<String>);

/// The name of a goal's figure, that name with its unit, and the range of values that meet the goal.
type ReadGoal = (String, String, Option<u64>, Option<u64>);

/// Reads goals.
#[pyfunction]
pub(crate) fn read_goals(py: Python<'_>, goals: Vec<String>) -> PyResult<Vec<ReadGoal>> {
    let mut wrong = Vec::new();
    let mut found = Vec::new();
    for text in &goals {
        match Goal::parse(text) {
            Ok(goal) => {
                let name = text.split(['<', '>']).next().unwrap_or_default().trim().to_owned();
                let key = figures(py, std::slice::from_ref(&name))?.iter().map(SweptFigure::key).collect();
                let (least, most) = match goal.relation {
                    Relation::Below => (None, Some(goal.value.saturating_sub(1))),
                    Relation::AtMost => (None, Some(goal.value)),
                    Relation::Above => (Some(goal.value.saturating_add(1)), None),
                    Relation::AtLeast => (Some(goal.value), None),
                };
                found.push((name, key, least, most));
            }
            Err((reason, help)) => {
                wrong.push(ValueError { help, ..ValueError::new("goals", text, reason) });
            }
        }
    }
    if wrong.is_empty() { Ok(found) } else { Err(raise(py, &Error::Values(wrong))) }
}

/// Runs one simulation per row: values of the keys, and a number that is added to the seed. On all CPUs, or on the caller's
/// thread. Never fails because of one row: that row has its error instead of figures.
#[pyfunction]
pub(crate) fn run_rows(
    py: Python<'_>,
    spec: Spec,
    keys: Vec<String>,
    names: Vec<String>,
    rows: Vec<(Vec<String>, u64)>,
    parallel: bool,
) -> PyResult<Vec<Row>> {
    let figures = figures(py, &names)?;
    let base = spec.to_simulation(py)?.read().map_err(|error| raise(py, &error))?;
    let mut raised = None;
    let done = py.detach(|| {
        let (mut plans, mut places, mut found): (Vec<Plan>, Vec<usize>, Vec<Row>) = Default::default();
        let mut last: Option<(&Vec<String>, Result<Plan, String>)> = None;
        for (place, (values, run)) in rows.iter().enumerate() {
            // Rows of one point follow each other: its workload is read once.
            if last.as_ref().is_none_or(|(known, _)| *known != values) {
                let set =
                    |simulation: zerolag::Simulation, (key, value): (&String, &String)| simulation.set(key, value);
                let plan = keys.iter().zip(values).fold(base.clone(), set).plan();
                last = Some((values, plan.map(|prepared| prepared.plan).map_err(|error| error.to_string())));
            }
            match &last {
                Some((_, Ok(plan))) => {
                    let seed = plan.config.seed.wrapping_add(*run);
                    plans.push(plan.clone().with_seed(seed));
                    places.push(place);
                    found.push((Some(seed), None, None));
                }
                Some((_, Err(reason))) => found.push((None, None, Some(reason.clone()))),
                None => {}
            }
        }
        let measure =
            |summary: &zerolag::report::Summary| figures.iter().map(|figure| figure.of(summary)).collect::<Vec<_>>();
        let outcomes = if parallel {
            sweep::run_all(&plans, measure, |_| signals(&mut raised))
        } else {
            sweep::run_in_order(&plans, measure, |_| signals(&mut raised))
        };
        for (place, outcome) in places.into_iter().zip(outcomes?) {
            let (_, figures, error) = &mut found[place];
            match outcome {
                Ok(measured) => *figures = Some(measured),
                Err(reason) => *error = Some(reason),
            }
        }
        Ok::<_, Error>(found)
    });
    match raised {
        Some(error) => Err(error),
        None => done.map_err(|error| raise(py, &error)),
    }
}

/// Returns the rows of a sweep as a table.
#[pyfunction]
pub(crate) fn sweep_table(
    keys: Vec<String>,
    figure_keys: Vec<String>,
    rows: Vec<(Vec<String>, u64)>,
    found: Vec<Row>,
) -> PyResult<Table> {
    if rows.len() != found.len() {
        return Err(PyValueError::new_err("a result per row"));
    }
    let mut frame = Frame::new("sweep", rows.len());
    for (at, key) in keys.iter().enumerate() {
        let values =
            rows.iter().map(|(values, _)| values.get(at).map_or_else(Arc::default, |value| Arc::from(&**value)));
        frame = frame.with(&**key, Values::Text(values.collect()));
    }
    frame = frame.with("run", Values::U64(rows.iter().map(|(_, run)| *run).collect()));
    // A key can itself be the seed of the first run.
    if !keys.iter().any(|key| key == "seed") {
        let seeds = found.iter().map(|(seed, ..)| seed.unwrap_or_default()).collect();
        frame = frame.with_some("seed", Values::U64(seeds), found.iter().map(|(seed, ..)| seed.is_some()).collect());
    }
    for (at, key) in figure_keys.iter().enumerate() {
        let figure = |(_, figures, _): &Row| figures.as_ref()?.get(at).copied().flatten();
        let known = found.iter().map(|row| figure(row).is_some()).collect();
        let values = found.iter().map(|row| figure(row).unwrap_or_default()).collect();
        frame = frame.with_some(&**key, Values::U64(values), known);
    }
    let errors = found.iter().map(|(.., error)| Arc::from(error.as_deref().unwrap_or_default())).collect();
    let known = found.iter().map(|(.., error)| error.is_some()).collect();
    Ok(frame.with_some("error", Values::Text(errors), known).into())
}

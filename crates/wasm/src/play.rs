//! Texts to simulations, and results to texts.

use serde::Deserialize;
use serde_json::{Value, json};
use std::ops::ControlFlow;
use zerolag::error::ValueError;
use zerolag::goals::ONE_SEED;
use zerolag::model::state::StateHistory;
use zerolag::model::{Duration, KernelVersion};
use zerolag::page::{self, About, Picture, Pictured};
use zerolag::simulation::{Histograms, Observe, PolicyLoader, Prepared, StateTracks, verdicts};
use zerolag::trace::{Meta, Trace, perfetto};
use zerolag::workload::Diagnostics;
use zerolag::workload::scenario::schema::json_schema;
use zerolag::{Error, Simulation, Workload};

/// The values that the page's controls set; what is missing is the workload's own.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Values {
    kernel: Option<String>,
    cpus: Option<String>,
    seed: Option<u64>,
    duration: Option<String>,
    set: Vec<(String, String)>,
}

/// What the value `own` of `policy` is: the policy that is written in the page.
#[cfg(target_arch = "wasm32")]
const OWN: PolicyLoader = crate::policy::by_name;
/// There is no page here.
#[cfg(not(target_arch = "wasm32"))]
const OWN: PolicyLoader = |_| None;

/// The longest run of the page: longer ones belong on a command line.
const LONGEST: Duration = Duration::from_secs(600);

fn prepare(text: &str, values: &str) -> Result<Prepared, Error> {
    let values: Values = serde_json::from_str(values).map_err(|error| Error::input(format!("values: {error}")))?;
    let mut simulation = Simulation::new(Workload::text(name_of(text), text)).policies_by(OWN);
    if let Some(kernel) = &values.kernel {
        simulation = simulation.kernel(kernel);
    }
    if let Some(cpus) = &values.cpus {
        simulation = simulation.set("cpus", cpus);
    }
    if let Some(seed) = values.seed {
        simulation = simulation.seed(seed);
    }
    for (key, value) in &values.set {
        simulation = simulation.set(key, value);
    }
    if let Some(duration) = &values.duration {
        let parsed = duration.parse::<Duration>();
        let wrong = |why: String| Error::Values(vec![ValueError::new("duration", duration, why)]);
        simulation = simulation.duration(parsed.map_err(|error| wrong(error.to_string()))?);
    }
    let observe = Observe { histograms: Histograms::On, state: StateTracks::On, ..Observe::default() };
    let prepared = simulation.observe(observe).plan()?;
    match prepared.plan.config.duration {
        Some(duration) if duration > LONGEST => Err(Error::input_help(
            format!("a run of {duration} is too long for a page"),
            "set a duration of at most 600s",
        )),
        _ => Ok(prepared),
    }
}

/// Returns the name that chooses the format: a scenario in TOML, or rt-app's JSON.
fn name_of(text: &str) -> &'static str {
    // rt-app's files can begin with a comment of C.
    if text.trim_start().starts_with(['{', '/']) { "workload.json" } else { "workload.toml" }
}

/// Returns the mistakes and warnings of a workload and its values: `{"messages": [...]}`.
#[must_use]
pub fn check(text: &str, values: &str) -> Value {
    match prepare(text, values) {
        Ok(prepared) => {
            let warnings = prepared.warnings.as_ref().map(messages).unwrap_or_default();
            let notes = prepared.notes.iter().map(|note| json!({ "severity": "note", "says": note.to_string() }));
            json!({ "ok": true, "messages": warnings.into_iter().chain(notes).collect::<Vec<_>>() })
        }
        Err(error) => failed(&error),
    }
}

fn failed(error: &Error) -> Value {
    let found = match error {
        Error::Workload(diagnostics) => messages(diagnostics),
        Error::Values(wrong) => wrong
            .iter()
            .map(|one| json!({ "severity": "error", "says": format!("{}={}: {}", one.key, one.value, one.message), "help": one.help }))
            .collect(),
        Error::Input { message, help } => vec![json!({ "severity": "error", "says": message, "help": help })],
        error => vec![json!({ "severity": "error", "says": error.to_string() })],
    };
    json!({ "ok": false, "messages": found })
}

/// Returns what is wrong with the policy that is written in the page: `says` begins with
/// `LINE:COLUMN: ` where the place is known.
#[must_use]
pub fn mistake_of_policy(says: &str) -> Value {
    let place = |says: &str| -> Option<(Value, String)> {
        let (line, rest) = says.split_once(':')?;
        let (column, rest) = rest.split_once(": ")?;
        let (line, column) = (line.parse::<u32>().ok()?, column.parse::<u32>().ok()?);
        Some((json!([{ "line": line, "column": column, "length": 1, "text": null }]), rest.to_owned()))
    };
    let (places, says) = place(says).unwrap_or_else(|| (json!([]), says.to_owned()));
    json!({ "ok": false, "messages": [{ "severity": "error", "says": says, "places": places, "in": "policy" }] })
}

/// Returns diagnostics with their places: lines and columns from 1, lengths in characters.
fn messages(diagnostics: &Diagnostics) -> Vec<Value> {
    let place = |label: &zerolag::workload::diagnostic::Label| {
        let at = diagnostics.location(label.span);
        let marked = diagnostics.text().get(label.span.start as usize..label.span.end as usize).unwrap_or_default();
        json!({ "line": at.line, "column": at.column, "length": marked.lines().next().unwrap_or_default().chars().count(),
            "text": label.text })
    };
    let one = |found: &zerolag::workload::Diagnostic| {
        let severity = format!("{:?}", found.severity).to_lowercase();
        let labels: Vec<Value> = found.labels.iter().map(place).collect();
        json!({ "severity": severity, "says": found.message, "help": found.help, "places": labels })
    };
    diagnostics.iter().map(one).collect()
}

/// Runs a workload: its page, its goals, and how it ended. `progress` gets the done part, from 0 to
/// 1, and can end the run.
#[must_use]
pub fn run(text: &str, values: &str, title: &str, mut progress: impl FnMut(f64) -> ControlFlow<()>) -> Value {
    let ran = prepare(text, values).and_then(|prepared| {
        let mut picture = Picture::new(&prepared.plan.meta(), &prepared.plan.goals);
        let result = prepared.run_into(&mut picture, |at| {
            let whole = at.end.map_or(0, |end| end.as_nanos()).max(1);
            progress(at.at.as_nanos() as f64 / whole as f64)
        })?;
        let report = result.report();
        let pictured = picture.finish(report.outcome.end, report.summary.clone(), report.histograms.clone());
        let pictured = pictured.with_state(report.state.clone());
        let about = About { title: title.to_owned(), command: format!("playground, {values}") };
        let goals: Vec<Value> =
            result.goals().iter().map(|goal| json!({ "met": goal.is_met(), "says": goal.line(ONE_SEED) })).collect();
        Ok(json!({
            "ok": true,
            "html": page::of_watched_run(&result, &prepared.plan, &pictured, &about),
            "goals": goals,
            "good": result.is_ok(),
            "records": report.summary.records,
            "figures": result.to_json(),
        }))
    });
    ran.unwrap_or_else(|error| failed(&error))
}

/// Returns the trace of a run in zerolag's own format, byte for byte that of `zerolag run --trace`.
///
/// # Errors
/// Mistakes of the workload or of values; the program does not fit the machine.
pub fn trace(text: &str, values: &str) -> Result<Vec<u8>, Error> {
    let trace = kept(text, values)?;
    written(|bytes| trace.write(bytes))
}

/// Returns the trace of a run in Perfetto's format, with the scheduler's own numbers as counters:
/// byte for byte that of `zerolag run --state --trace FILE.pftrace`.
///
/// # Errors
/// Mistakes of the workload or of values; the program does not fit the machine.
pub fn run_for_perfetto(text: &str, values: &str) -> Result<Vec<u8>, Error> {
    let (trace, state) = kept_with_state(text, values)?;
    written(|bytes| {
        let mut writer = perfetto::PerfettoWriter::new(bytes, &trace.meta)?;
        trace.records.iter().try_for_each(|record| writer.push(record))?;
        state.iter().try_for_each(|history| writer.state(history))?;
        writer.finish(trace.meta.end)
    })
}

/// Returns a recorded trace in Perfetto's format, byte for byte that of `zerolag convert`.
///
/// # Errors
/// The trace cannot be read.
pub fn trace_for_perfetto(bytes: &[u8]) -> Result<Vec<u8>, Error> {
    let trace = Trace::from_bytes(bytes).map_err(|error| Error::input(error.to_string()))?;
    written(|bytes| perfetto::write(bytes, &trace))
}

/// Runs a workload and keeps its records.
fn kept(text: &str, values: &str) -> Result<Trace, Error> {
    kept_with_state(text, values).map(|(trace, _)| trace)
}

/// As [`kept`], with the scheduler's own numbers.
fn kept_with_state(text: &str, values: &str) -> Result<(Trace, Option<StateHistory>), Error> {
    let prepared = prepare(text, values)?;
    let meta = prepared.plan.meta();
    let mut records = Vec::new();
    let result = prepared.run_into(&mut records, |_| ControlFlow::Continue(()))?;
    let report = result.report();
    Ok((Trace { meta: Meta { end: report.outcome.end, ..meta }, records }, report.state.clone()))
}

fn written(write: impl FnOnce(&mut Vec<u8>) -> std::io::Result<()>) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    write(&mut bytes).map_err(|error| Error::Failed(error.to_string()))?;
    Ok(bytes)
}

/// Returns the page of a recorded trace with the verdicts of the monitors: what `zerolag report`
/// and `zerolag check` say of it. Times with lost events are not judged.
#[must_use]
pub fn report(name: &str, bytes: &[u8]) -> Value {
    match Trace::from_bytes(bytes) {
        Ok(trace) => {
            let about = About { title: name.to_owned(), command: "playground".to_owned() };
            let checks = zerolag::check::check(&trace, &zerolag::check::Options::default());
            json!({ "ok": true, "html": page::of_trace(&Pictured::of(&trace), Some(&checks), &about), "goals": [],
                "good": checks.faults().is_some(), "records": trace.records.len(),
                "checks": verdicts::line(&checks).trim_end() })
        }
        Err(error) => json!({ "ok": false, "messages": [{ "severity": "error", "says": format!("{name}: {error}") }] }),
    }
}

/// Returns the version, the kernels, the keys of settings, and the grammar of scenarios.
#[must_use]
pub fn about() -> Value {
    let kernels = KernelVersion::NAMES;
    let settings: Vec<&str> = KernelVersion::default().settings().recorded().map(|(key, _)| key).collect();
    let schema: Value = serde_json::from_str(&json_schema()).unwrap_or_default();
    json!({ "version": zerolag::VERSION, "kernels": kernels, "default": KernelVersion::default().name(), "settings": settings,
        "schema": schema })
}

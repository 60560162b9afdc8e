//! A simulation as Python describes it: `zerolag._spec.Spec`, a value that can be pickled.

use crate::errors::raise;
use crate::policy::Source;
use pyo3::prelude::*;
use zerolag::report::frame::rows::Kept;
use zerolag::simulation::{Checks, Histograms, Observe, Simulation};
use zerolag::{Error, Workload, values};

/// The attributes of `zerolag._spec.Spec`.
#[derive(Clone, FromPyObject)]
pub(crate) struct Spec {
    /// The name of the workload: a path, if there is no text.
    name: String,
    text: Option<Vec<u8>>,
    kernel: Option<String>,
    cpus: Option<String>,
    machine: Option<String>,
    costs: Option<String>,
    seed: Option<u64>,
    duration: Option<String>,
    values: Vec<(String, String)>,
    checks: bool,
    worst_waits: usize,
    keep: Vec<String>,
    policy: Option<Source>,
}

impl Spec {
    /// Returns the simulation.
    pub(crate) fn simulation(&self) -> Result<Simulation, Error> {
        let workload = match &self.text {
            Some(text) => Workload::text(&self.name, text),
            None => Workload::file(&self.name),
        };
        let mut simulation = Simulation::new(workload);
        let mut wrong = Vec::new();
        let mut refuse = |key: &str, value: &str, reason: String| {
            wrong.push(zerolag::error::ValueError::new(key, value, reason));
        };
        if let Some(version) = &self.kernel {
            simulation = simulation.kernel(version);
        }
        if let Some(count) = &self.cpus {
            simulation = simulation.set("cpus", count);
        }
        if let Some(shape) = &self.machine {
            match values::machine(shape) {
                Ok(machine) => simulation = simulation.machine(machine),
                Err(reason) => refuse("machine", shape, reason),
            }
        }
        if let Some(name) = &self.costs {
            simulation = simulation.costs(name);
        }
        if let Some(seed) = self.seed {
            simulation = simulation.seed(seed);
        }
        if let Some(text) = &self.duration {
            match values::duration(text) {
                Ok(duration) => simulation = simulation.duration(duration),
                Err(reason) => refuse("duration", text, reason),
            }
        }
        let mut kept = Kept::default();
        for name in &self.keep {
            match name.as_str() {
                "switches" => kept.switches = true,
                "waits" => kept.waits = true,
                "requests" => kept.requests = true,
                _ => refuse("keep", name, "known are switches, waits, requests".to_owned()),
            }
        }
        if !wrong.is_empty() {
            return Err(Error::Values(wrong));
        }
        let checks = if self.checks { Checks::On } else { Checks::Off };
        let observe =
            Observe { checks, worst_waits: self.worst_waits, histograms: Histograms::On, ..Observe::default() };
        let mut simulation = simulation.observe(observe).keep(kept);
        if let Some(source) = self.policy.clone() {
            simulation = simulation.policy(move || source.make());
        }
        Ok(self.values.iter().fold(simulation, |simulation, (key, value)| simulation.set(key, value)))
    }

    /// Returns whether a policy that is written in Python has raised an exception.
    pub(crate) fn has_raised(&self) -> bool {
        self.policy.as_ref().is_some_and(Source::has_raised)
    }

    /// Fails with the first exception of such a policy.
    pub(crate) fn check_raised(&self) -> PyResult<()> {
        self.policy.as_ref().and_then(Source::raised).map_or(Ok(()), Err)
    }

    /// As [`simulation`](Self::simulation), with the exception of an error.
    pub(crate) fn to_simulation(&self, py: Python<'_>) -> PyResult<Simulation> {
        self.simulation().map_err(|error| raise(py, &error))
    }
}

//! Policies that the command line names: built-in ones, and shared objects.

use super::failure::Failure;
use std::path::Path;
use zerolag::policy::PolicyFactory;
use zerolag::simulation::Simulation;
use zerolag::values;
use zerolag_plugin::{LoadError, is_file};

/// Loads the policy of a file; `None` for other names.
pub(crate) fn load(name: &str) -> Option<Result<PolicyFactory, (String, String)>> {
    let wrong = |LoadError { message, help }| (message, help);
    is_file(name).then(|| zerolag_plugin::load(Path::new(name)).map_err(wrong))
}

/// Refuses values of `--policy` that are no policies, together with other mistakes of the command
/// line: the library would say that they are values of `--set`.
pub(crate) fn check<'a>(names: impl IntoIterator<Item = &'a str>, simulation: &Simulation) -> Result<(), Failure> {
    let wrong = |name: &str| match load(name) {
        Some(loaded) => loaded.err().map(|(why, help)| format!("--policy {name}: {why}\n  help: {help}")),
        None => values::policy(name).err().map(|why| format!("--policy {name}: {why}")),
    };
    let mut all: Vec<String> = names.into_iter().filter_map(wrong).collect();
    if all.is_empty() {
        return Ok(());
    }
    // Parameters of a policy need one.
    all.extend(simulation.plan().err().map(Failure::from).filter(Failure::is_in_input).map(|other| other.text()));
    Err(Failure::input(all.join("\nerror: ")))
}

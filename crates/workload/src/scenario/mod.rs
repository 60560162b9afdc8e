//! Scenario TOML.

use crate::diagnostic::{Diagnostics, Report, Source};
use crate::{LoadOptions, Scenario};

/// Reads a scenario file. See [`crate::load`].
///
/// # Errors
/// Everything that is wrong with it.
pub fn load(name: &str, text: &str, _options: &LoadOptions) -> Result<Scenario, Diagnostics> {
    let report = Report::default();
    Err(report.finish(Source::new(name, text)))
}

//! Every setting of the scheduler with its meaning, its value under a kernel and its possible
//! values, and the known bugs that kernels have: as text, as a table and as JSON.

use crate::document::{self, Document};
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt::Write;
use std::sync::Arc;
use zerolag_model::settings::{Fault, Release, Setting};
use zerolag_model::{KernelVersion, Settings};
use zerolag_report::frame::{Frame, Values};

/// The result of `zerolag settings`.
pub(crate) const DOCUMENT: Document = Document::of::<KernelSettings>(SCHEMA, "settings");
const SCHEMA: &str = "zerolag.settings.v1";

/// The settings of the scheduler and their values under a kernel.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct KernelSettings {
    /// The name and version of this form.
    #[schemars(extend("const" = SCHEMA))]
    schema: &'static str,
    /// The kernel.
    kernel: &'static str,
    /// All kernels.
    kernels: Vec<&'static str>,
    /// The settings, in the order of the table.
    settings: Vec<KernelSetting>,
    /// The known bugs that presets reproduce.
    faults: Vec<KnownFault>,
}

/// A scheduler bug that presets reproduce.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct KnownFault {
    /// The setting that has it.
    key: &'static str,
    /// The value of kernels with the bug.
    wrong: &'static str,
    /// What goes wrong.
    effect: &'static str,
    /// The release that began it.
    since: &'static str,
    /// The commit that began it; null if it came with its mechanism.
    since_commit: Option<&'static str>,
    /// The release with the fix; null if it is not fixed.
    fixed: Option<&'static str>,
    /// The commit of the fix.
    fixed_commit: Option<&'static str>,
    /// The presets that have it.
    presets: Vec<&'static str>,
    /// Whether the shown kernel has it.
    has: bool,
    /// The spec that shows it, below `specs/`.
    spec: &'static str,
}

/// A setting of the scheduler.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct KernelSetting {
    /// Its name, as after `--set`; the name of a time ends in its unit.
    key: &'static str,
    /// Its value under the kernel, as after `--set KEY=`.
    value: String,
    /// The value as a number; null if it is none.
    number: Option<u64>,
    /// Its meaning.
    meaning: &'static str,
    /// Its possible values, as text.
    values: &'static str,
}

fn kernels() -> Vec<&'static str> {
    KernelVersion::ALL.iter().map(|version| version.name()).collect()
}

/// Returns the settings of a kernel as text, a line each.
///
/// # Panics
/// Never: writing to a string cannot fail.
#[must_use]
pub fn text(kernel: KernelVersion) -> String {
    let settings = kernel.settings();
    let rows: Vec<_> = settings.entries().collect();
    let keys = rows.iter().map(|(row, _)| row.name.len()).max().unwrap_or(0);
    let values = rows.iter().map(|(_, value)| value.len()).max().unwrap_or(0);
    let mut text = format!("kernel {kernel}\n\n{:keys$}  {:values$}  meaning (values)\n", "key", "value");
    for (row, value) in rows {
        writeln!(text, "{:keys$}  {value:values$}  {} ({})", row.name, row.doc, row.values)
            .expect("invariant: a string takes everything");
    }
    writeln!(text, "\nkernels: {}", kernels().join(", ")).expect("invariant: a string takes everything");
    text
}

/// Returns the known bugs as text, a paragraph each.
#[must_use]
pub fn faults_text() -> String {
    let paragraphs: String = Settings::FAULTS.iter().map(paragraph).collect();
    format!("{paragraphs}\n{} faults\n", Settings::FAULTS.len())
}

/// Returns the known bugs of a kernel as text, a paragraph each.
#[must_use]
pub fn faults_text_of(kernel: KernelVersion) -> String {
    let settings = kernel.settings();
    let of_kernel: Vec<&Fault> = Settings::FAULTS.iter().filter(|fault| fault.is_in(kernel, &settings)).collect();
    let paragraphs: String = of_kernel.iter().map(|fault| paragraph(fault)).collect();
    format!("{paragraphs}\n{kernel} has {} of {} faults\n", of_kernel.len(), Settings::FAULTS.len())
}

/// Returns what is known of a bug.
fn paragraph(fault: &Fault) -> String {
    let release = |release: Release| match release.commit {
        Some(commit) => format!("{} ({commit})", release.version),
        None => release.version.to_owned(),
    };
    let fixed = fault.fixed.map_or_else(|| "not fixed".to_owned(), |fixed| format!("fixed in {}", release(fixed)));
    let presets: Vec<&str> = fault.presets().iter().map(|preset| preset.name()).collect();
    let since = fault.since.version;
    let presets = match (presets.is_empty(), fault.fixed) {
        (false, _) => format!("presets with it: {}", presets.join(" ")),
        (true, Some(fixed)) => format!("no preset: only in releases from {since} to before {}", fixed.version),
        (true, None) => format!("no preset: only in releases since {since}"),
    };
    let (name, effect, since, spec) = (fault.name(), fault.effect, release(fault.since), fault.spec);
    format!("{name}\n    {effect}\n    since {since}, {fixed}; {presets}\n    specs/{spec}\n")
}

fn faults(kernel: KernelVersion) -> Vec<KnownFault> {
    let settings = kernel.settings();
    let known = |fault: &Fault| KnownFault {
        key: fault.setting,
        wrong: fault.wrong,
        effect: fault.effect,
        since: fault.since.version,
        since_commit: fault.since.commit,
        fixed: fault.fixed.map(|fixed| fixed.version),
        fixed_commit: fault.fixed.and_then(|fixed| fixed.commit),
        presets: fault.presets().iter().map(|preset| preset.name()).collect(),
        has: fault.is_in(kernel, &settings),
        spec: fault.spec,
    };
    Settings::FAULTS.iter().map(known).collect()
}

/// Returns the settings of a kernel as data.
fn data(kernel: KernelVersion) -> Vec<KernelSetting> {
    let settings = kernel.settings();
    let setting = |(row, value): (&'static Setting, String)| KernelSetting {
        key: row.name,
        number: value.parse().ok(),
        value,
        meaning: row.doc,
        values: row.values,
    };
    settings.entries().map(setting).collect()
}

/// Returns the settings of a kernel as a table of columns, a row each: `key`, `value`, `meaning`
/// and `values`, the possible ones.
#[must_use]
pub fn frame(kernel: KernelVersion) -> Frame {
    let rows = data(kernel);
    let column =
        |of: &dyn Fn(&KernelSetting) -> &str| Values::Text(rows.iter().map(|row| Arc::from(of(row))).collect());
    Frame::new("settings", rows.len())
        .with("key", column(&|row| row.key))
        .with("value", column(&|row| &row.value))
        .with("meaning", column(&|row| row.meaning))
        .with("values", column(&|row| row.values))
}

/// Returns the settings of a kernel and the known bugs as JSON, with a line break at the end.
#[must_use]
pub fn json(kernel: KernelVersion) -> String {
    document::text(&KernelSettings {
        schema: SCHEMA,
        kernel: kernel.name(),
        kernels: kernels(),
        settings: data(kernel),
        faults: faults(kernel),
    })
}

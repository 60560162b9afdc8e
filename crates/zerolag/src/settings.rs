//! Every setting of the scheduler with its meaning, its value under a kernel and its possible
//! values, and the known bugs that kernels have: as text, as a table and as JSON.

use crate::document::{self, Document};
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt::Write;
use std::sync::Arc;
use zerolag_model::settings::{Fault, Setting};
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
    kernel: String,
    /// What is approximate about the kernel, a sentence each.
    approximate: Vec<String>,
    /// All presets. Other kernels can be named too, by their release.
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
    since: String,
    /// The commit that began it; null if it came with its mechanism.
    since_commit: Option<&'static str>,
    /// The release with the fix; null if it is not fixed.
    fixed: Option<String>,
    /// The commit of the fix.
    fixed_commit: Option<&'static str>,
    /// The first stable releases and distributions that are known to have the fix as a backport.
    fixed_backports: Vec<String>,
    /// The presets that have it.
    presets: Vec<String>,
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
    KernelVersion::NAMES.to_vec()
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
    let about: String = kernel.remarks().iter().map(|remark| format!("approximate: {remark}\n")).collect();
    let mut text = format!("kernel {kernel}\n{about}\n{:keys$}  {:values$}  meaning (values)\n", "key", "value");
    for (row, value) in rows {
        writeln!(text, "{:keys$}  {value:values$}  {} ({})", row.name, row.doc, row.values)
            .expect("invariant: a string takes everything");
    }
    writeln!(text, "\npresets: {}", kernels().join(", ")).expect("invariant: a string takes everything");
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
    let fixed = match (fault.fixed(), backports(fault).join(", ")) {
        (None, _) => "not fixed".to_owned(),
        (Some(fixed), backports) if backports.is_empty() => format!("fixed in {fixed}"),
        (Some(fixed), backports) => format!("fixed in {fixed}, {backports}"),
    };
    let presets = match names(&fault.presets()) {
        presets if presets.is_empty() => "in no preset, but in releases between".to_owned(),
        presets => format!("presets with it: {}", presets.join(" ")),
    };
    let (name, effect, since, spec) = (fault.name(), fault.effect, fault.since(), fault.spec);
    format!("{name}\n    {effect}\n    since {since}, {fixed}; {presets}\n    specs/{spec}\n")
}

fn names(kernels: &[KernelVersion]) -> Vec<String> {
    kernels.iter().copied().map(KernelVersion::name).collect()
}

/// Returns the first kernels that are known to have the fix of a bug as a backport.
fn backports(fault: &Fault) -> Vec<String> {
    let commit = fault.fixed().and_then(|fixed| fixed.commit);
    commit.map(|commit| names(&KernelVersion::first_with(commit))).unwrap_or_default()
}

fn faults(kernel: KernelVersion) -> Vec<KnownFault> {
    let settings = kernel.settings();
    let known = |fault: &Fault| KnownFault {
        key: fault.setting,
        wrong: fault.wrong,
        effect: fault.effect,
        since: fault.since().release.to_string(),
        since_commit: fault.since().commit,
        fixed: fault.fixed().map(|fixed| fixed.release.to_string()),
        fixed_commit: fault.fixed().and_then(|fixed| fixed.commit),
        fixed_backports: backports(fault),
        presets: names(&fault.presets()),
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
        approximate: kernel.remarks(),
        kernels: kernels(),
        settings: data(kernel),
        faults: faults(kernel),
    })
}

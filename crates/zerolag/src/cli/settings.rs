//! `zerolag settings`: every setting, its value under a kernel, and its possible values.

use super::output::JsonArgs;
use super::{Done, code, options};
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt::Write;
use zerolag::model::KernelVersion;
use zerolag::results::{self, Document};

/// Arguments of `zerolag settings`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The kernel whose values to show
    #[arg(long, value_name = "VERSION", value_parser = options::kernel, default_value = "6.12")]
    kernel: KernelVersion,
    #[command(flatten)]
    json: JsonArgs,
}

/// The result of `zerolag settings`.
pub(super) const DOCUMENT: Document = Document::of::<KernelSettings>(SCHEMA, "settings");
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

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> Done {
    args.json.check()?;
    args.json.publish(|| text(args.kernel), || json(args.kernel))?;
    Ok(code::OK)
}

fn kernels() -> Vec<&'static str> {
    KernelVersion::ALL.iter().map(|version| version.name()).collect()
}

fn text(kernel: KernelVersion) -> String {
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

fn json(kernel: KernelVersion) -> String {
    let settings = kernel.settings();
    let settings = settings.entries().map(|(row, value)| KernelSetting {
        key: row.name,
        number: value.parse().ok(),
        value,
        meaning: row.doc,
        values: row.values,
    });
    results::text(&KernelSettings {
        schema: SCHEMA,
        kernel: kernel.name(),
        kernels: kernels(),
        settings: settings.collect(),
    })
}

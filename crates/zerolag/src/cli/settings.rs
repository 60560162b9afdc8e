//! `zerolag settings`: every setting, its value under a kernel, and its possible values.

use super::{Done, code, options, output};
use std::fmt::Write;
use zerolag::model::KernelVersion;

/// Arguments of `zerolag settings`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The kernel whose values to show
    #[arg(long, value_name = "VERSION", value_parser = options::kernel, default_value = "6.12")]
    kernel: KernelVersion,
}

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> Done {
    let settings = args.kernel.settings();
    let rows: Vec<_> = settings.entries().collect();
    let keys = rows.iter().map(|(row, _)| row.name.len()).max().unwrap_or(0);
    let values = rows.iter().map(|(_, value)| value.len()).max().unwrap_or(0);
    let mut text = format!("kernel {}\n\n{:keys$}  {:values$}  meaning (values)\n", args.kernel, "key", "value");
    for (row, value) in rows {
        writeln!(text, "{:keys$}  {value:values$}  {} ({})", row.name, row.doc, row.values)
            .expect("invariant: a string takes everything");
    }
    let kernels: Vec<&str> = KernelVersion::ALL.iter().map(|version| version.name()).collect();
    writeln!(text, "\nkernels: {}", kernels.join(", ")).expect("invariant: a string takes everything");
    output::print(&text)?;
    Ok(code::OK)
}

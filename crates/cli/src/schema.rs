//! `zerolag schema`: the forms of scenarios and of results as JSON Schema, of policies as a C
//! header.

use super::{Done, code, output};
use clap::ValueEnum;
use zerolag::results::{self, DOCUMENTS, Document};
use zerolag::workload::scenario::schema::json_schema;

/// Arguments of `zerolag schema`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What to describe
    #[arg(value_enum, default_value = "scenario")]
    of: SchemaOf,
}

/// What a schema describes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum SchemaOf {
    /// Workloads in TOML
    Scenario,
    /// What `--json` writes, of every command
    Results,
    /// Policies as shared objects (`--policy FILE.so`): a C header
    Policy,
}

/// The results of the program's own tools.
const OWN: &[Document] = &[
    super::cyclictest::DOCUMENT,
    super::rt_migrate_test::DOCUMENT,
    #[cfg(target_os = "linux")]
    super::calibrate::DOCUMENT,
];

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> Done {
    match args.of {
        SchemaOf::Scenario => output::print(&json_schema())?,
        SchemaOf::Results => {
            let all = [DOCUMENTS, zerolag_lab::DOCUMENTS, zerolag_tools::DOCUMENTS, OWN].concat();
            output::print(&results::schema(&all))?;
        }
        // It has tabs.
        SchemaOf::Policy => output::print_as_it_is(zerolag_plugin::HEADER)?,
    }
    Ok(code::OK)
}

//! `zerolag schema`: the grammar of scenarios, for editors.

use super::{Done, code, output};
use zerolag::workload::scenario::schema::json_schema;

/// Runs the subcommand.
pub(crate) fn run() -> Done {
    output::print(&json_schema())?;
    Ok(code::OK)
}

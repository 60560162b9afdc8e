//! `zerolag merge`: puts the parts of a sweep together.

use super::Done;
use super::failure::Failure;
use super::output::{self, JsonArgs, TableArgs};
use super::sweep::code_of;
use std::path::PathBuf;
use zerolag::sweep::shard::{Shard, merge};

/// Arguments of `zerolag merge`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// All parts, in any order: the files of `zerolag sweep --shard I/N --json=FILE`
    #[arg(required = true, value_name = "FILE")]
    parts: Vec<PathBuf>,
    #[command(flatten)]
    json: JsonArgs,
    #[command(flatten)]
    table: TableArgs,
    /// Plot the first figure over the first --set, as SVG
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
}

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> Done {
    args.json.check()?;
    args.table.check()?;
    args.plot.as_deref().map_or(Ok(()), output::check_target)?;
    let mut shards = Vec::new();
    let names: Vec<String> = args.parts.iter().map(|path| path.display().to_string()).collect();
    for (path, name) in args.parts.iter().zip(&names) {
        let bytes = std::fs::read(path).map_err(|error| Failure::reading(name, &error))?;
        shards.push(Shard::from_json(name, &bytes)?);
    }
    let grid = merge(&names, &shards)?;
    if let Some(path) = &args.plot {
        let title = grid.figures.first().map_or("", |first| &first.name);
        output::write_text(path, &grid.to_svg(title))?;
    }
    args.table.publish(|| grid.frame())?;
    args.json.publish(|| grid.to_string(), || grid.to_json())?;
    Ok(code_of(&grid))
}

//! `zerolag spec`: runs specs and compares the expected timelines.

use super::failure::{Failure, eprintln_lossy};
use super::{Done, code, output};
use std::path::{Path, PathBuf};
use zerolag_lab::spec::{self, Checked};

/// Arguments of `zerolag spec`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Specs, or directories of specs
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Write the results into the specs, for review
    #[arg(long)]
    bless: bool,
}

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> Done {
    let mut counts = SpecCounts::default();
    for path in &args.paths {
        let specs = spec::find(path).map_err(|error| Failure::reading(path.display(), &error))?;
        if specs.is_empty() {
            return Err(Failure::input(format!("there is no spec below `{}`", path.display())));
        }
        for path in specs {
            check(&path, args.bless, &mut counts)?;
        }
    }
    let SpecCounts { specs, blocks, wrong, blessed } = counts;
    let rewritten = if args.bless { format!(", {blessed} rewritten") } else { String::new() };
    output::print(&format!("{specs} specs, {blocks} blocks{rewritten}, {wrong} wrong\n"))?;
    Ok(if wrong == 0 { code::OK } else { code::FAILURE })
}

#[derive(Default)]
struct SpecCounts {
    specs: usize,
    blocks: usize,
    wrong: usize,
    blessed: usize,
}

/// Runs one spec and reports differences; with `bless`, they are written into the spec instead.
fn check(path: &Path, bless: bool, counts: &mut SpecCounts) -> Result<(), Failure> {
    let name = path.display().to_string();
    let bytes = std::fs::read(path).map_err(|error| Failure::reading(&name, &error))?;
    let text = String::from_utf8(bytes).map_err(|_| Failure::input(format!("{name}: this is not UTF-8 text")))?;
    let Checked { mut problems, blessed, blocks } = spec::check(&name, &text);
    counts.specs += 1;
    counts.blocks += blocks;
    if bless {
        problems.retain(|problem| !problem.is_difference);
        if blessed != text {
            counts.blessed += 1;
            output::write_text(path, &blessed)?;
        }
    }
    for problem in &problems {
        eprintln_lossy(&format!("{name}:{}: {}", problem.line, problem.says));
    }
    counts.wrong += usize::from(!problems.is_empty());
    Ok(())
}

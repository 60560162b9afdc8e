//! `zerolag analyse`: bounds on responses beside the longest simulated ones.

use super::failure::{Failure, eprintln_lossy};
use super::options::{RunArgs, RunsArgs, WorkloadArgs};
use super::output::JsonArgs;
use super::plan::{prepare, simulation_of};
use super::progress::{Progress, catch_interrupts, say_interrupted};
use super::{Done, code};
use zerolag::Error;
use zerolag::analyse::analyse;

/// Arguments of `zerolag analyse`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  zerolag analyse set.csv --cpus 1 --costs zero
  zerolag analyse set.csv --task-set fifo --cpus 4 --costs zero --runs 20
  zerolag analyse examples/audio.json --json")]
pub(crate) struct Args {
    #[command(flatten)]
    workload: WorkloadArgs,
    #[command(flatten)]
    run: RunArgs,
    #[command(flatten)]
    runs: RunsArgs,
    #[command(flatten)]
    json: JsonArgs,
}

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> Done {
    args.json.check()?;
    let prepared = prepare(&simulation_of(&args.workload, &args.run)?, args.run.sim.is_quiet())?;
    catch_interrupts();
    let mut progress = Progress::new(args.runs.per_variant(), "runs", args.run.sim.is_quiet());
    let analysis = analyse(&prepared.plan, args.runs.per_variant(), |done| progress.at(done));
    progress.finish();
    let analysis = match analysis {
        Err(Error::Interrupted) => return Ok(say_interrupted()),
        analysis => analysis.map_err(Failure::from)?,
    };
    args.json.publish(|| analysis.to_string(), || format!("{:#}\n", analysis.to_json()))?;
    let exceeded: Vec<&str> = analysis.exceeded().map(|row| &*row.name).collect();
    if exceeded.is_empty() {
        return Ok(code::OK);
    }
    eprintln_lossy(&format!("error: a response is longer than its bound: {}", exceeded.join(", ")));
    Ok(code::FAILURE)
}

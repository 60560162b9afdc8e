//! `zerolag compare`: one workload under several kernels or settings.

use super::failure::Failure;
use super::options::{self, DurationArgs, KernelArgs, MACHINE, ManifestArgs, RunArgs, RunsArgs, SimArgs, WorkloadArgs};
use super::output::{HtmlArgs, JsonArgs};
use super::plan::{notes, simulation_of};
use super::progress::{Progress, catch_interrupts, say_interrupted};
use super::{Done, code};
use zerolag::Error;
use zerolag::compare::{self, Variant};
use zerolag::model::KernelVersion;
use zerolag::page;

/// Arguments of `zerolag compare`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    workload: WorkloadArgs,
    /// A kernel; give two or more, the first is the baseline
    #[arg(long = "kernel", help_heading = MACHINE, value_name = "VERSION", value_parser = options::kernel)]
    kernels: Vec<KernelVersion>,
    /// The values of a setting, as in rt_balance=passive,pull_locked; instead of kernels
    #[arg(long, value_name = "KEY=VALUE,...", conflicts_with = "kernels")]
    vary: Option<String>,
    #[command(flatten)]
    runs: RunsArgs<5>,
    #[command(flatten)]
    duration: DurationArgs,
    #[command(flatten)]
    sim: SimArgs,
    #[command(flatten)]
    manifest: ManifestArgs,
    #[command(flatten)]
    json: JsonArgs,
    #[command(flatten)]
    html: HtmlArgs,
}

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> Done {
    args.json.check()?;
    args.html.check()?;
    let variants = variants(args)?;
    catch_interrupts();
    let runs = args.runs.runs;
    let mut progress = Progress::new(variants.len() as u64 * runs, "runs", args.sim.is_quiet());
    let compared = compare::run(&variants, runs, |done| progress.at(done));
    progress.finish();
    let compared = match compared {
        Err(Error::Interrupted) => return Ok(say_interrupted()),
        compared => compared?,
    };
    let about = || HtmlArgs::about(args.workload.file.display());
    args.html.publish(|| Ok(page::of_comparison(&compared, &variants, &about())?))?;
    args.json.publish(|| compared.to_string(), || format!("{:#}\n", compared.to_json()))?;
    Ok(code::OK)
}

fn variants(args: &Args) -> Result<Vec<Variant>, Failure> {
    let (key, values) = varied(args)?;
    let (kernel, duration) = (KernelArgs { kernel: None }, args.duration.clone());
    let run = RunArgs { sim: args.sim.clone(), kernel, duration, manifest: args.manifest.clone() };
    let simulation = simulation_of(&args.workload, &run)?;
    if let Some(first) = values.first().filter(|_| !args.sim.is_quiet()) {
        // Notes about the file are printed once.
        notes(&simulation.clone().set(key, first).plan()?);
    }
    Ok(Variant::per_value(&simulation, key, values)?)
}

/// Returns the key that is varied, and its values.
fn varied(args: &Args) -> Result<(&str, Vec<&str>), Failure> {
    if let Some(vary) = &args.vary {
        let (key, values) = vary
            .split_once('=')
            .ok_or_else(|| Failure::input("--vary: expected KEY=VALUE,..., as in rt_balance=passive,pull_locked"))?;
        let values: Vec<&str> = values.split(',').collect();
        if values.len() < 2 {
            return Err(Failure::input(format!("--vary {vary}: two values or more are wanted")));
        }
        return Ok((key, values));
    }
    if args.kernels.len() < 2 {
        let help = "for example `--kernel 5.15 --kernel 6.12`, or `--vary base_slice_ns=700000,3000000`";
        return Err(Failure::input_help("nothing to compare: give two kernels or more", help));
    }
    Ok(("kernel", args.kernels.iter().map(|kernel| kernel.name()).collect()))
}

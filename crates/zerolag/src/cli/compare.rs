//! `zerolag compare`: one workload under several kernels or settings.

use super::failure::Failure;
use super::options::{self, DurationArgs, KernelArgs, MACHINE, RunArgs, RunsArgs, SimArgs, WorkloadArgs};
use super::output::JsonArgs;
use super::plan::plan_of;
use super::{Done, code};
use zerolag::compare::{self, Variant};
use zerolag::model::KernelVersion;
use zerolag::variant::Label;

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
    json: JsonArgs,
}

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> Done {
    args.json.check()?;
    let variants = variants(args)?;
    let compared = compare::run(&variants, args.runs.runs).map_err(|error| Failure::input(error.to_string()))?;
    args.json.publish(|| compared.to_string(), || format!("{:#}\n", compared.to_json()))?;
    Ok(code::OK)
}

fn variants(args: &Args) -> Result<Vec<Variant>, Failure> {
    let label =
        |key: &str, value: &str| Label { name: value.to_owned(), values: vec![(key.to_owned(), value.to_owned())] };
    // Notes about the file are printed once.
    let plan = |kernel, more: Option<(String, String)>, is_first: bool| {
        let (kernel, duration) = (KernelArgs { kernel }, args.duration.clone());
        let mut run = RunArgs { sim: args.sim.clone(), kernel, duration };
        run.sim.machine.set.extend(more);
        run.sim.quiet.quiet |= !is_first;
        plan_of(&args.workload, &run)
    };
    if let Some(vary) = &args.vary {
        let (key, values) = vary
            .split_once('=')
            .ok_or_else(|| Failure::input("--vary: expected KEY=VALUE,..., as in rt_balance=passive,pull_locked"))?;
        let values: Vec<&str> = values.split(',').collect();
        if values.len() < 2 {
            return Err(Failure::input(format!("--vary {vary}: two values or more are wanted")));
        }
        let variant = |(index, value): (usize, &&str)| {
            let plan = plan(None, Some((key.to_owned(), (*value).to_owned())), index == 0)?;
            Ok(Variant { label: label(key, value), plan })
        };
        return values.iter().enumerate().map(variant).collect();
    }
    if args.kernels.len() < 2 {
        let help = "for example `--kernel 5.15 --kernel 6.12`, or `--vary base_slice_ns=700000,3000000`";
        return Err(Failure::input_help("nothing to compare: give two kernels or more", help));
    }
    let variant = |(index, kernel): (usize, &KernelVersion)| {
        Ok(Variant { label: label("kernel", kernel.name()), plan: plan(Some(*kernel), None, index == 0)? })
    };
    args.kernels.iter().enumerate().map(variant).collect()
}

//! `zerolag compare`: one workload under several kernels or settings.

use super::failure::Failure;
use super::options::{MachineArgs, WorkloadArgs};
use super::{Done, code, options, output, run};
use zerolag::compare::{self, Variant};
use zerolag::model::{Duration, KernelVersion};

/// Arguments of `zerolag compare`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    workload: WorkloadArgs,
    /// A kernel; give two or more, the first is the baseline
    #[arg(long = "kernel", value_name = "VERSION", value_parser = options::kernel)]
    kernels: Vec<KernelVersion>,
    /// The values of a setting, as in rt_balance=passive,pull_locked; instead of kernels
    #[arg(long, value_name = "KEY=VALUE,...", conflicts_with = "kernels")]
    vary: Option<String>,
    /// Runs per variant; each run adds 1 to the seed
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    runs: u64,
    /// Duration of each run [default: the file's, else 10s]
    #[arg(short, long, value_name = "TIME", value_parser = options::duration)]
    duration: Option<Duration>,
    /// A machine of N CPUs under one cache
    #[arg(long, value_name = "N", value_parser = options::cpus)]
    cpus: Option<zerolag::model::Topology>,
    /// Change a setting in all variants
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = options::setting)]
    set: Vec<(String, String)>,
    /// The first seed [default: the file's, else 0]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Print JSON with all figures, changed or not
    #[arg(long)]
    json: bool,
}

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> Done {
    let variants = variants(args)?;
    let compared = compare::run(&variants, args.runs).map_err(|error| Failure::input(error.to_string()))?;
    if args.json {
        let json = serde_json::to_string_pretty(&compared).map_err(|error| Failure::Failed(error.to_string()))?;
        output::print(&format!("{json}\n"))?;
    } else {
        output::print(&compared.to_string())?;
    }
    Ok(code::OK)
}

fn variants(args: &Args) -> Result<Vec<Variant>, Failure> {
    // Notes about the file are printed once.
    let plan = |kernel, more: Option<(String, String)>, is_first: bool| {
        let set = args.set.iter().cloned().chain(more).collect();
        let (cpus, seed) = (args.cpus.clone(), args.seed);
        let machine = MachineArgs { cpus, machine: None, kernel, set, costs: None, seed };
        run::plan_of(&args.workload, &machine, args.duration, !is_first)
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
            Ok(Variant { name: (*value).to_owned(), plan })
        };
        return values.iter().enumerate().map(variant).collect();
    }
    if args.kernels.len() < 2 {
        let help = "for example `--kernel 5.15 --kernel 6.12`, or `--vary base_slice_ns=700000,3000000`";
        return Err(Failure::input_help("nothing to compare: give two kernels or more", help));
    }
    let variant = |(index, kernel): (usize, &KernelVersion)| {
        Ok(Variant { name: kernel.name().to_owned(), plan: plan(Some(*kernel), None, index == 0)? })
    };
    args.kernels.iter().enumerate().map(variant).collect()
}

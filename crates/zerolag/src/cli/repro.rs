//! `zerolag repro`: published experiments, repeated.

use super::failure::{Failure, eprintln_lossy};
use super::progress::{Progress, catch_interrupts, interrupted};
use super::{Done, code, output};
use clap::Subcommand;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Mutex;
use zerolag::repro::rt_balance::{Mode, Results, RtBalance2007};

/// Arguments of `zerolag repro`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    experiment: Option<Experiment>,
}

#[derive(Debug, Subcommand)]
enum Experiment {
    /// 2007: push and pull of real-time tasks against the periodic balancer
    RtBalance(RtBalanceArgs),
}

#[derive(Debug, clap::Args)]
struct RtBalanceArgs {
    /// Tests per mode, each of 50 wakeups
    #[arg(long, value_name = "N", default_value_t = 6_500, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    tests: u64,
    /// The first test's seed
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Threads that work [default: one per CPU of this host]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Where the plot and the table are written
    #[arg(long, value_name = "DIR", default_value = "target/repro")]
    out: PathBuf,
}

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> Done {
    match &args.experiment {
        None => {
            output::print("rt-balance  2007: push and pull of real-time tasks against the periodic balancer\n")?;
            Ok(code::OK)
        }
        Some(Experiment::RtBalance(args)) => rt_balance(args),
    }
}

fn rt_balance(args: &RtBalanceArgs) -> Done {
    let host = || std::thread::available_parallelism().map_or(1, usize::from);
    let threads = args.threads.map_or_else(host, usize::from);
    let experiment = RtBalance2007 { tests: args.tests, seed: args.seed, threads, ..RtBalance2007::default() };
    std::fs::create_dir_all(&args.out).map_err(|error| Failure::writing(&args.out, &error))?;
    catch_interrupts();
    let progress = Mutex::new(Progress::new(args.tests * Mode::ALL.len() as u64, "tests", false));
    let mut modes = Vec::new();
    for (mode, done) in Mode::ALL.into_iter().zip(0_u64..) {
        let tell = |test| match progress.try_lock() {
            Ok(mut progress) => progress.at(done * args.tests + test),
            Err(_) if interrupted() => ControlFlow::Break(()),
            Err(_) => ControlFlow::Continue(()),
        };
        modes.push((mode, experiment.run(mode, tell)));
    }
    if let Ok(progress) = progress.lock() {
        progress.finish();
    }
    let results = Results { experiment, modes };
    let text = results.to_string();
    for (name, bytes) in [("rt-balance.svg", results.plot().to_svg()), ("rt-balance.txt", text.clone())] {
        output::write_file(&args.out.join(name), |out| out.write_all(bytes.as_bytes()))?;
    }
    output::print(&text)?;
    eprintln_lossy(&format!("wrote rt-balance.svg and rt-balance.txt to {}", args.out.display()));
    Ok(if interrupted() { code::INTERRUPTED } else { code::OK })
}

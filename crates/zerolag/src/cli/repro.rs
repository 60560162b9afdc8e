//! `zerolag repro`: published experiments, repeated.

use super::failure::{Failure, eprintln_lossy};
use super::progress::{Progress, catch_interrupts, interrupted};
use super::{Done, code, output};
use clap::Subcommand;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Mutex;
use zerolag::model::Duration;
use zerolag::repro::bandwidth::Bandwidth2010;
use zerolag::repro::dl_server::DlServer2023;
use zerolag::repro::inversion::Inversion2012;
use zerolag::repro::rt_balance::{Mode, Results, RtBalance2007};
use zerolag::repro::rt_ipi::RtIpi2017;

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
    /// 2010: a limit kept by a pool, by hard limits, and by binding to as many CPUs
    Bandwidth(BandwidthArgs),
    /// 2012: throttled while others wait for what one holds, and four cures
    Inversion(InversionArgs),
    /// 2017: three generations of pulling real-time tasks, from 4 to 4096 CPUs
    RtIpi(RtIpiArgs),
    /// 2023: deadline servers against starvation, beside RT throttling
    DlServer(DlServerArgs),
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

#[derive(Debug, clap::Args)]
struct BandwidthArgs {
    /// Threads that work [default: one per CPU of this host]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Where the plots, the tables and the figures as JSON are written
    #[arg(long, value_name = "DIR", default_value = "target/repro")]
    out: PathBuf,
}

#[derive(Debug, clap::Args)]
struct RtIpiArgs {
    /// Leave out machines with more CPUs than this
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(4..=4096))]
    max_cpus: u32,
    /// The seed of every run
    #[arg(long, value_name = "N", default_value_t = 2017)]
    seed: u64,
    /// Threads that work [default: one per CPU of this host]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Where the plots, the tables and the figures as JSON are written
    #[arg(long, value_name = "DIR", default_value = "target/repro")]
    out: PathBuf,
}

#[derive(Debug, clap::Args)]
struct InversionArgs {
    /// Runs of each row
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    seeds: u64,
    /// Threads that work [default: one per CPU of this host]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Where the table and the figures as JSON are written
    #[arg(long, value_name = "DIR", default_value = "target/repro")]
    out: PathBuf,
}

#[derive(Debug, clap::Args)]
struct DlServerArgs {
    /// Simulated minutes of each run
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    minutes: u64,
    /// Seed of all random numbers
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Threads that work [default: one per CPU of this host]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Where the tables are written
    #[arg(long, value_name = "DIR", default_value = "target/repro")]
    out: PathBuf,
}

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> Done {
    match &args.experiment {
        None => {
            output::print(
                "rt-balance  2007: push and pull of real-time tasks against the periodic balancer\n\
                 bandwidth   2010: a limit kept by a pool, by hard limits, and by binding to as many CPUs\n\
                 inversion   2012: throttled while others wait for what one holds, and four cures\n\
                 rt-ipi      2017: three generations of pulling real-time tasks, from 4 to 4096 CPUs\n\
                 dl-server   2023: deadline servers against starvation, beside RT throttling\n",
            )?;
            Ok(code::OK)
        }
        Some(Experiment::RtBalance(args)) => rt_balance(args),
        Some(Experiment::Bandwidth(args)) => bandwidth(args),
        Some(Experiment::Inversion(args)) => inversion(args),
        Some(Experiment::RtIpi(args)) => rt_ipi(args),
        Some(Experiment::DlServer(args)) => dl_server(args),
    }
}

fn dl_server(args: &DlServerArgs) -> Done {
    let experiment = DlServer2023 {
        duration: Duration::from_secs(60) * args.minutes,
        seed: args.seed,
        threads: threads(args.threads),
    };
    std::fs::create_dir_all(&args.out).map_err(|error| Failure::writing(&args.out, &error))?;
    catch_interrupts();
    let results = experiment.run(|_| if interrupted() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) });
    let Some(results) = results else { return Ok(code::INTERRUPTED) };
    let text = results.to_string();
    output::write_file(&args.out.join("dl-server.txt"), |out| out.write_all(text.as_bytes()))?;
    output::print(&text)?;
    eprintln_lossy(&format!("wrote dl-server.txt to {}", args.out.display()));
    Ok(code::OK)
}

fn inversion(args: &InversionArgs) -> Done {
    let experiment = Inversion2012 { seeds: args.seeds, threads: threads(args.threads), ..Inversion2012::default() };
    std::fs::create_dir_all(&args.out).map_err(|error| Failure::writing(&args.out, &error))?;
    catch_interrupts();
    let progress = Mutex::new(Progress::new(experiment.cases().len() as u64 * args.seeds, "runs", false));
    let tell = |run| match progress.try_lock() {
        Ok(mut progress) => progress.at(run),
        Err(_) if interrupted() => ControlFlow::Break(()),
        Err(_) => ControlFlow::Continue(()),
    };
    let results = experiment.run(tell);
    if let Ok(progress) = progress.lock() {
        progress.finish();
    }
    let Some(results) = results else { return Ok(code::INTERRUPTED) };
    let text = results.to_string();
    for (name, bytes) in [("inversion.json", format!("{:#}\n", results.to_json())), ("inversion.txt", text.clone())] {
        output::write_file(&args.out.join(name), |out| out.write_all(bytes.as_bytes()))?;
    }
    output::print(&text)?;
    eprintln_lossy(&format!("wrote inversion.json and inversion.txt to {}", args.out.display()));
    Ok(code::OK)
}

/// Returns how many threads work: as many as were asked for, or as the host has CPUs.
fn threads(asked: Option<u16>) -> usize {
    asked.map_or_else(|| std::thread::available_parallelism().map_or(1, usize::from), usize::from)
}

fn bandwidth(args: &BandwidthArgs) -> Done {
    let experiment = Bandwidth2010 { threads: threads(args.threads), ..Bandwidth2010::default() };
    std::fs::create_dir_all(&args.out).map_err(|error| Failure::writing(&args.out, &error))?;
    catch_interrupts();
    let progress = Mutex::new(Progress::new(experiment.nr_runs(), "runs", false));
    let tell = |run| match progress.try_lock() {
        Ok(mut progress) => progress.at(run),
        Err(_) if interrupted() => ControlFlow::Break(()),
        Err(_) => ControlFlow::Continue(()),
    };
    let results = experiment.run_all(tell);
    if let Ok(progress) = progress.lock() {
        progress.finish();
    }
    let text = results.to_string();
    let mut files = vec![
        ("bandwidth.json".to_owned(), format!("{:#}\n", results.to_json())),
        ("bandwidth.txt".to_owned(), text.clone()),
    ];
    for (workload, period) in results.graphs() {
        let name = format!("bandwidth-{}-{period}ms.svg", workload.name());
        files.push((name, results.plot(workload, period).to_svg()));
    }
    for (name, bytes) in files {
        output::write_file(&args.out.join(name), |out| out.write_all(bytes.as_bytes()))?;
    }
    output::print(&text)?;
    eprintln_lossy(&format!("wrote bandwidth-*.svg, bandwidth.json and bandwidth.txt to {}", args.out.display()));
    Ok(if interrupted() { code::INTERRUPTED } else { code::OK })
}

fn rt_ipi(args: &RtIpiArgs) -> Done {
    let mut experiment = RtIpi2017 { seed: args.seed, threads: threads(args.threads), ..RtIpi2017::default() };
    experiment.cpus.retain(|cpus| *cpus <= args.max_cpus);
    experiment.sensitivity.retain(|cpus| *cpus <= args.max_cpus);
    std::fs::create_dir_all(&args.out).map_err(|error| Failure::writing(&args.out, &error))?;
    catch_interrupts();
    let progress = Mutex::new(Progress::new(experiment.runs().len() as u64, "runs", false));
    let tell = |run| match progress.try_lock() {
        Ok(mut progress) => progress.at(run),
        Err(_) if interrupted() => ControlFlow::Break(()),
        Err(_) => ControlFlow::Continue(()),
    };
    let results = experiment.run_all(tell);
    if let Ok(progress) = progress.lock() {
        progress.finish();
    }
    let text = results.to_string();
    for (name, bytes) in [
        ("rt-ipi-stretch.svg", results.stretch_plot().to_svg()),
        ("rt-ipi-latency.svg", results.latency_plot().to_svg()),
        ("rt-ipi.json", format!("{:#}\n", results.to_json())),
        ("rt-ipi.txt", text.clone()),
    ] {
        output::write_file(&args.out.join(name), |out| out.write_all(bytes.as_bytes()))?;
    }
    output::print(&text)?;
    eprintln_lossy(&format!("wrote rt-ipi-*.svg, rt-ipi.json and rt-ipi.txt to {}", args.out.display()));
    Ok(if interrupted() { code::INTERRUPTED } else { code::OK })
}

fn rt_balance(args: &RtBalanceArgs) -> Done {
    let threads = threads(args.threads);
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

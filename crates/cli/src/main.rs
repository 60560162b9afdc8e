//! The command line: a file per subcommand, and their shared parts next to them.
//!
//! Results go to stdout, everything else to stderr. Exit codes: [`code`].

mod advise;
mod analyse;
#[cfg(target_os = "linux")]
mod calibrate;
mod candidates;
mod check;
mod compare;
mod completions;
mod convert;
mod cyclictest;
mod explain;
mod export;
mod failure;
mod figures;
mod fuzz;
mod import;
mod init;
mod input;
mod man;
mod merge;
mod misplaced;
mod options;
mod output;
mod plan;
mod policy;
mod progress;
mod record;
mod report;
mod repro;
mod rt_migrate_test;
mod rtla;
mod run;
mod schema;
#[cfg(target_os = "linux")]
mod scx;
mod serve;
mod settings;
mod spec;
mod sweep;
mod tool;
#[cfg(unix)]
mod top;
mod tracing;
mod validate;

use clap::{Parser, Subcommand};
use failure::Failure;
use std::process::ExitCode;

/// Exit codes of the process.
pub(crate) mod code {
    /// Success.
    pub(crate) const OK: u8 = 0;
    /// The run failed: a deadlock, a broken rule, a file that could not be written.
    pub(crate) const FAILURE: u8 = 1;
    /// Wrong usage or invalid input.
    pub(crate) const USAGE: u8 = 2;
    /// `timerlat`, `osnoise`: a threshold ended the run; rtla calls that `FAILED`.
    pub(crate) const THRESHOLD: u8 = 2;
    /// A goal was missed, a figure is outside its band.
    pub(crate) const GOAL_MISSED: u8 = 99;
    /// Ctrl-C; the results so far have been printed.
    pub(crate) const INTERRUPTED: u8 = 130;
}

/// The Linux CPU scheduler as a simulator: which task ran, which waited, and why.
#[derive(Debug, Parser)]
#[command(name = "zerolag", version, max_term_width = 100, propagate_version = true, after_help = EXIT_CODES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXIT_CODES: &str = "Exit codes: 0 ok, 1 failure, 2 wrong usage or invalid input (timerlat, osnoise: also a threshold passed), 99 a goal was missed, 130 interrupted";

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a workload on a simulated machine, or on this host
    Run(run::Args),
    /// Compare a workload under several kernels or settings
    Compare(compare::Args),
    /// Run a workload for every combination of values, or find the smallest value that meets a goal
    Sweep(sweep::Args),
    /// Put the parts of a sweep together (`sweep --shard`)
    Merge(merge::Args),
    /// Find the smallest limit, burst and number of workers for a goal, with the risk of each
    Advise(advise::Args),
    /// Bound the responses of a workload's tasks, next to the longest simulated ones
    Analyse(analyse::Args),
    /// Explain the longest waits as chains of causes
    Explain(explain::Args),
    /// rt-migrate-test: more real-time threads than CPUs
    RtMigrateTest(rt_migrate_test::Args),
    /// cyclictest: wakeup latency of threads
    Cyclictest(cyclictest::Args),
    /// timerlat: latency of a periodic real-time thread per CPU
    Timerlat(rtla::TimerlatArgs),
    /// osnoise: interruptions of a busy thread per CPU
    Osnoise(rtla::OsnoiseArgs),
    /// timerlat and osnoise as lines that begin with `rtla` name them
    Rtla(rtla::Args),
    /// Repeat a published experiment and compare with its published results
    Repro(repro::Args),
    /// Print the commands that record a machine without losing events
    Record(record::Args),
    /// Summarise a trace: run, wait and sleep times per task
    Report(report::Args),
    /// Serve the page of a trace or a run, of any length, to a browser on this machine
    Serve(serve::Args),
    /// Show the groups of a running process that uses the runtime, live
    #[cfg(unix)]
    Top(top::Args),
    /// Load a policy into this machine's kernel: what `zerolag-scx` does
    #[cfg(target_os = "linux")]
    Scx(scx::Args),
    /// Check a trace against the scheduling invariants
    Check(check::Args),
    /// Compare simulation results with recorded kernels
    Validate(validate::Args),
    /// Measure the costs of this host's operations and write a cost profile
    #[cfg(target_os = "linux")]
    Calibrate(calibrate::Args),
    /// Run Markdown specs and compare the expected timelines
    Spec(spec::Args),
    /// Make a workload of a trace, and print how far its simulation is from the recording
    Import(import::Args),
    /// Run whole scenarios at random, and shrink what breaks
    Fuzz(fuzz::Args),
    /// Convert a trace
    Convert(convert::Args),
    /// Write a commented scenario to start with
    Init(init::Args),
    /// Print the grammar of scenarios, or the forms of results, as JSON Schema
    Schema(schema::Args),
    /// Write a workload as an rt-app file
    Export(export::Args),
    /// List the scheduler's settings
    Settings(settings::Args),
    /// List everything that can be measured of a run
    Figures(figures::Args),
    /// Print a completion script for a shell
    Completions(completions::Args),
    /// Print the manual page
    Man(man::Args),
}

/// Runs the command line.
fn main() -> ExitCode {
    // Ends the program if a shell asks what can be typed.
    completions::engine().complete();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            if error.use_stderr()
                && let Some(misplaced) = misplaced()
            {
                return misplaced.report();
            }
            // This fails only if the pipe is closed, and then the failure cannot be reported.
            drop(error.print());
            return ExitCode::from(if error.use_stderr() { code::USAGE } else { code::OK });
        }
    };
    let done = match cli.command {
        Command::Run(args) => run::run(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Sweep(args) => sweep::run(&args),
        Command::Merge(args) => merge::run(&args),
        Command::Advise(args) => advise::run(&args),
        Command::Analyse(args) => analyse::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::RtMigrateTest(args) => rt_migrate_test::run(&args),
        Command::Cyclictest(args) => cyclictest::run(&args),
        Command::Timerlat(args) => rtla::timerlat(&args),
        Command::Osnoise(args) => rtla::osnoise(&args),
        Command::Rtla(args) => rtla::run(&args),
        Command::Repro(args) => repro::run(&args),
        Command::Record(args) => record::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Serve(args) => serve::run(&args),
        #[cfg(unix)]
        Command::Top(args) => top::run(&args),
        #[cfg(target_os = "linux")]
        Command::Scx(args) => scx::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Validate(args) => validate::run(&args),
        #[cfg(target_os = "linux")]
        Command::Calibrate(args) => calibrate::run(&args),
        Command::Spec(args) => spec::run(&args),
        Command::Import(args) => import::run(&args),
        Command::Fuzz(args) => fuzz::run(&args),
        Command::Convert(args) => convert::run(&args),
        Command::Init(args) => init::run(&args),
        Command::Schema(args) => schema::run(&args),
        Command::Export(args) => export::run(&args),
        Command::Settings(args) => settings::run(&args),
        Command::Figures(args) => figures::run(&args),
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => man::run(&args),
    };
    match done {
        Ok(code) => ExitCode::from(code),
        Err(failure) if failure.is_in_input() => misplaced().unwrap_or(failure).report(),
        Err(failure) => failure.report(),
    }
}

/// Returns the mistake of a file that another subcommand is for.
fn misplaced() -> Option<Failure> {
    misplaced::file(&std::env::args_os().skip(1).collect::<Vec<_>>())
}

/// The result of a subcommand: an exit code, or why it failed.
type Done = Result<u8, Failure>;

//! `zerolag fuzz`: whole scenarios at random, and a minimal file for each finding.

use super::failure::{Failure, eprintln_lossy};
use super::options::{QuietArgs, kernel};
use super::progress::{Progress, catch_interrupts, interrupted};
use super::{Done, code, output};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use zerolag::model::KernelVersion;
use zerolag::model::settings::SchedExtPolicy;
use zerolag_lab::fuzz::{Draft, Finding, Judged, draw, is_judging, judge_draft, shrink};

/// Arguments of `zerolag fuzz`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A scenario is a function of seed and number: `--seed S --from N --count 1` repeats it. A finding is a panic, a rule that \
breaks without a fault that the kernel has, a second run with other bytes, a run without a trace that does something \
else, a twin that does (other names of tasks, other costs), or a trace that is another one after it was written and read. \
It is shrunk, and written as a scenario that `zerolag run` takes.")]
pub(crate) struct Args {
    /// The seed of all scenarios
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// How many scenarios
    #[arg(long, value_name = "N", default_value_t = 1000)]
    count: u64,
    /// The number of the first
    #[arg(long, value_name = "N", default_value_t = 0)]
    from: u64,
    /// Scenarios of this kernel only [default: any]
    #[arg(long, value_name = "VERSION", value_parser = kernel)]
    kernel: Option<KernelVersion>,
    /// Scenarios whose fair tasks this policy of sched_ext schedules: a built-in one
    #[arg(long, value_name = "NAME", value_parser = zerolag::values::policy)]
    policy: Option<SchedExtPolicy>,
    /// The directory for the files of findings
    #[arg(long, value_name = "DIR", default_value = ".")]
    out: PathBuf,
    /// The most runs that make a finding smaller; 0 writes it as it was drawn
    #[arg(long, value_name = "N", default_value_t = 400)]
    shrink: u32,
    /// Print the scenarios instead of running them
    #[arg(long)]
    print: bool,
    #[command(flatten)]
    quiet: QuietArgs,
}

/// The most findings that are shrunk and written; one fault is often found many times.
const FINDINGS_MAX: usize = 20;

thread_local! {
    /// The scenario that this thread judges.
    static NUMBER: Cell<u64> = const { Cell::new(0) };
}

/// The results so far.
#[derive(Default)]
struct FuzzTally {
    /// Scenarios that were judged. They are those of the first numbers: an interrupt takes no new
    /// one.
    done: u64,
    refused: u64,
    /// The first reason why a scenario was refused.
    reason: Option<(u64, String)>,
    events: u64,
    findings: Vec<(u64, Finding)>,
}

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> Done {
    if args.print {
        for number in numbers(args) {
            let draft = drawn(args, number);
            output::print(&format!("# seed {}, number {number}\n{draft}\n", args.seed))?;
            let options = draft.options("FILE");
            if !options.is_empty() {
                output::print(&format!("# zerolag run {options}\n"))?;
            }
            if let Some(costs) = draft.costs() {
                output::print(&format!("# FILE:\n# {}\n", costs.trim_end().replace('\n', "\n# ")))?;
            }
        }
        return Ok(code::OK);
    }
    if !args.out.is_dir() {
        let message = format!("`{}` is no directory", args.out.display());
        return Err(Failure::input_help(message, "create it, or name another one with --out"));
    }
    catch_interrupts();
    // Panics of scenarios are findings: their messages are in the report. A build that aborts on a
    // panic gets no further than this hook, so it reports there, and cannot shrink.
    let usual = std::panic::take_hook();
    let again = again(args);
    std::panic::set_hook(Box::new(move |info| match is_judging() {
        true if cfg!(panic = "abort") => {
            let number = NUMBER.get();
            eprintln_lossy(&format!(
                "number {number}: {info}\nnote: this build ends with the first panic; `{again} --from {number} \
                 --count 1` of a debug build (cargo build) makes it smaller"
            ));
            std::process::exit(i32::from(code::FAILURE));
        }
        true => {}
        false => usual(info),
    }));
    let tally = search(args);
    let FuzzTally { done, refused, reason, events, mut findings } = tally;
    findings.sort_by_key(|(number, _)| *number);
    for (number, finding) in findings.iter().take(FINDINGS_MAX) {
        write_finding(args, *number, finding)?;
    }
    let found = findings.len();
    output::print(&format!(
        "{done} scenarios of seed {}: {events} events, {refused} refused ({:.1} %), {found} findings\n",
        args.seed,
        100.0 * refused as f64 / done.max(1) as f64
    ))?;
    for (kind, count) in kinds(&findings) {
        output::print(&format!("  {count} times: {kind}\n"))?;
    }
    if let Some(rest) = rest(args, done) {
        eprintln_lossy(&format!("note: interrupted; `{rest}` runs the rest"));
    }
    if let Some((number, reason)) = reason {
        let first = reason.lines().next().unwrap_or_default();
        eprintln_lossy(&format!("note: the first refused is number {number}: {first}"));
    }
    Ok(match found {
        _ if interrupted() => code::INTERRUPTED,
        0 => code::OK,
        _ => code::FAILURE,
    })
}

/// Returns how often each kind of finding was made. Not all are written.
fn kinds(findings: &[(u64, Finding)]) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for (_, finding) in findings {
        let said = finding.to_string();
        let kind = said.split(':').next().unwrap_or_default();
        *counts.entry(kind.to_owned()).or_default() += 1;
    }
    counts
}

/// Returns the command that draws the same scenarios.
fn again(args: &Args) -> String {
    format!("zerolag fuzz --seed {}", args.seed)
}

/// Returns the command that runs the scenarios that an interrupt left out.
fn rest(args: &Args, done: u64) -> Option<String> {
    let (from, count) = (args.from + done, args.count - done);
    (count > 0).then(|| format!("{} --from {from} --count {count}", again(args)))
}

fn drawn(args: &Args, number: u64) -> Draft {
    let mut draft = draw(args.seed, number, args.kernel);
    args.policy.iter().for_each(|policy| draft.load(*policy));
    draft
}

fn numbers(args: &Args) -> std::ops::Range<u64> {
    args.from..args.from.saturating_add(args.count)
}

/// Judges all scenarios, on all processors.
fn search(args: &Args) -> FuzzTally {
    let (next, tally) = (AtomicU64::new(args.from), Mutex::new(FuzzTally::default()));
    let progress = Mutex::new(Progress::new(args.count, "scenarios", args.quiet.quiet));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let worker = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if !numbers(args).contains(&number) || interrupted() {
                return;
            }
            NUMBER.set(number);
            let judged = judge_draft(&drawn(args, number));
            let mut tally = tally.lock().expect("invariant: no thread panics while it holds it");
            tally.done += 1;
            match judged {
                Judged::Fine(events) => tally.events += events,
                Judged::Refused(reason) => {
                    tally.refused += 1;
                    tally.reason.get_or_insert((number, reason));
                }
                Judged::Wrong(finding) => tally.findings.push((number, finding)),
            }
            drop(tally);
            let _ = progress.lock().expect("invariant: no thread panics while it holds it").at(number - args.from);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(worker);
        }
    });
    progress.lock().expect("invariant: no thread panics while it holds it").finish();
    tally.into_inner().expect("invariant: no thread panics while it holds it")
}

/// Shrinks a finding, prints it and writes its scenario.
fn write_finding(args: &Args, number: u64, finding: &Finding) -> Result<(), Failure> {
    let shows = |draft: &Draft| match judge_draft(draft) {
        Judged::Wrong(other) => finding.is_like(&other).then_some(other),
        Judged::Refused(_) | Judged::Fine(_) => None,
    };
    let small = shrink(&drawn(args, number), args.shrink, |draft| shows(draft).is_some());
    let finding = shows(&small).unwrap_or_else(|| finding.clone());
    let name = format!("fuzz-{}-{number}", args.seed);
    let path = args.out.join(format!("{name}.toml"));
    let of_costs = args.out.join(format!("{name}-costs.toml"));
    if let Some(costs) = small.costs() {
        output::write_text(&of_costs, &costs)?;
    }
    let options = small.options(&of_costs.display().to_string());
    let options = if options.is_empty() { options } else { format!("# zerolag run {options}\n") };
    let said = finding.to_string().replace('\n', "\n# ");
    output::write_text(&path, &format!("# {} --from {number} --count 1\n{options}# {said}\n{small}", again(args)))?;
    output::print(&format!("number {number}: {finding}\n  {}\n", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(clap::Parser)]
    struct FuzzArgs {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn an_interrupted_search_names_the_rest() {
        let line = ["fuzz", "--seed", "7", "--from", "100", "--count", "50"];
        let args = FuzzArgs::parse_from(line).args;
        assert_eq!(rest(&args, 20).as_deref(), Some("zerolag fuzz --seed 7 --from 120 --count 30"));
        assert_eq!(rest(&args, 50), None);
    }
}

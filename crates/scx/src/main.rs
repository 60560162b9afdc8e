//! `zerolag-scx`: a policy of zerolag as the scheduler of this machine, through `sched_ext`.
//!
//! | module | holds |
//! |---|---|
//! | `wire` | events and decisions as bytes: the layout of `bpf/shared.h` |
//! | `kernel` | the kernel's half, loaded: libbpf |
//! | `mirror` | the policy and the state of the kernel, as events tell it: events in, decisions out |
//! | `account`, `table` | what tasks used and waited |
//! | `realtime`, `clock` | system calls |
//! | `agent` | the thread that decides |
//! | `trace` | the events as a trace that `zerolag` reads |
//!
//! The program in the kernel is `bpf/policy.bpf.c`: GPL-2.0, in a folder of its own. All else is
//! `MIT OR Apache-2.0`, as zerolag is.
//!
//! Exit codes: 0, also after Ctrl-C; 1, the policy broke a rule, or the kernel unloaded it; 2,
//! wrong usage, or this machine lacks something.

mod account;
mod agent;
mod clock;
mod kernel;
mod mirror;
mod realtime;
mod table;
mod trace;
mod wire;

use agent::{End, Shared};
use clap::{Parser, Subcommand};
use std::io::{self, IsTerminal as _, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;
use wire::Event;
use zerolag_model::settings::SchedExtPolicy;
use zerolag_model::{CpuId, CpuMask, Duration};
use zerolag_policy::{Mistake, Needs, OpsFlags, Policy, SLICE_DFL, TextParam, policies};

/// How often the table is shown.
const BETWEEN_TABLES: u64 = 1_000_000_000;
/// How often the end is looked for.
const LOOK: std::time::Duration = std::time::Duration::from_millis(50);

/// A policy of zerolag as the scheduler of this machine
#[derive(Debug, Parser)]
#[command(name = "zerolag-scx", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Load a policy into the kernel, and show what tasks get, until Ctrl-C
    Run(Args),
}

#[derive(Debug, clap::Args)]
struct Args {
    /// A built-in policy, or a shared object
    #[arg(long, value_name = "NAME|FILE.so")]
    policy: String,
    /// Set a parameter of the policy, as in saved=4; one that is a text, as rules of `linux`, by the
    /// path of a file, or by the text itself, which has white space
    #[arg(long = "set", value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// Schedule only threads that ask for SCHED_EXT
    #[arg(long)]
    partial: bool,
    /// Ask the policy also for tasks that wake while a CPU idles; without it they run there at once
    #[arg(long)]
    ask_always: bool,
    /// Tell the policy of wakeups that find no idle CPU when some CPU asks for a task: for policies
    /// whose wakeups do not preempt; switches cost less
    #[arg(long, conflicts_with = "ask_always")]
    patient: bool,
    /// Let a CPU without a task take the only task that waits, without asking: for policies that leave
    /// no CPU idle while a task waits, so without limits
    #[arg(long, conflicts_with = "ask_always")]
    alone: bool,
    /// The longest turn
    #[arg(long, value_name = "TIME", default_value_t = SLICE_DFL)]
    slice: Duration,
    /// Unload it after this time
    #[arg(long = "for", value_name = "TIME")]
    for_: Option<Duration>,
    /// Let CPUs help themselves when the policy has not answered for this time
    #[arg(long, value_name = "TIME", default_value_t = Duration::from_millis(20))]
    late: Duration,
    /// Unload it when the policy has not answered for this time
    #[arg(long, value_name = "TIME", default_value_t = Duration::from_secs(2))]
    hang: Duration,
    /// Show groups instead of tasks
    #[arg(long)]
    groups: bool,
    /// Write the turns and wakeups of the policy's tasks to a file, as the text that tracefs prints
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Show figures at the end only
    #[arg(short, long)]
    quiet: bool,
}

/// What is shown to the user, and the exit code.
struct Failure(u8, String);

impl Failure {
    fn input(why: impl Into<String>) -> Self {
        Self(2, why.into())
    }
}

fn main() -> ExitCode {
    let Command::Run(args) = Cli::parse().command;
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure(code, why)) => {
            eprintln!("error: {why}");
            ExitCode::from(code)
        }
    }
}

fn run(args: &Args) -> Result<(), Failure> {
    let mut wrong = Vec::new();
    let policy = policy(args).map_err(|why| wrong.extend(why)).ok();
    wrong.extend(limits(args));
    let (Some(policy), true) = (policy, wrong.is_empty()) else {
        return Err(Failure::input(wrong.join("\nerror: ")));
    };
    if let Some(why) = kernel::missing() {
        return Err(Failure::input(why));
    }
    let online = online().map_err(Failure::input)?;
    let (tracing, writer) = tracing(args.trace.as_deref())?;
    let nr_cpus = online.last().map_or(0, |last| last.0 + 1);
    let ops = policy.ops();
    let name = ops.name;
    let settings = kernel::Settings {
        name: format!("zerolag_{name}"),
        is_partial: args.partial || ops.flags.has(OpsFlags::SWITCH_PARTIAL),
        timeout_ms: u32::try_from(ops.timeout.as_nanos() / 1_000_000).unwrap_or(u32::MAX).max(1),
        config: wire::Config {
            slice_ns: args.slice.as_nanos(),
            late_ns: args.late.as_nanos(),
            timeout_ns: args.hang.as_nanos(),
            nr_cpus,
            direct: !args.ask_always,
            patient: args.patient,
            alone: args.alone,
        },
    };
    let shared = Arc::new(Shared::default());
    let on_signal = Arc::clone(&shared);
    ctrlc::set_handler(move || on_signal.stops.store(true, Ordering::Relaxed))
        .map_err(|error| Failure(1, format!("signals: {error}")))?;
    let its = Arc::clone(&shared);
    let start = move || agent::run(policy, &online, &settings, &its, tracing.as_ref());
    let agent = std::thread::Builder::new().name("zerolag-agent".into()).spawn(start);
    let agent = agent.map_err(|error| Failure(1, format!("a thread: {error}")))?;
    watch(args, &name, &shared, || agent.is_finished());
    let end = agent.join().map_err(|_| Failure(1, format!("the policy `{name}` has panicked; it is unloaded")))?;
    if let (Some(path), Some(Err(error))) = (&args.trace, writer.map(|writer| writer.join().unwrap_or(Ok(())))) {
        eprintln!("warning: --trace {}: {error}; the rest is missing", path.display());
    }
    let figures = shared.figures.lock().map(|figures| figures.clone()).unwrap_or_default();
    if figures.now > 0 {
        print!("{}", table::render(&name, &figures, args.groups));
    }
    match end.map_err(|why| Failure(1, why))? {
        End::Policy(why) => Err(Failure(1, why)),
        End::Unloaded(report) => {
            let msg = if report.msg.is_empty() { String::new() } else { format!(": {}", report.msg) };
            let text = format!("{name} was unloaded ({}{msg})", report.reason);
            if report.is_forced() {
                return Err(Failure(1, text));
            }
            println!("{text}");
            Ok(())
        }
    }
}

/// Begins a trace, and the thread that writes it: the one that decides must not wait for a disk.
#[expect(clippy::type_complexity, reason = "both ends of one channel")]
fn tracing(path: Option<&Path>) -> Result<(Option<Sender<Vec<Event>>>, Option<JoinHandle<io::Result<()>>>), Failure> {
    let Some(path) = path else { return Ok((None, None)) };
    let wrong = |error: io::Error| Failure::input(format!("--trace {}: {error}", path.display()));
    let file = std::fs::File::create(path).map_err(wrong)?;
    let mut recorder = trace::Recorder::new(io::BufWriter::new(file)).map_err(wrong)?;
    let (sender, receiver) = std::sync::mpsc::channel::<Vec<Event>>();
    let write = move || {
        for event in receiver.into_iter().flatten() {
            recorder.handle(&event)?;
        }
        recorder.finish()
    };
    let thread = std::thread::Builder::new().name("zerolag-trace".into()).spawn(write).map_err(wrong)?;
    Ok((Some(sender), Some(thread)))
}

/// Makes the policy.
fn policy(args: &Args) -> Result<Box<dyn Policy>, Vec<String>> {
    let wrong = |why: String| vec![format!("--policy {}: {why}", args.policy)];
    let mut policy = if zerolag_plugin::is_file(&args.policy) {
        let loaded = zerolag_plugin::load(Path::new(&args.policy));
        loaded.map_err(|error| wrong(format!("{error}\n  help: {}", error.help)))?.make()
    } else {
        let names = || SchedExtPolicy::ALL.iter().map(|policy| policy.name()).collect::<Vec<_>>().join(", ");
        let found = SchedExtPolicy::from_name(&args.policy);
        let found = found.ok_or_else(|| wrong(format!("there is no such policy; known are {}", names())))?;
        policies::named(found, 1)
    };
    let needs = policy.ops().needs;
    if needs != Needs::NONE {
        let what = if needs.has(Needs::WORK) { "the work that tasks will do" } else { "the periods of a workload" };
        return Err(wrong(format!("it needs {what}, and a kernel knows none: it runs in simulations only")));
    }
    let mut errors = Vec::new();
    for text in &args.set {
        if let Err(wrong) = set(&mut *policy, text) {
            errors.extend(wrong.iter().map(|why| format!("--set {text}: {why}")));
        }
    }
    if errors.is_empty() { Ok(policy) } else { Err(errors) }
}

fn set(policy: &mut dyn Policy, text: &str) -> Result<(), Vec<String>> {
    let one = |why: String| vec![why];
    let (name, value) = text.split_once('=').ok_or_else(|| one("expected NAME=VALUE, as in saved=4".to_owned()))?;
    let (name, value) = (name.trim().trim_start_matches("policy."), value.trim());
    if let Some(index) = policy.texts().iter().position(|text| text.name == name) {
        let (place, text) = match TextParam::is_text(value) {
            true => (String::new(), value.to_owned()),
            false => (format!("{value}:"), read(value).map_err(one)?),
        };
        let said = |wrong: &Mistake| format!("{place}{wrong}\n  help: {}", wrong.help);
        return policy.set_text(index, &text).map_err(|wrong| wrong.iter().map(said).collect());
    }
    let params = policy.params();
    let names = params.iter().map(|param| &param.name).chain(policy.texts().iter().map(|text| &text.name));
    let names = || names.map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let index = params.iter().position(|param| param.name == name);
    let index = index.ok_or_else(|| one(format!("the policy has no parameter `{name}`; it has: {}", names())))?;
    let value = params[index].read(value).map_err(one)?;
    policy.set_param(index, value);
    Ok(())
}

fn read(path: &str) -> Result<String, String> {
    let help = "the path of a file, or the text itself, which has white space";
    let mut text = String::new();
    let read =
        std::fs::File::open(path).and_then(|file| file.take(TextParam::BYTES_MAX as u64 + 1).read_to_string(&mut text));
    read.map_err(|error| format!("{path}: {error}\n  help: {help}"))?;
    if text.len() > TextParam::BYTES_MAX {
        return Err(format!("{path}: it is longer than {} bytes\n  help: {help}", TextParam::BYTES_MAX));
    }
    Ok(text)
}

/// Returns what is wrong with the times.
fn limits(args: &Args) -> Vec<String> {
    let ranges = [
        ("--slice", args.slice, Duration::from_micros(100), Duration::from_secs(1)),
        ("--late", args.late, Duration::from_millis(10), Duration::from_secs(10)),
        ("--hang", args.hang, Duration::from_millis(100), Duration::from_secs(30)),
        ("--for", args.for_.unwrap_or(Duration::from_secs(1)), Duration::from_millis(1), Duration::MAX),
    ];
    let wrong = ranges.into_iter().filter(|(_, value, least, most)| value < least || value > most);
    let mut wrong: Vec<String> =
        wrong.map(|(name, value, least, most)| format!("{name} {value}: expected {least} to {most}")).collect();
    if args.late >= args.hang {
        wrong.push(format!("--late {} must be less than --hang {}", args.late, args.hang));
    }
    wrong
}

/// Returns the CPUs of this machine that are online.
fn online() -> Result<CpuMask, String> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online").map_err(|error| error.to_string())?;
    let mask = cpu_list(text.trim()).ok_or_else(|| format!("the list of CPUs cannot be read: {text}"))?;
    match mask.last() {
        Some(last) if last.index() < wire::MAX_CPUS => Ok(mask),
        Some(last) => Err(format!("this machine has CPU {last}, and at most {} CPUs are supported", wire::MAX_CPUS)),
        None => Err("no CPU is online".to_owned()),
    }
}

/// Reads a list of CPUs as the kernel writes it: `0-3,8`.
fn cpu_list(text: &str) -> Option<CpuMask> {
    let mut mask = CpuMask::new();
    for range in text.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if last as usize >= zerolag_model::MAX_CPUS {
            return None;
        }
        for cpu in first..=last {
            mask.insert(CpuId(cpu));
        }
    }
    Some(mask)
}

/// Shows the table until the end.
fn watch(args: &Args, name: &str, shared: &Shared, is_finished: impl Fn() -> bool) {
    let began = clock::monotonic();
    let mut shown_at = began;
    let is_terminal = io::stdout().is_terminal();
    while !is_finished() {
        std::thread::sleep(LOOK);
        let now = clock::monotonic();
        if args.for_.is_some_and(|limit| now - began >= limit.as_nanos()) {
            shared.stops.store(true, Ordering::Relaxed);
        }
        if args.quiet || now - shown_at < BETWEEN_TABLES {
            continue;
        }
        shown_at = now;
        let figures = shared.figures.lock().map(|figures| figures.clone()).unwrap_or_default();
        if figures.now > 0 {
            let clear = if is_terminal { "\x1b[H\x1b[2J" } else { "" };
            let text = format!("{clear}{}\n", table::render(name, &figures, args.groups));
            // A reader that has gone away ends the table, not the scheduler.
            let _ = io::stdout().write_all(text.as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus_are_read() {
        let cpus = |text: &str| cpu_list(text).map(|mask| mask.iter().map(|cpu| cpu.0).collect::<Vec<_>>());
        assert_eq!(cpus("0-2,5,7-8"), Some(vec![0, 1, 2, 5, 7, 8]));
        assert_eq!(cpus("0"), Some(vec![0]));
        for wrong in ["", "0-", "a", "0-9999999"] {
            assert_eq!(cpus(wrong), None, "{wrong}");
        }
    }
}

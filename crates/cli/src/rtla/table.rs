//! rtla's options as one table: parsing, help, refusals, notes and the page
//! `docs/reference/rtla.md` come from it.
//!
//! A simulation follows an option, accepts it without effect, or refuses it:
//!
//! * **followed**: the result is that of rtla;
//! * **without effect**: the option controls the kernel's tracer, not the result, so that copied
//!   command lines work; a note names it;
//! * **refused**: the result would be another, and a simulation cannot give it; the message has the
//!   reason, the exit code is 2.
//!
//! Options of histograms are refused where none is printed, as in rtla.
//!
//! Sources: rtla's manual pages of Linux 6.18, `Documentation/tools/rtla`; `rtla --help` of
//! Debian's 6.1.

use super::RtlaMode;
use super::values::{action, cpu_list, micros, priority, rtla_duration, seconds};
use crate::failure::{Failure, eprintln_lossy};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, FromArgMatches, value_parser};
use std::any::Any;
use std::marker::PhantomData;
use std::path::PathBuf;

/// One of rtla's tools.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Which {
    Timerlat,
    Osnoise,
}

/// A tool as a type, so that its options are a type of their own.
pub(crate) trait Tool: 'static {
    const WHICH: Which;
}

/// `rtla timerlat`.
#[derive(Debug)]
pub(crate) struct OfTimerlat;

impl Tool for OfTimerlat {
    const WHICH: Which = Timerlat;
}

/// `rtla osnoise`.
#[derive(Debug)]
pub(crate) struct OfOsnoise;

impl Tool for OfOsnoise {
    const WHICH: Which = Osnoise;
}

/// What a simulation does with an option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    /// It follows it.
    Followed,
    /// It follows it in the mode `hist`, and refuses it in `top`.
    FollowedByHist,
    /// It accepts it, with a note.
    Idle,
    /// It refuses it, for this reason.
    Refused(&'static str),
}

/// The kind of an option's value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum OptionKind {
    Flag,
    Micros,
    Seconds,
    Time,
    CpuList,
    Policy,
    Action,
    Bucket,
    Entries,
    Number,
    Signed,
    Text,
    Texts,
    OptionalText,
    OptionalFile,
}

/// An option of rtla.
#[derive(Clone, Copy, Debug)]
struct Opt {
    long: &'static str,
    short: Option<char>,
    /// The tool that has it; `None` is both.
    tool: Option<Which>,
    kind: OptionKind,
    value: &'static str,
    default: Option<&'static str>,
    conflict: Option<&'static str>,
    help: &'static str,
    fate: Fate,
}

/// Returns a followed flag of both tools.
const fn opt(long: &'static str, help: &'static str) -> Opt {
    let (short, tool, default, conflict) = (None, None, None, None);
    Opt { long, short, tool, kind: OptionKind::Flag, value: "", default, conflict, help, fate: Fate::Followed }
}

impl Opt {
    const fn short(self, short: char) -> Self {
        Self { short: Some(short), ..self }
    }

    const fn of(self, tool: Which) -> Self {
        Self { tool: Some(tool), ..self }
    }

    const fn takes(self, kind: OptionKind, value: &'static str) -> Self {
        Self { kind, value, ..self }
    }

    const fn by_default(self, default: &'static str) -> Self {
        Self { default: Some(default), ..self }
    }

    const fn excludes(self, other: &'static str) -> Self {
        Self { conflict: Some(other), ..self }
    }

    const fn in_hist(self) -> Self {
        Self { fate: Fate::FollowedByHist, ..self }
    }

    const fn idle(self) -> Self {
        Self { fate: Fate::Idle, ..self }
    }

    const fn refused(self, reason: &'static str) -> Self {
        Self { fate: Fate::Refused(reason), ..self }
    }

    fn is_of(&self, tool: Which) -> bool {
        self.tool.is_none_or(|of| of == tool)
    }

    /// Returns the option as clap parses and prints it.
    fn arg(&self) -> Arg {
        let arg = Arg::new(self.long).long(self.long).help(self.help);
        let arg = match self.fate {
            Fate::Followed | Fate::FollowedByHist => arg,
            Fate::Idle => arg.help_heading("Accepted as rtla's, without effect"),
            Fate::Refused(reason) => arg.help(format!("{}: {reason}", self.help)).help_heading("Refused of rtla's"),
        };
        let arg = match self.kind {
            OptionKind::Flag => return self.finish(arg.action(ArgAction::SetTrue)),
            OptionKind::Micros => arg.value_parser(micros),
            OptionKind::Seconds => arg.value_parser(seconds),
            OptionKind::Time => arg.value_parser(rtla_duration),
            OptionKind::CpuList => arg.value_parser(cpu_list),
            OptionKind::Policy => arg.value_parser(priority),
            OptionKind::Action => arg.value_parser(action),
            OptionKind::Bucket => arg.value_parser(value_parser!(u64).range(1..1_000_000)),
            OptionKind::Entries => arg.value_parser(value_parser!(u32).range(10..=9_999_999)),
            OptionKind::Number => arg.value_parser(value_parser!(u64)),
            OptionKind::Signed => arg.value_parser(value_parser!(i64)).allow_negative_numbers(true),
            OptionKind::Text => arg,
            OptionKind::Texts => arg.action(ArgAction::Append),
            OptionKind::OptionalText => arg.num_args(0..=1).require_equals(true),
            OptionKind::OptionalFile => arg.value_parser(value_parser!(PathBuf)).num_args(0..=1),
        };
        self.finish(arg.value_name(self.value))
    }

    fn finish(&self, mut arg: Arg) -> Arg {
        if let Some(short) = self.short {
            arg = arg.short(short);
        }
        if let Some(default) = self.default {
            arg = arg.default_value(default);
        }
        if let Some(other) = self.conflict {
            arg = arg.conflicts_with(other);
        }
        arg
    }
}

use Which::{Osnoise, Timerlat};

const OPTIONS: &[Opt] = &[
    opt("auto", "Stop when the interrupt or thread latency reaches this (us), and save a trace: -i US -T US -t")
        .short('a')
        .of(Timerlat)
        .takes(OptionKind::Micros, "US"),
    opt("auto", "Stop when a gap is longer than this (us), and save a trace: -s US -t")
        .short('a')
        .of(Osnoise)
        .takes(OptionKind::Micros, "US")
        .excludes("stop"),
    opt("period", "Period of the timer (us)")
        .short('p')
        .of(Timerlat)
        .takes(OptionKind::Micros, "US")
        .by_default("1000"),
    opt("period", "Period of samples (us)")
        .short('p')
        .of(Osnoise)
        .takes(OptionKind::Micros, "US")
        .by_default("1000000"),
    opt("runtime", "Length of a sample (us)")
        .short('r')
        .of(Osnoise)
        .takes(OptionKind::Micros, "US")
        .by_default("1000000"),
    opt("threshold", "A shorter gap is not noise (us)")
        .short('T')
        .of(Osnoise)
        .takes(OptionKind::Micros, "US")
        .by_default("1"),
    opt("stop", "Stop when a gap is longer than this (us)").short('s').of(Osnoise).takes(OptionKind::Micros, "US"),
    opt("stop-total", "Stop when the noise of a sample is more than this (us)")
        .short('S')
        .of(Osnoise)
        .takes(OptionKind::Micros, "US"),
    opt("irq", "Stop when the interrupt latency reaches this (us)")
        .short('i')
        .of(Timerlat)
        .takes(OptionKind::Micros, "US"),
    opt("thread", "Stop when the thread latency reaches this (us)")
        .short('T')
        .of(Timerlat)
        .takes(OptionKind::Micros, "US"),
    opt("nano", "Show nanoseconds").short('n').of(Timerlat),
    opt("user-threads", "Threads in user mode").short('u').of(Timerlat),
    opt("kernel-threads", "Kernel threads (the default)").short('k').of(Timerlat).excludes("user-threads"),
    opt("on-cpus", "CPUs with a thread, rtla's --cpus (here the machine's size) [default: all]")
        .short('c')
        .takes(OptionKind::CpuList, "CPU-LIST"),
    opt("duration", "Duration: a number of seconds, or with s, m, h, d")
        .short('d')
        .takes(OptionKind::Time, "TIME")
        .by_default("1m"),
    opt("priority", "Policy of the threads: o:nice, r:prio, f:prio or d:runtime:period (ms)")
        .short('P')
        .takes(OptionKind::Policy, "POLICY"),
    opt("warm-up", "Warm-up: seconds before counting starts").takes(OptionKind::Seconds, "S").by_default("0"),
    opt(
        "trace",
        "Save a trace when a threshold stops it; by extension .txt, .zlt or .pftrace [default: TOOL_trace.txt]",
    )
    .short('t')
    .takes(OptionKind::OptionalFile, "FILE"),
    opt("on-threshold", "At the threshold: trace[,file=FILE], as -t [=FILE]").takes(OptionKind::Action, "ACTION"),
    opt("on-end", "At the end, however it is reached: trace[,file=FILE]").takes(OptionKind::Action, "ACTION"),
    opt("bucket-size", "hist: width of a class [default: 1]").short('b').takes(OptionKind::Bucket, "N").in_hist(),
    opt("entries", "hist: number of classes [default: 256]").short('E').takes(OptionKind::Entries, "N").in_hist(),
    opt("no-header", "hist: without the lines above").in_hist(),
    opt("no-summary", "hist: without the lines below").in_hist(),
    opt("no-index", "hist: without the first column").in_hist(),
    opt("with-zeros", "hist: with empty classes").in_hist(),
    opt("no-irq", "hist: without latencies of interrupts").of(Timerlat).in_hist(),
    opt("no-thread", "hist: without latencies of threads").of(Timerlat).in_hist(),
    opt("house-keeping", "CPUs of rtla's own threads").short('H').takes(OptionKind::CpuList, "CPU-LIST").idle(),
    opt("cgroup", "The threads' control group").short('C').takes(OptionKind::OptionalText, "CGROUP").idle(),
    opt("debug", "Print rtla's own actions").short('D').idle(),
    opt("event", "Events to trace").short('e').takes(OptionKind::Texts, "SYS:EVENT").idle(),
    opt("filter", "A filter of the preceding event").takes(OptionKind::Texts, "FILTER").idle(),
    opt("trigger", "A trigger of the preceding event").takes(OptionKind::Texts, "TRIGGER").idle(),
    opt("trace-buffer-size", "Size of the trace's buffer").takes(OptionKind::Number, "KB").idle(),
    opt("stack", "Stack traces of the interrupt before a late thread (us)")
        .short('s')
        .of(Timerlat)
        .takes(OptionKind::Number, "US")
        .idle(),
    opt("dma-latency", "Bound of the exit from idle states (us), of the cost profile")
        .of(Timerlat)
        .takes(OptionKind::Number, "US"),
    opt("deepest-idle-state", "Deepest idle state, of the cost profile; -1 and 0 are the first")
        .of(Timerlat)
        .takes(OptionKind::Signed, "N"),
    opt("no-aa", "Disable auto-analysis: there is none").of(Timerlat).idle(),
    opt("stack-format", "Truncation of stacks: truncate, skip, full")
        .of(Timerlat)
        .takes(OptionKind::Text, "FORMAT")
        .idle(),
    opt("user-load", "Measure a program of the user's")
        .short('U')
        .of(Timerlat)
        .refused("rtla would wait for a program that reads timerlat_fd: use -u"),
    opt("aligned", "Wake the threads at offsets from each other")
        .short('A')
        .of(Timerlat)
        .takes(OptionKind::Number, "US")
        .refused("the threads of a simulation start together"),
    opt("aa-only", "Print the auto-analysis only")
        .of(Timerlat)
        .takes(OptionKind::Number, "US")
        .refused("there is no auto-analysis: use -a, then `zerolag explain` with the trace"),
    opt("dump-tasks", "Print the running tasks at the threshold")
        .of(Timerlat)
        .refused("use -t: the trace contains the running tasks at the threshold"),
    opt("bpf-action", "Run a BPF program at the threshold")
        .of(Timerlat)
        .takes(OptionKind::Text, "PROGRAM")
        .refused("a simulation starts no programs"),
];

fn options_of(tool: Which) -> impl Iterator<Item = &'static Opt> {
    OPTIONS.iter().filter(move |option| option.is_of(tool))
}

/// The options of a tool on a command line.
#[derive(Debug)]
pub(crate) struct Given<T> {
    matches: ArgMatches,
    tool: PhantomData<T>,
}

impl<T: Tool> clap::Args for Given<T> {
    fn augment_args(command: Command) -> Command {
        command.args(options_of(T::WHICH).map(Opt::arg))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<T: Tool> FromArgMatches for Given<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self { matches: matches.clone(), tool: PhantomData })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.matches = matches.clone();
        Ok(())
    }
}

impl<T: Tool> Given<T> {
    /// Returns whether the option is on the command line.
    pub(crate) fn has(&self, long: &str) -> bool {
        self.matches.value_source(long) == Some(ValueSource::CommandLine)
    }

    /// Returns the option's value, or its default.
    ///
    /// # Panics
    /// The tool has no such option, or its values have another type.
    pub(crate) fn get<V: Any + Clone + Send + Sync>(&self, long: &str) -> Option<V> {
        self.matches.get_one::<V>(long).cloned()
    }

    /// Refuses options that a simulation cannot follow in this mode.
    pub(crate) fn refuse(&self, mode: RtlaMode) -> Result<(), Failure> {
        for option in options_of(T::WHICH).filter(|option| self.has(option.long)) {
            let long = option.long;
            match option.fate {
                Fate::Refused(reason) => {
                    return Err(Failure::input_help(format!("--{long}: not in a simulation"), reason));
                }
                Fate::FollowedByHist if mode == RtlaMode::Top => {
                    return Err(Failure::input_help(
                        format!("--{long}: `top` prints no histogram"),
                        "write `hist` first",
                    ));
                }
                Fate::FollowedByHist | Fate::Followed | Fate::Idle => {}
            }
        }
        Ok(())
    }

    /// Lists the options without effect.
    pub(crate) fn note(&self) {
        let idle = self.idle();
        if !idle.is_empty() {
            eprintln_lossy(&format!("note: without effect in a simulation: {}", idle.join(", ")));
        }
    }

    fn idle(&self) -> Vec<String> {
        let given = options_of(T::WHICH).filter(|option| option.fate == Fate::Idle && self.has(option.long));
        given.map(|option| format!("--{}", option.long)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cli;
    use clap::CommandFactory;
    use std::fmt::Write;

    /// Returns an option with a valid value.
    fn example(option: &Opt) -> Vec<String> {
        let value = match option.kind {
            OptionKind::Flag => return vec![format!("--{}", option.long)],
            OptionKind::Micros | OptionKind::Seconds | OptionKind::Time | OptionKind::Number | OptionKind::Entries => {
                "20"
            }
            OptionKind::Bucket | OptionKind::CpuList => "1",
            OptionKind::Signed => "-1",
            OptionKind::Policy => "f:95",
            OptionKind::Action => "trace,file=a.txt",
            OptionKind::Text | OptionKind::Texts | OptionKind::OptionalText | OptionKind::OptionalFile => "a.txt",
        };
        vec![format!("--{}={value}", option.long)]
    }

    fn given<T: Tool>(tool: &str, args: &[String]) -> Given<T> {
        let line = ["zerolag", tool].into_iter().map(str::to_owned).chain(args.iter().cloned());
        let matches =
            Cli::command().try_get_matches_from(line).unwrap_or_else(|error| panic!("{tool} {args:?}: {error}"));
        let (_, matches) = matches.subcommand().expect("a subcommand");
        Given::from_arg_matches(matches).expect("they are those of the tool")
    }

    fn check<T: Tool>(tool: &str) {
        for option in options_of(T::WHICH) {
            let args = example(option);
            let alone = given::<T>(tool, &args);
            assert!(alone.has(option.long), "{tool} {args:?}");
            let refused = |mode| match alone.refuse(mode) {
                Ok(()) => None,
                Err(Failure::Input { message, help }) => Some((message, help.expect("advice"))),
                Err(other) => panic!("{tool} {args:?}: {other:?}"),
            };
            let [top, hist] = [RtlaMode::Top, RtlaMode::Hist].map(refused);
            for (message, _) in [&top, &hist].into_iter().flatten() {
                assert!(message.starts_with(&format!("--{}: ", option.long)), "{message}");
            }
            let idle = alone.idle();
            match option.fate {
                Fate::Followed => assert!(top.is_none() && hist.is_none() && idle.is_empty(), "{tool} {args:?}"),
                Fate::FollowedByHist => assert!(top.is_some() && hist.is_none() && idle.is_empty(), "{tool} {args:?}"),
                Fate::Idle => assert!(top.is_none() && hist.is_none() && idle == [format!("--{}", option.long)]),
                Fate::Refused(reason) => {
                    assert!([top, hist].into_iter().all(|said| said.is_some_and(|(_, help)| help == reason)));
                }
            }
            if let Some(short) = option.short {
                let value = args[0].split_once('=').map(|(_, value)| value.to_owned());
                let value = value
                    .map(|value| if option.kind == OptionKind::OptionalText { format!("={value}") } else { value });
                let short = format!("-{short}{}", value.unwrap_or_default());
                assert!(given::<T>(tool, &[short]).has(option.long), "{tool} {args:?}");
            }
        }
    }

    #[test]
    fn every_option_is_followed_or_named_in_a_note_or_refused_with_its_reason() {
        check::<OfTimerlat>("timerlat");
        check::<OfOsnoise>("osnoise");
    }

    /// Returns the table of the page.
    fn page() -> String {
        let mut text = "| option | tool | in a simulation |\n|---|---|---|\n".to_owned();
        for option in OPTIONS {
            let short = option.short.map(|short| format!("`-{short}`, ")).unwrap_or_default();
            let value = if option.value.is_empty() { String::new() } else { format!(" {}", option.value) };
            let tool = match option.tool {
                None => "both",
                Some(Timerlat) => "timerlat",
                Some(Osnoise) => "osnoise",
            };
            let does = match option.fate {
                Fate::Followed | Fate::FollowedByHist => option.help.to_owned(),
                Fate::Idle => format!("without effect. {}", option.help),
                Fate::Refused(reason) => format!("refused: {reason}"),
            };
            let default = option.default.map(|default| format!(" [default: {default}]")).unwrap_or_default();
            writeln!(text, "| {short}`--{}{value}` | {tool} | {does}{default} |", option.long).expect("a string");
        }
        text
    }

    #[test]
    fn the_page_has_the_table() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/rtla.md");
        let published = std::fs::read_to_string(path).expect("the page");
        let table = page();
        assert!(published.contains(&table), "docs/reference/rtla.md has another table; it is\n{table}");
    }
}

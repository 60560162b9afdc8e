//! A file that another subcommand is for: a trace where a workload is wanted, and so on.
//!
//! It counts before every other mistake of the command line: a user that gives a trace to `sweep`
//! should not first be told that a value to vary is missing. So it is looked for only once
//! something has failed, also by the parser of arguments.

use super::failure::Failure;
use super::{Cli, input};
use clap::{Command, CommandFactory};
use std::ffi::OsString;
use std::path::PathBuf;
use zerolag::error::Error;
use zerolag::trace::{is_trace, tool_output};

/// Returns the mistake, if the file of the command line is for another subcommand. `arguments` are
/// those behind the name of the program.
pub(super) fn file(arguments: &[OsString]) -> Option<Failure> {
    let (name, rest) = arguments.split_first()?;
    let cli = Cli::command();
    let command = cli.find_subcommand(name)?;
    let path = positional(command, rest)?;
    let kind = InputKind::of(command)?;
    let head = input::head(&path).ok()?;
    let name = path.display();
    if is_trace(&head) {
        return (kind == InputKind::Workload).then(|| Error::is_trace(&name.to_string()).into());
    }
    if let Some(tool) = tool_output(&String::from_utf8_lossy(&head)).filter(|_| kind != InputKind::Trace) {
        return Some(Failure::input_help(format!("`{name}` is {}, and no {}", tool.what, kind.name()), tool.advice));
    }
    if is_manifest(&head) && kind != InputKind::Trace {
        let sub = command.get_name();
        return Some(Failure::input_help(
            format!("`{name}` is a manifest: it has limits, and no workload"),
            format!(
                "give it to a workload with -f: `zerolag {sub} WORKLOAD -f {name}` (`zerolag init` writes a workload)"
            ),
        ));
    }
    if kind != InputKind::Any && input::is_counters(&path, &head) {
        return Some(Failure::input_help(
            format!("`{name}` holds counters of a limit, and is no {}", kind.name()),
            format!("the least limit for them: `zerolag advise {name} --now LIMIT`"),
        ));
    }
    None
}

/// Returns whether the head of a file is that of a Kubernetes manifest or a Compose file.
fn is_manifest(head: &[u8]) -> bool {
    let text = String::from_utf8_lossy(head);
    let has = |key: &str| text.lines().any(|line| line.starts_with(key));
    (has("apiVersion:") && has("kind:")) || has("services:")
}

/// What a subcommand reads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum InputKind {
    Workload,
    Trace,
    /// Workloads and traces.
    Any,
}

impl InputKind {
    /// Returns the kind by the name of the subcommand's first value; `None` if it is neither.
    fn of(command: &Command) -> Option<Self> {
        if ["advise", "explain", "serve"].contains(&command.get_name()) {
            return Some(Self::Any);
        }
        match command.get_positionals().next()?.get_id().as_str() {
            "file" | "workload" => Some(Self::Workload),
            "trace" | "input" => Some(Self::Trace),
            _ => None,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Workload => "workload",
            Self::Trace => "trace",
            Self::Any => "workload or trace",
        }
    }
}

/// Returns the first argument that is no option and no value of one.
fn positional(command: &Command, arguments: &[OsString]) -> Option<PathBuf> {
    let takes_next = |argument: &str| {
        let option = command.get_arguments().find(|option| match argument.strip_prefix("--") {
            Some(long) => option.get_long() == Some(long),
            None => argument.len() == 2 && option.get_short() == argument.chars().nth(1),
        });
        option.is_some_and(|option| option.get_action().takes_values() && !option.is_require_equals_set())
    };
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        let text = argument.to_string_lossy();
        match &*text {
            "--" => return arguments.next().map(PathBuf::from),
            "-" => return None,
            _ if !text.starts_with('-') => return Some(PathBuf::from(argument)),
            option if takes_next(option) => drop(arguments.next()),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(line: &str) -> Option<String> {
        let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        let cli = Cli::command();
        let command = cli.find_subcommand(&words[0]).expect("a subcommand");
        positional(command, &words[1..]).map(|path| path.display().to_string())
    }

    #[test]
    fn the_file_is_told_from_the_values_of_options() {
        for line in [
            "run w.toml --trace out.zlt",
            "run --trace out.zlt w.toml",
            "run -d 2s --set a=1 w.toml",
            "run --json w.toml",
            "run --json=out.json -- w.toml",
            "sweep --nonsense w.toml --set a=1,2",
        ] {
            assert_eq!(first(line).as_deref(), Some("w.toml"), "{line}");
        }
        for line in ["run -", "run", "run -d 2s", "settings"] {
            assert_eq!(first(line), None, "{line}");
        }
    }
}

//! The options of all subcommands, as clap builds them: an option of one name is one option.

use crate::Cli;
use clap::{Arg, Command, CommandFactory};
use std::collections::BTreeMap;

/// The subcommands that run a workload.
const RUNNERS: [&str; 11] = [
    "run",
    "compare",
    "sweep",
    "analyse",
    "explain",
    "advise",
    "cyclictest",
    "rt-migrate-test",
    "serve",
    "timerlat",
    "osnoise",
];

/// Options that differ from the others of their name: in which subcommands, the name, and why.
const EXCEPTIONS: &[(&[&str], &str, &str)] = &[
    (&["cyclictest"], "aligned", "the tool's own"),
    (&["timerlat"], "aligned", "rtla's own, refused"),
    (&["osnoise"], "auto", "rtla's own: the threshold of osnoise is a gap"),
    (&["timerlat"], "auto", "rtla's own: the threshold of timerlat is a latency"),
    (&["record"], "cgroup", "a group of the recorded machine; that of the tools is the threads'"),
    (&["repro"], "cpus", "the sizes of machines that are compared"),
    (&["repro"], "set", "of the frozen experiment: settings only"),
    (&["repro"], "costs", "of the experiment: the profiles that it was made for"),
    (&["validate"], "costs", "a profile of this host, for comparisons of latencies; there is no default"),
    (&["cyclictest", "rt-migrate-test"], "duration", "the tools' own, with units of their own"),
    (&["timerlat", "osnoise"], "duration", "rtla's own, with units of its own"),
    (&["validate"], "duration", "real time on this host"),
    (&["sweep", "merge", "compare", "explain"], "csv", "one file: the result is one table"),
    (&["sweep", "merge", "compare", "explain"], "parquet", "one file: the result is one table"),
    (&["fuzz"], "out", "of findings"),
    (&["cyclictest", "rt-migrate-test"], "json", "the tools' own, in the tools' format"),
    (&["compare"], "kernel", "several kernels"),
    (&["compare"], "policy", "several policies"),
    (&["fuzz"], "policy", "of all scenarios; those of a file are not drawn"),
    (&["cyclictest"], "policy", "the tool's own: of the threads"),
    (&["fuzz"], "kernel", "of all scenarios; any by default"),
    (&["settings"], "kernel", "runs nothing; its default is no file's"),
    (&["cyclictest"], "loops", "the tool's own: 0 is endless"),
    (&["rt-migrate-test"], "loops", "the tool's own"),
    (&["osnoise"], "period", "rtla's own: of samples"),
    (&["timerlat"], "period", "rtla's own: of a timer"),
    (&["cyclictest"], "priority", "the tool's own: a number"),
    (&["calibrate"], "noise", "recorded on this host; that of the tools is simulated"),
    (&["timerlat", "osnoise"], "priority", "rtla's own: a policy too"),
    (&["validate"], "runs", "on this host, which has no seed"),
    (&["advise"], "seeds", "of the search, and as many others; fuzz has scenarios"),
    (&["repro"], "seed", "no file is read; the default is the published run's"),
    (&["fuzz"], "seed", "of scenarios, not of a run"),
    (&["cyclictest"], "threads", "the tool's own: of the test"),
    (&["repro"], "threads", "of this host"),
    (&["timerlat", "osnoise"], "trace", "rtla's own: saved at a threshold"),
];

/// Calls `each` with every option that has a long name, and the subcommand that has it: `repro
/// rt-ipi`.
fn options<'a>(command: &'a Command, path: &str, each: &mut impl FnMut(String, &'a str, &'a Arg)) {
    for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
        if let Some(name) = arg.get_long() {
            each(path.to_owned(), name, arg);
        }
    }
    // What is below `rtla` is there a second time, with the same types.
    for below in command.get_subcommands().filter(|_| command.get_name() != "rtla") {
        options(below, format!("{path} {}", below.get_name()).trim(), each);
    }
}

/// Returns what a user sees of an option, and the kind of its values.
fn looks(arg: &Arg) -> String {
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let values: Vec<&str> = arg.get_value_names().unwrap_or_default().iter().map(|name| name.as_str()).collect();
    let (parser, heading) = (arg.get_value_parser().type_id(), arg.get_help_heading());
    format!("{help:?} {values:?} {parser:?} -{:?} {:?} below {heading:?}", arg.get_short(), arg.get_action())
}

#[test]
fn an_option_of_one_name_is_the_same_in_every_subcommand() {
    let command = Cli::command();
    let mut found: BTreeMap<&str, BTreeMap<String, Vec<String>>> = BTreeMap::new();
    let mut unused: Vec<_> = EXCEPTIONS.iter().collect();
    options(&command, "", &mut |path, name, arg| {
        let first = path.split(' ').next().unwrap_or_default();
        let is_exception = |(of, option, _): &(&[&str], &str, &str)| *option == name && of.contains(&first);
        unused.retain(|exception| !is_exception(exception));
        if !EXCEPTIONS.iter().any(is_exception) {
            found.entry(name).or_default().entry(looks(arg)).or_default().push(path);
        }
    });
    let differing: Vec<String> = found
        .iter()
        .filter(|(_, forms)| forms.len() > 1)
        .map(|(name, forms)| format!("--{name}: {forms:#?}"))
        .collect();
    assert!(differing.is_empty(), "{}", differing.join("\n"));
    assert!(unused.is_empty(), "no such options: {unused:?}");
}

#[test]
fn whatever_runs_a_workload_has_the_options_of_a_run() {
    let command = Cli::command();
    for name in RUNNERS {
        let runner = command.find_subcommand(name).unwrap_or_else(|| panic!("there is `{name}`"));
        for option in ["cpus", "machine", "kernel", "set", "costs", "seed", "quiet", "duration"] {
            assert!(runner.get_arguments().any(|arg| arg.get_long() == Some(option)), "{name} --{option}");
        }
    }
    // Every subcommand that takes costs and a seed is such a one, so the list above is complete.
    let mut others = Vec::new();
    options(&command, "", &mut |path, name, _| {
        if name == "machine" && !RUNNERS.contains(&path.as_str()) {
            others.push(path);
        }
    });
    assert_eq!(others, ["export"], "a file is read for a machine, nothing is run");
}

/// Looks for defaults that derived code of a generic type would share ([`RunsArgs`]).
///
/// [`RunsArgs`]: super::RunsArgs
#[test]
fn no_options_are_generic() {
    let sources = ["run.rs", "trace.rs", "workload.rs", "mod.rs"].map(|name| {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/options").join(name);
        std::fs::read_to_string(path).expect("a source of this module")
    });
    let generic =
        sources.iter().flat_map(|text| text.lines()).find(|line| line.contains("struct") && line.contains('<'));
    assert_eq!(generic, None, "give the default with `mut_arg` instead");
    let command = Cli::command();
    let runs = |name: &str| {
        let found = command.find_subcommand(name).unwrap_or_else(|| panic!("there is `{name}`"));
        let arg = found.get_arguments().find(|arg| arg.get_long() == Some("runs")).expect("it has --runs");
        arg.get_help().map(ToString::to_string).unwrap_or_default()
    };
    let says = ["compare", "sweep", "analyse"].map(runs).map(|help| help.contains("[default: 5; of a search 41 "));
    assert_eq!(says, [true; 3], "as `RunsArgs::per_variant` and the rule have them");
    assert_eq!(zerolag::risk::Rule::default().search(), 41);
}

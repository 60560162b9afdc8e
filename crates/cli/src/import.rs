//! `zerolag import`: a workload from a trace.

use super::failure::{Failure, eprintln_lossy};
use super::options::KernelArgs;
use super::output::JsonArgs;
use super::progress::busy;
use super::{Done, code, input, output};
use std::path::PathBuf;
use zerolag::import::{Form, GroupTree, ImportError, Options, base_error, import, text, to_json};
use zerolag::manifest::Manifest;
use zerolag::model::KernelVersion;
use zerolag::workload::scenario::SCENARIO_MAX;

/// Arguments of `zerolag import`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A trace: `perf.data`, `trace.dat`, Perfetto's, the text of `perf script`, tracefs or
    /// `trace-cmd report`, or zerolag's own (.zlt); xz, gzip and zstd are unpacked
    trace: PathBuf,
    /// The file to write [default: the standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    form: FormArgs,
    #[command(flatten)]
    groups: GroupArgs,
    #[command(flatten)]
    kernel: KernelArgs,
    #[command(flatten)]
    json: JsonArgs,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum FormArg {
    Exact,
    Fitted,
}

/// The form of the workload of a trace.
#[derive(Debug, clap::Args)]
pub(crate) struct FormArgs {
    /// `exact` repeats the recorded demands in their order; `fitted` makes services with arrival
    /// processes and distributions, whose load can be set: `zerolag run FILE --set load=1.5`
    /// [default: exact; of `advise` fitted, if a goal is about requests]
    #[arg(long, value_name = "FORM")]
    form: Option<FormArg>,
    /// With `--form fitted`: `load` multiplies the requests of this process or thread, instead of
    /// those of all; may be repeated
    #[arg(long = "service", value_name = "NAME")]
    services: Vec<String>,
    /// The group whose work the scenario is about: all other tasks repeat what they did, so that
    /// work which takes longer than the recording has the same company
    #[arg(long, value_name = "/PATH")]
    work: Option<String>,
}

impl FormArgs {
    /// Returns the first given option, to refuse it.
    pub(super) fn given(&self) -> Option<&'static str> {
        let given = [
            ("--form", self.form.is_some()),
            ("--service", !self.services.is_empty()),
            ("--work", self.work.is_some()),
        ];
        given.into_iter().find(|(_, is_given)| *is_given).map(|(option, _)| option)
    }

    /// Returns the options with this form; `usual` is that of a command without `--form`.
    pub(super) fn options(&self, options: Options, usual: Form) -> Result<Options, Failure> {
        let form = match self.form {
            None if self.work.is_some() => Form::Exact,
            None => usual,
            Some(FormArg::Exact) => Form::Exact,
            Some(FormArg::Fitted) => Form::Fitted,
        };
        if form == Form::Exact && !self.services.is_empty() {
            return Err(Failure::input_help("--service is for the fitted form", "add --form fitted"));
        }
        if form == Form::Fitted && self.work.is_some() {
            return Err(Failure::input_help(
                "--work is for the exact form",
                "the fitted form goes on as long as it is run",
            ));
        }
        Ok(Options { form, services: self.services.clone(), work: self.work.clone(), ..options })
    }
}

/// The groups of the recorded machine.
#[derive(Debug, clap::Args)]
pub(crate) struct GroupArgs {
    /// The group of a process or thread of this name, and of what it forks, on the recorded
    /// machine: `redis-server=/db`; may be repeated
    #[arg(long = "group", value_name = "NAME=/PATH", value_parser = group)]
    groups: Vec<(String, String)>,
    /// The limit of a group on the recorded machine: `/db=50000 100000`; may be repeated
    #[arg(long = "limit", value_name = "/PATH=CPU.MAX", value_parser = limit)]
    limits: Vec<(String, String)>,
    /// Take the limits of groups from a Kubernetes manifest or a Compose file; a container's group
    /// is the one whose path ends in its name
    #[arg(long = "limits", value_name = "FILE.yaml")]
    limits_file: Option<PathBuf>,
    /// Take groups with their limits, weights and members from a saved cgroup directory (v1 or v2),
    /// as `zerolag record --cgroup` prints commands for; may be repeated: earlier ones count first
    #[arg(long = "cgroup-tree", value_name = "DIR")]
    trees: Vec<PathBuf>,
}

impl GroupArgs {
    /// Returns the first given option, to refuse it.
    pub(super) fn given(&self) -> Option<&'static str> {
        let given = [
            ("--group", !self.groups.is_empty()),
            ("--limit", !self.limits.is_empty()),
            ("--limits", self.limits_file.is_some()),
            ("--cgroup-tree", !self.trees.is_empty()),
        ];
        given.into_iter().find(|(_, is_given)| *is_given).map(|(option, _)| option)
    }

    /// Reads the files that are named.
    pub(super) fn options(&self, kernel: Option<KernelVersion>) -> Result<Options, Failure> {
        let mut tree = GroupTree::default();
        for path in &self.trees {
            tree.merge(GroupTree::directory(path)?);
        }
        let manifest = self.limits_file.as_deref().map(Manifest::file).transpose()?;
        Ok(Options {
            groups: self.groups.clone(),
            limits: self.limits.clone(),
            tree,
            manifest,
            kernel,
            ..Options::default()
        })
    }
}

fn group(text: &str) -> Result<(String, String), String> {
    let (name, path) = text.rsplit_once('=').ok_or("a name, `=`, and the path of its group: `web=/site`")?;
    if !path.starts_with('/') {
        return Err(format!("the path of a group begins with `/`: `{name}=/{path}`"));
    }
    Ok((name.to_owned(), path.to_owned()))
}

fn limit(text: &str) -> Result<(String, String), String> {
    let (path, max) = text.split_once('=').ok_or("a group, `=`, and what cpu.max holds: `/web=50000 100000`")?;
    if !path.starts_with('/') {
        return Err(format!("the path of a group begins with `/`: `/{path}={max}`"));
    }
    Ok((path.to_owned(), max.to_owned()))
}

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> Done {
    args.json.check()?;
    match &args.output {
        Some(path) => output::check_target(path)?,
        None if args.json.takes_stdout() => {
            let help = "give -o FILE.toml for the scenario, or --json=FILE";
            return Err(Failure::input_help("the scenario and --json would both be printed", help));
        }
        None => {}
    }
    let trace = busy("reading the trace", false, || input::trace(&args.trace))?;
    let origin = args.trace.file_name().unwrap_or_default().to_string_lossy();
    let options = args.form.options(args.groups.options(args.kernel.kernel)?, Form::Exact)?;
    let mut imported = busy("importing", false, || import(&trace, &origin, &options));
    if imported.scenario.len() > SCENARIO_MAX {
        let size = imported.scenario.len() >> 20;
        return Err(Failure::input_help(
            format!(
                "{}: the workload has {size} MB; a scenario has at most {}",
                args.trace.display(),
                SCENARIO_MAX >> 20
            ),
            "record for a shorter time",
        ));
    }
    imported.check_names(&args.trace.display().to_string(), &options)?;
    if !imported.is_kernel_known {
        let (path, kernel) = (args.trace.display(), imported.kernel.name());
        eprintln_lossy(&format!(
            "note: {path} does not name its kernel: {kernel} is a guess; --kernel VERSION states it"
        ));
    }
    for name in &imported.unused {
        eprintln_lossy(&format!("note: no group of the import is named `{name}`: its limits are left out"));
    }
    if imported.tasks.is_empty() {
        return Err(Failure::input(format!("{}: no task computes in this trace", args.trace.display())));
    }
    let base = busy("running the import", false, || base_error(&trace, &imported)).map_err(|error| match error {
        ImportError::Scenario(error) => Failure::Workload(error),
        error => Failure::input(format!("{}: {error}", args.trace.display())),
    })?;
    imported.note_base_error(&origin, &base);
    match &args.output {
        Some(path) => {
            output::write_text(path, &imported.scenario)?;
            args.json.publish(|| text(&trace, &base), || to_json(&trace, &imported, &base))?;
        }
        None => {
            args.json.publish(|| imported.scenario.clone(), || to_json(&trace, &imported, &base))?;
            eprintln_lossy(text(&trace, &base).trim_end());
        }
    }
    Ok(code::OK)
}

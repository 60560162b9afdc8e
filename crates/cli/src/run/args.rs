//! The arguments of `zerolag run`, for both hosts.

use crate::failure::Failure;
use crate::options::{RunArgs, ShowArgs, TRACE, TraceArgs, WorkloadArgs, keys_of_set};
use crate::output::{self, DrawArgs, HtmlArgs, JsonArgs, TablesArgs};
use crate::tracing::Target;
use std::io::Write;
use std::path::{Path, PathBuf};
use zerolag_tools::rtapp_log::{self, Log};
use zerolag_tools::rtapp_marks::Category;

/// Arguments of `zerolag run`.
#[derive(Debug, clap::Args)]
#[command(after_help = keys_of_set())]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) workload: WorkloadArgs,
    /// Where to run it: on the simulated machine, or with real threads on this host's kernel
    #[arg(long, value_name = "HOST", default_value = "sim")]
    pub(crate) on: On,
    #[command(flatten)]
    pub(crate) run: RunArgs,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
    #[command(flatten)]
    pub(crate) json: JsonArgs,
    #[command(flatten)]
    pub(crate) html: HtmlArgs,
    #[command(flatten)]
    pub(crate) tables: TablesArgs,
    #[command(flatten)]
    pub(crate) draw: DrawArgs,
    #[command(flatten)]
    pub(crate) trace: TraceArgs,
    /// Write rt-app's own log into this directory, a file per thread (it must exist)
    #[arg(long, value_name = "DIR", help_heading = TRACE)]
    pub(crate) rtapp_log: Option<PathBuf>,
    /// Write rt-app's marks into the text of the trace: all, or a list of main, task, loop, event,
    /// stats
    #[arg(long, value_name = "CATEGORIES", help_heading = TRACE, requires = "trace", num_args = 0..=1, require_equals = true,
        value_delimiter = ',', default_missing_value = "main,task,loop,event,stats", value_parser = category)]
    pub(crate) rtapp_marks: Vec<Category>,
    /// Keep the scheduler's own numbers at each decision (lag, virtual deadlines, quota, budgets):
    /// rows below the timeline of --html with the reason of each decision, counters in a trace for
    /// Perfetto
    #[arg(long)]
    pub(crate) state: bool,
    /// Do not check the run against the scheduling invariants
    #[arg(long)]
    pub(crate) no_check: bool,
}

/// Where a workload runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum On {
    /// On the simulated machine
    Sim,
    /// On this host's kernel
    Linux,
}

impl Args {
    /// Returns the trace to write, and refuses early every output that cannot be written.
    pub(crate) fn outputs(&self) -> Result<Option<Target<'_>>, Failure> {
        let trace = self.trace.target()?;
        let trace = trace.map(|target| target.with_marks(&self.rtapp_marks)).transpose()?;
        self.show.check()?;
        self.json.check()?;
        self.html.check()?;
        self.tables.check()?;
        if self.state && self.on == On::Linux {
            let help = "leave out --state, or --on linux";
            return Err(Failure::input_help(
                "--state: this host's kernel does not show these numbers".to_owned(),
                help,
            ));
        }
        let is_shown = self.html.is_wanted() || trace.is_some_and(Target::shows_state);
        if self.state && !is_shown {
            let help = "add --html FILE, or --trace FILE.pftrace";
            return Err(Failure::input_help("--state: no output of this run shows these numbers".to_owned(), help));
        }
        if let Some(dir) = &self.rtapp_log {
            output::check_target(&dir.join("log"))?;
        }
        Ok(trace)
    }
}

/// Reads a category of rt-app's marks.
fn category(text: &str) -> Result<Category, String> {
    let known = || Category::ALL.map(Category::name).join(", ");
    let found = Category::ALL.into_iter().find(|category| category.name() == text.trim());
    found.ok_or_else(|| format!("known are {}", known()))
}

/// Writes rt-app's log, a file per thread.
pub(crate) fn write_log(dir: &Path, log: &Log) -> Result<(), Failure> {
    for (name, rows) in log.threads() {
        // A task's name can contain characters that a file's name cannot.
        let name: String = name.chars().map(|c| if c == '/' || c.is_control() { '_' } else { c }).collect();
        output::write_file(&dir.join(format!("rt-app-{name}.log")), |out| {
            writeln!(out, "{}", rtapp_log::HEAD)?;
            rows.iter().try_for_each(|row| writeln!(out, "{row}"))
        })?;
    }
    Ok(())
}

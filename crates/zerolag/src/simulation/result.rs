//! [`RunResult`]: what a run gives.

use super::figures::{PolicyExit, Refusal, RunCounts, RunEnd, RunFigures, ShownFigure};
use super::plan::Report;
use super::verdicts;
use crate::document;
use crate::error::{Error, ValueError};
use crate::goals::{self, Verdict};
use crate::limit::Limit;
use crate::origin::OriginData;
use std::fmt::{self, Write as _};
use zerolag_model::Instant;
use zerolag_report::frame::rows::Kept;
use zerolag_report::frame::{self, Bucket, Frame, Rows};
use zerolag_report::{Summary, text};
use zerolag_sim::End;
use zerolag_workload::origin::Origin;

/// The result of a run: figures, tables, goals, and the verdicts of the monitors.
///
/// Figures are in [`summary`](Self::summary), typed; [`table`](Self::table) has the same as named
/// columns, [`to_json`](Self::to_json) as JSON, and `Display` as text.
///
/// ```
/// use zerolag::report::frame::rows::Kept;
/// use zerolag::{Simulation, Workload};
///
/// let workload = Workload::toml(
///     "[machine]\ncpus = 1\n[task.a]\ninstances = 2\nsteps = [{ run = \"10ms\" }]\nloop = 3\n",
/// );
/// let result = Simulation::new(workload).keep(Kept::ALL).run()?;
/// let tasks = result.table("tasks").unwrap();
/// assert_eq!(tasks.column("name").unwrap().text(1), Some("a-1"));
/// let run: u64 = (0..2).filter_map(|row| tasks.column("run_ns").unwrap().u64(row)).sum();
/// assert!(run >= 60_000_000);
/// assert!(result.table("switches").unwrap().rows() > 2);
/// # Ok::<(), zerolag::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct RunResult {
    report: Report,
    goals: Vec<Verdict>,
    limits: Vec<Limit>,
    rows: Rows,
    kept: Kept,
    origin: Option<Origin>,
    shown: Vec<ShownFigure>,
    /// What was refused, with its places, in the order of [`Outcome::refusals`].
    ///
    /// [`Outcome::refusals`]: zerolag_sim::Outcome::refusals
    refusals: Vec<String>,
}

impl RunResult {
    /// The tables of every run, in the order of documentation.
    pub const TABLES: [&'static str; 8] =
        ["tasks", "cpus", "groups", "services", "worst_waits", "histograms", "goals", "checks"];
    /// The tables of a run that kept rows ([`Kept`]).
    pub const ROWS: [&'static str; 3] = ["switches", "waits", "requests"];

    pub(super) const fn new(report: Report, goals: Vec<Verdict>, limits: Vec<Limit>, rows: Rows, kept: Kept) -> Self {
        Self { report, goals, limits, rows, kept, origin: None, shown: Vec::new(), refusals: Vec::new() }
    }

    /// Returns it with the texts of what was refused.
    pub(super) fn placed(self, refusals: Vec<String>) -> Self {
        Self { refusals, ..self }
    }

    /// Returns why the run ended, with the place in the workload of what was refused.
    #[must_use]
    pub fn why(&self) -> String {
        match (&self.report.outcome.why, self.refusals.last()) {
            (End::Failed(_), Some(text)) => text.clone(),
            (why, _) => why.to_string(),
        }
    }

    /// Returns what was refused while the run went on: instants and texts.
    fn refused_at(&self) -> impl Iterator<Item = (Instant, &str)> {
        let first = self.report.outcome.refused.first.iter();
        first.zip(&self.refusals).map(|((at, _), text)| (*at, &**text))
    }

    /// Returns it with the recording that its workload was imported from.
    pub(super) fn imported_from(self, origin: Option<Origin>) -> Self {
        Self { origin, ..self }
    }

    /// Returns it with more figures in its text and its JSON, by their names as in goals: any
    /// percentile of a distribution is one.
    ///
    /// # Errors
    /// A name that is no figure, with a valid form.
    pub fn showing(mut self, names: &[String]) -> Result<Self, Error> {
        self.shown = shown(names, &self.report.summary)?;
        Ok(self)
    }

    /// Returns the recording that the workload was imported from, if it was: a difference to
    /// another run that is smaller than its base error says nothing.
    #[must_use]
    pub const fn origin(&self) -> Option<&Origin> {
        self.origin.as_ref()
    }

    /// Returns the figures.
    #[must_use]
    pub const fn summary(&self) -> &Summary {
        &self.report.summary
    }

    /// Returns how the run ended, with its figures and the monitors' verdicts.
    #[must_use]
    pub const fn report(&self) -> &Report {
        &self.report
    }

    /// Returns the result of each goal of the workload.
    #[must_use]
    pub fn goals(&self) -> &[Verdict] {
        &self.goals
    }

    /// Returns the limits and weights of groups, as the run began.
    #[must_use]
    pub fn limits(&self) -> &[Limit] {
        &self.limits
    }

    /// Returns the distributions behind the quantiles.
    #[must_use]
    pub fn histograms(&self) -> &[Bucket] {
        &self.report.histograms
    }

    /// Returns the rows that were kept.
    #[must_use]
    pub const fn rows(&self) -> &Rows {
        &self.rows
    }

    /// Returns whether the caller ended the run.
    #[must_use]
    pub const fn is_interrupted(&self) -> bool {
        matches!(self.report.outcome.why, End::Interrupted)
    }

    /// Returns whether the run ended by itself, every goal was met, no rule of scheduling was
    /// broken, except by faults that its kernel is known for, and no fault unloaded the scheduler
    /// of `sched_ext`.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        let holds = |checks: &zerolag_check::Report| checks.is_clean() || checks.faults().is_some();
        let report = &self.report;
        let stays = !report.outcome.policy_exit.as_ref().is_some_and(|exit| exit.kind.is_error());
        stays
            && report.outcome.why.is_ok()
            && self.goals.iter().all(Verdict::is_met)
            && report.checks.as_ref().is_none_or(holds)
    }

    /// Returns a table by its name: one of [`TABLES`](Self::TABLES) or, if they were kept, of
    /// [`ROWS`](Self::ROWS).
    #[must_use]
    pub fn table(&self, name: &str) -> Option<Frame> {
        let summary = &self.report.summary;
        Some(match name {
            "tasks" => frame::summary::tasks(summary),
            "cpus" => frame::summary::cpus(summary),
            "groups" => frame::summary::groups(summary),
            "services" => frame::summary::services(summary),
            "worst_waits" => frame::summary::worst_waits(summary),
            "histograms" => frame::buckets::frame(&self.report.histograms),
            "goals" => goals::frame(&self.goals),
            // Of a run without monitors: a table without rows.
            "checks" => verdicts::frame(self.report.checks.as_ref().unwrap_or(&zerolag_check::Report::default())),
            "switches" if self.kept.switches => self.rows.switches_frame(),
            "waits" if self.kept.waits => self.rows.waits_frame(),
            "requests" if self.kept.requests => self.rows.requests_frame(),
            _ => return None,
        })
    }

    /// Returns the result as JSON: the figures, how the run ended, and the monitors' verdicts. The
    /// form is that of `zerolag run --json`, with a line break at the end.
    ///
    /// # Panics
    /// Never: every figure has a form in JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        let report = &self.report;
        let (stats, refused) = (&report.outcome.stats, &report.outcome.refused);
        let counts = RunCounts {
            wakeups: stats.wakeups,
            completions: stats.completions,
            ticks: stats.ticks,
            ipis: stats.ipis,
            lock_waits: stats.lock_waits,
        };
        let ended = RunEnd {
            at_ns: report.outcome.end.as_nanos(),
            why: end_name(&report.outcome.why),
            says: self.why(),
            policy_exit: report.outcome.policy_exit.as_deref().map(PolicyExit::from),
            refused: Some(refused.count).filter(|count| *count > 0),
            refusals: self
                .refused_at()
                .map(|(at, says)| Refusal { at_ns: at.as_nanos(), says: says.to_owned() })
                .collect(),
            counts: Some(counts),
        };
        let figures = RunFigures {
            limits: Some(&self.limits),
            shown: self.shown.clone(),
            goals: (!self.goals.is_empty()).then(|| goals::of_run(&self.goals)),
            origin: self.origin.as_ref().map(OriginData::from),
            ..RunFigures::of(&report.summary)
        };
        document::text(&figures.ended(ended, report.checks.as_ref()))
    }

    /// Returns the headline of the result, how the run ended, and the verdicts of the monitors:
    /// the text without its tables, but for the figures that were asked for.
    #[must_use]
    pub fn headline(&self) -> String {
        let tables = text::render(&self.report.summary, text::Limits::default());
        let head = tables.find("\n\n").map_or(&*tables, |end| &tables[..=end]);
        let shown = ShownFigure::text(&self.shown);
        let gap = if shown.is_empty() { "" } else { "\n" };
        format!("{head}{shown}{gap}{}", self.ending())
    }

    /// Returns what is said of the limits of groups, in lines.
    pub(crate) fn limit_lines(&self) -> Vec<String> {
        let mut lines: Vec<String> =
            self.limits.iter().take(LIMITS_SHOWN).map(|limit| format!("limit of {limit}")).collect();
        if let Some(more) = self.limits.len().checked_sub(LIMITS_SHOWN).filter(|more| *more > 0) {
            lines.push(format!("({more} more groups with a limit)"));
        }
        lines
    }

    /// Returns how the run ended, in a line.
    #[must_use]
    pub fn ending_line(&self) -> String {
        let (outcome, stats) = (&self.report.outcome, &self.report.outcome.stats);
        let why = self.why();
        let why = why.lines().next().unwrap_or_default().trim_end_matches(':');
        format!(
            "ended at {}: {why}; {} wakeups, {} computations, {} ticks, {} IPIs, {} waits for a run-queue lock",
            outcome.end, stats.wakeups, stats.completions, stats.ticks, stats.ipis, stats.lock_waits
        )
    }

    /// Returns what the kernel refused, in lines.
    pub(crate) fn refused(&self) -> String {
        let refused = &self.report.outcome.refused;
        let mut out = String::new();
        for (at, text) in self.refused_at().take(REFUSALS_SHOWN) {
            writeln!(out, "refused at {at}: {text}").expect("invariant: writing to a String cannot fail");
        }
        if let Some(more) = refused.count.checked_sub(REFUSALS_SHOWN as u64).filter(|more| *more > 0) {
            writeln!(out, "({more} more were refused)").expect("invariant: writing to a String cannot fail");
        }
        out
    }

    /// Returns how the run ended, and the monitors' verdicts.
    fn ending(&self) -> String {
        let mut out = self.limit_lines().into_iter().map(|line| line + "\n").collect::<String>();
        out.push_str(&(self.ending_line() + "\n"));
        if let Some(exit) = &self.report.outcome.policy_exit {
            out.push_str(&format!("{exit}\n  {}; the run went on with fair tasks\n", exit.place()));
        }
        out.push_str(&self.refused());
        if let Some(checks) = &self.report.checks {
            out.push_str(&verdicts::line(checks));
            if !checks.is_clean() {
                out.push_str(&verdicts::text(checks));
            }
        }
        if let Some(origin) = &self.origin {
            out.push_str(&(origin.to_string() + "\n"));
        }
        out
    }
}

/// Tables, how the run ended, and the monitors' verdicts.
impl fmt::Display for RunResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tables = text::render(&self.report.summary, text::Limits::default());
        write!(f, "{tables}{}\n{}", ShownFigure::text(&self.shown), self.ending())
    }
}

/// Returns figures of a run by their names.
///
/// # Errors
/// Every name that is no figure.
pub fn shown(names: &[String], summary: &Summary) -> Result<Vec<ShownFigure>, Error> {
    let (mut found, mut wrong) = (Vec::new(), Vec::new());
    for name in names.iter().map(|name| name.trim()) {
        match ShownFigure::of(name, summary) {
            Ok(figure) => found.push(figure),
            Err(help) => wrong.push(ValueError::new("", name, format!("there is no figure `{name}`")).help(help)),
        }
    }
    if wrong.is_empty() { Ok(found) } else { Err(Error::Values(wrong)) }
}

/// The number of limits in the text of a result.
const LIMITS_SHOWN: usize = 32;
/// The number of refused calls in the text of a result.
const REFUSALS_SHOWN: usize = 10;

/// Returns the word for how a run ended, in JSON.
const fn end_name(end: &End) -> &'static str {
    match end {
        End::Duration => "duration",
        End::Finished => "finished",
        End::Interrupted => "interrupted",
        End::Deadlock(_) => "deadlock",
        End::Stuck(_) => "stuck",
        End::NoProgress(_) => "no_progress",
        End::NoTime { .. } => "no_time",
        End::TooManyForks(_) => "too_many_forks",
        End::Lockup { .. } => "lockup",
        End::NotHeld { .. } => "not_held",
        End::Failed(_) => "failed",
    }
}

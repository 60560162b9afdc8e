//! Reports as one HTML file: what `--html` writes.
//!
//! ```text
//! a run    ─► Picture (a sink) ─► Pictured ─┐
//! a trace  ─► Pictured::of ─────────────────┼─► run, trace, compare, sweep, plots ─► text of the file
//! figures, tables, plots ───────────────────┘
//! ```
//!
//! | module | gives |
//! |---|---|
//! | `picture` | [`Picture`], [`Portrait`]: follow a run and keep what a page shows of it |
//! | `served` | [`Served`]: the page of a run that a server gives, with its parts |
//! | `run` | [`of_run`], [`of_watched_run`], [`of_trace`], [`of_tool`], [`of_explanation`]: the page of one run |
//! | `compared` | [`of_comparison`]: the page of a comparison |
//! | `several` | [`of_grid`], [`of_advice`], [`of_figures`]: the page of several runs |
//! | `shown` | [`Shown`]: figures for a page |
//! | `tables` | the figures as tables |
//!
//! A page contains everything that the text output does, so that it can be sent instead of it.

mod compared;
mod picture;
mod run;
mod served;
mod several;
mod shown;
mod tables;

pub use compared::of_comparison;
pub use picture::{Picture, Pictured, Portrait};
pub use run::{of_explanation, of_run, of_tool, of_trace, of_watched_run};
pub use served::Served;
pub use several::{of_advice, of_figures, of_grid};
pub use shown::Shown;

use crate::goals::Verdict;
use zerolag_report::figure::Quantity;

/// What a page says about where it comes from.
#[derive(Clone, Debug)]
pub struct About {
    /// The workload or the trace: the heading.
    pub title: String,
    /// The command line.
    pub command: String,
}

impl About {
    /// Returns the call that searches for limits, bursts and workers with which the first missed
    /// goal on requests is met, in the words of the run that it was missed in.
    #[must_use]
    pub fn next_step(&self, verdicts: &[Verdict]) -> Option<String> {
        let of_requests = |verdict: &&Verdict| verdict.goal.figure.quantity == Quantity::RequestLatency;
        let missed = verdicts.iter().filter(of_requests).find(|verdict| !verdict.is_met())?;
        let goal = &missed.goal.text;
        if self.command.starts_with("zerolag.") {
            return Some(format!("zerolag.advise(workload, {goal:?}), with the arguments of this run"));
        }
        if self.command.starts_with("playground") {
            // The program has no scheduler that is written in a page.
            let is_own = self.command.contains(r#"["policy","own"]"#);
            return (!is_own)
                .then(|| format!("zerolag advise scenario.toml --goal '{goal}', with the scenario of this page"));
        }
        // Without them the search would be about another machine, or another limit.
        let is_of_run = |word: &str| word.starts_with('-') && word != "--html";
        let options = if self.command.split(' ').any(is_of_run) { ", with the options of this run" } else { "" };
        Some(format!("zerolag advise {} --goal '{goal}'{options}", self.title))
    }
}

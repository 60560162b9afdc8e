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
//! | `run` | [`of_run`], [`of_trace`], [`of_tool`], [`of_explanation`]: the page of one run |
//! | `several` | [`of_comparison`], [`of_grid`], [`of_advice`], [`of_figures`]: the page of several runs |
//! | `shown` | [`Shown`]: figures for a page |
//! | `tables` | the figures as tables |
//!
//! A page contains everything that the text output does, so that it can be sent instead of it.

mod picture;
mod run;
mod served;
mod several;
mod shown;
mod tables;

pub use picture::{Picture, Pictured, Portrait};
pub use run::{of_explanation, of_run, of_tool, of_trace};
pub use served::Served;
pub use several::{of_advice, of_comparison, of_figures, of_grid};
pub use shown::Shown;

/// What a page says about where it comes from.
#[derive(Clone, Debug)]
pub struct About {
    /// The workload or the trace: the heading.
    pub title: String,
    /// The command line.
    pub command: String,
}

//! [`Shown`]: figures for a page, without the run that they are of.

use zerolag_report::distribution::Counts;
use zerolag_report::plot::Plot;
use zerolag_report::table::Titled;

/// The figures of a search, of a tool, of an experiment.
#[derive(Clone, Debug, Default)]
pub struct Shown {
    /// What was found, in one sentence.
    pub answer: String,
    /// The title of the distributions.
    pub title: String,
    /// Distributions in nanoseconds, each with its name; empty if there are none.
    pub distributions: Vec<(String, Counts)>,
    /// Further plots.
    pub plots: Vec<Plot>,
    /// How the plots are to be read, in one sentence; empty if they say it.
    pub note: String,
    /// Tables.
    pub tables: Vec<Titled>,
}

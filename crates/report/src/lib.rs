//! Metrics, tables, timelines and plots over traces.
//!
//! | module | gives |
//! |---|---|
//! | [`metrics`] | [`Metrics`]: follows records, stored or live, and ends in a [`Summary`] |
//! | [`summary`] | [`Summary`]: the figures, per task, per CPU, and the worst waits with the tasks that ran meanwhile |
//! | [`figure`] | how each figure of the table in `zerolag-model` is measured and written |
//! | [`text`] | the figures as tables of at most 100 columns |
//! | [`json`] | the figures as JSON of a versioned schema |
//! | [`frame`] | the figures, and a row per event, as tables of typed columns |
//! | [`timeline`] | which tasks ran and waited, a character per time step; and the exact list of switches |
//! | [`events`](mod@events) | events as text, one line each |
//! | [`decision`] | why a CPU picked what it runs, in a sentence |
//! | [`explain`](mod@explain) | why tasks waited: chains of causes that add up to each wait |
//! | [`plot`] | plots as SVG, and in a terminal |
//! | [`quantiles`] | any percentile of a distribution |
//! | [`distribution`] | the distribution of a figure per owner |
//! | [`load`] | how busy each CPU was over time, in bounded memory |
//! | [`human`] | durations of three significant digits |
//!
//! Reports use records only and never see the scheduler, so a kernel's trace gets the same report
//! as a simulation.
#![warn(missing_docs)]

pub mod decision;
pub mod distribution;
pub mod events;
pub mod explain;
pub mod figure;
pub mod frame;
mod gaps;
mod groups;
pub mod human;
pub mod json;
pub mod load;
pub mod metrics;
pub mod plot;
mod pressure;
pub mod quantiles;
pub mod requests;
#[cfg(test)]
mod sample;
mod services;
mod sharing;
pub mod summary;
pub mod table;
pub mod text;
pub mod timeline;
pub mod tool;
mod waits;
mod watch;

pub use metrics::Metrics;
pub use summary::{
    Blocker, CpuSummary, GroupSummary, Latency, PressureLine, PressureSummary, Relation, RequestTimes, ServiceSummary,
    Summary, TaskSummary, Wait,
};

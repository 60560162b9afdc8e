//! [`Picture`]: follows a run and keeps what a page shows of it.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::ops::ControlFlow;
use std::path::Path;
use zerolag_html::Recorder;
use zerolag_html::page::Run;
use zerolag_html::timeline::Timeline;
use zerolag_model::state::StateHistory;
use zerolag_model::{Instant, Record, TraceEvent};
use zerolag_report::Summary;
use zerolag_report::explain::{Explainer, Explanation, Options};
use zerolag_report::frame::Bucket;
use zerolag_report::metrics::Metrics;
use zerolag_report::requests::RecordedRequests;
use zerolag_sim::Sink;
use zerolag_trace::{Meta, ReadError, Trace, TraceReader, open, zlt};
use zerolag_workload::goal::Goal;

use crate::error::Error;
use crate::explanation::bounds;
use crate::import::recorded_requests;
use crate::simulation::{Checks, Histograms, Observe, Plan};

/// How many of the longest waits a page explains.
pub(super) const WAITS: usize = 20;

/// Follows records, and keeps slices and explanations.
#[derive(Debug)]
pub struct Picture {
    recorder: Recorder,
    explainer: Explainer,
}

/// What a page shows of a run.
#[derive(Clone, Debug)]
pub struct Pictured {
    /// Slices, waits and marks.
    pub timeline: Timeline,
    /// The longest waits.
    pub waits: Explanation,
    /// The figures.
    pub summary: Summary,
    /// The distributions behind them.
    pub buckets: Vec<Bucket>,
    /// Of a recording with messages: its requests.
    pub requests: Vec<RecordedRequests>,
    /// The scheduler's own numbers, if they were kept.
    pub state: Option<StateHistory>,
}

impl Sink for Picture {
    fn record(&mut self, record: &Record) {
        self.recorder.observe(record);
        self.explainer.observe(record);
        if let TraceEvent::Switch { next: Some(next), .. } = &record.event
            && let Some(kind) = self.explainer.last_wait(*next)
        {
            self.recorder.explain_wait(record.cpu, kind);
        }
    }
}

impl Picture {
    /// Starts before the first record of a run with these goals.
    #[must_use]
    pub fn new(meta: &Meta, goals: &[Goal]) -> Self {
        let options = Options { worst: WAITS, bounds: bounds(goals), ..Options::default() };
        Self { recorder: Recorder::new(meta), explainer: Explainer::new(meta, options) }
    }

    /// Ends the run, of which others kept the figures.
    #[must_use]
    pub fn finish(self, end: Instant, summary: Summary, buckets: Vec<Bucket>) -> Pictured {
        Pictured {
            timeline: self.recorder.finish(end),
            waits: self.explainer.finish(end),
            summary,
            buckets,
            requests: Vec::new(),
            state: None,
        }
    }
}

/// A [`Picture`] that also keeps the figures, for hosts of a machine that keep none.
#[derive(Debug)]
pub struct Portrait {
    picture: Picture,
    metrics: Metrics,
}

impl Sink for Portrait {
    fn record(&mut self, record: &Record) {
        self.picture.record(record);
        self.metrics.observe(record);
    }
}

impl Portrait {
    /// Starts before the first record.
    #[must_use]
    pub fn new(meta: &Meta) -> Self {
        Self { picture: Picture::new(meta, &[]), metrics: Metrics::new(meta) }
    }

    /// Ends the run.
    #[must_use]
    pub fn finish(self, end: Instant) -> Pictured {
        let (summary, buckets) = self.metrics.finish_with_buckets(end);
        self.picture.finish(end, summary, buckets)
    }
}

impl Pictured {
    /// Pictures a stored trace.
    #[must_use]
    pub fn of(trace: &Trace) -> Self {
        let mut portrait = Portrait::new(&trace.meta);
        trace.records.iter().for_each(|record| portrait.record(record));
        Self { requests: recorded_requests(trace), ..portrait.finish(trace.meta.end) }
    }

    /// Pictures a trace file of any known format. Of zerolag's own no record is kept, so the length
    /// of the file does not matter; others are read whole.
    ///
    /// # Errors
    /// The file cannot be read, its format is foreign or unknown, or the trace is damaged, cut off
    /// or malformed.
    pub fn of_file(path: &Path) -> Result<Self, ReadError> {
        let mut file = BufReader::with_capacity(1 << 16, File::open(path)?);
        if !file.fill_buf()?.starts_with(&zlt::MAGIC) {
            return Ok(Self::of(&open(path)?));
        }
        let mut reader = TraceReader::new(file)?;
        let mut portrait = Portrait::new(reader.meta());
        for record in &mut reader {
            portrait.record(&record?);
        }
        Ok(portrait.finish(reader.meta().end))
    }

    /// Returns the picture with the scheduler's own numbers as tracks below the timeline.
    #[must_use]
    pub fn with_state(self, state: Option<StateHistory>) -> Self {
        Self { state, ..self }
    }

    /// Runs a plan and pictures it.
    ///
    /// # Errors
    /// The program does not fit the machine.
    pub fn of_plan(plan: &Plan) -> Result<Self, Error> {
        let mut picture = Picture::new(&plan.meta(), &plan.goals);
        let observe = Observe { checks: Checks::Off, worst_waits: 0, histograms: Histograms::On, ..Observe::default() };
        let report = plan.run_into(observe, &mut picture, |_, _| ControlFlow::Continue(()))?;
        Ok(picture.finish(report.outcome.end, report.summary, report.histograms))
    }

    pub(super) const fn run(&self, name: String) -> Run<'_> {
        Run { name, timeline: &self.timeline, waits: &self.waits, state: self.state.as_ref() }
    }
}

//! [`Monitor`]: what a rule is, and what it is told.

use crate::report::Findings;
use zerolag_model::{Duration, Instant, Record, Settings};
use zerolag_trace::{Meta, Replay};

/// One rule, held against a trace record by record.
///
/// [`Monitor::before`] sees a record and the state of affairs before it, [`Monitor::after`] the state that it led to.
pub trait Monitor {
    /// Judges a record against what was true before it.
    fn before(&mut self, before: &Replay, record: &Record, found: &mut Findings);

    /// Follows what the record changed. Most rules have nothing to follow.
    fn after(&mut self, after: &Replay, record: &Record) {
        let _ = (after, record);
    }

    /// Judges what is left when the trace ends.
    fn finish(&mut self, last: &Replay, end: Instant, found: &mut Findings) -> Outcome {
        let _ = (last, end, found);
        Outcome::Judged
    }
}

/// Whether a trace had what a rule needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It had: what was found counts.
    Judged,
    /// It had not, for this reason: what was found does not count.
    NothingToJudge(&'static str),
}

/// What may be set.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// How many violations are kept per rule; all are counted.
    pub keep: usize,
    /// How long nothing must have happened before real-time tasks must be where they belong. Default: nothing at all under
    /// the cost profile `zero`, 50 us otherwise, 1 ms for recorded kernels, whose handlers are not seen.
    pub settle: Option<Duration>,
    /// How long a CPU may take to obey a request to reschedule, or spin for a run-queue lock, before it counts as quiet
    /// nevertheless.
    pub grace: Duration,
    /// How long a CPU may be idle while a task waits that may run there.
    pub idle_bound: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self { keep: 20, settle: None, grace: Duration::from_millis(1), idle_bound: Duration::from_millis(100) }
    }
}

/// What a monitor is told when it begins.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// What the trace says about itself.
    pub meta: &'a Meta,
    /// What may be set.
    pub options: &'a Options,
}

impl Context<'_> {
    /// Returns how long nothing must have happened; see [`Options::settle`].
    #[must_use]
    pub fn settle(&self) -> Duration {
        let by_source = || match (self.meta.source.is_complete(), self.meta.costs.as_str()) {
            (true, "zero" | "") => Duration::ZERO,
            (true, _) => Duration::from_micros(50),
            (false, _) => Duration::from_millis(1),
        };
        self.options.settle.unwrap_or_else(by_source)
    }

    /// Returns the settings of the run; what the trace does not say is as in [`Settings::default`].
    #[must_use]
    pub fn settings(&self) -> Settings {
        let mut settings = Settings::default();
        for (key, value) in &self.meta.settings {
            // A key or value of another version is as good as unsaid.
            let _ = settings.set(key, value);
        }
        settings
    }

    /// Returns whether fair tasks, or nothing, may run at any time although real-time tasks wait: RT throttling and deadline
    /// servers do that. A recorded kernel has the one or the other unless its settings deny both, and does not say when they
    /// act; a complete trace says so, per CPU ([`CpuView::has_fair_floor`](zerolag_trace::replay::CpuView::has_fair_floor)).
    #[must_use]
    pub fn has_fair_floor(&self) -> bool {
        let is_on = |key: &&str| self.meta.setting(key).is_none_or(|value| value != "off");
        !self.meta.source.is_complete() && ["fair_server", "rt_throttling"].iter().any(is_on)
    }
}

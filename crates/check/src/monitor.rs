//! [`Monitor`]: the interface of a rule, and the context that it is given.

use crate::report::Findings;
use zerolag_model::{Duration, Instant, Record, Settings, Topology};
use zerolag_trace::{Machine, Meta, Replay};

/// One rule, checked against a trace record by record.
///
/// [`Monitor::before`] sees a record and the state before it, [`Monitor::after`] the state after
/// it.
pub trait Monitor {
    /// Judges a record against the state before it.
    fn before(&mut self, before: &Replay, record: &Record, found: &mut Findings);

    /// Follows the change that the record made. Most rules have nothing to follow.
    fn after(&mut self, after: &Replay, record: &Record) {
        let _ = (after, record);
    }

    /// Judges the remaining state when the trace ends.
    fn finish(&mut self, last: &Replay, end: Instant, found: &mut Findings) -> Outcome {
        let _ = (last, end, found);
        Outcome::Judged
    }
}

/// Whether a trace contained the data that a rule needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It did: the findings count.
    Judged,
    /// It did not, for this reason: the findings do not count.
    NothingToJudge(&'static str),
}

/// The options of a check.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// The number of violations kept per rule; all are counted.
    pub keep: usize,
    /// How long the machine must be quiet before real-time tasks must be where they belong.
    /// Default: 0 under the cost profile `zero`, 50 us otherwise, or as long as a path of the
    /// kernel takes ([`LONGEST_PATH`]), and 1 ms for recorded kernels, whose handlers are not
    /// in the trace.
    pub settle: Option<Duration>,
    /// How long a CPU may take to obey a request to reschedule, or spin for a run-queue lock,
    /// before it counts as quiet nevertheless; longer where a path of the kernel takes longer.
    pub grace: Duration,
    /// How long a CPU may be idle while a task waits that may run there.
    pub idle_bound: Duration,
    /// How much later than a switch its event can come (`pick` of a cost profile). Default: 0 under
    /// the named profiles, 10 us under one of a file, unless the trace says it ([`LATE_SWITCH`]).
    pub late_switch: Option<Duration>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            keep: 20,
            settle: None,
            grace: Duration::from_millis(1),
            idle_bound: Duration::from_millis(100),
            late_switch: None,
        }
    }
}

/// The key in [`Meta::settings`] of how much later than a switch its event can come, in
/// nanoseconds. It is no setting, but what monitors look at: the costs of a run are not in its
/// trace.
pub const LATE_SWITCH: &str = "late_switch";

/// The key of how long a path of the kernel can take without an event, in nanoseconds: the sum of
/// its operations, of the exit from the deepest idle state, and of its turns at words that all CPUs
/// write. A trace has it if that is longer than the usual [`SETTLE`].
pub const LONGEST_PATH: &str = "longest_path";

/// How long a simulated machine must be quiet, unless its costs say more.
pub const SETTLE: Duration = Duration::from_micros(50);

/// Returns how much later than a switch its event can come in a trace that does not say it.
#[must_use]
pub fn assumed_late_switch(costs: &str) -> Duration {
    match costs {
        "" | "zero" | "default" | "bpf" | "user" | "xeon-e7-4s" | "xeon-e7-8s" | "xeon-e7-8s-contended" => {
            Duration::ZERO
        }
        _ => Duration::from_micros(10),
    }
}

/// What a monitor is told when it starts.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The trace's description of itself.
    pub meta: &'a Meta,
    /// The options of the check.
    pub options: &'a Options,
    /// The settings of the run, as [`Meta::settings`] gives them. To read them takes a hundred
    /// times as long as to judge a record, so all rules share them.
    pub settings: &'a Settings,
}

impl Context<'_> {
    /// Returns how long the machine must be quiet; see [`Options::settle`].
    #[must_use]
    pub fn settle(&self) -> Duration {
        let by_source = || match (self.meta.source.is_complete(), self.meta.costs.as_str()) {
            (true, "zero" | "") => Duration::ZERO,
            (true, _) => SETTLE.max(self.longest_path()),
            (false, _) => Duration::from_millis(1),
        };
        self.options.settle.unwrap_or_else(by_source)
    }

    /// Returns how long a CPU may take to obey; see [`Options::grace`].
    #[must_use]
    pub fn grace(&self) -> Duration {
        self.options.grace.max(self.longest_path())
    }

    /// Returns how long a path of the kernel can take; zero if that is usual ([`LONGEST_PATH`]).
    pub(crate) fn longest_path(&self) -> Duration {
        let said = self.meta.setting(LONGEST_PATH).and_then(|nanos| nanos.parse().ok());
        Duration::from_nanos(said.unwrap_or_default())
    }

    /// Returns the part of the time between two switches that is charged to no task, if an
    /// interrupt begins or ends it: about 1 us with the default costs.
    #[must_use]
    pub fn path(&self) -> Duration {
        let is_free = matches!(self.meta.costs.as_str(), "zero" | "");
        if is_free { Duration::ZERO } else { Duration::from_micros(1) }
    }

    /// Returns how much later than a switch its event can come; see [`Options::late_switch`].
    #[must_use]
    pub fn late_switch(&self) -> Duration {
        let recorded = || Some(Duration::from_nanos(self.meta.setting(LATE_SWITCH)?.parse().ok()?));
        self.options.late_switch.or_else(recorded).unwrap_or_else(|| assumed_late_switch(&self.meta.costs))
    }

    /// Returns the layout of the machine; `None` if the trace does not describe it.
    #[must_use]
    pub const fn topology(&self) -> Option<&Topology> {
        match &self.meta.machine {
            Machine::Known(topology) => Some(topology),
            Machine::Cpus(_) => None,
        }
    }

    /// Returns the settings of the run. A setting that the trace does not contain has the value of
    /// the trace's kernel, or of [`Settings::default`] if that is not known.
    #[must_use]
    pub const fn settings(&self) -> &Settings {
        self.settings
    }

    /// Returns whether fair tasks, or none, may run at any time although real-time tasks wait. RT
    /// throttling and deadline servers do that. A recorded kernel has one of the two unless its
    /// settings deny both, and its trace does not show when they act. A complete trace shows it,
    /// per CPU ([`CpuView::has_fair_floor`](zerolag_trace::replay::CpuView::has_fair_floor)).
    #[must_use]
    pub fn has_fair_floor(&self) -> bool {
        let is_on = |key: &&str| self.meta.setting(key).is_none_or(|value| value != "off");
        !self.meta.source.is_complete() && ["fair_server", "rt_throttling"].iter().any(is_on)
    }
}

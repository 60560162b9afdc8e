//! The JSON of a run: figures, limits, how it ended, and the monitors' verdicts.

use super::verdicts::{self, MonitorVerdict};
use crate::document::Document;
use crate::goals::{self, GoalOfRun};
use crate::limit::Limit;
use crate::origin::OriginData;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use zerolag_policy::ExitInfo;
use zerolag_report::Summary;
use zerolag_report::figure::{Amount, Figure};
use zerolag_report::json::{Figures, SCHEMA};
use zerolag_report::requests::RecordedRequests;
use zerolag_report::table::{Align, Table};

/// The result of `zerolag run` and `zerolag report`.
pub(crate) const DOCUMENT: Document = Document::of::<RunFigures<'_>>(SCHEMA, "run, report");

/// A figure that was asked for.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct ShownFigure {
    /// Its name, as asked for.
    figure: String,
    /// Its value; null if it is not known.
    value: Option<u64>,
    /// The unit of `value`: `ns`, `count`, `millionths` of a CPU, `thousandths per second`.
    unit: &'static str,
    #[serde(skip)]
    #[schemars(skip)]
    amount: String,
}

impl ShownFigure {
    /// Returns a figure of a run by its name, as in goals: any percentile of a distribution is one.
    ///
    /// # Errors
    /// A valid form.
    pub fn of(name: &str, summary: &Summary) -> Result<Self, String> {
        let (owner, figure) = Figure::parse(name)?;
        let (value, unit) = (goals::figure_of(figure, owner.as_deref(), summary), figure.unit());
        let amount = Amount::some(value, unit).to_string();
        Ok(Self { figure: name.to_owned(), value, unit: unit.name(), amount })
    }

    /// Returns figures as a table with a heading; nothing of none.
    #[must_use]
    pub fn text(shown: &[Self]) -> String {
        if shown.is_empty() {
            return String::new();
        }
        let mut table = Table::new(&[("figure", Align::Left), ("value", Align::Right)]);
        shown.iter().for_each(|one| table.push([one.figure.clone(), one.amount.clone()]));
        format!("\nfigures asked for\n{table}")
    }
}

/// The figures of a simulation, of a run on the host, or of a trace.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RunFigures<'a> {
    /// The figures of tasks, groups, services and CPUs.
    #[serde(flatten)]
    pub figures: Figures<'a>,
    /// Of a simulation: the limits and weights of groups at its start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<&'a [Limit]>,
    /// Of a simulation of an imported workload: its recording.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<OriginData>,
    /// Of a simulation with goals: whether each was met, by this run alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub goals: Option<Vec<GoalOfRun<'a>>>,
    /// Of a recording with messages of sockets: its requests; left out if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub recorded_requests: Vec<RecordedRequests>,
    /// With `--show`: the figures that were asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shown: Vec<ShownFigure>,
    /// Of a run: how it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<RunEnd>,
    /// Of a run on the host: the host and its counters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<HostFigures<'a>>,
    /// Of a run: the verdicts of the monitors; null if they did not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checks: Option<Option<Vec<MonitorVerdict<'a>>>>,
}

/// How a run ended.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RunEnd {
    /// The instant.
    pub at_ns: u64,
    /// The reason: `duration`, `finished`, `interrupted`, `deadlock` and others.
    pub why: &'static str,
    /// The reason as text.
    pub says: String,
    /// Why the scheduler of `sched_ext` was unloaded, if it was: the run went on with fair tasks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy_exit: Option<PolicyExit>,
    /// With `on_refused = "continue"`: how many calls the kernel refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<u64>,
    /// The first of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refusals: Vec<Refusal>,
    /// The counts of a simulation.
    #[serde(flatten)]
    pub counts: Option<RunCounts>,
}

/// What the kernel refused.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Refusal {
    /// The instant.
    pub at_ns: u64,
    /// What, and why.
    pub says: String,
}

/// Why a scheduler of `sched_ext` was unloaded (`scx_exit_info`).
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PolicyExit {
    /// Its name.
    pub policy: String,
    /// The reason: `runtime error`, `runnable task stall` and others, in the kernel's words.
    pub reason: &'static str,
    /// The kernel's message.
    pub message: String,
    /// Whether it is a fault of the scheduler.
    pub is_fault: bool,
    /// Where it happened: callback, task, CPU and time.
    pub place: String,
    /// The instant.
    pub at_ns: u64,
}

impl From<&ExitInfo> for PolicyExit {
    fn from(exit: &ExitInfo) -> Self {
        Self {
            policy: exit.policy.clone(),
            reason: exit.kind.reason(),
            message: exit.msg.clone(),
            is_fault: exit.kind.is_error(),
            place: exit.place(),
            at_ns: exit.at.as_nanos(),
        }
    }
}

/// The counts of a simulation.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RunCounts {
    /// Wakeups.
    pub wakeups: u64,
    /// Completed computations.
    pub completions: u64,
    /// Ticks.
    pub ticks: u64,
    /// Interprocessor interrupts.
    pub ipis: u64,
    /// Waits for a run-queue lock.
    pub lock_waits: u64,
}

/// The host of a run and its counters.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct HostFigures<'a> {
    /// The release of its kernel.
    pub release: &'a str,
    /// Whether the figures come from the kernel's own events.
    pub kernel_events_recorded: bool,
    /// The time of one loop of the calibrated work, in picoseconds.
    pub loop_ps: Vec<OfCpu<u64>>,
    /// The change of that time during the run, in thousandths.
    pub drift_permille: Vec<OfCpu<i64>>,
    /// The busy time of the CPUs, by all programs.
    pub busy_ns: Vec<OfCpu<u64>>,
    /// The CPU time that other programs used on the CPUs of the run.
    pub other_programs_ns: u64,
    /// The computation that each task did, in order of task.
    pub work_ns: Vec<u64>,
    /// The kernel's counters of the groups.
    pub groups: Vec<HostGroup<'a>>,
    /// What a reader should know of the run.
    pub notes: &'a [String],
}

/// A value of a CPU, in the unit of the list's name.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[schemars(rename = "OfCpu_{T}")]
pub struct OfCpu<T> {
    /// The CPU.
    pub cpu: u32,
    /// The value.
    pub value: T,
}

/// The kernel's counters of a group.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct HostGroup<'a> {
    /// Its path.
    pub path: &'a str,
    /// The lines of its `cpu.stat`.
    pub stat: BTreeMap<&'a str, u64>,
}

impl<'a> RunFigures<'a> {
    /// Returns the figures of a summary alone.
    #[must_use]
    pub fn of(summary: &'a Summary) -> Self {
        Self {
            figures: Figures::of(summary),
            limits: None,
            origin: None,
            goals: None,
            recorded_requests: Vec::new(),
            shown: Vec::new(),
            ended: None,
            host: None,
            checks: None,
        }
    }

    /// Returns them with the end of a run and the verdicts of its monitors.
    #[must_use]
    pub fn ended(self, ended: RunEnd, checks: Option<&'a zerolag_check::Report>) -> Self {
        Self { ended: Some(ended), checks: Some(checks.map(verdicts::data)), ..self }
    }
}

//! Scheduling properties of rt-app tasks and phases, and how they persist.
//!
//! A task's properties are complete: policy from `global.default_policy`, priority 10 for FIFO and
//! RR, nice 0 otherwise. A phase's properties change the current ones: without a policy the current
//! one is used again; a policy without a priority uses that policy's default; and properties that a
//! phase sets persist in the phases after it. rt-app's order of evaluation is kept, including its
//! traps:
//!
//! * a fair phase that names neither policy nor priority changes nothing, even if it names
//!   `dl-runtime`;
//! * at task level `runtime`, `period` and `deadline` are read like `dl-runtime`, `dl-period` and
//!   `dl-deadline` where those are absent, so that an *event* named exactly `runtime` also asks for
//!   a custom slice.
//!
//! differs: rt-app passes `SCHED_FLAG_KEEP_PARAMS` with a nice value if no `dl-runtime` is given,
//! and Linux 6.18 then ignores the nice value (observed). Here the nice value is set, as rt-app's
//! documentation says.
//!
//! Sources: rt-app 55cb0c0 `src/rt-app_parse_config.c`, `parse_sched_data`; `src/rt-app.c`,
//! `set_thread_param`. Linux v6.12 `kernel/sched/syscalls.c` (a slice is clamped to 0.1..100 ms),
//! `kernel/sched/deadline.c`, `__checkparam_dl`.

use super::object::{INT, Object};
use crate::diagnostic::{Diagnostic, Report, Severity, Span};
use zerolag_model::{DlParams, Duration, FairPolicy, Nice, Policy, RtPolicy, RtPriority, SchedAttr};

/// Keys of the scheduling of a task or phase.
pub(super) const KEYS: [&str; 7] =
    ["policy", "priority", "dl-runtime", "dl-period", "dl-deadline", "util_min", "util_max"];

/// The shortest slice that Linux gives.
pub(crate) const SLICE_MIN: Duration = Duration::from_micros(100);
/// The longest slice.
pub(crate) const SLICE_MAX: Duration = Duration::from_millis(100);
/// The shortest deadline runtime that Linux accepts (`1 << DL_SCALE` nanoseconds).
const DL_RUNTIME_MIN: Duration = Duration::from_nanos(1024);

/// rt-app's default priority of FIFO and RR tasks.
const PRIORITY_DEFAULT: i64 = 10;

/// The scheduling properties of an object.
#[derive(Debug)]
pub(super) struct Props {
    policy: Option<Policy>,
    priority: Option<(i64, Span)>,
    runtime: Option<(Duration, Span)>,
    period: Option<(Duration, Span)>,
    deadline: Option<(Duration, Span)>,
    span: Span,
}

/// The kind of object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Level {
    /// A task: the legacy keys are used.
    Task,
    /// A phase.
    Phase,
}

impl Props {
    /// Reads the properties of an object.
    pub(super) fn read(object: &Object<'_, '_>, level: Level, report: &mut Report) -> Self {
        let policy = object.string("policy", report).and_then(|(name, span)| policy(name, span, report));
        let mut props = Self {
            policy,
            priority: object.int("priority", INT, report),
            runtime: object.micros("dl-runtime", report),
            period: object.micros("dl-period", report),
            deadline: object.micros("dl-deadline", report),
            span: object.span,
        };
        if level == Level::Task {
            // Zero counts as absent.
            let legacy = |key, report: &mut Report| match object.get(key) {
                Some(_) => object.micros(key, report),
                None => None,
            };
            let absent = |value: Option<(Duration, Span)>| value.is_none_or(|(time, _)| time.is_zero());
            if absent(props.runtime) {
                props.runtime = legacy("runtime", report);
            }
            if absent(props.period) {
                props.period = legacy("period", report);
            }
            if absent(props.deadline) {
                props.deadline = legacy("deadline", report);
            }
        }
        for key in ["util_min", "util_max"] {
            if let Some((_, span)) = object.int(key, -1..=1024, report) {
                let message = format!("\"{key}\" has no effect: utilisation clamps are not simulated");
                report.push(Diagnostic::new(Severity::Note, message).at(span));
            }
        }
        props
    }

    /// Returns a task's attributes at its start.
    pub(super) fn initial(&self, default: Policy, report: &mut Report) -> Option<SchedAttr> {
        self.attr(self.policy.unwrap_or(default), None, report)
    }

    /// Returns the attributes from a phase on, if the phase changes them.
    pub(super) fn change(&self, current: SchedAttr, report: &mut Report) -> Option<SchedAttr> {
        let same_policy = current.policy();
        match (self.policy, self.priority, same_policy) {
            (Some(policy), _, _) => self.attr(policy, Some(current), report),
            (None, Some(_), _) => self.attr(same_policy, Some(current), report),
            (None, None, Policy::Deadline) if self.runtime.or(self.period).or(self.deadline).is_some() => {
                self.attr(same_policy, Some(current), report)
            }
            (None, None, _) => {
                if let Some((_, span)) = self.runtime.or(self.period).or(self.deadline) {
                    let message = "a deadline parameter has no effect in a phase without policy and priority";
                    report.warning(span, message);
                }
                None
            }
        }
    }

    fn attr(&self, policy: Policy, current: Option<SchedAttr>, report: &mut Report) -> Option<SchedAttr> {
        match policy {
            Policy::Other => self.fair(FairPolicy::Other, current, report),
            Policy::Batch => self.fair(FairPolicy::Batch, current, report),
            Policy::Idle => self.fair(FairPolicy::Idle, current, report),
            Policy::Ext => self.fair(FairPolicy::Ext, current, report),
            Policy::Fifo => self.rt(RtPolicy::Fifo, report),
            Policy::Rr => self.rt(RtPolicy::Rr, report),
            Policy::Deadline => self.deadline(report),
        }
    }

    fn fair(&self, policy: FairPolicy, current: Option<SchedAttr>, report: &mut Report) -> Option<SchedAttr> {
        let (nice, span) = self.priority.unwrap_or((0, self.span));
        let Some(nice) = Nice::new(nice) else {
            let message = format!("\"priority\": nice {nice} is outside -20..=19");
            report.error_help(span, message, "it is a nice value unless the policy is SCHED_FIFO or SCHED_RR");
            return None;
        };
        let kept = match current {
            Some(SchedAttr::Fair { slice, .. }) => slice,
            Some(SchedAttr::Rt { .. } | SchedAttr::Deadline(_) | SchedAttr::Ext { .. }) | None => None,
        };
        let slice = match (policy, self.runtime) {
            (FairPolicy::Other | FairPolicy::Batch, Some((slice, span))) if !slice.is_zero() => {
                let clamped = slice.clamp(SLICE_MIN, SLICE_MAX);
                if clamped != slice {
                    let message = format!("slice {slice} is outside {SLICE_MIN}..={SLICE_MAX}: it becomes {clamped}");
                    report.push(Diagnostic::new(Severity::Note, message).at(span));
                }
                Some(clamped)
            }
            (FairPolicy::Other | FairPolicy::Batch | FairPolicy::Idle | FairPolicy::Ext, _) => kept,
        };
        Some(SchedAttr::Fair { policy, nice, slice })
    }

    fn rt(&self, policy: RtPolicy, report: &mut Report) -> Option<SchedAttr> {
        let (priority, span) = self.priority.unwrap_or((PRIORITY_DEFAULT, self.span));
        let Some(priority) = RtPriority::new(priority) else {
            report.error(span, format!("\"priority\": real-time priority {priority} is outside 1..=99"));
            return None;
        };
        Some(SchedAttr::Rt { policy, priority })
    }

    fn deadline(&self, report: &mut Report) -> Option<SchedAttr> {
        let Some((runtime, span)) = self.runtime.filter(|(runtime, _)| !runtime.is_zero()) else {
            report.error_help(
                self.span,
                "SCHED_DEADLINE without a runtime",
                "write \"dl-runtime\" and \"dl-period\", in microseconds",
            );
            return None;
        };
        let given = |time: Option<(Duration, Span)>| time.map(|(time, _)| time).filter(|time| !time.is_zero());
        let period = given(self.period).unwrap_or(runtime);
        let params = DlParams::new(runtime, given(self.deadline).unwrap_or(period), period);
        match deadline_error(params) {
            Some(message) => {
                report.error(span, message);
                None
            }
            None => Some(SchedAttr::Deadline(params)),
        }
    }
}

/// Returns why the kernel refuses deadline parameters (EINVAL), if it does.
pub(crate) fn deadline_error(params: DlParams) -> Option<String> {
    let DlParams { runtime, deadline, period, flags: _ } = params;
    if runtime < DL_RUNTIME_MIN {
        Some(format!("runtime {runtime} is below {DL_RUNTIME_MIN}"))
    } else if runtime > deadline {
        Some(format!("runtime {runtime} is above deadline {deadline}"))
    } else if deadline > period {
        Some(format!("deadline {deadline} is above period {period}"))
    } else {
        None
    }
}

/// Reads a policy name that rt-app accepts.
pub(super) fn policy(name: &str, span: Span, report: &mut Report) -> Option<Policy> {
    // rt-app knows no SCHED_EXT.
    let has = |policy: &Policy| *policy != Policy::Ext;
    let policy = Policy::ALL.into_iter().filter(has).find(|policy| policy.name() == name);
    if policy.is_none() {
        let known: Vec<&str> = Policy::ALL.into_iter().filter(has).map(Policy::name).collect();
        let known = known.join(", ");
        report.error_help(span, format!("unknown policy \"{name}\""), format!("known are {known}"));
    }
    policy
}

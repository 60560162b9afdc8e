//! The verdicts of monitors, as text, as a table and as JSON.

use crate::document::{self, Document};
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt::Write;
use std::sync::Arc;
use zerolag_check::{Report, Verdict};
use zerolag_report::frame::{Frame, Values};
use zerolag_report::table::{Align, Table};

/// The verdict of a monitor.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct MonitorVerdict<'a> {
    /// The name of the monitor.
    monitor: &'a str,
    /// `held`, `not_applicable` or `broken`.
    verdict: &'static str,
    /// Of a rule that is not applicable: why.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    /// Of a broken rule: the number of violations.
    #[serde(skip_serializing_if = "Option::is_none")]
    violations: Option<u64>,
    /// Of a broken rule: the first violations, as text.
    #[serde(skip_serializing_if = "Option::is_none")]
    first: Option<Vec<String>>,
    /// The parts of the trace that the rule could not judge.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    not_judged: Vec<NotJudgedPart>,
}

/// Why a rule could not judge a part of a trace.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct NotJudgedPart {
    /// The reason.
    reason: &'static str,
    /// How often that was so.
    times: u64,
}

/// Returns the verdicts of all monitors as data.
pub(crate) fn data(checks: &Report) -> Vec<MonitorVerdict<'_>> {
    checks.verdicts.iter().map(|(name, verdict)| verdict_of(checks, name, verdict)).collect()
}

fn verdict_of<'a>(checks: &Report, monitor: &'a str, verdict: &'a Verdict) -> MonitorVerdict<'a> {
    let parts = checks.not_judged_by(monitor);
    let (verdict, reason, found) = match verdict {
        Verdict::Held => ("held", None, None),
        Verdict::NotApplicable(reason) => ("not_applicable", Some(&**reason), None),
        Verdict::Broken(found) => ("broken", None, Some(found)),
    };
    MonitorVerdict {
        monitor,
        verdict,
        reason,
        violations: found.map(zerolag_check::Findings::total),
        first: found.map(|found| found.first().iter().map(ToString::to_string).collect()),
        not_judged: parts.map(|part| NotJudgedPart { reason: part.reason, times: part.times }).collect(),
    }
}

/// The result of `zerolag check`.
pub(crate) const DOCUMENT: Document = Document::of::<CheckedTrace<'_>>(SCHEMA, "check");
const SCHEMA: &str = "zerolag.check.v1";

/// The rules of scheduling, checked against a trace.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct CheckedTrace<'a> {
    /// The name and version of this form.
    #[schemars(extend("const" = SCHEMA))]
    schema: &'static str,
    /// Whether no rule is broken.
    clean: bool,
    /// The settings of the reproduced kernel faults that explain all violations; null if one is
    /// unexplained.
    faults: Option<Vec<&'static str>>,
    /// The part of a recording that was not judged because events are missing.
    unseen: Option<UnseenPart>,
    /// The verdicts, in the order of the documentation.
    checks: Vec<MonitorVerdict<'a>>,
}

/// The part of a recording in which events are missing.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct UnseenPart {
    /// The number of gaps; those that overlap count once.
    gaps: u64,
    /// Their time together.
    time_ns: u64,
}

/// Returns the result of `zerolag check` as JSON, with a line break at the end.
#[must_use]
pub fn json(report: &Report) -> String {
    document::text(&CheckedTrace {
        schema: SCHEMA,
        clean: report.is_clean(),
        faults: report.faults(),
        unseen: report.unseen.map(|unseen| UnseenPart { gaps: unseen.gaps, time_ns: unseen.time.as_nanos() }),
        checks: data(report),
    })
}

/// Returns the verdicts as a table of columns, a row per monitor: its name, the verdict, the number
/// of violations, and the first of them or why the rule is not applicable.
#[must_use]
pub fn frame(report: &Report) -> Frame {
    let rows = data(report);
    let texts = |of: &dyn Fn(&MonitorVerdict<'_>) -> Arc<str>| Values::Text(rows.iter().map(of).collect());
    let detail = |row: &MonitorVerdict<'_>| {
        let first = row.first.as_ref().and_then(|first| first.first()).map(String::as_str);
        row.reason.or(first).map(Arc::from)
    };
    Frame::new("checks", rows.len())
        .with("monitor", texts(&|row| Arc::from(row.monitor)))
        .with("verdict", texts(&|row| Arc::from(row.verdict)))
        .with("violations", Values::U64(rows.iter().map(|row| row.violations.unwrap_or_default()).collect()))
        .with_some(
            "detail",
            texts(&|row| detail(row).unwrap_or_default()),
            rows.iter().map(|row| detail(row).is_some()).collect(),
        )
}

/// Returns one line for all monitors.
#[must_use]
pub fn line(report: &Report) -> String {
    let count = |is: fn(&Verdict) -> bool| report.verdicts.iter().filter(|(_, verdict)| is(verdict)).count();
    let held = count(|verdict| matches!(verdict, Verdict::Held));
    let idle = count(|verdict| matches!(verdict, Verdict::NotApplicable(_)));
    let broken = report.verdicts.len() - held - idle;
    format!("checks: {held} held, {broken} broken, {idle} not applicable\n")
}

/// Returns the verdict in a few words.
fn short(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Held => "ok".to_owned(),
        Verdict::NotApplicable(reason) => format!("not applicable: {reason}"),
        Verdict::Broken(found) if found.total() == 1 => "1 violation".to_owned(),
        Verdict::Broken(found) => format!("{} violations", found.total()),
    }
}

/// Returns the lines below a verdict: the first violations, and the parts that were not judged.
fn below(report: &Report, name: &str, verdict: &Verdict) -> Vec<String> {
    let mut lines = Vec::new();
    if let Verdict::Broken(found) = verdict {
        lines.extend(found.first().iter().map(ToString::to_string));
        let hidden = found.total().saturating_sub(found.first().len() as u64);
        if hidden > 0 {
            lines.push(format!("and {hidden} more"));
        }
    }
    lines.extend(report.not_judged_by(name).map(|part| part.to_string()));
    lines
}

/// Returns the monitors' verdicts as a table: a row each, and one per line below.
#[must_use]
pub fn table(report: &Report) -> Table {
    let mut table = Table::new(&[("rule", Align::Left), ("verdict", Align::Left)]);
    for (name, verdict) in &report.verdicts {
        table.push([(*name).to_owned(), short(verdict)]);
        for line in below(report, name, verdict) {
            table.push([String::new(), line]);
        }
    }
    table
}

/// Returns the monitors' verdicts, a line each, with the first violations below.
///
/// # Panics
/// Never: writing to a string cannot fail.
#[must_use]
pub fn text(report: &Report) -> String {
    let mut text = report.unseen.map_or_else(String::new, |unseen| format!("{unseen}\n"));
    for (name, verdict) in &report.verdicts {
        writeln!(text, "{name:<15} {}", short(verdict)).expect("invariant: a string takes everything");
        for line in below(report, name, verdict) {
            writeln!(text, "  {line}").expect("invariant: a string takes everything");
        }
    }
    text
}

//! Presents results: the seam to the tables and JSON of the report crate.

use serde_json::{Value, json};
use std::fmt::Write;
use zerolag::check::Verdict;
use zerolag::report::{json, text};
use zerolag::sim::End;
use zerolag::simulation::Report;

/// Returns a run's result as text: tables, how it ended, and the monitors' verdicts. `quiet` omits
/// the tables.
pub(crate) fn text(report: &Report, quiet: bool) -> String {
    let tables = text::render(&report.summary, text::Limits::default());
    let head = tables.find("\n\n").map_or(&*tables, |end| &tables[..=end]);
    let mut out = if quiet { head.to_owned() } else { format!("{tables}\n") };
    let stats = &report.outcome.stats;
    let why = report.outcome.why.to_string();
    let why = why.lines().next().unwrap_or_default().trim_end_matches(':');
    writeln!(
        out,
        "ended at {}: {why}; {} wakeups, {} computations, {} ticks, {} IPIs, {} waits for a run-queue lock",
        report.outcome.end, stats.wakeups, stats.completions, stats.ticks, stats.ipis, stats.lock_waits
    )
    .expect("invariant: a string takes everything");
    if let Some(checks) = &report.checks {
        out.push_str(&checks_line(checks));
        if !checks.is_clean() {
            out.push_str(&self::checks(checks));
        }
    }
    out
}

/// Returns a run's result as JSON: the report's figures, how the run ended, and the monitors'
/// verdicts.
pub(crate) fn json(report: &Report) -> String {
    let figures = json::render(&report.summary).expect("invariant: every figure has a JSON form");
    let stats = &report.outcome.stats;
    let ended = json!({
        "at_ns": report.outcome.end.as_nanos(),
        "why": end_name(&report.outcome.why),
        "says": report.outcome.why.to_string(),
        "wakeups": stats.wakeups,
        "completions": stats.completions,
        "ticks": stats.ticks,
        "ipis": stats.ipis,
        "lock_waits": stats.lock_waits,
    });
    let checks = checks_json(report.checks.as_ref());
    // The figures keep the order of their keys, which a `Value` would not.
    let body = figures.trim_end().strip_suffix('}').expect("invariant: the figures are an object").trim_end();
    format!("{body},\n  \"ended\": {},\n  \"checks\": {}\n}}\n", nested(&ended), nested(&checks))
}

/// Returns the result of a run on the host as JSON: the same figures, how the run ended, and the
/// properties of the host.
#[cfg(target_os = "linux")]
pub(crate) fn host_json(report: &zerolag::host::HostReport) -> String {
    let figures = &report.figures;
    let per_cpu = |values: &mut dyn Iterator<Item = (u32, Value)>| -> Value {
        values.map(|(cpu, value)| json!({ "cpu": cpu, "value": value })).collect()
    };
    let groups: Vec<Value> = figures
        .groups
        .iter()
        .map(|group| json!({ "path": group.path, "stat": group.stat.iter().cloned().collect::<std::collections::BTreeMap<_, _>>() }))
        .collect();
    let host = json!({
        "release": figures.host.release,
        "kernel_events_recorded": figures.is_recorded,
        "loop_ps": per_cpu(&mut figures.speeds.iter().map(|(cpu, ps)| (cpu.0, json!(ps)))),
        "drift_permille": per_cpu(&mut figures.drift.iter().map(|(cpu, drift)| (cpu.0, json!(drift)))),
        "busy_ns": per_cpu(&mut figures.busy.iter().map(|(cpu, busy)| (cpu.0, json!(busy.as_nanos())))),
        "other_programs_ns": report.others().0.as_nanos(),
        "work_ns": figures.tasks.iter().map(|task| task.work.as_nanos()).collect::<Vec<_>>(),
        "groups": groups,
        "notes": figures.notes,
    });
    let why = match figures.end {
        zerolag::linux::End::Duration => "duration",
        zerolag::linux::End::Finished => "finished",
        zerolag::linux::End::Interrupted => "interrupted",
        zerolag::linux::End::Deadlock(_) => "deadlock",
        zerolag::linux::End::Failed(_) => "failed",
    };
    let ended = json!({ "at_ns": figures.elapsed.as_nanos(), "why": why, "says": figures.end.to_string() });
    let text = json::render(&report.summary).expect("invariant: every figure has a JSON form");
    let body = text.trim_end().strip_suffix('}').expect("invariant: the figures are an object").trim_end();
    format!(
        "{body},\n  \"ended\": {},\n  \"host\": {},\n  \"checks\": {}\n}}\n",
        nested(&ended),
        nested(&host),
        nested(&checks_json(report.checks.as_ref()))
    )
}

fn checks_json(checks: Option<&zerolag::check::Report>) -> Value {
    checks.map_or(Value::Null, |checks| {
        let one = |(name, verdict): &(&str, Verdict)| {
            let mut value = verdict_json(name, verdict);
            let parts = checks.not_judged_by(name).map(|part| json!({ "reason": part.reason, "times": part.times }));
            let parts: Vec<Value> = parts.collect();
            if !parts.is_empty() {
                value["not_judged"] = Value::Array(parts);
            }
            value
        };
        checks.verdicts.iter().map(one).collect()
    })
}

fn nested(value: &Value) -> String {
    format!("{value:#}").replace('\n', "\n  ")
}

fn end_name(end: &End) -> &'static str {
    match end {
        End::Duration => "duration",
        End::Finished => "finished",
        End::Interrupted => "interrupted",
        End::Deadlock(_) => "deadlock",
        End::Stuck(_) => "stuck",
        End::NoProgress(_) => "no_progress",
        End::TooManyForks(_) => "too_many_forks",
        End::Lockup { .. } => "lockup",
        End::NotHeld { .. } => "not_held",
        End::Failed(_) => "failed",
    }
}

fn verdict_json(name: &str, verdict: &Verdict) -> Value {
    match verdict {
        Verdict::Held => json!({ "monitor": name, "verdict": "held" }),
        Verdict::NotApplicable(reason) => json!({ "monitor": name, "verdict": "not_applicable", "reason": reason }),
        Verdict::Broken(found) => {
            let first: Vec<String> = found.first().iter().map(ToString::to_string).collect();
            json!({ "monitor": name, "verdict": "broken", "violations": found.total(), "first": first })
        }
    }
}

/// Returns one line for all monitors.
pub(crate) fn checks_line(report: &zerolag::check::Report) -> String {
    let count = |is: fn(&Verdict) -> bool| report.verdicts.iter().filter(|(_, verdict)| is(verdict)).count();
    let held = count(|verdict| matches!(verdict, Verdict::Held));
    let idle = count(|verdict| matches!(verdict, Verdict::NotApplicable(_)));
    let broken = report.verdicts.len() - held - idle;
    format!("checks: {held} held, {broken} broken, {idle} not applicable\n")
}

/// Returns the monitors' verdicts, a line each, with the first violations below.
pub(crate) fn checks(report: &zerolag::check::Report) -> String {
    let mut text = report.unseen.map_or_else(String::new, |unseen| format!("{unseen}\n"));
    for (name, verdict) in &report.verdicts {
        let line = match verdict {
            Verdict::Held => "ok".to_owned(),
            Verdict::NotApplicable(reason) => format!("not applicable: {reason}"),
            Verdict::Broken(found) if found.total() == 1 => "1 violation".to_owned(),
            Verdict::Broken(found) => format!("{} violations", found.total()),
        };
        writeln!(text, "{name:<15} {line}").expect("invariant: a string takes everything");
        if let Verdict::Broken(found) = verdict {
            for violation in found.first() {
                writeln!(text, "  {violation}").expect("invariant: a string takes everything");
            }
            let hidden = found.total().saturating_sub(found.first().len() as u64);
            if hidden > 0 {
                writeln!(text, "  and {hidden} more").expect("invariant: a string takes everything");
            }
        }
        for part in report.not_judged_by(name) {
            writeln!(text, "  {part}").expect("invariant: a string takes everything");
        }
    }
    text
}

//! The verdicts of monitors, as text and as JSON.

use serde_json::{Value, json};
use std::fmt::Write;
use zerolag_check::{Report, Verdict};

/// Returns the verdicts as JSON; null if the monitors did not run.
#[must_use]
pub fn json(checks: Option<&Report>) -> Value {
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
#[must_use]
pub fn line(report: &Report) -> String {
    let count = |is: fn(&Verdict) -> bool| report.verdicts.iter().filter(|(_, verdict)| is(verdict)).count();
    let held = count(|verdict| matches!(verdict, Verdict::Held));
    let idle = count(|verdict| matches!(verdict, Verdict::NotApplicable(_)));
    let broken = report.verdicts.len() - held - idle;
    format!("checks: {held} held, {broken} broken, {idle} not applicable\n")
}

/// Returns the monitors' verdicts, a line each, with the first violations below.
///
/// # Panics
/// Never: writing to a string cannot fail.
#[must_use]
pub fn text(report: &Report) -> String {
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

//! [`watched`]: what the pressure of a run and its triggers can be.

use super::judge::{Finding, enough};
use zerolag::simulation::{Observe, Plan};
use zerolag_model::{Duration, PressureTrigger, Stall};
use zerolag_report::{PressureLine, PressureSummary};
use zerolag_sim::NoTrace;

/// Measures the pressure of a run with triggers; returns the first figure that cannot be.
pub(super) fn watched(plan: &Plan) -> Option<Finding> {
    let (groups, root) = (&plan.program.groups, &plan.program.root);
    if root.triggers.is_empty() && groups.iter().all(|group| group.triggers.is_empty()) {
        return None;
    }
    let summary = plan.run_into(Observe::FIGURES, &mut NoTrace, enough).ok()?.summary;
    let machine = (summary.pressure.map(|pressure| wrong(&pressure, &root.triggers, summary.elapsed)), "/");
    let of_groups = summary.groups.iter().filter_map(|group| {
        // A path has one group after another in a run.
        let def = groups.iter().find(|def| def.path == group.path)?;
        Some((group.pressure.map(|pressure| wrong(&pressure, &def.triggers, summary.elapsed)), &*group.path))
    });
    let mut all = of_groups.chain([machine]);
    all.find_map(|(wrong, path)| Some(Finding::Broken("pressure", format!("{path}: {}", wrong??))))
}

/// Returns what is wrong with the figures of a group.
fn wrong(pressure: &PressureSummary, triggers: &[PressureTrigger], elapsed: Duration) -> Option<String> {
    let PressureSummary { some, full } = pressure;
    if full.total > some.total {
        return Some(format!("full {} is more than some {}", full.total, some.total));
    }
    if some.total > elapsed {
        return Some(format!("some {} is more than the run of {elapsed}", some.total));
    }
    [(Stall::Some, some), (Stall::Full, full)].into_iter().find_map(|(stall, line)| {
        let of_stall = triggers.iter().filter(|trigger| trigger.stall == stall);
        events(line, of_stall, elapsed).map(|why| format!("{stall:?}: {why}"))
    })
}

/// Returns what is wrong with the events of a line: a trigger fires once a window at most.
fn events<'t>(
    line: &PressureLine,
    triggers: impl Iterator<Item = &'t PressureTrigger>,
    elapsed: Duration,
) -> Option<String> {
    let most: Vec<u64> = triggers.map(|trigger| elapsed.as_nanos() / trigger.window.as_nanos().max(1) + 1).collect();
    let Some(fired) = line.fired else {
        return (!most.is_empty()).then(|| "its triggers are not watched".to_owned());
    };
    let most: u64 = most.iter().sum();
    if fired.events > most {
        return Some(format!("{} events of at most {most}", fired.events));
    }
    if (fired.events > 0) != fired.first.is_some() {
        return Some(format!("{} events, the first at {:?}", fired.events, fired.first));
    }
    fired.first.filter(|first| *first > elapsed).map(|first| format!("an event at {first}, after the run of {elapsed}"))
}

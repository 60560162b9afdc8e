//! [`travel`]: a run's trace through a format and back, or through `import` and a second run.
//!
//! A trip of our own format must return the same trace, those of others the figures that they keep
//! ([`round_trip`](crate::round_trip)). An import of our own trace must be a scenario that is
//! accepted; where the recording has everything that the run depended on, its simulation is the run
//! again, to the nanosecond ([`importable`]).
//!
//! One draft in seven has a trip, of each kind in turn; its run is repeated for at most
//! [`LENGTH`], so trips cost little.

use super::draft::{Block, Draft, ScenarioLine};
use super::judge::{Finding, enough};
use super::metamorphic::{is_task, keep_steps};
use super::twin::constant;
use crate::round_trip::{FORMATS, LENGTH, differences, own_difference};
use zerolag::background::Background;
use zerolag::import::{BaseError, ImportError, Options, base_error, import};
use zerolag::simulation::Plan;
use zerolag_model::TraceEvent;
use zerolag_model::settings::Preempt;
use zerolag_report::Metrics;
use zerolag_sim::Tracing;
use zerolag_trace::{Meta, Trace};
use zerolag_workload::{LoadOptions, load};

/// Where a trace goes and comes back from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trip {
    /// `.zlt`.
    Own,
    /// Text, as tracefs prints it.
    Text,
    /// A file of Perfetto.
    Perfetto,
    /// A scenario.
    Import,
}

impl Trip {
    /// All kinds. Drafts have them in turn.
    const ALL: [Self; 4] = [Self::Text, Self::Import, Self::Perfetto, Self::Own];

    /// Returns the trip of a scenario of this number; most have none.
    pub(super) fn of(number: u64) -> Option<Self> {
        number.is_multiple_of(EVERY).then(|| Self::ALL[(number / EVERY % Self::ALL.len() as u64) as usize])
    }
}

/// One scenario in so many has a trip. No multiple of the number of twins, so that each meets each.
const EVERY: u64 = 7;

/// Sends the trace of a draft's run on its trip; returns the difference that must not be.
///
/// Returns `None` too where the run is refused or ends before its time.
#[must_use]
pub(super) fn travel(draft: &Draft) -> Option<Finding> {
    let trip = draft.trip?;
    let said = |how: String| (!how.is_empty()).then_some(Finding::TripDiffers(trip, how));
    match trip {
        Trip::Own => own_difference(&traced(&draft.plan().ok()?)?).and_then(said),
        Trip::Text => said(differences(&traced(&draft.plan().ok()?)?, &FORMATS[0])),
        Trip::Perfetto => said(differences(&traced(&draft.plan().ok()?)?, &FORMATS[1])),
        Trip::Import => {
            let trace = traced(&draft.plan().ok()?)?;
            let imported = import(&trace, "fuzz", &Options::default());
            // If no task computes, nothing can be imported.
            let base = if imported.tasks.is_empty() { return None } else { base_error(&trace, &imported) };
            if let Err(error @ (ImportError::Scenario(_) | ImportError::Plan(_))) = base {
                return said(format!("what is imported is refused: {error}"));
            }
            not_imported(&importable(draft)?).and_then(said)
        }
    }
}

/// Returns the trace of the beginning of a run.
fn traced(plan: &Plan) -> Option<Trace> {
    let plan = plan.clone();
    let length = plan.config.duration.map_or(LENGTH, |duration| duration.min(LENGTH));
    let plan = plan.for_duration(length);
    let mut records = Vec::new();
    let outcome = plan.build(Tracing::On).ok()?.run_with(&mut records, enough);
    outcome.why.is_ok().then(|| Trace { meta: Meta { end: outcome.end, ..plan.meta() }, records })
}

/// Returns the part of a draft whose recording has everything that the run depended on: tasks of
/// constant demands that compute and sleep, without groups and affinities, at no cost.
fn importable(draft: &Draft) -> Option<Draft> {
    let mut top = draft.blocks.first()?.clone();
    top.set("costs", "\"zero\"");
    let mut settings = Block::new("[settings]");
    // A recorded sleep has its slack.
    settings.line("\"timer_slack_ns\" = 0");
    // A lazy request is obeyed at the end of a computation, and ends of computations without a
    // switch are not in a trace.
    if draft.plan().is_ok_and(|plan| plan.config.settings.preempt == Preempt::Lazy) {
        settings.line("\"preempt\" = \"full\"");
    }
    // A demand is CPU time, whatever the CPU does in that time.
    let mut machine = draft.blocks.iter().find(|block| block.head == "[machine]")?.clone();
    machine.lines.retain(|line| !matches!(line, ScenarioLine::List("capacities", _)));
    // A timer that costs nothing has no interrupt in the trace, so its wakings are those of the
    // running task: on one CPU that is the same.
    let may_sleep = machine.value("cpus") == Some("1");
    let mut blocks = vec![top, machine, settings];
    // Both real-time policies are imported as FIFO, and deadline tasks without their parameters.
    let tasks = draft.blocks.iter().filter(|block| is_task(block, &["other", "batch", "idle", "fifo"]));
    // A task that begins behind the end has a place before, and leaves nothing to be imported.
    let kept = ["policy = ", "nice = ", "priority = ", "instances = "];
    let mut tasks: Vec<Block> = tasks.cloned().collect();
    tasks.retain_mut(|task| {
        task.lines.retain(|line| match line {
            ScenarioLine::Text(text) => kept.iter().any(|key| text.starts_with(key)),
            ScenarioLine::List(..) => true,
        });
        // A task that never computes leaves nothing to be imported.
        let is_run = |step: &str| step.starts_with("{ run");
        keep_steps(&mut task.clone(), is_run)
            && keep_steps(task, |step| is_run(step) || may_sleep && step.starts_with("{ sleep"))
    });
    if tasks.is_empty() {
        return None;
    }
    blocks.extend(tasks);
    let mut reduced = Draft { blocks, background: Background::None, ..Draft::default() };
    reduced.each_text(&mut |text| *text = constant(text));
    Some(reduced)
}

/// Returns whether a timer fires at the instant of a switch. It is not in the trace of a run
/// without costs, so the next task seems to wake another before it has computed at all.
fn wakes_at_once(trace: &Trace) -> bool {
    let mut switched = None;
    trace.records.iter().any(|record| match record.event {
        TraceEvent::Switch { .. } => {
            switched = Some(record.at);
            false
        }
        TraceEvent::Waking { .. } => switched == Some(record.at),
        // No other event begins a turn, or a wakeup.
        _ => false,
    })
}

/// Returns how the simulation of an imported trace is not the run that it was recorded of.
fn not_imported(draft: &Draft) -> Option<String> {
    let plan = draft.plan().ok()?;
    let trace = traced(&plan)?;
    let imported = import(&trace, "fuzz", &Options::default());
    // Wakings of which nine in ten are evenly spaced are imported as those of a timer.
    if imported.tasks.is_empty() || imported.scenario.contains("{timer=") || wakes_at_once(&trace) {
        return None;
    }
    let said = |error: String| Some(format!("what is imported is refused: {error}"));
    let scenario = match load("fuzz.toml", imported.scenario.as_bytes(), &LoadOptions::default()) {
        Ok(scenario) => scenario,
        Err(error) => return said(error.to_string()),
    };
    let again = match Plan::new(scenario) {
        Ok(again) => again,
        Err(error) => return said(error.to_string()),
    };
    // Machine, settings and costs are not in a recording.
    let length = again.config.duration;
    let again = Plan { config: plan.config, ..again }.for_duration(length?);
    let mut records = Vec::new();
    let outcome = again.build(Tracing::On).ok()?.run_with(&mut records, enough);
    if !outcome.why.is_ok() {
        return Some(format!("its simulation ended early: {}", outcome.why));
    }
    let simulated = Trace { meta: Meta { end: outcome.end, ..again.meta() }, records };
    let error = BaseError::of(&Metrics::of(&trace), &Metrics::of(&simulated), &imported.tasks);
    let parts = [("CPU time", error.run()), ("wait", error.wait()), ("wakeup latency", error.latency())];
    let wrong = parts.into_iter().filter(|(_, (_, apart))| !apart.is_zero());
    let wrong: Vec<String> = wrong.map(|(of, (all, apart))| format!("{of} differs by {apart} of {all}")).collect();
    (!wrong.is_empty()).then(|| format!("the base error of an import is not zero: {}", wrong.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_trip_is_drawn_and_made() {
        let mut made = [0; Trip::ALL.len()];
        let mut exact = 0;
        for number in 0..12 * EVERY {
            let draft = crate::fuzz::draw(3, number, None);
            assert_eq!(draft.trip.is_some(), number.is_multiple_of(EVERY));
            let Some(trip) = draft.trip else { continue };
            let trace = draft.plan().ok().and_then(|plan| traced(&plan));
            made[trip as usize] += usize::from(trace.is_some());
            exact += usize::from(importable(&draft).is_some_and(|part| part.plan().is_ok()));
            assert_eq!(travel(&draft), None, "number {number}:\n{draft}");
        }
        assert!(made.iter().all(|made| *made >= 2) && exact >= 3, "{made:?}, {exact}");
    }

    const AT_ONCE: &str = r#"
kernel = "4.4"
duration = "240000us"
seed = 3
costs = "zero"

[machine]
cpus = 1

[settings]
timer_slack_ns = 0

[task.t1]
policy = "idle"
instances = 2
steps = [{ run = "119us" }]

[task.t2]
policy = "other"
instances = 2
steps = [{ run = "119us" }, { sleep = "1800us" }]
"#;

    /// Seed 913, number 67823: a fair task preempts an idle one where a computation of 119 us ends.
    #[test]
    fn lazy_requests_are_obeyed_where_computations_end_which_no_trace_shows() {
        let (mut top, mut machine) = (Block::new(""), Block::new("[machine]"));
        top.line("kernel = \"7.1\"").line("duration = \"253000us\"");
        machine.line("sockets = 2").line("llcs_per_socket = 2");
        let task = |name: &str, policy: &str, instances: u32, run: &str| {
            let mut task = Block::new(format!("[task.{name}]"));
            task.line(format!("policy = \"{policy}\"")).line(format!("instances = {instances}"));
            task.list("steps", vec![format!("{{ run = \"{run}\" }}")]);
            task
        };
        let tasks = [task("t2", "idle", 4, "119us"), task("t3", "idle", 1, "9000us"), task("t4", "batch", 1, "700us")];
        let draft = Draft { blocks: [top, machine].into_iter().chain(tasks).collect(), ..Draft::default() };
        assert_eq!(draft.plan().expect("valid").config.settings.preempt, Preempt::Lazy);
        let part = importable(&draft).expect("computing tasks");
        assert_eq!(part.plan().expect("valid").config.settings.preempt, Preempt::Full);
        assert_eq!(not_imported(&part), None);
    }

    /// Seed 913, number 72639: a sleep ends at the instant at which another task stops.
    #[test]
    fn a_timer_that_fires_within_a_switch_is_not_compared() {
        let draft = Draft::of_text(AT_ONCE);
        assert!(wakes_at_once(&traced(&draft.plan().expect("valid")).expect("it runs")));
        assert_eq!(not_imported(&draft), None);
    }

    /// A task that sleeps by a slack that its recording has already sleeps longer when imported.
    #[test]
    fn an_import_that_is_another_run_is_found() {
        let text = |slack: &str| {
            format!(
                "kernel = \"6.12\"\nduration = \"20ms\"\ncosts = \"zero\"\n[machine]\ncpus = 1\n[settings]\ntimer_slack_ns = {slack}\n\
                 [task.a]\nsteps = [{{ run = \"1ms\" }}, {{ sleep = \"100us\" }}, {{ run = \"2ms\" }}, {{ sleep = \"3ms\" }}]\n"
            )
        };
        assert_eq!(not_imported(&Draft::of_text(&text("0"))), None);
        let found = not_imported(&Draft::of_text(&text("50000"))).expect("it is another run");
        assert!(found.contains("CPU time differs by"), "{found}");
    }
}

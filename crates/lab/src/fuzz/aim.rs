//! [`aim`]: moves changes to moments at which the run is in an awkward state.
//!
//! Faults of interactions are found where two things overlap: a CPU goes offline while its task is
//! throttled, a group's limit is set while a task of it is boosted. Such states last microseconds,
//! and random times seldom fall into them. Ticks and ends of periods, which `changes` prefers, are
//! known before the run; these states are not. So the draft is run once, the instants at which such
//! states begin are collected, and some changes move there, or a few nanoseconds behind.
//!
//! The first change that moved finds exactly the state that was seen. It alters the rest of the
//! run, so later ones can miss theirs, which costs nothing: they are as random as before.

use super::dice::Dice;
use super::draft::{Block, Draft};
use super::judge::{enough, guarded};
use zerolag::simulation::Plan;
use zerolag_model::{Instant, Record, TraceEvent};
use zerolag_sim::{Sink, Tracing};
use zerolag_workload::{LoadOptions, load};

/// Moves some of the changes of a draft. A draft that is refused, or that panics, stays as it is:
/// to judge it is not the task of this function.
pub(super) fn aim(dice: &mut Dice, draft: &mut Draft) {
    let is_change = |block: &&mut Block| block.head == "[[change]]";
    if !draft.blocks.iter_mut().any(|block| is_change(&block)) {
        return;
    }
    let moments = guarded(|| watch(&draft.to_string())).unwrap_or_default();
    if moments.is_empty() {
        return;
    }
    let mut pick =
        |_| moments[dice.of(0, moments.len() as u64 - 1) as usize].as_nanos() + dice.of(0, 2) * dice.of(0, 40);
    // A CPU goes offline and comes back in turn, so these changes keep their order.
    let (hotplug, others): (Vec<&mut Block>, Vec<&mut Block>) =
        draft.blocks.iter_mut().filter(is_change).partition(|block| block.value("cpu").is_some());
    let mut times: Vec<u64> = (0..hotplug.len()).map(&mut pick).collect();
    times.sort_unstable();
    times.dedup();
    if times.len() == hotplug.len() {
        for (block, at) in hotplug.into_iter().zip(times) {
            block.set("at", &format!("\"{at}ns\""));
        }
    }
    for (nth, block) in others.into_iter().enumerate().filter(|(nth, _)| nth % 2 == 0) {
        let at = pick(nth);
        block.set("at", &format!("\"{at}ns\""));
    }
}

/// Runs a draft and returns the instants at which awkward states begin, at most one per kind and
/// millisecond: a kind that is frequent must not hide the others.
fn watch(text: &str) -> Option<Vec<Instant>> {
    let plan = Plan::new(load("aim.toml", text.as_bytes(), &LoadOptions::default()).ok()?).ok()?;
    let mut seen = Moments::default();
    let _ = plan.build(Tracing::On).ok()?.run_with(&mut seen, enough);
    Some(seen.at)
}

#[derive(Default)]
struct Moments {
    at: Vec<Instant>,
    /// The millisecond of the last moment of each kind.
    last: [Option<u64>; KINDS],
}

/// How many kinds of moments [`kind`] tells apart.
const KINDS: usize = 12;

/// Returns the kind of moment at which a state begins that others seldom meet.
const fn kind(event: &TraceEvent) -> Option<usize> {
    Some(match event {
        TraceEvent::Throttle { .. } => 0,
        TraceEvent::Boost { .. } => 1,
        TraceEvent::TaskThrottle { .. } => 2,
        TraceEvent::Proxy { .. } => 3,
        TraceEvent::DlThrottle { .. } => 4,
        TraceEvent::RtThrottle { .. } => 5,
        TraceEvent::Server { .. } => 6,
        TraceEvent::Migrate { .. } => 7,
        TraceEvent::PrioInherit { .. } => 8,
        TraceEvent::LockContended { .. } => 9,
        TraceEvent::Hotplug { .. } => 10,
        TraceEvent::Waking { .. } => 11,
        _ => return None,
    })
}

impl Sink for Moments {
    fn record(&mut self, record: &Record) {
        let Some(kind) = kind(&record.event) else { return };
        let millisecond = record.at.as_nanos() / 1_000_000;
        if self.last[kind] != Some(millisecond) && record.at > Instant::ZERO {
            self.last[kind] = Some(millisecond);
            self.at.push(record.at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerolag_model::Duration;

    const TEXT: &str = "kernel = \"6.12\"\nduration = \"30ms\"\ncosts = \"zero\"\n\n\
        [machine]\ncpus = 1\n\n[group.\"/g\"]\n\"cpu.max\" = \"2000 10000\"\n\n\
        [task.a]\ngroup = \"/g\"\nsteps = [{ run = \"1h\" }]\n";

    #[test]
    fn the_moments_of_throttling_are_seen() {
        let moments = watch(TEXT).expect("it runs");
        // At the tick after its quota is used up; the second period repays what it took too much.
        let ticks = [4, 20].map(|ms| Instant::ZERO + Duration::from_millis(ms));
        assert_eq!(moments, ticks);
    }

    #[test]
    fn changes_move_there_and_nothing_else_does() {
        let mut change = Block::new("[[change]]");
        change.line("at = \"1us\"").line("task = \"a\"").line("nice = 5");
        let mut task = Block::new("[task.a]");
        task.line("group = \"/g\"").list("steps", vec!["{ run = \"1h\" }".to_owned()]);
        let mut group = Block::new("[group.\"/g\"]");
        group.line("\"cpu.max\" = \"2000 10000\"");
        let mut top = Block::new("");
        top.line("kernel = \"6.12\"").line("duration = \"30ms\"");
        let before = Draft { blocks: vec![top, group, task, change], twin: None };
        let mut aimed = before.clone();
        aim(&mut Dice::from_state(1), &mut aimed);
        let at = aimed.blocks[3].value("at").expect("a time");
        assert!(at.ends_with("ns\"") && aimed.blocks[..3] == before.blocks[..3], "{aimed}");
        let mut again = before;
        aim(&mut Dice::from_state(1), &mut again);
        assert_eq!(again, aimed, "the same dice, the same moments");
    }

    #[test]
    fn a_draft_that_is_refused_stays() {
        let mut task = Block::new("[task.a]");
        task.list("steps", vec!["{ rum = \"1h\" }".to_owned()]);
        let mut change = Block::new("[[change]]");
        change.line("at = \"1us\"").line("task = \"a\"").line("nice = 5");
        let before = Draft { blocks: vec![Block::new(""), task, change], twin: None };
        let mut aimed = before.clone();
        aim(&mut Dice::from_state(1), &mut aimed);
        assert_eq!(aimed, before);
    }
}

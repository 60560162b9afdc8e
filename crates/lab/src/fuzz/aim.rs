//! [`aim`]: moves changes to moments at which the run is in an awkward state, and its end into the
//! middle of something.
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
use zerolag_model::{Instant, Record, TraceEvent};
use zerolag_sim::{Sink, Tracing};

/// Moves some of the changes of a draft. A draft that is refused, or that panics, stays as it is:
/// to judge it is not the task of this function.
pub(super) fn aim(dice: &mut Dice, draft: &mut Draft) {
    let is_change = |block: &&mut Block| block.head == "[[change]]";
    let has_changes = draft.blocks.iter_mut().any(|block| is_change(&block));
    let ends_anywhere = dice.once_in(2);
    if !has_changes && !ends_anywhere {
        return;
    }
    let Moments { at: moments, any, .. } = guarded(|| watch(draft)).unwrap_or_default();
    if ends_anywhere && !any.is_empty() {
        end_at(dice, &any, draft);
    }
    if moments.is_empty() || !has_changes {
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

/// Lets the run end in the middle of something: at a record, or within the operation that follows
/// it. The first half of the run stays.
fn end_at(dice: &mut Dice, any: &[Instant], draft: &mut Draft) {
    let at = any[dice.of(any.len() as u64 / 2, any.len() as u64 - 1) as usize].as_nanos();
    let within = dice.pick(&[0, 1, 40, 300, 2_000]);
    let end = at + if within > 1 { dice.of(0, within) } else { within };
    if let Some(top) = draft.blocks.first_mut().filter(|_| end > 0) {
        top.set("duration", &format!("\"{end}ns\""));
    }
}

/// Runs a draft and returns the instants at which awkward states begin, at most one per kind and
/// millisecond: a kind that is frequent must not hide the others.
fn watch(draft: &Draft) -> Option<Moments> {
    let mut seen = Moments::default();
    let _ = draft.plan().ok()?.build(Tracing::On).ok()?.run_with(&mut seen, enough);
    Some(seen)
}

#[derive(Default)]
struct Moments {
    at: Vec<Instant>,
    /// The millisecond of the last moment of each kind.
    last: [Option<u64>; KINDS],
    records: u64,
    /// The time of each [`EVERY`]th record, of any kind.
    any: Vec<Instant>,
}

/// One record in so many is a possible end. A prime: what repeats does not always meet the same.
const EVERY: u64 = 37;

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
        TraceEvent::RtThrottle { .. } | TraceEvent::RtGroupThrottle { .. } => 5,
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
        self.records += 1;
        if self.records.is_multiple_of(EVERY) {
            self.any.push(record.at);
        }
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
    fn a_run_can_end_at_any_record() {
        let ends: std::collections::BTreeSet<String> = (0..40)
            .map(|state| {
                let mut draft = Draft::of_text("kernel = \"6.12\"\nseed = 1");
                draft.blocks[0].line("duration = \"30ms\"");
                let mut task = Block::new("[task.a]");
                task.line("instances = 9").list("steps", vec!["{ run = \"70us\" }, { sleep = \"10us\" }".to_owned()]);
                draft.blocks.push(task);
                aim(&mut Dice::from_state(state), &mut draft);
                draft.blocks[0].value("duration").expect("a duration").to_owned()
            })
            .collect();
        assert!(ends.len() > 10 && ends.contains("\"30ms\""), "{ends:?}");
    }

    #[test]
    fn the_moments_of_throttling_are_seen() {
        let moments = watch(&Draft::of_text(TEXT)).expect("it runs").at;
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
        let before = Draft { blocks: vec![top, group, task, change], ..Draft::default() };
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
        let before = Draft { blocks: vec![Block::new(""), task, change], ..Draft::default() };
        let mut aimed = before.clone();
        aim(&mut Dice::from_state(1), &mut aimed);
        assert_eq!(aimed, before);
    }
}

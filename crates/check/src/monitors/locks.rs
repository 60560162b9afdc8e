//! `locks`: locks and lent turns (`proxy_exec`) are used correctly.
//!
//! 1. A lock is released by its holder, while the holder runs. So no task loses a lock by being
//!    throttled or preempted.
//! 2. An executor is the end of the chain of holders that its donor waits for, and no turn is used
//!    twice at once. So lent time is charged once: the donor neither runs meanwhile nor lends to
//!    two tasks.
//! 3. A circle of waits ends the run, which then names the tasks of the circle.
//!
//! Complexity: O(length of the chain) per wait and loan, O(1) otherwise.

use crate::monitor::{Context, Monitor, Outcome};
use crate::report::{Findings, label};
use std::collections::BTreeMap;
use zerolag_model::{Instant, Record, TaskId, TraceEvent};
use zerolag_trace::Replay;
use zerolag_trace::replay::TaskState;

#[derive(Default)]
struct LocksMonitor {
    holders: BTreeMap<u32, Vec<TaskId>>,
    /// The lock that each task waits for.
    wanted: BTreeMap<TaskId, u32>,
    /// Executor by donor.
    loans: BTreeMap<TaskId, TaskId>,
    /// Since when tasks wait for each other in a circle, and one of them.
    circle: Option<(Instant, TaskId)>,
    has_judged: bool,
}

pub(super) fn begin(context: &Context<'_>) -> Result<Box<dyn Monitor>, String> {
    if !context.meta.source.is_complete() {
        return Err("a recorded trace does not say which task holds which lock".to_owned());
    }
    Ok(Box::new(LocksMonitor::default()))
}

impl Monitor for LocksMonitor {
    fn before(&mut self, before: &Replay, record: &Record, found: &mut Findings) {
        if let Some((since, task)) = self.circle.filter(|(since, _)| record.at > *since) {
            self.circle = None;
            found.push(record.at, None, &[task], || {
                format!("{} waits for itself in a circle since {since}, and the run goes on", label(before, task))
            });
        }
        match &record.event {
            TraceEvent::WaitLock { task, lock, .. } => {
                self.wanted.insert(*task, *lock);
                if self.leads_to(*task, *task) {
                    self.circle = Some((record.at, *task));
                }
            }
            TraceEvent::TakeLock { task, lock } => {
                self.wanted.remove(task);
                self.holders.entry(*lock).or_default().push(*task);
            }
            TraceEvent::DropLock { task, lock } => self.give_up(before, *task, *lock, record, found),
            TraceEvent::Proxy { task, donor: Some(donor), .. } => self.lend(before, *task, *donor, record, found),
            TraceEvent::Proxy { task, donor: None, .. } => self.loans.retain(|_, executor| executor != task),
            TraceEvent::Switch { prev, next, .. } => self.switch(before, *prev, *next, record, found),
            // No other event concerns locks.
            _ => {}
        }
    }

    fn finish(&mut self, _: &Replay, _: Instant, _: &mut Findings) -> Outcome {
        if self.has_judged { Outcome::Judged } else { Outcome::NothingToJudge("no lock is taken") }
    }
}

impl LocksMonitor {
    /// Returns whether the chain of locks and holders from one task leads to another. A lock with
    /// several holders ends the chain.
    fn leads_to(&self, from: TaskId, to: TaskId) -> bool {
        let mut at = from;
        for _ in 0..=self.wanted.len() {
            let holders = self.wanted.get(&at).and_then(|lock| self.holders.get(lock));
            let Some([holder]) = holders.map(Vec::as_slice) else { return false };
            if *holder == to {
                return true;
            }
            at = *holder;
        }
        false
    }

    fn give_up(&mut self, before: &Replay, task: TaskId, lock: u32, record: &Record, found: &mut Findings) {
        self.has_judged = true;
        let holders = self.holders.entry(lock).or_default();
        let place = holders.iter().position(|holder| *holder == task);
        match place {
            Some(place) => {
                holders.remove(place);
            }
            None => found.push(record.at, Some(record.cpu), &[task], || {
                format!("{} gives lock {lock} up, which it does not have", label(before, task))
            }),
        }
        let runs = before.task(task).is_some_and(|view| matches!(view.state, TaskState::Running { .. }));
        if !runs {
            found.push(record.at, Some(record.cpu), &[task], || {
                format!("{} loses lock {lock} while it does not run", label(before, task))
            });
        }
    }

    fn lend(&mut self, before: &Replay, task: TaskId, donor: TaskId, record: &Record, found: &mut Findings) {
        self.has_judged = true;
        if !self.leads_to(donor, task) {
            found.push(record.at, Some(record.cpu), &[task, donor], || {
                let (task, donor) = (label(before, task), label(before, donor));
                format!("{task} runs on the turn of {donor}, which does not wait for it")
            });
        }
        if let Some(other) = self.loans.insert(donor, task) {
            found.push(record.at, Some(record.cpu), &[task, donor], || {
                let (task, donor, other) = (label(before, task), label(before, donor), label(before, other));
                format!("{task} runs on the turn of {donor}, on which {other} runs")
            });
        }
    }

    fn switch(
        &mut self,
        before: &Replay,
        prev: Option<TaskId>,
        next: Option<TaskId>,
        record: &Record,
        found: &mut Findings,
    ) {
        let left = prev.filter(|prev| Some(*prev) != next && self.loans.values().any(|executor| executor == prev));
        if let Some(task) = left {
            found.push(record.at, Some(record.cpu), &[task], || {
                format!("{} is left and still runs on another's turn", label(before, task))
            });
        }
        if let Some(task) = next.filter(|next| self.loans.contains_key(next)) {
            found.push(record.at, Some(record.cpu), &[task], || {
                format!("{} runs while another runs on its turn", label(before, task))
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::monitors::tests::{breaks, holds};
    use zerolag_model::TraceEvent;
    use zerolag_model::attr::Prio;
    use zerolag_trace::script::Script;

    fn proxy(task: zerolag_model::TaskId, donor: Option<zerolag_model::TaskId>) -> TraceEvent {
        TraceEvent::Proxy { task, donor, prio: Prio::FIRST_FAIR }
    }

    /// `a` holds lock 0 and is queued on CPU 0; `b` waits for it and lends its turn.
    fn lent() -> (Script, zerolag_model::TaskId, zerolag_model::TaskId) {
        let mut script = Script::new(2);
        let (a, b) = (script.fair("a"), script.fair("b"));
        script.wake(0, 0, a).run(0, 0, None, Some(a));
        script.event(1, 0, TraceEvent::TakeLock { task: a, lock: 0 });
        script.wake(2, 0, b).preempt(2, 0, a, b);
        script.event(3, 0, TraceEvent::WaitLock { task: b, lock: 0, holder: Some(a) });
        script.event(3, 0, proxy(a, Some(b)));
        script.run(3, 0, Some(b), Some(a));
        (script, a, b)
    }

    #[test]
    fn a_turn_is_lent_to_the_holder_and_given_back() {
        let (mut script, a, b) = lent();
        script.event(4, 0, TraceEvent::DropLock { task: a, lock: 0 }).wake(4, 0, b);
        script.event(4, 0, proxy(a, None)).preempt(4, 0, a, b);
        holds("locks", &script.end(5));
    }

    #[test]
    fn every_disorder_is_named() {
        let (mut script, a, b) = lent();
        script.event(4, 1, proxy(b, Some(b)));
        breaks("locks", &script.end(5), "b (task 1) runs on the turn of b (task 1), which does not wait for it");
        let (mut script, ..) = lent();
        script.event(4, 1, proxy(a, Some(b)));
        breaks("locks", &script.end(5), "a (task 0) runs on the turn of b (task 1), on which a (task 0) runs");
        let (mut script, ..) = lent();
        script.preempt(4, 0, a, b);
        breaks("locks", &script.end(5), "a (task 0) is left and still runs on another's turn");
        let (mut script, ..) = lent();
        script.run(4, 1, None, Some(b));
        breaks("locks", &script.end(5), "b (task 1) runs while another runs on its turn");
        let (mut script, ..) = lent();
        script.event(4, 0, TraceEvent::DropLock { task: b, lock: 0 });
        breaks("locks", &script.end(5), "b (task 1) gives lock 0 up, which it does not have");
        let (mut script, ..) = lent();
        script.event(4, 0, proxy(a, None)).run(4, 0, Some(a), None);
        script.event(5, 0, TraceEvent::DropLock { task: a, lock: 0 });
        breaks("locks", &script.end(6), "a (task 0) loses lock 0 while it does not run");
        let (mut script, ..) = lent();
        script.event(4, 0, TraceEvent::WaitLock { task: a, lock: 0, holder: Some(a) });
        script.event(5, 0, TraceEvent::Syscall { task: a, enters: false });
        breaks(
            "locks",
            &script.end(6),
            "a (task 0) waits for itself in a circle since 0.000004000, and the run goes on",
        );
    }
}

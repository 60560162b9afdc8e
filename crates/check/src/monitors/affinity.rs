//! `affinity`: a task is queued and runs only on CPUs that it may use.
//!
//! Checked at wakeups, migrations and switches. A task whose affinity changes while it runs
//! continues until it is migrated, so the change itself is no violation. A task whose CPUs are all
//! offline runs elsewhere (`select_fallback_rq`), and goes on there when one of them comes back,
//! until it is placed again. So does one that waits elsewhere when its affinity becomes such CPUs.
//! A switch whose event comes later than its decision ([`Options::late_switch`](crate::Options))
//! has a task that was allowed there when it was chosen.

use crate::monitor::{Context, Monitor, Outcome};
use crate::report::{Findings, label};
use zerolag_model::{CpuId, Duration, Instant, Record, TaskId, TraceEvent};
use zerolag_trace::{IdTable, Replay};

struct AffinityMonitor {
    is_complete: bool,
    masks: u64,
    /// Whether all CPUs of a task were offline when it was placed, or got them.
    homeless: IdTable<TaskId, bool>,
    late_switch: Duration,
    /// When the affinity of each task last changed.
    changed: IdTable<TaskId, Option<Instant>>,
}

pub(super) fn begin(context: &Context<'_>) -> Result<Box<dyn Monitor>, String> {
    Ok(Box::new(AffinityMonitor {
        is_complete: context.meta.source.is_complete(),
        masks: 0,
        homeless: IdTable::default(),
        late_switch: context.late_switch(),
        changed: IdTable::default(),
    }))
}

impl Monitor for AffinityMonitor {
    fn before(&mut self, before: &Replay, record: &Record, found: &mut Findings) {
        let (task, cpu, does): (TaskId, CpuId, &str) = match &record.event {
            TraceEvent::Affinity { task, cpus } => {
                self.masks += 1;
                *self.changed.entry(*task) = Some(record.at);
                let rq = before.task(*task).and_then(|view| view.rq);
                let is_offline = |cpu| before.cpu(cpu).online_since().is_none();
                *self.homeless.entry(*task) = rq.is_some_and(|rq| !cpus.contains(rq)) && cpus.iter().all(is_offline);
                return;
            }
            TraceEvent::Wakeup { task, .. } => (*task, record.cpu, "is queued"),
            TraceEvent::Migrate { task, to, .. } => (*task, *to, "is moved to be"),
            TraceEvent::Switch { next: Some(next), .. } => (*next, record.cpu, "runs"),
            // Nothing else places a task.
            _ => return,
        };
        let Some(view) = before.task(task) else { return };
        let is_offline = |cpu| before.cpu(cpu).online_since().is_none();
        let may_run = view.may_run_on(cpu);
        let is_homeless = !may_run && view.affinity.as_ref().is_some_and(|own| own.iter().all(is_offline));
        let excused = self.homeless.entry(task);
        if !matches!(record.event, TraceEvent::Switch { .. }) {
            *excused = is_homeless;
        }
        let is_switch = matches!(record.event, TraceEvent::Switch { .. });
        let since_change = self.changed.get(task).copied().flatten().map(|changed| record.at.since(changed));
        let was_chosen_before = is_switch && since_change.is_some_and(|since| since < self.late_switch);
        if !may_run && !is_homeless && !*excused && !was_chosen_before {
            found.push(record.at, Some(cpu), &[task], || {
                let cpus = view.affinity.as_ref().map_or_else(String::new, ToString::to_string);
                format!("{} {does} on cpu {cpu}, but may use {cpus} only", label(before, task))
            });
        }
    }

    fn finish(&mut self, _: &Replay, _: Instant, _: &mut Findings) -> Outcome {
        if self.masks == 0 && !self.is_complete {
            return Outcome::NothingToJudge("the trace does not say where tasks may run");
        }
        Outcome::Judged
    }
}

#[cfg(test)]
mod tests {
    use crate::monitors::tests::{breaks, holds};
    use zerolag_model::{MigrateReason, TraceEvent};
    use zerolag_trace::script::Script;

    /// A task of CPU 1 is moved to CPU 0: its own CPU must be offline.
    #[test]
    fn a_task_runs_elsewhere_only_while_its_cpus_are_offline() {
        let moved = |offline: bool| {
            let mut script = Script::new(2);
            let a = script.fair("a");
            script.affinity(0, a, "1").wake(0, 1, a).run(0, 1, None, Some(a));
            if offline {
                script.event(5, 1, TraceEvent::Hotplug { online: false });
            }
            script.migrate(6, a, 1, 0, MigrateReason::Affinity).end(10)
        };
        holds("affinity", &moved(true));
        breaks("affinity", &moved(false), "a (task 0) is moved to be on cpu 0, but may use 1 only");
    }

    /// Its CPU comes back before it runs elsewhere: it goes on there, until it is placed again.
    #[test]
    fn a_task_that_was_placed_while_its_cpus_were_offline_goes_on_there() {
        let mut script = Script::new(2);
        let a = script.fair("a");
        script.affinity(0, a, "1").event(1, 1, TraceEvent::Hotplug { online: false }).wake(2, 0, a);
        script.event(3, 1, TraceEvent::Hotplug { online: true }).run(4, 0, None, Some(a));
        holds("affinity", &script.end(10));
        script.run(5, 0, Some(a), None).wake(6, 0, a);
        breaks("affinity", &script.end(10), "a (task 0) is queued on cpu 0, but may use 1 only");
    }

    /// A task that waits on CPU 0 may only use CPU 1 from 3 on, which is offline until 5.
    #[test]
    fn a_task_whose_new_cpus_are_offline_goes_on_where_it_waits() {
        let changed = |back_at: u64| {
            let mut script = Script::new(2);
            let a = script.fair("a");
            script.affinity(0, a, "0").event(1, 1, TraceEvent::Hotplug { online: false }).wake(2, 0, a);
            if back_at < 3 {
                script.event(back_at, 1, TraceEvent::Hotplug { online: true }).affinity(3, a, "1");
            } else {
                script.affinity(3, a, "1").event(back_at, 1, TraceEvent::Hotplug { online: true });
            }
            script.run(6, 0, None, Some(a)).end(10)
        };
        holds("affinity", &changed(5));
        breaks("affinity", &changed(2), "a (task 0) runs on cpu 0, but may use 1 only");
    }

    #[test]
    fn a_task_where_it_may_be_holds_and_elsewhere_breaks() {
        let mut script = Script::new(4);
        let a = script.fair("a");
        script.affinity(0, a, "1-2").wake(0, 1, a).run(0, 1, None, Some(a));
        // The change itself is no violation while the task still runs there.
        script.affinity(5, a, "2-3");
        holds("affinity", &script.end(10));
        script.preempt(6, 1, a, a);
        breaks("affinity", &script.end(10), "a (task 0) runs on cpu 1, but may use 2-3 only");

        let mut script = Script::new(4);
        let a = script.fair("a");
        script.affinity(0, a, "1-2").wake(0, 0, a);
        breaks("affinity", &script.end(10), "a (task 0) is queued on cpu 0, but may use 1-2 only");
        let mut script = Script::new(4);
        let a = script.fair("a");
        script.affinity(0, a, "1-2").wake(0, 1, a).migrate(1, a, 1, 3, MigrateReason::Push);
        breaks("affinity", &script.end(10), "a (task 0) is moved to be on cpu 3, but may use 1-2 only");
    }
}

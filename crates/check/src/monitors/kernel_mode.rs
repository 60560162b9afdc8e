//! `kernel-mode`: where throttling spares kernel mode, no task is stopped inside a system call, so
//! no task waits for a lock that a throttled task took there.
//!
//! * Under `throttle = at_user_return` a task is never dequeued between the beginning and the end
//!   of a system call.
//! * Under `boost_in_kernel` a task that is queued in a system call, on a CPU where its group is
//!   throttled, is boosted.
//! * The other values promise less and are not judged. Recorded kernels do not say which tasks they
//!   throttle.
//!
//! Complexity: O(tasks in system calls) per switch.

use crate::monitor::{Context, Monitor, Outcome};
use crate::report::{Findings, label};
use std::collections::BTreeSet;
use zerolag_model::{ClassId, Instant, Record, TaskId, TraceEvent};
use zerolag_trace::Replay;
use zerolag_trace::groups::Groups;
use zerolag_trace::replay::TaskState;

struct KernelMode {
    groups: Groups,
    inside: BTreeSet<TaskId>,
    has_judged: bool,
}

pub(super) fn begin(context: &Context<'_>) -> Result<Box<dyn Monitor>, String> {
    let throttle = context.meta.setting("throttle");
    match throttle {
        Some("at_user_return" | "boost_in_kernel") => {
            Ok(Box::new(KernelMode { groups: Groups::new(throttle), inside: BTreeSet::new(), has_judged: false }))
        }
        _ => Err("throttling does not spare kernel mode here".to_owned()),
    }
}

impl Monitor for KernelMode {
    fn before(&mut self, before: &Replay, record: &Record, found: &mut Findings) {
        match &record.event {
            TraceEvent::Syscall { task, enters: true } => {
                self.inside.insert(*task);
            }
            TraceEvent::Syscall { task, enters: false } | TraceEvent::TaskExit { task } => {
                self.inside.remove(task);
            }
            TraceEvent::TaskThrottle { task, throttled: true } => {
                self.has_judged = true;
                if self.inside.contains(task) {
                    found.push(record.at, Some(record.cpu), &[*task], || {
                        format!("{} is taken off inside a system call", label(before, *task))
                    });
                }
            }
            TraceEvent::Switch { .. } => {
                for task in &self.inside {
                    let Some(view) = before.task(*task) else { continue };
                    let waits_here = matches!(view.state, TaskState::Queued { .. }) && view.rq == Some(record.cpu);
                    let Some(group) = self.groups.throttled_on(*task, record.cpu) else { continue };
                    self.has_judged = true;
                    if waits_here && view.prio.class() == ClassId::Fair {
                        found.push(record.at, Some(record.cpu), &[*task], || {
                            format!(
                                "{} waits inside a system call, not boosted, while group {group} is throttled there",
                                label(before, *task)
                            )
                        });
                    }
                }
            }
            // No other event stops a task.
            _ => {}
        }
    }

    fn after(&mut self, _: &Replay, record: &Record) {
        self.groups.apply(record);
    }

    fn finish(&mut self, _: &Replay, _: Instant, _: &mut Findings) -> Outcome {
        if self.has_judged { Outcome::Judged } else { Outcome::NothingToJudge("nothing was throttled") }
    }
}

#[cfg(test)]
mod tests {
    use crate::monitors::tests::{breaks, holds, not_applicable};
    use zerolag_model::{GroupId, TraceEvent};
    use zerolag_trace::Trace;
    use zerolag_trace::script::Script;

    const GROUP: GroupId = GroupId(1);

    /// `a` is in a system call from 1 ms to `leaves`, and is dequeued at 5 ms.
    fn taken_off(leaves: u64) -> Trace {
        let mut script = Script::new(1);
        let a = script.fair("a");
        script.event(0, 0, TraceEvent::GroupNew { group: GROUP, parent: GroupId::ROOT, path: "/a".into() });
        script.event(0, 0, TraceEvent::GroupChange { task: a, group: GROUP });
        script.event(1_000, 0, TraceEvent::Syscall { task: a, enters: true });
        script.event(leaves.min(5_000), 0, TraceEvent::Syscall { task: a, enters: leaves > 5_000 });
        script.event(5_000, 0, TraceEvent::TaskThrottle { task: a, throttled: true });
        let mut trace = script.end(10_000);
        trace.meta.settings.push(("throttle".to_owned(), "at_user_return".to_owned()));
        trace
    }

    #[test]
    fn a_task_is_taken_off_in_user_mode_only() {
        holds("kernel-mode", &taken_off(5_000));
        breaks("kernel-mode", &taken_off(7_000), "a (task 0) is taken off inside a system call");
    }

    #[test]
    fn the_other_values_promise_less() {
        let trace = Script::new(1).end(10);
        not_applicable("kernel-mode", &trace, "throttling does not spare kernel mode here");
    }
}

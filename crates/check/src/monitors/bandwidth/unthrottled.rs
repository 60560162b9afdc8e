//! [`LastUnthrottled`]: whether a CPU that was unthrottled has repaid what it ran while throttled.
//!
//! A CPU is unthrottled because it got quota, or because its queue is empty: then it still owes. A
//! trace says the same of both. The queue is empty if the running task blocks at the next switch,
//! if a task is moved away at that instant, or if the running task is stopped by that switch and
//! moved away before it runs there again (active balancing, `active_load_balance_cpu_stop`). A CPU
//! that is throttled again in the same path had an empty queue too: tasks that waited parked there
//! are next.

use zerolag_model::{CpuId, Duration, GroupId, Instant, PrevState, TaskId};
use zerolag_trace::IdTable;

/// What a CPU ran for a group while it was throttled.
#[derive(Clone, Copy)]
pub(super) struct Debt {
    pub(super) group: GroupId,
    pub(super) overrun: Duration,
    /// It is not repaid; or it was thought so, and is.
    pub(super) is_owed: bool,
}

/// A group that was unthrottled on a CPU.
#[derive(Clone, Copy)]
struct Unthrottled {
    group: GroupId,
    at: Instant,
    /// What it had run there while it was throttled.
    overrun: Duration,
    /// The running task that the CPU stopped by the switch that followed, until it is moved away or
    /// runs there again; the overrun counts as not repaid so long.
    stopped: Option<TaskId>,
}

impl Unthrottled {
    const fn debt(self, is_owed: bool) -> Debt {
        Debt { group: self.group, overrun: self.overrun, is_owed }
    }
}

/// A switch of a CPU.
#[derive(Clone, Copy)]
pub(super) struct Switched {
    pub(super) at: Instant,
    pub(super) prev: Option<TaskId>,
    pub(super) prev_state: PrevState,
    pub(super) next: Option<TaskId>,
}

/// Of each CPU the last unthrottlings.
#[derive(Default)]
pub(super) struct LastUnthrottled {
    cpus: IdTable<CpuId, Vec<Unthrottled>>,
}

impl LastUnthrottled {
    /// A group is unthrottled on a CPU, perhaps because it got quota.
    pub(super) fn add(&mut self, cpu: CpuId, group: GroupId, at: Instant, overrun: Duration) {
        self.cpus.entry(cpu).push(Unthrottled { group, at, overrun, stopped: None });
    }

    /// A CPU switches, `path` after the decision at the latest.
    pub(super) fn switch(&mut self, cpu: CpuId, switch: Switched, path: Duration) -> Vec<Debt> {
        let mut debts = Vec::new();
        self.cpus.entry(cpu).retain_mut(|last| match (last.stopped, switch.prev_state) {
            (Some(_), _) if last.stopped == switch.next => {
                debts.push(last.debt(false)); // It was not moved away.
                false
            }
            (Some(_), _) => true,
            (None, PrevState::Runnable) => {
                last.stopped = switch.prev.filter(|_| switch.at.since(last.at) <= path);
                debts.extend(last.stopped.map(|_| last.debt(true)));
                last.stopped.is_some()
            }
            (None, _) => {
                debts.extend((switch.at.since(last.at) <= path).then(|| last.debt(true)));
                false
            }
        });
        debts
    }

    /// A group is throttled again on a CPU, `path` after it was unthrottled at the latest. Returns
    /// what it still owes.
    pub(super) fn throttle(&mut self, cpu: CpuId, group: GroupId, at: Instant, path: Duration) -> Duration {
        let is_again =
            |last: &mut Unthrottled| last.group == group && last.stopped.is_none() && at.since(last.at) <= path;
        self.cpus.entry(cpu).extract_if(.., is_again).map(|last| last.overrun).sum()
    }

    /// A task of a group is moved away from a CPU.
    pub(super) fn migrate(&mut self, from: CpuId, at: Instant, task: TaskId, group: GroupId) -> Vec<Debt> {
        let empties = |last: &mut Unthrottled| match last.stopped {
            _ if last.group != group => false,
            Some(stopped) => stopped == task,
            None => last.at == at,
        };
        let gone = self.cpus.entry(from).extract_if(.., empties);
        gone.filter(|last| last.stopped.is_none()).map(|last| last.debt(true)).collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::monitors::bandwidth::tests::{GROUP, limited, limited_on};
    use crate::monitors::tests::{breaks, holds};
    use zerolag_model::{CpuMax, Duration, GroupId, MigrateReason, PrevState, TraceEvent};
    use zerolag_trace::script::Script;

    /// The task is moved: its CPU is unthrottled, and the group still owes the 20 ms.
    #[test]
    fn a_cpu_whose_last_task_is_moved_has_not_repaid() {
        let unthrottled_at = |us: u64| {
            let mut script = Script::new(2);
            let (a, b) = (script.fair("a"), script.fair("b"));
            script.event(0, 0, TraceEvent::GroupNew { group: GROUP, parent: GroupId::ROOT, path: "/a".into() });
            script.event(0, 0, TraceEvent::GroupChange { task: a, group: GROUP });
            let max = CpuMax { quota: Some(Duration::from_millis(10)), ..CpuMax::UNLIMITED };
            script.event(0, 0, TraceEvent::GroupMax { group: GROUP, max });
            script.wake(0, 0, a).wake(0, 0, b).run(0, 0, None, Some(a));
            script.event(12_000, 0, TraceEvent::Throttle { group: GROUP });
            script.event(12_000, 0, TraceEvent::Boost { task: a, boosted: true });
            script.switch(32_000, 0, Some(a), PrevState::Runnable, Some(b));
            script.event(us, 0, TraceEvent::Unthrottle { group: GROUP });
            script.migrate(32_500, a, 0, 1, MigrateReason::Periodic).run(33_000, 1, None, Some(a));
            script.switch(34_000, 1, Some(a), PrevState::Blocked, None);
            script.end(35_000)
        };
        holds("bandwidth", &unthrottled_at(32_500));
        let says =
            "group 1 has used 33ms in 0 periods and 33ms since; cpu.max 10000 100000 and a slack of 18ms allow less";
        breaks("bandwidth", &unthrottled_at(32_400), says);
    }

    /// The running task is stopped to be moved: its CPU is unthrottled, and the group still owes
    /// the 20 ms.
    #[test]
    fn a_cpu_whose_running_task_is_moved_has_not_repaid() {
        let moved = |us: u64, goes_on: bool| {
            let (mut script, a) = limited_on(2);
            script.event(12_000, 0, TraceEvent::Throttle { group: GROUP });
            script.event(us, 0, TraceEvent::Unthrottle { group: GROUP });
            script.switch(32_000, 0, Some(a), PrevState::Runnable, None);
            if goes_on {
                script.run(32_001, 0, None, Some(a)).switch(32_002, 0, Some(a), PrevState::Runnable, None);
            }
            script.migrate(32_003, a, 0, 1, MigrateReason::Active).run(33_000, 1, None, Some(a));
            script.switch(34_000, 1, Some(a), PrevState::Blocked, None);
            script.end(35_000)
        };
        holds("bandwidth", &moved(32_000, false));
        let says =
            "group 1 has used 32ms in 0 periods and 32ms since; cpu.max 10000 100000 and a slack of 9ms allow less";
        breaks("bandwidth", &moved(31_900, false), says);
        // The switch ends a path of the scheduler that began with the unthrottling.
        let costly = |us: u64| {
            let mut trace = moved(us, false);
            "default".clone_into(&mut trace.meta.costs);
            trace
        };
        holds("bandwidth", &costly(31_999));
        let says = "group 1 has used 31.999ms in 0 periods and 31.999ms since; cpu.max 10000 100000 and a slack of 9ms allow less";
        breaks("bandwidth", &costly(31_900), says);
        let says = "group 1 has used 32.001ms in 0 periods and 32.001ms since; cpu.max 10000 100000 and a slack of 9ms allow less";
        breaks("bandwidth", &moved(32_000, true), says);
    }

    /// The task ends after 20 ms in the kernel while throttled. Its CPU is unthrottled with an
    /// empty queue, throttled again at once for a task that was parked there, and still owes.
    #[test]
    fn a_cpu_that_is_throttled_again_at_once_has_not_repaid() {
        let again_at = |us: u64| {
            let (mut script, a) = limited();
            script.event(12_000, 0, TraceEvent::Throttle { group: GROUP });
            script.event(32_000, 0, TraceEvent::Unthrottle { group: GROUP });
            script.event(us, 0, TraceEvent::Throttle { group: GROUP });
            script.switch(us, 0, Some(a), PrevState::Dead, None);
            script.end(35_000)
        };
        holds("bandwidth", &again_at(32_000));
        let says =
            "group 1 has used 32.1ms in 0 periods and 32.1ms since; cpu.max 10000 100000 and a slack of 9ms allow less";
        breaks("bandwidth", &again_at(32_100), says);
    }
}

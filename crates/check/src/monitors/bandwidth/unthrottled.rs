//! [`LastUnthrottled`]: whether a CPU that was unthrottled has repaid what it ran while throttled.
//!
//! A CPU is unthrottled because it got quota, or because its queue is empty: then it still owes. A
//! trace says the same of both. The queue is empty if the running task blocks at the next switch,
//! if a task is moved away at that instant, or if the running task is stopped at that instant and
//! moved away before it runs there again (active balancing, `active_load_balance_cpu_stop`).

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
    /// The running task that the CPU stopped at that instant, until it is moved away or runs there
    /// again; the overrun counts as not repaid so long.
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
                last.stopped = switch.prev.filter(|_| last.at == switch.at);
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

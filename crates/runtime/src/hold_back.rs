//! Holding tasks back whose group has a processor already, for a poll that has lost its CPU.
//!
//! A poll that has lost its CPU goes on, on a thread that competes with the threads of the CPUs for
//! the processors of the machine. A tenant with eight long polls then had eight threads on two
//! processors: each of its polls started on a CPU, lost it when another tenant's task came, and
//! continued beside it, and the CPU started the next one. A thread of a CPU had to wait for several
//! of them, and a poll that gets no processor is not seen to ignore a request
//! ([`patience`](crate::patience)), so its CPU was handed over late as well.
//!
//! So a group that has polls without a CPU starts a further one only while fewer of its polls are
//! in progress than there are CPUs. A task that is picked and cannot start *is held back*: it
//! sleeps until a poll of its group ends. Rules:
//!
//! * The tasks that are held back wait in a queue of their group. The end of a poll wakes the first
//!   one, and a poll that starts wakes another if there is room for it: of ten thousand tasks that
//!   all woke at each end, all but one were held back again.
//! * A poll counts until it has used [`COUNTS_FOR`] without a CPU, or is seen to sleep in a system
//!   call: a poll that never ends stops its group for that time, and no longer.
//! * Real-time tasks, those that have inherited a loan, and holders of locks are never held back:
//!   others wait for them. Nor are tasks of the root group, whose tasks are not one tenant's.
//!
//! Two CPUs that decide at the same time can start one poll too many: the bound is one on load, on
//! which no promise depends.

use crate::state::detached::{HeldBack, Hold};
use crate::state::engine::{Cpu, Engine};
use crate::state::group::GroupState;
use crate::state::task::Task;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use zerolag_model::Duration;

/// The CPU time for which a poll without a CPU counts.
pub(crate) const COUNTS_FOR: Duration = Duration::from_millis(100);

/// Whether a task that was picked can start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Start {
    HeldBack,
    /// It starts, and its group has as many polls in progress then as it can have.
    AsLast,
    /// It starts, and another one can.
    WithRoom,
}

impl Engine {
    /// Returns whether a picked task has to wait for the end of another poll of its group. If it
    /// does, the caller makes it block. O(CPUs) if a poll of the group has lost its CPU, or if
    /// tasks of the group are held back.
    pub(crate) fn holds_back(self: &Arc<Self>, task: &Arc<Task>) -> bool {
        let HeldBack { tasks, number, detached } = &task.group.held_back;
        if detached.load(Ordering::Acquire) == 0 && number.load(Ordering::Acquire) == 0 {
            return false;
        }
        let start = {
            let mut tasks = tasks.lock();
            number.fetch_add(1, Ordering::SeqCst);
            let start = if Self::can_be_held_back(task) { self.start_of(&task.group) } else { Start::AsLast };
            let hold = task.hold();
            if start == Start::HeldBack {
                match hold {
                    Hold::Free => tasks.push_back(Arc::downgrade(task)),
                    // It was first, and another poll has started before it.
                    Hold::Called => tasks.push_front(Arc::downgrade(task)),
                    Hold::Queued => {}
                }
                task.set_hold(Hold::Queued);
                // What it was woken for is found by the poll that follows.
                task.body.lock().forget_wakeup();
            } else {
                // Its place in the queue, if it has one, is passed over.
                task.set_hold(Hold::Free);
            }
            if start != Start::HeldBack || hold == Hold::Queued {
                number.fetch_sub(1, Ordering::SeqCst);
            }
            start
        };
        if start == Start::WithRoom {
            self.wake_held_back(&task.group);
        }
        start == Start::HeldBack
    }

    fn can_be_held_back(task: &Task) -> bool {
        task.group.parent.is_some()
            && task.kind.is_fair()
            && !task.is_in_kernel()
            && !task.is_inheriting.load(Ordering::Acquire)
            && !task.holds_locks()
    }

    /// Returns whether a task of a group can start: unless the group has polls without a CPU, and
    /// as many in progress as there are CPUs.
    fn start_of(&self, group: &Arc<GroupState>) -> Start {
        let detached = group.held_back.detached.load(Ordering::SeqCst);
        let is_its = |task: &Task| Arc::ptr_eq(&task.group, group);
        let is_polled = |cpu: &&Cpu| cpu.thread.lock().polled().is_some_and(is_its);
        let polls = detached + self.cpus.iter().filter(is_polled).count();
        if detached > 0 && polls >= self.cpus.len() {
            Start::HeldBack
        } else if polls + 1 >= self.cpus.len() {
            Start::AsLast
        } else {
            Start::WithRoom
        }
    }

    /// Wakes the first of the tasks of a group that are held back: one of its polls has ended, or
    /// counts no longer.
    pub(crate) fn wake_held_back(self: &Arc<Self>, group: &Arc<GroupState>) {
        let HeldBack { tasks, number, .. } = &group.held_back;
        if group.held_back.is_empty() {
            return;
        }
        let first = {
            let mut tasks = tasks.lock();
            let first = std::iter::from_fn(|| {
                let first = tasks.pop_front()?;
                number.fetch_sub(1, Ordering::SeqCst);
                Some(first)
            });
            // One that was woken by others meanwhile has started, or has ended.
            let first = first.filter_map(|task| Weak::upgrade(&task)).find(|task| task.hold() == Hold::Queued);
            if let Some(task) = &first {
                task.set_hold(Hold::Called);
            }
            first
        };
        if let Some(task) = first {
            self.wake(&task);
        }
    }

    /// A poll has lost its CPU.
    pub(crate) fn count_detached(group: &GroupState) {
        group.held_back.detached.fetch_add(1, Ordering::SeqCst);
    }

    /// A poll that has lost its CPU has ended, or counts no longer.
    pub(crate) fn discount_detached(self: &Arc<Self>, group: &Arc<GroupState>) {
        group.held_back.detached.fetch_sub(1, Ordering::SeqCst);
        self.wake_held_back(group);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caller::tests::engine;
    use crate::caller::{Caller, Switched};
    use crate::group::Group;
    use zerolag_core::Leave;
    use zerolag_model::CpuId;

    /// Four tasks wait for the end of a poll: it wakes the first, and none of the others.
    #[test]
    fn the_end_of_a_poll_wakes_one() {
        shuttle::check_random(wake_one, 1);
    }

    fn wake_one() {
        let engine = engine();
        let root = Group { state: GroupState::root(&engine) };
        let group = root.group("tenant").create().expect("room");
        let tasks = [(); 4].map(|()| group.spawn(async {}).expect("room").task.clone());
        Engine::count_detached(&group.state);
        let mut caller = Caller::new(&engine, CpuId(0));
        let mut order = Vec::new();
        let mut switched = caller.switch(None, Leave::Preempted);
        while let Switched::To(Some(next)) = switched {
            assert!(engine.holds_back(&next));
            switched = caller.switch(Some(&next), Leave::Block);
            order.push(next);
        }
        drop(caller);
        assert_eq!(order.len(), 4);
        let awake = || tasks.iter().filter(|task| task.body.lock().is_on_queue()).count();
        assert_eq!(awake(), 0);
        engine.wake_held_back(&group.state);
        assert_eq!((awake(), order[0].body.lock().is_on_queue()), (1, true));
        // Another poll was faster: it waits on, before the others.
        let picked = Caller::new(&engine, CpuId(0)).switch(None, Leave::Preempted);
        let Switched::To(Some(first)) = picked else { unreachable!("one is queued") };
        assert!(engine.holds_back(&first));
        let _ = Caller::new(&engine, CpuId(0)).switch(Some(&first), Leave::Block);
        engine.discount_detached(&group.state);
        assert_eq!((awake(), order[0].body.lock().is_on_queue()), (1, true));
        let picked = Caller::new(&engine, CpuId(0)).switch(None, Leave::Preempted);
        let Switched::To(Some(first)) = picked else { unreachable!("one is queued") };
        assert!(!engine.holds_back(&first), "no poll counts any more");
        engine.wake_held_back(&group.state);
        assert_eq!((awake(), order[1].body.lock().is_on_queue()), (2, true));
        engine.end();
    }
}

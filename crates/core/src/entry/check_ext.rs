//! Checks of the tasks of a loaded scheduler, for tests.

use crate::entry::scheduler::Scheduler;
use crate::rq::run_queue::Rq;
use crate::task::body::Task;
use alloc::format;
use alloc::string::String;
use lock_api::RawMutex;
use zerolag_model::{ClassId, CpuId};

impl<L: RawMutex> Scheduler<L> {
    /// Checks that every task of a loaded scheduler on this run queue is in one place: it is
    /// current, on the local queue, or on the machine's. O(tasks, times those of the queues).
    pub(crate) fn check_ext(&self, rq: &Rq) -> Result<(), String> {
        let cpu = rq.cpu();
        let here = rq.tasks.iter().filter(|(_, task)| task.prio.class() == ClassId::Ext);
        let mut tasks = 0;
        for (slot, task) in here {
            tasks += 1;
            let is_current = rq.current_slot() == Some(slot);
            if rq.ext.by_policy {
                self.check_policy(cpu, task, is_current)?;
                continue;
            }
            let is_local = rq.ext.local.iter().filter(|turn| turn.slot == slot).count();
            let is_shared = self.shared.ext.has(task.id);
            let places = usize::from(is_current) + is_local + usize::from(is_shared);
            if places != 1 {
                return Err(format!(
                    "task {} of CPU {cpu} is in {places} places: current {is_current}, local {is_local}, shared {is_shared}",
                    task.id
                ));
            }
        }
        if tasks != rq.ext.nr_running {
            return Err(format!(
                "CPU {cpu} counts {} tasks of the loaded scheduler, but has {tasks}",
                rq.ext.nr_running
            ));
        }
        Ok(())
    }

    /// Checks that a task of a policy is current, or is on a queue or kept by the policy.
    fn check_policy(&self, cpu: CpuId, task: &Task, is_current: bool) -> Result<(), String> {
        let loaded = self.shared.policy.lock();
        let host = loaded.as_ref().map(|loaded| &loaded.host);
        let (waits, home) = (host.is_some_and(|host| host.waits(task.id)), host.and_then(|host| host.home(task.id)));
        if is_current == waits || home != Some(cpu) {
            let id = task.id;
            return Err(format!("task {id} of CPU {cpu}: current {is_current}, waits {waits}, home {home:?}"));
        }
        Ok(())
    }
}

//! Loading and unloading a policy while tasks run, and the bypass.
//!
//! A kernel cannot trust a policy that has seen only a part of the tasks, or has failed. So it
//! *bypasses* the policy meanwhile: tasks are on a queue of the kernel, first in first out, every
//! tick ends a turn, and the policy is told what happens but asked nothing.
//!
//! ```text
//!  begin_load           add_task, enqueue ...            end_load
//!  ops.init        ──►  fair tasks come, one by one  ──► every runnable task is dequeued and
//!  ops.cgroup_init      ops.init_task, ops.enable        enqueued: ops.enqueue
//!
//!  begin_unload         dequeue, remove_task ...         end_unload
//!  every runnable  ──►  tasks go, one by one         ──► ops.exit
//!  task is requeued     ops.disable, ops.exit_task
//!  ops.cgroup_exit
//! ```
//!
//! Requeuing goes CPU by CPU, and there from the task that became runnable last to the first: the
//! kernel walks its list backwards, because each task that it requeues goes to the end. So the
//! policy sees the tasks in that order, and they wait in it.
//!
//! Sources: Linux v7.3 `kernel/sched/ext/ext.c`, `scx_root_enable_workfn`, `scx_root_disable`,
//! `scx_bypass`, `task_tick_scx`; `idle.c`, `__scx_update_idle`. differs: after a fault no callback
//! is called any more, also not `ops.disable`, since the policy may have crashed; all CPUs share
//! the global queue (6.12; since 6.19 each CPU has a bypass queue).

use crate::exit::{ExitInfo, ExitKind};
use crate::host::{Arrival, Departure, Host};
use crate::ops::{Ops, Policy};
use crate::policies::Fifo;
use crate::scx::{CpuState, Effect, Place};
use crate::words::Callback;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use zerolag_model::{CpuId, Duration, TaskId, Topology};

impl Host {
    /// Returns the host of a machine on which no policy is loaded yet.
    #[must_use]
    pub fn unloaded(topology: &Topology, slice_dfl: Duration) -> Self {
        let mut host = Self::load(Box::new(Fifo), topology, slice_dfl);
        host.scx.exit = Some(Box::new(host.exit_by_user()));
        host.scx.bypasses = true;
        host
    }

    /// Begins to load a policy on a machine that runs, on which none is loaded. The host gives it
    /// all tasks that it is to have, in order of their creation, and then
    /// [ends to load](Self::end_load).
    ///
    /// # Panics
    /// If a policy is loaded, or tasks of the last one are still [runnable](Self::has_runnable).
    pub fn begin_load(&mut self, policy: Box<dyn Policy>) {
        assert!(self.scx.exit.is_some(), "one policy at a time is loaded");
        assert!(!self.has_runnable(), "the last policy has left no task");
        self.scx.tasks.clear();
        self.ops = policy.ops();
        self.ops.timeout = self.ops.timeout.min(Ops::TIMEOUT_MAX);
        self.policy = policy;
        self.scx.name.clone_from(&self.ops.name);
        self.scx.max_batch = self.ops.dispatch_max_batch;
        self.scx.user.clear();
        self.scx.timers.clear();
        (self.armed, self.unloads, self.has_just_failed) = (None, false, false);
        (self.scx.exit, self.scx.bypasses) = (None, true);
        let cpus = self.scx.cpus.iter().enumerate();
        let idle = cpus.filter(|(_, cpu)| cpu.idles && cpu.is_online).map(|(cpu, _)| CpuId::from_index(cpu));
        self.scx.idle = idle.collect();
        self.call(Callback::Init, None, None, |policy, scx| policy.init(scx));
        self.tell_of_groups();
        self.finish();
    }

    /// The policy has all its tasks: it is asked from now on.
    pub fn end_load(&mut self) {
        if self.scx.exit.is_some() {
            return;
        }
        self.scx.bypasses = false;
        self.requeue_all();
        // It has not heard of the CPUs that idle meanwhile.
        let idle: Vec<CpuId> = self.scx.idle.iter().collect();
        for cpu in idle {
            self.call(Callback::UpdateIdle, Some(cpu), None, |policy, scx| policy.update_idle(scx, cpu, true));
        }
        self.finish();
    }

    /// Begins to unload the policy: the host takes all tasks away, in order of their creation, and
    /// then [ends to unload](Self::end_unload). Without a policy nothing happens.
    pub fn begin_unload(&mut self) {
        if self.scx.exit.is_some() {
            return;
        }
        (self.scx.bypasses, self.unloads) = (true, true);
        self.requeue_all();
        self.take_groups_away();
        self.finish();
    }

    /// The last task has left the policy: it is unloaded.
    pub fn end_unload(&mut self) {
        if self.scx.exit.is_none() {
            let exit = self.exit_by_user();
            self.policy.exit(&exit);
            self.scx.exit = Some(Box::new(exit));
        }
    }

    /// Returns whether a task is queued or current. O(tasks).
    #[must_use]
    pub fn has_runnable(&self) -> bool {
        let is_current = self.scx.cpus.iter().any(|cpu| cpu.current.is_some());
        is_current || self.scx.tasks.iter().flatten().any(|task| task.place != Place::Off)
    }

    /// Unloads the policy for a reason that is not its own, as after a fault.
    pub fn fail(&mut self, why: &str) {
        self.scx.fail(ExitKind::Error, why.into());
        self.has_just_failed = true;
        self.finish();
    }

    /// Unloads the policy at once, as after a fault: its tasks stay on the global queue.
    pub fn unload(&mut self) {
        self.scx.fail(ExitKind::Unreg, "".into());
        self.has_just_failed = true;
        self.finish();
    }

    fn exit_by_user(&self) -> ExitInfo {
        let (policy, at) = (self.scx.name.clone(), self.scx.now);
        ExitInfo { policy, kind: ExitKind::Unreg, msg: String::new(), at, callback: None, task: None, cpu: None }
    }

    /// Takes everything away from a policy that has failed, and tells it why it is unloaded.
    pub(crate) fn bypass(&mut self) {
        self.scx.batch.clear();
        self.requeue_all();
        self.scx.left.clear();
        self.wake_idle();
        if let Some(exit) = self.scx.exit.clone() {
            self.policy.exit(&exit);
        }
    }

    /// Dequeues and enqueues every runnable task, and lets all CPUs schedule (`scx_bypass`).
    fn requeue_all(&mut self) {
        for cpu in (0..self.scx.cpus.len()).map(CpuId::from_index) {
            let current = self.scx.cpus[cpu.index()].current;
            let mut here: Vec<(u64, TaskId)> = (0..)
                .map(TaskId)
                .zip(&self.scx.tasks)
                .filter_map(|(id, task)| Some((id, task.as_deref().filter(|task| task.cpu == cpu)?)))
                .filter(|(id, task)| task.place != Place::Off || current == Some(*id))
                .map(|(id, task)| (task.turn, id))
                .collect();
            here.sort_unstable();
            for (_, p) in here.into_iter().rev() {
                let is_current = current == Some(p);
                if is_current && self.scx.bypasses {
                    self.scx.end_slice(cpu);
                }
                self.dequeue(p, Departure::Change, is_current);
                self.enqueue(p, cpu, Arrival::Again { moves: false }, is_current);
                if is_current {
                    self.set_next(p, cpu);
                }
            }
            if self.scx.cpus[cpu.index()].is_online {
                self.scx.effects.push(Effect::Resched(cpu));
            }
        }
    }

    pub(crate) fn wake_idle(&mut self) {
        if !self.scx.global.is_empty() {
            let idle = |(cpu, state): (usize, &CpuState)| state.idles.then(|| CpuId::from_index(cpu));
            let idle: Vec<CpuId> = self.scx.cpus.iter().enumerate().filter_map(idle).collect();
            self.scx.effects.extend(idle.into_iter().map(Effect::WakeIdle));
        }
    }
}

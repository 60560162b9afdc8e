//! [`Guarded`]: a policy whose panics are faults of the policy.
//!
//! A policy is code of the user. If it panics, the run must say in which callback, about which task
//! and when, and go on as a kernel does that has unloaded it; a policy that is in the middle of a
//! change is not called again, so its state does not matter any more.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use zerolag_model::{CpuId, CpuMask, CpuMax, GroupId, TaskId};
use zerolag_policy::{DeqFlags, EnqFlags, ExitInfo, Ops, Policy, Scx, WakeFlags};

/// A policy whose panics are its faults.
#[derive(Clone)]
pub(crate) struct Guarded(pub(crate) Box<dyn Policy>);

impl Guarded {
    fn guard<R>(&mut self, scx: &mut Scx, otherwise: R, call: impl FnOnce(&mut dyn Policy, &mut Scx) -> R) -> R {
        match catch_unwind(AssertUnwindSafe(|| call(&mut *self.0, scx))) {
            Ok(result) => result,
            Err(panic) => {
                scx.error(&format!("the policy panicked: {}", message(&*panic)));
                otherwise
            }
        }
    }
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message")
}

impl Policy for Guarded {
    fn ops(&self) -> Ops {
        self.0.ops()
    }

    fn select_cpu(&mut self, scx: &mut Scx, p: TaskId, prev_cpu: CpuId, wake_flags: WakeFlags) -> CpuId {
        self.guard(scx, prev_cpu, |policy, scx| policy.select_cpu(scx, p, prev_cpu, wake_flags))
    }

    fn enqueue(&mut self, scx: &mut Scx, p: TaskId, enq_flags: EnqFlags) {
        self.guard(scx, (), |policy, scx| policy.enqueue(scx, p, enq_flags));
    }

    fn dequeue(&mut self, scx: &mut Scx, p: TaskId, deq_flags: DeqFlags) {
        self.guard(scx, (), |policy, scx| policy.dequeue(scx, p, deq_flags));
    }

    fn dispatch(&mut self, scx: &mut Scx, cpu: CpuId, prev: Option<TaskId>) {
        self.guard(scx, (), |policy, scx| policy.dispatch(scx, cpu, prev));
    }

    fn tick(&mut self, scx: &mut Scx, p: TaskId) {
        self.guard(scx, (), |policy, scx| policy.tick(scx, p));
    }

    fn runnable(&mut self, scx: &mut Scx, p: TaskId, enq_flags: EnqFlags) {
        self.guard(scx, (), |policy, scx| policy.runnable(scx, p, enq_flags));
    }

    fn running(&mut self, scx: &mut Scx, p: TaskId) {
        self.guard(scx, (), |policy, scx| policy.running(scx, p));
    }

    fn stopping(&mut self, scx: &mut Scx, p: TaskId, runnable: bool) {
        self.guard(scx, (), |policy, scx| policy.stopping(scx, p, runnable));
    }

    fn quiescent(&mut self, scx: &mut Scx, p: TaskId, deq_flags: DeqFlags) {
        self.guard(scx, (), |policy, scx| policy.quiescent(scx, p, deq_flags));
    }

    fn yield_(&mut self, scx: &mut Scx, from: TaskId, to: Option<TaskId>) -> bool {
        self.guard(scx, false, |policy, scx| policy.yield_(scx, from, to))
    }

    fn set_weight(&mut self, scx: &mut Scx, p: TaskId, weight: u32) {
        self.guard(scx, (), |policy, scx| policy.set_weight(scx, p, weight));
    }

    fn set_cpumask(&mut self, scx: &mut Scx, p: TaskId, cpumask: Option<&CpuMask>) {
        self.guard(scx, (), |policy, scx| policy.set_cpumask(scx, p, cpumask));
    }

    fn update_idle(&mut self, scx: &mut Scx, cpu: CpuId, idle: bool) {
        self.guard(scx, (), |policy, scx| policy.update_idle(scx, cpu, idle));
    }

    fn cpu_acquire(&mut self, scx: &mut Scx, cpu: CpuId) {
        self.guard(scx, (), |policy, scx| policy.cpu_acquire(scx, cpu));
    }

    fn cpu_release(&mut self, scx: &mut Scx, cpu: CpuId) {
        self.guard(scx, (), |policy, scx| policy.cpu_release(scx, cpu));
    }

    fn cpu_online(&mut self, scx: &mut Scx, cpu: CpuId) {
        self.guard(scx, (), |policy, scx| policy.cpu_online(scx, cpu));
    }

    fn cpu_offline(&mut self, scx: &mut Scx, cpu: CpuId) {
        self.guard(scx, (), |policy, scx| policy.cpu_offline(scx, cpu));
    }

    fn init_task(&mut self, scx: &mut Scx, p: TaskId, fork: bool) {
        self.guard(scx, (), |policy, scx| policy.init_task(scx, p, fork));
    }

    fn exit_task(&mut self, scx: &mut Scx, p: TaskId) {
        self.guard(scx, (), |policy, scx| policy.exit_task(scx, p));
    }

    fn enable(&mut self, scx: &mut Scx, p: TaskId) {
        self.guard(scx, (), |policy, scx| policy.enable(scx, p));
    }

    fn disable(&mut self, scx: &mut Scx, p: TaskId) {
        self.guard(scx, (), |policy, scx| policy.disable(scx, p));
    }

    fn cgroup_init(&mut self, scx: &mut Scx, group: GroupId) {
        self.guard(scx, (), |policy, scx| policy.cgroup_init(scx, group));
    }

    fn cgroup_exit(&mut self, scx: &mut Scx, group: GroupId) {
        self.guard(scx, (), |policy, scx| policy.cgroup_exit(scx, group));
    }

    fn cgroup_move(&mut self, scx: &mut Scx, p: TaskId, from: GroupId, to: GroupId) {
        self.guard(scx, (), |policy, scx| policy.cgroup_move(scx, p, from, to));
    }

    fn cgroup_set_weight(&mut self, scx: &mut Scx, group: GroupId, weight: u32) {
        self.guard(scx, (), |policy, scx| policy.cgroup_set_weight(scx, group, weight));
    }

    fn cgroup_set_bandwidth(&mut self, scx: &mut Scx, group: GroupId, limit: CpuMax) {
        self.guard(scx, (), |policy, scx| policy.cgroup_set_bandwidth(scx, group, limit));
    }

    fn init(&mut self, scx: &mut Scx) {
        self.guard(scx, (), |policy, scx| policy.init(scx));
    }

    fn timer(&mut self, scx: &mut Scx, id: u32) {
        self.guard(scx, (), |policy, scx| policy.timer(scx, id));
    }

    fn exit(&mut self, info: &ExitInfo) {
        // It is unloaded already: there is nothing left to end.
        drop(catch_unwind(AssertUnwindSafe(|| self.0.exit(info))));
    }
}

//! A policy of the user: loaded, watched, unloaded. Part of [`Scheduler`].
//!
//! A policy that is loaded or unloaded while tasks run passes through several calls, because each
//! task is changed under the lock of its run queue: the host begins, lets each CPU
//! [follow](Scheduler::follow_policy), [governs](Scheduler::govern) each task anew in order of
//! creation, ends, and lets each CPU follow again. Tasks that are created meanwhile are governed by
//! the rules that are in force then.
//!
//! Sources: Linux v7.3 `kernel/sched/ext/ext.c`, `scx_root_enable_workfn`, `scx_root_disable`.
//! differs: a kernel lets no task fork meanwhile.

use crate::class::policy;
use crate::entry::scheduler::Scheduler;
use crate::rq::run_queue::Rq;
use crate::shared::policy::Phase;
use crate::task::body::Parcel;
use crate::task::io::Io;
use crate::words::clock::Clock;
use crate::words::error::{ServerError, TaskError};
use crate::words::step::Step;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use lock_api::RawMutex;
use zerolag_model::settings::{SchedExt, SchedExtPolicy};
use zerolag_model::state::PolicyWay;
use zerolag_model::{CpuId, Duration, GroupId, Instant, SchedAttr, ServerKind, TaskId};
use zerolag_policy::{ExitInfo, Host, Policy, Window, policies};

impl<L: RawMutex> Scheduler<L> {
    /// Loads a policy for the tasks of `sched_ext`, in place of that of `sched_ext.policy`, before
    /// the first run queue is made.
    ///
    /// # Panics
    /// If the settings give no tasks to a loaded scheduler (`sched_ext = off`).
    pub fn load_policy(&mut self, policy: Box<dyn Policy>) {
        let settings = &self.config.settings;
        assert!(settings.sched_ext != SchedExt::Off, "a policy needs `sched_ext`");
        self.shared.policy.set_host(Host::load(policy, &self.config.topology, settings.sched_ext_slice));
    }

    /// Lets policies be loaded and unloaded while tasks run, before the first run queue is made. If
    /// none has been loaded none is.
    ///
    /// # Panics
    /// If the class has tasks and no policy.
    pub fn expect_policies(&mut self) {
        if !self.shared.has_policy() {
            let settings = &self.config.settings;
            assert!(settings.sched_ext == SchedExt::Off, "the tasks of the class need a policy");
            self.shared.policy.set_host(Host::unloaded(&self.config.topology, settings.sched_ext_slice));
        }
    }

    /// Loads the policy that `sched_ext.policy` names. `fifo` is the class itself.
    pub(crate) fn load_named_policy(&mut self) {
        let settings = &self.config.settings;
        if settings.sched_ext != SchedExt::Off && settings.sched_ext_policy != SchedExtPolicy::Fifo {
            self.load_policy(policies::named(settings.sched_ext_policy, self.config.seed));
        }
    }

    /// Tells a loaded policy of an event that is not of a CPU. What follows is done with the next
    /// event that is.
    pub(crate) fn tell_policy(&self, tell: impl FnOnce(&mut Host)) {
        if self.shared.has_policy()
            && let Some(loaded) = &mut *self.shared.policy.lock()
        {
            tell(&mut loaded.host);
        }
    }

    /// Tells the policy the name of a task that is about to be placed, and the period of its timer
    /// in the workload. Without a policy nothing happens.
    pub fn describe_task(&self, task: TaskId, name: &Arc<str>, period: Option<Duration>) {
        if let Some(loaded) = &mut *self.shared.policy.lock() {
            loaded.know(task, Arc::clone(name), period);
        }
    }

    /// Tells the policy the path of a group that exists. Without a policy nothing happens.
    pub fn describe_group(&self, group: GroupId, path: &Arc<str>) {
        self.tell_policy(|host| host.name_group(group, Arc::clone(path)));
    }

    /// Returns whether the loaded policy asks for the work of tasks: the host
    /// [tells](Self::tell_work) it.
    #[must_use]
    #[inline]
    pub fn wants_work(&self) -> bool {
        self.shared.policy.wants_work()
    }

    /// Tells the policy how much CPU time a task will use until it waits; `None` if no wait is in
    /// sight. The host says it before the task wakes, and when it begins to compute.
    #[cold]
    pub fn tell_work(&self, task: TaskId, work: Option<Duration>) {
        if let Some(loaded) = &mut *self.shared.policy.lock() {
            loaded.know_work(task, work);
        }
    }

    /// Begins to load a policy while tasks run: it has those that `tasks` says. Returns whether it
    /// can be: no other one is loaded, or not yet unloaded (EBUSY).
    ///
    /// # Panics
    /// Without [`expect_policies`](Self::expect_policies).
    pub fn begin_policy(&self, policy: Box<dyn Policy>, tasks: SchedExt, now: Clock, by: CpuId, io: &mut Io) -> bool {
        if self.shared.policy.phase() != Phase::Unloaded {
            return false;
        }
        self.shared.policy.set_phase(Phase::Loading); // [1]
        self.shared.policy.set_tasks(tasks);
        self.shared.policy.follow_needs(policy.ops().needs);
        policy::with(&mut self.cx(by, now, io), |loaded| loaded.host.begin_load(policy));
        true
    }

    /// Begins to unload the policy: its tasks are fair ones as soon as they are governed anew.
    /// Returns whether one was loaded.
    pub fn begin_unloading(&self, now: Clock, by: CpuId, io: &mut Io) -> bool {
        if self.shared.policy.phase() != Phase::Loaded {
            return false;
        }
        self.shared.policy.set_phase(Phase::Unloading); // [4]
        self.shared.policy.set_tasks(SchedExt::Off);
        policy::with(&mut self.cx(by, now, io), |loaded| loaded.host.begin_unload());
        true
    }

    /// All tasks are governed anew: ends what [`begin_policy`](Self::begin_policy) or
    /// [`begin_unloading`](Self::begin_unloading) has begun. Returns whether a policy is loaded.
    pub fn end_policy_change(&self, now: Clock, by: CpuId, io: &mut Io) -> bool {
        let policy = &self.shared.policy;
        match policy.phase() {
            Phase::Unloaded => return false,
            Phase::Loaded => return true,
            Phase::Loading => {
                policy.set_phase(Phase::Loaded); // [2]
                policy::with(&mut self.cx(by, now, io), |loaded| loaded.host.end_load());
            }
            Phase::Unloading => {
                policy.set_phase(Phase::Unloaded); // [5]
                policy::with(&mut self.cx(by, now, io), |loaded| loaded.host.end_unload());
            }
            // One that has failed while it was loaded has tasks that are still to be governed.
            Phase::Ejected if policy::with(&mut self.cx(by, now, io), |loaded| loaded.host.has_runnable()) => {}
            Phase::Ejected => policy.set_phase(Phase::Unloaded), // [5]
        }
        policy.phase() == Phase::Loaded
    }

    /// Ejects a policy that cannot be loaded for another reason than its own.
    pub fn fail_policy(&self, why: &str, now: Clock, by: CpuId, io: &mut Io) {
        policy::with(&mut self.cx(by, now, io), |loaded| loaded.host.fail(why));
    }

    /// Lets a CPU follow the policy that is loaded, or no more: whether it searches for fair tasks,
    /// and which deadline servers have bandwidth (7.2, `ext_server_booked`).
    ///
    /// # Errors
    /// The bandwidth of a server is not free; the other one is set all the same.
    pub fn follow_policy(&self, rq: &mut Rq, now: Clock, io: &mut Io) -> Result<(), ServerError> {
        let phase = self.shared.policy.phase();
        let tasks = match phase {
            Phase::Unloaded => SchedExt::Off,
            Phase::Loading => SchedExt::Partial, // The fair class has tasks still.
            Phase::Loaded => self.shared.policy.tasks(),
            Phase::Unloading | Phase::Ejected => return Ok(()),
        };
        rq.ext.is_loaded = tasks != SchedExt::Off;
        rq.ext.has_all = tasks == SchedExt::All;
        if !self.config.settings.books_needed() {
            return Ok(());
        }
        let mut result = Ok(());
        // The server of the policy first: it gets bandwidth before the other one gives its back, so
        // that a failure changes nothing, and gives it back before the other one gets it.
        for kind in [ServerKind::Ext, ServerKind::Fair] {
            let mut params = self.config.settings.server_params_with(rq.cpu(), kind, tasks);
            let has = rq.dl.server(kind).params;
            if has.is_on() == params.is_on() {
                continue;
            }
            // One that was set during the run is the same when it has bandwidth again.
            let detached = &mut rq.ext.detached[kind as usize];
            match params.is_on() {
                true => params = detached.take().unwrap_or(params),
                false => *detached = Some(has),
            }
            result = result.and(self.set_server(rq, now, kind, params, io));
        }
        result
    }

    /// Gives a task that is queued here the attributes that the loaded policy, or none, gives it.
    ///
    /// # Errors
    /// The task is not on this run queue.
    pub fn govern(&self, rq: &mut Rq, now: Clock, task: TaskId, io: &mut Io) -> Result<Step, TaskError> {
        let attr = rq.tasks[self.slot_of(rq, task)?].attr;
        if self.governed(attr) == attr {
            return Ok(Step::Done);
        }
        self.set_attr(rq, now, task, attr, io)
    }

    /// Does the same as [`govern`](Self::govern) for a parked task. A policy that gets it is told.
    ///
    /// # Errors
    /// None: a fair task is admitted.
    pub fn govern_parked(&self, now: Clock, parcel: &mut Parcel, by: CpuId, io: &mut Io) -> Result<(), TaskError> {
        if self.governed(parcel.attr()) == parcel.attr() {
            return Ok(());
        }
        self.set_attr_parked(now, parcel, parcel.attr(), by, io)?;
        if parcel.0.prio.is_ext() {
            policy::with(&mut self.cx(by, now, io), |loaded| policy::know(loaded, &parcel.0, false));
        }
        Ok(())
    }

    /// Looks for a runnable task that the policy has forgotten; returns when to look again. `None`
    /// without a policy.
    pub fn watch_policy(&self, now: Clock, by: CpuId, io: &mut Io) -> Option<Instant> {
        if !self.shared.has_policy() {
            return None;
        }
        policy::with(&mut self.cx(by, now, io), |loaded| loaded.host.watchdog())
    }

    /// Calls the timers of the policy that are due, after
    /// [`Op::PolicyTimer`](crate::Op::PolicyTimer).
    pub fn fire_policy_timers(&self, now: Clock, by: CpuId, io: &mut Io) {
        if self.shared.has_policy() {
            policy::with(&mut self.cx(by, now, io), |loaded| loaded.host.fire_timers());
        }
    }

    /// Returns why the policy was unloaded, if it was by itself or for a fault. From then on tasks
    /// are governed as by a kernel without one; the host changes the attributes of those that
    /// exist. Of several policies the first fault counts.
    #[must_use]
    pub fn ext_exit(&self) -> Option<ExitInfo> {
        let loaded = self.shared.policy.lock();
        let exits = loaded.as_ref().map_or(&[][..], |loaded| &loaded.exits);
        exits.iter().find(|exit| exit.kind.is_error()).or(exits.last()).cloned()
    }

    /// Keeps from now on how each task of a policy came to its CPU, and the steps of these tasks in
    /// these times. Without a policy nothing is kept.
    pub fn keep_policy_steps(&self, of: impl IntoIterator<Item = (TaskId, Instant, Instant)>) {
        self.tell_policy(|host| host.keep_steps(of));
    }

    /// Returns how a task of a policy came to where it is, if that is kept.
    #[must_use]
    pub fn policy_way(&self, task: TaskId) -> Option<PolicyWay> {
        self.shared.policy.lock().as_ref().and_then(|loaded| loaded.host.way(task))
    }

    /// Takes out the steps that were to be [kept](Self::keep_policy_steps).
    #[must_use]
    pub fn take_policy_steps(&self) -> Vec<Window> {
        self.shared.policy.lock().as_mut().map_or_else(Vec::new, |loaded| loaded.host.take_steps())
    }

    /// Returns the number of calls of the policy so far; 0 without one.
    #[must_use]
    pub fn policy_calls(&self) -> u64 {
        self.shared.policy.lock().as_ref().map_or(0, |loaded| loaded.host.calls())
    }

    /// Returns the attributes with which a task runs that asks for `attr`: those of a loaded
    /// scheduler's tasks are [`SchedAttr::Ext`], as long as it is loaded.
    #[must_use]
    pub fn governed(&self, attr: SchedAttr) -> SchedAttr {
        self.shared.policy.governs(attr)
    }
}

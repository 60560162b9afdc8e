//! A policy of the user: loaded, watched, unloaded. Part of [`Scheduler`].

use crate::class::policy;
use crate::entry::scheduler::Scheduler;
use crate::rq::run_queue::Rq;
use crate::task::body::Parcel;
use crate::task::io::Io;
use crate::words::clock::Clock;
use crate::words::error::TaskError;
use crate::words::step::Step;
use alloc::boxed::Box;
use alloc::sync::Arc;
use lock_api::RawMutex;
use zerolag_model::settings::{SchedExt, SchedExtPolicy};
use zerolag_model::{CpuId, Duration, Instant, SchedAttr, TaskId};
use zerolag_policy::{ExitInfo, Host, Policy, policies};

impl<L: RawMutex> Scheduler<L> {
    /// Loads a policy for the tasks of `sched_ext`, in place of that of `sched_ext.policy`, before
    /// the first run queue is made.
    ///
    /// # Panics
    /// If the settings give no tasks to a loaded scheduler (`sched_ext = off`).
    pub fn load_policy(&mut self, policy: Box<dyn Policy>) {
        let settings = &self.config.settings;
        assert!(settings.sched_ext != SchedExt::Off, "a policy needs `sched_ext`");
        self.shared.policy.load(Host::load(policy, &self.config.topology, settings.sched_ext_slice));
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

    /// Gives a task that is queued here the attributes that it has without a policy, after
    /// [`Op::ExtExit`](crate::Op::ExtExit).
    ///
    /// # Errors
    /// The task is not on this run queue.
    pub fn disown(&self, rq: &mut Rq, now: Clock, task: TaskId, io: &mut Io) -> Result<Step, TaskError> {
        let attr = rq.tasks[self.slot_of(rq, task)?].attr;
        self.set_attr(rq, now, task, attr, io)
    }

    /// Does the same as [`disown`](Self::disown) for a parked task.
    ///
    /// # Errors
    /// None: a fair task is admitted.
    pub fn disown_parked(&self, now: Clock, parcel: &mut Parcel, by: CpuId, io: &mut Io) -> Result<(), TaskError> {
        self.set_attr_parked(now, parcel, parcel.attr(), by, io)
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

    /// Returns why the policy was unloaded, if it was. From then on tasks are governed as by a
    /// kernel without one; the host changes the attributes of those that exist.
    #[must_use]
    pub fn ext_exit(&self) -> Option<ExitInfo> {
        self.shared.policy.lock().as_ref().and_then(|loaded| loaded.host.exit_info().cloned())
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
        if self.shared.policy.is_ejected() { SchedExt::Off.governs(attr) } else { self.config.settings.governed(attr) }
    }
}

//! Changes of a live task: its attributes, its inherited priority, its affinity. Part of
//! [`Scheduler`].
//!
//! A queued task is changed on its run queue, a parked task while the host holds its parcel. A
//! change dequeues the task, alters it, enqueues it again and checks which task has to run now: a
//! CPU that becomes less urgent pulls, and a task that cannot run here is pushed.
//!
//! The holder of a lock inherits from the waiters for it ([`Lent`]): a priority, or the parameters
//! of a deadline task. With the latter it counts as a deadline task until it releases the lock.
//!
//! Sources: Linux v6.12 `kernel/sched/core.c` (`__sched_setscheduler`, `__set_cpus_allowed_ptr`,
//! `rt_mutex_setprio`).

use crate::balance::{dl_pull, rt_pull};
use crate::class::{dl, dl_server, policy, rt_served};
use crate::entry::admission::AdmissionRequest;
use crate::entry::scheduler::Scheduler;
use crate::lifecycle;
use crate::queue::rt::prio_queue::QueueEnd;
use crate::rq::cx::Cx;
use crate::rq::run_queue::{Phase, Rq};
use crate::task::body::{Parcel, Task};
use crate::task::deadline;
use crate::task::io::Io;
use crate::words::clock::Clock;
use crate::words::error::{NotHere, TaskError};
use crate::words::ids::Slot;
use crate::words::life::{Dequeue, Dequeued, Engaged, Enqueue};
use crate::words::resched::Resched;
use crate::words::step::Step;
use crate::words::unpublished::Unpublished;
use crate::words::wait::Lent;
use alloc::sync::Arc;
use lock_api::RawMutex;
use zerolag_model::{ClassId, CpuId, CpuMask, DlParams, Instant, Prio, RtPriority, SchedAttr, TaskId, TraceEvent};

/// A queued task that has been changed, before its CPU has looked which task has to run.
#[derive(Clone, Copy)]
pub(crate) struct Changed {
    before: Prio,
    runs: bool,
    /// The pulls that are left.
    pub(crate) step: Step,
}

impl<L: RawMutex> Scheduler<L> {
    /// Changes the attributes of a queued task.
    ///
    /// # Errors
    /// The task is not on this run queue; a deadline task is not admitted; the group has no runtime
    /// for a real-time task.
    pub fn set_attr(
        &self,
        rq: &mut Rq,
        now: Clock,
        task: TaskId,
        attr: SchedAttr,
        io: &mut Io,
    ) -> Result<Step, TaskError> {
        self.check_attr(task, attr)?;
        let attr = self.governed(attr);
        rq.set_clock(now);
        let cx = &mut self.cx(rq.cpu(), now, io);
        let slot = self.slot_to_change(rq, cx, task)?;
        let body = &rq.tasks[slot];
        let had = body.dl.reserved;
        let request = AdmissionRequest { task, attr, had, allowed: body.allowed.as_deref(), near: rq.cpu() };
        let reserved = self.reserve(request, now.wall)?;
        self.admit_rt(task, body.group, (Some(body.attr), attr))?; // Only a task that reserves nothing is refused.
        let inherited = rq.tasks[slot].inherited();
        let prio = effective(attr, inherited);
        tell_attr(cx.io, (now, rq.cpu()), (task, attr, prio), inherited.is_some());
        if prio == rq.tasks[slot].prio && prio.is_rt() {
            // Only the policy changes: the task keeps its place.
            rq.tasks[slot].attr = attr;
            if rq.current_slot() == Some(slot) {
                rt_served::set_next(rq, cx, slot);
            }
            rq.publish(cx);
            return Ok(Step::Done);
        }
        if let (Some(had), Some(reserved)) = (had, reserved) {
            // The current job continues with its parameters; the next job has the new ones.
            dl::change_reserved(rq, slot, had, reserved);
            rq.tasks[slot].attr = attr;
            if rq.current_slot() == Some(slot) {
                dl::flags_changed(rq, cx, slot);
            }
            return Ok(Step::Done);
        }
        if reserved.is_none() {
            self.give_back_all(&rq.tasks[slot], now.wall);
        }
        let faults = self.dl_faults();
        Ok(self.change_prio(rq, cx, slot, |body| {
            self.follow_weight(body, attr);
            body.attr = attr;
            body.prio = prio;
            body.dl.reserve(reserved, faults);
            if had.is_some() != reserved.is_some() {
                body.dl.change_class(reserved.is_some());
            }
            renew_boost(body);
        }))
    }

    /// Changes the attributes of a parked task.
    ///
    /// # Errors
    /// A deadline task is not admitted; the group has no runtime for a real-time task.
    pub fn set_attr_parked(
        &self,
        now: Clock,
        parcel: &mut Parcel,
        attr: SchedAttr,
        by: CpuId,
        io: &mut Io,
    ) -> Result<(), TaskError> {
        self.check_attr(parcel.id(), attr)?;
        let attr = self.governed(attr);
        let body = &mut parcel.0;
        let had = body.dl.reserved;
        let request =
            AdmissionRequest { task: body.id, attr, had, allowed: body.allowed.as_deref(), near: body.last_cpu };
        let reserved = self.reserve(request, now.wall)?;
        self.admit_rt(body.id, body.group, (Some(body.attr), attr))?;
        if let Some(had) = had {
            if reserved.is_none() {
                self.give_back_all(body, now.wall);
            }
            dl::change_asleep(&self.shared, body, had, reserved);
        }
        body.dl.reserve(reserved, self.dl_faults());
        if had.is_some() != body.dl.reserved.is_some() {
            let joins = had.is_none();
            body.dl.change_class(joins);
        }
        self.follow_weight(body, attr);
        body.attr = attr;
        let prio = effective(attr, body.inherited());
        let before = core::mem::replace(&mut body.prio, prio);
        renew_boost(body);
        if before.is_ext() && !body.prio.is_ext() && self.shared.has_policy() {
            policy::left(&mut self.cx(by, now, io), body.id);
        }
        tell_attr(io, (now, by), (body.id, attr, body.prio), body.inherited().is_some());
        Ok(())
    }

    /// Lends a queued task the priority, or the deadline parameters, of a waiter for its lock;
    /// `None` takes the loan back. A loan counts only if it is more urgent than the task itself.
    ///
    /// # Errors
    /// The task is not on this run queue.
    pub fn inherit(
        &self,
        rq: &mut Rq,
        now: Clock,
        task: TaskId,
        from: Option<Lent>,
        io: &mut Io,
    ) -> Result<Step, NotHere> {
        rq.set_clock(now);
        let cx = &mut self.cx(rq.cpu(), now, io);
        let slot = self.slot_to_change(rq, cx, task)?;
        let body = &rq.tasks[slot];
        let (before, after) = (body.prio, effective(body.attr, from));
        let (had, had_boost) = (body.inherited(), body.dl.boost);
        rq.tasks[slot].set_inherited(from, self.dl_faults());
        // A task with a new loan of deadline parameters starts a new job with them.
        if before == after && (had == from || boost(&rq.tasks[slot]) == had_boost && had_boost.is_none()) {
            return Ok(Step::Done);
        }
        if before != after {
            cx.io.event(now, rq.cpu(), || TraceEvent::PrioInherit { task, from: before, to: after });
        }
        let wall = now.wall;
        Ok(self.change_prio(rq, cx, slot, |body| {
            body.prio = after;
            lend(body, wall);
        }))
    }

    /// Does the same as [`inherit`](Self::inherit) for a parked task.
    pub fn inherit_parked(&self, now: Clock, parcel: &mut Parcel, from: Option<Lent>, by: CpuId, io: &mut Io) {
        let body = &mut parcel.0;
        let (task, before) = (body.id, body.prio);
        body.set_inherited(from, self.dl_faults());
        body.prio = effective(body.attr, from);
        lend(body, now.wall);
        let after = body.prio;
        if before != after {
            io.event(now, by, || TraceEvent::PrioInherit { task, from: before, to: after });
        }
    }

    /// Dequeues a task, changes it, enqueues it again and checks which task has to run now.
    ///
    /// A real-time task that becomes less urgent is placed before the tasks of its new priority,
    /// any other task behind its equals. A current task that no longer comes first is asked to
    /// yield: it can have become less urgent, have got a later deadline, or have lost its server.
    ///
    /// Linux v6.12 `kernel/sched/core.c`, `__sched_setscheduler`, `check_class_changed`; `rt.c`,
    /// `prio_changed_rt`, `switched_from_rt`, `switched_to_rt`. differs: the kernel looks for tasks
    /// to pull only when the current task becomes less urgent, or the last real-time task leaves
    /// the class; this scheduler whenever the most urgent task does.
    pub(crate) fn change_prio(
        &self,
        rq: &mut Rq,
        cx: &mut Cx<'_, L>,
        slot: Slot,
        change: impl FnOnce(&mut Task),
    ) -> Step {
        let changed = self.change_queued(rq, cx, slot, change);
        self.notice_changed(rq, cx, slot, changed)
    }

    /// Dequeues a task, changes it and enqueues it again.
    pub(crate) fn change_queued(
        &self,
        rq: &mut Rq,
        cx: &mut Cx<'_, L>,
        slot: Slot,
        change: impl FnOnce(&mut Task),
    ) -> Changed {
        lifecycle::charge_current(rq, cx);
        let before = rq.tasks[slot].prio;
        let (highest, earliest) = (rq.top_prio(), rq.dl.earliest());
        let runs = rq.current_slot() == Some(slot);
        let gone = lifecycle::dequeue(rq, cx, slot, Dequeue::Change);
        assert!(gone == Dequeued::Gone, "only a sleeping task is delayed");
        let job = rq.tasks[slot].dl.abs_deadline;
        change(&mut rq.tasks[slot]);
        rq.note(Unpublished::PRIOS); // It can be the current one.
        let after = rq.tasks[slot].prio;
        if rq.ext.by_policy && before.is_ext() && !after.is_ext() {
            policy::left(cx, rq.tasks[slot].id);
        }
        if rq.tasks[slot].dl.abs_deadline != job {
            dl::trace_job(rq, cx, slot);
        }
        if after.is_rt() && before.beats(after) {
            rt_served::enqueue(rq, cx, slot, QueueEnd::Front);
            dl_server::update(rq, cx);
        } else {
            lifecycle::enqueue(rq, cx, slot, Enqueue::Changed);
        }
        let is_later = earliest.is_some_and(|before| rq.dl.earliest().is_none_or(|after| before < after));
        let step = if is_later { dl_pull::begin(rq, cx) } else { self.pull_after(rq, cx, highest, slot) };
        Changed { before, runs, step }
    }

    /// Checks which task has to run after a queued task has been changed.
    pub(crate) fn notice_changed(&self, rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot, changed: Changed) -> Step {
        let Changed { before, runs, mut step } = changed;
        let after = rq.tasks[slot].prio;
        if runs {
            self.go_on_running(rq, cx, slot);
            dl::stop_serving(rq, slot);
            if (before.beats(after) || dl::is_overtaken(rq)) && rq.phase() == Phase::Running {
                rq.resched(cx, Resched::Now);
            }
        } else {
            lifecycle::check_preempt(rq, cx, slot);
            if step == Step::Done {
                step = self.push_woken(rq, cx, slot);
            }
        }
        rq.publish(cx);
        step
    }

    /// Makes the current task current again after it was dequeued and enqueued.
    fn go_on_running(&self, rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot) {
        rq.note(Unpublished::ALL);
        let class = rq.tasks[slot].prio.class();
        lifecycle::set_next(rq, cx, slot, class);
    }

    /// Pulls if the most urgent task here has become less urgent than `highest` without a switch.
    fn pull_after(&self, rq: &mut Rq, cx: &mut Cx<'_, L>, highest: Prio, slot: Slot) -> Step {
        let cpuset = rq.tasks[slot].cpuset;
        rt_pull::begin(rq, cx, highest, cpuset)
    }

    /// Changes the affinity of a queued task. A waiting task that is not allowed to stay is handed
    /// out, to be placed again with [`Placement::Displaced`](crate::Placement::Displaced); a
    /// running one is displaced when it leaves. In both cases there is a step to carry out.
    ///
    /// differs: the kernel does not push a waiting real-time task that is now allowed on more CPUs,
    /// and does not pull when a task that was about to run is taken away; without that a task waits
    /// that could run.
    ///
    /// # Errors
    /// The task is not on this run queue; affinity and cpuset share no CPU; a deadline task must
    /// keep its root domain.
    pub fn set_affinity(
        &self,
        rq: &mut Rq,
        now: Clock,
        task: TaskId,
        affinity: Option<Arc<CpuMask>>,
        io: &mut Io,
    ) -> Result<(Option<Parcel>, Step), TaskError> {
        rq.set_clock(now);
        let cx = &mut self.cx(rq.cpu(), now, io);
        let slot = self.slot_to_change(rq, cx, task)?;
        let allowed = self.allowed(task, affinity.as_ref(), rq.tasks[slot].cpuset)?;
        self.check_deadline_affinity(&rq.tasks[slot], allowed.as_deref())?;
        self.trace_affinity(cx, task, allowed.as_ref());
        let highest = rq.top_prio();
        lifecycle::change_allowed(rq, cx, slot, |body| {
            body.affinity = affinity;
            body.allowed = allowed;
        });
        // A lender does not run: its affinity matters when it is woken.
        let may_stay = rq.tasks[slot].may_run_on(rq.cpu()) || matches!(rq.tasks[slot].engaged, Engaged::Lends { .. });
        let mut displaced = None;
        let step = match (rq.runs(slot), rq.phase()) {
            (true, Phase::Running) => {
                if !may_stay {
                    rq.resched(cx, Resched::Now);
                }
                Step::Done
            }
            (true, Phase::Switching { .. }) if may_stay => Step::Done,
            // The CPU has left this task: if it is not picked again, it would wait on a CPU where
            // it is not allowed.
            (true, Phase::Switching { prev, .. }) => {
                displaced = Some(Parcel(self.take_current(rq, cx, slot, Dequeue::Migrate)));
                rt_pull::begin(rq, cx, highest, prev.cpuset)
            }
            (false, _) if may_stay => self.push_woken(rq, cx, slot),
            (false, _) => {
                let body = lifecycle::deactivate(rq, cx, slot, Dequeue::Migrate);
                let cpuset = body.cpuset;
                displaced = Some(Parcel(body));
                rt_pull::begin(rq, cx, highest, cpuset)
            }
        };
        rq.publish(cx);
        Ok((displaced, step))
    }

    /// Changes the affinity of a parked task.
    ///
    /// # Errors
    /// Affinity and cpuset share no CPU; a deadline task must keep its root domain.
    pub fn set_affinity_parked(
        &self,
        now: Clock,
        parcel: &mut Parcel,
        affinity: Option<Arc<CpuMask>>,
        by: CpuId,
        io: &mut Io,
    ) -> Result<(), TaskError> {
        let allowed = self.allowed(parcel.id(), affinity.as_ref(), parcel.0.cpuset)?;
        self.check_deadline_affinity(&parcel.0, allowed.as_deref())?;
        let cx = &mut self.cx(by, now, io);
        self.trace_affinity(cx, parcel.id(), allowed.as_ref());
        parcel.0.affinity = affinity;
        parcel.0.allowed = allowed;
        Ok(())
    }

    /// Scales the lag of a task in the fair class to the weight that it gets.
    fn follow_weight(&self, task: &mut Task, attr: SchedAttr) {
        if task.prio.class() == ClassId::Fair && !self.config.is_flat() {
            let before = task.attr;
            task.fair.follow(before, attr, self.config.settings.request_scaled);
        }
    }

    fn trace_affinity(&self, cx: &mut Cx<'_, L>, task: TaskId, allowed: Option<&Arc<CpuMask>>) {
        let nr_cpus = self.shared.nr_cpus();
        cx.io.event(cx.now, cx.by, || TraceEvent::Affinity {
            task,
            cpus: allowed.map_or_else(|| Arc::new(CpuMask::first_n(nr_cpus)), Arc::clone),
        });
    }
}

/// Records a change of attributes, and the effective priority of a task that inherits or has
/// another one.
fn tell_attr(io: &mut Io, (now, cpu): (Clock, CpuId), (task, attr, prio): (TaskId, SchedAttr, Prio), inherits: bool) {
    io.event(now, cpu, || TraceEvent::AttrChange { task, attr });
    // What it inherits may have been no more than its own priority until now, and then no record
    // has said so. Or it is no more from now on, and then no record will say that it ends.
    if inherits || prio != attr.prio() {
        io.event(now, cpu, || TraceEvent::PrioInherit { task, from: attr.prio(), to: prio });
    }
}

/// Returns the effective priority: the more urgent of the task's own and the inherited one. The
/// priority of the deadline class is lent only together with parameters.
fn effective(attr: SchedAttr, inherited: Option<Lent>) -> Prio {
    let own = attr.prio();
    let highest = Prio::from_rt(RtPriority::MAX);
    let inherited = inherited.map(|lent| match lent {
        Lent::Prio(prio) if prio.beats(highest) => highest,
        Lent::Prio(_) | Lent::Deadline { .. } => lent.prio(),
    });
    // A fair waiter lends a task of a loaded scheduler nothing: the policy decides the class.
    let counts = |prio: &Prio| own.class() != ClassId::Ext || prio.beats(Prio::FIRST_FAIR);
    inherited.filter(counts).filter(|prio| prio.beats(own)).unwrap_or(own)
}

/// Returns the deadline parameters that replace the task's own. A deadline task takes only
/// parameters with an earlier deadline (`pi_se` in `rt_mutex_setprio`).
fn boost(task: &Task) -> Option<DlParams> {
    match (task.inherited(), task.attr) {
        (Some(Lent::Deadline { deadline, .. }), SchedAttr::Deadline(_)) if deadline >= task.dl.abs_deadline => None,
        (Some(Lent::Deadline { params, .. }), _) => Some(params),
        (Some(Lent::Prio(_)) | None, _) => None,
    }
}

/// Updates the parameters that replace the task's own, after its attributes have changed.
fn renew_boost(task: &mut Task) {
    let boost = boost(task);
    if let Some(entity) = task.dl.get_mut() {
        entity.boost = boost;
    }
}

/// Updates the deadline entity of a task that is on no queue, after its loan has changed.
fn lend(task: &mut Task, now: Instant) {
    let (boost, own) = (boost(task), deadline::own_params(task));
    if let Some(entity) = task.dl.get_mut() {
        entity.lend(boost, own, now);
    }
}

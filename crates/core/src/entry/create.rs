//! Creation of tasks. Part of [`Scheduler`].
//!
//! An id belongs to one task at a time. A continuation on another CPU can still refer to a task
//! that has ended (a push that was about to resume). It must not take a later task with the same id
//! for that one, so a body that is reused continues to count its stays on run queues.

use crate::entity::dl::DlPart;
use crate::entity::fair::FairEntity;
use crate::entity::rt::RtEntity;
use crate::entry::admission::AdmissionRequest;
use crate::entry::scheduler::Scheduler;
use crate::rq::run_queue::Rq;
use crate::task::body::{Loan, Parcel, Task, TaskSpec};
use crate::words::clock::Clock;
use crate::words::error::TaskError;
use crate::words::life::Engaged;
use crate::words::mode::TaskMode;
use alloc::boxed::Box;
use lock_api::RawMutex;
use zerolag_model::{DlFlags, Instant, SchedAttr, TaskCounters, TaskId, UtilClamp};

impl<L: RawMutex> Scheduler<L> {
    /// Creates a task with an id that no task had before. It runs once it has been placed
    /// (`select_cpu` and `wake` with [`Placement::Fork`]).
    ///
    /// # Errors
    /// Affinity and cpuset share no CPU; the id was not reserved; the deadline task is not
    /// admitted; the group has no runtime for a real-time task.
    ///
    /// [`Placement::Fork`]: crate::Placement::Fork
    pub fn create_task(&self, now: Clock, spec: TaskSpec) -> Result<Parcel, TaskError> {
        self.make_body(now, spec, 0).map(|body| Parcel(Box::new(body)))
    }

    /// Creates a task in the body of a task that has ended ([`Left::Dead`]) and had the same id,
    /// for hosts that create and end tasks continually. Allocates nothing.
    ///
    /// # Errors
    /// As for [`create_task`](Self::create_task); the parcel is then unchanged.
    ///
    /// # Panics
    /// If the ids differ.
    ///
    /// [`Left::Dead`]: crate::Left::Dead
    pub fn recreate_task(&self, now: Clock, ended: &mut Parcel, spec: TaskSpec) -> Result<(), TaskError> {
        assert!(ended.id() == spec.id, "the body of task {} is not task {}'s", ended.id(), spec.id);
        *ended.0 = self.make_body(now, spec, ended.0.stay)?;
        self.shared.wakers.forget(ended.id());
        Ok(())
    }

    fn make_body(&self, now: Clock, spec: TaskSpec, stay: u32) -> Result<Task, TaskError> {
        if spec.id.index() >= self.shared.tasks_reserved() {
            return Err(TaskError::NotReserved(spec.id));
        }
        if let Some(process) = spec.process.filter(|process| process.0 as usize >= self.config.process_reserve) {
            return Err(TaskError::NoSuchProcess(process));
        }
        self.check_attr(spec.id, spec.attr)?;
        let attr = self.governed(spec.attr);
        let allowed = self.allowed(spec.id, spec.affinity.as_ref(), spec.cpuset)?;
        self.shared.groups.join(spec.group).map_err(|_| TaskError::NoSuchGroup(spec.group))?;
        let allowed_on = allowed.as_deref();
        let request = AdmissionRequest { task: spec.id, attr, had: None, allowed: allowed_on, near: spec.born_on };
        let reserved = match self.reserve(request, now.wall) {
            Ok(reserved) => reserved,
            Err(error) => {
                self.shared.groups.quit(spec.group);
                return Err(error);
            }
        };
        if let Err(error) = self.admit_rt(spec.id, spec.group, (None, attr)) {
            self.shared.groups.quit(spec.group);
            return Err(error);
        }
        let mut dl = DlPart::default();
        dl.reserve(reserved, self.dl_faults());
        self.shared.recent_used.set(spec.id, spec.born_on);
        self.shared.processes.join(spec.id, spec.process);
        Ok(Task {
            id: spec.id,
            stay,
            attr,
            prio: attr.prio(),
            loan: Loan::None,
            allowed,
            affinity: spec.affinity,
            group: spec.group,
            cpuset: spec.cpuset,
            clamp: UtilClamp::NONE,
            last_cpu: spec.born_on,
            is_new: true,
            mode: TaskMode::User,
            engaged: Engaged::No,
            bound: None,
            exec_start: Instant::ZERO,
            last_ran: Instant::ZERO,
            counters: TaskCounters::default(),
            rt: RtEntity::default(),
            fair: FairEntity::default(),
            dl,
        })
    }

    /// Ends a task that sleeps, or that was never placed: its group loses a member, and its
    /// reservation is given back at its 0-lag time. The body can be reused
    /// ([`recreate_task`](Self::recreate_task)). No kernel does this: a task ends itself, so it
    /// runs. A host whose tasks can end without having had a CPU needs it. O(1).
    ///
    /// The load of a fair task stays in the averages of the CPU where it slept, and decays there.
    pub fn exit_parked(&self, now: Clock, parcel: &Parcel) {
        self.quit_group(&parcel.0);
        self.shared.processes.quit(parcel.id());
        self.give_back_all(&parcel.0, now.wall);
    }

    /// Checks whether a task on this run queue is allowed to fork: a deadline task is allowed to
    /// only with `SCHED_FLAG_RESET_ON_FORK`.
    ///
    /// Linux v6.12 `kernel/sched/core.c`, `sched_fork`: the task's own attributes count, not its
    /// inheritance.
    ///
    /// # Errors
    /// The task is a deadline task, or it is not on this run queue.
    pub fn check_fork(&self, rq: &Rq, parent: TaskId) -> Result<(), TaskError> {
        match rq.tasks[self.slot_of(rq, parent)?].attr {
            SchedAttr::Deadline(params) if params.flags.has(DlFlags::RESET_ON_FORK) => Ok(()),
            SchedAttr::Deadline(_) => Err(TaskError::DeadlineForks(parent)),
            SchedAttr::Rt { .. } | SchedAttr::Fair { .. } | SchedAttr::Ext { .. } => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::entity::weight::Weight;
    use crate::task::io::{Io, Left, Tracing};
    use crate::words::ids::CpusetId;
    use crate::words::life::Leave;
    use crate::words::step::{Next, Step};
    use crate::{Clock, Config, Parcel, Placement, Rq, Scheduler, TaskSpec};
    use zerolag_model::{CpuId, GroupId, Instant, SchedAttr, Settings, TaskId, Topology};

    type Spinning = Scheduler<parking_lot::RawMutex>;

    fn spec(attr: SchedAttr, group: GroupId) -> TaskSpec {
        TaskSpec {
            id: TaskId(0),
            attr,
            affinity: None,
            group,
            cpuset: CpusetId::default(),
            born_on: CpuId(0),
            process: None,
        }
    }

    /// Runs a task to its end; returns its body and its number of stays.
    fn live(scheduler: &Spinning, rq: &mut Rq, parcel: Parcel, ms: u64) -> (Parcel, u32) {
        let (now, io) = (Clock::at(Instant::from_nanos(ms * 1_000_000)), &mut Io::new(Tracing::Off));
        assert_eq!(scheduler.wake(rq, now, parcel, CpuId(0), Placement::Fork, io), Step::Done);
        let pick = |rq: &mut Rq, io: &mut Io| loop {
            match scheduler.pick(rq, now, io) {
                Next::Balance(step) => assert_eq!(step, Step::Done),
                next => break next,
            }
        };
        assert!(matches!(scheduler.leave(rq, now, Leave::Preempted, io), Left::Queued));
        assert_eq!(pick(rq, io), Next::Run(TaskId(0)));
        let Left::Dead(ended) = scheduler.leave(rq, now, Leave::Exit, io) else { panic!("it ended") };
        assert_eq!(pick(rq, io), Next::Idle);
        let stays = ended.0.stay;
        (ended, stays)
    }

    #[test]
    fn a_body_is_used_again_and_counts_its_stays_on() {
        let config = Config::new(Topology::flat(1).expect("a CPU"), Settings::default());
        let mut scheduler = Spinning::new(config);
        scheduler.reserve_tasks(1);
        let mut rq = scheduler.new_rq(CpuId(0));
        let at = |ms: u64| Clock::at(Instant::from_nanos(ms * 1_000_000));
        let first = scheduler.create_task(at(0), spec(SchedAttr::NORMAL, GroupId::ROOT)).expect("a reserved id");
        let (mut ended, stays) = live(&scheduler, &mut rq, first, 0);
        scheduler.recreate_task(at(1), &mut ended, spec(SchedAttr::NORMAL, GroupId(7))).expect_err("no such group");
        assert_eq!((ended.0.stay, ended.attr()), (stays, SchedAttr::NORMAL), "what is refused changes nothing");
        scheduler.recreate_task(at(1), &mut ended, spec(SchedAttr::fifo_at(5), GroupId::ROOT)).expect("the id is free");
        assert_eq!(
            (ended.attr(), ended.counters().wakeups),
            (SchedAttr::fifo_at(5), 0),
            "nothing is left of the first"
        );
        let (_, later) = live(&scheduler, &mut rq, ended, 2);
        assert!(later > stays, "a continuation of the first cannot take the second for it: {later} after {stays}");
    }

    #[test]
    fn a_task_that_was_never_placed_ends_and_leaves_its_group() {
        let config = Config::new(Topology::flat(1).expect("a CPU"), Settings::default()).with_group_reserve(2);
        let mut scheduler = Spinning::new(config);
        scheduler.reserve_tasks(1);
        let at = |ms: u64| Clock::at(Instant::from_nanos(ms * 1_000_000));
        let group = scheduler.create_group(GroupId::ROOT, Weight::NICE_0).expect("room");
        let mut task = scheduler.create_task(at(0), spec(SchedAttr::NORMAL, group)).expect("a reserved id");
        scheduler.remove_group(group).expect_err("it has a task");
        scheduler.exit_parked(at(1), &task);
        scheduler.remove_group(group).expect("it is empty");
        scheduler.recreate_task(at(2), &mut task, spec(SchedAttr::NORMAL, GroupId::ROOT)).expect("the id is free");
    }
}

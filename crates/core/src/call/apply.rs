//! [`Call::apply`]: the one place at which a call as data becomes a call.

use crate::call::data::{Answer, Call, Refused};
use crate::entry::scheduler::Scheduler;
use crate::rq::run_queue::Rq;
use crate::task::body::Parcel;
use crate::task::io::Io;
use crate::words::clock::{Clock, PairClock};
use crate::words::error::TaskError;
use crate::words::group::GroupError;
use crate::words::mode::TaskMode;
use crate::words::step::Step;
use lock_api::RawMutex;

/// The run queues of a call, locked, with their clocks.
#[derive(Debug)]
pub enum Rqs<'a> {
    /// No run queue is needed.
    None(Clock),
    /// The run queue of one CPU.
    One(&'a mut Rq, Clock),
    /// The run queues of two CPUs, in the order of the call.
    Two([&'a mut Rq; 2], PairClock),
}

const AS_NEEDED: &str = "a call is made under the locks that `Call::under` names";
const IN_HAND: &str = "a call is made with the body in hand that `Call::handed` names";

impl<'a> Rqs<'a> {
    fn none(self) -> Clock {
        let Self::None(now) = self else { panic!("{AS_NEEDED}") };
        now
    }

    fn one(self) -> (&'a mut Rq, Clock) {
        let Self::One(rq, now) = self else { panic!("{AS_NEEDED}") };
        (rq, now)
    }

    fn two(self) -> ([&'a mut Rq; 2], PairClock) {
        let Self::Two(rqs, now) = self else { panic!("{AS_NEEDED}") };
        (rqs, now)
    }
}

impl Call {
    /// Makes the call. `hand` holds the body that the call needs ([`handed`](Self::handed)), and
    /// afterwards the one that it handed out or left there.
    ///
    /// # Errors
    /// The core refuses the change; nothing was changed. That a task is not on the given run queue
    /// is no error but [`Answer::NotHere`].
    ///
    /// # Panics
    /// If the run queues or the body are not those that the call needs ([`under`](Self::under),
    /// [`handed`](Self::handed)).
    #[expect(clippy::too_many_lines, reason = "one arm per call")]
    pub fn apply<L: RawMutex>(
        &self,
        scheduler: &Scheduler<L>,
        rqs: Rqs<'_>,
        hand: &mut Option<Parcel>,
        io: &mut Io,
    ) -> Result<Answer, Refused> {
        Ok(match *self {
            Self::CreateGroup { parent, weight } => Answer::Group(scheduler.create_group(parent, weight)?),
            Self::RemoveGroup { group } => scheduler.remove_group(group).map(|()| Answer::DONE)?,
            Self::SetGroupWeight { group, weight } => {
                scheduler.set_group_weight(group, weight).map(|()| Answer::DONE)?
            }
            Self::SetGroupIdle { group, idleness } => {
                scheduler.set_group_idle(group, idleness).map(|()| Answer::DONE)?
            }
            Self::SetGroupMax { group, max, by } => {
                Answer::Step(scheduler.set_group_max(group, max, rqs.none(), by, io)?)
            }
            Self::SetGroupRt { group, bandwidth, by } => {
                scheduler.set_group_rt(group, bandwidth, rqs.none(), by, io).map(|()| Answer::DONE)?
            }
            Self::GroupTimer { group, timer, by } => {
                Answer::Step(scheduler.group_timer(group, timer, rqs.none(), by, io))
            }
            Self::SetRtBandwidth { bandwidth } => {
                scheduler.set_rt_bandwidth(rqs.none().wall, bandwidth).map(|()| Answer::DONE)?
            }
            Self::CreateTask { ref spec } => {
                match hand {
                    Some(ended) => scheduler.recreate_task(rqs.none(), ended, spec.clone())?,
                    None => *hand = Some(scheduler.create_task(rqs.none(), spec.clone())?),
                }
                Answer::DONE
            }
            Self::Select { by, why, .. } => {
                Answer::Cpu(scheduler.select_cpu(rqs.none(), hand.as_ref().expect(IN_HAND), by, why, io))
            }
            Self::InheritParked { from, by, .. } => {
                scheduler.inherit_parked(rqs.none(), hand.as_mut().expect(IN_HAND), from, by, io);
                Answer::DONE
            }
            Self::SetAttrParked { attr, by, .. } => {
                scheduler.set_attr_parked(rqs.none(), hand.as_mut().expect(IN_HAND), attr, by, io)?;
                Answer::DONE
            }
            Self::SetAffinityParked { ref affinity, by, .. } => {
                let parcel = hand.as_mut().expect(IN_HAND);
                scheduler.set_affinity_parked(rqs.none(), parcel, affinity.clone(), by, io)?;
                Answer::DONE
            }
            Self::SetGroupParked { group, .. } => {
                scheduler.set_group_parked(hand.as_mut().expect(IN_HAND), group).map(|()| Answer::DONE)?
            }
            Self::ExitParked { .. } => {
                scheduler.exit_parked(rqs.none(), hand.as_ref().expect(IN_HAND));
                Answer::DONE
            }
            Self::Pair { then, .. } => {
                let ([own, other], now) = rqs.two();
                Answer::Step(scheduler.resume_pair(own, other, now, then, io))
            }
            Self::Wake { .. }
            | Self::WakeQueued { .. }
            | Self::Leave { .. }
            | Self::Pick { .. }
            | Self::Switched { .. }
            | Self::SetMode { .. }
            | Self::Tick { .. }
            | Self::Timer { .. }
            | Self::Remote { .. }
            | Self::Resume { .. }
            | Self::Lends { .. }
            | Self::Inherit { .. }
            | Self::SetAttr { .. }
            | Self::SetAffinity { .. }
            | Self::SetGroup { .. }
            | Self::SetServer { .. }
            | Self::FollowRtLimit { .. }
            | Self::FollowGroupWeight { .. }
            | Self::FollowRtGroups { .. }
            | Self::Offline { .. }
            | Self::Evict { .. }
            | Self::Online { .. }
            | Self::JoinDomain { .. } => {
                let (rq, now) = rqs.one();
                self.apply_to(scheduler, rq, now, hand, io)?
            }
        })
    }

    /// Makes a call that needs one run queue.
    #[expect(clippy::too_many_lines, reason = "one arm per call")]
    fn apply_to<L: RawMutex>(
        &self,
        scheduler: &Scheduler<L>,
        rq: &mut Rq,
        now: Clock,
        hand: &mut Option<Parcel>,
        io: &mut Io,
    ) -> Result<Answer, Refused> {
        Ok(match *self {
            Self::Wake { by, why, .. } => {
                Answer::Step(scheduler.wake(rq, now, hand.take().expect(IN_HAND), by, why, io))
            }
            Self::WakeQueued { task, by, .. } => {
                scheduler.wake_queued(rq, now, task, by, io).map_or(Answer::NotHere, Answer::Step)
            }
            Self::Leave { why, .. } => {
                let (left, parcel) = scheduler.leave(rq, now, why, io).split();
                *hand = parcel;
                Answer::Left(left)
            }
            Self::Pick { .. } => Answer::Next(scheduler.pick(rq, now, io)),
            Self::Switched { .. } => Answer::Step(scheduler.switched(rq, now, io)),
            Self::SetMode { mode, .. } => {
                match mode {
                    TaskMode::Kernel => scheduler.enter_kernel(rq),
                    TaskMode::User => scheduler.return_to_user(rq, now, io),
                }
                Answer::Resched(rq.need_resched())
            }
            Self::Tick { .. } => Answer::Step(scheduler.tick(rq, now, io)),
            Self::Timer { timer, .. } => Answer::Step(scheduler.timer(rq, now, timer, io)),
            Self::Remote { work, .. } => Answer::Step(scheduler.remote(rq, now, work, io)),
            Self::Resume { then, .. } => Answer::Step(scheduler.resume(rq, now, then, io)),
            Self::Lends { task, .. } => scheduler.lends(rq, task).map_or(Answer::NotHere, Answer::Lent),
            Self::Inherit { task, from, .. } => {
                scheduler.inherit(rq, now, task, from, io).map_or(Answer::NotHere, Answer::Step)
            }
            Self::SetAttr { task, attr, .. } => found(scheduler.set_attr(rq, now, task, attr, io))?,
            Self::SetAffinity { task, ref affinity, .. } => {
                let moved = scheduler.set_affinity(rq, now, task, affinity.clone(), io);
                found(moved.map(|(parcel, step)| {
                    *hand = parcel;
                    step
                }))?
            }
            Self::SetGroup { task, group, .. } => found(scheduler.set_group(rq, now, task, group, io))?,
            Self::SetServer { kind, params, .. } => {
                scheduler.set_server(rq, now, kind, params, io).map(|()| Answer::DONE)?
            }
            Self::FollowRtLimit { .. } => {
                scheduler.follow_rt_limit(rq, now, io);
                Answer::DONE
            }
            Self::FollowRtGroups { .. } => {
                scheduler.follow_rt_groups(rq, now, io);
                Answer::DONE
            }
            Self::FollowGroupWeight { group, .. } => {
                scheduler.follow_group_weight(rq, now, group, io).map(|()| Answer::DONE)?
            }
            Self::Offline { .. } => {
                scheduler.offline(rq, now, io);
                Answer::DONE
            }
            Self::Evict { .. } => {
                *hand = scheduler.evict(rq, now, io);
                Answer::DONE
            }
            Self::Online { .. } => Answer::Step(scheduler.online(rq, now, io)),
            Self::JoinDomain { partition, .. } => Answer::Step(scheduler.join_domain(rq, now, partition, io)?),
            Self::CreateGroup { .. }
            | Self::RemoveGroup { .. }
            | Self::SetGroupWeight { .. }
            | Self::SetGroupIdle { .. }
            | Self::SetGroupMax { .. }
            | Self::SetGroupRt { .. }
            | Self::GroupTimer { .. }
            | Self::SetRtBandwidth { .. }
            | Self::CreateTask { .. }
            | Self::Select { .. }
            | Self::InheritParked { .. }
            | Self::SetAttrParked { .. }
            | Self::SetAffinityParked { .. }
            | Self::SetGroupParked { .. }
            | Self::ExitParked { .. }
            | Self::Pair { .. } => unreachable!("invariant: `apply` makes these"),
        })
    }
}

/// Separates "the task is not here", which a host meets in a race, from what the core refuses.
fn found<E: Into<Refused>>(changed: Result<Step, E>) -> Result<Answer, Refused> {
    match changed.map_err(Into::into) {
        Ok(step) => Ok(Answer::Step(step)),
        Err(Refused::Task(TaskError::NotHere(_)) | Refused::Group(GroupError::NotHere(_))) => Ok(Answer::NotHere),
        Err(refused) => Err(refused),
    }
}

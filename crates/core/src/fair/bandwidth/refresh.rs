//! New quota: the end of a period, returned slack, a new limit; and how throttled CPUs get their part, one run queue at
//! a time.
//!
//! Sources: Linux v6.12 `kernel/sched/fair.c`, `sched_cfs_period_timer`, `sched_cfs_slack_timer`,
//! `distribute_cfs_runtime`; `kernel/sched/core.c`, `tg_set_cfs_bandwidth`. differs: the timer's own CPU is not served
//! last, and run queues of other CPUs are locked rather than sent an interrupt (as before 6.3).

use super::super::GroupError;
use super::park::More;
use super::pool::Share;
use super::throttle::unthrottle;
use super::{arm, count_scanned, follow_limit, park};
use crate::class;
use crate::dl;
use crate::rq::{Cx, Phase, Rq};
use crate::scheduler::Scheduler;
use crate::step::{Clock, Cont, Distribute, Distribution, GroupTimer, Io, Resched, Step};
use lock_api::RawMutex;
use zerolag_model::{CpuId, CpuMax, CpuStat, Duration, GroupId, SignedDuration, TraceEvent};

impl<L: RawMutex> Scheduler<L> {
    /// Sets what a group may use (`cpu.max`, `cpu.max.burst`). Its pool is filled at once, and where it is throttled it
    /// may run again; elsewhere a CPU follows when it runs the group next. `by` is the CPU that does it.
    ///
    /// # Errors
    /// The group does not exist or is the root; the limit is out of range ([`CpuMax::check`]).
    pub fn set_group_max(
        &self,
        group: GroupId,
        max: CpuMax,
        now: Clock,
        by: CpuId,
        io: &mut Io,
    ) -> Result<Step, GroupError> {
        max.check().map_err(GroupError::Max)?;
        let cx = &mut self.cx(by, now, io);
        cx.io.costs.inner_locks += 1;
        let set = self.shared.groups.set_max(group, now.wall, max)?;
        cx.io.event(now, by, || TraceEvent::GroupMax { group, max });
        count_scanned(cx, set.scanned);
        arm(cx, group, GroupTimer::Period, set.arm);
        Ok(begin(group, Distribute::NewLimit, set.first))
    }

    /// Sets where the periods of a group begin, from the host's time zero on; they do at zero otherwise. Before its first limit.
    ///
    /// Hosts with `cfs_bandwidth_interleave` draw it, below [`CpuMax::DEFAULT_PERIOD`]: the core has no random numbers.
    ///
    /// # Errors
    /// The group does not exist or is the root.
    pub fn set_group_phase(&self, group: GroupId, phase: Duration) -> Result<(), GroupError> {
        self.shared.groups.set_phase(group, phase)
    }

    /// Returns what a group may use.
    ///
    /// # Errors
    /// The group does not exist.
    pub fn group_max(&self, group: GroupId) -> Result<CpuMax, GroupError> {
        self.shared.groups.max(group)
    }

    /// Returns what a group's limit has counted since it was made (`cpu.stat`).
    ///
    /// # Errors
    /// The group does not exist.
    pub fn group_stat(&self, group: GroupId) -> Result<CpuStat, GroupError> {
        self.shared.groups.stat(group)
    }

    /// A timer of a group fired, on any CPU. Nothing is done if it is one of the past.
    pub fn group_timer(&self, group: GroupId, timer: GroupTimer, now: Clock, by: CpuId, io: &mut Io) -> Step {
        let cx = &mut self.cx(by, now, io);
        cx.io.costs.inner_locks += 1;
        match timer {
            GroupTimer::Period => {
                let Some(refreshed) = self.shared.groups.refresh(group, now.wall) else { return Step::Done };
                let (runtime, throttled) = (refreshed.runtime, refreshed.first.is_some());
                cx.io.event(now, by, || TraceEvent::BandwidthRefresh { group, runtime, throttled });
                count_scanned(cx, refreshed.scanned);
                arm(cx, group, GroupTimer::Period, refreshed.arm);
                begin(group, Distribute::Quota, refreshed.first)
            }
            GroupTimer::Slack => {
                let slice = self.config.settings.bandwidth_slice;
                let first = self.shared.groups.pool(group).serve_slack(now.wall, slice);
                begin(group, Distribute::Quota, first)
            }
        }
    }
}

/// Begins a round over the throttled CPUs.
fn begin(group: GroupId, what: Distribute, first: Option<(CpuId, u32)>) -> Step {
    match first {
        Some((own, left)) => {
            let then = Cont::Bandwidth(Distribution { group, what, left });
            Step::Again { own, then }
        }
        None => Step::Done,
    }
}

/// Serves one throttled CPU and goes on to the next: as many as were throttled when the round began.
pub(crate) fn resume<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, work: Distribution) -> Step {
    class::charge_current(rq, cx);
    let group = work.group;
    let throttled = rq.fair.live_queue(&cx.shared.groups, group).and_then(|q| {
        let local = &rq.queue(q).bandwidth;
        local.throttled_since().map(|since| (q, local.remaining, cx.now.wall.since(since)))
    });
    let next = match throttled {
        Some((q, remaining, lasted)) => {
            let share = serve(rq, cx, work, remaining, lasted);
            let local = &mut rq.queue_mut(q).bandwidth;
            local.remaining = local.remaining + share.amount.to_signed();
            let is_free = match work.what {
                Distribute::Quota => local.remaining.as_nanos() > 0,
                Distribute::NewLimit => {
                    follow_limit(rq, cx, q);
                    true
                }
            };
            if is_free {
                if cx.config.settings.bandwidth_expiry {
                    let issued = cx.view().group_refreshes(group);
                    rq.queue_mut(q).bandwidth.issued = issued;
                }
                unthrottle(rq, cx, q);
                dl::server::update(rq, cx);
            }
            share.next
        }
        // It left the list meanwhile, or has more to take back.
        None => cx.io.observer.cpu(|| cx.shared.groups.pool(group).next_to_serve()),
    };
    let parked = rq.fair.live_queue(&cx.shared.groups, group).filter(|q| park::has_parked(rq, *q));
    if let Some(q) = parked {
        let more = park::take_back(rq, cx, q);
        if rq.current.is_none() && rq.phase == Phase::Running && rq.fair.nr_running() > 0 {
            rq.resched(cx, Resched::Now);
        }
        dl::server::update(rq, cx);
        if more == More::Yes {
            return Step::Again { own: rq.cpu, then: Cont::Bandwidth(work) };
        }
    }
    let left = work.left - 1;
    match next {
        Some(own) if left > 0 && own != rq.cpu => {
            Step::Again { own, then: Cont::Bandwidth(Distribution { left, ..work }) }
        }
        Some(_) | None => Step::Done,
    }
}

/// Takes this CPU's share under the pool's lock.
fn serve<L: RawMutex>(
    rq: &Rq,
    cx: &mut Cx<'_, L>,
    work: Distribution,
    remaining: SignedDuration,
    lasted: Duration,
) -> Share {
    cx.io.costs.inner_locks += 1;
    let (cpu, table) = (rq.cpu, &cx.shared.groups);
    let (mut next, mut scanned) = (None, 0);
    let amount = cx.io.observer.u64(|| {
        let mut pool = table.pool(work.group);
        let share = match work.what {
            Distribute::Quota => pool.share(cpu, remaining, lasted),
            Distribute::NewLimit => {
                pool.release(cpu, lasted);
                Share { amount: Duration::ZERO, next: pool.throttled().next(), scanned: 0 }
            }
        };
        (next, scanned) = (share.next, share.scanned);
        share.amount.as_nanos()
    });
    let next = cx.io.observer.cpu(|| next);
    let scanned = count_scanned(cx, scanned);
    Share { amount: Duration::from_nanos(amount), next, scanned }
}

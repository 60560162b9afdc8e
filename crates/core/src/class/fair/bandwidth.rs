//! CPU bandwidth control: a group uses no more than its quota per period (`cpu.max`).
//!
//! What a group may use in a period is in its [`pool`], or with `bandwidth = hard_limits` divided
//! over the CPUs ([`hard_limits`]). A CPU takes it in slices as tasks of the group run there
//! ([`account`]); when the pool is empty and the slice used up, the group's queue on that CPU is
//! *throttled* ([`throttle`]): its entity leaves its parent's queue, and what it has counts nowhere
//! above it, until the period ends or others give back what they do not need ([`refresh`]).
//!
//! ```text
//!                 slice when it runs out                       out of quota: throttled
//!   pool of A  ----------------------------> A's queue on CPU 0 ---------------------> list of throttled CPUs
//!      ^  ^                                        |                                            |
//!      |  +------- all but 1 ms, when it empties --+                                            |
//!      +-- quota, when the period ends -----------------> debt and 1 ns to each, in order <-----+
//! ```
//!
//! What throttling stops is a setting (`throttle`): the group wherever its tasks are; the group but
//! for tasks that must leave the kernel first ([`boost`]); or each task when it leaves the kernel
//! ([`park`]).
//!
//! What is used is noticed when the current task is charged: at ticks, or at once with
//! `enforce.fair = exact`. So a CPU uses more than it took, by a tick at most; that is a debt which
//! its next share pays first.
//!
//! Work: O(1) per level and charge while there is quota; throttling and its end O(depth x log n). A
//! refresh touches only CPUs where the group is throttled. Memory: a pool per group, nothing per
//! CPU on which it has nothing queued.
//!
//! Sources: Turner & Rao 2010, "CFS Bandwidth Control" (RFC v1); Linux v6.12 `kernel/sched/fair.c`,
//! `__account_cfs_rq_runtime`, `check_enqueue_throttle`, `check_cfs_rq_runtime`,
//! `return_cfs_rq_runtime`; v5.3 the same, `expire_cfs_rq_runtime`. differs: a queue without tasks
//! is never throttled, so a group whose last task blocks with a debt does not count as throttled in
//! that period; a limit that is changed takes effect on a CPU when it runs the group next, the
//! kernel locks all run queues.

use crate::class::fair::{park, throttle};
use crate::entity::fair::{QueueIx, Standing};
use crate::queue::fair::local::{KEPT, Local};
use crate::queue::fair::rq::FairRq;
use crate::rq::cx::Cx;
use crate::rq::run_queue::{Phase, Rq};
use crate::shared::groups::GroupTable;
use crate::shared::pool::{Pool, Request, Taken};
use crate::words::ids::Slot;
use crate::words::op::{GroupTimer, Op};
use crate::words::resched::Resched;
use lock_api::RawMutex;
use zerolag_model::settings::{BandwidthControl, Grain};
use zerolag_model::{CpuId, Duration, GroupId, Instant, Settings, SignedDuration};

/// Returns whether a task must leave its CPU before it goes on in user mode: it was boosted, or is
/// to be parked.
#[inline]
pub(crate) fn gives_way_in_user_mode(rq: &Rq, slot: Slot) -> bool {
    rq.tasks[slot].fair.standing == Standing::Boosted || park::is_due(rq, slot)
}

/// Learns of a limit that was set since; returns whether there is one.
pub(crate) fn follow_limit<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, q: QueueIx) -> bool {
    let FairRq { queues, has_limits, .. } = &mut rq.fair;
    let queue = &mut queues[q.index()];
    let limit = cx.view().group_limit(queue.group);
    let local = &mut queue.bandwidth;
    if local.limit != limit {
        *has_limits = true;
        local.limit = limit;
        let start = if cx.config.settings.bandwidth_zero_start { 0 } else { 1 };
        local.remaining = SignedDuration::from_nanos(start);
    }
    limit != 0
}

/// Charges a group's queue with the time that the current task ran, and takes more if that was all.
pub(crate) fn account<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, q: QueueIx, delta: Duration) {
    if !follow_limit(rq, cx, q) {
        return;
    }
    let local = &mut rq.queue_mut(q).bandwidth;
    local.remaining = local.remaining - delta.to_signed();
    let has_some = local.remaining.as_nanos() > 0;
    if has_some && !(cx.config.settings.bandwidth_expiry && expire(rq, cx, q)) {
        return;
    }
    if !rq.queue(q).bandwidth.is_throttled() && !take_slice(rq, cx, q) && rq.phase() == Phase::Running {
        rq.resched(cx, Resched::Now);
    }
}

/// Takes away what was issued before the last refresh; returns whether it did.
fn expire<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, q: QueueIx) -> bool {
    let now = cx.view().group_refreshes(rq.queue(q).group);
    let local = &mut rq.queue_mut(q).bandwidth;
    let is_old = local.issued != now;
    if is_old {
        local.remaining = local.remaining.min(SignedDuration::from_nanos(0));
    }
    is_old
}

/// Returns up to what a CPU fills what it has. Where quota is divided, others must see what is used
/// as it is used: a CPU takes what it has used already and 1 ns, as `rt_time` counts; with exact
/// enforcement a timer needs more to be set to. `own` is the group's slice, if it has one.
fn slice(settings: &Settings, own: Option<Duration>) -> Duration {
    match (settings.bandwidth, settings.enforce_fair) {
        (BandwidthControl::Pool, _) | (BandwidthControl::HardLimits, Grain::Exact) => {
            own.unwrap_or(settings.bandwidth_slice)
        }
        (BandwidthControl::HardLimits, Grain::Tick) => Duration::from_nanos(1),
    }
}

/// How often a stepped slice doubles.
const STEPS: u8 = 2;

/// Returns what a CPU asks for: what fills it up to a slice.
///
/// With `cfs_bandwidth_slice_steps` the slice is a quarter of that at first and half at the second
/// request, in full if it goes on asking; whoever soon has nothing to run holds little. Near the
/// end of the quota nobody gets more than a quarter of what is left, but what he owes and 1 ms, so
/// that no CPU takes the rest from those that ask after it.
fn request(settings: &Settings, own: Option<Duration>, local: &mut Local) -> Request {
    let slice = slice(settings, own);
    let fills = |level: Duration| (level.to_signed() - local.remaining).max_zero();
    match (settings.bandwidth, settings.bandwidth_slice_steps) {
        (BandwidthControl::Pool, true) => {
            let most = fills(slice / (1 << (STEPS - local.requests)));
            let least = (KEPT - local.remaining).max_zero().min(most);
            local.requests = STEPS.min(local.requests + 1);
            Request { most, least }
        }
        (BandwidthControl::Pool, false) | (BandwidthControl::HardLimits, _) => Request::exactly(fills(slice)),
    }
}

/// Takes quota up to a slice; returns whether it has some now.
fn take_slice<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, q: QueueIx) -> bool {
    let (group, cpu) = (rq.queue(q).group, rq.cpu());
    let own = cx.view().group_slice(group);
    let wanted = request(&cx.config.settings, own, &mut rq.queue_mut(q).bandwidth);
    let taken = with_pool(cx, group, |pool, now| pool.take(now, cpu, wanted));
    receive(rq, cx, q, taken)
}

/// Books what was taken; returns whether there is some now.
pub(crate) fn receive<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, q: QueueIx, taken: Taken) -> bool {
    let group = rq.queue(q).group;
    let issued = if cx.config.settings.bandwidth_expiry { cx.view().group_refreshes(group) } else { 0 };
    let local = &mut rq.queue_mut(q).bandwidth;
    local.remaining = local.remaining + taken.amount.to_signed();
    local.issued = issued;
    let has_some = local.remaining.as_nanos() > 0;
    arm(cx, group, GroupTimer::Period, taken.arm);
    has_some
}

/// Takes from the pool under its lock. What was got is an observation: it depends on what other
/// CPUs did.
pub(crate) fn with_pool<L: RawMutex>(
    cx: &mut Cx<'_, L>,
    group: GroupId,
    take: impl FnOnce(&mut Pool, Instant) -> Taken,
) -> Taken {
    cx.io.costs.inner_locks += 1;
    let (now, table) = (cx.now.wall, &cx.shared.groups);
    let (mut arm, mut scanned) = (None, 0);
    let amount = cx.io.observer.u64(|| {
        let taken = take(&mut table.pool(group), now);
        (arm, scanned) = (taken.arm, taken.scanned);
        taken.amount.as_nanos()
    });
    let arm = cx.io.observer.u64(|| arm.map_or(0, Instant::as_nanos));
    let scanned = count_scanned(cx, scanned);
    Taken { amount: Duration::from_nanos(amount), arm: (arm > 0).then(|| Instant::from_nanos(arm)), scanned }
}

/// Counts CPUs whose part of a divided quota was looked at, each under its own lock.
pub(crate) fn count_scanned<L: RawMutex>(cx: &mut Cx<'_, L>, scanned: u32) -> u32 {
    let scanned = cx.io.observer.u64(|| u64::from(scanned)) as u32;
    cx.io.costs.cpus_scanned += scanned;
    cx.io.costs.inner_locks += scanned;
    scanned
}

pub(crate) fn arm<L: RawMutex>(cx: &mut Cx<'_, L>, group: GroupId, timer: GroupTimer, at: Option<Instant>) {
    if let Some(at) = at {
        cx.io.op(Op::ArmGroupTimer { group, timer, at });
    }
}

/// A queue has got its first entity: without quota it is throttled before anything above it is
/// told.
pub(crate) fn check_enqueue<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, q: QueueIx) {
    if q == QueueIx::ROOT || rq.queue(q).bandwidth.is_throttled() || !follow_limit(rq, cx, q) {
        return;
    }
    let has_some = rq.queue(q).bandwidth.remaining.as_nanos() > 0;
    if has_some && !(cx.config.settings.bandwidth_expiry && expire(rq, cx, q)) {
        return;
    }
    if !take_slice(rq, cx, q) {
        throttle::throttle(rq, cx, q);
    }
}

/// A queue is empty: all but 1 ms of what it has goes back to the pool.
pub(crate) fn give_back<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, q: QueueIx) {
    rq.queue_mut(q).bandwidth.requests = 0;
    let local = rq.queue(q).bandwidth;
    let slack = (local.remaining - KEPT).max_zero();
    if local.limit == 0 || slack.is_zero() || !cx.config.settings.bandwidth_slack || !follow_limit(rq, cx, q) {
        return;
    }
    let slack = (rq.queue(q).bandwidth.remaining - KEPT).max_zero();
    if slack.is_zero() || cx.config.settings.bandwidth_expiry && expire(rq, cx, q) {
        return;
    }
    rq.queue_mut(q).bandwidth.remaining = KEPT;
    let (group, cpu, slice) = (rq.queue(q).group, rq.cpu(), cx.config.settings.bandwidth_slice);
    let taken = with_pool(cx, group, |pool, now| Taken::nothing(pool.give_back(now, cpu, slack, slice)));
    arm(cx, group, GroupTimer::Slack, taken.arm);
}

/// A queue is freed: the pool takes what it has, or pays what it owes.
pub(crate) fn settle<L: RawMutex>(table: &GroupTable<L>, group: GroupId, cpu: CpuId, local: &Local) {
    if local.limit != 0 && local.limit == table.limit(group) {
        table.pool(group).settle(cpu, local.remaining);
    }
}

//! CPU bandwidth control: a group uses no more than its quota per period (`cpu.max`).
//!
//! The group's tasks run on many CPUs, and a global counter that every CPU updates at every charge
//! does not scale. So the quota is kept in a [`pool`](crate::shared::pool), and a CPU takes it in
//! slices as tasks of the group run there ([`account`]). When the pool is empty and the slice is
//! used up, the group's queue on that CPU is *throttled* ([`throttle`]): its entity leaves the
//! parent's queue, and its tasks count nowhere above it. That lasts until the period ends or
//! another CPU returns unused quota ([`Pool::refresh`], [`Pool::give_back`]). There is no pool with
//! `bandwidth = hard_limits`; the quota is then divided over the CPUs
//! ([`hard_limits`](crate::shared::hard_limits)).
//!
//! ```text
//!                slice when it runs out                out of quota: throttled
//!   pool of A -------------------------> A's queue on CPU 0 ------------> list of throttled CPUs
//!      ^  ^                                       |                                 |
//!      |  +------ all but 1 ms, when it empties --+                                 |
//!      +-- quota, when the period ends ------> debt and 1 ns to each, in order <----+
//! ```
//!
//! The setting `throttle` selects the tasks that throttling stops:
//!
//! | the group stops | module |
//! |---|---|
//! | at once, wherever its tasks are | [`throttle`] |
//! | except for tasks that must leave the kernel first | [`boost`](super::boost) |
//! | once none of its tasks must leave the kernel first | [`boost`](super::boost) |
//! | task by task, as each leaves the kernel | [`park`](super::park) |
//!
//! Use is noticed when the current task is charged: at ticks, or at once if the setting is
//! `enforce.fair = exact`. So a CPU can use more than it took, by at most a tick. The excess is a
//! debt that is deducted from its next share.
//!
//! Work: O(1) per level and charge while there is quota. Throttling and unthrottling are O(depth x
//! log n). A refresh touches only CPUs where the group is throttled. Memory: a pool per group, and
//! nothing on CPUs where the group has nothing queued.
//!
//! Sources: Turner & Rao 2010, "CFS Bandwidth Control" (RFC v1); Linux v6.12 `kernel/sched/fair.c`,
//! `__account_cfs_rq_runtime`, `check_enqueue_throttle`, `check_cfs_rq_runtime`,
//! `return_cfs_rq_runtime`; v5.3 the same, `expire_cfs_rq_runtime`.
//!
//! differs: a queue without tasks is never throttled, so a group does not count as throttled in a
//! period in which its last task blocks with a debt; a changed limit takes effect on a CPU when it
//! runs the group next, whereas the kernel locks all run queues.

use crate::class::fair::throttle;
use crate::entity::fair::QueueIx;
use crate::queue::fair::local::{KEPT, Local};
use crate::queue::fair::rq::FairRq;
use crate::rq::cx::Cx;
use crate::rq::run_queue::{Phase, Rq};
use crate::shared::groups::GroupTable;
use crate::shared::pool::{Pool, QuotaRequest, TakenQuota};
use crate::words::ids::Slot;
use crate::words::lines::LineAccess;
use crate::words::mode::TaskMode;
use crate::words::op::{GroupTimer, Op};
use crate::words::resched::Resched;
use lock_api::RawMutex;
use zerolag_model::settings::{BandwidthControl, Throttle, ThrottleAt, TimerGrain};
use zerolag_model::{CpuId, Duration, GroupId, Instant, Settings, SignedDuration};

/// Reads the current limit of a group; returns whether there is one.
pub(crate) fn follow_limit<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, q: QueueIx) -> bool {
    let FairRq { queues, has_limits, .. } = &mut rq.fair;
    let queue = &mut queues[q.index()];
    let limit = cx.view().group_limit(queue.group);
    let local = &mut queue.bandwidth;
    if local.limit != limit {
        *has_limits = true;
        local.is_new |= local.limit == 0;
        local.limit = limit;
        let start = if cx.config.settings.bandwidth_zero_start { 0 } else { 1 };
        local.remaining = SignedDuration::from_nanos(start);
    }
    limit != 0
}

/// Reads the limits of the groups of a task that is switched to, on a CPU that ticks only if the
/// tick decides something. Others read a limit when they charge the group, at a tick at the latest;
/// here there would be none.
///
/// Source: Linux v6.6 `kernel/sched/fair.c`, `tg_set_cfs_bandwidth` (sets `runtime_enabled` on all
/// CPUs), `sched_fair_update_stop_tick` (reads it at each pick).
#[cold]
pub(crate) fn follow_limits<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot) {
    let mut next = Some(rq.group_queue(slot));
    while let Some(q) = next.filter(|q| *q != QueueIx::ROOT) {
        follow_limit(rq, cx, q);
        next = rq.queue(q).parent;
    }
}

/// Charges a group's queue for the exec time of the current task. Takes more quota if that was the
/// last.
pub(crate) fn account<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, q: QueueIx, delta: Duration) {
    if !follow_limit(rq, cx, q) || is_leaving(rq, cx) {
        return;
    }
    let local = &mut rq.queue_mut(q).bandwidth;
    local.remaining = local.remaining - delta.to_signed();
    let has_some = local.remaining.as_nanos() > 0;
    if has_some && !(cx.config.settings.bandwidth_expiry && expire(rq, cx, q)) {
        return;
    }
    if rq.queue(q).bandwidth.is_throttled() || take_slice(rq, cx, q) || rq.phase() != Phase::Running {
        return;
    }
    if parks_at_charge(rq, cx) {
        rq.resched_to_park(cx);
    } else {
        rq.resched(cx, Resched::Now);
    }
}

/// Returns whether a group that is charged for its last quota is throttled by that, so that only
/// the current task has something to do: it is parked at its return to user mode, unless its turn
/// is over at the same time (`throttle_at = charge`). Otherwise the group is throttled by a switch,
/// for which it asks. differs: in kernel mode the CPU switches, too.
///
/// Source: Linux v7.2 `kernel/sched/fair.c`, `__account_cfs_rq_runtime`, `throttle_cfs_rq`; v6.18
/// the same, `check_cfs_rq_runtime` in `put_prev_entity` and `pick_task_fair`.
#[cold]
fn parks_at_charge<L: RawMutex>(rq: &Rq, cx: &Cx<'_, L>) -> bool {
    let settings = &cx.config.settings;
    settings.throttle == Throttle::AtUserReturn
        && settings.throttle_at == ThrottleAt::Charge
        && rq.current_slot().is_some_and(|slot| rq.tasks[slot].mode == TaskMode::User)
}

/// Returns whether this CPU is offline, and its groups are without limits until it is back
/// (`runtime_enabled`).
#[inline]
fn is_leaving<L: RawMutex>(rq: &Rq, cx: &Cx<'_, L>) -> bool {
    !rq.is_online() && !cx.config.settings.bandwidth_offline_loss
}

/// Takes away quota that was issued before the last refresh; returns whether it did.
fn expire<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, q: QueueIx) -> bool {
    let now = cx.view().group_refreshes(rq.queue(q).group);
    let local = &mut rq.queue_mut(q).bandwidth;
    let is_old = local.issued != now;
    if is_old {
        local.remaining = local.remaining.min(SignedDuration::from_nanos(0));
    }
    is_old
}

/// Returns the level up to which a CPU fills its local quota. If the quota is divided, other CPUs
/// must see its use as it happens, so a CPU takes only the quota that it has already used and 1 ns,
/// as `rt_time` counts. With exact enforcement it takes more, because a timer is set to the
/// remainder. `own` is the group's slice, if it has one.
fn slice(settings: &Settings, own: Option<Duration>) -> Duration {
    match (settings.bandwidth, settings.enforce_fair) {
        (BandwidthControl::Pool, _) | (BandwidthControl::HardLimits, TimerGrain::Exact) => {
            own.unwrap_or(settings.bandwidth_slice)
        }
        (BandwidthControl::HardLimits, TimerGrain::Tick | TimerGrain::Hrtick) => Duration::from_nanos(1),
    }
}

/// The number of times that a stepped slice doubles.
const STEPS: u8 = 2;

/// Returns the request of a CPU for quota: the amount that fills it up to a slice.
///
/// With `cfs_bandwidth_slice_steps` the first request fills up to a quarter of the slice, the
/// second to half, the third and later ones to all of it. A CPU that soon has nothing to run thus
/// holds little. Near the end of the quota a request gets at most a quarter of the remaining quota,
/// or the CPU's debt and 1 ms if that is more. So no CPU takes the rest from those that ask after
/// it.
fn request(settings: &Settings, own: Option<Duration>, local: &mut Local) -> QuotaRequest {
    let slice = slice(settings, own);
    let fills = |level: Duration| (level.to_signed() - local.remaining).max_zero();
    match (settings.bandwidth, settings.bandwidth_slice_steps) {
        (BandwidthControl::Pool, true) => {
            let most = fills(slice / (1 << (STEPS - local.requests)));
            let least = (KEPT - local.remaining).max_zero().min(most);
            local.requests = STEPS.min(local.requests + 1);
            QuotaRequest { most, least }
        }
        (BandwidthControl::Pool, false) | (BandwidthControl::HardLimits, _) => QuotaRequest::exactly(fills(slice)),
    }
}

/// Takes quota up to a slice; returns whether the queue has some now.
fn take_slice<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, q: QueueIx) -> bool {
    let (group, cpu) = (rq.queue(q).group, rq.cpu());
    let own = cx.view().group_slice(group);
    let wanted = request(&cx.config.settings, own, &mut rq.queue_mut(q).bandwidth);
    let taken = with_pool(cx, group, |pool, now| pool.take(now, cpu, wanted));
    receive(rq, cx, q, taken)
}

/// Adds the quota taken to the queue; returns whether it has some now.
pub(crate) fn receive<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, q: QueueIx, taken: TakenQuota) -> bool {
    let group = rq.queue(q).group;
    let issued = if cx.config.settings.bandwidth_expiry { cx.view().group_refreshes(group) } else { 0 };
    let local = &mut rq.queue_mut(q).bandwidth;
    local.remaining = local.remaining + taken.amount.to_signed();
    local.issued = issued;
    let has_some = local.remaining.as_nanos() > 0;
    arm(cx, group, GroupTimer::Period, taken.arm);
    has_some
}

/// Takes from the pool under its lock. The result is an observation: it depends on other CPUs.
pub(crate) fn with_pool<L: RawMutex>(
    cx: &mut Cx<'_, L>,
    group: GroupId,
    take: impl FnOnce(&mut Pool, Instant) -> TakenQuota,
) -> TakenQuota {
    cx.io.costs.inner_locks += 1;
    let (now, table) = (cx.now.wall, &cx.shared.groups);
    let (mut arm, mut scanned) = (None, 0);
    let amount = cx.io.read(LineAccess::Pool { group }, || {
        let taken = take(&mut table.pool(group), now);
        (arm, scanned) = (taken.arm, taken.scanned);
        taken.amount.as_nanos()
    });
    let arm = cx.io.observer.u64(|| arm.map_or(0, Instant::as_nanos));
    let scanned = count_scanned(cx, group, scanned);
    TakenQuota { amount: Duration::from_nanos(amount), arm: (arm > 0).then(|| Instant::from_nanos(arm)), scanned }
}

/// Counts the examined parts of a divided quota, each of which has its own lock.
pub(crate) fn count_scanned<L: RawMutex>(cx: &mut Cx<'_, L>, group: GroupId, scanned: u32) -> u32 {
    let scanned = cx.io.observer.u64(|| u64::from(scanned)) as u32;
    if scanned > 0 {
        count_parts(cx, group, scanned);
    }
    scanned
}

/// Only hard limits have such parts.
#[cold]
fn count_parts<L: RawMutex>(cx: &mut Cx<'_, L>, group: GroupId, scanned: u32) {
    cx.io.log(LineAccess::Parts { group, cpus: scanned });
    cx.io.costs.cpus_scanned += scanned;
    cx.io.costs.inner_locks += scanned;
}

pub(crate) fn arm<L: RawMutex>(cx: &mut Cx<'_, L>, group: GroupId, timer: GroupTimer, at: Option<Instant>) {
    if let Some(at) = at {
        cx.io.op(Op::ArmGroupTimer { group, timer, at });
    }
}

/// Throttles a queue that got its first entity and has no quota, before anything above it changes.
pub(crate) fn check_enqueue<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, q: QueueIx) {
    if q == QueueIx::ROOT || rq.queue(q).bandwidth.is_throttled() || !follow_limit(rq, cx, q) || is_leaving(rq, cx) {
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

/// Returns the quota of an empty queue to the pool, except 1 ms.
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
    let taken = with_pool(cx, group, |pool, now| TakenQuota::nothing(pool.give_back(now, cpu, slack, slice)));
    arm(cx, group, GroupTimer::Slack, taken.arm);
}

/// Settles the quota of a queue that is freed: the pool takes the rest, or pays the debt.
pub(crate) fn settle<L: RawMutex>(table: &GroupTable<L>, group: GroupId, cpu: CpuId, local: &Local) {
    if local.limit != 0 && local.limit == table.limit(group) {
        table.pool(group).settle(cpu, local.remaining);
    }
}

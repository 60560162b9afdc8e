//! Distribution of new quota to the CPUs where a group is throttled, one run queue at a time.
//!
//! Sources: Linux v6.12 `kernel/sched/fair.c`, `distribute_cfs_runtime`; `kernel/sched/core.c`,
//! `tg_set_cfs_bandwidth`. differs: run queues of other CPUs are locked instead of sending these
//! CPUs an interrupt (as before 6.3).

use crate::class::dl_server;
use crate::class::fair::bandwidth::{count_scanned, follow_limit};
use crate::class::fair::park;
use crate::class::fair::park::More;
use crate::class::fair::throttle::unthrottle;
use crate::lifecycle;
use crate::rq::cx::Cx;
use crate::rq::run_queue::Rq;
use crate::shared::pool::Share;
use crate::words::lines::LineAccess;
use crate::words::step::{Cont, Distribute, Distribution, Step};
use lock_api::RawMutex;
use zerolag_model::{CpuId, Duration, GroupId, SignedDuration};

/// Begins a round over the CPUs where the group is throttled.
pub(crate) fn begin(group: GroupId, what: Distribute, first: Option<(CpuId, u32)>) -> Step {
    match first {
        Some((own, left)) => {
            let then = Cont::Bandwidth(Distribution { group, what, left });
            Step::Again { own, then }
        }
        None => Step::Done,
    }
}

/// Serves one throttled CPU and continues with the next. A round serves as many CPUs as were
/// throttled when it began.
pub(crate) fn resume<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, work: Distribution) -> Step {
    lifecycle::charge_current(rq, cx);
    let group = work.group;
    let throttled = rq.fair.live_queue(&cx.shared.groups, group).and_then(|q| {
        let local = &rq.queue(q).bandwidth;
        local.throttled_for(cx.now.wall).map(|lasted| (q, local.remaining, lasted))
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
                dl_server::update(rq, cx);
            }
            share.next
        }
        // The CPU left the list meanwhile, or has more parked tasks to take back.
        None => cx.io.observer.cpu(|| {
            let pool = cx.shared.groups.pool(group);
            match work.what {
                Distribute::Quota => pool.next_to_serve(),
                // Without a limit the pool is empty, and all run again.
                Distribute::NewLimit => pool.throttled().next(),
            }
        }),
    };
    let parked = rq.fair.live_queue(&cx.shared.groups, group).filter(|q| park::has_parked(rq, *q));
    if let Some(q) = parked {
        let more = park::take_back(rq, cx, q);
        dl_server::update(rq, cx);
        if more == More::Yes {
            return Step::Again { own: rq.cpu(), then: Cont::Bandwidth(work) };
        }
    }
    let left = work.left - 1;
    match next {
        Some(own) if left > 0 && own != rq.cpu() => {
            Step::Again { own, then: Cont::Bandwidth(Distribution { left, ..work }) }
        }
        Some(_) | None => Step::Done,
    }
}

/// Takes this CPU's share under the lock of the pool.
fn serve<L: RawMutex>(
    rq: &Rq,
    cx: &mut Cx<'_, L>,
    work: Distribution,
    remaining: SignedDuration,
    lasted: Duration,
) -> Share {
    cx.io.costs.inner_locks += 1;
    let (cpu, table) = (rq.cpu(), &cx.shared.groups);
    let (mut next, mut scanned) = (None, 0);
    let amount = cx.io.read(LineAccess::Pool { group: work.group }, || {
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
    let scanned = count_scanned(cx, work.group, scanned);
    Share { amount: Duration::from_nanos(amount), next, scanned }
}

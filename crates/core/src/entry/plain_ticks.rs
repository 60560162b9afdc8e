//! Plain ticks that are foreseen, and done later, several at once.
//!
//! A tick that is plain ([`plain_tick`](super::plain_tick)) and decides nothing changes the state
//! of its own CPU only: the charge of the current task and of its server, the averages of the
//! root's queue, and what of these is published. A host that knows beforehand that the next ticks
//! are of this kind need not do them one by one, as long as it does them before the CPU is looked
//! at.
//!
//! [`Foreseen`] is that knowledge: a lower bound, from the end of the request, the runtime of the
//! server and the next balancing. [`do_all`] leaves what the same ticks leave one by one. Virtual
//! time rounds at each tick, but ticks of one length round alike; averages do not, so they are aged
//! tick by tick.

use crate::class::dl_server;
use crate::class::fair::load;
use crate::entity::fair::{Claim, QueueIx};
use crate::entity::vtime::Vlag;
use crate::queue::dl::server::State;
use crate::rq::cx::Cx;
use crate::rq::run_queue::{Phase, Rq};
use crate::words::clock::{Clock, Foreseen, TickRow};
use crate::words::resched::Resched;
use lock_api::RawMutex;
use zerolag_model::settings::SliceProtection;
use zerolag_model::{ClassId, Duration, Instant, ServerKind};

/// Returns which of the next ticks decide nothing. O(1).
pub(crate) fn foresee<L: RawMutex>(rq: &Rq, cx: &mut Cx<'_, L>) -> Option<Foreseen> {
    let fair = &rq.fair;
    let is_usual = fair.tune.ticks_plainly && fair.asymmetric.is_none() && rq.phase() == Phase::Running;
    // A charge between two ticks can have found that the turn is over.
    let is_over = rq.need_resched() != Resched::No || fair.due != Resched::No;
    if !is_usual || is_over || cx.view().has_idle() {
        return None;
    }
    let task = &rq.tasks[rq.current_slot()?];
    let is_at_root = task.fair.node.is_none() && task.fair.queue == QueueIx::ROOT;
    if task.prio.class() != ClassId::Fair || !is_at_root {
        return None;
    }
    let ends = match (task.fair.claim, fair.tune.protection) {
        (Claim::Protected(until), _) if task.fair.vruntime.is_before(until) => until,
        // It goes on as long as it is eligible: not beyond the average of those that wait.
        (_, SliceProtection::Request) => fair.queue(QueueIx::ROOT).average(None).plus(Vlag::from_nanos(1)),
        (_, SliceProtection::MinSlice | SliceProtection::ZeroLag) => return None,
    };
    let ends = ends.earlier_of(task.fair.virtual_deadline);
    let mut left = task.fair.load.to_real_before(ends.since(task.fair.vruntime))?;
    let server = rq.dl.server(ServerKind::Fair);
    match server.state {
        State::Stopped | State::Interrupted => {}
        State::Deferred => {
            let runtime = server.runtime_left.max_zero().saturating_sub(Duration::from_nanos(1));
            left = left.min(runtime);
        }
        State::Idle | State::Queued(_) | State::Throttled { .. } => return None,
    }
    let before_references = Instant::from_nanos(fair.references_due.as_nanos().saturating_sub(1));
    let task = task.exec_start.saturating_add(left).min(before_references);
    Some(Foreseen { wall: fair.balance.next, task })
}

/// Does ticks that were foreseen. O(ticks).
pub(crate) fn do_all<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, ticks: TickRow) {
    let slot = rq.current_slot().expect("invariant: a task runs on while ticks are plain");
    let TickRow { first, task_period, count } = ticks;
    let more = u64::from(count - 1);
    let task = &mut rq.tasks[slot];
    let delta = first.since(task.exec_start);
    task.exec_start = first + task_period * more;
    task.counters.exec += delta + task_period * more;
    task.fair.run(delta);
    task.fair.run_often(task_period, more);
    dl_server::charge_often(rq, cx, ClassId::Fair, [(delta, 1), (task_period, more)]);
    rq.set_clock(Clock { wall: cx.now.wall, task: first });
    load::take_notes(rq, cx);
    let mut now = first;
    for _ in 0..more {
        now += task_period;
        rq.fair.age_queue(QueueIx::ROOT, now);
    }
    rq.set_clock(Clock { wall: cx.now.wall, task: now });
    debug_assert!(rq.need_resched() == Resched::No && rq.fair.due == Resched::No, "they decide nothing");
}

//! The events of tasks of a loaded scheduler ([`crate::class::ext`]): the rest of a wakeup and of
//! the searches of a switch. Cold and out of line, as every step of that class that is on a path of
//! all classes: a machine on which no scheduler is loaded pays for a comparison.

use crate::balance::ext;
use crate::balance::fair::newidle;
use crate::lifecycle;
use crate::rq::cx::Cx;
use crate::rq::run_queue::{Rq, Stage};
use crate::task::body::Task;
use crate::words::life::Placement;
use crate::words::step::Step;
use alloc::boxed::Box;
use lock_api::RawMutex;
use zerolag_model::TraceEvent;

/// The rest of a wakeup for a task of a loaded scheduler.
#[cold]
#[inline(never)]
pub(crate) fn wake<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, body: Box<Task>, why: Placement) -> Step {
    let (task, prio, to) = (body.id, body.prio, rq.cpu());
    let enqueue = ext::enqueues(cx, to, why);
    let slot = lifecycle::activate(rq, cx, body, enqueue);
    newidle::woken(rq, cx);
    if why != Placement::Displaced {
        cx.io.event(cx.now, to, || TraceEvent::Wakeup { task, prio });
    }
    lifecycle::check_preempt(rq, cx, slot);
    let step = if why == Placement::Displaced { Step::Done } else { ext::woken(rq, cx, slot) };
    rq.publish(cx);
    step
}

/// The rest of the searches of a switch where a scheduler is loaded.
#[cold]
#[inline(never)]
pub(crate) fn search<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, stage: Stage) -> Step {
    if !matches!(stage, Stage::Searched | Stage::Dispatched) && !rq.has_running() && rq.is_online() {
        rq.pass(Stage::Searched);
        // The kernel passes over the fair class once all its tasks are a loaded scheduler's.
        let step = if rq.ext.has_all { Step::Done } else { newidle::begin(rq, cx) };
        if step != Step::Done {
            return step;
        }
    }
    if stage != Stage::Dispatched {
        rq.pass(Stage::Dispatched);
        return ext::begin(rq, cx);
    }
    Step::Done
}

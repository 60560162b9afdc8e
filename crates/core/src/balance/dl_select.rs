//! The CPU for a waking deadline task.

use crate::class::dl_later;
use crate::rq::cx::Cx;
use crate::task::body::Task;
use crate::words::life::Placement;
use lock_api::RawMutex;
use zerolag_model::{ClassId, CpuId};

/// Chooses a CPU for a deadline task. It stays where it ran unless a task with an earlier or equal
/// deadline runs there; then it goes to a CPU where it can run at once, if there is one. It does
/// not leave its root domain.
///
/// As in the kernel, the deadline of the last job is compared, which has usually passed.
pub(crate) fn select<L: RawMutex>(cx: &mut Cx<'_, L>, task: &Task, why: Placement) -> CpuId {
    let (booked, allowed) = (task.dl.reserved.map(|had| had.domain), task.allowed.as_deref());
    let stay = cx.view().stay_in_domain(booked, task.last_cpu, allowed);
    let here = cx.view().online_in_domain(stay, allowed);
    // If the whole domain is offline the task can go anywhere until it wakes again, if all of its
    // CPUs are, even where it is not allowed.
    let own = here.or_else(|| cx.view().online_or_other(stay, allowed));
    let stay = own.or_else(|| cx.view().online_or_other(stay, None)).unwrap_or(stay);
    if !why.is_wakeup() {
        return stay;
    }
    let deadline = task.dl.abs_deadline;
    let is_crowded = cx.view().prios(stay).current.class() == ClassId::Deadline
        && cx.view().deadlines(stay).earliest.is_some_and(|earliest| deadline >= earliest);
    if !is_crowded {
        return stay;
    }
    match dl_later::find_later_for(cx, deadline, task.allowed.as_deref(), stay) {
        Some(cpu) if cx.view().deadlines(cpu).earliest.is_none_or(|earliest| deadline < earliest) => cpu,
        _ => stay,
    }
}

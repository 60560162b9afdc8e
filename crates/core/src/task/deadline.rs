//! What a task's body says about the deadline class: its parameters, its bandwidth, whether it may
//! run.

use crate::entity::dl::DlState;
use crate::task::body::Task;
use crate::words::bandwidth::Bandwidth;
use zerolag_model::{ClassId, DlFlags, DlParams, SchedAttr};

/// Returns by which parameters a task of this class runs: those that it is lent, or its own
/// (`pi_of`).
pub(crate) fn params(task: &Task) -> DlParams {
    task.dl.boost.or(own_params(task)).expect("invariant: a deadline task has parameters, its own or lent ones")
}

/// Returns what a task asks for itself.
pub(crate) const fn own_params(task: &Task) -> Option<DlParams> {
    match task.attr {
        SchedAttr::Deadline(params) => Some(params),
        SchedAttr::Fair { .. } | SchedAttr::Rt { .. } => None,
    }
}

/// Returns whether a task is one of this class that may run: the throttled ones are queued nowhere.
pub(crate) fn is_contending(task: &Task) -> bool {
    task.dl.state == DlState::Contending
}

/// Returns whether a task on a run queue waits for its next budget there.
pub(crate) fn is_throttled(task: &Task) -> bool {
    task.prio.class() == ClassId::Deadline && task.dl.is_throttled()
}

pub(crate) fn bandwidth_of(task: &Task) -> Bandwidth {
    task.dl.reserved.map_or(Bandwidth::default(), |had| had.bandwidth)
}

/// Returns whether a task takes what others leave.
pub(crate) fn reclaims(task: &Task) -> bool {
    matches!(task.attr, SchedAttr::Deadline(params) if params.flags.has(DlFlags::RECLAIM))
}

/// Returns whether a task wants to be told that it has used up a budget.
pub(crate) fn wants_overrun(task: &Task) -> bool {
    own_params(task).is_some_and(|own| own.flags.has(DlFlags::DL_OVERRUN))
}

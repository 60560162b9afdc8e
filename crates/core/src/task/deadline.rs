//! Properties of a task that its body stores for the deadline class: its parameters, its bandwidth,
//! whether it can run.

use crate::entity::dl::DlState;
use crate::task::body::Task;
use crate::words::bandwidth::Bandwidth;
use zerolag_model::{ClassId, DlFlags, DlParams, SchedAttr};

/// Returns the parameters with which a deadline task runs: lent ones, or its own (`pi_of`).
pub(crate) fn params(task: &Task) -> DlParams {
    task.dl.boost.or(own_params(task)).expect("invariant: a deadline task has parameters, its own or lent ones")
}

/// Returns the deadline parameters that a task itself asks for.
pub(crate) const fn own_params(task: &Task) -> Option<DlParams> {
    match task.attr {
        SchedAttr::Deadline(params) => Some(params),
        SchedAttr::Fair { .. } | SchedAttr::Ext { .. } | SchedAttr::Rt { .. } => None,
    }
}

/// Returns whether a deadline task can run: a throttled one is not queued.
pub(crate) fn is_contending(task: &Task) -> bool {
    task.dl.state == DlState::Contending
}

/// Returns whether a task on a run queue waits there for its replenishment.
pub(crate) fn is_throttled(task: &Task) -> bool {
    task.prio.class() == ClassId::Deadline && task.dl.is_throttled()
}

pub(crate) fn bandwidth_of(task: &Task) -> Bandwidth {
    task.dl.bandwidth()
}

/// Returns whether a task reclaims unused bandwidth.
pub(crate) fn reclaims(task: &Task) -> bool {
    matches!(task.attr, SchedAttr::Deadline(params) if params.flags.has(DlFlags::RECLAIM))
}

/// Returns whether a task asks to be notified when it has exhausted a budget.
pub(crate) fn wants_overrun(task: &Task) -> bool {
    own_params(task).is_some_and(|own| own.flags.has(DlFlags::DL_OVERRUN))
}

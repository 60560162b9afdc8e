//! Stand-in.
use crate::rq::{Cx, Rq};
use crate::step::{Balance, Step};
use lock_api::RawMutex;

pub(crate) fn new_idle<L: RawMutex>(_rq: &mut Rq, _cx: &mut Cx<'_, L>) -> Step {
    Step::Done
}
pub(crate) fn tick<L: RawMutex>(_rq: &mut Rq, _cx: &mut Cx<'_, L>) -> Step {
    Step::Done
}
pub(crate) fn idle<L: RawMutex>(_rq: &mut Rq, _cx: &mut Cx<'_, L>) -> Step {
    Step::Done
}
pub(crate) fn resume<L: RawMutex>(_own: &mut Rq, _other: &mut Rq, _cx: &mut Cx<'_, L>, _work: Balance) -> Step {
    Step::Done
}

#[derive(Debug, Default)]
pub(crate) struct BalanceState;

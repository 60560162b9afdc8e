//! The entry points: every event of a host is a method of [`Scheduler`](scheduler::Scheduler).
//!
//! An entry point sets the clock of its run queue, makes the context of the call, leaves the
//! decision to the floors below, and publishes. It decides nothing by itself.

pub(crate) mod admission;
pub(crate) mod bandwidth;
pub(crate) mod change;
pub(crate) mod check;
pub(crate) mod check_bandwidth;
pub(crate) mod check_ext;
pub(crate) mod check_fair;
pub(crate) mod check_served;
pub(crate) mod create;
pub(crate) mod domain;
pub(crate) mod groups;
pub(crate) mod hotplug;
pub(crate) mod loaded;
pub(crate) mod mode;
pub(crate) mod plain_preempt;
pub(crate) mod plain_tick;
pub(crate) mod policy;
pub(crate) mod proxy;
pub(crate) mod rt_groups;
pub(crate) mod rt_limit;
pub(crate) mod rt_served;
pub(crate) mod scheduler;
pub(crate) mod servers;
pub(crate) mod ticks;

use crate::words::op::Op;
use crate::words::step::{Cont, PairCont};

const _: () = {
    const fn assert_small<T>() {
        assert!(size_of::<T>() <= 32);
    }
    assert_small::<PairCont>();
    assert_small::<Cont>();
    assert_small::<Op>();
};

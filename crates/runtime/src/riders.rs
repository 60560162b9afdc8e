//! Which tasks can take part in a relay, and which of many that wake ride on the turn of another
//! one ([`relay`](crate::relay)).

use crate::state::engine::Engine;
use crate::state::task::{Kind, Task};
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Task {
    /// Returns whether it can take part in a relay, by what does not change while it is polled.
    pub(crate) fn can_relay(&self) -> bool {
        self.kind == Kind::Plain && !self.is_inheriting.load(Ordering::Acquire) && !self.is_in_kernel()
    }
}

impl Engine {
    pub(crate) fn can_relay(&self) -> bool {
        self.trace.is_none() && self.detached.load(Ordering::Relaxed) == 0
    }
}

/// How many tasks have to wake at once for some of them to ride, and how many ride on a turn at
/// most. Orders of steps are tried with few tasks.
const RIDERS_FROM: usize = if cfg!(test) { 3 } else { 64 };
const RIDERS: usize = 31;

/// Returns how many tasks ride on a turn if `count` tasks wake at once; 0 if none do. Every CPU has
/// two leads or more, if the tasks are spread evenly.
pub(crate) fn riders_for(engine: &Engine, count: usize) -> usize {
    let leads = if cfg!(test) { 1 } else { 2 * engine.cpus.len() };
    if count < RIDERS_FROM || !engine.can_relay() { 0 } else { (count / leads).saturating_sub(1).min(RIDERS) }
}

/// Returns whether a task can ride on the turn of another one: both are to run on the same CPU.
pub(crate) fn rides_with(lead: &Task, rider: &Task) -> bool {
    lead.can_relay()
        && rider.can_relay()
        && !rider.is_bound()
        && !rider.is_long.load(Ordering::Relaxed)
        && lead.cpu() == rider.cpu()
        && Arc::ptr_eq(&lead.group, &rider.group)
}

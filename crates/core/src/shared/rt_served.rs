//! [`ServedGroups`]: what CPUs know of the groups whose real-time tasks deadline servers run
//! (`rt_group_sched = hcbs`, `cpu.rt.max`).
//!
//! | what | written by | stale by |
//! |---|---|---|
//! | the *context* of a group: the nearest group from it upwards with a budget, whose servers run its tasks; the root if there is none | the change of a budget | a wakeup: a task waits in the queue that it was given |
//! | the runtime and the period of a context's servers (`cpu.rt.internal`) | the change of a budget | until the CPU follows |
//! | the queue of a context on a CPU: its most urgent priority, that of its tasks that can move, whether it can take tasks | that CPU | harmless: read again under both locks |
//!
//! Without the setting there are no rows.
//!
//! Source: HCBS v6, patches 17 (`active_context`, `dl_internal_runtime`) and 20.

use crate::words::snapshot::snapshot_of;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use zerolag_model::settings::RtGroupSched;
use zerolag_model::{Activation, CpuId, Duration, GroupId, Prio, ServerParams, Settings};

/// The queue of a group on a CPU, as it is published.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PublishedLocal {
    /// Its most urgent priority ([`Prio::IDLE`] if it is empty).
    pub(crate) highest: Prio,
    /// The most urgent priority of the tasks that could move.
    pub(crate) pushable: Prio,
    /// Whether its server has exhausted its runtime.
    pub(crate) is_throttled: bool,
    /// Whether more than one task is queued.
    pub(crate) has_more: bool,
}

impl PublishedLocal {
    pub(crate) const EMPTY: Self =
        Self { highest: Prio::IDLE, pushable: Prio::IDLE, is_throttled: false, has_more: false };

    fn pack(self) -> u64 {
        let half = |prio: Prio| u64::from(prio.raw() as u16);
        half(self.highest)
            | half(self.pushable) << 16
            | u64::from(self.is_throttled) << 32
            | u64::from(self.has_more) << 33
    }

    pub(crate) fn unpack(word: u64) -> Self {
        let prio = |half: u64| Prio::from_raw(half as u16 as i16);
        Self {
            highest: prio(word),
            pushable: prio(word >> 16),
            is_throttled: word >> 32 & 1 != 0,
            has_more: word >> 33 & 1 != 0,
        }
    }

    /// Returns whether tasks may be taken from there: one waits behind another, or the server
    /// cannot run them.
    pub(crate) const fn gives(self) -> bool {
        self.has_more || self.is_throttled
    }
}

#[derive(Debug)]
struct ServedGroup {
    context: AtomicU32,
    runtime: AtomicU64,
    period: AtomicU64,
    cpus: Box<[AtomicU64]>,
}

snapshot_of!(ServedGroup: { context runtime period cpus });

/// The groups with servers.
#[derive(Debug)]
pub(crate) struct ServedGroups {
    rows: Vec<ServedGroup>,
    /// The bandwidth of each CPU that groups have reserved together, in units of 2^-20: that of
    /// the contexts right below the root.
    reserved: AtomicU64,
    /// The part of each CPU that is set apart for groups (`cpu.rt.max` of the root group), in the
    /// same units; [`NO_POOL`] without one.
    pool: AtomicU64,
}

snapshot_of!(ServedGroups: { rows reserved pool });

/// The pool of a machine whose root group has no `cpu.rt.max`.
const NO_POOL: u64 = u64::MAX;

impl ServedGroups {
    /// Returns a table for the root group and `groups` more.
    pub(crate) fn new(groups: usize, settings: &Settings, cpus: usize) -> Self {
        let rows = if settings.rt_group_sched == RtGroupSched::Hcbs { groups + 1 } else { 0 };
        let row = |_| ServedGroup {
            context: AtomicU32::new(0),
            runtime: AtomicU64::new(0),
            period: AtomicU64::new(0),
            cpus: (0..cpus).map(|_| AtomicU64::new(PublishedLocal::EMPTY.pack())).collect(),
        };
        Self { rows: (0..rows).map(row).collect(), reserved: AtomicU64::new(0), pool: AtomicU64::new(NO_POOL) }
    }

    /// Returns whether groups have servers.
    pub(crate) const fn is_on(&self) -> bool {
        !self.rows.is_empty()
    }

    /// Returns the group whose servers run the real-time tasks of a group; the root has none.
    pub(crate) fn context(&self, group: GroupId) -> GroupId {
        GroupId(self.rows[group.index()].context.load(Ordering::Acquire))
    }

    pub(crate) fn set_context(&self, group: GroupId, context: GroupId) {
        self.rows[group.index()].context.store(context.0, Ordering::Release);
    }

    /// Returns the parameters of a group's servers.
    pub(crate) fn params(&self, group: GroupId) -> ServerParams {
        let row = &self.rows[group.index()];
        let [runtime, period] =
            [&row.runtime, &row.period].map(|nanos| Duration::from_nanos(nanos.load(Ordering::Acquire)));
        ServerParams { runtime, period, activation: Activation::Immediate }
    }

    pub(crate) fn set_params(&self, group: GroupId, runtime: Duration, period: Duration) {
        let row = &self.rows[group.index()];
        row.period.store(period.as_nanos(), Ordering::Release);
        row.runtime.store(runtime.as_nanos(), Ordering::Release);
    }

    /// Returns the bandwidth of each CPU that groups have reserved, in units of 2^-20: all that is
    /// set apart for them, or what they have asked for.
    pub(crate) fn reserved(&self) -> u64 {
        self.pool().unwrap_or_else(|| self.reserved.load(Ordering::Acquire))
    }

    /// Returns the bandwidth of each CPU that is set apart for groups, if it is.
    pub(crate) fn pool(&self) -> Option<u64> {
        Some(self.pool.load(Ordering::Acquire)).filter(|pool| *pool != NO_POOL)
    }

    pub(crate) fn set_pool(&self, bandwidth: u64) {
        self.pool.store(bandwidth, Ordering::Release);
    }

    pub(crate) fn set_reserved(&self, bandwidth: u64) {
        self.reserved.store(bandwidth, Ordering::Release);
    }

    pub(crate) fn publish(&self, group: GroupId, cpu: CpuId, local: PublishedLocal) {
        self.rows[group.index()].cpus[cpu.index()].store(local.pack(), Ordering::Release);
    }

    /// Returns the published queue of a group on a CPU, packed.
    pub(crate) fn local(&self, group: GroupId, cpu: CpuId) -> u64 {
        self.rows[group.index()].cpus[cpu.index()].load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_published_as_it_is() {
        for highest in [Prio::from_raw(0), Prio::from_raw(99), Prio::IDLE] {
            for (is_throttled, has_more) in [(false, false), (true, false), (false, true)] {
                let local = PublishedLocal { highest, pushable: Prio::from_raw(7), is_throttled, has_more };
                assert_eq!(PublishedLocal::unpack(local.pack()), local);
                assert_eq!(local.gives(), is_throttled || has_more);
            }
        }
    }
}

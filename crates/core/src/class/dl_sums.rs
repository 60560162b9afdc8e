//! Bandwidth of a run queue's deadline entities ([`Sums`]), its active part, and the charge of a
//! task that reclaims unused bandwidth ([`reclaimed`]; GRUB).
//!
//! A task's bandwidth belongs to the run queue where it is queued, or where it blocked. It is
//! *active* while the task is queued, throttled or not. It stays active after the task blocks,
//! until its 0-lag time: until then the task could wake and continue its job, so its reservation is
//! not free for others.
//!
//! | kernel | here | counts |
//! |---|---|---|
//! | `this_bw` | [`Sums::this`] | tasks that belong here, also sleeping ones; the CPU's servers |
//! | `running_bw` | [`Sums::running`] | active tasks; servers until their 0-lag time after a stop |
//!
//! The kernel has a timer per entity (`inactive_timer`) that takes its bandwidth out of
//! `running_bw` at the 0-lag time. Here a reader of the sum does that first, so machines without a
//! reader pay for no timer. Nothing but the sums depends on it, so the difference cannot be
//! observed. A server's part is computed on request, because a server starts and stops at every
//! wakeup of its class.
//!
//! A task that has blocked here and wakes elsewhere leaves a *note* in the shared state for this
//! CPU ([`Note`](crate::queue::dl::sums::Note)). The notes are read before the sums are used and
//! before a task is enqueued.
//!
//! Blocking and waking are O(1). Reading the sums is O(servers), and O(sleeping tasks) when a 0-lag
//! time has passed.
//!
//! Sources: Lipari & Baruah 2000, "Greedy reclamation of unused bandwidth in constant-bandwidth
//! servers"; Abeni, Lipari, Parri & Sun 2016, "Multicore CPU reclaiming: parallel or sequential?";
//! Linux v6.12 `kernel/sched/deadline.c` (`task_non_contending`, `task_contending`,
//! `inactive_task_timer`, `grub_reclaim`, `__add_rq_bw`, `__add_running_bw`). All exec time
//! since the last charge is charged at the rate at its end.

use crate::queue::dl::server;
use crate::queue::dl::sums::Sums;
use crate::rq::cx::Cx;
use crate::rq::run_queue::Rq;
use crate::words::bandwidth::Bandwidth;
use crate::words::ids::Slot;
use lock_api::RawMutex;
use zerolag_model::{Duration, Instant, ServerKind};

/// Reads the notes that other CPUs left for this CPU. One load if there are none.
#[inline]
pub(crate) fn read_notes<L: RawMutex>(rq: &mut Rq, cx: &Cx<'_, L>) {
    if cx.shared.has_dl_notes(rq.cpu()) {
        read_each(rq, cx);
    }
}

#[cold]
fn read_each<L: RawMutex>(rq: &mut Rq, cx: &Cx<'_, L>) {
    let (cpu, sums) = (rq.cpu(), &mut rq.dl.sums);
    cx.shared.take_dl_notes(cpu, |note| sums.note(note));
}

/// Returns `this_bw` and `running_bw` at a time. O(servers); O(sleeping tasks) when a 0-lag time
/// has passed.
pub(crate) fn at<L: RawMutex>(rq: &mut Rq, cx: &Cx<'_, L>, now: Instant) -> (Bandwidth, Bandwidth) {
    read_notes(rq, cx);
    rq.dl.sums.expire(now);
    let Sums { this, running, .. } = rq.dl.sums;
    let mut sums = (this, running);
    for kind in ServerKind::ALL {
        let bandwidth = server::bandwidth(rq.dl.server(kind).params());
        sums.0.0 += bandwidth.0;
        if rq.dl.server(kind).is_active(now) {
            sums.1.0 += bandwidth.0;
        }
    }
    for server in &rq.dl.groups {
        let bandwidth = server::bandwidth(server.params());
        sums.0.0 += bandwidth.0;
        if server.is_active(now) {
            sums.1.0 += bandwidth.0;
        }
    }
    sums
}

/// Returns the rate, in units of 2^-20, at which a reclaiming task of this bandwidth spends its
/// budget at `now`.
///
/// `max{u, Umax - Uinact - Uextra} / Umax`: the task can use the bandwidth that belongs here and is
/// inactive, and the part of its root domain that is not reserved.
fn rate<L: RawMutex>(rq: &mut Rq, cx: &Cx<'_, L>, own: Bandwidth, now: Instant) -> u64 {
    let (this, running) = at(rq, cx, now);
    let domain = cx.shared.domain(rq.cpu());
    let (total, limit) = {
        let mut booked = domain.dl_booked.lock();
        (booked.total(now).0, booked.limit)
    };
    // Offline CPUs have no part in it (v6.12 `__dl_add`, `dl_bw_cpus`).
    let cpus = domain.span.count_in_both(&cx.shared.online, 0..cx.config.topology.nr_cpus() as u32);
    let (booked, max) = (total / u64::from(cpus.max(1)), limit.share().0);
    let inactive = this.0 - running.0;
    let extra = max.saturating_sub(booked);
    if cx.config.settings.dl_reclaim_short {
        // `max{u / Umax, 1 - Uinact - Uextra}`: the same, but for the unit of the second term.
        let least = (own.0 * limit.inverse) >> 8;
        return (1_u64 << 20).saturating_sub(inactive + extra).max(least).min(1 << 20);
    }
    // On several CPUs a task can have more than `max_bw`; the kernel's difference wraps around
    // then.
    let left = max.saturating_sub(inactive + extra).max(own.0);
    ((left * limit.inverse) >> 8).min(1 << 20)
}

/// Returns the charge of a reclaiming task for the exec time `delta`, at the present rate.
/// O(servers + sleeping tasks).
pub(crate) fn reclaimed<L: RawMutex>(rq: &mut Rq, cx: &Cx<'_, L>, slot: Slot, delta: Duration) -> Duration {
    let Some(own) = rq.tasks[slot].dl.reserved.map(|had| had.bandwidth) else { return delta };
    delta.mul_div_floor(rate(rq, cx, own, cx.now.wall), 1 << 20)
}

/// Returns how long a reclaiming task can run from now until it has spent `left` of its budget, if
/// nothing changes; rounded up.
pub(crate) fn time_of<L: RawMutex>(rq: &mut Rq, cx: &Cx<'_, L>, slot: Slot, left: Duration) -> Duration {
    let Some(own) = rq.tasks[slot].dl.reserved.map(|had| had.bandwidth) else { return left };
    let rate = rate(rq, cx, own, cx.now.wall);
    left.mul_div_ceil(1 << 20, rate.max(1))
}

//! Fitting the entries of a profile, each on one measurement.

use super::picks::middle;
use super::{CalibrateError, CostEntry, FITTED, Probe, median};
use zerolag_linux::calibrate::{Direct, Locks};
use zerolag_linux::figures::quantile;
use zerolag_linux::probe::Woken;
use zerolag_model::{Duration, KernelVersion};
use zerolag_sim::Costs;
use zerolag_sim::costs::{ByDistance, IdleState};
use zerolag_sim::sketch::Sketch;

/// Rounds of fitting; entries hardly depend on each other, so a few are enough.
const FITTINGS: u32 = 4;

/// A profile that is being fitted.
pub(super) struct Fit {
    pub(super) kernel: KernelVersion,
    pub(super) costs: Costs,
    /// The first idle state could not be fitted.
    is_first_as_second: bool,
}

impl Fit {
    /// `handover` is the time of a handover between two CPUs: each idles for twice as long
    /// meanwhile.
    pub(super) fn new(kernel: KernelVersion, direct: &Direct, handover: Duration) -> Self {
        let mut costs = Costs::server();
        let base = Costs::server();
        costs.syscall = median(&direct.syscall);
        costs.pipe_io = (median(&direct.pipe_io) / 2).saturating_sub(costs.syscall);
        costs.timer_irq = timer_irq(direct);
        let waking = match quantile(&direct.timer_wake, 500) {
            Some(woke) => woke.saturating_sub(costs.timer_irq + base.rq_lock_hold),
            None => median(&direct.wake_local).saturating_sub(costs.syscall + base.rq_lock_hold),
        };
        if !waking.is_zero() {
            set_wakeup(&mut costs, waking);
        }
        let Locks { plain, inherits } = &direct.locks;
        costs.boost = median(&inherits.wait).saturating_sub(median(&plain.wait));
        costs.unboost = median(&inherits.wake).saturating_sub(median(&plain.wake));
        if let Some(tick) = quantile(&direct.tick, 500) {
            costs.tick = tick;
            costs.fair_tick = median(&direct.fair.tick).saturating_sub(tick);
        }
        let (fair, fifo) = match direct.has_timer_threads {
            true => (&direct.fair.wake, &direct.fair.fifo_wake),
            false => (&direct.fair.timer_wake, &direct.timer_wake),
        };
        costs.fair_wakeup = median(fair).saturating_sub(median(fifo));
        // Of a fair sleeper half of the times can be 2 us longer than the other half, as it leaves
        // its queue or stays on it: their median would be the one or the other by chance.
        let [fair, fifo] =
            [&direct.fair.block, &direct.fair.fifo_block].map(|samples| middle(samples).unwrap_or_default());
        costs.fair_switch = fair.saturating_sub(fifo);
        let state = |residency| IdleState { residency, exit: Duration::ZERO, polling: false, ipi_latency: None };
        let mut idled = handover * 2;
        costs.idle_states = vec![state(Duration::ZERO)];
        for period in FITTED.map(Duration::from_micros) {
            // A state applies from the geometric mean of its own and the previous fitted period.
            costs.idle_states.push(state(Duration::from_nanos((idled.as_nanos() * period.as_nanos()).isqrt())));
            idled = period;
        }
        Self { kernel, costs, is_first_as_second: false }
    }

    /// Sets what a call that sets a timer takes on top of one that waits. The switch is known.
    pub(super) fn set_sleep_call(&mut self, direct: &Direct) {
        let costs = &mut self.costs;
        let known = costs.syscall + costs.waiting_call + costs.context_switch + costs.rq_lock_hold;
        costs.sleep_call = middle(&direct.fair.fifo_block).unwrap_or_default().saturating_sub(known);
    }

    /// Sets the work of the timer that ends turns, if the kernel has one. The switch is known.
    pub(super) fn set_hrtick(&mut self, direct: &Direct) {
        if direct.fair.has_turn_timer() {
            let costs = &mut self.costs;
            let known = costs.timer_irq + costs.context_switch + costs.fair_switch + costs.rq_lock_hold * 2;
            costs.hrtick = median(&direct.fair.turn_timer).saturating_sub(known);
        }
    }

    /// Marks a state as polling if most wakeups of CPUs in it sent no interrupt.
    pub(super) fn see_polling(&mut self, probe: &Probe, measured: &Woken) {
        if let (Some(CostEntry::IdleIpi(state)), Some(ipis)) = (probe.fits, measured.ipis) {
            self.costs.idle_states[state].polling = ipis * 2 < measured.wakeups;
        }
    }

    /// Returns whether an entry exists to be fitted.
    pub(super) fn has(&self, entry: CostEntry) -> bool {
        match entry {
            CostEntry::ContextSwitch
            | CostEntry::WaitingCall
            | CostEntry::PipeIo
            | CostEntry::TimerLate
            | CostEntry::IpiLatency
            | CostEntry::IdleIpi(1..) => true,
            CostEntry::IdleIpi(0) => !self.is_first_as_second,
            CostEntry::IdleExit(state) => !self.sees_at_once(state),
            // Where blocked tasks leave the queue, no task is woken on it.
            CostEntry::QueuedWakeup => self.kernel.settings().delay_dequeue,
        }
    }

    /// Returns whether a CPU in a state that polls sees its flag at once. Then `exit` is fitted on
    /// the wakeup, which is shorter than a timer there.
    fn sees_at_once(&self, state: usize) -> bool {
        let IdleState { polling, ipi_latency, .. } = self.costs.idle_states[state];
        polling && ipi_latency.is_some_and(|latency| latency.llc.is_zero())
    }

    pub(super) fn simulate(&self, probe: &Probe) -> Result<Duration, CalibrateError> {
        super::simulate(&probe.kind.scenario()?, probe.kind, &self.costs, self.kernel)
    }

    /// Fits all entries on the host's medians.
    pub(super) fn adjust_all<'p>(
        &mut self,
        medians: impl Iterator<Item = (&'p Probe, Duration)> + Clone,
    ) -> Result<(), CalibrateError> {
        for _ in 0..FITTINGS {
            for (probe, host) in medians.clone() {
                self.adjust(probe, host)?;
            }
        }
        // Two threads that answer each other at once meet a CPU that does not idle yet, or one that
        // does: in between there is nothing to be fitted. It is the same CPU in the next state.
        if let Some((probe, host)) = medians.into_iter().find(|(probe, _)| probe.fits == Some(CostEntry::IdleIpi(0)))
            && self.simulate(probe)?.as_nanos().abs_diff(host.as_nanos()) > host.as_nanos() / 4
        {
            self.costs.idle_states[0].ipi_latency = self.costs.idle_states[1].ipi_latency;
            self.is_first_as_second = true;
        }
        Ok(())
    }

    /// Moves the entry that is fitted on a measurement, if there is one, by the difference between
    /// host and simulator.
    fn adjust(&mut self, probe: &Probe, host: Duration) -> Result<(), CalibrateError> {
        let Some(entry) = probe.fits.filter(|entry| self.has(*entry)) else {
            return Ok(());
        };
        let simulated = self.simulate(probe)?;
        let at_once = matches!(entry, CostEntry::IdleIpi(state) if self.sees_at_once(state));
        let moved = |value: Duration| (value + host).saturating_sub(simulated);
        let costs = &mut self.costs;
        match entry {
            CostEntry::ContextSwitch => costs.context_switch = moved(costs.context_switch),
            // Two calls in each handover. Where these seem to take less than nothing, the wakeup is
            // cheaper than it was measured: what interrupts a computation finds colder caches.
            CostEntry::WaitingCall => {
                let calls = costs.waiting_call * 2 + host;
                let wakeup = costs.wakeup_local.saturating_sub(simulated.saturating_sub(calls));
                set_wakeup(costs, wakeup);
                costs.waiting_call = calls.saturating_sub(simulated) / 2;
            }
            CostEntry::PipeIo => costs.pipe_io = moved(costs.pipe_io * 2) / 2,
            CostEntry::QueuedWakeup => costs.queued_wakeup = moved(costs.queued_wakeup),
            CostEntry::TimerLate => costs.timer_late = Sketch::constant(moved(costs.timer_late.at(0))),
            CostEntry::IpiLatency => costs.ipi_latency = at_distances(moved(costs.ipi_latency.llc)),
            CostEntry::IdleExit(state) => costs.idle_states[state].exit = moved(costs.idle_states[state].exit),
            CostEntry::IdleIpi(state) if at_once => {
                costs.idle_states[state].exit = moved(costs.idle_states[state].exit);
            }
            CostEntry::IdleIpi(state) => {
                let now = costs.idle_states[state].ipi_latency.unwrap_or(costs.ipi_latency);
                costs.idle_states[state].ipi_latency = Some(at_distances(moved(now.llc)));
            }
        }
        Ok(())
    }
}

/// Returns the time of a timer's interrupt. Where it wakes a thread of the kernel at least, it is
/// what the timer of a thread takes less a wakeup without its call.
pub(super) fn timer_irq(direct: &Direct) -> Duration {
    match quantile(&direct.timer_wake, 500) {
        Some(woke) if direct.has_timer_threads => {
            woke.saturating_sub(median(&direct.fair.fifo_wake).saturating_sub(median(&direct.syscall)))
        }
        _ => median(&direct.timer),
    }
}

/// Sets the cost of a wakeup; that of another cache keeps its ratio in `default`.
fn set_wakeup(costs: &mut Costs, local: Duration) {
    let base = Costs::server();
    costs.wakeup_local = local;
    costs.wakeup_remote = base.wakeup_remote.mul_div_floor(local.as_nanos(), base.wakeup_local.as_nanos().max(1));
}

/// Returns latencies of IPIs in the ratios of `default`, from that within a cache.
fn at_distances(llc: Duration) -> ByDistance {
    let base = Costs::server().ipi_latency;
    let scaled = |value: Duration| value.mul_div_floor(llc.as_nanos(), base.llc.as_nanos().max(1));
    ByDistance { smt: scaled(base.smt), llc, socket: scaled(base.socket), remote: scaled(base.remote) }
}

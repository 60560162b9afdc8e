//! `watchdog`: no CPU stays in IPI and lock work for longer than `watchdog_thresh`.
//!
//! The kernel's hard-lockup detector fires when no timer interrupt has been served for that long
//! (10 s by default). IPIs are served before timers, and a CPU that spins for a run-queue lock has
//! its interrupts off: a stretch of both without a gap keeps timers out.
//!
//! ```text
//!            IPI enters, lock wanted              the last of them ends
//!   Quiet ----------------------------> Busy ------------------------------> Left
//!     ^                                  ^  again, within `gap`               |  |
//!     |                                  +------------------------------------+  |
//!     +--------------------------------------------------------------------------+
//!                  a timer or another interrupt, a switch; an IPI after a gap begins anew
//! ```
//!
//! A simulated CPU leaves no gap; a recorded one can need [`GAP`] from one interrupt to the next.
//!
//! Sources: Linux v6.12 `kernel/watchdog.c`; 2017 text, "it actually triggered the hard lockup
//! detector".

use crate::monitor::{Context, Monitor, Outcome};
use crate::report::Findings;
use zerolag_model::event::Irq;
use zerolag_model::{CpuId, Duration, Instant, Record, TraceEvent};
use zerolag_trace::{IdTable, Replay};

/// The time on a real machine from the end of one interrupt to the beginning of the next one that
/// was already pending.
const GAP: Duration = Duration::from_micros(2);

struct WatchdogMonitor {
    threshold: Duration,
    gap: Duration,
    /// Without interrupts and lock waits a trace is not judged, unless it would contain them.
    is_complete: bool,
    has_seen: bool,
    cpus: IdTable<CpuId, HandlerWork>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum HandlerWork {
    #[default]
    Quiet,
    /// `open` handlers and lock waits are under way.
    Busy { since: Instant, open: u32 },
    /// None is under way, since `at`.
    Left { since: Instant, at: Instant },
}

pub(super) fn begin(context: &Context<'_>) -> Result<Box<dyn Monitor>, String> {
    let text = context.meta.setting("watchdog_thresh").unwrap_or("10s");
    let threshold: Duration = text.parse().map_err(|_| format!("watchdog_thresh = {text} is no time"))?;
    if threshold.is_zero() {
        return Err("watchdog_thresh = 0".to_owned());
    }
    let is_complete = context.meta.source.is_complete();
    let gap = if is_complete { Duration::ZERO } else { GAP };
    Ok(Box::new(WatchdogMonitor { threshold, gap, is_complete, has_seen: false, cpus: IdTable::default() }))
}

impl Monitor for WatchdogMonitor {
    fn before(&mut self, _: &Replay, record: &Record, found: &mut Findings) {
        let (at, cpu) = (record.at, record.cpu);
        match &record.event {
            TraceEvent::IrqEnter { irq: Irq::Ipi } | TraceEvent::LockContended { .. } => {
                self.has_seen = true;
                let gap = self.gap;
                let stretch = self.cpus.entry(cpu);
                *stretch = match *stretch {
                    HandlerWork::Busy { since, open } => HandlerWork::Busy { since, open: open + 1 },
                    HandlerWork::Left { since, at: left } if at.since(left) <= gap => {
                        HandlerWork::Busy { since, open: 1 }
                    }
                    HandlerWork::Left { .. } | HandlerWork::Quiet => HandlerWork::Busy { since: at, open: 1 },
                };
            }
            TraceEvent::IrqExit { irq: Irq::Ipi } | TraceEvent::LockAcquired { .. } => {
                let stretch = self.cpus.entry(cpu);
                if let HandlerWork::Busy { since, open } = *stretch {
                    let open = open - 1;
                    *stretch =
                        if open > 0 { HandlerWork::Busy { since, open } } else { HandlerWork::Left { since, at } };
                    self.judge(cpu, since, at, found);
                }
            }
            TraceEvent::IrqEnter { .. } | TraceEvent::Switch { .. } => {
                let stretch = self.cpus.entry(cpu);
                if matches!(stretch, HandlerWork::Left { .. }) {
                    *stretch = HandlerWork::Quiet;
                }
            }
            // No other event begins or ends such work.
            _ => {}
        }
    }

    fn finish(&mut self, last: &Replay, end: Instant, found: &mut Findings) -> Outcome {
        let cpus: Vec<CpuId> = last.cpus().map(|(cpu, _)| cpu).collect();
        for cpu in cpus {
            if let HandlerWork::Busy { since, .. } = *self.cpus.entry(cpu) {
                self.judge(cpu, since, end, found);
            }
        }
        if self.has_seen || self.is_complete {
            Outcome::Judged
        } else {
            Outcome::NothingToJudge("the trace shows neither IPI handlers nor lock waits")
        }
    }
}

impl WatchdogMonitor {
    /// Reports once per stretch: a new stretch begins after the report.
    fn judge(&mut self, cpu: CpuId, since: Instant, at: Instant, found: &mut Findings) {
        let stretch = at.since(since);
        if stretch <= self.threshold {
            return;
        }
        found.push(at, Some(cpu), &[], || {
            format!("cpu {cpu} has been in IPI and lock work for {stretch}, since {since}")
        });
        match self.cpus.entry(cpu) {
            HandlerWork::Busy { since, .. } | HandlerWork::Left { since, .. } => *since = at,
            HandlerWork::Quiet => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::monitors::tests::{breaks, holds, not_applicable};
    use zerolag_model::event::Irq;
    use zerolag_model::{CpuId, Duration, TraceEvent};
    use zerolag_trace::script::Script;

    const ENTER: TraceEvent = TraceEvent::IrqEnter { irq: Irq::Ipi };
    const EXIT: TraceEvent = TraceEvent::IrqExit { irq: Irq::Ipi };

    /// Two handlers of 6 us each and a lock wait of 5 us, `gap` us apart, on CPU 1; threshold 10
    /// us.
    fn busy(gap: u64) -> Script {
        let mut script = Script::new(2);
        script.meta.settings.push(("watchdog_thresh".to_owned(), "10us".to_owned()));
        let mut at = 1;
        for _ in 0..2 {
            script.event(at, 1, ENTER).event(at + 6, 1, EXIT);
            at += 6 + gap;
        }
        let rq = CpuId(0);
        script.event(at, 1, TraceEvent::LockContended { rq });
        script.event(at + 5, 1, TraceEvent::LockAcquired { rq, waited: Duration::from_micros(5) });
        script
    }

    #[test]
    fn work_with_gaps_holds() {
        holds("watchdog", &busy(1).end(100));
    }

    #[test]
    fn work_without_a_gap_adds_up() {
        let says = "cpu 1 has been in IPI and lock work for 12us, since 0.000001000";
        breaks("watchdog", &busy(0).end(100), says);
    }

    #[test]
    fn a_timer_that_is_served_ends_the_stretch() {
        let mut script = Script::new(1);
        script.meta.settings.push(("watchdog_thresh".to_owned(), "10us".to_owned()));
        script.event(1, 0, ENTER).event(7, 0, EXIT).event(7, 0, TraceEvent::IrqEnter { irq: Irq::Timer });
        script.event(7, 0, ENTER).event(13, 0, EXIT);
        holds("watchdog", &script.end(100));
    }

    #[test]
    fn a_cpu_that_never_leaves_is_found_at_the_end() {
        let mut script = Script::new(1);
        script.event(1, 0, ENTER);
        breaks("watchdog", &script.end(11_000_001), "cpu 0 has been in IPI and lock work for 11s, since 0.000001000");
    }

    #[test]
    fn without_a_threshold_nothing_is_judged() {
        let mut script = busy(0);
        script.meta.settings[0].1 = "0s".to_owned();
        not_applicable("watchdog", &script.end(100), "watchdog_thresh = 0");
    }
}

//! `time-conserved`: no nanosecond is lost or spent twice.
//!
//! Records are in order of time. If the trace ends with the layers of each CPU, they add up to the
//! elapsed time; the task layers (`kernel`, `user`) are not longer than the time in which the CPU
//! had a task, and the idle layer is not longer than the time in which it had none. The opposite
//! does not hold, because interrupts take time from both.

use crate::monitor::{Context, Monitor, Outcome};
use crate::report::{Findings, label};
use zerolag_model::{CpuId, CpuLayer, Duration, Instant, LayerTimes, Record, TraceEvent};
use zerolag_trace::replay::Current;
use zerolag_trace::{IdTable, Replay};

struct TimeConserved {
    start: Instant,
    last: Instant,
    cpus: IdTable<CpuId, Spent>,
    totals: u64,
}

#[derive(Default)]
struct Spent {
    with_task: Duration,
    without: Duration,
}

pub(super) fn begin(context: &Context<'_>) -> Result<Box<dyn Monitor>, String> {
    let start = context.meta.start;
    Ok(Box::new(TimeConserved { start, last: start, cpus: IdTable::default(), totals: 0 }))
}

impl Monitor for TimeConserved {
    fn before(&mut self, before: &Replay, record: &Record, found: &mut Findings) {
        if record.at < self.last {
            let last = self.last;
            found.push(record.at, Some(record.cpu), &[], || format!("time goes back from {last}"));
        }
        self.last = self.last.max(record.at);
        match &record.event {
            TraceEvent::Switch { .. } => {
                let view = before.cpu(record.cpu);
                let time = record.at.since(view.since);
                let spent = self.cpus.entry(record.cpu);
                match view.current {
                    Current::Task(_) => spent.with_task = spent.with_task.saturating_add(time),
                    Current::Idle => spent.without = spent.without.saturating_add(time),
                    Current::Unknown => {}
                }
            }
            TraceEvent::CpuTotals { times } => {
                self.totals += 1;
                self.judge_totals(before, record, times, found);
            }
            // No other event spends a CPU's time.
            _ => {}
        }
    }

    fn finish(&mut self, last: &Replay, end: Instant, found: &mut Findings) -> Outcome {
        let cpus = last.cpus().count() as u64;
        if self.totals > 0 && self.totals != cpus {
            let totals = self.totals;
            found.push(end, None, &[], || format!("{totals} of {cpus} CPUs say where their time went"));
        }
        if self.totals == 0 && found.total() == 0 {
            return Outcome::NothingToJudge("the trace does not say where its CPUs' time went");
        }
        Outcome::Judged
    }
}

impl TimeConserved {
    fn judge_totals(&mut self, before: &Replay, record: &Record, times: &LayerTimes, found: &mut Findings) {
        let (cpu, elapsed) = (record.cpu, record.at.since(self.start));
        let sum =
            |layers: &[CpuLayer]| -> u128 { layers.iter().map(|layer| u128::from(times.of(*layer).as_nanos())).sum() };
        let nanos = |time: Duration| u128::from(time.as_nanos());
        let total = sum(&CpuLayer::ALL);
        if total != nanos(elapsed) {
            found.push(record.at, Some(cpu), &[], || {
                format!("the layers of cpu {cpu} add up to {total}ns, but {}ns passed", elapsed.as_nanos())
            });
        }
        let view = before.cpu(cpu);
        let open = record.at.since(view.since);
        let spent = self.cpus.entry(cpu);
        let (mut with_task, mut without) = (spent.with_task, spent.without);
        match view.current {
            Current::Task(_) => with_task = with_task.saturating_add(open),
            Current::Idle => without = without.saturating_add(open),
            // The state of a CPU before its first switch is unknown.
            Current::Unknown => return,
        }
        let tasks = sum(&[CpuLayer::Kernel, CpuLayer::User]);
        if tasks > nanos(with_task) {
            found.push(record.at, Some(cpu), view.current.task().as_slice(), || {
                let now = view.current.task().map_or_else(|| "nothing".to_owned(), |task| label(before, task));
                format!("cpu {cpu} says that tasks used {tasks}ns, but it had one for {with_task} (now {now})")
            });
        }
        let idle = times.of(CpuLayer::Idle);
        if idle > without {
            found.push(record.at, Some(cpu), &[], || {
                format!("cpu {cpu} says that it was idle for {idle}, but it had no task for {without} only")
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::monitors::tests::{breaks, holds, not_applicable};
    use zerolag_model::{CpuLayer, Duration, LayerTimes, TraceEvent};
    use zerolag_trace::Trace;
    use zerolag_trace::script::Script;

    /// A task runs from 2 to 7 of 10 us; the CPU claims these layers.
    fn claims(user: u64, irq: u64, idle: u64) -> Trace {
        let mut script = Script::new(1);
        let a = script.fair("a");
        script.wake(2, 0, a).run(2, 0, None, Some(a)).run(7, 0, Some(a), None);
        let mut times = LayerTimes::default();
        for (layer, us) in [(CpuLayer::User, user), (CpuLayer::Irq, irq), (CpuLayer::Idle, idle)] {
            times.charge(layer, Duration::from_micros(us));
        }
        script.event(10, 0, TraceEvent::CpuTotals { times }).end(10)
    }

    #[test]
    fn layers_that_agree_with_the_switches_hold() {
        holds("time-conserved", &claims(5, 0, 5));
        holds("time-conserved", &claims(4, 2, 4));
    }

    #[test]
    fn every_lost_or_doubled_time_is_named() {
        breaks("time-conserved", &claims(5, 0, 4), "the layers of cpu 0 add up to 9000ns, but 10000ns passed");
        breaks(
            "time-conserved",
            &claims(6, 0, 4),
            "cpu 0 says that tasks used 6000ns, but it had one for 5us (now nothing)",
        );
        breaks(
            "time-conserved",
            &claims(4, 0, 6),
            "cpu 0 says that it was idle for 6us, but it had no task for 5us only",
        );
        let mut back = claims(5, 0, 5);
        back.records.swap(0, 3);
        breaks("time-conserved", &back, "time goes back from 0.000002000");
    }

    #[test]
    fn a_cpu_that_does_not_say_is_noticed() {
        let mut trace = claims(5, 0, 5);
        trace.meta.machine = zerolag_trace::Machine::Cpus(2);
        breaks("time-conserved", &trace, "1 of 2 CPUs say where their time went");
    }

    #[test]
    fn a_trace_without_totals_is_not_judged() {
        let mut trace = claims(5, 0, 5);
        trace.records.pop();
        not_applicable("time-conserved", &trace, "the trace does not say where its CPUs' time went");
    }
}

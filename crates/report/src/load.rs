//! [`Load`]: how busy each CPU was, over time, in memory that does not grow with the run.
//!
//! The length of a run is not known while it is followed. So a run is cut into at most [`PARTS`]
//! parts of equal length, and when it outgrows them, neighbours are joined and the parts become
//! twice as long. Sums stay exact.
//!
//! Complexity: O(1) per record, amortised; O(parts) memory per CPU.

use zerolag_model::{Instant, Record, TraceEvent};
use zerolag_trace::Meta;

/// The most parts of a run; it has at least half as many if it is that many nanoseconds long.
pub const PARTS: usize = 512;

/// Follows records.
#[derive(Clone, Debug)]
pub struct Load {
    start: u64,
    /// The length of a part, in nanoseconds.
    width: u64,
    cpus: Vec<CpuLoad>,
}

#[derive(Clone, Debug)]
struct CpuLoad {
    state: BusyState,
    /// The busy time of each part, in nanoseconds.
    busy: Vec<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum BusyState {
    /// No switch has said yet.
    Unknown,
    Idle,
    /// Since this time.
    Busy(u64),
}

/// The load of a run.
#[derive(Clone, PartialEq, Debug)]
pub struct Loads {
    /// The length of the run, in nanoseconds.
    pub length: u64,
    /// Of each CPU the busy share of each part, 0 to 1; all CPUs have as many parts, and the last
    /// part can be shorter than the others.
    pub cpus: Vec<Vec<f64>>,
    /// Of each CPU the busy share of the run.
    pub shares: Vec<f64>,
}

impl Load {
    /// Starts before the first record.
    #[must_use]
    pub fn new(meta: &Meta) -> Self {
        let cpu = CpuLoad { state: BusyState::Unknown, busy: vec![0; PARTS] };
        Self { start: meta.start.as_nanos(), width: 1, cpus: vec![cpu; meta.machine.nr_cpus()] }
    }

    /// Follows a record.
    pub fn observe(&mut self, record: &Record) {
        let TraceEvent::Switch { prev, next, .. } = &record.event else { return };
        let (cpu, at) = (record.cpu.index(), record.at.as_nanos());
        let Some(state) = self.cpus.get(cpu).map(|cpu| cpu.state) else { return };
        match state {
            BusyState::Busy(since) => self.add(cpu, since, at),
            // It ran when the recording began.
            BusyState::Unknown if prev.is_some() => self.add(cpu, self.start, at),
            BusyState::Unknown | BusyState::Idle => {}
        }
        self.cpus[cpu].state = if next.is_some() { BusyState::Busy(at) } else { BusyState::Idle };
    }

    /// Adds a busy time of a CPU.
    fn add(&mut self, cpu: usize, from: u64, to: u64) {
        let (mut at, to) = (from.saturating_sub(self.start), to.saturating_sub(self.start));
        self.reach(to);
        let busy = &mut self.cpus[cpu].busy;
        while at < to {
            let part = at / self.width;
            let end = (part + 1).saturating_mul(self.width).min(to);
            // `reach` has made the parts long enough.
            if let Some(part) = usize::try_from(part).ok().and_then(|part| busy.get_mut(part)) {
                *part += end - at;
            }
            at = end;
        }
    }

    /// Makes the parts so long that they reach a time after the start.
    fn reach(&mut self, to: u64) {
        while to.div_ceil(self.width) > PARTS as u64 {
            self.width *= 2;
            for cpu in &mut self.cpus {
                for part in 0..PARTS {
                    let pair = cpu.busy.get(2 * part..2 * part + 2).unwrap_or_default();
                    cpu.busy[part] = pair.iter().sum();
                }
            }
        }
    }

    /// Ends the run.
    #[must_use]
    pub fn finish(mut self, end: Instant) -> Loads {
        let end = end.as_nanos();
        for cpu in 0..self.cpus.len() {
            if let BusyState::Busy(since) = self.cpus[cpu].state {
                self.add(cpu, since, end);
            }
        }
        let length = end.saturating_sub(self.start);
        self.reach(length);
        let parts = usize::try_from(length.div_ceil(self.width)).unwrap_or(PARTS).min(PARTS);
        let share = |(part, busy): (usize, &u64)| {
            let width = (length - part as u64 * self.width).min(self.width);
            *busy as f64 / width.max(1) as f64
        };
        let of = |cpu: &CpuLoad| cpu.busy[..parts].iter().enumerate().map(share).collect();
        let whole = |cpu: &CpuLoad| cpu.busy.iter().sum::<u64>() as f64 / length.max(1) as f64;
        Loads { length, cpus: self.cpus.iter().map(of).collect(), shares: self.cpus.iter().map(whole).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerolag_trace::Trace;
    use zerolag_trace::script::Script;

    fn of(trace: &Trace) -> Loads {
        let mut load = Load::new(&trace.meta);
        trace.records.iter().for_each(|record| load.observe(record));
        load.finish(trace.meta.end)
    }

    #[test]
    fn shares_are_exact_however_often_the_parts_grow() {
        let mut script = Script::new(2);
        let a = script.fair("a");
        script.wake(0, 0, a).run(0, 0, None, Some(a)).run(300, 0, Some(a), None).run(900, 0, None, Some(a));
        let found = of(&script.end(1_000));
        assert_eq!(found.length, 1_000_000);
        assert_eq!(found.shares, [0.4, 0.0]);
        let parts = found.cpus[0].len();
        assert!((PARTS / 2..=PARTS).contains(&parts), "{parts}");
        let at = |part: f64| found.cpus[0][(part * parts as f64) as usize];
        assert_eq!((at(0.1), at(0.6), at(0.95)), (1.0, 0.0, 1.0));
    }

    #[test]
    fn a_cpu_that_ran_before_the_recording_is_busy_from_its_start() {
        let mut script = Script::new(1);
        let a = script.fair("a");
        script.run(50, 0, Some(a), None);
        assert_eq!(of(&script.end(100)).shares, [0.5]);
    }
}

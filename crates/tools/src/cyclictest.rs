//! `cyclictest`: threads that sleep until a time and measure how late they wake.
//!
//! A thread sleeps until its next expiry, reads the clock, takes the difference as its latency, and
//! sets the next expiry one interval later; expiries that have passed meanwhile are skipped. Here a
//! thread is a timer in a loop: its latency is the time from the expiry until it runs again,
//! including all kernel paths in between, at the machine's costs. A skipped expiry is not a cycle,
//! but does count for `loops`.
//!
//! Thread `i` has interval `interval + i * distance`; with a histogram the distance is zero, as in
//! the tool. Figures are whole microseconds, or nanoseconds, truncated as in the tool.
//!
//! Source: rt-tests 2.4 (`cyclictest V 2.40`), its options and its output as observed. Differs:
//! threads start [`START_DISTANCE`] apart, where the tool's start when they are created.

use core::fmt::{self, Write};
use std::sync::Arc;
use zerolag_model::{CpuId, CpuMask, Duration, Mark, Record, RtPriority, SchedAttr, TaskId, TraceEvent};
use zerolag_sim::Sink;
use zerolag_workload::program::{Action, Phase, Program, TaskDef, TimerMode, TimerRef};
use zerolag_workload::random::Dist;

/// The time between the starts of threads that are not aligned: the time that creating one takes.
pub const START_DISTANCE: Duration = Duration::from_micros(50);

/// Prefix of the threads' names.
const NAME: &str = "cyclictest";

/// The parameters of a test.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cyclictest {
    /// Threads.
    pub threads: u32,
    /// The attributes of the first thread.
    pub attr: SchedAttr,
    /// Whether each further thread is less urgent by one.
    pub spread: bool,
    /// The CPUs to which threads are pinned in turn; `None` pins no thread.
    pub affinity: Option<Vec<CpuId>>,
    /// Interval of the first thread.
    pub interval: Duration,
    /// The increase of the interval from thread to thread.
    pub distance: Duration,
    /// Cycles per thread; `None` is no limit.
    pub loops: Option<u64>,
    /// Whether expiries count from the last waking, not from the last expiry.
    pub relative: bool,
    /// The offset between the threads' expiries, if they are aligned.
    pub aligned: Option<Duration>,
    /// The unit of printed latencies.
    pub unit: Unit,
    /// The number of latencies in the histogram.
    pub histogram: Option<usize>,
}

/// The unit of printed latencies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// Microseconds.
    Micros,
    /// Nanoseconds.
    Nanos,
}

impl Unit {
    fn of(self, time: Duration) -> u64 {
        match self {
            Self::Micros => time.as_nanos() / 1_000,
            Self::Nanos => time.as_nanos(),
        }
    }
}

impl Cyclictest {
    /// Returns the interval of a thread.
    #[must_use]
    pub fn interval(&self, thread: u32) -> Duration {
        let distance = if self.histogram.is_some() { Duration::ZERO } else { self.distance };
        self.interval + distance * u64::from(thread)
    }

    /// Returns the attributes of a thread.
    #[must_use]
    pub fn attr(&self, thread: u32) -> SchedAttr {
        match self.attr {
            SchedAttr::Rt { policy, priority } if self.spread => {
                let value = i64::from(priority.value()).saturating_sub(i64::from(thread)).max(1);
                SchedAttr::Rt { policy, priority: RtPriority::new(value).unwrap_or(priority) }
            }
            attr => attr,
        }
    }

    /// Returns the CPU to which a thread is pinned.
    #[must_use]
    pub fn cpu(&self, thread: u32) -> Option<CpuId> {
        let cpus = self.affinity.as_ref().filter(|cpus| !cpus.is_empty())?;
        Some(cpus[thread as usize % cpus.len()])
    }

    /// Returns the threads of the test.
    pub fn tasks(&self) -> impl Iterator<Item = TaskDef> + '_ {
        (0..self.threads).map(|thread| {
            let period = Dist::Constant(self.interval(thread));
            let mode = if self.relative { TimerMode::Relative } else { TimerMode::Absolute };
            let apart = self.aligned.unwrap_or(START_DISTANCE);
            let actions = vec![Action::Timer { timer: TimerRef::Own(0), period, mode }];
            let name = format!("{NAME}/{thread}");
            TaskDef {
                delay: apart * u64::from(thread),
                affinity: self.cpu(thread).map(|cpu| Arc::new(CpuMask::single(cpu))),
                turns: Some(1),
                phases: vec![Phase::new("cycle", self.loops.unwrap_or(u64::MAX), actions)],
                ..TaskDef::looping(name, self.attr(thread), Vec::new())
            }
        })
    }

    /// Returns the program of the test next to another program: the test's threads come first.
    #[must_use]
    pub fn program(&self, beside: Program) -> Program {
        let shift = self.threads as usize;
        let mut program = beside;
        for action in program.tasks.iter_mut().flat_map(|task| &mut task.phases).flat_map(|phase| &mut phase.actions) {
            if let Action::Fork(def) = action {
                *def += shift;
            }
        }
        program.tasks.splice(0..0, self.tasks());
        program
    }

    /// Returns the collector of a run's latencies.
    #[must_use]
    pub fn collector(&self) -> Collector {
        let thread = || Latencies { buckets: vec![0; self.histogram.unwrap_or(0)], ..Latencies::default() };
        Collector { unit: self.unit, threads: (0..self.threads).map(|_| thread()).collect() }
    }
}

/// Collects latencies from records.
#[derive(Debug)]
pub struct Collector {
    unit: Unit,
    threads: Vec<Latencies>,
}

/// The latencies of one thread.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Latencies {
    /// Cycles.
    pub cycles: u64,
    /// The smallest latency.
    pub min: u64,
    /// The last.
    pub last: u64,
    /// The largest.
    pub max: u64,
    /// Their sum.
    pub sum: u64,
    /// The number of each value.
    pub buckets: Vec<u64>,
    /// The number of values beyond the histogram.
    pub overflows: u64,
    /// The first cycles with such values.
    pub overflow_cycles: Vec<u64>,
}

impl Latencies {
    /// Returns the mean; zero if there was no cycle.
    #[must_use]
    pub const fn mean(&self) -> u64 {
        match self.sum.checked_div(self.cycles) {
            Some(mean) => mean,
            None => 0,
        }
    }

    /// Adds one latency.
    pub fn add(&mut self, latency: u64) {
        self.min = if self.cycles == 0 { latency } else { self.min.min(latency) };
        self.max = self.max.max(latency);
        self.last = latency;
        self.sum = self.sum.saturating_add(latency);
        if !self.buckets.is_empty() {
            match usize::try_from(latency).ok().and_then(|at| self.buckets.get_mut(at)) {
                Some(bucket) => *bucket += 1,
                None => {
                    self.overflows += 1;
                    if self.overflow_cycles.len() < self.buckets.len() {
                        self.overflow_cycles.push(self.cycles);
                    }
                }
            }
        }
        self.cycles += 1;
    }
}

impl Sink for Collector {
    fn record(&mut self, record: &Record) {
        if let TraceEvent::Mark { task: TaskId(task), mark: Mark::TimerDue { due, slack } } = record.event
            && !slack.is_negative()
            && let Some(thread) = self.threads.get_mut(task as usize)
        {
            thread.add(self.unit.of(record.at.since(due)));
        }
    }
}

impl Collector {
    /// Returns the latencies per thread.
    #[must_use]
    pub fn into_threads(self) -> Vec<Latencies> {
        self.threads
    }
}

/// A thread's line, as
/// `T: 0 (16380) P:80 I:1000 C:    998 Min:      4 Act:    9 Avg:   12 Max:    1407`.
#[derive(Clone, Copy, Debug)]
pub struct Line<'a> {
    /// The thread.
    pub thread: u32,
    /// Its process id.
    pub pid: u32,
    /// Its real-time priority; 0 for the fair policies.
    pub priority: u8,
    /// Its interval.
    pub interval: Duration,
    /// Its latencies.
    pub latencies: &'a Latencies,
    /// Their unit.
    pub unit: Unit,
}

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { thread, pid, priority, latencies, .. } = *self;
        let (interval, mean) = (self.interval.as_nanos() / 1_000, latencies.mean());
        let Latencies { cycles, min, last, max, .. } = latencies;
        write!(f, "T:{thread:2} ({pid:5}) P:{priority:2} I:{interval} C:{cycles:7} ")?;
        match self.unit {
            Unit::Micros => write!(f, "Min:{min:7} Act:{last:5} Avg:{mean:5} Max:{max:8}"),
            Unit::Nanos => write!(f, "Min:{min:7} Act:{last:8} Avg:{mean:8} Max:{max:8}"),
        }
    }
}

/// Whether the histogram has a column for all threads together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Overall {
    /// It has none (`-h`).
    No,
    /// It has one (`-H`).
    Yes,
}

/// Returns the histogram as the tool prints it.
#[must_use]
pub fn histogram(threads: &[Latencies], overall: Overall) -> String {
    let mut out = String::new();
    write_histogram(&mut out, threads, overall).expect("invariant: a string takes everything");
    out
}

fn write_histogram(out: &mut String, threads: &[Latencies], overall: Overall) -> fmt::Result {
    let size = threads.iter().map(|thread| thread.buckets.len()).max().unwrap_or(0);
    let all =
        |values: &dyn Fn(&Latencies) -> u64| (overall == Overall::Yes).then(|| threads.iter().map(values).sum::<u64>());
    out.push_str("# Histogram\n");
    for at in 0..size {
        write!(out, "{at:06} ")?;
        let bucket = |thread: &Latencies| thread.buckets.get(at).copied().unwrap_or(0);
        let row: Vec<String> = threads.iter().map(|thread| format!("{:06}", bucket(thread))).collect();
        out.push_str(&row.join("\t"));
        if let Some(sum) = all(&bucket) {
            write!(out, "\t{sum:06}")?;
        }
        out.push('\n');
    }
    let in_buckets = |thread: &Latencies| thread.buckets.iter().sum::<u64>();
    out.push_str("# Total:");
    threads.iter().try_for_each(|thread| write!(out, " {:09}", in_buckets(thread)))?;
    if let Some(sum) = all(&in_buckets) {
        write!(out, " {sum:09}")?;
    }
    out.push_str("\n# Min Latencies:");
    threads.iter().try_for_each(|thread| write!(out, " {:05}", thread.min))?;
    out.push_str("\n# Avg Latencies:");
    threads.iter().try_for_each(|thread| write!(out, " {:05}", thread.mean()))?;
    out.push_str("\n# Max Latencies:");
    threads.iter().try_for_each(|thread| write!(out, " {:05}", thread.max))?;
    if overall == Overall::Yes {
        write!(out, " {:05}", threads.iter().map(|thread| thread.max).max().unwrap_or(0))?;
    }
    out.push_str("\n# Histogram Overflows:");
    threads.iter().try_for_each(|thread| write!(out, " {:05}", thread.overflows))?;
    if let Some(sum) = all(&|thread| thread.overflows) {
        write!(out, " {sum:05}")?;
    }
    out.push_str("\n# Histogram Overflow at cycle number:\n");
    for (number, thread) in threads.iter().enumerate() {
        write!(out, "# Thread {number}:")?;
        thread.overflow_cycles.iter().try_for_each(|cycle| write!(out, " {cycle:05}"))?;
        let listed = thread.overflow_cycles.len() as u64;
        if thread.overflows > listed {
            write!(out, " # {:05} others", thread.overflows - listed)?;
        }
        out.push('\n');
    }
    out.push('\n');
    Ok(())
}

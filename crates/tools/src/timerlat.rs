//! `timerlat`: a periodic real-time thread per CPU, and its lateness: of its timer's interrupt, of
//! the thread itself, and of its return to user mode.
//!
//! A thread sleeps until the next expiry on its own grid; expiries that have passed by then are
//! skipped. So a thread that cannot run for 50 ms gives one late sample and loses 49. That is why
//! COUNT matters as much as the maximum.
//!
//! On the simulated machine the three instants are: the start of the timer's interrupt handler, the
//! mark that the thread writes when it has its CPU, and its stamp after a short section in the
//! kernel. The handler starts when its CPU has left its idle state; its record is that of the
//! interrupt's arrival, before.
//!
//! Sources: Linux v6.12 `kernel/trace/trace_osnoise.c` (`timerlat_main`, `wait_next_period`); rtla
//! 6.12 as printed.

use super::rtla::{Histogram, Latencies, Table, TableOptions, WRITES, duration_text};
use core::fmt::Write as _;
use zerolag_model::event::Irq;
use zerolag_model::{CpuId, CpuMask, Duration, Instant, Mark, Record, SchedAttr, TaskId, TraceEvent};
use zerolag_sim::{Costs, Sink};
use zerolag_workload::program::{Action, TaskDef, TimerMode, TimerRef};
use zerolag_workload::random::Dist;

/// The parameters of a measurement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Timerlat {
    /// The CPUs with a thread.
    pub cpus: CpuMask,
    /// Period of the timer (`-p`).
    pub period: Duration,
    /// The attributes of the threads (`-P`).
    pub attr: SchedAttr,
    /// Whether the threads return to user mode (`-u`).
    pub user: bool,
    /// Stop when an interrupt is as late as this (`-i`).
    pub stop_irq: Option<Duration>,
    /// Stop when a thread is as late as this (`-T`).
    pub stop_thread: Option<Duration>,
    /// The work of a thread in the kernel before it returns to user mode.
    pub kernel: Duration,
}

const RETURNED: u32 = 0x7461;

impl Timerlat {
    /// Returns the threads. They must be the first tasks of a program: task n is that of the n-th
    /// CPU.
    #[must_use]
    pub fn threads(&self) -> Vec<TaskDef> {
        let timer =
            Action::Timer { timer: TimerRef::Own(0), period: Dist::Constant(self.period), mode: TimerMode::Skip };
        let mut actions = vec![timer, Action::Kernel(Dist::Constant(self.kernel))];
        if self.user {
            actions.extend([Action::Stamp(RETURNED), Action::Run(Dist::Constant(self.kernel / 2))]);
        }
        let name = if self.user { "timerlatu" } else { "timerlat" };
        let thread = |cpu: CpuId| TaskDef::looping(format!("{name}/{cpu}"), self.attr, actions.clone()).on(cpu);
        self.cpus.iter().map(thread).collect()
    }

    /// Returns a collector of the latencies, for a machine of `nr_cpus` CPUs.
    #[must_use]
    pub fn collector(&self, nr_cpus: usize, histogram: Option<Histogram>) -> Collector {
        let threads = self.cpus.iter().map(|cpu| Thread::new(cpu, histogram)).collect();
        let idle = vec![IdleCpu { since: Some(Instant::ZERO), handlers: 0 }; nr_cpus];
        Collector { test: self.clone(), irqs: vec![None; nr_cpus], idle, threads, costs: None, hit: None }
    }
}

/// One CPU's thread.
#[derive(Clone, Debug)]
pub struct Thread {
    /// The CPU.
    pub cpu: CpuId,
    /// Lateness of the timer's interrupt.
    pub irq: Latencies,
    /// Lateness of the thread.
    pub thread: Latencies,
    /// Lateness of its return to user mode.
    pub user: Latencies,
    histogram: Option<Histogram>,
    /// The start of the handler of its timer.
    woken: Option<Instant>,
    due: Instant,
}

impl Thread {
    fn new(cpu: CpuId, histogram: Option<Histogram>) -> Self {
        let [irq, thread, user] = core::array::from_fn(|_| Latencies::default());
        Self { cpu, irq, thread, user, histogram, woken: None, due: Instant::ZERO }
    }

    /// Adds the figures of another CPU.
    fn join(&mut self, other: &Self) {
        self.irq.join(&other.irq);
        self.thread.join(&other.thread);
        self.user.join(&other.user);
    }
}

/// Whether a CPU has an idle state to leave.
#[derive(Clone, Copy, Debug)]
struct IdleCpu {
    /// Since when it does nothing, if it runs no task.
    since: Option<Instant>,
    /// The number of handlers that it is in.
    handlers: u32,
}

/// Computes latencies from the records of a run.
#[derive(Clone, Debug)]
pub struct Collector {
    test: Timerlat,
    /// Start of the current timer interrupt of each CPU.
    irqs: Vec<Option<Instant>>,
    idle: Vec<IdleCpu>,
    threads: Vec<Thread>,
    costs: Option<Costs>,
    hit: Option<CpuId>,
}

impl Collector {
    /// Counts an interrupt as late until its handler starts: with these costs of the simulated
    /// machine that is when its CPU has left its idle state. Without, it is late until it arrives.
    #[must_use]
    pub fn with_costs(mut self, costs: Costs) -> Self {
        self.costs = Some(costs);
        self
    }

    /// Returns the CPUs' figures.
    #[must_use]
    pub fn threads(&self) -> &[Thread] {
        &self.threads
    }

    /// Returns the CPU whose latency exceeded a threshold, if there is one.
    #[must_use]
    pub const fn hit(&self) -> Option<CpuId> {
        self.hit
    }

    /// Returns whether the threads return to user mode.
    #[must_use]
    pub const fn is_user(&self) -> bool {
        self.test.user
    }

    /// Discards the figures of the warm-up.
    pub fn discard(&mut self) {
        for thread in &mut self.threads {
            let Thread { cpu, histogram, woken, due, .. } = *thread;
            *thread = Thread { woken, due, ..Thread::new(cpu, histogram) };
        }
        self.hit = None;
    }

    /// Adds a sample of a CPU, in the unit of the output.
    #[cfg(test)]
    pub(super) fn add(&mut self, cpu: CpuId, irq: u64, late: u64) {
        let thread = self.threads.iter_mut().find(|thread| thread.cpu == cpu).expect("a measured CPU");
        thread.irq.add(irq, thread.histogram);
        thread.thread.add(late, thread.histogram);
    }

    fn unit(&self) -> u64 {
        self.threads.first().and_then(|thread| thread.histogram).map_or(1_000, |histogram| histogram.unit)
    }

    /// Returns when the handler starts of an interrupt that arrives with this record.
    fn handler_start(&self, record: &Record) -> Instant {
        let IdleCpu { since, handlers } = self.idle[record.cpu.index()];
        let idle = since.filter(|since| handlers == 0 && *since < record.at).zip(self.costs.as_ref());
        let exit = idle.map_or(Duration::ZERO, |(since, costs)| costs.exit_after(record.at.since(since)));
        record.at.saturating_add(exit)
    }

    fn thread(&mut self, task: TaskId) -> Option<&mut Thread> {
        self.threads.get_mut(task.index())
    }
}

impl Sink for Collector {
    fn record(&mut self, record: &Record) {
        match &record.event {
            TraceEvent::IrqEnter { irq } => {
                if *irq == Irq::Timer {
                    self.irqs[record.cpu.index()] = Some(self.handler_start(record));
                }
                self.idle[record.cpu.index()].handlers += 1;
            }
            TraceEvent::IrqExit { .. } => {
                let idle = &mut self.idle[record.cpu.index()];
                idle.handlers = idle.handlers.saturating_sub(1);
                idle.since = idle.since.map(|_| record.at);
            }
            TraceEvent::Switch { next, .. } => {
                self.idle[record.cpu.index()].since = next.is_none().then_some(record.at);
            }
            TraceEvent::Waking { task, .. } => {
                // The handler that wakes it; one that takes no time has no record of its own.
                let started = self.irqs[record.cpu.index()].take().unwrap_or_else(|| self.handler_start(record));
                if let Some(thread) = self.thread(*task) {
                    thread.woken = Some(started);
                }
            }
            TraceEvent::Mark { task, mark: Mark::TimerDue { due, .. } } => {
                let (unit, stop_irq, stop_thread) = (self.unit(), self.test.stop_irq, self.test.stop_thread);
                let Some(thread) = self.thread(*task) else { return };
                let Some(woken) = thread.woken.take() else { return };
                let (irq, late) = (woken.since(*due), record.at.since(*due));
                thread.due = *due;
                thread.irq.add(irq.as_nanos() / unit, thread.histogram);
                thread.thread.add(late.as_nanos() / unit, thread.histogram);
                let cpu = thread.cpu;
                let is_beyond = |time: Duration, most: Option<Duration>| most.is_some_and(|most| time >= most);
                if is_beyond(irq, stop_irq) || is_beyond(late, stop_thread) {
                    self.hit.get_or_insert(cpu);
                }
            }
            TraceEvent::Mark { task, mark: Mark::Stamp { label: RETURNED, .. } } => {
                let unit = self.unit();
                let Some(thread) = self.thread(*task) else { return };
                if thread.thread.count > thread.user.count {
                    thread.user.add(record.at.since(thread.due).as_nanos() / unit, thread.histogram);
                }
            }
            // No other event shows when a thread continues.
            _ => {}
        }
    }
}

/// Returns the table of `rtla timerlat top`.
#[must_use]
pub fn top(collector: &Collector, ran: Duration) -> String {
    let user = collector.test.user;
    let unit = if collector.unit() == 1 { "ns" } else { "us" };
    let mut out = format!("{:37}Timer Latency{:46}{}\n", "", "", if user { " ".repeat(41) } else { String::new() });
    write!(
        out,
        "{:<6}   |          IRQ Timer Latency ({unit})        |         Thread Timer Latency ({unit})",
        duration_text(ran)
    )
    .expect(WRITES);
    if user {
        write!(out, "      |    Ret user Timer Latency ({unit})").expect(WRITES);
    }
    out.push_str("\nCPU COUNT      |      cur       min       avg       max |      cur       min       avg       max");
    out.push_str(if user { " |      cur       min       avg       max\n" } else { "\n" });
    let mut all = Thread::new(CpuId(0), None);
    for thread in &collector.threads {
        if thread.irq.count == 0 && thread.thread.count == 0 {
            continue;
        }
        write!(out, "{:3} #{:<9} |{} |{}", thread.cpu.0, thread.irq.count, row(&thread.irq), row(&thread.thread))
            .expect(WRITES);
        out.push_str(&if user { format!(" |{}\n", row(&thread.user)) } else { "\n".to_owned() });
        all.join(thread);
    }
    if all.irq.count == 0 {
        return out;
    }
    let dashes = |count: usize| "-".repeat(count);
    let last = if user { format!("-|{}", dashes(39)) } else { String::new() };
    writeln!(out, "{}|{}|{}{last}", dashes(15), dashes(40), dashes(39)).expect(WRITES);
    let (mut count, mut e) = (all.irq.count, 0);
    while count > 999_999 {
        (count, e) = (count / 10, e + 1);
    }
    write!(out, "ALL #{count:<6} e{e} |{} |{}", sums(&all.irq), sums(&all.thread)).expect(WRITES);
    out.push_str(&if user { format!(" |{}\n", sums(&all.user)) } else { "\n".to_owned() });
    out
}

fn row(of: &Latencies) -> String {
    if of.count == 0 {
        return ["        -"; 4].join(" ");
    }
    format!("{:9} {:9} {:9} {:9}", of.cur, of.min, of.avg(), of.max)
}

fn sums(of: &Latencies) -> String {
    if of.count == 0 {
        return format!("{:10}{}", "", ["        -"; 3].join(" "));
    }
    format!("{:10}{:9} {:9} {:9}", "", of.min, of.avg(), of.max)
}

/// The parts that `rtla timerlat hist` omits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HistOptions {
    /// `--no-irq`.
    pub no_irq: bool,
    /// `--no-thread`.
    pub no_thread: bool,
    /// The options of any histogram.
    pub table: TableOptions,
}

/// Returns the table of `rtla timerlat hist`.
#[must_use]
pub fn hist(collector: &Collector, ran: Duration, histogram: Histogram, options: HistOptions) -> String {
    let user = collector.test.user;
    // A CPU without samples has no column.
    let has_samples = |thread: &&Thread| thread.irq.count > 0 || thread.thread.count > 0;
    let threads: Vec<&Thread> = collector.threads.iter().filter(has_samples).collect();
    let mut headed = Vec::new();
    for thread in threads.iter().copied() {
        let of_thread = columns(thread, user, options);
        headed.extend(of_thread.into_iter().map(|(kind, of)| (format!("{kind}-{:03}", thread.cpu.0), of)));
    }
    let table = Table { histogram, options: options.table, columns: headed };
    let mut out = table.header("timerlat", ran) + &table.classes() + &table.line("over: ", |of| of.over.to_string());
    if options.table.no_summary {
        return out;
    }
    let summary = |table: &Table<'_>| table.summary(|of| of.avg().to_string());
    out.push_str(&summary(&table));
    // All CPUs together, as the current rtla ends: `timerlat_print_stats_all`.
    let mut all = Thread::new(CpuId(0), None);
    for thread in &threads {
        all.join(thread);
    }
    let sums = columns(&all, user, options);
    out.push_str(if options.table.no_index { "" } else { "ALL:  " });
    for (index, (kind, _)) in sums.iter().enumerate() {
        write!(out, "{kind:>width$}", width = if index == 0 { 9 } else { 10 }).expect(WRITES);
    }
    out.push('\n');
    let columns = sums.into_iter().map(|(kind, of)| (kind.to_owned(), of)).collect();
    out + &summary(&Table { columns, ..table })
}

fn columns(thread: &Thread, user: bool, options: HistOptions) -> Vec<(&'static str, &Latencies)> {
    let all = [
        ("IRQ", &thread.irq, !options.no_irq),
        ("Thr", &thread.thread, !options.no_thread),
        ("Usr", &thread.user, user),
    ];
    all.into_iter().filter(|(.., wanted)| *wanted).map(|(kind, of, _)| (kind, of)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collected() -> Collector {
        let test = Timerlat {
            cpus: CpuMask::single(CpuId(0)),
            period: Duration::from_millis(1),
            attr: SchedAttr::fifo_at(95),
            user: false,
            stop_irq: None,
            stop_thread: None,
            kernel: Duration::ZERO,
        };
        let mut collector = test.collector(1, None);
        let thread = &mut collector.threads[0];
        thread.irq = Latencies { count: 58_634, cur: 1, min: 0, max: 10, sum: 58_634, ..Latencies::default() };
        thread.thread = Latencies { count: 58_634, cur: 11, min: 2, max: 23, sum: 586_340, ..Latencies::default() };
        collector
    }

    #[test]
    fn the_table_is_that_of_rtla_character_by_character() {
        // As `rtla timerlat top -q` printed it on Linux 6.x, except the line of sums, which is of
        // one CPU here.
        let real = "                                     Timer Latency                                              
  0 00:00:59   |          IRQ Timer Latency (us)        |         Thread Timer Latency (us)
CPU COUNT      |      cur       min       avg       max |      cur       min       avg       max
  0 #58634     |        1         0         1        10 |       11         2        10        23
---------------|----------------------------------------|---------------------------------------
ALL #58634  e0 |                  0         1        10 |                  2        10        23
";
        assert_eq!(top(&collected(), Duration::from_secs(59)), real);
    }

    #[test]
    fn a_histogram_leaves_out_what_is_empty() {
        let mut collector = collected();
        let histogram = Histogram { bucket: 1, entries: 4, unit: 1_000 };
        let thread = &mut collector.threads[0];
        (thread.irq, thread.thread) = (Latencies::default(), Latencies::default());
        for (irq, late) in [(0, 2), (0, 3), (1, 9)] {
            thread.irq.add(irq, Some(histogram));
            thread.thread.add(late, Some(histogram));
        }
        let text = hist(&collector, Duration::from_secs(3), histogram, HistOptions::default());
        let expected = "\
# RTLA timerlat histogram
# Time unit is microseconds (us)
# Duration:   0 00:00:03
Index   IRQ-000   Thr-000
0             2         0 
1             1         0 
2             0         1 
3             0         1 
over:         0         1 
count:        3         3 
min:          0         2 
avg:          0         4 
max:          1         9 
ALL:        IRQ       Thr
count:        3         3 
min:          0         2 
avg:          0         4 
max:          1         9 
";
        assert_eq!(text, expected);
    }
}

//! `osnoise`: a thread per CPU that reads the clock in a loop; every gap between two reads is
//! noise.
//!
//! Noise is attributed to its cause: an NMI, interrupts, softirqs, other threads, or none of these,
//! which means the hardware. A thread runs for `runtime` of each `period`. A sample ends at the
//! first read after that time, and is then reported: its noise, its longest gap, its counts. A
//! sample that has not ended at the end of the run is not reported.
//!
//! On the simulated machine gaps are computed from the records of handlers and switches.
//!
//! Sources: Linux v6.12 `kernel/trace/trace_osnoise.c` (`run_osnoise`, `osnoise_main`); rtla 6.12
//! as printed.

use super::rtla::{Histogram, Latencies, Table, TableOptions, WRITES, duration_text};
use core::fmt::Write as _;
use zerolag_model::event::Irq;
use zerolag_model::{CpuId, CpuMask, Duration, Instant, Record, SchedAttr, TaskId, TraceEvent};
use zerolag_sim::Sink;
use zerolag_workload::program::{Action, TaskDef};
use zerolag_workload::random::Dist;

/// The parameters of a measurement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Osnoise {
    /// The CPUs with a thread.
    pub cpus: CpuMask,
    /// Period of samples (`-p`).
    pub period: Duration,
    /// Length of a sample (`-r`).
    pub runtime: Duration,
    /// The attributes of the threads (`-P`).
    pub attr: SchedAttr,
    /// A shorter gap is not counted (`-T`).
    pub threshold: Duration,
    /// Stop when a gap is longer than this (`-s`).
    pub stop: Option<Duration>,
    /// Stop when the noise of a sample is more than this (`-S`).
    pub stop_total: Option<Duration>,
}

impl Osnoise {
    /// Returns the threads. They must be the first tasks of a program: task n is that of the n-th
    /// CPU.
    #[must_use]
    pub fn threads(&self) -> Vec<TaskDef> {
        let pause = self.period.saturating_sub(self.runtime);
        let look = Duration::from_nanos(100);
        let actions = if pause.is_zero() {
            vec![Action::Run(Dist::Constant(Duration::from_secs(3_600)))]
        } else {
            vec![Action::Spin { wall: Dist::Constant(self.runtime), chunk: look }, Action::Sleep(Dist::Constant(pause))]
        };
        let thread = |cpu: CpuId| TaskDef::looping(format!("osnoise/{cpu}"), self.attr, actions.clone()).on(cpu);
        self.cpus.iter().map(thread).collect()
    }

    /// Returns a collector of the noise, for a machine of `nr_cpus` CPUs.
    #[must_use]
    pub fn collector(&self, nr_cpus: usize, histogram: Option<Histogram>) -> Collector {
        let mut of_cpu = vec![None; nr_cpus];
        let threads: Vec<Row> = self.cpus.iter().map(|cpu| Row::new(cpu, histogram)).collect();
        for (index, row) in threads.iter().enumerate() {
            of_cpu[row.cpu.index()] = Some(index);
        }
        Collector { test: self.clone(), of_cpu, rows: threads, hit: None }
    }
}

/// Noise by cause. Times in whole microseconds, summed as in the tracer.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Noise {
    /// The sum.
    pub total: u64,
    /// The longest gap.
    pub max_single: u64,
    /// Gaps without a recorded cause.
    pub hw: u64,
    /// NMIs.
    pub nmi: u64,
    /// Interrupts.
    pub irq: u64,
    /// Softirqs.
    pub softirq: u64,
    /// Other threads.
    pub thread: u64,
}

impl Noise {
    fn add(&mut self, of: Self) {
        self.total += of.total;
        self.max_single = self.max_single.max(of.max_single);
        self.hw += of.hw;
        self.nmi += of.nmi;
        self.irq += of.irq;
        self.softirq += of.softirq;
        self.thread += of.thread;
    }
}

/// The figures of a CPU's thread, over completed samples: the tracer reports no others.
#[derive(Clone, Debug)]
pub struct Row {
    /// The CPU.
    pub cpu: CpuId,
    /// Samples.
    pub periods: u64,
    /// Their lengths in microseconds.
    pub runtime: u64,
    /// Noise in them.
    pub noise: Noise,
    /// The most noise in one sample, in microseconds.
    pub max_noise: u64,
    /// The gaps, if they are counted in classes; including those of an incomplete sample, because
    /// the tracer reports each gap.
    pub gaps: Latencies,
    histogram: Option<Histogram>,
    state: ClockReading,
    /// The number of handlers that the CPU is in.
    depth: u32,
    is_current: bool,
    /// Start of the current sample.
    sample: Option<Instant>,
    in_sample: Noise,
    /// Whether a threshold was passed.
    is_beyond: bool,
}

/// Whether the thread reads the clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ClockReading {
    /// It has not run yet, or sleeps.
    Away,
    /// It reads the clock.
    Looking,
    /// It is interrupted, since then.
    Gap(Instant),
}

impl Row {
    fn new(cpu: CpuId, histogram: Option<Histogram>) -> Self {
        Self {
            cpu,
            periods: 0,
            runtime: 0,
            noise: Noise::default(),
            max_noise: 0,
            gaps: Latencies::default(),
            histogram,
            state: ClockReading::Away,
            depth: 0,
            is_current: false,
            sample: None,
            in_sample: Noise::default(),
            is_beyond: false,
        }
    }

    /// Discards the counts, but not the position of the thread in its sample.
    fn discard(&mut self) {
        let fresh = Self::new(self.cpu, self.histogram);
        let Self { state, depth, is_current, sample, in_sample, .. } = *self;
        *self = Self { state, depth, is_current, sample, in_sample, ..fresh };
    }

    fn count(&mut self, irq: Irq) {
        let noise = &mut self.in_sample;
        *match irq {
            Irq::Tick | Irq::Timer | Irq::Ipi | Irq::Device => &mut noise.irq,
            Irq::Nmi => &mut noise.nmi,
            Irq::Softirq => &mut noise.softirq,
            Irq::Hardware | Irq::Stolen => &mut noise.hw,
        } += 1;
    }

    /// The thread is interrupted.
    fn gap_begins(&mut self, at: Instant, test: &Osnoise) {
        if self.state != ClockReading::Looking {
            return;
        }
        self.state = ClockReading::Gap(at);
        self.samples_until(at, test);
    }

    /// Ends each sample of the thread that was complete by now.
    fn samples_until(&mut self, at: Instant, test: &Osnoise) {
        while self.sample.is_some_and(|begin| at.since(begin) >= test.runtime) {
            self.sample_ends(test.runtime, test);
        }
    }

    /// The thread continues, unless it is still interrupted. A sample that was due meanwhile ends
    /// now.
    fn goes_on(&mut self, at: Instant, test: &Osnoise) {
        if !self.is_current || self.depth > 0 {
            return;
        }
        if let ClockReading::Gap(since) = self.state {
            let gap = at.since(since);
            if gap >= test.threshold {
                self.is_beyond |= test.stop.is_some_and(|most| gap > most);
                let gap = gap.as_nanos() / 1_000;
                self.in_sample.total += gap;
                self.in_sample.max_single = self.in_sample.max_single.max(gap);
                if let Some(histogram) = self.histogram {
                    self.gaps.add(gap / histogram.bucket * histogram.bucket, self.histogram);
                }
            }
        }
        self.state = ClockReading::Looking;
        let length = at.since(*self.sample.get_or_insert(at));
        if length >= test.runtime {
            self.sample_ends(length, test);
        }
    }

    fn sample_ends(&mut self, length: Duration, test: &Osnoise) {
        self.is_beyond |= test.stop_total.is_some_and(|most| self.in_sample.total > most.as_nanos() / 1_000);
        self.periods += 1;
        self.runtime += length.as_nanos() / 1_000;
        let noise = core::mem::take(&mut self.in_sample);
        self.max_noise = self.max_noise.max(noise.total);
        self.noise.add(noise);
        self.sample = self.sample.map(|begin| begin.saturating_add(length));
    }
}

/// Computes noise from the records of a run.
#[derive(Clone, Debug)]
pub struct Collector {
    test: Osnoise,
    /// The index of each CPU's thread.
    of_cpu: Vec<Option<usize>>,
    rows: Vec<Row>,
    hit: Option<CpuId>,
}

impl Collector {
    /// Returns the CPUs' figures.
    #[must_use]
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Returns the CPU whose noise exceeded a threshold, if there is one.
    #[must_use]
    pub const fn hit(&self) -> Option<CpuId> {
        self.hit
    }

    /// Discards the figures of the warm-up.
    pub fn discard(&mut self) {
        self.rows.iter_mut().for_each(Row::discard);
        self.hit = None;
    }
}

impl Sink for Collector {
    fn record(&mut self, record: &Record) {
        let Some(index) = self.of_cpu.get(record.cpu.index()).copied().flatten() else { return };
        let (row, test, own) = (&mut self.rows[index], &self.test, TaskId::from_index(index));
        match &record.event {
            TraceEvent::IrqEnter { irq } => {
                row.depth += 1;
                // Whatever runs: `osnoise_trace_irq_entry` asks only whether a sample is taken.
                if row.sample.is_some() {
                    row.count(*irq);
                }
                if row.is_current {
                    row.gap_begins(record.at, test);
                }
            }
            TraceEvent::IrqExit { .. } => {
                row.depth = row.depth.saturating_sub(1);
                row.goes_on(record.at, test);
            }
            TraceEvent::Switch { prev, prev_state, next, .. } => {
                if *prev == Some(own) {
                    row.is_current = false;
                    row.gap_begins(record.at, test);
                    if *prev_state != zerolag_model::PrevState::Runnable {
                        (row.state, row.sample) = (ClockReading::Away, None);
                    }
                }
                if *next == Some(own) {
                    row.is_current = true;
                    row.goes_on(record.at, test);
                } else if row.sample.is_some() {
                    // `trace_sched_switch_callback`: each thread that runs instead, also idle.
                    row.in_sample.thread += 1;
                }
            }
            // The end of the run. A `nohz_full` CPU can have had no record for a long time.
            TraceEvent::CpuTotals { .. } if row.state == ClockReading::Looking => row.samples_until(record.at, test),
            // No other event interrupts a thread.
            _ => {}
        }
        if row.is_beyond {
            self.hit.get_or_insert(row.cpu);
        }
    }
}

/// Returns the table of `rtla osnoise top`.
#[must_use]
pub fn top(collector: &Collector, ran: Duration) -> String {
    let mut out = format!("{:42}Operating System Noise\n", "");
    writeln!(out, "duration: {:>9} | time is in us", duration_text(ran)).expect(WRITES);
    out.push_str(
        "CPU Period       Runtime        Noise  % CPU Aval   Max Noise   Max Single          HW          NMI          IRQ      Softirq       Thread\n",
    );
    for row in collector.rows.iter().filter(|row| row.periods > 0) {
        let available = (row.runtime.saturating_sub(row.noise.total)) * 10_000_000 / row.runtime.max(1);
        writeln!(
            out,
            "{:3} #{:<6} {:12} {:12}   {:3}.{:05}{:12} {:12}{:12} {:12} {:12} {:12} {:12}",
            row.cpu.0,
            row.periods,
            row.runtime,
            row.noise.total,
            available / 100_000,
            available % 100_000,
            row.max_noise,
            row.noise.max_single,
            row.noise.hw,
            row.noise.nmi,
            row.noise.irq,
            row.noise.softirq,
            row.noise.thread
        )
        .expect(WRITES);
    }
    out
}

/// Returns the table of `rtla osnoise hist`.
///
/// A sample is counted as the lower bound of its class, as in the kernel's histogram; so are the
/// minimum and the maximum. A CPU without samples has no column. If no CPU has samples, the figures
/// are zeros; rtla also prints those if all samples were beyond the last class.
#[must_use]
pub fn hist(collector: &Collector, ran: Duration, histogram: Histogram, options: TableOptions) -> String {
    let rows = collector.rows.iter().filter(|row| row.gaps.count > 0);
    let columns = rows.map(|row| (format!("CPU-{:03}", row.cpu.0), &row.gaps)).collect();
    let table = Table { histogram, options, columns };
    let out = table.header("osnoise", ran) + &table.classes();
    if table.columns.is_empty() && !options.with_zeros {
        return out + "over: 0\ncount: 0\nmin: 0\navg: 0\nmax: 0\n";
    }
    let out = out + &table.line("over: ", |of| of.over.to_string());
    if options.no_summary {
        return out;
    }
    out + &table.summary(|of| format!("{:.2}", of.sum as f64 / of.count as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test() -> Osnoise {
        Osnoise {
            cpus: CpuMask::single(CpuId(0)),
            period: Duration::from_secs(1),
            runtime: Duration::from_secs(1),
            attr: SchedAttr::fifo_at(1),
            threshold: Duration::from_micros(1),
            stop: None,
            stop_total: None,
        }
    }

    #[test]
    fn the_table_is_that_of_rtla_character_by_character() {
        let mut collector = test().collector(1, None);
        let row = &mut collector.rows[0];
        (row.cpu, row.periods, row.runtime, row.noise.total) = (CpuId(3), 598, 598_001_768, 31_188_796);
        (row.max_noise, row.noise.max_single, row.noise.irq, row.noise.thread) = (53_907, 53_907, 2_842_602, 2_394);
        let real = "                                          Operating System Noise
duration:   0 00:10:00 | time is in us
CPU Period       Runtime        Noise  % CPU Aval   Max Noise   Max Single          HW          NMI          IRQ      Softirq       Thread
  3 #598       598001768     31188796    94.78449       53907        53907           0            0      2842602            0         2394
";
        assert_eq!(top(&collector, Duration::from_secs(600)), real);
    }

    #[test]
    fn gaps_are_noise_and_samples_end_behind_them() {
        let test = test();
        let mut row = Row::new(CpuId(0), None);
        let at = |us: u64| Instant::from_nanos(us * 1_000);
        row.is_current = true;
        row.goes_on(at(0), &test);
        for (begin, end) in [(100, 103), (950_000, 1_003_900), (1_500_000, 1_500_007)] {
            row.gap_begins(at(begin), &test);
            row.goes_on(at(end), &test);
        }
        assert_eq!((row.periods, row.runtime, row.noise.total), (1, 1_003_900, 53_903), "the second one has not ended");
        assert_eq!((row.max_noise, row.noise.max_single), (53_903, 53_900));
        row.gap_begins(at(3_100_000), &test);
        assert_eq!((row.periods, row.runtime), (3, 3_003_900), "undisturbed samples are exact");
        assert_eq!((row.noise.total, row.max_noise), (53_910, 53_903));
    }

    #[test]
    fn what_disturbs_is_counted_while_another_thread_runs() {
        let mut collector = test().collector(1, None);
        let (own, hog, other) = (TaskId::from_index(0), TaskId::from_index(1), TaskId::from_index(2));
        let mut event = |us: u64, event| {
            collector.record(&Record { at: Instant::from_nanos(us * 1_000), cpu: CpuId(0), event });
        };
        let switch = |prev, next| TraceEvent::Switch {
            prev,
            prev_state: zerolag_model::PrevState::Runnable,
            next,
            next_prio: zerolag_model::Prio::IDLE,
        };
        event(0, switch(None, Some(own)));
        event(100, switch(Some(own), Some(hog)));
        for tick in 1..4 {
            event(100 + tick * 1_000, TraceEvent::IrqEnter { irq: Irq::Tick });
            event(101 + tick * 1_000, TraceEvent::IrqExit { irq: Irq::Tick });
        }
        event(10_000, switch(Some(hog), Some(other)));
        event(20_000, switch(Some(other), Some(own)));
        event(1_000_000, TraceEvent::IrqEnter { irq: Irq::Tick });
        let row = &collector.rows[0];
        assert_eq!((row.periods, row.noise.total), (1, 19_900), "one gap");
        assert_eq!((row.noise.irq, row.noise.thread), (4, 2), "ticks in it, and both threads");
    }

    #[test]
    fn the_histogram_is_that_of_rtla_character_by_character() {
        let histogram = Histogram { bucket: 1, entries: 256, unit: 1_000 };
        let test = Osnoise { cpus: CpuMask::first_n(3), ..test() };
        let mut collector = test.collector(3, Some(histogram));
        let gaps = [
            (1, 8, 5),
            (2, 5, 9),
            (3, 1, 2),
            (4, 6, 1),
            (5, 2, 1),
            (6, 0, 1),
            (8, 1, 1),
            (12, 0, 1),
            (14, 1, 0),
            (15, 1, 0),
        ];
        for (us, on_0, on_1) in gaps {
            for (cpu, count) in [(0, on_0), (1, on_1)] {
                (0..count).for_each(|_| collector.rows[cpu].gaps.add(us, Some(histogram)));
            }
        }
        // As printed for a change of 2025 to rtla; CPU 2 had no noise.
        let real = "\
# RTLA osnoise histogram
# Time unit is microseconds (us)
# Duration:   0 00:00:01
Index   CPU-000   CPU-001
1             8         5 
2             5         9 
3             1         2 
4             6         1 
5             2         1 
6             0         1 
8             1         1 
12            0         1 
14            1         0 
15            1         0 
over:         0         0 
count:       25        21 
min:          1         1 
avg:       3.68      3.05 
max:         15        12 
";
        assert_eq!(hist(&collector, Duration::from_secs(1), histogram, TableOptions::default()), real);
    }

    #[test]
    fn a_histogram_has_gaps_by_the_lower_bound_of_their_class() {
        let histogram = Histogram { bucket: 10, entries: 10, unit: 1_000 };
        let test = test();
        let mut collector = test.collector(1, Some(histogram));
        let options = TableOptions { no_header: true, ..TableOptions::default() };
        let text = |collector: &Collector| hist(collector, Duration::from_secs(1), histogram, options);
        assert_eq!(text(&collector), "over: 0\ncount: 0\nmin: 0\navg: 0\nmax: 0\n");
        let at = |us: u64| Instant::from_nanos(us * 1_000);
        let row = &mut collector.rows[0];
        row.is_current = true;
        row.goes_on(at(0), &test);
        for (begin, end) in [(100, 119), (200, 212), (300, 309), (400, 555)] {
            row.gap_begins(at(begin), &test);
            row.goes_on(at(end), &test);
        }
        let expected = "\
0             1 
10            2 
over:         1 
count:        4 
min:          0 
avg:      42.50 
max:        150 
";
        assert_eq!(text(&collector), expected);
    }

    #[test]
    fn thresholds_are_of_a_gap_or_of_a_sample() {
        let us = Duration::from_micros;
        let at = |us: u64| Instant::from_nanos(us * 1_000);
        let is_hit = |stop, stop_total| {
            let test = Osnoise { stop, stop_total, ..test() };
            let mut row = Row::new(CpuId(0), None);
            row.is_current = true;
            row.goes_on(at(0), &test);
            for (begin, end) in [(100, 110), (200, 206), (1_100_000, 1_100_000)] {
                row.gap_begins(at(begin), &test);
                row.goes_on(at(end), &test);
            }
            row.is_beyond
        };
        assert!(!is_hit(None, None));
        assert!(is_hit(Some(us(9)), None) && !is_hit(Some(us(10)), None), "it must be higher");
        assert!(is_hit(None, Some(us(15))) && !is_hit(None, Some(us(16))), "16 us in the first second");
    }

    #[test]
    fn a_warm_up_is_forgotten_but_for_the_sample_it_ends_in() {
        let test = test();
        let at = |us: u64| Instant::from_nanos(us * 1_000);
        let mut row = Row::new(CpuId(0), None);
        row.is_current = true;
        row.goes_on(at(0), &test);
        for (begin, end) in [(100, 110), (1_200_000, 1_200_006)] {
            row.gap_begins(at(begin), &test);
            row.goes_on(at(end), &test);
        }
        row.discard();
        assert_eq!((row.periods, row.noise), (0, Noise::default()));
        row.gap_begins(at(2_100_000), &test);
        assert_eq!((row.periods, row.runtime, row.noise.total, row.max_noise), (1, 1_000_000, 6, 6));
    }
}

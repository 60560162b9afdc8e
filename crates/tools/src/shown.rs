//! The figures of a tool on a page ([`Shown`]): distributions, plots and tables instead of text.
//!
//! The tools print columns for a terminal of their time. A page has the same figures as tables, and
//! what their histograms say as plots: all CPUs together, since the table names the worst CPU.

use super::cyclictest::{self, Cyclictest, Unit as Clock};
use super::osnoise;
use super::rt_migrate::{self, RtMigrate, Totals};
use super::rtla::{Histogram, Latencies, together};
use super::timerlat;
use zerolag::page::Shown;
use zerolag_model::{Duration, SchedAttr};
use zerolag_report::distribution::Counts;
use zerolag_report::human::Human;
use zerolag_report::plot::{Axis, Mark, Plot, Unit};
use zerolag_report::table::{Align, Table, Titled};

/// The most iterations of `rt-migrate-test` in a table.
const ITERATIONS: usize = 500;
/// The most CPUs or threads that stand side by side in a plot.
const SIDE_BY_SIDE: usize = 16;

/// Returns the figures of `timerlat`.
#[must_use]
pub fn of_timerlat(collector: &timerlat::Collector, histogram: Histogram) -> Shown {
    type Kind = (&'static str, fn(&timerlat::Thread) -> &Latencies);
    let mut kinds: Vec<Kind> = vec![("interrupt", |cpu| &cpu.irq), ("thread", |cpu| &cpu.thread)];
    if collector.is_user() {
        kinds.push(("return to user mode", |cpu| &cpu.user));
    }
    let cpus: Vec<&timerlat::Thread> = collector.threads().iter().filter(|cpu| cpu.thread.count > 0).collect();
    let mut heads = vec![("CPU".to_owned(), Align::Right), ("samples".to_owned(), Align::Right)];
    for (kind, _) in &kinds {
        heads.extend(["min", "mean", "max"].map(|figure| (format!("{kind}, {figure}"), Align::Right)));
    }
    let heads: Vec<(&str, Align)> = heads.iter().map(|(name, align)| (name.as_str(), *align)).collect();
    let mut table = Table::new(&heads);
    for cpu in &cpus {
        let mut row = vec![cpu.cpu.to_string(), cpu.irq.count.to_string()];
        for (_, of) in &kinds {
            let of = of(cpu);
            row.extend([of.min, of.avg(), of.max].map(|value| time(value, histogram.unit)));
        }
        table.push(row);
    }
    let latest = |kind: &Kind| cpus.iter().max_by_key(|cpu| (kind.1)(cpu).max).map(|cpu| ((kind.1)(cpu).max, cpu.cpu));
    let samples: u64 = cpus.iter().map(|cpu| cpu.thread.count).sum();
    let last = kinds.last().expect("invariant: there are two kinds or more");
    let answer = latest(last).map_or_else(
        || "No timer expired.".to_owned(),
        |(late, cpu)| {
            let what = if last.0 == "thread" { "a thread runs" } else { "a thread is back in user mode" };
            format!("In {samples} samples {what} at most {} late (CPU {cpu}).", time(late, histogram.unit))
        },
    );
    let of_kind = |(name, of): &Kind| ((*name).to_owned(), together(cpus.iter().map(|cpu| of(cpu)), histogram));
    let names: Vec<String> = cpus.iter().map(|cpu| cpu.cpu.to_string()).collect();
    let largest = kinds.iter().map(|(name, of)| {
        let values = cpus.iter().map(|cpu| of(cpu).max.saturating_mul(histogram.unit));
        (*name, values.collect::<Vec<u64>>())
    });
    Shown {
        answer,
        title: "Timer latency".to_owned(),
        distributions: kinds.iter().map(of_kind).collect(),
        plots: side_by_side("Largest latency by CPU", "CPU", &names, largest.collect()),
        tables: vec![Titled::new("Timer latency by CPU", "From the expiry of the timer.", table)],
        ..Shown::default()
    }
}

/// Returns the figures of `osnoise`.
#[must_use]
pub fn of_osnoise(collector: &osnoise::Collector, histogram: Histogram) -> Shown {
    let rows: Vec<&osnoise::Row> = collector.rows().iter().filter(|row| row.periods > 0).collect();
    let mut table = Table::new(
        &[
            "CPU",
            "samples",
            "run time",
            "noise",
            "available",
            "most noise in a sample",
            "longest gap",
            "hardware",
            "NMIs",
            "interrupts",
            "softirqs",
            "threads",
        ]
        .map(|name| (name, Align::Right)),
    );
    for row in &rows {
        let noise = &row.noise;
        let mut cells = vec![row.cpu.to_string(), row.periods.to_string()];
        cells.extend([row.runtime, noise.total].map(|value| time(value, MICROS)));
        cells.push(format!("{:.3}%", available(row)));
        cells.extend([row.max_noise, noise.max_single].map(|value| time(value, MICROS)));
        cells.extend([noise.hw, noise.nmi, noise.irq, noise.softirq, noise.thread].map(|count| count.to_string()));
        table.push(cells);
    }
    let least = rows.iter().min_by(|a, b| available(a).total_cmp(&available(b)));
    let longest = rows.iter().max_by_key(|row| row.noise.max_single);
    let answer = least.zip(longest).map_or_else(
        || "No sample has ended.".to_owned(),
        |(least, longest)| {
            let gap = time(longest.noise.max_single, MICROS);
            let (part, cpu, on) = (available(least), least.cpu, longest.cpu);
            format!("A thread has at least {part:.3}% of its CPU (CPU {cpu}); the longest gap is {gap} (CPU {on}).")
        },
    );
    let names: Vec<String> = rows.iter().map(|row| row.cpu.to_string()).collect();
    let gaps = rows.iter().map(|row| row.noise.max_single * MICROS).collect();
    Shown {
        answer,
        title: "Gaps".to_owned(),
        distributions: vec![("all CPUs".to_owned(), together(rows.iter().map(|row| &row.gaps), histogram))],
        plots: side_by_side("Longest gap by CPU", "CPU", &names, vec![("", gaps)]),
        tables: vec![Titled::new("Noise by CPU", "The sources are numbers of events.", table)],
        ..Shown::default()
    }
}

/// Returns the figures of `cyclictest`.
#[must_use]
pub fn of_cyclictest(test: &Cyclictest, threads: &[cyclictest::Latencies]) -> Shown {
    let unit = if test.unit == Clock::Nanos { 1 } else { MICROS };
    let mut heads = vec![("thread", Align::Right), ("CPU", Align::Left), ("policy", Align::Left)];
    heads.extend(["interval", "cycles", "min", "last", "mean", "max"].map(|name| (name, Align::Right)));
    heads.extend(test.histogram.map(|_| ("beyond the histogram", Align::Right)));
    let mut table = Table::new(&heads);
    for (number, of) in (0..).zip(threads) {
        let policy = match test.attr(number) {
            SchedAttr::Rt { policy, priority } => format!("{policy:?}:{}", priority.value()).to_uppercase(),
            SchedAttr::Fair { .. } | SchedAttr::Ext { .. } | SchedAttr::Deadline(_) => "fair".to_owned(),
        };
        let cpu = test.cpu(number).map_or_else(|| "any".to_owned(), |cpu| cpu.to_string());
        let mut row = vec![number.to_string(), cpu, policy, Human(test.interval(number)).to_string()];
        row.push(of.cycles.to_string());
        row.extend([of.min, of.last, of.mean(), of.max].map(|value| time(value, unit)));
        row.extend(test.histogram.map(|_| of.overflows.to_string()));
        table.push(row);
    }
    let cycles: u64 = threads.iter().map(|of| of.cycles).sum();
    let worst = (0_u32..).zip(threads).max_by_key(|(number, of)| (of.max, u32::MAX - number));
    let answer = worst.filter(|_| cycles > 0).map_or_else(
        || "No cycle has ended.".to_owned(),
        |(number, of)| {
            format!("In {cycles} cycles a thread wakes at most {} late (thread {number}).", time(of.max, unit))
        },
    );
    let counts = |of: &cyclictest::Latencies| -> Counts {
        let filled = (0..).zip(&of.buckets).filter(|(_, count)| **count > 0);
        filled.map(|(value, count): (u64, &u64)| ((value * unit) as f64 + unit as f64 / 2.0, *count)).collect()
    };
    let distributions = (0..).zip(threads).filter(|(_, of)| of.buckets.iter().any(|count| *count > 0));
    let names: Vec<String> = (0..threads.len()).map(|number| number.to_string()).collect();
    let all = |of: fn(&cyclictest::Latencies) -> u64| threads.iter().map(|thread| of(thread) * unit).collect();
    Shown {
        answer,
        title: "Latency".to_owned(),
        distributions: distributions.map(|(number, of): (u32, _)| (format!("thread {number}"), counts(of))).collect(),
        plots: side_by_side(
            "Latency by thread",
            "thread",
            &names,
            vec![("max", all(|of| of.max)), ("mean", all(cyclictest::Latencies::mean))],
        ),
        tables: vec![Titled::new("Latency by thread", "From the expiry of the timer to the thread.", table)],
        ..Shown::default()
    }
}

/// Returns the figures of `rt-migrate-test`.
#[must_use]
pub fn of_rt_migrate(test: &RtMigrate, rows: &[rt_migrate::Row]) -> Shown {
    let mut table = Table::new(&[
        ("thread", Align::Right),
        ("priority", Align::Right),
        ("min", Align::Right),
        ("mean", Align::Right),
        ("max", Align::Right),
    ]);
    let (mut names, mut longest, mut mean) = (Vec::new(), Vec::new(), Vec::new());
    for task in 0..test.tasks {
        let Some(totals) = Totals::of(rows, task) else { continue };
        let mut row = vec![task.to_string(), test.priority(task).value().to_string()];
        row.extend([totals.min, totals.avg, totals.max].map(|value| time(value, MICROS)));
        table.push(row);
        names.push(test.priority(task).value().to_string());
        longest.push(totals.max * MICROS);
        mean.push(totals.avg * MICROS);
    }
    let failures = rows.iter().filter(|row| test.is_failure(row)).count();
    let answer = match failures {
        0 => format!("In none of {} iterations a more urgent thread waits for a less urgent one.", rows.len()),
        some => format!("In {some} of {} iterations a more urgent thread waits for a less urgent one.", rows.len()),
    };
    let text = match rows.len().saturating_sub(ITERATIONS) {
        0 => "Time to the start, time to the end, and loops of the threads.".to_owned(),
        more => format!(
            "Time to the start, time to the end, and loops of the threads; {more} more iterations are left out."
        ),
    };
    Shown {
        answer,
        plots: side_by_side("Time to the start", "priority", &names, vec![("max", longest), ("mean", mean)]),
        tables: vec![
            Titled::new("Time to the start by thread", "From the barrier to the CPU.", table),
            Titled::new("Iterations", text, iterations(test, rows)),
        ],
        ..Shown::default()
    }
}

fn iterations(test: &RtMigrate, rows: &[rt_migrate::Row]) -> Table {
    let names: Vec<String> = (0..test.tasks).map(|task| format!("thread {task}")).collect();
    let mut heads = vec![("iteration", Align::Right), ("figure", Align::Left)];
    heads.extend(names.iter().map(|name| (name.as_str(), Align::Right)));
    let mut table = Table::new(&heads);
    for (number, row) in rows.iter().enumerate().take(ITERATIONS) {
        let mut push = |figure: &str, of: &dyn Fn(&rt_migrate::Cell) -> String| {
            let cells = row.0.iter().map(of);
            table.push([number.to_string(), figure.to_owned()].into_iter().chain(cells));
        };
        push("start", &|cell| time(cell.start, MICROS));
        push("end", &|cell| time(cell.len, MICROS));
        push("loops", &|cell| cell.loops.to_string());
    }
    table
}

/// Nanoseconds per microsecond.
const MICROS: u64 = 1_000;

fn time(value: u64, unit: u64) -> String {
    Human(Duration::from_nanos(value.saturating_mul(unit))).to_string()
}

/// Returns the share of its CPU that a thread of `osnoise` had, in percent.
fn available(row: &osnoise::Row) -> f64 {
    row.runtime.saturating_sub(row.noise.total) as f64 / row.runtime.max(1) as f64 * 100.0
}

/// Returns a plot of times in nanoseconds side by side. Of one there is nothing to compare; of many
/// the distributions and the table tell more.
fn side_by_side(title: &str, what: &str, names: &[String], series: Vec<(&str, Vec<u64>)>) -> Vec<Plot> {
    if !(2..=SIDE_BY_SIDE).contains(&names.len()) {
        return Vec::new();
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut plot = Plot::new(title, Axis::categories(what, &names), Axis::log("time", Unit::Nanos));
    for (name, values) in series {
        // The axis is logarithmic: less than a unit is drawn as half of the smallest microsecond.
        let points = values.iter().enumerate().map(|(place, value)| (place as f64, (*value).max(500) as f64));
        plot = plot.with(name, Mark::Bars, points.collect());
    }
    vec![plot]
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerolag_model::{CpuId, CpuMask};

    #[test]
    fn the_worst_cpu_is_named_and_in_the_table() {
        let test = timerlat::Timerlat {
            cpus: CpuMask::first_n(2),
            period: Duration::from_millis(1),
            attr: SchedAttr::fifo_at(95),
            user: false,
            stop_irq: None,
            stop_thread: None,
            kernel: Duration::ZERO,
        };
        let histogram = Histogram { bucket: 1, entries: 4, unit: 1_000 };
        let mut collector = test.collector(2, Some(histogram));
        for (cpu, late) in [(CpuId(0), 2), (CpuId(1), 70), (CpuId(1), 3)] {
            collector.add(cpu, 0, late);
        }
        let shown = of_timerlat(&collector, histogram);
        assert_eq!(shown.answer, "In 3 samples a thread runs at most 70.0us late (CPU 1).");
        let rows = shown.tables[0].table.to_rows();
        assert_eq!(rows[2], ["1", "2", "0ns", "0ns", "0ns", "3.00us", "36.0us", "70.0us"]);
        // What is beyond the last class is at its largest value.
        let thread = shown.distributions.iter().find(|(name, _)| name == "thread").expect("a distribution");
        assert_eq!(thread.1, [(2_500.0, 1), (3_500.0, 1), (70_000.0, 1)]);
        assert_eq!(shown.plots[0].series[1].points, [(0.0, 2_000.0), (1.0, 70_000.0)]);
    }

    #[test]
    fn one_thread_is_not_compared_with_itself() {
        assert!(side_by_side("", "", &["0".to_owned()], vec![("", vec![1])]).is_empty());
        let names: Vec<String> = (0..3).map(|n| n.to_string()).collect();
        assert_eq!(side_by_side("", "", &names, vec![("", vec![1, 2, 3])]).len(), 1);
    }
}

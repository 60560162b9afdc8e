//! The common parts of rtla's tools: sums and classes of latencies, and the table of `hist`.

use core::fmt::Write as _;
use std::collections::BTreeMap;
use zerolag_model::Duration;
use zerolag_report::distribution::Counts;

/// The classes of a histogram (`-b`, `-E`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Histogram {
    /// Width of a class, in the unit of the output.
    pub bucket: u64,
    /// The number of classes; larger values are counted as `over`.
    pub entries: usize,
    /// Nanoseconds per unit: 1000 or, with `-n`, 1.
    pub unit: u64,
}

/// The latencies of one kind on one CPU.
#[derive(Clone, Debug, Default)]
pub struct Latencies {
    /// Samples.
    pub count: u64,
    /// The last sample.
    pub cur: u64,
    /// The smallest sample.
    pub min: u64,
    /// The largest sample.
    pub max: u64,
    /// Their sum.
    pub sum: u64,
    /// Samples by class, and those beyond.
    pub classes: Vec<u64>,
    /// Samples beyond the last class.
    pub over: u64,
}

impl Latencies {
    pub(super) fn add(&mut self, value: u64, histogram: Option<Histogram>) {
        self.min = if self.count == 0 { value } else { self.min.min(value) };
        self.max = self.max.max(value);
        self.count += 1;
        self.sum += value;
        self.cur = value;
        let Some(histogram) = histogram else { return };
        match usize::try_from(value / histogram.bucket).ok().filter(|class| *class < histogram.entries) {
            Some(class) => {
                if self.classes.len() <= class {
                    self.classes.resize(class + 1, 0);
                }
                self.classes[class] += 1;
            }
            None => self.over += 1,
        }
    }

    pub(super) fn join(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        self.min = if self.count == 0 { other.min } else { self.min.min(other.min) };
        self.max = self.max.max(other.max);
        self.count += other.count;
        self.sum += other.sum;
    }

    /// Returns the mean, rounded down; zero without samples.
    #[must_use]
    pub fn avg(&self) -> u64 {
        self.sum.checked_div(self.count).unwrap_or(0)
    }
}

/// Returns the distribution of latencies of several CPUs, in nanoseconds: the middle of each class.
/// Of samples beyond the last class only the largest is known, so all are counted there.
#[must_use]
pub fn together<'a>(all: impl Iterator<Item = &'a Latencies>, histogram: Histogram) -> Counts {
    let mut places: BTreeMap<u64, u64> = BTreeMap::new();
    for latencies in all {
        for (class, count) in (0..).zip(&latencies.classes).filter(|(_, count)| **count > 0) {
            *places.entry((2 * class + 1) * histogram.bucket * histogram.unit / 2).or_default() += count;
        }
        if latencies.over > 0 {
            *places.entry(latencies.max * histogram.unit).or_default() += latencies.over;
        }
    }
    places.into_iter().map(|(value, count)| (value as f64, count)).collect()
}

/// Returns the elapsed time in rtla's format.
#[must_use]
pub fn duration_text(time: Duration) -> String {
    let seconds = time.as_nanos() / 1_000_000_000;
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    format!("{days:3} {:02}:{:02}:{:02}", rest / 3_600, rest / 60 % 60, rest % 60)
}

/// The parts of a histogram that are printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TableOptions {
    /// `--no-header`.
    pub no_header: bool,
    /// `--no-summary`.
    pub no_summary: bool,
    /// `--no-index`.
    pub no_index: bool,
    /// `--with-zeros`.
    pub with_zeros: bool,
}

/// A histogram as text: a line per class, a column per kind of latency.
pub(super) struct Table<'a> {
    pub(super) histogram: Histogram,
    pub(super) options: TableOptions,
    /// The columns with their headings.
    pub(super) columns: Vec<(String, &'a Latencies)>,
}

impl Table<'_> {
    /// Returns the lines above the classes.
    pub(super) fn header(&self, tool: &str, ran: Duration) -> String {
        if self.options.no_header {
            return String::new();
        }
        let unit = if self.histogram.unit == 1 { "nanoseconds (ns)" } else { "microseconds (us)" };
        let mut out = format!("# RTLA {tool} histogram\n# Time unit is {unit}\n# Duration: {}\n", duration_text(ran));
        out.push_str(if self.options.no_index { "" } else { "Index" });
        for (heading, _) in &self.columns {
            write!(out, "   {heading}").expect(WRITES);
        }
        out + "\n"
    }

    /// Returns a line per class; without `--with-zeros` only classes with samples.
    pub(super) fn classes(&self) -> String {
        let mut out = String::new();
        for class in 0..self.histogram.entries {
            let counts = || self.columns.iter().map(|(_, of)| of.classes.get(class).copied().unwrap_or(0));
            if !self.options.with_zeros && counts().all(|count| count == 0) {
                continue;
            }
            if !self.options.no_index {
                write!(out, "{:<6}", class as u64 * self.histogram.bucket).expect(WRITES);
            }
            counts().for_each(|count| write!(out, "{count:9} ").expect(WRITES));
            out.push('\n');
        }
        out
    }

    /// Returns the four lines of the summary; the means as `avg` prints them.
    pub(super) fn summary(&self, avg: fn(&Latencies) -> String) -> String {
        let or_dash = |name: &str, value: fn(&Latencies) -> String| {
            self.line(name, |of| if of.count == 0 { "-".to_owned() } else { value(of) })
        };
        [
            self.line("count:", |of| of.count.to_string()),
            or_dash("min:  ", |of| of.min.to_string()),
            or_dash("avg:  ", avg),
            or_dash("max:  ", |of| of.max.to_string()),
        ]
        .concat()
    }

    /// Returns a line with a figure of each column.
    pub(super) fn line(&self, name: &str, value: impl Fn(&Latencies) -> String) -> String {
        let mut line = if self.options.no_index { String::new() } else { name.to_owned() };
        for (_, of) in &self.columns {
            write!(line, "{:>9} ", value(of)).expect(WRITES);
        }
        line + "\n"
    }
}

pub(super) const WRITES: &str = "invariant: writing to a String cannot fail";

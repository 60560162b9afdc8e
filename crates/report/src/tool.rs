//! [`ToolLatencies`]: the latencies in the output of a tool of the field.
//!
//! cyclictest, rtla and `perf sched latency` print minima, means, maxima and histograms. Shown in
//! one form they can be compared with each other and with those of a simulation. A percentile is
//! read from a histogram where there is one. It is the lower end of its bucket, as the tools count
//! in whole units; one that lies in the part beyond the histogram is only known to be above it.

use crate::human::Human;
use crate::quantiles::Quantiles;
use crate::table::{Align, Table};
use core::fmt;
use zerolag_model::Duration;
use zerolag_trace::ToolOutput;

/// The latencies in the output of a tool.
#[derive(Clone, Debug)]
pub struct ToolLatencies {
    tool: &'static ToolOutput,
    rows: Vec<ToolRow>,
}

/// One column of a histogram, one line of a table.
#[derive(Clone, Debug, Default)]
struct ToolRow {
    name: String,
    count: u64,
    least: Option<Duration>,
    mean: Option<Duration>,
    most: Option<Duration>,
    /// The histogram: values in nanoseconds, and how many.
    counts: Vec<(u64, u64)>,
    /// How many are beyond the histogram.
    beyond: u64,
}

const US: f64 = 1e3;
const MS: f64 = 1e6;

/// The fewest values of which a percentile is one: ten, and a hundred for one in a thousand.
const PERCENTILES: [(&str, u32, u64); 3] = [("p50", 500_000, 10), ("p99", 990_000, 10), ("p99.9", 999_000, 100)];

impl ToolLatencies {
    /// Reads a text of a tool. Lines that are none of its table are left out.
    #[must_use]
    pub fn read(text: &str, tool: &'static ToolOutput) -> Self {
        let rows = match tool.what {
            what if what.contains("cyclictest") => cyclictest(text),
            what if what.contains("histogram of rtla") => rtla_hist(text),
            what if what.contains("timerlat top") => timerlat_top(text),
            _ => perf_latency(text),
        };
        Self { tool, rows: rows.into_iter().filter(|row| row.count > 0).collect() }
    }

    /// Returns whether it has none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

impl ToolRow {
    fn named(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    fn percentile(&self, share: u32, fewest: u64) -> String {
        if self.counts.is_empty() || self.count < fewest {
            return "-".to_owned();
        }
        let last = self.counts.last().map_or(0, |(value, _)| *value);
        let all = self.counts.iter().copied().chain([(u64::MAX, self.beyond)]);
        match Quantiles::of_counts(all).at(share) {
            Some(value) if value.as_nanos() == u64::MAX => format!(">{}", Human(Duration::from_nanos(last))),
            Some(value) => Human(value).to_string(),
            None => "-".to_owned(),
        }
    }
}

impl fmt::Display for ToolLatencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "latencies in {}", self.tool.what)?;
        if self.is_empty() {
            writeln!(f, "none was counted")?;
        }
        let right = Align::Right;
        let mut columns = vec![("", Align::Left), ("count", right), ("min", right), ("mean", right)];
        let has_counts = self.rows.iter().any(|row| !row.counts.is_empty());
        if has_counts {
            columns.extend(PERCENTILES.map(|(name, ..)| (name, right)));
        }
        columns.push(("max", right));
        let mut table = Table::new(&columns);
        for row in &self.rows {
            let time = |time: Option<Duration>| time.map_or_else(|| "-".to_owned(), |time| Human(time).to_string());
            let mut cells = vec![row.name.clone(), row.count.to_string(), time(row.least), time(row.mean)];
            if has_counts {
                cells.extend(PERCENTILES.map(|(_, share, fewest)| row.percentile(share, fewest)));
            }
            cells.push(time(row.most));
            table.push(cells);
        }
        write!(f, "\n{table}\n{}\n", self.tool.advice)
    }
}

/// Returns a time of a number in a unit.
fn time(text: &str, unit: f64) -> Option<Duration> {
    let nanos = text.trim().parse::<f64>().ok()? * unit;
    (0.0..1.8e19).contains(&nanos).then(|| Duration::from_nanos(nanos as u64))
}

/// Returns the number behind a word: `Min:      2`.
fn behind<'a>(line: &'a str, word: &str) -> Option<&'a str> {
    line.split_once(word)?.1.split_whitespace().next()
}

/// Reads the lines and the histogram of cyclictest; without `--nsecs` times are microseconds. A
/// line that is printed again counts once.
fn cyclictest(text: &str) -> Vec<ToolRow> {
    let mut threads: Vec<ToolRow> = Vec::new();
    let mut columns: Vec<ToolRow> = Vec::new();
    for line in text.lines() {
        // Status lines overwrite each other: escapes move the cursor up.
        let line = line.rsplit(['\u{1b}', '\r']).next().unwrap_or(line);
        let line = line.strip_prefix("[K").unwrap_or(line).trim();
        if let (Some(rest), Some(count)) = (line.strip_prefix("T:"), behind(line, " C:")) {
            let Some(number) = rest.split_whitespace().next() else { continue };
            let of = |word: &str| behind(line, word).and_then(|text| time(text, US));
            let row = ToolRow {
                count: count.parse().unwrap_or(0),
                least: of("Min:"),
                mean: of("Avg:"),
                most: of("Max:"),
                ..ToolRow::named(format!("thread {number}"))
            };
            match threads.iter_mut().find(|known| known.name == row.name) {
                Some(known) => *known = row,
                None => threads.push(row),
            }
        } else if let Some((what, values)) = line.strip_prefix("# ").and_then(|line| line.split_once(": ")) {
            for (at, value) in values.split_whitespace().enumerate() {
                let Some(row) = columns.get_mut(at) else { break };
                match what {
                    "Total" => row.count = value.parse().unwrap_or(0),
                    "Min Latencies" => row.least = time(value, US),
                    "Avg Latencies" => row.mean = time(value, US),
                    "Max Latencies" => row.most = time(value, US),
                    "Histogram Overflows" => row.beyond = value.parse().unwrap_or(0),
                    _ => {}
                }
            }
        } else {
            bucket(line, US, &mut columns, |at| format!("thread {at}"));
        }
    }
    if columns.is_empty() { threads } else { finish(columns) }
}

/// Adds a line of a histogram: a value, and a count per column.
fn bucket(line: &str, unit: f64, columns: &mut Vec<ToolRow>, name: impl Fn(usize) -> String) {
    let mut words = line.split_whitespace();
    let Some(value) = words.next().filter(|word| word.bytes().all(|byte| byte.is_ascii_digit())) else { return };
    let Some(value) = time(value, unit) else { return };
    let counts: Option<Vec<u64>> = words.map(|word| word.parse().ok()).collect();
    let Some(counts) = counts.filter(|counts| !counts.is_empty()) else { return };
    for (at, count) in counts.into_iter().enumerate() {
        if columns.len() <= at {
            columns.push(ToolRow::named(name(columns.len())));
        }
        let row = &mut columns[at];
        // Values ascend; a line that does not is of something else.
        if row.counts.last().is_none_or(|(last, _)| *last < value.as_nanos()) {
            row.counts.push((value.as_nanos(), count));
        }
    }
}

/// Counts the columns of a histogram that does not, and names that of all.
fn finish(mut columns: Vec<ToolRow>) -> Vec<ToolRow> {
    let several = columns.len();
    for (at, row) in columns.iter_mut().enumerate() {
        let counted = row.counts.iter().map(|(_, count)| count).sum::<u64>().saturating_add(row.beyond);
        row.count = row.count.max(counted);
        // `--histofall` adds a column of sums, which has no minimum of its own.
        if several > 1 && at + 1 == several && row.least.is_none() {
            row.name = "all".to_owned();
        }
    }
    columns
}

/// Reads the histograms of rtla: a head that names the columns, a line per bucket, then `over:`,
/// `count:`, `min:`, `avg:`, `max:`.
fn rtla_hist(text: &str) -> Vec<ToolRow> {
    let unit = if text.contains("# Time unit is nanoseconds") { 1.0 } else { US };
    let mut columns: Vec<ToolRow> = Vec::new();
    for line in text.lines().map(str::trim) {
        if let Some(names) = line.strip_prefix("Index") {
            // A second head is that of the sums of all CPUs.
            if columns.is_empty() {
                columns = names.split_whitespace().map(ToolRow::named).collect();
                continue;
            }
            break;
        }
        let Some((what, values)) = line.split_once(':') else {
            let first = columns.len();
            bucket(line, unit, &mut columns, |_| String::new());
            columns.truncate(first);
            continue;
        };
        for (row, value) in columns.iter_mut().zip(values.split_whitespace()) {
            match what {
                "over" => row.beyond = value.parse().unwrap_or(0),
                "count" => row.count = value.parse().unwrap_or(0),
                "min" => row.least = time(value, unit),
                "avg" => row.mean = time(value, unit),
                "max" => row.most = time(value, unit),
                _ => {}
            }
        }
    }
    columns
}

/// Reads the table of `rtla timerlat top`: `0 #12646 | cur min avg max | cur min avg max`.
fn timerlat_top(text: &str) -> Vec<ToolRow> {
    let unit = if text.contains("Latency (ns)") { 1.0 } else { US };
    let mut rows: Vec<ToolRow> = Vec::new();
    for line in text.lines() {
        let mut parts = line.split('|');
        let Some((cpu, count)) = parts.next().and_then(|head| head.trim().split_once('#')) else { continue };
        let Ok(count) = count.trim().parse() else { continue };
        for (what, part) in ["IRQ", "thread", "user"].into_iter().zip(parts) {
            let words: Vec<Option<Duration>> = part.split_whitespace().map(|word| time(word, unit)).collect();
            let [_, least, mean, most] = words[..] else { continue };
            let row = ToolRow { count, least, mean, most, ..ToolRow::named(format!("cpu {} {what}", cpu.trim())) };
            match rows.iter_mut().find(|known| known.name == row.name) {
                Some(known) => *known = row,
                None => rows.push(row),
            }
        }
    }
    rows
}

/// Reads the table of `perf sched latency`: `task | run time | switches | avg: .. | max: .. | ..`.
fn perf_latency(text: &str) -> Vec<ToolRow> {
    let row = |line: &str| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [name, _, count, mean, most, ..] = cells[..] else { return None };
        let delay = |cell: &str| {
            let number = cell.trim_start_matches(|c: char| !c.is_ascii_digit());
            time(number.split_whitespace().next()?, MS)
        };
        let (mean, most) = (delay(mean)?, delay(most)?);
        Some(ToolRow { count: count.parse().ok()?, mean: Some(mean), most: Some(most), ..ToolRow::named(name) })
    };
    text.lines().filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerolag_trace::tool_output;

    fn shown(text: &str) -> Vec<String> {
        let tool = tool_output(text).expect("a tool");
        assert!(tool.has_figures);
        let table = ToolLatencies::read(text, tool).to_string();
        table.lines().skip(2).take_while(|line| !line.is_empty()).map(str::to_owned).collect()
    }

    #[test]
    fn lines_and_histograms_of_cyclictest_are_read() {
        let lines = "# /dev/cpu_dma_latency set to 0us\nT: 0 (  311) P:80 I:1000 C:   5000 Min:      1 Act:    2 Avg:    2 Max:      15\nT: 0 (  311) P:80 I:1000 C:  10000 Min:      1 Act:    3 Avg:    2 Max:      27\nT: 1 (  312) P:80 I:1500 C:   6667 Min:      2 Act:    3 Avg:    4 Max:      31\n";
        assert_eq!(
            shown(lines),
            [
                "          count     min    mean     max",
                "thread 0  10000  1.00us  2.00us  27.0us",
                "thread 1   6667  2.00us  4.00us  31.0us",
            ]
        );
        let histogram = "# Histogram\n000001 000600\t000000\n000002 000390\t000500\n000005 000008\t000490\n# Total: 000001000 000001000\n# Min Latencies: 00001 00002\n# Avg Latencies: 00001 00003\n# Max Latencies: 00009 00700\n# Histogram Overflows: 00002 00010\n# Histogram Overflow at cycle number:\n# Thread 0: 17 20\n";
        assert_eq!(
            shown(histogram),
            [
                "          count     min    mean     p50     p99    p99.9     max",
                "thread 0   1000  1.00us  1.00us  1.00us  2.00us  >5.00us  9.00us",
                "thread 1   1000  2.00us  3.00us  2.00us  5.00us  >5.00us   700us",
            ]
        );
    }

    #[test]
    fn tables_of_rtla_are_read() {
        let hist = "# RTLA timerlat histogram\n# Time unit is microseconds (us)\n# Duration:   0 00:00:01\nIndex   IRQ-000   Thr-000\n0            90         0\n1             9        98\n12            1         1\nover:         0         1\ncount:      100       100\nmin:          0         1\navg:          0         1\nmax:         12       300\nALL:        IRQ       Thr\ncount:      100       100\n";
        assert_eq!(
            shown(hist),
            [
                "         count     min    mean     p50     p99    p99.9     max",
                "IRQ-000    100     0ns     0ns     0ns  1.00us   12.0us  12.0us",
                "Thr-000    100  1.00us  1.00us  1.00us  12.0us  >12.0us   300us",
            ]
        );
        let top = "                                     Timer Latency\n  0 00:00:06   |          IRQ Timer Latency (us)        |         Thread Timer Latency (us)\nCPU COUNT      |      cur       min       avg       max |      cur       min       avg       max\n  0 #6004      |        1         0         1        10 |        6         3         6        25\n";
        assert_eq!(
            shown(top),
            [
                "              count     min    mean     max",
                "cpu 0 IRQ      6004     0ns  1.00us  10.0us",
                "cpu 0 thread   6004  3.00us  6.00us  25.0us",
            ]
        );
    }

    #[test]
    fn both_forms_of_perf_sched_latency_are_read() {
        for text in [
            " ------\n  Task                  |   Runtime ms  | Switches | Average delay ms | Maximum delay ms | Maximum delay at       |\n ------\n  cat:(6)               |     12.002 ms |        6 | avg:   17.541 ms | max:   29.702 ms | max at: 991962.948070 s\n  TOTAL:                |     12.002 ms |        6 |\n",
            "  Task                  |   Runtime ms  |  Count   | Avg delay ms    | Max delay ms    | Max delay start           | Max delay end          |\n  cat:(6)               |     12.002 ms |        6 | avg:  17.541 ms | max:  29.702 ms | max start:    12.948070 s | max end:    12.977772 s\n",
        ] {
            assert_eq!(shown(text), ["         count  min    mean     max", "cat:(6)      6    -  17.5ms  29.7ms"]);
        }
    }
}

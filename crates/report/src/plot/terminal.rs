//! Plots of letters, for a terminal: histograms of latency, the load of CPUs over time, bars.
//!
//! Handwritten: `textplots` draws lines on linear axes only, in one size and one set of letters;
//! `ratatui` draws on a screen that it owns. Here a plot is a text that is printed once, with the
//! axes and units of the other plots.
//!
//! * Braille has two by four dots per letter, and carries the tall histogram. The eighths of a
//!   block carry a row of bars: one row per task, CPU or value, with its figures at the right.
//! * A terminal without UTF-8 gets letters of ASCII: fewer levels, the same layout.
//! * A plot has no more columns than it is told, and none below [`NARROWEST`].
//! * Names are cut and stripped of hidden letters: a name cannot move the cursor.

use super::Plot;
use crate::distribution::{Counts, PER_DECADE, bars as share_bars, quantile, total};
use crate::human::{Human, is_hidden};
use crate::load::Loads;
use core::fmt::Write;
use std::collections::BTreeMap;
use zerolag_model::Duration;

/// The fewest columns of a terminal that get plots.
pub const NARROWEST: usize = 40;
/// The most columns that a plot uses.
const WIDEST: usize = 140;
/// Lines of the tall histogram.
const TALL: usize = 6;
/// The most rows of a plot of CPUs or tasks.
const ROWS: usize = 8;
/// The most bars of a plot of bars.
const BARS: usize = 40;
/// The longest name of a row.
const NAME: usize = 28;

/// How a plot is drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Look {
    /// The columns of the terminal.
    pub columns: usize,
    /// The letters that it can show.
    pub letters: Letters,
    /// Whether it shows colours.
    pub colours: Colours,
}

/// The letters that a terminal can show.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Letters {
    /// Braille and blocks.
    Unicode,
    /// ASCII only.
    Ascii,
}

/// Whether a plot has colours (of the terminal's own palette).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Colours {
    /// None.
    Off,
    /// Bars and dots are coloured, axes are faint.
    On,
}

/// The part of a plot that is coloured.
#[derive(Clone, Copy)]
enum Ink {
    Latency,
    Load,
    Faint,
}

const WRITES: &str = "invariant: writing to a String cannot fail";

impl Look {
    fn width(self) -> Option<usize> {
        (self.columns >= NARROWEST).then(|| self.columns.min(WIDEST))
    }

    fn ink(self, ink: Ink, text: &str) -> String {
        let code = match ink {
            Ink::Latency => "36",
            Ink::Load => "32",
            Ink::Faint => "2",
        };
        match self.colours {
            Colours::On if !text.trim().is_empty() => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
            Colours::On | Colours::Off => text.to_owned(),
        }
    }

    /// Returns the letters from nothing to all.
    const fn levels(self) -> &'static [char] {
        match self.letters {
            Letters::Unicode => &[' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'],
            Letters::Ascii => &[' ', '.', ':', '-', '=', '+', '*', '#', '@'],
        }
    }

    /// Returns values as a row of letters; `top` fills one. What is above zero is never blank.
    fn row(self, values: &[f64], top: f64) -> String {
        let levels = self.levels();
        let level = |value: &f64| {
            let part = if top > 0.0 { (value / top).clamp(0.0, 1.0) } else { 0.0 };
            // The conversion saturates; rounded half up.
            let level = (part * (levels.len() - 1) as f64).round() as usize;
            levels[level.max(usize::from(*value > 0.0))]
        };
        values.iter().map(level).collect()
    }

    /// Returns a name, padded to a width.
    fn name(self, name: &str, width: usize) -> String {
        let visible: String = name.chars().filter(|letter| !is_hidden(*letter)).collect();
        let count = visible.chars().count();
        if count <= width {
            return format!("{visible:width$}");
        }
        let cut: String = visible.chars().take(width.saturating_sub(1)).collect();
        cut + if self.letters == Letters::Unicode { "…" } else { "~" }
    }
}

fn human(ns: f64) -> String {
    // The conversion saturates.
    Human(Duration::from_nanos(ns.max(0.0) as u64)).to_string()
}

/// Returns the width of the column of names.
fn names_width<'n>(names: impl Iterator<Item = &'n str>, width: usize) -> usize {
    names.map(|name| name.chars().count()).max().unwrap_or_default().clamp(6, NAME.min(width / 4))
}

/// Draws distributions on one logarithmic axis: the first as a tall histogram, the others as a row
/// of bars each, with their quantiles. Empty if there are no values, or if the terminal is too
/// narrow.
#[must_use]
pub fn latency(title: &str, lines: &[(String, Counts)], look: Look) -> String {
    let filled: Vec<&(String, Counts)> = lines.iter().filter(|(_, counts)| total(counts) > 0).collect();
    let (Some(width), Some((first, counts))) = (look.width(), filled.first()) else { return String::new() };
    let bars: Vec<BTreeMap<i64, f64>> = filled.iter().map(|(_, counts)| share_bars(counts)).collect();
    let places = || bars.iter().flat_map(BTreeMap::keys).copied();
    let (low, high) = (places().min().unwrap_or_default(), places().max().unwrap_or_default() + 1);
    // At least a power of ten, so that one value is one bar and not a wall.
    let (low, high) = if high - low < PER_DECADE as i64 { (low - 2, low + PER_DECADE as i64) } else { (low, high) };
    let shown = filled.len().min(ROWS + 1);
    let wide = names_width(filled.iter().take(shown).map(|(name, _)| &**name), width);
    let figures: Vec<String> = filled.iter().map(|(_, counts)| figures(counts, width)).collect();
    let right = if shown > 1 { figures.iter().map(String::len).max().unwrap_or_default() + 2 } else { 0 };
    let room = width.saturating_sub(wide + 2 + right).max(10);
    let axis = LogAxis { low, high, room, beyond: right };
    let mut out = String::new();
    let name = look.name(first, wide);
    let count = if width < 70 { String::new() } else { format!(" {} values,", total(counts)) };
    writeln!(out, "{title}: {},{count} {}", name.trim_end(), figures[0]).expect(WRITES);
    let top = bars[0].values().copied().fold(0.0, f64::max);
    for (number, line) in tall(&axis, &bars[0], top, look).iter().enumerate() {
        let label = match number {
            0 => format!("{top:.1}%"),
            n if n + 1 == TALL => "0%".to_owned(),
            _ => String::new(),
        };
        let label = look.ink(Ink::Faint, &format!("{label:>wide$}"));
        writeln!(out, "{label}  {}", look.ink(Ink::Latency, line.trim_end())).expect(WRITES);
    }
    for ((name, _), (bars, figures)) in filled.iter().zip(bars.iter().zip(&figures)).take(shown).skip(1) {
        let values: Vec<f64> = (0..room).map(|column| axis.value(bars, column as f64, 1.0)).collect();
        let top = values.iter().copied().fold(0.0, f64::max);
        let row = look.ink(Ink::Latency, &look.row(&values, top));
        writeln!(out, "{}  {row}  {figures}", look.name(name, wide)).expect(WRITES);
    }
    writeln!(out, "{}", look.ink(Ink::Faint, &format!("{:wide$}  {}", "", axis.ticks()))).expect(WRITES);
    if let Some(more) = filled.len().checked_sub(shown).filter(|more| *more > 0) {
        writeln!(out, "{more} more are not drawn").expect(WRITES);
    }
    out
}

fn figures(counts: &Counts, width: usize) -> String {
    let (p50, p99) = (human(quantile(counts, 0.5)), human(quantile(counts, 0.99)));
    let max = human(counts.last().map_or(0.0, |(value, _)| *value));
    match width {
        ..70 => format!("p99 {p99:>6}"),
        70..100 => format!("p50 {p50:>6}  p99 {p99:>6}"),
        _ => format!("p50 {p50:>6}  p99 {p99:>6}  max {max:>6}"),
    }
}

/// The axis of a histogram: bars of an eighth of a power of ten, over columns.
struct LogAxis {
    low: i64,
    high: i64,
    room: usize,
    /// Columns at the right of the axis, which the last tick can use.
    beyond: usize,
}

impl LogAxis {
    /// Returns the height of the histogram at a column, or a part of one that begins at `at`.
    fn value(&self, bars: &BTreeMap<i64, f64>, at: f64, width: f64) -> f64 {
        let per_column = (self.high - self.low) as f64 / self.room as f64;
        let place = |column: f64| (column * per_column + 1e-9).floor() as i64 + self.low;
        let (first, last) = (place(at), place(at + width - 1e-6));
        (first..=last).filter_map(|place| bars.get(&place)).copied().fold(0.0, f64::max)
    }

    /// Returns the powers of ten below their places, as far as they do not touch.
    fn ticks(&self) -> String {
        let mut line = String::new();
        for power in 0..=19_u32 {
            let place = (f64::from(power) * PER_DECADE - self.low as f64) / (self.high - self.low) as f64;
            let column = (place * self.room as f64).round();
            if !(0.0..=self.room as f64).contains(&column) {
                continue;
            }
            let text = format!("|{}", Duration::from_nanos(10_u64.saturating_pow(power)));
            let (column, length) = (column as usize, line.chars().count());
            if column + text.len() <= self.room + self.beyond && (length == 0 || column > length) {
                line.push_str(&" ".repeat(column - length));
                line.push_str(&text);
            }
        }
        line
    }
}

/// Draws a histogram [`TALL`] lines high.
fn tall(axis: &LogAxis, bars: &BTreeMap<i64, f64>, top: f64, look: Look) -> Vec<String> {
    let (across, down) = match look.letters {
        Letters::Unicode => (2, 4),
        Letters::Ascii => (1, 1),
    };
    let dots = (TALL * down) as f64;
    let heights: Vec<usize> = (0..axis.room * across)
        .map(|dot| {
            let value = axis.value(bars, dot as f64 / across as f64, 1.0 / across as f64);
            let height = if top > 0.0 { (value / top * dots).round() as usize } else { 0 };
            height.max(usize::from(value > 0.0))
        })
        .collect();
    // From the lowest to the highest dot of the left and of the right column: Unicode's numbers of
    // the dots of U+2800.
    const DOTS: [[u32; 4]; 2] = [[0x40, 0x04, 0x02, 0x01], [0x80, 0x20, 0x10, 0x08]];
    (0..TALL)
        .rev()
        .map(|line| {
            let letter = |column: usize| match look.letters {
                Letters::Ascii => match heights[column] {
                    height if height > line => '#',
                    _ => ' ',
                },
                Letters::Unicode => {
                    let lit = |side: usize, dot: usize| heights[column * 2 + side] > line * 4 + dot;
                    let bits = (0..8).filter(|n| lit(n / 4, n % 4)).map(|n| DOTS[n / 4][n % 4]).sum::<u32>();
                    if bits == 0 { ' ' } else { char::from_u32(0x2800 + bits).unwrap_or(' ') }
                }
            };
            (0..axis.room).map(letter).collect()
        })
        .collect()
}

/// Draws the load of the CPUs over time: all together, then each, the busiest first if they are
/// many. Empty if the terminal is too narrow or the run is empty.
#[must_use]
pub fn load(loads: &Loads, look: Look) -> String {
    let (Some(width), Some(parts)) = (look.width(), loads.cpus.first().map(Vec::len).filter(|parts| *parts > 0)) else {
        return String::new();
    };
    let count = loads.cpus.len();
    let mean: Vec<f64> =
        (0..parts).map(|part| loads.cpus.iter().map(|cpu| cpu[part]).sum::<f64>() / count as f64).collect();
    let all = loads.shares.iter().sum::<f64>() / count as f64;
    let mut shown: Vec<usize> = (0..count).collect();
    if count > ROWS {
        shown.sort_by(|a, b| loads.shares[*b].total_cmp(&loads.shares[*a]).then(a.cmp(b)));
        shown.truncate(ROWS);
    }
    let mut rows = vec![("all".to_owned(), &mean, all)];
    if count > 1 {
        rows.extend(shown.iter().map(|cpu| (format!("cpu {cpu}"), &loads.cpus[*cpu], loads.shares[*cpu])));
    }
    let what = match count {
        1 => "load of the CPU over time".to_owned(),
        _ if count > ROWS => format!("load over time, {ROWS} busiest of {count} CPUs"),
        _ => "load of the CPUs over time".to_owned(),
    };
    let wide = names_width(rows.iter().map(|(name, _, _)| &**name), width);
    let room = width.saturating_sub(wide + 2 + 8).max(10);
    let mut out = format!("{what}\n");
    for (name, values, share) in rows {
        let row = look.row(&squeeze(values, room), 1.0);
        let text = format!("{:.1}%", share * 100.0);
        writeln!(out, "{}  {}  {text:>6}", look.name(&name, wide), look.ink(Ink::Load, &row)).expect(WRITES);
    }
    let end = Human(Duration::from_nanos(loads.length)).to_string();
    let rest = room - 2;
    let axis = format!("{:wide$}  |0{:>rest$}", "", format!("{end}|"));
    writeln!(out, "{}", look.ink(Ink::Faint, &axis)).expect(WRITES);
    out
}

/// Returns as many values as there is room, each the mean of those that fall into it.
fn squeeze(values: &[f64], room: usize) -> Vec<f64> {
    let scale = values.len() as f64 / room as f64;
    (0..room)
        .map(|column| {
            let from = (column as f64 * scale) as usize;
            let to = (((column + 1) as f64 * scale) as usize).clamp(from + 1, values.len().max(from + 1));
            let part = values.get(from..to.min(values.len())).unwrap_or_default();
            part.iter().sum::<f64>() / part.len().max(1) as f64
        })
        .collect()
}

/// Draws the values of a plot as a bar each: up to the value, and a line on to the highest one over
/// the seeds. Of more than 40 values, each series is a row of bars. Empty if the terminal is too
/// narrow or there are no values.
#[must_use]
pub fn bars(plot: &Plot, look: Look) -> String {
    let Some(width) = look.width() else { return String::new() };
    let highest =
        plot.series.iter().flat_map(|one| one.points.iter().map(|p| p.1).chain(one.spread.iter().map(|s| s.1)));
    let top = highest.filter(|value| value.is_finite()).fold(0.0, f64::max);
    let count: usize = plot.series.iter().map(|series| series.points.len()).sum();
    if count == 0 {
        return String::new();
    }
    let mut out = format!("{}\n", look.name(&plot.y.label, width).trim_end());
    if count > BARS {
        let wide = names_width(plot.series.iter().map(|series| &*series.name), width);
        for series in &plot.series {
            let values: Vec<f64> = series.points.iter().map(|point| point.1).collect();
            let (least, most) =
                values.iter().fold((f64::INFINITY, 0.0_f64), |(low, high), v| (low.min(*v), high.max(*v)));
            let text = format!("{} to {}", plot.y.text(least), plot.y.text(most));
            let room = width.saturating_sub(wide + 4 + text.len()).max(10).min(values.len());
            let row = look.ink(Ink::Latency, &look.row(&squeeze(&values, room), top));
            writeln!(out, "{}  {row}  {text}", look.name(&series.name, wide)).expect(WRITES);
        }
        return out;
    }
    let rows: Vec<NamedBar> = plot
        .series
        .iter()
        .flat_map(|series| {
            series.points.iter().enumerate().map(|(index, (x, y))| {
                let name = [&*plot.x.text(*x), &*series.name].join(" ");
                NamedBar { name: name.trim().to_owned(), value: *y, spread: series.spread.get(index).copied() }
            })
        })
        .collect();
    let wide = names_width(rows.iter().map(|row| &*row.name), width);
    let text = |row: &NamedBar| match row.spread {
        Some((low, high)) if width >= 70 => {
            format!("{} ({} to {})", plot.y.text(row.value), plot.y.text(low), plot.y.text(high))
        }
        _ => plot.y.text(row.value),
    };
    let right = rows.iter().map(|row| text(row).chars().count()).max().unwrap_or_default();
    let room = width.saturating_sub(wide + right + 4).max(10);
    for row in &rows {
        let bar = bar(row.value, row.spread.map_or(row.value, |(_, high)| high), top, room, look);
        writeln!(out, "{}  {}  {}", look.name(&row.name, wide), look.ink(Ink::Latency, &bar), text(row)).expect(WRITES);
    }
    out
}

/// A bar with its name.
struct NamedBar {
    name: String,
    value: f64,
    /// The least and the highest value over the seeds.
    spread: Option<(f64, f64)>,
}

/// Returns a bar up to a value, and a line on to another, padded to the room.
fn bar(value: f64, high: f64, top: f64, room: usize, look: Look) -> String {
    let eighths = |value: f64| if top > 0.0 { (value / top * room as f64 * 8.0).round().max(0.0) as usize } else { 0 };
    let (full, line) = match look.letters {
        Letters::Unicode => ('█', '─'),
        Letters::Ascii => ('#', '-'),
    };
    let (end, far) = (eighths(value).min(room * 8), eighths(high).min(room * 8).div_ceil(8));
    let mut bar = String::from(full).repeat(end / 8);
    if look.letters == Letters::Unicode && end % 8 > 0 {
        bar.push(['▏', '▎', '▍', '▌', '▋', '▊', '▉'][end % 8 - 1]);
    }
    let length = bar.chars().count();
    bar.push_str(&String::from(line).repeat(far.saturating_sub(length)));
    format!("{bar:room$}")
}

#[cfg(test)]
mod tests {
    use super::super::{Axis, Mark, Unit};
    use super::*;

    fn look(columns: usize, letters: Letters) -> Look {
        Look { columns, letters, colours: Colours::Off }
    }

    fn samples() -> Vec<(String, Counts)> {
        let hump = |middle: f64| {
            let value = |step: i32| middle * 1.2_f64.powi(step);
            (-12..=12).map(|step: i32| (value(step), 200 - 14 * u64::from(step.unsigned_abs()))).collect()
        };
        vec![("web".to_owned(), hump(40_000.0)), ("ba\u{1b}[2Jtch-of-a-very-long-name".to_owned(), hump(3e6))]
    }

    fn loads(cpus: usize) -> Loads {
        let ramp = |cpu: usize| (0..300).map(|part| part as f64 / 300.0 / (cpu + 1) as f64).collect();
        let shares = (0..cpus).map(|cpu| 0.5 / (cpu + 1) as f64).collect();
        Loads { length: 10_000_000_000, cpus: (0..cpus).map(ramp).collect(), shares }
    }

    fn grid() -> Plot {
        let y = Axis::linear("request_latency.p99", Unit::Nanos);
        Plot::new("", Axis::categories("kernel", &["5.4", "5.15", "6.12"]), y).with_spread(
            "",
            Mark::Line,
            vec![(0.0, 4e6), (1.0, 2e6), (2.0, 9e6)],
            vec![(3e6, 5e6), (2e6, 2e6), (7e6, 1e7)],
        )
    }

    #[test]
    fn no_line_is_wider_than_the_terminal_and_every_plot_is_there() {
        for columns in [40, 60, 80, 100, 120, 400] {
            for letters in [Letters::Unicode, Letters::Ascii] {
                let look = look(columns, letters);
                for text in [latency("wakeup latency", &samples(), look), load(&loads(20), look), bars(&grid(), look)] {
                    assert!(text.lines().count() >= 4, "{text}");
                    for line in text.lines() {
                        assert!(line.chars().count() <= columns, "{columns} columns: {line:?}");
                        assert!(letters == Letters::Unicode || line.is_ascii(), "{line:?}");
                        assert!(!line.contains(char::is_control), "{line:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_terminal_that_is_too_narrow_gets_no_plot() {
        let look = look(NARROWEST - 1, Letters::Unicode);
        assert_eq!(latency("x", &samples(), look) + &load(&loads(2), look) + &bars(&grid(), look), "");
    }

    #[test]
    fn a_histogram_shows_where_the_values_are() {
        let text = latency("wakeup latency", &samples(), look(80, Letters::Ascii));
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("wakeup latency: web, 2816 values, p50 "), "{text}");
        let axis = lines.last().unwrap();
        let at = |tick: &str| axis.find(tick).unwrap_or_else(|| panic!("{tick} in {text}"));
        let peak = lines[1].find('#').unwrap();
        assert!(at("|10us") < peak && peak < at("|100us"), "{text}");
        let other = lines[7].find('@').unwrap();
        assert!(at("|1ms") < other && other < at("|10ms"), "{text}");
    }

    #[test]
    fn a_single_value_is_one_bar() {
        let text = latency("x", &[("a".to_owned(), vec![(5_000.0, 9)])], look(60, Letters::Ascii));
        assert!(text.lines().nth(1).is_some_and(|line| line.starts_with("100.0%") && line.contains('#')), "{text}");
        assert!(text.lines().nth(1).is_some_and(|line| line.matches('#').count() < 12), "{text}");
    }

    #[test]
    fn rows_of_load_are_the_busiest_and_have_their_shares() {
        let text = load(&loads(20), look(80, Letters::Unicode));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "load over time, 8 busiest of 20 CPUs");
        assert_eq!(lines.len(), 1 + 1 + 8 + 1);
        assert!(lines[2].starts_with("cpu 0   ▁") && lines[2].ends_with("█   50.0%"), "{text}");
        assert!(lines[10].trim_start().starts_with("|0") && lines[10].ends_with("10.0s|"), "{text}");
    }

    #[test]
    fn bars_end_at_their_values_and_lines_at_the_highest_seed() {
        let text = bars(&grid(), look(80, Letters::Ascii));
        let count = |line: usize, letter| text.lines().nth(line).unwrap().matches(letter).count();
        assert!(text.lines().nth(1).unwrap().starts_with("5.4 "), "{text}");
        assert_eq!(count(1, '#') / 2, count(2, '#'), "{text}");
        assert!(count(3, '-') > 0 && text.contains("9.00ms (7.00ms to 10.0ms)"), "{text}");
    }

    #[test]
    fn colours_are_the_only_control_letters() {
        let plain = load(&loads(1), look(60, Letters::Unicode));
        let coloured = load(&loads(1), Look { colours: Colours::On, ..look(60, Letters::Unicode) });
        assert!(coloured.contains("\u{1b}[32m") && coloured.contains("\u{1b}[0m"));
        let stripped =
            ["\u{1b}[32m", "\u{1b}[2m", "\u{1b}[0m"].iter().fold(coloured, |text, code| text.replace(code, ""));
        assert_eq!(stripped, plain);
    }
}

//! Draws a Markdown table of ranges as an SVG file: a group of bars per row, one bar per column.
//!
//! `bars TITLE LABEL TABLE.md OUT.svg COLUMN...`: cells are `LOW to HIGH` or one number, in
//! milliseconds; a bar ends in the middle, and its spread is the range. The axis is logarithmic.

use std::error::Error;
use zerolag_report::plot::{Axis, Mark, Plot, Unit};

fn range(cell: &str) -> Option<(f64, f64)> {
    let mut ends = cell.split(" to ").map(|end| end.trim().trim_end_matches(" %").parse::<f64>());
    let low = ends.next()?.ok()?;
    Some((low, ends.next().map_or(Some(low), Result::ok)?))
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<_> = std::env::args().skip(1).collect();
    let [title, label, table, out, columns @ ..] = args.as_slice() else {
        return Err("bars TITLE LABEL TABLE.md OUT.svg COLUMN...".into());
    };
    let text = std::fs::read_to_string(table)?;
    let cells = |line: &str| -> Vec<String> {
        line.trim_matches(['|', ' ']).split('|').map(|cell| cell.trim().to_owned()).collect()
    };
    let rows: Vec<_> = text.lines().filter(|line| line.starts_with('|') && !line.contains("--")).map(cells).collect();
    let (head, rows) = rows.split_first().ok_or("no table")?;
    let names: Vec<&str> = rows.iter().filter_map(|row| row.first()).map(String::as_str).collect();
    let mut plot = Plot::new(title, Axis::categories("", &names), Axis::log(label, Unit::Nanos));
    for column in columns {
        let index = head.iter().position(|name| name.contains(column.as_str())).ok_or("no such column")?;
        let ranges: Vec<_> = rows.iter().map(|row| row.get(index).and_then(|cell| range(cell))).collect();
        let ranges = ranges.into_iter().collect::<Option<Vec<_>>>().ok_or("a cell is no range")?;
        let nanos = |ms: f64| ms * 1e6;
        let middle = |(low, high): (f64, f64)| nanos((low * high).sqrt());
        let points = ranges.iter().enumerate().map(|(n, range)| (n as f64, middle(*range))).collect();
        let spread = ranges.iter().map(|(low, high)| (nanos(*low), nanos(*high))).collect();
        plot = plot.with_spread(column, Mark::Bars, points, spread);
    }
    std::fs::write(out, plot.to_svg())?;
    Ok(())
}

//! An icicle: the time of all waits as bars, a row for the causes, below each cause its tasks, below
//! each task its CPUs.
//!
//! Bars are as wide as their part of the whole, in percent of the drawing, so that one drawing fits
//! every column. Each bar is a drawing of its own, which cuts the text that does not fit, and which a
//! script widens by two attributes. It is SVG because the policy of a page forbids attributes of
//! style.

use crate::escape::escape;
use crate::page::INFALLIBLE;
use crate::table;
use std::fmt::Write;
use zerolag_model::Duration;
use zerolag_report::explain::{Kind, Summary, percent};
use zerolag_report::human::Human;

/// The height of the bars of each row, in pixels.
const HEIGHTS: [u32; 3] = [46, 26, 26];
/// The least part of the whole that has a bar, in thousandths: more than a thousand bars would say
/// nothing.
const LEAST: u64 = 2;

/// A bar: what it is of, from the cause to the CPU.
struct Bar {
    kind: Kind,
    path: Vec<String>,
    from: Duration,
    time: Duration,
    /// The time of the bar above.
    of: Duration,
}

/// Returns the bars, each behind the one above it.
fn bars(all: &Summary) -> Vec<Bar> {
    let is_shown = |time: Duration| time.as_nanos() >= all.total.as_nanos() / 1000 * LEAST && !time.is_zero();
    let (mut bars, mut cause_from) = (Vec::new(), Duration::ZERO);
    for cause in all.causes.iter().filter(|cause| is_shown(cause.total)) {
        let mut push = |path: &[&str], from, time, of| {
            let path = path.iter().map(|&name| name.to_owned()).collect();
            bars.push(Bar { kind: cause.kind, path, from, time, of });
        };
        push(&[&cause.says], cause_from, cause.total, all.total);
        let mut task_from = cause_from;
        for task in cause.tasks.iter().filter(|task| is_shown(task.total)) {
            push(&[&cause.says, &task.tasks], task_from, task.total, cause.total);
            let mut cpu_from = task_from;
            for (cpu, time) in task.places.iter().filter(|(_, time)| is_shown(*time)) {
                let cpu = cpu.map_or_else(|| "no CPU".to_owned(), |cpu| format!("cpu {cpu}"));
                push(&[&cause.says, &task.tasks, &cpu], cpu_from, *time, task.total);
                cpu_from += *time;
            }
            task_from += task.total;
        }
        cause_from += cause.total;
    }
    bars
}

impl Bar {
    fn write(&self, out: &mut String, whole: Duration) {
        let row = self.path.len() - 1;
        let top: u32 = HEIGHTS[..row].iter().sum();
        let place = |time: Duration| time.as_nanos() as f64 / whole.as_nanos().max(1) as f64 * 100.0;
        let (from, width) = (place(self.from), place(self.time));
        let (time, share) = (Human(self.time).to_string(), percent(self.time, whole));
        let name = &self.path[row];
        let parts: Vec<&str> = self.path.iter().rev().map(|name| &**name).collect();
        let above =
            if row == 0 { String::new() } else { format!(", {} of the bar above", percent(self.time, self.of)) };
        writeln!(
            out,
            "<svg class=\"{}\" x=\"{from:.3}%\" y=\"{top}\" width=\"{width:.3}%\" height=\"{}\" data-row=\"{row}\" \
             data-says=\"{}\n{time}, {share} of all waiting{above}\"><rect width=\"100%\" height=\"100%\"/>",
            self.kind.name(),
            HEIGHTS[row],
            escape(&parts.join(", ")),
        )
        .expect(INFALLIBLE);
        match row {
            0 => writeln!(
                out,
                "<text x=\"8\" y=\"19\">{}</text><text x=\"8\" y=\"37\">{share}, {time}</text></svg>",
                escape(name)
            ),
            _ => writeln!(out, "<text x=\"8\" y=\"17\">{} {share}</text></svg>", escape(name)),
        }
        .expect(INFALLIBLE);
    }
}

/// Draws the time of waits, with the same as a table below. Nothing if no wait takes time.
pub(crate) fn write(out: &mut String, label: &str, all: &Summary) {
    let bars = bars(all);
    if bars.is_empty() {
        return;
    }
    let height: u32 = HEIGHTS.iter().sum();
    writeln!(
        out,
        "<div class=\"icicle\"><svg width=\"100%\" height=\"{height}\" role=\"img\" aria-label=\"{}: the table below has the same\">",
        escape(label)
    )
    .expect(INFALLIBLE);
    bars.iter().for_each(|bar| bar.write(out, all.total));
    out.push_str("</svg>\n<p class=\"legend\">");
    for kind in Kind::ALL.into_iter().filter(|kind| bars.iter().any(|bar| bar.kind == *kind)) {
        let name = kind.name();
        write!(out, "<span><i class=\"w-{name}\" aria-hidden=\"true\"></i>{name}</span>").expect(INFALLIBLE);
    }
    out.push_str("</p>\n<details class=\"more\"><summary>By cause, task and CPU as a table</summary>\n");
    let head = ["cause", "task", "CPU", "time", "of all"].map(str::to_owned).to_vec();
    // The bars at the end of a path: those above are their sums.
    let ends: Vec<&Bar> = bars.iter().filter(|bar| bar.path.len() == HEIGHTS.len()).collect();
    let row = |path: &[String], time| {
        path.iter().cloned().chain([Human(time).to_string(), percent(time, all.total)]).collect::<Vec<_>>()
    };
    let mut rows: Vec<_> = [head].into_iter().chain(ends.iter().map(|bar| row(&bar.path, bar.time))).collect();
    let rest = all.total.saturating_sub(ends.iter().map(|bar| bar.time).sum());
    if !rest.is_zero() {
        rows.push(row(&["smaller parts", "", ""].map(str::to_owned), rest));
    }
    table::write(out, label, &rows);
    out.push_str("</details></div>\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerolag_model::CpuId;
    use zerolag_report::explain::{CauseShare, TaskShare};

    fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    fn cause(says: &str, kind: Kind, tasks: Vec<TaskShare>) -> CauseShare {
        let total = tasks.iter().map(|share| share.total).sum();
        let says = says.to_owned();
        CauseShare { says, kind, tasks, total, tail: ms(0), missed: ms(0), waits: 1, longest: total }
    }

    fn share(tasks: &str, places: &[(u32, u64)]) -> TaskShare {
        let places: Vec<_> = places.iter().map(|(cpu, time)| (Some(CpuId(*cpu)), ms(*time))).collect();
        TaskShare { tasks: tasks.to_owned(), total: places.iter().map(|(_, time)| *time).sum(), places }
    }

    fn summary() -> Summary {
        let throttled = cause("is throttled", Kind::Throttled, vec![share("web-*", &[(0, 600), (1, 100)])]);
        let queued = cause("is queued", Kind::Queued, vec![share("a<b", &[(2, 299)]), share("tiny", &[(0, 1)])]);
        Summary { count: 3, total: ms(1000), causes: vec![throttled, queued], ..Summary::default() }
    }

    #[test]
    fn bars_are_below_their_cause_and_as_wide_as_their_part() {
        let found = bars(&summary());
        let places: Vec<(usize, u64, u64)> = found
            .iter()
            .map(|bar| (bar.path.len(), bar.from.as_nanos() / 1_000_000, bar.time.as_nanos() / 1_000_000))
            .collect();
        // What is less than two thousandths has no bar.
        let expected =
            [(1, 0, 700), (2, 0, 700), (3, 0, 600), (3, 600, 100), (1, 700, 300), (2, 700, 299), (3, 700, 299)];
        assert_eq!(places, expected);
    }

    #[test]
    fn the_drawing_and_its_table_say_the_same() {
        let mut out = String::new();
        write(&mut out, "Waiting", &summary());
        assert!(out.contains("x=\"70.000%\" y=\"46\" width=\"29.900%\""), "{out}");
        assert!(
            out.contains(
                "data-says=\"cpu 1, web-*, is throttled\n100ms, 10.0% of all waiting, 14.2% of the bar above\""
            )
        );
        assert!(out.contains(">web-*</td><td class=\"s\">cpu 1</td><td class=\"n\">100ms</td>"), "{out}");
        assert!(out.contains("a&lt;b") && !out.contains("a<b"), "names are escaped");
        assert!(out.contains(">smaller parts</td>") && out.contains(">1.00ms</td>"), "the rest is said: {out}");
        assert!(out.contains("w-throttled") && out.contains("w-queued") && !out.contains("w-locked"));
        let mut none = String::new();
        write(&mut none, "Waiting", &Summary::default());
        assert_eq!(none, "");
    }
}

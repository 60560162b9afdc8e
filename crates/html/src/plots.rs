//! Plots of distributions, and of the load over time.

use crate::timeline::{SpanKind, Timeline};
use std::borrow::Cow;
use std::collections::BTreeMap;
use zerolag_model::{ClassId, CpuMax};
use zerolag_report::Summary;
use zerolag_report::distribution::{Counts, PER_DECADE, bars, owners, quantile, total};
use zerolag_report::figure::Stat;
use zerolag_report::frame::Bucket;
use zerolag_report::plot::{Axis, Mark, Plot, Unit};

/// A plot with its heading, and one sentence for readers that do not see it.
#[derive(Clone, Debug)]
pub struct Figure {
    /// The heading.
    pub title: String,
    /// What it shows.
    pub says: String,
    /// The plot.
    pub plot: Plot,
}

impl Figure {
    /// Returns a plot under its own title.
    #[must_use]
    pub fn of(plot: Plot) -> Self {
        let names: Vec<&str> = plot.series.iter().map(|series| &*series.name).filter(|name| !name.is_empty()).collect();
        let of = if names.is_empty() { String::new() } else { format!(": {}", names.join(", ")) };
        let what = if plot.title == plot.y.label { String::new() } else { format!("{}: ", plot.title) };
        let says = format!("{what}{} over {}{of}.", plot.y.label, plot.x.label);
        Self { title: plot.title.clone(), says, plot }
    }
}

/// The most lines of a plot of distributions.
const LINES: usize = 5;
/// How many parts a run has in plots over time.
const BINS: usize = 240;
/// Returns the distributions of the runs: of requests if there are services, else of wakeups. One
/// run has a line per task, several runs are overlaid for the task with the longest waits. Goals on
/// what is drawn are drawn too.
#[must_use]
pub fn distributions(runs: &[(&str, &[Bucket])], targets: &[Target]) -> Vec<Figure> {
    let has = |figure: &str| runs.iter().any(|(_, buckets)| buckets.iter().any(|bucket| bucket.figure == figure));
    let mut figures = Vec::new();
    for (figure, what) in [("request_latency", "Request latency"), ("wakeup_latency", "Wakeup latency")] {
        if !has(figure) || !figures.is_empty() {
            continue;
        }
        let all: Vec<(&str, BTreeMap<String, Counts>)> =
            runs.iter().map(|(name, buckets)| (*name, owners(buckets, figure))).collect();
        let Some((_, first)) = all.first() else { continue };
        let mut worst: Vec<(&String, f64)> =
            first.iter().map(|(owner, counts)| (owner, quantile(counts, 0.99))).collect();
        worst.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(b.0)));
        let (lines, of): (Vec<(String, &Counts)>, String) = if let [(_, only)] = &all[..] {
            let shown = worst.iter().take(LINES).filter_map(|(owner, _)| Some(((*owner).clone(), only.get(*owner)?)));
            (shown.collect(), String::new())
        } else {
            let Some((owner, _)) = worst.first() else { continue };
            let lines = all.iter().filter_map(|(name, owners)| Some(((*name).to_owned(), owners.get(*owner)?)));
            (lines.collect(), format!(" of {owner}"))
        };
        let more = worst.len().saturating_sub(LINES);
        let rest = match (more, all.len()) {
            (1.., 1) => format!("; {more} tasks with a smaller 99th percentile are left out"),
            _ => String::new(),
        };
        let targets: Vec<&Target> = targets.iter().filter(|target| target.figure == figure).collect();
        figures.push(tail(&format!("{what}{of}"), &Line::of(&lines), &rest, &targets));
        figures.push(histogram(&format!("{what}{of}: histogram"), &lines));
    }
    figures
}

/// Returns the distribution of a figure of one owner in each variant: all its runs together, and
/// the range over them. `None` if no run has it.
#[must_use]
pub fn over_seeds(variants: &[(&str, &[Vec<Bucket>])], figure: &str, owner: &str) -> Option<Figure> {
    let line = |(name, seeds): &(&str, &[Vec<Bucket>])| {
        let of = |buckets: &[Bucket]| owners(buckets, figure).remove(owner);
        let all = of(&seeds.concat())?;
        Some(Line {
            name: (*name).to_owned(),
            all: Cow::Owned(all),
            seeds: seeds.iter().filter_map(|one| of(one)).collect(),
        })
    };
    let lines: Vec<Line<'_>> = variants.iter().filter_map(line).collect();
    let what = if figure == "request_latency" { "Request latency" } else { "Wakeup latency" };
    (!lines.is_empty()).then(|| tail(&format!("{what} of {owner}"), &lines, "", &[]))
}

/// A line of a plot of distributions.
struct Line<'a> {
    name: String,
    /// What is drawn.
    all: Cow<'a, Counts>,
    /// The distribution of each seed, if there are several.
    seeds: Vec<Counts>,
}

impl<'a> Line<'a> {
    fn of(lines: &[(String, &'a Counts)]) -> Vec<Self> {
        let line = |(name, all): &(String, &'a Counts)| Line {
            name: name.clone(),
            all: Cow::Borrowed(*all),
            seeds: Vec::new(),
        };
        lines.iter().map(line).collect()
    }

    /// Returns the least and the largest share, over the seeds, that is longer than a time, in
    /// percent.
    fn range_at(&self, time: f64, low: f64) -> (f64, f64) {
        let longer = |counts: &Counts| {
            let from = counts.partition_point(|(value, _)| *value <= time);
            let longer: u64 = counts[from..].iter().map(|(_, count)| count).sum();
            (longer as f64 / total(counts).max(1) as f64 * 100.0).max(low)
        };
        let shares = self.seeds.iter().map(longer);
        shares.fold((f64::INFINITY, 0.0), |(least, most): (f64, f64), share| (least.min(share), most.max(share)))
    }
}

/// Returns distributions that are known as counts: the shares that are longer, and the histogram. Of more than five, those with the highest 99th percentiles are drawn.
#[must_use]
pub fn of_counts(title: &str, lines: &[(String, Counts)]) -> Vec<Figure> {
    let mut lines: Vec<&(String, Counts)> = lines.iter().filter(|(_, counts)| !counts.is_empty()).collect();
    let more = lines.len().saturating_sub(LINES);
    if more > 0 {
        lines.sort_by(|a, b| quantile(&b.1, 0.99).total_cmp(&quantile(&a.1, 0.99)).then(a.0.cmp(&b.0)));
        lines.truncate(LINES);
    }
    if lines.is_empty() {
        return Vec::new();
    }
    let rest = if more > 0 { format!("; {more} with a smaller 99th percentile are left out") } else { String::new() };
    let lines: Vec<(String, &Counts)> = lines.into_iter().map(|(name, counts)| (name.clone(), counts)).collect();
    vec![tail(title, &Line::of(&lines), &rest, &[]), histogram(&format!("{title}: histogram"), &lines)]
}

/// The percentiles that are said below a plot, in millionths.
const PERCENTILES: [u32; 4] = [500_000, 950_000, 990_000, 999_000];
/// The least share that a plot shows, in percent: one in a million.
const LEAST: f64 = 1e-4;

/// The share of samples that are longer, by ratio on both axes: so the 99.9th percentile has as much
/// room as the median. At the longest sample the line falls to the axis.
fn tail(title: &str, lines: &[Line<'_>], rest: &str, targets: &[&Target]) -> Figure {
    let most = lines.iter().map(|line| total(&line.all)).max().unwrap_or_default().max(10);
    let low = 10_f64.powf((100.0 / most as f64).log10().floor()).max(LEAST);
    let y = Axis::log("share of all that took longer", Unit::Percent).from_to(low, 100.0);
    let mut plot = Plot::new(title, Axis::log("latency", Unit::Nanos), y);
    let mut says = Vec::new();
    for line in lines {
        let (name, counts) = (&line.name, &*line.all);
        let all = total(counts).max(1);
        let mut left = all;
        let longer = counts.iter().map(|(value, count)| {
            left -= *count;
            (value.max(1.0), left as f64 / all as f64 * 100.0)
        });
        let mut points = thin(longer);
        if let (Some(first), Some(last)) = (points.first().copied(), points.last_mut()) {
            last.1 = low;
            points.insert(0, (first.0, 100.0));
        }
        let known = PERCENTILES.iter().filter(|millionths| Stat::Quantile(**millionths).needs() <= all);
        let known = known.map(|millionths| {
            let time = quantile(counts, f64::from(*millionths) / 1e6);
            format!("{} {}", Stat::Quantile(*millionths), human(time))
        });
        let longest = counts.last().map(|(value, _)| format!("at most {}", human(*value)));
        says.push(format!("{name} {}", known.chain(longest).collect::<Vec<_>>().join(", ")));
        // Before the first time all are longer, with every seed.
        let range = |(place, (time, _)): (usize, &(f64, f64))| match place {
            0 => (100.0, 100.0),
            _ => line.range_at(*time, low),
        };
        let has_range = line.seeds.len() > 1;
        let spread = points.iter().enumerate().filter(|_| has_range).map(range).collect();
        plot = plot.with_spread(name, Mark::Steps, points, spread);
    }
    for Target { says, at, longer, .. } in targets {
        plot = plot.with(says, Mark::Dashed, vec![(*at, low), (*at, longer.max(low))]);
    }
    Figure { title: title.to_owned(), says: format!("{}{rest}.", says.join("; ")), plot }
}

/// A goal on a percentile, in a plot of the samples that are longer: a line up to the share that may
/// be longer than its time, which the samples' line must pass below.
#[derive(Clone, PartialEq, Debug)]
pub struct Target {
    /// The quantity: `request_latency`.
    pub figure: &'static str,
    /// The goal.
    pub says: String,
    /// The time in nanoseconds.
    pub at: f64,
    /// The share that may be longer, in percent.
    pub longer: f64,
}

fn human(ns: f64) -> String {
    // The conversion saturates.
    zerolag_report::human::Human(zerolag_model::Duration::from_nanos(ns as u64)).to_string()
}

/// Leaves out points that a reader cannot tell from their neighbours.
fn thin(points: impl Iterator<Item = (f64, f64)>) -> Vec<(f64, f64)> {
    let mut kept: Vec<(f64, f64)> = Vec::new();
    let mut skipped = None;
    for point in points {
        let is_near = kept.last().is_some_and(|last| point.0 / last.0 < 1.005 && last.1 < point.1 * 1.02);
        if is_near {
            skipped = Some(point);
        } else {
            kept.extend(skipped.take());
            kept.push(point);
        }
    }
    kept.extend(skipped);
    kept
}

fn histogram(title: &str, lines: &[(String, &Counts)]) -> Figure {
    let y = Axis::linear("share of all, per eighth of a power of ten", Unit::Percent);
    let mut plot = Plot::new(title, Axis::log("latency", Unit::Nanos), y);
    let mut says = Vec::new();
    for (name, counts) in lines {
        let bins = bars(counts);
        let (Some(first), Some(last)) = (bins.keys().next().copied(), bins.keys().last().copied()) else { continue };
        let at = |place: i64| 10_f64.powf(place as f64 / PER_DECADE);
        // Level bins, closed by zeros on both sides.
        let mut points = vec![(at(first), 0.0)];
        points.extend((first..=last).map(|place| (at(place), bins.get(&place).copied().unwrap_or(0.0))));
        points.push((at(last + 1), 0.0));
        let most = bins.iter().max_by(|a, b| a.1.total_cmp(b.1)).map_or(first, |(place, _)| *place);
        says.push(format!("{name} most often {} to {}", human(at(most)), human(at(most + 1))));
        let mark = if lines.len() == 1 { Mark::Area } else { Mark::Steps };
        plot = plot.with(name, mark, points);
    }
    Figure { title: title.to_owned(), says: format!("{}.", says.join("; ")), plot }
}

/// A run cut into parts of equal length.
struct Bins {
    start: u64,
    width: f64,
    times: Vec<f64>,
}

impl Bins {
    fn of(timeline: &Timeline) -> Self {
        let width = (timeline.end - timeline.start).max(1) as f64 / BINS as f64;
        Self { start: timeline.start, width, times: vec![0.0; BINS] }
    }

    /// Adds a time.
    fn add(&mut self, from: u64, to: u64) {
        let (from, to) = ((from.max(self.start) - self.start) as f64, (to.max(self.start) - self.start) as f64);
        let mut bin = (from / self.width) as usize;
        let mut at = from;
        while at < to && bin < BINS {
            let end = ((bin + 1) as f64 * self.width).min(to);
            self.times[bin] += (end - at).max(0.0);
            at = end;
            bin += 1;
        }
    }

    /// Returns the points in percent of `whole` CPUs, closed at the end.
    fn points(&self, whole: f64) -> Vec<(f64, f64)> {
        let value = |time: &f64| time / self.width / whole * 100.0;
        let at = |bin: usize| self.start as f64 + bin as f64 * self.width;
        let mut points: Vec<(f64, f64)> =
            self.times.iter().enumerate().map(|(bin, time)| (at(bin), value(time))).collect();
        points.extend(self.times.last().map(|time| (at(BINS), value(time))));
        points
    }

    fn sum(&self) -> f64 {
        self.times.iter().sum()
    }
}

/// Returns the plots over time of a run: the use of the CPUs by class, and of each limited group its
/// use, its limit and its throttling.
#[must_use]
pub fn over_time(timeline: &Timeline, summary: &Summary) -> Vec<Figure> {
    let cpus = timeline.cpus.len().max(1) as f64;
    let mut all = Bins::of(timeline);
    let mut classes: Vec<(ClassId, Bins)> = Vec::new();
    let mut groups: Vec<Bins> = timeline.groups.iter().map(|_| Bins::of(timeline)).collect();
    for slice in timeline.cpus.iter().flatten() {
        all.add(slice.from, slice.to);
        let known = classes.iter().position(|(class, _)| *class == slice.class).unwrap_or_else(|| {
            classes.push((slice.class, Bins::of(timeline)));
            classes.len() - 1
        });
        classes[known].1.add(slice.from, slice.to);
        let mut group = slice.group;
        // A group is charged for those below it.
        for _ in 0..timeline.groups.len() {
            let Some(at) = group else { break };
            groups[at as usize].add(slice.from, slice.to);
            group = timeline.parents[at as usize];
        }
    }
    let axis = || Axis::linear("time", Unit::Nanos).from_to(timeline.start as f64, timeline.end.max(1) as f64);
    let share = all.sum() / (all.width * BINS as f64 * cpus) * 100.0;
    let percent = Axis::linear("of all CPUs", Unit::Percent).from_to(0.0, 100.0);
    let mut plot = Plot::new("Use of the CPUs", axis(), percent).with("all", Mark::Area, all.points(cpus));
    if classes.len() > 1 {
        for (class, bins) in &classes {
            plot = plot.with(class_name(*class), Mark::Steps, bins.points(cpus));
        }
    }
    let says = format!("The {cpus} CPUs were busy for {share:.1}% of the time.");
    let mut figures = vec![Figure { title: "Use of the CPUs".to_owned(), says, plot }];
    let mut throttled: Vec<Bins> = timeline.groups.iter().map(|_| Bins::of(timeline)).collect();
    for span in timeline.spans.iter().filter(|span| span.kind == SpanKind::Throttled) {
        if let Some(bins) = span.what.and_then(|group| throttled.get_mut(group as usize)) {
            bins.add(span.from, span.to);
        }
    }
    let limited = summary.groups.iter().filter_map(|group| Some((group, limit(group.max)?)));
    for (group, limit) in limited.take(LINES) {
        let Some(index) = timeline.groups.iter().position(|path| *path == group.path) else { continue };
        let (used, off) = (&groups[index], &throttled[index]);
        let title = format!("Budget of {}", group.path);
        let ends = [(timeline.start as f64, limit), (timeline.end as f64, limit)];
        let plot = Plot::new(&title, axis(), Axis::linear("of one CPU", Unit::Percent))
            .with("used", Mark::Area, used.points(1.0))
            .with("throttled CPUs", Mark::Steps, off.points(1.0))
            .with("limit", Mark::Dashed, ends.to_vec());
        let says = format!(
            "It used {:.1}% of one CPU, its limit is {limit:.1}%; it was throttled in {} of {} periods.",
            used.sum() / (used.width * BINS as f64) * 100.0,
            group.stat.nr_throttled,
            group.stat.nr_periods
        );
        figures.push(Figure { title, says, plot });
    }
    figures
}

/// Returns a limit in percent of one CPU.
fn limit(max: CpuMax) -> Option<f64> {
    let quota = max.quota?;
    Some(quota.as_nanos() as f64 / max.period.as_nanos().max(1) as f64 * 100.0)
}

const fn class_name(class: ClassId) -> &'static str {
    match class {
        ClassId::Stop => "stop",
        ClassId::Deadline => "deadline",
        ClassId::Rt => "real-time",
        ClassId::Fair => "fair",
        ClassId::Ext => "ext",
        ClassId::Idle => "idle",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerolag_model::Duration;

    fn bucket(owner: &str, us: u64, count: u64) -> Bucket {
        let at = Duration::from_micros(us);
        Bucket { figure: "wakeup_latency", owner: owner.into(), task: None, from: at, to: at, count }
    }

    #[test]
    fn instances_are_one_line_and_shares_reach_all() {
        let buckets = [bucket("w-0", 10, 3), bucket("w-1", 20, 1), bucket("x", 5, 1)];
        let figures = distributions(&[("", &buckets)], &[]);
        assert_eq!(figures.len(), 2);
        let names: Vec<&str> = figures[0].plot.series.iter().map(|series| &*series.name).collect();
        assert_eq!(names, ["w", "x"], "the worst first");
        assert_eq!(figures[0].plot.series[0].points, [(10_000.0, 100.0), (10_000.0, 25.0), (20_000.0, 10.0)]);
        let sum: f64 = figures[1].plot.series[0].points.iter().map(|(_, share)| share).sum();
        assert!((sum - 100.0).abs() < 1e-9);
        assert!(figures[0].says.contains("w at most 20.0us"), "{}", figures[0].says);
    }

    #[test]
    fn goals_are_corners_of_the_tail() {
        let buckets = [bucket("w-0", 10, 995), bucket("w-0", 90, 5)];
        let goal = Target { figure: "wakeup_latency", says: "p99 <= 50us".to_owned(), at: 50_000.0, longer: 1.0 };
        let other = Target { figure: "request_latency", ..goal.clone() };
        let figures = distributions(&[("", &buckets)], &[other, goal]);
        let series = &figures[0].plot.series;
        assert_eq!(series[0].points, [(10_000.0, 100.0), (10_000.0, 0.5), (90_000.0, 0.1)]);
        assert_eq!((series.len(), &*series[1].name), (2, "p99 <= 50us"));
        assert_eq!(series[1].points, [(50_000.0, 0.1), (50_000.0, 1.0)]);
        assert_eq!(figures[0].says, "w p50 10.0us, p95 10.0us, p99 10.0us, p99.9 90.0us, at most 90.0us.");
    }

    #[test]
    fn variants_have_the_range_over_their_seeds() {
        let seeds =
            [vec![bucket("w-0", 10, 3), bucket("w-1", 20, 1)], vec![bucket("w-0", 10, 1), bucket("w-0", 20, 3)]];
        let one = [vec![bucket("x", 5, 1)]];
        let figure = over_seeds(&[("5.15", &seeds), ("6.12", &one)], "wakeup_latency", "w").expect("a plot");
        assert_eq!((&*figure.title, figure.plot.series.len()), ("Wakeup latency of w", 1), "6.12 has no such task");
        let series = &figure.plot.series[0];
        assert_eq!(series.points, [(10_000.0, 100.0), (10_000.0, 50.0), (20_000.0, 10.0)]);
        assert_eq!(series.spread, [(100.0, 100.0), (25.0, 75.0), (10.0, 10.0)]);
        assert!(over_seeds(&[("6.12", &one)], "wakeup_latency", "w").is_none());
    }

    #[test]
    fn of_many_counts_the_worst_are_drawn() {
        let counts = |us: f64| vec![(us * 1e3, 4)];
        let lines: Vec<(String, Counts)> = (1..8).map(|n| (format!("t{n}"), counts(f64::from(n)))).collect();
        let figures = of_counts("Latency", &lines);
        let names: Vec<&str> = figures[0].plot.series.iter().map(|series| &*series.name).collect();
        assert_eq!(names, ["t7", "t6", "t5", "t4", "t3"]);
        assert!(figures[0].says.ends_with("; 2 with a smaller 99th percentile are left out."), "{}", figures[0].says);
        assert!(of_counts("Latency", &[("none".to_owned(), Vec::new())]).is_empty());
    }

    #[test]
    fn runs_are_overlaid() {
        let (before, after) = ([bucket("w-0", 10, 3)], [bucket("w-0", 90, 3)]);
        let figures = distributions(&[("6.1", &before), ("6.12", &after)], &[]);
        let names: Vec<&str> = figures[0].plot.series.iter().map(|series| &*series.name).collect();
        assert_eq!((names, &*figures[0].title), (vec!["6.1", "6.12"], "Wakeup latency of w"));
    }

    #[test]
    fn times_are_cut_into_bins_without_loss() {
        let mut bins = Bins { start: 100, width: 10.0, times: vec![0.0; BINS] };
        bins.add(95, 125);
        assert_eq!(bins.times[..4], [10.0, 10.0, 5.0, 0.0]);
        bins.add(u64::MAX - 5, u64::MAX);
        assert!((bins.sum() - 25.0).abs() < 1e-9, "what is behind the end is not counted");
    }
}

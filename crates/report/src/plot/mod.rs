//! Plots as SVG: lines, points, steps and bars, with linear and logarithmic axes; and plots of
//! letters ([`terminal`]).
//!
//! Handwritten, because a plotting library brings fonts and code to find them; the viewer's own
//! sans-serif font is enough here. Equal input gives equal bytes: coordinates are rounded to a
//! tenth of a pixel. A plot in a file and the same plot in an HTML report are one drawing: every
//! shape has its colours as attributes, for viewers without style sheets, and a class, through
//! which a style sheet replaces them (`STYLE` in files, the page's own in pages).
//!
//! * A line's name stands at its end, so that no legend has to be searched. Names that would
//!   overlap move apart; a dotted line leads to a name that is not beside its line's end.
//! * In narrow columns, and where a name is too long for the margin, names stand above the plot
//!   instead: there they can be whole.
//! * A horizontal axis of numbers begins and ends with the data.
//! * Colours are those of Okabe and Ito, which colour-blind readers can tell apart; series also
//!   differ by marker, and published values are dashed.
//! * Of lines that coincide, the one drawn first is wider, so that it shows on both sides.
//! * The range of a value over seeds is a band around a line or steps, and a whisker on bars and
//!   points.
//!
//! Values that cannot be drawn are left out: values that are not finite, and values at or below
//! zero on a logarithmic axis.

mod scale;
mod svg;
pub mod terminal;

use scale::Scaled;
use serde_json::{Value, json};
use svg::{Anchor, Svg};

pub use scale::{Axis, Range, Scale, Unit};

/// A plot.
#[derive(Clone, Debug)]
pub struct Plot {
    /// The title.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The series, in drawing order.
    pub series: Vec<Series>,
}

/// Values that belong together.
#[derive(Clone, Debug)]
pub struct Series {
    /// Its name.
    pub name: String,
    /// How it is drawn.
    pub mark: Mark,
    /// Its values: x and y. Where x has categories, x is the index of one.
    pub points: Vec<(f64, f64)>,
    /// The lowest and the highest value at each point, over the seeds; empty if there is one seed.
    pub spread: Vec<(f64, f64)>,
}

/// How a series is drawn.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Mark {
    /// A line through the points, with markers: our values.
    Line,
    /// A dashed line with hollow markers: published values.
    Dashed,
    /// Markers only.
    Points,
    /// Level until the next point: distributions.
    Steps,
    /// A filled surface between the axis and the level of each point until the next.
    Area,
    /// Bars from the bottom; several series stand side by side.
    Bars,
}

impl Mark {
    const fn name(self) -> &'static str {
        match self {
            Self::Line => "line",
            Self::Dashed => "dashed",
            Self::Points => "points",
            Self::Steps => "steps",
            Self::Area => "area",
            Self::Bars => "bars",
        }
    }
}

impl Plot {
    /// Creates a plot.
    #[must_use]
    pub fn new(title: &str, x: Axis, y: Axis) -> Self {
        Self { title: title.to_owned(), x, y, series: Vec::new() }
    }

    /// Adds a series.
    #[must_use]
    pub fn with(self, name: &str, mark: Mark, points: Vec<(f64, f64)>) -> Self {
        self.with_spread(name, mark, points, Vec::new())
    }

    /// Adds a series with the lowest and the highest value at each point.
    #[must_use]
    pub fn with_spread(mut self, name: &str, mark: Mark, points: Vec<(f64, f64)>, mut spread: Vec<(f64, f64)>) -> Self {
        if spread.len() != points.len() || spread.iter().all(|(low, high)| low == high) {
            spread.clear();
        }
        self.series.push(Series { name: name.to_owned(), mark, points, spread });
        self
    }

    /// Draws the plot as a file, 760 x 420 pixels. Complexity: O(points).
    #[must_use]
    pub fn to_svg(&self) -> String {
        let frame = PlotLayout::of(self, TITLE, Room::File);
        let mut svg = Svg::file(frame.size.0, frame.size.1, STYLE);
        svg.text((LEFT_OF_TEXT, 24.0), Anchor::Start, 15.0, "t", &self.title);
        self.draw(&mut svg, TITLE, &frame);
        svg.finish()
    }

    /// Draws the plot for an HTML page, which has its own style sheet and heading: without the
    /// title, with `description` as its text for readers that do not see it. A page shows
    /// [`Room::Wide`] or [`Room::Narrow`], by the width that it has.
    #[must_use]
    pub fn to_inline_svg(&self, room: Room, description: &str) -> String {
        let frame = PlotLayout::of(self, 0.0, room);
        let mut svg = Svg::inline(frame.size.0, frame.size.1, room.class(), description);
        self.draw(&mut svg, 0.0, &frame);
        svg.finish()
    }

    /// Returns the values, and the places of the axes in both drawings of
    /// [`to_inline_svg`](Self::to_inline_svg), so that a page can show the values under a pointer.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let (frame, narrow) = (PlotLayout::of(self, 0.0, Room::Wide), PlotLayout::of(self, 0.0, Room::Narrow));
        let axis = |axis: &Axis, scaled: &Scaled, wide: [f64; 2], narrow: [f64; 2]| {
            let (low, high) = scaled.bounds();
            json!({ "label": axis.label, "unit": axis.unit.name(), "log": axis.scale == Scale::Log, "low": low,
                "high": high, "wide": wide, "narrow": narrow, "names": axis.names() })
        };
        let series: Vec<Value> = self
            .series
            .iter()
            .map(|one| {
                let (x, y): (Vec<f64>, Vec<f64>) = one.points.iter().copied().unzip();
                json!({ "name": one.name, "mark": one.mark.name(), "x": x, "y": y, "spread": one.spread })
            })
            .collect();
        let (across, up) = (|of: &PlotLayout| [of.left, of.right], |of: &PlotLayout| [of.bottom, of.top]);
        json!({ "x": axis(&self.x, &frame.x, across(&frame), across(&narrow)),
            "y": axis(&self.y, &frame.y, up(&frame), up(&narrow)), "series": series })
    }

    fn draw(&self, svg: &mut Svg, top: f64, frame: &PlotLayout) {
        svg.text((LEFT_OF_TEXT, top + 16.0), Anchor::Start, 12.0, "q", &self.y.label);
        frame.draw_axes(svg, self);
        svg.group("data", |svg| self.draw_series(svg, frame));
        frame.draw_keys(svg, self);
        if self.series.len() > 1 {
            let end_of = |(index, series): (usize, &Series)| {
                let last = series.points.iter().rev().find_map(|point| frame.at(*point));
                last.filter(|_| series.mark != Mark::Bars).map(|end| (end, index))
            };
            let mut names: Vec<_> = self.series.iter().enumerate().filter_map(end_of).collect();
            let is_free = |index: usize| frame.keys.iter().all(|key| key.series != index);
            names.retain(|(_, index)| is_free(*index) && !self.series[*index].name.is_empty());
            frame.draw_names(svg, self, names);
        }
    }

    fn draw_series(&self, svg: &mut Svg, frame: &PlotLayout) {
        let bars = self.series.iter().filter(|series| series.mark == Mark::Bars).count();
        let mut bar = 0;
        for (index, series) in self.series.iter().enumerate().filter(|(_, series)| series.mark == Mark::Area) {
            frame.draw_area(svg, series, index);
        }
        for (index, series) in self.series.iter().enumerate() {
            if series.mark == Mark::Bars {
                frame.draw_bars(svg, series, index, (bar, bars));
                bar += 1;
                continue;
            }
            let above = self.series[index + 1..].iter().filter(|other| frame.coincide(series, other)).count();
            // Between the names of bars there is nothing that a line could show.
            let between = if bars > 0 && self.x.has_categories() { Between::Nothing } else { Between::Lines };
            frame.draw_line(svg, series, index, above, between);
        }
    }
}

/// The room that a drawing has.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Room {
    /// A file of its own: 760 x 420 pixels.
    File,
    /// A column of a page.
    Wide,
    /// A phone, or one of two pages side by side.
    Narrow,
}

impl Room {
    const fn size(self) -> (f64, f64) {
        match self {
            Self::File => (760.0, 420.0),
            Self::Wide => (580.0, 330.0),
            Self::Narrow => (360.0, 260.0),
        }
    }

    /// Returns the class by which a style sheet shows it or the other.
    const fn class(self) -> &'static str {
        match self {
            Self::Narrow => "plot narrow",
            Self::File | Self::Wide => "plot",
        }
    }
}

/// A name above the plot, next to a sample of its series.
struct SeriesName {
    series: usize,
    name: String,
    at: (f64, f64),
}

/// What is drawn between the points of a dashed series.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Between {
    Lines,
    Nothing,
}

/// The positions of the parts on the page.
struct PlotLayout {
    size: (f64, f64),
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    x: Scaled,
    y: Scaled,
    keys: Vec<SeriesName>,
    /// The rows of the horizontal axis's labels.
    label_rows: usize,
}

impl PlotLayout {
    fn of(plot: &Plot, top: f64, room: Room) -> Self {
        let (width, height) = room.size();
        let has_bars = plot.series.iter().any(|series| matches!(series.mark, Mark::Bars | Mark::Area));
        let is_barred = plot.series.iter().any(|series| series.mark == Mark::Bars);
        let x = Scaled::of(
            &plot.x,
            plot.series.iter().flat_map(|one| &one.points).map(|point| point.0),
            // A bar reaches beyond its value.
            if is_barred { scale::Zero::AsItComes } else { scale::Zero::Tight },
        );
        let zero = if has_bars { scale::Zero::Included } else { scale::Zero::IfNear };
        let ends = |one: &Series| one.spread.iter().flat_map(|(low, high)| [*low, *high]).collect::<Vec<f64>>();
        let values = plot.series.iter().flat_map(|one| one.points.iter().map(|point| point.1).chain(ends(one)));
        let y = Scaled::of(&plot.y, values, zero);
        let is_long = |one: &Series| one.mark != Mark::Bars && one.name.chars().count() > NAME_MAX;
        let all_above = room == Room::Narrow || plot.series.iter().any(is_long);
        let (above, at_ends): (Vec<_>, Vec<_>) = (0..plot.series.len())
            .filter(|index| plot.series.len() > 1 && !plot.series[*index].name.is_empty())
            .partition(|index| all_above || plot.series[*index].mark == Mark::Bars);
        let names = at_ends.iter().map(|index| text_width(&plot.series[*index].name)).fold(0.0, f64::max);
        let (keys, rows) = place_keys(plot, &above, width, top);
        let left = 16.0 + y.ticks().map(|(_, label)| text_width(label)).fold(36.0, f64::max);
        // The drawing grows by the rows of names behind the first.
        let height = height + KEY_ROW * (rows.max(1) - 1) as f64;
        let top = top + if rows == 0 { 32.0 } else { 34.0 + KEY_ROW * rows as f64 };
        let right = width - 24.0 - names;
        let fits = |rows| place_labels(&x, (left, right), rows).len() == x.ticks().count();
        let label_rows = if plot.x.has_categories() && !fits(1) { 2 } else { 1 };
        let below = KEY_ROW * (label_rows - 1) as f64;
        let (size, bottom) = ((width, height + below), height - 46.0);
        Self { size, left, right, top, bottom, x, y, keys, label_rows }
    }

    fn at(&self, (x, y): (f64, f64)) -> Option<(f64, f64)> {
        let (x, y) = (self.x.place(x)?, self.y.place(y)?);
        Some((self.left + x * (self.right - self.left), self.bottom - y * (self.bottom - self.top)))
    }

    /// Returns whether a line lies below another one, in most of its points. The distance that
    /// counts is that of the drawing: on a logarithmic axis values that differ can look the same.
    fn coincide(&self, one: &Series, other: &Series) -> bool {
        if !matches!(one.mark, Mark::Line | Mark::Steps | Mark::Dashed) {
            return false;
        }
        let others: Vec<(f64, f64)> = other.points.iter().filter_map(|point| self.at(*point)).collect();
        let is_covered = |(x, y): (f64, f64)| {
            // Points are in order of their place.
            let first = others.partition_point(|other| other.0 < x - 0.5);
            others[first..].iter().take_while(|other| other.0 <= x + 0.5).any(|other| (other.1 - y).abs() <= 1.5)
        };
        // Levels at the edges are common: zeros of histograms, the ends of distributions.
        let is_inside = |(_, y): &(f64, f64)| *y < self.bottom - 1.0 && *y > self.top + 1.0;
        let placed: Vec<(f64, f64)> = one.points.iter().filter_map(|point| self.at(*point)).collect();
        let inside: Vec<(f64, f64)> = placed.iter().filter(|point| is_inside(point)).copied().collect();
        let looked_at = if inside.is_empty() { placed } else { inside };
        looked_at.iter().filter(|point| is_covered(**point)).count() * 2 > looked_at.len()
    }

    fn draw_axes(&self, svg: &mut Svg, plot: &Plot) {
        for (place, label) in self.y.ticks() {
            let y = self.bottom - place * (self.bottom - self.top);
            svg.line((self.left, y), (self.right, y), "g");
            svg.text((self.left - 8.0, y + 4.0), Anchor::End, 12.0, "q", label);
        }
        svg.group("ticks", |svg| self.draw_ticks(svg, plot));
        svg.line((self.left, self.bottom), (self.right, self.bottom), "a");
        let below = 37.0 + KEY_ROW * (self.label_rows - 1) as f64;
        svg.text((self.right, self.bottom + below), Anchor::End, 12.0, "q", &plot.x.label);
        if plot.series.iter().all(|series| series.points.iter().all(|point| self.at(*point).is_none())) {
            let middle = ((self.left + self.right) / 2.0, (self.top + self.bottom) / 2.0);
            svg.text(middle, Anchor::Middle, 13.0, "q", "no data");
        }
    }

    /// Draws the ticks of the horizontal axis.
    fn draw_ticks(&self, svg: &mut Svg, plot: &Plot) {
        if !plot.x.has_categories() {
            for (place, _) in self.x.ticks() {
                let x = self.left + place * (self.right - self.left);
                svg.line((x, self.bottom), (x, self.bottom + 4.0), "a");
            }
        }
        for (x, row, label) in place_labels(&self.x, (self.left, self.right), self.label_rows) {
            svg.text((x, self.bottom + 18.0 + KEY_ROW * row as f64), Anchor::Middle, 12.0, "q", label);
        }
    }

    fn draw_area(&self, svg: &mut Svg, series: &Series, index: usize) {
        let points: Vec<(f64, f64)> = series.points.iter().filter_map(|point| self.at(*point)).collect();
        let (Some(first), Some(last)) = (points.first(), points.last()) else { return };
        let mut outline = vec![(first.0, self.bottom)];
        outline.extend(corners(&points));
        outline.push((last.0, self.bottom));
        svg.polygon(&outline, index, svg::Paint::Tint);
    }

    fn draw_line(&self, svg: &mut Svg, series: &Series, index: usize, above: usize, between: Between) {
        let points: Vec<(f64, f64)> = series.points.iter().filter_map(|point| self.at(*point)).collect();
        let spread = series.points.iter().zip(&series.spread);
        let spread: Vec<((f64, f64), (f64, f64))> =
            spread.filter_map(|((x, _), (low, high))| Some((self.at((*x, *low))?, self.at((*x, *high))?))).collect();
        if matches!(series.mark, Mark::Line | Mark::Dashed | Mark::Steps) && spread.len() > 1 {
            let edge = |edge: Vec<(f64, f64)>| if series.mark == Mark::Steps { corners(&edge) } else { edge };
            let lower = edge(spread.iter().map(|(low, _)| *low).collect());
            let upper = edge(spread.iter().map(|(_, high)| *high).collect());
            svg.polygon(&lower.into_iter().chain(upper.into_iter().rev()).collect::<Vec<_>>(), index, svg::Paint::Tint);
        } else {
            spread.iter().for_each(|(low, high)| svg.whisker(*low, *high, index));
        }
        let width = 2.0 + 3.0 * above as f64;
        match series.mark {
            Mark::Line => svg.path(&points, index, svg::Stroke::Solid, width),
            Mark::Dashed if between == Between::Lines => svg.path(&points, index, svg::Stroke::Dashed, width),
            Mark::Steps | Mark::Area => svg.path(&corners(&points), index, svg::Stroke::Solid, width),
            Mark::Dashed | Mark::Points | Mark::Bars => {}
        }
        let fill = if series.mark == Mark::Dashed { svg::Fill::Hollow } else { svg::Fill::Full };
        // The markers of a dense series would merge into blots.
        let is_stepped = matches!(series.mark, Mark::Steps | Mark::Area);
        let draws_markers = series.mark == Mark::Points || (!is_stepped && points.len() <= MARKERS_MAX);
        for point in points.iter().filter(|_| draws_markers) {
            svg.marker(*point, index, fill);
        }
    }

    fn draw_bars(&self, svg: &mut Svg, series: &Series, index: usize, (bar, bars): (usize, usize)) {
        let slots = self.x.slots() as f64;
        let slot = (self.right - self.left) / slots;
        let width = slot * 0.8 / bars.max(1) as f64;
        for (place, point) in series.points.iter().enumerate() {
            let Some((x, y)) = self.at(*point) else { continue };
            let left = x - slot * 0.4 + width * bar as f64;
            svg.rectangle((left, y), ((width - 1.0).max(0.5), self.bottom - y), index);
            let ends = series
                .spread
                .get(place)
                .and_then(|(low, high)| Some((self.at((point.0, *low))?.1, self.at((point.0, *high))?.1)));
            if let Some((low, high)) = ends {
                svg.whisker((left + width / 2.0, low), (left + width / 2.0, high), INK_SERIES);
            }
        }
    }

    /// Writes the names above the plot, each behind a sample of its series.
    fn draw_keys(&self, svg: &mut Svg, plot: &Plot) {
        for SeriesName { series: index, name, at: (x, y) } in &self.keys {
            let mark = plot.series[*index].mark;
            let (from, to, middle) = ((*x, y - 4.0), (x + 14.0, y - 4.0), (x + 7.0, y - 4.0));
            match mark {
                Mark::Bars => svg.rectangle((*x, y - 9.0), (10.0, 10.0), *index),
                Mark::Dashed => svg.path(&[from, to], *index, svg::Stroke::Dashed, 2.0),
                Mark::Line | Mark::Steps | Mark::Area => svg.path(&[from, to], *index, svg::Stroke::Solid, 2.0),
                Mark::Points => {}
            }
            match mark {
                Mark::Dashed => svg.marker(middle, *index, svg::Fill::Hollow),
                Mark::Line | Mark::Points => svg.marker(middle, *index, svg::Fill::Full),
                Mark::Bars | Mark::Steps | Mark::Area => {}
            }
            svg.text((x + KEY_SAMPLE, *y), Anchor::Start, 12.0, "n", name);
        }
    }

    /// Names lines at their ends.
    fn draw_names(&self, svg: &mut Svg, plot: &Plot, mut ends: Vec<((f64, f64), usize)>) {
        ends.sort_by(|a, b| a.0.1.total_cmp(&b.0.1).then(a.1.cmp(&b.1)));
        let mut free_from = self.top - LINE;
        let mut places: Vec<f64> = ends
            .iter()
            .map(|((_, y), _)| {
                free_from = y.max(free_from + LINE);
                free_from
            })
            .collect();
        // Those that were pushed below the axis move up again.
        let mut free_to = self.bottom + LINE;
        for place in places.iter_mut().rev() {
            *place = place.min(free_to - LINE);
            free_to = *place;
        }
        for (((end_x, end_y), index), y) in ends.iter().zip(places) {
            if self.right - end_x > 12.0 || (y - end_y).abs() > 5.0 {
                svg.leader((end_x + 5.0, *end_y), (self.right + 6.0, y), *index);
            }
            svg.name((self.right + 8.0, y + 4.0), *index, &plot.series[*index].name);
        }
    }
}

/// Returns the labels of the horizontal axis, each with its middle and its row: the first that is
/// free there. A label that would touch another one in each row is left out; its tick stays.
fn place_labels(x: &Scaled, (left, right): (f64, f64), rows: usize) -> Vec<(f64, usize, &str)> {
    let mut free_from = vec![f64::NEG_INFINITY; rows];
    let mut placed = Vec::new();
    for (place, label) in x.ticks() {
        let (middle, half) = (left + place * (right - left), text_width(label) / 2.0);
        let Some(row) = free_from.iter().position(|free| middle - half > *free) else { continue };
        free_from[row] = middle + half + 6.0;
        placed.push((middle, row, label));
    }
    placed
}

/// Returns the places of names above a plot, and how many rows they fill.
fn place_keys(plot: &Plot, above: &[usize], width: f64, top: f64) -> (Vec<SeriesName>, usize) {
    let (mut keys, mut x, mut row) = (Vec::new(), LEFT_OF_TEXT, 0);
    for index in above.iter().copied() {
        let longest = ((width - LEFT_OF_TEXT - KEY_SAMPLE) / LETTER) as usize;
        let name = shorten(&plot.series[index].name, longest);
        let wide = KEY_SAMPLE + text_width(&name);
        if x > LEFT_OF_TEXT && x + wide > width {
            (x, row) = (LEFT_OF_TEXT, row + 1);
        }
        keys.push(SeriesName { series: index, name, at: (x, top + 38.0 + KEY_ROW * row as f64) });
        x += wide + 16.0;
    }
    let rows = if keys.is_empty() { 0 } else { row + 1 };
    (keys, rows)
}

/// Returns the corners of a line that is level until each next point.
fn corners(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let inner = points.windows(2).flat_map(|pair| [pair[0], (pair[1].0, pair[0].1)]);
    inner.chain(points.last().copied()).collect()
}

/// Returns a name of at most so many letters.
fn shorten(name: &str, letters: usize) -> String {
    if name.chars().count() <= letters {
        return name.to_owned();
    }
    name.chars().take(letters - 1).chain(['…']).collect()
}

/// Returns about how wide a text of 12 pixels is; fonts differ.
fn text_width(text: &str) -> f64 {
    text.chars().count() as f64 * LETTER
}

/// The room that a title takes.
const TITLE: f64 = 30.0;
const LEFT_OF_TEXT: f64 = 12.0;
const LINE: f64 = 15.0;
/// The width of a letter, with some to spare.
const LETTER: f64 = 6.8;
/// The distance of names above each other.
const KEY_ROW: f64 = 18.0;
/// The width of the sample before a name.
const KEY_SAMPLE: f64 = 19.0;
/// The most letters of a name at the end of its line.
const NAME_MAX: usize = 26;
const MARKERS_MAX: usize = 64;
/// The colour of texts, as that of a series.
const INK_SERIES: usize = usize::MAX;

/// The style sheet of a plot in a file: colours for viewers in dark mode.
const STYLE: &str = "@media (prefers-color-scheme:dark){.b{fill:#16181d}.t,.n,.m{fill:#e8e8e8}.q{fill:#a9b0bb}\
.g{stroke:#2e333b}.a{stroke:#7d8590}.k9{fill:#e8e8e8}.k9s{stroke:#e8e8e8}.k0{fill:#56a5e8}.k0s{stroke:#56a5e8}\
.k6{fill:#c9ccd1}.k6s{stroke:#c9ccd1}.h{fill:#16181d}}";

#[cfg(test)]
mod tests {
    use super::*;

    fn latency() -> Plot {
        let cpus = [4.0, 16.0, 80.0, 120.0, 512.0, 4096.0];
        let points = |factor: f64| cpus.iter().map(|n| (*n, n * factor * 1000.0)).collect();
        Plot::new("worst latency", Axis::log("CPUs", Unit::Number), Axis::log("worst wakeup latency", Unit::Nanos))
            .with("pull_locked", Mark::Line, points(2.5))
            .with("ipi_root_domain", Mark::Line, cpus.iter().map(|n| (*n, 12_000.0)).collect())
            .with("published <2017>", Mark::Dashed, points(2.0))
    }

    #[test]
    fn equal_plots_are_equal_bytes_and_everything_is_named() {
        let svg = latency().to_svg();
        assert_eq!(svg, latency().to_svg());
        for text in [
            "worst latency",
            "CPUs",
            "worst wakeup latency",
            "pull_locked",
            "10us",
            "1ms",
            ">1000<",
            "published &lt;2017&gt;",
        ] {
            assert!(svg.contains(text), "{text}");
        }
        assert!(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"760\" height=\"420\""));
        assert!(svg.ends_with("</svg>\n"));
    }

    #[test]
    fn what_cannot_be_drawn_is_left_out() {
        let odd = vec![(1.0, f64::NAN), (f64::INFINITY, 1.0), (-1.0, 5.0), (0.0, 0.0)];
        let plot = Plot::new("", Axis::log("", Unit::Number), Axis::log("", Unit::Number)).with("", Mark::Line, odd);
        let svg = plot.to_svg();
        assert!(svg.contains("no data") && !svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        let empty = Plot::new("", Axis::categories("", &[]), Axis::linear("", Unit::Percent)).to_svg();
        assert!(empty.contains("no data"));
        let one = Plot::new("", Axis::linear("", Unit::Number), Axis::linear("", Unit::Number)).with(
            "",
            Mark::Bars,
            vec![(5.0, 5.0)],
        );
        assert!(!one.to_svg().contains("NaN"));
    }

    /// Returns the baselines of the names of lines.
    fn baselines(svg: &str) -> Vec<f64> {
        let names = svg.lines().filter(|line| line.contains("class=\"k") && line.starts_with("<text"));
        names.filter_map(|line| line.split("y=\"").nth(1)?.split('"').next()?.parse().ok()).collect()
    }

    #[test]
    fn names_of_lines_stand_at_their_ends_and_apart() {
        let flat = |y: f64| vec![(0.0, y), (1.0, y)];
        let mut plot = Plot::new("", Axis::linear("", Unit::Number), Axis::linear("", Unit::Number));
        for name in ["a", "b", "c", "d"] {
            plot = plot.with(name, Mark::Line, flat(1.0));
        }
        let found = baselines(&plot.to_svg());
        assert_eq!(found.len(), 4);
        let mut sorted = found;
        sorted.sort_by(f64::total_cmp);
        assert!(sorted.windows(2).all(|pair| pair[1] - pair[0] >= LINE - 0.11), "{sorted:?}");
    }

    #[test]
    fn lines_that_coincide_are_all_visible() {
        let line = |factor: f64| (1..5).map(|n| (f64::from(n), f64::from(n) * factor)).collect::<Vec<_>>();
        let plot = |other: f64| {
            let plot = Plot::new("", Axis::linear("", Unit::Number), Axis::linear("", Unit::Number));
            plot.with("under", Mark::Line, line(1.0)).with("over", Mark::Line, line(other)).to_svg()
        };
        assert!(plot(1.0).contains("stroke-width=\"5\"") && plot(1.0).contains("stroke-width=\"2\""));
        assert!(!plot(2.0).contains("stroke-width=\"5\""));
        let shorter = Plot::new("", Axis::linear("", Unit::Number), Axis::linear("", Unit::Number))
            .with("under", Mark::Line, line(1.0)[..3].to_vec())
            .with("over", Mark::Line, line(1.001));
        assert!(shorter.to_svg().contains("stroke-width=\"5\""), "a line that ends earlier");
        let bins = |peak: f64| vec![(1.0, 0.0), (2.0, peak), (3.0, 0.0), (4.0, 0.0), (5.0, 0.0)];
        let histograms = Plot::new("", Axis::linear("", Unit::Number), Axis::linear("", Unit::Number))
            .with("low", Mark::Steps, bins(3.0))
            .with("high", Mark::Steps, bins(7.0));
        assert!(!histograms.to_svg().contains("stroke-width=\"5\""), "zeros that they have in common");
    }

    #[test]
    fn the_spread_over_seeds_is_drawn_and_fits_the_axis() {
        let axes = || (Axis::categories("", &["a", "b"]), Axis::linear("", Unit::Number));
        let (x, y) = axes();
        let points = vec![(0.0, 10.0), (1.0, 11.0)];
        let bars =
            Plot::new("", x, y).with_spread("", Mark::Bars, points.clone(), vec![(8.0, 30.0), (11.0, 11.0)]).to_svg();
        assert!(bars.contains("class=\"w ") && bars.contains(">30<"), "{bars}");
        let (x, y) = axes();
        let without =
            Plot::new("", x, y).with_spread("", Mark::Bars, points, vec![(10.0, 10.0), (11.0, 11.0)]).to_svg();
        assert!(!without.contains("class=\"w "), "one seed has no spread");
        let steps = Plot::new("", Axis::linear("", Unit::Number), Axis::linear("", Unit::Number)).with_spread(
            "",
            Mark::Steps,
            vec![(0.0, 9.0), (1.0, 5.0)],
            vec![(8.0, 9.0), (4.0, 7.0)],
        );
        let band =
            steps.to_svg().lines().find(|line| line.starts_with("<polygon")).map(|line| line.matches(',').count());
        assert_eq!(band, Some(6), "two levels and the step between, on both sides");
    }

    #[test]
    fn the_values_of_a_page_are_those_of_the_drawing() {
        let values = latency().to_json();
        assert_eq!(values["series"][0]["y"][0], 10_000.0);
        assert_eq!((&values["x"]["log"], &values["y"]["unit"]), (&json!(true), &json!("ns")));
        let (from, to) = (values["x"]["wide"][0].as_f64().unwrap(), values["x"]["wide"][1].as_f64().unwrap());
        assert!(from > 0.0 && to > from && to < 580.0);
        assert!(latency().to_inline_svg(Room::Wide, "<x>").contains("aria-label=\"&lt;x&gt;\""));
    }

    #[test]
    fn names_stand_above_whole_where_there_is_no_room_at_the_ends() {
        let long = "a service with a name of forty letters!!";
        let plot = latency().with(long, Mark::Line, vec![(4.0, 1e5), (4096.0, 1e5)]);
        for (room, plot) in [(Room::Wide, &plot), (Room::Narrow, &plot), (Room::Narrow, &latency())] {
            let svg = plot.to_inline_svg(room, "");
            let (width, _) = room.size();
            for series in &plot.series {
                let name = svg::escape(&series.name);
                let line = svg.lines().find(|line| line.contains(&format!(">{name}</text>"))).unwrap();
                let x: f64 = line.split("x=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap();
                assert!(x + text_width(&series.name) <= width, "{line}");
            }
            assert!(baselines(&svg).is_empty(), "none at the ends");
        }
        assert_eq!(baselines(&latency().to_inline_svg(Room::Wide, "")).len(), 3);
    }

    #[test]
    fn a_horizontal_axis_of_numbers_begins_and_ends_with_the_data() {
        let plot = Plot::new("", Axis::linear("", Unit::Number), Axis::linear("", Unit::Number));
        let points = vec![(1.0, 1.0), (16.0, 2.0)];
        let of = |mark| plot.clone().with("", mark, points.clone()).to_json()["x"].clone();
        assert_eq!((&of(Mark::Line)["low"], &of(Mark::Line)["high"]), (&json!(1.0), &json!(16.0)));
        assert_eq!(of(Mark::Bars)["high"], 20.0, "bars reach beyond their values");
        assert_eq!(latency().to_json()["x"]["high"], 4096.0);
    }

    #[test]
    fn names_of_categories_that_would_touch_stand_on_two_rows() {
        let names = ["immediate", "boost_on_wakeup", "boost_in_kernel", "at_user_return"];
        let svg = |names: &[&str]| {
            let plot = Plot::new("", Axis::categories("mode", names), Axis::linear("", Unit::Number));
            let points = (0..names.len()).map(|place| (place as f64, 1.0)).collect();
            plot.with("", Mark::Bars, points).to_inline_svg(Room::Narrow, "")
        };
        let row = |svg: &str, name: &str| {
            let line =
                svg.lines().find(|line| line.contains(&format!(">{name}</text>"))).expect("it is drawn").to_owned();
            line.split("y=\"").nth(1).and_then(|rest| rest.split('"').next()?.parse::<f64>().ok()).expect("a place")
        };
        let (long, short) = (svg(&names), svg(&["a", "b"]));
        let rows = names.map(|name| row(&long, name));
        assert_eq!((rows[0] + KEY_ROW, rows[0]), (rows[1], rows[2]), "{rows:?}");
        assert!(row(&long, "mode") > rows[1], "the label of the axis is below both");
        assert_eq!(row(&short, "a"), row(&short, "b"));
        assert!(long.contains("0 0 360 278") && short.contains("0 0 360 260"));
    }

    #[test]
    fn a_dotted_line_leads_to_a_name_that_is_not_at_its_lines_end() {
        let axis = || Axis::linear("", Unit::Number);
        let leaders = |last: f64| {
            let plot = Plot::new("", axis(), axis()).with("a", Mark::Line, vec![(0.0, 1.0), (9.0, 9.0)]);
            plot.with("b", Mark::Line, vec![(0.0, 2.0), (last, 2.0)]).to_svg().matches("class=\"l ").count()
        };
        assert_eq!((leaders(9.0), leaders(5.0)), (0, 1));
    }
}

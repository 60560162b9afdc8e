//! Plots as SVG: lines, points, steps and bars, with linear and logarithmic axes.
//!
//! Handwritten, because a plotting library brings fonts and code to find them; the viewer's own
//! sans-serif font is enough here. Equal input gives equal bytes: coordinates are rounded to a
//! tenth of a pixel. Colours are those of Okabe and Ito, which colour-blind readers can tell apart;
//! series also differ by marker, and published values are dashed.
//!
//! Values that cannot be drawn are left out: values that are not finite, and values at or below
//! zero on a logarithmic axis.

mod scale;
mod svg;

use scale::Scaled;
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
    /// Its name in the legend.
    pub name: String,
    /// How it is drawn.
    pub mark: Mark,
    /// Its values: x and y. Where x has categories, x is the index of one.
    pub points: Vec<(f64, f64)>,
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
    /// Bars from the bottom; several series stand side by side.
    Bars,
}

impl Plot {
    /// Creates a plot.
    #[must_use]
    pub fn new(title: &str, x: Axis, y: Axis) -> Self {
        Self { title: title.to_owned(), x, y, series: Vec::new() }
    }

    /// Adds a series.
    #[must_use]
    pub fn with(mut self, name: &str, mark: Mark, points: Vec<(f64, f64)>) -> Self {
        self.series.push(Series { name: name.to_owned(), mark, points });
        self
    }

    /// Draws the plot, 760 x 420 pixels. Complexity: O(points).
    #[must_use]
    pub fn to_svg(&self) -> String {
        let frame = Frame::of(self);
        let mut svg = Svg::new(WIDTH, HEIGHT);
        svg.text((WIDTH / 2.0, 22.0), Anchor::Middle, 15.0, &self.title);
        frame.draw_axes(&mut svg, self);
        let bars = self.series.iter().filter(|series| series.mark == Mark::Bars).count();
        let mut bar = 0;
        for (index, series) in self.series.iter().enumerate() {
            let look = Look::of(index);
            if series.mark == Mark::Bars {
                frame.draw_bars(&mut svg, series, look, (bar, bars));
                bar += 1;
            } else {
                frame.draw_line(&mut svg, series, look);
            }
        }
        frame.draw_legend(&mut svg, self);
        svg.finish()
    }
}

/// Colour and marker of a series.
#[derive(Clone, Copy)]
struct Look {
    colour: &'static str,
    marker: usize,
}

impl Look {
    const fn of(index: usize) -> Self {
        Self { colour: COLOURS[index % COLOURS.len()], marker: index }
    }
}

/// The positions of the parts on the page.
struct Frame {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    x: Scaled,
    y: Scaled,
}

impl Frame {
    fn of(plot: &Plot) -> Self {
        let values = |pick: fn(&(f64, f64)) -> f64| plot.series.iter().flat_map(|series| &series.points).map(pick);
        let has_bars = plot.series.iter().any(|series| series.mark == Mark::Bars);
        let x = Scaled::of(&plot.x, values(|point| point.0), scale::Zero::AsItComes);
        let zero = if has_bars { scale::Zero::Included } else { scale::Zero::AsItComes };
        let y = Scaled::of(&plot.y, values(|point| point.1), zero);
        let legend = if plot.series.len() > 1 { LEGEND_WIDTH } else { 0.0 };
        Self { left: 84.0, right: WIDTH - 24.0 - legend, top: 40.0, bottom: HEIGHT - 58.0, x, y }
    }

    fn at(&self, (x, y): (f64, f64)) -> Option<(f64, f64)> {
        let (x, y) = (self.x.place(x)?, self.y.place(y)?);
        Some((self.left + x * (self.right - self.left), self.bottom - y * (self.bottom - self.top)))
    }

    fn draw_axes(&self, svg: &mut Svg, plot: &Plot) {
        for (place, label) in self.y.ticks() {
            let y = self.bottom - place * (self.bottom - self.top);
            svg.line((self.left, y), (self.right, y), GRID);
            svg.text((self.left - 8.0, y + 4.0), Anchor::End, 12.0, label);
        }
        for (place, label) in self.x.ticks() {
            let x = self.left + place * (self.right - self.left);
            if !plot.x.has_categories() {
                svg.line((x, self.top), (x, self.bottom), GRID);
            }
            svg.text((x, self.bottom + 18.0), Anchor::Middle, 12.0, label);
        }
        svg.line((self.left, self.bottom), (self.right, self.bottom), INK);
        svg.line((self.left, self.top), (self.left, self.bottom), INK);
        svg.text(((self.left + self.right) / 2.0, HEIGHT - 16.0), Anchor::Middle, 13.0, &plot.x.label);
        svg.upright((18.0, (self.top + self.bottom) / 2.0), 13.0, &plot.y.label);
        if plot.series.iter().all(|series| series.points.iter().all(|point| self.at(*point).is_none())) {
            let middle = ((self.left + self.right) / 2.0, (self.top + self.bottom) / 2.0);
            svg.text(middle, Anchor::Middle, 13.0, "no data");
        }
    }

    fn draw_line(&self, svg: &mut Svg, series: &Series, look: Look) {
        let points: Vec<(f64, f64)> = series.points.iter().filter_map(|point| self.at(*point)).collect();
        match series.mark {
            Mark::Line => svg.path(&points, look.colour, svg::Stroke::Solid),
            Mark::Dashed => svg.path(&points, look.colour, svg::Stroke::Dashed),
            Mark::Steps => {
                let corners = points.windows(2).flat_map(|pair| [pair[0], (pair[1].0, pair[0].1)]);
                let corners: Vec<(f64, f64)> = corners.chain(points.last().copied()).collect();
                svg.path(&corners, look.colour, svg::Stroke::Solid);
            }
            Mark::Points | Mark::Bars => {}
        }
        let fill = if series.mark == Mark::Dashed { svg::Fill::Hollow } else { svg::Fill::Full };
        // The markers of a dense series would merge into blots.
        let draws_markers = series.mark == Mark::Points || (series.mark != Mark::Steps && points.len() <= MARKERS_MAX);
        for point in points.iter().filter(|_| draws_markers) {
            svg.marker(*point, look.marker, look.colour, fill);
        }
    }

    fn draw_bars(&self, svg: &mut Svg, series: &Series, look: Look, (bar, bars): (usize, usize)) {
        let slots = self.x.slots() as f64;
        let slot = (self.right - self.left) / slots;
        let width = slot * 0.8 / bars.max(1) as f64;
        for point in &series.points {
            let Some((x, y)) = self.at(*point) else { continue };
            let left = x - slot * 0.4 + width * bar as f64;
            svg.rectangle((left, y), (width, self.bottom - y), look.colour);
        }
    }

    fn draw_legend(&self, svg: &mut Svg, plot: &Plot) {
        if plot.series.len() < 2 {
            return;
        }
        for (index, series) in plot.series.iter().enumerate() {
            let look = Look::of(index);
            let y = self.top + 10.0 + 20.0 * index as f64;
            let (left, right) = (self.right + 14.0, self.right + 42.0);
            match series.mark {
                Mark::Bars => svg.rectangle((left + 8.0, y - 6.0), (12.0, 12.0), look.colour),
                Mark::Line | Mark::Dashed | Mark::Points | Mark::Steps => {
                    draw_sample(svg, series.mark, look, ((left, y), (right, y)));
                }
            }
            svg.text((right + 8.0, y + 4.0), Anchor::Start, 12.0, &series.name);
        }
    }
}

/// A piece of a line with its marker, for the legend.
fn draw_sample(svg: &mut Svg, mark: Mark, look: Look, (from, to): ((f64, f64), (f64, f64))) {
    let middle = ((from.0 + to.0) / 2.0, from.1);
    match mark {
        Mark::Line => {
            svg.path(&[from, to], look.colour, svg::Stroke::Solid);
            svg.marker(middle, look.marker, look.colour, svg::Fill::Full);
        }
        Mark::Dashed => {
            svg.path(&[from, to], look.colour, svg::Stroke::Dashed);
            svg.marker(middle, look.marker, look.colour, svg::Fill::Hollow);
        }
        Mark::Points => svg.marker(middle, look.marker, look.colour, svg::Fill::Full),
        Mark::Steps => svg.path(&[from, to], look.colour, svg::Stroke::Solid),
        Mark::Bars => {}
    }
}

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 420.0;
const LEGEND_WIDTH: f64 = 176.0;
const MARKERS_MAX: usize = 64;
const INK: &str = "#333333";
const GRID: &str = "#dddddd";
/// Okabe and Ito 2008, without yellow, which is too light for lines.
const COLOURS: [&str; 7] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"];

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
}

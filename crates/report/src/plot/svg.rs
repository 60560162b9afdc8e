//! The few shapes of SVG that plots need.
//!
//! Every shape has a class. `k0` to `k6` are the colours of series, `k9` is ink; those that end in
//! `s` colour lines. `t` and `n` are texts, `q` quiet ones, `g` the grid, `a` axes, `b` the
//! background, `w` whiskers, `l` lines to names, `h` the inside of hollow markers.

use crate::human::is_hidden;
use core::fmt::Write;

/// A page of SVG.
pub(super) struct Svg {
    out: String,
    /// Whether it is a part of a page, whose script can draw parts of it anew.
    is_inline: bool,
}

/// The anchor of a text.
#[derive(Clone, Copy)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// How a line is drawn.
#[derive(Clone, Copy)]
pub(super) enum Stroke {
    Solid,
    Dashed,
}

/// How a marker is drawn.
#[derive(Clone, Copy)]
pub(super) enum Fill {
    Full,
    Hollow,
}

/// How a surface is filled.
#[derive(Clone, Copy)]
pub(super) enum Paint {
    /// So that what is below shows.
    Tint,
}

/// Okabe and Ito 2008, without yellow, which is too light for lines.
const COLOURS: [&str; 7] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"];

const INFALLIBLE: &str = "invariant: writing to a String cannot fail";

/// Returns the colour of a series and the number of its class.
const fn look(series: usize) -> (&'static str, usize) {
    if series == usize::MAX {
        return ("#333333", 9);
    }
    (COLOURS[series % COLOURS.len()], series % COLOURS.len())
}

impl Svg {
    /// Begins a file.
    pub(super) fn file(width: f64, height: f64, style: &str) -> Self {
        let mut out = String::new();
        writeln!(
            out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" font-family=\"system-ui,sans-serif\">\n<style>{style}</style>\n\
             <rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\" class=\"b\"/>"
        )
        .expect(INFALLIBLE);
        Self { out, is_inline: false }
    }

    /// Begins a drawing inside a page.
    pub(super) fn inline(width: f64, height: f64, class: &str, description: &str) -> Self {
        let mut out = String::new();
        let description = escape(description);
        writeln!(
            out,
            "<svg class=\"{class}\" viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{description}\">"
        )
        .expect(INFALLIBLE);
        Self { out, is_inline: true }
    }

    /// Draws parts that a page's script can replace, as a group of this class. A file has none.
    pub(super) fn group(&mut self, class: &str, draw: impl FnOnce(&mut Self)) {
        if self.is_inline {
            writeln!(self.out, "<g class=\"{class}\">").expect(INFALLIBLE);
        }
        draw(self);
        if self.is_inline {
            self.out.push_str("</g>\n");
        }
    }

    /// Draws a line of the grid (`g`) or of an axis (`a`).
    pub(super) fn line(&mut self, from: (f64, f64), to: (f64, f64), class: &str) {
        let ((x1, y1), (x2, y2)) = (from, to);
        let colour = if class == "g" { "#e6e6e6" } else { "#888888" };
        writeln!(
            self.out,
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{colour}\" class=\"{class}\"/>"
        )
        .expect(INFALLIBLE);
    }

    fn points(&mut self, points: &[(f64, f64)]) {
        for (index, (x, y)) in points.iter().enumerate() {
            let separator = if index == 0 { "" } else { " " };
            write!(self.out, "{separator}{x:.1},{y:.1}").expect(INFALLIBLE);
        }
    }

    pub(super) fn path(&mut self, points: &[(f64, f64)], series: usize, stroke: Stroke, width: f64) {
        if points.len() < 2 {
            return;
        }
        let (colour, class) = look(series);
        self.out.push_str("<polyline points=\"");
        self.points(points);
        let dashes = match stroke {
            Stroke::Solid => "",
            Stroke::Dashed => " stroke-dasharray=\"6 4\"",
        };
        writeln!(
            self.out,
            "\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\" stroke-linejoin=\"round\"{dashes} class=\"k{class}s\"/>"
        )
        .expect(INFALLIBLE);
    }

    pub(super) fn polygon(&mut self, points: &[(f64, f64)], series: usize, paint: Paint) {
        let (colour, class) = look(series);
        let Paint::Tint = paint;
        self.out.push_str("<polygon points=\"");
        self.points(points);
        writeln!(self.out, "\" fill=\"{colour}\" fill-opacity=\"0.16\" class=\"k{class}\"/>").expect(INFALLIBLE);
    }

    /// Draws a dotted line from the end of a series to its name.
    pub(super) fn leader(&mut self, (x1, y1): (f64, f64), (x2, y2): (f64, f64), series: usize) {
        let (colour, class) = look(series);
        writeln!(
            self.out,
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{colour}\" stroke-dasharray=\"1 3\" class=\"l k{class}s\"/>"
        )
        .expect(INFALLIBLE);
    }

    /// Draws the range of a value: a line with ends.
    pub(super) fn whisker(&mut self, (x, low): (f64, f64), (_, high): (f64, f64), series: usize) {
        let (colour, class) = look(series);
        let (left, right) = (x - 3.5, x + 3.5);
        writeln!(
            self.out,
            "<path d=\"M{x:.1} {low:.1}V{high:.1}M{left:.1} {low:.1}H{right:.1}M{left:.1} {high:.1}H{right:.1}\" fill=\"none\" \
             stroke=\"{colour}\" stroke-width=\"1.2\" class=\"w k{class}s\"/>"
        )
        .expect(INFALLIBLE);
    }

    /// Draws a circle, a square, a triangle or a diamond.
    pub(super) fn marker(&mut self, (x, y): (f64, f64), series: usize, fill: Fill) {
        let (colour, class) = look(series);
        let paint = match fill {
            Fill::Full => format!("fill=\"{colour}\" class=\"k{class}\""),
            Fill::Hollow => {
                format!("fill=\"#ffffff\" stroke=\"{colour}\" stroke-width=\"1.5\" class=\"h k{class}s\"")
            }
        };
        let corners: &[(f64, f64)] = match series % 4 {
            0 => {
                writeln!(self.out, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\" {paint}/>").expect(INFALLIBLE);
                return;
            }
            1 => &[(-3.2, -3.2), (3.2, -3.2), (3.2, 3.2), (-3.2, 3.2)],
            2 => &[(0.0, -4.2), (4.0, 3.2), (-4.0, 3.2)],
            _ => &[(0.0, -4.6), (4.6, 0.0), (0.0, 4.6), (-4.6, 0.0)],
        };
        let corners: Vec<(f64, f64)> = corners.iter().map(|(dx, dy)| (x + dx, y + dy)).collect();
        self.out.push_str("<polygon points=\"");
        self.points(&corners);
        writeln!(self.out, "\" {paint}/>").expect(INFALLIBLE);
    }

    pub(super) fn rectangle(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), series: usize) {
        let (colour, class) = look(series);
        let height = height.max(0.0);
        writeln!(
            self.out,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{colour}\" class=\"k{class}\"/>"
        )
        .expect(INFALLIBLE);
    }

    pub(super) fn text(&mut self, (x, y): (f64, f64), anchor: Anchor, size: f64, class: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let text = escape(text);
        let (colour, weight) = match class {
            "q" => ("#5f6670", ""),
            "t" => ("#1c1e21", " font-weight=\"600\""),
            _ => ("#1c1e21", ""),
        };
        writeln!(
            self.out,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" text-anchor=\"{anchor}\" fill=\"{colour}\"{weight} \
             class=\"{class}\">{text}</text>"
        )
        .expect(INFALLIBLE);
    }

    /// Writes the name of a series in its colour.
    pub(super) fn name(&mut self, (x, y): (f64, f64), series: usize, text: &str) {
        let (colour, class) = look(series);
        let text = escape(text);
        writeln!(
            self.out,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"12\" font-weight=\"600\" fill=\"{colour}\" class=\"k{class}\">{text}</text>"
        )
        .expect(INFALLIBLE);
    }

    pub(super) fn finish(mut self) -> String {
        self.out.push_str("</svg>\n");
        self.out
    }
}

/// Escapes XML markup, and drops characters that XML does not allow, and those that hide or reorder
/// text.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            _ if is_hidden(letter) => {}
            _ => out.push(letter),
        }
    }
    out
}

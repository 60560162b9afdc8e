//! The few shapes of SVG that plots need.

use core::fmt::Write;

/// A page of SVG.
pub(super) struct Svg {
    out: String,
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

const INFALLIBLE: &str = "invariant: writing to a String cannot fail";

impl Svg {
    pub(super) fn new(width: f64, height: f64) -> Self {
        let mut out = String::new();
        writeln!(
            out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\">\n\
             <rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>"
        )
        .expect(INFALLIBLE);
        Self { out }
    }

    pub(super) fn line(&mut self, from: (f64, f64), to: (f64, f64), colour: &str) {
        let ((x1, y1), (x2, y2)) = (from, to);
        writeln!(self.out, "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{colour}\"/>")
            .expect(INFALLIBLE);
    }

    pub(super) fn path(&mut self, points: &[(f64, f64)], colour: &str, stroke: Stroke) {
        if points.len() < 2 {
            return;
        }
        self.out.push_str("<polyline points=\"");
        for (index, (x, y)) in points.iter().enumerate() {
            let separator = if index == 0 { "" } else { " " };
            write!(self.out, "{separator}{x:.1},{y:.1}").expect(INFALLIBLE);
        }
        let dashes = match stroke {
            Stroke::Solid => "",
            Stroke::Dashed => " stroke-dasharray=\"6 4\"",
        };
        writeln!(self.out, "\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"{dashes}/>").expect(INFALLIBLE);
    }

    /// Draws a circle, a square, a triangle or a diamond.
    pub(super) fn marker(&mut self, (x, y): (f64, f64), shape: usize, colour: &str, fill: Fill) {
        let paint = match fill {
            Fill::Full => format!("fill=\"{colour}\""),
            Fill::Hollow => format!("fill=\"#ffffff\" stroke=\"{colour}\" stroke-width=\"1.5\""),
        };
        let corners: &[(f64, f64)] = match shape % 4 {
            0 => {
                writeln!(self.out, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\" {paint}/>").expect(INFALLIBLE);
                return;
            }
            1 => &[(-3.2, -3.2), (3.2, -3.2), (3.2, 3.2), (-3.2, 3.2)],
            2 => &[(0.0, -4.2), (4.0, 3.2), (-4.0, 3.2)],
            _ => &[(0.0, -4.6), (4.6, 0.0), (0.0, 4.6), (-4.6, 0.0)],
        };
        self.out.push_str("<polygon points=\"");
        for (index, (dx, dy)) in corners.iter().enumerate() {
            let separator = if index == 0 { "" } else { " " };
            write!(self.out, "{separator}{:.1},{:.1}", x + dx, y + dy).expect(INFALLIBLE);
        }
        writeln!(self.out, "\" {paint}/>").expect(INFALLIBLE);
    }

    pub(super) fn rectangle(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), colour: &str) {
        let height = height.max(0.0);
        writeln!(
            self.out,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{colour}\"/>"
        )
        .expect(INFALLIBLE);
    }

    pub(super) fn text(&mut self, (x, y): (f64, f64), anchor: Anchor, size: f64, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let text = escape(text);
        writeln!(
            self.out,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" text-anchor=\"{anchor}\" fill=\"#333333\">{text}</text>"
        )
        .expect(INFALLIBLE);
    }

    /// Draws a text that reads upwards, around its middle.
    pub(super) fn upright(&mut self, (x, y): (f64, f64), size: f64, text: &str) {
        let text = escape(text);
        writeln!(
            self.out,
            "<text transform=\"translate({x:.1} {y:.1}) rotate(-90)\" font-size=\"{size}\" text-anchor=\"middle\" \
             fill=\"#333333\">{text}</text>"
        )
        .expect(INFALLIBLE);
    }

    pub(super) fn finish(mut self) -> String {
        self.out.push_str("</svg>\n");
        self.out
    }
}

/// Escapes XML markup, and drops characters that XML does not allow.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            _ if letter.is_control() => {}
            _ => out.push(letter),
        }
    }
    out
}

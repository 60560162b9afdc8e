//! [`Page`]: the parts of a report in their order; writes the file.
//!
//! Everything that can be read is plain HTML, so a page works without its script, for search and
//! for readers that do not see. The script adds the timeline, the values under the pointer, and the
//! jump from a wait to its place.

use crate::escape::{escape, plain};
use crate::pack::{Pack, base64};
use crate::plots::Figure;
use crate::timeline::{Detail, Timeline};
use crate::{state, table, waits};
use serde_json::json;
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::fmt::Write;
use zerolag_model::state::StateHistory;
use zerolag_report::explain::Explanation;
use zerolag_report::plot::Room;

/// The page's script: its parts in one function, in order.
const SCRIPT: &str = concat!(
    "(() => {\n\"use strict\";\n",
    include_str!("../web/format.js"),
    include_str!("../web/data.js"),
    include_str!("../web/theme.js"),
    include_str!("../web/plots.js"),
    include_str!("../web/tables.js"),
    include_str!("../web/icicle.js"),
    include_str!("../web/rows.js"),
    include_str!("../web/state.js"),
    include_str!("../web/draw.js"),
    include_str!("../web/timeline.js"),
    include_str!("../web/page.js"),
    "})();\n"
);

/// What the script of a served page has in addition, before the rest.
const SERVED: &str = include_str!("../web/served.js");

/// The page's style sheet.
const STYLE: &str = include_str!("../web/page.css");

/// The size, in bytes, that the packed columns of a page do not exceed, if leaving out detail can
/// reach it. As text they are a third longer.
pub const BUDGET: usize = 2_100_000;

/// A report.
#[derive(Debug, Default)]
pub struct Page<'a> {
    /// The heading: the workload or the trace.
    pub title: String,
    /// The answer, in one sentence.
    pub answer: String,
    /// Whether it is good.
    pub verdict: Verdict,
    /// The goals, each with whether it was met.
    pub goals: Vec<(bool, String)>,
    /// Why goals are missed, in sentences without a full stop.
    pub why: Vec<String>,
    /// A command that searches for what meets a goal that is missed.
    pub next: Option<String>,
    /// Sentences below the answer.
    pub notes: Vec<String>,
    /// What a reader sees first.
    pub first: First,
    /// The sections in their order.
    pub sections: Vec<Section>,
    /// The runs that [`Body::Timeline`] and [`Body::Waits`] show, each with its name.
    pub runs: Vec<Run<'a>>,
}

/// Whether the answer is good.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Verdict {
    /// There is nothing to judge.
    #[default]
    None,
    /// Every goal is met.
    Met,
    /// A goal is missed with the one seed of a run, or the run failed.
    Missed,
}

/// What a page begins with.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum First {
    /// The answer.
    #[default]
    Answer,
    /// The timeline: for readers that watch what they have changed.
    Timeline,
}

/// A run of a page.
#[derive(Debug)]
pub struct Run<'a> {
    /// Its name: `6.12`.
    pub name: String,
    /// Its picture.
    pub timeline: &'a Timeline,
    /// Its longest waits.
    pub waits: &'a Explanation,
    /// The scheduler's own numbers, as tracks below the timeline.
    pub state: Option<&'a StateHistory>,
}

/// A section: a heading and what is below.
#[derive(Clone, Debug)]
pub struct Section {
    /// The heading.
    pub title: String,
    /// Sentences below it.
    pub text: String,
    /// What it shows.
    pub body: Body,
    /// Whether only the heading is shown until a reader asks for the rest.
    pub is_folded: bool,
}

/// What a section shows.
#[derive(Clone, Debug)]
pub enum Body {
    /// The timelines of the page's runs; the first is shown.
    Timeline,
    /// The waits of the page's runs: by cause, by task, and the longest as examples.
    Waits,
    /// Plots.
    Figures(Vec<Figure>),
    /// A table; its first row is the head. Columns whose texts are numbers stand to the right.
    Table(Vec<Vec<String>>),
    /// Names and values.
    Facts(Vec<(String, String)>),
    /// Text in columns, as in a terminal.
    Text(String),
}

impl Section {
    /// Creates a section.
    #[must_use]
    pub fn new(title: &str, text: &str, body: Body) -> Self {
        Self { title: title.to_owned(), text: text.to_owned(), body, is_folded: false }
    }

    /// Returns the section folded: for what few readers ask.
    #[must_use]
    pub fn folded(self) -> Self {
        Self { is_folded: true, ..self }
    }

    /// Returns the section with the timelines of the page's runs.
    #[must_use]
    pub fn timeline() -> Self {
        Self::new("Timeline", "", Body::Timeline)
    }

    /// Returns the section with the waits of the page's runs.
    #[must_use]
    pub fn waits() -> Self {
        Self::new("Waits", "", Body::Waits)
    }

    /// Returns the place in the page: the letters and digits of the title.
    fn id(&self) -> String {
        let letters = self.title.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' });
        match self.body {
            Body::Timeline => "timeline".to_owned(),
            Body::Waits => "waits".to_owned(),
            _ => format!("s-{}", letters.collect::<String>()),
        }
    }
}

pub(crate) const INFALLIBLE: &str = "invariant: writing to a String cannot fail";

impl Page<'_> {
    /// Returns the page as a file.
    #[must_use]
    pub fn to_html(&self) -> String {
        self.write(&PageSource::File)
    }

    /// Returns the page that a server gives, with its policy. Below its own address, `part?from=..&to=..`
    /// gives a [`Part`](crate::pyramid::Part) of its run.
    #[must_use]
    pub fn to_served(&self) -> (String, String) {
        let home = PageSource::Server { rows: self.runs.first().map(|run| run.timeline.rows()).unwrap_or_default() };
        (self.write(&home), home.policy())
    }

    fn write(&self, home: &PageSource) -> String {
        let plots: Vec<serde_json::Value> = self.figures().map(|figure| plain_json(figure.plot.to_json())).collect();
        let (data, notes) = self.fit(&plots, home);
        // A served page says itself what it shows.
        let notes = notes.filter(|_| matches!(home, PageSource::File));
        let mut main = String::new();
        let leads = |section: &&Section| self.first == First::Timeline && matches!(section.body, Body::Timeline);
        let mut number = 0;
        for section in self.sections.iter().filter(leads) {
            self.write_section(&mut main, section, notes.as_deref(), &mut number);
        }
        self.write_answer(&mut main);
        for section in self.sections.iter().filter(|section| !leads(section)) {
            self.write_section(&mut main, section, notes.as_deref(), &mut number);
        }
        self.frame(&main, &data, home)
    }

    /// Returns the plots in their order.
    fn figures(&self) -> impl Iterator<Item = &Figure> {
        self.sections.iter().flat_map(|section| match &section.body {
            Body::Figures(figures) => &figures[..],
            _ => &[],
        })
    }

    /// Packs the data with as much detail as fits.
    fn fit(&self, plots: &[serde_json::Value], home: &PageSource) -> (Vec<u8>, Option<String>) {
        let kept = self.runs.iter().flat_map(|run| &run.waits.waits).map(|wait| (wait.from, wait.to)).collect();
        let mut detail = Detail { kept, ..Detail::ALL };
        // Deflating a long run takes seconds, for each detail anew. The columns of the next smaller
        // detail deflate nearly as well as those before, so what clearly cannot fit is not tried.
        let mut largest = 8 * BUDGET;
        loop {
            let is_last = detail.merged_below > 1 << 40;
            let (pack, head) = self.columns(plots, &detail, home);
            if pack.size() <= largest || is_last {
                let packed = pack.finish(&head);
                if packed.len() <= BUDGET || is_last {
                    return (packed, detail.note());
                }
                largest = pack.size() / (packed.len() / 100) * (BUDGET / 100) / 2 * 3;
            }
            detail = detail.less();
        }
    }

    /// Returns the columns of all runs, and the head before them.
    fn columns(&self, plots: &[serde_json::Value], detail: &Detail, home: &PageSource) -> (Pack, serde_json::Value) {
        let mut pack = Pack::default();
        let runs = self.runs.iter().enumerate();
        let mut runs: Vec<_> =
            runs.map(|(index, run)| run_columns(run, &format!("{index}/"), detail, &mut pack)).collect();
        if let (PageSource::Server { rows }, Some(run)) = (home, runs.first_mut()) {
            run["rows"] = json!(rows);
            run["note"] = json!(detail.at_this_zoom());
        }
        (pack, json!({ "runs": runs, "plots": plots }))
    }

    fn write_answer(&self, out: &mut String) {
        let (class, word) = match self.verdict {
            Verdict::None => ("plain", ""),
            Verdict::Met => ("met", "<span class=\"badge\">goals met, one seed</span> "),
            Verdict::Missed => ("missed", "<span class=\"badge\">missed</span> "),
        };
        write!(out, "<section class=\"answer {class}\" id=\"answer\" aria-label=\"The answer\">\n<p class=\"lead\">{word}{}</p>\n", escape(&self.answer))
            .expect(INFALLIBLE);
        if !self.goals.is_empty() {
            out.push_str("<ul class=\"goals\">\n");
            for (is_met, goal) in &self.goals {
                let (class, word) = if *is_met { ("met", "met") } else { ("missed", "missed") };
                writeln!(out, "<li class=\"{class}\"><b>{word}</b> {}</li>", escape(goal)).expect(INFALLIBLE);
            }
            out.push_str("</ul>\n");
        }
        for why in &self.why {
            writeln!(out, "<p class=\"why\"><b>Why</b> {}.</p>", escape(why)).expect(INFALLIBLE);
        }
        if let Some(next) = &self.next {
            writeln!(out, "<p class=\"why\"><b>What to set</b> <code>{}</code></p>", escape(next)).expect(INFALLIBLE);
        }
        for note in &self.notes {
            writeln!(out, "<p class=\"quiet\">{}</p>", escape(note)).expect(INFALLIBLE);
        }
        out.push_str("</section>\n");
    }

    fn write_section(&self, out: &mut String, section: &Section, note: Option<&str>, number: &mut usize) {
        let (id, title) = (section.id(), escape(&section.title));
        match section.is_folded {
            true => writeln!(out, "<section id=\"{id}\"><details class=\"fold\"><summary><h2>{title}</h2></summary>"),
            false => writeln!(out, "<section id=\"{id}\"><h2>{title}</h2>"),
        }
        .expect(INFALLIBLE);
        let note = note.filter(|_| matches!(section.body, Body::Timeline));
        for text in [Some(&*section.text), note].into_iter().flatten().filter(|text| !text.is_empty()) {
            writeln!(out, "<p class=\"quiet\">{}</p>", escape(text)).expect(INFALLIBLE);
        }
        match &section.body {
            Body::Timeline => out.push_str(
                "<div id=\"tl\" hidden></div>\n<noscript><p>The timeline needs JavaScript; everything else is here.</p></noscript>\n",
            ),
            Body::Waits => waits::write(out, &self.runs),
            Body::Figures(figures) => {
                out.push_str("<div class=\"figures\">\n");
                for figure in figures {
                    write_figure(out, figure, *number);
                    *number += 1;
                }
                out.push_str("</div>\n");
            }
            Body::Table(rows) => table::write(out, &section.title, rows),
            Body::Facts(facts) => {
                out.push_str("<dl class=\"facts\">\n");
                for (name, value) in facts {
                    writeln!(out, "<div><dt>{}</dt><dd>{}</dd></div>", escape(name), escape(value)).expect(INFALLIBLE);
                }
                out.push_str("</dl>\n");
            }
            Body::Text(text) => {
                writeln!(
                    out,
                    "<pre tabindex=\"0\" role=\"region\" aria-label=\"{title}, text\">{}</pre>",
                    escape(text)
                )
                .expect(INFALLIBLE);
            }
        }
        out.push_str(if section.is_folded { "</details></section>\n" } else { "</section>\n" });
    }

    fn frame(&self, main: &str, data: &[u8], home: &PageSource) -> String {
        let script = format!("<script>{}</script>", home.script());
        let title = escape(&self.title);
        let policy = home.policy();
        let link = |section: &Section| format!("<a href=\"#{}\">{}</a>", section.id(), escape(&section.title));
        let links: String = self.sections.iter().map(link).collect();
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n<meta name=\"referrer\" content=\"no-referrer\">\n\
             <title>{title} - zerolag</title>\n<style>{STYLE}</style>\n</head>\n<body>\n\
             <a class=\"skip\" href=\"#answer\">To the answer</a>\n\
             <header><h1>{title}</h1><nav aria-label=\"Sections\">{links}</nav></header>\n<main>\n{main}</main>\n\
             <div id=\"tip\" role=\"status\" hidden></div>\n\
             <script type=\"application/octet-stream\" id=\"data\">{data}</script>\n{script}\n</body>\n</html>\n",
            data = base64(data),
        )
    }
}

/// Packs a run: its timeline, and its state if it has one.
fn run_columns(run: &Run<'_>, prefix: &str, detail: &Detail, pack: &mut Pack) -> serde_json::Value {
    let mut head = run.timeline.pack(&run.name, prefix, detail, pack);
    if let Some(history) = run.state {
        head["state"] = state::pack(history, run.timeline, prefix, pack);
    }
    head
}

/// Where a page is read from.
#[derive(Debug)]
enum PageSource {
    /// A file, which has everything.
    File,
    /// A server, which has more detail. The tasks in `rows` have a row although the page can have no
    /// slice of them.
    Server { rows: Vec<u32> },
}

impl PageSource {
    fn script(&self) -> Cow<'static, str> {
        match self {
            Self::File => SCRIPT.into(),
            Self::Server { .. } => {
                let (head, rest) = SCRIPT.split_once("\"use strict\";\n").expect("invariant: the script begins so");
                format!("{head}\"use strict\";\n{SERVED}{rest}").into()
            }
        }
    }

    /// Returns the page's Content-Security-Policy: only its own script and style, and no connection
    /// but to its own server.
    fn policy(&self) -> String {
        let connect = match self {
            Self::File => "",
            Self::Server { .. } => " connect-src 'self';",
        };
        format!(
            "default-src 'none'; script-src {}; style-src {};{connect} img-src data:; base-uri 'none'; form-action 'none'",
            source(&self.script()),
            source(STYLE)
        )
    }
}

fn source(text: &str) -> String {
    format!("'sha256-{}'", base64(&Sha256::digest(text.as_bytes())))
}

/// Returns the sources of scripts and of styles that the policy of a page allows: a page that shows
/// reports in frames must allow them too.
#[must_use]
pub fn hashes() -> (String, String) {
    (source(SCRIPT), source(STYLE))
}

fn write_figure(out: &mut String, figure: &Figure, number: usize) {
    writeln!(
        out,
        "<figure data-plot=\"{number}\"><h3>{}</h3>\n{}{}<figcaption>{}</figcaption></figure>",
        escape(&figure.title),
        figure.plot.to_inline_svg(Room::Wide, &figure.says),
        figure.plot.to_inline_svg(Room::Narrow, &figure.says),
        escape(&figure.says)
    )
    .expect(INFALLIBLE);
}

/// Replaces what cannot be seen in every text of a value.
fn plain_json(value: serde_json::Value) -> serde_json::Value {
    use serde_json::Value;
    match value {
        Value::String(text) => plain(&text).into(),
        Value::Array(items) => items.into_iter().map(plain_json).collect(),
        Value::Object(map) => Value::Object(map.into_iter().map(|(key, value)| (key, plain_json(value))).collect()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> Page<'static> {
        let hostile = "</script><script>alert(1)</script>\"'\u{1b}]0;x\u{7}";
        Page {
            title: hostile.to_owned(),
            answer: hostile.to_owned(),
            verdict: Verdict::Missed,
            goals: vec![(true, hostile.to_owned()), (false, "x".to_owned())],
            sections: vec![
                Section::new(hostile, hostile, Body::Text(hostile.to_owned())),
                Section::new(
                    "t",
                    "",
                    Body::Table(vec![vec!["a".into(), "b".into()], vec![hostile.into(), "1ms".into()]]),
                ),
                Section::new("f", "", Body::Facts(vec![(hostile.to_owned(), hostile.to_owned())])),
            ],
            ..Page::default()
        }
    }

    #[test]
    fn hostile_names_stay_text() {
        let html = page().to_html();
        assert_eq!(html.matches("<script").count(), 2, "the data and our own");
        assert_eq!(html.matches("</script").count(), 2);
        assert!(!html.contains(['\u{1b}', '\u{7}']) && !html.contains("alert(1)</script>"));
        assert!(html.contains("<td class=\"n\">1ms</td>"), "numbers stand to the right");
    }

    #[test]
    fn the_policy_names_the_script_and_the_style_by_their_hashes() {
        let html = page().to_html();
        let between = |from: &str, to: &str| {
            let start = html.find(from).unwrap() + from.len();
            &html[start..start + html[start..].find(to).unwrap()]
        };
        let policy = between("Content-Security-Policy\" content=\"", "\"");
        for (from, to, directive) in [("<script>", "</script>", "script-src"), ("<style>", "</style>", "style-src")] {
            let hash = base64(&Sha256::digest(between(from, to).as_bytes()));
            assert!(policy.contains(&format!("{directive} 'sha256-{hash}'")), "{policy}");
        }
        assert!(policy.starts_with("default-src 'none';") && !policy.contains("unsafe"));
    }

    #[test]
    fn no_part_of_the_page_refers_to_a_network() {
        for text in [SCRIPT, STYLE] {
            for word in
                ["http:", "https:", "fetch(", "XMLHttpRequest", "import(", "@import", "url(", "innerHTML", "eval("]
            {
                assert!(!text.contains(word), "{word}");
            }
            assert!(!text.contains("</script") && !text.contains("</style"));
        }
        assert_eq!((SERVED.matches("fetch(").count(), SERVED.contains("http")), (1, false), "only its own server");
    }

    #[test]
    fn a_served_page_may_ask_its_own_server_only() {
        let html = page().write(&PageSource::Server { rows: Vec::new() });
        let policy = PageSource::Server { rows: Vec::new() }.policy();
        assert!(html.contains(&policy) && policy.contains(" connect-src 'self';"), "{policy}");
        assert!(!PageSource::File.policy().contains("connect-src"));
        let from = html.find("<script>").unwrap() + "<script>".len();
        let script = &html[from..from + html[from..].find("</script>").unwrap()];
        assert!(script.contains("fetch(") && policy.contains(&source(script)));
    }
}

//! Public reports of schedulers come out: `regressions/index.toml` says what each saw, under which
//! kernels, and which setting is behind it.
//!
//! A row is run as `zerolag compare` runs it. Its figure must be within the bounds of the report,
//! and `--bisect` must name the setting. A row that names a missing mechanism must be outside:
//! once it comes out, the row says so no longer. The tables of docs/lab/regressions.md are made
//! from the rows and these runs; `ZEROLAG_BLESS=1` writes them.

use serde::Deserialize;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use zerolag::compare::{self, Bisection, Comparison, Variant};
use zerolag::{Simulation, Workload};
use zerolag_lab::repro::in_order;

/// The least reports that come out. It only grows.
const LEAST: usize = 52;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Index {
    report: Vec<Report>,
}

/// A row of the table; its head describes the keys.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Report {
    name: String,
    source: Vec<String>,
    says: String,
    key: String,
    values: [String; 2],
    #[serde(default)]
    set: Vec<String>,
    figure: String,
    before: Option<[f64; 2]>,
    after: Option<[f64; 2]>,
    change: Option<[f64; 2]>,
    #[serde(default = "three")]
    runs: u64,
    explained_by: Option<String>,
    missing: Option<String>,
}

const fn three() -> u64 {
    3
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn index() -> Vec<Report> {
    let text = std::fs::read_to_string(root().join("regressions/index.toml")).expect("the table");
    toml::from_str::<Index>(&text).expect("the rows").report
}

/// The mean of a figure under both variants, in ms, percent, or as a number.
#[derive(Clone, Copy)]
struct Means {
    of: [f64; 2],
    unit: &'static str,
}

impl Report {
    fn variants(&self) -> Vec<Variant> {
        let file = format!("regressions/{}.toml", self.name);
        let text = std::fs::read_to_string(root().join(&file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        let mut simulation = Simulation::new(Workload::toml(&text));
        for setting in &self.set {
            let (key, value) = setting.split_once('=').expect("KEY=VALUE");
            simulation = simulation.set(key, value);
        }
        let values = self.values.iter().map(String::as_str);
        Variant::per_value(&simulation, &self.key, values).unwrap_or_else(|error| panic!("{file}: {error}"))
    }

    /// Returns its figure of both variants; `None` if one does not know it. One that is zero in all
    /// runs has no row.
    fn means(&self, compared: &Comparison) -> Option<Means> {
        let json = compared.to_json();
        let units = [("", "", 1.0), ("_ns", " ms", 1e-6), ("_percent", " %", 1.0)];
        let found = units.into_iter().find(|(end, ..)| {
            let key = format!("{}{end}", self.figure);
            json["variants"][0]["figures"].get(&key).is_some()
        });
        let Some((end, unit, factor)) = found else { return Some(Means { of: [0.0, 0.0], unit: "" }) };
        let key = format!("{}{end}", self.figure);
        let mean = |at: usize| json["variants"][at]["figures"][&key]["mean"].as_f64().map(|mean| mean * factor);
        Some(Means { of: [mean(0)?, mean(1)?], unit })
    }

    /// Returns whether the figure is within the bounds of the report.
    fn comes_out(&self, means: Option<Means>) -> bool {
        let Some(Means { of: [before, after], .. }) = means else { return false };
        let within =
            |bounds: Option<[f64; 2]>, value: f64| bounds.is_none_or(|[low, high]| low <= value && value <= high);
        within(self.before, before) && within(self.after, after) && within(self.change, after / before)
    }

    /// Returns why the row is wrong as it stands in the table.
    fn error(&self, means: Option<Means>, bisection: Option<&Bisection>) -> Option<String> {
        let shown = means.map_or_else(|| "not known".to_owned(), |means| format!("{:?}", means.of));
        match (&self.missing, self.comes_out(means)) {
            (None, false) => return Some(format!("does not come out: {shown}")),
            (Some(missing), true) => return Some(format!("comes out ({shown}), and yet is missing: {missing}")),
            _ => {}
        }
        let setting = self.explained_by.as_ref()?;
        let Some(found) = bisection else { return Some("no figure has changed".to_owned()) };
        let is_in_answer = found.settings.iter().any(|of| of.together.is_some() && of.key == *setting);
        let is_fault =
            |name: &str| name == setting || name.strip_prefix(&**setting).is_some_and(|rest| rest.starts_with(" ="));
        let matters = found.faults.iter().any(|fault| fault.matters.is_some() && is_fault(&fault.name));
        (!is_in_answer && !matters).then(|| format!("`--bisect` does not name {setting}:\n{found}"))
    }

    /// Returns its row of the page.
    fn row(&self, means: Option<Means>) -> String {
        let links: Vec<String> = self.source.iter().map(|source| link(source)).collect();
        let [before, after] =
            means.map_or(["-".to_owned(), "-".to_owned()], |of| of.of.map(|mean| number(mean) + of.unit));
        let variants = match &*self.key {
            "kernel" => format!("{} to {}", self.values[0], self.values[1]),
            key => format!("`{key}`: {} to {}", self.values[0], self.values[1]),
        };
        let last = self.missing.clone().or_else(|| self.explained_by.as_ref().map(|key| format!("`{key}`")));
        let last = last.unwrap_or_default();
        let Self { name, says, figure, .. } = self;
        format!(
            "| [{name}](../../regressions/{name}.toml) | {} | {says} | {variants} | `{figure}` | {before} | {after} | {last} |\n",
            links.join(", ")
        )
    }
}

/// Returns a value as the page shows it: three digits.
fn number(value: f64) -> String {
    match value.abs() {
        large if large >= 100.0 => format!("{value:.0}"),
        middle if middle >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Returns a source as Markdown: the last parts of an address say what it is.
fn link(source: &str) -> String {
    let Some(rest) = source.strip_prefix("https://") else { return source.replace("commit ", "") };
    let parts: Vec<&str> = rest.trim_end_matches('/').split('/').collect();
    let name = match parts.as_slice() {
        ["github.com", owner, name] => format!("{owner}/{name}"),
        ["github.com", _, name, _, number] => format!("{name}#{number}"),
        [host, ..] if host.contains("bugzilla") => format!("bug {}", rest.rsplit('=').next().unwrap_or(rest)),
        [host, .., last] if host.contains("lore") || host.contains("msgid") => {
            format!("lore {}", last.split('@').next().unwrap_or(last))
        }
        [host, .., folder, last] if host.contains("lkml") => format!("lkml {folder}/{last}").replace(".html", ""),
        [host, ..] => (*host).to_owned(),
        [] => rest.to_owned(),
    };
    format!("[{name}]({source})")
}

/// Returns the tables of the page.
fn tables(rows: &[(bool, String)]) -> String {
    let mut text = String::new();
    for (is_missing, last) in [(false, "explained by"), (true, "missing")] {
        let of_kind = || rows.iter().filter(|(missing, _)| *missing == is_missing);
        let title = if is_missing { "do not come out" } else { "come out" };
        write!(text, "\n{} reports {title}.\n\n", of_kind().count()).expect("a string");
        let head = "| scenario | report | it says | variants | figure | first | last |";
        write!(text, "{head} {last} |\n|---|---|---|---|---|--:|--:|---|\n").expect("a string");
        text.extend(of_kind().map(|(_, row)| row.as_str()));
    }
    text
}

/// Checks the tables of the page, or writes them.
fn check_page(tables: &str) {
    let path = root().join("docs/lab/regressions.md");
    let page = std::fs::read_to_string(&path).expect("the page");
    let (begin, end) = ("<!-- reports -->\n", "\n<!-- /reports -->");
    let (head, rest) = page.split_once(begin).expect("the begin of the tables");
    let (old, tail) = rest.split_once(end).expect("the end of the tables");
    if old == tables {
        return;
    }
    assert!(
        std::env::var_os("ZEROLAG_BLESS").is_some(),
        "docs/lab/regressions.md differs; ZEROLAG_BLESS=1 writes:\n{tables}"
    );
    std::fs::write(&path, format!("{head}{begin}{tables}{end}{tail}")).expect("it is written");
}

#[test]
fn reports_come_out_as_the_table_says() {
    let go = |_| ControlFlow::Continue(());
    let reports = index();
    let judge = |nth: u64| {
        let report = &reports[nth as usize];
        let variants = report.variants();
        let compared = compare::run(&variants, report.runs, go).expect("it runs");
        let means = report.means(&compared);
        let asks = report.explained_by.is_some();
        let bisection =
            if asks { compare::bisect(&variants, &compared, report.runs, go).expect("it runs") } else { None };
        let error = report.error(means, bisection.as_ref()).map(|error| format!("{}: {error}\n", report.name));
        (error, (report.missing.is_some(), report.row(means)))
    };
    let judged = in_order(reports.len() as u64, 2, judge, |_| ControlFlow::Continue(()));
    let (wrong, rows): (Vec<_>, Vec<_>) = judged.into_iter().map(|(_, of)| of).unzip();
    let wrong: String = wrong.into_iter().flatten().collect();
    assert!(wrong.is_empty(), "{wrong}");
    let come_out = rows.iter().filter(|(is_missing, _)| !is_missing).count();
    assert!(come_out >= LEAST, "only {come_out} reports come out");
    check_page(&tables(&rows));
}

#[test]
fn every_scenario_is_a_row_and_every_row_is_whole() {
    let reports = index();
    let names: BTreeSet<&str> = reports.iter().map(|report| &*report.name).collect();
    assert_eq!(names.len(), reports.len(), "a name is used twice");
    for entry in std::fs::read_dir(root().join("regressions")).expect("the folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_stem().and_then(|name| name.to_str()).expect("a name").to_owned();
        assert!(name == "index" || names.contains(&*name), "{name} has no row");
    }
    for report in &reports {
        let Report { name, before, after, change, .. } = report;
        assert!(report.source.iter().any(|source| source.starts_with("https://")), "{name}: no address");
        assert!(change.is_some() || (before.is_some() && after.is_some()), "{name}: no bounds");
        assert!(
            report.key != "kernel" || report.explained_by.is_some() || report.missing.is_some() || change.is_some(),
            "{name}: nothing explains it"
        );
    }
}

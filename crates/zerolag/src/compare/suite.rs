//! [`Suite`]: a comparison of several workloads.
//!
//! A table of one workload is long already, so a suite shows of each only what exceeds the spread
//! of its seeds, the largest changes first.

use super::bisect::Bisection;
use super::{Compared, ComparedFigure, Comparison, MACHINE};
use crate::document::{self, Document};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use std::fmt;
use zerolag_report::frame::Frame;
use zerolag_report::table::{Align, Table, Titled};

/// The result of `zerolag compare` of a directory.
pub(crate) const DOCUMENT: Document = Document::of::<ComparedSuite<'_>>(SCHEMA, "compare of a directory");
const SCHEMA: &str = "zerolag.compare.suite.v2";

/// Comparisons of several workloads.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct ComparedSuite<'a> {
    /// The name and version of this form.
    #[schemars(extend("const" = SCHEMA))]
    schema: &'static str,
    /// The workloads, in order of their files' names.
    workloads: Vec<SuiteWorkload<'a>>,
}

/// A workload of a suite: its comparison, or why there is none.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct SuiteWorkload<'a> {
    /// The name of its file.
    workload: &'a str,
    /// Its comparison.
    #[serde(skip_serializing_if = "Option::is_none")]
    comparison: Option<Compared<'a>>,
    /// Why it was not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
}

/// Comparisons of several workloads under the same variants.
#[derive(Clone, Debug, Default)]
pub struct Suite {
    /// The name of each workload, and its comparison or why there is none.
    pub workloads: Vec<(String, Result<Comparison, String>)>,
}

/// The rows of one workload that a suite shows.
const ROWS_SHOWN: usize = 6;

/// Returns the relative change of a row, for its order.
fn change(row: &ComparedFigure) -> f64 {
    let Some((first, last)) = row.ends() else { return 0.0 };
    let (before, after) = (first.mean.abs(), last.mean.abs());
    (after - before).abs() / before.max(after).max(f64::MIN_POSITIVE)
}

impl Suite {
    /// Returns all comparisons as JSON.
    #[must_use]
    pub fn to_json(&self) -> Value {
        self.json(|_| None)
    }

    /// Returns all comparisons as JSON, with the bisections that there are: `None` if none was
    /// made.
    pub(super) fn json<'a>(&'a self, bisection: impl Fn(&str) -> Option<Option<&'a Bisection>>) -> Value {
        let data = |of: Option<&'a Bisection>| of.map(Bisection::data);
        let workloads = self.workloads.iter().map(|(workload, compared)| SuiteWorkload {
            workload,
            comparison: compared.as_ref().ok().map(|compared| compared.data(bisection(workload).map(data))),
            error: compared.as_ref().err().map(|why| &**why),
        });
        document::value(&ComparedSuite { schema: SCHEMA, workloads: workloads.collect() })
    }

    /// Returns a row per workload, figure and variant, of the workloads that were compared.
    #[must_use]
    pub fn frame(&self) -> Frame {
        let compared = self.workloads.iter().filter_map(|(name, compared)| Some((&**name, compared.as_ref().ok()?)));
        super::frame(&compared.collect::<Vec<_>>())
    }
}

/// What a suite shows.
struct SuiteView<'a> {
    names: Vec<&'a str>,
    runs: u64,
    table: Table,
    /// Figures that changed too, but less.
    left_out: usize,
    /// Workloads without a figure beyond the spread of the seeds.
    same: Vec<&'a str>,
    /// Workloads without a comparison, and why.
    not_run: Vec<(&'a str, &'a str)>,
}

impl Suite {
    fn shown(&self) -> SuiteView<'_> {
        let first = self.workloads.iter().find_map(|(_, compared)| compared.as_ref().ok());
        let names: Vec<&str> =
            first.map(|compared| compared.variants.iter().map(|label| &*label.name).collect()).unwrap_or_default();
        let mut columns = vec![("workload", Align::Left), ("owner", Align::Left), ("figure", Align::Left)];
        columns.extend(names.iter().map(|name| (*name, Align::Right)));
        columns.push(("change", Align::Right));
        let mut shown = SuiteView {
            runs: first.map_or(0, |compared| compared.runs),
            table: Table::new(&columns),
            left_out: 0,
            same: Vec::new(),
            not_run: Vec::new(),
            names,
        };
        for (name, compared) in &self.workloads {
            let compared = match compared {
                Ok(compared) => compared,
                Err(why) => {
                    shown.not_run.push((name, why));
                    continue;
                }
            };
            let mut changed: Vec<&ComparedFigure> =
                compared.rows.iter().filter(|row| row.has_changed() && row.owner != MACHINE).collect();
            changed.sort_by(|a, b| change(b).total_cmp(&change(a)));
            if changed.is_empty() {
                shown.same.push(name);
            }
            shown.left_out += changed.len().saturating_sub(ROWS_SHOWN);
            let mut label = &**name;
            for row in changed.into_iter().take(ROWS_SHOWN) {
                let mut cells = vec![label.to_owned(), row.owner.clone(), row.figure.label()];
                cells.extend(row.values.iter().map(|range| row.text(range.map(|range| range.mean))));
                cells.push(compared.change(row));
                shown.table.push(cells);
                label = "";
            }
        }
        shown
    }

    /// Returns the answer in one sentence.
    #[must_use]
    pub fn answer(&self) -> String {
        let SuiteView { names, same, not_run, .. } = self.shown();
        let compared = self.workloads.len() - not_run.len();
        format!(
            "{} of {compared} workloads differ between {} by more than seeds do.",
            compared - same.len(),
            names.join(" and ")
        )
    }

    /// Returns the changes, and the workloads without one, as tables.
    #[must_use]
    pub fn titled(&self) -> Vec<Titled> {
        let shown = self.shown();
        let mut text = format!("Means of {} runs; figures that differ by more than seeds do.", shown.runs);
        if shown.left_out > 0 {
            text.push_str(&format!(" {} more changed less and are left out.", shown.left_out));
        }
        let mut others = Table::new(&[("workload", Align::Left), ("why", Align::Left)]);
        shown.same.iter().for_each(|name| others.push([(*name).to_owned(), "no figure differs".to_owned()]));
        shown.not_run.iter().for_each(|(name, why)| others.push([(*name).to_owned(), format!("not run: {why}")]));
        let others = Titled::new("Workloads without a change", "", others);
        let changes = Titled::new("Changes", text, shown.table);
        [changes].into_iter().chain((!others.table.is_empty()).then_some(others)).collect()
    }
}

impl fmt::Display for Suite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.shown();
        let names = shown.names.join(" against ");
        writeln!(f, "{names}: {} workloads, {} runs each\n", self.workloads.len(), shown.runs)?;
        writeln!(f, "{}", shown.table)?;
        if shown.left_out > 0 {
            writeln!(f, "({} more figures that changed less; --json has all)", shown.left_out)?;
        }
        if !shown.same.is_empty() {
            writeln!(f, "no figure beyond the spread of the seeds: {}", shown.same.join(", "))?;
        }
        for (name, why) in shown.not_run {
            writeln!(f, "not run: {name}: {why}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::run;
    use crate::compare::tests::variants;
    use std::ops::ControlFlow;

    #[test]
    fn a_suite_says_what_changed_what_did_not_and_what_failed() {
        let go = |_| ControlFlow::Continue(());
        let changed = run(&variants("hz", ["100", "1000"]), 2, go).expect("it runs");
        let same = run(&variants("hz", ["250", "250"]), 2, go).expect("it runs");
        let suite = Suite {
            workloads: vec![
                ("a.toml".to_owned(), Ok(changed)),
                ("b.toml".to_owned(), Ok(same)),
                ("c.toml".to_owned(), Err("broken".to_owned())),
            ],
        };
        let text = suite.to_string();
        assert!(text.starts_with("100 against 1000: 3 workloads, 2 runs each"), "{text}");
        assert!(text.contains("a.toml") && text.contains("beyond the spread of the seeds: b.toml"), "{text}");
        assert!(text.contains("not run: c.toml: broken"), "{text}");
        assert_eq!(suite.to_json()["workloads"][2]["error"], "broken");
    }
}

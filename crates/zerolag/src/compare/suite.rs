//! [`Suite`]: a comparison of several workloads; [`bisect`]: which setting explains a difference.
//!
//! A table of one workload is long already, so a suite shows of each only what exceeds the spread
//! of its seeds, the largest changes first.
//!
//! Two kernels differ in dozens of settings, and most of them matter to no figure of a workload. So
//! each setting that differs is switched on its own, from the first kernel's value to the last
//! one's, and gets the share of the difference that it makes alone. Then settings are switched
//! together: each further one is that which explains most of the rest, until the difference is
//! explained. Shares can add up to more or less than the whole, because settings interact.

use super::Compared;
use super::{Comparison, Row, Unit, Variant, run};
use crate::document::{self, Document};
use crate::error::Error;
use crate::simulation::Plan;
use crate::variant::Label;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::ControlFlow;
use zerolag_model::Settings;
use zerolag_report::frame::Frame;
use zerolag_report::table::{Align, Table, Titled};

/// The result of `zerolag compare` of a directory.
pub(crate) const DOCUMENT: Document = Document::of::<ComparedSuite<'_>>(SCHEMA, "compare of a directory");
const SCHEMA: &str = "zerolag.compare.suite.v1";

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

/// The settings behind the change of a figure.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct BisectedFigure<'a> {
    /// The owner of the figure.
    owner: &'a str,
    /// The name of the figure.
    figure: &'a str,
    /// The unit of `first` and `last`: `ns`, `percent` or `count`.
    unit: &'static str,
    /// Its mean under the first variant.
    first: f64,
    /// Its mean under the last variant.
    last: f64,
    /// Whether the settings with a `together_share` explain the difference.
    explained: bool,
    /// All settings that differ: those of the answer first, then by their share.
    settings: Vec<SwitchedSetting<'a>>,
}

/// A setting that differs between two variants.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct SwitchedSetting<'a> {
    /// Its key.
    key: &'a str,
    /// Its value in the first variant.
    from: &'a str,
    /// Its value in the last variant.
    to: &'a str,
    /// The share of the difference that switching it alone makes; null if it is refused alone.
    alone_share: Option<f64>,
    /// The share with this setting and those before it, if it is part of the answer.
    together_share: Option<f64>,
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
fn change(row: &Row) -> f64 {
    let (Some(first), Some(last)) = (row.values.first(), row.values.last()) else { return 0.0 };
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
struct Shown<'a> {
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
    fn shown(&self) -> Shown<'_> {
        let first = self.workloads.iter().find_map(|(_, compared)| compared.as_ref().ok());
        let names: Vec<&str> =
            first.map(|compared| compared.variants.iter().map(|label| &*label.name).collect()).unwrap_or_default();
        let mut columns = vec![("workload", Align::Left), ("task", Align::Left), ("figure", Align::Left)];
        columns.extend(names.iter().map(|name| (*name, Align::Right)));
        columns.push(("change", Align::Right));
        let mut shown = Shown {
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
            let mut changed: Vec<&Row> =
                compared.rows.iter().filter(|row| row.has_changed() && row.owner != "all").collect();
            changed.sort_by(|a, b| change(b).total_cmp(&change(a)));
            if changed.is_empty() {
                shown.same.push(name);
            }
            shown.left_out += changed.len().saturating_sub(ROWS_SHOWN);
            let mut label = &**name;
            for row in changed.into_iter().take(ROWS_SHOWN) {
                let mut cells = vec![label.to_owned(), row.owner.clone(), row.figure.to_owned()];
                cells.extend(row.values.iter().map(|range| super::value(row.unit, range.mean)));
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
        let Shown { names, same, not_run, .. } = self.shown();
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

/// A setting that differs between two plans, and the share of a difference that it makes alone.
#[derive(Clone, PartialEq, Debug)]
pub struct Switched {
    /// Its key.
    pub key: String,
    /// Its value in the first plan.
    pub from: String,
    /// Its value in the last plan.
    pub to: String,
    /// The share of the difference that switching it alone makes; 1 is all of it. None if the
    /// simulation refuses it alone.
    pub alone: Option<f64>,
    /// The share with this setting and those before it in the order of the answer, if it is part of
    /// the answer.
    pub together: Option<f64>,
}

/// Which settings explain the difference of a figure.
#[derive(Clone, Debug)]
pub struct Bisection {
    /// The owner and the name of the figure.
    pub figure: (String, &'static str),
    /// Its unit.
    pub unit: Unit,
    /// Its means under the first and the last variant.
    pub means: (f64, f64),
    /// All settings that differ: those of the answer first, then by their share.
    pub settings: Vec<Switched>,
    /// Whether the answer explains the difference, within [`EXPLAINED`].
    pub is_explained: bool,
}

/// The share of a difference from which it counts as explained.
pub const EXPLAINED: f64 = 0.9;

/// The least share of the difference that a further setting of an answer explains.
const GAIN: f64 = 0.02;

/// The most settings of an answer: an answer that needs more is none.
const ANSWER_MAX: usize = 6;

/// Finds the settings that explain the largest difference of a comparison of these variants. `None`
/// if no figure has changed, or no setting differs.
///
/// # Errors
/// A run failed, or `progress` ended it.
pub fn bisect(
    variants: &[Variant],
    compared: &Comparison,
    runs: u64,
    mut progress: impl FnMut(u64) -> ControlFlow<()>,
) -> Result<Option<Bisection>, Error> {
    let [first, .., last] = variants else { return Ok(None) };
    let is_known = |row: &&Row| row.has_changed() && !compared.cannot_tell(row);
    let changed = compared.rows.iter().filter(|row| is_known(row) && row.owner != "all");
    // Times first, by their difference: a large factor of microseconds matters to no user.
    let rank = |row: &Row| -> (bool, f64) {
        let by = row.values.first().zip(row.values.last()).map_or(0.0, |(first, last)| (first.mean - last.mean).abs());
        if row.unit == Unit::Ns { (true, by) } else { (false, change(row)) }
    };
    let order = |a: &&Row, b: &&Row| {
        let (a, b) = (rank(a), rank(b));
        a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
    };
    let Some(row) = changed.max_by(order) else { return Ok(None) };
    let means = (row.values[0].mean, row.values[row.values.len() - 1].mean);
    let (from, to): (BTreeMap<_, _>, BTreeMap<_, _>) =
        (first.plan.config.settings.recorded().collect(), last.plan.config.settings.recorded().collect());
    let differing: Vec<(&str, &String, &String)> = from
        .iter()
        .filter_map(|(key, before)| Some((*key, before, to.get(key)?)))
        .filter(|(_, before, after)| before != after)
        .collect();
    if differing.is_empty() {
        return Ok(None);
    }
    let mut done = 0;
    let mut share = |keys: &[(&str, &str)]| -> Result<Option<f64>, Error> {
        let mut settings: Settings = first.plan.config.settings.clone();
        if keys.iter().any(|(key, value)| settings.set(key, value).is_err()) {
            return Ok(None);
        }
        let mut plan: Plan = first.plan.clone();
        plan.config.settings = settings;
        let variant = Variant { label: Label::of_values(Vec::new(), "switched"), plan };
        let compared = run(std::slice::from_ref(&variant), runs, |run| progress(done + run));
        done += runs;
        let compared = match compared {
            Err(Error::Interrupted) => return Err(Error::Interrupted),
            Err(_) => return Ok(None),
            Ok(compared) => compared,
        };
        // A figure that is zero in all runs has no row.
        let same = compared.rows.iter().find(|other| other.owner == row.owner && other.key == row.key);
        let mean = same.and_then(|row| row.values.first()).map_or(0.0, |range| range.mean);
        Ok(Some((mean - means.0) / (means.1 - means.0)))
    };
    let mut settings = Vec::new();
    for (key, before, after) in differing {
        let alone = share(&[(key, after)])?;
        settings.push(Switched { key: key.to_owned(), from: before.clone(), to: after.clone(), alone, together: None });
    }
    settings.sort_by(|a, b| b.alone.unwrap_or(f64::NEG_INFINITY).total_cmp(&a.alone.unwrap_or(f64::NEG_INFINITY)));
    // The answer grows by the setting that explains most of the rest, the first by itself.
    let (mut answer, mut reached): (Vec<Switched>, f64) = (Vec::new(), 0.0);
    let distance = |share: f64| (1.0 - share).abs();
    let is_enough = |share: f64| distance(share) <= 1.0 - EXPLAINED;
    while answer.len() < ANSWER_MAX && !is_enough(reached) {
        let mut best: Option<(usize, f64)> = None;
        for (at, candidate) in settings.iter().enumerate() {
            let chosen = answer.iter().chain([candidate]).map(|setting| (&*setting.key, &*setting.to));
            let together = share(&chosen.collect::<Vec<_>>())?;
            best = match (best, together) {
                (Some((_, least)), Some(share)) if distance(least) <= distance(share) => best,
                (_, Some(share)) => Some((at, share)),
                (best, None) => best,
            };
        }
        // A setting that explains nothing of the rest is no part of an answer.
        let Some((at, together)) = best.filter(|(_, share)| distance(*share) + GAIN <= distance(reached)) else {
            break;
        };
        let mut setting = settings.remove(at);
        setting.together = Some(together);
        reached = together;
        answer.push(setting);
    }
    let is_explained = is_enough(reached);
    answer.append(&mut settings);
    let settings = answer;
    Ok(Some(Bisection { figure: (row.owner.clone(), row.figure), unit: row.unit, means, settings, is_explained }))
}

impl Bisection {
    /// Returns it as data.
    pub(super) fn data(&self) -> BisectedFigure<'_> {
        let settings = self.settings.iter().map(|setting| SwitchedSetting {
            key: &setting.key,
            from: &setting.from,
            to: &setting.to,
            alone_share: setting.alone,
            together_share: setting.together,
        });
        BisectedFigure {
            owner: &self.figure.0,
            figure: self.figure.1,
            unit: self.unit.name(),
            first: self.means.0,
            last: self.means.1,
            explained: self.is_explained,
            settings: settings.collect(),
        }
    }
}

impl fmt::Display for Bisection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (before, after) = (super::value(self.unit, self.means.0), super::value(self.unit, self.means.1));
        writeln!(
            f,
            "the settings behind the largest change: {} {}, {before} to {after}\n",
            self.figure.0, self.figure.1
        )?;
        let mut table = Table::new(&[
            ("setting", Align::Left),
            ("from", Align::Right),
            ("to", Align::Right),
            ("alone", Align::Right),
            ("with those above", Align::Right),
        ]);
        let percent =
            |share: Option<f64>| share.map_or_else(|| "-".to_owned(), |share| format!("{:.0}%", share * 100.0));
        let is_shown =
            |setting: &&Switched| setting.together.is_some() || setting.alone.is_some_and(|share| share.abs() >= 0.05);
        for setting in self.settings.iter().filter(is_shown) {
            table.push([
                setting.key.clone(),
                setting.from.clone(),
                setting.to.clone(),
                percent(setting.alone),
                setting.together.map_or_else(String::new, |share| percent(Some(share))),
            ]);
        }
        writeln!(f, "{table}")?;
        let rest = self.settings.iter().filter(|setting| !is_shown(setting)).count();
        if rest > 0 {
            writeln!(f, "({rest} more settings differ and change it by less than 5 % of the difference)")?;
        }
        if !self.is_explained {
            writeln!(f, "these settings together do not explain the difference: it needs more of them at a time")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Simulation, Workload};

    const TEXT: &str = "[machine]\ncpus = 1\n[task.hog]\ninstances = 2\nsteps = [{ run = \"1s\" }]\n[task.short]\n\
                        steps = [{ run = \"200us\" }, { timer = { period = \"9ms\" } }]\n";

    fn variants(key: &str, values: [&str; 2]) -> Vec<Variant> {
        let simulation = Simulation::new(Workload::toml(TEXT)).duration(zerolag_model::Duration::from_secs(2));
        Variant::per_value(&simulation, key, values).expect("it is valid")
    }

    #[test]
    fn a_change_is_traced_to_its_setting() {
        let go = |_| ControlFlow::Continue(());
        let variants = variants("kernel", ["6.1", "6.12"]);
        let compared = run(&variants, 2, go).expect("it runs");
        let found = bisect(&variants, &compared, 2, go).expect("it runs").expect("a change");
        let first = &found.settings[0];
        assert_eq!((&*first.key, &*first.from, &*first.to), ("fair", "cfs", "eevdf"), "{found}");
        assert!(found.is_explained && first.together.is_some_and(|share| share > 0.5), "{found}");
        assert!(found.settings.iter().any(|setting| setting.together.is_none()), "others make no difference: {found}");
        let ended = bisect(&variants, &compared, 2, |_| ControlFlow::Break(()));
        assert!(matches!(ended, Err(Error::Interrupted)));
    }

    #[test]
    fn one_setting_is_all_of_its_own_difference_and_no_change_needs_none() {
        let go = |_| ControlFlow::Continue(());
        let variants_of_hz = variants("hz", ["100", "1000"]);
        let compared = run(&variants_of_hz, 2, go).expect("it runs");
        let found = bisect(&variants_of_hz, &compared, 2, go).expect("it runs").expect("a change");
        assert_eq!((found.settings.len(), &*found.settings[0].key), (1, "hz"), "{found}");
        assert!(found.is_explained && found.settings[0].alone == Some(1.0), "{found}");
        let same = variants("hz", ["250", "250"]);
        let compared = run(&same, 2, go).expect("it runs");
        assert!(bisect(&same, &compared, 2, go).expect("it runs").is_none());
    }

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

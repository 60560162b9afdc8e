//! [`SuiteBisection`]: which settings explain what changes in the workloads of a suite.
//!
//! Each workload is bisected for itself, by its own largest change: the same setting can speed one
//! up and slow another down. What they have in common is the number of workloads in whose answer a
//! setting is.

use super::bisect::{Bisection, Switched, shown};
use super::suite::Suite;
use std::collections::BTreeMap;
use std::fmt;
use zerolag_report::table::{Align, Table};

/// The settings behind the largest change of each workload of a suite.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct SuiteBisection {
    /// The name of each workload that was compared, and its answer; `None` if no figure of it has
    /// changed, or no setting differs.
    pub workloads: Vec<(String, Option<Bisection>)>,
}

impl SuiteBisection {
    /// Returns the answer of a workload.
    #[must_use]
    pub fn of(&self, workload: &str) -> Option<&Bisection> {
        self.workloads.iter().find(|(name, _)| name == workload)?.1.as_ref()
    }

    /// Returns each setting that is in an answer, with its values and the number of workloads:
    /// those of most workloads first.
    #[must_use]
    pub fn settings(&self) -> Vec<(&Switched, usize)> {
        let mut found: BTreeMap<&str, (&Switched, usize)> = BTreeMap::new();
        let answers = self.workloads.iter().filter_map(|(_, bisection)| bisection.as_ref());
        for setting in answers.flat_map(|bisection| &bisection.settings).filter(|setting| setting.together.is_some()) {
            found.entry(&setting.key).or_insert((setting, 0)).1 += 1;
        }
        let mut found: Vec<_> = found.into_values().collect();
        found.sort_by_key(|(_, workloads)| core::cmp::Reverse(*workloads));
        found
    }
}

impl fmt::Display for SuiteBisection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new(&[
            ("workload", Align::Left),
            ("largest change", Align::Left),
            ("from", Align::Right),
            ("to", Align::Right),
            ("setting", Align::Left),
            ("explains", Align::Right),
        ]);
        let percent = |share: f64| format!("{:.0}%", share * 100.0);
        let mut same = Vec::new();
        for (name, bisection) in &self.workloads {
            let Some(found) = bisection else {
                same.push(&**name);
                continue;
            };
            let (from, to) = (shown(found.figure, found.means.0), shown(found.figure, found.means.1));
            let mut head = [name.clone(), format!("{} {}", found.owner, found.figure.label()), from, to];
            let answer = found.settings.iter().filter_map(|setting| Some((setting, setting.together?)));
            let change = |setting: &Switched| format!("{} = {} instead of {}", setting.key, setting.to, setting.from);
            let mut lines: Vec<_> = answer.map(|(setting, together)| (change(setting), percent(together))).collect();
            if !found.is_explained {
                lines.push(("not explained by these".to_owned(), String::new()));
            }
            for (says, share) in lines {
                let [workload, figure, from, to] = core::mem::take(&mut head);
                table.push([workload, figure, from, to, says, share]);
            }
        }
        writeln!(f, "the settings behind the largest change of each workload, with those above them:\n\n{table}")?;
        for (setting, workloads) in self.settings() {
            let plural = if workloads == 1 { "" } else { "s" };
            writeln!(f, "{} = {} is an answer for {workloads} workload{plural}", setting.key, setting.to)?;
        }
        if !same.is_empty() {
            writeln!(f, "nothing to explain: {}", same.join(", "))?;
        }
        Ok(())
    }
}

impl Suite {
    /// Returns all comparisons as JSON, each with its bisection.
    #[must_use]
    pub fn to_json_bisected<'a>(&'a self, bisected: &'a SuiteBisection) -> serde_json::Value {
        self.json(|workload| Some(bisected.of(workload)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{Variant, bisect, run};
    use crate::{Simulation, Workload};
    use core::ops::ControlFlow;

    #[test]
    fn a_suite_says_which_setting_is_behind_the_changes() {
        let go = |_| ControlFlow::Continue(());
        let hogs =
            |name: &str| format!("[machine]\ncpus = 1\n[task.{name}]\ninstances = 3\nsteps = [{{ run = \"5ms\" }}]\n");
        let idle = "[machine]\ncpus = 1\n[task.c]\nsteps = [{ run = \"1ms\" }, { sleep = \"100ms\" }]\n".to_owned();
        let (mut suite, mut bisected) = (Suite::default(), SuiteBisection::default());
        for (name, text) in [("a.toml", hogs("a")), ("b.toml", hogs("b")), ("c.toml", idle)] {
            let simulation = Simulation::new(Workload::toml(&text)).duration(zerolag_model::Duration::from_secs(1));
            let variants = Variant::per_value(&simulation, "hz", ["100", "1000"]).expect("it is valid");
            let compared = run(&variants, 2, go).expect("it runs");
            bisected.workloads.push((name.to_owned(), bisect(&variants, &compared, 2, go).expect("it runs")));
            suite.workloads.push((name.to_owned(), Ok(compared)));
        }
        let text = bisected.to_string();
        assert!(text.contains("hz = 1000 instead of 100"), "{text}");
        let (hz, workloads) = bisected.settings()[0];
        assert_eq!((&*hz.key, workloads >= 2), ("hz", true), "{text}");
        assert!(text.contains(&format!("hz = 1000 is an answer for {workloads} workloads")), "{text}");
        let json = suite.to_json_bisected(&bisected);
        assert_eq!(json["workloads"][0]["comparison"]["bisection"]["settings"][0]["key"], "hz", "{json}");
        assert!(suite.to_json()["workloads"][0]["comparison"].get("bisection").is_none());
    }
}

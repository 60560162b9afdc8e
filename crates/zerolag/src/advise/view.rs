//! Advice as a table, as JSON, and as the sentence for a ticket.

use super::{Advice, Alternative, Change, Tally};
use crate::document::{self, Document};
use crate::goals::{GoalResult, Verdict};
use crate::limit::Limit;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use std::fmt;
use zerolag_model::Duration;
use zerolag_report::human::Human;
use zerolag_report::table::{Align, Table, Titled};
use zerolag_workload::limits::milli_text;
use zerolag_workload::origin::CANNOT_TELL;

/// The result of `zerolag advise` for a workload or a trace.
pub(crate) const DOCUMENT: Document = Document::of::<AdviceGiven<'_>>(SCHEMA, "advise");
const SCHEMA: &str = "zerolag.advise.v1";

/// The smallest limit, burst and number of workers for a goal.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct AdviceGiven<'a> {
    /// The name and version of this form.
    #[schemars(extend("const" = SCHEMA))]
    schema: &'static str,
    /// The goals, as written.
    goals: Vec<&'a str>,
    /// The path of the group; null if there is none.
    group: Option<&'a str>,
    /// The runs of the search; as many others follow.
    seeds: u64,
    /// The seed of the first run; each further run adds 1.
    seed: u64,
    /// The share of runs that is allowed to miss a goal.
    allowed_risk: f64,
    /// Of an imported workload: the relative error of its simulation.
    base_error: Option<f64>,
    /// The number of CPUs.
    cpus: usize,
    /// The present state first, then what was searched for.
    alternatives: Vec<AdvisedAlternative<'a>>,
    /// The changes that are not enough alone, at any value.
    not_enough: Vec<&'static str>,
    /// The index of the chosen alternative; null if none meets the goals.
    choice: Option<usize>,
    /// Whether the goals are missed even without a limit.
    is_not_the_limit: bool,
    /// The sentence for a ticket.
    ticket: String,
}

/// A value that was searched for, or a state.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct AdvisedAlternative<'a> {
    /// What is turned.
    change: &'static str,
    /// The limit of the group.
    limit: Option<&'a Limit>,
    /// The threads of the service.
    workers: Option<u32>,
    /// Whether the goals are met as often as asked, with the seeds of the search.
    met: bool,
    /// Whether the effect is below the base error: then nothing is known.
    below_base_error: bool,
    /// The share of the other runs that miss a goal.
    risk: f64,
    /// The most CPUs that the group can take from others within a period.
    peak_cpus: f64,
    /// The runs of the search.
    searched: RunTally<'a>,
    /// The runs with other seeds.
    others: RunTally<'a>,
}

/// How many runs missed a goal.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct RunTally<'a> {
    /// Runs.
    runs: u64,
    /// Of these, runs that missed a goal.
    missed: u64,
    /// The goals, with the figure of the worst run.
    worst: Vec<GoalResult<'a>>,
    /// The CPU time of the group, or of all tasks, as a number of CPUs: mean of the runs.
    used_cpus: f64,
}

impl Tally {
    fn data(&self) -> RunTally<'_> {
        let worst = self.worst.iter().map(Verdict::data).collect();
        RunTally { runs: self.runs, missed: self.missed, worst, used_cpus: self.used_cpus }
    }
}

impl Advice {
    /// Returns the chosen alternative.
    #[must_use]
    pub fn chosen(&self) -> Option<&Alternative> {
        self.alternatives.get(self.choice?)
    }

    /// Returns whether the goals are missed even without a limit.
    #[must_use]
    pub fn is_not_the_limit(&self) -> bool {
        self.alternatives.iter().any(|alternative| alternative.change == Change::NoLimit && !alternative.is_met)
    }

    /// Returns the sentence for a ticket.
    #[must_use]
    pub fn ticket(&self) -> String {
        let Some(now) = self.alternatives.first() else { return String::new() };
        let goals: Vec<&str> = self.goals.iter().map(|goal| &*goal.text).collect();
        let goals = goals.join(" and ");
        let of = self.group.as_deref().unwrap_or("the workload");
        let simulated = self.duration.map_or_else(String::new, |duration| format!(" of {}", length(duration)));
        let seen = |tally: &Tally| format!("{} of {}", tally.missed, tally.runs);
        let Some(chosen) = self.chosen() else {
            if self.is_not_the_limit() {
                return format!(
                    "A larger CPU limit of {of} does not help: without any limit \"{goals}\" is missed in {} simulated \
                     runs{simulated}, too.",
                    self.alternatives.get(1).map_or_else(String::new, |without| seen(&without.searched))
                );
            }
            return format!("No value that was tried meets \"{goals}\" for {of}.");
        };
        let figures = |alternative: &Alternative| {
            let all = alternative.searched.worst.iter();
            all.map(Verdict::figure_text).collect::<Vec<_>>().join(" and ")
        };
        let what = match (chosen.change, &chosen.limit) {
            (Change::AsItIs, _) => format!("Leave the limit of {of} as it is"),
            (Change::Workers, _) => {
                let (now, then) = (now.workers.unwrap_or_default(), chosen.workers.unwrap_or_default());
                format!("Run {then} workers instead of {now} in {of}")
            }
            (_, Some(limit)) => {
                let milli = limit.limits_cpu_milli.map(milli_text).unwrap_or_default();
                let quota = limit.quota_us.unwrap_or_default();
                let kubernetes = if limit.burst_us == 0 {
                    format!("Kubernetes: limits.cpu {milli}")
                } else {
                    format!("limits.cpu {milli}; Kubernetes has no field for the burst")
                };
                let burst = if limit.burst_us == 0 {
                    String::new()
                } else {
                    format!(" and cpu.max.burst to {}", limit.burst_us)
                };
                format!("Set cpu.max of {of} to \"{quota} {}\"{burst} ({kubernetes})", limit.period_us)
            }
            (_, None) => format!("Change {of}"),
        };
        let before = match chosen.change {
            Change::AsItIs => String::new(),
            _ => format!(", {} today", figures(now)),
        };
        format!(
            "{what}: the worst of {} simulated runs{simulated} is {} for \"{goals}\"{before}; {} other runs miss. It uses {:.2} \
             CPUs on average.",
            chosen.searched.runs,
            figures(chosen),
            seen(&chosen.others),
            chosen.searched.used_cpus
        )
    }

    /// Returns the alternatives with their names, and what a reader must know of them.
    #[must_use]
    pub fn titled(&self) -> Titled {
        let mut text = vec![
            format!("{} runs each; the figures are those of the worst run.", self.seeds),
            "\u{201c}Other seeds\u{201d} took no part in the search: their misses are the risk. \u{201c}At most\u{201d} is \
             what the group can take from others within one period."
                .to_owned(),
        ];
        text.extend(self.not_enough_text());
        text.extend(self.base_error_text());
        Titled::new("Alternatives", text.join(" "), self.table("chosen").name(0, "choice").name(1, "change"))
    }

    /// Returns the alternatives; `chosen` marks the chosen one.
    fn table(&self, chosen: &str) -> Table {
        let has_workers = self.alternatives.iter().any(|alternative| alternative.workers.is_some());
        let goals: Vec<&str> = self.goals.iter().map(|goal| &*goal.text).collect();
        let mut heads =
            vec![("", Align::Left), ("", Align::Left), ("cpu.max", Align::Left), ("limits.cpu", Align::Right)];
        if has_workers {
            heads.push(("workers", Align::Right));
        }
        heads.extend(goals.iter().map(|goal| (*goal, Align::Right)));
        heads.extend([("missed", Align::Right), ("other seeds", Align::Right), ("at most", Align::Right)]);
        let mut table = Table::new(&heads);
        for (at, alternative) in self.alternatives.iter().enumerate() {
            let limit = alternative.limit.as_ref().filter(|limit| limit.quota_us.is_some());
            let mut row = vec![
                if self.choice == Some(at) { chosen } else { "" }.to_owned(),
                alternative.change.name().to_owned(),
                limit.map_or_else(|| "max".to_owned(), |limit| limit.cpu_max.clone()),
                limit.and_then(|limit| limit.limits_cpu_milli).map_or_else(|| "-".to_owned(), milli_text),
            ];
            if has_workers {
                row.push(alternative.workers.map_or_else(|| "-".to_owned(), |count| count.to_string()));
            }
            let is_unknown = alternative.is_below_base_error;
            row.extend(alternative.searched.worst.iter().map(Verdict::figure_text));
            row.push(if is_unknown {
                CANNOT_TELL.to_owned()
            } else {
                format!("{} of {}", alternative.searched.missed, alternative.searched.runs)
            });
            row.push(format!("{} of {}", alternative.others.missed, alternative.others.runs));
            row.push(format!("{:.1} CPUs", alternative.peak_cpus(self.nr_cpus)));
            table.push(row);
        }
        table
    }

    fn not_enough_text(&self) -> Option<String> {
        let names: Vec<&str> = self.not_enough.iter().map(|change| change.name()).collect();
        (!names.is_empty()).then(|| format!("Not enough alone, at any value: {}.", names.join(", ")))
    }

    fn base_error_text(&self) -> Option<String> {
        let base = self.base_error? * 100.0;
        if base.is_infinite() {
            let why = "no wait was recorded, so the effect of every change is \"cannot tell\"";
            return Some(format!("The base error of this import is unknown: {why}."));
        }
        Some(format!(
            "The base error of this import is {base:.0} %: a change whose figures differ by less is \"cannot tell\"."
        ))
    }

    /// Returns the advice as JSON.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let alternatives = self.alternatives.iter().map(|alternative| AdvisedAlternative {
            change: alternative.change.name(),
            limit: alternative.limit.as_ref(),
            workers: alternative.workers,
            met: alternative.is_met,
            below_base_error: alternative.is_below_base_error,
            risk: alternative.others.risk(),
            peak_cpus: alternative.peak_cpus(self.nr_cpus),
            searched: alternative.searched.data(),
            others: alternative.others.data(),
        });
        document::value(&AdviceGiven {
            schema: SCHEMA,
            goals: self.goals.iter().map(|goal| &*goal.text).collect(),
            group: self.group.as_deref(),
            seeds: self.seeds,
            seed: self.first_seed,
            allowed_risk: self.risk,
            base_error: self.base_error,
            cpus: self.nr_cpus,
            alternatives: alternatives.collect(),
            not_enough: self.not_enough.iter().map(|change| change.name()).collect(),
            choice: self.choice,
            is_not_the_limit: self.is_not_the_limit(),
            ticket: self.ticket(),
        })
    }
}

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let goals: Vec<&str> = self.goals.iter().map(|goal| &*goal.text).collect();
        let last = self.first_seed.wrapping_add(self.seeds.saturating_sub(1));
        write!(f, "{}: {} runs each, seeds {}..={last}", goals.join(", "), self.seeds, self.first_seed)?;
        match self.duration {
            Some(duration) => writeln!(f, ", {} simulated\n", Human(duration))?,
            None => writeln!(f, "\n")?,
        }
        writeln!(f, "{}", self.table("=>"))?;
        if let Some(names) = self.not_enough_text() {
            writeln!(f, "{names}")?;
        }
        writeln!(
            f,
            "The figures are those of the worst run. \"other seeds\" took no part in the search: their misses are the risk. \"at most\":\n\
             what the group can take from others within one period."
        )?;
        if let Some(base) = self.base_error_text() {
            writeln!(f, "{base}")?;
        }
        writeln!(f, "\n{}", self.ticket())
    }
}

/// Returns the length of runs for a sentence: that of an import has nanoseconds that say nothing.
fn length(duration: Duration) -> String {
    if duration.as_nanos().is_multiple_of(1_000_000) { duration.to_string() } else { Human(duration).to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_short() {
        assert_eq!(length(Duration::from_secs(60)), "60s");
        assert_eq!(length(Duration::from_nanos(7_998_123_433)), "8.00s");
    }
}

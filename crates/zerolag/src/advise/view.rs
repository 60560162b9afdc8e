//! Advice as a table, as JSON, and as the sentence for a ticket.

use super::{Advice, Alternative, Change};
use crate::document::{self, Document};
use crate::goals::{GoalResult, Verdict};
use crate::limit::Limit;
use crate::risk::{Above, Below, CONFIDENCE, Misses, RUNS_MAX, Rule, Settled};
use crate::sweep::judge::{Judged, Tally};
use crate::sweep::search::missed;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use std::fmt;
use zerolag_model::Duration;
use zerolag_report::human::Human;
use zerolag_report::table::{Align, Table, Titled};
use zerolag_workload::limits::{milli_text, notations};
use zerolag_workload::origin::CANNOT_TELL;

/// The result of `zerolag advise` for a workload or a trace.
pub(crate) const DOCUMENT: Document = Document::of::<AdviceGiven<'_>>(SCHEMA, "advise");
const SCHEMA: &str = "zerolag.advise.v2";

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
    /// The seeds of a search. A value that they let pass is judged by further seeds.
    seeds: u64,
    /// The seed of the first run; each further run adds 1.
    seed: u64,
    /// The share of all seeds that is allowed to miss a goal.
    allowed_risk: f64,
    /// The confidence of each answer.
    confidence: f64,
    /// The most fresh seeds of a value.
    most: u64,
    /// Of an imported workload: the relative error of its simulation.
    base_error: Option<f64>,
    /// The number of CPUs.
    cpus: usize,
    /// The present state first, then what was searched for.
    alternatives: Vec<AdvisedAlternative<'a>>,
    /// The changes that are not enough alone, at any value.
    not_enough: Vec<&'static str>,
    /// The changes for which more runs than allowed would be needed.
    not_settled: Vec<&'static str>,
    /// Whether a run also misses in which tasks compute less, or services answer fewer requests,
    /// than today.
    counts_work: bool,
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
    /// Whether the goals are met as often as asked.
    met: bool,
    /// The same in words: `met`, `missed` or `not settled`.
    state: &'static str,
    /// Whether the effect is below the base error: then nothing is known.
    below_base_error: bool,
    /// The share of the judging runs that miss a goal.
    risk: f64,
    /// What the true share is below.
    share_below: Option<f64>,
    /// The CPU time of the group, or of all tasks, as a number of CPUs: mean of the runs.
    used_cpus: f64,
    /// The most CPUs that the group can take from others within a period.
    peak_cpus: f64,
    /// The runs with the seeds of the search. They judge a state that was not searched for, too.
    searched: RunTally<'a>,
    /// The runs with fresh seeds.
    fresh: RunTally<'a>,
}

/// How many runs missed a goal.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct RunTally<'a> {
    /// The runs, and how many of them missed a goal.
    #[serde(flatten)]
    misses: Misses,
    /// The goals, with the figure of the worst run.
    worst: Vec<GoalResult<'a>>,
}

fn data(tally: &Tally) -> RunTally<'_> {
    RunTally { misses: tally.misses, worst: tally.worst.iter().map(Verdict::data).collect() }
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
        let is_missed = |judged: &Judged| judged.settled == Some(Settled::Missed);
        self.alternatives
            .iter()
            .any(|alternative| alternative.change == Change::NoLimit && is_missed(&alternative.judged))
    }

    /// Returns the sentence for a ticket.
    #[must_use]
    pub fn ticket(&self) -> String {
        let (what, why) = self.ticket_parts();
        why.map_or_else(|| what.clone(), |why| format!("{}: {why}", what.trim_end_matches('.')))
    }

    /// Returns the ticket as what to do, and why; without a choice it is one sentence.
    pub(crate) fn ticket_parts(&self) -> (String, Option<String>) {
        let Some(now) = self.alternatives.first() else { return (String::new(), None) };
        let goals: Vec<&str> = self.goals.iter().map(|goal| &*goal.text).collect();
        let goals = goals.join(" and ");
        let simulated = self.duration.map_or_else(String::new, |duration| format!(" of {}", length(duration)));
        let Some(chosen) = self.chosen() else {
            let unlike = self.unlike.as_ref().map(|unlike| format!(" Nothing is promised: {unlike}."));
            return (self.no_choice(&goals, &simulated) + &unlike.unwrap_or_default(), None);
        };
        let figures = |alternative: &Alternative| {
            alternative.judged.worst().iter().map(Verdict::figure_text).collect::<Vec<_>>().join(" and ")
        };
        let before = match chosen.change {
            Change::AsItIs => String::new(),
            _ => format!(", {} today", figures(now)),
        };
        let why = format!(
            "{} (runs{simulated}, \"{goals}\"). The worst of all runs, those of the search included, is {}{before}. It uses {:.2} CPUs on average.",
            chosen.judged.says(),
            figures(chosen),
            chosen.used_cpus()
        );
        (format!("{}.", self.what(now, chosen)), Some(why))
    }

    /// Returns what to set, as the kernel and as Kubernetes are told; `None` if no limit is to be
    /// changed.
    pub(crate) fn settings(&self) -> Option<String> {
        let chosen = self.chosen().filter(|chosen| !matches!(chosen.change, Change::AsItIs | Change::Workers))?;
        let limit = chosen.limit.as_ref()?;
        let mut settings = vec![format!("cpu.max = {} {}", limit.quota_us?, limit.period_us)];
        settings.extend((limit.burst_us > 0).then(|| format!("cpu.max.burst = {}", limit.burst_us)));
        settings.extend(limit.limits_cpu_milli.map(|milli| format!("limits.cpu: {}", milli_text(milli))));
        Some(settings.join("; "))
    }

    /// Returns what is left open, and what would narrow it.
    pub(crate) fn narrowing(&self) -> Titled {
        let mut table = Table::new(&[("open", Align::Left), ("what would narrow it", Align::Left)]);
        let mut push = |open: String, how: String| table.push([open, how]);
        let (rule, twice) = (self.rule, self.rule.most().saturating_mul(2).min(RUNS_MAX));
        for change in &self.not_settled {
            let open = format!("whether the goals can be met by: {}", change.name());
            push(open, format!("more runs of a value (--most {twice}), or a larger --risk"));
        }
        if self.is_not_the_limit() {
            let how = "`zerolag explain`: it names the causes of the waits";
            push("what keeps the goals from being met without a limit".to_owned(), how.to_owned());
        }
        match self.base_error.map(|base| base * 100.0) {
            None => {}
            Some(base) if base.is_infinite() => {
                let how = "a recording with waits: longer, or under load";
                push("how well the import behaves like the recorded machine".to_owned(), how.to_owned());
            }
            Some(base) => push(
                format!("effects below the base error of this import, {base:.0} %"),
                "a longer recording; `zerolag validate` shows where the import differs".to_owned(),
            ),
        }
        let smaller = rule.risk() / 5.0;
        if let Ok(needs) = Rule::new(smaller, None, None).map(|rule| rule.needs()) {
            push(
                format!("which seeds miss: up to {} of all may", Below(rule.risk())),
                format!(
                    "--risk {}: {needs} runs of a value without a miss",
                    Below(smaller).to_string().replace(' ', "")
                ),
            );
        }
        if let Some(duration) = self.duration {
            let open = format!("how much a figure differs between runs of {}", length(duration));
            push(
                open,
                "longer runs (--duration): each then has more requests, and its percentiles differ less".to_owned(),
            );
        }
        Titled::new("What would narrow it", "", table)
    }

    /// Returns what the limit or the workers are of.
    fn of(&self) -> &str {
        self.group.as_deref().unwrap_or("the workload")
    }

    /// Returns what to do.
    fn what(&self, now: &Alternative, chosen: &Alternative) -> String {
        let of = self.of();
        match (chosen.change, &chosen.limit) {
            (Change::AsItIs, _) if self.group.is_some() => format!("Leave the limit of {of} as it is"),
            (Change::AsItIs, _) => format!("Leave {of} as it is"),
            (Change::Workers, _) => {
                let (now, then) = (now.workers.unwrap_or_default(), chosen.workers.unwrap_or_default());
                let workers = if then == 1 { "worker" } else { "workers" };
                format!("Run {then} {workers} of {} instead of {now}", self.service.as_deref().unwrap_or(of))
            }
            (_, Some(limit)) => {
                let milli = limit.limits_cpu_milli.map(notations).unwrap_or_default();
                let quota = limit.quota_us.unwrap_or_default();
                let (burst, kubernetes) = match limit.burst_us {
                    0 => (String::new(), milli),
                    burst => (
                        format!(" and cpu.max.burst to {burst}"),
                        format!("{milli}; Kubernetes has no field for the burst"),
                    ),
                };
                format!("Set cpu.max of {of} to \"{quota} {}\"{burst} ({kubernetes})", limit.period_us)
            }
            (_, None) => format!("Change {of}"),
        }
    }

    /// Returns why there is no choice.
    fn no_choice(&self, goals: &str, simulated: &str) -> String {
        let of = self.of();
        let without = self.alternatives.iter().find(|alternative| alternative.change == Change::NoLimit);
        if let Some(without) = without.filter(|_| self.is_not_the_limit()) {
            return format!(
                "A larger CPU limit of {of} does not help: without any limit \"{goals}\" is missed, too: in {}, so that the true share is above \
                 {} with {:.0} % confidence (runs{simulated}).",
                missed(without.judged.judging()),
                Above(without.judged.share_above().unwrap_or_default()),
                100.0 * CONFIDENCE
            );
        }
        if self.unlike.is_some() && self.not_settled.is_empty() && self.alternatives.iter().any(Alternative::is_met) {
            return format!("Cannot tell which setting of {of} meets \"{goals}\".");
        }
        let named = |changes: &[Change]| changes.iter().map(|change| change.name()).collect::<Vec<_>>().join(", ");
        if self.not_settled.is_empty() {
            return format!("No value that was tried meets \"{goals}\" for {of}.");
        }
        let unlimited = without.filter(|without| without.judged.settled == Some(Settled::Open));
        let unlimited =
            unlimited.map_or_else(String::new, |without| format!(" Without a limit {}.", without.judged.says()));
        format!(
            "Not settled for {of}: whether fewer than {} of all seeds miss \"{goals}\" needs more than {} runs of a value ({}). \
             --most allows more, a larger --risk needs fewer.{unlimited}",
            Below(self.rule.risk()),
            self.rule.most(),
            named(&self.not_settled)
        )
    }

    /// Returns the alternatives with their names, and what a reader must know of them.
    #[must_use]
    pub fn titled(&self) -> Titled {
        let mut text = vec![
            self.how(),
            "\u{201c}Fresh seeds\u{201d} took no part in the search. \u{201c}At most\u{201d} is what the group can take from \
             others within one period. The figures are those of the worst run."
                .to_owned(),
        ];
        text.extend(self.not_enough_text());
        text.extend(self.base_error_text());
        Titled::new("Alternatives", text.join(" "), self.table("chosen", ["choice", "change", "goals"]))
    }

    /// Returns how values are judged.
    fn how(&self) -> String {
        let rule = self.rule;
        let mut text = format!(
            "Met: fewer than {} of all seeds miss, with {:.0} % confidence. Values are searched for with seeds {} to {} and judged by \
             fresh ones, {} without a miss and at most {}.",
            Below(rule.risk()),
            100.0 * CONFIDENCE,
            self.first_seed,
            self.first_seed.wrapping_add(rule.search() - 1),
            rule.needs(),
            rule.most()
        );
        if self.counts_work {
            text.push_str(" A run also misses in which less is done than today.");
        }
        text
    }

    /// Returns the alternatives; `chosen` marks the chosen one. A page has room for names of the
    /// columns whose cells are words.
    fn table(&self, chosen: &str, [choice, change, state]: [&str; 3]) -> Table {
        let has_workers = self.alternatives.iter().any(|alternative| alternative.workers.is_some());
        let goals: Vec<&str> = self.goals.iter().map(|goal| &*goal.text).collect();
        let mut heads = vec![(choice, Align::Left), (change, Align::Left), ("cpu.max", Align::Left)];
        heads.push(("limits.cpu", Align::Right));
        if has_workers {
            heads.push(("workers", Align::Right));
        }
        heads.extend(goals.iter().map(|goal| (*goal, Align::Right)));
        let judged = [
            (state, Align::Left),
            ("search", Align::Right),
            ("fresh seeds", Align::Right),
            ("true share", Align::Right),
        ];
        heads.extend(judged.into_iter().chain([("at most", Align::Right)]));
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
            let judged = &alternative.judged;
            row.extend(judged.worst().iter().map(Verdict::figure_text));
            row.push(match judged.settled {
                _ if alternative.is_below_base_error => CANNOT_TELL.to_owned(),
                Some(settled) => settled.name().to_owned(),
                None => String::new(),
            });
            row.extend([missed(judged.searched.misses), missed(judged.fresh.misses)]);
            row.push(
                match judged.settled {
                    Some(Settled::Missed) => judged.share_above().map(|share| format!("> {}", Above(share))),
                    Some(Settled::Met | Settled::Open) | None => {
                        judged.share_below().map(|share| format!("< {}", Below(share)))
                    }
                }
                .unwrap_or_else(|| "-".to_owned()),
            );
            row.push(format!("{:.1} CPUs", alternative.peak_cpus(self.nr_cpus)));
            table.push(row);
        }
        table
    }

    fn not_enough_text(&self) -> Option<String> {
        let names: Vec<&str> = self.not_enough.iter().map(|change| change.name()).collect();
        let unsettled: Vec<&str> = self.not_settled.iter().map(|change| change.name()).collect();
        let lines = [("Not enough alone, at any value", names), ("Not settled", unsettled)];
        let lines: Vec<String> = lines
            .iter()
            .filter(|(_, names)| !names.is_empty())
            .map(|(says, names)| format!("{says}: {}.", names.join(", ")))
            .collect();
        (!lines.is_empty()).then(|| lines.join(" "))
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
            met: alternative.is_met(),
            state: alternative.judged.settled.map_or("", Settled::name),
            below_base_error: alternative.is_below_base_error,
            risk: alternative.judged.judging().share(),
            share_below: alternative.judged.share_below(),
            used_cpus: alternative.used_cpus(),
            peak_cpus: alternative.peak_cpus(self.nr_cpus),
            searched: data(&alternative.judged.searched),
            fresh: data(&alternative.judged.fresh),
        });
        document::value(&AdviceGiven {
            schema: SCHEMA,
            goals: self.goals.iter().map(|goal| &*goal.text).collect(),
            group: self.group.as_deref(),
            seeds: self.rule.search(),
            seed: self.first_seed,
            allowed_risk: self.rule.risk(),
            confidence: CONFIDENCE,
            most: self.rule.most(),
            base_error: self.base_error,
            cpus: self.nr_cpus,
            alternatives: alternatives.collect(),
            not_enough: self.not_enough.iter().map(|change| change.name()).collect(),
            not_settled: self.not_settled.iter().map(|change| change.name()).collect(),
            counts_work: self.counts_work,
            choice: self.choice,
            is_not_the_limit: self.is_not_the_limit(),
            ticket: self.ticket(),
        })
    }
}

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let goals: Vec<&str> = self.goals.iter().map(|goal| &*goal.text).collect();
        write!(f, "{}", goals.join(", "))?;
        match self.duration {
            Some(duration) => writeln!(f, ", {} simulated per run\n", Human(duration))?,
            None => writeln!(f, "\n")?,
        }
        writeln!(f, "{}", self.table("=>", [""; 3]))?;
        if let Some(names) = self.not_enough_text() {
            writeln!(f, "{names}")?;
        }
        writeln!(f, "{}", self.how())?;
        writeln!(
            f,
            "The figures are those of the worst run. \"at most\": what the group can take from others within one period."
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

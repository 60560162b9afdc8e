//! Advice as a table, as JSON, and as the sentence for a ticket.

use super::{Advice, Alternative, Change, Tally};
use crate::goals::Verdict;
use serde_json::{Value, json};
use std::fmt;
use zerolag_report::human::Human;
use zerolag_report::table::{Align, Table};
use zerolag_workload::limits::milli_text;

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
        let simulated = self.duration.map_or_else(String::new, |duration| format!(" of {duration}"));
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

    /// Returns the advice as JSON.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let tally = |tally: &Tally| {
            let figures: Vec<Value> = tally.worst.iter().map(Verdict::to_json).collect();
            json!({ "runs": tally.runs, "missed": tally.missed, "worst": figures, "used_cpus": tally.used_cpus })
        };
        let alternative = |alternative: &Alternative| {
            json!({
                "change": alternative.change.name(),
                "limit": alternative.limit,
                "workers": alternative.workers,
                "met": alternative.is_met,
                "below_base_error": alternative.is_below_base_error,
                "risk": alternative.others.risk(),
                "peak_cpus": alternative.peak_cpus(self.nr_cpus),
                "searched": tally(&alternative.searched),
                "others": tally(&alternative.others),
            })
        };
        json!({
            "schema": "zerolag.advise.v1",
            "goals": self.goals.iter().map(|goal| &*goal.text).collect::<Vec<_>>(),
            "group": self.group,
            "seeds": self.seeds,
            "seed": self.first_seed,
            "allowed_risk": self.risk,
            "base_error": self.base_error,
            "cpus": self.nr_cpus,
            "alternatives": self.alternatives.iter().map(alternative).collect::<Vec<_>>(),
            "not_enough": self.not_enough.iter().map(|change| change.name()).collect::<Vec<_>>(),
            "choice": self.choice,
            "is_not_the_limit": self.is_not_the_limit(),
            "ticket": self.ticket(),
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
        let has_workers = self.alternatives.iter().any(|alternative| alternative.workers.is_some());
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
                if self.choice == Some(at) { "=>" } else { "" }.to_owned(),
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
                "cannot tell".to_owned()
            } else {
                format!("{} of {}", alternative.searched.missed, alternative.searched.runs)
            });
            row.push(format!("{} of {}", alternative.others.missed, alternative.others.runs));
            row.push(format!("{:.1} CPUs", alternative.peak_cpus(self.nr_cpus)));
            table.push(row);
        }
        writeln!(f, "{table}")?;
        if !self.not_enough.is_empty() {
            let names: Vec<&str> = self.not_enough.iter().map(|change| change.name()).collect();
            writeln!(f, "Not enough alone, at any value: {}.", names.join(", "))?;
        }
        writeln!(
            f,
            "The figures are those of the worst run. \"other seeds\" took no part in the search: their misses are the risk. \"at most\":\n\
             what the group can take from others within one period."
        )?;
        if let Some(base) = self.base_error {
            writeln!(
                f,
                "The base error of this import is {:.0} %: a change whose figures differ by less is \"cannot tell\".",
                base * 100.0
            )?;
        }
        writeln!(f, "\n{}", self.ticket())
    }
}

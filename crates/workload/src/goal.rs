//! Goals: figures that a run must reach, stated in the scenario.
//!
//! A goal compares a figure with a value: `"audio.lateness.max <= 200us"`. The figure is prefixed
//! by the name of a task, a service or the path of a group, as in the scenario, or by `*` for all.
//! For several threads, services or groups the worst value counts; for shares and run times it is
//! the sum. Figures of services and groups can stand without a prefix:
//! `"request_latency.p99 <= 20ms"`. Which figures there are is in [`zerolag_model::figure`]; the
//! program that runs the scenario computes them and reports missed goals.

use core::fmt;
use zerolag_model::figure::Figure;

/// How a figure is compared with the value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Relation {
    /// `<`
    Below,
    /// `<=`
    AtMost,
    /// `>`
    Above,
    /// `>=`
    AtLeast,
}

impl Relation {
    /// Longer signs first: `<` is a prefix of `<=`.
    const TABLE: [(&'static str, Self); 4] =
        [("<=", Self::AtMost), (">=", Self::AtLeast), ("<", Self::Below), (">", Self::Above)];

    /// Returns whether a figure meets the goal.
    #[must_use]
    pub const fn holds(self, figure: u64, value: u64) -> bool {
        match self {
            Self::Below => figure < value,
            Self::AtMost => figure <= value,
            Self::Above => figure > value,
            Self::AtLeast => figure >= value,
        }
    }
}

/// A stated goal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Goal {
    /// Its text.
    pub text: String,
    /// The task, service or group; `None` is all.
    pub task: Option<String>,
    /// The figure.
    pub figure: Figure,
    /// The comparison.
    pub relation: Relation,
    /// The value, in the smallest unit of the figure.
    pub value: u64,
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl Goal {
    /// Reads a goal.
    ///
    /// # Errors
    /// The mistake, and a valid form.
    pub fn parse(text: &str) -> Result<Self, (String, Option<String>)> {
        let example = || Some("write \"audio.lateness.max <= 200us\"".to_owned());
        let found = Relation::TABLE.iter().find_map(|(sign, relation)| {
            text.split_once(sign).map(|(figure, value)| (figure.trim(), *relation, value.trim()))
        });
        let Some((figure, relation, value)) = found else {
            return Err((format!("goal \"{text}\" has no comparison"), example()));
        };
        let (task, figure) = Figure::parse(figure).map_err(|help| {
            let figure = figure.to_owned();
            (format!("goal \"{text}\": there is no figure `{figure}`"), Some(help))
        })?;
        let value = value.trim_matches('"');
        let value = figure.unit().read(value).map_err(|reason| (format!("goal \"{text}\": {reason}"), None))?;
        Ok(Self { text: text.to_owned(), task, figure, relation, value })
    }

    /// Returns whether more of its figure is wanted.
    #[must_use]
    pub const fn wants_more(&self) -> bool {
        match self.relation {
            Relation::Above | Relation::AtLeast => true,
            Relation::Below | Relation::AtMost => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerolag_model::figure::{P99, Quantity};

    #[test]
    fn goals_are_figure_relation_and_value() {
        let goal = Goal::parse("audio.lateness.max <= \"200us\"").expect("a goal");
        assert_eq!(
            (goal.task.as_deref(), goal.figure, goal.relation),
            (Some("audio"), Quantity::LatenessMax.into(), Relation::AtMost)
        );
        assert_eq!(goal.value, 200_000);
        let goal = Goal::parse("request_latency.p99 <= \"20ms\"").expect("a goal of all services");
        let p99 = Figure::new(Quantity::RequestLatency, P99);
        assert_eq!((goal.task.as_deref(), goal.figure, goal.value), (None, p99, 20_000_000));
        let goal = Goal::parse("web.request_latency.p99.9 < 1s").expect("a goal of a service");
        assert_eq!((goal.task.as_deref(), &*goal.figure.key()), (Some("web"), "request_latency.p99.9"));
        let goal = Goal::parse("web.queued.p99.5 < 1s").expect("any percentile");
        assert_eq!((goal.task.as_deref(), &*goal.figure.key()), (Some("web"), "queued.p99.5"));
        let goal = Goal::parse("/web/api.nr_throttled <= 3").expect("a goal of a group");
        assert_eq!((goal.task.as_deref(), goal.figure), (Some("/web/api"), Quantity::NrThrottled.into()));
        let goal = Goal::parse("a.b.share>=12.5%").expect("names may hold dots");
        assert_eq!((goal.task.as_deref(), goal.relation, goal.value), (Some("a.b"), Relation::AtLeast, 125_000));
        assert_eq!(Goal::parse("*.timers.missed < 1").expect("a goal").task, None);
        for (text, message, help) in [
            ("audio.lateness.max", "has no comparison", "write \"audio.lateness.max <= 200us\""),
            ("audio.latnesss.max <= 1ms", "no figure `audio.latnesss.max`", "did you mean `lateness.max`?"),
            ("run <= 1ms", "no figure `run`", "write TASK.run, or *.run for all"),
            ("request_latency.p100 <= 1ms", "no figure", "above p0 and below p100"),
            ("a.run <= 5", "`5`", ""),
            ("a.preemptions <= 1ms", "`1ms` is not a whole number", ""),
            ("a.share >= much", "`much` is not a share", ""),
        ] {
            let (said, helped) = Goal::parse(text).expect_err(text);
            assert!(said.contains(message), "{said}");
            assert!(helped.unwrap_or_default().contains(help), "{text}");
        }
    }

    #[test]
    fn relations_hold_at_their_ends() {
        let holds = |text: &str, figure| Goal::parse(text).is_ok_and(|goal| goal.relation.holds(figure, goal.value));
        assert!(holds("a.migrations <= 3", 3) && !holds("a.migrations < 3", 3));
        assert!(holds("a.migrations >= 3", 3) && !holds("a.migrations > 3", 3));
    }
}

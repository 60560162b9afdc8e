//! Goals: figures that a run must reach, stated in the scenario.
//!
//! A goal compares a figure with a value: `"audio.lateness.max <= 200us"`. The figure is prefixed
//! by the name of a task, a service or the path of a group, as in the scenario, or by `*` for all.
//! For several threads, services or groups the worst value counts; for shares and run times it is
//! the sum. Figures of services and groups may stand without a prefix:
//! `"request_latency.p99 <= 20ms"`. The program that runs the scenario computes the figures and
//! reports missed goals.

use core::fmt;
use zerolag_model::Duration;
use zerolag_model::settings::nearest;

/// A figure that goals can use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Metric {
    /// The longest time for which it was runnable and did not run.
    WaitMax,
    /// The sum of these times.
    WaitTotal,
    /// The median time from a waking until it ran.
    LatencyP50,
    /// One in a hundred of these times is longer.
    LatencyP99,
    /// The longest of these times.
    LatencyMax,
    /// The longest time by which it was late for a timer of its program.
    LatenessMax,
    /// Timers that were already due when it started to wait.
    TimersMissed,
    /// CPU time.
    Run,
    /// CPU time as a share of one CPU.
    Share,
    /// How many times it was preempted.
    Preemptions,
    /// Migrations between CPUs.
    Migrations,
    /// The mean time from the intended arrival of a request to its end.
    RequestMean,
    /// The median of these times.
    RequestP50,
    /// One in ten of these times is longer.
    RequestP90,
    /// One in a hundred of these times is longer.
    RequestP99,
    /// One in a thousand of these times is longer.
    RequestP999,
    /// The longest of these times.
    RequestMax,
    /// Requests that are done.
    RequestsCompleted,
    /// Requests that were not done at the end.
    RequestsUnfinished,
    /// Requests that found the queue full.
    RequestsDropped,
    /// Periods of a group's limit in which it was throttled.
    NrThrottled,
    /// Time for which a group was throttled, added up over CPUs.
    Throttled,
}

/// The kind of thing that a figure describes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Subject {
    /// A task: its threads.
    Task,
    /// A service: its requests.
    Service,
    /// A task group: its limit.
    Group,
}

/// The unit of a figure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Measure {
    /// Time.
    Time,
    /// A number.
    Count,
    /// A share of one CPU.
    Share,
}

impl Metric {
    /// Every metric and its name in goals.
    pub const TABLE: [(&'static str, Self); 22] = [
        ("wait.max", Self::WaitMax),
        ("wait.total", Self::WaitTotal),
        ("latency.p50", Self::LatencyP50),
        ("latency.p99", Self::LatencyP99),
        ("latency.max", Self::LatencyMax),
        ("lateness.max", Self::LatenessMax),
        ("timers.missed", Self::TimersMissed),
        ("run", Self::Run),
        ("share", Self::Share),
        ("preemptions", Self::Preemptions),
        ("migrations", Self::Migrations),
        ("request_latency.mean", Self::RequestMean),
        ("request_latency.p50", Self::RequestP50),
        ("request_latency.p90", Self::RequestP90),
        ("request_latency.p99", Self::RequestP99),
        ("request_latency.p99.9", Self::RequestP999),
        ("request_latency.max", Self::RequestMax),
        ("requests.completed", Self::RequestsCompleted),
        ("requests.unfinished", Self::RequestsUnfinished),
        ("requests.dropped", Self::RequestsDropped),
        ("nr_throttled", Self::NrThrottled),
        ("throttled", Self::Throttled),
    ];

    /// Returns its name in goals.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::TABLE.iter().find(|(_, metric)| *metric == self).map_or("", |(name, _)| name)
    }

    /// Returns the kind of thing that it describes.
    #[must_use]
    pub const fn subject(self) -> Subject {
        match self {
            Self::WaitMax
            | Self::WaitTotal
            | Self::LatencyP50
            | Self::LatencyP99
            | Self::LatencyMax
            | Self::LatenessMax
            | Self::TimersMissed
            | Self::Run
            | Self::Share
            | Self::Preemptions
            | Self::Migrations => Subject::Task,
            Self::RequestMean
            | Self::RequestP50
            | Self::RequestP90
            | Self::RequestP99
            | Self::RequestP999
            | Self::RequestMax
            | Self::RequestsCompleted
            | Self::RequestsUnfinished
            | Self::RequestsDropped => Subject::Service,
            Self::NrThrottled | Self::Throttled => Subject::Group,
        }
    }

    /// Returns its unit.
    #[must_use]
    pub const fn measure(self) -> Measure {
        match self {
            Self::WaitMax
            | Self::WaitTotal
            | Self::LatencyP50
            | Self::LatencyP99
            | Self::LatencyMax
            | Self::LatenessMax
            | Self::Run
            | Self::RequestMean
            | Self::RequestP50
            | Self::RequestP90
            | Self::RequestP99
            | Self::RequestP999
            | Self::RequestMax
            | Self::Throttled => Measure::Time,
            Self::TimersMissed
            | Self::Preemptions
            | Self::Migrations
            | Self::RequestsCompleted
            | Self::RequestsUnfinished
            | Self::RequestsDropped
            | Self::NrThrottled => Measure::Count,
            Self::Share => Measure::Share,
        }
    }
}

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
    pub metric: Metric,
    /// The comparison.
    pub relation: Relation,
    /// The value: nanoseconds, a number, or millionths of a CPU.
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
        let (task, metric) = Self::parse_figure(figure).map_err(|help| {
            let figure = figure.to_owned();
            (format!("goal \"{text}\": there is no figure `{figure}`"), Some(help))
        })?;
        let value = value.trim_matches('"');
        let value =
            read_value(value, metric.measure()).map_err(|reason| (format!("goal \"{text}\": {reason}"), None))?;
        Ok(Self { text: text.to_owned(), task, metric, relation, value })
    }

    /// Reads a figure: `audio.lateness.max`, `*.run`, `request_latency.p99`, `/web.nr_throttled`.
    /// Returns its owner, `None` for all, and the metric.
    ///
    /// # Errors
    /// A valid form.
    pub fn parse_figure(figure: &str) -> Result<(Option<String>, Metric), String> {
        let metric = Metric::TABLE.iter().filter_map(|(name, metric)| match figure.strip_suffix(name)? {
            "" => Some((None, *metric)),
            before => Some((Some(before.strip_suffix('.')?), *metric)),
        });
        let shortest = metric.min_by_key(|(before, _)| before.map_or(0, str::len));
        match shortest {
            Some((None, metric)) if metric.subject() != Subject::Task => Ok((None, metric)),
            Some((Some("*"), metric)) => Ok((None, metric)),
            Some((Some(whose), metric)) if !whose.is_empty() => Ok((Some(whose.to_owned()), metric)),
            Some((None, metric)) => Err(format!("write TASK.{0}, or *.{0} for all", metric.name())),
            Some(_) | None => {
                let asked = figure.split_once('.').map_or(figure, |(_, rest)| rest);
                let names = || Metric::TABLE.iter().map(|(name, _)| *name);
                let near = nearest(figure, names()).or_else(|| nearest(asked, names()));
                Err(match near {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("known are NAME.{}", names().collect::<Vec<_>>().join(", NAME.")),
                })
            }
        }
    }
}

fn read_value(text: &str, measure: Measure) -> Result<u64, String> {
    match measure {
        Measure::Time => {
            text.parse::<Duration>().map(Duration::as_nanos).map_err(|reason| format!("`{text}`: {reason}"))
        }
        Measure::Count => text.parse().map_err(|_| format!("`{text}` is not a whole number")),
        Measure::Share => {
            let (number, unit) = match text.strip_suffix('%') {
                Some(number) => (number.trim(), 10_000.0),
                None => (text, 1_000_000.0),
            };
            let share: f64 = number.parse().map_err(|_| format!("`{text}` is not a share, as in 25% or 0.25"))?;
            if !(0.0..=1e6).contains(&share) {
                return Err(format!("`{text}` is outside 0..=1000000"));
            }
            // The truncation is intended: millionths are fine enough.
            Ok((share * unit + 0.5) as u64)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals_are_figure_relation_and_value() {
        let goal = Goal::parse("audio.lateness.max <= \"200us\"").expect("a goal");
        assert_eq!(
            (goal.task.as_deref(), goal.metric, goal.relation),
            (Some("audio"), Metric::LatenessMax, Relation::AtMost)
        );
        assert_eq!(goal.value, 200_000);
        let goal = Goal::parse("request_latency.p99 <= \"20ms\"").expect("a goal of all services");
        assert_eq!((goal.task.as_deref(), goal.metric, goal.value), (None, Metric::RequestP99, 20_000_000));
        let goal = Goal::parse("web.request_latency.p99.9 < 1s").expect("a goal of a service");
        assert_eq!((goal.task.as_deref(), goal.metric), (Some("web"), Metric::RequestP999));
        let goal = Goal::parse("/web/api.nr_throttled <= 3").expect("a goal of a group");
        assert_eq!((goal.task.as_deref(), goal.metric), (Some("/web/api"), Metric::NrThrottled));
        let goal = Goal::parse("a.b.share>=12.5%").expect("names may hold dots");
        assert_eq!((goal.task.as_deref(), goal.relation, goal.value), (Some("a.b"), Relation::AtLeast, 125_000));
        assert_eq!(Goal::parse("*.timers.missed < 1").expect("a goal").task, None);
        for (text, message, help) in [
            ("audio.lateness.max", "has no comparison", "write \"audio.lateness.max <= 200us\""),
            ("audio.latnesss.max <= 1ms", "no figure `audio.latnesss.max`", "did you mean `lateness.max`?"),
            ("run <= 1ms", "no figure `run`", "write TASK.run, or *.run for all"),
            ("request_latency.p98 <= 1ms", "no figure", "did you mean `request_latency.p9"),
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

//! How each [`Figure`] of the table in `zerolag-model` is measured, and how its value is written.
//!
//! [`Subject::value`] is the only place that turns a [`Summary`] into a figure: goals, sweeps,
//! comparisons, tables, JSON and columns ask here, so they cannot disagree. A figure with fewer
//! samples than it needs is `None`: "-" in a text, `null` in JSON, never 0.

use crate::human::Human;
use crate::quantiles::Quantiles;
use crate::summary::{CpuSummary, GroupSummary, Latency, RequestTimes, ServiceSummary, Summary, TaskSummary};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::ser::{Serialize, SerializeMap, Serializer};
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use zerolag_model::Duration;
use zerolag_model::event::Irq;
pub use zerolag_model::figure::{Better, Figure, Owner, P50, P90, P99, P999, Quantity, Several, Stat, Unit};

/// A thing that has figures.
#[derive(Clone, Copy, Debug)]
pub enum Subject<'a> {
    /// A task, and the length of its trace.
    Task(&'a TaskSummary, Duration),
    /// A service, and the length of its trace.
    Service(&'a ServiceSummary, Duration),
    /// A task group, and the length of its trace.
    Group(&'a GroupSummary, Duration),
    /// A CPU.
    Cpu(&'a CpuSummary),
    /// The machine.
    Machine(&'a Summary),
}

impl<'a> Subject<'a> {
    /// Returns what it is.
    #[must_use]
    pub const fn owner(self) -> Owner {
        match self {
            Self::Task(..) => Owner::Task,
            Self::Service(..) => Owner::Service,
            Self::Group(..) => Owner::Group,
            Self::Cpu(_) => Owner::Cpu,
            Self::Machine(_) => Owner::Machine,
        }
    }

    /// Returns a figure, in the smallest unit. `None` if it is of another kind of thing, was not
    /// measured, or has fewer samples than it needs.
    #[must_use]
    pub fn value(self, figure: Figure) -> Option<u64> {
        of_several(figure, [self])
    }

    #[expect(clippy::too_many_lines, reason = "one arm per figure")]
    fn measure(self, quantity: Quantity) -> Option<MeasuredFigure<'a>> {
        use Quantity as Q;
        match quantity {
            Q::Run => time(self.task()?.run),
            Q::Share => share(self.task()?.run),
            Q::Exec => time(self.task()?.exec?),
            Q::Wakeups => count(self.task()?.activations),
            Q::SwitchesIn => count(self.task()?.switches_in),
            Q::Preemptions => count(self.task()?.preemptions),
            Q::Migrations => count(self.task()?.migrations.total()),
            Q::Wait => time(self.task()?.wait),
            Q::WaitMax => time(self.task()?.wait_max),
            Q::LagMax => time(self.task()?.lag_max?),
            Q::Sleep => time(self.task()?.sleep),
            Q::WakeupLatency => samples(self.task()?.latency.as_ref()),
            Q::Timers => count(self.task()?.timers),
            // Without a timer there is nothing that could have been missed.
            Q::TimersMissed => count(self.task().filter(|task| task.timers > 0)?.missed),
            Q::LatenessMax => time(self.task().filter(|task| task.timers > 0)?.lateness_max),
            Q::Overruns => count(self.task()?.dl_overruns?),
            Q::End => time(self.task()?.end?),
            Q::TurnRate => rate(self.task()?.turns?),
            Q::RequestsArrived => count(self.service()?.arrived),
            Q::RequestsCompleted => count(self.service()?.completed),
            Q::RequestRate => rate(self.service()?.completed),
            Q::RequestsUnfinished => count(self.service()?.unfinished),
            Q::RequestsDropped => count(self.service()?.dropped),
            Q::RequestLatency => samples(self.service()?.latency.as_ref()),
            Q::Queued => samples(self.service()?.queued.as_ref()),
            Q::GroupUsage => time(self.group()?.usage),
            Q::GroupEnd => time(self.group()?.end?),
            Q::GroupShare => share(self.group()?.usage),
            Q::User => time(self.group()?.modes?.user),
            Q::System => time(self.group()?.modes?.system),
            Q::NiceTime => time(self.group()?.modes?.nice),
            Q::NrPeriods => count(self.group()?.stat.nr_periods),
            Q::NrThrottled => count(self.group()?.stat.nr_throttled),
            Q::Throttled => time(self.group()?.stat.throttled),
            Q::NrBursts => count(self.group()?.stat.nr_bursts),
            Q::Burst => time(self.group()?.stat.burst),
            Q::LocalThrottled => time(self.group()?.local_throttled),
            Q::RtThrottled => time(self.group()?.rt_throttled),
            Q::SomeTotal => time(self.group()?.pressure?.some.total),
            Q::Some10 => count(self.group()?.pressure?.some.avg10),
            Q::Some60 => count(self.group()?.pressure?.some.avg60),
            Q::Some300 => count(self.group()?.pressure?.some.avg300),
            Q::SomeEvents => count(self.group()?.pressure?.some.fired?.events),
            Q::SomeFirst => time(self.group()?.pressure?.some.fired?.first?),
            Q::FullTotal => time(self.group()?.pressure?.full.total),
            Q::Full10 => count(self.group()?.pressure?.full.avg10),
            Q::Full60 => count(self.group()?.pressure?.full.avg60),
            Q::Full300 => count(self.group()?.pressure?.full.avg300),
            Q::FullEvents => count(self.group()?.pressure?.full.fired?.events),
            Q::FullFirst => time(self.group()?.pressure?.full.fired?.first?),
            Q::CpuBusy => time(self.cpu()?.busy),
            Q::CpuIdle => time(self.cpu()?.idle),
            Q::CpuUnseen => time(self.cpu()?.unseen),
            Q::CpuSwitches => count(self.cpu()?.switches),
            Q::LockWait => time(self.cpu()?.lock_wait),
            Q::LockWaitMax => time(self.cpu()?.lock_wait_max),
            Q::IpisSent => count(self.cpu()?.ipis_sent),
            Q::IpisReceived => count(self.cpu()?.ipis_received),
            Q::IpiWork => time(self.cpu()?.irq(Irq::Ipi).time),
            Q::IpiWorkMax => time(self.cpu()?.irq(Irq::Ipi).max),
            Q::Idle => time(self.machine()?.idle().0),
            Q::IdleWithWork => time(self.machine()?.idle_with_work?),
            Q::MachineTotal => time(self.machine()?.pressure?.some.total),
            Q::Machine10 => count(self.machine()?.pressure?.some.avg10),
            Q::Machine60 => count(self.machine()?.pressure?.some.avg60),
            Q::Machine300 => count(self.machine()?.pressure?.some.avg300),
            Q::MachineEvents => count(self.machine()?.pressure?.some.fired?.events),
            Q::MachineFirst => time(self.machine()?.pressure?.some.fired?.first?),
            Q::Switches => count(self.machine()?.switches),
            Q::AllMigrations => count(self.machine()?.migrations.total()),
        }
    }

    const fn task(self) -> Option<&'a TaskSummary> {
        if let Self::Task(task, _) = self { Some(task) } else { None }
    }

    const fn service(self) -> Option<&'a ServiceSummary> {
        if let Self::Service(service, _) = self { Some(service) } else { None }
    }

    const fn group(self) -> Option<&'a GroupSummary> {
        if let Self::Group(group, _) = self { Some(group) } else { None }
    }

    const fn cpu(self) -> Option<&'a CpuSummary> {
        if let Self::Cpu(cpu) = self { Some(cpu) } else { None }
    }

    const fn machine(self) -> Option<&'a Summary> {
        if let Self::Machine(summary) = self { Some(summary) } else { None }
    }

    /// Returns the length of the trace, at least a nanosecond.
    fn elapsed(self) -> u128 {
        let elapsed = match self {
            Self::Task(_, elapsed) | Self::Service(_, elapsed) | Self::Group(_, elapsed) => elapsed,
            Self::Machine(summary) => summary.elapsed,
            Self::Cpu(cpu) => cpu.busy + cpu.idle + cpu.unseen,
        };
        u128::from(elapsed.as_nanos().max(1))
    }
}

/// A quantity as a summary has it.
#[derive(Clone, Copy, Debug)]
enum MeasuredFigure<'a> {
    Value(u64),
    /// An amount times a factor, per nanosecond of the elapsed time, rounded down. Of several it is
    /// the amounts that are added up: a thousand short tasks would lose a thousand roundings.
    PerTime(u64, u64),
    Samples(SampledFigure<'a>),
}

/// A distribution as a summary has it. A statistic that it does not keep is `None`.
#[derive(Clone, Copy, Debug)]
struct SampledFigure<'a> {
    count: u64,
    mean: Option<Duration>,
    p50: Duration,
    p90: Option<Duration>,
    p99: Duration,
    p999: Option<Duration>,
    max: Duration,
    quantiles: &'a Quantiles,
}

impl SampledFigure<'_> {
    fn stat(self, stat: Stat) -> Option<u64> {
        if stat == Stat::Count {
            return Some(self.count);
        }
        let time = match stat {
            Stat::Value | Stat::Count => None,
            Stat::Mean => self.mean,
            P50 => Some(self.p50),
            P90 if self.p90.is_some() => self.p90,
            P99 => Some(self.p99),
            P999 if self.p999.is_some() => self.p999,
            // A bucket can end above the largest sample.
            Stat::Quantile(share) => self.quantiles.at(share).map(|time| time.min(self.max)),
            Stat::Max => Some(self.max),
        };
        time.filter(|_| self.count >= stat.needs()).map(Duration::as_nanos)
    }
}

impl<'a> From<&'a Latency> for SampledFigure<'a> {
    fn from(of: &'a Latency) -> Self {
        let Latency { count, p50, p99, max, ref quantiles } = *of;
        Self { count, mean: None, p50, p90: None, p99, p999: None, max, quantiles }
    }
}

impl<'a> From<&'a RequestTimes> for SampledFigure<'a> {
    fn from(of: &'a RequestTimes) -> Self {
        let RequestTimes { count, mean, p50, p90, p99, p999, max, ref quantiles } = *of;
        Self { count, mean: Some(mean), p50, p90: Some(p90), p99, p999: Some(p999), max, quantiles }
    }
}

fn time<'a>(time: Duration) -> Option<MeasuredFigure<'a>> {
    Some(MeasuredFigure::Value(time.as_nanos()))
}

const fn count<'a>(count: u64) -> Option<MeasuredFigure<'a>> {
    Some(MeasuredFigure::Value(count))
}

/// Returns a part of the elapsed time in millionths.
const fn share<'a>(part: Duration) -> Option<MeasuredFigure<'a>> {
    Some(MeasuredFigure::PerTime(part.as_nanos(), 1_000_000))
}

/// Returns a count per second in thousandths.
const fn rate<'a>(of: u64) -> Option<MeasuredFigure<'a>> {
    Some(MeasuredFigure::PerTime(of, 1_000_000_000_000))
}

fn samples<'a>(of: Option<impl Into<SampledFigure<'a>>>) -> Option<MeasuredFigure<'a>> {
    Some(MeasuredFigure::Samples(of?.into()))
}

/// Returns one figure of several things of one trace: their sum, the largest or the smallest.
/// `None` if none of them has it, or one has not whose end is asked for.
#[must_use]
pub fn of_several<'a>(figure: Figure, subjects: impl IntoIterator<Item = Subject<'a>>) -> Option<u64> {
    let join = |one: u64, other: u64| match several(figure) {
        Several::Sum => one.saturating_add(other),
        Several::Largest | Several::Last => one.max(other),
        Several::Smallest => one.min(other),
    };
    let (mut found, mut factor, mut elapsed) = (None, None, 1);
    for subject in subjects {
        let value = match subject.measure(figure.quantity) {
            None => None,
            Some(MeasuredFigure::Samples(samples)) => samples.stat(figure.stat),
            Some(MeasuredFigure::Value(value)) => (figure.stat == Stat::Value).then_some(value),
            Some(MeasuredFigure::PerTime(amount, of)) => {
                (factor, elapsed) = (Some(of), subject.elapsed());
                Some(amount)
            }
        };
        if value.is_none() && several(figure) == Several::Last {
            return None;
        }
        found = found.map_or(value, |found| Some(value.map_or(found, |value| join(found, value))));
    }
    let per_time = |amount: u64, factor: u64| u128::from(amount) * u128::from(factor) / elapsed;
    match factor {
        None => found,
        Some(factor) => found.map(|amount| u64::try_from(per_time(amount, factor)).unwrap_or(u64::MAX)),
    }
}

/// Returns how a figure of several things is made: their numbers of samples are added up.
#[must_use]
pub const fn several(figure: Figure) -> Several {
    match figure.stat {
        Stat::Count => Several::Sum,
        Stat::Value | Stat::Mean | Stat::Quantile(_) | Stat::Max => figure.quantity.row().several,
    }
}

impl Summary {
    /// Returns its tasks as things that have figures.
    pub fn task_subjects(&self) -> impl Iterator<Item = (&TaskSummary, Subject<'_>)> + Clone {
        self.tasks.iter().map(|task| (task, Subject::Task(task, self.elapsed)))
    }

    /// Returns its services as things that have figures.
    pub fn service_subjects(&self) -> impl Iterator<Item = (&ServiceSummary, Subject<'_>)> + Clone {
        self.services.iter().map(|service| (service, Subject::Service(service, self.elapsed)))
    }

    /// Returns its groups as things that have figures.
    pub fn group_subjects(&self) -> impl Iterator<Item = (&GroupSummary, Subject<'_>)> + Clone {
        self.groups.iter().map(|group| (group, Subject::Group(group, self.elapsed)))
    }
}

/// A value of a unit, for people: `1.23ms`, `12.50%`, `1540`, `1540.2`. No value is `-`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Amount {
    /// The value, in the smallest unit; a mean can lie between two.
    pub value: Option<f64>,
    /// The unit.
    pub unit: Unit,
}

impl Amount {
    /// Returns a figure of a thing.
    #[must_use]
    pub fn of(figure: Figure, subject: Subject<'_>) -> Self {
        Self::some(subject.value(figure), figure.unit())
    }

    /// Returns a value of a unit.
    #[must_use]
    pub fn some(value: Option<u64>, unit: Unit) -> Self {
        Self { value: value.map(|value| value as f64), unit }
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(value) = self.value else { return f.pad("-") };
        match self.unit {
            // The conversion saturates, and a time is not negative.
            Unit::Time => fmt::Display::fmt(&Human(Duration::from_nanos(value.round() as u64)), f),
            Unit::Count if value.fract() == 0.0 => f.pad(&format!("{value:.0}")),
            Unit::Count => f.pad(&format!("{value:.1}")),
            Unit::Share => f.pad(&format!("{:.2}%", value / 1e4)),
            Unit::Rate => f.pad(&format!("{:.1}", value / 1e3)),
        }
    }
}

/// The figures of a thing as keys of its JSON: those of the table that have a path there.
#[derive(Clone, Copy, Debug)]
pub struct Keys<'a, K> {
    subject: Subject<'a>,
    kind: PhantomData<K>,
}

/// A kind of owner as a type, for the schema of [`Keys`].
pub trait Kind {
    /// The kind.
    const OWNER: Owner;
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident;)+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub enum $kind {}

        impl Kind for $kind {
            const OWNER: Owner = Owner::$kind;
        }
    )+};
}

kinds! {
    /// Figures of tasks.
    Task;
    /// Figures of services.
    Service;
    /// Figures of task groups.
    Group;
    /// Figures of CPUs.
    Cpu;
    /// Figures of the machine.
    Machine;
}

impl<'a, K: Kind> Keys<'a, K> {
    /// Returns the figures of a thing of this kind.
    ///
    /// # Panics
    /// If it is of another kind.
    #[must_use]
    pub fn of(subject: Subject<'a>) -> Self {
        assert_eq!(subject.owner(), K::OWNER, "a thing has the figures of its kind");
        Self { subject, kind: PhantomData }
    }
}

/// A number in JSON and in columns.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Number {
    /// A whole number.
    Whole(u64),
    /// Another one: shares and rates.
    Real(f64),
}

impl Number {
    /// Returns it as a whole number, rounded down.
    #[must_use]
    pub const fn whole(self) -> u64 {
        match self {
            Self::Whole(value) => value,
            // The conversion saturates.
            Self::Real(value) => value as u64,
        }
    }

    /// Returns it as a real number.
    #[must_use]
    pub const fn real(self) -> f64 {
        match self {
            Self::Whole(value) => value as f64,
            Self::Real(value) => value,
        }
    }
}

/// Returns a value in the unit of a path: the kernel's counters of groups are in microseconds,
/// rates are per second.
#[must_use]
pub fn in_path(value: u64, unit: Unit, path: &str) -> Number {
    match unit {
        Unit::Time if path.ends_with("_usec") => Number::Whole(value / 1_000),
        Unit::Time | Unit::Count => Number::Whole(value),
        Unit::Share => Number::Real(value as f64 / 1e6),
        Unit::Rate => Number::Real(value as f64 / 1e3),
    }
}

/// A figure with a path in JSON, as the parts of the path.
fn paths(owner: Owner) -> Vec<(Figure, Vec<String>)> {
    let parts = |figure: Figure| Some((figure, figure.path()?.split('/').map(str::to_owned).collect()));
    Figure::of(owner).filter_map(parts).collect()
}

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            Self::Whole(value) => serializer.serialize_u64(value),
            Self::Real(value) => serializer.serialize_f64(value),
        }
    }
}

/// The figures below one part of a path. `None` as a whole if the distribution has no samples.
struct Below<'k, 'a> {
    subject: Subject<'a>,
    figures: &'k [(Figure, Vec<String>)],
}

impl Below<'_, '_> {
    fn number(&self, figure: Figure, last: &str) -> Option<Number> {
        self.subject.value(figure).map(|value| in_path(value, figure.unit(), last))
    }
}

impl Serialize for Below<'_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let is_empty = self.figures.iter().all(|(figure, _)| self.subject.value(*figure).is_none());
        if is_empty {
            return serializer.serialize_none();
        }
        let mut map = serializer.serialize_map(Some(self.figures.len()))?;
        for (figure, parts) in self.figures {
            let last = parts.last().map_or("", String::as_str);
            map.serialize_entry(last, &self.number(*figure, last))?;
        }
        map.end()
    }
}

impl<K: Kind> Serialize for Keys<'_, K> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let figures = paths(K::OWNER);
        let mut map = serializer.serialize_map(None)?;
        for chunk in figures.chunk_by(|a, b| a.1.len() > 1 && b.1.len() > 1 && a.1[0] == b.1[0]) {
            let below = Below { subject: self.subject, figures: chunk };
            match &*chunk[0].1 {
                [key] => map.serialize_entry(key, &below.number(chunk[0].0, key))?,
                parts => map.serialize_entry(&parts[0], &below)?,
            }
        }
        map.end()
    }
}

impl<K: Kind> JsonSchema for Keys<'_, K> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("FiguresOf{:?}", K::OWNER).into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let number = |figure: Figure| match figure.unit() {
            Unit::Time | Unit::Count => "integer",
            Unit::Share | Unit::Rate => "number",
        };
        let figures = paths(K::OWNER);
        let mut properties = serde_json::Map::new();
        let mut required = Vec::new();
        for chunk in figures.chunk_by(|a, b| a.1.len() > 1 && b.1.len() > 1 && a.1[0] == b.1[0]) {
            let (figure, parts) = &chunk[0];
            let meaning = format!("{}.", figure.quantity.row().meaning);
            let is_distribution = figure.quantity.row().stats.len() > 1;
            let schema = if let [_] = &**parts {
                serde_json::json!({ "description": meaning, "type": [number(*figure), "null"], "minimum": 0 })
            } else {
                let inner = |(figure, parts): &(Figure, Vec<String>)| {
                    let says =
                        if is_distribution { stat_says(figure.stat) } else { figure.quantity.row().meaning.to_owned() };
                    let schema = serde_json::json!({
                        "description": format!("{says}."), "type": [number(*figure), "null"], "minimum": 0,
                    });
                    (parts[parts.len() - 1].clone(), schema)
                };
                let names: Vec<&String> = chunk.iter().map(|(_, parts)| &parts[parts.len() - 1]).collect();
                let says = if is_distribution { meaning } else { format!("The kernel's `{}`.", parts[0]) };
                serde_json::json!({
                    "description": says,
                    "type": ["object", "null"],
                    "required": names,
                    "properties": chunk.iter().map(inner).collect::<serde_json::Map<_, _>>(),
                })
            };
            required.push(parts[0].clone());
            properties.insert(parts[0].clone(), schema);
        }
        json_schema!({ "type": "object", "properties": properties, "required": required })
    }
}

/// Returns a statistic as a sentence without its point.
fn stat_says(stat: Stat) -> String {
    let needs = || format!("; null with fewer than {} samples", stat.needs());
    match stat {
        Stat::Value => "The value".to_owned(),
        Stat::Count => "The number of samples".to_owned(),
        Stat::Mean => format!("The mean{}", needs()),
        P50 => format!("The median{}", needs()),
        Stat::Quantile(part) => {
            let percent = format!("{}.{:04}", part / 10_000, part % 10_000);
            format!("The quantile of {} %{}", percent.trim_end_matches('0').trim_end_matches('.'), needs())
        }
        Stat::Max => "The largest".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Metrics;
    use crate::sample::two_hogs_and_a_fifo;

    #[test]
    fn a_statistic_with_too_few_samples_is_not_known_and_never_zero() {
        let mut summary = Metrics::of(&two_hogs_and_a_fifo());
        let elapsed = summary.elapsed;
        let latency =
            |of: &TaskSummary, stat| Subject::Task(of, elapsed).value(Figure::new(Quantity::WakeupLatency, stat));
        let one = summary.tasks[1].clone();
        assert_eq!(latency(&one, Stat::Count), Some(1));
        assert_eq!((latency(&one, P50), latency(&one, P99)), (None, None));
        assert_eq!(latency(&one, Stat::Max), Some(8_000_000));
        let task = &mut summary.tasks[1];
        task.latency = task.latency.take().map(|latency| Latency { count: 10, ..latency });
        assert_eq!(
            (latency(&summary.tasks[1], P50), latency(&summary.tasks[1], P99)),
            (Some(8_000_000), Some(8_000_000))
        );
        // A service has no figures of tasks, and a task without timers has missed none.
        assert_eq!(Subject::Machine(&summary).value(Quantity::Run.into()), None);
        assert_eq!(Subject::Task(&one, elapsed).value(Quantity::TimersMissed.into()), None);
    }

    #[test]
    fn of_several_the_sum_or_the_largest_counts() {
        let summary = Metrics::of(&two_hogs_and_a_fifo());
        let all = |figure: Figure| of_several(figure, summary.task_subjects().map(|(_, subject)| subject));
        assert_eq!(all(Quantity::Run.into()), Some(10_000_000));
        assert_eq!(all(Quantity::Share.into()), Some(1_000_000));
        assert_eq!(all(Quantity::WaitMax.into()), Some(8_000_000));
        assert_eq!(all(Figure::new(Quantity::WakeupLatency, Stat::Count)), Some(3));
        assert_eq!(of_several(Quantity::Run.into(), []), None);
    }

    #[test]
    fn amounts_have_the_unit_of_their_figure() {
        let text = |value, unit| Amount { value, unit }.to_string();
        assert_eq!(text(None, Unit::Time), "-");
        assert_eq!(text(Some(1_230_000.0), Unit::Time), "1.23ms");
        assert_eq!(
            (text(Some(12.0), Unit::Count), text(Some(12.5), Unit::Count)),
            ("12".to_owned(), "12.5".to_owned())
        );
        assert_eq!(text(Some(125_000.0), Unit::Share), "12.50%");
        assert_eq!(text(Some(1_540_250.0), Unit::Rate), "1540.2");
    }
}

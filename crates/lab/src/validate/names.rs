//! The names of figures in case files, each with its figure of the table
//! ([`zerolag_report::figure`]).
//!
//! Cases are older than the table, and hundreds of recorded rows have these names and units. So a
//! name is a row here, and says which figure it is and in which unit the files have it; measuring,
//! JSON and the plot of shares read the row. What only a case has (a sequence of turns, a distance
//! of distributions, a part of what fair tasks got, the delay of a timer) is no figure of a run.

use zerolag_report::figure::{Figure, P50, P99, Quantity, Stat};

/// The unit of a figure in case files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum CaseUnit {
    Percent,
    Count,
    Millis,
    Micros,
}

impl CaseUnit {
    /// Returns its name in JSON.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Percent => "percent",
            Self::Count => "count",
            Self::Millis => "ms",
            Self::Micros => "us",
        }
    }

    /// Returns a value in this unit, of one in the smallest unit of its figure: nanoseconds, a
    /// number, millionths of a CPU.
    fn of(self, value: u64) -> f64 {
        match self {
            Self::Percent => value as f64 / 1e4,
            Self::Count => value as f64,
            Self::Millis => value as f64 / 1e6,
            Self::Micros => value as f64 / 1e3,
        }
    }
}

/// A name, the figure that it stands for, and its unit.
type CaseName = (&'static str, Option<Figure>, CaseUnit);

const fn value(quantity: Quantity) -> Option<Figure> {
    Some(Figure::new(quantity, Stat::Value))
}

/// Every name before the point or the slash of its owner.
const TABLE: [CaseName; 17] = [
    ("share", value(Quantity::Share), CaseUnit::Percent),
    ("turns", value(Quantity::SwitchesIn), CaseUnit::Count),
    ("delay", Some(Figure::new(Quantity::WakeupLatency, P50)), CaseUnit::Millis),
    ("delay_p99", Some(Figure::new(Quantity::WakeupLatency, P99)), CaseUnit::Millis),
    ("migrations", value(Quantity::AllMigrations), CaseUnit::Count),
    ("used", value(Quantity::GroupShare), CaseUnit::Percent),
    ("nr_periods", value(Quantity::NrPeriods), CaseUnit::Count),
    ("nr_throttled", value(Quantity::NrThrottled), CaseUnit::Count),
    ("throttled", value(Quantity::Throttled), CaseUnit::Millis),
    ("p50", Some(Figure::new(Quantity::RequestLatency, P50)), CaseUnit::Millis),
    ("p99", Some(Figure::new(Quantity::RequestLatency, P99)), CaseUnit::Millis),
    ("part", None, CaseUnit::Percent),
    ("sequence", None, CaseUnit::Percent),
    ("turn_distance", None, CaseUnit::Percent),
    ("delay_distance", None, CaseUnit::Percent),
    ("moves", None, CaseUnit::Count),
    ("latency", None, CaseUnit::Micros),
];

fn row(name: &str) -> Option<&'static CaseName> {
    let kind = name.split(['.', '/']).next().unwrap_or_default();
    TABLE.iter().find(|(known, ..)| *known == kind)
}

/// Returns the figure of a name in a case, `share.hog`.
pub(super) fn figure_of(name: &str) -> Option<Figure> {
    row(name).and_then(|(_, figure, _)| *figure)
}

/// Returns whether a name is that of a distance from the takes, of which less is nearer.
pub(super) fn is_distance(name: &str) -> bool {
    row(name).is_some_and(|(known, ..)| known.ends_with("_distance"))
}

/// Returns the unit of a name in a case.
pub(super) fn unit_of(name: &str) -> CaseUnit {
    row(name).map_or(CaseUnit::Count, |(.., unit)| *unit)
}

/// Returns the name of a figure of an owner in cases, and a value of it in the unit of cases. A
/// task has its name, a group its path, the machine none.
///
/// # Panics
/// If cases do not have the figure.
pub(super) fn named(figure: Figure, owner: &str, value: u64) -> (String, f64) {
    let (name, _, unit) =
        TABLE.iter().find(|(_, of, _)| *of == Some(figure)).expect("invariant: a figure of the table of names");
    let point = if owner.is_empty() || owner.starts_with('/') { "" } else { "." };
    (format!("{name}{point}{owner}"), unit.of(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_the_unit_and_the_figure_of_its_row() {
        assert_eq!(named(Quantity::Share.into(), "hog", 125_000), ("share.hog".to_owned(), 12.5));
        assert_eq!(named(Quantity::Throttled.into(), "/a/b", 2_500_000), ("throttled/a/b".to_owned(), 2.5));
        assert_eq!(named(Quantity::AllMigrations.into(), "", 3), ("migrations".to_owned(), 3.0));
        assert_eq!(figure_of("used/a"), Some(Quantity::GroupShare.into()));
        assert_eq!((figure_of("sequence"), unit_of("sequence")), (None, CaseUnit::Percent));
        assert_eq!(unit_of("delay.a.b").name(), "ms");
    }
}

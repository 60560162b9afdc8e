//! Axes: from values to positions, and the positions of the ticks.

use crate::human::Human;
use zerolag_model::Duration;

/// An axis.
#[derive(Clone, Debug)]
pub struct Axis {
    /// The measured quantity.
    pub label: String,
    /// Its unit, which decides how ticks are written.
    pub unit: Unit,
    /// How values map to positions.
    pub scale: Scale,
    /// Its bounds; `None`: those of the values.
    pub range: Option<Range>,
}

/// Bounds of an axis.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Range {
    /// The low end.
    pub low: f64,
    /// The high end.
    pub high: f64,
}

/// The unit of an axis.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Unit {
    /// Plain numbers.
    Number,
    /// Nanoseconds, written with their unit: `50us`, `2.5s`.
    Nanos,
    /// Percent.
    Percent,
}

impl Unit {
    /// Returns the word for programs.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Number => "",
            Self::Nanos => "ns",
            Self::Percent => "%",
        }
    }
}

/// How values map to positions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Scale {
    /// Evenly.
    Linear,
    /// By their magnitude; values above zero only.
    Log,
    /// The value is the index of a name.
    Categories(Vec<String>),
}

/// Whether a linear axis shows zero.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Zero {
    /// Always.
    Included,
    /// If the values begin near it.
    IfNear,
    /// Only if a value is zero.
    AsItComes,
    /// Only if a value is zero, and the axis begins and ends with the values.
    Tight,
}

impl Zero {
    /// Returns whether an axis ends with its values. A short logarithmic one would have no tick.
    fn is_tight(self, range: Range, is_log: bool) -> bool {
        self == Self::Tight && range.low < range.high && (!is_log || range.high >= range.low * 5.0)
    }
}

impl Axis {
    /// Returns a linear axis.
    #[must_use]
    pub fn linear(label: &str, unit: Unit) -> Self {
        Self { label: label.to_owned(), unit, scale: Scale::Linear, range: None }
    }

    /// Returns a logarithmic axis.
    #[must_use]
    pub fn log(label: &str, unit: Unit) -> Self {
        Self { label: label.to_owned(), unit, scale: Scale::Log, range: None }
    }

    /// Returns an axis of names; values are their indices.
    #[must_use]
    pub fn categories(label: &str, names: &[&str]) -> Self {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        Self { label: label.to_owned(), unit: Unit::Number, scale: Scale::Categories(names), range: None }
    }

    /// Sets the bounds.
    #[must_use]
    pub const fn from_to(mut self, low: f64, high: f64) -> Self {
        self.range = Some(Range { low, high });
        self
    }

    /// Returns a value as a text of three digits and its unit, or the name of a category.
    pub(super) fn text(&self, value: f64) -> String {
        let step = 10_f64.powf((value.abs().max(1e-9)).log10().floor() - 2.0);
        match (&self.scale, self.unit) {
            // The conversion saturates.
            (Scale::Categories(names), _) => names.get(value.round() as usize).cloned().unwrap_or_default(),
            (_, Unit::Nanos) => Human(Duration::from_nanos(value.max(0.0) as u64)).to_string(),
            (_, unit) => {
                let text = write_value(Unit::Number, (value / step).round() * step, step);
                let short = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
                format!("{short}{}", unit.name())
            }
        }
    }

    pub(super) const fn has_categories(&self) -> bool {
        matches!(self.scale, Scale::Categories(_))
    }

    /// Returns the names of its categories; none if it has numbers.
    pub(super) fn names(&self) -> &[String] {
        match &self.scale {
            Scale::Categories(names) => names,
            Scale::Linear | Scale::Log => &[],
        }
    }
}

/// An axis whose bounds are known.
pub(super) struct Scaled {
    low: f64,
    high: f64,
    is_log: bool,
    slots: usize,
    ticks: Vec<(f64, String)>,
}

impl Scaled {
    /// Fits an axis to values.
    pub(super) fn of(axis: &Axis, values: impl Iterator<Item = f64>, zero: Zero) -> Self {
        let is_log = axis.scale == Scale::Log;
        let mut found: Option<Range> = None;
        let mut slots = 0;
        for value in values.filter(|value| value.is_finite() && (!is_log || *value > 0.0)) {
            slots += 1;
            found = Some(found.map_or(Range { low: value, high: value }, |range| Range {
                low: range.low.min(value),
                high: range.high.max(value),
            }));
        }
        let range = axis.range.filter(|range| range.low < range.high && (!is_log || range.low > 0.0));
        let fallback = if is_log { Range { low: 1.0, high: 10.0 } } else { Range { low: 0.0, high: 1.0 } };
        let fitted = range.or(found).unwrap_or(fallback);
        match &axis.scale {
            Scale::Categories(names) => Self::categories(names),
            // The smallest bar has a height too.
            Scale::Log if zero == Zero::Included && range.is_none() => {
                Self::log(axis.unit, Range { low: fitted.low / 2.0, ..fitted }, false)
            }
            Scale::Log => Self::log(axis.unit, fitted, range.is_some() || zero.is_tight(fitted, is_log)),
            Scale::Linear => {
                // A range that starts near zero is easier to judge if it includes zero.
                let is_near = zero == Zero::IfNear && fitted.low > 0.0 && fitted.low < fitted.high * 0.5;
                let low = if range.is_none() && (zero == Zero::Included && fitted.low > 0.0 || is_near) {
                    0.0
                } else {
                    fitted.low
                };
                let is_fixed = range.is_some() || zero.is_tight(fitted, is_log);
                let mut scaled = Self::linear(axis.unit, Range { low, high: fitted.high }, is_fixed);
                scaled.slots = slots.max(1);
                scaled
            }
        }
    }

    fn categories(names: &[String]) -> Self {
        let slots = names.len().max(1);
        let place = |index: usize| (index as f64 + 0.5) / slots as f64;
        let ticks = names.iter().enumerate().map(|(index, name)| (place(index), name.clone())).collect();
        Self { low: -0.5, high: slots as f64 - 0.5, is_log: false, slots, ticks }
    }

    fn linear(unit: Unit, range: Range, is_fixed: bool) -> Self {
        let span = range.high - range.low;
        let span = if span > 0.0 { span } else { range.high.abs().max(1.0) };
        let step = nice_step(span / 6.0);
        let (low, high) = if is_fixed {
            (range.low, range.high)
        } else {
            ((range.low / step).floor() * step, ((range.low + span) / step).ceil() * step)
        };
        let mut scaled = Self { low, high, is_log: false, slots: 1, ticks: Vec::new() };
        let first = (low / step).ceil();
        // An integer counter, so that errors do not add up.
        for count in 0..TICKS_MAX {
            let value = (first + count as f64) * step;
            if value > high + step * 1e-6 {
                break;
            }
            scaled.ticks.push((scaled.part(value), write_value(unit, value, step)));
        }
        scaled
    }

    fn log(unit: Unit, range: Range, is_fixed: bool) -> Self {
        // The axis begins and ends at 1, 2 or 5 times a power of ten, where the values do.
        let (low, high) =
            if is_fixed { (range.low, range.high) } else { (round_down(range.low), round_up(range.high)) };
        let high = if high > low { high } else { low * 10.0 };
        let mut scaled = Self { low, high, is_log: true, slots: 1, ticks: Vec::new() };
        let decades = (high / low).log10();
        let factors: &[f64] = if decades <= 2.0 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let first = low.log10().floor();
        for decade in 0..TICKS_MAX {
            let power = 10_f64.powf(first + decade as f64);
            if power > high * 1.000_001 {
                break;
            }
            for factor in factors {
                let value = power * factor;
                if value >= low * 0.999_999 && value <= high * 1.000_001 {
                    scaled.ticks.push((scaled.part(value), write_value(unit, value, value)));
                }
            }
        }
        scaled
    }

    /// Returns the position of a value, 0 at the low end and 1 at the high one; `None` if it has
    /// none.
    pub(super) fn place(&self, value: f64) -> Option<f64> {
        if !value.is_finite() || (self.is_log && value <= 0.0) {
            return None;
        }
        let part = self.part(value);
        (-0.001..=1.001).contains(&part).then_some(part.clamp(0.0, 1.0))
    }

    fn part(&self, value: f64) -> f64 {
        if self.is_log {
            (value / self.low).log10() / (self.high / self.low).log10()
        } else {
            (value - self.low) / (self.high - self.low)
        }
    }

    /// Returns the values at the low and the high end.
    pub(super) const fn bounds(&self) -> (f64, f64) {
        (self.low, self.high)
    }

    /// Returns the positions of the ticks, and their text.
    pub(super) fn ticks(&self) -> impl Iterator<Item = (f64, &str)> {
        self.ticks.iter().map(|(place, label)| (*place, label.as_str()))
    }

    /// Returns how many groups of bars fit side by side.
    pub(super) const fn slots(&self) -> usize {
        self.slots
    }
}

/// Returns the largest 1, 2 or 5 times a power of ten that is at most `value`.
fn round_down(value: f64) -> f64 {
    let power = 10_f64.powf(value.log10().floor());
    let factor = [5.0, 2.0].into_iter().find(|factor| factor * power <= value * 1.000_001).unwrap_or(1.0);
    factor * power
}

/// Returns the smallest 1, 2 or 5 times a power of ten that is at least `value`.
fn round_up(value: f64) -> f64 {
    nice_step(value)
}

/// Returns 1, 2 or 5 times a power of ten, at least as large as `step`.
fn nice_step(step: f64) -> f64 {
    let power = 10_f64.powf(step.log10().floor());
    let factor = step / power;
    let nice = [1.0, 2.0, 5.0].into_iter().find(|nice| factor <= nice * 1.000_001).unwrap_or(10.0);
    nice * power
}

/// Writes a value with as many decimals as its step needs.
fn write_value(unit: Unit, value: f64, step: f64) -> String {
    match unit {
        Unit::Number => write_number(value, step),
        Unit::Percent => write_number(value, step) + "%",
        Unit::Nanos => write_nanos(value),
    }
}

fn write_number(value: f64, step: f64) -> String {
    let decimals = (0..=9_i32).find(|decimals| {
        let scaled = step * 10_f64.powi(*decimals);
        (scaled - scaled.round()).abs() < 1e-6 * scaled.abs().max(1.0)
    });
    let text = format!("{value:.*}", decimals.unwrap_or(9) as usize);
    if text.trim_start_matches('-').chars().all(|letter| letter == '0' || letter == '.') {
        "0".to_owned()
    } else {
        text
    }
}

/// Writes nanoseconds exactly in the largest unit that needs few digits: `0`, `50us`, `2.5s`.
fn write_nanos(value: f64) -> String {
    let sign = if value < 0.0 { "-" } else { "" };
    let nanos = value.abs().round();
    if nanos == 0.0 {
        return "0".to_owned();
    }
    // The conversion from float to integer saturates; an axis of more than 584 years has wrong
    // ticks.
    format!("{sign}{}", Duration::from_nanos(nanos as u64))
}

const TICKS_MAX: usize = 400;

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis, values: &[f64]) -> Vec<String> {
        let scaled = Scaled::of(axis, values.iter().copied(), Zero::IfNear);
        scaled.ticks().map(|(_, label)| label.to_owned()).collect()
    }

    #[test]
    fn ticks_are_round_and_enclose_the_values() {
        let number = Axis::linear("", Unit::Number);
        assert_eq!(labels(&number, &[0.0, 55.0]), ["0", "10", "20", "30", "40", "50", "60"]);
        assert_eq!(
            labels(&number, &[0.1, 0.53]),
            ["0.0", "0.1", "0.2", "0.3", "0.4", "0.5", "0.6"].map(|l| if l == "0.0" { "0" } else { l })
        );
        assert_eq!(labels(&number, &[-3.0, 3.0]), ["-3", "-2", "-1", "0", "1", "2", "3"]);
        assert_eq!(labels(&number, &[7.0]), ["6", "8", "10", "12", "14"]);
        let nanos = Axis::linear("", Unit::Nanos);
        assert_eq!(labels(&nanos, &[0.0, 53_907_000.0]), ["0", "10ms", "20ms", "30ms", "40ms", "50ms", "60ms"]);
        let log = Axis::log("", Unit::Nanos);
        assert_eq!(labels(&log, &[3e3, 2e6]), ["10us", "100us", "1ms"]);
        assert_eq!(labels(&Axis::log("", Unit::Number), &[4.0, 60.0]), ["2", "5", "10", "20", "50", "100"]);
    }

    #[test]
    fn places_run_from_zero_to_one() {
        let scaled = Scaled::of(&Axis::log("", Unit::Number), [1.0, 100.0].into_iter(), Zero::AsItComes);
        assert!((scaled.place(10.0).unwrap() - 0.5).abs() < 1e-9);
        assert_eq!(scaled.place(0.0), None);
        assert_eq!(scaled.place(1e9), None);
        let names = Scaled::of(&Axis::categories("", &["a", "b"]), [0.0].into_iter(), Zero::Included);
        assert_eq!(names.ticks().map(|(place, _)| place).collect::<Vec<_>>(), [0.25, 0.75]);
        assert!((names.place(1.0).unwrap() - 0.75).abs() < 1e-9);
    }
}

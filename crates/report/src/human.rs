//! Texts for people: durations and shares with three significant digits, letters that cannot be
//! seen.

use core::fmt;
use zerolag_model::{Duration, SignedDuration};

pub use zerolag_model::text::is_hidden;

/// A duration in three significant digits: `1.23ms`, `45.6us`, `789ns`, `12.0s`, `3720s`.
///
/// Rounded half up. Exact values of fewer digits keep their zeros (`10.0ms`): columns line up, and
/// the precision is visible. Nanoseconds and whole seconds above 999 have no fraction.
#[derive(Clone, Copy, Debug)]
pub struct Human(pub Duration);

/// As [`Human`], with a sign.
#[derive(Clone, Copy, Debug)]
pub struct HumanSigned(pub SignedDuration);

/// A part of a whole in percent with one decimal: `99.9%`. Zero of zero is `0.0%`.
#[derive(Clone, Copy, Debug)]
pub struct Percent {
    /// The part.
    pub part: Duration,
    /// The whole.
    pub whole: Duration,
}

impl fmt::Display for Human {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&three_digits(self.0.as_nanos()))
    }
}

impl fmt::Display for HumanSigned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0.is_negative() { "-" } else { "" };
        f.pad(&format!("{sign}{}", three_digits(self.0.as_nanos().unsigned_abs())))
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = u128::from(self.whole.as_nanos());
        let tenths = (u128::from(self.part.as_nanos()) * 1000 + whole / 2).checked_div(whole).unwrap_or(0);
        f.pad(&format!("{}.{}%", tenths / 10, tenths % 10))
    }
}

fn three_digits(ns: u64) -> String {
    if ns < 1000 {
        return format!("{ns}ns");
    }
    for (unit, name) in [(1_000, "us"), (1_000_000, "ms"), (1_000_000_000, "s")] {
        // Decimals, and the rounding unit for them: 1.23, 12.3, 123.
        for (places, limit) in [(2, 10), (1, 100), (0, 1000)] {
            let grain = unit / 10_u64.pow(places);
            let rounded = ns / grain + u64::from(ns % grain >= grain.div_ceil(2));
            let scale = 10_u64.pow(places);
            if rounded < limit * scale {
                let (whole, rest) = (rounded / scale, rounded % scale);
                return match places {
                    0 => format!("{whole}{name}"),
                    places => format!("{whole}.{rest:0width$}{name}", width = places as usize),
                };
            }
        }
    }
    format!("{}s", ns / 1_000_000_000 + u64::from(ns % 1_000_000_000 >= 500_000_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_whatever_the_size() {
        for (ns, text) in [
            (0, "0ns"),
            (999, "999ns"),
            (1_000, "1.00us"),
            (1_004, "1.00us"),
            (1_005, "1.01us"),
            (9_994, "9.99us"),
            (9_995, "10.0us"),
            (99_950, "100us"),
            (999_499, "999us"),
            (999_500, "1.00ms"),
            (12_345_678, "12.3ms"),
            (53_907_000, "53.9ms"),
            (950_010_000, "950ms"),
            (999_999_999, "1.00s"),
            (61_000_000_000, "61.0s"),
            (3_720_400_000_000, "3720s"),
            (u64::MAX, "18446744074s"),
        ] {
            assert_eq!(Human(Duration::from_nanos(ns)).to_string(), text, "{ns}");
        }
        assert_eq!(HumanSigned(SignedDuration::from_nanos(-1_500_000)).to_string(), "-1.50ms");
        assert_eq!(
            format!("{:>8}|{:<8}|", Human(Duration::from_millis(1)), Human(Duration::ZERO)),
            "  1.00ms|0ns     |"
        );
    }

    #[test]
    fn percents_are_rounded_half_up() {
        let percent =
            |part, whole| Percent { part: Duration::from_nanos(part), whole: Duration::from_nanos(whole) }.to_string();
        assert_eq!(percent(1, 3), "33.3%");
        assert_eq!(percent(2, 3), "66.7%");
        assert_eq!(percent(5, 5), "100.0%");
        assert_eq!(percent(0, 0), "0.0%");
        assert_eq!(percent(u64::MAX, u64::MAX), "100.0%");
    }
}

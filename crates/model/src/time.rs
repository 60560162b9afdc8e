//! Time in integer nanoseconds: [`Instant`], [`Duration`] and [`SignedDuration`].
//!
//! An instant counts from the start of the run (584 years fit). Arithmetic between instants and
//! durations panics on overflow in debug builds, and saturates where the name says so. The three
//! types convert into each other only through named functions.

use core::fmt;
use core::ops::{Add, AddAssign, Div, Mul, Neg, Sub, SubAssign};

/// A point in time, in nanoseconds since the start of the run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(u64);

/// A length of time in nanoseconds, never negative.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Duration(u64);

/// A length of time in nanoseconds that can be negative: a budget in debt, a missed deadline's
/// slack.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SignedDuration(i64);

impl Instant {
    /// The start of the run.
    pub const ZERO: Self = Self(0);
    /// Later than every event.
    pub const FAR_FUTURE: Self = Self(u64::MAX);

    /// Returns the instant `ns` nanoseconds after the start.
    #[must_use]
    pub const fn from_nanos(ns: u64) -> Self {
        Self(ns)
    }

    /// Returns the nanoseconds since the start.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns the time from `earlier` to here, zero if `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }

    /// Returns the signed time from `earlier` to here.
    #[must_use]
    pub const fn signed_since(self, earlier: Self) -> SignedDuration {
        SignedDuration(self.0.wrapping_sub(earlier.0).cast_signed())
    }

    /// Returns the first instant at or after this one that is a multiple of `grain` after the
    /// start.
    ///
    /// # Panics
    /// If `grain` is zero.
    #[must_use]
    pub const fn round_up_to(self, grain: Duration) -> Self {
        Self(self.0.next_multiple_of(grain.0))
    }

    /// Returns the last instant at or before this one that is a multiple of `grain` after the
    /// start.
    ///
    /// # Panics
    /// If `grain` is zero.
    #[must_use]
    pub const fn round_down_to(self, grain: Duration) -> Self {
        Self(self.0 - self.0 % grain.0)
    }

    /// Returns this instant moved by a signed time, clamped to the representable range.
    #[must_use]
    pub const fn saturating_offset(self, by: SignedDuration) -> Self {
        Self(self.0.saturating_add_signed(by.0))
    }

    /// Returns this instant plus `by`, clamped to the representable range.
    #[must_use]
    pub const fn saturating_add(self, by: Duration) -> Self {
        Self(self.0.saturating_add(by.0))
    }
}

impl Duration {
    /// No time.
    pub const ZERO: Self = Self(0);
    /// The longest representable time.
    pub const MAX: Self = Self(u64::MAX);

    /// Returns a duration of `ns` nanoseconds.
    #[must_use]
    pub const fn from_nanos(ns: u64) -> Self {
        Self(ns)
    }
    /// Returns a duration of `us` microseconds, saturating.
    #[must_use]
    pub const fn from_micros(us: u64) -> Self {
        Self(us.saturating_mul(1_000))
    }
    /// Returns a duration of `ms` milliseconds, saturating.
    #[must_use]
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms.saturating_mul(1_000_000))
    }
    /// Returns a duration of `s` seconds, saturating.
    #[must_use]
    pub const fn from_secs(s: u64) -> Self {
        Self(s.saturating_mul(1_000_000_000))
    }
    /// Returns the nanoseconds.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }
    /// Returns whole microseconds, rounded down.
    #[must_use]
    pub const fn as_micros_floor(self) -> u64 {
        self.0 / 1_000
    }
    /// Returns `true` for no time at all.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
    /// Returns `self - other`, or zero.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
    /// Returns `self + other`, clamped.
    #[must_use]
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
    /// Returns `self * by`, clamped.
    #[must_use]
    pub const fn saturating_mul(self, by: u64) -> Self {
        Self(self.0.saturating_mul(by))
    }
    /// Returns this time as a signed one, clamped to the longest representable.
    #[must_use]
    pub const fn to_signed(self) -> SignedDuration {
        SignedDuration(if self.0 > i64::MAX as u64 { i64::MAX } else { self.0.cast_signed() })
    }
    /// Returns `self * num / den` in 128-bit arithmetic, rounded down and clamped.
    ///
    /// # Panics
    /// If `den` is zero.
    #[must_use]
    pub const fn mul_div_floor(self, num: u64, den: u64) -> Self {
        // The product nearly always fits, and a 64-bit division takes a third of the time of a
        // 128-bit one.
        if let Some(product) = self.0.checked_mul(num) {
            return Self(product / den);
        }
        let wide = self.0 as u128 * num as u128 / den as u128;
        Self(if wide > u64::MAX as u128 { u64::MAX } else { wide as u64 })
    }
    /// Returns `self * num / den` in 128-bit arithmetic, rounded up and clamped.
    ///
    /// # Panics
    /// If `den` is zero.
    #[must_use]
    pub const fn mul_div_ceil(self, num: u64, den: u64) -> Self {
        if let Some(product) = self.0.checked_mul(num) {
            return Self(product.div_ceil(den));
        }
        let wide = (self.0 as u128 * num as u128).div_ceil(den as u128);
        Self(if wide > u64::MAX as u128 { u64::MAX } else { wide as u64 })
    }
}

impl SignedDuration {
    /// No time.
    pub const ZERO: Self = Self(0);

    /// Returns a signed duration of `ns` nanoseconds.
    #[must_use]
    pub const fn from_nanos(ns: i64) -> Self {
        Self(ns)
    }
    /// Returns the nanoseconds.
    #[must_use]
    pub const fn as_nanos(self) -> i64 {
        self.0
    }
    /// Returns `true` if below zero.
    #[must_use]
    pub const fn is_negative(self) -> bool {
        self.0 < 0
    }
    /// Returns the time as an unsigned one, zero if negative.
    #[must_use]
    pub const fn max_zero(self) -> Duration {
        Duration(if self.0 < 0 { 0 } else { self.0.cast_unsigned() })
    }
}

impl Add<Duration> for Instant {
    type Output = Self;
    fn add(self, by: Duration) -> Self {
        Self(self.0 + by.0)
    }
}
impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, by: Duration) {
        *self = *self + by;
    }
}
impl Sub<Duration> for Instant {
    type Output = Self;
    fn sub(self, by: Duration) -> Self {
        Self(self.0 - by.0)
    }
}
impl Add for Duration {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}
impl AddAssign for Duration {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}
impl Sub for Duration {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
}
impl SubAssign for Duration {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}
impl Mul<u64> for Duration {
    type Output = Self;
    fn mul(self, by: u64) -> Self {
        Self(self.0 * by)
    }
}
impl Div<u64> for Duration {
    type Output = Self;
    fn div(self, by: u64) -> Self {
        Self(self.0 / by)
    }
}
impl Div for Duration {
    type Output = u64;
    fn div(self, by: Self) -> u64 {
        self.0 / by.0
    }
}
impl core::iter::Sum for Duration {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, Add::add)
    }
}
impl Add for SignedDuration {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}
impl Sub for SignedDuration {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
}
impl Neg for SignedDuration {
    type Output = Self;
    fn neg(self) -> Self {
        Self(-self.0)
    }
}

/// Why a text is not a duration. Displayed as a sentence of its own ("a duration needs a unit: ns,
/// us, ms, s, m or h").
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ParseDurationError {
    /// There is no number at the start.
    NoNumber,
    /// A number without a unit.
    NoUnit,
    /// Something other than ns, us, ms, s, m, h.
    UnknownUnit,
    /// Below zero.
    Negative,
    /// More than fits 64 bits of nanoseconds.
    TooLong,
    /// A fraction finer than one nanosecond.
    TooFine,
}

impl fmt::Display for ParseDurationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoNumber => "a duration is a number and a unit, as in 10ms",
            Self::NoUnit => "a duration needs a unit: ns, us, ms, s, m or h",
            Self::UnknownUnit => "unknown unit of time; known are ns, us, ms, s, m and h",
            Self::Negative => "a duration cannot be negative",
            Self::TooLong => "this duration is longer than 584 years",
            Self::TooFine => "a duration cannot be finer than one nanosecond",
        })
    }
}

impl core::error::Error for ParseDurationError {}

impl core::str::FromStr for Duration {
    type Err = ParseDurationError;

    /// Parses `10ms`, `1.5s`, `250us`, `7ns`, `2m`, `1h`; white space may stand between number and
    /// unit.
    fn from_str(text: &str) -> Result<Self, ParseDurationError> {
        let text = text.trim();
        if text.starts_with('-') {
            return Err(ParseDurationError::Negative);
        }
        let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = (&text[..split], text[split..].trim());
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
            return Err(ParseDurationError::NoNumber);
        }
        let scale: u64 = match unit {
            "ns" => 1,
            "us" | "µs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            "" => return Err(ParseDurationError::NoUnit),
            _ => return Err(ParseDurationError::UnknownUnit),
        };
        let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| ParseDurationError::TooLong)? };
        let mut nanos = whole.checked_mul(scale).ok_or(ParseDurationError::TooLong)?;
        let mut place = scale;
        for digit in fraction.bytes().map(|b| u64::from(b - b'0')) {
            if !place.is_multiple_of(10) {
                if digit == 0 {
                    continue;
                }
                return Err(ParseDurationError::TooFine);
            }
            place /= 10;
            nanos = nanos.checked_add(digit * place).ok_or(ParseDurationError::TooLong)?;
        }
        Ok(Self(nanos))
    }
}

/// Writes nanoseconds in the largest unit that leaves at most three decimals, exactly.
fn write_nanos(f: &mut fmt::Formatter<'_>, ns: u64) -> fmt::Result {
    let (unit, name) = match ns {
        0 => return f.pad("0ns"),
        _ if ns >= 1_000_000_000 && ns.is_multiple_of(1_000_000) => (1_000_000_000, "s"),
        _ if ns >= 1_000_000 && ns.is_multiple_of(1_000) => (1_000_000, "ms"),
        _ if ns >= 1_000 => (1_000, "us"),
        _ => (1, "ns"),
    };
    let (whole, rest) = (ns / unit, ns % unit);
    if rest == 0 {
        return write!(f, "{whole}{name}");
    }
    let mut places = 3;
    let mut fraction = rest * 1_000 / unit;
    while fraction.is_multiple_of(10) {
        fraction /= 10;
        places -= 1;
    }
    write!(f, "{whole}.{fraction:0places$}{name}")
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_nanos(f, self.0)
    }
}
impl fmt::Debug for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_nanos(f, self.0)
    }
}
impl fmt::Display for SignedDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 < 0 {
            f.write_str("-")?;
        }
        write_nanos(f, self.0.unsigned_abs())
    }
}
impl fmt::Debug for SignedDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}", self.0 / 1_000_000_000, self.0 % 1_000_000_000)
    }
}
impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn durations_parse_and_print_exactly() {
        let cases = [
            ("10ms", 10_000_000, "10ms"),
            ("1.5s", 1_500_000_000, "1.5s"),
            ("0.25 us", 250, "250ns"),
            ("950.01ms", 950_010_000, "950.01ms"),
            ("2m", 120_000_000_000, "120s"),
            ("1234567ns", 1_234_567, "1234.567us"),
            (".5ms", 500_000, "500us"),
        ];
        for (text, ns, printed) in cases {
            let parsed: Duration = text.parse().expect(text);
            assert_eq!(parsed, Duration::from_nanos(ns), "{text}");
            assert_eq!(parsed.to_string(), printed, "{text}");
        }
    }

    #[test]
    fn broken_durations_say_why() {
        let cases = [
            ("10", ParseDurationError::NoUnit),
            ("ms", ParseDurationError::NoNumber),
            ("-1ms", ParseDurationError::Negative),
            ("1 fortnight", ParseDurationError::UnknownUnit),
            ("99999999999999999999s", ParseDurationError::TooLong),
            ("18446744074s", ParseDurationError::TooLong),
            ("1.5ns", ParseDurationError::TooFine),
            ("1.2.3s", ParseDurationError::NoNumber),
            ("", ParseDurationError::NoNumber),
        ];
        for (text, error) in cases {
            assert_eq!(text.parse::<Duration>(), Err(error), "{text}");
        }
    }

    #[test]
    fn rounding_keeps_multiples() {
        let grain = Duration::from_millis(4);
        let cases = [(0, 0, 0), (3_999_999, 0, 4), (4_000_000, 4, 4), (4_000_001, 4, 8)];
        for (nanos, down, up) in cases {
            let [down, up] = [down, up].map(|ms| Instant::ZERO + Duration::from_millis(ms));
            let instant = Instant::from_nanos(nanos);
            assert_eq!((instant.round_down_to(grain), instant.round_up_to(grain)), (down, up), "{nanos}");
        }
    }
}

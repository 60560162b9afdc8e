//! Virtual time: [`Vtime`], a point on the time line of one queue, and [`Vlag`], a signed distance
//! on it.
//!
//! An entity of weight `w` that runs for `t` advances by `t * 1024 / w`. Each queue has its own
//! time line; points of different queues are never compared. The line wraps around after 2^64 ns,
//! so points are ordered by the sign of their difference. That is correct as long as all points of
//! a queue lie within 2^63 ns of each other.

use zerolag_model::Duration;

/// A point in the virtual time of one queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Vtime(u64);

/// A signed distance in virtual time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) struct Vlag(i64);

impl Vtime {
    pub(crate) const ZERO: Self = Self(0);

    /// Returns whether this point is strictly before `other`.
    #[inline]
    pub(crate) const fn is_before(self, other: Self) -> bool {
        self.0.wrapping_sub(other.0).cast_signed() < 0
    }

    /// Returns the distance from `earlier` to here.
    #[inline]
    pub(crate) const fn since(self, earlier: Self) -> Vlag {
        Vlag(self.0.wrapping_sub(earlier.0).cast_signed())
    }

    /// Returns the point `by` later.
    #[inline]
    pub(crate) const fn plus(self, by: Vlag) -> Self {
        Self(self.0.wrapping_add_signed(by.0))
    }

    /// Returns the point `by` earlier.
    #[inline]
    pub(crate) const fn minus(self, by: Vlag) -> Self {
        Self(self.0.wrapping_sub(by.0.cast_unsigned()))
    }

    #[inline]
    pub(crate) const fn earlier_of(self, other: Self) -> Self {
        if other.is_before(self) { other } else { self }
    }

    #[inline]
    pub(crate) const fn later_of(self, other: Self) -> Self {
        if self.is_before(other) { other } else { self }
    }
}

impl Vlag {
    pub(crate) const ZERO: Self = Self(0);

    #[inline]
    pub(crate) const fn from_nanos(ns: i64) -> Self {
        Self(ns)
    }

    #[inline]
    pub(crate) const fn as_nanos(self) -> i64 {
        self.0
    }

    /// Converts a duration to a distance for an entity of weight 1024; clamped.
    #[inline]
    pub(crate) const fn from_duration(time: Duration) -> Self {
        Self(time.to_signed().as_nanos())
    }

    /// Returns `self * num / den`, rounded towards zero and clamped.
    pub(crate) fn mul_div(self, num: u64, den: u64) -> Self {
        if num == den {
            return self;
        }
        let narrow = i64::try_from(num).ok().and_then(|num| self.0.checked_mul(num)).zip(i64::try_from(den).ok());
        if let Some((product, den)) = narrow {
            return Self(product / den);
        }
        let wide = i128::from(self.0) * i128::from(num) / i128::from(den);
        Self(i64::try_from(wide).unwrap_or(if wide < 0 { i64::MIN / 4 } else { i64::MAX / 4 }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_survives_the_wrap() {
        let before = Vtime::ZERO.minus(Vlag::from_nanos(5));
        let after = Vtime::ZERO.plus(Vlag::from_nanos(5));
        assert!(before.is_before(after) && !after.is_before(before) && !after.is_before(after));
        assert_eq!(after.since(before), Vlag::from_nanos(10));
        assert_eq!(before.later_of(after), after);
        assert_eq!(before.earlier_of(after), before);
    }

    /// Products of more than 63 bits.
    #[test]
    fn a_fraction_of_a_lag_is_exact_also_if_its_product_is_wide() {
        let lag = |ns| Vlag::from_nanos(ns);
        assert_eq!(lag(10).mul_div(3, 4), lag(7));
        assert_eq!(lag(-10).mul_div(3, 4), lag(-7));
        let (wide, half) = (1 << 62, 1 << 61);
        assert_eq!(lag(1_000_001).mul_div(half, wide), lag(500_000));
        assert_eq!(lag(-1_000_001).mul_div(half, wide), lag(-500_000));
        assert_eq!(lag(6).mul_div(u64::MAX, u64::MAX / 2), lag(12));
        assert_eq!(lag(i64::MAX).mul_div(wide, 1), lag(i64::MAX / 4));
        assert_eq!(lag(i64::MIN).mul_div(wide, 1), lag(i64::MIN / 4));
    }
}

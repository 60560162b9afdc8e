//! [`Sketch`]: a distribution of times as its quantiles, from which a host's tail is drawn.
//!
//! A cost that is one number has no tail, and a tail has no common form: an interrupt is late by a
//! microsecond, by a hypervisor's time slice, or by a second. So nothing is fitted but the
//! quantiles themselves, closer to each other where the tail is long. A draw is a place between 0
//! and 1; the time there is interpolated between the two nearest quantiles.

use serde::Deserialize;
use zerolag_model::Duration;

/// One, in the unit of places.
pub const WHOLE: u64 = 1_000_000;

/// A distribution of times as quantiles: places in millionths, ascending, and the time there.
#[derive(Clone, Debug, PartialEq, Eq, Default, Deserialize)]
#[serde(try_from = "Vec<(u64, String)>")]
pub struct Sketch(Vec<(u64, Duration)>);

/// The places at which [`Sketch::of`] keeps the time.
const PLACES: [u64; 14] = [
    0, 250_000, 500_000, 750_000, 900_000, 950_000, 975_000, 990_000, 995_000, 998_000, 999_000, 999_500, 999_900,
    WHOLE,
];

impl Sketch {
    /// Returns the sketch of sorted samples in nanoseconds, each less `base`; empty without
    /// samples.
    #[must_use]
    pub fn of(sorted: &[u64], base: Duration) -> Self {
        let Some(last) = sorted.len().checked_sub(1) else { return Self::default() };
        let at = |place: u64| {
            let index = usize::try_from(last as u64 * place / WHOLE).unwrap_or(last);
            (place, Duration::from_nanos(sorted[index]).saturating_sub(base))
        };
        Self(PLACES.map(at).into())
    }

    /// Returns the sketch of one time; the empty one of zero.
    #[must_use]
    pub fn constant(time: Duration) -> Self {
        if time.is_zero() { Self::default() } else { Self(vec![(0, time)]) }
    }

    /// Returns this distribution less a time at each of its places; never below the place before.
    #[must_use]
    pub fn less(&self, time: impl Fn(u64) -> Duration) -> Self {
        let mut least = Duration::ZERO;
        let at = |(place, late): &(u64, Duration)| {
            least = least.max(late.saturating_sub(time(*place)));
            (*place, least)
        };
        Self(self.0.iter().map(at).collect())
    }

    /// Returns whether all times are zero.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.0.iter().all(|(_, time)| time.is_zero())
    }

    /// Returns the quantiles.
    #[must_use]
    pub fn quantiles(&self) -> &[(u64, Duration)] {
        &self.0
    }

    /// Returns the time at a place, below [`WHOLE`]. O(quantiles).
    #[must_use]
    pub fn at(&self, place: u64) -> Duration {
        let above = self.0.iter().position(|(known, _)| *known > place).unwrap_or(self.0.len());
        let (Some((low, from)), high) = (above.checked_sub(1).map(|below| self.0[below]), self.0.get(above)) else {
            return self.0.first().map_or(Duration::ZERO, |(_, time)| *time);
        };
        match high {
            None => from,
            Some((high, to)) => from + (*to - from).mul_div_floor(place - low, high - low),
        }
    }
}

impl TryFrom<Vec<(u64, String)>> for Sketch {
    type Error = String;
    fn try_from(read: Vec<(u64, String)>) -> Result<Self, String> {
        let mut quantiles: Vec<(u64, Duration)> = Vec::with_capacity(read.len());
        for (place, text) in read {
            let time: Duration = text.parse().map_err(|error| format!("{error}"))?;
            if place > WHOLE || time > Duration::from_secs(60) {
                return Err(format!("[{place}, \"{time}\"] is outside 0..={WHOLE} and 60s"));
            }
            if quantiles.last().is_some_and(|(before, shorter)| *before >= place || *shorter > time) {
                return Err(format!("[{place}, \"{time}\"] is below the quantile before it"));
            }
            quantiles.push((place, time));
        }
        Ok(Self(quantiles))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(n: u64) -> Duration {
        Duration::from_micros(n)
    }

    #[test]
    fn times_between_quantiles_are_interpolated() {
        let sketch = Sketch(vec![(0, us(0)), (500_000, us(10)), (1_000_000, us(110))]);
        let at = [0, 250_000, 500_000, 750_000, 999_999].map(|place| sketch.at(place).as_nanos());
        assert_eq!(at, [0, 5_000, 10_000, 60_000, 109_999]);
        assert_eq!(Sketch::default().at(5), Duration::ZERO);
    }

    #[test]
    fn a_sketch_keeps_the_quantiles_of_its_samples() {
        // 1 to 1000 us, and one of 50 ms.
        let samples: Vec<u64> = (1..=1_000).map(|n| n * 1_000).chain([50_000_000]).collect();
        let sketch = Sketch::of(&samples, us(1));
        assert_eq!([500_000, 990_000, WHOLE].map(|place| sketch.at(place)), [us(500), us(990), us(49_999)]);
        assert!(Sketch::of(&[], us(1)).is_zero());
    }

    #[test]
    fn quantiles_that_descend_are_refused() {
        let read = |pairs: &[(u64, &str)]| {
            Sketch::try_from(pairs.iter().map(|(at, text)| (*at, (*text).to_owned())).collect::<Vec<_>>())
        };
        assert!(read(&[(0, "1us"), (500_000, "2us")]).is_ok());
        for wrong in [&[(0, "2us"), (5, "1us")][..], &[(5, "1us"), (5, "2us")], &[(2_000_000, "1us")], &[(0, "1")]] {
            assert!(read(wrong).is_err(), "{wrong:?}");
        }
    }
}

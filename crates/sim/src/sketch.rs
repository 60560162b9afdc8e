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
    ///
    /// A place between two samples is on the line between them. The lower one in its stead would
    /// leave the largest of few samples to one draw in ten thousand: of two gaps of 0.1 s and 15 s
    /// all were the short one, and what they are between came 80 times too often.
    #[must_use]
    pub fn of(sorted: &[u64], base: Duration) -> Self {
        let Some(last) = sorted.len().checked_sub(1) else { return Self::default() };
        let at = |place: u64| {
            let (index, beyond) = (last as u64 * place / WHOLE, last as u64 * place % WHOLE);
            let index = usize::try_from(index).unwrap_or(last);
            let (low, high) = (sorted[index], sorted[last.min(index + 1)]);
            let more = u128::from(high - low) * u128::from(beyond) / u128::from(WHOLE);
            let nanos = low + u64::try_from(more).expect("invariant: at most `high - low`");
            (place, Duration::from_nanos(nanos).saturating_sub(base))
        };
        Self(PLACES.map(at).into())
    }

    /// Returns the sketch of one time; the empty one of zero.
    #[must_use]
    pub fn constant(time: Duration) -> Self {
        if time.is_zero() { Self::default() } else { Self(vec![(0, time)]) }
    }

    /// Returns the sketch of all times of a range, each as likely.
    ///
    /// # Errors
    /// The range ends before it begins.
    pub fn uniform(least: Duration, most: Duration) -> Result<Self, String> {
        let is_range = least <= most;
        is_range.then(|| Self(vec![(0, least), (WHOLE, most)])).ok_or_else(|| format!("{least}..{most} is no range"))
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

/// Times at which something that runs stands still.
#[derive(Clone, Debug, PartialEq, Eq, Default, Deserialize)]
#[serde(try_from = "StandstillsRead")]
pub struct Standstills {
    /// From the end of one to the begin of the next; empty is never.
    pub gap: Sketch,
    /// How long each lasts.
    pub length: Sketch,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StandstillsRead {
    gap: Sketch,
    length: Sketch,
}

/// The least of the longest gap: something that stands still all the time never goes on.
const LEAST_GAP: Duration = Duration::from_micros(1);

impl Standstills {
    /// Returns standstills with these distances and lengths.
    ///
    /// # Errors
    /// The longest distance is below a microsecond.
    pub fn new(gap: Sketch, length: Sketch) -> Result<Self, String> {
        let most = gap.at(WHOLE);
        if most < LEAST_GAP && !length.is_zero() {
            return Err(format!("the longest gap is {most}, and must be at least {LEAST_GAP}"));
        }
        Ok(Self { gap, length })
    }

    /// Returns whether there are none.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.length.is_zero()
    }
}

impl TryFrom<StandstillsRead> for Standstills {
    type Error = String;
    fn try_from(StandstillsRead { gap, length }: StandstillsRead) -> Result<Self, String> {
        Self::new(gap, length)
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
    fn standstills_without_a_gap_are_refused() {
        let times = |time| Sketch::constant(time);
        assert!(Standstills::new(times(us(5)), times(us(90))).is_ok());
        let error = Standstills::new(times(Duration::from_nanos(999)), times(us(90))).expect_err("no gap");
        assert_eq!(error, "the longest gap is 999ns, and must be at least 1us");
        assert!(Standstills::new(times(us(0)), times(us(0))).expect("there are none").is_zero());
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

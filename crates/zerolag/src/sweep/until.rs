//! [`Until`]: when a sweep has enough seeds, by the confidence interval of a mean.
//!
//! A fixed number of runs is too many for figures that hardly vary and too few for the others.
//! [`Kept::run_until`](super::resume::Kept::run_until) adds runs to all combinations alike, so that
//! each still has the same seeds, until the mean of the first figure is known well enough in each.
//! It decides between rounds, by the runs of whole rounds in the order of the grid: the seeds do
//! not depend on the number of threads.

use std::fmt;

/// The confidence of the interval.
pub const CONFIDENCE: f64 = 0.95;

/// Adds runs until the confidence interval of a mean is narrow enough.
///
/// The interval is Student's, of a confidence of 95 %: means over seeds are assumed to be about
/// normal. A combination of which a run failed, or has no samples, gets no more runs by itself.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Until {
    /// How far the interval may reach to each side, as a part of the mean.
    within: f64,
    most: u64,
}

impl Until {
    /// Returns it for a width in percent of the mean, to each side, and at most so many runs of
    /// each combination.
    ///
    /// # Errors
    /// The width is not between 0 and 100 %; fewer than two runs.
    pub fn new(percent: f64, most: u64) -> Result<Self, String> {
        if !(percent > 0.0 && percent < 100.0) {
            return Err(format!("{percent} % is not between 0 and 100 %"));
        }
        if most < 2 {
            return Err("an interval needs at least two runs".to_owned());
        }
        Ok(Self { within: percent / 100.0, most })
    }

    /// Returns how many more runs a combination needs, by the figures of its runs.
    ///
    /// The width shrinks with the square root of the number of runs. The variance is only
    /// estimated, so the number at most doubles.
    #[must_use]
    pub fn more(&self, figures: &[Option<u64>]) -> u64 {
        let runs = figures.len() as u64;
        if runs >= self.most || figures.iter().any(Option::is_none) {
            return 0;
        }
        let Some(width) = width(figures) else { return 2_u64.saturating_sub(runs) };
        if width <= self.within {
            return 0;
        }
        let needed = (runs as f64 * (width / self.within).powi(2)).ceil();
        let doubled = (2 * runs).min(self.most);
        let all = if needed < doubled as f64 { needed as u64 } else { doubled };
        (all - runs).max(1)
    }

    /// Returns how far the interval of a combination reaches, in percent of its mean, if that is
    /// more than was asked for.
    #[must_use]
    pub fn misses(&self, figures: &[Option<u64>]) -> Option<f64> {
        width(figures).filter(|width| *width > self.within).map(|width| 100.0 * width)
    }
}

impl fmt::Display for Until {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} %", 100.0 * self.within)
    }
}

/// Returns how far the interval of a mean reaches to each side, as a part of the mean; `None` of
/// fewer than two figures.
fn width(figures: &[Option<u64>]) -> Option<f64> {
    let known: Vec<f64> = figures.iter().flatten().map(|figure| *figure as f64).collect();
    let runs = known.len();
    if runs < 2 {
        return None;
    }
    let mean = known.iter().sum::<f64>() / runs as f64;
    let variance = known.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (runs - 1) as f64;
    let half = student(runs - 1, CONFIDENCE) * (variance / runs as f64).sqrt();
    Some(if half > 0.0 { half / mean } else { 0.0 })
}

/// Returns the half width of the middle of Student's distribution that has this probability.
fn student(freedom: usize, probability: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    while middle(freedom, high) < probability {
        high *= 2.0;
    }
    // Bounded: as many halvings as a number has digits.
    for _ in 0..f64::MANTISSA_DIGITS {
        let half = f64::midpoint(low, high);
        if middle(freedom, half) < probability { low = half } else { high = half }
    }
    high
}

/// Returns the probability of -t to t. O(freedom).
///
/// Source: Abramowitz & Stegun 1964, "Handbook of Mathematical Functions", 26.7.3 and 26.7.4.
fn middle(freedom: usize, t: f64) -> f64 {
    let nu = freedom as f64;
    let hypotenuse = (nu + t * t).sqrt();
    let (sin, cos) = (t / hypotenuse, nu.sqrt() / hypotenuse);
    let is_odd = freedom % 2 == 1;
    let (mut term, mut sum) = if is_odd { (cos, 0.0) } else { (1.0, 0.0) };
    let mut power = if is_odd { 1 } else { 0 };
    // Each term has two more powers of the cosine, up to `freedom - 2`.
    while power + 2 <= freedom {
        sum += term;
        power += 2;
        term *= cos * cos * (power - 1) as f64 / power as f64;
    }
    if is_odd { std::f64::consts::FRAC_2_PI * ((sin / cos).atan() + sin * sum) } else { sin * sum }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_tables() {
        for (freedom, quantile) in [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (9, 2.262), (30, 2.042)] {
            let found = student(freedom, 0.95);
            assert!((found - quantile).abs() < 0.001, "{freedom}: {found}, not {quantile}");
        }
        assert!((student(2, 0.99) - 9.925).abs() < 0.001);
    }

    #[test]
    fn runs_are_added_until_the_interval_is_narrow_enough() {
        let until = Until::new(10.0, 20).expect("valid");
        let more = |values: &[u64]| until.more(&values.iter().copied().map(Some).collect::<Vec<_>>());
        assert_eq!((more(&[]), more(&[7])), (2, 1));
        assert_eq!(more(&[7, 7]), 0, "no variance");
        assert_eq!(more(&[0, 0, 0]), 0);
        assert_eq!(more(&[100, 200, 300]), 3, "at most twice as many");
        // Mean 100, deviation 8.16, interval 8.57: 10 % is met, 8 % needs 6 runs.
        assert_eq!(more(&[90, 105, 95, 110, 92, 108]), 0);
        assert_eq!(Until::new(8.0, 20).expect("valid").more(&[90, 105, 95, 110, 92, 108].map(Some)), 2);
        assert_eq!(until.more(&[Some(1), None]), 0, "a run without samples");
        assert_eq!(until.more(&[[Some(1); 10], [Some(9); 10]].concat()), 0, "there are no more");
        assert_eq!(until.misses(&[Some(7), Some(7)]), None);
        assert!(until.misses(&[Some(1), Some(9)]).is_some_and(|percent| percent > 100.0));
        assert!(Until::new(0.0, 20).is_err() && Until::new(f64::NAN, 20).is_err() && Until::new(5.0, 1).is_err());
    }
}

//! [`Misses`]: how many runs missed a goal, and what that says of all seeds; [`Rule`]: how many
//! runs a judgement needs.
//!
//! A run has a seed, and another seed gives other figures. So a goal is met by a *share* of all
//! seeds, and some runs only bound that share: five runs that meet it say with a confidence of 95 %
//! that fewer than 46 % miss it, and no more. Every statement about a goal in this library comes
//! from here.
//!
//! Two mistakes are easy:
//!
//! * *Judging by the runs that chose.* The smallest value that meets a goal in some runs is the one
//!   that is just good enough for these. So a value is searched for with some seeds and judged by
//!   others ([`crate::sweep::judge`]).
//! * *Looking often.* If runs are added until the answer is the wanted one, it will come at last,
//!   right or wrong. So the probability of a wrong answer (5 %) is spent: each look has a part of
//!   it ([`Rule::spent`]), and the parts add up to it. All looks together are wrong in at most 5 %,
//!   however many there are (the union bound).

use schemars::JsonSchema;
use serde::Serialize;
use std::fmt;

/// The confidence of every statement about a share.
pub const CONFIDENCE: f64 = 0.95;

/// How many of some runs missed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, JsonSchema)]
pub struct Misses {
    /// Runs that missed.
    pub missed: u64,
    /// All runs.
    pub runs: u64,
}

impl Misses {
    /// Counts a run.
    pub const fn count(&mut self, is_met: bool) {
        self.runs += 1;
        if !is_met {
            self.missed += 1;
        }
    }

    /// Returns the runs of both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self { missed: self.missed + other.missed, runs: self.runs + other.runs }
    }

    /// Returns the share of runs that missed; zero without runs.
    #[must_use]
    pub fn share(self) -> f64 {
        if self.runs == 0 { 0.0 } else { self.missed as f64 / self.runs as f64 }
    }

    /// Returns what the true share of misses is below, with this confidence: the exact one-sided
    /// bound. One without runs. O(missed).
    ///
    /// Source: C. J. Clopper, E. S. Pearson: The use of confidence or fiducial limits illustrated
    /// in the case of the binomial, Biometrika 26 (1934). It is the share with which so few misses
    /// have the probability `1 - confidence`.
    #[must_use]
    pub fn at_most(self, confidence: f64) -> f64 {
        if self.missed >= self.runs {
            return 1.0;
        }
        halve(|share| self.probability_of_no_more(share) > 1.0 - confidence)
    }

    /// Returns what the true share of misses is above, with this confidence: the exact one-sided
    /// bound from below. Zero without misses. O(missed).
    #[must_use]
    pub fn at_least(self, confidence: f64) -> f64 {
        if self.missed == 0 {
            return 0.0;
        }
        halve(|share| self.probability_of_no_fewer(share) <= 1.0 - confidence)
    }

    /// Returns the probability that so many runs have at most so many misses, if this is the true
    /// share of misses.
    fn probability_of_no_more(self, share: f64) -> f64 {
        if self.missed >= self.runs || share <= 0.0 {
            return 1.0;
        }
        if share >= 1.0 {
            return 0.0;
        }
        // Logarithms: the terms of a thousand runs are below what a number can hold.
        let (yes, no) = (share.ln(), (-share).ln_1p());
        let runs = self.runs as f64;
        let mut ways = 0.0_f64;
        let mut sum = 0.0;
        for missed in 0..=self.missed {
            let of = missed as f64;
            sum += (ways + of * yes + (runs - of) * no).exp();
            ways += (runs - of).ln() - (of + 1.0).ln();
        }
        sum.min(1.0)
    }

    /// Returns the probability that so many runs have at least so many misses.
    fn probability_of_no_fewer(self, share: f64) -> f64 {
        let fewer = Self { missed: self.missed.saturating_sub(1), ..self };
        if self.missed == 0 { 1.0 } else { 1.0 - fewer.probability_of_no_more(share) }
    }
}

/// Returns the place between 0 and 1 up to which a condition holds.
fn halve(holds: impl Fn(f64) -> bool) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    // Bounded: as many halvings as a number has digits.
    for _ in 0..f64::MANTISSA_DIGITS {
        let half = f64::midpoint(low, high);
        if holds(half) { low = half } else { high = half }
    }
    high
}

/// A share of all seeds as readers need it: in percent, rounded up to two digits, so that "below"
/// stays true.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Below(pub f64);

impl fmt::Display for Below {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = 100.0 * self.0;
        // The digit behind the last one that is shown is the first that rounding looks at; what is
        // below it is the error of a sum.
        // None is no negative zero.
        let up = |step: f64| ((percent / step - 1e-9).ceil() * step).abs().min(100.0);
        if percent >= 10.0 { write!(f, "{:.0} %", up(1.0)) } else { write!(f, "{:.1} %", up(0.1)) }
    }
}

/// A share of all seeds in percent, rounded down to two digits, so that "above" stays true.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Above(pub f64);

impl fmt::Display for Above {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = 100.0 * self.0;
        let down = |step: f64| (percent / step + 1e-9).floor() * step;
        if percent >= 10.0 { write!(f, "{:.0} %", down(1.0)) } else { write!(f, "{:.1} %", down(0.1)) }
    }
}

impl fmt::Display for Misses {
    /// Writes `2 of 40 runs miss; the true share is below 15 % with 95 % confidence`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.below("", CONFIDENCE))
    }
}

impl Misses {
    /// Returns the sentence about these runs, with a word before `runs`. `confidence` is that of
    /// this look; with the others before it, it is [`CONFIDENCE`].
    #[must_use]
    pub fn below(self, which: &str, confidence: f64) -> String {
        let Self { missed, runs } = self;
        let (bound, sure) = (Below(self.at_most(confidence)), 100.0 * CONFIDENCE);
        let miss = if missed == 1 { "misses" } else { "miss" };
        let runs_of = if runs == 1 { "run" } else { "runs" };
        format!(
            "{missed} of {runs} {which}{runs_of} {miss}; the true share is below {bound} with {sure:.0} % confidence"
        )
    }
}

/// Whether a goal is met as often as was asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Settled {
    /// The true share of misses is below the risk.
    Met,
    /// It is above the risk.
    Missed,
    /// That many runs do not tell.
    Open,
}

impl Settled {
    /// Returns its name in tables and JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Met => "met",
            Self::Missed => "missed",
            Self::Open => "not settled",
        }
    }
}

/// What a judgement promises, and how many runs it can take.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rule {
    risk: f64,
    search: u64,
    most: u64,
}

/// The share of seeds that may miss, if nothing else is asked.
pub const RISK: f64 = 0.05;
/// The most runs that a caller can ask for, per value.
pub const RUNS_MAX: u64 = 10_000;

impl Default for Rule {
    fn default() -> Self {
        Self::new(RISK, None, None).expect("invariant: the usual risk can be shown")
    }
}

impl Rule {
    /// Returns the rule for a true share of misses below `risk`, with a search by `search` seeds
    /// and at most so many fresh seeds per value.
    ///
    /// By default a search has as many seeds as a value whose share is the risk passes with a
    /// probability of one eighth, and a value at most three times the runs that one without a miss
    /// needs.
    ///
    /// # Errors
    /// The risk is not between 0 and 100 %, or so many runs cannot show it: how many are needed.
    pub fn new(risk: f64, search: Option<u64>, most: Option<u64>) -> Result<Self, String> {
        if !(risk > 0.0 && risk < 1.0) {
            return Err("no number of runs shows that: expected a share between 0 and 100 %, as in 5%".to_owned());
        }
        let needed = needed(0, risk, Self::spent(0, 0));
        let most = most.unwrap_or_else(|| needed.saturating_mul(3));
        if most < needed || most > RUNS_MAX {
            return Err(format!(
                "a share of misses below {} needs {needed} runs without a miss, and at most {} are allowed",
                Below(risk),
                most.min(RUNS_MAX)
            ));
        }
        let search = search.unwrap_or_else(|| self::needed(0, risk, 1.0 / 8.0));
        Ok(Self { risk, search: search.max(1), most })
    }

    /// Returns the share of seeds that may miss.
    #[must_use]
    pub const fn risk(&self) -> f64 {
        self.risk
    }

    /// Returns the number of seeds of a search.
    #[must_use]
    pub const fn search(&self) -> u64 {
        self.search
    }

    /// Returns the most fresh seeds per value.
    #[must_use]
    pub const fn most(&self) -> u64 {
        self.most
    }

    /// Returns the number of runs without a miss that a value needs.
    #[must_use]
    pub fn needs(&self) -> u64 {
        needed(0, self.risk, Self::spent(0, 0))
    }

    /// Returns the number of misses in `runs` with which a value of a search is worth its
    /// confirmation. A value near the risk would need thousands of runs, so it is a quarter.
    #[must_use]
    pub fn tolerated(&self, runs: u64) -> u64 {
        (self.risk * runs as f64 / 4.0).floor() as u64
    }

    /// Returns the probability of a wrong "met" that a look is allowed: value number `tried` with
    /// so many misses.
    ///
    /// The first value takes two thirds of all, and each further one two thirds of the rest. Of
    /// that, the look without a miss takes two thirds, and those with misses share the last third
    /// as `1 / (misses (misses + 1))`, which sums up to one: few misses are likely, and many must
    /// not be hopeless where the risk is large.
    #[must_use]
    pub fn spent(tried: u32, missed: u64) -> f64 {
        let of_look = match missed {
            0 => 2.0 / 3.0,
            several => 1.0 / 3.0 * parts(several),
        };
        (1.0 - CONFIDENCE) * of_value(tried) * of_look
    }

    /// Returns the probability of a wrong "missed" that a look is allowed.
    fn refused(tried: u32, missed: u64) -> f64 {
        (1.0 - CONFIDENCE) * of_value(tried) * parts(missed)
    }

    /// Returns what the runs of the value number `tried` with fresh seeds say. `Open` if there are
    /// to be more.
    #[must_use]
    pub fn settle(&self, tried: u32, misses: Misses) -> Settled {
        if misses.runs == 0 {
            return Settled::Open;
        }
        if misses.probability_of_no_more(self.risk) <= Self::spent(tried, misses.missed) {
            return Settled::Met;
        }
        if misses.missed > 0 && misses.probability_of_no_fewer(self.risk) <= Self::refused(tried, misses.missed) {
            return Settled::Missed;
        }
        Settled::Open
    }

    /// Returns whether another run of a value can settle it. With so many misses that the most runs
    /// are too few it cannot.
    #[must_use]
    pub fn goes_on(&self, tried: u32, misses: Misses) -> bool {
        self.settle(tried, misses) == Settled::Open
            && misses.runs < self.most
            && needed(misses.missed, self.risk, Self::spent(tried, misses.missed)) <= self.most
    }
}

/// Returns the part of all that the value number `tried` can spend.
fn of_value(tried: u32) -> f64 {
    (2.0 / 3.0) * (1.0_f64 / 3.0).powi(i32::try_from(tried).unwrap_or(i32::MAX))
}

/// Returns the part of a look with so many misses: 1/2, 1/6, 1/12, ..., together one.
fn parts(missed: u64) -> f64 {
    let missed = missed.max(1) as f64;
    1.0 / (missed * (missed + 1.0))
}

/// Returns the least number of runs in which at most `missed` misses have a probability of at most
/// `wrong`, if `risk` is the true share. O(missed log runs).
#[must_use]
pub fn needed(missed: u64, risk: f64, wrong: f64) -> u64 {
    let is_enough = |runs: u64| Misses { missed, runs }.probability_of_no_more(risk) <= wrong;
    let (mut low, mut high) = (missed, missed + 1);
    while !is_enough(high) {
        if high > u64::MAX / 4 {
            return u64::MAX;
        }
        (low, high) = (high, high * 2);
    }
    while high - low > 1 {
        let half = low.midpoint(high);
        if is_enough(half) { high = half } else { low = half }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn of(missed: u64, runs: u64) -> Misses {
        Misses { missed, runs }
    }

    #[test]
    fn bounds_are_those_of_tables() {
        // Computed with rational sums of the binomial terms, by another program.
        for (missed, runs, low, high) in [
            (0, 1, 0.0, 0.95),
            (0, 5, 0.0, 0.450_720),
            (0, 59, 0.0, 0.049_508),
            (1, 10, 0.005_116, 0.394_163),
            (2, 40, 0.008_957, 0.149_152),
            (5, 10, 0.222_441, 0.777_559),
            (10, 10, 0.741_134, 1.0),
            (30, 1000, 0.021_675, 0.040_472),
        ] {
            let found = (of(missed, runs).at_least(0.95), of(missed, runs).at_most(0.95));
            assert!((found.0 - low).abs() < 2e-6 && (found.1 - high).abs() < 2e-6, "{missed} of {runs}: {found:?}");
        }
        assert_eq!((of(0, 0).at_least(0.95), of(0, 0).at_most(0.95)), (0.0, 1.0), "nothing is known");
    }

    #[test]
    fn a_bound_is_true_as_often_as_it_says() {
        // Exactly: the probability that the bound of a draw is below the true share.
        for (runs, share) in [(20, 0.1), (59, 0.05), (200, 0.02), (40, 0.5)] {
            let probability = |missed: u64| {
                let no_more = |missed: u64| of(missed, runs).probability_of_no_more(share);
                no_more(missed) - missed.checked_sub(1).map_or(0.0, no_more)
            };
            let all: f64 = (0..=runs).map(probability).sum();
            assert!((all - 1.0).abs() < 1e-9, "{all}");
            let wrong: f64 = (0..=runs).filter(|missed| of(*missed, runs).at_most(0.95) < share).map(probability).sum();
            assert!(wrong <= 0.05, "{runs} runs, {share}: {wrong}");
        }
    }

    #[test]
    fn the_number_of_runs_is_the_least_that_is_enough() {
        assert_eq!(needed(0, 0.05, 0.05), 59, "0.95^59 is 0.0485");
        assert_eq!([1, 2, 5].map(|missed| needed(missed, 0.05, 0.05)), [93, 124, 208]);
        assert_eq!(needed(0, 0.01, 0.05), 299);
        let rule = Rule::default();
        assert_eq!((rule.needs(), rule.search(), rule.most()), (75, 41, 225));
        assert_eq!(rule.settle(0, of(0, 74)), Settled::Open);
        assert_eq!(rule.settle(0, of(0, 75)), Settled::Met);
        assert_eq!(rule.settle(1, of(0, 75)), Settled::Open, "a second value has less to spend");
        assert_eq!(
            [of(1, 1), of(2, 2), of(1, 75)].map(|misses| rule.settle(0, misses)),
            [Settled::Open, Settled::Missed, Settled::Open]
        );
        assert!(rule.goes_on(0, of(1, 75)) && !rule.goes_on(0, of(0, 75)) && !rule.goes_on(0, of(3, 75)));
        for (risk, most, says) in [
            (0.0, None, "no number of runs"),
            (1.0, None, "no number of runs"),
            (f64::NAN, None, "no number of runs"),
            (0.05, Some(74), "a share of misses below 5.0 % needs 75 runs without a miss, and at most 74 are allowed"),
            (0.000_01, None, "needs"),
        ] {
            assert!(Rule::new(risk, None, most).is_err_and(|why| why.contains(says)), "{risk}");
        }
    }

    /// Returns the probabilities that a value with a true share of misses is said to be met, and to
    /// be missed, exactly: over all orders of hits and misses.
    fn said(rule: &Rule, share: f64) -> (f64, f64) {
        // By number of misses: the probability that the value is still open.
        let mut open = vec![1.0];
        let (mut met, mut missed) = (0.0, 0.0);
        for runs in 1..=rule.most() {
            let mut next = vec![0.0; open.len() + 1];
            for (misses, probability) in open.iter().enumerate() {
                next[misses] += probability * (1.0 - share);
                next[misses + 1] += probability * share;
            }
            for (misses, probability) in (0..).zip(&mut next).filter(|(_, probability)| **probability > 0.0) {
                match rule.settle(0, of(misses, runs)) {
                    // What is less likely than this changes no digit.
                    Settled::Open if *probability > 1e-12 => continue,
                    Settled::Open => {}
                    Settled::Met => met += *probability,
                    Settled::Missed => missed += *probability,
                }
                *probability = 0.0;
            }
            open = next;
        }
        (met, missed)
    }

    #[test]
    fn looking_often_does_not_make_a_wrong_answer_likely() {
        for risk in [0.02, 0.05, 0.2, 0.5] {
            let rule = Rule::new(risk, None, Some(400)).expect("valid");
            let (met, missed) = said(&rule, risk);
            assert!(met <= 0.05 && missed <= 0.05, "{risk}: {met} {missed}");
            let (good, bad) = (said(&rule, risk / 10.0), said(&rule, (4.0 * risk).min(0.95)));
            assert!(good.0 > 0.8 && bad.1 > 0.9, "{risk}: what is far from the risk is settled: {good:?} {bad:?}");
        }
        // However many values are tried and misses are seen.
        let values = |look: &dyn Fn(u32) -> f64| (0..40).map(look).sum::<f64>();
        let all = values(&|tried| (0..2_000).map(|missed| Rule::spent(tried, missed)).sum());
        let refused = values(&|tried| (1..2_000).map(|missed| Rule::refused(tried, missed)).sum());
        assert!(all <= 0.05 && refused <= 0.05 && all > 0.049 && refused > 0.049, "{all} {refused}");
    }

    #[test]
    fn shares_are_rounded_up() {
        assert_eq!(
            [0.0, 0.01, 0.049_51, 0.05, 0.149_2, 0.996, 1.0].map(|share| Below(share).to_string()),
            ["0.0 %", "1.0 %", "5.0 %", "5.0 %", "15 %", "100 %", "100 %"]
        );
        assert_eq!(
            [0.0, 0.049_99, 0.149_2, 1.0].map(|share| Above(share).to_string()),
            ["0.0 %", "4.9 %", "14 %", "100 %"]
        );
        assert_eq!(of(2, 40).to_string(), "2 of 40 runs miss; the true share is below 15 % with 95 % confidence");
        assert_eq!(of(1, 1).to_string(), "1 of 1 run misses; the true share is below 100 % with 95 % confidence");
    }
}

//! [`Spared`]: the CPU time for which the tasks of a group were spared ([`spare`](crate::spare)),
//! in a window of time.

use zerolag_model::{Duration, Instant};

/// The time in which the time spared is limited.
const WINDOW: Duration = Duration::from_secs(1);

/// The CPU time for which the tasks of a group were spared, since the start of a window.
#[derive(Debug, Default)]
pub(crate) struct Spared {
    since: Option<Instant>,
    used: Duration,
    /// It was refused more in this window.
    is_out: bool,
    /// The windows in which it was.
    stalls: u64,
}

impl Spared {
    /// Returns whether the group has some of `at_most` left. `running` has not been added yet.
    pub(crate) fn has_left(&mut self, now: Instant, at_most: Duration, running: Duration) -> bool {
        if self.since.is_none_or(|since| now >= since + WINDOW) {
            *self = Self { since: Some(now), used: Duration::ZERO, is_out: false, stalls: self.stalls };
        }
        let has_left = self.used + running < at_most;
        if !has_left && !std::mem::replace(&mut self.is_out, true) {
            self.stalls += 1;
        }
        has_left
    }

    /// Returns in how many windows it had none left for a holder that others waited for.
    pub(crate) const fn stalls(&self) -> u64 {
        self.stalls
    }

    pub(crate) fn add(&mut self, time: Duration) {
        self.used += time;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_has_its_time_and_no_more() {
        let ms = Duration::from_millis;
        let at = |ms: u64| Instant::from_nanos(ms * 1_000_000);
        let mut spared = Spared::default();
        assert!(spared.has_left(at(500), ms(10), ms(0)));
        spared.add(ms(6));
        assert!(spared.has_left(at(600), ms(10), ms(3)));
        assert!(!spared.has_left(at(600), ms(10), ms(4)));
        spared.add(ms(4));
        assert!(!spared.has_left(at(1_499), ms(10), ms(0)));
        assert_eq!(spared.stalls(), 1, "once in a window");
        assert!(spared.has_left(at(1_500), ms(10), ms(0)));
        assert!(!spared.has_left(at(1_600), ms(10), ms(10)));
        assert_eq!(spared.stalls(), 2);
    }
}

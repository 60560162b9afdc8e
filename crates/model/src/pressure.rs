//! [`PressureTrigger`]: a threshold of stalls within a window, as it is written to `cpu.pressure`.

use crate::time::Duration;
use core::fmt;
use core::str::FromStr;

/// Which stalls count.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Stall {
    /// A task is runnable and does not run.
    Some,
    /// Tasks are runnable, and none of them runs.
    Full,
}

/// A trigger of `cpu.pressure` or `/proc/pressure/cpu`: it fires when the stalls within a window
/// reach a threshold.
///
/// ```
/// use zerolag_model::{Duration, PressureTrigger, Stall};
///
/// let trigger: PressureTrigger = "some 150000 1000000".parse()?;
/// let (threshold, window) = (Duration::from_millis(150), Duration::from_secs(1));
/// assert_eq!(trigger, PressureTrigger { stall: Stall::Some, threshold, window });
/// # Ok::<(), zerolag_model::PressureTriggerError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PressureTrigger {
    /// The stalls that count.
    pub stall: Stall,
    /// The time of them at which it fires; above 0, at most the window.
    pub threshold: Duration,
    /// The window, [`WINDOW_MIN`](Self::WINDOW_MIN) to [`WINDOW_MAX`](Self::WINDOW_MAX).
    pub window: Duration,
}

/// Why a text is no trigger. The kernel returns EINVAL.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PressureTriggerError {
    /// It is not `some` or `full` and two numbers.
    Form,
    /// The window is too short or too long.
    Window,
    /// The threshold is 0 or above the window.
    Threshold,
}

impl PressureTrigger {
    /// The shortest window (`WINDOW_MIN_US`).
    pub const WINDOW_MIN: Duration = Duration::from_millis(500);
    /// The longest window (`WINDOW_MAX_US`).
    pub const WINDOW_MAX: Duration = Duration::from_secs(10);
}

impl FromStr for PressureTrigger {
    type Err = PressureTriggerError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut words = text.split_whitespace();
        let stall = match words.next() {
            Some("some") => Stall::Some,
            Some("full") => Stall::Full,
            _ => return Err(PressureTriggerError::Form),
        };
        let mut micros = || {
            let number: u32 = words.next()?.parse().ok()?;
            Some(Duration::from_micros(u64::from(number)))
        };
        let (Some(threshold), Some(window)) = (micros(), micros()) else { return Err(PressureTriggerError::Form) };
        if words.next().is_some() {
            return Err(PressureTriggerError::Form);
        }
        if !(Self::WINDOW_MIN..=Self::WINDOW_MAX).contains(&window) {
            return Err(PressureTriggerError::Window);
        }
        if threshold.is_zero() || threshold > window {
            return Err(PressureTriggerError::Threshold);
        }
        Ok(Self { stall, threshold, window })
    }
}

impl fmt::Display for PressureTriggerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Form => "a trigger is `some` or `full`, a threshold and a window in microseconds",
            Self::Window => "the window is 500000 to 10000000 microseconds (EINVAL)",
            Self::Threshold => "the threshold is above 0 and at most the window (EINVAL)",
        })
    }
}

impl core::error::Error for PressureTriggerError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trigger_is_read_as_the_kernel_reads_it() {
        let read = |text: &str| text.parse::<PressureTrigger>();
        let second = Duration::from_secs(1);
        let full = PressureTrigger { stall: Stall::Full, threshold: second, window: second };
        assert_eq!(read("full 1000000 1000000"), Ok(full));
        for (text, wrong) in [
            ("most 1 1000000", PressureTriggerError::Form),
            ("some 150ms 1s", PressureTriggerError::Form),
            ("some 150000", PressureTriggerError::Form),
            ("some 1 1000000 3", PressureTriggerError::Form),
            ("some 1 499999", PressureTriggerError::Window),
            ("some 1 10000001", PressureTriggerError::Window),
            ("some 0 500000", PressureTriggerError::Threshold),
            ("some 500001 500000", PressureTriggerError::Threshold),
        ] {
            assert_eq!(read(text), Err(wrong), "{text}");
        }
    }
}

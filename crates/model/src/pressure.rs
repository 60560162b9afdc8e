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
/// assert_eq!(trigger, PressureTrigger { stall: Stall::Some, threshold, window, is_privileged: true });
/// # Ok::<(), zerolag_model::PressureTriggerError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PressureTrigger {
    /// The stalls that count.
    pub stall: Stall,
    /// The time of them at which it fires; above 0, at most the window.
    pub threshold: Duration,
    /// The window, above 0 and at most [`WINDOW_MAX`](Self::WINDOW_MAX).
    pub window: Duration,
    /// Whether its user has CAP_SYS_RESOURCE.
    pub is_privileged: bool,
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
    /// Its user has no CAP_SYS_RESOURCE, and the window is no multiple of 2 s.
    Unprivileged,
}

impl PressureTrigger {
    /// The longest window (`WINDOW_MAX_US`). There is no shortest one since 6.4 (519fabc7aaba); it
    /// was 500 ms.
    pub const WINDOW_MAX: Duration = Duration::from_secs(10);
    /// The windows of a user without CAP_SYS_RESOURCE are multiples of this, since 6.4
    /// (d82caa273565).
    pub const UNPRIVILEGED_WINDOW: Duration = Duration::from_secs(2);

    /// Returns the same trigger of a user without CAP_SYS_RESOURCE.
    ///
    /// # Errors
    /// The window is no multiple of [`UNPRIVILEGED_WINDOW`](Self::UNPRIVILEGED_WINDOW).
    pub fn unprivileged(self) -> Result<Self, PressureTriggerError> {
        match self.window.as_nanos() % Self::UNPRIVILEGED_WINDOW.as_nanos() {
            0 => Ok(Self { is_privileged: false, ..self }),
            _ => Err(PressureTriggerError::Unprivileged),
        }
    }
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
        if window.is_zero() || window > Self::WINDOW_MAX {
            return Err(PressureTriggerError::Window);
        }
        if threshold.is_zero() || threshold > window {
            return Err(PressureTriggerError::Threshold);
        }
        Ok(Self { stall, threshold, window, is_privileged: true })
    }
}

impl fmt::Display for PressureTriggerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Form => "a trigger is `some` or `full`, a threshold and a window in microseconds",
            Self::Window => "the window is 1 to 10000000 microseconds (EINVAL)",
            Self::Threshold => "the threshold is above 0 and at most the window (EINVAL)",
            Self::Unprivileged => "without CAP_SYS_RESOURCE the window is a multiple of 2000000 microseconds (EINVAL)",
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
        let full = PressureTrigger { stall: Stall::Full, threshold: second, window: second, is_privileged: true };
        assert_eq!(read("full 1000000 1000000"), Ok(full));
        for (text, wrong) in [
            ("most 1 1000000", PressureTriggerError::Form),
            ("some 150ms 1s", PressureTriggerError::Form),
            ("some 150000", PressureTriggerError::Form),
            ("some 1 1000000 3", PressureTriggerError::Form),
            ("some 1 0", PressureTriggerError::Window),
            ("some 1 10000001", PressureTriggerError::Window),
            ("some 0 500000", PressureTriggerError::Threshold),
            ("some 500001 500000", PressureTriggerError::Threshold),
        ] {
            assert_eq!(read(text), Err(wrong), "{text}");
        }
        let without = |text: &str| read(text).and_then(PressureTrigger::unprivileged);
        assert_eq!(without("full 1 4000000").map(|trigger| trigger.is_privileged), Ok(false));
        for text in ["some 1 1", "some 1 1999999", "some 1 3000000"] {
            assert_eq!(without(text), Err(PressureTriggerError::Unprivileged), "{text}");
        }
    }
}

//! [`Timers`]: which armings of timers are valid, beyond those that each CPU keeps.

use crate::kernel::group_timers::GroupTimers;

/// The state of timers that belong to no CPU.
#[derive(Clone, Debug, Default)]
pub(super) struct Timers {
    pub(super) groups: GroupTimers,
    /// How many timers with slack have been armed: each has its number.
    slack_armed: u64,
}

impl Timers {
    /// Returns the number of a timer with slack that is armed now.
    pub(super) const fn arm_slack(&mut self) -> u64 {
        self.slack_armed += 1;
        self.slack_armed
    }
}

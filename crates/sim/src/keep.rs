//! What a machine keeps of a run beside its records, for those that ask for it before it begins.

use crate::machine::Machine;
use zerolag_model::state::StateHistory;
use zerolag_model::{Instant, TaskId};
use zerolag_policy::Window as PolicySteps;

impl Machine {
    /// Keeps the scheduler's own numbers at each decision of a CPU (lag, virtual deadlines, quota,
    /// budgets), within a bound of memory: [`take_state`](Self::take_state). The schedule is the
    /// same, and so are its costs.
    pub fn keep_state(&mut self) {
        self.kernel.keep_states();
    }

    /// Returns the numbers that were kept, or `None` without [`keep_state`](Self::keep_state).
    pub fn take_state(&mut self) -> Option<StateHistory> {
        self.kernel.take_states()
    }

    /// Keeps where a loaded policy puts these tasks in these times; without a policy nothing is.
    pub fn keep_policy_steps(&mut self, of: impl IntoIterator<Item = (TaskId, Instant, Instant)>) {
        self.kernel.scheduler().keep_policy_steps(of);
    }

    /// Takes out the steps that were kept, in the order in which they were asked for.
    #[must_use]
    pub fn take_policy_steps(&mut self) -> Vec<PolicySteps> {
        self.kernel.scheduler().take_policy_steps()
    }
}

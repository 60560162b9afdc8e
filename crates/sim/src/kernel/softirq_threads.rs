//! [`SoftirqThreads`]: which threads of a machine do softirqs.

use std::sync::Arc;
use zerolag_workload::program::ResourceId;

/// The threads that do softirqs.
#[derive(Clone, Debug, Default)]
pub(super) struct SoftirqThreads {
    /// Whether they do all that interrupts raise, or only what is left.
    pub(super) do_all: bool,
    /// The semaphores at which they wait, by CPU.
    pub(super) semaphores: Arc<[ResourceId]>,
}

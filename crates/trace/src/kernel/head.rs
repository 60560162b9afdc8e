//! [`Head`]: the contents of a recording besides events.

use super::event::Event;
use zerolag_model::CpuId;

/// The contents of a recording besides events.
#[derive(Debug, Default)]
pub(crate) struct Head {
    /// The number of CPUs that the recorder tells.
    pub(crate) cpus: u32,
    /// Lost events of unknown place.
    pub(crate) lost: u64,
    /// The release of the kernel, if the recorder tells it.
    pub(crate) kernel: String,
    /// The part of the file that could not be read, if it is cut off.
    pub(crate) dropped: Option<String>,
}

impl Head {
    /// Notes that a CPU exists.
    pub(crate) fn saw_cpu(&mut self, cpu: CpuId) {
        self.cpus = self.cpus.max(cpu.0.saturating_add(1));
    }
}

/// Returns whether an event is more than a remark on others.
pub(crate) const fn is_scheduling(event: &Event<'_>) -> bool {
    use super::event::KernelEvent::{Call, Charged, Lost, Name, Process};
    !matches!(event.event, Call(_) | Charged { .. } | Lost { .. } | Name { .. } | Process { .. })
}

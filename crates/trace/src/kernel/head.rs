//! [`Head`]: the contents of a recording besides events.

use super::event::Event;
use super::skips::Skips;
use crate::error::ReadError;
use zerolag_model::{CpuId, Instant};

/// The contents of a recording besides events.
#[derive(Debug, Default)]
pub(crate) struct Head {
    /// The name of the format, for headings.
    pub(crate) format: &'static str,
    /// The number of CPUs that the recorder tells.
    pub(crate) cpus: u32,
    /// Lost events of unknown place.
    pub(crate) lost: u64,
    /// The release of the kernel, if the recorder tells it.
    pub(crate) kernel: String,
    /// The part of the file that could not be read, if it is cut off.
    pub(crate) dropped: Option<String>,
    /// The parts that were left out.
    pub(crate) skips: Skips,
    /// Whether zerolag wrote the file, and not a recorder.
    #[cfg(feature = "recordings")]
    pub(crate) is_ours: bool,
    /// When recording began and ended, if the file tells.
    pub(crate) start: Option<Instant>,
    pub(crate) end: Option<Instant>,
}

impl Head {
    /// Returns that of a format, of which nothing else is known.
    pub(crate) fn of(format: &'static str) -> Self {
        Self { format, ..Self::default() }
    }

    /// Notes that a CPU exists.
    pub(crate) fn saw_cpu(&mut self, cpu: CpuId) {
        self.cpus = self.cpus.max(cpu.0.saturating_add(1));
    }

    /// Returns whether the file tells how long was recorded: one without events is then the trace
    /// of a time in which nothing happened.
    pub(crate) const fn has_times(&self) -> bool {
        self.start.is_some() && self.end.is_some()
    }
}

/// Makes room for more events or records: what a file of any size unpacks to need not fit.
///
/// # Errors
/// There is too little memory.
pub(crate) fn reserve<T>(items: &mut Vec<T>, more: usize) -> Result<(), ReadError> {
    items.try_reserve(more).map_err(|_| ReadError::Io(std::io::ErrorKind::OutOfMemory.into()))
}

/// Returns whether an event is more than a remark on others.
pub(crate) const fn is_scheduling(event: &Event<'_>) -> bool {
    use super::event::KernelEvent::{Attach, Call, Charged, Lost, Message, Name, Ports, Process};
    !matches!(
        event.event,
        Attach { .. }
            | Call(_)
            | Charged { .. }
            | Lost { .. }
            | Message { .. }
            | Name { .. }
            | Ports(_)
            | Process { .. }
    )
}

//! What tasks share: mutexes, conditions, barriers, semaphores, spinning locks, timers, suspend points, pipes, disks, queues of
//! requests.
//!
//! Who is served first is the core's [`WaitQueue`]; here is only who holds what. A plain mutex is given up before its
//! waiter runs, so a third task may get it first, as with futexes; one that inherits is handed over, as with rt-mutexes.

use crate::program::cache::CachedFile;
use crate::program::pipe::Pipe;
use crate::program::requests::Sent;
use crate::program::spin::SpinLock;
use crate::program::syscall::{DiskQueue, RwSemaphore};
use std::collections::VecDeque;
use zerolag_core::WaitQueue;
use zerolag_model::settings::Preempt;
use zerolag_model::{Instant, TaskId};
use zerolag_workload::program::{Resource, ResourceKind};

#[derive(Debug)]
pub(crate) enum Shared {
    Mutex { inherit: bool, owner: Option<TaskId>, waiters: WaitQueue },
    Condition { waiters: WaitQueue },
    Barrier { parties: u32, waiters: WaitQueue },
    Semaphore { count: u32, waiters: WaitQueue },
    Timer { next: Option<Instant> },
    SuspendPoint { waiters: WaitQueue },
    Queue { capacity: Option<u32>, requests: VecDeque<Sent>, waiters: WaitQueue, next: u64 },
    RwSemaphore(RwSemaphore),
    SpinLock(SpinLock),
    Pipe(Pipe),
    Disk(DiskQueue),
    File(CachedFile),
}

impl Shared {
    /// Makes a resource; a file's windows have the locks from `first_lock` on.
    fn new(resource: &Resource, first_lock: u32, preempt: Preempt) -> Self {
        let waiters = WaitQueue::new();
        match resource.kind {
            ResourceKind::Mutex { inherit } => Self::Mutex { inherit, owner: None, waiters },
            ResourceKind::Condition => Self::Condition { waiters },
            ResourceKind::Barrier { parties } => Self::Barrier { parties, waiters },
            ResourceKind::Semaphore { initial } => Self::Semaphore { count: initial, waiters },
            ResourceKind::Timer => Self::Timer { next: None },
            ResourceKind::SuspendPoint => Self::SuspendPoint { waiters },
            ResourceKind::Queue { capacity } => Self::Queue { capacity, requests: VecDeque::new(), waiters, next: 0 },
            ResourceKind::RwSemaphore => Self::RwSemaphore(RwSemaphore::default()),
            ResourceKind::SpinLock if preempt == Preempt::Rt => Self::Mutex { inherit: true, owner: None, waiters },
            ResourceKind::SpinLock => Self::SpinLock(SpinLock::default()),
            ResourceKind::Pipe { capacity } => Self::Pipe(Pipe::new(capacity)),
            ResourceKind::Disk(disk) => Self::Disk(DiskQueue::new(disk)),
            ResourceKind::File(file) => Self::File(CachedFile::new(file, first_lock)),
        }
    }

    pub(crate) fn owner(&self) -> Option<TaskId> {
        match self {
            Self::Mutex { owner, .. } => *owner,
            Self::RwSemaphore(semaphore) => semaphore.holder(),
            Self::SpinLock(lock) => lock.owner,
            Self::Condition { .. }
            | Self::Barrier { .. }
            | Self::Semaphore { .. }
            | Self::Timer { .. }
            | Self::SuspendPoint { .. }
            | Self::Queue { .. }
            | Self::Pipe(_)
            | Self::Disk(_)
            | Self::File(_) => None,
        }
    }

    /// Makes all that a program has.
    pub(crate) fn all(resources: &[Resource], preempt: Preempt) -> Vec<Self> {
        let mut next_lock = u32::try_from(resources.len()).unwrap_or(u32::MAX);
        let made = resources.iter().map(|resource| {
            let first_lock = next_lock;
            if let ResourceKind::File(file) = resource.kind {
                next_lock = next_lock.saturating_add(file.windows);
            }
            Self::new(resource, first_lock, preempt)
        });
        made.collect()
    }

    pub(crate) fn waiters(&mut self) -> Option<&mut WaitQueue> {
        match self {
            Self::Mutex { waiters, .. }
            | Self::Condition { waiters }
            | Self::Barrier { waiters, .. }
            | Self::Semaphore { waiters, .. }
            | Self::SuspendPoint { waiters }
            | Self::Queue { waiters, .. } => Some(waiters),
            Self::Timer { .. }
            | Self::RwSemaphore(_)
            | Self::SpinLock(_)
            | Self::Pipe(_)
            | Self::Disk(_)
            | Self::File(_) => None,
        }
    }
}

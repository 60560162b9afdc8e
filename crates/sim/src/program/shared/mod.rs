//! [`Shared`]: the state of each resource that tasks share.
//!
//! Only which task holds what is here. Which waiter is served first is a scheduling decision: the
//! core's [`WaitQueue`] takes it. A plain mutex is given up before its waiter runs, so a third task
//! can take it first, as with futexes; one that inherits is handed over, as with rt-mutexes.

pub(crate) mod file;
pub(crate) mod pipe;
pub(crate) mod rcu;
pub(crate) mod request;
pub(crate) mod rw_semaphore;

use crate::device::disk::DiskQueue;
use crate::program::shared::file::CachedFile;
use crate::program::shared::pipe::Pipe;
use crate::program::shared::request::WaitingRequest;
use crate::program::shared::rw_semaphore::RwSemaphore;
use std::collections::VecDeque;
use zerolag_core::WaitQueue;
use zerolag_model::settings::Preempt;
use zerolag_model::{CpuId, Instant, TaskId};
use zerolag_workload::program::{Resource, ResourceKind};

/// A spinning lock: its owner, and the tasks that spin for it on which CPUs, in order of arrival.
#[derive(Clone, Debug, Default)]
pub(crate) struct SpinLock {
    pub(crate) owner: Option<TaskId>,
    pub(crate) spinning: VecDeque<(TaskId, CpuId)>,
}

/// A spinning lock of user space: its owner, and the tasks that have found it taken and have not
/// had it since.
#[derive(Clone, Debug)]
pub(crate) struct UserSpinLock {
    pub(crate) owner: Option<TaskId>,
    pub(crate) spinning: Vec<TaskId>,
    pub(crate) extends_slice: bool,
}

/// A resource of the program.
///
/// A mutex is *marked* while its word says that tasks may wait, so that giving it back is a call
/// ([`futex`](crate::program::act::futex)).
#[derive(Clone, Debug)]
pub(crate) enum Shared {
    Mutex { inherit: bool, owner: Option<TaskId>, waiters: WaitQueue, is_marked: bool },
    Condition { waiters: WaitQueue },
    Barrier { parties: u32, waiters: WaitQueue },
    Semaphore { count: u32, waiters: WaitQueue },
    Timer { next: Option<Instant> },
    SuspendPoint { waiters: WaitQueue },
    Queue { capacity: Option<u32>, requests: VecDeque<WaitingRequest>, waiters: WaitQueue, next: u64 },
    RwSemaphore(RwSemaphore),
    SpinLock(SpinLock),
    UserSpinLock(UserSpinLock),
    Pipe(Pipe),
    Disk(DiskQueue),
    File(CachedFile),
}

impl Shared {
    /// Makes a resource; the windows of a file have the locks from `first_lock` on.
    fn new(resource: &Resource, first_lock: u32, preempt: Preempt, seed: u64) -> Self {
        let waiters = WaitQueue::new();
        let mutex = |inherit, waiters| Self::Mutex { inherit, owner: None, waiters, is_marked: false };
        match &resource.kind {
            ResourceKind::Mutex { inherit } => mutex(*inherit, waiters),
            ResourceKind::Condition => Self::Condition { waiters },
            ResourceKind::Barrier { parties } => Self::Barrier { parties: *parties, waiters },
            ResourceKind::Semaphore { initial } => Self::Semaphore { count: *initial, waiters },
            ResourceKind::Timer => Self::Timer { next: None },
            ResourceKind::SuspendPoint => Self::SuspendPoint { waiters },
            ResourceKind::Queue { capacity } => {
                Self::Queue { capacity: *capacity, requests: VecDeque::new(), waiters, next: 0 }
            }
            ResourceKind::RwSemaphore => Self::RwSemaphore(RwSemaphore::default()),
            ResourceKind::SpinLock if preempt == Preempt::Rt => mutex(true, waiters),
            ResourceKind::SpinLock => Self::SpinLock(SpinLock::default()),
            ResourceKind::UserSpinLock { extends_slice } => {
                Self::UserSpinLock(UserSpinLock { owner: None, spinning: Vec::new(), extends_slice: *extends_slice })
            }
            ResourceKind::Pipe { capacity } => Self::Pipe(Pipe::new(*capacity)),
            ResourceKind::Disk(disk) => Self::Disk(DiskQueue::new(disk, &resource.name, seed)),
            ResourceKind::File(file) => Self::File(CachedFile::new(*file, first_lock)),
        }
    }

    /// Returns the task that holds it; of several, the one that has held it longest.
    pub(crate) fn owner(&self) -> Option<TaskId> {
        match self {
            Self::Mutex { owner, .. } => *owner,
            Self::RwSemaphore(semaphore) => semaphore.holder(),
            Self::SpinLock(lock) => lock.owner,
            Self::UserSpinLock(lock) => lock.owner,
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

    /// Makes all resources of a program; the seed is that of the disks' latencies.
    pub(crate) fn all(resources: &[Resource], preempt: Preempt, seed: u64) -> Vec<Self> {
        let mut next_lock = u32::try_from(resources.len()).unwrap_or(u32::MAX);
        let made = resources.iter().map(|resource| {
            let first_lock = next_lock;
            if let ResourceKind::File(file) = resource.kind {
                next_lock = next_lock.saturating_add(file.windows);
            }
            Self::new(resource, first_lock, preempt, seed)
        });
        made.collect()
    }

    /// Returns the tasks that wait for it, if the core orders them.
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
            | Self::UserSpinLock(_)
            | Self::Pipe(_)
            | Self::Disk(_)
            | Self::File(_) => None,
        }
    }
}

/// Returns the number of locks of these resources: one each, and one for each window of a file.
pub(crate) fn count_locks(resources: &[Resource]) -> usize {
    let windows = resources.iter().map(|resource| match resource.kind {
        ResourceKind::File(file) => file.windows as usize,
        ResourceKind::Mutex { .. }
        | ResourceKind::Condition
        | ResourceKind::Barrier { .. }
        | ResourceKind::Semaphore { .. }
        | ResourceKind::Timer
        | ResourceKind::Queue { .. }
        | ResourceKind::SuspendPoint
        | ResourceKind::RwSemaphore
        | ResourceKind::SpinLock
        | ResourceKind::UserSpinLock { .. }
        | ResourceKind::Pipe { .. }
        | ResourceKind::Disk(_) => 0,
    });
    resources.len() + windows.sum::<usize>()
}

//! [`CachedFile`]: a file in the page cache, a window of read-ahead at a time, and the locks of its
//! pages.
//!
//! ```text
//!         a reader locks it and sets its pages up [1]     submitted [2]        read [3]
//!   Absent ---------------------------------------> Locked ----------> InFlight ------> Uptodate
//! ```
//!
//! A window's pages are locked from \[1\] to \[3\], first by the reader, then by the disk. A task
//! that needs one meanwhile waits for its lock, *exclusively*: \[3\] wakes the first waiter, which
//! takes the lock, finds the page read, gives the lock back and so wakes the next. A waiter that
//! cannot run when it is woken keeps all behind it waiting: this is the inversion of 2012.
//!
//! Sources: Linux v3.6 `mm/filemap.c`, `unlock_page`, `__lock_page_killable`; `kernel/wait.c`,
//! `__wake_up_bit` (one exclusive waiter). differs: the lock is that of a window, not of each of
//! its pages, which one request fills at once. Memory is enough for every file; nothing is evicted.

use std::collections::{BTreeMap, VecDeque};
use zerolag_model::TaskId;
use zerolag_workload::program::File;

/// The state of a window in the cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CachedWindow {
    Absent,
    /// Locked by a reader that sets it up.
    Locked(TaskId),
    InFlight,
    Uptodate,
}

/// A file, and the part of it that is in memory.
#[derive(Clone, Debug)]
pub(crate) struct CachedFile {
    pub(crate) file: File,
    pub(crate) windows: Vec<CachedWindow>,
    /// The tasks that wait for the lock of each window, in order of arrival.
    pub(crate) waiters: BTreeMap<u32, VecDeque<TaskId>>,
    /// The lock of the first window in the trace; those of the others follow.
    first_lock: u32,
}

impl CachedFile {
    pub(crate) fn new(file: File, first_lock: u32) -> Self {
        let windows = vec![CachedWindow::Absent; file.windows as usize];
        Self { file, windows, waiters: BTreeMap::new(), first_lock }
    }

    /// Returns the lock of a window.
    pub(crate) fn lock_id(&self, window: u32) -> u32 {
        self.first_lock.saturating_add(window)
    }

    /// Takes the first task out that waits for the lock of a window.
    pub(crate) fn next_waiter(&mut self, window: u32) -> Option<TaskId> {
        let waiters = self.waiters.get_mut(&window)?;
        let next = waiters.pop_front();
        if waiters.is_empty() {
            self.waiters.remove(&window);
        }
        next
    }
}

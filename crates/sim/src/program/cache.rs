//! The page cache: files that tasks read, a window of read-ahead at a time, and the locks of their pages.
//!
//! ```text
//!           a reader locks it and sets its pages up [1]        submitted [2]             read [3]
//!   Absent --------------------------------------------> Locked -----------> InFlight ----------> Uptodate
//! ```
//!
//! A window's pages are locked from [1] to [3], first by the reader, then by the disk. Who needs one meanwhile waits for its
//! lock, *exclusively*: [3] wakes the first that waits, which takes the lock, finds the page read, gives the lock back and so
//! wakes the next. One that cannot run when it is woken keeps all behind it waiting: this is the inversion of 2012.
//!
//! A reader that is at a window sees that the next one is on its way, and begins it if nobody has (read-ahead). Memory is
//! enough for every file; nothing is thrown out.
//!
//! Sources: Linux v3.6 `mm/filemap.c`, `do_generic_file_read`, `unlock_page`, `__lock_page_killable`; `kernel/wait.c`,
//! `__wake_up_bit` (one exclusive waiter); `mm/readahead.c`, `ondemand_readahead`. differs: the lock is that of a window, not
//! of each of its pages, which one request fills at once.

use crate::kernel::cpu::Job;
use crate::machine::{Event, Machine};
use crate::program::sync::Shared;
use crate::program::task::{State, WaitFor};
use crate::queue::{Phase, Source};
use std::collections::{BTreeMap, VecDeque};
use zerolag_core::CpuMode;
use zerolag_model::{CpuId, CpuLayer, TaskId, TraceEvent};
use zerolag_workload::program::{File, ReadAction, ResourceId};

/// What a cache has of a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Window {
    Absent,
    /// By a reader that sets it up.
    Locked(TaskId),
    InFlight,
    Uptodate,
}

/// A file and what of it is in memory.
#[derive(Debug)]
pub(crate) struct CachedFile {
    file: File,
    windows: Vec<Window>,
    /// Who waits for the lock of which window, first come first served.
    waiters: BTreeMap<u32, VecDeque<TaskId>>,
    /// Locks of this file's windows in the trace: this and those that follow.
    first_lock: u32,
}

/// Where a task is in a read.
///
/// ```text
///            window absent, or the next one [1]               set up [2]
///   Look ------------------------------------> SetsUp ----------------------> Look
///     |  \----------- window locked [3] ---------> Waits ---- has the lock --> Look
///     \-------------- window read [4] -----------> Copies --- next window ---> Look, or done
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reading {
    /// At its present window.
    Look,
    /// Computes what it takes to have a window read.
    SetsUp { window: u32 },
    /// For the lock of a window.
    Waits { window: u32 },
    /// The window, to user space.
    Copies,
}

impl CachedFile {
    pub(crate) fn new(file: File, first_lock: u32) -> Self {
        let windows = vec![Window::Absent; file.windows as usize];
        Self { file, windows, waiters: BTreeMap::new(), first_lock }
    }

    fn lock_id(&self, window: u32) -> u32 {
        self.first_lock.saturating_add(window)
    }

    fn next_waiter(&mut self, window: u32) -> Option<TaskId> {
        let waiters = self.waiters.get_mut(&window)?;
        let next = waiters.pop_front();
        if waiters.is_empty() {
            self.waiters.remove(&window);
        }
        next
    }
}

impl Machine {
    fn file(&mut self, id: ResourceId) -> &mut CachedFile {
        match &mut self.shared[id.index()] {
            Shared::File(file) => file,
            _ => unreachable!("the program was checked"),
        }
    }

    /// Goes on with a read; steps over it when it is done.
    pub(crate) fn read(&mut self, cpu: CpuId, task: TaskId, action: &ReadAction) {
        let body = &mut self.tasks[task.index()];
        let reading = body.cursor.reading.unwrap_or(Reading::Look);
        let at = body.position(action.file);
        let next = match reading {
            Reading::Look => self.look(cpu, task, action, at),
            Reading::SetsUp { window } => {
                self.submit(cpu, task, action.file, window); // [2]
                Reading::Look
            }
            Reading::Waits { window } => {
                self.pass_on(cpu, task, action.file, window);
                Reading::Look
            }
            Reading::Copies => {
                let body = &mut self.tasks[task.index()];
                body.advance(action.file);
                body.cursor.windows_read += 1;
                if body.cursor.windows_read == action.windows || at + 1 == self.file(action.file).file.windows {
                    let cursor = &mut self.tasks[task.index()].cursor;
                    (cursor.windows_read, cursor.reading) = (0, None);
                    cursor.action += 1;
                    return;
                }
                self.gives_way(cpu, CpuMode::CondResched);
                Reading::Look
            }
        };
        self.tasks[task.index()].cursor.reading = Some(next);
    }

    /// Decides what a reader does at a window.
    fn look(&mut self, cpu: CpuId, task: TaskId, action: &ReadAction, at: u32) -> Reading {
        let file = self.file(action.file);
        let here = file.windows.get(at as usize).copied();
        let is_new = |window: u32| file.windows.get(window as usize) == Some(&Window::Absent);
        let missing = if is_new(at) { Some(at) } else { Some(at + 1).filter(|next| is_new(*next)) };
        if let Some(window) = missing {
            file.windows[window as usize] = Window::Locked(task); // [1]
            let lock = file.lock_id(window);
            self.emit(cpu, TraceEvent::TakeLock { task, lock });
            self.publish_owner(cpu, lock, Some(task));
            self.compute_for(cpu, task, &action.setup, CpuLayer::Kernel);
            return Reading::SetsUp { window };
        }
        let holder = match here {
            // Past the end there is nothing to read.
            None | Some(Window::Uptodate) => {
                self.compute_for(cpu, task, &action.copy, CpuLayer::Kernel); // [4]
                return Reading::Copies;
            }
            Some(Window::Locked(holder)) => Some(holder),
            Some(Window::InFlight | Window::Absent) => None,
        };
        let file = self.file(action.file);
        file.waiters.entry(at).or_default().push_back(task); // [3]
        let lock = file.lock_id(at);
        self.emit(cpu, TraceEvent::WaitLock { task, lock, holder });
        self.tasks[task.index()].cursor.reading = Some(Reading::Waits { window: at });
        self.block(cpu, task, WaitFor::Page(action.file));
        Reading::Waits { window: at }
    }

    /// A window is set up: the disk has its lock until it is read.
    fn submit(&mut self, cpu: CpuId, task: TaskId, id: ResourceId, window: u32) {
        let now = self.now;
        let file = self.file(id);
        file.windows[window as usize] = Window::InFlight;
        let (lock, disk, bytes) = (file.lock_id(window), file.file.disk, u64::from(file.file.window));
        self.emit(cpu, TraceEvent::DropLock { task, lock });
        self.lock_dropped(cpu, lock, None);
        let Shared::Disk(disk) = &mut self.shared[disk.index()] else { unreachable!("the program was checked") };
        let done = disk.submit(now, bytes);
        let count = self.cpus[cpu.index()].next_count();
        self.queue.push(done, Phase::TaskTimer, Source::cpu(cpu), count, Event::PagesRead { cpu, file: id, window });
    }

    /// The interrupt of a disk: a window is read, and the first that waits for it is woken. [3] of the window
    pub(crate) fn pages_read(&mut self, cpu: CpuId, id: ResourceId, window: u32) -> Option<Job> {
        let file = self.file(id);
        file.windows[window as usize] = Window::Uptodate;
        let next = file.next_waiter(window)?;
        let lock = file.lock_id(window);
        self.tasks[next.index()].state = State::Active;
        self.emit(cpu, TraceEvent::TakeLock { task: next, lock });
        self.publish_owner(cpu, lock, Some(next));
        Some(Job::wakeup(next))
    }

    /// A reader has the lock that it waited for, needs it no more, and wakes the next.
    fn pass_on(&mut self, cpu: CpuId, task: TaskId, id: ResourceId, window: u32) {
        let file = self.file(id);
        let lock = file.lock_id(window);
        let next = file.next_waiter(window);
        self.emit(cpu, TraceEvent::DropLock { task, lock });
        self.lock_dropped(cpu, lock, next);
        if let Some(next) = next {
            self.tasks[next.index()].state = State::Active;
            self.wake_from(cpu, next);
            self.emit(cpu, TraceEvent::TakeLock { task: next, lock });
            self.publish_owner(cpu, lock, Some(next));
        }
    }

    /// Returns the lock of the page that a task waits for.
    pub(crate) fn awaited_page(&self, task: TaskId, id: ResourceId) -> Option<u32> {
        match (&self.shared[id.index()], self.tasks[task.index()].cursor.reading) {
            (Shared::File(file), Some(Reading::Waits { window })) => Some(file.lock_id(window)),
            _ => None,
        }
    }
}

//! Reads of files through the page cache ([`CachedFile`](crate::program::shared::file::CachedFile)
//! has the states of a window, [`Reading`] those of a reader; the numbers are theirs).
//!
//! A reader that is at a window sees that the next one is on its way, and begins to read it if no
//! task has (read-ahead).
//!
//! Sources: Linux v3.6 `mm/filemap.c`, `do_generic_file_read`; `mm/readahead.c`,
//! `ondemand_readahead`.

use crate::kernel::state::Kernel;
use crate::kernel::words::{Event, Job};
use crate::program::shared::file::CachedWindow;
use crate::program::state::Programs;
use crate::program::task::{Reading, WaitFor};
use crate::queue::Phase;
use zerolag_core::CpuMode;
use zerolag_model::{CpuId, CpuLayer, TaskId, TraceEvent};
use zerolag_workload::program::{ReadAction, ResourceId};

impl Programs {
    /// Continues a read, and goes to the next action when it is done.
    pub(crate) fn read(&mut self, kernel: &mut Kernel, cpu: CpuId, task: TaskId, action: &ReadAction) {
        let body = self.task(task);
        let reading = body.cursor.reading.unwrap_or(Reading::Look);
        let at = body.position(action.file);
        let next = match reading {
            Reading::Look => self.look(kernel, cpu, task, action, at),
            Reading::SetsUp { window } => {
                self.submit(kernel, cpu, task, action.file, window); // [2]
                Reading::Look
            }
            Reading::Waits { window } => {
                self.pass_on(kernel, cpu, task, action.file, window);
                Reading::Look
            }
            Reading::Copies => {
                let windows = self.file(action.file).file.windows;
                let body = self.task_mut(task);
                body.advance(action.file);
                let cursor = &mut body.cursor;
                cursor.windows_read += 1;
                if cursor.windows_read == action.windows || at + 1 == windows {
                    (cursor.windows_read, cursor.reading) = (0, None);
                    cursor.action += 1;
                    return;
                }
                kernel.gives_way(cpu, CpuMode::CondResched);
                Reading::Look
            }
        };
        self.task_mut(task).cursor.reading = Some(next);
    }

    /// Decides what a reader does at a window.
    fn look(&mut self, kernel: &mut Kernel, cpu: CpuId, task: TaskId, action: &ReadAction, at: u32) -> Reading {
        let file = self.file(action.file);
        let here = file.windows.get(at as usize).copied();
        let is_new = |window: u32| file.windows.get(window as usize) == Some(&CachedWindow::Absent);
        let missing = if is_new(at) { Some(at) } else { Some(at + 1).filter(|next| is_new(*next)) };
        if let Some(window) = missing {
            file.windows[window as usize] = CachedWindow::Locked(task); // [1]
            let lock = file.lock_id(window);
            kernel.emit(cpu, TraceEvent::TakeLock { task, lock });
            kernel.publish_owner(cpu, lock, Some(task));
            self.compute_for(kernel, cpu, task, &action.setup, CpuLayer::Kernel);
            return Reading::SetsUp { window };
        }
        let holder = match here {
            // Past the end there is nothing to read.
            None | Some(CachedWindow::Uptodate) => {
                self.compute_for(kernel, cpu, task, &action.copy, CpuLayer::Kernel); // [4]
                return Reading::Copies;
            }
            Some(CachedWindow::Locked(holder)) => Some(holder),
            Some(CachedWindow::InFlight | CachedWindow::Absent) => None,
        };
        let file = self.file(action.file);
        file.waiters.entry(at).or_default().push_back(task); // [3]
        let lock = file.lock_id(at);
        kernel.emit(cpu, TraceEvent::WaitLock { task, lock, holder });
        self.task_mut(task).cursor.reading = Some(Reading::Waits { window: at });
        kernel.waits_for_disk(cpu, task);
        self.block(kernel, cpu, task, WaitFor::Page(action.file));
        Reading::Waits { window: at }
    }

    /// A window is set up: the disk has its lock until it is read.
    fn submit(&mut self, kernel: &mut Kernel, cpu: CpuId, task: TaskId, id: ResourceId, window: u32) {
        let file = self.file(id);
        file.windows[window as usize] = CachedWindow::InFlight;
        let (lock, disk, bytes) = (file.lock_id(window), file.file.disk, u64::from(file.file.window));
        kernel.emit(cpu, TraceEvent::DropLock { task, lock });
        kernel.lock_dropped(cpu, lock, None);
        let (done, cpu) = self.request(kernel, cpu, disk, bytes);
        kernel.queue_event(done, Phase::Device, cpu, Event::PagesRead { cpu, file: id, window });
    }

    /// A disk has read a window. Returns the job that wakes the first waiter. \[3\] of the window
    pub(crate) fn pages_read(&mut self, kernel: &mut Kernel, cpu: CpuId, id: ResourceId, window: u32) -> Option<Job> {
        let file = self.file(id);
        file.windows[window as usize] = CachedWindow::Uptodate;
        let next = file.next_waiter(window)?;
        let lock = file.lock_id(window);
        self.end_wait(kernel, next);
        kernel.waits_for_disk_no_more(next);
        kernel.emit(cpu, TraceEvent::TakeLock { task: next, lock });
        kernel.publish_owner(cpu, lock, Some(next));
        Some(Job::wakeup(next))
    }

    /// A reader has got the lock that it waited for, no longer needs it, and wakes the next waiter.
    fn pass_on(&mut self, kernel: &mut Kernel, cpu: CpuId, task: TaskId, id: ResourceId, window: u32) {
        let file = self.file(id);
        let lock = file.lock_id(window);
        let next = file.next_waiter(window);
        kernel.emit(cpu, TraceEvent::DropLock { task, lock });
        kernel.lock_dropped(cpu, lock, next);
        if let Some(next) = next {
            kernel.waits_for_disk_no_more(next);
            self.wake(kernel, cpu, next);
            kernel.emit(cpu, TraceEvent::TakeLock { task: next, lock });
            kernel.publish_owner(cpu, lock, Some(next));
        }
    }
}

//! What every part above the state does with an engine: its threads start, its tasks end, and code
//! of the users is called.

use crate::coop;
use crate::span::log_stray_panic;
use crate::state::engine::Engine;
use crate::state::job::Job;
use crate::state::task::Task;
use crate::sync::{is_finished, thread};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::Ordering;
use zerolag_core::Parcel;

impl Task {
    /// Announces that the task has ended and its place is free: wakes its waiter.
    pub(crate) fn announce(&self) {
        let waiter = self.body.lock().join.end();
        if let Some(waiter) = waiter {
            self.engine().contain(|| waiter.wake());
        }
    }
}

impl Engine {
    /// Drops the result of a task that no handle will return.
    pub(crate) fn discard(&self, mut job: Pin<Box<dyn Job>>) {
        self.contain(|| {
            if let Some(with) = job.as_mut().discard() {
                self.note_panic(with);
            }
        });
    }

    /// Frees a task that has ended and that no CPU refers to any more: its id can be reused, and
    /// the waiters for its end are woken.
    pub(crate) fn free_task(&self, task: &Task, body: Parcel) {
        let _gone = self.tasks.take(task.id);
        self.give_back(task.id, Some(body));
        task.announce();
        self.live_tasks.remove();
    }

    /// Calls code of the users outside of a poll: if it panics, its caller goes on.
    pub(crate) fn contain(&self, call: impl FnOnce()) {
        if let Err(with) = catch_unwind(AssertUnwindSafe(call)) {
            self.note_panic(with);
        }
    }

    /// Counts a panic that no handle reports.
    pub(crate) fn note_panic(&self, with: Box<dyn Any + Send>) {
        // A subscriber is code of the users as well.
        if let Err(logged) = catch_unwind(AssertUnwindSafe(|| log_stray_panic(&*with))) {
            std::mem::forget(logged);
            self.stray_panics.fetch_add(1, Ordering::Release);
        }
        // After it is logged: a reader of the count finds the event in the log.
        self.stray_panics.fetch_add(1, Ordering::Release);
        if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(with))) {
            // Dropping what a panic carries panics as well: it is leaked.
            std::mem::forget(again);
        }
    }

    /// Starts a thread of the runtime.
    pub(crate) fn start(&self, name: String, run: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
        let (owner, reactor, hooks) = (self.address(), self.reactor.clone(), self.hooks.clone());
        let run = move || {
            coop::join_runtime(owner);
            let _entered = reactor.enter();
            let _stopped = hooks.around_thread();
            run();
        };
        let thread = thread::Builder::new().name(name).spawn(run)?;
        let mut threads = self.threads.lock();
        threads.retain(|thread| !is_finished(thread));
        threads.push(thread);
        Ok(())
    }
}

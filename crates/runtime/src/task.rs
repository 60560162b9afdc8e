//! Polls of a task, its end, and [`JoinHandle`], which waits for that.

use crate::boost::settle;
use crate::coop;
use crate::state::info::TaskInfo;
use crate::state::job::{self, Job, JoinError};
use crate::state::join::{Delivery, JoinPoll, JoinWaiter, WaiterIs};
use crate::state::task::Task;
use crate::sync::MutexGuard;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use zerolag_model::TaskId;

impl Task {
    /// Drops the future, if there is one.
    pub(crate) fn cancel(&self) {
        let job = self.job.lock();
        if job.is_running() {
            let dropped =
                |dropped: std::thread::Result<()>| dropped.map_or_else(JoinError::Panicked, |()| JoinError::Aborted);
            self.fail(job, dropped);
        }
    }

    /// Polls the future; returns whether the task is over. It has its result then.
    pub(crate) fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut job = self.job.lock();
        if !job.is_running() {
            return Poll::Ready(());
        }
        match catch_unwind(AssertUnwindSafe(|| self.around(|| job.as_mut().poll(cx)))) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(())) => {}
            Err(with) => {
                // The destructors can panic as well; of two panics the first is the one that is
                // reported.
                self.fail(job, |dropped| {
                    dropped.unwrap_or_else(|again| self.engine().note_panic(again));
                    JoinError::Panicked(with)
                });
                return Poll::Ready(());
            }
        }
        self.deliver(job);
        Poll::Ready(())
    }

    /// Drops the future without the lock, and makes an error the result of the task.
    fn fail(
        &self,
        mut locked: MutexGuard<'_, Pin<Box<dyn Job>>>,
        error: impl FnOnce(std::thread::Result<()>) -> JoinError,
    ) {
        let mut job = job::take_out(&mut locked);
        drop(locked);
        let dropped = catch_unwind(AssertUnwindSafe(|| self.around(|| job.as_mut().cancel())));
        job.as_mut().fail(error(dropped));
        let mut locked = self.job.lock();
        *locked = job;
        self.deliver(locked);
    }

    /// Tells the handle of the result, which the job has.
    ///
    /// It is announced once the task has left its CPU. A task that waits for it is woken before
    /// that, if the wakeup can be left to the end of this poll: then it runs next on this CPU,
    /// which does not idle in between. If it is polled too early, on another CPU, it waits again.
    fn deliver(&self, mut job: MutexGuard<'_, Pin<Box<dyn Job>>>) {
        let can_wait = self.engine().can_postpone();
        let delivery = self.body.lock().join.deliver(can_wait);
        let (unwanted, waiter) = match delivery {
            Delivery::Kept(waiter) => (None, waiter),
            Delivery::Unwanted => (Some(job::take_out(&mut job)), None),
        };
        drop(job);
        if let Some(job) = unwanted {
            self.engine().discard(job);
        }
        if let Some(waiter) = waiter {
            self.engine().contain(|| waiter.wake());
        }
    }

    /// Asks for the end of the task: see [`JoinHandle::abort`].
    pub(crate) fn abort(self: &Arc<Self>) {
        self.ask_to_abort();
        settle([Arc::clone(self)]);
        self.engine().wake(self);
        self.engine().kick(self.cpu());
    }
}

/// A future of the result of a task. The task continues if the handle is dropped.
pub struct JoinHandle<T> {
    pub(crate) task: Arc<Task>,
    result: PhantomData<fn() -> T>,
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle").field("task", &self.task.id).finish_non_exhaustive()
    }
}

impl<T> Drop for JoinHandle<T> {
    fn drop(&mut self) {
        let task = &self.task;
        let (has_result, waiter) = task.body.lock().join.drop_handle();
        task.engine().contain(|| drop(waiter));
        if has_result {
            let job = job::take_out(&mut task.job.lock());
            task.engine().discard(job);
        }
    }
}

impl<T> JoinHandle<T> {
    pub(crate) const fn new(task: Arc<Task>) -> Self {
        Self { task, result: PhantomData }
    }

    /// Drops the task's future when it is polled next, if it has not ended by then; its result is
    /// [`JoinError::Aborted`]. A poll in progress is asked to yield.
    ///
    /// The end of a task does not wait for the quota of its group: in a limited group the future is
    /// dropped on a thread beside the CPUs, at the group's expense, otherwise in a poll of the
    /// task, at its own priority.
    pub fn abort(&self) {
        self.task.abort();
    }

    /// Returns the task as it is now: its name, its group, where it was started, its state.
    #[must_use]
    pub fn info(&self) -> TaskInfo {
        self.task.info()
    }

    /// Returns whether the task has ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.task.body.lock().join.is_over()
    }

    /// Returns the id of the task in traces. Ids of ended tasks are reused.
    #[must_use]
    pub fn id(&self) -> TaskId {
        self.task.id
    }
}

impl<T: 'static> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    /// # Panics
    /// If it is polled again after it was ready.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let waker = cx.waker().clone();
        let is_fair = coop::polls_fair_task(self.task.engine());
        let is = if is_fair { WaiterIs::FairTask } else { WaiterIs::Other };
        // A waker is dropped without the lock.
        let polled = self.task.body.lock().join.poll(JoinWaiter { waker, is });
        match polled {
            JoinPoll::Waits(_replaced) => Poll::Pending,
            JoinPoll::Ready => {
                let (mut job, mut result) = (job::take_out(&mut self.task.job.lock()), None::<Self::Output>);
                job.as_mut().take(&mut result);
                Poll::Ready(result.expect("the result of a task is taken once"))
            }
        }
    }
}

//! [`Blocking`]: functions that block or compute, and other code of the users that is no poll, in
//! queues and on threads beside the CPUs ([`blocking`](crate::blocking)).
//!
//! Each group has a queue of its own. Of the groups whose first function can start, the one with
//! the fewest running functions is next, then the one whose function came first. Rules:
//!
//! * A group without a running function starts one, whatever the others do.
//! * All other functions share `threads_max` threads, and those of a group its own bound.
//! * A thread that is on its way takes the next function and then looks for a thread for the one
//!   after it, so at most one more thread than needed is started at a time.

use crate::sync::{Condvar, Mutex};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;
use zerolag_model::Duration;

/// A function that a thread has taken.
pub(crate) struct QueuedCall<G> {
    pub(crate) group: Arc<G>,
    pub(crate) job: Arc<dyn BlockingJob>,
}

/// A function on its thread.
pub(crate) struct RunningCall<G> {
    pub(crate) group: Arc<G>,
    pub(crate) tid: rustix::thread::Pid,
    /// The CPU time of the thread up to which the group is charged.
    pub(crate) charged: Option<Duration>,
    pub(crate) began: Option<Duration>,
    pub(crate) is_slow: bool,
}

/// The functions of a group.
struct Line<G> {
    group: Arc<G>,
    /// How many can run at a time.
    bound: usize,
    /// Those that wait, each with its place in the order of arrival.
    calls: VecDeque<(u64, Arc<dyn BlockingJob>)>,
    running: usize,
}

impl<G> Line<G> {
    /// Returns its place among the groups whose first function can start.
    fn place(&self, key: usize) -> Option<Place> {
        let (arrival, _) = self.calls.front().filter(|_| self.running < self.bound)?;
        Some((self.running, *arrival, key))
    }
}

/// Running functions, arrival of the first that waits, and key of a group.
type Place = (usize, u64, usize);

/// The functions and the threads for them.
pub(crate) struct BlockingState<G> {
    /// The groups with functions, by address.
    lines: BTreeMap<usize, Line<G>>,
    ready: BTreeSet<Place>,
    arrivals: u64,
    pub(crate) running: Vec<RunningCall<G>>,
    /// All threads: those that run functions, those that wait, and those on their way.
    pub(crate) threads: usize,
    pub(crate) idle: usize,
    /// How many of the idle ones were called.
    pub(crate) called: usize,
    pub(crate) is_closed: bool,
}

/// What has to be done for the next function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Help {
    /// Nothing: none can start, or a thread is on its way.
    No,
    /// An idle thread was called.
    Call,
    /// A thread was counted, and is to be started.
    Start,
}

impl<G> BlockingState<G> {
    const fn new() -> Self {
        Self {
            lines: BTreeMap::new(),
            ready: BTreeSet::new(),
            arrivals: 0,
            running: Vec::new(),
            threads: 0,
            idle: 0,
            called: 0,
            is_closed: false,
        }
    }

    /// Changes the line of a group, and its place.
    fn change<T>(&mut self, group: &Arc<G>, change: impl FnOnce(&mut Line<G>) -> T) -> T {
        let key = Arc::as_ptr(group).addr();
        let new = || Line { group: Arc::clone(group), bound: usize::MAX, calls: VecDeque::new(), running: 0 };
        let line = self.lines.entry(key).or_insert_with(new);
        let before = line.place(key);
        let result = change(line);
        let (after, is_over) = (line.place(key), line.running == 0 && line.calls.is_empty());
        if before != after {
            before.map(|place| self.ready.remove(&place));
            self.ready.extend(after);
        }
        if is_over {
            self.lines.remove(&key);
        }
        result
    }

    /// Adds a function of a group, of which at most `bound` run at a time.
    pub(crate) fn push(&mut self, group: &Arc<G>, bound: usize, job: Arc<dyn BlockingJob>) {
        self.arrivals += 1;
        let arrival = self.arrivals;
        self.change(group, |line| {
            line.bound = bound.max(1);
            line.calls.push_back((arrival, job));
        });
    }

    /// Returns the group whose function can start next.
    fn next(&self, threads_max: usize) -> Option<&Line<G>> {
        let (running, _, key) = self.ready.first()?;
        let line = (*running == 0 || self.running.len() < threads_max).then_some(key)?;
        self.lines.get(line)
    }

    /// Takes the next function out of its queue. The caller adds it to those that run.
    pub(crate) fn take(&mut self, threads_max: usize) -> Option<QueuedCall<G>> {
        let group = Arc::clone(&self.next(threads_max)?.group);
        let (_, job) = self.change(&group, |line| {
            line.running += 1;
            line.calls.pop_front().expect("invariant: a group with a place has a function that waits")
        });
        Some(QueuedCall { group, job })
    }

    /// Removes a function that has returned on a thread.
    pub(crate) fn end(&mut self, group: &Arc<G>, tid: rustix::thread::Pid) -> RunningCall<G> {
        let place = self.running.iter().position(|one| one.tid == tid && Arc::ptr_eq(&one.group, group));
        let one = self.running.swap_remove(place.expect("invariant: a running function is in the list"));
        self.change(group, |line| line.running -= 1);
        one
    }

    /// Returns how many functions of a group run.
    pub(crate) fn running_of(&self, group: &Arc<G>) -> usize {
        self.lines.get(&Arc::as_ptr(group).addr()).map_or(0, |line| line.running)
    }

    /// Finds a thread for the next function, if it can start.
    pub(crate) fn find_help(&mut self, threads_max: usize) -> Help {
        let on_their_way = self.threads - self.running.len() - self.idle + self.called;
        if self.is_closed || on_their_way > 0 || self.next(threads_max).is_none() {
            return Help::No;
        }
        if self.idle > self.called {
            self.called += 1;
            return Help::Call;
        }
        self.threads += 1;
        Help::Start
    }

    /// Takes all functions that wait.
    pub(crate) fn take_all(&mut self) -> Vec<Arc<dyn BlockingJob>> {
        self.ready.clear();
        let calls = self.lines.values_mut().flat_map(|line| line.calls.drain(..));
        calls.map(|(_, job)| job).collect()
    }
}

/// See the [module](self).
pub(crate) struct Blocking<G> {
    pub(crate) state: Mutex<BlockingState<G>>,
    pub(crate) changed: Condvar,
    pub(crate) threads_max: usize,
}

impl<G> fmt::Debug for Blocking<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Blocking").field("threads_max", &self.threads_max).finish_non_exhaustive()
    }
}

impl<G> Blocking<G> {
    pub(crate) fn new(threads_max: usize) -> Self {
        let state = Mutex::new(BlockingState::new());
        Self { state, changed: Condvar::default(), threads_max: threads_max.max(1) }
    }

    /// Ends the idle threads, and the others after their functions. Functions that have not been
    /// started are dropped with their tasks.
    pub(crate) fn close(&self) {
        let _queue = {
            let mut state = self.state.lock();
            state.is_closed = true;
            state.take_all()
        };
        self.changed.notify_all();
    }
}

/// A function, whatever the type of its result.
pub(crate) trait BlockingJob: Send + Sync {
    /// Runs it, unless its future was dropped.
    fn run(&self);

    /// Tells its future.
    fn announce(&self);
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nothing;

    impl BlockingJob for Nothing {
        fn run(&self) {}

        fn announce(&self) {}
    }

    fn tid() -> rustix::thread::Pid {
        rustix::thread::gettid()
    }

    /// Takes the next function, and returns the number of its group.
    fn start(state: &mut BlockingState<u32>) -> Option<u32> {
        let QueuedCall { group, .. } = state.take(3)?;
        let (number, charged) = (*group, None);
        state.running.push(RunningCall { group, tid: tid(), charged, began: None, is_slow: false });
        Some(number)
    }

    #[test]
    fn a_group_always_has_one() {
        let mut state = BlockingState::new();
        let groups = [1, 2, 3].map(Arc::new);
        (0..5).for_each(|_| state.push(&groups[0], usize::MAX, Arc::new(Nothing)));
        assert_eq!([(); 4].map(|()| start(&mut state)), [Some(1), Some(1), Some(1), None], "three threads");
        (0..2).for_each(|_| state.push(&groups[1], usize::MAX, Arc::new(Nothing)));
        state.push(&groups[2], usize::MAX, Arc::new(Nothing));
        assert_eq!([(); 3].map(|()| start(&mut state)), [Some(2), Some(3), None]);
        (0..2).for_each(|_| drop(state.end(&groups[0], tid())));
        assert_eq!(start(&mut state), None, "three run");
        drop(state.end(&groups[2], tid()));
        assert_eq!(start(&mut state), Some(1), "of those that came first, with one running like the other");
        assert_eq!((state.running_of(&groups[0]), state.running_of(&groups[2])), (2, 0));
    }

    #[test]
    fn a_group_has_a_bound() {
        let mut state = BlockingState::new();
        let group = Arc::new(1);
        (0..3).for_each(|_| state.push(&group, 2, Arc::new(Nothing)));
        assert_eq!([(); 3].map(|()| start(&mut state)), [Some(1), Some(1), None]);
        drop(state.end(&group, tid()));
        assert_eq!(start(&mut state), Some(1));
        (0..2).for_each(|_| drop(state.end(&group, tid())));
        assert!(state.lines.is_empty() && state.ready.is_empty());
    }

    #[test]
    fn threads_are_found_one_by_one() {
        let mut state = BlockingState::new();
        let group = Arc::new(1);
        (0..3).for_each(|_| state.push(&group, usize::MAX, Arc::new(Nothing)));
        assert_eq!([(); 2].map(|()| state.find_help(2)), [Help::Start, Help::No], "one is on its way");
        assert_eq!(start(&mut state), Some(1));
        assert_eq!(state.find_help(2), Help::Start);
        assert_eq!(start(&mut state), Some(1));
        assert_eq!(state.find_help(2), Help::No, "two run");
        drop(state.end(&group, tid()));
        state.idle = 1;
        assert_eq!([(); 2].map(|()| state.find_help(2)), [Help::Call, Help::No]);
        assert_eq!(state.take_all().len(), 1);
    }
}

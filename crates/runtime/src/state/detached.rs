//! Polls that have lost their CPU ([`DetachedPoll`]), and the tasks that wait for their ends
//! ([`HeldBack`]).

use crate::marks::Signals;
use crate::sync::{AtomicUsize, Mutex};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Weak};
use zerolag_model::Instant;

/// A task whose poll has lost its CPU.
#[derive(Debug)]
pub(crate) struct DetachedPoll<T> {
    pub(crate) task: Arc<T>,
    /// It keeps tasks of its group back.
    pub(crate) counts: bool,
    /// When its poll began, if that is known, and where it is told that it is too long.
    pub(crate) began: Option<Instant>,
    pub(crate) signals: Arc<Signals>,
}

impl<T> Clone for DetachedPoll<T> {
    fn clone(&self) -> Self {
        let Self { task, counts, began, signals } = self;
        Self { task: Arc::clone(task), counts: *counts, began: *began, signals: Arc::clone(signals) }
    }
}

/// The tasks of a group that are held back, in the order of their arrival. Its lock is taken before
/// those of the CPUs' threads. It keeps no task alive: tasks own their groups.
#[derive(Debug)]
pub(crate) struct HeldBack<T> {
    pub(crate) tasks: Mutex<VecDeque<Weak<T>>>,
    /// At least the number of these tasks; it is raised before the polls are counted, so that a
    /// poll which ends after it was counted sees it.
    pub(crate) number: AtomicUsize,
    /// The polls of the group that have lost their CPU, and count.
    pub(crate) detached: AtomicUsize,
}

impl<T> Default for HeldBack<T> {
    fn default() -> Self {
        let [number, detached] = [0; 2].map(AtomicUsize::new);
        Self { tasks: Mutex::new(VecDeque::new()), number, detached }
    }
}

impl<T> HeldBack<T> {
    pub(crate) fn is_empty(&self) -> bool {
        self.number.load(Ordering::SeqCst) == 0
    }
}

/// Whether a task is held back. Changed under the lock of the group's [`HeldBack`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Hold {
    /// It is not, or it runs.
    Free,
    /// It is in the queue.
    Queued,
    /// It was first in the queue and was woken.
    Called,
}

/// A [`Hold`] that is read and written under a lock.
#[derive(Debug)]
pub(crate) struct HoldCell(AtomicU8);

impl Default for HoldCell {
    fn default() -> Self {
        Self(AtomicU8::new(Hold::Free as u8))
    }
}

impl HoldCell {
    pub(crate) fn get(&self) -> Hold {
        let value = self.0.load(Ordering::Relaxed);
        [Hold::Queued, Hold::Called].into_iter().find(|hold| *hold as u8 == value).unwrap_or(Hold::Free)
    }

    pub(crate) fn set(&self, hold: Hold) {
        self.0.store(hold as u8, Ordering::Relaxed);
    }
}

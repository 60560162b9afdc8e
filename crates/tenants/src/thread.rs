//! What a thread knows: the group of the poll in progress, its meter, and what it ran.

use crate::bell;
use crate::group::GroupState;
use crate::meter::{Measured, Meter, System};
use crate::turn::{SPARE, Seen};
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

struct Thread {
    /// The group of the poll in progress; the poll has none meanwhile, so no count is written.
    current: Cell<Option<Arc<GroupState>>>,
    meter: RefCell<Meter>,
    /// A number for this thread, once it needs one.
    id: Cell<u64>,
    begun: Cell<u64>,
    /// The group that uses the thread's spare time, and until when by its CPU time.
    spare: Cell<(usize, u64)>,
}

thread_local! {
    static THREAD: Thread = const {
        Thread {
            current: Cell::new(None),
            meter: RefCell::new(Meter::new()),
            id: Cell::new(0),
            begun: Cell::new(0),
            spare: Cell::new((0, 0)),
        }
    };
}

/// Returns the group of the poll in progress.
pub(crate) fn current_group() -> Option<Arc<GroupState>> {
    let read = |thread: &Thread| {
        let group = thread.current.take();
        thread.current.set(group.clone());
        group
    };
    THREAD.try_with(read).ok().flatten()
}

/// Returns whether a poll of a group is in progress on this thread.
pub(crate) fn is_inside() -> bool {
    THREAD.with(|thread| {
        let group = thread.current.take();
        let is_inside = group.is_some();
        thread.current.set(group);
        is_inside
    })
}

fn address(group: &Arc<GroupState>) -> usize {
    Arc::as_ptr(group).addr()
}

/// Returns whether the group has used less than the spare time of this thread.
pub(crate) fn is_in_spare_time(group: &Arc<GroupState>) -> bool {
    let (of, until) = THREAD.with(|thread| thread.spare.get());
    of == address(group) && group.used() < until
}

/// Gives the group the spare time of this thread: it needs no turn at any level.
pub(crate) fn spare(group: &Arc<GroupState>) {
    THREAD.with(|thread| thread.spare.set((address(group), group.used() + SPARE)));
}

/// Returns what this thread has done so far.
pub(crate) fn seen() -> Seen {
    static IDS: AtomicU64 = AtomicU64::new(1);
    THREAD.with(|thread| {
        if thread.id.get() == 0 {
            thread.id.set(IDS.fetch_add(1, Ordering::Relaxed));
        }
        Seen { thread: thread.id.get(), begun: thread.begun.get() }
    })
}

impl Thread {
    fn begin(&self, between: Duration) {
        self.meter.borrow_mut().begin(&System, between);
    }

    fn end(&self) -> Measured {
        self.meter.borrow_mut().end(&System)
    }
}

/// A poll, a function or a destructor of a group in progress on this thread. It ends when it is
/// dropped, also by a panic, and the group is charged.
pub(crate) struct Scope<'a> {
    /// The place that the group is taken from meanwhile.
    home: &'a mut Option<Arc<GroupState>>,
    /// The group around it, which is not charged for it.
    outer: Option<Arc<GroupState>>,
    /// What is held for it, in nanoseconds.
    held: u64,
}

const TAKEN: &str = "invariant: a scope has the group of its home";

impl<'a> Scope<'a> {
    pub(crate) fn enter(home: &'a mut Option<Arc<GroupState>>) -> Self {
        let group = home.take().expect(TAKEN);
        let between = group.shared.between;
        let held = group.hold();
        if held > 0 {
            bell::ring();
        }
        let outer = THREAD.with(|thread| {
            let outer = thread.current.take();
            if let Some(outer) = &outer {
                let Measured { ran, lost } = thread.end();
                outer.charge(ran, lost);
            }
            thread.begun.set(thread.begun.get().wrapping_add(1));
            thread.current.set(Some(group));
            thread.begin(between);
            outer
        });
        Self { home, outer, held }
    }
}

impl Drop for Scope<'_> {
    fn drop(&mut self) {
        THREAD.with(|thread| {
            let group = thread.current.take().expect(TAKEN);
            let Measured { ran, lost } = thread.end();
            group.charge(ran, lost);
            group.let_go(self.held, ran);
            if ran >= group.shared.long_poll {
                group.note_long_poll();
            }
            *self.home = Some(group);
            if let Some(outer) = self.outer.take() {
                thread.begin(outer.shared.between);
                thread.current.set(Some(outer));
            }
        });
    }
}

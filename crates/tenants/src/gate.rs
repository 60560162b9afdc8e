//! [`Gate`]: where a poll waits until its group has quota, and until it is its turn.

use crate::group::GroupState;
use crate::thread;
use crate::turn::{Look, Watch};
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::time::Sleep;

/// A place in a queue of a group on the way from a future's group to the root.
struct Place {
    level: Arc<GroupState>,
    ticket: u64,
    waits: WaitsFor,
}

enum WaitsFor {
    /// The first in the queue has the timer.
    Quota(Option<Pin<Box<Sleep>>>),
    /// The first of the first of all groups looks again.
    Turn(WaitsForTurn),
}

impl Place {
    fn at(level: &Arc<GroupState>, waits: WaitsFor) -> Self {
        let queue = match &waits {
            WaitsFor::Quota(_) => &level.account.queue,
            WaitsFor::Turn(_) => &level.turn.queue,
        };
        let ticket = queue.join();
        level.shared.watch();
        Self { ticket, level: Arc::clone(level), waits }
    }

    /// Polls until the future can pass this level.
    fn poll(&mut self, group: &Arc<GroupState>, cx: &mut Context<'_>) -> Poll<()> {
        let (level, ticket) = (&self.level, self.ticket);
        match &mut self.waits {
            WaitsFor::Quota(timer) => loop {
                // The waker is there before the look, so a limit that is removed meanwhile is seen.
                let is_first = level.account.queue.wait(ticket, cx.waker());
                let clock = &level.shared.clock;
                let Some(ends) = level.account.closed_until(clock.now(), group.usual()) else { return Poll::Ready(()) };
                if !is_first {
                    *timer = None;
                    return Poll::Pending;
                }
                let at = clock.to_tokio(ends);
                let timer = timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(at)));
                if timer.deadline() != at {
                    timer.as_mut().reset(at);
                }
                if timer.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
            },
            WaitsFor::Turn(turn) => {
                let parent = level.parent.as_ref().expect("invariant: the root has no gate");
                turn.poll(group, level, parent, ticket, cx)
            }
        }
    }
}

/// What a poll that waits for its turn has besides its place in the queue of its group.
#[derive(Default)]
struct WaitsForTurn {
    watch: Watch,
    /// Its ticket among the groups that wait, while it is the first of its own.
    among_groups: Option<u64>,
}

impl WaitsForTurn {
    fn poll(
        &mut self,
        group: &Arc<GroupState>,
        level: &Arc<GroupState>,
        parent: &GroupState,
        ticket: u64,
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        let rounds = parent.rounds();
        if thread::is_in_spare_time(group) {
            return Poll::Ready(());
        }
        if !level.turn.queue.wait(ticket, cx.waker()) {
            return Poll::Pending;
        }
        let among_groups = *self.among_groups.get_or_insert_with(|| rounds.queue.join());
        let is_first = rounds.queue.wait(among_groups, cx.waker());
        // The waker is there before the look, so a round that begins meanwhile is seen.
        if level.turn.renew(level.used(), level.weight(), rounds) {
            return Poll::Ready(());
        }
        if !is_first {
            self.watch = Watch::default();
            return Poll::Pending;
        }
        match rounds.look(&mut self.watch, thread::seen()) {
            Look::Spare => {
                thread::spare(group);
                return Poll::Ready(());
            }
            Look::NewRound => {
                rounds.queue.wake_all();
                if level.turn.renew(level.used(), level.weight(), rounds) {
                    return Poll::Ready(());
                }
            }
            Look::Off => {}
        }
        let _ = self.watch.since.get_or_insert_with(thread::seen);
        // Tasks that yield are polled after all that are woken, and before this one.
        pin!(tokio::task::yield_now()).poll(cx)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        match &self.waits {
            WaitsFor::Quota(_) => self.level.account.queue.leave(self.ticket),
            WaitsFor::Turn(turn) => {
                self.level.turn.queue.leave(self.ticket);
                if let Some((ticket, parent)) = turn.among_groups.zip(self.level.parent.as_ref()) {
                    parent.rounds().queue.leave(ticket);
                }
            }
        }
    }
}

/// See the [module](self).
#[derive(Default)]
pub(crate) struct Gate(Option<Box<Place>>);

impl Gate {
    /// Polls until a poll of the group can begin. O(depth).
    #[inline]
    pub(crate) fn poll(&mut self, group: &Arc<GroupState>, cx: &mut Context<'_>) -> Poll<()> {
        if self.0.is_none() && group.line().all(|level| is_open(group, level, false)) {
            return Poll::Ready(());
        }
        self.poll_closed(group, cx)
    }

    #[cold]
    fn poll_closed(&mut self, group: &Arc<GroupState>, cx: &mut Context<'_>) -> Poll<()> {
        let mut passed = None;
        loop {
            if let Some(place) = &mut self.0 {
                if place.poll(group, cx).is_pending() {
                    return Poll::Pending;
                }
                passed = Some(Arc::clone(&place.level));
                self.0 = None;
            }
            let has_passed = |level: &Arc<GroupState>| passed.as_ref().is_some_and(|passed| Arc::ptr_eq(passed, level));
            let Some(level) = group.line().find(|level| !is_open(group, level, has_passed(level))) else {
                return Poll::Ready(());
            };
            let is_out_of_quota =
                !level.account.is_open(group.usual()) || !has_passed(level) && !level.account.queue.is_empty();
            let waits = if is_out_of_quota { WaitsFor::Quota(None) } else { WaitsFor::Turn(WaitsForTurn::default()) };
            self.0 = Some(Box::new(Place::at(level, waits)));
        }
    }
}

/// Returns whether a poll can pass a level. Those that wait for its quota come first, unless it has
/// waited there. Within a poll of another group the thread is given already: a poll that was sent
/// back from there would see that one begin again and again, and take it for others' turn.
fn is_open(group: &Arc<GroupState>, level: &Arc<GroupState>, has_waited: bool) -> bool {
    level.account.is_open(group.usual())
        && (has_waited || level.account.queue.is_empty())
        && (level.turn.is_on(level.used()) || thread::is_in_spare_time(group) || thread::is_inside())
}

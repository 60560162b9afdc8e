//! The worst waits, and the tasks that ran meanwhile.
//!
//! Each CPU keeps its last stretches: which task ran, from when to when. When a wait ends that is
//! among the longest so far, the stretches that overlap it name the tasks that delayed it. A wait
//! longer than the history is explained as far as the history goes; the rest is
//! [`Wait::unexplained`]. The history is bounded, so a record costs O(1), and the rare long wait
//! O(history).
//!
//! While a group is throttled on a CPU, its tasks there wait for its limit, whatever runs: these
//! intervals go before the stretches.

use crate::summary::{Blocker, Wait};
use std::collections::VecDeque;
use zerolag_model::attr::Prio;
use zerolag_model::{CpuId, Duration, GroupId, Instant, TaskId};
use zerolag_trace::{IdTable, Meta};

/// A stretch in which a CPU ran one task.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunStretch {
    pub(crate) task: Option<TaskId>,
    pub(crate) prio: Prio,
    pub(crate) from: Instant,
    pub(crate) to: Instant,
}

/// A part of a wait, on one run queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub(crate) cpu: CpuId,
    pub(crate) from: Instant,
    pub(crate) to: Instant,
}

/// An interval in which a group was throttled on a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Throttling {
    /// The group whose limit was used up: the group itself or one above it.
    pub(crate) by: GroupId,
    pub(crate) from: Instant,
    pub(crate) to: Instant,
}

impl Throttling {
    /// Returns how much of it lies between two times.
    pub(crate) fn within(self, from: Instant, to: Instant) -> Duration {
        self.to.min(to).since(self.from.max(from))
    }
}

/// The last stretches of every CPU.
#[derive(Clone, Debug)]
pub(crate) struct History {
    cpus: IdTable<CpuId, VecDeque<RunStretch>>,
    kept: usize,
}

impl History {
    pub(crate) fn new(meta: &Meta) -> Self {
        let kept = (STRETCHES_IN_ALL / meta.machine.nr_cpus().max(1)).clamp(STRETCHES_MIN, STRETCHES_MAX);
        Self { cpus: IdTable::default(), kept }
    }

    /// Adds a stretch that has ended.
    pub(crate) fn push(&mut self, cpu: CpuId, stretch: RunStretch) {
        let stretches = self.cpus.entry(cpu);
        if stretches.len() == self.kept {
            stretches.pop_front();
        }
        stretches.push_back(stretch);
    }

    /// Returns the limits and tasks that delayed a task in the pieces, the longest first. `running`
    /// returns a CPU's current stretch, `throttled` the intervals of a piece in which the task's
    /// group was throttled; they do not overlap.
    pub(crate) fn blockers(
        &self,
        pieces: &[Piece],
        running: impl Fn(CpuId) -> Option<RunStretch>,
        throttled: impl Fn(Piece) -> Vec<Throttling>,
    ) -> Vec<Blocker> {
        let mut blockers: Vec<Blocker> = Vec::new();
        for piece in pieces {
            let throttled = throttled(*piece);
            for interval in &throttled {
                let time = interval.within(piece.from, piece.to);
                match blockers.iter().position(|by| by.throttled == Some(interval.by)) {
                    Some(at) => blockers[at].time = blockers[at].time.saturating_add(time),
                    None if time.is_zero() || blockers.len() >= BLOCKERS_MAX => {}
                    None => {
                        let throttled = Some(interval.by);
                        blockers.push(Blocker { task: None, throttled, prio: Prio::IDLE, time });
                    }
                }
            }
            let past = self.cpus.get(piece.cpu).into_iter().flatten().rev().copied();
            let now = running(piece.cpu);
            for stretch in now.into_iter().chain(past).take_while(|stretch| stretch.to > piece.from) {
                let (from, to) = (stretch.from.max(piece.from), stretch.to.min(piece.to));
                let time = throttled
                    .iter()
                    .fold(to.since(from), |free, interval| free.saturating_sub(interval.within(from, to)));
                if time.is_zero() {
                    continue;
                }
                let is_same =
                    |by: &Blocker| by.throttled.is_none() && by.task == stretch.task && by.prio == stretch.prio;
                match blockers.iter().position(is_same) {
                    Some(at) => blockers[at].time = blockers[at].time.saturating_add(time),
                    None if blockers.len() < BLOCKERS_MAX => {
                        blockers.push(Blocker { task: stretch.task, throttled: None, prio: stretch.prio, time });
                    }
                    // More blockers than a report shows: the rest stays unexplained.
                    None => {}
                }
            }
        }
        blockers.sort_by(|a, b| b.time.cmp(&a.time).then((a.task, a.throttled).cmp(&(b.task, b.throttled))));
        blockers
    }
}

/// The longest waits so far.
#[derive(Clone, Debug)]
pub(crate) struct WorstWaits {
    waits: Vec<Wait>,
    kept: usize,
}

impl WorstWaits {
    pub(crate) const fn new(kept: usize) -> Self {
        Self { waits: Vec::new(), kept }
    }

    /// Returns whether a wait of this length would be kept. Among equal waits the first is kept.
    #[inline]
    pub(crate) fn wants(&self, length: Duration) -> bool {
        if self.waits.len() < self.kept {
            return !length.is_zero();
        }
        self.waits.last().is_some_and(|shortest| length > shortest.length())
    }

    pub(crate) fn push(&mut self, wait: Wait) {
        let at = self.waits.partition_point(|other| other.length() >= wait.length());
        self.waits.insert(at, wait);
        self.waits.truncate(self.kept);
    }

    pub(crate) fn into_vec(self) -> Vec<Wait> {
        self.waits
    }
}

const STRETCHES_IN_ALL: usize = 64 * 1024;
const STRETCHES_MIN: usize = 64;
const STRETCHES_MAX: usize = 4096;
const BLOCKERS_MAX: usize = 64;

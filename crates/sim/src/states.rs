//! [`StateLog`]: keeps the scheduler's own numbers at its decisions, within a bound of memory.
//!
//! A run has any number of decisions, and a page has room for some. So there are two parts. The
//! *tracks* are of the whole run: when they have [`POINTS`] points, every other one is left out,
//! and from then on only every other decision is looked at. The *decisions* with their reasons are
//! the first [`DECISIONS`]: each is worth reading only beside its neighbours.
//!
//! Between two points a number is drawn as a line: while no entity joins or leaves, lag and virtual
//! times change at a constant rate. A value that stays is kept as its first and its last point.

use std::collections::{BTreeMap, BTreeSet};
use zerolag_model::state::{CpuState, Decision, FairOrder, Owner, Quantity, StateHistory, Track, TrackKey};
use zerolag_model::{CpuId, Duration, GroupId, Instant};

/// How many points of all tracks are kept: 24 bytes each.
const POINTS: usize = 120_000;

/// How many decisions are kept with their reasons.
const DECISIONS: usize = 5_000;

/// The numbers of a run so far.
#[derive(Clone, Debug)]
pub(crate) struct StateLog {
    tracks: BTreeMap<TrackKey, Vec<(Instant, Option<i64>)>>,
    /// The tracks of each CPU that have not ended.
    open: Vec<BTreeSet<TrackKey>>,
    points: usize,
    decisions: Vec<Decision>,
    /// The number of decisions so far.
    seen: u64,
    stride: u32,
}

impl StateLog {
    pub(crate) fn new(cpus: usize) -> Self {
        Self {
            tracks: BTreeMap::new(),
            open: vec![BTreeSet::new(); cpus],
            points: 0,
            decisions: Vec::new(),
            seen: 0,
            stride: 1,
        }
    }

    /// Takes the state of a CPU before and after it has picked, and the quota in the pools of
    /// limited groups.
    pub(crate) fn note(&mut self, at: Instant, (before, state): (&CpuState, &CpuState), pools: &[(GroupId, Duration)]) {
        if self.decisions.len() < DECISIONS {
            let why = state.why(before);
            self.decisions.push(Decision { at, cpu: state.cpu, before: before.picked, picked: state.picked, why });
        }
        let is_looked_at = self.seen.is_multiple_of(u64::from(self.stride));
        self.seen += 1;
        if !is_looked_at {
            return;
        }
        for (group, left) in pools {
            let key = TrackKey { quantity: Quantity::Quota, cpu: None, owner: Owner::Group(*group) };
            self.push(key, at, Some(left.to_signed().as_nanos()));
        }
        let values = values(at, state);
        let now: BTreeSet<TrackKey> = values.iter().map(|(key, _)| *key).collect();
        self.hold_alone(at, state.cpu, &now);
        for (key, value) in values {
            self.push(key, at, Some(value));
        }
        let before = core::mem::replace(&mut self.open[state.cpu.index()], now);
        let ended: Vec<TrackKey> = before.difference(&self.open[state.cpu.index()]).copied().collect();
        for key in ended {
            self.push(key, at, None);
        }
        if self.points > POINTS {
            self.thin();
        }
    }

    /// An entity that was alone on its queue had the same numbers until another one joined.
    fn hold_alone(&mut self, at: Instant, cpu: CpuId, now: &BTreeSet<TrackKey>) {
        let open = &self.open[cpu.index()];
        let beside = |keys: &BTreeSet<TrackKey>, key: &TrackKey| {
            let is_beside = |other: &&TrackKey| match (other.owner, key.owner) {
                (Owner::Fair(queue, _), Owner::Fair(own, _)) => queue == own && other.quantity == key.quantity,
                _ => false,
            };
            keys.iter().filter(is_beside).count()
        };
        let were_alone = open.iter().filter(|key| beside(open, key) == 1 && beside(now, key) > 1);
        for key in were_alone.copied().collect::<Vec<_>>() {
            let last = self.tracks.get(&key).and_then(|points| points.last()).and_then(|(_, value)| *value);
            self.push(key, at, last);
        }
    }

    fn push(&mut self, key: TrackKey, at: Instant, value: Option<i64>) {
        let points = self.tracks.entry(key).or_default();
        match &mut points[..] {
            [.., (_, before), (last, same)] if *before == value && *same == value => *last = at,
            _ => {
                points.push((at, value));
                self.points += 1;
            }
        }
    }

    /// Leaves out every other point. Ends of lines stay, and the points before them.
    fn thin(&mut self) {
        self.stride = self.stride.saturating_mul(2);
        self.points = 0;
        for points in self.tracks.values_mut() {
            let ends: Vec<bool> = points.iter().map(|(_, value)| value.is_none()).collect();
            let is_end = |place: usize| ends.get(place).copied().unwrap_or(true);
            let mut place = 0;
            points.retain(|_| {
                let stays = place % 2 == 0 || is_end(place) || is_end(place + 1);
                place += 1;
                stays
            });
            // Lines of one point each say nothing any more.
            points.dedup_by(|next, last| next.1.is_none() && last.1.is_none());
            self.points += points.len();
        }
        if self.points > POINTS / 4 * 3 {
            // Mostly ends: short lines go, so that the bound holds.
            self.points = 0;
            for points in self.tracks.values_mut() {
                let mut place = 0;
                points.retain(|_| {
                    place += 1;
                    place % 4 == 1
                });
                self.points += points.len();
            }
        }
    }

    /// Returns what was kept.
    pub(crate) fn finish(mut self) -> StateHistory {
        // A CPU decides at the time of its kernel path, which can be ahead of the others.
        self.decisions.sort_by_key(|decision| (decision.at, decision.cpu));
        let tracks = self.tracks.into_iter().map(|(key, points)| Track { key, points }).collect();
        StateHistory { tracks, decisions: self.decisions, nr_decisions: self.seen, stride: self.stride }
    }
}

/// Returns the numbers of a CPU, each with its track.
fn values(at: Instant, state: &CpuState) -> Vec<(TrackKey, i64)> {
    let cpu: CpuId = state.cpu;
    let mut found = Vec::new();
    let mut add = |quantity, owner, value| found.push((TrackKey { quantity, cpu: Some(cpu), owner }, value));
    for queue in &state.fair {
        for one in &queue.entities {
            let owner = Owner::Fair(queue.group, one.entity);
            match queue.order {
                FairOrder::Eevdf => {
                    add(Quantity::Lag, owner, one.lag);
                    add(Quantity::Eligible, owner, one.eligible);
                    add(Quantity::VirtualDeadline, owner, one.deadline);
                }
                FairOrder::Cfs => add(Quantity::Vruntime, owner, one.eligible),
            }
        }
        if let Some(quota) = queue.quota {
            add(Quantity::Quota, Owner::Group(queue.group), quota.as_nanos());
        }
    }
    let tasks = state.deadline.iter().map(|task| (Owner::Task(task.task), task.left, task.deadline));
    let queued = state.servers.iter().filter(|server| server.is_queued);
    for (owner, left, deadline) in tasks.chain(queued.map(|one| (Owner::Server(one.kind), one.left, one.deadline))) {
        add(Quantity::Budget, owner, left.as_nanos());
        add(Quantity::TimeToDeadline, owner, deadline.signed_since(at).as_nanos());
    }
    let served = state.served.as_ref().map_or(0, |served| served.tasks.len());
    let real_time = i64::try_from(state.real_time.len() + served).unwrap_or(i64::MAX);
    if real_time > 0 {
        add(Quantity::RealTimeTasks, Owner::Cpu, real_time);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerolag_model::{ClassId, TaskId};

    fn real_time(tasks: u32) -> CpuState {
        CpuState {
            cpu: CpuId(0),
            picked: (tasks > 0).then_some(TaskId(0)),
            serving: None,
            class: ClassId::Rt,
            deadline: Vec::new(),
            servers: Vec::new(),
            real_time: (0..tasks).map(|task| (TaskId(task), 1)).collect(),
            served: None,
            is_rt_throttled: false,
            fair: Vec::new(),
            loaded: 0,
            way: None,
        }
    }

    fn at(ns: u64) -> Instant {
        Instant::from_nanos(ns)
    }

    #[test]
    fn a_value_that_stays_is_two_points_and_a_line_ends_with_its_owner() {
        let mut log = StateLog::new(1);
        for (time, tasks) in [(1, 2), (2, 2), (3, 2), (4, 1), (5, 0), (6, 0)] {
            log.note(at(time), (&real_time(tasks), &real_time(tasks)), &[]);
        }
        let found = log.finish();
        let points = [(at(1), Some(2)), (at(3), Some(2)), (at(4), Some(1)), (at(5), None)];
        assert_eq!(found.tracks[0].points, points);
        assert_eq!((found.nr_decisions, found.decisions.len(), found.stride), (6, 6, 1));
    }

    #[test]
    fn memory_is_bounded_whatever_is_noted() {
        for period in [3, 7] {
            let mut log = StateLog::new(1);
            for time in 0..3 * POINTS as u64 {
                let state = real_time((1 + time % period) as u32);
                log.note(at(time), (&state, &state), &[]);
                assert!(log.points <= POINTS + 8, "{} points", log.points);
            }
            let found = log.finish();
            let points = &found.tracks[0].points;
            assert!(points.len() > POINTS / 16 && found.stride > 1, "{} points", points.len());
            assert!(points.last().is_some_and(|(last, _)| last.as_nanos() > 3 * POINTS as u64 - 200), "the whole run");
            assert_eq!((found.decisions.len(), found.nr_decisions), (DECISIONS, 3 * POINTS as u64));
        }
    }
}

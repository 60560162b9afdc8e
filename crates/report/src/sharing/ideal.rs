//! [`Ideal`]: how far tasks fall behind an ideal sharing by weight.
//!
//! In the ideal, all runnable tasks run at the same time, each at a rate by its weight, at most
//! one CPU each; what a task cannot use is shared by the others (generalized processor sharing:
//! Parekh and Gallager, IEEE/ACM Transactions on Networking 1993; on several CPUs Chandra,
//! Adler, Goyal and Shenoy, *Surplus Fair Scheduling*, OSDI 2000). A task is *behind* by what it
//! would have got there since it became runnable, less what it ran. It is most behind when its
//! wait ends, so only then it is computed.
//!
//! The rate of every task changes with every wakeup. Virtual time makes that O(1): it passes at
//! the CPUs per weight, and a task's ideal is its weight times the virtual time that has passed.
//! A group has a virtual time of its own, which follows that of its parent when it is asked for.
//! Tasks that would get more than a CPU are found by the *weight per task*, beginning with the
//! largest: mostly the first is none.
//!
//! differs: inside a group what one task cannot use is lost to its siblings, so they can be
//! further behind than computed, and never less.

use std::collections::BTreeMap;
use zerolag_model::{Duration, GroupId, Instant, TaskId};
use zerolag_trace::IdTable;
use zerolag_trace::groups::Groups;

/// A task that shares.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Want {
    pub(super) weight: u32,
    pub(super) runs: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Ideal {
    at: Instant,
    /// The CPUs that are online and run none but tasks that share.
    capacity: i64,
    /// Virtual time at the top: nanoseconds of CPU time per weight.
    vtime: f64,
    /// How fast it passes, unless something has changed.
    rate: Option<f64>,
    /// What shares at the top, by the bits of its weight per task.
    tops: BTreeMap<u64, Top>,
    weight: u64,
    groups: BTreeMap<GroupId, Node>,
    tasks: IdTable<TaskId, Share>,
}

/// All that has one weight per task.
#[derive(Clone, Copy, Debug, Default)]
struct Top {
    tasks: u64,
    weight: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Node {
    /// Its own weight, since it has tasks that share.
    weight: u64,
    /// The weights of what shares directly below it.
    members: u64,
    /// The number of tasks that share, at any depth.
    tasks: u64,
    vtime: f64,
    /// The virtual time of its parent up to which its own has followed.
    seen: f64,
}

#[derive(Clone, Debug, Default)]
struct Share {
    /// The group of the task and the groups above it.
    path: Vec<GroupId>,
    now: Option<Now>,
    worst: Option<Duration>,
}

/// A task from becoming runnable on.
#[derive(Clone, Copy, Debug)]
struct Now {
    weight: u32,
    since: Instant,
    vtime: f64,
    ran: Duration,
    runs_since: Option<Instant>,
}

impl Ideal {
    pub(super) fn new(nr_cpus: usize, at: Instant) -> Self {
        Self {
            at,
            capacity: nr_cpus as i64,
            vtime: 0.0,
            rate: Some(0.0),
            tops: BTreeMap::new(),
            weight: 0,
            groups: BTreeMap::new(),
            tasks: IdTable::default(),
        }
    }

    pub(super) fn worst(&self, task: TaskId) -> Option<Duration> {
        self.tasks.get(task)?.worst
    }

    /// A CPU is there, or is no longer.
    pub(super) fn set_capacity(&mut self, change: i64, at: Instant) {
        self.advance(at);
        self.capacity += change;
        self.rate = None;
    }

    /// Forgets a group that is removed.
    pub(super) fn forget(&mut self, group: GroupId) {
        if self.groups.get(&group).is_some_and(|node| node.tasks == 0) {
            self.groups.remove(&group);
        }
    }

    /// A task shares from now on, runs or waits, or no longer shares.
    pub(super) fn update(&mut self, id: TaskId, want: Option<Want>, groups: &Groups, at: Instant) {
        let now = self.tasks.get(id).and_then(|share| share.now);
        match (now, want) {
            (None, None) => {}
            (Some(now), Some(want)) if now.weight == want.weight => {
                if now.runs_since.is_some() != want.runs {
                    self.turn(id, want.runs, at);
                }
            }
            (now, want) => {
                self.advance(at);
                if now.is_some() {
                    self.leave(id, at);
                }
                if let Some(want) = want {
                    self.join(id, want, groups, at);
                }
            }
        }
    }

    /// Looks at all tasks that are still behind.
    pub(super) fn close(&mut self, end: Instant) {
        self.advance(end);
        let sharing: Vec<TaskId> =
            self.tasks.iter().filter(|(_, share)| share.now.is_some()).map(|(task, _)| task).collect();
        sharing.into_iter().for_each(|task| self.look(task, end));
    }

    /// A task begins or ends to run.
    fn turn(&mut self, id: TaskId, runs: bool, at: Instant) {
        if runs {
            self.advance(at);
            self.look(id, at);
        }
        if let Some(now) = &mut self.tasks.entry(id).now {
            match now.runs_since.take() {
                Some(since) => now.ran = now.ran.saturating_add(at.since(since)),
                None => now.runs_since = runs.then_some(at),
            }
        }
    }

    fn advance(&mut self, at: Instant) {
        if at > self.at {
            let rate = self.rate.unwrap_or_else(|| self.rate_now());
            self.rate = Some(rate);
            self.vtime += rate * at.since(self.at).as_nanos() as f64;
            self.at = at;
        }
    }

    /// Returns how fast virtual time passes for tasks that get less than a CPU.
    fn rate_now(&self) -> f64 {
        let (mut cpus, mut weight) = (self.capacity.max(0) as f64, self.weight);
        for (ratio, top) in self.tops.iter().rev() {
            if f64::from_bits(*ratio) * cpus <= weight as f64 {
                return cpus / weight as f64;
            }
            cpus -= top.tasks as f64;
            weight = weight.saturating_sub(top.weight);
        }
        // Every task has a CPU: time passes such that the lightest has one.
        self.tops.keys().next().map_or(0.0, |least| 1.0 / f64::from_bits(*least))
    }

    /// Returns the virtual time of a task's group, and lets those above it follow.
    fn pull(&mut self, id: TaskId) -> f64 {
        let mut above = self.vtime;
        let Some(share) = self.tasks.get(id) else { return above };
        for group in share.path.iter().rev() {
            let node = self.groups.entry(*group).or_default();
            if node.members > 0 {
                node.vtime += (above - node.seen) * node.weight as f64 / node.members as f64;
            }
            node.seen = above;
            above = node.vtime;
        }
        above
    }

    fn look(&mut self, id: TaskId, at: Instant) {
        let vtime = self.pull(id);
        let share = self.tasks.entry(id);
        let Some(now) = share.now else { return };
        let got = now.runs_since.map_or(now.ran, |since| now.ran.saturating_add(at.since(since)));
        // The conversion saturates, and virtual time does not go back.
        let ideal = Duration::from_nanos((f64::from(now.weight) * (vtime - now.vtime)) as u64);
        let behind = ideal.min(at.since(now.since)).saturating_sub(got);
        share.worst = Some(share.worst.map_or(behind, |worst| worst.max(behind)));
    }

    fn join(&mut self, id: TaskId, want: Want, groups: &Groups, at: Instant) {
        let share = self.tasks.entry(id);
        share.path.clear();
        share.path.extend(groups.path(id));
        let vtime = self.pull(id);
        let share = self.tasks.entry(id);
        let runs_since = want.runs.then_some(at);
        share.now = Some(Now { weight: want.weight, since: at, vtime, ran: Duration::ZERO, runs_since });
        share.worst.get_or_insert(Duration::ZERO);
        let path = std::mem::take(&mut share.path);
        let mut new = Some(u64::from(want.weight));
        for (depth, group) in path.iter().enumerate() {
            let is_top = depth + 1 == path.len();
            let node = self.groups.entry(*group).or_default();
            node.members += new.take().unwrap_or(0);
            if node.tasks == 0 {
                node.weight = u64::from(groups.weight(*group).max(1));
                new = Some(node.weight);
            }
            node.tasks += 1;
            let node = *node;
            if is_top {
                new = None;
                self.top(node.weight, node.tasks - 1, node.tasks);
            }
        }
        if let Some(weight) = new {
            self.top(weight, 0, 1);
        }
        self.tasks.entry(id).path = path;
    }

    fn leave(&mut self, id: TaskId, at: Instant) {
        self.look(id, at);
        let share = self.tasks.entry(id);
        let Some(now) = share.now.take() else { return };
        let path = std::mem::take(&mut share.path);
        let mut gone = Some(u64::from(now.weight));
        for (depth, group) in path.iter().enumerate() {
            let is_top = depth + 1 == path.len();
            let node = self.groups.entry(*group).or_default();
            node.members = node.members.saturating_sub(gone.take().unwrap_or(0));
            node.tasks = node.tasks.saturating_sub(1);
            let node = *node;
            if node.tasks == 0 {
                gone = Some(node.weight);
            }
            if is_top {
                gone = None;
                self.top(node.weight, node.tasks + 1, node.tasks);
            }
        }
        if let Some(weight) = gone {
            self.top(weight, 1, 0);
        }
        self.tasks.entry(id).path = path;
    }

    /// Something of a weight at the top had so many tasks, and has so many.
    fn top(&mut self, weight: u64, had: u64, has: u64) {
        self.rate = None;
        let ratio = |tasks: u64| (weight as f64 / tasks as f64).to_bits();
        if had > 0 {
            self.weight = self.weight.saturating_sub(weight);
            if let Some(top) = self.tops.get_mut(&ratio(had)) {
                top.tasks = top.tasks.saturating_sub(had);
                top.weight = top.weight.saturating_sub(weight);
                if top.tasks == 0 {
                    self.tops.remove(&ratio(had));
                }
            }
        }
        if has > 0 {
            self.weight += weight;
            let top = self.tops.entry(ratio(has)).or_default();
            top.tasks += has;
            top.weight += weight;
        }
    }
}

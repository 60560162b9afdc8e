//! [`Mirror`]: the policy, with the state of the kernel as its events tell it.
//!
//! A policy of zerolag is called at the time at which something happens, and its decisions take
//! effect at once. Here the events arrive later, in order, and a decision reaches the kernel after
//! that. So the class around the policy ([`Host`]) is run on the events as if they happened now: it
//! has the queues of the policy and the local ones, and which task is current on each CPU. Where
//! the kernel has each task is noted beside that ([`Place`]). A decision is what differs: a task
//! that the host has on a local queue, and the kernel still in its waiting queue, is to be moved.
//! Decisions are made of the state after all events that were read, so none is about a state that
//! is known to have passed.
//!
//! When a turn is over the kernel asks for the next task before it takes the current one away. If
//! the policy lets that task go on (`goes_on`), the host keeps it as current: the events by which
//! the kernel takes it away and runs it anew are none for the policy.
//!
//! The thread that decides is of real time: it takes the CPU from a task, and that task goes on
//! after it. For the policy this task runs on all the time (`is_paused`): otherwise no task would
//! ever be current while a machine of one CPU decides. If the policy ends the turn of such a task,
//! the kernel enqueues it anew (`Requeue`); other moves to that CPU wait for that.
//!
//! What the kernel does without being asked (late answers, idle CPUs) comes as a task that runs: the
//! host follows.

use crate::account::Accounts;
use crate::wire::{Decision, Event, Kind, MASK_WORDS, Outcome, text};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use zerolag_model::{CpuId, CpuMask, CpuMax, Duration, GroupId, Instant, TaskId, Topology};
use zerolag_policy::{
    Arrival, Departure, DeqFlags, Effect, EnqFlags, ExitInfo, Host, KickFlags, Policy, TaskInfo, WakeFlags,
};

/// How often kicks of the policy can lead to further ones before the next events are read.
const MAX_ROUNDS: usize = 8;

/// Where the kernel has a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    Off,
    /// In the queue of the kernel's half.
    Wait,
    /// On the local queue of a CPU.
    Local,
    Running,
}

#[derive(Clone, Debug)]
struct Task {
    place: Place,
    /// It has become runnable, and is neither enqueued nor running yet.
    woke: Option<Arrival>,
    /// Its turn is over, and it is not enqueued yet.
    is_over: bool,
    /// The policy lets it go on after its turn.
    goes_on: bool,
    /// A task of real time has taken its CPU: it goes on behind that.
    is_paused: bool,
    has_run: bool,
    weight: u32,
    group: GroupId,
    allowed: Option<Arc<CpuMask>>,
}

/// Finds the path of a group by its number in cgroup v2.
pub(crate) type PathOf = Box<dyn FnMut(u64) -> Option<String>>;

/// The policy and what it knows.
pub(crate) struct Mirror {
    host: Host,
    nr_cpus: u32,
    tasks: BTreeMap<u32, Task>,
    groups: BTreeMap<u64, GroupId>,
    /// Says the paths of groups, if the policy can use them.
    path_of: Option<PathOf>,
    /// The groups whose path was looked for.
    named: BTreeSet<u64>,
    is_idle: Vec<bool>,
    /// The task of each CPU that is being enqueued anew.
    requeued: Vec<Option<u32>>,
    /// The events that want an answer.
    nr_asked: u64,
    /// A task or a CPU waits since the decisions were made.
    is_asked: bool,
    /// When the first event was.
    began: Option<u64>,
    now: u64,
    /// Decisions on tasks that run.
    slices: Vec<Decision>,
    pub(crate) accounts: Accounts,
}

impl Mirror {
    /// Loads a policy for a machine with these CPUs: for the policy they are cores of one cache.
    pub(crate) fn new(policy: Box<dyn Policy>, online: &CpuMask, slice: Duration) -> Result<Self, String> {
        let nr_cpus = online.last().map_or(0, |last| last.0 + 1);
        let topology = Topology::flat(nr_cpus).map_err(|error| error.to_string())?;
        let mut mirror = Self {
            host: Host::load(policy, &topology, slice),
            nr_cpus,
            tasks: BTreeMap::new(),
            groups: BTreeMap::from([(0, GroupId::ROOT), (1, GroupId::ROOT)]),
            path_of: None,
            named: BTreeSet::new(),
            is_idle: vec![true; nr_cpus as usize],
            requeued: vec![None; nr_cpus as usize],
            nr_asked: 0,
            is_asked: false,
            began: None,
            now: 0,
            slices: Vec::new(),
            accounts: Accounts::default(),
        };
        for cpu in mirror.cpus().filter(|cpu| !online.contains(*cpu)) {
            mirror.host.set_online(cpu, false);
        }
        Ok(mirror)
    }

    /// Lets the policy know the paths of groups.
    pub(crate) fn with_paths(mut self, path_of: PathOf) -> Self {
        self.path_of = Some(path_of);
        self
    }

    /// Returns why the policy has failed, if it has.
    pub(crate) fn failure(&self) -> Option<&ExitInfo> {
        self.host.exit_info()
    }

    /// Returns how many of the events so far want an answer.
    pub(crate) const fn nr_asked(&self) -> u64 {
        self.nr_asked
    }

    /// Returns when [`time`](Self::time) is to be called for a timer of the policy, if that is
    /// earlier than what was returned before.
    pub(crate) fn take_timer(&mut self) -> Option<u64> {
        let at = self.host.take_timer()?;
        Some(self.began.unwrap_or(0) + at.as_nanos())
    }

    /// Calls the policy's timers that are due.
    pub(crate) fn time(&mut self, now: u64) {
        self.set_now(now);
        self.host.fire_timers();
    }

    /// Tells the policy that it is unloaded.
    pub(crate) fn unload(&mut self) {
        self.host.unload();
    }

    fn set_now(&mut self, now: u64) {
        self.now = self.now.max(now);
        let began = *self.began.get_or_insert(now);
        self.host.set_now(Instant::from_nanos(self.now - began));
    }

    fn group(&mut self, id: u64) -> GroupId {
        let next = GroupId(self.groups.len() as u32);
        *self.groups.entry(id).or_insert(next)
    }

    /// A task is in a group: its directory exists by now, so that its path can be found.
    fn name_group(&mut self, id: u64) {
        if let Some(path_of) = &mut self.path_of
            && self.named.insert(id)
            && let Some(path) = path_of(id)
        {
            let group = self.group(id);
            self.host.name_group(group, path.into());
        }
    }

    fn is_current(&self, p: TaskId) -> bool {
        self.host.scx().task_running(p)
    }

    fn cpus(&self) -> impl Iterator<Item = CpuId> + use<> {
        (0..self.nr_cpus).map(CpuId)
    }
}

/// Events.
impl Mirror {
    /// Takes an event over.
    pub(crate) fn handle(&mut self, event: &Event) {
        self.set_now(event.at);
        match event.kind {
            Kind::Add => return self.add(event),
            Kind::Group => return self.add_group(event),
            Kind::GroupExit => {
                let group = self.group(event.group);
                return self.host.remove_group(group);
            }
            Kind::GroupLimit => return self.limit(event),
            Kind::Exit => return,
            Kind::Enqueue | Kind::Dispatch => {
                self.nr_asked += u64::from(event.kind == Kind::Dispatch || event.weight == 1);
                self.is_asked = true;
            }
            _ => {}
        }
        let cpu = CpuId(event.cpu.min(self.nr_cpus - 1));
        if event.kind == Kind::Dispatch {
            return self.dispatch(cpu, event.pid);
        }
        if !self.tasks.contains_key(&event.pid) {
            return; // It is older than the attachment, or has left.
        }
        self.requeued.iter_mut().filter(|pid| **pid == Some(event.pid)).for_each(|pid| *pid = None);
        match event.kind {
            Kind::Runnable => self.runnable(event),
            Kind::Enqueue => self.enqueue(event, cpu),
            Kind::Running => self.running(event, cpu),
            Kind::Stopping => self.stopping(event),
            Kind::Quiescent => self.quiescent(event),
            Kind::Remove => self.remove(event.pid),
            Kind::Weight => self.update(event.pid, |task| task.weight = event.weight),
            Kind::Cpumask => {
                let allowed = self.mask(event.mask);
                self.update(event.pid, |task| task.allowed = allowed);
            }
            Kind::Move => {
                let group = self.group(event.group);
                self.name_group(event.group);
                self.accounts.set_group(event.pid, event.group);
                self.update(event.pid, |task| task.group = group);
            }
            Kind::Rename => {
                let comm = text(&event.comm);
                self.host.rename_task(TaskId(event.pid), comm.as_str().into());
                self.accounts.set_comm(event.pid, comm);
            }
            Kind::Add | Kind::Dispatch | Kind::Group | Kind::GroupExit | Kind::GroupLimit | Kind::Exit => {}
        }
    }

    /// Returns a mask; `None` if it has all CPUs.
    fn mask(&self, words: [u64; MASK_WORDS]) -> Option<Arc<CpuMask>> {
        let mut mask = CpuMask::new();
        for cpu in self.cpus().filter(|cpu| words[cpu.index() / 64] >> (cpu.0 % 64) & 1 == 1) {
            mask.insert(cpu);
        }
        (mask.count() < self.nr_cpus as usize).then(|| Arc::new(mask))
    }

    fn add(&mut self, event: &Event) {
        self.remove(event.pid);
        self.name_group(event.group);
        let (comm, group, allowed) = (text(&event.comm), self.group(event.group), self.mask(event.mask));
        let task = Task {
            place: Place::Off,
            woke: None,
            is_over: false,
            goes_on: false,
            is_paused: false,
            has_run: false,
            weight: event.weight,
            group,
            allowed,
        };
        let info = TaskInfo {
            comm: comm.as_str().into(),
            weight: task.weight,
            group,
            allowed: task.allowed.clone(),
            cpu: CpuId(event.cpu.min(self.nr_cpus - 1)),
            period: None,
        };
        self.tasks.insert(event.pid, task);
        self.accounts.add(event.pid, comm, event.group, event.weight);
        self.host.add_task(TaskId(event.pid), info, true);
    }

    fn remove(&mut self, pid: u32) {
        let p = TaskId(pid);
        if self.tasks.remove(&pid).is_none() {
            return;
        }
        self.accounts.stop(pid, self.now);
        self.accounts.end(pid);
        if self.is_current(p) || self.host.waits(p) {
            self.host.dequeue(p, Departure::Exit, self.is_current(p));
        }
        self.host.remove_task(p, true);
    }

    fn update(&mut self, pid: u32, change: impl FnOnce(&mut Task)) {
        let Some(task) = self.tasks.get_mut(&pid) else { return };
        change(task);
        self.accounts.set_weight(pid, task.weight);
        self.host.update_task(TaskId(pid), task.weight, task.group, task.allowed.as_ref());
    }

    /// A group is new, or has another weight. The root is none that a policy is told of.
    fn add_group(&mut self, event: &Event) {
        let (group, parent) = (self.group(event.group), self.group(event.a));
        self.host.add_group(group, parent, event.weight);
        self.host.set_group_weight(group, event.weight);
    }

    fn limit(&mut self, event: &Event) {
        let group = self.group(event.group);
        let micros = Duration::from_micros;
        let quota = (event.b != u64::MAX).then(|| micros(event.b));
        let limit = CpuMax { quota, period: micros(event.a), burst: micros(event.mask[0]), ..CpuMax::UNLIMITED };
        self.host.set_bandwidth(group, limit);
    }

    fn task(&mut self, pid: u32) -> &mut Task {
        self.tasks.get_mut(&pid).expect("invariant: it was found before the event was taken over")
    }

    fn runnable(&mut self, event: &Event) {
        self.accounts.wait(event.pid, event.at);
        let task = self.task(event.pid);
        task.woke = Some(match EnqFlags(event.a).has(EnqFlags::WAKEUP) {
            true => Arrival::Wakeup,
            false if task.has_run => Arrival::Again { moves: false },
            false => Arrival::New,
        });
    }

    fn enqueue(&mut self, event: &Event, cpu: CpuId) {
        let p = TaskId(event.pid);
        let task = self.task(event.pid);
        task.place = Place::Wait;
        let mut is_over = std::mem::take(&mut task.is_over);
        let (goes_on, is_paused) = (task.goes_on, std::mem::take(&mut task.is_paused));
        if EnqFlags(event.a).has(EnqFlags::REENQ) {
            let is_local = self.host.local(cpu).any(|other| other == p);
            if is_local && !self.is_current(p) {
                return; // It was there beside the one that is enqueued anew: it is moved again.
            }
            is_over |= is_paused;
        }
        if is_over && self.is_current(p) {
            if is_paused {
                self.host.set_slice(p, Duration::ZERO);
            }
            if !goes_on {
                let cpu = self.host.home(p).unwrap_or(cpu);
                let idles = EnqFlags(event.a).has(EnqFlags::LAST) && self.host.local(cpu).next().is_none();
                self.host.put_prev(p, cpu, idles);
            }
            return;
        }
        let task = self.task(event.pid);
        task.goes_on = false;
        let woke = task.woke.take();
        if self.is_current(p) || self.host.waits(p) {
            self.host.dequeue(p, Departure::Move, self.is_current(p));
        }
        match woke {
            Some(Arrival::Wakeup) => {
                let chosen = self.host.select_cpu(p, cpu, cpu, WakeFlags::TTWU);
                // As a kernel does with a choice where the task must not run (`select_task_rq`).
                let chosen = if self.host.scx().allowed(p, chosen) { chosen } else { cpu };
                self.host.enqueue(p, chosen, Arrival::Wakeup, false);
            }
            Some(why) => self.host.enqueue(p, cpu, why, false),
            None => self.host.enqueue(p, cpu, Arrival::Again { moves: true }, false),
        }
    }

    fn running(&mut self, event: &Event, cpu: CpuId) {
        self.accounts.run(event.pid, event.at);
        let p = TaskId(event.pid);
        let task = self.task(event.pid);
        task.place = Place::Running;
        task.has_run = true;
        (task.is_over, task.goes_on, task.is_paused) = (false, false, false);
        let woke = task.woke.take();
        if let Some(why) = woke {
            if self.is_current(p) || self.host.waits(p) {
                self.host.dequeue(p, Departure::Exit, self.is_current(p));
            }
            self.host.enqueue(p, cpu, why, true);
        }
        let current = self.host.scx().cpu_curr(cpu);
        if current == Some(p) && woke.is_none() {
            if self.host.scx().slice(p).is_zero() {
                // It had gone on already when its turn was to end.
                self.slices.push(Decision::Kick { cpu: cpu.0, flags: KickFlags::PREEMPT.0 });
            } else {
                self.host.set_slice(p, Duration::from_nanos(event.b));
            }
            return;
        }
        if let Some(other) = current.filter(|other| *other != p) {
            self.leave(other, cpu);
        }
        if self.host.home(p) != Some(cpu) {
            if self.is_current(p) {
                let home = self.host.home(p).unwrap_or(cpu);
                self.leave(p, home);
            }
            // Its body moves to the CPU whose local queue it is on, or that has taken it.
            self.host.move_body(p);
            self.host.dequeue(p, Departure::Move, false);
            self.host.enqueue(p, cpu, Arrival::Again { moves: true }, false);
        }
        self.host.set_slice(p, Duration::from_nanos(event.b));
        self.host.set_next(p, cpu);
        let slice = self.host.scx().slice(p).as_nanos();
        if slice != event.b {
            self.slices.push(Decision::Slice { pid: event.pid, slice });
        }
    }

    /// A task is no longer current, though no event has said so: it waits on its local queue.
    fn leave(&mut self, p: TaskId, cpu: CpuId) {
        if let Some(task) = self.tasks.get_mut(&p.0) {
            (task.is_over, task.goes_on, task.is_paused) = (false, false, false);
        }
        if self.host.scx().slice(p).is_zero() {
            self.host.set_slice(p, Duration::from_nanos(1));
        }
        self.host.put_prev(p, cpu, false);
    }

    fn stopping(&mut self, event: &Event) {
        self.accounts.stop(event.pid, event.at);
        self.accounts.wait(event.pid, event.at);
        let p = TaskId(event.pid);
        let is_current = self.is_current(p);
        let task = self.task(event.pid);
        task.place = if event.b > 0 { Place::Local } else { Place::Off };
        if event.b == 0 {
            task.is_over = is_current;
            if !task.goes_on {
                self.host.set_slice(p, Duration::ZERO);
            }
        } else if is_current {
            (task.goes_on, task.is_paused) = (false, true);
            // If the policy has ended its turn already, the kernel did not know that.
            if !self.host.scx().slice(p).is_zero() {
                self.host.set_slice(p, Duration::from_nanos(event.b));
            }
        }
    }

    fn quiescent(&mut self, event: &Event) {
        self.accounts.stop(event.pid, event.at);
        let p = TaskId(event.pid);
        let task = self.task(event.pid);
        (task.place, task.goes_on, task.is_over, task.is_paused) = (Place::Off, false, false, false);
        if let Some(why) = task.woke.take() {
            // It was on a local queue of which the kernel did not tell.
            let cpu = self.host.home(p).unwrap_or(CpuId(0));
            self.host.enqueue(p, cpu, why, true);
        }
        let is_current = self.is_current(p);
        if is_current {
            self.host.set_slice(p, Duration::from_nanos(event.b));
        }
        let why = match DeqFlags(event.a).has(DeqFlags::SLEEP) {
            true => Departure::Sleep,
            // Unlike a change it leaves the CPU without a task: if it runs on, an event says so.
            false if is_current => Departure::Exit,
            false => Departure::Change,
        };
        self.host.dequeue(p, why, is_current);
    }

    /// A CPU asks for a task; `pid` is the one whose turn is over.
    fn dispatch(&mut self, cpu: CpuId, pid: u32) {
        let prev =
            Some(TaskId(pid)).filter(|p| self.tasks.contains_key(&pid) && self.host.scx().cpu_curr(cpu) == Some(*p));
        let Some(prev) = prev else {
            return; // `settle` asks for every CPU that is free.
        };
        self.host.set_slice(prev, Duration::ZERO);
        self.host.dispatch(cpu, Some(prev));
        let goes_on = self.host.keeps(cpu, prev);
        self.task(pid).goes_on = goes_on;
    }
}

/// Decisions.
impl Mirror {
    fn is_free(&self, cpu: CpuId) -> bool {
        self.host.scx().cpu_online(cpu)
            && self.host.scx().cpu_curr(cpu).is_none()
            && self.host.local(cpu).next().is_none()
    }

    /// Lets the CPUs without a task ask the policy, and returns what the kernel is to do.
    pub(crate) fn settle(&mut self, decisions: &mut Vec<Decision>) {
        decisions.clear();
        let mut kicked = Vec::new();
        let mut asks: Vec<CpuId> = if self.is_asked { self.cpus().collect() } else { Vec::new() };
        self.is_asked = false;
        for _ in 0..MAX_ROUNDS {
            for effect in self.host.take_effects() {
                match effect {
                    Effect::Resched(cpu) if self.host.scx().cpu_curr(cpu).is_some() => kicked.push(cpu),
                    Effect::Resched(cpu) | Effect::WakeIdle(cpu) => asks.push(cpu),
                }
            }
            if asks.is_empty() {
                break;
            }
            for cpu in std::mem::take(&mut asks) {
                if self.is_free(cpu) {
                    self.host.dispatch(cpu, None);
                }
            }
        }
        for cpu in self.cpus().filter(|cpu| self.host.scx().cpu_online(*cpu)).collect::<Vec<_>>() {
            let is_free = self.is_free(cpu);
            if std::mem::replace(&mut self.is_idle[cpu.index()], is_free) != is_free {
                self.host.update_idle(cpu, is_free);
            }
        }
        decisions.append(&mut self.slices);
        kicked.sort_unstable();
        kicked.dedup();
        for cpu in kicked {
            let Some(current) = self.host.scx().cpu_curr(cpu) else { continue };
            let is_over = self.host.scx().slice(current).is_zero();
            match self.place(current) {
                Some(Place::Running) => {
                    let flags = if is_over { KickFlags::PREEMPT } else { KickFlags::NONE };
                    decisions.push(Decision::Kick { cpu: cpu.0, flags: flags.0 });
                }
                Some(Place::Local) if is_over && self.requeued[cpu.index()].is_none() => {
                    self.requeued[cpu.index()] = Some(current.0);
                    decisions.push(Decision::Requeue { cpu: cpu.0 });
                }
                // One whose turn is over already will ask by itself.
                _ => {}
            }
        }
        // A kick that comes before its move finds no task: moves are first.
        let kicks = std::mem::take(decisions);
        for cpu in self.cpus().filter(|cpu| self.requeued[cpu.index()].is_none()) {
            self.moves(cpu, decisions);
        }
        decisions.extend(kicks);
    }

    fn place(&self, p: TaskId) -> Option<Place> {
        self.tasks.get(&p.0).map(|task| task.place)
    }

    /// Adds the moves to the local queue of a CPU, in its order.
    fn moves(&self, cpu: CpuId, decisions: &mut Vec<Decision>) {
        let scx = self.host.scx();
        let mut push = |p: TaskId, flags: EnqFlags| {
            decisions.push(Decision::Move { pid: p.0, cpu: cpu.0, slice: scx.slice(p).as_nanos(), flags: flags.0 });
        };
        let waits = |p: &TaskId| self.place(*p) == Some(Place::Wait);
        if let Some(current) = scx.cpu_curr(cpu).filter(waits) {
            push(current, EnqFlags::NONE);
        }
        let local: Vec<TaskId> = self.host.local(cpu).collect();
        let last = local.iter().rposition(|p| self.place(*p) == Some(Place::Local)).unwrap_or(0);
        let (before, behind) = local.split_at(last);
        // Each comes to the head, so that the first is the last to be moved.
        before.iter().rev().filter(|p| waits(p)).for_each(|p| push(*p, EnqFlags::HEAD));
        behind.iter().filter(|p| waits(p)).for_each(|p| push(*p, EnqFlags::NONE));
    }

    /// Says what came of a decision; returns whether it is to be made again.
    pub(crate) fn done(&mut self, decision: Decision, outcome: Outcome) -> bool {
        let pid = match decision {
            Decision::Move { pid, .. } => pid,
            Decision::Requeue { cpu } if outcome == Outcome::Absent => {
                // Kernels before 7.1 cannot: the turn ends with the next tick of the task.
                let pid = self.requeued[cpu as usize].take();
                self.slices.extend(pid.map(|pid| Decision::Slice { pid, slice: 1 }));
                return true;
            }
            Decision::None | Decision::Kick { .. } | Decision::Slice { .. } | Decision::Requeue { .. } => return false,
        };
        if outcome == Outcome::Done
            && let Some(task) = self.tasks.get_mut(&pid)
        {
            task.place = Place::Local;
        }
        outcome != Outcome::Done
    }
}

#[cfg(test)]
mod tests;

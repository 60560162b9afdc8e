//! Groups on the machine: made at the start or later, limited and limited anew, removed; their timers.
//!
//! A group's timer fires on the CPU that armed it. The machine decides nothing: what a timer does is asked of the core.

use crate::kernel::cpu::Job;
use crate::kernel::lock::Lock;
use crate::kernel::path::Done;
use crate::machine::{Event, Machine};
use crate::outcome::{End, SimError};
use crate::program::task::State;
use crate::queue::{Phase, Source};
use std::sync::Arc;
use zerolag_core::{GroupTimer, Idleness, Weight};
use zerolag_model::{CpuId, CpuMax, Duration, GroupId, Instant, TraceEvent};
use zerolag_workload::Stream;
use zerolag_workload::program::GroupWeight;

/// Which armings of the groups' timers are in force.
#[derive(Debug, Default)]
pub(crate) struct GroupTimers {
    /// Per group and timer: counts the armings.
    generations: Vec<[u32; 2]>,
}

impl GroupTimers {
    fn place(&mut self, group: GroupId, timer: GroupTimer) -> &mut u32 {
        if self.generations.len() <= group.index() {
            self.generations.resize(group.index() + 1, [0; 2]);
        }
        &mut self.generations[group.index()][timer as usize]
    }

    /// Lets no arming of a group's timers be in force: its id may be another's later.
    fn forget(&mut self, group: GroupId) {
        if let Some(generations) = self.generations.get_mut(group.index()) {
            *generations = generations.map(|generation| generation.wrapping_add(1));
        }
    }

    /// Returns whether this arming was the last.
    pub(crate) fn is_current(&mut self, group: GroupId, timer: GroupTimer, generation: u32) -> bool {
        *self.place(group, timer) == generation
    }
}

/// What is with a group of the program.
///
/// ```text
///   Absent --[1: made]--> There --[2: removed; its tasks are ended]--> Going --[3: the last has gone]--> Absent
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Life {
    /// It is not there, or not any more.
    Absent,
    /// It is there.
    There(GroupId),
    /// It goes when the last task in it has ended.
    Going(GroupId),
}

/// Returns a weight as the core has it; `None` outside of the kernel's ranges.
pub(crate) fn weight(weight: GroupWeight) -> Option<Weight> {
    match weight {
        GroupWeight::Weight(weight) => Weight::from_cpu_weight(u64::from(weight)),
        GroupWeight::Shares(shares) => Weight::from_shares(u64::from(shares)),
        GroupWeight::Nice(nice) => Some(Weight::from_nice(nice)),
    }
}

impl Machine {
    /// Makes the groups that are there from the start.
    pub(crate) fn announce_groups(&mut self) -> Result<(), SimError> {
        let program = Arc::clone(&self.program);
        for index in 0..program.groups.len() {
            if !program.comes_later(index) {
                self.create_group(CpuId(0), index)?;
            }
        }
        Ok(())
    }

    /// Says what a group weighs.
    pub(crate) fn emit_weight(&mut self, group: GroupId, weight: Option<Weight>) {
        if let Some(weight) = weight.filter(|_| self.tracer.is_on()) {
            self.emit(CpuId(0), TraceEvent::GroupWeight { group, weight: weight.value() });
        }
    }

    /// Makes a group of the program, whose parent is there, weighs and limits it.
    pub(crate) fn create_group(&mut self, cpu: CpuId, index: usize) -> Result<(), SimError> {
        let program = Arc::clone(&self.program);
        let def = &program.groups[index];
        let path = || Arc::clone(&def.path);
        if self.groups[index] != Life::Absent {
            return Err(SimError::GroupThere { path: path() });
        }
        let parent = self.group_of(def.parent).map_err(|parent| SimError::NoGroup { name: path(), path: parent })?;
        let own = weight(def.weight).ok_or_else(|| SimError::GroupWeight { path: path(), weight: def.weight })?;
        let id = self.scheduler.create_group(parent, own).map_err(|error| SimError::Group { path: path(), error })?;
        self.groups[index] = Life::There(id); // [1]
        if def.is_idle {
            self.scheduler.set_group_idle(id, Idleness::Idle).expect("invariant: it was just made");
        }
        if self.tracer.is_on() {
            self.emit(cpu, TraceEvent::GroupNew { group: id, parent, path: path() });
        }
        let weight = if def.is_idle { Weight::IDLE } else { own };
        self.emit_weight(id, Some(weight).filter(|weight| *weight != Weight::NICE_0));
        if self.scheduler.config().settings().bandwidth_interleave {
            let mut stream = Stream::new(self.seed, &def.path, 0, "periods");
            let phase = Duration::from_nanos(stream.next_u64() % CpuMax::DEFAULT_PERIOD.as_nanos());
            self.scheduler.set_group_phase(id, phase).expect("invariant: it was just made");
        }
        if def.max.quota.is_some() {
            let clock = self.cpus[cpu.index()].clock(self.now);
            self.scheduler
                .set_group_max(id, def.max, clock, cpu, &mut self.io)
                .map(|step| debug_assert!(step == zerolag_core::Step::Done, "nothing is throttled yet"))
                .map_err(|error| SimError::Group { path: path(), error })?;
            self.after_call(cpu);
        }
        Ok(())
    }

    /// Ends the tasks of a group and of all below it; the groups go when the last has.
    pub(crate) fn remove_group(&mut self, cpu: CpuId, group: usize, change: u32) {
        let program = Arc::clone(&self.program);
        for index in (0..program.groups.len()).filter(|index| program.is_within(*index, group)) {
            if let Life::There(id) = self.groups[index] {
                self.groups[index] = Life::Going(id); // [2]
            }
        }
        let is_in = |at: Option<usize>| at.is_some_and(|at| program.is_within(at, group));
        let members = self.tasks.iter().filter(|body| body.state != State::Dead && is_in(body.group));
        let jobs: Vec<Job> = members.map(|body| Job::ChangeTask { task: body.id, change }).collect();
        self.cpus[cpu.index()].jobs.extend(jobs);
        self.remove_emptied_groups(cpu);
    }

    /// Takes away the groups that are to go and are empty.
    ///
    /// Cost: O(1) while none is to go, else O(groups).
    pub(crate) fn remove_emptied_groups(&mut self, cpu: CpuId) {
        // Parents come before their groups.
        for index in (0..self.groups.len()).rev() {
            let Life::Going(group) = self.groups[index] else { continue };
            let stat = self.scheduler.group_stat(group);
            if self.scheduler.remove_group(group).is_err() {
                continue; // It has tasks, or groups that have.
            }
            self.groups[index] = Life::Absent; // [3]
            self.group_timers.forget(group);
            if let Some(stat) = stat.ok().filter(|_| self.program.is_limited(index)) {
                self.emit(cpu, TraceEvent::GroupTotals { group, stat });
            }
            self.emit(cpu, TraceEvent::GroupGone { group });
        }
    }

    /// Returns the core's id of a group of the program, `None` being the root; its path if it is not there.
    pub(crate) fn group_of(&self, group: Option<usize>) -> Result<GroupId, Arc<str>> {
        match group.map(|index| (index, self.groups[index])) {
            None => Ok(GroupId::ROOT),
            Some((_, Life::There(id))) => Ok(id),
            Some((index, Life::Absent | Life::Going(_))) => Err(Arc::clone(&self.program.groups[index].path)),
        }
    }

    /// Sets a timer of a group, on this CPU.
    pub(crate) fn arm_group_timer(&mut self, cpu: CpuId, group: GroupId, timer: GroupTimer, at: Instant) {
        let place = self.group_timers.place(group, timer);
        *place = place.wrapping_add(1);
        let generation = *place;
        let count = self.cpus[cpu.index()].next_count();
        let event = Event::GroupTimer { cpu, group, timer, generation };
        self.queue.push(at.max(self.now), Phase::RqTimer, Source::cpu(cpu), count, event);
    }

    pub(crate) fn group_timer(&mut self, cpu: CpuId, group: GroupId, timer: GroupTimer) -> Done {
        let clock = self.cpus[cpu.index()].clock(self.now);
        let step = self.scheduler.group_timer(group, timer, clock, cpu, &mut self.io);
        self.after_call(cpu);
        self.push_step(cpu, step);
        Done::Yes
    }

    /// A limit changes in the middle of the run.
    pub(crate) fn group_max(&mut self, cpu: CpuId, group: usize, max: CpuMax) -> Done {
        let Life::There(id) = self.groups[group] else { return Done::Yes };
        let clock = self.cpus[cpu.index()].clock(self.now);
        let step = self
            .scheduler
            .set_group_max(id, max, clock, cpu, &mut self.io)
            .expect("invariant: limits are checked when they are read");
        self.after_call(cpu);
        self.push_step(cpu, step);
        Done::Yes
    }

    /// The current task moves to another group.
    pub(crate) fn set_group(&mut self, cpu: CpuId, index: usize) -> Done {
        let task = self.cpus[cpu.index()].current.expect("invariant: a task changes itself");
        let group = match self.group_of(Some(index)) {
            Ok(group) => group,
            Err(path) => {
                let name = Arc::clone(&self.tasks[task.index()].name);
                self.stop = Some(End::Failed(SimError::NoGroup { name, path }));
                return Done::Yes;
            }
        };
        if self.lock(cpu, cpu) == Lock::Busy {
            return self.spin(cpu, Job::SetGroup(index));
        }
        let place = &mut self.cpus[cpu.index()];
        let clock = place.clock(self.now);
        let step = self
            .scheduler
            .set_group(&mut place.rq, clock, task, group, &mut self.io)
            .expect("invariant: the group exists and the task runs here");
        self.tasks[task.index()].group = Some(index);
        self.unlock(cpu, cpu, self.costs.rq_lock_hold);
        self.push_step(cpu, step);
        self.remove_emptied_groups(cpu);
        Done::Yes
    }

    /// Leaves what the limits have counted.
    pub(crate) fn emit_group_totals(&mut self) {
        for index in 0..self.groups.len() {
            let (Life::There(group) | Life::Going(group)) = self.groups[index] else { continue };
            if self.program.is_limited(index) {
                let stat = self.scheduler.group_stat(group).expect("invariant: the group is there");
                self.emit(CpuId(0), TraceEvent::GroupTotals { group, stat });
            }
        }
    }
}

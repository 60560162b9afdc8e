//! Groups on the machine: made at the start, limited and limited anew, their timers.
//!
//! A group's timer fires on the CPU that armed it. The machine decides nothing: what a timer does is asked of the core.

use crate::cpu::Job;
use crate::lock::Lock;
use crate::machine::{Event, InnerLock, Machine};
use crate::outcome::SimError;
use crate::path::Done;
use crate::queue::{Phase, Source};
use std::sync::Arc;
use zerolag_core::{GroupTimer, Idleness, Scheduler, Weight};
use zerolag_model::{CpuId, CpuMax, Duration, GroupId, Instant, TraceEvent};
use zerolag_workload::Stream;
use zerolag_workload::program::{GroupWeight, Program};

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

    /// Returns whether this arming was the last.
    pub(crate) fn is_current(&mut self, group: GroupId, timer: GroupTimer, generation: u32) -> bool {
        *self.place(group, timer) == generation
    }
}

/// Creates the program's groups in the core, parents first.
pub(crate) fn create_groups(scheduler: &Scheduler<InnerLock>, program: &Program) -> Result<Vec<GroupId>, SimError> {
    let mut ids: Vec<GroupId> = Vec::with_capacity(program.groups.len());
    for group in &program.groups {
        let parent = group.parent.map_or(GroupId::ROOT, |index| ids[index]);
        let weight = weight(group.weight)
            .ok_or_else(|| SimError::GroupWeight { path: Arc::clone(&group.path), weight: group.weight })?;
        let id = scheduler
            .create_group(parent, weight)
            .map_err(|error| SimError::Group { path: Arc::clone(&group.path), error })?;
        if group.is_idle {
            scheduler.set_group_idle(id, Idleness::Idle).expect("invariant: it was just made");
        }
        ids.push(id);
    }
    Ok(ids)
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
    /// Says which groups there are, limits them, and sets the times of later changes.
    pub(crate) fn announce_groups(&mut self) -> Result<(), SimError> {
        let program = Arc::clone(&self.program);
        for (index, group) in program.groups.iter().enumerate() {
            let id = self.groups[index];
            if self.tracer.is_on() {
                let parent = group.parent.map_or(GroupId::ROOT, |parent| self.groups[parent]);
                self.emit(CpuId(0), TraceEvent::GroupNew { group: id, parent, path: Arc::clone(&group.path) });
            }
            let weight = if group.is_idle { Some(Weight::IDLE) } else { weight(group.weight) };
            self.emit_weight(id, weight.filter(|weight| *weight != Weight::NICE_0));
            if self.scheduler.config().settings().bandwidth_interleave {
                let mut stream = Stream::new(self.seed, &group.path, 0, "periods");
                let phase = Duration::from_nanos(stream.next_u64() % CpuMax::DEFAULT_PERIOD.as_nanos());
                self.scheduler.set_group_phase(id, phase).expect("invariant: it was just made");
            }
            if group.max.quota.is_some() {
                let clock = self.cpus[0].clock(self.now);
                self.scheduler
                    .set_group_max(id, group.max, clock, CpuId(0), &mut self.io)
                    .map(|step| debug_assert!(step == zerolag_core::Step::Done, "nothing is throttled yet"))
                    .map_err(|error| SimError::Group { path: Arc::clone(&group.path), error })?;
                self.after_call(CpuId(0));
            }
        }
        self.plan(program.max_changes.iter().map(|change| change.at), |change| Event::GroupMax { change });
        Ok(())
    }

    /// Says what a group weighs.
    pub(crate) fn emit_weight(&mut self, group: GroupId, weight: Option<Weight>) {
        if let Some(weight) = weight.filter(|_| self.tracer.is_on()) {
            self.emit(CpuId(0), TraceEvent::GroupWeight { group, weight: weight.value() });
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
        self.push_step(cpu, step, Job::Pick, false);
        Done::Yes
    }

    /// A limit changes in the middle of the run.
    pub(crate) fn group_max(&mut self, cpu: CpuId, change: u32) -> Done {
        let change = self.program.max_changes[change as usize];
        let clock = self.cpus[cpu.index()].clock(self.now);
        let step = self
            .scheduler
            .set_group_max(self.groups[change.group], change.max, clock, cpu, &mut self.io)
            .expect("invariant: limits are checked when they are read");
        self.after_call(cpu);
        self.push_step(cpu, step, Job::Pick, false);
        Done::Yes
    }

    /// The current task moves to another group.
    pub(crate) fn set_group(&mut self, cpu: CpuId, group: GroupId) -> Done {
        if self.lock(cpu, cpu) == Lock::Busy {
            return self.spin(cpu, Job::SetGroup(group));
        }
        let place = &mut self.cpus[cpu.index()];
        let clock = place.clock(self.now);
        let task = place.current.expect("invariant: a task changes itself");
        let step = self
            .scheduler
            .set_group(&mut place.rq, clock, task, group, &mut self.io)
            .expect("invariant: the group exists and the task runs here");
        self.unlock(cpu, cpu, self.costs.rq_lock_hold);
        self.push_step(cpu, step, Job::Pick, false);
        Done::Yes
    }

    /// Leaves what the limits have counted.
    pub(crate) fn emit_group_totals(&mut self) {
        let program = Arc::clone(&self.program);
        for (index, group) in self.groups.clone().into_iter().enumerate() {
            let changes = program.max_changes.iter().any(|change| change.group == index);
            if program.groups[index].max.quota.is_some() || changes {
                let stat = self.scheduler.group_stat(group).expect("invariant: groups live as long as the machine");
                self.emit(CpuId(0), TraceEvent::GroupTotals { group, stat });
            }
        }
    }
}

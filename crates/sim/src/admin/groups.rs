//! [`Groups`]: the groups of the program on the machine: made at the start or later, weighed and
//! limited, removed.
//!
//! A group of the program is not one of the core: it may not exist yet, or again, and the core's id
//! is used anew. So each has a [`Life`], and is asked for the core's id each time. A removed group
//! stays until the last task in it has ended: its tasks are ended first.

use crate::kernel::state::Kernel;
use crate::kernel::words::{Done, Job};
use crate::outcome::SimError;
use std::sync::Arc;
use zerolag_core::{GroupError, Idleness, Step, Weight};
use zerolag_model::settings::RtGroupSched;
use zerolag_model::{CpuId, CpuMax, Duration, GroupId, Instant, RtBandwidth, TaskId, TraceEvent, UtilClamp};
use zerolag_workload::Stream;
use zerolag_workload::program::{GroupWeight, Program};

/// The life of a group of the program.
///
/// ```text
///   Absent --[1: made]--> There --[2: removed; its tasks are ended]--> Going --+
///     ^                                                                       |
///     +---------------------- [3: the last task has gone] --------------------+
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Life {
    /// It does not exist.
    Absent,
    /// It exists.
    There(GroupId),
    /// It is removed when the last task in it has ended.
    Going(GroupId),
}

/// Returns a weight as the core has it; `None` outside of the kernel's ranges.
fn weight_of(weight: GroupWeight) -> Option<Weight> {
    match weight {
        GroupWeight::Weight(weight) => Weight::from_cpu_weight(u64::from(weight)),
        GroupWeight::Shares(shares) => Weight::from_shares(u64::from(shares)),
        GroupWeight::Nice(nice) => Some(Weight::from_nice(nice)),
    }
}

/// The groups of the program, and the group of each task.
#[derive(Clone, Debug)]
pub(crate) struct Groups {
    program: Arc<Program>,
    seed: u64,
    lives: Vec<Life>,
    /// The group of each task, by id; `None` is the root.
    of_tasks: Vec<Option<usize>>,
}

impl Groups {
    pub(crate) fn new(program: Arc<Program>, seed: u64) -> Self {
        Self { lives: vec![Life::Absent; program.groups.len()], of_tasks: Vec::new(), program, seed }
    }

    /// Makes the groups that exist from the start.
    pub(crate) fn announce(&mut self, kernel: &mut Kernel) -> Result<(), SimError> {
        if let Some(bandwidth) = self.program.root.rt
            && let Err(error) = set_rt(kernel, CpuId(0), GroupId::ROOT, &"/".into(), bandwidth)
        {
            kernel.refuse_at_start(error)?;
        }
        for index in 0..self.lives.len() {
            if self.program.comes_later(index) {
                continue;
            }
            // Its limit can be refused: then it exists without one.
            if let Err(error) = self.create(kernel, CpuId(0), index) {
                kernel.refuse_at_start(error)?;
            }
        }
        Ok(())
    }

    /// Makes a group, whose parent exists, and sets its weight and limit.
    pub(crate) fn create(&mut self, kernel: &mut Kernel, cpu: CpuId, index: usize) -> Result<(), SimError> {
        let program = Arc::clone(&self.program);
        let def = &program.groups[index];
        let path = || Arc::clone(&def.path);
        if self.lives[index] != Life::Absent {
            return Err(SimError::GroupThere { path: path() });
        }
        let parent = self.id_of(def.parent).map_err(|parent| SimError::NoGroup { name: path(), path: parent })?;
        let own = weight_of(def.weight).ok_or_else(|| SimError::GroupWeight { path: path(), weight: def.weight })?;
        let id = match kernel.scheduler().create_group(parent, own) {
            Ok(id) => id,
            Err(error) => return Err(kernel.group_error(path(), error)),
        };
        self.lives[index] = Life::There(id); // [1]
        kernel.name_group(id, path());
        if def.is_idle {
            kernel.scheduler().set_group_idle(id, Idleness::Idle).expect("invariant: it was just made");
        }
        if def.clamp != UtilClamp::NONE {
            kernel.scheduler().set_group_clamp(id, def.clamp).expect("invariant: it was just made");
        }
        if kernel.is_traced() {
            kernel.emit(cpu, TraceEvent::GroupNew { group: id, parent, path: path() });
        }
        let weight = if def.is_idle { Weight::IDLE } else { own };
        if weight != Weight::NICE_0 {
            emit_weight(kernel, id, weight);
        }
        if kernel.scheduler().config().settings().bandwidth_interleave {
            let mut stream = Stream::new(self.seed, &def.path, 0, "periods");
            let phase = Duration::from_nanos(stream.next_u64() % CpuMax::DEFAULT_PERIOD.as_nanos());
            kernel.scheduler().set_group_phase(id, phase).expect("invariant: it was just made");
        }
        if def.max.quota.is_some() {
            kernel
                .call(cpu, |scheduler, clock, io| scheduler.set_group_max(id, def.max, clock, cpu, io))
                .map(|step| debug_assert!(step == Step::Done, "nothing is throttled yet"))
                .map_err(|error| kernel.group_error(path(), error))?;
        }
        if let Some(bandwidth) = def.rt {
            set_rt(kernel, cpu, id, &def.path, bandwidth)?;
        }
        Ok(())
    }

    /// Changes the time of a group's real-time tasks.
    pub(crate) fn change_rt(&self, kernel: &mut Kernel, cpu: CpuId, group: Option<usize>, bandwidth: RtBandwidth) {
        let Ok(id) = self.id_of(group) else { return };
        let path = group.map_or_else(|| "/".into(), |group| Arc::clone(&self.program.groups[group].path));
        if let Err(error) = set_rt(kernel, cpu, id, &path, bandwidth) {
            kernel.refuse(error);
        }
    }

    /// A group does not take a task.
    pub(crate) fn refuse_group(&self, kernel: &mut Kernel, task: TaskId, group: Option<usize>, error: GroupError) {
        let path = group.map_or_else(|| "/".into(), |index| Arc::clone(&self.program.groups[index].path));
        let name = Arc::clone(kernel.name(task));
        kernel.refuse(SimError::GroupRefuses { name, path, error });
    }

    /// Lets a group and all below it go. Returns the tasks in them, which are to be ended.
    pub(crate) fn let_go(&mut self, group: usize) -> Vec<TaskId> {
        for index in (0..self.lives.len()).filter(|index| self.program.is_within(*index, group)) {
            if let Life::There(id) = self.lives[index] {
                self.lives[index] = Life::Going(id); // [2]
            }
        }
        let is_in = |at: &Option<usize>| at.is_some_and(|at| self.program.is_within(at, group));
        let members = self.of_tasks.iter().enumerate().filter(|(_, at)| is_in(at));
        members.map(|(task, _)| TaskId::from_index(task)).collect()
    }

    /// Removes the groups that are to go and are empty.
    ///
    /// Cost: O(groups).
    pub(crate) fn remove_emptied(&mut self, kernel: &mut Kernel, cpu: CpuId) {
        let mut is_any_gone = false;
        // Parents come before their groups.
        for index in (0..self.lives.len()).rev() {
            let Life::Going(group) = self.lives[index] else { continue };
            let stat = kernel.scheduler().group_stat(group);
            if kernel.scheduler().remove_group(group).is_err() {
                continue; // It has tasks, or groups that have.
            }
            self.lives[index] = Life::Absent; // [3]
            is_any_gone |= self.program.groups[index].rt.is_some();
            kernel.forget_group_timers(group);
            // What the last task did to the group comes before its end.
            kernel.take_records();
            if let Some(stat) = stat.ok().filter(|_| self.program.is_limited(index)) {
                kernel.emit(cpu, TraceEvent::GroupTotals { group, stat });
            }
            kernel.emit(cpu, TraceEvent::GroupGone { group });
        }
        if is_any_gone {
            budgets_changed(kernel, cpu);
        }
    }

    /// Returns the core's id of a group of the program, `None` being the root; its path if it does
    /// not exist.
    pub(crate) fn id_of(&self, group: Option<usize>) -> Result<GroupId, Arc<str>> {
        match group.map(|index| (index, self.lives[index])) {
            None => Ok(GroupId::ROOT),
            Some((_, Life::There(id))) => Ok(id),
            Some((index, Life::Absent | Life::Going(_))) => Err(Arc::clone(&self.program.groups[index].path)),
        }
    }

    /// A task is created in a group.
    pub(crate) fn join(&mut self, group: Option<usize>) {
        self.of_tasks.push(group);
    }

    /// A task has been moved to a group.
    pub(crate) fn moved(&mut self, task: TaskId, group: Option<usize>) {
        self.of_tasks[task.index()] = group;
    }

    /// Changes the limit of a group.
    pub(crate) fn change_max(&self, kernel: &mut Kernel, cpu: CpuId, group: usize, max: CpuMax) {
        let Life::There(id) = self.lives[group] else { return };
        let step = kernel
            .call(cpu, |scheduler, clock, io| scheduler.set_group_max(id, max, clock, cpu, io))
            .expect("invariant: limits are checked when they are read");
        kernel.push_step(cpu, step);
    }

    /// Changes the weight of a group. The CPU that does it reaches for each run queue in turn.
    pub(crate) fn change_weight(&self, kernel: &mut Kernel, cpu: CpuId, group: usize, weight: GroupWeight) {
        let Ok(id) = self.id_of(Some(group)) else { return };
        let weight = weight_of(weight).expect("invariant: weights are checked when they are read");
        let set = kernel.scheduler().set_group_weight(id, weight);
        set.expect("invariant: weights of idle groups are refused when read");
        weigh_everywhere(kernel, cpu, id, weight);
    }

    pub(crate) fn change_idleness(&self, kernel: &mut Kernel, cpu: CpuId, group: usize, is_idle: bool) {
        let Ok(id) = self.id_of(Some(group)) else { return };
        let (idleness, weight) =
            if is_idle { (Idleness::Idle, Weight::IDLE) } else { (Idleness::Normal, Weight::NICE_0) };
        kernel.scheduler().set_group_idle(id, idleness).expect("invariant: the group exists");
        weigh_everywhere(kernel, cpu, id, weight);
    }

    /// Moves the current task of a CPU to another group.
    pub(crate) fn move_current(&mut self, kernel: &mut Kernel, cpu: CpuId, index: usize) -> Done {
        let task = kernel.current(cpu).expect("invariant: a task changes itself");
        let group = match self.id_of(Some(index)) {
            Ok(group) => group,
            Err(path) => {
                end_without_group(kernel, task, path);
                return Ok(());
            }
        };
        let step = kernel.locked(cpu, cpu, Job::SetGroup(index), |scheduler, rq, clock, io| {
            scheduler.set_group(rq, clock, task, group, io)
        })?;
        let step = match step {
            Ok(step) => step,
            Err(error) => {
                self.refuse_group(kernel, task, Some(index), error);
                return Ok(());
            }
        };
        self.moved(task, Some(index));
        kernel.push_step(cpu, step);
        self.remove_emptied(kernel, cpu);
        Ok(())
    }

    /// Records the statistics of all limits.
    pub(crate) fn emit_totals(&self, kernel: &mut Kernel) {
        for (index, life) in self.lives.iter().enumerate() {
            let (Life::There(group) | Life::Going(group)) = *life else { continue };
            if self.program.is_limited(index) {
                let stat = kernel.scheduler().group_stat(group).expect("invariant: the group exists");
                kernel.emit(CpuId(0), TraceEvent::GroupTotals { group, stat });
            }
        }
    }
}

/// Sets the time of a group's real-time tasks.
fn set_rt(
    kernel: &mut Kernel,
    cpu: CpuId,
    group: GroupId,
    path: &Arc<str>,
    bandwidth: RtBandwidth,
) -> Result<(), SimError> {
    kernel
        .call(cpu, |scheduler, clock, io| scheduler.set_group_rt(group, bandwidth, clock, cpu, io))
        .map_err(|error| kernel.group_error(Arc::clone(path), error))?;
    budgets_changed(kernel, cpu);
    Ok(())
}

/// Ends the run: a task is to be in a group that does not exist.
pub(crate) fn end_without_group(kernel: &mut Kernel, task: TaskId, path: Arc<str>) {
    let name = Arc::clone(kernel.name(task));
    kernel.refuse(SimError::NoGroup { name, path });
}

/// A group has a new weight: each CPU is to follow.
fn weigh_everywhere(kernel: &mut Kernel, by: CpuId, group: GroupId, weight: Weight) {
    emit_weight(kernel, group, weight);
    let cpus = (0..kernel.nr_cpus()).map(CpuId::from_index);
    kernel.push_jobs(by, cpus.map(|on| Job::Weigh { group, on }));
}

/// The budgets of groups with servers may have changed: each CPU is to follow, once time has begun.
fn budgets_changed(kernel: &mut Kernel, by: CpuId) {
    if kernel.scheduler().config().settings().rt_group_sched == RtGroupSched::Hcbs && kernel.now() > Instant::ZERO {
        let cpus = (0..kernel.nr_cpus()).map(CpuId::from_index);
        kernel.push_jobs(by, cpus.map(|on| Job::FollowBudgets { on }));
    }
}

/// Lets the servers of groups on a CPU follow changed budgets.
pub(crate) fn follow_budgets(kernel: &mut Kernel, by: CpuId, on: CpuId) -> Done {
    kernel.locked(by, on, Job::FollowBudgets { on }, |scheduler, rq, clock, io| {
        scheduler.follow_rt_groups(rq, clock, io);
    })
}

/// Lets a CPU follow the new weight of a group. The group can be gone by then.
pub(crate) fn follow_weight(kernel: &mut Kernel, by: CpuId, group: GroupId, on: CpuId) -> Done {
    let _gone = kernel.locked(by, on, Job::Weigh { group, on }, |scheduler, rq, clock, io| {
        scheduler.follow_group_weight(rq, clock, group, io)
    })?;
    Ok(())
}

/// Records the weight of a group.
fn emit_weight(kernel: &mut Kernel, group: GroupId, weight: Weight) {
    if kernel.is_traced() {
        kernel.emit(CpuId(0), TraceEvent::GroupWeight { group, weight: weight.value() });
    }
}

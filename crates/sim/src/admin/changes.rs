//! [`Admin`]: changes at given times.
//!
//! An administrator sets limits and weights, makes and removes groups, sets attributes, moves
//! tasks, starts and ends them, resizes pools, loads schedulers of `sched_ext`, and changes
//! partitions, deadline servers and the bandwidth of real-time tasks. A change comes as a system
//! call on CPU 0 that takes no time itself; what it does to a task takes the run-queue lock that it
//! needs. Partitions, servers and the bandwidth of real-time tasks belong to CPUs: each CPU
//! concerned is interrupted and makes its own part.

use crate::admin::groups::Groups;
use crate::admin::policies::Policies;
use crate::admin::{cpuset, hotplug, servers};
use crate::kernel::state::Kernel;
use crate::kernel::words::{Event, Job, Spins};
use crate::program::state::Programs;
use crate::program::task::TaskActivity;
use crate::queue::Phase;
use std::rc::Rc;
use std::sync::Arc;
use zerolag_core::CpusetId;
use zerolag_model::{CpuId, Instant, RtBandwidth, TaskId};
use zerolag_workload::change::{Change, TimedChange};
use zerolag_workload::program::Program;

/// The administration of a machine.
#[derive(Clone, Debug)]
pub(crate) struct Admin {
    pub(crate) groups: Groups,
    /// The schedulers of `sched_ext`, if a change loads or unloads one.
    policies: Option<Policies>,
    /// What is changed at given times, in order.
    changes: Rc<[TimedChange]>,
    /// The number of changes still to be made that move threads.
    to_come: usize,
}

/// What follows from a change that is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Follows {
    Nothing,
    /// All other CPUs build their domains anew.
    Rebuild,
}

impl Admin {
    pub(crate) fn new(
        program: Arc<Program>,
        changes: Rc<[TimedChange]>,
        policies: Option<Policies>,
        seed: u64,
    ) -> Self {
        let to_come = changes.iter().filter(|change| change.what.moves_threads()).count();
        Self { groups: Groups::new(program, seed), policies, changes, to_come }
    }

    /// Returns whether a change is still to be made that moves threads.
    #[inline(always)]
    pub(crate) const fn has_changes(&self) -> bool {
        self.to_come > 0
    }

    /// Makes other changes from now on, at the same times and of the same kinds: those to come are
    /// planned, and those that have been made are no more looked at.
    pub(crate) fn follow(&mut self, changes: Rc<[TimedChange]>) {
        let order = |changes: &[TimedChange]| -> Vec<_> {
            changes.iter().map(|change| (change.at, core::mem::discriminant(&change.what))).collect()
        };
        assert!(order(&changes) == order(&self.changes), "changes differ in their values only");
        self.changes = changes;
    }

    /// Arms the times of all changes.
    pub(crate) fn plan(&self, kernel: &mut Kernel) {
        for (index, change) in self.changes.iter().enumerate() {
            let index = u32::try_from(index).expect("invariant: a file has fewer than 2^32 changes");
            let at = Instant::ZERO.saturating_add(change.at);
            kernel.queue_event(at, Phase::Device, CpuId(0), Event::Change { index });
        }
    }

    /// The time of a change has come. Returns the CPUs that make it, to be interrupted in this
    /// order.
    pub(crate) fn due(&mut self, kernel: &mut Kernel, program: &Program, index: u32) -> Vec<CpuId> {
        let what = &self.changes[index as usize].what;
        self.to_come -= usize::from(what.moves_threads());
        let all = || (0..kernel.nr_cpus()).map(CpuId::from_index);
        let bandwidth = match what {
            // If it cannot be one, the file says "root invalid", and nothing else happens.
            Change::Partition { cpuset, .. } if !cpuset::can_be_partition(kernel, *cpuset) => return Vec::new(),
            Change::Partition { cpuset, .. } => return program.cpusets[*cpuset].cpus.iter().collect(),
            Change::Server { cpus, .. } => {
                return all().filter(|cpu| cpus.as_ref().is_none_or(|cpus| cpus.contains(*cpu))).collect();
            }
            Change::RtRuntime { runtime } => RtBandwidth { runtime: *runtime, ..kernel.scheduler().rt_bandwidth() },
            Change::RtPeriod { period } => RtBandwidth { period: *period, ..kernel.scheduler().rt_bandwidth() },
            Change::Cpu { cpu, .. } => return vec![*cpu],
            Change::Create { .. }
            | Change::Remove { .. }
            | Change::Max { .. }
            | Change::Weight { .. }
            | Change::Idle { .. }
            | Change::RtGroup { .. }
            | Change::Attr { .. }
            | Change::Affinity { .. }
            | Change::Group { .. }
            | Change::Start { .. }
            | Change::End { .. }
            | Change::Resize { .. }
            | Change::Load { .. }
            | Change::Unload => return vec![CpuId(0)],
        };
        let cpus = all().collect();
        if servers::set_rt_bandwidth(kernel, bandwidth) { cpus } else { Vec::new() }
    }

    /// Makes a change or a CPU's part of it, or notes a job per task that it concerns.
    pub(crate) fn make(
        &mut self,
        kernel: &mut Kernel,
        programs: &mut Programs,
        cpu: CpuId,
        index: u32,
    ) -> Result<Follows, Spins> {
        let changes = Rc::clone(&self.changes);
        match &changes[index as usize].what {
            Change::Create { group } => {
                if let Err(error) = self.groups.create(kernel, cpu, *group) {
                    kernel.refuse(error);
                }
            }
            Change::Remove { group } => {
                let members = self.groups.let_go(*group);
                let alive = members.into_iter().filter(|task| programs.task(*task).state != TaskActivity::Dead);
                kernel.push_jobs(cpu, alive.map(|task| Job::ChangeTask { task, change: index }));
                self.groups.remove_emptied(kernel, cpu);
            }
            Change::Max { group, max } => self.groups.change_max(kernel, cpu, *group, *max),
            Change::Weight { group, weight } => self.groups.change_weight(kernel, cpu, *group, *weight),
            Change::RtGroup { group, bandwidth } => self.groups.change_rt(kernel, cpu, *group, *bandwidth),
            Change::Idle { group, is_idle } => self.groups.change_idleness(kernel, cpu, *group, *is_idle),
            Change::Cpu { is_online, .. } => {
                hotplug::hotplug(kernel, cpu, *is_online, index)?;
                if !is_online {
                    programs.take_over_softirqs(kernel, cpu);
                }
                return Ok(Follows::Rebuild);
            }
            Change::Start { task, count } => self.groups.start_more(kernel, programs, cpu, *task, *count),
            Change::Resize { task, threads } => {
                self.groups.resize(kernel, programs, cpu, *task, *threads, index);
            }
            Change::Partition { cpuset, is_root } => {
                let domain = if *is_root { cpuset::id_of(*cpuset) } else { CpusetId::default() };
                cpuset::join_domain(kernel, cpu, domain, index)?;
            }
            Change::Server { runtime, period, activation, .. } => {
                let wanted = servers::Wanted { runtime: *runtime, period: *period, activation: *activation };
                servers::set_server(kernel, cpu, wanted, index)?;
            }
            Change::RtRuntime { .. } | Change::RtPeriod { .. } => servers::follow_rt_limit(kernel, cpu, index)?,
            Change::Load { policy, tasks } => {
                let policies = self.policies.as_ref().expect("invariant: the program has changes of policies");
                policies.load(kernel, cpu, *policy, *tasks);
            }
            Change::Unload => kernel.unload_policy(cpu),
            Change::Attr { task: def, .. }
            | Change::Affinity { task: def, .. }
            | Change::Group { task: def, .. }
            | Change::End { task: def } => {
                let of_def = programs.tasks.iter().enumerate();
                let threads = of_def.filter(|(_, task)| task.def() == *def && task.state != TaskActivity::Dead);
                let jobs = threads.map(|(task, _)| Job::ChangeTask { task: TaskId::from_index(task), change: index });
                kernel.push_jobs(cpu, jobs);
            }
        }
        Ok(Follows::Nothing)
    }

    /// Makes a change of one task.
    pub(crate) fn change_task(
        &mut self,
        kernel: &mut Kernel,
        programs: &mut Programs,
        cpu: CpuId,
        task: TaskId,
        change: u32,
    ) -> Result<(), Spins> {
        let changes = Rc::clone(&self.changes);
        let job = Job::ChangeTask { task, change };
        self.groups.change_task(kernel, programs, cpu, task, &changes[change as usize].what, job)
    }
}

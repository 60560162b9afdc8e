//! Real-time tasks of groups with deadline servers (`rt_group_sched = hcbs`): which servers there
//! are, and the bounds of the tasks in them.
//!
//! A group's server is a reservation of its CPU: its runtime in every period, while something
//! waits. The tasks of the group on that CPU have this supply to themselves, and run on it by
//! priority, so a response is bounded by the least supply and the work of the group's more urgent
//! tasks alone. The tasks of other groups do not matter, as long as all reservations of the CPU
//! fit.
//!
//! The tasks of a group that may all use the same CPUs move between its servers, and the bound is
//! that of fixed priorities on their supply together ([`zerolag_analysis::parallel`]). HCBS v6 does
//! not always use that supply: a task that wakes in a queue whose server has no runtime stays
//! there, and a replenished server runs its own tasks before more urgent ones that wait elsewhere
//! (`specs/hcbs/not-work-conserving.md`). So these bounds have an assumption that HCBS breaks: they
//! say what a scheduler without such waits could promise.
//!
//! Other tasks have none: a task that moves takes its work to another server.
//!
//! A server is stopped at a tick (`enforce.dl` below exact). Its overrun is repaid: a period can
//! have a tick less of runtime, and others can wait a tick longer.

use super::model::{FAIR, Modelled, rank};
use super::{Bound, Method};
use zerolag_analysis::parallel::{self, AtOnce};
use zerolag_analysis::supply::{Reservation, fixed_response};
use zerolag_analysis::{Sporadic, edf};
use zerolag_model::settings::{RtGroupSched, TimerGrain};
use zerolag_model::{CpuId, Duration, RtBandwidth, SchedAttr, Settings};
use zerolag_workload::Program;

/// The groups of a program that have servers.
pub(super) struct GroupServers<'a> {
    program: &'a Program,
    is_on: bool,
}

impl<'a> GroupServers<'a> {
    pub(super) fn of(program: &'a Program, settings: &Settings) -> Self {
        Self { program, is_on: settings.rt_group_sched == RtGroupSched::Hcbs }
    }

    fn budget(&self, group: usize) -> Option<RtBandwidth> {
        self.program.groups[group].rt.filter(|budget| budget.runtime.is_some())
    }

    /// Returns the nearest group with a budget, from a group upwards.
    fn context(&self, group: Option<usize>) -> Option<usize> {
        let mut at = group;
        while let Some(group) = at {
            if self.budget(group).is_some() {
                return Some(group);
            }
            at = self.program.groups[group].parent;
        }
        None
    }

    /// Returns the group whose servers run a task.
    pub(super) fn of_task(&self, task: &Modelled) -> Option<usize> {
        if !self.is_on || !is_rt(task) { None } else { self.context(task.group) }
    }

    /// Returns the runtime and the period of the servers of a group.
    fn params(&self, group: usize) -> Option<(Duration, Duration)> {
        let budget = self.budget(group)?;
        let ratio = |budget: RtBandwidth| {
            let runtime = u128::from(budget.runtime.unwrap_or_default().as_nanos());
            u64::try_from((runtime << 20) / u128::from(budget.period.as_nanos().max(1))).unwrap_or(u64::MAX)
        };
        let below = (0..self.program.groups.len())
            .filter(|at| self.budget(*at).is_some() && self.context(self.program.groups[*at].parent) == Some(group));
        let sum: u64 = below.filter_map(|at| self.budget(at)).map(ratio).sum();
        let runtime = match sum {
            0 => budget.runtime?,
            _ => budget.period.mul_div_floor(ratio(budget).saturating_sub(sum), 1 << 20),
        };
        Some((runtime, budget.period)).filter(|(runtime, _)| !runtime.is_zero())
    }

    /// Returns the servers of a CPU that some task needs, as others see them: a budget can follow
    /// another one.
    pub(super) fn on(&self, cpu: CpuId, tasks: &[Modelled], settings: &Settings) -> Vec<Sporadic> {
        let needs =
            |group: usize| tasks.iter().any(|task| task.mask.contains(cpu) && self.of_task(task) == Some(group));
        let groups = (0..self.program.groups.len()).filter(|group| self.is_on && needs(*group));
        let server = |group: usize| {
            let (runtime, period) = self.params(group)?;
            let cost = runtime.saturating_add(overrun(settings)).min(period);
            let server = Sporadic::new(cost, period).ok()?;
            Some(server.with_jitter(period.saturating_sub(cost)))
        };
        groups.filter_map(server).collect()
    }

    /// Returns the bound of a task that a server runs; `all` are the other reservations of each of
    /// its CPUs and its own, none if they are of several CPUs.
    pub(super) fn bound(
        &self,
        of: usize,
        tasks: &[Modelled],
        settings: &Settings,
        all: Option<&[Vec<Sporadic>]>,
    ) -> Result<Bound, String> {
        let task = &tasks[of];
        let group = self.of_task(task).ok_or_else(|| "no server runs it".to_owned())?;
        let (runtime, period) =
            self.params(group).ok_or_else(|| "the servers of its group have no runtime: it never runs".to_owned())?;
        let members = || tasks.iter().enumerate().filter(|(_, other)| self.of_task(other) == Some(group));
        if task.mask.count() > 1 {
            return self.bound_of_movers(of, tasks, settings, all);
        }
        if members().any(|(_, other)| other.mask.count() != 1 && other.mask.intersects(&task.mask)) {
            return Err("tasks of its group may use several CPUs: its servers' supply is divided among them".to_owned());
        }
        let is_alone = check_fit(all)?.iter().all(|cpu| cpu.len() == 1);
        let own = task.task.as_ref().map_err(super::model::NoModel::reason)?;
        let more_urgent = |other: &Modelled| other.mask == task.mask && rank(other.attr) <= rank(task.attr);
        let mut above = Vec::new();
        for (at, other) in members().filter(|(_, other)| more_urgent(other)) {
            match &other.task {
                Ok(sporadic) => {
                    let threads = other.instances.saturating_sub(u32::from(at == of));
                    above.extend(core::iter::repeat_n(*sporadic, threads as usize));
                }
                Err(super::model::NoModel::Idle) => {}
                Err(_) => return Err(format!("{} of its group is as urgent, and has no model", other.name)),
            }
        }
        let least = runtime.saturating_sub(overrun(settings));
        // A server without a competitor runs as soon as it can.
        let response = match is_alone {
            true => AtOnce::new(least, period).and_then(|supply| fixed_response(own, &above, &supply)),
            false => Reservation::new(least, period, period).and_then(|supply| fixed_response(own, &above, &supply)),
        };
        let bound = response.map(|response| Bound { response, method: Method::GroupServer });
        bound.ok_or_else(|| "it and more urgent tasks of its group need more than its server has".to_owned())
    }

    /// Returns the bound of a task that moves between the servers of its group.
    fn bound_of_movers(
        &self,
        of: usize,
        tasks: &[Modelled],
        settings: &Settings,
        all: Option<&[Vec<Sporadic>]>,
    ) -> Result<Bound, String> {
        let task = &tasks[of];
        let group = self.of_task(task);
        let (runtime, period) =
            group.and_then(|group| self.params(group)).ok_or_else(|| "no server runs it".to_owned())?;
        let members = || tasks.iter().enumerate().filter(|(_, other)| self.of_task(other) == group);
        if members().any(|(_, other)| other.mask != task.mask) {
            return Err("tasks of its group may use other CPUs: its servers' supply is divided among them".to_owned());
        }
        let all = check_fit(all)?;
        let (mut threads, mut ranks, mut at) = (Vec::new(), Vec::new(), None);
        for (member, other) in members() {
            match &other.task {
                Ok(sporadic) => {
                    at = at.or((member == of).then_some(threads.len()));
                    threads.extend(core::iter::repeat_n(*sporadic, other.instances as usize));
                    ranks.resize(threads.len(), rank(other.attr));
                }
                Err(super::model::NoModel::Idle) => {}
                Err(_) if rank(other.attr) > rank(task.attr) => {}
                Err(_) => return Err(format!("{} of its group is as urgent, and has no model", other.name)),
            }
        }
        let at = at.filter(|at| *at < threads.len()).ok_or_else(|| "it has no threads".to_owned())?;
        let (least, servers) = (runtime.saturating_sub(overrun(settings)), all.len() as u64);
        // A server without a competitor runs as soon as it can.
        let bounds = match all.iter().all(|cpu| cpu.len() == 1) {
            true => AtOnce::new(least, period).map(|supply| parallel::fixed(&threads, &ranks, servers, &supply)),
            false => Reservation::new(least, period, period)
                .map(|supply| parallel::fixed(&threads, &ranks, servers, &supply)),
        };
        let bound =
            bounds.and_then(|bounds| bounds[at]).map(|response| Bound { response, method: Method::GroupServers });
        bound.ok_or_else(|| {
            "the analysis does not see it and more urgent tasks of its group keep their periods".to_owned()
        })
    }
}

/// Checks that the reservations of each CPU fit.
fn check_fit(all: Option<&[Vec<Sporadic>]>) -> Result<&[Vec<Sporadic>], String> {
    let all = all.ok_or_else(|| "deadline tasks of its CPU may use several".to_owned())?;
    match all.iter().any(|cpu| edf::check(cpu).is_err()) {
        true => Err("the reservations of its CPU are not seen to fit".to_owned()),
        false => Ok(all),
    }
}

/// Returns how much longer than its runtime a server can run.
fn overrun(settings: &Settings) -> Duration {
    match settings.enforce_dl {
        TimerGrain::Exact => Duration::ZERO,
        TimerGrain::Tick | TimerGrain::Hrtick => Duration::from_nanos(1_000_000_000 / u64::from(settings.hz.max(1))),
    }
}

fn is_rt(task: &Modelled) -> bool {
    matches!(task.attr, SchedAttr::Rt { .. }) && rank(task.attr) < FAIR
}

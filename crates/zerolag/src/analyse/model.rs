//! A program as analysis sees it: sporadic tasks, and the reasons why a task is none.
//!
//! A job is what a task computes between two of its own timer expiries or sleeps. Its cost is the
//! largest that its distributions can give, its period the shortest. A task that waits for another
//! task or for a device has no releases of its own, and one that both sleeps and waits for a timer
//! suspends itself in the middle of a job: neither is sporadic.

use super::{Assumption, Broken, Scope};
use std::sync::Arc;
use zerolag_analysis::Sporadic;
use zerolag_model::{CpuMask, Duration, SchedAttr, Settings};
use zerolag_workload::Program;
use zerolag_workload::nature::Passing;
use zerolag_workload::program::{Action, AffinityChange, KernelAction, Phase, ResourceId, TaskDef, TimerRef};
use zerolag_workload::random::MAX_TIME;

/// A task definition of the program.
#[derive(Clone, Debug)]
pub(super) struct Modelled {
    pub(super) name: Arc<str>,
    pub(super) instances: u32,
    pub(super) attr: SchedAttr,
    /// The CPUs that it can use.
    pub(super) mask: CpuMask,
    pub(super) group: Option<usize>,
    pub(super) task: Result<Sporadic, NoModel>,
}

/// Why a task is not sporadic.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum NoModel {
    /// It computes without a pause.
    Endless,
    /// It computes nothing.
    Idle,
    /// Its releases depend on something else.
    Depends(String),
}

impl NoModel {
    pub(super) fn reason(&self) -> String {
        match self {
            Self::Endless => "it computes without a pause and has no jobs".to_owned(),
            Self::Idle => "it computes nothing".to_owned(),
            Self::Depends(why) => why.clone(),
        }
    }
}

/// Returns the urgency of a task: lower is more urgent, equals delay each other.
pub(super) const fn rank(attr: SchedAttr) -> u32 {
    match attr {
        SchedAttr::Deadline(_) => 0,
        SchedAttr::Rt { priority, .. } => 100 - priority.value() as u32,
        SchedAttr::Fair { .. } => FAIR,
        SchedAttr::Ext { .. } => EXT,
    }
}

/// The urgency of fair tasks.
pub(super) const FAIR: u32 = 100;

/// The urgency of tasks of a loaded scheduler.
pub(super) const EXT: u32 = FAIR + 1;

/// Returns the tasks of a program, and what they do that analysis does not know.
pub(super) fn of(program: &Program, settings: &Settings, nr_cpus: usize, broken: &mut Vec<Broken>) -> Vec<Modelled> {
    let all = CpuMask::first_n(nr_cpus);
    let forked = |def: usize| {
        let actions = program.tasks.iter().flat_map(|task| &task.phases).flat_map(|phase| &phase.actions);
        actions.into_iter().any(|action| matches!(action, Action::Fork(to) if *to == def))
    };
    let mut found = Vec::new();
    for (def, task) in program.tasks.iter().enumerate().filter(|(def, task)| task.instances > 0 || forked(*def)) {
        let cpuset = task.cpuset.map_or_else(|| all.clone(), |set| program.cpusets[set].cpus.and(&all));
        let mask = task.affinity.as_ref().map_or_else(|| cpuset.clone(), |own| own.and(&cpuset));
        let mut say = |assumption, scope, reason: String| {
            broken.push(Broken {
                assumption,
                task: Some(task.name.to_string()),
                reason,
                scope,
                mask: Some(mask.clone()),
            });
        };
        let attr = settings.governed(task.attr);
        let rank = rank(attr);
        if forked(def) {
            say(Assumption::Sporadic, Scope::From(rank), "it is started again by a fork".to_owned());
        }
        oddities(program, task, &mut say);
        let modelled = sporadic(program, task);
        if let Err(NoModel::Depends(why)) = &modelled {
            say(Assumption::Sporadic, Scope::From(rank), why.clone());
        }
        let name = Arc::clone(&task.name);
        // For a loaded scheduler groups are names.
        let group = task.group.filter(|_| rank != EXT);
        found.push(Modelled { name, instances: task.instances, attr, mask, group, task: modelled });
    }
    if let Some(first) = program.changes.first() {
        let reason = format!("the workload changes at {}", first.at);
        broken.push(Broken { assumption: Assumption::Constant, task: None, reason, scope: Scope::All, mask: None });
    }
    found
}

/// Notes what a task does that does not end its jobs, and that analysis does not know.
fn oddities(program: &Program, task: &TaskDef, say: &mut impl FnMut(Assumption, Scope, String)) {
    let name = |at: ResourceId| program.resources[at.index()].name.to_string();
    let actions = || task.phases.iter().flat_map(|phase| &phase.actions);
    let locks = actions().filter_map(|action| action.nature().lock);
    let mut locks: Vec<String> = locks.map(|(_, lock)| name(lock)).collect();
    locks.sort_unstable();
    locks.dedup();
    if !locks.is_empty() {
        let reason = format!("it takes {}: less urgent holders can delay it", locks.join(", "));
        say(Assumption::Independent, Scope::All, reason);
    }
    if actions().any(|action| {
        use KernelAction::{IrqsOff, SpinLock, SyscallEnter};
        matches!(action, Action::Kernel(_) | Action::InKernel(SpinLock(_) | SyscallEnter | IrqsOff(_)))
    }) {
        let reason = "it computes in kernel mode, where it may not be preempted at once".to_owned();
        say(Assumption::Preemptible, Scope::All, reason);
    }
    let changes =
        |phase: &&Phase| phase.attr.is_some() || phase.group.is_some() || phase.affinity != AffinityChange::Keep;
    if let Some(phase) = task.phases.iter().find(changes) {
        say(
            Assumption::Constant,
            Scope::All,
            format!("it changes its attributes, CPUs or group in phase {}", phase.name),
        );
    }
    if matches!(task.attr, SchedAttr::Deadline(_)) && actions().any(|action| matches!(action, Action::Yield)) {
        say(Assumption::Budget, Scope::From(0), "it yields, which gives up its budget".to_owned());
    }
}

/// The job of a task that is being read.
struct JobReader<'p> {
    program: &'p Program,
    low: Duration,
    high: Duration,
    /// The least time since the last job's release.
    apart: Option<Duration>,
    timer: Option<TimerRef>,
    sleeps: bool,
    cost: Duration,
    period: Option<Duration>,
    has_job: bool,
}

/// Returns a task as a sporadic one.
fn sporadic(program: &Program, task: &TaskDef) -> Result<Sporadic, NoModel> {
    let mut reader = JobReader {
        program,
        low: Duration::ZERO,
        high: Duration::ZERO,
        apart: None,
        timer: None,
        sleeps: false,
        cost: Duration::ZERO,
        period: None,
        has_job: false,
    };
    // Two rounds of everything that repeats show every pair of neighbours.
    let turns = task.turns.unwrap_or(2).min(2);
    for _ in 0..turns {
        for phase in &task.phases {
            for _ in 0..phase.loops.min(2) {
                for action in &phase.actions {
                    reader.read(action)?;
                }
            }
        }
    }
    let pauses = reader.timer.is_some() || reader.sleeps;
    let is_endless = task.turns.is_none() || task.phases.iter().any(|phase| phase.loops > MANY);
    if !pauses && is_endless {
        return Err(if reader.high.is_zero() { NoModel::Idle } else { NoModel::Endless });
    }
    if !pauses {
        // One job: all its turns and loops.
        let phase = |phase: &Phase| {
            let once = phase.actions.iter().map(|action| match action.nature().time {
                Passing::Drawn(dist) => dist.bounds().high,
                Passing::Instant | Passing::Waits | Passing::Of(_) => Duration::ZERO,
            });
            times(once.fold(Duration::ZERO, Duration::saturating_add), phase.loops)
        };
        let turn = task.phases.iter().map(phase).fold(Duration::ZERO, Duration::saturating_add);
        reader.high = times(turn, task.turns.unwrap_or(1));
    }
    reader.end_job();
    if reader.cost.is_zero() {
        return Err(NoModel::Idle);
    }
    if reader.cost >= MAX_TIME {
        return Err(NoModel::Depends("its computation has no largest value: give its distribution a bound".to_owned()));
    }
    let period = reader.period.unwrap_or(Sporadic::LONGEST);
    if period.is_zero() {
        return Err(NoModel::Depends("its releases have no least distance: give its distribution a bound".to_owned()));
    }
    Sporadic::new(reader.cost, period).map_err(|error| NoModel::Depends(error.to_string()))
}

/// More loops than a run has time for.
const MANY: u64 = 1_000_000_000;

const fn times(time: Duration, count: u64) -> Duration {
    Duration::from_nanos(time.as_nanos().saturating_mul(count))
}

impl JobReader<'_> {
    #[expect(clippy::too_many_lines, reason = "one arm per action")]
    fn read(&mut self, action: &Action) -> Result<(), NoModel> {
        let wait = |what: String| Err(NoModel::Depends(what));
        let name = |at: &ResourceId| self.program.resources[at.index()].name.to_string();
        match action {
            Action::Run(dist) | Action::Kernel(dist) | Action::InKernel(KernelAction::IrqsOff(dist)) => {
                self.low = self.low.saturating_add(dist.bounds().low);
                self.high = self.high.saturating_add(dist.bounds().high);
            }
            // It computes no longer than it spins.
            Action::Spin { wall, .. } => self.high = self.high.saturating_add(wall.bounds().high),
            Action::Timer { timer, period, .. } => {
                if matches!(timer, TimerRef::Shared(_)) {
                    return wait("it shares a timer with other tasks".to_owned());
                }
                if self.sleeps {
                    return wait("it sleeps between expiries of its timer".to_owned());
                }
                if self.timer.is_some_and(|known| known != *timer) {
                    return wait("it waits for several timers".to_owned());
                }
                self.timer = Some(*timer);
                self.release(period.bounds().low);
            }
            Action::Sleep(dist) if dist.bounds().high.is_zero() => {}
            Action::Sleep(dist) => {
                if self.timer.is_some() {
                    return wait("it sleeps between expiries of its timer".to_owned());
                }
                self.sleeps = true;
                self.release(dist.bounds().low.saturating_add(self.low));
            }
            Action::Wait { condition: at, .. }
            | Action::Sync { condition: at, .. }
            | Action::Barrier(at)
            | Action::SemWait(at)
            | Action::Suspend(at) => return wait(format!("it waits at {}", name(at))),
            Action::Take(at) => return wait(format!("it waits for requests of {}", name(at))),
            Action::Call(at) => return wait(format!("it waits for the service {}", name(at))),
            Action::PipeRead { pipe, .. } | Action::PipeWrite { pipe, .. } => {
                return wait(format!("it waits at the pipe {}", name(pipe)));
            }
            Action::InKernel(KernelAction::Read(_) | KernelAction::Io { .. }) => {
                return wait("it waits for a disk".to_owned());
            }
            Action::InKernel(KernelAction::SynchronizeRcu) => {
                return wait("it waits for a grace period of RCU".to_owned());
            }
            Action::Lock(_)
            | Action::Unlock(_)
            | Action::Signal(_)
            | Action::Broadcast(_)
            | Action::SemPost(_)
            | Action::Resume(_)
            | Action::Complete(_)
            | Action::Send(_)
            | Action::Yield
            | Action::Fork(_)
            | Action::Stamp(_)
            | Action::InKernel(
                KernelAction::SyscallEnter
                | KernelAction::SyscallExit
                | KernelAction::CondResched
                | KernelAction::Down { .. }
                | KernelAction::Up { .. }
                | KernelAction::SpinLock(_)
                | KernelAction::SpinUnlock(_)
                | KernelAction::UserSpinLock(_)
                | KernelAction::UserSpinUnlock(_)
                | KernelAction::PreemptDisable
                | KernelAction::PreemptEnable
                | KernelAction::BhDisable
                | KernelAction::BhEnable
                | KernelAction::Softirqs
                | KernelAction::SoftTimers
                | KernelAction::RcuLock
                | KernelAction::RcuUnlock
                | KernelAction::RcuPeriods
                | KernelAction::RcuBoost,
            ) => {}
        }
        Ok(())
    }

    /// A pause: the job ends, the next is released this long after it was, or later.
    fn release(&mut self, apart: Duration) {
        self.end_job();
        self.apart = Some(self.apart.unwrap_or(Duration::ZERO).saturating_add(apart));
    }

    fn end_job(&mut self) {
        if self.high.is_zero() {
            return;
        }
        self.cost = self.cost.max(self.high);
        // The first job begins with the task, and has none before it.
        if let Some(apart) = self.apart.take()
            && self.has_job
        {
            self.period = Some(self.period.map_or(apart, |known| known.min(apart)));
        }
        self.has_job = true;
        (self.low, self.high) = (Duration::ZERO, Duration::ZERO);
    }
}

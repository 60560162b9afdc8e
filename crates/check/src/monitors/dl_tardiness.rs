//! `dl-tardiness`: on one CPU an admitted entity gets its budget by its deadline; on several, at
//! most the known bound after it.
//!
//! A job ends when its task has used its budget, or sleeps. Consider a root domain of m CPUs whose
//! reserved bandwidth, counted by runtime / min(deadline, period), is at most m. There a job that
//! wants to run ends
//!
//! * m = 1: by its deadline, whatever other tasks ask for (Liu & Layland 1973; Abeni & Buttazzo
//!   1998, theorem 1);
//! * m > 1: by its deadline plus its runtime plus x, where x is the sum of the m - 1 longest
//!   runtimes less the shortest one, divided by m less the m - 2 largest shares (Devi & Anderson
//!   2005, theorem 2).
//!
//! The theorems are about sporadic tasks, and programs are not sporadic. The key is to take the
//! jobs of the budgets, not those of the program: each begins with a budget and a deadline, and no
//! two deadlines of a task are closer than its bandwidth allows. They are the jobs of a sporadic
//! task, whatever the program does. A fair server is such a task of its CPU. With
//! `enforce.dl = tick` a task overruns by up to a tick and repays it later: each of n tasks can
//! delay the others by one tick, and has a runtime longer by one tick.
//!
//! An event that the theory does not cover suspends the rule until no deadline task of the domain
//! wants to run:
//!
//! * a CPU that is asked to reschedule and cannot yet;
//! * a handler or softirq that takes time, which no admission test counts;
//! * a section without preemption or interrupts: budgets end late there;
//! * a lock that a deadline task waits for;
//! * the server of one CPU next to tasks of several;
//! * a task that changes its parameters, ends or changes its domain;
//! * a partition that is created or removed, a CPU that goes online or offline.
//!
//! A task that reclaims on one CPU is charged at its bandwidth, rounded down to 2^-20 of a CPU
//! (`grub_reclaim`), and so is the time of its budget timer: its budget lasts longer by up to
//! period / bandwidth / 2^19. That is allowed to every job since the domain last had no entity that
//! wanted to run: a job that ends late delays the next one.
//!
//! A domain promises nothing at all if one of its tasks may not use all of its CPUs, if a task
//! reclaims on several CPUs or with deadlines shorter than periods (unused bandwidth is counted by
//! periods), or if it has reserved too much bandwidth.
//!
//! Where operations cost time, no admission test counts them: not applicable. Complexity: O(1) per
//! record; O(tasks) per late job, and when partitions or CPUs change.

use crate::monitor::{Context, Monitor, Outcome};
use crate::report::{Findings, label};
use crate::servers::Servers;
use std::collections::{BTreeMap, BTreeSet};
use zerolag_model::settings::{RtGroupSched, SchedExt, TimerGrain};
use zerolag_model::{
    ClassId, CpuId, DlFlags, Duration, Instant, PrevState, Record, SchedAttr, ServerKind, ServerState, TaskId,
    TraceEvent,
};
use zerolag_trace::replay::{CpuView, TaskState};
use zerolag_trace::{IdTable, Replay};

struct DlTardiness {
    /// The longest overrun of a task.
    grain: Duration,
    servers: Servers,
    jobs: IdTable<TaskId, CurrentJob>,
    queued_servers: IdTable<CpuId, Option<QueuedServer>>,
    /// By the number of the root domain.
    domains: BTreeMap<u32, TardyDomain>,
    /// Deadline tasks that wait for a lock: its holder runs with their parameters.
    lenders: BTreeSet<TaskId>,
}

/// The current job of a task.
#[derive(Clone, Copy, Default)]
struct CurrentJob {
    deadline: Option<Instant>,
    is_throttled: bool,
    /// The domain in which the task is counted as wanting to run.
    wants_in: Option<u32>,
}

/// A server that is queued and competes by its deadline.
#[derive(Clone, Copy)]
struct QueuedServer {
    deadline: Instant,
    domain: u32,
}

#[derive(Default)]
struct TardyDomain {
    /// The number of tasks and servers that want to run and may.
    wanting: u32,
    /// An event that the theory does not cover has happened, and some entity has wanted to run ever
    /// since.
    is_disturbed: bool,
    /// Whether that was an interrupt or a section without preemption.
    is_hindered: bool,
    /// The number of jobs that began while some entity wanted to run.
    jobs: u64,
}

pub(super) fn begin(context: &Context<'_>) -> Result<Box<dyn Monitor>, String> {
    if !context.meta.source.is_complete() {
        return Err("a recorded trace does not say what deadline tasks are given".to_owned());
    }
    if !matches!(context.meta.costs.as_str(), "zero" | "") {
        return Err("operations cost time, which no admission test counts".to_owned());
    }
    let settings = context.settings();
    if settings.sched_ext != SchedExt::Off && settings.ext_server_params().is_on() {
        return Err("the tasks of a loaded scheduler have a second server, which the theory does not count".to_owned());
    }
    if settings.rt_group_sched == RtGroupSched::Hcbs && context.meta.machine.nr_cpus() > 1 {
        return Err("groups have servers on each CPU, which the theory of several CPUs does not count".to_owned());
    }
    let grain = match settings.enforce_dl {
        TimerGrain::Exact => Duration::ZERO,
        TimerGrain::Tick | TimerGrain::Hrtick => settings.tick_period(),
    };
    Ok(Box::new(DlTardiness {
        grain,
        servers: Servers::new(settings.clone(), context.meta),
        jobs: IdTable::default(),
        queued_servers: IdTable::default(),
        domains: BTreeMap::new(),
        lenders: BTreeSet::new(),
    }))
}

impl Monitor for DlTardiness {
    fn before(&mut self, before: &Replay, record: &Record, found: &mut Findings) {
        let (cpu, at) = (record.cpu, record.at);
        match &record.event {
            TraceEvent::Switch { prev, prev_state, .. } => {
                if is_stuck(before, cpu, at) {
                    self.disturb(before.cpu(cpu).root_domain);
                }
                let left = prev.filter(|_| matches!(prev_state, PrevState::Blocked | PrevState::Dead));
                if let Some(task) = left {
                    self.judge(before, task, at, found);
                }
            }
            TraceEvent::DlThrottle { task, .. } | TraceEvent::DlReplenish { task, .. } => {
                self.judge(before, *task, at, found);
            }
            TraceEvent::Server { kind: ServerKind::Fair, .. } => self.judge_server(before, cpu, at, found),
            // No other event ends a job.
            _ => {}
        }
    }

    fn after(&mut self, after: &Replay, record: &Record) {
        self.servers.apply(record);
        match &record.event {
            TraceEvent::Switch { prev, prev_state, next, .. } => {
                if let (Some(task), PrevState::Dead) = (prev, prev_state) {
                    self.disturb_place_of(after, *task);
                }
                for task in [prev, next].into_iter().flatten() {
                    self.follow(after, *task);
                }
            }
            TraceEvent::Wakeup { task, .. } | TraceEvent::Migrate { task, .. } => self.follow(after, *task),
            TraceEvent::DlThrottle { task, .. } => {
                self.jobs.entry(*task).is_throttled = true;
                self.follow(after, *task);
            }
            TraceEvent::DlReplenish { task, deadline, .. } => {
                let job = self.jobs.entry(*task);
                (job.deadline, job.is_throttled) = (Some(*deadline), false);
                let began_in = job.wants_in;
                if let Some(domain) = began_in.and_then(|domain| self.domains.get_mut(&domain)) {
                    domain.jobs += 1;
                }
                self.follow(after, *task);
            }
            TraceEvent::AttrChange { task, .. } => {
                let job = self.jobs.entry(*task);
                (job.deadline, job.is_throttled) = (None, false);
                self.disturb_place_of(after, *task);
                self.follow(after, *task);
            }
            TraceEvent::PrioInherit { task, .. } | TraceEvent::Proxy { task, .. } => {
                self.disturb_place_of(after, *task);
                self.follow(after, *task);
            }
            TraceEvent::WaitLock { task, .. } if is_deadline(after, *task) => {
                self.lenders.insert(*task);
                self.disturb_all();
            }
            TraceEvent::TakeLock { task, .. } if self.lenders.remove(task) => self.disturb_all(),
            TraceEvent::Server { kind: ServerKind::Fair, state } => self.follow_server(after, record.cpu, *state),
            TraceEvent::ServerParams { .. } => self.disturb(after.cpu(record.cpu).root_domain),
            TraceEvent::IrqEnter { .. } | TraceEvent::IrqExit { .. } | TraceEvent::NoPreempt { .. } => {
                self.hinder(after.cpu(record.cpu).root_domain);
            }
            TraceEvent::RootDomain { .. } | TraceEvent::Hotplug { .. } => self.follow_all(after),
            // No other event changes which task wants to run, or where.
            _ => {}
        }
    }

    fn finish(&mut self, last: &Replay, end: Instant, found: &mut Findings) -> Outcome {
        let tasks: Vec<TaskId> = self.jobs.iter().map(|(task, _)| task).collect();
        for task in tasks {
            self.judge(last, task, end, found);
        }
        let cpus: Vec<CpuId> = self.queued_servers.iter().map(|(cpu, _)| cpu).collect();
        for cpu in cpus {
            self.judge_server(last, cpu, end, found);
        }
        Outcome::Judged
    }
}

impl DlTardiness {
    /// A job ends at `at`, or was over by then: checks whether that was in time.
    fn judge(&mut self, before: &Replay, task: TaskId, at: Instant, found: &mut Findings) {
        let Some(CurrentJob { deadline: Some(deadline), wants_in: Some(domain), .. }) = self.jobs.get(task).copied()
        else {
            return;
        };
        if at <= deadline {
            return;
        }
        let Some(SchedAttr::Deadline(params)) = before.task(task).map(|view| view.attr) else { return };
        self.note_hindered(before, domain, found);
        let Some(most) = self.most(before, domain, at, params.runtime) else { return };
        let late = at.since(deadline);
        if late > most {
            found.push(at, None, &[task], || {
                let task = label(before, task);
                format!("{task} wants to run and still lacks budget {late} after its deadline; the bound is {most}")
            });
        }
    }

    fn judge_server(&mut self, before: &Replay, cpu: CpuId, at: Instant, found: &mut Findings) {
        let Some(Some(QueuedServer { deadline, domain })) = self.queued_servers.get(cpu).copied() else { return };
        if at <= deadline {
            return;
        }
        self.note_hindered(before, domain, found);
        let Some(most) = self.most(before, domain, at, self.servers.of(cpu).runtime) else { return };
        let late = at.since(deadline);
        if late > most {
            found.push(at, Some(cpu), &[], || {
                format!(
                    "the fair server of cpu {cpu} still lacks budget {late} after its deadline; the bound is {most}"
                )
            });
        }
    }

    /// A job of this domain is late, and an interrupt or a section is a reason.
    fn note_hindered(&self, before: &Replay, domain: u32, found: &mut Findings) {
        if self.is_hindered(before, domain) {
            found.skip("interrupts or sections without preemption took time that no admission test counts");
        }
    }

    fn is_hindered(&self, before: &Replay, domain: u32) -> bool {
        let is_in = |cpu: CpuView| cpu.irq_depth > 0 || cpu.no_preempt_since.is_some();
        self.domains.get(&domain).is_some_and(|domain| domain.is_hindered)
            || before.cpus().any(|(_, cpu)| cpu.root_domain == domain && is_in(cpu))
    }

    /// Returns how late a job of this runtime may be in a domain; `None` if nothing is promised.
    fn most(&self, before: &Replay, domain: u32, at: Instant, runtime: Duration) -> Option<Duration> {
        let is_disturbed = self.domains.get(&domain).is_some_and(|domain| domain.is_disturbed);
        if is_disturbed || !self.lenders.is_empty() || self.is_hindered(before, domain) {
            return None;
        }
        let is_there = |cpu: &CpuId| {
            let view = before.cpu(*cpu);
            view.root_domain == domain && view.online_since().is_some()
        };
        let cpus: Vec<CpuId> = before.cpus().map(|(cpu, _)| cpu).filter(is_there).collect();
        if cpus.iter().any(|cpu| is_stuck(before, *cpu, at)) {
            return None;
        }
        let mut members = Vec::new();
        let (mut reclaims, mut is_constrained) = (false, false);
        let mut rounding = Duration::ZERO;
        for (_, view) in before.tasks() {
            let (SchedAttr::Deadline(params), Some(rq)) = (view.attr, view.rq) else { continue };
            if view.state == TaskState::Dead || !is_there(&rq) {
                continue;
            }
            if !cpus.iter().all(|cpu| view.may_run_on(*cpu)) {
                return None;
            }
            if params.flags.has(DlFlags::RECLAIM) {
                reclaims = true;
                // Runtime is charged at the bandwidth, rounded down to 2^-20, and the timer is set
                // by its inverse.
                rounding += params.period.mul_div_ceil(params.period.as_nanos(), params.runtime.as_nanos() << 19);
                rounding += Duration::from_nanos(1);
            }
            is_constrained |= params.deadline < params.period;
            members.push((params.runtime, params.deadline.min(params.period)));
        }
        if reclaims && (cpus.len() > 1 || is_constrained) {
            return None;
        }
        if let [cpu] = *cpus {
            let server = self.servers.of(cpu);
            if server.is_on() {
                // Its next period begins later by the overrun, if it does not repay it.
                members.push((server.runtime.saturating_add(self.grain), server.period.saturating_add(self.grain)));
            }
        }
        let jobs = self.domains.get(&domain).map_or(0, |domain| domain.jobs);
        bound(cpus.len(), &members, self.grain, runtime)
            .map(|most| most.saturating_add(rounding.saturating_mul(jobs + 1)))
    }

    fn disturb(&mut self, domain: u32) {
        if let Some(domain) = self.domains.get_mut(&domain).filter(|domain| domain.wanting > 0) {
            domain.is_disturbed = true;
        }
    }

    /// An interrupt takes time, or a section defers the end of a budget.
    fn hinder(&mut self, domain: u32) {
        if let Some(domain) = self.domains.get_mut(&domain).filter(|domain| domain.wanting > 0) {
            (domain.is_disturbed, domain.is_hindered) = (true, true);
        }
    }

    fn disturb_all(&mut self) {
        for domain in self.domains.values_mut() {
            domain.is_disturbed = domain.wanting > 0;
        }
    }

    /// A task's parameters or place change. Its old budget was counted until now and still delays
    /// the others.
    fn disturb_place_of(&mut self, after: &Replay, task: TaskId) {
        let rq = after.task(task).and_then(|view| view.rq);
        let domain = self.jobs.entry(task).wants_in.or(rq.map(|rq| after.cpu(rq).root_domain));
        if let Some(domain) = domain {
            self.disturb(domain);
        }
    }

    fn enter(&mut self, domain: u32) {
        self.domains.entry(domain).or_default().wanting += 1;
    }

    fn leave(&mut self, domain: u32) {
        let Some(domain) = self.domains.get_mut(&domain) else { return };
        domain.wanting -= 1;
        if domain.wanting == 0 {
            (domain.is_disturbed, domain.is_hindered, domain.jobs) = (false, false, 0);
        }
    }

    /// Updates the count of entities that want to run.
    fn follow(&mut self, after: &Replay, task: TaskId) {
        let is_throttled = self.jobs.entry(task).is_throttled;
        let rq = after.task(task).and_then(|view| view.runnable_on(ClassId::Deadline));
        let wants_in = rq.filter(|_| !is_throttled).map(|cpu| after.cpu(cpu).root_domain);
        let had = core::mem::replace(&mut self.jobs.entry(task).wants_in, wants_in);
        if had == wants_in {
            return;
        }
        if let Some(domain) = wants_in {
            self.enter(domain);
        }
        if let (Some(from), Some(to)) = (had, wants_in) {
            self.disturb(from);
            self.disturb(to);
        }
        if let Some(domain) = had {
            self.leave(domain);
        }
    }

    fn follow_server(&mut self, after: &Replay, cpu: CpuId, state: ServerState) {
        let domain = after.cpu(cpu).root_domain;
        let is = match state {
            ServerState::Queued { deadline } => Some(QueuedServer { deadline, domain }),
            ServerState::Stopped | ServerState::Deferred { .. } | ServerState::Throttled { .. } => None,
        };
        let was = core::mem::replace(self.queued_servers.entry(cpu), is);
        if is.is_some() {
            self.enter(domain);
            if after.cpus().filter(|(_, view)| view.root_domain == domain).count() > 1 {
                self.disturb(domain);
            }
        }
        if let Some(QueuedServer { domain, .. }) = was {
            self.leave(domain);
        }
    }

    /// CPUs went online, offline, or to other domains.
    fn follow_all(&mut self, after: &Replay) {
        let tasks: Vec<TaskId> = self.jobs.iter().map(|(task, _)| task).collect();
        for task in tasks {
            self.follow(after, task);
        }
        let cpus: Vec<(CpuId, Option<QueuedServer>)> = self.queued_servers.iter().map(|(cpu, is)| (cpu, *is)).collect();
        for (cpu, QueuedServer { deadline, .. }) in cpus.into_iter().filter_map(|(cpu, is)| Some((cpu, is?))) {
            self.follow_server(after, cpu, ServerState::Queued { deadline });
        }
        self.disturb_all();
    }
}

/// Returns whether a CPU was asked to reschedule before `at` and has not done so.
fn is_stuck(replay: &Replay, cpu: CpuId, at: Instant) -> bool {
    replay.cpu(cpu).need_resched_since.is_some_and(|since| since < at)
}

fn is_deadline(replay: &Replay, task: TaskId) -> bool {
    replay.task(task).is_some_and(|view| view.prio.class() == ClassId::Deadline)
}

/// Returns how late a job of this runtime may be on this many CPUs, next to members of these
/// runtimes and periods; `None` if they have reserved more than there is.
fn bound(cpus: usize, members: &[(Duration, Duration)], grain: Duration, runtime: Duration) -> Option<Duration> {
    let nanos = |time: Duration| time.as_nanos() as f64;
    let mut shares: Vec<f64> =
        members.iter().map(|(runtime, period)| nanos(*runtime) / nanos(*period).max(1.0)).collect();
    if shares.iter().sum::<f64>() > cpus as f64 + 1e-9 {
        return None;
    }
    let overruns = grain * members.len() as u64;
    if cpus < 2 {
        return Some(overruns);
    }
    let mut runtimes: Vec<Duration> = members.iter().map(|(runtime, _)| runtime.saturating_add(grain)).collect();
    runtimes.sort_unstable_by(|a, b| b.cmp(a));
    shares.sort_unstable_by(|a, b| b.total_cmp(a));
    let longest = runtimes.iter().take(cpus - 1).copied().fold(Duration::ZERO, Duration::saturating_add);
    let shortest = runtimes.last().copied().unwrap_or_default();
    let rest = cpus as f64 - shares.iter().take(cpus - 2).sum::<f64>();
    let x = nanos(longest.saturating_sub(shortest).saturating_add(overruns)) / rest;
    Some(Duration::from_nanos(x.ceil() as u64).saturating_add(runtime).saturating_add(grain))
}

#[cfg(test)]
mod tests {
    use super::bound;
    use crate::monitors::tests::{breaks, holds, not_applicable};
    use zerolag_model::event::{Disables, Irq};
    use zerolag_model::{
        CpuId, DlFlags, DlParams, Duration, Instant, Record, SchedAttr, ServerKind, ServerState, TaskId, TraceEvent,
    };
    use zerolag_trace::script::Script;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn script(cpus: u32, settings: &[(&str, &str)]) -> Script {
        let mut script = Script::new(cpus);
        let settings = [("enforce.dl", "exact"), ("fair_server", "off")].iter().chain(settings);
        script.meta.settings = settings.map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        script
    }

    fn task(script: &mut Script, name: &str, runtime: u64, period: u64) -> TaskId {
        script.task(name, SchedAttr::Deadline(DlParams::new(ms(runtime), ms(period), ms(period))))
    }

    /// A task wakes with a budget of 1 ms.
    fn wake(script: &mut Script, at: u64, cpu: u32, task: TaskId, deadline: u64) {
        let budget = Duration::from_millis(1).to_signed();
        let event = TraceEvent::DlReplenish { task, deadline: Instant::from_nanos(deadline * 1_000_000), budget };
        script.event(at * 1_000, cpu, event).wake(at * 1_000, cpu, task);
    }

    /// Two tasks: one keeps the CPU until 6 ms; the other then runs for its 2 ms, with its deadline
    /// at 5 ms or 8 ms.
    fn two(script: &mut Script, deadline: u64) -> TaskId {
        let (a, b) = (task(script, "a", 6, 20), task(script, "b", 2, deadline));
        wake(script, 0, 0, a, 20);
        wake(script, 0, 0, b, deadline);
        script.run(0, 0, None, Some(a)).run(6_000, 0, Some(a), Some(b)).run(8_000, 0, Some(b), None);
        b
    }

    #[test]
    fn on_one_cpu_no_job_is_late_or_the_rule_breaks() {
        let mut early = script(1, &[]);
        two(&mut early, 8);
        holds("dl-tardiness", &early.end(10_000));
        let mut late = script(1, &[]);
        two(&mut late, 5);
        let says = "b (task 1) wants to run and still lacks budget 3ms after its deadline; the bound is 0ns";
        breaks("dl-tardiness", &late.end(10_000), says);
        // With ticks of 4 ms, each of two tasks can overrun once.
        let mut at_ticks = script(1, &[("enforce.dl", "tick"), ("hz", "250")]);
        two(&mut at_ticks, 5);
        holds("dl-tardiness", &at_ticks.end(10_000));
    }

    /// No scheduler is loaded: the second server has bandwidth, and no task to run.
    #[test]
    fn a_second_server_counts_once_a_scheduler_is_loaded() {
        let late = |loaded| {
            let mut script = script(1, &[("ext_server", "deferred"), ("sched_ext", loaded)]);
            two(&mut script, 5);
            script.end(10_000)
        };
        let says = "b (task 1) wants to run and still lacks budget 3ms after its deadline; the bound is 0ns";
        breaks("dl-tardiness", &late("off"), says);
        let why = "the tasks of a loaded scheduler have a second server, which the theory does not count";
        not_applicable("dl-tardiness", &late("partial"), why);
    }

    /// A handler or a section between 1 ms and 2 ms makes nothing sure until no task wants to run.
    #[test]
    fn interrupts_and_sections_suspend_the_rule_and_it_says_so() {
        let (enter, exit) = (TraceEvent::IrqEnter { irq: Irq::Device }, TraceEvent::IrqExit { irq: Irq::Device });
        let section = |disables| TraceEvent::NoPreempt { task: TaskId(0), disables };
        for (from, to) in [(enter, exit), (section(Some(Disables::Preemption)), section(None))] {
            let late = |is_between: bool| {
                let mut script = script(1, &[]);
                // At 0 no task wants to run yet.
                script.event(0, 0, from.clone()).event(0, 0, to.clone());
                let (a, b) = (task(&mut script, "a", 6, 20), task(&mut script, "b", 2, 5));
                wake(&mut script, 0, 0, a, 20);
                wake(&mut script, 0, 0, b, 5);
                script.run(0, 0, None, Some(a));
                if is_between {
                    script.event(1_000, 0, from.clone()).event(2_000, 0, to.clone());
                }
                script.run(6_000, 0, Some(a), Some(b)).run(8_000, 0, Some(b), None).end(20_000)
            };
            let report = crate::check(&late(true), &crate::Options::default());
            let said: Vec<_> = report.not_judged_by("dl-tardiness").map(|part| part.reason).collect();
            assert_eq!(said, ["interrupts or sections without preemption took time that no admission test counts"]);
            holds("dl-tardiness", &late(true));
            let says = "b (task 1) wants to run and still lacks budget 3ms after its deadline; the bound is 0ns";
            breaks("dl-tardiness", &late(false), says);
        }
    }

    /// A task that reclaims the whole CPU: every job of 1 ms in 4 ms lasts for `late` ns longer
    /// than its period.
    #[test]
    fn a_rounded_rate_delays_every_job_by_as_much() {
        let reclaims = |late: u64| {
            let mut script = script(1, &[]);
            let params = DlParams { flags: DlFlags::RECLAIM, ..DlParams::new(ms(1), ms(4), ms(4)) };
            let a = script.task("a", SchedAttr::Deadline(params));
            wake(&mut script, 0, 0, a, 4);
            script.run(0, 0, None, Some(a));
            let mut trace = script.end(39_000);
            for job in 1..10_u64 {
                let at = Instant::from_nanos(job * (4_000_000 + late));
                let (deadline, budget) = (Instant::from_nanos((job + 1) * 4_000_000), ms(1).to_signed());
                let event = TraceEvent::DlReplenish { task: a, deadline, budget };
                trace.records.push(Record { at, cpu: CpuId(0), event });
            }
            trace.records.sort_by_key(|record| record.at);
            trace
        };
        holds("dl-tardiness", &reclaims(30));
        let says = "a (task 0) wants to run and still lacks budget 60ns after its deadline; the bound is 32ns";
        breaks("dl-tardiness", &reclaims(60), says);
    }

    #[test]
    fn a_task_that_never_runs_is_found_at_the_end() {
        let mut script = script(1, &[]);
        let a = task(&mut script, "a", 1, 10);
        wake(&mut script, 0, 0, a, 10);
        let says = "a (task 0) wants to run and still lacks budget 5ms after its deadline; the bound is 0ns";
        breaks("dl-tardiness", &script.end(15_000), says);
    }

    #[test]
    fn a_server_is_late_as_a_task_is() {
        let mut script = script(1, &[]);
        script.meta.settings.retain(|(key, _)| key != "fair_server");
        let deadline = Instant::from_nanos(7_000_000);
        script.event(2_000, 0, TraceEvent::Server { kind: ServerKind::Fair, state: ServerState::Queued { deadline } });
        script.event(9_000, 0, TraceEvent::Server { kind: ServerKind::Fair, state: ServerState::Stopped });
        let says = "the fair server of cpu 0 still lacks budget 2ms after its deadline; the bound is 0ns";
        breaks("dl-tardiness", &script.end(10_000), says);
    }

    #[test]
    fn nothing_is_promised_beyond_what_was_admitted_or_while_a_lock_is_waited_for() {
        let mut too_much = script(1, &[]);
        two(&mut too_much, 5);
        task(&mut too_much, "never queued", 20, 20);
        let hog = task(&mut too_much, "hog", 20, 20);
        let mut full = too_much.clone();
        wake(&mut full, 9, 0, hog, 29);
        breaks(
            "dl-tardiness",
            &full.end(10_000),
            "b (task 1) wants to run and still lacks budget 3ms after its deadline; the bound is 0ns",
        );
        let mut full = script(1, &[]);
        let hog = task(&mut full, "hog", 20, 20);
        wake(&mut full, 0, 0, hog, 20);
        let (a, b) = (task(&mut full, "a", 6, 20), task(&mut full, "b", 2, 5));
        wake(&mut full, 0, 0, a, 20);
        wake(&mut full, 0, 0, b, 5);
        full.run(0, 0, None, Some(a)).run(6_000, 0, Some(a), Some(b)).run(8_000, 0, Some(b), Some(hog));
        holds("dl-tardiness", &full.end(10_000));

        let mut locked = script(1, &[]);
        let (a, b) = (task(&mut locked, "a", 1, 20), task(&mut locked, "b", 2, 5));
        wake(&mut locked, 0, 0, a, 20);
        wake(&mut locked, 0, 0, b, 5);
        locked.event(0, 0, TraceEvent::WaitLock { task: a, lock: 0, holder: Some(b) });
        locked.run(0, 0, None, Some(a)).run(6_000, 0, Some(a), Some(b)).run(8_000, 0, Some(b), None);
        holds("dl-tardiness", &locked.end(10_000));
        not_applicable(
            "dl-tardiness",
            &{
                let mut costly = Script::new(1);
                "default".clone_into(&mut costly.meta.costs);
                costly.end(1)
            },
            "operations cost time, which no admission test counts",
        );
    }

    #[test]
    fn on_several_cpus_the_bound_is_that_of_devi_and_anderson() {
        // Three tasks of 2 ms in 3 ms on two CPUs: x is (2 - 2) / 2, so no job is late by more than
        // its runtime.
        assert_eq!(bound(2, &[(ms(2), ms(3)); 3], Duration::ZERO, ms(2)), Some(ms(2)));
        // The two longest less the shortest, over three less the largest share: (4 + 3 - 1) / (3 -
        // 0.5), and 3.
        let members = [(ms(4), ms(8)), (ms(3), ms(9)), (ms(1), ms(10))];
        assert_eq!(bound(3, &members, Duration::ZERO, ms(3)), Some(Duration::from_micros(5_400)));
        assert_eq!(bound(1, &[(ms(2), ms(3)); 2], Duration::ZERO, ms(2)), None, "more than there is");
        assert_eq!(bound(1, &[(ms(1), ms(3)); 2], ms(4), ms(1)), Some(ms(8)), "each may run too long once");

        for (ends, is_late) in [(8, false), (9, true)] {
            let mut script = script(2, &[]);
            let tasks = ["a", "b", "c"].map(|name| task(&mut script, name, 2, 6));
            for (task, cpu) in tasks.into_iter().zip([0, 1, 0]) {
                wake(&mut script, 0, cpu, task, 6);
            }
            let [a, b, c] = tasks;
            script.run(0, 0, None, Some(a)).run(0, 1, None, Some(b)).run(2_000, 1, Some(b), None);
            script.run(ends * 1_000 - 2_000, 0, Some(a), Some(c)).run(ends * 1_000, 0, Some(c), None);
            let (trace, says) = (
                script.end(10_000),
                "c (task 2) wants to run and still lacks budget 3ms after its deadline; the bound is 2ms",
            );
            if is_late { breaks("dl-tardiness", &trace, says) } else { holds("dl-tardiness", &trace) }
        }
    }
}

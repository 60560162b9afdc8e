//! The rules of a [`World`]: those that hold after every event, those that hold when no work is
//! under way, and the definition of quiescence.

use super::{Agent, Event, Job, Then, World};
use std::hash::{Hash, Hasher};
use zerolag_core::call::Place;
use zerolag_core::{Home, Leave, Resched, Rq};
use zerolag_model::settings::{OverloadScope, RtBalance};
use zerolag_model::{CpuId, Prio, ServerKind, ServerState, TaskId};

/// More events than any of these worlds needs to come to rest.
const DRAIN_LIMIT: usize = 20_000;

impl World {
    /// Checks the rules that hold between any two events.
    pub(crate) fn check(&mut self) -> Result<(), String> {
        let rqs: Vec<&Rq> = self.rqs.iter().collect();
        self.scheduler.check_published(&rqs)?;
        self.scheduler.check_booked(&rqs, self.parcels())?;
        self.scheduler.check_rt_runtime()?;
        let mut seen: Vec<Option<CpuId>> = vec![None; self.places.len()];
        for rq in &self.rqs {
            let mut count = 0;
            for (task, _) in rq.inspect().queued() {
                count += u32::from(!rq.inspect().is_throttled(task));
                if let Some(other) = seen[task.index()].replace(rq.cpu()) {
                    return Err(format!("task {task} is on CPU {other} and on CPU {}", rq.cpu()));
                }
            }
            if count != rq.nr_running() {
                return Err(format!("CPU {} says {} tasks, but has {count}", rq.cpu(), rq.nr_running()));
            }
            self.check_cpu(rq)?;
        }
        for (index, place) in self.places.iter().enumerate() {
            let task = TaskId::from_index(index);
            let home = match self.scheduler.home(task) {
                Home::Parcel => None,
                Home::Rq(cpu) => Some(cpu),
            };
            let queued = place.as_ref().is_some_and(Place::is_on_rq);
            if home != seen[index] || queued != home.is_some() {
                return Err(format!("task {task} is {place:?}, on CPU {:?}, and at home on {home:?}", seen[index]));
            }
        }
        self.note_shadows();
        Ok(())
    }

    fn check_cpu(&self, rq: &Rq) -> Result<(), String> {
        let cpu = rq.cpu();
        let place = &self.cpus[cpu.index()];
        let switching = self.is_switching(cpu);
        if let Some(current) = rq.current().filter(|current| !rq.inspect().queued().any(|(task, _)| task == *current)) {
            return Err(format!("CPU {cpu} runs task {current}, which is not queued there"));
        }
        if switching {
            return Ok(());
        }
        if rq.current() != place.runs {
            return Err(format!("CPU {cpu} runs {:?}, but was told {:?}", rq.current(), place.runs));
        }
        let asked = rq.need_resched() == Resched::Now;
        if asked && !place.kicked {
            return Err(format!("CPU {cpu} must schedule, but was not kicked"));
        }
        if asked {
            return Ok(());
        }
        for (task, prio) in rq.inspect().queued().filter(|(task, _)| !rq.inspect().is_throttled(*task)) {
            if prio.beats(Prio::FIRST_FAIR) && prio.beats(rq.inspect().runs_at()) || is_earlier(rq, task) {
                return Err(format!("CPU {cpu}: task {task} beats the current one, but no switch is requested"));
            }
            let awake = matches!(self.places[task.index()], Some(Place::Queued));
            if place.is_online && awake && !rq.inspect().may_run_on(task, cpu) {
                return Err(format!("CPU {cpu}: task {task} may not be here, and is not moved"));
            }
        }
        for kind in ServerKind::ALL {
            if let (_, ServerState::Queued { deadline }, _) = rq.server(kind)
                && rq.inspect().current_deadline().is_none_or(|current| deadline < current)
            {
                return Err(format!("CPU {cpu}: the {} comes first, but no switch is requested", kind.name()));
            }
        }
        if !place.is_online && rq.current().is_some() {
            return Err(format!("CPU {cpu} is offline, runs a task, and no switch is requested"));
        }
        if rq.current().is_none() && self.awake(rq).next().is_some() {
            return Err(format!("CPU {cpu} idles with tasks queued, and no switch is requested"));
        }
        Ok(())
    }

    fn awake<'a>(&'a self, rq: &'a Rq) -> impl Iterator<Item = (TaskId, Prio)> + 'a {
        let wants =
            |task: TaskId| matches!(self.places[task.index()], Some(Place::Queued)) && !rq.inspect().is_throttled(task);
        rq.inspect().queued().filter(move |(task, _)| wants(*task))
    }

    fn waiting_rt<'a>(&'a self, rq: &'a Rq) -> impl Iterator<Item = (TaskId, Prio)> + 'a {
        self.awake(rq).filter(|(task, prio)| prio.is_rt() && rq.current() != Some(*task))
    }

    fn waiting_dl<'a>(&'a self, rq: &'a Rq) -> impl Iterator<Item = TaskId> + 'a {
        let waits = |(task, prio): &(TaskId, Prio)| *prio == Prio::DEADLINE && rq.current() != Some(*task);
        self.awake(rq).filter(waits).map(|(task, _)| task)
    }

    fn is_switching(&self, cpu: CpuId) -> bool {
        self.jobs[cpu.index()].iter().any(|job| matches!(job, Job::Pick | Job::Carry { then: Then::Pick, .. }))
    }

    /// Does what may end the deadline class of a task. If that task runs, nothing pulls real-time
    /// tasks to its CPU, then or when it leaves: v7.3 `switched_from_dl` pulls deadline tasks only,
    /// and `need_pull_rt_task` compares with what it is by then.
    pub(super) fn demote(&mut self, task: TaskId, change: impl FnOnce(&mut Self) -> bool) -> bool {
        let is_first = |world: &Self| {
            let mut here = world.rqs.iter().filter(|rq| rq.current() == Some(task));
            here.any(|rq| rq.current_prio() == Prio::DEADLINE)
        };
        let was_first = is_first(self);
        let done = change(self);
        if was_first && !is_first(self) {
            self.unpulled.fill(true);
        }
        done
    }

    /// Notes tasks that wait behind a task with a restricted affinity: the hole that
    /// `rt_push_skip_stuck` closes. And CPUs whose real-time tasks are throttled: when that ends
    /// behind a task of a higher class, nothing pushes them until that one leaves (v7.3
    /// `sched_rt_rq_enqueue` asks for a switch if they come first, and for nothing otherwise).
    fn note_shadows(&mut self) {
        let mut shadowed = vec![None; self.shadowed.len()];
        for rq in &self.rqs {
            for (task, prio) in self.waiting_rt(rq) {
                let stuck =
                    |other: TaskId| (0..self.setup.nr_cpus).any(|cpu| !rq.inspect().may_run_on(other, CpuId(cpu)));
                let behind =
                    self.waiting_rt(rq).any(|(other, ahead)| other != task && !prio.beats(ahead) && stuck(other));
                if behind || self.shadowed[task.index()] == Some(rq.cpu()) {
                    shadowed[task.index()] = Some(rq.cpu());
                }
            }
        }
        self.shadowed = shadowed;
        let waiting: Vec<TaskId> = self.rqs.iter().flat_map(|rq| self.waiting_rt(rq).map(|(task, _)| task)).collect();
        for (task, unpulled) in self.unpulled.iter_mut().enumerate() {
            *unpulled &= waiting.iter().any(|waits| waits.index() == task);
        }
        for (cpu, rq) in self.cpus.iter_mut().zip(&self.rqs) {
            cpu.was_throttled |= rq.inspect().is_rt_throttled();
        }
    }

    /// Returns an event that must still happen, if there is one: a job, a kick, an IPI, a task on
    /// an offline CPU.
    pub(crate) fn due(&self) -> Option<Event> {
        if let Some(agent) = (0..self.jobs.len()).find(|agent| !self.jobs[*agent].is_empty()) {
            return Some(Event::Go(Agent(agent)));
        }
        for (rq, place) in self.rqs.iter().zip(&self.cpus) {
            let cpu = rq.cpu();
            if !place.ipis.is_empty() {
                return Some(Event::Deliver { cpu, nth: 0 });
            }
            match rq.need_resched() {
                Resched::Now => return Some(Event::Leave { cpu, why: Leave::Preempted }),
                Resched::Lazy => return Some(Event::Tick { cpu }),
                Resched::No => {}
            }
            let waits = rq.nr_running() > u32::from(rq.current().is_some());
            if !place.is_online && !self.is_switching(cpu) && waits {
                return Some(Event::Evict { cpu });
            }
        }
        None
    }

    /// Delivers pending work until none is left.
    pub(crate) fn drain(&mut self, tell: &mut dyn FnMut(&Self, &Event)) -> Result<(), String> {
        for _ in 0..DRAIN_LIMIT {
            let Some(event) = self.due() else { return self.check_rest() };
            if self.apply(&event) {
                tell(self, &event);
                self.check().map_err(|error| format!("{error} (after {event:?}, while coming to rest)"))?;
            } else {
                return Err(format!("{event:?} is due and cannot happen"));
            }
        }
        Err(format!("not at rest after {DRAIN_LIMIT} events; next is {:?}", self.due()))
    }

    /// Checks the rules that hold when no work is under way.
    pub(crate) fn check_rest(&self) -> Result<(), String> {
        let rqs: Vec<&Rq> = self.rqs.iter().collect();
        self.scheduler.check_quiescent(&rqs)?;
        self.check_earliest()?;
        self.check_top()
    }

    /// Checks that no waiting deadline task would run at once on another CPU of its root domain:
    /// global EDF.
    ///
    /// Guaranteed only if each deadline task of the domain may use all of its CPUs, which admission
    /// ensures. Not guaranteed after partitions were merged with tasks that are confined to one of
    /// them: a task that could go nowhere has ended the push of those behind it, and can have been
    /// pulled away since. Not judged where a server runs a fair task: only a deadline task, when it
    /// becomes current, pushes those behind it. Nor by the rules of 5.4 and later, by which a task
    /// that goes on with a later deadline keeps its CPU (`dl_pull_beside`).
    fn check_earliest(&self) -> Result<(), String> {
        if !self.setup.settings.dl_pull_beside {
            return Ok(());
        }
        for rq in self.rqs.iter().filter(|rq| rq.inspect().serving().is_none()) {
            let is_free = |there: &Rq, task| self.domain_of(rq.cpu()).all(|cpu| there.inspect().may_run_on(task, cpu));
            let all_free = |there: &Rq| {
                let of_deadlines = self.awake(there).filter(|(_, prio)| *prio == Prio::DEADLINE);
                of_deadlines.map(|(task, _)| task).all(|task| is_free(there, task))
            };
            if !self.domain_of(rq.cpu()).all(|cpu| all_free(&self.rqs[cpu.index()])) {
                continue;
            }
            for task in self.waiting_dl(rq) {
                let deadline = |rq: &Rq, task| rq.inspect().deadline(task).map(|(deadline, _)| deadline);
                let mine = deadline(rq, task).expect("a deadline task");
                let later = self.domain_of(rq.cpu()).find(|cpu| {
                    let there = &self.rqs[cpu.index()];
                    let runs = there.inspect().current_deadline();
                    self.cpus[cpu.index()].is_online && runs.is_none_or(|runs| mine < runs)
                });
                if let Some(cpu) = later {
                    return Err(format!(
                        "deadline task {task} ({mine:?}) waits on CPU {} and would be the first on CPU {cpu}",
                        rq.cpu()
                    ));
                }
            }
        }
        Ok(())
    }

    /// Returns whether this world guarantees that no legal move would let a waiting real-time task
    /// preempt.
    ///
    /// Not with a passive balancer, and not with masks per cpuset if there is more than one cpuset:
    /// both are holes that the text names.
    fn keeps_top(&self) -> bool {
        let settings = &self.setup.settings;
        settings.rt_balance.is_active()
            && settings.rt_balance != RtBalance::ActiveAndPassive
            && (settings.overload_scope != OverloadScope::Cpuset
                || settings.rt_balance.is_per_root_domain()
                || self.setup.cpusets.is_empty())
    }

    /// Checks that no waiting real-time task could preempt on a CPU of its root domain that it may
    /// use.
    fn check_top(&self) -> Result<(), String> {
        if !self.keeps_top() {
            return Ok(());
        }
        for rq in &self.rqs {
            let was_throttled = self.cpus[rq.cpu().index()].was_throttled;
            for (task, prio) in self.waiting_rt(rq) {
                let exempt = was_throttled
                    || self.unpulled[task.index()]
                    || !self.setup.settings.rt_push_skip_stuck && self.shadowed[task.index()].is_some();
                // A task that a server keeps waiting is about to run here: it is not moved.
                let exempt = exempt || prio.beats(rq.current_prio());
                let better = self.domain_of(rq.cpu()).find(|cpu| {
                    self.cpus[cpu.index()].is_online
                        && !self.rqs[cpu.index()].inspect().is_rt_throttled()
                        && rq.inspect().may_run_on(task, *cpu)
                        && prio.beats(self.rqs[cpu.index()].inspect().runs_at())
                });
                if let Some(cpu) = better.filter(|_| !exempt) {
                    return Err(format!(
                        "task {task} (prio {prio}) waits on CPU {} and could preempt {:?} (prio {}) on CPU {cpu}",
                        rq.cpu(),
                        self.rqs[cpu.index()].current(),
                        self.rqs[cpu.index()].inspect().runs_at(),
                    ));
                }
            }
        }
        Ok(())
    }

    /// Returns the tasks and their places: `0: 3@89* 4@88 !` is CPU 0, which runs task 3 at prio
    /// 89, has task 4 waiting and was kicked.
    pub(crate) fn show(&self) -> String {
        let cpus = self.rqs.iter().zip(&self.cpus).map(|(rq, place)| {
            let tasks = rq.inspect().queued().map(|(task, prio)| {
                let mark = if rq.current() == Some(task) { "*" } else { "" };
                format!(" {task}@{prio}{mark}")
            });
            let asked = if rq.need_resched() == Resched::No { "" } else { " !" };
            let off = if place.is_online { "" } else { " off" };
            let work: String = place.ipis.iter().map(|work| format!(" {work:?}")).collect();
            format!("{}:{}{asked}{off}{work}", rq.cpu(), tasks.collect::<String>())
        });
        let jobs = self.jobs.iter().enumerate().filter_map(|(agent, jobs)| {
            Some(format!("agent {agent}: {}", jobs.front().map(|job| format!("{job:.0?}"))?))
        });
        cpus.chain(jobs).collect::<Vec<_>>().join(" | ")
    }

    /// Returns a number that is equal for states that behave the same while no time passes.
    pub(crate) fn fingerprint(&self) -> u64 {
        let mut hasher = Fnv(0xcbf2_9ce4_8422_2325);
        let into = &mut hasher;
        let rqs: Vec<&Rq> = self.rqs.iter().collect();
        self.scheduler.fingerprint(&rqs, into);
        for jobs in &self.jobs {
            jobs.len().hash(into);
            for job in jobs {
                match job {
                    Job::Pick => 0_u8.hash(into),
                    Job::Carry { step, then } => {
                        (1_u8, *then).hash(into);
                        self.scheduler.fingerprint_step(&rqs, *step, into);
                    }
                    Job::Place { parcel, why, target } => {
                        (2_u8, *target, format!("{why:?}")).hash(into);
                        self.scheduler.fingerprint_parcel(parcel, into);
                    }
                }
            }
        }
        for place in &self.places {
            place.as_ref().map(core::mem::discriminant).hash(into);
            if let Some(Place::Parked(parcel)) = place {
                self.scheduler.fingerprint_parcel(parcel, into);
            }
        }
        for cpu in &self.cpus {
            (cpu.kicked, cpu.is_online, cpu.runs, cpu.was_throttled).hash(into);
            let mut ipis: Vec<String> = cpu.ipis.iter().map(|work| format!("{work:?}")).collect();
            ipis.sort_unstable();
            ipis.hash(into);
        }
        (&self.shadowed, &self.unpulled).hash(into);
        hasher.finish()
    }
}

/// Returns whether a deadline task precedes the current one, which is also a deadline task.
fn is_earlier(rq: &Rq, task: TaskId) -> bool {
    rq.inspect().deadline(task).zip(rq.inspect().current_deadline()).is_some_and(|((task, _), current)| task < current)
}

/// FNV-1a with a final mix: the same number on every platform.
struct Fnv(u64);

impl Hasher for Fnv {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
    fn finish(&self) -> u64 {
        let mixed = (self.0 ^ self.0 >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
        mixed ^ mixed >> 32
    }
}

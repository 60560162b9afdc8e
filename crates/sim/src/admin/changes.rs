//! Changes at given times: who administers the machine sets limits and weights, makes and removes groups, sets attributes, moves
//! tasks, starts and ends them, resizes pools, changes partitions, deadline servers and what real-time
//! tasks may run.
//!
//! A change comes as a system call on CPU 0 that takes no time itself; what it does to a task takes the run-queue lock that it
//! needs. Partitions, servers and the limit of real-time tasks are a matter of each CPU concerned. A task that is ended goes as soon as it runs again: a
//! computation is cut off, a wait is left, mutexes that it holds are given back, a request that it works on is never done. One
//! that retires, because its pool has become smaller, goes when its turn is over.

use crate::admin::groups;
use crate::kernel::cpu::{Interrupt, Job, Segment, WakeKind};
use crate::kernel::lock::Lock;
use crate::kernel::path::Done;
use crate::machine::{Event, Machine};
use crate::outcome::{End, SimError};
use crate::program::task::{State, WaitFor};
use crate::queue::{Phase, Source};
use std::rc::Rc;
use std::sync::Arc;
use zerolag_core::{CpusetId, Home, Idleness, Leave, TaskError, Weight};
use zerolag_model::{CpuId, Instant, RtBandwidth, TaskId, TraceEvent};
use zerolag_workload::change::Change;
use zerolag_workload::program::GroupWeight;

impl Machine {
    /// Sets the times of all changes.
    pub(crate) fn plan_changes(&mut self) {
        for (index, change) in Rc::clone(&self.changes).iter().enumerate() {
            let index = u32::try_from(index).expect("invariant: a file has fewer than 2^32 changes");
            let (at, count) = (Instant::ZERO.saturating_add(change.at), self.cpus[0].next_count());
            self.queue.push(at, Phase::TaskTimer, Source::cpu(CpuId(0)), count, Event::Change { index });
        }
    }

    /// The time of a change has come: interrupts the CPUs that make it.
    pub(crate) fn change_comes(&mut self, index: u32) {
        let changes = Rc::clone(&self.changes);
        let what = &changes[index as usize].what;
        self.changes_to_come -= usize::from(what.moves_threads());
        match what {
            Change::Partition { cpuset, .. } if self.can_be_partition(*cpuset) => {
                for cpu in Arc::clone(&self.program.cpusets[*cpuset].cpus).iter() {
                    self.interrupt(cpu, Interrupt::Change(index));
                }
            }
            Change::Partition { .. } => {} // The file says "root invalid", and nothing else happens.
            Change::Server { cpus, .. } => {
                for cpu in (0..self.cpus.len()).map(CpuId::from_index) {
                    if cpus.as_ref().is_none_or(|cpus| cpus.contains(cpu)) {
                        self.interrupt(cpu, Interrupt::Change(index));
                    }
                }
            }
            Change::RtRuntime { runtime } => {
                self.set_rt_bandwidth(RtBandwidth { runtime: *runtime, ..self.scheduler.rt_bandwidth() }, index);
            }
            Change::RtPeriod { period } => {
                self.set_rt_bandwidth(RtBandwidth { period: *period, ..self.scheduler.rt_bandwidth() }, index);
            }
            Change::Cpu { cpu, .. } => self.interrupt(*cpu, Interrupt::Change(index)),
            Change::Create { .. }
            | Change::Remove { .. }
            | Change::Max { .. }
            | Change::Weight { .. }
            | Change::Idle { .. }
            | Change::Attr { .. }
            | Change::Affinity { .. }
            | Change::Group { .. }
            | Change::Start { .. }
            | Change::End { .. }
            | Change::Resize { .. } => self.interrupt(CpuId(0), Interrupt::Change(index)),
        }
    }

    /// Makes a change or a CPU's part of it, or a job per thread that it is about.
    pub(crate) fn change(&mut self, cpu: CpuId, index: u32) -> Done {
        let changes = Rc::clone(&self.changes);
        match &changes[index as usize].what {
            Change::Create { group } => {
                if let Err(error) = self.create_group(cpu, *group) {
                    self.stop = Some(End::Failed(error));
                }
            }
            Change::Remove { group } => self.remove_group(cpu, *group, index),
            Change::Max { group, max } => return self.group_max(cpu, *group, *max),
            Change::Weight { group, weight } => self.change_weight(*group, *weight),
            Change::Idle { group, is_idle } => self.change_idleness(*group, *is_idle),
            Change::Cpu { is_online, .. } => return self.hotplug(cpu, *is_online, index),
            Change::Start { task, count } => self.start_more(cpu, *task, *count),
            Change::Resize { task, threads } => self.resize(cpu, *task, *threads, index),
            Change::Partition { cpuset, is_root } => {
                let own = crate::admin::cpuset::id_of(*cpuset);
                return self.join_domain(cpu, if *is_root { own } else { CpusetId::default() }, index);
            }
            Change::Server { runtime, period, .. } => return self.set_server(cpu, *runtime, *period, index),
            Change::RtRuntime { .. } | Change::RtPeriod { .. } => return self.follow_rt_limit(cpu, index),
            Change::Attr { task, .. }
            | Change::Affinity { task, .. }
            | Change::Group { task, .. }
            | Change::End { task } => {
                let threads = self.tasks.iter().filter(|body| body.def == *task && body.state != State::Dead);
                let jobs: Vec<Job> = threads.map(|body| Job::ChangeTask { task: body.id, change: index }).collect();
                self.cpus[cpu.index()].jobs.extend(jobs);
            }
        }
        Done::Yes
    }

    fn change_weight(&mut self, group: usize, weight: GroupWeight) {
        let Ok(id) = self.group_of(Some(group)) else { return };
        let weight = groups::weight(weight).expect("invariant: weights are checked when they are read");
        self.scheduler.set_group_weight(id, weight).expect("invariant: weights of idle groups are refused when read");
        self.emit_weight(id, Some(weight));
    }

    fn change_idleness(&mut self, group: usize, is_idle: bool) {
        let Ok(id) = self.group_of(Some(group)) else { return };
        let (idleness, weight) =
            if is_idle { (Idleness::Idle, Weight::IDLE) } else { (Idleness::Normal, Weight::NICE_0) };
        self.scheduler.set_group_idle(id, idleness).expect("invariant: the group is there");
        self.emit_weight(id, Some(weight));
    }

    /// Starts threads; none in a group that is not there any more.
    fn start_more(&mut self, cpu: CpuId, def: usize, count: u32) {
        if self.group_of(self.program.tasks[def].group).is_err() {
            return;
        }
        for _ in 0..count {
            self.start_another(cpu, def);
        }
    }

    /// Gives a pool so many threads: those that are to retire stay first, then new ones begin; or the youngest retire.
    fn resize(&mut self, cpu: CpuId, def: usize, threads: u32, index: u32) {
        let is_of =
            |body: &&mut crate::program::task::SimTask| body.def == def && body.state != State::Dead && !body.is_ended;
        let mut wanted = threads;
        let mut surplus = Vec::new();
        for body in self.tasks.iter_mut().filter(is_of) {
            body.retires = wanted == 0;
            wanted = wanted.saturating_sub(1);
            if body.retires {
                surplus.push(Job::ChangeTask { task: body.id, change: index });
            }
        }
        self.cpus[cpu.index()].jobs.extend(surplus);
        self.start_more(cpu, def, wanted);
    }

    fn start_another(&mut self, cpu: CpuId, def: usize) {
        let instance =
            self.tasks.iter().filter(|body| body.def == def).map(|body| body.instance + 1).max().unwrap_or(0);
        match self.create_task(def, instance, None, cpu) {
            Ok(task) => {
                self.tasks[task.index()].state = State::Active;
                self.cpus[cpu.index()].jobs.push_back(Job::Wake { task, why: WakeKind::Fork, target: None });
            }
            Err(error) => self.stop = Some(End::Failed(error)),
        }
    }

    /// Changes one thread, wherever it is.
    pub(crate) fn change_task(&mut self, cpu: CpuId, task: TaskId, index: u32) -> Done {
        let changes = Rc::clone(&self.changes);
        let what = &changes[index as usize].what;
        if self.tasks[task.index()].state == State::Dead {
            return Done::Yes;
        }
        match what {
            Change::End { .. } | Change::Remove { .. } => {
                self.end_task(cpu, task);
                Done::Yes
            }
            Change::Resize { .. } => {
                // Who has nothing to do will not come to the end of a turn.
                let body = &self.tasks[task.index()];
                if body.retires && matches!(body.state, State::Waits(WaitFor::Request(_))) {
                    self.end_task(cpu, task);
                }
                Done::Yes
            }
            Change::Group { group, .. } => match self.group_of(*group) {
                Ok(_) if self.tasks[task.index()].parcel.is_some() => self.change_parked(cpu, task, what),
                Ok(_) => self.change_queued(cpu, task, what, index),
                Err(path) => {
                    let name = Arc::clone(&self.tasks[task.index()].name);
                    self.stop = Some(End::Failed(SimError::NoGroup { name, path }));
                    Done::Yes
                }
            },
            Change::Attr { .. } | Change::Affinity { .. } => {
                if self.tasks[task.index()].parcel.is_some() {
                    self.change_parked(cpu, task, what)
                } else {
                    self.change_queued(cpu, task, what, index)
                }
            }
            Change::Create { .. }
            | Change::Max { .. }
            | Change::Weight { .. }
            | Change::Idle { .. }
            | Change::Cpu { .. }
            | Change::Start { .. }
            | Change::Partition { .. }
            | Change::Server { .. }
            | Change::RtRuntime { .. }
            | Change::RtPeriod { .. } => unreachable!("not about one thread"),
        }
    }

    /// Changes a thread that is on no run queue.
    fn change_parked(&mut self, cpu: CpuId, task: TaskId, what: &Change) -> Done {
        let clock = self.cpus[cpu.index()].clock(self.now);
        let target = match what {
            Change::Group { group, .. } => self.group_of(*group).ok(),
            _ => None,
        };
        let Some(parcel) = &mut self.tasks[task.index()].parcel else { return Done::Yes };
        let changed = match (what, target) {
            (Change::Attr { attr, .. }, _) => self.scheduler.set_attr_parked(clock, parcel, *attr, cpu, &mut self.io),
            (Change::Affinity { cpus, .. }, _) => {
                self.scheduler.set_affinity_parked(clock, parcel, cpus.clone(), cpu, &mut self.io)
            }
            (Change::Group { group, .. }, Some(target)) => {
                self.scheduler.set_group_parked(parcel, target).expect("invariant: the group is there");
                self.tasks[task.index()].group = *group;
                self.emit(cpu, TraceEvent::GroupChange { task, group: target });
                self.remove_emptied_groups(cpu);
                Ok(())
            }
            _ => Ok(()),
        };
        self.after_call(cpu);
        if let Err(error) = changed {
            self.fail(task, error);
        }
        Done::Yes
    }

    /// Changes a thread that is on a run queue.
    fn change_queued(&mut self, cpu: CpuId, task: TaskId, what: &Change, index: u32) -> Done {
        let Home::Rq(home) = self.scheduler.home(task) else { return Done::Yes };
        if self.lock(cpu, home) == Lock::Busy {
            return self.spin(cpu, Job::ChangeTask { task, change: index });
        }
        let target = match what {
            Change::Group { group, .. } => self.group_of(*group).ok(),
            _ => None,
        };
        let place = &mut self.cpus[home.index()];
        let clock = place.clock(self.now);
        let (scheduler, io) = (&self.scheduler, &mut self.io);
        let changed = match (what, target) {
            (Change::Attr { attr, .. }, _) => {
                scheduler.set_attr(&mut place.rq, clock, task, *attr, io).map(|step| (None, step))
            }
            (Change::Affinity { cpus, .. }, _) => scheduler.set_affinity(&mut place.rq, clock, task, cpus.clone(), io),
            (Change::Group { .. }, Some(target)) => {
                // It fails when the task sleeps and was still queued: see below.
                let moved = scheduler.set_group(&mut place.rq, clock, task, target, io);
                moved.map(|step| (None, step)).map_err(|_| TaskError::NotHere(task))
            }
            _ => unreachable!("not of a task's queue"),
        };
        if let (Change::Group { group, .. }, Ok(_)) = (what, &changed) {
            self.tasks[task.index()].group = *group;
        }
        self.unlock(cpu, home, self.costs.rq_lock_hold);
        match changed {
            Ok((displaced, step)) => {
                if let Some(parcel) = displaced {
                    self.park(parcel);
                    let wake = Job::Wake { task, why: WakeKind::Displaced, target: None };
                    self.cpus[cpu.index()].jobs.push_front(wake);
                }
                self.push_step(cpu, step);
                self.remove_emptied_groups(cpu);
            }
            // It sleeps and was still queued: it has been taken off, and its body is in hand now.
            Err(_) if self.tasks[task.index()].parcel.is_some() => {
                self.cpus[cpu.index()].jobs.push_front(Job::ChangeTask { task, change: index });
            }
            Err(error) => self.fail(task, error),
        }
        Done::Yes
    }

    /// Lets a task end as soon as it runs again, and sees that it does.
    fn end_task(&mut self, cpu: CpuId, task: TaskId) {
        let body = &mut self.tasks[task.index()];
        body.is_ended = true;
        if body.cursor.in_syscall {
            return; // It hears of it when it returns to user mode.
        }
        body.segment = Segment::None;
        match body.state {
            State::Active => {
                if let Home::Rq(home) = self.scheduler.home(task) {
                    let count = self.cpus[home.index()].next_count();
                    let event = Event::Interrupt { cpu: home, what: Interrupt::Ended(task) };
                    self.queue.push(self.now, Phase::TaskTimer, Source::cpu(home), count, event);
                }
            }
            // Who has not begun goes when it begins.
            State::Unborn | State::Dead => {}
            State::Waits(wait) => {
                if let Some(resource) = resource_of(wait)
                    && let Some(waiters) = self.shared[resource.index()].waiters()
                {
                    waiters.remove(task);
                }
                self.tasks[task.index()].state = State::Active;
                self.cpus[cpu.index()].jobs.push_back(Job::Wake { task, why: WakeKind::Wakeup, target: None });
            }
        }
    }

    /// The CPU hears that a task is to end: cuts its computation off if it runs here.
    pub(crate) fn hear_of_end(&mut self, cpu: CpuId, task: TaskId) {
        let place = &mut self.cpus[cpu.index()];
        if place.current == Some(task) {
            place.segment = Segment::None;
        } else {
            self.tasks[task.index()].segment = Segment::None;
        }
    }

    /// The task that is current on `cpu` ends before its program does.
    pub(crate) fn leave_for_good(&mut self, cpu: CpuId, task: TaskId) {
        self.give_up_request(cpu, task);
        let body = &mut self.tasks[task.index()];
        if let Some(mutex) = body.holds.last().copied() {
            // One after the other: each wakes whoever waits.
            self.drop_mutex(cpu, task, mutex);
            return;
        }
        self.cpus[cpu.index()].jobs.push_back(Job::Switch(Leave::Exit));
    }
}

const fn resource_of(wait: WaitFor) -> Option<zerolag_workload::program::ResourceId> {
    match wait {
        // Waits in no list, and those within a system call, which are not cut off.
        WaitFor::Time | WaitFor::RwSemaphore(_) | WaitFor::Pipe(_) | WaitFor::Page(_) | WaitFor::Reply(_) => None,
        WaitFor::Condition { condition: id, .. }
        | WaitFor::Mutex(id)
        | WaitFor::Barrier(id)
        | WaitFor::Semaphore(id)
        | WaitFor::Resume(id)
        | WaitFor::Request(id) => Some(id),
    }
}

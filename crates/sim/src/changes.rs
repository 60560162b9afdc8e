//! Changes at given times: who administers the machine sets attributes, moves tasks, starts and ends them.
//!
//! A change comes as a system call on CPU 0 that takes no time itself; what it does to a task takes the run-queue lock that it
//! needs. A task that is ended goes as soon as it runs again: a computation is cut off, a wait is left, mutexes that it holds
//! are given back, a request that it works on is never done.

use crate::cpu::{Interrupt, Job, Segment, WakeKind};
use crate::lock::Lock;
use crate::machine::{Event, Machine};
use crate::outcome::End;
use crate::path::Done;
use crate::queue::{Phase, Source};
use crate::task::{State, WaitFor};
use std::rc::Rc;
use zerolag_core::{Home, Leave, TaskError, Weight};
use zerolag_model::{CpuId, GroupId, TaskId, TraceEvent};
use zerolag_workload::program::{Change, GroupWeight};

impl Machine {
    /// Sets the times of all changes.
    pub(crate) fn announce_changes(&mut self) {
        let program = Rc::clone(&self.program);
        self.changes_to_come += program.changes.len();
        let times = program.changes.iter().map(|change| change.at);
        self.plan(times, |index| Event::Interrupt { cpu: CpuId(0), what: Interrupt::Change(index) });
    }

    /// Makes a change, or a job per thread that it is about.
    pub(crate) fn change(&mut self, cpu: CpuId, index: u32) -> Done {
        self.changes_to_come -= 1;
        let program = Rc::clone(&self.program);
        match &program.changes[index as usize].what {
            Change::Weight { group, weight } => {
                let weight = match weight {
                    GroupWeight::Weight(weight) => Weight::from_cpu_weight(u64::from(*weight)),
                    GroupWeight::Shares(shares) => Weight::from_shares(u64::from(*shares)),
                };
                let weight = weight.expect("invariant: weights are checked when they are read");
                let set = self.scheduler.set_group_weight(self.groups[*group], weight);
                set.expect("invariant: groups live as long as the machine");
            }
            Change::Start { task, count } => {
                for _ in 0..*count {
                    self.start_another(cpu, *task);
                }
            }
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
        let program = Rc::clone(&self.program);
        let what = &program.changes[index as usize].what;
        if self.tasks[task.index()].state == State::Dead {
            return Done::Yes;
        }
        if let Change::End { .. } = what {
            self.end_task(cpu, task);
            return Done::Yes;
        }
        let clock = self.cpus[cpu.index()].clock(self.now);
        let group_of = |groups: &[GroupId], group: Option<usize>| group.map_or(GroupId::ROOT, |index| groups[index]);
        let by = cpu;
        if let Some(parcel) = &mut self.tasks[task.index()].parcel {
            let changed = match what {
                Change::Attr { attr, .. } => self.scheduler.set_attr_parked(clock, parcel, *attr, by, &mut self.io),
                Change::Affinity { cpus, .. } => {
                    self.scheduler.set_affinity_parked(clock, parcel, cpus.clone(), by, &mut self.io)
                }
                Change::Group { group, .. } => {
                    let group = group_of(&self.groups, *group);
                    self.scheduler
                        .set_group_parked(parcel, group)
                        .expect("invariant: groups live as long as the machine");
                    self.emit(cpu, TraceEvent::GroupChange { task, group });
                    Ok(())
                }
                Change::Weight { .. } | Change::Start { .. } | Change::End { .. } => Ok(()),
            };
            self.after_call(cpu);
            if let Err(error) = changed {
                self.fail(task, error);
            }
            return Done::Yes;
        }
        let Home::Rq(home) = self.scheduler.home(task) else { return Done::Yes };
        if self.lock(cpu, home) == Lock::Busy {
            return self.spin(cpu, Job::ChangeTask { task, change: index });
        }
        let place = &mut self.cpus[home.index()];
        let clock = place.clock(self.now);
        let (scheduler, io) = (&self.scheduler, &mut self.io);
        let changed = match what {
            Change::Attr { attr, .. } => {
                scheduler.set_attr(&mut place.rq, clock, task, *attr, io).map(|step| (None, step))
            }
            Change::Affinity { cpus, .. } => scheduler.set_affinity(&mut place.rq, clock, task, cpus.clone(), io),
            Change::Group { group, .. } => {
                let group = group_of(&self.groups, *group);
                // It fails when the task sleeps and was still queued: see below.
                let moved = scheduler.set_group(&mut place.rq, clock, task, group, io);
                moved.map(|step| (None, step)).map_err(|_| TaskError::NotHere(task))
            }
            Change::Weight { .. } | Change::Start { .. } | Change::End { .. } => unreachable!("not of a task's queue"),
        };
        self.unlock(cpu, home, self.costs.rq_lock_hold);
        match changed {
            Ok((displaced, step)) => {
                if let Some(parcel) = displaced {
                    self.park(parcel);
                    let wake = Job::Wake { task, why: WakeKind::Displaced, target: None };
                    self.cpus[cpu.index()].jobs.push_front(wake);
                }
                self.push_step(cpu, step, Job::Pick, false);
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
        let body = &mut self.tasks[task.index()];
        body.request = None;
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
        // These are waits within a system call, which are not cut off.
        WaitFor::Time | WaitFor::RwSemaphore(_) | WaitFor::Pipe(_) | WaitFor::Page(_) => None,
        WaitFor::Condition { condition: id, .. }
        | WaitFor::Mutex(id)
        | WaitFor::Barrier(id)
        | WaitFor::Semaphore(id)
        | WaitFor::Resume(id)
        | WaitFor::Request(id) => Some(id),
    }
}

//! Tasks are created, forked, changed from outside, and ended.
//!
//! A task that is ended cannot just vanish: it may run, hold mutexes, or wait in a list. So it is
//! told, and goes as soon as it runs again. A computation is cut off and a wait is left; mutexes
//! that it holds are given back, and a request that it works on is never done. Within a system call
//! nothing is cut off: it ends when it returns to user mode. A task that retires, because its pool
//! has become smaller, goes when its turn is over.

use crate::admin::cpuset;
use crate::admin::groups::{Groups, end_without_group};
use crate::kernel::state::Kernel;
use crate::kernel::words::{Done, Event, Interrupt, Job, WakeKind};
use crate::outcome::{End, FORKED_MAX, SimError};
use crate::program::state::Programs;
use crate::program::task::{TaskActivity, WaitFor};
use crate::queue::Phase;
use std::sync::Arc;
use zerolag_core::{CpusetId, GroupError, Home, NotHere, Parcel, ProcessId, TaskError, TaskSpec};
use zerolag_model::{CpuId, SchedAttr, TaskId, TraceEvent};
use zerolag_workload::change::Change;

impl Groups {
    /// Creates one task, in its group. It starts when its timer fires or it is woken.
    pub(crate) fn create_task(
        &mut self,
        kernel: &mut Kernel,
        programs: &mut Programs,
        def: usize,
        instance: u32,
        parent: Option<TaskId>,
        born_on: CpuId,
    ) -> Result<TaskId, SimError> {
        let id = TaskId::from_index(programs.tasks.len());
        let task = &programs.program.tasks[def];
        let name: Arc<str> = task.name_of(instance).into();
        let group = self.id_of(task.group).map_err(|path| SimError::NoGroup { name: Arc::clone(&name), path })?;
        if born_on.index() >= kernel.nr_cpus() {
            return Err(SimError::NoCpu { name, cpu: born_on });
        }
        kernel.reserve_tasks(id.index() + 1);
        let attr: SchedAttr = kernel.scheduler().governed(task.attr);
        let cpuset = task.cpuset.map_or_else(CpusetId::default, cpuset::id_of);
        let process = task.process.map(|process| ProcessId(process as u32));
        let spec = TaskSpec { id, attr, affinity: task.affinity.clone(), group, cpuset, born_on, process };
        let (mut parcel, attr) = create_or_go_on(kernel, &name, spec)?;
        parcel.set_clamp(task.clamp);
        let allowed = parcel.allowed();
        self.join(task.group);
        programs.add(def, instance);
        let period = programs.program.tasks[def].period();
        kernel.add_task(Arc::clone(&name), parcel, period);
        if kernel.is_traced() {
            kernel.emit(born_on, TraceEvent::TaskNew { task: id, name, parent, attr, group });
            if let Some(cpus) = allowed {
                kernel.emit(born_on, TraceEvent::Affinity { task: id, cpus });
            }
        }
        Ok(id)
    }

    /// Creates a task and lets it start at once; the run ends if it cannot be created.
    fn start_task(
        &mut self,
        kernel: &mut Kernel,
        programs: &mut Programs,
        cpu: CpuId,
        def: usize,
        instance: u32,
        parent: Option<TaskId>,
    ) {
        match self.create_task(kernel, programs, def, instance, parent, cpu) {
            Ok(task) => {
                programs.task_mut(task).state = TaskActivity::Active;
                kernel.push_job(cpu, Job::wake(task, WakeKind::Fork));
            }
            Err(error) => kernel.refuse(error),
        }
    }

    /// Lets the current task of a CPU fork.
    pub(crate) fn fork(&mut self, kernel: &mut Kernel, programs: &mut Programs, cpu: CpuId, def: usize) {
        let parent = kernel.current(cpu).expect("invariant: a task forks");
        let at_start: usize = programs.program.tasks.iter().map(|def| def.instances as usize).sum();
        if programs.alive() >= at_start + FORKED_MAX {
            kernel.end_run(End::TooManyForks(Arc::clone(kernel.name(parent))));
            return;
        }
        if let Err(error) = kernel.check_fork(cpu, parent) {
            kernel.fail(parent, error);
            return;
        }
        let instance = programs.program.tasks[def].instances + programs.task(parent).forks;
        programs.task_mut(parent).forks += 1;
        self.start_task(kernel, programs, cpu, def, instance, Some(parent));
    }

    /// Starts threads; none in a group that no longer exists.
    pub(crate) fn start_more(
        &mut self,
        kernel: &mut Kernel,
        programs: &mut Programs,
        cpu: CpuId,
        def: usize,
        count: u32,
    ) {
        if self.id_of(programs.program.tasks[def].group).is_err() {
            return;
        }
        for _ in 0..count {
            let of_def = programs.tasks.iter().filter(|task| task.def() == def);
            let instance = of_def.map(|task| task.instance + 1).max().unwrap_or(0);
            self.start_task(kernel, programs, cpu, def, instance, None);
        }
    }

    /// Gives a pool so many threads. If it grows, threads that are to retire stay first, then new
    /// ones start; if it shrinks, the youngest retire.
    pub(crate) fn resize(
        &mut self,
        kernel: &mut Kernel,
        programs: &mut Programs,
        cpu: CpuId,
        def: usize,
        threads: u32,
        change: u32,
    ) {
        let mut wanted = threads;
        for (index, task) in programs.tasks.iter_mut().enumerate() {
            if task.def() != def || task.state == TaskActivity::Dead || task.is_ended {
                continue;
            }
            task.retires = wanted == 0;
            wanted = wanted.saturating_sub(1);
            if task.retires {
                kernel.push_job(cpu, Job::ChangeTask { task: TaskId::from_index(index), change });
            }
        }
        self.start_more(kernel, programs, cpu, def, wanted);
    }

    /// Changes one task, wherever it is.
    pub(crate) fn change_task(
        &mut self,
        kernel: &mut Kernel,
        programs: &mut Programs,
        cpu: CpuId,
        task: TaskId,
        what: &Change,
        job: Job,
    ) -> Done {
        if programs.task(task).state == TaskActivity::Dead {
            return Ok(());
        }
        match what {
            Change::End { .. } | Change::Remove { .. } => end_task(kernel, programs, cpu, task),
            Change::Resize { .. } => {
                // A worker without a request will not come to the end of its turn.
                let body = programs.task(task);
                if body.retires && matches!(body.state, TaskActivity::Waits(WaitFor::Request(_))) {
                    end_task(kernel, programs, cpu, task);
                }
            }
            Change::Group { group, .. } => match self.id_of(*group) {
                Ok(_) => return self.change_place(kernel, cpu, task, what, job),
                Err(path) => end_without_group(kernel, task, path),
            },
            Change::Affinity { .. } => return self.change_place(kernel, cpu, task, what, job),
            Change::Attr { .. } => {
                self.change_place(kernel, cpu, task, what, job)?;
                programs.adjust_waiter(kernel, cpu, task);
            }
            Change::Create { .. }
            | Change::Max { .. }
            | Change::Weight { .. }
            | Change::Idle { .. }
            | Change::RtGroup { .. }
            | Change::Cpu { .. }
            | Change::Start { .. }
            | Change::Partition { .. }
            | Change::Server { .. }
            | Change::RtRuntime { .. }
            | Change::RtPeriod { .. }
            | Change::Load { .. }
            | Change::Unload => unreachable!("not about one task"),
        }
        Ok(())
    }

    fn change_place(&mut self, kernel: &mut Kernel, cpu: CpuId, task: TaskId, what: &Change, job: Job) -> Done {
        if kernel.is_parked(task) {
            self.change_parked(kernel, cpu, task, what);
            Ok(())
        } else {
            self.change_queued(kernel, cpu, task, what, job)
        }
    }

    /// Changes a task that is on no run queue.
    fn change_parked(&mut self, kernel: &mut Kernel, cpu: CpuId, task: TaskId, what: &Change) {
        let changed = match what {
            Change::Attr { attr, .. } => kernel.call_parked(cpu, task, |scheduler, clock, parcel, io| {
                scheduler.set_attr_parked(clock, parcel, *attr, cpu, io)
            }),
            Change::Affinity { cpus, .. } => kernel.call_parked(cpu, task, |scheduler, clock, parcel, io| {
                scheduler.set_affinity_parked(clock, parcel, cpus.clone(), cpu, io)
            }),
            Change::Group { group, .. } => {
                let Ok(target) = self.id_of(*group) else { return };
                let moved =
                    kernel.call_parked(cpu, task, |scheduler, _, parcel, _| scheduler.set_group_parked(parcel, target));
                if let Err(error) = moved {
                    return self.refuse_group(kernel, task, *group, error);
                }
                self.moved(task, *group);
                kernel.emit(cpu, TraceEvent::GroupChange { task, group: target });
                self.remove_emptied(kernel, cpu);
                Ok(())
            }
            _ => Ok(()),
        };
        if let Err(error) = changed {
            kernel.fail(task, error);
        }
    }

    /// Changes a task that is on a run queue.
    fn change_queued(&mut self, kernel: &mut Kernel, cpu: CpuId, task: TaskId, what: &Change, job: Job) -> Done {
        let Home::Rq(home) = kernel.scheduler().home(task) else { return Ok(()) };
        let target = match what {
            Change::Group { group, .. } => self.id_of(*group).ok(),
            _ => None,
        };
        let changed = kernel.locked(cpu, home, job, |scheduler, rq, clock, io| match (what, target) {
            (Change::Attr { attr, .. }, _) => scheduler.set_attr(rq, clock, task, *attr, io).map(|step| (None, step)),
            (Change::Affinity { cpus, .. }, _) => scheduler.set_affinity(rq, clock, task, cpus.clone(), io),
            (Change::Group { .. }, Some(target)) => {
                // It fails when the task sleeps and was still queued: see below.
                let moved = scheduler.set_group(rq, clock, task, target, io);
                moved.map(|step| (None, step)).map_err(|error| match error {
                    GroupError::NoRtRuntime(group) => TaskError::NoRtRuntime(task, group),
                    _ => NotHere(task).into(),
                })
            }
            _ => unreachable!("not of a task's queue"),
        })?;
        match changed {
            Ok((displaced, step)) => {
                if let Change::Group { group, .. } = what {
                    self.moved(task, *group);
                }
                if let Some(parcel) = displaced {
                    kernel.park(parcel);
                    kernel.push_next_job(cpu, Job::wake(task, WakeKind::Displaced));
                }
                kernel.push_step(cpu, step);
                self.remove_emptied(kernel, cpu);
            }
            // It sleeps and was still queued: it has been taken off, and its body is in hand now.
            Err(_) if kernel.is_parked(task) => kernel.push_next_job(cpu, job),
            Err(TaskError::NoRtRuntime(_, group)) if matches!(what, Change::Group { .. }) => {
                let Change::Group { group: index, .. } = what else { unreachable!("invariant: just matched") };
                self.refuse_group(kernel, task, *index, GroupError::NoRtRuntime(group));
            }
            Err(error) => kernel.fail(task, error),
        }
        Ok(())
    }
}

/// Creates the body of a task. Where the run goes on when something is refused and the kernel
/// refuses the task's policy, it begins with the one of the shell that starts it: a task sets its
/// policy itself, after it was created. Returns the policy that it has, too.
fn create_or_go_on(kernel: &mut Kernel, name: &Arc<str>, spec: TaskSpec) -> Result<(Parcel, SchedAttr), SimError> {
    let (clock, attr) = (kernel.clock(spec.born_on), spec.attr);
    let refused = match kernel.scheduler().create_task(clock, spec.clone()) {
        Ok(parcel) => return Ok((parcel, attr)),
        Err(error) => kernel.task_error(Arc::clone(name), error),
    };
    if !(kernel.goes_on_when_refused() && refused.is_answer()) {
        return Err(refused);
    }
    let mut first = spec.before_it_asks();
    first.attr = kernel.scheduler().config().settings().governed(first.attr);
    let attr = first.attr;
    let created = kernel.scheduler().create_task(clock, first);
    let parcel = created.map_err(|error| kernel.task_error(Arc::clone(name), error))?;
    kernel.refuse(refused);
    Ok((parcel, attr))
}

/// Lets a task end as soon as it runs again, and makes it run.
fn end_task(kernel: &mut Kernel, programs: &mut Programs, cpu: CpuId, task: TaskId) {
    programs.task_mut(task).is_ended = true;
    if kernel.is_in_syscall(task) {
        return; // It ends when it returns to user mode.
    }
    kernel.cut_off_stored(task);
    if let TaskActivity::Spins(mutex) = programs.task(task).state {
        programs.leave_spinning(kernel, cpu, task, mutex);
    }
    match programs.task(task).state {
        TaskActivity::Active | TaskActivity::Spins(_) => {
            if let Home::Rq(home) = kernel.scheduler().home(task) {
                let event = Event::Interrupt { cpu: home, what: Interrupt::Ended(task) };
                kernel.queue_event(kernel.now(), Phase::Device, home, event);
            }
        }
        // A task that has not begun ends when it begins.
        TaskActivity::Unborn | TaskActivity::Dead => {}
        TaskActivity::Waits(wait) => {
            if let Some(resource) = wait.list()
                && let Some(waiters) = programs.shared[resource.index()].waiters()
            {
                waiters.remove(task);
            }
            if let WaitFor::Pipe(pipe) = wait {
                programs.forget_at_pipe(pipe, task);
            }
            programs.wake(kernel, cpu, task);
        }
    }
}

//! What tasks do: the actions of a program, in order.
//!
//! [`Machine::interpret`] does one action of a CPU's current task, in its context: it starts a computation, or notes jobs
//! (wake somebody, block), or only moves on. What takes no time takes no time here either; a task that goes on like that
//! without end is stopped.

use crate::kernel::cpu::{Job, Segment, WakeKind};
use crate::machine::Machine;
use crate::outcome::{End, FORKED_MAX, Wait};
use crate::program::sync::Shared;
use crate::program::task::{SimTask, State, WaitFor};
use std::rc::Rc;
use std::sync::Arc;
use zerolag_core::{CpuMode, Leave, Lent, most_urgent};
use zerolag_model::{CpuId, CpuLayer, Duration, Mark, TaskId, TraceEvent};
use zerolag_workload::Stream;
use zerolag_workload::program::{Action, AffinityChange, Phase, Program, ResourceId, TimerMode, TimerRef};
use zerolag_workload::random::Dist;

/// The most actions in a row that take no time.
const IDLE_ACTIONS_MAX: u32 = 1_000_000;
/// The most places in its program that a task is looked ahead.
const PEEK_MAX: usize = 4;
/// The longest chain of lock holders that inherits (Linux `max_lock_depth`).
pub(crate) const INHERIT_DEPTH_MAX: u32 = 1_024;

impl Machine {
    /// Does the next action of the task that is current on `cpu`. The CPU is in the kernel and has no jobs.
    pub(crate) fn interpret(&mut self, cpu: CpuId) {
        let task = self.cpus[cpu.index()].current.expect("invariant: somebody runs");
        let program = Rc::clone(&self.program);
        if !self.makes_progress(task) {
            return;
        }
        let body = &self.tasks[task.index()];
        if body.is_ended && !body.cursor.in_syscall || body.retires && body.is_between_turns() {
            self.leave_for_good(cpu, task);
            return;
        }
        if !self.back_to_user(cpu, task) {
            return;
        }
        self.report_timer(cpu, task);
        if let Some(mutex) = self.tasks[task.index()].cursor.relock {
            if self.take_mutex(cpu, task, mutex) {
                self.tasks[task.index()].cursor.relock = None;
            }
            return;
        }
        let Some(phase) = self.find_phase(&program, task) else {
            self.exit(cpu);
            return;
        };
        if !self.tasks[task.index()].cursor.entered {
            self.enter_phase(cpu, task, phase);
            return;
        }
        match phase.actions.get(self.tasks[task.index()].cursor.action) {
            Some(action) => self.act(cpu, task, action),
            None => self.end_loop(cpu, &program, task, phase),
        }
    }

    /// Counts actions that take no time; stops the run when a task does nothing else.
    fn makes_progress(&mut self, task: TaskId) -> bool {
        let body = &mut self.tasks[task.index()];
        body.idle_actions += 1;
        if body.idle_actions > IDLE_ACTIONS_MAX {
            self.stop = Some(End::NoProgress(Arc::clone(&body.name)));
            self.cpus.iter_mut().for_each(|cpu| cpu.jobs.clear());
            return false;
        }
        true
    }

    /// Returns the phase that the task is in, skipping those of no loops; `None` when its program is over.
    fn find_phase<'p>(&mut self, program: &'p Program, task: TaskId) -> Option<&'p Phase> {
        let body = &mut self.tasks[task.index()];
        let def = &program.tasks[body.def];
        // Bounded: every turn through all phases without a loop ends the search.
        for _ in 0..=def.phases.len() {
            if def.turns.is_some_and(|turns| body.cursor.turn >= turns) {
                return None;
            }
            let phase = &def.phases[body.cursor.phase];
            if phase.loops > 0 {
                return Some(phase);
            }
            next_phase(body, def.phases.len());
        }
        None
    }

    /// Applies what entering a phase changes.
    fn enter_phase(&mut self, cpu: CpuId, task: TaskId, phase: &Phase) {
        let body = &mut self.tasks[task.index()];
        body.cursor.entered = true;
        let (index, turn) = (body.cursor.phase, body.cursor.turn);
        let first_ever = turn == 0 && index == 0 && body.cursor.loops_done == 0;
        let mark = Mark::Phase { phase: u32::try_from(index).unwrap_or(u32::MAX), turn };
        self.mark(cpu, task, mark);
        let def_attr = self.program.tasks[self.tasks[task.index()].def].attr;
        let jobs = &mut self.cpus[cpu.index()].jobs;
        if let Some(attr) = phase.attr.filter(|attr| !first_ever || *attr != def_attr) {
            jobs.push_back(Job::SetAttr(attr));
        }
        match &phase.affinity {
            AffinityChange::Keep => {}
            AffinityChange::Reset => {
                self.tasks[task.index()].new_affinity = None;
                jobs.push_back(Job::SetAffinity);
            }
            AffinityChange::Set(mask) => {
                self.tasks[task.index()].new_affinity = Some(Arc::clone(mask));
                jobs.push_back(Job::SetAffinity);
            }
        }
        if let Some(group) = phase.group {
            jobs.push_back(Job::SetGroup(group));
        }
    }

    /// A loop of the phase is over: again, or the next phase, or the next turn.
    fn end_loop(&mut self, cpu: CpuId, program: &Program, task: TaskId, phase: &Phase) {
        let body = &mut self.tasks[task.index()];
        body.cursor.action = 0;
        body.cursor.loops_done += 1;
        if body.cursor.loops_done < phase.loops {
            return;
        }
        let turn = body.cursor.turn;
        next_phase(body, program.tasks[body.def].phases.len());
        if body.cursor.turn != turn {
            self.mark(cpu, task, Mark::TurnEnd { turn });
        }
    }

    /// Starts the next action at once if it is plain work: saves asking again when the switch is over.
    ///
    /// Nothing here is seen by others; marks carry the time at which the task gets the CPU.
    pub(crate) fn peek_work(&mut self, cpu: CpuId, task: TaskId) {
        let body = &self.tasks[task.index()];
        if body.cursor.relock.is_some() || body.is_ended || body.retires || !self.back_to_user(cpu, task) {
            return;
        }
        let program = Rc::clone(&self.program);
        // Bounded: the end of a loop, of a phase, the entry of the next and its first action.
        for _ in 0..PEEK_MAX {
            let Some(phase) = self.find_phase(&program, task) else { return };
            let cursor = &mut self.tasks[task.index()].cursor;
            if !cursor.entered {
                if !phase.changes_nothing() {
                    return;
                }
                self.enter_phase(cpu, task, phase);
                continue;
            }
            let (dist, layer) = match phase.actions.get(cursor.action) {
                Some(Action::Run(dist)) => (dist, CpuLayer::User),
                Some(Action::Kernel(dist)) => (dist, CpuLayer::Kernel),
                Some(_) => return,
                None => {
                    self.end_loop(cpu, &program, task, phase);
                    continue;
                }
            };
            self.report_timer(cpu, task);
            self.compute(cpu, task, dist, layer);
            return;
        }
    }

    /// Leaves the mark of the timer that a task waited for.
    fn report_timer(&mut self, cpu: CpuId, task: TaskId) {
        if let Some((due, slack)) = self.tasks[task.index()].timer_due.take() {
            self.mark(cpu, task, Mark::TimerDue { due, slack });
        }
    }

    /// Leaves a mark at the time at which the task has its CPU.
    fn mark(&mut self, cpu: CpuId, task: TaskId, mark: Mark) {
        if self.tracer.is_on() {
            let at = self.cpus[cpu.index()].busy_until.max(self.now);
            self.emit_at(at, cpu, TraceEvent::Mark { task, mark });
        }
    }

    /// Starts a computation and moves on behind it.
    fn compute(&mut self, cpu: CpuId, task: TaskId, dist: &Dist, layer: CpuLayer) {
        self.step_over(task);
        self.compute_for(cpu, task, dist, layer);
    }

    /// Starts a computation.
    pub(crate) fn compute_for(&mut self, cpu: CpuId, task: TaskId, dist: &Dist, layer: CpuLayer) {
        let time = self.draw(task, dist);
        if time.is_zero() {
            return;
        }
        let body = &mut self.tasks[task.index()];
        body.idle_actions = 0;
        let left = time + core::mem::take(&mut body.refill);
        let place = &mut self.cpus[cpu.index()];
        if layer == CpuLayer::Kernel {
            self.scheduler.enter_kernel(&mut place.rq);
        }
        place.segment = Segment::Work { left, layer };
        place.segment_since = place.busy_until;
    }

    fn draw(&mut self, task: TaskId, dist: &Dist) -> Duration {
        if let Dist::Constant(time) = dist {
            return *time;
        }
        dist.sample(self.stream_of(task))
    }

    /// Returns what a task draws from: the stream of the request that it works on, else its own.
    pub(crate) fn stream_of(&mut self, task: TaskId) -> &mut Stream {
        if self.tasks[task.index()].request.is_some() {
            return self.request_stream(task).expect("invariant: it works on a request");
        }
        let body = &mut self.tasks[task.index()];
        let name = &self.program.tasks[body.def].name;
        body.stream.get_or_insert_with(|| Box::new(Stream::new(self.seed, name, body.instance, "program")))
    }

    fn act(&mut self, cpu: CpuId, task: TaskId, action: &Action) {
        if self.tasks[task.index()].cursor.in_syscall
            && action.nature().may_sleep
            && self.gives_way(cpu, CpuMode::KernelPoint)
        {
            return;
        }
        match action {
            Action::Run(dist) => self.compute(cpu, task, dist, CpuLayer::User),
            Action::Kernel(dist) => self.compute(cpu, task, dist, CpuLayer::Kernel),
            Action::Spin { wall, chunk } => {
                let until = self.now + self.draw(task, wall);
                let body = &mut self.tasks[task.index()];
                body.cursor.action += 1;
                body.idle_actions = 0;
                let place = &mut self.cpus[cpu.index()];
                place.segment = Segment::Spin { until, chunk: *chunk, done: Duration::ZERO };
                place.segment_since = place.busy_until;
            }
            Action::Sleep(dist) => {
                let time = self.draw(task, dist);
                self.step_over(task);
                if !time.is_zero() {
                    let due = self.now.saturating_add(time);
                    self.sleep_until(cpu, task, due);
                }
            }
            Action::Timer { timer, period, mode } => self.wait_timer(cpu, task, *timer, period, *mode),
            Action::Lock(mutex) => {
                if self.take_mutex(cpu, task, *mutex) {
                    self.step_over(task);
                }
            }
            Action::Unlock(mutex) => {
                self.step_over(task);
                self.drop_mutex(cpu, task, *mutex);
            }
            Action::Wait { condition, mutex } => {
                self.step_over(task);
                self.wait_condition(cpu, task, *condition, *mutex);
            }
            Action::Sync { condition, mutex } => {
                if !self.tasks[task.index()].cursor.signalled {
                    self.tasks[task.index()].cursor.signalled = true;
                    self.wake_waiters(cpu, *condition, 1);
                    return;
                }
                self.tasks[task.index()].cursor.signalled = false;
                self.step_over(task);
                self.wait_condition(cpu, task, *condition, *mutex);
            }
            Action::Signal(condition) => {
                self.step_over(task);
                self.wake_waiters(cpu, *condition, 1);
            }
            Action::Broadcast(resource) | Action::Resume(resource) => {
                self.step_over(task);
                self.wake_waiters(cpu, *resource, usize::MAX);
            }
            Action::Barrier(barrier) => self.arrive(cpu, task, *barrier),
            Action::SemPost(semaphore) => self.post(cpu, task, *semaphore),
            Action::SemWait(semaphore) => self.wait_semaphore(cpu, task, *semaphore),
            Action::Suspend(point) => {
                self.step_over(task);
                self.block_on(cpu, task, *point, WaitFor::Resume(*point));
            }
            Action::Take(queue) => self.take_request(cpu, task, *queue),
            Action::Complete(_) => self.complete_request(cpu, task),
            Action::Call(queue) => self.call(cpu, task, *queue),
            Action::Send(queue) => {
                self.step_over(task);
                // A full queue has said that it dropped it.
                let _ = self.send_request(cpu, task, *queue, None);
            }
            Action::Yield => {
                self.step_over(task);
                self.cpus[cpu.index()].jobs.push_back(Job::Switch(Leave::Yield));
            }
            Action::Fork(def) => {
                self.step_over(task);
                self.fork(cpu, task, *def);
            }
            Action::SyscallEnter => {
                self.step_over(task);
                self.enter_syscall(cpu, task);
            }
            Action::SyscallExit => {
                self.step_over(task);
                self.exit_syscall(cpu, task);
            }
            Action::CondResched => {
                self.step_over(task);
                self.gives_way(cpu, CpuMode::CondResched);
            }
            Action::Down { semaphore, access } => {
                self.step_over(task);
                self.down(cpu, task, *semaphore, *access);
            }
            Action::Up { semaphore, access } => {
                self.step_over(task);
                self.up(cpu, task, *semaphore, *access);
            }
            Action::SpinLock(lock) => self.spin_lock(cpu, task, *lock),
            Action::SpinUnlock(lock) => self.spin_unlock(cpu, task, *lock),
            Action::PipeWrite { pipe, bytes } => self.pipe_write(cpu, task, *pipe, *bytes),
            Action::PipeRead { pipe, bytes } => self.pipe_read(cpu, task, *pipe, *bytes),
            Action::Read(read) => self.read(cpu, task, read),
            Action::Io { disk, bytes } => {
                self.step_over(task);
                self.wait_for_disk(cpu, task, *disk, *bytes);
            }
            Action::Stamp(label) => {
                self.step_over(task);
                let place = &mut self.cpus[cpu.index()];
                let clock = place.clock(self.now);
                self.scheduler.charge(&mut place.rq, clock, &mut self.io);
                let exec = self.scheduler.counters(&place.rq, task).map_or(Duration::ZERO, |counters| counters.exec);
                // What the charge brought about happened now, and before the stamp.
                self.after_call(cpu);
                self.emit(cpu, TraceEvent::Mark { task, mark: Mark::Stamp { label: *label, exec } });
            }
        }
    }

    pub(crate) fn step_over(&mut self, task: TaskId) {
        self.tasks[task.index()].cursor.action += 1;
    }

    pub(crate) fn block(&mut self, cpu: CpuId, task: TaskId, wait: WaitFor) {
        self.tasks[task.index()].state = State::Waits(wait);
        let why = self.how_to_block(task);
        self.cpus[cpu.index()].jobs.push_back(Job::Switch(why));
    }

    /// Queues a task at a resource and blocks it.
    pub(crate) fn block_on(&mut self, cpu: CpuId, task: TaskId, resource: ResourceId, wait: WaitFor) {
        let place = &self.cpus[cpu.index()];
        let lends = self.scheduler.lends(&place.rq, task).expect("invariant: who blocks runs here");
        match &mut self.shared[resource.index()] {
            Shared::Mutex { inherit: true, waiters, .. } => waiters.push_lender(task, lends),
            other => {
                let waiters = other.waiters().expect("invariant: the program was checked");
                waiters.push(task, lends.prio());
            }
        }
        self.block(cpu, task, wait);
    }

    pub(crate) fn sleep_until(&mut self, cpu: CpuId, task: TaskId, due: zerolag_model::Instant) {
        let body = &mut self.tasks[task.index()];
        body.idle_actions = 0;
        body.timer_cpu = cpu;
        self.arm_task_timer(task, due);
        self.block(cpu, task, WaitFor::Time);
    }

    fn wait_timer(&mut self, cpu: CpuId, task: TaskId, timer: TimerRef, period: &Dist, mode: TimerMode) {
        let period = self.draw(task, period);
        self.step_over(task);
        let now = self.now;
        let start = zerolag_model::Instant::ZERO + self.program.tasks[self.tasks[task.index()].def].delay;
        let next = match timer {
            TimerRef::Own(index) => {
                let timers = &mut self.tasks[task.index()].timers;
                let index = index as usize;
                if timers.len() <= index {
                    timers.resize(index + 1, None);
                }
                &mut timers[index]
            }
            TimerRef::Shared(id) => match &mut self.shared[id.index()] {
                Shared::Timer { next } => next,
                _ => unreachable!("the program was checked"),
            },
        };
        // rt-app: the first expiry counts from the start of the task.
        let mut due = next.unwrap_or(start).saturating_add(period);
        if mode == TimerMode::Skip && due <= now && !period.is_zero() {
            due = due + period * (now.since(due).as_nanos() / period.as_nanos() + 1);
        }
        *next = Some(if due < now && mode == TimerMode::Relative { now } else { due });
        let slack = due.signed_since(now);
        self.tasks[task.index()].timer_due = Some((due, slack));
        if due > now {
            self.sleep_until(cpu, task, due);
        }
    }

    /// Takes a mutex, or blocks on it; `true` if it was had.
    pub(crate) fn take_mutex(&mut self, cpu: CpuId, task: TaskId, id: ResourceId) -> bool {
        let Shared::Mutex { inherit, owner, .. } = &mut self.shared[id.index()] else {
            unreachable!("the program was checked")
        };
        let inherit = *inherit;
        match *owner {
            None => {
                *owner = Some(task);
                self.tasks[task.index()].holds.push(id);
                self.emit(cpu, TraceEvent::TakeLock { task, lock: id.0 });
                self.publish_owner(cpu, id.0, Some(task));
                true
            }
            // Handed over while it waited.
            Some(holder) if holder == task && self.tasks[task.index()].cursor.handed == Some(id) => {
                self.tasks[task.index()].cursor.handed = None;
                true
            }
            holder => {
                self.emit(cpu, TraceEvent::WaitLock { task, lock: id.0, holder });
                self.block_on(cpu, task, id, WaitFor::Mutex(id));
                if !self.stop_if_circle(task)
                    && let (true, Some(holder)) = (inherit, holder)
                {
                    self.cpus[cpu.index()].jobs.push_front(Job::Inherit { holder, depth: 0 });
                }
                false
            }
        }
    }

    /// Ends the run if the task waits for itself; returns whether it does.
    pub(crate) fn stop_if_circle(&mut self, task: TaskId) -> bool {
        let circle = self.find_circle(task);
        let found = circle.is_some();
        if let Some(chain) = circle {
            self.stop = Some(End::Deadlock(chain));
        }
        found
    }

    /// Ends the run: a task gives back what it does not hold.
    pub(crate) fn stop_not_held(&mut self, task: TaskId, id: ResourceId) {
        let (task, resource) =
            (Arc::clone(&self.tasks[task.index()].name), Arc::clone(&self.program.resources[id.index()].name));
        self.stop = Some(End::NotHeld { task, resource });
    }

    /// Has a task woken that does not wait any more.
    pub(crate) fn wake_from(&mut self, cpu: CpuId, task: TaskId) {
        self.cpus[cpu.index()].jobs.push_back(Job::wakeup(task));
    }

    /// Follows who holds what the task waits for; returns the waits if they lead back to it.
    fn find_circle(&self, task: TaskId) -> Option<Vec<Wait>> {
        let mut chain = Vec::new();
        let mut at = task;
        // Bounded by the number of tasks.
        for _ in 0..self.tasks.len() {
            let body = &self.tasks[at.index()];
            let lock = match body.state {
                State::Waits(WaitFor::Mutex(lock) | WaitFor::RwSemaphore(lock)) => lock,
                State::Active => body.cursor.spins_for?,
                State::Waits(_) | State::Unborn | State::Dead => return None,
            };
            chain.extend(self.wait_of(body));
            at = self.shared[lock.index()].owner()?;
            if at == task {
                return Some(chain);
            }
        }
        None
    }

    /// Gives a mutex back and lets its next waiter have it, or try for it.
    pub(crate) fn drop_mutex(&mut self, cpu: CpuId, task: TaskId, id: ResourceId) {
        let Shared::Mutex { inherit, owner, waiters } = &mut self.shared[id.index()] else {
            unreachable!("the program was checked")
        };
        if *owner != Some(task) {
            self.stop_not_held(task, id);
            return;
        }
        let next = waiters.pop();
        let inherit = *inherit;
        *owner = if inherit { next } else { None };
        self.tasks[task.index()].holds.retain(|held| *held != id);
        self.emit(cpu, TraceEvent::DropLock { task, lock: id.0 });
        self.lock_dropped(cpu, id.0, if inherit { next } else { None });
        let jobs = &mut self.cpus[cpu.index()].jobs;
        if let Some(next) = next {
            if inherit {
                self.tasks[next.index()].holds.push(id);
                self.tasks[next.index()].cursor.handed = Some(id);
                jobs.push_back(Job::Inherit { holder: next, depth: 0 });
            }
            self.tasks[next.index()].state = State::Active;
            self.wake_from(cpu, next);
        }
        let jobs = &mut self.cpus[cpu.index()].jobs;
        if inherit {
            jobs.push_back(Job::Inherit { holder: task, depth: 0 });
        }
        if let Some(next) = next.filter(|_| inherit) {
            self.emit(cpu, TraceEvent::TakeLock { task: next, lock: id.0 });
        }
    }

    /// Returns what the most urgent of those lends who wait for what `holder` holds and inherits for.
    pub(crate) fn lent_to(&self, holder: TaskId) -> Option<Lent> {
        let held = self.tasks[holder.index()].holds.iter();
        let mutexes = held.filter_map(|mutex| match &self.shared[mutex.index()] {
            Shared::Mutex { inherit: true, waiters, .. } => self.lends(waiters.first()?),
            _ => None,
        });
        let semaphores = if self.semaphores_inherit { &self.shared[..] } else { &[] };
        let semaphores = semaphores.iter().filter_map(|shared| match shared {
            Shared::RwSemaphore(semaphore) if semaphore.sole_holder() == Some(holder) => {
                most_urgent(semaphore.waiting().filter_map(|task| self.lends(task)))
            }
            _ => None,
        });
        most_urgent(mutexes.chain(semaphores))
    }

    fn lends(&self, task: TaskId) -> Option<Lent> {
        if let Some(parcel) = &self.tasks[task.index()].parcel {
            return Some(parcel.lends());
        }
        let zerolag_core::Home::Rq(cpu) = self.scheduler.home(task) else { return None };
        self.scheduler.lends(&self.cpus[cpu.index()].rq, task).ok()
    }

    /// A holder's priority has changed while it waits itself: its place in that queue and the next holder follow.
    pub(crate) fn inherit_further(&mut self, cpu: CpuId, holder: TaskId, depth: u32) {
        let mutex = match self.tasks[holder.index()].state {
            State::Waits(WaitFor::Mutex(mutex)) => mutex,
            State::Waits(WaitFor::RwSemaphore(id)) => {
                self.inherit_semaphore(cpu, id, depth + 1);
                return;
            }
            State::Waits(_) | State::Active | State::Unborn | State::Dead => return,
        };
        let Some(lends) = self.lends(holder) else { return };
        let Shared::Mutex { inherit: true, owner, waiters } = &mut self.shared[mutex.index()] else { return };
        if !waiters.remove(holder) {
            return;
        }
        waiters.push_lender(holder, lends);
        if let Some(next) = owner.filter(|_| depth < INHERIT_DEPTH_MAX) {
            self.cpus[cpu.index()].jobs.push_front(Job::Inherit { holder: next, depth: depth + 1 });
        }
    }

    fn wait_condition(&mut self, cpu: CpuId, task: TaskId, condition: ResourceId, mutex: ResourceId) {
        self.tasks[task.index()].cursor.relock = Some(mutex);
        self.drop_mutex(cpu, task, mutex);
        if self.stop.is_none() {
            self.block_on(cpu, task, condition, WaitFor::Condition { condition, mutex });
        }
    }

    /// Wakes up to `most` waiters of a resource.
    fn wake_waiters(&mut self, cpu: CpuId, id: ResourceId, most: usize) {
        let waiters = self.shared[id.index()].waiters().expect("invariant: the program was checked");
        for _ in 0..most.min(waiters.len()) {
            let Some(task) = waiters.pop() else { break };
            self.tasks[task.index()].state = State::Active;
            self.cpus[cpu.index()].jobs.push_back(Job::Wake { task, why: WakeKind::Wakeup, target: None });
        }
    }

    fn arrive(&mut self, cpu: CpuId, task: TaskId, id: ResourceId) {
        self.step_over(task);
        let Shared::Barrier { parties, waiters } = &mut self.shared[id.index()] else {
            unreachable!("the program was checked")
        };
        if waiters.len() + 1 >= *parties as usize {
            self.wake_waiters(cpu, id, usize::MAX);
        } else {
            self.block_on(cpu, task, id, WaitFor::Barrier(id));
        }
    }

    fn post(&mut self, cpu: CpuId, task: TaskId, id: ResourceId) {
        self.step_over(task);
        let Shared::Semaphore { count, waiters } = &mut self.shared[id.index()] else {
            unreachable!("the program was checked")
        };
        if waiters.is_empty() {
            *count += 1;
        } else {
            self.wake_waiters(cpu, id, 1);
        }
    }

    fn wait_semaphore(&mut self, cpu: CpuId, task: TaskId, id: ResourceId) {
        self.step_over(task);
        let Shared::Semaphore { count, .. } = &mut self.shared[id.index()] else {
            unreachable!("the program was checked")
        };
        match count.checked_sub(1) {
            Some(left) => *count = left,
            None => self.block_on(cpu, task, id, WaitFor::Semaphore(id)),
        }
    }

    fn fork(&mut self, cpu: CpuId, parent: TaskId, def: usize) {
        let at_start: usize = self.program.tasks.iter().map(|def| def.instances as usize).sum();
        if self.alive >= at_start + FORKED_MAX {
            self.stop = Some(End::TooManyForks(Arc::clone(&self.tasks[parent.index()].name)));
            return;
        }
        if let Err(error) = self.scheduler.check_fork(&self.cpus[cpu.index()].rq, parent) {
            let name = Arc::clone(&self.tasks[parent.index()].name);
            self.stop = Some(End::Failed(crate::outcome::SimError::Task { name, error }));
            return;
        }
        let instance = self.program.tasks[def].instances + self.tasks[parent.index()].forks;
        self.tasks[parent.index()].forks += 1;
        match self.create_task(def, instance, Some(parent), cpu) {
            Ok(task) => {
                self.tasks[task.index()].state = State::Active;
                self.cpus[cpu.index()].jobs.push_back(Job::Wake { task, why: WakeKind::Fork, target: None });
            }
            Err(error) => self.stop = Some(End::Failed(error)),
        }
    }

    fn exit(&mut self, cpu: CpuId) {
        self.cpus[cpu.index()].jobs.push_back(Job::Switch(Leave::Exit));
    }
}

fn next_phase(body: &mut SimTask, phases: usize) {
    body.cursor.entered = false;
    body.cursor.loops_done = 0;
    body.cursor.action = 0;
    body.cursor.phase += 1;
    if body.cursor.phase == phases {
        body.cursor.phase = 0;
        body.cursor.turn += 1;
    }
}

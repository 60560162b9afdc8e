//! What system calls cost a task besides what they do.
//!
//! The costs of wakeups and switches are charged where the scheduler does them. Entering the
//! kernel, finding what the call names, copying and going back is work of the task itself, so it is
//! put into the program as work in kernel mode: before the machine starts, so that profiles without
//! such costs pay nothing at run time. It comes before the call's effect, but for the part that
//! follows the wakeup of a task (`call_rest`): that is spent where the wakeup is, in its path,
//! since nothing preempts the call there. A call that finds no task to wake has that part too, and
//! is asked for it when its effect is known ([`CallCosts::left_after`]).
//!
//! Three are charged at run time, with [`CallCosts`]. Only a contended mutex is a call, and whether
//! one is contended is not known before ([`futex`](crate::program::act::futex)). A sleep counts
//! from the beginning of its call ([`wait`](crate::program::act::wait)). Whether a read or write of
//! a pipe waits or wakes is known when it is done ([`pipe`](crate::program::act::pipe)).

use crate::costs::Costs;
use std::sync::Arc;
use zerolag_model::Duration;
use zerolag_workload::nature::Hold;
use zerolag_workload::program::{Action, KernelAction, Program, TaskDef};
use zerolag_workload::random::Dist;

/// What calls cost their task.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallCosts {
    /// A call that finds no waiter to wake.
    pub(crate) idle: Duration,
    /// A call that waits, or wakes a waiter.
    pub(crate) busy: Duration,
    /// A call that wakes a waiter, up to the wakeup.
    pub(crate) wakes: Duration,
    /// What is added to the call if the mutex inherits: to wait for it, and to give it to a waiter.
    pub(crate) boosts: Duration,
    pub(crate) unboosts: Duration,
    /// A call that waits for a time; the same inside of another call.
    sleeps: Duration,
    sleeps_inside: Duration,
    /// What a pipe adds.
    pipe_io: Duration,
    /// A read or write of a pipe that neither waits nor wakes.
    pub(crate) pipe_alone: Duration,
    /// What follows a wakeup in its call.
    pub(crate) rest: Duration,
}

impl CallCosts {
    pub(crate) fn of(costs: &Costs) -> Self {
        let contained = costs.syscall.is_zero() && costs.pipe_io.is_zero();
        Self {
            idle: costs.syscall,
            busy: costs.syscall + costs.waiting_call,
            wakes: (costs.syscall + costs.waiting_call).saturating_sub(costs.call_rest),
            boosts: costs.boost,
            unboosts: costs.unboost,
            sleeps: costs.syscall + costs.waiting_call + costs.sleep_call,
            sleeps_inside: costs.waiting_call + costs.sleep_call,
            pipe_io: costs.pipe_io,
            pipe_alone: if contained { costs.pipe_alone } else { Duration::ZERO },
            rest: costs.call_rest,
        }
    }

    /// Returns what an action costs in all.
    fn whole(&self, action: &Action, is_inside: bool) -> Duration {
        let call = if is_inside { Duration::ZERO } else { self.idle };
        let busy = if is_inside { self.busy - self.idle } else { self.busy };
        let nature = action.nature();
        // A mutex without contention is taken in user mode, a semaphore of the kernel inside of a
        // call.
        let takes_lock = matches!(nature.lock, Some((Hold::Takes, _)));
        match action {
            Action::Yield | Action::Fork(_) | Action::InKernel(KernelAction::SyscallEnter) => call,
            Action::Sleep(_) => Duration::ZERO,
            Action::Timer { .. } => self.sleeps(is_inside),
            Action::PipeWrite { .. } | Action::PipeRead { .. } => busy + self.pipe_io,
            // They wake a task that waits for a request or its answer.
            Action::Complete(_) | Action::Send(_) => busy,
            _ if (nature.may_sleep && !takes_lock) || nature.wakes_at.is_some() => busy,
            _ => Duration::ZERO,
        }
    }

    /// Returns the part of an action's cost that is left when it has had its effect. The first
    /// wakeup that it causes spends it, else the action. An action that can wait has none: it may
    /// end with a switch.
    pub(crate) fn left_after(&self, action: &Action, is_inside: bool) -> Duration {
        let nature = action.nature();
        let wakes = match action {
            Action::PipeWrite { .. } | Action::Complete(_) | Action::Send(_) => true,
            _ => nature.wakes_at.is_some() && !nature.may_sleep,
        };
        if wakes { self.whole(action, is_inside).min(self.rest) } else { Duration::ZERO }
    }

    /// Returns what a call that waits for a time costs.
    pub(crate) fn sleeps(&self, is_inside: bool) -> Duration {
        if is_inside { self.sleeps_inside } else { self.sleeps }
    }
}

/// Returns the program with the costs of its system calls. O(actions).
pub(crate) fn with_calls(program: Arc<Program>, costs: &Costs) -> Arc<Program> {
    if [costs.syscall, costs.waiting_call, costs.sleep_call, costs.pipe_io].iter().all(|cost| cost.is_zero()) {
        return program;
    }
    let mut program = Arc::unwrap_or_clone(program);
    program.tasks.iter_mut().for_each(|def| add_calls(def, costs));
    Arc::new(program)
}

fn add_calls(def: &mut TaskDef, costs: &Costs) {
    for phase in &mut def.phases {
        let mut is_inside = false;
        let mut actions = Vec::with_capacity(2 * phase.actions.len());
        for action in phase.actions.drain(..) {
            let time = cost(&action, is_inside, costs);
            if !time.is_zero() {
                actions.push(Action::Kernel(Dist::Constant(time)));
            }
            match action {
                Action::InKernel(KernelAction::SyscallEnter) => is_inside = true,
                Action::InKernel(KernelAction::SyscallExit) => is_inside = false,
                _ => {}
            }
            actions.push(action);
        }
        phase.actions = actions;
    }
}

/// Returns the cost of an action up to its effect. Inside of a system call (`syscall` of a
/// scenario) there is no further one to enter.
fn cost(action: &Action, is_inside: bool, costs: &Costs) -> Duration {
    let calls = CallCosts::of(costs);
    calls.whole(action, is_inside) - calls.left_after(action, is_inside)
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerolag_model::SchedAttr;
    use zerolag_workload::program::ResourceId;

    #[test]
    fn what_waits_or_wakes_is_a_call_and_a_lock_is_not() {
        let us = Duration::from_micros;
        let costs = Costs { syscall: us(1), waiting_call: us(2), pipe_io: us(4), ..Costs::zero() };
        let at = ResourceId(0);
        let of = |action: Action| cost(&action, false, &costs).as_nanos() / 1_000;
        let (sleep, sync) = (Action::Sleep(Dist::Constant(us(9))), Action::Sync { condition: at, mutex: at });
        for waits in [sync, Action::SemPost(at), Action::SemWait(at), Action::Signal(at), Action::Send(at)] {
            assert_eq!(of(waits.clone()), 3, "{waits:?}");
        }
        for none in [sleep, Action::Lock(at), Action::Unlock(at), KernelAction::SpinLock(at).into(), Action::Stamp(0)] {
            assert_eq!(of(none.clone()), 0, "{none:?}");
        }
    }

    #[test]
    fn what_follows_a_wakeup_is_left_and_never_more_than_the_call() {
        let us = Duration::from_micros;
        let costs = Costs { syscall: us(1), waiting_call: us(2), pipe_io: us(4), call_rest: us(5), ..Costs::zero() };
        let (at, pipe) = (ResourceId(0), ResourceId(1));
        let of = |action: &Action, is_inside| {
            [cost(action, is_inside, &costs), CallCosts::of(&costs).left_after(action, is_inside)]
                .map(|time| time.as_nanos() / 1_000)
        };
        let write = Action::PipeWrite { pipe, bytes: 1 };
        assert_eq!([of(&write, false), of(&write, true)], [[2, 5], [1, 5]]);
        assert_eq!(of(&Action::SemPost(at), false), [0, 3]);
        assert_eq!(of(&Action::PipeRead { pipe, bytes: 1 }, false), [7, 0]);
        assert_eq!(of(&Action::SemWait(at), false), [3, 0]);
        assert_eq!(of(&Action::Yield, false), [1, 0]);
    }

    #[test]
    fn a_call_is_charged_once_and_work_is_not() {
        let pipe = ResourceId(0);
        let (read, run) = (Action::PipeRead { pipe, bytes: 1 }, Action::Run(Dist::Constant(Duration::from_micros(9))));
        let inside = [
            KernelAction::SyscallEnter.into(),
            read.clone(),
            run.clone(),
            Action::Yield,
            KernelAction::SyscallExit.into(),
        ];
        let actions: Vec<Action> =
            [run.clone(), read.clone(), Action::Yield].into_iter().chain(inside.clone()).collect();
        let def = TaskDef::looping("a", SchedAttr::NORMAL, actions);
        let program = Arc::new(Program { tasks: vec![def], ..Program::default() });
        let kernel = |us| Action::Kernel(Dist::Constant(Duration::from_micros(us)));
        let us = Duration::from_micros;
        let costs = Costs { syscall: us(1), waiting_call: us(2), pipe_io: us(4), ..Costs::zero() };
        let [enter, inner, work, give, exit] = inside;
        let charged =
            vec![run, kernel(7), read, kernel(1), Action::Yield, kernel(1), enter, kernel(6), inner, work, give, exit];
        assert_eq!(with_calls(Arc::clone(&program), &costs).tasks[0].phases[0].actions, charged);
        assert!(Arc::ptr_eq(&with_calls(Arc::clone(&program), &Costs::server()), &program));
    }
}

//! Mistakes in a program that are certain for any scheduler.
//!
//! A task is a straight line of actions in loops, without branches, so some mistakes are certain
//! before anything runs: releasing a mutex that is not held, a wait that no task can end, a loop in
//! which no time passes (on which a simulation would never end). They are found here, on the
//! lowered program, for both grammars. Mistakes that depend on timing (deadlocks between tasks,
//! lost signals) are not.
//!
//! Held mutexes: simulating all passes of a loop would take too long. But the mutexes held after a
//! pass over a phase depend on those held before it only for mutexes that the phase does not touch.
//! So two passes over a loop find everything that any number of passes can.
//!
//! A system call releases every lock that it takes: the kernel holds no lock in user mode.
//!
//! Cost: O(actions) and the resources.

use crate::assemble::{Origins, PhaseOrigin, ResourceClass, TaskOrigin};
use crate::diagnostic::{Diagnostic, Report, Span};
use crate::nature::{Hold, Passing};
use crate::program::{Action, KernelAction, Program, ResourceId, ResourceKind, TaskDef};
use std::collections::BTreeMap;

/// How many actions may pass without time passing: more counts as a loop that never ends.
const TIMELESS_MAX: u64 = 10_000_000;

/// Checks a program; `origins` has its shape.
pub(crate) fn check(program: &Program, origins: &Origins, report: &mut Report) {
    for (task, origin) in program.tasks.iter().zip(&origins.tasks) {
        if task.phases.iter().any(|phase| phase.actions.iter().any(|action| action.nature().lock.is_some())) {
            check_mutexes(program, task, origin, report);
        }
        check_time_passes(program, task, origin, report);
    }
    if !program.resources.is_empty() {
        check_waits(program, origins, report);
    }
    if program.resources.iter().any(|resource| matches!(resource.kind, ResourceKind::Barrier { .. })) {
        check_barriers(program, origins, report);
    }
}

/// Returns the error of a CPU that the machine does not have.
pub(crate) fn no_such_cpu(span: Span, cpu: i64, nr_cpus: usize) -> Diagnostic {
    let message = format!("CPU {cpu} does not exist: the machine has CPUs 0..={}", nr_cpus - 1);
    Diagnostic::error(span, message).help("name a CPU that exists, or choose a machine with more CPUs")
}

fn name(program: &Program, id: ResourceId) -> &str {
    program.resources.get(id.index()).map_or("?", |resource| &resource.name)
}

fn kind(program: &Program, id: ResourceId) -> &'static str {
    program.resources.get(id.index()).map_or("lock", |resource| ResourceClass::of(&resource.kind).name())
}

/// Follows the locks that a task holds.
fn check_mutexes(program: &Program, task: &TaskDef, origin: &TaskOrigin, report: &mut Report) {
    let mut held = Held::default();
    let turns = task.turns.unwrap_or(u64::MAX).min(2);
    for _ in 0..turns {
        for (phase, origin) in task.phases.iter().zip(&origin.phases) {
            for _ in 0..phase.loops.min(2) {
                for (action, span) in phase.actions.iter().zip(&origin.actions) {
                    let Err(diagnostic) = follow(program, action, *span, &mut held) else { continue };
                    // Later messages would only repeat the first mistake.
                    report.push(*diagnostic);
                    return;
                }
            }
        }
    }
    if task.turns.is_some() {
        for (mutex, (span, _)) in held.locks {
            let message = format!(
                "task \"{}\" ends while it holds {} \"{}\"",
                task.name,
                kind(program, mutex),
                name(program, mutex)
            );
            report.warning(span, message);
        }
    }
}

/// The locks that a task holds, and whether it is in a system call.
#[derive(Default)]
struct Held {
    /// The position at which each lock was taken, and whether in a system call.
    locks: BTreeMap<ResourceId, (Span, bool)>,
    in_syscall: bool,
    /// The spinning lock that it took first among those that it holds.
    spinning: Option<(ResourceId, Span)>,
}

impl Held {
    /// Takes a lock.
    fn take(&mut self, program: &Program, lock: ResourceId, span: Span) -> Result<(), Box<Diagnostic>> {
        let Some((first, _)) = self.locks.insert(lock, (span, self.in_syscall)) else { return Ok(()) };
        let (kind, name) = (kind(program, lock), name(program, lock));
        let message = format!("{kind} \"{name}\" is already held here: the task waits for itself");
        Err(Box::new(Diagnostic::error(span, message).label(first, "taken here")))
    }

    /// Releases a lock.
    fn give(&mut self, program: &Program, lock: ResourceId, span: Span) -> Result<(), Box<Diagnostic>> {
        if self.locks.remove(&lock).is_none() {
            let (kind, name) = (kind(program, lock), name(program, lock));
            let message = format!("{kind} \"{name}\" is unlocked but not held here");
            return Err(Box::new(Diagnostic::error(span, message)));
        }
        self.spinning = self.spinning.filter(|(first, _)| *first != lock);
        Ok(())
    }

    /// The system call ends.
    fn leave_syscall(&mut self, program: &Program, span: Span) -> Result<(), Box<Diagnostic>> {
        self.in_syscall = false;
        let Some((lock, (taken, _))) = self.locks.iter().find(|(_, (_, of_syscall))| *of_syscall) else {
            return Ok(());
        };
        let message = format!("the system call ends with {} \"{}\" held", kind(program, *lock), name(program, *lock));
        let diagnostic = Diagnostic::error(span, message).label(*taken, "taken here");
        Err(Box::new(diagnostic.help("release it before the system call ends")))
    }
}

fn follow(program: &Program, action: &Action, span: Span, held: &mut Held) -> Result<(), Box<Diagnostic>> {
    let nature = action.nature();
    let may_sleep = nature.may_sleep || matches!(action, Action::InKernel(KernelAction::CondResched));
    if let (true, Some((lock, taken))) = (may_sleep, held.spinning) {
        let message = format!("this may sleep, and spin_lock \"{}\" is held", name(program, lock));
        let diagnostic = Diagnostic::error(span, message).label(taken, "taken here");
        return Err(Box::new(diagnostic.help("the holder of a spinning lock can only compute and release it")));
    }
    match nature.lock {
        Some((Hold::Takes, lock)) => held.take(program, lock, span)?,
        Some((Hold::Spins, lock)) => {
            held.spinning.get_or_insert((lock, span));
            held.take(program, lock, span)?;
        }
        Some((Hold::Gives, lock)) => held.give(program, lock, span)?,
        Some((Hold::Needs, mutex)) if !held.locks.contains_key(&mutex) => {
            let at = nature.waits_at.map_or("?", |condition| name(program, condition));
            let message = format!("mutex \"{}\" is not held at this wait on \"{at}\"", name(program, mutex));
            return Err(Box::new(Diagnostic::error(span, message).help("lock the mutex before, unlock it after")));
        }
        Some((Hold::Needs, _)) | None => {}
    }
    if matches!(action, Action::InKernel(KernelAction::SyscallEnter)) {
        held.in_syscall = true;
    }
    if matches!(action, Action::InKernel(KernelAction::SyscallExit)) {
        held.leave_syscall(program, span)?;
    }
    Ok(())
}

/// Returns whether an action can take time or wait for another task.
fn takes_time(program: &Program, action: &Action) -> bool {
    match action.nature().time {
        Passing::Instant => false,
        Passing::Drawn(time) => !time.is_zero(),
        Passing::Waits => true,
        Passing::Of(id) => match (program.resources.get(id.index()).map(|found| &found.kind), action) {
            (Some(ResourceKind::Barrier { parties }), _) => *parties > 1,
            (Some(ResourceKind::Disk(disk)), Action::InKernel(KernelAction::Io { bytes, .. })) => {
                !disk.is_instant(*bytes)
            }
            _ => false,
        },
    }
}

/// Finds loops in which no time passes.
fn check_time_passes(program: &Program, task: &TaskDef, origin: &TaskOrigin, report: &mut Report) {
    let help = "add a run, sleep or timer of more than zero";
    if task.turns == Some(0) {
        return;
    }
    // Actions of one turn without time passing; `None` once time passes somewhere.
    let mut timeless_turn = Some(1_u64);
    for (phase, PhaseOrigin { name, .. }) in task.phases.iter().zip(&origin.phases) {
        if phase.actions.iter().any(|action| takes_time(program, action)) {
            if phase.loops > 0 {
                timeless_turn = None;
            }
            continue;
        }
        let passed = phase.loops.saturating_mul(phase.actions.len() as u64 + 1);
        if passed > TIMELESS_MAX {
            let message = format!("phase \"{}\" loops {} times without time passing", phase.name, phase.loops);
            report.error_help(*name, message, help);
            return;
        }
        timeless_turn = timeless_turn.map(|turn| turn.saturating_add(passed));
    }
    let Some(turn) = timeless_turn else { return };
    if task.turns.is_none_or(|turns| turns.saturating_mul(turn) > TIMELESS_MAX) {
        report.error_help(origin.name, format!("task \"{}\" loops without time passing", task.name), help);
    }
}

/// The uses of a resource anywhere.
#[derive(Clone, Copy, Default)]
struct Uses {
    waits: Option<Span>,
    wakes: bool,
}

/// Finds waits that never end.
fn check_waits(program: &Program, origins: &Origins, report: &mut Report) {
    let mut uses = vec![Uses::default(); program.resources.len()];
    for_each_action(program, origins, |_, action, span| {
        let nature = action.nature();
        if let Some(id) = nature.waits_at {
            uses[id.index()].waits.get_or_insert(span);
        }
        if let Some(id) = nature.wakes_at {
            uses[id.index()].wakes = true;
        }
    });
    for (resource, uses) in program.resources.iter().zip(uses) {
        let Uses { waits: Some(span), wakes: false } = uses else { continue };
        let name = &resource.name;
        match resource.kind {
            ResourceKind::Condition => {
                report.warning(span, format!("nothing ever signals \"{name}\": this waits forever"));
            }
            ResourceKind::Semaphore { initial: 0 } => {
                report.warning(span, format!("nothing ever raises semaphore \"{name}\": this waits forever"));
            }
            ResourceKind::Pipe { .. } => {
                report.warning(span, format!("nothing ever writes to pipe \"{name}\": this waits forever"));
            }
            ResourceKind::SuspendPoint => {
                report.warning(span, format!("nothing ever resumes \"{name}\": it stays suspended"));
            }
            ResourceKind::Semaphore { .. }
            | ResourceKind::Mutex { .. }
            | ResourceKind::Barrier { .. }
            | ResourceKind::Queue { .. }
            | ResourceKind::Timer
            | ResourceKind::RwSemaphore
            | ResourceKind::SpinLock
            | ResourceKind::UserSpinLock { .. }
            | ResourceKind::Disk(_)
            | ResourceKind::File(_) => {}
        }
    }
}

/// Finds barriers of forked tasks: the number of arriving tasks cannot be known.
fn check_barriers(program: &Program, origins: &Origins, report: &mut Report) {
    let mut forked = vec![false; program.tasks.len()];
    for_each_action(program, origins, |_, action, _| {
        if let Action::Fork(task) = action
            && let Some(forked) = forked.get_mut(*task)
        {
            *forked = true;
        }
    });
    for_each_action(program, origins, |task, action, span| {
        if let Action::Barrier(barrier) = action {
            let name = name(program, *barrier);
            if forked[task] {
                let task = &program.tasks[task].name;
                report.error(span, format!("task \"{task}\" is forked and cannot wait at barrier \"{name}\""));
            } else if program.tasks[task].instances == 0 {
                let task = &program.tasks[task].name;
                report.error(span, format!("task \"{task}\" has no instances and cannot wait at barrier \"{name}\""));
            }
        }
    });
}

fn for_each_action<'p>(program: &'p Program, origins: &Origins, mut visit: impl FnMut(usize, &'p Action, Span)) {
    for (index, (task, origin)) in program.tasks.iter().zip(&origins.tasks).enumerate() {
        for (phase, origin) in task.phases.iter().zip(&origin.phases) {
            for (action, span) in phase.actions.iter().zip(&origin.actions) {
                visit(index, action, *span);
            }
        }
    }
}

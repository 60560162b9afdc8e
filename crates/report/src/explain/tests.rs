//! Tests of the explanation of waits.

use super::*;
use crate::sample::two_hogs_and_a_fifo;
use zerolag_model::event::Irq;
use zerolag_trace::script::Script;

fn all(trace: &Trace) -> Explanation {
    explain(trace, Options { worst: usize::MAX, ..Options::default() })
}

#[test]
fn causes_add_up_to_each_wait() {
    let found = all(&two_hogs_and_a_fifo());
    assert!(!found.waits.is_empty());
    for wait in &found.waits {
        let sum: Duration = wait.causes.iter().map(|(_, time)| *time).sum();
        assert_eq!(sum, wait.length(), "{wait:?}");
    }
}

/// `b` spins for the lock of `a` from 1 on, is preempted by `c` from 2 to 4, spins again, and
/// blocks from 6 to 8.
#[test]
fn a_task_that_spins_for_a_lock_first_waits_for_it_when_it_blocks() {
    let mut script = Script::new(2);
    let (a, b, c) = (script.fair("a"), script.fair("b"), script.fair("c"));
    script.wake(0, 0, a).run(0, 0, None, Some(a)).wake(0, 1, b).run(0, 1, None, Some(b));
    script.event(0, 0, TraceEvent::TakeLock { task: a, lock: 0 });
    script.event(1, 1, TraceEvent::WaitLock { task: b, lock: 0, holder: Some(a) });
    script.wake(2, 1, c).preempt(2, 1, b, c).preempt(4, 1, c, b).run(6, 1, Some(b), Some(c));
    script.event(8, 0, TraceEvent::DropLock { task: a, lock: 0 }).wake(8, 1, b);
    script.event(8, 0, TraceEvent::TakeLock { task: b, lock: 0 }).preempt(8, 1, c, b);
    let found = all(&script.end(10));
    let waits = found.waits.iter().filter(|wait| wait.task == b && !wait.length().is_zero());
    let causes = waits.flat_map(|wait| &wait.causes);
    let us = |(chain, time): &(Chain, Duration)| {
        let waits_for_lock = matches!(chain[..], [Cause::Lock { lock: 0, holder: Some(holder) }, _] if holder == a);
        (waits_for_lock, time.as_nanos() / 1_000)
    };
    let mut parts: Vec<_> = causes.map(us).collect();
    parts.sort_unstable();
    assert_eq!(parts, [(false, 2), (true, 2)]);
}

/// `a` waits on CPU 0 behind a real-time task while the fair server defers, then while the CPU
/// serves an interrupt; `b` is migrated to CPU 1 and waits for it to switch.
#[test]
fn deferral_interrupts_and_moves_are_named() {
    let mut script = Script::new(2);
    let (a, b, rt) = (script.fair("a"), script.fair("b"), script.fifo("rt", 5));
    let until = Instant::from_nanos(40_000);
    let defers = TraceEvent::Server { kind: ServerKind::Fair, state: ServerState::Deferred { until } };
    script.wake(0, 0, rt).run(0, 0, None, Some(rt)).event(0, 0, defers);
    script.wake(1, 0, a).wake(1, 0, b);
    script.migrate(5, b, 0, 1, MigrateReason::Periodic).run(7, 1, None, Some(b));
    script.event(10, 0, TraceEvent::IrqEnter { irq: Irq::Timer });
    script.run(10, 0, Some(rt), None).event(13, 0, TraceEvent::IrqExit { irq: Irq::Timer }).run(14, 0, None, Some(a));
    let mut trace = script.end(20);
    trace.meta.source = zerolag_trace::Source::Simulation;
    let found = all(&trace);
    let of = |task: TaskId| found.waits.iter().find(|wait| wait.task == task).expect("it waited");
    let us = |wait: &Explained, wanted: fn(&Cause) -> bool| {
        let causes = wait.causes.iter().filter(|(chain, _)| wanted(&chain[0]));
        causes.map(|(_, time)| time.as_nanos() / 1_000).sum::<u64>()
    };
    assert_eq!(us(of(a), |cause| matches!(cause, Cause::Behind { why: Why::Defers { .. }, .. })), 9);
    assert_eq!(us(of(a), |cause| matches!(cause, Cause::Interrupt { .. })), 3);
    assert_eq!(us(of(a), |cause| matches!(cause, Cause::Switch { .. })), 1);
    assert_eq!(us(of(b), |cause| matches!(cause, Cause::Moved { .. })), 2);
    let starts: Vec<u64> = of(a).steps.iter().map(|(at, _)| at.as_nanos() / 1_000).collect();
    assert_eq!(starts, [1, 10, 13]);
    let text = found.to_string();
    assert!(text.contains("is queued behind rt on cpu0, where fair_server defers until 0.000040000"), "{text}");
}

/// `rt` waits behind `low` from 10 us on; `events` happen before that on CPU 0.
fn waits_behind_lower(preempt: &str, events: impl Fn(TaskId) -> Vec<(u64, TraceEvent)>) -> Why {
    let mut script = Script::new(1);
    let (low, rt) = (script.fair("low"), script.fifo("rt", 5));
    script.wake(0, 0, low).run(0, 0, None, Some(low));
    for (at, event) in events(low) {
        script.event(at, 0, event);
    }
    script.wake(10, 0, rt).event(10, 0, TraceEvent::NeedResched { by: CpuId(0) }).preempt(30, 0, low, rt);
    let mut trace = script.end(40);
    trace.meta.source = zerolag_trace::Source::Simulation;
    trace.meta.settings.push(("preempt".to_owned(), preempt.to_owned()));
    let found = all(&trace);
    let wait = found.waits.iter().find(|wait| found.name(wait.task) == "rt").expect("it waits for 20 us");
    let [(chain, time)] = &wait.causes[..] else { panic!("one cause: {wait:?}") };
    assert_eq!(*time, Duration::from_micros(20));
    match chain[..] {
        [Cause::Behind { task, why, .. }] if task == low => why,
        _ => panic!("{chain:?}"),
    }
}

#[test]
fn a_wait_behind_a_lower_rank_says_why() {
    let until = Instant::from_nanos(1_000_000);
    let server = |kind, state| vec![(1, TraceEvent::Server { kind, state })];
    let queued = ServerState::Queued { deadline: until };
    let (fair, ext) = (ServerKind::Fair, ServerKind::Ext);
    assert_eq!(waits_behind_lower("full", |_| server(fair, queued)), Why::Served { server: fair });
    assert_eq!(waits_behind_lower("full", |_| server(ext, queued)), Why::Switching);
    let syscall = |task| vec![(1, TraceEvent::Syscall { task, enters: true })];
    let in_kernel = |model| Why::InKernel { model };
    assert_eq!(waits_behind_lower("voluntary", syscall), in_kernel(Sparing::Voluntary));
    assert_eq!(waits_behind_lower("none", syscall), in_kernel(Sparing::None));
    assert_eq!(waits_behind_lower("full", syscall), Why::Switching);
    assert_eq!(waits_behind_lower("lazy", syscall), Why::Switching, "lazy spares fair tasks from fair tasks only");
    let section = |task| vec![(1, TraceEvent::NoPreempt { task, disables: Some(Disables::Interrupts) })];
    assert_eq!(waits_behind_lower("rt", section), Why::Disabled { disables: Disables::Interrupts });
    let irq = |_| vec![(1, TraceEvent::IrqEnter { irq: Irq::Device })];
    assert_eq!(waits_behind_lower("full", irq), Why::Interrupted);
}

/// The server defers until 40 us, and has no runtime left after 60 us.
#[test]
fn a_fair_task_waits_for_its_server() {
    let mut script = Script::new(1);
    let (a, rt) = (script.fair("a"), script.fifo("rt", 5));
    let until = Instant::from_nanos(40_000);
    let state = |state| TraceEvent::Server { kind: ServerKind::Fair, state };
    script.wake(0, 0, rt).run(0, 0, None, Some(rt)).event(0, 0, state(ServerState::Deferred { until }));
    script.wake(10, 0, a).event(30, 0, state(ServerState::Throttled { until })).preempt(50, 0, rt, a);
    let found = all(&script.end(60));
    let wait = found.waits.iter().find(|wait| wait.task == a).expect("it waits");
    let whys = wait.causes.iter().map(|(chain, time)| match chain[..] {
        [Cause::Behind { why, .. }] => (why, time.as_nanos() / 1_000),
        _ => panic!("{chain:?}"),
    });
    let server = ServerKind::Fair;
    let expected = [(Why::Defers { server, until }, 20), (Why::Exhausted { server, until }, 20)];
    assert_eq!(whys.collect::<Vec<_>>(), expected);
}

/// A recording begins while `a` runs: it is woken before it sleeps, and then sleeps.
#[test]
fn a_task_that_sleeps_does_not_wait() {
    let mut script = Script::new(2);
    let a = script.fair("a");
    script.wake(1, 0, a).run(2, 0, Some(a), None).wake(90, 0, a).run(95, 0, None, Some(a));
    let mut trace = script.end(100);
    trace.meta.source = zerolag_trace::Source::Text;
    let lengths: Vec<_> = all(&trace).waits.iter().map(|wait| wait.length().as_nanos() / 1_000).collect();
    assert_eq!(lengths, [5]);
}

#[test]
fn a_lock_has_its_name() {
    let mut script = Script::new(2);
    let (a, b) = (script.fair("a"), script.fair("b"));
    script.wake(0, 0, a).run(0, 0, None, Some(a)).wake(0, 1, b).run(0, 1, None, Some(b));
    script.event(0, 0, TraceEvent::TakeLock { task: a, lock: 3 });
    script.event(1, 1, TraceEvent::WaitLock { task: b, lock: 3, holder: Some(a) }).run(1, 1, Some(b), None);
    let mut trace = script.end(10);
    assert!(all(&trace).to_string().contains("waits for lock 3 held by a, which runs"));
    trace.meta.settings.push(Meta::lock_name(3, "inode"));
    assert!(all(&trace).to_string().contains("waits for lock `inode` held by a, which runs"));
}

#[test]
fn the_blocking_task_is_named() {
    let found = all(&two_hogs_and_a_fifo());
    let text = found.to_string();
    assert!(text.contains("is queued behind a on cpu0"), "{text}");
    assert!(found.waits.iter().any(|wait| found.name(wait.task) == "b"), "{text}");
}

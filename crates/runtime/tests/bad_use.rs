//! Wrong use of a runtime ends in an error, a panic with a reason, or a report, and never in
//! a hang.
#![expect(clippy::disallowed_methods, reason = "the runtime schedules by the real clock")]

mod common;

use common::{Gate, compute_until, ms, pass};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use zerolag_runtime::model::CpuMax;
use zerolag_runtime::{Builder, JoinError, SpawnError, sleep};

/// More reservations than there are CPUs: the one that does not fit is refused, and fits once
/// another has ended.
#[test]
fn reservations_beyond_the_cpus_are_refused() {
    let rt = Builder::new().cpus(1).processors(1.0).build().expect("threads");
    let gate = Gate::new();
    let first = rt.task().reserve(ms(60), ms(100)).spawn(pass(gate.clone())).expect("60 % fit");
    let refused = rt.task().reserve(ms(60), ms(100)).spawn(async {});
    let Err(SpawnError::Refused(error)) = refused else { panic!("120 % do not fit: {refused:?}") };
    assert!(error.to_string().contains("0.300 free (EBUSY)"), "{error}");
    gate.open();
    rt.block_on(first).expect("a result");
    // The bandwidth is given back at the 0-lag time of the last job, at most a period later.
    let again = Instant::now() + Duration::from_secs(20);
    let second = loop {
        match rt.task().reserve(ms(60), ms(100)).spawn(async {}) {
            Ok(task) => break task,
            Err(error) => assert!(Instant::now() < again, "{error}"),
        }
        std::thread::sleep(ms(5));
    };
    rt.block_on(second).expect("a result");
}

/// Quotas and reservations below what the clock can enforce are errors that say what would be
/// right.
#[test]
fn quotas_below_the_grain_are_refused() {
    let rt = Builder::new().cpus(1).build().expect("threads");
    for cpus in [0.000_9, 1e-12, 0.0, -1.0, f64::NAN, f64::INFINITY] {
        let error = rt.group("g").quota(cpus).create().expect_err("below 1 ms in 1 s, or no number");
        assert!(error.to_string().contains("quota"), "{cpus}: {error}");
    }
    let group = rt.group("g").quota(0.001).create().expect("1 ms in 1 s");
    for (quota, period) in [(500_u64, 100_000), (1_000, 500), (1_000, 2_000_000)] {
        let us = zerolag_runtime::model::Duration::from_micros;
        let max = CpuMax { quota: Some(us(quota)), period: us(period), ..CpuMax::UNLIMITED };
        group.set_max(max).expect_err("1 ms at least, a period of 1 ms to 1 s");
    }
    assert_eq!(group.max().period.as_nanos(), 1_000_000_000, "what is refused changes nothing");
    let refused = rt.task().reserve(Duration::from_nanos(500), ms(10)).spawn(async {});
    assert!(matches!(refused, Err(SpawnError::Refused(_))), "the kernel's least runtime is 1024 ns: {refused:?}");
}

/// The last handle of a group is dropped while tasks of it live: they keep the group, its limit
/// included, and it is removed with the last of them.
#[test]
fn a_group_lives_as_long_as_its_tasks() {
    let rt = Builder::new().cpus(1).groups(2).build().expect("threads");
    let gate = Gate::new();
    let group = rt.group("g").quota(0.5).period(ms(10)).create().expect("a group");
    let task = group.spawn(compute_until(&gate)).expect("room");
    drop(group);
    let usage = || rt.usage().into_iter().find(|(path, _)| path == "/g").map(|(_, usage)| usage);
    while usage().expect("its task lives").stat.nr_throttled < 3 {
        std::thread::sleep(ms(1));
    }
    gate.open();
    rt.block_on(task).expect("a result");
    while usage().is_some() {
        std::thread::sleep(ms(1));
    }
    rt.group("g").create().expect("the room of the first");
}

/// A poll sleeps in a system call on the only CPU: the CPU is handed over, and the poll is reported
/// with the place that started its task.
#[test]
fn a_poll_that_blocks_is_reported() {
    let reported = Arc::new(Mutex::new(Vec::new()));
    let reports = Arc::clone(&reported);
    let note = move |overrun: &zerolag_runtime::Overrun| reports.lock().expect("no panic").push(overrun.clone());
    let rt = Builder::new().cpus(1).on_overrun(ms(20), note).build().expect("threads");
    let (began, line) = (Gate::new(), line!() + 2);
    let begins = began.clone();
    let blocks = rt.task().name("blocks").spawn(async move {
        begins.open();
        std::thread::sleep(ms(300));
    });
    let blocks = blocks.expect("room");
    while !began.is_open() {
        std::thread::sleep(ms(1));
    }
    let other = rt.spawn(async { sleep(ms(1)).await }).expect("room");
    rt.block_on(other).expect("it runs meanwhile");
    assert!(!blocks.is_finished(), "the other task did not wait for the poll");
    rt.block_on(blocks).expect("a result");
    let reported = reported.lock().expect("no panic");
    let overrun = reported.iter().find(|overrun| &*overrun.task.name == "blocks").expect("it was too long");
    assert_eq!(overrun.task.spawned_at.line(), line);
    assert!(overrun.length >= ms(20), "{overrun:?}");
}

/// A task waits for its runtime, or for another one, in the way that blocks its thread: it panics
/// with the reason. A runtime inside a task works as long as the task awaits.
#[test]
fn a_task_cannot_block_on_a_runtime() {
    let rt = Arc::new(Builder::new().cpus(1).build().expect("threads"));
    let inner = Arc::clone(&rt);
    let task = rt.spawn(async move { inner.block_on(async {}) }).expect("room");
    let Err(JoinError::Panicked(with)) = rt.block_on(task) else { panic!("it blocks its CPU") };
    let text = with.downcast_ref::<&str>().expect("a text");
    assert!(text.contains("await"), "{text}");

    let task = rt.spawn(async {
        let inner = Builder::new().cpus(2).build().expect("threads");
        let value = inner.spawn(async { 7 }).expect("room").await.expect("a result");
        let blocks = catch_unwind(AssertUnwindSafe(|| inner.block_on(async {})));
        (value, blocks.is_err())
    });
    assert_eq!(rt.block_on(task.expect("room")).expect("a result"), (7, true));
}

/// The `block_on` of another executor does not panic: it blocks a poll like any system call. The
/// only CPU is handed over, and the poll is reported.
#[test]
fn the_block_on_of_another_executor_is_reported() {
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("threads");
    let reported = Arc::new(Mutex::new(Vec::new()));
    let reports = Arc::clone(&reported);
    let note = move |overrun: &zerolag_runtime::Overrun| reports.lock().expect("no panic").push(overrun.clone());
    let rt = Builder::new().cpus(1).reactor(tokio.handle().clone()).on_overrun(ms(20), note);
    let rt = rt.build().expect("threads");
    let (ends, is_over) = tokio::sync::oneshot::channel();
    let handle = tokio.handle().clone();
    let blocks = rt.task().name("blocks").spawn(async move { handle.block_on(is_over).expect("it is sent") });
    let other = rt.spawn(async move {
        sleep(ms(100)).await;
        ends.send(7).expect("it is received");
    });
    rt.block_on(other.expect("room")).expect("it runs meanwhile");
    assert_eq!(rt.block_on(blocks.expect("room")).expect("a result"), 7);
    let reported = reported.lock().expect("no panic");
    assert!(reported.iter().any(|overrun| &*overrun.task.name == "blocks"), "{reported:?}");
}

/// A forked process has none of the threads: starting a task is an error, waiting panics, and
/// dropping the runtime, or its shutdown, returns.
#[test]
fn a_fork_is_told_so() {
    let rt = Builder::new().cpus(2).build().expect("threads");
    let other = Builder::new().cpus(1).build().expect("threads");
    match fork::fork().expect("a process") {
        fork::Fork::Parent(child) => {
            let child = Pid::from_raw(child).expect("a process");
            let end = Instant::now() + Duration::from_secs(20);
            let status = loop {
                if let Some((_, status)) = waitpid(Some(child), WaitOptions::NOHANG).expect("our child") {
                    break status;
                }
                if Instant::now() > end {
                    kill_process(child, Signal::KILL).expect("our child");
                    panic!("the child hangs");
                }
                std::thread::sleep(ms(2));
            };
            assert_eq!(status.exit_status(), Some(0), "{status:?}");
        }
        fork::Fork::Child => {
            std::panic::set_hook(Box::new(|_| {}));
            let is_told = matches!(rt.spawn(async {}), Err(SpawnError::Forked));
            let waits = catch_unwind(AssertUnwindSafe(|| rt.block_on(async {})));
            drop(rt);
            let ended = other.shutdown(Duration::from_secs(1));
            let is_right = is_told && waits.is_err() && !ended.is_complete;
            std::process::exit(i32::from(!is_right));
        }
    }
    let task = rt.spawn(async { 7 }).expect("the parent goes on");
    assert_eq!(rt.block_on(task).expect("a result"), 7);
}

//! Functions of `spawn_blocking`: their results, their ends, and what they cost their group.
#![expect(clippy::disallowed_methods, reason = "the runtime schedules by the real clock")]

mod common;

use common::{Gate, ms};
use rustix::time::{ClockId, clock_gettime};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use zerolag_runtime::{Builder, JoinError, SpawnError, TaskState};

fn thread_time() -> Duration {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(used.tv_sec.unsigned_abs(), used.tv_nsec.unsigned_abs() as u32)
}

fn compute(length: Duration) {
    let until = thread_time() + length;
    while thread_time() < until {
        std::hint::spin_loop();
    }
}

fn block(gate: &Gate) {
    while !gate.is_open() {
        std::thread::sleep(ms(1));
    }
}

#[test]
fn results_and_panics_come_through_handles() {
    let rt = Builder::new().cpus(1).build().expect("threads");
    let adds = rt.spawn_blocking(|| 20 + 1).expect("room");
    assert_eq!(rt.block_on(adds).expect("a result"), 21);
    let panics = rt.spawn_blocking(|| panic!("on purpose")).expect("room");
    let error = rt.block_on(panics).expect_err("it panicked");
    assert_eq!(error.to_string(), "the task panicked: on purpose");
    let again = rt.spawn_blocking(|| 1).expect("room");
    assert_eq!(rt.block_on(again).expect("the thread goes on"), 1);
}

/// The CPU is free meanwhile, and no more run than allowed.
#[test]
fn they_block_no_cpu_and_are_bounded() {
    let rt = Builder::new().cpus(1).blocking_max(3).build().expect("threads");
    let (gate, running, most) = (Gate::new(), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let tasks: Vec<_> = (0..12)
        .map(|_| {
            let (gate, running, most) = (gate.clone(), Arc::clone(&running), Arc::clone(&most));
            let run = move || {
                most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                block(&gate);
                running.fetch_sub(1, Ordering::SeqCst);
            };
            rt.spawn_blocking(run).expect("room")
        })
        .collect();
    while running.load(Ordering::SeqCst) < 3 {
        std::thread::sleep(ms(1));
    }
    assert_eq!(rt.block_on(rt.spawn(async { 5 }).expect("room")).expect("the CPU is free"), 5);
    gate.open();
    for task in tasks {
        rt.block_on(task).expect("a result");
    }
    assert_eq!((most.load(Ordering::SeqCst), running.load(Ordering::SeqCst)), (3, 0));
}

/// One group fills the threads and the queue. The first function of another one starts at once: it
/// waited for the end of one of those, which can take seconds.
#[test]
fn a_group_does_not_keep_others_out() {
    let rt = Builder::new().cpus(1).blocking_max(2).build().expect("threads");
    let [many, few] = ["many", "few"].map(|name| rt.group(name).create().expect("a group"));
    let (gate, order) = (Gate::new(), Arc::new(Mutex::new(Vec::new())));
    let spawn = |group: &zerolag_runtime::Group, name: &'static str| {
        let (gate, order) = (gate.clone(), Arc::clone(&order));
        let run = move || {
            order.lock().expect("nobody panics").push(name);
            block(&gate);
        };
        group.spawn_blocking(run).expect("room")
    };
    let mut tasks: Vec<_> = (0..8).map(|_| spawn(&many, "many")).collect();
    while order.lock().expect("nobody panics").len() < 2 {
        std::thread::sleep(ms(1));
    }
    tasks.push(spawn(&few, "few"));
    let began = Instant::now();
    while order.lock().expect("nobody panics").len() < 3 && began.elapsed() < Duration::from_secs(10) {
        std::thread::sleep(ms(1));
    }
    let meanwhile = order.lock().expect("nobody panics").clone();
    gate.open();
    for task in tasks {
        rt.block_on(task).expect("a result");
    }
    assert_eq!(meanwhile, ["many", "many", "few"], "the first two still run");
}

/// A group has a bound of its own; others do not.
#[test]
fn a_group_can_have_a_bound() {
    let rt = Builder::new().cpus(1).blocking_max(4).build().expect("threads");
    let bounded = rt.group("bounded").blocking_max(2).create().expect("a group");
    let (gate, running, most) = (Gate::new(), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let spawn = |group: &zerolag_runtime::Group| {
        let (gate, running, most) = (gate.clone(), Arc::clone(&running), Arc::clone(&most));
        let run = move || {
            most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            block(&gate);
            running.fetch_sub(1, Ordering::SeqCst);
        };
        group.spawn_blocking(run).expect("room")
    };
    let mut tasks: Vec<_> = (0..6).map(|_| spawn(&bounded)).collect();
    while running.load(Ordering::SeqCst) < 2 || tasks.iter().any(|task| task.info().state != TaskState::Asleep) {
        std::thread::sleep(ms(1));
    }
    tasks.extend((0..2).map(|_| spawn(rt.root())));
    while running.load(Ordering::SeqCst) < 4 {
        std::thread::sleep(ms(1));
    }
    gate.open();
    for task in tasks {
        rt.block_on(task).expect("a result");
    }
    assert_eq!(most.load(Ordering::SeqCst), 4, "two of each");
}

/// 100 ms of CPU time at 0.2 CPUs take half a second.
#[test]
fn the_group_pays() {
    let rt = Builder::new().cpus(1).build().expect("threads");
    let tenant = rt.group("tenant").quota(0.2).period(ms(20)).create().expect("a group");
    let began = Instant::now();
    for _ in 0..5 {
        let task = tenant.spawn_blocking(|| compute(ms(20))).expect("room");
        rt.block_on(task).expect("a result");
    }
    let took = began.elapsed();
    // The quota of the first period is there at the start.
    assert!(took >= ms(400), "{took:?}");
    let used = tenant.usage().cpu;
    assert!(used >= ms(100) && used < ms(150), "{used:?}");
}

/// A library that calls `tokio::spawn` in a function with a runtime of one thread: what it starts
/// runs on that thread, at the group's expense.
#[test]
fn what_a_library_spawns_in_it_is_charged() {
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("threads");
    let rt = Builder::new().cpus(1).reactor(tokio.handle().clone()).build().expect("threads");
    let tenant = rt.group("tenant").create().expect("a group");
    let calls = tenant.spawn_blocking(|| {
        let own = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("drivers");
        own.block_on(async { tokio::spawn(async { compute(ms(30)) }).await.expect("a result") });
    });
    rt.block_on(calls.expect("room")).expect("a result");
    assert!(tenant.usage().cpu >= ms(30), "{:?}", tenant.usage());
}

/// A long function is charged while it runs: other tasks of its group wait meanwhile. There is one
/// CPU, as the one that pays is the one that is throttled.
#[test]
fn a_long_one_is_charged_while_it_runs() {
    let rt = Builder::new().cpus(1).build().expect("threads");
    let tenant = rt.group("tenant").quota(0.1).period(ms(20)).create().expect("a group");
    let gate = Gate::new();
    let goes_on = gate.clone();
    let long = tenant.spawn_blocking(move || while !goes_on.is_open() {});
    let rest = common::compute_until(&gate);
    let beside = rt.spawn(rest).expect("room"); // so that there are ticks
    while tenant.usage().cpu < ms(30) {
        std::thread::sleep(ms(1));
    }
    gate.open();
    rt.block_on(beside).expect("a result");
    let began = Instant::now();
    rt.block_on(tenant.spawn(async {}).expect("room")).expect("a result");
    assert!(began.elapsed() >= ms(50), "{:?}", began.elapsed());
    rt.block_on(long.expect("room")).expect("a result");
}

#[test]
fn an_abort_drops_one_that_waits() {
    let rt = Builder::new().cpus(1).blocking_max(1).build().expect("threads");
    let (gate, ran) = (Gate::new(), Gate::new());
    let holds = gate.clone();
    let first = rt.spawn_blocking(move || block(&holds)).expect("room");
    let (marks, kept) = (ran.clone(), Arc::new(()));
    let is_kept = Arc::downgrade(&kept);
    let second = rt.spawn_blocking(move || {
        let _kept = kept;
        marks.open();
    });
    let second = second.expect("room");
    second.abort();
    assert!(matches!(rt.block_on(second), Err(JoinError::Aborted)));
    assert!(is_kept.upgrade().is_none(), "the function was dropped");
    gate.open();
    rt.block_on(first).expect("a result");
    rt.block_on(rt.spawn_blocking(|| ()).expect("room")).expect("a result");
    assert!(!ran.is_open());
}

/// The end waits for the function that runs, drops those that wait, and refuses others.
#[test]
fn a_runtime_ends_with_functions_in_it() {
    let rt = Builder::new().cpus(1).blocking_max(1).build().expect("threads");
    let (gate, has_begun) = (Gate::new(), Gate::new());
    let (holds, begins) = (gate.clone(), has_begun.clone());
    let running = rt.spawn_blocking(move || {
        begins.open();
        block(&holds);
    });
    let (running, waiting) = (running.expect("room"), rt.spawn_blocking(|| ()).expect("room"));
    block(&has_begun);
    let root = rt.root().clone();
    let opens = std::thread::spawn(move || {
        std::thread::sleep(ms(20));
        gate.open();
    });
    drop(rt);
    opens.join().expect("no panic");
    assert!(running.is_finished() && waiting.is_finished());
    assert_eq!(root.spawn_blocking(|| ()).expect_err("it has ended"), SpawnError::Ended);
}

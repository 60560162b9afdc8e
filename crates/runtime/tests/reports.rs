//! What a runtime says about its tasks: names and places, polls that were too long, tasks that did
//! not end.
#![expect(clippy::disallowed_methods, reason = "the runtime schedules by the real clock")]

mod common;

use common::{Gate, ms, pass};
use std::future::pending;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use zerolag_runtime::{Builder, JoinError, Overrun, TaskState, checkpoint, sleep, timeout, yield_now};

#[test]
fn tasks_have_names_groups_and_places() {
    let rt = Builder::new().cpus(1).build().expect("threads");
    let inner = rt.group("outer").create().expect("a group").group("inner").create().expect("a group");
    let (line, task) = (line!(), inner.task().name("waits").spawn(pending::<()>()));
    let task = task.expect("room");
    while task.info().state != TaskState::Asleep {
        std::thread::sleep(ms(1));
    }
    let other = rt.spawn(pending::<()>()).expect("room");
    let tasks = rt.tasks();
    assert_eq!(tasks.iter().map(|task| &*task.name).collect::<Vec<_>>(), ["waits", ""]);
    assert_eq!(tasks.iter().map(|task| &*task.group).collect::<Vec<_>>(), ["/outer/inner", "/"]);
    assert_eq!((tasks[0].spawned_at.file(), tasks[0].spawned_at.line()), (file!(), line));
    let text = tasks[0].to_string();
    assert!(text.contains("waits") && text.contains("/outer/inner") && text.contains("asleep"), "{text}");
    drop(other);
}

/// A poll of 30 ms, with its CPU taken from it and without, and short ones.
#[test]
fn long_polls_are_reported() {
    for after in [None, Some(ms(2))] {
        let reports = Arc::new(Mutex::new(Vec::<Overrun>::new()));
        let there = Arc::clone(&reports);
        let report = move |overrun: &Overrun| there.lock().expect("nobody panics").push(overrun.clone());
        let rt = Builder::new().cpus(1).hand_off_after(after).on_overrun(ms(10), report).build().expect("threads");
        let line = line!() + 1;
        let long = rt.task().name("long").spawn(async {
            let began = Instant::now();
            while began.elapsed() < ms(30) {
                std::hint::spin_loop();
            }
        });
        let short = rt.task().name("short").spawn(async {
            for _ in 0..20 {
                sleep(ms(1)).await;
            }
        });
        rt.block_on(long.expect("room")).expect("a result");
        rt.block_on(short.expect("room")).expect("a result");
        drop(rt);
        let reports = reports.lock().expect("nobody panics");
        let long: Vec<_> = reports.iter().filter(|overrun| &*overrun.task.name == "long").collect();
        assert_eq!(long.len(), 1, "{reports:?}");
        assert!(long[0].length >= ms(30), "{long:?}");
        assert_eq!((long[0].task.spawned_at.file(), long[0].task.spawned_at.line()), (file!(), line));
    }
}

fn compute(length: Duration) {
    let began = Instant::now();
    while began.elapsed() < length {
        std::hint::spin_loop();
    }
}

/// A report says where the poll was when it became too long: between two calls of the runtime. The
/// poll passes others before and after, loses its CPU or keeps it, and the slow part is before the
/// first call, between two, or after the last.
#[test]
fn a_report_names_the_place_of_the_long_poll() {
    let text = |place: Option<&'static std::panic::Location<'static>>| place.map(|place| (place.file(), place.line()));
    for after in [None, Some(ms(2))] {
        let reports = Arc::new(Mutex::new(Vec::<Overrun>::new()));
        let there = Arc::clone(&reports);
        let report = move |overrun: &Overrun| there.lock().expect("nobody panics").push(overrun.clone());
        let rt = Builder::new().cpus(1).hand_off_after(after).on_overrun(ms(10), report).build().expect("threads");
        // Without another task no request to yield comes, and the CPU stays.
        let other = rt.spawn(async {
            for _ in 0..1_000 {
                sleep(ms(1)).await;
            }
        });
        let lines = line!();
        let tasks = [
            rt.task().name("first").spawn(async {
                compute(ms(40));
                sleep(ms(1)).await; // lines + 4
            }),
            rt.task().name("between").spawn(async {
                sleep(ms(1)).await;
                let lock = zerolag_runtime::Mutex::new(());
                let _held = lock.lock().await; // lines + 9
                compute(ms(40));
                checkpoint().await; // lines + 11
                compute(ms(1));
                yield_now().await;
            }),
            rt.task().name("last").spawn(async {
                let _ = zerolag_runtime::should_yield();
                timeout(ms(5), pending::<()>()).await.expect_err("it is pending"); // lines + 17
                compute(ms(40));
            }),
        ];
        for task in tasks {
            rt.block_on(task.expect("room")).expect("a result");
        }
        drop((rt, other));
        let reports = reports.lock().expect("nobody panics");
        let of = |name: &str| {
            let mut found = reports.iter().filter(|overrun| &*overrun.task.name == name);
            let first = found.next().unwrap_or_else(|| panic!("{name}: {reports:?}"));
            assert!(first.future.contains("a_report_names_the_place_of_the_long_poll"), "{first:?}");
            (text(first.from), text(first.to), first.to_string())
        };
        let at = |line: u32| Some((file!(), lines + line));
        let (first, between, last) = (of("first"), of("between"), of("last"));
        assert_eq!((first.0, first.1), (None, at(4)));
        assert_eq!((between.0, between.1), (at(9), at(11)));
        assert_eq!((last.0, last.1), (at(17), None));
        let file = file!();
        let place = format!("between {file}:{}:", lines + 9);
        assert!(between.2.contains(&place) && between.2.contains("between"), "{}", between.2);
    }
}

#[test]
fn a_report_can_panic() {
    let rt = Builder::new().cpus(1).on_overrun(ms(2), |_| panic!("on purpose")).build().expect("threads");
    let long = rt.spawn(async { std::thread::sleep(ms(20)) }).expect("room");
    rt.block_on(long).expect("a result");
    let began = Instant::now();
    while rt.stray_panics() == 0 {
        assert!(began.elapsed() < Duration::from_secs(10));
        std::thread::sleep(ms(1));
    }
    rt.block_on(rt.spawn(async { sleep(ms(1)).await }).expect("room")).expect("it goes on");
}

#[test]
fn threads_announce_themselves() {
    let (started, stopped) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (starts, stops) = (Arc::clone(&started), Arc::clone(&stopped));
    let builder = Builder::new().cpus(2).on_thread_start(move || {
        starts.fetch_add(1, Ordering::SeqCst);
    });
    let builder = builder.on_thread_stop(move || {
        stops.fetch_add(1, Ordering::SeqCst);
        panic!("on purpose");
    });
    let rt = builder.build().expect("threads");
    rt.block_on(rt.spawn_blocking(|| ()).expect("room")).expect("a result");
    drop(rt);
    // Two CPUs, the clock, and a thread that blocks.
    assert_eq!((started.load(Ordering::SeqCst), stopped.load(Ordering::SeqCst)), (4, 4));
}

#[test]
fn a_shutdown_waits_for_tasks() {
    let rt = Builder::new().cpus(2).build().expect("threads");
    let root = rt.root().clone();
    let task = rt.spawn(async move {
        sleep(ms(10)).await;
        // Cleaning up can take another task.
        root.spawn(sleep(ms(10))).expect("room").await.expect("a result");
        5
    });
    let task = task.expect("room");
    let outcome = rt.shutdown(Duration::from_secs(60));
    assert!(outcome.is_complete && outcome.unfinished.is_empty(), "{outcome}");
    assert!(task.is_finished());
    assert_eq!(outcome.to_string(), "all tasks have ended");
}

#[test]
fn a_shutdown_does_not_wait_forever() {
    let rt = Builder::new().cpus(2).build().expect("threads");
    let (gate, has_begun) = (Gate::new(), Gate::new());
    let (waits, begins) = (gate.clone(), has_begun.clone());
    let stuck = rt.task().name("stuck").spawn(async move {
        begins.open();
        while !waits.is_open() {
            std::hint::spin_loop();
        }
    });
    let asleep = rt.task().name("asleep").spawn(pending::<()>()).expect("room");
    let endless = rt.task().name("endless").spawn(pass(Gate::new())).expect("room");
    while !has_begun.is_open() {
        std::thread::sleep(ms(1));
    }
    let began = Instant::now();
    let outcome = rt.shutdown(ms(20));
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    let names: Vec<_> = outcome.unfinished.iter().map(|task| &*task.name).collect();
    assert_eq!(names, ["stuck", "asleep", "endless"]);
    assert_eq!((outcome.unfinished[0].state, outcome.is_complete), (TaskState::Polled, false));
    assert!(outcome.to_string().starts_with("3 tasks did not end"), "{outcome}");
    assert!(asleep.is_finished() && endless.is_finished());
    let stuck = stuck.expect("room");
    assert!(!stuck.is_finished());
    gate.open();
    while !stuck.is_finished() {
        std::thread::sleep(ms(1));
    }
}

/// What runs on after a shutdown is a function; its task has ended.
#[test]
fn a_shutdown_leaves_functions_behind() {
    let rt = Builder::new().cpus(1).build().expect("threads");
    let (gate, has_begun) = (Gate::new(), Gate::new());
    let (waits, begins) = (gate.clone(), has_begun.clone());
    let task = rt.task().name("blocks").spawn_blocking(move || {
        begins.open();
        while !waits.is_open() {
            std::thread::sleep(ms(1));
        }
    });
    while !has_begun.is_open() {
        std::thread::sleep(ms(1));
    }
    let outcome = rt.shutdown(ms(5));
    assert_eq!((outcome.unfinished.len(), outcome.is_complete), (1, false), "{outcome}");
    let task = task.expect("room");
    assert!(task.is_finished());
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    let polled = std::pin::pin!(task).poll(&mut cx);
    assert!(matches!(polled, std::task::Poll::Ready(Err(JoinError::Aborted))));
    gate.open();
}

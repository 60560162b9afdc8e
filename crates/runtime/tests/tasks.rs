//! Tasks: their results, their ends, their ids.
#![expect(clippy::disallowed_methods, reason = "the runtime schedules by the real clock")]

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use zerolag_runtime::model::TraceEvent;
use zerolag_runtime::{Builder, JoinError, SpawnError, checkpoint, sleep, yield_now};

#[test]
fn results_come_through_handles() {
    let rt = Builder::new().cpus(2).build().expect("threads");
    let inner = rt.spawn(async { 20 }).expect("room");
    let outer = rt.spawn(async { inner.await.expect("a result") + 1 }).expect("room");
    assert_eq!(rt.block_on(outer).expect("a result"), 21);
}

#[test]
fn many_tasks_in_little_room() {
    let rt = Builder::new().cpus(2).tasks(8).build().expect("threads");
    let count = Arc::new(AtomicU32::new(0));
    for _ in 0..2_000 {
        let count = Arc::clone(&count);
        let task = rt.spawn(async move {
            yield_now().await;
            count.fetch_add(1, Ordering::Relaxed)
        });
        rt.block_on(task.expect("room: the one before has ended")).expect("a result");
    }
    assert_eq!(count.load(Ordering::Relaxed), 2_000);
    let sleepers: Vec<_> = (0..8).map(|_| rt.spawn(sleep_long()).expect("room")).collect();
    assert_eq!(rt.spawn(async {}).expect_err("all room is taken"), SpawnError::Full);
    for sleeper in &sleepers {
        sleeper.abort();
    }
    for sleeper in sleepers {
        assert!(matches!(rt.block_on(sleeper), Err(JoinError::Aborted)));
    }
}

async fn sleep_long() {
    sleep(Duration::from_secs(3600)).await;
}

#[test]
fn a_panic_is_the_tasks_own() {
    let rt = Builder::new().cpus(1).build().expect("threads");
    let task = rt.spawn(async { panic!("on purpose") }).expect("room");
    let error = rt.block_on(task).expect_err("it panicked");
    assert_eq!(error.to_string(), "the task panicked: on purpose");
    assert_eq!(rt.block_on(rt.spawn(async { 1 }).expect("room")).expect("the CPU goes on"), 1);
}

#[test]
fn a_runtime_ends_with_tasks_in_it() {
    let rt = Builder::new().cpus(2).build().expect("threads");
    let sleeping = rt.spawn(sleep_long()).expect("room");
    let computing = rt
        .spawn(async {
            loop {
                checkpoint().await;
                yield_now().await;
            }
        })
        .expect("room");
    let root = rt.root().clone();
    drop(rt);
    assert!(sleeping.is_finished() && computing.is_finished());
    assert_eq!(root.spawn(async {}).expect_err("nobody would run it"), SpawnError::Ended);
}

#[test]
fn a_sleep_is_not_shorter_than_it_says() {
    let rt = Builder::new().cpus(1).build().expect("threads");
    let slept = rt.spawn(async {
        let began = Instant::now();
        let first = sleep(Duration::from_millis(20));
        let second = first.then(Duration::from_millis(20));
        first.await;
        second.await;
        began.elapsed()
    });
    let slept = rt.block_on(slept.expect("room")).expect("a result");
    assert!(slept >= Duration::from_millis(40), "{slept:?}");
}

#[test]
fn a_sleep_can_be_without_end() {
    let rt = Builder::new().cpus(1).build().expect("threads");
    let slept = rt.spawn(async {
        let mut ends = pin!(sleep(Duration::MAX));
        let mut ends_later = pin!(sleep(Duration::from_secs(1)).then(Duration::MAX));
        let mut cx = Context::from_waker(Waker::noop());
        (ends.as_mut().poll(&mut cx), ends_later.as_mut().poll(&mut cx))
    });
    assert_eq!(rt.block_on(slept.expect("room")).expect("a result"), (Poll::Pending, Poll::Pending));
}

#[test]
fn a_thread_that_waits_can_sleep() {
    let rt = Builder::new().cpus(1).build().expect("threads");
    let other = Builder::new().cpus(1).build().expect("threads");
    let began = Instant::now();
    rt.block_on(async {
        sleep(Duration::from_millis(10)).await;
        other.block_on(sleep_a_little());
        sleep(Duration::from_millis(10)).await;
    });
    assert!(began.elapsed() >= Duration::from_millis(30));
}

async fn sleep_a_little() {
    sleep(Duration::from_millis(10)).await;
}

#[test]
fn a_floor_without_a_period_is_refused() {
    let floor = |runtime, period| Builder::new().cpus(1).floor(runtime, period).build();
    let (ms, none) = (Duration::from_millis(1), Duration::ZERO);
    assert!(floor(ms, none).expect_err("no period").to_string().contains("floor"));
    assert!(floor(2 * ms, ms).expect_err("more than all").to_string().contains("floor"));
    assert!(floor(ms, Duration::MAX).is_err());
    assert!(floor(none, none).is_ok());
}

/// A task whose group owes its quota of ten seconds and more, and one that computes and is never
/// asked to yield.
#[test]
fn an_abort_does_not_wait() {
    let rt = Builder::new().cpus(2).build().expect("threads");
    let tenant = rt.group("tenant").quota(0.001).period(Duration::from_secs(1)).create().expect("a group");
    let compute = || async {
        loop {
            checkpoint().await;
        }
    };
    let throttled = tenant.spawn(async move {
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(30) {
            std::hint::spin_loop();
        }
        compute().await;
    });
    let throttled = throttled.expect("room");
    while tenant.usage().stat.nr_throttled == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(Duration::from_millis(30));
    let computing = rt.spawn(compute()).expect("room");
    for task in [throttled, computing] {
        let began = Instant::now();
        task.abort();
        assert!(matches!(rt.block_on(task), Err(JoinError::Aborted)));
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    }
}

#[test]
fn wakeups_from_everywhere_are_not_lost() {
    let rt = Builder::new().cpus(4).build().expect("threads");
    let pairs: Vec<_> = (0..16)
        .map(|_| {
            let (ping, pong) = (Arc::new(Baton::default()), Arc::new(Baton::default()));
            let (there, back) = (Arc::clone(&ping), Arc::clone(&pong));
            let a = rt.spawn(async move {
                for _ in 0..1_000 {
                    ping.give();
                    pong.take().await;
                }
            });
            let b = rt.spawn(async move {
                for _ in 0..1_000 {
                    there.take().await;
                    back.give();
                }
            });
            [a.expect("room"), b.expect("room")]
        })
        .collect();
    for task in pairs.into_iter().flatten() {
        rt.block_on(task).expect("a result");
    }
}

/// A flag that is handed from one task to another.
#[derive(Default)]
struct Baton {
    state: std::sync::Mutex<(bool, Option<Waker>)>,
}

impl Baton {
    fn give(&self) {
        let mut state = self.state.lock().expect("nobody panics");
        state.0 = true;
        if let Some(waker) = state.1.take() {
            drop(state);
            waker.wake();
        }
    }

    async fn take(&self) {
        std::future::poll_fn(|cx| {
            let mut state = self.state.lock().expect("nobody panics");
            if std::mem::take(&mut state.0) {
                return Poll::Ready(());
            }
            state.1 = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

/// A task that waits for another one to end runs next on that one's CPU. The CPU idled in between,
/// once per task, and the wakeup had to start it again.
#[test]
fn a_cpu_does_not_idle_between_a_task_and_the_one_that_waits_for_it() {
    const COUNT: usize = 200;
    let rt = Arc::new(Builder::new().cpus(1).trace().build().expect("threads"));
    let group = rt.group("group").create().expect("a group");
    let spawner = group.clone();
    let sum = group.spawn(async move {
        let mut sum = 0;
        for n in 0..COUNT {
            sum += spawner.spawn(async move { n }).expect("room").await.expect("a result");
        }
        sum
    });
    assert_eq!(rt.block_on(sum.expect("room")).expect("a result"), COUNT * (COUNT - 1) / 2);
    let records = rt.take_trace().records;
    let idles = records.iter().filter(|record| matches!(record.event, TraceEvent::Switch { next: None, .. })).count();
    // A poll that lasts until a tick is woken by the clock.
    assert!(idles < COUNT / 4, "the CPU idled {idles} times");
}

/// Tasks that wake at the same time for a short poll: most ride on the turn of another one. Each
/// was placed, picked, switched to and left before, which were five calls and more.
#[test]
fn tasks_that_wake_together_share_turns() {
    const TASKS: u32 = 1_000;
    const ROUNDS: u32 = 20;
    let rt = Builder::new().cpus(1).record(1_000_000).build().expect("threads");
    let spawner = rt.root().clone();
    let starts = rt.spawn(async move {
        let first = sleep(Duration::from_millis(50));
        let each = |_| {
            let mut waits = first.then(Duration::ZERO);
            let task = spawner.spawn(async move {
                for _ in 0..ROUNDS {
                    let next = waits.then(Duration::from_millis(20));
                    waits.await;
                    waits = next;
                }
            });
            task.expect("room")
        };
        (0..TASKS).map(each).collect::<Vec<_>>()
    });
    for task in rt.block_on(starts.expect("room")).expect("a result") {
        rt.block_on(task).expect("a result");
    }
    let recording = rt.into_recording().expect("it was asked for");
    assert!(recording.len() < (2 * TASKS * ROUNDS) as usize, "{} wakeups with {recording:?}", TASKS * ROUNDS);
    recording.replay().expect("riders leave calls out, no results");
}

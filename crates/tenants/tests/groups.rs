//! Futures in groups, on tokio of every flavour: what they may do, and what their groups are
//! charged for.
#![expect(clippy::disallowed_methods, reason = "polls take real time")]

use rustix::time::{ClockId, clock_gettime};
use std::cell::Cell;
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::task::{LocalSet, yield_now};
use zerolag_tenants::{Builder, Group, JoinError, Runtime, SpawnError, spawn};

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Uses CPU time of this thread, whatever else runs on the machine.
fn burn(time: Duration) {
    let used = || {
        let used = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(used.tv_sec.unsigned_abs(), used.tv_nsec.unsigned_abs() as u32)
    };
    let end = used() + time;
    while used() < end {
        std::hint::spin_loop();
    }
}

fn runtime() -> Runtime {
    Builder::new().build().expect("no second runtime")
}

fn limited(rt: &Runtime, quota: f64) -> Group {
    rt.group("acme").quota(quota).create().expect("a group")
}

/// Asserts that a length of CPU time is charged, and at most a fifth and 1 ms more.
#[track_caller]
fn assert_charged(group: &Group, least: Duration) {
    let cpu = group.usage().cpu;
    assert!(least <= cpu && cpu <= least.mul_f64(1.2) + ms(1), "{cpu:?} of {least:?}");
}

/// 30 ms of a quota of 10 ms in 100 ms are paid for by two periods, and time that is paused passes
/// at once.
#[tokio::test(start_paused = true)]
async fn a_debt_is_paid_in_paused_time() {
    let (rt, real) = (runtime(), Instant::now());
    let acme = limited(&rt, 0.1);
    let began = tokio::time::Instant::now();
    acme.spawn(async {
        burn(ms(35));
        yield_now().await;
        burn(ms(60_000) / 1_000_000);
    })
    .expect("a task")
    .await
    .expect("a result");
    let took = began.elapsed();
    assert!(took >= ms(200) && took <= ms(300), "{took:?}: the third period has ended");
    assert_charged(&acme, ms(35));
    let stat = acme.usage().stat;
    assert_eq!(stat.nr_throttled, 3);
    assert!(acme.usage().throttled() >= ms(200), "{stat:?}");
    // A minute of waiting for quota takes no minute.
    let long = rt.group("long").quota(0.1).create().expect("a group");
    let began = tokio::time::Instant::now();
    for _ in 0..6 {
        long.wrap(async { burn(ms(20)) }).await;
    }
    assert!(began.elapsed() >= ms(900), "{:?}", began.elapsed());
    assert!(real.elapsed() < Duration::from_secs(60));
}

#[tokio::test]
async fn a_local_set_runs_futures_that_are_not_send() {
    let rt = runtime();
    let acme = limited(&rt, 0.5);
    let count = Rc::new(Cell::new(0));
    let tasks = LocalSet::new();
    let inner = Rc::clone(&count);
    let done = tasks.run_until(async {
        let of = acme.clone();
        let outer = acme.spawn_local(async move {
            for _ in 0..3 {
                let inner = Rc::clone(&inner);
                let part = of.spawn_local(async move {
                    yield_now().await;
                    burn(ms(2));
                    inner.set(inner.get() + 1);
                    Group::current().expect("it is in a group").path()
                });
                assert_eq!(part.await.expect("a result"), "/acme");
            }
        });
        outer.await
    });
    done.await.expect("a result");
    assert_eq!(count.get(), 3);
    assert_charged(&acme, ms(6));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_of_tasks_stay_in_the_group() {
    let rt = runtime();
    let acme = rt.group("acme").create().expect("a group");
    let below = acme.group("below").create().expect("a group");
    let task = below.spawn(async {
        let child = spawn(async {
            let grandchild = spawn(async {
                burn(ms(5));
                Group::current().expect("a group").path()
            });
            grandchild.expect("a group").await.expect("a result")
        });
        let path = child.expect("a group").await.expect("a result");
        let escaped = tokio::spawn(async { Group::current().is_none() });
        (path, escaped.await.expect("a result"))
    });
    let (path, escaped) = task.expect("a task").await.expect("a result");
    assert_eq!(path, "/acme/below");
    assert!(escaped, "tokio's own spawn knows no groups");
    assert_charged(&below, ms(5));
    assert_charged(&acme, ms(5));
    assert_charged(rt.root(), ms(5));
    assert!(matches!(spawn(async {}), Err(SpawnError::Outside)));
    drop((below, acme));
    assert_eq!(rt.groups().len(), 1);
    assert_charged(rt.root(), ms(5));
}

#[tokio::test]
async fn a_group_inside_of_another_is_charged_alone() {
    let rt = runtime();
    let [outer, inner] = ["outer", "inner"].map(|name| rt.group(name).create().expect("a group"));
    let of = inner.clone();
    outer
        .wrap(async move {
            burn(ms(4));
            of.wrap(async {
                burn(ms(10));
                assert_eq!(Group::current().expect("a group").name(), "inner");
            })
            .await;
            assert_eq!(Group::current().expect("a group").name(), "outer");
            burn(ms(4));
        })
        .await;
    assert_charged(&outer, ms(8));
    assert_charged(&inner, ms(10));
    assert!(Group::current().is_none());
}

struct BurnsWhenDropped(Arc<AtomicUsize>);

impl Drop for BurnsWhenDropped {
    fn drop(&mut self) {
        burn(ms(10));
        let is_inside = Group::current().is_some_and(|group| group.name() == "acme");
        self.0.fetch_add(usize::from(is_inside), Ordering::Relaxed);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn destructors_are_charged_and_do_not_wait_for_quota() {
    let rt = runtime();
    let acme = limited(&rt, 0.01);
    let dropped = Arc::new(AtomicUsize::new(0));
    let holds = || BurnsWhenDropped(Arc::clone(&dropped));
    // At the end, by an abort while it waits, by a panic, and without a poll at all.
    let held = holds();
    acme.spawn(async move { drop(held) }).expect("a task").await.expect("a result");
    let held = holds();
    let throttled = acme.spawn(async move {
        yield_now().await;
        drop(held);
    });
    let throttled = throttled.expect("a task").abort_on_drop();
    drop(throttled);
    while dropped.load(Ordering::Relaxed) < 2 {
        yield_now().await;
    }
    drop(acme.wrap(std::future::ready(holds())));
    acme.set_quota(None).expect("no limit is in range");
    let held = holds();
    let panics = acme.spawn(async move {
        let _held = held;
        // Without the hook: a backtrace would be charged, too.
        std::panic::resume_unwind(Box::new("on purpose"));
    });
    assert!(matches!(panics.expect("a task").await, Err(JoinError::Panicked(_))));
    assert_eq!(dropped.load(Ordering::Relaxed), 4);
    assert_charged(&acme, ms(40));
    assert!(Group::current().is_none(), "a panic leaves its group");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_aborted_task_leaves_the_queue_to_the_others() {
    let rt = runtime();
    let acme = rt.group("acme").quota(0.2).period(ms(20)).create().expect("a group");
    let ran = Arc::new(AtomicUsize::new(0));
    let tasks: Vec<_> = (0..60)
        .map(|_| {
            let ran = Arc::clone(&ran);
            acme.spawn(async move {
                burn(ms(1));
                ran.fetch_add(1, Ordering::Relaxed);
            })
            .expect("a task")
        })
        .collect();
    let mut results = [0, 0];
    for (n, task) in tasks.into_iter().enumerate() {
        if n % 2 == 0 {
            task.abort();
        }
        results[usize::from(task.await.is_ok())] += 1;
    }
    assert_eq!(results[0] + results[1], 60);
    assert!(results[1] >= 30, "the others all end: {results:?}");
    assert_eq!(ran.load(Ordering::Relaxed), results[1]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_that_is_removed_wakes_all() {
    let rt = runtime();
    let acme = rt.group("acme").quota(0.001).period(Duration::from_secs(1)).create().expect("a group");
    acme.wrap(async { burn(ms(50)) }).await;
    let tasks: Vec<_> = (0..100).map(|_| acme.spawn(async { burn(ms(1) / 100) }).expect("a task")).collect();
    yield_now().await;
    let began = Instant::now();
    acme.set_quota(None).expect("no limit is in range");
    for task in tasks {
        task.await.expect("a result");
    }
    assert!(began.elapsed() < Duration::from_secs(40), "50 periods are owed");
}

/// A future that waits for quota and is kept without being polled holds no other up.
#[tokio::test(start_paused = true)]
async fn a_future_that_is_not_polled_is_passed_over() {
    let rt = runtime();
    let acme = limited(&rt, 0.1);
    acme.wrap(async { burn(ms(15)) }).await;
    let mut kept = std::pin::pin!(acme.wrap(async {}));
    let first = std::future::poll_fn(|cx| std::task::Poll::Ready(kept.as_mut().poll(cx).is_pending()));
    assert!(first.await, "it waits for quota, as the first");
    let others: Vec<_> = (0..3).map(|_| acme.spawn(async {}).expect("a task")).collect();
    let all = async {
        for other in others {
            other.await.expect("a result");
        }
    };
    tokio::time::timeout(ms(2000), all).await.expect("the others go on");
    kept.await;
}

/// The same while it waits for its turn.
#[tokio::test]
async fn a_future_that_waits_for_its_turn_and_is_not_polled_is_passed_over() {
    let rt = runtime();
    let [acme, other] = ["acme", "other"].map(|name| rt.group(name).create().expect("a group"));
    let mut kept = std::pin::pin!(acme.wrap(async {}));
    let first = std::future::poll_fn(|cx| std::task::Poll::Ready(kept.as_mut().poll(cx).is_pending()));
    assert!(first.await, "it looks what else there is to do");
    for group in [&acme, &other, &acme] {
        let task = group.spawn(async { yield_now().await });
        tokio::time::timeout(Duration::from_secs(20), task.expect("a task")).await.expect("it runs").expect("a result");
    }
    kept.await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blocking_functions_are_charged_and_wait_for_quota() {
    let rt = runtime();
    let acme = limited(&rt, 0.5);
    let run = acme.spawn_blocking(|| {
        burn(ms(120));
        Group::current().map(|group| group.path())
    });
    assert_eq!(run.expect("a task").await.expect("a result").as_deref(), Some("/acme"));
    assert_charged(&acme, ms(120));
    let began = Instant::now();
    acme.spawn_blocking(|| ()).expect("a task").await.expect("a result");
    assert!(began.elapsed() >= ms(20), "70 ms are owed, a period pays 50: {:?}", began.elapsed());
    let panics = acme.spawn_blocking(|| panic!("on purpose")).expect("a task").await;
    assert!(matches!(panics, Err(JoinError::Panicked(_))));
}

/// Two groups that compute on one thread, in polls of different lengths.
#[tokio::test]
async fn weights_divide_a_thread() {
    let rt = runtime();
    let is_over = Arc::new(AtomicBool::new(false));
    let mut tasks = Vec::new();
    let groups: Vec<_> = [(300, 50), (100, 700)]
        .into_iter()
        .map(|(weight, length)| {
            let group = rt.group(format!("w{weight}")).weight(weight).create().expect("a group");
            for _ in 0..3 {
                let is_over = Arc::clone(&is_over);
                let computes = async move {
                    while !is_over.load(Ordering::Relaxed) {
                        burn(Duration::from_micros(length));
                        yield_now().await;
                    }
                };
                tasks.push(group.spawn(computes).expect("a task"));
            }
            group
        })
        .collect();
    while rt.root().usage().cpu < ms(600) {
        tokio::time::sleep(ms(20)).await;
    }
    is_over.store(true, Ordering::Relaxed);
    let used: Vec<f64> = groups.iter().map(|group| group.usage().cpu.as_secs_f64()).collect();
    for task in tasks {
        task.await.expect("a result");
    }
    let ratio = used[0] / used[1];
    assert!((2.5..=3.5).contains(&ratio), "weights of 300 and 100: {used:?}");
}

/// A group that has the thread for itself uses it, whatever weight idle groups have.
#[tokio::test]
async fn a_thread_without_other_work_is_used() {
    let rt = runtime();
    let small = rt.group("small").weight(1).create().expect("a group");
    let large = rt.group("large").weight(10_000).create().expect("a group");
    large.wrap(async { burn(ms(1)) }).await;
    let turns = Arc::new(AtomicUsize::new(0));
    let counts = Arc::clone(&turns);
    let computes = small.spawn(async move {
        for _ in 0..500 {
            burn(Duration::from_micros(20));
            yield_now().await;
            counts.fetch_add(1, Ordering::Relaxed);
        }
    });
    // A task without a group on the same thread: how many of its polls does one of the others take?
    let mut passes = 0_usize;
    while turns.load(Ordering::Relaxed) < 500 {
        yield_now().await;
        passes += 1;
    }
    computes.expect("a task").await.expect("a result");
    assert!(passes < 1000, "{passes} passes for 500 polls");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_with_long_polls_moves_to_the_second_runtime() {
    let rt = Builder::new().second_runtime(1, 19).build().expect("threads");
    let acme = rt.group("acme").create().expect("a group");
    let thread = || std::thread::current().name().map(str::to_owned);
    let first = acme.spawn(async move {
        burn(ms(10));
        thread()
    });
    assert_ne!(first.expect("a task").await.expect("a result").as_deref(), Some("zerolag-beside"));
    let second = acme.spawn(async move { (thread(), rustix::process::getpriority_process(None)) });
    let (name, nice) = second.expect("a task").await.expect("a result");
    assert_eq!((name.as_deref(), nice), (Some("zerolag-beside"), Ok(19)));
    let other = rt.group("other").create().expect("a group").spawn(async move { thread() });
    assert_ne!(other.expect("a task").await.expect("a result").as_deref(), Some("zerolag-beside"));
    let always = rt.group("always").beside().create().expect("a group").spawn(async move { thread() });
    assert_eq!(always.expect("a task").await.expect("a result").as_deref(), Some("zerolag-beside"));
}

/// A worker of tokio that its driver wakes for one task polls it without waking another worker, so
/// no timer and no socket wakes anything until that poll ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn timers_and_sockets_are_served_beside_a_long_poll() {
    let rt = runtime();
    let acme = limited(&rt, 10.0);
    acme.wrap(async { burn(ms(2)) }).await; // Its polls are long.
    for _ in 0..20 {
        let rings = Arc::new(AtomicBool::new(false));
        let (rung, heard) = (Arc::clone(&rings), Arc::clone(&rings));
        let alarm = tokio::spawn(async move {
            tokio::time::sleep(ms(6)).await;
            rung.store(true, Ordering::Release);
        });
        let poll = acme.spawn(async move {
            tokio::time::sleep(ms(3)).await;
            let gives_up = Instant::now() + ms(20_000);
            while !heard.load(Ordering::Acquire) && Instant::now() < gives_up {
                std::hint::spin_loop();
            }
            heard.load(Ordering::Acquire)
        });
        assert!(poll.expect("a task").await.expect("a result"), "no timer was served in 20 s of a poll");
        alarm.await.expect("no panic");
    }
}

/// Two groups of a name would have two limits.
#[tokio::test]
async fn there_is_one_group_of_a_name() {
    let rt = runtime();
    let acme = limited(&rt, 0.1);
    let refused = rt.group("acme").create().expect_err("there is one");
    assert_eq!(refused.to_string(), "there is a group /acme already");
    let below = acme.group("acme").create().expect("it is another");
    assert_eq!(rt.root().child("acme").and_then(|acme| acme.child("acme")).expect("both live").path(), "/acme/acme");
    drop((acme, below));
    assert!(rt.root().child("acme").is_none(), "it is removed with its last handle");
    limited(&rt, 0.2);
}

#[test]
fn what_cannot_be_set_is_refused() {
    let rt = runtime();
    let refused = |made: Result<Group, _>| made.err().map(|error: zerolag_tenants::GroupSetError| error.to_string());
    assert_eq!(refused(rt.group("a").weight(0).create()).as_deref(), Some("weight 0 is outside 1..=10000"));
    assert_eq!(refused(rt.group("a").quota(-1.0).create()).as_deref(), Some("a quota of -1 CPUs is none"));
    assert!(refused(rt.group("a").quota(0.5).period(ms(2000)).create()).is_some());
    assert!(rt.root().set_quota(Some(0.5)).is_err() && rt.root().set_weight(5).is_err());
    assert_eq!(rt.group("a").quota(0.002).create().expect("a group").max().period.as_nanos(), 500_000_000);
    assert!(matches!(rt.spawn(async {}), Err(SpawnError::NoReactor)));
    let tokio = tokio::runtime::Runtime::new().expect("threads");
    let rt = Builder::new().reactor(tokio.handle().clone()).build().expect("no second runtime");
    let task = rt.spawn(async { 7 }).expect("a task");
    assert_eq!(tokio.block_on(task).expect("a result"), 7);
}

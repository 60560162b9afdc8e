//! Tasks that do not outlive their owner, and waits that end.
#![expect(clippy::disallowed_methods, reason = "the runtime schedules by the real clock")]

mod common;

use common::ms;
use std::future::{Future, pending};
use std::sync::Arc;
use std::time::{Duration, Instant};
use zerolag_runtime::{
    Builder, Elapsed, Group, JoinError, JoinSet, SpawnError, interval, sleep, spawn, timeout, yield_now,
};

#[test]
fn a_dropped_owner_aborts() {
    let rt = Builder::new().cpus(1).build().expect("threads");
    let (kept, gone) = (Arc::new(()), Arc::new(()));
    let (keeps, goes) = (Arc::clone(&kept), Arc::clone(&gone));
    let wait = |with: Arc<()>| async move {
        pending::<()>().await;
        drop(with);
    };
    let kept_task = rt.spawn(wait(keeps)).expect("room").abort_on_drop().detach();
    drop(rt.spawn(wait(goes)).expect("room").abort_on_drop());
    while Arc::strong_count(&gone) > 1 {
        std::thread::sleep(ms(1));
    }
    rt.block_on(rt.spawn(yield_now()).expect("room")).expect("a result");
    assert_eq!((Arc::strong_count(&kept), kept_task.is_finished()), (2, false));
}

#[test]
fn a_set_returns_each_result_once() {
    let rt = Builder::new().cpus(2).build().expect("threads");
    let groups = ["a", "b"].map(|name| rt.group(name).create().expect("a group"));
    let mut set = JoinSet::new();
    for n in 0..100_u64 {
        let future = async move {
            sleep(Duration::from_micros(n * 10)).await;
            assert!(n != 50, "on purpose");
            n
        };
        set.spawn(groups[n as usize % 2].task(), future).expect("room");
    }
    let (mut sum, mut panics) = (0, 0);
    rt.block_on(async {
        while let Some(result) = set.join_next().await {
            match result {
                Ok(n) => sum += n,
                Err(JoinError::Panicked(_)) => panics += 1,
                Err(error) => panic!("{error}"),
            }
        }
    });
    assert_eq!((sum, panics, set.len()), (4950 - 50, 1, 0));
}

#[test]
fn a_set_that_is_dropped_aborts_its_tasks() {
    let rt = Builder::new().cpus(2).build().expect("threads");
    let token = Arc::new(());
    let spawn_into = |set: &mut JoinSet<()>| {
        for _ in 0..10 {
            let held = Arc::clone(&token);
            let future = async move {
                pending::<()>().await;
                drop(held);
            };
            set.spawn(rt.task(), future).expect("room");
        }
    };
    let mut set = JoinSet::new();
    spawn_into(&mut set);
    // A wait that is dropped takes nothing with it.
    let waited = rt.block_on(async { timeout(ms(1), set.join_next()).await });
    assert!(matches!(waited, Err(Elapsed)));
    assert_eq!(set.len(), 10);
    rt.block_on(set.shutdown());
    assert_eq!((set.len(), Arc::strong_count(&token)), (0, 1));
    spawn_into(&mut set);
    drop(set);
    while Arc::strong_count(&token) > 1 {
        std::thread::sleep(ms(1));
    }
    let mut set = JoinSet::new();
    spawn_into(&mut set);
    set.detach_all();
    drop(set);
    rt.block_on(rt.spawn(yield_now()).expect("room")).expect("a result");
    assert_eq!(Arc::strong_count(&token), 11);
}

#[test]
fn a_timeout_ends_a_wait() {
    let rt = Builder::new().cpus(1).build().expect("threads");
    let task = rt.spawn(async {
        let began = Instant::now();
        assert_eq!(timeout(ms(20), pending::<()>()).await, Err(Elapsed));
        assert!(began.elapsed() >= ms(20));
        assert_eq!(timeout(Duration::ZERO, async { 5 }).await, Ok(5));
        assert_eq!(timeout(Duration::MAX, sleep(ms(1))).await, Ok(()));
    });
    rt.block_on(task.expect("room")).expect("a result");
}

/// Ticks lie on a grid, and those that were missed are counted.
#[test]
fn an_interval_does_not_drift() {
    let rt = Builder::new().cpus(1).build().expect("threads");
    let task = rt.spawn(async {
        let began = Instant::now();
        let mut ticks = interval(ms(10));
        let mut passed = 0;
        for round in 0..4 {
            passed += 1 + ticks.tick().await;
            assert!(began.elapsed() >= ms(10) * passed as u32, "tick {passed} at {:?}", began.elapsed());
            if round == 1 {
                std::thread::sleep(ms(35));
            }
        }
        (passed, began.elapsed())
    });
    let (passed, elapsed) = rt.block_on(task.expect("room")).expect("a result");
    // The late one covers three or four ticks; the following one is on the grid.
    assert!(passed >= 6, "{passed}");
    assert!(elapsed < ms(10) * (passed as u32 + 1) + ms(500), "{passed} ticks in {elapsed:?}");
}

#[test]
#[should_panic(expected = "the period of an interval must not be zero")]
fn an_interval_has_a_period() {
    let _ = interval(Duration::ZERO);
}

/// What a handler starts stays in its group: tasks, their tasks, functions that block, destructors.
/// Outside there is no group, and `spawn` says so.
#[test]
fn a_group_is_inherited() {
    let rt = Builder::new().cpus(2).build().expect("threads");
    let acme = rt.group("acme").quota(1.5).create().expect("a group");
    let path = || Group::current().map(|group| group.path());
    let found = acme.spawn(async move {
        let below =
            spawn(async move { (path(), spawn(async move { path() }).expect("room").await.expect("a result")) });
        let below = below.expect("room").await.expect("a result");
        let group = Group::current().expect("it is in one");
        let blocking = group.spawn_blocking(path).expect("room").await.expect("a result");
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let dropped = OnDrop(Some(sender), path);
        let waits = spawn(async move {
            let _dropped = dropped;
            pending::<()>().await;
        });
        let waits = waits.expect("room");
        yield_now().await;
        waits.abort();
        let _ = waits.await;
        [below.0, below.1, blocking, receiver.await.expect("it was dropped")]
    });
    let found = rt.block_on(found.expect("room")).expect("a result");
    assert_eq!(found, [(); 4].map(|()| Some("/acme".to_owned())));
    assert_eq!((path(), spawn(async {}).err()), (None, Some(SpawnError::Outside)));
    assert_eq!(rt.block_on(async { path() }), None);
}

/// Sends the group in which it is dropped.
struct OnDrop(Option<tokio::sync::oneshot::Sender<Option<String>>>, fn() -> Option<String>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        let path = (self.1)();
        self.0.take().expect("it is dropped once").send(path).expect("the test waits");
    }
}

/// The connection tasks of an HTTP/2 client or server are started by an executor that the library
/// is given: one of a few lines keeps them in a group.
#[test]
fn a_library_with_an_executor_stays_in_a_group() {
    #[derive(Clone)]
    struct InGroup(Group);
    impl<F> hyper::rt::Executor<F> for InGroup
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        fn execute(&self, future: F) {
            drop(self.0.spawn(future));
        }
    }
    let rt = Builder::new().cpus(1).build().expect("threads");
    let acme = rt.group("acme").create().expect("a group");
    let (sender, receiver) = std::sync::mpsc::channel();
    let send = async move { sender.send(Group::current().map(|group| group.path())).expect("the test waits") };
    hyper::rt::Executor::execute(&InGroup(acme), send);
    assert_eq!(receiver.recv().expect("it ran"), Some("/acme".to_owned()));
}

/// Two groups of one name would have two limits, also where threads create them at the same time.
#[test]
fn threads_that_create_one_name_get_one_group() {
    const THREADS: usize = 4;
    let rt = Builder::new().cpus(1).groups(8).build().expect("threads");
    for round in 0..200 {
        let start = std::sync::Barrier::new(THREADS);
        let create = || {
            start.wait();
            rt.group("tenant").quota(0.5).create()
        };
        let made: Vec<_> = std::thread::scope(|scope| {
            let threads = [(); THREADS].map(|()| scope.spawn(create));
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        let refused: Vec<_> = made.iter().filter_map(|made| made.as_ref().err()).collect();
        assert_eq!(refused.len(), THREADS - 1, "round {round}");
        assert!(refused.iter().all(|error| error.to_string() == "there is a group /tenant already"), "{refused:?}");
        assert!(rt.root().child("tenant").is_some(), "round {round}");
    }
}

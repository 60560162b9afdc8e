//! A little of everything on real threads, so small that an interpreter can run it: `./x miri`
//! does so under Miri, which finds data races and undefined behaviour in the libraries below.

mod common;

use common::ms;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;
use zerolag_runtime::model::RtPriority;
use zerolag_runtime::{Builder, JoinError, JoinSet, Mutex, checkpoint, sleep, timeout, yield_now};

#[test]
fn tasks_wake_lock_end_and_panic() {
    let rt = Builder::new().cpus(2).tasks(16).groups(4).build().expect("threads");
    let group = rt.group("tenant").weight(200).create().expect("a group");
    let lock = Arc::new(Mutex::new(0));
    let mut tasks = Vec::new();
    for n in 0..4 {
        let lock = Arc::clone(&lock);
        let builder = if n == 0 { rt.task().fifo(RtPriority::MIN) } else { group.task() };
        let task = builder.spawn(async move {
            for _ in 0..3 {
                let mut value = lock.lock().await;
                yield_now().await;
                *value += 1;
                drop(value);
                checkpoint().await;
            }
            n
        });
        tasks.push(task.expect("room"));
    }
    for (n, task) in tasks.into_iter().enumerate() {
        assert_eq!(rt.block_on(task).expect("a result"), n);
    }
    assert_eq!(*rt.block_on(lock.lock()), 12);

    let endless = rt.spawn(pending::<()>()).expect("room");
    endless.abort();
    assert!(matches!(rt.block_on(endless), Err(JoinError::Aborted)));
    // A panic is raised without its message: a hook would print it, and symbols take an interpreter
    // minutes.
    let panics = rt.spawn(async { std::panic::resume_unwind(Box::new("on purpose")) }).expect("room");
    let panicked: Result<(), _> = rt.block_on(panics);
    assert!(matches!(panicked, Err(JoinError::Panicked(_))));
    assert!(rt.shutdown(Duration::from_secs(60)).is_complete);
}

#[test]
fn sleeps_relays_and_functions_end() {
    let rt = Builder::new().cpus(1).tasks(16).groups(4).build().expect("threads");
    let limited = rt.group("limited").quota(0.5).period(ms(10)).create().expect("a group");
    let root = rt.root().clone();
    let task = limited.spawn(async move {
        // Each is started and waited for: the turn is passed on.
        let mut sum = 0;
        for n in 0..3 {
            sum += root.spawn(async move { n }).expect("room").await.expect("a result");
        }
        sleep(ms(1)).await;
        let late = timeout(ms(1), pending::<()>()).await.is_err();
        let mut set = JoinSet::new();
        set.spawn(root.task(), yield_now()).expect("room");
        while let Some(ended) = set.join_next().await {
            ended.expect("a result");
        }
        (sum, late, root.spawn_blocking(|| 7).expect("room").await.expect("a result"))
    });
    assert_eq!(rt.block_on(task.expect("room")).expect("a result"), (3, true, 7));
    drop(rt);
}

//! A little of everything, on real threads and in a few polls: also for Miri and ThreadSanitizer.
//!
//! ```text
//! cargo +nightly miri test -p zerolag-tenants --test small
//! RUSTFLAGS=-Zsanitizer=thread cargo +nightly test -Zbuild-std --target x86_64-unknown-linux-gnu \
//!     -p zerolag-tenants --test small --test groups
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::task::yield_now;
use zerolag_tenants::{Builder, Group, JoinError, spawn};

const ROUNDS: usize = if cfg!(miri) { 3 } else { 1000 };

/// Tasks that yield, send, sleep, start others, are aborted and panic, in groups whose limits and
/// weights change.
#[test]
fn a_little_of_everything() {
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().expect("threads");
    let ran = Arc::new(AtomicUsize::new(0));
    tokio.block_on(async {
        let rt = Builder::new().build().expect("no second runtime");
        let acme = rt.group("acme").weight(300).create().expect("a group");
        let below = acme.group("below").quota(0.9).period(Duration::from_millis(2)).create();
        let below = below.expect("a group");
        let other = rt.group("other").quota(0.5).period(Duration::from_millis(4)).create().expect("a group");
        let mut tasks = Vec::new();
        for group in [&acme, &below, &other, &below, &other] {
            let ran = Arc::clone(&ran);
            let works = async move {
                let (to, mut messages) = tokio::sync::mpsc::channel(1);
                let sender = spawn(async move {
                    for n in 0..ROUNDS {
                        to.send(n).await.expect("it receives");
                    }
                });
                while messages.recv().await.is_some() {
                    ran.fetch_add(1, Ordering::Relaxed);
                    yield_now().await;
                }
                sender.expect("a group").await.expect("a result");
                tokio::time::sleep(Duration::from_millis(1)).await;
                Group::current().expect("a group").path()
            };
            tasks.push(group.spawn(works).expect("a task"));
        }
        for group in [&below, &other] {
            drop(group.spawn(std::future::pending::<()>()).expect("a task").abort_on_drop());
            let panics = group.spawn(async { std::panic::resume_unwind(Box::new(())) });
            assert!(matches!(panics.expect("a task").await, Err::<(), _>(JoinError::Panicked(_))));
            let blocking = group.spawn_blocking(|| Group::current().is_some());
            assert!(blocking.expect("a task").await.expect("a result"));
        }
        below.set_quota(None).expect("no limit is in range");
        other.set_weight(10_000).expect("in range");
        for task in tasks {
            assert_ne!(task.await.expect("a result"), "/");
        }
        drop((acme, below, other));
        assert_eq!(rt.groups().len(), 1);
        assert!(!rt.root().usage().cpu.is_zero());
    });
    assert_eq!(ran.load(Ordering::Relaxed), 5 * ROUNDS);
}

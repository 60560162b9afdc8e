//! Code of the users on threads beside the CPUs ([`blocking`](crate::blocking)): functions, and
//! destructors of aborted tasks.

use super::*;

/// Functions of two groups, one at a time of each; one of them is aborted at any time, before it
/// starts, while it runs, or after it.
#[test]
fn functions_that_block_all_return() {
    explore(500, || {
        let rt = build(two_cpus().blocking_max(1));
        let groups = ["a", "b"].map(|name| rt.group(name).create().expect("a group"));
        let (ran, are_inside) = (Arc::new(AtomicU32::new(0)), [(); 2].map(|()| Arc::new(AtomicU64::new(0))));
        let tasks: Vec<_> = (0..3)
            .map(|n| {
                let (ran, is_inside) = (Arc::clone(&ran), Arc::clone(&are_inside[n % 2]));
                let run = move || {
                    let _inside = Inside::enter(&is_inside);
                    thread::yield_now();
                    ran.fetch_add(1, Ordering::SeqCst);
                };
                groups[n % 2].spawn_blocking(run).expect("room")
            })
            .collect();
        let mut tasks = tasks.into_iter();
        let aborted = tasks.next().expect("the first");
        aborted.abort();
        let was_aborted = matches!(rt.block_on(aborted), Err(JoinError::Aborted));
        join(&rt, tasks);
        let ran = ran.load(Ordering::SeqCst);
        assert!(ran == 3 || ran == 2 && was_aborted, "{ran} ran");
    });
}

/// Counts the futures that are dropped.
struct Dropped(Arc<AtomicU32>);

impl Drop for Dropped {
    fn drop(&mut self) {
        thread::yield_now();
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Tasks of a limited group are aborted at any time: their futures are dropped on another thread.
/// One is aborted while the runtime ends. Each future is dropped once, and each waiter is told.
#[test]
fn aborted_tasks_of_a_limited_group_end() {
    explore(500, || {
        let rt = build(two_cpus());
        let tenant = rt.group("tenant").quota(0.5).create().expect("a group");
        let drops = Arc::new(AtomicU32::new(0));
        let spawn = || {
            let dropped = Dropped(Arc::clone(&drops));
            let task = tenant.spawn(async move {
                let _dropped = dropped;
                yield_now().await;
                std::future::pending::<()>().await;
            });
            task.expect("room")
        };
        let (last, tasks) = (spawn(), [spawn(), spawn()]);
        tasks.iter().for_each(|task| task.abort());
        for task in tasks {
            assert!(matches!(rt.block_on(task), Err(JoinError::Aborted)));
        }
        assert_eq!(drops.load(Ordering::SeqCst), 2);
        last.abort();
        drop(rt);
        assert_eq!(drops.load(Ordering::SeqCst), 3);
        assert!(last.is_finished());
    });
}

/// The runtime ends while functions wait, run, and return.
#[test]
fn the_end_comes_while_functions_block() {
    explore(500, || {
        let rt = build(two_cpus().blocking_max(2));
        let tasks: Vec<_> = (0..3).map(|_| rt.spawn_blocking(thread::yield_now).expect("room")).collect();
        thread::yield_now();
        drop(rt);
        assert!(tasks.iter().all(JoinHandle::is_finished));
    });
}

//! A lock that tasks of several CPUs contend for does not put the CPUs' threads to sleep at each
//! hand-over. The only test of its process: it counts the switches of all threads.

use std::sync::Arc;
use zerolag_runtime::{Builder, Mutex};

/// Returns how many times the threads of this process that still run have gone to sleep.
fn sleeps() -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").expect("Linux has it");
    let of = |path: std::path::PathBuf| {
        let status = std::fs::read_to_string(path.join("status")).ok()?;
        status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")?.trim().parse::<u64>().ok())
    };
    tasks.filter_map(|task| of(task.expect("it is listed").path())).sum()
}

#[test]
fn contenders_do_not_sleep_at_each_hand_over() {
    const ROUNDS: u64 = 6;
    const TASKS: u64 = 4;
    const EACH: u64 = 4_000;
    let mut slept = 0;
    for _ in 0..ROUNDS {
        let rt = Builder::new().cpus(2).build().expect("a runtime");
        let before = sleeps();
        let lock = Arc::new(Mutex::new(0));
        let tasks: Vec<_> = (0..TASKS)
            .map(|_| {
                let lock = Arc::clone(&lock);
                let task = rt.spawn(async move {
                    for _ in 0..EACH {
                        *lock.lock().await += 1;
                    }
                });
                task.expect("room")
            })
            .collect();
        for task in tasks {
            rt.block_on(task).expect("it ends");
        }
        slept += sleeps().saturating_sub(before);
        assert_eq!(*rt.block_on(lock.lock()), TASKS * EACH);
    }
    // With delayed dequeue about half of the rounds needed 10,000 each.
    let operations = ROUNDS * TASKS * EACH;
    assert!(slept < operations / 20, "{slept} sleeps for {operations} operations");
}

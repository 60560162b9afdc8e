//! Polls that do not end: their CPU is given to another thread, and they are charged later.
#![expect(clippy::disallowed_methods, reason = "the runtime schedules by the real clock")]

mod common;

use common::{Gate, compute_until, ms};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};
use zerolag_model::RtPriority;
use zerolag_runtime::{Builder, sleep, yield_now};

/// Computes without a checkpoint.
fn burn(length: Duration) {
    let began = Instant::now();
    while began.elapsed() < length {
        std::hint::spin_loop();
    }
}

#[test]
fn a_poll_that_does_not_end_loses_its_cpu() {
    let rt = Builder::new().cpus(1).hand_off_after(Some(ms(2))).build().expect("threads");
    let stubborn = Gate::new();
    let stays = stubborn.clone();
    let hog = rt.spawn(async move {
        while !stays.is_open() {
            std::hint::spin_loop();
        }
        7
    });
    // It runs although the only CPU is in a poll that ends only after it.
    let urgent = rt.task().fifo(RtPriority::MIN).spawn(async {
        sleep(ms(5)).await;
        sleep(ms(5)).await;
    });
    rt.block_on(urgent.expect("room")).expect("a result");
    stubborn.open();
    assert_eq!(rt.block_on(hog.expect("room")).expect("its result is not lost"), 7);
}

#[test]
fn what_a_poll_took_beside_its_cpu_is_charged() {
    let rt = Builder::new().cpus(1).hand_off_after(Some(ms(2))).build().expect("threads");
    let (gate, began) = (Gate::new(), Instant::now());
    let (tenant, others) = (rt.group("tenant"), rt.group("others"));
    let tenant = tenant.quota(0.2).period(ms(50)).create().expect("a group");
    let others = others.create().expect("a group");
    let stays = gate.clone();
    let hostile = tenant.spawn(async move {
        while !stays.is_open() {
            burn(ms(30));
            yield_now().await;
        }
    });
    let polite = others.spawn(compute_until(&gate)).expect("room");
    std::thread::sleep(ms(1500));
    let (usage, lasted) = (tenant.usage(), began.elapsed());
    gate.open();
    rt.block_on(polite).expect("a result");
    rt.block_on(hostile.expect("room")).expect("a result");
    // The quota on average; at any moment at most one poll more than the quota so far.
    let most = (lasted.as_secs_f64() / 0.050 + 1.0) * 0.010 + 2.0 * 0.030 + 0.030;
    assert!(usage.cpu.as_secs_f64() <= most, "{usage:?} in {lasted:?}: {most} at most");
    assert!(usage.cpu >= ms(10), "{usage:?}: it starves");
}

/// More tasks that block their threads than there are CPUs, by far, and until the urgent task has
/// ended: it does not wait for one of them.
#[test]
fn blocking_polls_do_not_keep_the_urgent_waiting() {
    let rt = Builder::new().cpus(2).build().expect("threads");
    let end = Arc::new((Mutex::new(false), Condvar::new()));
    let blocking: Vec<_> = (0..24)
        .map(|_| {
            let end = Arc::clone(&end);
            let task = rt.spawn(async move {
                let is_over = end.0.lock().expect("nobody panics");
                drop(end.1.wait_while(is_over, |is_over| !*is_over));
            });
            task.expect("room")
        })
        .collect();
    let urgent = rt.task().fifo(RtPriority::MIN).spawn(async {
        for _ in 0..50 {
            sleep(ms(5)).await;
        }
    });
    rt.block_on(urgent.expect("room")).expect("a result");
    *end.0.lock().expect("nobody panics") = true;
    end.1.notify_all();
    for task in blocking {
        rt.block_on(task).expect("a result");
    }
}

/// A poll that sleeps, as one does that reads from a slow client: the group has its quota
/// afterwards. A limit of 0.2 CPUs that was charged for the sleep stopped all tasks of the group
/// for five times its length.
#[test]
fn a_poll_that_sleeps_is_not_charged() {
    let rt = Builder::new().cpus(1).hand_off_after(None).build().expect("threads");
    let tenant = rt.group("tenant").quota(0.2).period(ms(50)).create().expect("a group");
    let sleeps = tenant.spawn(async {
        std::thread::sleep(ms(400));
        yield_now().await;
    });
    rt.block_on(sleeps.expect("room")).expect("a result");
    let usage = tenant.usage();
    assert!(usage.cpu < ms(10) && usage.lost > ms(300), "{usage:?}");
    assert_eq!(usage.stat.nr_throttled, 0, "{usage:?}");
}

/// Polls that sleep while fair tasks wait lose their CPU, although they are charged nothing.
#[test]
fn polls_that_sleep_let_others_run() {
    let rt = Builder::new().cpus(1).build().expect("threads");
    let (end, other) = (Gate::new(), Gate::new());
    let (may_end, has_run) = (end.clone(), other.clone());
    let sleeps = rt.spawn(async move {
        while !may_end.is_open() {
            std::thread::sleep(ms(5));
        }
    });
    let beside = rt.spawn(async move { has_run.open() });
    rt.block_on(beside.expect("room")).expect("a result");
    assert!(other.is_open());
    end.open();
    rt.block_on(sleeps.expect("room")).expect("a result");
}

/// Polls that lose their CPU again and again do so on a few threads.
#[test]
fn long_polls_share_a_few_threads() {
    const TENANTS: usize = 6;
    let rt = Builder::new().cpus(2).build().expect("threads");
    let (gate, threads) = (Gate::new(), Arc::new(Mutex::new(Vec::new())));
    let tenants: Vec<_> = (0..TENANTS)
        .map(|_| {
            let (gate, threads) = (gate.clone(), Arc::clone(&threads));
            let task = rt.spawn(async move {
                while !gate.is_open() {
                    let own = std::thread::current().id();
                    {
                        let mut threads = threads.lock().expect("nobody panics");
                        if !threads.contains(&own) {
                            threads.push(own);
                        }
                    }
                    burn(ms(8));
                    yield_now().await;
                }
            });
            task.expect("room")
        })
        .collect();
    std::thread::sleep(ms(1500));
    gate.open();
    for task in tenants {
        rt.block_on(task).expect("a result");
    }
    let count = threads.lock().expect("nobody panics").len();
    // One for each poll, and one for each CPU.
    assert!(count <= TENANTS + 2, "{count} threads");
}

/// Computes without a checkpoint for that much CPU time of its thread.
fn burn_cpu(length: Duration) {
    let used = || {
        let used = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Duration::new(used.tv_sec.unsigned_abs(), used.tv_nsec.unsigned_abs() as u32)
    };
    let end = used() + length;
    while used() < end {
        std::hint::spin_loop();
    }
}

/// Returns the nice value of this thread.
fn own_nice() -> i32 {
    rustix::process::getpriority_process(None).expect("the thread lives")
}

/// A thread that has lost its CPU is slowed down, but not while its task holds a lock: an urgent
/// task that waits for it would wait for a processor.
#[test]
fn a_holder_that_lost_its_cpu_is_not_slowed_down() {
    let rt = Builder::new().cpus(2).build().expect("threads");
    let (gate, lock) = (Gate::new(), Arc::new(zerolag_runtime::Mutex::new(0)));
    let before = own_nice();
    let holder = || {
        let (gate, lock) = (gate.clone(), Arc::clone(&lock));
        let task = rt.spawn(async move {
            while !gate.is_open() {
                let mut value = lock.lock().await;
                burn_cpu(ms(80));
                assert_eq!(own_nice(), before, "it holds a lock");
                *value += 1;
                drop(value);
                yield_now().await;
            }
        });
        task.expect("room")
    };
    let hog = || rt.spawn(compute_until(&gate)).expect("room");
    let slow = rt.spawn(async {
        while own_nice() != 19 {
            burn_cpu(ms(1));
        }
    });
    let tasks = [holder(), holder(), hog(), hog(), slow.expect("room")];
    let wanted = Arc::clone(&lock);
    let urgent = rt.task().fifo(RtPriority::MIN).spawn(async move {
        for _ in 0..5 {
            sleep(ms(5)).await;
            *wanted.lock().await += 1;
        }
    });
    rt.block_on(urgent.expect("room")).expect("a result");
    gate.open();
    for task in tasks {
        rt.block_on(task).expect("a result");
    }
}

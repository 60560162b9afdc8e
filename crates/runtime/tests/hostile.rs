//! Polls that do not end: their CPU is given to another thread, and they are charged later.
#![expect(clippy::disallowed_methods, reason = "the runtime schedules by the real clock")]

mod common;

use common::{Gate, compute_until, ms};
use rustix::time::{ClockId, clock_gettime};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};
use zerolag_model::RtPriority;
use zerolag_runtime::{Builder, JoinError, JoinHandle, Runtime, sleep, yield_now};

/// Computes without a checkpoint until its thread has used so much CPU time.
fn use_cpu_time(length: Duration) {
    let used = || {
        let used = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(used.tv_sec.unsigned_abs(), used.tv_nsec.unsigned_abs() as u32)
    };
    let began = used();
    while used() < began + length {
        std::hint::spin_loop();
    }
}

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

/// A poll that never ends cannot be stopped, but it is charged while it runs: its group shows what
/// it uses and starts no other poll from it. It was charged at its end, so never, and its group
/// went on beside it as if it had used nothing.
#[test]
fn a_poll_without_end_is_charged_while_it_runs() {
    let rt = Builder::new().cpus(1).hand_off_after(Some(ms(2))).build().expect("threads");
    let tenant = rt.group("tenant").quota(0.1).period(ms(50)).create().expect("a group");
    let below = tenant.group("below").create().expect("a group");
    let (over, used) = (Gate::new(), Arc::new(AtomicU32::new(0)));
    let disturber = disturb(&rt, &over);
    let (stays, uses) = (over.clone(), Arc::clone(&used));
    let endless = below.spawn(async move {
        let own = || clock_gettime(ClockId::ThreadCPUTime);
        let began = Duration::try_from(own()).expect("it is positive");
        while !stays.is_open() {
            let now = Duration::try_from(own()).expect("it is positive");
            uses.store((now - began).as_millis() as u32, Ordering::Relaxed);
        }
    });
    // Another task of the limited group, in a group beside it.
    let polls = Arc::new(AtomicU32::new(0));
    let (ends, counts, began) = (over.clone(), Arc::clone(&polls), Instant::now());
    let wait_until = |time: u32| {
        while used.load(Ordering::Relaxed) < time {
            std::thread::sleep(ms(1));
        }
    };
    wait_until(100);
    let other = tenant.spawn(async move {
        while !ends.is_open() {
            counts.fetch_add(1, Ordering::Relaxed);
            use_cpu_time(ms(1));
            yield_now().await;
        }
    });
    wait_until(400);
    // At ticks, and 5 ms apart, so a busy machine shows it later.
    let (usage, used) = (tenant.usage().cpu.as_millis(), u128::from(used.load(Ordering::Relaxed)));
    let (polls, lasted) = (polls.load(Ordering::Relaxed), began.elapsed());
    over.open();
    for task in [endless, other] {
        rt.block_on(task.expect("room")).expect("a result");
    }
    rt.block_on(disturber).expect("a result");
    assert!(usage + 150 >= used, "{usage} ms of {used} are shown");
    // Polls of 1 ms. On a busy machine the endless one, at nice 19, leaves some of 0.1 CPUs.
    let left = (lasted.as_millis() / 10).saturating_sub(used);
    assert!(u128::from(polls) <= left + left / 5 + 20, "{polls} polls, with {left} ms left of the quota");
}

/// Computes in its destructor until another task has made turns, for ten seconds at most.
struct LongDrop(Arc<AtomicU32>, Arc<AtomicU32>);

impl Drop for LongDrop {
    fn drop(&mut self) {
        let (began, from) = (Instant::now(), self.0.load(Ordering::SeqCst));
        while self.0.load(Ordering::SeqCst) < from + 50 && began.elapsed() < Duration::from_secs(10) {
            std::hint::spin_loop();
        }
        use_cpu_time(ms(30));
        self.1.store(self.0.load(Ordering::SeqCst) - from, Ordering::SeqCst);
    }
}

/// The destructors of an aborted task take seconds: other tasks run meanwhile, on the only CPU.
/// They had the real-time priority of the abort, so all tenants stood still.
#[test]
fn destructors_of_aborted_tasks_have_no_priority() {
    // Without a floor, which would end the wait after a second.
    let rt = Builder::new().cpus(1).floor(Duration::ZERO, ms(100)).build().expect("threads");
    for quota in [None, Some(0.5)] {
        let (gate, turns, made) = (Gate::new(), Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let (over, counts) = (gate.clone(), Arc::clone(&turns));
        let name = |of: &str| format!("{of}, quota {quota:?}");
        let others = rt.group(name("others")).create().expect("a group");
        let other = others.spawn(async move {
            while !over.is_open() {
                counts.fetch_add(1, Ordering::SeqCst);
                sleep(ms(1)).await;
            }
        });
        let tenant = rt.group(name("tenant")).create().expect("a group");
        tenant.set_quota(quota).expect("it is in range");
        let long = LongDrop(Arc::clone(&turns), Arc::clone(&made));
        let began = Gate::new();
        let begins = began.clone();
        let aborted = tenant.spawn(async move {
            let _long = long;
            begins.open();
            std::future::pending::<()>().await;
        });
        let aborted = aborted.expect("room");
        while !began.is_open() {
            std::thread::sleep(ms(1));
        }
        let before = tenant.usage().cpu;
        aborted.abort();
        assert!(matches!(rt.block_on(aborted), Err(JoinError::Aborted)));
        gate.open();
        rt.block_on(other.expect("room")).expect("a result");
        let made = made.load(Ordering::SeqCst);
        assert!(made >= 50, "quota {quota:?}: {made} turns of the other task in the destructor");
        let charged = tenant.usage().cpu - before;
        assert!(charged >= ms(25), "quota {quota:?}: {charged:?} are charged");
    }
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
    // It is charged for the ticks at which the clock looks at it.
    assert!(usage.cpu < ms(40) && usage.lost > ms(300), "{usage:?}");
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
        let used = clock_gettime(ClockId::ThreadCPUTime);
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

/// Keeps a task of the root group running now and then, so that long polls lose their CPU.
fn disturb(rt: &Runtime, until: &Gate) -> JoinHandle<u32> {
    let until = until.clone();
    let disturber = rt.task().fifo(RtPriority::MIN).spawn(async move {
        let mut turns = 0;
        while !until.is_open() {
            sleep(ms(1)).await;
            turns += 1;
        }
        turns
    });
    disturber.expect("room")
}

/// Eight polls of a tenant that each computed for 50 ms were in progress at a time, on one CPU.
#[test]
fn a_group_starts_no_poll_while_one_that_lost_the_only_cpu_goes_on() {
    let rt = Builder::new().cpus(1).hand_off_after(Some(ms(2))).build().expect("threads");
    let tenant = rt.group("tenant").create().expect("a group");
    let (over, now, most) = (Gate::new(), Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let disturber = disturb(&rt, &over);
    let polls: Vec<_> = (0..6)
        .map(|_| {
            let (now, most) = (Arc::clone(&now), Arc::clone(&most));
            let poll = tenant.spawn(async move {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                use_cpu_time(ms(30));
                now.fetch_sub(1, Ordering::SeqCst);
            });
            poll.expect("room")
        })
        .collect();
    for poll in polls {
        rt.block_on(poll).expect("a result");
    }
    over.open();
    assert!(rt.block_on(disturber).expect("a result") > 0);
    assert_eq!(most.load(Ordering::SeqCst), 1);
}

/// A poll that never ends, and one that blocks its thread, stop the others of their group for a
/// while only.
#[test]
fn a_poll_without_end_does_not_stop_its_group_for_good() {
    let rt = Builder::new().cpus(1).hand_off_after(Some(ms(2))).build().expect("threads");
    let over = Gate::new();
    let disturber = disturb(&rt, &over);
    for blocks in [false, true] {
        let tenant = rt.group(format!("tenant {blocks}")).create().expect("a group");
        let (sender, receiver) = std::sync::mpsc::channel();
        let first = tenant.spawn(async move {
            if blocks {
                receiver.recv().expect("the second one sends");
            } else {
                while receiver.try_recv().is_err() {
                    std::hint::spin_loop();
                }
            }
        });
        let second = tenant.spawn(async move { sender.send(()).expect("the first one waits") });
        rt.block_on(second.expect("room")).expect("it runs");
        rt.block_on(first.expect("room")).expect("it ends");
    }
    over.open();
    rt.block_on(disturber).expect("a result");
}

/// Tasks that are held back can be aborted, and dropped with their runtime.
#[test]
fn tasks_that_are_held_back_end_with_the_runtime() {
    let rt = Builder::new().cpus(1).hand_off_after(Some(ms(2))).build().expect("threads");
    let tenant = rt.group("tenant").create().expect("a group");
    let (over, stops) = (Gate::new(), Gate::new());
    let disturber = disturb(&rt, &over);
    let kept = Arc::new(());
    let spawn = || {
        let (stays, kept) = (stops.clone(), Arc::clone(&kept));
        let task = tenant.spawn(async move {
            let _kept = kept;
            while !stays.is_open() {
                std::hint::spin_loop();
            }
        });
        task.expect("room")
    };
    let tasks: Vec<_> = (0..4).map(|_| spawn()).collect();
    tasks[3].abort();
    assert!(matches!(rt.block_on(tasks.into_iter().nth(3).expect("four")), Err(JoinError::Aborted)));
    stops.open();
    over.open();
    drop((rt, tenant, disturber));
    assert_eq!(Arc::strong_count(&kept), 1, "every future was dropped");
}

//! Locks boost their holders.
#![expect(clippy::disallowed_methods, reason = "the runtime schedules by the real clock")]

mod common;

use common::{Gate, compute_until, ms, pass};
use rustix::time::{ClockId, clock_gettime};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Barrier};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use zerolag_model::{Nice, Prio, RtPriority, SchedAttr, TraceEvent};
use zerolag_runtime::{Builder, Mutex, TaskState, checkpoint, sleep, yield_now};

fn fifo(priority: i64) -> SchedAttr {
    SchedAttr::fifo_at(priority)
}

fn wait_for(gate: &Gate) {
    while !gate.is_open() {
        std::thread::sleep(ms(1));
    }
}

/// One CPU without a floor. The holder of the lock is fair, a hog above it computes forever, and
/// the waiter for the lock is above both. Without inheritance neither the holder nor the waiter
/// would make progress.
#[test]
fn a_holder_inherits() {
    let rt = Builder::new().cpus(1).floor(Duration::ZERO, ms(100)).build().expect("threads");
    let (end, held, go, lock) = (Gate::new(), Gate::new(), Gate::new(), Arc::new(Mutex::new(0)));
    let (ours, is_held, may_go) = (Arc::clone(&lock), held.clone(), go.clone());
    let holder = rt.spawn(async move {
        let mut value = ours.lock().await;
        is_held.open();
        pass(may_go).await;
        *value += 1;
    });
    wait_for(&held);
    let hog = rt.task().attr(fifo(10)).spawn(compute_until(&end)).expect("room");
    let ours = Arc::clone(&lock);
    let wanting = rt.task().attr(fifo(50)).spawn(async move { *ours.lock().await }).expect("room");
    go.open();
    assert_eq!(rt.block_on(wanting).expect("a result"), 1);
    end.open();
    rt.block_on(hog).expect("a result");
    rt.block_on(holder.expect("room")).expect("a result");
}

/// A poll that computes in a lock that others wait for keeps its CPU for a while, although a fair
/// task waits for the CPU: beside the CPUs it would compete with that one, and so would an urgent
/// task that comes for the lock. An urgent task that waits for the CPU gets it.
#[test]
fn a_holder_that_others_wait_for_keeps_its_cpu() {
    let rt = Builder::new().cpus(1).hand_off_after(Some(ms(2))).build().expect("threads");
    let (end, lock) = (Gate::new(), Arc::new(Mutex::new(())));
    let turns = Arc::new(AtomicU32::new(0));
    let (over, counts) = (end.clone(), Arc::clone(&turns));
    let other = rt.spawn(async move {
        while !over.is_open() {
            counts.fetch_add(1, Ordering::SeqCst);
            yield_now().await;
        }
    });
    let (ours, wanting, seen, root) = (Arc::clone(&lock), Arc::clone(&lock), Arc::clone(&turns), rt.root().clone());
    let holder = rt.spawn(async move {
        let compute = |length: Duration| {
            let own = || Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).expect("it is positive");
            let before = (seen.load(Ordering::SeqCst), own());
            while own() < before.1 + length {
                std::hint::spin_loop();
            }
            seen.load(Ordering::SeqCst) - before.0
        };
        let alone = compute(ms(15));
        yield_now().await;
        let _has = ours.lock().await;
        let has_begun = Gate::new();
        let begins = has_begun.clone();
        let waits = root.spawn(async move {
            begins.open();
            drop(wanting.lock().await);
        });
        let waits = waits.expect("room");
        while !has_begun.is_open() || waits.info().state != TaskState::Asleep {
            yield_now().await;
        }
        let wanted = compute(ms(15));
        let urgent_ran = Gate::new();
        let runs = urgent_ran.clone();
        let urgent = root.task().attr(fifo(10)).spawn(async move { runs.open() }).expect("room");
        while !urgent_ran.is_open() {
            std::hint::spin_loop();
        }
        drop(urgent);
        (alone > 0, wanted, waits)
    });
    let (lost_its_cpu_before, wanted, waits) = rt.block_on(holder.expect("room")).expect("a result");
    end.open();
    for task in [waits, other.expect("room")] {
        rt.block_on(task).expect("a result");
    }
    assert!(lost_its_cpu_before, "without waiters for a lock the poll loses its CPU");
    assert_eq!(wanted, 0, "turns of a fair task while others wait for the lock");
}

/// The same through a chain: the holder of the first lock waits for the second lock, and the holder
/// of the second has to be boosted.
#[test]
fn what_is_lent_goes_along_chains() {
    let rt = Builder::new().cpus(1).floor(Duration::ZERO, ms(100)).build().expect("threads");
    let (end, held, waits, go) = (Gate::new(), Gate::new(), Gate::new(), Gate::new());
    let (first, second) = (Arc::new(Mutex::new("first")), Arc::new(Mutex::new("second")));
    let (ours, is_held, may_go) = (Arc::clone(&second), held.clone(), go.clone());
    let bottom = rt.spawn(async move {
        let _has = ours.lock().await;
        is_held.open();
        pass(may_go).await;
    });
    wait_for(&held);
    let (ours, then, does_wait) = (Arc::clone(&first), Arc::clone(&second), waits.clone());
    let middle = rt.spawn(async move {
        let has = ours.lock().await;
        does_wait.open();
        let wants = then.lock().await;
        (*has, *wants)
    });
    wait_for(&waits);
    let hog = rt.task().attr(fifo(10)).spawn(compute_until(&end)).expect("room");
    let ours = Arc::clone(&first);
    let top = rt.task().attr(fifo(50)).spawn(async move { *ours.lock().await }).expect("room");
    go.open();
    assert_eq!(rt.block_on(top).expect("a result"), "first");
    end.open();
    for task in [hog, bottom.expect("room")] {
        rt.block_on(task).expect("a result");
    }
    assert_eq!(rt.block_on(middle.expect("room")).expect("a result"), ("first", "second"));
}

/// A lock that no other task waits for is no reason to spare its holder.
#[test]
fn a_private_lock_exempts_from_nothing() {
    let rt = Builder::new().cpus(1).build().expect("threads");
    let tenant = rt.group("tenant").quota(0.02).period(ms(50)).create().expect("a group");
    let (gate, stays) = (Gate::new(), Gate::new());
    let (end, mutex) = (gate.clone(), Arc::new(Mutex::new(())));
    let (ours, inside) = (Arc::clone(&mutex), Arc::clone(&mutex));
    let holder = tenant.spawn(async move {
        let _has = ours.lock().await;
        compute_until(&end).await;
        stays.open();
    });
    // A task of the same group waits for it, which is no reason either.
    let waiter = tenant.spawn(async move { drop(inside.lock().await) });
    let began = std::time::Instant::now();
    std::thread::sleep(ms(1000));
    let (usage, lasted) = (tenant.usage(), began.elapsed());
    gate.open();
    tenant.set_quota(None).expect("no limit is in range");
    for task in [holder, waiter] {
        rt.block_on(task.expect("room")).expect("a result");
    }
    let most = (lasted.as_secs_f64() / 0.050 + 1.0) * 0.001 + 0.020;
    assert!(usage.cpu.as_secs_f64() <= most, "{usage:?} in {lasted:?}, {most} at most");
}

/// A holder that its group's limit has stopped already when a task from outside comes for the lock:
/// it continues, but not for longer than allowed.
#[test]
fn a_stopped_holder_continues_for_a_while() {
    let rt = Builder::new().cpus(1).spare_at_most(ms(40)).build().expect("threads");
    let tenant = rt.group("tenant").quota(0.01).period(Duration::from_secs(1)).create().expect("a group");
    let (lock, end, held) = (Arc::new(Mutex::new(())), Gate::new(), Gate::new());
    let (ours, is_held, may_end) = (Arc::clone(&lock), held.clone(), end.clone());
    let holder = tenant.spawn(async move {
        let _has = ours.lock().await;
        is_held.open();
        compute_until(&may_end).await;
    });
    wait_for(&held);
    // It is stopped once its usage stands still.
    let mut before = tenant.usage();
    loop {
        std::thread::sleep(ms(50));
        let now = tenant.usage();
        if std::mem::replace(&mut before, now).cpu == now.cpu && now.stat.nr_throttled > 0 {
            break;
        }
    }
    let wanting = Arc::clone(&lock);
    let outside = rt.spawn(async move { drop(wanting.lock().await) }).expect("room");
    // More than the quota, however many periods it takes: the quota is 10 ms, also for debts.
    let (quota, began) = (ms(10), std::time::Instant::now());
    let gained = || {
        let now = tenant.usage();
        let periods = now.stat.nr_periods - before.stat.nr_periods;
        (now.cpu.saturating_sub(before.cpu), quota * (periods as u32 + 1))
    };
    while gained().0 < gained().1 + ms(15) {
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}: it was not spared", gained());
        std::thread::sleep(ms(1));
    }
    std::thread::sleep(ms(300));
    let ((spared, quota), windows) = (gained(), began.elapsed().as_secs() as u32 + 2);
    assert!(spared <= quota + windows * ms(40) + ms(10), "{spared:?}: it was spared for too long");
    assert!(before.lock_stalls == 0 && tenant.usage().lock_stalls > 0, "others waited for a holder that was stopped");
    end.open();
    tenant.set_quota(None).expect("no limit is in range");
    for task in [holder.expect("room"), outside] {
        rt.block_on(task).expect("a result");
    }
}

/// A holder that is spared for the time of 40 quotas: afterwards its group pays, and gets nothing
/// for as many periods.
#[test]
fn time_spared_is_charged() {
    let rt = Builder::new().cpus(1).spare_at_most(Duration::from_secs(1)).build().expect("threads");
    let tenant = rt.group("tenant").quota(0.1).period(ms(50)).create().expect("a group");
    let (lock, end, held, released) = (Arc::new(Mutex::new(())), Gate::new(), Gate::new(), Gate::new());
    let (ours, may_end, is_held, is_released) = (Arc::clone(&lock), end.clone(), held.clone(), released.clone());
    let own = tenant.clone();
    let holder = tenant.spawn(async move {
        let has = ours.lock().await;
        is_held.open();
        while own.usage().cpu < ms(200) {
            checkpoint().await;
        }
        drop(has);
        is_released.open();
        compute_until(&may_end).await;
    });
    wait_for(&held);
    let wanting = Arc::clone(&lock);
    let outside = rt.spawn(async move { drop(wanting.lock().await) });
    wait_for(&released);
    let before = tenant.usage();
    let paid = before.cpu.as_nanos() / ms(5).as_nanos();
    assert!(paid > u128::from(before.stat.nr_periods), "{before:?}: it was not spared");
    let until = before.stat.nr_periods + 15;
    while tenant.usage().stat.nr_periods < until {
        std::thread::sleep(ms(1));
    }
    let after = tenant.usage();
    end.open();
    tenant.set_quota(None).expect("no limit is in range");
    for task in [holder, outside] {
        rt.block_on(task.expect("room")).expect("a result");
    }
    // It leaves at its next checkpoint after the lock; 15 quotas are 75 ms.
    assert!(after.cpu - before.cpu <= ms(25), "{before:?}, {after:?}");
}

/// A group that has used up its quota for a second: its task runs on while it holds the lock, and
/// not much longer.
#[test]
fn a_limit_waits_for_a_lock() {
    let rt = Builder::new().cpus(1).spare_at_most(ms(900)).build().expect("threads");
    let tenant = rt.group("tenant").quota(0.01).period(Duration::from_secs(1)).create().expect("a group");
    let (lock, end, held, dropped) = (Arc::new(Mutex::new(())), Gate::new(), Gate::new(), Gate::new());
    let (ours, stays, is_held, has_dropped) = (Arc::clone(&lock), end.clone(), held.clone(), dropped.clone());
    let own = tenant.clone();
    let holder = tenant.spawn(async move {
        let has = ours.lock().await;
        is_held.open();
        let began = std::time::Instant::now();
        // Three times the quota; if the task were throttled, this would last 30 s.
        while own.usage().cpu < ms(30) && began.elapsed() < Duration::from_secs(30) {
            checkpoint().await;
        }
        drop(has);
        has_dropped.open();
        compute_until(&stays).await;
    });
    let holder = holder.expect("room");
    wait_for(&held);
    let beside = rt.spawn(compute_until(&end)).expect("room");
    drop(rt.block_on(lock.lock()));
    let usage = tenant.usage();
    assert!(usage.cpu >= ms(30) && usage.stat.nr_periods < 2, "{usage:?}: it was held back with the lock in its hands");
    wait_for(&dropped);
    std::thread::sleep(ms(20));
    let before = tenant.usage();
    std::thread::sleep(ms(50));
    let after = tenant.usage();
    assert_eq!(before.cpu, after.cpu, "the limit takes hold once the lock is given up");
    end.open();
    tenant.set_quota(None).expect("no limit is in range");
    for task in [holder, beside] {
        rt.block_on(task).expect("a result");
    }
}

/// Waiters that give up before their turn leave no trace; the most urgent of the others is next.
#[test]
fn the_most_urgent_waiter_is_next() {
    let rt = Builder::new().cpus(1).build().expect("threads");
    let lock = Arc::new(Mutex::new(Vec::new()));
    let guard = rt.block_on(lock.lock());
    let waiters = [20, 40, 30, 50].map(|priority| {
        let lock = Arc::clone(&lock);
        let priority = RtPriority::new(priority).expect("1..=99");
        let waits = async move { lock.lock().await.push(priority.value()) };
        rt.task().fifo(priority).spawn(waits).expect("room")
    });
    // All four have queued up once a task that was started after them runs.
    rt.block_on(rt.task().fifo(RtPriority::MIN).spawn(async {}).expect("room")).expect("a result");
    waiters[3].abort();
    rt.block_on(rt.task().fifo(RtPriority::MIN).spawn(async {}).expect("room")).expect("a result");
    drop(guard);
    for (index, waiter) in waiters.into_iter().enumerate() {
        assert_eq!(rt.block_on(waiter).is_ok(), index != 3);
    }
    assert_eq!(*rt.block_on(lock.lock()), [40, 30, 20]);
}

/// Threads that never sleep: two queue up, another takes the lock whenever it looks free. A thread
/// that has looked in vain for long lets others run: there can be fewer processors than threads,
/// and the one that the lock was handed to can be without.
#[test]
fn a_lock_has_one_holder() {
    const ROUNDS: u32 = 10_000;
    let (lock, start) = (Mutex::new(0_u32), Barrier::new(3));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut cx = Context::from_waker(Waker::noop());
                start.wait();
                for _ in 0..ROUNDS {
                    let mut waits = pin!(lock.lock());
                    let mut looks = 0;
                    let mut value = loop {
                        match waits.as_mut().poll(&mut cx) {
                            Poll::Ready(value) => break value,
                            Poll::Pending if looks < 100 => std::hint::spin_loop(),
                            Poll::Pending => std::thread::yield_now(),
                        }
                        looks += 1;
                    };
                    *value += 1;
                }
            });
        }
        scope.spawn(|| {
            start.wait();
            for _ in 0..ROUNDS {
                if let Some(mut value) = lock.try_lock() {
                    std::hint::black_box(&mut *value);
                }
            }
        });
    });
    assert_eq!(*lock.try_lock().expect("all have released it"), 2 * ROUNDS);
}

/// Holders that release while others queue up: a task that holds no lock soon has no loan any more.
#[test]
fn a_loan_ends_with_the_lock() {
    const ROUNDS: u32 = 500;
    let rt = Builder::new().cpus(2).hand_off_after(None).trace().build().expect("threads");
    for _ in 0..100 {
        let (lock, start, end) = (Arc::new(Mutex::new(0_u32)), Gate::new(), Gate::new());
        let tasks = [rt.task(), rt.task().attr(fifo(10))].map(|builder| {
            let (lock, start, end) = (Arc::clone(&lock), start.clone(), end.clone());
            let task = builder.spawn(async move {
                while !start.is_open() {
                    std::hint::spin_loop();
                }
                for _ in 0..ROUNDS {
                    *lock.lock().await += 1;
                }
                while !end.is_open() {
                    sleep(ms(1)).await;
                }
            });
            task.expect("room")
        });
        start.open();
        // The first priority that a task had, and its last one.
        let (mut loans, began) = (BTreeMap::new(), std::time::Instant::now());
        loop {
            for record in rt.take_trace().records {
                if let TraceEvent::PrioInherit { task, from, to } = record.event {
                    loans.entry(task).or_insert((from, to)).1 = to;
                }
            }
            let is_done = lock.try_lock().is_some_and(|count| *count == 2 * ROUNDS);
            if is_done && loans.values().all(|(own, last)| own == last) {
                break;
            }
            assert!(began.elapsed() < Duration::from_secs(20), "a priority stayed: {loans:?}");
            std::thread::sleep(ms(1));
        }
        end.open();
        for task in tasks {
            rt.block_on(task).expect("a result");
        }
        drop(rt.take_trace());
    }
}

/// Tasks of nice 0 contend for a lock on one CPU: the first one yields while it holds the lock, and
/// from then on every release hands it over. Equals lend each other nothing, so the tasks can pass
/// their turn on with the lock, and the scheduler is not asked.
#[test]
fn hand_overs_between_equals_make_no_calls() {
    const TASKS: u64 = 4;
    const EACH: u64 = 2_000;
    let rt = Builder::new().cpus(1).record(1_000_000).build().expect("threads");
    let lock = Arc::new(Mutex::new(0));
    let starts = {
        let (root, lock) = (rt.root().clone(), Arc::clone(&lock));
        rt.spawn(async move {
            // All of them are there before the first one runs.
            [(); TASKS as usize].map(|()| {
                let lock = Arc::clone(&lock);
                let task = root.spawn(async move {
                    for n in 0..EACH {
                        let mut value = lock.lock().await;
                        if n == 0 {
                            yield_now().await;
                        }
                        *value += 1;
                    }
                });
                task.expect("room")
            })
        })
    };
    let tasks = rt.block_on(starts.expect("room")).expect("a result");
    for task in tasks {
        rt.block_on(task).expect("a result");
    }
    assert_eq!(*rt.block_on(lock.lock()), TASKS * EACH);
    drop(lock);
    let recording = rt.into_recording().expect("it was asked for");
    let operations = (TASKS * EACH) as usize;
    assert!(recording.len() < operations / 4, "{operations} hand-overs with {recording:?}");
    recording.replay().expect("a relay leaves calls out, no results");
}

/// A fair waiter lends its nice value to a holder with a higher one, whichever of the two has nice
/// 0.
#[test]
fn fair_waiters_lend_what_is_more_than_the_holder_has() {
    for (holds, wants) in [(0, -5), (5, 0)] {
        let rt = Builder::new().cpus(1).trace().build().expect("threads");
        let [holds, wants] = [holds, wants].map(|nice| Nice::new(nice).expect("in range"));
        let (held, go, lock) = (Gate::new(), Gate::new(), Arc::new(Mutex::new(0)));
        let (ours, is_held, may_go) = (Arc::clone(&lock), held.clone(), go.clone());
        let holder = rt.task().nice(holds).spawn(async move {
            let mut value = ours.lock().await;
            is_held.open();
            pass(may_go).await;
            *value += 1;
        });
        wait_for(&held);
        let opens = go.clone();
        let waits = rt.task().nice(wants).spawn(async move {
            let mut lock = pin!(lock.lock());
            std::future::poll_fn(|cx| {
                let polled = lock.as_mut().poll(cx).map(|value| *value);
                opens.open();
                polled
            })
            .await
        });
        assert_eq!(rt.block_on(waits.expect("room")).expect("a result"), 1);
        let holder = holder.expect("room");
        let id = holder.id();
        rt.block_on(holder).expect("a result");
        let loans = rt.take_trace().records.into_iter().filter_map(|record| match record.event {
            TraceEvent::PrioInherit { task, from, to } if task == id => Some((from, to)),
            _ => None,
        });
        let (holds, wants) = (Prio::from_nice(holds), Prio::from_nice(wants));
        assert_eq!(loans.collect::<Vec<_>>(), [(holds, wants), (wants, holds)]);
    }
}

//! Tests of whole runtimes in many orders of their threads' steps, chosen by `shuttle`: CPUs,
//! wakers, and a clock that the test advances. A wakeup that is lost is a deadlock, which `shuttle`
//! reports with the order that leads to it.

mod beside;

use crate::clock;
use crate::coop::{self, checkpoint, should_yield, yield_now};
use crate::group::Group;
use crate::mutex::{Guard, Mutex};
use crate::runtime::{Builder, Runtime};
use crate::set::JoinSet;
use crate::spawn::TaskBuilder;
use crate::state::engine::Engine;
use crate::state::job::JoinError;
use crate::state::time_source::TimeSource;
use crate::sync::{AtomicBool, AtomicU32, AtomicU64, Mutex as Latch, thread};
use crate::task::JoinHandle;
use crate::time::sleep;
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use zerolag_model::{KernelVersion, RtPriority, Settings};

const MS: u64 = 1_000_000;

/// Runs a test in many orders: random ones, and ones in which few threads are preempted.
fn explore(orders: usize, test: impl Fn() + Clone + Send + Sync + 'static) {
    let config = || {
        let mut config = shuttle::Config::new();
        config.max_steps = shuttle::MaxSteps::FailAfter(2_000_000);
        config.stack_size = 0x4_0000;
        config
    };
    shuttle::Runner::new(RandomScheduler::new(orders), config()).run(test.clone());
    shuttle::Runner::new(PctScheduler::new(3, orders), config()).run(test);
}

fn build(builder: Builder) -> Runtime {
    builder.assemble(TimeSource::Set(std::sync::atomic::AtomicU64::new(0))).expect("threads")
}

fn two_cpus() -> Builder {
    Builder::new().cpus(2).tasks(16).groups(8).hand_off_after(None)
}

/// The same with delayed dequeue, which a [`Builder`] switches off: a task that sleeps can owe lag.
fn two_cpus_with_lag() -> Builder {
    let settings = KernelVersion::V6_18.settings();
    two_cpus().settings(Settings { hz: 1000, fair_server_resched_lost: false, ..settings })
}

fn advance(engine: &Engine, by: u64) {
    let TimeSource::Set(now) = &engine.time else { unreachable!("these tests set the clock") };
    now.fetch_add(by, Ordering::Relaxed);
}

/// The clock: advances until the test is over, with all timers and ticks.
fn start_clock(rt: &Runtime) -> Ticking {
    let (engine, is_over) = (Arc::clone(&rt.engine), Arc::new(AtomicBool::new(false)));
    let over = Arc::clone(&is_over);
    let thread = thread::spawn(move || {
        // Only a thread of the runtime makes wakeups together.
        coop::join_runtime(engine.address());
        while !over.load(Ordering::SeqCst) {
            advance(&engine, MS / 2);
            clock::step(&engine);
            thread::yield_now();
        }
    });
    Ticking { is_over, thread }
}

struct Ticking {
    is_over: Arc<AtomicBool>,
    thread: thread::JoinHandle<()>,
}

impl Ticking {
    fn stop(self) {
        self.is_over.store(true, Ordering::SeqCst);
        self.thread.join().expect("no panic");
    }
}

/// A number of wakeups that wait for a task.
#[derive(Default)]
struct Bell(Latch<(u32, Option<Waker>)>);

impl Bell {
    fn ring(&self) {
        let waker = {
            let mut state = self.0.lock();
            state.0 += 1;
            state.1.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    async fn wait(&self) {
        poll_fn(|cx| {
            let mut state = self.0.lock();
            if state.0 > 0 {
                state.0 -= 1;
                return Poll::Ready(());
            }
            state.1 = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

fn join(rt: &Runtime, tasks: impl IntoIterator<Item = JoinHandle<()>>) {
    for task in tasks {
        rt.block_on(task).expect("a result");
    }
}

/// Tasks sleep and are woken: by tasks, and by a thread outside. No timer would wake them again.
#[test]
fn no_wakeup_is_lost() {
    explore(1_000, || {
        let rt = build(two_cpus());
        let bells: Vec<_> = (0..3).map(|_| Arc::new(Bell::default())).collect();
        let tasks: Vec<_> = (0..3)
            .map(|n| {
                let (own, next) = (Arc::clone(&bells[n]), Arc::clone(&bells[(n + 1) % 3]));
                let task = rt.spawn(async move {
                    for _ in 0..3 {
                        own.wait().await;
                        next.ring();
                    }
                });
                task.expect("room")
            })
            .collect();
        let engine = Arc::clone(&rt.engine);
        let outside = Arc::clone(&bells[0]);
        let waker = thread::spawn(move || {
            for _ in 0..2 {
                outside.ring();
                advance(&engine, MS);
            }
        });
        join(&rt, tasks);
        waker.join().expect("no panic");
    });
}

/// The same while a clock ticks and two tasks compute: sleeping tasks owe lag, are woken on the run
/// queue, and are taken off it when the lag is paid.
#[test]
fn no_wakeup_of_a_task_that_owes_lag_is_lost() {
    explore(500, || {
        let rt = build(two_cpus_with_lag());
        let clock = start_clock(&rt);
        let bells = [Arc::new(Bell::default()), Arc::new(Bell::default())];
        let tasks = [0, 1].map(|n| {
            let (own, next) = (Arc::clone(&bells[n]), Arc::clone(&bells[1 - n]));
            let task = rt.spawn(async move {
                for _ in 0..3 {
                    next.ring();
                    own.wait().await;
                    for _ in 0..3 {
                        checkpoint().await;
                        thread::yield_now();
                    }
                }
            });
            task.expect("room")
        });
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let hog = rt.spawn(async move {
            while !over.load(Ordering::SeqCst) {
                checkpoint().await;
                thread::yield_now();
            }
        });
        join(&rt, tasks);
        is_over.store(true, Ordering::SeqCst);
        join(&rt, hog);
        clock.stop();
    });
}

/// Two tasks on one CPU compute and sleep; a thread outside wakes them, also in the moment in which
/// the CPU goes idle and forgives both the lag that they owe.
#[test]
fn no_wakeup_of_the_last_task_is_lost() {
    explore(1_000, || {
        let rt = build(two_cpus_with_lag().cpus(1));
        let bells = [Arc::new(Bell::default()), Arc::new(Bell::default())];
        let tasks = bells.each_ref().map(|bell| {
            let (bell, engine) = (Arc::clone(bell), Arc::clone(&rt.engine));
            let task = rt.spawn(async move {
                for _ in 0..3 {
                    bell.wait().await;
                    advance(&engine, 3 * MS);
                    yield_now().await;
                    advance(&engine, 3 * MS);
                }
            });
            task.expect("room")
        });
        let waker = thread::spawn(move || {
            for _ in 0..3 {
                bells.iter().for_each(|bell| bell.ring());
            }
        });
        join(&rt, tasks);
        waker.join().expect("no panic");
    });
}

/// Polls that do not end lose their CPU, are woken meanwhile, and end or sleep.
#[test]
fn a_poll_that_loses_its_cpu_is_not_lost() {
    explore(500, || {
        let rt = build(two_cpus().cpus(1).hand_off_after(Some(Duration::from_millis(1))).detached_max(2));
        let clock = start_clock(&rt);
        let (bell, is_rung) = (Arc::new(Bell::default()), Arc::new(AtomicU32::new(0)));
        let stubborn: Vec<_> = (0..2)
            .map(|_| {
                let (bell, is_rung) = (Arc::clone(&bell), Arc::clone(&is_rung));
                let task = rt.spawn(async move {
                    while is_rung.load(Ordering::SeqCst) == 0 {
                        thread::yield_now();
                    }
                    bell.ring();
                    yield_now().await;
                });
                task.expect("room")
            })
            .collect();
        let rings = Arc::clone(&is_rung);
        let urgent = rt.task().fifo(RtPriority::MIN).spawn(async move {
            sleep(Duration::from_millis(1)).await;
            rings.store(1, Ordering::SeqCst);
            bell.wait().await;
            bell.wait().await;
        });
        join(&rt, stubborn);
        join(&rt, urgent);
        clock.stop();
        assert_eq!(rt.engine.detached.load(Ordering::SeqCst), 0);
    });
}

/// The only task in a section, until it leaves or is aborted there.
struct Inside(Arc<AtomicU64>);

impl Inside {
    fn enter(count: &Arc<AtomicU64>) -> Self {
        assert_eq!(count.fetch_add(1, Ordering::SeqCst), 0, "another task is inside");
        Self(Arc::clone(count))
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Tasks of three priorities contend for two locks, in a chain; one gives up, one is aborted. All
/// locks are released at the end, and no task keeps a loan.
#[test]
fn locks_are_exclusive_and_loans_end() {
    explore(500, || {
        let rt = build(two_cpus());
        let locks = [(); 2].map(|()| Arc::new(Mutex::new(0_u32)));
        let is_inside = Arc::new(AtomicU64::new(0));
        let task = |builder: TaskBuilder, is_chain: bool| {
            let (first, second) = (Arc::clone(&locks[0]), Arc::clone(&locks[1]));
            let is_inside = Arc::clone(&is_inside);
            let task = builder.spawn(async move {
                for _ in 0..2 {
                    let _outer = if is_chain { Some(first.lock().await) } else { None };
                    let mut value = second.lock().await;
                    let _inside = Inside::enter(&is_inside);
                    yield_now().await;
                    *value += 1;
                }
                drop(first.lock().await);
            });
            task.expect("room")
        };
        let prio = |prio: u8| rt.task().attr(zerolag_model::SchedAttr::fifo_at(i64::from(prio)));
        let tasks = [task(rt.task(), true), task(prio(5), false), task(prio(9), true)];
        let aborted = task(rt.task(), true);
        let second = Arc::clone(&locks[1]);
        let gives_up = rt.task().attr(zerolag_model::SchedAttr::fifo_at(20)).spawn(async move {
            let mut waits = Box::pin(second.lock());
            poll_fn(|cx| {
                let _ = waits.as_mut().poll(cx);
                Poll::Ready(())
            })
            .await;
        });
        aborted.abort();
        let all: Vec<_> = tasks.iter().map(|task| Arc::clone(&task.task)).collect();
        join(&rt, tasks);
        join(&rt, gives_up);
        assert!(matches!(rt.block_on(aborted), Ok(()) | Err(JoinError::Aborted)));
        for lock in &locks {
            assert!(lock.try_lock().is_some());
        }
        for task in all {
            assert_eq!(*task.locks().inherited.lock(), None);
            assert!(task.locks().held.lock().is_empty() && task.locks().waits_for.lock().is_empty());
        }
    });
}

/// A `Lock` future is polled by one task and then by another; both take part in the contention.
#[test]
fn a_lock_future_can_move() {
    explore(600, || {
        let rt = build(two_cpus());
        let lock: &'static Mutex<u32> = Box::leak(Box::new(Mutex::new(0)));
        let contends = rt.task().fifo(RtPriority::MIN).spawn(async move {
            for _ in 0..3 {
                *lock.lock().await += 1;
            }
        });
        type Moving = Pin<Box<dyn Future<Output = Guard<'static, u32>> + Send>>;
        let handed: Arc<Latch<Option<Moving>>> = Arc::default();
        let (there, here) = (Arc::clone(&handed), handed);
        let first = rt.spawn(async move {
            let mut waits: Moving = Box::pin(lock.lock());
            let guard = poll_fn(|cx| Poll::Ready(waits.as_mut().poll(cx))).await;
            match guard {
                Poll::Ready(mut value) => *value += 1,
                Poll::Pending => *there.lock() = Some(waits),
            }
        });
        let first = first.expect("room");
        let holder = Arc::clone(&first.task);
        join(&rt, [first]);
        let second = rt.spawn(async move {
            let moved = here.lock().take();
            if let Some(waits) = moved {
                *waits.await += 1;
            }
        });
        join(&rt, second);
        join(&rt, contends);
        assert_eq!(*lock.try_lock().expect("all have released it"), 4);
        assert!(holder.locks().held.lock().is_empty() && holder.locks().waits_for.lock().is_empty());
    });
}

/// The runtime ends while its CPUs schedule tasks that compute, sleep and start tasks; a task can
/// be the one that ends it.
#[test]
fn the_end_comes_at_any_time() {
    explore(500, || {
        let rt = build(two_cpus());
        let root: Group = rt.root().clone();
        let tasks: Vec<_> = (0..2)
            .map(|_| {
                let root = root.clone();
                let task = rt.spawn(async move {
                    loop {
                        drop(root.spawn(async { yield_now().await }));
                        // It computes: only a request to yield makes it leave.
                        while !should_yield() {
                            thread::yield_now();
                        }
                        checkpoint().await;
                    }
                });
                task.expect("room")
            })
            .collect();
        thread::yield_now();
        drop(rt);
        for mut task in tasks {
            let polled = Pin::new(&mut task).poll(&mut Context::from_waker(Waker::noop()));
            assert!(matches!(polled, Poll::Ready(Err(JoinError::Aborted))));
        }
    });
}

/// A bit of everything, with limits: tasks of a limited group hold a lock that urgent tasks want,
/// sleep, and compute; the limit is removed at the end.
#[test]
fn limits_and_locks_let_all_tasks_end() {
    explore(200, || {
        let rt = build(two_cpus().spare_at_most(Duration::from_millis(3)));
        let clock = start_clock(&rt);
        let ms = Duration::from_millis;
        let tenant = rt.group("tenant").quota(0.5).period(ms(5)).create().expect("a group");
        let is_over = Arc::new(AtomicBool::new(false));
        let lock = Arc::new(Mutex::new(0_u32));
        let computes = |builder: TaskBuilder| {
            let over = Arc::clone(&is_over);
            let task = builder.spawn(async move {
                while !over.load(Ordering::SeqCst) {
                    checkpoint().await;
                    thread::yield_now();
                }
            });
            task.expect("room")
        };
        let locks = |builder: TaskBuilder, host_work: u32| {
            let lock = Arc::clone(&lock);
            let task = builder.spawn(async move {
                for _ in 0..host_work {
                    *lock.lock().await += 1;
                    sleep(Duration::from_micros(700)).await;
                    let mut value = lock.lock().await;
                    yield_now().await;
                    *value += 1;
                }
            });
            task.expect("room")
        };
        let busy = [computes(tenant.task()), computes(rt.task().reserve(ms(1), ms(5)))];
        let urgent = [locks(rt.task().fifo(RtPriority::MIN), 3), locks(rt.task().fifo(RtPriority::MIN), 3)];
        let limited = [locks(tenant.task(), 2), locks(tenant.task(), 2)];
        join(&rt, urgent);
        is_over.store(true, Ordering::SeqCst);
        tenant.set_quota(None).expect("no limit is in range");
        join(&rt, busy);
        join(&rt, limited);
        clock.stop();
    });
}

/// A shutdown waits for tasks that end at any time, also for one that another one starts.
#[test]
fn a_shutdown_sees_the_last_task() {
    explore(500, || {
        let rt = build(two_cpus());
        let root = rt.root().clone();
        let tasks = [0, 1].map(|n| {
            let root = root.clone();
            let task = rt.spawn(async move {
                yield_now().await;
                if n == 0 {
                    root.spawn(yield_now()).expect("it is open while tasks live").await.expect("a result");
                }
            });
            task.expect("room")
        });
        let outcome = rt.shutdown(Duration::MAX);
        assert!(outcome.is_complete && outcome.unfinished.is_empty());
        assert!(tasks.iter().all(JoinHandle::is_finished));
    });
}

/// The owner of tasks drops them while they run, sleep, and end; a set waits for others.
#[test]
fn owners_abort_their_tasks() {
    explore(400, || {
        let rt = build(two_cpus());
        let bell = Arc::new(Bell::default());
        let (rings, waits) = (Arc::clone(&bell), Arc::clone(&bell));
        let owned = rt.spawn(async move { waits.wait().await }).expect("room").abort_on_drop();
        let mut set = JoinSet::new();
        for _ in 0..2 {
            set.spawn(rt.task(), yield_now()).expect("room");
        }
        let owner = rt.spawn(async move {
            yield_now().await;
            rings.ring();
            drop(owned);
            while let Some(ended) = set.join_next().await {
                ended.expect("a result");
            }
        });
        join(&rt, owner);
        let outcome = rt.shutdown(Duration::MAX);
        assert!(outcome.is_complete);
    });
}

/// Polls wake tasks and go on: until the woken one has run, which it does after the next tick on
/// the other CPU, or on the CPU that another thread takes over.
#[test]
fn a_wakeup_does_not_wait_for_the_end_of_a_poll() {
    for (cpus, after) in [(2, None), (1, Some(Duration::from_millis(1)))] {
        explore(300, move || {
            let rt = build(two_cpus().cpus(cpus).hand_off_after(after));
            let clock = start_clock(&rt);
            let (bell, is_over) = (Arc::new(Bell::default()), Arc::new(AtomicBool::new(false)));
            let (waits, ends) = (Arc::clone(&bell), Arc::clone(&is_over));
            let root = rt.root().clone();
            let woken = rt.spawn(async move {
                waits.wait().await;
                // A task that is started is woken in the same way.
                let started = root.spawn(async move { ends.store(true, Ordering::SeqCst) });
                started.expect("room").await.expect("a result");
            });
            let waker = rt.spawn(async move {
                bell.ring();
                while !is_over.load(Ordering::SeqCst) {
                    thread::yield_now();
                }
            });
            join(&rt, [woken.expect("room"), waker.expect("room")]);
            clock.stop();
        });
    }
}

/// A poll wakes a task that another thread wakes as well, and sleeps, ends, or yields. The clock
/// does not advance: no tick makes a wakeup that was forgotten.
#[test]
fn a_wakeup_at_the_end_of_a_poll_is_not_lost() {
    explore(600, || {
        let rt = build(two_cpus());
        let bells = [(); 2].map(|()| Arc::new(Bell::default()));
        let [first, second] = bells.each_ref().map(Arc::clone);
        let [other_first, other_second] = bells.each_ref().map(Arc::clone);
        let sleeps = rt.spawn(async move {
            for _ in 0..3 {
                first.wait().await;
                second.ring();
            }
        });
        let wakes = rt.spawn(async move {
            for round in 0..2 {
                other_first.ring();
                if round == 0 {
                    other_second.wait().await;
                } else {
                    yield_now().await;
                }
            }
        });
        let outside = Arc::clone(&bells[0]);
        let waker = thread::spawn(move || outside.ring());
        join(&rt, [sleeps.expect("room"), wakes.expect("room")]);
        waker.join().expect("no panic");
    });
}

/// Tasks pass one turn on to each other, and to tasks that they start, while another thread wakes
/// them, one is aborted, and a task that computes wants the CPU as well. The clock does not
/// advance.
#[test]
fn a_relay_loses_no_wakeup() {
    explore(600, || {
        let rt = build(two_cpus().cpus(1));
        let bells = [(); 2].map(|()| Arc::new(Bell::default()));
        let root = rt.root().clone();
        let tasks = [0, 1].map(|n| {
            let (own, next, root) = (Arc::clone(&bells[n]), Arc::clone(&bells[1 - n]), root.clone());
            let task = rt.spawn(async move {
                for _ in 0..3 {
                    next.ring();
                    own.wait().await;
                    root.spawn(async {}).expect("room").await.expect("a result");
                }
            });
            task.expect("room")
        });
        let never = Arc::new(Bell::default());
        let (rings, waits) = (Arc::clone(&never), Arc::clone(&bells[0]));
        let aborted = rt.spawn(async move {
            waits.ring();
            rings.wait().await;
        });
        let aborted = aborted.expect("room");
        let computes = rt.spawn(async {
            for _ in 0..2 {
                thread::yield_now();
                yield_now().await;
            }
        });
        let outside = Arc::clone(&bells[1]);
        let waker = thread::spawn(move || outside.ring());
        aborted.abort();
        assert!(matches!(rt.block_on(aborted), Err(JoinError::Aborted)));
        join(&rt, tasks);
        join(&rt, computes);
        waker.join().expect("no panic");
        assert!(rt.tasks().is_empty());
    });
}

/// The runner of a relay does not end its poll: its CPU is handed over, and the owner of the turn
/// runs when it is woken.
#[test]
fn a_runner_that_loses_its_cpu_is_not_lost() {
    explore(300, || {
        let rt = build(two_cpus().cpus(1).hand_off_after(Some(Duration::from_millis(1))).detached_max(2));
        let clock = start_clock(&rt);
        let (bell, is_over) = (Arc::new(Bell::default()), Arc::new(AtomicBool::new(false)));
        let (waits, ends) = (Arc::clone(&bell), Arc::clone(&is_over));
        let root = rt.root().clone();
        let owner = rt.spawn(async move {
            let runner = root.spawn(async move {
                while !ends.load(Ordering::SeqCst) {
                    thread::yield_now();
                }
                yield_now().await;
            });
            waits.wait().await;
            is_over.store(true, Ordering::SeqCst);
            runner.expect("room").await.expect("a result");
        });
        let waker = thread::spawn(move || bell.ring());
        join(&rt, owner);
        waker.join().expect("no panic");
        clock.stop();
        assert_eq!(rt.engine.detached.load(Ordering::SeqCst), 0);
    });
}

/// No thread serves the clock: the CPUs fire overdue timers between polls, and a task with a
/// reservation is next then.
#[test]
fn cpus_catch_up_with_the_clock() {
    explore(300, || {
        let rt = build(two_cpus());
        let is_over = Arc::new(AtomicBool::new(false));
        let computes = [0, 1].map(|_| {
            let (engine, is_over) = (Arc::clone(&rt.engine), Arc::clone(&is_over));
            let task = rt.spawn(async move {
                while !is_over.load(Ordering::SeqCst) {
                    advance(&engine, MS / 4);
                    thread::yield_now();
                    yield_now().await;
                }
            });
            task.expect("room")
        });
        let ms = Duration::from_millis;
        let reserved = rt.task().reserve(ms(1), ms(5)).spawn(async move {
            for _ in 0..3 {
                sleep(ms(1)).await;
            }
        });
        join(&rt, reserved);
        is_over.store(true, Ordering::SeqCst);
        join(&rt, computes);
    });
}

/// Returns once so many tasks have started; the clock stands still until then.
fn wait_for_starts(started: &AtomicU32, count: u32) {
    while started.load(Ordering::SeqCst) < count {
        thread::yield_now();
    }
}

/// Tasks wake at the same time, again and again, and some ride on the turn of another one. They
/// contend for a lock, yield, wait for each other, are woken by others, inherit while they sleep,
/// and one is aborted.
#[test]
fn riders_are_not_lost() {
    explore(500, || {
        let rt = build(two_cpus());
        let (started, lock) = (Arc::new(AtomicU32::new(0)), Arc::new(Mutex::new(0_u32)));
        let (bell, kept) = (Arc::new(Bell::default()), Arc::new(Mutex::new(())));
        let sleeps = |builder: TaskBuilder, ends: bool, n: u32| {
            let (started, lock, bell) = (Arc::clone(&started), Arc::clone(&lock), Arc::clone(&bell));
            let kept = Arc::clone(&kept);
            let task = builder.spawn(async move {
                let mut waits = sleep(Duration::from_millis(1));
                started.fetch_add(1, Ordering::SeqCst);
                for _ in 0..2 {
                    let next = waits.then(Duration::from_millis(1));
                    let keeps = if n == 3 { Some(kept.lock().await) } else { None };
                    waits.await;
                    drop(keeps);
                    *lock.lock().await += 1;
                    match n {
                        0 => yield_now().await,
                        1 => bell.ring(),
                        2 => bell.wait().await,
                        5 => drop(kept.lock().await),
                        _ => {}
                    }
                    waits = next;
                }
                if !ends {
                    std::future::pending::<()>().await;
                }
            });
            task.expect("room")
        };
        let tasks: Vec<_> = (0..4).map(|n| sleeps(rt.task(), true, n)).collect();
        let aborted = sleeps(rt.task(), false, 4);
        let urgent = sleeps(rt.task().fifo(RtPriority::MIN), true, 5);
        wait_for_starts(&started, 6);
        let clock = start_clock(&rt);
        thread::yield_now();
        aborted.abort();
        join(&rt, tasks.into_iter().chain([urgent]));
        assert!(matches!(rt.block_on(aborted), Err(JoinError::Aborted)));
        clock.stop();
        assert!(*lock.try_lock().expect("all have released it") >= 10);
        assert!(rt.tasks().is_empty());
    });
}

/// A rider does not end its poll: its CPU is handed over, and the lead and the other riders run.
#[test]
fn a_rider_that_loses_its_cpu_is_not_lost() {
    explore(300, || {
        let rt = build(two_cpus().cpus(1).hand_off_after(Some(Duration::from_millis(1))).detached_max(2));
        let (started, passed) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let tasks: Vec<_> = (0..4)
            .map(|n| {
                let (started, passed) = (Arc::clone(&started), Arc::clone(&passed));
                let task = rt.spawn(async move {
                    let waits = sleep(Duration::from_millis(1));
                    started.fetch_add(1, Ordering::SeqCst);
                    waits.await;
                    while n == 1 && passed.load(Ordering::SeqCst) < 3 {
                        thread::yield_now();
                    }
                    passed.fetch_add(1, Ordering::SeqCst);
                });
                task.expect("room")
            })
            .collect();
        wait_for_starts(&started, 4);
        let clock = start_clock(&rt);
        join(&rt, tasks);
        clock.stop();
        assert_eq!(rt.engine.detached.load(Ordering::SeqCst), 0);
    });
}

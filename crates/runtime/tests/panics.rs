//! Code of the users that panics, or that calls the runtime where it is not expected: in
//! destructors and wakers.
#![expect(clippy::disallowed_methods, reason = "the runtime schedules by the real clock")]

mod common;

use common::{Gate, ms, pass};
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex as StdMutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};
use zerolag_runtime::{Builder, JoinError, Mutex, Runtime, sleep};

/// Panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("on purpose");
    }
}

/// Runs a function on a thread of its own; fails if that takes too long.
fn within(limit: Duration, run: impl FnOnce() + Send + 'static) {
    let (done, is_done) = channel();
    std::thread::spawn(move || {
        run();
        let _ = done.send(());
    });
    is_done.recv_timeout(limit).expect("it ends, without a panic");
}

/// The CPUs and the clock still serve.
fn still_serves(rt: &Runtime) {
    let task = rt.spawn(async {
        sleep(ms(1)).await;
        1
    });
    assert_eq!(rt.block_on(task.expect("room")).expect("a result"), 1);
}

fn wait_for(what: impl Fn() -> bool) {
    let began = Instant::now();
    while !what() {
        assert!(began.elapsed() < Duration::from_secs(10), "it does not happen");
        std::thread::sleep(ms(1));
    }
}

#[test]
fn a_task_can_drop_its_runtime() {
    within(Duration::from_secs(10), || {
        let place = Arc::new(StdMutex::new(None::<Runtime>));
        let rt = Builder::new().cpus(2).build().expect("threads");
        let (start, mine) = (Gate::new(), Arc::clone(&place));
        let waits = start.clone();
        let last = rt.spawn(async move {
            pass(waits).await;
            drop(mine.lock().expect("nobody panics").take());
            7
        });
        let (last, other) = (last.expect("room"), rt.spawn(std::future::pending::<()>()).expect("room"));
        *place.lock().expect("nobody panics") = Some(rt);
        start.open();
        wait_for(|| last.is_finished() && other.is_finished());
        let mut cx = Context::from_waker(Waker::noop());
        assert!(matches!(pin!(last).poll(&mut cx), Poll::Ready(Ok(7))));
        assert!(matches!(pin!(other).poll(&mut cx), Poll::Ready(Err(JoinError::Aborted))));
    });
}

#[test]
fn a_result_that_nobody_takes_can_panic() {
    within(Duration::from_secs(10), || {
        let rt = Builder::new().cpus(1).build().expect("threads");
        let start = Gate::new();
        let waits = start.clone();
        let task = rt.spawn(async move {
            pass(waits).await;
            Bomb
        });
        drop(task.expect("room"));
        start.open();
        wait_for(|| rt.stray_panics() == 1);
        // The same with a handle that is dropped after the end.
        let task = rt.spawn(async { Bomb }).expect("room");
        wait_for(|| task.is_finished());
        drop(task);
        assert_eq!(rt.stray_panics(), 2);
        still_serves(&rt);
    });
}

#[test]
fn an_abort_can_panic() {
    within(Duration::from_secs(10), || {
        let rt = Builder::new().cpus(1).build().expect("threads");
        let task = rt.spawn(async {
            let _bomb = Bomb;
            std::future::pending::<()>().await;
        });
        let task = task.expect("room");
        still_serves(&rt);
        task.abort();
        assert!(matches!(rt.block_on(task), Err(JoinError::Panicked(_))));
        still_serves(&rt);
        // The same at the end of the runtime.
        let task = rt.spawn(async {
            let _bomb = Bomb;
            std::future::pending::<()>().await;
        });
        let task = task.expect("room");
        still_serves(&rt);
        drop(rt);
        assert!(matches!(
            pin!(task).poll(&mut Context::from_waker(Waker::noop())),
            Poll::Ready(Err(JoinError::Panicked(_)))
        ));
    });
}

/// A waker that panics.
struct Alarm;

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        panic!("on purpose");
    }
}

#[test]
fn a_waker_can_panic() {
    within(Duration::from_secs(10), || {
        let rt = Builder::new().cpus(1).build().expect("threads");
        let waker = Waker::from(Arc::new(Alarm));
        let alarm = waker.clone();
        let task = rt.spawn(async move {
            let mut sleeps = Box::pin(sleep(ms(1)));
            assert!(sleeps.as_mut().poll(&mut Context::from_waker(&alarm)).is_pending());
            std::future::pending::<()>().await;
        });
        let _task = task.expect("room");
        wait_for(|| rt.stray_panics() == 1);
        still_serves(&rt);
        // The waker of a task that waits for another one.
        let start = Gate::new();
        let waits = start.clone();
        let mut task = rt.spawn(pass(waits)).expect("room");
        assert!(Pin::new(&mut task).poll(&mut Context::from_waker(&waker)).is_pending());
        start.open();
        wait_for(|| rt.stray_panics() == 2);
        still_serves(&rt);
        // The waker of a task that waits for a lock.
        let lock = Arc::new(Mutex::new(0));
        let guard = rt.block_on(lock.lock());
        let mut waits = Box::pin(lock.lock());
        assert!(waits.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        drop(guard);
        drop(waits);
        assert!(lock.try_lock().is_some());
    });
}

/// A waker that waits until another task has slept, for ten seconds at most.
struct Slow(Gate, Gate);

impl Wake for Slow {
    fn wake(self: Arc<Self>) {
        let began = Instant::now();
        while !self.0.is_open() && began.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(ms(1));
        }
        if self.0.is_open() {
            self.1.open();
        }
    }
}

/// A waker of the users can take long: one that panics reads the symbols of the program for its
/// backtrace. No timer waits for it.
#[test]
fn a_waker_does_not_stop_the_clock() {
    within(Duration::from_secs(60), || {
        let rt = Builder::new().cpus(2).build().expect("threads");
        let (slept, in_time) = (Gate::new(), Gate::new());
        let waker = Waker::from(Arc::new(Slow(slept.clone(), in_time.clone())));
        let sets = rt.spawn(async move {
            let mut sleeps = Box::pin(sleep(ms(1)));
            assert!(sleeps.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            std::future::pending::<()>().await;
        });
        let _sets = sets.expect("room");
        let sleeps = rt.spawn(async move {
            sleep(ms(50)).await;
            slept.open();
        });
        rt.block_on(sleeps.expect("room")).expect("a result");
        wait_for(|| in_time.is_open());
    });
}

/// A waker that calls a function when it is dropped.
struct Last(Box<dyn Fn() + Send + Sync>);

impl Wake for Last {
    fn wake(self: Arc<Self>) {}
}

impl Drop for Last {
    fn drop(&mut self) {
        self.0();
    }
}

fn last(call: impl Fn() + Send + Sync + 'static) -> Waker {
    Waker::from(Arc::new(Last(Box::new(call))))
}

/// No lock of the runtime is held when a waker is dropped: it can call the same object.
#[test]
fn a_dropped_waker_can_call_back() {
    within(Duration::from_secs(10), || {
        let lock = Arc::new(Mutex::new(0));
        let guard = lock.try_lock().expect("it is free");
        let ours = Arc::clone(&lock);
        let mut waits = Box::pin(lock.lock());
        assert!(waits.as_mut().poll(&mut Context::from_waker(&last(move || drop(ours.try_lock())))).is_pending());
        assert!(waits.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        drop(guard);
        assert!(waits.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready());

        // The waker of a sleep, which sleeps itself.
        let rt = Builder::new().cpus(1).build().expect("threads");
        let task = rt.spawn(async {
            let waker = last(|| {
                assert!(Box::pin(sleep(ms(9))).as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            });
            let mut sleeps = Box::pin(sleep(Duration::from_secs(100)));
            assert!(sleeps.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            drop(waker);
            drop(sleeps);
        });
        rt.block_on(task.expect("room")).expect("a result");
        // The waker of a task that waits for another one, which ends meanwhile.
        let rt = Builder::new().cpus(1).hand_off_after(None).build().expect("threads");
        let (end, goes_on) = (Gate::new(), Gate::new());
        let mut handle = rt.spawn(pass(end.clone())).expect("room");
        let (ends, is_on) = (end.clone(), goes_on.clone());
        let beside = rt.spawn(async move {
            pass(ends).await;
            sleep(ms(20)).await;
            is_on.open();
        });
        let waker = last(move || {
            end.open();
            wait_for(|| goes_on.is_open());
        });
        assert!(Pin::new(&mut handle).poll(&mut Context::from_waker(&waker)).is_pending());
        drop(waker);
        let _ = Pin::new(&mut handle).poll(&mut Context::from_waker(Waker::noop()));
        rt.block_on(beside.expect("room")).expect("a result");
    });
}

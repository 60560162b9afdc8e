//! Helpers of the tests.
#![allow(dead_code, reason = "each test uses a part")]

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use zerolag_runtime::model::RtPriority;
use zerolag_runtime::{Mutex, Runtime, checkpoint, sleep, yield_now};

pub(crate) const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A flag that is closed at first.
#[derive(Clone, Default)]
pub(crate) struct Gate(Arc<AtomicBool>);

impl Gate {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn open(&self) {
        self.0.store(true, Ordering::Release);
    }

    pub(crate) fn is_open(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// Waits for a gate and yields in a loop: more urgent tasks run first.
pub(crate) async fn pass(gate: Gate) {
    while !gate.is_open() {
        yield_now().await;
    }
}

/// Computes, with checkpoints some microseconds apart, until the gate is open.
pub(crate) fn compute_until(gate: &Gate) -> impl Future<Output = ()> + Send + 'static {
    let gate = gate.clone();
    async move {
        while !gate.is_open() {
            for n in 0..1_000_u32 {
                std::hint::black_box(n);
            }
            checkpoint().await;
        }
    }
}

/// A little of everything: limits, a reservation, priorities, locks, sleeps, short tasks.
pub(crate) fn live_a_little(rt: &Runtime) {
    let gate = Gate::new();
    let tenant = rt.group("tenant").quota(0.5).period(ms(20)).create().expect("a group");
    let below = tenant.group("below").weight(50).create().expect("a group");
    let lock = Arc::new(Mutex::new(0_u32));
    let mut tasks = vec![];
    for group in [&tenant, &tenant, &below] {
        tasks.push(group.spawn(compute_until(&gate)).expect("room"));
    }
    for n in 0..6 {
        let (lock, gate) = (Arc::clone(&lock), gate.clone());
        let builder = if n % 2 == 0 { rt.task().fifo(RtPriority::MIN) } else { tenant.task() };
        let task = builder.spawn(async move {
            while !gate.is_open() {
                *lock.lock().await += 1;
                sleep(Duration::from_micros(300 + 100 * n)).await;
                let mut value = lock.lock().await;
                yield_now().await;
                *value += 1;
            }
        });
        tasks.push(task.expect("room"));
    }
    let reserved = rt.task().reserve(ms(1), ms(5)).spawn(compute_until(&gate));
    tasks.push(reserved.expect("it fits"));
    for _ in 0..100 {
        let short = tenant.spawn(async { yield_now().await }).expect("room");
        drop(short);
        std::thread::sleep(ms(2));
    }
    gate.open();
    tenant.set_quota(None).expect("no limit is in range");
    for task in tasks {
        rt.block_on(task).expect("a result");
    }
}

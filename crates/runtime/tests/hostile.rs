//! Polls that do not end: their CPU is given to another thread, and they are charged later.
#![expect(clippy::disallowed_methods, reason = "the runtime schedules by the real clock")]

mod common;

use common::{Gate, compute_until, ms};
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

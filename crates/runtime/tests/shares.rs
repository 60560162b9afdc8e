//! Shares of CPU time: weights, limits, reservations, priorities, the floor.
//!
//! The assertions follow from the CPU time of the threads: other programs make these tests slower,
//! not wrong.
#![expect(clippy::disallowed_methods, reason = "the runtime schedules by the real clock")]

mod common;

use common::{Gate, compute_until, ms};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use zerolag_model::{DlParams, RtPriority, SchedAttr};
use zerolag_runtime::{Builder, SpawnError, checkpoint, sleep};

/// No CPU is handed over: a thread that is preempted by another program looks like a poll that does
/// not end.
fn all_polls_stay(cpus: u32) -> Builder {
    Builder::new().cpus(cpus).hand_off_after(None)
}

#[test]
fn weights_divide_a_cpu() {
    let rt = all_polls_stay(1).build().expect("threads");
    let gate = Gate::new();
    let groups = [100, 300].map(|weight| rt.group(format!("w{weight}")).weight(weight).create().expect("a group"));
    let tasks: Vec<_> = groups
        .iter()
        .flat_map(|group| [group.spawn(compute_until(&gate)), group.spawn(compute_until(&gate))])
        .collect();
    std::thread::sleep(ms(600));
    let used = groups.each_ref().map(|group| group.usage().cpu.as_secs_f64());
    gate.open();
    for task in tasks {
        rt.block_on(task.expect("room")).expect("a result");
    }
    // Three, apart from the time that other programs took from one of the groups.
    let ratio = used[1] / used[0];
    assert!((2.0..4.5).contains(&ratio), "{used:?}: {ratio}");
}

#[test]
fn a_limit_holds() {
    let rt = all_polls_stay(2).build().expect("threads");
    let (gate, began) = (Gate::new(), Instant::now());
    let tenant = rt.group("tenant").quota(0.05).period(ms(50)).create().expect("a group");
    let tasks: Vec<_> = (0..4).map(|_| tenant.spawn(compute_until(&gate)).expect("room")).collect();
    // Until it is throttled, which takes longer beside other programs.
    while began.elapsed() < ms(800) || tenant.usage().stat.nr_throttled == 0 {
        std::thread::sleep(ms(10));
    }
    let (usage, lasted) = (tenant.usage(), began.elapsed());
    gate.open();
    for task in tasks {
        rt.block_on(task).expect("a result");
    }
    // A period that has begun counts as a whole one. A CPU notices the limit at its ticks, and
    // takes 5 ms from the pool at a time.
    let periods = lasted.as_secs_f64() / 0.050 + 1.0;
    let most = periods * 0.002_5 + 2.0 * 0.006;
    assert!(usage.cpu.as_secs_f64() <= most, "{usage:?} in {lasted:?}, {most} at most");
    assert!(usage.cpu >= Duration::from_micros(2_500), "{usage:?}: not even the quota of one period");
    tenant.set_quota(None).expect("no limit is in range");
    assert_eq!(tenant.max().quota, None);
}

/// Requests, each a task of one poll: the CPU idles before each of them. Such a task was polled
/// although its group was throttled: the request to park it came with the switch to it, and the
/// CPU looked for requests only before that.
#[test]
fn a_limit_holds_for_tasks_of_one_poll() {
    let rt = all_polls_stay(1).build().expect("threads");
    let tenant = rt.group("tenant").quota(0.1).period(ms(20)).create().expect("a group");
    let began = Instant::now();
    while began.elapsed() < ms(400) {
        let task = tenant.spawn(async {
            let began = Instant::now();
            while began.elapsed() < ms(1) {
                std::hint::spin_loop();
            }
        });
        rt.block_on(task.expect("room")).expect("a result");
    }
    let used = tenant.usage().cpu;
    // What a period has too much is taken from the following ones.
    let most = began.elapsed().mul_f64(0.1) + ms(2 + 1 + 5);
    assert!(used < most, "{used:?} in {:?}", began.elapsed());
}

#[test]
fn what_does_not_fit_is_refused() {
    let rt = Builder::new().cpus(2).build().expect("threads");
    let reserved = |part: u64| rt.task().reserve(ms(part), ms(100)).spawn(sleep_long());
    // At most 95 % of two CPUs can be reserved, including the deadline servers.
    let first = reserved(90).expect("it fits");
    let refused = reserved(95).expect_err("that is too much");
    assert!(
        matches!(refused, SpawnError::Refused(_)) && refused.to_string().contains("0.900 free (EBUSY)"),
        "{refused}"
    );
    first.abort();
    assert!(rt.block_on(first).is_err());
    let again = reserved(90).expect("what ended gave its bandwidth back");
    again.abort();
    let params = DlParams::new(
        zerolag_model::Duration::from_millis(2),
        zerolag_model::Duration::ZERO,
        zerolag_model::Duration::ZERO,
    );
    assert!(rt.task().attr(SchedAttr::Deadline(params)).spawn(async {}).is_err());
}

/// A container of one processor with two CPUs of the scheduler: 95 % of one can be reserved,
/// including the deadline servers, which have 5 % of each CPU.
#[test]
fn reservations_fit_the_container() {
    let admits = |builder: Builder, part: u64| {
        let rt = builder.cpus(2).build().expect("threads");
        rt.task().reserve(ms(part), ms(100)).spawn(async {}).is_ok()
    };
    assert!(admits(Builder::new().processors(1.0), 80));
    assert!(!admits(Builder::new().processors(1.0), 90));
    assert!(admits(Builder::new().processors(4.0), 90));
}

async fn sleep_long() {
    sleep(Duration::from_secs(3600)).await;
}

#[test]
fn the_urgent_come_first() {
    let rt = all_polls_stay(1).build().expect("threads");
    let gate = Gate::new();
    let order = Arc::new(std::sync::Mutex::new(Vec::new()));
    let hog = rt.spawn(compute_until(&gate)).expect("room");
    let (mut tasks, opened) = (Vec::new(), Arc::new(AtomicBool::new(false)));
    for priority in [10, 30, 20] {
        let (order, opened) = (Arc::clone(&order), Arc::clone(&opened));
        let attr = SchedAttr::fifo_at(priority);
        let task = rt.task().attr(attr).spawn(async move {
            // All three are awake before the first continues: the first to run computes until then.
            while !opened.load(Ordering::Acquire) {
                checkpoint().await;
            }
            order.lock().expect("nobody panics").push(priority);
        });
        tasks.push(task.expect("room"));
    }
    opened.store(true, Ordering::Release);
    for task in tasks {
        rt.block_on(task).expect("a result");
    }
    assert_eq!(*order.lock().expect("nobody panics"), [30, 20, 10]);
    gate.open();
    rt.block_on(hog).expect("a result");
}

#[test]
fn the_floor_lets_the_starving_on() {
    let progress = |floor: Duration, least: Duration| {
        let rt = all_polls_stay(1).floor(floor, ms(100)).build().expect("threads");
        let gate = Gate::new();
        let urgent = rt.task().fifo(RtPriority::MIN).spawn(compute_until(&gate)).expect("room");
        let batch = rt.group("batch").create().expect("a group");
        let starving = batch.spawn(compute_until(&gate)).expect("room");
        let began = Instant::now();
        while began.elapsed() < ms(500) || batch.usage().cpu < least {
            std::thread::sleep(ms(10));
        }
        let used = batch.usage().cpu;
        gate.open();
        rt.block_on(urgent).expect("a result");
        rt.block_on(starving).expect("a result");
        used
    };
    // Two periods of the floor, however long the machine takes for them.
    assert!(progress(ms(20), ms(40)) >= ms(40));
    assert_eq!(progress(Duration::ZERO, Duration::ZERO), Duration::ZERO);
}

/// A period has at least 1 ms of quota: it is longer for small quotas, unless it is set.
#[test]
fn a_small_quota_has_a_long_period() {
    let rt = Builder::new().cpus(1).build().expect("threads");
    let created = |cpus| rt.group("small").quota(cpus).create();
    let ms = zerolag_model::Duration::from_millis;
    for (cpus, quota, period) in [(0.5, 50, 100), (0.01, 1, 100), (0.005, 1, 200), (0.001, 1, 1_000)] {
        let max = created(cpus).expect("it is in range").max();
        assert_eq!((max.quota, max.period), (Some(ms(quota)), ms(period)), "{cpus}");
    }
    assert!(created(0.000_9).is_err());
    assert!(rt.group("small").quota(0.005).period(Duration::from_millis(100)).create().is_err());
}

//! The real-time paths of the core: `cargo bench -p zerolag-core --bench core`.
//!
//! `wake_switch_block`: with 64 tasks queued, the most urgent wakes, is switched to, blocks, and
//! the previous one continues: one wakeup and two switches. `keep`: the current task is left and
//! picked again. `push`: a woken task is pushed to the only idle CPU, runs there and blocks, and
//! that CPU searches for tasks to pull. `find`: the selection of its CPU, with all CPUs except one
//! running a more urgent task: a search of cpupri.

#[path = "../tests/support/machine.rs"]
#[expect(dead_code, reason = "shared with the tests")]
mod machine;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use machine::{Machine, crowded, fifo, turn};
use std::hint::black_box;
use zerolag_core::Leave;
use zerolag_model::settings::RtBalance;
use zerolag_model::{KernelVersion, Settings};

fn settings(rt_balance: RtBalance) -> Settings {
    Settings { rt_balance, ..KernelVersion::V6_12.settings() }
}

fn one_queue(criterion: &mut Criterion) {
    let mut machine = Machine::new(1, 64, settings(RtBalance::IpiRootDomain));
    for task in 0..64 {
        machine.spawn(task, fifo(1 + i64::from(task)), None, 0);
    }
    criterion.bench_function("rt/keep/64", |bencher| bencher.iter(|| machine.schedule(0, Leave::Preempted)));
    machine.schedule(0, Leave::Block);
    criterion.bench_function("rt/wake_switch_block/64", |bencher| {
        bencher.iter(|| {
            machine.wake(63, 0);
            machine.settle();
            machine.schedule(0, Leave::Block);
        });
    });
}

fn many_cpus(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("rt");
    for nr_cpus in [4, 64, 4096] {
        for rt_balance in [RtBalance::PullLocked, RtBalance::IpiRootDomain] {
            let mut machine = crowded(nr_cpus, settings(rt_balance));
            let id = BenchmarkId::new(format!("push/{rt_balance}"), nr_cpus);
            group.bench_function(id, |bencher| bencher.iter(|| turn(&mut machine)));
        }
        let mut machine = crowded(nr_cpus, settings(RtBalance::IpiRootDomain));
        // It slept on a CPU that now runs a more urgent task.
        machine.wake_on(3, 0);
        machine.settle();
        machine.schedule(nr_cpus - 1, Leave::Block);
        machine.spawn(nr_cpus + 2, fifo(95), machine::only(&[nr_cpus - 1]), nr_cpus - 1);
        group.bench_function(BenchmarkId::new("find", nr_cpus), |bencher| {
            bencher.iter(|| black_box(machine.select(3, 0)));
        });
    }
    group.finish();
}

criterion_group!(benches, one_queue, many_cpus);
criterion_main!(benches);

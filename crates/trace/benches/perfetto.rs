//! Time and size of writing a million switches as a Perfetto trace.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use zerolag_model::attr::Prio;
use zerolag_model::{CpuId, GroupId, Instant, PrevState, Record, SchedAttr, TaskId, Topology, TraceEvent};
use zerolag_trace::{Machine, Meta, Source, Trace, perfetto};

const SWITCHES: u32 = 1_000_000;
const TASKS: u32 = 64;
const CPUS: u32 = 8;

/// Switches on eight CPUs, about a microsecond apart.
fn trace() -> Trace {
    let meta = Meta::new(Source::Simulation, Machine::Known(Topology::flat(CPUS).expect("possible")));
    let mut records: Vec<Record> = (0..TASKS)
        .map(|task| Record {
            at: Instant::ZERO,
            cpu: CpuId(0),
            event: TraceEvent::TaskNew {
                task: TaskId(task),
                name: format!("worker-{task}").into(),
                parent: None,
                attr: SchedAttr::NORMAL,
                group: GroupId::ROOT,
            },
        })
        .collect();
    let mut current = [None; CPUS as usize];
    for number in 0..SWITCHES {
        let cpu = number % CPUS;
        // Each CPU alternates between its own tasks.
        let next = Some(TaskId(number / CPUS % (TASKS / CPUS) * CPUS + cpu));
        let prev = core::mem::replace(&mut current[cpu as usize], next);
        let prev_state = if prev.is_none() { PrevState::Idle } else { PrevState::Runnable };
        records.push(Record {
            at: Instant::from_nanos(u64::from(number) * 997),
            cpu: CpuId(cpu),
            event: TraceEvent::Switch { prev, prev_state, next, next_prio: Prio::from_raw(120) },
        });
    }
    Trace { meta, records }
}

fn export(criterion: &mut Criterion) {
    let trace = trace();
    let mut bytes = Vec::new();
    perfetto::write(&mut bytes, &trace).expect("memory takes it");
    println!("{} bytes, {:.1} per switch", bytes.len(), bytes.len() as f64 / f64::from(SWITCHES));
    let mut group = criterion.benchmark_group("perfetto");
    group.sample_size(10).throughput(Throughput::Elements(u64::from(SWITCHES)));
    group.bench_function("a million switches", |bencher| {
        bencher.iter(|| {
            bytes.clear();
            perfetto::write(&mut bytes, &trace).expect("memory takes it");
            bytes.len()
        });
    });
    group.finish();
}

criterion_group!(benches, export);
criterion_main!(benches);

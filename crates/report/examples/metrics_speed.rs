//! Measures how fast a trace is written, read and added up. Run with `--release`.
#![expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]

use std::hint::black_box;
use std::time::Instant as Wall;
use zerolag_model::attr::{Prio, SchedAttr};
use zerolag_model::{CpuId, GroupId, Instant, PrevState, Record, TaskId, TraceEvent};
use zerolag_report::Metrics;
use zerolag_trace::{Machine, Meta, Source, Trace};

fn main() -> Result<(), Box<dyn core::error::Error>> {
    for (cpus, tasks) in [(4, 20), (64, 320), (4096, 16_384)] {
        let trace = rounds(cpus, tasks, 3_000_000);
        let count = trace.records.len();
        let rate = |start: Wall| count as f64 / start.elapsed().as_secs_f64() / 1e6;
        let start = Wall::now();
        let summary = Metrics::of(&trace);
        let metrics = rate(start);
        black_box(&summary);
        let mut bytes = Vec::with_capacity(count * 12);
        let start = Wall::now();
        trace.write(&mut bytes)?;
        let write = rate(start);
        let start = Wall::now();
        let again = Trace::from_bytes(&bytes)?;
        let read = rate(start);
        assert!(again == trace, "reads back as it was");
        let size = bytes.len() as f64 / count as f64;
        println!(
            "{cpus} CPUs, {tasks} tasks, {count} records: metrics {metrics:.1} M/s, write {write:.1} M/s, read {read:.1} M/s, {size:.2} bytes per record"
        );
    }
    Ok(())
}

/// Every task in turn wakes, is switched to, and blocks.
fn rounds(cpus: u32, tasks: u32, records: usize) -> Trace {
    let mut meta = Meta::new(Source::Simulation, Machine::Cpus(cpus));
    let prio = SchedAttr::NORMAL.prio();
    let mut list: Vec<Record> = Vec::with_capacity(records + 8);
    let mut running = vec![None; cpus as usize];
    for task in 0..tasks {
        let event = TraceEvent::TaskNew {
            task: TaskId(task),
            name: format!("t{task}").into(),
            parent: None,
            attr: SchedAttr::NORMAL,
            group: GroupId::ROOT,
        };
        list.push(Record { at: Instant::ZERO, cpu: CpuId(0), event });
    }
    let mut step = 0_u64;
    while list.len() < records {
        let task = TaskId((step.wrapping_mul(7) % u64::from(tasks)) as u32);
        let cpu = CpuId((step.wrapping_mul(2_654_435_761) % u64::from(cpus)) as u32);
        let at = Instant::from_nanos(step * 731);
        step += 1;
        if running.contains(&Some(task)) && cpus <= 64 {
            continue;
        }
        let prev = running[cpu.index()];
        let mut push = |event| list.push(Record { at, cpu, event });
        push(TraceEvent::Waking { task, prio, target: cpu, new: false });
        push(TraceEvent::Wakeup { task, prio });
        let prev_state = if prev.is_some() { PrevState::Blocked } else { PrevState::Idle };
        push(TraceEvent::Switch { prev, prev_state, next: Some(task), next_prio: Prio::from_raw(120) });
        running[cpu.index()] = Some(task);
    }
    meta.end = list.last().map_or(Instant::ZERO, |record| record.at);
    Trace { meta, records: list }
}

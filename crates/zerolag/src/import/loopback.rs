//! Which wakings in softirqs are those of a task: what it sends to another of the same machine.
//!
//! A packet of a device wakes its receiver in a softirq, and so does a packet over loopback: there
//! the softirq runs within the sender's own call (`__local_bh_enable_ip`, `process_backlog`). To
//! take both for devices loses every request chain over TCP on one machine: a client would send at
//! its recorded times, however late the server answers. To take both for the running task makes it
//! the waker of whatever arrives while it computes.
//!
//! The key is that a packet of a device does not choose the task that it interrupts. If a waking
//! came from outside, a task runs then as often as it runs anyway. A task is the waker of another
//! if its odds of running at wakings of it are [`RATIO`] times those of running at all. Few wakings
//! prove little: a task that runs for 90 % of the time is there at all of forty wakings by chance.
//! So the observed share is the least that fits the number of wakings (Wilson's bound, two standard
//! deviations), and [`WAKINGS_MIN`] of them are needed. Timers expire in interrupts and count as
//! such.
//!
//! Not recognised: a sender that occupies the machine, and the first few packets of a pair. What it
//! cannot tell is left a device's.
//!
//! Complexity: O(records log tasks).
//!
//! Sources: Linux v6.12 `net/core/dev.c, netif_rx, process_backlog`; `kernel/softirq.c`. E. B.
//! Wilson 1927, "Probable inference, the law of succession, and statistical inference".

use std::collections::{BTreeMap, BTreeSet};
use zerolag_model::event::Irq;
use zerolag_model::{CpuId, Instant, TaskId, TraceEvent};
use zerolag_trace::Trace;

/// The pairs of waker and woken task.
pub(super) type Pairs = BTreeSet<(TaskId, TaskId)>;

/// So many wakings are needed to tell a sender from a chance.
const WAKINGS_MIN: u64 = 16;
/// The least ratio of odds.
const RATIO: f64 = 3.0;

#[derive(Default)]
struct SoftirqCpu {
    runs: Option<TaskId>,
    since: Instant,
    /// The kinds of the interrupts that it is in.
    inside: Vec<Irq>,
}

/// Returns the senders of a trace and their receivers.
pub(super) fn senders(trace: &Trace) -> Pairs {
    let mut cpus: BTreeMap<CpuId, SoftirqCpu> = BTreeMap::new();
    let mut ran: BTreeMap<TaskId, u64> = BTreeMap::new();
    // Wakings in softirqs, by woken task, and by running task and woken one.
    let mut all: BTreeMap<TaskId, u64> = BTreeMap::new();
    let mut together: BTreeMap<(TaskId, TaskId), u64> = BTreeMap::new();
    for record in &trace.records {
        let cpu = cpus.entry(record.cpu).or_default();
        match &record.event {
            TraceEvent::Switch { next, .. } => {
                if let Some(task) = cpu.runs {
                    *ran.entry(task).or_default() += record.at.since(cpu.since).as_nanos();
                }
                (cpu.runs, cpu.since) = (*next, record.at);
            }
            TraceEvent::IrqEnter { irq } => cpu.inside.push(*irq),
            TraceEvent::IrqExit { .. } => drop(cpu.inside.pop()),
            TraceEvent::Waking { task, .. } if cpu.inside.last() == Some(&Irq::Softirq) => {
                *all.entry(*task).or_default() += 1;
                if let Some(running) = cpu.runs.filter(|running| running != task) {
                    *together.entry((running, *task)).or_default() += 1;
                }
            }
            _ => {}
        }
    }
    let elapsed = trace.meta.end.since(trace.meta.start).as_nanos() as f64 * trace.meta.machine.nr_cpus() as f64;
    let odds = |share: f64| share / (1.0 - share).max(1e-9);
    let is_sender = |(waker, woken): (TaskId, TaskId), count: u64| {
        let observed = least_share(count as f64, all.get(&woken).copied().unwrap_or(count) as f64);
        let expected = ran.get(&waker).copied().unwrap_or(0) as f64 / elapsed.max(1.0);
        count >= WAKINGS_MIN && odds(observed) >= RATIO * odds(expected.min(1.0))
    };
    together.into_iter().filter(|(pair, count)| is_sender(*pair, *count)).map(|(pair, _)| pair).collect()
}

/// Returns the least share of which `count` of `all` is no surprise: Wilson's lower bound at two
/// standard deviations.
fn least_share(count: f64, all: f64) -> f64 {
    let share = count / all;
    let spread = (share * (1.0 - share) / all + 1.0 / (all * all)).sqrt();
    (share + 2.0 / all - 2.0 * spread) / (1.0 + 4.0 / all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerolag_trace::script::Script;

    /// A server that runs for a tenth of the time, and wakes its client by a softirq; and a task
    /// that runs for the rest of it, which the packets of a device find running.
    #[test]
    fn a_sender_is_told_from_a_task_that_was_interrupted() {
        let mut script = Script::new(1);
        let [server, client, other, receiver] = ["server", "client", "other", "receiver"].map(|name| script.fair(name));
        let softirq = |script: &mut Script, us: u64, task: TaskId| {
            script.event(us, 0, TraceEvent::IrqEnter { irq: Irq::Softirq });
            script.wake(us, 0, task);
            script.event(us, 0, TraceEvent::IrqExit { irq: Irq::Softirq });
        };
        for turn in 0..40 {
            let at = turn * 1000;
            script.run(at, 0, None, Some(server));
            softirq(&mut script, at + 50, client);
            script.run(at + 100, 0, Some(server), Some(other));
            softirq(&mut script, at + 500, receiver);
            script.run(at + 1000, 0, Some(other), None);
        }
        let trace = script.end(40_000);
        assert_eq!(senders(&trace), Pairs::from([(server, client)]));
    }

    #[test]
    fn few_wakings_prove_little() {
        let odds = |share: f64| share / (1.0 - share);
        for (count, all, least) in
            [(16.0, 16.0, 4.0), (40.0, 40.0, 10.0), (4000.0, 4000.0, 1000.0), (1980.0, 2000.0, 63.4)]
        {
            assert!((odds(least_share(count, all)) / least - 1.0).abs() < 0.02, "{count} of {all}");
        }
        assert!(least_share(0.0, 10.0).abs() < 1e-9);
    }
}

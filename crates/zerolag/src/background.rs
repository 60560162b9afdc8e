//! The kernel's own threads of the fair class, which every CPU runs besides a workload.
//!
//! They take little time, but beside real-time tasks they are the fair tasks for which a CPU's
//! server runs, and elsewhere they cut turns. So their number and their wakeups matter more than
//! their share.
//!
//! Measured on a virtual machine of two CPUs under load (Linux 6.18.44, compilers and a database,
//! `perf record -e sched:sched_switch -a`, 20 s, 2026-11-24); per CPU:
//!
//! | thread | runs per second | median | 90 % | longest |
//! |---|---|---|---|---|
//! | `kworker/N` | 5 to 7 | 15 us | 25 to 39 us | 0.4 to 0.7 ms |
//! | `kworker/uN` | 6 to 8 | 22 to 43 us | 0.14 to 0.66 ms | 0.7 to 1.6 ms |
//! | `ksoftirqd/N` | 5 to 7 | 6 to 21 us | 38 to 62 us | 0.16 to 0.26 ms |
//! | `rcu_preempt`, one for all | 89 | 7 us | 11 us | 28 us |
//!
//! The distances are exponential, the times lognormal with these medians and 90 % points. An idle
//! machine has fewer: Linux 7.3 runs `kworker` twice a second, `rcu_preempt` once in 20 s and
//! `ksoftirqd` never; beside forks and packets it runs `rcu_preempt` 189 and `ksoftirqd` 20 times a
//! second (`docs/guide/background.md`).

use zerolag_model::{CpuId, Duration, SchedAttr};
use zerolag_workload::program::{Action, Program, TaskDef};
use zerolag_workload::random::{Bounds, Dist};

/// Adds the threads to a program, for a machine of so many CPUs. No run waits for their end.
///
/// # Panics
/// Never: the distributions are constants.
pub fn add_to(program: &mut Program, nr_cpus: usize) {
    let us = Duration::from_micros;
    let why = "invariant: constants";
    let thread = |name: String, every: Duration, median: u64, sigma: f64, longest: u64| {
        let bounds = |high| Bounds { low: us(1), high };
        let sleep = Dist::exponential(every, bounds(every * 20)).expect(why);
        let run = Dist::lognormal(us(median), sigma, bounds(us(longest))).expect(why);
        TaskDef::looping(name, SchedAttr::NORMAL, vec![Action::Sleep(sleep), Action::Kernel(run)])
    };
    program.kernel_work.first_task.get_or_insert(program.tasks.len());
    program.tasks.push(thread("rcu_preempt".to_owned(), us(11_000), 7, 0.35, 28));
    for cpu in (0..nr_cpus).map(CpuId::from_index) {
        let own = [
            thread(format!("kworker/{cpu}"), us(165_000), 15, 0.6, 700),
            thread(format!("kworker/u{cpu}"), us(145_000), 30, 1.8, 1_600),
            thread(format!("ksoftirqd/{cpu}"), us(170_000), 12, 1.1, 260),
        ];
        program.tasks.extend(own.map(|thread| thread.on(cpu)));
    }
}

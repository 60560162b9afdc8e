//! The kernel's own threads of the fair class, which every CPU runs besides a workload.
//!
//! They take little time, but beside real-time tasks they are the fair tasks for which a CPU's
//! server runs, and elsewhere they cut turns. So their number and their wakeups matter more than
//! their share.
//!
//! [`Background::Kernel`] was measured on a virtual machine of two CPUs under load (Linux 6.18.44,
//! compilers and a database, `perf record -e sched:sched_switch -a`, 20 s, 2026-11-24); per CPU:
//!
//! | thread | runs per second | median | 90 % | longest |
//! |---|---|---|---|---|
//! | `kworker/N` | 5 to 7 | 15 us | 25 to 39 us | 0.4 to 0.7 ms |
//! | `kworker/uN` | 6 to 8 | 22 to 43 us | 0.14 to 0.66 ms | 0.7 to 1.6 ms |
//! | `ksoftirqd/N` | 5 to 7 | 6 to 21 us | 38 to 62 us | 0.16 to 0.26 ms |
//! | `rcu_preempt`, one for all | 89 | 7 us | 11 us | 28 us |
//!
//! [`Background::Idle`] on an idle one (Linux 7.3.4, 60 s in virtual time, 2026-11-27,
//! `docs/how-to/background.md`):
//!
//! | thread | runs per second | median | 90 % | longest |
//! |---|---|---|---|---|
//! | `kworker/N` | 1.5 | 25 us | 31 us | 48 us |
//! | `kworker/u` | 0.6 | 24 us | 43 us | 44 us |
//! | `kcompactd0`, one for all | 2.0 | 21 us | 25 us | 31 us |
//! | `rcu_preempt`, one for all | 0.05 | 24 us | 27 us | 27 us |
//!
//! The distances are exponential, the times lognormal with these medians and 90 % points.

use zerolag_model::{CpuMask, Duration, SchedAttr};
use zerolag_sim::costs::KernelThread;
use zerolag_workload::program::{Action, Program, TaskDef};
use zerolag_workload::random::{Bounds, Dist, DistError};

/// Which threads run besides a workload.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Background {
    /// Those of the cost profile: of a calibrated one what was measured on its host, none of the
    /// built-in profiles.
    #[default]
    Profile,
    /// None.
    None,
    /// Those of an idle machine.
    Idle,
    /// Those of a loaded machine.
    Kernel,
}

/// A thread before it has its CPU.
struct ThreadDef {
    name: String,
    per_cpu: bool,
    sleep: Dist,
    run: Dist,
}

impl Background {
    /// Adds the threads to a program, for a machine with these CPUs and these threads in its
    /// profile. No run waits for their end.
    ///
    /// # Panics
    /// Never: the profile's reader has checked their times.
    pub(crate) fn add_to(self, program: &mut Program, cpus: &CpuMask, of_profile: &[KernelThread]) {
        let threads: Vec<ThreadDef> = match self {
            Self::Profile => of_profile.iter().map(ThreadDef::of).collect(),
            Self::None => Vec::new(),
            Self::Idle => idle().iter().map(ThreadDef::of).collect(),
            Self::Kernel => loaded(),
        };
        if threads.is_empty() {
            return;
        }
        program.kernel_work.first_task.get_or_insert(program.tasks.len());
        for thread in threads.iter().filter(|thread| !thread.per_cpu) {
            program.tasks.push(thread.task(thread.name.clone()));
        }
        for cpu in cpus.iter() {
            let own = threads.iter().filter(|thread| thread.per_cpu);
            program.tasks.extend(own.map(|thread| thread.task(format!("{}{cpu}", thread.name)).on(cpu)));
        }
    }
}

impl ThreadDef {
    fn of(thread: &KernelThread) -> Self {
        let KernelThread { name, per_cpu, every, median, p90, longest } = thread;
        let bounds = Bounds { low: (*median).min(Duration::from_micros(1)), high: *longest };
        Self::new(name, *per_cpu, *every, Dist::lognormal_through(*median, *p90, bounds))
    }

    fn new(name: &str, per_cpu: bool, every: Duration, run: Result<Dist, DistError>) -> Self {
        let why = "invariant: checked when the profile was read";
        let bounds = Bounds { low: every.min(Duration::from_micros(1)), high: every * 20 };
        let sleep = Dist::exponential(every, bounds).expect(why);
        Self { name: name.to_owned(), per_cpu, sleep, run: run.expect(why) }
    }

    fn task(&self, name: String) -> TaskDef {
        let steps = vec![Action::Sleep(self.sleep.clone()), Action::Kernel(self.run.clone())];
        TaskDef::looping(name, SchedAttr::NORMAL, steps)
    }
}

fn loaded() -> Vec<ThreadDef> {
    let us = Duration::from_micros;
    let thread = |name, per_cpu, every, median, sigma, longest| {
        let bounds = Bounds { low: us(1), high: us(longest) };
        ThreadDef::new(name, per_cpu, us(every), Dist::lognormal(us(median), sigma, bounds))
    };
    vec![
        thread("rcu_preempt", false, 11_000, 7, 0.35, 28),
        thread("kworker/", true, 165_000, 15, 0.6, 700),
        thread("kworker/u", true, 145_000, 30, 1.8, 1_600),
        thread("ksoftirqd/", true, 170_000, 12, 1.1, 260),
    ]
}

/// Returns the threads of an idle machine.
#[must_use]
pub fn idle() -> Vec<KernelThread> {
    let us = Duration::from_micros;
    let thread = |name: &str, per_cpu, every, [median, p90, longest]: [u64; 3]| KernelThread {
        name: name.to_owned(),
        per_cpu,
        every: us(every),
        median: us(median),
        p90: us(p90),
        longest: us(longest),
    };
    vec![
        thread("rcu_preempt", false, 20_000_000, [24, 27, 27]),
        thread("kcompactd0", false, 500_000, [21, 25, 31]),
        thread("kworker/", true, 667_000, [25, 31, 48]),
        thread("kworker/u", true, 1_667_000, [24, 43, 44]),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerolag_sim::Costs;

    fn names(background: Background, of_profile: &[KernelThread]) -> Vec<String> {
        let mut program = Program::default();
        background.add_to(&mut program, &CpuMask::first_n(2), of_profile);
        program.tasks.iter().map(|task| task.name.to_string()).collect()
    }

    #[test]
    fn each_cpu_has_its_own_and_the_machine_the_rest() {
        let idle = ["rcu_preempt", "kcompactd0", "kworker/0", "kworker/u0", "kworker/1", "kworker/u1"];
        assert_eq!(names(Background::Idle, &[]), idle);
        assert_eq!(names(Background::Kernel, &[]).len(), 7);
    }

    #[test]
    fn a_profile_without_threads_adds_none() {
        assert!(names(Background::Profile, &Costs::server().threads).is_empty());
        assert!(names(Background::None, &idle()).is_empty());
        assert_eq!(names(Background::Profile, &idle()), names(Background::Idle, &[]));
    }
}

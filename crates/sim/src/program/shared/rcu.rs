//! [`Rcu`]: the readers of RCU, and the grace period that waits for them.
//!
//! A grace period begins when a task asks for one (`synchronize_rcu`), and is over when each
//! section that had begun before has ended. The kernel does not watch sections: that would cost
//! each of them. It waits until each CPU has passed a *quiescent state*, at which it is in no
//! section, and for the readers that were preempted before their CPU did so.
//!
//! ```text
//!             a task waits [1]                     none left [2]
//!   no period ----------------> CPUs and readers ----------------> no period: its waiters wake
//!                                  |       ^
//!                                  +-------+ a look every few ticks: CPUs that switched or idle
//! ```
//!
//! Here a CPU passes a quiescent state when it switches, idles, goes offline, or computes outside
//! of sections at a look. A section that begins on a CPU before that belongs to the period as well,
//! as in the kernel: nothing tells it from an older one. So the state is the CPUs that are pending
//! and the readers that are waited for, and a switch costs nothing: a look compares how many
//! switches each CPU has made.
//!
//! A look at a period that only readers are left of, and that is older than `rcu.boost_delay`, asks
//! the thread `rcub/0` to boost them: it makes one after the other the holder of a mutex that
//! inherits, and waits for it ([`act::rcu`](crate::program::act::rcu)).
//!
//! Complexity: a look is O(CPUs * readers), a section O(readers).
//!
//! Sources: Linux v6.12 `kernel/rcu/tree.c`, `rcu_gp_init`, `rcu_gp_fqs_loop`, `force_qs_rnp`,
//! `rcu_sched_clock_irq`; `kernel/rcu/tree_plugin.h`, `rcu_note_context_switch`,
//! `rcu_preempt_ctxt_queue`, `rcu_flavor_sched_clock_irq`, `rcu_initiate_boost`,
//! `rcu_preempt_boost_start_gp`. differs: the states of CPUs are seen at
//! looks, where the kernel's CPUs report them after their ticks; one node, of any number of CPUs;
//! no callbacks and no expedited periods.

use zerolag_model::{CpuId, CpuMask, Duration, Instant, Settings, TaskId};
use zerolag_workload::program::{KernelWork, RcuBoost, ResourceId};

/// The readers, the tasks that wait, and the grace period.
#[derive(Clone, Debug)]
pub(crate) struct Rcu {
    /// The semaphore at which the thread of grace periods waits.
    pub(crate) wakes: ResourceId,
    /// What the boost of readers needs, and the age in ticks from which on a period has it; `None`
    /// if readers are not boosted.
    pub(crate) boost: Option<(RcuBoost, u64)>,
    /// The reader that holds the mutex of the boost.
    pub(crate) boosted: Option<TaskId>,
    /// Ticks per second: the age from which on the end of a section is a quiescent state.
    hz: u64,
    /// The tasks in sections, in the order in which these began.
    readers: Vec<TaskId>,
    /// The tasks that wait for a period that has not begun.
    waiting: Vec<TaskId>,
    period: Option<RcuPeriod>,
}

/// A grace period.
#[derive(Clone, Debug)]
struct RcuPeriod {
    /// The thread that began it.
    thread: TaskId,
    /// The tick in which it began.
    began: u64,
    /// The time of the next look.
    look_at: Instant,
    /// The CPUs that have not passed a quiescent state.
    pending: CpuMask,
    /// The switches that each CPU had made when it began.
    switches: Vec<u64>,
    /// The readers that it waits for.
    readers: Vec<TaskId>,
    /// Those among them that are to be boosted.
    to_boost: Vec<TaskId>,
    /// The tasks that wait for its end.
    waiters: Vec<TaskId>,
}

/// What a look found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Looked {
    /// The period is over.
    Over,
    /// It is not.
    Waits,
    /// It is not, and its readers are to be boosted from now on.
    Boosts,
}

/// What the thread of grace periods has to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Due {
    /// Nothing: no task waits.
    Nothing,
    /// A period begins.
    Begin,
    /// The CPUs and readers of the period are looked at.
    Look,
    /// The look is later: the thread was woken too early.
    Later,
    /// The period ends.
    End,
}

impl Rcu {
    /// Makes it for a program in which tasks wait for grace periods.
    pub(crate) fn of(work: &KernelWork, settings: &Settings) -> Option<Self> {
        let hz = u64::from(settings.hz);
        let delay = (settings.rcu_boost_delay.as_nanos() * hz).div_ceil(Duration::from_secs(1).as_nanos());
        work.rcu_periods.map(|wakes| Self::new(wakes, work.rcu_boost.map(|boost| (boost, delay)), hz))
    }

    const fn new(wakes: ResourceId, boost: Option<(RcuBoost, u64)>, hz: u64) -> Self {
        Self { wakes, boost, boosted: None, hz, readers: Vec::new(), waiting: Vec::new(), period: None }
    }

    /// Returns how many ticks pass between two looks, on a machine of so many CPUs
    /// (`RCU_JIFFIES_TILL_FORCE_QS`, `RCU_JIFFIES_FQS_DIV`).
    pub(crate) fn ticks_between_looks(&self, nr_cpus: usize) -> u64 {
        1 + u64::from(self.hz > 250) + u64::from(self.hz > 500) + nr_cpus as u64 / 256
    }

    /// A task begins a section on a CPU that has made so many switches.
    pub(crate) fn lock(&mut self, task: TaskId, cpu: CpuId, switches: u64) {
        debug_assert!(!self.readers.contains(&task), "sections do not nest");
        self.readers.push(task);
        if let Some(period) = &mut self.period
            && period.pending.contains(cpu)
            && period.switches[cpu.index()] == switches
        {
            period.readers.push(task);
        }
    }

    /// A task ends its section on a CPU. If it is boosted, its caller gives the mutex back. Returns
    /// the thread of the period if that is over with it.
    pub(crate) fn unlock(&mut self, task: TaskId, cpu: CpuId, jiffy: u64) -> Option<TaskId> {
        self.readers.retain(|reader| *reader != task);
        let period = self.period.as_mut()?;
        // A section that ends in an old period is told to report that (`need_qs`).
        if jiffy > period.began + self.hz {
            period.pending.remove(cpu);
        }
        let waited = period.readers.len();
        period.readers.retain(|reader| *reader != task);
        period.to_boost.retain(|reader| *reader != task);
        Some(period.thread).filter(|_| period.readers.len() < waited && period.is_over())
    }

    /// A task waits for a period that begins from now on. Returns whether the thread of periods is
    /// to be told.
    pub(crate) fn wait(&mut self, task: TaskId) -> bool {
        self.waiting.push(task);
        self.period.is_none()
    }

    /// Returns what the thread has to do at a time.
    pub(crate) fn due(&self, now: Instant) -> Due {
        match &self.period {
            None if self.waiting.is_empty() => Due::Nothing,
            None => Due::Begin,
            Some(period) if period.is_over() => Due::End,
            Some(period) if now < period.look_at => Due::Later,
            Some(_) => Due::Look,
        }
    }

    /// \[1\] A period begins, with the switches that each CPU has made.
    pub(crate) fn begin(&mut self, thread: TaskId, began: u64, look_at: Instant, switches: Vec<u64>) {
        debug_assert!(self.period.is_none(), "one at a time");
        self.period = Some(RcuPeriod {
            thread,
            began,
            look_at,
            pending: CpuMask::first_n(switches.len()),
            switches,
            readers: self.readers.clone(),
            to_boost: Vec::new(),
            waiters: core::mem::take(&mut self.waiting),
        });
    }

    /// Looks at the period in a tick: `passes` says of a CPU, the switches that it had made when
    /// the period began, and the readers, whether it has passed a quiescent state.
    pub(crate) fn look(&mut self, jiffy: u64, next: Instant, passes: impl Fn(CpuId, u64, &[TaskId]) -> bool) -> Looked {
        let Some(period) = &mut self.period else { return Looked::Waits };
        period.look_at = next;
        if period.pending.is_empty() {
            let is_old = self.boost.is_some_and(|(_, delay)| jiffy >= period.began + delay);
            if !is_old || !period.to_boost.is_empty() || period.readers.is_empty() {
                return if period.is_over() { Looked::Over } else { Looked::Waits };
            }
            period.to_boost.clone_from(&period.readers);
            return Looked::Boosts;
        }
        let passed = |cpu: &CpuId| passes(*cpu, period.switches[cpu.index()], &self.readers);
        for cpu in period.pending.iter().filter(passed).collect::<Vec<_>>() {
            period.pending.remove(cpu);
        }
        if period.is_over() { Looked::Over } else { Looked::Waits }
    }

    /// Returns the reader that is to be boosted next.
    pub(crate) fn next_to_boost(&self) -> Option<TaskId> {
        self.period.as_ref()?.to_boost.first().copied()
    }

    /// \[2\] The period ends. Returns the tasks that have waited for it.
    pub(crate) fn end(&mut self) -> Vec<TaskId> {
        let period = self.period.take().expect("invariant: a period ends after it began");
        debug_assert!(period.is_over(), "no reader is forgotten");
        period.waiters
    }
}

impl RcuPeriod {
    /// Returns whether nothing is waited for.
    fn is_over(&self) -> bool {
        self.pending.is_empty() && self.readers.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const A: TaskId = TaskId(0);
    const B: TaskId = TaskId(1);
    const WRITER: TaskId = TaskId(2);
    const THREAD: TaskId = TaskId(3);

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    /// `A` reads on CPU 0, and a period has begun that `WRITER` waits for. Its readers are boosted
    /// from tick 125 on.
    fn period() -> Rcu {
        let boost = RcuBoost { wakes: ResourceId(1), mutex: ResourceId(2) };
        let mut rcu = Rcu::new(ResourceId(0), Some((boost, 125)), 250);
        rcu.lock(A, CpuId(0), 5);
        assert!(rcu.wait(WRITER));
        assert_eq!(rcu.due(at(2)), Due::Begin);
        rcu.begin(THREAD, 0, at(8), vec![5, 7]);
        rcu
    }

    /// Only CPU 1 is quiescent, or both.
    fn look(rcu: &mut Rcu, both: bool) -> Looked {
        rcu.look(2, at(16), |cpu, _, _| both || cpu == CpuId(1))
    }

    #[test]
    fn a_period_waits_for_the_sections_that_began_before() {
        let mut rcu = period();
        assert_eq!(rcu.due(at(7)), Due::Later);
        assert_eq!(rcu.due(at(8)), Due::Look);
        assert_eq!(look(&mut rcu, true), Looked::Waits, "the reader was preempted");
        assert_eq!(rcu.unlock(A, CpuId(1), 3), Some(THREAD));
        assert_eq!(rcu.due(at(9)), Due::End);
        assert_eq!(rcu.end(), [WRITER]);
        assert_eq!(rcu.due(at(9)), Due::Nothing);
    }

    #[test]
    fn a_section_on_a_cpu_without_a_quiescent_state_counts() {
        let mut rcu = period();
        assert_eq!(rcu.unlock(A, CpuId(0), 1), None, "the CPU is pending");
        rcu.lock(A, CpuId(0), 5);
        assert_eq!(look(&mut rcu, true), Looked::Waits);
        rcu.lock(B, CpuId(1), 7);
        assert_eq!(rcu.unlock(A, CpuId(0), 2), Some(THREAD), "the other began after");
    }

    #[test]
    fn a_section_after_a_switch_does_not_count() {
        let mut rcu = period();
        rcu.lock(B, CpuId(1), 8);
        assert_eq!(look(&mut rcu, true), Looked::Waits);
        assert_eq!(rcu.unlock(B, CpuId(1), 2), None);
        assert_eq!(rcu.unlock(A, CpuId(0), 2), Some(THREAD));
    }

    #[test]
    fn a_task_that_comes_in_a_period_waits_for_the_next() {
        let mut rcu = period();
        assert!(!rcu.wait(B));
        assert_eq!(rcu.unlock(A, CpuId(0), 1), None);
        assert_eq!(look(&mut rcu, true), Looked::Over);
        assert_eq!(rcu.end(), [WRITER]);
        assert_eq!(rcu.due(at(8)), Due::Begin);
    }

    #[test]
    fn sections_that_follow_each_other_do_not_hold_an_old_period_up() {
        let mut rcu = period();
        assert_eq!(look(&mut rcu, false), Looked::Waits);
        for jiffy in 1..=250 {
            assert_eq!(rcu.unlock(A, CpuId(0), jiffy), None);
            rcu.lock(A, CpuId(0), 5);
        }
        assert_eq!(rcu.unlock(A, CpuId(0), 251), Some(THREAD));
    }

    #[test]
    fn readers_are_boosted_when_only_they_are_left() {
        let mut rcu = period();
        rcu.lock(B, CpuId(1), 7);
        let old = |rcu: &mut Rcu| rcu.look(125, at(508), |_, _, _| true);
        assert_eq!(old(&mut rcu), Looked::Waits, "CPUs were pending");
        assert_eq!(rcu.look(124, at(500), |_, _, _| true), Looked::Waits, "it is too young");
        assert_eq!(old(&mut rcu), Looked::Boosts);
        assert_eq!(old(&mut rcu), Looked::Waits, "once");
        assert_eq!(rcu.next_to_boost(), Some(A));
        assert_eq!(rcu.unlock(A, CpuId(0), 126), None);
        assert_eq!(rcu.next_to_boost(), Some(B));
        assert_eq!(rcu.unlock(B, CpuId(0), 127), Some(THREAD));
        assert_eq!((rcu.next_to_boost(), rcu.end()), (None, vec![WRITER]));
    }

    /// Two CPUs, and tasks that run, read and are preempted in random order.
    #[derive(Default)]
    struct RandomReaders {
        dice: u64,
        switches: [u64; 2],
        current: [Option<TaskId>; 2],
        reading: BTreeSet<TaskId>,
        /// The sections that began before the period and have not ended.
        old: BTreeSet<TaskId>,
    }

    impl RandomReaders {
        fn draw(&mut self, below: u64) -> u64 {
            self.dice = self.dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.dice >> 33) % below
        }

        fn switch(&mut self, cpu: usize, task: Option<TaskId>) {
            if task.is_none_or(|_| self.current[1 - cpu] != task) && self.current[cpu] != task {
                self.current[cpu] = task;
                self.switches[cpu] += 1;
            }
        }

        /// The current task of a CPU begins a section, or ends it.
        fn read(&mut self, rcu: &mut Rcu, cpu: usize) {
            let Some(task) = self.current[cpu] else { return };
            let on = CpuId::from_index(cpu);
            if self.reading.insert(task) {
                rcu.lock(task, on, self.switches[cpu]);
                return;
            }
            self.reading.remove(&task);
            self.old.remove(&task);
            if rcu.unlock(task, on, 0).is_some() {
                assert!(self.old.is_empty(), "a period is over early");
            }
        }

        /// Looks as the thread does; returns whether the period is over.
        fn look(&self, rcu: &mut Rcu) -> bool {
            let passes = |cpu: CpuId, switches, readers: &[TaskId]| {
                let current = self.current[cpu.index()];
                self.switches[cpu.index()] != switches || current.is_none_or(|task| !readers.contains(&task))
            };
            rcu.look(0, Instant::ZERO, passes) == Looked::Over
        }

        /// The thread does what is due.
        fn serve(&mut self, rcu: &mut Rcu) {
            match rcu.due(Instant::ZERO) {
                Due::Nothing | Due::Later => assert!(!rcu.wait(WRITER) || rcu.due(Instant::ZERO) == Due::Begin),
                Due::Begin => {
                    self.old.clone_from(&self.reading);
                    rcu.begin(THREAD, 0, Instant::ZERO, self.switches.to_vec());
                }
                Due::Look => assert!(!self.look(rcu) || self.old.is_empty(), "a period is over early"),
                Due::End => {
                    assert!(self.old.is_empty(), "a period is over early");
                    assert!(rcu.end().iter().all(|waiter| *waiter == WRITER));
                }
            }
        }
    }

    #[test]
    fn in_no_order_is_a_period_over_early_or_never() {
        for seed in 0..5_000 {
            let mut rcu = Rcu::new(ResourceId(0), None, 250);
            let mut world = RandomReaders { dice: seed, ..RandomReaders::default() };
            for _ in 0..60 {
                let cpu = world.draw(2) as usize;
                match world.draw(4) {
                    0 => {
                        let task = Some(world.draw(4) as u32).filter(|task| *task < 3).map(TaskId);
                        world.switch(cpu, task);
                    }
                    1 | 2 => world.read(&mut rcu, cpu),
                    _ => world.serve(&mut rcu),
                }
            }
            // Each reader gets a CPU and ends: one look, and the period is over.
            world.switch(1, None);
            for task in world.reading.clone() {
                world.switch(0, Some(task));
                world.read(&mut rcu, 0);
            }
            if rcu.period.is_some() {
                world.look(&mut rcu);
                assert_eq!(rcu.due(Instant::ZERO), Due::End, "seed {seed}: a period lasts");
            }
        }
    }
}

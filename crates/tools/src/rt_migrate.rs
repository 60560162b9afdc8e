//! `rt-migrate-test`: more real-time threads than CPUs; the waiting thread must be the least urgent
//! one.
//!
//! A parent releases all threads from a barrier at once. Each thread takes a time stamp, spins
//! until its run time has passed on the clock, takes another stamp and meets the others at a second
//! barrier. The parent sleeps before and after the release. There are three figures per iteration
//! and thread: its start and its end, counted from the parent's stamp, and the number of its loops,
//! which shows how much CPU time it had.
//!
//! Thread `i` is SCHED_FIFO at the base priority plus `i`; the parent is above them all. In a later
//! [`Edition`] of the tool the most urgent thread pins itself to the next CPU before every
//! iteration, so that it preempts whatever runs there.
//!
//! On the simulated machine a read of the clock takes [`RtMigrate::loop_time`] of CPU time, and
//! jitter comes from two named streams per thread: the time out of the barrier, and the delay of a
//! sleep's end.
//!
//! Sources: Rostedt 2007, *New RT Task Balancing* (text and listings); rt-tests 2.4 as observed.
//! Differs: the tool reads but ignores `--run-time` and `--sleep-time` (always 20 and 100 ms); here
//! they are used.

use core::fmt;
use zerolag_model::{CpuId, CpuMask, Duration, Instant, Mark, Record, RtPriority, SchedAttr, TaskId, TraceEvent};
use zerolag_sim::Sink;
use zerolag_workload::program::{Action, AffinityChange, Phase, Program, Resource, ResourceId, ResourceKind, TaskDef};
use zerolag_workload::random::{Bounds, Dist, MAX_TIME};

/// The edition of the tool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Edition {
    /// As in the text of 2007: no thread is pinned.
    Y2007,
    /// rt-tests 2.4: the most urgent thread visits the CPUs in turn.
    V2_4,
}

/// The parameters of a test.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RtMigrate {
    /// The edition of the tool.
    pub edition: Edition,
    /// Threads, without the parent.
    pub tasks: u32,
    /// Iterations.
    pub loops: u32,
    /// Priority of the least urgent thread.
    pub base_priority: u8,
    /// Whether all threads between the first and the last have the same priority.
    pub equal: bool,
    /// How long a thread spins.
    pub run: Duration,
    /// How long the parent sleeps before and after every release.
    pub sleep: Duration,
    /// CPU time of one read of the clock.
    pub loop_time: Duration,
    /// The longest time out of the barrier; sleeps end late by up to 25 times as much. Zero makes
    /// all iterations equal.
    pub jitter: Duration,
    /// The time by which a more urgent thread may start later than a less urgent one.
    pub max_error: Duration,
    /// The CPU of each thread at the start of the test; threads without an entry are placed by the
    /// machine.
    pub homes: Vec<CpuId>,
    /// Mean interval of interruptions by the kernel's own thread on each CPU; `None` is a machine
    /// without them.
    pub noise: Option<Duration>,
}

impl RtMigrate {
    /// Returns the tool's defaults for this many threads. 119 ns per read give the 168 000 loops in
    /// 20 ms of the 2007 text.
    #[must_use]
    pub fn new(tasks: u32) -> Self {
        Self {
            edition: Edition::V2_4,
            tasks,
            loops: 50,
            base_priority: 2,
            equal: false,
            run: Duration::from_millis(20),
            sleep: Duration::from_millis(100),
            loop_time: Duration::from_nanos(119),
            jitter: Duration::from_micros(2),
            max_error: Duration::from_micros(1_000),
            homes: Vec::new(),
            noise: None,
        }
    }

    /// Checks that the program can be built.
    ///
    /// # Errors
    /// A number is out of range; the message says which.
    pub fn check(&self, cpus: usize) -> Result<(), RtMigrateError> {
        if self.tasks == 0 || self.loops == 0 {
            return Err(RtMigrateError::Nothing);
        }
        let parent = i64::from(self.base_priority) + i64::from(self.tasks);
        if RtPriority::new(i64::from(self.base_priority)).is_none() || RtPriority::new(parent).is_none() {
            return Err(RtMigrateError::Priorities { base: self.base_priority, parent });
        }
        if self.run.is_zero() || self.sleep.is_zero() || self.loop_time.is_zero() || self.noise == Some(Duration::ZERO)
        {
            return Err(RtMigrateError::Zero);
        }
        let times = [self.run, self.sleep, self.jitter, self.loop_time, self.noise.unwrap_or_default()];
        if times.into_iter().any(|time| time > LONGEST) {
            return Err(RtMigrateError::TooLong);
        }
        let phases = u64::from(self.loops);
        if self.goes_round(cpus).is_none() && self.edition == Edition::V2_4 && phases > PHASES_MAX {
            return Err(RtMigrateError::Loops(phases));
        }
        Ok(())
    }

    /// Returns the priority of a thread.
    ///
    /// # Panics
    /// If [`check`](Self::check) was not called or has failed.
    #[must_use]
    pub fn priority(&self, task: u32) -> RtPriority {
        let step = if self.equal && task > 0 && task + 1 < self.tasks { 1 } else { task };
        RtPriority::new(i64::from(self.base_priority) + i64::from(step)).expect("invariant: priorities were checked")
    }

    /// Returns the id of a thread in the trace; the parent is task 0.
    #[must_use]
    pub const fn task_id(task: u32) -> TaskId {
        TaskId(task + 1)
    }

    /// Returns the program for a machine of `cpus` CPUs.
    ///
    /// # Panics
    /// If [`check`](Self::check) was not called or has failed.
    #[must_use]
    pub fn program(&self, cpus: usize) -> Program {
        let parties = self.tasks + 1;
        let barrier = |name: &str| Resource { name: name.into(), kind: ResourceKind::Barrier { parties } };
        let mut tasks = vec![self.parent()];
        tasks.extend((0..self.tasks).map(|task| self.thread(task, cpus)));
        if let Some(mean) = self.noise {
            tasks.extend((0..cpus).map(|cpu| noise(CpuId::from_index(cpu), mean)));
        }
        Program { tasks, resources: vec![barrier("start"), barrier("end")], ..Program::default() }
    }

    /// Returns the longest duration of a run, if a part of it never ends by itself.
    #[must_use]
    pub fn duration(&self) -> Option<Duration> {
        self.noise?;
        let sleep = self.sleep.saturating_add(self.jitter * SLEEP_JITTER);
        let spin = (self.run * u64::from(self.tasks)).saturating_sub(self.sleep);
        let iteration = (sleep * 2).saturating_add(spin).saturating_add(Duration::from_millis(1));
        Some(iteration * u64::from(self.loops))
    }

    fn parent(&self) -> TaskDef {
        let priority = i64::from(self.base_priority) + i64::from(self.tasks);
        let priority = RtPriority::new(priority).expect("invariant: priorities were checked");
        let sleep = Action::Sleep(jittered(self.sleep, self.jitter * SLEEP_JITTER));
        let actions = vec![sleep.clone(), Action::Stamp(NOW), Action::Barrier(START), sleep, Action::Barrier(END)];
        let phase = phase(AffinityChange::Keep, u64::from(self.loops), actions);
        task_def("parent".to_owned(), priority, 1, vec![phase])
    }

    fn thread(&self, task: u32, cpus: usize) -> TaskDef {
        let mut actions = vec![Action::Barrier(START)];
        if !self.jitter.is_zero() {
            actions.push(Action::Run(jittered(Duration::ZERO, self.jitter)));
        }
        actions.extend([
            Action::Stamp(STARTED),
            Action::Spin { wall: Dist::Constant(self.run), chunk: self.loop_time },
            Action::Stamp(ENDED),
            Action::Barrier(END),
        ]);
        let (turns, phases) = match self.edition {
            Edition::V2_4 if task + 1 == self.tasks => {
                let bind = |cpu: usize| {
                    let only = CpuMask::single(CpuId::from_index(cpu));
                    phase(AffinityChange::Set(only.into()), 1, actions.clone())
                };
                match self.goes_round(cpus) {
                    Some(turns) => (turns, (0..cpus).map(bind).collect()),
                    None => (1, (0..self.loops as usize).map(|iteration| bind(iteration % cpus)).collect()),
                }
            }
            Edition::V2_4 | Edition::Y2007 => (1, self.free_phases(task, actions)),
        };
        task_def(format!("prio{}-{task}", self.priority(task)), self.priority(task), turns, phases)
    }

    /// Returns the phases of a thread that may run anywhere.
    fn free_phases(&self, task: u32, actions: Vec<Action>) -> Vec<Phase> {
        let loops = u64::from(self.loops);
        let Some(home) = self.homes.get(task as usize).copied() else {
            return vec![phase(AffinityChange::Keep, loops, actions)];
        };
        let at_home = AffinityChange::Set(CpuMask::single(home).into());
        vec![phase(at_home, 1, Vec::new()), phase(AffinityChange::Reset, loops, actions)]
    }

    /// Returns how often the most urgent thread visits all CPUs, if that is a whole number.
    fn goes_round(&self, cpus: usize) -> Option<u64> {
        let (loops, cpus) = (u64::from(self.loops), cpus as u64);
        loops.is_multiple_of(cpus).then(|| loops / cpus)
    }

    /// Returns a collector of this run's figures.
    #[must_use]
    pub fn collector(&self) -> Collector {
        let threads = vec![ThreadStamps::default(); self.tasks as usize];
        Collector { loop_time: self.loop_time, now: Vec::new(), threads, rows: Vec::new() }
    }

    /// Returns whether an iteration is a failure: a thread started later than the next less urgent
    /// one by more than the allowed error.
    ///
    /// A late start is not a failure if the thread did as many loops as the other, started before
    /// the other ended and ended at about the same time.
    #[must_use]
    pub fn is_failure(&self, row: &Row) -> bool {
        let error = self.max_error.as_nanos() / 1_000;
        row.0.windows(2).any(|pair| {
            let (low, high) = (pair[0], pair[1]);
            let is_late = high.start.saturating_sub(low.start) > error;
            let is_its_own =
                high.loops >= low.loops && high.start <= low.len && high.len.saturating_sub(low.len) <= error;
            is_late && !is_its_own
        })
    }
}

/// Returns a time with up to `jitter` added.
fn jittered(time: Duration, jitter: Duration) -> Dist {
    if jitter.is_zero() {
        return Dist::Constant(time);
    }
    Dist::uniform(time, time.saturating_add(jitter)).expect("invariant: times were checked")
}

fn phase(affinity: AffinityChange, loops: u64, actions: Vec<Action>) -> Phase {
    Phase { affinity, ..Phase::new("iteration", loops, actions) }
}

fn task_def(name: String, priority: RtPriority, turns: u64, phases: Vec<Phase>) -> TaskDef {
    TaskDef { turns: Some(turns), phases, ..TaskDef::looping(name, SchedAttr::fifo(priority), Vec::new()) }
}

/// A kernel thread pinned to its CPU: SCHED_OTHER, but where kernel mode is not preempted no task
/// can preempt it.
fn noise(cpu: CpuId, mean: Duration) -> TaskDef {
    let bounds = |low, high| Bounds { low, high };
    let pause = Dist::exponential(mean, bounds(Duration::ZERO, mean * 10));
    let (low, high) = NOISE_SECTION;
    let section = Dist::uniform(low, high);
    let why = "invariant: times were checked";
    let actions = vec![Action::Sleep(pause.expect(why)), Action::Kernel(section.expect(why))];
    TaskDef::looping(format!("kthread/{cpu}"), SchedAttr::NORMAL, actions).on(cpu)
}

/// Why a program cannot be built.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum RtMigrateError {
    /// No thread or no iteration.
    Nothing,
    /// Priorities outside 1..=99.
    Priorities {
        /// The least urgent thread's.
        base: u8,
        /// The parent's.
        parent: i64,
    },
    /// A time is zero.
    Zero,
    /// A time is longer than three days.
    TooLong,
    /// More iterations than a program may have.
    Loops(u64),
}

impl fmt::Display for RtMigrateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("at least one thread and one iteration are needed"),
            Self::Priorities { base, parent } => write!(
                f,
                "base priority {base} makes the parent's priority {parent}: all must be in 1..=99; \
                 lower the base priority or the number of threads"
            ),
            Self::Zero => f.write_str("run time, sleep time, loop time and distance of noise must be above zero"),
            Self::TooLong => write!(f, "a time is longer than {LONGEST}"),
            Self::Loops(loops) => {
                write!(f, "{loops} iterations are more than {PHASES_MAX}, and no multiple of the number of CPUs")
            }
        }
    }
}

impl core::error::Error for RtMigrateError {}

/// One thread in one iteration, in whole microseconds as the tool counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cell {
    /// From the parent's stamp to the thread's start.
    pub start: u64,
    /// From the parent's stamp to the thread's end.
    pub len: u64,
    /// Reads of the clock.
    pub loops: u64,
}

/// One iteration: a cell per thread, the least urgent first.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Row(pub Vec<Cell>);

/// The printed form of an iteration: three lines, as in all editions of the tool.
#[derive(Clone, Copy, Debug)]
pub struct Printed<'a>(pub usize, pub &'a Row);

impl fmt::Display for Printed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(iteration, row) = self;
        write!(f, "{iteration:4}:   ")?;
        row.0.iter().try_for_each(|cell| write!(f, "{:6}  ", cell.start))?;
        write!(f, "\n len:   ")?;
        row.0.iter().try_for_each(|cell| write!(f, "{:6}  ", cell.len))?;
        write!(f, "\n loops: ")?;
        row.0.iter().try_for_each(|cell| write!(f, "{:6}  ", cell.loops))?;
        writeln!(f)
    }
}

#[derive(Clone, Debug, Default)]
struct ThreadStamps {
    /// Start of the current iteration, and CPU time used until then.
    started: Option<(Instant, Duration)>,
    iterations: usize,
}

/// Reads the threads' stamps from the records of a run.
#[derive(Clone, Debug)]
pub struct Collector {
    loop_time: Duration,
    /// The parent's stamps of the iterations that are not complete.
    now: Vec<Instant>,
    threads: Vec<ThreadStamps>,
    rows: Vec<Row>,
}

impl Collector {
    /// Returns the iterations so far; in the last one, threads that have not ended it are all
    /// zeros.
    #[must_use]
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Returns the iterations that every thread has completed.
    #[must_use]
    pub fn into_complete_rows(mut self) -> Vec<Row> {
        let complete = self.threads.iter().map(|thread| thread.iterations).min().unwrap_or(0);
        self.rows.truncate(complete);
        self.rows
    }

    fn ended(&mut self, task: usize, at: Instant, exec: Duration) {
        let thread = &mut self.threads[task];
        let Some((start, exec_before)) = thread.started.take() else { return };
        let iteration = thread.iterations;
        thread.iterations += 1;
        let Some(now) = self.now.get(iteration).copied() else { return };
        let micros = |instant: Instant| instant.as_nanos() / 1_000;
        let spun = exec.saturating_sub(exec_before).as_nanos();
        let half = self.loop_time.as_nanos() / 2;
        self.rows[iteration].0[task] = Cell {
            start: micros(start) - micros(now),
            len: micros(at) - micros(now),
            loops: ((spun + half) / self.loop_time.as_nanos()).max(1),
        };
    }
}

impl Sink for Collector {
    fn record(&mut self, record: &Record) {
        let TraceEvent::Mark { task, mark: Mark::Stamp { label, exec } } = record.event else { return };
        match (label, task.index().checked_sub(1)) {
            (NOW, _) => {
                self.now.push(record.at);
                self.rows.push(Row(vec![Cell::default(); self.threads.len()]));
            }
            (STARTED, Some(task)) if task < self.threads.len() => self.threads[task].started = Some((record.at, exec)),
            (ENDED, Some(task)) if task < self.threads.len() => self.ended(task, record.at, exec),
            _ => {}
        }
    }
}

/// One thread over all iterations, in whole microseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Totals {
    /// The longest time to the start.
    pub max: u64,
    /// The shortest.
    pub min: u64,
    /// Their sum.
    pub total: u64,
    /// Their mean, rounded down.
    pub avg: u64,
}

impl Totals {
    /// Sums one thread's starts; `None` without an iteration.
    #[must_use]
    pub fn of(rows: &[Row], task: u32) -> Option<Self> {
        let starts = || rows.iter().map(|row| row.0[task as usize].start);
        let total: u64 = starts().sum();
        Some(Self { max: starts().max()?, min: starts().min()?, total, avg: total / rows.len() as u64 })
    }
}

const START: ResourceId = ResourceId(0);
const END: ResourceId = ResourceId(1);
/// Labels of the stamps.
const NOW: u32 = 1;
const STARTED: u32 = 2;
const ENDED: u32 = 3;
/// Sleeps end late by up to this many times the jitter.
const SLEEP_JITTER: u64 = 25;
/// The most phases of the thread that visits the CPUs.
const PHASES_MAX: u64 = 100_000;
/// The shortest and longest turn of the kernel's own threads.
const NOISE_SECTION: (Duration, Duration) = (Duration::from_micros(5), Duration::from_micros(60));
/// A thousandth of the longest time of a workload: times computed from it stay below that.
const LONGEST: Duration = Duration::from_nanos(MAX_TIME.as_nanos() / 1_000);

#[cfg(test)]
mod tests {
    use super::*;

    fn row(cells: &[(u64, u64, u64)]) -> Row {
        Row(cells.iter().map(|&(start, len, loops)| Cell { start, len, loops }).collect())
    }

    #[test]
    fn the_listings_of_2007_are_judged_and_printed_as_there() {
        let test = RtMigrate::new(5);
        let broken = row(&[
            (36, 20036, 167_789),
            (33, 20033, 167_693),
            (20041, 40041, 227_167),
            (39, 20039, 167_829),
            (33, 20033, 167_814),
        ]);
        assert!(test.is_failure(&broken));
        let sneaked = row(&[
            (40, 20040, 28),
            (46, 20046, 167_769),
            (31, 20031, 167_781),
            (35, 20035, 167_668),
            (42, 20042, 167_804),
        ]);
        assert!(!test.is_failure(&sneaked));
        let printed = Printed(2, &sneaked).to_string();
        let lines: Vec<&str> = printed.lines().map(str::trim_end).collect();
        assert_eq!(
            lines,
            [
                "   2:       40      46      31      35      42",
                " len:    20040   20046   20031   20035   20042",
                " loops:     28  167769  167781  167668  167804",
            ]
        );
    }

    #[test]
    fn impossible_tests_are_refused() {
        let refused = |test: RtMigrate| test.check(4).expect_err("refused").to_string();
        assert!(refused(RtMigrate { base_priority: 98, ..RtMigrate::new(3) }).contains("parent's priority 101"));
        assert!(refused(RtMigrate { base_priority: 0, ..RtMigrate::new(3) }).contains("base priority 0"));
        assert!(refused(RtMigrate::new(0)).contains("at least one thread"));
        assert!(refused(RtMigrate { loops: 100_001, ..RtMigrate::new(3) }).contains("no multiple"));
        assert_eq!(RtMigrate { loops: 1_000_000, ..RtMigrate::new(3) }.check(4), Ok(()));
    }

    #[test]
    fn equal_priorities_are_those_between_the_ends() {
        let test = RtMigrate { equal: true, ..RtMigrate::new(5) };
        let all: Vec<u8> = (0..5).map(|task| test.priority(task).value()).collect();
        assert_eq!(all, [2, 3, 3, 3, 6]);
    }
}

//! rt-app's own log: a row per loop of a phase, with the requested and the measured times.
//!
//! rt-app reads the clock at the start and the end of every loop and around every `run` and
//! `runtime`. [`instrument`] puts time stamps at the same places of a program; [`Log`] collects
//! rows from the records of its run. Stamps take no time.
//!
//! | column | meaning |
//! |---|---|
//! | `#idx` | number of the thread |
//! | `perf` | loops of the calibrated busy loop: work in units of [`LOOP`] |
//! | `run` | wall time within `run` and `runtime` |
//! | `period` | wall time of the whole loop |
//! | `start`, `end`, `rel_st` | start and end of the loop; the simulation begins at zero, so `rel_st` is `start` |
//! | `slack` | time that was left at the last timer, negative if it was missed |
//! | `c_duration`, `c_period` | the requested times: the sums of `run` and `runtime`, and of timer periods |
//! | `wu_lat` | from timers' expiries until the thread ran, since the last missed one |
//!
//! All times are whole microseconds. A loop that the end of the run cuts off has no row, as in
//! rt-app.
//!
//! Source: rt-app 55cb0c0 `src/rt-app.c`, `run_event`, `thread_body`; `src/rt-app_utils.c`,
//! `log_timing`. Differs: `perf` is computed from the requested times, not measured.

use core::fmt;
use std::collections::BTreeMap;
use std::sync::Arc;
use zerolag_model::{Duration, Instant, Mark, Record, TaskId, TraceEvent};
use zerolag_sim::Sink;
use zerolag_workload::program::{Action, Program};
use zerolag_workload::random::Dist;

/// CPU time of one calibrated loop: 100 ns, the order of magnitude that rt-app measures.
pub const LOOP: Duration = Duration::from_nanos(100);

/// Labels of our stamps: the last four values, which no workload file uses by accident.
pub(super) const LOOP_START: u32 = u32::MAX - 3;
const RUN_START: u32 = u32::MAX - 2;
const RUN_END: u32 = u32::MAX - 1;
pub(super) const LOOP_END: u32 = u32::MAX;

/// Returns whether an action is the stamp before a `run` or `runtime`.
pub(super) const fn is_run_start(action: &Action) -> bool {
    matches!(action, Action::Stamp(RUN_START))
}

/// Returns the program with a stamp at every place where rt-app reads the clock.
#[must_use]
pub fn instrument(program: &Program) -> Program {
    let mut program = program.clone();
    for phase in program.tasks.iter_mut().flat_map(|task| &mut task.phases) {
        let actions = core::mem::take(&mut phase.actions);
        phase.actions.push(Action::Stamp(LOOP_START));
        for action in actions {
            match action {
                Action::Run(_) | Action::Spin { .. } => {
                    phase.actions.extend([Action::Stamp(RUN_START), action, Action::Stamp(RUN_END)]);
                }
                other => phase.actions.push(other),
            }
        }
        phase.actions.push(Action::Stamp(LOOP_END));
    }
    program
}

/// A row of the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Row {
    /// Number of the thread.
    pub index: u32,
    /// Wall time within `run` and `runtime`.
    pub run: Duration,
    /// Start of the loop.
    pub start: Instant,
    /// End of the loop.
    pub end: Instant,
    /// Time left at the last timer, in microseconds.
    pub slack: i64,
    /// Requested work.
    pub asked_run: Duration,
    /// Requested periods.
    pub asked_period: Duration,
    /// From timers' expiries until it ran.
    pub wakeup: Duration,
}

impl Row {
    /// Returns the text of rt-app's mark for the loop.
    #[must_use]
    pub fn stats(&self) -> String {
        let us = |time: Duration| time.as_micros_floor();
        format!(
            "period={} run={} wu_lat={} slack={} c_period={} c_run={}",
            us(self.end.since(self.start)),
            us(self.run),
            us(self.wakeup),
            self.slack,
            us(self.asked_period),
            us(self.asked_run),
        )
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let us = |time: Duration| time.as_micros_floor();
        let at = |at: Instant| at.as_nanos() / 1_000;
        let perf = self.asked_run.as_nanos() / LOOP.as_nanos();
        write!(
            f,
            "{:4} {perf:8} {:8} {:8} {:15} {:15} {:15} {:10} {:10} {:10} {:10}",
            self.index,
            us(self.run),
            us(self.end.since(self.start)),
            at(self.start),
            at(self.end),
            at(self.start),
            self.slack,
            us(self.asked_run),
            us(self.asked_period),
            us(self.wakeup),
        )
    }
}

/// The first line of a log.
pub const HEAD: &str = "#idx     perf      run   period           start             end          rel_st      slack c_duration   c_period     wu_lat";

/// Collects rows.
#[derive(Debug)]
pub struct Log {
    program: Arc<Program>,
    threads: BTreeMap<TaskId, LoggedThread>,
}

#[derive(Debug, Default)]
struct LoggedThread {
    name: Arc<str>,
    def: Option<usize>,
    phase: usize,
    row: Row,
    run_start: Instant,
    rows: Vec<Row>,
}

impl Log {
    /// Returns an empty log of a program, instrumented or not.
    #[must_use]
    pub fn new(program: Arc<Program>) -> Self {
        Self { program, threads: BTreeMap::new() }
    }

    /// Returns the last row of a thread.
    #[must_use]
    pub fn last_row(&self, task: TaskId) -> Option<&Row> {
        self.threads.get(&task)?.rows.last()
    }

    /// Returns each thread's name and its rows, in order of threads.
    pub fn threads(&self) -> impl Iterator<Item = (&str, &[Row])> {
        self.threads.values().map(|thread| (&*thread.name, &*thread.rows))
    }
}

/// Returns the requested work and periods of a phase. Random times count as zero.
fn asked(program: &Program, def: Option<usize>, phase: usize) -> (Duration, Duration) {
    let phase = def.and_then(|def| program.tasks.get(def)).and_then(|task| task.phases.get(phase));
    let constant = |time: &Dist| if let Dist::Constant(time) = time { *time } else { Duration::ZERO };
    phase.into_iter().flat_map(|phase| &phase.actions).fold(
        (Duration::ZERO, Duration::ZERO),
        |(run, period), action| match action {
            Action::Run(time) | Action::Spin { wall: time, .. } => (run + constant(time), period),
            Action::Timer { period: time, .. } => (run, period + constant(time)),
            _ => (run, period),
        },
    )
}

impl Sink for Log {
    fn record(&mut self, record: &Record) {
        match &record.event {
            TraceEvent::TaskNew { task, name, .. } => {
                let def = name.rsplit_once('-').map(|(def, _)| def);
                let def = self.program.tasks.iter().position(|task| Some(&*task.name) == def);
                self.threads.insert(*task, LoggedThread { name: Arc::clone(name), def, ..LoggedThread::default() });
            }
            TraceEvent::Mark { task, mark } => {
                let Some(thread) = self.threads.get_mut(task) else { return };
                match mark {
                    Mark::Phase { phase, .. } => thread.phase = *phase as usize,
                    Mark::TimerDue { due, slack } => {
                        thread.row.slack = slack.as_nanos().div_euclid(1_000);
                        thread.row.wakeup = if slack.is_negative() {
                            Duration::ZERO
                        } else {
                            thread.row.wakeup + record.at.since(*due)
                        };
                    }
                    Mark::Stamp { label: LOOP_START, .. } => {
                        thread.row = Row { index: task.0, start: record.at, ..Row::default() };
                    }
                    Mark::Stamp { label: RUN_START, .. } => thread.run_start = record.at,
                    Mark::Stamp { label: RUN_END, .. } => thread.row.run += record.at.since(thread.run_start),
                    Mark::Stamp { label: LOOP_END, .. } => {
                        let (asked_run, asked_period) = asked(&self.program, thread.def, thread.phase);
                        thread.rows.push(Row { end: record.at, asked_run, asked_period, ..thread.row });
                    }
                    Mark::Stamp { .. } | Mark::TurnEnd { .. } => {}
                }
            }
            _ => {}
        }
    }
}

//! rt-app's marks: the lines that rt-app writes into the kernel's trace (`trace_marker`).
//!
//! Scripts that search for these lines (LISA's, or a user's own) then work on the tracefs text of
//! simulated runs, and of runs of this program on the host.
//!
//! ```text
//! rtapp_main: event=start            rtapp_loop: event=start thread_loop=0 phase=1 phase_loop=3
//! rtapp_main: event=clock_ref data=0 rtapp_event: id=0 type=6 desc=run
//! rtapp_task: event=start            rtapp_loop: event=end thread_loop=0 phase=1 phase_loop=3
//! rtapp_task: event=end              rtapp_stats: period=.. run=.. wu_lat=.. slack=.. c_period=.. c_run=..
//! ```
//!
//! They follow from the stamps that [`rtapp_log::instrument`] puts where rt-app reads its clock,
//! and one more before each event. Stamps take no time, so marks do not change a run. Figures are
//! those of the log.
//!
//! Source: rt-app 55cb0c0 `src/rt-app.c`, `run`, `thread_body`; `src/rt-app_utils.c`,
//! `ftrace_setup`; `src/rt-app_types.h`, `resource_t`. Differs: a thread starts when it first runs,
//! after its delay; there is no main thread, so its marks are the idle task's; steps that rt-app
//! does not have get no mark.

use super::rtapp_log::{self, Log};
use std::sync::Arc;
use zerolag_model::{Instant, Mark, Record, TaskId, TraceEvent};
use zerolag_sim::Sink;
use zerolag_workload::program::{Action, Program, TimerRef};

/// A category of marks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Category {
    /// `rtapp_main`: the run.
    Main,
    /// `rtapp_task`: threads.
    Task,
    /// `rtapp_loop`: loops of phases.
    Loop,
    /// `rtapp_event`: each event.
    Event,
    /// `rtapp_stats`: the figures of each loop.
    Stats,
}

impl Category {
    /// Every category, in rt-app's order.
    pub const ALL: [Self; 5] = [Self::Main, Self::Task, Self::Loop, Self::Event, Self::Stats];

    /// Returns rt-app's word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Main => "main",
            Self::Task => "task",
            Self::Loop => "loop",
            Self::Event => "event",
            Self::Stats => "stats",
        }
    }
}

/// Labels of stamps before events: the last is far below those of the log.
const EVENTS: core::ops::Range<u32> = u32::MAX - 0x2_0000..u32::MAX - 0x1_0000;

/// Returns the program with a stamp at every mark.
#[must_use]
pub fn instrument(program: &Program, categories: &[Category]) -> Program {
    let mut program = rtapp_log::instrument(program);
    if !categories.contains(&Category::Event) {
        return program;
    }
    for phase in program.tasks.iter_mut().flat_map(|task| &mut task.phases) {
        let actions = core::mem::take(&mut phase.actions);
        let mut labels = EVENTS;
        for action in actions {
            // The clock is read after the mark is written.
            let at = match phase.actions.last() {
                Some(last) if rtapp_log::is_run_start(last) => phase.actions.len() - 1,
                _ => phase.actions.len(),
            };
            let label = if kind_of(&action).is_some() { labels.next() } else { None };
            if let Some(label) = label {
                phase.actions.insert(at, Action::Stamp(label));
            }
            phase.actions.push(action);
        }
    }
    program
}

/// Returns rt-app's number and name of an action; `None` if it has none.
fn kind_of(action: &Action) -> Option<(u32, &'static str)> {
    match action {
        Action::Wait { .. } => Some((2, "wait")),
        Action::Signal(_) => Some((3, "signal")),
        Action::Broadcast(_) => Some((4, "broad")),
        Action::Sleep(_) => Some((5, "sleep")),
        Action::Run(_) => Some((6, "run")),
        Action::Sync { .. } => Some((7, "sync")),
        Action::Lock(_) => Some((8, "lock")),
        Action::Unlock(_) => Some((9, "unlock")),
        Action::Timer { timer: TimerRef::Shared(_), .. } => Some((10, "timer")),
        Action::Timer { timer: TimerRef::Own(_), .. } => Some((11, "timer")),
        Action::Suspend(_) => Some((12, "suspend")),
        Action::Resume(_) => Some((13, "resume")),
        Action::Spin { .. } => Some((19, "runtime")),
        Action::Yield => Some((20, "yield")),
        Action::Barrier(_) => Some((21, "barrier")),
        Action::Fork(_) => Some((22, "fork")),
        Action::SemWait(_) => Some((23, "sem_wait")),
        Action::SemPost(_) => Some((24, "sem_post")),
        Action::Kernel(_)
        | Action::Take(_)
        | Action::Complete(_)
        | Action::Call(_)
        | Action::Send(_)
        | Action::Stamp(_)
        | Action::InKernel(_)
        | Action::PipeRead { .. }
        | Action::PipeWrite { .. } => None,
    }
}

/// Produces the lines of a run.
#[derive(Debug)]
pub struct Marks {
    categories: Vec<Category>,
    program: Arc<Program>,
    log: Log,
    threads: Vec<MarkedThread>,
    has_begun: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct MarkedThread {
    def: usize,
    turn: u64,
    phase: u32,
    /// Completed loops of the phase.
    loops: u64,
    state: ThreadLife,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum ThreadLife {
    #[default]
    Unborn,
    Runs,
    Ended,
}

/// A line and its writer; `None` is no particular task.
pub type Line = (Option<TaskId>, String);

impl Marks {
    /// Starts the marks of an instrumented program.
    #[must_use]
    pub fn new(program: Arc<Program>, categories: &[Category]) -> Self {
        let log = Log::new(Arc::clone(&program));
        Self { categories: categories.to_vec(), program, log, threads: Vec::new(), has_begun: false }
    }

    /// Returns the lines that belong to a record.
    pub fn at(&mut self, record: &Record) -> Vec<Line> {
        let mut lines = Vec::new();
        if !core::mem::replace(&mut self.has_begun, true) {
            self.push(&mut lines, Category::Main, None, "rtapp_main: event=start".to_owned());
        }
        self.log.record(record);
        match &record.event {
            TraceEvent::TaskNew { task, name, .. } => {
                if self.threads.len() <= task.index() {
                    self.threads.resize(task.index() + 1, MarkedThread::default());
                }
                let def = name.rsplit_once('-').map(|(def, _)| def);
                let def = self.program.tasks.iter().position(|task| Some(&*task.name) == def);
                self.threads[task.index()].def = def.unwrap_or_default();
            }
            TraceEvent::Mark { task, mark } => self.mark(&mut lines, *task, *mark, record.at),
            TraceEvent::TaskExit { task } => self.end(&mut lines, *task),
            _ => {}
        }
        lines
    }

    /// Returns the lines at the end of the run.
    pub fn finish(&mut self) -> Vec<Line> {
        let mut lines = Vec::new();
        if self.threads.iter().any(|thread| thread.state == ThreadLife::Runs) {
            self.push(&mut lines, Category::Main, None, "rtapp_main: event=shutdown".to_owned());
        }
        for index in 0..self.threads.len() {
            self.end(&mut lines, TaskId::from_index(index));
        }
        self.push(&mut lines, Category::Main, None, "rtapp_main: event=end".to_owned());
        lines
    }

    fn push(&self, lines: &mut Vec<Line>, category: Category, task: Option<TaskId>, line: String) {
        if self.categories.contains(&category) {
            lines.push((task, line));
        }
    }

    fn end(&mut self, lines: &mut Vec<Line>, task: TaskId) {
        let Some(thread) = self.threads.get_mut(task.index()) else { return };
        if core::mem::replace(&mut thread.state, ThreadLife::Ended) == ThreadLife::Runs {
            self.push(lines, Category::Task, Some(task), "rtapp_task: event=end".to_owned());
        }
    }

    fn mark(&mut self, lines: &mut Vec<Line>, task: TaskId, mark: Mark, at: Instant) {
        let Some(thread) = self.threads.get_mut(task.index()) else { return };
        match mark {
            Mark::Phase { phase, turn } => {
                let is_first = core::mem::replace(&mut thread.state, ThreadLife::Runs) == ThreadLife::Unborn;
                (thread.turn, thread.phase, thread.loops) = (turn, phase, 0);
                if is_first {
                    if task == TaskId(0) {
                        let data = at.as_nanos() / 1_000;
                        let line = format!("rtapp_main: event=clock_ref data={data}");
                        self.push(lines, Category::Task, Some(task), line);
                    }
                    self.push(lines, Category::Task, Some(task), "rtapp_task: event=start".to_owned());
                }
            }
            Mark::Stamp { label, .. } => self.stamp(lines, task, label),
            Mark::TimerDue { .. } | Mark::TurnEnd { .. } => {}
        }
    }

    fn stamp(&mut self, lines: &mut Vec<Line>, task: TaskId, label: u32) {
        let thread = self.threads[task.index()];
        let MarkedThread { turn, phase, loops, .. } = thread;
        let of_loop = |event| format!("rtapp_loop: event={event} thread_loop={turn} phase={phase} phase_loop={loops}");
        if label == rtapp_log::LOOP_START {
            self.push(lines, Category::Loop, Some(task), of_loop("start"));
        } else if label == rtapp_log::LOOP_END {
            self.push(lines, Category::Loop, Some(task), of_loop("end"));
            if let Some(stats) = self.log.last_row(task).map(rtapp_log::Row::stats) {
                self.push(lines, Category::Stats, Some(task), format!("rtapp_stats: {stats}"));
            }
            self.threads[task.index()].loops += 1;
        } else if EVENTS.contains(&label) {
            let id = label - EVENTS.start;
            let actions = self.program.tasks.get(thread.def).and_then(|def| def.phases.get(phase as usize));
            let kinds = actions.into_iter().flat_map(|phase| &phase.actions).filter_map(kind_of);
            if let Some((kind, desc)) = kinds.into_iter().nth(id as usize) {
                self.push(lines, Category::Event, Some(task), format!("rtapp_event: id={id} type={kind} desc={desc}"));
            }
        }
    }
}

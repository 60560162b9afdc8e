//! The run: threads, start, end, watchdog.
//!
//! ```text
//!   threads set themselves up ──► all ready? ──no──► [1] nothing starts, every refusal is reported
//!                                     │ yes
//!                                     ▼
//!                       perf's events on, gate opens, all sleep until the start
//!                                     │
//!                                     ▼
//!                     the workload ──► every task ended, the duration is over,
//!                                      Ctrl-C, or a failure ──► [2] the tasks end themselves
//!                                                                   │ not within half a second
//!                                                                   ▼
//!                                                            [3] the remaining ones become real-time, to see the end
//!                                                                   │ not within two seconds (a minute without real-time)
//!                                                                   ▼
//!                                                            [4] the process ends
//! ```
//!
//! Every wait ends at the run's end and every computation reads the clock every 20 us, so step 2
//! needs no help unless a task starves; then step 3 is taken. The watchdog runs above the
//! workload's highest priority: it notices Ctrl-C while real-time loops hold all CPUs, and takes
//! step 4 if a task still does not end.

use crate::cgroup::Groups;
use crate::changes::start_changes;
use crate::figures::{End, Figures, Watchdog};
use crate::host::busy_times;
use crate::park::End as RunEnd;
use crate::plan::{LIMIT, Plan, Recording};
use crate::recorder::Recorder;
use crate::requests::{called_queues, lateness_note, start_sources};
use crate::shared::Shared;
use crate::thread::{measure_zero_rate, spawn};
use crate::work::Speeds;
use crate::world::{Failure, Gate, Seat, ThreadResults, World};
use crate::{clock, sys};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use zerolag_model::{
    CpuId, CpuMask, Duration, GroupId, Instant, Nice, Record, RtPriority, SchedAttr, TaskId, TraceEvent,
};
use zerolag_trace::{Machine, Meta, Source, Trace};
use zerolag_workload::Program;
use zerolag_workload::program::TaskDef;

/// Why a run did not start.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum RunError {
    /// The kernel refused the attributes that the tasks asked for during set-up.
    Refused(Vec<String>),
    /// The host did not provide threads or groups.
    Host(String),
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(reasons) => f.write_str(&reasons.join("\n")),
            Self::Host(reason) => f.write_str(reason),
        }
    }
}

impl std::error::Error for RunError {}

/// Runs a plan. `interrupted` is called about ten times a second; once it returns `true` the run
/// ends, and the results so far are returned.
///
/// # Errors
/// The kernel or the host refused something before the workload started. Then no task has run, and
/// nothing is left behind.
pub fn run(plan: &Plan, interrupted: impl Fn() -> bool + Sync) -> Result<Figures, RunError> {
    let host_error = |what: &str, error: &dyn fmt::Display| RunError::Host(format!("{what}: {error}"));
    let speeds = Speeds::measure(&plan.cpus).map_err(|error| host_error("the CPUs cannot be measured", &error))?;
    let groups = plan.hierarchy.as_ref().map(|hierarchy| hierarchy.create(&plan.program)).transpose();
    let groups = groups.map_err(|error| host_error("groups cannot be made", &error))?;
    let mut notes = Vec::new();
    let mut recorder = match plan.options.record {
        Recording::Off => None,
        Recording::Kernel => Recorder::start().map_err(|why| notes.push(why)).ok(),
    };
    let world = world(plan, speeds.clone(), groups).map_err(|error| host_error("a pipe cannot be made", &error))?;
    let interrupt_seen = AtomicBool::new(false);
    let ask = || {
        let yes = interrupted();
        interrupt_seen.fetch_or(yes, Ordering::Relaxed);
        yes
    };
    let watched = OnceLock::new();
    let ran = std::thread::scope(|scope| {
        let ready =
            start_threads(&world, scope, plan).map_err(|error| host_error("a thread cannot be started", &error));
        let ready = ready.and_then(|threads| match world.gate.wait_ready(threads) {
            refused if refused.is_empty() => Ok(()),
            refused => Err(RunError::Refused(refused)),
        });
        if let Err(error) = ready {
            world.gate.open(None); // [1]
            return Err(error);
        }
        if let Some(Err(why)) = recorder.as_mut().map(Recorder::switch_on) {
            notes.push(why);
            recorder = None;
        }
        let watch = || watched.get_or_init(|| watch(&world, plan.watchdog, &ask));
        let watchdog = std::thread::Builder::new().name("zerolag-watch".to_owned()).spawn_scoped(scope, watch);
        if let Err(error) = watchdog {
            world.gate.open(None);
            return Err(host_error("the watchdog cannot be started", &error));
        }
        let start = (clock::now() + RUN_UP).round_up_to(TICKS);
        world.end.set(start.saturating_add(plan.options.duration.unwrap_or(LIMIT)));
        let before = busy_times();
        world.gate.open(Some(start));
        Ok((start, before))
    });
    let (start, busy_before) = ran?;
    let busy = busy_since(&busy_before, &plan.cpus);
    let busy_over = clock::now().since(start);
    let recorded = recorder.map(Recorder::finish).transpose().unwrap_or_else(|why| {
        notes.push(why);
        None
    });
    let drift = Speeds::measure(&plan.cpus).map(|after| after.drift(&speeds)).unwrap_or_default();
    Ok(collect(
        plan,
        world,
        Ran { start, busy, busy_over, drift, notes, recorded, interrupted: interrupt_seen.into_inner(), watched },
    ))
}

/// The figures of a run that are not those of single threads.
struct Ran {
    start: Instant,
    busy: Vec<(CpuId, Duration)>,
    busy_over: Duration,
    drift: Vec<(CpuId, i64)>,
    notes: Vec<String>,
    recorded: Option<(Trace, Vec<u32>)>,
    interrupted: bool,
    watched: OnceLock<Watchdog>,
}

fn world(plan: &Plan, speeds: Speeds, groups: Option<Groups>) -> std::io::Result<World<'_>> {
    let program = &*plan.program;
    Ok(World {
        program,
        shared: program.resources.iter().map(Shared::new).collect::<Result<_, _>>()?,
        groups,
        speeds,
        zero_rate: measure_zero_rate(),
        cpus: plan.cpus.clone(),
        confined: plan.cpus != plan.host.cpus,
        seed: plan.options.seed,
        end: RunEnd::default(),
        gate: Gate::default(),
        next_task: AtomicU32::new(0),
        alive: AtomicU32::new(0),
        live: Mutex::new(Vec::new()),
        numbers: program.tasks.iter().map(|task| AtomicU32::new(first_number(program, task))).collect(),
        failure: Mutex::new(None),
        done: Mutex::new(Vec::new()),
        arrivals: Mutex::new(Vec::new()),
    })
}

/// Returns whether a task starts with its group, which is created later.
fn comes_later(program: &Program, task: &TaskDef) -> bool {
    task.group.is_some_and(|group| program.comes_later(group))
}

/// Returns the number of the first thread of a task that a change starts.
fn first_number(program: &Program, task: &TaskDef) -> u32 {
    if comes_later(program, task) { 0 } else { task.instances }
}

/// Starts the threads of all instances, in order of definition, those of all sources of requests,
/// and the one that makes changes.
fn start_threads<'s, 'w: 's>(
    world: &'w World<'w>,
    scope: &'s std::thread::Scope<'s, 'w>,
    plan: &Plan,
) -> std::io::Result<u32> {
    let mut threads = 0;
    for (def, task) in world.program.tasks.iter().enumerate() {
        if comes_later(world.program, task) {
            continue; // It starts with its group.
        }
        for instance in 0..task.instances {
            let id = TaskId(world.next_task.fetch_add(1, Ordering::Relaxed));
            spawn(world, scope, Seat { task: id, def, instance, parent: None }, None)?;
            threads += 1;
        }
    }
    Ok(threads + start_sources(world, scope, plan.sources)? + start_changes(world, scope, plan.watchdog)?)
}

/// Watches the run until all threads have ended. Returns the watchdog's figures.
fn watch(world: &World<'_>, priority: Option<RtPriority>, interrupted: &dyn Fn() -> bool) -> Watchdog {
    let attr = priority.map_or(SchedAttr::nice(Nice::ZERO), SchedAttr::fifo);
    if priority.is_some() {
        // The plan has tried it; without it Ctrl-C would only take effect late.
        drop(sys::set_attr(attr));
    }
    let mut over_since = None;
    let mut looks = 0;
    loop {
        let alive = world.alive.load(Ordering::Acquire);
        if alive == 0 {
            world.end.stop(); // Stops sources and changes that would continue.
            return Watchdog { attr, period: WATCH_PERIOD, looks, run: clock::thread_time() };
        }
        looks += 1;
        // Also wakes up at the end itself, for threads that only the kernel can wake.
        let (now, end) = (clock::now(), world.end.at());
        let next = now + WATCH_PERIOD;
        let until = clock::timespec(if end > now { next.min(end) } else { next });
        let flags = rustix::thread::futex::Flags::PRIVATE;
        let all = std::num::NonZeroU32::MAX;
        let _ = rustix::thread::futex::wait_bitset(&world.alive, flags, alive, Some(&until), all);
        if interrupted() {
            world.end.stop(); // [2]
        }
        let now = clock::now();
        if world.end.is_over(now) {
            let since = *over_since.get_or_insert(now);
            world.shared.iter().for_each(Shared::let_go);
            let over_for = now.since(since);
            let patience = if priority.is_some() { GRACE } else { GRACE_FAIR };
            if over_for > patience {
                eprintln!("error: tasks do not end; giving up the run");
                std::process::exit(1); // [4]
            }
            if over_for > RAISE_AFTER {
                world.raise_all(); // [3]
            }
        }
    }
}

/// How long before the start the gate opens, so that every thread sleeps when the start comes.
const RUN_UP: Duration = Duration::from_millis(20);
/// A workload begins at a tick, as in the simulator: at a common multiple of the tick periods of HZ
/// 100, 250 and 1000. Ticks come at multiples of their period of `CLOCK_MONOTONIC` (Linux v6.12
/// `kernel/time/tick-sched.c`, `tick_setup_sched_timer`; `skew_tick` is off by default).
const TICKS: Duration = Duration::from_millis(20);
/// The watchdog's period. It must not divide a second, the period of deadline servers. Otherwise a
/// kernel bug shows: if the server's budget ends just before a real-time task wakes, the kernel
/// notices that while it picks the next task, continues with the fair one and does not reschedule
/// (`docs/lab/virtual-machines.md`).
const WATCH_PERIOD: Duration = Duration::from_millis(97);
/// How long tasks may starve after the end before they are raised.
const RAISE_AFTER: Duration = Duration::from_millis(500);
/// How long they may take after that.
const GRACE: Duration = Duration::from_millis(2_500);
/// The same where raising is not permitted and no task is real-time: a busy machine can let them
/// starve for long.
const GRACE_FAIR: Duration = Duration::from_secs(60);

fn busy_since(before: &[(CpuId, Duration)], cpus: &CpuMask) -> Vec<(CpuId, Duration)> {
    let after = busy_times();
    let of = |cpu: CpuId, times: &[(CpuId, Duration)]| {
        times.iter().find(|(known, _)| *known == cpu).map_or(Duration::ZERO, |(_, time)| *time)
    };
    cpus.iter().map(|cpu| (cpu, of(cpu, &after).saturating_sub(of(cpu, before)))).collect()
}

fn collect(plan: &Plan, world: World<'_>, ran: Ran) -> Figures {
    let groups = world.groups.as_ref().map(|groups| groups.figures(&plan.program.groups)).unwrap_or_default();
    let failure = world.failure.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut done = world.done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|done| done.figures.task);
    let end = match failure {
        Some(Failure::Deadlock(says)) => End::Deadlock(says),
        Some(Failure::Refused(says) | Failure::NotHeld(says)) => End::Failed(says),
        None if ran.interrupted => End::Interrupted,
        None if done.iter().all(|done| done.is_finished) => End::Finished,
        None => End::Duration,
    };
    let last = done.iter().flat_map(|done| done.records.last()).map(|record| record.at).max().unwrap_or_default();
    let asked = plan.options.duration.filter(|_| end == End::Duration);
    let elapsed = asked.unwrap_or_else(|| last.since(Instant::ZERO));
    let mut notes = ran.notes;
    if plan.options.duration.is_none() && end == End::Duration {
        notes.push(format!("the workload had not ended after {LIMIT} and was stopped"));
    }
    let is_recorded = ran.recorded.is_some();
    let mut meta = Meta::new(Source::Linux, Machine::Cpus(plan.host.nr_cpus));
    meta.seed = Some(plan.options.seed);
    meta.kernel.clone_from(&plan.host.release);
    meta.end = Instant::ZERO + elapsed;
    let mut known = group_records(&plan.program);
    known.append(&mut called_queues(&plan.program));
    let mut arrivals = world.arrivals.into_inner().unwrap_or_else(PoisonError::into_inner);
    notes.extend(lateness_note(&arrivals, plan.sources));
    known.append(&mut arrivals);
    let trace = merge(meta, &mut done, known, ran.recorded, ran.start);
    Figures {
        host: plan.host.clone(),
        end,
        elapsed,
        tasks: done.into_iter().map(|done| done.figures).collect(),
        trace,
        is_recorded,
        groups,
        busy: ran.busy,
        busy_over: ran.busy_over,
        speeds: world.speeds.table().to_vec(),
        drift: ran.drift,
        watchdog: ran.watched.into_inner(),
        notes,
    }
}

/// Returns the records of the groups. Their limits are not in the trace: the phase of the kernel's
/// periods is unknown, so no rule could be checked.
fn group_records(program: &Program) -> Vec<Record> {
    let id = |index: usize| GroupId::from_index(index + 1);
    let record = |index: usize| {
        let group = &program.groups[index];
        let parent = group.parent.map_or(GroupId::ROOT, id);
        let event = TraceEvent::GroupNew { group: id(index), parent, path: group.path.clone() };
        Record { at: Instant::ZERO, cpu: CpuId(0), event }
    };
    (0..program.groups.len()).filter(|index| !program.comes_later(*index)).map(record).collect()
}

/// Merges the tasks' own records with the kernel's: one numbering of tasks, one zero of time.
///
/// Where both record an event (switches, wakeups), the kernel's record is kept; attributes, names
/// and affinities come from the tasks.
fn merge(
    mut meta: Meta,
    done: &mut [ThreadResults],
    mut records: Vec<Record>,
    recorded: Option<(Trace, Vec<u32>)>,
    start: Instant,
) -> Trace {
    records.extend(done.iter_mut().flat_map(|done| std::mem::take(&mut done.records)));
    meta.lost_events += done.iter().map(|done| done.left_out).sum::<u64>();
    if let Some((kernel, pids)) = recorded {
        meta.lost_events += kernel.meta.lost_events;
        let ours = |task: TaskId| done.iter().find(|done| Some(&done.pid) == pids.get(task.index()));
        let highest = done.iter().map(|done| done.figures.task.0 + 1).max().unwrap_or(0);
        let ids: Vec<(TaskId, bool)> = (0..pids.len())
            .map(TaskId::from_index)
            .map(|task| ours(task).map_or((TaskId(highest + task.0), false), |done| (done.figures.task, true)))
            .collect();
        records.extend(kernel.records.into_iter().filter_map(|record| renumber(record, &ids, start)));
    }
    records.retain(|record| record.at <= meta.end);
    records.sort_by_key(|record| record.at);
    Trace { meta, records }
}

/// Returns a record of the kernel in the numbering and time of the run; `None` if the run has no
/// use for it.
fn renumber(record: Record, ids: &[(TaskId, bool)], start: Instant) -> Option<Record> {
    let id = |task: TaskId| ids.get(task.index()).map_or(task, |(task, _)| *task);
    let is_ours = |task: TaskId| ids.get(task.index()).is_some_and(|(_, ours)| *ours);
    let is_early = record.at < start;
    let event = match record.event {
        TraceEvent::TaskNew { task, .. } | TraceEvent::TaskExit { task } | TraceEvent::AttrChange { task, .. }
            if is_ours(task) =>
        {
            return None;
        }
        TraceEvent::TaskNew { task, name, parent, attr, group } => {
            TraceEvent::TaskNew { task: id(task), name, parent: parent.map(id), attr, group }
        }
        _ if is_early => return None,
        TraceEvent::TaskExit { task } => TraceEvent::TaskExit { task: id(task) },
        TraceEvent::AttrChange { task, attr } => TraceEvent::AttrChange { task: id(task), attr },
        TraceEvent::Waking { task, prio, target, new } => TraceEvent::Waking { task: id(task), prio, target, new },
        TraceEvent::Wakeup { task, prio } => TraceEvent::Wakeup { task: id(task), prio },
        TraceEvent::Switch { prev, prev_state, next, next_prio } => {
            TraceEvent::Switch { prev: prev.map(id), prev_state, next: next.map(id), next_prio }
        }
        TraceEvent::Migrate { task, prio, from, to, reason } => {
            TraceEvent::Migrate { task: id(task), prio, from, to, reason }
        }
        TraceEvent::PrioInherit { task, from, to } => TraceEvent::PrioInherit { task: id(task), from, to },
        other => other,
    };
    Some(Record { at: Instant::ZERO + record.at.since(start), cpu: record.cpu, event })
}

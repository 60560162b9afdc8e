//! [`Estimate`]: what a run costs at least, before it begins.
//!
//! A million tasks, a billion arrivals a second and steps of a nanosecond are one wrong digit each,
//! and would run for hours in silence. So a plan is looked at before it runs, and one above
//! [`Estimate::TIME_BOUND`] or [`Estimate::MEMORY_BOUND`] is refused, unless the caller insists.
//!
//! A refusal that is wrong is worse than a run that is long: the estimate counts only what happens
//! for certain. It counts
//!
//! * tasks: what each takes in memory and at its start;
//! * requests and interrupts that come from outside;
//! * steps of tasks that only compute, sleep and wait for timers. Together they get no more than
//!   the CPUs of the machine, and those of a group no more than its limit.
//!
//! It counts no step of a task that waits for another: how often it goes on depends on that one.
//! The cost of each is what a fast machine takes for the cheapest kind of it.
//!
//! Rejected: running the first millisecond and extrapolating. Tasks begin late, and the millisecond
//! of a million tasks takes minutes.

use super::plan::Plan;
use std::fmt;
use zerolag_model::Duration;
use zerolag_workload::arrivals::Arrivals;
use zerolag_workload::change::Change;
use zerolag_workload::program::{Action, TaskDef};
use zerolag_workload::random::{Dist, Stream};

/// What a run takes at least.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Estimate {
    /// The time on one processor of this computer, in seconds.
    pub seconds: f64,
    /// Bytes of memory.
    pub bytes: u64,
    /// What takes most of the time, or of the memory if that is too much.
    pub largest: Option<Contributor>,
}

/// A part of a workload with its share of the costs.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Contributor {
    /// The table in a scenario: `task`, `service` or `interrupt`.
    pub kind: &'static str,
    /// Its name there.
    pub name: String,
    /// How many of what it makes: `1000000000 requests per second`.
    pub says: String,
    seconds: f64,
    bytes: u64,
}

/// What a step takes that costs the simulator least: a computation behind another.
const STEP: f64 = 60e-9;
/// A sleep or a timer, with its wakeup and two switches.
const SLEEP: f64 = 300e-9;
/// A request or an interrupt.
const ARRIVAL: f64 = 200e-9;
/// The start of a task.
const START: f64 = 1e-6;
/// The bytes of a task (measured: 1.75 KB with 100,000 of them).
const TASK_BYTES: u64 = 1_500;

impl Estimate {
    /// The longest run that needs no confirmation, in seconds.
    pub const TIME_BOUND: f64 = 600.0;
    /// The most memory, in bytes.
    pub const MEMORY_BOUND: u64 = 2_000_000_000;

    /// Returns the estimate of a plan. O(size of the program).
    #[must_use]
    pub fn of(plan: &Plan) -> Self {
        let mut parts = tasks(plan);
        parts.extend(sources(plan));
        parts.extend(interrupts(plan));
        let seconds = parts.iter().map(|part| part.seconds).sum();
        let bytes = parts.iter().fold(0, |sum: u64, part| sum.saturating_add(part.bytes));
        let by_memory = bytes > Self::MEMORY_BOUND;
        let largest = parts.into_iter().max_by(|one, other| match by_memory {
            true => one.bytes.cmp(&other.bytes),
            false => one.seconds.total_cmp(&other.seconds),
        });
        Self { seconds, bytes, largest }
    }

    /// Returns whether it needs a confirmation.
    #[must_use]
    pub fn is_too_much(&self) -> bool {
        self.seconds > Self::TIME_BOUND || self.bytes > Self::MEMORY_BOUND
    }
}

impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (hours, minutes) = (self.seconds / 3_600.0, self.seconds / 60.0);
        let time = if hours >= 1.5 { format!("{hours:.0} h") } else { format!("{minutes:.0} min") };
        write!(f, "the run takes at least {time} and {:.1} GB", self.bytes as f64 / 1e9)
    }
}

/// Returns the mean of a distribution in seconds, of as many samples as its shape needs.
fn mean(dist: &Dist) -> f64 {
    const SAMPLES: u32 = 64;
    let mut stream = Stream::new(1, "estimate", 0, "mean");
    let sum: u128 = (0..SAMPLES).map(|_| u128::from(dist.sample(&mut stream).as_nanos())).sum();
    sum as f64 / f64::from(SAMPLES) / 1e9
}

/// What one turn of a task's program takes: time of a CPU, other time, and the simulator's time.
#[derive(Clone, Copy, Default)]
struct TurnCost {
    cpu: f64,
    away: f64,
    seconds: f64,
}

/// Returns the cost of a turn; `None` if the task waits for others, or a turn takes no time.
fn turn(task: &TaskDef) -> Option<TurnCost> {
    let mut turn = TurnCost::default();
    for phase in &task.phases {
        let mut once = TurnCost::default();
        for action in &phase.actions {
            match action {
                Action::Run(time) | Action::Kernel(time) | Action::Spin { wall: time, .. } => {
                    once.cpu += mean(time);
                    once.seconds += STEP;
                }
                Action::Sleep(time) | Action::Timer { period: time, .. } => {
                    once.away += mean(time);
                    once.seconds += SLEEP;
                }
                Action::Yield | Action::Stamp(_) => once.seconds += STEP,
                _ => return None,
            }
        }
        let loops = phase.loops as f64;
        turn.cpu += loops * once.cpu;
        turn.away += loops * once.away;
        turn.seconds += loops * once.seconds;
    }
    (turn.cpu + turn.away > 0.0).then_some(turn)
}

/// Returns how long the threads of a task exist, in seconds; infinity if the run has no end.
fn life(plan: &Plan, index: usize) -> f64 {
    let ends = plan.program.changes.iter().filter_map(|change| match change.what {
        Change::End { task } if task == index => Some(change.at),
        // Whether its group is removed is not looked at: then it is certain until there only.
        Change::Remove { .. } if plan.program.tasks[index].group.is_some() => Some(change.at),
        _ => None,
    });
    let end = ends.chain(plan.config.duration).min().map_or(f64::INFINITY, seconds);
    (end - seconds(plan.program.tasks[index].delay)).max(0.0)
}

fn seconds(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e9
}

fn tasks(plan: &Plan) -> Vec<Contributor> {
    let nr_cpus = plan.config.topology.nr_cpus() as f64;
    let all = &plan.program.tasks;
    let demands: Vec<f64> = all.iter().map(|task| turn(task).map_or(0.0, |turn| demand(task, turn))).collect();
    let of_machine = (nr_cpus / demands.iter().sum::<f64>().max(nr_cpus)).min(1.0);
    let mut parts = Vec::new();
    for (index, task) in all.iter().enumerate() {
        let of_group = task.group.map_or(1.0, |group| share_of_group(plan, group, &demands));
        let count = f64::from(task.instances);
        let mut part = Contributor {
            kind: "task",
            name: task.name.to_string(),
            says: format!("{} instances", task.instances),
            seconds: count * START,
            bytes: u64::from(task.instances) * TASK_BYTES,
        };
        // A turn without an end in a run without one: the caller ends it, and knows when.
        let is_endless = life(plan, index).is_infinite() && task.phases.iter().any(|phase| phase.loops == u64::MAX);
        if let Some(turn) = turn(task).filter(|_| !is_endless) {
            let possible = life(plan, index) / (turn.cpu + turn.away) * of_machine.min(of_group);
            let turns = task.turns.map_or(possible, |most| possible.min(most as f64));
            let steps = count * turns * turn.seconds;
            if steps > part.seconds {
                let per_second = count * of_machine.min(of_group) / (turn.cpu + turn.away);
                part.says = format!("{per_second:.0} turns of its steps per second");
            }
            // A run that has no end has no estimate.
            part.seconds += if steps.is_finite() { steps } else { 0.0 };
        }
        parts.push(part);
    }
    parts
}

/// The CPUs that the threads of a task want.
fn demand(task: &TaskDef, turn: TurnCost) -> f64 {
    f64::from(task.instances) * turn.cpu / (turn.cpu + turn.away)
}

/// Returns the part of what the tasks of a group want that its own limit, or that of a group above
/// it, grants.
fn share_of_group(plan: &Plan, group: usize, demands: &[f64]) -> f64 {
    let groups = &plan.program.groups;
    let path = &groups[group].path;
    let above = groups.iter().filter(|above| above.path == *path || path.starts_with(&format!("{}/", above.path)));
    let granted = above.filter_map(|above| {
        let limit = seconds(above.max.quota?) / seconds(above.max.period);
        let below = |index: Option<usize>| {
            index.is_some_and(|index| {
                let path = &groups[index].path;
                *path == above.path || path.starts_with(&format!("{}/", above.path))
            })
        };
        let wanted: f64 =
            plan.program.tasks.iter().zip(demands).filter(|(task, _)| below(task.group)).map(|(_, wants)| wants).sum();
        Some(limit / wanted.max(limit))
    });
    granted.fold(1.0, f64::min)
}

fn sources(plan: &Plan) -> Vec<Contributor> {
    let source = |source: &zerolag_workload::arrivals::ArrivalSource| {
        let end = source.until.into_iter().chain(plan.config.duration).min().map_or(f64::INFINITY, seconds);
        let length = (end - seconds(source.delay)).max(0.0);
        let load = f64::from(source.load_milli) / 1_000.0;
        let per_second = match &source.arrivals {
            Arrivals::Every(distance) => load / mean(distance),
            Arrivals::Bursts { size, every, .. } => load * f64::from(*size) / mean(every),
            Arrivals::Times(times) => times.len() as f64 / length.max(1e-9),
        };
        let most = source.requests.map_or(f64::INFINITY, |most| most as f64);
        let requests = (per_second * length).min(most);
        Contributor {
            kind: "service",
            name: source.name.to_string(),
            says: format!("{per_second:.0} requests per second"),
            seconds: if requests.is_finite() { requests * ARRIVAL } else { 0.0 },
            bytes: 0,
        }
    };
    plan.program.sources.iter().map(source).collect()
}

fn interrupts(plan: &Plan) -> Vec<Contributor> {
    let length = plan.config.duration.map_or(0.0, seconds);
    let interrupt = |line: &zerolag_workload::interrupt::InterruptDef| {
        let cpus = line.cpus.as_ref().map_or(plan.config.topology.nr_cpus(), |cpus| cpus.iter().count());
        let lines = if line.on_each { cpus as f64 } else { 1.0 };
        // While a handler runs, the next interrupt of the line waits.
        let per_second = lines / (mean(&line.every) + mean(&line.handler));
        Contributor {
            kind: "interrupt",
            name: line.name.to_string(),
            says: format!("{per_second:.0} interrupts per second"),
            seconds: if per_second.is_finite() { per_second * length * ARRIVAL } else { 0.0 },
            bytes: 0,
        }
    };
    plan.program.interrupts.iter().map(interrupt).collect()
}

#[cfg(test)]
mod tests {
    use crate::{Error, Simulation, Workload};

    fn refused(text: &str) -> Option<String> {
        let simulation = Simulation::new(Workload::text("mine.toml", text));
        assert!(simulation.clone().forced().plan().is_ok(), "{text}");
        assert!(simulation.clone().set("force", "on").plan().is_ok(), "{text}");
        match simulation.plan() {
            Ok(_) => None,
            Err(Error::Input { message, help }) => Some(format!("{message}; {}", help.unwrap_or_default())),
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn a_wrong_digit_is_refused_with_its_place() {
        let steps = "duration = \"100s\"\n\n[task.ok]\nsteps = [{ run = \"1s\" }]\n\n[task.tiny]\nsteps = [{ run = \"1ns\" }]\n";
        let said = refused(steps).expect("it is too long");
        assert!(said.contains("mine.toml:6: task `tiny`: 1000000000 turns of its steps per second"), "{said}");
        assert!(said.contains("at least 2 h") && said.contains("--force"), "{said}");
        let arrivals = "duration = \"10s\"\n[service.web]\nworkers = 1\narrivals = { poisson = \"1000000000/s\" }\nsteps = [{ run = \"1ms\" }]\n";
        let said = refused(arrivals).expect("it is too long");
        assert!(said.contains("mine.toml:2: service `web`"), "{said}");
        let line = "duration = \"1000s\"\n[interrupt.eth]\nevery = \"100ns\"\nhandler = \"10ns\"\n[task.a]\nsteps = [{ run = \"1s\" }]\n";
        assert!(refused(line).expect("it is too long").contains("mine.toml:2: interrupt `eth`"));
    }

    #[test]
    fn what_takes_minutes_only_is_not_refused() {
        // Tasks that wait for each other, ones that end, and ones that a limit holds back.
        let ends = "duration = \"100s\"\n[task.a]\nsteps = [{ run = \"1ns\" }]\n";
        assert!(refused(&format!("{ends}loop = 1000\n")).is_none());
        assert!(refused(&format!("{ends}until = \"10ms\"\n")).is_none());
        assert!(refused(&format!("{ends}delay = \"99999ms\"\n")).is_none());
        let limited = format!("{ends}group = \"/g\"\n[group.\"/g\"]\n\"cpu.max\" = \"1000 1000000\"\n");
        assert!(refused(&limited).is_none());
        assert!(refused("duration = \"1s\"\n[task.a]\ninstances = 100000\nsteps = [{ sleep = \"1s\" }]\n").is_none());
    }
}

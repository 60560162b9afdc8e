//! The imported workload as a scenario.

use super::Options;
use super::extract::{Step, Task};
use core::fmt::Write;
use std::collections::BTreeMap;
use zerolag_model::attr::{FairPolicy, RtPolicy, SchedAttr};
use zerolag_model::{Duration, KernelVersion, TaskId};
use zerolag_trace::Trace;

/// Returns the scenario.
pub(super) fn scenario(
    trace: &Trace,
    tasks: &[Task],
    kernel: KernelVersion,
    origin: &str,
    options: &Options,
) -> String {
    let mut out = String::new();
    write(&mut out, trace, tasks, kernel, origin, options).expect("invariant: writing to a String cannot fail");
    out
}

fn write(
    out: &mut String,
    trace: &Trace,
    tasks: &[Task],
    kernel: KernelVersion,
    origin: &str,
    options: &Options,
) -> core::fmt::Result {
    let origin: String = origin.chars().filter(|c| !c.is_control()).collect();
    writeln!(out, "# Imported from {origin} by zerolag {}: exact replay.", env!("CARGO_PKG_VERSION"))?;
    writeln!(
        out,
        "# `run` is CPU time, however long the task waited for it; a semaphore stands for each wakeup by a task."
    )?;
    writeln!(out, "# Not in a recording: affinities (but of kernel threads), limits, parameters of deadline tasks.")?;
    if !trace.meta.kernel.is_empty() {
        writeln!(
            out,
            "# Recorded on Linux {}.",
            trace.meta.kernel.chars().filter(|c| !c.is_control()).collect::<String>()
        )?;
    }
    let gaps = &trace.meta.recorded.gaps;
    if !gaps.is_empty() {
        writeln!(out, "# Events were lost in {} gaps: demands and wakeups there are guesses.", gaps.len())?;
    }
    writeln!(out, "kernel = {}", quoted(kernel.name()))?;
    writeln!(out, "duration = {}", time(trace.meta.end.since(trace.meta.start)))?;
    writeln!(out, "\n[machine]\ncpus = {}", trace.meta.machine.nr_cpus())?;
    let groups = groups(trace, tasks, options);
    let mut paths: BTreeMap<&str, Option<&str>> = groups.values().map(|path| (*path, None)).collect();
    paths.extend(options.limits.iter().map(|(path, max)| (path.as_str(), Some(max.as_str()))));
    for (path, max) in paths {
        writeln!(out, "\n[group.{}]", quoted(path))?;
        if let Some(max) = max {
            writeln!(out, "\"cpu.max\" = {}", quoted(max))?;
        }
    }
    let names = names(trace, tasks);
    let nr_cpus = trace.meta.machine.nr_cpus();
    for task in tasks {
        writeln!(out, "\n[task.{}]", quoted(&names[&task.id]))?;
        attributes(out, task.attr)?;
        if let Some(cpu) = cpu_of(&task.name).filter(|cpu| (*cpu as usize) < nr_cpus) {
            writeln!(out, "cpus = \"{cpu}\"")?;
        }
        if let Some(path) = groups.get(&task.id) {
            writeln!(out, "group = {}", quoted(path))?;
        }
        if !task.delay.is_zero() {
            writeln!(out, "delay = {}", time(task.delay))?;
        }
        writeln!(out, "loop = 1\nsteps = [")?;
        for step in &task.steps {
            match step {
                Step::Run(demand) => writeln!(out, "  {{ run = {} }},", time(*demand))?,
                Step::Sleep(length) => writeln!(out, "  {{ sleep = {} }},", time(*length))?,
                Step::Wait => writeln!(out, "  {{ sem_wait = {} }},", quoted(&names[&task.id]))?,
                Step::Timer(period) => {
                    writeln!(out, "  {{ timer = {{ period = {}, mode = \"absolute\" }} }},", time(*period))?;
                }
                Step::Wake(woken) => {
                    // The stoppers are left out, and so are tasks that never ran.
                    if let Some(name) = names.get(woken) {
                        writeln!(out, "  {{ sem_post = {} }},", quoted(name))?;
                    }
                }
            }
        }
        writeln!(out, "]")?;
    }
    Ok(())
}

/// Returns a unique name per task: its name and its thread id.
fn names(trace: &Trace, tasks: &[Task]) -> BTreeMap<TaskId, String> {
    let mut used: BTreeMap<String, u32> = BTreeMap::new();
    let mut names = BTreeMap::new();
    for task in tasks {
        let name = match trace.meta.recorded.thread(task.id) {
            Some(thread) => format!("{}:{}", task.name, thread.tid),
            None => format!("{}:{}", task.name, task.id),
        };
        // A thread id that is used again.
        let count = used.entry(name.clone()).or_default();
        *count += 1;
        let name = if *count == 1 { name } else { format!("{name}:{count}") };
        names.insert(task.id, name);
    }
    names
}

/// Returns the names of groups' members that no process and no thread has.
pub(super) fn unknown(trace: &Trace, tasks: &[Task], options: &Options) -> Vec<String> {
    let is_known = |name: &str| {
        tasks.iter().any(|task| {
            let thread = trace.meta.recorded.thread(task.id);
            *task.name == *name || thread.and_then(|thread| thread.process.as_deref()) == Some(name)
        })
    };
    options.groups.iter().map(|(name, _)| name).filter(|name| !is_known(name)).cloned().collect()
}

/// Returns the groups of tasks: by the name of thread or process, else that of the parent.
fn groups<'o>(trace: &Trace, tasks: &[Task], options: &'o Options) -> BTreeMap<TaskId, &'o str> {
    let mut groups: BTreeMap<TaskId, &str> = BTreeMap::new();
    // Parents have lower ids: a task is created after the task that forks it.
    for task in tasks {
        let process = trace.meta.recorded.thread(task.id).and_then(|thread| thread.process.as_deref());
        let is_named = |name: &str| name == &*task.name || Some(name) == process;
        let named = options.groups.iter().find(|(name, _)| is_named(name)).map(|(_, path)| path.as_str());
        let inherited = || task.parent.and_then(|parent| groups.get(&parent).copied());
        if let Some(path) = named.or_else(inherited) {
            groups.insert(task.id, path);
        }
    }
    groups
}

fn attributes(out: &mut String, attr: SchedAttr) -> core::fmt::Result {
    match attr {
        SchedAttr::Fair { policy, nice, .. } => {
            match policy {
                FairPolicy::Other => {}
                FairPolicy::Batch => writeln!(out, "policy = \"SCHED_BATCH\"")?,
                FairPolicy::Idle => writeln!(out, "policy = \"SCHED_IDLE\"")?,
            }
            if nice.value() == 0 { Ok(()) } else { writeln!(out, "nice = {}", nice.value()) }
        }
        SchedAttr::Rt { policy, priority } => {
            let policy = match policy {
                RtPolicy::Fifo => "SCHED_FIFO",
                RtPolicy::Rr => "SCHED_RR",
            };
            writeln!(out, "policy = \"{policy}\"\npriority = {}", priority.value())
        }
        SchedAttr::Deadline(params) if params.runtime.is_zero() => {
            writeln!(
                out,
                "# A deadline task, whose parameters are not recorded.\npolicy = \"SCHED_FIFO\"\npriority = 99"
            )
        }
        SchedAttr::Deadline(params) => writeln!(
            out,
            "policy = \"SCHED_DEADLINE\"\nruntime = {}\ndeadline = {}\nperiod = {}",
            time(params.runtime),
            time(params.deadline),
            time(params.period)
        ),
    }
}

/// Returns the CPU of a kernel thread that has one: `ksoftirqd/1`, `kworker/1:2-events`.
fn cpu_of(name: &str) -> Option<u32> {
    let (kind, rest) = name.split_once('/')?;
    let bound = ["kworker", "ksoftirqd", "cpuhp", "idle_inject", "irq_work", "ktimers", "rcuc", "stopper", "watchdog"];
    if !bound.contains(&kind) || rest.starts_with('u') {
        return None;
    }
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

fn time(time: Duration) -> String {
    format!("\"{}ns\"", time.as_nanos())
}

/// Returns a string of TOML.
fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for char in text.chars() {
        match char {
            '"' | '\\' => quoted.extend(['\\', char]),
            '$' => quoted.push_str("\\u0024"),
            _ if char.is_control() => write!(quoted, "\\u{:04x}", char as u32).expect("invariant: a String"),
            _ => quoted.push(char),
        }
    }
    quoted.push('"');
    quoted
}

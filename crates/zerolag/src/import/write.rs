//! The imported workload as a scenario.

use super::Options;
use super::extract::{ImportedTask, Step};
use super::groups::ImportedGroups;
use super::open::OpenClients;
use super::wakings;
use core::fmt::Write;
use std::collections::BTreeMap;
use zerolag_model::attr::{FairPolicy, RtPolicy, SchedAttr};
use zerolag_model::text::is_hidden;
use zerolag_model::{Duration, KernelVersion, TaskId};
use zerolag_trace::Trace;
use zerolag_workload::origin::{BaseErrors, UNKNOWN};
use zerolag_workload::program::is_below;

/// Returns the scenario.
pub(super) fn scenario(
    trace: &Trace,
    tasks: &[ImportedTask],
    of: (Option<KernelVersion>, &str),
    groups: &ImportedGroups,
    options: &Options,
    open: &OpenClients,
) -> String {
    let mut out = String::new();
    write(&mut out, trace, tasks, of, groups, options, open).expect("invariant: writing to a String cannot fail");
    out
}

fn write(
    out: &mut String,
    trace: &Trace,
    tasks: &[ImportedTask],
    (kernel, origin): (Option<KernelVersion>, &str),
    groups: &ImportedGroups,
    options: &Options,
    open: &OpenClients,
) -> core::fmt::Result {
    head(out, trace, kernel, origin, "exact replay")?;
    if let Some(work) = &options.work {
        writeln!(out, "# Tasks outside of {} repeat what they did.", quoted(work))?;
    }
    writeln!(out, "\n[machine]\ncpus = {}", trace.meta.machine.nr_cpus())?;
    write_groups(out, groups)?;
    let names = names(trace, tasks);
    let pipes = wakings::pipes(trace);
    let mixed = wakings::mixed(tasks, &pipes);
    let pipe = |task: &TaskId, name: &str| quoted(&wakings::pipe_name(name, mixed.contains(task)));
    let nr_cpus = trace.meta.machine.nr_cpus();
    for task in tasks {
        writeln!(out)?;
        wakings::remark(out, trace, task.id, &names)?;
        writeln!(out, "[task.{}]", quoted(&names[&task.id]))?;
        attributes(out, task.attr)?;
        if let Some(cpu) = cpu_of(&task.name).filter(|cpu| (*cpu as usize) < nr_cpus) {
            writeln!(out, "cpus = \"{cpu}\"")?;
        }
        if let Some(path) = groups.of.get(&task.id) {
            writeln!(out, "group = {}", quoted(path))?;
        }
        if !task.delay.is_zero() {
            writeln!(out, "delay = {}", time(task.delay))?;
        }
        let is_work = |path: &String| options.work.as_ref().is_none_or(|work| is_below(path, work));
        let repeats = options.work.is_some() && !groups.of.get(&task.id).is_some_and(is_work);
        writeln!(out, "loop = {}\nsteps = [", if repeats { "\"forever\"" } else { "1" })?;
        // The time of the task's timer, which counts from its start.
        let mut due = task.delay;
        // Steps are nearly all of the text, and a scenario has a largest size: no spaces.
        for step in &task.steps {
            match step {
                Step::Run(demand) => writeln!(out, "{{run={}}},", time(*demand))?,
                Step::Sleep(length) => writeln!(out, "{{sleep={}}},", time(*length))?,
                Step::Arrival { at, .. } => {
                    timer(out, at.saturating_sub(due))?;
                    due = due.max(*at);
                }
                Step::Wait(waker, _) if pipes.contains(&(*waker, task.id)) => {
                    writeln!(out, "{{pipe_read={}}},", pipe(&task.id, &names[&task.id]))?;
                }
                Step::Wait(waker, _) => {
                    writeln!(out, "{{sem_wait={}}},", quoted(&open.semaphore(*waker, task.id, &names[&task.id])))?;
                }
                Step::Timer(period) => timer(out, *period)?,
                Step::After(other) => done(out, "sem_wait", &names[other], &names[&task.id])?,
                Step::Done(other) => done(out, "sem_post", &names[&task.id], &names[other])?,
                Step::Wake(woken) => {
                    // The stoppers are left out, and so are tasks that never ran.
                    if let Some(name) = names.get(woken) {
                        match pipes.contains(&(task.id, *woken)) {
                            true => writeln!(out, "{{pipe_write={}}},", pipe(woken, name))?,
                            false => {
                                let name = open.semaphore(task.id, *woken, name);
                                writeln!(out, "{{sem_post={}}},", quoted(&name))?;
                            }
                        }
                    }
                }
            }
        }
        if task.is_unfinished && !repeats {
            // It goes on to compete, as it did: with the seen demand alone it would have ended.
            writeln!(out, "{{run={}}},", time(Duration::from_nanos(1)))?;
        }
        if repeats {
            repeat(out, task, trace.meta.end.since(trace.meta.start), due)?;
        }
        writeln!(out, "]")?;
    }
    Ok(())
}

/// Writes the end of a round of a task that repeats what it did, so that each is as long as the
/// recording. `due` is the last expiry of its timer.
fn repeat(out: &mut String, task: &ImportedTask, length: Duration, due: Duration) -> core::fmt::Result {
    if task.steps.iter().any(|step| matches!(step, Step::Arrival { .. })) {
        return timer(out, length.saturating_sub(due.saturating_sub(task.delay)));
    }
    // The first expiry counts from the start of the task, so each round begins as the first did.
    writeln!(out, "{{timer={{period={},mode=\"absolute\",name=\"again\"}}}},", time(length))
}

/// Writes a step at the semaphore by which a task says that it is done with what another woke it
/// for.
fn done(out: &mut String, step: &str, task: &str, other: &str) -> core::fmt::Result {
    writeln!(out, "{{{step}={}}},", quoted(&format!("{task} for {other}")))
}

/// Writes a step that waits for the next expiry of the task's timer, after so long.
fn timer(out: &mut String, after: Duration) -> core::fmt::Result {
    if after.is_zero() {
        return Ok(());
    }
    writeln!(out, "{{timer={{period={},mode=\"absolute\"}}}},", time(after))
}

/// Writes the remarks at the start of the file, the kernel, which can be unknown, and the duration.
pub(super) fn head(
    out: &mut String,
    trace: &Trace,
    kernel: Option<KernelVersion>,
    origin: &str,
    form: &str,
) -> core::fmt::Result {
    let plain = |text: &str| text.chars().filter(|c| !is_hidden(*c)).collect::<String>();
    writeln!(out, "# Imported from {} by zerolag {}: {form}.", plain(origin), env!("CARGO_PKG_VERSION"))?;
    writeln!(
        out,
        "# `run` is CPU time, however long the task waited for it; a semaphore or a service stands for wakeups by a task."
    )?;
    writeln!(out, "# Not in a recording: affinities (but of kernel threads), groups, parameters of deadline tasks.")?;
    if !wakings::are_known(trace) {
        writeln!(
            out,
            "# Nor by what tasks wake each other (futex, pipe, socket): it has neither stacks nor system calls."
        )?;
    }
    if !trace.meta.kernel.is_empty() {
        writeln!(out, "# Recorded on Linux {}.", plain(&trace.meta.kernel))?;
    }
    let gaps = &trace.meta.recorded.gaps;
    if !gaps.is_empty() {
        writeln!(out, "# Events were lost in {} gaps: demands and wakeups there are guesses.", gaps.len())?;
    }
    if kernel.is_none() {
        writeln!(out, "# The recording does not name its kernel: this one is a guess, `import --kernel` states it.")?;
    }
    writeln!(out, "kernel = {}", quoted(&kernel.unwrap_or_default().name()))?;
    writeln!(out, "duration = {}", time(trace.meta.end.since(trace.meta.start)))
}

/// Returns the table of the recording, the base error and the keys of what seeds draw.
pub(super) fn origin(trace: &str, base: &BaseErrors, unlike: Option<&str>, unknown: &str) -> String {
    let percent = |percent: Option<f64>| match percent {
        Some(percent) => format!("\"{percent:.1}%\""),
        None => quoted(UNKNOWN),
    };
    let mut errors = format!(
        "run = {}, wait = {}, latency = {}",
        percent(base.run_percent),
        percent(base.wait_percent),
        percent(base.latency_percent)
    );
    errors.extend(base.nr_throttled.map(|periods| format!(", nr_throttled = {periods}")));
    errors.extend(base.throttled.map(|apart| format!(", throttled = {}", time(apart))));
    let unlike = unlike.map_or_else(String::new, |unlike| format!("unlike = {}\n", quoted(unlike)));
    format!(
        "\n# How far a simulation of this file is from the recording: smaller effects say nothing.\n[origin]\ntrace = {}\n\
         base_error = {{ {errors} }}\n{unlike}{unknown}",
        quoted(trace)
    )
}

/// Returns a unique name per task: its name and its thread id.
pub(super) fn names(trace: &Trace, tasks: &[ImportedTask]) -> BTreeMap<TaskId, String> {
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
pub(super) fn unknown(trace: &Trace, tasks: &[ImportedTask], options: &Options) -> Vec<String> {
    let is_known = |name: &str| {
        tasks.iter().any(|task| {
            let thread = trace.meta.recorded.thread(task.id);
            *task.name == *name || thread.and_then(|thread| thread.process.as_deref()) == Some(name)
        })
    };
    options.groups.iter().map(|(name, _)| name).filter(|name| !is_known(name)).cloned().collect()
}

/// Writes the tables of groups.
pub(super) fn write_groups(out: &mut String, groups: &ImportedGroups) -> core::fmt::Result {
    for (path, keys) in &groups.keys {
        writeln!(out, "\n[group.{}]", quoted(path))?;
        for (key, value) in keys {
            // A number stays one, but `cpu.max` is a text, also without a period.
            match value.parse::<i64>().ok().filter(|_| *key != "cpu.max") {
                Some(number) => writeln!(out, "{} = {number}", quoted(key))?,
                None => writeln!(out, "{} = {}", quoted(key), quoted(value))?,
            }
        }
    }
    Ok(())
}

pub(super) fn attributes(out: &mut String, attr: SchedAttr) -> core::fmt::Result {
    match attr {
        SchedAttr::Fair { policy, nice, .. } | SchedAttr::Ext { policy, nice, .. } => {
            match policy {
                FairPolicy::Other => {}
                FairPolicy::Batch => writeln!(out, "policy = \"SCHED_BATCH\"")?,
                FairPolicy::Idle => writeln!(out, "policy = \"SCHED_IDLE\"")?,
                FairPolicy::Ext => writeln!(out, "policy = \"SCHED_EXT\"")?,
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

/// Returns whether a thread is the kernel's: their load does not follow that of requests.
pub(super) fn is_kernels(name: &str) -> bool {
    let first = name.split(['/', ':']).next().unwrap_or(name);
    KNOWN.contains(&first)
}

/// Names of kernel threads, up to the first `/` or `:`.
const KNOWN: [&str; 17] = [
    "kworker",
    "ksoftirqd",
    "migration",
    "cpuhp",
    "rcu_preempt",
    "rcu_sched",
    "rcuc",
    "rcub",
    "kswapd0",
    "kcompactd0",
    "khugepaged",
    "kthreadd",
    "jbd2",
    "ktimers",
    "kauditd",
    "oom_reaper",
    "watchdogd",
];

/// Returns the CPU of a kernel thread that has one: `ksoftirqd/1`, `kworker/1:2-events`.
pub(super) fn cpu_of(name: &str) -> Option<u32> {
    let (kind, rest) = name.split_once('/')?;
    let bound = ["kworker", "ksoftirqd", "cpuhp", "idle_inject", "irq_work", "ktimers", "rcuc", "stopper", "watchdog"];
    if !bound.contains(&kind) || rest.starts_with('u') {
        return None;
    }
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

pub(super) fn time(time: Duration) -> String {
    format!("\"{}ns\"", time.as_nanos())
}

/// Returns a string of TOML.
pub(super) fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for char in text.chars() {
        match char {
            '"' | '\\' => quoted.extend(['\\', char]),
            '$' => quoted.push_str("\\u0024"),
            _ if is_hidden(char) && char <= '\u{ffff}' => {
                write!(quoted, "\\u{:04x}", char as u32).expect("invariant: a String");
            }
            _ if is_hidden(char) => write!(quoted, "\\U{:08x}", char as u32).expect("invariant: a String"),
            _ => quoted.push(char),
        }
    }
    quoted.push('"');
    quoted
}

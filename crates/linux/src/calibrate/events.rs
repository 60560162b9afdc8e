//! What lies between the kernel's own events: from `sched_waking` to the `sched_switch` to the
//! woken thread.
//!
//! A program sees when a woken thread goes on, but not where in between the kernel writes the event
//! by which traces measure a wakeup. So this needs a trace: [`Events`] reads a directory of
//! tracefs.

use crate::calibrate::threads::{self, Kind};
use crate::calibrate::{LESS_URGENT, NICE, PANICKED, URGENT, WATCHED_AFTER, WATCHED_BEFORE, spawn};
use crate::cgroup::{Groups, Hierarchy};
use crate::clock;
use rustix::thread::gettid;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use zerolag_model::{Duration, FairPolicy, Instant, Nice, SchedAttr};
use zerolag_workload::{LoadOptions, Scenario, load};

/// Times from a thread's `sched_waking` to the `sched_switch` to it, beside a less urgent thread
/// that computes: in nanoseconds, sorted. The trace counts microseconds.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Delays {
    /// A SCHED_FIFO thread, woken by its timer.
    pub fifo: Vec<u64>,
    /// The same beside a fair thread that computes.
    pub fifo_beside_fair: Vec<u64>,
    /// A fair thread beside a fair one.
    pub fair: Vec<u64>,
    /// The same with a fair thread in a group of a group, without limits.
    pub grouped: Vec<u64>,
    /// The same with a limit on the inner one.
    pub limited: Vec<u64>,
    /// A fair thread that the computing thread wakes by a pipe.
    pub piped: Vec<u64>,
}

impl Delays {
    pub(super) fn add(&mut self, other: Self) {
        let pairs = [
            (&mut self.fifo, other.fifo),
            (&mut self.fifo_beside_fair, other.fifo_beside_fair),
            (&mut self.fair, other.fair),
            (&mut self.grouped, other.grouped),
            (&mut self.limited, other.limited),
            (&mut self.piped, other.piped),
        ];
        pairs.into_iter().for_each(super::add_samples);
    }
}

/// A directory of tracefs: its root, or an instance. The events that were off are off again when it
/// is dropped.
#[derive(PartialEq, Eq, Debug)]
pub struct Events {
    dir: PathBuf,
    /// What was changed: files and their texts before.
    before: Vec<(PathBuf, String)>,
}

impl Events {
    /// Turns the two events on.
    ///
    /// # Errors
    /// The file that cannot be read or written, and why.
    pub fn of(dir: &Path) -> Result<Self, String> {
        let mut events = Self { dir: dir.to_owned(), before: Vec::new() };
        let files = ["sched_waking", "sched_switch"].map(|event| format!("events/sched/{event}/enable"));
        for file in files.into_iter().chain(["tracing_on".to_owned()]) {
            let path = dir.join(&file);
            let was = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            if was.trim() != "1" {
                events.write(&file, "1")?;
                events.before.push((path, was));
            }
        }
        Ok(events)
    }

    fn write(&self, file: &str, text: &str) -> Result<(), String> {
        let path = self.dir.join(file);
        std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Returns which of the kernel's own fair threads run within a time, in which this process does
    /// nothing.
    ///
    /// # Errors
    /// The trace cannot be read, or the run was interrupted.
    pub fn threads(
        &self,
        time: std::time::Duration,
        interrupted: &(dyn Fn() -> bool + Sync),
    ) -> Result<Vec<Kind>, String> {
        self.write("trace", "")?;
        let end = clock::now() + Duration::from_nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        while clock::now() < end {
            // Often enough for Ctrl-C, seldom enough not to be seen in what is watched.
            clock::sleep_until(end.min(clock::now() + Duration::from_millis(500)));
            if interrupted() {
                return Err("interrupted".to_owned());
            }
        }
        Ok(threads::kinds_in(&self.read()?, threads::is_kernels))
    }

    fn read(&self) -> Result<String, String> {
        let path = self.dir.join("trace");
        std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        for (path, was) in &self.before {
            // The directory can be gone, and then there is nothing to be turned off.
            let _ = std::fs::write(path, was.trim());
        }
    }
}

/// Measures on the CPU of the calling thread.
pub(super) fn measure(events: &Events) -> Result<Delays, String> {
    let mut delays = Delays {
        fifo: timer(events, URGENT, LESS_URGENT, None)?,
        fifo_beside_fair: timer(events, URGENT, NICE, None)?,
        fair: timer(events, SHORT, NICE, None)?,
        piped: piped(events)?,
        ..Delays::default()
    };
    // Without groups there is no cost of them to be measured.
    if let Ok(groups) = groups() {
        delays.grouped = timer(events, SHORT, NICE, Some((&groups, OPEN)))?;
        delays.limited = timer(events, SHORT, NICE, Some((&groups, LIMITED)))?;
    }
    Ok(delays)
}

/// Creates the groups of the measurement. The run's own directory is a group around both.
fn groups() -> Result<Groups, String> {
    let scenario = scenario_of_groups()?;
    Hierarchy::find()?.create(&scenario.program).map_err(|error| error.to_string())
}

fn scenario_of_groups() -> Result<Scenario, String> {
    let text =
        "[group.\"/a\"]\n[group.\"/b\"]\n\"cpu.max\" = \"90000 100000\"\n[task.x]\nsteps = [{ run = \"1ms\" }]\n";
    load("calibrate.toml", text.as_bytes(), &LoadOptions::default()).map_err(|error| error.to_string())
}

/// Wakes a thread by its timer while a less urgent one computes.
fn timer(
    events: &Events,
    woken: SchedAttr,
    computing: SchedAttr,
    group: Option<(&Groups, usize)>,
) -> Result<Vec<u64>, String> {
    events.write("trace", "")?;
    let first = clock::now() + PERIOD;
    let tid = std::thread::scope(|scope| {
        let woken = spawn(scope, woken, || {
            let is_there = group.map_or(Ok(()), |(groups, group)| groups.join(Some(group), false));
            dues(first).for_each(clock::sleep_until);
            is_there.map(|()| gettid().as_raw_nonzero().get()).map_err(|error| error.to_string())
        })?;
        let computes = || {
            dues(first).for_each(|due| {
                clock::sleep_until(due - WATCHED_BEFORE);
                spin_until(due + WATCHED_AFTER);
            });
        };
        spawn(scope, computing, computes)?;
        woken.join().map_err(|_| PANICKED.to_owned())?
    })?;
    Ok(delays_in(&events.read()?, tid))
}

/// Wakes a fair thread by a pipe, from one that computes before and after.
fn piped(events: &Events) -> Result<Vec<u64>, String> {
    events.write("trace", "")?;
    let (mut reader, mut writer) = std::io::pipe().map_err(|error| format!("a pipe: {error}"))?;
    let first = clock::now() + PERIOD;
    let tid = std::thread::scope(|scope| {
        let reads = spawn(scope, SHORT, move || {
            while reader.read_exact(&mut [0; 4]).is_ok() {}
            gettid().as_raw_nonzero().get()
        })?;
        let writes = move || {
            dues(first).for_each(|due| {
                clock::sleep_until(due - WATCHED_BEFORE);
                spin_until(due);
                // It fails when the reader is gone, which then says so itself.
                let _ = writer.write_all(&[0; 4]);
                spin_until(due + WATCHED_AFTER);
            });
        };
        spawn(scope, NICE, writes)?;
        reads.join().map_err(|_| PANICKED.to_owned())
    })?;
    Ok(delays_in(&events.read()?, tid))
}

fn dues(first: Instant) -> impl Iterator<Item = Instant> {
    (0..EXPIRIES).map(move |round| first + PERIOD * u64::from(round))
}

fn spin_until(end: Instant) {
    while clock::now() < end {
        std::hint::spin_loop();
    }
}

/// Returns the times from each `sched_waking` of a thread to the next `sched_switch` to it. Where
/// another switch comes first the CPU did not compute, or a third thread was in between.
fn delays_in(trace: &str, tid: i32) -> Vec<u64> {
    let (waking, switch) = (format!(" pid={tid} "), format!(" next_pid={tid} "));
    let mut woken_at = None;
    let mut delays = Vec::new();
    for (at, line) in trace.lines().filter_map(|line| Some((time_of(line)?, line))) {
        if line.contains(": sched_waking: ") && line.contains(&waking) {
            woken_at = Some(at).filter(|_| !line.trim_start().starts_with("<idle>"));
        } else if line.contains(": sched_switch: ") {
            let since = woken_at.take();
            delays.extend(since.filter(|_| line.contains(&switch)).map(|since| at.saturating_sub(since)));
        }
    }
    delays
}

/// Returns the time of a line of a trace in nanoseconds: `NAME-PID [CPU] FLAGS SECONDS.MICROS:
/// EVENT: ...`.
fn time_of(line: &str) -> Option<u64> {
    time_at_end(line.split_once(": ")?.0)
}

/// Returns the time with which the head of a line ends.
pub(super) fn time_at_end(head: &str) -> Option<u64> {
    let (seconds, micros) = head.rsplit_once(' ')?.1.split_once('.')?;
    let (seconds, micros): (u64, u64) = (seconds.parse().ok()?, micros.parse().ok()?);
    Some(seconds * 1_000_000_000 + micros * 1_000)
}

/// The groups of [`groups`].
const OPEN: usize = 0;
const LIMITED: usize = 1;
/// A fair thread that preempts the other one at its wakeup: its requests are short, where the
/// kernel asks for them (6.12), and it has the larger weight. A computing thread of SCHED_IDLE
/// would be preempted without the comparison that takes part of the time.
const SHORT: SchedAttr =
    SchedAttr::Fair { policy: FairPolicy::Other, nice: Nice::ZERO, slice: Some(Duration::from_micros(100)) };
/// Ticks do not follow it.
const PERIOD: Duration = Duration::from_micros(1030);
const EXPIRIES: u32 = 50;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_those_of_one_thread_whose_cpu_computed() {
        let trace = "\
# tracer: nop
        zerolag-70      [000] dNh3.     1.000010: sched_waking: comm=zerolag pid=71 prio=120 target_cpu=000
        zerolag-70      [000] d..2.     1.000025: sched_switch: prev_comm=zerolag prev_pid=70 prev_prio=120 prev_state=R ==> next_comm=zerolag next_pid=71 next_prio=120
          <idle>-0      [000] dNh3.     1.001010: sched_waking: comm=zerolag pid=71 prio=120 target_cpu=000
          <idle>-0      [000] d..2.     1.001030: sched_switch: prev_comm=swapper prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=zerolag next_pid=71 next_prio=120
        zerolag-70      [000] dNh3.     1.002010: sched_waking: comm=zerolag pid=71 prio=120 target_cpu=000
        zerolag-70      [000] dNh3.     1.002012: sched_waking: comm=zerolag pid=7 prio=120 target_cpu=000
        zerolag-70      [000] d..2.     1.002020: sched_switch: prev_comm=zerolag prev_pid=70 prev_prio=120 prev_state=R ==> next_comm=other next_pid=7 next_prio=120
           other-7      [000] d..2.     1.002040: sched_switch: prev_comm=other prev_pid=7 prev_prio=120 prev_state=S ==> next_comm=zerolag next_pid=71 next_prio=120
        zerolag-70      [000] dNh3.     1.003000: sched_waking: comm=zerolag pid=71 prio=120 target_cpu=000
        zerolag-70      [000] d..2.     1.003016: sched_switch: prev_comm=zerolag prev_pid=70 prev_prio=120 prev_state=R ==> next_comm=zerolag next_pid=71 next_prio=120
";
        assert_eq!(delays_in(trace, 71), [15_000, 16_000]);
        assert!(delays_in(trace, 1).is_empty());
    }

    #[test]
    fn the_second_group_has_a_limit() {
        let scenario = scenario_of_groups().expect("it is valid");
        let limited = [OPEN, LIMITED].map(|group| scenario.program.groups[group].max.quota.is_some());
        assert_eq!(limited, [false, true]);
    }

    #[test]
    fn what_was_off_is_off_again() {
        let dir = std::env::temp_dir().join(format!("zerolag-events-{}", std::process::id()));
        let file = |name: &str| dir.join("events/sched").join(name).join("enable");
        for (name, was) in [("sched_waking", "0\n"), ("sched_switch", "1\n")] {
            std::fs::create_dir_all(file(name).parent().expect("it has one")).expect("a directory");
            std::fs::write(file(name), was).expect("a file");
        }
        std::fs::write(dir.join("tracing_on"), "1\n").expect("a file");
        let states = || {
            ["sched_waking", "sched_switch"]
                .map(|name| std::fs::read_to_string(file(name)).expect("it is there").trim().to_owned())
        };
        let events = Events::of(&dir).expect("it looks like tracefs");
        assert_eq!(states(), ["1", "1"]);
        drop(events);
        assert_eq!(states(), ["0", "1"]);
        std::fs::remove_dir_all(&dir).expect("it is ours");
    }

    #[test]
    fn a_directory_that_is_no_tracefs_is_named() {
        let error = Events::of(Path::new("/nonexistent")).expect_err("it is not there");
        assert!(error.contains("/nonexistent/events/sched/sched_waking/enable"), "{error}");
    }
}

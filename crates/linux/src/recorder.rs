//! The kernel's own trace, by `perf record`, where the host permits it.
//!
//! Recording from the start of perf would put perf's start and the set-up of the workload into the
//! trace. So perf is started with its events disabled, and enables them on a command through a pipe
//! when all threads are ready. Times are `CLOCK_MONOTONIC`, the clock of the run.

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use zerolag_trace::{Trace, ftrace};

/// The events of a scheduler's trace.
const EVENTS: [&str; 7] = [
    "sched:sched_switch",
    "sched:sched_waking",
    "sched:sched_wakeup_new",
    "sched:sched_migrate_task",
    "sched:sched_process_fork",
    "sched:sched_process_exit",
    "sched:sched_pi_setprio",
];

/// A recording in progress.
#[derive(Debug)]
pub(crate) struct Recorder {
    perf: Child,
    dir: Scratch,
    control: File,
    ack: File,
}

/// A directory that is removed with its contents.
#[derive(Debug)]
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

impl Recorder {
    /// Starts perf with its events disabled.
    ///
    /// # Errors
    /// perf is missing or not permitted; the text gives the reason.
    pub(crate) fn start() -> Result<Self, String> {
        Self::begin().map_err(|error| format!("the kernel's events cannot be recorded: {error}"))
    }

    fn begin() -> io::Result<Self> {
        let dir = Scratch(std::env::temp_dir().join(format!("zerolag-perf-{}", std::process::id())));
        std::fs::create_dir(&dir.0)?;
        let file = |name: &str| dir.0.join(name);
        for fifo in ["control", "ack"] {
            mknodat(CWD, file(fifo), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
        }
        // Opened for reading and writing, so that opening does not block.
        let open = |name: &str| OpenOptions::new().read(true).write(true).open(file(name));
        let (control, ack) = (open("control")?, open("ack")?);
        let perf = Command::new("perf")
            .args(["record", "--quiet", "--all-cpus", "--delay", "-1", "--clockid", "CLOCK_MONOTONIC"])
            .args(["--mmap-pages", "8M", "--event", &EVENTS.join(",")])
            .arg(format!("--control=fifo:{},{}", file("control").display(), file("ack").display()))
            .arg("--output")
            .arg(file("perf.data"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(file("stderr"))?)
            .spawn()
            .map_err(|error| io::Error::new(error.kind(), format!("perf: {error}")))?;
        Ok(Self { perf, dir, control, ack })
    }

    /// Enables the events, and waits for perf's answer.
    pub(crate) fn switch_on(&mut self) -> Result<(), String> {
        let done = self.control.write_all(b"enable\n").and_then(|()| self.wait_for_answer());
        done.map_err(|error| format!("the kernel's events cannot be recorded: {error}{}", self.said()))
    }

    fn wait_for_answer(&mut self) -> io::Result<()> {
        for _ in 0..ANSWER_TRIES {
            let mut fds = [PollFd::new(&self.ack, PollFlags::IN)];
            let tenth = rustix::time::Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
            if poll(&mut fds, Some(&tenth))? > 0 {
                let mut answer = [0; 16];
                let _ = self.ack.read(&mut answer)?;
                return Ok(());
            }
            if let Some(status) = self.perf.try_wait()? {
                return Err(io::Error::other(format!("perf ended with {status}")));
            }
        }
        Err(io::Error::other("perf does not answer"))
    }

    /// Returns the error output of perf.
    fn said(&self) -> String {
        let text = std::fs::read_to_string(self.dir.0.join("stderr")).unwrap_or_default();
        let line = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with("Error:"));
        line.map_or_else(String::new, |line| format!(": {line}"))
    }

    /// Ends the recording and returns it with the process ids of its tasks.
    pub(crate) fn finish(mut self) -> Result<(Trace, Vec<u32>), String> {
        let text = self.stop().map_err(|error| format!("the recording cannot be read: {error}"))?;
        let (lost, text) = without_lost(&text);
        let (mut trace, pids) = ftrace::read_with_pids(&text).map_err(|error| format!("the recording: {error}"))?;
        // The last switch of a thread that ends is lost without a remark: a gap.
        trace.meta.lost_events += lost + trace.meta.recorded.gaps.len() as u64;
        Ok((trace, pids))
    }

    fn stop(&mut self) -> io::Result<String> {
        if let Some(pid) = i32::try_from(self.perf.id()).ok().and_then(Pid::from_raw) {
            kill_process(pid, Signal::INT)?;
        }
        self.perf.wait()?;
        print(&self.dir.0.join("perf.data"))
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        // perf has already ended unless the run was abandoned.
        drop(self.perf.kill());
        drop(self.perf.wait());
    }
}

/// Has perf print its recording.
fn print(data: &Path) -> io::Result<String> {
    let output = Command::new("perf")
        .args(["script", "--ns", "--show-lost-events", "-F", "comm,tid,cpu,time,event,trace", "-i"])
        .arg(data)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()?;
    if !output.status.success() {
        return Err(io::Error::other(format!("perf script ended with {}", output.status)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Removes perf's remarks on lost events from its text and sums them.
fn without_lost(text: &str) -> (u64, String) {
    let mut lost = 0;
    let mut rest = String::with_capacity(text.len());
    for line in text.lines() {
        if let Some((_, count)) = line.split_once("PERF_RECORD_LOST") {
            let count = count.split(|c: char| !c.is_ascii_digit()).find_map(|number| number.parse::<u64>().ok());
            lost += count.unwrap_or(1);
        } else {
            rest.push_str(line);
            rest.push('\n');
        }
    }
    (lost, rest)
}

/// Tenths of a second that perf may take to answer.
const ANSWER_TRIES: u32 = 50;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_events_are_counted_and_left_out() {
        let text = "a\n  perf 1 [000] 1.0: PERF_RECORD_LOST lost 12\nb\n";
        assert_eq!(without_lost(text), (12, "a\nb\n".to_owned()));
    }
}

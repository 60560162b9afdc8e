//! The results of a run.

use crate::host::{Host, ThreadCounts};
use std::fmt;
use zerolag_model::{CpuId, CpuMax, CpuStat, Duration, SchedAttr, TaskId};
use zerolag_trace::Trace;

/// Why a run ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum End {
    /// The duration is over.
    Duration,
    /// Every task has ended.
    Finished,
    /// The caller ended the run.
    Interrupted,
    /// Tasks wait for each other in a circle.
    Deadlock(String),
    /// A task broke a rule of its program, or the kernel refused something in the middle of the
    /// run.
    Failed(String),
}

impl End {
    /// Returns whether the run is a success.
    #[must_use]
    pub const fn is_ok(&self) -> bool {
        matches!(self, Self::Duration | Self::Finished)
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Duration => f.write_str("the duration is over"),
            Self::Finished => f.write_str("every task has ended"),
            Self::Interrupted => f.write_str("interrupted"),
            Self::Deadlock(says) => write!(f, "tasks wait for each other in a circle: {says}"),
            Self::Failed(says) => f.write_str(says),
        }
    }
}

/// The results of a run.
#[derive(Clone, Debug)]
pub struct Figures {
    /// The host on which it ran.
    pub host: Host,
    /// Why it ended.
    pub end: End,
    /// From the start of the workload to the end of its last task.
    pub elapsed: Duration,
    /// Its tasks in order of id.
    pub tasks: Vec<TaskFigures>,
    /// The recorded events: the kernel's, if recording was asked for and permitted, and those that
    /// the tasks record themselves.
    pub trace: Trace,
    /// Whether the kernel's own events are in the trace.
    pub is_recorded: bool,
    /// Its groups in order of definition.
    pub groups: Vec<GroupFigures>,
    /// The time for which each CPU was busy with any program; 10 ms grain.
    pub busy: Vec<(CpuId, Duration)>,
    /// The time over which that was counted: until the last thread had ended, which can be after
    /// the end of the run.
    pub busy_over: Duration,
    /// Picoseconds per turn of the calibrated loop, per CPU.
    pub speeds: Vec<(CpuId, u64)>,
    /// By how many thousandths each CPU was slower after the run than before it.
    pub drift: Vec<(CpuId, i64)>,
    /// The watchdog, if it was started.
    pub watchdog: Option<Watchdog>,
    /// Notes for the reader: omissions, and settings that differ from the request.
    pub notes: Vec<String>,
}

/// The run's own watchdog thread. Its turns interrupt those of the workload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Watchdog {
    /// Above the workload's priorities, or a fair task if there is none.
    pub attr: SchedAttr,
    /// How long it sleeps at a time.
    pub period: Duration,
    /// How many times it checked the run.
    pub looks: u64,
    /// Its CPU time.
    pub run: Duration,
}

/// The results of one task.
#[derive(Clone, Debug)]
pub struct TaskFigures {
    /// Which.
    pub task: TaskId,
    /// Its name: definition and instance.
    pub name: String,
    /// The attributes that it asked for at the start.
    pub attr: SchedAttr,
    /// CPU time (`/proc/PID/schedstat`).
    pub run: Duration,
    /// Time on a run queue (`schedstat`).
    pub wait: Duration,
    /// How many times it was switched to (`schedstat`).
    pub switches_in: u64,
    /// How many times it was preempted (`nonvoluntary_ctxt_switches`).
    pub preemptions: u64,
    /// Migrations (`se.nr_migrations`); zero where the kernel does not report them.
    pub migrations: u64,
    /// Work that its program did, in calibrated time: its CPU time less system calls and less the
    /// effect of a slower clock.
    pub work: Duration,
    /// How many times it continued after a wait, whatever ended the wait.
    pub wakeups: u64,
    /// Latencies from the due time or the wakeup until it ran, in nanoseconds, sorted. They include
    /// timers and wakeups by other tasks, but not mutexes, for which the kernel does not report the
    /// waker.
    pub latencies: Vec<u64>,
}

impl TaskFigures {
    pub(crate) fn set_counts(&mut self, counts: ThreadCounts) {
        self.run = counts.run;
        self.wait = counts.wait;
        self.switches_in = counts.switches_in;
        self.preemptions = counts.preemptions;
        self.migrations = counts.migrations;
    }

    /// Returns a quantile of the latencies in thousandths (500 is the median), `None` if there is
    /// none.
    #[must_use]
    pub fn latency(&self, thousandths: u64) -> Option<Duration> {
        quantile(&self.latencies, thousandths)
    }
}

/// Returns a quantile, in thousandths, of sorted values in nanoseconds.
#[must_use]
pub fn quantile(sorted: &[u64], thousandths: u64) -> Option<Duration> {
    let last = sorted.len().checked_sub(1)?;
    let at = (sorted.len() as u64 * thousandths.min(1000)).div_ceil(1000).saturating_sub(1);
    let at = usize::try_from(at).unwrap_or(last).min(last);
    Some(Duration::from_nanos(sorted[at]))
}

impl GroupFigures {
    /// Returns the CPU time, the counters of the limit, and the time for which the group was
    /// throttled by itself or from above. The keys are those of v2 (microseconds) or v1
    /// (nanoseconds, no CPU time); a missing key counts as zero.
    #[must_use]
    pub fn counters(&self) -> (Duration, CpuStat, Duration) {
        let value = |key: &str| self.stat.iter().find(|(name, _)| name == key).map(|(_, value)| *value);
        let time = |v2: &str, v1: &str| {
            let micros = value(v2).map(Duration::from_micros);
            micros.or_else(|| value(v1).map(Duration::from_nanos)).unwrap_or_default()
        };
        let count = |key: &str| value(key).unwrap_or_default();
        let stat = CpuStat {
            nr_periods: count("nr_periods"),
            nr_throttled: count("nr_throttled"),
            throttled: time("throttled_usec", "throttled_time"),
            nr_bursts: count("nr_bursts"),
            burst: time("burst_usec", "burst_time"),
        };
        (time("usage_usec", ""), stat, time("local.throttled_usec", ""))
    }
}

/// The kernel's counters of a group (`cpu.stat`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupFigures {
    /// Its path in the workload.
    pub path: String,
    /// Its limit.
    pub max: CpuMax,
    /// The lines of `cpu.stat`: key and value as the kernel prints them; those of `cpu.stat.local`
    /// with `local.` before the key.
    pub stat: Vec<(String, u64)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_of_the_sample() {
        let sorted = [1, 2, 3, 4];
        assert_eq!(quantile(&sorted, 500), Some(Duration::from_nanos(2)));
        assert_eq!(quantile(&sorted, 990), Some(Duration::from_nanos(4)));
        assert_eq!(quantile(&sorted, 0), Some(Duration::from_nanos(1)));
        assert_eq!(quantile(&[], 500), None);
    }
}

//! The host: its CPUs, its kernel, and the CPU time that other programs use.

use crate::clock;
use rustix::thread::{CpuSet, sched_getaffinity};
use zerolag_model::{CpuId, CpuMask, Duration, FairPolicy, Instant, MAX_CPUS, SchedAttr};

/// The host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Host {
    /// The kernel's release: `6.18.44`.
    pub release: String,
    /// The CPUs that this process may use.
    pub cpus: CpuMask,
    /// One more than the highest of them: the size of the machine in tables.
    pub nr_cpus: u32,
}

impl Host {
    /// Inspects the host.
    #[must_use]
    pub fn look() -> Self {
        let release = rustix::system::uname().release().to_string_lossy().into_owned();
        let cpus = allowed();
        let nr_cpus = cpus.last().map_or(1, |cpu| cpu.0 + 1);
        Self { release, cpus, nr_cpus }
    }

    /// Returns major and minor version: `(6, 18)`.
    #[must_use]
    pub fn version(&self) -> (u32, u32) {
        let mut numbers = self.release.split(|c: char| !c.is_ascii_digit()).map_while(|number| number.parse().ok());
        (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
    }
}

/// Returns the CPUs that the calling thread may use.
pub(crate) fn allowed() -> CpuMask {
    let set = sched_getaffinity(None).unwrap_or_default();
    let count = CpuSet::MAX_CPU.min(MAX_CPUS);
    (0..count).filter(|cpu| set.is_set(*cpu)).map(CpuId::from_index).fold(CpuMask::new(), |mut mask, cpu| {
        mask.insert(cpu);
        mask
    })
}

/// Returns a mask in the kernel's format.
pub(crate) fn cpu_set(mask: &CpuMask) -> CpuSet {
    let mut set = CpuSet::new();
    for cpu in mask.iter().filter(|cpu| cpu.index() < CpuSet::MAX_CPU) {
        set.set(cpu.index());
    }
    set
}

/// Returns the time that CPUs were busy since the host started, per CPU, at the 10 ms grain of
/// `/proc/stat`.
///
/// Time stolen by a hypervisor counts: no task of this host could run in it.
pub(crate) fn busy_times() -> Vec<(CpuId, Duration)> {
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    text.lines().filter_map(busy_time).collect()
}

fn busy_time(line: &str) -> Option<(CpuId, Duration)> {
    // The line `cpu`, without a number, is the sum of all.
    let mut words = line.strip_prefix("cpu").filter(|rest| !rest.starts_with(' '))?.split_whitespace();
    let cpu = CpuId(words.next()?.parse().ok()?);
    let ticks: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
    // user nice system idle iowait irq softirq steal; the other columns are parts of the first two.
    let busy: u64 =
        ticks.iter().take(8).enumerate().filter(|(at, _)| *at != 3 && *at != 4).map(|(_, ticks)| ticks).sum();
    Some((cpu, Duration::from_millis(busy * 10)))
}

/// Returns the time that a hypervisor has taken from CPUs, per CPU, at the same grain; zero where
/// it does not tell.
pub(crate) fn stolen_times() -> Vec<(CpuId, Duration)> {
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let of = |line: &str| {
        let mut words = line.strip_prefix("cpu").filter(|rest| !rest.starts_with(' '))?.split_whitespace();
        let cpu = CpuId(words.next()?.parse().ok()?);
        let ticks: u64 = words.nth(7)?.parse().ok()?;
        Some((cpu, Duration::from_millis(ticks * 10)))
    };
    text.lines().filter_map(of).collect()
}

/// The share of the CPUs' time that other programs use, from a moment on.
#[derive(Clone, Debug)]
pub struct Usage {
    since: Instant,
    busy: Duration,
    own: Duration,
}

impl Usage {
    /// Starts to measure.
    #[must_use]
    pub fn begin() -> Self {
        Self { since: clock::now(), busy: all_busy(), own: own_time() }
    }

    /// Returns the part of all CPUs' time since then that was neither idle nor used by this process
    /// or its ended children, in thousandths, at most 1000. After a second it is exact to a few
    /// thousandths: the kernel counts in steps of 10 ms.
    #[must_use]
    pub fn others_permille(&self) -> u64 {
        let others = all_busy().saturating_sub(self.busy).saturating_sub(own_time().saturating_sub(self.own));
        permille(others, clock::now().since(self.since) * busy_times().len() as u64)
    }
}

/// Returns which part of `whole` a counter of 10 ms steps moved, in thousandths.
///
/// A counter that steps just after a measurement began moves by more than the time that passed:
/// without the limit of 1000, two readings some microseconds apart say that others use 400 CPUs.
fn permille(counted: Duration, whole: Duration) -> u64 {
    (counted.as_nanos() * 1000 / whole.as_nanos().max(1)).min(1000)
}

fn all_busy() -> Duration {
    busy_times().into_iter().map(|(_, time)| time).sum()
}

/// Returns the CPU time of this process and of its children that have ended.
fn own_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // utime stime cutime cstime, fields 14 to 17 of proc(5); the third follows the name in
    // parentheses.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11).take(4);
    Duration::from_millis(fields.map_while(|ticks| ticks.parse::<u64>().ok()).sum::<u64>() * 10)
}

/// Says which permission is missing for attributes, or why else the kernel refuses them.
pub(crate) fn refused_attr(attr: SchedAttr, error: &std::io::Error) -> String {
    let policy = attr.policy();
    let code = error.raw_os_error().map(rustix::io::Errno::from_raw_os_error);
    let denied = matches!(code, Some(rustix::io::Errno::PERM | rustix::io::Errno::ACCESS));
    match attr {
        SchedAttr::Rt { priority, .. } if denied => {
            format!("{policy} {priority} needs CAP_SYS_NICE or `ulimit -r {priority}` (RLIMIT_RTPRIO)")
        }
        SchedAttr::Fair { nice, .. } if denied => {
            let limit = 20 - i32::from(nice.value());
            format!("nice {nice} needs CAP_SYS_NICE or `ulimit -e {limit}` (RLIMIT_NICE)")
        }
        SchedAttr::Deadline(_) if denied => {
            format!("{policy} needs CAP_SYS_NICE, and a task that may run on every CPU of its root domain")
        }
        SchedAttr::Deadline(_) if code == Some(rustix::io::Errno::BUSY) => {
            format!("{policy} is not admitted: the deadline tasks of this host would have more than it grants them")
        }
        SchedAttr::Fair { policy: FairPolicy::Ext, .. } if code == Some(rustix::io::Errno::INVAL) => {
            format!("{policy} needs a kernel with CONFIG_SCHED_CLASS_EXT (6.12)")
        }
        SchedAttr::Rt { .. } | SchedAttr::Fair { .. } | SchedAttr::Deadline(_) | SchedAttr::Ext { .. } => {
            format!("{policy}: {error}")
        }
    }
}

/// The kernel's counters of the calling thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct ThreadCounts {
    /// CPU time.
    pub(crate) run: Duration,
    /// Time on a run queue.
    pub(crate) wait: Duration,
    /// How many times it was switched to.
    pub(crate) switches_in: u64,
    /// How many times it was preempted.
    pub(crate) preemptions: u64,
    /// Migrations; zero where the kernel does not report them.
    pub(crate) migrations: u64,
}

impl ThreadCounts {
    /// Reads `/proc/thread-self`: `schedstat`, `status`, `sched`.
    pub(crate) fn read() -> Self {
        let read = |name: &str| std::fs::read_to_string(format!("/proc/thread-self/{name}")).unwrap_or_default();
        let mut counts = Self::default();
        let schedstat = read("schedstat");
        let numbers: Vec<u64> = schedstat.split_whitespace().map_while(|word| word.parse().ok()).collect();
        if let [run, wait, switches, ..] = numbers[..] {
            counts.run = Duration::from_nanos(run);
            counts.wait = Duration::from_nanos(wait);
            counts.switches_in = switches;
        }
        counts.preemptions = number_after(&read("status"), "nonvoluntary_ctxt_switches:");
        counts.migrations = number_after(&read("sched"), "se.nr_migrations");
        counts
    }

    /// Returns how many times the calling thread was preempted.
    pub(crate) fn preemptions() -> u64 {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
        number_after(&status, "nonvoluntary_ctxt_switches:")
    }

    /// Returns the difference to `earlier`.
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            run: self.run.saturating_sub(earlier.run),
            wait: self.wait.saturating_sub(earlier.wait),
            switches_in: self.switches_in.saturating_sub(earlier.switches_in),
            preemptions: self.preemptions.saturating_sub(earlier.preemptions),
            migrations: self.migrations.saturating_sub(earlier.migrations),
        }
    }
}

/// Returns the number at the end of the line that begins with a key.
fn number_after(text: &str, key: &str) -> u64 {
    let line = text.lines().find(|line| line.starts_with(key));
    line.and_then(|line| line.split_whitespace().last()?.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_has_a_cpu_and_a_release() {
        let host = Host::look();
        assert!(!host.cpus.is_empty());
        assert!(host.version().0 >= 3, "{}", host.release);
        let times = busy_times();
        assert!(times.iter().all(|(cpu, _)| cpu.index() < MAX_CPUS), "{times:?}");
        assert!(host.cpus.iter().all(|cpu| times.iter().any(|(known, _)| *known == cpu)), "{times:?}");
        assert_eq!(permille(Duration::from_millis(500), Duration::from_secs(2)), 250);
        assert_eq!(permille(Duration::from_millis(10), Duration::from_micros(20)), 1000, "one step of a counter");
        assert_eq!(permille(Duration::ZERO, Duration::ZERO), 0);
        let before = ThreadCounts::read();
        crate::work::spin(3_000_000);
        let spent = ThreadCounts::read().since(before);
        assert!(spent.run > Duration::from_micros(100), "{spent:?}");
        assert_eq!(number_after("a: 1\nb    :   17\n", "b"), 17);
    }
}

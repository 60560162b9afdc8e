//! Gaps of a thread that looks at the clock all the time, on every CPU at once: what stops a CPU.
//!
//! A SCHED_FIFO thread of the highest priority that only reads the clock sees a gap whenever
//! something else has its CPU: an interrupt, another thread, or a hypervisor and the firmware,
//! which no kernel counts. Counters tell the first two. To read them takes longer than most gaps,
//! so they are read before and after a *window*; what they say holds for its gaps.
//!
//! ```text
//!   sleep ... | counters |  looks at the clock: gaps  | counters | sleep ... | counters | ...
//!             0                                                              every 200 ms
//! ```
//!
//! All CPUs look at the same time. A gap of all of them at once can be told from gaps of single
//! ones; and other programs have the CPUs for three quarters of the time.

use crate::host::{ThreadCounts, cpu_set, stolen_times};
use crate::{clock, sys};
use rustix::thread::sched_setaffinity;
use std::os::unix::fs::FileExt;
use zerolag_model::{CpuId, CpuMask, Duration, Instant, SchedAttr};

/// What a CPU was seen to do.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Watched {
    /// The windows, in order of time.
    pub windows: Vec<Window>,
    /// The time that the kernel says was stolen meanwhile, in windows and between them; 10 ms
    /// grain.
    pub stolen: Duration,
}

/// A time in which a thread looked at the clock.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Window {
    /// When it began.
    pub begin: Instant,
    /// When the thread last looked.
    pub end: Instant,
    /// The gaps of at least [`LEAST`]: when each began, and its length.
    pub gaps: Vec<(Instant, Duration)>,
    /// What happened on the CPU meanwhile.
    pub counts: Counts,
}

/// What a kernel counts of a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Times at which another thread preempted the one that looks.
    pub preemptions: u64,
    /// Interrupts of devices, and softirqs other than those of ticks.
    pub devices: u64,
    /// System management interrupts; `None` where they cannot be read.
    pub smis: Option<u64>,
}

impl Counts {
    fn read(cpu: CpuId) -> Self {
        let text = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        Self {
            preemptions: ThreadCounts::preemptions(),
            devices: count_devices(&text("/proc/interrupts"), cpu) + count_devices(&text("/proc/softirqs"), cpu),
            smis: smis(cpu),
        }
    }

    fn since(self, earlier: Self) -> Self {
        Self {
            preemptions: self.preemptions.saturating_sub(earlier.preemptions),
            devices: self.devices.saturating_sub(earlier.devices),
            smis: self.smis.zip(earlier.smis).map(|(now, then)| now.saturating_sub(then)),
        }
    }
}

/// Shorter gaps are of no interest.
pub const LEAST: Duration = Duration::from_micros(2);
/// The length of a window, and the distance between the begins of two.
pub const WINDOW: Duration = Duration::from_millis(50);
/// See [`WINDOW`].
pub const EVERY: Duration = Duration::from_millis(200);

/// Watches CPUs for some time, all at once.
///
/// # Errors
/// A thread cannot be created, or the run was interrupted.
pub fn watch(
    cpus: &CpuMask,
    time: Duration,
    interrupted: &(dyn Fn() -> bool + Sync),
) -> Result<Vec<(CpuId, Watched)>, String> {
    let start = clock::now() + EVERY;
    let before = stolen_times();
    let mut watched = std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for cpu in cpus.iter() {
            let look = move || watch_one(cpu, start, time, interrupted);
            let thread = std::thread::Builder::new().spawn_scoped(scope, look);
            threads.push((cpu, thread.map_err(|error| format!("a thread: {error}"))?));
        }
        let join = |(cpu, thread): (CpuId, std::thread::ScopedJoinHandle<'_, Vec<Window>>)| {
            let windows = thread.join().map_err(|_| "the measuring thread panicked".to_owned())?;
            Ok((cpu, Watched { windows, stolen: Duration::ZERO }))
        };
        threads.into_iter().map(join).collect::<Result<Vec<_>, String>>()
    })?;
    if interrupted() {
        return Err("interrupted".to_owned());
    }
    let of = |times: &[(CpuId, Duration)], cpu| times.iter().find(|(of, _)| *of == cpu).map(|(_, time)| *time);
    let after = stolen_times();
    for (cpu, watched) in &mut watched {
        watched.stolen = of(&after, *cpu).unwrap_or_default().saturating_sub(of(&before, *cpu).unwrap_or_default());
    }
    Ok(watched)
}

fn watch_one(cpu: CpuId, start: Instant, time: Duration, interrupted: &(dyn Fn() -> bool + Sync)) -> Vec<Window> {
    // The caller has checked that the process may run there.
    let _ = sched_setaffinity(None, &cpu_set(&CpuMask::single(cpu)));
    let _ = sys::set_attr(SchedAttr::fifo_at(99));
    let mut windows = Vec::new();
    let mut due = start;
    while due < start + time && !interrupted() {
        clock::sleep_until(due);
        let before = Counts::read(cpu);
        let (begin, mut gaps) = (clock::now(), Vec::new());
        let mut last = begin;
        while last < due + WINDOW {
            let now = clock::now();
            let gap = now.since(last);
            if gap >= LEAST {
                gaps.push((last, gap));
            }
            last = now;
        }
        let counts = Counts::read(cpu).since(before);
        windows.push(Window { begin, end: last, gaps, counts });
        // All threads skip the same windows.
        while due <= last {
            due += EVERY;
        }
    }
    windows
}

/// Counts the interrupts of devices that a CPU got, from the text of `/proc/interrupts`, or its
/// softirqs for devices, from that of `/proc/softirqs`. Every CPU has ticks, and interrupts from
/// other CPUs; both take little time.
fn count_devices(text: &str, cpu: CpuId) -> u64 {
    let Some((head, rows)) = text.split_once('\n') else { return 0 };
    let Some(column) = head.split_whitespace().position(|name| name == format!("CPU{cpu}")) else { return 0 };
    let is_device = |row: &&str| {
        let name = row.split(':').next().unwrap_or_default().trim();
        name.parse::<u32>().is_ok() || DEVICE_SOFTIRQS.contains(&name)
    };
    let count = |row: &str| row.split_whitespace().nth(column + 1)?.parse::<u64>().ok();
    rows.lines().filter(is_device).filter_map(count).sum()
}

const DEVICE_SOFTIRQS: [&str; 6] = ["HI", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET"];

/// Returns how many SMIs a CPU of Intel has had (`MSR_SMI_COUNT`), where that can be read.
fn smis(cpu: CpuId) -> Option<u64> {
    let file = std::fs::File::open(format!("/dev/cpu/{cpu}/msr")).ok()?;
    let mut bytes = [0; 8];
    file.read_exact_at(&mut bytes, MSR_SMI_COUNT).ok()?;
    Some(u64::from_le_bytes(bytes))
}

/// Linux v7.3 `arch/x86/include/asm/msr-index.h`.
const MSR_SMI_COUNT: u64 = 0x34;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_counted_and_ticks_are_not() {
        let interrupts = "           CPU0       CPU2       \n 24:   1  20  PCI-MSI  virtio\nLOC:  100  200   Local timer interrupts\n";
        assert_eq!(count_devices(interrupts, CpuId(2)), 20);
        let softirqs = "                    CPU0       CPU1\n          HI:   1   0\n       TIMER:  70   9\n      NET_RX:   5   8\n";
        assert_eq!([0, 1, 2].map(|cpu| count_devices(softirqs, CpuId(cpu))), [6, 8, 0]);
    }

    #[test]
    fn windows_of_all_cpus_begin_together() {
        let cpus = crate::host::allowed();
        let watched = watch(&cpus, EVERY * 2, &|| false).expect("threads can be created");
        assert_eq!(watched.len(), cpus.iter().count());
        for (_, watched) in watched {
            let first = watched.windows.first().expect("a window");
            assert!(first.end > first.begin && first.gaps.iter().all(|(at, gap)| *at >= first.begin && *gap >= LEAST));
        }
    }
}

//! [`Processes`]: what CPUs know of the processes whose threads share a memory. The rules are those
//! of [`crate::class::fair::preferred_cache`].
//!
//! | word | written by | effect of a stale value |
//! |---|---|---|
//! | run times on a CPU | lock holder of the CPU | a cache is preferred one scan later |
//! | preferred CPU, epoch of the last scan, average | any CPU, at ticks | as above |
//! | next scan | the CPU that scans, by compare-and-swap | never stale |
//! | threads | CPU that creates or ends one | a scan earlier or later |
//! | process of a task | CPU that creates it | never stale |
//! | preferred cache of a task | owner of its body | never stale |
//! | tasks of a CPU that prefer a cache | lock holder of the CPU | a pull finds none, or too late |
//! | use of a cache | CPU that balances between caches | a task is moved once more, or not |
//!
//! A run time is two words: the time, and the epoch up to which it has decayed. A reader that sees
//! the words of two writes takes half or double of a time that is a hint.
//!
//! Everything is allocated when the scheduler is built: 16 bytes per process and CPU, 4 bytes per
//! CPU and cache. Nothing is, where processes are not gathered
//! ([`Config::gathers`]).

use crate::words::config::Config;
use crate::words::ids::ProcessId;
use crate::words::snapshot::snapshot_of;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use zerolag_model::{CpuId, Distance, Duration, TaskId};

/// A run time that halves with every epoch.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    time: AtomicU64,
    epoch: AtomicU64,
}

snapshot_of!(Recent: { time epoch });

impl Recent {
    /// Adds run time. Only the lock holder of the CPU calls this.
    pub(crate) fn add(&self, epoch: u64, more: Duration) {
        let time = self.at(epoch).saturating_add(more.as_nanos());
        self.time.store(time, Ordering::Relaxed);
        self.epoch.store(epoch, Ordering::Relaxed);
    }

    /// Returns the time in nanoseconds as of an epoch (`__update_mm_sched`).
    pub(crate) fn at(&self, epoch: u64) -> u64 {
        let halvings = epoch.saturating_sub(self.epoch.load(Ordering::Relaxed));
        let time = self.time.load(Ordering::Relaxed);
        u32::try_from(halvings).ok().and_then(|halvings| time.checked_shr(halvings)).unwrap_or(0)
    }
}

/// A process (`struct sched_cache_group`).
#[derive(Debug)]
pub(crate) struct Process {
    /// One more than the CPU that it prefers, for the cache of that CPU; 0 if none.
    pub(crate) cpu: AtomicU32,
    pub(crate) threads: AtomicU32,
    /// The tick from which on it can be scanned.
    pub(crate) next_scan: AtomicU64,
    /// The epoch of its last tick that asked for a scan.
    pub(crate) epoch: AtomicU64,
    /// The average number of its running threads (`nr_running_avg`).
    pub(crate) running: AtomicU64,
    /// Its run time on each CPU.
    pub(crate) on: Box<[Recent]>,
}

snapshot_of!(Process: { cpu threads next_scan epoch running on });

/// What is known of a task.
#[derive(Debug, Default)]
struct TaskMembership {
    /// One more than its process; 0 if it is alone in one.
    process: AtomicU32,
    /// One more than the number of the cache that it prefers; 0 if none.
    prefers: AtomicU32,
}

snapshot_of!(TaskMembership: { process prefers });

/// The processes, and where their tasks would rather be.
#[derive(Debug, Default)]
pub(crate) struct Processes {
    rows: Box<[Process]>,
    tasks: Vec<TaskMembership>,
    /// The run time of all fair tasks on each CPU.
    pub(crate) cpus: Box<[Recent]>,
    /// Per CPU and cache, the fair tasks queued there that prefer the cache (`sd->llc_counts`).
    wanted: Box<[AtomicU32]>,
    /// Per cache, the queued tasks elsewhere that prefer it.
    strays: Box<[AtomicU32]>,
    /// Per cache, its util and above it its capacity, as of the last balancing between caches.
    used: Box<[AtomicU64]>,
    cpus_per_cache: u32,
}

snapshot_of!(Processes: { rows tasks cpus wanted strays used } { cpus_per_cache });

impl Processes {
    pub(crate) fn new(config: &Config) -> Self {
        if !config.gathers() {
            return Self::default();
        }
        let nr_cpus = config.topology.nr_cpus();
        let cpus_per_cache = config.topology.span(CpuId(0), Distance::Llc).len();
        let caches = nr_cpus / cpus_per_cache;
        let recent = || (0..nr_cpus).map(|_| Recent::default()).collect();
        let process = |_| Process {
            cpu: AtomicU32::new(0),
            threads: AtomicU32::new(0),
            next_scan: AtomicU64::new(0),
            epoch: AtomicU64::new(0),
            running: AtomicU64::new(0),
            on: recent(),
        };
        let counts = |nr: usize| (0..nr).map(|_| AtomicU32::new(0)).collect();
        Self {
            rows: (0..config.process_reserve).map(process).collect(),
            tasks: Vec::new(),
            cpus: recent(),
            wanted: counts(nr_cpus * caches),
            strays: counts(caches),
            used: (0..caches).map(|_| AtomicU64::new(0)).collect(),
            cpus_per_cache: cpus_per_cache as u32,
        }
    }

    pub(crate) fn reserve(&mut self, tasks: usize) {
        if !self.rows.is_empty() {
            let have = self.tasks.len();
            self.tasks.extend((have..tasks).map(|_| TaskMembership::default()));
        }
    }

    /// Returns the number of the cache of a CPU (`sd_llc_id`).
    pub(crate) const fn cache_of(&self, cpu: CpuId) -> u32 {
        cpu.0 / self.cpus_per_cache
    }

    pub(crate) const fn nr_caches(&self) -> u32 {
        self.used.len() as u32
    }

    /// Returns the first CPU of a cache.
    pub(crate) const fn first_of(&self, cache: u32) -> CpuId {
        CpuId(cache * self.cpus_per_cache)
    }

    /// Counts a new thread in its process, if it shares one.
    pub(crate) fn join(&self, task: TaskId, process: Option<ProcessId>) {
        let Some(row) = self.tasks.get(task.index()) else { return };
        row.prefers.store(0, Ordering::Relaxed);
        row.process.store(process.map_or(0, |process| process.0 + 1), Ordering::Relaxed);
        if let Some(process) = process {
            self.rows[process.0 as usize].threads.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts a thread that has ended no more.
    pub(crate) fn quit(&self, task: TaskId) {
        if let Some(process) = self.of(task) {
            process.threads.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Returns the number of the process of a task, if it shares one.
    pub(crate) fn number_of(&self, task: TaskId) -> Option<u32> {
        self.tasks.get(task.index())?.process.load(Ordering::Relaxed).checked_sub(1)
    }

    /// Returns the process of a task, if it shares one.
    pub(crate) fn of(&self, task: TaskId) -> Option<&Process> {
        self.rows.get(self.number_of(task)? as usize)
    }

    /// Returns the cache that a task prefers. Only the owner of its body calls this.
    pub(crate) fn preferred(&self, task: TaskId) -> Option<u32> {
        self.tasks.get(task.index())?.prefers.load(Ordering::Relaxed).checked_sub(1)
    }

    /// Sets the cache that a task prefers. It is counted nowhere.
    pub(crate) fn prefer(&self, task: TaskId, cache: Option<u32>) {
        self.tasks[task.index()].prefers.store(cache.map_or(0, |cache| cache + 1), Ordering::Relaxed);
    }

    fn word(&self, cpu: CpuId, cache: u32) -> &AtomicU32 {
        &self.wanted[cpu.index() * self.used.len() + cache as usize]
    }

    /// Counts a task that has been queued on a CPU and prefers a cache. Only the lock holder of the
    /// CPU calls this.
    pub(crate) fn count_in(&self, cpu: CpuId, cache: u32) {
        self.word(cpu, cache).fetch_add(1, Ordering::Relaxed);
        if cache != self.cache_of(cpu) {
            self.strays[cache as usize].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts it no more.
    pub(crate) fn count_out(&self, cpu: CpuId, cache: u32) {
        let before = self.word(cpu, cache).fetch_sub(1, Ordering::Relaxed);
        assert!(before > 0, "a task that prefers a cache was counted");
        if cache != self.cache_of(cpu) {
            self.strays[cache as usize].fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Returns the number of tasks queued on a CPU that prefer a cache.
    pub(crate) fn wanted(&self, cpu: CpuId, cache: u32) -> u32 {
        self.word(cpu, cache).load(Ordering::Relaxed)
    }

    /// Returns the number of tasks queued elsewhere that prefer a cache.
    pub(crate) fn strays(&self, cache: u32) -> u32 {
        self.strays[cache as usize].load(Ordering::Relaxed)
    }

    /// Publishes the util and the capacity of a cache.
    pub(crate) fn publish_used(&self, cache: u32, util: u64, capacity: u64) {
        let most = u64::from(u32::MAX);
        self.used[cache as usize].store(util.min(most) | capacity.min(most) << 32, Ordering::Relaxed);
    }

    /// Returns the published util and capacity of a cache, packed.
    pub(crate) fn used(&self, cache: u32) -> u64 {
        self.used[cache as usize].load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerolag_model::{KernelVersion, Topology};

    fn config(caches: u32, cores: u32, processes: usize) -> Config {
        let topology = Topology::new(1, caches, cores, 1).expect("a machine");
        Config::new(topology, KernelVersion::V7_3.settings()).with_process_reserve(processes)
    }

    #[test]
    fn a_run_time_halves_with_every_epoch() {
        let recent = Recent::default();
        recent.add(3, Duration::from_nanos(1000));
        recent.add(4, Duration::from_nanos(10));
        assert_eq!([4, 5, 14, 500].map(|epoch| recent.at(epoch)), [510, 255, 0, 0]);
    }

    #[test]
    fn processes_are_gathered_where_several_cpus_share_one_of_several_caches() {
        assert!(config(2, 2, 1).gathers());
        assert!(!config(1, 4, 1).gathers(), "one cache");
        assert!(!config(4, 1, 1).gathers(), "every CPU has its own");
        assert!(!config(2, 2, 0).gathers(), "no processes");
    }

    #[test]
    fn a_task_that_prefers_another_cache_is_a_stray() {
        let mut processes = Processes::new(&config(2, 2, 1));
        processes.reserve(2);
        processes.join(TaskId(0), Some(ProcessId(0)));
        processes.join(TaskId(1), None);
        assert_eq!([0, 1].map(|id| processes.number_of(TaskId(id))), [Some(0), None]);
        processes.count_in(CpuId(1), 0);
        processes.count_in(CpuId(2), 0);
        assert_eq!([processes.wanted(CpuId(1), 0), processes.wanted(CpuId(2), 0), processes.strays(0)], [1, 1, 1]);
        processes.count_out(CpuId(2), 0);
        processes.quit(TaskId(0));
        assert_eq!((processes.strays(0), processes.rows[0].threads.load(Ordering::Relaxed)), (0, 0));
    }
}

//! How exact limits are: the CPU time of groups as the kernel counts it for their polls, compared
//! with their quota. Prints a table.
//!
//! `enforcement [SECONDS] [PROGRAMS] [GROUPS]`: the length of each run (10), the number of programs
//! that compute beside it (0), and the number of groups (1, 20 and 200). *lost* is the part of the
//! polls' time in which the machine ran something else.
//!
//! A group's rate is counted from the start of its first poll to the start of its last, so that the
//! length of a poll does not round it.
#![expect(clippy::disallowed_methods, reason = "it measures the real clock")]

use rustix::time::{ClockId, clock_gettime};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use zerolag_runtime::{Builder, Group, yield_now};

fn thread_time() -> Duration {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(used.tv_sec.unsigned_abs(), used.tv_nsec.unsigned_abs() as u32)
}

/// The polls of a group: when the first and the last began, and the CPU time of all but the last.
#[derive(Default)]
struct Polls {
    first: Option<Instant>,
    last: Option<Instant>,
    used: Duration,
    running: Duration,
}

impl Polls {
    fn begin(&mut self) {
        let now = Instant::now();
        self.first.get_or_insert(now);
        self.last = Some(now);
        self.used += std::mem::take(&mut self.running);
    }

    /// Returns the CPUs that were used.
    fn rate(&self) -> Option<f64> {
        let length = self.last?.duration_since(self.first?);
        (length > Duration::from_secs(1)).then(|| self.used.as_secs_f64() / length.as_secs_f64())
    }
}

async fn tenant(polls: Arc<Mutex<Polls>>, poll: Duration, end: Arc<AtomicBool>) {
    while !end.load(Ordering::Relaxed) {
        let before = thread_time();
        polls.lock().expect("no task panics").begin();
        while thread_time() < before + poll {
            std::hint::spin_loop();
        }
        polls.lock().expect("no task panics").running = thread_time() - before;
        yield_now().await;
    }
}

struct Run {
    groups: usize,
    quota: f64,
    poll: Duration,
}

/// Returns the differences from the quota: the lowest, of all together, and the highest; and of the
/// runtime's own account; and the part of the time that was lost.
fn measure(run: &Run, length: Duration) -> Option<[f64; 5]> {
    let rt = Builder::new().cpus(2).build().expect("threads");
    let end = Arc::new(AtomicBool::new(false));
    let groups: Vec<(Group, Arc<Mutex<Polls>>)> = (0..run.groups)
        .map(|n| {
            let group = rt.group(format!("g{n}")).quota(run.quota).create().expect("a group");
            let polls = Arc::default();
            drop(group.spawn(tenant(Arc::clone(&polls), run.poll, Arc::clone(&end))).expect("room"));
            (group, polls)
        })
        .collect();
    std::thread::sleep(length);
    let mut rates = Vec::new();
    let (mut outside, mut inside, mut lost) = (0.0, 0.0, 0.0);
    for (group, polls) in &groups {
        let polls = polls.lock().expect("no task panics");
        rates.push(polls.rate()? / run.quota - 1.0);
        outside += (polls.used + polls.running).as_secs_f64();
        inside += group.usage().cpu.as_secs_f64();
        lost += group.usage().lost.as_secs_f64();
    }
    end.store(true, Ordering::Relaxed);
    let mean = rates.iter().sum::<f64>() / rates.len() as f64;
    let low = rates.iter().copied().fold(f64::INFINITY, f64::min);
    let high = rates.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    Some([low, mean, high, inside / outside - 1.0, lost / (inside + lost)])
}

fn spin(programs: usize) -> Vec<Child> {
    let program = || Command::new("sh").args(["-c", "while :; do :; done"]).stdin(Stdio::null()).spawn();
    (0..programs).map(|_| program().expect("a shell")).collect()
}

fn main() {
    let number = |index, default| std::env::args().nth(index).and_then(|text| text.parse().ok()).unwrap_or(default);
    let (length, programs) = (Duration::from_secs(number(1, 10)), number(2, 0) as usize);
    let mut beside = spin(programs);
    println!("| groups | quota | poll | lowest | mean | highest | `Usage` | lost |");
    println!("|--:|--:|--:|--:|--:|--:|--:|--:|");
    for (groups, quota) in [(1, 0.005), (1, 0.05), (1, 0.5), (20, 0.005), (20, 0.05), (200, 0.005)] {
        if ![0, groups as u64].contains(&number(3, 0)) {
            continue;
        }
        for poll in [100, 1_000, 10_000] {
            let run = Run { groups, quota, poll: Duration::from_micros(poll) };
            let found = measure(&run, length);
            let percent = |part: f64| format!("{:+.2} %", 100.0 * part);
            let found = found.map_or_else(|| vec!["-".to_owned(); 5], |found| found.map(percent).to_vec());
            println!("| {groups} | {} % | {} ms | {} |", 100.0 * quota, poll as f64 / 1e3, found.join(" | "));
        }
    }
    for program in &mut beside {
        let _ = program.kill();
        let _ = program.wait();
    }
}

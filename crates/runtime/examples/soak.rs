//! A long run at random, for faults that need many wakeups: groups that are made, throttled and
//! removed, tasks that pass messages, contend for locks, sleep, compute too long, panic, are
//! aborted and start others.
//!
//! `soak [SECONDS] [SEED] [record]`: prints a line of counts every 10 s and at the end; fails if a
//! task is missing, a lock was not exclusive, the threads do not end, or nothing happens for 20 s.
//! With `record` it keeps a trace and a recording, in turns of 10 s; every trace is checked by
//! `zerolag check` if `ZEROLAG` names the program, and every recording replays.
#![expect(clippy::disallowed_methods, reason = "it runs for a time")]

use std::collections::VecDeque;
use std::fs::File;
use std::future::poll_fn;
use std::io::{BufWriter, Write};
use std::panic;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex as Latch};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};
use zerolag_runtime::model::{Nice, RtPriority};
use zerolag_runtime::trace::{Trace, TraceWriter};
use zerolag_runtime::{Builder, Group, JoinError, Mutex, Runtime, checkpoint, sleep, timeout, yield_now};

/// SplitMix64.
#[derive(Clone)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn one_in(&mut self, number: u64) -> bool {
        self.below(number) == 0
    }
}

#[derive(Default)]
struct Counts {
    wakes: AtomicU64,
    spawned: AtomicU64,
    ended: AtomicU64,
    aborted: AtomicU64,
    panicked: AtomicU64,
    locked: AtomicU64,
    long: AtomicU64,
    groups: AtomicU64,
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// A channel with room for one message, between tasks.
#[derive(Default)]
struct Slot(Latch<(VecDeque<u64>, Option<Waker>)>);

impl Slot {
    fn put(&self, value: u64, counts: &Counts) {
        let waker = {
            let mut state = self.0.lock().expect("no panic inside");
            state.0.push_back(value);
            state.1.take()
        };
        if let Some(waker) = waker {
            count(&counts.wakes);
            waker.wake();
        }
    }

    async fn take(&self) -> u64 {
        poll_fn(|cx| {
            let mut state = self.0.lock().expect("no panic inside");
            match state.0.pop_front() {
                Some(value) => Poll::Ready(value),
                None => {
                    state.1 = Some(cx.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }
}

struct Shared {
    counts: Counts,
    locks: [Mutex<u64>; 3],
    /// Whether a task is in the section of each lock.
    inside: [AtomicBool; 3],
    is_over: AtomicBool,
}

/// The only task in the section of a lock, until it leaves or is aborted there.
struct Inside<'a>(&'a AtomicBool);

impl<'a> Inside<'a> {
    fn enter(is_inside: &'a AtomicBool) -> Self {
        assert!(!is_inside.swap(true, Ordering::AcqRel), "a lock is held twice");
        Self(is_inside)
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

fn burn(length: Duration) {
    let began = Instant::now();
    while began.elapsed() < length {
        std::hint::spin_loop();
    }
}

/// Two tasks that pass a number to and fro.
fn start_pair(group: &Group, shared: &Arc<Shared>, random: &mut Random) {
    let slots = [Arc::new(Slot::default()), Arc::new(Slot::default())];
    let rounds = 200 + random.below(20_000);
    for n in 0..2 {
        let (own, next, within) = (Arc::clone(&slots[n]), Arc::clone(&slots[1 - n]), Arc::clone(shared));
        let task = group.spawn(async move {
            if n == 0 {
                next.put(0, &within.counts);
            }
            loop {
                let value = own.take().await;
                next.put(value + 1, &within.counts);
                if value >= rounds || within.is_over.load(Ordering::Relaxed) {
                    next.put(u64::MAX / 2, &within.counts);
                    break;
                }
            }
        });
        if task.is_ok() {
            count(&shared.counts.spawned);
        }
        drop(task);
    }
}

/// A task that does a few things at random.
async fn wander(shared: Arc<Shared>, group: Group, mut random: Random) {
    for _ in 0..1 + random.below(30) {
        match random.below(12) {
            0 | 1 => {
                for _ in 0..random.below(50) {
                    yield_now().await;
                }
            }
            2 => sleep(Duration::from_micros(random.below(3_000))).await,
            3 | 4 => {
                let index = random.below(3) as usize;
                let mut held = shared.locks[index].lock().await;
                let _inside = Inside::enter(&shared.inside[index]);
                *held += 1;
                count(&shared.counts.locked);
                if random.one_in(3) {
                    yield_now().await;
                }
            }
            5 => {
                for _ in 0..random.below(2_000) {
                    checkpoint().await;
                }
            }
            6 if random.one_in(40) => {
                count(&shared.counts.long);
                burn(Duration::from_micros(random.below(12_000)));
            }
            // A release build of this workspace aborts at a panic.
            7 if cfg!(panic = "unwind") && random.one_in(20) => {
                count(&shared.counts.panicked);
                panic::panic_any("on purpose");
            }
            8 => {
                if let Ok(child) = group.spawn(async { 7_u64 }) {
                    count(&shared.counts.spawned);
                    assert_eq!(child.await.expect("a result"), 7);
                }
            }
            9 => {
                let _ = timeout(Duration::from_micros(random.below(500)), std::future::pending::<()>()).await;
            }
            10 if random.one_in(30) => {
                if let Ok(task) = group.spawn_blocking(|| burn(Duration::from_micros(200))) {
                    count(&shared.counts.spawned);
                    task.await.expect("a result");
                }
            }
            _ => {
                let lock = shared.locks[random.below(3) as usize].try_lock();
                drop(lock);
            }
        }
    }
}

/// One life of a runtime. Returns it when all its tasks have ended.
#[expect(clippy::too_many_lines, reason = "one round of random changes; all use the same groups and tasks")]
fn live(rt: Runtime, shared: &Arc<Shared>, random: &mut Random, length: Duration) -> Result<Runtime, String> {
    let end = Instant::now() + length;
    let mut groups: Vec<Group> = Vec::new();
    let mut tasks = VecDeque::new();
    let (mut seen, mut since) = (0, Instant::now());
    while Instant::now() < end {
        if groups.len() < 12 && random.one_in(4) {
            let parent = if groups.is_empty() || random.one_in(2) { rt.root().clone() } else { groups[0].clone() };
            let mut group = parent.group(format!("g{}", random.below(1_000))).weight(1 + random.below(10_000));
            if random.one_in(2) {
                group = group.quota(0.06 + random.below(100) as f64 / 100.0).period(Duration::from_millis(20));
            }
            groups.push(group.create().map_err(|error| error.to_string())?);
            count(&shared.counts.groups);
        } else if groups.len() > 4 && random.one_in(6) {
            // Its tasks go on; it is removed with the last of them.
            groups.swap_remove(1 + random.below(groups.len() as u64 - 1) as usize);
        } else if !groups.is_empty() && random.one_in(5) {
            let group = &groups[random.below(groups.len() as u64) as usize];
            let quota = (!random.one_in(3)).then(|| 0.06 + random.below(100) as f64 / 100.0);
            group.set_quota(quota).map_err(|error| error.to_string())?;
        }
        let group = if groups.is_empty() { rt.root() } else { &groups[random.below(groups.len() as u64) as usize] };
        start_pair(group, shared, random);
        for _ in 0..random.below(20) {
            let builder = match random.below(8) {
                0 => group.task().fifo(RtPriority::MIN),
                1 => group.task().nice(Nice::new(random.below(40) as i64 - 20).expect("in range")),
                2 => group.task().reserve(Duration::from_micros(200), Duration::from_millis(20)),
                _ => group.task(),
            };
            if let Ok(task) = builder.spawn(wander(Arc::clone(shared), group.clone(), Random(random.next()))) {
                count(&shared.counts.spawned);
                tasks.push_back(task);
            }
        }
        // Tasks of throttled groups take their time: those that have ended are joined, and of too
        // many the first ones are aborted.
        for _ in 0..tasks.len() {
            let Some(task) = tasks.pop_front() else { break };
            if tasks.len() > 400 || random.one_in(200) {
                task.abort();
            } else if !task.is_finished() {
                tasks.push_back(task);
                continue;
            }
            match rt.block_on(task) {
                Ok(()) => count(&shared.counts.ended),
                Err(JoinError::Aborted) => count(&shared.counts.aborted),
                Err(JoinError::Panicked(with)) if with.downcast_ref::<&str>() == Some(&"on purpose") => {}
                Err(other) => return Err(other.to_string()),
            }
        }
        std::thread::sleep(Duration::from_micros(300));
        let now = shared.counts.wakes.load(Ordering::Relaxed) + shared.counts.ended.load(Ordering::Relaxed);
        if now != seen {
            (seen, since) = (now, Instant::now());
        } else if since.elapsed() > Duration::from_secs(20) {
            return Err(format!("nothing happens: {:#?}", rt.tasks()));
        }
    }
    shared.is_over.store(true, Ordering::Relaxed);
    for group in &groups {
        group.set_quota(None).map_err(|error| error.to_string())?;
    }
    for task in tasks {
        task.abort();
    }
    let until = Instant::now() + Duration::from_secs(20);
    while !rt.tasks().is_empty() {
        if Instant::now() > until {
            return Err(format!("these tasks do not end: {:#?}", rt.tasks()));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    shared.is_over.store(false, Ordering::Relaxed);
    Ok(rt)
}

fn main() -> Result<(), String> {
    let args: Vec<_> = std::env::args().skip(1).collect();
    let number = |index: usize, default: u64| args.get(index).and_then(|text| text.parse().ok()).unwrap_or(default);
    let (seconds, seed) = (number(0, 30), number(1, 1));
    let is_recorded = args.iter().any(|arg| arg == "record");
    panic::set_hook(Box::new(|info| {
        if info.payload().downcast_ref::<&str>() != Some(&"on purpose") {
            eprintln!("{info}");
        }
    }));
    let shared = Arc::new(Shared {
        counts: Counts::default(),
        locks: [(); 3].map(|()| Mutex::new(0)),
        inside: [const { AtomicBool::new(false) }; 3],
        is_over: AtomicBool::new(false),
    });
    let (mut random, end, began) = (Random(seed), Instant::now() + Duration::from_secs(seconds), Instant::now());
    let mut replayed = 0;
    while Instant::now() < end {
        let mut builder = Builder::new().cpus(2 + random.below(3) as u32).tasks(4_096).groups(64);
        if is_recorded {
            builder = builder.record(3_000_000).trace();
        }
        let length = Duration::from_secs(10).min(end.saturating_duration_since(Instant::now()));
        let rt = live(builder.build().map_err(|error| error.to_string())?, &shared, &mut random, length)?;
        if is_recorded {
            check(&rt)?;
            let recording = rt.into_recording().ok_or("it was recorded")?;
            recording.replay().map_err(|error| error.to_string())?;
            replayed += recording.len();
        } else {
            let since = Instant::now();
            drop(rt); // It waits for all threads.
            if since.elapsed() > Duration::from_secs(20) {
                return Err(format!("its threads took {:?} to end", since.elapsed()));
            }
        }
        let Counts { wakes, spawned, aborted, panicked, locked, long, groups, .. } = &shared.counts;
        let [wakes, spawned, aborted, panicked, locked, long, groups] =
            [wakes, spawned, aborted, panicked, locked, long, groups].map(|counter| counter.load(Ordering::Relaxed));
        println!(
            "{:>5.0} s: {wakes} wakeups by tasks, {spawned} tasks started, {aborted} aborted, {panicked} panics, {locked} locks, {long} long polls, {groups} groups, {replayed} calls replayed",
            began.elapsed().as_secs_f64()
        );
    }
    Ok(())
}

fn write(path: &Path, trace: &Trace) -> std::io::Result<()> {
    let mut writer = TraceWriter::new(BufWriter::new(File::create(path)?), &trace.meta)?;
    trace.records.iter().try_for_each(|record| writer.push(record))?;
    writer.finish(trace.meta.end, 0)?.flush()
}

/// Checks the trace with the monitors.
fn check(rt: &Runtime) -> Result<(), String> {
    let trace = rt.take_trace();
    let Some(program) = std::env::var_os("ZEROLAG") else { return Ok(()) };
    let path = std::env::temp_dir().join(format!("zerolag-soak-{}.trace", std::process::id()));
    write(&path, &trace).map_err(|error| error.to_string())?;
    let checked = std::process::Command::new(program).arg("check").arg(&path).output();
    let checked = checked.map_err(|error| error.to_string())?;
    if checked.status.success() {
        drop(std::fs::remove_file(&path));
        return Ok(());
    }
    Err(format!("{}: {}", path.display(), String::from_utf8_lossy(&checked.stdout)))
}

//! How late a reservation of 1 ms in 10 ms is served beside tasks whose polls take as long as is
//! given: from the time at which a job was due to the start of its poll. Prints a table.
//!
//! `lateness [SECONDS]`: the length of each run (20). The bound is the length of a poll and 1 ms:
//! nothing interrupts a poll, and the clock's thread has to run.
//!
//! A job can also be late because the machine is: other programs, or the owner of a virtual
//! machine, have the processors. So the same run measures, for every job:
//!
//! * how long the thread of the CPU did not run although polls were in progress, since the last
//!   poll that began before the job was due (wall time without CPU time);
//! * how late a plain thread is that sleeps until the same time and does nothing else.
//!
//! Of the jobs beyond the bound, the last column counts those that stay beyond it without the
//! longer of the two times.
#![expect(clippy::disallowed_methods, reason = "it measures the real clock")]

use hdrhistogram::Histogram;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use zerolag_runtime::{Builder, sleep, yield_now};

const PERIOD: Duration = Duration::from_millis(10);

fn compute(length: Duration) {
    let began = Instant::now();
    while began.elapsed() < length {
        std::hint::spin_loop();
    }
}

/// The CPU time of this thread.
fn cpu_time() -> Duration {
    nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID.now().expect("every kernel has it").into()
}

/// The wall time and the CPU time at which polls began, in the last period.
#[derive(Default)]
struct Polls(Mutex<VecDeque<(Instant, Duration)>>);

impl Polls {
    fn begin(&self) {
        let mut polls = self.0.lock().expect("no poll panics");
        let now = Instant::now();
        polls.push_back((now, cpu_time()));
        while polls[0].0 + 10 * PERIOD < now {
            polls.pop_front();
        }
    }

    /// Returns for how long the thread has not run since the last poll that began before a time.
    fn lost_since(&self, due: Instant) -> Duration {
        let polls = self.0.lock().expect("no poll panics");
        let before = polls.iter().rev().find(|(at, _)| *at <= due).or(polls.front());
        before.map_or(Duration::ZERO, |(at, used)| {
            // Another thread has the CPU after a hand-over: its time does not tell.
            at.elapsed().saturating_sub(cpu_time().checked_sub(*used).unwrap_or(Duration::MAX))
        })
    }
}

/// A job: when it was due, how late it was, and how long the thread of its CPU did not run.
struct Job {
    due: Instant,
    late: Duration,
    lost: Duration,
}

/// Sleeps until the same times as the jobs; returns how late each of the sleeps ended.
fn control(first: Instant, jobs: u32) -> Vec<Duration> {
    rustix::thread::set_current_timer_slack(std::num::NonZero::new(1)).expect("it is a slack");
    let late = |n| {
        let due = first + n * PERIOD;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        due.elapsed()
    };
    (0..jobs).map(late).collect()
}

/// Runs jobs beside polls of the given length; returns them with the lateness of the plain thread.
fn measure(poll: Duration, jobs: u32) -> Result<Vec<(Job, Duration)>, Box<dyn std::error::Error>> {
    let rt = Builder::new().cpus(1).build()?;
    let (end, polls) = (Arc::new(AtomicBool::new(false)), Arc::new(Polls::default()));
    let others: Vec<_> = (0..4)
        .map(|n| {
            let (end, polls) = (Arc::clone(&end), Arc::clone(&polls));
            let group = rt.group(format!("g{n}")).create().expect("a group");
            let computes = group.spawn(async move {
                while !end.load(Ordering::Relaxed) {
                    polls.begin();
                    compute(poll);
                    yield_now().await;
                }
            });
            computes.expect("room")
        })
        .collect();
    let reserved = rt.task().reserve(Duration::from_millis(1), PERIOD).spawn(async move {
        let (mut waits, mut due) = (sleep(PERIOD), Instant::now() + PERIOD);
        let plain = std::thread::spawn(move || control(due, jobs));
        let mut done = Vec::new();
        for _ in 0..jobs {
            let next = waits.then(PERIOD);
            waits.await;
            done.push(Job { due, late: due.elapsed(), lost: polls.lost_since(due) });
            compute(Duration::from_micros(200));
            (waits, due) = (next, due + PERIOD);
        }
        (done, plain)
    });
    let (done, plain) = rt.block_on(reserved?)?;
    end.store(true, Ordering::Relaxed);
    for other in others {
        rt.block_on(other)?;
    }
    let plain = plain.join().expect("it does not panic");
    Ok(done.into_iter().zip(plain).collect())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let seconds = std::env::args().nth(1).map_or(Ok(20), |seconds| seconds.parse())?;
    let jobs = u32::try_from(Duration::from_secs(seconds).as_nanos() / PERIOD.as_nanos())?;
    let is_listing = std::env::args().nth(2).is_some();
    println!(
        "| polls of the others (ms) | jobs | late: p50 (ms) | p99 (ms) | max (ms) | plain thread: p99 (ms) | max (ms) \
         | beyond poll + 1 ms | without what the machine took |"
    );
    println!("|--:|--:|--:|--:|--:|--:|--:|--:|--:|");
    for us in [100, 500, 1_000] {
        let poll = Duration::from_micros(us);
        let bound = poll + Duration::from_millis(1);
        let measured = measure(poll, jobs)?;
        let histogram = |times: &mut dyn Iterator<Item = Duration>| {
            let mut histogram = Histogram::<u64>::new(3).expect("three digits");
            times.for_each(|time| histogram += time.as_micros() as u64);
            histogram
        };
        let late = histogram(&mut measured.iter().map(|(job, _)| job.late));
        let plain = histogram(&mut measured.iter().map(|(_, plain)| *plain));
        let beyond: Vec<_> = measured.iter().filter(|(job, _)| job.late > bound).collect();
        let own = beyond.iter().filter(|(job, plain)| job.late - job.lost.max(*plain).min(job.late) > bound).count();
        let ms = |histogram: &Histogram<u64>, quantile| histogram.value_at_quantile(quantile) as f64 / 1e3;
        println!(
            "| {:.1} | {} | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} | {} | {own} |",
            us as f64 / 1e3,
            measured.len(),
            ms(&late, 0.5),
            ms(&late, 0.99),
            ms(&late, 1.0),
            ms(&plain, 0.99),
            ms(&plain, 1.0),
            beyond.len(),
        );
        if is_listing {
            let first = measured[0].0.due;
            for (job, plain) in beyond {
                let at = job.due - first;
                eprintln!("at {at:.1?}: {:.2?} late, thread off {:.2?}, plain thread {plain:.2?}", job.late, job.lost);
            }
        }
    }
    Ok(())
}

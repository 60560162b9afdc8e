//! How late a reservation of 1 ms in 10 ms is served beside tasks whose polls take as long as is
//! given: from the time at which a job was due to the start of its poll. Prints a table.
//!
//! `lateness [SECONDS]`: the length of each run (20). The bound is the length of a poll and 1 ms:
//! nothing interrupts a poll, and the clock's thread has to run.
#![expect(clippy::disallowed_methods, reason = "it measures the real clock")]

use hdrhistogram::Histogram;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use zerolag_runtime::{Builder, sleep, yield_now};

const PERIOD: Duration = Duration::from_millis(10);

fn compute(length: Duration) {
    let began = Instant::now();
    while began.elapsed() < length {
        std::hint::spin_loop();
    }
}

/// Returns the latenesses in microseconds, and how many jobs were later than the bound.
fn measure(poll: Duration, length: Duration) -> Result<(Histogram<u64>, u64), Box<dyn std::error::Error>> {
    let rt = Builder::new().cpus(1).build()?;
    let end = Arc::new(AtomicBool::new(false));
    let others: Vec<_> = (0..4)
        .map(|n| {
            let end = Arc::clone(&end);
            let group = rt.group(format!("g{n}")).create().expect("a group");
            let computes = group.spawn(async move {
                while !end.load(Ordering::Relaxed) {
                    compute(poll);
                    yield_now().await;
                }
            });
            computes.expect("room")
        })
        .collect();
    let reserved = rt.task().reserve(Duration::from_millis(1), PERIOD).spawn(async move {
        let mut late = Histogram::new(3).expect("three digits");
        let (mut waits, mut due) = (sleep(PERIOD), Instant::now() + PERIOD);
        let last = Instant::now() + length;
        while due < last {
            let next = waits.then(PERIOD);
            waits.await;
            late += due.elapsed().as_micros() as u64;
            compute(Duration::from_micros(200));
            (waits, due) = (next, due + PERIOD);
        }
        late
    });
    let late = rt.block_on(reserved?)?;
    end.store(true, Ordering::Relaxed);
    for other in others {
        rt.block_on(other)?;
    }
    let bound = (poll + Duration::from_millis(1)).as_micros() as u64;
    let beyond = late.len() - late.count_between(0, bound);
    Ok((late, beyond))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let seconds = std::env::args().nth(1).map_or(Ok(20), |seconds| seconds.parse())?;
    println!("| polls of the others (ms) | jobs | late: p50 (ms) | p99 (ms) | max (ms) | beyond poll + 1 ms |");
    println!("|--:|--:|--:|--:|--:|--:|");
    for us in [100, 500, 1_000] {
        let poll = Duration::from_micros(us);
        let (late, beyond) = measure(poll, Duration::from_secs(seconds))?;
        let ms = |quantile| late.value_at_quantile(quantile) as f64 / 1e3;
        println!(
            "| {:.1} | {} | {:.2} | {:.2} | {:.2} | {beyond} |",
            us as f64 / 1e3,
            late.len(),
            ms(0.5),
            ms(0.99),
            ms(1.0)
        );
    }
    Ok(())
}

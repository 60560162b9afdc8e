//! A server with tenants in one process, on two CPUs: requests to serve soon, heartbeats to send in
//! time, and twenty tenants of 2 % of a CPU each, one of which never yields. Runs it without the
//! promises and with them, and prints both.
//!
//! `cargo run --release -p zerolag-runtime --example promises [SECONDS]`
#![expect(clippy::disallowed_methods, reason = "the runtime schedules by the real clock")]

use hdrhistogram::Histogram;
use std::time::{Duration, Instant};
use zerolag_runtime::{Builder, Group, JoinHandle, Runtime, checkpoint, sleep};

const TENANTS: usize = 20;
const QUOTA: f64 = 0.02;
/// The computation that one request costs.
const REQUEST: Duration = Duration::from_micros(100);
const ARRIVALS: Duration = Duration::from_millis(1);
const HEARTBEATS: Duration = Duration::from_millis(10);

/// Computes without yielding.
fn compute(length: Duration) {
    let began = Instant::now();
    while began.elapsed() < length {
        std::hint::spin_loop();
    }
}

/// Whether the promises are made: limits, reservation, weights.
#[derive(Clone, Copy, PartialEq)]
enum Promises {
    None,
    Made,
}

struct Measured {
    requests: Histogram<u64>,
    heartbeats: Histogram<u64>,
    /// The CPUs that each tenant used.
    tenants: Vec<f64>,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let seconds = std::env::args().nth(1).map_or(Ok(5), |seconds| seconds.parse())?;
    println!("                request latency (us)        heartbeat late (us)   CPUs used by tenants");
    println!("promises        p50      p99    p99.9       p50       max         least     most    in all");
    for promises in [Promises::None, Promises::Made] {
        let measured = measure(promises, Duration::from_secs(seconds))?;
        let quantile = |of: &Histogram<u64>, quantile: f64| of.value_at_quantile(quantile) as f64 / 1e3;
        let (requests, heartbeats) = (&measured.requests, &measured.heartbeats);
        let least = measured.tenants.iter().copied().fold(f64::INFINITY, f64::min);
        let most = measured.tenants.iter().copied().fold(0.0, f64::max);
        println!(
            "{:<10}{:>9.0}{:>9.0}{:>9.0}{:>10.0}{:>10.0}{:>14.4}{:>9.4}{:>10.4}",
            if promises == Promises::Made { "made" } else { "none" },
            quantile(requests, 0.5),
            quantile(requests, 0.99),
            quantile(requests, 0.999),
            quantile(heartbeats, 0.5),
            heartbeats.max() as f64 / 1e3,
            least,
            most,
            measured.tenants.iter().sum::<f64>(),
        );
    }
    Ok(())
}

fn measure(promises: Promises, lasts: Duration) -> Result<Measured, Box<dyn std::error::Error>> {
    let rt = Builder::new().cpus(2).build()?;
    let (gold, tenants) = groups(&rt, promises)?;
    for (index, tenant) in tenants.iter().enumerate() {
        let poll = if index == 0 { Duration::from_millis(10) } else { REQUEST };
        tenant.spawn(async move {
            loop {
                compute(poll);
                checkpoint().await;
            }
        })?;
    }
    let heart = match promises {
        Promises::Made => rt.task().reserve(Duration::from_millis(1), HEARTBEATS),
        Promises::None => rt.task(),
    };
    let heart = heart.spawn(lateness(HEARTBEATS, lasts, Duration::ZERO))?;
    let requests: JoinHandle<_> = gold.spawn(lateness(ARRIVALS, lasts, REQUEST))?;
    let began = Instant::now();
    let requests = rt.block_on(requests)?;
    let heartbeats = rt.block_on(heart)?;
    let elapsed = began.elapsed().as_secs_f64();
    let tenants = tenants.iter().map(|tenant| tenant.usage().cpu.as_secs_f64() / elapsed).collect();
    Ok(Measured { requests, heartbeats, tenants })
}

fn groups(rt: &Runtime, promises: Promises) -> Result<(Group, Vec<Group>), Box<dyn std::error::Error>> {
    let is_made = promises == Promises::Made;
    let gold = rt.group("gold").weight(if is_made { 10_000 } else { 100 }).create()?;
    let tenant = |index: usize| {
        let group = rt.group(format!("tenant{index}"));
        if is_made { group.quota(QUOTA).create() } else { group.create() }
    };
    Ok((gold, (0..TENANTS).map(tenant).collect::<Result<_, _>>()?))
}

/// Computes for `work` once per `period`, and returns how late each one was done after it was due,
/// in nanoseconds.
async fn lateness(period: Duration, lasts: Duration, work: Duration) -> Histogram<u64> {
    let mut late = Histogram::new(3).expect("three digits");
    let began = Instant::now();
    let mut next = sleep(period);
    for count in 1_u32.. {
        let due = began + period * count;
        if due > began + lasts {
            break;
        }
        let following = next.then(period);
        next.await;
        next = following;
        compute(work);
        late += due.elapsed().as_nanos() as u64;
    }
    late
}

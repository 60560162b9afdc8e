//! Programs that measure the same as a probe: their figures are predicted.

use std::process::Command;
use zerolag_linux::probe::Woken;
use zerolag_model::{CpuId, Duration};

/// Runs `perf bench sched pipe` on CPUs; nanoseconds per switch.
pub(super) fn perf_bench_pipe(cpus: &str, turns: u64, is_realtime: bool) -> Result<Woken, String> {
    let as_fifo: &[&str] = if is_realtime { &["chrt", "-f", "80"] } else { &[] };
    let output = Command::new("taskset")
        .args(["-c", cpus])
        .args(as_fifo)
        .args(["perf", "bench", "-f", "simple", "sched", "pipe", "-l"])
        .arg(turns.to_string())
        .output()
        .map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout);
    let seconds: f64 = text.trim().parse().map_err(|_| "perf is not there, or says nothing".to_owned())?;
    // Two switches per turn.
    Ok(Woken { samples: vec![(seconds * 1e9 / (2 * turns) as f64) as u64], ..Woken::default() })
}

/// Runs cyclictest on a CPU; nanoseconds, from its histogram.
///
/// With `--laptop`: without, it holds `/dev/cpu_dma_latency` at zero, and a CPU that would halt
/// polls in its place.
pub(super) fn cyclictest(cpu: CpuId, period: Duration) -> Result<Woken, String> {
    let (interval, loops) = (period.as_nanos() / 1_000, super::times(period));
    let output = Command::new("cyclictest")
        .args(["-q", "--laptop", "-t1", "-p80", "-h2000"])
        .args([format!("-a{cpu}"), format!("-i{interval}"), format!("-l{loops}")])
        .output()
        .map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout);
    // `000017 00003`: three times between 17 and 18 us.
    let row = |line: &str| {
        let (us, count) = line.split_once(char::is_whitespace)?;
        Some((us.parse::<u64>().ok()?, count.trim().parse::<usize>().ok()?))
    };
    let samples: Vec<u64> =
        text.lines().filter_map(row).flat_map(|(us, count)| std::iter::repeat_n(us * 1_000 + 500, count)).collect();
    if samples.is_empty() { Err("it says nothing".to_owned()) } else { Ok(Woken { samples, ..Woken::default() }) }
}

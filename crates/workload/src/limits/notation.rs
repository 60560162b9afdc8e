//! CPU limits and weights in the notations of other programs, and their values in the kernel's
//! files.
//!
//! Sources: Linux v6.12 `kernel/sched/core.c`, `cpu_period_quota_parse`; Kubernetes
//! `pkg/kubelet/cm/helpers_linux.go`, `MilliCPUToShares`, `MilliCPUToQuota`; KEP-2254 (linear
//! conversion); opencontainers/cgroups 0.0.3, `ConvertCPUSharesToCgroupV2Value` (quadratic
//! conversion).

use zerolag_model::{CpuMax, Duration};

/// How a container runtime converts shares to `cpu.weight`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Conversion {
    /// 2..262144 to 1..10000 linearly: runc before 1.3.2, crun before 1.23.
    Linear,
    /// Such that 1024 shares are nearly weight 100: later versions.
    #[default]
    Quadratic,
}

/// Reads `cpu.max`: a quota in microseconds or `max`, and optionally a period.
///
/// # Errors
/// The reason.
pub fn cpu_max(text: &str) -> Result<(Option<Duration>, Option<Duration>), &'static str> {
    let mut words = text.split_whitespace();
    let quota = match words.next() {
        None => return Err("it is empty"),
        Some("max") => None,
        Some(word) => Some(word.parse().map(Duration::from_micros).map_err(|_| "the quota is not a whole number")?),
    };
    let period = words.next().map(|word| word.parse().map(Duration::from_micros));
    let period = period.transpose().map_err(|_| "the period is not a whole number")?;
    if words.next().is_some() {
        return Err("there are more than two words");
    }
    Ok((quota, period))
}

/// Returns the quota of `milli` thousandths of a CPU; at least the smallest valid quota.
#[must_use]
pub fn cpus_to_quota(milli: u64, period: Duration) -> Duration {
    let quota = Duration::from_micros(period.as_micros_floor().saturating_mul(milli) / 1000);
    quota.max(CpuMax::SHORTEST)
}

/// Reads a percentage of one CPU into thousandths; at most one digit after the point is used.
#[must_use]
pub fn percent(text: &str) -> Option<u64> {
    let number = text.trim().strip_suffix('%')?.trim();
    thousandths(number).map(|value| value / 100).filter(|milli| *milli > 0)
}

/// Reads a number of CPUs into thousandths: `500m`, `0.5`, `2`.
#[must_use]
pub fn milli_cpus(text: &str) -> Option<u64> {
    let milli = match text.trim().strip_suffix('m') {
        Some(number) => number.parse().ok(),
        None => thousandths(text.trim()),
    };
    milli.filter(|milli| *milli > 0)
}

/// Reads a decimal number into thousandths; smaller parts are cut off.
fn thousandths(number: &str) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() && fraction.is_empty() || !digits(whole) || !digits(fraction) {
        return None;
    }
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let fraction: String = fraction.chars().chain("000".chars()).take(3).collect();
    whole.checked_mul(1000)?.checked_add(fraction.parse().ok()?)
}

/// Returns thousandths of a CPU as Kubernetes writes them: `2`, `750m`.
#[must_use]
pub fn milli_text(milli: u64) -> String {
    if milli.is_multiple_of(1000) { (milli / 1000).to_string() } else { format!("{milli}m") }
}

/// Returns a limit in thousandths of a CPU as each program writes it that sets limits: Kubernetes,
/// Docker and Podman, systemd. A tenth of a percent is what systemd can tell apart.
#[must_use]
pub fn notations(milli: u64) -> String {
    let decimal = |whole: u64, part: u64, digits: usize| {
        let text = format!("{whole}.{part:0digits$}");
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    let cpus = decimal(milli / 1000, milli % 1000, 3);
    let percent = decimal(milli / 10, milli % 10, 1);
    format!("limits.cpu {}, --cpus {cpus}, CPUQuota={percent}%", milli_text(milli))
}

/// Returns the shares of a request.
#[must_use]
pub fn shares_of_milli(milli: u64) -> u64 {
    (milli.saturating_mul(1024) / 1000).clamp(2, 262_144)
}

/// Returns the weight of shares, 1..=10000.
///
/// # Panics
/// Never: the result is in its range.
#[must_use]
pub fn shares_to_weight(shares: u64, conversion: Conversion) -> u32 {
    let weight = match conversion {
        Conversion::Linear => 1 + (shares.clamp(2, 262_144) - 2) * 9999 / 262_142,
        Conversion::Quadratic if shares <= 2 => 1,
        Conversion::Quadratic if shares >= 262_144 => 10_000,
        Conversion::Quadratic => {
            // In this order of operations: at 1024 the result is close to a whole number.
            let log = (shares as f64).log2();
            let exponent = (log * log + 125.0 * log) / 612.0 - 7.0 / 34.0;
            10_f64.powf(exponent).ceil() as u64
        }
    };
    u32::try_from(weight).expect("invariant: at most 10000")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_written_as_each_program_writes_it() {
        assert_eq!(notations(3070), "limits.cpu 3070m, --cpus 3.07, CPUQuota=307%");
        assert_eq!(notations(2000), "limits.cpu 2, --cpus 2, CPUQuota=200%");
        assert_eq!(notations(5), "limits.cpu 5m, --cpus 0.005, CPUQuota=0.5%");
        assert_eq!(notations(10_000), "limits.cpu 10, --cpus 10, CPUQuota=1000%");
    }

    #[test]
    fn cpu_max_reads_as_the_kernel_reads_it() {
        let us = Duration::from_micros;
        assert_eq!(cpu_max("50000 100000"), Ok((Some(us(50_000)), Some(us(100_000)))));
        assert_eq!(cpu_max(" 50000"), Ok((Some(us(50_000)), None)));
        assert_eq!(cpu_max("max"), Ok((None, None)));
        for bad in ["", "max max", "1 2 3", "-1", "5e4"] {
            assert!(cpu_max(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn parts_of_cpus_are_read_in_every_spelling() {
        assert_eq!(["500m", "0.5", ".5", "0.5009"].map(milli_cpus), [Some(500); 4]);
        assert_eq!(["2", "1.5", "0", "0m", "x", ".", "-1"].map(milli_cpus)[..3], [Some(2000), Some(1500), None]);
        assert_eq!(["150%", "20 %", "0.5%", "150", "%"].map(percent), [Some(1500), Some(200), Some(5), None, None]);
        assert_eq!(cpus_to_quota(1500, Duration::from_millis(100)), Duration::from_millis(150));
        assert_eq!(cpus_to_quota(1, Duration::from_millis(100)), Duration::from_millis(1));
    }

    /// Pairs computed by container runtimes.
    #[test]
    fn shares_convert_as_runtimes_convert_them() {
        for (milli, shares, linear, quadratic) in [
            (10, 10, 1, 4),
            (100, 102, 4, 17),
            (250, 256, 10, 35),
            (500, 512, 20, 59),
            (2000, 2048, 79, 174),
            (4000, 4096, 157, 303),
            (16_000, 16_384, 625, 942),
        ] {
            assert_eq!(shares_of_milli(milli), shares);
            assert_eq!(shares_to_weight(shares, Conversion::Linear), linear, "{shares}");
            assert_eq!(shares_to_weight(shares, Conversion::Quadratic), quadratic, "{shares}");
        }
        assert_eq!(shares_to_weight(1024, Conversion::Linear), 39);
        assert_eq!(shares_to_weight(1024, Conversion::Quadratic), 100);
        assert_eq!([2, 262_144].map(|shares| shares_to_weight(shares, Conversion::Quadratic)), [1, 10_000]);
    }
}

//! The kernel's own threads of a profile: those of this host's trace, or the built-in ones of an
//! idle machine.

use zerolag_linux::calibrate::Kind;
use zerolag_model::Duration;
use zerolag_sim::costs::KernelThread;

/// How long the host is watched.
pub(super) const WATCHED: std::time::Duration = std::time::Duration::from_secs(20);

/// A kind that ran less often has no distribution.
const RUNS_AT_LEAST: usize = 3;

/// Returns the threads of a host with so many CPUs.
pub(super) fn of(kinds: &[Kind], nr_cpus: usize) -> Vec<KernelThread> {
    let watched = Duration::from_nanos(u64::try_from(WATCHED.as_nanos()).unwrap_or(u64::MAX));
    let enough = kinds.iter().filter(|kind| kind.runs.len() >= RUNS_AT_LEAST);
    let thread = |kind: &Kind| {
        let cpus = if kind.per_cpu { nr_cpus as u64 } else { 1 };
        // The trace counts microseconds: a run can be of no length in it.
        let at = |permille| kind.quantile(permille).max(Duration::from_micros(1));
        let per_round = watched * cpus / kind.runs.len() as u64;
        KernelThread {
            name: kind.name.clone(),
            per_cpu: kind.per_cpu,
            every: per_round.saturating_sub(at(500)).max(Duration::from_micros(1)),
            median: at(500),
            p90: at(900),
            longest: at(1_000),
        }
    };
    enough.map(thread).collect()
}

/// Returns the rows of the profile, with their origin.
pub(super) fn rows(threads: &[KernelThread], is_recorded: bool) -> String {
    let origin = if is_recorded {
        format!("recorded: the kernel's own fair threads in {} s without a load", WATCHED.as_secs())
    } else {
        "as `--background idle`; `--events` records those of this host".to_owned()
    };
    let mut text = format!("\n# {origin}; `--background none` runs none\nthreads = [\n");
    for KernelThread { name, per_cpu, every, median, p90, longest } in threads {
        let ns = |time: &Duration| format!("\"{}ns\"", time.as_nanos());
        // What JSON escapes, TOML escapes in the same way.
        let name = serde_json::Value::from(name.as_str());
        text.push_str(&format!(
            "    {{ name = {name}, per_cpu = {per_cpu}, every = {}, median = {}, p90 = {}, longest = {} }},\n",
            ns(every),
            ns(median),
            ns(p90),
            ns(longest)
        ));
    }
    text + "]\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerolag_sim::Costs;

    fn kind(name: &str, per_cpu: bool, runs: Vec<u64>) -> Kind {
        Kind { name: name.to_owned(), per_cpu, runs }
    }

    #[test]
    fn what_ran_becomes_a_rate_and_a_length() {
        let many: Vec<u64> = (1..=40).map(|us| us * 1_000).collect();
        let kinds =
            [kind("kworker/", true, many), kind("\"odd", false, vec![0; 4]), kind("rare", false, vec![9_000; 2])];
        let threads = of(&kinds, 2);
        let us = Duration::from_micros;
        let row = |name: &str, per_cpu, every, [median, p90, longest]: [u64; 3]| KernelThread {
            name: name.to_owned(),
            per_cpu,
            every,
            median: us(median),
            p90: us(p90),
            longest: us(longest),
        };
        assert_eq!(
            threads,
            [
                row("kworker/", true, Duration::from_secs(1) - us(21), [21, 37, 40]),
                row("\"odd", false, Duration::from_secs(5) - us(1), [1, 1, 1])
            ]
        );
        for (threads, is_recorded) in [(threads, true), (zerolag::background::idle(), false)] {
            let read = Costs::from_toml("x", &rows(&threads, is_recorded)).expect("a profile");
            assert_eq!(read.threads, threads);
        }
    }
}

//! How much of an interval lies in gaps: intervals from which events of a CPU are missing.

use std::collections::BTreeMap;
use zerolag_model::{CpuId, Duration, Instant};
use zerolag_trace::Meta;

/// The gaps of each CPU, in order of time and without overlaps.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gaps(BTreeMap<CpuId, Vec<(Instant, Instant)>>);

impl Gaps {
    pub(crate) fn new(meta: &Meta) -> Self {
        let mut cpus: BTreeMap<CpuId, Vec<(Instant, Instant)>> = BTreeMap::new();
        for gap in &meta.recorded.gaps {
            let gaps = cpus.entry(gap.cpu).or_default();
            match gaps.last_mut() {
                Some((_, until)) if *until >= gap.from => *until = (*until).max(gap.until),
                Some(_) | None => gaps.push((gap.from, gap.until)),
            }
        }
        Self(cpus)
    }

    /// Returns how long a CPU is within gaps in an interval. O(log n) and the gaps that overlap.
    pub(crate) fn within(&self, cpu: CpuId, from: Instant, to: Instant) -> Duration {
        if self.0.is_empty() {
            return Duration::ZERO;
        }
        let gaps = self.0.get(&cpu).map_or(&[][..], Vec::as_slice);
        let first = gaps.partition_point(|(_, until)| *until <= from);
        let overlaps = gaps[first..].iter().take_while(|(start, _)| *start < to);
        overlaps
            .fold(Duration::ZERO, |sum, (start, until)| sum.saturating_add((*until).min(to).since((*start).max(from))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerolag_trace::{Gap, Machine, Source};

    #[test]
    fn overlaps_are_counted_once_and_per_cpu() {
        let us = |us: u64| Instant::from_nanos(us * 1000);
        let mut meta = Meta::new(Source::Text, Machine::Cpus(2));
        for (cpu, from, until) in [(0, 10, 20), (0, 15, 30), (1, 12, 90), (0, 50, 60)] {
            meta.recorded.gaps.push(Gap { cpu: CpuId(cpu), from: us(from), until: us(until), events: 0 });
        }
        let gaps = Gaps::new(&meta);
        let within = |cpu, from, to| gaps.within(CpuId(cpu), us(from), us(to)).as_nanos() / 1000;
        assert_eq!(within(0, 0, 100), 30);
        assert_eq!(within(0, 25, 55), 10);
        assert_eq!(within(0, 30, 50), 0);
        assert_eq!(within(1, 0, 13), 1);
        assert_eq!(within(7, 0, 100), 0);
    }
}

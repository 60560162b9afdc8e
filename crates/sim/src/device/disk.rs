//! [`DiskQueue`]: a disk that serves a given number of requests at once, in order of arrival.
//!
//! When a request will be done is known when it is submitted: no event is needed until then.

use zerolag_model::{CpuId, Instant};
use zerolag_workload::program::Disk;
use zerolag_workload::random::Stream;

/// A disk at work: when each of its servers is free.
#[derive(Clone, Debug)]
pub(crate) struct DiskQueue {
    disk: Disk,
    free_at: Vec<Instant>,
    /// The latencies of its requests, in the order of their submission: as with a real disk, a
    /// schedule that submits in another order meets other latencies.
    latencies: Stream,
    name: Box<str>,
    seed: u64,
    /// The number of interrupts so far.
    interrupts: usize,
}

impl DiskQueue {
    pub(crate) fn new(disk: &Disk, name: &str, seed: u64) -> Self {
        let free_at = vec![Instant::ZERO; disk.depth as usize];
        let latencies = Stream::new(seed, name, 0, "disk");
        Self { disk: disk.clone(), free_at, latencies, name: name.into(), seed, interrupts: 0 }
    }

    /// Returns the CPU that the interrupt of a request arrives on which was sent by `sender` and is
    /// done at `at`. O(CPUs).
    pub(crate) fn irq_cpu(&mut self, at: Instant, sender: CpuId) -> CpuId {
        let Some(cpus) = &self.disk.irq_cpus else { return sender };
        let all = cpus.iter().count();
        let nth = if self.disk.irq_moves.is_zero() {
            self.interrupts = self.interrupts.wrapping_add(1);
            self.interrupts.wrapping_sub(1) % all
        } else {
            // Every place is drawn from a stream of its own, so that it does not depend on how many
            // requests there were before.
            let place = at.since(Instant::ZERO) / self.disk.irq_moves;
            let draw = Stream::new(self.seed, &self.name, place as u32, "irq").below(all as u64);
            usize::try_from(draw).unwrap_or(0)
        };
        cpus.iter().nth(nth).unwrap_or(sender)
    }

    /// Queues a request; returns when it is done. O(depth).
    pub(crate) fn submit(&mut self, now: Instant, bytes: u64) -> Instant {
        let service = self.disk.latency.sample(&mut self.latencies).saturating_add(self.disk.transfer(bytes));
        let first = self.free_at.iter_mut().min().expect("invariant: a disk has a server");
        *first = (*first).max(now).saturating_add(service);
        *first
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerolag_model::Duration;
    use zerolag_workload::random::Dist;

    #[test]
    fn a_disk_serves_as_many_at_once_as_it_is_deep() {
        let disk = Disk {
            depth: 2,
            latency: Dist::Constant(Duration::from_millis(1)),
            bandwidth: 1_000_000,
            irq_cpus: None,
            irq_moves: Duration::ZERO,
        };
        assert_eq!(disk.transfer(1_000), Duration::from_millis(1));
        let mut queue = DiskQueue::new(&disk, "sda", 1);
        let done: Vec<u64> = (0..4).map(|_| queue.submit(Instant::ZERO, 1_000).as_nanos() / 1_000_000).collect();
        assert_eq!(done, [2, 2, 4, 4]);
    }

    #[test]
    fn latencies_are_drawn_per_request_and_seed() {
        let latency = Dist::uniform(Duration::from_millis(1), Duration::from_millis(9)).expect("a distribution");
        let disk = Disk { depth: 1, latency, bandwidth: 0, irq_cpus: None, irq_moves: Duration::ZERO };
        let done = |name, seed| -> Vec<Instant> {
            let mut queue = DiskQueue::new(&disk, name, seed);
            (0..100).map(|_| queue.submit(Instant::ZERO, 4_096)).collect()
        };
        let times = done("sda", 1);
        let services = || times.windows(2).map(|pair| pair[1].since(pair[0]).as_nanos());
        assert!(services().all(|nanos| (1_000_000..=9_000_000).contains(&nanos)), "{times:?}");
        assert!(services().max() > services().min().map(|least| 2 * least), "{times:?}");
        assert!(times == done("sda", 1) && times != done("sda", 2) && times != done("sdb", 1));
    }
    #[test]
    fn its_interrupt_is_where_it_is_told_to_be() {
        let disk = |cpus: &str, irq_moves| {
            let irq_cpus = (!cpus.is_empty()).then(|| std::sync::Arc::new(cpus.parse().expect("CPUs")));
            Disk { depth: 1, latency: Dist::Constant(Duration::ZERO), bandwidth: 0, irq_cpus, irq_moves }
        };
        let at =
            |queue: &mut DiskQueue, secs: u64| queue.irq_cpu(Instant::ZERO + Duration::from_secs(secs), CpuId(9)).0;
        let queue = |cpus, moves| DiskQueue::new(&disk(cpus, moves), "sda", 1);
        assert_eq!(at(&mut queue("", Duration::ZERO), 1), 9, "its sender's");
        let mut fixed = queue("3", Duration::ZERO);
        assert_eq!([1, 2].map(|secs| at(&mut fixed, secs)), [3, 3]);
        let mut spread = queue("1,4,6", Duration::ZERO);
        assert_eq!([1, 1, 1, 1].map(|secs| at(&mut spread, secs)), [1, 4, 6, 1]);
        let mut moved = queue("0-7", Duration::from_secs(10));
        let places: Vec<u32> = (0..4_000).map(|secs| at(&mut moved, secs)).collect();
        assert!(places.chunks(10).all(|ten| ten.iter().all(|cpu| *cpu == ten[0])), "{places:?}");
        assert!((0..8).all(|cpu| places.contains(&cpu)), "{places:?}");
    }
}

//! [`DiskQueue`]: a disk that serves a given number of requests at once, in order of arrival.
//!
//! When a request will be done is known when it is submitted: no event is needed until then.

use zerolag_model::Instant;
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
}

impl DiskQueue {
    pub(crate) fn new(disk: &Disk, name: &str, seed: u64) -> Self {
        let free_at = vec![Instant::ZERO; disk.depth as usize];
        Self { disk: disk.clone(), free_at, latencies: Stream::new(seed, name, 0, "disk") }
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
        let disk = Disk { depth: 2, latency: Dist::Constant(Duration::from_millis(1)), bandwidth: 1_000_000 };
        assert_eq!(disk.transfer(1_000), Duration::from_millis(1));
        let mut queue = DiskQueue::new(&disk, "sda", 1);
        let done: Vec<u64> = (0..4).map(|_| queue.submit(Instant::ZERO, 1_000).as_nanos() / 1_000_000).collect();
        assert_eq!(done, [2, 2, 4, 4]);
    }

    #[test]
    fn latencies_are_drawn_per_request_and_seed() {
        let latency = Dist::uniform(Duration::from_millis(1), Duration::from_millis(9)).expect("a distribution");
        let disk = Disk { depth: 1, latency, bandwidth: 0 };
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
}

//! [`DiskQueue`]: a disk that serves a given number of requests at once, in order of arrival.
//!
//! When a request will be done is known when it is submitted: no event is needed until then.

use zerolag_model::Instant;
use zerolag_workload::program::Disk;

/// A disk at work: when each of its servers is free.
#[derive(Debug)]
pub(crate) struct DiskQueue {
    disk: Disk,
    free_at: Vec<Instant>,
}

impl DiskQueue {
    pub(crate) fn new(disk: Disk) -> Self {
        Self { disk, free_at: vec![Instant::ZERO; disk.depth as usize] }
    }

    /// Queues a request; returns when it is done. O(depth).
    pub(crate) fn submit(&mut self, now: Instant, bytes: u64) -> Instant {
        let first = self.free_at.iter_mut().min().expect("invariant: a disk has a server");
        *first = (*first).max(now).saturating_add(self.disk.service(bytes));
        *first
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerolag_model::Duration;

    #[test]
    fn a_disk_serves_as_many_at_once_as_it_is_deep() {
        let disk = Disk { depth: 2, latency: Duration::from_millis(1), bandwidth: 1_000_000 };
        assert_eq!(disk.service(1_000), Duration::from_millis(2));
        let mut queue = DiskQueue::new(disk);
        let done: Vec<u64> = (0..4).map(|_| queue.submit(Instant::ZERO, 1_000).as_nanos() / 1_000_000).collect();
        assert_eq!(done, [2, 2, 4, 4]);
    }
}

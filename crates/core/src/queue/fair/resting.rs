//! [`Resting`]: the order in which the queues of groups without entities on a CPU began to rest.
//!
//! The queue that has rested longest is freed when too many rest. Which one that is matters only
//! then, but a queue begins and ends a rest with nearly every wakeup of a task that is alone in its
//! group. A list from which a queue is removed where it is would touch a part of the list, or its
//! neighbours, at each of these.
//!
//! So a rest has a number, and the end of a rest only forgets that number in the queue. The entries
//! of rests that have ended are dropped when they are the oldest, or when they are about three
//! quarters of all entries. Every operation is O(1), amortised: dropping looks at all entries, once
//! in three times as many rests as there are queues at rest.
//!
//! How many queues rest is a question of memory: the kernel has the queues of all groups on all
//! CPUs, and frees none while its group exists. A queue that is freed loses its lag and its
//! averages and gives the rest of its quota back. Freeing it and making it anew costs instructions
//! and cache lines besides. So as many rest as fit into [`BYTES`], within [`LIMITS`].

use crate::entity::fair::QueueIx;
use crate::queue::fair::queue::Queue;
use crate::words::config::Config;
use alloc::collections::VecDeque;

/// The bounds of the number of queues that can rest on a CPU: on a machine of many CPUs, and on one
/// of few.
const LIMITS: (usize, usize) = (64, 1024);

/// The size of the resting queues of all CPUs, unless so few would be fewer than the lower bound.
const BYTES: usize = 64 << 20;

#[derive(Clone, Debug)]
pub(crate) struct Resting {
    /// Queues and the numbers of their rests, oldest first. A rest has ended if its queue has
    /// another number, or none.
    order: VecDeque<(QueueIx, u32)>,
    /// The number of queues at rest.
    len: usize,
    /// The largest number of them.
    most: usize,
    /// The number of the next rest. It wraps: no entry lasts for 2^32 rests.
    next: u32,
}

/// Returns the number of queues on each CPU that have [`BYTES`] together.
fn fitting(config: &Config) -> usize {
    BYTES / size_of::<Queue>() / config.topology.nr_cpus()
}

/// Returns the number of entries at which those of ended rests are dropped.
const fn most_entries(resting: usize) -> usize {
    4 * resting + LIMITS.0
}

impl Resting {
    pub(crate) fn new(config: &Config) -> Self {
        let most = fitting(config).clamp(LIMITS.0, LIMITS.1);
        let entries = match config.group_reserve {
            0 => 0,
            groups => most_entries(groups.min(most)),
        };
        Self { order: VecDeque::with_capacity(entries), len: 0, most, next: 0 }
    }

    /// Returns the number of queues of groups for which a CPU has room from the start: for all that
    /// can rest, and an eighth more, which do not. Room that is not used is not touched. A growing
    /// list would be copied, and leave its old place unused.
    pub(crate) fn room(config: &Config) -> usize {
        let rest = fitting(config).min(LIMITS.1);
        config.group_reserve.min(rest + rest / 8)
    }

    pub(crate) const fn is_full(&self) -> bool {
        self.len == self.most
    }

    /// Begins the rest of a queue.
    pub(crate) fn begin(&mut self, queues: &mut [Queue], q: QueueIx) {
        if self.order.len() >= most_entries(self.len) {
            self.order.retain(|(q, number)| queues[q.index()].rests == Some(*number));
        }
        self.order.push_back((q, self.next));
        queues[q.index()].rests = Some(self.next);
        self.next = self.next.wrapping_add(1);
        self.len += 1;
    }

    /// Ends the rest of a queue, if it rests.
    #[inline]
    pub(crate) fn end(&mut self, queue: &mut Queue) {
        self.len -= usize::from(queue.rests.take().is_some());
    }

    /// Ends the rest of the queue that has rested longest, and returns it.
    pub(crate) fn end_oldest(&mut self, queues: &mut [Queue]) -> Option<QueueIx> {
        while let Some((q, number)) = self.order.pop_front() {
            let queue = &mut queues[q.index()];
            if queue.rests == Some(number) {
                self.end(queue);
                return Some(q);
            }
        }
        None
    }

    /// Checks that the queues at rest are those of the entries that have not ended, oldest first.
    pub(crate) fn check(&self, queues: &[Queue]) {
        let entries = self.order.iter().filter(|(q, number)| queues[q.index()].rests == Some(*number));
        let ages: alloc::vec::Vec<u32> = entries.map(|(_, number)| self.next.wrapping_sub(*number)).collect();
        assert!(ages.is_sorted_by(|older, newer| older > newer), "the queue that has rested longest comes first");
        assert_eq!(ages.len(), queues.iter().filter(|queue| queue.rests.is_some()).count(), "a rest has one entry");
        assert_eq!(ages.len(), self.len, "queues at rest are counted");
        assert!(self.len <= self.most, "no more queues rest than are kept");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entity::fair::VruntimeFrame;
    use alloc::vec::Vec;
    use zerolag_model::settings::Settings;
    use zerolag_model::{GroupId, Topology};

    fn on(cpus: u32) -> Resting {
        let config = Config::new(Topology::flat(cpus).expect("CPUs"), Settings::default());
        Resting::new(&config.with_group_reserve(10_000))
    }

    fn queues(nr: u32) -> Vec<Queue> {
        (0..nr).map(|id| Queue::new(GroupId(id), 1, None, VruntimeFrame { cpu: 0, life: id })).collect()
    }

    #[test]
    fn more_queues_rest_on_each_of_fewer_cpus() {
        let most = [1, 64, 256, 1024, 2048, 4096].map(|cpus| on(cpus).most);
        assert_eq!(most, [1024, 1024, 512, 128, 64, 64]);
    }

    /// Queues begin and end rests in an order without a pattern. A list from which ended rests are
    /// removed at once names the same queues.
    #[test]
    fn the_queue_that_has_rested_longest_is_the_oldest_of_a_plain_list() {
        let (mut resting, mut queues, mut list) = (on(4096), queues(140), Vec::new());
        let (mut draw, mut longest, mut freed) = (1_u32, 0, 0);
        for _ in 0..20_000 {
            draw = draw.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let q = QueueIx((draw >> 8) % 140);
            if let Some(place) = list.iter().position(|listed| *listed == q) {
                list.remove(place);
                resting.end(&mut queues[q.index()]);
            } else {
                if resting.is_full() {
                    assert_eq!(resting.end_oldest(&mut queues), Some(list.remove(0)));
                    freed += 1;
                }
                list.push(q);
                resting.begin(&mut queues, q);
            }
            resting.check(&queues);
            longest = longest.max(resting.order.len());
        }
        assert!(freed > 100, "{freed} were freed");
        assert!(longest > 2 * LIMITS.0 && longest <= most_entries(LIMITS.0), "{longest} entries");
    }
}

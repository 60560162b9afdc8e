//! [`CacheLines`]: the cache lines that all CPUs write, and when each is free.
//!
//! Most words that CPUs share are read much more often than written, and cost the transfer of a
//! line. Two kinds are written by any CPU at any time: the state of a root domain's IPI, and the
//! word by which others claim to pull from a CPU. Accesses to these queue, in order of arrival.

use zerolag_model::{CpuId, Duration, Instant};

/// When each of the lines is free. A kind that is never accessed has no entries.
#[derive(Clone, Debug, Default)]
pub(super) struct CacheLines {
    /// The state of each root domain's IPI.
    rto: Vec<Instant>,
    /// The claims of each CPU.
    claims: Vec<Instant>,
}

impl CacheLines {
    /// Queues accesses to the IPI state of a root domain. Returns how long they take with the wait;
    /// `None` if they are the first.
    #[inline]
    pub(super) fn access_rto(&mut self, domain: usize, at: Instant, takes: Duration) -> Option<Duration> {
        self.rto.get_mut(domain).map(|free_at| access(free_at, at, takes))
    }

    /// The same for the first accesses.
    #[cold]
    pub(super) fn access_new_rto(&mut self, domain: usize, at: Instant, takes: Duration) -> Duration {
        self.rto.resize(domain + 1, Instant::ZERO);
        access(&mut self.rto[domain], at, takes)
    }

    /// Queues accesses to the claims of a CPU, of so many.
    #[inline]
    pub(super) fn access_claims(&mut self, of: CpuId, cpus: usize, at: Instant, takes: Duration) -> Duration {
        if self.claims.is_empty() {
            self.claims.resize(cpus, Instant::ZERO);
        }
        access(&mut self.claims[of.index()], at, takes)
    }
}

/// Queues an access to a line that is free from `free_at` on; returns its time with the wait.
#[inline]
fn access(free_at: &mut Instant, at: Instant, takes: Duration) -> Duration {
    let done = (*free_at).max(at) + takes;
    *free_at = done;
    done.since(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accesses_to_a_line_queue_and_those_to_others_do_not_wait() {
        let mut lines = CacheLines::default();
        let (at, takes) = (|ns| Instant::from_nanos(ns), Duration::from_nanos(30));
        assert_eq!(lines.access_rto(1, at(100), takes), None, "the first");
        assert_eq!(lines.access_new_rto(1, at(100), takes), takes);
        assert_eq!(lines.access_rto(1, at(110), takes), Some(Duration::from_nanos(50)));
        assert_eq!(lines.access_rto(0, at(110), takes), Some(takes));
        assert_eq!(lines.access_claims(CpuId(1), 2, at(110), takes), takes);
        assert_eq!(lines.access_claims(CpuId(1), 2, at(110), takes), takes * 2);
    }
}

//! The arrival of requests: [`ArrivalSource`], a source that never waits for the service (open
//! loop), and [`Schedule`], its times.
//!
//! A load generator that waits for answers hides overload: a slow service gets fewer requests. So a
//! source here is an open loop, and it draws from a stream of its own. Nothing else in a scenario
//! moves its arrivals: not the number of workers, not a limit, not the kernel. Times count from the
//! start of the run.

use crate::random::{Dist, Stream};
use crate::resource::ResourceId;
use std::sync::Arc;
use zerolag_model::{CpuMask, Duration};

/// A source that sends requests to a queue.
#[derive(Clone, Debug, PartialEq)]
pub struct ArrivalSource {
    /// Its name, which is also the name of its random stream.
    pub name: Arc<str>,
    /// The queue of its requests.
    pub queue: ResourceId,
    /// The distances between requests.
    pub arrivals: Arrivals,
    /// How many times as often requests arrive, in thousandths: distances and times are divided by
    /// it. At least 1.
    pub load_milli: u32,
    /// Time from the start of the run to which the first distance is added.
    pub delay: Duration,
    /// No request arrives from this time on; `None` is no end.
    pub until: Option<Duration>,
    /// The most requests; `None` is no limit.
    pub requests: Option<u64>,
    /// The CPUs whose interrupts deliver the requests, in turn; `None` is all CPUs of the machine.
    pub cpus: Option<Arc<CpuMask>>,
}

/// The distances between requests.
#[derive(Clone, Debug, PartialEq)]
pub enum Arrivals {
    /// Time from each request to the next: a constant is a fixed rate, an exponential distribution
    /// is Poisson.
    Every(Dist),
    /// Bursts of several requests.
    Bursts {
        /// Requests per burst.
        size: u32,
        /// From the start of one burst to the start of the next.
        every: Dist,
        /// Time between the requests of one burst.
        apart: Dist,
    },
    /// At given times after `delay`, in order.
    Times(Arc<[Duration]>),
}

impl ArrivalSource {
    /// Returns whether it ends by itself.
    #[must_use]
    pub const fn is_finite(&self) -> bool {
        self.until.is_some() || self.requests.is_some() || matches!(self.arrivals, Arrivals::Times(_))
    }

    /// Returns its times in a run of this seed.
    #[must_use]
    pub fn schedule(&self, seed: u64) -> Schedule {
        Schedule {
            source: self.clone(),
            stream: Stream::new(seed, &self.name, 0, "arrivals"),
            count: 0,
            last: self.delay,
            burst: self.delay,
        }
    }

    /// Returns a distance under the load of this source, rounded down.
    fn scaled(&self, distance: Duration) -> Duration {
        if self.load_milli == 1000 {
            return distance;
        }
        let nanos = u128::from(distance.as_nanos()) * 1000 / u128::from(self.load_milli.max(1));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Returns the stream from which the demand of a request is drawn: its own, whichever worker
    /// handles it.
    #[must_use]
    pub fn request_stream(&self, seed: u64, request: u64) -> Stream {
        // A run has fewer than 2^32 requests.
        Stream::new(seed, &self.name, request as u32, "request")
            .at_place(Stream::first_place(seed).wrapping_add(request))
    }
}

/// Returns the stream from which the demand of a task's call is drawn. `key` is a draw of that
/// task, or of the request that it handles. So two runs of one seed compare the same calls,
/// whatever the number of workers and their order. In a sequence the call has the place of its
/// number in the queue, from the place of the run's seed.
#[must_use]
pub fn call_stream(service: &str, key: u64, (seed, request): (u64, u64)) -> Stream {
    Stream::new(key, service, 0, "call").at_place(Stream::first_place(seed).wrapping_add(request))
}

/// The times of a source, in order; each costs at most two draws.
#[derive(Clone, Debug)]
pub struct Schedule {
    source: ArrivalSource,
    stream: Stream,
    count: u64,
    last: Duration,
    /// Start of the current burst.
    burst: Duration,
}

impl Iterator for Schedule {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        if self.source.requests.is_some_and(|most| self.count >= most) {
            return None;
        }
        let at = match &self.source.arrivals {
            Arrivals::Every(dist) => self.last.saturating_add(self.source.scaled(dist.sample(&mut self.stream))),
            Arrivals::Bursts { size, every, apart } => {
                if self.count.is_multiple_of(u64::from((*size).max(1))) {
                    self.burst = self.burst.saturating_add(self.source.scaled(every.sample(&mut self.stream)));
                    // A burst that lasts longer than the distance to the next one delays it.
                    self.burst.max(self.last)
                } else {
                    self.last.saturating_add(self.source.scaled(apart.sample(&mut self.stream)))
                }
            }
            Arrivals::Times(times) => {
                let place = usize::try_from(self.count).unwrap_or(usize::MAX);
                self.source.delay.saturating_add(self.source.scaled(*times.get(place)?))
            }
        };
        if self.source.until.is_some_and(|until| at >= until) {
            return None;
        }
        self.count += 1;
        self.last = at;
        Some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Bounds;

    fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    fn source(arrivals: Arrivals) -> ArrivalSource {
        let (name, queue) = ("web".into(), ResourceId(0));
        ArrivalSource {
            name,
            queue,
            arrivals,
            load_milli: 1000,
            delay: ms(10),
            until: None,
            requests: None,
            cpus: None,
        }
    }

    fn times(source: &ArrivalSource, count: usize) -> Vec<u64> {
        source.schedule(1).take(count).map(|at| at.as_nanos() / 1_000_000).collect()
    }

    #[test]
    fn a_rate_is_fixed_and_ends_where_it_is_told_to() {
        let fixed = source(Arrivals::Every(ms(5).into()));
        assert_eq!(times(&fixed, 3), [15, 20, 25]);
        assert_eq!(times(&ArrivalSource { until: Some(ms(25)), ..fixed.clone() }, 9), [15, 20]);
        assert_eq!(times(&ArrivalSource { requests: Some(1), ..fixed }, 9), [15]);
    }

    #[test]
    fn a_load_brings_requests_more_often() {
        let at_load = |load_milli, arrivals| ArrivalSource { load_milli, ..source(arrivals) };
        assert_eq!(times(&at_load(2000, Arrivals::Every(ms(6).into())), 3), [13, 16, 19]);
        assert_eq!(times(&at_load(500, Arrivals::Every(ms(6).into())), 3), [22, 34, 46]);
        assert_eq!(times(&at_load(1500, Arrivals::Times([ms(3), ms(6)].into())), 3), [12, 14]);
        let bursts = Arrivals::Bursts { size: 2, every: ms(10).into(), apart: ms(2).into() };
        assert_eq!(times(&at_load(2000, bursts), 4), [15, 16, 20, 21]);
    }

    #[test]
    fn bursts_come_together_and_never_overtake() {
        let bursts = |apart| source(Arrivals::Bursts { size: 3, every: ms(10).into(), apart: ms(apart).into() });
        assert_eq!(times(&bursts(0), 7), [20, 20, 20, 30, 30, 30, 40]);
        assert_eq!(times(&bursts(1), 4), [20, 21, 22, 30]);
        assert_eq!(times(&bursts(7), 7), [20, 27, 34, 34, 41, 48, 48]);
    }

    #[test]
    fn given_times_are_kept() {
        let given = source(Arrivals::Times([ms(0), ms(0), ms(4)].into()));
        assert_eq!(times(&given, 9), [10, 10, 14]);
        assert!(given.is_finite());
    }

    #[test]
    fn poisson_arrivals_have_their_rate_and_variance() {
        let poisson = source(Arrivals::Every(Dist::exponential(ms(5), Bounds::default()).expect("a distribution")));
        let at: Vec<f64> = poisson.schedule(7).take(20_000).map(|at| at.as_nanos() as f64 / 1e6).collect();
        let gaps: Vec<f64> = at.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((mean - 5.0).abs() < 0.1, "{mean}");
        assert!((variance.sqrt() - 5.0).abs() < 0.15, "{variance}");
        assert_ne!(times(&poisson, 5), poisson.schedule(8).take(5).map(|at| at.as_nanos()).collect::<Vec<_>>());
    }
}

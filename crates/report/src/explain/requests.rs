//! [`Requests`]: what the time of a service's requests goes into.
//!
//! A request waits in the queue until a worker takes it, and is served until the worker is done.
//! What its worker did meanwhile says why it took so long: before the start it computed for other
//! requests, or was kept itself; from the start on it computed for this one, or was kept. So the
//! parts of a request are the states of its worker from the request's due time to its end, and add
//! up to its latency.
//!
//! Which tasks are workers is known when they take their first request. Of all others only the last
//! state is kept, of workers those since the oldest request that is under way. Where a worker was
//! not known yet, or the states are more than [`STATES_MAX`], the part is not known.
//!
//! Complexity: O(1) per change of a worker's state, O(states since its due time) per request.

use super::cause::Kind;
use super::summary::{Counting, Parts, Summary};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use zerolag_model::event::RequestStep;
use zerolag_model::{Duration, Instant, TaskId};

/// The most states that are kept of a worker.
const STATES_MAX: usize = 65_536;

/// What a worker does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Doing {
    /// It runs.
    Computes,
    /// It sleeps, or waits for something that is none of the causes of waits.
    Sleeps,
    /// It cannot run; the clause says why, and its kind.
    Waits(Kind, Arc<str>),
}

/// The requests of a service: their time by cause, of all, of the slowest, and of those that miss
/// the goal on them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RequestTime {
    /// The service's name.
    pub service: String,
    /// The sums. A wait there is a request here.
    pub summary: Summary,
}

/// Follows requests and their workers.
#[derive(Debug, Default)]
pub(super) struct Requests {
    queues: BTreeMap<u32, Queue>,
    workers: BTreeSet<TaskId>,
    states: BTreeMap<TaskId, VecDeque<(Instant, Doing)>>,
}

#[derive(Debug, Default)]
struct Queue {
    name: Arc<str>,
    open: BTreeMap<u64, Open>,
    counting: Counting,
    /// The latency above which a request misses a goal.
    goal: Option<Duration>,
}

/// A request that is under way.
#[derive(Clone, Copy, Debug)]
struct Open {
    due: Instant,
    taken: Option<(TaskId, Instant)>,
}

impl Requests {
    /// A queue gets its name, and perhaps a goal for its requests.
    pub(super) fn name(&mut self, queue: u32, name: &Arc<str>, goal: Option<(String, Duration)>) {
        let of = self.queues.entry(queue).or_default();
        of.name = Arc::clone(name);
        if let Some((text, bound)) = goal {
            of.counting = Counting::with_goal(text);
            of.goal = Some(bound);
        }
    }

    /// Returns whether the trace has requests: if not, states need not be told.
    pub(super) fn is_used(&self) -> bool {
        !self.queues.is_empty()
    }

    /// A task does something else from now on.
    pub(super) fn enter(&mut self, task: TaskId, at: Instant, doing: Doing) {
        let states = self.states.entry(task).or_default();
        if !self.workers.contains(&task) {
            states.clear();
        } else if states.len() == STATES_MAX {
            states.pop_front();
        }
        states.push_back((at, doing));
    }

    /// Follows a step of a request.
    pub(super) fn step(&mut self, queue: u32, request: u64, step: RequestStep, at: Instant) {
        match step {
            RequestStep::Arrive { due } => {
                self.queues.entry(queue).or_default().open.insert(request, Open { due, taken: None });
            }
            RequestStep::Start { task } => {
                self.workers.insert(task);
                if let Some(open) = self.queues.entry(queue).or_default().open.get_mut(&request) {
                    open.taken = Some((task, at));
                }
            }
            RequestStep::End { .. } => {
                self.end(queue, request, at);
                self.forget();
            }
            RequestStep::Drop => {
                self.queues.entry(queue).or_default().open.remove(&request);
            }
        }
    }

    /// Counts a request that ends, or is under way at the end of the trace.
    fn end(&mut self, queue: u32, request: u64, at: Instant) {
        let Some(of) = self.queues.get_mut(&queue) else { return };
        let Some(open) = of.open.remove(&request) else { return };
        let states = open.taken.and_then(|(worker, _)| self.states.get(&worker));
        let parts = parts(open, at, states);
        let latency = at.since(open.due);
        let misses = of.goal.is_some_and(|goal| latency > goal);
        of.counting.count(of.name.to_string(), open.due, latency, &parts, misses);
    }

    /// Forgets the states from before the oldest request that is under way.
    fn forget(&mut self) {
        // Requests are numbered in the order of arrival.
        let oldest = self.queues.values().filter_map(|queue| Some(queue.open.first_key_value()?.1.due)).min();
        for worker in &self.workers {
            let Some(states) = self.states.get_mut(worker) else { continue };
            while states.len() > 1 && oldest.is_none_or(|oldest| states[1].0 <= oldest) {
                states.pop_front();
            }
        }
    }

    /// Ends the trace: what is under way counts with its age.
    pub(super) fn finish(mut self, end: Instant) -> Vec<RequestTime> {
        let open: Vec<(u32, u64)> =
            self.queues.iter().flat_map(|(queue, of)| of.open.keys().map(|request| (*queue, *request))).collect();
        for (queue, request) in open {
            self.end(queue, request, end);
        }
        let used = self
            .queues
            .into_values()
            .map(|of| RequestTime { service: of.name.to_string(), summary: of.counting.finish() });
        used.filter(|of| of.summary.count > 0).collect()
    }
}

/// Returns the parts of a request by what its worker did.
fn parts(open: Open, end: Instant, states: Option<&VecDeque<(Instant, Doing)>>) -> Parts {
    let mut parts = Parts::new();
    let mut count = |says: &str, kind, time| parts.entry(says.to_owned()).or_default().add(kind, None, time);
    let Some((_, start)) = open.taken else {
        count("waits in the queue until the end", Kind::Queued, end.since(open.due));
        return parts;
    };
    let unknown = VecDeque::new();
    let states = states.unwrap_or(&unknown);
    let mut add = |from: Instant, to: Instant, says: &dyn Fn(bool) -> (Kind, String)| {
        for (from, to, is_queued) in [(from, to.min(start), true), (from.max(start), to, false)] {
            let time = to.since(from);
            if from < to && !time.is_zero() {
                let (kind, says) = says(is_queued);
                count(&says, kind, time);
            }
        }
    };
    let first = states.front().map_or(end, |(at, _)| *at);
    add(open.due, first.min(end), &|is_queued| match is_queued {
        true => (Kind::Queued, "waits in the queue, its worker is not known yet".to_owned()),
        false => (Kind::Other, "is served".to_owned()),
    });
    let ends = states.iter().skip(1).map(|(at, _)| *at).chain([end]);
    for ((from, doing), to) in states.iter().zip(ends) {
        add((*from).max(open.due), to.min(end), &|is_queued| {
            let (kind, says) = match (doing, is_queued) {
                (Doing::Computes, true) => (Kind::Queued, "waits in the queue while its worker computes for others"),
                (Doing::Computes, false) => (Kind::Other, "computes"),
                (Doing::Sleeps, true) => (Kind::Queued, "waits in the queue while its worker sleeps"),
                (Doing::Sleeps, false) => (Kind::Other, "sleeps, or waits for other services"),
                (Doing::Waits(kind, why), true) => {
                    return (*kind, format!("waits in the queue while its worker {why}"));
                }
                (Doing::Waits(kind, why), false) => (*kind, &**why),
            };
            (kind, says.to_owned())
        });
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(us: u64) -> Instant {
        Instant::from_nanos(us * 1000)
    }

    #[test]
    fn the_states_of_the_worker_are_the_parts_of_a_request() {
        let mut requests = Requests::default();
        let worker = TaskId(3);
        let goal = Some(("web.request_latency.max <= 50us".to_owned(), Duration::from_micros(50)));
        requests.name(0, &"web".into(), goal);
        // The first request: from 0 to 20 us, the worker was woken at 2 and runs from 5 on.
        requests.step(0, 0, RequestStep::Arrive { due: us(0) }, us(0));
        requests.enter(worker, us(2), Doing::Waits(Kind::Queued, "is queued".into()));
        requests.enter(worker, us(5), Doing::Computes);
        requests.step(0, 0, RequestStep::Start { task: worker }, us(5));
        // The second comes meanwhile, is taken at 20 us, throttled from 30 to 90 us, done at 100.
        requests.step(0, 1, RequestStep::Arrive { due: us(10) }, us(10));
        requests.step(0, 0, RequestStep::End { task: worker }, us(20));
        requests.step(0, 1, RequestStep::Start { task: worker }, us(20));
        requests.enter(worker, us(30), Doing::Waits(Kind::Throttled, "is throttled in /web".into()));
        requests.enter(worker, us(90), Doing::Computes);
        requests.step(0, 1, RequestStep::End { task: worker }, us(100));
        // The third is not taken.
        requests.step(0, 2, RequestStep::Arrive { due: us(110) }, us(110));
        let found = requests.finish(us(120));
        let [web] = &found[..] else { panic!("one service: {found:?}") };
        assert_eq!((&*web.service, web.summary.count), ("web", 3));
        let mut times: Vec<_> =
            web.summary.causes.iter().map(|cause| (&*cause.says, cause.total.as_nanos() / 1000)).collect();
        times.sort_unstable();
        let expected = [
            ("computes", 35),
            ("is throttled in /web", 60),
            ("waits in the queue until the end", 10),
            ("waits in the queue while its worker computes for others", 10),
            // The worker was not known before it took the first.
            ("waits in the queue, its worker is not known yet", 5),
        ];
        assert_eq!(times, expected);
        assert_eq!(web.summary.total, Duration::from_micros(20 + 90 + 10), "they add up to the latencies");
        let missed = web.summary.missed.as_ref().expect("there is a goal");
        assert_eq!((missed.count, missed.total), (1, Duration::from_micros(90)));
        let throttled = web.summary.causes.iter().find(|cause| cause.says.contains("throttled")).expect("a cause");
        assert_eq!((throttled.missed, throttled.kind), (Duration::from_micros(60), Kind::Throttled));
    }
}

//! [`Watch`]: reads the experiment's figures from the records of a run.

use super::{Finding, PROBE, Run, SPARE};
use zerolag_model::event::IpiReason;
use zerolag_model::{CpuId, Duration, Instant, Mark, PrevState, Prio, Record, RtPriority, TaskId, TraceEvent};
use zerolag_sim::{Outcome, Sink};

/// The role of a task in the experiment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Role {
    Probe,
    Spare { waits: bool },
    Other,
}

/// Collects the figures of a run.
#[derive(Debug)]
pub(super) struct Watch {
    roles: Vec<Role>,
    lock_waits: Vec<Duration>,
    /// Requests to push that each CPU got.
    requests: Vec<u64>,
    latency: Duration,
    /// Whether each CPU runs a task that is less urgent than the spare tasks, and the number of
    /// such CPUs.
    is_low: Vec<bool>,
    low: usize,
    waiting: usize,
    /// Since when a spare task waits and a CPU runs a less urgent one.
    disorder_since: Option<Instant>,
    disorder: Duration,
}

impl Watch {
    pub(super) fn new(cpus: u32) -> Self {
        let cpus = cpus as usize;
        Self {
            roles: Vec::new(),
            lock_waits: Vec::new(),
            requests: vec![0; cpus],
            latency: Duration::ZERO,
            is_low: vec![true; cpus],
            low: cpus,
            waiting: 0,
            disorder_since: None,
            disorder: Duration::ZERO,
        }
    }

    fn role(&mut self, task: TaskId) -> &mut Role {
        if self.roles.len() <= task.index() {
            self.roles.resize(task.index() + 1, Role::Other);
        }
        &mut self.roles[task.index()]
    }

    fn set_waits(&mut self, task: TaskId, now_waits: bool) {
        if let Role::Spare { waits } = self.role(task) {
            let before = core::mem::replace(waits, now_waits);
            self.waiting = self.waiting + usize::from(now_waits) - usize::from(before);
        }
    }

    fn switched(&mut self, cpu: CpuId, next: Option<(TaskId, Prio)>) {
        let spare = Prio::from_rt(RtPriority::new(50).expect("invariant: 1..=99"));
        let now_low = next.is_none_or(|(_, prio)| spare.beats(prio));
        let before = core::mem::replace(&mut self.is_low[cpu.index()], now_low);
        self.low = self.low + usize::from(now_low) - usize::from(before);
    }

    /// Checks whether the order is broken now.
    fn look(&mut self, at: Instant) {
        match (self.waiting > 0 && self.low > 0, self.disorder_since) {
            (true, None) => self.disorder_since = Some(at),
            (false, Some(since)) => {
                self.disorder = self.disorder.max(at.since(since));
                self.disorder_since = None;
            }
            (true, Some(_)) | (false, None) => {}
        }
    }

    pub(super) fn finish(mut self, run: Run, outcome: &Outcome, locked_up: Option<CpuId>) -> Finding {
        if let Some(since) = self.disorder_since {
            self.disorder = self.disorder.max(outcome.end.since(since));
        }
        self.lock_waits.sort_unstable();
        let rank = |percent: usize| self.lock_waits.get((self.lock_waits.len() * percent).div_ceil(100).max(1) - 1);
        let lock_wait = [rank(100), rank(99)].map(|wait| wait.copied().unwrap_or(Duration::ZERO));
        Finding {
            run,
            elapsed: outcome.end.since(Instant::ZERO),
            lock_wait,
            lock_waits: self.lock_waits.len() as u64,
            requests: self.requests.iter().sum(),
            requests_of_one: self.requests.iter().copied().max().unwrap_or(0),
            stretch: outcome.stats.ipi_stretch,
            latency: self.latency,
            disorder: self.disorder,
            locked_up,
            events: outcome.stats.events + outcome.stats.ticks,
        }
    }
}

impl Sink for Watch {
    fn record(&mut self, record: &Record) {
        match &record.event {
            TraceEvent::TaskNew { task, name, .. } => {
                *self.role(*task) = if name.starts_with(PROBE) {
                    Role::Probe
                } else if name.starts_with(SPARE) {
                    Role::Spare { waits: false }
                } else {
                    Role::Other
                };
            }
            TraceEvent::LockAcquired { waited, .. } => self.lock_waits.push(*waited),
            TraceEvent::IpiSend { to, reason: IpiReason::RtPush } => self.requests[to.index()] += 1,
            TraceEvent::Mark { task, mark: Mark::TimerDue { due, .. } } if *self.role(*task) == Role::Probe => {
                self.latency = self.latency.max(record.at.since(*due));
            }
            TraceEvent::Wakeup { task, .. } => {
                self.set_waits(*task, true);
                self.look(record.at);
            }
            TraceEvent::Switch { prev, prev_state, next, next_prio } => {
                if let Some(prev) = prev {
                    self.set_waits(*prev, *prev_state == PrevState::Runnable);
                }
                if let Some(next) = next {
                    self.set_waits(*next, false);
                }
                self.switched(record.cpu, next.map(|next| (next, *next_prio)));
                self.look(record.at);
            }
            // Other events say nothing about locks, IPIs, latencies or order.
            _ => {}
        }
    }
}

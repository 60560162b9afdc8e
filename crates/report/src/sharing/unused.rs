//! [`Unused`]: the time that CPUs idle while tasks wait that are allowed there.
//!
//! One waiting task makes one CPU of ten idle ones unused, not ten. So the number of unused CPUs
//! is that of pairs of an idle CPU and a task that waits and is allowed there. Tasks with the
//! fewest CPUs choose first: where the sets of allowed CPUs are nested or disjoint, as cpusets
//! are, no other choice makes more pairs; otherwise it can make fewer, never more.
//!
//! The number is computed when time passes, and not at every change.

use std::sync::Arc;
use zerolag_model::{CpuId, CpuMask, Duration, Instant};

/// Where a waiting task is allowed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// On every CPU.
    Anywhere,
    /// On one.
    Only(CpuId),
    /// On some.
    Among(Arc<CpuMask>),
}

#[derive(Clone, Debug)]
pub(super) struct Unused {
    at: Instant,
    total: Duration,
    /// The number of unused CPUs, unless something has changed.
    count: Option<usize>,
    idle: CpuMask,
    nr_idle: usize,
    /// The number of waiting tasks that are allowed everywhere.
    anywhere: usize,
    /// The same of those with one CPU, by CPU.
    only: Vec<usize>,
    /// The number of idle CPUs among these.
    only_idle: usize,
    /// The others, in order of the number of CPUs.
    among: Vec<(Arc<CpuMask>, usize)>,
}

impl Unused {
    /// Starts with a machine that idles.
    pub(super) fn new(nr_cpus: usize, at: Instant) -> Self {
        Self {
            at,
            total: Duration::ZERO,
            count: Some(0),
            idle: CpuMask::first_n(nr_cpus),
            nr_idle: nr_cpus,
            anywhere: 0,
            only: vec![0; nr_cpus],
            only_idle: 0,
            among: Vec::new(),
        }
    }

    pub(super) const fn total(&self) -> Duration {
        self.total
    }

    /// Lets time pass.
    pub(super) fn advance(&mut self, at: Instant) {
        if at <= self.at {
            return;
        }
        let count = self.count.unwrap_or_else(|| self.pairs());
        self.count = Some(count);
        if count > 0 {
            self.total = self.total.saturating_add(at.since(self.at) * count as u64);
        }
        self.at = at;
    }

    pub(super) fn set_idle(&mut self, cpu: CpuId, idles: bool, at: Instant) {
        self.advance(at);
        // A damaged trace can name more CPUs than the machine has.
        if cpu.index() >= self.only.len() {
            return;
        }
        let is_new = if idles { self.idle.insert(cpu) } else { self.idle.remove(cpu) };
        if is_new {
            self.count = None;
            let has_task = usize::from(self.only[cpu.index()] > 0);
            (self.nr_idle, self.only_idle) = match idles {
                true => (self.nr_idle + 1, self.only_idle + has_task),
                false => (self.nr_idle - 1, self.only_idle - has_task),
            };
        }
    }

    /// A task begins, ends or goes on to wait elsewhere.
    pub(super) fn change(&mut self, from: Option<&Place>, to: Option<&Place>, at: Instant) {
        self.advance(at);
        self.count = None;
        match from {
            Some(Place::Anywhere) => self.anywhere -= 1,
            Some(Place::Only(cpu)) => {
                if let Some(count) = self.only.get_mut(cpu.index()) {
                    *count -= 1;
                    self.only_idle -= usize::from(*count == 0 && self.idle.contains(*cpu));
                }
            }
            Some(Place::Among(cpus)) => {
                if let Some(at) = self.among.iter().position(|(mask, _)| mask == cpus) {
                    self.among[at].1 -= 1;
                    if self.among[at].1 == 0 {
                        self.among.remove(at);
                    }
                }
            }
            None => {}
        }
        match to {
            Some(Place::Anywhere) => self.anywhere += 1,
            Some(Place::Only(cpu)) => {
                if let Some(count) = self.only.get_mut(cpu.index()) {
                    self.only_idle += usize::from(*count == 0 && self.idle.contains(*cpu));
                    *count += 1;
                }
            }
            Some(Place::Among(cpus)) => match self.among.iter_mut().find(|(mask, _)| mask == cpus) {
                Some((_, count)) => *count += 1,
                None => {
                    let size = cpus.count();
                    let behind = self.among.partition_point(|(mask, _)| mask.count() <= size);
                    self.among.insert(behind, (Arc::clone(cpus), 1));
                }
            },
            None => {}
        }
    }

    fn pairs(&self) -> usize {
        if self.nr_idle == 0 {
            return 0;
        }
        if self.among.is_empty() {
            return self.only_idle + self.anywhere.min(self.nr_idle - self.only_idle);
        }
        let mut left = self.idle.clone();
        let taken: Vec<CpuId> = left.iter().filter(|cpu| self.only[cpu.index()] > 0).collect();
        for cpu in &taken {
            left.remove(*cpu);
        }
        let mut pairs = taken.len();
        for (cpus, count) in &self.among {
            for _ in 0..*count {
                let Some(cpu) = left.first_and(cpus) else { break };
                left.remove(cpu);
                pairs += 1;
            }
        }
        pairs + self.anywhere.min(self.nr_idle - pairs)
    }
}

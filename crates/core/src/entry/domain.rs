//! Changes of root domains: a CPU leaves one and joins another. Part of [`Scheduler`].
//!
//! The CPUs of a root domain follow from the partitions (`cpuset.cpus.partition`). When the
//! partitions change, every CPU concerned calls [`join_domain`](Scheduler::join_domain) for itself,
//! under the lock of its own run queue. There is no moment at which all of them have moved, and
//! none is needed: real-time and deadline tasks move only between CPUs that are in one domain while
//! both are locked.
//!
//! * The CPU's entries in `span`, `cpupri`, `cpudl` and the overload masks move to the new domain.
//! * Its tasks stay on it.
//! * The bandwidth of its servers and of deadline tasks queued here is booked in the new domain,
//!   even if there is no room.
//! * The bandwidth of a sleeping deadline task stays in its domain. If that has no CPUs left, it
//!   moves when the task wakes.
//! * The old domain's IPI, if it is here or on its way here, continues in the old domain: it
//!   records its domain.
//! * A push or a pull in progress finds at its recheck that the two CPUs are in different domains.
//! * Borrowed and lent runtime (`RT_RUNTIME_SHARE`) is given back; throttled real-time tasks
//!   can then run again.
//!
//! Then the CPU looks for tasks that wait in the new domain, and for CPUs there for its own waiting
//! tasks.
//!
//! Sources: Linux v6.12 `kernel/sched/topology.c` (`rq_attach_root`), `rt.c` (`rq_offline_rt`,
//! `rq_online_rt`), `deadline.c` (`dl_add_task_root_domain`); commit 364f56653708 (v4.16), which
//! lets the IPI hold its root domain. differs: the kernel neither pulls nor pushes at this point,
//! so a task waits until the next event.

use crate::balance::dl_pull;
use crate::class::{dl, dl_server, rt};
use crate::entry::scheduler::Scheduler;
use crate::lifecycle;
use crate::rq::run_queue::{Phase, Rq};
use crate::shared::cpudl::DlLevel;
use crate::task::io::Io;
use crate::words::clock::Clock;
use crate::words::ids::CpusetId;
use crate::words::resched::Resched;
use crate::words::step::Step;
use core::fmt;
use lock_api::RawMutex;
use zerolag_model::{CpuId, TraceEvent};

/// The reason why a CPU cannot join a root domain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum DomainError {
    /// The cpuset is not a partition and cannot become one ([`Partition`](crate::Partition)).
    NoPartition(CpusetId),
    /// The CPU is not in that cpuset.
    NotInCpuset(CpuId, CpusetId),
}

impl fmt::Display for DomainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPartition(cpuset) => write!(f, "cpuset {} has no root domain", cpuset.0),
            Self::NotInCpuset(cpu, cpuset) => write!(f, "CPU {cpu} is not in cpuset {}", cpuset.0),
        }
    }
}

impl core::error::Error for DomainError {}

impl<L: RawMutex> Scheduler<L> {
    /// Moves a CPU to the root domain of a partition; cpuset 0 stands for the root domain of the
    /// CPUs in no partition. Not allowed during a switch. An isolated CPU does not move. O(tasks
    /// queued here + log CPUs).
    ///
    /// # Errors
    /// The cpuset cannot be a partition, or does not contain the CPU; nothing is changed then.
    pub fn join_domain(&self, rq: &mut Rq, now: Clock, partition: CpusetId, io: &mut Io) -> Result<Step, DomainError> {
        let cpu = rq.cpu();
        let to = self.config.domain_of(partition).ok_or(DomainError::NoPartition(partition))?;
        if !self.config.cpusets[usize::from(partition.0)].contains(cpu) {
            return Err(DomainError::NotInCpuset(cpu, partition));
        }
        assert!(rq.phase() == Phase::Running, "CPU {cpu} changes its root domain in a switch");
        let from = self.shared.domain_of(cpu);
        if from == to || self.config.isolates(cpu) {
            return Ok(Step::Done);
        }
        rq.set_clock(now);
        let cx = &mut self.cx(cpu, now, io);
        lifecycle::charge_current(rq, cx);
        rq.publish(cx);
        if rq.is_online() {
            rt::go_offline(rq, cx);
            dl::leave_overload(rq, cx);
            self.shared.domain(cpu).cpudl.set(cpu, DlLevel::Gone);
        }
        self.shared.set_domain(cpu, to);
        self.move_booking(dl_server::bandwidth_of_all(rq), Some(from), Some(to));
        for task in rq.tasks.iter_mut() {
            if let Some(had) = task.dl.get_mut().and_then(|dl| dl.reserved.as_mut()) {
                self.move_booking(had.bandwidth, Some(had.domain), Some(to));
                had.domain = to;
            }
        }
        if rq.is_online() {
            rt::come_online(rq, cx);
            dl::online_changed(rq, cx);
            self.shared.domain(cpu).cpudl.set(cpu, rq.dl_level());
        }
        cx.io.costs.inner_locks += 2; // one for the cpudl of each domain
        cx.io.event(now, cpu, || TraceEvent::RootDomain { domain: u32::from(to.0) });
        let waits = rq.dl.has_pushable() || rq.rt.has_pushable() && self.config.settings.rt_balance.is_active();
        if rq.is_online() && waits {
            rq.resched(cx, Resched::Now); // Tasks that the switch leaves waiting are pushed.
        }
        let step = dl_pull::begin(rq, cx);
        rq.publish(cx);
        Ok(step)
    }
}

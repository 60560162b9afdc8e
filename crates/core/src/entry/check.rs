//! Whole-machine checks for tests: the published state is true, no work is in progress, two states
//! are equal.
//!
//! No decision reads any of this. Every check is O(CPUs x tasks) and needs all run queues at once,
//! so the checks are for hosts that make one call at a time, or that have come to rest.

use crate::class::{dl, dl_server};
use crate::entity::dl::DlState;
use crate::entry::scheduler::Scheduler;
use crate::queue::fair::averages::CpuAverages;
use crate::queue::published::{PublishedCounts, PublishedPrios};
use crate::rq::run_queue::{Phase, Rq};
use crate::shared::state::{Claim, PushChain};
use crate::task::body::{Parcel, Task};
use crate::words::ids::CpusetId;
use crate::words::step::{PairCont, Step};
use alloc::format;
use alloc::string::String;
use core::fmt;
use core::fmt::Write;
use core::hash::{Hash, Hasher};
use core::sync::atomic::Ordering;
use lock_api::RawMutex;
use zerolag_model::settings::OverloadScope;
use zerolag_model::{ClassId, CpuId, Prio};

impl<L: RawMutex> Scheduler<L> {
    /// Checks that the published state of every CPU is true: priorities, load, running count, idle
    /// flag, its level in `cpupri`, its bit in the overload mask. Holds between any two calls of a
    /// host that makes one call at a time.
    ///
    /// Masks per cpuset are not checked: they can be wrong and repair themselves.
    ///
    /// # Errors
    /// A sentence that names the difference.
    pub fn check_published(&self, rqs: &[&Rq]) -> Result<(), String> {
        for rq in rqs {
            let cpu = rq.cpu();
            let truth = self.truth_of(rq);
            let published = self.shared.published(cpu);
            if rq.phase() != Phase::Running {
                continue; // `pick` publishes what `leave` changed.
            }
            if published != truth {
                return Err(format!("CPU {cpu} has published {published:?}, but the truth is {truth:?}"));
            }
            let (runs, is_said) = (rq.current_slot().map(|slot| rq.tasks[slot].id), self.shared.published_current(cpu));
            if runs != is_said {
                return Err(format!("CPU {cpu} has published that {is_said:?} runs, but {runs:?} does"));
            }
            rq.check_pressure()?;
            self.check_wanted(rq)?;
            self.check_ext(rq)?;
            let level = rq.is_online().then(|| rq.top_prio());
            if !self.shared.domain(cpu).cpupri.is_exact(cpu, level) {
                return Err(format!("CPU {cpu} is not at its level in cpupri, which is that of {level:?}"));
            }
            self.check_deadlines(rq)?;
            match self.shared.overload_scope() {
                OverloadScope::Cpuset => continue,
                OverloadScope::Global | OverloadScope::RootDomain => {}
            }
            let overloaded = rq.is_rt_overloaded(&self.config) && rq.is_online();
            let mask = self.shared.overload(CpusetId::default(), cpu);
            if mask.contains(cpu) != overloaded || mask.snapshot().contains(cpu) != overloaded {
                let verb = if overloaded { "is" } else { "is not" };
                return Err(format!("CPU {cpu} {verb} overloaded, but its mask says otherwise"));
            }
        }
        Ok(())
    }

    /// Checks the counts of the tasks of a CPU that prefer a cache.
    fn check_wanted(&self, rq: &Rq) -> Result<(), String> {
        let (cpu, processes) = (rq.cpu(), &self.shared.processes);
        for cache in 0..processes.nr_caches() {
            let queued =
                rq.tasks.iter().filter(|(_, task)| task.prio.class() == ClassId::Fair && task.fair.is_queued());
            let wanted = queued.filter(|(_, task)| processes.preferred(task.id) == Some(cache)).count();
            let counted = processes.wanted(cpu, cache);
            if counted as usize != wanted {
                return Err(format!("CPU {cpu} counts {counted} tasks that prefer cache {cache}, but has {wanted}"));
            }
        }
        Ok(())
    }

    fn check_deadlines(&self, rq: &Rq) -> Result<(), String> {
        let (cpu, domain) = (rq.cpu(), self.shared.domain(rq.cpu()));
        if let Some(tree) = &rq.rt.tree {
            tree.check().map_err(|wrong| format!("CPU {cpu}: {wrong}"))?;
        }
        if rq.rt.local.is_some() {
            self.check_served(rq)?;
        }
        let (truth, published) = (rq.dl.published(), self.shared.published_deadlines(cpu));
        if truth != published {
            return Err(format!("CPU {cpu} has published {published:?}, but the truth is {truth:?}"));
        }
        if !domain.cpudl.is_exact(cpu, rq.dl_level()) {
            return Err(format!("CPU {cpu} is not in cpudl as {:?}", rq.dl_level()));
        }
        if domain.dl_overload.contains(cpu) != dl::is_overloaded(rq) {
            return Err(format!("CPU {cpu} is wrong in the deadline overload mask"));
        }
        let here = rq.tasks.iter().filter(|(_, task)| task.prio == Prio::DEADLINE);
        let queued: u64 = here.filter_map(|(_, task)| Some(task.dl.reserved?.bandwidth.0)).sum();
        let lingering: u64 = rq.dl.sums.lingering().map(|(_, bandwidth, _)| bandwidth.0).sum();
        let (_, running) = rq.dl.sums.of_tasks();
        if running.0 != queued + lingering {
            let running = running.0;
            return Err(format!(
                "CPU {cpu} has a running_bw of {running}, but {queued} queued and {lingering} lingering"
            ));
        }
        Ok(())
    }

    /// Checks that the CPUs of every root domain together have the real-time runtime that they have
    /// without loans, whatever they have lent each other. While a CPU does not yet follow a new
    /// limit, nothing is checked. Holds between any two calls.
    ///
    /// # Errors
    /// A sentence that names the root domain.
    pub fn check_rt_runtime(&self) -> Result<(), String> {
        let limit = self.rt_bandwidth();
        let each = limit.runtime.unwrap_or(limit.period);
        for (index, domain) in self.shared.domains.iter().enumerate() {
            if let Some((sum, cpus)) = self.shared.rt_runtime_of(domain)
                && sum != each * cpus
            {
                return Err(format!(
                    "the {cpus} CPUs of root domain {index} have a real-time runtime of {sum}, not {each} each"
                ));
            }
        }
        Ok(())
    }

    /// Checks that the booked bandwidth of every root domain equals the sum of all promises: to the
    /// servers of its CPUs, to deadline tasks on run queues, and to those in the host's hands
    /// (`parcels`). Holds between any two calls.
    ///
    /// # Errors
    /// A sentence that names the root domain.
    pub fn check_booked<'a>(&self, rqs: &[&Rq], parcels: impl IntoIterator<Item = &'a Parcel>) -> Result<(), String> {
        let mut promised = alloc::vec![0; self.shared.domains.len()];
        for rq in rqs {
            promised[self.shared.domain_of(rq.cpu()).index()] += dl_server::bandwidth_of_all(rq).0;
        }
        // `this_bw` of every run queue: the tasks that are queued there, that blocked there last,
        // or that have just ended there.
        let mut belongs: alloc::vec::Vec<(usize, u64)> = alloc::vec::Vec::new();
        let queued = rqs.iter().flat_map(|rq| rq.tasks.iter().map(|(_, task)| (Some(rq.cpu()), task)));
        let held = parcels.into_iter().map(|parcel| (None, &*parcel.0));
        for (cpu, task) in queued.chain(held) {
            let Some(had) = task.dl.reserved else { continue };
            promised[had.domain.index()] += had.bandwidth.0;
            let on = cpu.filter(|_| task.prio == Prio::DEADLINE).or(task.dl.sleeps_on());
            belongs.extend(on.map(|cpu| (cpu.index(), had.bandwidth.0)));
        }
        for rq in rqs {
            let of_this = belongs.iter().filter(|(cpu, _)| *cpu == rq.cpu().index()).map(|(_, bandwidth)| bandwidth);
            let ended = rq.dl.sums.lingering().filter(|(_, _, gone)| *gone).map(|(_, bandwidth, _)| bandwidth.0);
            let truth = of_this.sum::<u64>() + ended.sum::<u64>();
            let notes = self.shared.unread_dl_notes(rq.cpu());
            let come: u64 = notes.iter().map(|note| note.come.0).sum();
            let gone: u64 = notes.iter().map(|note| note.gone.0).sum();
            let this = rq.dl.sums.of_tasks().0.0 + come - gone;
            if this != truth {
                return Err(format!("CPU {} has a this_bw of {this}, but {truth} belongs there", rq.cpu()));
            }
        }
        for (index, promised) in promised.into_iter().enumerate() {
            let booked = self.shared.domains[index].dl_booked.lock().of_members().0;
            if booked != promised {
                return Err(format!("root domain {index} has booked {booked}, but {promised} is promised"));
            }
        }
        Ok(())
    }

    fn truth_of(&self, rq: &Rq) -> (PublishedPrios, CpuAverages, PublishedCounts, bool) {
        let current = rq.current_slot().map(|slot| &rq.tasks[slot]);
        let prios = PublishedPrios {
            current: rq.current_prio(),
            highest: rq.top_prio(),
            pushable: rq.rt.highest_pushable(),
            current_movable: current.is_none_or(|task| task.can_migrate(self.shared.nr_cpus())),
            reaches_all: self.shared.has_reach()
                && rq.rt.waiting(&rq.tasks).any(|slot| rq.tasks[slot].allowed.is_none()),
        };
        let counts_rt = self.config.settings.rt_balance.is_passive();
        let averages = rq.published_averages(counts_rt);
        let counts = rq.published_counts(&self.config.settings);
        (prios, averages, counts, rq.is_idle_to_others())
    }

    /// Checks that nothing pulls from a CPU at rest, and that it publishes where its pushable tasks
    /// may run (`pull_claimed`).
    fn check_claim(&self, rq: &Rq) -> Result<(), String> {
        let cpu = rq.cpu();
        if self.shared.cpus[cpu.index()].0.claim.load(Ordering::Acquire) != Claim::FREE {
            return Err(format!("CPU {cpu} is still claimed"));
        }
        for slot in rq.rt.waiting(&rq.tasks).filter(|_| self.shared.has_reach()) {
            let task = &rq.tasks[slot];
            let lacks = |on: &CpuId| !self.shared.reaches(cpu, *on);
            let lacking = task.allowed.as_deref().and_then(|mask| mask.iter().find(lacks));
            if let Some(on) = lacking.filter(|_| !self.truth_of(rq).0.reaches_all) {
                return Err(format!("task {} may move from CPU {cpu} to CPU {on}, which is not published", task.id));
            }
        }
        Ok(())
    }

    /// Checks the invariants of a machine at rest: the published state is true, and no IPI
    /// circulates.
    ///
    /// # Errors
    /// A sentence that names the difference.
    pub fn check_quiescent(&self, rqs: &[&Rq]) -> Result<(), String> {
        self.check_published(rqs)?;
        for domain in &self.shared.domains {
            if let Some(cpu) = domain.rto.lock().cpu {
                return Err(format!("an IPI still circulates, at CPU {cpu}"));
            }
            if domain.loop_start.load(Ordering::Acquire) != 0 {
                return Err(String::from("the start of the circulating IPI is still taken"));
            }
        }
        for rq in rqs {
            self.check_claim(rq)?;
        }
        for (source, chain) in self.shared.chains.iter().enumerate() {
            match *chain.lock() {
                PushChain::Stopped => {}
                PushChain::At(cpu) | PushChain::Restart(cpu) => {
                    return Err(format!("the chain of CPU {source} still runs, at CPU {cpu}"));
                }
            }
        }
        if !self.shared.asked.is_empty() {
            return Err(String::from("a CPU has yet to serve a request to push"));
        }
        Ok(())
    }

    /// Feeds a hasher with everything that later decisions depend on: two states with equal
    /// fingerprints behave alike if no time passes. Clocks, counters, slots and generations are
    /// left out (a stay counts as current or over).
    pub fn fingerprint(&self, rqs: &[&Rq], into: &mut impl Hasher) {
        for rq in rqs {
            fingerprint_rq(rq, into);
        }
        for domain in &self.shared.domains {
            let token = domain.rto.lock();
            token.cpu.hash(into);
            if token.cpu.is_some() {
                let behind = domain.loop_next.load(Ordering::Relaxed).wrapping_sub(token.round);
                // Only whether a round has missed a request matters, not how many.
                (behind != 0).hash(into);
            }
        }
        for chain in &self.shared.chains {
            debug(&*chain.lock(), into);
        }
        self.shared.asked.snapshot().hash(into);
        for rq in rqs {
            self.shared.cpus[rq.cpu().index()].0.claim.load(Ordering::Relaxed).hash(into);
        }
        for mask in self.overload_masks() {
            mask.hash(into);
        }
        for rq in rqs {
            self.shared.domain_of(rq.cpu()).hash(into);
        }
    }

    /// Does the same as [`fingerprint`](Self::fingerprint) for a body in the host's hands.
    pub fn fingerprint_parcel(&self, parcel: &Parcel, into: &mut impl Hasher) {
        fingerprint_task(&parcel.0, into);
    }

    /// Does the same as [`fingerprint`](Self::fingerprint) for a step that has not been carried out
    /// yet.
    pub fn fingerprint_step(&self, rqs: &[&Rq], step: Step, into: &mut impl Hasher) {
        match step {
            Step::Pair { own, other, then: PairCont::RtPush(push) } => {
                let rq = rqs.iter().find(|rq| rq.cpu() == own).expect("a step is about a CPU of this machine");
                let is_current = rq.find_stay(push.task).is_some();
                (own, other, push.tries, is_current.then_some(push.task.task)).hash(into);
                debug(&push.after, into);
            }
            Step::Done | Step::Pair { .. } | Step::Again { .. } => debug(&step, into),
        }
    }
}

fn fingerprint_rq(rq: &Rq, into: &mut impl Hasher) {
    rq.current().hash(into);
    rq.is_online().hash(into);
    debug(&rq.need_resched(), into);
    match rq.phase() {
        Phase::Running => 0_u8.hash(into),
        Phase::Switching { prev, stage } => {
            (1_u8, prev.task, prev.prio, prev.cpuset).hash(into);
            debug(&(prev.state, stage), into);
        }
    }
    // Bodies in order of task, then the two real-time orders, then the count of the fair class.
    let mut bodies: alloc::vec::Vec<&Task> = rq.tasks.iter().map(|(_, task)| task).collect();
    bodies.sort_unstable_by_key(|task| task.id);
    for task in bodies {
        fingerprint_task(task, into);
    }
    for slot in rq.rt.in_order(&rq.tasks).chain(rq.rt.waiting(&rq.tasks)) {
        rq.tasks[slot].id.hash(into);
    }
    if let Some(local) = &rq.rt.local {
        for at in local.all() {
            let (queue, server) = (local.queue(at), rq.dl.group(at));
            debug(&(queue.group, server.state, server.abs_deadline, server.runtime_left), into);
            for slot in queue.run.iter(&rq.tasks).chain(queue.pushable.iter(&rq.tasks)) {
                rq.tasks[slot].id.hash(into);
            }
        }
    }
    rq.fair.nr_running().hash(into);
}

fn fingerprint_task(task: &Task, into: &mut impl Hasher) {
    (task.id, task.attr, task.prio, task.inherited(), task.cpuset, task.last_cpu, task.is_new, task.mode as u8)
        .hash(into);
    (&task.allowed, &task.affinity).hash(into);
    // The order of arrival among fair tasks with equal virtual times is not part of the
    // fingerprint.
    let fair = &task.fair;
    let dl = &task.dl;
    let state = match dl.state {
        DlState::NonContending { on, .. } | DlState::Inactive { on } => DlState::Inactive { on },
        other @ (DlState::Fresh | DlState::Contending | DlState::Throttled { .. } | DlState::Left { .. }) => other,
    };
    debug(&(state, dl.abs_deadline, dl.runtime_left, dl.reserved, dl.boost), into);
    debug(&(fair.state, fair.vruntime, fair.virtual_deadline, fair.vlag, fair.slice, fair.is_idle), into);
}

/// Hashes a value by its `Debug` text, for types that need no `Hash` otherwise.
fn debug(value: &impl fmt::Debug, into: &mut impl Hasher) {
    struct HashedText<'a, H: Hasher>(&'a mut H);
    impl<H: Hasher> Write for HashedText<'_, H> {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            self.0.write(text.as_bytes());
            Ok(())
        }
    }
    write!(HashedText(into), "{value:?}").expect("a hasher takes every text");
}

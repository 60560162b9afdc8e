//! [`Urgent`]: threads that a rule makes real-time or gives a reservation, before all fair ones.
//!
//! They are on one queue for all CPUs, most urgent first: reservations by deadline, then real-time
//! threads by priority. So *pulling* is no action of its own: a CPU that becomes free takes the
//! first that may run there. *Pushing* is: a thread that waits, and is more urgent than one that
//! runs where it may run, takes an idle CPU, or that with the least urgent thread.
//!
//! A CPU follows a kick late. Until it does, it is *claimed* by the thread for which it was kicked,
//! and counts as running that one: otherwise the next wakeup would kick the same CPU, and stay
//! behind a less urgent thread that runs elsewhere.
//!
//! ```text
//!            wakes                       dispatch of any CPU, the first that may run there
//!   off  ─────────────►  waiting [1]  ──────────────────────────────────────►  running
//!    ▲                    ▲  │ kicks a CPU: claims it [2]                         │
//!    │   the timer of     │  ▼                                                    │
//!    │   its period [4]   └ depleted  ◄────────────────────────────── budget used up [3]
//!    └────────────────────────────────────────────────────────────────── waits ◄──┘
//! ```
//!
//! \[1\] Behind all of the same priority; before them if it was preempted. \[2\] Each time a thread
//! waits, a CPU has decided, or a turn begins, those that wait and have claimed no CPU are looked
//! at. \[3\] A reservation is a constant bandwidth server: a wakeup begins a new period, unless the
//! rest of the budget until the old deadline is no more than its bandwidth. \[4\] A budget that is
//! used up is filled at the deadline; time that was used too long, because turns end at ticks, is
//! missing then.
//!
//! Reservations can take 95 % of all CPUs together. A thread beyond that is an error of the policy:
//! it would break the promise to the others, and to be fair would break that to itself.
//!
//! Sources: Linux v7.3 `kernel/sched/rt.c` (`enqueue_task_rt`, `find_lowest_rq`, `push_rt_task`,
//! `pull_rt_task`, `task_tick_rt`), `deadline.c` (`update_dl_entity`, `replenish_dl_entity`,
//! `dl_entity_overflow`), `core.c` (`__dl_overflow`); Abeni and Buttazzo, *Integrating Multimedia
//! Applications in Hard Real-Time Systems*, RTSS 1998. differs: one queue for all CPUs; deadlines
//! are periods; no inheritance, since a policy sees no locks; no throttling of real-time threads:
//! fair ones that get no time for 30 s end the policy.
//!
//! O(waiting * CPUs) per event at worst; O(CPUs) while no CPU runs anything less urgent.

use super::rules::{Class, Reservation};
use crate::scx::Scx;
use crate::storage::{PerCpu, PerTask};
use crate::words::{KickFlags, SLICE_INF};
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use core::cmp::{Ordering, Reverse};
use core::ops::Bound;
use zerolag_model::{CpuId, Duration, Instant, SignedDuration, TaskId};

/// The turn of a thread of SCHED_RR (`RR_TIMESLICE`).
const RR_TURN: Duration = Duration::from_millis(100);
/// What all reservations can take of each CPU, in millionths.
const MOST: u64 = 950_000;
/// The timer of a thread has its number and this bit, which no group has.
const TIMER: u32 = 1 << 31;

/// How urgent a thread is: its class, then its deadline, or its priority. The less, the more
/// urgent.
type Rank = (u8, u64);

/// The rank of a fair thread.
const FAIR: Rank = (2, 0);

/// The threads of all rules.
#[derive(Clone, Debug, Default)]
pub(super) struct Urgent {
    threads: PerTask<Thread>,
    /// Those that wait, in order: the number is that of arrival.
    waiting: BTreeSet<(Rank, i64, TaskId)>,
    /// The thread for which a CPU was kicked.
    claims: PerCpu<Option<TaskId>>,
    /// The thread that a CPU has taken and does not run yet.
    taken: PerCpu<Option<TaskId>>,
    /// The numbers of the first and the last that came.
    first: i64,
    last: i64,
    /// The bandwidth of all reservations, in millionths of a CPU.
    reserved: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Thread {
    class: Class,
    /// Its place, while it waits.
    place: Option<(Rank, i64)>,
    claims: Option<CpuId>,
    /// It runs, and is charged up to then.
    since: Option<Instant>,
    /// The rest of its turn (SCHED_RR).
    turn: Duration,
    /// It goes behind those of its priority: it is new, has yielded, or used up its turn.
    goes_last: bool,
    budget: SignedDuration,
    deadline: Instant,
    /// Its budget is used up: the timer of its period runs.
    is_depleted: bool,
    /// It would wait if it were not depleted.
    is_kept: bool,
}

fn bandwidth(Reservation { runtime, period }: Reservation) -> u64 {
    runtime.mul_div_floor(1_000_000, period.as_nanos().max(1)).as_nanos()
}

/// Threads come, change and go.
impl Urgent {
    /// Sets the class of a thread that is not runnable.
    ///
    /// # Errors
    /// Its reservation does not fit: which, what is reserved and what is free.
    pub(super) fn set_class(&mut self, scx: &Scx, p: TaskId, class: Class) -> Result<(), String> {
        self.forget(p);
        if let Class::Reserved(reservation) = class {
            let (asked, all) = (bandwidth(reservation), MOST * scx.nr_cpus() as u64);
            if self.reserved + asked > all {
                let percent = |millionths: u64| format!("{}.{}", millionths / 10_000, millionths / 1_000 % 10);
                return Err(format!(
                    "the reservation of {}[{p}], {} in {}, does not fit: {} % of a CPU is asked for, {} of {} are reserved; lower its runtime, lengthen its period, or name fewer threads",
                    scx.comm(p),
                    reservation.runtime,
                    reservation.period,
                    percent(asked),
                    percent(self.reserved),
                    percent(all),
                ));
            }
            self.reserved += asked;
        }
        self.threads[p] = Thread { class, turn: RR_TURN, goes_last: true, ..Thread::default() };
        Ok(())
    }

    /// A thread exits, or is not the policy's any more.
    pub(super) fn forget(&mut self, p: TaskId) {
        self.take(p);
        if let Class::Reserved(reservation) = core::mem::take(&mut self.threads[p]).class {
            self.reserved = self.reserved.saturating_sub(bandwidth(reservation));
        }
    }

    pub(super) fn class(&self, p: TaskId) -> Class {
        self.threads[p].class
    }

    pub(super) fn has(&self, p: TaskId) -> bool {
        self.threads[p].class != Class::Fair
    }

    fn rank(&self, p: TaskId) -> Rank {
        let thread = &self.threads[p];
        match thread.class {
            Class::Reserved(_) => (0, thread.deadline.as_nanos()),
            Class::Fifo(priority) | Class::Rr(priority) => (1, u64::from(99 - priority)),
            Class::Fair => FAIR,
        }
    }
}

/// The queue.
impl Urgent {
    /// A thread becomes runnable: a job of a reservation begins.
    pub(super) fn runnable(&mut self, scx: &Scx, p: TaskId) {
        let (now, thread) = (scx.now(), &mut self.threads[p]);
        thread.goes_last = true;
        if let Class::Reserved(Reservation { runtime, period }) = thread.class
            && !thread.is_depleted
        {
            // The budget would be more than the bandwidth until the deadline (`dl_entity_overflow`).
            let rest = thread.deadline.since(now).as_nanos();
            let budget = thread.budget.max_zero().as_nanos();
            let is_more =
                u128::from(budget) * u128::from(period.as_nanos()) > u128::from(rest) * u128::from(runtime.as_nanos());
            if thread.deadline <= now || is_more {
                (thread.deadline, thread.budget) = (now.saturating_add(period), runtime.to_signed());
            }
        }
    }

    /// \[1\] A thread waits from now on.
    pub(super) fn enqueue(&mut self, scx: &mut Scx, p: TaskId) {
        if self.threads[p].is_depleted {
            self.threads[p].is_kept = true;
            return;
        }
        let number = if core::mem::take(&mut self.threads[p].goes_last) {
            self.last += 1;
            self.last
        } else {
            self.first -= 1;
            self.first
        };
        let rank = self.rank(p);
        self.threads[p].place = Some((rank, number));
        self.waiting.insert((rank, number, p));
        self.push(scx);
    }

    /// A thread does not wait any more.
    pub(super) fn take(&mut self, p: TaskId) {
        if !self.has(p) {
            return;
        }
        let thread = &mut self.threads[p];
        thread.is_kept = false;
        if let Some((rank, number)) = thread.place.take() {
            self.waiting.remove(&(rank, number, p));
        }
        if let Some(cpu) = self.threads[p].claims.take() {
            self.claims[cpu] = None;
        }
    }

    /// Returns the first that may run on a CPU.
    pub(super) fn first(&self, scx: &Scx, cpu: CpuId) -> Option<TaskId> {
        self.waiting.iter().map(|(_, _, p)| *p).find(|p| scx.allowed(*p, cpu))
    }

    /// Returns whether a thread whose turn has ended goes on before the first that waits.
    pub(super) fn goes_on(&self, p: TaskId, first: Option<TaskId>) -> bool {
        let thread = &self.threads[p];
        let comes_before = |first| match self.rank(p).cmp(&self.rank(first)) {
            Ordering::Less => true,
            Ordering::Equal => !thread.goes_last,
            Ordering::Greater => false,
        };
        self.has(p) && !thread.is_depleted && first.is_none_or(comes_before)
    }

    /// A CPU decides, or another class has it: what it was to do is no longer so.
    pub(super) fn reset(&mut self, cpu: CpuId) {
        self.release(cpu);
        self.taken[cpu] = None;
    }

    /// A CPU has decided.
    pub(super) fn decided(&mut self, cpu: CpuId, p: TaskId) {
        self.taken[cpu] = Some(p);
    }

    /// A CPU has followed its kick, or will not.
    fn release(&mut self, cpu: CpuId) {
        if let Some(p) = self.claims[cpu].take() {
            self.threads[p].claims = None;
        }
    }

    fn claim(&mut self, p: TaskId, cpu: CpuId) {
        self.release(cpu);
        (self.claims[cpu], self.threads[p].claims) = (Some(p), Some(cpu));
    }

    /// \[2\] Lets CPUs that do less urgent things take threads that wait.
    pub(super) fn push(&mut self, scx: &mut Scx) {
        let mut next = self.waiting.first().copied();
        while let Some(place) = next {
            let (rank, _, p) = place;
            if self.threads[p].claims.is_none() {
                if let Some(cpu) = scx.pick_idle_cpu(p, false) {
                    scx.kick_cpu(cpu, KickFlags::IDLE);
                    self.claim(p, cpu);
                } else {
                    let Some((worst, _)) = self.worst(scx, None) else { return };
                    if worst <= rank {
                        return; // So are all others that wait.
                    }
                    if let Some((_, cpu)) = self.worst(scx, Some(p)).filter(|(worst, _)| *worst > rank) {
                        scx.kick_cpu(cpu, KickFlags::PREEMPT);
                        self.claim(p, cpu);
                    }
                }
            }
            next = self.waiting.range((Bound::Excluded(place), Bound::Unbounded)).next().copied();
        }
    }

    /// Returns the CPU with the least urgent thread, of those where a thread may run; of several
    /// that where it ran last, or the first.
    fn worst(&self, scx: &Scx, p: Option<TaskId>) -> Option<(Rank, CpuId)> {
        let cpus = (0..scx.nr_cpus()).map(CpuId::from_index);
        let cpus = cpus.filter(|cpu| p.is_none_or(|p| scx.allowed(p, *cpu)));
        let last = p.map(|p| scx.task_cpu(p));
        let runs = |cpu: CpuId| self.claims[cpu].or(self.taken[cpu]).or_else(|| scx.cpu_curr(cpu));
        let ranks = cpus.filter_map(|cpu| Some((self.rank(runs(cpu)?), cpu)));
        ranks.max_by_key(|(rank, cpu)| (*rank, last == Some(*cpu), Reverse(*cpu)))
    }
}

/// Turns.
impl Urgent {
    /// A thread is about to run: returns its turn.
    pub(super) fn begin(&mut self, p: TaskId) -> Duration {
        self.take(p);
        let thread = &mut self.threads[p];
        thread.goes_last = false;
        match thread.class {
            Class::Reserved(_) => thread.budget.max_zero().max(Duration::from_nanos(1)),
            Class::Rr(_) => thread.turn,
            Class::Fifo(_) | Class::Fair => SLICE_INF,
        }
    }

    /// A turn begins on a CPU. One more urgent may have come since it was decided.
    pub(super) fn running(&mut self, scx: &mut Scx, p: TaskId) {
        let now = scx.now();
        if self.has(p) {
            self.threads[p].since = Some(now);
        }
        self.reset(scx.task_cpu(p));
        self.push(scx);
    }

    /// \[3\] A turn ends, or is looked at.
    pub(super) fn end(&mut self, scx: &mut Scx, p: TaskId) {
        let (now, thread) = (scx.now(), &mut self.threads[p]);
        let Some(since) = thread.since.take() else { return };
        let ran = now.since(since);
        match thread.class {
            Class::Rr(_) => {
                thread.turn = thread.turn.saturating_sub(ran);
                if thread.turn.is_zero() {
                    (thread.turn, thread.goes_last) = (RR_TURN, true);
                }
            }
            Class::Reserved(_) => {
                thread.budget = thread.budget - ran.to_signed();
                if thread.budget.max_zero().is_zero() && !thread.is_depleted {
                    thread.is_depleted = true;
                    scx.timer_start(p.0 | TIMER, thread.deadline.since(now));
                }
            }
            Class::Fifo(_) | Class::Fair => {}
        }
    }

    /// A thread yields: it goes behind those of its priority.
    pub(super) fn give_way(&mut self, p: TaskId) {
        self.threads[p].goes_last = true;
    }

    /// \[4\] Returns whether a timer was that of a reservation, whose budget is filled.
    pub(super) fn timer(&mut self, scx: &mut Scx, timer: u32) -> bool {
        if timer & TIMER == 0 {
            return false;
        }
        let (p, now) = (TaskId(timer & !TIMER), scx.now());
        let thread = &mut self.threads[p];
        if let Class::Reserved(Reservation { runtime, period }) = thread.class
            && core::mem::take(&mut thread.is_depleted)
        {
            // Each missing runtime is a period without one (`replenish_dl_entity`).
            let missing = thread.budget.as_nanos().unsigned_abs() / runtime.as_nanos() + 1;
            thread.budget = thread.budget + (runtime * missing).to_signed();
            thread.deadline = thread.deadline.saturating_add(period * missing);
            if thread.deadline <= now {
                (thread.deadline, thread.budget) = (now.saturating_add(period), runtime.to_signed());
            }
            if core::mem::take(&mut thread.is_kept) {
                thread.goes_last = true;
                self.enqueue(scx, p);
            }
        }
        true
    }
}

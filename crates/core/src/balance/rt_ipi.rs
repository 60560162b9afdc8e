//! Pulling by request: the overloaded CPUs get an interrupt and push their tasks themselves.
//!
//! **`ipi_root_domain` (2017).** One IPI circulates per root domain. `loop_next` counts the CPUs
//! that have lowered their priority. `loop_start` lets only one of them start the IPI. The token
//! under `rto` records the CPU that the IPI is at, and the count that the round serves.
//!
//! ```text
//!            start: loop_next += 1, loop_start taken, token is nowhere,
//!                   a CPU is overloaded [1]
//!   Nowhere ------------------------------------------> At(cpu)
//!      ^                                                 |   |
//!      |  [3] no overloaded CPU above, and               |   | [2] pushed; the next overloaded
//!      |      round == loop_next                         |   |     CPU above gets the IPI
//!      +-------------------------------------------------+   +--> At(next)
//!                    [4] round != loop_next: round = loop_next, from the lowest CPU again
//! ```
//!
//! A CPU that lowers its priority while the IPI circulates only raises `loop_next`, which turns
//! \[3\] into \[4\].
//!
//! With `rt_ipi_skip_self` a CPU that sends the IPI on does not get it in the round that \[4\]
//! begins. A request that arrives after that CPU's search for a target, and before it sends the IPI
//! on, would then be lost. So the CPU searches once more, without an IPI \[11\]. differs: the
//! kernel does not; there the window is between `push_rt_task` and `rto_next_cpu`.
//!
//! The IPI belongs to its root domain. A CPU that changes its domain while the IPI is at that CPU,
//! or on the way to it, sends the IPI on in the old domain; in the new domain it makes a request of
//! its own (`join_domain`).
//!
//! **`ipi_per_cpu` (2015).** Every CPU that lowers its priority runs a chain of its own through the
//! overloaded CPUs, upwards from its own number and around. Every visit pushes one task. If the CPU
//! lowers its priority again while the chain runs, the chain starts over.
//!
//! ```text
//!            start_chain [5]            next overloaded CPU with a better task [6]
//!   Stopped ----------------> At(cpu) --------------------------------------------> At(next)
//!      ^                        | ^  start_chain again [7]: Restart(cpu); at its end the chain
//!      |                        | |  starts over from the source [8]
//!      +------------------------+ +--
//!            around once [9]     [10] the restart leads back to the CPU that the chain is at: it
//!                                     pushes again at once
//! ```
//!
//! With `rt_ipi_skip_pushing` a chain passes over a CPU that has a request of another chain \[12\]
//! until that CPU has pushed for it \[13\]. That bounds the IPIs that wait at a CPU to one. But a
//! visit pushes one task, and if two CPUs have lowered their priority, two were needed: the second
//! waiting task stays where it is. It is our reading of the title of a patch of 2016 ("Avoid
//! sending an IPI to a CPU already doing a push"), which the 2017 text reverts. The patch itself is
//! not public any more.
//!
//! Sources: 2017 text; Linux v4.1 `kernel/sched/rt.c` (`tell_cpu_to_push`, `try_to_push_tasks`,
//! `find_next_push_cpu`), v4.15 and v6.12 (`rto_start_trylock`, `rto_next_cpu`,
//! `rto_push_irq_work_func`; commit 364f56653708: the work holds its root domain); commit
//! 94894c9c477e (`rt_ipi_skip_self`).

use crate::rq::cx::Cx;
use crate::rq::run_queue::Rq;
use crate::shared::state::{PushChain, RootDomain, RtoToken};
use crate::words::atomic_mask::AtomicCpuMask;
use crate::words::ids::{CpusetId, DomainId};
use crate::words::op::{Op, Work};
use crate::words::step::{AfterPush, Cont, Step};
use core::sync::atomic::Ordering;
use lock_api::RawMutex;
use zerolag_model::{CpuId, TraceEvent};

/// Requests a round of the root domain's IPI: this CPU has lowered its priority.
///
/// differs: the kernel releases `loop_start` and does not check again. If the token was at no CPU,
/// it would lose the request of a CPU that raised `loop_next` and failed to get `loop_start` in
/// between; so this function checks again after the release.
pub(crate) fn start<L: RawMutex>(rq: &Rq, cx: &mut Cx<'_, L>) {
    let skip = skipped(rq, cx);
    let id = cx.shared.domain_of(rq.cpu());
    let (domain, overloaded) = (cx.shared.domain(rq.cpu()), cx.shared.overload_of(id));
    domain.loop_next.fetch_add(1, Ordering::SeqCst);
    cx.io.costs.rto_accesses += 1;
    // Every iteration but the first serves a request that was refused during the one before.
    loop {
        cx.io.costs.rto_accesses += 1;
        let taken = cx
            .io
            .observer
            .flag(|| domain.loop_start.compare_exchange(0, 1, Ordering::SeqCst, Ordering::SeqCst).is_ok());
        if !taken {
            return; // The CPU that has it checks again after the release.
        }
        cx.io.costs.rto_accesses += 1;
        let mut served = true;
        let first = cx.io.observer.cpu(|| {
            let mut token = domain.rto.lock();
            // [1] Only if none circulates: an IPI that does will see the raised `loop_next`.
            let first = if token.cpu.is_none() { advance(domain, &mut token, overloaded, skip).next } else { None };
            domain.loop_start.store(0, Ordering::SeqCst);
            served = token.cpu.is_some() || token.round == domain.loop_next.load(Ordering::SeqCst);
            first
        });
        if let Some(cpu) = first {
            return send(rq, cx, cpu, Work::RtPush(id));
        }
        if cx.io.observer.flag(|| served) {
            return;
        }
    }
}

/// Sends the IPI of a root domain on after this CPU has pushed. The CPU has possibly left that
/// domain meanwhile.
pub(crate) fn pass_on<L: RawMutex>(rq: &Rq, cx: &mut Cx<'_, L>, id: DomainId) -> SentIpi {
    let skip = skipped(rq, cx);
    let (domain, overloaded) = (&cx.shared.domains[id.index()], cx.shared.overload_of(id));
    cx.io.costs.rto_accesses += 1;
    let mut passed_over = PassedOver::No;
    let next = cx.io.observer.cpu(|| {
        let advanced = advance(domain, &mut domain.rto.lock(), overloaded, skip);
        passed_over = advanced.passed_over;
        advanced.next
    });
    if let Some(cpu) = next {
        send(rq, cx, cpu, Work::RtPush(id));
    }
    let looks_again = skip.is_some() && cx.io.observer.flag(|| passed_over == PassedOver::ForNewRequest);
    if looks_again { SentIpi::LookAgain } else { SentIpi::Done } // [11]
}

/// The duty of a CPU that has sent the IPI on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SentIpi {
    /// Nothing.
    Done,
    /// Push once more: a request arrived while this CPU was passed over.
    LookAgain,
}

/// Returns the CPU that the root domain's IPI skips: with `rt_ipi_skip_self`, the sender.
fn skipped<L: RawMutex>(rq: &Rq, cx: &Cx<'_, L>) -> Option<CpuId> {
    cx.config.settings.rt_ipi_skip_self.then_some(rq.cpu())
}

/// The next place of the token.
struct Advanced {
    /// The CPU that gets the IPI.
    next: Option<CpuId>,
    passed_over: PassedOver,
}

/// Whether the sender would have been the next CPU and was skipped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum PassedOver {
    No,
    /// In a round for a request that was possibly made after the sender's last search.
    ForNewRequest,
}

/// Moves the token to the next overloaded CPU: `rto_next_cpu`.
///
/// Mostly there is one in the rest of this round, or the round has served all requests: that is
/// seen without a call, and so without saved registers.
fn advance<L: RawMutex>(
    domain: &RootDomain<L>,
    token: &mut RtoToken,
    overloaded: &AtomicCpuMask,
    skip: Option<CpuId>,
) -> Advanced {
    let from = token.cpu.map_or(CpuId(0), |cpu| CpuId(cpu.0 + 1));
    let Some(next) = overloaded.next_in_one_word(from) else { return advance_far(domain, token, overloaded, skip) };
    let is_over = next.is_none() && token.round == domain.loop_next.load(Ordering::SeqCst);
    if is_over || next.is_some() && next != skip {
        token.cpu = next; // [2] [3]
        return Advanced { next, passed_over: PassedOver::No };
    }
    advance_far(domain, token, overloaded, skip)
}

/// The same, on machines of any size, over rounds of any number.
#[inline(never)]
fn advance_far<L: RawMutex>(
    domain: &RootDomain<L>,
    token: &mut RtoToken,
    overloaded: &AtomicCpuMask,
    skip: Option<CpuId>,
) -> Advanced {
    let (mut is_new, mut passed_over) = (false, PassedOver::No);
    // Ends when a whole round has seen no new request. Every further iteration consumes at least
    // one request, or passes `skip`.
    loop {
        let from = token.cpu.map_or(CpuId(0), |cpu| CpuId(cpu.0 + 1));
        token.cpu = overloaded.next_and(None, from); // [1] [2]
        if token.cpu.is_some() && token.cpu == skip {
            if is_new {
                passed_over = PassedOver::ForNewRequest;
            }
            continue;
        }
        if token.cpu.is_some() {
            return Advanced { next: token.cpu, passed_over };
        }
        let requested = domain.loop_next.load(Ordering::SeqCst);
        if token.round == requested {
            return Advanced { next: None, passed_over }; // [3]
        }
        token.round = requested; // [4]
        is_new = true;
    }
}

/// Starts this CPU's own chain, or makes its running chain start over.
pub(crate) fn start_chain<L: RawMutex>(rq: &Rq, cx: &mut Cx<'_, L>) {
    cx.io.costs.inner_locks += 1;
    let source = rq.cpu();
    let mut chain = cx.shared.chains[source.index()].lock();
    let at = cx.io.observer.cpu(|| match *chain {
        PushChain::Stopped => None,
        PushChain::At(cpu) | PushChain::Restart(cpu) => Some(cpu),
    });
    if let Some(cpu) = at {
        *chain = PushChain::Restart(cpu); // [7]
        return;
    }
    let first = next_in_chain(rq, cx, source, source);
    *chain = first.map_or(PushChain::Stopped, PushChain::At); // [5]
    drop(chain);
    if let Some(cpu) = first {
        send(rq, cx, cpu, Work::RtPushFor(source));
    }
}

/// Sends the chain of `source` on after this CPU has pushed one task for it; or pushes again, if a
/// restart leads back here.
pub(crate) fn pass_on_chain<L: RawMutex>(rq: &Rq, cx: &mut Cx<'_, L>, source: CpuId) -> Step {
    if cx.config.settings.rt_ipi_skip_pushing {
        cx.shared.asked.remove(rq.cpu()); // [13]
    }
    cx.io.costs.inner_locks += 1;
    let mut chain = cx.shared.chains[source.index()].lock();
    let restarted = cx.io.observer.flag(|| matches!(*chain, PushChain::Restart(_)));
    let from = if restarted { source } else { rq.cpu() }; // [8]
    let next = next_in_chain(rq, cx, source, from);
    *chain = next.map_or(PushChain::Stopped, PushChain::At); // [6] [9]
    drop(chain);
    match next {
        None => Step::Done,
        // [10] No IPI: the handler runs again. Every iteration was requested by the source.
        Some(cpu) if cpu == rq.cpu() => Step::Again { own: cpu, then: Cont::RtPush(AfterPush::PassOnChain(source)) },
        Some(cpu) => {
            send(rq, cx, cpu, Work::RtPushFor(source));
            Step::Done
        }
    }
}

/// Finds the next overloaded CPU after `from`, around the numbers until `source`, with a waiting
/// task that beats the source.
fn next_in_chain<L: RawMutex>(rq: &Rq, cx: &mut Cx<'_, L>, source: CpuId, from: CpuId) -> Option<CpuId> {
    let wanted = if rq.cpu() == source { rq.top_prio() } else { cx.view().prios(source).highest };
    let mut at = from;
    // Bounded by the CPUs of the mask, once around.
    loop {
        let wrapped = at.0 < source.0;
        let found = cx.view().next_overloaded(CpusetId(0), source, CpuId(at.0 + 1));
        at = match found {
            Some(cpu) if wrapped && cpu.0 >= source.0 => return None,
            Some(cpu) => cpu,
            None if wrapped || source.0 == 0 => return None,
            None => {
                let first = cx.view().next_overloaded(CpusetId(0), source, CpuId(0))?;
                if first.0 >= source.0 {
                    return None;
                }
                first
            }
        };
        cx.io.costs.cpus_scanned += 1;
        if cx.view().prios(at).pushable.beats(wanted) && may_ask(cx, at) {
            return Some(at);
        }
    }
}

/// Returns whether a chain may send a request to a CPU. The caller sends it then.
fn may_ask<L: RawMutex>(cx: &mut Cx<'_, L>, cpu: CpuId) -> bool {
    !cx.config.settings.rt_ipi_skip_pushing || cx.io.observer.flag(|| cx.shared.asked.claim(cpu)) // [12]
}

fn send<L: RawMutex>(rq: &Rq, cx: &mut Cx<'_, L>, to: CpuId, work: Work) {
    cx.io.op(Op::Ipi { cpu: to, work });
    cx.io.event(cx.now, rq.cpu(), || TraceEvent::IpiSend { to, reason: work.reason() });
}

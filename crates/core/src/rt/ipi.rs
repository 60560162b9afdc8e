//! Pulling by asking: the overloaded CPUs are interrupted and push by themselves.
//!
//! **`ipi_root_domain` (2017).** One IPI circulates per root domain. `loop_next` counts the CPUs that lowered their
//! priority; `loop_start` lets one of them start the IPI; the token under `rto` says where it is and which count the round
//! serves.
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
//! A CPU that lowers its priority while the IPI travels only raises `loop_next` and so makes [3] into [4].
//!
//! **`ipi_per_cpu` (2015).** Each CPU that lowers its priority runs a chain of its own through the overloaded CPUs, up
//! from its own number and around; each visit pushes one task. Lowering the priority again while the chain runs makes the
//! chain start over.
//!
//! ```text
//!            start_chain [5]            next overloaded CPU with a better task [6]
//!   Stopped ----------------> At(cpu) --------------------------------------------> At(next)
//!      ^                        | ^  start_chain again [7]: Restart(cpu); its end starts over from the source [8]
//!      +------------------------+ +--
//!            around once [9]     [10] the start over leads back to the CPU that the chain is at: it pushes again at once
//! ```
//!
//! Sources: 2017 text; Linux v4.1 `kernel/sched/rt.c` (`tell_cpu_to_push`, `try_to_push_tasks`, `find_next_push_cpu`),
//! v4.15 and v6.12 (`rto_start_trylock`, `rto_next_cpu`, `rto_push_irq_work_func`).

use crate::rq::{Cx, Rq};
use crate::shared::{PushChain, RootDomain, RtoToken};
use crate::step::{AfterPush, Cont, Op, Step, Work};
use crate::task::CpusetId;
use core::sync::atomic::Ordering;
use lock_api::RawMutex;
use zerolag_model::{CpuId, TraceEvent};

/// Asks for a round of the root domain's IPI: this CPU has lowered its priority.
///
/// differs: the kernel gives `loop_start` back and looks no more. Whoever raised `loop_next` in between and was refused
/// would be forgotten if the token was found to be nowhere; so it is looked at once more after giving back.
pub(crate) fn start<L: RawMutex>(rq: &Rq, cx: &mut Cx<'_, L>) {
    let skip = skipped(rq, cx);
    let domain = cx.shared.domain(rq.cpu);
    let overloaded = cx.shared.overload(CpusetId(0), rq.cpu);
    domain.loop_next.fetch_add(1, Ordering::SeqCst);
    cx.io.costs.rto_accesses += 1;
    // Each turn but the first answers a request that was refused during the one before.
    loop {
        cx.io.costs.rto_accesses += 1;
        let taken = cx
            .io
            .observer
            .flag(|| domain.loop_start.compare_exchange(0, 1, Ordering::SeqCst, Ordering::SeqCst).is_ok());
        if !taken {
            return; // Whoever has it looks again after giving it back.
        }
        cx.io.costs.rto_accesses += 1;
        let mut served = true;
        let first = cx.io.observer.cpu(|| {
            let mut token = domain.rto.lock();
            // [1] only if none circulates: one that does will see the raised `loop_next`.
            let first = if token.cpu.is_none() { advance(domain, &mut token, overloaded, skip) } else { None };
            domain.loop_start.store(0, Ordering::SeqCst);
            served = token.cpu.is_some() || token.round == domain.loop_next.load(Ordering::SeqCst);
            first
        });
        if let Some(cpu) = first {
            return send(rq, cx, cpu, Work::RtPush);
        }
        if cx.io.observer.flag(|| served) {
            return;
        }
    }
}

/// Sends the root domain's IPI on after this CPU has pushed.
pub(crate) fn pass_on<L: RawMutex>(rq: &Rq, cx: &mut Cx<'_, L>) {
    let skip = skipped(rq, cx);
    let domain = cx.shared.domain(rq.cpu);
    cx.io.costs.rto_accesses += 1;
    let next = cx.io.observer.cpu(|| {
        let mut token = domain.rto.lock();
        advance(domain, &mut token, cx.shared.overload(CpusetId(0), rq.cpu), skip)
    });
    if let Some(cpu) = next {
        send(rq, cx, cpu, Work::RtPush);
    }
}

/// Returns the CPU that is not to get the root domain's IPI: with `rt_ipi_skip_self` the one that would send it.
fn skipped<L: RawMutex>(rq: &Rq, cx: &Cx<'_, L>) -> Option<CpuId> {
    cx.config.settings.rt_ipi_skip_self.then_some(rq.cpu)
}

/// Moves the token to the next overloaded CPU: `rto_next_cpu`.
fn advance<L: RawMutex>(
    domain: &RootDomain<L>,
    token: &mut RtoToken,
    overloaded: &crate::atomic_mask::AtomicCpuMask,
    skip: Option<CpuId>,
) -> Option<CpuId> {
    // Ends when a whole round saw no new request; each further turn consumes at least one, or passes `skip`.
    loop {
        let from = token.cpu.map_or(CpuId(0), |cpu| CpuId(cpu.0 + 1));
        token.cpu = overloaded.next_and(Some(&domain.span), from); // [1] [2]
        if token.cpu.is_some() {
            if token.cpu == skip {
                continue;
            }
            return token.cpu;
        }
        let requested = domain.loop_next.load(Ordering::SeqCst);
        if token.round == requested {
            return None; // [3]
        }
        token.round = requested; // [4]
    }
}

/// Starts this CPU's own chain, or makes the one that runs start over.
pub(crate) fn start_chain<L: RawMutex>(rq: &Rq, cx: &mut Cx<'_, L>) {
    cx.io.costs.inner_locks += 1;
    let source = rq.cpu;
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

/// Sends the chain of `source` on after this CPU has pushed for it, once; or pushes again, if a restart leads back here.
pub(crate) fn pass_on_chain<L: RawMutex>(rq: &Rq, cx: &mut Cx<'_, L>, source: CpuId) -> Step {
    cx.io.costs.inner_locks += 1;
    let mut chain = cx.shared.chains[source.index()].lock();
    let restarted = cx.io.observer.flag(|| matches!(*chain, PushChain::Restart(_)));
    let from = if restarted { source } else { rq.cpu }; // [8]
    let next = next_in_chain(rq, cx, source, from);
    *chain = next.map_or(PushChain::Stopped, PushChain::At); // [6] [9]
    drop(chain);
    match next {
        None => Step::Done,
        // [10] No IPI: the handler goes round. Each turn was asked for by the source.
        Some(cpu) if cpu == rq.cpu => Step::Again { own: cpu, then: Cont::RtPush(AfterPush::PassOnChain(source)) },
        Some(cpu) => {
            send(rq, cx, cpu, Work::RtPushFor(source));
            Step::Done
        }
    }
}

/// Finds the next overloaded CPU after `from`, around the numbers until `source`, whose waiting task beats the source.
fn next_in_chain<L: RawMutex>(rq: &Rq, cx: &mut Cx<'_, L>, source: CpuId, from: CpuId) -> Option<CpuId> {
    let wanted = if rq.cpu == source { rq.top_prio() } else { cx.view().prios(source).highest };
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
        if cx.view().prios(at).pushable.beats(wanted) {
            return Some(at);
        }
    }
}

fn send<L: RawMutex>(rq: &Rq, cx: &mut Cx<'_, L>, to: CpuId, work: Work) {
    cx.io.op(Op::Ipi { cpu: to, work });
    cx.io.event(cx.now, rq.cpu, || TraceEvent::IpiSend { to, reason: work.reason() });
}

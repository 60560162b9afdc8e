use crate::monitors::tests::{breaks, holds, not_applicable};
use zerolag_model::event::{Disables, IpiReason, Irq};
use zerolag_model::{
    CpuId, CpuLayer, Duration, FairPolicy, MigrateReason, Nice, PrevState, Prio, SchedAttr, ServerKind, ServerState,
    TaskId, TraceEvent,
};
use zerolag_trace::Source;
use zerolag_trace::script::Script;

/// CPU 0 runs `r` (FIFO 5), CPU 1 runs `a` (fair); `t` (FIFO 3) waits on CPU 0 from 10 on.
fn overloaded() -> Script {
    let mut script = Script::new(2);
    let (r, a, t) = (script.fifo("r", 5), script.fair("a"), script.fifo("t", 3));
    script.wake(0, 0, r).run(0, 0, None, Some(r)).wake(0, 1, a).run(0, 1, None, Some(a)).wake(10, 0, t);
    script
}

const NOT_PUSHED: &str =
    "nothing happens for 990us, t (task 2) waits on cpu 0, and cpu 1, which it may use, runs a (task 1)";

#[test]
fn a_task_that_is_pushed_holds_and_one_that_is_not_breaks() {
    breaks("rt-quiescence", &overloaded().end(1000), NOT_PUSHED);
    let mut pushed = overloaded();
    let (a, t) = (TaskId(1), TaskId(2));
    pushed.migrate(10, t, 0, 1, MigrateReason::Push).preempt(10, 1, a, t);
    holds("rt-quiescence", &pushed.end(1000));
}

/// `a` has disabled preemption from 5 to 600: CPU 1 keeps it until then, and not longer.
#[test]
fn a_section_keeps_its_cpu_and_its_end_is_the_time_to_switch() {
    let mut script = overloaded();
    let a = TaskId(1);
    script.event(5, 1, TraceEvent::NoPreempt { task: a, disables: Some(Disables::Preemption) });
    let trace = script.clone().end(1000);
    holds("rt-quiescence", &trace);
    let report = crate::check(&trace, &crate::Options::default());
    let own = "a task has disabled preemption, and its CPU runs nothing else";
    assert!(report.not_judged_by("rt-quiescence").all(|part| part.reason != own), "t waits on CPU 0");
    script.event(600, 1, TraceEvent::NoPreempt { task: a, disables: None });
    script.event(1000, 1, TraceEvent::NeedResched { by: CpuId(1) });
    breaks("rt-quiescence", &script.end(1001), NOT_PUSHED);
}

/// A push IPI was sent to CPU 0, which is in a handler. Once it is served, it hides nothing.
#[test]
fn a_push_ipi_that_waits_for_a_handler_is_given_time() {
    let mut script = overloaded();
    script.event(8, 0, TraceEvent::IrqEnter { irq: Irq::Device });
    let push = TraceEvent::IpiSend { to: CpuId(0), reason: IpiReason::RtPush };
    script.event(10, 1, push);
    holds("rt-quiescence", &script.clone().end(1000));
    script.event(10, 0, TraceEvent::IrqExit { irq: Irq::Device });
    script.event(10, 0, TraceEvent::IrqEnter { irq: Irq::Ipi }).event(10, 0, TraceEvent::IrqExit { irq: Irq::Ipi });
    breaks("rt-quiescence", &script.end(1000), NOT_PUSHED);
}

/// A server runs `a` although `t` waits on that CPU, and `a` inherits a priority: nothing
/// pushes `t` in this turn.
#[test]
fn a_task_that_was_about_to_run_waits_for_the_turn_of_the_server() {
    let lent = SchedAttr::fifo_at(9).prio();
    let inherits = |has_server: bool| {
        let mut script = Script::new(2);
        let (a, t) = (script.fair("a"), script.fifo("t", 3));
        if has_server {
            let state = ServerState::Queued { deadline: zerolag_model::Instant::FAR_FUTURE };
            script.event(0, 0, TraceEvent::Server { kind: ServerKind::Fair, state });
        }
        script.wake(0, 0, a).run(0, 0, None, Some(a)).wake(10, 0, t);
        script.event(20, 0, TraceEvent::PrioInherit { task: a, from: Prio::FIRST_FAIR, to: lent });
        script
    };
    holds("rt-quiescence", &inherits(true).end(1000));
    let says = "nothing happens for 980us, t (task 1) waits on cpu 0, and cpu 1, which it may use, runs nothing";
    breaks("rt-quiescence", &inherits(false).end(1000), says);
    let mut next = inherits(true);
    let a = TaskId(0);
    let next_prio = lent;
    let again = TraceEvent::Switch { prev: None, prev_state: PrevState::Runnable, next: Some(a), next_prio };
    next.switch(600, 0, Some(a), PrevState::Runnable, None).event(601, 0, again);
    let says = "nothing happens for 399us, t (task 1) waits on cpu 0, and cpu 1, which it may use, runs nothing";
    breaks("rt-quiescence", &next.end(1000), says);
}

/// A push IPI is sent while CPU 0 serves another interrupt, and arrives when interrupts are
/// disabled there.
#[test]
fn a_push_ipi_that_has_not_arrived_outlives_the_handler_before() {
    let sent = |is_served: bool| {
        let mut script = overloaded();
        let off = |disables| TraceEvent::NoPreempt { task: TaskId(0), disables };
        let [enter, exit] = [TraceEvent::IrqEnter { irq: Irq::Ipi }, TraceEvent::IrqExit { irq: Irq::Ipi }];
        script.event(10, 0, enter.clone());
        script.event(10, 1, TraceEvent::IpiSend { to: CpuId(0), reason: IpiReason::RtPush });
        script.event(10, 0, exit.clone());
        if is_served {
            script.event(10, 0, enter).event(10, 0, exit);
        }
        script.event(10, 0, off(Some(Disables::Interrupts))).end(1000)
    };
    let judged = |is_served| {
        let report = crate::check(&sent(is_served), &crate::Options::default());
        let own = "a push IPI waits for the end of an interrupt or of a section";
        report.not_judged_by("rt-quiescence").all(|part| part.reason != own)
    };
    assert!(!judged(false));
    assert!(judged(true));
}

/// CPU 0 begins to serve an earlier IPI after a push IPI was sent. That one arrives when
/// interrupts are disabled there.
#[test]
fn a_push_ipi_outlives_the_handler_of_an_earlier_one() {
    let sent = |has_earlier: bool| {
        let mut script = overloaded();
        let off = |disables| TraceEvent::NoPreempt { task: TaskId(0), disables };
        let ipi = |reason| TraceEvent::IpiSend { to: CpuId(0), reason };
        if has_earlier {
            script.event(9, 1, ipi(IpiReason::Resched));
        }
        script.event(10, 1, ipi(IpiReason::RtPush));
        script.event(10, 0, TraceEvent::IrqEnter { irq: Irq::Ipi });
        script.event(10, 0, TraceEvent::IrqExit { irq: Irq::Ipi });
        script.event(10, 0, off(Some(Disables::Interrupts))).end(1000)
    };
    let judged = |has_earlier| {
        let report = crate::check(&sent(has_earlier), &crate::Options::default());
        let own = "a push IPI waits for the end of an interrupt or of a section";
        report.not_judged_by("rt-quiescence").all(|part| part.reason != own)
    };
    assert!(!judged(true));
    assert!(judged(false));
}

#[test]
fn a_cpu_in_a_handler_holds_until_it_had_time_to_act() {
    let handler = |ends| {
        let mut script = overloaded();
        let (enter, exit) = (TraceEvent::IrqEnter { irq: Irq::Device }, TraceEvent::IrqExit { irq: Irq::Device });
        script.event(5, 1, enter).event(ends, 1, exit);
        script.end(1000)
    };
    holds("rt-quiescence", &handler(1000));
    breaks("rt-quiescence", &handler(100), NOT_PUSHED);
}

/// The CPU that would push stands still.
#[test]
fn nothing_is_quiet_while_a_cpu_stands_still() {
    for irq in [Irq::Hardware, Irq::Stolen] {
        let stands = |ends| {
            let mut script = overloaded();
            script.event(5, 0, TraceEvent::IrqEnter { irq }).event(ends, 0, TraceEvent::IrqExit { irq });
            script.end(1000)
        };
        holds("rt-quiescence", &stands(1000));
        breaks("rt-quiescence", &stands(100), &NOT_PUSHED.replace("990us", "900us"));
    }
}

/// CPU 1 is throttled, and its task has become real-time since: `t` would wait there too.
#[test]
fn a_throttled_cpu_is_no_place_until_its_throttling_ends() {
    let mut script = overloaded();
    let one = zerolag_model::RtPriority::new(1).expect("in range");
    let (task, attr) = (TaskId(1), SchedAttr::fifo(one));
    script.event(0, 1, TraceEvent::RtThrottle { throttled: true }).event(5, 1, TraceEvent::AttrChange { task, attr });
    holds("rt-quiescence", &script.clone().end(1000));
    script.event(10, 1, TraceEvent::RtThrottle { throttled: false });
    breaks("rt-quiescence", &script.end(1000), NOT_PUSHED);
}

#[test]
fn a_higher_task_behind_a_lower_one_on_its_own_cpu_breaks() {
    let mut script = Script::new(1);
    let (low, high) = (script.fifo("low", 3), script.fifo("high", 5));
    script.wake(0, 0, low).run(0, 0, None, Some(low)).wake(10, 0, high);
    breaks(
        "rt-quiescence",
        &script.end(1000),
        "nothing happens for 990us, high (task 1) waits on cpu 0, and cpu 0, which it may use, runs low (task 0)",
    );
    breaks(
        "rt-quiescence",
        &{
            script.meta.source = Source::Linux;
            script.end(10_000)
        },
        "nothing happens for 9.99ms, high (task 1) waits on cpu 0, and cpu 0, which it may use, runs low (task 0)",
    );
}

/// Another CPU idles, but a pull leaves a task alone that is more urgent than what its CPU runs.
#[test]
fn a_lost_request_is_behind_a_cpu_that_does_not_pull() {
    let faults = |known: &str| {
        let mut script = Script::new(2);
        let running = script.fair("r");
        let t = script.fifo("t", 5);
        script.wake(0, 0, running).run(0, 0, None, Some(running)).wake(10, 0, t);
        script.meta.settings.push(("fair_server.resched_lost".to_owned(), known.to_owned()));
        let report = crate::check(&script.end(1000), &crate::Options::default());
        assert!(!report.is_clean(), "{report}");
        report.faults()
    };
    assert_eq!(faults("on"), Some(vec!["fault.fair_server_resched_lost"]));
    assert_eq!(faults("off"), None);
}

/// A task that runs on by the fault of 6.12, a fair one or of a loaded scheduler, inherits a
/// priority, and no switch follows.
#[test]
fn a_lost_request_names_the_fault_also_if_the_task_inherits() {
    let faults = |own: &str| {
        let mut script = Script::new(1);
        let running = match own {
            "fair" => script.fair("r"),
            "ext" => script.task("r", SchedAttr::Ext { policy: FairPolicy::Ext, nice: Nice::ZERO, slice: None }),
            _ => script.fifo("r", 2),
        };
        let t = script.fifo("t", 5);
        script.wake(0, 0, running).run(0, 0, None, Some(running)).wake(10, 0, t);
        let (from, to) = (Prio::from_raw(120), Prio::from_raw(96));
        script.event(10, 0, TraceEvent::PrioInherit { task: running, from, to });
        script.meta.settings.push(("fair_server.resched_lost".to_owned(), "on".to_owned()));
        crate::check(&script.end(1000), &crate::Options::default()).faults()
    };
    assert_eq!(faults("fair"), Some(vec!["fault.fair_server_resched_lost"]));
    assert_eq!(faults("ext"), Some(vec!["fault.fair_server_resched_lost"]));
    assert_eq!(faults("fifo"), None);
}

#[test]
fn affinity_limits_the_moves() {
    let mut script = overloaded();
    script.affinity(10, TaskId(2), "0");
    holds("rt-quiescence", &script.end(1000));
}

#[test]
fn a_root_domain_limits_the_moves() {
    let mut script = overloaded();
    script.event(0, 1, TraceEvent::RootDomain { domain: 1 });
    holds("rt-quiescence", &script.clone().end(1000));
    script.event(10, 0, TraceEvent::RootDomain { domain: 1 });
    breaks("rt-quiescence", &script.end(1000), NOT_PUSHED);
}

#[test]
fn time_to_settle_is_given_and_no_more() {
    let mut script = overloaded();
    "default".clone_into(&mut script.meta.costs);
    let mut late = script.clone();
    let t = TaskId(2);
    script.migrate(60, t, 0, 1, MigrateReason::Push).preempt(60, 1, TaskId(1), t);
    holds("rt-quiescence", &script.end(1000));
    late.migrate(61, t, 0, 1, MigrateReason::Push).preempt(61, 1, TaskId(1), t);
    breaks(
        "rt-quiescence",
        &late.end(1000),
        "nothing happens for 51us, t (task 2) waits on cpu 0, and cpu 1, which it may use, runs a (task 1)",
    );
}

#[test]
fn a_cpu_that_was_asked_has_its_grace() {
    let mut script = overloaded();
    script.event(10, 1, TraceEvent::NeedResched { by: CpuId(0) });
    let says = |quiet| {
        format!("nothing happens for {quiet}, t (task 2) waits on cpu 0, and cpu 1, which it may use, runs a (task 1)")
    };
    // Without preemption in the kernel, `a` can be in a long section of it.
    script.meta.settings.push(("preempt".to_owned(), "voluntary".to_owned()));
    holds("rt-quiescence", &script.clone().end(100_000));
    breaks("rt-quiescence", &script.clone().end(100_011), &says("100.001ms"));
    script.meta.settings.push(("preempt".to_owned(), "full".to_owned()));
    holds("rt-quiescence", &script.clone().end(1000));
    breaks("rt-quiescence", &script.end(1011), &says("1.001ms"));
}

#[test]
fn the_named_holes_are_open_only_where_they_are_named() {
    // `s` (FIFO 4) may use CPUs 0 and 2 only, where equal or more urgent tasks run; `t` is
    // behind it.
    let mut script = Script::new(3);
    let (r, a, t, s, q) =
        (script.fifo("r", 5), script.fair("a"), script.fifo("t", 3), script.fifo("s", 4), script.fifo("q", 9));
    script.affinity(0, s, "0,2").wake(0, 2, q).run(0, 2, None, Some(q));
    script.wake(0, 0, r).run(0, 0, None, Some(r)).wake(0, 1, a).run(0, 1, None, Some(a)).wake(10, 0, s).wake(10, 0, t);
    holds("rt-quiescence", &script.end(1000));
    script.meta.settings.push(("rt_push_skip_stuck".to_owned(), "on".to_owned()));
    breaks("rt-quiescence", &script.end(1000), NOT_PUSHED);

    // `t` waits for the end of the service of `f`; no CPU takes it, and it must run afterwards.
    let mut served = Script::new(2);
    let (f, a, t) = (served.fair("f"), served.fair("a"), served.fifo("t", 3));
    served.wake(0, 0, f).run(0, 0, None, Some(f)).wake(0, 1, a).run(0, 1, None, Some(a)).wake(10, 0, t);
    let state = ServerState::Queued { deadline: zerolag_model::Instant::FAR_FUTURE };
    served.event(10, 0, TraceEvent::Server { kind: ServerKind::Fair, state });
    holds("rt-quiescence", &served.clone().end(1000));
    served.event(10, 0, TraceEvent::Server { kind: ServerKind::Fair, state: ServerState::Stopped });
    let late = "nothing happens for 990us, t (task 2) waits on cpu 0, and cpu 0, which it may use, runs f (task 0)";
    breaks("rt-quiescence", &served.end(1000), late);

    // `s` may use CPUs 0 and 2 only, where a server runs `f`: it is stuck, and `t` behind it.
    let mut avoided = Script::new(3);
    let (r, a, t, s, f) =
        (avoided.fifo("r", 5), avoided.fair("a"), avoided.fifo("t", 3), avoided.fifo("s", 4), avoided.fair("f"));
    avoided.affinity(0, s, "0,2").wake(0, 2, f).run(0, 2, None, Some(f)).wake(0, 0, r).run(0, 0, None, Some(r));
    avoided.wake(0, 1, a).run(0, 1, None, Some(a)).wake(10, 0, s).wake(10, 0, t);
    let by_server = |state| {
        let mut script = avoided.clone();
        script.event(10, 2, TraceEvent::Server { kind: ServerKind::Fair, state });
        script.end(1000)
    };
    holds("rt-quiescence", &by_server(ServerState::Queued { deadline: zerolag_model::Instant::FAR_FUTURE }));
    breaks("rt-quiescence", &by_server(ServerState::Stopped), NOT_PUSHED);

    let mut passive = overloaded();
    passive.meta.settings.push(("rt_balance".to_owned(), "passive".to_owned()));
    not_applicable("rt-quiescence", &passive.end(1000), "rt_balance = passive does not promise it");
    let mut server = overloaded();
    let state = ServerState::Queued { deadline: zerolag_model::Instant::FAR_FUTURE };
    server.event(10, 1, TraceEvent::Server { kind: ServerKind::Fair, state });
    holds("rt-quiescence", &server.end(1000));
    server.event(10, 1, TraceEvent::Server { kind: ServerKind::Fair, state: ServerState::Stopped });
    breaks("rt-quiescence", &server.end(1000), NOT_PUSHED);
}

/// `s` (FIFO 4) may use CPUs 0 and 2 only and hides `t` behind it. CPU 2 pulls `s` when `q`
/// blocks there; CPU 0 pushes `t` when it switches next, and not before.
#[test]
fn a_task_behind_a_stuck_one_that_was_pulled_waits_for_a_switch() {
    let pulled = |reason| {
        let mut script = Script::new(3);
        let (r, a, t, s, q) =
            (script.fifo("r", 5), script.fair("a"), script.fifo("t", 3), script.fifo("s", 4), script.fifo("q", 9));
        let next = script.fifo("next", 9);
        script.affinity(0, s, "0,2").affinity(0, next, "0").wake(0, 2, q).run(0, 2, None, Some(q));
        script.wake(0, 0, r).run(0, 0, None, Some(r)).wake(0, 1, a).run(0, 1, None, Some(a));
        script.wake(10, 0, s).wake(10, 0, t);
        script.migrate(500, s, 0, 2, reason).run(500, 2, Some(q), Some(s));
        (script, r, next)
    };
    let says = "nothing happens for 500us, t (task 2) waits on cpu 0, and cpu 1, which it may use, runs a (task 1)";
    let (mut script, r, next) = pulled(MigrateReason::Pull);
    holds("rt-quiescence", &script.end(1000));
    script.wake(1000, 0, next).preempt(1000, 0, r, next);
    breaks("rt-quiescence", &script.end(1500), says);
    // A push goes on with the next task, except by an IPI that pushes one.
    let (mut script, ..) = pulled(MigrateReason::Push);
    breaks("rt-quiescence", &script.end(1000), says);
    script.meta.settings.push(("rt_balance".to_owned(), "ipi_per_cpu".to_owned()));
    holds("rt-quiescence", &script.end(1000));
}

/// CPUs 1 and 2 become idle together. An IPI pushes `s`, and another one is needed for `t`,
/// also if pushes pass over stuck tasks.
#[test]
fn an_ipi_that_pushes_one_task_leaves_the_next() {
    let pushed = |balance: &str| {
        let mut script = Script::new(3);
        let (r, s, t) = (script.fifo("r", 5), script.fifo("s", 4), script.fifo("t", 3));
        let (p, q) = (script.fifo("p", 9), script.fifo("q", 9));
        script.wake(0, 0, r).run(0, 0, None, Some(r)).wake(0, 1, p).run(0, 1, None, Some(p));
        script.wake(0, 2, q).run(0, 2, None, Some(q)).wake(10, 0, s).wake(10, 0, t);
        script.run(500, 1, Some(p), None).migrate(500, s, 0, 2, MigrateReason::Push).run(500, 2, Some(q), Some(s));
        for (key, value) in [("rt_balance", balance), ("rt_push_skip_stuck", "on")] {
            script.meta.settings.push((key.to_owned(), value.to_owned()));
        }
        script.end(1000)
    };
    holds("rt-quiescence", &pushed("ipi_per_cpu"));
    let says = "nothing happens for 500us, t (task 2) waits on cpu 0, and cpu 1, which it may use, runs nothing";
    breaks("rt-quiescence", &pushed("ipi_per_domain"), says);
}

/// `s` may use CPUs 0 and 2 only. CPU 2 runs `f`, which is in the kernel, and is about to run
/// `h`: it is no place for `s`, and `t` is behind that.
#[test]
fn a_cpu_that_is_about_to_run_a_more_urgent_task_is_no_place() {
    let beside = |urgent: i64| {
        let mut script = Script::new(3);
        let (r, a, t, s, f) =
            (script.fifo("r", 5), script.fair("a"), script.fifo("t", 3), script.fifo("s", 4), script.fair("f"));
        let h = script.fifo("h", urgent);
        script.affinity(0, s, "0,2").affinity(0, h, "2").wake(0, 2, f).run(0, 2, None, Some(f));
        script.wake(0, 0, r).run(0, 0, None, Some(r)).wake(0, 1, a).run(0, 1, None, Some(a));
        script.wake(10, 0, s).wake(10, 0, t);
        script.event(10, 2, TraceEvent::NeedResched { by: CpuId(2) }).wake(10, 2, h);
        script.end(1000)
    };
    holds("rt-quiescence", &beside(9));
    breaks("rt-quiescence", &beside(1), NOT_PUSHED);
}

/// `s` (FIFO 4) may use CPU 0 and the busy CPU 2 only, and hides `t` behind it. It becomes
/// fair: no push follows before CPU 0 switches. A change of the running task hides nothing.
#[test]
fn a_task_behind_a_stuck_one_that_changes_waits_for_a_switch() {
    let mut script = Script::new(3);
    let (r, a, t, s, q) =
        (script.fifo("r", 5), script.fair("a"), script.fifo("t", 3), script.fifo("s", 4), script.fifo("q", 9));
    let next = script.fifo("next", 9);
    script.affinity(0, s, "0,2").affinity(0, next, "0").wake(0, 2, q).run(0, 2, None, Some(q));
    script.wake(0, 0, r).run(0, 0, None, Some(r)).wake(0, 1, a).run(0, 1, None, Some(a));
    script.wake(10, 0, s).wake(10, 0, t);
    script.event(500, 0, TraceEvent::AttrChange { task: s, attr: SchedAttr::NORMAL });
    holds("rt-quiescence", &script.end(1000));
    let says = "nothing happens for 500us, t (task 2) waits on cpu 0, and cpu 1, which it may use, runs a (task 1)";
    script.wake(1000, 0, next).preempt(1000, 0, r, next);
    breaks("rt-quiescence", &script.end(1500), says);

    let mut running = overloaded();
    let four = zerolag_model::RtPriority::new(4).expect("in range");
    let (task, attr) = (TaskId(0), SchedAttr::fifo(four));
    running.event(500, 0, TraceEvent::AttrChange { task, attr });
    breaks("rt-quiescence", &running.end(1000), says);
}

/// `d` preempts `r` on CPU 0 at 100. CPU 1 idles, from the start or after `urgent`.
fn preempted_by_a_deadline_task(urgent_until: Option<u64>) -> Script {
    let mut script = Script::new(2);
    let r = script.fifo("r", 5);
    let [runtime, period] = [1, 10].map(Duration::from_millis);
    let d = script.task("d", SchedAttr::Deadline(zerolag_model::DlParams::new(runtime, period, period)));
    let urgent = script.fifo("urgent", 9);
    script.wake(0, 0, r).run(0, 0, None, Some(r));
    if urgent_until.is_some() {
        script.wake(0, 1, urgent).run(0, 1, None, Some(urgent));
    }
    script.wake(100, 0, d).preempt(100, 0, r, d);
    if let Some(until) = urgent_until {
        script.run(until, 1, Some(urgent), None);
    }
    script
}

#[test]
fn what_a_deadline_task_preempts_stays_until_another_cpu_becomes_less_urgent() {
    holds("rt-quiescence", &preempted_by_a_deadline_task(None).end(1000));
    let says = "nothing happens for 800us, r (task 0) waits on cpu 0, and cpu 1, which it may use, runs nothing";
    breaks("rt-quiescence", &preempted_by_a_deadline_task(Some(200)).end(1000), says);
}

/// A wakeup pushes, also where a deadline task runs.
#[test]
fn a_task_that_wakes_behind_a_deadline_task_is_pushed() {
    let mut script = preempted_by_a_deadline_task(None);
    let late = script.fifo("late", 3);
    script.wake(200, 0, late);
    let says = "nothing happens for 800us, late (task 3) waits on cpu 0, and cpu 1, which it may use, runs nothing";
    breaks("rt-quiescence", &script.end(1000), says);
}

std::thread_local! {
    /// The looks of all monitors of a test.
    pub(super) static LOOKS: std::rc::Rc<core::cell::Cell<u64>> = std::rc::Rc::default();
}

/// `a` is in the kernel, and `b` waits for it for 150 ms. The times of the CPU say so.
#[test]
fn a_long_stay_in_the_kernel_is_believed_if_the_times_say_so() {
    let kept = |kernel_ms: u64| {
        let mut script = Script::new(1);
        script.meta.settings.push(("preempt".to_owned(), "voluntary".to_owned()));
        let (a, b) = (script.fair("a"), script.fifo("b", 10));
        script.wake(0, 0, a).run(0, 0, None, Some(a)).wake(10, 0, b);
        script.event(10, 0, TraceEvent::NeedResched { by: CpuId(0) });
        let mut times = zerolag_model::LayerTimes::default();
        let ms = Duration::from_millis;
        times.charge(CpuLayer::Kernel, ms(kernel_ms));
        times.charge(CpuLayer::User, ms(150 - kernel_ms));
        script.event(150_000, 0, TraceEvent::CpuTotals { times });
        script.end(150_000)
    };
    holds("rt-quiescence", &kept(150));
    let late = "nothing happens for 149.99ms, b (task 1) waits on cpu 0, and cpu 0, which it may use, runs a (task 0)";
    breaks("rt-quiescence", &kept(149), late);
}

/// Real-time tasks wait for one CPU, to which they are bound, and other CPUs idle.
#[test]
fn bound_tasks_cost_a_look_each() {
    let looks = |tasks: u64, cpus: u32, times: u64| {
        let mut script = Script::new(cpus);
        let waiting: Vec<TaskId> = (0..tasks).map(|nth| script.fifo(&format!("t{nth}"), 5)).collect();
        for task in &waiting {
            script.affinity(0, *task, "0").wake(0, 0, *task);
        }
        script.run(0, 0, None, Some(waiting[0]));
        for nth in 1..=times {
            let (prev, next) = (waiting[(nth - 1) as usize % waiting.len()], waiting[nth as usize % waiting.len()]);
            script.preempt(nth * 1000, 0, prev, next);
        }
        LOOKS.with(|looks| looks.set(0));
        holds("rt-quiescence", &script.end((times + 1) * 1000));
        LOOKS.with(|looks| looks.get())
    };
    // One per judgement, however many tasks and CPUs there are.
    assert_eq!(looks(60, 64, 100), looks(2, 2, 100));
    assert!((1..=101).contains(&looks(60, 64, 100)));
}

/// The priority of a waiting task falls, which a recorder shows when the task runs.
#[test]
fn a_priority_that_a_recording_has_not_told_is_not_judged() {
    let recorded = |changes: bool| {
        let mut script = Script::new(1);
        let (hog, b, c) = (script.fifo("hog", 50), script.fifo("b", 40), script.fifo("c", 30));
        script.wake(0, 0, hog).run(0, 0, None, Some(hog)).wake(10, 0, b).wake(10, 0, c);
        script.run(20_000, 0, Some(hog), Some(c));
        if changes {
            let fifo = |priority| SchedAttr::fifo(zerolag_model::RtPriority::new(priority).expect("in range"));
            script.event(40_000, 0, TraceEvent::AttrChange { task: b, attr: fifo(20) });
        }
        script.run(40_000, 0, Some(c), Some(b));
        let mut trace = script.end(50_000);
        trace.meta.source = Source::Text;
        trace.meta.settings = [("fair_server", "off"), ("rt_throttling", "off"), ("preempt", "full")]
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .to_vec();
        trace
    };
    holds("rt-quiescence", &recorded(true));
    holds("rt-order", &recorded(true));
    breaks(
        "rt-order",
        &recorded(false),
        "cpu 0 switches to c (task 2) of priority 69, but b (task 1) of priority 59 is queued there (or its group has used its \
         cpu.rt_runtime_us)",
    );
    let says = "nothing happens for 20ms, b (task 1) waits on cpu 0, and cpu 0, which it may use, runs c (task 2)";
    breaks("rt-quiescence", &recorded(false), says);
}

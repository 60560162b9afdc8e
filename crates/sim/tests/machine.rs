//! The machine by itself: time is conserved, the same run gives the same bytes, tracing changes
//! nothing, no task is lost.

use std::sync::Arc;
use zerolag_model::event::Irq;
use zerolag_model::{
    CpuId, CpuLayer, CpuMask, Duration, Instant, KernelVersion, Mark, Record, SchedAttr, Settings, TaskId, Topology,
    TraceEvent,
};
use zerolag_sim::{Costs, End, Machine, MachineConfig, NoTrace, Outcome, Tracing};
use zerolag_workload::interrupt::InterruptDef;
use zerolag_workload::program::{Action, Program, Resource, ResourceId, ResourceKind, TaskDef, TimerMode, TimerRef};
use zerolag_workload::random::Dist;

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

fn run_for(time: Duration) -> Action {
    Action::Run(Dist::Constant(time))
}

fn fifo(priority: i64) -> SchedAttr {
    SchedAttr::fifo_at(priority)
}

fn task(name: &str, attr: SchedAttr, turns: Option<u64>, actions: Vec<Action>) -> TaskDef {
    TaskDef { turns, ..TaskDef::looping(name, attr, actions) }
}

fn periodic(name: &str, attr: SchedAttr, work: Duration, period: Duration) -> TaskDef {
    let timer = Action::Timer { timer: TimerRef::Own(0), period: Dist::Constant(period), mode: TimerMode::Absolute };
    task(name, attr, None, vec![run_for(work), timer])
}

fn resources(kinds: &[(&str, ResourceKind)]) -> Vec<Resource> {
    kinds.iter().map(|(name, kind)| Resource { name: (*name).into(), kind: kind.clone() }).collect()
}

fn config(cpus: u32, costs: Costs) -> MachineConfig {
    MachineConfig {
        topology: Topology::flat(cpus).expect("cpus"),
        settings: KernelVersion::default().settings(),
        costs,
        seed: 7,
        duration: Some(ms(500)),
    }
}

fn run(program: &Program, config: &MachineConfig) -> (Outcome, Vec<Record>) {
    let mut records = Vec::new();
    let mut machine = Machine::new(Arc::new(program.clone()), config, Tracing::On).expect("a machine");
    let outcome = machine.run(&mut records);
    (outcome, records)
}

/// A bit of everything: FIFO and fair periodic tasks, hogs, a contended lock, random work.
fn mixed() -> Program {
    let random = Dist::uniform(Duration::from_micros(100), ms(3)).expect("a distribution");
    let lock = ResourceId(0);
    let mut tasks = vec![
        periodic("audio", fifo(50), ms(1), ms(5)),
        periodic("control", fifo(60), Duration::from_micros(300), ms(2)),
        task("hog", SchedAttr::NORMAL, None, vec![run_for(Duration::from_secs(100))]),
        task("random", SchedAttr::NORMAL, None, vec![Action::Run(random.clone()), Action::Sleep(random)]),
    ];
    for name in ["locker", "rival"] {
        let actions = vec![
            Action::Lock(lock),
            run_for(ms(1)),
            Action::Unlock(lock),
            Action::Kernel(Dist::Constant(Duration::from_micros(50))),
            Action::Sleep(Dist::Constant(Duration::from_micros(700))),
        ];
        tasks.push(task(name, SchedAttr::NORMAL, None, actions));
    }
    Program { tasks, resources: resources(&[("lock", ResourceKind::Mutex { inherit: true })]), ..Program::default() }
}

fn assert_time_is_conserved(outcome: &Outcome, records: &[Record], cpus: usize) {
    let totals: Vec<_> = records
        .iter()
        .filter_map(|record| match record.event {
            TraceEvent::CpuTotals { times } => Some(times),
            _ => None,
        })
        .collect();
    assert_eq!(totals.len(), cpus);
    for times in totals {
        assert_eq!(times.total(), outcome.end.since(Instant::ZERO));
    }
}

#[test]
fn layers_add_up_to_the_elapsed_time_under_every_profile_and_machine() {
    for costs in [Costs::zero(), Costs::server()] {
        for cpus in [1, 2, 3, 8] {
            let (outcome, records) = run(&mixed(), &config(cpus, costs.clone()));
            assert_eq!(outcome.why, End::Duration);
            assert_time_is_conserved(&outcome, &records, cpus as usize);
        }
    }
}

#[test]
fn smt_siblings_share_their_core() {
    let hog = |name| task(name, SchedAttr::NORMAL, Some(1), vec![run_for(ms(100))]);
    let program = Program { tasks: vec![hog("a"), hog("b")], ..Program::default() };
    let mut config = config(2, Costs { smt_speed_percent: 50, ..Costs::zero() });
    config.topology = Topology::new(1, 1, 1, 2).expect("one core");
    let (outcome, records) = run(&program, &config);
    assert_eq!((outcome.why.clone(), outcome.end), (End::Finished, Instant::ZERO + ms(200)));
    assert_time_is_conserved(&outcome, &records, 2);
}

#[test]
fn the_same_run_gives_the_same_records_and_tracing_changes_nothing() {
    for version in KernelVersion::ALL {
        let mut config = config(3, Costs::server());
        config.settings = version.settings();
        let (first, records) = run(&mixed(), &config);
        let (second, again) = run(&mixed(), &config);
        assert_eq!(first, second, "{version}");
        assert!(records == again, "{version}: the records differ");
        let untraced = Machine::new(Arc::new(mixed()), &config, Tracing::Off).expect("a machine").run(&mut NoTrace);
        assert_eq!(first.end, untraced.end, "{version}");
        assert_eq!(first.stats.switches, untraced.stats.switches, "{version}");
        assert_eq!(first.stats.completions, untraced.stats.completions, "{version}");
    }
}

/// Handlers wake tasks between `irq_enter` and `irq_exit`, and under `irq_time_accounting` all that
/// is no task's time: a reader of the trace must see it.
#[test]
fn a_handler_ends_behind_the_wakeups_that_it_makes() {
    let us = Duration::from_micros;
    let tasks = vec![
        task("hog", SchedAttr::NORMAL, None, vec![run_for(Duration::from_secs(100))]),
        periodic("audio", fifo(50), us(100), ms(3)),
    ];
    let program = Program { tasks, ..Program::default() };
    let lengths = |costs: Costs| {
        let (_, records) = run(&program, &config(1, costs));
        let (mut lengths, mut open) = (Vec::new(), Vec::new());
        for record in &records {
            match record.event {
                TraceEvent::IrqEnter { irq } => open.push((irq, record.at, 0)),
                TraceEvent::Wakeup { .. } => open.iter_mut().rev().take(1).for_each(|(.., wakeups)| *wakeups += 1),
                TraceEvent::IrqExit { irq } => {
                    let first = open.iter().position(|(of, ..)| *of == irq).expect("it begins before it ends");
                    let (_, since, wakeups) = open.remove(first);
                    lengths.extend((wakeups == 1).then(|| record.at.since(since)));
                }
                _ => {}
            }
        }
        lengths
    };
    for (entry, length) in [(us(0), us(9)), (us(2), us(11))] {
        let costs = Costs { wakeup_local: us(9), timer_irq: entry, ..Costs::zero() };
        let lengths = lengths(costs);
        assert!(lengths.len() > 150 && lengths.iter().all(|each| *each == length), "{lengths:?}");
    }
    assert!(lengths(Costs::zero()).is_empty(), "no entry where nothing takes time");
}

/// A handler that takes no time on a CPU that leaves its idle state first is not in the trace; its
/// softirq is.
#[test]
fn a_handler_ends_only_if_it_has_begun() {
    let us = |time| Dist::Constant(Duration::from_micros(time));
    for handler in [0, 3] {
        let line = InterruptDef::on("eth", CpuId(0), us(700), us(handler));
        let program = Program { interrupts: vec![line.raising(us(10))], ..mixed() };
        for costs in [Costs::zero(), Costs::server()] {
            let (_, records) = run(&program, &config(2, costs));
            let mut open = Vec::new();
            for record in &records {
                match record.event {
                    TraceEvent::IrqEnter { irq } => open.push((record.cpu, irq)),
                    TraceEvent::IrqExit { irq } => {
                        let begun = open.iter().position(|of| *of == (record.cpu, irq));
                        let begun = begun.unwrap_or_else(|| panic!("{irq:?} ends at {} and has not begun", record.at));
                        open.remove(begun);
                    }
                    _ => {}
                }
            }
            assert!(open.len() <= 2, "{open:?}");
            let has = |irq| records.iter().any(|record| record.event == TraceEvent::IrqEnter { irq });
            assert_eq!((has(Irq::Device), has(Irq::Softirq)), (handler > 0, true));
        }
    }
}

#[test]
fn records_are_in_order_of_time() {
    let (_, records) = run(&mixed(), &config(4, Costs::server()));
    assert!(records.len() > 1_000);
    assert!(records.is_sorted_by_key(|record| record.at));
}

#[test]
fn adding_a_task_changes_no_other_tasks_draws() {
    let random = |name: &str| {
        let dist = Dist::exponential(
            ms(2),
            zerolag_workload::random::Bounds { low: Duration::ZERO, high: Duration::from_secs(1) },
        )
        .expect("a distribution");
        task(name, SchedAttr::NORMAL, Some(20), vec![Action::Run(dist), Action::Stamp(1), Action::Sleep(ms(1).into())])
    };
    let stamps = |names: &[&str]| -> Vec<Duration> {
        let program = Program { tasks: names.iter().map(|name| random(name)).collect(), ..Program::default() };
        let (_, records) = run(&program, &config(8, Costs::zero()));
        let stamp = |record: &Record| match record.event {
            TraceEvent::Mark { task, mark: Mark::Stamp { exec, .. } } if task.0 == 0 => Some(exec),
            _ => None,
        };
        records.iter().filter_map(stamp).collect()
    };
    let alone = stamps(&["a"]);
    assert_eq!(alone.len(), 20);
    assert_eq!(alone, stamps(&["a", "b", "c"]));
}

#[test]
fn a_circle_of_locks_ends_the_run_and_names_each_wait() {
    let (a, b) = (ResourceId(0), ResourceId(1));
    let taker = |name, first, second| {
        task(name, SchedAttr::NORMAL, None, vec![Action::Lock(first), run_for(ms(5)), Action::Lock(second)])
    };
    let kind = ResourceKind::Mutex { inherit: false };
    let program = Program {
        tasks: vec![taker("one", a, b), taker("two", b, a)],
        resources: resources(&[("a", kind.clone()), ("b", kind)]),
        ..Program::default()
    };
    let (outcome, _) = run(&program, &config(2, Costs::server()));
    let End::Deadlock(waits) = &outcome.why else { panic!("{:?}", outcome.why) };
    assert_eq!(waits.len(), 2);
    let text = outcome.why.to_string();
    assert!(text.contains("one-0 waits for mutex `b`, held by two-0"), "{text}");
    assert!(text.contains("two-0 waits for mutex `a`, held by one-0"), "{text}");
}

#[test]
fn a_program_that_never_spends_time_is_stopped() {
    let program =
        Program { tasks: vec![task("busy", SchedAttr::NORMAL, None, vec![Action::Yield])], ..Program::default() };
    let (outcome, _) = run(&program, &config(1, Costs::zero()));
    assert_eq!(outcome.why, End::NoProgress("busy-0".into()));
}

#[test]
fn a_fork_bomb_is_stopped_and_named() {
    let actions = vec![Action::Fork(0), Action::Fork(0), Action::Sleep(Dist::Constant(ms(1)))];
    let program = Program { tasks: vec![task("bomb", SchedAttr::NORMAL, None, actions)], ..Program::default() };
    let (outcome, _) = run(&program, &config(4, Costs::zero()));
    assert!(matches!(&outcome.why, End::TooManyForks(name) if name.starts_with("bomb-")), "{}", outcome.why);
}

#[test]
fn waiting_for_what_never_comes_is_named() {
    let program = Program {
        tasks: vec![task("patient", SchedAttr::NORMAL, Some(1), vec![Action::SemWait(ResourceId(0))])],
        resources: resources(&[("gate", ResourceKind::Semaphore { initial: 0 })]),
        ..Program::default()
    };
    let mut config = config(1, Costs::server());
    config.duration = None;
    let (outcome, _) = run(&program, &config);
    let End::Stuck(waits) = &outcome.why else { panic!("{:?}", outcome.why) };
    assert_eq!(waits[0].to_string(), "patient-0 waits for semaphore `gate`");
}

#[test]
fn a_task_is_not_created_on_a_cpu_that_does_not_exist() {
    let on =
        |cpu| TaskDef { created_on: Some(CpuId(cpu)), ..task("far", SchedAttr::NORMAL, Some(1), vec![run_for(ms(1))]) };
    let machine = |cpu| {
        let program = Program { tasks: vec![on(cpu)], ..Program::default() };
        Machine::new(Arc::new(program), &config(2, Costs::zero()), Tracing::On).map(drop)
    };
    machine(1).expect("the last CPU");
    let error = machine(2).expect_err("there are two");
    assert_eq!(error.to_string(), "task `far-0` cannot be created on CPU 2, which does not exist");
}

/// Low holds the lock, high wants it, medium would keep low from ever finishing: Mars Pathfinder.
fn inversion(inherit: bool) -> Duration {
    let lock = ResourceId(0);
    let delayed = |def: TaskDef, delay| TaskDef { delay, ..def };
    let low = task("low", fifo(1), Some(1), vec![Action::Lock(lock), run_for(ms(10)), Action::Unlock(lock)]);
    let medium = task("medium", fifo(2), Some(1), vec![run_for(ms(100))]);
    let high = task("high", fifo(3), Some(1), vec![Action::Lock(lock), Action::Stamp(1), Action::Unlock(lock)]);
    let program = Program {
        tasks: vec![low, delayed(medium, ms(2)), delayed(high, ms(1))],
        resources: resources(&[("lock", ResourceKind::Mutex { inherit })]),
        ..Program::default()
    };
    let (outcome, records) = run(&program, &config(1, Costs::zero()));
    assert_eq!(outcome.why, End::Finished);
    let stamp = |record: &&Record| matches!(record.event, TraceEvent::Mark { mark: Mark::Stamp { .. }, .. });
    records.iter().find(stamp).expect("high got its lock").at.since(Instant::ZERO + ms(1))
}

#[test]
fn priority_inheritance_bounds_the_wait_for_a_lock() {
    assert_eq!(inversion(false), ms(109));
    assert_eq!(inversion(true), ms(9));
}

#[test]
fn barriers_conditions_and_suspension_meet() {
    let (barrier, condition, mutex, point) = (ResourceId(0), ResourceId(1), ResourceId(2), ResourceId(3));
    let wait = vec![
        Action::Barrier(barrier),
        Action::Lock(mutex),
        Action::Wait { condition, mutex },
        Action::Unlock(mutex),
        Action::Suspend(point),
        run_for(ms(1)),
    ];
    let wake = vec![
        Action::Barrier(barrier),
        Action::Sleep(ms(5).into()),
        Action::Lock(mutex),
        Action::Broadcast(condition),
        Action::Unlock(mutex),
        Action::Sleep(ms(5).into()),
        Action::Resume(point),
    ];
    let waiters = TaskDef { instances: 3, ..task("waiter", SchedAttr::NORMAL, Some(1), wait) };
    let program = Program {
        tasks: vec![waiters, task("waker", SchedAttr::NORMAL, Some(1), wake)],
        resources: resources(&[
            ("barrier", ResourceKind::Barrier { parties: 4 }),
            ("condition", ResourceKind::Condition),
            ("mutex", ResourceKind::Mutex { inherit: false }),
            ("point", ResourceKind::SuspendPoint),
        ]),
        ..Program::default()
    };
    let (outcome, _) = run(&program, &config(4, Costs::zero()));
    assert_eq!((outcome.why, outcome.end), (End::Finished, Instant::ZERO + ms(11)));
}

#[test]
fn kernel_mode_is_preempted_as_the_model_says() {
    let latency = |preempt: &str| {
        let mut settings: Settings = KernelVersion::default().settings();
        settings.set("preempt", preempt).expect("a model");
        let kernel = task("syscall", SchedAttr::NORMAL, Some(1), vec![Action::Kernel(ms(10).into())]);
        let rt = TaskDef { delay: ms(1), ..task("rt", fifo(1), Some(1), vec![Action::Stamp(1)]) };
        let program = Program { tasks: vec![kernel, rt], ..Program::default() };
        let (_, records) = run(&program, &MachineConfig { settings, ..config(1, Costs::zero()) });
        let stamp = |record: &&Record| matches!(record.event, TraceEvent::Mark { mark: Mark::Stamp { .. }, .. });
        records.iter().find(stamp).expect("rt ran").at.since(Instant::ZERO + ms(1))
    };
    for preempt in ["none", "voluntary"] {
        assert_eq!(latency(preempt), ms(9), "{preempt}");
    }
    for preempt in ["full", "lazy", "rt"] {
        assert_eq!(latency(preempt), Duration::ZERO, "{preempt}");
    }
}

#[test]
fn idle_cpus_cost_no_ticks() {
    let sleeper = task("sleeper", SchedAttr::NORMAL, Some(1), vec![Action::Sleep(ms(400).into())]);
    let program = Program { tasks: vec![sleeper], ..Program::default() };
    let ticks = |nohz: &str| {
        let mut config = config(64, Costs::server());
        config.settings.set("nohz", nohz).expect("a setting");
        run(&program, &config).0.stats.ticks
    };
    assert!(ticks("on") <= 2);
    assert_eq!(ticks("off"), 64 * 100);
}

/// Two seconds of a busy loop on a CPU of `nohz_full`: it ticks while a second one runs there for
/// 40 ms, and not else. The others look after it once a second, which charges it.
#[test]
fn a_cpu_of_nohz_full_ticks_while_two_tasks_share_it() {
    let pinned = |name: &str, work| {
        let cpus: CpuMask = [CpuId(1)].into_iter().collect();
        TaskDef { affinity: Some(Arc::new(cpus)), ..task(name, SchedAttr::NORMAL, Some(1), vec![run_for(work)]) }
    };
    let guest = TaskDef { delay: ms(401), ..pinned("guest", ms(20)) };
    let program = Program { tasks: vec![pinned("alone", ms(1_900)), guest], ..Program::default() };
    let run = |nohz_full: &str| {
        let mut config = config(2, Costs::zero());
        config.duration = Some(ms(2_000));
        config.settings.set("nohz_full", nohz_full).expect("a setting");
        let (outcome, _) = run(&program, &config);
        assert_eq!(outcome.end, Instant::ZERO + ms(1_920), "nothing is lost");
        outcome.stats.ticks
    };
    assert_eq!(run(""), 479, "every 4 ms until 1.92 s");
    let ticks = run("1");
    assert!((9..=11).contains(&ticks), "{ticks} ticks");
}

#[test]
fn layers_are_where_the_work_was() {
    let program = Program {
        tasks: vec![task("both", SchedAttr::NORMAL, Some(1), vec![run_for(ms(30)), Action::Kernel(ms(20).into())])],
        ..Program::default()
    };
    let (outcome, records) = run(&program, &config(1, Costs::zero()));
    assert_eq!(outcome.end, Instant::ZERO + ms(50));
    let times = records.iter().find_map(|record| match record.event {
        TraceEvent::CpuTotals { times } => Some(times),
        _ => None,
    });
    let times = times.expect("totals");
    assert_eq!((times.of(CpuLayer::User), times.of(CpuLayer::Kernel)), (ms(30), ms(20)));
}

#[test]
fn a_given_duration_is_waited_for_unless_a_task_holds_what_others_wait_for() {
    let waiter = task("patient", SchedAttr::NORMAL, Some(1), vec![Action::Suspend(ResourceId(0))]);
    let program = Program {
        tasks: vec![waiter],
        resources: resources(&[("patient", ResourceKind::SuspendPoint)]),
        ..Program::default()
    };
    let (outcome, _) = run(&program, &config(1, Costs::server()));
    assert_eq!((&outcome.why, outcome.end), (&End::Duration, Instant::ZERO + ms(500)));
    assert_eq!(outcome.left_waiting[0].to_string(), "patient-0 waits for resume of `patient`");

    let keeper = task("keeper", SchedAttr::NORMAL, Some(1), vec![Action::Lock(ResourceId(0)), run_for(ms(1))]);
    let other = TaskDef { delay: ms(1), ..keeper.clone() };
    let program = Program {
        tasks: vec![keeper, other],
        resources: resources(&[("lock", ResourceKind::Mutex { inherit: false })]),
        ..Program::default()
    };
    let (outcome, _) = run(&program, &config(2, Costs::zero()));
    assert!(matches!(outcome.why, End::Stuck(_)), "{:?}", outcome.why);
}

/// As on virtual CPUs that run in turns: whose tick comes first differs from tick to tick, and each
/// of three busy tasks moves.
#[test]
fn ticks_that_come_late_by_themselves_let_all_busy_tasks_move() {
    let hog = |name| task(name, SchedAttr::NORMAL, None, vec![run_for(ms(100))]);
    let program = Arc::new(Program { tasks: ["a", "b", "c"].map(hog).into(), ..Program::default() });
    let config = MachineConfig { duration: Some(ms(5_000)), ..config(2, Costs::server()) };
    let latest = Duration::from_micros(100);
    let mut machine = Machine::new(program, &config, Tracing::On).expect("a machine");
    machine.delay_ticks(Dist::uniform(Duration::ZERO, latest).expect("a distribution"));
    let mut records = Vec::new();
    let outcome = machine.run(&mut records);
    assert_time_is_conserved(&outcome, &records, 2);
    let period = config.settings.tick_period();
    let ticks = records.iter().filter(|record| matches!(record.event, TraceEvent::IrqEnter { irq: Irq::Tick }));
    let mut first = [0, 0];
    let mut last = Instant::ZERO;
    for tick in ticks.filter(|tick| tick.at > Instant::ZERO) {
        let due = tick.at.round_down_to(period);
        assert!(
            tick.at.since(due) <= latest + Duration::from_micros(5),
            "{tick:?} comes {latest} late at most, or behind a path"
        );
        first[tick.cpu.index()] += u32::from(due > last);
        last = due;
    }
    assert!(first.iter().all(|times| *times > 400), "each CPU is the first about as often: {first:?} of 1250");
    for task in (0..3).map(TaskId) {
        let moves =
            records.iter().filter(|record| matches!(record.event, TraceEvent::Migrate { task: of, .. } if of == task));
        assert!(moves.count() > 5, "{task} moves");
    }
}

/// As an emulator runs virtual CPUs: in three quarters of all ticks CPU 0 is the first, and the
/// next one in the ring is later by a turn.
#[test]
fn ticks_of_cpus_in_turns_come_a_turn_apart() {
    let hog = |name| task(name, SchedAttr::NORMAL, None, vec![run_for(ms(100))]);
    let program = Arc::new(Program { tasks: ["a", "b", "c", "d"].map(hog).into(), ..Program::default() });
    let config = MachineConfig { duration: Some(ms(4_000)), ..config(3, Costs::server()) };
    let turn = Duration::from_micros(25);
    let mut machine = Machine::new(program, &config, Tracing::On).expect("a machine");
    machine.tick_in_turns(turn, 750);
    let mut records = Vec::new();
    let outcome = machine.run(&mut records);
    assert_time_is_conserved(&outcome, &records, 3);
    let period = config.settings.tick_period();
    let mut of_tick = std::collections::BTreeMap::<Instant, Vec<CpuId>>::new();
    for tick in records.iter().filter(|record| matches!(record.event, TraceEvent::IrqEnter { irq: Irq::Tick })) {
        let due = tick.at.round_down_to(period);
        let before = of_tick.entry(due).or_default();
        // A path of the kernel that runs then comes to its end.
        let late = tick.at.since(due + turn * before.len() as u64);
        assert!(late <= Duration::from_micros(5), "{tick:?} after {before:?}");
        before.push(tick.cpu);
    }
    of_tick.retain(|_, cpus| cpus.len() == 3);
    assert!(of_tick.len() > 900, "all three are busy: {}", of_tick.len());
    let begins = |first: u32| {
        let ring: Vec<_> = (0..3).map(|next| CpuId((first + next) % 3)).collect();
        of_tick.values().filter(|cpus| **cpus == ring).count() * 1000 / of_tick.len()
    };
    let (zero, others) = (begins(0), [begins(1), begins(2)]);
    assert!((700..800).contains(&zero) && others.iter().all(|other| (90..160).contains(other)), "{zero} {others:?}");
}

/// As `fair_server/cpu0/runtime` refuses it; it ran, and the server never got its runtime.
#[test]
fn a_fair_server_longer_than_its_period_is_refused() {
    let program = || {
        Arc::new(Program {
            tasks: vec![task("a", SchedAttr::NORMAL, None, vec![run_for(ms(1))])],
            ..Program::default()
        })
    };
    let build = |runtime: u64, period: u64, key: &str| {
        let mut config = config(2, Costs::zero());
        for (key, value) in [
            ("fair_server", key),
            ("fair_server.runtime", &format!("{runtime}ms")),
            ("fair_server.period", &format!("{period}ms")),
        ] {
            config.settings.set(key, value).expect("a setting");
        }
        Machine::new(program(), &config, Tracing::Off).map(|_| ()).map_err(|error| error.to_string())
    };
    assert!(build(20, 20, "deferred").is_ok() && build(50, 20, "off").is_ok());
    let error = build(50, 20, "deferred").expect_err("more than all");
    assert!(error.starts_with("fair_server/cpu0: runtime is above period"), "{error}");
}

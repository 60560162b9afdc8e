//! A policy of `sched_ext` on the machine: the kernel's defaults as a policy give the bytes of the
//! built-in class; each end of a policy leaves a run that goes on.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use zerolag_model::settings::{SchedExt, SchedExtPolicy};
use zerolag_model::state::{PolicyQueue, PolicyStep, Rule};
use zerolag_model::{
    CpuId, CpuLayer, CpuMask, Duration, Instant, KernelVersion, PrevState, Record, SchedAttr, TaskId, Topology,
    TraceEvent,
};
use zerolag_policy::policies::{Fifo, Linux, Vtime};
use zerolag_policy::{DsqId, EnqFlags, ExitKind, KickFlags, Ops, Policy, Scx, WakeFlags};
use zerolag_sim::{Costs, End, Machine, MachineConfig, Outcome, Tracing};
use zerolag_workload::change::{Change, TimedChange};
use zerolag_workload::program::{Action, OnRefused, Program, Resource, ResourceId, ResourceKind, TaskDef};
use zerolag_workload::random::Dist;

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

fn config(topology: Topology, costs: Costs) -> MachineConfig {
    let mut settings = KernelVersion::V7_3.settings();
    settings.sched_ext = SchedExt::All;
    settings.sched_ext_slice = ms(5);
    MachineConfig { topology, settings, costs, seed: 7, duration: Some(ms(400)) }
}

/// Tasks that compute, that sleep, that wait for a lock, and one above the class.
fn mixed() -> Program {
    let random = Dist::uniform(Duration::from_micros(100), ms(3)).expect("a distribution");
    let mut tasks = vec![
        TaskDef {
            instances: 3,
            ..TaskDef::looping("hog", SchedAttr::NORMAL, vec![Action::Run(Dist::Constant(ms(100)))])
        },
        TaskDef {
            instances: 5,
            ..TaskDef::looping(
                "random",
                SchedAttr::NORMAL,
                vec![Action::Run(random.clone()), Action::Sleep(random.clone())],
            )
        },
        TaskDef::looping(
            "above",
            SchedAttr::fifo_at(50),
            vec![Action::Run(random.clone()), Action::Sleep(Dist::Constant(ms(9)))],
        ),
    ];
    for name in ["locker", "rival"] {
        let actions = vec![
            Action::Lock(ResourceId(0)),
            Action::Run(Dist::Constant(ms(1))),
            Action::Unlock(ResourceId(0)),
            Action::Sleep(random.clone()),
        ];
        tasks.push(TaskDef::looping(name, SchedAttr::NORMAL, actions));
    }
    let resources = vec![Resource { name: "lock".into(), kind: ResourceKind::Mutex { inherit: false } }];
    Program { tasks, resources, ..Program::default() }
}

fn finish(mut machine: Machine) -> (Outcome, Vec<Record>) {
    let mut records = Vec::new();
    let outcome = machine.run(&mut records);
    machine.check_quiescent().expect("the state is whole");
    (outcome, records)
}

fn run(policy: impl Policy + 'static, config: &MachineConfig) -> (Outcome, Vec<Record>) {
    let machine = Machine::with_policy(Arc::new(mixed()), config, Tracing::On, Box::new(policy));
    finish(machine.expect("a machine"))
}

/// Returns the exec time of the tasks of a name.
fn exec(records: &[Record], name: &str) -> Duration {
    let mut of_name = Vec::new();
    let mut total = Duration::ZERO;
    for record in records {
        match &record.event {
            TraceEvent::TaskNew { task, name: new, .. } if new.starts_with(name) => of_name.push(*task),
            TraceEvent::TaskTotals { task, counters, .. } if of_name.contains(task) => total += counters.exec,
            _ => {}
        }
    }
    total
}

#[test]
fn the_kernels_defaults_as_a_policy_give_the_bytes_of_the_built_in_class() {
    for topology in [Topology::flat(1), Topology::flat(2), Topology::new(1, 2, 2, 2)] {
        let config = config(topology.expect("CPUs"), Costs::zero());
        let built_in = finish(Machine::new(Arc::new(mixed()), &config, Tracing::On).expect("a machine"));
        let policy = run(Fifo, &config);
        let differs = built_in.1.iter().zip(&policy.1).position(|(one, other)| one != other);
        let around = |records: &[Record]| differs.map(|at| format!("{:#?}", &records[at.saturating_sub(6)..at + 3]));
        assert_eq!(differs, None, "built in: {:?}\nas a policy: {:?}", around(&built_in.1), around(&policy.1));
        assert_eq!(built_in.1.len(), policy.1.len());
    }
}

#[test]
fn a_run_with_a_policy_is_repeated_and_split_byte_by_byte() {
    let config = config(Topology::new(1, 2, 2, 2).expect("CPUs"), Costs::server());
    let (_, whole) = run(Vtime::default(), &config);
    assert_eq!(run(Vtime::default(), &config).1, whole);
    let policy = Box::new(Vtime::default());
    let mut machine = Machine::with_policy(Arc::new(mixed()), &config, Tracing::On, policy).expect("a machine");
    let mut records = Vec::new();
    machine.run_until(Instant::ZERO + ms(137), &mut records);
    let (mut copy, mut again) = (machine.clone(), records.clone());
    machine.run(&mut records);
    copy.run(&mut again);
    assert!(records == whole && again == whole);
}

#[test]
fn every_built_in_policy_runs_on_small_and_large_machines() {
    for policy in SchedExtPolicy::ALL {
        for (cpus, costs) in [(1, Costs::server()), (4, Costs::server()), (64, Costs::zero())] {
            let mut config = config(Topology::flat(cpus).expect("CPUs"), costs);
            config.settings.sched_ext_policy = *policy;
            let (outcome, records) = finish(Machine::new(Arc::new(mixed()), &config, Tracing::On).expect("a machine"));
            assert_eq!((outcome.why, outcome.policy_exit), (End::Duration, None), "{policy} on {cpus}");
            // Three hogs want all of three CPUs, and get what the real-time task leaves. Shortest
            // first leaves them little where the others fill the CPUs.
            let (hogs, all) = (exec(&records, "hog"), ms(400) * u64::from(cpus.min(3)));
            let starves = *policy == SchedExtPolicy::Srtf && cpus < 64;
            assert!(
                starves || hogs >= all.mul_div_floor(if cpus == 1 { 10 } else { 30 }, 100),
                "{policy} on {cpus}: {hogs}"
            );
        }
    }
}

/// Keeps a task and forgets it.
#[derive(Clone)]
struct Forgets;

impl Policy for Forgets {
    fn ops(&self) -> Ops {
        Ops { timeout: ms(100), ..Ops::named("forgets") }
    }
    fn enqueue(&mut self, scx: &mut Scx, p: TaskId, flags: EnqFlags) {
        if scx.comm(p) != "random-1" {
            scx.dsq_insert(p, DsqId::GLOBAL, scx.slice_dfl(), flags);
        }
    }
    fn select_cpu(&mut self, _: &mut Scx, _: TaskId, prev: CpuId, _: WakeFlags) -> CpuId {
        prev
    }
}

#[test]
fn the_watchdog_unloads_a_policy_and_its_tasks_go_on_as_fair_ones() {
    for costs in [Costs::zero(), Costs::server()] {
        let (outcome, records) = run(Forgets, &config(Topology::flat(2).expect("CPUs"), costs));
        assert_eq!(outcome.why, End::Duration);
        let exit = outcome.policy_exit.expect("it was unloaded");
        assert_eq!((exit.kind, exit.task.as_deref()), (ExitKind::Stall, Some("random-1[4]")));
        assert!(exit.msg.starts_with("random-1[4] failed to run for 0.1"), "{}", exit.msg);
        let at = exit.at;
        let after = |record: &&Record| record.at >= at;
        let ran = records.iter().filter(after).any(
            |record| matches!(record.event, TraceEvent::Switch { next: Some(TaskId(4)), next_prio, .. } if !next_prio.is_ext()),
        );
        assert!(ran, "the forgotten task runs as a fair one");
        let late = Instant::ZERO + ms(300);
        let still = records
            .iter()
            .filter(|record| record.at >= late)
            .any(|record| matches!(record.event, TraceEvent::Switch { next_prio, .. } if next_prio.is_ext()));
        assert!(!still, "no task is the policy's any more");
    }
}

/// Panics at a wakeup.
#[derive(Clone, Default)]
struct Panics {
    wakeups: u32,
}

impl Policy for Panics {
    fn ops(&self) -> Ops {
        Ops::named("panics")
    }
    fn enqueue(&mut self, scx: &mut Scx, p: TaskId, flags: EnqFlags) {
        self.wakeups += 1;
        assert!(self.wakeups < 20, "I have had enough");
        scx.dsq_insert(p, DsqId::GLOBAL, scx.slice_dfl(), flags);
    }
}

/// Waits for what does not happen.
#[derive(Clone, Default)]
struct Loops;

impl Policy for Loops {
    fn ops(&self) -> Ops {
        Ops::named("loops")
    }
    fn dispatch(&mut self, scx: &mut Scx, _: CpuId, _: Option<TaskId>) {
        while scx.dsq_nr_queued(DsqId(5)) == 0 {}
    }
}

#[test]
fn a_panic_and_a_loop_are_faults_of_the_policy() {
    let config = config(Topology::flat(2).expect("CPUs"), Costs::server());
    let (outcome, _) = run(Panics::default(), &config);
    let exit = outcome.policy_exit.expect("it was unloaded");
    assert_eq!((outcome.why, exit.msg.as_str()), (End::Duration, "the policy panicked: I have had enough"));
    assert!(exit.place().starts_with("ops.enqueue() of "), "{}", exit.place());

    // On as many CPUs as tasks some run out of work, and ask.
    let config = self::config(Topology::flat(16).expect("CPUs"), Costs::server());
    let (outcome, _) = run(Loops, &config);
    let exit = outcome.policy_exit.expect("it was unloaded");
    assert!(exit.msg.contains("ops.dispatch() does not end after"), "{}", exit.msg);
    assert_eq!(outcome.why, End::Duration);
}

/// Sends every task to another CPU than that where it is.
#[derive(Clone, Default)]
struct Sends {
    next: u32,
}

impl Policy for Sends {
    fn ops(&self) -> Ops {
        Ops::named("sends")
    }
    fn select_cpu(&mut self, _: &mut Scx, _: TaskId, prev: CpuId, _: WakeFlags) -> CpuId {
        prev
    }
    fn enqueue(&mut self, scx: &mut Scx, p: TaskId, flags: EnqFlags) {
        self.next = (self.next + 1) % scx.nr_cpus() as u32;
        let preempts = if self.next == 1 { EnqFlags::PREEMPT } else { EnqFlags::NONE };
        scx.dsq_insert(p, DsqId::local_on(CpuId(self.next)), ms(2), flags | preempts);
    }
}

#[test]
fn a_task_follows_its_policy_to_the_local_queue_of_another_cpu() {
    for (cpus, costs) in [(2, Costs::zero()), (4, Costs::server()), (8, Costs::server())] {
        let (outcome, records) = run(Sends::default(), &config(Topology::flat(cpus).expect("CPUs"), costs));
        assert_eq!((outcome.why, outcome.policy_exit), (End::Duration, None));
        let migrations = records.iter().filter(|record| matches!(record.event, TraceEvent::Migrate { .. })).count();
        assert!(migrations > 100, "{migrations} migrations on {cpus} CPUs");
        let wanted = ms(400) * u64::from(cpus.min(3));
        assert!(exec(&records, "hog") >= wanted.mul_div_floor(1, 4), "{}", exec(&records, "hog"));
    }
}

/// Holds tasks back, and lets them go by a timer.
#[derive(Clone)]
struct Holds {
    fired: Arc<AtomicU64>,
}

const HELD: DsqId = DsqId(1);
const OPEN: DsqId = DsqId(2);

impl Policy for Holds {
    fn ops(&self) -> Ops {
        Ops::named("holds")
    }
    fn init(&mut self, scx: &mut Scx) {
        for dsq in [HELD, OPEN] {
            scx.create_dsq(dsq).expect("a new queue");
        }
        scx.timer_start(0, ms(5));
        // One that is stopped before it is due.
        scx.timer_start(7, ms(1));
        assert!(scx.timer_cancel(7) && !scx.timer_cancel(7));
    }
    fn select_cpu(&mut self, _: &mut Scx, _: TaskId, prev: CpuId, _: WakeFlags) -> CpuId {
        prev
    }
    fn enqueue(&mut self, scx: &mut Scx, p: TaskId, flags: EnqFlags) {
        scx.dsq_insert(p, HELD, ms(1), flags);
    }
    fn dispatch(&mut self, scx: &mut Scx, _: CpuId, _: Option<TaskId>) {
        scx.dsq_move_to_local(OPEN);
    }
    fn timer(&mut self, scx: &mut Scx, id: u32) {
        assert_eq!((id, scx.now().as_nanos() % 5_000_000), (0, 0));
        self.fired.fetch_add(1, Ordering::Relaxed);
        scx.timer_start(0, ms(5));
        let held: Vec<TaskId> = scx.dsq_iter(HELD).collect();
        for p in held {
            assert!(scx.dsq_move(p, OPEN, EnqFlags::NONE));
        }
        for cpu in 0..scx.nr_cpus() {
            scx.kick_cpu(CpuId::from_index(cpu), KickFlags::IDLE);
        }
    }
}

#[test]
fn timers_of_a_policy_fire_on_time_and_keep_no_run_alive() {
    let fired = Arc::new(AtomicU64::new(0));
    let policy = Holds { fired: Arc::clone(&fired) };
    let (outcome, records) = run(policy.clone(), &config(Topology::flat(2).expect("CPUs"), Costs::zero()));
    assert_eq!((outcome.why, outcome.policy_exit), (End::Duration, None));
    assert!((79..=80).contains(&fired.load(Ordering::Relaxed)), "{fired:?}");
    assert!(exec(&records, "hog") > ms(50), "{}", exec(&records, "hog"));
    // Without a duration the run ends with its task, although the timer would go on.
    let once = TaskDef {
        turns: Some(1),
        ..TaskDef::looping("once", SchedAttr::NORMAL, vec![Action::Run(Dist::Constant(ms(3)))])
    };
    let program = Program { tasks: vec![once], ..Program::default() };
    let endless = MachineConfig { duration: None, ..config(Topology::flat(1).expect("CPUs"), Costs::zero()) };
    let machine = Machine::with_policy(Arc::new(program), &endless, Tracing::On, Box::new(policy)).expect("a machine");
    let (outcome, _) = finish(machine);
    assert_eq!((outcome.why.is_ok(), outcome.policy_exit), (true, None));
}

/// Counts the calls of two operations.
#[derive(Clone)]
struct Counts {
    calls: Arc<AtomicU64>,
}

impl Policy for Counts {
    fn ops(&self) -> Ops {
        Ops::named("counts")
    }
    fn running(&mut self, _: &mut Scx, _: TaskId) {
        self.calls.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn calls_of_a_policy_cost_what_the_profile_says() {
    let calls = Arc::new(AtomicU64::new(0));
    let layer = |call: Duration| {
        let costs = Costs { policy_call: call, ..Costs::zero() };
        calls.store(0, Ordering::Relaxed);
        let policy = Counts { calls: Arc::clone(&calls) };
        let (outcome, records) = run(policy, &config(Topology::flat(2).expect("CPUs"), costs));
        assert_eq!((outcome.why, outcome.policy_exit), (End::Duration, None));
        let sched = |record: &Record| match &record.event {
            TraceEvent::CpuTotals { times } => times.of(CpuLayer::Sched),
            _ => Duration::ZERO,
        };
        (records.iter().map(sched).fold(Duration::ZERO, Duration::saturating_add), calls.load(Ordering::Relaxed))
    };
    assert_eq!(layer(Duration::ZERO).0, Duration::ZERO);
    let (time, running) = layer(Duration::from_micros(10));
    // `running` is one of the calls of a turn, of which there are a few, and ticks.
    let per_turn = time.as_nanos() / 10_000 / running;
    assert!((3..=12).contains(&per_turn), "{time} for {running} turns");
}

/// Loads the policy of the run at 50 and 150 and 250 ms, and unloads it at 100 ms.
fn loaded_in_mid_run(policy: Option<SchedExtPolicy>) -> Program {
    let load = Change::Load { policy, tasks: None };
    let at = |millis, what| TimedChange { at: ms(millis), what };
    let changes = vec![at(50, load.clone()), at(100, Change::Unload), at(150, load.clone()), at(250, load)];
    Program { changes, on_refused: OnRefused::Continue, ..mixed() }
}

#[test]
fn every_policy_is_loaded_and_unloaded_in_mid_run() {
    for topology in [Topology::flat(1), Topology::flat(3), Topology::new(1, 1, 4, 2)] {
        let topology = topology.expect("a machine");
        for costs in [Costs::zero(), Costs { policy_call: Duration::from_nanos(700), ..Costs::server() }] {
            let config = config(topology.clone(), costs);
            for policy in SchedExtPolicy::ALL {
                let program = Arc::new(loaded_in_mid_run(Some(*policy)));
                let machine = || Machine::new(Arc::clone(&program), &config, Tracing::On).expect("a machine");
                let mut first = machine();
                let mut begun = Vec::new();
                first.run_until(Instant::ZERO + ms(75), &mut begun);
                let mut branch = first.clone();
                let whole = finish(machine());
                assert_eq!(whole.0.why, End::Duration, "{policy}");
                // It is loaded from the start, so the first load is refused, and the last.
                assert_eq!(whole.0.refused.count, 2, "{policy}");
                assert_eq!(whole.0.policy_exit, None, "{policy}");
                let outcome = branch.run(&mut begun);
                assert!(whole == (outcome, begun), "{policy}: a run that is split has other records");
            }
        }
    }
}

/// A policy that forgets a queue at its third decision.
#[derive(Clone, Default)]
struct Fails(u32);

impl Policy for Fails {
    fn ops(&self) -> Ops {
        Ops::named("fails")
    }
    fn enqueue(&mut self, scx: &mut Scx, p: TaskId, flags: EnqFlags) {
        self.0 += 1;
        let dsq = if self.0 == 3 { DsqId(1) } else { DsqId::GLOBAL };
        scx.dsq_insert(p, dsq, ms(5), flags);
    }
}

#[test]
fn a_policy_that_has_failed_is_loaded_again() {
    let config = config(Topology::flat(2).expect("a machine"), Costs::server());
    let program = Arc::new(loaded_in_mid_run(None));
    let policy = Box::new(Fails::default());
    let machine = Machine::with_policy(program, &config, Tracing::On, policy).expect("a machine");
    let (outcome, records) = finish(machine);
    assert_eq!(outcome.why, End::Duration);
    assert_eq!(outcome.refused.count, 0, "each load finds that the last one has failed");
    let exit = outcome.policy_exit.expect("it has failed");
    assert_eq!((exit.kind, exit.msg.as_str()), (ExitKind::Error, "non-existent DSQ 0x1"));
    assert!(exit.at < Instant::ZERO + ms(100), "the first fault counts: {}", exit.at);
    // Each load takes every task, and each fault gives it back.
    let classes = |name: &str| -> Vec<bool> {
        let named = records.iter().find_map(|record| match &record.event {
            TraceEvent::TaskNew { task, name: of, .. } if &**of == name => Some(*task),
            _ => None,
        });
        let change = |record: &Record| match record.event {
            TraceEvent::AttrChange { task, attr } if Some(task) == named => Some(matches!(attr, SchedAttr::Ext { .. })),
            _ => None,
        };
        records.iter().filter_map(change).collect()
    };
    assert_eq!(classes("hog-0"), [true, false, true, false, true, false]);
    assert_eq!(classes("above"), [] as [bool; 0], "a real-time task is nothing to a policy");
    assert!(exec(&records, "hog") > ms(200));
}

#[test]
fn decisions_and_waits_name_the_operation_and_the_queue() {
    let config = config(Topology::flat(2).expect("a machine"), Costs::server());
    let machine = || Machine::with_policy(Arc::new(mixed()), &config, Tracing::On, Box::new(Vtime::default()));
    let mut kept = machine().expect("a machine");
    kept.keep_state();
    let mut records = Vec::new();
    kept.run(&mut records);
    let state = kept.take_state().expect("it was kept");
    let by = |step: &PolicyStep| (step.by, step.to);
    let ways = state.decisions.iter().filter_map(|decision| match &decision.why.rule {
        Rule::Loaded(way) => Some(way.expect("a policy is loaded")),
        _ => None,
    });
    let mut ways: Vec<_> = ways.map(|way| (by(&way.last), way.before.as_ref().map(by))).collect();
    ways.sort_unstable_by_key(|way| format!("{way:?}"));
    ways.dedup();
    let local = PolicyQueue::Local(CpuId(1));
    let dispatched = ((Some("ops.dispatch"), local), Some((Some("ops.enqueue"), PolicyQueue::Own(0))));
    assert!(ways.contains(&dispatched), "{ways:?}");
    assert!(ways.iter().any(|(last, _)| *last == (Some("ops.select_cpu"), local)), "{ways:?}");
    assert!(
        ways.iter().any(|(last, _)| *last == (None, PolicyQueue::Local(CpuId(0)))),
        "preempted by `above`: {ways:?}"
    );
    // The same run again, of one task in a time.
    let (from, to) = (Instant::ZERO + ms(100), Instant::ZERO + ms(200));
    let mut again = machine().expect("a machine");
    again.keep_policy_steps([(TaskId(0), from, to)]);
    let mut same = Vec::new();
    again.run(&mut same);
    assert!(records == same, "what is kept changes nothing");
    let windows = again.take_policy_steps();
    let steps = &windows[0].steps;
    assert!(steps.len() > 2 && steps[0].at < from && steps[1..].iter().all(|step| (from..=to).contains(&step.at)));
    let queued = steps.iter().find(|step| step.to == PolicyQueue::Own(0)).expect("its turns end");
    assert_eq!(queued.by, Some("ops.enqueue"));
    assert!(steps.iter().any(|step| step.ahead > 0), "others were before it");
}

/// Threads of four priorities and two reservations, some bound to CPUs, above loops.
fn urgent(nr_cpus: u32) -> (Program, &'static str) {
    let some = |least, most| Dist::uniform(Duration::from_micros(least), Duration::from_micros(most)).expect("times");
    let mut tasks = vec![TaskDef {
        instances: 2 * nr_cpus,
        ..TaskDef::looping("hog", SchedAttr::NORMAL, vec![Action::Run(Dist::Constant(ms(100)))])
    }];
    for (name, run, sleep) in [
        ("a", (100, 1500), (500, 9000)),
        ("b", (100, 3000), (1000, 9000)),
        ("c", (500, 6000), (1000, 9000)),
        ("d", (10, 9000), (10, 9000)),
    ] {
        let actions = vec![Action::Run(some(run.0, run.1)), Action::Sleep(some(sleep.0, sleep.1))];
        tasks.push(TaskDef { instances: nr_cpus, ..TaskDef::looping(name, SchedAttr::NORMAL, actions) });
    }
    for (nth, task) in tasks.iter_mut().enumerate().filter(|(nth, _)| nth % 2 == 1) {
        let cpus: CpuMask =
            (0..nr_cpus).filter(|cpu| *cpu as usize != nth % nr_cpus.max(2) as usize).map(CpuId).collect();
        if !cpus.is_empty() {
            task.affinity = Some(Arc::new(cpus));
        }
    }
    (
        Program { tasks, ..Program::default() },
        "comm a-* fifo 90; comm b-* fifo 70; comm c-* rr 30; comm d-* deadline 1ms 20ms",
    )
}

/// How urgent a thread of [`urgent`] is: the less, the more.
fn class_of(name: &str) -> u32 {
    match name.split('-').next() {
        Some("d") => 0,
        Some("a") => 1,
        Some("b") => 2,
        Some("c") => 3,
        _ => 4,
    }
}

/// A thread of higher priority never waits where one of lower priority runs: not for longer than
/// the kicks take. Without costs they take no time.
#[test]
fn rules_put_the_most_urgent_threads_on_the_cpus() {
    for nr_cpus in [1, 2, 3, 8] {
        let config = config(Topology::flat(nr_cpus).expect("CPUs"), Costs::zero());
        let (program, rules) = urgent(nr_cpus);
        let masks: Vec<_> = program.tasks.iter().map(|task| (task.name.clone(), task.affinity.clone())).collect();
        let mut policy = Linux::default();
        policy.set_text(0, rules).expect("rules");
        let machine = Machine::with_policy(Arc::new(program), &config, Tracing::On, Box::new(policy));
        let (outcome, records) = finish(machine.expect("a machine"));
        assert_eq!((outcome.why, outcome.policy_exit), (End::Duration, None), "{nr_cpus}");
        let mut names: std::collections::BTreeMap<TaskId, String> = std::collections::BTreeMap::new();
        let mut runs: std::collections::BTreeMap<CpuId, TaskId> = std::collections::BTreeMap::new();
        let mut waits: std::collections::BTreeSet<TaskId> = std::collections::BTreeSet::new();
        let (mut at, mut checked) = (Instant::ZERO, 0);
        for record in &records {
            if record.at > at {
                // All of the instant before has happened.
                for waiting in &waits {
                    let name = &names[waiting];
                    // One that has used up its budget waits for its next period.
                    if class_of(name) == 0 {
                        continue;
                    }
                    let of_name = |(task, _): &&(Arc<str>, Option<Arc<CpuMask>>)| name.starts_with(&**task);
                    let mask = masks.iter().find(of_name).and_then(|(_, mask)| mask.clone());
                    for (cpu, running) in &runs {
                        let may = mask.as_ref().is_none_or(|mask| mask.contains(*cpu));
                        let other = &names[running];
                        assert!(
                            !may || class_of(other) <= class_of(name),
                            "{nr_cpus} CPUs at {at}: {name} waits while {other} runs on CPU {cpu}"
                        );
                        checked += usize::from(may && class_of(name) < 4);
                    }
                }
                at = record.at;
            }
            match &record.event {
                TraceEvent::TaskNew { task, name, .. } => drop(names.insert(*task, name.to_string())),
                TraceEvent::Wakeup { task, .. } => drop(waits.insert(*task)),
                TraceEvent::Switch { prev, next, prev_state, .. } => {
                    let cpu = record.cpu;
                    if let Some(prev) = prev
                        && *prev_state == PrevState::Runnable
                    {
                        waits.insert(*prev);
                    }
                    runs.remove(&cpu);
                    if let Some(next) = next {
                        waits.remove(next);
                        runs.insert(cpu, *next);
                    }
                }
                _ => {}
            }
        }
        assert!(checked > 100, "{nr_cpus}: {checked} waits were looked at");
    }
}

/// A reservation gets its runtime in each period, however much others want, and not more.
#[test]
fn a_reservation_gets_its_runtime_in_each_period() {
    for nr_cpus in [1, 2, 4] {
        let mut config = config(Topology::flat(nr_cpus).expect("CPUs"), Costs::zero());
        config.settings.hz = 1000;
        let run = |time| vec![Action::Run(Dist::Constant(ms(time)))];
        let hogs = |name, instances| TaskDef { instances, ..TaskDef::looping(name, SchedAttr::NORMAL, run(100)) };
        let tasks = vec![hogs("hog", nr_cpus), hogs("fifo", nr_cpus), hogs("held", 1), hogs("other", nr_cpus)];
        let mut policy = Linux::default();
        let rules = "comm fifo-* fifo 9; comm held-* deadline 3ms 10ms; comm other-* deadline 4ms 20ms";
        policy.set_text(0, rules).expect("rules");
        let program = Program { tasks, ..Program::default() };
        let machine = Machine::with_policy(Arc::new(program), &config, Tracing::On, Box::new(policy));
        let (outcome, records) = finish(machine.expect("a machine"));
        assert_eq!(outcome.policy_exit, None, "{nr_cpus}");
        // 40 and 20 periods; a turn ends at a tick.
        let (held, other) = (exec(&records, "held"), exec(&records, "other"));
        assert!(held >= ms(3 * 39) && held <= ms(3 * 40 + 1), "{nr_cpus}: {held}");
        let wanted = ms(4 * 20) * u64::from(nr_cpus);
        assert!(other <= wanted + ms(u64::from(nr_cpus)) && other >= wanted - ms(4 * u64::from(nr_cpus)), "{other}");
    }
}

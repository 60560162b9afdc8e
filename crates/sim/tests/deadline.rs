//! The deadline class in the simulator: admitted sets meet their deadlines on one CPU, who overruns harms nobody, and a
//! known set under global EDF is dispatched as often as two independent simulators say.

use std::sync::Arc;
use zerolag_model::settings::{FairServer, Grain};
use zerolag_model::{
    CpuId, DlParams, Duration, Instant, KernelVersion, PrevState, Record, SchedAttr, Settings, TaskId, Topology,
    TraceEvent,
};
use zerolag_sim::{Costs, End, Machine, MachineConfig, Outcome, Tracing};
use zerolag_workload::builtin::{PeriodicPolicy, periodic};
use zerolag_workload::program::{Action, Program, TaskDef};
use zerolag_workload::random::Dist;

fn config(cpus: usize, ms: u64) -> MachineConfig {
    // Servers book bandwidth of their own.
    let settings =
        Settings { enforce_dl: Grain::Exact, fair_server: FairServer::Off, ..KernelVersion::V6_12.settings() };
    MachineConfig {
        topology: Topology::flat(u32::try_from(cpus).expect("few CPUs")).expect("at least one CPU"),
        settings,
        costs: Costs::named("zero").expect("a profile"),
        seed: 1,
        duration: Some(Duration::from_millis(ms)),
    }
}

fn run(program: Program, config: &MachineConfig) -> (Vec<Record>, Outcome) {
    let mut machine = Machine::new(Arc::new(program), config, Tracing::On).expect("a program that is admitted");
    let mut records = Vec::new();
    let outcome = machine.run(&mut records);
    machine.check_quiescent().expect("a machine in order");
    (records, outcome)
}

/// Who runs for ever.
fn endless(name: &str, params: DlParams) -> TaskDef {
    let actions = vec![Action::Run(Dist::Constant(Duration::from_secs(1_000)))];
    TaskDef::looping(name, SchedAttr::Deadline(params), actions)
}

fn ms(runtime: u64, period: u64) -> DlParams {
    let (runtime, period) = (Duration::from_millis(runtime), Duration::from_millis(period));
    DlParams { runtime, deadline: period, period }
}

fn is_end_of_job(record: &Record, of: TaskId) -> bool {
    matches!(record.event, TraceEvent::Switch { prev: Some(task), prev_state: PrevState::Blocked, .. } if task == of)
}

/// Times at which a task ran, as intervals.
fn turns(records: &[Record], of: TaskId, end: Instant) -> Vec<(Instant, Instant)> {
    let mut turns = Vec::new();
    let mut since = None;
    for record in records {
        let TraceEvent::Switch { prev, next, .. } = record.event else { continue };
        if prev == Some(of) {
            turns.extend(since.take().map(|since| (since, record.at)));
        }
        if next == Some(of) {
            since = Some(record.at);
        }
    }
    turns.extend(since.map(|since| (since, end)));
    turns
}

/// Rows of (first release, runtime, period) in microseconds as a table of periodic tasks.
fn table(rows: &[(u64, u64, u64)]) -> String {
    let mut csv = String::from("task,first_release_us,runtime_us,deadline_us,period_us\n");
    for (task, (release, runtime, period)) in rows.iter().enumerate() {
        csv.push_str(&format!("{task},{release},{runtime},{period},{period}\n"));
    }
    csv
}

#[test]
fn admitted_sets_miss_nothing_on_one_cpu() {
    let mut random = 7_u64;
    let mut below = |end: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % end
    };
    for _ in 0..40 {
        let mut rows: Vec<(u64, u64, u64)> = Vec::new();
        let mut left = 949_000; // parts per million
        while left > 30_000 && rows.len() < 12 {
            let period = 1_000 * (2 + below(40));
            let share = (20_000 + below(300_000)).min(left);
            let runtime = (period * share / 1_000_000).max(2);
            rows.push((below(5_000), runtime, period));
            left -= runtime * 1_000_000 / period + 1;
        }
        let program = periodic(&table(&rows), PeriodicPolicy::Deadline).expect("a table");
        let (records, _) = run(program, &config(1, 500));
        for (task, (release, _, period)) in rows.iter().enumerate() {
            let of = TaskId(u32::try_from(task).expect("few tasks"));
            let ends: Vec<Instant> =
                records.iter().filter(|record| is_end_of_job(record, of)).map(|record| record.at).collect();
            let due = (500_000 - release) / period;
            assert!(ends.len() as u64 >= due, "task {task} of {rows:?} ended {} jobs of {due}", ends.len());
            for (job, end) in (1..).zip(&ends) {
                let deadline = Instant::ZERO + Duration::from_micros(release + job * period);
                assert!(*end <= deadline, "job {job} of task {task} of {rows:?} ends at {end}");
            }
        }
    }
}

#[test]
fn who_overruns_never_has_more_than_his_bandwidth() {
    let greedy = endless("greedy", ms(2, 10));
    let mut program =
        periodic(&table(&[(0, 7_000, 10_000), (500, 1_000, 40_000)]), PeriodicPolicy::Deadline).expect("a table");
    program.tasks.push(greedy);
    let (records, outcome) = run(program, &config(1, 1_000));
    let turns = turns(&records, TaskId(2), outcome.end);
    let ran = |from: Instant, to: Instant| -> Duration {
        turns.iter().map(|(since, until)| (*until).min(to).since((*since).max(from))).sum()
    };
    assert_eq!(ran(Instant::ZERO, outcome.end), Duration::from_millis(200), "2 ms in each of 100 periods");
    for window in [10, 25, 100] {
        for start in 0..(1_000 - window) {
            let from = Instant::ZERO + Duration::from_millis(start);
            let had = ran(from, from + Duration::from_millis(window));
            // A window may end with one budget and begin with the one before.
            let most = Duration::from_millis(2 * (window / 10 + 2));
            assert!(had <= most, "{had} in {window} ms from {from}");
        }
    }
    let others = records.iter().filter(|record| is_end_of_job(record, TaskId(0))).count();
    assert_eq!(others, 100, "nobody else loses a job");
}

#[test]
fn a_booked_up_domain_refuses() {
    let hog = |name: &str| endless(name, ms(95, 100));
    let program = |tasks: Vec<TaskDef>| Arc::new(Program { tasks, ..Program::default() });
    let boot = |tasks, cpus| Machine::new(program(tasks), &config(cpus, 10), Tracing::Off);
    assert!(boot(vec![hog("a"), hog("b")], 2).is_ok());
    let error = boot(vec![hog("a"), hog("b"), endless("c", ms(1, 100))], 2).expect_err("too much").to_string();
    assert!(error.contains("(EBUSY)"), "{error}");
    let mut pinned = hog("a");
    pinned.affinity = Some(Arc::new([CpuId(0)].into_iter().collect()));
    let error = boot(vec![pinned], 2).expect_err("pinned").to_string();
    assert!(error.contains("(EPERM)"), "{error}");
}

#[test]
fn the_set_of_four_cpus_is_dispatched_as_elsewhere() {
    let csv = include_str!("../../workload/data/w4.csv");
    let program = periodic(csv, PeriodicPolicy::Deadline).expect("a table");
    let (_, outcome) = run(program, &config(4, 1_000));
    assert_eq!(outcome.why, End::Duration);
    let stats = outcome.stats;
    println!("{stats:?}");
    assert_eq!(stats.completions, 1_490);
}

//! The deadline class in the simulator.
//!
//! Admitted sets meet their deadlines on one CPU; a task that overruns harms no other; a known set
//! under global EDF is dispatched as often as two independent simulators say; classic bounds hold
//! on random sets. If an observation exceeds a bound, either the code or the bound is wrong.

use std::sync::Arc;
use zerolag_analysis::{Sporadic, fixed, global};
use zerolag_model::event::Mark;
use zerolag_model::settings::{FairServer, TimerGrain};
use zerolag_model::{
    CpuId, DlFlags, DlParams, Duration, Instant, KernelVersion, PrevState, Record, SchedAttr, Settings, TaskId,
    Topology, TraceEvent,
};
use zerolag_sim::{Costs, End, Machine, MachineConfig, Outcome, Tracing};
use zerolag_workload::builtin::{PeriodicPolicy, periodic};
use zerolag_workload::program::{Action, Program, TaskDef};
use zerolag_workload::random::Dist;

fn config(cpus: usize, ms: u64) -> MachineConfig {
    // Servers book bandwidth of their own.
    let settings =
        Settings { enforce_dl: TimerGrain::Exact, fair_server: FairServer::Off, ..KernelVersion::V6_12.settings() };
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

/// A task that runs forever.
fn endless(name: &str, params: DlParams) -> TaskDef {
    let actions = vec![Action::Run(Dist::Constant(Duration::from_secs(1_000)))];
    TaskDef::looping(name, SchedAttr::Deadline(params), actions)
}

fn ms(runtime: u64, period: u64) -> DlParams {
    let (runtime, period) = (Duration::from_millis(runtime), Duration::from_millis(period));
    DlParams::new(runtime, period, period)
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

/// Random numbers below an end.
fn random(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut random = seed;
    move |end: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % end
    }
}

/// How early each job of a task was done before its next release, which is its deadline: negative
/// if late.
fn slacks(records: &[Record], of: TaskId) -> Vec<i64> {
    let slack = |record: &Record| match record.event {
        TraceEvent::Mark { task, mark: Mark::TimerDue { slack, .. } } if task == of => Some(slack.as_nanos()),
        _ => None,
    };
    records.iter().filter_map(slack).collect()
}

fn tasks<T>(rows: &[T]) -> impl Iterator<Item = (TaskId, &T)> {
    rows.iter().enumerate().map(|(index, row)| (TaskId::from_index(index), row))
}

/// A row as analysis sees it.
fn sporadic(row: &(u64, u64, u64)) -> Sporadic {
    Sporadic::new(Duration::from_micros(row.1), Duration::from_micros(row.2)).expect("a task")
}

fn all_sporadic(rows: &[(u64, u64, u64)]) -> Vec<Sporadic> {
    rows.iter().map(sporadic).collect()
}

/// Joseph & Pandya 1986: the longest response of each task of rows sorted by period, the most
/// urgent first, on one CPU; `None` if the set has a task that does not keep its period. Equals
/// delay each other.
fn response_times(rows: &[(u64, u64, u64)]) -> Option<Vec<Duration>> {
    let longest = |(of, row): (usize, &(u64, u64, u64))| {
        let delays = |(other, theirs): &(usize, &(u64, u64, u64))| *other != of && theirs.2 <= row.2;
        let above: Vec<Sporadic> = rows.iter().enumerate().filter(delays).map(|(_, row)| sporadic(row)).collect();
        let task = sporadic(row);
        fixed::response(&task, &above).filter(|response| *response <= task.deadline())
    };
    rows.iter().enumerate().map(longest).collect()
}

#[test]
fn no_response_on_one_cpu_is_longer_than_analysis_says() {
    let mut below = random(1986);
    let (mut sets, mut exact) = (0, 0);
    while sets < 40 {
        let mut rows: Vec<(u64, u64, u64)> = (0..2 + below(7))
            .map(|_| {
                let period = 1_000 * (2 + below(60));
                (0, (period * (20 + below(250)) / 1_000).max(1), period)
            })
            .collect();
        rows.sort_by_key(|row| row.2);
        let Some(bounds) = response_times(&rows) else { continue };
        sets += 1;
        let program = periodic(&table(&rows), PeriodicPolicy::RateMonotonicFifo).expect("a table");
        let (records, _) = run(program, &config(1, 500));
        for ((task, (_, _, period)), bound) in tasks(&rows).zip(bounds) {
            let responses = slacks(&records, task).into_iter().map(|slack| period * 1_000 - slack.cast_unsigned());
            let worst = responses.max().expect("it ended a job");
            let worst = Duration::from_nanos(worst);
            assert!(worst <= bound, "task {task} of {rows:?} took {worst}, the bound is {bound}");
            // All begin together, which is the worst that can happen; equals take turns.
            let is_alone = rows.iter().filter(|row| row.2 == *period).count() == 1;
            assert!(!is_alone || worst == bound, "task {task} of {rows:?} took {worst} at worst");
            exact += u32::from(is_alone);
        }
    }
    assert!(exact > 100, "only {exact} bounds were reached");
}

/// Random rows whose shares of a CPU, up to `most` parts per million each, sum up to no more than
/// `sum`.
fn rows(below: &mut impl FnMut(u64) -> u64, most: u64, sum: u64) -> Vec<(u64, u64, u64)> {
    let (mut rows, mut left) = (Vec::new(), sum);
    while left > 20_000 && rows.len() < 24 {
        let period = 1_000 * (2 + below(40));
        let share = (10_000 + below(most - 10_000)).min(left);
        let runtime = (period * share / 1_000_000).max(2);
        rows.push((below(5_000), runtime, period));
        left -= (runtime * 1_000_000).div_ceil(period).min(left);
    }
    rows
}

/// Goossens, Funk & Baruah 2003: global EDF on m CPUs misses nothing if the densities sum up to at
/// most m - (m - 1) of the largest.
#[test]
fn global_edf_meets_the_density_test() {
    let mut below = random(2003);
    let mut jobs = 0;
    for set in 0..30 {
        let cpus = 2 + set % 3;
        let most = 100_000 + below(500_000);
        let sum = (cpus * 1_000_000 - (cpus - 1) * most).min(cpus * 949_000);
        let rows = rows(&mut below, most, sum);
        assert!(global::density_test(&all_sporadic(&rows), cpus), "{rows:?} on {cpus} CPUs");
        let program = periodic(&table(&rows), PeriodicPolicy::Deadline).expect("a table");
        let (records, _) = run(program, &config(cpus as usize, 300));
        for (task, _) in tasks(&rows) {
            let slacks = slacks(&records, task);
            jobs += slacks.len();
            assert!(slacks.iter().all(|slack| *slack >= 0), "task {task} of {rows:?} on {cpus} CPUs: {slacks:?}");
        }
    }
    assert!(jobs > 5_000, "only {jobs} jobs");
}

/// Bertogna & Cirinei 2007: the longest response of each task of rows, the most urgent first, under
/// a global scheduler of m CPUs; `None` if the analysis does not see a task keep its period.
/// Periods differ.
fn global_responses(rows: &[(u64, u64, u64)], cpus: u64, policy: PeriodicPolicy) -> Option<Vec<Duration>> {
    let tasks = all_sporadic(rows);
    let bounds = match policy {
        PeriodicPolicy::Deadline | PeriodicPolicy::OfFile => global::edf(&tasks, cpus),
        PeriodicPolicy::RateMonotonicFifo => {
            let ranks: Vec<u32> = (0..).take(tasks.len()).collect();
            global::fixed(&tasks, &ranks, &[], cpus)
        }
    };
    bounds.into_iter().collect()
}

#[test]
fn no_response_on_several_cpus_is_longer_than_analysis_says() {
    for policy in [PeriodicPolicy::Deadline, PeriodicPolicy::RateMonotonicFifo] {
        let mut below = random(2007);
        // Sets that the density test accepts, and that it refuses.
        let (mut sets, mut jobs, mut closest) = ([0, 0], 0, 0.0_f64);
        while sets[0] < 20 || sets[1] < 10 {
            let cpus = 2 + below(3);
            let (most, sum) = (200_000 + below(700_000), cpus * (300_000 + below(600_000)));
            let mut rows = rows(&mut below, most, sum);
            rows.sort_by_key(|row| row.2);
            rows.dedup_by_key(|row| row.2);
            if rows.len() <= cpus as usize {
                continue;
            }
            let Some(bounds) = global_responses(&rows, cpus, policy) else { continue };
            let is_refused = !global::density_test(&all_sporadic(&rows), cpus);
            let count = &mut sets[usize::from(is_refused)];
            *count += 1;
            if *count > 20 {
                continue;
            }
            let program = periodic(&table(&rows), policy).expect("a table");
            let (records, _) = run(program, &config(cpus as usize, 300));
            for ((task, (_, _, period)), bound) in tasks(&rows).zip(bounds) {
                let responses = slacks(&records, task).into_iter().map(|slack| (period * 1_000).cast_signed() - slack);
                for response in responses {
                    let bound = bound.as_nanos().cast_signed();
                    assert!(
                        response <= bound,
                        "{policy:?}: {task} of {rows:?}, {cpus} CPUs: {response} ns, bound {bound}"
                    );
                    closest = closest.max(response as f64 / bound as f64);
                    jobs += 1;
                }
            }
        }
        println!("{policy:?}: {jobs} jobs, up to {closest:.3} of the bound");
        assert!(jobs > 3_000, "{policy:?}: only {jobs} jobs");
        assert!(closest > 0.99, "{policy:?}: no response came near its bound: {closest:.3}");
    }
}

/// Devi & Anderson 2005: under global EDF on m CPUs a task is late by no more than its runtime and
/// x, the m - 1 longest runtimes less the shortest, over m less the m - 2 largest shares.
#[test]
fn global_edf_keeps_the_bound_on_tardiness() {
    let mut below = random(2005);
    let (mut late_jobs, mut worst) = (0, 0.0_f64);
    for set in 0..40 {
        let cpus = 2 + set % 3;
        let rows = rows(&mut below, 940_000, cpus * 949_000);
        let bounds = global::tardiness(&all_sporadic(&rows), cpus).expect("they fit");
        let program = periodic(&table(&rows), PeriodicPolicy::Deadline).expect("a table");
        let (records, _) = run(program, &config(cpus as usize, 400));
        for ((task, _), bound) in tasks(&rows).zip(bounds) {
            let bound = bound.as_nanos() as f64;
            for late in slacks(&records, task).into_iter().filter(|slack| *slack < 0).map(|slack| -slack as f64) {
                assert!(late <= bound, "task {task} of {rows:?} on {cpus} CPUs is {late} ns late, {bound} at most");
                late_jobs += 1;
                worst = worst.max(late / bound);
            }
        }
    }
    println!("{late_jobs} jobs were late, at worst by {worst:.3} of the bound");
    assert!(late_jobs > 20, "only {late_jobs} jobs were late");
}

#[test]
fn admitted_sets_miss_nothing_on_one_cpu() {
    let mut below = random(7);
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

/// Lipari & Baruah 2000, theorem 2: a task that reclaims harms no other. Half of what each periodic
/// task has reserved it does not use; one takes that over.
#[test]
fn a_task_that_reclaims_breaks_no_deadline_on_one_cpu() {
    let mut below = random(2000);
    let mut gained = 0;
    for set in 0..40 {
        let rows = rows(&mut below, 200_000, 400_000);
        let mut program = periodic(&table(&rows), PeriodicPolicy::Deadline).expect("a table");
        for task in &mut program.tasks {
            let SchedAttr::Deadline(params) = &mut task.attr else { panic!("a deadline task") };
            params.runtime = params.runtime * 2;
            // Every other one reclaims, too: it has no more to run, so it only spends less.
            params.flags = if below(2) == 0 { DlFlags::RECLAIM } else { DlFlags::NONE };
        }
        let greedy = TaskId::from_index(program.tasks.len());
        let period = 5 + below(20);
        let params = DlParams::new(
            Duration::from_micros(period * 100),
            Duration::from_millis(period),
            Duration::from_millis(period),
        );
        program.tasks.push(endless("greedy", params.with_flags(DlFlags::RECLAIM)));
        let (records, outcome) = run(program, &config(1, 500));
        for (task, _) in tasks(&rows) {
            let slacks = slacks(&records, task);
            assert!(slacks.iter().all(|slack| *slack >= 0), "set {set}: task {task} of {rows:?} is late: {slacks:?}");
        }
        let ran: Duration = turns(&records, greedy, outcome.end).into_iter().map(|(from, to)| to.since(from)).sum();
        gained += u32::from(ran > Duration::from_millis(100));
    }
    assert!(gained > 30, "in {gained} sets of 40 it ran for more than a fifth of the time, with a tenth reserved");
}

#[test]
fn a_task_that_overruns_never_gets_more_than_its_bandwidth() {
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
    let error = boot(vec![pinned.clone()], 2).expect_err("pinned").to_string();
    assert!(error.contains("(EPERM)"), "{error}");
    // Without admission a deadline task can be confined (`dl_bandwidth_enabled`).
    let mut without = config(2, 1_000);
    without.settings.set("sched_rt_runtime_us", "-1").expect("a value of that setting");
    let mut machine = Machine::new(program(vec![pinned]), &without, Tracing::On).expect("nothing is admitted");
    let mut records: Vec<Record> = Vec::new();
    machine.run(&mut records);
    let runs = records.iter().filter(|record| matches!(record.event, TraceEvent::Switch { next: Some(_), .. }));
    let cpus: Vec<CpuId> = runs.map(|record| record.cpu).collect();
    assert!(!cpus.is_empty() && cpus.iter().all(|cpu| *cpu == CpuId(0)), "{cpus:?}");
}

#[test]
fn the_set_of_four_cpus_is_dispatched_as_elsewhere() {
    let csv = include_str!("../../workload/data/w4.csv");
    let program = periodic(csv, PeriodicPolicy::Deadline).expect("a table");
    let (records, outcome) = run(program, &config(4, 1_000));
    assert_eq!(outcome.why, End::Duration);
    let stats = outcome.stats;
    let (mut dispatches, mut moves) = (0, 0);
    let mut left = std::collections::BTreeMap::new();
    for record in &records {
        let TraceEvent::Switch { prev, prev_state, next, .. } = record.event else { continue };
        if let Some(next) = next {
            dispatches += 1;
            moves += u32::from(left.get(&next) == Some(&record.at));
        }
        if let Some(prev) = prev.filter(|_| prev_state == PrevState::Runnable) {
            left.insert(prev, record.at);
        }
    }
    // Linux lets a task that wakes preempt where it ran last, and pushes the preempted task to the
    // CPU of latest deadline; a global queue would have sent the first one there. Without the
    // second half of such moves it is the same number.
    assert_eq!((dispatches, dispatches - moves), (2_670, 2_122));
    assert_eq!(stats.completions, 1_490);
}

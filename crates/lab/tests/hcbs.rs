//! A schedulability curve of groups with deadline servers (HCBS): drawn sets in a group with a
//! fixed budget, the share that bounds admit, and the share without a missed timer in a simulation.
//! And what was published of v6: the period of a server against those of its tasks.
//!
//! The tables are in docs/lab/schedulability.md; `ZEROLAG_BLESS=1` writes them.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Mutex;
use zerolag::analyse::bounds;
use zerolag::model::Duration;
use zerolag::workload::generate::{Drawn, TaskSets};
use zerolag::{Simulation, Workload};

/// The sets of each point.
const SETS: u64 = 100;
/// Utilizations of the tasks, as percent of the group's bandwidth.
const LOADS: [u64; 8] = [20, 30, 40, 50, 60, 70, 80, 90];

/// Returns the scenario of a set in a group with 4 ms of every 10 ms on each of some CPUs, with
/// rate-monotonic priorities. The tasks of one CPU are bound to it by there being no other.
fn scenario(set: &[Drawn], cpus: u32) -> String {
    let mut text = format!(
        "kernel = \"7.1\"\nduration = \"1s\"\ncosts = \"zero\"\n[settings]\nrt_group_sched = \"hcbs\"\n\
         enforce.dl = \"exact\"\nfair_server = \"off\"\n[machine]\ncpus = {cpus}\n[group.\"/g\"]\n\
         \"cpu.rt.max\" = \"4000 10000\"\n"
    );
    let mut by_period: Vec<&Drawn> = set.iter().collect();
    by_period.sort_by_key(|task| task.period);
    for (nth, task) in by_period.into_iter().enumerate() {
        let (cost, period) = (task.cost.as_micros_floor().max(1), task.period.as_micros_floor());
        writeln!(
            text,
            "[task.t{nth}]\ngroup = \"/g\"\npolicy = \"fifo\"\npriority = {}\nsteps = [{{ run = \"{cost}us\" }}, {{ timer = \
             {{ period = \"{period}us\", mode = \"absolute\" }} }}]",
            90 - nth
        )
        .expect("memory");
    }
    text
}

/// Returns how many sets of a load bounds admit, and how many miss nothing in a simulation. No
/// admitted set misses.
fn point(load: u64, cpus: u32) -> (u64, u64) {
    let sets = TaskSets {
        tasks: 3 + 2 * cpus as usize,
        utilization: 0.4 * f64::from(cpus) * load as f64 / 100.0,
        shortest: Duration::from_millis(20),
        longest: Duration::from_millis(200),
        grain: Duration::from_millis(1),
        ..TaskSets::default()
    };
    let (mut admitted, mut kept) = (0, 0);
    for seed in 0..SETS {
        let set = sets.draw(seed * 1_000 + load).expect("a valid set");
        let text = scenario(&set, cpus);
        let prepared = Simulation::new(Workload::toml(&text)).plan().unwrap_or_else(|error| panic!("{error}\n{text}"));
        let is_admitted = bounds(&prepared.plan).tasks.iter().all(|row| row.keeps_deadline() == Some(true));
        let result = prepared.run().expect("the budget fits");
        let is_kept = result.report().summary.tasks.iter().all(|task| task.missed == 0);
        assert!(!is_admitted || is_kept, "seed {seed} at {load} %: admitted, and it misses\n{text}");
        admitted += u64::from(is_admitted);
        kept += u64::from(is_kept);
    }
    (admitted, kept)
}

#[test]
fn the_curve_of_groups_with_servers_is_that_of_the_page() {
    let mut table = "| tasks, of the group's bandwidth | one CPU: bounds | no miss | two CPUs: bounds | no miss |\n\
                     |--:|--:|--:|--:|--:|\n"
        .to_owned();
    let mut before = [SETS; 4];
    let points: Vec<[u64; 4]> = std::thread::scope(|scope| {
        let threads = LOADS.map(|load| {
            scope.spawn(move || {
                let [one, two] = [1, 2].map(|cpus| point(load, cpus));
                [one.0, one.1, two.0, two.1]
            })
        });
        threads.into_iter().map(|thread| thread.join().expect("no admitted set misses")).collect()
    });
    for (load, found) in LOADS.into_iter().zip(points) {
        let [one, kept, two, kept_by_two] = found;
        writeln!(table, "| {load} % | {one} | {kept} | {two} | {kept_by_two} |").expect("memory");
        assert!(one <= kept, "bounds admit no more than simulations keep");
        assert!(
            found.iter().zip(&before).all(|(now, before)| *now <= before + 10),
            "more load is not better:\n{table}"
        );
        before = found;
    }
    is_that_of_the_page("hcbs", &table);
}

/// Compares a table with that of the page between two marks, or writes it.
fn is_that_of_the_page(mark: &str, table: &str) {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/lab/schedulability.md");
    // The tests run at once.
    let _one_at_a_time = PAGE.lock().expect("no test has failed while it wrote");
    let text = std::fs::read_to_string(&page).expect("the page");
    let (head, rest) = text.split_once(&format!("<!-- {mark} -->\n")).expect("the beginning of the table");
    let (old, tail) = rest.split_once(&format!("<!-- /{mark} -->")).expect("the end of the table");
    if std::env::var_os("ZEROLAG_BLESS").is_some() {
        let text = format!("{head}<!-- {mark} -->\n{table}<!-- /{mark} -->{tail}");
        std::fs::write(&page, text).expect("writable");
    } else {
        assert_eq!(old, table, "docs/lab/schedulability.md differs; ZEROLAG_BLESS=1 writes it");
    }
}

static PAGE: Mutex<()> = Mutex::new(());

/// Returns how many of ten thousand timers three tasks of this period miss, which need 24 % of a
/// CPU, in a group with this budget; a hog has 3 ms of every 10 ms in another group.
fn missed(budget: &str, period: u64) -> u64 {
    let mut text = format!(
        "kernel = \"7.1\"\nduration = \"2s\"\ncosts = \"zero\"\n[settings]\nrt_group_sched = \"hcbs\"\n\
         enforce.dl = \"exact\"\nfair_server = \"off\"\n[machine]\ncpus = 1\n[group.\"/victim\"]\n\
         \"cpu.rt.max\" = \"{budget}\"\n[group.\"/aggressor\"]\n\"cpu.rt.max\" = \"3000 10000\"\n\
         [task.hog]\ngroup = \"/aggressor\"\npolicy = \"fifo\"\npriority = 99\nsteps = [{{ run = \"10s\" }}]\n"
    );
    for priority in [90, 80, 70] {
        let cost = period * 8 / 100;
        writeln!(
            text,
            "[task.t{priority}]\ngroup = \"/victim\"\npolicy = \"fifo\"\npriority = {priority}\nsteps = [{{ run = \
             \"{cost}us\" }}, {{ timer = {{ period = \"{period}us\", mode = \"absolute\" }} }}]"
        )
        .expect("memory");
    }
    let prepared = Simulation::new(Workload::toml(&text)).plan().unwrap_or_else(|error| panic!("{error}\n{text}"));
    let result = prepared.run().expect("the budgets fit");
    let tasks = &result.report().summary.tasks;
    let (missed, timers) = tasks.iter().fold((0, 0), |(missed, all), task| (missed + task.missed, all + task.timers));
    assert!(timers > 500, "the tasks have run");
    missed * 10_000 / timers
}

#[test]
fn a_server_with_the_period_of_its_tasks_protects_them() {
    let mut table = "| budget | tasks of 10 ms miss | tasks of 1 ms miss | published |\n|---|--:|--:|---|\n".to_owned();
    let percent = |of: u64| format!("{}.{:02} %", of / 100, of % 100);
    let rows = [
        ("6000 10000", "10 ms: none; 1 ms: about 10 %"),
        ("3000 10000", "10 ms: none"),
        ("600 2000", "1 ms: none"),
        ("300 1000", "-"),
    ];
    for (budget, published) in rows {
        let [long, short] = [10_000, 1_000].map(|period| missed(budget, period));
        writeln!(table, "| {budget} | {} | {} | {published} |", percent(long), percent(short)).expect("memory");
        assert_eq!(long, 0, "tasks of 10 ms with {budget}");
        let is_long = budget.ends_with(" 10000");
        assert!(if is_long { short > 500 } else { short == 0 }, "tasks of 1 ms with {budget} miss {short}");
    }
    is_that_of_the_page("hcbs-periods", &table);
}

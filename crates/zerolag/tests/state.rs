//! The scheduler's own numbers of small runs, against numbers that were computed by hand.

use std::collections::BTreeMap;
use zerolag::model::state::{Entity, FairRule, Owner, Quantity, Rule, StateHistory, Track};
use zerolag::model::{CpuId, Duration, GroupId, Instant, ServerKind, TaskId};
use zerolag::report::decision::{Names, sentence};
use zerolag::simulation::{Observe, StateTracks};
use zerolag::{Simulation, Workload};

/// Runs a scenario without costs, and keeps its state.
fn run(text: &str) -> StateHistory {
    let observe = Observe { state: StateTracks::On, ..Observe::default() };
    let simulation = Simulation::new(Workload::toml(text)).costs("zero").observe(observe);
    let result = simulation.run().expect("the scenario is valid");
    assert!(result.is_ok(), "the run breaks rules");
    result.report().state.clone().expect("it was asked for")
}

fn ms(time: u64) -> Instant {
    Instant::from_nanos(time * 1_000_000)
}

fn task(history: &StateHistory, quantity: Quantity, task: u32) -> &Track {
    let is_of = |owner: &Owner| match owner {
        Owner::Fair(_, Entity::Task(id)) | Owner::Task(id) => *id == TaskId(task),
        _ => false,
    };
    let found = history.tracks.iter().find(|track| track.key.quantity == quantity && is_of(&track.key.owner));
    found.unwrap_or_else(|| panic!("no {quantity:?} of task {task} in {:?}", keys(history)))
}

fn keys(history: &StateHistory) -> Vec<String> {
    history.tracks.iter().map(|track| format!("{:?}", track.key)).collect()
}

/// Returns the value of a track at one of its points.
fn at(track: &Track, time: Instant) -> Option<i64> {
    track.points.iter().rev().find(|(at, _)| *at <= time).and_then(|(_, value)| *value)
}

fn says(history: &StateHistory, at: Instant, names: &[&str]) -> Vec<String> {
    let name = |task: TaskId| names[task.index()].to_owned();
    let names = Names { task: &name, group: &|group| format!("/g{group}") };
    history.decisions.iter().filter(|one| one.at == at).map(|one| sentence(one, names)).collect()
}

const HOGS: &str = "kernel = \"6.12\"\nduration = \"40ms\"\n[machine]\ncpus = 1\n[settings]\nhz = 1000\n[task.normal]\nsteps = [{ run = \"1s\" }]\n[task.nicer]\nnice = 5\nsteps = [{ run = \"1s\" }]\n";

#[test]
fn lag_and_deadline_are_those_of_the_definition() {
    let history = run(HOGS);
    // Both begin at the virtual time 0 of an empty queue. While `normal` (weight 1024) runs for a
    // time T, V advances by 1024 T / 1359, and `nicer` (weight 335) stays at 0. So its lag is
    // 335 (V - 0) / 1024 = 335 T / 1359, and that of `normal` is the same with the other sign.
    let first = history.decisions.iter().find(|one| one.picked == Some(TaskId(1))).expect("it gets its share");
    let ran = i64::try_from(first.at.as_nanos()).unwrap();
    assert!(ran >= 1_000_000, "{ran} ns: a tick, or more");
    let (lag, owed) = (task(&history, Quantity::Lag, 1), ran * 335 / 1359);
    let found = at(lag, first.at).expect("it is queued");
    assert!((found - owed).abs() <= 2, "{found} ns, computed {owed} ns");
    let other = at(task(&history, Quantity::Lag, 0), first.at).expect("it is queued");
    assert!((other + owed).abs() <= 2, "{other} ns, computed -{owed} ns");
    // v - V of `nicer` is -V = -1024 T / 1359: it is eligible.
    let eligible = at(task(&history, Quantity::Eligible, 1), first.at).expect("it is queued");
    assert!((eligible + ran * 1024 / 1359).abs() <= 1, "{eligible} ns");
    // A new entity begins half way through its request: its deadline is half a slice of virtual
    // time after its start. A slice of 6.12 on one CPU is 0.7 ms, so that is 0.35 ms * 1024 / 335.
    let deadline = at(task(&history, Quantity::VirtualDeadline, 1), first.at).expect("it is queued");
    let expected = 350_000 * 1024 / 335 - ran * 1024 / 1359;
    assert!((deadline - expected).abs() <= 2, "{deadline} ns, computed {expected} ns");
    // `normal` is not eligible: the decision says so.
    let Rule::Fair(levels) = &first.why.rule else { panic!("{:?}", first.why) };
    assert!(matches!(levels[0].by, FairRule::Deadline { next: None, not_eligible: Some((1, ..)), .. }), "{levels:?}");
    let said = says(&history, first.at, &["normal", "nicer"]);
    assert!(said[0].starts_with("picked `nicer`: the only eligible one (lag "), "{said:?}");
}

#[test]
fn lags_of_a_queue_add_up_to_nothing() {
    let history = run(HOGS);
    let mut sums: BTreeMap<Instant, Vec<i64>> = BTreeMap::new();
    for track in history.tracks.iter().filter(|track| track.key.quantity == Quantity::Lag) {
        for (at, value) in &track.points {
            sums.entry(*at).or_default().extend(*value);
        }
    }
    let pairs: Vec<i64> = sums.values().filter(|lags| lags.len() == 2).map(|lags| lags.iter().sum()).collect();
    assert!(pairs.len() > 10 && pairs.iter().all(|sum| sum.abs() <= 3), "{pairs:?}");
}

#[test]
fn cfs_counts_from_the_least_vruntime() {
    let history = run(&HOGS.replace("6.12", "6.1"));
    let first = history.decisions.iter().find(|one| one.picked == Some(TaskId(1))).expect("it gets its share");
    assert!(history.tracks.iter().all(|track| track.key.quantity == Quantity::Vruntime), "{:?}", keys(&history));
    let said = says(&history, first.at, &["normal", "nicer"]);
    assert!(said[0].starts_with("picked `nicer`: vruntime ") && said[0].ends_with(" below `normal`'s"), "{said:?}");
}

#[test]
fn a_deadline_task_begins_with_its_budget_and_ends_without() {
    let history = run(
        "duration = \"30ms\"\n[machine]\ncpus = 1\n[settings]\nhz = 1000\n[task.loop]\npolicy = \"SCHED_DEADLINE\"\nruntime = \"3ms\"\nperiod = \"10ms\"\nsteps = [{ run = \"1s\" }]\n[task.hog]\nsteps = [{ run = \"1s\" }]\n",
    );
    let budget = task(&history, Quantity::Budget, 0);
    let deadline = task(&history, Quantity::TimeToDeadline, 0);
    assert_eq!((at(budget, ms(0)), at(deadline, ms(0))), (Some(3_000_000), Some(10_000_000)));
    let left = history.decisions.iter().find(|one| one.picked == Some(TaskId(1))).expect("the hog runs").at;
    // Enforced at the tick, or by a timer, but never before.
    assert!(left >= ms(3) && left <= ms(4), "{left}");
    let debt = 3_000_000 - i64::try_from(left.as_nanos()).unwrap();
    assert_eq!(at(budget, left), Some(debt));
    let said = says(&history, ms(0), &["loop", "hog"]);
    let only = "picked `loop`: the only deadline task that may run (3.00ms of its budget left, deadline in 10.0ms)";
    assert!(said.contains(&only.to_owned()), "{said:?}");
}

#[test]
fn a_server_runs_the_starving_task_at_its_zero_laxity() {
    let history = run(
        "kernel = \"6.12\"\nduration = \"200ms\"\n[machine]\ncpus = 1\n[settings]\nhz = 1000\nfair_server.runtime = \"20ms\"\nfair_server.period = \"100ms\"\n[task.spinner]\npolicy = \"SCHED_FIFO\"\npriority = 50\nsteps = [{ run = \"1s\" }]\n[task.logger]\nsteps = [{ run = \"1s\" }]\n",
    );
    let served = history.decisions.iter().find(|one| one.picked == Some(TaskId(1))).expect("the server runs it");
    let (kind, deadline, left) = served.why.server.expect("by the server");
    assert_eq!((kind, served.at), (ServerKind::Fair, ms(80)), "20 ms before the end of its period");
    assert_eq!((deadline.signed_since(served.at).as_nanos() > 0, left.as_nanos()), (true, 20_000_000));
    let said = says(&history, ms(80), &["spinner", "logger"]);
    assert!(
        said[0]
            .starts_with("picked `logger`: the fair server runs it before real-time tasks (20.0ms of its budget left"),
        "{said:?}"
    );
    let of_server =
        |track: &&Track| track.key.owner == Owner::Server(ServerKind::Fair) && track.key.quantity == Quantity::Budget;
    let budget = history.tracks.iter().find(of_server).expect("it has a track");
    assert_eq!(at(budget, ms(80)), Some(20_000_000));
    let said = says(&history, ms(0), &["spinner", "logger"]);
    assert!(
        said.last().is_some_and(|said| said.contains("`spinner`: the only real-time task that may run (priority 50)")),
        "{said:?}"
    );
}

#[test]
fn quota_is_in_the_pool_and_on_the_cpu() {
    let history = run(
        "duration = \"50ms\"\n[machine]\ncpus = 1\n[settings]\nhz = 1000\n[group.\"/g\"]\n\"cpu.max\" = \"12000 100000\"\n[task.a]\ngroup = \"/g\"\nsteps = [{ run = \"1s\" }]\n",
    );
    let group = |cpu: Option<CpuId>| {
        let is_it = |track: &&Track| track.key.quantity == Quantity::Quota && track.key.cpu == cpu;
        history.tracks.iter().find(is_it).unwrap_or_else(|| panic!("{:?}", keys(&history)))
    };
    let (pool, cpu) = (group(None), group(Some(CpuId(0))));
    assert!(matches!(pool.key.owner, Owner::Group(group) if group != GroupId::ROOT));
    // A queue begins with 1 ns (`tg_set_cfs_bandwidth`); the rest is the group's.
    let total = |time: Instant| (at(pool, time), at(cpu, time));
    let (in_pool, here) = total(ms(0));
    assert_eq!(in_pool.zip(here).map(|(pool, cpu)| pool + cpu), Some(12_000_001), "{in_pool:?} {here:?}");
    let idle = history.decisions.iter().find(|one| one.picked.is_none() && one.at >= ms(12)).expect("it is throttled");
    let (in_pool, here) = total(idle.at);
    assert_eq!(in_pool, Some(0));
    assert!(here.is_some_and(|left| left <= 0), "{here:?}");
    assert_eq!(says(&history, idle.at, &["a"]), ["idles: `/g1` is throttled here"]);
}

#[test]
fn nothing_is_kept_unless_it_is_asked_for_and_the_run_is_the_same() {
    let plain = Simulation::new(Workload::toml(HOGS)).duration(Duration::from_millis(40)).run().unwrap();
    let observe = Observe { state: StateTracks::On, ..Observe::default() };
    let kept =
        Simulation::new(Workload::toml(HOGS)).duration(Duration::from_millis(40)).observe(observe).run().unwrap();
    assert!(plain.report().state.is_none() && kept.report().state.is_some());
    assert_eq!(plain.report().summary.switches, kept.report().summary.switches);
    assert_eq!(plain.report().outcome.stats, kept.report().outcome.stats);
}

/// Every decision of every example and lesson has a reason that the state shows: each rule of the
/// scheduler is known here, or a sentence would say "out of order".
#[test]
fn no_decision_is_out_of_order() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../");
    let mut texts: Vec<(String, String)> = std::fs::read_dir(format!("{root}examples"))
        .expect("the examples")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|end| end == "toml" || end == "json"))
        .map(|path| (path.display().to_string(), std::fs::read_to_string(&path).expect("a text")))
        .collect();
    let lessons = std::fs::read_to_string(format!("{root}crates/wasm/web/lessons.json")).expect("the lessons");
    let lessons: Vec<serde_json::Value> = serde_json::from_str(&lessons).expect("JSON");
    let text = |lesson: &serde_json::Value| lesson["text"].as_str().expect("a text").to_owned();
    texts.extend(lessons.iter().map(|lesson| (format!("{}.toml", lesson["title"]), text(lesson))));
    let mut judged = 0;
    for ((name, text), kernel) in texts.iter().flat_map(|text| ["5.15", "6.12", "7.3"].map(|kernel| (text, kernel))) {
        let observe = Observe { state: StateTracks::On, ..Observe::FIGURES };
        let simulation = Simulation::new(Workload::text(name, text)).kernel(kernel).observe(observe);
        // Some lessons have settings that one of these kernels does not allow.
        let Ok(result) = simulation.duration(Duration::from_secs(1)).run() else { continue };
        let history = result.report().state.clone().expect("it was asked for");
        for decision in &history.decisions {
            judged += 1;
            if let Rule::Fair(levels) = &decision.why.rule {
                let is_known = |by: &FairRule| !matches!(by, FairRule::OutOfOrder { .. });
                assert!(levels.iter().all(|level| is_known(&level.by)), "{name} under {kernel}: {decision:?}");
                assert!(!levels.is_empty(), "{name} under {kernel}: {decision:?}");
            }
        }
    }
    assert!(judged > 50_000, "{judged} decisions");
}

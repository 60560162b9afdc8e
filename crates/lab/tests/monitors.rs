//! Random scenarios under every kernel preset: no rule is broken, and the same seed gives the same
//! bytes.
//!
//! A scenario is a function of its number. A failing one is saved as a file in the build directory,
//! and the message contains the command that replays it.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use zerolag::Plan;
use zerolag::check::{Options, Report, Verdict, check, monitors};
use zerolag::model::settings::RtBalance;
use zerolag::model::{Duration, GroupId, Instant, KernelVersion, TraceEvent};
use zerolag::sim::Tracing;
use zerolag::trace::{Meta, Trace};
use zerolag::workload::{LoadOptions, scenario};
use zerolag_lab::fuzz::Dice;

/// The number of scenarios.
const SCENARIOS: u64 = 200;
/// A fault of presets that `rt-quiescence` finds: `specs/server/resched-lost.md`.
const NO_FAULT: &str = "\"fault.fair_server_resched_lost\" = \"off\"";

/// The number of additional scenarios under the youngest kernel, which is the only one with some of
/// the mechanisms.
const YOUNGEST: u64 = 40;
/// The number of scenarios with deadline tasks.
const DEADLINES: u64 = 120;
/// Scenarios that have failed once. The first: a server that was queued with an exhausted budget
/// let its timer fire forever. The second: a late task that started its next job at once had no
/// timer for that budget.
const FOUND: [u64; 2] = [5478, 10_610];
/// The number of scenarios that are run again, next to a busy thread.
const AGAIN: u64 = 40;

/// Returns the scenario of a number, as the text of a file.
fn scenario_text(number: u64) -> String {
    let dice = &mut Dice::from_state(number);
    let kernels = KernelVersion::ALL;
    let age = if number < SCENARIOS { number as usize } else { kernels.len() - 1 };
    let kernel = kernels[age % kernels.len()];
    let costs = if dice.once_in(2) { "zero" } else { "default" };
    let mut text = format!("kernel = \"{kernel}\"\nduration = \"200ms\"\nseed = {number}\ncosts = \"{costs}\"\n\n");
    let cpus = machine(&mut text, dice);
    settings(&mut text, dice, cpus);
    text.push_str("[mutex.inherits]\nprotocol = \"inherit\"\n\n");
    let tasks = dice.of(2, 4 + cpus);
    let quota = dice.of(1, 20) * 1_000;
    writeln!(text, "[group.\"/limited\"]\n\"cpu.max\" = \"{quota} 10000\"\n").expect("a string takes everything");
    for task in 0..tasks {
        writeln!(text, "[task.t{task}]").expect("a string takes everything");
        if dice.once_in(3) {
            text.push_str("group = \"/limited\"\n");
        }
        attributes(&mut text, dice, Place::Task);
        if dice.once_in(3) {
            affinity(&mut text, dice, cpus);
        }
        writeln!(text, "instances = {}\ndelay = \"{}us\"", dice.of(1, 2), dice.of(0, 20) * 250).expect("a string");
        // A task that forks does so a bounded number of times.
        let forks = dice.once_in(4);
        if forks {
            writeln!(text, "loop = {}", dice.of(1, 5)).expect("a string");
        }
        for _ in 0..dice.of(1, 3) {
            writeln!(text, "[[task.t{task}.phase]]\nloop = {}", dice.of(1, 4)).expect("a string");
            if dice.once_in(4) {
                attributes(&mut text, dice, Place::Phase);
            }
            if dice.once_in(6) {
                affinity(&mut text, dice, cpus);
            }
            writeln!(text, "steps = [{}]", steps(dice, forks)).expect("a string");
        }
        text.push('\n');
    }
    text.push_str("[task.child]\ninstances = 0\nloop = 1\nsteps = [{ run = \"700us\" }, { sleep = \"1ms\" }, { run = \"300us\" }]\n");
    if number % 5 == 2 {
        text.push_str(RCU);
    }
    text
}

/// Readers of RCU, and a task that waits for them.
const RCU: &str = r#"
[task.reader]
instances = 2
steps = [{ syscall = [{ rcu_read = "150us" }] }, { sleep = "300us" }]
[task.writer]
steps = [{ syscall = ["synchronize_rcu"] }, { run = "100us" }]
"#;

/// Returns the scenario of a number with deadline tasks that are admitted, next to other tasks,
/// with and without servers, within their budgets or not.
fn deadline_text(number: u64) -> String {
    let dice = &mut Dice::from_state(!number);
    let kernel = dice.pick(&["5.4", "6.1", "6.12", "6.18"]);
    let costs = if dice.once_in(4) { "default" } else { "zero" };
    let mut text = format!("kernel = \"{kernel}\"\nduration = \"400ms\"\nseed = {number}\ncosts = \"{costs}\"\n\n");
    let cpus = if dice.once_in(2) { 1 } else { dice.of(2, 4) };
    writeln!(text, "[machine]\ncpus = {cpus}\n\n[settings]\n{NO_FAULT}").expect("a string takes everything");
    let server = dice.pick(&["off", "off", "immediate", "deferred"]);
    let (enforce, preempt) = (dice.pick(&["exact", "tick"]), dice.pick(&["full", "full", "none", "lazy"]));
    writeln!(
        text,
        "\"enforce.dl\" = \"{enforce}\"\npreempt = \"{preempt}\"\nfair_server = \"{server}\"\n\
         \"fair_server.runtime\" = \"{}us\"\n\"fair_server.period\" = \"20ms\"\nhz = {}\n",
        dice.of(2, 10) * 100,
        dice.pick(&["250", "1000"])
    )
    .expect("a string takes everything");
    text.push_str("[mutex.inherits]\nprotocol = \"inherit\"\n\n");
    // In thousandths; a server takes at most 50 of each CPU, and 50 stay unused.
    let mut left = 890 * cpus;
    let lock_at = dice.once_in(4);
    for task in 0..dice.of(1, 4 * cpus) {
        let share = dice.of(20, 600).min(left);
        if share < 20 {
            break;
        }
        let period = dice.of(2, 30) * 1_000;
        let runtime = period * share / 1_000;
        // A deadline shorter than the period counts as a period of that length.
        let deadline = if dice.once_in(4) { period * dice.of(7, 10) / 10 } else { period };
        left -= (runtime * 1_000).div_ceil(deadline).min(left);
        let flags = if dice.once_in(8) { "flags = [\"reclaim\"]\n" } else { "" };
        writeln!(
            text,
            "[task.d{task}]\npolicy = \"SCHED_DEADLINE\"\nruntime = \"{runtime}us\"\ndeadline = \"{}us\"\nperiod = \"{period}us\"\n\
             {flags}delay = \"{}us\"",
            deadline.max(runtime),
            dice.of(0, 20) * 250
        )
        .expect("a string takes everything");
        let run = runtime * dice.of(2, 6) / 4;
        let steps = match dice.of(0, 3) {
            0 => "{ run = \"10s\" }".to_owned(),
            1 => format!("{{ run = \"{run}us\" }}, {{ sleep = \"{}us\" }}", dice.of(1, 80) * 100),
            2 if lock_at => format!(
                "{{ lock = \"inherits\" }}, {{ run = \"{run}us\" }}, {{ unlock = \"inherits\" }}, {{ sleep = \"1ms\" }}"
            ),
            _ => format!(
                "{{ run = \"{run}us\" }}, {{ timer = {{ period = \"{period}us\", mode = \"absolute\", name = \"d{task}\" }} }}"
            ),
        };
        writeln!(text, "steps = [{steps}]\n").expect("a string takes everything");
    }
    for task in 0..dice.of(0, 2 + cpus) {
        writeln!(text, "[task.t{task}]").expect("a string takes everything");
        attributes(&mut text, dice, Place::Task);
        writeln!(text, "steps = [{}]\n", steps(dice, false)).expect("a string takes everything");
    }
    text
}

fn machine(text: &mut String, dice: &mut Dice) -> u64 {
    let (table, cpus) = match dice.of(0, 3) {
        0 => ("sockets = 2\ncores_per_llc = 2\nsmt = 2".to_owned(), 8),
        1 => ("cores_per_llc = 2\nsmt = 2".to_owned(), 4),
        _ => {
            let cpus = dice.of(1, 8);
            (format!("cpus = {cpus}"), cpus)
        }
    };
    writeln!(text, "[machine]\n{table}\n").expect("a string takes everything");
    cpus
}

fn settings(text: &mut String, dice: &mut Dice, cpus: u64) {
    writeln!(text, "[settings]\n{NO_FAULT}").expect("a string takes everything");
    let mut set = |dice: &mut Dice, key: &str, values: &[&str]| {
        if dice.once_in(2) {
            writeln!(text, "{key} = \"{}\"", dice.pick(values)).expect("a string takes everything");
        }
    };
    set(dice, "preempt", &["none", "voluntary", "full", "lazy", "rt"]);
    set(dice, "enforce.fair", &["tick", "exact"]);
    set(dice, "enforce.rt", &["tick", "exact"]);
    set(dice, "rt_push_skip_stuck", &["on", "off"]);
    set(dice, "rt_select_on_wake", &["on", "off"]);
    set(dice, "nohz", &["on", "off"]);
    // These name CPUs, which must exist.
    let (isolated, full) = match cpus {
        1 => ("", ""),
        2 => ("1", "1"),
        _ => ("1", "1-2"),
    };
    set(dice, "isolcpus", &["", "", isolated]);
    set(dice, "nohz_full", &["", "", full]);
    let balances: Vec<&str> = RtBalance::ALL.iter().map(|value| value.name()).collect();
    set(dice, "rt_balance", &balances);
    set(dice, "rt_overload", &["queued", "pushable"]);
    writeln!(text, "hz = {}\n", dice.pick(&["100", "250", "1000"])).expect("a string takes everything");
}

/// Where attributes are written: a phase changes only some of them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Task,
    Phase,
}

fn attributes(text: &mut String, dice: &mut Dice, place: Place) {
    let fair = if place == Place::Task { 2 } else { 3 };
    let written = match dice.of(0, fair + 2) {
        0 | 1 => writeln!(text, "policy = \"SCHED_FIFO\"\npriority = {}", dice.of(1, 9) * 10),
        2 => writeln!(text, "policy = \"SCHED_RR\"\npriority = {}", dice.of(1, 3) * 20),
        3 => writeln!(text, "policy = \"{}\"", dice.pick(&["SCHED_BATCH", "SCHED_IDLE"])),
        _ => writeln!(text, "policy = \"SCHED_OTHER\"\nnice = {}", dice.of(0, 20) as i64 - 10),
    };
    written.expect("a string takes everything");
}

fn affinity(text: &mut String, dice: &mut Dice, cpus: u64) {
    let first = dice.of(0, cpus - 1);
    writeln!(text, "cpus = \"{first}-{}\"", dice.of(first, cpus - 1)).expect("a string takes everything");
}

/// Returns the steps of a phase. Time passes in each phase; mutexes are taken in one order, so that
/// no tasks wait in a circle.
fn steps(dice: &mut Dice, forks: bool) -> String {
    let mut steps = vec![format!("{{ run = \"{}us\" }}", dice.of(1, 40) * 50)];
    for _ in 0..dice.of(0, 4) {
        let (run, more) = (dice.of(1, 60) * 25, dice.of(1, 40) * 100);
        let step = match dice.of(0, 9) {
            0 | 1 => format!("{{ sleep = \"{more}us\" }}"),
            2 => format!("{{ run = \"{more}us\" }}"),
            // Short, because preemption models only promise that kernel mode ends.
            3 => format!("{{ kernel = \"{}us\" }}", dice.of(1, 8) * 50),
            4 => "\"yield\"".to_owned(),
            5 => {
                let mode = dice.pick(&["absolute", "relative"]);
                format!("{{ timer = {{ period = \"{more}us\", mode = \"{mode}\", name = \"{mode}\" }} }}")
            }
            6 => format!("{{ lock = \"inherits\" }}, {{ run = \"{run}us\" }}, {{ unlock = \"inherits\" }}"),
            7 => format!("{{ lock = \"plain\" }}, {{ run = \"{run}us\" }}, {{ unlock = \"plain\" }}"),
            8 => format!(
                "{{ lock = \"inherits\" }}, {{ lock = \"later\" }}, {{ run = \"{run}us\" }}, {{ sleep = \"200us\" }}, \
                 {{ unlock = \"later\" }}, {{ unlock = \"inherits\" }}"
            ),
            _ if forks => "{ fork = \"child\" }".to_owned(),
            _ => format!("{{ run = {{ exponential = {{ mean = \"{run}us\", max = \"5ms\" }} }} }}"),
        };
        steps.push(step);
    }
    steps.join(", ")
}

fn run(text: &str) -> Result<Trace, String> {
    let scenario = scenario::load("random.toml", text, &LoadOptions::default()).map_err(|error| error.to_string())?;
    let plan = Plan::new(scenario).map_err(|error| error.to_string())?;
    let mut machine = plan.build(Tracing::On).map_err(|error| error.to_string())?;
    let mut records = Vec::new();
    let outcome = machine.run(&mut records);
    if !outcome.why.is_ok() {
        return Err(outcome.why.to_string());
    }
    Ok(Trace { meta: Meta { end: outcome.end, ..plan.meta() }, records })
}

fn bytes(trace: &Trace) -> Vec<u8> {
    let mut bytes = Vec::new();
    trace.write(&mut bytes).expect("a vector takes everything");
    bytes
}

/// Returns whether a rule is known not to hold in a run.
///
/// In passive modes a real-time task weighs as much as hundreds of fair ones. So two halves of a
/// machine look balanced while a CPU of one half idles and a fair task waits behind a real-time one
/// in the other. Kernels before 2.6.25 behave like this.
fn is_known(trace: &Trace, monitor: &str) -> bool {
    let balance = trace.meta.setting("rt_balance").and_then(RtBalance::from_name);
    monitor == "no-task-lost" && balance.is_some_and(RtBalance::is_passive)
}

/// Saves a failed scenario as a file, and returns a message with the command that replays it.
fn failed(number: u64, text: &str, why: &str) -> String {
    let path: PathBuf = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("monitors-{number}.toml"));
    std::fs::write(&path, text).expect("the directory of this test can be written");
    format!("scenario {number}: {why}\n  replay: cargo run -p zerolag -- run {}\n", path.display())
}

/// Scenarios of real-time tasks in groups with runtimes.
const RT_GROUPS: u64 = 60;

/// Writes a scenario of nested groups with real-time runtimes, or with servers, whose tasks want
/// more than these.
fn rt_group_text(number: u64, mode: &str) -> String {
    let dice = &mut Dice::from_state(number ^ 0x5254);
    let (kernel, hz) = (dice.pick(&["2.6.32", "4.19", "5.15", "6.12", "6.18"]), dice.pick(&["100", "250", "1000"]));
    let mut text = format!(
        "kernel = \"{kernel}\"\nduration = \"400ms\"\nseed = {number}\ncosts = \"zero\"\n\n\
         [machine]\ncpus = {}\n\n[settings]\n{NO_FAULT}\nrt_group_sched = \"{mode}\"\nhz = {hz}\n\n",
        dice.of(1, 3)
    );
    let outer = dice.of(20, 60);
    for (path, runtime) in [("/a", outer), ("/a/b", outer / 2), ("/c", 30)] {
        // Deadline servers of classes have a part too.
        let runtime = if mode == "hcbs" { runtime * 800 } else { runtime * 1_000 };
        let limit = match mode {
            "hcbs" => format!("\"cpu.rt.max\" = \"{runtime} 100000\""),
            _ => format!("\"cpu.rt_period_us\" = 100000\n\"cpu.rt_runtime_us\" = {runtime}"),
        };
        writeln!(text, "[group.\"{path}\"]\n{limit}\n").expect("a string takes everything");
    }
    for task in 0..dice.of(2, 6) {
        let group = dice.pick(&["group = \"/a\"\n", "group = \"/a/b\"\n", "group = \"/c\"\n", ""]);
        let (policy, sleep) = (dice.pick(&["fifo", "rr"]), dice.of(0, 12));
        writeln!(
            text,
            "[task.r{task}]\npolicy = \"{policy}\"\npriority = {}\n{group}delay = \"{}us\"\n\
             steps = [{{ run = \"{}us\" }}, {{ sleep = \"{sleep}ms\" }}]\n",
            dice.of(1, 4),
            dice.of(0, 40) * 250,
            dice.of(1, 60) * 500
        )
        .expect("a string takes everything");
    }
    text.push_str("[task.fair]\ninstances = 2\nsteps = [{ run = \"1s\" }]\n");
    text
}

#[test]
fn no_random_scenario_breaks_a_rule() {
    let mut held: BTreeMap<&str, u64> = BTreeMap::new();
    let mut said = String::new();
    let texts = (0..SCENARIOS + YOUNGEST).map(|number| (number, scenario_text(number)));
    let deadline_texts =
        (0..DEADLINES).chain(FOUND).map(|number| (SCENARIOS + YOUNGEST + number, deadline_text(number)));
    let group_texts = ["on", "hcbs"].into_iter().enumerate().flat_map(|(at, mode)| {
        let base = SCENARIOS + YOUNGEST + 20_000 + 1_000 * at as u64;
        (0..RT_GROUPS).map(move |number| (base + number, rt_group_text(number, mode)))
    });
    for (number, text) in texts.chain(deadline_texts).chain(group_texts) {
        let trace = match run(&text) {
            Ok(trace) => trace,
            Err(why) => {
                said.push_str(&failed(number, &text, &why));
                continue;
            }
        };
        let report = check(&trace, &Options::default());
        if let Some((monitor, violation)) = report.violations().find(|(monitor, _)| !is_known(&trace, monitor)) {
            said.push_str(&failed(number, &text, &format!("{monitor}: {violation}")));
        }
        for (monitor, verdict) in report.verdicts {
            *held.entry(monitor).or_default() += u64::from(verdict == Verdict::Held);
        }
    }
    assert!(said.is_empty(), "{said}");
    for rule in monitors::TABLE {
        let times = held.get(rule.name).copied().unwrap_or_default();
        // The two youngest kernels have servers; only the youngest throttles at the return to user
        // mode.
        let least = match rule.name {
            "kernel-mode" | "locks" => SCENARIOS / 50,
            "rcu" => SCENARIOS / 10,
            "rt-groups" => RT_GROUPS,
            "rt-supply" => RT_GROUPS / 2,
            name if name.starts_with("server-") => SCENARIOS / 10,
            _ => SCENARIOS / 2,
        };
        assert!(times >= least, "`{}` could be held against {times} scenarios only", rule.name);
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes_whatever_else_runs() {
    let done = AtomicBool::new(false);
    let mut said = String::new();
    std::thread::scope(|scope| {
        let alone: Vec<Vec<u8>> =
            (0..AGAIN).map(|number| bytes(&run(&scenario_text(number)).expect("a run"))).collect();
        scope.spawn(|| {
            let mut number = SCENARIOS;
            while !done.load(Ordering::Relaxed) {
                number += 1;
                drop(run(&scenario_text(number)));
            }
        });
        for (number, first) in (0..AGAIN).zip(&alone) {
            let text = scenario_text(number);
            if run(&text).map(|trace| bytes(&trace)).as_ref() != Ok(first) {
                said.push_str(&failed(number, &text, "another run gave other bytes"));
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(said.is_empty(), "{said}");
}

/// Two CPUs, real-time and fair tasks; one of them waits while less urgent ones run, because no
/// balancer is active.
const CANARY: &str = r#"
kernel = "2.6.23"
duration = "40ms"
costs = "zero"
[machine]
cpus = 2
[task.high]
policy = "SCHED_FIFO"
priority = 30
steps = [{ run = "6ms" }, { sleep = "4ms" }]
[task.fair]
cpus = "1"
steps = [{ run = "1s" }]
[task.mid]
policy = "SCHED_FIFO"
priority = 20
delay = "1ms"
steps = [{ run = "1ms" }, { sleep = "3ms" }]
"#;

fn canary() -> Trace {
    run(CANARY).expect("the canary runs")
}

#[track_caller]
fn caught(monitor: &str, trace: &Trace) {
    let report: Report = check(trace, &Options::default());
    assert!(matches!(report.verdict(monitor), Some(Verdict::Broken(_))), "`{monitor}` saw nothing:\n{report}");
}

/// Changes the first record that `change` accepts.
#[track_caller]
fn changed(mut trace: Trace, mut change: impl FnMut(&mut TraceEvent) -> bool) -> Trace {
    let found = trace.records.iter_mut().any(|record| change(&mut record.event));
    assert!(found, "there was nothing to change");
    trace
}

#[test]
fn broken_traces_are_caught() {
    let report = check(&canary(), &Options::default());
    assert!(report.is_clean(), "{report}");

    // A task runs on two CPUs.
    let mut twice = canary();
    let at =
        twice.records.iter().position(|record| matches!(record.event, TraceEvent::Switch { .. })).expect("a switch");
    let mut copy = twice.records[at].clone();
    copy.cpu.0 = 1 - copy.cpu.0;
    twice.records.insert(at + 1, copy);
    caught("one-cpu", &twice);

    // A CPU claims to have idled a nanosecond less.
    let lost = changed(canary(), |event| match event {
        TraceEvent::CpuTotals { times } => {
            *times = zerolag::model::LayerTimes::default();
            true
        }
        _ => false,
    });
    caught("time-conserved", &lost);

    // No CPU switches after the first millisecond.
    let mut idle = canary();
    idle.meta.end = Instant::from_nanos(1_000_000_000);
    idle.records.retain(|record| !matches!(record.event, TraceEvent::Switch { .. }));
    caught("no-task-lost", &idle);

    // A task runs on a CPU that it may not use.
    let elsewhere = changed(canary(), |event| match event {
        TraceEvent::Affinity { cpus, .. } => {
            *cpus = std::sync::Arc::new(zerolag::model::CpuMask::first_n(1));
            true
        }
        _ => false,
    });
    caught("affinity", &elsewhere);

    // A less urgent task is picked.
    let mut order =
        run(&CANARY.replace("cpus = 2", "cpus = 1").replace("cpus = \"1\"", "cpus = \"0\"")).expect("it runs");
    let waits = order.records.iter().find_map(|record| match &record.event {
        TraceEvent::TaskNew { task, name, .. } if &**name == "mid-0" => Some(*task),
        _ => None,
    });
    let fair = order.records.iter().find_map(|record| match &record.event {
        TraceEvent::TaskNew { task, name, .. } if &**name == "fair-0" => Some(*task),
        _ => None,
    });
    order = changed(order, |event| match event {
        TraceEvent::Switch { next, .. } if *next == waits => {
            *next = fair;
            true
        }
        _ => false,
    });
    caught("rt-order", &order);

    // A task waits while a less urgent one runs, and the trace says that balancing is active.
    let mut waits = canary();
    for (key, value) in &mut waits.meta.settings {
        if key == "rt_balance" {
            "pull_locked".clone_into(value);
        }
    }
    caught("rt-quiescence", &waits);

    // A task counts a switch that is not in the trace.
    let counted = changed(canary(), |event| match event {
        TraceEvent::TaskTotals { counters, .. } => {
            counters.switches_in += 1;
            true
        }
        _ => false,
    });
    caught("counters", &counted);
}

/// Two groups with servers, each with tasks that want more than they get.
const SERVED: &str = r#"
kernel = "7.1"
duration = "700ms"
costs = "zero"
[settings]
rt_group_sched = "hcbs"
hz = 1000
[machine]
cpus = 1
[group."/a"]
"cpu.rt.max" = "20ms 100ms"
[group."/b"]
"cpu.rt.max" = "20ms 100ms"
[task.hog]
policy = "fifo"
priority = 90
group = "/a"
steps = [{ run = "10s" }]
[task.urgent]
policy = "fifo"
priority = 20
group = "/b"
steps = [{ run = "4ms" }, { sleep = "2ms" }]
[task.slow]
policy = "fifo"
priority = 10
group = "/b"
steps = [{ run = "10s" }]
"#;

/// Returns the trace of a core whose servers give the group `/a` its runtime as it is, where it was
/// promised another one: too much for it, or too little.
fn promised(runtime: u64) -> Trace {
    changed(run(SERVED).expect("it runs"), |event| match event {
        TraceEvent::RtGroup { group: GroupId(1), bandwidth } => {
            bandwidth.runtime = Some(Duration::from_millis(runtime));
            true
        }
        _ => false,
    })
}

#[test]
fn broken_isolation_between_groups_is_caught() {
    let report = check(&promised(20), &Options::default());
    assert!(report.is_clean(), "{report}");
    for rule in ["rt-supply", "rt-groups", "rt-order"] {
        assert_eq!(report.verdict(rule), Some(&Verdict::Held), "{report}");
    }

    // A server gives the group less than its budget: of 90 ms only 20.
    caught("rt-supply", &promised(90));
    // Its tasks take from the others: 20 ms where they have 5.
    caught("rt-groups", &promised(5));

    // Priority inversion in a group: its server runs the less urgent of two tasks.
    let served = run(SERVED).expect("it runs");
    let named = |wanted: &str| {
        served.records.iter().find_map(|record| match &record.event {
            TraceEvent::TaskNew { task, name, .. } if &**name == wanted => Some(*task),
            _ => None,
        })
    };
    let (urgent, slow) = (named("urgent-0"), named("slow-0"));
    let inverted = changed(served.clone(), |event| match event {
        TraceEvent::Switch { next, .. } if *next == urgent => {
            *next = slow;
            true
        }
        _ => false,
    });
    caught("rt-order", &inverted);

    // A group is starved altogether: a core that never gives its server the CPU.
    let mut starved = served.clone();
    let hog = named("hog-0");
    starved.records.retain(|record| match &record.event {
        TraceEvent::Switch { prev, next, .. } => *prev != hog && *next != hog,
        TraceEvent::RtGroupThrottle { group, .. } => *group != GroupId(1),
        _ => true,
    });
    caught("rt-supply", &starved);
}

//! Bounds beside simulations: no simulated response is above its bound while the assumptions hold.
//!
//! Random workloads of every class, on one CPU and on several, under several kernels, without
//! costs. A bound that is wrong is found by the same judge: the last test plants some.

use std::collections::BTreeMap;
use std::fmt::Write;
use zerolag::analyse::{Analysis, Method, analyse};
use zerolag::workload::generate::{Drawn, Shares, TaskSets};
use zerolag::workload::random::Stream;
use zerolag::{Simulation, Workload};
use zerolag_model::Duration;

/// The classes of tasks of a workload.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Kind {
    Fifo,
    Deadline,
    BothClasses,
    Overrun,
    Fair,
    Limited,
    Shared,
    Starved,
    Loaded,
    Served,
}

const KINDS: [Kind; 10] = [
    Kind::Fifo,
    Kind::Deadline,
    Kind::BothClasses,
    Kind::Overrun,
    Kind::Fair,
    Kind::Limited,
    Kind::Shared,
    Kind::Starved,
    Kind::Loaded,
    Kind::Served,
];

fn us(time: Duration) -> u64 {
    time.as_micros_floor().max(2)
}

/// Writes a task that waits for a timer, or sleeps between its jobs.
fn task(out: &mut String, name: usize, keys: &str, drawn: Drawn, dice: &mut Stream) {
    let (cost, period) = (us(drawn.cost), us(drawn.period));
    let run = if dice.below(3) == 0 && cost > 4 {
        format!("{{ run = {{ uniform = {{ min = \"{}us\", max = \"{cost}us\" }} }} }}", cost / 2)
    } else {
        format!("{{ run = \"{cost}us\" }}")
    };
    // A job after a sleep is released at the end of the job before and the sleep.
    let pause = if dice.below(4) == 0 && !keys.contains("DEADLINE") {
        format!("{{ sleep = \"{}us\" }}", (period - cost.min(period - 1)).max(1))
    } else {
        format!("{{ timer = {{ period = \"{period}us\", mode = \"absolute\" }} }}")
    };
    let delay = dice.below(3) * dice.below(5_000);
    writeln!(out, "[task.t{name}]\n{keys}\ndelay = \"{delay}us\"\nsteps = [{run}, {pause}]").expect("a string");
}

/// Returns a random workload.
#[expect(clippy::too_many_lines, reason = "one draw per part; an earlier one restricts the later ones")]
fn workload(kind: Kind, dice: &mut Stream) -> (String, u64) {
    let is_single = !matches!(kind, Kind::Fifo | Kind::Deadline | Kind::BothClasses);
    let cpus = if is_single || dice.below(2) == 0 { 1 } else { 2 + dice.below(3) };
    let utilization = cpus as f64 * (0.25 + dice.below(65) as f64 / 100.0);
    let utilization = if cpus > 1 { utilization * 0.7 } else { utilization };
    let sets = TaskSets {
        tasks: (cpus + 1 + dice.below(6)) as usize,
        utilization,
        shares: Shares::Drs { low: 0.002, high: 0.95 },
        shortest: Duration::from_millis(2),
        longest: Duration::from_millis(60),
        grain: Duration::from_millis(1),
        deadlines: if kind == Kind::Shared || dice.below(2) == 0 { (1.0, 1.0) } else { (0.4, 1.0) },
        ..TaskSets::default()
    };
    let set = sets.draw(dice.next_u64()).expect("a valid set");
    let kernels: &[&str] = match kind {
        Kind::Loaded => &["6.18", "7.0", "7.2"],
        Kind::Served => &["7.1"],
        _ => &["5.15", "6.1", "6.6", "6.12", "6.18"],
    };
    let kernel = kernels[dice.below(kernels.len() as u64) as usize];
    let mut out = format!("kernel = \"{kernel}\"\nduration = \"600ms\"\ncosts = \"zero\"\n[machine]\ncpus = {cpus}\n");
    let with_server = matches!(kind, Kind::Starved | Kind::Shared | Kind::Loaded);
    out.push_str("[settings]\nenforce.dl = \"exact\"\nenforce.rt = \"exact\"\n");
    if !with_server && dice.below(2) == 0 {
        out.push_str("fair_server = \"off\"\n");
    }
    if kind == Kind::Shared && dice.below(3) > 0 {
        out.push_str("fair_server.runtime = \"2ms\"\nfair_server.period = \"40ms\"\nhz = 1000\n");
    }
    if kind == Kind::Loaded {
        let tasks = ["partial", "all"][dice.below(2) as usize];
        write!(out, "sched_ext = \"{tasks}\"\nhz = 1000\n").expect("a string");
        if dice.below(3) > 0 {
            out.push_str("ext_server.runtime = \"2ms\"\next_server.period = \"40ms\"\n");
        }
    }
    if kind == Kind::Limited {
        out.push_str("hz = 1000\n");
        let period = [5_000, 10_000, 20_000, 50_000][dice.below(4) as usize];
        let share = utilization + (1.0 - utilization) * (0.3 + dice.below(60) as f64 / 100.0);
        let quota = ((period as f64 * share) as u64).max(1_000);
        let burst = dice.below(2) * quota / 2;
        write!(out, "[group.\"/g\"]\n\"cpu.max\" = \"{quota} {period}\"\n\"cpu.max.burst\" = {burst}\n")
            .expect("a string");
    }
    if kind == Kind::Served {
        out.push_str("rt_group_sched = \"hcbs\"\n");
        for group in 0..2 {
            let period = [4_000, 10_000, 20_000][dice.below(3) as usize];
            let runtime = period * (20 + dice.below(16)) / 100;
            writeln!(out, "[group.\"/g{group}\"]\n\"cpu.rt.max\" = \"{runtime} {period}\"").expect("a string");
        }
    }
    for (name, drawn) in set.iter().copied().enumerate() {
        let fifo = |dice: &mut Stream| format!("policy = \"SCHED_FIFO\"\npriority = {}", 20 + dice.below(6));
        let reservation = |runtime: u64, drawn: Drawn| {
            let (deadline, period) = (us(drawn.deadline).max(runtime), us(drawn.period));
            format!(
                "policy = \"SCHED_DEADLINE\"\nruntime = \"{runtime}us\"\ndeadline = \"{deadline}us\"\nperiod = \"{period}us\""
            )
        };
        let keys = match kind {
            Kind::Fifo => fifo(dice),
            Kind::Deadline => reservation(us(drawn.cost), drawn),
            Kind::BothClasses if name % 2 == 0 => reservation(us(drawn.cost), drawn),
            Kind::BothClasses => fifo(dice),
            Kind::Fair | Kind::Starved => match dice.below(3) {
                0 => "nice = -5".to_owned(),
                1 => "nice = 10".to_owned(),
                _ => String::new(),
            },
            // A server of the usual 50 ms, or a small one, beside every class.
            Kind::Shared if name % 3 == 0 => fifo(dice),
            Kind::Shared if name % 3 == 1 => reservation(us(drawn.cost), drawn),
            Kind::Shared => String::new(),
            Kind::Loaded if name % 3 == 0 => fifo(dice),
            Kind::Loaded if name % 3 == 1 => String::new(),
            Kind::Loaded => "policy = \"SCHED_EXT\"".to_owned(),
            Kind::Limited if name % 4 == 3 => fifo(dice),
            Kind::Limited if name % 4 == 2 => String::new(),
            Kind::Limited => "group = \"/g\"".to_owned(),
            Kind::Served if name % 5 == 4 => fifo(dice),
            Kind::Served if name % 5 == 3 => String::new(),
            Kind::Served => format!("{}\ngroup = \"/g{}\"", fifo(dice), name % 2),
            Kind::Overrun => {
                // Jobs of up to three budgets, in periods that have as many.
                let budgets = 1 + dice.below(3);
                let drawn = Drawn { deadline: drawn.period, ..drawn };
                let keys = reservation(us(drawn.cost), drawn);
                let job = Drawn {
                    cost: Duration::from_micros(us(drawn.cost) * budgets),
                    period: Duration::from_micros(us(drawn.period) * budgets * (1 + dice.below(2))),
                    ..drawn
                };
                task(&mut out, name, &keys, job, dice);
                continue;
            }
        };
        // What a server gives is little.
        let drawn = match kind {
            Kind::Served => Drawn { cost: Duration::from_micros(us(drawn.cost) / 4 + 2), ..drawn },
            Kind::Starved => Drawn {
                cost: Duration::from_micros(us(drawn.cost).min(2_000)),
                period: Duration::from_micros(us(drawn.period) * 40),
                ..drawn
            },
            _ => drawn,
        };
        task(&mut out, name, &keys, drawn, dice);
    }
    if kind == Kind::Starved {
        out.push_str("[task.hog]\npolicy = \"SCHED_FIFO\"\npriority = 10\nsteps = [{ run = \"1s\" }]\n");
        out = out.replace("duration = \"600ms\"", "duration = \"6s\"");
    }
    (out, dice.next_u64() >> 1)
}

/// Returns the names of tasks whose response is above a bound that should hold.
fn judge(analysis: &Analysis) -> Vec<String> {
    analysis.exceeded().map(|row| format!("{}: {:?} above {:?}", row.name, row.observed, row.bound)).collect()
}

/// Returns analyses of random workloads, with their texts.
fn analyses(kind: Kind, count: u64) -> Vec<(String, Analysis)> {
    let mut found = Vec::new();
    for number in 0..count {
        let mut dice = Stream::new(23, "analyse", number as u32, &format!("{kind:?}"));
        let (text, seed) = workload(kind, &mut dice);
        let plan = Simulation::new(Workload::toml(&text)).seed(seed).plan();
        let plan = plan.unwrap_or_else(|error| panic!("{error}\n{text}")).plan;
        // Sets that are not admitted are no workloads.
        match analyse(&plan, 1, |_| std::ops::ControlFlow::Continue(())) {
            Ok(analysis) => found.push((text, analysis)),
            Err(error) => assert!(error.to_string().contains("EBUSY"), "{error}\n{text}"),
        }
    }
    found
}

#[derive(Default)]
struct Tally {
    bounds: u64,
    jobs: u64,
    closest: f64,
    /// Tasks at which a bound that is a tenth, or a half, too small was found.
    wrong_found: [u64; 2],
}

#[test]
fn no_simulated_response_is_above_its_bound() {
    let mut by_method: BTreeMap<(&str, Kind), Tally> = BTreeMap::new();
    for kind in KINDS {
        for (text, analysis) in analyses(kind, 60) {
            let wrong = judge(&analysis);
            assert!(wrong.is_empty(), "{kind:?}: {}\n{analysis}\n{text}", wrong.join("\n"));
            for row in analysis.tasks.iter().filter(|row| row.breaks.is_empty()) {
                let (Ok(bound), Some(observed)) = (&row.bound, &row.observed) else { continue };
                let tally = by_method.entry((bound.method.name(), kind)).or_default();
                tally.bounds += 1;
                tally.jobs += observed.jobs;
                let share = observed.longest.as_nanos() as f64 / bound.response.as_nanos() as f64;
                tally.closest = tally.closest.max(share);
            }
            // Bounds that are a tenth too small, or a half: the judge finds them.
            for (tenths, of) in [(9, 0), (5, 1)] {
                let mut planted = analysis.clone();
                for row in &mut planted.tasks {
                    if let Ok(bound) = &mut row.bound {
                        bound.response = bound.response.mul_div_floor(tenths, 10);
                    }
                }
                assert_eq!(judge(&planted).len(), planted.exceeded().count());
                for row in planted.exceeded() {
                    let method = row.bound.as_ref().expect("exceeded").method;
                    by_method.entry((method.name(), kind)).or_default().wrong_found[of] += 1;
                }
            }
        }
    }
    for ((method, kind), tally) in &by_method {
        println!(
            "{method} of {kind:?}: {} bounds, {} jobs, up to {:.3}, {:?} planted",
            tally.bounds, tally.jobs, tally.closest, tally.wrong_found
        );
    }
    // Each method is tried, and comes near its bound; those of whole busy periods less.
    for (method, kind, near) in [
        (Method::FixedPriority, Kind::Fifo, 0.999),
        (Method::FixedPriority, Kind::BothClasses, 0.999),
        (Method::Edf, Kind::Deadline, 0.999),
        (Method::EdfBudgets, Kind::Overrun, 0.6),
        (Method::Reservation, Kind::Overrun, 0.6),
        (Method::GlobalEdf, Kind::Deadline, 0.95),
        (Method::GlobalFixedPriority, Kind::Fifo, 0.95),
        (Method::GlobalFixedPriority, Kind::BothClasses, 0.9),
        (Method::BusyPeriod, Kind::Fair, 0.95),
        (Method::BusyPeriod, Kind::Limited, 0.8),
        (Method::FixedPriority, Kind::Shared, 0.99),
        (Method::BusyPeriod, Kind::Shared, 0.95),
        (Method::FairServer, Kind::Starved, 0.45),
        (Method::FixedPriority, Kind::Loaded, 0.9),
        (Method::BusyPeriod, Kind::Loaded, 0.9),
        (Method::GroupServer, Kind::Served, 0.5),
    ] {
        let name = format!("{} of {kind:?}", method.name());
        let tally = by_method.get(&(method.name(), kind)).unwrap_or_else(|| panic!("no bound by {name}"));
        assert!(tally.bounds >= 20, "{name}: only {} bounds", tally.bounds);
        assert!(tally.closest >= near, "{name}: responses reach {:.3} of their bounds", tally.closest);
        // A bound that is too small by more than what separates it from the responses is found.
        assert!(near < 0.9 || tally.wrong_found[0] > 0, "{name}: bounds a tenth too small were not found");
        assert!(near < 0.5 || tally.wrong_found[1] > 0, "{name}: bounds half as large were not found");
    }
}

/// Tasks that move between the servers of their group: the bound is that of a scheduler that lets
/// none of them wait beside an idle server. HCBS v6 does, and the analysis says so.
#[test]
fn tasks_that_move_have_the_bound_of_all_servers_and_hcbs_is_later() {
    let spec = include_str!("../../../specs/hcbs/not-work-conserving.md");
    let scenario = spec.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a scenario");
    let plan = Simulation::new(Workload::toml(&format!("costs = \"zero\"\n{scenario}"))).plan().expect("valid").plan;
    let analysis = analyse(&plan, 1, |_| std::ops::ControlFlow::Continue(())).expect("it runs");
    let row = |name: &str| analysis.tasks.iter().find(|row| &*row.name == name).expect("a task");
    // 20 ms of 100 less a tick: 81 ms without supply, then 5 ms and half of the 25 of `high`.
    let (mid, high) = (row("mid"), row("high"));
    let bound = mid.bound.as_ref().expect("a bound");
    assert_eq!((bound.method, bound.response), (Method::GroupServers, Duration::from_micros(98_500)));
    assert_eq!(high.bound.as_ref().expect("a bound").response, Duration::from_millis(100 + 81 + 6));
    assert_eq!(mid.observed.as_ref().expect("it has a job").longest, Duration::from_millis(175));
    assert!(mid.is_above_bound() && !mid.is_exceeded(), "the broken assumption is said");
    let broken: Vec<&str> = mid.breaks.iter().map(|at| analysis.broken[*at].assumption.name()).collect();
    assert_eq!(broken, ["work_conserving"]);
    // A server that competes for a CPU can be late: twice as long without supply.
    let shared = scenario.replace("fair_server = \"off\"\n", "");
    let plan = Simulation::new(Workload::toml(&format!("costs = \"zero\"\n{shared}"))).plan().expect("valid").plan;
    let late = zerolag::analyse::bounds(&plan);
    let late = late.tasks.iter().find(|row| &*row.name == "mid").and_then(|row| row.bound.as_ref().ok());
    assert_eq!(late.expect("a bound").response, Duration::from_micros(98_500 + 81_000));
}

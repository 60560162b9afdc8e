//! Published schedulability results, repeated: the tables of
//! `docs/lab/2026-11-24-schedulability.md`.
//!
//!     cargo run --release -p zerolag --example schedulability [PART]
//!
//! Parts: `breakdown`, `qpa`, `partitioned`, `reservation`, `curves`.

use std::error::Error;
use std::ops::ControlFlow;
use zerolag::analysis::supply::{Quota, Reservation, edf_fits, fixed_fits};
use zerolag::analysis::{Sporadic, edf, fixed, global};
use zerolag::model::{CpuMax, Duration};
use zerolag::schedulability::{Study, Test};
use zerolag::workload::generate::{Shares, TaskSets};
use zerolag::workload::random::Stream;

fn sporadic(sets: &TaskSets, seed: u64) -> Result<Vec<Sporadic>, Box<dyn Error>> {
    let mut set = sets.draw(seed)?;
    set.sort_by_key(|task| task.deadline);
    let task = |task: &zerolag::workload::generate::Drawn| {
        Sporadic::new(task.cost, task.period).map(|new| new.with_deadline(task.deadline))
    };
    Ok(set.iter().map(task).collect::<Result<_, _>>()?)
}

/// Lehoczky, Sha & Ding 1989: the mean breakdown utilization of rate monotonic sets.
fn breakdown() -> Result<(), Box<dyn Error>> {
    println!(
        "breakdown utilization, periods uniform in 1..100 ms, 100 sets; costs independent of the period, or shares\n"
    );
    println!("| tasks | costs | shares |\n|---|---|---|");
    for tasks in [2, 5, 10, 20, 50, 100] {
        let mut means = [0.0, 0.0];
        for seed in 0..100 {
            let mut dice = Stream::new(seed, "breakdown", tasks, "sets");
            let mut below = |end: u64| 1 + dice.below(end);
            let drawn: Vec<(u64, u64)> = (0..tasks).map(|_| (1_000 + below(99_000), below(1_000))).collect();
            for (mean, is_share) in means.iter_mut().zip([false, true]) {
                // Scaled so that the set is far below its breakdown.
                let cost = |(period, part): &(u64, u64)| if is_share { period * part } else { 100_000 * part };
                let sum: f64 = drawn.iter().map(|task| cost(task) as f64 / task.0 as f64).sum();
                let task = |drawn: &(u64, u64)| {
                    let nanos = cost(drawn) as f64 * 1000.0 * 0.3 / sum;
                    Sporadic::new(Duration::from_nanos(nanos as u64), Duration::from_micros(drawn.0))
                };
                let mut set: Vec<Sporadic> = drawn.iter().map(task).collect::<Result<_, _>>()?;
                set.sort_by_key(Sporadic::period);
                let utilization: f64 = set.iter().map(Sporadic::utilization).sum();
                *mean += fixed::breakdown(&set) * utilization;
            }
        }
        println!("| {tasks} | {:.1} % | {:.1} % |", means[0], means[1]);
    }
    Ok(())
}

/// Zhang & Burns 2009: windows that QPA looks at, beside all deadlines.
fn qpa() -> Result<(), Box<dyn Error>> {
    println!(
        "\nQPA, 16 tasks of utilization 0.95, periods log-uniform over six decades, deadlines 0.5 to 1, 200 sets\n"
    );
    let sets = TaskSets {
        tasks: 16,
        utilization: 0.95,
        shares: Shares::UUniFast,
        shortest: Duration::from_micros(100),
        longest: Duration::from_secs(100),
        grain: Duration::from_micros(1),
        deadlines: (0.5, 1.0),
        ..TaskSets::default()
    };
    let (mut windows, mut deadlines) = (Vec::new(), Vec::new());
    for seed in 0..200 {
        let set = sporadic(&sets, seed)?;
        let Ok(effort) = edf::check(&set) else { continue };
        // The deadlines before the same end: of the busy period, or of the bound by shares.
        let utilization: f64 = set.iter().map(Sporadic::utilization).sum();
        let nanos = |time: Duration| time.as_nanos() as f64;
        let late: f64 =
            set.iter().map(|task| (nanos(task.period()) - nanos(task.deadline())) * task.utilization()).sum();
        let by_shares = late / (1.0 - utilization);
        let busy = edf::busy_period(&set).map_or(f64::INFINITY, nanos);
        let end = by_shares.min(busy);
        let before = |task: &Sporadic| ((end - nanos(task.deadline())) / nanos(task.period()) + 1.0).max(0.0);
        windows.push(effort.windows as f64);
        deadlines.push(set.iter().map(before).sum::<f64>());
    }
    let median = |values: &mut Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let most = windows.iter().copied().fold(0.0, f64::max);
    println!(
        "{} schedulable sets: {:.0} deadlines, {:.0} windows (medians); {most:.0} windows at most",
        windows.len(),
        median(&mut deadlines),
        median(&mut windows)
    );
    Ok(())
}

/// Biondi & Sun 2018: a set that the response-time analysis of global EDF accepts can be
/// partitioned.
fn partitioned() -> Result<(), Box<dyn Error>> {
    println!("\nsets accepted by the global tests, and of these partitioned by first fit\n");
    println!(
        "| CPUs | drawn | global EDF (Bertogna & Cirinei) | of these partitioned EDF | partitioned EDF alone |\n|---|---|---|---|---|"
    );
    for cpus in [2_u64, 4, 8] {
        let (mut drawn, mut accepted, mut both, mut alone) = (0, 0, 0, 0);
        for twentieths in 5..20 {
            let sets = TaskSets {
                tasks: 4 * cpus as usize,
                utilization: cpus as f64 * f64::from(twentieths) / 20.0,
                deadlines: (0.5, 1.0),
                ..TaskSets::default()
            };
            for seed in 0..400 {
                let set = sporadic(&sets, seed)?;
                let is_global = global::edf(&set, cpus).iter().all(Option::is_some);
                let is_partitioned = zerolag::schedulability::partition(&set, cpus as usize);
                drawn += 1;
                accepted += u32::from(is_global);
                both += u32::from(is_global && is_partitioned);
                alone += u32::from(is_partitioned);
            }
        }
        println!("| {cpus} | {drawn} | {accepted} | {both} | {alone} |");
    }
    Ok(())
}

/// Shin & Lee 2003: the least budget of a reservation for the set (50, 7), (75, 9).
fn reservation() -> Result<(), Box<dyn Error>> {
    println!(
        "\nleast rate of a supply for (50, 7), (75, 9)\n\n| period | reservation, EDF | reservation, RM | quota, EDF | quota, RM |\n|---|---|---|---|---|"
    );
    let ms = Duration::from_millis;
    let set = [Sporadic::new(ms(7), ms(50))?, Sporadic::new(ms(9), ms(75))?];
    for period in [5, 10, 15, 20, 30, 40] {
        let us = period * 1000;
        let least = |fits: &dyn Fn(Duration) -> bool| {
            let budget = (1..=us).find(|budget| fits(Duration::from_micros(*budget)));
            budget.map_or_else(|| "-".to_owned(), |budget| format!("{:.3}", budget as f64 / us as f64))
        };
        let on = |budget| Reservation::new(budget, ms(period), ms(period)).expect("a budget below the period");
        let below = |budget| {
            Quota::of(CpuMax { quota: Some(budget), period: ms(period), ..CpuMax::UNLIMITED }).expect("a quota")
        };
        println!(
            "| {period} | {} | {} | {} | {} |",
            least(&|budget| edf_fits(&set, &on(budget))),
            least(&|budget| fixed_fits(&set, &on(budget))),
            least(&|budget| edf_fits(&set, &below(budget))),
            least(&|budget| fixed_fits(&set, &below(budget))),
        );
    }
    Ok(())
}

/// Curves of every class, beside simulations.
fn curves() -> Result<(), Box<dyn Error>> {
    let ms = Duration::from_millis;
    let one = Study {
        sets: TaskSets { tasks: 10, ..TaskSets::default() },
        tests: vec![Test::Dm, Test::SimulatedRm],
        utilizations: vec![0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.99],
        count: 100,
        simulated: ms(200),
        ..Study::default()
    };
    let edf = Study {
        sets: TaskSets { deadlines: (0.5, 1.0), ..one.sets.clone() },
        tests: vec![Test::Dm, Test::Edf, Test::SimulatedEdf],
        ..one.clone()
    };
    let several = Study {
        sets: TaskSets { tasks: 16, deadlines: (0.5, 1.0), ..one.sets.clone() },
        tests: vec![Test::GlobalDm, Test::Density, Test::GlobalEdf, Test::PartitionedEdf, Test::SimulatedEdf],
        utilizations: vec![1.0, 1.4, 1.8, 2.2, 2.6, 3.0, 3.4, 3.8],
        cpus: 4,
        ..one
    };
    for (name, study) in [
        ("one CPU, deadlines at the end of periods", one),
        ("one CPU, deadlines earlier", edf),
        ("4 CPUs, deadlines earlier", several),
    ] {
        let points = study.run(|_| ControlFlow::Continue(()))?;
        let head: Vec<String> = study.utilizations.iter().map(|utilization| format!("{utilization:.2}")).collect();
        println!("\n{name}\n\n| test | {} |\n|---|{}", head.join(" | "), "---|".repeat(head.len()));
        for row in points.chunks(study.utilizations.len()) {
            let shares = row.iter().map(|point| format!("{:.0}", point.accepted as f64 / point.sets as f64 * 100.0));
            println!("| `{}` | {} |", row[0].test.name(), shares.collect::<Vec<_>>().join(" | "));
        }
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    // One part by its name, else all.
    let part = std::env::args().nth(1);
    let is_asked = |name: &str| part.as_deref().is_none_or(|part| part == name);
    type Part = fn() -> Result<(), Box<dyn Error>>;
    let parts: [(&str, Part); 5] = [
        ("breakdown", breakdown),
        ("qpa", qpa),
        ("partitioned", partitioned),
        ("reservation", reservation),
        ("curves", curves),
    ];
    parts.into_iter().filter(|(name, _)| is_asked(name)).try_for_each(|(_, run)| run())
}

//! Published schedulability results, repeated: the tables of `docs/lab/schedulability.md`; part
//! `bounds` has its curves, point by point.
//!
//!     cargo run --release -p zerolag --example schedulability [PART]
//!
//! Parts: `breakdown`, `qpa`, `partitioned`, `reservation`, `curves`, `bounds`.

use std::error::Error;
use std::ops::ControlFlow;
use zerolag::analysis::supply::{Quota, Reservation, edf_fits, fixed_fits};
use zerolag::analysis::{Sporadic, bounds, edf, fixed, global};
use zerolag::model::{CpuMax, Duration};
use zerolag::schedulability::{Study, Test, keeps_deadlines, partition};
use zerolag::workload::builtin::PeriodicPolicy;
use zerolag::workload::generate::{Drawn, Shares, TaskSets};
use zerolag::workload::random::Stream;

fn sporadic(sets: &TaskSets, seed: u64) -> Result<Vec<Sporadic>, Box<dyn Error>> {
    let mut set = sets.draw(seed)?;
    set.sort_by_key(|task| task.deadline);
    let task = |task: &Drawn| Sporadic::new(task.cost, task.period).map(|new| new.with_deadline(task.deadline));
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
                let is_partitioned = partition(&set, cpus as usize);
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

/// A set of cost, deadline and period in nanoseconds, which a factor of the costs loads more.
struct Loaded<'a> {
    tasks: &'a [(f64, f64, f64)],
    /// What is multiplied: all costs, or those of the tasks before the last.
    with_last: bool,
}

impl Loaded<'_> {
    fn times(&self, factor: f64) -> Vec<Drawn> {
        let nanos = |value: f64| Duration::from_nanos(value.round() as u64);
        let last = self.tasks.len() - 1;
        let task = |(of, (cost, deadline, period)): (usize, &(f64, f64, f64))| Drawn {
            cost: nanos(cost * if self.with_last || of < last { factor } else { 1.0 }),
            deadline: nanos(*deadline),
            period: nanos(*period),
        };
        self.tasks.iter().enumerate().map(task).collect()
    }

    /// Returns the largest utilization that `keeps` accepts, to a ten-thousandth of it.
    fn breakdown(&self, keeps: impl Fn(&[Drawn]) -> Result<bool, Box<dyn Error>>) -> Result<f64, Box<dyn Error>> {
        let (mut low, mut high) = (0.05, 4.0);
        while high - low > 1e-4 * low {
            let middle = f64::midpoint(low, high);
            let set = self.times(middle);
            let is_kept = set.iter().all(|task| task.cost <= task.deadline) && keeps(&set)?;
            if is_kept { low = middle } else { high = middle }
        }
        let share = |task: &Drawn| task.cost.as_nanos() as f64 / task.period.as_nanos() as f64;
        Ok(self.times(low).iter().map(share).sum())
    }

    fn simulated(&self, policy: PeriodicPolicy, cpus: u32) -> Result<f64, Box<dyn Error>> {
        self.breakdown(|set| Ok(keeps_deadlines(set, policy, cpus, Duration::from_millis(200), 0)?))
    }

    fn tested(&self, accepts: impl Fn(&[Sporadic]) -> bool) -> Result<f64, Box<dyn Error>> {
        self.breakdown(|set| {
            let task = |task: &Drawn| Sporadic::new(task.cost, task.period).map(|new| new.with_deadline(task.deadline));
            let set: Result<Vec<Sporadic>, _> = set.iter().map(task).collect();
            Ok(set.is_ok_and(|set| accepts(&set)))
        })
    }
}

/// The critical set of a bound: each cost is the distance to the next point at which work arrives,
/// up to the deadline of the last task. `part` is the deadline over the period, `ratio` the last of
/// these points over the first period, `rate` that of the supply.
fn critical(tasks: u32, part: f64, first: f64, ratio: f64, rate: f64) -> Vec<(f64, f64, f64)> {
    let step = ratio.max(1.0).powf(1.0 / f64::from(tasks));
    let mut set: Vec<_> = (0..tasks - 1)
        .map(|of| first * step.powi(of as i32))
        .map(|period| ((period * (step - 1.0) * rate).max(1.0), period * part, period))
        .collect();
    let end = first * step.powi(tasks as i32 - 1);
    let rest = if part <= 0.5 { end } else { rate * (first * ratio / part - end) };
    set.push((rest, end, end / part));
    set
}

/// Returns the breakdown utilization of a rate monotonic set, from periods in nanoseconds and costs
/// in any unit, which begins far below it.
fn broken(mut drawn: Vec<(u64, u64)>) -> Result<f64, Box<dyn Error>> {
    drawn.sort_unstable();
    let sum: f64 = drawn.iter().map(|(period, part)| *part as f64 / *period as f64).sum();
    let task = |(period, part): &(u64, u64)| {
        let cost = Duration::from_nanos((*part as f64 * 0.4 / sum) as u64 + 1);
        Sporadic::new(cost, Duration::from_nanos(*period))
    };
    let set: Vec<Sporadic> = drawn.iter().map(task).collect::<Result<_, _>>()?;
    let utilization: f64 = set.iter().map(Sporadic::utilization).sum();
    Ok(fixed::breakdown(&set) * utilization)
}

/// Bounds that publications prove, each with the set that the proof is made of: where it breaks
/// down under the test, and in a simulation.
#[expect(clippy::too_many_lines, reason = "one table per publication, each printed where it is computed")]
fn published() -> Result<(), Box<dyn Error>> {
    const RM: PeriodicPolicy = PeriodicPolicy::RateMonotonicFifo;
    const FIRST: f64 = 10e6;
    println!("\nLiu & Layland 1973: tasks, bound, critical set tested and simulated, least of 2000 random sets\n");
    println!("| tasks | published | tested | simulated | random |\n|---|---|---|---|---|");
    for tasks in [1, 2, 3, 5, 10, 20] {
        let set = critical(tasks, 1.0, FIRST, 2.0, 1.0);
        let set = Loaded { tasks: &set, with_last: true };
        let mut least = f64::INFINITY;
        for seed in 0..2000 {
            let mut dice = Stream::new(seed, "bounds", tasks, "sets");
            let drawn = (0..tasks).map(|_| (10_000_000 + dice.below(10_000_000), 1 + dice.below(1000))).collect();
            least = least.min(broken(drawn)?);
        }
        println!(
            "| {tasks} | {:.4} | {:.4} | {:.4} | {least:.4} |",
            bounds::rate_monotonic(tasks),
            set.tested(fixed::is_schedulable)?,
            set.simulated(RM, 1)?
        );
    }

    println!("\nLehoczky 1990: five tasks, deadlines a part of periods\n");
    println!("| deadline over period | published | tested | simulated |\n|---|---|---|---|");
    for part in [0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0] {
        let set = critical(5, part, FIRST, 2.0 * part, 1.0);
        let set = Loaded { tasks: &set, with_last: true };
        println!(
            "| {part} | {:.4} | {:.4} | {:.4} |",
            bounds::deadline_monotonic(5, part),
            set.tested(fixed::is_schedulable)?,
            set.simulated(RM, 1)?
        );
    }

    println!(
        "\nLehoczky, Sha & Ding 1989: breakdown of 400 tasks, periods uniform in 1 to the ratio, mean of 8 sets\n"
    );
    println!("| longest over shortest period | published | tested | least and most |\n|---|---|---|---|");
    for ratio in [1.25, 1.5, 2.0, 2.5, 3.0, 5.0, 10.0, 30.0, 100.0] {
        let mut found = Vec::new();
        for seed in 0..8 {
            let mut dice = Stream::new(seed, "limit", (ratio * 100.0) as u32, "sets");
            let width = ((ratio - 1.0) * 1e6) as u64;
            let micros = (0..400).map(|_| (1_000_000 + dice.below(width), 1 + dice.below(1_000_000)));
            found.push(broken(micros.map(|(period, part)| (period * 1000, part)).collect())?);
        }
        found.sort_by(f64::total_cmp);
        println!(
            "| {ratio} | {:.3} | {:.3} | {:.3} to {:.3} |",
            bounds::rate_monotonic_limit(ratio),
            found.iter().sum::<f64>() / found.len() as f64,
            found[0],
            found[found.len() - 1]
        );
    }

    println!("\nLiu & Layland 1973: EDF on one CPU, 10 tasks, percent of 200 sets\n");
    println!("| utilization | published | tested | simulated |\n|---|---|---|---|");
    for hundredths in [90, 95, 99, 100, 101] {
        let study = Study {
            sets: TaskSets { tasks: 10, ..TaskSets::default() },
            tests: vec![Test::Edf, Test::SimulatedEdf],
            utilizations: vec![f64::from(hundredths) / 100.0],
            count: 200,
            simulated: Duration::from_millis(200),
            ..Study::default()
        };
        let points = study.run(|_| ControlFlow::Continue(()))?;
        let share = |of: usize| points[of].accepted as f64 / points[of].sets as f64 * 100.0;
        let published = if hundredths <= 100 { 100 } else { 0 };
        println!("| {:.2} | {published} | {:.0} | {:.0} |", f64::from(hundredths) / 100.0, share(0), share(1));
    }

    println!("\nLopez et al. 2000: partitioned EDF; b m + 1 equal tasks, and 500 random sets at the bound\n");
    println!("| CPUs | largest share | published | breakdown | random sets |\n|---|---|---|---|---|");
    for cpus in [2_u32, 4, 8] {
        for fit in [1_u32, 2, 3, 5, 10] {
            let largest = 1.0 / f64::from(fit);
            let bound = bounds::partitioned_edf(cpus, largest);
            let equal = vec![(FIRST / f64::from(fit + 1), FIRST, FIRST); (fit * cpus + 1) as usize];
            let equal = Loaded { tasks: &equal, with_last: true };
            let sets = TaskSets {
                tasks: (fit * cpus + cpus) as usize,
                utilization: bound * 0.9999,
                shares: Shares::Drs { low: 0.001, high: largest },
                ..TaskSets::default()
            };
            let mut accepted = 0;
            for seed in 0..500 {
                accepted += u32::from(partition(&sporadic(&sets, seed)?, cpus as usize));
            }
            println!(
                "| {cpus} | {largest:.3} | {bound:.3} | {:.3} | {accepted} |",
                equal.tested(|set| partition(set, cpus as usize))?
            );
        }
    }

    println!("\nGoossens, Funk & Baruah 2003; Baker 2006: one task of the largest share after light ones\n");
    println!(
        "| CPUs | largest share | global EDF: published | tested | simulated | global RM: published | Bertogna & Cirinei | simulated |\n|---|---|---|---|---|---|---|---|"
    );
    for cpus in [2_u32, 4, 8] {
        for tenths in [1, 2, 3, 5, 7, 9] {
            let largest = f64::from(tenths) / 10.0;
            // Light tasks, the deadlines of which come just before that of the heavy one, keep all
            // CPUs busy until it can only just finish.
            let each = ((1.0 - largest) / largest).ceil();
            let short = FIRST * (1.0 - 1e-4);
            let light = (FIRST * (1.0 - largest) / each, short, short);
            let mut set = vec![light; each as usize * cpus as usize];
            set.push((FIRST * largest, FIRST, FIRST));
            let set = Loaded { tasks: &set, with_last: false };
            let is_kept = |bounds: &[Option<Duration>], set: &[Sporadic]| {
                bounds.iter().zip(set).all(|(bound, task)| bound.is_some_and(|bound| bound <= task.deadline()))
            };
            let by_response = |set: &[Sporadic]| {
                let ranks: Vec<u32> = (0..set.len() as u32).collect();
                is_kept(&global::fixed(set, &ranks, &[], u64::from(cpus)), set)
            };
            let least = (1.0 - largest) / each;
            println!(
                "| {cpus} | {largest} | {:.3} | {:.3} | {:.3} | {:.3} | {:.3} | {:.3} |",
                bounds::global_edf(cpus, largest),
                set.tested(|set| global::density_test(set, u64::from(cpus)))?,
                set.simulated(PeriodicPolicy::Deadline, cpus)?,
                bounds::global_fixed(cpus, least.min(largest), largest),
                set.tested(by_response)?,
                set.simulated(RM, cpus)?,
            );
        }
    }

    println!("\nShin & Lee 2008: reservations of 1 ms; the same for a quota, which none published\n");
    println!(
        "| rate | whole periods | EDF: published | tested | RM, 3 tasks: published | tested | quota, EDF: derived | tested |\n|---|---|---|---|---|---|---|---|"
    );
    for rate in [0.25, 0.5, 0.75] {
        for whole in [1_u32, 2, 4, 10, 40] {
            let period = Duration::from_millis(1);
            let budget = Duration::from_nanos((rate * 1e6) as u64);
            let reservation = Reservation::new(budget, period, period).expect("a budget below the period");
            let quota = Quota::of(CpuMax { quota: Some(budget), period, ..CpuMax::UNLIMITED }).expect("a quota");
            let shortest = |gaps: f64| (f64::from(whole) + gaps * (1.0 - rate)) * 1e6;
            let one = |shortest: f64| vec![(shortest * rate / 4.0, shortest, shortest)];
            let first = shortest(2.0);
            let three = critical(3, 1.0, first, (f64::from(whole) * 1e6 + first) / first, rate);
            let derived = f64::from(whole) * rate / (f64::from(whole) + 1.0 - rate);
            println!(
                "| {rate} | {whole} | {:.4} | {:.4} | {:.4} | {:.4} | {derived:.4} | {:.4} |",
                bounds::reservation_edf(whole, rate),
                Loaded { tasks: &one(first), with_last: true }.tested(|set| edf_fits(set, &reservation))?,
                bounds::reservation_fixed(3, whole, rate),
                Loaded { tasks: &three, with_last: true }.tested(|set| fixed_fits(set, &reservation))?,
                Loaded { tasks: &one(shortest(1.0)), with_last: true }.tested(|set| edf_fits(set, &quota))?,
            );
        }
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    // One part by its name, else all.
    let part = std::env::args().nth(1);
    let is_asked = |name: &str| part.as_deref().is_none_or(|part| part == name);
    type Part = fn() -> Result<(), Box<dyn Error>>;
    let parts: [(&str, Part); 6] = [
        ("breakdown", breakdown),
        ("qpa", qpa),
        ("partitioned", partitioned),
        ("reservation", reservation),
        ("curves", curves),
        ("bounds", published),
    ];
    parts.into_iter().filter(|(name, _)| is_asked(name)).try_for_each(|(_, run)| run())
}

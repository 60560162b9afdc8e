//! `cyclictest`: the output has the real tool's format to the character, and the figures are those
//! built into the test.

use zerolag::model::{CpuId, Duration, KernelVersion, SchedAttr, Topology};
use zerolag::sim::sketch::Sketch;
use zerolag::sim::{Costs, Tracing};
use zerolag::workload::Program;
use zerolag::{Plan, workload};
use zerolag_tools::cyclictest::{Cyclictest, Latencies, Line, Overall, Unit, histogram};

/// The first line is about a device that is not simulated.
fn recorded(text: &str) -> &str {
    text.strip_prefix("# /dev/cpu_dma_latency set to 0us\n").expect("the tool's first line")
}

/// Reads the numbers of a line: thread, pid, priority, interval, cycles, min, act, avg, max.
fn numbers(line: &str) -> Vec<u64> {
    line.split(|c: char| !c.is_ascii_digit()).filter(|word| !word.is_empty()).map(|n| n.parse().expect("n")).collect()
}

#[test]
fn lines_have_the_real_tools_every_character() {
    for (text, unit) in [
        (include_str!("data/cyclictest/lines.txt"), Unit::Micros),
        (include_str!("data/cyclictest/lines-ns.txt"), Unit::Nanos),
    ] {
        for line in recorded(text).lines() {
            let [thread, pid, priority, interval, cycles, min, last, mean, max] = numbers(line)[..] else {
                panic!("{line}")
            };
            let latencies = Latencies { cycles, min, last, max, sum: mean * cycles, ..Latencies::default() };
            let small = |value: u64| u32::try_from(value).expect("small");
            let printed = Line {
                thread: small(thread),
                pid: small(pid),
                priority: u8::try_from(priority).expect("small"),
                interval: Duration::from_micros(interval),
                latencies: &latencies,
                unit,
            };
            assert_eq!(printed.to_string(), line);
        }
    }
}

#[test]
fn histograms_have_the_real_tools_every_character() {
    for (text, overall) in [
        (include_str!("data/cyclictest/histogram.txt"), Overall::No),
        (include_str!("data/cyclictest/histofall.txt"), Overall::Yes),
    ] {
        let text = recorded(text);
        let summary = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)).expect("a line of the summary");
            numbers(line)
        };
        let (min, mean, max) = (summary("# Min Latencies:"), summary("# Avg Latencies:"), summary("# Max Latencies:"));
        let overflows = summary("# Histogram Overflows:");
        let threads: Vec<Latencies> = (0..2)
            .map(|thread| {
                let rows = text.lines().filter(|line| line.contains('\t'));
                let buckets: Vec<u64> = rows.map(|row| numbers(row)[1 + thread]).collect();
                let line = text.lines().find(|line| line.starts_with(&format!("# Thread {thread}:"))).expect("a list");
                let cycles_beyond = line.split(" # ").next().expect("a list");
                let cycles = buckets.iter().sum::<u64>() + overflows[thread];
                Latencies {
                    cycles,
                    min: min[thread],
                    last: 0,
                    max: max[thread],
                    sum: mean[thread] * cycles,
                    buckets,
                    overflows: overflows[thread],
                    overflow_cycles: numbers(cycles_beyond)[1..].to_vec(),
                }
            })
            .collect();
        assert_eq!(histogram(&threads, overall), text);
    }
}

fn test(threads: u32) -> Cyclictest {
    Cyclictest {
        threads,
        attr: SchedAttr::fifo_at(80),
        spread: false,
        affinity: None,
        interval: Duration::from_millis(1),
        distance: Duration::from_micros(500),
        loops: Some(100),
        relative: false,
        aligned: None,
        unit: Unit::Micros,
        histogram: None,
    }
}

fn run(test: &Cyclictest, beside: Program, cpus: u32, costs: &str) -> Vec<Latencies> {
    let machine = Topology::flat(cpus).expect("possible");
    let plan = Plan::of_program(test.program(beside), machine, KernelVersion::default())
        .with_costs(Costs::named(costs).expect("built in"))
        .for_duration(Duration::from_secs(1));
    let mut collector = test.collector();
    plan.build(Tracing::On).expect("it fits").run(&mut collector);
    collector.into_threads()
}

#[test]
fn without_costs_no_thread_is_late_and_every_cycle_counts() {
    for thread in run(&test(3), Program::default(), 4, "zero") {
        assert_eq!((thread.cycles, thread.min, thread.max), (100, 0, 0));
    }
    // Costs make it late, by the same time in every cycle.
    let thread = &run(&Cyclictest { unit: Unit::Nanos, ..test(1) }, Program::default(), 1, "default")[0];
    assert_eq!(thread.cycles, 100);
    assert!(thread.min > 500 && thread.max < 20_000, "{thread:?}");
}

/// Runs 5000 cycles with these costs; returns the median, the 99th percentile and the maximum, ns.
fn quantiles(costs: Costs, seed: u64) -> [u64; 3] {
    let test = Cyclictest { unit: Unit::Nanos, histogram: Some(60_000), loops: Some(5_000), ..test(1) };
    let machine = Topology::flat(1).expect("possible");
    let plan = Plan::of_program(test.program(Program::default()), machine, KernelVersion::default())
        .with_costs(costs)
        .with_seed(seed)
        .for_duration(Duration::from_secs(6));
    let mut collector = test.collector();
    plan.build(Tracing::On).expect("it fits").run(&mut collector);
    let thread = &collector.into_threads()[0];
    let at = |place: u64| {
        let mut below = 0;
        let found = thread.buckets.iter().position(|count| {
            below += count;
            below * 1_000 >= thread.cycles * place
        });
        found.expect("in the histogram") as u64
    };
    [at(500), at(990), thread.max]
}

#[test]
fn what_is_drawn_has_the_quantiles_of_its_sketch_and_repeats_with_its_seed() {
    // Flat around the median, where 5000 samples place it within a hundredth.
    let places = [(0, "0us"), (400_000, "1us"), (600_000, "3us"), (980_000, "4us"), (1_000_000, "50us")];
    let tail = || Sketch::try_from(places.map(|(at, time)| (at, time.to_owned())).to_vec()).expect("a sketch");
    let drawn: [(&str, Costs); 3] = [
        ("switch_late", Costs { switch_late: tail(), ..Costs::zero() }),
        ("wakeup_late", Costs { wakeup_late: tail(), ..Costs::zero() }),
        ("timer_late", Costs { timer_late: tail(), ..Costs::zero() }),
    ];
    for (name, costs) in drawn {
        let [median, p99, max] = quantiles(costs.clone(), 1);
        assert!((1_700..2_300).contains(&median), "{name}: {median}");
        assert!((20_000..34_000).contains(&p99), "{name}: 27 us, {p99}");
        assert!((48_000..=50_000).contains(&max), "{name}: {max}");
        assert_eq!(quantiles(costs.clone(), 1), [median, p99, max], "{name}");
        assert_ne!(quantiles(costs, 2), [median, p99, max], "{name}");
    }
}

#[test]
fn it_measures_what_stands_in_its_way() {
    let text = b"[machine]\ncpus = 1\n[task.blocker]\npolicy = \"fifo\"\npriority = 90\ndelay = \"9500us\"\nsteps = [{ run = \"3ms\" }, { timer = { period = \"20ms\", mode = \"absolute\" } }]\n";
    let beside = workload::load("b.toml", text, &workload::LoadOptions::default()).expect("loads").program;
    let thread = &run(&Cyclictest { histogram: Some(1_000), ..test(1) }, beside, 1, "zero")[0];
    // The blocker runs from 9.5 to 12.5 ms: the expiry at 10 ms is served 2.5 ms late, those at 11
    // and 12 are skipped.
    assert_eq!(thread.max, 2_500);
    assert_eq!(thread.overflow_cycles[0], 9, "{:?}", thread.overflow_cycles);
    assert_eq!(thread.cycles, 90, "two expiries of five blockings were skipped");
}

#[test]
fn threads_get_their_intervals_priorities_and_cpus() {
    let test = Cyclictest { spread: true, affinity: Some(vec![CpuId(1), CpuId(0)]), ..test(3) };
    let tasks: Vec<_> = test.tasks().collect();
    let said: Vec<String> = tasks
        .iter()
        .zip(0..)
        .map(|(task, thread)| {
            let cpus = task.affinity.as_ref().map(ToString::to_string).unwrap_or_default();
            format!("{} {} on {cpus}", test.attr(thread).prio(), test.interval(thread))
        })
        .collect();
    assert_eq!(said, ["19 1ms on 1", "20 1.5ms on 0", "21 2ms on 1"]);
    let same = Cyclictest { histogram: Some(10), ..test };
    assert_eq!(same.interval(2), Duration::from_millis(1), "a histogram has one interval");
}

//! Random sequences of every event on random machines under every setting of real-time balancing.
//!
//! The whole state is checked after each event. At the end all pending work is delivered and the
//! world must be at rest, with no task lost and no legal move left. A failing case is shrunk and
//! printed as a line of numbers that the test `replay` and the table [`REGRESSIONS`] accept.

use crate::support::{Agent, Event, Hints, Setup, World};
use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngSeed, TestCaseError, TestError, TestRunner};
use std::sync::Arc;
use zerolag_core::{CpusetId, Leave, Lent, Partition};
use zerolag_model::settings::{Grain, OverloadScope, RtBalance, RtOverload};
use zerolag_model::{CpuId, CpuMask, Duration, KernelVersion, Nice, Prio, RtPriority, SchedAttr, Settings, TaskId};

/// The number of cases per run of the suite, and their seed.
const CASES: u32 = 20_000;
const SEED: u64 = 2007;
const MAX_EVENTS: usize = 160;

/// A machine and its events, as numbers that are valid in any combination.
#[derive(Clone, Debug)]
struct Case {
    machine: [u8; 8],
    events: Vec<[u8; 4]>,
}

impl Case {
    fn of(bytes: &[u8]) -> Self {
        let (machine, events) = bytes.split_at(bytes.len().min(8));
        let mut case = Self { machine: [0; 8], events: Vec::new() };
        case.machine[..machine.len()].copy_from_slice(machine);
        for bytes in events.chunks(4).take(MAX_EVENTS) {
            let mut event = [0; 4];
            event[..bytes.len()].copy_from_slice(bytes);
            case.events.push(event);
        }
        case
    }
}

/// Cases that have failed once, with their bugs.
const REGRESSIONS: &[(&str, &str)] = &[
    ("0000000000000000 00000000", "a CPU that had published nothing counted as running the stopper"),
    (
        "690e330000170000 00000000 55271e00 00000000 00000000 00000000 00000000 00000000 00000000 00000000 406d0000 \
         60000000 1e2d0000",
        "a task that an offline CPU had to give up was placed there again",
    ),
    (
        "ab95003520360000 b5084900 a0000000 c0000000 001d0000 20000000 adf90000 00000000 00000000 1a000000 3a630000 \
         00000000 00000000 1a000000 1a000000 9fe04b00 c0000000 95000200 600d0000 3e0d0000 60000000 60000000 7e990000",
        "a CPU that came back with tasks on it was missing in the overload mask",
    ),
    (
        "76a2490000020000 752eae00 a0000000 3f000000 95151000 75244f00 00000000 00000000 00000000 60e90000 40000000 \
         c0c40000 00000000 00000000 00000000 000f0000 fc31e500 00280000 60850000 0a000000 a0000000 c0000000 3c70cb00",
        "an IPI that found one woken task on an idle CPU was charged as RT balancing",
    ),
    (
        "3abf0100a03e6601 95522b00 00000000 36589c00 08000000 e0070000 00000000 00000000 19008c00 00070000 00000000 \
         00110000 ef430000 f56e1500 d659a000 20500000 605b0000 e0040000 b6007200 e0110000 00020000 bc94e700 001e0000",
        "a task that had just been left lost its right to the CPU and waited there forever",
    ),
    (
        "2e8b200089530000 95694400 d69f9700 60140000 d8020500 60000000 20000000 7a5a2b00 20080000 36781200 b6d4a100 \
         20000000 a0000000 00000000 204b0000 20000000 2d210000 171e0a00 20960000 f96d7100 14000000 bab0d300 75b3c700 \
         60bf0000 68330000 20ee0000 60530000 a0e80000 00000000 00000000",
        "a push under way took a task that was about to run, and no CPU pulled instead",
    ),
    (
        "e0410000102a0000 56210000 d6df1700 00020000 60000000 1e880000 60780000 20000000 206d0000 00000000 ed090000 \
         20000000 a01f0007 20000000 20000000 d7c63900 20000000 20210000 60000000 00000000 1c1eed00 00310000 cd6c0001",
        "a delayed task was left on a CPU that it may not use any more",
    ),
    (
        "7ff8cc9891d7ffa4 1912df00 e25c503c 85852404 c115a246 37dde7e9 771dbe79 628c59f6 0034b56e ad591fe8 a74da096 3e595f82 fe5f",
        "an offline CPU whose last task was parked went on publishing its load",
    ),
];

#[test]
fn random_sequences_keep_every_rule() {
    let seed = number("ZEROLAG_SEED").unwrap_or(SEED);
    let cases = number("ZEROLAG_CASES").map_or(CASES, |cases| u32::try_from(cases).expect("a number of cases"));
    let config = Config {
        cases,
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        max_shrink_iters: 20_000,
        ..Config::default()
    };
    let events = proptest::collection::vec(proptest::array::uniform4(proptest::num::u8::ANY), 1..MAX_EVENTS);
    let cases = (proptest::array::uniform8(proptest::num::u8::ANY), events)
        .prop_map(|(machine, events)| Case { machine, events });
    let total = core::cell::Cell::new(0);
    let result = TestRunner::new(config).run(&cases, |case| {
        let events = run(&case, &mut |_| {}).map_err(TestCaseError::fail)?;
        total.set(total.get() + events);
        Ok(())
    });
    match result {
        Ok(()) => println!("{} events happened", total.get()),
        Err(TestError::Fail(reason, case)) => panic!("{}", report(seed, &reason.to_string(), &case)),
        Err(TestError::Abort(reason)) => panic!("{reason}"),
    }
}

#[test]
fn what_failed_once_passes() {
    for (text, wrong) in REGRESSIONS {
        let bytes = bytes(text);
        if let Err(reason) = run_bytes(&bytes) {
            panic!("this was fixed once: {wrong}\n{}", report(SEED, &reason, &Case::of(&bytes)));
        }
    }
}

/// Runs the case that these bytes encode: eight for the machine, four for each event; missing bytes
/// are zero. For fuzzers.
pub(crate) fn run_bytes(input: &[u8]) -> Result<(), String> {
    run(&Case::of(input), &mut |_| {}).map(drop)
}

/// Runs the case in the environment variable `ZEROLAG_CASE`, and prints each event.
#[test]
fn replay() {
    if let Some(text) = variable("ZEROLAG_CASE") {
        run(&Case::of(&bytes(&text)), &mut |line| println!("{}", line())).expect("the case passes");
    }
}

fn report(seed: u64, reason: &str, case: &Case) -> String {
    let mut story = String::new();
    let again = std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| {
        let _ = run(case, &mut |line| story.push_str(&format!("    {}\n", line())));
    }));
    let ended = if again.is_err() { "    (panic)\n" } else { "" };
    let text = print(case);
    format!(
        "{reason}\n{story}{ended}  seed {seed}; replay it with\n    \
         ZEROLAG_CASE='{text}' cargo test -p zerolag-core --test core random::replay -- --nocapture\n"
    )
}

/// Runs a case; returns the number of events, or the failure.
fn run(case: &Case, tell: &mut dyn FnMut(&dyn Fn() -> String)) -> Result<u64, String> {
    let setup = setup(&case.machine);
    tell(&|| format!("{setup:?}"));
    let mut world = World::new(setup);
    for bytes in &case.events {
        world.pass(Duration::from_micros(u64::from(bytes[3]) * 100));
        let event = event(&world, *bytes);
        if !world.apply(&event) {
            continue;
        }
        tell(&|| format!("{event:?}\n        {}", world.show()));
        world.check().map_err(|error| format!("{error} (after {event:?})"))?;
    }
    tell(&|| String::from("coming to rest"));
    world.drain(&mut |world, event| tell(&|| format!("{event:?}\n        {}", world.show())))?;
    Ok(world.events)
}

fn setup(machine: &[u8; 8]) -> Setup {
    let [cpus, tasks, balance, scope, switches, sets, low, high] = *machine;
    let nr_cpus = 1 + u32::from(cpus % 6);
    let on = |bit: u8| switches >> bit & 1 == 1;
    let settings = Settings {
        rt_balance: RtBalance::ALL[usize::from(balance) % RtBalance::ALL.len()],
        overload_scope: OverloadScope::ALL[usize::from(scope) % OverloadScope::ALL.len()],
        rt_overload: if on(7) { RtOverload::Queued } else { RtOverload::Pushable },
        rt_push_skip_stuck: on(0),
        rt_select_on_wake: on(1),
        enforce_rt: if on(2) { Grain::Exact } else { Grain::Tick },
        rr_timeslice: Duration::from_millis(if on(3) { 1 } else { 30 }),
        fair_server_resched_lost: false, // A fault: what is checked here does not hold with it.
        ..if on(4) { KernelVersion::V6_12 } else { KernelVersion::V5_15 }.settings()
    };
    let mask = |byte: u8| -> CpuMask { (0..nr_cpus).filter(|cpu| byte >> cpu & 1 == 1).map(CpuId).collect() };
    let cpusets = match sets % 4 {
        // A partition of its own.
        1 if !mask(low).is_empty() => vec![(mask(low), Partition::Root)],
        // Overlapping cpusets.
        2 if !mask(low).is_empty() && !mask(high).is_empty() => {
            vec![(mask(low), Partition::Member), (mask(high), Partition::Member)]
        }
        // Partitions that CPUs join and leave; of overlapping ones each CPU is in one at a time.
        3 if !mask(low).is_empty() && !mask(high).is_empty() => {
            vec![(mask(low), Partition::Root), (mask(high), Partition::Prepared)]
        }
        _ => Vec::new(),
    };
    let hints = if on(5) { Hints::Stale } else { Hints::Fresh };
    Setup { settings, nr_cpus, cpusets, nr_tasks: 1 + u32::from(tasks % 12), outside: 1 + usize::from(on(6)), hints }
}

/// Interprets four numbers as an event in this world. Half of all events finish pending work.
fn event(world: &World, [kind, a, b, _]: [u8; 4]) -> Event {
    let cpu = CpuId(u32::from(a) % world.setup.nr_cpus);
    let by = Agent(usize::from(b) % world.jobs.len());
    let task = TaskId(u32::from(a) % world.setup.nr_tasks);
    let busy: Vec<usize> = (0..world.jobs.len()).filter(|agent| !world.jobs[*agent].is_empty()).collect();
    let attr = attr((a / 13).wrapping_add(b));
    match kind % 32 {
        0..=7 if !busy.is_empty() => Event::Go(Agent(busy[usize::from(a) % busy.len()])),
        0..=9 => Event::Leave { cpu, why: Leave::Preempted },
        10..=12 => Event::Deliver { cpu, nth: usize::from(b) % world.cpus[cpu.index()].ipis.len().max(1) },
        13..=14 => Event::Leave { cpu, why: Leave::Block },
        15 => Event::Leave { cpu, why: Leave::Yield },
        16 if kind < 64 => Event::Leave { cpu, why: Leave::Exit },
        16..=19 => Event::Wake { by, task },
        20 if kind < 128 => Event::Tick { cpu },
        20 => Event::Timer { cpu },
        21..=25 => {
            let cpusets = u16::try_from(world.setup.cpusets.len()).expect("few cpusets") + 1;
            let cpuset = CpusetId(u16::from(b / 7) % cpusets);
            Event::Create { by, task, attr, affinity: affinity(world, kind), cpuset }
        }
        26..=27 => Event::SetAttr { by, task, attr },
        28 => Event::SetAffinity { by, task, affinity: affinity(world, b) },
        29 => {
            let from = (b % 3 != 0).then(|| Lent::Prio(Prio::from_rt(priority(b))));
            Event::Inherit { by, task, from }
        }
        30 if kind < 64 => Event::Offline { cpu },
        30 if kind < 160 => Event::Online { cpu },
        30 => Event::Evict { cpu },
        31 if kind < 192 && !world.setup.cpusets.is_empty() => {
            Event::Join { cpu, partition: CpusetId(u16::from(b) % (world.setup.cpusets.len() as u16 + 1)) }
        }
        _ => Event::Wake { by, task },
    }
}

/// Few priorities, so that equals meet.
fn priority(byte: u8) -> RtPriority {
    RtPriority::new(10 + i64::from(byte % 5)).expect("1..=99")
}

fn attr(byte: u8) -> SchedAttr {
    match byte % 8 {
        0 => SchedAttr::nice(Nice::new(i64::from(byte % 5)).expect("-20..=19")),
        1 => SchedAttr::rr(priority(byte / 8)),
        _ => SchedAttr::fifo(priority(byte / 8)),
    }
}

/// Every CPU in half of the cases, else some.
fn affinity(world: &World, byte: u8) -> Option<Arc<CpuMask>> {
    let mask: CpuMask = (0..world.setup.nr_cpus).filter(|cpu| byte >> (cpu % 5 + 1) & 1 == 1).map(CpuId).collect();
    (byte % 2 == 1 && !mask.is_empty()).then(|| Arc::new(mask))
}

fn print(case: &Case) -> String {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let events: Vec<String> = case.events.iter().map(|bytes| hex(bytes)).collect();
    format!("{} {}", hex(&case.machine), events.join(" "))
}

/// Returns the bytes of hexadecimal digits, in words of any length.
fn bytes(text: &str) -> Vec<u8> {
    let word = |word: &str| -> Vec<u8> {
        (0..word.len() / 2).map(|at| u8::from_str_radix(&word[2 * at..2 * at + 2], 16).expect("hex")).collect()
    };
    text.split_whitespace().flat_map(word).collect()
}

#[expect(clippy::disallowed_methods, reason = "how a person asks for one case; no run without it reads any")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn number(name: &str) -> Option<u64> {
    variable(name).map(|text| text.parse().expect("a number"))
}

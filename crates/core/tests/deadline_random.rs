//! Random sequences of events with deadline, real-time and fair tasks, under the rules of
//! [`support`]: published state is true, bandwidth is accounted, the earliest deadline runs, and at
//! rest no waiting deadline task would run at once elsewhere.
//!
//! A failing case prints its seed and its events.

use crate::support::{Agent, Event, Hints, Setup, World};
use std::ops::RangeInclusive;
use std::sync::Arc;
use zerolag_core::{CpusetId, Leave, Lent, Partition, Resched};
use zerolag_model::settings::{FairServer, RtBalance, SchedExt, ServerStart, TimerGrain};
use zerolag_model::{
    CpuId, CpuMask, DlFlags, DlParams, Duration, FairPolicy, KernelVersion, Nice, Prio, RtBandwidth, RtPriority,
    SchedAttr, ServerKind, Settings, TaskId,
};

const CASES: u64 = 3_000;
const EVENTS: u64 = 160;

/// A small generator, xorshift64*, or chosen bytes: two per draw, zeros after the last.
enum Random<'b> {
    Seed(u64),
    Bytes(&'b [u8]),
}

impl Random<'_> {
    fn below(&mut self, end: u64) -> u64 {
        match self {
            Self::Seed(state) => Self::step(state) % end,
            Self::Bytes(bytes) => {
                let (draw, rest) = bytes.split_at(bytes.len().min(2));
                *bytes = rest;
                draw.iter().fold(0, |draw, byte| draw << 8 | u64::from(*byte)) % end
            }
        }
    }

    fn step(state: &mut u64) -> u64 {
        *state ^= *state >> 12;
        *state ^= *state << 25;
        *state ^= *state >> 27;
        state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33
    }

    fn cpu(&mut self, world: &World) -> CpuId {
        CpuId(self.below(u64::from(world.setup.nr_cpus)) as u32)
    }
}

#[test]
fn random_sequences_with_deadline_tasks_keep_every_rule() {
    seeds(1..=CASES, SchedExt::Off);
}

/// Tasks of a loaded scheduler and their server, a second one of each CPU, beside all of the above.
#[test]
fn random_sequences_with_a_loaded_scheduler_keep_every_rule() {
    seeds(1..=CASES / 2, SchedExt::Partial);
    seeds(1..=CASES / 4, SchedExt::All);
}

fn seeds(seeds: RangeInclusive<u64>, sched_ext: SchedExt) {
    let mut events = 0;
    for seed in seeds {
        let random = &mut Random::Seed(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let case = run(random, sched_ext);
        events += case.unwrap_or_else(|(reason, story)| panic!("{reason}\n{story}{sched_ext:?}, seed {seed}"));
    }
    println!("{events} events happened");
}

/// Runs the case that these bytes encode. For fuzzers.
pub(crate) fn run_bytes(input: &[u8]) -> Result<(), String> {
    let random = &mut Random::Bytes(input);
    run(random, SchedExt::Off).map(drop).map_err(|(reason, story)| format!("{reason}\n{story}"))
}

/// Cases that fuzzing has found, with their bugs.
const REGRESSIONS: [(&str, &str); 2] = [
    (
        "3a87c605000001000000000000412b9e63e19bd8e927d8a32faefc9537e4e4e4e4e4e4e4e4e42b170000ff34318eb55c1cb50afc78d048f414dd69024a\
     f8a9bfd434dfd2b1f6e3fc10e4e4e4e4e4e4e4",
        "a task whose root domain had lost all its CPUs was sent to one that it may not use",
    ),
    (
        "4affffffff0a00000000000000f4f4f4f4f4743333333431393134390006000302f4f4f4f4f4743333ffffffffffffff0560000000400001a8f4f4fb\
     f474f56969ff333333333333333333cdd9d9393034ce333333333333333333333308ffffffffffffff444444444444000000000044444444444444b6\
     caffff3b44000000002f000044444444444444b6bb44440100000000000080444444000000004444444400000000004444444444449d054405000000\
     44b6bb4444444444444401054444440000000000002f4444444444444444bb44444400",
        "the check asked for a push that a task confined to a part of its domain had ended, after that one had been pulled away",
    ),
];

#[test]
fn what_failed_once_passes() {
    for (text, wrong) in REGRESSIONS {
        let byte = |at| u8::from_str_radix(&text[at..at + 2], 16).expect("hex");
        let bytes: Vec<u8> = (0..text.len()).step_by(2).map(byte).collect();
        run_bytes(&bytes).unwrap_or_else(|reason| panic!("this was fixed once: {wrong}\n{reason}"));
    }
}

#[test]
fn any_bytes_are_a_case() {
    for length in [0, 1, 9, 600] {
        let bytes: Vec<u8> = (0..length).map(|at: u32| ((at * 167) >> 3) as u8).collect();
        run_bytes(&bytes).unwrap_or_else(|reason| panic!("{length} bytes: {reason}"));
    }
}

/// The running task of a fair server leaves the fair class while another fair task waits, so that
/// the server stays queued. The task then runs as itself, and the server is compared with it like
/// any other entity.
#[test]
fn a_served_task_that_leaves_the_fair_class_is_not_served_any_more() {
    let ms = Duration::from_millis;
    let deadline = |deadline| SchedAttr::Deadline(DlParams::new(ms(1), ms(deadline), ms(40)));
    for (attr, comes_first) in [(deadline(2), true), (deadline(30), false), (SchedAttr::fifo_at(10), false)] {
        let settings = Settings {
            fair_server: FairServer::Immediate,
            fair_server_runtime: ms(2),
            fair_server_period: ms(10),
            ..KernelVersion::V6_12.settings()
        };
        let setup = Setup { settings, nr_cpus: 1, cpusets: Vec::new(), nr_tasks: 2, outside: 1, hints: Hints::Fresh };
        let mut world = World::new(setup);
        let (cpu, by) = (CpuId(0), Agent(1));
        let mut happen = |event| {
            assert!(world.apply(&event), "{event:?} can happen");
            world.check().unwrap_or_else(|reason| panic!("{attr:?}: {reason} (after {event:?})"));
        };
        for task in [TaskId(0), TaskId(1)] {
            let (affinity, cpuset) = (None, CpusetId::default());
            happen(Event::Create { by, task, attr: SchedAttr::nice(Nice::ZERO), affinity, cpuset });
            happen(Event::Go(by));
        }
        happen(Event::Leave { cpu, why: Leave::Preempted });
        happen(Event::Go(Agent(0)));
        assert_eq!(world.rqs[0].inspect().serving(), Some(ServerKind::Fair));
        let task = world.rqs[0].current().expect("a fair task");
        assert!(world.apply(&Event::SetAttr { by, task, attr }));
        world.check().unwrap_or_else(|reason| panic!("{attr:?}: {reason}"));
        assert_eq!(world.rqs[0].inspect().serving(), None, "{attr:?}");
        assert_eq!(world.rqs[0].current_prio(), attr.prio());
        assert_eq!(world.rqs[0].need_resched() == Resched::No, comes_first, "{attr:?}");
    }
}

fn run(random: &mut Random<'_>, sched_ext: SchedExt) -> Result<u64, (String, String)> {
    let setup = setup(random, sched_ext);
    let mut story = format!("{setup:?}\n");
    let mut world = World::new(setup);
    for _ in 0..EVENTS {
        world.pass(Duration::from_micros(random.below(8) * 250));
        let event = event(&world, random);
        if !world.apply(&event) {
            continue;
        }
        story.push_str(&format!("    {} {event:?}\n        {}\n", world.now, world.show()));
        if let Err(reason) = world.check() {
            return Err((format!("{reason} (after {event:?})"), story));
        }
    }
    let mut rest = String::new();
    let end = world.drain(&mut |world, event| rest.push_str(&format!("    {event:?}\n        {}\n", world.show())));
    match end {
        Ok(()) => Ok(world.events),
        Err(reason) => Err((reason, story + "coming to rest\n" + &rest)),
    }
}

fn setup(random: &mut Random<'_>, sched_ext: SchedExt) -> Setup {
    let nr_cpus = 1 + random.below(5) as u32;
    let active = [RtBalance::PullLocked, RtBalance::IpiPerCpu, RtBalance::IpiRootDomain, RtBalance::PullClaimed];
    let settings = Settings {
        rt_balance: active[random.below(3) as usize],
        // Both rules, without another draw: only with the older one the earliest deadlines run.
        dl_pull_beside: nr_cpus % 2 == 1,
        enforce_dl: if random.below(2) == 0 { TimerGrain::Exact } else { TimerGrain::Tick },
        rt_push_skip_stuck: random.below(2) == 0,
        rt_throttling: random.below(3) == 0,
        rt_runtime: Duration::from_millis(2 + random.below(3)),
        rt_period: Duration::from_millis(6),
        rt_runtime_share: random.below(2) == 0,
        rt_period_timer_lost: random.below(4) == 0,
        fair_server: FairServer::ALL[random.below(3) as usize],
        fair_server_start: ServerStart::ALL[random.below(2) as usize],
        fair_server_runtime: Duration::from_micros(500 + 250 * random.below(8)),
        fair_server_period: Duration::from_millis(3 + random.below(8)),
        fair_server_resched_lost: false, // A fault: nothing that is checked here holds with it.
        ..KernelVersion::V6_12.settings()
    };
    let settings = match sched_ext {
        SchedExt::Off => settings,
        _ => Settings {
            sched_ext,
            sched_ext_slice: Duration::from_micros(500 + 250 * random.below(20)),
            ext_server: FairServer::ALL[random.below(3) as usize],
            ext_server_runtime: Duration::from_micros(500 + 250 * random.below(8)),
            ext_server_period: Duration::from_millis(3 + random.below(8)),
            ..settings
        },
    };
    let cpusets = match random.below(8) {
        0..=1 if nr_cpus > 2 => vec![((0..2).map(CpuId).collect(), Partition::Root)],
        2..=3 => vec![((0..nr_cpus.min(2)).map(CpuId).collect(), Partition::Prepared)],
        _ => Vec::new(),
    };
    let hints = if random.below(2) == 0 { Hints::Stale } else { Hints::Fresh };
    Setup { settings, nr_cpus, cpusets, nr_tasks: 2 + random.below(10) as u32, outside: 1, hints }
}

fn event(world: &World, random: &mut Random<'_>) -> Event {
    let cpu = random.cpu(world);
    let by = Agent(random.below(world.jobs.len() as u64) as usize);
    let task = TaskId(random.below(u64::from(world.setup.nr_tasks)) as u32);
    let busy: Vec<usize> = (0..world.jobs.len()).filter(|agent| !world.jobs[*agent].is_empty()).collect();
    match random.below(40) {
        0..=11 if !busy.is_empty() => Event::Go(Agent(busy[random.below(busy.len() as u64) as usize])),
        0..=13 => Event::Leave { cpu, why: Leave::Preempted },
        14..=15 => Event::Deliver { cpu, nth: 0 },
        16..=18 => Event::Leave { cpu, why: Leave::Block },
        19 => Event::Leave { cpu, why: Leave::Yield },
        20 if random.below(3) == 0 => Event::Leave { cpu, why: Leave::Exit },
        20..=22 => Event::Tick { cpu },
        23..=26 => Event::Timer { cpu },
        27..=31 => {
            let cpuset = CpusetId(random.below(world.setup.cpusets.len() as u64 + 1) as u16);
            Event::Create { by, task, attr: attr(world, random), affinity: affinity(world, random), cpuset }
        }
        32 => Event::SetAttr { by, task, attr: attr(world, random) },
        33 => Event::SetAffinity { by, task, affinity: affinity(world, random) },
        34 => {
            let priority = RtPriority::new(10 + random.below(5) as i64).expect("1..=99");
            let half_ms = |count| Duration::from_micros(500 * count);
            let (runtime, deadline) = (half_ms(1 + random.below(3)), half_ms(3 + random.below(8)));
            let params = DlParams::new(runtime, deadline, deadline);
            let lent = Lent::Deadline { params, deadline: world.now + half_ms(random.below(12)) };
            let from = [None, Some(Lent::Prio(Prio::from_rt(priority))), Some(lent)][random.below(3) as usize];
            Event::Inherit { by, task, from }
        }
        35 => match random.below(4) {
            0 => Event::Offline { cpu },
            1 => Event::Evict { cpu },
            _ => Event::Online { cpu },
        },
        37 if random.below(2) == 0 => {
            let runtime = Duration::from_micros(500 * random.below(8));
            let period = Duration::from_millis(3 + random.below(8));
            let kind = ServerKind::ALL[random.below(ServerKind::ALL.len() as u64) as usize];
            Event::SetServer { cpu, kind, runtime, period }
        }
        37 if random.below(2) == 0 => {
            let runtime = (random.below(3) > 0).then(|| Duration::from_micros(500 * random.below(10)));
            Event::SetRtBandwidth {
                bandwidth: RtBandwidth { runtime, period: Duration::from_millis(4 + random.below(4)) },
            }
        }
        37 => Event::FollowRtLimit { cpu },
        36 if !world.setup.cpusets.is_empty() => Event::Join { cpu, partition: CpusetId(random.below(2) as u16) },
        _ => Event::Wake { by, task },
    }
}

fn attr(world: &World, random: &mut Random<'_>) -> SchedAttr {
    let settings = &world.setup.settings;
    let kinds = if settings.sched_ext == SchedExt::Off { 9 } else { 13 };
    match random.below(kinds) {
        0..=1 => settings.governed(SchedAttr::nice(Nice::ZERO)),
        2..=3 => SchedAttr::fifo_at(10 + random.below(5) as i64),
        9..=12 => settings.governed(SchedAttr::Fair { policy: FairPolicy::Ext, nice: Nice::ZERO, slice: None }),
        _ => {
            let half_ms = |count| Duration::from_micros(500 * count);
            let runtime = 1 + random.below(4);
            let deadline = runtime + random.below(8);
            let period = if random.below(2) == 0 { deadline } else { deadline + random.below(8) };
            let params = DlParams::new(half_ms(runtime), half_ms(deadline), half_ms(period));
            SchedAttr::Deadline(params.with_flags(DlFlags::from_bits(random.below(8))))
        }
    }
}

/// Usually every CPU.
fn affinity(world: &World, random: &mut Random<'_>) -> Option<Arc<CpuMask>> {
    let mask: CpuMask = (0..world.setup.nr_cpus).filter(|_| random.below(2) == 0).map(CpuId).collect();
    (random.below(6) == 0 && !mask.is_empty()).then(|| Arc::new(mask))
}

//! Random sequences of events with deadline, real-time and fair tasks, under the rules of [`support`]: what is published
//! is true, bandwidth is accounted, the earliest deadline runs, and at rest no waiting deadline task would run at once
//! elsewhere.
//!
//! A failing case prints its seed and what happened.

#[expect(dead_code, reason = "fingerprints serve the enumeration")]
mod support;

use std::sync::Arc;
use support::{Agent, Event, Hints, Setup, World};
use zerolag_core::{CpusetId, Leave, Partition};
use zerolag_model::settings::{FairServer, Grain, RtBalance, ServerStart};
use zerolag_model::{
    CpuId, CpuMask, DlFlags, DlParams, Duration, KernelVersion, Nice, Prio, RtPriority, SchedAttr, Settings, TaskId,
};

const CASES: u64 = 3_000;
const EVENTS: u64 = 160;

/// A small generator: xorshift64*.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % end
    }

    fn cpu(&mut self, world: &World) -> CpuId {
        CpuId(self.below(u64::from(world.setup.nr_cpus)) as u32)
    }
}

#[test]
fn random_sequences_with_deadline_tasks_keep_every_rule() {
    let mut events = 0;
    for seed in 1..=CASES {
        events += run(seed).unwrap_or_else(|(reason, story)| panic!("{reason}\n{story}seed {seed}"));
    }
    println!("{events} events happened");
}

fn run(seed: u64) -> Result<u64, (String, String)> {
    let random = &mut Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let setup = setup(random);
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

fn setup(random: &mut Random) -> Setup {
    let nr_cpus = 1 + random.below(5) as u32;
    let active = [RtBalance::PullLocked, RtBalance::IpiPerCpu, RtBalance::IpiRootDomain];
    let settings = Settings {
        rt_balance: active[random.below(3) as usize],
        enforce_dl: if random.below(2) == 0 { Grain::Exact } else { Grain::Tick },
        rt_push_skip_stuck: random.below(2) == 0,
        rt_throttling: random.below(3) == 0,
        rt_runtime: Duration::from_millis(2 + random.below(3)),
        rt_period: Duration::from_millis(6),
        rt_runtime_share: random.below(2) == 0,
        fair_server: FairServer::ALL[random.below(3) as usize],
        fair_server_start: ServerStart::ALL[random.below(2) as usize],
        fair_server_runtime: Duration::from_micros(500 + 250 * random.below(8)),
        fair_server_period: Duration::from_millis(3 + random.below(8)),
        ..KernelVersion::V6_12.settings()
    };
    let cpusets = match random.below(8) {
        0..=1 if nr_cpus > 2 => vec![((0..2).map(CpuId).collect(), Partition::Root)],
        2..=3 => vec![((0..nr_cpus.min(2)).map(CpuId).collect(), Partition::Prepared)],
        _ => Vec::new(),
    };
    let hints = if random.below(2) == 0 { Hints::Stale } else { Hints::Fresh };
    Setup { settings, nr_cpus, cpusets, nr_tasks: 2 + random.below(10) as u32, outside: 1, hints }
}

fn event(world: &World, random: &mut Random) -> Event {
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
            Event::Create { by, task, attr: attr(random), affinity: affinity(world, random), cpuset }
        }
        32 => Event::SetAttr { by, task, attr: attr(random) },
        33 => Event::SetAffinity { by, task, affinity: affinity(world, random) },
        34 => {
            let priority = RtPriority::new(10 + random.below(5) as i64).expect("1..=99");
            let lent = [None, Some(Prio::from_rt(priority)), Some(Prio::DEADLINE)];
            Event::Inherit { by, task, from: lent[random.below(3) as usize] }
        }
        35 => match random.below(4) {
            0 => Event::Offline { cpu },
            1 => Event::Evict { cpu },
            _ => Event::Online { cpu },
        },
        37 if random.below(2) == 0 => {
            let runtime = Duration::from_micros(500 * random.below(8));
            Event::SetServer { cpu, runtime, period: Duration::from_millis(3 + random.below(8)) }
        }
        36 if !world.setup.cpusets.is_empty() => Event::Join { cpu, partition: CpusetId(random.below(2) as u16) },
        _ => Event::Wake { by, task },
    }
}

fn attr(random: &mut Random) -> SchedAttr {
    match random.below(9) {
        0..=1 => SchedAttr::nice(Nice::ZERO),
        2..=3 => SchedAttr::fifo_at(10 + random.below(5) as i64),
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

/// Every CPU as a rule.
fn affinity(world: &World, random: &mut Random) -> Option<Arc<CpuMask>> {
    let mask: CpuMask = (0..world.setup.nr_cpus).filter(|_| random.below(2) == 0).map(CpuId).collect();
    (random.below(6) == 0 && !mask.is_empty()).then(|| Arc::new(mask))
}

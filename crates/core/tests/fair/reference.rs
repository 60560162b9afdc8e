//! EEVDF on one CPU, compared with a second, slow and obvious implementation of its rules: it
//! computes everything anew from all entities, in floating point, by the definitions of Stoica &
//! Abdel-Wahab 1995.
//!
//! Two complete schedulers would diverge after the first decision that rounding tips. So the
//! reference follows the core: it is told which task runs, and decides whether that was right. A
//! difference of rounding can then tip one decision, but not those that follow.

use super::host::{Host, Program};
use proptest::prelude::*;
use zerolag_core::{Leave, Weight};
use zerolag_model::{CpuId, Duration, GroupId, KernelVersion, Nice, SchedAttr, TaskId, Topology};

/// Base slice of one CPU, and the tick.
const SLICE: f64 = 700_000.0;
const TICK: f64 = 4_000_000.0;
/// The core rounds each charge down to a nanosecond and divides by 32-bit inverses of weights.
const ROUNDING: f64 = 2_000.0;

#[derive(Clone, Debug)]
struct Entity {
    weight: f64,
    is_queued: bool,
    is_new: bool,
    /// Virtual time received, virtual deadline; while off the queue only the lag is used.
    vruntime: f64,
    deadline: f64,
    lag: f64,
}

#[derive(Default)]
struct Reference {
    entities: Vec<Entity>,
    current: Option<usize>,
}

impl Reference {
    fn queued(&self) -> impl Iterator<Item = &Entity> {
        self.entities.iter().filter(|entity| entity.is_queued)
    }

    fn weight(&self) -> f64 {
        self.queued().map(|entity| entity.weight).sum()
    }

    /// System virtual time: the virtual time of every task if all had been served by weight.
    fn average(&self) -> f64 {
        self.queued().map(|entity| entity.weight * entity.vruntime).sum::<f64>() / self.weight()
    }

    fn add(&mut self, nice: i64) {
        let weight = f64::from(Weight::from_nice(Nice::new(nice).expect("a nice value")).value());
        let entity = Entity { weight, is_queued: false, is_new: true, vruntime: 0.0, deadline: 0.0, lag: 0.0 };
        self.entities.push(entity);
    }

    /// The current entity runs.
    fn run(&mut self, time: f64) {
        if let Some(current) = self.current {
            let entity = &mut self.entities[current];
            entity.vruntime += time * 1024.0 / entity.weight;
        }
    }

    /// Returns for how long the current entity must run until the question whether its request is
    /// served no longer depends on rounding.
    fn unclear_for(&self) -> Duration {
        let Some(entity) = self.current.map(|current| &self.entities[current]) else { return Duration::ZERO };
        let left = entity.deadline - entity.vruntime;
        if left.abs() > ROUNDING {
            return Duration::ZERO;
        }
        Duration::from_nanos(((left + 2.0 * ROUNDING) * entity.weight / 1024.0) as u64)
    }

    /// The current entity requests its next slice if this one is served; returns whether it is.
    fn charge(&mut self) -> bool {
        let Some(entity) = self.current.map(|current| &mut self.entities[current]) else { return false };
        let is_served = entity.vruntime >= entity.deadline;
        if is_served {
            entity.deadline = entity.vruntime + SLICE * 1024.0 / entity.weight;
        }
        is_served
    }

    fn join(&mut self, index: usize) {
        let (others, average) = (self.weight(), if self.queued().count() > 0 { self.average() } else { 0.0 });
        let entity = &mut self.entities[index];
        let lag = if others > 0.0 { entity.lag * (others + entity.weight) / others } else { 0.0 };
        entity.vruntime = average - lag;
        let request = SLICE * 1024.0 / entity.weight;
        entity.deadline = entity.vruntime + if entity.is_new { request / 2.0 } else { request };
        (entity.is_queued, entity.is_new) = (true, false);
    }

    fn leave(&mut self) {
        let average = self.average();
        let index = self.current.take().expect("a leaving task runs");
        let entity = &mut self.entities[index];
        let most = (2.0 * SLICE).max(TICK) * 1024.0 / entity.weight;
        entity.lag = (average - entity.vruntime).clamp(-most, most);
        entity.is_queued = false;
    }

    /// Returns whether the choice is right despite rounding: `index` is eligible, and every other
    /// entity that can be eligible has a later deadline.
    fn is_surely_right(&self, index: usize) -> bool {
        let average = self.average();
        let chosen = &self.entities[index];
        let others = self.entities.iter().enumerate().filter(|(other, entity)| *other != index && entity.is_queued);
        let rivals = others.filter(|(_, entity)| entity.vruntime <= average + ROUNDING);
        let earliest = rivals.map(|(_, entity)| entity.deadline).fold(f64::INFINITY, f64::min);
        chosen.vruntime <= average - ROUNDING && chosen.deadline + ROUNDING < earliest
    }

    /// Returns whether `index` is eligible, and no entity that certainly is eligible has an earlier
    /// deadline.
    fn is_right(&self, index: usize) -> bool {
        let average = self.average();
        let chosen = &self.entities[index];
        let rivals = self.queued().filter(|entity| entity.vruntime <= average - ROUNDING);
        let earliest = rivals.map(|entity| entity.deadline).fold(f64::INFINITY, f64::min);
        chosen.is_queued && chosen.vruntime <= average + ROUNDING && chosen.deadline <= earliest + ROUNDING
    }
}

#[derive(Clone, Debug)]
enum Event {
    Spawn(i64),
    Wake(usize),
    Block,
    Tick,
    Pass(u64),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        1 => (-15_i64..15).prop_map(Event::Spawn),
        4 => (0_usize..64).prop_map(Event::Wake),
        3 => Just(Event::Block),
        6 => Just(Event::Tick),
        8 => (1_000_u64..5_000_000).prop_map(Event::Pass),
    ]
}

proptest! {
    #![proptest_config(super::cases(150))]

    #[test]
    fn the_running_task_is_the_one_of_the_definition(
        events in proptest::collection::vec(event(), 1..300),
    ) {
        let mut settings = KernelVersion::V6_12.settings();
        // Features that kernels added to the published algorithm.
        for feature in ["RUN_TO_PARITY", "PREEMPT_SHORT", "DELAY_DEQUEUE"] {
            settings.set(&format!("features.{feature}"), "off").expect("a feature");
        }
        let mut host = Host::new(Topology::flat(1).expect("one CPU"), settings);
        let mut reference = Reference::default();
        for event in events {
            let before = reference.current;
            match event {
                Event::Pass(ns) => {
                    host.advance(Duration::from_nanos(ns));
                    reference.run(ns as f64);
                    continue;
                }
                Event::Tick | Event::Block if before.is_none() => continue,
                Event::Spawn(_) | Event::Wake(_) | Event::Tick | Event::Block => {}
            }
            let unclear = reference.unclear_for();
            host.advance(unclear);
            reference.run(unclear.as_nanos() as f64);
            let Some((woken, is_served)) = apply(&event, &mut host, &mut reference) else { continue };
            let now = host.rqs[0].current().map(TaskId::index);
            reference.current = now;
            let Some(runs) = now else {
                prop_assert!(reference.queued().count() == 0, "{event:?}: idle beside a queued task");
                continue;
            };
            let context = format!("{event:?}: from {before:?} to {runs} among {:?}", reference.entities);
            let is_right = reference.is_right(runs);
            let has_blocked = matches!(event, Event::Block);
            if has_blocked || is_served {
                prop_assert!(is_right, "{context}");
            } else if woken == Some(runs) {
                prop_assert!(is_right || before.is_none(), "{context}");
            } else {
                prop_assert!(now == before, "nothing was to be decided: {context}");
                let must_preempt = woken.is_some_and(|woken| reference.is_surely_right(woken));
                prop_assert!(!must_preempt, "{context}");
            }
        }
    }
}

/// Applies an event to both; returns the woken task, and whether the current entity's request was
/// served. `None` if no task fits the event.
fn apply(event: &Event, host: &mut Host, reference: &mut Reference) -> Option<(Option<usize>, bool)> {
    match event {
        Event::Spawn(nice) if reference.entities.len() < 12 => {
            let is_served = reference.charge();
            let index = reference.entities.len();
            reference.add(*nice);
            reference.join(index);
            let attr = SchedAttr::nice(Nice::new(*nice).expect("a nice value"));
            host.spawn(attr, GroupId::ROOT, None, Program::Hog);
            Some((Some(index), is_served))
        }
        Event::Wake(pick) => {
            let all = 0..reference.entities.len();
            let asleep: Vec<usize> = all.filter(|index| !reference.entities[*index].is_queued).collect();
            let index = *asleep.get(pick % asleep.len().max(1))?;
            let is_served = reference.charge();
            reference.join(index);
            host.wake(TaskId::from_index(index), CpuId(0));
            Some((Some(index), is_served))
        }
        Event::Block => {
            reference.charge();
            reference.leave();
            host.schedule(CpuId(0), Leave::Block);
            host.settle();
            Some((None, false))
        }
        Event::Tick => {
            let is_served = reference.charge();
            host.tick(CpuId(0));
            Some((None, is_served))
        }
        Event::Spawn(_) | Event::Pass(_) => None,
    }
}

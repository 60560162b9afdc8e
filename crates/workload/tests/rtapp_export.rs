//! Programs as rt-app files, and back again.

use proptest::prelude::*;
use zerolag_workload::program::{Action, Program, ResourceId, TimerRef};
use zerolag_workload::{LoadOptions, Scenario, load, rtapp};

fn read(text: &str) -> Scenario {
    load("f.json", text.as_bytes(), &LoadOptions::default()).unwrap_or_else(|errors| panic!("{errors}\n{text}"))
}

/// Drops resources that nothing uses: an exported program has none.
fn tidied(mut program: Program) -> Program {
    let mut used = vec![false; program.resources.len()];
    for_each_id(&mut program, |id| used[id.index()] = true);
    let mut next = 0;
    let places: Vec<u32> = used
        .iter()
        .map(|used| {
            let place = next;
            next += u32::from(*used);
            place
        })
        .collect();
    for_each_id(&mut program, |id| *id = ResourceId(places[id.index()]));
    let mut keep = used.iter();
    program.resources.retain(|_| *keep.next().expect("as many"));
    program
}

fn for_each_id(program: &mut Program, mut visit: impl FnMut(&mut ResourceId)) {
    for action in program.tasks.iter_mut().flat_map(|task| &mut task.phases).flat_map(|phase| &mut phase.actions) {
        match action {
            Action::Lock(id)
            | Action::Unlock(id)
            | Action::Signal(id)
            | Action::Broadcast(id)
            | Action::Barrier(id)
            | Action::SemPost(id)
            | Action::SemWait(id)
            | Action::Suspend(id)
            | Action::Resume(id)
            | Action::Timer { timer: TimerRef::Shared(id), .. } => visit(id),
            Action::Wait { condition, mutex } | Action::Sync { condition, mutex } => {
                visit(condition);
                visit(mutex);
            }
            _ => {}
        }
    }
}

fn round_trip(text: &str) {
    let first = read(text);
    let written = rtapp::export(&first.program, first.duration).unwrap_or_else(|unsaid| panic!("{unsaid:?}\n{text}"));
    let second = read(&written);
    assert_eq!(tidied(second.program), tidied(first.program), "{text}\n{written}");
    assert_eq!(second.duration, first.duration);
}

#[test]
fn every_construct_comes_back() {
    round_trip(include_str!("fixtures/rtapp-all.json"));
    round_trip(include_str!("fixtures/rtapp-duplicates.json"));
}

#[test]
fn what_rt_app_cannot_say_is_named() {
    let text = r#"
[cpuset.left]
cpus = "0-1"
[group."/web"]
"cpu.weight" = 300
[semaphore.items]
initial = 2
[mutex.polite]
protocol = "inherit"
[task.a]
cpuset = "left"
created_on = 1
process = "p"
steps = [{ run = "1500ns" }, { kernel = "1ms" }, { sem_wait = "items" }, { sem_post = "items" },
         { sleep = { exponential = { mean = "1ms" } } }, { stamp = 3 }, { spin = { wall = "1ms", chunk = "1us" } },
         { lock = "polite" }, { unlock = "polite" }, { lock = "plain" }, { unlock = "plain" }]
[[task.b.phase]]
slice = "2ms"
steps = [{ run = "1ms" }]
"#;
    let scenario = load("f.toml", text.as_bytes(), &LoadOptions::default()).unwrap_or_else(|errors| panic!("{errors}"));
    let unsaid = rtapp::export(&scenario.program, Some(zerolag_model::Duration::from_millis(1500)))
        .expect_err("not all of it can be said");
    assert_eq!(
        unsaid,
        [
            "a duration of 1.5s: it takes whole seconds",
            "a time of 1.5us (task a): it takes whole microseconds up to 2147483647",
            "cpusets: write the CPUs of each task as `cpus` instead",
            "kernel-mode work (task a)",
            "priority inheritance for some mutexes and not for others",
            "random times (task a)",
            "semaphore items above zero at the start",
            "task a is created on CPU 1",
            "task a is of process p, and not all are",
            "task a looking at the clock every 1us",
            "the weight of group /web",
            "time stamps (task a)",
        ]
    );
}

/// Events that never break a rule next to any others, as members without a key's number.
fn event() -> impl Strategy<Value = (&'static str, String)> {
    let name = || prop_oneof![Just("x"), Just("y"), Just("unknown")];
    prop_oneof![
        (0..5000_u32).prop_map(|us| ("run", us.to_string())),
        (0..5000_u32).prop_map(|us| ("runtime", us.to_string())),
        (1..5000_u32).prop_map(|us| ("sleep", us.to_string())),
        name().prop_map(|name| ("signal", format!("\"{name}\""))),
        name().prop_map(|name| ("broad", format!("\"{name}\""))),
        name().prop_map(|name| ("sem_post", format!("\"{name}\""))),
        name().prop_map(|name| ("sem_wait", format!("\"{name}\""))),
        Just(("yield", "true".to_owned())),
        Just(("suspend", "null".to_owned())),
        Just(("resume", "\"t1\"".to_owned())),
        Just(("fork", "\"t0\"".to_owned())),
        (0..9_u32).prop_map(|us| ("mem", format!("{us}0000"))),
        (prop_oneof![Just("tick"), Just("unique"), Just("uniqueb")], 1..9000_u32, any::<bool>()).prop_map(
            |(name, period, absolute)| {
                let mode = if absolute { "absolute" } else { "relative" };
                ("timer", format!("{{ \"ref\": \"{name}\", \"period\": {period}, \"mode\": \"{mode}\" }}"))
            }
        ),
    ]
}

fn properties() -> impl Strategy<Value = String> {
    let cpus = prop_oneof![3 => Just(String::new()), 1 => (0..4_u32).prop_map(|cpu| format!("\"cpus\": [{cpu}, 0], "))];
    let group = prop_oneof![4 => Just(""), 1 => Just("\"taskgroup\": \"/a/b\", ")];
    let fair = (prop_oneof![Just("OTHER"), Just("BATCH"), Just("IDLE")], -20..20_i32, 0..200_000_u32, group).prop_map(
        |(policy, nice, slice, group)| {
            format!("\"policy\": \"SCHED_{policy}\", \"priority\": {nice}, \"dl-runtime\": {slice}, {group}")
        },
    );
    (prop_oneof![2 => Just(String::new()), 2 => fair], cpus).prop_map(|(attr, cpus)| attr + &cpus)
}

fn phase() -> impl Strategy<Value = String> {
    (properties(), -1..4_i32, proptest::collection::vec(event(), 0..6)).prop_map(|(properties, loops, events)| {
        let events: Vec<String> =
            events.iter().enumerate().map(|(place, (kind, value))| format!("\"{kind}{place}x\": {value}")).collect();
        let events = events.join(", ");
        let comma = if events.is_empty() { "" } else { ", " };
        format!("{{ {properties}\"loop\": {loops}, {events}{comma}\"sleep_last\": 10 }}")
    })
}

fn task() -> impl Strategy<Value = String> {
    let phased = (properties(), 0..3_u32, proptest::collection::vec(phase(), 1..4), -1..3_i32).prop_map(
        |(properties, instances, phases, turns)| {
            let phases: Vec<String> =
                phases.iter().enumerate().map(|(place, phase)| format!("\"p{place}\": {phase}")).collect();
            format!(
                "{{ {properties}\"instance\": {instances}, \"delay\": 7, \"loop\": {turns}, \"phases\": {{ {} }} }}",
                phases.join(", ")
            )
        },
    );
    prop_oneof![phase(), phased]
}

proptest! {
    #[test]
    fn what_was_read_and_written_reads_the_same(first in task(), second in task(), pi in any::<bool>()) {
        let text = format!(
            "{{ \"global\": {{ \"pi_enabled\": {pi}, \"duration\": 3 }}, \"tasks\": {{ \"t0\": {first}, \"t1\": {second} }} }}"
        );
        round_trip(&text);
    }
}

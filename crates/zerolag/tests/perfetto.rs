//! Checks Perfetto traces against the complete schema: the output is decoded by the official field
//! numbers and types, and must contain the same events as its records.

use std::collections::{BTreeMap, BTreeSet};
use zerolag::model::{Duration, PrevState, TraceEvent};
use zerolag::sim::{NoTrace, Tracing};
use zerolag::trace::perfetto::PerfettoWriter;
use zerolag::trace::{Meta, Trace, perfetto};
use zerolag::workload::{LoadOptions, load};
use zerolag::{Plan, model::Record, sim::Sink};

/// The schema: per message the fields by number, each with name, type and whether it is packed.
struct Schema(BTreeMap<String, BTreeMap<u64, Field>>);

struct Field {
    name: String,
    kind: String,
    packed: bool,
}

impl Schema {
    fn read() -> Self {
        let mut messages: BTreeMap<String, BTreeMap<u64, Field>> = BTreeMap::new();
        let mut current = String::new();
        for line in include_str!("data/perfetto/schema.txt").lines().filter(|line| !line.starts_with('#')) {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                [] => {}
                ["message", name] => name.clone_into(&mut current),
                [number, name, kind, ref rest @ ..] => {
                    let field =
                        Field { name: name.to_owned(), kind: kind.to_owned(), packed: rest.contains(&"packed") };
                    let number = number.parse().expect("a field number");
                    messages.entry(current.clone()).or_default().insert(number, field);
                }
                _ => panic!("a line of the schema: {line}"),
            }
        }
        Self(messages)
    }

    /// Decodes a message; every field must be known and have its type.
    fn decode(&self, message: &str, bytes: &[u8]) -> Message {
        let fields = self.0.get(message).unwrap_or_else(|| panic!("message {message} is not in the schema"));
        let mut decoded = Message::default();
        let mut rest = bytes;
        while !rest.is_empty() {
            let tag = varint(&mut rest);
            let field = fields.get(&(tag >> 3)).unwrap_or_else(|| panic!("{message} has no field {}", tag >> 3));
            let values = decoded.0.entry(field.name.clone()).or_default();
            let is_number = matches!(&*field.kind, "int32" | "int64" | "uint32" | "uint64" | "bool" | "enum");
            match (tag & 7, is_number) {
                (0, true) if !field.packed => values.push(Value::Number(varint(&mut rest))),
                (2, true) if field.packed => {
                    let mut inner = take(&mut rest);
                    while !inner.is_empty() {
                        values.push(Value::Number(varint(&mut inner)));
                    }
                }
                (2, false) => {
                    let inner = take(&mut rest);
                    values.push(match &*field.kind {
                        "string" => Value::Text(String::from_utf8(inner.to_vec()).expect("UTF-8")),
                        kind => Value::Message(self.decode(kind, inner)),
                    });
                }
                (wire, _) => panic!("{message}.{} has wire type {wire} but is {}", field.name, field.kind),
            }
        }
        decoded
    }
}

#[derive(Debug, Default)]
struct Message(BTreeMap<String, Vec<Value>>);

#[derive(Debug)]
enum Value {
    Number(u64),
    Text(String),
    Message(Message),
}

impl Message {
    fn numbers(&self, name: &str) -> Vec<u64> {
        let values = self.0.get(name).map_or(&[][..], |values| values);
        values.iter().map(|value| if let Value::Number(number) = value { *number } else { panic!("{name}") }).collect()
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.numbers(name).first().copied()
    }

    /// A missing number of a proto3 message is zero.
    fn number_or_zero(&self, name: &str) -> u64 {
        self.number(name).unwrap_or(0)
    }

    fn texts(&self, name: &str) -> Vec<&str> {
        let values = self.0.get(name).map_or(&[][..], |values| values);
        values.iter().map(|value| if let Value::Text(text) = value { &**text } else { panic!("{name}") }).collect()
    }

    fn messages(&self, name: &str) -> Vec<&Self> {
        let values = self.0.get(name).map_or(&[][..], |values| values);
        values.iter().map(|value| if let Value::Message(inner) = value { inner } else { panic!("{name}") }).collect()
    }

    fn message(&self, name: &str) -> Option<&Self> {
        self.messages(name).first().copied()
    }
}

fn varint(rest: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = rest[0];
        *rest = &rest[1..];
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return value;
        }
    }
    panic!("a varint is too long")
}

fn take<'b>(rest: &mut &'b [u8]) -> &'b [u8] {
    let length = usize::try_from(varint(rest)).expect("a length");
    let (inner, after) = rest.split_at(length);
    *rest = after;
    inner
}

struct Kept(Vec<Record>);

impl Sink for Kept {
    fn record(&mut self, record: &Record) {
        self.0.push(record.clone());
    }
}

/// Runs a scenario for a while.
fn traced(name: &str, text: &str, duration: Duration) -> Trace {
    let scenario = load(name, text.as_bytes(), &LoadOptions::default()).unwrap_or_else(|errors| panic!("{errors}"));
    let plan = Plan::new(scenario).expect("a plan").for_duration(duration);
    let mut kept = Kept(Vec::new());
    let outcome = plan.build(Tracing::On).expect("it fits").run(&mut kept);
    Trace { meta: Meta { end: outcome.end, ..plan.meta() }, records: kept.0 }
}

fn written(trace: &Trace) -> Vec<u8> {
    let mut bytes = Vec::new();
    perfetto::write(&mut bytes, trace).expect("memory takes it");
    bytes
}

/// A switch in the file.
#[derive(Debug, PartialEq, Eq)]
struct Switch {
    at: u64,
    prev_state: u64,
    next: u64,
    prio: u64,
    comm: String,
}

const PID_OFFSET: u64 = 1000;

#[expect(clippy::too_many_lines, reason = "one check per kind of packet, over one pass of the trace")]
fn check(trace: &Trace) {
    let file = Schema::read().decode("Trace", &written(trace));
    let packets = file.messages("packet");
    assert_eq!(packets[0].number("sequence_flags"), Some(1), "the first packet begins a sequence");
    let names = packets[0].message("system_info").and_then(|info| info.message("utsname")).expect("a first packet");
    assert_eq!(names.texts("sysname"), ["Linux"]);
    assert!(names.texts("release")[0].split('.').count() >= 3, "{:?}", names.texts("release"));

    let mut threads: BTreeMap<u64, String> = BTreeMap::from([(0, "swapper".to_owned())]);
    let mut tracks: BTreeSet<u64> = BTreeSet::new();
    let mut open: BTreeMap<u64, u64> = BTreeMap::new();
    let mut switches: BTreeMap<u64, Vec<Switch>> = BTreeMap::new();
    let mut last: BTreeMap<(u64, &str), u64> = BTreeMap::new();
    let mut wakings = 0;
    for packet in &packets {
        assert_eq!(packet.number("trusted_packet_sequence_id"), Some(1));
        if let Some(tree) = packet.message("process_tree") {
            let processes: BTreeSet<u64> = tree.messages("processes").iter().filter_map(|p| p.number("pid")).collect();
            for thread in tree.messages("threads") {
                let (tid, tgid) = (thread.number("tid").expect("a tid"), thread.number("tgid").expect("a tgid"));
                assert!(processes.contains(&tgid) || threads.contains_key(&tgid), "process {tgid} is known");
                threads.insert(tid, thread.texts("name")[0].to_owned());
            }
        }
        if let Some(descriptor) = packet.message("track_descriptor") {
            assert!(tracks.insert(descriptor.number("uuid").expect("a uuid")), "described once");
            if let Some(thread) = descriptor.message("thread") {
                assert!(threads.contains_key(&thread.number("tid").expect("a tid")));
            }
        }
        if let Some(event) = packet.message("track_event") {
            let track = event.number("track_uuid").expect("a track");
            assert!(tracks.contains(&track), "described before it is used");
            assert!(packet.number("timestamp").is_some());
            match event.number_or_zero("type") {
                1 => *open.entry(track).or_default() += 1,
                2 => *open.get_mut(&track).filter(|open| **open > 0).expect("something is open") -= 1,
                3 | 4 => {}
                other => panic!("type {other}"),
            }
        }
        let Some(bundle) = packet.message("ftrace_events") else { continue };
        let cpu = bundle.number("cpu").expect("a CPU");
        let mut forward = |list: &'static str, at: u64| {
            let before = last.insert((cpu, list), at).unwrap_or(0);
            assert!(at >= before, "CPU {cpu}: {list} go forward");
        };
        for event in bundle.messages("event") {
            forward("events", event.number_or_zero("timestamp"));
            assert!(threads.contains_key(&event.number_or_zero("pid")), "every pid is known");
            // A switch whose task is not known from the one before.
            if let Some(switch) = event.message("sched_switch") {
                let number = |name| switch.number_or_zero(name);
                switches.entry(cpu).or_default().push(Switch {
                    at: event.number_or_zero("timestamp"),
                    prev_state: number("prev_state"),
                    next: number("next_pid"),
                    prio: number("next_prio"),
                    comm: switch.texts("next_comm")[0].to_owned(),
                });
            }
        }
        let Some(sched) = bundle.message("compact_sched") else { continue };
        let table = sched.texts("intern_table");
        let columns = ["switch_prev_state", "switch_next_pid", "switch_next_prio", "switch_next_comm_index"]
            .map(|name| sched.numbers(name));
        let mut at = 0;
        for (row, delta) in sched.numbers("switch_timestamp").into_iter().enumerate() {
            at += delta;
            forward("switches", at);
            let [prev_state, next, prio, comm] = [0, 1, 2, 3].map(|column: usize| columns[column][row]);
            assert!(threads.contains_key(&next), "pid {next} is known");
            let comm = table[usize::try_from(comm).expect("an index")].to_owned();
            switches.entry(cpu).or_default().push(Switch { at, prev_state, next, prio, comm });
        }
        let (targets, pids) = (sched.numbers("waking_target_cpu"), sched.numbers("waking_pid"));
        let mut at = 0;
        for (row, delta) in sched.numbers("waking_timestamp").into_iter().enumerate() {
            at += delta;
            forward("wakings", at);
            assert!(threads.contains_key(&pids[row]));
            assert!(targets[row] < trace.meta.machine.nr_cpus() as u64);
            wakings += 1;
        }
    }
    // Of one packet the messages come before the compact switches.
    switches.values_mut().for_each(|switches| switches.sort_by_key(|switch| switch.at));
    assert_eq!(switches, expected(trace, &threads));
    let times = packets.iter().filter(|packet| packet.message("service_event").is_some());
    let times: Vec<Option<u64>> = times.map(|packet| packet.number("timestamp")).collect();
    assert_eq!(times, [trace.meta.start, trace.meta.end].map(|at| Some(at.as_nanos())));
    let woken = trace.records.iter().filter(|record| matches!(record.event, TraceEvent::Waking { .. })).count();
    assert_eq!(wakings, woken);
}

/// The switches in the records.
fn expected(trace: &Trace, threads: &BTreeMap<u64, String>) -> BTreeMap<u64, Vec<Switch>> {
    let mut switches: BTreeMap<u64, Vec<Switch>> = BTreeMap::new();
    for record in &trace.records {
        let TraceEvent::Switch { prev_state, next, next_prio, .. } = &record.event else { continue };
        let pid = next.map_or(0, |next| u64::from(next.0) + PID_OFFSET);
        let prio = if next.is_some() { i64::from(next_prio.raw()).cast_unsigned() } else { 120 };
        let switch = Switch {
            at: record.at.as_nanos(),
            prev_state: match prev_state {
                PrevState::Runnable => 0x100,
                PrevState::Blocked => 1,
                PrevState::Dead => 16,
                PrevState::Idle => 0,
            },
            next: pid,
            prio,
            comm: next.map_or_else(|| format!("swapper/{}", record.cpu), |_| threads[&pid].clone()),
        };
        switches.entry(u64::from(record.cpu.0)).or_default().push(switch);
    }
    switches
}

#[test]
fn what_is_written_tells_what_was_recorded() {
    check(&traced("audio.json", include_str!("../../../examples/audio.json"), Duration::from_millis(600)));
    check(&traced("locks-pi.json", include_str!("../../../examples/locks-pi.json"), Duration::from_secs(1)));
    check(&traced("cpusets.toml", include_str!("../../../examples/cpusets.toml"), Duration::from_millis(600)));
    check(&traced("deadline.json", include_str!("../../../examples/deadline.json"), Duration::from_millis(600)));
}

#[test]
fn forked_tasks_and_phases_are_known_before_they_are_used() {
    let text = r#"
[task.parent]
loop = 5
steps = [{ fork = "child" }, { sleep = "2ms" }]
[task.child]
instances = 0
loop = 1
[[task.child.phase]]
steps = [{ run = "1ms" }]
[[task.child.phase]]
steps = [{ timer = { period = "1us" } }, { stamp = 1 }]
"#;
    let trace = traced("fork.toml", text, Duration::from_millis(50));
    check(&trace);
    let file = Schema::read().decode("Trace", &written(&trace));
    let names: Vec<&str> = file
        .messages("packet")
        .iter()
        .filter_map(|packet| packet.message("track_event"))
        .flat_map(|event| event.texts("name"))
        .collect();
    for wanted in ["phase 0", "phase 1", "stamp 1"] {
        assert!(names.contains(&wanted), "{wanted} in {names:?}");
    }
    assert!(names.iter().any(|name| name.starts_with("timer missed by ")), "{names:?}");
    // One process for all children, led by the first.
    let processes: Vec<&str> = file
        .messages("packet")
        .iter()
        .filter_map(|packet| packet.message("process_tree"))
        .flat_map(|tree| tree.messages("processes"))
        .flat_map(|process| process.texts("cmdline"))
        .collect();
    assert_eq!(processes, ["parent", "child"]);
}

#[test]
fn what_limits_do_is_shown_as_slices() {
    let text = r#"
[machine]
cpus = 2
[group."/limited"]
"cpu.max" = "20000 100000"
[task.busy]
group = "/limited"
instances = 2
steps = [{ run = "1s" }]
"#;
    let trace = traced("limit.toml", text, Duration::from_millis(350));
    check(&trace);
    let file = Schema::read().decode("Trace", &written(&trace));
    let packets = file.messages("packet");
    let described: Vec<&str> = packets
        .iter()
        .filter_map(|packet| packet.message("track_descriptor"))
        .flat_map(|descriptor| descriptor.texts("name"))
        .collect();
    assert!(described.contains(&"CPU 0 throttled /limited"), "{described:?}");
    let events = packets.iter().filter_map(|packet| packet.message("track_event"));
    let throttled = events.filter(|event| event.texts("name") == ["throttled"]).count();
    let recorded = trace.records.iter().filter(|record| matches!(record.event, TraceEvent::Throttle { .. })).count();
    assert!(recorded > 0);
    assert_eq!(throttled, recorded);
}

#[test]
fn a_switch_takes_forty_bytes_at_most() {
    let trace = traced("hogs.toml", include_str!("../../../examples/web-build.toml"), Duration::from_secs(2));
    let switches = trace.records.iter().filter(|record| matches!(record.event, TraceEvent::Switch { .. })).count();
    let only: Vec<Record> = trace
        .records
        .iter()
        .filter(|record| matches!(record.event, TraceEvent::Switch { .. } | TraceEvent::TaskNew { .. }))
        .cloned()
        .collect();
    let bytes = written(&Trace { records: only, ..trace }).len();
    assert!(switches > 1_000, "{switches}");
    assert!(bytes <= 40 * switches, "{bytes} bytes for {switches} switches");
}

#[test]
fn streaming_and_writing_whole_give_the_same_bytes() {
    let scenario =
        load("a.json", include_bytes!("../../../examples/audio.json"), &LoadOptions::default()).expect("loads");
    let plan = Plan::new(scenario).expect("a plan").for_duration(Duration::from_millis(300));
    let mut kept = Kept(Vec::new());
    plan.build(Tracing::On).expect("it fits").run(&mut kept);
    let mut streamed = Vec::new();
    let mut writer = PerfettoWriter::new(&mut streamed, &plan.meta()).expect("memory takes it");
    for record in &kept.0 {
        writer.push(record).expect("memory takes it");
    }
    writer.finish(plan.meta().end).expect("memory takes it");
    assert_eq!(streamed, written(&Trace { meta: plan.meta(), records: kept.0 }));
    // Without a trace nothing is recorded.
    plan.build(Tracing::Off).expect("it fits").run(&mut NoTrace);
}

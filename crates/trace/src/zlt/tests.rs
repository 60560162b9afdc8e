use super::block::{BLOCK_MAX, BlockKind};
use super::*;
use crate::meta::{Machine, Message, Meta, Source};
use crate::{ReadError, Trace};
use proptest::prelude::*;
use std::sync::Arc;
use zerolag_model::attr::{DlFlags, DlParams, FairPolicy, Nice, Prio, RtPolicy, RtPriority, SchedAttr};
use zerolag_model::event::{Disables, IpiReason, Irq, RcuStep};
use zerolag_model::{
    Activation, CpuId, CpuLayer, CpuMask, CpuMax, CpuStat, Duration, GroupId, Instant, LayerTimes, Mark, MigrateReason,
    PrevState, Record, RequestStep, ServerKind, ServerParams, ServerState, SignedDuration, TaskCounters, TaskId,
    Topology, TraceEvent,
};

fn task() -> impl Strategy<Value = TaskId> {
    prop_oneof![(0..64_u32).prop_map(TaskId), any::<u32>().prop_map(TaskId)]
}

fn cpu() -> impl Strategy<Value = CpuId> {
    (0..4096_u32).prop_map(CpuId)
}

fn prio() -> impl Strategy<Value = Prio> {
    (-2..=180_i16).prop_map(Prio::from_raw)
}

fn duration() -> impl Strategy<Value = Duration> {
    prop_oneof![(0..1_000_000_u64).prop_map(Duration::from_nanos), any::<u64>().prop_map(Duration::from_nanos)]
}

fn attr() -> impl Strategy<Value = SchedAttr> {
    let fair = (
        prop_oneof![Just(FairPolicy::Other), Just(FairPolicy::Batch), Just(FairPolicy::Idle), Just(FairPolicy::Ext)],
        -20..=19_i64,
        proptest::option::of((0..u64::MAX).prop_map(Duration::from_nanos)),
    );
    prop_oneof![
        fair.prop_map(|(policy, nice, slice)| SchedAttr::Fair { policy, nice: Nice::new(nice).unwrap(), slice }),
        (prop_oneof![Just(RtPolicy::Fifo), Just(RtPolicy::Rr)], 1..=99_i64)
            .prop_map(|(policy, value)| SchedAttr::Rt { policy, priority: RtPriority::new(value).unwrap() }),
        ([duration(), duration(), duration()], 0..8_u64).prop_map(|([runtime, deadline, period], flags)| {
            let flags = DlFlags::from_bits(flags);
            SchedAttr::Deadline(DlParams::new(runtime, deadline, period).with_flags(flags))
        }),
        (
            prop_oneof![
                Just(FairPolicy::Other),
                Just(FairPolicy::Batch),
                Just(FairPolicy::Idle),
                Just(FairPolicy::Ext)
            ],
            -20..=19_i64,
            proptest::option::of((0..u64::MAX).prop_map(Duration::from_nanos)),
        )
            .prop_map(|(policy, nice, slice)| SchedAttr::Ext { policy, nice: Nice::new(nice).unwrap(), slice }),
    ]
}

fn mark() -> impl Strategy<Value = Mark> {
    prop_oneof![
        (any::<u32>(), any::<u64>()).prop_map(|(phase, turn)| Mark::Phase { phase, turn }),
        (any::<u64>(), any::<i64>()).prop_map(|(due, slack)| Mark::TimerDue {
            due: Instant::from_nanos(due),
            slack: SignedDuration::from_nanos(slack)
        }),
        (any::<u32>(), duration()).prop_map(|(label, exec)| Mark::Stamp { label, exec }),
        any::<u64>().prop_map(|turn| Mark::TurnEnd { turn }),
    ]
}

fn one_of<T: Copy + core::fmt::Debug + 'static>(values: &'static [T]) -> impl Strategy<Value = T> {
    proptest::sample::select(values)
}

static PREV: [PrevState; 4] = [PrevState::Runnable, PrevState::Blocked, PrevState::Dead, PrevState::Idle];

#[expect(clippy::too_many_lines, reason = "one strategy per event")]
fn event() -> impl Strategy<Value = TraceEvent> {
    let tasks =
        prop_oneof![
            (task(), any::<String>(), proptest::option::of(task()), attr(), any::<u32>()).prop_map(
                |(task, name, parent, attr, group)| TraceEvent::TaskNew {
                    task,
                    name: name.into(),
                    parent,
                    attr,
                    group: GroupId(group)
                }
            ),
            task().prop_map(|task| TraceEvent::TaskExit { task }),
            (task(), prio(), cpu(), any::<bool>()).prop_map(|(task, prio, target, new)| TraceEvent::Waking {
                task,
                prio,
                target,
                new
            }),
            (task(), prio()).prop_map(|(task, prio)| TraceEvent::Wakeup { task, prio }),
            (proptest::option::of(task()), one_of(&PREV), proptest::option::of(task()), prio()).prop_map(
                |(prev, prev_state, next, next_prio)| TraceEvent::Switch { prev, prev_state, next, next_prio }
            ),
            (task(), prio(), cpu(), cpu(), one_of(&MigrateReason::ALL))
                .prop_map(|(task, prio, from, to, reason)| TraceEvent::Migrate { task, prio, from, to, reason }),
            (task(), attr()).prop_map(|(task, attr)| TraceEvent::AttrChange { task, attr }),
            (task(), prio(), prio()).prop_map(|(task, from, to)| TraceEvent::PrioInherit { task, from, to }),
            (task(), proptest::collection::vec(cpu(), 0..40)).prop_map(|(task, cpus)| TraceEvent::Affinity {
                task,
                cpus: Arc::new(cpus.into_iter().collect::<CpuMask>())
            }),
            (task(), any::<u32>(), proptest::option::of(task()))
                .prop_map(|(task, lock, holder)| TraceEvent::WaitLock { task, lock, holder }),
            (task(), any::<u32>()).prop_map(|(task, lock)| TraceEvent::TakeLock { task, lock }),
            (task(), any::<u32>()).prop_map(|(task, lock)| TraceEvent::DropLock { task, lock }),
            (task(), any::<bool>()).prop_map(|(task, throttled)| TraceEvent::TaskThrottle { task, throttled }),
            (task(), any::<bool>()).prop_map(|(task, boosted)| TraceEvent::Boost { task, boosted }),
            (task(), proptest::option::of(task()), prio()).prop_map(|(task, donor, prio)| TraceEvent::Proxy {
                task,
                donor,
                prio
            }),
            (task(), any::<bool>()).prop_map(|(task, enters)| TraceEvent::Syscall { task, enters }),
            (task(), proptest::option::of(one_of(&Disables::ALL)))
                .prop_map(|(task, disables)| TraceEvent::NoPreempt { task, disables }),
            (task(), one_of(&RcuStep::ALL)).prop_map(|(task, step)| TraceEvent::Rcu { task, step }),
            (task(), mark()).prop_map(|(task, mark)| TraceEvent::Mark { task, mark }),
            (task(), duration(), any::<[u64; 3]>()).prop_map(|(task, exec, [switches_in, migrations, wakeups])| {
                TraceEvent::TaskTotals { task, counters: TaskCounters { exec, switches_in, migrations, wakeups } }
            }),
        ];
    let cpus = prop_oneof![
        any::<bool>().prop_map(|overloaded| TraceEvent::RtOverload { overloaded }),
        any::<bool>().prop_map(|throttled| TraceEvent::RtThrottle { throttled }),
        (0..65_536_u32).prop_map(|domain| TraceEvent::RootDomain { domain }),
        any::<bool>().prop_map(|online| TraceEvent::Hotplug { online }),
        (one_of(&ServerKind::ALL), server_state()).prop_map(|(kind, state)| TraceEvent::Server { kind, state }),
        (one_of(&ServerKind::ALL), duration(), duration(), any::<bool>()).prop_map(
            |(kind, runtime, period, deferred)| {
                let activation = if deferred { Activation::Deferred } else { Activation::Immediate };
                TraceEvent::ServerParams { kind, params: ServerParams { runtime, period, activation } }
            }
        ),
        (task(), any::<u64>(), any::<i64>()).prop_map(|(task, until, left)| TraceEvent::DlThrottle {
            task,
            until: Instant::from_nanos(until),
            left: SignedDuration::from_nanos(left)
        }),
        (task(), any::<u64>(), any::<i64>()).prop_map(|(task, deadline, budget)| TraceEvent::DlReplenish {
            task,
            deadline: Instant::from_nanos(deadline),
            budget: SignedDuration::from_nanos(budget)
        }),
        task().prop_map(|task| TraceEvent::DlOverrun { task }),
        cpu().prop_map(|by| TraceEvent::NeedResched { by }),
        (cpu(), one_of(&IpiReason::ALL)).prop_map(|(to, reason)| TraceEvent::IpiSend { to, reason }),
        one_of(&Irq::ALL).prop_map(|irq| TraceEvent::IrqEnter { irq }),
        one_of(&Irq::ALL).prop_map(|irq| TraceEvent::IrqExit { irq }),
        cpu().prop_map(|rq| TraceEvent::LockContended { rq }),
        (cpu(), duration()).prop_map(|(rq, waited)| TraceEvent::LockAcquired { rq, waited }),
        proptest::collection::vec(duration(), CpuLayer::ALL.len()).prop_map(|layers| {
            let mut times = LayerTimes::default();
            for (layer, time) in CpuLayer::ALL.into_iter().zip(layers) {
                times.charge(layer, time);
            }
            TraceEvent::CpuTotals { times }
        }),
    ];
    let group = || any::<u32>().prop_map(GroupId);
    let groups = prop_oneof![
        (group(), group(), any::<String>()).prop_map(|(group, parent, path)| TraceEvent::GroupNew {
            group,
            parent,
            path: path.into()
        }),
        (task(), group()).prop_map(|(task, group)| TraceEvent::GroupChange { task, group }),
        group().prop_map(|group| TraceEvent::GroupGone { group }),
        (group(), proptest::option::of(0..u64::MAX), duration(), duration(), proptest::option::of(duration()))
            .prop_map(|(group, quota, period, burst, slice)| {
                let quota = quota.map(Duration::from_nanos);
                TraceEvent::GroupMax { group, max: CpuMax { quota, period, burst, slice } }
            }),
        (group(), duration(), any::<bool>()).prop_map(|(group, runtime, throttled)| TraceEvent::BandwidthRefresh {
            group,
            runtime,
            throttled
        }),
        (group(), any::<u32>()).prop_map(|(group, weight)| TraceEvent::GroupWeight { group, weight }),
        group().prop_map(|group| TraceEvent::Throttle { group }),
        group().prop_map(|group| TraceEvent::Unthrottle { group }),
        (group(), any::<[u64; 3]>(), duration(), duration()).prop_map(
            |(group, [nr_periods, nr_throttled, nr_bursts], throttled, burst)| TraceEvent::GroupTotals {
                group,
                stat: CpuStat { nr_periods, nr_throttled, throttled, nr_bursts, burst }
            }
        ),
    ];
    let step = prop_oneof![
        any::<u64>().prop_map(|due| RequestStep::Arrive { due: Instant::from_nanos(due) }),
        task().prop_map(|task| RequestStep::Start { task }),
        task().prop_map(|task| RequestStep::End { task }),
        Just(RequestStep::Drop),
    ];
    let requests = prop_oneof![
        (any::<u32>(), any::<String>()).prop_map(|(queue, name)| TraceEvent::QueueNew { queue, name: name.into() }),
        (any::<u32>(), any::<u64>(), step).prop_map(|(queue, request, step)| TraceEvent::Request {
            queue,
            request,
            step
        }),
    ];
    prop_oneof![3 => tasks, 2 => cpus, 1 => groups, 1 => requests]
}

fn server_state() -> impl Strategy<Value = ServerState> {
    (0..4_u8, any::<u64>()).prop_map(|(number, at)| {
        let at = Instant::from_nanos(at);
        match number {
            0 => ServerState::Stopped,
            1 => ServerState::Deferred { until: at },
            2 => ServerState::Queued { deadline: at },
            _ => ServerState::Throttled { until: at },
        }
    })
}

fn record() -> impl Strategy<Value = Record> {
    let at = prop_oneof![4 => 0..1_000_000_u64, 1 => any::<u64>()];
    (at, cpu(), event()).prop_map(|(at, cpu, event)| Record { at: Instant::from_nanos(at), cpu, event })
}

fn meta() -> impl Strategy<Value = Meta> {
    let machine = prop_oneof![
        any::<u32>().prop_map(Machine::Cpus),
        (1..3_u32, 1..4_u32, 1..5_u32, 1..3_u32)
            .prop_map(|(s, l, c, t)| Machine::Known(Topology::new(s, l, c, t).unwrap())),
        proptest::collection::vec(1..=1024_u16, 3)
            .prop_map(|capacities| Machine::Known(Topology::flat(3).unwrap().with_capacities(capacities).unwrap())),
    ];
    let texts = [any::<String>(), any::<String>(), any::<String>()];
    let settings = proptest::collection::vec((any::<String>(), any::<String>()), 0..4);
    (one_of(&Source::ALL), machine, any::<Option<u64>>(), texts, settings, any::<[u64; 3]>()).prop_map(
        |(source, machine, seed, [producer, kernel, costs], settings, [start, end, lost_events])| Meta {
            producer,
            seed,
            kernel,
            costs,
            settings,
            start: Instant::from_nanos(start),
            end: Instant::from_nanos(end),
            lost_events,
            ..Meta::new(source, machine)
        },
    )
}

/// The size of the end block of `sample(0)`: kind, length, three zeros, checksum.
const END_BLOCK: usize = 9;

fn bytes_of(trace: &Trace) -> Vec<u8> {
    let mut bytes = Vec::new();
    trace.write(&mut bytes).unwrap();
    bytes
}

fn sample(records: u64) -> Trace {
    let mut meta = Meta::new(Source::Simulation, Machine::Cpus(2));
    meta.end = Instant::from_nanos(records * 1000);
    let records = (0..records).map(|n| Record {
        at: Instant::from_nanos(n * 1000),
        cpu: CpuId((n % 2) as u32),
        event: TraceEvent::Switch {
            prev: Some(TaskId((n % 7) as u32)),
            prev_state: PrevState::Runnable,
            next: None,
            next_prio: Prio::IDLE,
        },
    });
    Trace { meta, records: records.collect() }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn every_trace_reads_back_as_it_was(meta in meta(), records in proptest::collection::vec(record(), 0..60)) {
        let trace = Trace { meta, records };
        prop_assert_eq!(Trace::from_bytes(&bytes_of(&trace)).unwrap(), trace);
    }

    #[test]
    fn a_changed_byte_is_always_noticed(
        records in proptest::collection::vec(record(), 1..20), place in any::<prop::sample::Index>(), flip in 1..=255_u8,
    ) {
        let trace = Trace { meta: Meta::new(Source::Linux, Machine::Cpus(4)), records };
        let mut bytes = bytes_of(&trace);
        let at = place.index(bytes.len());
        bytes[at] ^= flip;
        prop_assert!(Trace::from_bytes(&bytes).is_err());
    }

    #[test]
    fn a_file_cut_anywhere_is_an_error(
        records in proptest::collection::vec(record(), 0..20), place in any::<prop::sample::Index>(),
    ) {
        let trace = Trace { meta: Meta::new(Source::Linux, Machine::Cpus(4)), records };
        let bytes = bytes_of(&trace);
        let result = TraceReader::new(&bytes[..place.index(bytes.len())]).and_then(|reader| reader.read_all());
        let truncated = matches!(result, Err(ReadError::Truncated { .. }));
        prop_assert!(truncated, "{result:?}");
    }

    #[test]
    fn arbitrary_bytes_behind_a_valid_checksum_never_panic(payload in proptest::collection::vec(any::<u8>(), 0..200)) {
        let mut bytes = bytes_of(&sample(0));
        // Replace the end block by a block of records with a valid checksum.
        bytes.truncate(bytes.len() - END_BLOCK);
        let mut block = vec![BlockKind::Records.number()];
        wire::put_varint(&mut block, payload.len() as u64);
        block.extend_from_slice(&payload);
        let crc = wire::Crc::new().update(&block).value();
        bytes.extend_from_slice(&block);
        bytes.extend_from_slice(&crc.to_le_bytes());
        prop_assert!(TraceReader::new(&bytes[..]).and_then(|reader| reader.read_all()).is_err());
    }
}

#[test]
fn errors_say_where_and_why() {
    let bytes = bytes_of(&sample(3));
    let cut = Trace::from_bytes(&bytes[..bytes.len() - 1]).unwrap_err().to_string();
    assert_eq!(cut, format!("trace is cut off at byte {}: it has no end mark", bytes.len() - 1));

    let mut later = bytes.clone();
    later[MAGIC.len()] = 9;
    assert_eq!(
        Trace::from_bytes(&later).unwrap_err().to_string(),
        "trace has format version 9; this program reads up to 1"
    );

    let mut longer = bytes;
    longer.push(0);
    assert!(Trace::from_bytes(&longer).unwrap_err().to_string().contains("bytes after the end mark"));
}

#[test]
fn a_lying_length_costs_no_memory() {
    let mut bytes = bytes_of(&sample(0));
    bytes.truncate(MAGIC.len() + 2);
    bytes.push(BlockKind::Meta.number());
    wire::put_varint(&mut bytes, BLOCK_MAX as u64);
    assert!(matches!(Trace::from_bytes(&bytes), Err(ReadError::Truncated { .. })));
    bytes.truncate(MAGIC.len() + 3);
    wire::put_varint(&mut bytes, u64::from(u32::MAX));
    assert!(matches!(Trace::from_bytes(&bytes), Err(ReadError::Corrupt { .. })));
}

#[test]
fn messages_and_their_peers_are_kept_and_a_lying_socket_costs_no_memory() {
    let mut trace = sample(3);
    let message = |at: u64, socket: u32, is_sent: bool| Message {
        at: Instant::from_nanos(at),
        task: TaskId(socket),
        socket,
        bytes: 10,
        is_sent,
    };
    trace.meta.recorded.messages = vec![message(5, 1, true), message(900, 0, false)];
    trace.meta.recorded.peers = vec![Some(1), Some(0)];
    assert!(Trace::from_bytes(&bytes_of(&trace)).unwrap() == trace);
    trace.meta.recorded.messages[1].socket = u32::MAX;
    assert!(matches!(Trace::from_bytes(&bytes_of(&trace)), Err(ReadError::Corrupt { .. })));
}

#[test]
fn a_switch_is_small_and_blocks_follow_each_other() {
    let trace = sample(100_000);
    let bytes = bytes_of(&trace);
    assert!(bytes.len() < 10 * trace.records.len(), "{} bytes per 100 k switches", bytes.len());
    assert!(Trace::from_bytes(&bytes).unwrap() == trace);
}

#[test]
fn a_cpu_that_does_not_exist_is_refused_when_written() {
    let mut trace = sample(1);
    trace.records[0].cpu = CpuId(4096);
    assert!(trace.write(Vec::new()).is_err());
}

/// A file that version 0.1 wrote, with group weights (kind 63) and a limit.
const VERSION_1: &[u8] = include_bytes!("../../tests/data/version-1.zlt");

#[test]
fn a_file_of_version_1_reads_and_is_written_again_byte_by_byte() {
    let trace = Trace::from_bytes(VERSION_1).unwrap();
    let weight = |record: &&Record| matches!(record.event, TraceEvent::GroupWeight { .. });
    assert_eq!(trace.records.iter().filter(weight).count(), 1);
    assert!(trace.records.iter().any(|record| matches!(record.event, TraceEvent::Throttle { .. })));
    assert_eq!(bytes_of(&trace), VERSION_1);
}

/// Five records of every kind, and their fields as text, written when the codec was two
/// functions written by hand.
const EVERY_KIND: (&[u8], &str) =
    (include_bytes!("../../tests/data/every-kind.zlt"), include_str!("../../tests/data/every-kind.txt"));

#[test]
fn every_kind_reads_as_recorded_and_is_written_again_byte_by_byte() {
    let trace = Trace::from_bytes(EVERY_KIND.0).unwrap();
    let mut text = EVERY_KIND.1.lines();
    for record in &trace.records {
        assert_eq!(format!("{} {} {:?}", record.at.as_nanos(), record.cpu, record.event), text.next().unwrap());
    }
    assert_eq!(text.next(), None);
    assert_eq!(bytes_of(&trace), EVERY_KIND.0);
}

#[test]
fn an_extended_kind_is_refused_by_name() {
    let mut bytes = bytes_of(&sample(0));
    bytes.truncate(bytes.len() - END_BLOCK);
    // Same CPU and time, kind 62; the extended kind 300.
    let mut block = vec![BlockKind::Records.number(), 3, 0x80 | 0x40 | 62, 0xac, 0x02];
    let crc = wire::Crc::new().update(&block).value();
    block.extend_from_slice(&crc.to_le_bytes());
    bytes.extend_from_slice(&block);
    let error = TraceReader::new(&bytes[..]).and_then(|reader| reader.read_all()).unwrap_err().to_string();
    assert!(error.contains("an event of a later zerolag (extended kind)"), "{error}");
}

#[test]
fn the_format_and_the_parts_that_were_left_out_are_kept() {
    let mut meta = Meta::new(Source::Text, Machine::Cpus(1));
    meta.recorded.format = "perf.data".to_owned();
    let skipped = |what: &str, count| crate::Skipped { what: what.to_owned(), count, first: "line 3".to_owned() };
    meta.recorded.skipped = vec![skipped("lines that are no event", 2), skipped("x", u64::MAX)];
    let mut bytes = Vec::new();
    Trace { meta: meta.clone(), records: Vec::new() }.write(&mut bytes).expect("memory takes it");
    let again = Trace::from_bytes(&bytes).expect("a trace").meta;
    assert_eq!((&again.recorded, again.origin()), (&meta.recorded, "perf.data"));
}

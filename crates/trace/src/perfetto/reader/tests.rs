//! Tests of the reader: files written for the viewer, and packets made by hand.

use super::*;
use crate::script::Script;
use zerolag_model::{Record, TraceEvent};

fn recorded() -> Trace {
    Trace::from_bytes(include_bytes!("../../../tests/data/mixed-2cpu.perf.txt.gz")).expect("a recorded trace")
}

fn written(trace: &Trace) -> Vec<u8> {
    let mut bytes = Vec::new();
    super::super::write(&mut bytes, trace).expect("memory takes it");
    bytes
}

/// Returns the switches of a trace, by names.
fn switches(trace: &Trace) -> Vec<(u64, u32, String, String, PrevState)> {
    let mut names = BTreeMap::new();
    for record in &trace.records {
        if let TraceEvent::TaskNew { task, name, .. } = &record.event {
            names.insert(*task, name.to_string());
        }
    }
    let of = |task: Option<_>| task.map_or_else(|| "idle".to_owned(), |task| names[&task].clone());
    let switch = |record: &Record| match record.event {
        TraceEvent::Switch { prev, prev_state, next, .. } => {
            Some((record.at.as_nanos(), record.cpu.0, of(prev), of(next), prev_state))
        }
        _ => None,
    };
    trace.records.iter().filter_map(switch).collect()
}

#[test]
fn a_trace_written_for_the_viewer_is_read_again() {
    let trace = recorded();
    let bytes = written(&trace);
    assert!(is(&bytes));
    let again = Trace::from_bytes(&bytes).expect("a Perfetto trace");
    let (found, expected) = (switches(&again), switches(&trace));
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(found, expected);
    }
    let wakings =
        |trace: &Trace| trace.records.iter().filter(|record| matches!(record.event, TraceEvent::Waking { .. })).count();
    assert_eq!(wakings(&again), wakings(&trace));
    assert_eq!(again.meta.recorded.gaps.len(), trace.meta.recorded.gaps.len());
}

/// A task that runs is moved, and all of it at one nanosecond.
#[test]
fn what_happens_at_one_time_stays_in_its_order() {
    let mut script = Script::new(2);
    let (a, b) = (script.fair("a"), script.fair("b"));
    script.wake(0, 0, a).run(0, 0, None, Some(a)).wake(0, 1, b).run(0, 1, None, Some(b));
    for us in [10, 20, 30] {
        let (from, to) = if us == 20 { (1, 0) } else { (0, 1) };
        // The CPUs exchange their tasks.
        let (going, coming) = (a, b);
        script.switch(us, from, Some(going), PrevState::Runnable, None);
        script.migrate(us, going, from, to, zerolag_model::MigrateReason::Affinity);
        script.switch(us, to, Some(coming), PrevState::Runnable, Some(going));
        script.migrate(us, coming, to, from, zerolag_model::MigrateReason::Affinity);
        script.run(us, from, None, Some(coming));
        script.switch(us, to, Some(going), PrevState::Blocked, None).wake(us, to, going).run(us, to, None, Some(going));
        if us == 10 {
            script.switch(us, 0, Some(b), PrevState::Runnable, Some(b));
        }
    }
    let trace = script.end(50);
    let again = Trace::from_bytes(&written(&trace)).expect("a Perfetto trace");
    assert_eq!(switches(&again), switches(&trace));
    assert_eq!(again.meta.recorded.gaps, []);
    assert_eq!((again.meta.start, again.meta.end), (trace.meta.start, trace.meta.end));
    let order = |trace: &Trace| {
        let kinds = trace.records.iter().map(|record| match record.event {
            TraceEvent::Switch { .. } => 's',
            TraceEvent::Waking { .. } => 'w',
            TraceEvent::Wakeup { .. } => 'W',
            TraceEvent::Migrate { .. } => 'm',
            _ => '-',
        });
        kinds.filter(|kind| *kind != '-').collect::<String>()
    };
    assert_eq!(order(&again), order(&trace));
}

#[test]
fn a_run_in_which_nothing_happens_has_its_length() {
    let trace = Script::new(2).end(200);
    let again = Trace::from_bytes(&written(&trace)).expect("a Perfetto trace");
    assert_eq!((again.records.len(), again.meta.end, again.meta.machine.nr_cpus()), (0, trace.meta.end, 2));
}

/// A priority that changed while the task ran is that of the switch from it.
#[test]
fn a_priority_that_changes_in_a_run_is_read_once() {
    let mut script = Script::new(1);
    let a = script.fair("a");
    let (from, to) = (Prio::from_raw(120), Prio::from_raw(50));
    script.wake(0, 0, a).run(0, 0, None, Some(a)).run(1, 0, Some(a), None).wake(2, 0, a).run(3, 0, None, Some(a));
    script.event(4, 0, TraceEvent::PrioInherit { task: a, from, to }).run(5, 0, Some(a), None);
    let again = Trace::from_bytes(&written(&script.end(9))).expect("a Perfetto trace");
    let is_change = |record: &&Record| matches!(record.event, TraceEvent::AttrChange { .. });
    assert_eq!(again.records.iter().filter(is_change).count(), 0);
}

/// Returns a file of packets.
fn file(packets: &[Packet]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for packet in packets {
        bytes.push(PACKET);
        packet.encode_length_delimited(&mut bytes).expect("memory takes it");
    }
    bytes
}

fn bundle(cpu: u32, lost: Option<bool>, events: Vec<(u64, u32, FtracePayload)>) -> Packet {
    let event = |(timestamp, pid, what)| FtraceEvent {
        timestamp: Some(timestamp),
        pid: Some(pid),
        common_flags: Some(0),
        what: Some(what),
    };
    let bundle = Bundle {
        cpu: Some(cpu),
        event: events.into_iter().map(event).collect(),
        lost_events: lost,
        compact_sched: None,
    };
    Packet { ftrace_events: Some(bundle), ..Packet::default() }
}

fn switch(prev: i32, prev_state: i64, next: i32) -> FtracePayload {
    let comm = |pid: i32| Some(if pid == 0 { "swapper".to_owned() } else { format!("t{pid}") });
    let prio = |pid| Some(if pid == 0 { 120 } else { 100 });
    FtracePayload::Switch(Switch {
        prev_comm: comm(prev),
        prev_pid: Some(prev),
        prev_prio: prio(prev),
        prev_state: Some(prev_state),
        next_comm: comm(next),
        next_pid: Some(next),
        next_prio: prio(next),
    })
}

#[test]
fn plain_events_new_threads_and_lost_events_are_read() {
    let new =
        FtracePayload::NewTask(NewTask { pid: Some(8), comm: Some("child".to_owned()), clone_flags: Some(0x10000) });
    let tree = ProcessTree {
        processes: Vec::new(),
        threads: vec![super::super::schema::Thread { tid: 7, name: "main".to_owned(), tgid: 7 }],
    };
    let packets = [
        Packet { process_tree: Some(tree), ..Packet::default() },
        bundle(0, None, vec![(100, 0, switch(0, 0, 7)), (200, 7, new), (300, 7, switch(7, 1, 0))]),
        bundle(0, Some(true), vec![(900, 8, switch(8, 0x100, 0))]),
    ];
    let trace = read(&file(&packets)).expect("a trace");
    let threads = &trace.meta.recorded.threads;
    assert_eq!((threads[0].tid, threads[0].pid), (7, Some(7)));
    assert_eq!((threads[1].tid, threads[1].pid, threads[1].process.as_deref()), (8, Some(7), Some("t7")));
    assert_eq!(trace.meta.recorded.gaps.len(), 1);
    let gap = trace.meta.recorded.gaps[0];
    assert_eq!((gap.from.as_nanos(), gap.until.as_nanos()), (300, 900));
    // The same, packed.
    let mut packed = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut packed, &file(&packets)).expect("memory takes it");
    let bytes = packed.finish().expect("memory takes it");
    let again = read(&file(&[Packet { compressed_packets: Some(bytes), ..Packet::default() }]));
    assert_eq!(again.expect("a trace"), trace);
}

/// A phone: `RenderThread` of a process named by its package, a waking by an interrupt.
fn compact() -> CompactSched {
    CompactSched {
        switch_timestamp: vec![1000, 500, 700, 300],
        switch_prev_state: vec![0, 0, 1, 1],
        switch_next_pid: vec![1201, 1300, 1201, 0],
        switch_next_prio: vec![110, 97, 110, 120],
        intern_table: vec!["ndroid.settings".to_owned(), "RenderThread".to_owned(), "swapper".to_owned()],
        switch_next_comm_index: vec![0, 1, 0, 2],
        waking_timestamp: vec![1400],
        waking_pid: vec![1300],
        waking_target_cpu: vec![0],
        waking_prio: vec![97],
        waking_comm_index: vec![1],
        waking_common_flags: vec![0x8],
    }
}

fn of_compact(sched: CompactSched) -> Packet {
    let Packet { ftrace_events, .. } = bundle(0, None, Vec::new());
    let bundle = ftrace_events.map(|bundle| Bundle { compact_sched: Some(sched), ..bundle });
    Packet { ftrace_events: bundle, ..Packet::default() }
}

#[test]
fn compact_switches_of_a_phone_name_their_threads_and_processes() {
    // Written by Perfetto's own schema, the same arrays as above.
    let trace = Trace::from_bytes(include_bytes!("../../../tests/data/compact-phone.pftrace")).expect("a trace");
    let ours = read(&file(&[of_compact(compact())])).expect("a trace");
    assert_eq!(switches(&ours), switches(&trace));
    // The first switch only tells which thread runs from then on.
    assert_eq!(
        switches(&trace),
        [
            (1500, 0, "ndroid.settings".to_owned(), "RenderThread".to_owned(), PrevState::Runnable),
            (2200, 0, "RenderThread".to_owned(), "ndroid.settings".to_owned(), PrevState::Blocked),
            (2500, 0, "ndroid.settings".to_owned(), "idle".to_owned(), PrevState::Blocked),
        ]
    );
    let render = trace.meta.recorded.threads.iter().find(|thread| thread.tid == 1300).expect("it is known");
    assert_eq!((render.pid, render.process.as_deref()), (Some(1201), Some("ndroid.settings")));
    assert!(trace.meta.recorded.gaps.is_empty(), "{:?}", trace.meta.recorded.gaps);
}

#[test]
fn arrays_of_different_lengths_and_impossible_values_are_survived() {
    type Change = fn(&mut CompactSched);
    let changes: [Change; 8] = [
        |sched| sched.switch_next_pid.truncate(3),
        |sched| sched.switch_timestamp = vec![u64::MAX, u64::MAX, 1, 1],
        |sched| sched.switch_next_comm_index = vec![99; 4],
        |sched| sched.switch_next_prio = vec![i32::MIN, i32::MAX, -2, 141],
        |sched| sched.switch_next_pid = vec![-1, i32::MIN, i32::MAX, 0],
        |sched| sched.waking_target_cpu = vec![i32::MAX],
        |sched| sched.waking_common_flags.clear(),
        |sched| sched.intern_table = vec!["\u{1b}]0;x\u{7}".to_owned(); 3],
    ];
    for change in changes {
        let mut sched = compact();
        change(&mut sched);
        if let Ok(trace) = read(&file(&[of_compact(sched)])) {
            let named = |record: &Record| match &record.event {
                TraceEvent::TaskNew { name, .. } => name.chars().any(char::is_control),
                _ => false,
            };
            assert!(!trace.records.iter().any(named), "a control character in a name");
        }
    }
}

#[test]
fn a_file_that_ends_anywhere_or_is_damaged_is_survived() {
    let bytes = written(&recorded());
    let whole = read(&bytes).expect("a trace").records.len();
    for cut in (0..bytes.len()).filter(|cut| *cut < 500 || cut % 53 == 0) {
        match read(&bytes[..cut]) {
            Err(_) => {}
            Ok(trace) => {
                let is_boundary = {
                    let mut at = 0;
                    while at < cut
                        && let Begin::Packet(_, end) = packets::begin(&bytes[at..])
                    {
                        at += end;
                    }
                    at == cut
                };
                assert!(
                    is_boundary || trace.meta.recorded.dropped.is_some() || trace.records.len() == whole,
                    "{cut}: a shorter trace looks complete"
                );
            }
        }
    }
    let mut damaged = bytes.clone();
    for at in (0..bytes.len()).filter(|at| *at < 500 || at % 41 == 0) {
        for byte in [0, 0x7f, 0xff] {
            damaged[at] = byte;
            let _ = Trace::from_bytes(&damaged);
        }
        damaged[at] = bytes[at];
    }
}

/// Linux 4.9 tells that it is, or the number does: only kernels before 4.14 have it.
#[test]
fn a_preempted_task_of_an_old_kernel_is_runnable() {
    let phone = Trace::from_bytes(include_bytes!("../../../tests/data/old-phone.pftrace")).expect("a trace");
    let states = |trace: &Trace| switches(trace).into_iter().map(|switch| switch.4).collect::<Vec<_>>();
    let preempted = [PrevState::Idle, PrevState::Runnable, PrevState::Blocked, PrevState::Blocked];
    assert_eq!((phone.meta.kernel.as_str(), states(&phone)), ("4.9.223", preempted.to_vec()));
    let unnamed = file(&[bundle(0, None, vec![(1, 1, switch(1, 4096, 2)), (2, 2, switch(2, 64, 1))])]);
    let unnamed = Trace::from_bytes(&unnamed).expect("a trace");
    assert_eq!(states(&unnamed), [PrevState::Runnable, PrevState::Dead]);
}

use super::*;
use crate::ftrace;
use zerolag_model::event::{Irq, PrevState};
use zerolag_model::{Record, TraceEvent};

/// A recording, and what `trace-cmd report -t -R` prints of it.
macro_rules! recording {
    ($dat:literal, $text:literal) => {{
        let data: &[u8] = include_bytes!(concat!("../../tests/data/", $dat));
        let text: &[u8] = include_bytes!(concat!("../../tests/data/", $text));
        let unpack = |bytes| Trace::unpack(bytes).expect("an archive").into_owned();
        (unpack(data), String::from_utf8(unpack(text)).expect("text"))
    }};
}

/// Version 6, version 7 packed by zstd, not packed, and one with lost events.
fn recordings() -> [(Vec<u8>, String); 4] {
    [
        recording!("hackbench-v6.trace.dat.gz", "hackbench.trace-cmd.txt.gz"),
        recording!("hackbench-v7.trace.dat.gz", "hackbench.trace-cmd.txt.gz"),
        recording!("hackbench-v7-none.trace.dat.gz", "hackbench.trace-cmd.txt.gz"),
        recording!("lost-v7.trace.dat.gz", "lost.trace-cmd.txt.gz"),
    ]
}

/// The text does not say that a CPU is in an interrupt: interrupts around wakings are left out.
fn without_interrupts(trace: &Trace) -> Vec<&Record> {
    let is_interrupt = |event: &TraceEvent| {
        let (TraceEvent::IrqEnter { irq } | TraceEvent::IrqExit { irq }) = event else { return false };
        matches!(irq, Irq::Device | Irq::Softirq)
    };
    trace.records.iter().filter(|record| !is_interrupt(&record.event)).collect()
}

#[test]
fn a_recording_says_what_trace_cmd_prints_of_it() {
    for (data, text) in recordings() {
        let (trace, printed) = (read(&data).expect("a recording"), ftrace::read(&text).expect("its text"));
        assert!(trace.records.len() > 800, "{}", trace.records.len());
        assert_eq!(trace.meta.machine, printed.meta.machine);
        let (ours, theirs) = (without_interrupts(&trace), without_interrupts(&printed));
        for (ours, theirs) in ours.iter().zip(&theirs) {
            assert_eq!(ours, theirs);
        }
        assert_eq!(ours.len(), theirs.len());
        let threads = |trace: &Trace| {
            trace.meta.recorded.threads.iter().map(|thread| (thread.tid, thread.charged)).collect::<Vec<_>>()
        };
        assert_eq!(threads(&trace), threads(&printed));
        assert_eq!(trace.meta.recorded.gaps, printed.meta.recorded.gaps);
        assert!(trace.meta.kernel.starts_with("6.1.0-"), "{}", trace.meta.kernel);
        let wakings_of_interrupts = trace.records.len() - ours.len();
        assert!(wakings_of_interrupts > 0, "interrupts are told by the flags of events");
    }
}

#[test]
fn lost_events_are_gaps_of_their_cpu() {
    let [.., (data, _)] = recordings();
    let trace = read(&data).expect("a recording");
    let counted: Vec<_> = trace.meta.recorded.gaps.iter().filter(|gap| gap.events > 0).collect();
    assert!(!counted.is_empty() && trace.meta.recorded.gaps.len() > counted.len(), "{:?}", trace.meta.recorded.gaps);
    // The statistics of the buffers count all.
    let placed: u64 = counted.iter().map(|gap| gap.events).sum();
    assert!(trace.meta.lost_events > placed, "{} of {}", placed, trace.meta.lost_events);
}

#[test]
fn a_file_that_ends_anywhere_is_an_error_with_its_place() {
    for (data, _) in recordings() {
        let whole = read(&data).expect("a recording");
        // Every byte of the head and of the end; the rest by steps, to save time.
        let near = |at: usize| at < 600 || at + 600 > data.len();
        for cut in (0..data.len()).filter(|cut| near(*cut) || cut % 997 == 0) {
            match read(&data[..cut]) {
                Err(error) => assert!(error.to_string().contains(" at byte "), "{cut}: {error}"),
                // At the end are names of sections, which nothing needs.
                Ok(trace) => assert!(trace == whole, "{cut} of {} bytes: a shorter file looks complete", data.len()),
            }
        }
    }
}

#[test]
fn a_changed_byte_is_no_panic() {
    for (data, _) in recordings() {
        let mut state = 1_u64;
        for _ in 0..150 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let mut bytes = data.clone();
            // Half of them in the head, where the sizes are.
            let range = if state & 1 == 0 { 700.min(bytes.len()) } else { bytes.len() };
            let at = (state >> 33) as usize % range;
            bytes[at] = (state >> 20) as u8;
            drop(read(&bytes));
        }
    }
}

#[test]
fn other_versions_packings_clocks_and_orders_are_refused_by_name() {
    let [(six, _), (seven, _), ..] = recordings();
    let refused = |bytes: &[u8]| read(bytes).expect_err("refused").to_string();
    let changed = |bytes: &[u8], from: &[u8], to: &[u8]| {
        let at = bytes.windows(from.len()).position(|window| window == from).expect("it has this");
        let mut bytes = bytes.to_vec();
        bytes[at..at + to.len()].copy_from_slice(to);
        bytes
    };
    assert_eq!(
        refused(&changed(&seven, b"tracing7", b"tracing8")),
        "this trace.dat is damaged at byte 10: it has version `8`; 6 and 7 are read: `trace-cmd convert --file-version 7`"
    );
    let esc = refused(&changed(&seven, b"zstd", b"z\x1b]d"));
    assert!(esc.contains("packed by `z\\u{1b}]d`") && !esc.contains('\x1b'), "{esc}");
    assert!(refused(&changed(&six, b"uptime perf [mono]", b"[counter]   mono  ")).contains("its clock is `counter`"));
    // The other order of bytes: sizes become absurd, and nothing is allocated for them.
    let mut swapped = six;
    swapped[12] = 1;
    assert!(refused(&swapped).contains("at byte"), "{}", refused(&swapped));
    swapped[12] = 7;
    assert!(refused(&swapped).contains("neither 0"), "{}", refused(&swapped));
}

#[test]
fn lists_of_options_in_a_circle_end() {
    let mut bytes = MAGIC.to_vec();
    bytes.extend(b"7\0\0\x08\0\x10\0\0none\0\0");
    let at = bytes.len() as u64 + 8;
    bytes.extend(at.to_le_bytes());
    // A section of options with one: the last, which leads here again.
    bytes.extend([0; 8]);
    bytes.extend(14_u64.to_le_bytes());
    bytes.extend(b"\0\0\x08\0\0\0");
    bytes.extend(at.to_le_bytes());
    let error = read(&bytes).expect_err("a circle").to_string();
    assert!(error.contains("circle"), "{error}");
}

#[test]
fn clocks_of_ticks_are_scaled_or_refused() {
    let [(six, _), ..] = recordings();
    let mut file = layout::read(FileBytes::Memory(&six)).expect("a file");
    assert!(file.clock("counter").is_err_and(|error| error.to_string().contains("-C mono")));
    assert!(file.clock("x86-tsc").is_err());
    file.tsc = Some((1 << 9, 10, 7));
    file.offset = -3;
    assert_eq!(file.clock("x86-tsc").map(|clock| clock.time(1000).as_nanos()).ok(), Some(504));
    assert_eq!(file.clock("mono").map(|clock| clock.time(1000).as_nanos()).ok(), Some(997));
}

/// Six pages; the numbers are those of a decoder that was written for the purpose
/// (`tests/data/README.md`). The kernel marks a preempted task by 4096.
#[test]
fn archives_of_schedviz_are_read() {
    let archive = include_bytes!("../../tests/data/schedviz.tar.gz");
    let trace = Trace::from_bytes(archive).expect("a recording");
    let switches: Vec<&Record> =
        trace.records.iter().filter(|record| matches!(record.event, TraceEvent::Switch { .. })).collect();
    assert_eq!(switches.len(), 207);
    let took = switches[206].at.since(switches[0].at);
    assert_eq!(took.as_nanos(), 87_109_522_809 - 87_088_367_522);
    let is_preempted = |record: &Record| {
        matches!(record.event, TraceEvent::Switch { prev: Some(_), prev_state: PrevState::Runnable, .. })
    };
    assert_eq!(switches.into_iter().filter(|record| is_preempted(record)).count(), 30);
    assert_eq!(trace.meta.recorded.format, "SchedViz archive");
    let tar = Trace::unpack(archive).expect("an archive").into_owned();
    for end in (512..tar.len()).step_by(997) {
        // Cut off anywhere: an error or less, and no panic.
        drop(Trace::from_bytes(&tar[..end]));
    }
    let without = Trace::from_bytes(&tar[..1024]).expect_err("no buffers").to_string();
    assert!(without.contains("a SchedViz archive without buffers of ftrace"), "{without}");
}

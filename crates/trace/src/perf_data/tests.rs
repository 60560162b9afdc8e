use super::file::{HEADER_ATTR, HEADER_TRACING_DATA, PIPE_HEADER, SAMPLE};
use super::layout::Next;
use super::*;
use crate::ftrace;
use crate::kernel::raw::ByteOrder;

/// A recording, and what perf prints of it.
macro_rules! recording {
    ($name:literal) => {{
        let data: &[u8] = include_bytes!(concat!("../../tests/data/", $name, ".perf.data.gz"));
        let text: &[u8] = include_bytes!(concat!("../../tests/data/", $name, ".perf.txt.gz"));
        let unpack = |bytes| Trace::unpack(bytes).expect("an archive").into_owned();
        (unpack(data), String::from_utf8(unpack(text)).expect("text"))
    }};
}

fn recordings() -> [(Vec<u8>, String); 3] {
    [recording!("switches"), recording!("switches-z"), recording!("switches-pipe")]
}

#[test]
fn a_recording_says_what_perf_prints_of_it() {
    for (data, text) in recordings() {
        let (trace, printed) = (read(&data).expect("a recording"), ftrace::read(&text).expect("its text"));
        let tids = |trace: &Trace| trace.meta.recorded.threads.iter().map(|thread| thread.tid).collect::<Vec<_>>();
        assert_eq!(tids(&trace), tids(&printed));
        assert_eq!(trace.records.len(), printed.records.len());
        for (ours, theirs) in trace.records.iter().zip(&printed.records) {
            match (&ours.event, &theirs.event) {
                // perf.data tells new names of a thread, the text only those in events.
                (zerolag_model::TraceEvent::TaskNew { .. }, zerolag_model::TraceEvent::TaskNew { .. }) => {}
                _ => assert_eq!(ours, theirs),
            }
        }
        assert_eq!(trace.meta.recorded.gaps, printed.meta.recorded.gaps);
        assert_eq!(trace.meta.lost_events, printed.meta.lost_events);
        for (ours, theirs) in trace.meta.recorded.threads.iter().zip(&printed.meta.recorded.threads) {
            assert_eq!(ours.charged, theirs.charged);
            // perf prints -1 for threads that have ended; the file still knows some of them.
            assert!(theirs.pid.is_none() || ours.pid == theirs.pid, "{ours:?} {theirs:?}");
        }
        assert!(trace.meta.kernel.starts_with("6."), "{}", trace.meta.kernel);
    }
}

#[test]
fn a_file_that_ends_anywhere_is_an_error_or_says_what_is_missing() {
    for (data, _) in recordings() {
        let whole = read(&data).expect("a recording").records.len();
        // Every byte of the header and of the records' end; the rest by steps, to save time.
        let near = |at: usize| at < 2000 || at + 600 > data.len();
        for cut in (0..data.len()).filter(|cut| near(*cut) || cut % 61 == 0) {
            match read(&data[..cut]) {
                Err(ReadError::NoEvents { .. }) => {}
                Err(error) => assert!(error.to_string().contains(" at byte "), "{cut}: {error}"),
                // The stream of a pipe has no end mark: cut between two records, it looks whole.
                Ok(trace) => assert!(
                    trace.records.len() == whole || trace.meta.recorded.dropped.is_some() || is_boundary(&data, cut),
                    "{cut}: a shorter trace looks complete"
                ),
            }
        }
    }
}

/// Returns whether a record of a pipe's file ends here.
fn is_boundary(data: &[u8], cut: usize) -> bool {
    let order = if is_little(data) { ByteOrder::Little } else { ByteOrder::Big };
    let mut at = PIPE_HEADER as usize;
    while at < cut
        && let Next::Record(record) = layout::next(order, &data[at..], at, data.len())
    {
        at = record.end;
    }
    order.u64(data, 8) == Some(PIPE_HEADER) && at == cut
}

fn is_little(data: &[u8]) -> bool {
    data.starts_with(b"PERFILE2")
}

#[test]
fn damage_anywhere_is_survived() {
    for (data, _) in recordings() {
        let mut damaged = data.clone();
        for at in (0..data.len()).filter(|at| *at < 2000 || at % 97 == 0) {
            for byte in [0, 0x7f, 0xff] {
                damaged[at] = byte;
                let _ = read(&damaged);
            }
            damaged[at] = data[at];
        }
    }
}

#[test]
fn a_recording_without_the_needed_parts_is_refused_with_the_way_out() {
    let (data, _) = recording!("switches-pipe");
    let order = ByteOrder::Little;
    let mut at = 16;
    let mut without = data.clone();
    while let Next::Record(record) = layout::next(order, &data[at..], at, data.len()) {
        if record.kind == HEADER_ATTR {
            // No CPU, but a weight, which is as long and comes later.
            without[at + 8 + 24] &= !0x80;
        }
        at = record.end;
    }
    let error = read(&without).expect_err("no CPU").to_string();
    assert!(error.contains("perf record -a --sample-cpu"), "{error}");
}

/// A file of a pipe with two switches, as a machine of this byte order writes it.
struct Written {
    order: ByteOrder,
    out: Vec<u8>,
}

impl Written {
    fn number(&mut self, value: u64, size: usize) -> &mut Self {
        let bytes = value.to_le_bytes();
        let bytes = &bytes[..size];
        match self.order {
            ByteOrder::Little => self.out.extend(bytes),
            ByteOrder::Big => self.out.extend(bytes.iter().rev()),
        }
        self
    }

    fn text(&mut self, text: &[u8], size: usize) -> &mut Self {
        self.out.extend(text);
        self.out.extend(std::iter::repeat_n(0, size - text.len()));
        self
    }

    /// A record: its size is filled in when its body is written.
    fn record(&mut self, kind: u32, body: impl FnOnce(&mut Self)) -> &mut Self {
        let start = self.out.len();
        self.number(kind.into(), 4).number(0, 2).number(0, 2);
        body(self);
        let size = self.out.len() - start;
        let mut head = Self { order: self.order, out: Vec::new() };
        head.number(size as u64, 2);
        self.out[start + 6..start + 8].copy_from_slice(&head.out);
        self
    }

    /// A sample with the current task, the time, the CPU and the payload of a switch.
    fn switch(&mut self, at: u64, prev: (&[u8], u64), next: (&[u8], u64)) -> &mut Self {
        self.record(SAMPLE, |sample| {
            sample.number(prev.1, 4).number(prev.1, 4).number(at, 8).number(1, 4).number(0, 4);
            sample.number(72, 4).number(300, 2).number(0, 2).number(prev.1, 4);
            sample.text(prev.0, 16).number(prev.1, 4).number(120, 4).number(1, 8);
            sample.text(next.0, 16).number(next.1, 4).number(120, 4).number(0, 8);
        })
    }
}

const SWITCH_FORMAT: &str = "name: sched_switch\nID: 300\nformat:\n\
    \tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n\
    \tfield:int prev_prio;\toffset:28;\tsize:4;\tsigned:1;\n\tfield:long prev_state;\toffset:32;\tsize:8;\tsigned:1;\n\
    \tfield:char next_comm[16];\toffset:40;\tsize:16;\tsigned:0;\n\tfield:pid_t next_pid;\toffset:56;\tsize:4;\tsigned:1;\n\
    \tfield:int next_prio;\toffset:60;\tsize:4;\tsigned:1;\n";

fn written(order: ByteOrder) -> Vec<u8> {
    let mut file = Written { order, out: Vec::new() };
    file.number(u64::from_le_bytes(*b"PERFILE2"), 8).number(PIPE_HEADER, 8);
    file.record(HEADER_ATTR, |attr| {
        // Task, time, CPU, payload: bits 1, 2, 7, 10.
        attr.number(2, 4)
            .number(64, 4)
            .number(0, 8)
            .number(0, 8)
            .number(0x486, 8)
            .number(0, 8)
            .number(0, 8)
            .number(0, 8);
        attr.number(0, 8);
    });
    let mut formats = Written { order, out: Vec::new() };
    formats.text(b"\x17\x08\x44tracing0.6", 14).out.extend([u8::from(order == ByteOrder::Big), 8]);
    formats.number(4096, 4).text(b"header_page", 12).number(0, 8).text(b"header_event", 13).number(0, 8).number(0, 4);
    formats.number(1, 4).text(b"sched", 6).number(1, 4).number(SWITCH_FORMAT.len() as u64, 8);
    formats.out.extend(SWITCH_FORMAT.as_bytes());
    let size = formats.out.len() as u64;
    file.record(HEADER_TRACING_DATA, |record| {
        record.number(size, 4);
    });
    file.out.extend(&formats.out);
    file.switch(1000, (b"a", 11), (b"b", 12)).switch(2000, (b"b", 12), (b"a", 11));
    file.out
}

#[test]
fn a_machine_of_the_other_byte_order_says_the_same() {
    let (little, big) = (written(ByteOrder::Little), written(ByteOrder::Big));
    assert!(little.starts_with(b"PERFILE2") && big.starts_with(b"2ELIFREP"));
    let trace = read(&little).expect("a recording");
    assert_eq!(trace, read(&big).expect("a recording"));
    let switches =
        trace.records.iter().filter(|record| matches!(record.event, zerolag_model::TraceEvent::Switch { .. }));
    assert_eq!((switches.count(), trace.meta.machine.nr_cpus()), (2, 2));
}

#[test]
fn a_small_file_is_read_up_to_every_byte_and_with_absurd_sizes() {
    for order in [ByteOrder::Little, ByteOrder::Big] {
        let data = written(order);
        for cut in 0..data.len() {
            match read(&data[..cut]) {
                Err(ReadError::NoEvents { .. }) => {}
                Err(error) => assert!(error.to_string().contains(" at byte "), "{cut}: {error}"),
                Ok(trace) => assert!(
                    trace.meta.recorded.dropped.is_some() || is_boundary(&data, cut),
                    "{cut}: a shorter trace looks complete"
                ),
            }
        }
        // Every field of one, two, four and eight bytes, at every place, says the largest number.
        for at in 0..data.len() {
            for size in [1, 2, 4, 8] {
                let mut absurd = data.clone();
                let end = (at + size).min(data.len());
                absurd[at..end].fill(0xff);
                let _ = read(&absurd);
            }
        }
    }
}

/// The samples of a counter have no event of the scheduler, and nothing is damaged.
#[test]
fn a_cpu_profile_is_named_as_one() {
    let (mut data, _) = recording!("switches");
    let word = |data: &[u8], at: usize| u64::from_le_bytes(data[at..at + 8].try_into().expect("eight")) as usize;
    // Each attr begins with its type: 2 is a trace point, 0 a counter of the hardware, 1 one of the
    // kernel.
    let (size, first, length) = (word(&data, 16), word(&data, 24), word(&data, 32));
    for at in (first..first + length).step_by(size) {
        assert!([1, 2].contains(&data[at]), "{}", data[at]);
        data[at] = 0;
    }
    let error = read(&data).expect_err("a profile").to_string();
    assert_eq!(
        error,
        "this is perf.data of a CPU profile; it has no event of the scheduler: record with `perf sched record`"
    );
}

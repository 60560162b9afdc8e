//! A recording that is read as a stream says the same as one that is kept in memory, and its memory
//! does not grow with its length.

#![cfg(feature = "recordings")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use zerolag_trace::{Trace, open, stream_recording};

/// Returns a file with this content.
fn file(name: &str, bytes: &[u8]) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, bytes).expect("writable");
    path
}

/// Returns what the stream of a file gives, if it can be streamed.
fn streamed(path: &Path) -> Option<Trace> {
    let keep = |records: &mut Vec<_>, record: &zerolag_model::Record| records.push(record.clone());
    let (records, meta) = stream_recording(path, |_| Vec::new(), keep).expect("it can be read")?;
    Some(Trace { meta, records })
}

/// Compares the ways to read these bytes, as a stream, from a file and in memory: the same trace,
/// or the same error. Returns the trace, if it can be streamed.
fn both(name: &str, bytes: &[u8], what: &dyn core::fmt::Debug) -> Option<Result<Trace, String>> {
    let path = file(name, bytes);
    let keep = |records: &mut Vec<_>, record: &zerolag_model::Record| records.push(record.clone());
    let whole = Trace::from_bytes(bytes);
    match (&whole, &open(&path)) {
        (Ok(whole), Ok(opened)) => assert!(opened == whole, "{what:?}"),
        (Err(whole), Err(opened)) => assert_eq!(opened.to_string(), whole.to_string(), "{what:?}"),
        (whole, opened) => panic!("{what:?}: {opened:?}, {whole:?}"),
    }
    match (stream_recording(&path, |_| Vec::new(), keep), whole) {
        (Ok(Some((records, meta))), Ok(whole)) => {
            assert_eq!(meta, whole.meta, "{what:?}");
            assert!(records == whole.records, "{what:?}");
            Some(Ok(whole))
        }
        (Err(error), Err(whole)) => {
            assert_eq!(error.to_string(), whole.to_string(), "{what:?}");
            Some(Err(error.to_string()))
        }
        // It is not in order, which shows before or after a mistake.
        (Ok(None), _) => None,
        (stream, whole) => panic!("{what:?}: {stream:?}, {whole:?}"),
    }
}

/// Returns the recordings of this kind, unpacked, with their names.
fn recordings(kind: &str) -> Vec<(String, Vec<u8>)> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let paths = std::fs::read_dir(data).expect("a directory").map(|entry| entry.expect("readable").path());
    let name = |path: &Path| path.file_name().expect("a file").to_string_lossy().into_owned();
    let mut found: Vec<_> = paths
        .filter(|path| name(path).contains(kind))
        .map(|path| {
            let bytes = std::fs::read(&path).expect("readable");
            (name(&path), Trace::unpack(&bytes).expect("an archive").into_owned())
        })
        .collect();
    found.sort();
    assert!(found.len() >= 4, "{kind}");
    found
}

#[test]
fn a_stream_says_what_a_whole_file_of_events_says() {
    for (name, bytes) in recordings(".perf.data").into_iter().chain(recordings(".trace.dat")) {
        let file = format!("stream-whole-{name}");
        let whole = both(&file, &bytes, &name);
        // Packed records are one archive.
        assert_eq!(whole.is_some(), !name.contains("-z"), "{name}");
        if let Some(whole) = whole {
            assert!(!whole.expect("a trace").records.is_empty());
        }
        let near = |at: usize| at < 200 || at + 200 > bytes.len();
        let step = bytes.len() / 60 + 1;
        let mut errors = 0;
        for cut in (0..bytes.len()).filter(|cut| near(*cut) && cut % 7 == 0 || cut % step == 0) {
            errors += u32::from(both(&file, &bytes[..cut], &(&name, cut)).is_some_and(|read| read.is_err()));
        }
        assert!(errors > 5, "{name}: {errors} errors");
    }
}

#[test]
fn a_damaged_file_of_perf_is_read_the_same_way() {
    let (traces, errors, unordered) = damaged(".perf.data", &[0, 1, 8, 9, 64, 68, 81, 0x7f, 0xff]);
    assert!(traces > 100 && errors > 50 && unordered > 100, "{traces} traces, {errors} errors, {unordered} others");
}

#[test]
fn a_damaged_file_of_trace_cmd_is_read_the_same_way() {
    let (traces, errors, unordered) = damaged(".trace.dat", &[0, 1, 3, 29, 30, 31, 62, 0x7f, 0xff]);
    assert!(traces > 50 && errors > 100 && unordered > 10, "{traces} traces, {errors} errors, {unordered} others");
}

/// Reads recordings of a kind with changed bytes, in both ways; returns how many were a trace, an
/// error, and to be read as a whole.
fn damaged(kind: &str, values: &[u8]) -> (u32, u32, u32) {
    let (mut traces, mut errors, mut unordered) = (0, 0, 0);
    for (name, bytes) in recordings(kind) {
        let mut state = bytes.len() as u64;
        let mut random = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % below
        };
        for _ in 0..120 {
            let mut damaged = bytes.clone();
            for _ in 0..=random(3) {
                // Half of them in the header and the attributes.
                let below = if random(2) == 0 { 2000 } else { bytes.len() };
                let at = random(below);
                damaged[at] = values[random(values.len())];
            }
            match both(&format!("stream-damaged-{name}"), &damaged, &name) {
                Some(Ok(_)) => traces += 1,
                Some(Err(_)) => errors += 1,
                None => unordered += 1,
            }
        }
    }
    (traces, errors, unordered)
}

/// A text of so many rounds of four tasks on two CPUs: wakeups with stacks, lost events, new names.
/// In every hundredth round the last switch is missing.
fn text(rounds: u64) -> String {
    let mut text = "# tracer: nop\n# entries-in-buffer/entries-written: 10/20   #P:2\n#\n".to_owned();
    for round in 0..rounds {
        let (a, b, name) = (10 + round % 2, 12 + round % 2, if round > rounds / 2 { "late" } else { "early" });
        let switch = |prev: String, state: &str, next: String| {
            format!("sched_switch: prev_{prev} prev_prio=120 prev_state={state} ==> next_{next} next_prio=120")
        };
        let (idle, on) = (|| "comm=swapper/0 prev_pid=0".to_owned(), |tid| format!("comm={name} next_pid={tid}"));
        let off = |tid| switch(format!("comm={name} prev_pid={tid}"), "S", "comm=swapper/0 next_pid=0".to_owned());
        let waking = |tid, cpu| format!("sched_waking: comm={name} pid={tid} prio=120 target_cpu=00{cpu}");
        let stack = "<stack trace>\n => try_to_wake_up\n => anon_pipe_write".to_owned();
        let charged = format!("sched_stat_runtime: comm={name} pid={b} runtime=290000 [ns]");
        let lines = [
            ("<idle>".to_owned(), 0, 0, 0, waking(a, 0)),
            ("<idle>".to_owned(), 0, 0, 1, switch(idle(), "R", on(a))),
            (name.to_owned(), a, 0, 5, waking(b, 1)),
            ("<idle>".to_owned(), 0, 1, 7, switch(idle(), "R", on(b))),
            (name.to_owned(), a, 0, 9, stack),
            (name.to_owned(), b, 1, 300, charged),
            (name.to_owned(), a, 0, 400, off(a)),
            (name.to_owned(), b, 1, 500, off(b)),
        ];
        let kept = if round % 100 == 99 { 7 } else { 8 };
        for (comm, tid, cpu, us, event) in lines.into_iter().take(kept) {
            let (second, us) = (1 + round / 1000, round % 1000 * 1000 + us);
            writeln!(text, "{comm:>16}-{tid} [00{cpu}] d..2. {second}.{us:06}: {event}").expect("a String");
        }
    }
    text
}

#[test]
fn a_stream_says_what_a_whole_text_says() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let mut count = 0;
    for entry in std::fs::read_dir(data).expect("a directory") {
        let path = entry.expect("readable").path();
        let name = path.file_name().expect("a file").to_string_lossy().into_owned();
        if !name.contains(".txt") && !name.starts_with("rt-") || name.starts_with("every-kind") {
            continue;
        }
        let bytes = std::fs::read(&path).expect("readable");
        let bytes = Trace::unpack(&bytes).expect("an archive, or none");
        // Whole, and cut within a line.
        for length in [bytes.len(), bytes.len() / 2] {
            let path = file(&format!("stream-{name}"), &bytes[..length]);
            let whole = open(&path).expect("a trace");
            let stream = streamed(&path).unwrap_or_else(|| panic!("{name} is not in order"));
            assert_eq!(stream.meta, whole.meta, "{name}, {length} bytes");
            assert!(stream.records == whole.records, "{name}, {length} bytes");
            count += 1;
        }
    }
    assert!(count >= 16, "{count} texts");
    let path = file("stream-made.txt", text(5000).as_bytes());
    let whole = open(&path).expect("a trace");
    assert!(whole.meta.recorded.gaps.len() > 40 && whole.meta.lost_events == 10, "{}", whole.meta.lost_events);
    let stream = streamed(&path).expect("in order");
    assert_eq!(stream.meta, whole.meta);
    assert!(stream.records == whole.records);
}

#[test]
fn a_text_that_is_out_of_order_or_wrong_is_no_stream() {
    let text = text(50);
    let middle = text.len() / 2 + text[text.len() / 2..].find("\n ").expect("lines") + 1;
    let path = file("stream-order.txt", format!("{}{}", &text[middle..], &text[..middle]).as_bytes());
    assert!(streamed(&path).is_none() && open(&path).is_ok());
    // The remark on overwritten events is behind the events, of which many were given by then.
    let (remark, long) = ("# entries-in-buffer/entries-written: 10/20   #P:2\n", self::text(500));
    let late = file("stream-late.txt", (long.replace(remark, "") + remark).as_bytes());
    assert!(streamed(&late).is_none());
    assert_eq!(open(&late).expect("a trace").meta.recorded.gaps[0].from.as_nanos(), 1_000_000_000);
    for wrong in [text.replace("prev_prio=120", "prev_prio=x"), "# tracer: nop\n".to_owned()] {
        let path = file("stream-wrong.txt", wrong.as_bytes());
        let streamed = stream_recording(&path, |_| (), |(), _| {}).expect_err("an error").to_string();
        assert_eq!(streamed, open(&path).expect_err("an error").to_string());
    }
    assert!(streamed(&file("stream-other", b"\x7fELF")).is_none());
}

/// Changed bytes, lines that are missing or come twice: both ways give the same trace or the same
/// error.
#[test]
fn a_damaged_text_is_read_the_same_way() {
    let text = text(40);
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let mut state = 1_u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let (mut traces, mut errors) = (0, 0);
    for round in 0..400 {
        let mut lines = lines.clone();
        // More other lines than events: another kind of text.
        let others = if round % 4 == 0 { lines.len() } else { 0 };
        for _ in 0..others + random(2) {
            lines.insert(random(lines.len()), "[   10.5] usb 1-1: new device\n");
        }
        for _ in 0..random(4) {
            lines.remove(random(lines.len()));
        }
        for _ in 0..random(3) {
            let from = random(lines.len());
            lines.insert(random(lines.len()), lines[from]);
        }
        let mut bytes = lines.concat().into_bytes();
        for _ in 0..random(4) {
            let at = random(bytes.len());
            bytes[at] = [b'0', b'9', b' ', b'\n', b'[', 0xff][random(6)];
        }
        bytes.truncate(bytes.len() - random(2) * random(200));
        match both("stream-damaged.txt", &bytes, &"text") {
            Some(Ok(_)) => traces += 1,
            Some(Err(_)) => errors += 1,
            None => {}
        }
    }
    assert!(traces > 50 && errors > 50, "{traces} traces, {errors} errors");
}

/// A file that is written number by number.
#[derive(Default)]
struct Bytes(Vec<u8>);

impl Bytes {
    fn number(&mut self, value: u64, size: usize) -> &mut Self {
        self.0.extend(&value.to_le_bytes()[..size]);
        self
    }

    fn text(&mut self, text: &str, size: usize) -> &mut Self {
        self.0.extend(text.as_bytes());
        self.0.resize(self.0.len() + size - text.len(), 0);
        self
    }

    /// Writes a text behind its length.
    fn sized(&mut self, text: &str) -> &mut Self {
        self.number(text.len() as u64, 8).text(text, text.len())
    }

    /// Writes the systems of trace points, which are one: the format of a switch.
    fn formats(&mut self) -> &mut Self {
        let format = "name: sched_switch\nID: 300\nformat:\n\tfield:char prev_comm[16];\toffset:8;\tsize:16;\n\
            \tfield:pid_t prev_pid;\toffset:24;\tsize:4;\n\tfield:int prev_prio;\toffset:28;\tsize:4;\n\
            \tfield:long prev_state;\toffset:32;\tsize:8;\n\tfield:char next_comm[16];\toffset:40;\tsize:16;\n\
            \tfield:pid_t next_pid;\toffset:56;\tsize:4;\n\tfield:int next_prio;\toffset:60;\tsize:4;\n";
        self.number(1, 4).text("sched", 6).number(1, 4).sized(format)
    }

    /// Writes the 64 bytes of a switch from one task to another: names and threads.
    fn payload(&mut self, [prev, next]: [(&str, u64); 2]) -> &mut Self {
        self.number(300, 2).number(0, 2).number(prev.1, 4);
        self.text(prev.0, 16).number(prev.1, 4).number(120, 4).number(1, 8);
        self.text(next.0, 16).number(next.1, 4).number(120, 4)
    }
}

/// A `perf.data` of a pipe that is written record by record.
struct Perf(Bytes);

impl Perf {
    /// Writes a record: its size is filled in when its body is written.
    fn record(&mut self, kind: u64, body: impl FnOnce(&mut Bytes)) {
        let start = self.0.0.len();
        self.0.number(kind, 4).number(0, 4);
        body(&mut self.0);
        let size = u16::try_from(self.0.0.len() - start).expect("a short record");
        self.0.0[start + 6..start + 8].copy_from_slice(&size.to_le_bytes());
    }

    /// Writes the head: the attributes, and the format of a switch.
    fn begin() -> Self {
        let mut perf = Self(Bytes(b"PERFILE2".to_vec()));
        perf.0.number(16, 8);
        perf.record(64, |attr| {
            // Task, time, CPU, payload: bits 1, 2, 7, 10. All records end with time and CPU.
            attr.number(2, 4).number(64, 4).number(0, 8).number(0, 8).number(0x486, 8).number(0, 8);
            attr.number(1 << 18, 8).number(0, 8).number(0, 8);
        });
        let mut formats = Bytes(b"\x17\x08\x44tracing0.6\0\0\x08".to_vec());
        formats.number(4096, 4).text("header_page", 12).number(0, 8).text("header_event", 13).number(0, 8).number(0, 4);
        formats.formats();
        perf.record(66, |record| {
            record.number(formats.0.len() as u64, 4);
        });
        perf.0.0.extend(formats.0);
        perf
    }

    /// Writes the switch of a CPU from one task to another; names are of threads.
    fn switch(&mut self, at: u64, cpu: u64, tasks: [(&str, u64); 2]) {
        self.record(9, |sample| {
            let tid = tasks[0].1;
            sample.number(tid, 4).number(tid, 4).number(at, 8).number(cpu, 8);
            sample.number(68, 4).payload(tasks).number(0, 4);
        });
    }

    /// Writes a record that is no sample, with its tail.
    fn remark(&mut self, kind: u64, at: u64, cpu: u64, body: impl FnOnce(&mut Bytes)) {
        self.record(kind, |record| {
            body(record);
            record.number(1, 4).number(1, 4).number(at, 8).number(cpu, 8);
        });
    }
}

/// A file of so many rounds: in each the events of CPU 0, then those of CPU 1, of which the last of
/// CPU 0 come in the next round. Now and then a name, lost events, and a switch that is missing.
fn perf(rounds: u64) -> Vec<u8> {
    let mut perf = Perf::begin();
    // Collected before the start: without a time.
    perf.remark(3, 0, 0, |comm| {
        comm.number(9, 4).number(10, 4).text("ten", 8);
    });
    for round in 0..rounds {
        let name = if round > rounds / 2 { "late" } else { "early" };
        for cpu in 0..2 {
            // CPU 1 is read 300 ns later.
            let start = 1_000_000 + round * 1000 + cpu * 300;
            let tasks = |at: u64| [("<...>", 0), (name, 10 + 2 * (at % 7) + cpu)];
            for at in 0..8 {
                let [idle, task] = tasks(round + at);
                perf.switch(start + at * 120, cpu, [idle, task]);
                if (round + at) % 500 != 499 {
                    perf.switch(start + at * 120 + 50, cpu, [task, idle]);
                }
            }
            match round % 200 {
                7 => perf.remark(2, start + 900, cpu, |lost| {
                    lost.number(0, 8).number(3, 8);
                }),
                9 => perf.remark(3, start + 901, cpu, |comm| {
                    comm.number(9, 4).number(10, 4).text("named", 8);
                }),
                _ => {}
            }
        }
        perf.record(68, |_| {});
    }
    perf.0.0
}

#[test]
fn rounds_of_perf_are_put_in_order() {
    let bytes = perf(1000);
    let whole = both("stream-rounds.data", &bytes, &"whole").expect("in order").expect("a trace");
    assert!(whole.meta.recorded.gaps.len() > 20 && whole.meta.lost_events == 30, "{}", whole.meta.lost_events);
    assert!(whole.records.len() > 30_000);
    // A window ends anywhere in a record: other places with each length of the first name.
    for more in (0..240).step_by(24) {
        let mut longer = Perf::begin();
        let head = longer.0.0.len();
        longer.record(1, |record| {
            record.text("", more);
        });
        longer.0.0.extend(&bytes[head..]);
        assert!(both("stream-rounds.data", &longer.0.0, &more).is_some_and(|read| read.is_ok()));
    }
    // The events of round 3 come after those of round 6.
    let mark = |from: usize| {
        from + bytes[from..].windows(8).position(|at| at == [68, 0, 0, 0, 0, 0, 8, 0]).expect("a mark") + 8
    };
    let ends = (0..7).scan(0, |at, _| {
        *at = mark(*at);
        Some(*at)
    });
    let ends: Vec<usize> = ends.collect();
    let (third, rest) = (&bytes[ends[2]..ends[3]], &bytes[ends[3]..ends[6]]);
    let moved = [&bytes[..ends[2]], rest, third, &bytes[ends[6]..]].concat();
    assert!(both("stream-rounds.data", &moved, &"moved").is_none());
    // A sample that is older than all that was given, although its trace point is not used.
    let mut early = bytes[..ends[6]].to_vec();
    let at = ends[5] + 8 + 8 + 8 + 8;
    early[at - 16..at - 8].copy_from_slice(&5_u64.to_le_bytes());
    early[at + 4..at + 6].copy_from_slice(&301_u16.to_le_bytes());
    assert!(both("stream-rounds.data", &early, &"early").is_none());
}

/// The pages of a CPU: so many, of 58 switches each. Now and then lost events, whose number is
/// known or not, and a switch that is missing.
fn pages(cpu: u64, pages: u64) -> Vec<u8> {
    let mut bytes = Bytes::default();
    for page in 0..pages {
        // Every other page of CPU 1 begins with an event of the time of one of CPU 0.
        let start = 1_000_000 + page * 60_000 + cpu * 500 * (page % 2);
        let name = if page > pages / 2 { "late" } else { "early" };
        let (commit, lost) = match page % 100 {
            7 => (3 << 30, 5),
            9 => (1 << 31, 0),
            _ => (0, 0),
        };
        let begin = bytes.0.len();
        let switches = if page % 100 == 50 { 57 } else { 58 };
        bytes.number(start, 8).number(commit | (switches * 68), 8);
        for switch in 0..switches {
            let delta = if switch == 0 { 0 } else { 1000 };
            let (idle, task) = (("swapper", 0), (name, 10 + 2 * (page % 7) + cpu));
            let tasks = if switch % 2 == 0 { [idle, task] } else { [task, idle] };
            // A payload of 16 words.
            bytes.number(delta << 5 | 16, 4).payload(tasks);
        }
        bytes.number(lost, 8);
        bytes.0.resize(begin + 4096, 0);
    }
    bytes.0
}

const PAGE: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\n\tfield: local_t commit;\toffset:8;\tsize:8;\n\
    \tfield: char data;\toffset:16;\tsize:4080;\n";

/// A `trace.dat` of version 6: so many pages of each CPU.
fn version_6(cpus: &[u64]) -> Vec<u8> {
    let mut file = Bytes(b"\x17\x08\x44tracing6\0\0\x08".to_vec());
    file.number(4096, 4).text("header_page", 12).sized(PAGE).text("header_event", 13).number(0, 8).number(0, 4);
    // No symbols, no formats of printk, no names.
    file.formats().number(0, 4).number(0, 4).number(0, 8).number(cpus.len() as u64, 4).text("flyrecord", 10);
    let mut at = file.0.len() as u64 + 16 * cpus.len() as u64;
    for count in cpus {
        file.number(at, 8).number(count * 4096, 8);
        at += count * 4096;
    }
    (0..).zip(cpus).for_each(|(cpu, count)| file.0.extend(pages(cpu, *count)));
    file.0
}

/// A `trace.dat` of version 7, packed by zlib in chunks that end within pages.
fn version_7(cpus: &[u64]) -> Vec<u8> {
    let mut file = Bytes(b"\x17\x08\x44tracing7\0\0\x08".to_vec());
    file.number(4096, 4).text("zlib", 5).text("1", 2);
    let options = file.0.len();
    let place = |file: &mut Bytes, at: usize| {
        let end = file.0.len() as u64;
        file.0[at..at + 8].copy_from_slice(&end.to_le_bytes());
    };
    let section = |file: &mut Bytes, id: u64, body: &[u8]| {
        let at = file.0.len() as u64;
        file.number(id, 2).number(0, 2).number(0, 4).number(body.len() as u64, 8).0.extend(body);
        at
    };
    file.number(0, 8);
    let mut header = Bytes::default();
    header.text("header_page", 12).sized(PAGE).text("header_event", 13).number(0, 8);
    let header = section(&mut file, 16, &header.0);
    let formats = section(&mut file, 18, &Bytes::default().formats().0);
    let buffer = file.0.len() as u64;
    // Its pages are packed.
    file.number(3, 2).number(1, 2).number(0, 4).number(0, 8);
    let mut list = Bytes::default();
    list.number(buffer, 8).text("", 1).text("mono", 5).number(4096, 4).number(cpus.len() as u64, 4);
    for (cpu, count) in (0..).zip(cpus) {
        let (at, pages) = (file.0.len() as u64, pages(cpu, *count));
        let chunks = pages.chunks(10_000);
        file.number(chunks.len() as u64, 4);
        for chunk in chunks {
            let mut packer = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::none());
            std::io::Write::write_all(&mut packer, chunk).expect("memory takes it");
            let packed = packer.finish().expect("memory takes it");
            file.number(packed.len() as u64, 4).number(chunk.len() as u64, 4).0.extend(packed);
        }
        list.number(cpu, 4).number(at, 8).number(file.0.len() as u64 - at, 8);
    }
    place(&mut file, options);
    let mut body = Bytes::default();
    for (id, at) in [(16, header), (18, formats)] {
        body.number(id, 2).number(8, 4).number(at, 8);
    }
    body.number(3, 2).number(list.0.len() as u64, 4).0.extend(list.0);
    body.number(0, 2).number(8, 4).number(0, 8);
    section(&mut file, 0, &body.0);
    file.0
}

#[test]
fn pages_of_cpus_are_merged() {
    for (name, bytes) in [("6", version_6(&[200, 190, 0])), ("7", version_7(&[200, 190, 0]))] {
        let whole = both("stream-merged.dat", &bytes, &name).expect("in order").expect("a trace");
        assert!(whole.records.len() > 390 * 57, "{}", whole.records.len());
        assert!(whole.meta.recorded.gaps.len() > 8 && whole.meta.lost_events == 20, "{}", whole.meta.lost_events);
        let same = whole.records.windows(2).filter(|pair| pair[0].at == pair[1].at && pair[0].cpu < pair[1].cpu);
        assert!(same.count() > 1000, "events of one instant");
        // The last page is cut off; an event in the middle is impossible.
        assert!(both("stream-merged.dat", &bytes[..bytes.len() - 5000], &name).is_some_and(|read| read.is_err()));
    }
    // The second page of CPU 1 is older than the first: its events have to be sorted.
    let (mut bytes, page) = (version_6(&[4, 4]), 4096);
    let start = bytes.len() - 3 * page;
    bytes[start..start + 8].copy_from_slice(&7_u64.to_le_bytes());
    assert!(both("stream-merged.dat", &bytes, &"a page in the past").is_none());
    // The mistake of CPU 1 comes first in time; that of CPU 0 is the first in the file.
    let mut bytes = version_6(&[4, 4]);
    let first = bytes.len() - 8 * page;
    for at in [first + 3 * page + 8, first + 5 * page + 8] {
        bytes[at..at + 8].copy_from_slice(&5000_u64.to_le_bytes());
    }
    let error = both("stream-merged.dat", &bytes, &"two mistakes").expect("an error").expect_err("two mistakes");
    assert!(error.contains(&format!("at byte {}", first + 3 * page)), "{error}");
}

/// Messages of protobuf.
impl Bytes {
    fn varint(&mut self, mut value: u64) -> &mut Self {
        while value >= 0x80 {
            self.0.push(value.to_le_bytes()[0] | 0x80);
            value >>= 7;
        }
        self.number(value, 1)
    }

    fn int(&mut self, field: u64, value: u64) -> &mut Self {
        self.varint(field << 3).varint(value)
    }

    fn bytes(&mut self, field: u64, value: &[u8]) -> &mut Self {
        self.varint(field << 3 | 2).varint(value.len() as u64).0.extend(value);
        self
    }

    fn message(&mut self, field: u64, build: impl FnOnce(&mut Self)) -> &mut Self {
        let mut message = Self::default();
        build(&mut message);
        self.bytes(field, &message.0)
    }

    fn ints(&mut self, field: u64, values: impl Iterator<Item = u64>) -> &mut Self {
        self.message(field, |packed| {
            for value in values {
                packed.varint(value);
            }
        })
    }
}

/// A packet of so many events of a CPU, 100 ns apart from `start` on: compact switches, or plain
/// ones, each with a waking of the same time.
fn bundle(cpu: u64, start: u64, count: u64, name: &str, is_compact: bool) -> Bytes {
    let tid = |at: u64| if at.is_multiple_of(2) { 10 + 3 * (at / 2 % 7) + cpu } else { 0 };
    let mut packet = Bytes::default();
    packet.message(1, |trace| {
        trace.message(1, |bundle| {
            bundle.int(1, cpu);
            let steps = || core::iter::once(start).chain(core::iter::repeat_n(100, count as usize - 1));
            let all = |value| core::iter::repeat_n(value, count as usize);
            if is_compact {
                bundle.message(4, |sched| {
                    sched.ints(1, steps()).ints(2, all(0)).ints(3, (0..count).map(tid)).ints(4, all(120));
                    sched.bytes(5, name.as_bytes()).ints(6, all(0));
                    sched.ints(7, steps()).ints(8, all(10)).ints(9, all(0)).ints(10, all(120)).ints(11, all(0));
                });
                return;
            }
            for at in 0..count {
                let before = at.checked_sub(1).map_or(0, tid);
                bundle.message(2, |event| {
                    event.int(1, start + at * 100).int(2, before).message(4, |switch| {
                        switch.bytes(1, name.as_bytes()).int(2, before).int(3, 120).int(4, 0);
                        switch.bytes(5, name.as_bytes()).int(6, tid(at)).int(7, 120);
                    });
                });
                bundle.message(2, |event| {
                    event.int(1, start + at * 100).message(20, |waking| {
                        waking.bytes(1, b"ten").int(2, 10).int(3, 120).int(5, 0);
                    });
                });
            }
            if start / 8000 % 50 == 7 {
                bundle.int(3, 1);
            }
        });
    });
    packet
}

/// A trace of so many rounds. Of CPU 0 a half is read in the next round; CPU 1 comes after it with
/// the same times; CPU 2 is of a recorder whose packets are written four rounds late. Every ninth
/// round is packed.
fn perfetto(rounds: u64) -> Vec<u8> {
    let mut file = Bytes::default();
    // The kernel, and two threads that are listed before they are seen; one of them is again.
    file.message(1, |packet| {
        packet.message(45, |info| {
            info.message(1, |name| {
                name.bytes(3, b"6.12.0");
            })
            .int(8, 4);
        });
    });
    for round in 0..rounds {
        let start = 1_000_000 + round * 8000;
        let name = if round > rounds / 2 { "late" } else { "early" };
        let mut packets = Bytes::default();
        packets.0.extend(bundle(0, start - if round > 0 { 4000 } else { 0 }, 80, name, true).0);
        packets.0.extend(bundle(1, start, 60, name, round % 2 == 0).0);
        if round % 4 == 3 {
            (0..4).for_each(|before| packets.0.extend(bundle(2, start - 24_000 + before * 8000, 50, name, true).0));
        }
        if round == rounds / 3 {
            packets.message(1, |packet| {
                packet.message(2, |tree| {
                    tree.message(2, |thread| {
                        thread.int(1, 13).bytes(2, b"listed").int(3, 10);
                    });
                    tree.message(2, |thread| {
                        thread.int(1, 99).bytes(2, b"unseen").int(3, 99);
                    });
                });
            });
        }
        if round % 9 == 4 {
            let mut packer = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
            std::io::Write::write_all(&mut packer, &packets.0).expect("memory takes it");
            let packed = packer.finish().expect("memory takes it");
            file.message(1, |packet| {
                packet.bytes(50, &packed);
            });
        } else {
            file.0.extend(packets.0);
        }
    }
    file.0
}

#[test]
fn packets_of_perfetto_are_put_in_order() {
    let bytes = perfetto(500);
    let whole = both("stream-order.pftrace", &bytes, &"whole").expect("a stream").expect("a trace");
    assert!(whole.records.len() > 100_000 && whole.meta.recorded.gaps.len() > 4, "{}", whole.records.len());
    let threads = &whole.meta.recorded.threads;
    assert!(threads.iter().any(|thread| (thread.tid, thread.pid) == (13, Some(10))), "{threads:?}");
    assert_eq!((whole.meta.kernel.as_str(), whole.meta.machine.nr_cpus()), ("6.12.0", 4));
    let same = whole.records.windows(2).filter(|pair| pair[0].at == pair[1].at && pair[0].cpu != pair[1].cpu);
    assert!(same.count() > 1000, "events of one instant");
    // The last packets are the first.
    let middle = bytes.len() / 2;
    let swap = bytes[middle..].windows(4).position(|at| at[0] == 10 && at[3] == 10).expect("packets") + middle;
    let moved = [&bytes[swap..], &bytes[..swap]].concat();
    if let Ok(whole) = both("stream-order.pftrace", &moved, &"moved").expect("a stream") {
        assert!(!whole.records.is_empty());
    }
    // Files that are written for the viewer.
    for (name, recorded) in recordings(".txt") {
        let Ok(trace) = Trace::from_bytes(&recorded) else { continue };
        let mut bytes = Vec::new();
        zerolag_trace::perfetto::write(&mut bytes, &trace).expect("memory takes it");
        assert!(both("stream-order.pftrace", &bytes, &name).is_some(), "{name}");
    }
}

#[test]
fn a_damaged_file_of_perfetto_is_read_the_same_way() {
    let bytes = perfetto(12);
    let (mut traces, mut errors, mut cut) = (0, 0, 0);
    for length in (0..bytes.len()).filter(|at| *at < 400 || at + 300 > bytes.len() || at % 997 == 0) {
        let read = both("stream-damaged.pftrace", &bytes[..length], &length);
        cut += u32::from(read.is_some_and(|read| read.is_ok_and(|trace| trace.meta.recorded.dropped.is_some())));
    }
    let mut state = 7_u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    for _ in 0..400 {
        let mut damaged = bytes.clone();
        for _ in 0..=random(3) {
            let below = if random(4) == 0 { 60 } else { bytes.len() };
            let at = random(below);
            damaged[at] = [0, 1, 8, 10, 0x7f, 0x80, 0xff][random(7)];
        }
        match both("stream-damaged.pftrace", &damaged, &"damaged") {
            Some(Ok(_)) => traces += 1,
            Some(Err(_)) => errors += 1,
            None => {}
        }
    }
    assert!(traces > 50 && errors > 50 && cut > 100, "{traces} traces, {errors} errors, {cut} cut off");
}

/// Returns bytes as archives of gzip and zstd.
fn packed(bytes: &[u8]) -> [(&'static str, Vec<u8>); 2] {
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut packer, bytes).expect("memory takes it");
    let gz = packer.finish().expect("memory takes it");
    let zst = ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest);
    [("gz", gz), ("zst", zst)]
}

#[test]
fn archives_of_text_and_packets_are_streams() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let mut streams = 0;
    for entry in std::fs::read_dir(data).expect("a directory") {
        let path = entry.expect("readable").path();
        let name = path.file_name().expect("a file").to_string_lossy().into_owned();
        if !name.ends_with("txt.gz") && !name.ends_with("dat.gz") {
            continue;
        }
        let read = both("stream-packed", &std::fs::read(&path).expect("readable"), &name);
        // The parts of the others are found by their places.
        assert_eq!(read.is_some(), name.ends_with("txt.gz"), "{name}");
        streams += u32::from(read.is_some_and(|read| read.is_ok()));
    }
    assert!(streams >= 8, "{streams} streams");
    for (what, bytes) in [("text", text(100).into_bytes()), ("packets", perfetto(20))] {
        let whole = both("stream-packed", &bytes, &what).expect("a stream").expect("a trace");
        for (kind, archive) in packed(&bytes) {
            let read = both("stream-packed", &archive, &(what, kind)).expect("a stream").expect("a trace");
            assert!(read == whole, "{what} in {kind}");
            let mut errors = 0;
            for at in (0..archive.len()).step_by(archive.len() / 80 + 1).chain(archive.len() - 9..archive.len()) {
                let mut damaged = archive.clone();
                damaged[at] ^= 0x15;
                for bytes in [&archive[..at], &damaged] {
                    let read = both("stream-packed", bytes, &(what, kind, at));
                    errors += u32::from(read.is_some_and(|read| read.is_err()));
                }
            }
            assert!(errors > 80, "{errors} errors");
        }
    }
    // Its contents are wrong before the archive is.
    let wrong = text(2000).replace("prev_prio=120", "prev_prio=x");
    for (kind, archive) in packed(wrong.as_bytes()) {
        let cut = &archive[..archive.len() * 3 / 4];
        let error = both("stream-packed", cut, &kind).expect("an error").expect_err("it is cut off");
        assert!(error.contains("cannot be unpacked"), "{error}");
    }
}

/// Returns the most memory that a stream of a file takes, and the length of the file.
fn peak(name: &str, bytes: &[u8], records: u64) -> (u64, u64) {
    let path = file(name, bytes);
    let mut count = 0_u64;
    let mut read = || stream_recording(&path, |_| (), |(), _| count += 1).expect("readable").expect("in order");
    let peak = allocation_counter::measure(|| drop(read())).bytes_max;
    std::fs::remove_file(&path).expect("removable");
    assert!(count > records, "{count}");
    (peak, bytes.len() as u64)
}

#[test]
fn the_memory_of_a_stream_does_not_grow_with_its_length() {
    let perf_of = |rounds| peak(&format!("stream-{rounds}.data"), &perf(rounds), rounds * 30);
    let text_of = |rounds| peak(&format!("stream-{rounds}.txt"), text(rounds).as_bytes(), rounds * 5);
    let six_of = |pages| peak(&format!("stream-{pages}-6.dat"), &version_6(&[pages, pages]), pages * 110);
    let packed_of = |rounds| {
        let text = text(rounds);
        let [gz, _] = packed(text.as_bytes()).map(|(_, archive)| archive);
        (peak(&format!("stream-{rounds}.gz"), &gz, rounds * 5).0, text.len() as u64)
    };
    let perfetto_of = |rounds| peak(&format!("stream-{rounds}.pftrace"), &perfetto(rounds), rounds * 250);
    let seven_of = |pages| peak(&format!("stream-{pages}-7.dat"), &version_7(&[pages, pages]), pages * 110);
    for ((short, _), (long, length)) in [
        (perf_of(1_000), perf_of(8_000)),
        (text_of(5_000), text_of(40_000)),
        (six_of(350), six_of(2800)),
        (seven_of(350), seven_of(2800)),
        (perfetto_of(1000), perfetto_of(8000)),
        (packed_of(5_000), packed_of(40_000)),
    ] {
        assert!(length > 20_000_000, "{length}");
        // The gaps of the further rounds are kept.
        assert!(long < short + 400_000, "{short} and {long} bytes");
    }
}

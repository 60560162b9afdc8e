//! A text that is read as a stream says the same as one that is kept in memory, and its memory does
//! not grow with its length.

#![cfg(feature = "recordings")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use zerolag_trace::{Trace, open, stream_text};

/// Returns a file with this content.
fn file(name: &str, bytes: &[u8]) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, bytes).expect("writable");
    path
}

/// Returns what the stream of a file gives, if it can be streamed.
fn streamed(path: &Path) -> Option<Trace> {
    let keep = |records: &mut Vec<_>, record: &zerolag_model::Record| records.push(record.clone());
    let (records, meta) = stream_text(path, |_| Vec::new(), keep).expect("it can be read")?;
    Some(Trace { meta, records })
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
    for wrong in [text.replace("prev_prio=120", "prev_prio=x"), "# tracer: nop\n".to_owned()] {
        let path = file("stream-wrong.txt", wrong.as_bytes());
        let streamed = stream_text(&path, |_| (), |(), _| {}).expect_err("an error").to_string();
        assert_eq!(streamed, open(&path).expect_err("an error").to_string());
    }
    assert!(streamed(&file("stream-other", b"PERFILE2")).is_none());
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
    for _ in 0..400 {
        let mut lines = lines.clone();
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
        let path = file("stream-damaged.txt", &bytes);
        let keep = |records: &mut Vec<_>, record: &zerolag_model::Record| records.push(record.clone());
        match (stream_text(&path, |_| Vec::new(), keep), open(&path)) {
            (Ok(Some((records, meta))), Ok(whole)) => {
                traces += 1;
                assert_eq!(meta, whole.meta);
                assert!(records == whole.records);
            }
            (Err(error), Err(whole)) => {
                errors += 1;
                assert_eq!(error.to_string(), whole.to_string());
            }
            // It is not in order, which shows before or after a mistake.
            (Ok(None), _) => {}
            (stream, whole) => panic!("{stream:?}, {whole:?}"),
        }
    }
    assert!(traces > 50 && errors > 50, "{traces} traces, {errors} errors");
}

#[test]
fn the_memory_of_a_stream_does_not_grow_with_its_length() {
    let peak = |rounds: u64| {
        let path = file(&format!("stream-{rounds}.txt"), text(rounds).as_bytes());
        let mut count = 0_u64;
        let mut read = || stream_text(&path, |_| (), |(), _| count += 1).expect("readable").expect("in order");
        let peak = allocation_counter::measure(|| drop(read())).bytes_max;
        let length = std::fs::metadata(&path).expect("it exists").len();
        std::fs::remove_file(&path).expect("removable");
        assert!(count > rounds * 5, "{count}");
        (peak, length)
    };
    let ((short, _), (long, length)) = (peak(5_000), peak(40_000));
    assert!(length > 20_000_000, "{length}");
    // The 350 further gaps are kept.
    assert!(long < short + 400_000, "{short} and {long} bytes");
}

use super::*;
use crate::ftrace;

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
    let order = ByteOrder::Little;
    let mut at = PIPE_HEADER as usize;
    while let Some(record) = layout::record(order, data, at, data.len()).filter(|_| at < cut) {
        at = record.end;
    }
    order.u64(data, 8) == Some(PIPE_HEADER) && at == cut
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
    while let Some(record) = layout::record(order, &data, at, data.len()) {
        if record.kind == HEADER_ATTR {
            // No CPU, but a weight, which is as long and comes later.
            without[at + 8 + 24] &= !0x80;
        }
        at = record.end;
    }
    let error = read(&without).expect_err("no CPU").to_string();
    assert!(error.contains("perf record -a --sample-cpu"), "{error}");
}

//! The floors of `zerolag-trace`: words, the container of a trace, the events of a kernel and what
//! they become, the formats, and the choice of a reader on top.

use super::Floors;

pub(crate) const FLOORS: Floors = &[
    // Words: descriptions of a run, names of formats, bytes and texts of files, tables of ids.
    &["file_bytes", "formats", "groups", "meta", "table", "text", "tool_output"],
    &["container", "error"],
    &["packed", "replay", "script", "task_clock"],
    // The events of a kernel, and a trace from them.
    &["kernel/context", "kernel/format", "kernel/skips", "kernel/state", "kernel/tids"],
    &["kernel/means", "kernel/pool"],
    &["kernel/event"],
    &["kernel/doubled", "kernel/head", "kernel/raw"],
    &["kernel/gaps", "kernel/messages"],
    &["kernel/build", "kernel/clock", "kernel/tracing_data"],
    &["kernel"],
    &["kernel/stream"],
    // Our own format.
    &["zlt/block", "zlt/wire"],
    &["zlt/record"],
    &["zlt/writer"],
    &["zlt/reader"],
    &["zlt"],
    // Formats of other tools: text, perf.data, Perfetto's traces, trace.dat.
    &["ftrace/bytes", "ftrace/html", "ftrace/write", "perf_data/layout", "perfetto/schema", "trace_dat/ring"],
    &["ftrace/line", "perf_data/window", "perfetto/packets", "perfetto/tracks", "trace_dat/layout"],
    &[
        "ftrace/event",
        "ftrace/states",
        "perf_data/file",
        "perfetto/reader",
        "perfetto/writer",
        "trace_dat/decode",
        "trace_dat/schedviz",
    ],
    &["ftrace/reader", "perfetto/stream", "perf_data/stream", "trace_dat/stream"],
    &["ftrace/stream"],
    &["ftrace", "perf_data", "perfetto"],
    // It can have the text of tracefs in it.
    &["trace_dat"],
    // The choice of a reader.
    &["open"],
    &["lib"],
];

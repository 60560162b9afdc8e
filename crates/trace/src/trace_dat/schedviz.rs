//! Archives of SchedViz: the ring buffers of ftrace as files of a tar archive.
//!
//! ```text
//! metadata.textproto           "trace_type: FTRACE"
//! formats/header_page          the layout of a page
//! formats/sched/EVENT/format   the trace points
//! traces/cpuN                  the pages of a CPU: tracefs `per_cpu/cpuN/trace_pipe_raw`
//! topology/, options/          not read
//! ```
//!
//! The pages are those of `trace.dat`, so only their places differ. The recorder's kernel is not in
//! the archive: what `prev_state` means is told by the format of the trace point.
//!
//! Source: SchedViz 72ec4f3 `util/trace.sh`; the header of a file of an archive: POSIX.1-1988,
//! `ustar`.

use super::layout::{Buffer, Contents, File, Part};
use super::ring::Page;
use crate::error::ReadError;
use crate::kernel::format::Format;
use crate::kernel::raw::{ByteOrder, Decoder};
use core::ops::Range;

/// The name of the format in headings.
pub(super) const FORMAT: &str = "SchedViz archive";

const BLOCK: usize = 512;

/// The files of a tar archive: their names, and their places in it.
fn files(bytes: &[u8]) -> impl Iterator<Item = (String, Range<usize>)> {
    let mut at = 0;
    core::iter::from_fn(move || {
        let head = bytes.get(at..at + BLOCK).filter(|head| head.get(257..262) == Some(b"ustar".as_slice()))?;
        let text = |range: Range<usize>| {
            let field = head[range].split(|byte| *byte == 0).next().unwrap_or_default();
            String::from_utf8_lossy(field).trim().to_owned()
        };
        let size = usize::from_str_radix(&text(124..136), 8).ok()?;
        let (prefix, name) = (text(345..500), text(0..100));
        let start = at + BLOCK;
        at = start.checked_add(size)?.checked_next_multiple_of(BLOCK)?;
        let name = if prefix.is_empty() || head[262] == b' ' { name } else { format!("{prefix}/{name}") };
        Some((name.trim_start_matches("./").to_owned(), start..start + size))
    })
}

/// Returns whether a file that begins so is one.
pub(crate) fn is(head: &[u8]) -> bool {
    files(head).any(|(name, _)| name == "metadata.textproto" || name.starts_with("formats/"))
}

/// Returns where in an archive is what.
///
/// # Errors
/// It has no buffers of ftrace, or their layout is impossible.
pub(super) fn layout(bytes: &[u8]) -> Result<File<'_>, ReadError> {
    let (mut formats, mut parts, mut header) = (Vec::new(), Vec::new(), None);
    for (name, range) in files(bytes) {
        let Some(contents) = bytes.get(range.clone()) else {
            return Err(damaged(range.start, &format!("`{name}` is cut off")));
        };
        let text = || String::from_utf8_lossy(contents).into_owned();
        if name == "formats/header_page" {
            header = Some((range.start, text()));
        } else if name.starts_with("formats/") && name.ends_with("/format") {
            formats.extend(Format::parse(&text()));
        } else if let Some(cpu) = name.strip_prefix("traces/cpu").and_then(|cpu| cpu.parse().ok()) {
            parts.push(Part { cpu, range, is_packed: false });
        }
    }
    let Some((at, header)) = header.filter(|_| !parts.is_empty()) else {
        return Err(ReadError::Foreign {
            format: "a SchedViz archive without buffers of ftrace",
            hint: "only those have the events that are read: record again with its trace.sh, or with `perf sched record`",
        });
    };
    let page = page_size(&header).and_then(|size| Page::of(&header, size));
    let page = page.ok_or_else(|| damaged(at, "the description of its pages is impossible"))?;
    parts.sort_by_key(|part| part.cpu);
    // The size of a page's events is far below 2^31 in the right order.
    let first = parts.iter().find_map(|part| bytes.get(part.range.start + 8..part.range.start + 12));
    let is_big = first.is_some_and(|size| size.starts_with(&[0, 0]) && size != [0; 4]);
    let mut file = File::new(if is_big { ByteOrder::Big } else { ByteOrder::Little });
    for format in formats {
        if let Some(decoder) = Decoder::of(&format, file.order) {
            file.decoders.insert(format.id, decoder);
        }
    }
    file.cpus = parts.iter().map(|part| part.cpu.saturating_add(1)).max().unwrap_or(0);
    file.contents.push(Contents::Buffer(Buffer { clock: "local".to_owned(), page, parts }));
    Ok(file)
}

/// Returns the size of a page: the place of its events, and their most.
fn page_size(header: &str) -> Option<u32> {
    let line = header.lines().find(|line| line.split(';').next().is_some_and(|field| field.ends_with(" data")))?;
    let number = |key: &str| line.split(';').find_map(|part| part.trim().strip_prefix(key)?.parse::<u32>().ok());
    number("offset:")?.checked_add(number("size:")?)
}

fn damaged(offset: usize, reason: &str) -> ReadError {
    ReadError::Damaged { format: FORMAT, offset: offset as u64, reason: reason.to_owned() }
}

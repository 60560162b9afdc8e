//! How records and samples are laid out.

use crate::kernel::raw::ByteOrder;
use core::ops::Range;

/// A record.
pub(super) struct Record<'a> {
    pub(super) kind: u32,
    /// Its places in the file.
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) body: &'a [u8],
    /// The place of the bytes that follow a record of some kinds and are not counted in its size.
    pub(super) behind: Range<usize>,
}

/// What comes at a place of a file.
pub(super) enum Next<'a> {
    Record(Record<'a>),
    /// A record of which not all bytes are given.
    More,
    /// Nothing, or a record that is longer than the rest.
    End,
}

/// Returns what comes at a place, of which these are the bytes from there on, or some of them; the
/// records end at `end`.
#[inline]
pub(super) fn next(order: ByteOrder, bytes: &[u8], at: usize, end: usize) -> Next<'_> {
    let rest = end.saturating_sub(at);
    let lacks =
        |size: usize| (size > bytes.len().min(rest)).then_some(if size > rest { Next::End } else { Next::More });
    if let Some(lacks) = lacks(HEAD) {
        return lacks;
    }
    let size = order.number(&bytes[6..HEAD]) as usize;
    if size < HEAD {
        return Next::End;
    }
    if let Some(lacks) = lacks(size) {
        return lacks;
    }
    let kind = order.number(&bytes[..4]) as u32;
    let body = &bytes[HEAD..size];
    let more = match kind {
        HEADER_TRACING_DATA => order.u32(body, 0).map(|more| more as usize),
        AUXTRACE => order.u64(body, 0).and_then(|more| usize::try_from(more).ok()),
        _ => Some(0),
    };
    let start = at + size;
    match more.and_then(|more| start.checked_add(more)).filter(|behind| *behind <= end) {
        Some(end) => Next::Record(Record { kind, start: at, end, body, behind: start..end }),
        None => Next::End,
    }
}

/// The size of a record's head: its kind, flags, and its size.
const HEAD: usize = 8;

pub(super) const HEADER_TRACING_DATA: u32 = 66;
const AUXTRACE: u32 = 71;

/// The part of an event's attributes that tells how its samples are laid out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Attr {
    is_trace_point: bool,
    sample: u64,
    read: u64,
    /// Records that are no samples end with an excerpt of one.
    has_tail: bool,
}

const IP: u64 = 1 << 0;
const TID: u64 = 1 << 1;
const TIME: u64 = 1 << 2;
const ADDR: u64 = 1 << 3;
const READ: u64 = 1 << 4;
const CALLCHAIN: u64 = 1 << 5;
const ID: u64 = 1 << 6;
const CPU: u64 = 1 << 7;
const PERIOD: u64 = 1 << 8;
const STREAM_ID: u64 = 1 << 9;
const RAW: u64 = 1 << 10;
const IDENTIFIER: u64 = 1 << 16;
const SAMPLE_ID_ALL: u32 = 18;
/// `PERF_TYPE_TRACEPOINT` of the field `type`.
const TRACE_POINT: u32 = 2;

impl Attr {
    /// Reads the attributes, of which at least 64 bytes exist.
    pub(super) fn of(order: ByteOrder, bytes: &[u8]) -> Self {
        let word = |at| order.u64(bytes, at).unwrap_or(0);
        // Bit fields start at the other end where the byte order is the other.
        let bit = match order {
            ByteOrder::Little => SAMPLE_ID_ALL,
            ByteOrder::Big => 63 - SAMPLE_ID_ALL,
        };
        let is_trace_point = order.u32(bytes, 0) == Some(TRACE_POINT);
        Self { is_trace_point, sample: word(24), read: word(32), has_tail: word(40) >> bit & 1 == 1 }
    }

    /// Returns whether its samples are events of a trace point, and not of a counter.
    pub(super) const fn is_trace_point(&self) -> bool {
        self.is_trace_point
    }

    const fn has(&self, part: u64) -> bool {
        self.sample & part != 0
    }

    pub(super) const fn has_identifier(&self) -> bool {
        self.has(IDENTIFIER)
    }

    /// Returns the complaint if its samples lack a part that is needed.
    pub(super) fn missing(&self) -> Option<&'static str> {
        let parts = [
            (TIME, "samples have no time: record with `perf sched record`, or with `perf record -T`"),
            (CPU, "samples have no CPU: record with `perf sched record`, or with `perf record -a --sample-cpu`"),
            (RAW, "samples have no payload: record with `perf sched record`, or with `perf record -R`"),
        ];
        parts.iter().find(|(part, _)| !self.has(*part)).map(|(_, missing)| *missing)
    }

    /// Returns time and CPU from the end of a record that is no sample.
    pub(super) fn tail(&self, order: ByteOrder, body: &[u8]) -> (Option<u64>, Option<u32>) {
        if !self.has_tail {
            return (None, None);
        }
        let parts = [TID, TIME, ID, STREAM_ID, CPU, IDENTIFIER];
        let size = parts.iter().filter(|part| self.has(**part)).count() * 8;
        let Some(mut at) = body.len().checked_sub(size) else { return (None, None) };
        let (mut time, mut cpu) = (None, None);
        for part in parts.into_iter().filter(|part| self.has(*part)) {
            match part {
                TIME => time = order.u64(body, at),
                CPU => cpu = order.u32(body, at),
                _ => {}
            }
            at += 8;
        }
        (time, cpu)
    }
}

/// The used parts of a sample.
pub(super) struct Sample<'a> {
    pub(super) time: u64,
    pub(super) cpu: u32,
    /// Process id and thread id of the current task.
    pub(super) current: Option<(u32, u32)>,
    pub(super) raw: &'a [u8],
}

impl<'a> Sample<'a> {
    /// Reads a sample; `None` if it is too short.
    pub(super) fn of(order: ByteOrder, attr: &Attr, body: &'a [u8]) -> Option<Self> {
        let mut at = 0;
        let mut sample = Self { time: 0, cpu: 0, current: None, raw: &[] };
        for part in [IDENTIFIER, IP, TID, TIME, ADDR, ID, STREAM_ID, CPU, PERIOD] {
            if !attr.has(part) {
                continue;
            }
            match part {
                TID => sample.current = Some((order.u32(body, at)?, order.u32(body, at + 4)?)),
                TIME => sample.time = order.u64(body, at)?,
                CPU => sample.cpu = order.u32(body, at)?,
                _ => {}
            }
            at += 8;
        }
        if attr.has(READ) {
            at = at.checked_add(read_size(order, attr.read, body, at)?)?;
        }
        if attr.has(CALLCHAIN) {
            let frames = usize::try_from(order.u64(body, at)?).ok()?;
            at = at.checked_add(8)?.checked_add(frames.checked_mul(8)?)?;
        }
        let size = order.u32(body, at)? as usize;
        at = at.checked_add(4)?;
        sample.raw = body.get(at..at.checked_add(size)?)?;
        Some(sample)
    }
}

/// Returns the size of the values of a counter within a sample.
fn read_size(order: ByteOrder, format: u64, body: &[u8], at: usize) -> Option<usize> {
    const TIMES: [u64; 2] = [1 << 0, 1 << 1];
    const PER_VALUE: [u64; 2] = [1 << 2, 1 << 4];
    const GROUP: u64 = 1 << 3;
    let count = |bits: [u64; 2]| bits.into_iter().filter(|bit| format & bit != 0).count();
    let (times, value) = (count(TIMES), 1 + count(PER_VALUE));
    let words = if format & GROUP == 0 {
        times + value
    } else {
        let values = usize::try_from(order.u64(body, at)?).ok()?;
        values.checked_mul(value)?.checked_add(1 + times)?
    };
    words.checked_mul(8)
}

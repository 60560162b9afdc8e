//! [`File`] and [`Events`]: the contents of a file before its records, and its records as events.

use super::layout::{self, Attr, Next, Record, Sample};
use crate::error::ReadError;
use crate::file_bytes::FileBytes;
use crate::kernel::context::Context;
use crate::kernel::event::{Event, KernelEvent, TaskRef};
use crate::kernel::head::{Head, reserve};
use crate::kernel::raw::{ByteOrder, Decoder, text_of};
use crate::kernel::tids::TidTable;
use crate::kernel::tracing_data;
use core::ops::Range;
use std::collections::BTreeMap;
use std::io::Read;
use zerolag_model::{CpuId, Instant, MAX_CPUS};

/// What a file says before its records are read.
pub(super) struct File {
    pub(super) order: ByteOrder,
    pub(super) is_pipe: bool,
    attrs: Vec<Attr>,
    /// The index in `attrs` of each id of an event.
    ids: BTreeMap<u64, usize>,
    known: BTreeMap<u64, Decoder>,
    /// Whether it has the description of trace points, used or not.
    is_described: bool,
    kernel: String,
    cpus: u32,
    /// The packed parts of the records, in their order, if the file is read as a whole.
    pub(super) packed: Vec<u8>,
    pub(super) is_packed: bool,
    /// Whether the records were looked at for what they say of each other.
    pub(super) is_prepared: bool,
}

impl Default for File {
    fn default() -> Self {
        Self {
            order: ByteOrder::Little,
            is_pipe: true,
            attrs: Vec::new(),
            ids: BTreeMap::new(),
            known: BTreeMap::new(),
            is_described: false,
            kernel: String::new(),
            cpus: 0,
            packed: Vec::new(),
            is_packed: false,
            is_prepared: false,
        }
    }
}

/// A part of a file: offset and length.
#[derive(Clone, Copy)]
struct Section(u64, u64);

impl Section {
    /// Returns its range in a file of this length.
    fn range(self, len: usize) -> Option<Range<usize>> {
        let start = usize::try_from(self.0).ok()?;
        let end = start.checked_add(usize::try_from(self.1).ok()?)?;
        (end <= len).then_some(start..end)
    }
}

impl File {
    /// Reads what stands before the records, and what they say of each other; returns where they
    /// are.
    pub(super) fn read(place: FileBytes<'_>) -> Result<(Self, Range<usize>), ReadError> {
        let head = place.range(0..16)?;
        let order = if head.starts_with(b"PERFILE2") { ByteOrder::Little } else { ByteOrder::Big };
        let header = order.u64(&head, 8).ok_or_else(|| damaged(place.len(), "its header is cut off"))?;
        let mut file = Self { order, ..Self::default() };
        let data = if header == PIPE_HEADER { PIPE_HEADER as usize..place.len() } else { file.header(place)? };
        // What a file needs stands behind its records, so these are not read once more for what a
        // stream meets.
        file.is_prepared = file.is_pipe || file.known.is_empty() || matches!(place, FileBytes::Memory(_));
        if file.is_prepared {
            file.prepare(place, data.clone())?;
        }
        if !file.attrs.is_empty() && !file.attrs.iter().any(Attr::is_trace_point) {
            return Err(ReadError::Foreign { format: "perf.data of a CPU profile", hint: PROFILE });
        }
        if file.known.is_empty() && file.is_described {
            return Err(ReadError::NoEvents { dropped: None });
        }
        if file.known.is_empty() {
            let reason = "it has no description of trace points: perf was killed before it wrote it, or recorded none";
            return Err(damaged(place.len(), reason));
        }
        file.known.values_mut().for_each(|decoder| decoder.set_release(&file.kernel));
        Ok((file, data))
    }

    /// Reads the header and the parts that it names; returns where the records are.
    fn header(&mut self, place: FileBytes<'_>) -> Result<Range<usize>, ReadError> {
        self.is_pipe = false;
        let (order, len, bytes) = (self.order, place.len(), place.range(0..HEADER)?);
        let word = |at: usize| order.u64(&bytes, at).ok_or_else(|| damaged(len, "its header is cut off"));
        let section = |at: usize| Ok::<_, ReadError>(Section(word(at)?, word(at + 8)?));
        let (attr_size, attrs, data) = (word(16)?, section(24)?, section(40)?);
        let features: Vec<u32> = (0..256)
            .filter(|bit| word(72 + *bit as usize / 64 * 8).is_ok_and(|bits| bits >> (bit % 64) & 1 == 1))
            .collect();
        self.file_attrs(place, attrs, attr_size)?;
        if !self.attrs.is_empty() && !self.attrs.iter().any(Attr::is_trace_point) {
            // Nothing else of it matters.
            return Ok(0..0);
        }
        if data.1 == 0 {
            return Err(damaged(40, "perf was killed while it recorded: the header says that there is no record"));
        }
        let range = data.range(len).ok_or_else(|| {
            let end = data.0.saturating_add(data.1);
            damaged(len, &format!("it is cut off: its records end at byte {end}, and the formats follow"))
        })?;
        let sections = place.range(range.end..range.end.saturating_add(features.len() * 16))?;
        for (index, feature) in features.into_iter().enumerate() {
            let cut = || damaged(len, "it is cut off within its features");
            let word = |at| order.u64(&sections, index * 16 + at).ok_or_else(cut);
            let section = Section(word(0)?, word(8)?);
            match section.range(len) {
                Some(range) if FEATURES.contains(&feature) => {
                    let start = range.start;
                    self.feature(feature, &place.range(range)?, start)?;
                }
                // Only this one is needed.
                None if feature == TRACING_DATA => return Err(cut()),
                Some(_) | None => {}
            }
        }
        Ok(range)
    }

    /// Reads the events of a file: an attr each, and where its ids are.
    fn file_attrs(&mut self, place: FileBytes<'_>, section: Section, size: u64) -> Result<(), ReadError> {
        let wrong = |at| damaged(at, "the list of its events is damaged");
        let range = section.range(place.len()).ok_or_else(|| wrong(24))?;
        let size =
            usize::try_from(size).ok().filter(|size| (ATTR_MIN + 16..=4096).contains(size)).ok_or_else(|| wrong(16))?;
        let attrs = place.range(range.start..range.end.saturating_add(size))?;
        for at in range.clone().step_by(size) {
            let attr = attrs.get(at - range.start..).and_then(|attr| attr.get(..size)).ok_or_else(|| wrong(at))?;
            let word = |at| self.order.u64(attr, at).unwrap_or(0);
            let ids = Section(word(size - 16), word(size - 8)).range(place.len());
            let ids = place.range(ids.ok_or_else(|| wrong(at + size - 16))?)?;
            let index = self.attrs.len();
            self.attrs.push(Attr::of(self.order, attr));
            self.ids.extend(ids.chunks_exact(8).map(|id| (self.order.number(id), index)));
        }
        Ok(())
    }

    /// Reads a feature, which begins at this place.
    fn feature(&mut self, feature: u32, bytes: &[u8], at: usize) -> Result<(), ReadError> {
        match feature {
            TRACING_DATA => {
                self.known = known(bytes, at)?;
                self.is_described = true;
            }
            OS_RELEASE => self.kernel = bytes.get(4..).map(text_of).unwrap_or_default().chars().take(64).collect(),
            // Online CPUs come second.
            NR_CPUS => self.cpus = self.order.u32(bytes, 0).filter(|cpus| *cpus as usize <= MAX_CPUS).unwrap_or(0),
            _ => {}
        }
        Ok(())
    }

    /// Reads the records that tell how others are to be read, which a pipe has at its start, and
    /// collects packed ones.
    fn prepare(&mut self, place: FileBytes<'_>, range: Range<usize>) -> Result<(), ReadError> {
        place.records(self.order, range, |record| self.prepare_by(place, record)).map(drop)
    }

    #[inline]
    fn prepare_by(&mut self, place: FileBytes<'_>, record: &Record<'_>) -> Result<(), ReadError> {
        let body = record.body;
        match record.kind {
            HEADER_ATTR if self.is_pipe => {
                let size = self.order.u32(body, 4).map_or(0, |size| size as usize).max(ATTR_MIN);
                let attr = body.get(..size).ok_or_else(|| damaged(record.start, "an event's record is too short"))?;
                let index = self.attrs.len();
                self.attrs.push(Attr::of(self.order, attr));
                self.ids.extend(body[size..].chunks_exact(8).map(|id| (self.order.number(id), index)));
            }
            HEADER_TRACING_DATA => {
                self.known = known(&place.range(record.behind.clone())?, record.behind.start)?;
                self.is_described = true;
            }
            HEADER_FEATURE if self.is_pipe => {
                let feature = self.order.u64(body, 0).and_then(|id| u32::try_from(id).ok()).unwrap_or(0);
                if feature != TRACING_DATA && body.len() > 8 {
                    self.feature(feature, &body[8..], 8)?;
                }
            }
            COMPRESSED => self.pack(place, body),
            COMPRESSED2 => {
                let size = self.order.u64(body, 0).and_then(|size| usize::try_from(size).ok()).unwrap_or(0);
                self.pack(place, body.get(8..size.saturating_add(8)).unwrap_or_default());
            }
            _ => {}
        }
        Ok(())
    }

    fn pack(&mut self, place: FileBytes<'_>, body: &[u8]) {
        self.is_packed = true;
        if matches!(place, FileBytes::Memory(_)) {
            self.packed.extend_from_slice(body);
        }
    }

    /// Returns how a record's sample is laid out, whose id is at this place if it has one.
    fn attr(&self, body: &[u8], id_at: usize) -> Option<&Attr> {
        let first = self.attrs.first()?;
        if !first.has_identifier() {
            return Some(first);
        }
        let id = self.order.u64(body, id_at)?;
        Some(self.ids.get(&id).and_then(|index| self.attrs.get(*index)).unwrap_or(first))
    }
}

/// Returns whether a record changes how others are read, or has some packed in it.
pub(super) const fn is_preparation(kind: u32) -> bool {
    matches!(kind, HEADER_TRACING_DATA | COMPRESSED | COMPRESSED2)
}

/// Finds the events of records.
pub(super) struct Events<'f> {
    file: &'f File,
    head: Head,
    /// The time of the first sample.
    pub(super) first: Option<Instant>,
    /// Events that are named as lost, with and without their place: perf writes both.
    lost: (u64, u64),
    processes: TidTable<Option<u32>>,
}

impl<'f> Events<'f> {
    pub(super) fn of(file: &'f File) -> Self {
        Self { file, head: Head::of("perf.data"), first: None, lost: (0, 0), processes: TidTable::default() }
    }

    /// Reads records that are all in memory; returns where they end.
    pub(super) fn records<'a>(
        &mut self,
        bytes: &'a [u8],
        range: Range<usize>,
        found: &mut Vec<Event<'a>>,
    ) -> Result<usize, ReadError> {
        let mut at = range.start;
        while let Next::Record(record) = layout::next(self.file.order, &bytes[at..], at, range.end) {
            at = record.end;
            // A sample is at most an event, and its thread's process.
            reserve(found, 2)?;
            self.take(&record, &mut |event| found.push(event))?;
        }
        self.ends(at, range.end)?;
        Ok(at)
    }

    /// Checks where the records end.
    pub(super) fn ends(&self, at: usize, end: usize) -> Result<(), ReadError> {
        if at < end && !self.file.is_pipe {
            return Err(damaged(at, "a record is longer than the rest"));
        }
        Ok(())
    }

    /// Notes that the records behind a byte are missing.
    pub(super) fn cut_off(&mut self, end: usize) {
        self.head.dropped = Some(format!("the file is cut off; the records behind byte {end} were left out"));
    }

    /// Returns what the file and its records say besides events.
    pub(super) fn head(mut self) -> Head {
        self.head.lost = self.lost.1.saturating_sub(self.lost.0);
        self.head.kernel.clone_from(&self.file.kernel);
        self.head.cpus = self.head.cpus.max(self.file.cpus);
        self.head
    }

    /// Gives the events of a record.
    #[inline]
    pub(super) fn take<'a>(&mut self, record: &Record<'a>, give: &mut impl FnMut(Event<'a>)) -> Result<(), ReadError> {
        let done = match record.kind {
            SAMPLE => self.sample(record.body, give),
            LOST | LOST_SAMPLES | COMM | FORK => {
                self.remark(record.kind, record.body, give);
                Ok(())
            }
            _ => Ok(()),
        };
        done.map_err(|reason| damaged(record.start, reason))
    }

    fn sample<'a>(&mut self, body: &'a [u8], give: &mut impl FnMut(Event<'a>)) -> Result<(), &'static str> {
        let attr = self.file.attr(body, 0).ok_or("it has no list of events")?;
        // A counter beside the trace points.
        if attr.has_identifier() && !attr.is_trace_point() {
            return Ok(());
        }
        if let Some(missing) = attr.missing() {
            return Err(missing);
        }
        let sample = Sample::of(self.file.order, attr, body).ok_or("a sample is shorter than its event says")?;
        let order = self.file.order;
        let number = order.at(sample.raw, 0, 2).ok_or("a sample has no number of a trace point")?;
        let cpu = CpuId(sample.cpu);
        if cpu.index() >= MAX_CPUS {
            return Err("a sample is of a CPU beyond 4095");
        }
        let at = Instant::from_nanos(sample.time);
        self.first = Some(self.first.map_or(at, |first| first.min(at)));
        self.head.saw_cpu(cpu);
        if let Some((pid, tid)) = sample.current {
            self.process(at, cpu, pid, tid, give);
        }
        let Some(decoder) = self.file.known.get(&number) else { return Ok(()) };
        let event = decoder.decode(sample.raw).ok_or("an event has an impossible value")?;
        let current = sample.current.map(|(_, tid)| tid).filter(|tid| *tid != u32::MAX);
        // Byte 2 of every payload: flags.
        let context = Context::of_flags(sample.raw.get(2).copied().unwrap_or(0).into());
        give(Event { current, context, ..Event::new(at, cpu, event) });
        Ok(())
    }

    /// Notes the process of a thread. A thread that its parent has collected has the ids -1.
    fn process<'a>(&mut self, at: Instant, cpu: CpuId, pid: u32, tid: u32, give: &mut impl FnMut(Event<'a>)) {
        if tid == 0 || tid == u32::MAX || pid == u32::MAX || self.processes.entry(tid).replace(pid) == Some(pid) {
            return;
        }
        give(Event::new(at, cpu, KernelEvent::Process { tid, pid }));
    }

    /// Reads a record that is no sample. One that is too short tells nothing.
    fn remark<'a>(&mut self, kind: u32, body: &'a [u8], give: &mut impl FnMut(Event<'a>)) {
        let order = self.file.order;
        let Some(attr) = self.file.attr(body, body.len().saturating_sub(8)) else { return };
        let (time, cpu) = attr.tail(order, body);
        let (at, cpu) = (Instant::from_nanos(time.unwrap_or(0)), CpuId(cpu.unwrap_or(0)));
        match kind {
            LOST | LOST_SAMPLES => {
                let events = order.u64(body, if kind == LOST { 8 } else { 0 }).unwrap_or(0);
                if time.is_some_and(|time| time > 0) && cpu.index() < MAX_CPUS {
                    self.lost.0 = self.lost.0.saturating_add(events);
                    give(Event::new(at, cpu, KernelEvent::Lost { events }));
                } else {
                    self.lost.1 = self.lost.1.saturating_add(events);
                }
            }
            COMM => {
                let (Some(pid), Some(tid)) = (order.u32(body, 0), order.u32(body, 4)) else { return };
                self.process(at, CpuId(0), pid, tid, give);
                let name = body.get(8..).map(text_of).unwrap_or_default();
                let task = TaskRef { comm: name, tid };
                give(Event::new(at, CpuId(0), KernelEvent::Name { task }));
            }
            _ => {
                let (Some(pid), Some(tid)) = (order.u32(body, 0), order.u32(body, 8)) else { return };
                let at = order.u64(body, 16).map_or(at, Instant::from_nanos);
                self.process(at, CpuId(0), pid, tid, give);
            }
        }
    }
}

fn known(bytes: &[u8], at: usize) -> Result<BTreeMap<u64, Decoder>, ReadError> {
    tracing_data::read(bytes).map_err(|(offset, reason)| damaged(at + offset, reason))
}

/// Returns unpacked records.
pub(super) fn unpack(packed: &[u8], at: usize) -> Result<Vec<u8>, ReadError> {
    let mut unpacked = Vec::new();
    if packed.is_empty() {
        return Ok(unpacked);
    }
    let failed =
        |error: &dyn core::fmt::Display| damaged(at, &format!("its packed records cannot be unpacked: {error}"));
    // perf does not end the frame, and the decoder keeps the last window until the end: an empty
    // last block, and the space of a checksum.
    let end: &[u8] = &[1, 0, 0, 0, 0, 0, 0];
    let reader = ruzstd::decoding::StreamingDecoder::new(packed.chain(end)).map_err(|error| failed(&error))?;
    match reader.take(UNPACKED_MAX).read_to_end(&mut unpacked) {
        // A frame that is damaged within ends in a record that is cut off.
        Err(error) if unpacked.is_empty() => Err(failed(&error)),
        Ok(_) | Err(_) => Ok(unpacked),
    }
}

fn damaged(offset: usize, reason: &str) -> ReadError {
    ReadError::Damaged { format: "perf.data", offset: offset as u64, reason: reason.to_owned() }
}

/// The advice if a file has samples of counters only.
const PROFILE: &str = "it has no event of the scheduler: record with `perf sched record`";
/// The size of the header of a file.
const HEADER: usize = 104;
/// That of a file from a pipe.
pub(super) const PIPE_HEADER: u64 = 16;
/// The size of the first version of an event's attributes.
const ATTR_MIN: usize = 64;
/// The most bytes that packed records may unpack to.
const UNPACKED_MAX: u64 = 4 << 30;

const LOST: u32 = 2;
const COMM: u32 = 3;
const FORK: u32 = 7;
pub(super) const SAMPLE: u32 = 9;
const LOST_SAMPLES: u32 = 13;
pub(super) const HEADER_ATTR: u32 = 64;
pub(super) const HEADER_TRACING_DATA: u32 = layout::HEADER_TRACING_DATA;
pub(super) const FINISHED_ROUND: u32 = 68;
const HEADER_FEATURE: u32 = 80;
const COMPRESSED: u32 = 81;
const COMPRESSED2: u32 = 83;

const FEATURES: [u32; 3] = [TRACING_DATA, OS_RELEASE, NR_CPUS];
const TRACING_DATA: u32 = 1;
const OS_RELEASE: u32 = 4;
const NR_CPUS: u32 = 7;

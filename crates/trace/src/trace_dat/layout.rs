//! Where in a file what is: versions 6 and 7.

use super::ring::Page;
use crate::error::ReadError;
use crate::file_bytes::FileBytes;
use crate::kernel::raw::{ByteOrder, text_of};
use crate::kernel::tracing_data::{Cursor, Decoders};
use core::ops::Range;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io::Read;
use zerolag_model::{CpuId, Instant, MAX_CPUS};

/// The name of the format in headings.
pub(super) const FORMAT: &str = "trace.dat";

/// What a file contains.
pub(super) struct File<'a> {
    pub(super) order: ByteOrder,
    pub(super) decoders: Decoders,
    pub(super) kernel: String,
    pub(super) cpus: u32,
    /// Lost events by the statistics of the buffers.
    pub(super) lost: u64,
    /// Factor, shift and offset of ticks of the TSC.
    pub(super) tsc: Option<(u32, u32, u64)>,
    /// Added to every time.
    pub(super) offset: i64,
    packing: Packing,
    /// The top instance first.
    pub(super) contents: Vec<Contents<'a>>,
}

/// An instance.
pub(super) enum Contents<'a> {
    Buffer(Buffer),
    /// The text of tracefs, which trace-cmd stores for latency tracers.
    Text(Cow<'a, [u8]>),
}

/// The pages of an instance.
pub(super) struct Buffer {
    pub(super) clock: String,
    pub(super) page: Page,
    pub(super) parts: Vec<Part>,
}

/// The pages of a CPU.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) cpu: u32,
    /// Their place in the file.
    pub(super) range: Range<usize>,
    pub(super) is_packed: bool,
}

impl Part {
    /// Returns its CPU.
    pub(super) fn cpu(&self) -> Result<CpuId, ReadError> {
        let cpu = CpuId(self.cpu);
        let is_possible = cpu.index() < MAX_CPUS;
        is_possible.then_some(cpu).ok_or_else(|| damaged(self.range.start, "pages are of a CPU beyond 4095"))
    }

    /// Returns the error of a mistake at a place of its pages. The place in a packed file is that
    /// of the packed pages.
    pub(super) fn damaged(&self, at: usize, reason: &str) -> ReadError {
        let start = self.range.start;
        damaged(if self.is_packed { start } else { start.saturating_add(at) }, reason)
    }
}

/// Reads everything but events.
///
/// # Errors
/// The file is damaged, cut off or of another version.
pub(super) fn read(place: FileBytes<'_>) -> Result<File<'_>, ReadError> {
    let mut size = match place {
        FileBytes::Memory(bytes) => bytes.len(),
        FileBytes::File(..) => HEAD,
    };
    loop {
        let head = place.range(0..size)?;
        let mut cursor = Cursor::new(&head);
        let mut reader = Reader { place, file: File::new(ByteOrder::Little), unpacked: 0 };
        let done = reader.read(&mut cursor);
        let File { decoders, kernel, .. } = &mut reader.file;
        decoders.values_mut().for_each(|decoder| decoder.set_release(kernel));
        // The head of version 6 has all names of functions: its size is not known before.
        if done.is_err() && cursor.ran_out && head.len() < place.len() {
            size = size.saturating_mul(4);
            continue;
        }
        return done.map(|()| reader.file);
    }
}

impl File<'_> {
    pub(super) const fn new(order: ByteOrder) -> Self {
        Self {
            order,
            decoders: Decoders::new(),
            kernel: String::new(),
            cpus: 0,
            lost: 0,
            tsc: None,
            offset: 0,
            packing: Packing::None,
            contents: Vec::new(),
        }
    }

    /// Returns how times of a clock are read.
    ///
    /// # Errors
    /// The clock does not count time.
    pub(super) fn clock(&self, name: &str) -> Result<Clock, ReadError> {
        let scale = match name {
            "x86-tsc" => Some(self.tsc.ok_or_else(|| no_time(name))?),
            "counter" | "uptime" => return Err(no_time(name)),
            _ => None,
        };
        Ok(Clock { scale, offset: self.offset })
    }
}

fn no_time(clock: &str) -> ReadError {
    damaged(0, &format!("its clock is `{clock}`, whose unit is unknown: record with `-C mono`"))
}

/// From times of a buffer to those of the trace.
pub(super) struct Clock {
    scale: Option<(u32, u32, u64)>,
    offset: i64,
}

impl Clock {
    pub(super) fn time(&self, raw: u64) -> Instant {
        let nanos = match self.scale {
            None => raw,
            Some((factor, shift, offset)) => {
                let scaled = (u128::from(raw) * u128::from(factor)).checked_shr(shift).unwrap_or(0);
                u64::try_from(scaled).unwrap_or(u64::MAX).saturating_add(offset)
            }
        };
        Instant::from_nanos(nanos.saturating_add_signed(self.offset))
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Packing {
    None,
    Zlib,
    Zstd,
}

struct Reader<'a> {
    place: FileBytes<'a>,
    file: File<'a>,
    /// The bytes that were unpacked until now.
    unpacked: u64,
}

impl Reader<'_> {
    /// Reads everything but events; the cursor is over the beginning of the file.
    fn read(&mut self, cursor: &mut Cursor<'_>) -> Result<(), ReadError> {
        let (version, _) = cursor.begin().map_err(|reason| damaged(cursor.at, reason))?;
        self.file.order = cursor.order;
        match version {
            b"6\0" => self.version_6(cursor),
            b"7\0" => self.version_7(cursor),
            other => {
                let other = text_of(other).chars().take(8).collect::<String>().escape_debug().to_string();
                let reason =
                    format!("it has version `{other}`; 6 and 7 are read: `trace-cmd convert --file-version 7`");
                Err(damaged(10, &reason))
            }
        }
    }

    fn version_6(&mut self, cursor: &mut Cursor<'_>) -> Result<(), ReadError> {
        cursor.at = 0;
        let description = cursor.description().map_err(|reason| damaged(cursor.at, reason))?;
        self.file.decoders = description.decoders;
        let page = page(&description.header_page, description.page_size, cursor.at)?;
        let done = self.rest_of_6(cursor, page);
        done.map_err(|error| error.at(cursor.at))
    }

    /// The error is a reason at the place of the cursor, or one with its own place.
    fn rest_of_6(&mut self, cursor: &mut Cursor<'_>, page: Page) -> Result<(), Failed> {
        // Symbols, formats of printk, names of threads.
        for size in [4, 4, 8] {
            cursor.sized(size)?;
        }
        let cpus = cursor.u32()?;
        if cpus as usize > MAX_CPUS {
            return Err(Failed::Here("it is of more than 4096 CPUs"));
        }
        self.file.cpus = cpus;
        let mut instances = Vec::new();
        let mut clock = String::new();
        let mut kind = cursor.take(10)?;
        if kind == b"options  \0" {
            loop {
                let id = cursor.number(2)?;
                if id == DONE {
                    break;
                }
                let option = cursor.sized(4)?;
                match id {
                    BUFFER => instances.push(self.file.order.u64(option, 0).unwrap_or(u64::MAX)),
                    TRACE_CLOCK => clock = chosen(text_of(option)).to_owned(),
                    _ => self.option(id, option),
                }
            }
            kind = cursor.take(10)?;
        }
        self.instance_of_6(0, cursor, kind, &clock, page)?;
        for at in instances {
            let at = usize::try_from(at).unwrap_or(usize::MAX);
            // The kind, and place and size of each CPU's pages.
            let bytes = self.place.range(at..at.saturating_add(10 + 16 * cpus as usize)).map_err(ReadError::Io)?;
            let mut cursor = Cursor::with(self.file.order, &bytes);
            let done = cursor.take(10).map_err(Failed::from);
            let done = done.and_then(|kind| self.instance_of_6(at, &mut cursor, kind, &clock, page));
            done.map_err(|error| error.at(at.saturating_add(cursor.at)))?;
        }
        Ok(())
    }

    /// Reads an instance; the cursor is over the bytes from `base` on.
    fn instance_of_6(
        &mut self,
        base: usize,
        cursor: &mut Cursor<'_>,
        kind: &[u8],
        clock: &str,
        page: Page,
    ) -> Result<(), Failed> {
        match kind {
            b"latency  \0" => {
                let text = self.place.range(base.saturating_add(cursor.at)..self.place.len());
                self.file.contents.push(Contents::Text(text.map_err(ReadError::Io)?));
            }
            b"flyrecord\0" => {
                let mut parts = Vec::new();
                for cpu in 0..self.file.cpus {
                    let (at, size) = (cursor.number(8)?, cursor.number(8)?);
                    let range = self.range(at, size, base.saturating_add(cursor.at))?;
                    parts.push(Part { cpu, range, is_packed: false });
                }
                self.file.contents.push(Contents::Buffer(Buffer { clock: clock.to_owned(), page, parts }));
            }
            _ => return Err(Failed::Here("it has neither pages (flyrecord) nor text (latency) here")),
        }
        Ok(())
    }

    fn version_7(&mut self, cursor: &mut Cursor<'_>) -> Result<(), ReadError> {
        let (packing, first) = head_of_7(cursor).map_err(|reason| damaged(cursor.at, reason))?;
        self.file.packing = match packing {
            b"none" => Packing::None,
            b"zlib" => Packing::Zlib,
            b"zstd" => Packing::Zstd,
            other => {
                let other = String::from_utf8_lossy(other).chars().take(16).collect::<String>();
                let known = "none, zlib and zstd are read: `trace-cmd convert --compression none`";
                return Err(damaged(18, &format!("it is packed by `{}`; {known}", other.escape_debug())));
            }
        };
        let mut buffers = Vec::new();
        let mut header_page = None;
        let (mut next, mut seen) = (first, BTreeSet::new());
        while next != 0 {
            let at = usize::try_from(next).unwrap_or(usize::MAX);
            if !seen.insert(at) {
                return Err(damaged(at, "its lists of options form a circle"));
            }
            let section = self.section(at, OPTIONS)?;
            let mut options = Cursor::with(self.file.order, &section);
            loop {
                let wrong = |reason: &str| damaged(at, reason);
                let (Ok(id), Ok(option)) = (options.number(2), options.sized(4)) else {
                    return Err(wrong("the list of options in this section is cut off"));
                };
                let place = || usize::try_from(self.file.order.u64(option, 0)?).ok();
                match id {
                    DONE => {
                        next = self.file.order.u64(option, 0).unwrap_or(0);
                        break;
                    }
                    BUFFER | BUFFER_TEXT => buffers.push((id, option.to_vec(), at)),
                    HEADER_INFO => {
                        let at = place().ok_or_else(|| wrong("an option has no place"))?;
                        let section = self.section(at, HEADER_INFO)?;
                        let headers = Cursor::with(self.file.order, &section).headers();
                        header_page = Some(headers.map_err(|reason| damaged(at, reason))?);
                    }
                    EVENT_FORMATS => {
                        let at = place().ok_or_else(|| wrong("an option has no place"))?;
                        let section = self.section(at, EVENT_FORMATS)?;
                        let mut formats = Cursor::with(self.file.order, &section);
                        formats.systems(&mut self.file.decoders).map_err(|reason| damaged(at, reason))?;
                    }
                    _ => self.option(id, option),
                }
            }
        }
        // The top instance has no name.
        buffers.sort_by_key(|(_, option, _)| option.get(8) != Some(&0));
        for (id, option, at) in buffers {
            let place = usize::try_from(self.file.order.u64(&option, 0).unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
            if id == BUFFER_TEXT {
                let text = self.section(place, BUFFER_TEXT)?.into_owned();
                self.file.contents.push(Contents::Text(Cow::Owned(text)));
                continue;
            }
            let header_page = header_page.as_deref().ok_or_else(|| damaged(at, "it does not describe its pages"))?;
            self.instance_of_7(place, &option, header_page, at)?;
        }
        Ok(())
    }

    fn instance_of_7(&mut self, place: usize, option: &[u8], header: &str, at: usize) -> Result<(), ReadError> {
        let is_packed = self.section_head(place)?.is_packed;
        let mut cursor = Cursor::with(self.file.order, option);
        let mut list = || {
            cursor.take(8)?;
            cursor.text()?;
            let clock = chosen(text_of(cursor.text()?)).to_owned();
            let (size, count) = (cursor.u32()?, cursor.u32()?);
            let mut cpus = Vec::new();
            for _ in 0..count {
                cpus.push((cursor.u32()?, cursor.number(8)?, cursor.number(8)?));
            }
            Ok((clock, size, cpus))
        };
        let (clock, size, cpus) =
            list().map_err(|_: &str| damaged(at, "the list of pages in this section is cut off"))?;
        let page = page(header, size, at)?;
        let mut parts = Vec::new();
        for (cpu, offset, size) in cpus {
            let range = self.range(offset, size, at)?;
            let is_packed = is_packed && !range.is_empty();
            parts.push(Part { cpu, range, is_packed });
        }
        self.file.contents.push(Contents::Buffer(Buffer { clock, page, parts }));
        Ok(())
    }

    /// Takes what is used of an option that both versions have.
    fn option(&mut self, id: u64, option: &[u8]) {
        let order = self.file.order;
        match id {
            // `Linux host 6.12.95 x86_64`
            UNAME => {
                let release = text_of(option).split_ascii_whitespace().nth(2).unwrap_or_default();
                self.file.kernel = release.chars().take(64).collect();
            }
            CPU_COUNT => {
                let cpus = order.u32(option, 0).unwrap_or(0);
                self.file.cpus = if cpus as usize <= MAX_CPUS { cpus } else { self.file.cpus };
            }
            CPU_STAT => {
                for line in text_of(option).lines() {
                    let Some((key, number)) = line.split_once(": ") else { continue };
                    if ["overrun", "commit overrun", "dropped events"].contains(&key) {
                        self.file.lost = self.file.lost.saturating_add(number.trim().parse().unwrap_or(0));
                    }
                }
            }
            OFFSET => self.file.offset = text_of(option).trim().parse().unwrap_or(0),
            TSC_TO_NS => {
                if let (Some(factor), Some(shift), Some(offset)) =
                    (order.u32(option, 0), order.u32(option, 4), order.u64(option, 8))
                {
                    self.file.tsc = Some((factor, shift, offset));
                }
            }
            _ => {}
        }
    }

    /// Returns a part of the file, whose place is stated at `at`.
    fn range(&self, offset: u64, size: u64, at: usize) -> Result<Range<usize>, ReadError> {
        let range = usize::try_from(offset).ok().zip(usize::try_from(size).ok());
        let range = range.and_then(|(start, size)| Some(start..start.checked_add(size)?));
        let end = offset.saturating_add(size);
        range.filter(|range| range.end <= self.place.len()).ok_or_else(|| match size {
            0 => damaged(at, "a place is beyond the end of the file"),
            _ => damaged(self.place.len(), &format!("it is cut off: it has events up to byte {end}")),
        })
    }

    fn section_head(&self, start: usize) -> Result<Section, ReadError> {
        let bytes = self.place.range(start..start.saturating_add(SECTION_HEAD))?;
        let mut cursor = Cursor::with(self.file.order, &bytes);
        let mut head =
            || Ok::<_, &'static str>((cursor.number(2)?, cursor.number(2)?, cursor.u32()?, cursor.number(8)?));
        let (id, flags, _, size) = head().map_err(|_| {
            let end = self.place.len();
            damaged(end, &format!("it is cut off: it has a section at byte {start}"))
        })?;
        Ok(Section { id, is_packed: flags & 1 == 1, at: start + SECTION_HEAD, size })
    }

    /// Returns the bytes of a section, unpacked.
    fn section(&mut self, at: usize, id: u64) -> Result<Cow<'static, [u8]>, ReadError> {
        let section = self.section_head(at)?;
        if section.id != id {
            return Err(damaged(at, &format!("here is a section of kind {}, not {id}", section.id)));
        }
        let range = self.range(section.at as u64, section.size, at)?;
        if !section.is_packed {
            return Ok(Cow::Owned(self.place.range(range)?.into_owned()));
        }
        let mut at = range.start;
        self.file.chunk(self.place, &mut at, &mut self.unpacked).map(Cow::Owned)
    }
}

/// The pages of a CPU, read from the file bit by bit.
pub(super) struct Pages {
    /// The place of the bytes that come next.
    at: usize,
    end: usize,
    /// If they are packed, the number of chunks that remain, once it is known.
    packed: Option<Option<u32>>,
}

impl Pages {
    pub(super) fn of(part: &Part) -> Self {
        Self { at: part.range.start, end: part.range.end, packed: part.is_packed.then_some(None) }
    }

    /// Appends the next bytes; returns whether there were any. `unpacked` counts what was unpacked.
    ///
    /// # Errors
    /// Packed pages are damaged, or too long.
    pub(super) fn more(
        &mut self,
        file: &File<'_>,
        place: FileBytes<'_>,
        unpacked: &mut u64,
        to: &mut Vec<u8>,
    ) -> Result<bool, ReadError> {
        let Some(packed) = &mut self.packed else {
            let until = self.at.saturating_add(WINDOW).min(self.end);
            to.extend_from_slice(&place.range(self.at..until)?);
            return Ok(core::mem::replace(&mut self.at, until) < until);
        };
        if packed.is_none() {
            let bytes = place.range(self.at..self.at.saturating_add(4))?;
            let mut cursor = Cursor::with(file.order, &bytes);
            *packed = Some(cursor.u32().map_err(|reason| damaged(self.at, reason))?);
            self.at += 4;
        }
        let Some(count @ 1..) = packed else { return Ok(false) };
        *count -= 1;
        if self.at >= self.end {
            return Err(damaged(self.at, "packed pages end too early"));
        }
        to.append(&mut file.chunk(place, &mut self.at, unpacked)?);
        Ok(true)
    }
}

impl File<'_> {
    /// Returns all pages of a CPU.
    ///
    /// # Errors
    /// Packed pages are damaged, or too long.
    pub(super) fn pages<'b>(
        &self,
        place: FileBytes<'b>,
        part: &Part,
        unpacked: &mut u64,
    ) -> Result<Cow<'b, [u8]>, ReadError> {
        if !part.is_packed {
            return Ok(place.range(part.range.clone())?);
        }
        let (mut pages, mut bytes) = (Pages::of(part), Vec::new());
        while pages.more(self, place, unpacked, &mut bytes)? {}
        Ok(Cow::Owned(bytes))
    }

    /// Unpacks a part behind its packed and its unpacked size, and moves on behind it.
    fn chunk(&self, place: FileBytes<'_>, next: &mut usize, unpacked: &mut u64) -> Result<Vec<u8>, ReadError> {
        let at = *next;
        let cut = || damaged(at, "a packed part is cut off");
        let sizes = place.range(at..at.saturating_add(8))?;
        let size = |at| self.order.u32(&sizes, at).ok_or_else(cut);
        let (packed, size) = (size(0)? as usize, size(4)?);
        *next = at.saturating_add(8).saturating_add(packed);
        let bytes = place.range(at.saturating_add(8)..*next)?;
        if bytes.len() < packed {
            return Err(cut());
        }
        let packed = &*bytes;
        *unpacked = unpacked.saturating_add(u64::from(size));
        if *unpacked > UNPACKED_MAX {
            return Err(damaged(at, &format!("it unpacks to more than {} GiB", UNPACKED_MAX >> 30)));
        }
        let mut unpacked = Vec::new();
        let limit = u64::from(size) + 1;
        let done = match self.packing {
            Packing::None => return Err(damaged(at, "a part is packed in a file that says it is not")),
            Packing::Zlib => flate2::read::ZlibDecoder::new(packed).take(limit).read_to_end(&mut unpacked),
            Packing::Zstd => match ruzstd::decoding::StreamingDecoder::new(packed) {
                Ok(reader) => reader.take(limit).read_to_end(&mut unpacked),
                Err(error) => return Err(damaged(at, &format!("a packed part is damaged: {error}"))),
            },
        };
        done.map_err(|error| damaged(at, &format!("a packed part is damaged: {error}")))?;
        match unpacked.len() as u64 == u64::from(size) {
            true => Ok(unpacked),
            false => Err(damaged(at, "a packed part has another size than it says")),
        }
    }
}

struct Section {
    id: u64,
    is_packed: bool,
    /// The place and size of its bytes.
    at: usize,
    size: u64,
}

/// A mistake at the place of a cursor, or one that knows its place.
enum Failed {
    Here(&'static str),
    There(ReadError),
}

impl Failed {
    fn at(self, place: usize) -> ReadError {
        match self {
            Self::Here(reason) => damaged(place, reason),
            Self::There(error) => error,
        }
    }
}

impl From<&'static str> for Failed {
    fn from(_: &'static str) -> Self {
        Self::Here("it is cut off")
    }
}

impl From<ReadError> for Failed {
    fn from(error: ReadError) -> Self {
        Self::There(error)
    }
}

/// Returns the packing and the place of the first section of options.
fn head_of_7<'a>(cursor: &mut Cursor<'a>) -> Result<(&'a [u8], u64), &'static str> {
    let packing = cursor.text()?;
    cursor.text()?;
    Ok((packing.strip_suffix(b"\0").unwrap_or(packing), cursor.number(8)?))
}

fn page(header: &str, size: u32, at: usize) -> Result<Page, ReadError> {
    Page::of(header, size).ok_or_else(|| damaged(at, "the description of its pages is impossible"))
}

/// Returns the chosen word of `local [mono] boot`; the text itself if none is marked.
fn chosen(text: &str) -> &str {
    text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map_or(text.trim(), |(chosen, _)| chosen)
}

/// So much of a file is read to find its head, and of a CPU's pages at once.
const HEAD: usize = 1 << 20;
const WINDOW: usize = 1 << 14;
/// The size of the head of a section.
const SECTION_HEAD: usize = 16;
/// The most bytes that packed parts may unpack to.
const UNPACKED_MAX: u64 = 4 << 30;

const OPTIONS: u64 = 0;
const DONE: u64 = 0;
const CPU_STAT: u64 = 2;
const BUFFER: u64 = 3;
const TRACE_CLOCK: u64 = 4;
const UNAME: u64 = 5;
const OFFSET: u64 = 7;
const CPU_COUNT: u64 = 8;
const TSC_TO_NS: u64 = 14;
const HEADER_INFO: u64 = 16;
const EVENT_FORMATS: u64 = 18;
const BUFFER_TEXT: u64 = 22;

fn damaged(offset: usize, reason: &str) -> ReadError {
    ReadError::Damaged { format: "trace.dat", offset: offset as u64, reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    /// Unpacks what follows its two sizes.
    fn unpacked(packing: Packing, packed: &[u8], size: u32) -> Result<Vec<u8>, String> {
        let mut bytes = u32::try_from(packed.len()).expect("short").to_le_bytes().to_vec();
        bytes.extend(size.to_le_bytes());
        bytes.extend(packed);
        let file = File { packing, ..File::new(ByteOrder::Little) };
        file.chunk(FileBytes::Memory(&bytes), &mut 0, &mut 0).map_err(|error| error.to_string())
    }

    /// trace-cmd 3.1 of Debian has no zlib, others do.
    #[test]
    fn parts_packed_by_zlib_are_unpacked_and_bounded() {
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(&[7; 100_000]).expect("memory takes it");
        let packed = encoder.finish().expect("memory takes it");
        assert_eq!(unpacked(Packing::Zlib, &packed, 100_000), Ok(vec![7; 100_000]));
        for (packing, packed, size) in [
            (Packing::Zlib, &packed[..], 99_999),
            (Packing::Zlib, &packed[..], 100_001),
            (Packing::Zlib, &packed[..20], 100_000),
            (Packing::Zstd, &packed[..], 100_000),
            (Packing::None, &packed[..], 100_000),
            (Packing::Zstd, b"", 0),
        ] {
            let error = unpacked(packing, packed, size).expect_err("refused");
            assert!(error.contains("at byte 0"), "{error}");
        }
    }

    #[test]
    fn the_chosen_clock_is_in_brackets() {
        assert_eq!(chosen("local [mono] boot\n"), "mono");
        assert_eq!(chosen("mono"), "mono");
    }
}

//! The description of all trace points of a kernel, as `perf.data` and `trace.dat` contain it.
//!
//! ```text
//! 17 08 44 "tracing" version"\0"  byte order: u8   size of long: u8   page size: u32
//! "header_page\0" u64 text   "header_event\0" u64 text
//! u32 of ftrace (u64 text)*   u32 systems (name"\0" u32 (u64 text)*)*
//! ```
//!
//! A number before a text is its length; other parts follow. perf and trace-cmd to version 6 write
//! all of it in a row, version 7 of trace-cmd as sections. Source: Linux v6.12
//! `tools/perf/util/trace-event-info.c`; the manual page trace-cmd.dat.v6(5).

use super::format::Format;
use super::raw::{ByteOrder, Decoder};
use std::collections::BTreeMap;

/// The first bytes.
pub(crate) const MAGIC: &[u8] = b"\x17\x08\x44tracing";

/// The trace points that are used, by their number.
pub(crate) type Decoders = BTreeMap<u64, Decoder>;

/// The beginning of the description.
pub(crate) struct Description {
    pub(crate) decoders: Decoders,
    /// The text of `events/header_page`.
    pub(crate) header_page: String,
    /// The size of a page of the recorder's buffer.
    pub(crate) page_size: u32,
}

/// Returns the trace points that are used, by their number.
///
/// # Errors
/// The offset of the mistake, and the mistake.
pub(crate) fn read(bytes: &[u8]) -> Result<Decoders, (usize, &'static str)> {
    let mut cursor = Cursor::new(bytes);
    cursor.description().map(|description| description.decoders).map_err(|reason| (cursor.at, reason))
}

/// A place in the bytes of a file.
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    pub(crate) at: usize,
    pub(crate) order: ByteOrder,
    /// Whether more bytes were asked for than there are.
    pub(crate) ran_out: bool,
}

impl<'a> Cursor<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self::with(ByteOrder::Little, bytes)
    }

    pub(crate) const fn with(order: ByteOrder, bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, order, ran_out: false }
    }

    /// Reads the mark, the version and the order of bytes, up to the size of a page.
    pub(crate) fn begin(&mut self) -> Result<(&'a [u8], u32), &'static str> {
        if self.take(MAGIC.len())? != MAGIC {
            return Err("the description of trace points does not begin with its mark");
        }
        let version = self.text()?;
        self.order = match self.take(1)? {
            [0] => ByteOrder::Little,
            [1] => ByteOrder::Big,
            _ => return Err("the order of bytes is neither 0 (little endian) nor 1 (big endian)"),
        };
        self.take(1)?;
        let page_size = self.u32()?;
        Ok((version, page_size))
    }

    /// Reads the whole description.
    pub(crate) fn description(&mut self) -> Result<Description, &'static str> {
        let (_, page_size) = self.begin()?;
        let header_page = self.headers()?;
        let mut decoders = Decoders::new();
        self.group(&mut decoders)?;
        self.systems(&mut decoders)?;
        Ok(Description { decoders, header_page, page_size })
    }

    /// Reads the texts that describe a page and an event's header; returns the first.
    pub(crate) fn headers(&mut self) -> Result<String, &'static str> {
        let mut page = String::new();
        for name in [b"header_page\0".as_slice(), b"header_event\0"] {
            if self.take(name.len())? != name {
                return Err("the description of trace points has no page header");
            }
            let text = self.sized(8)?;
            if page.is_empty() {
                page = String::from_utf8_lossy(text).into_owned();
            }
        }
        Ok(page)
    }

    /// Reads the trace points of all systems.
    pub(crate) fn systems(&mut self, known: &mut Decoders) -> Result<(), &'static str> {
        for _ in 0..self.u32()? {
            self.text()?;
            self.group(known)?;
        }
        Ok(())
    }

    fn group(&mut self, known: &mut Decoders) -> Result<(), &'static str> {
        for _ in 0..self.u32()? {
            let text = String::from_utf8_lossy(self.sized(8)?);
            if let Some(format) = Format::parse(&text)
                && let Some(decoder) = Decoder::of(&format, self.order)
            {
                known.insert(format.id, decoder);
            }
        }
        Ok(())
    }

    /// Takes bytes behind their length, a number of so many bytes.
    pub(crate) fn sized(&mut self, number: usize) -> Result<&'a [u8], &'static str> {
        let size = usize::try_from(self.number(number)?).unwrap_or(usize::MAX);
        self.take(size)
    }

    /// Takes a text with its zero byte.
    pub(crate) fn text(&mut self) -> Result<&'a [u8], &'static str> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        // Without a zero byte it is longer than the rest.
        let end = rest.iter().position(|byte| *byte == 0).unwrap_or(rest.len());
        self.take(end + 1)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, &'static str> {
        self.number(4).map(|number| number as u32)
    }

    pub(crate) fn number(&mut self, size: usize) -> Result<u64, &'static str> {
        let order = self.order;
        self.take(size).map(|bytes| order.number(bytes))
    }

    pub(crate) fn take(&mut self, size: usize) -> Result<&'a [u8], &'static str> {
        let end = self.at.saturating_add(size);
        let bytes = self.bytes.get(self.at..end).filter(|bytes| bytes.len() == size);
        let Some(bytes) = bytes else {
            self.ran_out = true;
            return Err(CUT);
        };
        self.at = end;
        Ok(bytes)
    }
}

const CUT: &str = "the description of trace points is cut off";

//! The description of all trace points of a kernel, as `perf.data` and `trace.dat` (to version 6)
//! contain it.
//!
//! ```text
//! 17 08 44 "tracing" version"\0"  byte order: u8   size of long: u8   page size: u32
//! "header_page\0" u64 text   "header_event\0" u64 text
//! u32 of ftrace (u64 text)*   u32 systems (name"\0" u32 (u64 text)*)*
//! ```
//!
//! A number before a text is its length; other parts follow that are not used here. Source: Linux
//! v6.12 `tools/perf/util/trace-event-info.c`.

use super::format::Format;
use super::raw::{ByteOrder, Decoder};
use std::collections::BTreeMap;

/// The first bytes.
pub(crate) const MAGIC: &[u8] = b"\x17\x08\x44tracing";

/// Returns the trace points that are used, by their number.
///
/// # Errors
/// The offset of the mistake, and the mistake.
pub(crate) fn read(bytes: &[u8]) -> Result<BTreeMap<u64, Decoder>, (usize, &'static str)> {
    let mut reader = Reader { bytes, at: 0, order: ByteOrder::Little };
    reader.read().map_err(|reason| (reader.at, reason))
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    order: ByteOrder,
}

impl<'a> Reader<'a> {
    fn read(&mut self) -> Result<BTreeMap<u64, Decoder>, &'static str> {
        if self.take(MAGIC.len())? != MAGIC {
            return Err("the description of trace points does not begin with its mark");
        }
        self.text()?;
        self.order = if self.take(1)? == [1] { ByteOrder::Big } else { ByteOrder::Little };
        self.take(1)?;
        self.number(4)?;
        for name in [b"header_page\0".as_slice(), b"header_event\0"] {
            if self.take(name.len())? != name {
                return Err("the description of trace points has no page header");
            }
            self.sized()?;
        }
        let mut known = BTreeMap::new();
        self.group(&mut known)?;
        for _ in 0..self.number(4)? {
            self.text()?;
            self.group(&mut known)?;
        }
        Ok(known)
    }

    fn group(&mut self, known: &mut BTreeMap<u64, Decoder>) -> Result<(), &'static str> {
        for _ in 0..self.number(4)? {
            let text = String::from_utf8_lossy(self.sized()?);
            if let Some(format) = Format::parse(&text)
                && let Some(decoder) = Decoder::of(&format, self.order)
            {
                known.insert(format.id, decoder);
            }
        }
        Ok(())
    }

    fn sized(&mut self) -> Result<&'a [u8], &'static str> {
        let size = usize::try_from(self.number(8)?).unwrap_or(usize::MAX);
        self.take(size)
    }

    fn text(&mut self) -> Result<&'a [u8], &'static str> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let end = rest.iter().position(|byte| *byte == 0).ok_or(CUT)?;
        self.take(end + 1)
    }

    fn number(&mut self, size: usize) -> Result<u64, &'static str> {
        let order = self.order;
        self.take(size).map(|bytes| order.number(bytes))
    }

    fn take(&mut self, size: usize) -> Result<&'a [u8], &'static str> {
        let end = self.at.checked_add(size).ok_or(CUT)?;
        let bytes = self.bytes.get(self.at..end).ok_or(CUT)?;
        self.at = end;
        Ok(bytes)
    }
}

const CUT: &str = "the description of trace points is cut off";

//! The pages of the kernel's ring buffer.
//!
//! ```text
//! page   u64 time   long: size of the events, bit 31: events were lost, bit 30: their number
//!        events ...   the number of lost events: long
//! event  u32: 5 bits of kind, 27 bits of time since the event before
//!        kind 1..=28  payload of so many words          0   u32 size (with itself), payload
//!             29      padding: to the end of the page, or u32 size if it has a time
//!             30      u32: more bits of time             31  u32: more bits of an absolute time
//! ```
//!
//! Where the size and the first event are says the text `events/header_page` of the kernel.
//! Source: Linux v6.12 `include/linux/ring_buffer.h`, `kernel/trace/ring_buffer.c`.

use crate::kernel::raw::ByteOrder;

/// How a page is laid out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Page {
    /// Its size in bytes.
    pub(super) size: usize,
    /// The place and length of the size of its events.
    commit: (usize, usize),
    /// The place of its first event.
    data: usize,
}

impl Page {
    /// Returns the layout that the text of `events/header_page` describes; `None` if it is not
    /// possible.
    pub(super) fn of(text: &str, size: u32) -> Option<Self> {
        let place = |name: &str| {
            let line = text.lines().find(|line| line.split(';').next().is_some_and(|field| field.ends_with(name)))?;
            let number = |key: &str| {
                line.split(';').find_map(|part| part.trim().strip_prefix(key)).and_then(|number| number.parse().ok())
            };
            Some((number("offset:")?, number("size:")?))
        };
        let (commit, (data, _)): (_, (usize, usize)) = (place(" commit")?, place(" data")?);
        let size = usize::try_from(size).ok()?;
        let is_possible = matches!(commit, (8, 4 | 8)) && (12..=64).contains(&data) && (256..=PAGE_MAX).contains(&size);
        is_possible.then_some(Self { size, commit, data })
    }
}

/// A part of a page, at the time of its buffer's clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Item<'a> {
    /// Events were lost here; 0 if their number is unknown.
    Lost(u64),
    /// The payload of an event.
    Event(&'a [u8]),
}

/// The pages of one CPU.
pub(super) struct Ring<'a> {
    order: ByteOrder,
    page: Page,
    bytes: &'a [u8],
    /// The place of the page, and of the next event.
    start: usize,
    next: usize,
    /// The end of the page's events.
    end: usize,
    time: u64,
}

impl<'a> Ring<'a> {
    pub(super) const fn new(order: ByteOrder, page: Page, bytes: &'a [u8]) -> Self {
        Self { order, page, bytes, start: 0, next: 0, end: 0, time: 0 }
    }

    /// Returns the place of the next event.
    pub(super) const fn at(&self) -> usize {
        self.next
    }

    /// Returns the next part, with its time; `None` at the end. Complexity: O(1), over padding
    /// O(padding).
    ///
    /// # Errors
    /// A page or an event is impossible.
    pub(super) fn next(&mut self) -> Result<Option<(u64, Item<'a>)>, &'static str> {
        loop {
            if self.next >= self.end {
                match self.turn()? {
                    None => return Ok(None),
                    Some(0) => {}
                    Some(lost) => return Ok(Some((self.time, Item::Lost(lost - 1)))),
                }
                continue;
            }
            if let Some(payload) = self.event()? {
                return Ok(Some((self.time, Item::Event(payload))));
            }
        }
    }

    /// Turns to the next page. Returns one more than the number of events that were lost before
    /// it, 0 if none was; `None` at the end.
    fn turn(&mut self) -> Result<Option<u64>, &'static str> {
        // The first page is at 0, the next one behind this one.
        if self.end > 0 {
            self.start += self.page.size;
        }
        self.next = self.start;
        if self.start >= self.bytes.len() {
            return Ok(None);
        }
        let cut = "a page of events is cut off";
        let (at, size) = self.page.commit;
        let time = self.order.u64(self.bytes, self.start).ok_or(cut)?;
        let commit = self.order.at(self.bytes, self.start + at, size).ok_or(cut)?;
        let used = (commit & COMMIT_MASK) as usize;
        if used > self.page.size - self.page.data {
            return Err("a page says that its events are longer than a page");
        }
        self.time = time;
        self.next = self.start + self.page.data;
        self.end = self.next + used;
        if self.end > self.bytes.len() {
            return Err(cut);
        }
        if commit & MISSED == 0 {
            return Ok(Some(0));
        }
        let has_number = commit & MISSED_STORED != 0 && self.end + size <= self.start + self.page.size;
        let number = has_number.then(|| self.order.at(self.bytes, self.end, size)).flatten().unwrap_or(0);
        // Also an empty page counts.
        Ok(Some(number.saturating_add(1)))
    }

    /// Reads the next event of the page; returns its payload if it has one.
    fn event(&mut self) -> Result<Option<&'a [u8]>, &'static str> {
        let long = "an event is longer than its page";
        let page = &self.bytes[..self.end];
        let word = |at: usize| self.order.u32(page, at).ok_or(long);
        let head = word(self.next)?;
        let (kind, delta) = match self.order {
            ByteOrder::Little => (head & 0x1f, u64::from(head >> 5)),
            ByteOrder::Big => (head >> 27, u64::from(head & 0x07ff_ffff)),
        };
        let behind = self.next + 4;
        let (from, until) = match kind {
            PADDING if delta == 0 => {
                self.next = self.end;
                return Ok(None);
            }
            TIME_EXTEND | TIME_STAMP => {
                let time = u64::from(word(behind)?) << 27 | delta;
                self.time = match kind {
                    // The highest bits of an absolute time do not fit: they are those of before.
                    TIME_STAMP => self.time & STAMP_HIGH | time,
                    _ => self.time.wrapping_add(time),
                };
                self.next = behind + 4;
                return Ok(None);
            }
            0 | PADDING => {
                let size = word(behind)? as usize;
                if size < 4 {
                    return Err("an event is shorter than its own size");
                }
                (behind + 4, behind.checked_add(size).ok_or(long)?)
            }
            words => (behind, behind + words as usize * 4),
        };
        let payload = page.get(from..until).ok_or(long)?;
        self.time = self.time.wrapping_add(delta);
        self.next = until.next_multiple_of(4);
        Ok((kind != PADDING).then_some(payload))
    }
}

/// Larger than the pages of any architecture, and than the sub-buffers that a user can choose.
const PAGE_MAX: usize = 1 << 24;
const COMMIT_MASK: u64 = (1 << 27) - 1;
const MISSED: u64 = 1 << 31;
const MISSED_STORED: u64 = 1 << 30;
const STAMP_HIGH: u64 = 0xf8 << 56;
const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\tfield: local_t commit;\toffset:8;\t\
                          size:8;\tsigned:1;\n\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\tfield: char \
                          data;\toffset:16;\tsize:4080;\tsigned:0;\n";

    /// The parts of pages whose words are given; every page begins at time 1000.
    fn parts(order: ByteOrder, pages: &[(u64, &[u32])]) -> Result<Vec<(u64, usize)>, &'static str> {
        let page = Page::of(HEADER, 256).expect("a layout");
        let mut bytes = Vec::new();
        let long = |value: u64| if order == ByteOrder::Big { value.to_be_bytes() } else { value.to_le_bytes() };
        let word = |value: u32| if order == ByteOrder::Big { value.to_be_bytes() } else { value.to_le_bytes() };
        for (commit, words) in pages {
            let start = bytes.len();
            bytes.extend(long(1000));
            bytes.extend(long(*commit));
            words.iter().for_each(|value| bytes.extend(word(*value)));
            bytes.resize(start + 256, 0);
        }
        let mut ring = Ring::new(order, page, &bytes);
        let mut parts = Vec::new();
        while let Some((time, item)) = ring.next()? {
            // A loss is a negative length, so to say.
            parts.push((
                time,
                match item {
                    Item::Lost(lost) => 1_000_000 + lost as usize,
                    Item::Event(payload) => payload.len(),
                },
            ));
        }
        Ok(parts)
    }

    const fn head(kind: u32, delta: u32) -> u32 {
        delta << 5 | kind
    }

    #[test]
    fn every_kind_of_event_is_read() {
        let words = [
            head(2, 5),
            1,
            2, // a payload of 8 bytes, 5 later
            head(0, 7),
            12,
            3,
            4, // one with its size: 8 bytes
            head(TIME_EXTEND, 1),
            1, // 2^27 + 1 later
            head(PADDING, 1),
            8,
            9, // a discarded event
            head(1, 0),
            5,
            head(TIME_STAMP, 3),
            0, // the absolute time 3
            head(1, 1),
            6,
            head(PADDING, 0),
            0,
            0, // nothing more
        ];
        let size = 4 * words.len() as u64;
        let far = 1000 + 5 + 7 + (1 << 27) + 1 + 1;
        assert_eq!(parts(ByteOrder::Little, &[(size, &words)]), Ok(vec![(1005, 8), (1012, 8), (far, 4), (4, 4)]));
        // An empty page, and the next one.
        assert_eq!(parts(ByteOrder::Little, &[(0, &[]), (8, &[head(1, 2), 0])]), Ok(vec![(1002, 4)]));
    }

    #[test]
    fn the_other_byte_order_has_the_kind_in_the_highest_bits() {
        assert_eq!(parts(ByteOrder::Big, &[(8, &[1 << 27 | 9, 0])]), Ok(vec![(1009, 4)]));
    }

    #[test]
    fn lost_events_are_parts() {
        let event = [head(1, 2), 0, 77, 0];
        assert_eq!(
            parts(ByteOrder::Little, &[(8 | MISSED | MISSED_STORED, &event), (8 | MISSED, &event)]),
            Ok(vec![(1000, 1_000_077), (1002, 4), (1000, 1_000_000), (1002, 4)])
        );
    }

    #[test]
    fn impossible_sizes_are_refused() {
        for (commit, words) in [
            (241, &[][..]),
            (COMMIT_MASK, &[]),
            (4, &[head(1, 2)]),
            (2, &[head(1, 2)]),
            (8, &[head(0, 2), 3]),
            (8, &[head(0, 2), u32::MAX]),
            (4, &[head(TIME_EXTEND, 2)]),
        ] {
            assert!(parts(ByteOrder::Little, &[(commit, words)]).is_err(), "{commit} {words:?}");
        }
        for (text, size) in
            [("", 4096), (HEADER, 0), (HEADER, u32::MAX), (&HEADER.replace("offset:8", "offset:99"), 4096)]
        {
            assert_eq!(Page::of(text, size), None);
        }
    }
}

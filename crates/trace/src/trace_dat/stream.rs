//! A file whose pages are read one by one, three times
//! ([`kernel::stream`](crate::kernel::stream)).
//!
//! The events of a CPU are in order, so the CPUs are merged: of each the events of one page are in
//! memory, and the earliest event of all comes next. Of one instant the CPUs come in their order
//! in the file, as in the stable sort of a file that is kept.
//!
//! * The events of a CPU that are not in order: the file must be kept.
//! * A mistake is met in order of time. Then the pages are read CPU by CPU, so that the error is
//!   that of a file that is kept.

use super::decode::next;
use super::layout::{self, Buffer, Clock, Contents, FORMAT, File, Pages, Part};
use super::ring::Ring;
use crate::error::ReadError;
use crate::file_bytes::{self, FileBytes};
use crate::kernel::event::{Event, KernelEvent};
use crate::kernel::pool::{Names, Pool};
use crate::kernel::stream::{Source, Stop, Way};
use crate::kernel::{Head, is_scheduling};
use core::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::path::Path;
use zerolag_model::{CpuId, Instant};

/// Reads a file in a way; `None` if it has to be read as a whole.
///
/// # Errors
/// As [`read`](super::read).
pub(crate) fn each<W: Way>(path: &Path, way: W) -> Result<Option<W::Done>, ReadError> {
    let Some((file, len)) = file_bytes::open(path)? else { return Ok(None) };
    let place = FileBytes::File(&file, len);
    let said = layout::read(place)?;
    for content in &said.contents {
        let Contents::Buffer(buffer) = content else { return Ok(None) };
        let pool = Pool::default();
        let clock = said.clock(&buffer.clock)?;
        let instance = Instance { place, file: &said, buffer, clock };
        if instance.has_events()? {
            return way.read(&mut Recording { instance, names: Names::new(&pool) });
        }
    }
    Err(ReadError::NoEvents { dropped: None })
}

/// The pages of one instance.
struct Instance<'f> {
    place: FileBytes<'f>,
    file: &'f File<'f>,
    buffer: &'f Buffer,
    clock: Clock,
}

impl Instance<'_> {
    /// Returns whether it has an event of the scheduler.
    fn has_events(&self) -> Result<bool, ReadError> {
        for part in &self.buffer.parts {
            let mut pages = PageReader::of(part);
            loop {
                let mut has_events = false;
                let mut see = |event: &Event<'_>| has_events |= is_scheduling(event);
                let page = part.cpu().and_then(|cpu| self.page(&mut pages, cpu, &mut see));
                match page.map_err(|error| self.first_error(error))? {
                    _ if has_events => return Ok(true),
                    true => {}
                    false => break,
                }
            }
        }
        Ok(false)
    }

    /// Returns the error of a file that is kept; `met` is one of its mistakes.
    fn first_error(&self, met: ReadError) -> ReadError {
        let unpack = |part: &Part| {
            let (mut pages, mut bytes) = (Pages::of(part), Vec::new());
            while part.is_packed && pages.more(self.file, self.place, &mut 0, &mut bytes)? {
                bytes.clear();
            }
            Ok(())
        };
        let read = |part: &Part| {
            let (cpu, mut pages) = (part.cpu()?, PageReader::of(part));
            while self.page(&mut pages, cpu, &mut |_| {})? {}
            Ok(())
        };
        let parts = &self.buffer.parts;
        parts.iter().try_for_each(unpack).and_then(|()| parts.iter().try_for_each(read)).err().unwrap_or(met)
    }

    /// Gives the events of the next page of a CPU; returns whether there was one.
    fn page(
        &self,
        pages: &mut PageReader<'_>,
        cpu: CpuId,
        give: &mut impl FnMut(&Event<'_>),
    ) -> Result<bool, ReadError> {
        let (file, page, part) = (self.file, self.buffer.page, pages.part);
        let Some((start, bytes)) = pages.next(file, self.place, page.size)? else { return Ok(false) };
        let mut ring = Ring::new(file.order, page, bytes);
        let wrong = |ring: &Ring<'_>, reason| part.damaged(start.saturating_add(ring.at()), reason);
        while let Some(event) = next(file, &self.clock, cpu, &mut ring).map_err(|reason| wrong(&ring, reason))? {
            give(&event);
        }
        Ok(true)
    }
}

/// The pages of a CPU, one at a time.
struct PageReader<'f> {
    part: &'f Part,
    pages: Pages,
    /// What was read of them, and the place in it of the next page.
    bytes: Vec<u8>,
    next: usize,
    /// The place of the next page among all.
    start: usize,
}

impl<'f> PageReader<'f> {
    fn of(part: &'f Part) -> Self {
        Self { part, pages: Pages::of(part), bytes: Vec::new(), next: 0, start: 0 }
    }

    /// Returns the place of the next page among all, and the page; `None` at the end. The last one
    /// can be shorter.
    fn next(
        &mut self,
        file: &File<'_>,
        place: FileBytes<'_>,
        size: usize,
    ) -> Result<Option<(usize, &[u8])>, ReadError> {
        if self.bytes.len() - self.next < size {
            self.bytes.drain(..self.next);
            self.next = 0;
            // Each chunk is bounded, and none is kept.
            while self.bytes.len() < size && self.pages.more(file, place, &mut 0, &mut self.bytes)? {}
        }
        let end = (self.next + size).min(self.bytes.len());
        let page = &self.bytes[self.next..end];
        self.next = end;
        let start = self.start;
        self.start = start.saturating_add(size);
        Ok((!page.is_empty()).then_some((start, page)))
    }
}

/// A CPU whose events are merged with those of others.
struct Lane<'p, 'f> {
    cpu: CpuId,
    pages: PageReader<'f>,
    /// The events of its page that come next.
    events: VecDeque<Event<'p>>,
    last: Instant,
}

/// An instance, and the names in it.
struct Recording<'p, 'f> {
    instance: Instance<'f>,
    names: Names<'p>,
}

impl<'f> Instance<'f> {
    /// Reads pages until there is an event; returns the time of the first. `None` at the end.
    fn fill<'p>(&self, lane: &mut Lane<'p, 'f>, names: &mut Names<'p>) -> Result<Option<Instant>, Stop> {
        loop {
            if let Some(first) = lane.events.front() {
                return Ok(Some(first.at));
            }
            let mut is_ordered = true;
            let (events, last) = (&mut lane.events, &mut lane.last);
            let mut keep = |event: &Event<'_>| {
                is_ordered &= *last <= event.at;
                *last = event.at;
                events.push_back(event.with_names(|task| names.keep_of(task.tid, task.comm)));
            };
            let page = self.page(&mut lane.pages, lane.cpu, &mut keep);
            match page.map_err(|error| Stop::Error(self.first_error(error)))? {
                _ if !is_ordered => return Err(Stop::Whole),
                true => {}
                false => return Ok(None),
            }
        }
    }

    /// Gives the events of all CPUs in order of time.
    fn merge<'p>(&self, names: &mut Names<'p>, give: &mut dyn FnMut(&Event<'p>)) -> Result<Head, Stop> {
        let mut head = Head { cpus: self.file.cpus, kernel: self.file.kernel.clone(), ..Head::of(FORMAT) };
        let (mut lanes, mut first) = (Vec::new(), BinaryHeap::new());
        for (index, part) in self.buffer.parts.iter().enumerate() {
            let cpu = part.cpu().map_err(|error| Stop::Error(self.first_error(error)))?;
            head.saw_cpu(cpu);
            let pages = PageReader::of(part);
            let mut lane = Lane { cpu, pages, events: VecDeque::new(), last: Instant::ZERO };
            if let Some(at) = self.fill(&mut lane, names)? {
                first.push(Reverse((at, index)));
            }
            lanes.push(lane);
        }
        let mut placed: u64 = 0;
        while let Some(Reverse((_, index))) = first.pop() {
            let (lane, others) = (&mut lanes[index], first.peek());
            // Nothing of another CPU comes before these.
            let mut at = self.fill(lane, names)?;
            while at.is_some_and(|at| others.is_none_or(|Reverse(other)| (at, index) < *other)) {
                let Some(event) = lane.events.pop_front() else { break };
                if let KernelEvent::Lost { events } = event.event {
                    placed = placed.saturating_add(events);
                }
                give(&event);
                at = self.fill(lane, names)?;
            }
            first.extend(at.map(|at| Reverse((at, index))));
        }
        head.lost = self.file.lost.saturating_sub(placed);
        Ok(head)
    }
}

impl<'p> Source<'p> for Recording<'p, '_> {
    fn read(&mut self, give: &mut dyn FnMut(&Event<'p>)) -> Result<Head, Stop> {
        self.instance.merge(&mut self.names, give)
    }
}

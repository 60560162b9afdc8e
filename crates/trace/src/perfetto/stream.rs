//! A file that is read packet by packet: once for the order of its events, and then two or three
//! times, as other recordings ([`kernel::stream`](crate::kernel::stream)).
//!
//! Perfetto reads the CPUs' buffers in turn, a packet or more of each, and begins again after a
//! period. A packet is in order, but the next one begins earlier. How much earlier is not told: of
//! a busy CPU only a part is read in a turn, several recorders have their own packets, and a
//! service that writes the file all few seconds puts the packets of one recorder before those of
//! the next. So no rule of rounds holds. The key is that the times are little: the first reading
//! finds, for each block of the file, the earliest time in it and in all later ones. When the
//! events of a block have been read, those up to that time are in order, and are given.
//!
//! ```text
//! block      1: 10-19   2: 15-29   3: 12-38   4: 31-49
//! earliest behind it:  12         12         31
//! given                10-12      -          13-31     32-49
//! ```
//!
//! The order is that of the stable sort of a file that is kept. In memory are the events that wait:
//! as many as are written in a turn of all CPUs, or of all recorders. There are at most
//! [`BLOCKS_MAX`] blocks: they grow with the file.
//!
//! Source: Perfetto `src/traced/probes/ftrace/ftrace_controller.cc`, `ReadTickForInstance`,
//! `kMaxPagesPerCpuPerReadTick`.

use super::packets;
use super::reader::{FORMAT, Lists, Packet, Reader, cut_off};
use super::schema::{ProcessTree, SystemInfo};
use crate::error::ReadError;
use crate::kernel::Head;
use crate::kernel::event::Event;
use crate::kernel::pool::{Names, Pool};
use crate::kernel::state::{Seen, States};
use crate::kernel::stream::{Source, Stop, Way};
use crate::packed::Input;
use prost::Message;
use zerolag_model::Instant;

/// Reads a file in a way; `None` if it has to be read as a whole.
///
/// # Errors
/// As [`read`](super::reader::read).
pub(crate) fn each<W: Way>(input: &Input<'_>, way: W) -> Result<Option<W::Done>, ReadError> {
    let length = input.len()?;
    let (mut blocks, mut lists) = (Blocks::default(), Lists::default());
    let (mut seen, mut told) = (Seen::default(), None);
    let outline = packets::stream(input.open()?, length, |at, packet: Outline| {
        if let Some(bundle) = packet.ftrace_events {
            blocks.saw(at, bundle.earliest());
            bundle.states().for_each(|number| seen.note(number));
        }
        if let Some(info) = packet.system_info {
            told = States::of_release(&info.release());
        }
        lists.take(packet.process_tree);
    });
    match outline {
        // It can be no trace: more than its beginning has to be looked at.
        Err(ReadError::Damaged { offset: 0, .. }) => return Ok(None),
        // The next reading meets the same mistake, or one that comes before it.
        Ok(_) | Err(ReadError::Damaged { .. }) => {}
        Err(error) => return Err(error),
    }
    let pool = Pool::default();
    let states = told.unwrap_or_else(|| seen.states());
    let recording = Recording { input, length, lists: &lists, states, blocks: blocks.done(), names: Names::new(&pool) };
    way.read(&mut { recording })
}

struct Recording<'p, 'f> {
    input: &'f Input<'f>,
    length: Option<usize>,
    lists: &'p Lists,
    states: States,
    blocks: Blocks,
    names: Names<'p>,
}

impl<'p> Source<'p> for Recording<'p, '_> {
    fn read(&mut self, give: &mut dyn FnMut(&Event<'p>)) -> Result<Head, Stop> {
        let mut head = Head::of(FORMAT);
        let mut reader = Reader::new(self.lists, self.states);
        // The listed threads have no time: they wait for the first event.
        let mut order = Order { listed: core::mem::take(&mut reader.events), left: 0, give };
        let (names, blocks) = (&mut self.names, &self.blocks);
        let mut block = 0;
        let ended = packets::stream(self.input.open()?, self.length, |at, mut packet: Packet| {
            if blocks.of(at) > block {
                block = blocks.of(at);
                order.give(&mut reader.events, blocks.earliest(block));
            }
            packet.describe(&mut head);
            if let Some(bundle) = &packet.ftrace_events {
                reader.bundle(bundle, &mut head, &mut |task| names.keep_of(task.tid, task.comm));
            }
        });
        let (end, is_cut) = ended.map_err(Stop::Error)?;
        order.end(&mut reader.events);
        head.dropped = is_cut.then(|| cut_off(end));
        Ok(head)
    }
}

/// Puts events in order.
struct Order<'p, 'g> {
    /// The threads that are listed without a time, before the first event.
    listed: Vec<Event<'p>>,
    /// The number of events that waited when some were given last.
    left: usize,
    give: &'g mut dyn FnMut(&Event<'p>),
}

impl<'p> Order<'p, '_> {
    /// Gives the waiting events up to a time. If few have come it does not: sorting all that wait
    /// again and again would take longer than anything else.
    fn give(&mut self, waiting: &mut Vec<Event<'p>>, until: Instant) {
        if waiting.len() > 2 * self.left + FEW {
            self.give_all(waiting, until);
        }
    }

    /// Ends the file.
    fn end(mut self, waiting: &mut Vec<Event<'p>>) {
        self.give_all(waiting, LAST);
        self.give_listed(Instant::ZERO);
    }

    fn give_all(&mut self, waiting: &mut Vec<Event<'p>>, until: Instant) {
        // Stable: as those that are kept in memory.
        waiting.sort_by_key(|event| event.at);
        let ready = waiting.partition_point(|event| event.at <= until);
        for event in waiting.drain(..ready) {
            self.give_listed(event.at);
            (self.give)(&event);
        }
        self.left = waiting.len();
    }

    /// Gives the listed threads, once.
    fn give_listed(&mut self, at: Instant) {
        for listed in core::mem::take(&mut self.listed) {
            (self.give)(&Event { at, ..listed });
        }
    }
}

/// The latest time: no event comes later.
const LAST: Instant = Instant::from_nanos(u64::MAX);

/// So many events can wait in any case.
const FEW: usize = 4096;

/// The earliest time in each block of a file.
struct Blocks {
    /// The length of a block.
    length: usize,
    earliest: Vec<Instant>,
}

/// The most blocks: with more, two become one.
const BLOCKS_MAX: usize = 1 << 14;

impl Default for Blocks {
    fn default() -> Self {
        Self { length: 1 << 14, earliest: Vec::new() }
    }
}

impl Blocks {
    /// Returns the block of a place.
    const fn of(&self, at: usize) -> usize {
        at / self.length
    }

    /// Notes a time in the packet at a place.
    fn saw(&mut self, at: usize, time: Option<Instant>) {
        let Some(time) = time else { return };
        while self.of(at) >= BLOCKS_MAX {
            self.earliest = self.earliest.chunks(2).filter_map(|pair| pair.iter().min().copied()).collect();
            self.length = self.length.saturating_mul(2);
        }
        let block = self.of(at);
        if self.earliest.len() <= block {
            self.earliest.resize(block + 1, LAST);
        }
        self.earliest[block] = self.earliest[block].min(time);
    }

    /// Ends the file: the time of a block is then also the earliest of those behind it.
    fn done(mut self) -> Self {
        let mut earliest = LAST;
        for time in self.earliest.iter_mut().rev() {
            earliest = earliest.min(*time);
            *time = earliest;
        }
        self
    }

    /// Returns the earliest time in a block and behind it.
    fn earliest(&self, block: usize) -> Instant {
        self.earliest.get(block).copied().unwrap_or(LAST)
    }
}

/// A packet, of which the times and threads are read.
#[derive(Clone, PartialEq, Message)]
struct Outline {
    #[prost(message, optional, tag = "1")]
    ftrace_events: Option<Bundle>,
    #[prost(message, optional, tag = "2")]
    process_tree: Option<ProcessTree>,
    #[prost(message, optional, tag = "45")]
    system_info: Option<SystemInfo>,
    #[prost(bytes = "vec", optional, tag = "50")]
    compressed_packets: Option<Vec<u8>>,
}

impl packets::Packet for Outline {
    fn packed(&mut self) -> Option<Vec<u8>> {
        self.compressed_packets.take()
    }
}

#[derive(Clone, PartialEq, Message)]
struct Bundle {
    #[prost(message, repeated, tag = "2")]
    event: Vec<FtraceEvent>,
    #[prost(message, optional, tag = "4")]
    compact_sched: Option<CompactSched>,
}

#[derive(Clone, PartialEq, Eq, Message)]
struct FtraceEvent {
    #[prost(uint64, optional, tag = "1")]
    timestamp: Option<u64>,
    #[prost(message, optional, tag = "4")]
    switch: Option<Switch>,
}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
struct Switch {
    #[prost(int64, optional, tag = "4")]
    prev_state: Option<i64>,
}

#[derive(Clone, PartialEq, Eq, Message)]
struct CompactSched {
    #[prost(uint64, repeated, tag = "1")]
    switch_timestamp: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    switch_prev_state: Vec<i64>,
    #[prost(uint64, repeated, tag = "7")]
    waking_timestamp: Vec<u64>,
}

impl Bundle {
    /// Returns the numbers of the states of switches.
    fn states(&self) -> impl Iterator<Item = u64> {
        let plain = self.event.iter().filter_map(|event| event.switch?.prev_state);
        let compact = self.compact_sched.iter().flat_map(|sched| sched.switch_prev_state.iter().copied());
        plain.chain(compact).map(i64::cast_unsigned)
    }

    /// Returns a time that is not after any event that is used.
    fn earliest(&self) -> Option<Instant> {
        let events = self.event.iter().map(|event| event.timestamp.unwrap_or(0));
        // The others are differences.
        let compact = self.compact_sched.iter().flat_map(|sched| [&sched.switch_timestamp, &sched.waking_timestamp]);
        events.chain(compact.filter_map(|times| times.first().copied())).min().map(Instant::from_nanos)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_grow_with_the_file_and_say_what_may_still_come() {
        let time = Instant::from_nanos;
        let mut blocks = Blocks::default();
        let step = blocks.length / 2;
        // Later in the file is later, but for one packet near the end.
        let packets = BLOCKS_MAX * 5;
        for packet in 0..packets {
            let is_early = packet == packets - 9;
            blocks.saw(packet * step, Some(time(if is_early { 1000 } else { packet as u64 })));
            blocks.saw(packet * step, None);
        }
        let blocks = blocks.done();
        assert!(blocks.earliest.len() <= BLOCKS_MAX && blocks.length == step * 8, "{}", blocks.length);
        assert_eq!((blocks.earliest(0), blocks.earliest(1), blocks.earliest(2)), (time(0), time(8), time(16)));
        assert_eq!(blocks.earliest(blocks.of((packets - 9) * step)), time(1000));
        assert_eq!(blocks.earliest(blocks.of(packets * step)), LAST);
        assert_eq!(blocks.earliest(blocks.of((packets - 1) * step)), time(packets as u64 - 8));
    }
}

//! [`TraceReader`]: reads a trace record by record, and checks everything that it reads.

use super::block::{BLOCK_MAX, BlockKind, MAGIC, Version};
use super::record::Deltas;
use super::wire::{Crc, Cursor, Reason};
use super::writer::tag;
use crate::container::Trace;
use crate::error::ReadError;
use crate::meta::{Gap, Machine, Means, Message, Meta, Skipped, Source, Thread, Wakings};
use std::io::{ErrorKind, Read};
use zerolag_model::{CpuId, Duration, Instant, Record, TaskId, Topology};

/// Reads a trace from a stream: an iterator of records. Memory of one block.
///
/// After the last record, [`TraceReader::meta`] also has the end and the lost events. An error ends
/// the iteration; the records before it are valid.
#[derive(Debug)]
pub struct TraceReader<R: Read> {
    input: R,
    offset: u64,
    meta: Meta,
    block: Vec<u8>,
    block_offset: u64,
    at: usize,
    deltas: Deltas,
    records: u64,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Reading,
    Ended,
    Failed,
}

impl<R: Read> TraceReader<R> {
    /// Reads the head of a trace.
    ///
    /// # Errors
    /// Not this format, a later version of it, or damaged or cut off within its head.
    pub fn new(input: R) -> Result<Self, ReadError> {
        let mut reader = Self {
            input,
            offset: 0,
            meta: Meta::new(Source::Simulation, Machine::Cpus(0)),
            block: Vec::new(),
            block_offset: 0,
            at: 0,
            deltas: Deltas::default(),
            records: 0,
            state: State::Reading,
        };
        let mut head = [0; MAGIC.len() + 2];
        reader.fill(&mut head)?;
        if head[..MAGIC.len()] != MAGIC {
            return Err(ReadError::Corrupt { offset: 0, reason: "this is not a zerolag trace" });
        }
        let found = Version(u16::from_le_bytes([head[MAGIC.len()], head[MAGIC.len() + 1]]));
        if found > Version::CURRENT {
            return Err(ReadError::Version { found: found.0, known: Version::CURRENT.0 });
        }
        if found == Version(0) {
            return Err(reader.corrupt("format version 0 does not exist"));
        }
        if reader.read_block()? != BlockKind::Meta {
            return Err(ReadError::Corrupt {
                offset: reader.block_offset,
                reason: "the first block is not the meta block",
            });
        }
        reader.meta = read_meta(&reader.block)
            .map_err(|(at, reason)| ReadError::Corrupt { offset: reader.block_offset + at as u64, reason })?;
        reader.block.clear();
        Ok(reader)
    }

    /// Returns the description of the run; its end and lost events are only known after the last
    /// record.
    pub const fn meta(&self) -> &Meta {
        &self.meta
    }

    /// Reads the rest of the trace.
    ///
    /// # Errors
    /// The trace is damaged or cut off.
    pub fn read_all(mut self) -> Result<Trace, ReadError> {
        let mut records = Vec::new();
        for record in &mut self {
            records.push(record?);
        }
        Ok(Trace { meta: self.meta, records })
    }

    fn next_record(&mut self) -> Result<Option<Record>, ReadError> {
        while self.at == self.block.len() {
            match self.read_block()? {
                BlockKind::Records => self.deltas = Deltas::default(),
                BlockKind::Meta => {
                    return Err(ReadError::Corrupt { offset: self.block_offset, reason: "a second meta block" });
                }
                BlockKind::End => return self.end().map(|()| None),
            }
        }
        let mut cursor = Cursor::new(&self.block[self.at..]);
        match self.deltas.take(&mut cursor) {
            Ok(record) => {
                self.at += cursor.offset();
                self.records += 1;
                Ok(Some(record))
            }
            Err(reason) => {
                let offset = self.block_offset + (self.at + cursor.offset()) as u64;
                Err(ReadError::Corrupt { offset, reason })
            }
        }
    }

    fn end(&mut self) -> Result<(), ReadError> {
        let mut cursor = Cursor::new(&self.block);
        let mut values = || -> Result<[u64; 3], Reason> { Ok([cursor.varint()?, cursor.varint()?, cursor.varint()?]) };
        let [end, lost, records] =
            values().map_err(|reason| ReadError::Corrupt { offset: self.block_offset, reason })?;
        if records != self.records {
            return Err(ReadError::Corrupt { offset: self.block_offset, reason: "a block of records is missing" });
        }
        if self.input.read(&mut [0])? != 0 {
            return Err(self.corrupt("there are bytes after the end mark"));
        }
        self.meta.end = Instant::from_nanos(end);
        self.meta.lost_events = lost;
        Ok(())
    }

    /// Reads one block into `self.block` and checks its checksum.
    fn read_block(&mut self) -> Result<BlockKind, ReadError> {
        let mut head = Vec::with_capacity(8);
        loop {
            let mut byte = [0];
            self.fill(&mut byte)?;
            head.push(byte[0]);
            // The kind, then a varint of at most four bytes: the longest block is 16 MiB.
            if head.len() > 1 && byte[0] & 0x80 == 0 {
                break;
            }
            if head.len() > 5 {
                return Err(self.corrupt("a block is longer than 16 MiB"));
            }
        }
        let kind = BlockKind::from_number(head[0]).ok_or_else(|| self.corrupt("unknown kind of block"))?;
        let length = Cursor::new(&head[1..]).varint().map_err(|reason| self.corrupt(reason))?;
        if length > BLOCK_MAX as u64 {
            return Err(self.corrupt("a block is longer than 16 MiB"));
        }
        self.block.clear();
        self.at = 0;
        self.block_offset = self.offset;
        // `take` grows the buffer with the bytes that exist, so a wrong length costs nothing.
        let got = self.input.by_ref().take(length).read_to_end(&mut self.block)?;
        self.offset += got as u64;
        if (got as u64) < length {
            return Err(ReadError::Truncated { offset: self.offset });
        }
        let mut crc = [0; 4];
        self.fill(&mut crc)?;
        if Crc::new().update(&head).update(&self.block).value() != u32::from_le_bytes(crc) {
            return Err(ReadError::Corrupt { offset: self.block_offset, reason: "the checksum of a block is wrong" });
        }
        Ok(kind)
    }

    fn fill(&mut self, buffer: &mut [u8]) -> Result<(), ReadError> {
        let mut done = 0;
        while done < buffer.len() {
            match self.input.read(&mut buffer[done..]) {
                Ok(0) => return Err(ReadError::Truncated { offset: self.offset }),
                Ok(read) => {
                    done += read;
                    self.offset += read as u64;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    const fn corrupt(&self, reason: Reason) -> ReadError {
        ReadError::Corrupt { offset: self.offset, reason }
    }
}

impl<R: Read> Iterator for TraceReader<R> {
    type Item = Result<Record, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.state != State::Reading {
            return None;
        }
        let next = self.next_record().transpose();
        match &next {
            None => self.state = State::Ended,
            Some(Err(_)) => self.state = State::Failed,
            Some(Ok(_)) => {}
        }
        next
    }
}

fn read_meta(block: &[u8]) -> Result<Meta, (usize, Reason)> {
    let mut cursor = Cursor::new(block);
    let mut meta = Meta::new(Source::Simulation, Machine::Cpus(0));
    while !cursor.is_at_end() {
        let read = (|| {
            let tag = cursor.varint()?;
            let value = cursor.bytes()?;
            read_meta_value(&mut meta, tag, value)
        })();
        read.map_err(|reason| (cursor.offset(), reason))?;
    }
    Ok(meta)
}

fn read_meta_value(meta: &mut Meta, tag: u64, value: &[u8]) -> Result<(), Reason> {
    let text = || core::str::from_utf8(value).map(str::to_owned).map_err(|_| "a text is not UTF-8");
    let mut cursor = Cursor::new(value);
    match tag {
        tag::PRODUCER => meta.producer = text()?,
        tag::SOURCE => {
            let index = usize::try_from(cursor.varint()?).map_err(|_| "unknown source of the trace")?;
            meta.source = *Source::ALL.get(index).ok_or("unknown source of the trace")?;
        }
        tag::SEED => meta.seed = Some(cursor.varint()?),
        tag::KERNEL => meta.kernel = text()?,
        tag::COSTS => meta.costs = text()?,
        tag::CPUS => meta.machine = Machine::Cpus(cursor.varint_u32()?),
        tag::TOPOLOGY => meta.machine = Machine::Known(read_topology(&mut cursor)?),
        tag::SETTING => {
            let key = cursor.text()?.to_owned();
            let value = cursor.text()?.to_owned();
            meta.settings.push((key, value));
        }
        tag::START => meta.start = Instant::from_nanos(cursor.varint()?),
        tag::THREAD => meta.recorded.threads.push(read_thread(&mut cursor)?),
        tag::GAP => {
            let cpu = CpuId(cursor.varint_u32()?);
            let from = Instant::from_nanos(cursor.varint()?);
            let until = from.saturating_add(Duration::from_nanos(cursor.varint()?));
            meta.recorded.gaps.push(Gap { cpu, from, until, events: cursor.varint()? });
        }
        tag::WAKINGS => {
            let waker = cursor.varint_u32()?.checked_sub(1).map(TaskId);
            let woken = TaskId(cursor.varint_u32()?);
            // A later version can know more of them.
            let means = usize::try_from(cursor.varint()?).ok().and_then(|index| Means::ALL.get(index).copied());
            let means = means.unwrap_or_default();
            meta.recorded.wakings.push(Wakings { waker, woken, means, count: cursor.varint()? });
        }
        tag::MESSAGES => {
            let mut at = Instant::ZERO;
            while !cursor.is_at_end() {
                at = at.saturating_add(Duration::from_nanos(cursor.varint()?));
                let (task, socket) = (TaskId(cursor.varint_u32()?), cursor.varint()?);
                let is_sent = socket & 1 == 1;
                let socket = u32::try_from(socket / 2).map_err(|_| "a socket's number is above 2^32")?;
                let bytes = cursor.varint_u32()?;
                meta.recorded.messages.push(Message { at, task, socket, bytes, is_sent });
            }
            // Readers have a place for each number.
            let count = meta.recorded.messages.len();
            if meta.recorded.messages.iter().any(|message| message.socket as usize >= count) {
                return Err("a socket's number is above that of messages");
            }
        }
        tag::PEERS => {
            while !cursor.is_at_end() {
                meta.recorded.peers.push(cursor.varint_u32()?.checked_sub(1));
            }
        }
        tag::DROPPED => meta.recorded.dropped = Some(text()?),
        tag::FORMAT => meta.recorded.format = text()?,
        tag::SKIPPED => {
            let count = cursor.varint()?;
            let (what, first) = (cursor.text()?.to_owned(), cursor.text()?.to_owned());
            meta.recorded.skipped.push(Skipped { what, count, first });
        }
        _ => {}
    }
    Ok(())
}

fn read_thread(cursor: &mut Cursor<'_>) -> Result<Thread, Reason> {
    let tid = cursor.varint_u32()?;
    let bits = cursor.byte()?;
    let pid = if bits & 1 != 0 { Some(cursor.varint_u32()?) } else { None };
    let process = if bits & 2 != 0 { Some(cursor.text()?.into()) } else { None };
    let charged = if bits & 4 != 0 { Some(Duration::from_nanos(cursor.varint()?)) } else { None };
    let group = if bits & 8 != 0 { Some(cursor.text()?.into()) } else { None };
    let mut groups_v1 = Vec::new();
    if bits & 16 != 0 {
        for _ in 0..cursor.varint()? {
            groups_v1.push(cursor.text()?.into());
        }
    }
    Ok(Thread { tid, pid, process, group, groups_v1, charged })
}

fn read_topology(cursor: &mut Cursor<'_>) -> Result<Topology, Reason> {
    let mut shape = [0; 4];
    for count in &mut shape {
        *count = cursor.varint_u32()?;
    }
    let [sockets, llcs, cores, smt] = shape;
    let topology = Topology::new(sockets, llcs, cores, smt).map_err(|_| "an impossible topology")?;
    let mut capacities = Vec::new();
    while !cursor.is_at_end() {
        capacities.push(u16::try_from(cursor.varint()?).map_err(|_| "an impossible capacity")?);
    }
    if capacities.is_empty() {
        return Ok(topology);
    }
    topology.with_capacities(capacities).map_err(|_| "an impossible capacity")
}

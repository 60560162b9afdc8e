//! [`TraceWriter`]: writes a trace record by record, without keeping it in memory.

use super::block::{BLOCK_MAX, BLOCK_TARGET, BlockKind, MAGIC, Version};
use super::record::Deltas;
use super::wire::{Crc, put_bytes, put_varint};
use crate::meta::{Machine, Means, Message, Meta, Skipped, Source, Thread, Wakings};
use std::io::{self, Write};
use zerolag_model::{Instant, Record};

/// Writes a trace to a stream. Complexity: O(1) per record, memory of one block.
#[derive(Debug)]
pub struct TraceWriter<W: Write> {
    out: W,
    block: Vec<u8>,
    deltas: Deltas,
    records: u64,
}

impl<W: Write> TraceWriter<W> {
    /// Starts a trace. The end and the lost events of `meta` are not written here:
    /// [`TraceWriter::finish`] gets them.
    ///
    /// # Errors
    /// The error of the output.
    pub fn new(mut out: W, meta: &Meta) -> io::Result<Self> {
        out.write_all(&MAGIC)?;
        out.write_all(&Version::CURRENT.0.to_le_bytes())?;
        let mut writer =
            Self { out, block: Vec::with_capacity(BLOCK_TARGET + 1024), deltas: Deltas::default(), records: 0 };
        put_meta(&mut writer.block, meta);
        writer.flush_block(BlockKind::Meta)?;
        Ok(writer)
    }

    /// Appends a record. Times may go back, which costs some bytes more.
    ///
    /// # Errors
    /// The error of the output; or an event that this version of the format has no number for.
    pub fn push(&mut self, record: &Record) -> io::Result<()> {
        if self.block.len() >= BLOCK_TARGET {
            self.flush_block(BlockKind::Records)?;
        }
        let before = self.block.len();
        if let Err(reason) = self.deltas.put(&mut self.block, record) {
            self.block.truncate(before);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
        }
        self.records += 1;
        Ok(())
    }

    /// Returns how many records were written.
    pub const fn records(&self) -> u64 {
        self.records
    }

    /// Ends the trace and returns the output. Without this call the file counts as cut off.
    ///
    /// # Errors
    /// The error of the output.
    pub fn finish(mut self, end: Instant, lost_events: u64) -> io::Result<W> {
        if !self.block.is_empty() {
            self.flush_block(BlockKind::Records)?;
        }
        for value in [end.as_nanos(), lost_events, self.records] {
            put_varint(&mut self.block, value);
        }
        self.flush_block(BlockKind::End)?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn flush_block(&mut self, kind: BlockKind) -> io::Result<()> {
        if self.block.len() > BLOCK_MAX {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "names of threads, or one name, are longer than 16 MiB",
            ));
        }
        let mut head = vec![kind.number()];
        put_varint(&mut head, self.block.len() as u64);
        let crc = Crc::new().update(&head).update(&self.block).value();
        self.out.write_all(&head)?;
        self.out.write_all(&self.block)?;
        self.out.write_all(&crc.to_le_bytes())?;
        self.block.clear();
        self.deltas = Deltas::default();
        Ok(())
    }
}

/// The tags of the meta block. Numbers are never reused.
pub(super) mod tag {
    pub(crate) const PRODUCER: u64 = 1;
    pub(crate) const SOURCE: u64 = 2;
    pub(crate) const SEED: u64 = 3;
    pub(crate) const KERNEL: u64 = 4;
    pub(crate) const COSTS: u64 = 5;
    pub(crate) const CPUS: u64 = 6;
    pub(crate) const TOPOLOGY: u64 = 7;
    pub(crate) const SETTING: u64 = 8;
    pub(crate) const START: u64 = 9;
    /// One per thread, in order of task: tid, bits (1 pid, 2 process, 4 charged, 8 group), those
    /// values.
    pub(crate) const THREAD: u64 = 10;
    /// One per gap: CPU, start, length, events.
    pub(crate) const GAP: u64 = 11;
    pub(crate) const DROPPED: u64 = 12;
    pub(crate) const WAKINGS: u64 = 13;
    /// One per kind: count, kind, place of the first.
    pub(crate) const SKIPPED: u64 = 14;
    pub(crate) const FORMAT: u64 = 15;
    /// All in one, each: time since the one before, task, twice the socket and one if it was sent,
    /// bytes.
    pub(crate) const MESSAGES: u64 = 16;
    /// One number per socket: one more than that of its peer, or 0.
    pub(crate) const PEERS: u64 = 17;
}

fn put_meta(out: &mut Vec<u8>, meta: &Meta) {
    let mut put = |tag: u64, value: &[u8]| {
        put_varint(out, tag);
        put_bytes(out, value);
    };
    let numbers = |values: &[u64]| {
        let mut bytes = Vec::new();
        for value in values {
            put_varint(&mut bytes, *value);
        }
        bytes
    };
    put(tag::PRODUCER, meta.producer.as_bytes());
    let source = Source::ALL.iter().position(|source| *source == meta.source).unwrap_or_default();
    put(tag::SOURCE, &numbers(&[source as u64]));
    if let Some(seed) = meta.seed {
        put(tag::SEED, &numbers(&[seed]));
    }
    put(tag::KERNEL, meta.kernel.as_bytes());
    put(tag::COSTS, meta.costs.as_bytes());
    match &meta.machine {
        Machine::Cpus(cpus) => put(tag::CPUS, &numbers(&[u64::from(*cpus)])),
        Machine::Known(topology) => {
            let mut values = topology.shape().map(u64::from).to_vec();
            let capacities = topology.cpus().map(|cpu| u64::from(topology.capacity(cpu)));
            values.extend(capacities);
            // CPUs are usually equal: the capacities are only written if they differ.
            if values[4..].iter().all(|capacity| *capacity == u64::from(zerolag_model::topology::CAPACITY_SCALE)) {
                values.truncate(4);
            }
            put(tag::TOPOLOGY, &numbers(&values));
        }
    }
    for (key, value) in &meta.settings {
        let mut pair = Vec::new();
        put_bytes(&mut pair, key.as_bytes());
        put_bytes(&mut pair, value.as_bytes());
        put(tag::SETTING, &pair);
    }
    put(tag::START, &numbers(&[meta.start.as_nanos()]));
    for thread in &meta.recorded.threads {
        put(tag::THREAD, &thread_bytes(thread));
    }
    for gap in &meta.recorded.gaps {
        let length = gap.until.since(gap.from).as_nanos();
        put(tag::GAP, &numbers(&[u64::from(gap.cpu.0), gap.from.as_nanos(), length, gap.events]));
    }
    for Wakings { waker, woken, means, count } in &meta.recorded.wakings {
        let waker = waker.map_or(0, |waker| u64::from(waker.0) + 1);
        let means = Means::ALL.iter().position(|known| known == means).unwrap_or_default();
        put(tag::WAKINGS, &numbers(&[waker, u64::from(woken.0), means as u64, *count]));
    }
    let messages = messages_bytes(&meta.recorded.messages);
    // Ten bytes each at most, as recorders write them: those of stranger values do not fit.
    if !messages.is_empty() && messages.len() <= BLOCK_MAX / 4 * 3 {
        put(tag::MESSAGES, &messages);
        let peers = meta.recorded.peers.iter().map(|peer| peer.map_or(0, |peer| u64::from(peer) + 1));
        put(tag::PEERS, &numbers(&peers.collect::<Vec<u64>>()));
    }
    if let Some(dropped) = &meta.recorded.dropped {
        put(tag::DROPPED, dropped.as_bytes());
    }
    if !meta.recorded.format.is_empty() {
        put(tag::FORMAT, meta.recorded.format.as_bytes());
    }
    for Skipped { what, count, first } in &meta.recorded.skipped {
        let mut bytes = numbers(&[*count]);
        put_bytes(&mut bytes, what.as_bytes());
        put_bytes(&mut bytes, first.as_bytes());
        put(tag::SKIPPED, &bytes);
    }
}

fn messages_bytes(messages: &[Message]) -> Vec<u8> {
    let (mut bytes, mut last) = (Vec::new(), Instant::ZERO);
    for message in messages {
        let since = message.at.since(core::mem::replace(&mut last, message.at)).as_nanos();
        let socket = u64::from(message.socket) * 2 + u64::from(message.is_sent);
        for value in [since, u64::from(message.task.0), socket, u64::from(message.bytes)] {
            put_varint(&mut bytes, value);
        }
    }
    bytes
}

fn thread_bytes(thread: &Thread) -> Vec<u8> {
    let Thread { tid, pid, process, group, groups_v1, charged } = thread;
    let mut bytes = Vec::new();
    put_varint(&mut bytes, u64::from(*tid));
    let has = [pid.is_some(), process.is_some(), charged.is_some(), group.is_some(), !groups_v1.is_empty()];
    bytes.push((0..).zip(has).map(|(bit, has)| u8::from(has) << bit).sum());
    if let Some(pid) = pid {
        put_varint(&mut bytes, u64::from(*pid));
    }
    if let Some(process) = process {
        put_bytes(&mut bytes, process.as_bytes());
    }
    if let Some(charged) = charged {
        put_varint(&mut bytes, charged.as_nanos());
    }
    if let Some(group) = group {
        put_bytes(&mut bytes, group.as_bytes());
    }
    if !groups_v1.is_empty() {
        put_varint(&mut bytes, groups_v1.len() as u64);
        groups_v1.iter().for_each(|path| put_bytes(&mut bytes, path.as_bytes()));
    }
    bytes
}

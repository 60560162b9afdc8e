//! The packets of a file: it is a sequence of them, and of packed ones (zlib), which are sequences.

use crate::error::ReadError;
use prost::Message;
use std::io::Read;

/// The field of a packet in the file.
pub(super) const PACKET: u8 = 0x0a;

/// The used fields of a packet.
pub(super) trait Packet: Message + Default {
    /// Takes out the packed packets.
    fn packed(&mut self) -> Option<Vec<u8>>;
}

/// What bytes begin with.
pub(super) enum Begin<'b> {
    /// The body of a packet, and its end.
    Packet(&'b [u8], usize),
    /// Where the body of a packet starts that ends behind the bytes, and that end. It is `None` if
    /// no file is so long.
    Part(usize, Option<usize>),
    /// No packet, or too little of one.
    Other,
}

/// Returns what bytes begin with.
pub(super) fn begin(bytes: &[u8]) -> Begin<'_> {
    let Some(rest) = bytes.strip_prefix(&[PACKET]) else { return Begin::Other };
    let mut cursor = rest;
    let Ok(length) = prost::encoding::decode_varint(&mut cursor) else { return Begin::Other };
    let start = bytes.len() - cursor.len();
    let end = usize::try_from(length).ok().and_then(|length| start.checked_add(length));
    match end.and_then(|end| Some((bytes.get(start..end)?, end))) {
        Some((body, end)) => Begin::Packet(body, end),
        None => Begin::Part(start, end),
    }
}

/// The longest head of a packet: the field, and the length.
const HEAD_MAX: usize = 1 + 10;

/// Gives the packets of a file with their places, and those within packed ones with the place of
/// these. Returns where they end; the file goes on there if it is cut off within a packet.
///
/// # Errors
/// A packet is malformed.
pub(super) fn each<P: Packet>(bytes: &[u8], mut give: impl FnMut(usize, P)) -> Result<usize, ReadError> {
    all(bytes, |at, body| unpack(at, body, &mut give))
}

/// Gives the packets of a file that is not kept, as [`each`]; also returns whether it is cut off.
/// The length of the file is a hint. Of the file a packet is in memory.
///
/// # Errors
/// The file cannot be read, or a packet is malformed.
pub(super) fn stream<P: Packet>(
    mut input: impl Read,
    length: Option<usize>,
    mut give: impl FnMut(usize, P),
) -> Result<(usize, bool), ReadError> {
    // What was read, the place in it of the next packet, and the place of its first byte.
    let (mut bytes, mut next, mut start) = (Vec::new(), 0, 0_usize);
    let mut is_all = false;
    loop {
        let (rest, at) = (bytes.get(next..).unwrap_or_default(), start.saturating_add(next));
        let wanted = match begin(rest) {
            Begin::Packet(body, end) => {
                unpack(at, body, &mut give)?;
                next += end;
                continue;
            }
            Begin::Other if rest.len() >= HEAD_MAX || is_all => {
                // What is wrong with the rest, if it is not too short.
                all(rest, |_, _| Ok(())).map_err(|_| no_packet(at))?;
                return Ok((at, !rest.is_empty()));
            }
            Begin::Part(_, end) if is_all || is_behind(at, end, length) => return Ok((at, true)),
            Begin::Part(_, end) => end.unwrap_or(usize::MAX),
            Begin::Other => HEAD_MAX,
        };
        bytes.drain(..next);
        (start, next) = (at, 0);
        let more = wanted.saturating_sub(bytes.len()).max(WINDOW) as u64;
        is_all = input.by_ref().take(more).read_to_end(&mut bytes)? == 0;
    }
}

/// So much is read at once at least.
const WINDOW: usize = 1 << 16;

/// Returns whether the packet at a place ends behind the file.
fn is_behind(at: usize, end: Option<usize>, length: Option<usize>) -> bool {
    length.is_some_and(|length| end.and_then(|end| at.checked_add(end)).is_none_or(|end| end > length))
}

/// Gives the bodies of packets with their places; returns where they end.
fn all(bytes: &[u8], mut give: impl FnMut(usize, &[u8]) -> Result<(), ReadError>) -> Result<usize, ReadError> {
    let mut at = 0;
    while at < bytes.len() {
        let rest = bytes.get(at..).unwrap_or_default();
        match begin(rest) {
            Begin::Packet(body, end) => {
                give(at, body)?;
                at += end;
            }
            Begin::Part(..) => break,
            // The head of a packet can be cut off.
            Begin::Other if rest.len() < 10 => break,
            Begin::Other => return Err(no_packet(at)),
        }
    }
    Ok(at)
}

/// Gives a packet, and those that are packed in it.
fn unpack<P: Packet>(at: usize, body: &[u8], give: &mut impl FnMut(usize, P)) -> Result<(), ReadError> {
    let mut packet: P = decode(at, body)?;
    let packed = packet.packed();
    give(at, packet);
    if let Some(packed) = packed {
        let mut bytes = Vec::new();
        let done = flate2::read::ZlibDecoder::new(&*packed).take(UNPACKED_MAX).read_to_end(&mut bytes);
        done.map_err(|error| damaged(at, &format!("packed packets cannot be unpacked: {error}")))?;
        // Those within packed ones cannot be packed.
        all(&bytes, |within, body| {
            give(at, decode(within, body)?);
            Ok(())
        })?;
    }
    Ok(())
}

fn decode<P: Packet>(at: usize, body: &[u8]) -> Result<P, ReadError> {
    P::decode(body).map_err(|error| damaged(at, &error.to_string()))
}

/// The most bytes that packed packets may unpack to.
const UNPACKED_MAX: u64 = 1 << 30;

fn no_packet(at: usize) -> ReadError {
    damaged(at, "there is no packet")
}

fn damaged(offset: usize, reason: &str) -> ReadError {
    ReadError::Damaged { format: "Perfetto trace", offset: offset as u64, reason: reason.to_owned() }
}

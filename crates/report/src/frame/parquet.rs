//! A [`Frame`] as an Apache Parquet file.
//!
//! The crate `parquet` writes every type, encoding and compression; it costs 40 CPU-seconds of
//! compiling, 26 crates and a megabyte of program, for the five types of a frame. A file of plain,
//! uncompressed columns is small enough to be written here, works wherever the library does, and
//! every reader of Parquet has to read it:
//!
//! ```text
//! "PAR1"  column 1: page, page, ...  column 2: ...  metadata (Thrift, compact protocol)  its length  "PAR1"
//! page:   header (Thrift), which values exist (if some do not: a bit each), the values that do
//! ```
//!
//! Whole numbers are INT64, `u64` with the logical type of unsigned ones; texts are UTF-8. A column
//! in which values are missing is optional, every other one is required.
//!
//! Complexity: O(size of the frame), and a copy of it in memory.
//!
//! Sources: Apache Parquet format 2.11, `parquet.thrift` and `Encodings.md`; Apache Thrift,
//! `thrift-compact-protocol.md`. Facts only.

use super::{Column, Frame, Values};

/// Returns a frame as a Parquet file.
#[must_use]
pub fn of(frame: &Frame) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    let chunks: Vec<Chunk> = frame.columns().iter().map(|column| chunk(&mut out, column, frame.rows())).collect();
    let metadata = metadata(frame, &chunks);
    out.extend_from_slice(&metadata);
    let length = u32::try_from(metadata.len()).expect("invariant: a frame has fewer than a million columns");
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(MAGIC);
    out
}

const MAGIC: &[u8; 4] = b"PAR1";
/// The name of this writer, in the form that readers cut. The version is that of this file, so that
/// a release changes no bytes.
const WRITER: &str = "zerolag version 1 (build 1)";
/// The rows of a page. Its size has 31 bits.
const PAGE_ROWS: usize = 64 * 1024;

/// The place of a column's pages.
struct Chunk {
    start: usize,
    end: usize,
}

/// Writes the pages of a column.
fn chunk(out: &mut Vec<u8>, column: &Column, rows: usize) -> Chunk {
    let start = out.len();
    let mut row = 0;
    // A column without rows has one empty page: some readers want one.
    while row < rows.max(1) {
        let end = (row + PAGE_ROWS).min(rows);
        page(out, column, row..end);
        row = end.max(row + 1);
    }
    Chunk { start, end: out.len() }
}

fn page(out: &mut Vec<u8>, column: &Column, rows: core::ops::Range<usize>) {
    let count = rows.len();
    let mut body = Vec::new();
    if let Some(known) = column.known() {
        levels(&mut body, &known[rows.clone()]);
    }
    let exists = |row: &usize| column.known().is_none_or(|known| known[*row]);
    let rows = rows.filter(exists);
    match column.values() {
        Values::U64(values) => rows.for_each(|row| body.extend_from_slice(&values[row].to_le_bytes())),
        Values::I64(values) => rows.for_each(|row| body.extend_from_slice(&values[row].to_le_bytes())),
        Values::F64(values) => rows.for_each(|row| body.extend_from_slice(&values[row].to_le_bytes())),
        Values::Bool(values) => bits(&mut body, rows.map(|row| values[row])),
        Values::Text(values) => {
            for row in rows {
                let text = values[row].as_bytes();
                body.extend_from_slice(&(text.len() as u32).to_le_bytes());
                body.extend_from_slice(text);
            }
        }
    }
    let size = i64::try_from(body.len()).unwrap_or(i64::MAX);
    let mut header = Struct::default();
    header.int(1, DATA_PAGE).int(2, size).int(3, size).inner(5, |page| {
        page.int(1, count as i64).int(2, PLAIN).int(3, RLE).int(4, RLE);
    });
    out.extend_from_slice(&header.end());
    out.extend_from_slice(&body);
}

/// Writes which values exist: definition levels of one bit, in one run of packed bits.
fn levels(out: &mut Vec<u8>, known: &[bool]) {
    let mut run = Vec::new();
    varint(&mut run, (known.len().div_ceil(8) as u64) << 1 | 1);
    bits(&mut run, known.iter().copied());
    out.extend_from_slice(&(run.len() as u32).to_le_bytes());
    out.extend_from_slice(&run);
}

/// Writes bits, the lowest of a byte first.
fn bits(out: &mut Vec<u8>, values: impl Iterator<Item = bool>) {
    for (index, value) in values.enumerate() {
        if index % 8 == 0 {
            out.push(0);
        }
        let last = out.len() - 1;
        out[last] |= u8::from(value) << (index % 8);
    }
}

fn metadata(frame: &Frame, chunks: &[Chunk]) -> Vec<u8> {
    let rows = frame.rows() as i64;
    let root = |root: &mut Struct| {
        root.text(4, "schema").int(5, frame.columns().len() as i64);
    };
    let elements = core::iter::once(Struct::of(root)).chain(frame.columns().iter().map(element));
    let columns = frame.columns().iter().zip(chunks).map(|(column, chunk)| {
        Struct::of(|entry| {
            entry.int64(2, chunk.start as i64).inner(3, |inner| place(inner, column, chunk, rows));
        })
    });
    let bytes = chunks.iter().map(|chunk| (chunk.end - chunk.start) as i64).sum();
    let group = Struct::of(|group| {
        group.structs(1, columns.collect()).int64(2, bytes).int64(3, rows);
    });
    let groups = if frame.rows() == 0 { Vec::new() } else { vec![group] };
    Struct::of(|file| {
        file.int(1, 1).structs(2, elements.collect()).int64(3, rows).structs(4, groups);
        file.text(6, WRITER);
    })
}

/// Returns the schema of a column.
fn element(column: &Column) -> Vec<u8> {
    Struct::of(|element| {
        element.int(1, physical(column.values())).int(3, i64::from(column.known().is_some())).text(4, column.name());
        match column.values() {
            Values::U64(_) => {
                let unsigned = |logical: &mut Struct| {
                    logical.inner(10, |integer| {
                        integer.byte(1, 64).bool(2, false);
                    });
                };
                element.int(6, CONVERTED_UINT_64).inner(10, unsigned);
            }
            Values::Text(_) => {
                let string = |logical: &mut Struct| {
                    logical.inner(1, |_| {});
                };
                element.int(6, CONVERTED_UTF8).inner(10, string);
            }
            Values::I64(_) | Values::F64(_) | Values::Bool(_) => {}
        }
    })
}

fn place(out: &mut Struct, column: &Column, chunk: &Chunk, rows: i64) {
    let size = (chunk.end - chunk.start) as i64;
    out.int(1, physical(column.values())).ints(2, &[PLAIN, RLE]).texts(3, &[column.name()]).int(4, UNCOMPRESSED);
    out.int64(5, rows).int64(6, size).int64(7, size).int64(9, chunk.start as i64);
}

const fn physical(values: &Values) -> i64 {
    match values {
        Values::Bool(_) => 0,
        Values::U64(_) | Values::I64(_) => 2,
        Values::F64(_) => 5,
        Values::Text(_) => 6,
    }
}

const DATA_PAGE: i64 = 0;
const PLAIN: i64 = 0;
const RLE: i64 = 3;
const UNCOMPRESSED: i64 = 0;
const CONVERTED_UTF8: i64 = 0;
const CONVERTED_UINT_64: i64 = 14;

/// A struct of Thrift's compact protocol, under construction. Fields come in order of their number.
#[derive(Default)]
struct Struct {
    out: Vec<u8>,
    last: u8,
}

impl Struct {
    fn of(fill: impl FnOnce(&mut Self)) -> Vec<u8> {
        let mut this = Self::default();
        fill(&mut this);
        this.end()
    }

    fn end(mut self) -> Vec<u8> {
        self.out.push(0);
        self.out
    }

    /// Begins a field. Every number here is at most 15 above the one before.
    fn field(&mut self, number: u8, kind: u8) -> &mut Self {
        debug_assert!(number > self.last && number - self.last < 16);
        self.out.push((number - self.last) << 4 | kind);
        self.last = number;
        self
    }

    /// A field of 32 bits.
    fn int(&mut self, number: u8, value: i64) -> &mut Self {
        self.field(number, KIND_I32);
        varint(&mut self.out, zigzag(value));
        self
    }

    fn int64(&mut self, number: u8, value: i64) -> &mut Self {
        self.field(number, KIND_I64);
        varint(&mut self.out, zigzag(value));
        self
    }

    fn byte(&mut self, number: u8, value: u8) -> &mut Self {
        self.field(number, KIND_BYTE).out.push(value);
        self
    }

    fn bool(&mut self, number: u8, value: bool) -> &mut Self {
        self.field(number, if value { KIND_TRUE } else { KIND_FALSE })
    }

    fn text(&mut self, number: u8, text: &str) -> &mut Self {
        self.field(number, KIND_BINARY);
        binary(&mut self.out, text);
        self
    }

    fn inner(&mut self, number: u8, fill: impl FnOnce(&mut Self)) -> &mut Self {
        self.field(number, KIND_STRUCT).out.extend(Self::of(fill));
        self
    }

    fn list(&mut self, number: u8, kind: u8, length: usize) -> &mut Self {
        self.field(number, KIND_LIST);
        match u8::try_from(length).ok().filter(|length| *length < 15) {
            Some(length) => self.out.push(length << 4 | kind),
            None => {
                self.out.push(0xf0 | kind);
                varint(&mut self.out, length as u64);
            }
        }
        self
    }

    fn structs(&mut self, number: u8, all: Vec<Vec<u8>>) -> &mut Self {
        self.list(number, KIND_STRUCT, all.len()).out.extend(all.into_iter().flatten());
        self
    }

    fn ints(&mut self, number: u8, all: &[i64]) -> &mut Self {
        self.list(number, KIND_I32, all.len());
        all.iter().for_each(|value| varint(&mut self.out, zigzag(*value)));
        self
    }

    fn texts(&mut self, number: u8, all: &[&str]) -> &mut Self {
        self.list(number, KIND_BINARY, all.len());
        all.iter().for_each(|text| binary(&mut self.out, text));
        self
    }
}

const KIND_TRUE: u8 = 1;
const KIND_FALSE: u8 = 2;
const KIND_BYTE: u8 = 3;
const KIND_I32: u8 = 5;
const KIND_I64: u8 = 6;
const KIND_BINARY: u8 = 8;
const KIND_LIST: u8 = 9;
const KIND_STRUCT: u8 = 12;

fn binary(out: &mut Vec<u8>, text: &str) {
    varint(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

const fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63).cast_unsigned()
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every_type() -> Frame {
        Frame::new("t", 3)
            .with("run_ns", Values::U64(vec![1, u64::MAX, 3]))
            .with_some("prio", Values::I64(vec![-1, 0, 7]), vec![true, false, true])
            .with("mean", Values::F64(vec![0.5, -1.0, 1e300]))
            .with("is_met", Values::Bool(vec![true, false, true]))
            .with_some("name", Values::Text(vec!["a".into(), "é".into(), "".into()]), vec![true, true, false])
    }

    /// The bytes that pyarrow 26, DuckDB 2.0 and polars 2.1 read as this frame;
    /// `python/tests/test_parquet.py` reads them again.
    #[test]
    fn the_bytes_are_those_that_readers_have_read() {
        let bytes = of(&every_type());
        assert_eq!(bytes, include_bytes!("../../tests/data/every-type.parquet"), "{bytes:02x?}");
    }

    /// As before, of two pages with missing values in both, and of a frame without rows.
    #[test]
    fn pages_are_those_that_readers_have_read() {
        let rows = PAGE_ROWS + 1000;
        let known = (0..rows).map(|row| row % 3 != 0).collect();
        let values = (0..rows as u64).map(|row| row % 7).collect();
        let names = (0..rows).map(|row| if row % 2 == 0 { "even" } else { "" }.into()).collect();
        let long = Frame::new("t", rows).with_some("n", Values::U64(values), known).with("name", Values::Text(names));
        assert_eq!(checksum(&of(&long)), 0x09a5_67ba_3745_ec0f);
        let empty = Frame::new("t", 0).with("n", Values::U64(Vec::new())).with("name", Values::Text(Vec::new()));
        assert_eq!(checksum(&of(&empty)), 0xad00_3466_ad3f_1ba4);
    }

    /// FNV-1a.
    fn checksum(bytes: &[u8]) -> u64 {
        bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
    }
}

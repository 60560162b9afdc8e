//! Varints, checksums and a cursor that never reads past its end.

/// Appends a LEB128 varint: at most 10 bytes.
pub(super) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a signed integer: small magnitudes take few bytes.
pub(super) fn put_zigzag(out: &mut Vec<u8>, value: i64) {
    put_varint(out, ((value << 1) ^ (value >> 63)).cast_unsigned());
}

/// Appends a length and the bytes.
pub(super) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// A position in a block.
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// The mistake at the cursor's position.
pub(super) type Reason = &'static str;

impl<'a> Cursor<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Returns the offset in the block.
    pub(super) const fn offset(&self) -> usize {
        self.at
    }

    pub(super) const fn is_at_end(&self) -> bool {
        self.at == self.bytes.len()
    }

    #[inline]
    pub(super) fn byte(&mut self) -> Result<u8, Reason> {
        let byte = *self.bytes.get(self.at).ok_or("a value runs past the end of its block")?;
        self.at += 1;
        Ok(byte)
    }

    /// Returns a byte further on without taking it.
    pub(super) fn peek(&self, ahead: usize) -> Option<u8> {
        self.bytes.get(self.at + ahead).copied()
    }

    #[inline]
    pub(super) fn varint(&mut self) -> Result<u64, Reason> {
        let mut value = 0;
        let mut shift = 0;
        loop {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return Err("a number does not fit 64 bits");
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
            shift += 7;
            if shift > 63 {
                return Err("a number does not fit 64 bits");
            }
        }
    }

    pub(super) fn zigzag(&mut self) -> Result<i64, Reason> {
        let value = self.varint()?;
        Ok((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }

    pub(super) fn varint_u32(&mut self) -> Result<u32, Reason> {
        u32::try_from(self.varint()?).map_err(|_| "a number does not fit 32 bits")
    }

    /// Returns a length and the bytes that it announces.
    pub(super) fn bytes(&mut self) -> Result<&'a [u8], Reason> {
        let length = usize::try_from(self.varint()?).map_err(|_| "a length does not fit memory")?;
        let end = self.at.checked_add(length).filter(|end| *end <= self.bytes.len());
        let end = end.ok_or("a text runs past the end of its block")?;
        let bytes = &self.bytes[self.at..end];
        self.at = end;
        Ok(bytes)
    }

    pub(super) fn text(&mut self) -> Result<&'a str, Reason> {
        core::str::from_utf8(self.bytes()?).map_err(|_| "a text is not UTF-8")
    }
}

/// CRC-32 as in PNG, gzip and Ethernet (polynomial 0xEDB88320, reflected). Four bytes at a time: 1
/// GB/s is enough here.
pub(super) struct Crc(u32);

impl Crc {
    pub(super) const fn new() -> Self {
        Self(u32::MAX)
    }

    pub(super) fn update(mut self, bytes: &[u8]) -> Self {
        let mut words = bytes.chunks_exact(4);
        for word in &mut words {
            let x = self.0 ^ u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
            self.0 = TABLES[3][(x & 0xff) as usize]
                ^ TABLES[2][(x >> 8 & 0xff) as usize]
                ^ TABLES[1][(x >> 16 & 0xff) as usize]
                ^ TABLES[0][(x >> 24) as usize];
        }
        for byte in words.remainder() {
            self.0 = TABLES[0][((self.0 ^ u32::from(*byte)) & 0xff) as usize] ^ (self.0 >> 8);
        }
        self
    }

    pub(super) const fn value(&self) -> u32 {
        !self.0
    }
}

static TABLES: [[u32; 256]; 4] = tables();

const fn tables() -> [[u32; 256]; 4] {
    let mut tables = [[0; 256]; 4];
    let mut index = 0;
    while index < 256 {
        let mut value = index as u32;
        let mut bit = 0;
        while bit < 8 {
            value = if value & 1 == 1 { 0xedb8_8320 ^ (value >> 1) } else { value >> 1 };
            bit += 1;
        }
        tables[0][index] = value;
        index += 1;
    }
    let mut index = 0;
    while index < 256 {
        let mut table = 1;
        while table < 4 {
            let before = tables[table - 1][index];
            tables[table][index] = tables[0][(before & 0xff) as usize] ^ (before >> 8);
            table += 1;
        }
        index += 1;
    }
    tables
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_the_well_known_one() {
        assert_eq!(Crc::new().update(b"123456789").value(), 0xcbf4_3926);
        assert_eq!(Crc::new().update(b"12345").update(b"6789").value(), 0xcbf4_3926);
        assert_eq!(Crc::new().value(), 0);
    }

    #[test]
    fn varints_keep_every_extreme() {
        for value in [0, 1, 127, 128, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            assert_eq!(Cursor::new(&out).varint(), Ok(value));
        }
        for value in [0, -1, 1, i64::MIN, i64::MAX] {
            let mut out = Vec::new();
            put_zigzag(&mut out, value);
            assert_eq!(Cursor::new(&out).zigzag(), Ok(value));
        }
        assert!(Cursor::new(&[0xff; 9]).varint().is_err());
        assert!(Cursor::new(&[0xff; 11]).varint().is_err());
        assert!(Cursor::new(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02]).varint().is_err());
    }
}

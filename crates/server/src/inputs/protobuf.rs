//! Decodes Protocol Buffers' wire format, as far as OpenTelemetry's logs need it: fields in sequence, in any order; unknown
//! fields are skipped. (Protocol Buffers' own documentation, "Encoding".)

/// A field's value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Field<'a> {
    /// A whole number of whatever width.
    Varint(u64),
    Fixed64(u64),
    Fixed32(u32),
    /// Bytes, text or a message.
    Bytes(&'a [u8]),
}

/// The fields of one message.
#[derive(Debug, Clone)]
pub(super) struct Message<'a> {
    rest: &'a [u8],
}

/// Bytes that are no message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Malformed;

impl<'a> Message<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Message<'a> {
        Message { rest: bytes }
    }

    /// The next field's number and value; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<(u32, Field<'a>)>, Malformed> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3).map_err(|_| Malformed)?;
        let field = match tag & 7 {
            0 => Field::Varint(self.varint()?),
            1 => Field::Fixed64(u64::from_le_bytes(self.array()?)),
            2 => {
                let len = usize::try_from(self.varint()?).map_err(|_| Malformed)?;
                Field::Bytes(self.read_bytes(len)?)
            }
            5 => Field::Fixed32(u32::from_le_bytes(self.array()?)),
            _ => return Err(Malformed),
        };
        Ok(Some((number, field)))
    }

    fn varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.rest.split_first().ok_or(Malformed)?;
            self.rest = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Malformed)
    }

    fn read_bytes(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(Malformed)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        self.read_bytes(N)?.try_into().map_err(|_| Malformed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_one_after_another() {
        let bytes =
            [0x08, 0x96, 0x01, 0x12, 0x02, b'h', b'i', 0x1d, 1, 0, 0, 0, 0x21, 2, 0, 0, 0, 0, 0, 0, 0];
        let mut message = Message::new(&bytes);
        assert_eq!(message.next(), Ok(Some((1, Field::Varint(150)))));
        assert_eq!(message.next(), Ok(Some((2, Field::Bytes(b"hi")))));
        assert_eq!(message.next(), Ok(Some((3, Field::Fixed32(1)))));
        assert_eq!(message.next(), Ok(Some((4, Field::Fixed64(2)))));
        assert_eq!(message.next(), Ok(None));
        // A message cut at any length ends or is malformed, and nothing panics.
        for len in 0..bytes.len() {
            let mut message = Message::new(&bytes[..len]);
            while let Ok(Some(_)) = message.next() {}
        }
        assert_eq!(Message::new(&[0x0b]).next(), Err(Malformed));
        assert_eq!(Message::new(&[0xff; 11]).next(), Err(Malformed));
    }
}

//! Decodes the binary data of Avro to JSON text, in one walk over schema and bytes.

use super::schema::{AvroSchema, Field, Node, NodeId};
use crate::{DEPTH_MAX, Fault, json};

/// The most digits behind the point of a decimal that has a scale of its own.
const SCALE_MAX: i64 = 1000;

/// The longest number of a decimal that has a scale of its own, in bytes.
const DECIMAL_BYTES_MAX: usize = 512;

struct Decoder<'d> {
    nodes: &'d [Node],
    /// The bytes that were not read so far.
    rest: &'d [u8],
    out: &'d mut Vec<u8>,
    /// The length of `out` beyond which the text is too long.
    end_max: usize,
    bytes_max: usize,
}

impl AvroSchema {
    pub(crate) fn write_json(&self, datum: &[u8], bytes_max: usize, out: &mut Vec<u8>) -> Result<(), Fault> {
        let end_max = out.len().saturating_add(bytes_max);
        let mut decoder = Decoder { nodes: &self.nodes, rest: datum, out, end_max, bytes_max };
        decoder.value(self.root, 0)?;
        decoder.check_length()?;
        match decoder.rest.len() {
            0 => Ok(()),
            count => Err(Fault::new(format!("{count} bytes follow the value"))),
        }
    }
}

impl<'d> Decoder<'d> {
    fn take(&mut self, count: usize) -> Result<&'d [u8], Fault> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or_else(Fault::truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or_else(Fault::truncated)?;
        self.rest = rest;
        Ok(*taken)
    }

    /// A whole number of 64 bits, in groups of 7 bits, zigzag.
    fn long(&mut self) -> Result<i64, Fault> {
        let mut value = 0u64;
        for (place, byte) in self.rest.iter().enumerate() {
            // The tenth byte has the last bit.
            if place == 9 && *byte > 1 {
                return Err(Fault::new("a whole number has more than 64 bits"));
            }
            value |= u64::from(byte & 0x7f) << (7 * place);
            if byte & 0x80 == 0 {
                self.rest = &self.rest[place + 1..];
                return Ok((value >> 1) as i64 ^ -((value & 1) as i64));
            }
        }
        Err(Fault::truncated())
    }

    fn int(&mut self) -> Result<i32, Fault> {
        let value = self.long()?;
        i32::try_from(value).map_err(|_| Fault::new(format!("{value} does not fit 32 bits")))
    }

    /// Bytes with their length before them.
    fn bytes(&mut self) -> Result<&'d [u8], Fault> {
        let length = self.long()?;
        let length = usize::try_from(length).map_err(|_| Fault::new(format!("{length} is no length")))?;
        self.take(length)
    }

    fn text(&mut self) -> Result<&'d str, Fault> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Fault::new("a text is not UTF-8"))
    }

    /// A value of nothing but its type writes text, so that whatever the data state, this ends.
    fn check_length(&self) -> Result<(), Fault> {
        if self.out.len() > self.end_max { Err(Fault::too_long(self.bytes_max)) } else { Ok(()) }
    }

    fn value(&mut self, node: NodeId, depth: usize) -> Result<(), Fault> {
        let nodes = self.nodes;
        match &nodes[node as usize] {
            Node::Null => self.out.extend_from_slice(b"null"),
            Node::Boolean => match self.array()? {
                [value @ (0 | 1)] => json::boolean(value == 1, self.out),
                [value] => return Err(Fault::new(format!("{value} is no boolean"))),
            },
            Node::Int => json::whole(i64::from(self.int()?), self.out),
            Node::Long => json::whole(self.long()?, self.out),
            Node::Float => json::float(f32::from_le_bytes(self.array()?), self.out),
            Node::Double => json::double(f64::from_le_bytes(self.array()?), self.out),
            Node::Bytes => json::bytes(self.bytes()?, self.out),
            Node::String => json::string(self.text()?, self.out),
            Node::Fixed(size) => json::bytes(self.take(*size)?, self.out),
            Node::Enum(symbols) => {
                let place = self.int()?;
                let symbol = usize::try_from(place).ok().and_then(|place| symbols.get(place));
                let missing =
                    || Fault::new(format!("there is no symbol {place}: there are {}", symbols.len()));
                self.out.extend_from_slice(symbol.ok_or_else(missing)?);
            }
            Node::Union(branches) => {
                let place = self.long()?;
                let branch = usize::try_from(place).ok().and_then(|place| branches.get(place));
                let missing = || {
                    Fault::new(format!(
                        "there is no branch {place} of the union: there are {}",
                        branches.len()
                    ))
                };
                // No union contains another one directly.
                self.value(*branch.ok_or_else(missing)?, depth)?;
            }
            Node::Array(items) => self.list(*items, depth + 1)?,
            Node::Map(values) => self.map(*values, depth + 1)?,
            Node::Record(fields) => self.record(fields, depth + 1)?,
            node => self.logical(node)?,
        }
        Ok(())
    }

    fn logical(&mut self, node: &Node) -> Result<(), Fault> {
        match node {
            Node::Date => json::date(self.int()?, self.out)?,
            Node::Time(json::Unit::Millis) => {
                json::time(i64::from(self.int()?), json::Unit::Millis, self.out)?
            }
            Node::Time(unit) => json::time(self.long()?, *unit, self.out)?,
            Node::Timestamp { unit, is_local } => {
                json::timestamp(self.long()?, *unit, *is_local, self.out)?;
            }
            Node::Uuid => {
                let digits: String = self.take(16)?.iter().map(|byte| format!("{byte:02x}")).collect();
                let parts = [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]];
                json::string(&parts.join("-"), self.out);
            }
            Node::Decimal { fixed, scale, bytes_max, .. } => {
                let bytes = match fixed {
                    Some(size) => self.take(*size)?,
                    None => self.bytes()?,
                };
                let bytes = shortened(bytes);
                if bytes.len() > *bytes_max {
                    return Err(Fault::new("a decimal has more digits than its precision"));
                }
                json::decimal(bytes, *scale, self.out);
            }
            Node::BigDecimal => self.big_decimal()?,
            Node::Duration => {
                let bytes: [u8; 12] = self.array()?;
                let part =
                    |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
                let text =
                    format!(r#"{{"months":{},"days":{},"milliseconds":{}}}"#, part(0), part(4), part(8));
                self.out.extend_from_slice(text.as_bytes());
            }
            // The caller has written the others.
            _ => debug_assert!(false, "{node:?} is no logical type"),
        }
        Ok(())
    }

    /// Bytes with a number's own bytes and its scale in them.
    fn big_decimal(&mut self) -> Result<(), Fault> {
        let outer = self.bytes()?;
        let behind = std::mem::replace(&mut self.rest, outer);
        let bytes = shortened(self.bytes()?);
        let scale = self.long()?;
        if !self.rest.is_empty() {
            return Err(Fault::new("bytes follow the scale of a decimal"));
        }
        self.rest = behind;
        if bytes.len() > DECIMAL_BYTES_MAX || !(-SCALE_MAX..=SCALE_MAX).contains(&scale) {
            return Err(Fault::new(format!(
                "a decimal has {} bytes and the scale {scale}: at most {DECIMAL_BYTES_MAX} and {SCALE_MAX} are read",
                bytes.len()
            )));
        }
        json::decimal(bytes, scale.max(0) as u32, self.out);
        if scale < 0 && bytes != [0] && !bytes.is_empty() {
            let quote = self.out.pop();
            self.out.extend(std::iter::repeat_n(b'0', scale.unsigned_abs() as usize));
            self.out.extend(quote);
        }
        Ok(())
    }

    fn record(&mut self, fields: &'d [Field], depth: usize) -> Result<(), Fault> {
        if depth > DEPTH_MAX {
            return Err(Fault::too_deep());
        }
        self.out.push(b'{');
        for field in fields {
            self.out.extend_from_slice(&field.key);
            let written = self.value(field.node, depth).and_then(|()| self.check_length());
            written.map_err(|fault| fault.within(&field.name))?;
        }
        self.out.push(b'}');
        Ok(())
    }

    /// The number of items of the next block of a list or a map; 0 at its end.
    fn block(&mut self) -> Result<u64, Fault> {
        let count = self.long()?;
        if count < 0 {
            // The size in bytes, for readers that leave the block out.
            self.long()?;
        }
        Ok(count.unsigned_abs())
    }

    fn list(&mut self, items: NodeId, depth: usize) -> Result<(), Fault> {
        if depth > DEPTH_MAX {
            return Err(Fault::too_deep());
        }
        self.out.push(b'[');
        let mut is_first = true;
        loop {
            let count = self.block()?;
            if count == 0 {
                break;
            }
            for _ in 0..count {
                if !std::mem::take(&mut is_first) {
                    self.out.push(b',');
                }
                self.value(items, depth)?;
                self.check_length()?;
            }
        }
        self.out.push(b']');
        Ok(())
    }

    fn map(&mut self, values: NodeId, depth: usize) -> Result<(), Fault> {
        if depth > DEPTH_MAX {
            return Err(Fault::too_deep());
        }
        self.out.push(b'{');
        let mut is_first = true;
        loop {
            let count = self.block()?;
            if count == 0 {
                break;
            }
            for _ in 0..count {
                if !std::mem::take(&mut is_first) {
                    self.out.push(b',');
                }
                let key = self.text()?;
                json::string(key, self.out);
                self.out.push(b':');
                self.value(values, depth)?;
                self.check_length()?;
            }
        }
        self.out.push(b'}');
        Ok(())
    }
}

/// A number in two's complement without bytes that only repeat its sign.
fn shortened(bytes: &[u8]) -> &[u8] {
    let is_sign = |pair: &[u8]| matches!(pair, [0, 0..=0x7f] | [0xff, 0x80..=0xff]);
    let surplus = bytes.windows(2).take_while(|pair| is_sign(pair)).count();
    &bytes[surplus..]
}

//! The results that a worker sends for a partition, and their bytes.
//!
//! ```text
//! unit   := byte 1, partition, varint n, n output, mark          of version 1
//! output := 16 bytes operator, from, below, byte has, counts, (has & 1) varint first, bytes rows, varint n, n slice
//! counts := 5 varint
//! slice  := start, end, bytes groups                             mark := 0 | 1 next, time, queries, from, time, queries, n, n (query, from)
//! ```
//!
//! Numbers are varints, signed ones in zigzag form; `bytes` is a varint and so many bytes.

use std::ops::Range;

use bytes::Bytes;
use swiftwater_event::Millis;

use crate::{OperatorKey, QueryNumber};

/// The version of the form.
const VERSION: u8 = 1;

/// The work of a worker for a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Events that its index found.
    pub candidates: u64,
    /// Events that its filter was tested on.
    pub residual_tests: u64,
    /// Events that it matched, where its records do not tell.
    pub matches: u64,
    /// Matched events with a value that does not fit its type.
    pub mistyped: u64,
    /// Operations that could not be done.
    pub expression_errors: u64,
}

impl Counts {
    pub(crate) fn add(&mut self, other: Counts) {
        self.candidates += other.candidates;
        self.residual_tests += other.residual_tests;
        self.matches += other.matches;
        self.mistyped += other.mistyped;
        self.expression_errors += other.expression_errors;
    }

    fn all(&self) -> [u64; 5] {
        [self.candidates, self.residual_tests, self.matches, self.mistyped, self.expression_errors]
    }
}

/// Groups of a stretch of the windows' line that is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slice {
    /// Its start.
    pub start: Millis,
    /// The first instant after it.
    pub end: Millis,
    /// The groups ([`swiftwater_live::Groups::encode`]), or a part of them.
    pub groups: Bytes,
}

/// The results of an operator from a partition: they are those of each of its queries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// The operator.
    pub operator: OperatorKey,
    /// The queries of which the counts and records are, as far as the worker knew them.
    pub queries: Range<QueryNumber>,
    /// The work.
    pub counts: Counts,
    /// The offset that the rows of the records are counted from, and the records ([`swiftwater_live::RowChunk::encode`]).
    pub rows: Option<(u64, Bytes)>,
    /// Slices that are over, for all queries that have them: these from one cut to the next.
    pub slices: Vec<Slice>,
}

/// The progress of a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// The next offset to read.
    pub next: u64,
    /// All events before this time are in.
    pub time: Millis,
    /// All queries with lower numbers are known to the worker.
    pub queries: QueryNumber,
    /// The worker has seen the events from this time on.
    pub from: Millis,
    /// The time and the queries of its mark before: what it sends of these queries comes after that time.
    pub since: (Millis, QueryNumber),
    /// The queries for which it has seen the events only from a later time on, if its marks before have not said so.
    pub late: Vec<(QueryNumber, Millis)>,
}

/// Outputs of a partition. A mark counts what came since the one before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unit {
    /// The partition.
    pub partition: u32,
    /// Results.
    pub outputs: Vec<Output>,
    /// The progress; `None`: more is to come first.
    pub mark: Option<Mark>,
}

/// Bytes that are no unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidUnit {
    /// They are of a version that this release does not know.
    #[error("a unit of version {0}, of a newer release: upgrade this node")]
    Version(u8),
    /// They are damaged.
    #[error("the bytes are no unit of a worker")]
    Damaged,
}

fn push(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn push_signed(number: i64, out: &mut Vec<u8>) {
    push((number << 1 ^ number >> 63) as u64, out);
}

fn push_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    push(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// A reader of bytes.
struct Reader(Bytes);

impl Reader {
    fn byte(&mut self) -> Result<u8, InvalidUnit> {
        let byte = *self.0.first().ok_or(InvalidUnit::Damaged)?;
        let _ = self.0.split_to(1);
        Ok(byte)
    }

    fn eight(&mut self) -> Result<u64, InvalidUnit> {
        let (eight, _) = self.0.split_first_chunk::<8>().ok_or(InvalidUnit::Damaged)?;
        let eight = u64::from_le_bytes(*eight);
        let _ = self.0.split_to(8);
        Ok(eight)
    }

    fn number(&mut self) -> Result<u64, InvalidUnit> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(InvalidUnit::Damaged)
    }

    fn signed(&mut self) -> Result<i64, InvalidUnit> {
        let number = self.number()?;
        Ok((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    fn bytes(&mut self) -> Result<Bytes, InvalidUnit> {
        let length = usize::try_from(self.number()?).map_err(|_| InvalidUnit::Damaged)?;
        if length > self.0.len() {
            return Err(InvalidUnit::Damaged);
        }
        Ok(self.0.split_to(length))
    }
}

impl Output {
    /// Bytes, about.
    pub(crate) fn bytes(&self) -> usize {
        let slices: usize = self.slices.iter().map(|slice| slice.groups.len() + 24).sum();
        48 + slices + self.rows.as_ref().map_or(0, |(_, rows)| rows.len())
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.operator.0.to_le_bytes());
        out.extend_from_slice(&self.operator.1.to_le_bytes());
        push(self.queries.start, out);
        push(self.queries.end, out);
        out.push(u8::from(self.rows.is_some()));
        self.counts.all().into_iter().for_each(|count| push(count, out));
        if let Some((first, rows)) = &self.rows {
            push(*first, out);
            push_bytes(rows, out);
        }
        push(self.slices.len() as u64, out);
        for slice in &self.slices {
            push_signed(slice.start, out);
            push_signed(slice.end, out);
            push_bytes(&slice.groups, out);
        }
    }

    fn decode(bytes: &mut Reader) -> Result<Output, InvalidUnit> {
        let operator = OperatorKey(bytes.eight()?, bytes.eight()?);
        let queries = bytes.number()?..bytes.number()?;
        let has = bytes.byte()?;
        let counts = Counts {
            candidates: bytes.number()?,
            residual_tests: bytes.number()?,
            matches: bytes.number()?,
            mistyped: bytes.number()?,
            expression_errors: bytes.number()?,
        };
        let rows = match has {
            0 => None,
            1 => Some((bytes.number()?, bytes.bytes()?)),
            _ => return Err(InvalidUnit::Damaged),
        };
        let mut slices = Vec::new();
        for _ in 0..bytes.number()? {
            slices.push(Slice { start: bytes.signed()?, end: bytes.signed()?, groups: bytes.bytes()? });
        }
        Ok(Output { operator, queries, counts, rows, slices })
    }
}

impl Unit {
    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        push(u64::from(self.partition), &mut out);
        push(self.outputs.len() as u64, &mut out);
        self.outputs.iter().for_each(|output| output.encode(&mut out));
        let Some(mark) = &self.mark else {
            out.push(0);
            return out;
        };
        out.push(1);
        push(mark.next, &mut out);
        push_signed(mark.time, &mut out);
        push(mark.queries, &mut out);
        push_signed(mark.from, &mut out);
        push_signed(mark.since.0, &mut out);
        push(mark.since.1, &mut out);
        push(mark.late.len() as u64, &mut out);
        for (query, from) in &mark.late {
            push(*query, &mut out);
            push_signed(*from, &mut out);
        }
        out
    }

    /// The unit that these bytes are.
    pub fn decode(bytes: Bytes) -> Result<Unit, InvalidUnit> {
        let bytes = &mut Reader(bytes);
        match bytes.byte()? {
            VERSION => {}
            newer => return Err(InvalidUnit::Version(newer)),
        }
        let partition = u32::try_from(bytes.number()?).map_err(|_| InvalidUnit::Damaged)?;
        let mut outputs = Vec::new();
        for _ in 0..bytes.number()? {
            outputs.push(Output::decode(bytes)?);
        }
        let mark = match bytes.byte()? {
            0 => None,
            1 => {
                let (next, time) = (bytes.number()?, bytes.signed()?);
                let (queries, from) = (bytes.number()?, bytes.signed()?);
                let since = (bytes.signed()?, bytes.number()?);
                let mut late = Vec::new();
                for _ in 0..bytes.number()? {
                    late.push((bytes.number()?, bytes.signed()?));
                }
                Some(Mark { next, time, queries, from, since, late })
            }
            _ => return Err(InvalidUnit::Damaged),
        };
        if !bytes.0.is_empty() {
            return Err(InvalidUnit::Damaged);
        }
        Ok(Unit { partition, outputs, mark })
    }
}

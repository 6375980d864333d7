//! Encodes a row, JSON, as binary data of Avro: the reverse of `decode`.
//!
//! A value takes the branch of a union that decodes to the same JSON, by its kind alone where that is possible: a text is a
//! `string` if the union has one, a whole number an `int` or a `long`, another number a `double`. Among others the first one
//! counts whose type the value has.

use std::collections::BTreeMap;

use super::schema::{AvroSchema, Field, Node, NodeId};
use crate::{
    DEPTH_MAX, Fault, SchemaError,
    json::{Unit, from_base64},
    row::{self, Decimal, Json},
};

/// The ranks of branches.
const RANKS: u8 = 4;

/// The most digits behind the point of a decimal that has a scale of its own, and zeros before it.
const SCALE_MAX: i64 = 1000;

/// The longest number of a decimal that has a scale of its own, in bytes.
const DECIMAL_BYTES_MAX: usize = 512;

struct Encoder<'e> {
    nodes: &'e [Node],
    out: &'e mut Vec<u8>,
    /// The length of `out` beyond which the message is too large.
    end_max: usize,
    /// Values that may still be tried: a union tries several, and a default may have many.
    tries_left: usize,
    bytes_max: usize,
    /// A default of the schema is written: values of logical types are those of the type below.
    is_default: bool,
}

impl AvroSchema {
    pub(crate) fn encode(&self, row: &Json<'_>, bytes_max: usize, out: &mut Vec<u8>) -> Result<(), Fault> {
        let end_max = out.len().saturating_add(bytes_max);
        let mut encoder = Encoder {
            nodes: &self.nodes,
            out,
            end_max,
            tries_left: bytes_max.saturating_mul(2),
            bytes_max,
            is_default: false,
        };
        encoder.value(self.root, row, 0)
    }

    /// Refuses columns that a row has and the schema does not; with `are_all` also fields that no row can have a value for.
    pub(crate) fn check_columns(&self, columns: &[&str], are_all: bool) -> Result<(), SchemaError> {
        let Node::Record(fields) = &self.nodes[self.root as usize] else {
            return Err(SchemaError::new("it is no record, and a row has columns"));
        };
        if let Some(column) =
            columns.iter().find(|column| !fields.iter().any(|field| *field.name == ***column))
        {
            return Err(SchemaError::new(format!(
                "it has no field `{column}`, which is a column of the rows"
            )));
        }
        let is_missing = |field: &&Field| {
            are_all
                && field.default.is_none()
                && self.null_of(field.node).is_none()
                && !columns.contains(&&*field.name)
        };
        match fields.iter().find(is_missing) {
            None => Ok(()),
            Some(Field { name, .. }) => Err(SchemaError::new(format!(
                "its field `{name}` needs a value, and the rows have no column `{name}`: give the field a default, or the query \
                 a column of this name"
            ))),
        }
    }

    fn null_of(&self, node: NodeId) -> Option<Option<i64>> {
        null_of(&self.nodes, node)
    }
}

/// The way to write null: by the branch of a union, or as it is; none if the type does not allow it.
fn null_of(nodes: &[Node], node: NodeId) -> Option<Option<i64>> {
    match &nodes[node as usize] {
        Node::Null => Some(None),
        Node::Union(branches) => {
            let place = branches.iter().position(|branch| nodes[*branch as usize] == Node::Null)?;
            Some(Some(place as i64))
        }
        _ => None,
    }
}

impl<'e> Encoder<'e> {
    fn long(&mut self, value: i64) {
        let mut rest = (value << 1 ^ value >> 63) as u64;
        while rest >= 0x80 {
            self.out.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        self.out.push(rest as u8);
    }

    /// Bytes with their length before them.
    fn bytes(&mut self, bytes: &[u8]) {
        self.long(bytes.len() as i64);
        self.out.extend_from_slice(bytes);
    }

    /// Counts a try: unions in unions of records, and defaults in defaults, could take longer than anybody waits.
    fn count(&mut self) -> Result<(), Fault> {
        if self.tries_left == 0 || self.out.len() > self.end_max {
            self.tries_left = 0;
            return Err(Fault::new(format!("its message has more than {} bytes", self.bytes_max)));
        }
        self.tries_left -= 1;
        Ok(())
    }

    fn value(&mut self, node: NodeId, json: &Json<'_>, depth: usize) -> Result<(), Fault> {
        self.count()?;
        let nodes = self.nodes;
        match (&nodes[node as usize], json) {
            (Node::Union(branches), json) => self.union(branches, json, depth)?,
            (Node::Null, Json::Null) => {}
            (Node::Null, json) => return Err(json.mismatch("`null`")),
            (_, Json::Null) => return Err(Fault::new("the value is null, which the schema does not allow")),
            (Node::Boolean, Json::Boolean(value)) => self.out.push(u8::from(*value)),
            (Node::Int, Json::Number(number)) => {
                let value = row::whole(number)?;
                let fits = i32::try_from(value);
                self.long(fits.map_err(|_| Fault::new(format!("{value} does not fit 32 bits")))?.into());
            }
            (Node::Long, Json::Number(number)) => {
                let value = row::whole(number)?;
                let fits = i64::try_from(value);
                self.long(fits.map_err(|_| Fault::new(format!("{value} does not fit 64 bits")))?);
            }
            (Node::Float, json) => {
                let value = match json {
                    Json::Number(number) => row::float(number)?,
                    Json::Text(text) => row::not_finite(text).ok_or_else(|| json.mismatch("`float`"))? as f32,
                    json => return Err(json.mismatch("`float`")),
                };
                self.out.extend_from_slice(&value.to_le_bytes());
            }
            (Node::Double, json) => {
                let value = match json {
                    Json::Number(number) => row::double(number)?,
                    Json::Text(text) => row::not_finite(text).ok_or_else(|| json.mismatch("`double`"))?,
                    json => return Err(json.mismatch("`double`")),
                };
                self.out.extend_from_slice(&value.to_le_bytes());
            }
            (Node::String, Json::Text(text)) => self.bytes(text.as_bytes()),
            (Node::Enum(symbols), Json::Text(text)) => {
                let place = symbols.iter().position(|symbol| is_symbol(symbol, text));
                let missing = || Fault::new("the text is none of the symbols of the schema's enum");
                self.long(place.ok_or_else(missing)? as i64);
            }
            (Node::Array(items), Json::List(values)) => self.list(*items, values, depth + 1)?,
            (Node::Map(values), Json::Object(entries)) => self.map(*values, entries, depth + 1)?,
            (Node::Record(fields), Json::Object(entries)) => self.record(fields, entries, depth + 1)?,
            (node, json) => self.bytes_or_logical(node, json)?,
        }
        Ok(())
    }

    fn bytes_or_logical(&mut self, node: &Node, json: &Json<'_>) -> Result<(), Fault> {
        if self.is_default {
            return self.default_of_bytes(node, json);
        }
        match (node, json) {
            (Node::Bytes, Json::Text(text)) => {
                let bytes = from_base64(text).ok_or_else(no_base64)?;
                self.bytes(&bytes);
            }
            (Node::Fixed(size), Json::Text(text)) => {
                let bytes = from_base64(text).ok_or_else(no_base64)?;
                if bytes.len() != *size {
                    let text = format!("it has {} bytes, and the schema's `fixed` {size}", bytes.len());
                    return Err(Fault::new(text));
                }
                self.out.extend_from_slice(&bytes);
            }
            (Node::Date, Json::Text(text)) => {
                let days =
                    row::date(text).ok_or_else(|| Fault::new("a text is no date such as 2026-01-02"))?;
                self.long(days.into());
            }
            (Node::Time(unit), Json::Text(text)) => {
                let time = row::time(text, *unit);
                self.long(time.ok_or_else(|| Fault::new("a text is no time of day such as 03:04:05.006"))?);
            }
            (Node::Timestamp { unit, is_local }, Json::Text(text)) => {
                let no_time = || {
                    let zone = if *is_local { "without a zone" } else { "with its zone" };
                    Fault::new(format!("a text is no time such as 2026-01-02T03:04:05.006, {zone}"))
                };
                self.long(row::instant(text, *unit, *is_local).ok_or_else(no_time)?);
            }
            (Node::Timestamp { unit: Unit::Millis, .. }, Json::Number(number)) => {
                let millis = i64::try_from(row::whole(number)?);
                self.long(millis.map_err(|_| Fault::new("a time is beyond the range of 64 bits"))?);
            }
            (Node::Timestamp { .. }, Json::Number(_)) => {
                return Err(Fault::new(
                    "a number is no time of a unit other than milliseconds: cast it to TIMESTAMP",
                ));
            }
            (Node::Uuid, Json::Text(text)) => {
                let bytes = uuid(text).ok_or_else(|| Fault::new("a text is no uuid"))?;
                self.out.extend_from_slice(&bytes);
            }
            (Node::Decimal { fixed, scale, precision, .. }, Json::Text(_) | Json::Number(_)) => {
                let unscaled = decimal(json, i64::from(*scale), *precision)?.unscaled();
                match fixed {
                    None => self.bytes(&unscaled),
                    Some(size) => {
                        let sign = if unscaled[0] & 0x80 == 0 { 0 } else { 0xff };
                        let room = size.checked_sub(unscaled.len());
                        let room =
                            room.ok_or_else(|| Fault::new("a decimal does not fit the bytes of its type"))?;
                        self.out.extend(std::iter::repeat_n(sign, room));
                        self.out.extend_from_slice(&unscaled);
                    }
                }
            }
            (Node::BigDecimal, Json::Text(_) | Json::Number(_)) => self.big_decimal(json)?,
            (Node::Duration, Json::Object(parts)) => {
                let part = |name: &str| match parts.get(name) {
                    Some(Json::Number(number)) => u32::try_from(row::whole(number).ok()?).ok(),
                    _ => None,
                };
                let parts = (part("months"), part("days"), part("milliseconds"), parts.len());
                let (Some(months), Some(days), Some(millis), 3) = parts else {
                    return Err(Fault::new(
                        "a duration has whole numbers of 32 bits as `months`, `days` and `milliseconds`",
                    ));
                };
                [months, days, millis].iter().for_each(|part| self.out.extend(part.to_le_bytes()));
            }
            (node, json) => return Err(json.mismatch(name_of(node))),
        }
        Ok(())
    }

    /// The default of a type of bytes is a text with a character per byte; that of another logical type is one of the type below.
    fn default_of_bytes(&mut self, node: &Node, json: &Json<'_>) -> Result<(), Fault> {
        let size = match node {
            Node::Bytes | Node::BigDecimal | Node::Decimal { fixed: None, .. } => None,
            Node::Fixed(size) | Node::Decimal { fixed: Some(size), .. } => Some(*size),
            Node::Uuid => Some(16),
            Node::Duration => Some(12),
            Node::Date | Node::Time(_) | Node::Timestamp { .. } => {
                let Json::Number(number) = json else { return Err(json.mismatch("whole number")) };
                let value = i64::try_from(row::whole(number)?);
                self.long(value.map_err(|_| Fault::new("it does not fit 64 bits"))?);
                return Ok(());
            }
            node => return Err(json.mismatch(name_of(node))),
        };
        let Json::Text(text) = json else { return Err(json.mismatch("text of bytes")) };
        let bytes: Option<Vec<u8>> = text.chars().map(|c| u8::try_from(u32::from(c)).ok()).collect();
        let bytes = bytes.ok_or_else(|| Fault::new("a character of it is no byte"))?;
        match size {
            None => self.bytes(&bytes),
            Some(size) if size == bytes.len() => self.out.extend_from_slice(&bytes),
            Some(size) => return Err(Fault::new(format!("it has {} bytes instead of {size}", bytes.len()))),
        }
        Ok(())
    }

    fn big_decimal(&mut self, json: &Json<'_>) -> Result<(), Fault> {
        let decimal = decimal_of(json)?;
        let (unscaled, scale) = (decimal.unscaled(), decimal.scale);
        if unscaled.len() > DECIMAL_BYTES_MAX || !(-SCALE_MAX..=SCALE_MAX).contains(&scale) {
            return Err(Fault::new(format!(
                "a decimal has more than {DECIMAL_BYTES_MAX} bytes, or more than {SCALE_MAX} digits behind its point"
            )));
        }
        let outer = std::mem::take(self.out);
        self.bytes(&unscaled);
        self.long(scale);
        let inner = std::mem::replace(self.out, outer);
        self.bytes(&inner);
        Ok(())
    }

    fn union(&mut self, branches: &[NodeId], json: &Json<'_>, depth: usize) -> Result<(), Fault> {
        let nodes = self.nodes;
        let (begin, mut first_fault) = (self.out.len(), None);
        for rank in 0..RANKS {
            for (place, branch) in branches.iter().enumerate() {
                if rank_of(&nodes[*branch as usize], json, self.is_default) != Some(rank) {
                    continue;
                }
                self.long(place as i64);
                match self.value(*branch, json, depth) {
                    Ok(()) => return Ok(()),
                    Err(fault) => {
                        self.out.truncate(begin);
                        first_fault.get_or_insert(fault);
                    }
                }
            }
        }
        Err(first_fault.unwrap_or_else(|| match json {
            Json::Null => Fault::new("the value is null, which the schema does not allow"),
            json => json.mismatch("branch of the schema's union"),
        }))
    }

    fn record(
        &mut self,
        fields: &'e [Field],
        entries: &BTreeMap<String, Json<'_>>,
        depth: usize,
    ) -> Result<(), Fault> {
        if depth > DEPTH_MAX {
            return Err(Fault::too_deep());
        }
        let mut found = 0;
        for field in fields {
            let written = match (entries.get(&*field.name), &field.default) {
                (Some(value), _) => {
                    found += 1;
                    self.value(field.node, value, depth)
                }
                (None, Some(default)) => self.default(field.node, default, depth),
                (None, None) => match null_of(self.nodes, field.node) {
                    Some(None) => Ok(()),
                    Some(Some(branch)) => {
                        self.long(branch);
                        Ok(())
                    }
                    None => Err(Fault::new("the row has no value for it, and the schema no default")),
                },
            };
            written.map_err(|fault| fault.within(&field.name))?;
        }
        let is_unknown = |name: &&String| !fields.iter().any(|field| *field.name == ***name);
        match entries.len() == found {
            true => Ok(()),
            false => match entries.keys().find(is_unknown) {
                Some(name) => Err(Fault::new("the schema has no such field").within(name)),
                None => Ok(()),
            },
        }
    }

    fn default(&mut self, node: NodeId, default: &str, depth: usize) -> Result<(), Fault> {
        let json = Json::parse(default.as_bytes())?;
        let before = std::mem::replace(&mut self.is_default, true);
        let written = self.value(node, &json, depth);
        self.is_default = before;
        written.map_err(|fault| Fault::new(format!("the default of the schema is invalid: {fault}")))
    }

    fn list(&mut self, items: NodeId, values: &[Json<'_>], depth: usize) -> Result<(), Fault> {
        if depth > DEPTH_MAX {
            return Err(Fault::too_deep());
        }
        if !values.is_empty() {
            self.long(values.len() as i64);
        }
        values.iter().try_for_each(|value| self.value(items, value, depth))?;
        self.long(0);
        Ok(())
    }

    fn map(
        &mut self,
        values: NodeId,
        entries: &BTreeMap<String, Json<'_>>,
        depth: usize,
    ) -> Result<(), Fault> {
        if depth > DEPTH_MAX {
            return Err(Fault::too_deep());
        }
        if !entries.is_empty() {
            self.long(entries.len() as i64);
        }
        for (name, value) in entries {
            self.bytes(name.as_bytes());
            self.value(values, value, depth)?;
        }
        self.long(0);
        Ok(())
    }
}

/// The rank of a branch for a value, the lowest first; none if it never fits.
fn rank_of(node: &Node, json: &Json<'_>, is_default: bool) -> Option<u8> {
    match (node, json) {
        (Node::Null, Json::Null)
        | (Node::Boolean, Json::Boolean(_))
        | (Node::String, Json::Text(_))
        | (Node::Array(_), Json::List(_))
        | (Node::Map(_) | Node::Record(_) | Node::Duration, Json::Object(_)) => Some(0),
        (
            Node::Bytes
            | Node::Fixed(_)
            | Node::Enum(_)
            | Node::Date
            | Node::Time(_)
            | Node::Timestamp { .. }
            | Node::Uuid
            | Node::Decimal { .. }
            | Node::BigDecimal
            | Node::Float
            | Node::Double,
            Json::Text(_),
        ) => Some(1),
        (Node::Duration, Json::Text(_)) if is_default => Some(1),
        (Node::Date | Node::Time(_), Json::Number(_)) if is_default => Some(1),
        (node, Json::Number(number)) => match (node, row::is_whole(number)) {
            (Node::Int | Node::Long, true) | (Node::Double, false) => Some(0),
            (Node::Double, true) | (Node::Float, false) => Some(1),
            (Node::Float, true) | (Node::Int | Node::Long, false) => Some(2),
            (Node::Decimal { .. } | Node::BigDecimal | Node::Timestamp { .. }, _) => Some(3),
            _ => None,
        },
        _ => None,
    }
}

/// True if an enum's symbol, a JSON text, is this one.
fn is_symbol(symbol: &[u8], text: &str) -> bool {
    match symbol.contains(&b'\\') {
        true => serde_json::from_slice::<String>(symbol).is_ok_and(|symbol| symbol == text),
        false => symbol.get(1..symbol.len() - 1) == Some(text.as_bytes()),
    }
}

fn name_of(node: &Node) -> &'static str {
    match node {
        Node::Null => "`null`",
        Node::Boolean => "`boolean`",
        Node::Int => "`int`",
        Node::Long => "`long`",
        Node::Float => "`float`",
        Node::Double => "`double`",
        Node::Bytes => "text of `bytes` in base64",
        Node::String => "`string`",
        Node::Array(_) => "`array`",
        Node::Map(_) => "`map`",
        Node::Union(_) => "branch of the schema's union",
        Node::Record(_) => "`record`",
        Node::Enum(_) => "symbol of an `enum`",
        Node::Fixed(_) => "text of a `fixed` in base64",
        Node::Decimal { .. } | Node::BigDecimal => "decimal",
        Node::Uuid => "text of a uuid",
        Node::Date => "text of a date",
        Node::Time(_) => "text of a time of day",
        Node::Timestamp { .. } => "text of a time",
        Node::Duration => "object of a duration",
    }
}

fn no_base64() -> Fault {
    Fault::new("a text is no base64, as which bytes are written")
}

fn decimal_of(json: &Json<'_>) -> Result<Decimal, Fault> {
    let text = match json {
        Json::Text(text) => &**text,
        Json::Number(number) => number,
        json => return Err(json.mismatch("decimal")),
    };
    Decimal::parse(text).ok_or_else(|| Fault::new("a text is no decimal such as -12.05"))
}

fn decimal(json: &Json<'_>, scale: i64, precision: u32) -> Result<Decimal, Fault> {
    let decimal = decimal_of(json)?.with_scale(scale);
    let fits = decimal.filter(|decimal| decimal.digits.len() <= precision as usize);
    fits.ok_or_else(|| {
        Fault::new(format!(
            "a decimal does not fit the precision {precision} and the scale {scale} of the schema"
        ))
    })
}

/// The bytes of `01234567-89ab-cdef-0123-456789abcdef`.
fn uuid(text: &str) -> Option<[u8; 16]> {
    let places = [8, 13, 18, 23];
    let is_hyphen = |place: usize| places.contains(&place);
    if text.len() != 36 || !text.bytes().enumerate().all(|(at, byte)| (byte == b'-') == is_hyphen(at)) {
        return None;
    }
    let digits: Option<Vec<u32>> =
        text.chars().filter(|c| *c != '-').map(|digit| digit.to_digit(16)).collect();
    let mut bytes = [0; 16];
    for (byte, pair) in bytes.iter_mut().zip(digits?.chunks_exact(2)) {
        *byte = (pair[0] << 4 | pair[1]) as u8;
    }
    Some(bytes)
}

//! Infers the columns of a stream without a declaration: each field has the type of its first value.
//!
//! A field becomes a column at its first value that is not null. The events' order decides, and the fields' order within
//! an event. A list or object without a type (it is empty, or all null) is skipped too. The types are:
//!
//! - BOOLEAN, LONG, DOUBLE and STRING;
//! - LIST and MAP of one of these if all elements are of one kind (whole and other numbers together are DOUBLE);
//! - JSON for any other list or object.
//!
//! A value that does not fit its column is null there, and the event's text is stored too. The text is also stored for a
//! DOUBLE from 2^53 on, which may be rounded, and for a field that is not a column. Such a field is beyond `columns_max`,
//! or no column can have its name, or its name differs from a column's only in letter case.
//!
//! The result for an event depends on the events before it and on nothing else: neither on batch boundaries nor on later
//! events.

use std::collections::HashSet;

use arrow_array::{Array, ArrayRef};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use bumpalo::Bump;
use swiftwater_event::{
    DecodePlan, EventBatch, Path, Primitive, Type, Value, Values, Want, WantId, event_fields, parse_value,
};
use swiftwater_lang::ddl::column_name_fault;

use super::{
    ColumnsScratch,
    arrow::{into_array, nulls, without},
};

/// One column that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InferredColumn {
    /// The field's name.
    pub name: Box<str>,
    /// The type of its first value.
    pub ty: Type,
}

/// The columns found so far: immutable; a batch that brings more makes a new one.
#[derive(Debug)]
pub struct InferredColumns {
    columns: Vec<InferredColumn>,
    /// Fields that were only null so far, or said no type. The list only saves time, and changes no result.
    untyped: Vec<Box<str>>,
    columns_max: usize,
    plan: DecodePlan,
}

/// A batch with its columns.
#[derive(Debug)]
pub struct InferredBatch {
    /// The new columns, if the batch brought more fields. `columns` are of these then.
    pub grown: Option<InferredColumns>,
    /// A column for each, a row for each event.
    pub columns: Vec<ArrayRef>,
    /// The events that the columns do not say whole. `None`: of all they do.
    pub text_needed: Option<BooleanBuffer>,
}

/// The most fields without a type that are remembered.
const UNTYPED_MAX: usize = 256;

impl InferredColumns {
    /// The columns unless said otherwise.
    pub const COLUMNS_MAX: usize = 1000;

    /// These columns, which were found before; at most `columns_max` in all.
    pub fn new(columns: Vec<InferredColumn>, columns_max: usize) -> InferredColumns {
        InferredColumns::of(columns, Vec::new(), columns_max)
    }

    fn of(columns: Vec<InferredColumn>, untyped: Vec<Box<str>>, columns_max: usize) -> InferredColumns {
        let typed = columns.iter().map(|column| (column.name.clone(), column.ty.clone()));
        let wants = typed.chain(untyped.iter().map(|name| (name.clone(), Type::Any)));
        let plan = DecodePlan::new(wants.map(|(name, ty)| Want { path: Path::field(name), ty }));
        InferredColumns { columns, untyped, columns_max, plan }
    }

    /// The columns, in the order in which they were found.
    pub fn columns(&self) -> &[InferredColumn] {
        &self.columns
    }

    /// Decodes a batch, which must follow the events that these columns were found in. No event is bad. A batch without
    /// new fields costs one decode.
    pub fn accept(&self, batch: &EventBatch, scratch: &mut ColumnsScratch) -> InferredBatch {
        let (columns, text_needed) = self.decode(batch, scratch, &[]);
        let Some(more) = text_needed.as_ref().and_then(|rows| self.with_fields_of(batch, rows)) else {
            return InferredBatch { grown: None, columns, text_needed };
        };
        let (columns, text_needed) = more.columns.decode(batch, scratch, &more.since);
        InferredBatch { grown: Some(more.columns), columns, text_needed }
    }

    /// `since`: of the last columns, the event from which on each holds.
    fn decode(
        &self,
        batch: &EventBatch,
        scratch: &mut ColumnsScratch,
        since: &[usize],
    ) -> (Vec<ArrayRef>, Option<BooleanBuffer>) {
        let (mut decoded, mut needed) = scratch.decoder.decode_whole(batch, &self.plan);
        let mut need = |more: BooleanBuffer| {
            needed = Some(match needed.take() {
                Some(needed) => &needed | &more,
                None => more,
            });
        };
        for (place, _) in self.untyped.iter().enumerate() {
            let values = &decoded.column(WantId((self.columns.len() + place) as u32)).values;
            match nulls(values) {
                Some(nulls) if nulls.null_count() == batch.len() => {}
                Some(nulls) => need(nulls.into_inner()),
                None => need(BooleanBuffer::new_set(batch.len())),
            }
        }
        decoded.columns.truncate(self.columns.len());
        let old = self.columns.len() - since.len();
        let mut arrays = Vec::with_capacity(decoded.columns.len());
        for (place, column) in decoded.columns.into_iter().enumerate() {
            if let Some(mistyped) = column.mistyped {
                need(mistyped);
            }
            if let Some(rounded) = maybe_rounded(&column.values) {
                need(rounded);
            }
            let from = place.checked_sub(old).map_or(0, |place| since[place]);
            let early = (from > 0).then(|| early_values(&column.values, from)).flatten();
            let array = into_array(column.values);
            arrays.push(match early {
                Some(early) => {
                    let array = without(&array, &early);
                    need(early);
                    array
                }
                None => array,
            });
        }
        (arrays, needed.filter(|needed| needed.count_set_bits() > 0))
    }

    /// The columns with those that these events bring; `None`: they bring none, nor anything else to remember.
    fn with_fields_of(&self, batch: &EventBatch, rows: &BooleanBuffer) -> Option<ExtendedColumns> {
        if self.columns.len() >= self.columns_max && self.untyped.len() >= UNTYPED_MAX {
            return None;
        }
        let mut found = FieldDiscovery {
            folded: self.columns.iter().map(|column| column.name.to_lowercase()).collect(),
            columns: self.columns.clone(),
            untyped: self.untyped.clone(),
            since: Vec::new(),
            columns_max: self.columns_max,
        };
        let mut arena = Bump::new();
        for row in rows.set_indices() {
            if let Ok(event) = std::str::from_utf8(batch.event(row)) {
                event_fields(event, &arena)
                    .into_iter()
                    .for_each(|(name, value)| found.field(row, name, value, &arena));
            }
            arena.reset();
        }
        if found.since.is_empty() && found.untyped == self.untyped {
            return None;
        }
        let columns = InferredColumns::of(found.columns, found.untyped, self.columns_max);
        Some(ExtendedColumns { columns, since: found.since })
    }
}

struct ExtendedColumns {
    columns: InferredColumns,
    /// The first event with each new column.
    since: Vec<usize>,
}

/// Fields found so far.
struct FieldDiscovery {
    columns: Vec<InferredColumn>,
    /// The columns' names in lower case: tables are read by engines that take names in whatever letter case.
    folded: HashSet<String>,
    untyped: Vec<Box<str>>,
    since: Vec<usize>,
    columns_max: usize,
}

impl FieldDiscovery {
    fn field(&mut self, row: usize, name: &str, value: &str, arena: &Bump) {
        if self.columns.len() >= self.columns_max || column_name_fault(name).is_some() {
            return;
        }
        let folded = name.to_lowercase();
        if self.folded.contains(&folded) {
            return;
        }
        let place = self.untyped.iter().position(|untyped| **untyped == *name);
        match type_of(value, arena) {
            Some(ty) => {
                if let Some(place) = place {
                    self.untyped.remove(place);
                }
                self.folded.insert(folded);
                self.columns.push(InferredColumn { name: name.into(), ty });
                self.since.push(row);
            }
            None if place.is_none() && self.untyped.len() < UNTYPED_MAX => self.untyped.push(name.into()),
            None => {}
        }
    }
}

/// The type of a column whose first value this is; `None`: it says none.
fn type_of(text: &str, arena: &Bump) -> Option<Type> {
    match parse_value(text, arena)? {
        Value::List(parts) => Some(match kind_of_all(parts.iter())? {
            Some(kind) => Type::List(Box::new(Type::Primitive(kind))),
            None => Type::Any,
        }),
        Value::Map(fields) => Some(match kind_of_all(fields.iter().map(|(_, value)| value))? {
            Some(kind) => Type::Map(Box::new(Type::Primitive(kind))),
            None => Type::Any,
        }),
        value => kind_of(&value).map(Type::Primitive),
    }
}

fn kind_of(value: &Value<'_>) -> Option<Primitive> {
    match value {
        Value::Boolean(_) => Some(Primitive::Boolean),
        Value::Integer(_) | Value::Long(_) => Some(Primitive::Long),
        Value::Float(_) | Value::Double(_) => Some(Primitive::Double),
        Value::String(_) => Some(Primitive::String),
        _ => None,
    }
}

/// The one kind of all parts that are not null. `None`: there are none; `Some(None)`: there is no one kind.
fn kind_of_all<'a, 'v: 'a>(parts: impl Iterator<Item = &'a Value<'v>>) -> Option<Option<Primitive>> {
    let mut all = None;
    for part in parts.filter(|part| !matches!(part, Value::Null)) {
        let kind = kind_of(part);
        all = Some(match (all, kind) {
            (None, kind) => kind,
            (Some(all), kind) if all == kind => kind,
            (Some(Some(Primitive::Long | Primitive::Double)), Some(Primitive::Long | Primitive::Double)) => {
                Some(Primitive::Double)
            }
            _ => return Some(None),
        });
    }
    all
}

/// The DOUBLEs that may be another number than the event has: whole numbers from here on are not all DOUBLEs, and those that are too
/// large for any are infinite.
fn maybe_rounded(values: &Values) -> Option<BooleanBuffer> {
    const WHOLE_MAX: f64 = (1_u64 << 53) as f64;
    let Values::Double(array) = values else { return None };
    let is_one = |row: usize| array.is_valid(row) && array.value(row).abs() >= WHOLE_MAX;
    let is_any = array.values().iter().any(|value| value.abs() >= WHOLE_MAX);
    is_any.then(|| BooleanBuffer::collect_bool(array.len(), is_one))
}

/// The values before `from`: such as said no type, when their column was none yet.
fn early_values(values: &Values, from: usize) -> Option<BooleanBuffer> {
    let nulls = nulls(values);
    let is_there = |row: usize| row < from && nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
    (0..from).any(is_there).then(|| {
        let rows = match values {
            Values::Tagged(tagged) => tagged.kinds.len(),
            Values::Nested(array) => array.len(),
            _ => nulls.as_ref().map_or(from, NullBuffer::len),
        };
        BooleanBuffer::collect_bool(rows, is_there)
    })
}

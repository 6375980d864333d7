//! The interface by which a step looks up the rows that its events are joined with, by key.
//!
//! A step requests the rows of its events' keys, each key once for a group of events. The owner of the rows returns their
//! current state.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use bumpalo::Bump;
use swiftwater_event::{Millis, Value};

/// Rows by key.
pub trait JoinedRows: fmt::Debug + Send + Sync {
    /// The rows of each key: none, one, or, if a key need not be of one row, several.
    fn look_up<'a>(
        &self,
        look_up: &LookupRequest<'_>,
        arena: &'a Bump,
    ) -> Result<Vec<KeyRows<'a>>, JoinFailure>;
}

/// The rows of a key, each with a value for each column. Those of columns that are not wanted may be anything.
pub type KeyRows<'a> = &'a [&'a [Value<'a>]];

/// A request for the rows of keys.
#[derive(Debug)]
pub struct LookupRequest<'k> {
    /// Keys, each once, of values that are not null.
    pub keys: &'k [&'k [Value<'k>]],
    /// The places of the columns whose values these are.
    pub key: &'k [usize],
    /// True for each column whose value is needed.
    pub columns: &'k [bool],
    /// Arrival of the events.
    pub now: Millis,
}

/// The reason why rows could not be looked up: then nothing is known of the events.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct JoinFailure(pub String);

/// A join of a compiled query.
#[derive(Debug)]
pub struct CompiledJoin {
    /// The number of the joined table or view.
    pub id: u64,
    /// Its name.
    pub name: Box<str>,
    /// The places among their columns of the key's values, in the key's order.
    pub key: Box<[usize]>,
    /// True if each of their columns is read.
    pub(crate) columns: Box<[bool]>,
    rows: OnceLock<Arc<dyn JoinedRows>>,
}

impl CompiledJoin {
    pub(crate) fn new(join: &swiftwater_lang::plan::Join, columns: Box<[bool]>) -> CompiledJoin {
        let key = join.key.iter().copied().collect();
        CompiledJoin { id: join.id, name: join.name.clone(), key, columns, rows: OnceLock::new() }
    }

    /// Sets the source of its rows; a second call has no effect.
    pub fn set_rows(&self, rows: Arc<dyn JoinedRows>) {
        let _ = self.rows.set(rows);
    }

    pub(crate) fn look_up<'a>(
        &self,
        keys: &[&[Value<'_>]],
        now: Millis,
        arena: &'a Bump,
    ) -> Result<Vec<KeyRows<'a>>, JoinFailure> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        match self.rows.get() {
            Some(rows) => {
                rows.look_up(&LookupRequest { keys, key: &self.key, columns: &self.columns, now }, arena)
            }
            None => Err(JoinFailure(format!("the rows of `{}` are not available", self.name))),
        }
    }
}

/// A value with all that it holds in an arena.
pub fn value_in<'a>(value: &Value<'_>, arena: &'a Bump) -> Value<'a> {
    match *value {
        Value::Null => Value::Null,
        Value::Error => Value::Error,
        Value::Boolean(truth) => Value::Boolean(truth),
        Value::Integer(number) => Value::Integer(number),
        Value::Long(number) => Value::Long(number),
        Value::Float(number) => Value::Float(number),
        Value::Double(number) => Value::Double(number),
        Value::Timestamp(micros) => Value::Timestamp(micros),
        Value::String(text) => Value::String(arena.alloc_str(text)),
        Value::List(items) => {
            Value::List(arena.alloc_slice_fill_iter(items.iter().map(|item| value_in(item, arena))))
        }
        Value::Map(entries) => Value::Map(arena.alloc_slice_fill_iter(
            entries.iter().map(|(key, value)| (&*arena.alloc_str(key), value_in(value, arena))),
        )),
    }
}

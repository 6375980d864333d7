//! The oracle: what a query answers, worked out in the plainest way there is. One event at a time, one recursive
//! function, no columns, no index; it shares no code with `live`. Slow, and meant to be read.
//!
//! It speaks the native dialect:
//!
//! - A value or operation that cannot be had is null: a step into what has no such part, a place past a list's end, a
//!   bad cast, a division by zero, a whole number that overflows, a comparison of kinds that do not compare.
//! - `=` to `>=` compare booleans, strings (by UTF-8 byte) and numbers: whole ones exactly, else as doubles.
//! - AND, OR, ANY, ALL, IN and BETWEEN are Kleene's: decided by the operands that decide, else null if one is null.
//!   WHERE and HAVING keep a row only on true.
//! - Untyped whole numbers are LONG, other numbers DOUBLE; INTEGER counts as LONG.
//! - SUM of LONGs alone is a LONG, null if the final sum fits none; with any FLOAT or DOUBLE it is the exact sum rounded
//!   to a DOUBLE. AVG is the exact sum, rounded, divided by the count of numbers. Both pass over what is no number.
//! - MIN, MAX, ORDER BY and group keys use one total order: null, booleans, numbers (exactly), strings, lists, maps. So
//!   1 and 1.0 are one group key, shown as a LONG, and null is a key. MIN and MAX pass over nulls, lists and maps.
//!
//! Without time there are no windows here: [`matching`] says which events a window would be about.
//!
//! ```no_run
//! # fn parse(_: &str) -> swiftwater_lang::plan::Query { unimplemented!() }
//! use swiftwater_testkit::{oracle, MixedEvents};
//!
//! let events = MixedEvents::new(7).events(100);
//! let query = parse("SELECT a, COUNT(*) AS n FROM STREAM() GROUP BY a");
//! let answer = oracle::answer(&query, &oracle::read(&events)).expect("the oracle knows all of this query");
//! // `got`: the engine's records, each a JSON object.
//! # let got = Vec::new();
//! answer.check(&got).expect("the engine agrees");
//! ```

mod aggregate;
mod answer;
mod eval;
mod exact;
mod functions;
mod value;

use std::{cmp::Ordering, collections::BTreeMap, fmt};

use serde_json::{Map, Value as Json};
use swiftwater_lang::{
    Dialect,
    plan::{Body, Expr, Group, OutputColumn, Query, Raw, Window},
};

pub use answer::{Answer, Disagreement};

use self::{
    aggregate::aggregate,
    answer::AnswerRow,
    eval::{Row, evaluate, is_true, unsupported},
    value::{Value, total_order},
};

/// A query that asks for something that the oracle does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unsupported(pub &'static str);

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the oracle does not know {}", self.0)
    }
}

impl std::error::Error for Unsupported {}

/// Events' texts as JSON; of equal keys the last one counts.
///
/// # Panics
///
/// Where a text is not JSON.
pub fn read<T: AsRef<str>>(events: &[T]) -> Vec<Json> {
    events.iter().map(|event| serde_json::from_str(event.as_ref()).expect("events are JSON")).collect()
}

/// The places of the events that the query's WHERE keeps.
pub fn matching(query: &Query, events: &[Json]) -> Result<Vec<usize>, Unsupported> {
    check_supported(query)?;
    let kept = events.iter().enumerate().filter(|(_, event)| matches_query(query, &Value::of(event)));
    Ok(kept.map(|(at, _)| at).collect())
}

/// What the query answers over all these events, as one result.
pub fn answer(query: &Query, events: &[Json]) -> Result<Answer, Unsupported> {
    check_supported(query)?;
    if query.window != Window::None {
        return Err(Unsupported("windows"));
    }
    let kept: Vec<(&Json, Value)> = events
        .iter()
        .map(|event| (event, Value::of(event)))
        .filter(|(_, event)| matches_query(query, event))
        .collect();
    let mut rows = match &query.body {
        Body::Raw(raw) => kept.iter().map(|(json, event)| raw_row(raw, query, json, event)).collect(),
        Body::Group(group) => {
            group_rows(group, query, &kept.into_iter().map(|(_, event)| event).collect::<Vec<_>>())
        }
    };
    let is_ordered = !query.order_by.is_empty();
    // Stable: of equal rows the earlier comes first.
    rows.sort_by(|a: &AnswerRow, b: &AnswerRow| order_of_keys(query, &a.keys, &b.keys));
    let ties_in_order = matches!(query.body, Body::Raw(_));
    Ok(Answer { rows, limit: query.limit, is_ordered, ties_in_order })
}

fn matches_query(query: &Query, event: &Value) -> bool {
    query.filter.as_ref().is_none_or(|filter| is_true(filter, Row::Event(event)))
}

fn order_of_keys(query: &Query, a: &[Value], b: &[Value]) -> Ordering {
    let orders = query.order_by.iter().zip(a.iter().zip(b)).map(|(key, (a, b))| {
        let order = total_order(a, b);
        if key.descending { order.reverse() } else { order }
    });
    orders.into_iter().find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

fn sort_keys(query: &Query, row: Row<'_>) -> Vec<Value> {
    query.order_by.iter().map(|key| evaluate(&key.expr, row)).collect()
}

fn add_columns(record: &mut Map<String, Json>, columns: &[OutputColumn], row: Row<'_>) {
    for column in columns {
        record.insert(column.name.to_string(), evaluate(&column.expr, row).to_json());
    }
}

fn raw_row(raw: &Raw, query: &Query, json: &Json, event: &Value) -> AnswerRow {
    let mut record = Map::new();
    if let (Some(star), Json::Object(fields)) = (&raw.star, json) {
        let fields =
            fields.iter().filter(|(name, _)| !star.without.iter().any(|without| **without == ***name));
        record.extend(fields.map(|(name, value)| (name.clone(), value.clone())));
    }
    let row = Row::Event(event);
    add_columns(&mut record, &raw.columns, row);
    AnswerRow { record, keys: sort_keys(query, row) }
}

/// A group key by its total order.
#[derive(Debug)]
struct Key(Vec<Value>);

impl Ord for Key {
    fn cmp(&self, other: &Key) -> Ordering {
        let orders = self.0.iter().zip(&other.0).map(|(a, b)| total_order(a, b));
        orders.into_iter().find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Key) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Key) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Key {}

fn group_rows(group: &Group, query: &Query, events: &[Value]) -> Vec<AnswerRow> {
    let mut groups: BTreeMap<Key, Vec<&Value>> = BTreeMap::new();
    if group.keys.is_empty() {
        groups.insert(Key(Vec::new()), Vec::new());
    }
    for event in events {
        let key = group.keys.iter().map(|key| evaluate(key, Row::Event(event))).collect();
        groups.entry(Key(key)).or_default().push(event);
    }
    let mut rows = Vec::new();
    for (Key(key), members) in groups {
        let mut slots: Vec<Value> = key.into_iter().map(Value::into_key).collect();
        for wanted in &group.aggregates {
            let values: Vec<Value> = match wanted.arguments.first() {
                Some(argument) => members.iter().map(|event| evaluate(argument, Row::Event(event))).collect(),
                None => members.iter().map(|_| Value::Boolean(true)).collect(),
            };
            slots.push(aggregate(wanted.function, &values));
        }
        let row = Row::Slots(&slots);
        if group.having.as_ref().is_none_or(|having| is_true(having, row)) {
            let mut record = Map::new();
            add_columns(&mut record, &group.columns, row);
            rows.push(AnswerRow { record, keys: sort_keys(query, row) });
        }
    }
    rows
}

fn check_supported(query: &Query) -> Result<(), Unsupported> {
    if query.dialect != Dialect::Native {
        return Err(Unsupported("the Bullet dialect"));
    }
    if query.sample.is_some() {
        return Err(Unsupported("samples"));
    }
    let mut exprs: Vec<&Expr> = query.filter.iter().collect();
    exprs.extend(query.order_by.iter().map(|key| &key.expr));
    match &query.body {
        Body::Raw(raw) => exprs.extend(raw.columns.iter().map(|column| &column.expr)),
        Body::Group(group) => {
            exprs.extend(&group.keys);
            exprs.extend(group.aggregates.iter().flat_map(|aggregate| &aggregate.arguments));
            exprs.extend(&group.having);
            exprs.extend(group.columns.iter().map(|column| &column.expr));
        }
    }
    exprs.into_iter().find_map(unsupported).map_or(Ok(()), |what| Err(Unsupported(what)))
}

#[cfg(test)]
mod tests;

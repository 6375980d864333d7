//! The oracle: computes the answer of a query in the simplest way there is. One event at a time, one recursive function, no
//! columns, no index; it shares no code with `live`. Slow, and meant to be read.
//!
//! It implements the native dialect:
//!
//! - A value or operation that does not exist is null: a step into a value without such a part, a place past a list's end, a
//!   bad cast, a division by zero, a whole number that overflows, a comparison of kinds that do not compare.
//! - `=` to `>=` compare booleans, strings (by UTF-8 byte) and numbers: whole ones exactly, else as doubles.
//! - AND, OR, ANY, ALL, IN and BETWEEN are Kleene's: decided by the operands that decide, else null if one is null. WHERE
//!   and HAVING keep a row only on true.
//! - Untyped whole numbers are LONG, other numbers DOUBLE; INTEGER counts as LONG.
//! - SUM of LONGs alone is a LONG, null if the final sum does not fit; with any FLOAT or DOUBLE it is the exact sum rounded
//!   to a DOUBLE. AVG is the exact sum, rounded, divided by the count of numbers. Both skip values that are not numbers.
//! - COUNT(DISTINCT …) skips rows in which an argument is null; APPROX_PERCENTILE_CONT and distributions use numbers only;
//!   all three are exact here, as the engine is while a sketch is small.
//! - FIRST, LAST, COLLECT_LIST and COLLECT_SET take values that are not null in the order of the stream; ARG_MIN and ARG_MAX
//!   take the first row of those with the least or greatest value, by the order below. Sets compare values as group keys do.
//! - TOP is exact too; which of equally frequent combinations it shows, and in what order, is left open.
//! - HASH is Java's; that of null, and of a value that does not exist, is 0.
//! - MIN, MAX, ORDER BY and group keys use one total order: null, booleans, numbers (exactly), strings, lists, maps. So 1
//!   and 1.0 are one group key, shown as a LONG, and null is a key. MIN and MAX skip nulls, lists and maps.
//!
//! [`answer`] knows no time; [`emits`] adds it by naive loops, a window at a time. In windows by event time, an event is
//! late for those that the watermark of the earlier events has closed.
//!
//! ```
//! use swiftwater_lang::{Dialect, ParseOptions, parse};
//! use swiftwater_testkit::oracle;
//!
//! let text = "SELECT a, COUNT(*) AS n FROM STREAM() GROUP BY a";
//! let query = parse(text, &ParseOptions::new(Dialect::Native, 0)).expect("it can be read").query;
//! let events = oracle::read(&[r#"{"a":1}"#, r#"{"a":"x"}"#, r#"{"a":1}"#]);
//! let answer = oracle::answer(&query, &events).expect("the oracle knows all of this query");
//! // What an engine gave; groups stand in any order.
//! let records = |text| serde_json::from_str::<Vec<_>>(text).expect("they are JSON objects");
//! answer.check(&records(r#"[{"a":"x","n":1},{"a":1,"n":2}]"#)).expect("it agrees");
//! assert!(answer.check(&records(r#"[{"a":1,"n":2}]"#)).is_err(), "a group is missing");
//! ```

mod aggregate;
mod answer;
mod eval;
mod exact;
mod functions;
mod result;
mod rows;
mod sessions;
mod table;
mod time;
mod value;
mod windows;

use std::{cmp::Ordering, fmt};

use serde_json::Value as Json;
use swiftwater_lang::{
    Dialect,
    plan::{Body, Expr, Query, Window},
};

pub use answer::{Answer, Disagreement};
pub use windows::{Emits, Emitted, QueryLifetime, ReceivedEmit, emits};

use self::{
    eval::unsupported,
    result::{Part, result},
    rows::filtered_rows,
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
/// Panics if a text is not JSON.
pub fn read<T: AsRef<str>>(events: &[T]) -> Vec<Json> {
    events.iter().map(|event| serde_json::from_str(event.as_ref()).expect("events are JSON")).collect()
}

/// The places of the events that the query's WHERE keeps; with lateral views, of which it keeps any row.
pub fn matching(query: &Query, events: &[Json]) -> Result<Vec<usize>, Unsupported> {
    check_supported(query)?;
    let matched = events.iter().enumerate().filter(|(_, event)| !filtered_rows(query, event).is_empty());
    Ok(matched.map(|(at, _)| at).collect())
}

/// The query's answer over all these events, as one result.
pub fn answer(query: &Query, events: &[Json]) -> Result<Answer, Unsupported> {
    check_supported(query)?;
    if query.window != Window::None {
        return Err(Unsupported("windows without time"));
    }
    let rows = events.iter().flat_map(|event| filtered_rows(query, event)).collect();
    result(query, &[Part { rows, window: None }])
}

/// Values by their total order: a group's key, or what COUNT(DISTINCT …) and TOP count.
#[derive(Debug, Clone)]
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

fn check_supported(query: &Query) -> Result<(), Unsupported> {
    if query.dialect != Dialect::Native {
        return Err(Unsupported("the Bullet dialect"));
    }
    if query.sample.is_some() {
        return Err(Unsupported("samples"));
    }
    let mut exprs: Vec<&Expr> = query.event_exprs();
    exprs.extend(query.order_by.iter().map(|key| &key.expr));
    if let Body::Group(group) = &query.body {
        if group.aggregates.iter().any(|aggregate| aggregate.function.is_event()) {
            return Err(Unsupported("whole events"));
        }
        exprs.extend(&group.having);
        exprs.extend(group.columns.iter().map(|column| &column.expr));
    }
    if let Some(what) = exprs.into_iter().find_map(unsupported) {
        return Err(Unsupported(what));
    }
    query.outer.as_ref().map_or(Ok(()), |outer| check_supported(outer))
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod window_tests;

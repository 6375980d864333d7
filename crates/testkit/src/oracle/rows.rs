//! The input rows of a query: events, or the rows that its lateral views make of them.

use serde_json::Value as Json;
use swiftwater_lang::plan::{LateralView, Query};

use super::{
    eval::{Row, evaluate, is_true},
    value::Value,
};

/// A row that passes a query's WHERE: an event, and the columns that lateral views add to it.
#[derive(Debug, Clone)]
pub(super) struct FilteredRow<'a> {
    pub(super) json: &'a Json,
    pub(super) event: Value,
    pub(super) slots: Vec<Value>,
}

impl FilteredRow<'_> {
    pub(super) fn row(&self) -> Row<'_> {
        Row { event: &self.event, slots: &self.slots }
    }
}

/// The rows of one event that pass the WHERE of a query.
pub(super) fn filtered_rows<'a>(query: &Query, json: &'a Json) -> Vec<FilteredRow<'a>> {
    let event = Value::of(json);
    let mut rows = vec![Vec::new()];
    for view in &query.views {
        rows = rows.into_iter().flat_map(|slots| exploded(view, &event, slots)).collect();
    }
    let all = rows.into_iter().map(|slots| FilteredRow { json, event: event.clone(), slots });
    all.filter(|kept| query.filter.as_ref().is_none_or(|filter| is_true(filter, kept.row()))).collect()
}

/// A row per element of what the view is over.
fn exploded(view: &LateralView, event: &Value, slots: Vec<Value>) -> Vec<Vec<Value>> {
    let container = evaluate(&view.expr, Row { event, slots: &slots });
    let mut parts: Vec<Vec<Value>> = match (container, view.columns.len()) {
        (Value::List(items), 1) => items.into_iter().map(|item| vec![item]).collect(),
        (Value::Map(entries), 2) => {
            entries.into_iter().map(|(key, value)| vec![Value::String(key), value]).collect()
        }
        _ => Vec::new(),
    };
    if parts.is_empty() && view.is_outer {
        parts.push(vec![Value::Null; view.columns.len()]);
    }
    parts.into_iter().map(|part| slots.iter().cloned().chain(part).collect()).collect()
}

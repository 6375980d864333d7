//! The correlation columns of streams: how their values are searched, and which ids a row has.
//!
//! | value | its id |
//! | --- | --- |
//! | text | the text itself |
//! | number | its decimal digits: `5`, `5.0` and `5e0` are `5` |
//! | truth value | `true`, `false` |
//! | list, map, JSON | each value in it, at any depth |
//!
//! A condition compares a column as its search index does, so index files answer it. A column that is also indexed as words
//! or as a path is compared with the whole value in addition.

use std::{collections::BTreeMap, fmt::Write, sync::Arc};

use arrow_array::{
    RecordBatch,
    cast::AsArray,
    types::{Int64Type, TimestampMicrosecondType},
};
use serde_json::{Map, Value};
use swiftwater_event::StreamName;
use swiftwater_sql::{ErrorKind as SqlErrorKind, SqlError};
use swiftwater_text::{EVENT_COLUMN, TextKind};

use super::super::{Target, hits::lines_of};
use crate::{durable::history::History, durable::stored_stream::StoredStream};

/// Bytes of an id. A longer value in a correlation column is no id.
pub(super) const ID_BYTES_MAX: usize = 1024;
/// Conditions of one search, and how many of them are regular expressions; below the limits of the search language.
const CONDITIONS: usize = 1000;
const EXPRESSIONS: usize = 60;
/// Bytes of one search.
const QUERY_BYTES: usize = 48 << 10;

/// A stream with correlation columns.
#[derive(Debug, Clone)]
pub(super) struct CorrelatedStream {
    pub(super) name: StreamName,
    /// In the order of the definition.
    pub(super) columns: Vec<CorrelationColumn>,
    /// The column of the declared event time.
    pub(super) event_time: Option<Box<str>>,
}

/// A column whose values are ids of activities.
#[derive(Debug, Clone)]
pub(super) struct CorrelationColumn {
    pub(super) name: Box<str>,
    /// True if a condition compares whole values.
    is_whole: bool,
}

/// The ids that are searched at once.
#[derive(Debug, Default)]
pub(super) struct SearchedIds {
    texts: BTreeMap<String, Arc<str>>,
    /// By the digits of their numbers.
    numbers: BTreeMap<String, Arc<str>>,
}

/// An id in a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RowId {
    /// The place of its column in [`CorrelatedStream::columns`].
    pub(super) column: usize,
    pub(super) text: String,
    is_number: bool,
}

impl SearchedIds {
    pub(super) fn new<'i>(ids: impl IntoIterator<Item = &'i Arc<str>>) -> SearchedIds {
        let mut searched = SearchedIds::default();
        for id in ids {
            searched.texts.insert(id.to_string(), Arc::clone(id));
            if let Some(digits) = number_text(id) {
                searched.numbers.entry(digits).or_insert_with(|| Arc::clone(id));
            }
        }
        searched
    }

    /// True if an id is searched in this spelling.
    pub(super) fn has_text(&self, id: &str) -> bool {
        self.texts.contains_key(id)
    }

    /// The searched id that a row's id is equal to.
    pub(super) fn get(&self, id: &RowId) -> Option<&Arc<str>> {
        self.texts.get(&id.text).or_else(|| self.numbers.get(&id.text).filter(|_| id.is_number))
    }
}

impl CorrelatedStream {
    /// Its correlation columns; none if it has none.
    fn of(history: &History, name: &StreamName) -> Option<CorrelatedStream> {
        let index = history.index_of(name.as_str())?;
        let columns = index.definition.columns.iter().filter_map(|(column, index)| {
            let is_correlation = index.id.is_some_and(|id| id.is_correlation);
            is_correlation.then(|| CorrelationColumn {
                name: column.clone(),
                is_whole: index.text_kind() == TextKind::Whole,
            })
        });
        let columns: Vec<CorrelationColumn> = columns.collect();
        let stored = history.stored(name).filter(|_| !columns.is_empty())?;
        let event_time =
            stored.declared().create.watermark.as_ref().map(|watermark| watermark.column.clone());
        Some(CorrelatedStream { name: name.clone(), columns, event_time })
    }

    /// The streams of these names that have correlation columns, or all such streams; by name.
    pub(super) fn all(history: &History, names: &[StreamName]) -> Vec<CorrelatedStream> {
        let mut names = match names {
            [] => history.all_stored().iter().map(|stored: &Arc<StoredStream>| stored.name.clone()).collect(),
            names => names.to_vec(),
        };
        names.sort_unstable_by(|a, b| a.as_str().cmp(b.as_str()));
        names.dedup();
        names.iter().filter_map(|name| CorrelatedStream::of(history, name)).collect()
    }

    /// The query of events that have one of the ids.
    pub(super) fn query(&self, ids: &[Arc<str>]) -> String {
        let mut query = String::new();
        for column in &self.columns {
            for id in ids {
                if !query.is_empty() {
                    query += " OR ";
                }
                column.write_condition(id, &mut query);
            }
        }
        query
    }

    /// The most ids that one search may have, if their conditions have so many bytes.
    fn ids_max(&self) -> usize {
        let expressions = self.columns.iter().filter(|column| !column.is_whole).count();
        (CONDITIONS / (self.columns.len() + expressions)).min(EXPRESSIONS / expressions.max(1)).max(1)
    }

    /// The declared event time of each row, in microseconds since 1970; none where it has none.
    pub(super) fn event_times(&self, rows: &RecordBatch) -> Vec<Option<i64>> {
        let column = self.event_time.as_ref().and_then(|column| rows.column_by_name(column));
        let Some(column) = column else { return vec![None; rows.num_rows()] };
        if let Some(times) = column.as_primitive_opt::<TimestampMicrosecondType>() {
            return times.iter().collect();
        }
        match column.as_primitive_opt::<Int64Type>() {
            Some(millis) => millis.iter().map(|millis| Some(millis?.saturating_mul(1000))).collect(),
            None => vec![None; rows.num_rows()],
        }
    }

    /// The ids of each row, each once.
    pub(super) fn ids(&self, target: &Target, rows: &RecordBatch) -> Result<Vec<Vec<RowId>>, SqlError> {
        let names = self.columns.iter().map(|column| column.name.to_string());
        let names: Vec<String> = names.chain(std::iter::once(EVENT_COLUMN.to_owned())).collect();
        let lines = lines_of(rows, &names)?;
        let unreadable = |_| SqlError::new(SqlErrorKind::Internal, "the ids of an event are not JSON");
        let is_json = |column: &CorrelationColumn| {
            target.fields.iter().any(|field| field.name == column.name && field.is_json)
        };
        let is_json: Vec<bool> = self.columns.iter().map(is_json).collect();
        let lines = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        lines
            .map(|line| {
                let row: Map<String, Value> = serde_json::from_slice(line).map_err(unreadable)?;
                Ok(self.ids_of_row(&row, &is_json))
            })
            .collect()
    }

    /// The event's own value precedes the column's, as in a search.
    fn ids_of_row(&self, row: &Map<String, Value>, is_json: &[bool]) -> Vec<RowId> {
        let event = row.get(EVENT_COLUMN).and_then(Value::as_str);
        let event: Option<Value> = event.and_then(|text| serde_json::from_str(text).ok());
        let mut ids = Vec::new();
        for (place, column) in self.columns.iter().enumerate() {
            let before = ids.len();
            if let Some(value) = event.as_ref().and_then(|event| event.get(&*column.name)) {
                add_ids(place, value, &mut ids);
            }
            let value = row.get(&*column.name).filter(|_| ids.len() == before);
            match value {
                Some(Value::String(text)) if is_json[place] => {
                    if let Ok(value) = serde_json::from_str(text) {
                        add_ids(place, &value, &mut ids);
                    }
                }
                Some(value) => add_ids(place, value, &mut ids),
                None => {}
            }
        }
        ids
    }

    /// The column of an event in which one of the ids stands, with that id. The first of them where the event does not show
    /// its columns.
    pub(super) fn column_of_event(&self, event: &str, ids: &SearchedIds) -> Option<&CorrelationColumn> {
        let row: Map<String, Value> = serde_json::from_str(event).unwrap_or_default();
        let found = self.ids_of_row(&row, &vec![false; self.columns.len()]);
        let place = found.iter().find(|id| ids.get(id).is_some()).map_or(0, |id| id.column);
        self.columns.get(place)
    }
}

/// Divides ids into those of one search each.
pub(super) fn chunks(streams: &[CorrelatedStream], ids: &[Arc<str>]) -> Vec<Vec<Arc<str>>> {
    let ids_max = streams.iter().map(CorrelatedStream::ids_max).min().unwrap_or(1);
    let columns = streams.iter().map(|stream| stream.columns.len()).max().unwrap_or(1);
    let mut chunks: Vec<Vec<Arc<str>>> = Vec::new();
    let mut bytes = 0;
    for id in ids {
        let needed = (4 * id.len() + 64) * columns;
        match chunks.last_mut().filter(|chunk| chunk.len() < ids_max && bytes + needed <= QUERY_BYTES) {
            Some(chunk) => chunk.push(Arc::clone(id)),
            None => {
                chunks.push(vec![Arc::clone(id)]);
                bytes = 0;
            }
        }
        bytes += needed;
    }
    chunks
}

impl CorrelationColumn {
    fn write_condition(&self, id: &str, query: &mut String) {
        let mut name = String::new();
        for c in self.name.chars() {
            if !c.is_alphanumeric() && c != '_' {
                name.push('\\');
            }
            name.push(c);
        }
        let quoted = id.replace('\\', "\\\\").replace('"', "\\\"");
        if self.is_whole {
            let _ = write!(query, "{name}:\"{quoted}\"");
            return;
        }
        query.push('(');
        // Only a text with words can be a phrase, which index files answer.
        if id.bytes().any(|byte| byte.is_ascii_alphanumeric()) {
            let _ = write!(query, "{name}:\"{quoted}\" AND ");
        }
        let _ = write!(query, "{name}:/^");
        for c in id.chars() {
            if c.is_ascii_punctuation() && !matches!(c, '<' | '>') {
                query.push('\\');
            }
            query.push(c);
        }
        query.push_str("$/)");
    }
}

fn add_ids(column: usize, value: &Value, ids: &mut Vec<RowId>) {
    let (text, is_number) = match value {
        Value::Null => return,
        Value::Bool(flag) => (flag.to_string(), false),
        Value::Number(number) => {
            let text = number.to_string();
            (number_text(&text).unwrap_or(text), true)
        }
        Value::String(text) => (text.clone(), false),
        Value::Array(values) => return values.iter().for_each(|value| add_ids(column, value, ids)),
        Value::Object(members) => return members.values().for_each(|value| add_ids(column, value, ids)),
    };
    if text.is_empty() || text.len() > ID_BYTES_MAX {
        return;
    }
    let id = RowId { column, text, is_number };
    if !ids.contains(&id) {
        ids.push(id);
    }
}

/// One text for each number; none of a text that is no number.
fn number_text(text: &str) -> Option<String> {
    if let Ok(integer) = text.parse::<i128>() {
        return Some(integer.to_string());
    }
    let is_number = text.bytes().any(|byte| byte.is_ascii_digit())
        && text.bytes().all(|byte| byte.is_ascii_digit() || b".-+eE".contains(&byte));
    // Whole doubles up to this one are exact.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let number = text.parse::<f64>().ok().filter(|_| is_number)?;
    Some(match number.fract() == 0.0 && number.abs() < EXACT {
        true => (number as i64).to_string(),
        false => number.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_one_value_have_one_text() {
        for (text, expected) in [
            ("5", Some("5")),
            ("5.0", Some("5")),
            ("5e2", Some("500")),
            ("-0.0", Some("0")),
            ("0.5", Some("0.5")),
            ("170141183460469231731687303715884105727", Some("170141183460469231731687303715884105727")),
            ("a5", None),
            ("inf", None),
            ("e", None),
        ] {
            assert_eq!(number_text(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn conditions_quote_ids_and_columns() {
        let column = |is_whole: bool| CorrelationColumn { name: "trace.id".into(), is_whole };
        let condition = |is_whole: bool, id: &str| {
            let mut query = String::new();
            column(is_whole).write_condition(id, &mut query);
            query
        };
        assert_eq!(condition(true, "a\"\\b"), r#"trace\.id:"a\"\\b""#);
        assert_eq!(condition(false, "a/b"), r#"(trace\.id:"a/b" AND trace\.id:/^a\/b$/)"#);
        assert_eq!(condition(false, "—"), r"(trace\.id:/^—$/)");
    }
}

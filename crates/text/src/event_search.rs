//! Searches events, and single values of events, without declared columns: every path is a column, and a word without a
//! column is looked for in all strings of the event at any depth.

use std::{cell::RefCell, sync::Arc};

use swiftwater_event::Value as EventValue;

use crate::{
    analyzer::Analyzer,
    columns::{SearchColumn, SearchColumns, SearchRow, TextKind, UnknownColumn, Value},
    faults::QueryFaults,
    matcher::{Matcher, MatcherScratch},
    prefilter::Required,
    query::{Number, Operator},
    word_condition::{WordCondition, WordConditionBuilder},
};

/// The number of the column of all texts; those of paths follow.
const ALL_TEXTS: u32 = 0;

/// A query that events, or single values, can be asked.
#[derive(Debug)]
pub struct EventSearch {
    matcher: Matcher,
    paths: Vec<Box<[Box<str>]>>,
    is_of_event: bool,
}

/// The numbers of paths, assigned when a query first names them.
struct Paths {
    is_of_event: bool,
    found: RefCell<Vec<Box<[Box<str>]>>>,
    analyzer: Arc<Analyzer>,
}

struct Row<'r, 'v> {
    value: EventValue<'v>,
    search: &'r EventSearch,
}

impl EventSearch {
    /// A search of whole events. `now_micros` is what `now` means, in microseconds since 1970; without it `now` is refused.
    pub fn of_event(
        query: &str,
        operator: Operator,
        now_micros: Option<i64>,
    ) -> Result<EventSearch, QueryFaults> {
        EventSearch::new(query, operator, now_micros, true)
    }

    /// A search of single values, whose conditions name no columns.
    pub fn of_value(
        query: &str,
        operator: Operator,
        now_micros: Option<i64>,
    ) -> Result<EventSearch, QueryFaults> {
        EventSearch::new(query, operator, now_micros, false)
    }

    fn new(
        query: &str,
        operator: Operator,
        now_micros: Option<i64>,
        is_of_event: bool,
    ) -> Result<EventSearch, QueryFaults> {
        let paths = Paths { is_of_event, found: RefCell::default(), analyzer: Arc::default() };
        let matcher = Matcher::new(query, operator, &paths, now_micros)?;
        Ok(EventSearch { matcher, paths: paths.found.into_inner(), is_of_event })
    }

    /// Returns true if an event, or a value, satisfies the query. A value that is missing is as one without texts: it
    /// satisfies negations only.
    pub fn matches(&self, value: &EventValue<'_>, scratch: &mut MatcherScratch) -> bool {
        self.matcher.matches(&Row { value: *value, search: self }, scratch)
    }

    /// Visits the values of a column.
    pub(crate) fn for_each_value_of(
        &self,
        value: &EventValue<'_>,
        column: u32,
        visit: &mut dyn FnMut(Value<'_>),
    ) {
        let place = (column as usize).checked_sub(1);
        match place.and_then(|place| self.paths.get(place)) {
            None if self.is_of_event => for_each_value(value, &mut |value| {
                if let Value::Text(_) = value {
                    visit(value);
                }
            }),
            None => for_each_value(value, visit),
            Some(path) => for_each_at(value, path, visit),
        }
    }

    /// Literals of which the JSON text of an event that satisfies the query has one.
    pub(crate) fn required(&self) -> Option<Required> {
        // A value on its own may be of any type, and has no text of an event.
        if !self.is_of_event {
            return None;
        }
        self.matcher.required(&|column| column == ALL_TEXTS)
    }

    /// What the words of an event, or a value, have that satisfies the query; none if it requires none. `has_texts_only`:
    /// values that are searched on their own are texts; those of events always are.
    pub fn word_condition(&self, has_texts_only: bool) -> Option<WordCondition> {
        let mut builder = WordConditionBuilder::new(self.is_of_event || has_texts_only);
        let required = self.matcher.required_words(&mut builder, &|column| column == ALL_TEXTS);
        builder.finish(required)
    }

    pub(crate) fn matcher(&self) -> &Matcher {
        &self.matcher
    }
}

impl Paths {
    fn numbered(&self, id: u32) -> SearchColumn {
        SearchColumn { id, kind: TextKind::Words, analyzer: Arc::clone(&self.analyzer), boost: 1.0 }
    }
}

impl SearchColumns for Paths {
    fn defaults(&self) -> Vec<SearchColumn> {
        vec![self.numbered(ALL_TEXTS)]
    }

    fn column(&self, path: &[Box<str>]) -> Result<SearchColumn, UnknownColumn> {
        if !self.is_of_event {
            return Err(UnknownColumn {
                message: format!(
                    "`{}:` is a condition on a column, and one value is searched",
                    path.join(".")
                ),
                hint: Some(
                    "Search the event, SEARCH('column:value'), or write the text in quotes.".to_owned(),
                ),
            });
        }
        let mut found = self.found.borrow_mut();
        let place = found.iter().position(|known| **known == *path).unwrap_or_else(|| {
            found.push(path.into());
            found.len() - 1
        });
        Ok(self.numbered(place as u32 + 1))
    }
}

impl SearchRow for Row<'_, '_> {
    fn for_each_value(&self, column: u32, visit: &mut dyn FnMut(Value<'_>)) {
        self.search.for_each_value_of(&self.value, column, visit);
    }
}

/// Visits all values at any depth.
pub(crate) fn for_each_value(value: &EventValue<'_>, visit: &mut dyn FnMut(Value<'_>)) {
    let number = |integer: i64| Value::Number(Number::Integer(integer.into()));
    match value {
        EventValue::Null | EventValue::Error => {}
        EventValue::Boolean(boolean) => visit(Value::Boolean(*boolean)),
        EventValue::Integer(integer) => visit(number((*integer).into())),
        EventValue::Long(long) => visit(number(*long)),
        EventValue::Float(float) => visit(Value::Number(Number::Float((*float).into()))),
        EventValue::Double(double) => visit(Value::Number(Number::Float(*double))),
        EventValue::String(text) => visit(Value::Text(text)),
        EventValue::Timestamp(micros) => visit(Value::Time(*micros)),
        EventValue::List(values) => values.iter().for_each(|value| for_each_value(value, visit)),
        EventValue::Map(fields) => fields.iter().for_each(|(_, value)| for_each_value(value, visit)),
    }
}

/// Visits all values at a path: into maps by key, where a key may have dots, and into every value of a list.
pub(crate) fn for_each_at(value: &EventValue<'_>, path: &[Box<str>], visit: &mut dyn FnMut(Value<'_>)) {
    if path.is_empty() {
        return for_each_value(value, visit);
    }
    match value {
        EventValue::List(values) => values.iter().for_each(|value| for_each_at(value, path, visit)),
        EventValue::Map(fields) => {
            for (key, value) in fields.iter() {
                if let Some(rest) = after_key(key, path) {
                    for_each_at(value, rest, visit);
                }
            }
        }
        _ => {}
    }
}

/// The rest of a path behind a key, which stands for as many names as it has parts.
pub(crate) fn after_key<'p>(key: &str, path: &'p [Box<str>]) -> Option<&'p [Box<str>]> {
    let mut rest = key;
    for (number, name) in path.iter().enumerate() {
        rest = rest.strip_prefix(&**name)?;
        if rest.is_empty() {
            return Some(&path[number + 1..]);
        }
        rest = rest.strip_prefix('.')?;
    }
    None
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

    use bumpalo::Bump;
    use swiftwater_event::parse_value;

    use super::*;

    const EVENT: &str = r#"{"message": "connection refused", "status": 500, "tags": ["new", "Urgent"], "none": null,
        "http.method": "GET", "a": {"b": {"c": 1.5}, "b.d": "deep words"}, "list": [{"k": "v1"}, {"k": "v2"}]}"#;

    #[test]
    fn paths_of_an_event_are_columns() {
        let arena = Bump::new();
        let event = parse_value(EVENT, &arena).unwrap();
        for (query, expected) in [
            ("refused", true),
            ("urgent", true),
            ("deep words", true),
            ("500", false),
            ("status:500", true),
            ("status:>=500 message:connection", true),
            ("http.method:get", true),
            ("a.b.c:1.5", true),
            ("a.b.c:[1 TO 2}", true),
            ("a.b.d:\"deep words\"", true),
            ("a.b:1.5", true),
            ("list.k:v2", true),
            ("list.k:v3", false),
            ("none:*", false),
            ("-none:*", true),
            ("a:*", true),
            ("nowhere:*", false),
            ("tags:new tags:urgent", true),
        ] {
            let search = EventSearch::of_event(query, Operator::And, None).unwrap();
            assert_eq!(search.matches(&event, &mut MatcherScratch::default()), expected, "{query}");
        }
    }

    #[test]
    fn one_value_is_searched_whatever_its_type() {
        let matches = |query: &str, value: EventValue<'_>| {
            let search = EventSearch::of_value(query, Operator::And, None).unwrap();
            search.matches(&value, &mut MatcherScratch::default())
        };
        assert!(matches("refused -accepted", EventValue::String("Refused")));
        assert!(matches("500", EventValue::Long(500)));
        assert!(matches("a b", EventValue::List(&[EventValue::String("a"), EventValue::String("b")])));
        assert!(!matches("a", EventValue::Null) && matches("-a", EventValue::Null));
        let faults = EventSearch::of_value("a:b", Operator::And, None).unwrap_err();
        assert!(faults.to_string().contains("one value is searched"), "{faults}");
        let faults = EventSearch::of_event("a:>now-1h", Operator::And, None).unwrap_err();
        assert_eq!(faults.to_string(), "character 1: `now-1h` has no meaning here");
    }
}

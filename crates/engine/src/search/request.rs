//! The request of a search, and its answer.

use std::{collections::HashSet, net::IpAddr, ops::Range};

use swiftwater_event::StreamName;
use swiftwater_sql::{ErrorKind as SqlErrorKind, SqlError};
use swiftwater_store::TIME_COLUMN;
use swiftwater_text::query::{Operator, moment_micros};

use crate::HistoryConfig;

/// A search of stored events.
#[derive(Debug, Clone)]
pub struct SearchRequest {
    /// The streams that are searched, each once. Equal events stand in their order.
    pub streams: Vec<StreamName>,
    /// The query.
    pub query: String,
    /// The query of each stream, in their order, where each has its own; else empty.
    pub queries: Vec<String>,
    /// The operator that joins words side by side.
    pub operator: Operator,
    /// Only events from this time on: RFC 3339, milliseconds since 1970, or relative, such as `now-15m`.
    pub from: Option<String>,
    /// Only events before this time, in the same forms.
    pub to: Option<String>,
    /// The TIMESTAMP column that both are compared with; none for the time of arrival.
    pub time: Option<String>,
    /// The order of the hits.
    pub sort: SearchSort,
    /// The most hits.
    pub limit: usize,
    /// The cursor of the page before.
    pub cursor: Option<String>,
    /// The columns of each hit; none for the whole event.
    pub columns: Option<Vec<String>>,
    /// True if all matching events are counted.
    pub counts: bool,
    /// True if the places of matches are answered.
    pub highlights: bool,
    /// Only events with these values: of one column any of several, of each column one.
    pub drills: Vec<Drill>,
    /// True if the values of a column are counted without the drills on it.
    pub sideways: bool,
    /// The events around one of them are answered, instead of the first in some order.
    pub around: Option<ContextRequest>,
    /// Columns whose values are counted.
    pub facets: Vec<FacetRequest>,
    /// Columns whose values are counted by range.
    pub ranges: Vec<RangeRequest>,
    /// The intervals of time that events are counted in.
    pub histogram: Option<HistogramRequest>,
    /// If the time of the search ends first, the answer has what was found until then, instead of an error.
    pub partial: bool,
    /// A name of the search, for its progress and its end; one is made if none is given.
    pub id: Option<String>,
    /// Who asks.
    pub client: Option<IpAddr>,
}

/// Only events that have a value, or one below it: `a/b/c` is below `a/b`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drill {
    /// The column.
    pub column: String,
    /// The value, as text.
    pub path: String,
}

/// Asks for the events of a stream before and after one of them, in the order of their offsets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextRequest {
    /// The offset of that one.
    pub offset: u64,
    /// The most events before it.
    pub before: usize,
    /// The most events after it.
    pub after: usize,
    /// Only events whose value of this column is the same as its own.
    pub same: Option<String>,
}

/// Asks how many events have each value of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FacetRequest {
    /// The column. An event with a list counts once for each value in it.
    pub column: String,
    /// The name of the counts in the answer; none: that of the column.
    pub name: Option<String>,
    /// The most values.
    pub limit: usize,
    /// Only values below this one; none: all.
    pub path: Option<String>,
    /// The levels of a path below that are told apart; none: the values are counted as they are.
    pub depth: Option<usize>,
    /// The aggregates of the events of each value.
    pub aggregates: Vec<AggregateRequest>,
    /// The aggregate by which values are ordered, and whether the largest comes first; none: by the number of events.
    pub order: Option<(String, bool)>,
}

impl FacetRequest {
    /// The name of its counts in the answer.
    pub fn name(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.column)
    }
}

impl RangeRequest {
    /// The name of its counts in the answer.
    pub fn name(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.column)
    }
}

/// The first name that another has, too, with the kind of both.
fn repeated<'n>(kind: &'static str, names: impl Iterator<Item = &'n str>) -> Option<(&'static str, &'n str)> {
    let mut seen = HashSet::new();
    names.into_iter().find(|name| !seen.insert(*name)).map(|name| (kind, name))
}

/// Asks for an aggregate of an expression over the columns of the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AggregateRequest {
    /// Its name in the answer.
    pub name: String,
    /// The expression: `sum(price * qty)`. AVG, SUM, MIN, MAX, COUNT and FIRST, which is the value of the event that came first.
    pub expression: String,
}

/// Asks how many events have a value in each range: from one bound, which is included, to the next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RangeRequest {
    /// The column, of numbers or times.
    pub column: String,
    /// The name of the counts in the answer; none: that of the column.
    pub name: Option<String>,
    /// The bounds.
    pub bounds: Vec<String>,
    /// The aggregates of the events of each range.
    pub aggregates: Vec<AggregateRequest>,
}

/// Asks how many events there are over time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistogramRequest {
    /// The TIMESTAMP column.
    pub column: String,
    /// The length of an interval in microseconds; none: one that makes at most a hundred of them.
    pub interval_micros: Option<i64>,
    /// The column by whose values events are counted, too.
    pub by: Option<String>,
    /// The aggregates of the events of each interval.
    pub aggregates: Vec<AggregateRequest>,
}

/// The order of hits. Nulls come last; equal values are ordered by stream, then newest first; equal scores newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchSort {
    /// The column; `_score` for the score.
    pub column: String,
    /// True if the largest value comes first.
    pub descending: bool,
}

/// The answer to a search.
#[derive(Debug, Clone, Default)]
pub struct SearchAnswer {
    /// The hits of this page, in order.
    pub hits: Vec<SearchHit>,
    /// The number of events that match, where they were counted.
    pub total: Option<u64>,
    /// The cursor of the next page; none where this was the last.
    pub cursor: Option<String>,
    /// By request: how many events have each value.
    pub facets: Vec<Facet>,
    /// By request: the name, and how many events are in each range.
    pub ranges: Vec<(String, Vec<RangeCount>)>,
    /// How many events there are over time, where that was asked; intervals without any are left out.
    pub histogram: Option<Vec<Bucket>>,
    /// The part of each stream that was searched.
    pub streams: Vec<SearchedStream>,
    /// False if the time of the search ended first: then only the events between the offsets of [`SearchedStream::searched`]
    /// are in the answer, and all of them.
    pub is_complete: bool,
    /// Its parts, in the order in which they first ran.
    pub stages: Vec<Stage>,
    /// Notes for who asks.
    pub warnings: Vec<String>,
}

/// A part of a search, and its cost.
#[derive(Debug, Clone, Default)]
pub struct Stage {
    /// Its name: `plan`, `count`, `statistics`, `scan`, `facets`, `ranges`, `histogram`, `hits`, `around`.
    pub name: &'static str,
    /// Statements of SQL.
    pub statements: u64,
    /// Rows that they read.
    pub rows_scanned: u64,
    /// Bytes that they read from storage.
    pub bytes_read: u64,
    /// Microseconds that they took.
    pub micros: u64,
}

impl SearchAnswer {
    /// Rows that were searched, after those that files left out.
    pub fn rows_scanned(&self) -> u64 {
        self.stages.iter().filter(|stage| stage.name != "hits").map(|stage| stage.rows_scanned).sum()
    }

    /// Bytes that were read from storage.
    pub fn bytes_read(&self) -> u64 {
        self.stages.iter().map(|stage| stage.bytes_read).sum()
    }
}

/// The number of events that have each value of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facet {
    /// The name, which is that of the column if none was given.
    pub name: String,
    /// The most frequent values, or the first in the order that was asked for.
    pub values: Vec<ValueCount>,
    /// The number of different values.
    pub distinct: u64,
    /// The number of events that have no value.
    pub missing: u64,
}

/// The number of events that have a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValueCount {
    /// The value, as JSON.
    pub value: String,
    /// The number of events.
    pub count: u64,
    /// Aggregates of them: their names, and their values as JSON.
    pub aggregates: Vec<(String, String)>,
}

/// The number of events that have a value in a range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RangeCount {
    /// The lower bound, included.
    pub from: String,
    /// The upper bound, not included.
    pub to: String,
    /// The number of events.
    pub count: u64,
    /// Aggregates of them: their names, and their values as JSON.
    pub aggregates: Vec<(String, String)>,
}

/// The number of events in an interval of time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bucket {
    /// Its start, in microseconds since 1970.
    pub start_micros: i64,
    /// The number of events.
    pub count: u64,
    /// By value of the other column; the most frequent first.
    pub by: Vec<ValueCount>,
    /// Aggregates of the events: their names, and their values as JSON.
    pub aggregates: Vec<(String, String)>,
}

/// The numbers of a stream's files, by the way in which they were searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SearchedFiles {
    /// Their bounds left them out.
    pub left_out: u64,
    /// The search index selected their rows.
    pub indexed: u64,
    /// All their rows were searched.
    pub scanned: u64,
}

/// The part of a stream that was searched.
#[derive(Debug, Clone)]
pub struct SearchedStream {
    /// The stream.
    pub stream: StreamName,
    /// The offset behind the last event that was acknowledged before the search.
    pub position: u64,
    /// The offsets between which all events were searched.
    pub searched: Range<u64>,
    /// Its condition in SQL.
    pub condition: String,
    /// Its files.
    pub files: SearchedFiles,
    /// Rows that wait for their commit, and were searched in memory.
    pub tail_rows: u64,
}

/// An event that matches.
#[derive(Debug, Clone)]
pub struct SearchHit {
    /// Its stream.
    pub stream: StreamName,
    /// Its offset.
    pub offset: u64,
    /// When it arrived, in microseconds since 1970.
    pub time_micros: i64,
    /// The event, or the columns that were asked for, as JSON without a line end.
    pub event: String,
    /// Its score; none unless hits are sorted by score.
    pub score: Option<f64>,
    /// The pieces of its texts around matches, by column; none unless they were asked for.
    pub highlights: Option<Vec<(Box<str>, Vec<Piece>)>>,
}

/// A piece of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// Text around matches.
    Text(String),
    /// Text that satisfies the query.
    Match(String),
    /// Text is left out here.
    Gap,
}

/// The times that a search goes by, in microseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) struct Moments {
    #[serde(rename = "n")]
    pub(super) now_micros: i64,
    #[serde(rename = "f")]
    pub(super) from: Option<i64>,
    #[serde(rename = "t")]
    pub(super) to: Option<i64>,
}

impl Default for SearchSort {
    /// Newest first.
    fn default() -> SearchSort {
        SearchSort { column: TIME_COLUMN.to_owned(), descending: true }
    }
}

impl SearchRequest {
    /// A search of one stream: the 20 newest hits, counted.
    pub fn new(stream: StreamName, query: impl Into<String>) -> SearchRequest {
        SearchRequest { streams: vec![stream], query: query.into(), ..SearchRequest::any() }
    }

    /// A search without streams and words.
    pub(super) fn any() -> SearchRequest {
        SearchRequest {
            streams: Vec::new(),
            query: String::new(),
            queries: Vec::new(),
            operator: Operator::And,
            from: None,
            to: None,
            time: None,
            sort: SearchSort::default(),
            limit: 20,
            cursor: None,
            columns: None,
            counts: true,
            highlights: false,
            drills: Vec::new(),
            sideways: false,
            around: None,
            facets: Vec::new(),
            ranges: Vec::new(),
            histogram: None,
            partial: false,
            id: None,
            client: None,
        }
    }

    /// The query of a stream.
    pub(super) fn query_of(&self, stream: &StreamName) -> &str {
        let place = self.streams.iter().position(|name| name == stream);
        place.and_then(|place| self.queries.get(place)).unwrap_or(&self.query)
    }

    pub(super) fn check(&self, config: &HistoryConfig) -> Result<(), SqlError> {
        let limit = |what: &str, setting: &str, most: usize| {
            SqlError::new(SqlErrorKind::Limit, format!("{what}; `{setting}` is {most}"))
        };
        if self.streams.is_empty() {
            let error = SqlError::new(SqlErrorKind::Invalid, "a search names at least one stream");
            return Err(error.with_hint("Add stream=NAME."));
        }
        if self.streams.len() > config.search_streams_max {
            let what = format!("{} streams are searched", self.streams.len());
            return Err(limit(&what, "search.streams_max", config.search_streams_max));
        }
        if self.limit > config.search_hits_max {
            let what = format!("{} hits are asked for", self.limit);
            let error = limit(&what, "search.hits_max", config.search_hits_max);
            return Err(error.with_hint("Ask for pages: the cursor of an answer asks for the next one."));
        }
        if let Some(around) = &self.around {
            let hits = around.before.saturating_add(around.after).saturating_add(1);
            if hits > config.search_hits_max {
                let what = format!("{hits} events are asked for");
                return Err(limit(&what, "search.hits_max", config.search_hits_max));
            }
            if self.streams.len() != 1 || self.cursor.is_some() {
                let message = "events around one are of one stream, and have no cursor";
                return Err(SqlError::new(SqlErrorKind::Invalid, message));
            }
        }
        let of_facets = self.facets.iter().map(FacetRequest::name);
        let of_ranges = self.ranges.iter().map(RangeRequest::name);
        if let Some((kind, name)) = repeated("facets", of_facets).or_else(|| repeated("ranges", of_ranges)) {
            let message = format!("two {kind} have the name `{name}`");
            let error = SqlError::new(SqlErrorKind::Invalid, message);
            return Err(error.with_hint(format!("Name one of them, as in {name};name=other.")));
        }
        if self.partial && self.has_aggregates() {
            let error =
                SqlError::new(SqlErrorKind::Invalid, "aggregates are not computed of a partial answer");
            return Err(error.with_hint("Leave `partial` out, or count events without aggregates."));
        }
        Ok(())
    }

    fn has_aggregates(&self) -> bool {
        self.facets.iter().any(|facet| !facet.aggregates.is_empty())
            || self.ranges.iter().any(|range| !range.aggregates.is_empty())
            || self.histogram.as_ref().is_some_and(|histogram| !histogram.aggregates.is_empty())
    }

    /// True if hits are ordered by their arrival, which is the order of their offsets.
    pub(super) fn is_by_arrival(&self) -> bool {
        self.sort.column == TIME_COLUMN
    }

    /// True if the oldest events are searched first.
    pub(super) fn is_ascending(&self) -> bool {
        self.is_by_arrival() && !self.sort.descending
    }

    pub(super) fn moments(&self, now_micros: i64) -> Result<Moments, SqlError> {
        let moment = |name: &str, text: &Option<String>| match text {
            None => Ok(None),
            Some(text) => moment_micros(text, now_micros).map(Some).ok_or_else(|| {
                let message = format!("`{name}` is no time: {}", text.chars().take(64).collect::<String>());
                SqlError::new(SqlErrorKind::Invalid, message)
                    .with_hint("Write 2026-01-31T12:00:00Z, milliseconds since 1970, or now-15m.")
            }),
        };
        Ok(Moments { now_micros, from: moment("from", &self.from)?, to: moment("to", &self.to)? })
    }
}

//! Searches the stored events of streams: which match, how many they are, and the first of them in some order.
//!
//! ```text
//! request ─ bind to each stream's columns ─► scan (SQL with search_at) ─► keys in order, count ─► rows of the page ─► hits
//!                                         └► GROUP BY of the same rows ─► facets, ranges, histogram
//! ```
//!
//! A search sees the events that were acknowledged before it began: each stream has its *position*, the offset behind them,
//! and later events are left out. The next page has the position, the time of `now` and the count of the first one in its
//! cursor, so that pages put together are one answer. Knows nothing of HTTP. Limits: `search_*` of
//! [`HistoryConfig`](crate::HistoryConfig); a search beyond one is an error that names it.

mod condition;
mod counts;
mod cursor;
mod hits;
mod request;
mod scan;

use std::sync::Arc;

use arrow_schema::DataType;
use swiftwater_event::StreamName;
use swiftwater_sql::{ErrorKind as SqlErrorKind, Sql, SqlError, Tables};
use swiftwater_text::{SearchField, TableSearch};

pub use request::{
    Bucket, ContextRequest, Drill, Facet, FacetRequest, HistogramRequest, Piece, RangeCount, RangeRequest,
    SearchAnswer, SearchHit, SearchRequest, SearchSort, SearchedStream,
};

use crate::{
    EngineError, Principal,
    durable::{history::History, stored_stream::StoredStream},
    error::sql::from_engine,
    shared::Shared,
};
use cursor::Cursor;
use request::Moments;
use scan::Ranking;

/// A stream that is searched.
struct Target {
    stored: Arc<StoredStream>,
    /// The query, bound to its columns.
    search: Arc<TableSearch>,
    fields: Vec<SearchField>,
    /// The offset behind the last event that is searched.
    position: u64,
}

/// A search that runs, with the state that it reads.
struct Search<'s> {
    history: &'s Arc<History>,
    sql: &'s Arc<Sql>,
    request: &'s SearchRequest,
    moments: Moments,
    started: tokio::time::Instant,
}

/// Answers a search.
pub(crate) async fn search(shared: &Arc<Shared>, request: &SearchRequest) -> Result<SearchAnswer, SqlError> {
    let nothing_stored = || from_engine(EngineError::NoHistory);
    let history = shared.history.get().ok_or_else(nothing_stored)?;
    let sql = shared.sql.get().ok_or_else(nothing_stored)?;
    request.check(&history.config)?;
    let cursor = request.cursor.as_deref().map(|text| Cursor::parse(text, request)).transpose()?;
    let moments = match &cursor {
        Some(cursor) => cursor.moments,
        None => request.moments(shared.clock.now_micros())?,
    };
    let search = Search { history, sql, request, moments, started: tokio::time::Instant::now() };
    let mut targets = Vec::with_capacity(request.streams.len());
    for (place, name) in request.streams.iter().enumerate() {
        let position = cursor.as_ref().and_then(|cursor| cursor.positions.get(place)).copied();
        targets.push(search.target(shared, name, position).await?);
    }
    if let (Some(around), [target]) = (&request.around, targets.as_slice()) {
        let mut answer = SearchAnswer::default();
        answer.hits = search.hits_around(target, around, &mut answer).await?;
        answer.streams = positions(&targets);
        return Ok(answer);
    }
    let mut ranking = Ranking::new(&search, &targets, cursor.as_ref())?;
    let mut answer = SearchAnswer::default();
    for (place, target) in targets.iter().enumerate() {
        search.scan((place, target), &mut ranking, &mut answer).await?;
    }
    let page = ranking.finish();
    answer.total = match &cursor {
        Some(cursor) => cursor.total,
        None => request.counts.then_some(page.total),
    };
    answer.cursor = page.last.map(|last| {
        let positions = targets.iter().map(|target| target.position).collect();
        Cursor { moments, positions, last, total: answer.total }.text(request)
    });
    answer.streams = positions(&targets);
    for facet in &request.facets {
        answer.facets.push(search.facet(&targets, facet).await?);
    }
    for range in &request.ranges {
        answer.ranges.push((range.column.clone(), search.range(&targets, range).await?));
    }
    if let Some(histogram) = &request.histogram {
        answer.histogram = Some(search.histogram(&targets, histogram).await?);
    }
    answer.hits = search.hits(&targets, &page.found, &mut answer).await?;
    Ok(answer)
}

fn positions(targets: &[Target]) -> Vec<SearchedStream> {
    let position =
        |target: &Target| SearchedStream { stream: target.stored.name.clone(), position: target.position };
    targets.iter().map(position).collect()
}

impl Search<'_> {
    /// Binds the query to the columns of a stream.
    async fn target(
        &self,
        shared: &Arc<Shared>,
        name: &StreamName,
        position: Option<u64>,
    ) -> Result<Target, SqlError> {
        let stored = self.history.stored(name).ok_or_else(|| self.not_stored(shared, name))?;
        // Read before the table, which then has all events up to here.
        let position = position.unwrap_or_else(|| stored.acknowledged(&self.history.log));
        let tables = shared.tables.get().ok_or_else(|| from_engine(EngineError::NoHistory))?;
        let table = tables.table(name.as_str(), None).await?;
        let table = table.ok_or_else(|| self.not_stored(shared, name))?;
        let fields: Vec<SearchField> =
            table.schema().fields().iter().map(|field| SearchField::of(field)).collect();
        self.check_time(name, &fields)?;
        let SearchRequest { query, operator, .. } = self.request;
        let search = TableSearch::of_rows(query, *operator, fields.clone(), Some(self.moments.now_micros));
        let search = search.map_err(|faults| {
            let error = SqlError::new(SqlErrorKind::Invalid, format!("the search cannot be read: {faults}"));
            match faults.0.iter().find_map(|fault| fault.hint.clone()) {
                Some(hint) => error.with_hint(hint),
                None => error,
            }
        })?;
        Ok(Target { stored, search: Arc::new(search), fields, position })
    }

    /// Refuses a column that cannot be compared with `from` and `to`.
    fn check_time(&self, stream: &StreamName, fields: &[SearchField]) -> Result<(), SqlError> {
        let Some(time) = &self.request.time else { return Ok(()) };
        match fields.iter().find(|field| *field.name == **time) {
            Some(SearchField { ty: DataType::Timestamp(..), .. }) => Ok(()),
            found => {
                let message = match found {
                    Some(_) => format!("column `{time}` of stream `{stream}` is no TIMESTAMP"),
                    None => format!("stream `{stream}` has no column `{time}`"),
                };
                let error = SqlError::new(SqlErrorKind::Invalid, message);
                Err(error.with_hint(
                    "`time` names a TIMESTAMP column; without it, events are compared by arrival.",
                ))
            }
        }
    }

    fn not_stored(&self, shared: &Arc<Shared>, name: &StreamName) -> SqlError {
        let is_live = shared.unstored(name).is_some()
            || shared.runtime.streams(&Principal::local()).iter().any(|stream| stream.name == *name);
        if is_live {
            let message = format!("the events of stream `{name}` are not stored");
            return SqlError::new(SqlErrorKind::Conflict, message).with_hint(format!(
                "CREATE STREAM {name} WITH (store = true) stores those that come later."
            ));
        }
        let names: Vec<String> =
            self.history.all_stored().iter().map(|stored| stored.name.to_string()).collect();
        let near = swiftwater_event::did_you_mean(name.as_str(), names.iter().map(String::as_str));
        let error = SqlError::new(SqlErrorKind::NotFound, format!("there is no stream `{name}`"));
        match near {
            Some(near) => error.with_hint(format!("Did you mean `{near}`?")),
            None => error,
        }
    }
}

//! Searches the stored events of streams: which match, how many they are, and the first of them in some order.
//!
//! ```text
//! request ─ wait for a turn ─ bind to each stream's columns ─ for each slice of offsets:
//!             scan (SQL with search_at) ─► keys in order, count ──► rows of the page ─► hits
//!             GROUP BY of the same rows ─► facets, ranges, histogram
//! ```
//!
//! A search sees the events that were acknowledged before it began: each stream has its *position*, the offset behind them,
//! and later events are left out. The next page has the position, the time of `now` and the count of the first one in its
//! cursor, so that pages put together are one answer. Knows nothing of HTTP. Limits: `search_*` of
//! [`HistoryConfig`](crate::HistoryConfig); a search beyond one is an error that names it.

mod activity;
mod aggregates;
mod condition;
mod costs;
mod counts;
mod cursor;
mod fields;
mod follow;
mod hits;
mod request;
mod scan;
mod scores;
mod slices;

use std::{ops::Range, sync::Arc};

use arrow_schema::DataType;
use swiftwater_event::StreamName;
use swiftwater_sql::{ErrorKind as SqlErrorKind, Sql, SqlError, Tables};
use swiftwater_text::{SearchField, TableSearch};
use tokio::time::Instant;

pub use activity::{
    ActivitiesAnswer, ActivitiesRequest, ActivityAnswer, ActivityEvent, ActivityFollow, ActivityRequest,
    ActivityStream, ActivitySummary, ActivityTree, DEPTH_MAX as ACTIVITY_DEPTH_MAX, FollowedActivity,
};
pub(crate) use activity::{activities, activity};
pub use fields::{FieldSummary, FieldsAnswer};
pub use follow::{Followed, SearchFollow};
pub use request::{
    AggregateRequest, Bucket, ContextRequest, Drill, Facet, FacetRequest, HistogramRequest, Piece,
    RangeCount, RangeRequest, SearchAnswer, SearchHit, SearchRequest, SearchSort, SearchedFiles,
    SearchedStream, Stage, ValueCount,
};

use crate::{
    EngineError, Principal,
    durable::{history::History, stored_stream::StoredStream},
    error::sql::from_engine,
    searches::{RegisteredSearch, SearchError, SearchProgress},
    shared::Shared,
};
use costs::Costs;
use counts::Tally;
use cursor::{Cursor, LastHit};
use request::Moments;
use scan::Ranking;
use slices::Slices;

/// With more matching events than this, the newest are searched slice by slice once all have been counted.
const SLICED_FROM: u64 = 10_000;

/// The snapshots on which a search begins again, if a file of the one before was deleted.
const SNAPSHOTS_MAX: usize = 3;

/// A stream that is searched.
struct Target {
    stored: Arc<StoredStream>,
    /// The query, bound to its columns.
    search: Arc<TableSearch>,
    fields: Vec<SearchField>,
    /// The offset behind the last event that is searched.
    position: u64,
    /// The frequencies of the query's words in its events; empty unless hits are sorted by score.
    statistics: Vec<u8>,
}

/// A search that runs, with the state that it reads.
struct Search<'s> {
    history: &'s Arc<History>,
    sql: &'s Arc<Sql>,
    request: &'s SearchRequest,
    moments: Moments,
    started: Instant,
    progress: &'s SearchProgress,
    /// The number of events that match, where it was counted before hits are searched.
    counted: Option<u64>,
}

fn nothing_stored() -> SqlError {
    from_engine(EngineError::NoHistory)
}

/// Answers a search, in its turn.
pub(crate) async fn search(
    shared: &Arc<Shared>,
    request: &SearchRequest,
) -> Result<SearchAnswer, SearchError> {
    let history = shared.history.get().ok_or_else(nothing_stored)?;
    request.check(&history.config)?;
    let cursor = request.cursor.as_deref().map(|text| Cursor::parse(text, request)).transpose()?;
    let mut registered = register(shared, history, request)?;
    let progress = Arc::clone(&registered.progress);
    let work = Box::pin(async {
        // A file may be deleted between the snapshot and its reading, if old versions are hardly kept. Each statement takes a
        // new snapshot.
        for _ in 0..SNAPSHOTS_MAX {
            match answer(shared, request, cursor.clone(), &progress).await {
                Err(error) if error.is_of_missing_file() => tracing::debug!(%error, "a search begins again"),
                result => return result,
            }
        }
        answer(shared, request, cursor, &progress).await
    });
    let result = registered.run(work).await;
    registered.finish(result.as_ref().ok().map(cost));
    result
}

fn register(
    shared: &Shared,
    history: &History,
    request: &SearchRequest,
) -> Result<RegisteredSearch, SqlError> {
    shared.searches(history).register(request.id.as_deref(), &request.streams, &request.query)
}

fn cost(answer: &SearchAnswer) -> (u64, usize) {
    (answer.rows_scanned(), answer.hits.len())
}

/// Summarizes the columns of the events that match, in its turn.
pub(crate) async fn fields(
    shared: &Arc<Shared>,
    request: &SearchRequest,
    values: usize,
) -> Result<FieldsAnswer, SearchError> {
    let history = shared.history.get().ok_or_else(nothing_stored)?;
    request.check(&history.config)?;
    let mut registered = register(shared, history, request)?;
    let progress = Arc::clone(&registered.progress);
    let work = Box::pin(async {
        let search = Search::new(shared, request, None, &progress)?;
        let (targets, mut costs) = (search.targets(shared, None).await?, Costs::default());
        let [target] = targets.as_slice() else {
            return Err(SqlError::new(SqlErrorKind::Invalid, "fields are those of one stream"));
        };
        let (fields, total) = search.fields(target, values, &mut costs).await?;
        let mut answer = SearchAnswer { total: Some(total), is_complete: true, ..SearchAnswer::default() };
        search.describe(&targets, std::slice::from_ref(&(0..target.position)), &costs, &mut answer)?;
        answer.stages = costs.stages;
        Ok(FieldsAnswer { fields, answer })
    });
    let result = registered.run(work).await;
    registered.finish(result.as_ref().ok().map(|fields| cost(&fields.answer)));
    result
}

async fn answer(
    shared: &Arc<Shared>,
    request: &SearchRequest,
    cursor: Option<Cursor>,
    progress: &SearchProgress,
) -> Result<SearchAnswer, SqlError> {
    let mut search = Search::new(shared, request, cursor.as_ref(), progress)?;
    let mut costs = Costs::default();
    let mut targets = search.targets(shared, cursor.as_ref()).await?;
    let mut answer = SearchAnswer { is_complete: true, ..SearchAnswer::default() };
    if let (Some(around), [target]) = (&request.around, targets.as_slice()) {
        costs.time("plan", search.started);
        answer.hits = search.hits_around(target, around, &mut costs).await?;
        search.describe(&targets, std::slice::from_ref(&(0..target.position)), &costs, &mut answer)?;
        answer.stages = costs.stages;
        return Ok(answer);
    }
    let mut ranking = Ranking::new(&search, &targets, cursor.as_ref())?;
    costs.time("plan", search.started);
    if search.counts_first(&targets, cursor.as_ref()) {
        search.counted = Some(search.count(&targets, &mut costs).await?);
    }
    let interval = match search.count_words(&mut targets, cursor.as_ref(), &mut costs).await {
        Ok(()) => search.histogram_interval(&targets, &mut costs).await,
        Err(error) => Err(error),
    };
    let (searched, tally, interval) = match interval {
        Err(_) if request.partial && search.is_late() => {
            answer.is_complete = false;
            (targets.iter().map(|target| target.position..target.position).collect(), Tally::default(), 1)
        }
        interval => {
            let interval = interval?;
            let (searched, tally) =
                search.search_slices(&targets, &mut ranking, interval, &mut answer, &mut costs).await?;
            (searched, tally, interval)
        }
    };
    search.counted(tally, interval, &mut answer);
    search.aggregates(&targets, interval, &mut answer, &mut costs).await?;
    search.page(&targets, ranking, cursor.as_ref(), (&mut answer, &mut costs)).await?;
    search.describe(&targets, &searched, &costs, &mut answer)?;
    answer.stages = costs.stages;
    Ok(answer)
}

impl<'s> Search<'s> {
    fn new(
        shared: &'s Arc<Shared>,
        request: &'s SearchRequest,
        cursor: Option<&Cursor>,
        progress: &'s SearchProgress,
    ) -> Result<Search<'s>, SqlError> {
        let history = shared.history.get().ok_or_else(nothing_stored)?;
        let sql = shared.sql.get().ok_or_else(nothing_stored)?;
        let moments = match cursor {
            Some(cursor) => cursor.moments,
            None => request.moments(shared.clock.now_micros())?,
        };
        Ok(Search { history, sql, request, moments, started: Instant::now(), progress, counted: None })
    }
}

impl Search<'_> {
    async fn targets(&self, shared: &Arc<Shared>, cursor: Option<&Cursor>) -> Result<Vec<Target>, SqlError> {
        let mut targets = Vec::with_capacity(self.request.streams.len());
        for (place, name) in self.request.streams.iter().enumerate() {
            let position = cursor.and_then(|cursor| cursor.positions.get(place)).copied();
            targets.push(self.target(shared, name, position).await?);
        }
        Ok(targets)
    }

    /// Searches the slices of all streams by turns. Answers the offsets of each stream between which all events were searched.
    async fn search_slices(
        &self,
        targets: &[Target],
        ranking: &mut Ranking,
        interval: i64,
        answer: &mut SearchAnswer,
        costs: &mut Costs,
    ) -> Result<(Vec<Range<u64>>, Tally), SqlError> {
        let mut tally = Tally::default();
        let after = ranking.after.clone();
        let (mut slices, mut searched) = (Vec::new(), Vec::new());
        for target in targets {
            let (of_stream, start) = self.slices(target, targets.len(), after.as_ref());
            slices.push(of_stream);
            searched.push(start);
        }
        let may_stop = self.may_stop(after.as_ref());
        loop {
            let mut is_over = true;
            for (place, target) in targets.iter().enumerate() {
                let Some(offsets) = slices[place].next() else { continue };
                is_over = false;
                match self.search_slice((place, target), &offsets, interval, ranking, costs).await {
                    Ok((of_slice, rows)) => {
                        self.add_tally(&mut tally, of_slice)?;
                        slices[place].finished(rows);
                        if ranking.finish_slice(place) && may_stop {
                            slices[place].stop();
                        }
                        searched[place] = joined(&searched[place], &offsets);
                    }
                    Err(_) if self.request.partial && self.is_late() => {
                        ranking.abandon_slice();
                        answer.is_complete = false;
                        return Ok((searched, tally));
                    }
                    Err(error) => return Err(error),
                }
            }
            if is_over {
                return Ok((searched, tally));
            }
        }
    }

    async fn search_slice(
        &self,
        target: (usize, &Target),
        offsets: &Range<u64>,
        interval: i64,
        ranking: &mut Ranking,
        costs: &mut Costs,
    ) -> Result<(Tally, u64), SqlError> {
        let rows = self.scan(target, offsets, ranking, costs).await?;
        Ok((self.tally(target, offsets, interval, costs).await?, rows))
    }

    /// True if a search ends with the slice that has the last hit of the page.
    fn may_stop(&self, after: Option<&LastHit>) -> bool {
        let is_frequent = self.counted.is_none_or(|counted| counted > SLICED_FROM);
        self.request.is_by_arrival() && !self.counts(after) && !self.tallies() && is_frequent
    }

    /// The slices of a stream, and the empty range of offsets that they begin at.
    fn slices(&self, target: &Target, streams: usize, after: Option<&LastHit>) -> (Slices, Range<u64>) {
        let is_ascending = self.request.is_ascending();
        let mut offsets = 0..target.position;
        let may_stop = self.may_stop(after);
        // A further page of one stream begins behind the last hit.
        if let (true, 1, Some((_, last))) = (may_stop, streams, after.and_then(|after| after.arrival)) {
            match is_ascending {
                true => offsets.start = last.saturating_add(1).min(offsets.end),
                false => offsets.end = last.min(offsets.end),
            }
        }
        let start = if is_ascending { offsets.start } else { offsets.end };
        let slices = match may_stop || self.request.partial {
            true => Slices::growing(offsets, is_ascending, self.request.partial),
            false => Slices::whole(offsets),
        };
        (slices, start..start)
    }

    /// Reads the hits of the page.
    async fn page(
        &self,
        targets: &[Target],
        ranking: Ranking,
        cursor: Option<&Cursor>,
        (answer, costs): (&mut SearchAnswer, &mut Costs),
    ) -> Result<(), SqlError> {
        let request = self.request;
        let page = ranking.finish();
        answer.total = match cursor {
            Some(cursor) => cursor.total,
            None => self.counted.or(request.counts.then_some(page.total)),
        };
        // Pages of an incomplete answer follow one another only in the order in which events are searched.
        let has_cursor = answer.is_complete || request.is_by_arrival();
        answer.cursor = page.last.filter(|_| has_cursor).map(|last| {
            let positions = targets.iter().map(|target| target.position).collect();
            let total = answer.total.filter(|_| answer.is_complete);
            let statistics = match self.is_by_score() {
                true => targets.iter().map(|target| target.statistics.clone()).collect(),
                false => Vec::new(),
            };
            Cursor { moments: self.moments, positions, last, total, statistics }.text(request)
        });
        answer.hits = self.hits(targets, &page.found, costs).await?;
        Ok(())
    }

    /// Describes how far each stream was searched, and how.
    fn describe(
        &self,
        targets: &[Target],
        searched: &[Range<u64>],
        costs: &Costs,
        answer: &mut SearchAnswer,
    ) -> Result<(), SqlError> {
        for (place, (target, searched)) in targets.iter().zip(searched).enumerate() {
            let sources = costs.of_stream(place);
            let files = target.stored.table().map_or(0, |table| table.status().files);
            answer.streams.push(SearchedStream {
                stream: target.stored.name.clone(),
                position: target.position,
                searched: searched.clone(),
                condition: self.condition(target, searched, None)?.0,
                files: sources.files(files),
                tail_rows: sources.tail_rows,
            });
        }
        if !answer.is_complete {
            let timeout = self.history.config.search_timeout_ms;
            answer.warnings.push(format!(
                "the time of the search, `search.timeout_ms` of {timeout} ms, ended before all events were searched"
            ));
        }
        Ok(())
    }
}

/// A range of offsets with the one that it touches.
fn joined(searched: &Range<u64>, slice: &Range<u64>) -> Range<u64> {
    searched.start.min(slice.start)..searched.end.max(slice.end)
}

impl Search<'_> {
    /// Binds the query to the columns of a stream.
    async fn target(
        &self,
        shared: &Arc<Shared>,
        name: &StreamName,
        position: Option<u64>,
    ) -> Result<Target, SqlError> {
        let stored = self.history.stored(name).ok_or_else(|| not_stored(shared, name))?;
        // Read before the table, which then has all events up to here.
        let position = position.unwrap_or_else(|| stored.acknowledged(&self.history.log));
        let tables = shared.tables.get().ok_or_else(|| from_engine(EngineError::NoHistory))?;
        let table = tables.table(name.as_str(), None).await?;
        let table = table.ok_or_else(|| not_stored(shared, name))?;
        let fields: Vec<SearchField> =
            table.schema().fields().iter().map(|field| SearchField::of(field)).collect();
        self.check_time(name, &fields)?;
        let (query, operator) = (self.request.query_of(name), self.request.operator);
        let search = TableSearch::of_rows(query, operator, fields.clone(), Some(self.moments.now_micros));
        let search = search.map_err(|faults| {
            let error = SqlError::new(SqlErrorKind::Invalid, format!("the search cannot be read: {faults}"));
            match faults.0.iter().find_map(|fault| fault.hint.clone()) {
                Some(hint) => error.with_hint(hint),
                None => error,
            }
        })?;
        Ok(Target { stored, search: Arc::new(search), fields, position, statistics: Vec::new() })
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
}

/// The error of a stream that has no stored events.
fn not_stored(shared: &Arc<Shared>, name: &StreamName) -> SqlError {
    let is_live = shared.unstored(name).is_some()
        || shared.runtime.streams(&Principal::local()).iter().any(|stream| stream.name == *name);
    if is_live {
        let message = format!("the events of stream `{name}` are not stored");
        return SqlError::new(SqlErrorKind::Conflict, message)
            .with_hint(format!("CREATE STREAM {name} WITH (store = true) stores those that come later."));
    }
    let stored = shared.history.get().map(|history| history.all_stored()).unwrap_or_default();
    let names: Vec<String> = stored.iter().map(|stored| stored.name.to_string()).collect();
    let near = swiftwater_event::did_you_mean(name.as_str(), names.iter().map(String::as_str));
    let error = SqlError::new(SqlErrorKind::NotFound, format!("there is no stream `{name}`"));
    match near {
        Some(near) => error.with_hint(format!("Did you mean `{near}`?")),
        None => error,
    }
}

//! The activity of an id: the stored events of all streams that have the id in a correlation column, and those that share
//! another id with them.
//!
//! ```text
//! ids of a depth ─ one search of each stream ─► events ─► ids of their correlation columns, which are new ─► next depth
//! ```
//!
//! A column is a correlation column if the search index of its stream has it as `ID CORRELATION` ([`correlation`]). Events are
//! ordered by time (that of the stream's WATERMARK, else their arrival), then by the name of their stream, then by offset. Each page finds all events again, as of the first
//! page, and reads those behind its cursor. Knows nothing of HTTP. Limits: `search.hits_max` events of a page,
//! [`EVENTS_MAX`] events, [`IDS_MAX`] ids and [`DEPTH_MAX`] steps; an activity beyond one is an error that names it.

mod correlation;
mod follow;
mod request;
mod trees;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use arrow_array::RecordBatch;
use serde::{Deserialize, Serialize};
use swiftwater_event::StreamName;
use swiftwater_sql::{ErrorKind as SqlErrorKind, SqlError};
use tokio::time::Instant;

pub use follow::{ActivityFollow, FollowedActivity};
pub use request::{ActivityAnswer, ActivityEvent, ActivityRequest, DEPTH_MAX};
pub(crate) use trees::activities;
pub use trees::{ActivitiesAnswer, ActivitiesRequest, ActivityStream, ActivitySummary, ActivityTree};

use super::{
    Search, Target,
    condition::identifier,
    costs::Costs,
    cursor::{parsed, refused, written},
    nothing_stored,
    request::{Moments, SearchHit, SearchRequest, SearchedStream, Stage},
};
use crate::{
    searches::{SearchError, SearchProgress},
    shared::Shared,
};
use correlation::{CorrelatedStream, RowId, SearchedIds, chunks};

/// Events of one activity.
const EVENTS_MAX: usize = 100_000;
/// Ids through which the events of one activity are found.
const IDS_MAX: usize = 10_000;
/// The version of the form of cursors.
const VERSION: u8 = 2;

/// The place of an event in the order: its time, the place of its stream, its offset.
type Place = (i64, u32, u64);

/// The state of a cursor.
#[derive(Debug, Serialize, Deserialize)]
struct Cursor {
    v: u8,
    /// The checksum of the request.
    r: u32,
    m: Moments,
    /// The streams, and the position of each.
    s: Vec<(String, u64)>,
    /// The last event of the page.
    l: Place,
}

/// The searches of one request, as of one moment.
struct Correlation<'s> {
    shared: &'s Arc<Shared>,
    streams: Vec<CorrelatedStream>,
    /// By stream.
    positions: Vec<u64>,
    moments: Moments,
    /// The times and the client of each search.
    base: SearchRequest,
    started: Instant,
    progress: &'s SearchProgress,
    costs: Costs,
    /// By stream, the condition of its first search.
    conditions: Vec<String>,
}

/// An event that was found.
struct Found {
    depth: u32,
    id: Arc<str>,
    column: usize,
}

/// The events that are found, and those of the page.
struct Closure {
    found: BTreeMap<Place, Found>,
    page: BTreeMap<Place, SearchHit>,
    /// One more than the page, which shows if there is another.
    page_events: usize,
    after: Option<Place>,
    /// Ids that are searched, or were.
    known: BTreeSet<Arc<str>>,
    /// Ids of the next depth.
    next: BTreeSet<Arc<str>>,
}

/// Answers the events of an activity, in its turn.
pub(crate) async fn activity(
    shared: &Arc<Shared>,
    request: &ActivityRequest,
) -> Result<ActivityAnswer, SearchError> {
    let history = shared.history.get().ok_or_else(nothing_stored)?;
    request.check(&history.config)?;
    let cursor = request.cursor.as_deref().map(|text| Cursor::parse(text, request)).transpose()?;
    let shown = format!("activity {}", request.id);
    let id = request.search.as_deref();
    let mut registered = shared.searches(history).register(id, &request.streams, &shown)?;
    let progress = Arc::clone(&registered.progress);
    let work = async {
        let first_page = cursor.as_ref().map(|cursor| (cursor.m, cursor.s.as_slice()));
        let base = SearchRequest { client: request.client, ..request.times() };
        let correlation = Correlation::new(shared, &request.streams, base, first_page, &progress)?;
        correlation.activity(request, cursor.as_ref().map(|cursor| cursor.l)).await
    };
    let result = registered.run(Box::pin(work)).await;
    registered.finish(result.as_ref().ok().map(|answer| (rows_scanned(&answer.stages), answer.events.len())));
    result
}

fn rows_scanned(stages: &[Stage]) -> u64 {
    stages.iter().map(|stage| stage.rows_scanned).sum()
}

/// The error of a limit.
fn limit(message: String, hint: &str) -> SqlError {
    SqlError::new(SqlErrorKind::Limit, message).with_hint(hint.to_owned())
}

impl Cursor {
    fn parse(text: &str, request: &ActivityRequest) -> Result<Cursor, SqlError> {
        let cursor: Cursor = parsed(text)?;
        match (cursor.v == VERSION, cursor.r == request.checksum()) {
            (false, _) => Err(refused("the cursor is of another version of the server")),
            (_, false) => Err(refused("the cursor belongs to another activity")),
            _ => Ok(cursor),
        }
    }
}

impl<'s> Correlation<'s> {
    /// As of now, or as of the first page.
    fn new(
        shared: &'s Arc<Shared>,
        names: &[StreamName],
        base: SearchRequest,
        first_page: Option<(Moments, &[(String, u64)])>,
        progress: &'s SearchProgress,
    ) -> Result<Correlation<'s>, SqlError> {
        let history = shared.history.get().ok_or_else(nothing_stored)?;
        let (moments, of_first): (Moments, Option<Vec<StreamName>>) = match first_page {
            Some((moments, streams)) => {
                let names = streams.iter().filter_map(|(name, _)| StreamName::new(name.as_str()).ok());
                (moments, Some(names.collect()))
            }
            None => (base.moments(shared.clock.now_micros())?, None),
        };
        let streams = CorrelatedStream::all(history, of_first.as_deref().unwrap_or(names));
        check_streams(shared, names, &streams, history.config.search_streams_max)?;
        let mut positions = Vec::with_capacity(streams.len());
        for stream in &streams {
            let of_first = first_page.and_then(|(_, streams)| {
                streams.iter().find(|(name, _)| *name == stream.name.as_str()).map(|(_, position)| *position)
            });
            let stored = history.stored(&stream.name).ok_or_else(nothing_stored)?;
            positions.push(of_first.unwrap_or_else(|| stored.acknowledged(&history.log)));
        }
        if first_page.is_some_and(|(_, of_first)| of_first.len() != streams.len()) {
            return Err(refused("a stream of the first page has no correlation column any more"));
        }
        let conditions = vec![String::new(); streams.len()];
        let (started, costs) = (Instant::now(), Costs::default());
        Ok(Correlation { shared, streams, positions, moments, base, started, progress, costs, conditions })
    }

    async fn activity(
        mut self,
        request: &ActivityRequest,
        after: Option<Place>,
    ) -> Result<ActivityAnswer, SqlError> {
        let root: Arc<str> = request.id.as_str().into();
        let mut closure = Closure {
            found: BTreeMap::new(),
            page: BTreeMap::new(),
            page_events: request.limit.saturating_add(1),
            after,
            known: BTreeSet::from([Arc::clone(&root)]),
            next: BTreeSet::from([root]),
        };
        for depth in 0..=request.depth {
            let ids: Vec<Arc<str>> = std::mem::take(&mut closure.next).into_iter().collect();
            if ids.is_empty() {
                break;
            }
            let searched = SearchedIds::new(&ids);
            for chunk in chunks(&self.streams, &ids) {
                self.search_ids(&chunk, &mut |stream, place, ids, hit| {
                    closure.add((place, stream, hit.offset), &searched, &chunk[0], depth, ids, hit)
                })
                .await?;
            }
        }
        self.answer(request, closure)
    }

    /// Finds the events of all streams that have one of the ids, with all their ids.
    async fn search_ids(
        &mut self,
        ids: &[Arc<str>],
        on_event: &mut (dyn FnMut(u32, i64, Vec<RowId>, SearchHit) -> Result<(), SqlError> + Send),
    ) -> Result<(), SqlError> {
        for place in 0..self.streams.len() {
            let stream = self.streams[place].clone();
            let query = stream.query(ids);
            let mut on_rows = |search: &Search<'_>, target: &Target, rows: &RecordBatch| {
                let ids = stream.ids(target, rows)?;
                let times = stream.event_times(rows);
                for ((hit, ids), time) in search.hits_of(target, rows)?.into_iter().zip(ids).zip(times) {
                    let time_micros = time.unwrap_or(hit.time_micros);
                    on_event(place as u32, time_micros, ids, SearchHit { time_micros, ..hit })?;
                }
                Ok(())
            };
            self.read(place, query, &[], &mut on_rows).await?;
        }
        Ok(())
    }

    /// Reads the rows of a stream that satisfy a query; those of the columns that it has or, without any, all.
    async fn read(
        &mut self,
        place: usize,
        query: String,
        columns: &[&str],
        on_rows: &mut (dyn FnMut(&Search<'_>, &Target, &RecordBatch) -> Result<(), SqlError> + Send),
    ) -> Result<(), SqlError> {
        let name = self.streams[place].name.clone();
        let request = SearchRequest { streams: vec![name.clone()], query, ..self.base.clone() };
        let mut search = Search::new(self.shared, &request, None, self.progress)?;
        (search.moments, search.started) = (self.moments, self.started);
        let position = self.positions[place];
        let target = search.target(self.shared, &name, Some(position)).await?;
        let (condition, parameters) = search.condition(&target, &(0..position), None)?;
        let known = target.fields.iter().filter(|field| columns.contains(&&*field.name));
        let selected = match columns {
            [] => "*".to_owned(),
            _ => known.map(|field| identifier(&field.name)).collect::<Vec<_>>().join(", "),
        };
        let text = format!("SELECT {selected} FROM {} WHERE {condition}", identifier(name.as_str()));
        if self.conditions[place].is_empty() {
            self.conditions[place] = condition;
        }
        let mut add = |rows: &RecordBatch| on_rows(&search, &target, rows);
        search.read(("scan", Some(place)), (text, parameters), &mut self.costs, &mut add).await?;
        Ok(())
    }

    fn answer(self, request: &ActivityRequest, closure: Closure) -> Result<ActivityAnswer, SqlError> {
        let Closure { found, mut page, page_events, .. } = closure;
        let has_more = page.len() == page_events;
        if has_more {
            page.pop_last();
        }
        let last = page.last_key_value().map(|(place, _)| *place).filter(|_| has_more);
        let cursor = last.map(|last| {
            let names = self.streams.iter().map(|stream| stream.name.to_string());
            let s = names.zip(self.positions.iter().copied()).collect();
            written(&Cursor { v: VERSION, r: request.checksum(), m: self.moments, s, l: last })
        });
        let events = page.into_iter().filter_map(|(place, hit)| {
            let Found { depth, id, column } = found.get(&place)?;
            let column = self.streams[place.1 as usize].columns.get(*column)?.name.clone();
            Some(ActivityEvent { hit, depth: *depth, id: Arc::clone(id), column })
        });
        Ok(ActivityAnswer {
            events: events.collect(),
            total: found.len() as u64,
            cursor,
            streams: self.searched_streams(),
            stages: self.costs.stages,
        })
    }

    /// The streams, with the files that were read of each.
    fn searched_streams(&self) -> Vec<SearchedStream> {
        let streams = self.streams.iter().enumerate().map(|(place, stream)| {
            let sources = self.costs.of_stream(place);
            let stored = self.shared.history.get().and_then(|history| history.stored(&stream.name));
            let files = stored.and_then(|stored| stored.table().map(|table| table.status().files));
            SearchedStream {
                stream: stream.name.clone(),
                position: self.positions[place],
                searched: 0..self.positions[place],
                condition: self.conditions[place].clone(),
                files: sources.files(files.unwrap_or(0)),
                tail_rows: sources.tail_rows,
            }
        });
        streams.collect()
    }
}

impl Closure {
    /// Adds an event, and its ids to those of the next depth.
    fn add(
        &mut self,
        place: Place,
        searched: &SearchedIds,
        first: &Arc<str>,
        depth: u32,
        ids: Vec<RowId>,
        hit: SearchHit,
    ) -> Result<(), SqlError> {
        if self.found.contains_key(&place) {
            return Ok(());
        }
        if self.found.len() == EVENTS_MAX {
            let message = format!("the activity has more than {EVENTS_MAX} events");
            return Err(limit(message, "Ask for a shorter time with `from` and `to`, or a smaller `depth`."));
        }
        let through = ids.iter().filter_map(|id| Some((searched.get(id)?, id.column))).min();
        let (id, column) = through.map_or((first, 0), |(id, column)| (id, column));
        self.found.insert(place, Found { depth, id: Arc::clone(id), column });
        for RowId { text, .. } in ids {
            if self.known.contains(&*text) {
                continue;
            }
            let id: Arc<str> = text.into();
            self.known.insert(Arc::clone(&id));
            self.next.insert(id);
        }
        if self.known.len() > IDS_MAX {
            let message = format!("the events of the activity have more than {IDS_MAX} ids");
            return Err(limit(
                message,
                "Ask for a smaller `depth`, for fewer streams, or for a shorter time.",
            ));
        }
        if self.after.is_none_or(|after| place > after) {
            self.page.insert(place, hit);
            if self.page.len() > self.page_events {
                self.page.pop_last();
            }
        }
        Ok(())
    }
}

/// Refuses a request without streams that can be searched.
fn check_streams(
    shared: &Arc<Shared>,
    names: &[StreamName],
    streams: &[CorrelatedStream],
    streams_max: usize,
) -> Result<(), SqlError> {
    const HINT: &str = "As in: CREATE SEARCH INDEX ON logs (trace_id ID CORRELATION).";
    let history = shared.history.get().ok_or_else(nothing_stored)?;
    for name in names {
        if streams.iter().any(|stream| stream.name == *name) {
            continue;
        }
        if history.stored(name).is_none() {
            return Err(super::not_stored(shared, name));
        }
        let message = format!("stream `{name}` has no column that is indexed as ID CORRELATION");
        return Err(SqlError::new(SqlErrorKind::Invalid, message).with_hint(HINT));
    }
    if streams.is_empty() {
        let message = "no stream has a column that is indexed as ID CORRELATION";
        return Err(SqlError::new(SqlErrorKind::NotFound, message).with_hint(HINT));
    }
    match streams.len() > streams_max {
        true => {
            let message =
                format!("{} streams are searched; `search.streams_max` is {streams_max}", streams.len());
            Err(limit(message, "Name some of them: stream=NAME."))
        }
        false => Ok(()),
    }
}

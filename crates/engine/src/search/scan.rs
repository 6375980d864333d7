//! Scans a stream for the events that match, counts them, and ranks them.

use std::{cmp::Ordering, collections::BinaryHeap, ops::Range, sync::Arc, time::Duration};

use arrow_array::{
    ArrayRef, RecordBatch, UInt32Array, UInt64Array,
    cast::AsArray,
    types::{Float64Type, Int64Type, TimestampMicrosecondType},
};
use arrow_row::{RowConverter, SortField};
use arrow_schema::{DataType, SortOptions};
use futures_util::StreamExt;
use swiftwater_sql::{Answer, ErrorKind as SqlErrorKind, Parameter, RunOptions, SqlError};
use swiftwater_store::{OFFSET_COLUMN, TIME_COLUMN, Table};
use tokio::time::Instant;

use super::{
    Search, Target,
    condition::identifier,
    costs::{Costs, HITS},
    cursor::{Cursor, LastHit},
};

/// Keeps the first of the events that match, and counts them.
///
/// An event's key is made of its value of the sort column, its stream and its offset, as bytes that compare as events are
/// ordered. Memory is bounded by twice the page. The events of a slice count once it is finished.
pub(super) struct Ranking {
    converter: RowConverter,
    /// Those of finished slices.
    finished: FirstHits,
    /// Those of the present slice.
    slice: FirstHits,
    /// Events that are kept: one more than the page, which shows whether there is another.
    kept: usize,
    /// The last event of the page before.
    pub(super) after: Option<LastHit>,
    is_by_arrival: bool,
    is_by_score: bool,
    /// By stream, how many events of finished slices are behind the page before.
    behind: Vec<u64>,
}

#[derive(Default)]
struct FirstHits {
    /// The first events so far, the last of them on top.
    first: BinaryHeap<Found>,
    total: u64,
    behind: u64,
}

impl FirstHits {
    fn push(&mut self, found: Found, kept: usize) {
        self.first.push(found);
        if self.first.len() > kept {
            self.first.pop();
        }
    }
}

/// An event that matches.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    key: Box<[u8]>,
    pub(super) stream: usize,
    pub(super) offset: u64,
    /// Its value of the sort column, where that is the time of arrival.
    time_micros: i64,
    /// The bits of its score, where hits are sorted by score.
    score: Option<u64>,
}

impl Found {
    /// Its score, where hits are sorted by score.
    pub(super) fn score(&self) -> Option<f64> {
        self.score.map(f64::from_bits)
    }
}

impl Ord for Found {
    fn cmp(&self, other: &Found) -> Ordering {
        self.key.cmp(&other.key)
    }
}

impl PartialOrd for Found {
    fn partial_cmp(&self, other: &Found) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The events of a page.
pub(super) struct Page {
    /// In order.
    pub(super) found: Vec<Found>,
    /// The last of them, if there are more.
    pub(super) last: Option<LastHit>,
    pub(super) total: u64,
}

impl Ranking {
    pub(super) fn new(
        search: &Search<'_>,
        targets: &[Target],
        cursor: Option<&Cursor>,
    ) -> Result<Ranking, SqlError> {
        let sort = &search.request.sort;
        let mut ty: Option<&DataType> = search.is_by_score().then_some(&DataType::Float64);
        for target in targets.iter().filter(|_| !search.is_by_score()) {
            let field = target.fields.iter().find(|field| *field.name == *sort.column).ok_or_else(|| {
                let names = target.fields.iter().map(|field| &*field.name);
                let near = swiftwater_event::did_you_mean(&sort.column, names);
                let message =
                    format!("stream `{}` has no column `{}` to sort by", target.stored.name, sort.column);
                let error = SqlError::new(SqlErrorKind::Invalid, message);
                match near {
                    Some(near) => error.with_hint(format!("Did you mean `{near}`?")),
                    None => error,
                }
            })?;
            if ty.is_some_and(|ty| *ty != field.ty) {
                let message =
                    format!("column `{}` has another type in stream `{}`", sort.column, target.stored.name);
                return Err(SqlError::new(SqlErrorKind::Invalid, message));
            }
            ty = Some(&field.ty);
        }
        let ty = ty.cloned().unwrap_or(DataType::Int64);
        let is_by_arrival = sort.column == TIME_COLUMN;
        let order = |descending| SortOptions { descending, nulls_first: false };
        let newest_first = if is_by_arrival { sort.descending } else { true };
        let mut fields = vec![
            SortField::new_with_options(ty.clone(), order(sort.descending)),
            SortField::new_with_options(DataType::UInt32, order(false)),
            SortField::new_with_options(DataType::UInt64, order(newest_first)),
        ];
        if search.is_by_score() {
            // Of equal scores the newest come first, whatever their streams.
            fields.insert(1, SortField::new_with_options(DataType::Int64, order(true)));
        }
        let converter = RowConverter::new(fields).map_err(|_| {
            let message = format!("events cannot be sorted by column `{}`, which is {ty}", sort.column);
            SqlError::new(SqlErrorKind::Invalid, message)
        })?;
        Ok(Ranking {
            converter,
            finished: FirstHits::default(),
            slice: FirstHits::default(),
            kept: search.request.limit.saturating_add(1),
            after: cursor.map(|cursor| cursor.last.clone()),
            is_by_arrival,
            is_by_score: search.is_by_score(),
            behind: vec![0; targets.len()],
        })
    }

    /// Takes in rows that match, with their offsets and values of the sort column.
    fn add(&mut self, stream: usize, rows: &RecordBatch) -> Result<(), SqlError> {
        self.slice.total += rows.num_rows() as u64;
        let broken = |_| SqlError::new(SqlErrorKind::Internal, "rows of a search cannot be compared");
        let offsets = rows.column(0).as_primitive_opt::<Int64Type>();
        let offsets =
            offsets.ok_or_else(|| SqlError::new(SqlErrorKind::Internal, "a stream has no offsets"))?;
        let offsets: UInt64Array = offsets.values().iter().map(|offset| offset.cast_unsigned()).collect();
        let streams = UInt32Array::from(vec![stream as u32; rows.num_rows()]);
        let mut columns: Vec<ArrayRef> =
            vec![Arc::clone(rows.column(1)), Arc::new(streams), Arc::new(offsets.clone())];
        let times = rows.column(1).as_primitive_opt::<TimestampMicrosecondType>();
        let scores = rows.column(1).as_primitive_opt::<Float64Type>().filter(|_| self.is_by_score);
        if let Some(times) = rows.columns().get(2).filter(|_| self.is_by_score) {
            let times = times.as_primitive_opt::<TimestampMicrosecondType>();
            let times =
                times.ok_or_else(|| SqlError::new(SqlErrorKind::Internal, "a stream has no times"))?;
            columns.insert(1, Arc::new(times.reinterpret_cast::<Int64Type>()));
        }
        let keys = self.converter.convert_columns(&columns).map_err(broken)?;
        for (row, key) in keys.iter().enumerate() {
            let key: &[u8] = key.as_ref();
            if self.after.as_ref().is_some_and(|after| *key <= *after.key) {
                continue;
            }
            self.slice.behind += 1;
            let first = &self.slice.first;
            if first.len() == self.kept && first.peek().is_none_or(|last| *last.key <= *key) {
                continue;
            }
            let time_micros = times.filter(|_| self.is_by_arrival).map_or(0, |times| times.value(row));
            let score = scores.map(|scores| scores.value(row).to_bits());
            let found = Found { key: key.into(), stream, offset: offsets.value(row), time_micros, score };
            self.slice.push(found, self.kept);
        }
        Ok(())
    }

    /// The slice of a stream is finished: its events count. True if no later slice of the stream has events of the page.
    pub(super) fn finish_slice(&mut self, stream: usize) -> bool {
        let FirstHits { first, total, behind } = std::mem::take(&mut self.slice);
        for found in first {
            self.finished.push(found, self.kept);
        }
        self.finished.total += total;
        self.behind[stream] += behind;
        self.behind[stream] >= self.kept as u64
    }

    /// The slice is not finished: its events are left out.
    pub(super) fn abandon_slice(&mut self) {
        self.slice = FirstHits::default();
    }

    /// The events of the page.
    pub(super) fn finish(self) -> Page {
        let FirstHits { first, total, .. } = self.finished;
        let mut found = first.into_sorted_vec();
        let has_more = found.len() == self.kept;
        found.truncate(self.kept - 1);
        let last = found.last().filter(|_| has_more).map(|last| LastHit {
            key: last.key.clone(),
            arrival: self.is_by_arrival.then_some((last.time_micros, last.offset)),
        });
        Page { found, last, total }
    }
}

impl Search<'_> {
    /// Scans the events of a stream between two offsets. Answers how many rows were read from files.
    pub(super) async fn scan(
        &self,
        (place, target): (usize, &Target),
        offsets: &Range<u64>,
        ranking: &mut Ranking,
        costs: &mut Costs,
    ) -> Result<u64, SqlError> {
        let counts = self.counts(ranking.after.as_ref());
        if self.request.limit == 0 && !counts {
            return Ok(0);
        }
        let statement = self.statement(target, offsets, ranking, counts)?;
        self.read(("scan", Some(place)), statement, costs, &mut |rows| ranking.add(place, rows)).await
    }

    /// True if all events are counted: those of a further page were.
    pub(super) fn counts(&self, after: Option<&LastHit>) -> bool {
        self.request.counts && after.is_none() && self.counted.is_none()
    }

    /// True if the events that match are counted before hits are searched: where no hits are wanted, and where search indexes
    /// count most of them without reading any.
    pub(super) fn counts_first(&self, targets: &[Target], cursor: Option<&Cursor>) -> bool {
        let is_indexed = |target: &Target| {
            let status = target.stored.table().map(Table::companion_status);
            status.is_some_and(|status| status.indexed_files > 9 * status.waiting_files)
        };
        self.request.counts
            && cursor.is_none()
            && !self.request.partial
            && (self.request.limit == 0 || (self.request.is_by_arrival() && targets.iter().all(is_indexed)))
    }

    /// Counts the events that match.
    pub(super) async fn count(&self, targets: &[Target], costs: &mut Costs) -> Result<u64, SqlError> {
        let mut total = 0;
        for (place, target) in targets.iter().enumerate() {
            let (condition, parameters) = self.condition(target, &(0..target.position), None)?;
            let stream = identifier(target.stored.name.as_str());
            let text = format!("SELECT count(*) FROM {stream} WHERE {condition}");
            let mut add = |rows: &RecordBatch| {
                let counts = rows.column(0).as_primitive_opt::<Int64Type>();
                total += counts.iter().flat_map(|counts| counts.values()).sum::<i64>().cast_unsigned();
                Ok(())
            };
            self.read(("count", Some(place)), (text, parameters), costs, &mut add).await?;
        }
        Ok(total)
    }

    /// The statement that finds the rows, with their offsets and values of the sort column.
    fn statement(
        &self,
        target: &Target,
        offsets: &Range<u64>,
        ranking: &Ranking,
        counts: bool,
    ) -> Result<(String, Vec<Parameter>), SqlError> {
        let sort = &self.request.sort;
        let (mut condition, mut parameters) = self.condition(target, offsets, None)?;
        if let Some((micros, _)) = ranking.after.as_ref().and_then(|after| after.arrival).filter(|_| !counts)
        {
            // The offsets of one time are compared when rows are ranked.
            let operator = if sort.descending { "<=" } else { ">=" };
            parameters.push(Parameter::Timestamp { micros, is_utc: true });
            condition += &format!(" AND {TIME_COLUMN} {operator} ${}", parameters.len());
        }
        let stream = identifier(target.stored.name.as_str());
        let sorted = match self.is_by_score() {
            true => format!("{}, {TIME_COLUMN}", self.score(target, &mut parameters)),
            false => identifier(&sort.column),
        };
        Ok((format!("SELECT {OFFSET_COLUMN}, {sorted} FROM {stream} WHERE {condition}"), parameters))
    }

    /// Reads the rows of a statement of a part of the search, over one stream or over all. Answers how many rows it read
    /// from files.
    pub(super) async fn read(
        &self,
        part: (&'static str, Option<usize>),
        (text, parameters): (String, Vec<Parameter>),
        costs: &mut Costs,
        on_rows: &mut (dyn FnMut(&RecordBatch) -> Result<(), SqlError> + Send),
    ) -> Result<u64, SqlError> {
        let begun = Instant::now();
        let timeout = self.timeout_of(part.0);
        let options = RunOptions {
            parameters,
            client: self.request.client,
            duration_max: Some(timeout.saturating_sub(self.started.elapsed()).max(Duration::from_millis(1))),
            ..RunOptions::default()
        };
        let mut rows = self.sql.run(text, options).await.map_err(|error| self.late(part.0, error, None))?;
        self.progress.begin(rows.progress());
        let mut result = Ok(());
        while let Some(batch) = rows.next().await {
            result = match batch {
                Ok(batch) => on_rows(&batch),
                Err(error) => Err(self.late(part.0, error, Some(&rows))),
            };
            if result.is_err() {
                break;
            }
        }
        let stored = costs.statement(part, begun, rows.progress());
        result.map(|()| stored)
    }

    fn timeout(&self) -> Duration {
        Duration::from_millis(self.history.config.search_timeout_ms)
    }

    /// The time until which a part runs. A partial answer leaves a fifth for its hits.
    fn timeout_of(&self, part: &str) -> Duration {
        match self.request.partial && part != HITS {
            true => self.timeout() * 4 / 5,
            false => self.timeout(),
        }
    }

    /// True if the time for searching is over.
    pub(super) fn is_late(&self) -> bool {
        self.started.elapsed() >= self.timeout_of("scan")
    }

    /// The error, or that the time of the search is over, with how far it is.
    fn late(&self, part: &str, error: SqlError, rows: Option<&Answer>) -> SqlError {
        let timeout = self.timeout_of(part);
        if self.started.elapsed() < timeout {
            return error;
        }
        let percent = rows.and_then(|rows| rows.progress().read().percent).unwrap_or(0.0);
        let message = format!(
            "the search took longer than `search.timeout_ms`, {} ms; {percent:.0} % of the rows were searched",
            self.timeout().as_millis()
        );
        let mut hint = "Search a shorter time with `from` and `to`, ask for what is found until then with `partial=true`, or raise the setting."
            .to_owned();
        let without_index =
            self.request.streams.iter().find(|name| self.history.index_of(name.as_str()).is_none());
        if let Some(stream) = without_index {
            let stream = identifier(stream.as_str());
            hint += &format!(" An index makes later searches fast: CREATE SEARCH INDEX ON {stream} (*).");
        }
        SqlError::new(SqlErrorKind::Limit, message).with_hint(hint)
    }
}

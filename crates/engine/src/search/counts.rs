//! Counts the events that match: by value (facets), by range, and over time (histograms).
//!
//! Each is a statement of its own with the conditions of the search, so it counts the same events as the hits. Partial
//! counts of several streams and slices are added. Limits: `search.facet_values_max` values of one facet or histogram.

use std::{collections::HashMap, ops::Range};

use arrow_array::RecordBatch;
use arrow_schema::DataType;
use serde_json::Value;
use swiftwater_sql::{
    ErrorKind as SqlErrorKind, Parameter, SqlError,
    forms::{Form, FormWriter},
};
use swiftwater_text::{SearchField, query::moment_micros};

use super::{
    Search, Target,
    condition::{field, identifier, literal},
    costs::Costs,
    request::{
        Bucket, Facet, FacetRequest, HistogramRequest, RangeCount, RangeRequest, SearchAnswer, ValueCount,
    },
};

/// Buckets of a histogram whose interval is chosen, at most.
const BUCKETS_CHOSEN: i64 = 100;
/// Buckets of a histogram, at most.
const BUCKETS_MAX: usize = 10_000;

/// Intervals to choose from, in seconds; longer ones are multiples of the last.
const INTERVALS: [i64; 17] =
    [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21_600, 43_200, 86_400];

/// Counts of the events of some slices.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// By facet: the number of events by value, as JSON.
    facets: Vec<HashMap<String, u64>>,
    /// By range parameter: the number of events in each range.
    ranges: Vec<Vec<u64>>,
    /// By number of the interval: the number of events, also by value.
    buckets: HashMap<i64, (u64, HashMap<String, u64>)>,
}

impl Tally {
    /// Adds the counts of other events.
    pub(super) fn add(&mut self, other: Tally) {
        self.facets.resize(self.facets.len().max(other.facets.len()), HashMap::new());
        for (counts, other) in self.facets.iter_mut().zip(other.facets) {
            add_counts(counts, other);
        }
        self.ranges.resize(self.ranges.len().max(other.ranges.len()), Vec::new());
        for (counts, other) in self.ranges.iter_mut().zip(other.ranges) {
            counts.resize(counts.len().max(other.len()), 0);
            counts.iter_mut().zip(other).for_each(|(count, more)| *count += more);
        }
        for (number, (count, by)) in other.buckets {
            let (total, counts) = self.buckets.entry(number).or_default();
            *total += count;
            add_counts(counts, by);
        }
    }
}

fn add_counts(counts: &mut HashMap<String, u64>, more: HashMap<String, u64>) {
    for (value, count) in more {
        *counts.entry(value).or_default() += count;
    }
}

impl Search<'_> {
    /// True if values, ranges or intervals are counted.
    pub(super) fn tallies(&self) -> bool {
        let request = self.request;
        !request.facets.is_empty() || !request.ranges.is_empty() || request.histogram.is_some()
    }

    /// Counts the events of a stream between two offsets.
    pub(super) async fn tally(
        &self,
        (place, target): (usize, &Target),
        offsets: &Range<u64>,
        interval: i64,
        costs: &mut Costs,
    ) -> Result<Tally, SqlError> {
        let mut tally = Tally::default();
        for facet in &self.request.facets {
            let without = self.request.sideways.then_some(&*facet.column);
            let (condition, parameters) = self.condition(target, offsets, without)?;
            let source = facet_source(target, facet, &condition, "")?;
            let text = format!("SELECT value, count(*) AS n FROM ({source}) GROUP BY value");
            let mut counts: HashMap<String, u64> = HashMap::new();
            for row in self.rows(("facets", Some(place)), (text, parameters), costs).await? {
                *counts.entry(row["value"].to_string()).or_default() += row["n"].as_u64().unwrap_or(0);
            }
            tally.facets.push(counts);
        }
        for range in &self.request.ranges {
            tally.ranges.push(self.range((place, target), offsets, range, costs).await?);
        }
        if let Some(histogram) = &self.request.histogram {
            let at = (place, target);
            tally.buckets = self.buckets(at, offsets, (histogram, interval), costs).await?;
        }
        Ok(tally)
    }

    /// Adds the counts of a slice to those before, within the limits.
    pub(super) fn add_tally(&self, tally: &mut Tally, slice: Tally) -> Result<(), SqlError> {
        tally.add(slice);
        for (counts, facet) in tally.facets.iter().zip(&self.request.facets) {
            self.check_values(counts.len(), &facet.column)?;
        }
        let values: usize = tally.buckets.values().map(|(_, by)| by.len()).sum();
        self.check_values(values, "")?;
        if tally.buckets.len() <= BUCKETS_MAX {
            return Ok(());
        }
        let message = format!("the histogram has more than {BUCKETS_MAX} intervals");
        let error = SqlError::new(SqlErrorKind::Limit, message);
        Err(error.with_hint("Write a longer interval, or `auto`."))
    }

    /// Puts the counts into the answer.
    pub(super) fn counted(&self, tally: Tally, interval: i64, answer: &mut SearchAnswer) {
        let mut facets = tally.facets.into_iter();
        for facet in &self.request.facets {
            let mut counts = facets.next().unwrap_or_default();
            let missing = counts.remove("null").unwrap_or(0);
            let distinct = counts.len() as u64;
            // Those of another order are cut off once their aggregates are known.
            let limit = if facet.aggregates.is_empty() { facet.limit } else { usize::MAX };
            let values = most_frequent(counts, limit);
            answer.facets.push(Facet { name: facet.name().to_owned(), values, distinct, missing });
        }
        let mut ranges = tally.ranges.into_iter();
        for range in &self.request.ranges {
            let counts = ranges.next().unwrap_or_default();
            let pairs = range.bounds.iter().zip(range.bounds.iter().skip(1)).enumerate();
            let of = pairs.map(|(number, (from, to))| RangeCount {
                from: from.clone(),
                to: to.clone(),
                count: counts.get(number).copied().unwrap_or(0),
                aggregates: Vec::new(),
            });
            answer.ranges.push((range.name().to_owned(), of.collect()));
        }
        if self.request.histogram.is_some() {
            let buckets = tally.buckets.into_iter().map(|(number, (count, by))| Bucket {
                start_micros: number.saturating_mul(interval),
                count,
                by: most_frequent(by, usize::MAX),
                aggregates: Vec::new(),
            });
            let mut buckets: Vec<Bucket> = buckets.collect();
            buckets.sort_unstable_by_key(|bucket| bucket.start_micros);
            answer.histogram = Some(buckets);
        }
    }

    /// The number of events that have a value of a column in each range.
    async fn range(
        &self,
        (place, target): (usize, &Target),
        offsets: &Range<u64>,
        range: &RangeRequest,
        costs: &mut Costs,
    ) -> Result<Vec<u64>, SqlError> {
        let (condition, mut parameters) = self.condition(target, offsets, None)?;
        let column = identifier(&range.column);
        let conditions = self.range_conditions(target, range, &column, &mut parameters)?;
        let counts = conditions.iter().enumerate();
        let counts = counts.map(|(number, within)| format!("count(*) FILTER (WHERE {within}) AS r{number}"));
        let stream = identifier(target.stored.name.as_str());
        let columns = counts.collect::<Vec<_>>().join(", ");
        let text = format!("SELECT {columns} FROM {stream} WHERE {condition}");
        let mut totals = vec![0; conditions.len()];
        for row in self.rows(("ranges", Some(place)), (text, parameters), costs).await? {
            for (number, total) in totals.iter_mut().enumerate() {
                *total += row[format!("r{number}")].as_u64().unwrap_or(0);
            }
        }
        Ok(totals)
    }

    /// The condition of each range on a column, which stands in a statement under some name.
    pub(super) fn range_conditions(
        &self,
        target: &Target,
        range: &RangeRequest,
        name: &str,
        parameters: &mut Vec<Parameter>,
    ) -> Result<Vec<String>, SqlError> {
        let field = field(target, &range.column)?;
        let pairs = range.bounds.iter().zip(range.bounds.iter().skip(1));
        let mut conditions = Vec::with_capacity(pairs.len());
        for (from, to) in pairs {
            let mut bound = |text: &str| {
                parameters.push(self.bound(field, text)?);
                Ok::<usize, SqlError>(parameters.len())
            };
            let (from, to) = (bound(from)?, bound(to)?);
            conditions.push(format!("{name} >= ${from} AND {name} < ${to}"));
        }
        if conditions.is_empty() {
            let error = SqlError::new(SqlErrorKind::Invalid, "a range has at least two bounds");
            return Err(error.with_hint("Write range=price:0,10,100 for the ranges [0,10) and [10,100)."));
        }
        Ok(conditions)
    }

    /// The bound of a range, in the type of its column.
    fn bound(&self, field: &SearchField, text: &str) -> Result<Parameter, SqlError> {
        let bound = match &field.ty {
            DataType::Timestamp(..) => moment_micros(text, self.moments.now_micros)
                .map(|micros| Parameter::Timestamp { micros, is_utc: true }),
            ty if ty.is_numeric() => match text.parse::<i64>() {
                Ok(whole) => Some(Parameter::Long(whole)),
                Err(_) => text.parse().ok().filter(|number: &f64| number.is_finite()).map(Parameter::Double),
            },
            ty => {
                let message = format!("column `{}` is {ty}, which has no ranges", field.name);
                let error = SqlError::new(SqlErrorKind::Invalid, message);
                return Err(error.with_hint("Ranges are of columns of numbers or times."));
            }
        };
        bound.ok_or_else(|| {
            let message = format!("`{text}` is no bound of a range of column `{}`", field.name);
            SqlError::new(SqlErrorKind::Invalid, message)
        })
    }

    /// The number of events in each interval of a time column, also by the values of another one.
    async fn buckets(
        &self,
        (place, target): (usize, &Target),
        offsets: &Range<u64>,
        (histogram, interval): (&HistogramRequest, i64),
        costs: &mut Costs,
    ) -> Result<HashMap<i64, (u64, HashMap<String, u64>)>, SqlError> {
        let (condition, parameters) = self.condition(target, offsets, None)?;
        let by = histogram.by.as_ref().map_or("NULL".to_owned(), |by| identifier(by));
        let source = bucket_source(target, histogram, interval, &condition, &format!(", {by} AS value"));
        let text = format!("SELECT bucket, value, count(*) AS n FROM ({source}) GROUP BY bucket, value");
        let mut buckets: HashMap<i64, (u64, HashMap<String, u64>)> = HashMap::new();
        for row in self.rows(("histogram", Some(place)), (text, parameters), costs).await? {
            let (Some(number), Some(count)) = (row["bucket"].as_i64(), row["n"].as_u64()) else { continue };
            let (total, by) = buckets.entry(number).or_default();
            *total += count;
            if histogram.by.is_some() && !row["value"].is_null() {
                *by.entry(row["value"].to_string()).or_default() += count;
            }
        }
        Ok(buckets)
    }

    /// The interval of the histogram, if there is one, in microseconds.
    pub(super) async fn histogram_interval(
        &self,
        targets: &[Target],
        costs: &mut Costs,
    ) -> Result<i64, SqlError> {
        let Some(histogram) = &self.request.histogram else { return Ok(1) };
        for target in targets {
            if !matches!(field(target, &histogram.column)?.ty, DataType::Timestamp(..)) {
                let message = format!("column `{}` is no TIMESTAMP", histogram.column);
                let error = SqlError::new(SqlErrorKind::Invalid, message);
                return Err(error.with_hint("Write histogram=_time:1m."));
            }
            if let Some(by) = &histogram.by {
                field(target, by)?;
            }
        }
        match histogram.interval_micros {
            Some(interval) => Ok(interval),
            None => self.interval(targets, &histogram.column, costs).await,
        }
    }

    /// The shortest interval that divides the times of the events into not too many.
    async fn interval(&self, targets: &[Target], column: &str, costs: &mut Costs) -> Result<i64, SqlError> {
        let (mut first, mut last) = (i64::MAX, i64::MIN);
        for (place, target) in targets.iter().enumerate() {
            let all = 0..target.position;
            let (condition, parameters) = match self.request.partial {
                // The search may not finish: the times of all events bound those that match.
                true => self.times_condition(&all),
                false => self.condition(target, &all, None)?,
            };
            let (name, stream) = (identifier(column), identifier(target.stored.name.as_str()));
            let micros = |function: &str| {
                format!("arrow_cast(arrow_cast({function}({name}), 'Timestamp(Microsecond, None)'), 'Int64')")
            };
            let (least, most) = (micros("min"), micros("max"));
            let text = format!("SELECT {least} AS a, {most} AS b FROM {stream} WHERE {condition}");
            for row in self.rows(("histogram", Some(place)), (text, parameters), costs).await? {
                first = first.min(row["a"].as_i64().unwrap_or(first));
                last = last.max(row["b"].as_i64().unwrap_or(last));
            }
        }
        let seconds = last.saturating_sub(first).max(0) / 1_000_000;
        let wanted = seconds / BUCKETS_CHOSEN + 1;
        let interval = INTERVALS.into_iter().find(|interval| *interval >= wanted);
        let days = || (wanted + 86_399) / 86_400 * 86_400;
        Ok(interval.unwrap_or_else(days) * 1_000_000)
    }

    /// The rows of a statement of a part of the search, each as a JSON object.
    pub(super) async fn rows(
        &self,
        part: (&'static str, Option<usize>),
        statement: (String, Vec<Parameter>),
        costs: &mut Costs,
    ) -> Result<Vec<Value>, SqlError> {
        let mut all = Vec::new();
        let mut add = |batch: &RecordBatch| {
            let mut lines = Vec::new();
            FormWriter::new(Form::Ndjson, &batch.schema())?.batch(batch, &mut lines)?;
            for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                let row = serde_json::from_slice(line);
                all.push(row.map_err(|_| SqlError::new(SqlErrorKind::Internal, "a row is not JSON"))?);
            }
            self.check_values(all.len(), "")
        };
        self.read(part, statement, costs, &mut add).await?;
        Ok(all)
    }

    pub(super) fn check_values(&self, values: usize, column: &str) -> Result<(), SqlError> {
        let most = self.history.config.search_facet_values_max;
        if values <= most {
            return Ok(());
        }
        let of = if column.is_empty() { String::new() } else { format!(" of column `{column}`") };
        let message =
            format!("more than {most} values{of} would be counted; `search.facet_values_max` is {most}");
        let error = SqlError::new(SqlErrorKind::Limit, message);
        Err(error.with_hint("Search fewer events, or count in SQL with GROUP BY and LIMIT."))
    }
}

/// The rows of a facet: `value`, and `more` columns. An event with a list has one for each of its values.
pub(super) fn facet_source(
    target: &Target,
    facet: &FacetRequest,
    condition: &str,
    more: &str,
) -> Result<String, SqlError> {
    let field = field(target, &facet.column)?;
    let (column, stream) = (identifier(&facet.column), identifier(target.stored.name.as_str()));
    let is_text = |ty: &DataType| matches!(ty, DataType::Utf8View | DataType::Utf8 | DataType::LargeUtf8);
    if (facet.path.is_some() || facet.depth.is_some()) && !is_text(&field.ty) {
        let message = format!("column `{}` is {}, which has no paths", field.name, field.ty);
        let error = SqlError::new(SqlErrorKind::Invalid, message);
        return Err(error.with_hint("Paths are texts such as `a/b/c`."));
    }
    if matches!(field.ty, DataType::List(_)) {
        return Ok(format!(
            "SELECT unnest(array_distinct({column})) AS value{more} FROM {stream} WHERE {condition} \
             UNION ALL SELECT NULL AS value{more} FROM {stream} WHERE {condition} AND \
             coalesce(array_length({column}), 0) = 0"
        ));
    }
    let below = match &facet.path {
        Some(path) => format!(" AND starts_with({column}, {})", literal(&format!("{path}/"))),
        None => String::new(),
    };
    let levels = facet.path.as_ref().map_or(0, |path| path.matches('/').count() + 1);
    let value = match (facet.depth, &facet.path) {
        (None, None) => column,
        (depth, _) => {
            let levels = i64::try_from(levels.saturating_add(depth.unwrap_or(1).max(1))).unwrap_or(i64::MAX);
            format!("facet({column}, {levels})")
        }
    };
    Ok(format!("SELECT {value} AS value{more} FROM {stream} WHERE {condition}{below}"))
}

/// The rows of a histogram: `bucket`, the number of the interval, and `more` columns.
pub(super) fn bucket_source(
    target: &Target,
    histogram: &HistogramRequest,
    interval: i64,
    condition: &str,
    more: &str,
) -> String {
    let (column, stream) = (identifier(&histogram.column), identifier(target.stored.name.as_str()));
    format!(
        "SELECT CAST(floor(arrow_cast(arrow_cast({column}, 'Timestamp(Microsecond, None)'), 'Int64') / \
         {interval}.0) AS BIGINT) AS bucket{more} FROM {stream} WHERE {condition} AND {column} IS NOT NULL"
    )
}

/// The most frequent values; equally frequent ones in the order of their JSON texts.
fn most_frequent(counts: HashMap<String, u64>, limit: usize) -> Vec<ValueCount> {
    let count = |(value, count)| ValueCount { value, count, aggregates: Vec::new() };
    let mut values: Vec<ValueCount> = counts.into_iter().map(count).collect();
    values.sort_unstable_by(|a, b| b.count.cmp(&a.count).then_with(|| a.value.cmp(&b.value)));
    values.truncate(limit);
    values
}

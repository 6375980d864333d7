//! Counts the events that match: by value (facets), by range, and over time (histograms).
//!
//! Each is a statement of its own with the conditions of the search, so it counts the same events as the hits. Partial
//! counts of several streams are added. Limits: `search.facet_values_max` values of one facet or histogram.

use std::collections::HashMap;

use arrow_schema::DataType;
use futures_util::StreamExt;
use serde_json::Value;
use swiftwater_sql::{
    ErrorKind as SqlErrorKind, Parameter, SqlError,
    forms::{Form, FormWriter},
};
use swiftwater_text::{SearchField, query::moment_micros};

use super::{
    Search, Target,
    condition::{field, identifier, literal},
    request::{Bucket, Facet, FacetRequest, HistogramRequest, RangeCount, RangeRequest},
};

/// Buckets of a histogram whose interval is chosen, at most.
const BUCKETS_CHOSEN: i64 = 100;
/// Buckets of a histogram, at most.
const BUCKETS_MAX: usize = 10_000;

/// Intervals to choose from, in seconds; longer ones are multiples of the last.
const INTERVALS: [i64; 17] =
    [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21_600, 43_200, 86_400];

impl Search<'_> {
    /// How many events have each value of a column.
    pub(super) async fn facet(&self, targets: &[Target], facet: &FacetRequest) -> Result<Facet, SqlError> {
        let mut counts: HashMap<String, u64> = HashMap::new();
        for target in targets {
            let without = self.request.sideways.then_some(&*facet.column);
            let (condition, parameters) = self.condition(target, without)?;
            let text = facet_statement(target, facet, &condition)?;
            for row in self.rows(text, parameters).await? {
                let count = row["n"].as_u64().unwrap_or(0);
                *counts.entry(row["value"].to_string()).or_default() += count;
                self.check_values(counts.len(), &facet.column)?;
            }
        }
        let missing = counts.remove("null").unwrap_or(0);
        let distinct = counts.len() as u64;
        let values = most_frequent(counts, facet.limit);
        Ok(Facet { column: facet.column.clone(), values, distinct, missing })
    }

    /// How many events have a value of a column in each range.
    pub(super) async fn range(
        &self,
        targets: &[Target],
        range: &RangeRequest,
    ) -> Result<Vec<RangeCount>, SqlError> {
        let pairs: Vec<(&String, &String)> = range.bounds.iter().zip(range.bounds.iter().skip(1)).collect();
        if pairs.is_empty() {
            let error = SqlError::new(SqlErrorKind::Invalid, "a range has at least two bounds");
            return Err(error.with_hint("Write range=price:0,10,100 for the ranges [0,10) and [10,100)."));
        }
        let mut ranges: Vec<RangeCount> = pairs
            .iter()
            .map(|(from, to)| RangeCount { from: (*from).clone(), to: (*to).clone(), count: 0 })
            .collect();
        for target in targets {
            let field = field(target, &range.column)?;
            let (condition, mut parameters) = self.condition(target, None)?;
            let mut columns = Vec::with_capacity(pairs.len());
            for (number, (from, to)) in pairs.iter().enumerate() {
                let mut bound = |text: &str| {
                    parameters.push(self.bound(field, text)?);
                    Ok::<_, SqlError>(parameters.len())
                };
                let (from, to, column) = (bound(from)?, bound(to)?, identifier(&range.column));
                columns.push(format!(
                    "count(*) FILTER (WHERE {column} >= ${from} AND {column} < ${to}) AS r{number}"
                ));
            }
            let stream = identifier(target.stored.name.as_str());
            let text = format!("SELECT {} FROM {stream} WHERE {condition}", columns.join(", "));
            for row in self.rows(text, parameters).await? {
                for (number, range) in ranges.iter_mut().enumerate() {
                    range.count += row[format!("r{number}")].as_u64().unwrap_or(0);
                }
            }
        }
        Ok(ranges)
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

    /// How many events there are in each interval of a time column, also by the values of another one.
    pub(super) async fn histogram(
        &self,
        targets: &[Target],
        histogram: &HistogramRequest,
    ) -> Result<Vec<Bucket>, SqlError> {
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
        let interval = match histogram.interval_micros {
            Some(interval) => interval,
            None => self.interval(targets, &histogram.column).await?,
        };
        let mut buckets: HashMap<i64, (u64, HashMap<String, u64>)> = HashMap::new();
        let mut values = 0;
        for target in targets {
            let (condition, parameters) = self.condition(target, None)?;
            let (column, stream) = (identifier(&histogram.column), identifier(target.stored.name.as_str()));
            let by = histogram.by.as_ref().map_or("NULL".to_owned(), |by| identifier(by));
            let text = format!(
                "SELECT bucket, value, count(*) AS n FROM (SELECT CAST(floor(arrow_cast(arrow_cast({column}, \
                 'Timestamp(Microsecond, None)'), 'Int64') / {interval}.0) AS BIGINT) AS bucket, {by} AS value \
                 FROM {stream} WHERE {condition} AND {column} IS NOT NULL) GROUP BY bucket, value"
            );
            for row in self.rows(text, parameters).await? {
                let (Some(number), Some(count)) = (row["bucket"].as_i64(), row["n"].as_u64()) else {
                    continue;
                };
                let (total, by) = buckets.entry(number).or_default();
                *total += count;
                if histogram.by.is_some() && !row["value"].is_null() {
                    *by.entry(row["value"].to_string()).or_default() += count;
                    values += 1;
                    self.check_values(values, histogram.by.as_deref().unwrap_or_default())?;
                }
            }
            if buckets.len() > BUCKETS_MAX {
                let message = format!("the histogram has more than {BUCKETS_MAX} intervals");
                let error = SqlError::new(SqlErrorKind::Limit, message);
                return Err(error.with_hint("Write a longer interval, or `auto`."));
            }
        }
        let mut buckets: Vec<Bucket> = buckets
            .into_iter()
            .map(|(number, (count, by))| Bucket {
                start_micros: number.saturating_mul(interval),
                count,
                by: most_frequent(by, usize::MAX),
            })
            .collect();
        buckets.sort_unstable_by_key(|bucket| bucket.start_micros);
        Ok(buckets)
    }

    /// The shortest interval that divides the times of the events into not too many.
    async fn interval(&self, targets: &[Target], column: &str) -> Result<i64, SqlError> {
        let (mut first, mut last) = (i64::MAX, i64::MIN);
        for target in targets {
            let (condition, parameters) = self.condition(target, None)?;
            let (name, stream) = (identifier(column), identifier(target.stored.name.as_str()));
            let micros = |function: &str| {
                format!("arrow_cast(arrow_cast({function}({name}), 'Timestamp(Microsecond, None)'), 'Int64')")
            };
            let (least, most) = (micros("min"), micros("max"));
            let text = format!("SELECT {least} AS a, {most} AS b FROM {stream} WHERE {condition}");
            for row in self.rows(text, parameters).await? {
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

    /// The rows of a statement, each as a JSON object.
    async fn rows(&self, text: String, parameters: Vec<Parameter>) -> Result<Vec<Value>, SqlError> {
        let mut rows = self.run(text, parameters).await?;
        let mut all = Vec::new();
        while let Some(batch) = rows.next().await {
            let batch = batch.map_err(|error| self.late(error, Some(&rows)))?;
            let mut lines = Vec::new();
            FormWriter::new(Form::Ndjson, &batch.schema())?.batch(&batch, &mut lines)?;
            for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                let row = serde_json::from_slice(line);
                all.push(row.map_err(|_| SqlError::new(SqlErrorKind::Internal, "a row is not JSON"))?);
            }
            self.check_values(all.len(), "")?;
        }
        Ok(all)
    }

    fn check_values(&self, values: usize, column: &str) -> Result<(), SqlError> {
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

/// The statement that counts the values of a column.
fn facet_statement(target: &Target, facet: &FacetRequest, condition: &str) -> Result<String, SqlError> {
    let field = field(target, &facet.column)?;
    let (column, stream) = (identifier(&facet.column), identifier(target.stored.name.as_str()));
    let is_list = matches!(field.ty, DataType::List(_));
    let is_text = |ty: &DataType| matches!(ty, DataType::Utf8View | DataType::Utf8 | DataType::LargeUtf8);
    if (facet.path.is_some() || facet.depth.is_some()) && !is_text(&field.ty) {
        let message = format!("column `{}` is {}, which has no paths", field.name, field.ty);
        let error = SqlError::new(SqlErrorKind::Invalid, message);
        return Err(error.with_hint("Paths are texts such as `a/b/c`."));
    }
    if is_list {
        // An event counts once for each of its values.
        return Ok(format!(
            "SELECT value, count(*) AS n FROM (SELECT unnest(array_distinct({column})) AS value FROM {stream} \
             WHERE {condition}) GROUP BY value \
             UNION ALL SELECT NULL AS value, count(*) AS n FROM {stream} WHERE {condition} AND \
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
            let levels = levels.saturating_add(depth.unwrap_or(1));
            format!("array_to_string(array_slice(string_to_array({column}, '/'), 1, {levels}), '/')")
        }
    };
    Ok(format!("SELECT {value} AS value, count(*) AS n FROM {stream} WHERE {condition}{below} GROUP BY 1"))
}

/// The most frequent values; equally frequent ones in the order of their JSON texts.
fn most_frequent(counts: HashMap<String, u64>, limit: usize) -> Vec<(String, u64)> {
    let mut values: Vec<(String, u64)> = counts.into_iter().collect();
    values.sort_unstable_by(|(a, count_a), (b, count_b)| count_b.cmp(count_a).then_with(|| a.cmp(b)));
    values.truncate(limit);
    values
}

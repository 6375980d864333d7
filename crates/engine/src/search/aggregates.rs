//! Computes aggregates of the events of each value, range and interval: `sum(price * qty)`.
//!
//! Each is one statement over all streams, so that SQL merges them, with the conditions of the counts. The expressions are
//! read by [`AggregateCall`], and stand in a select over one stream, where only its columns are known.

use std::collections::HashMap;

use serde_json::Value;
use swiftwater_sql::{AggregateCall, AggregateFunction, ErrorKind as SqlErrorKind, Parameter, SqlError};
use swiftwater_store::{OFFSET_COLUMN, TIME_COLUMN};

use super::{
    Search, Target,
    condition::identifier,
    costs::Costs,
    counts::{bucket_source, facet_source},
    request::{AggregateRequest, FacetRequest, HistogramRequest, RangeRequest, SearchAnswer},
};

/// Aggregates of one facet, range parameter or histogram.
const AGGREGATES_MAX: usize = 32;

/// The aggregates of one part of the answer.
struct Calls<'r> {
    requests: &'r [AggregateRequest],
    calls: Vec<AggregateCall>,
}

impl<'r> Calls<'r> {
    fn read(requests: &'r [AggregateRequest]) -> Result<Calls<'r>, SqlError> {
        if requests.len() > AGGREGATES_MAX {
            let message =
                format!("{} aggregates are asked for; the most are {AGGREGATES_MAX}", requests.len());
            return Err(SqlError::new(SqlErrorKind::Limit, message));
        }
        let read = |request: &AggregateRequest| {
            AggregateCall::parse(&request.expression).map_err(|error| {
                let hint = error.hint().map(str::to_owned);
                let message = format!("the aggregate `{}` cannot be read: {error}", request.name);
                let error = SqlError::new(SqlErrorKind::Invalid, message);
                match hint {
                    Some(hint) => error.with_hint(hint),
                    None => error,
                }
            })
        };
        Ok(Calls { requests, calls: requests.iter().map(read).collect::<Result<_, _>>()? })
    }

    /// The columns of a source that the aggregates are computed from.
    fn arguments(&self, place: usize) -> String {
        let mut text = format!(", {TIME_COLUMN} AS t, {place} AS s, {OFFSET_COLUMN} AS o");
        for (number, call) in self.calls.iter().enumerate() {
            let argument = call.argument.as_deref().unwrap_or("1");
            text += &format!(", ({argument}) AS a{number}");
        }
        text
    }

    /// The aggregates as columns, of the rows that satisfy a condition if there is one.
    fn columns(&self, prefix: &str, condition: Option<&str>) -> String {
        let filter = condition.map_or(String::new(), |condition| format!(" FILTER (WHERE {condition})"));
        let columns = self.calls.iter().enumerate().map(|(number, call)| {
            let aggregate = match call.function {
                AggregateFunction::First => format!("first_value(a{number} ORDER BY t, s, o)"),
                function => format!("{}(a{number})", function.name()),
            };
            format!(", {aggregate}{filter} AS {prefix}x{number}")
        });
        columns.collect()
    }

    /// The names and values of the aggregates of a row.
    fn of_row(&self, row: &Value, prefix: &str) -> Vec<(String, String)> {
        let value = |(number, request): (usize, &AggregateRequest)| {
            (request.name.clone(), row[format!("{prefix}x{number}")].to_string())
        };
        self.requests.iter().enumerate().map(value).collect()
    }
}

impl Search<'_> {
    /// Adds the aggregates to the counts of the answer.
    pub(super) async fn aggregates(
        &self,
        targets: &[Target],
        interval: i64,
        answer: &mut SearchAnswer,
        costs: &mut Costs,
    ) -> Result<(), SqlError> {
        for (place, facet) in self.request.facets.iter().enumerate() {
            if !facet.aggregates.is_empty() {
                self.facet_aggregates(targets, (place, facet), answer, costs).await?;
            }
        }
        for (place, range) in self.request.ranges.iter().enumerate() {
            if !range.aggregates.is_empty() {
                self.range_aggregates(targets, (place, range), answer, costs).await?;
            }
        }
        if let Some(histogram) = &self.request.histogram
            && !histogram.aggregates.is_empty()
        {
            self.bucket_aggregates(targets, (histogram, interval), answer, costs).await?;
        }
        Ok(())
    }

    async fn facet_aggregates(
        &self,
        targets: &[Target],
        (place, facet): (usize, &FacetRequest),
        answer: &mut SearchAnswer,
        costs: &mut Costs,
    ) -> Result<(), SqlError> {
        let calls = Calls::read(&facet.aggregates)?;
        let order = match &facet.order {
            None => None,
            Some((name, descending)) => {
                let number = facet.aggregates.iter().position(|aggregate| aggregate.name == *name);
                let number = number.ok_or_else(|| unknown_order(name, &facet.aggregates))?;
                Some((number, if *descending { "DESC" } else { "ASC" }))
            }
        };
        let without = self.request.sideways.then_some(&*facet.column);
        let (mut sources, mut parameters) = (Vec::new(), Vec::new());
        for (stream, target) in targets.iter().enumerate() {
            let (condition, of) = self.condition(target, &(0..target.position), without)?;
            sources.push(facet_source(target, facet, &condition, &calls.arguments(stream))?);
            parameters = of;
        }
        let order = order.map_or(String::new(), |(number, order)| {
            format!(" ORDER BY x{number} {order} NULLS LAST, value")
        });
        let text = format!(
            "SELECT value{} FROM ({}) GROUP BY value{order}",
            calls.columns("", None),
            sources.join(" UNION ALL ")
        );
        let rows = self.aggregated("facets", text, parameters, costs).await?;
        let values = &mut answer.facets[place].values;
        let ranks: HashMap<String, usize> =
            rows.iter().enumerate().map(|(rank, row)| (row["value"].to_string(), rank)).collect();
        if facet.order.is_some() {
            values.sort_by_key(|value| ranks.get(&value.value).copied().unwrap_or(usize::MAX));
        }
        values.truncate(facet.limit);
        for value in values {
            if let Some(rank) = ranks.get(&value.value) {
                value.aggregates = calls.of_row(&rows[*rank], "");
            }
        }
        Ok(())
    }

    async fn range_aggregates(
        &self,
        targets: &[Target],
        (place, range): (usize, &RangeRequest),
        answer: &mut SearchAnswer,
        costs: &mut Costs,
    ) -> Result<(), SqlError> {
        let calls = Calls::read(&range.aggregates)?;
        let column = identifier(&range.column);
        let (mut sources, mut parameters) = (Vec::new(), Vec::new());
        for (stream, target) in targets.iter().enumerate() {
            let (condition, of) = self.condition(target, &(0..target.position), None)?;
            let name = identifier(target.stored.name.as_str());
            let arguments = calls.arguments(stream);
            sources.push(format!("SELECT {column} AS v{arguments} FROM {name} WHERE {condition}"));
            parameters = of;
        }
        let Some(first) = targets.first() else { return Ok(()) };
        let conditions = self.range_conditions(first, range, "v", &mut parameters)?;
        let columns = conditions.iter().enumerate();
        let columns: String =
            columns.map(|(number, within)| calls.columns(&format!("r{number}"), Some(within))).collect();
        let text = format!("SELECT 1 AS one{columns} FROM ({})", sources.join(" UNION ALL "));
        for row in self.aggregated("ranges", text, parameters, costs).await? {
            for (number, range) in answer.ranges[place].1.iter_mut().enumerate() {
                range.aggregates = calls.of_row(&row, &format!("r{number}"));
            }
        }
        Ok(())
    }

    async fn bucket_aggregates(
        &self,
        targets: &[Target],
        (histogram, interval): (&HistogramRequest, i64),
        answer: &mut SearchAnswer,
        costs: &mut Costs,
    ) -> Result<(), SqlError> {
        let calls = Calls::read(&histogram.aggregates)?;
        let (mut sources, mut parameters) = (Vec::new(), Vec::new());
        for (stream, target) in targets.iter().enumerate() {
            let (condition, of) = self.condition(target, &(0..target.position), None)?;
            sources.push(bucket_source(target, histogram, interval, &condition, &calls.arguments(stream)));
            parameters = of;
        }
        let columns = calls.columns("", None);
        let text = format!("SELECT bucket{columns} FROM ({}) GROUP BY bucket", sources.join(" UNION ALL "));
        let rows = self.aggregated("histogram", text, parameters, costs).await?;
        let by_number: HashMap<i64, &Value> =
            rows.iter().filter_map(|row| Some((row["bucket"].as_i64()?, row))).collect();
        for bucket in answer.histogram.iter_mut().flatten() {
            if let Some(row) = by_number.get(&(bucket.start_micros.div_euclid(interval))) {
                bucket.aggregates = calls.of_row(row, "");
            }
        }
        Ok(())
    }

    /// The rows of a statement with aggregates. Its text is not the caller's, so errors have no places.
    async fn aggregated(
        &self,
        stage: &'static str,
        text: String,
        parameters: Vec<Parameter>,
        costs: &mut Costs,
    ) -> Result<Vec<Value>, SqlError> {
        self.rows((stage, None), (text, parameters), costs).await.map_err(|error| match error.kind() {
            SqlErrorKind::Invalid => {
                let message = format!("the aggregates of the {stage} cannot be computed: {error}");
                let hint = error.hint().unwrap_or("Expressions have columns of the stream.").to_owned();
                SqlError::new(SqlErrorKind::Invalid, message).with_hint(hint)
            }
            _ => error,
        })
    }
}

fn unknown_order(name: &str, aggregates: &[AggregateRequest]) -> SqlError {
    let names: Vec<&str> = aggregates.iter().map(|aggregate| &*aggregate.name).collect();
    let error =
        SqlError::new(SqlErrorKind::Invalid, format!("a facet has no aggregate `{name}` to be ordered by"));
    error.with_hint(format!("Aggregates are: {}.", names.join(", ")))
}

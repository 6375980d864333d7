//! Describes the columns of the events that match: how many have each, how many different values it has, and the most frequent.
//!
//! Different values are counted by sketches, in one pass over the columns. They are exact up to [`EXACT_VALUES`] values, and
//! estimates beyond. Lists, maps and structs are only counted. Limits: `search.facet_values_max` values, [`COLUMNS_MAX`].

use arrow_schema::DataType;
use serde_json::Value;
use swiftwater_sql::{ErrorKind as SqlErrorKind, SqlError, type_name};
use swiftwater_text::SearchField;

use super::{
    Search, Target,
    condition::{field, identifier},
    costs::Costs,
    request::{SearchAnswer, ValueCount},
};

/// Columns of one request.
pub(super) const COLUMNS_MAX: usize = 1000;
/// Columns of one statement: each has sketches in memory.
const COLUMNS_AT_ONCE: usize = 16;
/// Different values up to which the sketches of both numbers are exact.
const EXACT_VALUES: u64 = 768;

/// A column of the events that match.
#[derive(Debug, Clone)]
pub struct FieldSummary {
    /// Its name.
    pub column: String,
    /// Its type, as in DDL.
    pub ty: String,
    /// Events with a value.
    pub count: u64,
    /// Different values, unless they are lists, maps or structs.
    pub distinct: Option<u64>,
    /// True if `distinct` and the counts of `values` are exact; else they are estimates.
    pub is_exact: bool,
    /// The most frequent values.
    pub values: Vec<ValueCount>,
}

/// The columns of the events that match.
#[derive(Debug, Clone, Default)]
pub struct FieldsAnswer {
    /// The columns, in the order of the table or of the request.
    pub fields: Vec<FieldSummary>,
    /// The rest of the answer, without hits.
    pub answer: SearchAnswer,
}

impl Search<'_> {
    /// Summarizes the columns of a stream, with so many values of each.
    pub(super) async fn fields(
        &self,
        target: &Target,
        values: usize,
        costs: &mut Costs,
    ) -> Result<(Vec<FieldSummary>, u64), SqlError> {
        let columns: Vec<&SearchField> = match &self.request.columns {
            Some(names) => names.iter().map(|name| field(target, name)).collect::<Result<_, _>>()?,
            None => target.fields.iter().collect(),
        };
        if columns.len() > COLUMNS_MAX {
            let message = format!("{} columns are asked for; the most are {COLUMNS_MAX}", columns.len());
            let error = SqlError::new(SqlErrorKind::Limit, message);
            return Err(error.with_hint("Name some of them: columns=level,host."));
        }
        self.check_values(values, "")?;
        let (condition, parameters) = self.condition(target, &(0..target.position), None)?;
        let stream = identifier(target.stored.name.as_str());
        let (mut summaries, mut total) = (Vec::with_capacity(columns.len()), 0);
        for some in columns.chunks(COLUMNS_AT_ONCE) {
            let selected: String =
                some.iter().enumerate().map(|(number, field)| aggregates_of(number, field, values)).collect();
            let text = format!("SELECT count(*) AS n{selected} FROM {stream} WHERE {condition}");
            let rows = self.rows(("fields", Some(0)), (text, parameters.clone()), costs).await?;
            let row = rows.into_iter().next().unwrap_or_default();
            total = row["n"].as_u64().unwrap_or(0);
            summaries.extend(some.iter().enumerate().map(|(number, field)| summary(number, field, &row)));
        }
        Ok((summaries, total))
    }
}

fn aggregates_of(number: usize, field: &SearchField, values: usize) -> String {
    let column = identifier(&field.name);
    let count = format!(", count({column}) AS c{number}");
    if field.ty.is_nested() {
        return count;
    }
    let distinct = format!(", approx_count_distinct_theta({column}) AS d{number}");
    match values {
        0 => count + &distinct,
        values => format!("{count}{distinct}, approx_top_k({column}, {values}) AS v{number}"),
    }
}

fn summary(number: usize, field: &SearchField, row: &Value) -> FieldSummary {
    let distinct = row[format!("d{number}")].as_u64();
    let values = row[format!("v{number}")].as_array().map_or(&[][..], Vec::as_slice);
    let values = values.iter().map(|item| ValueCount {
        value: item["value"].to_string(),
        count: item["count"].as_u64().unwrap_or(0),
        aggregates: Vec::new(),
    });
    let ty = match &field.ty {
        _ if field.is_json => "JSON".to_owned(),
        DataType::Null => "NULL".to_owned(),
        ty => type_name(ty),
    };
    FieldSummary {
        column: field.name.to_string(),
        ty,
        count: row[format!("c{number}")].as_u64().unwrap_or(0),
        distinct,
        is_exact: distinct.is_none_or(|distinct| distinct <= EXACT_VALUES),
        values: values.collect(),
    }
}

//! The conditions of a search as SQL.

use std::ops::Range;

use arrow_schema::DataType;
use swiftwater_sql::{ErrorKind as SqlErrorKind, Parameter, SqlError};
use swiftwater_store::{OFFSET_COLUMN, TIME_COLUMN};
use swiftwater_text::SearchField;

use super::{Search, Target, request::Drill};

impl Search<'_> {
    /// The condition that matching rows between two offsets satisfy, with the values of its parameters; without the drills
    /// on one column.
    pub(super) fn condition(
        &self,
        target: &Target,
        offsets: &Range<u64>,
        without: Option<&str>,
    ) -> Result<(String, Vec<Parameter>), SqlError> {
        let (mut text, parameters) = self.times_condition(offsets);
        let mut drilled: Vec<&str> = Vec::new();
        for Drill { column, .. } in &self.request.drills {
            if !drilled.contains(&&**column) && without != Some(column) {
                drilled.push(column);
                text += &format!(" AND ({})", self.drills_on(target, column)?);
            }
        }
        if !target.search.is_everything() {
            text += &format!(" AND search_at({})", self.search_arguments(target));
        }
        Ok((text, parameters))
    }

    /// The condition of rows between two offsets and in the time of the search.
    pub(super) fn times_condition(&self, offsets: &Range<u64>) -> (String, Vec<Parameter>) {
        let mut text = format!("{OFFSET_COLUMN} < {}", offsets.end);
        if offsets.start > 0 {
            text += &format!(" AND {OFFSET_COLUMN} >= {}", offsets.start);
        }
        let mut parameters = Vec::new();
        let time = identifier(self.request.time.as_deref().unwrap_or(TIME_COLUMN));
        for (operator, bound) in [(">=", self.moments.from), ("<", self.moments.to)] {
            if let Some(micros) = bound {
                parameters.push(Parameter::Timestamp { micros, is_utc: true });
                text += &format!(" AND {time} {operator} ${}", parameters.len());
            }
        }
        (text, parameters)
    }

    /// One of the paths of a column holds.
    fn drills_on(&self, target: &Target, column: &str) -> Result<String, SqlError> {
        let field = field(target, column)?;
        let name = identifier(column);
        let paths = self.request.drills.iter().filter(|drill| drill.column == column);
        let conditions = paths.map(|Drill { path, .. }| {
            let (value, below) = (literal(path), literal(&format!("{path}/")));
            match &field.ty {
                DataType::Utf8View | DataType::Utf8 | DataType::LargeUtf8 => {
                    format!("{name} = {value} OR starts_with({name}, {below})")
                }
                DataType::List(_) => format!("array_has({name}, {value})"),
                _ => format!("CAST({name} AS VARCHAR) = {value}"),
            }
        });
        Ok(conditions.collect::<Vec<_>>().join(" OR "))
    }
}

/// A column of a stream, or that there is none.
pub(super) fn field<'t>(target: &'t Target, column: &str) -> Result<&'t SearchField, SqlError> {
    target.fields.iter().find(|field| *field.name == *column).ok_or_else(|| {
        let names = target.fields.iter().map(|field| &*field.name);
        let near = swiftwater_event::did_you_mean(column, names);
        let message = format!("stream `{}` has no column `{column}`", target.stored.name);
        let error = SqlError::new(SqlErrorKind::Invalid, message);
        match near {
            Some(near) => error.with_hint(format!("Did you mean `{near}`?")),
            None => error,
        }
    })
}

/// A name in quotation marks.
pub(super) fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A text in quotation marks.
pub(super) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

//! The errors of statements: what was attempted, the place in the text, and the remedy.
//!
//! DataFusion reports most errors as prose. This module maps them to a few kinds on which a caller acts. It takes the
//! place from a span, or from the end of the message, wherever DataFusion left it.

use std::error::Error as StdError;
use std::fmt;

use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use datafusion::common::{DataFusionError, SchemaError};
use datafusion::sql::sqlparser::parser::ParserError;

use crate::text::NESTING_MAX;
use crate::type_name;
use crate::words::in_sql;

/// Coarse kinds of errors: one exists where a caller would act differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The statement is wrong, or what it computes cannot be had (a division by zero, a cast that fails).
    Invalid,
    /// A named object does not exist.
    NotFound,
    /// The object to create exists already, or was changed meanwhile.
    Conflict,
    /// Storage cannot be reached or fails; the same statement may work later.
    Unavailable,
    /// A limit was exceeded: memory, duration, rows, statements at once.
    Limit,
    /// Stored data is damaged.
    Corrupt,
    /// A fault of the program.
    Internal,
}

/// A place in the text of the statements: line and column, both from 1, columns in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The line, from 1.
    pub line: u64,
    /// The column, from 1, in characters.
    pub column: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// The reason why a statement did not run, or not to its end.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct SqlError {
    kind: ErrorKind,
    message: String,
    place: Option<Place>,
    hint: Option<String>,
    /// SQLSTATE, if it is more specific than the kind.
    state: Option<&'static str>,
    #[source]
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl SqlError {
    /// An error without a place or a hint; see [`SqlError::at`] and [`SqlError::with_hint`].
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> SqlError {
        SqlError { kind, message: message.into(), place: None, hint: None, state: None, source: None }
    }

    /// SQLSTATE: five characters, of which programs of other databases know what they mean.
    pub fn state(&self) -> &'static str {
        self.state.unwrap_or(match self.kind {
            ErrorKind::Invalid => state::SYNTAX,
            ErrorKind::NotFound => state::NO_TABLE,
            ErrorKind::Conflict => state::TABLE_EXISTS,
            ErrorKind::Unavailable => state::UNAVAILABLE,
            ErrorKind::Limit => state::LIMIT,
            ErrorKind::Corrupt => state::CORRUPT,
            ErrorKind::Internal => state::INTERNAL,
        })
    }

    /// The coarse kind, on which the caller may act.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The place of the fault in the text, if known.
    pub fn place(&self) -> Option<Place> {
        self.place
    }

    /// The advice to the user.
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// The same error at a place; one that it has already stays.
    pub fn at(mut self, place: Option<Place>) -> SqlError {
        self.place = self.place.or(place);
        self
    }

    /// The same error with a hint.
    pub fn with_hint(mut self, hint: impl Into<String>) -> SqlError {
        self.hint = Some(hint.into());
        self
    }

    /// The same error with an SQLSTATE of its own.
    pub fn with_state(mut self, state: &'static str) -> SqlError {
        self.state = Some(state);
        self
    }

    /// The same error with what caused it.
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> SqlError {
        self.source = Some(source.into());
        self
    }

    /// Returns true if a file of a table was gone when it was read: another snapshot of the table does not have it.
    pub fn is_of_missing_file(&self) -> bool {
        let mut next: Option<&(dyn StdError + 'static)> =
            self.source.as_deref().map(|source| source as &(dyn StdError + 'static));
        while let Some(error) = next {
            if let Some(error) = error.downcast_ref::<datafusion::object_store::Error>() {
                return matches!(error, datafusion::object_store::Error::NotFound { .. });
            }
            next = error.source();
        }
        false
    }

    pub(crate) fn invalid(message: impl Into<String>) -> SqlError {
        SqlError::new(ErrorKind::Invalid, message)
    }

    pub(crate) fn internal(message: impl Into<String>) -> SqlError {
        SqlError::new(ErrorKind::Internal, message)
    }

    /// Returns true if a query met its memory limit: it may be tried again with operators that spill.
    pub(crate) fn is_out_of_memory(error: &DataFusionError) -> bool {
        matches!(error.find_root(), DataFusionError::ResourcesExhausted(_))
    }
}

/// Converts the error so that a [`Tables`](crate::Tables) can return it through DataFusion unchanged.
impl From<SqlError> for DataFusionError {
    fn from(error: SqlError) -> DataFusionError {
        DataFusionError::External(Box::new(error))
    }
}

impl From<DataFusionError> for SqlError {
    fn from(error: DataFusionError) -> SqlError {
        let error = match unwrap_own(error) {
            Ok(own) => return own,
            Err(error) => error,
        };
        let place = place_of(&error);
        let (kind, message, hint) = describe(&error);
        let state = state_of(&error, &message);
        SqlError { kind, message, place, hint, state, source: Some(Box::new(error)) }
    }
}

/// The error of ours that DataFusion carried, unchanged, where it can be moved out.
fn unwrap_own(error: DataFusionError) -> Result<SqlError, DataFusionError> {
    match error {
        DataFusionError::External(source) => match source.downcast::<SqlError>() {
            Ok(own) => Ok(*own),
            Err(source) => match source.downcast::<DataFusionError>() {
                Ok(inner) => unwrap_own(*inner),
                Err(source) => Err(DataFusionError::External(source)),
            },
        },
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner)
            if own_of(&inner).is_some() =>
        {
            unwrap_own(*inner)
        }
        DataFusionError::Shared(shared) => match own_of(&shared) {
            // It cannot be moved out of what others hold too, so what matters of it is copied.
            Some(own) => Ok(SqlError {
                kind: own.kind,
                message: own.message.clone(),
                place: own.place,
                hint: own.hint.clone(),
                state: own.state,
                source: None,
            }),
            None => Err(DataFusionError::Shared(shared)),
        },
        other => Err(other),
    }
}

fn own_of(error: &DataFusionError) -> Option<&SqlError> {
    match error.find_root() {
        DataFusionError::External(source) => source.downcast_ref::<SqlError>(),
        _ => None,
    }
}

fn describe(error: &DataFusionError) -> (ErrorKind, String, Option<String>) {
    let root = error.find_root();
    if let Some((message, hint)) = passed(&root.to_string()) {
        tracing::warn!(why = %message, hint, "a statement was ended");
        return (ErrorKind::Limit, message, Some(hint.to_owned()));
    }
    let hint = error
        .diagnostic()
        .and_then(|diagnostic| diagnostic.helps.first())
        .map(|help| sentence(&help.message));
    match root {
        DataFusionError::SQL(parser, _) => {
            let message = parser_message(parser);
            let begins_none = message.starts_with("expected: an SQL statement");
            let kind = match **parser {
                ParserError::RecursionLimitExceeded => ErrorKind::Limit,
                _ => ErrorKind::Invalid,
            };
            (kind, message, hint.or(begins_none.then(|| STATEMENTS.to_owned())))
        }
        DataFusionError::SchemaError(schema, _) => schema_message(schema, hint),
        DataFusionError::Plan(message) if let Some((call, taken)) = mistyped_call(message) => (
            ErrorKind::Invalid,
            format!("no function `{call}`"),
            Some(format!("Cast its arguments; it takes {taken}.")),
        ),
        DataFusionError::Plan(message) if let Some(operation) = of_intervals(message) => {
            let hint = "To convert seconds to a duration, write arrow_cast(seconds * 1000000, \
                        'Duration(Microsecond)').";
            (ErrorKind::Invalid, format!("`{operation}` is not supported"), Some(hint.to_owned()))
        }
        DataFusionError::Plan(message) if is_of_a_stream(message) => (
            ErrorKind::Invalid,
            "`STREAM(…)` is for live queries and views".to_owned(),
            Some("SQL reads the stored events of a stream by its name: FROM name.".to_owned()),
        ),
        DataFusionError::Plan(message) if let Some(name) = without_over(message) => {
            let hint = format!("Write its window: {name}(…) OVER (ORDER BY …).");
            (ErrorKind::Invalid, format!("`{name}` needs OVER"), Some(hint))
        }
        DataFusionError::Plan(message) if let Some(what) = not_shown(message) => {
            let what = what.to_uppercase();
            let message = format!("there is no SHOW {what}");
            let plural = format!("{what}S");
            let is_of_several = SHOWN.split([' ', ',', ';']).any(|word| word == plural);
            let hint = if is_of_several { format!("Write SHOW {plural}.") } else { SHOWN.to_owned() };
            (ErrorKind::Invalid, message, Some(hint))
        }
        DataFusionError::Plan(message) if let Some((one, other)) = of_one_name(message) => {
            let message = format!("columns {one} and {other} have the same name");
            (ErrorKind::Invalid, message, Some("Give one of them another: … AS name.".to_owned()))
        }
        DataFusionError::Plan(message) | DataFusionError::Configuration(message) => {
            let (message, guess) = message.split_once("\nDid you mean").unwrap_or((message, ""));
            let hint = match guess {
                "" => hint,
                guess => Some(format!("Did you mean{guess}")),
            };
            (ErrorKind::Invalid, plain(message), hint)
        }
        DataFusionError::NotImplemented(message) if is_of_an_outer_query(message) => {
            let message = "not supported: a subquery that uses columns of the outer query in this way";
            let hint = "Compare them with `=` in its WHERE, or write a join and GROUP BY.";
            (ErrorKind::Invalid, message.to_owned(), Some(hint.to_owned()))
        }
        DataFusionError::NotImplemented(message) => {
            (ErrorKind::Invalid, format!("not supported: {}", plain(message)), hint)
        }
        DataFusionError::ArrowError(arrow, _) if is_of_storage(&**arrow) => {
            (ErrorKind::Unavailable, format!("storage failed: {}", plain(&arrow.to_string())), hint)
        }
        DataFusionError::ArrowError(arrow, _) => {
            let message = arrow.to_string();
            (ErrorKind::Invalid, uncast(&message).unwrap_or_else(|| plain(&message)), hint)
        }
        DataFusionError::Execution(message) => (ErrorKind::Invalid, plain(message), hint),
        DataFusionError::ResourcesExhausted(message) => {
            (ErrorKind::Limit, format!("the statement exceeds a limit: {}", plain(message)), hint)
        }
        DataFusionError::ObjectStore(_) | DataFusionError::IoError(_) => {
            (ErrorKind::Unavailable, format!("storage failed: {}", plain(&root.to_string())), hint)
        }
        DataFusionError::ParquetError(parquet)
            if is_of_storage(&**parquet) || is_unfetched(&parquet.to_string()) =>
        {
            (ErrorKind::Unavailable, format!("storage failed: {}", plain(&parquet.to_string())), hint)
        }
        DataFusionError::ParquetError(parquet) => (
            ErrorKind::Corrupt,
            format!("a stored file cannot be read: {}", plain(&parquet.to_string())),
            hint,
        ),
        // Tables give errors of ours. Others come from what functions are made of: a pattern that cannot be read.
        DataFusionError::External(source) if !is_of_storage(&**source) => {
            (ErrorKind::Invalid, plain(&source.to_string()), hint)
        }
        DataFusionError::External(source) => (ErrorKind::Unavailable, plain(&source.to_string()), hint),
        // A file that COPY wrote could not be finished, of which it drops the cause.
        DataFusionError::Internal(message) if message.contains("ObjectStore") => {
            (ErrorKind::Unavailable, format!("storage failed: {}", plain(message)), hint)
        }
        // DataFusion reports a misuse of a function, as `max` of maps, as an internal error of its own. It is the statement
        // that can be changed; who runs the server sees the whole text.
        DataFusionError::Internal(message) => {
            tracing::warn!(why = %message, "DataFusion cannot run a statement");
            (ErrorKind::Invalid, format!("not supported: {}", shortened(&plain(message))), hint)
        }
        other => (ErrorKind::Internal, plain(&other.strip_backtrace()), hint),
    }
}

/// For a call that matches no signature: the call by its types, and the signatures.
fn mistyped_call(message: &str) -> Option<(String, String)> {
    let (_, rest) = message.split_once("No function matches the given name and argument types '")?;
    let (call, rest) = rest.split_once('\'')?;
    let (_, candidates) = rest.split_once("Candidate functions:")?;
    let candidates: Vec<&str> = candidates.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    Some((in_sql(call), in_sql(&candidates.join(", "))))
}

/// The multiplication or division of an interval that a statement asks for, by types.
fn of_intervals(message: &str) -> Option<String> {
    let (_, rest) = message.split_once("Cannot get result type for temporal operation ")?;
    let (operation, _) = rest.split_once(": ")?;
    Some(in_sql(operation)).filter(|operation| operation.contains("INTERVAL"))
}

/// The functions that DataFusion has over windows only.
const OVER_WINDOWS: [&str; 8] =
    ["row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile", "lag", "lead"];

/// The function that was called without a window, if it is one that needs it.
fn without_over(message: &str) -> Option<&'static str> {
    let (_, rest) = message.split_once("Invalid function '")?;
    let (name, _) = rest.split_once('\'')?;
    OVER_WINDOWS.into_iter().find(|known| known.eq_ignore_ascii_case(name))
}

/// Returns true if a subquery was left that could not be made a join.
fn is_of_an_outer_query(message: &str) -> bool {
    let names = ["ScalarSubquery(", "Exists(", "InSubquery(", "OuterReferenceColumn("];
    let rest = message.split_once("Physical plan does not support logical expression ");
    rest.is_some_and(|(_, expr)| names.iter().any(|name| expr.starts_with(name)))
}

/// Returns true if a query asks for future events, as live queries do.
fn is_of_a_stream(message: &str) -> bool {
    message.to_ascii_lowercase().contains("table function 'stream' not found")
}

/// The name that SHOW does not know.
fn not_shown(message: &str) -> Option<&str> {
    let (name, _) = message.split_once("' is not a variable which can be viewed with 'SHOW'")?;
    name.rsplit('\'').next()
}

/// For a SELECT with a repeated name: the columns that have it, from 1.
fn of_one_name(message: &str) -> Option<(usize, usize)> {
    let (_, rest) = message.split_once("require unique expression names")?;
    let mut places = rest.split("\" at position ").skip(1).map(|rest| {
        let end = rest.find(|character: char| !character.is_ascii_digit()).unwrap_or(rest.len());
        rest[..end].parse::<usize>().ok()
    });
    Some((places.next()?? + 1, places.next()?? + 1))
}

/// Arrow's message of a text that is no value of a type, with the type's name in SQL.
fn uncast(message: &str) -> Option<String> {
    let (_, rest) = message.split_once("annot cast string '")?;
    let (text, ty) = rest.rsplit_once("' to value of ")?;
    let ty: DataType = ty.strip_suffix(" type")?.parse().ok()?;
    Some(format!("'{text}' is not a valid {}", type_name(&ty)))
}

/// Returns true if the cause is in storage: a file that cannot be read or written, or an object store.
fn is_of_storage(error: &(dyn StdError + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if error.is::<datafusion::object_store::Error>() {
            return true;
        }
        if let Some(error) = error.downcast_ref::<std::io::Error>() {
            // Malformed content is a fault of the data, not of storage.
            return !matches!(
                error.kind(),
                std::io::ErrorKind::InvalidData | std::io::ErrorKind::UnexpectedEof
            );
        }
        next = error.source();
    }
    false
}

/// Returns true if the end of a Parquet file could not be fetched from the store, which only the error's text says.
fn is_unfetched(message: &str) -> bool {
    message.contains("Failed to fetch metadata for file") && message.contains("Object Store error")
}

/// Characters of a message that may hold the statement's values.
const CHARACTERS_TOLD: usize = 200;

/// The first line, if it is not too long.
fn shortened(message: &str) -> String {
    let line = message.lines().next().unwrap_or_default();
    match line.char_indices().nth(CHARACTERS_TOLD) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

/// SQLSTATEs, as PostgreSQL's documentation lists them (appendix A).
pub mod state {
    pub(crate) const NOT_SUPPORTED: &str = "0A000";
    pub(crate) const OUT_OF_RANGE: &str = "22003";
    pub(crate) const DIVISION_BY_ZERO: &str = "22012";
    /// Others depend on what would be dropped.
    pub const DEPENDED_ON: &str = "2BP01";
    pub(crate) const INVALID_PARAMETER: &str = "22023";
    pub(crate) const INVALID_TEXT: &str = "22P02";
    pub(crate) const BAD_COPY: &str = "22P04";
    /// A null where there cannot be one.
    pub const NOT_NULL: &str = "23502";
    /// A condition does not hold.
    pub const CHECK: &str = "23514";
    pub(crate) const SYNTAX: &str = "42601";
    pub(crate) const AMBIGUOUS_COLUMN: &str = "42702";
    pub(crate) const NO_COLUMN: &str = "42703";
    pub(crate) const UNGROUPED: &str = "42803";
    /// A value of another type.
    pub const TYPE_MISMATCH: &str = "42804";
    pub(crate) const NO_FUNCTION: &str = "42883";
    pub(crate) const NO_TABLE: &str = "42P01";
    pub(crate) const TABLE_EXISTS: &str = "42P07";
    pub(crate) const LIMIT: &str = "53000";
    /// A name or value is longer than allowed.
    pub const TOO_LONG: &str = "54000";
    /// The state of a named object does not allow the statement.
    pub const NOT_NOW: &str = "55000";
    pub(crate) const CANCELLED: &str = "57014";
    /// The server ends.
    pub const SHUTDOWN: &str = "57P01";
    pub(crate) const UNAVAILABLE: &str = "57P03";
    pub(crate) const INTERNAL: &str = "XX000";
    pub(crate) const CORRUPT: &str = "XX001";
}

/// Returns the SQLSTATE if DataFusion's error is more specific than its kind. Only the beginning of the message is
/// compared.
fn state_of(error: &DataFusionError, message: &str) -> Option<&'static str> {
    match error.find_root() {
        DataFusionError::NotImplemented(_) => Some(state::NOT_SUPPORTED),
        DataFusionError::Internal(_) if message.starts_with("not supported") => Some(state::NOT_SUPPORTED),
        DataFusionError::SchemaError(schema, _) => match &**schema {
            SchemaError::FieldNotFound { .. } => Some(state::NO_COLUMN),
            SchemaError::AmbiguousReference { .. } => Some(state::AMBIGUOUS_COLUMN),
            _ => None,
        },
        DataFusionError::ArrowError(arrow, _) => match &**arrow {
            ArrowError::DivideByZero => Some(state::DIVISION_BY_ZERO),
            ArrowError::ArithmeticOverflow(_) => Some(state::OUT_OF_RANGE),
            ArrowError::CastError(_) if message.contains("Can't cast value") => Some(state::OUT_OF_RANGE),
            ArrowError::CastError(_) | ArrowError::ParseError(_) => Some(state::INVALID_TEXT),
            _ => None,
        },
        DataFusionError::Plan(_)
            if message.starts_with("invalid function") || message.starts_with("no function `") =>
        {
            Some(state::NO_FUNCTION)
        }
        DataFusionError::Plan(_) if message.starts_with("cannot coerce") => Some(state::TYPE_MISMATCH),
        _ => None,
    }
}

fn schema_message(error: &SchemaError, hint: Option<String>) -> (ErrorKind, String, Option<String>) {
    match error {
        SchemaError::FieldNotFound { field, valid_fields } => {
            // For a grouped query DataFusion lists the columns of its groups and those of its tables.
            let mut names: Vec<&str> = Vec::new();
            for column in valid_fields {
                if !names.contains(&column.name()) {
                    names.push(column.name());
                }
            }
            let more = names.len().saturating_sub(COLUMNS_TOLD);
            names.truncate(COLUMNS_TOLD);
            let hint = match (names.is_empty(), more) {
                (true, _) => None,
                (false, 0) => Some(format!("Columns are: {}.", names.join(", "))),
                (false, more) => Some(format!("Columns are: {}, and {more} more.", names.join(", "))),
            };
            (ErrorKind::NotFound, format!("no column `{}`", field.quoted_flat_name()), hint)
        }
        // It has its table already: what it is taken for is a selected column of that name.
        SchemaError::AmbiguousReference { field } if field.relation.is_some() => (
            ErrorKind::Invalid,
            format!(
                "column `{}` is ambiguous beside the selected column `{}`",
                field.flat_name(),
                field.name
            ),
            Some(format!("Select that column under a name other than `{}`.", field.name)),
        ),
        SchemaError::AmbiguousReference { field } => (
            ErrorKind::Invalid,
            format!("column `{}` is ambiguous", field.flat_name()),
            Some(hint.unwrap_or_else(|| "Write its table before it: t.column.".to_owned())),
        ),
        SchemaError::DuplicateQualifiedField { qualifier, .. } => (
            ErrorKind::Invalid,
            format!("two tables of the statement are named `{qualifier}`"),
            Some(format!("Use different names: {qualifier} AS a, {qualifier} AS b.")),
        ),
        other => (ErrorKind::Invalid, plain(&other.to_string()), hint),
    }
}

/// The statements that are run here.
pub(crate) const STATEMENTS: &str = "Statements are SELECT, EXPLAIN, SHOW, DESCRIBE, INSERT INTO, INSERT OVERWRITE, \
                                     COPY … TO, and CREATE and DROP of TABLE, STREAM, MATERIALIZED VIEW, JOIN, SINK, \
                                     JOB, ALERT and ENDPOINT.";

/// The objects that SHOW can list.
const SHOWN: &str = "Write SHOW with STREAMS, PARTITIONS, TABLES, VIEWS, JOBS, SINKS, ALERTS, JOINS or ENDPOINTS; SHOW ALL \
                     returns the settings.";

/// Column names that a hint tells; a table may have thousands.
const COLUMNS_TOLD: usize = 40;

fn parser_message(error: &ParserError) -> String {
    match error {
        ParserError::TokenizerError(message) | ParserError::ParserError(message) => {
            let message = plain(message);
            match message.rfind(" at Line: ") {
                Some(end) => message[..end].to_owned(),
                None => message,
            }
        }
        ParserError::RecursionLimitExceeded => {
            format!(
                "the statement is nested too deeply; the limit is {NESTING_MAX}, and a subquery counts two or three"
            )
        }
    }
}

/// A message as ours are: lower case at its beginning, no final stop, no backtrace.
fn plain(message: &str) -> String {
    let mut message = message.split(DataFusionError::BACK_TRACE_SEP).next().unwrap_or_default().trim();
    for prefix in ["Error during planning: ", "Execution error: ", "Arrow error: ", "External error: "] {
        message = message.strip_prefix(prefix).unwrap_or(message);
    }
    // The rest is the parser's tree.
    let message = message.split(" Substring {").next().unwrap_or(message);
    let message = in_sql(message.strip_suffix('.').unwrap_or(message));
    let message = message.strip_prefix("[return_type] ").unwrap_or(&message);
    let mut characters = message.chars();
    match (characters.next(), characters.next()) {
        // `INSERT …` and `NULL` stay as they are.
        (Some(first), Some(second)) if first.is_uppercase() && !second.is_uppercase() => {
            first.to_lowercase().chain(message.chars().skip(1)).collect()
        }
        _ => message.to_owned(),
    }
}

/// Message and hint for a limit of memory or of disk that was exceeded, and by how much. DataFusion lists who holds most of
/// the memory, and says then what was wanted, what is left, and of how much; of disk it names a setting of its own.
fn passed(message: &str) -> Option<(String, &'static str)> {
    if let Some((_, told)) = message.split_once("spilling process has exceeded the allowable limit of ") {
        let limit = told.split(". ").next().unwrap_or(told);
        let message =
            format!("the statements together would spill more than {limit} to disk (`sql.spill_bytes_max`)");
        return Some((message, "Select fewer rows, or raise sql.spill_bytes_max."));
    }
    let (_, told) = message.split_once("Failed to allocate additional ")?;
    let (told, pool) = told.split_once(" for the total memory pool")?;
    let limit = pool.split_once("pool_size: ").and_then(|(_, rest)| rest.split([')', ',']).next());
    let limit = limit.map(|limit| format!(", limit is {limit}")).unwrap_or_default();
    let told = in_words(told).unwrap_or_else(|| told.to_owned());
    let message = format!(
        "the statement exceeds its memory{limit} (`sql.memory_bytes_max`): it requests another {told}"
    );
    Some((message, "Select fewer rows, or raise sql.memory_bytes_max."))
}

/// The memory that an operator requested, its name, its present size and the memory left, from DataFusion's text.
fn in_words(told: &str) -> Option<String> {
    let (wanted, rest) = told.split_once(" for ")?;
    let (operator, rest) = rest.split_once(" with ")?;
    let (held, left) = rest.split_once(" already allocated for this reservation - ")?;
    let left = left.strip_suffix(" remain available")?;
    let purposes = [
        (" to group", ["Aggregate", "Group"].as_slice()),
        (" to join", &["Join", "SMJ"]),
        (" to sort", &["Sort", "TopK", "Merge"]),
        (" to write Parquet", &["Parquet"]),
        (" for a recursive query", &["Recursive"]),
    ];
    let is_meant = |words: &[&str]| words.iter().any(|word| operator.contains(word));
    let purpose = purposes.iter().find(|(_, words)| is_meant(words)).map_or("", |(purpose, _)| purpose);
    Some(format!("{wanted}{purpose} in addition to {held}, and {left} are left"))
}

fn sentence(text: &str) -> String {
    if text.ends_with(['.', '?', '!']) { text.to_owned() } else { format!("{text}.") }
}

/// The place of the fault, as DataFusion or its parser reports it.
fn place_of(error: &DataFusionError) -> Option<Place> {
    if let Some(span) = error.diagnostic().and_then(|diagnostic| diagnostic.span) {
        return Some(Place { line: span.start.line, column: span.start.column });
    }
    match error.find_root() {
        DataFusionError::SQL(parser, _) => match &**parser {
            ParserError::TokenizerError(message) | ParserError::ParserError(message) => place_in(message),
            ParserError::RecursionLimitExceeded => None,
        },
        DataFusionError::SchemaError(schema, _) => match &**schema {
            SchemaError::FieldNotFound { field, .. } | SchemaError::AmbiguousReference { field } => {
                let span = field.spans().first()?;
                Some(Place { line: span.start.line, column: span.start.column })
            }
            _ => None,
        },
        _ => None,
    }
}

/// Reads `… at Line: 3, Column: 14`, as sqlparser ends its messages.
fn place_in(message: &str) -> Option<Place> {
    let (_, tail) = message.rsplit_once("Line: ")?;
    let (line, tail) = tail.split_once(", Column: ")?;
    let column: String = tail.chars().take_while(char::is_ascii_digit).collect();
    let place = Place { line: line.parse().ok()?, column: column.parse().ok()? };
    (place.line > 0).then_some(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn place_is_read_from_the_parsers_message() {
        let message = "Expected: an expression, found: EOF at Line: 3, Column: 14";
        assert_eq!(place_in(message), Some(Place { line: 3, column: 14 }));
        assert_eq!(place_in("no place"), None);
    }

    #[test]
    fn missing_files_are_told_from_other_faults_of_storage() {
        use datafusion::object_store::Error;
        use datafusion::parquet::errors::ParquetError;
        let gone = || Error::NotFound { path: "part-1.parquet".to_owned(), source: "no such file".into() };
        let other = Error::Generic { store: "s3", source: "no answer".into() };
        let by_parquet = ParquetError::External(Box::new(gone()));
        for (error, is_missing) in [
            (DataFusionError::ObjectStore(Box::new(gone())), true),
            (DataFusionError::ParquetError(Box::new(by_parquet)), true),
            (DataFusionError::External(Box::new(gone())), true),
            (DataFusionError::ObjectStore(Box::new(other)), false),
            (DataFusionError::Execution("no file".to_owned()), false),
        ] {
            let text = error.to_string();
            assert_eq!(SqlError::from(error).is_of_missing_file(), is_missing, "{text}");
        }
    }

    #[test]
    fn a_limit_that_was_passed_is_told_with_its_setting_and_how_much() {
        let told = "Resources exhausted: Additional allocation failed for ExternalSorter[0] with top memory consumers (across \
                    reservations) as:\n  a#1 consumed 1 MB.\nError: Failed to allocate additional 64.0 KB for \
                    ExternalSorter[0] with 0.0 B already allocated for this reservation - 12.0 KB remain available for \
                    the total memory pool: track_consumers(inner_pool: fair(pool_size: 1024.0 KB), num_of_top_consumers: 3)";
        let (message, hint) = passed(told).unwrap();
        assert_eq!(
            message,
            "the statement exceeds its memory, limit is 1024.0 KB (`sql.memory_bytes_max`): it requests another 64.0 \
             KB to sort in addition to 0.0 B, and 12.0 KB are left"
        );
        assert!(hint.contains("raise sql.memory_bytes_max"));
        let told = "IO error: The used disk space during the spilling process has exceeded the allowable limit of 2.0 MB. \
                    Please try increasing the config: `datafusion.runtime.max_temp_directory_size`.";
        let (message, hint) = passed(told).unwrap();
        assert_eq!(
            message,
            "the statements together would spill more than 2.0 MB to disk (`sql.spill_bytes_max`)"
        );
        assert!(hint.contains("raise sql.spill_bytes_max"));
        assert_eq!(passed("no such column"), None);
    }

    #[test]
    fn own_errors_come_out_of_datafusion_as_they_went_in() {
        let own = SqlError::new(ErrorKind::Unavailable, "the table cannot be read").with_hint("Wait.");
        let carried = DataFusionError::Context("scan".to_owned(), Box::new(DataFusionError::from(own)));
        let back = SqlError::from(carried);
        assert_eq!(back.kind(), ErrorKind::Unavailable);
        assert_eq!(back.to_string(), "the table cannot be read");
        assert_eq!(back.hint(), Some("Wait."));
    }

    #[test]
    fn what_others_say_is_of_storage_only_if_storage_is_at_the_bottom_of_it() {
        let kind = |error: DataFusionError| SqlError::from(error).kind();
        let away = || std::io::Error::new(std::io::ErrorKind::ConnectionRefused, "refused");
        assert_eq!(kind(DataFusionError::External("no such pattern".into())), ErrorKind::Invalid);
        assert_eq!(kind(DataFusionError::External(Box::new(away()))), ErrorKind::Unavailable);
        let arrow = ArrowError::IoError("reading".to_owned(), away());
        assert_eq!(kind(DataFusionError::ArrowError(Box::new(arrow), None)), ErrorKind::Unavailable);
        let long = format!("{}\nmore", "x".repeat(1000));
        let error = SqlError::from(DataFusionError::Internal(long));
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert_eq!(error.to_string(), format!("not supported: {}…", "x".repeat(CHARACTERS_TOLD)));
    }

    #[test]
    fn messages_are_lower_case_without_a_stop() {
        assert_eq!(plain("Error during planning: No such thing."), "no such thing");
        assert_eq!(plain("INSERT needs a table"), "INSERT needs a table");
    }
}

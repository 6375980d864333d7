//! BQL: text in, plan or errors out.
//!
//! One parser and one planner serve all dialects; a dialect is a small table of settings ([`Dialect`]). This room knows
//! the paths and types of `event`, and nothing of how a plan runs.
//!
//! ```
//! use swiftwater_lang::{Dialect, ParseOptions, parse, plan::Body};
//!
//! let text = "SELECT carrier, COUNT(*) AS n FROM STREAM(flights) WHERE delay > 15 GROUP BY carrier";
//! let statement = parse(text, &ParseOptions::new(Dialect::Native, 0))?;
//! assert!(matches!(statement.query.body, Body::Group(_)));
//!
//! let errors = parse("SELCET * FROM STREAM()", &ParseOptions::new(Dialect::Native, 0)).unwrap_err();
//! assert_eq!(errors.0[0].hint.as_deref(), Some("Did you mean SELECT rather than `SELCET`?"));
//! # Ok::<(), swiftwater_lang::QueryErrors>(())
//! ```

mod column_roles;
mod complete;
pub mod ddl;
mod dialect;
mod error;
mod functions;
mod joined;
pub mod plan;
mod retype;
mod schema;

mod ast;
mod explain;
mod json_form;
mod keyword;
mod lexer;
mod literal;
mod names;
mod numbers;
mod parser;
mod planner;
mod print;
mod query_text;
mod source;

use swiftwater_event::{Millis, StreamName, Type};

pub use column_roles::ColumnRole;
pub use complete::{Completion, Expected, SourceName, Word, complete};
pub use dialect::Dialect;
pub use error::{QueryError, QueryErrors};
pub use functions::{Function, FunctionKind, function, functions};
pub use joined::{Joined, joined_names};
pub use schema::{Schema, SchemaError, TimeBounds};
use source::{Fault, locate};

/// Options of the parser.
#[derive(Debug, Clone, Copy)]
pub struct ParseOptions<'a> {
    /// The dialect of the text.
    pub dialect: Dialect,
    /// Declared types of the stream's fields, where it has any: what the query is checked against.
    pub schema: Option<&'a Schema>,
    /// The known types of the events' fields: values are wanted as these types, and any other field as any type.
    /// Nothing is checked against them. Without them, values are wanted as the schema says.
    pub types: Option<&'a Schema>,
    /// The definitions of the names that [`joined_names`] returns; none if nothing is stored.
    pub joined: Option<&'a [Joined]>,
    /// The values of `$1`, `$2`, …. The text must use each of them.
    pub parameters: &'a [plan::Literal],
    /// True if an aggregate that returns rows returns a list of them as one value: a row by key has no room for others.
    pub lists_rows: bool,
    /// The time that NOW stands for.
    pub now: Millis,
    /// The longest text taken, in bytes.
    pub text_bytes_max: usize,
}

impl ParseOptions<'_> {
    /// The longest text taken unless said otherwise.
    pub const TEXT_BYTES_MAX: usize = 1 << 20;

    /// No schema, and texts of up to [`ParseOptions::TEXT_BYTES_MAX`].
    pub fn new(dialect: Dialect, now: Millis) -> Self {
        ParseOptions {
            dialect,
            schema: None,
            types: None,
            joined: None,
            parameters: &[],
            lists_rows: false,
            now,
            text_bytes_max: ParseOptions::TEXT_BYTES_MAX,
        }
    }
}

/// Reads one statement. Takes time linear in the text (times the depth of its expressions, which is limited), and
/// never panics.
///
/// Errors come all at once for each phase: spelling, then grammar, then the query's structure, then names and types.
pub fn parse(text: &str, options: &ParseOptions<'_>) -> Result<plan::Statement, QueryErrors> {
    check_length(text, options)?;
    parser::parse(text, options.dialect, options.parameters)
        .and_then(|ast| planner::plan(text, &ast, options))
        .map_err(|faults| locate(text, faults, options.dialect))
}

/// Parses as [`parse`] does, and returns the names and types of the columns of the query's records, as far as they are
/// stated: none if they have fields of the events (`*`).
pub fn parse_typed(text: &str, options: &ParseOptions<'_>) -> Result<TypedStatement, QueryErrors> {
    check_length(text, options)?;
    parser::parse(text, options.dialect, options.parameters)
        .and_then(|ast| planner::plan_typed(text, &ast, options))
        .map_err(|faults| locate(text, faults, options.dialect))
}

/// The reason why a valid query may answer less than its author expects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryWarning {
    /// The message, its place and the correct text.
    pub warning: QueryError,
    /// Declared types prove it, whatever the events hold.
    pub is_certain: bool,
}

impl std::fmt::Display for QueryWarning {
    /// Writes one line: `1:34: no recent event has a field `hots`. Did you mean `host`?`
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let (Some(line), Some(column)) = (self.warning.line, self.warning.column) {
            write!(f, "{line}:{column}: ")?;
        }
        f.write_str(&self.warning.message)?;
        match &self.warning.hint {
            Some(hint) => write!(f, ". {hint}"),
            None => Ok(()),
        }
    }
}

/// The most warnings of one query.
const WARNINGS_MAX: usize = 10;

/// The reasons for which a query of the native dialect may match less than its author expects: none for a text that is no
/// query, and none in Bullet's dialect. `seen`: names of fields that recent events of its stream had; empty where these are not
/// known. Takes about the time of [`parse`].
pub fn warnings(text: &str, options: &ParseOptions<'_>, seen: &[&str]) -> Vec<QueryWarning> {
    if check_length(text, options).is_err() || options.dialect != Dialect::Native {
        return Vec::new();
    }
    let Ok(ast) = parser::parse(text, options.dialect, options.parameters) else { return Vec::new() };
    let mut found = planner::find_warnings(&ast, options, seen);
    found.sort_by_key(|(fault, is_certain)| (fault.span.map(|span| span.start), !is_certain));
    found.dedup_by(|one, other| one.0 == other.0);
    found.truncate(WARNINGS_MAX);
    let located = found.into_iter().flat_map(|(fault, is_certain)| {
        let errors = locate(text, vec![fault], options.dialect).0;
        errors.into_iter().map(move |warning| QueryWarning { warning, is_certain })
    });
    located.collect()
}

/// A statement, and the names and types of its columns, where these are known.
pub type TypedStatement = (plan::Statement, Option<Vec<(Box<str>, swiftwater_event::Type)>>);

/// The stream that a query is over, so that what is declared of it can be looked up before the query is planned: `Some(None)`
/// is the default stream; `None` where the text is no query, which [`parse`] then tells.
pub fn stream_of(text: &str, options: &ParseOptions<'_>) -> Option<Option<StreamName>> {
    check_length(text, options).ok()?;
    let statement = parser::parse(text, options.dialect, options.parameters).ok()?;
    let mut query = &statement.query;
    while let ast::Source::Query(inner) = &query.source {
        query = inner;
    }
    match &query.source {
        ast::Source::Stream(stream) => Some(stream.name.clone()),
        ast::Source::Query(_) => None,
    }
}

/// Reads a query in Bullet's older form, a JSON object; see `docs/reference/bullet.md`. The plan is one that BQL could ask for too.
/// Takes time linear in the text (times the depth of its filters, which is limited), and never panics.
///
/// ```
/// use swiftwater_lang::{Dialect, ParseOptions, parse_json};
///
/// let text = r#"{"filters": [{"field": "id", "operation": "==", "values": ["x"]}],
///                "aggregation": {"type": "RAW", "size": 10}, "duration": 30000}"#;
/// let statement = parse_json(text, &ParseOptions::new(Dialect::Native, 0))?;
/// assert_eq!((statement.query.limit, statement.query.duration_ms), (Some(10), Some(30_000)));
/// # Ok::<(), swiftwater_lang::QueryErrors>(())
/// ```
pub fn parse_json(text: &str, options: &ParseOptions<'_>) -> Result<plan::Statement, QueryErrors> {
    check_length(text, options)?;
    let mut statement =
        json_form::parse(text, options).map_err(|faults| locate(text, faults, options.dialect))?;
    if let Some(types) = options.types {
        retype::retype(&mut statement.query, types);
    }
    Ok(statement)
}

/// Reads an expression that stands alone, over the fields of an event.
///
/// ```
/// use swiftwater_lang::{Dialect, ParseOptions, parse_expression};
///
/// let expr = parse_expression("delay > 15 AND carrier IN ('UA', 'AA')", &ParseOptions::new(Dialect::Native, 0))?;
/// assert_eq!(expr.to_string(), "delay > 15 AND carrier IN ('UA', 'AA')");
/// # Ok::<(), swiftwater_lang::QueryErrors>(())
/// ```
pub fn parse_expression(text: &str, options: &ParseOptions<'_>) -> Result<plan::Expr, QueryErrors> {
    typed_expression(text, options, |_, _| Ok(()))
}

/// Parses a condition as [`parse_expression`] does: one whose type is known, and is not BOOLEAN, is refused.
pub fn parse_condition(text: &str, options: &ParseOptions<'_>) -> Result<plan::Expr, QueryErrors> {
    typed_expression(text, options, |node, ty| match ty {
        Some(ty) if *ty != Type::BOOLEAN => {
            Err(vec![Fault::at(node.span, format!("a condition is BOOLEAN, and this is {ty}"))])
        }
        _ => Ok(()),
    })
}

fn typed_expression(
    text: &str,
    options: &ParseOptions<'_>,
    check: impl FnOnce(&ast::Node, Option<&Type>) -> Result<(), Vec<Fault>>,
) -> Result<plan::Expr, QueryErrors> {
    check_length(text, options)?;
    let planned = || {
        let node = parser::parse_expression(text, options.dialect, options.parameters)?;
        let (expr, ty) = planner::plan_expression(&node, options)?;
        check(&node, ty.as_ref())?;
        Ok(expr)
    };
    planned().map_err(|faults| locate(text, faults, options.dialect))
}

/// Parses one statement that declares or asks for streams, views and jobs ([`ddl`]); `None`: it is none of these. The only
/// option that counts is the longest text.
///
/// ```
/// use swiftwater_lang::{Dialect, ParseOptions, ddl::Ddl, parse_ddl};
///
/// let options = ParseOptions::new(Dialect::Native, 0);
/// let text = "CREATE STREAM s (ts TIMESTAMP NOT NULL, n BIGINT CHECK (n >= 0)) WITH (retention = '30 days')";
/// let Some(Ddl::CreateStream(create)) = parse_ddl(text, &options)? else { panic!() };
/// assert_eq!(create.columns[1].ty, swiftwater_event::Type::LONG);
/// assert_eq!(parse_ddl("SELECT 1", &options)?, None);
///
/// let errors = parse_ddl("CREATE STREAM s (n BIGINTT)", &options).unwrap_err();
/// assert_eq!(errors.0[0].hint.as_deref(), Some("Did you mean BIGINT?"));
/// # Ok::<(), swiftwater_lang::QueryErrors>(())
/// ```
pub fn parse_ddl(text: &str, options: &ParseOptions<'_>) -> Result<Option<ddl::Ddl>, QueryErrors> {
    check_length(text, options)?;
    parser::parse_ddl(text, false).map_err(|faults| locate(text, faults, Dialect::Native))
}

/// Parses as [`parse_ddl`] does, for a logged statement: restrictions introduced since then do not apply.
pub fn parse_kept_ddl(text: &str, options: &ParseOptions<'_>) -> Result<Option<ddl::Ddl>, QueryErrors> {
    check_length(text, options)?;
    parser::parse_ddl(text, true).map_err(|faults| locate(text, faults, Dialect::Native))
}

fn check_length(text: &str, options: &ParseOptions<'_>) -> Result<(), QueryErrors> {
    let bytes_max = options.text_bytes_max.min(i32::MAX as usize);
    if text.len() > bytes_max {
        let message = format!("the query has {} bytes, the limit is {bytes_max}", text.len());
        return Err(locate("", vec![Fault::whole(message)], options.dialect));
    }
    Ok(())
}

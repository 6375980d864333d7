//! Answers the queries that PostgreSQL's clients send on connection: session functions, settings and type names.
//!
//! Every client gets these answers, whatever its protocol. Settings are constant and cannot be set. `pg_catalog` contains
//! one table, the empty `pg_extension`: tools query it for extensions that they could use.

use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use datafusion::catalog::{MemTable, MemorySchemaProvider, SchemaProvider};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::execution::{FunctionRegistry, SessionState};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::sql::sqlparser::ast::{
    Expr, Function as SqlFunction, FunctionArguments, Ident, ObjectName, ObjectNamePart, Value, ValueWithSpan,
};
use datafusion::sql::sqlparser::keywords::{
    ALL_KEYWORDS, ALL_KEYWORDS_INDEX, RESERVED_FOR_COLUMN_ALIAS, RESERVED_FOR_IDENTIFIER,
    RESERVED_FOR_TABLE_ALIAS,
};
use datafusion::sql::sqlparser::tokenizer::Span;

use crate::SqlError;
use crate::forms::PgType;
use crate::names::{CATALOG, PG_CATALOG, SCHEMA};

/// The settings by name, in PostgreSQL's spelling.
const SETTINGS: [(&str, &str); 16] = [
    ("server_version", concat!("16.0 (Swiftwater ", env!("CARGO_PKG_VERSION"), ")")),
    ("server_version_num", "160000"),
    ("server_encoding", "UTF8"),
    ("client_encoding", "UTF8"),
    ("DateStyle", "ISO, MDY"),
    ("IntervalStyle", "postgres"),
    ("TimeZone", "UTC"),
    ("integer_datetimes", "on"),
    ("standard_conforming_strings", "on"),
    ("transaction_isolation", "read committed"),
    ("default_transaction_isolation", "read committed"),
    ("transaction_read_only", "off"),
    ("default_transaction_read_only", "off"),
    ("search_path", SCHEMA),
    ("max_identifier_length", "63"),
    ("is_superuser", "on"),
];

/// A setting of PostgreSQL's, whatever the case of its name: the name as it is spelled, and the value.
pub fn postgres_setting(name: &str) -> Option<(&'static str, &'static str)> {
    SETTINGS.into_iter().find(|(known, _)| known.eq_ignore_ascii_case(name))
}

/// A type as PostgreSQL names it in `information_schema`, by what its clients are sent.
pub fn postgres_type_name(ty: &DataType) -> &'static str {
    match PgType::of(ty) {
        PgType::Bool => "boolean",
        PgType::Int2 => "smallint",
        PgType::Int4 => "integer",
        PgType::Int8 => "bigint",
        PgType::Float4 => "real",
        PgType::Float8 => "double precision",
        PgType::Numeric => "numeric",
        PgType::Text => "text",
        PgType::Bytea => "bytea",
        PgType::Date => "date",
        PgType::Time => "time without time zone",
        PgType::Timestamp => "timestamp without time zone",
        PgType::TimestampTz => "timestamp with time zone",
        PgType::Json => "json",
        PgType::BoolArray => "boolean[]",
        PgType::Int2Array => "smallint[]",
        PgType::Int4Array => "integer[]",
        PgType::Int8Array => "bigint[]",
        PgType::Float4Array => "real[]",
        PgType::Float8Array => "double precision[]",
        PgType::NumericArray => "numeric[]",
        PgType::TextArray => "text[]",
        PgType::DateArray => "date[]",
        PgType::TimestampArray => "timestamp without time zone[]",
        PgType::TimestampTzArray => "timestamp with time zone[]",
    }
}

/// The tables of `pg_catalog` that there are.
pub(crate) const PG_CATALOG_TABLES: [&str; 1] = ["pg_extension"];

/// The schema `pg_catalog`.
pub(crate) fn pg_catalog() -> Result<Arc<dyn SchemaProvider>> {
    let text = |name: &str| Field::new(name, DataType::Utf8, true);
    let number = |name: &str| Field::new(name, DataType::Int64, true);
    let extensions = Schema::new(vec![
        number("oid"),
        text("extname"),
        number("extowner"),
        number("extnamespace"),
        Field::new("extrelocatable", DataType::Boolean, true),
        text("extversion"),
    ]);
    let schema = MemorySchemaProvider::new();
    let [name] = PG_CATALOG_TABLES;
    let table = MemTable::try_new(Arc::new(extensions), vec![Vec::new()])?;
    schema.register_table(name.to_owned(), Arc::new(table))?;
    Ok(Arc::new(schema))
}

/// Makes a session know the functions.
pub(crate) fn register(state: &mut SessionState) -> Result<()> {
    for wanted in ALL {
        let signature = Signature::variadic_any(Volatility::Immutable);
        let signature = if wanted.arguments().contains(&0) {
            Signature::nullary(Volatility::Immutable)
        } else {
            signature
        };
        state.register_udf(Arc::new(ScalarUDF::from(PgInfoFunction { wanted, signature })))?;
    }
    Ok(())
}

const ALL: [PgFunction; 13] = [
    PgFunction::ArrayLower,
    PgFunction::ArrayUpper,
    PgFunction::CurrentCatalog,
    PgFunction::CurrentDatabase,
    PgFunction::CurrentSchema,
    PgFunction::CurrentSetting,
    PgFunction::CurrentUser,
    PgFunction::PgBackendPid,
    PgFunction::PgTypeof,
    PgFunction::QuoteIdent,
    PgFunction::SessionUser,
    PgFunction::User,
    PgFunction::Version,
];

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum PgFunction {
    ArrayLower,
    ArrayUpper,
    CurrentCatalog,
    CurrentDatabase,
    CurrentSchema,
    CurrentSetting,
    CurrentUser,
    PgBackendPid,
    PgTypeof,
    QuoteIdent,
    SessionUser,
    User,
    Version,
}

impl PgFunction {
    /// Number of arguments.
    fn arguments(self) -> std::ops::RangeInclusive<usize> {
        match self {
            PgFunction::ArrayLower | PgFunction::ArrayUpper => 2..=2,
            PgFunction::CurrentSetting => 1..=2,
            PgFunction::PgTypeof | PgFunction::QuoteIdent => 1..=1,
            _ => 0..=0,
        }
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct PgInfoFunction {
    wanted: PgFunction,
    signature: Signature,
}

impl ScalarUDFImpl for PgInfoFunction {
    fn name(&self) -> &str {
        match self.wanted {
            PgFunction::ArrayLower => "array_lower",
            PgFunction::ArrayUpper => "array_upper",
            PgFunction::CurrentCatalog => "current_catalog",
            PgFunction::CurrentDatabase => "current_database",
            PgFunction::CurrentSchema => "current_schema",
            PgFunction::CurrentSetting => "current_setting",
            PgFunction::CurrentUser => "current_user",
            PgFunction::PgBackendPid => "pg_backend_pid",
            PgFunction::PgTypeof => "pg_typeof",
            PgFunction::QuoteIdent => "quote_ident",
            PgFunction::SessionUser => "session_user",
            PgFunction::User => "user",
            PgFunction::Version => "version",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        if !self.wanted.arguments().contains(&arguments.len()) {
            return plan_err!("{} does not take {} arguments", self.name(), arguments.len());
        }
        Ok(match self.wanted {
            PgFunction::ArrayLower | PgFunction::ArrayUpper => match arguments {
                [DataType::List(_) | DataType::LargeList(_) | DataType::Null, _] => DataType::Int64,
                _ => return plan_err!("{} takes a list and a dimension", self.name()),
            },
            PgFunction::PgBackendPid => DataType::Int64,
            _ => DataType::Utf8,
        })
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_constant = arguments.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
        let columns = ColumnarValue::values_to_arrays(&arguments.args)?;
        let told: ArrayRef = match (self.wanted, columns.as_slice()) {
            (PgFunction::QuoteIdent, [names]) => {
                let names = cast(names, &DataType::Utf8)?;
                let names = names.as_string::<i32>().iter();
                Arc::new(names.map(|name| name.map(quote_ident)).collect::<StringArray>())
            }
            (PgFunction::CurrentSetting, [names, may_lack @ ..]) => settings(names, may_lack.first())?,
            (PgFunction::ArrayLower, [list, dimension]) => bounds(list, dimension, |_| 1)?,
            (PgFunction::ArrayUpper, [list, dimension]) => bounds(list, dimension, |length| length)?,
            (PgFunction::PgTypeof, [values]) => {
                let name = match values.data_type() {
                    DataType::Null => "unknown",
                    ty => postgres_type_name(ty),
                };
                return Ok(text(name));
            }
            (PgFunction::CurrentSchema, _) => return Ok(text(SCHEMA)),
            (PgFunction::PgBackendPid, _) => Arc::new(Int64Array::from(vec![i64::from(std::process::id())])),
            (PgFunction::Version, _) => {
                let version = SETTINGS[0].1;
                return Ok(text(&format!("PostgreSQL {version}")));
            }
            // The database and the role are named as the only ones there are.
            _ => return Ok(text(CATALOG)),
        };
        Ok(match is_constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&told, 0)?),
            false => ColumnarValue::Array(told),
        })
    }
}

fn text(value: &str) -> ColumnarValue {
    ColumnarValue::Scalar(ScalarValue::from(value))
}

/// The values of settings. One that there is not is an error, or null where it may lack.
fn settings(names: &ArrayRef, may_lack: Option<&ArrayRef>) -> Result<ArrayRef> {
    let names = cast(names, &DataType::Utf8)?;
    let may_lack = may_lack.map(|may| cast(may, &DataType::Boolean)).transpose()?;
    let mut values = Vec::with_capacity(names.len());
    for (row, name) in names.as_string::<i32>().iter().enumerate() {
        let may_lack = may_lack.as_ref().map(|may| may.as_boolean());
        let may_lack = may_lack.is_some_and(|may| may.is_valid(row) && may.value(row));
        values.push(match name.map(|name| (name, postgres_setting(name))) {
            None => None,
            Some((_, Some((_, value)))) => Some(value),
            Some((_, None)) if may_lack => None,
            Some((name, None)) => return plan_err!("no setting `{name}`"),
        });
    }
    Ok(Arc::new(StringArray::from(values)))
}

/// A bound of each list in its first dimension: null where it is empty, or another dimension is meant.
fn bounds(lists: &ArrayRef, dimension: &ArrayRef, bound: fn(i64) -> i64) -> Result<ArrayRef> {
    let dimension = cast(dimension, &DataType::Int64)?;
    let dimension = dimension.as_primitive::<Int64Type>();
    let length = |row: usize| match lists.data_type() {
        _ if lists.is_null(row) => None,
        DataType::List(_) => Some(lists.as_list::<i32>().value_length(row).into()),
        DataType::LargeList(_) => Some(lists.as_list::<i64>().value_length(row)),
        _ => None,
    };
    let bounds = (0..lists.len()).map(|row| {
        let is_first = dimension.is_valid(row) && dimension.value(row) == 1;
        length(row).filter(|length| is_first && *length > 0).map(bound)
    });
    Ok(Arc::new(bounds.collect::<Int64Array>()))
}

/// A name as it is written in a statement: in quotes where PostgreSQL would read another name without, or none.
fn quote_ident(name: &str) -> String {
    let is_plain = name.starts_with(|first: char| first.is_ascii_lowercase() || first == '_')
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if is_plain && !is_reserved(name) {
        return name.to_owned();
    }
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn is_reserved(name: &str) -> bool {
    let Ok(place) = ALL_KEYWORDS.binary_search(&name.to_ascii_uppercase().as_str()) else { return false };
    let keyword = &ALL_KEYWORDS_INDEX[place];
    let lists = [RESERVED_FOR_COLUMN_ALIAS, RESERVED_FOR_IDENTIFIER, RESERVED_FOR_TABLE_ALIAS];
    name == "user" || lists.iter().any(|list| list.contains(keyword))
}

/// Makes of an expression of PostgreSQL's what stands for it here, where it is one.
///
/// A function may have `pg_catalog` in front. Some tools find out if a schema is in the search path by a query that splits the
/// setting's text. Its tables depend on one another, which is not supported here, so the whole query is replaced by its answer.
pub(crate) fn rewrite(expr: &mut Expr) -> ControlFlow<SqlError> {
    match expr {
        Expr::Function(SqlFunction { name, .. }) => {
            if let [ObjectNamePart::Identifier(schema), ObjectNamePart::Identifier(own)] = name.0.as_slice()
                && schema.value.eq_ignore_ascii_case(PG_CATALOG)
            {
                *name = ObjectName::from(vec![own.clone()]);
            }
        }
        Expr::InSubquery { expr: schema, subquery, negated } => {
            let text = subquery.to_string().to_lowercase();
            let asks = ["current_setting('search_path')", "generate_series(", "string_to_array("];
            if asks.iter().all(|part| text.contains(part)) {
                let own = Value::SingleQuotedString(SCHEMA.to_owned());
                let list = vec![Expr::Value(ValueWithSpan { value: own, span: Span::empty() })];
                *expr = Expr::InList { expr: schema.clone(), list, negated: *negated };
            }
        }
        _ => {}
    }
    ControlFlow::Continue(())
}

/// The name of a function that is called without brackets, as `user` is: it may be a column that is meant.
pub(crate) fn without_brackets(expr: &Expr) -> Option<&Ident> {
    match expr {
        Expr::Function(SqlFunction { name, args: FunctionArguments::None, .. }) => match name.0.as_slice() {
            [ObjectNamePart::Identifier(ident)] => Some(ident),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_where_they_have_to_be() {
        for name in ["clicks", "_offset", "a1"] {
            assert_eq!(quote_ident(name), name);
        }
        for (name, quoted) in [
            ("smartHomeData", "\"smartHomeData\""),
            ("1a", "\"1a\""),
            ("a b", "\"a b\""),
            ("a\"b", "\"a\"\"b\""),
            ("order", "\"order\""),
            ("", "\"\""),
        ] {
            assert_eq!(quote_ident(name), quoted);
        }
    }
}

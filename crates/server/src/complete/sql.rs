//! Completion of statements of SQL, and their functions.

use serde_json::{Value, json};
use swiftwater_event::StreamName;
use swiftwater_runtime::{EventPaths, Principal, ScalarValue};
use swiftwater_sql::{
    Dialect, Sql, SqlCompletion, SqlExpected, SqlFunction, SqlFunctionKind, TableKind, complete_sql,
    quote_ident, type_name,
};

use super::{Options, PATHS_MAX, value_text};
use crate::{body::heavy, problem::Problem, server::Shared};

/// One reading of the text is made for each word of the language.
const READINGS: usize = 128;

/// The answer for a place of statements; `cursor` is a byte.
pub(super) async fn answer(shared: &Shared, text: &str, cursor: usize) -> Result<Value, Problem> {
    let sql = &shared.sql.access()?.sql;
    let found = heavy(text.len().saturating_mul(READINGS), || complete_sql(text, cursor, Dialect::Native));
    let mut options = Options::new(&found.typed);
    match &found.expected {
        SqlExpected::Nothing => {}
        SqlExpected::Table => add_tables(sql, &mut options),
        SqlExpected::Value { compared } => {
            add_values(shared, sql, &found, compared.as_deref(), false, &mut options);
            add_columns(sql, &found, None, &mut options).await;
            for function in sql.described_functions() {
                add_function(&function, &mut options);
            }
        }
        SqlExpected::Text { compared } => {
            add_values(shared, sql, &found, compared.as_deref(), true, &mut options);
        }
        SqlExpected::Column(qualifier) => add_columns(sql, &found, Some(qualifier), &mut options).await,
    }
    for word in &found.words {
        options.add("keyword", word, (*word).to_owned(), Value::Null);
    }
    let from = text[..found.from].chars().count();
    let to = text[..cursor].chars().count();
    Ok(json!({"from": from, "to": to, "options": options.sorted(), "more": options.has_more}))
}

/// All functions, for `GET /v1/functions`.
pub(super) fn functions(shared: &Shared) -> Result<Vec<Value>, Problem> {
    let functions = shared.sql.access()?.sql.described_functions();
    let functions = functions.into_iter().map(|function| {
        json!({
            "name": function.name,
            "kind": kind_name(function.kind),
            "signatures": [function.signature],
            "doc": function.doc,
        })
    });
    Ok(functions.collect())
}

fn kind_name(kind: SqlFunctionKind) -> &'static str {
    match kind {
        SqlFunctionKind::Scalar => "scalar",
        SqlFunctionKind::Aggregate => "aggregate",
        SqlFunctionKind::Window => "window",
    }
}

fn add_function(function: &SqlFunction, options: &mut Options<'_>) {
    let kind = match function.kind {
        SqlFunctionKind::Scalar => "function",
        SqlFunctionKind::Aggregate | SqlFunctionKind::Window => "aggregate",
    };
    let more = json!({"detail": function.signature, "doc": function.doc});
    options.add(kind, &function.name, format!("{}(", function.name), more);
}

fn add_tables(sql: &Sql, options: &mut Options<'_>) {
    for (name, kind) in sql.tables().names() {
        let kind = match kind {
            TableKind::Stream => "stream",
            TableKind::View => "view",
            TableKind::Table => "table",
        };
        options.add(kind, &name, quote_ident(&name), Value::Null);
    }
}

/// The columns of the tables that the statement names, or of the one with this name.
async fn add_columns(sql: &Sql, found: &SqlCompletion, qualifier: Option<&str>, options: &mut Options<'_>) {
    for (table, alias) in &found.tables {
        let name = alias.as_deref().unwrap_or(table);
        if qualifier.is_some_and(|wanted| !wanted.eq_ignore_ascii_case(name)) {
            continue;
        }
        // A table that cannot be read now has no columns here.
        let Ok(Some(provider)) = sql.tables().table(table, None).await else { continue };
        for field in provider.schema().fields() {
            let more = json!({"type": type_name(field.data_type()), "detail": format!("of {table}")});
            options.add("column", field.name(), quote_ident(field.name()), more);
        }
    }
}

/// The most frequent values of a column in the newest events of the streams that the statement reads.
fn add_values(
    shared: &Shared,
    sql: &Sql,
    found: &SqlCompletion,
    compared: Option<&str>,
    is_text: bool,
    options: &mut Options<'_>,
) {
    let Some(compared) = compared else { return };
    let names = sql.tables().names();
    for (table, _) in &found.tables {
        let is_stream = |(name, kind): &(String, TableKind)| name == table && *kind == TableKind::Stream;
        let Some(stream) =
            names.iter().find(|name| is_stream(name)).and_then(|_| StreamName::new(table).ok())
        else {
            continue;
        };
        let Ok(recent) = shared.engine.recent_events(&Principal::anonymous(), &stream) else { continue };
        let paths = EventPaths::of(&recent.events, PATHS_MAX).paths;
        let Some(path) = paths.iter().find(|path| path.path.trim_matches('"') == compared) else { continue };
        for (value, share) in &path.top {
            let label = match value {
                ScalarValue::Text(text) => text.clone(),
                _ if is_text => continue,
                value => value_text(value),
            };
            let detail = json!({"detail": format!("{:.1} % of recent values", share * 100.0)});
            options.add("value", &label, value_text(value), detail);
        }
    }
}

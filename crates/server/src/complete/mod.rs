//! `POST /v1/complete`: the words and names that may stand at a place of a query's text; `GET /v1/functions`: the functions.
//!
//! The language says which kind of thing may stand there ([`swiftwater_lang::complete`]); the names of that kind come from
//! what the server has: its streams and views, declared columns, and the newest events with their paths and values.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    http::{StatusCode, Uri},
    response::Response,
};
use serde::Deserialize;
use serde_json::{Value, json};
use swiftwater_event::{StreamName, Type};
use swiftwater_lang::{
    Completion, Dialect, Expected, Function, FunctionKind, Word, complete, functions, plan::Expr,
};
use swiftwater_runtime::{EventPaths, Principal, ScalarValue};
#[cfg(feature = "history")]
use swiftwater_sql::{SqlFunction, SqlFunctionKind, TableKind};

use crate::{
    body::heavy,
    engine::WITHOUT_HISTORY,
    parameters::{Parameters, cut},
    problem::Problem,
    queries::{body_of, check_length},
    query_request::dialect_of,
    server::Shared,
    status::json_response,
};

/// The name of the dialect of stored data.
const SQL: &str = "sql";
/// The most options of an answer; the best come first.
const OPTIONS_MAX: usize = 200;
/// Paths of recent events that are looked at.
const PATHS_MAX: usize = 1000;

const FORM: &str =
    "Write {\"text\": \"SELECT …\", \"cursor\": 7, \"dialect\": \"native\"}; `cursor` counts characters.";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CompletionRequest {
    text: String,
    cursor: i64,
    #[serde(default)]
    dialect: Option<String>,
}

/// `POST /v1/complete`.
pub(crate) async fn options(
    State(shared): State<Arc<Shared>>,
    request: Request,
) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    Parameters::parse(parts.uri.query(), &[])?;
    let body = body_of(&shared, &parts.headers, body).await?;
    let requested: CompletionRequest = serde_json::from_slice(&body)
        .map_err(|error| Problem::bad_request(format!("the body is not a request: {error}")).hint(FORM))?;
    check_length(&shared, &requested.text)?;
    let place = usize::try_from(requested.cursor).ok();
    let Some(cursor) = place.and_then(|place| byte_of(&requested.text, place)) else {
        let characters = requested.text.chars().count();
        let detail = format!("`cursor` is {}, and the text has {characters} characters", requested.cursor);
        return Err(Problem::bad_request(detail).hint(FORM));
    };
    let dialect = requested.dialect.as_deref().map(dialect_of).transpose()?.unwrap_or_default();
    // The parser reads the text some hundred times, and recent events are described.
    let answer = heavy(usize::MAX, || {
        let found = complete(&requested.text, cursor, dialect);
        let from = requested.text[..found.from].chars().count();
        let mut options = Options::new(&found.typed);
        options.add_all(&shared, &found);
        json!({"from": from, "to": requested.cursor, "options": options.sorted(), "more": options.has_more})
    });
    Ok(json_response(StatusCode::OK, &answer))
}

/// `GET /v1/functions`.
pub(crate) async fn functions_list(State(shared): State<Arc<Shared>>, uri: Uri) -> Result<Response, Problem> {
    let parameters = Parameters::parse(uri.query(), &["dialect"])?;
    #[cfg(feature = "history")]
    if parameters.get("dialect") == Some(SQL) {
        let functions = shared.sql.access()?.sql.described_functions();
        let functions: Vec<Value> = functions.iter().map(sql_function_json).collect();
        return Ok(json_response(StatusCode::OK, &json!({"functions": functions})));
    }
    let _ = shared;
    let dialect = parameters.get("dialect").map(dialect_named).transpose()?.unwrap_or_default();
    let functions: Vec<Value> = functions(dialect).map(function_json).collect();
    Ok(json_response(StatusCode::OK, &json!({"functions": functions})))
}

/// The dialect of a name; of SQL where there is none.
fn dialect_named(name: &str) -> Result<Dialect, Problem> {
    match name {
        SQL => Err(Problem::bad_request(WITHOUT_HISTORY)),
        name => dialect_of(name),
    }
}

fn function_json(function: &Function) -> Value {
    let mut json = json!({
        "name": function.name,
        "kind": function.kind.name(),
        "signatures": function.signatures,
        "doc": function.doc,
    });
    if let Some(returns) = function.returns {
        json["returns"] = returns.into();
    }
    json
}

#[cfg(feature = "history")]
fn sql_function_json(function: &SqlFunction) -> Value {
    let kind = match function.kind {
        SqlFunctionKind::Scalar => "scalar",
        SqlFunctionKind::Aggregate => "aggregate",
        SqlFunctionKind::Window => "window",
    };
    json!({"name": function.name, "kind": kind, "signatures": [function.signature], "doc": function.doc})
}

/// The byte at which a character begins, or the end.
fn byte_of(text: &str, characters: usize) -> Option<usize> {
    text.char_indices().map(|(at, _)| at).chain([text.len()]).nth(characters)
}

/// The options found so far, each with its place in the order.
struct Options<'a> {
    typed: &'a str,
    typed_lower: String,
    found: Vec<(Rank, Value)>,
    has_more: bool,
}

/// An option that begins with the typed text comes before one that contains it; then values before names before words; then the order in
/// which they were found.
type Rank = (bool, u8, usize);

impl<'a> Options<'a> {
    fn new(typed: &'a str) -> Options<'a> {
        Options { typed, typed_lower: typed.to_lowercase(), found: Vec::new(), has_more: false }
    }

    fn add(&mut self, kind: &'static str, label: &str, insert: String, more: Value) {
        let group = match kind {
            "value" => 0,
            "alias" => 1,
            "keyword" => 4,
            "function" | "aggregate" | "rows" => 3,
            _ => 2,
        };
        let lower = label.to_lowercase();
        let begins = lower.starts_with(&self.typed_lower);
        // An option that stands there already is none.
        if !(begins || lower.contains(&self.typed_lower)) || insert == self.typed {
            return;
        }
        let mut option = json!({"label": label, "kind": kind, "insert": insert});
        if let (Some(option), Value::Object(more)) = (option.as_object_mut(), more) {
            option.extend(more);
        }
        self.found.push(((!begins, group, self.found.len()), option));
    }

    fn sorted(&mut self) -> Vec<Value> {
        let mut found = std::mem::take(&mut self.found);
        found.sort_by_key(|(rank, _)| *rank);
        self.has_more |= found.len() > OPTIONS_MAX;
        found.into_iter().take(OPTIONS_MAX).map(|(_, option)| option).collect()
    }

    fn add_all(&mut self, shared: &Shared, found: &Completion) {
        match &found.expected {
            Expected::Nothing | Expected::Type | Expected::Unit => {}
            Expected::Stream => self.add_streams(shared),
            Expected::Joined => self.add_joined(shared),
            Expected::Value { compared } => {
                let paths = Fields::of(shared, found);
                paths.add_values(self, compared.as_deref(), false);
                for alias in &found.column_aliases {
                    self.add("alias", alias, name_text(alias), json!({"detail": "a column of this query"}));
                }
                paths.add_paths(self);
            }
            Expected::Text { compared } => {
                Fields::of(shared, found).add_values(self, compared.as_deref(), true);
            }
            Expected::Path => Fields::of(shared, found).add_paths(self),
        }
        for word in &found.words {
            match word {
                Word::Keyword { text, opens } => {
                    let insert = if *opens { format!("{text}(") } else { text.clone() };
                    self.add("keyword", text, insert, Value::Null);
                }
                Word::Function(function) => {
                    let kind = match function.kind {
                        FunctionKind::Scalar => "function",
                        FunctionKind::Aggregate | FunctionKind::Rows => "aggregate",
                    };
                    let detail = function.signatures.join("  ");
                    let mut more = json!({"detail": detail, "doc": function.doc});
                    if let Some(returns) = function.returns {
                        more["type"] = returns.into();
                    }
                    self.add(kind, function.name, format!("{}(", function.name), more);
                }
                Word::Type(name) => self.add("type", name, (*name).to_owned(), Value::Null),
                Word::Unit(name) => self.add("unit", name, (*name).to_owned(), Value::Null),
            }
        }
    }

    fn add_streams(&mut self, shared: &Shared) {
        for (name, _) in shared.engine.event_counts() {
            self.add("stream", name.as_str(), name_text(name.as_str()), Value::Null);
        }
    }

    #[cfg(feature = "history")]
    fn add_joined(&mut self, shared: &Shared) {
        for view in shared.engine.views(&Principal::anonymous()) {
            let detail = format!("view of {}", view.stream);
            self.add("view", &view.name, name_text(&view.name), json!({"detail": detail}));
        }
        if let Some(sql) = &shared.sql.access {
            for (name, kind) in sql.sql.tables().names() {
                if kind == TableKind::Table {
                    self.add("table", &name, name_text(&name), Value::Null);
                }
            }
        }
    }

    #[cfg(not(feature = "history"))]
    fn add_joined(&mut self, _shared: &Shared) {}
}

/// The fields that a query may name.
struct Fields {
    /// The name of the stream in the query, if it has one.
    alias: Option<String>,
    declared: Vec<(Box<str>, Type)>,
    recent: EventPaths,
    /// Columns of what is joined: the name in the query, the column, its type.
    joined: Vec<(String, String, String)>,
}

impl Fields {
    fn of(shared: &Shared, found: &Completion) -> Fields {
        let source = found.sources.iter().find(|source| !source.is_joined);
        let named = source.and_then(|source| source.name.as_deref());
        let stream = match named {
            Some(name) => StreamName::new(name).ok(),
            None => shared.engine.config().default_stream.clone(),
        };
        let recent = |stream| shared.engine.recent_events(&Principal::anonymous(), stream).ok();
        Fields {
            alias: source.and_then(|source| source.alias.clone()),
            declared: stream.as_ref().map(|stream| shared.engine.declared_fields(stream)).unwrap_or_default(),
            recent: stream
                .as_ref()
                .and_then(recent)
                .map(|recent| EventPaths::of(&recent.events, PATHS_MAX))
                .unwrap_or_default(),
            joined: joined_columns(shared, found),
        }
    }

    fn add_paths(&self, options: &mut Options<'_>) {
        // Behind the stream's own name, its paths are written with it.
        let prefix = self
            .alias
            .as_deref()
            .map(|alias| format!("{}.", name_text(alias)))
            .filter(|prefix| options.typed_lower.starts_with(&prefix.to_lowercase()));
        let prefix = prefix.unwrap_or_default();
        for (name, ty) in &self.declared {
            let path = format!("{prefix}{}", name_text(name));
            let detail = json!({"type": ty.to_string(), "detail": "declared"});
            options.add("column", &path, path.clone(), detail);
        }
        let events = self.recent.paths.iter();
        for found in
            events.filter(|found| !self.declared.iter().any(|(name, _)| name_text(name) == found.path))
        {
            let types = found.types.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
            let there = (1.0 - found.missing) * 100.0;
            let mut detail = json!({"type": types, "detail": format!("in {there:.0} % of recent events")});
            if let Some(example) = &found.example {
                detail["doc"] = format!("For example {}", cut(&value_text(example))).into();
            }
            let path = format!("{prefix}{}", found.path);
            options.add("path", &path, path.clone(), detail);
        }
        for (alias, column, ty) in &self.joined {
            let path = format!("{}.{}", name_text(alias), name_text(column));
            options.add("column", &path, path.clone(), json!({"type": ty, "detail": format!("of {alias}")}));
        }
    }

    /// The most frequent values of the path that is compared.
    fn add_values(&self, options: &mut Options<'_>, compared: Option<&str>, is_text: bool) {
        let Some(compared) = compared else { return };
        let alias = self.alias.as_deref().map(|alias| format!("{}.", name_text(alias)));
        let path = alias.and_then(|alias| compared.strip_prefix(&alias)).unwrap_or(compared);
        let Some(found) = self.recent.paths.iter().find(|found| found.path == path) else { return };
        for (value, share) in &found.top {
            let label = match value {
                ScalarValue::Text(text) => text.clone(),
                _ if is_text => continue,
                value => value_text(value),
            };
            let insert = value_text(value);
            let detail = format!("{:.1} % of recent values", share * 100.0);
            options.add("value", &label, insert, json!({"detail": detail}));
        }
    }
}

/// The columns of the views that a query joins.
#[cfg(feature = "history")]
fn joined_columns(shared: &Shared, found: &Completion) -> Vec<(String, String, String)> {
    let mut joined = found.sources.iter().filter(|source| source.is_joined).peekable();
    if joined.peek().is_none() {
        return Vec::new();
    }
    let views = shared.engine.views(&Principal::anonymous());
    let columns = joined.filter_map(|source| {
        let name = source.name.as_deref()?;
        let view = views.iter().find(|view| view.name.eq_ignore_ascii_case(name))?;
        let alias = source.alias.as_deref().unwrap_or(name);
        Some(view.columns.iter().map(move |(column, ty)| (alias.to_owned(), column.clone(), ty.clone())))
    });
    columns.flatten().collect()
}

#[cfg(not(feature = "history"))]
fn joined_columns(_shared: &Shared, _found: &Completion) -> Vec<(String, String, String)> {
    Vec::new()
}

/// A name as a query writes it: in quotes where it must be.
fn name_text(name: &str) -> String {
    let path = swiftwater_event::Path::field(name);
    Expr::Path { path, ty: Type::Any }.to_string()
}

/// A value as a query writes it.
fn value_text(value: &ScalarValue) -> String {
    match value {
        ScalarValue::Boolean(value) => value.to_string().to_uppercase(),
        ScalarValue::Long(value) => value.to_string(),
        ScalarValue::Double(value) => format!("{value:?}"),
        ScalarValue::Text(text) => format!("'{}'", text.replace('\'', "''")),
    }
}

//! `/v1/saved/…`: saved queries, dashboards and notebooks, and links to states of the console's page.
//!
//! The entity tag of an object is its revision. A change with `If-Match` is made only if nobody was faster; the answer is 412
//! otherwise, and names the revision that there is.

use std::sync::Arc;

use axum::{
    body::Body,
    extract::{Path, Request, State, rejection::PathRejection},
    http::{HeaderMap, StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use serde_json::{Map, Value, json, value::RawValue};
use swiftwater_engine::{
    ContentError, DASHBOARD_SCHEMA, LINK_BYTES_MAX, NOTEBOOK_SCHEMA, Principal, RuntimeError,
    SAVED_BYTES_MAX, SaveCondition, Saved, SavedEntry, SavedError, is_json, title_of,
};
use swiftwater_event::StreamName;
use swiftwater_lang::{
    Dialect,
    ddl::{CreateSaved, SavedKind, SavedName},
};

use crate::{
    body::{Encoding, Pieces, heavy},
    parameters::{Parameters, bad, cut},
    problem::Problem,
    query_request::{Source, dialect_of},
    routes::{Name, name},
    server::Shared,
    status::json_response,
    views::has_tag,
    wire::time_text,
};

/// The most objects of one list.
const LIST_MAX: usize = 1_000;
/// In JSON every character may be written as six.
const BODY_BYTES_MAX: u64 = 6 * SAVED_BYTES_MAX as u64 + 65_536;
/// As much for the state of a link, and more for its name.
const LINK_BODY_BYTES_MAX: u64 = 6 * LINK_BYTES_MAX as u64 + 4_096;
const FORM: &str = "Write {\"content\": …, \"comment\": \"…\"}.";

type KindAndName = Result<Path<(String, String)>, PathRejection>;

/// All objects of a kind, by name.
pub(crate) async fn list(
    State(shared): State<Arc<Shared>>,
    path: Name,
    uri: Uri,
) -> Result<Response, Problem> {
    let parameters = Parameters::parse(uri.query(), &["prefix", "sort", "limit", "after"])?;
    let kind = kind_of(&name(path)?)?;
    let (prefix, after) = (parameters.get("prefix").unwrap_or_default(), parameters.get("after"));
    let limit = parameters.limit(LIST_MAX)?;
    let principal = Principal::anonymous();
    let list = match parameters.get("sort") {
        None | Some("name") => shared.engine.saved_list(&principal, kind, prefix, after, limit),
        Some("changed") if after.is_some() => {
            return Err(bad("`after` is allowed only with `sort=name`"));
        }
        Some("changed") => shared.engine.saved_last(&principal, kind, prefix, limit),
        Some(other) => {
            return Err(bad(format!("parameter `sort` is `name` or `changed`, not `{}`", cut(other))));
        }
    };
    let bytes = list.entries.iter().map(|entry| entry.bytes()).sum();
    let objects: Vec<Value> =
        heavy(bytes, || list.entries.iter().map(|entry| Value::Object(members(entry))).collect());
    let is_paged = list.has_more && parameters.get("sort") != Some("changed");
    let next = list.entries.last().filter(|_| is_paged).map(|last| &*last.create.name.name);
    let answer = json!({"objects": objects, "next": next, "kept": shared.engine.keeps_saved()});
    Ok(json_response(StatusCode::OK, &answer))
}

/// One object.
pub(crate) async fn show(
    State(shared): State<Arc<Shared>>,
    path: KindAndName,
    request: Request,
) -> Result<Response, Problem> {
    Parameters::parse(request.uri().query(), &[])?;
    let entry = shared.engine.saved(&Principal::anonymous(), &saved_name(path)?)?;
    if has_tag(request.headers(), &tag(&entry)) {
        return Ok((StatusCode::NOT_MODIFIED, [(header::ETAG, tag(&entry))]).into_response());
    }
    Ok(shown(&shared, StatusCode::OK, &entry))
}

/// Saves an object under its name, or replaces the one of this name.
pub(crate) async fn put(
    State(shared): State<Arc<Shared>>,
    path: KindAndName,
    request: Request,
) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    Parameters::parse(parts.uri.query(), &[])?;
    let name = saved_name(path)?;
    let condition = condition_of(&parts.headers)?;
    let body = whole(&shared, &parts.headers, body, BODY_BYTES_MAX).await?;
    let create = heavy(body.len(), || create_of(name, &body))?;
    let Saved { entry, is_new } = shared.engine.save(&Principal::anonymous(), create, condition).await?;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok(shown(&shared, status, &entry))
}

/// Drops an object.
pub(crate) async fn delete(
    State(shared): State<Arc<Shared>>,
    path: KindAndName,
    request: Request,
) -> Result<StatusCode, Problem> {
    Parameters::parse(request.uri().query(), &[])?;
    let condition = condition_of(request.headers())?;
    if condition == SaveCondition::Absent {
        return Err(Problem::bad_request("`If-None-Match` has no meaning here"));
    }
    shared.engine.drop_saved(&Principal::anonymous(), saved_name(path)?, condition).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The JSON Schema of a kind's content.
pub(crate) async fn schema(path: Name, uri: Uri) -> Result<Response, Problem> {
    Parameters::parse(uri.query(), &[])?;
    let text = match name(path)?.as_str() {
        "dashboard-1.json" => DASHBOARD_SCHEMA,
        "notebook-1.json" => NOTEBOOK_SCHEMA,
        other => {
            return Err(not_found(format!("no schema `{}`", cut(other)))
                .hint("Schemas are dashboard-1.json and notebook-1.json."));
        }
    };
    Ok(([(header::CONTENT_TYPE, "application/schema+json")], text).into_response())
}

/// Stores a state of the page under a short key.
pub(crate) async fn link(State(shared): State<Arc<Shared>>, request: Request) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    Parameters::parse(parts.uri.query(), &[])?;
    let body = whole(&shared, &parts.headers, body, LINK_BODY_BYTES_MAX).await?;
    let LinkBody { state } = parse_object(&body, "Write {\"state\": \"…\"}.")?;
    let key = shared.engine.link(&Principal::anonymous(), &state).await?;
    Ok(json_response(StatusCode::OK, &json!({"key": key, "kept": shared.engine.keeps_saved()})))
}

/// The state that a key stands for.
pub(crate) async fn open_link(
    State(shared): State<Arc<Shared>>,
    path: Name,
    uri: Uri,
) -> Result<Response, Problem> {
    Parameters::parse(uri.query(), &[])?;
    let key = name(path)?;
    match shared.engine.open_link(&Principal::anonymous(), &key).await? {
        Some(state) => Ok(json_response(StatusCode::OK, &json!({"key": key, "state": state}))),
        None => Err(not_found(format!("no link `{}`", cut(&key)))
            .hint("A link that nobody opens for 90 days is deleted. Ask for the whole address.")),
    }
}

/// The text and the dialect of a saved query.
pub(crate) fn source_of(shared: &Shared, name: &str) -> Result<(Source, Dialect), Problem> {
    let name = SavedName { kind: SavedKind::Query, name: name.into() };
    let entry = shared.engine.saved(&Principal::anonymous(), &name)?;
    let text = entry.create.text.to_string();
    let source = if is_json(&text) { Source::Json(text) } else { Source::Bql(text) };
    Ok((source, entry.create.dialect))
}

fn kind_of(word: &str) -> Result<SavedKind, Problem> {
    let kind = SavedKind::ALL.into_iter().find(|kind| kind.plural().to_lowercase() == word);
    kind.ok_or_else(|| {
        not_found(format!("no kind `{}` of saved objects", cut(word)))
            .hint("Kinds are queries, dashboards and notebooks.")
    })
}

fn not_found(detail: String) -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "not-found", "The object does not exist", detail)
}

fn saved_name(path: KindAndName) -> Result<SavedName, Problem> {
    let Path((kind, name)) = path.map_err(|_| bad("the path is not UTF-8"))?;
    let kind = kind_of(&kind)?;
    match StreamName::new(&name) {
        Ok(_) => Ok(SavedName { kind, name: name.into() }),
        Err(error) => {
            Err(bad(format!("`{}` cannot be the name of a {}: {}", cut(&name), kind.noun(), error.why)))
        }
    }
}

fn tag(entry: &SavedEntry) -> String {
    format!("\"{}\"", entry.revision)
}

/// The state that a change expects.
fn condition_of(headers: &HeaderMap) -> Result<SaveCondition, Problem> {
    let tags = |name: header::HeaderName| -> Vec<String> {
        let fields = headers.get_all(name).iter().filter_map(|field| field.to_str().ok());
        fields.flat_map(|field| field.split(',')).map(|tag| tag.trim().to_owned()).collect()
    };
    let (matching, absent) = (tags(header::IF_MATCH), tags(header::IF_NONE_MATCH));
    let is_any = |tags: &[String]| tags.iter().any(|tag| tag == "*");
    match (&matching[..], &absent[..]) {
        ([], []) => Ok(SaveCondition::Any),
        (tags, []) if is_any(tags) => Ok(SaveCondition::Exists),
        // A proxy that compresses makes a tag weak. A tag of another form is that of no object.
        (tags, []) => {
            let revision = |tag: &String| {
                tag.trim_start_matches("W/").strip_prefix('"')?.strip_suffix('"')?.parse().ok()
            };
            Ok(SaveCondition::Revision(tags.iter().filter_map(revision).collect()))
        }
        ([], tags) if is_any(tags) => Ok(SaveCondition::Absent),
        ([], _) => Err(Problem::bad_request("`If-None-Match` is `*` here, or left out")),
        _ => Err(Problem::bad_request("`If-Match` and `If-None-Match` exclude each other")),
    }
}

async fn whole(shared: &Shared, headers: &HeaderMap, body: Body, bytes_max: u64) -> Result<Vec<u8>, Problem> {
    let (encoding, timeout) = (Encoding::of(headers)?, shared.config.body_read_timeout_ms);
    let pieces = Pieces::new(body, encoding, bytes_max, timeout, shared.share());
    pieces.whole().await.map_err(|fault| fault.problem("no setting: the limit is fixed", bytes_max))
}

/// A JSON object with these members and no others.
fn parse_object<'b, T: Deserialize<'b>>(body: &'b [u8], form: &'static str) -> Result<T, Problem> {
    serde_json::from_slice(body).map_err(|error| {
        let problem = Problem::bad_request(format!("the body is not as expected: {error}"));
        problem.with("line", error.line()).with("column", error.column()).hint(form)
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkBody {
    state: String,
}

/// The content is read by its kind, and that of a dashboard or notebook is saved as it was written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SaveBody<'b> {
    #[serde(borrow)]
    content: &'b RawValue,
    #[serde(default)]
    comment: Option<Box<str>>,
    #[serde(default)]
    dialect: Option<String>,
}

fn create_of(name: SavedName, body: &[u8]) -> Result<CreateSaved, Problem> {
    let SaveBody { content, comment, dialect } = parse_object(body, FORM)?;
    let dialect = match dialect {
        None => Dialect::Native,
        Some(dialect) if name.kind == SavedKind::Query => dialect_of(&dialect)?,
        Some(_) => return Err(Problem::bad_request("only a query has a `dialect`")),
    };
    let text = match name.kind {
        SavedKind::Query => serde_json::from_str(content.get())
            .map_err(|_| Problem::bad_request("member `content` of a query is not a text").hint(FORM))?,
        _ => content.get().to_owned(),
    };
    Ok(CreateSaved { name, or_replace: true, if_not_exists: false, dialect, comment, text: text.into() })
}

/// The members of an object without its content.
fn members(entry: &SavedEntry) -> Map<String, Value> {
    let kind = entry.create.name.kind;
    let mut members = Map::new();
    let mut add = |name: &str, value: Value| members.insert(name.to_owned(), value);
    add("kind", kind.plural().to_lowercase().into());
    add("name", entry.create.name.name.as_ref().into());
    add("comment", entry.create.comment.as_deref().into());
    match kind {
        SavedKind::Query => add("dialect", dialect_word(entry.create.dialect).into()),
        _ => add("title", title_of(&entry.create.text).into()),
    };
    add("revision", entry.revision.into());
    add("created", time_text(entry.created).into());
    add("changed", time_text(entry.changed).into());
    add("bytes", entry.bytes().into());
    // There are no users yet.
    add("owner", Value::Null);
    members
}

fn dialect_word(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Native => "native",
        Dialect::Bullet => "bullet",
    }
}

fn shown(shared: &Shared, status: StatusCode, entry: &SavedEntry) -> Response {
    let text = &entry.create.text;
    let body = heavy(text.len(), || {
        let mut members = members(entry);
        members.insert("kept".to_owned(), shared.engine.keeps_saved().into());
        let mut body = Value::Object(members).to_string();
        body.pop();
        body.push_str(",\"content\":");
        match entry.create.name.kind {
            SavedKind::Query => body.push_str(&Value::from(&**text).to_string()),
            // JSON, as it was written.
            _ => body.push_str(text),
        }
        body.push_str("}\n");
        body
    });
    let fields = [(header::ETAG, tag(entry)), (header::CONTENT_TYPE, "application/json".to_owned())];
    (status, fields, body).into_response()
}

impl From<SavedError> for Problem {
    fn from(error: SavedError) -> Problem {
        let detail = error.to_string();
        match error {
            SavedError::Engine(error) => error.into(),
            SavedError::Content(ContentError::Query(errors)) => RuntimeError::Query(errors).into(),
            SavedError::Content(ContentError::TooLarge { bytes_max, .. }) => {
                let title = "A limit was exceeded";
                Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "limit-passed", title, detail)
                    .with("limit", bytes_max)
            }
            SavedError::Content(ContentError::Head(_)) => Problem::bad_request(detail),
            SavedError::Content(ContentError::Form(faults)) => {
                let errors =
                    faults.into_iter().map(|fault| json!({"path": fault.path, "message": fault.message}));
                let title = "The content does not have the form of its kind";
                Problem::new(StatusCode::BAD_REQUEST, "content-invalid", title, detail)
                    .with("errors", errors.collect::<Vec<_>>())
                    .hint("GET /v1/saved/schemas/dashboard-1.json and notebook-1.json have the forms.")
            }
            SavedError::Changed { now, .. } => {
                let title = "The object has another state than the request expects";
                let mut problem =
                    Problem::new(StatusCode::PRECONDITION_FAILED, "precondition-failed", title, detail);
                if let Some(now) = now {
                    problem = problem.with("revision", now.revision).with("changed", time_text(now.changed));
                }
                problem.hint("Get the object, and decide which version is right.")
            }
        }
    }
}

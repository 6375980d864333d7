//! `/v1/prepared`: queries that are stored under a name and run by it, with other parameters each time.
//!
//! They are in memory only, and are lost when the server ends. There are at most `server.prepared_max`; one more is refused.

use std::{
    collections::{
        BTreeMap,
        hash_map::{DefaultHasher, RandomState},
    },
    hash::{BuildHasher, Hash, Hasher},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use axum::{
    extract::{Request, State},
    http::{StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};
use swiftwater_event::Millis;
use swiftwater_runtime::Principal;

use crate::{
    body::heavy,
    parameters::{Parameters, cut},
    problem::Problem,
    queries::{body_of, heaviness},
    query_request::{QueryRequest, Source},
    routes::{Name, name},
    server::Shared,
    status::json_response,
    wire::time_text,
};

/// The longest name that a client may give.
const NAME_CHARS_MAX: usize = 128;

/// All prepared queries, by id.
#[derive(Debug, Default)]
pub(crate) struct PreparedQueries {
    queries: Mutex<BTreeMap<String, Arc<Prepared>>>,
    secret: RandomState,
}

/// One of them.
#[derive(Debug)]
pub(crate) struct Prepared {
    id: String,
    /// The text, its form and its dialect; never another prepared query.
    pub(crate) ask: QueryRequest,
    created: Millis,
}

impl PreparedQueries {
    pub(crate) fn find(&self, id: &str) -> Result<Arc<Prepared>, Problem> {
        self.lock().get(id).cloned().ok_or_else(|| no_prepared(id))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Prepared>>> {
        self.queries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An id that is not in use, and that nobody guesses.
    fn new_id(&self, queries: &BTreeMap<String, Arc<Prepared>>, now: Millis) -> String {
        let mut hasher: DefaultHasher = self.secret.build_hasher();
        (now, queries.len()).hash(&mut hasher);
        loop {
            let id = format!("p{:016x}", hasher.finish());
            if !queries.contains_key(&id) {
                return id;
            }
            1.hash(&mut hasher);
        }
    }
}

impl Prepared {
    fn json(&self) -> Value {
        let mut object = self.ask.json();
        object.insert("id".to_owned(), self.id.as_str().into());
        object.insert("created".to_owned(), time_text(self.created).into());
        Value::Object(object)
    }
}

fn no_prepared(id: &str) -> Problem {
    let detail = format!("no prepared query `{}`", cut(id));
    Problem::new(StatusCode::NOT_FOUND, "not-found", "The object does not exist", detail)
        .hint("Prepared queries are in memory only: prepare it again.")
}

/// Prepares a query: `{"query": "…", "name": "…", "dialect": "native", "parameters": […]}`. Its name is its id, where
/// it has one. A text with parameters can be checked only with values for them: where `parameters` are given, with
/// those, else when it is asked.
pub(crate) async fn prepare(
    State(shared): State<Arc<Shared>>,
    request: Request,
) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    Parameters::parse(parts.uri.query(), &[])?;
    let body = body_of(&shared, &parts.headers, body).await?;
    let mut value: Value = serde_json::from_slice(&body).map_err(|error| {
        let problem = Problem::bad_request(format!("the body is not valid JSON: {error}"));
        problem.with("line", error.line()).with("column", error.column())
    })?;
    let name = match value.as_object_mut().and_then(|members| members.remove("name")) {
        None | Some(Value::Null) => None,
        Some(Value::String(name)) if is_name(&name) => Some(name),
        Some(_) => {
            let what = format!("1 to {NAME_CHARS_MAX} of A-Z, a-z, 0-9, `_`, `-` and `.`");
            return Err(
                Problem::bad_request("member `name` is not a name").hint(format!("A name is {what}."))
            );
        }
    };
    let ask = QueryRequest::of_json(value, None)?;
    if let Source::Prepared(_) | Source::Saved(_) = ask.source {
        return Err(Problem::bad_request("a prepared or saved query cannot be prepared again")
            .hint("Write its `query`."));
    }
    let (text, has_parameters) = (ask.text(), ask.text().contains('$'));
    if !has_parameters || !ask.parameters.is_empty() {
        let options = ask.options();
        shared.engine.pin_joined(text, &options).await?;
        heavy(heaviness(text), || shared.engine.check(&Principal::anonymous(), text, &options))?;
    }
    let created = shared.engine.clock().now();
    let most = shared.config.prepared_max;
    let prepared = {
        let mut queries = shared.prepared.lock();
        let id = match name {
            Some(name) if queries.contains_key(&name) => {
                let detail = format!("prepared query `{name}` already exists");
                let title = "The state of the object does not allow this";
                return Err(Problem::new(StatusCode::CONFLICT, "conflict", title, detail)
                    .hint("Delete it first, or choose another name."));
            }
            Some(name) => name,
            None => shared.prepared.new_id(&queries, created),
        };
        if queries.len() >= most {
            let detail =
                format!("number of prepared queries would be {}, limit is {most}", queries.len() + 1);
            let title = "A limit was exceeded";
            return Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, "limit-passed", title, detail)
                .with("setting", "server.prepared_max"));
        }
        // The values were for the check only.
        let ask = QueryRequest { parameters: Vec::new(), ..ask };
        let prepared = Arc::new(Prepared { id: id.clone(), ask, created });
        queries.insert(id, Arc::clone(&prepared));
        prepared
    };
    let place = format!("/v1/prepared/{}", prepared.id);
    let answer = json_response(StatusCode::CREATED, &prepared.json());
    Ok(([(header::LOCATION, place)], answer).into_response())
}

/// All of them.
pub(crate) async fn list(State(shared): State<Arc<Shared>>, uri: Uri) -> Result<Response, Problem> {
    Parameters::parse(uri.query(), &[])?;
    let queries: Vec<Value> = shared.prepared.lock().values().map(|prepared| prepared.json()).collect();
    Ok(json_response(StatusCode::OK, &json!({"prepared": queries})))
}

/// One of them.
pub(crate) async fn show(
    State(shared): State<Arc<Shared>>,
    path: Name,
    uri: Uri,
) -> Result<Response, Problem> {
    Parameters::parse(uri.query(), &[])?;
    let prepared = shared.prepared.find(&name(path)?)?;
    Ok(json_response(StatusCode::OK, &prepared.json()))
}

/// Forgets one. Queries that were asked by it go on.
pub(crate) async fn forget(
    State(shared): State<Arc<Shared>>,
    path: Name,
    uri: Uri,
) -> Result<StatusCode, Problem> {
    Parameters::parse(uri.query(), &[])?;
    let id = name(path)?;
    match shared.prepared.lock().remove(&id) {
        Some(_) => Ok(StatusCode::NO_CONTENT),
        None => Err(no_prepared(&id)),
    }
}

fn is_name(name: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    (1..=NAME_CHARS_MAX).contains(&name.len()) && name.bytes().all(is_part)
}

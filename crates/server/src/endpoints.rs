//! Serves requests of endpoints, which are declared in SQL: finds the values in a request, and answers in the declared form.
//!
//! This module decodes the segments of the path and the query string, and reads the body; the engine interprets them. A
//! query string may contain the endpoint's parameters and, for GET, `consistent`; anything else is refused. A body is one
//! JSON object, compressed or not. Errors are problem details, or `{"message": …}` if the endpoint was declared so.

use std::{borrow::Cow, sync::Arc};

use axum::{
    body::Body,
    http::{HeaderName, HeaderValue, Request, StatusCode, Uri, header, request::Parts},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use percent_encoding::percent_decode_str;
use serde_json::json;
use swiftwater_engine::{
    Endpoint, EndpointAnswer, EndpointError, EndpointInput, EndpointLimits, EndpointPlace, Numbered,
    Principal, ViewReading, hash_of,
};
use swiftwater_lang::ddl::{EndpointMethod, ErrorForm};

use crate::{
    body::{Encoding, Pieces},
    numbered::number_of,
    parameters::{bad, cut, no_text, pairs},
    problem::Problem,
    received::Received,
    server::Shared,
    views::{POSITION, entity_tag, has_tag, marks, parse_consistency},
};

/// Header fields of an answer, for which there is room from the start.
const FIELDS: usize = 8;

const REPEATED: HeaderName = HeaderName::from_static("swiftwater-repeated");

/// Answers a request of an endpoint.
pub(crate) async fn answer(shared: &Shared, endpoint: &Endpoint, request: Request<Received>) -> Response {
    let (parts, body) = request.into_parts();
    let answered = match endpoint.create.name.method {
        EndpointMethod::Get => get(shared, endpoint, &parts).await,
        EndpointMethod::Post => post(shared, endpoint, &parts, Body::new(body)).await,
    };
    answered.unwrap_or_else(|fault| fault.into_response(endpoint.errors()))
}

/// The answer if there is no endpoint of this method; `allow` lists the methods that there are.
pub(crate) fn wrong_method(allow: &'static str, method: &str) -> Response {
    let mut response = Problem::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "method-not-allowed",
        "The method is not allowed",
        format!("method `{}` is not allowed here", cut(method)),
    )
    .hint("The header field `Allow` lists the allowed methods.")
    .into_response();
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allow));
    response
}

/// The reason why a request is not answered as requested.
struct Fault {
    problem: Problem,
    /// The progress of the view that was read.
    reading: Option<ViewReading>,
}

impl From<Problem> for Fault {
    fn from(problem: Problem) -> Fault {
        Fault { problem, reading: None }
    }
}

impl From<EndpointError> for Fault {
    fn from(error: EndpointError) -> Fault {
        match error {
            EndpointError::Engine(error) => Problem::from(error).into(),
            EndpointError::Refused { status, message, reading } => {
                let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST);
                let (word, title) = match status {
                    StatusCode::NOT_FOUND => ("not-found", "The object does not exist"),
                    StatusCode::PAYLOAD_TOO_LARGE => ("limit-passed", "A limit was exceeded"),
                    _ => ("request-refused", "The request was refused"),
                };
                Fault { problem: Problem::new(status, word, title, message), reading }
            }
        }
    }
}

impl Fault {
    fn into_response(self, form: ErrorForm) -> Response {
        let mut response = match form {
            ErrorForm::Problem => self.problem.into_response(),
            ErrorForm::Message => {
                let text = format!("{}\n", json!({"message": self.problem.full_text()}));
                let mut response = self.problem.into_response();
                *response.body_mut() = Body::from(text);
                let json = HeaderValue::from_static("application/json");
                response.headers_mut().insert(header::CONTENT_TYPE, json);
                response
            }
        };
        response.headers_mut().extend(self.reading.iter().flat_map(marks));
        response
    }
}

async fn get(shared: &Shared, endpoint: &Endpoint, request: &Parts) -> Result<Response, Fault> {
    let (texts, consistent) = texts(endpoint, &request.uri, endpoint.create.view().map(|_| "consistent"))?;
    let wanted = parse_consistency(consistent.as_deref())?;
    let input = EndpointInput { texts, body: Bytes::new() };
    let answer = shared.engine.answer(&Principal::anonymous(), endpoint, &input, wanted).await?;
    let EndpointAnswer { status, body, reading, changed, .. } = answer;
    let tag = changed.map(|changed| entity_tag([endpoint.created as u64, u64::from(endpoint.id), changed]));
    let is_known = tag.as_deref().is_some_and(|tag| has_tag(&request.headers, tag));
    let mut response = match is_known {
        true => shown(StatusCode::NOT_MODIFIED.as_u16(), None),
        false => shown(status, body),
    };
    let fields = response.headers_mut();
    for (name, value) in reading.iter().flat_map(marks) {
        fields.insert(name, value);
    }
    if let Some(tag) = tag.and_then(|tag| HeaderValue::try_from(tag).ok()) {
        fields.insert(header::ETAG, tag);
        fields.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    }
    Ok(response)
}

async fn post(shared: &Shared, endpoint: &Endpoint, request: &Parts, body: Body) -> Result<Response, Fault> {
    let mut numbered = number_of(&request.headers)?.map(|(producer, sequence)| Numbered {
        producer,
        sequence,
        part: 0,
        after: 0,
        hash: 0,
    });
    if let (Some(_), Some(stream)) = (&numbered, endpoint.create.stream())
        && shared.engine.ack(stream).is_none()
    {
        let detail = format!("stream `{stream}` is live-only, so the server cannot deduplicate its requests");
        let problem = Problem::new(StatusCode::CONFLICT, "not-stored", "The stream is live-only", detail);
        return Err(problem.hint("Send without Swiftwater-Producer and Swiftwater-Sequence.").into());
    }
    let config = &shared.config;
    let (setting, bytes_max) = match usize::try_from(config.body_bytes_max) {
        Ok(most) if most > 0 && most < config.event_bytes_max => ("server.body_bytes_max", most),
        _ => ("server.event_bytes_max", config.event_bytes_max),
    };
    let (texts, _) = texts(endpoint, &request.uri, None)?;
    let body = if endpoint.reads_body() {
        let encoding = Encoding::of(&request.headers)?;
        let mut pieces =
            Pieces::new(body, encoding, bytes_max as u64, config.body_read_timeout_ms, shared.share());
        pieces.at_once().await.map_err(|fault| fault.problem(setting, bytes_max as u64))?
    } else {
        Bytes::new()
    };
    if let Some(numbered) = &mut numbered {
        // The hash is that of the request, as its event may contain the time.
        let place = request.uri.path_and_query().map_or("", |place| place.as_str());
        numbered.hash = hash_of([place.as_bytes(), &body]);
    }
    let input = EndpointInput { texts, body };
    let limits = EndpointLimits { body_bytes_max: bytes_max, depth_max: config.event_depth_max };
    let taken =
        shared.engine.accept_event(&Principal::anonymous(), endpoint, &input, (numbered, &limits)).await?;
    let EndpointAnswer { status, body, position, is_repeated, .. } = taken;
    let mut response = shown(status, body);
    if let Some(position) = position {
        response.headers_mut().insert(POSITION, HeaderValue::from(position));
    }
    if is_repeated {
        response.headers_mut().insert(REPEATED, HeaderValue::from_static("true"));
    }
    Ok(response)
}

fn shown(status: u16, body: Option<Vec<u8>>) -> Response {
    let mut response = Response::new(Body::empty());
    response.headers_mut().reserve(FIELDS);
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
    // These statuses have no body.
    if let Some(body) = body.filter(|_| !matches!(status, 204 | 205)) {
        *response.body_mut() = Body::from(body);
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    response
}

/// The text of each parameter outside the body of a request, and the value of `other`, a parameter that is not the
/// endpoint's.
type Texts<'r> = (Vec<Option<Cow<'r, str>>>, Option<Cow<'r, str>>);

fn texts<'r>(endpoint: &Endpoint, uri: &'r Uri, other: Option<&'static str>) -> Result<Texts<'r>, Problem> {
    let path = uri.path();
    let mut texts: Vec<Option<Cow<'r, str>>> = vec![None; endpoint.places.len()];
    for (text, place) in texts.iter_mut().zip(&endpoint.places) {
        if let EndpointPlace::Path(segment) = place {
            let segment = path.split('/').nth(segment + 1).unwrap_or_default();
            let decoded = percent_decode_str(segment).decode_utf8();
            *text = Some(
                decoded.map_err(|_| Problem::bad_request("the path is not valid percent-encoded UTF-8"))?,
            );
        }
    }
    let mut of_other = None;
    let query = uri.query().unwrap_or_default();
    for (name, value) in pairs(query) {
        let is_it = |place: &EndpointPlace| matches!(place, EndpointPlace::Query(known) if **known == *name);
        let text = match endpoint.places.iter().position(is_it) {
            Some(place) => &mut texts[place],
            None if other.is_some_and(|other| other == name) => &mut of_other,
            None => return Err(unknown(endpoint, &name, other)),
        };
        let value = value.ok_or_else(|| no_text(&name))?;
        if text.replace(value).is_some() {
            return Err(bad(format!("parameter `{}` is given twice", cut(&name))));
        }
    }
    Ok((texts, of_other))
}

fn unknown(endpoint: &Endpoint, name: &str, other: Option<&'static str>) -> Problem {
    let known = endpoint.places.iter().filter_map(|place| match place {
        EndpointPlace::Query(name) => Some(&**name),
        EndpointPlace::Path(_) | EndpointPlace::Body(_) => None,
    });
    let known: Vec<&str> = known.chain(other).collect();
    bad(format!("no parameter `{}` here", cut(name))).hint(match &known[..] {
        [] => "This call takes no parameters.".to_owned(),
        known => format!("Parameters are: {}.", known.join(", ")),
    })
}

/// All endpoints, as they are counted.
pub(crate) fn all(shared: &Shared) -> Vec<Arc<Endpoint>> {
    shared.engine.endpoints(&Principal::anonymous())
}

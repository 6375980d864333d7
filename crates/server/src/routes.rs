//! Routes each call, and applies the common steps: the checks of [`crate::guard`], counting, the log. A path that is not one
//! of the server's own may be that of an endpoint ([`crate::endpoints`]); endpoints come and go while the server runs.

use std::sync::Arc;

use axum::{
    Router,
    body::Body,
    extract::{MatchedPath, Path, Request, State, rejection::PathRejection},
    http::{HeaderMap, HeaderValue, Method, StatusCode, header},
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use hyper::body::Incoming;
#[cfg(feature = "history")]
use swiftwater_engine::EndpointRoute;
use tower_service::Service as _;
use tracing::Level;

use crate::{
    about, bullet, complete, console, ingest, inputs, metrics_history, openapi,
    prefix::{place_under, prefix},
    prepared,
    problem::{NodeAddress, Problem},
    queries,
    received::{self, Received},
    recent,
    server::{Connection, Shared},
    status, ws,
};
#[cfg(feature = "history")]
use crate::{backups, changes, cluster, endpoints, saved, search, sql, views};

/// The routes, as they are named in metrics.
const ROUTES: [&str; 50] = [
    "/",
    "/healthz",
    "/readyz",
    "/metrics",
    "/v1/streams",
    "/v1/streams/{stream}",
    "/v1/streams/{stream}/events",
    "/v1/activities/search",
    "/v1/activity/{id}",
    "/v1/backups",
    "/v1/backups/{id}",
    "/v1/backups/{id}/files/{name}",
    "/v1/cluster",
    "/v1/cluster/drain",
    "/v1/cluster/queries",
    "/v1/complete",
    "/v1/console/{build}/{file}",
    "/v1/functions",
    "/v1/metrics/history",
    "/v1/openapi.json",
    "/v1/prepared",
    "/v1/prepared/{id}",
    "/v1/queries",
    "/v1/queries/validate",
    "/v1/queries/{id}",
    "/v1/queries/{id}/results",
    "/v1/saved/links",
    "/v1/saved/links/{key}",
    "/v1/saved/schemas/{name}",
    "/v1/saved/{kind}",
    "/v1/saved/{kind}/{name}",
    "/v1/search",
    "/v1/searches",
    "/v1/searches/{id}",
    "/v1/server",
    "/v1/settings",
    "/v1/sql",
    "/v1/sql/validate",
    "/v1/sql/{id}",
    "/v1/streams/{stream}/paths",
    "/v1/streams/{stream}/recent",
    "/v1/streams/{stream}/search",
    "/v1/streams/{stream}/search/fields",
    "/v1/streams/{stream}/search/index",
    "/v1/views",
    "/v1/views/{view}",
    "/v1/views/{view}/changes",
    "/v1/views/{view}/keys",
    "/v1/views/{view}/keys/{*key}",
    "/v1/ws",
];
/// All routes there are.
pub(crate) fn routes() -> impl Iterator<Item = &'static str> {
    ROUTES.into_iter().chain(inputs::ROUTES).chain(bullet::ROUTES)
}

/// All other paths, as they are named in metrics.
const NO_ROUTE: &str = "none";

pub(crate) fn router(shared: &Arc<Shared>) -> Router {
    Router::new()
        .route("/", get(status::index))
        .route("/healthz", get(status::healthz))
        .route("/readyz", get(status::readyz))
        .route("/metrics", get(status::metrics))
        .route("/v1/streams", get(status::streams))
        .route("/v1/streams/{stream}", get(status::stream))
        .route("/v1/streams/{stream}/events", post(ingest::ingest))
        .route("/v1/streams/{stream}/paths", get(recent::paths))
        .route("/v1/streams/{stream}/recent", get(recent::events))
        .route("/v1/metrics/history", get(metrics_history::show))
        .route("/v1/queries", post(queries::submit).get(queries::list_or_ask))
        .route("/v1/queries/validate", post(queries::validate))
        .route("/v1/queries/{id}", get(queries::query).delete(queries::end))
        .route("/v1/queries/{id}/results", get(queries::results))
        .route("/v1/prepared", post(prepared::prepare).get(prepared::list))
        .route("/v1/prepared/{id}", get(prepared::show).delete(prepared::forget))
        .merge(history_routes())
        .route("/v1/console/{build}/{file}", get(console::file))
        .route("/v1/server", get(about::about))
        .route("/v1/settings", get(about::settings))
        .route("/v1/complete", post(complete::options))
        .route("/v1/functions", get(complete::functions_list))
        .route("/v1/ws", get(ws::connect))
        .route("/v1/openapi.json", get(openapi::contract))
        .merge(inputs::routes())
        .merge(bullet::routes())
        .method_not_allowed_fallback(wrong_method)
        .fallback(no_route)
        .layer(from_fn_with_state(Arc::clone(shared), every_request))
        .with_state(Arc::clone(shared))
}

#[cfg(feature = "history")]
fn history_routes() -> Router<Arc<Shared>> {
    Router::new()
        .route("/v1/activity/{id}", get(search::activity))
        .route("/v1/activities/search", post(search::activities))
        .route("/v1/saved/links", post(saved::link))
        .route("/v1/saved/links/{key}", get(saved::open_link))
        .route("/v1/saved/schemas/{name}", get(saved::schema))
        .route("/v1/saved/{kind}", get(saved::list))
        .route("/v1/saved/{kind}/{name}", get(saved::show).put(saved::put).delete(saved::delete))
        .route("/v1/search", get(search::streams).post(search::streams))
        .route("/v1/streams/{stream}/search", get(search::stream).post(search::stream))
        .route("/v1/streams/{stream}/search/fields", get(search::fields).post(search::fields))
        .route("/v1/streams/{stream}/search/index", get(search::index))
        .route("/v1/searches", get(search::list))
        .route("/v1/searches/{id}", get(search::show).delete(search::end))
        .route("/v1/sql", post(sql::run).get(sql::list))
        .route("/v1/sql/validate", post(sql::validate))
        .route("/v1/sql/{id}", get(sql::show).delete(sql::cancel))
        .route("/v1/backups", post(backups::begin))
        .route("/v1/backups/{id}", get(backups::show).delete(backups::end))
        .route("/v1/backups/{id}/files/{name}", get(backups::file))
        .route("/v1/cluster", get(cluster::show))
        .route("/v1/cluster/drain", post(cluster::drain).delete(cluster::resume))
        .route("/v1/cluster/queries", get(cluster::queries))
        .route("/v1/views", get(views::list))
        .route("/v1/views/{view}", get(views::rows))
        .route("/v1/views/{view}/changes", get(changes::changes))
        .route("/v1/views/{view}/keys", post(views::many))
        .route("/v1/views/{view}/keys/{*key}", get(views::row))
}

#[cfg(not(feature = "history"))]
fn history_routes() -> Router<Arc<Shared>> {
    let is_of_history = |route: &str| {
        let starts = ["/v1/activit", "/v1/search", "/v1/sql", "/v1/backups", "/v1/cluster", "/v1/views"];
        starts.iter().any(|start| route.starts_with(start)) || route.contains("/search")
    };
    let paths: Vec<&'static str> = ROUTES.into_iter().filter(|route| is_of_history(route)).collect();
    crate::live_only::routes(&paths)
}

/// The one variable part of a request's path.
pub(crate) type Name = Result<Path<String>, PathRejection>;

/// The variable part of a path, or what is wrong with it.
pub(crate) fn name(path: Name) -> Result<String, Problem> {
    path.map(|Path(name)| name)
        .map_err(|_| Problem::bad_request("the path is not valid percent-encoded UTF-8"))
}

/// Answers a request: of an endpoint at once, of all else by the router.
pub(crate) async fn answer(
    shared: &Arc<Shared>,
    router: &Router,
    connection: &Arc<Connection>,
    request: hyper::Request<Incoming>,
) -> Response {
    let (head, body) = request.into_parts();
    let body = Received::new(body, &head.headers);
    let ends_connection = body.ends_connection();
    let mut response = routed(shared, router, connection, hyper::Request::from_parts(head, body)).await;
    if ends_connection {
        received::close(&mut response);
    }
    response
}

#[cfg(feature = "history")]
async fn routed(
    shared: &Arc<Shared>,
    router: &Router,
    connection: &Arc<Connection>,
    request: hyper::Request<Received>,
) -> Response {
    match shared.engine.route(request.method().as_str(), request.uri().path()) {
        EndpointRoute::None => by_router(router, connection, request).await,
        EndpointRoute::Methods(allow) => {
            let method = request.method().clone();
            let refused = async |_| endpoints::wrong_method(allow, method.as_str());
            let (response, micros) = guarded(shared, request, refused).await;
            shared.stats.count(NO_ROUTE, &method, response.status(), micros);
            response
        }
        EndpointRoute::Endpoint(endpoint) => {
            let answered = async |request| endpoints::answer(shared, &endpoint, request).await;
            let (response, micros) = guarded(shared, request, answered).await;
            endpoint.counts.count(response.status().as_u16(), micros);
            response
        }
    }
}

#[cfg(not(feature = "history"))]
async fn routed(
    _shared: &Arc<Shared>,
    router: &Router,
    connection: &Arc<Connection>,
    request: hyper::Request<Received>,
) -> Response {
    by_router(router, connection, request).await
}

async fn by_router(
    router: &Router,
    connection: &Arc<Connection>,
    request: hyper::Request<Received>,
) -> Response {
    let mut request = request.map(Body::new);
    request.extensions_mut().insert(Arc::clone(connection));
    // A router is always ready, and never fails.
    router.clone().call(request).await.unwrap_or_else(|never| match never {})
}

async fn every_request(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let method = request.method().clone();
    let matched = request.extensions().get::<MatchedPath>();
    let route = matched.and_then(|matched| {
        // With a slash at its end it is the same one.
        let named = matched.as_str().strip_suffix('/').filter(|path| !path.is_empty());
        routes().find(|route| *route == named.unwrap_or(matched.as_str()))
    });
    let path = request.uri().path_and_query().map_or_else(String::new, ToString::to_string);
    let answered =
        async |request: Request| match is_websocket_upgrade(request.headers()) && !speaks_websocket(route) {
            true => not_spoken(),
            false => sent_on(next.run(request).await, &path),
        };
    let (response, micros) = guarded(&shared, request, answered).await;
    shared.stats.count(route.unwrap_or(NO_ROUTE), &method, response.status(), micros);
    response
}

/// Sends a client on to the node of the cluster that does what it asks for, if that has told its address.
fn sent_on(mut response: Response, path: &str) -> Response {
    if let Some(NodeAddress(address)) = response.extensions_mut().remove()
        && let Ok(place) = HeaderValue::from_str(&format!("{}{path}", address.trim_end_matches('/')))
    {
        response.headers_mut().insert(header::LOCATION, place);
    }
    response
}

/// True if a client wants to go on by WebSocket. Other protocols, `h2c` of Java's client first of all, are offers that a
/// server may pass over.
fn is_websocket_upgrade(headers: &HeaderMap) -> bool {
    let fields = headers.get_all(header::UPGRADE).iter().filter_map(|field| field.to_str().ok());
    let mut protocols = fields.flat_map(|field| field.split(','));
    protocols.any(|protocol| protocol.trim().eq_ignore_ascii_case("websocket"))
}

fn speaks_websocket(route: Option<&str>) -> bool {
    route.is_some_and(|route| route == "/v1/ws" || bullet::ROUTES.contains(&route))
}

fn not_spoken() -> Response {
    let detail = "this path does not support WebSocket";
    let mut response = Problem::new(
        StatusCode::UPGRADE_REQUIRED,
        "upgrade-not-spoken",
        "The protocol is not supported",
        detail,
    )
    .hint("Send the request without `Upgrade`; live results are sent as `text/event-stream`.")
    .into_response();
    response.headers_mut().insert(header::UPGRADE, HeaderValue::from_static("HTTP/1.1"));
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    response
}

/// Answers a request if it is allowed, and adds the fields that all answers have; also returns the time taken, in
/// microseconds.
async fn guarded<B>(
    shared: &Shared,
    request: hyper::Request<B>,
    work: impl AsyncFnOnce(hyper::Request<B>) -> Response,
) -> (Response, u64) {
    let clock = shared.engine.clock();
    let start = clock.monotonic_nanos();
    let told = tracing::enabled!(Level::DEBUG).then(|| (request.method().clone(), request.uri().clone()));
    let prefix = prefix(&shared.config.prefix, request.headers()).to_owned();
    let mut response = match shared.guard.check(request.uri(), request.headers()) {
        Err(problem) => inputs::problem_at(request.uri().path(), request.headers(), problem.closing()),
        Ok(pass) => {
            let mut response = match pass.preflight(request.method(), request.headers()) {
                Some(response) => response,
                None => work(request).await,
            };
            pass.mark(&mut response);
            response
        }
    };
    place_under(&prefix, response.headers_mut());
    response.headers_mut().entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    let micros = clock.monotonic_nanos().saturating_sub(start) / 1000;
    if let Some((method, uri)) = told {
        tracing::debug!(%method, path = uri.path(), status = response.status().as_u16(), micros, "request");
    }
    (response, micros)
}

async fn no_route(request: Request) -> Problem {
    let path: String = request.uri().path().chars().take(128).collect();
    Problem::new(
        StatusCode::NOT_FOUND,
        "not-found",
        "The object does not exist",
        format!("nothing is at `{path}`"),
    )
    .hint("GET / lists the paths.")
}

async fn wrong_method(method: Method) -> Problem {
    let method: String = method.as_str().chars().take(32).collect();
    let detail = format!("method `{method}` is not allowed here");
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method-not-allowed", "The method is not allowed", detail)
        .hint("The header field `Allow` lists the allowed methods.")
}

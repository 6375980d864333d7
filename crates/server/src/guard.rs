//! Protects the server from web pages of other sites: checks `Host` (against DNS rebinding) and `Origin` (against cross-site
//! requests) of every request.
//!
//! `Host` has three allowed forms:
//!
//! - `localhost` or a loopback address with any port, so that a forwarded port works;
//! - an address that the server listens on; any address, if it listens on all, because an address cannot be rebound;
//! - a name of `hosts_allowed`.
//!
//! If a browser sends `Origin`, it must be this server or one of `origins_allowed`. Responses to the latter also carry
//! the CORS fields.
//!
//! Probes are accepted with any `Host`, and without one. Kubernetes and Prometheus use an address that the server may not
//! know, and HAProxy uses HTTP/1.0. Their answers contain no secrets.

use std::net::{IpAddr, SocketAddr};

use axum::{
    body::Body,
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header},
    response::Response,
};

use crate::{config::ServerConfig, parameters::cut, problem::Problem};

/// Paths whose requests pass with any `Host`, or none.
const PROBES: [&str; 3] = ["/healthz", "/readyz", "/metrics"];

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");

/// The rules.
#[derive(Debug)]
pub(crate) struct Guard {
    listening: Vec<IpAddr>,
    /// Values of `Host` that most requests have and that need no further check: the listening addresses that are
    /// allowed.
    usual: Vec<String>,
    hosts: Vec<String>,
    origins: Vec<String>,
}

/// A request that is admitted, and the headers that its answer needs for a browser.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct AdmittedRequest {
    /// The origin of another site that may read the answer.
    cross_origin: Option<HeaderValue>,
    /// True if that origin is allowed by its name, false if all are.
    by_name: bool,
}

impl Guard {
    pub(crate) fn new(config: &ServerConfig, addresses: &[SocketAddr]) -> Guard {
        let lower = |name: &String| name.trim_end_matches('/').to_ascii_lowercase();
        let guard = Guard {
            listening: addresses.iter().map(SocketAddr::ip).collect(),
            usual: Vec::new(),
            hosts: config.hosts_allowed.iter().map(lower).collect(),
            origins: config.origins_allowed.iter().map(lower).collect(),
        };
        let usual = addresses.iter().map(SocketAddr::to_string).filter(|host| guard.host_passes(host));
        Guard { usual: usual.collect(), ..guard }
    }

    /// Checks a request; the error has the reason why it is refused.
    pub(crate) fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<AdmittedRequest, Problem> {
        let is_probe = PROBES.contains(&uri.path());
        let host = match single(headers, &header::HOST)? {
            Some(host) => host,
            None if is_probe => "",
            None => {
                return Err(Problem::bad_request("the request has no `Host`").hint("HTTP/1.1 needs one."));
            }
        };
        // In a request for a proxy the target has a host too, and it counts before the field.
        let hosts = uri.authority().map(|authority| authority.as_str()).into_iter().chain([host]);
        for host in hosts.filter(|_| !is_probe) {
            let is_usual = self.usual.iter().any(|usual| usual == host);
            if !is_usual && !self.host_passes(&host.to_ascii_lowercase()) {
                return Err(forbidden(format!("this server is not known as `{}`", cut(host))).hint(
                    "Use an address it listens on, or add the name to the setting `server.hosts_allowed`.",
                ));
            }
        }
        let Some(origin) = single(headers, &header::ORIGIN)? else {
            return match across_sites(headers) {
                true => Err(forbidden("a page of another site sent the request")),
                false => Ok(AdmittedRequest::default()),
            };
        };
        let lower = origin.to_ascii_lowercase();
        let own = lower.strip_prefix("http://").or_else(|| lower.strip_prefix("https://"));
        if own.is_some_and(|own| own.eq_ignore_ascii_case(host)) {
            return Ok(AdmittedRequest::default());
        }
        let by_name = self.origins.contains(&lower);
        // A browser sends its cookies with a WebSocket, and lets every page read the frames: those of a proxy in front would be
        // at every page's service.
        let lends_credentials = headers.contains_key(header::UPGRADE)
            && (headers.contains_key(header::COOKIE) || headers.contains_key(header::AUTHORIZATION));
        if by_name || !lends_credentials && self.origins.iter().any(|allowed| allowed == "*") {
            return Ok(AdmittedRequest { cross_origin: headers.get(header::ORIGIN).cloned(), by_name });
        }
        Err(forbidden(format!("pages of `{}` may not use this server", cut(origin)))
            .hint("Add the origin to the setting `server.origins_allowed`."))
    }

    fn host_passes(&self, host: &str) -> bool {
        let name = without_port(host);
        let address: Option<IpAddr> = name.trim_start_matches('[').trim_end_matches(']').parse().ok();
        let own = match address {
            Some(address) => {
                address.is_loopback()
                    || self.listening.iter().any(|own| *own == address || own.is_unspecified())
            }
            None => name == "localhost",
        };
        own || self.hosts.iter().any(|allowed| allowed == host || allowed == name || allowed == "*")
    }
}

impl AdmittedRequest {
    /// The answer to a browser that asks, before a request, whether it may send it.
    pub(crate) fn preflight(&self, method: &Method, headers: &HeaderMap) -> Option<Response> {
        self.cross_origin.as_ref()?;
        if method != Method::OPTIONS || !headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD) {
            return None;
        }
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NO_CONTENT;
        let answer = response.headers_mut();
        self.allow_credentials(answer);
        answer
            .insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST, PUT, DELETE"));
        if let Some(fields) = headers.get(header::ACCESS_CONTROL_REQUEST_HEADERS) {
            answer.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, fields.clone());
        }
        if headers.contains_key("access-control-request-private-network") {
            let name = HeaderName::from_static("access-control-allow-private-network");
            answer.insert(name, HeaderValue::from_static("true"));
        }
        answer.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
        Some(response)
    }

    /// Adds the fields by which a browser lets the page read the answer.
    pub(crate) fn mark(&self, response: &mut Response) {
        let headers = response.headers_mut();
        headers.append(header::VARY, HeaderValue::from_static("origin"));
        if let Some(origin) = &self.cross_origin {
            headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
            self.allow_credentials(headers);
            let exposed = HeaderValue::from_static("swiftwater-query, location");
            headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
        }
    }
}

impl AdmittedRequest {
    /// This server asks for no credentials, but SockJS's client has the browser send what there is, and then the answer
    /// has to allow it. Not where all origins are: those of a proxy in front would be at every page's service.
    fn allow_credentials(&self, headers: &mut HeaderMap) {
        if self.by_name {
            headers.insert(header::ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
        }
    }
}

/// True if a browser says that another site's page wants something other than to go to a page here. A request that
/// changes something has an `Origin` as well; this is for the others, like an image that is none.
fn across_sites(headers: &HeaderMap) -> bool {
    let is = |name: &HeaderName, value: &str| {
        headers.get(name).is_some_and(|field| field.as_bytes() == value.as_bytes())
    };
    is(&FETCH_SITE, "cross-site") && !is(&FETCH_MODE, "navigate")
}

fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, Problem> {
    let mut fields = headers.get_all(name).iter();
    let Some(field) = fields.next() else { return Ok(None) };
    match (field.to_str(), fields.next()) {
        (Ok(text), None) => Ok(Some(text)),
        _ => Err(Problem::bad_request(format!("the request's `{name}` is doubled or not ASCII"))),
    }
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !name.ends_with(':') => {
            // `::1` without brackets is not a host with a port.
            if name.contains(':') && !name.ends_with(']') { host } else { name }
        }
        _ => host,
    }
}

fn forbidden(detail: impl Into<String>) -> Problem {
    Problem::new(StatusCode::FORBIDDEN, "forbidden", "The request is not allowed", detail)
}

#[cfg(test)]
mod tests {
    use axum::response::IntoResponse;

    use super::*;

    fn guard(listening: &str, hosts: &[&str], origins: &[&str]) -> Guard {
        let own = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let config =
            ServerConfig { hosts_allowed: own(hosts), origins_allowed: own(origins), ..Default::default() };
        Guard::new(&config, &[SocketAddr::new(listening.parse().unwrap(), 8080)])
    }

    fn status(guard: &Guard, fields: &[(&str, &str)]) -> u16 {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
        }
        check(guard, &Uri::from_static("/v1/queries"), &headers)
    }

    fn check(guard: &Guard, uri: &Uri, headers: &HeaderMap) -> u16 {
        guard.check(uri, headers).map_or_else(|problem| problem.into_response().status().as_u16(), |_| 200)
    }

    #[test]
    fn only_own_names_pass() {
        let check = |guard: &Guard, host: &str, expected| {
            assert_eq!(status(guard, &[("host", host)]), expected, "{host}")
        };
        let local = guard("127.0.0.1", &[], &[]);
        for host in
            ["localhost", "LOCALHOST:8080", "127.0.0.1:8080", "127.0.0.1", "[::1]:8080", "localhost:9999"]
        {
            check(&local, host, 200);
        }
        for host in [
            "evil.example",
            "evil.example:8080",
            "localhost.evil.example",
            "10.0.0.1:8080",
            "",
            ":8080",
            "[::",
        ] {
            check(&local, host, 403);
        }
        let named = guard("10.0.0.1", &["db.example", "one.example:80"], &[]);
        check(&named, "10.0.0.1:8080", 200);
        check(&named, "10.0.0.2:8080", 403);
        check(&named, "db.example:8080", 200);
        check(&named, "one.example:80", 200);
        check(&named, "one.example:81", 403);
        let all = guard("0.0.0.0", &[], &[]);
        check(&all, "10.0.0.2:8080", 200);
        check(&all, "evil.example", 403);
        check(&guard("127.0.0.1", &["*"], &[]), "anything.example", 200);
        assert_eq!(status(&local, &[]), 400);
        assert_eq!(status(&local, &[("host", "localhost"), ("host", "localhost")]), 400);
    }

    #[test]
    fn probes_pass_with_any_host_and_with_none() {
        let local = guard("127.0.0.1", &[], &[]);
        for path in PROBES {
            let uri: Uri = path.parse().unwrap();
            let mut headers = HeaderMap::new();
            assert_eq!(check(&local, &uri, &headers), 200, "{path}");
            headers.insert(header::HOST, HeaderValue::from_static("10.244.0.7:8080"));
            assert_eq!(check(&local, &uri, &headers), 200, "{path}");
            // A page of another site may not read them all the same.
            headers.insert(header::ORIGIN, HeaderValue::from_static("https://evil.example"));
            assert_eq!(check(&local, &uri, &headers), 403, "{path}");
        }
        assert_eq!(check(&local, &Uri::from_static("/v1/streams"), &HeaderMap::new()), 400);
    }

    #[test]
    fn only_own_pages_pass() {
        let check = |guard: &Guard, origin: &str, expected| {
            assert_eq!(
                status(guard, &[("host", "localhost:8080"), ("origin", origin)]),
                expected,
                "{origin}"
            );
        };
        let own = guard("127.0.0.1", &[], &["https://console.example/"]);
        check(&own, "http://localhost:8080", 200);
        check(&own, "https://localhost:8080", 200);
        check(&own, "https://console.example", 200);
        for origin in
            ["http://localhost", "http://localhost:3000", "null", "https://evil.example", "localhost:8080"]
        {
            check(&own, origin, 403);
        }
        check(&guard("127.0.0.1", &[], &["*"]), "null", 200);
    }

    #[test]
    fn other_sites_get_nothing_without_an_origin_either() {
        let local = guard("127.0.0.1", &[], &[]);
        let fields =
            |mode| [("host", "localhost"), ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", mode)];
        assert_eq!(status(&local, &fields("no-cors")), 403);
        assert_eq!(status(&local, &fields("navigate")), 200);
    }

    #[test]
    fn a_websocket_lends_credentials_to_named_origins_alone() {
        let fields = |more: &[(&'static str, &'static str)]| {
            let base = [("host", "localhost"), ("origin", "https://a.example"), ("upgrade", "websocket")];
            [&base[..], more].concat()
        };
        let all = guard("127.0.0.1", &[], &["*"]);
        assert_eq!(status(&all, &fields(&[])), 200);
        assert_eq!(status(&all, &fields(&[("cookie", "session=1")])), 403);
        assert_eq!(status(&all, &fields(&[("authorization", "Basic eA==")])), 403);
        let named = guard("127.0.0.1", &[], &["https://a.example"]);
        assert_eq!(status(&named, &fields(&[("cookie", "session=1")])), 200);
    }

    #[test]
    fn the_target_of_a_request_for_a_proxy_counts_too() {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, HeaderValue::from_static("localhost"));
        let uri = Uri::from_static("http://evil.example/v1/queries");
        assert_eq!(check(&guard("127.0.0.1", &[], &[]), &uri, &headers), 403);
    }
}

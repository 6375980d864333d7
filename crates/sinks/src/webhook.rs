//! The webhook sink: posts deliveries to a URL, each with its own key, by which the receiver can deduplicate it.
//!
//! Addresses of this machine and of private networks are reached only if the settings allow it. The name of the host is
//! resolved here, and the connection uses the address that was checked. Redirections are not followed.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use reqwest::{
    Client, StatusCode, Url,
    dns::{Addrs, Name, Resolve, Resolving},
    header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
    redirect::Policy,
};

/// Options of the delivery by POST.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookOptions {
    /// The type of the body, unless the headers state another.
    pub content_type: &'static str,
    /// Headers of each request.
    pub headers: Vec<(String, String)>,
    /// The time a request may take.
    pub timeout: Duration,
    /// Addresses of this machine and of private networks may be reached.
    pub reaches_private: bool,
}

/// A webhook.
#[derive(Debug, Clone)]
pub struct Webhook {
    client: Client,
    url: Url,
    headers: HeaderMap,
}

/// The reason why a webhook does not accept a delivery.
#[derive(Debug, thiserror::Error)]
pub enum WebhookError {
    /// The input is no URL, or no header.
    #[error("{0}")]
    Invalid(String),
    /// A header that the HTTP client or the delivery itself sets.
    #[error("the server sets the header `{0}`, so it cannot be stated")]
    Header(String),
    /// The URL has a user's name or password in it, which everybody who lists sinks would see.
    #[error("the URL contains a user name or a password: state them as `headers = 'Authorization: …'`")]
    Credentials,
    /// It is at an address that may not be reached.
    #[error(
        "`{0}` is at an address of this machine or of a private network, which the settings do not allow \
         (`sinks.private_addresses`)"
    )]
    Private(String),
    /// It did not answer.
    #[error("no answer: {0}")]
    NoAnswer(String),
    /// It answered that it does not take it.
    #[error("it answered {status}{}", body_excerpt(body))]
    Refused {
        /// The status.
        status: u16,
        /// The beginning of what it said.
        body: String,
    },
}

/// Bytes of an answer that an error shows.
const TOLD_BYTES: usize = 200;

fn body_excerpt(body: &str) -> String {
    if body.is_empty() { String::new() } else { format!(": {body}") }
}

impl WebhookError {
    /// Returns true if another attempt would fail in the same way.
    pub fn is_final(&self) -> bool {
        match self {
            WebhookError::Invalid(_)
            | WebhookError::Header(_)
            | WebhookError::Credentials
            | WebhookError::Private(_) => true,
            WebhookError::NoAnswer(_) => false,
            WebhookError::Refused { status, .. } => {
                (400..500).contains(status) && ![408, 425, 429].contains(status)
            }
        }
    }
}

/// Resolves names to public addresses alone.
#[derive(Debug)]
pub(crate) struct PublicOnly;

impl Resolve for PublicOnly {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let public: Vec<SocketAddr> = found.filter(|found| is_public(found.ip())).collect();
            if public.is_empty() {
                return Err(PRIVATE.into());
            }
            Ok(Box::new(public.into_iter()) as Addrs)
        })
    }
}

pub(crate) const PRIVATE: &str = "it is at an address of this machine or of a private network, which the settings do not allow \
                       (`sinks.private_addresses`)";

/// True if an address is one that anybody has.
pub(crate) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_public_v4(v4),
        IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
            Some(v4) => is_public_v4(v4),
            None => is_public_v6(v6),
        },
    }
}

/// Returns true for a public address, by IANA's registry of special-purpose IPv4 addresses (RFC 6890 and later).
fn is_public_v4(address: Ipv4Addr) -> bool {
    let is_special = match address.octets() {
        // "This network", carriers' shared addresses, multicast and what is reserved.
        [0 | 224.., ..] | [100, 64..128, ..] => true,
        // Protocol assignments, relays of 6to4, benchmarks.
        [192, 0, 0, _] | [192, 88, 99, _] | [198, 18 | 19, ..] => true,
        _ => false,
    };
    !(is_special
        || address.is_loopback()
        || address.is_private()
        || address.is_link_local()
        || address.is_documentation())
}

/// Returns true for a public address, by IANA's registry of special-purpose IPv6 addresses. An address of NAT64 is
/// the IPv4 address in it. Tunnels that nobody should use any more (6to4, Teredo, IPv4-compatible) lead to addresses
/// in them, and are not public.
fn is_public_v6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    match segments {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            is_public_v4(Ipv4Addr::from(u32::from(high) << 16 | u32::from(low)))
        }
        // Protocol assignments with Teredo, documentation, 6to4, documentation again.
        [0x2001, 0..0x200 | 0xdb8, ..] | [0x2002, ..] | [0x3fff, 0..0x1000, ..] => false,
        // All that is given out to be reached from everywhere.
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

/// Headers that the HTTP client sets, those between two neighbours (RFC 9110, 7.6.1), and the delivery's own.
const OWN_HEADERS: [&str; 11] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "idempotency-key",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

impl Webhook {
    /// Checks what a webhook is declared as, by the rules for new ones: faults that would last are found here.
    pub fn check(url: &str, options: &WebhookOptions) -> Result<(), WebhookError> {
        let hook = Webhook::new(url, options)?;
        if !hook.url.username().is_empty() || hook.url.password().is_some() {
            return Err(WebhookError::Credentials);
        }
        if !matches!(hook.url.scheme(), "http" | "https") {
            return Err(WebhookError::Invalid(format!("`{url}`: only http and https are supported")));
        }
        // Names of this machine by RFC 6761, whatever resolves them.
        let host = hook.url.host_str().unwrap_or_default().trim_end_matches('.');
        let is_local = host == "localhost" || host.ends_with(".localhost");
        if is_local && !options.reaches_private {
            return Err(WebhookError::Private(url.to_owned()));
        }
        if let Some((name, _)) = options.headers.iter().find(|(name, _)| is_own_header(name)) {
            return Err(WebhookError::Header(name.clone()));
        }
        Ok(())
    }

    /// A webhook at a URL.
    pub fn new(url: &str, options: &WebhookOptions) -> Result<Webhook, WebhookError> {
        let parsed = Url::parse(url)
            .map_err(|error| WebhookError::Invalid(format!("`{}`: {error}", without_credentials(url))))?;
        let shown = without_credentials(url);
        let invalid = |error: &dyn std::fmt::Display| WebhookError::Invalid(format!("`{shown}`: {error}"));
        if !options.reaches_private {
            // An address in place of a name is not resolved.
            let host = parsed.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
            if host.parse().is_ok_and(|address| !is_public(address)) {
                return Err(WebhookError::Private(shown));
            }
        }
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(options.content_type));
        // A declaration of an earlier version may still state one of the client's own.
        for (name, value) in options.headers.iter().filter(|(name, _)| !is_own_header(name)) {
            let name = HeaderName::from_bytes(name.as_bytes()).map_err(|error| invalid(&error))?;
            headers.insert(name, HeaderValue::from_str(value).map_err(|error| invalid(&error))?);
        }
        let builder = Client::builder()
            .redirect(Policy::none())
            .no_proxy()
            .timeout(options.timeout)
            .pool_max_idle_per_host(1)
            .user_agent(concat!("swiftwater/", env!("CARGO_PKG_VERSION")));
        let builder =
            if options.reaches_private { builder } else { builder.dns_resolver(Arc::new(PublicOnly)) };
        let client = builder.build().map_err(|error| invalid(&error))?;
        Ok(Webhook { client, url: parsed, headers })
    }

    /// Posts a body; taken is what is answered by 200 to 299. One that is posted again has the key that it had.
    pub async fn post(&self, body: Bytes, key: &str) -> Result<(), WebhookError> {
        let mut headers = self.headers.clone();
        // The delivery's own, whatever other headers say: by it the receiver knows what it has.
        let key = HeaderValue::from_str(key).map_err(|error| WebhookError::Invalid(error.to_string()))?;
        headers.insert(HeaderName::from_static("idempotency-key"), key);
        let request = self.client.post(self.url.clone()).headers(headers);
        let answer = request.body(body).send().await.map_err(|error| no_answer(&error))?;
        let status = answer.status();
        if status.is_success() {
            return Ok(());
        }
        Err(WebhookError::Refused { status: status.as_u16(), body: beginning(answer, status).await })
    }
}

fn is_own_header(name: &str) -> bool {
    OWN_HEADERS.iter().any(|own| name.eq_ignore_ascii_case(own))
}

/// A URL for messages: what stands before an `@` may be a secret.
pub(crate) fn without_credentials(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    match rest[..end].rfind('@') {
        Some(at) => format!("{scheme}://…@{}", &rest[at + 1..]),
        None => url.to_owned(),
    }
}

/// The causes of an error, which it does not tell itself.
fn no_answer(error: &reqwest::Error) -> WebhookError {
    let mut told = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if cause_text == PRIVATE {
            return WebhookError::Private(error.url().map(ToString::to_string).unwrap_or_default());
        }
        told = format!("{told}: {cause_text}");
        source = cause.source();
    }
    WebhookError::NoAnswer(told)
}

async fn beginning(mut answer: reqwest::Response, status: StatusCode) -> String {
    let mut body = Vec::new();
    while body.len() < TOLD_BYTES && !status.is_redirection() {
        match answer.chunk().await {
            Ok(Some(chunk)) => body.extend_from_slice(&chunk[..chunk.len().min(TOLD_BYTES)]),
            _ => break,
        }
    }
    let text = String::from_utf8_lossy(&body);
    text.chars().filter(|c| !c.is_control()).take(TOLD_BYTES).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    fn options(reaches_private: bool) -> WebhookOptions {
        let headers = vec![("X-Key".to_owned(), "it".to_owned())];
        let content_type = "application/x-ndjson";
        WebhookOptions { content_type, headers, timeout: Duration::from_secs(5), reaches_private }
    }

    /// Answers one request, and returns it.
    async fn post_to_server(answer: &'static str) -> (String, Result<(), WebhookError>) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/in", listener.local_addr().unwrap());
        let hook = Webhook::new(&url, &options(true)).unwrap();
        let serve = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = vec![0; 4096];
            let mut length = 0;
            while !String::from_utf8_lossy(&request[..length]).ends_with("{\"a\":1}\n") {
                length += stream.read(&mut request[length..]).await.unwrap();
            }
            stream.write_all(answer.as_bytes()).await.unwrap();
            String::from_utf8_lossy(&request[..length]).to_lowercase()
        };
        tokio::join!(serve, hook.post(Bytes::from_static(b"{\"a\":1}\n"), "sink-7"))
    }

    #[tokio::test]
    async fn a_delivery_is_posted_with_its_key() {
        let (request, posted) = post_to_server("HTTP/1.1 204 No Content\r\n\r\n").await;
        assert!(posted.is_ok());
        for header in [
            "post /in http/1.1",
            "idempotency-key: sink-7",
            "x-key: it",
            "content-type: application/x-ndjson",
        ] {
            assert!(request.contains(header), "{header} in {request}");
        }
        for (answer, is_final) in [
            ("HTTP/1.1 400 Bad\r\nContent-Length: 2\r\n\r\nno", true),
            ("HTTP/1.1 429 Slow\r\nContent-Length: 0\r\n\r\n", false),
            ("HTTP/1.1 503 Away\r\nContent-Length: 0\r\n\r\n", false),
            ("HTTP/1.1 302 There\r\nLocation: http://example.com/\r\nContent-Length: 0\r\n\r\n", false),
        ] {
            let error = post_to_server(answer).await.1.unwrap_err();
            assert_eq!(error.is_final(), is_final, "{error}");
        }
    }

    #[tokio::test]
    async fn private_addresses_are_reached_only_where_that_is_allowed() {
        for url in [
            "http://127.0.0.1:1/",
            "http://10.1.2.3/",
            "http://[::1]/",
            "http://169.254.169.254/x",
            "http://[::ffff:127.0.0.1]/",
        ] {
            assert!(matches!(Webhook::new(url, &options(false)), Err(WebhookError::Private(_))), "{url}");
            assert!(Webhook::new(url, &options(true)).is_ok(), "{url}");
        }
        let hook = Webhook::new("http://localhost:1/", &options(false)).unwrap();
        let error = hook.post(Bytes::new(), "k").await.unwrap_err();
        assert!(matches!(error, WebhookError::Private(_)), "{error}");
        assert!(matches!(Webhook::new("http://", &options(true)), Err(WebhookError::Invalid(_))));
        for (address, expected) in
            [("8.8.8.8", true), ("100.64.0.1", false), ("2001:4860:4860::8888", true), ("fd00::1", false)]
        {
            assert_eq!(is_public(address.parse().unwrap()), expected, "{address}");
        }
    }

    #[test]
    fn special_addresses_are_not_public() {
        for address in [
            "0.1.2.3",
            "100.127.255.255",
            "192.0.0.8",
            "192.0.2.1",
            "192.88.99.1",
            "198.19.0.1",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::7f00:1",
            "::ffff:10.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b:1::1",
            "100::1",
            "2001::1",
            "2001:10::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "3fff::1",
            "4000::1",
            "fc00::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ] {
            assert!(!is_public(address.parse().unwrap()), "{address}");
        }
        for address in [
            "1.1.1.1",
            "100.63.0.1",
            "100.128.0.1",
            "64:ff9b::808:808",
            "::ffff:8.8.8.8",
            "2a00:1450:4001:80b::200e",
        ] {
            assert!(is_public(address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn declaration_that_could_never_work_is_refused() {
        let check = |url: &str, headers: &[(&str, &str)], reaches_private| {
            let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            let options = WebhookOptions { headers: headers.collect(), ..options(reaches_private) };
            Webhook::check(url, &options).map_err(|error| error.to_string())
        };
        assert_eq!(check("https://example.com/in", &[("Authorization", "Bearer x")], false), Ok(()));
        assert_eq!(check("http://localhost:1/", &[], true), Ok(()));
        for name in ["Content-Length", "host", "Transfer-Encoding", "CONNECTION", "Idempotency-Key"] {
            let error = check("https://example.com/", &[(name, "3")], false).unwrap_err();
            assert!(error.contains(name), "{error}");
        }
        for url in [
            "https://user:secret@example.com/",
            "https://secret@example.com/",
            "https://:secret@example.com/",
        ] {
            let error = check(url, &[], false).unwrap_err();
            assert!(error.contains("Authorization") && !error.contains("secret"), "{error}");
        }
        assert!(!check("https://user:secret@exa mple.com/", &[], false).unwrap_err().contains("secret"));
        for url in [
            "http://localhost/",
            "http://LOCALHOST./",
            "http://a.localhost/",
            "http://127.1/",
            "http://0x7f.1/",
        ] {
            assert!(check(url, &[], false).unwrap_err().contains("sinks.private_addresses"), "{url}");
        }
        for url in ["ftp://example.com/", "example.com", "http://", "file:///etc/passwd"] {
            assert!(check(url, &[], false).is_err(), "{url}");
        }
    }
}

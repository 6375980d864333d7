//! A URL that deliveries are posted to, each with the key of its own by which whoever takes it knows it again.
//!
//! Only where the settings allow it are addresses of this machine and of private networks reached: the name of the host is
//! resolved here, and connected is to what was looked at. Redirections are not followed.

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

/// How deliveries are posted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookOptions {
    /// What the body is, where the headers do not say otherwise.
    pub content_type: &'static str,
    /// Headers of each request.
    pub headers: Vec<(String, String)>,
    /// How long a request may take.
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

/// Why a webhook does not take a delivery.
#[derive(Debug, thiserror::Error)]
pub enum WebhookError {
    /// What it is given is no URL, or no header.
    #[error("{0}")]
    Invalid(String),
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
    #[error("it answered {status}{}", said(body))]
    Refused {
        /// The status.
        status: u16,
        /// The beginning of what it said.
        body: String,
    },
}

/// So much of an answer is told.
const TOLD_BYTES: usize = 200;

fn said(body: &str) -> String {
    if body.is_empty() { String::new() } else { format!(": {body}") }
}

impl WebhookError {
    /// Whether to try again would end in the same.
    pub fn is_final(&self) -> bool {
        match self {
            WebhookError::Invalid(_) | WebhookError::Private(_) => true,
            WebhookError::NoAnswer(_) => false,
            WebhookError::Refused { status, .. } => {
                (400..500).contains(status) && ![408, 425, 429].contains(status)
            }
        }
    }
}

/// Resolves names to public addresses alone.
#[derive(Debug)]
struct PublicOnly;

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

const PRIVATE: &str = "it is at an address of this machine or of a private network, which the settings do not allow \
                       (`sinks.private_addresses`)";

/// Whether an address is one that anybody has.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_public_v4(v4),
        IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
            Some(v4) => is_public_v4(v4),
            None => is_public_v6(v6),
        },
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, ..] = address.octets();
    // 100.64/10 is shared by carriers, 198.18/15 for tests, 240/4 reserved.
    let is_special = a == 0 || a >= 240 || (a == 100 && b & 0xc0 == 64) || (a == 198 && b & 0xfe == 18);
    !(is_special
        || address.is_loopback()
        || address.is_private()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_documentation())
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let first = address.segments()[0];
    // Unique local and link-local ones.
    let is_local = first & 0xfe00 == 0xfc00 || first & 0xffc0 == 0xfe80;
    !(is_local || address.is_loopback() || address.is_unspecified() || address.is_multicast())
}

impl Webhook {
    /// A webhook at a URL.
    pub fn new(url: &str, options: &WebhookOptions) -> Result<Webhook, WebhookError> {
        let invalid = |error: &dyn std::fmt::Display| WebhookError::Invalid(format!("`{url}`: {error}"));
        let parsed = Url::parse(url).map_err(|error| invalid(&error))?;
        if !options.reaches_private {
            // An address in place of a name is not resolved.
            let host = parsed.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
            if host.parse().is_ok_and(|address| !is_public(address)) {
                return Err(WebhookError::Private(url.to_owned()));
            }
        }
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(options.content_type));
        for (name, value) in &options.headers {
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

    /// Answers one request, and tells what it was.
    async fn asked(answer: &'static str) -> (String, Result<(), WebhookError>) {
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
        let (request, posted) = asked("HTTP/1.1 204 No Content\r\n\r\n").await;
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
            let error = asked(answer).await.1.unwrap_err();
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
}

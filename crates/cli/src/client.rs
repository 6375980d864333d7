//! The HTTP client: one request at a time over one connection, bodies streaming in both directions.
//!
//! Small on purpose: HTTP/1.1 without TLS, redirects or proxies.

use std::{io, time::Duration};

use anyhow::{Context, bail};
use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Full, combinators::BoxBody};
use hyper::{
    Method, Request, Response, StatusCode, Uri,
    body::Incoming,
    client::conn::http1::{self, SendRequest},
    header,
};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use tokio::net::TcpStream;

/// A request's body.
pub(crate) type Body = BoxBody<Bytes, io::Error>;

/// The most bytes of an answer that is read as a whole.
const ANSWER_BYTES_MAX: usize = 256 << 20;

/// The most servers that a request is sent to, one after another.
const SENT_ON_MAX: usize = 3;

/// A body that is all there.
pub(crate) fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed()
}

/// The address of a server.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    authority: String,
    host: String,
    port: u16,
}

/// A connection to a server.
pub(crate) struct Connection {
    sender: SendRequest<Body>,
    authority: String,
}

impl Client {
    /// Reads a server's address, as `http://host:port`.
    pub(crate) fn new(url: &str) -> anyhow::Result<Client> {
        let with_scheme = if url.contains("://") { url.to_owned() } else { format!("http://{url}") };
        let uri: Uri = with_scheme.parse().with_context(|| format!("`{url}` is not a server's address"))?;
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") => {
                bail!("`{url}`: https is not supported; use the server's http address, or a local proxy")
            }
            _ => bail!("`{url}` is not a server's address; write for example `http://127.0.0.1:8080`"),
        }
        if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
            bail!("`{url}`: use the server's address without a path");
        }
        let host = uri.host().filter(|host| !host.is_empty());
        let host = host.with_context(|| format!("`{url}` names no host"))?;
        let port = uri.port_u16().unwrap_or(80);
        // An IPv6 address stands in brackets in a URL, and without them for the resolver.
        let bare = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        Ok(Client { authority: format!("{host}:{port}"), host: bare, port })
    }

    /// Opens a connection. See [`refused`] for the error if no server listens.
    pub(crate) async fn connect(&self) -> anyhow::Result<Connection> {
        let connected = TcpStream::connect((self.host.as_str(), self.port)).await;
        let stream = connected.with_context(|| {
            format!(
                "cannot reach a server at http://{} (start one with `swiftwater serve` or `swiftwater demo`)",
                self.authority
            )
        })?;
        stream.set_nodelay(true).context("cannot set up the connection")?;
        let handshake = http1::handshake::<_, Body>(TokioIo::new(stream)).await;
        let (sender, connection) = handshake.context("cannot set up the connection")?;
        // Ends with the connection; what goes wrong in it also fails the request.
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "the connection ended");
            }
        });
        Ok(Connection { sender, authority: self.authority.clone() })
    }

    /// Opens a connection, and tries again while nobody is there, up to `patience`.
    pub(crate) async fn connect_patiently(&self, patience: Duration) -> anyhow::Result<Connection> {
        let trying = async {
            loop {
                match self.connect().await {
                    Err(error) if refused(&error) => tokio::time::sleep(Duration::from_millis(100)).await,
                    connected => return connected,
                }
            }
        };
        match tokio::time::timeout(patience, trying).await {
            Ok(connected) => connected,
            Err(_) => self.connect().await,
        }
    }

    /// Sends one request over a connection of its own. A node of a cluster may send it on to another node, once or twice: also
    /// returns the server that answered.
    pub(crate) async fn ask(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> anyhow::Result<(Client, Response<Incoming>)> {
        let (mut client, mut path) = (self.clone(), path.to_owned());
        for _ in 0..SENT_ON_MAX {
            let mut connection = client.connect().await?;
            let response = connection.send(method.clone(), &path, headers, full(body.to_owned())).await?;
            if response.status() != StatusCode::TEMPORARY_REDIRECT {
                return Ok((client, response));
            }
            let place = response.headers().get(header::LOCATION).and_then(|place| place.to_str().ok());
            let place: Uri =
                place.unwrap_or_default().parse().context("the server sends the request nowhere")?;
            let authority = place.authority().context("the server sends the request nowhere")?;
            client = Client::new(&format!("{}://{authority}", place.scheme_str().unwrap_or("http")))?;
            path = place.path_and_query().map_or_else(String::new, ToString::to_string);
        }
        bail!("the nodes of the cluster send the request to each other")
    }

    /// Sends one request as [`Client::ask`] does, and reads the whole answer.
    pub(crate) async fn fetch(&self, method: Method, path: &str) -> anyhow::Result<(StatusCode, Bytes)> {
        let (_, response) = self.ask(method, path, &[], "").await?;
        let status = response.status();
        Ok((status, read_all(response).await?))
    }
}

/// Returns true if an error means that nobody listens there (yet).
pub(crate) fn refused(error: &anyhow::Error) -> bool {
    let kind =
        |cause: &(dyn std::error::Error + 'static)| cause.downcast_ref::<io::Error>().map(io::Error::kind);
    error.chain().any(|cause| kind(cause) == Some(io::ErrorKind::ConnectionRefused))
}

impl Connection {
    /// Sends a request; answers as soon as the answer begins.
    pub(crate) async fn send(
        &mut self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Body,
    ) -> anyhow::Result<Response<Incoming>> {
        let mut request = Request::builder().method(method).uri(path).header(header::HOST, &self.authority);
        request = request.header(header::USER_AGENT, concat!("swiftwater/", env!("CARGO_PKG_VERSION")));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(body).context("cannot build the request")?;
        self.sender.ready().await.context("the server closed the connection")?;
        self.sender.send_request(request).await.context("the server did not answer")
    }
}

/// Reads an answer to its end.
pub(crate) async fn read_all(response: Response<Incoming>) -> anyhow::Result<Bytes> {
    let body = http_body_util::Limited::new(response.into_body(), ANSWER_BYTES_MAX);
    let read = body.collect().await;
    let collected = read.map_err(|error| anyhow::anyhow!("the server's answer ended early: {error}"))?;
    Ok(collected.to_bytes())
}

/// An answer's lines, as they come.
pub(crate) struct Lines {
    body: Incoming,
    buffer: BytesMut,
    /// The place up to which the buffer has no line end.
    searched: usize,
    ended: bool,
}

impl Lines {
    /// The lines of this answer.
    pub(crate) fn of(response: Response<Incoming>) -> Lines {
        Lines { body: response.into_body(), buffer: BytesMut::new(), searched: 0, ended: false }
    }

    /// The next line without its end; none after the last. May be cancelled without losing any.
    pub(crate) async fn next(&mut self) -> anyhow::Result<Option<Bytes>> {
        loop {
            if let Some(at) = memchr::memchr(b'\n', &self.buffer[self.searched..]) {
                let mut line = self.buffer.split_to(self.searched + at + 1);
                line.truncate(line.len() - 1);
                self.searched = 0;
                return Ok(Some(line.freeze()));
            }
            self.searched = self.buffer.len();
            if self.ended {
                self.searched = 0;
                let rest = self.buffer.split().freeze();
                return Ok(if rest.is_empty() { None } else { Some(rest) });
            }
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.buffer.extend_from_slice(&data);
                    }
                }
                Some(Err(error)) => {
                    return Err(anyhow::Error::new(error).context("the server's answer ended early"));
                }
                None => self.ended = true,
            }
        }
    }
}

/// A server's error response (RFC 9457).
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Problem {
    title: String,
    detail: String,
    line: Option<usize>,
    column: Option<usize>,
    hint: Option<String>,
    excerpt: Option<String>,
    errors: Vec<Problem>,
    message: String,
}

impl Problem {
    /// Reads a refusal; any text will do.
    pub(crate) fn read(status: StatusCode, body: &[u8]) -> Problem {
        serde_json::from_slice(body).unwrap_or_else(|_| Problem {
            title: format!("the server answered {status}"),
            detail: String::from_utf8_lossy(&body[..body.len().min(500)]).trim().to_owned(),
            ..Problem::default()
        })
    }

    /// The fault, in one sentence, and the hint.
    pub(crate) fn summary(&self) -> String {
        let what = if self.detail.is_empty() { &self.title } else { &self.detail };
        match &self.hint {
            Some(hint) => format!("{what}\n{hint}"),
            None => what.clone(),
        }
    }

    /// The text for a person, with the place in `query`, if it is known.
    pub(crate) fn text(&self, query: Option<&str>) -> String {
        if !self.errors.is_empty() {
            return self.errors.iter().map(|error| error.text(query)).collect::<Vec<_>>().join("\n");
        }
        let message = [&self.message, &self.detail, &self.title].into_iter().find(|text| !text.is_empty());
        let message = message.map_or("the server refused the request", String::as_str);
        let mut out = String::new();
        let place = self.line.zip(self.column);
        // A message that has its place and its excerpt with it is shown as it is.
        if let Some((line, column)) =
            place.filter(|(line, column)| !message.starts_with(&format!("{line}:{column}")))
        {
            out.push_str(&format!("{line}:{column}: "));
        }
        out.push_str(message);
        if !message.contains('^') {
            let excerpt = self.excerpt.clone().filter(|excerpt| !excerpt.is_empty());
            let drawn = || place.zip(query).and_then(|((line, column), query)| caret(query, line, column));
            if let Some(excerpt) = excerpt.or_else(drawn) {
                out.push('\n');
                out.push_str(&excerpt);
            }
        }
        if let Some(hint) = self.hint.as_ref().filter(|hint| !message.contains(hint.as_str())) {
            out.push('\n');
            out.push_str(hint);
        }
        out
    }
}

/// A line of text and a caret under a column, both from 1.
fn caret(text: &str, line: usize, column: usize) -> Option<String> {
    let shown = text.lines().nth(line.checked_sub(1)?)?.replace('\t', " ");
    let before: String = shown.chars().take(column.checked_sub(1)?).collect();
    Some(format!("{shown}\n{}^", " ".repeat(unicode_width::UnicodeWidthStr::width(before.as_str()))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read() {
        for (url, authority) in [
            ("http://127.0.0.1:8080", "127.0.0.1:8080"),
            ("http://localhost:8080/", "localhost:8080"),
            ("localhost:9", "localhost:9"),
            ("http://[::1]:8080", "[::1]:8080"),
            ("http://somewhere", "somewhere:80"),
        ] {
            assert_eq!(Client::new(url).unwrap().authority, authority);
        }
        assert_eq!(Client::new("http://[::1]:8080").unwrap().host, "::1");
    }

    #[test]
    fn what_is_not_spoken_is_said() {
        let refusal = |url| Client::new(url).unwrap_err().to_string();
        assert!(refusal("https://x:1").contains("https is not supported"), "{}", refusal("https://x:1"));
        assert!(refusal("ftp://x").contains("not a server's address"));
        assert!(refusal("http://x:1/v1").contains("without a path"));
        assert!(refusal("").contains("not a server's address"));
    }

    #[test]
    fn a_refusal_shows_the_place() {
        let body =
            br#"{"title":"x","detail":"no such word","line":2,"column":3,"hint":"Say something else."}"#;
        let problem = Problem::read(StatusCode::BAD_REQUEST, body);
        assert_eq!(
            problem.text(Some("SELECT\n\u{6f22}\u{5b57}x")),
            "2:3: no such word\n漢字x\n    ^\nSay something else."
        );
        assert_eq!(problem.text(None), "2:3: no such word\nSay something else.");
    }

    #[test]
    fn a_refusal_that_is_no_json_is_shown() {
        let problem = Problem::read(StatusCode::BAD_GATEWAY, b"<html>");
        assert_eq!(problem.text(None), "<html>");
    }
}

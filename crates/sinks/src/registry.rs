//! The client of a schema registry: gets, or posts, one small document after the other.
//!
//! Knows nothing of their contents. The password is read from its file for each request, so that a new one needs no start. It is
//! sent to the registry alone: redirections are not followed. Addresses are checked as those of webhooks are.

use std::{net::IpAddr, path::PathBuf, sync::Arc, time::Duration};

use bytes::Bytes;
use reqwest::{
    Certificate, Client, RequestBuilder, Response, Url,
    header::{ACCEPT, CONTENT_TYPE},
    redirect::Policy,
};

use crate::webhook::{PRIVATE, PublicOnly, is_public, without_credentials};

/// The options of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistryOptions {
    /// The name for basic authentication.
    pub username: Option<String>,
    /// The file with the password.
    pub password_file: Option<PathBuf>,
    /// A PEM file with authorities to trust beside those of the system.
    pub ca_file: Option<PathBuf>,
    /// The time a request may take.
    pub timeout: Duration,
    /// The largest document.
    pub bytes_max: usize,
    /// Addresses of this machine and of private networks may be reached.
    pub reaches_private: bool,
}

/// The media types of a registry's documents.
const DOCUMENTS: &str = "application/vnd.schemaregistry.v1+json, application/json";

/// A client of one registry.
#[derive(Debug, Clone)]
pub struct RegistryClient {
    client: Client,
    url: Url,
    username: Option<String>,
    password_file: Option<PathBuf>,
    bytes_max: usize,
}

/// The reason why there is no document.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// The input is no URL, or the authorities cannot be used.
    #[error("{0}")]
    Invalid(String),
    /// It is at an address that may not be reached.
    #[error("`{0}` is at an address of this machine or of a private network")]
    Private(String),
    /// The file with the password cannot be read.
    #[error("the password cannot be read from {}: {source}", path.display())]
    Password {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// It did not answer.
    #[error("no answer: {0}")]
    NoAnswer(String),
    /// It answered, but not with a document.
    #[error("it answered {0}")]
    Status(u16),
    /// It refused a document that was posted.
    #[error("it answered {status}")]
    Refused {
        /// The status.
        status: u16,
        /// Its answer, which has the reason; empty if that cannot be read.
        answer: Bytes,
    },
    /// The document is larger than allowed.
    #[error("its answer has more than {0} bytes")]
    TooLarge(usize),
}

impl RegistryClient {
    /// A client of the registry at a URL. Reads the file of authorities.
    pub fn new(url: &str, options: &RegistryOptions) -> Result<RegistryClient, RegistryError> {
        let shown = without_credentials(url);
        let invalid = |error: &dyn std::fmt::Display| RegistryError::Invalid(format!("`{shown}`: {error}"));
        let parsed = Url::parse(url).map_err(|error| invalid(&error))?;
        if !matches!(parsed.scheme(), "http" | "https") || parsed.cannot_be_a_base() {
            return Err(invalid(&"only http and https are supported"));
        }
        let mut builder = Client::builder()
            .redirect(Policy::none())
            .no_proxy()
            .timeout(options.timeout)
            .pool_max_idle_per_host(1)
            .user_agent(concat!("swiftwater/", env!("CARGO_PKG_VERSION")));
        if !options.reaches_private {
            let host = parsed.host_str().unwrap_or_default();
            let name = host.trim_end_matches('.');
            let is_local = name == "localhost" || name.ends_with(".localhost");
            let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
            if is_local || address.is_ok_and(|address| !is_public(address)) {
                return Err(RegistryError::Private(shown));
            }
            builder = builder.dns_resolver(Arc::new(PublicOnly));
        }
        if let Some(path) = &options.ca_file {
            let failed = |error: &dyn std::fmt::Display| {
                RegistryError::Invalid(format!("authorities cannot be read from {}: {error}", path.display()))
            };
            let pem = std::fs::read(path).map_err(|error| failed(&error))?;
            let certificates = Certificate::from_pem_bundle(&pem).map_err(|error| failed(&error))?;
            builder = certificates.into_iter().fold(builder, reqwest::ClientBuilder::add_root_certificate);
        }
        let client = builder.build().map_err(|error| invalid(&error))?;
        let RegistryOptions { username, password_file, bytes_max, .. } = options.clone();
        Ok(RegistryClient { client, url: parsed, username, password_file, bytes_max })
    }

    /// Gets the document below the registry's URL at a path, whose parts need no escapes.
    pub async fn get(&self, path: &[&str]) -> Result<Bytes, RegistryError> {
        let answer = self.ask(self.client.get(self.url_of(path))).await?;
        match answer.status() {
            status if status.is_success() => self.body(answer).await,
            status => Err(RegistryError::Status(status.as_u16())),
        }
    }

    /// Posts a document, JSON, below the registry's URL to a path, whose parts need no escapes, and returns the answer.
    pub async fn post(&self, path: &[&str], document: String) -> Result<Bytes, RegistryError> {
        let request = self.client.post(self.url_of(path)).body(document);
        let request = request.header(CONTENT_TYPE, "application/vnd.schemaregistry.v1+json");
        let answer = self.ask(request).await?;
        let status = answer.status();
        if status.is_success() {
            return self.body(answer).await;
        }
        let answer = self.body(answer).await.unwrap_or_default();
        Err(RegistryError::Refused { status: status.as_u16(), answer })
    }

    fn url_of(&self, path: &[&str]) -> Url {
        let mut url = self.url.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        url
    }

    async fn ask(&self, request: RequestBuilder) -> Result<Response, RegistryError> {
        let mut request = request.header(ACCEPT, DOCUMENTS);
        if let Some(username) = &self.username {
            request = request.basic_auth(username, self.password()?);
        }
        request.send().await.map_err(no_answer)
    }

    async fn body(&self, mut answer: Response) -> Result<Bytes, RegistryError> {
        let mut body = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(no_answer)? {
            if body.len() + chunk.len() > self.bytes_max {
                return Err(RegistryError::TooLarge(self.bytes_max));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body.into())
    }

    /// The password, without the line end of its file.
    fn password(&self) -> Result<Option<String>, RegistryError> {
        let Some(path) = &self.password_file else { return Ok(None) };
        match std::fs::read_to_string(path) {
            Ok(text) => Ok(Some(text.trim_end_matches(['\n', '\r']).to_owned())),
            Err(source) => Err(RegistryError::Password { path: path.clone(), source }),
        }
    }
}

/// The causes of an error, without its URL.
fn no_answer(error: reqwest::Error) -> RegistryError {
    let url = error.url().map(|url| without_credentials(url.as_str())).unwrap_or_default();
    let error = error.without_url();
    let mut text = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if cause_text == PRIVATE {
            return RegistryError::Private(url);
        }
        text = format!("{text}: {cause_text}");
        source = cause.source();
    }
    RegistryError::NoAnswer(text)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    fn options() -> RegistryOptions {
        RegistryOptions {
            username: None,
            password_file: None,
            ca_file: None,
            timeout: Duration::from_secs(5),
            bytes_max: 100,
            reaches_private: true,
        }
    }

    /// Answers one request, and returns it.
    async fn get(
        options: &RegistryOptions,
        path: &[&str],
        answer: String,
    ) -> (String, Result<Bytes, RegistryError>) {
        ask(options, path, None, answer).await
    }

    /// Answers one request, which posts a document if there is one, and returns it.
    async fn ask(
        options: &RegistryOptions,
        path: &[&str],
        document: Option<&str>,
        answer: String,
    ) -> (String, Result<Bytes, RegistryError>) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = RegistryClient::new(&format!("http://{}/sub", listener.local_addr().unwrap()), options);
        let client = client.unwrap();
        let serve = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let (mut request, mut length) = (vec![0; 4096], 0);
            let end = format!("\r\n\r\n{}", document.unwrap_or_default());
            while !String::from_utf8_lossy(&request[..length]).ends_with(&end) {
                length += stream.read(&mut request[length..]).await.unwrap();
            }
            stream.write_all(answer.as_bytes()).await.unwrap();
            String::from_utf8_lossy(&request[..length]).into_owned()
        };
        let asked = async {
            match document {
                None => client.get(path).await,
                Some(document) => client.post(path, document.to_owned()).await,
            }
        };
        tokio::join!(serve, asked)
    }

    fn with_body(body: &str) -> String {
        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())
    }

    #[tokio::test]
    async fn document_is_got_with_the_password_of_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("password");
        std::fs::write(&file, "se:cret\n").unwrap();
        let with_password = RegistryOptions {
            username: Some("me".to_owned()),
            password_file: Some(file.clone()),
            ..options()
        };
        let (request, body) = get(&with_password, &["schemas", "ids", "7"], with_body("{}")).await;
        assert_eq!(body.unwrap(), "{}");
        assert!(request.starts_with("GET /sub/schemas/ids/7 HTTP/1.1\r\n"), "{request}");
        assert!(request.contains("authorization: Basic bWU6c2U6Y3JldA==\r\n"), "{request}");
        let (request, _) = get(&options(), &["subjects", "a b/ü", "versions", "1"], with_body("{}")).await;
        assert!(request.starts_with("GET /sub/subjects/a%20b%2F%C3%BC/versions/1 "), "{request}");
        assert!(!request.contains("uthorization"), "{request}");
        std::fs::remove_file(&file).unwrap();
        let client = RegistryClient::new("http://127.0.0.1:1", &with_password).unwrap();
        assert!(matches!(client.get(&["x"]).await, Err(RegistryError::Password { .. })));
    }

    #[tokio::test]
    async fn document_is_posted_and_its_refusal_has_the_reason() {
        let path = ["subjects", "a-value", "versions"];
        let (request, body) =
            ask(&options(), &path, Some("{\"schema\":\"x\"}"), with_body("{\"id\":1}")).await;
        assert_eq!(body.unwrap(), "{\"id\":1}");
        assert!(request.starts_with("POST /sub/subjects/a-value/versions HTTP/1.1\r\n"), "{request}");
        assert!(request.contains("content-type: application/vnd.schemaregistry.v1+json\r\n"), "{request}");
        assert!(!request.contains("uthorization"), "{request}");
        let reason = r#"{"error_code":409,"message":"incompatible"}"#;
        let refusal = format!("HTTP/1.1 409 It is\r\nContent-Length: {}\r\n\r\n{reason}", reason.len());
        match ask(&options(), &path, Some("{}"), refusal).await.1 {
            Err(RegistryError::Refused { status: 409, answer }) => assert_eq!(answer, reason),
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn faults_are_told_apart() {
        let status =
            |status: u16| format!("HTTP/1.1 {status} It is\r\nContent-Length: 0\r\nLocation: /x\r\n\r\n");
        for code in [302, 401, 404, 500] {
            let (_, answer) = get(&options(), &["x"], status(code)).await;
            assert!(matches!(answer, Err(RegistryError::Status(found)) if found == code), "{answer:?}");
        }
        let (_, answer) = get(&options(), &["x"], with_body(&"x".repeat(101))).await;
        assert!(matches!(answer, Err(RegistryError::TooLarge(100))), "{answer:?}");
        let (_, answer) = get(&options(), &["x"], String::new()).await;
        assert!(matches!(answer, Err(RegistryError::NoAnswer(_))), "{answer:?}");
        let public = RegistryOptions { reaches_private: false, ..options() };
        for url in ["http://localhost:8081", "http://10.1.2.3", "http://[::1]:1", "http://r.localhost./x"] {
            assert!(matches!(RegistryClient::new(url, &public), Err(RegistryError::Private(_))), "{url}");
        }
        assert!(matches!(RegistryClient::new("ftp://r", &options()), Err(RegistryError::Invalid(_))));
        let no_file = RegistryOptions { ca_file: Some("/none".into()), ..options() };
        assert!(matches!(RegistryClient::new("https://r", &no_file), Err(RegistryError::Invalid(_))));
    }
}

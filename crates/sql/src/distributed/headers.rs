//! The headers with which a node calls a worker: the secret, the release, and the statement.

use std::sync::Arc;

use datafusion::common::{DataFusionError, Result};
use http::{HeaderMap, HeaderValue};

/// The secret that nodes share: `Bearer …`.
const AUTHORIZATION: &str = "authorization";
/// The release of the caller. Plans are read by the same release only.
const VERSION: &str = "swiftwater-version";
/// The number of the statement.
const STATEMENT: &str = "swiftwater-statement";

/// The headers of all calls of a statement.
#[derive(Debug, Clone, Default)]
pub(super) struct WorkerHeaders(pub(super) HeaderMap);

/// The release, and the form of its plans.
pub(super) fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

impl WorkerHeaders {
    pub(super) fn new(secret: Option<&Arc<str>>, statement: u64) -> Result<WorkerHeaders> {
        let mut headers = HeaderMap::new();
        if let Some(secret) = secret {
            let mut value = HeaderValue::from_str(&format!("Bearer {secret}"))
                .map_err(|error| DataFusionError::External(Box::new(error)))?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        headers.insert(VERSION, HeaderValue::from_static(version()));
        headers.insert(STATEMENT, HeaderValue::from(statement));
        Ok(WorkerHeaders(headers))
    }

    /// The number of the statement; 0 without one.
    pub(super) fn statement(headers: &HeaderMap) -> u64 {
        let text = headers.get(STATEMENT).and_then(|value| value.to_str().ok());
        text.and_then(|text| text.parse().ok()).unwrap_or(0)
    }
}

/// Checks the headers of a call.
pub(super) fn check(headers: &HeaderMap, secret: Option<&Arc<str>>) -> Result<(), (bool, String)> {
    let found = headers.get(AUTHORIZATION).map(HeaderValue::as_bytes);
    if let Some(secret) = secret
        && !found.is_some_and(|found| equal(found, format!("Bearer {secret}").as_bytes()))
    {
        return Err((true, "the secret of the caller is another one: sql.worker_secret_file".to_owned()));
    }
    let release = headers.get(VERSION).and_then(|value| value.to_str().ok()).unwrap_or("unknown");
    if release != version() {
        let text = format!("the caller is release {release}, and this worker {}", version());
        return Err((false, text));
    }
    Ok(())
}

/// Compares in a time that does not depend on where the texts differ.
fn equal(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}

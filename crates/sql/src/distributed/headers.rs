//! The headers with which a node calls a worker: the secret, the release, and the statement.

use std::sync::Arc;

use datafusion::common::{DataFusionError, Result};
use http::{HeaderMap, HeaderValue};

use super::statements::TaskNumber;

/// The secret that nodes share: `Bearer …`.
const AUTHORIZATION: &str = "authorization";
/// The release of the caller. Plans are read by the same release only.
const VERSION: &str = "swiftwater-version";
/// The number of the statement.
const STATEMENT: &str = "swiftwater-statement";

/// The stage of a task, and its number there: `2.0`.
const TASK: &str = "swiftwater-task";

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

    /// The headers of a call that begins a task.
    pub(super) fn with_task(&self, number: TaskNumber) -> Result<WorkerHeaders> {
        let mut headers = self.0.clone();
        let value = HeaderValue::from_str(&format!("{}.{}", number.stage, number.task))
            .map_err(|error| DataFusionError::External(Box::new(error)))?;
        headers.insert(TASK, value);
        Ok(WorkerHeaders(headers))
    }

    /// The number of the task that a call begins.
    pub(super) fn task(headers: &HeaderMap) -> TaskNumber {
        let text = headers.get(TASK).and_then(|value| value.to_str().ok());
        let number = text.and_then(|text| text.split_once('.'));
        let number = number.and_then(|(stage, task)| Some((stage.parse().ok()?, task.parse().ok()?)));
        number.map_or_else(TaskNumber::default, |(stage, task)| TaskNumber { stage, task })
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

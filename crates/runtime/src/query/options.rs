//! The options of a query's submission, and the answer to a detached submission.

use std::sync::{Arc, OnceLock};

use swiftwater_event::Millis;
use swiftwater_lang::{
    Dialect, ParseOptions, QueryErrors, Schema, parse, parse_json,
    plan::{Literal, Statement},
};

use swiftwater_live::QueryNumber;

use crate::{QueryId, stream::Stream};

/// The way a query is to stand.
#[derive(Debug, Clone, Default)]
pub struct SubmitOptions {
    /// The dialect of the query.
    pub dialect: Dialect,
    /// One answer is wanted, at the end, rather than a stream of them.
    pub one_answer: bool,
    /// It outlives its asker.
    pub detach: bool,
    /// Milliseconds for which it outlives each of its readers, at most `engine.linger_ms_max`; 0: it does not. A query that
    /// outlives its asker for good has no such time.
    pub linger_ms: u64,
    /// Each record tells when its event was sent, read, matched and answered (under `_times`).
    pub times: bool,
    /// Declared types of the stream's fields.
    pub schema: Option<Arc<Schema>>,
    /// The types of the values in the events, where that is known apart from the schema.
    pub types: Option<Arc<Schema>>,
    /// The values of `$1`, `$2`, … in the text.
    pub parameters: Vec<Literal>,
    /// The way the query is written.
    pub form: QueryForm,
    /// The time that it stands, in place of what the text says.
    pub duration_ms: Option<u64>,
    /// A warning for its client, besides those that its text gives rise to.
    pub warning: Option<String>,
    /// Over a cluster: windows wait for all partitions, however long. Else they close without those that are behind, and say so.
    pub waits: bool,
    /// The stream is one whose events are matched elsewhere.
    pub remote: Option<RemoteStart>,
}

/// A stream whose events are matched elsewhere, and the time of a new query's beginning.
#[derive(Debug, Clone)]
pub struct RemoteStart {
    /// The stream.
    pub stream: Arc<Stream>,
    /// The query's identity, which it has on all nodes.
    pub id: QueryId,
    /// The query sees the events from this time on.
    pub begins: Millis,
    /// The query's number in this process, once it stands.
    pub number: Arc<OnceLock<QueryNumber>>,
}

/// A query that outlives its asker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Detached {
    /// Its identity.
    pub id: QueryId,
    /// The reason why it does not outlive the server; none if it does.
    pub fleeting: Option<Box<str>>,
    /// The warnings for its client.
    pub warnings: Vec<String>,
}

/// The way a query is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum QueryForm {
    /// The text is BQL.
    #[default]
    Bql,
    /// The text is a JSON object, Bullet's older form.
    Json,
}

impl QueryForm {
    /// The form that a text can only have: BQL never begins with a brace.
    #[must_use]
    pub fn of(text: &str) -> QueryForm {
        match text.trim_start_matches('\u{feff}').trim_start().starts_with('{') {
            true => QueryForm::Json,
            false => QueryForm::Bql,
        }
    }

    /// The text's plan, or all faults found in it.
    pub fn parse(self, text: &str, options: &ParseOptions<'_>) -> Result<Statement, QueryErrors> {
        match self {
            QueryForm::Bql => parse(text, options),
            // A byte order mark is no part of it.
            QueryForm::Json => parse_json(text.strip_prefix('\u{feff}').unwrap_or(text), options),
        }
    }
}

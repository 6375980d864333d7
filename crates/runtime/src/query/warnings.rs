//! Warns about a submitted query that can match nothing. If declared types prove it, this is an error.
//!
//! Field names are checked against the declared columns, the columns found in a stored stream's events, and a sample of the
//! events of this process ([`SeenFields`](crate::stream::SeenFields)). Only the native dialect is checked, and only BQL as
//! text.

use swiftwater_event::{Millis, StreamName, did_you_mean};
use swiftwater_lang::{Dialect, QueryErrors, QueryWarning, warnings};

use crate::{QueryForm, Runtime, RuntimeError, SubmitOptions};

/// Warnings of doubts; an error where some are certain.
pub(crate) fn warnings_of(doubts: Vec<QueryWarning>) -> Result<Vec<String>, RuntimeError> {
    let (certain, others): (Vec<QueryWarning>, Vec<QueryWarning>) =
        doubts.into_iter().partition(|doubt| doubt.is_certain);
    match certain.is_empty() {
        true => Ok(others.iter().map(QueryWarning::to_string).collect()),
        false => {
            Err(RuntimeError::Query(QueryErrors(certain.into_iter().map(|doubt| doubt.warning).collect())))
        }
    }
}

impl Runtime {
    /// The warnings for a query over a stream that can match nothing.
    pub fn warnings(
        &self,
        text: &str,
        options: &SubmitOptions,
        now: Millis,
        stream: &StreamName,
    ) -> Result<Vec<String>, RuntimeError> {
        if options.dialect != Dialect::Native || options.form != QueryForm::Bql {
            return Ok(Vec::new());
        }
        let seen = self.seen_fields(stream);
        let seen: Vec<&str> = seen.iter().map(|name| &**name).collect();
        let (found, _) =
            self.with_parse_options(text, options, now, |options| warnings(text, options, &seen));
        warnings_of(found)
    }

    /// Fields that events of a stream have; none where they are not known.
    fn seen_fields(&self, stream: &StreamName) -> Vec<Box<str>> {
        let shared = self.shared();
        let durable = shared.durable.get();
        if durable.is_some_and(|durable| durable.is_view(stream.as_str())) {
            return Vec::new();
        }
        let mut names = shared.find_stream(stream).map(|stream| stream.fields.names()).unwrap_or_default();
        names.extend(durable.map(|durable| durable.found_fields(stream)).unwrap_or_default());
        names
    }

    /// The warning that a stream has had no event, with another name that may have been meant.
    pub(crate) fn no_event_yet(&self, stream: &StreamName) -> String {
        let shared = self.shared();
        let mut names = shared.stream_names();
        if let Some(durable) = shared.durable.get() {
            names.extend(durable.names());
        }
        names.retain(|name| name != stream.as_str());
        let alike = names.iter().map(String::as_str).find(|name| name.eq_ignore_ascii_case(stream.as_str()));
        let near = alike.or_else(|| did_you_mean(stream.as_str(), names.iter().map(String::as_str)));
        match near {
            Some(near) => format!("stream `{stream}` has had no event yet. Did you mean `{near}`?"),
            None => format!("stream `{stream}` has had no event yet"),
        }
    }
}

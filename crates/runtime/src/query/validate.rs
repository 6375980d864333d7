//! Checks a query without running it.

use std::sync::Arc;

use swiftwater_event::StreamName;
use swiftwater_lang::{
    ColumnRole,
    plan::{Explain, Window},
};

use crate::{Principal, Runtime, RuntimeError, SubmitOptions, runtime::compile};

/// The facts of a query that could be run.
#[derive(Debug, Clone, PartialEq)]
pub struct QueryFacts {
    /// The stream that it would look at.
    pub stream: StreamName,
    /// Names of its columns in order, where they are known before the events are (not for `*`).
    pub columns: Option<Arc<[Box<str>]>>,
    /// The roles of those columns.
    pub roles: Option<Vec<ColumnRole>>,
    /// True if it answers by windows.
    pub has_window: bool,
    /// The part of the plan that an EXPLAIN asks for; none if the answer is asked for.
    pub explain: Option<Explain>,
    /// The time it would stand at most, in milliseconds; `None`: as long as it may.
    pub duration_ms: Option<u64>,
    /// The warnings before it is run.
    pub warnings: Vec<String>,
}

impl Runtime {
    /// The facts of a query that would run, or the reason why it cannot.
    pub fn check(
        &self,
        principal: &Principal,
        text: &str,
        options: &SubmitOptions,
    ) -> Result<QueryFacts, RuntimeError> {
        let statement = self.parse(text, options)?;
        let explain = statement.explain;
        let query = compile(statement, self.config())?;
        let config = self.config();
        let stream = query.plan.stream.clone().or_else(|| config.default_stream.clone());
        let stream = stream.ok_or(RuntimeError::NoDefaultStream)?;
        let mut warnings = Vec::new();
        let is_view = || {
            let durable = self.shared().durable.get();
            durable.is_some_and(|durable| durable.is_view(stream.as_str()))
        };
        if self.stream(principal, &stream).is_err() && !is_view() {
            warnings.push(self.no_event_yet(&stream));
        }
        warnings.extend(self.warnings(text, options, self.clock().now(), &stream)?);
        if let Some(wanted) = query.plan.duration_ms
            && (1..wanted).contains(&config.query_duration_ms_max)
        {
            let most = config.query_duration_ms_max;
            warnings.push(format!(
                "the query would run for {most} ms instead of {wanted} (`engine.query_duration_ms_max`)"
            ));
        }
        let set = |ms: u64| Some(ms).filter(|&ms| ms > 0);
        let most = set(config.query_duration_ms_max);
        let stated = query.plan.duration_ms.or(set(config.query_duration_ms_default));
        Ok(QueryFacts {
            stream,
            columns: query.column_names(),
            roles: query.plan.column_roles(),
            has_window: query.plan.window != Window::None,
            explain,
            duration_ms: [stated, most].into_iter().flatten().min(),
            warnings,
        })
    }
}

//! `EXPLAIN ANALYZE`: runs a query to its end and reports its cost beside its plan.

use std::fmt::Write;

use swiftwater_lang::{
    QueryError, QueryErrors,
    plan::{Body, Query, Window},
};

use crate::{Emit, EmitMeta, Principal, Runtime, RuntimeError, SubmitOptions};

/// The results of an analysed query so far; its records are counted and dropped.
#[derive(Debug, Default)]
pub struct Analysis {
    records: u64,
    last: Option<EmitMeta>,
}

impl Analysis {
    /// Takes an emit in.
    pub fn add(&mut self, emit: Emit) {
        self.records += emit.records.count;
        self.last = Some(emit.meta);
    }

    /// The plan, and what it cost to run it: events, candidates, tests of the rest of the filter, matches, records, shards'
    /// time. The same words as in `GET /v1/queries`.
    pub fn report(self, mut plan: String) -> String {
        let Some(EmitMeta { query, finished: Some(finished), counts, failure, .. }) = self.last else {
            return plan;
        };
        let cost = finished.cost;
        let share = |part: u64, of: u64| match of {
            0 => String::new(),
            _ => format!(", {:.4} % of the events", part as f64 / of as f64 * 100.0),
        };
        let mut line = |name: &str, text: String| {
            // Writing to text cannot fail.
            let _ = writeln!(plan, "{name:<10} {text}");
        };
        line("ran", format!("{} ms", finished.at - query.received));
        let ahead = if counts.ahead > 0 { format!(", {} ahead", counts.ahead) } else { String::new() };
        let (seen, late, mistyped) = (counts.seen, counts.late, counts.mistyped);
        line("events", format!("{seen} seen, {late} late{ahead}, {mistyped} mistyped"));
        line("candidates", format!("{}{}", cost.candidates, share(cost.candidates, counts.seen)));
        line("tested", format!("{} by the residual", cost.residual_tests));
        line("matches", format!("{}{}", cost.matches, share(cost.matches, counts.seen)));
        line("answered", format!("{} records, {} bytes", self.records, cost.bytes_out));
        line("cpu", format!("{:.3} ms of shards, for its tests and operators", cost.cpu_nanos as f64 / 1e6));
        if counts.expression_errors > 0 {
            line("errors", format!("{} operations failed", counts.expression_errors));
        }
        if let Some(failure) = failure {
            line("failed", failure.into());
        }
        plan
    }
}

impl Runtime {
    /// Runs a query to its end, and answers its plan and what it cost. Refused where nothing would end it.
    pub async fn explain_analyze(
        &self,
        principal: &Principal,
        text: &str,
        options: SubmitOptions,
    ) -> Result<String, RuntimeError> {
        let plan = self.explain(principal, text, &options)?;
        let has_duration = self.check(principal, text, &options)?.duration_ms.is_some();
        if !has_duration && !ends_by_itself(&self.parse(text, &options)?.query) {
            return Err(RuntimeError::Query(QueryErrors(vec![QueryError {
                line: None,
                column: None,
                message: "EXPLAIN ANALYZE runs its query to the end, and this one has no end".to_owned(),
                hint: Some("Set a duration, as in `STREAM(flights, 10000, TIME)`.".to_owned()),
                excerpt: String::new(),
            }])));
        }
        let mut subscription = self.submit(principal, text, SubmitOptions { detach: false, ..options })?;
        let mut analysis = Analysis::default();
        while let Some(emit) = subscription.next().await {
            analysis.add(emit);
        }
        Ok(analysis.report(plan))
    }
}

/// True if a query ends with so many events rather than with time.
fn ends_by_itself(query: &Query) -> bool {
    query.limit.is_some() && query.window == Window::None && matches!(query.body, Body::Raw(_))
}

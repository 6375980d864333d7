//! Plans the text of a query: parses it against what is declared of its stream and of what it joins, and compiles it.

use std::sync::atomic::Ordering;

use swiftwater_event::Millis;
use swiftwater_lang::{
    Dialect, ParseOptions, QueryError, QueryErrors, Schema,
    plan::{Query, Statement, Window},
    stream_of,
};
use swiftwater_live::{StandingQuery, explain};

use super::Runtime;
use crate::{
    EngineConfig, JoinSources, Principal, QueryForm, RuntimeError, SubmitOptions, query::submit::WantedQuery,
};

impl Runtime {
    /// The query of a text that was received at `now`, if it is admitted.
    pub fn wanted(
        &self,
        text: &str,
        options: &SubmitOptions,
        now: Millis,
    ) -> Result<WantedQuery, RuntimeError> {
        let shared = &self.shared;
        let config = &shared.config;
        if shared.is_closing.load(Ordering::Acquire) {
            return Err(RuntimeError::ShuttingDown);
        }
        let (mut statement, joined) = self.parse_joined(text, options, now)?;
        if config.bullet_ignores_windows && options.dialect == Dialect::Bullet {
            statement.query.window = Window::None;
        }
        let query = compile(statement, config)?;
        joined.attach(&query);
        let stream = query
            .plan
            .stream
            .clone()
            .or_else(|| config.default_stream.clone())
            .ok_or(RuntimeError::NoDefaultStream)?;
        let queries = {
            let queries = shared.queries.read();
            queries.len() + shared.reserved.load(Ordering::Relaxed)
        };
        // A query that has ended and is only retained for its reader makes room for a new one.
        if queries >= config.queries_max && !shared.forget_oldest_kept() {
            return Err(RuntimeError::too_many_queries(queries, config));
        }
        let default_ms = Some(config.query_duration_ms_default).filter(|&default_ms| default_ms > 0);
        let stated_ms = options.duration_ms.or(query.plan.duration_ms);
        let duration_ms = match (stated_ms.or(default_ms), config.query_duration_ms_max) {
            (stated, 0) => stated,
            (stated, max) => Some(stated.unwrap_or(max).min(max)),
        };
        let ends = duration_ms.map(|ms| now.saturating_add(i64::try_from(ms).unwrap_or(i64::MAX)));
        let joined = joined.known.first().map(|joined| joined.name.clone());
        Ok(shared.wanted_of(query, stream, now, ends, joined))
    }

    /// The plan of a query as text, for `EXPLAIN` (with or without that word before it).
    pub fn explain(
        &self,
        _principal: &Principal,
        text: &str,
        options: &SubmitOptions,
    ) -> Result<String, RuntimeError> {
        Ok(explain(&compile(self.parse(text, options)?, &self.shared.config)?))
    }

    /// The plan of a query's text that is asked at a time.
    pub fn plan(&self, text: &str, options: &SubmitOptions, now: Millis) -> Result<Query, RuntimeError> {
        let mut query = self.parse_joined(text, options, now)?.0.query;
        if self.shared.config.bullet_ignores_windows && options.dialect == Dialect::Bullet {
            query.window = Window::None;
        }
        Ok(query)
    }

    pub(crate) fn parse(&self, text: &str, options: &SubmitOptions) -> Result<Statement, RuntimeError> {
        self.parse_joined(text, options, self.shared.clock.now()).map(|(statement, _)| statement)
    }

    /// A query's plan, and what its events are joined with.
    fn parse_joined(
        &self,
        text: &str,
        options: &SubmitOptions,
        now: Millis,
    ) -> Result<(Statement, JoinSources), RuntimeError> {
        let (statement, sources) = self.with_parse_options(text, options, now, |parse_options| {
            options.form.parse(text, parse_options).map_err(RuntimeError::Query)
        });
        Ok((statement?, sources))
    }

    /// Calls a function with the parse options of a query's text; also returns the objects that its events are joined
    /// with.
    pub(crate) fn with_parse_options<R>(
        &self,
        text: &str,
        options: &SubmitOptions,
        now: Millis,
        act: impl FnOnce(&ParseOptions<'_>) -> R,
    ) -> (R, JoinSources) {
        let mut parse_options = ParseOptions {
            dialect: options.dialect,
            schema: options.schema.as_deref(),
            types: options.types.as_deref(),
            joined: None,
            parameters: &options.parameters,
            lists_rows: false,
            now,
            text_bytes_max: self.shared.config.query_text_bytes_max,
        };
        let declared = self.declared(text, options.form, &parse_options);
        parse_options.schema = parse_options.schema.or(declared.as_ref());
        let durable = self.shared.durable.get().filter(|_| options.form == QueryForm::Bql);
        let sources = durable.map(|durable| durable.join_sources(text, &parse_options));
        parse_options.joined = sources.as_ref().map(|sources| &*sources.known);
        let done = act(&parse_options);
        (done, sources.unwrap_or_default())
    }

    /// The declaration of the stream that a native query is over, where nobody said otherwise what its fields are.
    fn declared(&self, text: &str, form: QueryForm, options: &ParseOptions<'_>) -> Option<Schema> {
        let is_told = options.schema.is_some() || options.types.is_some();
        if is_told || options.dialect != Dialect::Native {
            return None;
        }
        let durable = self.shared.durable.get()?;
        let default = || self.shared.config.default_stream.clone();
        let stream = match form {
            QueryForm::Bql => stream_of(text, options)?.or_else(default)?,
            QueryForm::Json => default()?,
        };
        durable.schema(&stream)
    }
}

/// Compiles a plan; what is wrong with a constant in it is an error of the query.
pub(crate) fn compile(statement: Statement, config: &EngineConfig) -> Result<StandingQuery, RuntimeError> {
    StandingQuery::compile_sized(statement.query, config.sketch_sizes()).map_err(|error| {
        RuntimeError::Query(QueryErrors(vec![QueryError {
            line: None,
            column: None,
            message: error.to_string(),
            hint: None,
            excerpt: String::new(),
        }]))
    })
}

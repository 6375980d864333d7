//! Checks a query without running it.

use swiftwater_event::{StreamName, Type};
use swiftwater_lang::{
    ColumnRole, parse_typed,
    plan::{Explain, Window},
};

use crate::{Principal, QueryForm, Runtime, RuntimeError, SubmitOptions, runtime::compile};

/// A column of a query's records.
#[derive(Debug, Clone, PartialEq)]
pub struct QueryColumn {
    /// Its name.
    pub name: Box<str>,
    /// The type of its values; none if only the events tell it.
    pub ty: Option<Type>,
    /// Its role in the result.
    pub role: ColumnRole,
}

/// The facts of a query that could be run.
#[derive(Debug, Clone, PartialEq)]
pub struct QueryFacts {
    /// The stream that it would look at.
    pub stream: StreamName,
    /// Its columns in order, where they are known before the events are (not for `*`).
    pub columns: Option<Vec<QueryColumn>>,
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
        let (parsed, _) =
            self.with_parse_options(text, options, self.clock().now(), |parse_options| match options.form {
                QueryForm::Bql => parse_typed(text, parse_options),
                QueryForm::Json => options.form.parse(text, parse_options).map(|statement| (statement, None)),
            });
        let (statement, types) = parsed.map_err(RuntimeError::Query)?;
        let explain = statement.explain;
        let roles = statement.query.column_roles();
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
            columns: query
                .column_names()
                .zip(roles)
                .map(|(names, roles)| columns(&names, types.as_deref(), roles)),
            has_window: query.plan.window != Window::None,
            explain,
            duration_ms: [stated, most].into_iter().flatten().min(),
            warnings,
        })
    }
}

fn columns(
    names: &[Box<str>],
    types: Option<&[(Box<str>, Type)]>,
    roles: Vec<ColumnRole>,
) -> Vec<QueryColumn> {
    let ty = |place: usize| Some(types?.get(place)?.1.clone()).filter(|ty| *ty != Type::Any);
    let columns = names.iter().zip(roles).enumerate();
    columns.map(|(place, (name, role))| QueryColumn { name: name.clone(), ty: ty(place), role }).collect()
}

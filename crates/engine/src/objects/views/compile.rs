//! Compiles the query of a view over the columns of its stream, or of the view that it reads.

use super::{
    defaults::Defaults,
    derived::{check_columns, check_over, check_timeless},
    lookup::Sources,
};
use crate::{EngineError, RuntimeError, durable::history::History};
use swiftwater_event::{Millis, Path, Type};
use swiftwater_lang::{
    Dialect, ParseOptions, QueryError, QueryErrors,
    ddl::{CreateStream, CreateView},
    parse_condition, parse_typed,
    plan::{Expr, Query},
};
use swiftwater_live::{KeyedQuery, SketchSizes, StandingQuery, count_rows};

/// The source of a view.
pub(crate) struct Compiled {
    pub(crate) query: KeyedQuery,
    /// Its columns, by name and type.
    pub(crate) columns: Vec<(Box<str>, Type)>,
    /// The tables and views that its events are joined with.
    pub(crate) joined: Sources,
}

/// The source that a view is compiled over.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Source<'s> {
    /// The events of a stream.
    Stream(&'s CreateStream),
    /// The rows of a view: its name, and its rows as if they were a stream's events.
    View(&'s str, &'s CreateStream),
}

/// The meaning of a view, with the defaults of its stream put in: where it is the same, its rows are.
#[derive(Debug, PartialEq)]
pub(super) struct ViewPlan {
    query: Query,
    deletes: Option<Expr>,
    pub(super) columns: Option<Vec<(Box<str>, Type)>>,
}

/// Compiles what a view is of, which is created `now`: that is what NOW and UNIXTIMESTAMP() are, whenever it is opened again.
pub(crate) fn compile_view(
    history: &History,
    create: &CreateView,
    source: Source<'_>,
    sizes: SketchSizes,
    now: Millis,
) -> Result<Compiled, EngineError> {
    let stream = match source {
        Source::Stream(stream) => stream,
        Source::View(lower, rows) => {
            check_over(create, lower)?;
            rows
        }
    };
    let (ViewPlan { mut query, deletes, columns }, sources) = plan_view(history, create, stream, now)?;
    let mut counting = None;
    if let Source::View(lower, rows) = source {
        check_timeless(create, rows, &sources.sources.known)?;
        check_columns(&query, lower, rows)?;
        if query.views.iter().any(|view| view.join.is_some()) {
            let message = format!("rows of view `{lower}` cannot be joined with others");
            let hint = "Join the stream that it reads, or join both views in SQL.";
            let error = QueryError { hint: Some(hint.to_owned()), ..query_error(message) };
            return Err(EngineError::Runtime(RuntimeError::Query(QueryErrors(vec![error]))));
        }
        counting = Some(count_rows(&mut query).map_err(EngineError::Unfit)?);
    }
    let query = StandingQuery::compile_view(query, sizes, deletes.as_ref()).map_err(|error| {
        EngineError::Runtime(RuntimeError::Query(QueryErrors(vec![query_error(error.to_string())])))
    })?;
    sources.sources.attach(&query);
    let query = KeyedQuery::new(query, create.options.ttl_ms).map_err(EngineError::Unfit)?;
    let query = match counting {
        Some(counting) => query.of_rows(counting),
        None => query,
    };
    if create.options.retention_ms.is_some() && query.windows().is_none() {
        return Err(EngineError::Unfit(swiftwater_live::UnsupportedView::Retention));
    }
    Ok(Compiled { query, columns: columns.unwrap_or_default(), joined: sources })
}

/// Plans a view that is created `now`, and finds what its events are joined with.
pub(super) fn plan_view(
    history: &History,
    create: &CreateView,
    stream: &CreateStream,
    now: Millis,
) -> Result<(ViewPlan, Sources), EngineError> {
    let schema = stream.is_declared().then(|| stream.schema());
    let options =
        ParseOptions { schema: schema.as_ref(), lists_rows: true, ..ParseOptions::new(Dialect::Native, now) };
    let sources = history.sources_of(&create.query, &options);
    let options = ParseOptions { joined: Some(&sources.sources.known), ..options };
    let (mut statement, columns) = parse_typed(&create.query, &options).map_err(RuntimeError::Query)?;
    let deletes = create.delete_when.as_deref().map(|condition| {
        parse_condition(condition, &options).map_err(|QueryErrors(errors)| {
            // Places are those in the query.
            let within = |error: QueryError| QueryError {
                line: None,
                column: None,
                message: format!("in DELETE WHEN: {}", error.message),
                ..error
            };
            EngineError::Runtime(RuntimeError::Query(QueryErrors(errors.into_iter().map(within).collect())))
        })
    });
    let mut deletes = deletes.transpose()?;
    let defaults = Defaults::of(stream).map_err(RuntimeError::Query)?;
    statement.query.event_exprs_mut().into_iter().chain(&mut deletes).for_each(|expr| defaults.put(expr));
    Ok((ViewPlan { query: statement.query, deletes, columns }, sources))
}

/// A fault of a query as a whole.
pub(crate) fn query_error(message: String) -> QueryError {
    QueryError { line: None, column: None, message, hint: None, excerpt: String::new() }
}

/// True if a query reads values of a stream's events that have no declared type, and are not declared as JSON either; or of rows
/// that they are joined with.
pub(super) fn reads_untyped(query: &KeyedQuery, stream: &CreateStream) -> bool {
    let plan = &query.query().plan;
    let is_json = |path: &Path| {
        let mut columns = stream.columns.iter().filter(|column| column.ty == Type::Any);
        columns.any(|column| path.steps().starts_with(column.event_path().steps()))
    };
    let is_untyped = |(path, ty): &(&Path, &Type)| **ty == Type::Any && !is_json(path);
    plan.paths().iter().any(is_untyped) || plan.views.iter().any(|view| view.join.is_some())
}

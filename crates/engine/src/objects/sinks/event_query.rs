//! The query of a sink of events: a filter and columns over single events of a stored stream.
//!
//! A row depends on its event alone. NOW is the time of the sink's creation, and missing fields have the defaults of their columns,
//! as in views. So an event has the same row whether it is read from the log or from its stream's table.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{Field, Schema};
use swiftwater_catalog::{
    CatalogError, Dependency, ObjectKind, Role,
    kind::{sink::SinkEntry, stream::StreamEntry},
};
use swiftwater_event::{EventBatch, Millis, Type};
use swiftwater_lang::{
    Dialect, ParseOptions, QueryErrors,
    ddl::{AlterStream, ColumnDef, CreateStream, SinkQuery},
    parse_typed,
    plan::{Body, Query},
};
use swiftwater_live::{
    RowChunk, RowQuery, Shard, StandingQuery,
    columns::{ColumnsScratch, StreamColumns, arrow_type},
};

use crate::{
    EngineError, RuntimeError, SinkError,
    durable::{history::History, stored_stream::StoredStream},
    objects::views::{Defaults, query_error},
    tables::rows::as_events,
};

/// A compiled query, and the stream that it reads.
pub(super) struct EventQuery {
    pub(super) stored: Arc<StoredStream>,
    query: RowQuery,
    columns: QueryColumns,
}

/// The columns of a query's rows.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct QueryColumns {
    /// Names and types of those that are computed; `Any` where the type is not known.
    pub(super) computed: Vec<(Box<str>, Type)>,
    /// All fields of an event come before them (`*`).
    pub(super) has_star: bool,
}

/// The meaning of a query.
#[derive(Debug, PartialEq)]
struct EventPlan {
    query: Query,
    columns: QueryColumns,
}

impl QueryColumns {
    /// The columns as a table has them. Fails if they are not all known, with the reason.
    pub(super) fn typed(&self) -> Result<&[(Box<str>, Type)], String> {
        if self.has_star {
            return Err("`*` has no columns of known types: name the columns".to_owned());
        }
        match self.computed.iter().find(|(_, ty)| *ty == Type::Any) {
            Some((name, _)) => Err(format!(
                "the type of column `{name}` is not known: write a cast to one, such as CAST(… AS STRING) AS \"{name}\""
            )),
            None => Ok(&self.computed),
        }
    }

    /// Fails if rows have no column of a name.
    pub(super) fn check_has(&self, name: &str, stream: &CreateStream) -> Result<(), String> {
        let computed = self.computed.iter().map(|(name, _)| &**name);
        let declared = stream.columns.iter().map(|column| &*column.name);
        let columns: Vec<&str> = computed.chain(declared.filter(|_| self.has_star)).collect();
        if columns.contains(&name) || (self.has_star && !stream.is_declared()) {
            return Ok(());
        }
        Err(format!("the query has no column `{name}`: it has {}", columns.join(", ")))
    }
}

impl EventPlan {
    /// The plan over a stream as it is declared, of a sink that is created `now`.
    fn new(query: &SinkQuery, stream: &CreateStream, now: Millis) -> Result<EventPlan, EngineError> {
        let schema = stream.is_declared().then(|| stream.schema());
        let options = ParseOptions { schema: schema.as_ref(), ..ParseOptions::new(Dialect::Native, now) };
        let (mut statement, columns) = parse_typed(&query.text, &options).map_err(RuntimeError::Query)?;
        let defaults = Defaults::of(stream).map_err(RuntimeError::Query)?;
        statement.query.event_exprs_mut().into_iter().for_each(|expr| defaults.put(expr));
        let computed = match (columns, &statement.query.body) {
            (Some(columns), _) => columns,
            (None, Body::Raw(raw)) => {
                raw.columns.iter().map(|column| (column.name.clone(), Type::Any)).collect()
            }
            (None, Body::Group(_)) => Vec::new(),
        };
        let has_star = matches!(&statement.query.body, Body::Raw(raw) if raw.star.is_some());
        Ok(EventPlan { query: statement.query, columns: QueryColumns { computed, has_star } })
    }
}

impl EventQuery {
    /// Compiles the query of a sink that is created `now`.
    pub(super) fn new(
        query: &SinkQuery,
        stored: Arc<StoredStream>,
        now: Millis,
    ) -> Result<EventQuery, EngineError> {
        let EventPlan { query, columns } = EventPlan::new(query, &stored.declared().create, now)?;
        let fault = |message: String| {
            EngineError::Runtime(RuntimeError::Query(QueryErrors(vec![query_error(message)])))
        };
        let compiled = StandingQuery::compile(query).map_err(|error| fault(error.to_string()))?;
        let query = RowQuery::new(compiled).ok_or_else(|| {
            fault("a sink delivers a row for each event, and the query has groups".to_owned())
        })?;
        Ok(EventQuery { stored, query, columns })
    }

    pub(super) fn columns(&self) -> &QueryColumns {
        &self.columns
    }

    /// The rows of a batch of the stream's events; none where it selects none.
    pub(super) fn rows(&self, shard: &mut Shard, batch: &EventBatch) -> Option<Box<RowChunk>> {
        self.query.rows(shard, batch)
    }

    /// Rows, a line of JSON each, as a table. All columns have known types.
    pub(super) fn record_batch(&self, text: Vec<u8>, now: Millis) -> Result<RecordBatch, EngineError> {
        let columns = self.columns.typed().map_err(SinkError::Target)?;
        let as_stream = CreateStream {
            name: self.stored.name.clone(),
            if_not_exists: false,
            columns: columns.iter().map(|(name, ty)| ColumnDef::new(name.clone(), ty.clone())).collect(),
            checks: Vec::new(),
            watermark: None,
            source: None,
            options: Default::default(),
        };
        let reader = StreamColumns::new(&as_stream).map_err(EngineError::Columns)?;
        let field = |(name, ty): &(Box<str>, Type)| Field::new(&**name, arrow_type(ty), true);
        let schema = Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()));
        let read = reader.read(&as_events(text), now, &mut ColumnsScratch::default());
        RecordBatch::try_new(schema, read.columns).map_err(|error| {
            SinkError::Target(format!("rows of the query cannot be made a table: {error}")).into()
        })
    }
}

impl History {
    /// Fails if a sink of a stream's events cannot continue when the stream is altered.
    pub(crate) fn check_sinks(&self, alter: &AlterStream, altered: &StreamEntry) -> Result<(), EngineError> {
        let stream = alter.name.as_str();
        self.with_catalog(|catalog| {
            let before = catalog.stream(&alter.name);
            let changes = |sink: &&SinkEntry| {
                let plan =
                    |stream: &CreateStream| EventPlan::new(sink.create.query()?, stream, sink.created).ok();
                let now = plan(&altered.create);
                now.is_none() || now != before.and_then(|before| plan(&before.create))
            };
            match catalog.sinks().of_events(stream).find(changes) {
                None => Ok(()),
                Some(sink) => {
                    let on = ObjectKind::Stream.named(stream);
                    Err(CatalogError::InUse(Dependency::new(Role::Source, sink.object(), on)).into())
                }
            }
        })
    }
}

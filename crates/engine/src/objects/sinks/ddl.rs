//! CREATE SINK and DROP SINK.

use std::{path::PathBuf, sync::Arc};

use swiftwater_catalog::{
    Change, ObjectKind,
    kind::sink::{SinkEntry, SinkStart, digits, place_of_offset},
};
use swiftwater_event::{StreamName, Type};
use swiftwater_lang::ddl::{CreateSink, Ddl, KafkaTarget, SinkFormat, SinkQuery, SinkTarget};
use swiftwater_live::columns::arrow_type;
use swiftwater_sinks::FileSink;
use swiftwater_sql::{can_be_inserted, type_name};

use super::{event_query::EventQuery, row_schema::RowColumns};
use crate::{
    EngineError, SinkError,
    ddl::{Context, Planned, Statement, check_room},
    durable::{
        backfill::column_within_list, directory::DataDir, feeds::number_of_sink, history::History,
        stored_stream::StoredStream,
    },
    objects::views::{NeededBy, View},
    shared::Shared,
    tables::HistoryTables,
};

/// The source of a sink that is created or dropped.
pub(crate) enum SourceOfSink {
    View(Arc<View>),
    /// A stream, and the number of the sink among its readers.
    Events(Arc<StoredStream>, u32),
}

impl Statement for CreateSink {
    type Prepared = SourceOfSink;

    async fn prepare(
        &self,
        context @ Context { history, .. }: Context<'_>,
        _: &Ddl,
    ) -> Result<Option<Planned<SourceOfSink>>, EngineError> {
        let (known, sinks) = history
            .with_catalog(|catalog| (catalog.sinks().get(&self.name).is_ok(), catalog.sinks().all().len()));
        if known {
            // An error, or with IF NOT EXISTS no change.
            let start = SinkStart::default();
            let created = history.with_catalog(|catalog| catalog.sinks().clone().create(self, start, 0));
            created?;
            return Ok(None);
        }
        check_room("number of sinks", "sinks.sinks_max", sinks, history.config.sinks_max)?;
        history.check_take_events(self.streams())?;
        let (start, prepared) = match self.query() {
            Some(query) => prepare_events(self, query, context).await?,
            None => prepare_view(self, context).await?,
        };
        Ok(Some(Planned { change: Change::Sink { text: self.to_string(), start }, prepared }))
    }

    fn abandon(&self, history: &History, source: SourceOfSink) {
        match source {
            SourceOfSink::View(view) if self.is_of_changes() => history.release_changes(&view),
            SourceOfSink::View(_) => {}
            SourceOfSink::Events(stored, reader) => stored.remove_view(reader),
        }
        history.release_windows();
    }

    async fn apply_effect(
        &self,
        Context { history, .. }: Context<'_>,
        source: SourceOfSink,
    ) -> Result<(), EngineError> {
        if let (SourceOfSink::View(view), true) = (&source, self.is_of_changes()) {
            history.release_changes(view);
        }
        history.objects.sinks.changed.notify_one();
        Ok(())
    }
}

/// The start of a sink of a view.
async fn prepare_view(
    create: &CreateSink,
    Context { history, shared }: Context<'_>,
) -> Result<(SinkStart, SourceOfSink), EngineError> {
    let name = create.view().unwrap_or_default();
    let view = history.view(name)?;
    let windows = view.query.windows();
    if windows.is_none() && !create.is_of_changes() {
        return Err(SinkError::NoWindows(name.to_owned()).into());
    }
    check_target(create, history, shared, RowsOf::View(&view)).await?;
    let mut start = SinkStart { view: Some(view.id()), ..SinkStart::default() };
    if create.is_of_changes() {
        start.after = Some(digits(&view.retain_changes()));
    } else {
        // Before it is looked how far the view is, so that no commit deletes what is closed from here on. Its task
        // states where it begins.
        let id = history.with_catalog(|catalog| catalog.sinks().next_id());
        view.needs_windows(NeededBy::Sink(id));
        start.from = windows.and_then(|windows| windows.first_open(view.at().latest()));
    }
    Ok((start, SourceOfSink::View(view)))
}

/// The start of a sink of events: the next event of the stream, which is retained for it from here on.
async fn prepare_events(
    create: &CreateSink,
    query: &SinkQuery,
    Context { history, shared }: Context<'_>,
) -> Result<(SinkStart, SourceOfSink), EngineError> {
    let name = query.stream.as_str();
    if history.view(name).is_ok() {
        return Err(SinkError::QueryOfView(name.to_owned()).into());
    }
    history.with_catalog(|catalog| catalog.known_stored_stream(name, ObjectKind::Sink).map(drop))?;
    let stored =
        history.stored(&query.stream).ok_or_else(|| EngineError::not_found(ObjectKind::Stream, name))?;
    if let Some(column) = column_within_list(&stored.declared().create) {
        let (stream, column) = (name.to_owned(), column.name.to_string());
        return Err(SinkError::ColumnWithinList { stream, column }.into());
    }
    let compiled = EventQuery::new(query, Arc::clone(&stored), history.clock.now())?;
    check_target(create, history, shared, RowsOf::Events(&compiled)).await?;
    let reader = number_of_sink(history.with_catalog(|catalog| catalog.sinks().next_id()));
    let offset = stored.add_view(reader, history.config.feed_bytes_max);
    let start = SinkStart { after: Some(digits(&place_of_offset(offset))), ..SinkStart::default() };
    Ok((start, SourceOfSink::Events(stored, reader)))
}

/// `DROP SINK`.
pub(crate) struct DropSink<'d>(pub(crate) &'d str);

impl Statement for DropSink<'_> {
    /// The source of the sink, where it is known.
    type Prepared = Option<SourceOfSink>;

    async fn prepare(
        &self,
        Context { history, .. }: Context<'_>,
        ddl: &Ddl,
    ) -> Result<Option<Planned<Option<SourceOfSink>>>, EngineError> {
        let entry = history.with_catalog(|catalog| catalog.sinks().get(self.0).ok().cloned());
        history.plan(ddl, entry.and_then(|entry| history.source_of_sink(&entry)))
    }

    async fn apply_effect(
        &self,
        Context { history, .. }: Context<'_>,
        source: Option<SourceOfSink>,
    ) -> Result<(), EngineError> {
        history.objects.sinks.changed.notify_one();
        match source {
            Some(SourceOfSink::View(view)) => history.release_changes(&view),
            Some(SourceOfSink::Events(stored, reader)) => stored.remove_view(reader),
            None => {}
        }
        history.release_windows();
        Ok(())
    }
}

impl History {
    fn source_of_sink(&self, entry: &SinkEntry) -> Option<SourceOfSink> {
        match entry.create.query() {
            Some(query) => {
                let stored = self.stored(&query.stream)?;
                Some(SourceOfSink::Events(stored, number_of_sink(entry.id)))
            }
            None => self.view(entry.create.view()?).ok().map(SourceOfSink::View),
        }
    }

    /// The directory that files of sinks are below.
    pub(super) fn sinks_dir(&self) -> Result<PathBuf, EngineError> {
        match (&*self.config.sinks_dir, &self.dir) {
            ("", Some(dir)) => Ok(DataDir::sinks(dir)),
            ("", None) => Err(EngineError::NoHistory),
            (configured, _) => Ok(configured.into()),
        }
    }
}

/// The rows that a sink would deliver.
#[derive(Clone, Copy)]
enum RowsOf<'s> {
    View(&'s View),
    Events(&'s EventQuery),
}

impl RowsOf<'_> {
    /// The stream whose events they are made of in the end.
    fn stream(&self) -> &StreamName {
        match self {
            RowsOf::View(view) => &view.stream,
            RowsOf::Events(query) => &query.stored.name,
        }
    }

    /// The view or the stream that has them, for messages.
    fn name(&self) -> String {
        match self {
            RowsOf::View(view) => format!("view `{}`", view.name()),
            RowsOf::Events(_) => "the query".to_owned(),
        }
    }

    /// Their columns, with types that a table can have.
    fn columns(&self) -> Result<&[(Box<str>, Type)], SinkError> {
        match self {
            RowsOf::View(view) => Ok(&view.columns),
            RowsOf::Events(query) => query.columns().typed().map_err(SinkError::Target),
        }
    }

    /// Fails for a key that they do not have, or that is not the key of the rows of changes: a tombstone deletes all messages of its
    /// key.
    fn check_key(&self, target: &KafkaTarget, of_changes: bool) -> Result<(), SinkError> {
        let Some(key) = &target.key else { return Ok(()) };
        let view = match self {
            RowsOf::Events(query) => {
                let declared = query.stored.declared();
                return query.columns().check_has(key, &declared.create).map_err(SinkError::Target);
            }
            RowsOf::View(view) => view,
        };
        if !view.columns.iter().any(|(name, _)| name == key) {
            let (view, columns) = (view.name(), view.columns.iter().map(|(name, _)| &**name));
            let columns = columns.collect::<Vec<_>>().join(", ");
            return Err(SinkError::Target(format!("view `{view}` has no column `{key}`: it has {columns}")));
        }
        let names = view.query.key_names();
        if of_changes && !matches!(&names[..], [name] if **name == **key) {
            let names = names.join(", ");
            return Err(SinkError::KafkaKey { key: key.to_string(), names });
        }
        Ok(())
    }
}

/// Refuses a target that cannot take the rows, or from which they would come back.
async fn check_target(
    create: &CreateSink,
    history: &History,
    shared: &Shared,
    rows: RowsOf<'_>,
) -> Result<(), EngineError> {
    let stream = |name: &str| -> Result<(), EngineError> {
        let found = StreamName::new(name).ok().and_then(|name| history.stored(&name));
        let stored = found.ok_or_else(|| EngineError::not_found(ObjectKind::Stream, name))?;
        if stored.name == *rows.stream() {
            let stream = name.to_owned();
            return Err(match rows {
                RowsOf::View(_) => SinkError::IntoItself(stream),
                RowsOf::Events(_) => SinkError::EventsIntoItself(stream),
            }
            .into());
        }
        Ok(())
    };
    match &create.target {
        SinkTarget::Stream(name) => stream(name)?,
        SinkTarget::Table(name) => {
            let tables = shared.tables.get().ok_or(EngineError::NoHistory)?;
            let is_there = tables.is_plain(name).map_err(|error| EngineError::Table(error.to_string()))?;
            if !is_there {
                return Err(EngineError::not_found(ObjectKind::Table, &**name));
            }
            check_columns(tables, name, rows).await?;
        }
        SinkTarget::File(path) => {
            let file = FileSink::new(&history.sinks_dir()?, path)
                .map_err(|error| SinkError::Target(error.to_string()))?;
            if create.options.format == Some(SinkFormat::Csv) {
                rows.columns()?;
            }
            history.with_catalog(|catalog| catalog.sinks().check_file(create))?;
            // It is the sink's alone: what others wrote would be cut off with the first delivery.
            if file.path().metadata().is_ok_and(|found| found.is_file() && found.len() > 0) {
                return Err(SinkError::FileExists(path.to_string()).into());
            }
        }
        SinkTarget::Webhook(url) => history.check_webhook(url, &create.options)?,
        SinkTarget::Kafka(target) => {
            history.kafka(target.connection())?;
            rows.check_key(target, create.is_of_changes())?;
            let columns = match rows {
                RowsOf::View(view) => RowColumns::of_view(view),
                RowsOf::Events(query) => RowColumns::of_query(query),
            };
            history.check_row_schema(create, target, &columns)?;
        }
    }
    create.options.dead_letter.as_deref().map_or(Ok(()), stream)?;
    history.with_catalog(|catalog| {
        let into = create.streams().chain(catalog.streams_of_topic(create));
        catalog.check_no_way_round(into, &[rows.stream().as_str()])
    })?;
    Ok(())
}

/// Refuses a table that has not the columns of the rows, or has them of types that the rows' values never are.
async fn check_columns(tables: &HistoryTables, table: &str, rows: RowsOf<'_>) -> Result<(), EngineError> {
    let columns = rows.columns()?;
    let found = tables.plain_schema(table).await.map_err(|error| EngineError::Table(error.to_string()))?;
    let found = found.ok_or_else(|| EngineError::not_found(ObjectKind::Table, table))?;
    let fault = |(name, ty): &(Box<str>, Type)| match found.field_with_name(name) {
        Err(_) => Some(format!("it has no column `{name}`")),
        Ok(column) if can_be_inserted(&arrow_type(ty), column.data_type()) => None,
        Ok(column) => {
            let there = type_name(column.data_type());
            let what = if matches!(rows, RowsOf::View(_)) { "view" } else { "query" };
            Some(format!("column `{name}` is {there} in the target, and {ty} in the {what}"))
        }
    };
    let faults: Vec<String> = columns.iter().filter_map(fault).collect();
    match faults.is_empty() {
        true => Ok(()),
        false => {
            let (table, origin) = (table.to_owned(), rows.name());
            Err(SinkError::Columns { table, origin, faults }.into())
        }
    }
}

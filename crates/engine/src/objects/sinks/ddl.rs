//! CREATE SINK and DROP SINK.

use std::{path::PathBuf, sync::Arc};

use swiftwater_catalog::{
    Change, ObjectKind,
    kind::sink::{SinkStart, digits},
};
use swiftwater_event::{StreamName, Type};
use swiftwater_lang::ddl::{CreateSink, Ddl, KafkaTarget, SinkTarget};
use swiftwater_live::columns::arrow_type;
use swiftwater_sinks::FileSink;
use swiftwater_sql::{can_be_inserted, type_name};

use crate::{
    EngineError, SinkError,
    ddl::{Context, Planned, Statement, check_room},
    durable::{directory::DataDir, history::History},
    objects::views::{NeededBy, View},
    shared::Shared,
    tables::HistoryTables,
};

impl Statement for CreateSink {
    /// The view of the sink.
    type Prepared = Arc<View>;

    async fn prepare(
        &self,
        Context { history, shared }: Context<'_>,
        _: &Ddl,
    ) -> Result<Option<Planned<Arc<View>>>, EngineError> {
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
        let view = history.view(&self.view)?;
        let windows = view.query.windows();
        if windows.is_none() && !self.of_changes {
            return Err(SinkError::NoWindows(self.view.to_string()).into());
        }
        check_target(self, history, shared, &view).await?;
        let mut start = SinkStart { view: view.id(), ..SinkStart::default() };
        if self.of_changes {
            start.after = Some(digits(&view.retain_changes()));
        } else {
            // Before it is looked how far the view is, so that no commit deletes what is closed from here on. Its task
            // states where it begins.
            let id = history.with_catalog(|catalog| catalog.sinks().next_id());
            view.needs_windows(NeededBy::Sink(id));
            start.from = windows.and_then(|windows| windows.first_open(view.at().latest()));
        }
        Ok(Some(Planned { change: Change::Sink { text: self.to_string(), start }, prepared: view }))
    }

    fn abandon(&self, history: &History, view: Arc<View>) {
        if self.of_changes {
            history.release_changes(&view);
        }
        history.release_windows();
    }

    async fn apply_effect(
        &self,
        Context { history, .. }: Context<'_>,
        view: Arc<View>,
    ) -> Result<(), EngineError> {
        if self.of_changes {
            history.release_changes(&view);
        }
        history.objects.sinks.changed.notify_one();
        Ok(())
    }
}

/// `DROP SINK`.
pub(crate) struct DropSink<'d>(pub(crate) &'d str);

impl Statement for DropSink<'_> {
    /// The view of the sink, where it runs.
    type Prepared = Option<Arc<View>>;

    async fn prepare(
        &self,
        Context { history, .. }: Context<'_>,
        ddl: &Ddl,
    ) -> Result<Option<Planned<Option<Arc<View>>>>, EngineError> {
        let view = history
            .with_catalog(|catalog| catalog.sinks().get(self.0).ok().map(|sink| sink.create.view.clone()));
        history.plan(ddl, view.and_then(|view| history.view(&view).ok()))
    }

    async fn apply_effect(
        &self,
        Context { history, .. }: Context<'_>,
        view: Option<Arc<View>>,
    ) -> Result<(), EngineError> {
        history.objects.sinks.changed.notify_one();
        view.iter().for_each(|view| history.release_changes(view));
        history.release_windows();
        Ok(())
    }
}

impl History {
    /// The directory that files of sinks are below.
    pub(super) fn sinks_dir(&self) -> Result<PathBuf, EngineError> {
        match (&*self.config.sinks_dir, &self.dir) {
            ("", Some(dir)) => Ok(DataDir::sinks(dir)),
            ("", None) => Err(EngineError::NoHistory),
            (configured, _) => Ok(configured.into()),
        }
    }
}

/// Refuses a target that cannot take the rows of the view, or from which they would come back.
async fn check_target(
    create: &CreateSink,
    history: &History,
    shared: &Shared,
    view: &View,
) -> Result<(), EngineError> {
    let stream = |name: &str| -> Result<(), EngineError> {
        let found = StreamName::new(name).ok().and_then(|name| history.stored(&name));
        let stored = found.ok_or_else(|| EngineError::not_found(ObjectKind::Stream, name))?;
        if stored.name == view.stream {
            return Err(SinkError::IntoItself(name.to_owned()).into());
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
            check_columns(tables, name, view).await?;
        }
        SinkTarget::File(path) => {
            let file = FileSink::new(&history.sinks_dir()?, path)
                .map_err(|error| SinkError::Target(error.to_string()))?;
            history.with_catalog(|catalog| catalog.sinks().check_file(create))?;
            // It is the sink's alone: what others wrote would be cut off with the first delivery.
            if file.path().metadata().is_ok_and(|found| found.is_file() && found.len() > 0) {
                return Err(SinkError::FileExists(path.to_string()).into());
            }
        }
        SinkTarget::Webhook(url) => history.check_webhook(url, &create.options)?,
        SinkTarget::Kafka(target) => {
            history.kafka(target.connection())?;
            check_key(target, create.of_changes, view)?;
        }
    }
    create.options.dead_letter.as_deref().map_or(Ok(()), stream)?;
    history.with_catalog(|catalog| {
        let into = create.streams().chain(catalog.streams_of_topic(create));
        catalog.check_no_way_round(into, &[view.stream.as_str()])
    })?;
    Ok(())
}

/// Refuses a key that the view does not have, or that is not the key of its rows: a tombstone deletes all messages of its key.
fn check_key(target: &KafkaTarget, of_changes: bool, view: &View) -> Result<(), SinkError> {
    let Some(key) = &target.key else { return Ok(()) };
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

/// Refuses a table that has not the columns of a view, or has them of types that the view's values never are.
async fn check_columns(tables: &HistoryTables, table: &str, view: &View) -> Result<(), EngineError> {
    let found = tables.plain_schema(table).await.map_err(|error| EngineError::Table(error.to_string()))?;
    let found = found.ok_or_else(|| EngineError::not_found(ObjectKind::Table, table))?;
    let fault = |(name, ty): &(Box<str>, Type)| match found.field_with_name(name) {
        Err(_) => Some(format!("it has no column `{name}`")),
        Ok(column) if can_be_inserted(&arrow_type(ty), column.data_type()) => None,
        Ok(column) => {
            let there = type_name(column.data_type());
            Some(format!("column `{name}` is {there} in the target, and {ty} in the view"))
        }
    };
    let faults: Vec<String> = view.columns.iter().filter_map(fault).collect();
    match faults.is_empty() {
        true => Ok(()),
        false => {
            let (table, view) = (table.to_owned(), view.name().to_owned());
            Err(SinkError::Columns { table, view, faults }.into())
        }
    }
}

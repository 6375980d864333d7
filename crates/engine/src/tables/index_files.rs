//! Index files of tables: which definition they follow, and how far they are.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use swiftwater_event::StreamName;
use swiftwater_lang::ddl::RebuildSearchIndex;
use swiftwater_sql::{ErrorKind as SqlErrorKind, SqlError};
use swiftwater_store::{CompanionFormat, CompanionStatus, Table};
use swiftwater_text::SearchField;

use crate::{
    companions::{CompanionsOf, DescribeField},
    durable::history::History,
    tables::field_metadata::FieldMetadata,
};

/// The progress of a stream's index files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexProgress {
    /// Data files that have an index file.
    pub indexed_files: usize,
    /// Data files that wait for one.
    pub waiting_files: usize,
    /// Rows of the files that wait.
    pub waiting_rows: u64,
    /// Rows that wait for their commit.
    pub tail_rows: u64,
    /// Index files that were found to be unusable, since the table was opened.
    pub unusable_files: u64,
    /// True if all events that were stored at the time of the request are in files with an index file.
    pub is_complete: bool,
}

impl History {
    /// Says to a table which index files it has: those of its search index as it is defined now.
    pub(crate) fn connect_index(&self, name: &str, table: &Table) {
        let entry = self.with_catalog(|catalog| {
            let entry = catalog.search_indexes().of(name)?;
            Some((entry.id, Arc::clone(&entry.create)))
        });
        let format = entry.map(|(id, create)| -> Arc<dyn CompanionFormat> {
            let stored = StreamName::new(name).ok().and_then(|name| self.stored(&name));
            let stored = stored.as_ref().map(Arc::downgrade);
            let describe: DescribeField = Box::new(move |field| {
                let stored = stored.as_ref().and_then(Weak::upgrade);
                let json = stored.map(|stored| {
                    let declared = stored.declared();
                    declared.columns.json(&declared.create)
                });
                let index = Some(Arc::clone(&create));
                let metadata = FieldMetadata { json: json.unwrap_or_default(), index };
                SearchField::of(metadata.describe(field).as_ref().unwrap_or(field))
            });
            Arc::new(CompanionsOf {
                name: format!("d{id}"),
                describe,
                builds: Arc::clone(&self.index_builds),
            })
        });
        table.set_companions(format);
    }

    /// The table of a stored stream or a plain table, if it is open.
    pub(crate) async fn indexed_table(&self, name: &str) -> Option<Table> {
        let stored = StreamName::new(name).ok().and_then(|name| self.stored(&name));
        match stored {
            Some(stored) => stored.table().cloned(),
            None => self.store.table(name).await.ok().flatten(),
        }
    }

    /// The search index of a stream or table was created, altered or dropped: its index files follow.
    pub(crate) async fn update_index(&self, name: &str) {
        if let Some(table) = self.indexed_table(name).await {
            self.connect_index(name, &table);
        }
    }

    /// Builds the index files of a range of time again; answers whether there are any.
    pub(crate) async fn rebuild_index_files(&self, rebuild: &RebuildSearchIndex) -> bool {
        let Some(table) = self.indexed_table(&rebuild.table).await else { return false };
        let bound =
            |bound: &Option<swiftwater_lang::ddl::RebuildBound>| bound.as_ref().map(|bound| bound.micros);
        table.rebuild_companions(bound(&rebuild.from), bound(&rebuild.to)) > 0
    }

    /// The progress of the index files of a stream, once all events that are stored by now have one, or after some time.
    pub(crate) async fn await_index(
        &self,
        name: &StreamName,
        wait: Duration,
    ) -> Result<IndexProgress, SqlError> {
        self.search_index(name.as_str())?;
        let Some(table) = self.indexed_table(name.as_str()).await else {
            let message = format!("the table of `{name}` is not open yet");
            return Err(SqlError::new(SqlErrorKind::Unavailable, message).with_hint("Try again."));
        };
        let appended = table.status().progress.appended;
        let is_complete = match tokio::time::timeout(wait, table.until_indexed(appended)).await {
            Err(_) => false,
            Ok(Ok(())) => true,
            Ok(Err(error)) => return Err(SqlError::new(SqlErrorKind::Unavailable, error.to_string())),
        };
        let CompanionStatus { indexed_files, waiting_files, waiting_rows, unusable, .. } =
            table.companion_status();
        Ok(IndexProgress {
            indexed_files,
            waiting_files,
            waiting_rows,
            tail_rows: table.status().tail_rows as u64,
            unusable_files: unusable,
            is_complete,
        })
    }

    /// The progress of the index files of a stream's table; none if it is not open, or of a plain table.
    pub(crate) fn index_status(&self, name: &str) -> Option<CompanionStatus> {
        let stored = self.stored(&StreamName::new(name).ok()?)?;
        Some(stored.table()?.companion_status())
    }
}

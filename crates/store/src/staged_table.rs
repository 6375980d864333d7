//! Creates plain tables together with their rows: a table exists when it is complete, and an incomplete one leaves nothing
//! behind.
//!
//! ```text
//! _making, files of rows, the first commit with all of them, no _making
//! ```
//! For every reader, a table begins with its first commit. If the mark is found without a commit, the creation was
//! interrupted, and the files are deleted. If it is found with one, only the mark is deleted.

use std::{
    collections::HashSet,
    fmt::Display,
    sync::{Mutex, MutexGuard, PoisonError},
};

use arrow_array::RecordBatch;
use futures_util::{Stream, TryStreamExt};
use object_store::{ObjectStoreExt, PutPayload, path::Path};
use swiftwater_event::causes;
use tokio::sync::Notify;
use tracing::warn;

use crate::{
    actions::{self, Add},
    encode::write_rows,
    error::{Result, StoreError},
    layout::Layout,
    load::TableLocation,
    store::Store,
    table::{Application, Table},
};

/// A mark that a table is being made.
const MAKING: &str = "_making";

/// The names of tables that are being made.
#[derive(Debug, Default)]
pub(crate) struct StagedTable {
    names: Mutex<HashSet<Box<str>>>,
    /// Told whenever one is no more.
    ended: Notify,
}

impl StagedTable {
    fn names(&self) -> MutexGuard<'_, HashSet<Box<str>>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.names().contains(name)
    }

    /// Returns when nobody makes a table of this name.
    pub(crate) async fn until_ended(&self, name: &str) {
        loop {
            // Asked for before the look, so that no notice is missed in between.
            let ended = self.ended.notified();
            tokio::pin!(ended);
            ended.as_mut().enable();
            if !self.has(name) {
                return;
            }
            ended.await;
        }
    }

    fn end(&self, name: &str) {
        self.names().remove(name);
        self.ended.notify_waiters();
    }
}

/// A plain table that is being made. Its name is reserved, and nobody sees it before [`NewTable::commit`] has returned. Drop
/// before that deletes the written files.
#[derive(Debug)]
pub struct NewTable {
    /// The state; none once it is committed or removed.
    begun: Option<StagedState>,
}

#[derive(Debug)]
struct StagedState {
    store: Store,
    place: TableLocation,
    layout: Layout,
    adds: Vec<Add>,
    is_made: bool,
}

impl NewTable {
    /// Takes the name, where nothing lies that has it.
    pub(crate) async fn begin(store: Store, place: TableLocation, layout: Layout) -> Result<NewTable> {
        let put = place.store.put(&mark(&place), PutPayload::new()).await;
        put.map_err(StoreError::store("making a table"))?;
        store.making().names().insert(place.table.clone());
        Ok(NewTable { begun: Some(StagedState { store, place, layout, adds: Vec::new(), is_made: false }) })
    }

    /// Writes rows, as [`Table::insert`] takes them; returns how many. If it fails, there is no table to commit.
    pub async fn write<E: Display>(
        &mut self,
        rows: impl Stream<Item = std::result::Result<RecordBatch, E>> + Send,
    ) -> Result<u64> {
        let Some(begun) = &mut self.begun else { return Err(gone()) };
        let (options, now) = (begun.store.options(), begun.store.now());
        match write_rows(&begun.place, &begun.layout, options, now, rows).await {
            Ok((adds, count)) => {
                begun.adds.extend(adds);
                Ok(count)
            }
            Err(error) => {
                self.end().await;
                Err(error)
            }
        }
    }

    /// Makes the table visible, with all written rows, and records the insertions of the application.
    pub async fn commit(mut self, once: Option<&Application>) -> Result<Table> {
        let Some(begun) = &mut self.begun else { return Err(gone()) };
        let (layout, adds) = (begun.layout.clone(), std::mem::take(&mut begun.adds));
        let made = begun.store.create_with(&begun.place, layout, adds, once).await;
        begun.is_made = made.is_ok();
        self.end().await;
        made
    }

    /// Removes the rest; a drop does it, too, if it is not complete.
    async fn end(&mut self) {
        if let Some(begun) = &self.begun {
            begun.clear().await;
        }
        if let Some(begun) = self.begun.take() {
            begun.store.making().end(&begun.place.table);
        }
    }
}

impl Drop for NewTable {
    fn drop(&mut self) {
        if let Some(begun) = self.begun.take() {
            let runtime = begun.store.runtime().clone();
            runtime.spawn(async move {
                begun.clear().await;
                begun.store.making().end(&begun.place.table);
            });
        }
    }
}

impl StagedState {
    /// Deletes what was written of a table that was not made, and the mark.
    async fn clear(&self) {
        let mark = mark(&self.place);
        let cleared = if self.is_made { delete(&self.place, &mark).await } else { sweep(&self.place).await };
        if let Err(error) = cleared {
            let error = causes(&error);
            warn!(table = %self.place.table, error, "files of an incomplete table remain until the store is opened \
                 again");
        }
    }
}

fn gone() -> StoreError {
    StoreError::Task("making a table")
}

fn mark(place: &TableLocation) -> Path {
    place.root().join(MAKING)
}

/// Deletes what is left of a table whose making came to no end.
pub(crate) async fn finish_making(place: &TableLocation) -> Result<()> {
    let mark = mark(place);
    match place.store.head(&mark).await {
        Ok(_) if place.exists().await? => delete(place, &mark).await,
        Ok(_) => sweep(place).await,
        Err(object_store::Error::NotFound { .. }) => Ok(()),
        Err(error) => Err(StoreError::store("looking up a table")(error)),
    }
}

/// Deletes all that there is of a table: its first commit first, so that there is none that lacks files; the mark last.
async fn sweep(place: &TableLocation) -> Result<()> {
    delete(place, &actions::commit_path(&place.root(), 0)).await?;
    let list = place.store.list(Some(&place.root())).try_collect::<Vec<_>>().await;
    let mark = mark(place);
    for object in list.map_err(StoreError::store("abandoning a table"))? {
        if object.location != mark {
            delete(place, &object.location).await?;
        }
    }
    delete(place, &mark).await
}

async fn delete(place: &TableLocation, path: &Path) -> Result<()> {
    match place.store.delete(path).await {
        Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
        Err(error) => Err(StoreError::store("abandoning a table")(error)),
    }
}

//! The store of the views, joins and alerts: one directory, opened when the first of them needs it.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use swiftwater_catalog::{Catalog, ObjectKind, kind::stream_join::JoinEntry};
use swiftwater_live::ViewTime;
use swiftwater_log::LogPosition;
use swiftwater_views::{ViewStore, ViewStoreError, ViewStoreOptions};

use super::history::{History, run_blocking};
use crate::{EngineError, HistoryConfig, HistoryError};
use swiftwater_runtime::lock_order::OrderedMutex;

/// A view's store, and its last commit: the position and the event time.
pub(crate) type LastCommit = (Arc<ViewStore>, Option<(u64, ViewTime)>);

/// The directory of the store, and the store once it is open.
#[derive(Debug)]
pub(crate) struct ViewFiles {
    /// The directory; none if the history has none.
    dir: Option<PathBuf>,
    store: OrderedMutex<Option<Arc<ViewStore>>>,
}

impl ViewFiles {
    pub(super) fn new(dir: Option<PathBuf>, store: Option<Arc<ViewStore>>) -> ViewFiles {
        ViewFiles { dir, store: OrderedMutex::new(store) }
    }

    /// The store, if it is open.
    pub(crate) fn opened(&self) -> Option<Arc<ViewStore>> {
        self.store.lock().clone()
    }
}

impl History {
    /// The store of the views, opened if it is not open yet. `name` is the view in the error.
    pub(crate) fn view_store(&self, name: &str) -> Result<Arc<ViewStore>, EngineError> {
        let unavailable = |why: String| EngineError::unavailable(ObjectKind::View.named(name), why);
        let mut store = self.view_files.store.lock();
        if let Some(store) = &*store {
            return Ok(Arc::clone(store));
        }
        let path = self.view_files.dir.clone();
        let path = path.ok_or_else(|| unavailable("its directory does not exist".to_owned()))?;
        let opened = run_blocking(usize::MAX, || open_store(&self.config, &path));
        let opened = opened.map_err(|error| unavailable(error.to_string()))?;
        *store = Some(Arc::clone(&opened));
        Ok(opened)
    }
}

fn open_store(config: &HistoryConfig, path: &Path) -> Result<Arc<ViewStore>, ViewStoreError> {
    let options = ViewStoreOptions { cache_bytes: config.views_cache_bytes as u64 };
    ViewStore::open(path, options).map(Arc::new)
}

/// The store, if the catalog has joins, and the position up to which one of them has read the log, which was synced up to there.
pub(super) fn joins_at_start(
    config: &HistoryConfig,
    catalog: &Catalog,
    dir: Option<&Path>,
) -> Result<(Option<Arc<ViewStore>>, LogPosition), HistoryError> {
    let (mut opened, mut read) = (None, LogPosition(0));
    // A missing directory is reported when the joins are reopened.
    let Some(dir) = dir else { return Ok((opened, read)) };
    for JoinEntry { id, create, .. } in catalog.joins() {
        let unavailable = |error: ViewStoreError| {
            let join = ObjectKind::StreamJoin.named(&*create.name);
            HistoryError::View(EngineError::unavailable(join, error))
        };
        let store = match opened.take() {
            Some(store) => store,
            None => open_store(config, dir).map_err(unavailable)?,
        };
        let position = store.position(*id).map_err(unavailable)?;
        read = read.max(LogPosition(position.unwrap_or(0)));
        opened = Some(store);
    }
    Ok((opened, read))
}

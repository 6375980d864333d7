//! Which store it is: a file at its root has an id. Where a certain store is expected, nothing is read or written before that
//! id was seen: the directory of a disk that is not mounted looks like an empty store, and would be taken for one.
//!
//! ```text
//! _swiftwater_store = id LF
//! ```

use std::sync::{
    OnceLock,
    atomic::{AtomicBool, Ordering},
};

use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload, path::Path};

use crate::{
    error::{Result, StoreError},
    store::Store,
};

/// At the root of the store.
const MARK: &str = "_swiftwater_store";
/// Ids are shorter.
const ID_BYTES_MAX: usize = 256;

/// The store that is expected.
#[derive(Debug, Default)]
pub(crate) struct Expected {
    id: OnceLock<Box<str>>,
    was_seen: AtomicBool,
}

impl Store {
    /// The id of the store, which is given one if it has none.
    pub async fn identify(&self) -> Result<Box<str>> {
        if let Some(id) = self.mark().await? {
            return Ok(id);
        }
        let id = uuid::Uuid::new_v4().to_string();
        let payload = PutPayload::from(format!("{id}\n"));
        let put =
            self.objects().put_opts(&Path::from(MARK), payload, PutOptions::from(PutMode::Create)).await;
        match put {
            Ok(_) => Ok(id.into()),
            // Somebody else was first.
            Err(object_store::Error::AlreadyExists { .. }) => {
                self.mark().await?.ok_or_else(|| self.away(None))
            }
            Err(error) => Err(StoreError::store("giving the store an id")(error)),
        }
    }

    /// From here on, tables are opened, made, listed and dropped in the store of this id only: until it is there, all that is
    /// [`StoreError::Away`].
    pub fn expect(&self, id: &str) {
        // Whoever opens the store expects one.
        let _ = self.expected().id.set(id.into());
    }

    /// Whether it is the store that is expected, if one is. Once it was, it is not looked at again.
    pub(crate) async fn check(&self) -> Result<()> {
        let Some(id) = self.expected().id.get() else { return Ok(()) };
        if self.expected().was_seen.load(Ordering::Acquire) {
            return Ok(());
        }
        let found = self.mark().await?;
        if found.as_ref() != Some(id) {
            return Err(self.away(found));
        }
        self.expected().was_seen.store(true, Ordering::Release);
        Ok(())
    }

    fn away(&self, found: Option<Box<str>>) -> StoreError {
        let expected = self.expected().id.get().cloned().unwrap_or_default();
        StoreError::Away { expected, found }
    }

    async fn mark(&self) -> Result<Option<Box<str>>> {
        let failed = StoreError::store("reading the store's id");
        let got = match self.objects().get(&Path::from(MARK)).await {
            Ok(got) => got,
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        let bytes = got.bytes().await.map_err(failed)?;
        Ok(Some(String::from_utf8_lossy(&bytes[..bytes.len().min(ID_BYTES_MAX)]).trim().into()))
    }
}

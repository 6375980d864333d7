//! Identifies a store by the id in a file at its root.
//!
//! A process may expect a certain store. It then opens no table, writes nothing, and counts no write before it has seen that
//! id. The directory of a disk that is not mounted looks like an empty store, and would be taken for one. A disk can go at
//! any time, so the id is checked each time.
//!
//! ```text
//! _swiftwater_store = id LF
//! ```

use std::sync::OnceLock;

use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload, path::Path};

use crate::{
    error::{Result, StoreError},
    store::Store,
};

/// Path of the id, at the root of the store.
const MARK: &str = "_swiftwater_store";
/// Ids are shorter.
const ID_BYTES_MAX: usize = 256;

/// The store that is expected.
#[derive(Debug, Default)]
pub(crate) struct ExpectedStoreId(OnceLock<Box<str>>);

impl ExpectedStoreId {
    /// Checks that it is the expected store, if one is expected.
    pub(crate) async fn check(&self, objects: &dyn ObjectStore) -> Result<()> {
        let Some(id) = self.0.get() else { return Ok(()) };
        let found = read(objects).await?;
        if found.as_ref() == Some(id) { Ok(()) } else { Err(self.identity_mismatch(found)) }
    }

    fn identity_mismatch(&self, found: Option<Box<str>>) -> StoreError {
        StoreError::Away { expected: self.0.get().cloned().unwrap_or_default(), found }
    }
}

impl Store {
    /// The id of the store, which is given one if it has none.
    pub async fn identify(&self) -> Result<Box<str>> {
        if let Some(id) = read(self.objects()).await? {
            return Ok(id);
        }
        let id = uuid::Uuid::new_v4().to_string();
        let payload = PutPayload::from(format!("{id}\n"));
        let put =
            self.objects().put_opts(&Path::from(MARK), payload, PutOptions::from(PutMode::Create)).await;
        match put {
            Ok(_) => Ok(id.into()),
            // Another process was first.
            Err(object_store::Error::AlreadyExists { .. }) => {
                read(self.objects()).await?.ok_or_else(|| self.expected().identity_mismatch(None))
            }
            Err(error) => Err(StoreError::store("giving the store an id")(error)),
        }
    }

    /// From now on, tables are opened, made, listed, dropped and committed to in the store of this id only. While it cannot be
    /// found, all these operations return [`StoreError::Away`].
    pub fn expect(&self, id: &str) {
        // The caller that opens the store expects one.
        let _ = self.expected().0.set(id.into());
    }

    /// Checks that it is the expected store, if one is expected.
    pub(crate) async fn check(&self) -> Result<()> {
        self.expected().check(self.objects()).await
    }
}

/// The id of a store; none if it has none.
async fn read(objects: &dyn ObjectStore) -> Result<Option<Box<str>>> {
    let failed = StoreError::store("reading the store's id");
    let got = match objects.get(&Path::from(MARK)).await {
        Ok(got) => got,
        Err(object_store::Error::NotFound { .. }) => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let bytes = got.bytes().await.map_err(failed)?;
    Ok(Some(String::from_utf8_lossy(&bytes[..bytes.len().min(ID_BYTES_MAX)]).trim().into()))
}

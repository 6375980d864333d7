//! Makes the writes of a local object store durable before they are acknowledged.
//!
//! `object_store` renames local files into place but never syncs them. After a loss of power, a commit could exist without
//! its bytes, or a file without its name. [`Durable`] wraps such a store. It writes a file under another name, syncs it,
//! renames it, and syncs the directories.

use std::{fmt, path::PathBuf, sync::Arc};

use async_trait::async_trait;
use futures_util::{StreamExt, TryStreamExt, stream::BoxStream};
use object_store::{
    CopyMode, CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    ObjectStoreExt, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions,
    RenameTargetMode, Result, UploadPart, path::Path,
};

/// The sync of a store's files to disk. Real disks sync; a test may forget what was not synced.
#[async_trait]
pub trait Durability: fmt::Debug + Send + Sync + 'static {
    /// Returns when the bytes of this object are durable.
    async fn sync_file(&self, location: &Path) -> Result<()>;
    /// Returns when the names that lead to this object are durable.
    async fn sync_names(&self, location: &Path) -> Result<()>;
}

/// Files below a directory, made durable by fsync.
#[derive(Debug)]
pub(crate) struct SyncedDirectory {
    root: PathBuf,
}

impl SyncedDirectory {
    pub(crate) fn new(root: PathBuf) -> SyncedDirectory {
        SyncedDirectory { root }
    }

    fn path(&self, location: &Path) -> PathBuf {
        let mut path = self.root.clone();
        path.extend(location.parts().map(|part| part.as_ref().to_owned()));
        path
    }
}

fn failed(error: impl std::error::Error + Send + Sync + 'static) -> object_store::Error {
    object_store::Error::Generic { store: "swiftwater disk", source: Box::new(error) }
}

async fn blocking(work: impl FnOnce() -> std::io::Result<()> + Send + 'static) -> Result<()> {
    tokio::task::spawn_blocking(work).await.map_err(failed)?.map_err(failed)
}

#[async_trait]
impl Durability for SyncedDirectory {
    async fn sync_file(&self, location: &Path) -> Result<()> {
        let path = self.path(location);
        blocking(move || std::fs::File::open(path)?.sync_all()).await
    }

    async fn sync_names(&self, location: &Path) -> Result<()> {
        let (path, root) = (self.path(location), self.root.clone());
        blocking(move || {
            // The directory may be new, and so may those above it. Syncing one that has not changed costs next to
            // nothing.
            for directory in path.ancestors().skip(1) {
                std::fs::File::open(directory)?.sync_all()?;
                if directory == root {
                    break;
                }
            }
            Ok(())
        })
        .await
    }
}

/// A store whose puts, copies and renames are durable when they return.
#[derive(Debug, Clone)]
pub struct Durable {
    inner: Arc<dyn ObjectStore>,
    durability: Arc<dyn Durability>,
}

impl Durable {
    /// Wraps a store.
    pub fn new(inner: Arc<dyn ObjectStore>, durability: Arc<dyn Durability>) -> Durable {
        Durable { inner, durability }
    }

    /// The name that an object has before it is whole. Readers of Delta tables pass by such names.
    fn unfinished(location: &Path) -> Path {
        let mut parts: Vec<String> = location.parts().map(|part| part.as_ref().to_owned()).collect();
        parts.pop();
        parts.push(format!("_commit_{}.json.tmp", uuid::Uuid::new_v4()));
        Path::from_iter(parts)
    }
}

impl fmt::Display for Durable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Durable({})", self.inner)
    }
}

/// Lists in the order of names: object storage does, and readers of a Delta log rely on it; directories do not.
fn in_order(list: BoxStream<'static, Result<ObjectMeta>>) -> BoxStream<'static, Result<ObjectMeta>> {
    let sorted = async move {
        let mut objects: Vec<ObjectMeta> = list.try_collect().await?;
        objects.sort_unstable_by(|a, b| a.location.cmp(&b.location));
        Ok::<_, object_store::Error>(futures_util::stream::iter(objects.into_iter().map(Ok)))
    };
    futures_util::stream::once(sorted).try_flatten().boxed()
}

#[async_trait]
impl ObjectStore for Durable {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        let target_mode = match options.mode {
            PutMode::Create => RenameTargetMode::Create,
            PutMode::Overwrite => RenameTargetMode::Overwrite,
            PutMode::Update(_) => {
                return Err(object_store::Error::NotImplemented {
                    operation: "put with an ETag".to_owned(),
                    implementer: self.to_string(),
                });
            }
        };
        let unfinished = Durable::unfinished(location);
        let result = self.inner.put(&unfinished, payload).await?;
        let named = async {
            self.durability.sync_file(&unfinished).await?;
            let options = RenameOptions::new().with_target_mode(target_mode);
            self.inner.rename_opts(&unfinished, location, options).await
        };
        if let Err(error) = named.await {
            // Left-overs of this name are swept when the table is opened next; failing to delete it changes nothing.
            let _ = self.inner.delete(&unfinished).await;
            if matches!(error, object_store::Error::AlreadyExists { .. }) {
                // It may be our own, of a try whose names could not be synced.
                self.durability.sync_names(location).await?;
            }
            return Err(error);
        }
        self.durability.sync_names(location).await?;
        Ok(result)
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let unfinished = Durable::unfinished(location);
        let upload = self.inner.put_multipart_opts(&unfinished, options).await?;
        Ok(Box::new(DurableUpload { upload, store: self.clone(), unfinished, location: location.clone() }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.inner.get_opts(location, options).await
    }

    async fn get_ranges(
        &self,
        location: &Path,
        ranges: &[std::ops::Range<u64>],
    ) -> Result<Vec<bytes::Bytes>> {
        self.inner.get_ranges(location, ranges).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        in_order(self.inner.list(prefix))
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        in_order(self.inner.list_with_offset(prefix, offset))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        let is_new = matches!(options.mode, CopyMode::Create);
        self.inner.copy_opts(from, to, options).await?;
        // A copy on a local disk is a link to bytes that were synced when they were put.
        if !is_new {
            self.durability.sync_file(to).await?;
        }
        self.durability.sync_names(to).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        self.inner.rename_opts(from, to, options).await?;
        self.durability.sync_names(to).await
    }
}

/// A multipart upload that is durable when it is complete, and has its name only then: any reader may find a
/// checkpoint.
#[derive(Debug)]
struct DurableUpload {
    upload: Box<dyn MultipartUpload>,
    store: Durable,
    unfinished: Path,
    location: Path,
}

#[async_trait]
impl MultipartUpload for DurableUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        self.upload.put_part(data)
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let result = self.upload.complete().await?;
        let named = async {
            self.store.durability.sync_file(&self.unfinished).await?;
            self.store.inner.rename(&self.unfinished, &self.location).await
        };
        if let Err(error) = named.await {
            // As of a put.
            let _ = self.store.inner.delete(&self.unfinished).await;
            return Err(error);
        }
        self.store.durability.sync_names(&self.location).await?;
        Ok(result)
    }

    async fn abort(&mut self) -> Result<()> {
        self.upload.abort().await
    }
}

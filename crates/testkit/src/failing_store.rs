//! An object store in memory that fails on purpose: at the n-th call, for a while, or when it is full. When it crashes, it
//! loses unsynced data, as a local disk does.
//!
//! Every call of the object store's interface counts, and so do the two that sync files and names. After
//! [`FailingStore::crash_at`] all calls fail from the n-th on; the n-th may have had its effect although its answer is lost.
//! [`FailingStore::restart`] returns the store as a new process finds it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{FutureExt, StreamExt, stream::BoxStream};
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, Result,
    UploadPart, memory::InMemory, path::Path,
};

use super::power::{Current, Power};

/// The calls that fail.
#[derive(Debug, Clone, Copy, Default)]
struct Plan {
    calls: u64,
    crash_at: Option<(u64, bool)>,
    fail_at: Option<(u64, bool)>,
    is_away: bool,
    is_full: bool,
    object_bytes_max: Option<u64>,
    is_down: bool,
}

/// The content of a disk after a loss of power.
#[derive(Debug, Default)]
struct Disk {
    /// Names that are durable, with their bytes; what was not synced of those is torn.
    durable: BTreeMap<Path, Bytes>,
    /// Objects whose bytes are synced, by their names now.
    synced: BTreeSet<Path>,
}

#[derive(Debug)]
struct Inner {
    objects: InMemory,
    plan: Mutex<Plan>,
    /// `None` where all that was answered is durable, as on object storage.
    disk: Option<Mutex<Disk>>,
    /// Its power supply.
    power: Option<Power>,
}

/// The store; clones are the same one.
#[derive(Debug, Clone)]
pub struct FailingStore {
    inner: Arc<Inner>,
}

/// The outcome of a call.
enum CallOutcome {
    Go,
    /// Do it, and say that it failed.
    AnswerLost,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn failure(what: &'static str) -> Error {
    Error::Generic { store: "failing store", source: what.into() }
}

impl FailingStore {
    /// A disk: what was not synced is lost with [`FailingStore::restart`].
    pub fn disk() -> FailingStore {
        FailingStore::with(InMemory::new(), Some(Disk::default()), None)
    }

    /// Object storage: what was answered is durable.
    pub fn remote() -> FailingStore {
        FailingStore::with(InMemory::new(), None, None)
    }

    /// Makes a store as [`FailingStore::disk`] does, on a machine whose power other disks share.
    pub fn disk_on(power: &Power) -> FailingStore {
        FailingStore::with(InMemory::new(), Some(Disk::default()), Some(power.clone()))
    }

    /// Makes a store as [`FailingStore::remote`] does, for a machine whose power other disks share.
    pub fn remote_on(power: &Power) -> FailingStore {
        FailingStore::with(InMemory::new(), None, Some(power.clone()))
    }

    fn with(objects: InMemory, disk: Option<Disk>, power: Option<Power>) -> FailingStore {
        let inner = Inner { objects, plan: Mutex::new(Plan::default()), disk: disk.map(Mutex::new), power };
        FailingStore { inner: Arc::new(inner) }
    }

    /// Calls so far.
    pub fn calls(&self) -> u64 {
        locked(&self.inner.plan).calls
    }

    /// Fails all calls from the one of this number on (the first is 0); with `has_effect` that one still takes effect.
    pub fn crash_at(&self, call: u64, has_effect: bool) {
        locked(&self.inner.plan).crash_at = Some((call, has_effect));
    }

    /// The call of this number fails, those after it do not.
    pub fn fail_at(&self, call: u64, has_effect: bool) {
        locked(&self.inner.plan).fail_at = Some((call, has_effect));
    }

    /// Makes all calls fail while it is away.
    pub fn set_away(&self, is_away: bool) {
        locked(&self.inner.plan).is_away = is_away;
    }

    /// Makes all puts fail while it is full.
    pub fn set_full(&self, is_full: bool) {
        locked(&self.inner.plan).is_full = is_full;
    }

    /// No object can be put that has more bytes, as if there were no room for it.
    pub fn set_object_bytes_max(&self, bytes_max: Option<u64>) {
        locked(&self.inner.plan).object_bytes_max = bytes_max;
    }

    /// Checks that there is room for an object of so many bytes.
    fn fits(&self, bytes: u64) -> Result<()> {
        match locked(&self.inner.plan).object_bytes_max {
            Some(bytes_max) if bytes > bytes_max => Err(failure("it is full")),
            _ => Ok(()),
        }
    }

    /// True if the planned crash has come.
    pub fn is_down(&self) -> bool {
        locked(&self.inner.plan).is_down
    }

    /// The content after the crash, in a store without faults.
    pub async fn restart(&self) -> FailingStore {
        self.left(None).await
    }

    /// Restarts as [`FailingStore::restart`] does, on a power supply of its own.
    pub async fn after_power_loss(&self, power: &Power) -> FailingStore {
        self.left(Some(power.clone())).await
    }

    async fn left(&self, power: Option<Power>) -> FailingStore {
        let objects = InMemory::new();
        let found: Vec<(Path, Bytes)> = match &self.inner.disk {
            Some(disk) => {
                locked(disk).durable.iter().map(|(path, bytes)| (path.clone(), bytes.clone())).collect()
            }
            None => {
                let mut found = Vec::new();
                let mut list = self.inner.objects.list(None);
                while let Some(Ok(object)) = list.next().await {
                    found.push((object.location.clone(), self.bytes(&object.location).await));
                }
                found
            }
        };
        let mut disk = Disk::default();
        for (path, bytes) in found {
            disk.durable.insert(path.clone(), bytes.clone());
            disk.synced.insert(path.clone());
            // Memory does not refuse.
            let _ = objects.put(&path, PutPayload::from(bytes)).await;
        }
        FailingStore::with(objects, self.inner.disk.as_ref().map(|_| disk), power)
    }

    /// Syncs the bytes of an object.
    pub async fn sync_file(&self, location: &Path) -> Result<()> {
        let leave = self.call(false, "sync file")?;
        let bytes = self.bytes(location).await;
        if let Some(disk) = &self.inner.disk {
            let mut disk = locked(disk);
            disk.synced.insert(location.clone());
            if let Some(durable) = disk.durable.get_mut(location) {
                *durable = bytes;
            }
        }
        leave.answer(())
    }

    /// Syncs the names in the directory of an object.
    pub async fn sync_names(&self, location: &Path) -> Result<()> {
        let leave = self.call(false, "sync names")?;
        let parent = directory(location);
        if let Some(disk) = &self.inner.disk {
            // Locked before it is looked: else a slow one would take back what another has synced meanwhile.
            let mut disk = locked(disk);
            let now = self.in_directory(&parent).now_or_never().unwrap_or_default();
            disk.durable.retain(|path, _| directory(path) != parent);
            for (path, bytes) in now {
                // A name without its bytes: half of them, as good as any.
                let bytes = if disk.synced.contains(&path) { bytes } else { bytes.slice(..bytes.len() / 2) };
                disk.durable.insert(path, bytes);
            }
        }
        leave.answer(())
    }

    /// The objects of a directory, with their bytes. Memory never makes anybody wait.
    async fn in_directory(&self, parent: &str) -> Vec<(Path, Bytes)> {
        let mut found = Vec::new();
        let mut list = self.inner.objects.list(None);
        while let Some(Ok(object)) = list.next().await {
            if directory(&object.location) == parent {
                let bytes = self.bytes(&object.location).await;
                found.push((object.location, bytes));
            }
        }
        found
    }

    async fn bytes(&self, location: &Path) -> Bytes {
        match self.inner.objects.get(location).await {
            Ok(object) => object.bytes().await.unwrap_or_default(),
            Err(_) => Bytes::new(),
        }
    }

    fn call(&self, puts: bool, what: &str) -> Result<CallOutcome> {
        if let Some(power) = &self.inner.power {
            match power.call("store", what) {
                Current::On => {}
                // On a disk nothing is left of the call; over the network it may take effect all the same.
                Current::GoesOff { has_effect } if has_effect && self.inner.disk.is_none() => {
                    return Ok(CallOutcome::AnswerLost);
                }
                Current::GoesOff { .. } | Current::Off => return Err(failure("the power is off")),
            }
        }
        let mut plan = locked(&self.inner.plan);
        let number = plan.calls;
        plan.calls += 1;
        if plan.is_down {
            return Err(failure("it is down"));
        }
        if let Some((_, has_effect)) = plan.crash_at.filter(|(at, _)| *at == number) {
            plan.is_down = true;
            return if has_effect { Ok(CallOutcome::AnswerLost) } else { Err(failure("it goes down")) };
        }
        if let Some((_, has_effect)) = plan.fail_at.filter(|(at, _)| *at == number) {
            return if has_effect { Ok(CallOutcome::AnswerLost) } else { Err(failure("it fails once")) };
        }
        if plan.is_away {
            return Err(failure("it is away"));
        }
        if plan.is_full && puts {
            return Err(failure("it is full"));
        }
        Ok(CallOutcome::Go)
    }

    fn forget_synced(&self, location: &Path) {
        if let Some(disk) = &self.inner.disk {
            locked(disk).synced.remove(location);
        }
    }

    /// Records another name for the same bytes.
    fn copy_synced(&self, from: &Path, to: &Path) {
        if let Some(disk) = &self.inner.disk {
            let mut disk = locked(disk);
            if disk.synced.contains(from) {
                disk.synced.insert(to.clone());
            } else {
                disk.synced.remove(to);
            }
        }
    }
}

/// The kind of an object, by its name.
fn kind_of(location: &Path) -> &'static str {
    let name = location.as_ref();
    match () {
        () if name.ends_with(".tmp") => "unfinished",
        () if name.ends_with(".checkpoint.parquet") => "checkpoint",
        () if name.ends_with(".parquet") => "parquet",
        () if name.contains("/_delta_log/") && name.ends_with(".json") => "commit",
        () => "other",
    }
}

fn put_of(location: &Path) -> String {
    format!("put {}", kind_of(location))
}

fn directory(location: &Path) -> String {
    let text = location.as_ref();
    text.rsplit_once('/').map_or("", |(parent, _)| parent).to_owned()
}

impl CallOutcome {
    fn answer<T>(self, value: T) -> Result<T> {
        match self {
            CallOutcome::Go => Ok(value),
            CallOutcome::AnswerLost => Err(failure("its answer is lost")),
        }
    }
}

impl fmt::Display for FailingStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FailingStore")
    }
}

#[async_trait]
impl ObjectStore for FailingStore {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        let leave = self.call(true, &put_of(location))?;
        self.fits(payload.content_length() as u64)?;
        let result = self.inner.objects.put_opts(location, payload, options).await?;
        self.forget_synced(location);
        leave.answer(result)
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let leave = self.call(true, "begin upload")?;
        let upload = self.inner.objects.put_multipart_opts(location, options).await?;
        let (store, location) = (self.clone(), location.clone());
        leave.answer(Box::new(FailingUpload { upload, store, location, bytes: 0 }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let leave = self.call(false, "get")?;
        leave.answer(self.inner.objects.get_opts(location, options).await?)
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let store = self.clone();
        let delete = move |location: Result<Path>| {
            let store = store.clone();
            async move {
                let location = location?;
                let leave = store.call(false, "delete")?;
                store.inner.objects.delete(&location).await?;
                leave.answer(location)
            }
        };
        locations.then(delete).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        match self.call(false, "list").and_then(|leave| leave.answer(())) {
            Ok(()) => self.inner.objects.list(prefix),
            Err(error) => futures_util::stream::once(async move { Err(error) }).boxed(),
        }
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let leave = self.call(false, "list")?;
        leave.answer(self.inner.objects.list_with_delimiter(prefix).await?)
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        let leave = self.call(true, "copy")?;
        self.inner.objects.copy_opts(from, to, options).await?;
        self.copy_synced(from, to);
        leave.answer(())
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        let leave = self.call(false, &format!("name {}", kind_of(to)))?;
        self.inner.objects.rename_opts(from, to, options).await?;
        self.copy_synced(from, to);
        leave.answer(())
    }
}

#[derive(Debug)]
struct FailingUpload {
    upload: Box<dyn MultipartUpload>,
    store: FailingStore,
    location: Path,
    /// Bytes of its parts so far.
    bytes: u64,
}

#[async_trait]
impl MultipartUpload for FailingUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        self.bytes += data.content_length() as u64;
        let called = self.store.call(true, "upload part").and_then(|leave| leave.answer(()));
        match called.and_then(|()| self.store.fits(self.bytes)) {
            Ok(()) => self.upload.put_part(data),
            Err(error) => Box::pin(async move { Err(error) }),
        }
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let leave = self.store.call(true, &format!("complete {}", kind_of(&self.location)))?;
        let result = self.upload.complete().await?;
        self.store.forget_synced(&self.location);
        leave.answer(result)
    }

    async fn abort(&mut self) -> Result<()> {
        self.upload.abort().await
    }
}

//! Tests a store whose disk is unmounted at any put: the directory below it takes the puts; then the disk is mounted again.
#![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

use std::{
    fmt,
    sync::{Arc, Mutex},
};

use crate::common::*;
use async_trait::async_trait;
use futures_util::stream::BoxStream;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, memory::InMemory, path::Path,
};
use swiftwater_store::{Store, StoreError, StoreOptions};

#[derive(Debug, Default)]
struct Mounts {
    disk: InMemory,
    /// The mount point of the disk.
    directory: InMemory,
    mount: Mutex<Mount>,
}

#[derive(Debug, Default)]
struct Mount {
    /// Number of puts before it is unmounted.
    puts: Option<usize>,
    is_unmounted: bool,
    /// Number of reads of the store's id since then.
    looks: usize,
}

/// Number of lookups of the id in the directory after which the disk is back.
const LOOKS: usize = 2;

impl Mounts {
    fn now(&self) -> &InMemory {
        if self.mount.lock().unwrap().is_unmounted { &self.directory } else { &self.disk }
    }

    fn put(&self) -> &InMemory {
        let mut mount = self.mount.lock().unwrap();
        match mount.puts {
            Some(0) => *mount = Mount { puts: None, is_unmounted: true, looks: 0 },
            Some(puts) => mount.puts = Some(puts - 1),
            None => {}
        }
        drop(mount);
        self.now()
    }

    fn get(&self, location: &Path) -> &InMemory {
        let found = self.now();
        let mut mount = self.mount.lock().unwrap();
        if mount.is_unmounted && location.as_ref() == "_swiftwater_store" {
            mount.looks += 1;
            mount.is_unmounted = mount.looks < LOOKS;
        }
        found
    }

    fn unmount_after(&self, puts: usize) {
        self.mount.lock().unwrap().puts = Some(puts);
    }

    fn was_unmounted(&self) -> bool {
        let mount = self.mount.lock().unwrap();
        mount.puts.is_none() && mount.looks == LOOKS
    }
}

impl fmt::Display for Mounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mounts")
    }
}

#[async_trait]
impl ObjectStore for Mounts {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.put().put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.put().put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.get(location).get_opts(location, options).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.now().delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.now().list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.now().list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.now().copy_opts(from, to, options).await
    }
}

async fn open_on(mounts: &Arc<Mounts>) -> Store {
    let mut options = StoreOptions::at("memory");
    options.commit_interval = std::time::Duration::from_secs(3600);
    let objects: Arc<dyn ObjectStore> = Arc::clone(mounts) as _;
    let store = Store::open_at(objects, options, clock()).await.unwrap();
    let id = store.identify().await.unwrap();
    store.expect(&id);
    store
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_put_below_a_mount_is_put_again() {
    // The file of the first commit, that commit, the file of the second, that commit.
    for puts in 0..4 {
        let mounts = Arc::new(Mounts::default());
        let store = open_on(&mounts).await;
        let table = store.open_table(home("t")).await.unwrap();
        mounts.unmount_after(puts);
        for commit in 0..3 {
            table.append(rows(commit * 10, commit * 10 + 10)).await.unwrap();
            table.flush().await.unwrap();
        }
        assert!(mounts.was_unmounted(), "before put {puts}");
        check_offsets(&table, 30).await;
        assert_eq!(table.status().commits, 3, "each is there once, {puts}");
        store.close().await;

        let store = open_on(&mounts).await;
        let table = store.open_table(home("t")).await.unwrap();
        assert_eq!(table.committed().0, 30, "before put {puts}");
        check_offsets(&table, 30).await;
        store.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn insert_that_went_below_a_mount_fails_and_leaves_the_table_as_it_was() {
    for puts in 0..2 {
        let mounts = Arc::new(Mounts::default());
        let store = open_on(&mounts).await;
        let batch = rows(0, 10).batch;
        let table = store.create_plain("p", batch.schema(), None).await.unwrap();
        let insert = || table.insert(futures_util::stream::iter([Ok::<_, StoreError>(batch.clone())]), false);
        mounts.unmount_after(puts);
        let error = insert().await.unwrap_err();
        assert!(matches!(error, StoreError::Away { found: None, .. }), "before put {puts}: {error}");
        assert_eq!(long(&table, "SELECT count(*) FROM t").await, 0);
        assert_eq!(insert().await.unwrap(), 10, "before put {puts}");
        assert_eq!(long(&table, "SELECT count(*) FROM t").await, 10);
        store.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_are_neither_made_nor_opened_nor_dropped_below_a_mount() {
    let mounts = Arc::new(Mounts::default());
    let store = open_on(&mounts).await;
    let schema = rows(0, 1).batch.schema();
    store.create_plain("p", Arc::clone(&schema), None).await.unwrap();
    let unmount =
        || *mounts.mount.lock().unwrap() = Mount { puts: None, is_unmounted: true, looks: LOOKS - 2 };
    let is_away = |error: StoreError| matches!(error, StoreError::Away { .. });
    unmount();
    assert!(is_away(store.open_table(home("t")).await.unwrap_err()));
    assert!(is_away(store.create_plain("q", schema, None).await.unwrap_err()));
    unmount();
    assert!(is_away(store.drop_table("p").await.unwrap_err()));
    assert!(is_away(store.tables().await.unwrap_err()));
    assert_eq!(store.tables().await.unwrap(), ["p".into()]);
}

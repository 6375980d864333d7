//! Tests failures of the store at any of its calls, on a disk that loses unsynced data and on object storage. Every row is
//! in the table once, and no row is lost that was reported as committed.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "helpers of tests print, and what fails there fails a test"
)]

use std::{sync::Arc, time::Duration};

use crate::common::*;
use async_trait::async_trait;
use object_store::{ObjectStore, path::Path};
use swiftwater_event::{Clock, Offset, Type};
use swiftwater_store::{Durability, Durable, Result, Store, StoreOptions, Table, TableSpec};

#[derive(Debug)]
pub(crate) struct Synced(pub(crate) FailingStore);

#[async_trait]
impl Durability for Synced {
    async fn sync_file(&self, location: &Path) -> object_store::Result<()> {
        self.0.sync_file(location).await
    }

    async fn sync_names(&self, location: &Path) -> object_store::Result<()> {
        self.0.sync_names(location).await
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Disk,
    Remote,
}

fn options() -> StoreOptions {
    let mut options = StoreOptions::at("memory");
    options.commit_interval = Duration::from_secs(3600);
    (options.compact_files, options.checkpoint_commits) = (2, 3);
    (options.log_retention, options.vacuum_retention) = (Duration::ZERO, Duration::ZERO);
    options
}

async fn open_on(store: &FailingStore, kind: Kind, clock: &Arc<TestClock>) -> Store {
    let objects: Arc<dyn ObjectStore> = match kind {
        Kind::Disk => Arc::new(Durable::new(Arc::new(store.clone()), Arc::new(Synced(store.clone())))),
        Kind::Remote => Arc::new(store.clone()),
    };
    Store::open_at(objects, options(), Arc::clone(clock) as Arc<dyn Clock>).await.unwrap()
}

fn wider() -> TableSpec {
    let mut spec = home("t");
    spec.columns.push(column("added", Type::STRING));
    spec
}

const END: u64 = 50;

/// All kinds of work, in small: commits, a new column, upkeep, an overwritten plain table. Tries again what fails, up to
/// the moment when the store is down.
///
/// Nothing is kept for queries that still read it, so the clock is moved only where there is none.
async fn work(store: &Store, failing: &FailingStore, clock: &TestClock, told: &mut u64) -> Result<()> {
    let table = again(failing, || store.open_table(home("t"))).await?;
    while table.appended().0 < END {
        let first = table.appended().0;
        if first == 30 {
            table.alter(&wider()).await?;
        }
        table.append(rows(first, first + 10)).await?;
        flush(&table, failing).await?;
        *told = (*told).max(table.committed().0);
    }
    clock.advance_ms(1);
    again(failing, || table.upkeep()).await?;
    clock.advance_ms(1);
    again(failing, || table.upkeep()).await?;
    Ok(())
}

fn still() -> Arc<TestClock> {
    Arc::new(TestClock::at(now()))
}

/// Returns when the rows are committed, or the store is down.
async fn flush(table: &Table, failing: &FailingStore) -> Result<()> {
    tokio::select! {
        result = table.flush() => result,
        () = down(failing) => Err(swiftwater_store::StoreError::Closed("down".into())),
    }
}

/// The pause between two polls of something that sends no notification.
async fn poll_pause() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

async fn down(failing: &FailingStore) {
    while !failing.is_down() {
        poll_pause().await;
    }
}

async fn again<T, F: Future<Output = Result<T>>>(failing: &FailingStore, call: impl Fn() -> F) -> Result<T> {
    loop {
        // An owner's operation that retries for ever gets no answer from a store that is down.
        let result = tokio::select! {
            result = call() => result,
            () = down(failing) => Err(swiftwater_store::StoreError::Closed("down".into())),
        };
        match result {
            Err(_) if !failing.is_down() => poll_pause().await,
            result => return result,
        }
    }
}

async fn check_all(store: &Store) {
    let table = store.open_table(wider()).await.unwrap();
    let committed = table.committed();
    check_offsets(&table, committed.0).await;
    assert_eq!(table.appended(), committed);
}

async fn crash_at(call: u64, has_effect: bool, kind: Kind) -> bool {
    let failing = match kind {
        Kind::Disk => FailingStore::disk(),
        Kind::Remote => FailingStore::remote(),
    };
    failing.crash_at(call, has_effect);
    let clock = still();
    let store = open_on(&failing, kind, &clock).await;
    let mut told = 0;
    let result = work(&store, &failing, &clock, &mut told).await;
    assert!(result.is_ok() || failing.is_down(), "{result:?}");
    store.close().await;
    let found = failing.restart().await;
    let store = open_on(&found, kind, &clock).await;
    let table = store.open_table(home("t")).await.unwrap();
    let context = format!("call {call} of {kind:?}, with effect: {has_effect}");
    assert!(table.committed() >= Offset(told), "{context}: {:?} < {told}", table.committed());
    check_offsets(&table, table.committed().0).await;
    work(&store, &found, &clock, &mut told).await.unwrap();
    let table = store.open_table(wider()).await.unwrap();
    check_offsets(&table, END).await;
    assert_eq!(table.committed(), Offset(END), "{context}");
    store.close().await;
    let store = open_on(&found, kind, &clock).await;
    check_all(&store).await;
    store.close().await;
    failing.is_down()
}

/// Every how many calls there is a crash: `SWIFTWATER_CRASH_STEP`, or at each.
fn step() -> u64 {
    std::env::var("SWIFTWATER_CRASH_STEP").ok().and_then(|step| step.parse().ok()).unwrap_or(1)
}

async fn crash_everywhere(kind: Kind) {
    for has_effect in [false, true] {
        let (mut call, mut crashes) = (u64::from(has_effect) * (step() / 2), 0);
        while crash_at(call, has_effect, kind).await {
            (call, crashes) = (call + step(), crashes + 1);
        }
        assert!(call > 50, "only {call} calls");
        println!("{kind:?}: {crashes} crashes in {call} calls, with effect: {has_effect}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn crash_at_any_call_of_a_disk_loses_nothing() {
    crash_everywhere(Kind::Disk).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn crash_at_any_call_of_object_storage_loses_nothing() {
    crash_everywhere(Kind::Remote).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn store_that_was_away_or_full_gets_all_rows_when_it_is_back() {
    type Fault = fn(&FailingStore, bool);
    let faults: [(Fault, &str); 2] = [(FailingStore::set_away, "away"), (FailingStore::set_full, "full")];
    for (set, what) in faults {
        let (failing, clock) = (FailingStore::disk(), still());
        let store = open_on(&failing, Kind::Disk, &clock).await;
        let table = store.open_table(home("t")).await.unwrap();
        table.append(rows(0, 100)).await.unwrap();
        table.flush().await.unwrap();
        set(&failing, true);
        table.append(rows(100, 200)).await.unwrap();
        let flush = tokio::spawn({
            let table = table.clone();
            async move { table.flush().await }
        });
        while table.status().failing.is_none_or(|failing| failing.tries < 2) {
            poll_pause().await;
        }
        // Rows are taken, and those in memory are seen, while nothing can be committed.
        table.append(rows(200, 300)).await.unwrap();
        assert_eq!((table.appended(), table.committed()), (Offset(300), Offset(100)), "{what}");
        if what == "full" {
            check_offsets(&table, 300).await;
        }
        set(&failing, false);
        flush.await.unwrap().unwrap();
        table.flush().await.unwrap();
        assert!(table.status().failing.is_none());
        check_offsets(&table, 300).await;
        store.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn store_without_room_for_a_whole_commit_gets_it_in_parts() {
    let failing = FailingStore::remote();
    let options = StoreOptions { commit_bytes: 1 << 20, ..options() };
    let store = Store::open_at(Arc::new(failing.clone()), options, still()).await.unwrap();
    let table = store.open_table(home("t")).await.unwrap();
    for part in 0..10 {
        table.append(rows(part * 1000, (part + 1) * 1000)).await.unwrap();
    }
    // Less than a file of all that waits has, and more than one of a part of it.
    failing.set_object_bytes_max(Some(3000));
    table.flush().await.unwrap();
    let commits = table.status().commits;
    assert!((2..=10).contains(&commits), "{commits}");
    assert!(table.status().failing.is_none());
    check_offsets(&table, 10_000).await;
    // With room for all of it, there are fewer again.
    failing.set_object_bytes_max(None);
    for part in 10..30 {
        table.append(rows(part * 1000, (part + 1) * 1000)).await.unwrap();
        if part % 10 == 9 {
            table.flush().await.unwrap();
        }
    }
    assert!(table.status().commits < 3 * commits, "{} after {commits}", table.status().commits);
    check_offsets(&table, 30_000).await;
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn second_writer_of_a_stream_is_found_out() {
    let (failing, clock) = (FailingStore::remote(), still());
    let (one, two) =
        (open_on(&failing, Kind::Remote, &clock).await, open_on(&failing, Kind::Remote, &clock).await);
    let ours = one.open_table(home("t")).await.unwrap();
    let theirs = two.open_table(home("t")).await.unwrap();
    ours.append(rows(0, 10)).await.unwrap();
    ours.flush().await.unwrap();
    theirs.append(rows(0, 20)).await.unwrap();
    let error = theirs.flush().await.unwrap_err();
    assert_eq!(error.kind(), swiftwater_store::ErrorKind::Conflict, "{error}");
    check_offsets(&ours, 10).await;
    ours.append(rows(10, 30)).await.unwrap();
    ours.flush().await.unwrap();
    check_offsets(&ours, 30).await;
}

//! Tests pinned snapshots: a copy of the files of one has the tables as they were, whatever happens meanwhile.
#![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

use std::{path::Path, sync::Arc, time::Duration};

use crate::common::*;
use swiftwater_event::{Clock, Offset};
use swiftwater_store::{ErrorKind, PinnedStore, SnapshotOptions, Store, StoreOptions};

/// A store in which everything that no version needs goes at once.
async fn hasty(directory: &Path) -> (Store, Arc<TestClock>, StoreOptions) {
    let mut options = patient(directory);
    (options.compact_files, options.checkpoint_commits) = (4, 10);
    (options.log_retention, options.vacuum_retention) = (Duration::ZERO, Duration::ZERO);
    let clock = Arc::new(TestClock::at(now() + 60_000));
    let store = Store::open(options.clone(), Arc::clone(&clock) as Arc<dyn Clock>).await.unwrap();
    (store, clock, options)
}

/// Copies all files of a snapshot into a store, each in pieces.
async fn copied(cut: &PinnedStore, to: &Store) {
    assert!(to.is_empty().await.unwrap());
    for file in cut.files() {
        let mut put = to.put_file(&file.path).unwrap();
        let middle = file.bytes / 2;
        for range in [0..middle, middle..file.bytes] {
            let bytes = cut.read(&file.path, range.clone()).await.unwrap();
            assert_eq!(bytes.len() as u64, range.end - range.start);
            put.write(&bytes).await.unwrap();
        }
        assert_eq!(to.file_bytes(&file.path).await.unwrap(), None, "it has no name before it is whole");
        put.finish().await.unwrap();
        assert_eq!(to.file_bytes(&file.path).await.unwrap(), Some(file.bytes));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_a_cut_is_deleted_while_it_stands_and_all_else_goes_on() {
    let (directory, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (store, clock, _) = hasty(directory.path()).await;
    let table = store.open_table(home("homes")).await.unwrap();
    let commit = async |parts: std::ops::Range<u64>| {
        for part in parts {
            table.append(rows(part * 20, part * 20 + 20)).await.unwrap();
            table.flush().await.unwrap();
        }
        clock.advance_ms(1);
        table.upkeep().await.unwrap();
        clock.advance_ms(1);
        table.upkeep().await.unwrap();
    };
    commit(0..30).await;
    let gone = store.cut(SnapshotOptions::default()).await.unwrap();
    // An earlier snapshot that was released retains nothing.
    let before: Vec<_> = gone.files().to_vec();
    drop(gone);
    commit(30..33).await;
    let cut = store.cut(SnapshotOptions::default()).await.unwrap();
    let version = table.status().version;
    commit(33..90).await;
    let status = table.status();
    assert!(status.version > version + 57, "commits and compactions went on: {status:?}");
    assert!(status.upkeep_failing.is_none(), "{status:?}");
    let is_there = |path: &str| directory.path().join(path).exists();
    assert!(before.iter().any(|file| !is_there(&file.path)), "the first cut kept nothing");
    // The log begins with a checkpoint, not with the first commit.
    assert!(cut.files().iter().any(|file| file.path.ends_with(".checkpoint.parquet")));
    assert!(!cut.files().iter().any(|file| file.path.ends_with("00000000000000000000.json")));
    let again = open(patient(other.path())).await;
    copied(&cut, &again).await;
    let restored = again.open_table(home("homes")).await.unwrap();
    assert_eq!((restored.committed(), restored.status().version), (Offset(33 * 20), version));
    check_offsets(&restored, 33 * 20).await;
    restored.append(rows(33 * 20, 34 * 20)).await.unwrap();
    check_offsets(&restored, 34 * 20).await;
    let kept: Vec<_> = cut.files().iter().map(|file| file.path.clone()).collect();
    assert!(kept.iter().all(|path| is_there(path)));
    drop(cut);
    clock.advance_ms(1);
    table.upkeep().await.unwrap();
    assert!(kept.iter().any(|path| !is_there(path)), "what nobody needs goes when the cut is let go");
    check_offsets(&table, 90 * 20).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dropping_a_table_makes_the_cuts_void_that_hold_it_and_no_others() {
    let directory = tempfile::tempdir().unwrap();
    let (store, ..) = hasty(directory.path()).await;
    let homes = store.open_table(home("homes")).await.unwrap();
    homes.append(rows(0, 20)).await.unwrap();
    homes.flush().await.unwrap();
    let cut = store.cut(SnapshotOptions::default()).await.unwrap();
    store.open_table(home("later")).await.unwrap();
    assert!(store.drop_table("later").await.unwrap());
    assert_eq!(cut.void(), None);
    assert!(store.drop_table("homes").await.unwrap());
    assert_eq!(cut.void(), Some("homes"));
    let path = cut.files()[0].path.clone();
    assert_eq!(cut.read(&path, 0..1).await.unwrap_err().kind(), ErrorKind::Unavailable);
    let after = store.cut(SnapshotOptions::default()).await.unwrap();
    assert_eq!((after.files().len(), after.void()), (0, None));
}

#[tokio::test(flavor = "multi_thread")]
async fn file_that_is_given_up_leaves_no_name_however_large_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(patient(directory.path())).await;
    let piece = vec![7; 5 << 20];
    for (name, pieces) in [("small", 1), ("large", 5)] {
        let path = format!("t/{name}.parquet");
        let mut given_up = store.put_file(&path).unwrap();
        let mut finished = store.put_file(&path).unwrap();
        for _ in 0..pieces {
            given_up.write(&piece).await.unwrap();
        }
        given_up.abort().await;
        assert_eq!(store.file_bytes(&path).await.unwrap(), None);
        for _ in 0..pieces {
            finished.write(&piece).await.unwrap();
        }
        finished.finish().await.unwrap();
        assert_eq!(std::fs::read(directory.path().join(&path)).unwrap(), piece.repeat(pieces));
    }
    assert!(!store.is_empty().await.unwrap());
    assert!(store.put_file("t/../../x").is_err());
}

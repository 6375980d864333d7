//! Tests that plain tables created with their rows exist completely or not at all.
#![allow(clippy::unwrap_used, reason = "what fails in helpers of tests fails a test")]

use std::{path::Path, sync::Arc};

use crate::common::*;
use arrow_array::{Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use futures_util::{Stream, stream};
use swiftwater_store::{Application, At, NewTable, Store, StoreError};

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, true)]))
}

fn numbers(count: i64) -> RecordBatch {
    let numbers = Arc::new(Int64Array::from_iter_values(0..count));
    RecordBatch::try_new(schema(), vec![numbers]).unwrap()
}

fn given(
    batches: Vec<Result<RecordBatch, &'static str>>,
) -> impl Stream<Item = Result<RecordBatch, &'static str>> {
    stream::iter(batches)
}

async fn begin(store: &Store) -> NewTable {
    store.begin_plain("made", schema()).await.unwrap()
}

/// All files below a directory.
fn files(directory: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path.file_name().unwrap().to_string_lossy().into_owned());
        }
    }
    found
}

async fn until_gone(directory: &Path) {
    while !files(directory).is_empty() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_sees_a_table_before_all_of_it_is_there() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("made");
    let store = open(patient(directory.path())).await;
    let mut new = begin(&store).await;
    assert_eq!(new.write(given(vec![Ok(numbers(10)), Ok(numbers(5))])).await.unwrap(), 15);
    assert!(store.tables().await.unwrap().is_empty());
    assert!(store.table("made").await.unwrap().is_none());
    assert!(!store.drop_table("made").await.unwrap());
    assert!(!place.join("_delta_log").exists(), "other readers see none either");
    let once = Application::one("job", 3);
    let table = new.commit(Some(&once)).await.unwrap();
    assert_eq!(long(&table, "SELECT count(*) FROM t").await, 15);
    assert_eq!(text(&sql_at(&table, Some(At::Version(0)), "SELECT sum(n) FROM t").await), ["55"]);
    assert_eq!(store.tables().await.unwrap(), [Box::from("made")]);
    assert!(!files(&place).contains(&"_making".to_owned()));
    store.close().await;

    let store = open(patient(directory.path())).await;
    store.finish_left().await.unwrap();
    let table = store.table("made").await.unwrap().unwrap();
    assert_eq!(long(&table, "SELECT count(*) FROM t").await, 15);
    assert!(table.has_inserted(&once).await.unwrap());
    assert!(!table.has_inserted(&Application::one("job", 4)).await.unwrap());
    let exists = store.begin_plain("made", schema()).await;
    assert!(matches!(exists, Err(StoreError::TableExists(_))), "{exists:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_stays_of_a_table_whose_rows_fail_or_that_nobody_wants_any_more() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("made");
    let store = open(patient(directory.path())).await;
    let mut new = begin(&store).await;
    let failed = new.write(given(vec![Ok(numbers(10)), Err("no more")])).await.unwrap_err();
    assert!(failed.to_string().contains("no more"), "{failed}");
    assert!(files(&place).is_empty(), "{:?}", files(&place));
    assert!(new.commit(None).await.is_err());

    let mut new = begin(&store).await;
    new.write(given(vec![Ok(numbers(10))])).await.unwrap();
    assert_eq!(files(&place).len(), 2, "the rows and the mark");
    drop(new);
    until_gone(&place).await;
    assert!(store.tables().await.unwrap().is_empty());

    // The later callers wait until that is done, and for each other.
    let mut new = begin(&store).await;
    new.write(given(vec![Ok(numbers(10))])).await.unwrap();
    let waiting = tokio::spawn({
        let store = store.clone();
        async move { store.create_plain("made", schema(), None).await }
    });
    drop(new);
    let table = waiting.await.unwrap().unwrap();
    assert_eq!(long(&table, "SELECT count(*) FROM t").await, 0);
    assert_eq!(files(&place), ["00000000000000000000.json"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_crash_left_of_a_table_is_gone_with_the_next_opening() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("made");
    let left = open(patient(directory.path())).await;
    let mut new = begin(&left).await;
    new.write(given(vec![Ok(numbers(10))])).await.unwrap();
    // As if the process had ended: nobody drops it.
    std::mem::forget(new);
    let store = open(patient(directory.path())).await;
    assert!(store.tables().await.unwrap().is_empty());
    store.finish_left().await.unwrap();
    assert!(files(&place).is_empty(), "{:?}", files(&place));

    // Ended between the commit and the deletion of the mark: all of it is there.
    let mut new = begin(&store).await;
    new.write(given(vec![Ok(numbers(10))])).await.unwrap();
    new.commit(None).await.unwrap();
    store.close().await;
    std::fs::write(place.join("_making"), "").unwrap();
    let store = open(patient(directory.path())).await;
    store.finish_left().await.unwrap();
    assert!(!place.join("_making").exists());
    let table = store.table("made").await.unwrap().unwrap();
    assert_eq!(long(&table, "SELECT count(*) FROM t").await, 10);
}

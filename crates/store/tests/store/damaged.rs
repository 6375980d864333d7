//! Tests damaged or missing files: an answer is right, or an error names the files.
#![allow(clippy::unwrap_used, reason = "what fails in helpers of tests fails a test")]

use std::{
    fs,
    path::{Path, PathBuf},
};

use datafusion::prelude::SessionContext;
use swiftwater_store::{ErrorKind, StoreError, Table};

use crate::common::*;

/// The answer of a statement in which the table is called `t`, or the error.
async fn try_sql(table: &Table, statement: &str) -> Result<Vec<String>, String> {
    let context = SessionContext::new();
    context.register_table("t", table.provider(None).await.unwrap()).unwrap();
    let answer = async { context.sql(statement).await?.collect().await };
    answer.await.map(|batches| text(&batches)).map_err(|error| error.to_string())
}

fn parquet_files(table: &Path) -> Vec<PathBuf> {
    let all = fs::read_dir(table).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = all.filter(|file| file.extension().is_some_and(|end| end == "parquet")).collect();
    files.sort();
    files
}

const ALL: &str = "SELECT count(*), sum(_offset), sum(house_id), max(metro_area), sum(power_reading), \
     count(*) FILTER (WHERE is_peak), min(_time), sum(device_id) FROM t WHERE power_reading >= 0";

/// Flips bits of the newest file, each by itself; returns the number that was detected.
async fn flip(directory: &Path, right: &[String], cases: usize) -> usize {
    let file = parquet_files(&directory.join("homes")).pop().unwrap();
    let name = file.file_name().unwrap().to_str().unwrap();
    let bytes = fs::read(&file).unwrap();
    let (mut seed, mut found) = (0x2545_f491_4f6c_dd1d_u64, 0);
    for case in 0..cases {
        // Another store each time: what was read is kept in memory.
        let store = open(patient(directory)).await;
        let table = store.open_table(home("homes")).await.unwrap();
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        let (place, bit) = (seed as usize % bytes.len(), (seed >> 40) % 8);
        let mut flipped = bytes.clone();
        flipped[place] ^= 1 << bit;
        fs::write(&file, flipped).unwrap();
        match try_sql(&table, ALL).await {
            Ok(told) => assert_eq!(told, right, "case {case}: bit {bit} of byte {place}"),
            Err(error) => {
                found += 1;
                assert!(error.contains(name) && error.contains("damaged"), "case {case}: {error}");
            }
        }
        store.close().await;
    }
    fs::write(&file, bytes).unwrap();
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn flipped_bit_is_never_a_wrong_answer_whatever_has_rewritten_file_or_log() {
    let directory = tempfile::tempdir().unwrap();
    let cases = std::env::var("SOAK_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(8);
    let store = open(patient(directory.path())).await;
    let table = store.open_table(home("homes")).await.unwrap();
    for first in [0, 3000] {
        table.append(rows(first, first + 3000)).await.unwrap();
        table.flush().await.unwrap();
    }
    let right = try_sql(&table, ALL).await.unwrap();
    store.close().await;
    assert!(flip(directory.path(), &right, cases).await > 0);
    // Merged files have sums of their own, and those of the log go into its checkpoint.
    let store = open(patient(directory.path())).await;
    let table = store.open_table(home("homes")).await.unwrap();
    table.upkeep().await.unwrap();
    assert_eq!(try_sql(&table, ALL).await.unwrap(), right);
    store.close().await;
    let log = directory.path().join("homes/_delta_log");
    let names = fs::read_dir(&log).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert!(names.into_iter().any(|name| name.contains("checkpoint")), "there is a checkpoint");
    assert!(flip(directory.path(), &right, cases).await > 0, "they are known from the checkpoint, too");
}

#[tokio::test(flavor = "multi_thread")]
async fn files_without_sums_are_read_as_they_are() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(patient(directory.path())).await;
    let table = store.open_table(home("homes")).await.unwrap();
    table.append(rows(0, 100)).await.unwrap();
    table.flush().await.unwrap();
    store.close().await;
    let commit = directory.path().join("homes/_delta_log/00000000000000000001.json");
    let written = fs::read_to_string(&commit).unwrap();
    let mut stripped = String::new();
    for line in written.lines() {
        let mut action: serde_json::Value = serde_json::from_str(line).unwrap();
        if let Some(add) = action.get_mut("add") {
            assert!(add.as_object_mut().unwrap().remove("tags").is_some());
        }
        stripped += &format!("{action}\n");
    }
    fs::write(&commit, stripped).unwrap();
    let store = open(patient(directory.path())).await;
    check_offsets(&store.open_table(home("homes")).await.unwrap(), 100).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn table_that_goes_while_it_is_open_is_missing_and_can_be_dropped_and_made_again() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(patient(directory.path())).await;
    for gone in ["", "_delta_log"] {
        let table = store.create_plain("plain", rows(0, 1).batch.schema(), None).await.unwrap();
        table.check_there().await.unwrap();
        let inserted = table.insert(futures_util::stream::iter([Ok::<_, String>(rows(0, 9).batch)]), false);
        assert_eq!(inserted.await.unwrap(), 9);
        table.check_there().await.unwrap();
        fs::remove_dir_all(directory.path().join("plain").join(gone)).unwrap();
        let error = table.check_there().await.unwrap_err();
        assert!(matches!(&error, StoreError::Missing(name) if **name == *"plain"), "{error}");
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        store.drop_table("plain").await.unwrap();
        assert!(store.tables().await.unwrap().is_empty());
    }
}

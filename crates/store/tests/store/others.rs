//! Tests that other programs read the same rows, and that S3 takes them. Needs Python with the packages of
//! `tests/delta/requirements.txt` in `SWIFTWATER_PYTHON`; without it these tests report this and pass.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "helpers of tests print, and what fails there fails a test"
)]

use std::{path::PathBuf, process::Command};

use crate::common::*;
use swiftwater_event::Type;
use swiftwater_store::{Partitioning, StoreOptions, Table};
use swiftwater_testkit::Moto;

fn python() -> Option<PathBuf> {
    let python = std::env::var_os("SWIFTWATER_PYTHON").map(PathBuf::from);
    if python.is_none() {
        println!("skipped: SWIFTWATER_PYTHON names no Python with tests/delta/requirements.txt");
    }
    python
}

/// The output of `read.py` for a table, after the reader's name.
async fn expected(table: &Table) -> String {
    let mut names: Vec<String> = table.schema().fields().iter().map(|field| field.name().clone()).collect();
    names.sort();
    let counts: Vec<String> = names.iter().map(|name| format!("COUNT(\"{name}\")")).collect();
    let statement = format!(
        "SELECT COUNT(*), COUNT(DISTINCT _offset), SUM(_offset), CAST(MAX(_time) AS BIGINT), {} FROM t",
        counts.join(", ")
    );
    text(&sql(table, &statement).await)[0].replace('|', " ")
}

#[tokio::test(flavor = "multi_thread")]
async fn duckdb_and_delta_rs_read_the_same_rows() {
    let Some(python) = python() else { return };
    let directory = tempfile::tempdir().unwrap();
    let mut options = patient(directory.path());
    (options.compact_files, options.checkpoint_commits) = (4, 5);
    let store = open(options).await;
    let mut lines = Vec::new();
    let mut tables = Vec::new();
    for (name, partition_by) in [
        ("none", Partitioning::None),
        ("hours", Partitioning::Hour),
        ("metros", Partitioning::Columns(vec!["metro_area".into(), "house_id".into()])),
    ] {
        let mut spec = home(name);
        spec.partition_by = partition_by;
        let table = store.open_table(spec.clone()).await.unwrap();
        for part in 0..13 {
            if part == 6 {
                spec.columns.push(column("note", Type::STRING));
                spec.columns[2].ty = Type::LONG;
                table.alter(&spec).await.unwrap();
            }
            table.append(rows_every(part * 50, part * 50 + 50, 60_000_000)).await.unwrap();
            table.flush().await.unwrap();
            if part == 10 {
                table.upkeep().await.unwrap();
            }
        }
        let answer = expected(&table).await;
        lines.extend(["duckdb", "delta-rs"].map(|reader| format!("{name} {reader} {answer}")));
        tables.push(name);
    }
    store.close().await;
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/delta/read.py");
    let output = Command::new(python).arg(script).arg(directory.path()).args(tables).output().unwrap();
    let found = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(found.lines().collect::<Vec<_>>(), lines, "{errors}");
}

#[tokio::test(flavor = "multi_thread")]
async fn s3_takes_commits_once() {
    let Some(python) = python() else { return };
    let moto = Moto::start(&python);
    let mut options = StoreOptions::at("s3://swiftwater/a/b");
    options.storage = moto.options();
    options.commit_interval = std::time::Duration::from_secs(3600);
    options.compact_files = 2;
    moto.make_bucket("swiftwater");
    for round in 0..3 {
        let store = open(options.clone()).await;
        let table = store.open_table(home("homes")).await.unwrap();
        assert_eq!(table.committed().0, round * 200);
        for part in 0..2 {
            let first = round * 200 + part * 100;
            table.append(rows(first, first + 100)).await.unwrap();
            table.flush().await.unwrap();
        }
        check_offsets(&table, round * 200 + 200).await;
        store.close().await;
    }
    // Two writers: the second finds out.
    let (one, two) = (open(options.clone()).await, open(options.clone()).await);
    let (ours, theirs) =
        (one.open_table(home("homes")).await.unwrap(), two.open_table(home("homes")).await.unwrap());
    ours.append(rows(600, 700)).await.unwrap();
    ours.flush().await.unwrap();
    theirs.append(rows(600, 650)).await.unwrap();
    theirs.flush().await.unwrap_err();
    ours.upkeep().await.unwrap();
    check_offsets(&ours, 700).await;
    assert_eq!(one.tables().await.unwrap(), ["homes".into()]);
    assert!(one.drop_table("homes").await.unwrap());
    assert!(one.tables().await.unwrap().is_empty());
}

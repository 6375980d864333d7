//! Tests companions with a format of their own: the numbers of the rows with `house_id = 3`.
#![allow(clippy::unwrap_used, reason = "what fails in helpers of tests fails a test")]

use std::{
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use arrow_array::{Array, ArrayRef, cast::AsArray, types::Int32Type};
use arrow_schema::Schema;
use datafusion_expr::Expr;
use roaring::RoaringBitmap;
use swiftwater_event::{Clock, Offset};
use swiftwater_store::{
    CompanionBuilder, CompanionBytes, CompanionFault, CompanionFile, CompanionFormat, CompanionTerm,
    OpenCompanion, SelectedRows, Store, Table,
};
use swiftwater_text::{IndexKind, IndexQuery, ScoreStatistics, TableSearch};

use crate::common::*;

#[derive(Debug)]
struct Format {
    definition: &'static str,
    /// It keeps no rows, so that a scan which follows it finds none.
    is_empty: bool,
    asked: Arc<AtomicUsize>,
}

struct Builder {
    place: usize,
    rows: Vec<u32>,
    at: u32,
    is_empty: bool,
}

#[derive(Debug)]
struct Open {
    rows: RoaringBitmap,
    asked: Arc<AtomicUsize>,
}

impl CompanionFormat for Format {
    fn definition(&self) -> &str {
        self.definition
    }

    fn query(&self, filter: &Expr, _: &Schema) -> Option<IndexQuery> {
        filter.to_string().contains("house_id = ").then_some(IndexQuery::Everything)
    }

    fn builder(&self, schema: &Schema) -> Box<dyn CompanionBuilder> {
        let place = schema.index_of("house_id").unwrap();
        Box::new(Builder { place, rows: Vec::new(), at: 0, is_empty: self.is_empty })
    }

    fn open(
        &self,
        bytes: Arc<dyn CompanionBytes>,
        file: &CompanionFile,
    ) -> Result<Arc<dyn OpenCompanion>, CompanionFault> {
        let read =
            bytes.read(0..bytes.length()).map_err(|error| CompanionFault::Unavailable(error.to_string()))?;
        let text = String::from_utf8(read).map_err(|error| CompanionFault::Unusable(error.to_string()))?;
        let (of, rows) =
            text.split_once(':').ok_or_else(|| CompanionFault::Unusable("no name".to_owned()))?;
        if *of != *file.path {
            return Err(CompanionFault::Unusable("another file".to_owned()));
        }
        let rows = rows.split_whitespace().map(|row| row.parse::<u32>().unwrap()).collect();
        Ok(Arc::new(Open { rows, asked: Arc::clone(&self.asked) }))
    }
}

impl CompanionBuilder for Builder {
    fn places(&self) -> Vec<usize> {
        vec![self.place]
    }

    fn add(&mut self, arrays: &[ArrayRef], rows: usize) -> io::Result<()> {
        let houses = arrays[0].as_primitive::<Int32Type>();
        let found = (0..rows).filter(|row| houses.is_valid(*row) && houses.value(*row) == 3);
        self.rows.extend(found.map(|row| self.at + row as u32).filter(|_| !self.is_empty));
        self.at += rows as u32;
        Ok(())
    }

    fn finish(self: Box<Self>, file: &CompanionFile) -> io::Result<Vec<u8>> {
        assert_eq!(self.at, file.rows);
        let rows: Vec<String> = self.rows.iter().map(u32::to_string).collect();
        Ok(format!("{}:{}", file.path, rows.join(" ")).into_bytes())
    }
}

impl OpenCompanion for Open {
    fn select(&self, _: &IndexQuery) -> Result<SelectedRows, CompanionFault> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        Ok(SelectedRows { possible: self.rows.clone(), is_exact: true })
    }

    fn statistics(&self, _: &TableSearch) -> Result<Option<ScoreStatistics>, CompanionFault> {
        Ok(None)
    }

    fn visit_columns(&self, visit: &mut dyn FnMut(&str, IndexKind, u64)) {
        visit("n", IndexKind::Id, self.rows.len());
    }

    fn visit_terms(&self, _: &mut dyn FnMut(CompanionTerm<'_>)) -> Result<(), CompanionFault> {
        Ok(())
    }
}

fn format(definition: &'static str, is_empty: bool) -> (Arc<Format>, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    (Arc::new(Format { definition, is_empty, asked: Arc::clone(&asked) }), asked)
}

/// The companions below a folder.
fn companions(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.flat_map(|path| if path.is_dir() { companions(&path) } else { vec![path] }).collect()
}

async fn fill(table: &Table, from: u64, commits: u64) {
    for part in from..from + commits {
        table.append(rows(part * 100, part * 100 + 100)).await.unwrap();
        table.flush().await.unwrap();
    }
}

async fn found(table: &Table) -> i64 {
    long(table, "SELECT count(*) FROM t WHERE house_id = 3").await
}

fn expected(rows: u64) -> i64 {
    (0..rows).filter(|offset| offset % 21 == 3).count() as i64
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scan_reads_the_rows_that_companions_select() {
    let directory = tempfile::tempdir().unwrap();
    let mut options = patient(directory.path());
    options.compact_files = 1000;
    let store = open(options).await;
    let table = store.open_table(home("homes")).await.unwrap();
    fill(&table, 0, 5).await;
    // Rows that wait for their commit are evaluated.
    table.append(rows(500, 550)).await.unwrap();
    let (honest, asked) = format("d1", false);
    table.set_companions(Some(honest));
    table.until_indexed(Offset(0)).await.unwrap();
    assert_eq!(table.companion_status().indexed_files, 5);
    assert_eq!(found(&table).await, expected(550));
    assert_eq!(asked.load(Ordering::Relaxed), 5);
    // A filter that asks nothing of them.
    assert_eq!(long(&table, "SELECT count(*) FROM t WHERE device_id = 3").await, 79);
    assert_eq!(asked.load(Ordering::Relaxed), 5);
    // Another definition has companions of its own. As these select nothing, only rows that wait are left.
    let (empty, _) = format("d2", true);
    table.set_companions(Some(empty));
    table.until_indexed(Offset(0)).await.unwrap();
    assert_eq!(found(&table).await, expected(550) - expected(500));
}

#[tokio::test(flavor = "multi_thread")]
async fn companions_that_are_deleted_or_damaged_are_built_anew_and_change_no_answer() {
    let directory = tempfile::tempdir().unwrap();
    let mut options = patient(directory.path());
    options.compact_files = 1000;
    let store = open(options).await;
    let table = store.open_table(home("homes")).await.unwrap();
    fill(&table, 0, 4).await;
    table.set_companions(Some(format("d1", false).0));
    table.until_indexed(Offset(0)).await.unwrap();
    let files = companions(&directory.path().join("homes/_search/d1"));
    assert_eq!(files.len(), 4);
    std::fs::remove_file(&files[0]).unwrap();
    std::fs::write(&files[1], b"of something else: 1 2 3").unwrap();
    std::fs::write(&files[2], b"\xff\xfe").unwrap();
    assert_eq!(found(&table).await, expected(400));
    table.until_indexed(Offset(0)).await.unwrap();
    assert_eq!(table.companion_status().unusable, 3);
    assert_eq!(companions(&directory.path().join("homes/_search/d1")).len(), 4);
    assert_eq!(found(&table).await, expected(400));
    assert_eq!(table.companion_status().unusable, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn companions_are_found_after_a_restart_and_go_with_their_files_or_their_definition() {
    let directory = tempfile::tempdir().unwrap();
    let mut options = patient(directory.path());
    options.compact_files = 4;
    (options.log_retention, options.vacuum_retention) = (Duration::ZERO, Duration::ZERO);
    let clock = Arc::new(TestClock::at(now() + 60_000));
    let root = directory.path().join("homes/_search");
    {
        let store = Store::open(options.clone(), Arc::clone(&clock) as Arc<dyn Clock>).await.unwrap();
        let table = store.open_table(home("homes")).await.unwrap();
        table.set_companions(Some(format("d1", false).0));
        fill(&table, 0, 6).await;
        table.until_indexed(Offset(0)).await.unwrap();
        store.close().await;
    }
    let store = Store::open(options.clone(), Arc::clone(&clock) as Arc<dyn Clock>).await.unwrap();
    let table = store.open_table(home("homes")).await.unwrap();
    // Until it is said whether there is a definition, none goes.
    table.upkeep().await.unwrap();
    assert!(!companions(&root).is_empty());
    table.set_companions(Some(format("d1", false).0));
    table.until_indexed(Offset(0)).await.unwrap();
    assert_eq!(found(&table).await, expected(600));
    // Compaction, then the files that were merged go, and their companions behind them.
    for _ in 0..3 {
        clock.advance_ms(1);
        table.upkeep().await.unwrap();
    }
    table.until_indexed(Offset(0)).await.unwrap();
    let status = table.status();
    assert!(status.files < 6, "{status:?}");
    assert_eq!(companions(&root).len(), status.files);
    assert_eq!(found(&table).await, expected(600));
    table.set_companions(None);
    table.upkeep().await.unwrap();
    assert_eq!(companions(&root), Vec::<PathBuf>::new());
    assert_eq!(found(&table).await, expected(600));
}

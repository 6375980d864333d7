//! Tests companions with a format of their own: the numbers of the rows with `house_id = 3`.
#![allow(clippy::unwrap_used, reason = "what fails in helpers of tests fails a test")]

use std::{
    collections::BTreeMap,
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
use proptest::{prelude::*, test_runner::TestRunner};
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
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    /// Rows that were read to build companions.
    rows: AtomicUsize,
    built: AtomicUsize,
    merged: AtomicUsize,
}

impl Counts {
    fn read(&self) -> [usize; 3] {
        [&self.rows, &self.built, &self.merged].map(|count| count.load(Ordering::Relaxed))
    }
}

struct Builder {
    place: usize,
    rows: Vec<u32>,
    at: u32,
    is_empty: bool,
    counts: Arc<Counts>,
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
        let counts = Arc::clone(&self.counts);
        Box::new(Builder { place, rows: Vec::new(), at: 0, is_empty: self.is_empty, counts })
    }

    fn merge(
        &self,
        _: &Schema,
        sources: &[(Arc<dyn CompanionBytes>, CompanionFile)],
        file: &CompanionFile,
        out: &mut dyn io::Write,
    ) -> Result<bool, CompanionFault> {
        // Written before a source is found to be damaged.
        write!(out, "{}:", file.path).unwrap();
        let (mut rows, mut base) = (Vec::new(), 0);
        for (bytes, of) in sources {
            rows.extend(read_rows(&**bytes, of)?.iter().map(|row| (base + row).to_string()));
            base += of.rows;
        }
        assert_eq!(base, file.rows);
        write!(out, "{}", rows.join(" ")).unwrap();
        self.counts.merged.fetch_add(1, Ordering::Relaxed);
        Ok(true)
    }

    fn open(
        &self,
        bytes: Arc<dyn CompanionBytes>,
        file: &CompanionFile,
    ) -> Result<Arc<dyn OpenCompanion>, CompanionFault> {
        let rows = read_rows(&*bytes, file)?;
        Ok(Arc::new(Open { rows, asked: Arc::clone(&self.asked) }))
    }
}

fn read_rows(bytes: &dyn CompanionBytes, file: &CompanionFile) -> Result<RoaringBitmap, CompanionFault> {
    let read =
        bytes.read(0..bytes.length()).map_err(|error| CompanionFault::Unavailable(error.to_string()))?;
    let text = String::from_utf8(read).map_err(|error| CompanionFault::Unusable(error.to_string()))?;
    let (of, rows) = text.split_once(':').ok_or_else(|| CompanionFault::Unusable("no name".to_owned()))?;
    if *of != *file.path {
        return Err(CompanionFault::Unusable("another file".to_owned()));
    }
    Ok(rows.split_whitespace().map(|row| row.parse::<u32>().unwrap()).collect())
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
        self.counts.rows.fetch_add(rows, Ordering::Relaxed);
        Ok(())
    }

    fn finish(self: Box<Self>, file: &CompanionFile, out: &mut dyn io::Write) -> io::Result<()> {
        assert_eq!(self.at, file.rows);
        let rows: Vec<String> = self.rows.iter().map(u32::to_string).collect();
        self.counts.built.fetch_add(1, Ordering::Relaxed);
        write!(out, "{}:{}", file.path, rows.join(" "))
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
    let counts = Arc::default();
    (Arc::new(Format { definition, is_empty, asked: Arc::clone(&asked), counts }), asked)
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

/// A table whose files are merged once there are so many.
async fn opened(directory: &Path, compact_files: usize) -> (Store, Table) {
    let mut options = patient(directory);
    options.compact_files = compact_files;
    let store = open(options).await;
    let table = store.open_table(home("homes")).await.unwrap();
    (store, table)
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
    let (_store, table) = opened(directory.path(), 1000).await;
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
    let (_store, table) = opened(directory.path(), 1000).await;
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

/// Waits until the table has so many files, and each has a companion.
async fn until_merged(table: &Table, files: usize) {
    while table.status().files != files {
        tokio::task::yield_now().await;
    }
    table.until_indexed(Offset(0)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn companions_of_merged_files_are_merged_and_no_row_is_read_for_it() {
    let directory = tempfile::tempdir().unwrap();
    let (_store, table) = opened(directory.path(), 4).await;
    let (format, _) = format("d1", false);
    let counts = Arc::clone(&format.counts);
    table.set_companions(Some(format));
    for part in 0..4 {
        fill(&table, part, 1).await;
        table.until_indexed(Offset(0)).await.unwrap();
    }
    // The last file is indexed before the four are merged.
    until_merged(&table, 1).await;
    assert_eq!(counts.read(), [400, 4, 1]);
    assert_eq!(found(&table).await, expected(400));
    let merged = bytes_of(&directory.path().join("homes/_search/d1"));
    assert_eq!(table.rebuild_companions(None, None), 1);
    table.until_indexed(Offset(0)).await.unwrap();
    assert_eq!(counts.read(), [800, 5, 1]);
    assert_eq!(bytes_of(&directory.path().join("homes/_search/d1")), merged);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_companion_is_built_where_a_source_is_damaged_or_missing() {
    for is_damaged in [true, false] {
        let directory = tempfile::tempdir().unwrap();
        let mut options = patient(directory.path());
        options.compact_files = 1000;
        let root = directory.path().join("homes/_search/d1");
        {
            let store = open(options.clone()).await;
            let table = store.open_table(home("homes")).await.unwrap();
            table.set_companions(Some(format("d1", false).0));
            fill(&table, 0, 4).await;
            table.until_indexed(Offset(0)).await.unwrap();
            store.close().await;
        }
        let source = companions(&root).pop().unwrap();
        if is_damaged {
            std::fs::write(&source, DAMAGE).unwrap();
        } else {
            std::fs::remove_file(&source).unwrap();
        }
        options.compact_files = 4;
        let store = open(options).await;
        let table = store.open_table(home("homes")).await.unwrap();
        let (format, _) = format("d1", false);
        let counts = Arc::clone(&format.counts);
        table.set_companions(Some(format));
        until_merged(&table, 1).await;
        let [_, built, merged] = counts.read();
        // Where it was noticed before the files were merged that one is missing, it was built and all were merged.
        assert!(built == 1 && (merged == 0 || !is_damaged), "{built} built, {merged} merged");
        assert_eq!(found(&table).await, expected(400));
        store.close().await;
    }
}

/// The bytes of all companions below a folder.
fn bytes_of(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    companions(folder).into_iter().map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
}

/// The bytes of a damaged companion.
const DAMAGE: &[u8] = b"\xff";

/// A step in the life of a table.
#[derive(Debug, Clone)]
enum Step {
    Commit(u64),
    Upkeep,
    Index,
    Search,
    Restart,
    Damage(usize),
    Delete(usize),
    Rebuild,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (1..60_u64).prop_map(Step::Commit),
        3 => Just(Step::Upkeep),
        6 => Just(Step::Index),
        1 => Just(Step::Search),
        1 => Just(Step::Restart),
        1 => (0..100_usize).prop_map(Step::Damage),
        1 => (0..100_usize).prop_map(Step::Delete),
        1 => Just(Step::Rebuild),
    ]
}

/// Takes the steps, and compares the companions with those that are built anew; returns how many were merged.
async fn check_steps(steps: &[Step]) -> usize {
    let directory = tempfile::tempdir().unwrap();
    let mut options = patient(directory.path());
    options.compact_files = 3;
    (options.log_retention, options.vacuum_retention) = (Duration::ZERO, Duration::ZERO);
    let clock = Arc::new(TestClock::at(now() + 60_000));
    let root = directory.path().join("homes/_search/d1");
    let (format, _) = format("d1", false);
    let mut next = 0;
    let mut opened: Option<(Store, Table)> = None;
    for step in steps {
        let (store, table) = match opened.take() {
            Some(opened) => opened,
            None => {
                let clock = Arc::clone(&clock) as Arc<dyn Clock>;
                let store = Store::open(options.clone(), clock).await.unwrap();
                let table = store.open_table(home("homes")).await.unwrap();
                table.set_companions(Some(Arc::clone(&format) as Arc<dyn CompanionFormat>));
                (store, table)
            }
        };
        clock.advance_ms(1);
        let files = companions(&root);
        let picked = |number: usize| files.get(number % files.len().max(1));
        match step {
            Step::Commit(count) => {
                table.append(rows(next, next + count)).await.unwrap();
                table.flush().await.unwrap();
                next += count;
            }
            Step::Upkeep => table.upkeep().await.unwrap(),
            Step::Index => table.until_indexed(Offset(0)).await.unwrap(),
            Step::Search => assert_eq!(found(&table).await, expected(next)),
            Step::Damage(number) => {
                // It may be vacuumed meanwhile.
                if let Some(path) = picked(*number).filter(|path| path.exists()) {
                    std::fs::write(path, DAMAGE).unwrap();
                }
            }
            Step::Delete(number) => drop(picked(*number).map(std::fs::remove_file)),
            Step::Rebuild => drop(table.rebuild_companions(None, None)),
            Step::Restart => {
                store.close().await;
                continue;
            }
        }
        opened = Some((store, table));
    }
    let Some((store, table)) = opened else { return format.counts.read()[2] };
    // Nothing is merged from here on, and damage is found.
    table.upkeep().await.unwrap();
    table.until_indexed(Offset(0)).await.unwrap();
    assert_eq!(found(&table).await, expected(next));
    table.until_indexed(Offset(0)).await.unwrap();
    assert_eq!(found(&table).await, expected(next));
    let merged = format.counts.read()[2];
    let before = bytes_of(&root);
    assert_eq!(table.rebuild_companions(None, None), table.status().files);
    table.until_indexed(Offset(0)).await.unwrap();
    let after = bytes_of(&root);
    // Damage is not noticed where statistics exclude the data file: its companion is not read.
    let differs = |(path, bytes): &(&PathBuf, &Vec<u8>)| {
        before.get(*path).is_some_and(|old| old != *bytes && **old != *DAMAGE)
    };
    assert_eq!(after.iter().find(differs), None);
    store.close().await;
    merged
}

#[test]
fn companions_that_are_merged_are_those_that_are_built() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let merged = AtomicUsize::new(0);
    let mut runner = TestRunner::deterministic();
    // A case takes seconds.
    let soak: Option<u32> = std::env::var("SOAK_CASES").ok().and_then(|cases| cases.parse().ok());
    let cases = 8 + soak.unwrap_or(0) / 25;
    let mut runner_config = runner.config().clone();
    (runner_config.cases, runner_config.failure_persistence) = (cases, None);
    runner = TestRunner::new_with_rng(runner_config, runner.rng().clone());
    let run = runner.run(&proptest::collection::vec(step(), 10..50), |steps| {
        merged.fetch_add(runtime.block_on(check_steps(&steps)), Ordering::Relaxed);
        Ok(())
    });
    run.unwrap();
    let merged = merged.into_inner();
    assert!(merged >= cases as usize / 2, "{merged} merges in {cases} cases");
}

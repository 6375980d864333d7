//! Tests insertions into plain tables: waiting ones share one commit, many small ones leave few files, and no crash loses or
//! repeats one.
#![allow(clippy::unwrap_used, reason = "helpers of tests print, and what fails there fails a test")]

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use arrow_array::{Int64Array, RecordBatch};
use futures_util::{
    future::{join, join_all},
    stream,
};
use object_store::{ObjectStore, memory::InMemory};
use swiftwater_event::Clock;
use swiftwater_store::{Application, Durable, ErrorKind, Result, Store, StoreError, StoreOptions, Table};

use crate::{common::*, crashes::Synced};

fn batch(values: impl IntoIterator<Item = i64>) -> RecordBatch {
    RecordBatch::try_from_iter([("n", Arc::new(Int64Array::from_iter_values(values)) as _)]).unwrap()
}

async fn insert(table: &Table, rows: RecordBatch) -> Result<u64> {
    table.insert(stream::iter([Ok::<_, String>(rows)]), false).await
}

/// A store in memory that does nothing by itself after its start.
async fn quiet(objects: Arc<dyn ObjectStore>, clock: &Arc<TestClock>, compact_files: usize) -> Store {
    let mut options = StoreOptions::at("memory");
    options.upkeep_interval = Duration::from_secs(3600);
    (options.compact_files, options.checkpoint_commits) = (compact_files, 50);
    Store::open_at(objects, options, Arc::clone(clock) as Arc<dyn Clock>).await.unwrap()
}

fn in_memory() -> Arc<dyn ObjectStore> {
    Arc::new(InMemory::new())
}

// One thread: all of them wait before the table's owner has its turn.
#[tokio::test]
async fn insertions_that_wait_together_are_one_commit_and_one_file() {
    let store = quiet(in_memory(), &Arc::new(TestClock::at(now())), 16).await;
    let table = store.create_plain("t", batch([]).schema(), None).await.unwrap();
    let inserted = join_all((0..30).map(|n| insert(&table, batch([n])))).await;
    assert!(inserted.iter().all(|count| matches!(count, Ok(1))), "{inserted:?}");
    let status = table.status();
    assert_eq!((status.version, status.commits, status.files, status.rows), (1, 1, 1, 30), "{status:?}");
    assert_eq!(text(&sql(&table, "SELECT COUNT(DISTINCT n), SUM(n) FROM t").await), ["30|435"]);
    // Many rows have files of their own, and the commit is shared all the same.
    let many = insert(&table, batch(100..100_000));
    let (many, few) = join(many, join_all((30..40).map(|n| insert(&table, batch([n]))))).await;
    assert_eq!(many.unwrap(), 99_900);
    assert_eq!(few.len(), 10);
    assert!(table.status().version <= 3, "{:?}", table.status());
    assert_eq!(long(&table, "SELECT COUNT(DISTINCT n) FROM t").await, 99_940);
}

#[tokio::test]
async fn insertion_that_overwrites_stands_where_it_came() {
    let store = quiet(in_memory(), &Arc::new(TestClock::at(now())), 16).await;
    let table = store.create_plain("t", batch([]).schema(), None).await.unwrap();
    let inserted = join_all((0..10).map(|n| {
        let rows = stream::iter([Ok::<_, String>(batch([n]))]);
        let table = table.clone();
        async move { table.insert(rows, n == 5).await }
    }))
    .await;
    assert!(inserted.iter().all(Result::is_ok), "{inserted:?}");
    assert_eq!(table.status().version, 3, "those before it, it, and those behind it");
    assert_eq!(text(&sql(&table, "SELECT n FROM t ORDER BY n").await), ["5", "6", "7", "8", "9"]);
}

#[tokio::test]
async fn insertion_that_fails_does_not_fail_those_that_wait_with_it() {
    let store = quiet(in_memory(), &Arc::new(TestClock::at(now())), 16).await;
    let table = store.create_plain("t", batch([]).schema(), None).await.unwrap();
    let once = |application: Application, value: i64| {
        let rows = stream::iter([Ok::<_, String>(batch([value]))]);
        let table = table.clone();
        async move { table.insert_once(rows, false, application).await }
    };
    let several = |first: u64, version: u64| Application { first, ..Application::one("a", version) };
    assert_eq!(once(several(0, 3), 1).await.unwrap(), Some(1));
    let unknown = RecordBatch::try_from_iter([("x", Arc::new(Int64Array::from(vec![1])) as _)]).unwrap();
    let good = join_all((10..20).map(|n| insert(&table, batch([n]))));
    let bad = join(insert(&table, unknown), once(several(2, 5), 2));
    let (good, (unknown, partly)) = join(good, bad).await;
    assert!(good.iter().all(Result::is_ok), "{good:?}");
    assert_eq!(unknown.unwrap_err().kind(), ErrorKind::Invalid);
    assert!(matches!(partly.unwrap_err(), StoreError::PartlyInserted { first: 2, last: 5, inserted: 3, .. }));
    assert_eq!(text(&sql(&table, "SELECT COUNT(*), MIN(n) FROM t").await), ["11|1"]);
    // The second of two insertions of one application is done when the first is; both are requested before either.
    let (first, second) = join(once(several(4, 6), 3), once(several(4, 8), 4)).await;
    assert_eq!(first.unwrap(), Some(1));
    assert!(matches!(second.unwrap_err(), StoreError::PartlyInserted { inserted: 6, .. }));
    assert_eq!(once(several(4, 5), 5).await.unwrap(), None);
    assert_eq!(once(several(7, 8), 4).await.unwrap(), Some(1));
    assert_eq!(table.last_inserted("a").await.unwrap(), Some(8));
    assert_eq!(table.last_inserted("b").await.unwrap(), None);
    assert_eq!(text(&sql(&table, "SELECT COUNT(*), SUM(n) FROM t WHERE n < 10").await), ["3|8"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_single_insertions_leave_few_files_and_the_same_answers() {
    let (objects, clock) = (in_memory(), Arc::new(TestClock::at(now())));
    let store = quiet(Arc::clone(&objects), &clock, 16).await;
    let table = store.create_plain("t", batch([]).schema(), None).await.unwrap();
    let mut early = None;
    for n in 0..1000 {
        insert(&table, batch([n * 7 % 1000])).await.unwrap();
        clock.advance_ms(1);
        if n == 499 {
            // One that is read meanwhile: its files are kept.
            early = Some(table.provider(None).await.unwrap());
        }
    }
    // The owner merges them between insertions, asked by nobody.
    let few = async {
        while table.status().files >= 16 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(60), few).await;
    assert!(waited.is_ok(), "{:?}", table.status());
    let expected: Vec<String> = (0..1000).map(|n| (n * 7 % 1000).to_string()).collect();
    let rows = async |table: &Table| text(&sql(table, "SELECT n FROM t").await);
    let mut sorted = rows(&table).await;
    sorted.sort_by_key(|n| n.parse::<i64>().unwrap());
    assert_eq!(sorted, (0..1000).map(|n| n.to_string()).collect::<Vec<_>>());
    table.upkeep().await.unwrap();
    assert!(table.status().files < 16, "{:?}", table.status());
    let context = datafusion::prelude::SessionContext::new();
    context.register_table("t", early.unwrap()).unwrap();
    let batches = context.sql("SELECT COUNT(*), SUM(n) FROM t").await.unwrap().collect().await.unwrap();
    let sum: i64 = (0..500).map(|n| n * 7 % 1000).sum();
    assert_eq!(text(&batches), [format!("500|{sum}")]);
    // Files, and so rows, are in the order of the insertions, after a start, too.
    let first = text(&sql(&table, "SELECT first_value(n) FROM t").await);
    assert_eq!(first, ["0"]);
    let files = table.status().files;
    store.close().await;
    let store = quiet(objects, &clock, 16).await;
    let table = store.table("t").await.unwrap().unwrap();
    assert_eq!((table.status().files, table.status().rows), (files, 1000));
    let mut again = rows(&table).await;
    again.sort();
    let mut expected = expected;
    expected.sort();
    assert_eq!(again, expected);
}

/// The result of work, or an error where the store goes down before: its owner tries on for ever.
async fn alive<T>(failing: &FailingStore, work: impl Future<Output = Result<T>>) -> Result<T> {
    let down = async {
        while !failing.is_down() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::select! {
        result = work => result,
        () = down => Err(StoreError::Closed("down".into())),
    }
}

/// Applications that insert side by side, three at a time.
const BY: i64 = 3;
const ROUNDS: i64 = 3;

/// Insertions, and what they leave is merged.
async fn work(store: &Store, failing: &FailingStore, told: &mut BTreeSet<i64>) -> Result<()> {
    let table = alive(failing, async {
        match store.table("t").await? {
            Some(table) => Ok(table),
            None => store.create_plain("t", batch([]).schema(), None).await,
        }
    })
    .await?;
    for round in 0..ROUNDS {
        let insert = |by: i64| {
            let n = round * BY + by;
            let rows = stream::iter([Ok::<_, String>(batch([n]))]);
            let (table, once) = (table.clone(), Application::one(format!("by {by}"), round as u64));
            async move { table.insert_once(rows, false, once).await.map(|_| n) }
        };
        let done = alive(failing, async { Ok(join_all((0..BY).map(insert)).await) }).await?;
        for done in done {
            told.insert(done?);
        }
    }
    alive(failing, table.upkeep()).await
}

/// Returns true if the store reached that call.
async fn crash_at(call: u64, has_effect: bool) -> bool {
    let failing = FailingStore::disk();
    failing.crash_at(call, has_effect);
    let open = async |failing: &FailingStore| {
        let synced = Arc::new(Synced(failing.clone()));
        let objects = Arc::new(Durable::new(Arc::new(failing.clone()), synced));
        quiet(objects, &Arc::new(TestClock::at(now())), 2).await
    };
    let store = open(&failing).await;
    let mut told = BTreeSet::new();
    let result = work(&store, &failing, &mut told).await;
    assert!(result.is_ok() || failing.is_down(), "{result:?}");
    store.close().await;
    let was_down = failing.is_down();
    let found = failing.restart().await;
    let store = open(&found).await;
    let there = match store.table("t").await.unwrap() {
        Some(table) => text(&sql(&table, "SELECT n FROM t ORDER BY n").await),
        None => Vec::new(),
    };
    let numbers: BTreeSet<i64> = there.iter().map(|n| n.parse().unwrap()).collect();
    let context = format!("call {call}, with effect: {has_effect}: {there:?}, told {told:?}");
    assert_eq!(numbers.len(), there.len(), "{context}");
    assert!(told.is_subset(&numbers), "{context}");
    // All of it again: insertions that were done are passed over.
    work(&store, &found, &mut told).await.unwrap();
    let table = store.table("t").await.unwrap().unwrap();
    let again = text(&sql(&table, "SELECT COUNT(*), COUNT(DISTINCT n) FROM t").await);
    assert_eq!(again, ["9|9"], "{context}");
    store.close().await;
    was_down
}

#[tokio::test(flavor = "multi_thread")]
async fn crash_at_any_call_loses_and_repeats_no_insertion() {
    for has_effect in [false, true] {
        let mut call = u64::from(has_effect);
        while crash_at(call, has_effect).await {
            call += 4;
        }
        assert!(call > 20, "only {call} calls");
    }
}

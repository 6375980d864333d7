//! Tests a crash at any call of a run to the log's disk or to the store of the tables. When the server is back, the job's
//! output is present once.
//!
//! The job copies the new rows of a stream, each once, into a table and into a stream. After the crash, another engine opens
//! the data that the disk had synced and the store had received; the first one is never used again.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "what fails here fails a test, and it tells what it did"
)]

use std::{path::PathBuf, sync::Arc, time::Duration};

use serde_json::json;
use swiftwater_engine::{Disks, Engine, EngineConfig, HistoryConfig};
use swiftwater_event::Clock;
use swiftwater_log::Disk;
use swiftwater_store::{Store, StoreOptions};
use swiftwater_testkit::{FailingStore, Fault, SimDisk, TestClock};
use tokio::task::JoinHandle;

use crate::{
    history::{quick, sql, try_sql},
    jobs::{MINUTE, START, numbers, rows, until},
};

pub(crate) struct Parts {
    pub(crate) log: SimDisk,
    catalog: SimDisk,
    store: FailingStore,
    /// Directory of the views, if there are any.
    pub(crate) views: Option<PathBuf>,
}

impl Parts {
    pub(crate) fn new() -> Parts {
        Parts { log: SimDisk::new(1), catalog: SimDisk::new(2), store: FailingStore::remote(), views: None }
    }

    /// The remaining data, as another process finds it.
    async fn left(&self) -> Parts {
        // The catalog first, as it is on one disk: a snapshot is written when the log is synced up to it, and the engine still runs.
        let catalog = self.catalog.only_synced();
        let log = self.log.only_synced();
        Parts { log, catalog, store: self.store.restart().await, views: None }
    }

    pub(crate) async fn open(&self, clock: &Arc<TestClock>) -> Engine {
        self.open_with(clock, |_| ()).await
    }

    /// The same by settings that are changed.
    pub(crate) async fn open_with(
        &self,
        clock: &Arc<TestClock>,
        change: impl FnOnce(&mut HistoryConfig),
    ) -> Engine {
        let config = EngineConfig { shards: 1, ..EngineConfig::default() };
        let mut history = quick(std::path::Path::new("unused"));
        // The log has all that a crash is to leave, and upkeep makes no calls of its own.
        (history.checkpoint_interval_ms, history.store_commit_interval_ms) = (3_600_000, 3_600_000);
        history.sql_threads = 2;
        change(&mut history);
        let disk = |disk: &SimDisk| Arc::new(disk.clone()) as Arc<dyn Disk>;
        let disks = Disks { log: disk(&self.log), catalog: disk(&self.catalog), views: self.views.clone() };
        let options =
            StoreOptions { commit_interval: Duration::from_secs(3600), ..StoreOptions::at("memory") };
        let clock = Arc::clone(clock) as Arc<dyn Clock>;
        let store = Store::open_at(Arc::new(self.store.clone()), options, Arc::clone(&clock)).await.unwrap();
        Engine::open_with(config, history, (disks, store), clock).await.unwrap()
    }
}

/// An engine whose job has run once over ten events, and is to run over five more.
async fn before(parts: &Parts, clock: &Arc<TestClock>) -> Engine {
    let engine = parts.open(clock).await;
    sql(&engine, "CREATE STREAM s (a LONG); CREATE STREAM copies (a LONG); CREATE TABLE kept (a BIGINT)")
        .await;
    sql(
        &engine,
        "CREATE JOB j SCHEDULE '@hourly' WITH (incremental = true) AS $$ \
         INSERT INTO kept SELECT a FROM s; INSERT INTO copies SELECT a FROM s $$",
    )
    .await;
    numbers(&engine, "s", 0..10).await;
    sql(&engine, "RUN JOB j").await;
    numbers(&engine, "s", 10..15).await;
    engine
}

/// Runs the job until something is down: log and store try again for as long as it takes. `None` where the run is done
/// and nothing is: it has made fewer calls than the one at which it was to crash.
async fn run_until(engine: &Engine, is_down: impl Fn() -> bool) -> Option<JoinHandle<()>> {
    let asked = {
        let engine = engine.clone();
        tokio::spawn(async move { drop(try_sql(&engine, "RUN JOB j").await) })
    };
    while !is_down() {
        if asked.is_finished() && !is_down() {
            return None;
        }
        tokio::task::yield_now().await;
    }
    Some(asked)
}

/// Opens what is left; the run is taken up by itself, and another follows.
async fn check_after(left: &Parts, clock: &Arc<TestClock>, what: &str) {
    let engine = left.open(clock).await;
    // An open run is taken up as soon as there is one; where none had begun, its time comes now.
    clock.advance_ms(60 * MINUTE);
    let succeeded =
        "SELECT 1 AS one FROM system.job_runs WHERE job = 'j' AND run = 2 AND state = 'succeeded'";
    until(&engine, 1, succeeded).await;
    numbers(&engine, "s", 15..18).await;
    // The schedule may be at it already.
    while try_sql(&engine, "RUN JOB j").await.is_err() {
        tokio::task::yield_now().await;
    }
    for table in ["kept", "copies"] {
        let select = format!("SELECT count(*) AS n, count(DISTINCT a) AS d, sum(a) AS total FROM {table}");
        assert_eq!(
            rows(&engine, &select).await,
            [json!({"n": 18, "d": 18, "total": 153})],
            "{table}, {what}\n{}",
            sql(&engine, "SELECT * FROM system.job_runs").await
        );
    }
    engine.shutdown(Duration::ZERO).await;
}

/// Makes the power be lost at a run's first call to the log, at its second, and so on until it is done before that. Returns
/// the number of calls.
async fn lose_power_at_each_call<B, C>(before: B, check: C) -> u64
where
    B: AsyncFn(&Parts, &Arc<TestClock>) -> Engine,
    C: AsyncFn(&Parts, &Arc<TestClock>, &str),
{
    for call in 0.. {
        let clock = Arc::new(TestClock::at(START));
        let parts = Parts::new();
        let engine = before(&parts, &clock).await;
        parts.log.fail_at(parts.log.calls() + call, Fault::PowerLoss);
        let asked = run_until(&engine, || parts.log.is_off()).await;
        if let Some(asked) = &asked {
            let left = parts.left().await;
            check(&left, &clock, &format!("call {call} to the log")).await;
            asked.abort();
        }
        engine.shutdown(Duration::ZERO).await;
        if asked.is_none() {
            return call;
        }
    }
    unreachable!("a run ends")
}

#[tokio::test(flavor = "multi_thread")]
async fn loss_of_power_at_any_call_to_the_log_neither_doubles_nor_loses() {
    let calls = lose_power_at_each_call(before, check_after).await;
    assert!(calls >= 8, "beginning, what is read, both statements and events: {calls} calls");
    println!("the power was lost at each of {calls} calls");
}

/// Makes a run crash at its first call to the store, at its second, and so on until it is done before that; each call
/// has its effect or not. Returns the number of calls.
async fn crash_at_each_call<B, C>(before: B, check: C) -> u64
where
    B: AsyncFn(&Parts, &Arc<TestClock>) -> Engine,
    C: AsyncFn(&Parts, &Arc<TestClock>, &str),
{
    for call in 0.. {
        for has_effect in [false, true] {
            let clock = Arc::new(TestClock::at(START));
            let parts = Parts::new();
            let engine = before(&parts, &clock).await;
            parts.store.crash_at(parts.store.calls() + call, has_effect);
            let asked = run_until(&engine, || parts.store.is_down()).await;
            if let Some(asked) = &asked {
                let left = parts.left().await;
                check(&left, &clock, &format!("call {call} to the store, {has_effect}")).await;
                asked.abort();
            }
            engine.shutdown(Duration::ZERO).await;
            if asked.is_none() {
                return call;
            }
        }
    }
    unreachable!("a run ends")
}

#[tokio::test(flavor = "multi_thread")]
async fn crash_at_any_call_to_the_store_neither_doubles_nor_loses() {
    let calls = crash_at_each_call(before, check_after).await;
    assert!(calls >= 2, "the file and its commit: {calls} calls");
    println!("the store went down at each of {calls} calls, done or not");
}

/// An engine whose job makes a table, in the place of one that it drops.
async fn before_made(parts: &Parts, clock: &Arc<TestClock>) -> Engine {
    let engine = parts.open(clock).await;
    sql(&engine, "CREATE STREAM s (a LONG); CREATE TABLE made AS SELECT 'old' AS b").await;
    numbers(&engine, "s", 0..10).await;
    let text = "DROP TABLE Made; CREATE TABLE made AS SELECT a FROM s";
    sql(&engine, &format!("CREATE JOB j SCHEDULE '@yearly' AS $$ {text} $$")).await;
    engine
}

async fn check_made(left: &Parts, clock: &Arc<TestClock>, what: &str) {
    let opened = left.open(clock).await;
    // The store may go down before the run has begun, as streams' tables are opened beside it.
    if rows(&opened, "SELECT 1 AS one FROM system.job_runs WHERE job = 'j'").await.is_empty() {
        sql(&opened, "RUN JOB j").await;
    }
    let succeeded =
        "SELECT 1 AS one FROM system.job_runs WHERE job = 'j' AND run = 1 AND state = 'succeeded'";
    until(&opened, 1, succeeded).await;
    let select = "SELECT count(*) AS n, sum(a) AS total FROM made";
    assert_eq!(rows(&opened, select).await, [json!({"n": 10, "total": 45})], "{what}");
    opened.shutdown(Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn table_that_a_job_makes_is_there_whole_whichever_call_to_the_store_was_the_last() {
    let calls = crash_at_each_call(before_made, check_made).await;
    assert!(calls >= 6, "dropping, the mark, the file, the commit, the mark again: {calls} calls");
    println!("the store went down at each of {calls} calls, done or not");
}

#[tokio::test(flavor = "multi_thread")]
async fn table_that_a_job_makes_anew_is_there_whichever_call_to_the_log_was_the_last() {
    let calls = lose_power_at_each_call(before_made, check_made).await;
    assert!(calls >= 6, "beginning, what is dropped, both statements: {calls} calls");
    println!("the power was lost at each of {calls} calls");
}

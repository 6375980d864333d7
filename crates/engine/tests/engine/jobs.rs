//! Tests that jobs run on schedule, over the new events, once. A failed run is retried and shown, and delays nothing else.
//! The tests use their own clock.

#![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

use std::{path::Path, sync::Arc, time::Duration};

use serde_json::{Value, json};
use swiftwater_engine::{Engine, EngineConfig, HistoryConfig};
use swiftwater_event::{Clock, Millis};
use swiftwater_sql::Running;
use swiftwater_testkit::TestClock;

use crate::history::{append, open_when_free, quick, sql, try_sql};

/// 2026-01-01T00:30:00Z.
pub(crate) const START: Millis = 1_767_227_400_000;
pub(crate) const MINUTE: u64 = 60_000;
const HOUR: u64 = 60 * MINUTE;

/// A statement that takes far longer than any test waits.
const ENDLESS: &str =
    "SELECT count(*) FROM range(0, 1000000000) a, range(0, 1000000000) b WHERE a.value + b.value = -1";

async fn open(dir: &Path, clock: &Arc<TestClock>) -> Engine {
    open_with(quick(dir), clock).await
}

async fn open_with(history: HistoryConfig, clock: &Arc<TestClock>) -> Engine {
    let config = EngineConfig { shards: 1, ..EngineConfig::default() };
    open_when_free(config, history, Arc::clone(clock) as Arc<dyn Clock>).await
}

/// The directory is free for another engine when this returns.
async fn stop(engine: Engine, grace: Duration) {
    engine.shutdown(grace).await;
}

pub(crate) async fn rows(engine: &Engine, text: &str) -> Vec<Value> {
    let answer = sql(engine, text).await;
    answer.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Repeats a query until it returns so many rows.
pub(crate) async fn until(engine: &Engine, count: usize, text: &str) {
    let waited = tokio::time::timeout(Duration::from_secs(30), async {
        while rows(engine, text).await.len() != count {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    if waited.await.is_err() {
        let jobs = sql(engine, "SHOW JOBS").await;
        panic!(
            "{text} has not come to {count} rows\n{jobs}{}",
            sql(engine, "SELECT * FROM system.job_runs").await
        );
    }
}

async fn until_succeeded(engine: &Engine, job: &str, run: u64) {
    let is_so = format!(
        "SELECT 1 AS one FROM system.job_runs WHERE job = '{job}' AND run = {run} AND state = 'succeeded'"
    );
    until(engine, 1, &is_so).await;
}

async fn until_state(engine: &Engine, job: &str, state: &str) {
    let is_so = format!("SELECT 1 AS one FROM system.job_runs WHERE job = '{job}' AND state = '{state}'");
    until(engine, 1, &is_so).await;
}

/// Waits until the endless statement of a job is being run.
async fn until_endless(engine: &Engine) {
    let waited = tokio::time::timeout(Duration::from_secs(30), async {
        let is_it = |running: &Running| running.text.contains("range(0, 1000000000)");
        while !engine.sql().unwrap().running().iter().any(is_it) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    waited.await.expect("the job's second statement is run");
}

/// A row of SHOW JOBS.
async fn shown(engine: &Engine, job: &str) -> Value {
    let jobs = rows(engine, "SHOW JOBS").await;
    jobs.into_iter().find(|row| row["job"] == job).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn attempt_that_takes_too_long_is_ended_and_tried_again() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(TestClock::at(START));
    let history = HistoryConfig { jobs_timeout_ms: 5 * MINUTE, ..quick(dir.path()) };
    let engine = open_with(history.clone(), &clock).await;
    sql(&engine, "CREATE TABLE t (a BIGINT)").await;
    let slow = format!("CREATE JOB slow SCHEDULE '@hourly' AS $$ INSERT INTO t VALUES (1); {ENDLESS} $$");
    sql(&engine, &slow).await;
    sql(&engine, "CREATE JOB own SCHEDULE '@yearly' WITH (timeout = '2 h') AS SELECT 1").await;
    sql(&engine, "CREATE JOB endless SCHEDULE '@yearly' WITH (timeout = none) AS SELECT 1").await;
    for (job, timeout) in [("slow", json!(300.0)), ("own", json!(7200.0)), ("endless", Value::Null)] {
        assert_eq!(shown(&engine, job).await["timeout_seconds"], timeout, "{job}");
    }
    clock.advance_ms(HOUR);
    // Its first statement is done once, however often the second is tried.
    until(&engine, 1, "SELECT 1 AS one FROM system.job_runs WHERE job = 'slow' AND rows = 1").await;
    until_endless(&engine).await;
    clock.advance_ms(5 * MINUTE);
    until_state(&engine, "slow", "failed").await;
    let row = shown(&engine, "slow").await;
    assert_eq!(row["error"], "the attempt exceeded its timeout of 300000 ms");
    assert_eq!((&row["failures"], &row["retries"], &row["rows"]), (&json!(1), &json!(0), &json!(1)));
    // The next attempt has its time anew, and more of it where that is said.
    sql(&engine, "ALTER JOB slow SET (timeout = '10 min')").await;
    until_state(&engine, "slow", "running").await;
    let seconds = shown(&engine, "slow").await["seconds"].as_f64().unwrap();
    assert!((300.0..600.0).contains(&seconds), "{seconds}");
    let failures = "SELECT 1 AS one FROM system.job_runs WHERE job = 'slow' AND attempts > 2";
    clock.advance_ms(5 * MINUTE);
    until_state(&engine, "slow", "running").await;
    clock.advance_ms(6 * MINUTE);
    until_state(&engine, "slow", "failed").await;
    assert_eq!(shown(&engine, "slow").await["retries"], 1);
    clock.advance_ms(MINUTE);
    until(&engine, 1, failures).await;
    assert_eq!(rows(&engine, "SELECT count(*) AS n FROM t").await, [json!({"n": 1})]);
    let counted = ["runs", "failures", "retries", "rows"].map(|name| name.to_owned());
    let row = shown(&engine, "slow").await;
    // The counts persist over a restart.
    stop(engine, Duration::from_secs(5)).await;
    let engine = open_with(history, &clock).await;
    let again = shown(&engine, "slow").await;
    for name in &counted {
        assert_eq!(row[name], again[name], "{name}");
    }
    assert_eq!(again["timeout_seconds"], 600.0);
    stop(engine, Duration::from_secs(5)).await;
}

/// Events `{"a":…}` of these numbers.
pub(crate) async fn numbers(engine: &Engine, stream: &str, numbers: std::ops::Range<u64>) {
    let lines: Vec<String> = numbers.map(|number| format!("{{\"a\":{number}}}")).collect();
    append(engine, stream, &lines.join("\n"), None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn job_runs_at_its_time_and_reads_what_is_new() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(TestClock::at(START));
    let engine = open(dir.path(), &clock).await;
    sql(&engine, "CREATE STREAM s (a LONG)").await;
    sql(&engine, "CREATE TABLE sums (n BIGINT, total BIGINT)").await;
    let made = sql(
        &engine,
        "CREATE JOB j SCHEDULE '@hourly' WITH (incremental = true) AS INSERT INTO sums SELECT count(*), sum(a) FROM s",
    );
    assert_eq!(made.await, "{\"changed\":true}\n");
    sql(&engine, "CREATE JOB witness SCHEDULE '* * * * *' AS SELECT 1").await;
    numbers(&engine, "s", 0..10).await;
    assert_eq!(shown(&engine, "j").await["next_run"], "2026-01-01T01:00:00.000Z");

    clock.advance_ms(30 * MINUTE - 1);
    until_succeeded(&engine, "witness", 1).await;
    assert_eq!(rows(&engine, "SELECT * FROM system.job_runs WHERE job = 'j'").await, [] as [Value; 0]);
    clock.advance_ms(1);
    until_succeeded(&engine, "j", 1).await;
    numbers(&engine, "s", 10..15).await;
    clock.advance_ms(HOUR);
    until_succeeded(&engine, "j", 2).await;
    // Nothing is new.
    clock.advance_ms(HOUR);
    until_succeeded(&engine, "j", 3).await;
    assert_eq!(
        rows(&engine, "SELECT n, total FROM sums ORDER BY n DESC").await,
        [json!({"n": 10, "total": 45}), json!({"n": 5, "total": 60}), json!({"n": 0, "total": null})]
    );
    let runs = rows(
        &engine,
        "SELECT run, scheduled_at, started_at, ended_at, state, attempts, rows, error, reads \
         FROM system.job_runs WHERE job = 'j' ORDER BY run",
    );
    let run = |number: u64, at: &str, from: u64, to: u64| {
        json!({
            "run": number, "scheduled_at": at, "started_at": at, "ended_at": at, "state": "succeeded",
            "attempts": 1, "rows": 1, "error": null, "reads": format!("{{\"s\":{{\"from\":{from},\"to\":{to}}}}}"),
        })
    };
    assert_eq!(
        runs.await,
        [
            run(1, "2026-01-01T01:00:00.000Z", 0, 10),
            run(2, "2026-01-01T02:00:00.000Z", 10, 15),
            run(3, "2026-01-01T03:00:00.000Z", 15, 15)
        ]
    );
    assert_eq!(
        shown(&engine, "j").await,
        json!({
            "job": "j", "schedule": "@hourly", "time_zone": "UTC", "enabled": true,
            "last_run": "2026-01-01T03:00:00.000Z", "state": "succeeded", "error": null,
            "next_run": "2026-01-01T04:00:00.000Z", "timeout_seconds": 86_400.0,
            "runs": 3, "failures": 0, "retries": 0, "rows": 3, "seconds": 0.0,
        })
    );
    stop(engine, Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_leave_nothing_out_and_read_nothing_twice_while_events_come() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(TestClock::at(START));
    let engine = open(dir.path(), &clock).await;
    sql(&engine, "CREATE STREAM s (a LONG)").await;
    sql(&engine, "CREATE STREAM copies (a LONG)").await;
    sql(
        &engine,
        "CREATE JOB j SCHEDULE '* * * * *' WITH (incremental = true) AS INSERT INTO copies SELECT s.a FROM s JOIN s AS t ON s.a = t.a",
    )
    .await;
    let sender = {
        let engine = engine.clone();
        tokio::spawn(async move {
            for batch in 0..200 {
                numbers(&engine, "s", batch * 10..batch * 10 + 10).await;
            }
        })
    };
    for run in 1..=8 {
        clock.advance_ms(MINUTE);
        until_succeeded(&engine, "j", run).await;
    }
    sender.await.unwrap();
    let last = rows(&engine, "RUN JOB j").await;
    assert_eq!((&last[0]["run"], &last[0]["scheduled_at"]), (&json!(9), &Value::Null));
    let copied =
        rows(&engine, "SELECT count(*) AS n, count(DISTINCT a) AS d, max(a) AS top FROM copies").await;
    assert_eq!(copied, [json!({"n": 2000, "d": 2000, "top": 1999})]);
    let mut next = 0;
    let from_to = "SELECT json_get_int(reads, 's', 'from') AS from_, json_get_int(reads, 's', 'to') AS to_, rows \
                   FROM system.job_runs WHERE job = 'j' ORDER BY run";
    for run in rows(&engine, from_to).await {
        assert_eq!(run["from_"], next, "{run}");
        next = run["to_"].as_u64().unwrap();
        assert_eq!(run["rows"], next - run["from_"].as_u64().unwrap(), "{run}");
    }
    assert_eq!(next, 2000);
    stop(engine, Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn times_that_were_missed_are_made_up_for_once() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(TestClock::at(START));
    let engine = open(dir.path(), &clock).await;
    sql(&engine, "CREATE STREAM s (a LONG)").await;
    sql(&engine, "CREATE TABLE sums (total BIGINT)").await;
    let insert = "INSERT INTO sums SELECT sum(a) FROM s";
    sql(&engine, &format!("CREATE JOB j SCHEDULE '@hourly' WITH (incremental = true) AS {insert}")).await;
    sql(&engine, &format!("CREATE JOB off SCHEDULE '@hourly' AS {insert}; ALTER JOB off DISABLE")).await;
    numbers(&engine, "s", 0..5).await;
    clock.advance_ms(HOUR);
    until_succeeded(&engine, "j", 1).await;
    numbers(&engine, "s", 5..9).await;
    stop(engine, Duration::from_secs(5)).await;

    clock.advance_ms(5 * HOUR);
    let engine = open(dir.path(), &clock).await;
    until_succeeded(&engine, "j", 2).await;
    let told = shown(&engine, "j").await;
    assert_eq!(told["next_run"], "2026-01-01T07:00:00.000Z");
    let run =
        rows(&engine, "SELECT scheduled_at, started_at FROM system.job_runs WHERE job = 'j' AND run = 2")
            .await;
    assert_eq!(
        run,
        [json!({"scheduled_at": "2026-01-01T06:00:00.000Z", "started_at": "2026-01-01T06:30:00.000Z"})]
    );
    // Runs that were due while it was disabled are not made up.
    sql(&engine, "ALTER JOB off ENABLE").await;
    assert_eq!(shown(&engine, "off").await["next_run"], "2026-01-01T07:00:00.000Z");
    clock.advance_ms(30 * MINUTE);
    until_succeeded(&engine, "j", 3).await;
    until_succeeded(&engine, "off", 1).await;
    let sums = rows(&engine, "SELECT total FROM sums WHERE total IS NOT NULL ORDER BY total").await;
    assert_eq!(sums, [json!({"total": 10}), json!({"total": 26}), json!({"total": 36})]);
    stop(engine, Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_run_is_tried_again_and_shown_and_others_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(TestClock::at(START));
    let engine = open(dir.path(), &clock).await;
    sql(&engine, "CREATE STREAM s (a LONG)").await;
    sql(&engine, "CREATE TABLE first (total BIGINT)").await;
    sql(
        &engine,
        "CREATE JOB j SCHEDULE '@hourly' WITH (incremental = true) AS $$ \
         INSERT INTO first SELECT sum(a) FROM s;\n INSERT INTO second SELECT sum(a) FROM s $$",
    )
    .await;
    sql(&engine, "CREATE JOB other SCHEDULE '* * * * *' AS SELECT 1").await;
    numbers(&engine, "s", 0..4).await;
    clock.advance_ms(30 * MINUTE);
    until_state(&engine, "j", "failed").await;
    let told = shown(&engine, "j").await;
    let error = "line 2, column 14 of the job: no table `second`";
    assert_eq!((&told["state"], &told["error"]), (&json!("failed"), &json!(error)));
    assert_eq!(told["next_run"], "2026-01-01T01:00:01.000Z", "after a second");

    // The server's end is not the job's: the same run goes on, from the statement that failed.
    stop(engine, Duration::from_secs(5)).await;
    let engine = open(dir.path(), &clock).await;
    let failures = |count: u64| {
        format!(
            "SELECT 1 AS one FROM system.job_runs WHERE job = 'j' AND state = 'failed' AND attempts = {count}"
        )
    };
    until(&engine, 1, &failures(2)).await;
    assert_eq!(shown(&engine, "j").await["next_run"], "2026-01-01T01:00:02.000Z", "after two seconds");
    numbers(&engine, "s", 4..6).await;
    clock.advance_ms(MINUTE);
    until(&engine, 1, &failures(3)).await;
    until_succeeded(&engine, "other", 2).await;

    sql(&engine, "CREATE TABLE second (total BIGINT)").await;
    clock.advance_ms(MINUTE);
    until_succeeded(&engine, "j", 1).await;
    let run = rows(&engine, "SELECT attempts, rows, error, reads FROM system.job_runs WHERE job = 'j'").await;
    let expected = json!({"attempts": 4, "rows": 2, "error": null, "reads": "{\"s\":{\"from\":0,\"to\":4}}"});
    assert_eq!(run, [expected]);
    clock.advance_ms(HOUR);
    until_succeeded(&engine, "j", 2).await;
    for table in ["first", "second"] {
        let sums = rows(&engine, &format!("SELECT total FROM {table} ORDER BY total")).await;
        assert_eq!(sums, [json!({"total": 6}), json!({"total": 9})], "{table}");
    }
    stop(engine, Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn job_is_run_when_it_is_asked_for_and_never_twice_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(TestClock::at(START));
    let history = HistoryConfig { jobs_running_max: 2, jobs_max: 5, ..quick(dir.path()) };
    let engine = open_with(history.clone(), &clock).await;
    sql(&engine, &format!("CREATE JOB slow SCHEDULE '@yearly' AS {ENDLESS}")).await;
    sql(&engine, &format!("CREATE JOB slower SCHEDULE '* * * * *' AS {ENDLESS}")).await;
    sql(&engine, "CREATE JOB quick SCHEDULE '@yearly' AS SELECT 1").await;
    sql(&engine, "CREATE JOB bad SCHEDULE '@yearly' AS SELECT * FROM nowhere; ALTER JOB bad DISABLE").await;
    let asked = {
        let engine = engine.clone();
        tokio::spawn(async move { try_sql(&engine, "RUN JOB slow").await })
    };
    until_state(&engine, "slow", "running").await;
    let error = try_sql(&engine, "RUN JOB slow").await.unwrap_err();
    assert_eq!(error.to_string(), "job `slow` is running");
    let ran = rows(&engine, "RUN JOB quick").await;
    assert_eq!((&ran[0]["state"], &ran[0]["attempts"]), (&json!("succeeded"), &json!(1)));
    let error = try_sql(&engine, "RUN JOB bad").await.unwrap_err();
    assert_eq!(error.to_string(), "job `bad` failed: no table `nowhere`");
    assert_eq!(shown(&engine, "bad").await["state"], "failed");

    // Both places are taken: what is asked for waits.
    clock.advance_ms(MINUTE);
    until_state(&engine, "slower", "running").await;
    let waiting = {
        let engine = engine.clone();
        tokio::spawn(async move { rows(&engine, "RUN JOB quick").await })
    };
    until(&engine, 1, "SELECT 1 AS one FROM system.job_runs WHERE job = 'quick'").await;
    assert!(!waiting.is_finished());
    sql(&engine, "DROP JOB slow").await;
    let error = asked.await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), "job `slow` was ended before its end");
    assert_eq!(waiting.await.unwrap()[0]["run"], 2);

    for name in ["a", "b"] {
        sql(&engine, &format!("CREATE JOB {name} SCHEDULE '@yearly' AS SELECT 1")).await;
    }
    let error = try_sql(&engine, "CREATE JOB c SCHEDULE '@yearly' AS SELECT 1").await.unwrap_err();
    assert_eq!(error.to_string(), "number of jobs would be 6, limit is 5");
    sql(&engine, "CREATE JOB IF NOT EXISTS b SCHEDULE '@yearly' AS SELECT 1").await;

    // A run ends with the server, and is resumed.
    engine.shutdown(Duration::from_secs(20)).await;
    let ended = async {
        while !engine.sql().unwrap().running().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), ended).await.expect("its statement was told to end");
    drop(engine);
    let engine = open_with(history, &clock).await;
    until_state(&engine, "slower", "running").await;
    let run = rows(&engine, "SELECT run, attempts FROM system.job_runs WHERE job = 'slower'").await;
    assert_eq!(run, [json!({"run": 1, "attempts": 1})]);
    sql(&engine, "DROP JOB slower").await;
    assert_eq!(rows(&engine, "SELECT * FROM system.job_runs WHERE job LIKE 'slow%'").await, [] as [Value; 0]);
    stop(engine, Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_are_altered_described_and_kept() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(TestClock::at(START));
    let engine = open(dir.path(), &clock).await;
    for (text, error) in [
        ("CREATE JOB j SCHEDULE '@daily' AS\n SELECT 1 +", "expected: an expression, found: EOF"),
        (
            "CREATE JOB j SCHEDULE 'now and then' AS SELECT 1",
            "the schedule `now and then` cannot be read: it has 3 fields, not five",
        ),
        ("CREATE JOB j SCHEDULE '@daily' AS DROP VIEW v", "`DROP VIEW` is not a supported statement"),
        (
            "CREATE JOB j SCHEDULE '@daily' AS $$ SELECT 1; UPDATE t SET a = 1 $$",
            "`UPDATE` is not a supported statement",
        ),
        ("ALTER JOB j DISABLE", "no job `j`"),
        ("RUN JOB j", "no job `j`"),
        ("DESCRIBE JOB j", "no job `j`"),
    ] {
        let found = try_sql(&engine, text).await.unwrap_err();
        assert!(found.to_string().contains(error), "{text}: {found}");
        if text.contains('\n') {
            assert_eq!(found.place().map(|place| (place.line, place.column)), Some((2, 12)), "{found}");
        }
    }
    sql(&engine, "CREATE JOB j SCHEDULE '30 2 * * *' WITH (time_zone = 'Europe/Berlin') AS SELECT 1").await;
    assert_eq!(shown(&engine, "j").await["next_run"], "2026-01-01T01:30:00.000Z");
    sql(&engine, "ALTER JOB j SET (time_zone = 'America/New_York', incremental = true)").await;
    assert_eq!(shown(&engine, "j").await["next_run"], "2026-01-01T07:30:00.000Z");
    sql(
        &engine,
        "ALTER JOB j SET SCHEDULE '0 12 29 2 *'; ALTER JOB j RESET (time_zone); ALTER JOB j DISABLE",
    )
    .await;
    assert_eq!(shown(&engine, "j").await["next_run"], Value::Null);
    stop(engine, Duration::ZERO).await;
    let engine = open(dir.path(), &clock).await;
    let statement = "CREATE JOB j SCHEDULE '0 12 29 2 *' WITH (incremental = true) AS\nSELECT 1";
    let expected = json!({
        "job": "j", "created": "2026-01-01T00:30:00.000Z", "enabled": false, "statement": statement,
    });
    assert_eq!(rows(&engine, "DESCRIBE JOB j").await, [expected]);
    let columns = rows(&engine, "DESCRIBE system.job_runs").await;
    assert_eq!(columns[0]["column_name"], "job");
    let told =
        rows(&engine, "SELECT table_name FROM information_schema.tables WHERE table_schema = 'system'").await;
    let names = ["job_runs", "statements", "statement_tasks"].map(|name| json!({"table_name": name}));
    assert_eq!(told, names);
    let query = "SELECT query, rows_returned, tasks FROM system.statements";
    let listed = rows(&engine, query).await;
    assert_eq!(listed, [json!({"query": query, "rows_returned": 0, "tasks": 0})]);
    assert!(rows(&engine, "SELECT * FROM system.statement_tasks").await.is_empty());
    sql(&engine, "ALTER JOB j ENABLE").await;
    assert_eq!(shown(&engine, "j").await["next_run"], "2028-02-29T12:00:00.000Z");
    stop(engine, Duration::from_secs(5)).await;
}

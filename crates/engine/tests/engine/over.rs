//! Tests views of views: answers equal their query over the rows of the view below, whatever appears and disappears there.

#![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

use std::{collections::BTreeMap, path::Path, sync::Arc, time::Duration};

use serde_json::{Value, json};
use swiftwater_engine::{Engine, EngineConfig, Principal, ViewRange, Wanted};
use swiftwater_testkit::{Rng, TestClock};

use crate::{
    history::{append, open_when_free, quick, sql, stop, try_sql},
    views::{lines, open, page},
};

/// All rows of a view.
async fn rows(engine: &Engine, view: &str) -> Vec<Value> {
    let all = page(engine, view, ViewRange { limit: u64::MAX, ..ViewRange::default() }).await;
    lines(&all.rows).iter().map(|row| serde_json::from_str(row).unwrap()).collect()
}

const LOWEST: &str = "CREATE MATERIALIZED VIEW lowest DELETE WHEN kind = 'gone' AS SELECT k, COUNT(*) AS n, SUM(x) AS x, \
     AVG(y) AS y, LAST(kind) AS kind FROM STREAM(t) GROUP BY k HAVING COUNT(*) % 7 != 5";
const MIDDLE: &str = "CREATE MATERIALIZED VIEW middle AS SELECT n % 10 AS n, kind, COUNT(*) AS keys, COUNT(y) AS ys, \
     SUM(x) AS x, SUM(y) AS y, AVG(x) FILTER (WHERE x > 3) AS some FROM STREAM(lowest) WHERE n > 1 \
     GROUP BY n % 10, kind HAVING COUNT(*) != 3";
const HIGHEST: &str = "CREATE MATERIALIZED VIEW highest AS SELECT COUNT(*) AS kinds, SUM(keys) AS keys, SUM(y) AS y \
     FROM STREAM(middle)";

fn same(found: f64, expected: f64) -> bool {
    (found - expected).abs() <= 1e-9 * expected.abs().max(1.0)
}

/// Compares the views with loops over the rows of the views below.
async fn check(engine: &Engine, seed: u64) {
    #[derive(Default)]
    struct Group {
        keys: i64,
        ys: i64,
        x: i64,
        y: f64,
        some: (i64, i64),
    }
    let mut groups: BTreeMap<(i64, String), Group> = BTreeMap::new();
    for row in rows(engine, "lowest").await {
        let (n, x) = (row["n"].as_i64().unwrap(), row["x"].as_i64().unwrap());
        if n <= 1 {
            continue;
        }
        let group = groups.entry((n % 10, row["kind"].to_string())).or_default();
        group.keys += 1;
        group.x += x;
        if let Some(y) = row["y"].as_f64() {
            (group.ys, group.y) = (group.ys + 1, group.y + y);
        }
        if x > 3 {
            group.some = (group.some.0 + 1, group.some.1 + x);
        }
    }
    groups.retain(|_, group| group.keys != 3);
    let found = rows(engine, "middle").await;
    assert_eq!(found.len(), groups.len(), "seed {seed}: {found:?}");
    for (row, ((n, kind), group)) in found.iter().zip(&groups) {
        assert_eq!((&row["n"], &row["kind"].to_string()), (&json!(n), kind), "seed {seed}");
        let counts = (&row["keys"], &row["ys"], &row["x"]);
        assert_eq!(counts, (&json!(group.keys), &json!(group.ys), &json!(group.x)), "seed {seed}: {row}");
        match row["y"].as_f64() {
            Some(y) => assert!(group.ys > 0 && same(y, group.y), "seed {seed}: {row} {}", group.y),
            None => assert_eq!(group.ys, 0, "seed {seed}: {row}"),
        }
        match row["some"].as_f64() {
            Some(some) => {
                assert!(same(some, group.some.1 as f64 / group.some.0 as f64), "seed {seed}: {row}")
            }
            None => assert_eq!(group.some.0, 0, "seed {seed}: {row}"),
        }
    }
    let highest = rows(engine, "highest").await;
    assert_eq!(highest.len(), usize::from(!found.is_empty()), "seed {seed}");
    if let Some(row) = highest.first() {
        let keys: i64 = groups.values().map(|group| group.keys).sum();
        assert_eq!((&row["kinds"], &row["keys"]), (&json!(groups.len()), &json!(keys)), "seed {seed}");
        let y: f64 = groups.values().map(|group| group.y).sum();
        assert!(same(row["y"].as_f64().unwrap_or(0.0), y), "seed {seed}: {row} {y}");
    }
}

fn events(rng: &mut Rng, count: usize, keys: usize) -> String {
    let event = |_| {
        let kind = rng.pick(&["a", "a", "b", "c", "gone"]);
        let y = if rng.chance(0.3) { "null".to_owned() } else { format!("{}.1", rng.below(9)) };
        format!(r#"{{"k":{},"x":{},"y":{y},"kind":"{kind}"}}"#, rng.below(keys), rng.below(9))
    };
    (0..count).map(event).collect::<Vec<_>>().join("\n")
}

const STREAM: &str = "CREATE STREAM t (k LONG NOT NULL, x LONG, y DOUBLE, kind STRING)";

#[tokio::test(flavor = "multi_thread")]
async fn views_of_views_are_their_queries_over_the_rows_below_however_often_they_are_cut_off() {
    for seed in 0..3 {
        let (dir, mut rng) = (tempfile::tempdir().unwrap(), Rng::new(seed));
        let small = |history: &mut swiftwater_engine::HistoryConfig| {
            (history.views_memory_bytes_max, history.feed_bytes_max) = (1 << 14, 1 << 12);
        };
        let mut engine = open(dir.path(), |_| ()).await;
        sql(&engine, STREAM).await;
        sql(&engine, LOWEST).await;
        let keys = 1 + rng.below(400);
        // One begins with what is there, the other with nothing.
        append(&engine, "t", &events(&mut rng, 500, keys), None).await;
        sql(&engine, MIDDLE).await;
        if seed % 2 == 0 {
            append(&engine, "t", &events(&mut rng, 500, keys), None).await;
        }
        sql(&engine, HIGHEST).await;
        for round in 0..6 {
            check(&engine, seed).await;
            for _ in 0..rng.below(20) {
                let count = 1 + rng.below(100);
                append(&engine, "t", &events(&mut rng, count, keys), None).await;
                if rng.chance(0.3) {
                    check(&engine, seed).await;
                }
            }
            // With time to commit, and without.
            stop(engine, if round % 3 == 0 { Duration::from_secs(5) } else { Duration::ZERO }).await;
            engine =
                if round % 2 == 0 { open(dir.path(), small).await } else { open(dir.path(), |_| ()).await };
        }
        check(&engine, seed).await;
        let failing = engine.views(&Principal::local()).into_iter().find_map(|view| view.failing);
        assert_eq!(failing, None);
        stop(engine, Duration::ZERO).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_view_of_very_many_rows_begins_with_all_of_them() {
    const KEYS: u64 = 150_000;
    let dir = tempfile::tempdir().unwrap();
    let mut engine = open(dir.path(), |_| ()).await;
    sql(&engine, "CREATE STREAM t (k LONG NOT NULL, x LONG)").await;
    sql(
        &engine,
        "CREATE MATERIALIZED VIEW v AS SELECT k, COUNT(*) AS n, SUM(x) AS x FROM STREAM(t) GROUP BY k",
    )
    .await;
    for part in 0..10 {
        let keys = part * KEYS / 10..(part + 1) * KEYS / 10;
        let events: Vec<String> = keys.map(|k| format!(r#"{{"k":{k},"x":{}}}"#, k % 5)).collect();
        append(&engine, "t", &events.join("\n"), None).await;
    }
    sql(&engine, "SELECT count(*) FROM v").await;
    sql(
        &engine,
        "CREATE MATERIALIZED VIEW w AS SELECT x, COUNT(*) AS keys, SUM(n) AS n FROM STREAM(v) GROUP BY x",
    )
    .await;
    // Cut off while it begins, with rows that change meanwhile: some that it has and some that it lacks.
    for round in 0..4 {
        let events: Vec<String> =
            (0..50).map(|at| format!(r#"{{"k":{},"x":1}}"#, (at * 2999 + round) % KEYS)).collect();
        append(&engine, "t", &events.join("\n"), None).await;
        if round < 3 {
            stop(engine, if round == 1 { Duration::from_secs(5) } else { Duration::ZERO }).await;
            engine = open(dir.path(), |_| ()).await;
        }
    }
    let found = sql(&engine, "SELECT x, keys, n FROM w ORDER BY x").await;
    let expected = "SELECT x, count(*) AS keys, sum(n) AS n FROM v GROUP BY x ORDER BY x";
    assert_eq!(found, sql(&engine, expected).await);
    assert_eq!(sql(&engine, "SELECT sum(keys) AS n FROM w").await, format!("{{\"n\":{KEYS}}}\n"));
    let status = engine.view(&Principal::local(), "w").unwrap();
    assert_eq!((status.from_table, status.of_view.as_deref()), (false, Some("v")));
    stop(engine, Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn views_of_views_are_made_again_where_their_files_are_gone() {
    let (dir, mut rng) = (tempfile::tempdir().unwrap(), Rng::new(11));
    let mut engine = open(dir.path(), |_| ()).await;
    for text in [STREAM, LOWEST, MIDDLE, HIGHEST] {
        sql(&engine, text).await;
    }
    for round in 0..3 {
        append(&engine, "t", &events(&mut rng, 3000, 200), None).await;
        check(&engine, round).await;
        stop(engine, Duration::from_secs(5)).await;
        if round == 1 {
            // So that the log has them no longer.
            stop(open(dir.path(), |_| ()).await, Duration::from_secs(5)).await;
        }
        std::fs::remove_dir_all(dir.path().join("views")).unwrap();
        engine = open(dir.path(), |_| ()).await;
        check(&engine, round).await;
    }
    stop(engine, Duration::ZERO).await;
}

/// Windows that are kept for a time only: what is over is in no group any more.
#[tokio::test(flavor = "multi_thread")]
async fn a_view_of_windows_counts_those_that_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let mut engine = open(dir.path(), |_| ()).await;
    sql(&engine, "CREATE STREAM t (k LONG, ts LONG)").await;
    for (name, kept) in [("v", " WITH (retention = '100 ms')"), ("w", "")] {
        let create = format!(
            "CREATE MATERIALIZED VIEW {name}{kept} AS SELECT window_start AS w, k, COUNT(*) AS n FROM STREAM(t) GROUP BY k \
             WINDOWING TUMBLING(10, EVENT(ts, 5))"
        );
        sql(&engine, &create).await;
        let over = format!(
            "CREATE MATERIALIZED VIEW over_{name} AS SELECT k, COUNT(*) AS windows, SUM(n) AS n FROM STREAM({name}) GROUP BY k"
        );
        sql(&engine, &over).await;
    }
    let mut rng = Rng::new(4);
    let mut at = 0;
    for round in 0..40 {
        let events: Vec<String> = (0..1 + rng.below(60))
            .map(|_| {
                at += rng.below(4);
                format!(r#"{{"k":{},"ts":{}}}"#, rng.below(5), at.saturating_sub(rng.below(12)))
            })
            .collect();
        append(&engine, "t", &events.join("\n"), None).await;
        if round % 10 == 9 {
            stop(engine, if round % 20 == 9 { Duration::ZERO } else { Duration::from_secs(5) }).await;
            engine = open(dir.path(), |_| ()).await;
        }
        if round % 3 == 0 || round == 39 {
            for view in ["v", "w"] {
                let mut expected: BTreeMap<i64, (i64, i64)> = BTreeMap::new();
                for row in rows(&engine, view).await {
                    let group = expected.entry(row["k"].as_i64().unwrap()).or_default();
                    *group = (group.0 + 1, group.1 + row["n"].as_i64().unwrap());
                }
                let expected: Vec<Value> = expected
                    .into_iter()
                    .map(|(k, (windows, n))| json!({"k": k, "windows": windows, "n": n}))
                    .collect();
                assert_eq!(rows(&engine, &format!("over_{view}")).await, expected, "{view} {round}");
            }
        }
    }
    assert!(at > 1000, "windows were given up");
    stop(engine, Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_whose_time_is_over_is_taken_out_when_it_is_deleted() {
    const MINUTE: u64 = 60_000;
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(TestClock::at(1_700_000_000_000));
    let mut history = quick(dir.path());
    history.views_commit_interval_ms = 20;
    let config = EngineConfig { shards: 1, ..EngineConfig::default() };
    let engine = open_when_free(config, history, Arc::clone(&clock) as _).await;
    sql(&engine, "CREATE STREAM beats (device STRING NOT NULL, room LONG)").await;
    sql(
        &engine,
        "CREATE MATERIALIZED VIEW alive WITH (ttl = '10 min') AS SELECT device, LAST(room) AS room FROM STREAM(beats) GROUP BY device",
    )
    .await;
    sql(
        &engine,
        "CREATE MATERIALIZED VIEW rooms AS SELECT room, COUNT(*) AS n FROM STREAM(alive) GROUP BY room",
    )
    .await;
    let beat = |device: &str, room: u8| format!(r#"{{"device":"{device}","room":{room}}}"#);
    append(&engine, "beats", &[beat("a", 1), beat("b", 1), beat("c", 2)].join("\n"), None).await;
    assert_eq!(rows(&engine, "rooms").await, [json!({"room": 1, "n": 2}), json!({"room": 2, "n": 1})]);
    append(&engine, "beats", &beat("b", 2), None).await;
    assert_eq!(rows(&engine, "rooms").await, [json!({"room": 1, "n": 1}), json!({"room": 2, "n": 2})]);
    clock.advance_ms(11 * MINUTE);
    let waiting = async {
        while rows(&engine, "rooms").await != [json!({"room": 3, "n": 1})] {
            append(&engine, "beats", &beat("d", 3), None).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), waiting).await.expect("they are taken out");
    stop(engine, Duration::ZERO).await;
}

async fn start(dir: &Path) -> Engine {
    let engine = open(dir, |_| ()).await;
    for text in [
        "CREATE STREAM swipes (swiper LONG NOT NULL, direction STRING NOT NULL, noise LONG)",
        "CREATE MATERIALIZED VIEW stats AS SELECT swiper, COUNT(*) FILTER (WHERE direction = 'right') AS likes, \
         COUNT(*) FILTER (WHERE direction = 'left') AS dislikes FROM STREAM(swipes) GROUP BY swiper",
    ] {
        sql(&engine, text).await;
    }
    engine
}

const BY_LIKES: &str = "CREATE MATERIALIZED VIEW by_likes AS SELECT likes, COUNT(*) AS users, SUM(dislikes) AS dislikes \
     FROM STREAM(stats) GROUP BY likes";

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_a_view_of_a_view_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let engine = start(dir.path()).await;
    for (statement, expected) in [
        ("AS SELECT MAX(likes) FROM STREAM(stats)", "COUNT, SUM or AVG, not MAX"),
        ("AS SELECT COUNT(DISTINCT likes) FROM STREAM(stats)", "COUNT, SUM or AVG, not COUNT(DISTINCT …)"),
        ("AS SELECT likes FROM STREAM(stats)", "a view stores one row per key"),
        ("AS SELECT COUNT(*) FROM STREAM(stats) WHERE swipee = 1", "view `stats` has no column `swipee`"),
        ("AS SELECT COUNT(*) FROM STREAM(stats) WINDOWING TUMBLING(5, TIME)", "has no WINDOWING"),
        ("AS SELECT COUNT(*) FROM STREAM(v)", "no stream `v`"),
        ("WITH (ttl = '1 day') AS SELECT COUNT(*) FROM STREAM(stats)", "a view of a view has no `ttl`"),
        ("WITH (backfill = true) AS SELECT COUNT(*) FROM STREAM(stats)", "has no `backfill`"),
        ("WITH (retention = '1 day') AS SELECT COUNT(*) FROM STREAM(stats)", "has no `retention`"),
        ("DELETE WHEN likes = 1 AS SELECT COUNT(*) FROM STREAM(stats)", "has no DELETE WHEN"),
        (
            "AS SELECT COUNT(*) FROM STREAM(stats) WHERE likes < UNIXTIMESTAMP()",
            "the query of view `v` reads the current time",
        ),
    ] {
        let error = try_sql(&engine, &format!("CREATE MATERIALIZED VIEW v {statement}")).await.unwrap_err();
        assert!(error.to_string().contains(expected), "{statement}: {error}");
    }
    sql(&engine, "CREATE MATERIALIZED VIEW aging AS SELECT swiper, SUM(UNIXTIMESTAMP() - noise) AS age FROM STREAM(swipes) GROUP BY swiper").await;
    let of_time = "CREATE MATERIALIZED VIEW v AS SELECT COUNT(*) AS n FROM STREAM(aging)";
    let error = try_sql(&engine, of_time).await.unwrap_err().to_string();
    assert!(error.contains("the query of view `aging` reads the current time"), "{error}");
    sql(&engine, BY_LIKES).await;
    for (statement, expected) in [
        ("DROP VIEW stats", "view `by_likes` reads view `stats`"),
        ("DROP STREAM swipes", "reads stream `swipes`"),
        ("ALTER STREAM swipes ALTER COLUMN noise TYPE DOUBLE", "reads stream `swipes`"),
        ("CREATE ALERT a ON by_likes WHEN users > 1 INTO swipes", "the alert would trigger itself"),
        (BY_LIKES, "view `by_likes` already exists"),
    ] {
        let error = try_sql(&engine, statement).await.unwrap_err();
        assert!(error.to_string().contains(expected), "{statement}: {error}");
    }
    sql(&engine, "ALTER STREAM swipes ADD COLUMN more LONG").await;
    let shown = sql(&engine, "SHOW CREATE VIEW by_likes").await;
    assert!(shown.contains("FROM STREAM(stats) GROUP BY likes"), "{shown}");
    assert_eq!(sql(&engine, "DESCRIBE VIEW by_likes").await.matches("LONG").count(), 3);
    stop(engine, Duration::from_secs(5)).await;
    let engine = open(dir.path(), |_| ()).await;
    // The stream's columns are others now, so it is made anew.
    append(&engine, "swipes", r#"{"swiper":1,"direction":"right"}"#, None).await;
    assert_eq!(rows(&engine, "by_likes").await, [json!({"likes": 1, "users": 1, "dislikes": 0})]);
    let views = sql(&engine, "SHOW VIEWS").await;
    assert!(
        views.lines().any(|view| view.contains(r#""view":"by_likes","stream":"swipes","of_view":"stats""#)),
        "{views}"
    );
    for statement in ["DROP VIEW by_likes", BY_LIKES, "DROP VIEW by_likes", "DROP VIEW stats"] {
        sql(&engine, statement).await;
    }
    stop(engine, Duration::ZERO).await;
    assert_eq!(open(dir.path(), |_| ()).await.views(&Principal::local()).len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn all_that_reads_a_view_reads_one_of_a_view() {
    let dir = tempfile::tempdir().unwrap();
    let engine = start(dir.path()).await;
    sql(&engine, BY_LIKES).await;
    sql(&engine, "CREATE STREAM told (key JSON, state STRING)").await;
    sql(&engine, "CREATE ALERT crowd ON by_likes WHEN users > 1 INTO told").await;
    let principal = Principal::local();
    let mut changes = engine.view_changes(&principal, "by_likes", Some(0)).await.unwrap();
    let swipe = |swiper: u8, direction: &str| format!(r#"{{"swiper":{swiper},"direction":"{direction}"}}"#);
    let all = [swipe(1, "right"), swipe(2, "right"), swipe(3, "left")].join("\n");
    append(&engine, "swipes", &all, None).await;
    let expected =
        [json!({"likes": 0, "users": 1, "dislikes": 1}), json!({"likes": 1, "users": 2, "dislikes": 0})];
    assert_eq!(rows(&engine, "by_likes").await, expected);
    append(&engine, "swipes", &swipe(3, "right"), None).await;
    let key = [swiftwater_engine::KeyValue::Whole(1)];
    let (row, reading) = engine.view_row(&principal, "by_likes", &key, Wanted::Position(4)).await.unwrap();
    let row = String::from_utf8(row.unwrap().json).unwrap();
    assert_eq!(row, r#"{"likes":1,"users":3,"dislikes":1}"#);
    assert_eq!((reading.position, reading.age_ms), (4, 0));
    assert_eq!(sql(&engine, "SELECT sum(users) AS n FROM by_likes").await, "{\"n\":3}\n");
    // A listener to all changes knows the view; the group that lost its last row is gone.
    let mut known: BTreeMap<Vec<u8>, Option<Vec<u8>>> = BTreeMap::new();
    while changes.position() < 4 {
        let some = changes.next().await.unwrap().unwrap();
        known.extend(some.changes.into_iter().map(|change| (change.key.json(), change.row)));
    }
    let known: Vec<Vec<u8>> = known.into_values().flatten().collect();
    assert_eq!(known, [row.as_bytes()]);
    let asking = async {
        while sql(&engine, "SELECT key, state FROM told").await != "{\"key\":\"[1]\",\"state\":\"firing\"}\n"
        {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), asking).await.expect("the alert tells of it");
    stop(engine, Duration::from_secs(5)).await;
}

/// The statements of the document's section, and what it says that they come to.
#[tokio::test(flavor = "multi_thread")]
async fn the_example_of_the_document_answers_as_it_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/views.md");
    let document = std::fs::read_to_string(path).unwrap();
    let create = document.split("```sql\n").nth(1).unwrap().split("\n\nSHOW VIEWS").next().unwrap();
    let (_, section) = document.split_once("## Views over views").unwrap();
    let section = section.split("\n## ").next().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), |_| ()).await;
    sql(&engine, create).await;
    let (mut steps, mut examples) = (0, 0);
    for block in section.split("```").skip(1).step_by(2) {
        match block.split_once('\n').unwrap() {
            ("sql", statements) => {
                sql(&engine, statements).await;
            }
            ("ndjson", events) if steps % 2 == 0 => {
                append(&engine, "swipes", events.trim_end(), None).await;
                steps += 1;
            }
            ("ndjson", expected) => {
                assert_eq!(sql(&engine, "SELECT * FROM by_likes ORDER BY likes").await, expected);
                (steps, examples) = (steps + 1, examples + 1);
            }
            (other, _) => panic!("{other}"),
        }
    }
    assert_eq!(examples, 2);
    stop(engine, Duration::ZERO).await;
}

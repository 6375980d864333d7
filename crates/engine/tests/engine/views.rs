//! Tests views: answers equal their query over the acknowledged events, whenever they are read and whatever happened.

#![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

use std::{path::Path, sync::Arc, time::Duration};

use swiftwater_engine::{
    Engine, EngineConfig, EngineError, KeyValue, Principal, ViewPage, ViewRange, ViewStatus, Wanted,
};
use swiftwater_event::SystemClock;
use swiftwater_sql::ErrorKind;
use swiftwater_testkit::{Rng, TestClock};

use crate::history::{append, open_when_free, quick, sql, stop, try_sql, until_said};

pub(crate) async fn open(dir: &Path, change: impl FnOnce(&mut swiftwater_engine::HistoryConfig)) -> Engine {
    let config = EngineConfig { shards: 2, ..EngineConfig::default() };
    let mut history = quick(dir);
    history.views_commit_interval_ms = 20;
    change(&mut history);
    open_when_free(config, history, Arc::new(SystemClock::new())).await
}

fn key(values: &[&str]) -> Vec<KeyValue> {
    values.iter().map(|value| KeyValue::Written((*value).to_owned())).collect()
}

/// The row of a key of a view that counts all that was acknowledged; empty where there is none.
pub(crate) async fn row(engine: &Engine, view: &str, values: &[&str]) -> String {
    let row = engine.view_row(&Principal::local(), view, &key(values), Wanted::AckHorizon).await;
    let (row, _) = row.unwrap();
    row.map(|row| String::from_utf8(row.json).unwrap()).unwrap_or_default()
}

pub(crate) async fn page(engine: &Engine, view: &str, range: ViewRange) -> ViewPage {
    engine.view_rows(&Principal::local(), view, &range, Wanted::AckHorizon).await.unwrap()
}

pub(crate) fn lines(rows: &[u8]) -> Vec<String> {
    String::from_utf8(rows.to_vec()).unwrap().lines().map(str::to_owned).collect()
}

const STATS: &str = "CREATE MATERIALIZED VIEW stats AS SELECT swiper, \
     COUNT(*) FILTER (WHERE direction = 'right') AS likes, COUNT(*) FILTER (WHERE direction = 'left') AS dislikes \
     FROM STREAM(swipes) GROUP BY swiper";

const SWIPES: &str =
    "CREATE STREAM swipes (swiper LONG NOT NULL, swipee LONG NOT NULL, direction STRING NOT NULL)";

#[tokio::test(flavor = "multi_thread")]
async fn a_view_counts_each_acknowledged_event_at_once_and_after_restarts() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), |_| ()).await;
    sql(&engine, SWIPES).await;
    append(&engine, "swipes", r#"{"swiper":1,"swipee":9,"direction":"right"}"#, None).await;
    sql(&engine, STATS).await;
    assert_eq!(row(&engine, "stats", &["1"]).await, "", "it is of what comes after it");
    for number in 0..20 {
        let direction = if number % 4 == 0 { "left" } else { "right" };
        let event = format!(r#"{{"swiper":{},"swipee":{number},"direction":"{direction}"}}"#, number % 2);
        append(&engine, "swipes", &event, None).await;
    }
    let expected = r#"{"swiper":0,"likes":5,"dislikes":5}"#;
    assert_eq!(row(&engine, "stats", &["0"]).await, expected);
    assert_eq!(
        sql(&engine, "SELECT * FROM stats ORDER BY swiper").await,
        format!("{expected}\n{}\n", r#"{"swiper":1,"likes":10,"dislikes":0}"#)
    );
    assert_eq!(sql(&engine, "SHOW TABLES").await.matches("VIEW").count(), 1);
    // With time to commit, and without.
    stop(engine, Duration::from_secs(5)).await;
    for round in 1..4 {
        let engine = open(dir.path(), |_| ()).await;
        append(&engine, "swipes", r#"{"swiper":0,"swipee":5,"direction":"right"}"#, None).await;
        let expected = format!(r#"{{"swiper":0,"likes":{},"dislikes":5}}"#, 5 + round);
        assert_eq!(row(&engine, "stats", &["0"]).await, expected);
        stop(engine, Duration::ZERO).await;
    }
    let engine = open(dir.path(), |_| ()).await;
    assert_eq!(sql(&engine, "SELECT sum(likes) AS n FROM stats").await, "{\"n\":18}\n");
    let error = try_sql(&engine, "DROP STREAM swipes").await.unwrap_err();
    assert_eq!(error.to_string(), "view `stats` reads stream `swipes`");
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_come_in_the_order_of_their_keys_a_page_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), |_| ()).await;
    sql(&engine, "CREATE STREAM t WITH (store = true)").await;
    sql(&engine, "CREATE MATERIALIZED VIEW v AS SELECT a, b, COUNT(*) AS n FROM STREAM(t) GROUP BY a, b HAVING COUNT(*) < 3").await;
    let mut events = Vec::new();
    for a in ["-1", "10", "9", "2.5", "\"x\"", "\"x y/ü\"", "null", "true"] {
        for b in 0..3 {
            events.push(format!(r#"{{"a":{a},"b":{b}}}"#));
        }
    }
    events.extend(vec![r#"{"a":9,"b":1}"#.to_owned(); 2]);
    append(&engine, "t", &events.join("\n"), None).await;
    let all = page(&engine, "v", ViewRange { limit: 1000, ..ViewRange::default() }).await;
    let rows = lines(&all.rows);
    assert_eq!((rows.len(), all.count, &all.next), (23, 23, &None), "HAVING leaves one out");
    let firsts: Vec<&str> = rows.iter().step_by(3).map(|row| row.split(',').next().unwrap()).collect();
    assert_eq!(
        firsts,
        [
            "{\"a\":null",
            "{\"a\":true",
            "{\"a\":-1",
            "{\"a\":2.5",
            "{\"a\":9",
            "{\"a\":10",
            "{\"a\":\"x\"",
            "{\"a\":\"x y/ü\""
        ]
    );
    let (mut paged, mut after) = (Vec::new(), None);
    loop {
        let page = page(&engine, "v", ViewRange { limit: 5, after, ..ViewRange::default() }).await;
        assert!(page.count <= 5);
        paged.extend(lines(&page.rows));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(paged, rows);
    let range = |from: &[&str], to: &[&str]| ViewRange {
        from: Some(key(from)),
        to: Some(key(to)),
        limit: 99,
        ..ViewRange::default()
    };
    assert_eq!(lines(&page(&engine, "v", range(&["9"], &["10", "2"])).await.rows), rows[12..16]);
    assert!(page(&engine, "v", range(&["10"], &["9"])).await.rows.is_empty());
    let prefix = ViewRange { prefix: Some(key(&["x"])), limit: 99, ..ViewRange::default() };
    assert_eq!(lines(&page(&engine, "v", prefix).await.rows), rows[17..20]);
    for (values, expected) in [
        (["x y/ü", "2"], r#"{"a":"x y/ü","b":2,"n":1}"#),
        (["10.0", "0"], r#"{"a":10,"b":0,"n":1}"#),
        (["null", "0"], r#"{"a":null,"b":0,"n":1}"#),
        (["\"10\"", "0"], ""),
        (["9", "1"], ""),
    ] {
        assert_eq!(row(&engine, "v", &values).await, expected, "{values:?}");
    }
    let error = engine.view_row(&Principal::local(), "v", &key(&["9"]), Wanted::AsItIs).await.unwrap_err();
    assert_eq!(error, EngineError::KeyValues { view: "v".to_owned(), wanted: 2, found: 1 });
}

/// Compares a view of every aggregate with SQL over the stream's table.
async fn check_against_sql(engine: &Engine) {
    let view = sql(engine, "SELECT k, n, s, lo, hi, m, d, f, l, best, xs FROM v ORDER BY k").await;
    let table = "SELECT k, count(*) AS n, sum(x) AS s, min(x) AS lo, max(t) AS hi, avg(x) AS m, \
         count(DISTINCT x) AS d, first_value(t ORDER BY _offset) AS f, last_value(t ORDER BY _offset) AS l, \
         first_value(t ORDER BY x DESC, _offset) AS best, array_agg(x ORDER BY _offset) AS xs FROM s WHERE x != 13 GROUP BY k ORDER BY k";
    assert_eq!(view, sql(engine, table).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_view_is_its_query_however_little_it_holds_and_however_often_it_is_cut_off() {
    let dir = tempfile::tempdir().unwrap();
    let mut rng = Rng::new(7);
    let mut engine = Some(open(dir.path(), |_| ()).await);
    sql(engine.as_ref().unwrap(), "CREATE STREAM s (k LONG, x LONG NOT NULL, t STRING NOT NULL)").await;
    sql(
        engine.as_ref().unwrap(),
        "CREATE MATERIALIZED VIEW v AS SELECT k, COUNT(*) AS n, SUM(x) AS s, MIN(x) AS lo, MAX(t) AS hi, AVG(x) AS m, \
         COUNT(DISTINCT x) AS d, FIRST(t) AS f, LAST(t) AS l, ARG_MAX(t, x) AS best, COLLECT_LIST(x, 9999) AS xs \
         FROM STREAM(s) WHERE x != 13 GROUP BY k",
    )
    .await;
    for round in 0..6 {
        let running = match engine.take() {
            Some(engine) => engine,
            // It holds nearly nothing in memory, and its feed nearly nothing either.
            None => {
                open(dir.path(), |history| {
                    (history.views_memory_bytes_max, history.feed_bytes_max) = (1 << 14, 1 << 12);
                })
                .await
            }
        };
        for _ in 0..30 {
            let events: Vec<String> = (0..1 + rng.below(200))
                .map(|_| {
                    let (k, x) = (rng.below(300), rng.below(40));
                    let k = if k == 0 { "null".to_owned() } else { k.to_string() };
                    format!(r#"{{"k":{k},"x":{x},"t":"t{}"}}"#, rng.below(9))
                })
                .collect();
            append(&running, "s", &events.join("\n"), None).await;
        }
        check_against_sql(&running).await;
        stop(running, if round % 2 == 0 { Duration::ZERO } else { Duration::from_secs(5) }).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn events_delete_keys_and_a_restart_does_not_bring_them_back() {
    let dir = tempfile::tempdir().unwrap();
    let mut engine = open(dir.path(), |_| ()).await;
    sql(&engine, "CREATE STREAM orders (id LONG NOT NULL, status STRING NOT NULL, items LONG)").await;
    let create = "CREATE MATERIALIZED VIEW open_orders DELETE WHEN status IN ('shipped', 'cancelled') AS \
         SELECT id, LAST(status) AS status, SUM(items) AS items FROM STREAM(orders) GROUP BY id";
    sql(&engine, create).await;
    let mut rng = Rng::new(11);
    let mut orders: std::collections::BTreeMap<usize, (&str, u64)> = std::collections::BTreeMap::new();
    for round in 0..5 {
        for _ in 0..40 {
            let mut events = Vec::new();
            for _ in 0..1 + rng.below(30) {
                let (id, items) = (rng.below(60), rng.below(5) as u64);
                let status = rng.pick(&["new", "paid", "packed", "shipped", "cancelled"]);
                events.push(format!(r#"{{"id":{id},"status":"{status}","items":{items}}}"#));
                match status {
                    "shipped" | "cancelled" => drop(orders.remove(&id)),
                    status => {
                        let before = orders.get(&id).map_or(0, |(_, items)| *items);
                        orders.insert(id, (status, before + items));
                    }
                }
            }
            append(&engine, "orders", &events.join("\n"), None).await;
        }
        let expected: Vec<String> = orders
            .iter()
            .map(|(id, (status, items))| format!(r#"{{"id":{id},"status":"{status}","items":{items}}}"#))
            .collect();
        let range = ViewRange { limit: 1000, ..ViewRange::default() };
        assert_eq!(lines(&page(&engine, "open_orders", range).await.rows), expected, "round {round}");
        assert_eq!(
            sql(&engine, "SELECT count(*) AS n FROM open_orders").await,
            format!("{{\"n\":{}}}\n", expected.len())
        );
        let gone = (0..60).find(|id| !orders.contains_key(id)).unwrap();
        assert_eq!(row(&engine, "open_orders", &[&gone.to_string()]).await, "");
        stop(engine, if round % 2 == 0 { Duration::ZERO } else { Duration::from_secs(5) }).await;
        engine = open(dir.path(), |history| history.views_memory_bytes_max = 1 << 13).await;
    }
    let shown = sql(&engine, "SHOW CREATE VIEW open_orders").await;
    assert!(shown.contains("DELETE WHEN status IN ('shipped', 'cancelled')"), "{shown}");
    let exploded = "CREATE MATERIALIZED VIEW v DELETE WHEN id = 1 AS SELECT x, COUNT(*) FROM STREAM(orders) \
         LATERAL VIEW EXPLODE(l) AS x GROUP BY x";
    let error = try_sql(&engine, exploded).await.unwrap_err().to_string();
    assert!(error.contains("DELETE WHEN needs one row per event"), "{error}");
    let unknown = create.replace("open_orders", "v").replace("WHEN status IN", "WHEN status.x IN");
    let error = try_sql(&engine, &unknown).await.unwrap_err().to_string();
    assert!(error.contains("in DELETE WHEN"), "{error}");
    stop(engine, Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn now_in_a_view_is_when_it_was_created_however_often_it_is_opened() {
    const START: i64 = 1_700_000_000_000;
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(TestClock::at(START));
    let open = || {
        let config = EngineConfig { shards: 2, ..EngineConfig::default() };
        open_when_free(config, quick(dir.path()), Arc::clone(&clock) as _)
    };
    let mut engine = open().await;
    sql(&engine, "CREATE STREAM nw (ts LONG); CREATE STREAM told WITH (store = true)").await;
    let query = "SELECT COUNT(*) AS n, COUNT(*) FILTER (WHERE ts > NOW) AS future, MAX(NOW) AS at, \
                 COUNT(*) FILTER (WHERE UNIXTIMESTAMP() < 1700000001) AS early FROM STREAM(nw)";
    sql(&engine, &format!("CREATE MATERIALIZED VIEW v AS {query}")).await;
    sql(&engine, &format!("CREATE ALERT a ON ({query}) WHEN at = NOW AND future > 1 INTO told")).await;
    for round in 1..4 {
        append(&engine, "nw", &format!(r#"{{"ts":{}}}"#, START + 100), None).await;
        let expected = format!(r#"{{"n":{round},"future":{round},"at":{START},"early":{round}}}"#);
        assert_eq!(row(&engine, "v", &[]).await, expected);
        stop(engine, if round == 2 { Duration::from_secs(5) } else { Duration::ZERO }).await;
        clock.advance(Duration::from_secs(3600));
        engine = open().await;
        assert_eq!(row(&engine, "v", &[]).await, expected);
    }
    until_said(&engine, "SELECT count(*) AS n FROM told WHERE state = 'firing'", "{\"n\":1}\n").await;
    stop(engine, Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_default_of_now_is_the_same_in_a_view_as_in_the_table() {
    const START: i64 = 1_700_000_000_000;
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(TestClock::at(START));
    let open = || {
        let mut history = quick(dir.path());
        history.views_commit_interval_ms = 20;
        let config = EngineConfig { shards: 2, ..EngineConfig::default() };
        open_when_free(config, history, Arc::clone(&clock) as _)
    };
    let select = |from: &str| {
        format!(
            "SELECT k, COUNT(*) AS n, MIN(at) AS first_at, MAX(at) AS last_at, MIN(ms) AS first_ms, MAX(ms) AS last_ms, SUM(x) AS s \
             FROM {from} GROUP BY k"
        )
    };
    let engine = open().await;
    sql(
        &engine,
        "CREATE STREAM s (k LONG NOT NULL, at TIMESTAMP(s) DEFAULT NOW, ms LONG DEFAULT NOW, x LONG DEFAULT 5)",
    )
    .await;
    let windowed = "CREATE MATERIALIZED VIEW by_time AS SELECT k, COUNT(*) AS n FROM STREAM(s) WHERE x = 5 GROUP BY k \
                    WINDOWING TUMBLING(1000, EVENT(at, 60000))";
    sql(&engine, &format!("CREATE MATERIALIZED VIEW v AS {}", select("STREAM(s)"))).await;
    sql(&engine, windowed).await;
    let mut engine = Some(engine);
    let mut rng = Rng::new(3);
    for round in 0..4 {
        let running = match engine.take() {
            Some(engine) => engine,
            None => open().await,
        };
        for _ in 0..40 {
            clock.advance(Duration::from_millis(rng.below(30) as u64));
            // Many at once are decoded when they are accepted, few when they go on to the table.
            let count = if rng.below(5) == 0 { 400 } else { 1 + rng.below(3) };
            let events: Vec<String> = (0..count)
                .map(|_| {
                    let at = match rng.below(4) {
                        0 => r#","at":"2020-01-01T00:00:00.5Z","ms":1,"x":2"#,
                        1 => r#","at":null,"ms":null"#,
                        _ => "",
                    };
                    format!(r#"{{"k":{}{at}}}"#, rng.below(20))
                })
                .collect();
            append(&running, "s", &events.join("\n"), None).await;
        }
        let of_view = "SELECT k, n, first_at, last_at, first_ms, last_ms, s FROM v ORDER BY k";
        let view = sql(&running, of_view).await;
        assert_eq!(view, sql(&running, &format!("{} ORDER BY k", select("s"))).await, "round {round}");
        assert!(view.contains("\"last_ms\":17000000"), "{view}");
        let stray = "SELECT count(*) AS n FROM s WHERE at != '2020-01-01T00:00:00.5Z' AND (at != _time OR ms != \
                     CAST(extract(epoch FROM _time) * 1000 AS BIGINT))";
        assert_eq!(sql(&running, stray).await, "{\"n\":0}\n", "it is when they arrived");
        let in_windows = sql(&running, "SELECT sum(n) AS n FROM by_time").await;
        assert_eq!(in_windows, sql(&running, "SELECT count(*) AS n FROM s WHERE x = 5").await);
        if round == 2 {
            let create =
                format!("CREATE MATERIALIZED VIEW past WITH (backfill = true) AS {}", select("STREAM(s)"));
            sql(&running, &create).await;
        }
        if round >= 2 {
            let of_past = of_view.replace("FROM v", "FROM past");
            until_said(&running, &of_past, &view).await;
        }
        stop(running, if round % 2 == 0 { Duration::ZERO } else { Duration::from_secs(5) }).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_view_holds_more_than_its_share_until_others_need_theirs() {
    const MEMORY: u64 = 2 << 20;
    const KEYS: u64 = 20_000;
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), |history| history.views_memory_bytes_max = MEMORY as usize).await;
    for stream in ["s", "t"] {
        sql(&engine, &format!("CREATE STREAM {stream} (k LONG NOT NULL)")).await;
        let create = format!(
            "CREATE MATERIALIZED VIEW of_{stream} AS SELECT k, COUNT(*) AS n FROM STREAM({stream}) GROUP BY k"
        );
        sql(&engine, &create).await;
    }
    let fill = async |stream: &str| {
        let events: Vec<String> = (0..KEYS).map(|k| format!("{{\"k\":{k}}}")).collect();
        append(&engine, stream, &events.join("\n"), None).await;
    };
    // Waits until the condition holds for the keys and bytes of the two views, with all on disk.
    let until_held = async |what: &str, is_so: fn(&[ViewStatus]) -> bool| {
        let held = tokio::time::timeout(Duration::from_secs(60), async {
            loop {
                let views = engine.views(&Principal::local());
                if views.iter().all(|view| view.committed == view.position) && is_so(&views) {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        });
        assert!(held.await.is_ok(), "{what}: {:?}", engine.views(&Principal::local()));
    };
    for round in 1..=2 {
        fill("s").await;
        let sum = format!("{{\"n\":{}}}\n", round * KEYS);
        assert_eq!(sql(&engine, "SELECT sum(n) AS n FROM of_s").await, sum);
        until_held("the first holds all of its keys", |views| {
            views[0].committed > 0 && views[0].keys_held == KEYS && views[0].held_bytes > MEMORY / 2
        })
        .await;
    }
    fill("t").await;
    until_held("both are bounded", |views| {
        let bytes: u64 = views.iter().map(|view| view.held_bytes).sum();
        views[1].committed == KEYS && bytes <= MEMORY && views[0].keys_held < KEYS
    })
    .await;
    fill("s").await;
    fill("t").await;
    for (view, times) in [("of_s", 3), ("of_t", 2)] {
        let asked = format!("SELECT count(*) AS keys, min(n) AS least, max(n) AS most FROM {view}");
        let expected = format!("{{\"keys\":{KEYS},\"least\":{times},\"most\":{times}}}\n");
        assert_eq!(sql(&engine, &asked).await, expected);
    }
    stop(engine, Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_a_quarter_of_a_views_memory_is_on_disk_before_it_is_due() {
    const KEYS: u64 = 150_000;
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), |history| {
        (history.views_memory_bytes_max, history.views_commit_interval_ms) = (16 << 20, 3_600_000);
    })
    .await;
    sql(&engine, "CREATE STREAM s (k LONG NOT NULL)").await;
    sql(&engine, "CREATE MATERIALIZED VIEW v AS SELECT k, COUNT(*) AS n FROM STREAM(s) GROUP BY k").await;
    let fill = async |keys: std::ops::Range<u64>| {
        let events: Vec<String> = keys.map(|k| format!("{{\"k\":{k}}}")).collect();
        append(&engine, "s", &events.join("\n"), None).await;
    };
    let shown = || engine.views(&Principal::local()).remove(0);
    let until = async |what: &str, is_so: fn(&ViewStatus) -> bool| {
        let reached = tokio::time::timeout(Duration::from_secs(60), async {
            while !is_so(&shown()) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        });
        assert!(reached.await.is_ok(), "{what}: {:?}", shown());
    };
    fill(0..1000).await;
    until("it counts", |view| view.position == 1000).await;
    assert_eq!(shown().committed, 0, "{:?}", shown());
    fill(1000..KEYS).await;
    until("it is written", |view| view.committed > 0).await;
    assert_eq!(sql(&engine, "SELECT sum(n) AS n FROM v").await, format!("{{\"n\":{KEYS}}}\n"));
    stop(engine, Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_without_events_go_when_their_time_is_over() {
    const START: i64 = 1_700_000_000_000;
    const MINUTE: u64 = 60_000;
    let dir = tempfile::tempdir().unwrap();
    let open = |at: i64| {
        let clock = Arc::new(TestClock::at(at));
        let mut history = quick(dir.path());
        history.views_commit_interval_ms = 20;
        let config = EngineConfig { shards: 1, ..EngineConfig::default() };
        async move { (open_when_free(config, history, Arc::clone(&clock) as _).await, clock) }
    };
    let (engine, clock) = open(START).await;
    sql(&engine, "CREATE STREAM beats (device STRING NOT NULL)").await;
    sql(
        &engine,
        "CREATE MATERIALIZED VIEW alive WITH (ttl = '10 min') AS SELECT device, COUNT(*) AS n FROM STREAM(beats) GROUP BY device",
    )
    .await;
    let beat = |device: &str| format!(r#"{{"device":"{device}"}}"#);
    append(&engine, "beats", &[beat("a"), beat("b"), beat("a")].join("\n"), None).await;
    clock.advance_ms(9 * MINUTE);
    append(&engine, "beats", &beat("b"), None).await;
    assert_eq!(row(&engine, "alive", &["a"]).await, r#"{"device":"a","n":2}"#);
    // No event was sent: readers go by the clock.
    clock.advance_ms(MINUTE);
    assert_eq!(row(&engine, "alive", &["a"]).await, "");
    assert_eq!(sql(&engine, "SELECT * FROM alive").await.trim(), r#"{"device":"b","n":2}"#);
    // A later event begins anew.
    append(&engine, "beats", &beat("a"), None).await;
    assert_eq!(row(&engine, "alive", &["a"]).await, r#"{"device":"a","n":1}"#);
    stop(engine, Duration::from_secs(5)).await;
    // A row that is only on disk expires, too, and is deleted there by the time of the events.
    let (engine, clock) = open(START + 12 * MINUTE as i64).await;
    assert_eq!(row(&engine, "alive", &["b"]).await, r#"{"device":"b","n":2}"#);
    clock.advance_ms(8 * MINUTE);
    let mut changes = engine.view_changes(&Principal::local(), "alive", None).await.unwrap();
    append(&engine, "beats", &beat("c"), None).await;
    // Listeners are informed.
    let mut gone = Vec::new();
    while gone.len() < 2 {
        let some = changes.next().await.unwrap().unwrap();
        gone.extend(
            some.changes.into_iter().filter(|change| change.row.is_none()).map(|change| change.key.json()),
        );
    }
    assert_eq!(gone, [b"[\"a\"]".to_vec(), b"[\"b\"]".to_vec()]);
    let page = page(&engine, "alive", ViewRange { limit: 10, ..ViewRange::default() }).await;
    assert_eq!(lines(&page.rows), [r#"{"device":"c","n":1}"#]);
    stop(engine, Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_a_view_is_said_with_its_place() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), |_| ()).await;
    sql(&engine, "CREATE STREAM t (a LONG)").await;
    sql(&engine, "CREATE STREAM live").await;
    for (query, expected) in [
        ("SELECT a FROM STREAM(t) WHERE a.b = 1 GROUP BY a", "1:61"),
        ("SELECT a FROM STREAM(t)", "a view stores one row per key"),
        ("SELECT COUNT(*) FROM STREAM(nix)", "no stream `nix`"),
        ("SELECT COUNT(*) FROM STREAM(live)", "`live` is live-only"),
        ("SELECT COUNT(*) FROM STREAM()", "names no stream"),
        ("SELECT COUNT(*) FROM STREAM(t) LIMIT 3", "a view has no end"),
    ] {
        let error = try_sql(&engine, &format!("CREATE MATERIALIZED VIEW v AS {query}")).await.unwrap_err();
        let place = error.place().map(|place| format!("{}:{}", place.line, place.column)).unwrap_or_default();
        let told = format!("{place} {error}");
        assert!(told.contains(expected), "{query}: {told}");
    }
    assert_eq!(sql(&engine, "SHOW VIEWS").await, "");
    sql(&engine, "CREATE MATERIALIZED VIEW v AS SELECT COUNT(*) AS n FROM STREAM(t)").await;
    assert_eq!(row(&engine, "v", &[]).await, "", "no event, no row");
    append(&engine, "t", "{\"a\":1}\n{}", None).await;
    assert_eq!(row(&engine, "v", &[]).await, "{\"n\":2}");
    assert!(
        try_sql(&engine, "INSERT INTO v VALUES (1)").await.unwrap_err().to_string().contains("is a view")
    );
    assert!(try_sql(&engine, "CREATE TABLE v AS SELECT 1 AS a").await.is_err());
    assert_eq!(sql(&engine, "SHOW CREATE VIEW v").await.matches("MATERIALIZED").count(), 1);
    assert_eq!(
        sql(&engine, "DESCRIBE VIEW v").await,
        "{\"column\":\"n\",\"type\":\"LONG\",\"nullable\":true}\n"
    );
    sql(&engine, "DROP MATERIALIZED VIEW v").await;
    assert!(try_sql(&engine, "SELECT * FROM v").await.is_err());
    // Another one of that name begins anew.
    sql(&engine, "CREATE MATERIALIZED VIEW v AS SELECT COUNT(*) AS n FROM STREAM(t)").await;
    append(&engine, "t", "{\"a\":1}", None).await;
    assert_eq!(row(&engine, "v", &[]).await, "{\"n\":1}");
    let retyped = try_sql(&engine, "ALTER STREAM t ALTER COLUMN a TYPE DOUBLE").await.unwrap_err();
    assert_eq!(retyped.to_string(), "view `v` reads stream `t`");
    sql(&engine, "ALTER STREAM t ADD COLUMN b LONG").await;
    sql(&engine, "DROP VIEW v").await;
    sql(&engine, "DROP STREAM t").await;
    stop(engine, Duration::from_secs(5)).await;
    open(dir.path(), |_| ()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_view_reads_of_its_stream_stays_declared_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), |_| ()).await;
    for text in [
        "CREATE STREAM t (k LONG, d LONG DEFAULT 1, e LONG NOT NULL DEFAULT 2, f LONG)",
        "CREATE STREAM told WITH (store = true)",
        "CREATE MATERIALIZED VIEW v AS SELECT k, SUM(d) AS d, COUNT(zz) AS zs FROM STREAM(t) GROUP BY k",
        "CREATE ALERT a ON (SELECT k, MAX(f) AS most FROM STREAM(t) GROUP BY k) WHEN most > 5 INTO told",
    ] {
        sql(&engine, text).await;
    }
    append(&engine, "t", "{\"k\":1}", None).await;
    for (change, expected) in [
        ("ALTER COLUMN d SET DEFAULT 7", "view `v` reads column `d` of stream `t`"),
        ("ALTER COLUMN d DROP DEFAULT", "view `v` reads column `d` of stream `t`"),
        ("ADD COLUMN g LONG, ALTER COLUMN d SET DEFAULT 7", "view `v` reads column `d` of stream `t`"),
        ("ADD COLUMN zz LONG PATH 'o.zz'", "view `v` reads column `zz` of stream `t`"),
        ("ADD COLUMN g LONG PATH 'zz' DEFAULT 3", "view `v` reads column `g` of stream `t`"),
        ("ALTER COLUMN f SET DEFAULT 7", "the query of alert `a` reads stream `t`"),
    ] {
        let error = try_sql(&engine, &format!("ALTER STREAM t {change}")).await.unwrap_err();
        assert_eq!(error.to_string(), expected, "{change}");
        assert_eq!(error.kind(), ErrorKind::Conflict, "{change}");
    }
    // A column that no view reads can be altered.
    let alter = "ALTER STREAM t ALTER COLUMN e SET DEFAULT 7, ALTER COLUMN e DROP NOT NULL, ADD COLUMN g LONG PATH 'o.g'";
    sql(&engine, alter).await;
    append(&engine, "t", "{\"k\":1,\"zz\":5}", None).await;
    let expected = "{\"k\":1,\"d\":2,\"zs\":1}\n";
    assert_eq!(sql(&engine, "SELECT k, d, zs FROM v").await, expected);
    // Counted again, it is the same.
    stop(engine, Duration::ZERO).await;
    let engine = open(dir.path(), |_| ()).await;
    append(&engine, "t", "{\"k\":2,\"d\":4}", None).await;
    let expected = format!("{expected}{{\"k\":2,\"d\":4,\"zs\":0}}\n");
    assert_eq!(sql(&engine, "SELECT k, d, zs FROM v ORDER BY k").await, expected);
    sql(&engine, "DROP VIEW v; ALTER STREAM t ALTER COLUMN d SET DEFAULT 7").await;
    stop(engine, Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_view_whose_files_are_gone_is_made_again_from_the_log_or_the_table() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), |_| ()).await;
    sql(&engine, "CREATE STREAM t (a LONG)").await;
    sql(&engine, "CREATE MATERIALIZED VIEW v AS SELECT COUNT(*) AS n FROM STREAM(t)").await;
    append(&engine, "t", "{\"a\":1}", None).await;
    assert_eq!(row(&engine, "v", &[]).await, "{\"n\":1}");
    // Committed everywhere, so that the log has it no longer.
    stop(engine, Duration::from_secs(5)).await;
    let engine = open(dir.path(), |_| ()).await;
    stop(engine, Duration::from_secs(5)).await;
    std::fs::remove_dir_all(dir.path().join("views")).unwrap();
    let engine = open(dir.path(), |_| ()).await;
    append(&engine, "t", "{\"a\":1}", None).await;
    assert_eq!(row(&engine, "v", &[]).await, "{\"n\":2}");
    assert_eq!(sql(&engine, "SELECT count(*) AS n FROM t").await, "{\"n\":2}\n");
    sql(&engine, "DROP VIEW v").await;
}

/// Events with fields beside the columns, without some, and of several arrivals; more of them while the view is made, and
/// restarts before it is there.
#[tokio::test(flavor = "multi_thread")]
async fn a_view_is_made_of_what_the_stream_has_and_of_what_comes() {
    let dir = tempfile::tempdir().unwrap();
    let mut engine = open(dir.path(), |_| ()).await;
    sql(&engine, "CREATE STREAM t (k LONG NOT NULL, x LONG, at TIMESTAMP)").await;
    let query =
        "SELECT k, COUNT(*) AS n, SUM(x) AS x, COUNT(note) AS notes, MAX(at) AS at FROM STREAM(t) GROUP BY k";
    sql(&engine, &format!("CREATE MATERIALIZED VIEW live AS {query}")).await;
    let mut random = Rng::new(3);
    let mut events = |count: usize| {
        let event = |_| {
            let k = random.below(50);
            match random.below(4) {
                0 => format!(r#"{{"k":{k}}}"#),
                1 => format!(r#"{{"x":{},"k":{k},"note":"n","deep":{{"a":[1,2]}}}}"#, random.below(100)),
                _ => format!(r#"{{"k":{k},"x":{},"at":"2026-01-01T00:00:{:02}Z"}}"#, random.below(9), k),
            }
        };
        (0..count).map(event).collect::<Vec<_>>().join("\n")
    };
    for _ in 0..9 {
        append(&engine, "t", &events(5_000), None).await;
    }
    let create = format!("CREATE MATERIALIZED VIEW made WITH (backfill = true) AS {query}");
    sql(&engine, &create).await;
    for round in 0..6 {
        append(&engine, "t", &events(200), None).await;
        if round % 2 == 0 {
            stop(engine, Duration::ZERO).await;
            engine = open(dir.path(), |_| ()).await;
        }
    }
    let all = || ViewRange { limit: u64::MAX, ..ViewRange::default() };
    let made = page(&engine, "made", all()).await;
    assert_eq!(made.reading.position, 9 * 5_000 + 6 * 200);
    assert_eq!(lines(&made.rows), lines(&page(&engine, "live", all()).await.rows));
    let views = engine.views(&Principal::local());
    assert!(views.iter().all(|view| !view.from_table && view.failing.is_none()), "{views:?}");
    stop(engine, Duration::from_secs(5)).await;
}

/// The part of a view that comes from the table may end within a request, which is one batch in the log.
#[tokio::test(flavor = "multi_thread")]
async fn a_view_that_is_stopped_within_a_request_goes_on_within_it() {
    // More than a view has from the log alone, so that it begins in the table.
    const EVENTS: usize = 1_050_000;
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), |_| ()).await;
    sql(&engine, "CREATE STREAM o (k LONG NOT NULL)").await;
    let events: Vec<String> = (0..EVENTS).map(|k| format!("{{\"k\":{k}}}")).collect();
    append(&engine, "o", &events.join("\n"), None).await;
    let query = "COUNT(*) AS n, SUM(k) AS s FROM STREAM(o)";
    sql(&engine, &format!("CREATE MATERIALIZED VIEW v WITH (backfill = true) AS SELECT {query}")).await;
    let position = |engine: &Engine| engine.view(&Principal::local(), "v").unwrap().position;
    while position(&engine) == 0 {
        tokio::task::yield_now().await;
    }
    stop(engine, Duration::from_secs(5)).await;
    let engine = open(dir.path(), |_| ()).await;
    let status = engine.view(&Principal::local(), "v").unwrap();
    assert!((1..EVENTS as u64).contains(&status.committed), "it was stopped within: {status:?}");
    let sum = EVENTS * (EVENTS - 1) / 2;
    assert_eq!(sql(&engine, "SELECT n, s FROM v").await, format!("{{\"n\":{EVENTS},\"s\":{sum}}}\n"));
    stop(engine, Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_view_begins_with_history_without_a_gap_or_a_double() {
    let dir = tempfile::tempdir().unwrap();
    let mut engine = open(dir.path(), |_| ()).await;
    sql(&engine, "CREATE STREAM h (k LONG, x LONG PATH 'a.x' DEFAULT 7, t STRING)").await;
    let mut rng = Rng::new(23);
    let mut event = |extra: bool| {
        let x = if rng.below(5) == 0 { String::new() } else { format!(r#","a":{{"x":{}}}"#, rng.below(50)) };
        let more = if extra { r#","more":{"y":[1,2.5]}"# } else { "" };
        format!(r#"{{"k":{},"t":"t{}"{x}{more}}}"#, rng.below(40), rng.below(9))
    };
    for part in 0..60 {
        let events: Vec<String> = (0..300).map(|_| event(part % 2 == 0)).collect();
        append(&engine, "h", &events.join("\n"), None).await;
    }
    let query =
        "SELECT k, COUNT(*) AS n, SUM(x) AS s, FIRST(t) AS f, LAST(t) AS l, COLLECT_LIST(x, 9999) AS xs";
    let create =
        format!("CREATE MATERIALIZED VIEW v WITH (backfill = true) AS {query} FROM STREAM(h) GROUP BY k");
    sql(&engine, &create).await;
    let table = "SELECT k, count(*) AS n, sum(x) AS s, first_value(t ORDER BY _offset) AS f, \
         last_value(t ORDER BY _offset) AS l, array_agg(x ORDER BY _offset) AS xs FROM h GROUP BY k ORDER BY k";
    // Cut off while it begins, with events that come meanwhile.
    for round in 0..3 {
        for _ in 0..5 {
            append(&engine, "h", &event(true), None).await;
        }
        stop(engine, if round == 1 { Duration::from_secs(5) } else { Duration::ZERO }).await;
        engine = open(dir.path(), |_| ()).await;
    }
    append(&engine, "h", &event(false), None).await;
    let view = sql(&engine, "SELECT k, n, s, f, l, xs FROM v ORDER BY k").await;
    assert_eq!(view, sql(&engine, table).await);
    let status = engine.view(&Principal::local(), "v").unwrap();
    assert_eq!((status.from, status.from_table, status.position), (0, false, 60 * 300 + 16));
    // One that begins now has what came since only.
    sql(&engine, "CREATE MATERIALIZED VIEW w AS SELECT COUNT(*) AS n FROM STREAM(h)").await;
    append(&engine, "h", &event(false), None).await;
    assert_eq!(row(&engine, "w", &[]).await, "{\"n\":1}");
    let of_list = "CREATE STREAM l (x LONG PATH 'a[0]'); \
         CREATE MATERIALIZED VIEW u WITH (backfill = true) AS SELECT COUNT(*) AS n FROM STREAM(l)";
    let error = try_sql(&engine, of_list).await.unwrap_err().to_string();
    assert!(error.contains("column `x` is inside a list"), "{error}");
    stop(engine, Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_gives_rows_elsewhere_is_a_list_in_a_view() {
    let dir = tempfile::tempdir().unwrap();
    let mut engine = open(dir.path(), |_| ()).await;
    sql(&engine, "CREATE STREAM f (o STRING, d STRING, x LONG)").await;
    for query in [
        "best AS SELECT o, TOP(2, d, x) AS best, COUNT(*) AS n FROM STREAM(f) GROUP BY o HAVING SIZEOF(best) > 0",
        "spread AS SELECT o, QUANTILE(x, MANUAL, 0, 0.5) AS q FROM STREAM(f) GROUP BY o",
        "ranges AS SELECT FREQ(x, MANUAL, 5) FROM STREAM(f)",
    ] {
        sql(&engine, &format!("CREATE MATERIALIZED VIEW {query}")).await;
    }
    for round in 0..3 {
        let events = [("b", 1), ("c", 2), ("b", 1), ("b", 9), ("c", 2), ("c", 2)];
        let event = |(d, x)| format!(r#"{{"o":"a","d":"{d}","x":{x}}}"#);
        append(&engine, "f", &events.map(event).join("\n"), None).await;
        let times = round + 1;
        let expected = format!(
            r#"{{"o":"a","best":[{{"d":"c","x":2,"Count":{}}},{{"d":"b","x":1,"Count":{}}}],"n":{}}}"#,
            3 * times,
            2 * times,
            6 * times
        );
        assert_eq!(row(&engine, "best", &["a"]).await, expected);
        assert_eq!(
            sql(&engine, "SELECT o, n FROM best").await,
            format!("{{\"o\":\"a\",\"n\":{}}}\n", 6 * times)
        );
        stop(engine, if round == 1 { Duration::from_secs(5) } else { Duration::ZERO }).await;
        engine = open(dir.path(), |_| ()).await;
    }
    let spread = r#"{"o":"a","q":[{"Quantile":0.0,"Value":1.0},{"Quantile":0.5,"Value":2.0}]}"#;
    assert_eq!(row(&engine, "spread", &["a"]).await, spread);
    // Its rows have one type, so SQL knows it.
    assert_eq!(sql(&engine, "SELECT q[2]['Value'] AS v FROM spread").await, "{\"v\":2.0}\n");
    let ranges = row(&engine, "ranges", &[]).await;
    assert!(ranges.starts_with(r#"{"FREQ(x, MANUAL, 5.0)":[{"Range":"#), "{ranges}");
    assert!(ranges.contains(r#""Count":15.0"#) && ranges.contains(r#""Count":3.0"#), "{ranges}");
    let upper = "CREATE MATERIALIZED VIEW u AS SELECT TOP(2, n) FROM STREAM(best)";
    let error = try_sql(&engine, upper).await.unwrap_err().to_string();
    assert!(error.contains("can retract rows"), "{error}");
    // A list in the view below does not prevent views over it.
    let upper = "CREATE MATERIALIZED VIEW origins AS SELECT COUNT(*) AS n FROM STREAM(spread)";
    sql(&engine, upper).await;
    assert_eq!(row(&engine, "origins", &[]).await, "{\"n\":1}");
    for (query, why) in [
        ("SELECT o AS best, TOP(2, d) AS best FROM STREAM(f) GROUP BY o", "two columns are named `best`"),
        ("SELECT TOP(2, d) AS best, o FROM STREAM(f) GROUP BY 1", "an aggregate is not allowed in GROUP BY"),
        ("SELECT TOP(2, d) AS best, QUANTILE(x, LINEAR, 2) AS q FROM STREAM(f)", "only one of QUANTILE"),
        (
            "SELECT o, d AS Count, TOP(2, o, Count) AS best FROM STREAM(f) GROUP BY o, d",
            "two values of a row",
        ),
        ("SELECT o FROM STREAM(f) WHERE TOP(2, d) IS NOT NULL GROUP BY o", "is not allowed"),
    ] {
        let create = format!("CREATE MATERIALIZED VIEW wrong AS {query}");
        let error = try_sql(&engine, &create).await.unwrap_err().to_string();
        assert!(error.contains(why), "{query}: {error}");
    }
    let sized = "SELECT SIZEOF(TOP(2, d)) AS n, o, TOP(2, d) AS best, TOP(2, d) AS again, x FROM STREAM(f) GROUP BY 2, 5 \
                 HAVING SIZEOF(BEST) > 0";
    sql(&engine, &format!("CREATE MATERIALIZED VIEW sized AS {sized}")).await;
    append(&engine, "f", r#"{"o":"z","d":"y","x":5}"#, None).await;
    let best = r#"[{"d":"y","Count":1}]"#;
    let expected = format!(r#"{{"n":1,"o":"z","best":{best},"again":{best},"x":5}}"#);
    assert_eq!(row(&engine, "sized", &["z", "5"]).await, expected);
    // The document's example, and the row that it shows.
    let document = include_str!("../../../../docs/reference/views.md");
    let section = document.split("### Aggregates with several rows").nth(1).expect("it is documented");
    let example = section.split("```sql\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let shown = section.split("has rows such as `").nth(1).and_then(|rest| rest.split('`').next()).unwrap();
    sql(&engine, SWIPES).await;
    sql(&engine, example).await;
    for direction in ["right", "left", "right"] {
        let event = format!(r#"{{"swiper":2,"swipee":7,"direction":"{direction}"}}"#);
        append(&engine, "swipes", &event, None).await;
    }
    assert_eq!(row(&engine, "favourites", &["2"]).await, shown.replace(": ", ":").replace(", ", ","));
    stop(engine, Duration::ZERO).await;
}

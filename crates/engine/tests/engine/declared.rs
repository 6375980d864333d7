//! Tests that live queries over a declared stream use its declaration: each answers like the same query in SQL over the
//! stored events.

#![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

use std::{sync::Arc, time::Duration};

use serde_json::Value;
use swiftwater_engine::{
    EndReason, Engine, EngineConfig, Principal, QueryForm, RuntimeError, SubmitOptions, Subscription,
};
use swiftwater_event::{StreamName, SystemClock};

use crate::history::{append, open_when_free, quick, sql, stop, until_said};

const FLIGHTS: &str = "CREATE STREAM flights (
  carrier STRING NOT NULL, origin STRING PATH 'route.from', stops LONG PATH 'route.stops',
  seen TIMESTAMP(s) NOT NULL, landed TIMESTAMP, delay INT, n LONG, ratio DOUBLE, ok BOOLEAN, tags LIST[STRING],
  fees MAP[DOUBLE], WATERMARK FOR seen AS seen - INTERVAL '5 seconds')";

/// Events with whole and other numbers in one field, times as numbers and as texts, a field that only looks like a
/// column.
const EVENTS: &str = r#"{"carrier":"AA","route":{"from":"JFK","stops":1},"origin":"nowhere","seen":1700000000,"landed":"2023-11-14T22:13:21.5Z","delay":5,"n":9007199254740993,"ratio":1,"ok":true,"tags":["a","b"],"fees":{"x":1,"y":0.5}}
{"carrier":"BB","route":{"from":"LAX","stops":2.0},"seen":1700000003,"landed":1700000001000,"delay":-5.0,"n":2,"ratio":0.5,"ok":false,"tags":[],"fees":{}}
{"carrier":"CC","route":{},"seen":"2023-11-14T23:13:20+01:00","delay":7,"n":-1,"ratio":1e300,"tags":["b"]}
{"carrier":"AA","seen":1700000011,"ratio":-0.25,"ok":true,"fees":{"x":2}}
{"carrier":"DD","route":{"from":"JFK"},"seen":1700000012,"landed":"2023-11-14T22:13:21.500001Z","n":9007199254740992}"#;

async fn declared(dir: &std::path::Path) -> Engine {
    let config = EngineConfig {
        shards: 2,
        default_stream: Some(StreamName::new("flights").unwrap()),
        ..EngineConfig::default()
    };
    let engine = open_when_free(config, quick(dir), Arc::new(SystemClock::new())).await;
    sql(&engine, FLIGHTS).await;
    engine
}

fn submit(engine: &Engine, text: &str, form: QueryForm) -> Result<Subscription, RuntimeError> {
    engine.submit(&Principal::local(), text, SubmitOptions { form, ..SubmitOptions::default() })
}

/// Ends a query that has seen all, and gives its records.
async fn records(engine: &Engine, mut query: Subscription) -> Vec<Value> {
    let _ = engine.end_query(&Principal::local(), &query.query().id, EndReason::Killed);
    let mut records = Vec::new();
    while let Some(emit) = query.next().await {
        let text = std::str::from_utf8(&emit.records.text).unwrap();
        records.extend(text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()));
    }
    records
}

/// The spelling of numbers and times is no part of an answer.
fn plain(value: &Value) -> Value {
    match value {
        Value::Number(number) if number.is_f64() => number.as_f64().map_or(Value::Null, |number| {
            if number.fract() == 0.0 && number.abs() < 1e15 {
                Value::from(number as i64)
            } else {
                Value::from(number)
            }
        }),
        Value::String(text) if text.contains("T22:13:") => match text.trim_end_matches('Z').split_once('.') {
            Some((seconds, fraction)) => format!("{seconds}.{}", fraction.trim_end_matches('0')).into(),
            None => value.clone(),
        },
        Value::Array(values) => values.iter().map(plain).collect(),
        Value::Object(members) => members.iter().map(|(name, value)| (name.clone(), plain(value))).collect(),
        other => other.clone(),
    }
}

fn sorted(records: impl IntoIterator<Item = Value>) -> Vec<String> {
    let mut lines: Vec<String> = records.into_iter().map(|record| plain(&record).to_string()).collect();
    lines.sort();
    lines
}

#[tokio::test(flavor = "multi_thread")]
async fn live_answer_over_declared_columns_is_that_of_sql() {
    let dir = tempfile::tempdir().unwrap();
    let engine = declared(dir.path()).await;
    // The selected expressions, and the rest except FROM; the same in both languages, or each in its own.
    let both = [
        ("carrier, origin, stops, seen, landed, delay, n, ratio, ok, tags, fees", ""),
        ("carrier, CARRIER AS c, Origin AS o, rAtIo AS r", "WHERE ORIGIN = 'JFK'"),
        ("carrier", "WHERE landed = '2023-11-14T22:13:21.5Z'"),
        ("carrier", "WHERE seen <= '2023-11-14T22:13:23Z' AND delay > 0"),
        ("carrier", "WHERE n = 9007199254740993"),
        ("carrier", "WHERE ok"),
        ("carrier, n + 1 AS more, ratio * 2 AS twice, delay - 1 AS less", "WHERE n < 100"),
        (
            "origin, COUNT(*) AS n, SUM(stops) AS s, MIN(seen) AS first, MAX(landed) AS last",
            "GROUP BY origin",
        ),
        ("carrier, SUM(ratio) AS r, SUM(delay) AS d, AVG(n) AS a, MAX(n) AS m", "GROUP BY carrier"),
        ("seen, COUNT(*) AS n", "GROUP BY seen"),
        ("COUNT(DISTINCT origin) AS o, COUNT(origin) AS c, COUNT(*) AS n", ""),
    ];
    // Places count from 0 in one language and from 1 in the other.
    let apart = [(("carrier, tags[0] AS t", ""), ("carrier, tags[1] AS t", ""))];
    let questions: Vec<_> = both.map(|question| (question, question)).into_iter().chain(apart).collect();
    let live: Vec<Subscription> = questions
        .iter()
        .map(|((select, rest), _)| {
            let text = format!("SELECT {select} FROM STREAM(flights, MAX, TIME) {rest}");
            submit(&engine, &text, QueryForm::Bql).unwrap_or_else(|error| panic!("{text}: {error:?}"))
        })
        .collect();
    let inner = "SELECT origin, carrier FROM (SELECT * FROM STREAM(flights, MAX, TIME) WHERE stops > 0)";
    let inner = submit(&engine, inner, QueryForm::Bql).unwrap();
    let fees = "SELECT fees.x AS x FROM STREAM(flights, MAX, TIME) WHERE fees.x > 0";
    let fees = submit(&engine, fees, QueryForm::Bql).unwrap();
    append(&engine, "flights", EVENTS, None).await;
    engine.drained().await;
    for (query, (_, (select, rest))) in live.into_iter().zip(&questions) {
        let text = format!("SELECT {select} FROM flights {rest}");
        let found = records(&engine, query).await;
        let kept = sql(&engine, &text).await;
        let kept = kept.lines().map(|line| serde_json::from_str(line).unwrap());
        assert_eq!(sorted(found), sorted(kept), "{text}");
    }
    let fees = sorted(records(&engine, fees).await);
    assert_eq!(fees, [r#"{"x":1}"#, r#"{"x":2}"#]);
    let kept = sql(&engine, "SELECT fees['x'] AS x FROM flights WHERE fees['x'] > 0").await;
    assert_eq!(fees, sorted(kept.lines().map(|line| serde_json::from_str(line).unwrap())));
    let found = records(&engine, inner).await;
    assert_eq!(sorted(found), [r#"{"origin":"JFK","carrier":"AA"}"#, r#"{"origin":"LAX","carrier":"BB"}"#]);
    stop(engine, Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn event_alone_goes_by_the_declared_watermark() {
    let dir = tempfile::tempdir().unwrap();
    let engine = declared(dir.path()).await;
    let ask = |window: &str| {
        let text =
            "SELECT carrier, window_start, COUNT(*) AS n FROM STREAM(flights, MAX, TIME) GROUP BY carrier";
        let text = format!("{text} WINDOWING {window}");
        submit(&engine, &text, QueryForm::Bql).unwrap()
    };
    let explicit = "EVENT(seen, INTERVAL '5 seconds')";
    let queries: Vec<(Subscription, Subscription)> =
        ["TUMBLING(2000, {})", "EVERY(2000, {}, LAST, 4000, EVENT)"]
            .iter()
            .map(|window| (ask(&window.replace("{}", "EVENT")), ask(&window.replace("{}", explicit))))
            .collect();
    append(&engine, "flights", EVENTS, None).await;
    engine.drained().await;
    for (bare, explicit) in queries {
        let (bare, explicit) = (records(&engine, bare).await, records(&engine, explicit).await);
        assert_eq!(sorted(bare.clone()), sorted(explicit));
        // 22:13:20, :20 (with a zone), :23, :31, :32.
        let counted: u64 = bare.iter().map(|record| record["n"].as_u64().unwrap()).sum();
        assert!(counted >= 5, "{bare:?}");
    }
    sql(&engine, "CREATE STREAM plain (seen TIMESTAMP)").await;
    let text = "SELECT COUNT(*) AS n FROM STREAM(plain, MAX, TIME) WINDOWING TUMBLING(1000, EVENT)";
    let error = submit(&engine, text, QueryForm::Bql).err().unwrap();
    assert!(format!("{error:?}").contains("the stream declares no WATERMARK"), "{error:?}");
    stop(engine, Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_type_has_not_is_a_fault_of_the_query() {
    let dir = tempfile::tempdir().unwrap();
    let engine = declared(dir.path()).await;
    for text in [
        "SELECT carrier.x FROM STREAM(flights, MAX, TIME)",
        "SELECT carrier FROM STREAM(flights, MAX, TIME) WHERE tags.x = 1",
        "SELECT COUNT(*) AS n FROM STREAM(flights, MAX, TIME) WINDOWING TUMBLING(1000, EVENT(ok))",
    ] {
        let error = submit(&engine, text, QueryForm::Bql).err().unwrap_or_else(|| panic!("{text} is taken"));
        assert!(matches!(error, RuntimeError::Query(_)), "{text}: {error:?}");
        // Over another stream nothing is known, and what cannot be is null.
        let other = text.replace("flights", "others");
        assert!(submit(&engine, &other, QueryForm::Bql).is_ok(), "{other}");
    }
    // Bullet's older form goes to the default stream, and knows it as well.
    let form = r#"{"filters": [{"field": "origin", "operation": "==", "values": ["JFK"]}],
                   "projection": {"fields": {"carrier": "carrier", "origin": "origin"}}, "aggregation": {"type": "RAW", "size": 9}}"#;
    let query = submit(&engine, form, QueryForm::Json).unwrap();
    append(&engine, "flights", EVENTS, None).await;
    engine.drained().await;
    assert_eq!(
        sorted(records(&engine, query).await),
        [r#"{"carrier":"AA","origin":"JFK"}"#, r#"{"carrier":"DD","origin":"JFK"}"#]
    );
    // A query goes by what was declared when it was asked.
    let before =
        submit(&engine, "SELECT carrier, late FROM STREAM(flights, MAX, TIME)", QueryForm::Bql).unwrap();
    sql(&engine, "ALTER STREAM flights ADD COLUMN late LONG PATH 'more.late'").await;
    let after =
        submit(&engine, "SELECT carrier, late FROM STREAM(flights, MAX, TIME)", QueryForm::Bql).unwrap();
    append(&engine, "flights", r#"{"carrier":"EE","seen":1700000020,"more":{"late":3}}"#, None).await;
    engine.drained().await;
    assert_eq!(sorted(records(&engine, before).await), [r#"{"carrier":"EE","late":null}"#]);
    assert_eq!(sorted(records(&engine, after).await), [r#"{"carrier":"EE","late":3}"#]);
    stop(engine, Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_far_in_the_future_makes_no_later_one_late() {
    let dir = tempfile::tempdir().unwrap();
    let engine = declared(dir.path()).await;
    sql(&engine, "CREATE STREAM bounded (ts LONG, WATERMARK FOR ts AS ts)").await;
    sql(&engine, "CREATE STREAM free (ts LONG, WATERMARK FOR ts AS ts MAX AHEAD NONE)").await;
    // The second is of 2100.
    let events = "{\"ts\":500}\n{\"ts\":4102444800000}\n{\"ts\":700}\n{\"ts\":1600}";
    // The number of events of each window; the events that are late, and ahead.
    for (stream, windows, late, ahead) in [("bounded", vec![2, 1], 0, 1), ("free", vec![1, 1], 2, 0)] {
        for text in [
            "COUNT(*) AS n FROM STREAM({})",
            "ts FROM STREAM({})",
            "COUNT(*) AS n FROM STREAM({}) GROUP BY ()",
        ] {
            let text = format!("SELECT {} WINDOWING TUMBLING(1000, EVENT)", text.replace("{}", stream));
            let mut query = submit(&engine, &text, QueryForm::default()).unwrap();
            append(&engine, stream, events, None).await;
            let _ = engine.end_query(&Principal::local(), &query.query().id, EndReason::Killed);
            let (mut found, mut counts) = (Vec::new(), None);
            while let Some(emit) = query.next().await {
                for line in std::str::from_utf8(&emit.records.text).unwrap().lines() {
                    let record: Value = serde_json::from_str(line).unwrap();
                    found.push(record["n"].as_i64().unwrap_or(1));
                }
                counts = Some(emit.meta.counts);
            }
            let counts = counts.unwrap();
            assert_eq!(found.iter().sum::<i64>(), windows.iter().sum::<i64>(), "{text}");
            if text.contains("COUNT") {
                assert_eq!(found, windows, "{text}");
            }
            assert_eq!((counts.late, counts.ahead, counts.mistyped), (late, ahead, 0), "{text}");
        }
    }
    let shown = sql(&engine, "SHOW CREATE STREAM bounded").await;
    assert!(shown.contains("WATERMARK FOR ts AS ts MAX AHEAD INTERVAL '1 hour'"), "{shown}");
    stop(engine, Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn views_and_joins_leave_out_and_count_events_ahead_of_their_time() {
    let dir = tempfile::tempdir().unwrap();
    let engine = declared(dir.path()).await;
    for text in [
        "CREATE STREAM s (id LONG, ts LONG, WATERMARK FOR ts AS ts)",
        "CREATE STREAM twos (a LONG, b LONG)",
        "CREATE MATERIALIZED VIEW v AS SELECT COUNT(*) AS n, window_start FROM STREAM(s) GROUP BY window_start \
         WINDOWING TUMBLING(1000, EVENT)",
        "CREATE JOIN j INTO twos AS SELECT x.id AS a, y.id AS b FROM STREAM(s) x JOIN STREAM(s) y \
         ON x.id = y.id AND y.ts BETWEEN x.ts AND x.ts + INTERVAL '1 s'",
    ] {
        sql(&engine, text).await;
    }
    let events = "{\"id\":1,\"ts\":500}\n{\"id\":2,\"ts\":4102444800000}\n{\"id\":3,\"ts\":700}";
    append(&engine, "s", events, None).await;
    until_said(&engine, "SELECT a, b FROM twos ORDER BY a", "{\"a\":1,\"b\":1}\n{\"a\":3,\"b\":3}\n").await;
    assert_eq!(sql(&engine, "SELECT n FROM v").await, "{\"n\":2}\n");
    let shown: Value = serde_json::from_str(&sql(&engine, "SHOW VIEWS").await).unwrap();
    assert_eq!((&shown["late"], &shown["ahead"]), (&0.into(), &1.into()), "{shown}");
    let shown: Value = serde_json::from_str(&sql(&engine, "SHOW JOINS").await).unwrap();
    assert_eq!((&shown["late"], &shown["ahead"]), (&0.into(), &2.into()), "{shown}");
    stop(engine, Duration::from_secs(5)).await;
}

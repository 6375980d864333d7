//! Tests written keys of views: by themselves, and as bounds of ranges.

#![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

use std::time::Duration;

use swiftwater_engine::{Engine, EngineError, KeyValue, Principal, ViewRange, Wanted};

use crate::{
    history::{append, sql, stop},
    views::{lines, open, page, row},
};

/// The column `k` of the rows of a range, a row a page; they are the same at once.
async fn keys_in(engine: &Engine, view: &str, range: &ViewRange) -> Vec<String> {
    let k = |row: &String| serde_json::from_str::<serde_json::Value>(row).unwrap()["k"].to_string();
    let (mut keys, mut after) = (Vec::new(), None);
    loop {
        let page = page(engine, view, ViewRange { limit: 1, after, ..range.clone() }).await;
        keys.extend(lines(&page.rows).iter().map(k));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    let whole = page(engine, view, ViewRange { limit: 99, ..range.clone() }).await;
    assert_eq!(lines(&whole.rows).iter().map(k).collect::<Vec<_>>(), keys, "{range:?}");
    keys
}

fn from(value: KeyValue) -> ViewRange {
    ViewRange { from: Some(vec![value]), ..ViewRange::default() }
}

fn to(value: KeyValue) -> ViewRange {
    ViewRange { to: Some(vec![value]), ..ViewRange::default() }
}

fn prefix(value: KeyValue) -> ViewRange {
    ViewRange { prefix: Some(vec![value]), ..ViewRange::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_range_is_of_all_that_its_bounds_may_be() {
    const DAY: &str = "2026-01-02T00:00:00Z";
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), |_| ()).await;
    sql(&engine, "CREATE STREAM t WITH (store = true)").await;
    sql(&engine, "CREATE MATERIALIZED VIEW v AS SELECT k, COUNT(*) AS n FROM STREAM(t) GROUP BY k").await;
    let keys = [
        "null",
        "true",
        "5",
        "12",
        "100",
        r#""5""#,
        r#""12""#,
        r#""100""#,
        r#""x""#,
        "\"2026-01-02T00:00:00Z\"",
    ];
    append(&engine, "t", &keys.map(|k| format!(r#"{{"k":{k}}}"#)).join("\n"), None).await;
    let written = |text: &str| KeyValue::Written(text.to_owned());
    let json = |text: &str| KeyValue::Json(text.to_owned());
    let (day, of_day) = (format!("\"{DAY}\""), KeyValue::Json(format!("\"{DAY}\"")));
    let both = ViewRange { to: Some(vec![written("5")]), ..from(written("12")) };
    let (one, other, last) = (r#""100""#, r#""12""#, [&*day, r#""5""#, r#""x""#]);
    for (range, expected) in [
        (from(written("12")), [&["12", "100", other][..], &last].concat()),
        (from(json("12")), [&["12", "100", one, other][..], &last].concat()),
        (from(of_day.clone()), last.to_vec()),
        (to(written("12")), vec!["null", "true", "5", one]),
        (both, vec![other, &*day]),
        (prefix(written("12")), vec!["12", other]),
        (prefix(json(r#""12""#)), vec![other]),
        (prefix(written(DAY)), vec![&*day]),
    ] {
        assert_eq!(keys_in(&engine, "v", &range).await, expected, "{range:?}");
    }
    // If all keys are of one kind, the kind is that one.
    sql(&engine, "CREATE STREAM s (seen TIMESTAMP, code STRING)").await;
    for (view, column) in [("days", "seen"), ("codes", "code")] {
        let select = format!("SELECT {column} AS k, COUNT(*) AS n FROM STREAM(s) GROUP BY {column}");
        sql(&engine, &format!("CREATE MATERIALIZED VIEW {view} AS {select}")).await;
    }
    let events = [("01", "007"), ("02", "12"), ("03", "5")]
        .map(|(day, code)| format!(r#"{{"seen":"2026-01-{day}T00:00:00Z","code":"{code}"}}"#));
    append(&engine, "s", &events.join("\n"), None).await;
    let days = ["01", "02", "03"].map(|day| format!("\"2026-01-{day}T00:00:00.000Z\""));
    for value in [written(DAY), of_day, KeyValue::Text(DAY.to_owned())] {
        assert_eq!(keys_in(&engine, "days", &from(value.clone())).await, days[1..]);
        assert_eq!(keys_in(&engine, "days", &to(value.clone())).await, days[..1]);
        assert_eq!(keys_in(&engine, "days", &prefix(value)).await, days[1..2]);
    }
    assert_eq!(keys_in(&engine, "codes", &from(written("12"))).await, [r#""12""#, r#""5""#]);
    assert_eq!(keys_in(&engine, "codes", &to(written("12"))).await, [r#""007""#]);
    assert_eq!(keys_in(&engine, "codes", &prefix(written("007"))).await, [r#""007""#]);
    stop(engine, Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_range_that_may_begin_at_too_many_keys_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), |_| ()).await;
    sql(&engine, "CREATE STREAM t WITH (store = true)").await;
    let select = "SELECT a, b, c, d, e, f, g, COUNT(*) AS n FROM STREAM(t) GROUP BY a, b, c, d, e, f, g";
    sql(&engine, &format!("CREATE MATERIALIZED VIEW v AS {select}")).await;
    let times = vec![KeyValue::Text("2026-01-02T00:00:00Z".to_owned()); 7];
    let range = ViewRange { from: Some(times), limit: 9, ..ViewRange::default() };
    let error = engine.view_rows(&Principal::local(), "v", &range, Wanted::AsItIs).await.unwrap_err();
    assert_eq!(error, EngineError::KeyMeanings { view: "v".to_owned(), most: 64 });
    stop(engine, Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_that_a_written_key_may_be_is_looked_for_or_it_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), |_| ()).await;
    sql(&engine, "CREATE STREAM t WITH (store = true)").await;
    for (view, columns) in [("twelve", 12), ("thirteen", 13)] {
        let keys: Vec<String> = (0..columns).map(|place| format!("c{place}")).collect();
        let keys = keys.join(", ");
        let create = format!(
            "CREATE MATERIALIZED VIEW {view} AS SELECT {keys}, COUNT(*) AS n FROM STREAM(t) GROUP BY {keys}"
        );
        sql(&engine, &create).await;
    }
    // The last of all that it may be: each number is a text.
    let fields: Vec<String> = (0..13).map(|place| format!(r#""c{place}":"{place}""#)).collect();
    append(&engine, "t", &format!("{{{}}}", fields.join(",")), None).await;
    let written: Vec<String> = (0..13).map(|place| place.to_string()).collect();
    let written: Vec<&str> = written.iter().map(String::as_str).collect();
    assert!(row(&engine, "twelve", &written[..12]).await.ends_with(r#""n":1}"#));
    let key: Vec<KeyValue> = written.iter().map(|value| KeyValue::Written((*value).to_owned())).collect();
    let error = engine.view_row(&Principal::local(), "thirteen", &key, Wanted::AsItIs).await.unwrap_err();
    assert_eq!(error, EngineError::KeyMeanings { view: "thirteen".to_owned(), most: 4096 });
    let key: Vec<KeyValue> = written.iter().map(|value| KeyValue::Text((*value).to_owned())).collect();
    let (row, _) = engine.view_row(&Principal::local(), "thirteen", &key, Wanted::AsItIs).await.unwrap();
    assert!(row.is_some());
    stop(engine, Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_read_as_rows_show_it() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path(), |_| ()).await;
    sql(&engine, "CREATE STREAM s (x DOUBLE, l LIST[DOUBLE], t LIST[TIMESTAMP], m JSON)").await;
    for column in ["x", "l", "t", "m"] {
        let select = format!("SELECT {column}, COUNT(*) AS n FROM STREAM(s) GROUP BY {column}");
        sql(&engine, &format!("CREATE MATERIALIZED VIEW by_{column} AS {select}")).await;
    }
    let events = [
        r#"{"x":"NaN","l":[1.5,"NaN"],"t":["2026-01-02T00:00:00Z"],"m":{"a":[1,"x"],"b":null}}"#,
        r#"{"x":"Infinity","l":[],"t":[],"m":["NaN","2026-01-02T00:00:00Z"]}"#,
        r#"{"x":"-Infinity","m":[]}"#,
    ];
    append(&engine, "s", &events.join("\n"), None).await;
    for (view, key, expected) in [
        ("by_x", "NaN", r#"{"x":"NaN","n":1}"#),
        ("by_x", "Infinity", r#"{"x":"Infinity","n":1}"#),
        ("by_x", "-Infinity", r#"{"x":"-Infinity","n":1}"#),
        ("by_x", "nan", ""),
        ("by_x", "\"NaN\"", ""),
        ("by_l", r#"[1.5,"NaN"]"#, r#"{"l":[1.5,"NaN"],"n":1}"#),
        ("by_l", "[]", r#"{"l":[],"n":1}"#),
        ("by_l", "[1.5]", ""),
        ("by_t", r#"["2026-01-02T01:00:00+01:00"]"#, r#"{"t":["2026-01-02T00:00:00.000Z"],"n":1}"#),
        ("by_m", r#"{"b":null, "a":[1.0,"x"]}"#, r#"{"m":{"a":[1,"x"],"b":null},"n":1}"#),
        ("by_m", r#"["NaN","2026-01-02T00:00:00Z"]"#, r#"{"m":["NaN","2026-01-02T00:00:00Z"],"n":1}"#),
        ("by_m", "{", ""),
    ] {
        assert_eq!(row(&engine, view, &[key]).await, expected, "{view} {key}");
    }
    for (view, json) in [("by_x", "\"NaN\""), ("by_l", r#"[1.5,"NaN"]"#), ("by_m", "[]")] {
        let key = [KeyValue::Json(json.to_owned())];
        let (row, _) = engine.view_row(&Principal::local(), view, &key, Wanted::AsItIs).await.unwrap();
        assert!(row.is_some(), "{view} {json}");
        let [value] = key;
        let range = ViewRange { limit: 9, ..prefix(value) };
        assert_eq!(page(&engine, view, range).await.count, 1, "{view} {json}");
    }
    stop(engine, Duration::ZERO).await;
}

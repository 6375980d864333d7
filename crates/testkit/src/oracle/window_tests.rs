//! Tests the oracle against emits, tables and lateral views computed by hand, over plans.

use swiftwater_event::{Path, Type};
use swiftwater_lang::{
    ParseOptions, parse,
    plan::{DistributionPoints, LateralView, TableAggregate, TableFunction, WindowClock, WindowContents},
};

use super::{table::table, *};

fn query(text: &str) -> Query {
    match parse(text, &ParseOptions::new(Dialect::Native, 0)) {
        Ok(statement) => statement.query,
        Err(errors) => panic!("{errors}"),
    }
}

fn path(name: &str) -> Expr {
    Expr::Path { path: Path::field(name), ty: Type::Any }
}

/// Emits of `SELECT k, COUNT(*) … GROUP BY k` over events `(arrival, ts, k)`, as `start..end k×n …`.
fn emitted(window: Window, life: QueryLifetime, events: &[(i64, i64, &str)]) -> (Vec<String>, u64) {
    let mut query = query("SELECT k, COUNT(*) AS n FROM STREAM() GROUP BY k");
    query.window = window;
    let events: Vec<(i64, Json)> =
        events.iter().map(|(at, ts, k)| (*at, serde_json::json!({"ts": ts, "k": k}))).collect();
    let found = emits(&query, life, &events).unwrap();
    let shown = found.emits.iter().map(|emit| {
        let (start, end) = emit.window.unwrap();
        let rows = emit.answer.records();
        let rows: Vec<String> =
            rows.iter().map(|row| format!("{}×{}", row["k"].as_str().unwrap(), row["n"])).collect();
        format!("{start}..{end} {}", rows.join(" "))
    });
    (shown.collect(), found.late)
}

fn by_arrival(every_ms: u64, take: WindowContents) -> Window {
    Window::Time { every_ms, take, clock: WindowClock::Arrival }
}

fn by_event(lateness_ms: u64) -> WindowClock {
    WindowClock::Event { time: path("ts"), lateness_ms, max_ahead_ms: None, idle_after_ms: None }
}

const LIFE: QueryLifetime = QueryLifetime { start: 100, end: 125, emits_empty: true };

#[test]
fn windows_by_arrival() {
    let events = [(100, 0, "a"), (104, 0, "b"), (109, 0, "a"), (121, 0, "b")];
    let (emits, _) = emitted(by_arrival(10, WindowContents::First(10)), LIFE, &events);
    assert_eq!(emits, ["100..110 a×2 b×1", "110..120 ", "120..125 b×1"]);
    let (emits, _) = emitted(by_arrival(10, WindowContents::First(5)), LIFE, &events);
    assert_eq!(emits, ["100..105 a×1 b×1", "110..115 ", "120..125 b×1"]);
    let (emits, _) = emitted(by_arrival(10, WindowContents::Last(12)), LIFE, &events);
    assert_eq!(emits, ["100..110 a×2 b×1", "108..120 a×1", "118..125 b×1"]);
    let (emits, _) = emitted(by_arrival(10, WindowContents::All), LIFE, &events);
    assert_eq!(emits, ["100..110 a×2 b×1", "100..120 a×2 b×1", "100..125 a×2 b×2"]);
    let seldom = QueryLifetime { emits_empty: false, ..LIFE };
    let (emits, _) = emitted(by_arrival(10, WindowContents::First(10)), seldom, &events);
    assert_eq!(emits, ["100..110 a×2 b×1", "120..125 b×1"]);
    let (emits, _) =
        emitted(by_arrival(10, WindowContents::First(10)), QueryLifetime { end: 120, ..LIFE }, &events[..3]);
    assert_eq!(emits, ["100..110 a×2 b×1", "110..120 "]);
}

#[test]
fn windows_by_record() {
    let events = [(1, 0, "a"), (2, 0, "a"), (3, 0, "b"), (4, 0, "b"), (5, 0, "c")];
    let records = |take| Window::Records { every: 2, take };
    assert_eq!(
        emitted(records(WindowContents::First(2)), LIFE, &events).0,
        ["1..2 a×2", "3..4 b×2", "5..5 c×1"]
    );
    assert_eq!(
        emitted(records(WindowContents::Last(3)), LIFE, &events).0,
        ["1..2 a×2", "2..4 a×1 b×2", "4..5 b×1 c×1"]
    );
}

#[test]
fn late_events_are_those_whose_windows_are_closed() {
    let window = Window::Time { every_ms: 10, take: WindowContents::First(10), clock: by_event(5) };
    let events = [(0, 3, "a"), (0, 14, "b"), (0, 9, "c"), (0, 15, "d"), (0, 9, "e"), (0, 10, "f")];
    let (emits, late) = emitted(window, LIFE, &events);
    assert_eq!(emits, ["0..10 a×1 c×1", "10..20 b×1 d×1 f×1"]);
    assert_eq!(late, 1);
}

#[test]
fn sessions_end_with_a_gap() {
    let window = Window::Session { gap_ms: 10, clock: WindowClock::Arrival };
    let events = [(0, 0, "a"), (5, 0, "b"), (9, 0, "a"), (19, 0, "a"), (25, 0, "c")];
    let (emits, _) = emitted(window, QueryLifetime { end: 34, ..LIFE }, &events);
    assert_eq!(emits, ["5..15 b×1", "0..19 a×2", "19..29 a×1", "25..34 c×1"]);
}

#[test]
fn rows_of_lateral_views() {
    let mut query = query("SELECT a FROM STREAM()");
    let view = |expr, is_outer, columns: &[&str]| LateralView {
        expr,
        is_outer,
        columns: columns.iter().map(|column| (*column).into()).collect(),
        join: None,
    };
    query.views = vec![view(path("l"), false, &["e"]), view(Expr::Slot(0), true, &["k", "v"])];
    let Body::Raw(raw) = &mut query.body else { panic!("it is RAW") };
    raw.columns[0].expr = Expr::Call {
        function: swiftwater_lang::plan::Function::List,
        args: (0..3).map(Expr::Slot).collect(),
    };
    let events = read(&[r#"{"l":[1,{"x":2,"y":null},{}]}"#, r#"{"l":[]}"#, r#"{"l":{"a":1}}"#]);
    let rows = answer(&query, &events).unwrap().records();
    let rows: Vec<String> = rows.iter().map(|row| row["a"].to_string()).collect();
    assert_eq!(
        rows,
        ["[1,null,null]", r#"[{"x":2,"y":null},"x",2]"#, r#"[{"x":2,"y":null},"y",null]"#, "[{},null,null]"]
    );
}

fn of_table(function: TableFunction, values: &str) -> String {
    let values: Vec<Json> = serde_json::from_str(values).unwrap();
    let rows: Vec<Vec<Value>> = values.iter().map(|value| vec![Value::of(value)]).collect();
    let aggregate = TableAggregate { function, arguments: vec![path("a")], listed: Vec::new() };
    let rows: Vec<Json> =
        table(&aggregate, &rows).rows.into_iter().map(|row| Value::List(row).to_json()).collect();
    Json::Array(rows).to_string()
}

#[test]
fn distributions() {
    let ten = "[1, 5, 3, 9, 7, 2, 8, 4, 6, 10, null, \"x\"]";
    assert_eq!(
        of_table(TableFunction::Quantile(DistributionPoints::Linear(3)), ten),
        "[[0.0,1.0],[0.5,6.0],[1.0,10.0]]"
    );
    assert_eq!(
        of_table(TableFunction::Quantile(DistributionPoints::Manual(vec![0.0, 0.3, 1.0])), "[]"),
        r#"[[0.0,"Infinity"],[0.3,"NaN"],[1.0,"-Infinity"]]"#
    );
    assert_eq!(
        of_table(TableFunction::CumulativeFrequency(DistributionPoints::Linear(5)), ten),
        r#"[["(-∞ to 1.0)",0.0,0.0],["(-∞ to 3.25)",0.3,3.0],["(-∞ to 5.5)",0.5,5.0],["(-∞ to 7.75)",0.7,7.0],["(-∞ to 10.0)",0.9,9.0],["(-∞ to +∞)",1.0,10.0]]"#
    );
    let region = DistributionPoints::Region { start: 2.0, end: 8.0, increment: 3.0 };
    assert_eq!(
        of_table(TableFunction::Frequency(region), ten),
        r#"[["(-∞ to 2.0)",0.1,1.0],["[2.0 to 5.0)",0.3,3.0],["[5.0 to 8.0)",0.3,3.0],["[8.0 to +∞)",0.3,3.0]]"#
    );
}

#[test]
fn most_frequent_first() {
    let top = |count, threshold| TableFunction::Top { count, threshold };
    let values = r#"["a", 1, "b", 1.0, "b", null, "c"]"#;
    assert_eq!(of_table(top(2, None), values), r#"[[1,2],["b",2]]"#);
    assert_eq!(of_table(top(0, Some(2)), values), r#"[[1,2],["b",2]]"#);
}

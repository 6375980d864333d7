//! Tests which events contain more than the wanted fields.

#![allow(clippy::unwrap_used, missing_docs, reason = "tests")]

use bytes::Bytes;
use proptest::prelude::*;
use swiftwater_event::{CheckLimits, DecodePlan, Decoder, Path, Type, Want, check_block};

fn with_more(events: &[String], wants: &[&str]) -> Vec<bool> {
    let text = events.join("\n");
    let batch = check_block(Bytes::from(text.into_bytes()), &CheckLimits::default(), 1).batch;
    assert_eq!(batch.len(), events.len());
    let wants = wants.iter().map(|path| Want { path: Path::parse(path).unwrap(), ty: Type::Any });
    let plan = DecodePlan::new(wants.chain([Want { path: Path::field("a"), ty: Type::STRING }]));
    let (decoded, more) = Decoder::new().decode_whole(&batch, &plan);
    assert_eq!(decoded.rows, events.len());
    (0..events.len()).map(|row| more.as_ref().is_some_and(|more| more.value(row))).collect()
}

#[test]
fn other_fields_and_fields_that_come_twice_are_more() {
    fn check(event: &str, expected: bool) {
        // Beside others, so that blocks hold parts of several events.
        let events = vec![r#"{"a":1}"#.to_owned(), event.to_owned(), r#"{"b":{"x":2}}"#.to_owned()];
        assert_eq!(with_more(&events, &["a", "b", "c.d"]), [false, expected, false], "{event}");
    }
    check("{}", false);
    check(r#"{"a":null}"#, false);
    check(r#"{"b":[{"a":1,"z":2}], "a" : "x:{\":"}"#, false);
    check(r#"{"\u0061":1}"#, false);
    check(r#"{"z":1}"#, true);
    check(r#"{"z":null}"#, true);
    check(r#"{"a":1,"z":1}"#, true);
    check(r#"{"a":1,"a":2}"#, true);
    check(r#"{"a":1,"\u0061":2}"#, true);
    check(r#"{"A":1}"#, true);
    // Only a part of `c` is wanted.
    check(r#"{"c":{"d":1}}"#, true);
    check(&format!(r#"{{"a":"{}"}}"#, "x".repeat(300)), false);
    check(&format!(r#"{{"{}":1}}"#, "x".repeat(300)), true);
}

#[test]
fn key_that_comes_twice_within_a_map_is_more() {
    let events = [
        r#"{"m":{"k":1,"l":2}}"#,
        r#"{"m":{"k":1,"k":2}}"#,
        r#"{"m":{"k":1,"\u006b":1},"j":null}"#,
        r#"{"l":[{"k":1},{"k":1}]}"#,
        r#"{"l":[{"k":1},{"a":1,"k":1,"b":2,"k":3}]}"#,
        // A value other than a map keeps its text.
        r#"{"j":{"k":1,"k":2}}"#,
        r#"{"m":null}"#,
    ];
    let batch = check_block(Bytes::from(events.join("\n").into_bytes()), &CheckLimits::default(), 1).batch;
    assert_eq!(batch.len(), events.len());
    let want = |name: &str, ty: Type| Want { path: Path::field(name), ty };
    let map = Type::map(Type::LONG).unwrap();
    let plan =
        DecodePlan::new([want("m", map.clone()), want("l", Type::list(map).unwrap()), want("j", Type::Any)]);
    let mut decoder = Decoder::new();
    for rows in [vec![0, 1, 2, 3, 4, 5, 6], vec![0, 2, 4, 6]] {
        let (_, more) = decoder.decode_whole(&batch.select(&rows), &plan);
        let more = more.unwrap();
        let found: Vec<u32> = more.set_indices().map(|place| rows[place]).collect();
        let expected: Vec<u32> = rows.iter().copied().filter(|row| matches!(row, 1 | 2 | 4)).collect();
        assert_eq!(found, expected);
    }
    assert!(decoder.decode_whole(&batch.select(&[0, 3, 5, 6]), &plan).1.is_none());
}

proptest! {
    #[test]
    fn more_is_what_a_naive_count_says(
        events in prop::collection::vec(prop::collection::vec(("[abz]|\\\\u0061|[a-z]{20,80}", "1|\"[:,{}]*\"|\\{\"a\":1\\}|null|\\[ ?\\]"), 0..6), 1..20)
    ) {
        let texts: Vec<String> = events.iter().map(|fields| {
            let fields: Vec<String> = fields.iter().map(|(key, value)| format!("\"{key}\":{value}")).collect();
            format!("{{{}}}", fields.join(","))
        }).collect();
        let expected: Vec<bool> = events.iter().map(|fields| {
            let mut seen = std::collections::HashSet::new();
            fields.iter().any(|(key, _)| {
                let key = if key.starts_with('\\') { "a" } else { key.as_str() };
                !matches!(key, "a" | "b") || !seen.insert(key)
            })
        }).collect();
        prop_assert_eq!(with_more(&texts, &["a", "b"]), expected);
    }
}

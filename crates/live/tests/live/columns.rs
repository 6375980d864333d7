//! Tests of columns: which events fit declared columns, which columns are inferred from events, and what is stored of
//! each event.

#![allow(clippy::unwrap_used, missing_docs, reason = "tests")]

use std::sync::Arc;

use crate::support::batch_of;
use arrow_array::{Array, ArrayRef, cast::AsArray};
use arrow_buffer::BooleanBuffer;
use arrow_schema::DataType;
use proptest::prelude::*;
use swiftwater_event::EventBatch;
use swiftwater_lang::{Dialect, ParseOptions, ddl::Ddl, parse_ddl};
use swiftwater_live::columns::{
    ColumnsScratch, InferredColumn, InferredColumns, StreamColumns, arrow_type, event_texts,
};

fn declared(items: &str) -> StreamColumns {
    let text = format!("CREATE STREAM s {items}");
    match parse_ddl(&text, &ParseOptions::new(Dialect::Native, 0)) {
        Ok(Some(Ddl::CreateStream(stream))) => StreamColumns::new(&stream).unwrap(),
        other => panic!("{text}: {other:?}"),
    }
}

/// One value as text.
fn shown(column: &dyn Array, row: usize) -> String {
    use arrow_array::types::*;
    if column.is_null(row) {
        return "null".to_owned();
    }
    match column.data_type() {
        DataType::Boolean => column.as_boolean().value(row).to_string(),
        DataType::Int32 => column.as_primitive::<Int32Type>().value(row).to_string(),
        DataType::Int64 => column.as_primitive::<Int64Type>().value(row).to_string(),
        DataType::Float32 => format!("{:?}", column.as_primitive::<Float32Type>().value(row)),
        DataType::Float64 => format!("{:?}", column.as_primitive::<Float64Type>().value(row)),
        DataType::Utf8View => column.as_string_view().value(row).to_owned(),
        DataType::Timestamp(_, Some(zone)) if **zone == *"UTC" => {
            format!("{}us", column.as_primitive::<TimestampMicrosecondType>().value(row))
        }
        DataType::List(_) => {
            let parts = column.as_list::<i32>().value(row);
            format!("[{}]", (0..parts.len()).map(|part| shown(&parts, part)).collect::<Vec<_>>().join(","))
        }
        DataType::Map(..) => {
            let entries = column.as_map().value(row);
            let part = |part: usize| {
                format!("{}:{}", shown(entries.column(0), part), shown(entries.column(1), part))
            };
            format!("{{{}}}", (0..entries.len()).map(part).collect::<Vec<_>>().join(","))
        }
        other => panic!("{other}"),
    }
}

fn rows(columns: &[ArrayRef], events: &EventBatch, needed: Option<&BooleanBuffer>) -> Vec<String> {
    let texts = event_texts(events, needed);
    (0..events.len())
        .map(|row| {
            let values: Vec<_> = columns.iter().map(|column| shown(column, row)).collect();
            let text = if texts.is_null(row) { String::new() } else { format!(" + {}", texts.value(row)) };
            format!("{}{text}", values.join(" | "))
        })
        .collect()
}

/// The good events' columns, with their text where that is needed, and what is wrong with the others.
fn accepted(columns: &StreamColumns, events: &[&str]) -> Vec<String> {
    let events: Vec<String> = events.iter().map(|event| (*event).to_owned()).collect();
    let batch = batch_of(&events);
    let accepted = columns.accept(&batch, 1_700_000_000_000, &mut ColumnsScratch::default());
    for (array, (name, ty)) in accepted.columns.iter().zip(columns.columns()) {
        assert_eq!(*array.data_type(), arrow_type(ty), "{name}");
        assert_eq!(array.len(), accepted.good.len(), "{name}");
    }
    assert_eq!(accepted.good.len() + accepted.rejected.len(), events.len());
    let mut shown = rows(&accepted.columns, &accepted.good, accepted.text_needed.as_ref());
    for bad in accepted.rejected {
        shown.insert(bad.row as usize, format!("{} at `{}`: {}", bad.row, bad.path, bad.message));
    }
    shown
}

#[test]
fn values_have_their_types() {
    let columns = declared(
        "(b BOOL, i INT, l BIGINT, f REAL, d DOUBLE, s TEXT, t TIMESTAMP(s), n LIST[INTEGER], m MAP[TIMESTAMP], j JSON, \
          p LONG PATH 'j.x[1]')",
    );
    let event = r#"{"b":true,"i":5,"l":5e3,"f":0.5,"d":1e300,"s":"a\nb","t":1.0,"n":[1,null],"m":{"k":2},"j":{"x":[1,7] }}"#;
    assert_eq!(
        accepted(&columns, &[event, "{}", r#"{"j":"é\"","t":"1970-01-01T00:00:02.5Z"}"#, r#"{"j":1.0}"#]),
        [
            "true | 5 | 5000 | 0.5 | 1e300 | a\nb | 1000000us | [1,null] | {k:2000us} | {\"x\":[1,7] } | 7",
            "null | null | null | null | null | null | null | null | null | null | null",
            "null | null | null | null | null | null | 2500000us | null | null | \"é\\\"\" | null",
            "null | null | null | null | null | null | null | null | null | 1.0 | null",
        ]
    );
}

#[test]
fn events_that_do_not_fit_are_told_why() {
    let columns = declared(
        "(age INT NOT NULL, name TEXT, at TIMESTAMP PATH 'x.at', tags LIST[LONG], deep LONG PATH 'a.b' NOT NULL)",
    );
    assert_eq!(
        accepted(
            &columns,
            &[
                r#"{"age":1,"a":{"b":1}}"#,
                r#"{"age":"1","a":{"b":1}}"#,
                r#"{"age":3000000000,"a":{"b":1}}"#,
                r#"{"age":1.5,"name":5,"a":{"b":1}}"#,
                r#"{"name":[],"a":{"b":1}}"#,
                r#"{"age":null,"a":{"b":1}}"#,
                r#"{"age":1,"name":{},"a":{"b":1}}"#,
                r#"{"age":1,"x":{"at":"noon"},"a":{"b":1}}"#,
                r#"{"age":1,"tags":[1,"2"],"a":{"b":1}}"#,
                r#"{"age":2,"a":{"b":2}}"#,
                r#"{"age":2,"a":5}"#,
            ]
        ),
        [
            "1 | null | null | null | 1 + {\"age\":1,\"a\":{\"b\":1}}",
            "1 at `age`: column `age`: expected INTEGER, found text",
            "2 at `age`: column `age`: expected INTEGER, found 3000000000",
            "3 at `age`: column `age`: expected INTEGER, found 1.5",
            "4 at `age`: column `age`: expected INTEGER, found nothing",
            "5 at `age`: column `age`: expected INTEGER, found nothing",
            "6 at `name`: column `name`: expected STRING, found an object",
            "7 at `x.at`: column `at`: expected TIMESTAMP, found text that is not an RFC 3339 time",
            "8 at `tags`: column `tags`: expected LIST[LONG], found a list with something else in it",
            "2 | null | null | null | 2 + {\"age\":2,\"a\":{\"b\":2}}",
            "10 at `a.b`: column `deep`: expected LONG, found nothing",
        ]
    );
}

#[test]
fn defaults_stand_for_what_is_missing_or_null() {
    let columns = declared(
        "(b BOOL DEFAULT true, i INT DEFAULT 1 + 2, l LONG DEFAULT NOW, f FLOAT DEFAULT 1, d DOUBLE NOT NULL DEFAULT -0.5, \
          s TEXT DEFAULT 'a long text, longer than twelve', t TIMESTAMP DEFAULT NOW, u TIMESTAMP(S) DEFAULT 5, \
          v TIMESTAMP DEFAULT '1970-01-01T00:00:01Z', n INT DEFAULT NULL)",
    );
    assert_eq!(
        accepted(
            &columns,
            &[
                "{}",
                r#"{"b":false,"i":7,"l":7,"f":7,"d":7,"s":"7","t":7,"u":7,"v":7,"n":7}"#,
                r#"{"d":null,"s":null,"b":null}"#
            ]
        ),
        [
            "true | 3 | 1700000000000 | 1.0 | -0.5 | a long text, longer than twelve | 1700000000000000us | 5000000us | \
             1000000us | null",
            "false | 7 | 7 | 7.0 | 7.0 | 7 | 7000us | 7000000us | 7000us | 7",
            "true | 3 | 1700000000000 | 1.0 | -0.5 | a long text, longer than twelve | 1700000000000000us | 5000000us | \
             1000000us | null",
        ]
    );
    assert_eq!(
        accepted(&columns, &[r#"{"d":"x"}"#]),
        ["0 at `d`: column `d`: expected DOUBLE, found text"],
        "a default is for what is missing, not for what is wrong"
    );
}

#[test]
fn conditions_reject_where_they_are_false_only() {
    let columns = declared(
        "(a INT DEFAULT 9 CHECK (a > 1), \"b-c\" TEXT PATH 'b' CHECK (\"b-c\" LIKE 'x%'), m MAP[LONG] CHECK (m.k < 5 OR m['k'] = 7), \
          CONSTRAINT both CHECK (A + 1 != 5 AND \"b-c\" != 'xy'), CHECK (10 / (a - 6) < 100))",
    );
    assert_eq!(
        accepted(
            &columns,
            &[
                "{}",
                r#"{"a":1}"#,
                r#"{"a":4}"#,
                r#"{"a":6}"#,
                r#"{"b":"yes"}"#,
                r#"{"b":"xy"}"#,
                r#"{"m":{"k":6}}"#,
                r#"{"m":{"k":7}}"#,
                r#"{"m":{}}"#,
                r#"{"a":1,"b":"y"}"#,
            ]
        ),
        [
            "9 | null | null",
            "1 at `a`: column `a`: `CHECK (a > 1)` failed",
            "2 at ``: `CHECK (both)` failed",
            "6 | null | null",
            "4 at `b`: column `b-c`: `CHECK (\"b-c\" LIKE 'x%')` failed",
            "5 at ``: `CHECK (both)` failed",
            "6 at `m`: column `m`: `CHECK (m.k < 5 OR m['k'] = 7)` failed",
            "9 | null | {k:7}",
            "9 | null | {}",
            "9 at `a`: column `a`: `CHECK (a > 1)` failed",
        ]
    );
}

#[test]
fn text_is_kept_of_what_the_columns_do_not_say() {
    let columns = declared("(a INT, j JSON, p INT PATH 'j.x')");
    assert_eq!(
        accepted(
            &columns,
            &[r#"{"a":1}"#, r#"{"a":1,"b":2}"#, r#"{"a":1,"a":2}"#, r#"{"j":{"x":3}}"#, r#"{"A":1}"#]
        ),
        [
            "1 | null | null",
            "1 | null | null + {\"a\":1,\"b\":2}",
            "2 | null | null + {\"a\":1,\"a\":2}",
            "null | {\"x\":3} | 3",
            "null | null | null + {\"A\":1}",
        ]
    );
}

#[test]
fn key_that_comes_twice_within_a_map_needs_the_text() {
    let columns = declared("(m MAP[LONG], l LIST[MAP[LONG]], j JSON)");
    let twice =
        [r#"{"m":{"k":1,"k":2}}"#, r#"{"l":[{"k":1},{"k":1,"k":2}]}"#, r#"{"j":{"k":1,"k":2},"m":{"k":1}}"#];
    assert_eq!(
        accepted(&columns, &twice),
        [
            r#"{k:2} | null | null + {"m":{"k":1,"k":2}}"#,
            r#"null | [{k:1},{k:2}] | null + {"l":[{"k":1},{"k":1,"k":2}]}"#,
            r#"{k:1} | null | {"k":1,"k":2}"#,
        ]
    );
    let (found, rows) = inferred(&texts(&[r#"{"o":{"k":1,"k":2}}"#, r#"{"o":{"k":3}}"#]), &[2], 10);
    assert_eq!(names(&found), "o MAP[LONG]");
    assert_eq!(rows, [r#"{k:2} + {"o":{"k":1,"k":2}}"#, "{k:3}"]);
}

#[test]
fn empty_text_is_none_in_a_partition_column() {
    let events = [r#"{"k":"","n":1}"#, r#"{"k":"a","n":2}"#, r#"{"n":3}"#, r#"{"k":null,"n":4}"#];
    let nullable = declared("(k STRING CHECK (k != 'b'), n LONG) WITH (partition_by = (k))");
    let rows = [r#"null | 1 + {"k":"","n":1}"#, "a | 2", "null | 3", "null | 4"];
    assert_eq!(accepted(&nullable, &events), rows);
    let batch = batch_of(&texts(&events));
    let read = nullable.read(&batch, 1, &mut ColumnsScratch::default());
    assert_eq!(self::rows(&read.columns, &batch, read.text_needed.as_ref()), rows);
    let not_null = declared("(k STRING NOT NULL, n LONG) WITH (partition_by = (k))");
    assert_eq!(
        accepted(&not_null, &events[..2]),
        [
            "0 at `k`: column `k`: expected a text that is not empty: the stream is partitioned by it, and an empty one \
             is null there",
            "a | 2",
        ]
    );
    let by_another = declared("(k STRING NOT NULL, n LONG) WITH (partition_by = (n))");
    assert_eq!(accepted(&by_another, &events[..1]), [" | 1"]);
}

#[test]
fn oversize_events_are_bad_and_no_events_are_fine() {
    let columns = declared("(a TEXT) WITH (event_bytes_max = 12)");
    assert_eq!(
        accepted(&columns, &[r#"{"a":"1234"}"#, r#"{"a":"12345"}"#]),
        ["1234", "1 at ``: the event has 13 bytes, the limit is 12"]
    );
    assert_eq!(accepted(&columns, &[]), Vec::<String>::new());
    assert_eq!(accepted(&declared("(a TEXT CHECK (a != ''))"), &[r#"{"a":""}"#]).len(), 1);
}

#[test]
fn a_batch_of_good_events_is_not_copied() {
    let batch = batch_of(&[r#"{"a":1}"#.to_owned(), r#"{"a":2}"#.to_owned()]);
    let accepted = declared("(a INT NOT NULL)").accept(&batch, 0, &mut ColumnsScratch::default());
    assert_eq!(accepted.good.bytes().as_ptr(), batch.bytes().as_ptr());
    assert_eq!((accepted.good.len(), accepted.rejected.len()), (2, 0));
}

// ---- columns found in events

/// All columns, and each event as they say it, of events that come in batches of these sizes.
fn inferred(events: &[String], sizes: &[usize], columns_max: usize) -> (Vec<InferredColumn>, Vec<String>) {
    let mut columns = Arc::new(InferredColumns::new(Vec::new(), columns_max));
    let mut scratch = ColumnsScratch::default();
    let mut parts = Vec::new();
    let mut rest = events;
    let mut sizes = sizes.iter().cycle();
    while !rest.is_empty() {
        let size = sizes.next().map_or(rest.len(), |size| (*size).clamp(1, rest.len()));
        let (head, tail) = rest.split_at(size);
        let batch = batch_of(head);
        let done = columns.accept(&batch, &mut scratch);
        if let Some(grown) = done.grown {
            columns = Arc::new(grown);
        }
        for (array, column) in done.columns.iter().zip(columns.columns()) {
            assert_eq!(*array.data_type(), arrow_type(&column.ty));
        }
        assert_eq!(done.columns.len(), columns.columns().len());
        parts.push((done.columns, batch, done.text_needed));
        rest = tail;
    }
    let count = columns.columns().len();
    let mut shown = Vec::new();
    for (arrays, batch, needed) in parts {
        // Columns that came later are null.
        let missing = " | null".repeat(count - arrays.len());
        for row in rows(&arrays, &batch, needed.as_ref()) {
            let (values, text) = row.split_once(" + ").map_or((row.as_str(), None), |(v, t)| (v, Some(t)));
            let values = if arrays.is_empty() && count > 0 {
                missing[3..].to_owned()
            } else {
                format!("{values}{missing}")
            };
            shown.push(text.map_or(values.clone(), |text| format!("{values} + {text}")));
        }
    }
    (columns.columns().to_vec(), shown)
}

fn names(columns: &[InferredColumn]) -> String {
    columns.iter().map(|column| format!("{} {}", column.name, column.ty)).collect::<Vec<_>>().join(", ")
}

fn texts(events: &[&str]) -> Vec<String> {
    events.iter().map(|event| (*event).to_owned()).collect()
}

#[test]
fn columns_come_as_fields_appear() {
    let events = texts(&[
        r#"{"b":1,"a":"x","z":null,"e":[]}"#,
        r#"{"c":true,"a":5,"b":1.5}"#,
        r#"{"l":[1,2.5,null],"m":{"k":"v"},"o":[1,"x"],"q":{"r":{}},"z":1e3,"e":["s"]}"#,
        r#"{"B":1}"#,
        r#"{"_event":1,"s p":2}"#,
        r#"{"b":2,"b":3}"#,
    ]);
    let (columns, rows) = inferred(&events, &[100], 100);
    assert_eq!(names(&columns), "b LONG, a STRING, c BOOLEAN, l LIST[DOUBLE], m MAP[STRING], o LIST[ANY], q MAP[ANY], z DOUBLE, e LIST[STRING]".replace("LIST[ANY]", "ANY").replace("MAP[ANY]", "ANY"));
    assert_eq!(
        rows,
        [
            format!("1 | x | null | null | null | null | null | null | null + {}", events[0]),
            format!("null | null | true | null | null | null | null | null | null + {}", events[1]),
            "null | null | null | [1.0,2.5,null] | {k:v} | [1,\"x\"] | {\"r\":{}} | 1000.0 | [s]".to_owned(),
            format!("null | null | null | null | null | null | null | null | null + {}", events[3]),
            format!("null | null | null | null | null | null | null | null | null + {}", events[4]),
            format!("3 | null | null | null | null | null | null | null | null + {}", events[5]),
        ]
    );
    let (columns, rows) = inferred(&events, &[100], 2);
    assert_eq!(names(&columns), "b LONG, a STRING");
    assert!(rows[2].starts_with("null | null + "), "{}", rows[2]);
}

fn event() -> impl Strategy<Value = String> {
    let value = prop_oneof![
        Just("null"),
        Just("1"),
        Just("2.5"),
        Just("\"t\""),
        Just("true"),
        Just("[]"),
        Just("{}"),
        Just("[null]"),
        Just("[1]"),
        Just("[1,2.5]"),
        Just("[\"a\",1]"),
        Just("{\"k\":1}"),
        Just("{\"k\":\"v\"}"),
        Just("[[1]]"),
    ];
    prop::collection::vec(("[a-fA]|_time|x y", value), 0..5).prop_map(|fields| {
        let fields: Vec<_> = fields.into_iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
        format!("{{{}}}", fields.join(","))
    })
}

proptest! {
    #[test]
    fn columns_do_not_depend_on_where_batches_begin(
        events in prop::collection::vec(event(), 1..40),
        sizes in prop::collection::vec(1usize..9, 1..6),
        columns_max in 1usize..9,
    ) {
        let one_by_one = inferred(&events, &[1], columns_max);
        prop_assert_eq!(&inferred(&events, &sizes, columns_max), &one_by_one);
        prop_assert_eq!(&inferred(&events, &[events.len()], columns_max), &one_by_one);
        prop_assert!(one_by_one.0.len() <= columns_max);
    }

    #[test]
    fn what_is_accepted_does_not_depend_on_where_batches_begin(
        events in prop::collection::vec(event(), 1..30),
        size in 1usize..9,
    ) {
        let columns = declared("(a INT, b LONG NOT NULL DEFAULT 3, c DOUBLE CHECK (c > 1 OR d), d BOOL, e MAP[LONG], f JSON)");
        let all: Vec<&str> = events.iter().map(String::as_str).collect();
        let whole: Vec<String> = accepted(&columns, &all);
        let mut parts = Vec::new();
        for (number, part) in all.chunks(size).enumerate() {
            for line in accepted(&columns, part) {
                // Rows are told by their place in the batch.
                parts.push(match line.split_once(" at `") {
                    Some((row, rest)) if row.parse::<usize>().is_ok() => {
                        format!("{} at `{rest}", row.parse::<usize>().unwrap() + number * size)
                    }
                    _ => line,
                });
            }
        }
        prop_assert_eq!(parts, whole);
    }
}

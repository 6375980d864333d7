//! Random and mutated bytes through the laws that the fuzz targets check, too.
#![allow(clippy::unwrap_used, reason = "what fails in helpers of tests fails a test")]
#![cfg(feature = "protobuf")]

mod laws;

use proptest::prelude::*;
use serde_json::{Value, json};
use swiftwater_schema::{Schema, SchemaKind};

use laws::{avro, check_answer, check_descriptors, check_message, check_payload, check_round_trip, protobuf};

/// A change of the bytes of a message.
#[derive(Debug, Clone)]
enum Change {
    Set(usize, u8),
    Insert(usize, Vec<u8>),
    Remove(usize, usize),
    Repeat(usize, usize),
}

fn change() -> impl Strategy<Value = Change> {
    // Lengths and counts that are too large, in the forms of both formats.
    let bombs = prop::sample::select(vec![
        vec![0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
        vec![0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f],
        vec![0x80, 0x80, 0x80, 0x80, 0x10],
        vec![0x80; 12],
    ]);
    let bytes = prop_oneof![3 => prop::collection::vec(any::<u8>(), 1..4), 1 => bombs];
    prop_oneof![
        3 => (any::<usize>(), any::<u8>()).prop_map(|(at, byte)| Change::Set(at, byte)),
        2 => (any::<usize>(), bytes).prop_map(|(at, bytes)| Change::Insert(at, bytes)),
        1 => (any::<usize>(), 1..20usize).prop_map(|(at, count)| Change::Remove(at, count)),
        1 => (any::<usize>(), 1..40usize).prop_map(|(at, count)| Change::Repeat(at, count)),
    ]
}

fn changed(message: &[u8], changes: &[Change]) -> Vec<u8> {
    let mut bytes = message.to_vec();
    for change in changes {
        let place = |at: usize| at % (bytes.len() + 1);
        match change {
            Change::Set(at, byte) => {
                let at = place(*at);
                bytes.get_mut(at).into_iter().for_each(|found| *found = *byte);
            }
            Change::Insert(at, more) => {
                let at = place(*at);
                bytes.splice(at..at, more.iter().copied());
            }
            Change::Remove(at, count) => {
                let at = place(*at);
                bytes.drain(at..bytes.len().min(at + count));
            }
            Change::Repeat(at, count) => {
                let at = place(*at);
                let part = bytes[at..bytes.len().min(at + count)].to_vec();
                bytes.splice(at..at, part);
            }
        }
    }
    bytes
}

/// Rows, each with the number of its schema of Avro.
fn rows() -> Vec<(u8, Value)> {
    let uuid = "01234567-89ab-cdef-0123-456789abcdef";
    let leaf = json!({"value": 3, "next": null, "children": [], "named": {}});
    let node = json!({"value": 1, "next": leaf, "children": [leaf, leaf], "named": {"a": leaf}});
    vec![
        (
            0,
            json!({"id": -7, "customer": "ä", "amount": 1.5, "rate": 0.25, "n": 3, "paid": true, "state": "OLD",
                "raw": "AAEC", "sum": "AAECAw==", "tags": ["a", "b"], "counts": {"k": 1}}),
        ),
        (1, json!({"nulls": [null, null], "empties": [{}, {}], "lists": [[null], []]})),
        (2, node),
        (
            3,
            json!({"day": "2026-01-02", "ms": "03:04:05.006", "us": "03:04:05.000006",
                "at_ms": "2026-01-02T03:04:05.006Z", "at_us": "2026-01-02T03:04:05.000006Z",
                "at_ns": "2026-01-02T03:04:05.000000006Z", "local": "2026-01-02T03:04:05.000006",
                "span": {"months": 1, "days": 2, "milliseconds": 3}}),
        ),
        (4, json!({"price": "-12.05", "fixed": "1.500", "big": "1.25", "id": uuid, "text": uuid})),
        (5, json!({"any": {"any": [1, null]}})),
    ]
}

/// The payload of a row.
fn payload(number: u8, row: &Value) -> Vec<u8> {
    let mut payload = Vec::new();
    avro(number).encode(row.to_string().as_bytes(), 1 << 20, &mut payload).unwrap();
    payload
}

/// A field of a message of Protobuf whose value is bytes, less than 128 of them.
fn field(number: u16, value: &[u8]) -> Vec<u8> {
    let tag = number << 3 | 2;
    let tag = if tag < 0x80 { vec![tag as u8] } else { vec![tag as u8 | 0x80, (tag >> 7) as u8] };
    [&tag, &[value.len() as u8][..], value].concat()
}

/// A message of Protobuf with its index.
fn message_of_protobuf() -> Vec<u8> {
    let line = [field(1, b"s"), field(2, &field(1, b"t"))].concat();
    let line = [line, field(3, &[field(1, b"k"), field(2, &field(1, b"u"))].concat())].concat();
    let number = [0x11, 0, 0, 0, 0, 0, 0, 0xf8, 0x3f];
    let of_struct = field(1, &[field(1, b"a"), field(2, &field(3, b"b"))].concat());
    let parts = [
        vec![0, 0x08, 5, 0x10, 9, 0x18, 5, 0x25, 1, 0, 0, 0, 0x58, 1, 0x60, 4],
        field(9, b"c"),
        field(10, &[0, 1, 2]),
        field(13, &[1, 2, 0xac, 2]),
        field(14, b"x"),
        field(15, &[&[0x08, 1], &number[..]].concat()),
        field(16, &line),
        field(17, b"l"),
        field(19, &[0x08, 100, 0x10, 1]),
        field(20, &[0x08, 3]),
        field(21, &[0x08, 7]),
        field(22, &of_struct),
        field(24, &field(1, &field(3, b"v"))),
    ];
    parts.concat()
}

#[test]
fn rows_are_read_as_they_were_written() {
    for (number, row) in rows() {
        assert_eq!(check_payload(avro(number), &payload(number, &row)).unwrap(), row);
    }
    let read = check_payload(protobuf(), &message_of_protobuf()).unwrap();
    let line = json!({"sku": "s", "parts": [{"sku": "t", "parts": [], "named": {}}],
        "named": {"k": {"sku": "u", "parts": [], "named": {}}}});
    for (name, value) in [
        ("packed", json!([1, 2, 300])),
        ("counts", json!({"1": 1.5})),
        ("line", line),
        ("left", json!("l")),
        ("wrapped", json!(7)),
        ("data", json!({"a": "b"})),
        ("list", json!(["v"])),
    ] {
        assert_eq!(read[name], value, "{name} of {read}");
    }
}

#[test]
fn lists_of_values_without_bytes_end_at_the_limit_of_the_text() {
    // 2^60 nulls, empty records, and lists.
    let count = [0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x20];
    for before in [&[][..], &[0], &[0, 0], &[0, 0, 2]] {
        let fault = check_payload(avro(1), &[before, &count].concat()).unwrap_err().to_string();
        assert!(fault.contains("has more than") || fault.contains("ends"), "{fault}");
    }
}

#[test]
fn schemas_of_a_registry_are_read_or_refused() {
    let answer = |kind: &str, text: &str| json!({"schemaType": kind, "schema": text}).to_string();
    let deep = |open: &str, close: &str| format!("{}\"null\"{}", open.repeat(5_000), close.repeat(5_000));
    for text in [
        deep(r#"{"type":"array","items":"#, "}"),
        deep("[", "]"),
        r#"{"type":"record","name":"R","fields":[{"name":"r","type":"R"}]}"#.to_owned(),
        r#"{"type":"fixed","name":"F","size":18446744073709551615}"#.to_owned(),
    ] {
        check_answer(answer("AVRO", &text).as_bytes(), &[2; 3_000]);
    }
    let deep = format!("syntax = \"proto3\"; {} {}", "message M {".repeat(5_000), "}".repeat(5_000));
    check_answer(answer("PROTOBUF", &deep).as_bytes(), &[0; 100]);
    assert!(Schema::registered(SchemaKind::Protobuf, &deep, &[]).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_a_message_or_a_fault(
        number in any::<u8>(), bytes in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        check_round_trip(avro(number), &bytes);
        check_round_trip(protobuf(), &bytes);
        check_message(&bytes);
        check_descriptors(&bytes, &bytes);
        check_message(&[&[0, 0, 0, 0, number % 16], &bytes[..]].concat());
    }

    #[test]
    fn changed_messages_are_messages_or_faults(changes in prop::collection::vec(change(), 0..6)) {
        for (number, row) in rows() {
            check_round_trip(avro(number), &changed(&payload(number, &row), &changes));
        }
        check_round_trip(protobuf(), &changed(&message_of_protobuf(), &changes));
    }

    #[test]
    fn changed_schemas_are_read_or_refused(
        changes in prop::collection::vec(change(), 1..4), payload in prop::collection::vec(any::<u8>(), 0..60),
    ) {
        for text in laws::AVRO {
            let answer = json!({"schema": String::from_utf8_lossy(&changed(text.as_bytes(), &changes))}).to_string();
            check_answer(answer.as_bytes(), &payload);
            check_answer(&changed(answer.as_bytes(), &changes), &payload);
        }
        let text = changed(laws::PROTOBUF.as_bytes(), &changes);
        let answer = json!({"schemaType": "PROTOBUF", "schema": String::from_utf8_lossy(&text)}).to_string();
        check_answer(answer.as_bytes(), &payload);
    }
}

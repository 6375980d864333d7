//! Laws of decoding, for any bytes: the property tests and the fuzz targets of `fuzz/` run the same functions.
//!
//! Bytes are a message that is one line of JSON within its limit, or a [`Fault`] that leaves the output as it was. If the schema
//! writes this JSON as a row, it reads the same JSON from it.

use std::sync::LazyLock;

use serde_json::Value;
use swiftwater_schema::{Fault, Registered, Schema, SchemaKind, frame, unframe};

/// The limit of a text; small, so that it is met.
pub(crate) const TEXT_BYTES_MAX: usize = 2_000;

/// Schemas of Avro with all forms of values.
pub(crate) const AVRO: [&str; 6] = [
    r#"{"type":"record","name":"Order","fields":[
        {"name":"id","type":"long"},{"name":"customer","type":["null","string"]},{"name":"amount","type":"double"},
        {"name":"rate","type":"float"},{"name":"n","type":"int"},{"name":"paid","type":"boolean"},
        {"name":"state","type":{"type":"enum","name":"State","symbols":["NEW","OLD"]}},
        {"name":"raw","type":"bytes"},{"name":"sum","type":{"type":"fixed","name":"Sum","size":4}},
        {"name":"tags","type":{"type":"array","items":"string"}},
        {"name":"counts","type":{"type":"map","values":"long"}}]}"#,
    // Lists of values that take no bytes.
    r#"{"type":"record","name":"Nothing","fields":[
        {"name":"nulls","type":{"type":"array","items":"null"}},
        {"name":"empties","type":{"type":"array","items":{"type":"record","name":"Empty","fields":[]}}},
        {"name":"lists","type":{"type":"array","items":{"type":"array","items":"null"}}}]}"#,
    r#"{"type":"record","name":"Node","fields":[
        {"name":"value","type":"int"},{"name":"next","type":["null","Node"]},
        {"name":"children","type":{"type":"array","items":"Node"}},{"name":"named","type":{"type":"map","values":"Node"}}]}"#,
    r#"{"type":"record","name":"Times","fields":[
        {"name":"day","type":{"type":"int","logicalType":"date"}},
        {"name":"ms","type":{"type":"int","logicalType":"time-millis"}},
        {"name":"us","type":{"type":"long","logicalType":"time-micros"}},
        {"name":"at_ms","type":{"type":"long","logicalType":"timestamp-millis"}},
        {"name":"at_us","type":{"type":"long","logicalType":"timestamp-micros"}},
        {"name":"at_ns","type":{"type":"long","logicalType":"timestamp-nanos"}},
        {"name":"local","type":{"type":"long","logicalType":"local-timestamp-micros"}},
        {"name":"span","type":{"type":"fixed","name":"Span","size":12,"logicalType":"duration"}}]}"#,
    r#"{"type":"record","name":"Numbers","fields":[
        {"name":"price","type":{"type":"bytes","logicalType":"decimal","precision":12,"scale":2}},
        {"name":"fixed","type":{"type":"fixed","name":"F","size":6,"logicalType":"decimal","precision":14,"scale":3}},
        {"name":"big","type":{"type":"bytes","logicalType":"big-decimal"}},
        {"name":"id","type":{"type":"fixed","name":"U","size":16,"logicalType":"uuid"}},
        {"name":"text","type":{"type":"string","logicalType":"uuid"}}]}"#,
    r#"{"type":"record","name":"Choice","fields":[
        {"name":"any","type":["null","boolean","int","long","float","double","string","bytes",
            {"type":"array","items":["null","long"]},{"type":"map","values":["string","null"]},"Choice"]}]}"#,
];

/// A schema of Protobuf with all forms of values, and a recursive message.
#[cfg(feature = "protobuf")]
pub(crate) const PROTOBUF: &str = r#"
syntax = "proto3";
package shop;
import "google/protobuf/any.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
enum State { NEW = 0; OLD = 1; }
message Order {
  message Line { string sku = 1; repeated Line parts = 2; map<string, Line> named = 3; }
  int64 id = 1; uint64 big = 2; sint32 zigzag = 3; fixed32 f32 = 4; sfixed64 f64 = 5; double amount = 6; float rate = 7;
  bool paid = 8; string customer = 9; bytes raw = 10; State state = 11; optional int32 maybe = 12;
  repeated int32 packed = 13; repeated string tags = 14; map<int64, double> counts = 15; Line line = 16;
  oneof choice { string left = 17; Line right = 18; }
  google.protobuf.Timestamp at = 19; google.protobuf.Duration span = 20; google.protobuf.Int64Value wrapped = 21;
  google.protobuf.Struct data = 22; google.protobuf.Value value = 23; google.protobuf.ListValue list = 24;
  google.protobuf.Any any = 25;
}
"#;

static SCHEMAS_OF_AVRO: LazyLock<Vec<Schema>> = LazyLock::new(|| {
    let schema = |text: &&str| Schema::registered(SchemaKind::Avro, text, &[]).expect("the schema is right");
    AVRO.iter().map(schema).collect()
});

#[cfg(feature = "protobuf")]
static SCHEMA_OF_PROTOBUF: LazyLock<Schema> =
    LazyLock::new(|| Schema::registered(SchemaKind::Protobuf, PROTOBUF, &[]).expect("the schema is right"));

/// One of the schemas of Avro.
pub(crate) fn avro(number: u8) -> &'static Schema {
    &SCHEMAS_OF_AVRO[usize::from(number) % AVRO.len()]
}

/// The schema of Protobuf. A message begins with the indexes of its type.
#[cfg(feature = "protobuf")]
pub(crate) fn protobuf() -> &'static Schema {
    &SCHEMA_OF_PROTOBUF
}

/// Decodes a payload; its JSON, if it is a message.
pub(crate) fn check_payload(schema: &Schema, payload: &[u8]) -> Result<Value, Fault> {
    let mut out = b"before".to_vec();
    let written = schema.write_json(payload, TEXT_BYTES_MAX, &mut out);
    // One value beyond the limit may be there before it is found, and a vector may double; a value is as long as its bytes.
    let bytes_max = 2 * (TEXT_BYTES_MAX + 8 * payload.len() + 1_000);
    assert!(
        out.capacity() <= bytes_max,
        "{} bytes of memory for {} of a message",
        out.capacity(),
        payload.len()
    );
    if let Err(fault) = written {
        assert_eq!(out, b"before");
        assert!(!fault.to_string().is_empty());
        return Err(fault);
    }
    let text = &out[b"before".len()..];
    assert!(text.len() <= TEXT_BYTES_MAX && !text.contains(&b'\n'));
    match serde_json::from_slice(text) {
        Ok(value) => Ok(value),
        // A message may be as deep as the reader allows, and a value of it is a level more.
        Err(error) if error.to_string().contains("recursion limit") => Ok(Value::Null),
        Err(error) => panic!("{error}: {}", String::from_utf8_lossy(text)),
    }
}

/// Decodes a payload, and writes it as a row. The message of the row may be another one, as unions and maps have several forms of
/// one value, and it has the same JSON.
pub(crate) fn check_round_trip(schema: &Schema, payload: &[u8]) {
    let Ok(value) = check_payload(schema, payload) else { return };
    let mut message = Vec::new();
    match schema.encode(value.to_string().as_bytes(), 1 << 20, &mut message) {
        Ok(()) => assert_eq!(check_payload(schema, &message).as_ref(), Ok(&value)),
        Err(_) => assert!(message.is_empty()),
    }
}

/// A file with descriptors of Protobuf: read or refused, and then bytes are a message of it or not.
#[cfg(feature = "protobuf")]
pub(crate) fn check_descriptors(descriptors: &[u8], payload: &[u8]) {
    if let Ok(schema) = Schema::descriptor_file(descriptors, None) {
        check_round_trip(&schema, payload);
    }
}

/// A message of a registry: the frame, and the payload by the schema of its id.
pub(crate) fn check_message(message: &[u8]) {
    let Ok(framed) = unframe(message) else { return };
    assert_eq!([&frame(framed.schema, &[]), framed.payload].concat(), message);
    #[cfg(feature = "protobuf")]
    if framed.schema % 2 == 1 {
        return check_round_trip(protobuf(), framed.payload);
    }
    check_round_trip(avro((framed.schema / 2) as u8), framed.payload);
}

/// The answer of a registry: a schema that is read or refused, by which the bytes behind it are decoded.
pub(crate) fn check_answer(answer: &[u8], payload: &[u8]) {
    let Ok(registered) = Registered::parse(answer) else { return };
    let Ok(kind) = registered.kind else { return };
    let Ok(schema) = Schema::registered(kind, &registered.text, &[]) else { return };
    let _ = check_payload(&schema, payload);
}

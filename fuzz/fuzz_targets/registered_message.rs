//! Any bytes as a message with the id of its schema, and any schema of a registry with a message of it.
#![no_main]

use libfuzzer_sys::fuzz_target;

// The property tests of the room check the same.
#[allow(dead_code)]
#[path = "../../crates/schema/tests/decoders/laws.rs"]
mod laws;

fuzz_target!(|input: (bool, String, &[u8])| {
    let (is_avro, schema, payload) = input;
    laws::check_message(payload);
    laws::check_answer(schema.as_bytes(), payload);
    let kind = if is_avro { "AVRO" } else { "PROTOBUF" };
    let answer = serde_json::json!({ "schemaType": kind, "schema": schema }).to_string();
    laws::check_answer(answer.as_bytes(), payload);
});

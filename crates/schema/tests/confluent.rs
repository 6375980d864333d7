//! Messages of Confluent's own serializers become the JSON that is expected of them; `confluent/record.py` has recorded them.
#![allow(clippy::unwrap_used, reason = "what fails in helpers of tests fails a test")]
#![cfg(feature = "protobuf")]

use serde_json::Value;
use swiftwater_schema::{Schema, SchemaKind, unframe};

fn recorded() -> Vec<Value> {
    serde_json::from_str(include_str!("confluent/recorded.json")).unwrap()
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

/// The schema of a recorded message, and its payload.
fn schema_and_payload(recorded: &Value) -> (Schema, Vec<u8>) {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let kind = if recorded["kind"] == "AVRO" { SchemaKind::Avro } else { SchemaKind::Protobuf };
    let references = recorded["references"].as_array().unwrap().iter();
    let references: Vec<(String, String)> =
        references.map(|reference| (text(&reference["name"]), text(&reference["text"]))).collect();
    let schema = Schema::registered(kind, recorded["schema"].as_str().unwrap(), &references).unwrap();
    let message = bytes(recorded["message"].as_str().unwrap());
    (schema, unframe(&message).unwrap().payload.to_vec())
}

#[test]
fn messages_of_confluent_become_json() {
    let recorded = recorded();
    assert_eq!(recorded.len(), 6);
    for recorded in &recorded {
        let (schema, payload) = schema_and_payload(recorded);
        let mut out = Vec::new();
        schema.write_json(&payload, 10_000, &mut out).unwrap();
        let found: Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(found, recorded["expected"], "{recorded}");
    }
}

#[test]
fn truncated_messages_of_confluent_are_faults_or_shorter_messages() {
    for recorded in &recorded() {
        let (schema, payload) = schema_and_payload(recorded);
        for end in 0..payload.len() {
            let mut out = b"before".to_vec();
            let written = schema.write_json(&payload[..end], 10_000, &mut out);
            if recorded["kind"] == "AVRO" {
                assert!(written.is_err(), "{end} of {recorded}");
            }
            match written {
                Ok(()) => assert!(serde_json::from_slice::<Value>(&out[6..]).is_ok(), "{end} of {recorded}"),
                Err(_) => assert_eq!(out, b"before"),
            }
        }
        let mut out = Vec::new();
        let fault = schema.write_json(&payload, 1, &mut out).unwrap_err().to_string();
        assert!(fault.contains("has more than 1 bytes"), "{fault}");
    }
}

#[test]
fn rows_are_the_messages_of_confluent() {
    let recorded = recorded();
    let of_avro: Vec<&Value> = recorded.iter().filter(|recorded| recorded["kind"] == "AVRO").collect();
    assert!(!of_avro.is_empty());
    for recorded in of_avro {
        let (schema, payload) = schema_and_payload(recorded);
        let mut out = Vec::new();
        schema.encode(recorded["expected"].to_string().as_bytes(), 10_000, &mut out).unwrap();
        assert_eq!(out, payload, "{recorded}");
    }
}

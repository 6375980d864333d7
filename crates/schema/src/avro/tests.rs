//! Tests the decoder against values of random schemas, whose bytes and JSON a generator writes side by side.
#![allow(clippy::unwrap_used, reason = "what fails in helpers of tests fails a test")]

use serde_json::{Value, json};

use super::AvroSchema;
use crate::DEPTH_MAX;

const BYTES_MAX: usize = 1 << 20;

fn schema(json: &Value) -> AvroSchema {
    AvroSchema::parse(&json.to_string(), &[]).unwrap()
}

fn decoded(schema: &AvroSchema, datum: &[u8]) -> Result<String, String> {
    let mut out = Vec::new();
    let written = schema.write_json(datum, BYTES_MAX, &mut out);
    written.map(|()| String::from_utf8(out).unwrap()).map_err(|fault| fault.to_string())
}

fn long(value: i64, out: &mut Vec<u8>) {
    let mut rest = (value << 1 ^ value >> 63) as u64;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

fn longs(values: &[i64]) -> Vec<u8> {
    let mut out = Vec::new();
    values.iter().for_each(|value| long(*value, &mut out));
    out
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ (bits >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// A number of any magnitude.
    fn number(&mut self) -> i64 {
        let bits = self.below(64);
        (self.next() >> bits) as i64 * if self.below(2) == 0 { 1 } else { -1 }
    }

    fn text(&mut self) -> String {
        const PARTS: [&str; 8] = ["a", "Z", "\"", "\\", "\n", "é", "\u{1F600}", "\0"];
        (0..self.below(5)).map(|_| PARTS[self.below(8) as usize]).collect()
    }

    /// A schema; `names` numbers its named types.
    fn schema(&mut self, depth: u32, names: &mut u32) -> Value {
        let mut name = || {
            *names += 1;
            format!("N{names}")
        };
        match self.below(if depth == 0 { 12 } else { 16 }) {
            0 => json!("null"),
            1 => json!("boolean"),
            2 => json!("int"),
            3 => json!("long"),
            4 => json!("float"),
            5 => json!("double"),
            6 => json!("string"),
            7 => json!({"type": "bytes"}),
            8 => json!({"type": "fixed", "name": name(), "size": self.below(4)}),
            9 => json!({"type": "enum", "name": name(), "symbols": ["A", "B", "C"]}),
            10 => json!({"type": "bytes", "logicalType": "decimal", "precision": 18, "scale": self.below(4)}),
            11 => json!({"type": "string", "logicalType": "unknown"}),
            12 => json!({"type": "array", "items": self.schema(depth - 1, names)}),
            13 => json!({"type": "map", "values": self.schema(depth - 1, names)}),
            14 => {
                let branch = loop {
                    let branch = self.schema(depth - 1, names);
                    if !branch.is_array() {
                        break branch;
                    }
                };
                json!(["null", branch, "long"])
            }
            _ => {
                let record = name();
                let fields: Vec<Value> = (0..self.below(4))
                    .map(|place| json!({"name": format!("f{place}"), "type": self.schema(depth - 1, names)}))
                    .collect();
                json!({"type": "record", "name": record, "fields": fields})
            }
        }
    }

    /// Writes a value of a schema, and returns its JSON.
    fn value(&mut self, schema: &Value, out: &mut Vec<u8>) -> Value {
        let ty = match schema {
            Value::Array(branches) => {
                let place = self.below(branches.len() as u64);
                long(place as i64, out);
                return self.value(&branches[place as usize], out);
            }
            Value::Object(object) => object["type"].as_str().unwrap(),
            other => other.as_str().unwrap(),
        };
        match ty {
            "null" => Value::Null,
            "boolean" => {
                let value = self.below(2) == 1;
                out.push(u8::from(value));
                json!(value)
            }
            "int" => {
                let value = self.number() as i32;
                long(i64::from(value), out);
                json!(value)
            }
            "long" => {
                let value = self.number();
                long(value, out);
                json!(value)
            }
            "float" => {
                let value = self.number() as f32 / 7.0;
                out.extend(value.to_le_bytes());
                json!(value.to_string().parse::<f64>().unwrap())
            }
            "double" => {
                let value = self.number() as f64 / 7.0;
                out.extend(value.to_le_bytes());
                json!(value)
            }
            "string" => {
                let text = self.text();
                long(text.len() as i64, out);
                out.extend(text.as_bytes());
                json!(text)
            }
            "bytes" if schema["logicalType"] == "decimal" => {
                let (unscaled, scale) =
                    (self.number() % 1_000_000, schema["scale"].as_u64().unwrap() as usize);
                long(8, out);
                out.extend(unscaled.to_be_bytes());
                let digits = format!("{:0>1$}", unscaled.unsigned_abs(), scale + 1);
                let (whole, part) = digits.split_at(digits.len() - scale);
                let sign = if unscaled < 0 { "-" } else { "" };
                json!(if scale == 0 { format!("{sign}{whole}") } else { format!("{sign}{whole}.{part}") })
            }
            "bytes" => {
                // Three bytes are four digits of base64: `A` is 0, and `/` is 63.
                let count = self.below(3);
                long(3 * count as i64, out);
                out.extend(std::iter::repeat_n([0, 0, 0x3f], count as usize).flatten());
                json!("AAA/".repeat(count as usize))
            }
            "fixed" => {
                let size = schema["size"].as_u64().unwrap() as usize;
                out.extend(std::iter::repeat_n(0, size));
                json!(["", "AA==", "AAA=", "AAAA"][size])
            }
            "enum" => {
                let place = self.below(3);
                long(place as i64, out);
                schema["symbols"][place as usize].clone()
            }
            "array" => {
                let mut items = Vec::new();
                for _ in 0..self.below(3) {
                    self.block(out, |random, out| items.push(random.value(&schema["items"], out)));
                }
                out.push(0);
                json!(items)
            }
            "map" => {
                let mut entries = serde_json::Map::new();
                for _ in 0..self.below(3) {
                    self.block(out, |random, out| {
                        let key = format!("k{}{}", entries.len(), random.text());
                        long(key.len() as i64, out);
                        out.extend(key.as_bytes());
                        let value = random.value(&schema["values"], out);
                        entries.insert(key, value);
                    });
                }
                out.push(0);
                Value::Object(entries)
            }
            _ => {
                let fields = schema["fields"].as_array().unwrap();
                let field = |field: &Value| {
                    (field["name"].as_str().unwrap().to_owned(), self.value(&field["type"], out))
                };
                Value::Object(fields.iter().map(field).collect())
            }
        }
    }

    /// Writes a block of one to three items, with its size in bytes or without.
    fn block(&mut self, out: &mut Vec<u8>, mut item: impl FnMut(&mut Random, &mut Vec<u8>)) {
        let count = 1 + self.below(3) as i64;
        let mut items = Vec::new();
        (0..count).for_each(|_| item(self, &mut items));
        if self.below(2) == 0 {
            long(count, out);
        } else {
            long(-count, out);
            long(items.len() as i64, out);
        }
        out.extend(items);
    }
}

#[test]
fn random_values_become_their_json() {
    for seed in 0..3000 {
        let mut random = Random(seed);
        let json = random.schema(4, &mut 0);
        let (schema, mut datum) = (schema(&json), Vec::new());
        let expected = random.value(&json, &mut datum);
        let text = decoded(&schema, &datum).unwrap_or_else(|fault| panic!("seed {seed}: {fault}"));
        let found: Value =
            serde_json::from_str(&text).unwrap_or_else(|error| panic!("seed {seed}: {error} {text}"));
        assert_eq!(found, expected, "seed {seed}");
        assert!(!text.contains('\n'), "seed {seed}");
        for end in 0..datum.len() {
            assert!(decoded(&schema, &datum[..end]).is_err(), "seed {seed}: {end} of {} bytes", datum.len());
        }
        datum.push(0);
        assert!(decoded(&schema, &datum).unwrap_err().contains("1 bytes follow the value"), "seed {seed}");
    }
}

#[test]
fn random_bytes_are_values_or_faults() {
    for seed in 0..3000 {
        let mut random = Random(seed);
        let json = random.schema(4, &mut 0);
        let schema = schema(&json);
        let datum: Vec<u8> = (0..random.below(60)).map(|_| random.next() as u8 >> random.below(8)).collect();
        if let Ok(text) = decoded(&schema, &datum) {
            assert!(serde_json::from_str::<Value>(&text).is_ok(), "seed {seed}: {text}");
        }
    }
}

#[test]
fn lengths_and_depths_of_data_are_not_believed() {
    let nulls = schema(&json!({"type": "array", "items": "null"}));
    let too_long = decoded(&nulls, &longs(&[i64::MAX])).unwrap_err();
    assert!(too_long.contains("its JSON text has more than 1048576 bytes"), "{too_long}");
    assert!(decoded(&nulls, &longs(&[i64::MIN, 0])).unwrap_err().contains("more than"));
    let texts = schema(&json!({"type": "array", "items": "string"}));
    assert_eq!(decoded(&texts, &longs(&[1 << 60, 1 << 60])).unwrap_err(), "the message ends too early");
    assert_eq!(decoded(&texts, &longs(&[1, -1])).unwrap_err(), "-1 is no length");
    // A list within a list, and so on, two bytes a level.
    let list = json!({"type": "record", "name": "L", "fields": [{"name": "l", "type": {"type": "array", "items": "L"}}]});
    let nested = |levels: usize| [longs(&[1]).repeat(levels), longs(&[0]).repeat(levels + 1)].concat();
    let list = schema(&list);
    assert!(decoded(&list, &nested(DEPTH_MAX / 2 - 1)).is_ok());
    let fault = decoded(&list, &nested(DEPTH_MAX / 2)).unwrap_err();
    assert!(fault.contains("it nests deeper than 128 levels"), "{fault}");
    // A record that contains itself at once has no value.
    let endless = schema(&json!({"type": "record", "name": "R", "fields": [{"name": "r", "type": "R"}]}));
    assert!(decoded(&endless, &[]).unwrap_err().contains("nests deeper"));
    // Records without data in records: 10 to the 9th values from no byte.
    let mut records = json!({"type": "record", "name": "R0", "fields": []});
    for level in 1..10 {
        let first = json!({"name": "f0", "type": records});
        let others =
            (1..10).map(|place| json!({"name": format!("f{place}"), "type": format!("R{}", level - 1)}));
        let fields: Vec<Value> = std::iter::once(first).chain(others).collect();
        records = json!({"type": "record", "name": format!("R{level}"), "fields": fields});
    }
    assert!(decoded(&schema(&records), &[]).unwrap_err().contains("its JSON text has more than"));
}

#[test]
fn logical_types_become_texts() {
    let of = |ty: Value, datum: &[u8]| decoded(&schema(&ty), datum);
    let logical = |ty: &str, logical: &str| json!({"type": ty, "logicalType": logical});
    let fixed = |size: u32, logical: &str| json!({"type": "fixed", "name": "F", "size": size, "logicalType": logical});
    for (ty, datum, expected) in [
        (logical("int", "date"), longs(&[20_000]), "\"2024-10-04\""),
        (logical("int", "time-millis"), longs(&[1]), "\"00:00:00.001\""),
        (logical("long", "time-micros"), longs(&[1]), "\"00:00:00.000001\""),
        (logical("long", "timestamp-millis"), longs(&[1]), "\"1970-01-01T00:00:00.001Z\""),
        (logical("long", "timestamp-micros"), longs(&[1]), "\"1970-01-01T00:00:00.000001Z\""),
        (logical("long", "timestamp-nanos"), longs(&[1]), "\"1970-01-01T00:00:00.000000001Z\""),
        (logical("long", "local-timestamp-micros"), longs(&[1]), "\"1970-01-01T00:00:00.000001\""),
        (logical("string", "uuid"), [longs(&[1]), b"x".to_vec()].concat(), "\"x\""),
        (
            fixed(16, "uuid"),
            (0..16).map(|byte| byte * 17).collect(),
            "\"00112233-4455-6677-8899-aabbccddeeff\"",
        ),
        (
            fixed(12, "duration"),
            [[1, 0, 0, 0], [2, 0, 0, 0], [0, 1, 0, 0]].concat(),
            r#"{"months":1,"days":2,"milliseconds":256}"#,
        ),
        // Invalid ones are ignored.
        (logical("string", "date"), longs(&[0]), "\"\""),
        (logical("int", "timestamp-millis"), longs(&[5]), "5"),
        (fixed(2, "uuid"), vec![0, 0], "\"AAA=\""),
        (json!({"type": "bytes", "logicalType": "decimal"}), longs(&[0]), "\"\""),
        (json!({"type": "bytes", "logicalType": "decimal", "precision": 1, "scale": 2}), longs(&[0]), "\"\""),
        (
            json!({"type": "fixed", "name": "F", "size": 1, "logicalType": "decimal", "precision": 3}),
            vec![0],
            "\"AA==\"",
        ),
    ] {
        assert_eq!(of(ty.clone(), &datum).unwrap(), expected, "{ty}");
    }
    let big = logical("bytes", "big-decimal");
    assert_eq!(of(big.clone(), &[6, 2, 123, 4]).unwrap(), "\"1.23\"");
    assert_eq!(of(big.clone(), &[6, 2, 123, 3]).unwrap(), "\"12300\"");
    assert_eq!(of(big.clone(), &[6, 2, 0, 3]).unwrap(), "\"0\"");
    assert!(of(big.clone(), &[8, 2, 123, 0x90, 0x4e]).is_err());
    assert!(of(big, &[8, 2, 123, 4, 4]).unwrap_err().contains("bytes follow the scale"));
    let price = json!({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2});
    assert_eq!(of(price.clone(), &[8, 0, 0, 0, 123]).unwrap(), "\"1.23\"");
    assert!(of(price, &[8, 1, 0, 0, 0]).unwrap_err().contains("more digits than its precision"));
    assert!(of(logical("int", "time-millis"), &longs(&[-1])).unwrap_err().contains("no time of a day"));
    assert!(of(json!("int"), &longs(&[1 << 31])).unwrap_err().contains("does not fit 32 bits"));
    assert!(of(json!("boolean"), &[2]).unwrap_err().contains("2 is no boolean"));
    assert!(of(json!("string"), &[2, 0xff]).unwrap_err().contains("not UTF-8"));
    assert!(of(json!("long"), &[0xff; 10]).unwrap_err().contains("more than 64 bits"));
    assert!(of(json!(["null"]), &[2]).unwrap_err().contains("no branch 1 of the union: there are 1"));
    assert_eq!(of(json!("double"), &f64::NAN.to_le_bytes()).unwrap(), "\"NaN\"");
    assert_eq!(of(json!("float"), &f32::NEG_INFINITY.to_le_bytes()).unwrap(), "\"-Infinity\"");
    assert_eq!(of(json!("float"), &0.1f32.to_le_bytes()).unwrap(), "0.1");
}

#[test]
fn names_are_resolved_as_the_specification_has_it() {
    let record = |fields: Value| json!({"type": "record", "name": "a.b.R", "fields": fields});
    let fixed = |name: &str| json!({"type": "fixed", "name": name, "size": 1});
    for (ty, count) in [
        (record(json!([{"name": "x", "type": fixed("F")}, {"name": "y", "type": "F"}])), 2),
        (record(json!([{"name": "x", "type": fixed("F")}, {"name": "y", "type": "a.b.F"}])), 2),
        (record(json!([{"name": "x", "type": fixed("c.F")}, {"name": "y", "type": "c.F"}])), 2),
        (
            record(json!([
                {"name": "x", "type": {"type": "fixed", "name": "F", "namespace": "", "size": 1}},
                {"name": "y", "type": "F"},
                {"name": "z", "type": {"type": "F"}},
            ])),
            3,
        ),
        (record(json!([{"name": "x", "type": {"type": {"type": "boolean"}}}])), 1),
        (record(json!([{"name": "x", "type": ["null", "R"]}])), 1),
    ] {
        assert!(decoded(&schema(&ty), &vec![0; count]).is_ok(), "{ty}");
    }
    // A logical type is a part of what is named.
    let price = json!({"type": "fixed", "name": "P", "size": 2, "logicalType": "decimal", "precision": 3, "scale": 1});
    let twice = record(json!([{"name": "x", "type": price}, {"name": "y", "type": "P"}]));
    assert_eq!(decoded(&schema(&twice), &[0, 15, 0, 25]).unwrap(), r#"{"x":"1.5","y":"2.5"}"#);
    let outer = record(json!([{"name": "x", "type": "s.Inner"}]));
    let inner = r#"{"type":"record","name":"Inner","namespace":"s","fields":[{"name":"n","type":"s.Key"}]}"#;
    let key = r#"{"type":"enum","name":"s.Key","symbols":["K"]}"#;
    let referring = AvroSchema::parse(&outer.to_string(), &[key, inner]).unwrap();
    assert_eq!(decoded(&referring, &[0]).unwrap(), r#"{"x":{"n":"K"}}"#);
    let fault = decoded(&referring, &[2]).unwrap_err();
    assert_eq!(fault, "field `x.n`: there is no symbol 1: there are 1");
    for (text, error) in [
        ("{", "it is no JSON"),
        ("7", "a type is a name, an object or a list"),
        ("\"x\"", "type `x` is not defined"),
        ("{}", "has no `type`"),
        (r#"[["null"]]"#, "a union contains another one directly"),
        (r#"{"type":"array"}"#, "type `array` has no `items`"),
        (r#"{"type":"record","fields":[]}"#, "has no name"),
        (r#"{"type":"record","name":"not a name!","fields":[{"name":"a"}]}"#, "field `a` has no type"),
        (
            r#"{"type":"record","name":"R","fields":[{"name":"a","type":"int"},{"name":"a","type":"int"}]}"#,
            "record `R` has field `a` twice",
        ),
        (
            r#"["null",{"type":"fixed","name":"F","size":1},{"type":"fixed","name":"F","size":1}]"#,
            "defined twice",
        ),
        (r#"{"type":"fixed","name":"F","size":-1}"#, "no whole number"),
        (r#"{"type":"bytes","logicalType":"decimal","precision":100000}"#, "at most 1000 are read"),
    ] {
        let found = AvroSchema::parse(text, &[]).unwrap_err().to_string();
        assert!(found.contains(error), "{text}: {found}");
    }
    let deep = format!("{}\"int\"{}", "{\"type\":".repeat(100_000), "}".repeat(100_000));
    assert!(AvroSchema::parse(&deep, &[]).unwrap_err().to_string().contains("recursion limit"));
}

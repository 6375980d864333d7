//! Tests the decoder against values of random schemas, whose bytes and JSON a generator writes side by side.
#![allow(clippy::unwrap_used, reason = "what fails in helpers of tests fails a test")]

use serde_json::{Value, json};

use super::AvroSchema;
use crate::{DEPTH_MAX, row::Json};
use swiftwater_event::Type;

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
    // What is decoded is encoded to a message that decodes to it.
    let of = |ty: Value, datum: &[u8]| {
        let schema = schema(&ty);
        let text = decoded(&schema, datum)?;
        assert_eq!(decoded(&schema, &encoded(&schema, &text).unwrap()).as_ref(), Ok(&text), "{ty}");
        Ok::<String, String>(text)
    };
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

fn encoded(schema: &AvroSchema, row: &str) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    let row = Json::parse(row.as_bytes()).map_err(|fault| fault.to_string())?;
    schema.encode(&row, BYTES_MAX, &mut out).map(|()| out).map_err(|fault| fault.to_string())
}

#[test]
fn random_rows_are_encoded_to_messages_that_decode_to_them() {
    for seed in 0..3000 {
        let mut random = Random(seed);
        let json = random.schema(4, &mut 0);
        let (schema, mut datum) = (schema(&json), Vec::new());
        random.value(&json, &mut datum);
        let row = decoded(&schema, &datum).unwrap();
        let message = encoded(&schema, &row).unwrap_or_else(|fault| panic!("seed {seed}: {fault}: {row}"));
        let again = decoded(&schema, &message).unwrap_or_else(|fault| panic!("seed {seed}: {fault}"));
        let (again, row): (Value, Value) =
            (serde_json::from_str(&again).unwrap(), serde_json::from_str(&row).unwrap());
        assert_eq!(again, row, "seed {seed}: {json}");
    }
}

#[test]
fn values_that_do_not_fit_are_faults_with_their_field() {
    let of = |ty: Value, row: Value| {
        let record = json!({"type": "record", "name": "R", "fields": [{"name": "f", "type": ty}]});
        encoded(&schema(&record), &json!({ "f": row }).to_string()).map_err(|fault| {
            fault.strip_prefix("field `f`: ").unwrap_or_else(|| panic!("no field in: {fault}")).to_owned()
        })
    };
    let logical = |ty: &str, logical: &str| json!({"type": ty, "logicalType": logical});
    let price = json!({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2});
    let colour = json!({"type": "enum", "name": "E", "symbols": ["RED"]});
    for (ty, row, fault) in [
        (json!("int"), json!(1_i64 << 31), "2147483648 does not fit 32 bits"),
        (json!("long"), json!(u64::MAX), "18446744073709551615 does not fit 64 bits"),
        (json!("long"), json!(1.5), "1.5 is no whole number"),
        (json!("long"), json!("1"), "a text is no `long`"),
        (json!("double"), json!((1_i64 << 53) + 1), "9007199254740993 has more digits"),
        (json!("float"), json!(1e39), "1e+39 is beyond the range of 32 bits"),
        (json!("boolean"), json!(1), "a number is no `boolean`"),
        (json!("string"), json!(1), "a number is no `string`"),
        (json!("string"), json!(null), "the value is null, which the schema does not allow"),
        (json!(["string", "long"]), json!(null), "the value is null, which the schema does not allow"),
        (json!(["null", "long"]), json!("x"), "a text is no branch of the schema's union"),
        (json!(["null", "int"]), json!(1_i64 << 31), "2147483648 does not fit 32 bits"),
        (json!("null"), json!(1), "a number is no `null`"),
        (json!("bytes"), json!("%"), "a text is no base64"),
        (json!({"type": "fixed", "name": "F", "size": 2}), json!("AA=="), "it has 1 bytes, and the schema's"),
        (colour.clone(), json!("BLUE"), "the text is none of the symbols"),
        (colour, json!(0), "a number is no symbol of an `enum`"),
        (price.clone(), json!("1.234"), "a decimal does not fit the precision 4 and the scale 2"),
        (price.clone(), json!("100"), "a decimal does not fit the precision 4 and the scale 2"),
        (price, json!("x"), "a text is no decimal"),
        (logical("int", "date"), json!("2026-02-30"), "a text is no date"),
        (logical("int", "time-millis"), json!("24:00:00"), "a text is no time of day"),
        (logical("long", "timestamp-millis"), json!("2026-01-01T00:00:00"), "a text is no time such as"),
        (logical("long", "timestamp-micros"), json!(5), "a number is no time of a unit other than"),
        (json!({"type": "array", "items": "int"}), json!({}), "an object is no `array`"),
        (json!({"type": "map", "values": "int"}), json!([]), "a list is no `map`"),
    ] {
        let found = of(ty.clone(), row.clone()).unwrap_err();
        assert!(found.starts_with(fault), "{row} as {ty}: {found}");
    }
    let inner = json!({"type": "record", "name": "I", "fields": [{"name": "g", "type": "int"}]});
    let nested = json!({"type": "record", "name": "R", "fields": [{"name": "f", "type": ["null", inner]}]});
    let nested = schema(&nested);
    let fault = |row: Value| encoded(&nested, &row.to_string()).unwrap_err();
    assert_eq!(fault(json!({"f": {"g": "x"}})), "field `f.g`: a text is no `int`");
    assert_eq!(
        fault(json!({"f": {}})),
        "field `f.g`: the row has no value for it, and the schema no default"
    );
    assert_eq!(fault(json!({"f": {"g": 1, "h": 2}})), "field `f.h`: the schema has no such field");
    assert_eq!(fault(json!({"f": null, "F": 1})), "field `F`: the schema has no such field");
    assert_eq!(encoded(&nested, "[]").unwrap_err(), "a list is no `record`");
}

#[test]
fn values_take_the_branch_of_their_kind() {
    let of = |branches: Value, row: Value| encoded(&schema(&branches), &row.to_string()).unwrap()[0] / 2;
    for (branches, row, branch) in [
        (json!(["double", "null", "long"]), json!(3), 2),
        (json!(["long", "float", "double"]), json!(0.1), 2),
        (json!(["null", "long"]), json!(3.0), 1),
        (json!(["int", "long"]), json!(1_i64 << 40), 1),
        (json!(["bytes", "string"]), json!("AAAA"), 1),
        (
            json!([{"type": "long", "logicalType": "timestamp-micros"}, "null"]),
            json!("2026-01-01T00:00:00Z"),
            0,
        ),
        (json!([{"type": "enum", "name": "E", "symbols": ["A"]}, "bytes"]), json!("AAAA"), 1),
        (
            json!([
                {"type": "record", "name": "P", "fields": [{"name": "a", "type": "long"}]},
                {"type": "record", "name": "Q", "fields": [{"name": "b", "type": "long"}]},
            ]),
            json!({"b": 1}),
            1,
        ),
    ] {
        assert_eq!(of(branches.clone(), row.clone()), branch, "{row} as {branches}");
    }
}

#[test]
fn missing_fields_have_their_defaults() {
    let inner = json!({"type": "record", "name": "I", "fields": [
        {"name": "n", "type": "int"}, {"name": "m", "type": "string", "default": "x"},
    ]});
    let fields = json!([
        {"name": "a", "type": "long", "default": -1},
        {"name": "b", "type": ["null", "long"]},
        {"name": "c", "type": {"type": "fixed", "name": "F", "size": 2}, "default": "\u{0}\u{ff}"},
        {"name": "d", "type": {"type": "int", "logicalType": "date"}, "default": 1},
        {"name": "e", "type": inner, "default": {"n": 7}},
        {"name": "g", "type": {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 1}, "default": "\u{ff}"},
        {"name": "h", "type": ["long", "null"], "default": 3},
        {"name": "i", "type": "null"},
    ]);
    let of_fields = |fields: &Value| schema(&json!({"type": "record", "name": "R", "fields": fields}));
    let schema = of_fields(&fields);
    let row = |text: &str| -> Value {
        serde_json::from_str(&decoded(&schema, &encoded(&schema, text).unwrap()).unwrap()).unwrap()
    };
    let defaults = json!({
        "a": -1, "b": null, "c": "AP8=", "d": "1970-01-02", "e": {"n": 7, "m": "x"}, "g": "-0.1", "h": 3, "i": null
    });
    assert_eq!(row("{}"), defaults);
    assert_eq!(row(r#"{"h":null,"a":5}"#)["h"], json!(null));
    let invalid = of_fields(&json!([{"name": "a", "type": "long", "default": "x"}]));
    assert_eq!(
        encoded(&invalid, "{}").unwrap_err(),
        "field `a`: the default of the schema is invalid: a text is no `long`"
    );
    assert!(encoded(&invalid, r#"{"a":1}"#).is_ok());
    // Ten defaults in each of ten levels.
    let mut fields = json!([]);
    for level in 0..10 {
        let record = json!({"type": "record", "name": format!("L{level}"), "fields": fields});
        let first = json!({"name": "f0", "type": record, "default": {}});
        let others = (1..10)
            .map(|place| json!({"name": format!("f{place}"), "type": format!("L{level}"), "default": {}}));
        fields = std::iter::once(first).chain(others).collect();
    }
    assert!(encoded(&of_fields(&fields), "{}").unwrap_err().contains("its message has more than"));
}

#[test]
fn columns_are_checked_against_fields() {
    let fields = json!([
        {"name": "a", "type": "long"},
        {"name": "b", "type": "long", "default": 1},
        {"name": "c", "type": ["long", "null"]},
    ]);
    let schema = schema(&json!({"type": "record", "name": "R", "fields": fields}));
    assert_eq!(schema.check_columns(&["b", "a"], true), Ok(()));
    assert_eq!(schema.check_columns(&[], false), Ok(()));
    let fault = |columns: &[&str], are_all| schema.check_columns(columns, are_all).unwrap_err().to_string();
    assert_eq!(fault(&["a", "x"], false), "it has no field `x`, which is a column of the rows");
    assert!(fault(&["b"], true).starts_with("its field `a` needs a value, and the rows have no column `a`"));
    let text = AvroSchema::parse("\"string\"", &[]).unwrap();
    assert_eq!(
        text.check_columns(&[], true).unwrap_err().to_string(),
        "it is no record, and a row has columns"
    );
}

#[test]
fn rows_of_a_schema_of_columns_decode_to_themselves() {
    let columns: Vec<(Box<str>, Type)> =
        ["BOOLEAN", "INTEGER", "LONG", "FLOAT", "DOUBLE", "STRING", "TIMESTAMP", "LIST[MAP[LONG]]"]
            .iter()
            .enumerate()
            .map(|(place, ty)| (format!("c{place}").into(), Type::parse(ty).unwrap()))
            .collect();
    let schema = AvroSchema::parse(&crate::avro_of_columns("t", &columns).unwrap(), &[]).unwrap();
    let full = json!({
        "c0": true, "c1": -1, "c2": i64::MAX, "c3": 0.5, "c4": "NaN", "c5": "é", "c6": "2026-01-02T03:04:05.000006Z",
        "c7": [{"a": 1, "b": null}, null]
    });
    let nulls: serde_json::Map<String, Value> =
        columns.iter().map(|(name, _)| (name.to_string(), Value::Null)).collect();
    for row in [full, Value::Object(nulls)] {
        let message = encoded(&schema, &row.to_string()).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&decoded(&schema, &message).unwrap()).unwrap(), row);
    }
}

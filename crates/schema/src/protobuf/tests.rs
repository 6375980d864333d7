//! Tests messages that the library encodes against JSON that is written beside them.
#![allow(clippy::unwrap_used, reason = "what fails in helpers of tests fails a test")]

use prost_reflect::{
    DescriptorPool, DynamicMessage, Kind, MapKey, MessageDescriptor, ReflectMessage as _, Value as Proto,
    prost::Message as _,
};
use serde_json::{Value, json};

use super::{ProtobufSchema, ROOT};
use crate::{Fault, Registration, Schema, row::Json};

const BYTES_MAX: usize = 1 << 20;

const ALL: &str = r#"
    syntax = "proto3";
    package shop;
    import "google/protobuf/timestamp.proto";
    import "google/protobuf/duration.proto";
    import "google/protobuf/wrappers.proto";
    import "google/protobuf/struct.proto";
    import "google/protobuf/any.proto";
    enum State { OPEN = 0; SHIPPED = 1; }
    message Line { string article = 1; uint32 count = 2; Line next = 3; }
    message Order {
      double f_double = 1; float f_float = 2; int32 f_int32 = 3; int64 f_int64 = 4; uint32 f_uint32 = 5; uint64 f_uint64 = 6;
      sint32 f_sint32 = 7; sint64 f_sint64 = 8; fixed32 f_fixed32 = 9; fixed64 f_fixed64 = 10; sfixed32 f_sfixed32 = 11;
      sfixed64 f_sfixed64 = 12; bool f_bool = 13; string f_string = 14; bytes f_bytes = 15; State state = 16;
      optional int32 maybe = 17; repeated int32 numbers = 18; repeated Line lines = 19; map<string, Line> by_name = 20;
      map<int32, State> states = 21; oneof choice { string text = 22; int64 number = 23; } Line line = 24;
      google.protobuf.Timestamp at = 25; google.protobuf.Duration took = 26; google.protobuf.Int64Value wrapped = 27;
      google.protobuf.Struct free = 28; google.protobuf.Value any_json = 29; google.protobuf.Any any = 30;
    }
    message Outer { map<string, int32> counts = 1; message Middle { message Inner { int32 a = 1; } } message Other { int32 b = 1; } }
"#;

fn pool(text: &str) -> DescriptorPool {
    let mut compiler =
        protox::Compiler::with_file_resolver(super::Files([(ROOT.to_owned(), text.to_owned())].into()));
    compiler.open_file(ROOT).unwrap();
    compiler.descriptor_pool()
}

fn order() -> DynamicMessage {
    DynamicMessage::new(pool(ALL).get_message_by_name("shop.Order").unwrap())
}

/// The JSON of a message of type `shop.Order`, which is the second of its file. As a row it is encoded to a message that decodes to
/// it.
fn decoded(message: &DynamicMessage) -> Result<Value, String> {
    let row = decoded_bytes(&[&[2, 2][..], &message.encode_to_vec()].concat())?;
    let bytes = encoded(&orders(), &row).unwrap_or_else(|fault| panic!("{fault}: {row}"));
    assert_eq!(decoded_bytes(&[&[2, 2][..], &bytes].concat()).as_ref(), Ok(&row));
    Ok(row)
}

fn orders() -> ProtobufSchema {
    ProtobufSchema::of_descriptors(&pool(ALL).encode_to_vec(), Some("shop.Order")).unwrap()
}

fn encoded(schema: &ProtobufSchema, row: &Value) -> Result<Vec<u8>, String> {
    let (row, mut out) = (row.to_string(), Vec::new());
    let row = Json::parse(row.as_bytes()).map_err(|fault| fault.to_string())?;
    schema.encode(&row, BYTES_MAX, &mut out).map(|()| out).map_err(|fault| fault.to_string())
}

fn decoded_bytes(payload: &[u8]) -> Result<Value, String> {
    written(&ProtobufSchema::parse(ALL, &[]).unwrap(), payload).map_err(|fault| fault.to_string())
}

fn written(schema: &ProtobufSchema, payload: &[u8]) -> Result<Value, Fault> {
    let mut out = Vec::new();
    schema.write_json(payload, BYTES_MAX, &mut out)?;
    assert!(!out.contains(&b'\n'));
    Ok(serde_json::from_slice(&out).unwrap())
}

/// The JSON of an order without any field.
fn empty() -> Value {
    json!({
        "f_double": 0.0, "f_float": 0.0, "f_int32": 0, "f_int64": 0, "f_uint32": 0, "f_uint64": 0, "f_sint32": 0, "f_sint64": 0,
        "f_fixed32": 0, "f_fixed64": 0, "f_sfixed32": 0, "f_sfixed64": 0, "f_bool": false, "f_string": "", "f_bytes": "",
        "state": "OPEN", "numbers": [], "lines": [], "by_name": {}, "states": {}
    })
}

fn sub(message: &DynamicMessage, field: &str) -> DynamicMessage {
    let field = message.descriptor_of(field);
    DynamicMessage::new(field)
}

trait Descriptor {
    fn descriptor_of(&self, field: &str) -> prost_reflect::MessageDescriptor;
}

impl Descriptor for DynamicMessage {
    fn descriptor_of(&self, field: &str) -> prost_reflect::MessageDescriptor {
        let field = self.descriptor().get_field_by_name(field).unwrap();
        field.kind().as_message().unwrap().clone()
    }
}

#[test]
fn fields_without_presence_are_written_with_their_default() {
    assert_eq!(decoded(&order()).unwrap(), empty());
    let fields: Vec<(&str, Proto, Value)> = vec![
        ("f_double", Proto::F64(f64::NAN), json!("NaN")),
        ("f_float", Proto::F32(0.1), json!(0.1)),
        ("f_int32", Proto::I32(i32::MIN), json!(i32::MIN)),
        ("f_int64", Proto::I64(i64::MIN), json!(i64::MIN)),
        ("f_uint32", Proto::U32(u32::MAX), json!(u32::MAX)),
        ("f_uint64", Proto::U64(u64::MAX), json!(u64::MAX)),
        ("f_sint32", Proto::I32(-1), json!(-1)),
        ("f_sint64", Proto::I64(-2), json!(-2)),
        ("f_fixed32", Proto::U32(3), json!(3)),
        ("f_fixed64", Proto::U64(4), json!(4)),
        ("f_sfixed32", Proto::I32(-5), json!(-5)),
        ("f_sfixed64", Proto::I64(-6), json!(-6)),
        ("f_bool", Proto::Bool(true), json!(true)),
        ("f_string", Proto::String("é\n\"".to_owned()), json!("é\n\"")),
        ("f_bytes", Proto::Bytes(vec![0, 255].into()), json!("AP8=")),
        ("state", Proto::EnumNumber(1), json!("SHIPPED")),
        ("state", Proto::EnumNumber(9), json!(9)),
        ("maybe", Proto::I32(0), json!(0)),
        ("numbers", Proto::List(vec![Proto::I32(1), Proto::I32(-1)]), json!([1, -1])),
        (
            "states",
            Proto::Map(
                [(MapKey::I32(10), Proto::EnumNumber(1)), (MapKey::I32(9), Proto::EnumNumber(0))].into(),
            ),
            json!({"9": "OPEN", "10": "SHIPPED"}),
        ),
        ("text", Proto::String(String::new()), json!("")),
        ("number", Proto::I64(0), json!(0)),
    ];
    for (field, value, expected) in fields {
        let mut message = order();
        message.set_field_by_name(field, value);
        let mut all = empty();
        all[field] = expected;
        assert_eq!(decoded(&message).unwrap(), all, "{field}");
    }
}

#[test]
fn messages_in_messages_are_objects() {
    let mut message = order();
    let mut line = sub(&message, "line");
    line.set_field_by_name("article", Proto::String("a".to_owned()));
    let mut outer = sub(&message, "line");
    outer.set_field_by_name("next", Proto::Message(line.clone()));
    message.set_field_by_name("line", Proto::Message(outer));
    message.set_field_by_name("lines", Proto::List(vec![Proto::Message(line.clone())]));
    message.set_field_by_name(
        "by_name",
        Proto::Map([(MapKey::String("x".to_owned()), Proto::Message(line))].into()),
    );
    let mut all = empty();
    let line = json!({"article": "a", "count": 0});
    all["line"] = json!({"article": "", "count": 0, "next": line});
    all["lines"] = json!([line]);
    all["by_name"] = json!({"x": line});
    assert_eq!(decoded(&message).unwrap(), all);
}

#[test]
fn well_known_types_have_their_own_form() {
    let with = |field: &str, seconds: i64, nanos: i32| {
        let mut message = order();
        let mut part = sub(&message, field);
        part.set_field_by_name("seconds", Proto::I64(seconds));
        part.set_field_by_name("nanos", Proto::I32(nanos));
        message.set_field_by_name(field, Proto::Message(part));
        decoded(&message).map(|all| all[field].clone())
    };
    assert_eq!(with("at", 1, 5_000_000).unwrap(), json!("1970-01-01T00:00:01.005Z"));
    assert_eq!(with("at", -1, 1).unwrap(), json!("1969-12-31T23:59:59.000000001Z"));
    assert_eq!(with("at", 253_402_300_799, 999_999_999).unwrap(), json!("9999-12-31T23:59:59.999999999Z"));
    assert!(
        with("at", 253_402_300_800, 0)
            .unwrap_err()
            .starts_with("field `at`: 253402300800 s and 0 ns are no Timestamp")
    );
    assert!(with("at", 0, -1).is_err());
    assert_eq!(with("took", 3, 0).unwrap(), json!("3s"));
    assert_eq!(with("took", 0, -500_000_000).unwrap(), json!("-0.5s"));
    assert!(with("took", 1, -1).is_err());
    let mut message = order();
    let mut wrapped = sub(&message, "wrapped");
    message.set_field_by_name("wrapped", Proto::Message(wrapped.clone()));
    assert_eq!(decoded(&message).unwrap()["wrapped"], json!(0));
    wrapped.set_field_by_name("value", Proto::I64(7));
    message.set_field_by_name("wrapped", Proto::Message(wrapped));
    assert_eq!(decoded(&message).unwrap()["wrapped"], json!(7));
    // A struct of a number, a null and a list.
    let mut free = sub(&message, "free");
    let empty_value = sub(&message, "any_json");
    let mut number = empty_value.clone();
    number.set_field_by_name("number_value", Proto::F64(1.5));
    let mut null = empty_value.clone();
    null.set_field_by_name("null_value", Proto::EnumNumber(0));
    let mut list = DynamicMessage::new(empty_value.descriptor_of("list_value"));
    list.set_field_by_name(
        "values",
        Proto::List(vec![Proto::Message(number.clone()), Proto::Message(null.clone())]),
    );
    let mut list_value = empty_value.clone();
    list_value.set_field_by_name("list_value", Proto::Message(list));
    let entry =
        |name: &str, value: &DynamicMessage| (MapKey::String(name.to_owned()), Proto::Message(value.clone()));
    free.set_field_by_name("fields", Proto::Map([entry("n", &number), entry("l", &list_value)].into()));
    message.set_field_by_name("free", Proto::Message(free));
    message.set_field_by_name("any_json", Proto::Message(null));
    let all = decoded(&message).unwrap();
    assert_eq!(all["free"], json!({"n": 1.5, "l": [1.5, null]}));
    assert_eq!(all["any_json"], json!(null));
}

#[test]
fn faulty_messages_are_faults() {
    let mut message = order();
    message.set_field_by_name("f_string", Proto::String("abc".to_owned()));
    message.set_field_by_name("numbers", Proto::List(vec![Proto::I32(1), Proto::I32(300)]));
    let bytes = message.encode_to_vec();
    let mut faults = 0;
    for end in 0..bytes.len() {
        faults += usize::from(decoded_bytes(&[&[2, 2][..], &bytes[..end]].concat()).is_err());
    }
    assert!(faults > bytes.len() / 2, "{faults} of {}", bytes.len());
    for (payload, fault) in [
        (&[][..], "the message ends too early"),
        (&[1], "an index that names its message is negative"),
        (&[2], "the message ends too early"),
        (&[0x80; 6], "an index that names its message is too large"),
        (&[2, 20], "the schema has no message with the indexes [10]"),
        (&[0x80, 1], "64 indexes name its message; at most 32 do"),
        // A wrong wire type, a length beyond the end, bytes that are no text.
        (&[2, 2, 0x70, 1], "it is no message `shop.Order`: "),
        (&[2, 2, 0x72, 100], "it is no message `shop.Order`: "),
        (&[2, 2, 0x72, 1, 0xff], "it is no message `shop.Order`: "),
    ] {
        let found = decoded_bytes(payload).unwrap_err();
        assert!(found.starts_with(fault), "{payload:?}: {found}");
    }
    // Lines in lines: a length and a tag each.
    let mut nested: Vec<u8> = Vec::new();
    for _ in 0..10_000 {
        let mut outer = vec![0x1a];
        let mut length = nested.len();
        while length >= 0x80 {
            outer.push(length as u8 | 0x80);
            length >>= 7;
        }
        outer.push(length as u8);
        outer.extend(&nested);
        nested = outer;
    }
    assert!(decoded_bytes(&[&[0][..], &nested].concat()).unwrap_err().contains("recursion limit"));
    // Two bytes a line, but forty of text.
    let lines = [0x9a, 1, 0].repeat(60_000);
    assert!(
        decoded_bytes(&[&[2, 2][..], &lines].concat()).unwrap_err().contains("its JSON text has more than")
    );
    // Fields that the schema does not have are left out.
    assert_eq!(decoded_bytes(&[2, 2, 0xf8, 0x7f, 1]).unwrap(), empty());
}

#[test]
fn indexes_name_a_message_whether_or_not_they_count_map_fields() {
    let of =
        |payload: &[u8]| decoded_bytes(payload).map_err(|fault| fault.split(':').next().unwrap().to_owned());
    // Outer is the third; its nested messages are Middle and Other, or the map's entry, Middle and Other.
    assert_eq!(of(&[2, 4]).unwrap(), json!({"counts": {}}));
    assert_eq!(of(&[4, 4, 0]).unwrap(), json!({}));
    assert_eq!(of(&[6, 4, 0, 0]).unwrap(), json!({"a": 0}));
    assert_eq!(of(&[6, 4, 2, 0]).unwrap(), json!({"a": 0}));
    assert_eq!(of(&[4, 4, 4]).unwrap(), json!({"b": 0}));
    assert_eq!(
        of(&[4, 4, 2]).unwrap_err(),
        "the indexes [2, 1] mean two messages, as a map field is declared before a nested message"
    );
}

#[test]
fn required_fields_and_old_syntax_are_known() {
    let text = r#"syntax = "proto2"; message M { required int32 a = 1; optional int32 b = 2 [default = 5]; repeated group G = 3 { optional int32 c = 4; } }"#;
    let schema = ProtobufSchema::parse(text, &[]).unwrap();
    assert_eq!(written(&schema, &[0, 8, 1]).unwrap(), json!({"a": 1, "g": []}));
    assert_eq!(written(&schema, &[0, 8, 1, 0x1b, 0x20, 7, 0x1c]).unwrap(), json!({"a": 1, "g": [{"c": 7}]}));
    assert_eq!(written(&schema, &[0]).unwrap_err().to_string(), "field `a`: a required field is missing");
}

#[test]
fn files_of_descriptors_name_their_message() {
    let bytes = pool(ALL).encode_to_vec();
    let schema = ProtobufSchema::of_descriptors(&bytes, Some("shop.Line")).unwrap();
    assert_eq!(written(&schema, &[0x10, 3]).unwrap(), json!({"article": "", "count": 3}));
    let error =
        |bytes: &[u8], message| ProtobufSchema::of_descriptors(bytes, message).unwrap_err().to_string();
    assert_eq!(
        error(&bytes, None),
        "it has several messages: choose one with `message`, of shop.Line, shop.Order, shop.Outer"
    );
    assert_eq!(
        error(&bytes, Some("shop.None")),
        "it has no message `shop.None`: it has shop.Line, shop.Order, shop.Outer"
    );
    assert!(error(b"x", None).contains("protoc --include_imports --descriptor_set_out"));
    let one = pool("syntax = \"proto3\"; message M { int32 a = 1; }").encode_to_vec();
    assert_eq!(
        written(&ProtobufSchema::of_descriptors(&one, None).unwrap(), &[8, 1]).unwrap(),
        json!({"a": 1})
    );
}

#[test]
fn imports_are_the_references() {
    let references = [
        ("b.proto".to_owned(), "syntax = \"proto3\"; package b; message B { int32 n = 1; }".to_owned()),
        (
            "dir/a.proto".to_owned(),
            "syntax = \"proto3\"; package a; import \"b.proto\"; message A { b.B b = 1; }".to_owned(),
        ),
    ];
    let text = "syntax = \"proto3\"; import \"dir/a.proto\"; message M { a.A a = 1; }";
    let schema = ProtobufSchema::parse(text, &references).unwrap();
    assert_eq!(written(&schema, &[0, 10, 4, 10, 2, 8, 5]).unwrap(), json!({"a": {"b": {"n": 5}}}));
    for (text, error) in [
        (text, "dir/a.proto"),
        ("syntax = \"proto3\"; message M { Unknown a = 1; }", "Unknown"),
        ("message {", "expected"),
    ] {
        let found = ProtobufSchema::parse(text, &[]).unwrap_err().to_string();
        assert!(found.contains(error), "{found}");
    }
    let deep = "message A {".repeat(100_000);
    assert!(ProtobufSchema::parse(&deep, &[]).unwrap_err().to_string().contains("nest deeper than 64"));
}

#[test]
fn values_that_do_not_fit_are_faults_with_their_field() {
    let schema = orders();
    for (row, fault) in [
        (json!({"f_int32": 1_i64 << 31}), "field `f_int32`: the number does not fit 32 bits"),
        (json!({"f_uint32": -1}), "field `f_uint32`: the number does not fit 32 bits without a sign"),
        (json!({"f_int64": u64::MAX}), "field `f_int64`: the number does not fit 64 bits"),
        (json!({"f_int64": 1.5}), "field `f_int64`: 1.5 is no whole number"),
        (json!({"f_int64": "1"}), "field `f_int64`: a text is no whole number of 64 bits"),
        (json!({"f_double": (1_i64 << 53) + 1}), "field `f_double`: 9007199254740993 has more digits"),
        (json!({"f_bool": 1}), "field `f_bool`: a number is no boolean"),
        (json!({"f_string": 1}), "field `f_string`: a number is no text"),
        (
            json!({"f_string": null}),
            "field `f_string`: the value is null, and the field cannot be without one",
        ),
        (json!({"numbers": null}), "field `numbers`: null is no list"),
        (json!({"numbers": [null]}), "field `numbers`: the value is null"),
        (json!({"f_bytes": "%"}), "field `f_bytes`: a text is no base64"),
        (json!({"state": "LOST"}), "field `state`: the text is none of the names of the schema's enum"),
        (json!({"text": "a", "number": 1}), "field `text`: it is in one `oneof` with `number`"),
        (json!({"lines": [{"article": 1}]}), "field `lines.article`: a number is no text"),
        (json!({"lines": [{"articles": "a"}]}), "field `lines.articles`: the schema has no such field"),
        (json!({"by_name": {"x": null}}), "field `by_name.x`: the value is null"),
        (json!({"states": {"x": 1}}), "field `states`: the name of a value is no key of the schema's map"),
        (json!({"at": 5}), "field `at`: a number is no text of a time"),
        (json!({"at": "2026-01-01T00:00:00"}), "field `at`: a text is no time such as"),
        (json!({"took": "1h"}), "field `took`: a text is no duration"),
        (json!({"free": []}), "field `free`: a list is no object"),
        (json!({"unknown": 1}), "field `unknown`: the schema has no such field"),
        (json!([]), "a list is no message"),
    ] {
        let found = encoded(&schema, &row).unwrap_err();
        assert!(found.starts_with(fault), "{row}: {found}");
    }
    // Fields that can be without a value are left out for null, and those that the row lacks have their default.
    let row = json!({"maybe": null, "line": null, "at": null, "wrapped": null, "text": null, "number": null, "free": null});
    assert_eq!(encoded(&schema, &row).unwrap(), b"");
    let deep = (0..120).fold(json!({}), |line, _| json!({ "next": line }));
    assert!(encoded(&schema, &json!({ "line": deep })).unwrap_err().contains("nests deeper than 100 levels"));
    let text = "syntax = \"proto2\"; enum E { A = 1; } message M { required int32 a = 1; optional E e = 2; }";
    let old = ProtobufSchema::of_descriptors(&pool(text).encode_to_vec(), None).unwrap();
    assert_eq!(encoded(&old, &json!({})).unwrap_err(), "field `a`: a required field has no value in the row");
    assert_eq!(
        encoded(&old, &json!({"a": null})).unwrap_err(),
        "field `a`: a required field has no value in the row"
    );
    assert_eq!(
        encoded(&old, &json!({"a": 0, "e": 2})).unwrap_err(),
        "field `e`: 2 is no number of the schema's enum"
    );
    assert_eq!(encoded(&old, &json!({"a": 0, "e": "A"})).unwrap(), [8, 0, 16, 1]);
    let fault = |schema: &ProtobufSchema, columns: &[&str]| {
        schema.check_columns(columns, true).unwrap_err().to_string()
    };
    assert_eq!(
        fault(&schema, &["maybe", "x"]),
        "message `shop.Order` has no field `x`, which is a column of the rows"
    );
    assert_eq!(fault(&old, &["e"]), "field `a` of message `M` is required, and the rows have no such column");
    assert_eq!(old.check_columns(&["e"], false), Ok(()));
}

#[test]
fn messages_are_registered_with_their_indexes() {
    let registered = |text: &str, message: &str| {
        let schema = Schema::descriptor_file(&pool(text).encode_to_vec(), Some(message)).unwrap();
        Registration::protobuf(&schema).map_err(|error| error.to_string())
    };
    for (message, row, indexes) in [
        ("shop.Line", json!({"article": "a", "count": 2}), &[0][..]),
        ("shop.Outer", json!({"counts": {"x": 1}}), &[2, 4]),
    ] {
        let registration = registered(ALL, message).unwrap();
        assert_eq!(registration.indexes, indexes);
        // The registered text reads what the schema writes.
        let reader = ProtobufSchema::parse(&registration.text, &[]).unwrap();
        let writer = ProtobufSchema::of_descriptors(&pool(ALL).encode_to_vec(), Some(message)).unwrap();
        let payload = [registration.indexes, encoded(&writer, &row).unwrap()].concat();
        assert_eq!(written(&reader, &payload).unwrap(), row);
    }
    let error = registered(ALL, "shop.Outer.Other").unwrap_err();
    assert!(
        error.starts_with("message `shop.Outer.Other` is declared behind a map field of `shop.Outer`"),
        "{error}"
    );
    let nested = "syntax = \"proto3\"; message A { message B {} message C { message D {} } }";
    assert_eq!(registered(nested, "A.C.D").unwrap().indexes, [6, 0, 2, 0]);
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (bits ^ (bits >> 31)) % end
    }

    /// A file whose messages M0, M1 … have fields of random types; each has fields of those before it.
    fn file(&mut self) -> (String, String) {
        const SCALARS: [&str; 17] = [
            "double",
            "float",
            "int32",
            "int64",
            "uint32",
            "uint64",
            "sint32",
            "sint64",
            "fixed32",
            "fixed64",
            "sfixed32",
            "sfixed64",
            "bool",
            "string",
            "bytes",
            "E",
            "google.protobuf.Timestamp",
        ];
        const KEYS: [&str; 4] = ["string", "int32", "uint64", "bool"];
        let mut text = "syntax = \"proto3\"; import \"google/protobuf/timestamp.proto\"; enum E { A = 0; B = 1; C = -5; }".to_owned();
        let messages = 1 + self.below(4);
        for message in 0..messages {
            text.push_str(&format!(" message M{message} {{"));
            for field in 1..=self.below(7) {
                let ty = match self.below(4) {
                    0 if message > 0 => format!("M{}", self.below(message)),
                    _ => SCALARS[self.below(17) as usize].to_owned(),
                };
                let label = match self.below(5) {
                    0 => format!("repeated {ty}"),
                    1 => format!("map<{}, {ty}>", KEYS[self.below(4) as usize]),
                    2 => format!("optional {ty}"),
                    _ => ty,
                };
                text.push_str(&format!(" {label} f{field} = {};", field * 3));
            }
            text.push_str(" }");
        }
        (text, format!("M{}", messages - 1))
    }

    /// A number of any magnitude.
    fn bits(&mut self) -> u64 {
        let shift = self.below(64);
        self.below(u64::MAX) >> shift
    }

    fn scalar(&mut self, kind: &Kind) -> Proto {
        match kind {
            Kind::Double => Proto::F64((self.bits() as i64) as f64 / 7.0),
            Kind::Float => Proto::F32((self.bits() as i64) as f32 / 7.0),
            Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => Proto::I32(self.bits() as i32),
            Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => Proto::I64(self.bits() as i64),
            Kind::Uint32 | Kind::Fixed32 => Proto::U32(self.bits() as u32),
            Kind::Uint64 | Kind::Fixed64 => Proto::U64(self.bits()),
            Kind::Bool => Proto::Bool(self.below(2) == 1),
            Kind::String => Proto::String("é\"\n".repeat(self.below(3) as usize)),
            Kind::Bytes => Proto::Bytes(vec![0xff; self.below(4) as usize].into()),
            Kind::Enum(_) => Proto::EnumNumber([0, 1, -5, 7][self.below(4) as usize]),
            Kind::Message(message) if message.name() == "Timestamp" => {
                let mut time = DynamicMessage::new(message.clone());
                let seconds = self.below(300_000_000_000) as i64 - 60_000_000_000;
                time.set_field_by_number(1, Proto::I64(seconds));
                time.set_field_by_number(2, Proto::I32(self.below(1_000_000_000) as i32));
                Proto::Message(time)
            }
            Kind::Message(message) => Proto::Message(self.message(message)),
        }
    }

    fn message(&mut self, message: &MessageDescriptor) -> DynamicMessage {
        let mut written = DynamicMessage::new(message.clone());
        for field in message.fields() {
            if self.below(4) == 0 {
                continue;
            }
            let value = match field.kind() {
                Kind::Message(entry) if field.is_map() => {
                    let (key, value) =
                        (entry.map_entry_key_field().kind(), entry.map_entry_value_field().kind());
                    let entry = |random: &mut Random| {
                        let key = match random.scalar(&key) {
                            Proto::Bool(key) => MapKey::Bool(key),
                            Proto::I32(key) => MapKey::I32(key),
                            Proto::U64(key) => MapKey::U64(key),
                            Proto::String(key) => MapKey::String(key),
                            other => panic!("{other:?}"),
                        };
                        (key, random.scalar(&value))
                    };
                    Proto::Map((0..self.below(3)).map(|_| entry(self)).collect())
                }
                kind if field.is_list() => {
                    Proto::List((0..self.below(3)).map(|_| self.scalar(&kind)).collect())
                }
                kind => self.scalar(&kind),
            };
            written.set_field(&field, value);
        }
        written
    }
}

#[test]
fn random_rows_are_encoded_to_messages_that_decode_to_them() {
    for seed in 0..500 {
        let mut random = Random(seed);
        let (text, name) = random.file();
        let pool = pool(&text);
        let schema = ProtobufSchema::of_descriptors(&pool.encode_to_vec(), Some(&name)).unwrap();
        let message = pool.get_message_by_name(&name).unwrap();
        for _ in 0..5 {
            let message = random.message(&message);
            let row = written(&schema, &message.encode_to_vec()).unwrap();
            let bytes =
                encoded(&schema, &row).unwrap_or_else(|fault| panic!("seed {seed}: {fault}: {row} {text}"));
            assert_eq!(written(&schema, &bytes).unwrap(), row, "seed {seed}: {text}");
            let read = |bytes: &[u8]| DynamicMessage::decode(message.descriptor(), bytes).unwrap();
            assert_eq!(read(&bytes), read(&message.encode_to_vec()), "seed {seed}: {text}");
        }
    }
}

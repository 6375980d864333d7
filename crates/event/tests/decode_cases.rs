//! Tests of decoding: which values fit each type, path by path.

#![allow(clippy::unwrap_used, reason = "a test")]

use bumpalo::Bump;
use bytes::Bytes;
use swiftwater_event::{
    CheckLimits, DecodePlan, Decoder, Path, Type, Value, Values, Want, check_block, write_json,
};

/// Decodes `path AS ty` of one event; the value as JSON, `error`, or `mistyped`.
fn decode(event: &str, path: &str, ty: &str) -> String {
    let limits = CheckLimits { depth_max: 512, ..CheckLimits::default() };
    let batch = check_block(Bytes::copy_from_slice(event.as_bytes()), &limits, 1).batch;
    assert_eq!(batch.len(), 1, "{event}");
    let plan = DecodePlan::new([Want { path: Path::parse(path).unwrap(), ty: Type::parse(ty).unwrap() }]);
    let decoded = Decoder::new().decode(&batch, &plan);
    let column = &decoded.columns[0];
    let arena = Bump::new();
    let value = column.value(0, &arena);
    let mut out = Vec::new();
    write_json(&value, &mut out);
    match value {
        Value::Error => "error".to_owned(),
        Value::Null if column.mistyped.is_some() => "mistyped".to_owned(),
        _ if column.mistyped.is_some() => format!("{} mistyped", String::from_utf8(out).unwrap()),
        _ => String::from_utf8(out).unwrap(),
    }
}

/// `cases`: a JSON value and what it is when wanted as `ty`.
fn check(ty: &str, cases: &[(&str, &str)]) {
    for (json, expected) in cases {
        assert_eq!(decode(&format!("{{\"a\":{json}}}"), "a", ty), *expected, "{json} AS {ty}");
        assert_eq!(
            decode(&format!("{{ \"x\" : [1] , \"a\" : {json} , \"y\":2}}"), "a", ty),
            *expected,
            "{json} AS {ty}"
        );
    }
}

#[test]
fn booleans() {
    check(
        "BOOLEAN",
        &[
            ("true", "true"),
            ("false", "false"),
            ("null", "null"),
            ("1", "mistyped"),
            ("\"true\"", "mistyped"),
        ],
    );
}

#[test]
fn whole_numbers() {
    let shared = [
        ("5", "5"),
        ("-5.0", "-5"),
        ("1e3", "1000"),
        ("-0", "0"),
        ("5.5", "mistyped"),
        ("\"5\"", "mistyped"),
    ];
    check("INTEGER", &shared);
    check("LONG", &shared);
    check("INTEGER", &[("2147483647", "2147483647"), ("2147483648", "mistyped"), ("true", "mistyped")]);
    check(
        "LONG",
        &[
            ("9223372036854775807", "9223372036854775807"),
            ("-9223372036854775808", "-9223372036854775808"),
            ("9223372036854775808", "mistyped"),
            ("9007199254740993.0", "9007199254740993"),
            ("1e400", "mistyped"),
            ("{}", "mistyped"),
        ],
    );
}

#[test]
fn other_numbers() {
    check(
        "DOUBLE",
        &[("5", "5.0"), ("0.1", "0.1"), ("-0", "-0.0"), ("1e400", "\"Infinity\""), ("[]", "mistyped")],
    );
    check(
        "DOUBLE",
        &[
            ("123456789012345678901234567890", "1.2345678901234568e29"),
            ("1.5687530979449513e29", "1.5687530979449513e29"),
        ],
    );
    // Rounded once: through a double it would be 1.0000001.
    check(
        "FLOAT",
        &[("0.1", "0.1"), ("1.00000017881393432617187499", "1.0000001"), ("-1e40", "\"-Infinity\"")],
    );
}

#[test]
fn numbers_that_are_not_finite_are_read_as_they_are_written() {
    let (nan, infinity, negative) = ("\"NaN\"", "\"Infinity\"", "\"-Infinity\"");
    for ty in ["DOUBLE", "FLOAT"] {
        check(ty, &[(nan, nan), (infinity, infinity), (negative, negative)]);
        check(ty, &[("\"nan\"", "mistyped"), ("\"5\"", "mistyped"), ("\"\"", "mistyped")]);
        check(&format!("LIST[{ty}]"), &[(r#"[1,"NaN",null]"#, r#"[1.0,"NaN",null]"#)]);
        check(&format!("MAP[MAP[{ty}]]"), &[(r#"{"a":{"b":"-Infinity"}}"#, r#"{"a":{"b":"-Infinity"}}"#)]);
    }
    check("LONG", &[(nan, "mistyped")]);
    check("ANY", &[(nan, nan)]);
}

#[test]
fn texts() {
    check(
        "STRING",
        &[(r#""""#, r#""""#), (r#""x""#, r#""x""#), ("5", "mistyped"), ("{}", "mistyped"), ("null", "null")],
    );
    check(
        "STRING",
        &[(r#""exactly 12 b""#, r#""exactly 12 b""#), (r#""one more: 13b""#, r#""one more: 13b""#)],
    );
    check(
        "STRING",
        &[(r#""\"\\\/\b\f\n\r\t\u00e4\ud83d\ude00""#, "\"\\\"\\\\/\\u0008\\u000c\\n\\r\\tä😀\"")],
    );
    check("STRING", &[(r#""a longer text with an \n escape""#, r#""a longer text with an \n escape""#)]);
    check(
        "STRING",
        &[
            (r#""ends in a backslash \\""#, r#""ends in a backslash \\""#),
            (r#""},{\"b\":[""#, r#""},{\"b\":[""#),
        ],
    );
}

#[test]
fn times() {
    let noon = "\"2026-01-01T12:00:00.000Z\"";
    check(
        "TIMESTAMP",
        &[
            ("\"2026-01-01T13:00:00+01:00\"", noon),
            ("\"2026-01-01 12:00:00\"", noon),
            ("1767268800000", noon),
        ],
    );
    check(
        "TIMESTAMP(S)",
        &[("1767268800", noon), ("1.7672688e9", noon), ("9223372036854775807", "mistyped")],
    );
    check("TIMESTAMP(US)", &[("1767268800000001", "\"2026-01-01T12:00:00.000001Z\"")]);
    check("TIMESTAMP(NS)", &[("1767268800000000999", noon), ("-1", "\"1969-12-31T23:59:59.999999Z\"")]);
    check(
        "TIMESTAMP",
        &[
            (r#""2026-01-01T12:00:00\u005a""#, noon),
            ("\"noon\"", "mistyped"),
            ("1.5", "mistyped"),
            ("true", "mistyped"),
        ],
    );
}

#[test]
fn anything() {
    for json in ["true", "5", "-5", "0.5", "\"x\"", "null", "[1,[2.0,{}]]", r#"{"b":[],"c":null}"#] {
        check("ANY", &[(json, json)]);
    }
    check(
        "ANY",
        &[
            ("-0", "0"),
            ("-0.0", "-0.0"),
            ("5.0", "5.0"),
            ("9223372036854775808", "9.223372036854776e18"),
            ("1e400", "\"Infinity\""),
        ],
    );
    check("ANY", &[(r#"{"b":1,"c":2,"b":3}"#, r#"{"c":2,"b":3}"#)]);
}

#[test]
fn containers() {
    check(
        "LIST[LONG]",
        &[
            ("[1,2.0,null]", "[1,2,null]"),
            ("[]", "[]"),
            ("[1,\"x\",{}]", "[1,null,null] mistyped"),
            ("{}", "mistyped"),
        ],
    );
    check(
        "MAP[STRING]",
        &[
            (r#"{"b":"x","c":null}"#, r#"{"b":"x","c":null}"#),
            (r#"{"b":1}"#, r#"{"b":null} mistyped"#),
            ("[]", "mistyped"),
        ],
    );
    check("MAP[LONG]", &[(r#"{"b":1,"c":2,"\u0062":3}"#, r#"{"c":2,"b":3}"#), ("null", "null")]);
    check("LIST[MAP[BOOLEAN]]", &[(r#"[{"b":true},5,null,{}]"#, r#"[{"b":true},null,null,{}] mistyped"#)]);
    check(
        "MAP[LIST[TIMESTAMP]]",
        &[(r#"{"b":[0,"x"]}"#, r#"{"b":["1970-01-01T00:00:00.000Z",null]} mistyped"#)],
    );
    check("LIST[ANY]", &[(r#"[1,"x",{}]"#, r#"[1,"x",{}]"#), ("{}", "mistyped")]);
}

#[test]
fn paths_end_in_values_nothing_or_errors() {
    for (event, path, expected) in [
        (r#"{"a":{"b":1}}"#, "a.b", "1"),
        (r#"{"a":{"b":1}}"#, "a.c", "null"),
        (r#"{"a":null}"#, "a.b", "null"),
        (r#"{"a":null}"#, "a[0]", "null"),
        ("{}", "a[0].b", "null"),
        (r#"{"a":[1,2]}"#, "a[1]", "2"),
        (r#"{"a":[1,2]}"#, "a[2]", "error"),
        (r#"{"a":[]}"#, "a[0].b", "error"),
        (r#"{"a":[{"b":null}]}"#, "a[0].b.c", "null"),
        (r#"{"a":[1]}"#, "a.b", "error"),
        (r#"{"a":{"b":1}}"#, "a[0]", "error"),
        (r#"{"a":"x"}"#, "a.b", "error"),
        (r#"{"a":"x"}"#, "a[0]", "error"),
        (r#"{"a":5,"a":{"b":1}}"#, "a.b", "1"),
        (r#"{"a":{"b":1},"a":{}}"#, "a.b", "null"),
        (r#"{"a":{"b":1},"a":5}"#, "a.b", "error"),
        (r#"{"a":5,"a":null}"#, "a.b", "null"),
        (r#"{"a":1,"\u0061":2}"#, "a", "2"),
        (r#"{"":{"a b":1}}"#, "['']['a b']", "1"),
        (r#"{"x":"\\\"","a":1}"#, "a", "1"),
    ] {
        assert_eq!(decode(event, path, "ANY"), expected, "{path} in {event}");
    }
}

#[test]
fn deep_nesting_is_walked_and_read() {
    let deep = format!("{}{}", "[".repeat(510), "]".repeat(510));
    assert_eq!(decode(&format!("{{\"a\":{deep},\"b\":1}}"), "b", "LONG"), "1");
    assert_eq!(decode(&format!("{{\"a\":{deep}}}"), "a", "ANY"), deep);
}

#[test]
fn keys_may_change_their_order_from_event_to_event() {
    let text = b"{\"a\":1,\"b\":2}\n{\"b\":2,\"a\":1}\n{\"a\" :1}\n{\"ab\":0,\"b\":2,\"a\":1}\n{\"a\":  1,\"b\":0}\n{}\n{\"a\":1}";
    let batch = check_block(Bytes::from_static(text), &CheckLimits::default(), 1).batch;
    let plan = DecodePlan::new([Want { path: Path::field("a"), ty: Type::LONG }]);
    let decoded = Decoder::new().decode(&batch, &plan);
    let Values::Long(longs) = &decoded.columns[0].values else { panic!("not longs") };
    assert_eq!(
        longs.iter().collect::<Vec<_>>(),
        [Some(1), Some(1), Some(1), Some(1), Some(1), None, Some(1)]
    );
}

#[test]
fn texts_are_views_into_the_batch() {
    let batch =
        check_block(Bytes::from_static(b"{\"a\":\"a text of some length\"}"), &CheckLimits::default(), 1)
            .batch;
    let plan = DecodePlan::new([Want { path: Path::field("a"), ty: Type::STRING }]);
    let decoded = Decoder::new().decode(&batch, &plan);
    let Values::String(strings) = &decoded.columns[0].values else { panic!("not strings") };
    assert_eq!(strings.value(0).as_ptr(), batch.bytes()[6..].as_ptr());
}

//! Generates random JSON.

#![allow(clippy::unwrap_used, unreachable_pub, reason = "a test")]

use proptest::prelude::*;

/// Any value, up to `depth` levels deep.
pub fn json(depth: u32) -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        Just("false".to_owned()),
        any::<i64>().prop_map(|n| n.to_string()),
        (-9i64..9).prop_map(|n| n.to_string()),
        any::<u64>().prop_map(|n| n.to_string()),
        any::<i32>().prop_map(|n| format!("{:?}", f64::from(n) / 4.0)),
        // serde_json reads numbers like these exactly, though not all of more digits.
        (any::<i32>(), -20i32..20).prop_map(|(n, power)| format!("{n}e{power}")),
        string(),
        Just(r#""\ud83d\ude00\n\/\u00e4""#.to_owned()),
    ];
    leaf.prop_recursive(depth, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(|parts| format!("[{}]", parts.join(","))),
            object(inner),
        ]
    })
}

fn string() -> impl Strategy<Value = String> {
    "[ -~äß€😀]{0,20}".prop_map(|text| serde_json::to_string(&text).unwrap())
}

/// Any object with such values, with few keys, so that some are equal, some of them escaped, and any white space.
pub fn object(value: impl Strategy<Value = String>) -> impl Strategy<Value = String> {
    let spaces = prop_oneof![4 => Just(""), 1 => Just(" "), 1 => Just("\n"), 1 => Just(" \r\n\t")];
    let key = prop_oneof![
        4 => "[a-e\\\\\"ü]{0,2}".prop_map(|key| serde_json::to_string(&key).unwrap()),
        1 => Just(r#""\u0061""#.to_owned()),
    ];
    prop::collection::vec((key, spaces, value), 0..6).prop_map(|fields| {
        let field = |(key, space, value): &(String, &str, String)| {
            format!("{space}{key}{space}:{space}{value}{space}")
        };
        format!("{{{}}}", fields.iter().map(field).collect::<Vec<_>>().join(","))
    })
}

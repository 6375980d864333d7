//! Laws: what a plan prints reads as the same plan; no text makes the parser panic.

use proptest::prelude::*;
use swiftwater_lang::{
    Dialect, ParseOptions, parse,
    plan::{Body, Expr},
};

fn options(dialect: Dialect) -> ParseOptions<'static> {
    ParseOptions::new(dialect, 1_700_000_000_123)
}

/// The plan of an expression; `None` where it is not one.
fn plan(text: &str) -> Option<Expr> {
    let statement = parse(&format!("SELECT {text} AS x FROM STREAM()"), &options(Dialect::Native)).ok()?;
    match statement.query.body {
        Body::Raw(raw) => raw.columns.into_iter().next().map(|column| column.expr),
        Body::Group(_) => None,
    }
}

fn leaf() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(vec![
            "a",
            "b.c",
            "m['k k']",
            "l[0].x",
            "\"select\"",
            "\"a \"\"b\"",
            "\"now\"",
            "\"all\"",
            "f : LONG",
            "m.k : MAP[STRING]",
            "l[2].k : LIST[MAP[DOUBLE]]",
            "a.case",
            "g[h]",
            "g[-1]['x']",
            "m[s] : MAP[BOOLEAN]",
            "NULL",
            "true",
            "false",
            "NOW",
            "''",
            "'it''s'",
            "'%_\\'",
            "0",
            "-1",
            "+7",
            "5L",
            "-5L",
            "10000000000",
            "2147483648",
            "-2147483648",
            ".5",
            "-0.0",
            "1e300",
            "1.5e-7",
            "12345678.9",
            "3.25f",
            "-1e10f",
            "max",
            "time",
        ])
        .prop_map(str::to_owned),
        any::<i64>().prop_map(|value| value.to_string()),
        any::<f64>().prop_filter("finite", |value| value.is_finite()).prop_map(|value| format!("{value:?}")),
    ]
}

/// Texts of expressions, most of them valid.
fn expression() -> impl Strategy<Value = String> {
    leaf().prop_recursive(6, 40, 3, |inner| {
        let infix = prop::sample::select(vec![
            "+",
            "-",
            "*",
            "/",
            "%",
            "||",
            "=",
            "==",
            "!=",
            "<>",
            "<",
            "<=",
            ">",
            ">=",
            "AND",
            "OR",
            "XOR",
            "= ANY",
            "< ALL",
            "> ALL",
            "RLIKE",
            "NOT RLIKE",
            "RLIKE ANY",
            "NOT RLIKE ANY",
            "LIKE",
            "NOT LIKE",
            "IN",
            "NOT IN",
        ]);
        let call = prop::sample::select(vec![
            "SIZEOF(A)",
            "SIZEIS(A, B)",
            "CONTAINSKEY(A, B)",
            "CONTAINSVALUE(A, B)",
            "FILTER(A, B)",
            "IF(A, B, C)",
            "COALESCE(A, B, C)",
            "ABS(A)",
            "TRIM(A)",
            "LOWER(A)",
            "UPPER(A)",
            "SUBSTRING(A, B)",
            "SUBSTR(A, B, C)",
            "UNIXTIMESTAMP()",
            "UNIXTIMESTAMP(A, B)",
            "HASH(A)",
            "BETWEEN(A, B, C)",
            "CAST(A AS LONG)",
            "CAST(A AS TIMESTAMP(S))",
            "A BETWEEN (B, C)",
            "A NOT BETWEEN (B, C)",
            "A BETWEEN B AND C",
            "A IN (B, C)",
            "A NOT IN (B)",
            "A IN [B, C]",
            "[A, B, C]",
            "CASE WHEN A THEN B ELSE C END",
            "CASE A WHEN B THEN C END",
            "A IS NULL",
            "A IS NOT NULL",
            "NOT A",
            "-A",
            "- (A)",
            "(A)",
            "(A)[B]",
            "(A)['k'][0]",
            "(A).k",
            "g[A].x[B]",
        ]);
        prop_oneof![
            (inner.clone(), infix, inner.clone()).prop_map(|(a, infix, b)| format!("{a} {infix} {b}")),
            (call, inner.clone(), inner.clone(), inner).prop_map(|(call, a, b, c)| {
                // Letters that stand alone are the places of operands.
                let mut text = String::new();
                for (at, letter) in call.char_indices() {
                    let alone = |other: Option<char>| !other.is_some_and(char::is_alphanumeric);
                    let is_place =
                        alone(call[..at].chars().next_back()) && alone(call[at + 1..].chars().next());
                    match letter {
                        'A' if is_place => text.push_str(&a),
                        'B' if is_place => text.push_str(&b),
                        'C' if is_place => text.push_str(&c),
                        _ => text.push(letter),
                    }
                }
                text
            }),
        ]
    })
}

/// Texts made of the language's own pieces.
fn soup() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "SELECT",
        "DISTINCT",
        "*",
        "a",
        "b",
        "FROM",
        "STREAM()",
        "STREAM(",
        "WHERE",
        "GROUP BY",
        "HAVING",
        "ORDER BY",
        "LIMIT",
        "5",
        "WINDOWING",
        "TUMBLING(",
        "EVERY(",
        "TIME",
        "RECORD",
        "FIRST",
        "ALL",
        "ANY",
        "(",
        ")",
        "[",
        "]",
        ",",
        ".",
        ":",
        ";",
        "+",
        "-",
        "--",
        "/*",
        "'x'",
        "\"y\"",
        "'",
        "\"",
        "AND",
        "OR",
        "NOT",
        "IN",
        "BETWEEN",
        "IS NULL",
        "CASE",
        "WHEN",
        "THEN",
        "END",
        "COUNT(*)",
        "SUM(",
        "CAST(",
        "AS",
        "LONG",
        "IF(",
        "SAMPLE",
        "INTERVAL",
        "NOW",
        "é",
        "😀",
    ]);
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.join(" "))
}

fn never_panics(text: &str) {
    for dialect in [Dialect::Native, Dialect::Bullet] {
        match parse(text, &options(dialect)) {
            Ok(statement) => {
                let _ = statement.query.to_string();
            }
            Err(errors) => {
                assert!(!errors.0.is_empty());
                let _ = errors.to_string();
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_printed_plan_reads_as_the_same_plan(text in expression()) {
        if let Some(planned) = plan(&text) {
            let printed = planned.to_string();
            let again = plan(&printed);
            prop_assert_eq!(again.as_ref(), Some(&planned), "{} printed as {}", text, printed);
        }
    }

    #[test]
    fn no_text_panics(text in "\\PC{0,200}", bytes in prop::collection::vec(any::<u8>(), 0..100)) {
        never_panics(&text);
        never_panics(&String::from_utf8_lossy(&bytes));
        never_panics(&format!("SELECT {text} FROM STREAM() WHERE {text}"));
    }

    #[test]
    fn no_soup_panics(text in soup(), expression in expression()) {
        never_panics(&text);
        never_panics(&format!("SELECT {expression} {text}"));
        never_panics(&format!("SELECT {expression}, COUNT(*) FROM STREAM() GROUP BY {expression} ORDER BY {expression}"));
    }
}

#[test]
fn most_generated_expressions_are_valid() {
    use proptest::{strategy::ValueTree, test_runner::TestRunner};
    let mut runner = TestRunner::deterministic();
    let strategy = expression();
    let valid =
        (0..1000).filter(|_| plan(&strategy.new_tree(&mut runner).unwrap().current()).is_some()).count();
    assert!(valid > 400, "{valid} of 1000");
}

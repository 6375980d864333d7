//! Tests of every operator and function over small events, in both dialects, and properties that are true of all of them.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::fmt::Write;

use bumpalo::Bump;
use proptest::prelude::*;
use swiftwater_event::{CheckLimits, Checker, DecodePlan, Decoded, Decoder, Path, Type, Value, WantId};
use swiftwater_lang::{Dialect, ParseOptions, Schema, plan};
use swiftwater_live::expr::{EvalCounts, Program, Rows, Scratch, Wants};

use Dialect::{Bullet, Native};

/// 2026-01-01T00:00:00Z.
pub(crate) const NOW: i64 = 1_767_225_600_000;

const EVENT: &str = r#"{"i": 5, "n": -3, "big": 10000000000, "max": 9223372036854775807, "d": 2.5, "zero": 0,
    "s": "abc", "t": true, "f": false, "null": null, "num": "5.7", "e": "", "u": "Stra\u00dfe", "emoji": "\ud83d\ude00ab",
    "il": [1, 2, 3], "mixed": [1, "a", null], "nulls": [1, null], "empty": [], "bl": [true, false, true],
    "m": {"x": 1, "y": 2}, "mm": {"o": {"x": "deep"}}, "ml": [{"x": "a"}, {"y": "b"}], "ll": [[1], [2]],
    "ts": "2026-01-01T00:00:00Z"}"#;

pub(crate) fn compile(
    dialect: Dialect,
    expr: &str,
    schema: Option<&Schema>,
) -> Result<(Program, Wants), String> {
    let mut options = ParseOptions::new(dialect, NOW);
    options.schema = schema;
    let statement = swiftwater_lang::parse(&format!("SELECT {expr} AS v FROM STREAM()"), &options)
        .map_err(|errors| errors.to_string())?;
    let plan::Body::Raw(raw) = &statement.query.body else { return Err("no RAW query".to_owned()) };
    let mut wants = Wants::new();
    let program =
        Program::compile(&raw.columns[0].expr, dialect, &mut wants).map_err(|error| error.to_string())?;
    Ok((program, wants))
}

pub(crate) fn decode(events: &str, wants: &Wants) -> (Decoded, Vec<WantId>) {
    let plan = DecodePlan::new(wants.as_slice().iter().cloned());
    let bindings = wants.as_slice().iter().map(|want| plan.find(want).unwrap()).collect();
    let mut checker = Checker::new(CheckLimits::default());
    let first = checker.push(format!("{events}\n").into_bytes().into());
    let rest = checker.finish();
    let batch = if first.batch.is_empty() { rest.batch } else { first.batch };
    (Decoder::new().decode(&batch, &plan), bindings)
}

/// The value over [`EVENT`] as text, with the count of errors behind it where there are any.
fn eval(dialect: Dialect, expr: &str) -> String {
    eval_typed(dialect, expr, None)
}

fn eval_typed(dialect: Dialect, expr: &str, schema: Option<&Schema>) -> String {
    let (program, wants) = match compile(dialect, expr, schema) {
        Ok(compiled) => compiled,
        Err(why) => return format!("! {why}"),
    };
    let (decoded, bindings) = decode(&EVENT.replace('\n', " "), &wants);
    let rows = Rows::Events { decoded: &decoded, bindings: &bindings, rows: &[0], now: NOW };
    let (mut scratch, arena, mut counts) = (Scratch::new(), Bump::new(), EvalCounts::default());
    let mut values = Vec::new();
    program.evaluate(&rows, &mut scratch, &arena, &mut counts, &mut values);
    let mut text = String::new();
    show(&values[0], &mut text);
    if counts.expression_errors > 0 && dialect == Native {
        let _ = write!(text, " ({})", counts.expression_errors);
    }
    text
}

fn show(value: &Value<'_>, out: &mut String) {
    let _ = match value {
        Value::Null => write!(out, "null"),
        Value::Error => write!(out, "error"),
        Value::Boolean(truth) => write!(out, "{truth}"),
        Value::Integer(number) => write!(out, "{number}"),
        Value::Long(number) => write!(out, "{number}L"),
        Value::Float(number) => write!(out, "{number:?}f"),
        Value::Double(number) => write!(out, "{number:?}"),
        Value::String(text) => write!(out, "'{text}'"),
        Value::Timestamp(micros) => write!(out, "@{micros}"),
        Value::List(items) => {
            out.push('[');
            for item in *items {
                show(item, out);
                out.push(' ');
            }
            write!(out, "]")
        }
        Value::Map(entries) => {
            out.push('{');
            for (key, item) in *entries {
                let _ = write!(out, "{key}=");
                show(item, out);
                out.push(' ');
            }
            write!(out, "}}")
        }
    };
}

/// Rows of expression, Bullet's value, our own; where the last is `=`, it is the same, but for LONG instead of INTEGER.
fn check(table: &[(&str, &str, &str)]) {
    for (expr, bullet, native) in table {
        if !bullet.is_empty() {
            assert_eq!(eval(Bullet, expr), *bullet, "{expr} in Bullet");
        }
        let got = eval(Native, expr);
        if *native == "=" {
            assert_eq!(got.replace('L', ""), bullet.replace('L', ""), "{expr} in native");
        } else {
            assert_eq!(got, *native, "{expr} in native");
        }
    }
}

#[test]
fn arithmetic() {
    check(&[
        ("i + 1", "6", "6L"),
        ("i - 1L", "4L", "="),
        ("i * d", "12.5", "="),
        ("i + 1.5f", "6.5f", "="),
        ("7 / 2", "3", "3L"),
        ("n / 2", "-1", "-1L"),
        ("n % 2", "-1", "-1L"),
        ("d % 2", "0.5", "="),
        ("i / zero", "error", "null (1)"),
        ("i % 0", "error", "null (1)"),
        ("d / 0", "inf", "null (1)"),
        ("2147483647 + 1", "-2147483648", "2147483648L"),
        ("max + 1", "-9223372036854775808L", "null (1)"),
        ("max * 2", "-2L", "null (1)"),
        ("i + s", "error", "null (1)"),
        ("i + t", "error", "null (1)"),
        ("i + missing", "null", "null"),
        ("missing + s", "null", "null"),
        ("s + missing", "null", "null"),
        ("(i / 0) + (i / 0)", "error", "null (2)"),
        ("ABS(n)", "3", "3L"),
        ("ABS(d)", "2.5", "="),
        ("ABS(s)", "error", "null (1)"),
        ("ABS(missing)", "null", "null"),
    ]);
}

#[test]
fn comparison() {
    check(&[
        ("i = 5", "true", "="),
        ("i = 5.0", "true", "="),
        ("5 < d", "false", "="),
        ("2 < d", "true", "="),
        ("i >= d", "true", "="),
        ("s = 'abc'", "true", "="),
        ("s != 'abc'", "false", "="),
        ("s < 'b'", "true", "="),
        ("s = 5", "error", "null (1)"),
        ("s = i", "error", "null (1)"),
        ("t = true", "true", "="),
        ("f < t", "true", "="),
        ("il = il", "error", "null (1)"),
        ("missing = 5", "null", "null"),
        ("i = missing", "null", "null"),
        ("i = (1 / zero)", "error", "null (1)"),
        ("zero = 0", "true", "="),
        ("max > 9223372036854775806", "true", "="),
    ]);
}

#[test]
fn quantified_comparison() {
    check(&[
        ("i > ANY il", "true", "="),
        ("i = ANY il", "false", "="),
        ("i > ALL il", "true", "="),
        ("i != ALL [1, 5]", "false", "="),
        ("i = ANY nulls", "null", "="),
        ("i > ALL nulls", "null", "="),
        ("i < ALL nulls", "false", "="),
        ("i > ANY nulls", "true", "="),
        ("i > ANY mixed", "error", "true"),
        ("i = ANY mixed", "error", "null (1)"),
        ("i = ANY empty", "false", "="),
        ("i = ALL empty", "true", "="),
        ("i = ANY s", "error", "null (1)"),
        ("missing = ANY il", "null", "="),
        ("i = ANY missing", "null", "="),
    ]);
}

#[test]
fn logic() {
    check(&[
        ("t AND f", "false", "="),
        ("t AND missing", "null", "="),
        ("f AND missing", "false", "="),
        ("missing AND f", "false", "="),
        ("t OR missing", "true", "="),
        ("missing OR t", "true", "="),
        ("f OR missing", "null", "="),
        ("t XOR f", "true", "="),
        ("t XOR missing", "null", "="),
        ("NOT t", "false", "="),
        ("NOT missing", "null", "="),
        ("NOT i", "false", "="),
        ("t AND i", "true", "="),
        ("t AND s", "false", "null (1)"),
        ("f AND (i / 0 = 1)", "false", "false"),
        ("t AND (i / 0 = 1)", "error", "null (1)"),
        ("(i / 0 = 1) AND f", "error", "false (1)"),
        ("t OR (i / 0 = 1)", "true", "true"),
        ("(i / 0 = 1) OR t", "error", "true (1)"),
        ("missing OR (i / 0 = 1)", "error", "null (1)"),
        ("il AND t", "error", "null (1)"),
        ("missing IS NULL", "true", "="),
        ("i IS NULL", "false", "="),
        ("i IS NOT NULL", "true", "="),
        ("(i / 0) IS NULL", "error", "true (1)"),
        ("(il[7]) IS NULL", "error", "true (1)"),
        ("IF(t, 1, 2)", "1", "1"),
        ("IF(missing, 1, 2)", "2", "2"),
        ("IF(t, 1, i / 0)", "1", "1"),
        ("IF(f, 1, i / 0)", "error", "null (1)"),
        ("IF(i, 1, 2)", "error", "1"),
        ("IF(i / 0 = 1, 1, 2)", "error", "2 (1)"),
    ]);
}

#[test]
fn membership() {
    check(&[
        ("i IN (1, 5)", "true", "="),
        ("i IN (1, 2)", "false", "="),
        ("i NOT IN (1, 2)", "true", "="),
        ("d IN (1, 2)", "false", "="),
        ("s IN ('abc', 'x')", "true", "="),
        ("s IN (1, 2)", "error", "null (1)"),
        ("i IN il", "false", "="),
        ("2 IN il", "true", "="),
        ("1 IN m", "true", "="),
        ("'deep' IN mm", "true", "="),
        ("'b' IN ml", "true", "="),
        ("1 IN nulls", "true", "="),
        ("2 IN nulls", "null", "="),
        ("1 IN mixed", "error", "true"),
        ("2 IN mixed", "error", "null (1)"),
        ("1 IN empty", "false", "="),
        ("1 IN s", "error", "null (1)"),
        ("missing IN il", "null", "="),
        ("i BETWEEN (1, 5)", "true", "="),
        ("i NOT BETWEEN (1, 5)", "false", "="),
        ("i BETWEEN (6, missing)", "false", "="),
        ("i BETWEEN (1, missing)", "null", "="),
        ("i BETWEEN (missing, missing)", "null", "="),
        ("missing BETWEEN (1, 5)", "null", "="),
        ("s BETWEEN ('a', 'b')", "true", "="),
        ("s BETWEEN (1, 5)", "error", "null (1)"),
        ("t BETWEEN (1, 5)", "error", "null (1)"),
        ("CONTAINSKEY(m, 'x')", "true", "="),
        ("CONTAINSKEY(m, 'z')", "false", "="),
        ("CONTAINSKEY(mm, 'o')", "true", "="),
        ("CONTAINSKEY(mm, 'x')", "true", "="),
        ("CONTAINSKEY(ml, 'y')", "true", "="),
        ("CONTAINSKEY(ml, 'z')", "false", "="),
        ("CONTAINSKEY(il, 'x')", "error", "null (1)"),
        ("CONTAINSKEY(m, i)", "error", "null (1)"),
        ("CONTAINSVALUE(m, 2)", "true", "="),
        ("CONTAINSVALUE(m, 2L)", "true", "="),
        ("CONTAINSVALUE(il, 9)", "false", "="),
        ("CONTAINSVALUE(ml, 'a')", "true", "="),
        ("CONTAINSVALUE(s, 'a')", "error", "null (1)"),
    ]);
}

#[test]
fn containers() {
    check(&[
        ("il[0]", "1", "1L"),
        ("il[3]", "error", "null (1)"),
        ("il[zero]", "1", "1L"),
        ("il[i]", "error", "null (1)"),
        ("il[n]", "error", "null (1)"),
        ("il[missing]", "null", "="),
        ("m.x", "1", "1L"),
        ("m['z']", "null", "="),
        ("m[s]", "null", "="),
        ("mm.o.x", "'deep'", "="),
        ("ml[0].x", "'a'", "="),
        ("ml[1].x", "null", "="),
        ("ml[zero].x", "'a'", "="),
        ("SIZEOF(il)", "3", "3L"),
        ("SIZEOF(m)", "2", "2L"),
        ("SIZEOF(empty)", "0", "0L"),
        ("SIZEOF(emoji)", "4", "3L"),
        ("SIZEOF(i)", "error", "null (1)"),
        ("SIZEOF(ll)", "error", "2L"),
        ("SIZEIS(il, 3)", "true", "="),
        ("SIZEIS(s, 2)", "false", "="),
        ("SIZEIS(s, 3L)", "error", "true"),
        ("SIZEIS(missing, 3)", "null", "="),
        ("FILTER(il, bl)", "[1 3 ]", "[1L 3L ]"),
        ("FILTER(il, [true])", "error", "null (1)"),
        ("FILTER(empty, bl)", "[]", "="),
        ("FILTER(s, bl)", "error", "null (1)"),
        ("[i, n]", "[5 -3 ]", "[5L -3L ]"),
    ]);
}

#[test]
fn text_functions() {
    check(&[
        ("TRIM('  a b ')", "'a b'", "="),
        ("LOWER('ABC')", "'abc'", "="),
        ("UPPER(u)", "'STRASSE'", "="),
        ("UPPER(i)", "error", "null (1)"),
        ("SUBSTRING(s, 2)", "'bc'", "="),
        ("SUBSTRING(s, -2, 1)", "'b'", "="),
        ("SUBSTRING(s, 0)", "''", "="),
        ("SUBSTRING(s, 2, missing)", "null", "="),
        ("SUBSTRING(i, 2)", "error", "null (1)"),
        ("SUBSTRING(emoji, 3)", "'ab'", "'b'"),
        ("s RLIKE 'a.c'", "true", "="),
        ("s RLIKE 'b'", "false", "="),
        ("s NOT RLIKE 'b'", "true", "="),
        ("s RLIKE s", "true", "="),
        ("s RLIKE '['", "error", "! pattern `[` cannot be used: a class is not closed"),
        ("s RLIKE '(?=a).*'", "true", "="),
        (r"s RLIKE '(a)\1'", "false", "="),
        ("s RLIKE '(?'", "error", "! pattern `(?` cannot be used: a group is not closed"),
        ("i RLIKE '5'", "error", "null (1)"),
        ("missing RLIKE '['", "null", "! pattern `[` cannot be used: a class is not closed"),
        ("s RLIKE ANY ['x', 'ab.']", "true", "="),
        ("s NOT RLIKE ANY ['x', 'ab.']", "false", "="),
        ("s RLIKE ANY mixed", "error", "null (1)"),
        ("HASH(s)", "96354", "96354"),
        ("HASH(missing)", "0", "0"),
        ("HASH(i / 0)", "error", "0 (1)"),
        ("UNIXTIMESTAMP('2021-01-01 00:00:00')", "1609459200L", "="),
        ("UNIXTIMESTAMP('bad')", "error", "null (1)"),
        ("UNIXTIMESTAMP(2021010100, 'yyyyMMddHH')", "1609459200L", "="),
        ("UNIXTIMESTAMP(s, 'nonsense')", "error", "! time pattern `nonsense` cannot be used"),
        ("UNIXTIMESTAMP(i)", "error", "null (1)"),
        ("UNIXTIMESTAMP()", "1767225600L", "="),
    ]);
}

#[test]
fn casts() {
    check(&[
        ("CAST(num AS INTEGER)", "5", "5"),
        ("CAST(s AS INTEGER)", "error", "null (1)"),
        ("CAST(e AS DOUBLE)", "error", "null (1)"),
        ("CAST(i AS STRING)", "'5'", "="),
        ("CAST(d AS STRING)", "'2.5'", "="),
        ("CAST(big AS INTEGER)", "1410065408", "null (1)"),
        ("CAST(big AS DOUBLE)", "10000000000.0", "="),
        ("CAST(s AS BOOLEAN)", "false", "null (1)"),
        ("CAST(i AS BOOLEAN)", "true", "="),
        ("CAST(missing AS LONG)", "null", "="),
        ("CAST(il AS STRING)", "error", "null (1)"),
    ]);
}

#[test]
fn native_additions() {
    for (expr, expected) in [
        ("s LIKE 'a%'", "true"),
        ("s LIKE '_b_'", "true"),
        ("s LIKE 'B%'", "false"),
        ("s NOT LIKE 'a%'", "false"),
        ("s LIKE s", "true"),
        ("i LIKE '5'", "null (1)"),
        ("missing LIKE 'a'", "null"),
        ("s || '-' || i", "'abc-5'"),
        ("s || missing", "null"),
        ("s || il", "null (1)"),
        ("CASE WHEN i = 1 THEN 'one' WHEN i = 5 THEN 'five' ELSE 'other' END", "'five'"),
        ("CASE WHEN i = 1 THEN 'one' END", "null"),
        ("CASE WHEN i = 5 THEN 'five' ELSE i / 0 END", "'five'"),
        ("COALESCE(missing, i, i / 0)", "5L"),
        ("COALESCE(i / 0, 'x')", "'x' (1)"),
    ] {
        assert_eq!(eval(Native, expr), expected, "{expr}");
    }
}

#[test]
fn declared_types_reach_the_operators() {
    let types = [
        ("il", "LIST[DOUBLE]"),
        ("ml", "LIST[MAP[STRING]]"),
        ("empty", "LIST[MAP[STRING]]"),
        ("i", "LONG"),
        ("ts", "TIMESTAMP"),
    ];
    let schema = Schema::new(types.map(|(name, ty)| (name.into(), Type::parse(ty).unwrap())));
    for (expr, bullet, native) in [
        ("i", "5L", "5L"),
        ("il[0]", "1.0", "1.0"),
        ("CONTAINSKEY(empty, 'x')", "false", "false"),
        ("CONTAINSKEY(ml, 'x')", "true", "true"),
    ] {
        assert_eq!(eval_typed(Bullet, expr, Some(&schema)), bullet, "{expr}");
        assert_eq!(eval_typed(Native, expr, Some(&schema)), native, "{expr}");
    }
    for (expr, native) in [
        ("ts", "@1767225600000000"),
        ("ts = '2026-01-01T01:00:00+01:00'", "true"),
        ("ts < 1767225600001", "true"),
        ("ts = s", "null (1)"),
        ("UNIXTIMESTAMP(ts)", "1767225600L"),
    ] {
        assert_eq!(eval_typed(Native, expr, Some(&schema)), native, "{expr}");
    }
    assert_eq!(eval(Bullet, "CONTAINSKEY(empty, 'x')"), "error");
}

#[test]
fn a_program_runs_over_slots() {
    let expr = plan::Expr::Call {
        function: plan::Function::Add,
        args: vec![plan::Expr::Slot(0), plan::Expr::Slot(1)],
    };
    let program = Program::compile(&expr, Native, &mut Wants::new()).unwrap();
    let columns = vec![vec![Value::Long(1), Value::Null, Value::String("x")], vec![Value::Double(0.5); 3]];
    let rows = Rows::Slots { columns: &columns, count: 3, now: NOW };
    let (mut scratch, arena, mut counts, mut values) =
        (Scratch::new(), Bump::new(), EvalCounts::default(), Vec::new());
    program.evaluate(&rows, &mut scratch, &arena, &mut counts, &mut values);
    assert!(matches!(values[..], [Value::Double(1.5), Value::Null, Value::Null]), "{values:?}");
    assert_eq!(counts.expression_errors, 1);
    let mut kept = Vec::new();
    program.filter_rows(&rows, &mut scratch, &arena, &mut counts, &mut kept);
    assert_eq!(kept, [0]);
}

const FIELDS: [&str; 8] = ["i", "d", "s", "t", "l", "m", "null", "missing"];

fn event() -> impl Strategy<Value = String> {
    let scalar = prop_oneof![
        "-?[0-9]{1,3}".prop_map(|text| text.parse::<i64>().unwrap().to_string()),
        Just("9223372036854775807".to_owned()),
        (-100..100i32).prop_map(|n| format!("{:?}", f64::from(n) / 4.0)),
        "[ab5é😀]{0,3}".prop_map(|text| format!("\"{text}\"")),
        any::<bool>().prop_map(|truth| truth.to_string()),
        Just("null".to_owned()),
    ];
    let value = prop_oneof![
        scalar.clone(),
        proptest::collection::vec(scalar.clone(), 0..4).prop_map(|items| format!("[{}]", items.join(","))),
        proptest::collection::btree_map("[xyz]", scalar, 0..3).prop_map(|entries| {
            let entries: Vec<_> = entries.iter().map(|(key, value)| format!("\"{key}\":{value}")).collect();
            format!("{{{}}}", entries.join(","))
        }),
    ];
    proptest::collection::vec(value, 7).prop_map(|values| {
        let fields: Vec<_> =
            FIELDS.iter().zip(values).map(|(name, value)| format!("\"{name}\":{value}")).collect();
        format!("{{{}}}", fields.join(","))
    })
}

fn call(function: plan::Function, args: Vec<plan::Expr>) -> plan::Expr {
    plan::Expr::Call { function, args }
}

/// Expressions of any operators over any operands, also those that the language's types rule out.
fn expression() -> impl Strategy<Value = plan::Expr> {
    use plan::{Comparison, Function, Literal, Quantifier};
    let paths = ["i", "d", "s", "t", "l", "m", "missing", "l[0]", "m.x", "l[9]"];
    let literals = [
        Literal::Null,
        Literal::Boolean(true),
        Literal::Integer(0),
        Literal::Integer(5),
        Literal::Long(i64::MAX),
        Literal::Double(2.5),
        Literal::Float(0.5),
        Literal::String("a".into()),
        Literal::String("5".into()),
        Literal::String("[".into()),
    ];
    let unary = vec![
        Function::Abs,
        Function::Trim,
        Function::Lower,
        Function::Upper,
        Function::SizeOf,
        Function::Hash,
        Function::Not,
        Function::IsNull,
        Function::IsNotNull,
        Function::UnixTimestamp,
        Function::Cast(Type::INTEGER),
        Function::Cast(Type::LONG),
        Function::Cast(Type::FLOAT),
        Function::Cast(Type::STRING),
        Function::Cast(Type::BOOLEAN),
    ];
    let binary = vec![
        Function::Add,
        Function::Subtract,
        Function::Multiply,
        Function::Divide,
        Function::Remainder,
        Function::Compare(Comparison::Eq, Quantifier::One),
        Function::Compare(Comparison::Lt, Quantifier::One),
        Function::Compare(Comparison::Ge, Quantifier::One),
        Function::Compare(Comparison::Ne, Quantifier::Any),
        Function::Compare(Comparison::Gt, Quantifier::All),
        Function::RLike { any: false, negated: false },
        Function::RLike { any: true, negated: true },
        Function::Like { negated: false },
        Function::In { negated: true },
        Function::And,
        Function::Or,
        Function::Xor,
        Function::Element,
        Function::List,
        Function::SizeIs,
        Function::ContainsKey,
        Function::ContainsValue,
        Function::Filter,
        Function::Coalesce,
        Function::Concat,
        Function::Substring,
        Function::UnixTimestamp,
    ];
    let ternary = vec![
        Function::If,
        Function::Case,
        Function::Coalesce,
        Function::And,
        Function::Or,
        Function::Between { negated: false },
        Function::Substring,
        Function::List,
    ];
    let leaf = prop_oneof![
        proptest::sample::select(paths.to_vec())
            .prop_map(|path| plan::Expr::Path { path: Path::parse(path).unwrap(), ty: Type::Any }),
        proptest::sample::select(literals.to_vec()).prop_map(plan::Expr::Literal),
    ];
    leaf.prop_recursive(4, 24, 3, move |inner| {
        prop_oneof![
            (proptest::sample::select(unary.clone()), inner.clone()).prop_map(|(f, a)| call(f, vec![a])),
            (proptest::sample::select(binary.clone()), inner.clone(), inner.clone())
                .prop_map(|(f, a, b)| call(f, vec![a, b])),
            (proptest::sample::select(ternary.clone()), inner.clone(), inner.clone(), inner)
                .prop_map(|(f, a, b, c)| call(f, vec![a, b, c])),
        ]
    })
}

fn shown<'a>(
    program: &Program,
    rows: &Rows<'a>,
    arena: &'a Bump,
    scratch: &mut Scratch,
    counts: &mut EvalCounts,
) -> Vec<String> {
    let mut values = Vec::new();
    program.evaluate(rows, scratch, arena, counts, &mut values);
    values
        .iter()
        .map(|value| {
            let mut text = String::new();
            show(value, &mut text);
            text
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn batches_and_their_parts_agree(expr in expression(), events in proptest::collection::vec(event(), 1..9), cut: usize) {
        for dialect in [Native, Bullet] {
            // Constant patterns that are none do not compile in native.
            let mut wants = Wants::new();
            let Ok(program) = Program::compile(&expr, dialect, &mut wants) else { continue };
            let (decoded, bindings) = decode(&events.join("\n"), &wants);
            let all: Vec<u32> = (0..events.len() as u32).collect();
            let (mut scratch, arena) = (Scratch::new(), Bump::new());
            let mut whole_counts = EvalCounts::default();
            let rows = |rows| Rows::Events { decoded: &decoded, bindings: &bindings, rows, now: NOW };
            let whole = shown(&program, &rows(&all), &arena, &mut scratch, &mut whole_counts);

            let mut part_counts = EvalCounts::default();
            let (first, second) = all.split_at(cut % all.len());
            let mut parts = shown(&program, &rows(first), &arena, &mut scratch, &mut part_counts);
            parts.extend(shown(&program, &rows(second), &arena, &mut scratch, &mut part_counts));
            prop_assert_eq!(&whole, &parts, "{:?} in {:?}", expr, dialect);
            prop_assert_eq!(whole_counts, part_counts);
            prop_assert!(dialect == Bullet || !whole.iter().any(|value| value == "error"));

            // The same expression as a condition is true where its value is.
            let truth = plan::Expr::Literal(plan::Literal::Boolean(true));
            let expr = call(plan::Function::And, vec![expr.clone(), truth]);
            let mut wants = Wants::new();
            let condition = Program::compile(&expr, dialect, &mut wants).unwrap();
            let (decoded, bindings) = decode(&events.join("\n"), &wants);
            let rows = Rows::Events { decoded: &decoded, bindings: &bindings, rows: &all, now: NOW };
            let truths = shown(&condition, &rows, &arena, &mut scratch, &mut EvalCounts::default());
            let mut kept = Vec::new();
            condition.filter_rows(&rows, &mut scratch, &arena, &mut EvalCounts::default(), &mut kept);
            let expected: Vec<u32> = all.iter().copied().filter(|row| truths[*row as usize] == "true").collect();
            prop_assert_eq!(&kept, &expected, "{:?} in {:?}", expr, dialect);
        }
    }
}

//! Compares expressions with Bullet's own answers.
//!
//! Every recorded RAW query without window, order or lateral view runs here. Its WHERE and its columns are evaluated over
//! its records. The test compares the results with Bullet's.
//!
//! The recorded cases lie beside the project, not in it; without them the test prints that it skipped.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path as FilePath;

use arrow_array::{Float32Array, Float64Array};
use bumpalo::Bump;
use serde_json::{Map, Value as Json};
use swiftwater_event::{
    CheckLimits, Checker, DecodePlan, Decoded, Decoder, Path, Primitive, Step, Type, Value, Values, Want,
    WantId,
};
use swiftwater_lang::{Dialect, ParseOptions, Schema, plan};
use swiftwater_live::expr::{EvalCounts, Program, Rows, Scratch, Wants};

/// Cases whose answer is known to differ, and why.
const KNOWN_DIFFERENCES: &[(&str, &str)] = &[];

/// The time of asking, 2026-01-01: the records that Bullet was shown lie before it or far behind.
const NOW: i64 = 1_767_225_600_000;

/// The outcome of one case.
enum Outcome {
    Passed,
    OutOfScope(&'static str),
    Failed(String),
}

#[test]
fn scalar_answers_are_those_of_bullet() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/reference/bullet-cases.jsonl");
    let Ok(text) = std::fs::read_to_string(FilePath::new(file)) else {
        println!("skipped: no recorded cases at {file}");
        return;
    };
    let mut passed = 0;
    let mut out_of_scope: BTreeMap<&str, usize> = BTreeMap::new();
    let mut failed = Vec::new();
    for line in text.lines() {
        let case: Json = serde_json::from_str(line).unwrap();
        let name = case["name"].as_str().unwrap();
        match run(&case) {
            Outcome::Passed => passed += 1,
            Outcome::OutOfScope(why) => *out_of_scope.entry(why).or_default() += 1,
            Outcome::Failed(_) if KNOWN_DIFFERENCES.iter().any(|(known, _)| *known == name) => {
                *out_of_scope.entry("known difference").or_default() += 1;
            }
            Outcome::Failed(why) => {
                failed.push(format!("{name}: {}\n    {why}", case["bql"].as_str().unwrap()))
            }
        }
    }
    println!("{passed} passed, {} failed, out of scope: {out_of_scope:?}", failed.len());
    assert!(failed.is_empty(), "{} answers differ:\n{}", failed.len(), failed.join("\n"));
    assert!(passed > 0, "no case was in scope");
}

fn run(case: &Json) -> Outcome {
    let expected = &case["expected"];
    if expected["status"] != "ok" {
        return Outcome::OutOfScope("not answered");
    }
    if expected["aggregation"] != "RAW" {
        return Outcome::OutOfScope("aggregation");
    }
    if case.get("steps").is_some_and(|steps| !steps.is_null()) {
        return Outcome::OutOfScope("steps");
    }
    let bql = case["bql"].as_str().unwrap();
    let upper = bql.to_ascii_uppercase();
    if upper.contains("LATERAL") || upper.contains("EXPLODE") {
        return Outcome::OutOfScope("lateral view or table function");
    }
    if upper.matches("SELECT").count() > 1 {
        return Outcome::OutOfScope("outer query");
    }
    if upper.contains("ORDER BY") {
        return Outcome::OutOfScope("order");
    }
    if upper.contains("WINDOWING") {
        return Outcome::OutOfScope("window");
    }
    let schema = case["schema"].as_object().map(schema_of);
    let mut options = ParseOptions::new(Dialect::Bullet, NOW);
    options.schema = schema.as_ref();
    let statement = match swiftwater_lang::parse(bql, &options) {
        Ok(statement) => statement,
        Err(errors) => return Outcome::Failed(format!("does not parse: {errors}")),
    };
    let query = statement.query;
    let plan::Body::Raw(raw) = &query.body else { return Outcome::OutOfScope("aggregation") };
    match answer(case, &query, raw) {
        Ok(records) => compare(&records, expected, raw.star.is_none()),
        Err(why) => Outcome::Failed(why),
    }
}

fn schema_of(fields: &Map<String, Json>) -> Schema {
    Schema::new(
        fields.iter().map(|(name, ty)| (name.as_str().into(), Type::parse(ty.as_str().unwrap()).unwrap())),
    )
}

/// One record of an answer: its columns, and the primitive types of the computed ones.
struct AnswerRecord {
    columns: BTreeMap<String, Json>,
    types: BTreeMap<String, &'static str>,
}

fn answer(case: &Json, query: &plan::Query, raw: &plan::Raw) -> Result<Vec<AnswerRecord>, String> {
    let mut wants = Wants::new();
    let mut compile = |expr: &plan::Expr| {
        Program::compile(expr, Dialect::Bullet, &mut wants).map_err(|error| error.to_string())
    };
    let filter = query.filter.as_ref().map(&mut compile).transpose()?;
    let columns: Vec<(&str, Program)> = raw
        .columns
        .iter()
        .map(|column| Ok((&*column.name, compile(&column.expr)?)))
        .collect::<Result<_, String>>()?;
    let types: BTreeMap<&str, Type> = case["types"]
        .as_object()
        .map(|types| {
            types
                .iter()
                .map(|(name, ty)| (name.as_str(), Type::parse(ty.as_str().unwrap()).unwrap()))
                .collect()
        })
        .unwrap_or_default();
    let records: Vec<&Map<String, Json>> =
        case["records"].as_array().unwrap().iter().map(|record| record.as_object().unwrap()).collect();
    let (decoded, bindings) = decode(&records, wants.as_slice(), &types);

    let arena = Bump::new();
    let mut scratch = Scratch::new();
    let mut counts = EvalCounts::default();
    let all: Vec<u32> = (0..records.len() as u32).collect();
    let rows = Rows::Events { decoded: &decoded, bindings: &bindings, rows: &all, now: NOW };
    let mut kept = all.clone();
    if let Some(filter) = &filter {
        filter.filter_rows(&rows, &mut scratch, &arena, &mut counts, &mut kept);
        let mut values = Vec::new();
        filter.evaluate(&rows, &mut scratch, &arena, &mut counts, &mut values);
        let is_boolean =
            values.iter().all(|value| matches!(value, Value::Null | Value::Error | Value::Boolean(_)));
        let is_true = |row: &u32| matches!(values[*row as usize], Value::Boolean(true));
        if is_boolean && !all.iter().filter(|row| is_true(row)).eq(&kept) {
            return Err("keep and evaluate disagree".to_owned());
        }
    }
    kept.truncate(query.limit.unwrap_or(100).min(100) as usize);
    let rows = Rows::Events { decoded: &decoded, bindings: &bindings, rows: &kept, now: NOW };
    let mut answer: Vec<AnswerRecord> = kept
        .iter()
        .map(|&row| {
            let mut columns = BTreeMap::new();
            if let Some(star) = &raw.star {
                for (name, value) in records[row as usize] {
                    if !value.is_null() && !star.without.iter().any(|left_out| **left_out == **name) {
                        columns.insert(name.clone(), value.clone());
                    }
                }
            }
            AnswerRecord { columns, types: BTreeMap::new() }
        })
        .collect();
    let mut values = Vec::new();
    for (name, program) in &columns {
        program.evaluate(&rows, &mut scratch, &arena, &mut counts, &mut values);
        for (record, value) in answer.iter_mut().zip(&values) {
            if !matches!(value, Value::Null | Value::Error) {
                record.columns.insert((*name).to_owned(), json(value));
                record.types.extend(primitive_type(value).map(|ty| ((*name).to_owned(), ty)));
            }
        }
    }
    Ok(answer)
}

/// The records as columns. Bullet's records carry the types of their values: these, not the schema, determine the
/// type as which a path is decoded.
fn decode(
    records: &[&Map<String, Json>],
    wants: &[Want],
    types: &BTreeMap<&str, Type>,
) -> (Decoded, Vec<WantId>) {
    let typed: Vec<Want> = wants
        .iter()
        .map(|want| Want { path: want.path.clone(), ty: stored_type(&want.path, types) })
        .collect();
    let plan = DecodePlan::new(typed.iter().cloned());
    let bindings: Vec<WantId> = typed.iter().map(|want| plan.find(want).unwrap()).collect();
    let mut text = String::new();
    for record in records {
        text.push_str(&serde_json::to_string(record).unwrap());
        text.push('\n');
    }
    let mut checker = Checker::new(CheckLimits::default());
    let first = checker.push(text.into_bytes().into());
    let rest = checker.finish();
    assert_eq!((first.batch.len() + rest.batch.len(), first.rejected), (records.len(), 0));
    let batch = if rest.batch.is_empty() { first.batch } else { rest.batch };
    assert_eq!(batch.len(), records.len());
    let mut decoded = Decoder::new().decode(&batch, &plan);
    // NaN and the infinities stand as text in the records: JSON has no numbers for them.
    for (want, column) in plan.wants().iter().zip(&mut decoded.columns) {
        let [Step::Key(field)] = want.path.steps() else { continue };
        let numbers = records.iter().map(|record| record.get(&**field).and_then(number));
        match want.ty {
            Type::Primitive(Primitive::Double) => {
                column.values = Values::Double(numbers.collect::<Float64Array>());
            }
            Type::Primitive(Primitive::Float) => {
                column.values =
                    Values::Float(numbers.map(|number| number.map(|n| n as f32)).collect::<Float32Array>());
            }
            _ => {}
        }
    }
    (decoded, bindings)
}

fn stored_type(path: &Path, types: &BTreeMap<&str, Type>) -> Type {
    let (Step::Key(field), below) = path.steps().split_first().unwrap() else { return Type::Any };
    let mut ty = types.get(&**field).cloned().unwrap_or(Type::Any);
    for step in below {
        ty = match (ty, step) {
            (Type::List(inner), Step::Index(_)) | (Type::Map(inner), Step::Key(_)) => *inner,
            _ => Type::Any,
        };
    }
    ty
}

fn number(value: &Json) -> Option<f64> {
    match value {
        Json::String(text) if text == "NaN" => Some(f64::NAN),
        Json::String(text) if text == "Infinity" => Some(f64::INFINITY),
        Json::String(text) if text == "-Infinity" => Some(f64::NEG_INFINITY),
        value => value.as_f64(),
    }
}

fn json(value: &Value<'_>) -> Json {
    let double = |number: f64| match number {
        _ if number.is_nan() => Json::from("NaN"),
        f64::INFINITY => Json::from("Infinity"),
        f64::NEG_INFINITY => Json::from("-Infinity"),
        _ => Json::from(number),
    };
    match value {
        Value::Null | Value::Error => Json::Null,
        Value::Boolean(truth) => Json::from(*truth),
        Value::Integer(number) => Json::from(*number),
        Value::Long(number) => Json::from(*number),
        Value::Float(number) => double(f64::from(*number)),
        Value::Double(number) => double(*number),
        Value::String(text) => Json::from(*text),
        Value::Timestamp(micros) => Json::from(*micros),
        Value::List(items) => items.iter().map(json).collect(),
        Value::Map(entries) => {
            Json::Object(entries.iter().map(|(key, value)| ((*key).to_owned(), json(value))).collect())
        }
    }
}

fn primitive_type(value: &Value<'_>) -> Option<&'static str> {
    Some(match value {
        Value::Boolean(_) => "BOOLEAN",
        Value::Integer(_) => "INTEGER",
        Value::Long(_) => "LONG",
        Value::Float(_) => "FLOAT",
        Value::Double(_) => "DOUBLE",
        Value::String(_) => "STRING",
        _ => return None,
    })
}

fn compare(answer: &[AnswerRecord], expected: &Json, is_computed: bool) -> Outcome {
    let emits = expected["emits"].as_array().unwrap();
    if emits.len() != 1 {
        return Outcome::OutOfScope("several emits");
    }
    let records = emits[0]["records"].as_array().unwrap();
    let column_types = expected["column_types"].as_object();
    let float_columns: BTreeSet<&str> = column_types
        .iter()
        .flat_map(|types| types.iter())
        .filter(|(_, types)| {
            types.as_array().unwrap().iter().any(|ty| ty.as_str().unwrap().starts_with("FLOAT"))
        })
        .map(|(name, _)| name.as_str())
        .collect();
    let is_same = |got: &AnswerRecord, wanted: &Json| {
        let wanted = wanted.as_object().unwrap();
        got.columns.len() == wanted.len()
            && got.columns.iter().all(|(name, value)| {
                wanted.get(name).is_some_and(|w| is_equal(value, w, float_columns.contains(name.as_str())))
            })
    };
    let is_exact = expected["row_order"] == "exact";
    let mut open: Vec<&Json> = records.iter().collect();
    for (at, got) in answer.iter().enumerate() {
        let found = open.iter().position(|wanted| is_same(got, wanted));
        match found {
            Some(place) if place == 0 || !is_exact => drop(open.remove(place)),
            _ => {
                return Outcome::Failed(format!(
                    "row {at}: got {:?}, expected {:?}",
                    got.columns,
                    records.get(at)
                ));
            }
        }
    }
    if !open.is_empty() {
        return Outcome::Failed(format!("{} rows are missing, the first {}", open.len(), open[0]));
    }
    if let (Some(column_types), true) = (column_types, is_computed) {
        let mut types: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for record in answer {
            for (name, ty) in &record.types {
                types.entry(name).or_default().insert(ty);
            }
        }
        for (name, got) in types {
            let wanted: BTreeSet<&str> = column_types
                .get(name)
                .and_then(Json::as_array)
                .map(|types| types.iter().filter_map(Json::as_str).collect())
                .unwrap_or_default();
            if got != wanted {
                return Outcome::Failed(format!("column {name} has types {got:?}, expected {wanted:?}"));
            }
        }
    }
    Outcome::Passed
}

/// Numbers by value, as 32 bits where Bullet held a FLOAT; all else as it is.
fn is_equal(got: &Json, wanted: &Json, is_float: bool) -> bool {
    match (got, wanted) {
        (Json::Number(a), Json::Number(b)) => match (a.as_i64(), b.as_i64()) {
            (Some(a), Some(b)) => a == b,
            _ if is_float => a.as_f64().unwrap() as f32 == b.as_f64().unwrap() as f32,
            _ => a.as_f64() == b.as_f64(),
        },
        (Json::Array(a), Json::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_equal(a, b, is_float))
        }
        (Json::Object(a), Json::Object(b)) => {
            a.len() == b.len()
                && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| is_equal(a, b, is_float)))
        }
        _ => got == wanted,
    }
}

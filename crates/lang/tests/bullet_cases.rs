//! Compares the parser with the real Bullet, on queries that Bullet accepted or refused.
//!
//! The parser must accept and refuse the same queries, and find as many errors at the same places. It must name columns
//! the same, and print the query the same.
//!
//! The cases are read from the reference beside the project; without it the test prints that it skipped them.

#![allow(clippy::unwrap_used, reason = "helpers of tests may fail as tests do")]

use std::{collections::BTreeSet, path::Path};

use serde_json::Value;
use swiftwater_event::Type;
use swiftwater_lang::{Dialect, ParseOptions, QueryErrors, Schema, parse, plan::Body, plan::Query};

const NOW: i64 = 1_600_000_000_000;

/// Cases that are not as Bullet has them, and why.
const EXCEPTIONS: [(&str, &str); 0] = [];

fn schema(fields: &Value) -> Option<Schema> {
    let field = |(name, ty): (&String, &Value)| {
        (name.as_str().into(), Type::parse(ty.as_str().unwrap()).unwrap_or(Type::Any))
    };
    Some(Schema::new(fields.as_object()?.iter().map(field)))
}

/// The columns of a query's records, where they can be told.
fn columns(query: &Query) -> Option<BTreeSet<String>> {
    let query = query.outer.as_deref().unwrap_or(query);
    let columns = match &query.body {
        Body::Raw(raw) if raw.star.is_some() => return None,
        Body::Raw(raw) => &raw.columns,
        Body::Group(group) => &group.columns,
    };
    Some(columns.iter().map(|column| column.name.to_string()).collect())
}

/// The places of our faults, in order; those of the query as a whole are "".
fn places(errors: &QueryErrors) -> Vec<String> {
    let place = |error: &swiftwater_lang::QueryError| match (error.line, error.column) {
        (Some(line), Some(column)) => format!("{line}:{column}"),
        _ => String::new(),
    };
    let mut places: Vec<String> = errors.0.iter().map(place).collect();
    places.sort();
    places
}

/// The same for Bullet's.
fn bullets_places(errors: &Value) -> Vec<String> {
    let place = |error: &Value| {
        let text = error["error"].as_str().unwrap();
        let mut parts = text.splitn(3, ':');
        let is_number = |part: Option<&str>| part.is_some_and(|part| part.parse::<u32>().is_ok());
        if is_number(parts.next()) && is_number(parts.next()) {
            text.splitn(3, ':').take(2).collect::<Vec<_>>().join(":")
        } else {
            String::new()
        }
    };
    let mut places: Vec<String> = errors.as_array().unwrap().iter().map(place).collect();
    places.sort();
    places
}

#[test]
fn bullets_own_queries() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/reference/bullet-cases.jsonl");
    let Ok(cases) = std::fs::read_to_string(&path) else {
        println!("skipped: no reference cases");
        return;
    };
    let (mut taken, mut named, mut printed, mut refused, mut excepted) = (0, 0, 0, 0, 0);
    let mut wrong = Vec::new();
    for line in cases.lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let (name, bql) = (case["name"].as_str().unwrap(), case["bql"].as_str().unwrap());
        if let Some((_, reason)) = EXCEPTIONS.iter().find(|(other, _)| *other == name) {
            println!("{name} is not as Bullet has it: {reason}");
            excepted += 1;
            continue;
        }
        let (schema, types) = (schema(&case["schema"]), schema(&case["types"]));
        let mut options = ParseOptions::new(Dialect::Bullet, NOW);
        options.schema = schema.as_ref();
        options.types = types.as_ref();
        let parsed = parse(bql, &options);
        let expected = &case["expected"];
        match (expected["status"].as_str().unwrap(), parsed) {
            ("rejected", Err(errors)) => {
                refused += 1;
                let (ours, theirs) = (places(&errors), bullets_places(&expected["errors"]));
                if ours != theirs {
                    wrong.push(format!(
                        "{name}: faults at {ours:?}, but Bullet has {theirs:?}\n{bql}\n{errors}\n{}",
                        expected["errors"]
                    ));
                }
            }
            ("rejected", Ok(_)) => {
                wrong.push(format!("{name}: taken, but Bullet says {}\n{bql}", expected["errors"]))
            }
            (_, Err(errors)) => wrong.push(format!("{name}: refused\n{errors}")),
            (_, Ok(statement)) => {
                taken += 1;
                if let Some(theirs) = expected["formatted_bql"].as_str() {
                    let ours = statement.query.printed.replace(&NOW.to_string(), "<now>");
                    printed += usize::from(ours == theirs);
                    if ours != theirs {
                        wrong.push(format!("{name}: printed as\n{ours}\nbut Bullet prints\n{theirs}"));
                    }
                }
                let Some(ours) = columns(&statement.query) else { continue };
                // A column that never had a value is not among Bullet's.
                let theirs: BTreeSet<String> = expected["column_types"]
                    .as_object()
                    .into_iter()
                    .flat_map(|map| map.keys().cloned())
                    .collect();
                named += usize::from(ours == theirs);
                if !theirs.is_subset(&ours) {
                    wrong.push(format!("{name}: columns {ours:?}, but Bullet has {theirs:?}\n{bql}"));
                }
            }
        }
    }
    println!(
        "{taken} taken ({named} of them with all column names seen, {printed} printed alike), \
         {refused} refused at the same places, {excepted} not as Bullet"
    );
    assert!(wrong.is_empty(), "{} wrong:\n\n{}", wrong.len(), wrong.join("\n\n"));
}

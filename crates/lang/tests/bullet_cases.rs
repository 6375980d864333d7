//! Queries that the real Bullet took or refused: ours must take and refuse the same, and name columns the same.
//!
//! The cases are read from the reference beside the project; without it the test says that it skipped them.

#![allow(clippy::unwrap_used, reason = "helpers of tests may fail as tests do")]

use std::{collections::BTreeSet, path::Path};

use serde_json::Value;
use swiftwater_event::Type;
use swiftwater_lang::{Dialect, ParseOptions, QueryErrors, Schema, parse, plan::Body, plan::Query};

fn schema(case: &Value) -> Option<Schema> {
    let fields = case["schema"].as_object()?;
    let field = |(name, ty): (&String, &Value)| {
        (name.as_str().into(), Type::parse(ty.as_str().unwrap()).unwrap_or(Type::Any))
    };
    Some(Schema::new(fields.iter().map(field)))
}

fn columns(query: &Query) -> Option<BTreeSet<String>> {
    let columns = match &query.body {
        Body::Raw(raw) if raw.star.is_some() => return None,
        Body::Raw(raw) => &raw.columns,
        Body::Group(group) => &group.columns,
    };
    Some(columns.iter().map(|column| column.name.to_string()).collect())
}

fn is_out_of_scope(errors: &QueryErrors) -> bool {
    errors.0.iter().any(|error| error.message.contains("is not supported yet"))
}

#[test]
fn bullets_own_queries() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/reference/bullet-cases.jsonl");
    let Ok(cases) = std::fs::read_to_string(&path) else {
        println!("skipped: no reference cases");
        return;
    };
    let (mut taken, mut named, mut refused, mut out_of_scope) = (0, 0, 0, 0);
    let mut wrong = Vec::new();
    for line in cases.lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let (name, bql) = (case["name"].as_str().unwrap(), case["bql"].as_str().unwrap());
        let schema = schema(&case);
        let mut options = ParseOptions::new(Dialect::Bullet, 1_600_000_000_000);
        options.schema = schema.as_ref();
        let parsed = parse(bql, &options);
        let expected = &case["expected"];
        match (expected["status"].as_str().unwrap(), parsed) {
            (_, Err(errors)) if is_out_of_scope(&errors) => out_of_scope += 1,
            ("rejected", Err(_)) => refused += 1,
            ("rejected", Ok(_)) => {
                wrong.push(format!("{name}: taken, but Bullet says {}\n{bql}", expected["errors"]))
            }
            (_, Err(errors)) => wrong.push(format!("{name}: refused\n{errors}")),
            (_, Ok(statement)) => {
                taken += 1;
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
        "{taken} taken ({named} of them with all column names seen), {refused} refused, {out_of_scope} out of scope"
    );
    assert!(wrong.is_empty(), "{} wrong:\n\n{}", wrong.len(), wrong.join("\n\n"));
}

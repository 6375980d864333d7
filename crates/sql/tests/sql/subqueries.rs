//! Compares random conditions with IN, NOT IN, ANY, ALL and EXISTS with the three-valued logic of the SQL standard.
//!
//! They run over small tables with nulls and empty tables, in every place that takes a condition. The
//! [`reference`](crate::reference) computes the rows. A condition that cannot be planned may be refused, with a hint;
//! most must not be. `SOAK_CASES` is the number of statements, from `SOAK_SEED` on.

use crate::common::{Chance, block_on, csv};
use crate::ordered::{number, tables_shown};
use crate::reference::compare::{over, read, shown, small_tables};
use crate::reference::make::QueryGenerator;
use crate::reference::text::Renderer;
use crate::reference::{Row, Table, Type};
use swiftwater_sql::{RunOptions, SqlError};

/// Statements that are tried over each set of tables.
const STATEMENTS: u64 = 10;

/// The fault of an answer, if it has one.
fn fault(
    answer: Result<String, SqlError>,
    expected: Vec<Row>,
    types: &[Type],
    refused: &mut u64,
) -> Option<String> {
    let answer = match answer {
        Ok(answer) => answer,
        Err(error) if error.to_string().starts_with("not supported: ") && error.hint().is_some() => {
            *refused += 1;
            return None;
        }
        Err(error) => return Some(format!("{:?} {error}", error.kind())),
    };
    let sorted = |mut rows: Vec<Row>| {
        rows.sort();
        rows
    };
    let found = sorted(answer.lines().skip(1).map(|line| read(line, types)).collect());
    let expected = sorted(expected);
    let rows = |rows: &[Row]| rows.iter().map(|row| shown(row)).collect::<Vec<_>>().join("\n");
    (found != expected).then(|| format!("found:\n{}\nexpected:\n{}", rows(&found), rows(&expected)))
}

#[test]
fn random_comparisons_with_queries_have_three_values() {
    let (cases, first) = (number("SOAK_CASES", 40), number("SOAK_SEED", 1));
    let (mut faults, mut refused) = (Vec::new(), 0);
    for seed in (first..).take(cases.div_ceil(STATEMENTS) as usize) {
        let mut chance = Chance(seed);
        let tables: Vec<Table> = small_tables(&mut chance);
        let threads = 1 + chance.below(4) as usize;
        let sql = over(&tables, threads, 8192);
        for statement in 0..STATEMENTS {
            let mut maker = QueryGenerator::new(&mut chance, false);
            let relation = maker.with_predicate();
            let types: Vec<Type> = relation.columns().iter().map(|column| maker.type_of(*column)).collect();
            let text = Renderer::new(&tables).statement(&relation, |_| String::new());
            let answer = block_on(csv(&sql, &text, RunOptions::default()));
            if let Some(fault) = fault(answer, relation.rows(&tables, None), &types, &mut refused) {
                faults.push(format!(
                    "seed {seed}, statement {statement}\n{}\n{text}\n{fault}",
                    tables_shown(&tables)
                ));
            }
        }
    }
    println!("{refused} of {cases} were refused");
    let told = faults.len().min(number("SOAK_FAULTS", 3) as usize);
    assert!(faults.is_empty(), "{} faults in {cases}\n\n{}", faults.len(), faults[..told].join("\n\n"));
    assert!(refused * 4 < cases, "{refused} of {cases} were refused");
}

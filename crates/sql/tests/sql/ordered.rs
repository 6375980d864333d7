//! Compares the rows and order of random statements with the [`reference`](crate::reference).
//!
//! The statements combine filters that fix columns, outer joins, grouping sets, windows, unions, first rows and queries
//! of WITH. Their plans are random, over small tables with nulls.
//!
//! `SOAK_CASES` is the number of plans, from `SOAK_SEED` on. The few plans that run without it include some that were
//! answered in the wrong order.

use crate::common::{Chance, block_on, csv};
use crate::reference::compare::{over, read, shown, small_tables};
use crate::reference::evaluate::{order_of_keys, with_keys};
use crate::reference::make::QueryGenerator;
use crate::reference::text::Renderer;
use crate::reference::{Key, Relation, Row, Table, Type};
use swiftwater_sql::{RunOptions, Sql};

/// Plans that are tried over each set of tables.
const PLANS: u64 = 10;

pub(crate) fn number(name: &str, short: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(short)
}

struct QueryCase<'a> {
    relation: &'a Relation,
    types: Vec<Type>,
    order: Vec<Key>,
    /// Number of rows, and of the rows skipped before them.
    limit: Option<(usize, usize)>,
}

impl QueryCase<'_> {
    fn text(&self, tables: &[Table]) -> String {
        Renderer::new(tables).statement(self.relation, |renderer| {
            let limit = self.limit.map_or(String::new(), |(limit, offset)| match offset {
                0 => format!(" LIMIT {limit}"),
                _ => format!(" LIMIT {limit} OFFSET {offset}"),
            });
            format!(" ORDER BY {}{limit}", renderer.keys(&self.order))
        })
    }

    /// The fault of an answer, if it has one.
    fn fault(&self, tables: &[Table], answer: &str) -> Option<String> {
        let columns = self.relation.columns();
        let keyed = |rows: Vec<Row>| with_keys(rows, &columns, &self.order, tables, None);
        let found = keyed(answer.lines().skip(1).map(|line| read(line, &self.types)).collect());
        let mut expected = keyed(self.relation.rows(tables, None));
        let mut all: Vec<Row> = expected.iter().map(|(_, row)| row.clone()).collect();
        expected.sort_by(|(left, _), (right, _)| order_of_keys(left, right, &self.order));
        let (limit, offset) = self.limit.unwrap_or((usize::MAX, 0));
        let expected: Vec<(Row, Row)> = expected.into_iter().skip(offset).take(limit).collect();
        let rows = || {
            let rows: Vec<String> = expected.iter().map(|(_, row)| shown(row)).collect();
            rows.join("\n")
        };
        if found.len() != expected.len() {
            return Some(format!("{} rows, expected {}:\n{}", found.len(), expected.len(), rows()));
        }
        if found.iter().zip(&expected).any(|((found, _), (expected, _))| found != expected) {
            return Some(format!("another order or other rows, expected:\n{}", rows()));
        }
        for (_, row) in &found {
            match all.iter().position(|one| one == row) {
                Some(index) => drop(all.swap_remove(index)),
                None => {
                    return Some(format!(
                        "a row that is not among those expected, {}:\n{}",
                        shown(row),
                        rows()
                    ));
                }
            }
        }
        None
    }
}

fn ask(sql: &Sql, text: &str) -> Result<String, String> {
    block_on(csv(sql, text, RunOptions::default())).map_err(|error| format!("{:?} {error}", error.kind()))
}

pub(crate) fn tables_shown(tables: &[Table]) -> String {
    let tables = tables.iter().map(|table| {
        let rows: Vec<String> = table.rows.iter().map(|row| shown(row)).collect();
        format!("{}: {}", table.name, rows.join(" | "))
    });
    tables.collect::<Vec<_>>().join("\n")
}

#[test]
fn random_plans_answer_with_the_right_rows_in_the_order_that_is_asked_for() {
    let (cases, first) = (number("SOAK_CASES", 40), number("SOAK_SEED", 10));
    let mut faults = Vec::new();
    for seed in (first..).take(cases.div_ceil(PLANS) as usize) {
        let mut chance = Chance(seed);
        let tables = small_tables(&mut chance);
        let (threads, batch_rows) = (1 + chance.below(4) as usize, [2, 8192][chance.below(2) as usize]);
        let sql = over(&tables, threads, batch_rows);
        for plan in 0..PLANS {
            let mut maker = QueryGenerator::new(&mut chance, false);
            let depth = 1 + maker.chance.below(3) as usize;
            let relation = maker.relation(depth);
            let columns = relation.columns();
            let order = maker.some_order(&columns);
            let limit = match maker.once_in(3) {
                true => Some((1 + maker.chance.below(6) as usize, maker.chance.below(3) as usize)),
                false => None,
            };
            let types = columns.iter().map(|column| maker.type_of(*column)).collect();
            let asked = QueryCase { relation: &relation, types, order, limit };
            let text = asked.text(&tables);
            let (answer, fault) = match ask(&sql, &text) {
                Ok(answer) => (answer.clone(), asked.fault(&tables, &answer)),
                Err(error) => (String::new(), Some(error)),
            };
            if let Some(fault) = fault {
                faults.push(format!(
                    "seed {seed}, plan {plan}, {threads} threads, batches of {batch_rows}\n{}\n{text}\n{answer}{fault}",
                    tables_shown(&tables)
                ));
            }
        }
    }
    let told = faults.len().min(number("SOAK_FAULTS", 3) as usize);
    assert!(faults.is_empty(), "{} faults in {cases}\n\n{}", faults.len(), faults[..told].join("\n\n"));
}

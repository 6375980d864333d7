//! Evaluates relations naively: nested loops, whole lists, one row at a time.

use std::cmp::Ordering;

use super::{
    Aggregate, Comparison, Expr, Grouping, JoinKind, Key, Quantifier, Relation, Row, Table, Value,
    WindowFunction,
};

/// The columns of a row, and those of the rows around it.
#[derive(Clone, Copy)]
pub(crate) struct Scope<'a> {
    pub(crate) columns: &'a [usize],
    pub(crate) row: &'a [Value],
    pub(crate) outer: Option<&'a Scope<'a>>,
}

impl Scope<'_> {
    fn value(&self, column: usize) -> Value {
        match self.columns.iter().position(|own| *own == column) {
            Some(index) => self.row[index].clone(),
            None => self.outer.unwrap_or_else(|| panic!("no column n{column}")).value(column),
        }
    }
}

/// Three-valued: none is unknown.
fn truth(value: &Value) -> Option<bool> {
    match value {
        Value::Null => None,
        Value::Boolean(value) => Some(*value),
        other => panic!("{other:?} is no truth"),
    }
}

fn value_of(truth: Option<bool>) -> Value {
    truth.map_or(Value::Null, Value::Boolean)
}

fn and(truths: impl Iterator<Item = Option<bool>>) -> Option<bool> {
    let mut all = Some(true);
    for one in truths {
        all = match (all, one) {
            (Some(false), _) | (_, Some(false)) => Some(false),
            (Some(true), Some(true)) => Some(true),
            _ => None,
        };
    }
    all
}

fn or(truths: impl Iterator<Item = Option<bool>>) -> Option<bool> {
    and(truths.map(|truth| truth.map(|truth| !truth))).map(|none| !none)
}

fn compare(comparison: Comparison, left: &Value, right: &Value) -> Option<bool> {
    if *left == Value::Null || *right == Value::Null {
        return None;
    }
    let order = left.cmp(right);
    Some(match comparison {
        Comparison::Equal => order == Ordering::Equal,
        Comparison::NotEqual => order != Ordering::Equal,
        Comparison::Less => order == Ordering::Less,
        Comparison::LessOrEqual => order != Ordering::Greater,
        Comparison::Greater => order == Ordering::Greater,
        Comparison::GreaterOrEqual => order != Ordering::Less,
    })
}

impl Expr {
    pub(crate) fn value(&self, tables: &[Table], scope: &Scope<'_>) -> Value {
        let truth_of = |expr: &Expr| truth(&expr.value(tables, scope));
        match self {
            Expr::Column(column) => scope.value(*column),
            Expr::Literal(value, _) => value.clone(),
            Expr::Compare(comparison, left, right) => {
                value_of(compare(*comparison, &left.value(tables, scope), &right.value(tables, scope)))
            }
            Expr::Plus(expr, number) => match expr.value(tables, scope) {
                Value::Long(value) => Value::Long(value + number),
                _ => Value::Null,
            },
            Expr::Coalesce(first, second) => match first.value(tables, scope) {
                Value::Null => second.value(tables, scope),
                value => value,
            },
            Expr::Case { when, then, otherwise } => match truth_of(when) {
                Some(true) => then.value(tables, scope),
                _ => otherwise.value(tables, scope),
            },
            Expr::And(exprs) => value_of(and(exprs.iter().map(truth_of))),
            Expr::Or(exprs) => value_of(or(exprs.iter().map(truth_of))),
            Expr::Not(expr) => value_of(truth_of(expr).map(|truth| !truth)),
            Expr::IsNull { expr, negated } => {
                Value::Boolean((expr.value(tables, scope) == Value::Null) != *negated)
            }
            Expr::InList { expr, values, negated } => {
                let value = expr.value(tables, scope);
                let found = or(values.iter().map(|one| compare(Comparison::Equal, &value, one)));
                value_of(found.map(|found| found != *negated))
            }
            Expr::In { exprs, query, negated } => {
                let values: Row = exprs.iter().map(|expr| expr.value(tables, scope)).collect();
                let rows = query.rows(tables, Some(scope));
                let equal = |row: &Row| {
                    and(values.iter().zip(row).map(|(one, other)| compare(Comparison::Equal, one, other)))
                };
                let found = or(rows.iter().map(equal));
                value_of(found.map(|found| found != *negated))
            }
            Expr::Exists { query, negated } => {
                Value::Boolean(query.rows(tables, Some(scope)).is_empty() == *negated)
            }
            Expr::Scalar(query) => {
                let rows = query.rows(tables, Some(scope));
                assert!(rows.len() <= 1, "a scalar query has {} rows", rows.len());
                rows.first().map_or(Value::Null, |row| row[0].clone())
            }
            Expr::Quantified { expr, comparison, quantifier, query } => {
                let value = expr.value(tables, scope);
                let rows = query.rows(tables, Some(scope));
                let truths = rows.iter().map(|row| compare(*comparison, &value, &row[0]));
                value_of(match quantifier {
                    Quantifier::Any => or(truths),
                    Quantifier::All => and(truths),
                })
            }
        }
    }
}

/// The order of two values.
pub(crate) fn order(left: &Value, right: &Value, key: &Key) -> Ordering {
    match (left, right) {
        (Value::Null, Value::Null) => Ordering::Equal,
        (Value::Null, _) if key.nulls_first => Ordering::Less,
        (Value::Null, _) => Ordering::Greater,
        (_, Value::Null) => order(right, left, key).reverse(),
        _ if key.descending => right.cmp(left),
        _ => left.cmp(right),
    }
}

/// The values of an order's keys for each row, with the row.
pub(crate) fn with_keys(
    rows: Vec<Row>,
    columns: &[usize],
    keys: &[Key],
    tables: &[Table],
    outer: Option<&Scope<'_>>,
) -> Vec<(Row, Row)> {
    let keyed = rows.into_iter().map(|row| {
        let scope = Scope { columns, row: &row, outer };
        let values = keys.iter().map(|key| key.expr.value(tables, &scope)).collect();
        (values, row)
    });
    keyed.collect()
}

pub(crate) fn order_of_keys(left: &[Value], right: &[Value], keys: &[Key]) -> Ordering {
    let orders = keys.iter().zip(left.iter().zip(right)).map(|(key, (left, right))| order(left, right, key));
    orders.fold(Ordering::Equal, Ordering::then)
}

fn aggregate(
    function: &Aggregate,
    rows: &[&Row],
    columns: &[usize],
    tables: &[Table],
    outer: Option<&Scope<'_>>,
) -> Value {
    let values = |expr: &Expr| -> Vec<Value> {
        let values = rows.iter().map(|row| expr.value(tables, &Scope { columns, row, outer }));
        values.filter(|value| *value != Value::Null).collect()
    };
    match function {
        Aggregate::Rows => Value::Long(rows.len() as i64),
        Aggregate::Count(expr) => Value::Long(values(expr).len() as i64),
        Aggregate::CountDistinct(expr) => {
            let mut values = values(expr);
            values.sort();
            values.dedup();
            Value::Long(values.len() as i64)
        }
        Aggregate::Sum(expr) => {
            let sum = values(expr).into_iter().map(|value| match value {
                Value::Long(value) => value,
                other => panic!("{other:?} is summed"),
            });
            sum.reduce(|a, b| a + b).map_or(Value::Null, Value::Long)
        }
        Aggregate::Min(expr) => values(expr).into_iter().min().unwrap_or(Value::Null),
        Aggregate::Max(expr) => values(expr).into_iter().max().unwrap_or(Value::Null),
    }
}

/// The keys of each grouping set.
fn sets(grouping: Grouping, keys: usize) -> Vec<Vec<bool>> {
    match grouping {
        Grouping::Plain => vec![vec![true; keys]],
        Grouping::Rollup => (0..=keys).rev().map(|kept| (0..keys).map(|key| key < kept).collect()).collect(),
        Grouping::Cube => {
            (0..1 << keys).map(|set| (0..keys).map(|key| set >> key & 1 == 1).collect()).collect()
        }
        Grouping::Sets => {
            let alone = (0..keys).map(|kept| (0..keys).map(|key| key == kept).collect());
            alone.chain([vec![true; keys]]).collect()
        }
    }
}

fn distinct(mut rows: Vec<Row>) -> Vec<Row> {
    rows.sort();
    rows.dedup();
    rows
}

impl Relation {
    /// Its rows, in any order.
    pub(crate) fn rows(&self, tables: &[Table], outer: Option<&Scope<'_>>) -> Vec<Row> {
        match self {
            Relation::Table { table, .. } => tables[*table].rows.clone(),
            Relation::Named { definition, .. } => definition.rows(tables, None),
            Relation::Filter { input, condition } => {
                let columns = input.columns();
                let mut rows = input.rows(tables, outer);
                rows.retain(|row| {
                    truth(&condition.value(tables, &Scope { columns: &columns, row, outer })) == Some(true)
                });
                rows
            }
            Relation::Project { input, items } => {
                let columns = input.columns();
                let rows = input.rows(tables, outer).into_iter().map(|row| {
                    let scope = Scope { columns: &columns, row: &row, outer };
                    items.iter().map(|(expr, _)| expr.value(tables, &scope)).collect()
                });
                rows.collect()
            }
            Relation::Join { kind, left, right, on } => join(*kind, left, right, on, tables, outer),
            Relation::Group { input, grouping, keys, aggregates, having } => {
                let columns = input.columns();
                let own = self.columns();
                let rows = input.rows(tables, outer);
                let mut groups = Vec::new();
                for set in sets(*grouping, keys.len()) {
                    let key_of = |row: &Row| -> Row {
                        let scope = Scope { columns: &columns, row, outer };
                        let keys = keys.iter().zip(&set);
                        keys.map(
                            |((key, _), kept)| if *kept { key.value(tables, &scope) } else { Value::Null },
                        )
                        .collect()
                    };
                    let keyed: Vec<(Row, &Row)> = rows.iter().map(|row| (key_of(row), row)).collect();
                    let mut found = distinct(keyed.iter().map(|(key, _)| key.clone()).collect());
                    // All rows together are a group even where there are none.
                    if found.is_empty() && !set.contains(&true) {
                        found.push(vec![Value::Null; keys.len()]);
                    }
                    for key in found {
                        let members: Vec<&Row> =
                            keyed.iter().filter(|(other, _)| *other == key).map(|(_, row)| *row).collect();
                        let mut group = key;
                        for (function, _) in aggregates {
                            group.push(aggregate(function, &members, &columns, tables, outer));
                        }
                        groups.push(group);
                    }
                }
                if let Some(having) = having {
                    groups.retain(|row| {
                        truth(&having.value(tables, &Scope { columns: &own, row, outer })) == Some(true)
                    });
                }
                groups
            }
            Relation::Window { input, function, partition, order, .. } => {
                window(input, function, partition, order, tables, outer)
            }
            Relation::Union { left, right, .. } => {
                let mut rows = left.rows(tables, outer);
                rows.extend(right.rows(tables, outer));
                rows
            }
            Relation::Distinct { input } => distinct(input.rows(tables, outer)),
            Relation::First { input, order, limit, offset } => {
                let mut rows = with_keys(input.rows(tables, outer), &input.columns(), order, tables, outer);
                rows.sort_by(|(left, _), (right, _)| order_of_keys(left, right, order));
                rows.into_iter().skip(*offset).take(*limit).map(|(_, row)| row).collect()
            }
            Relation::Unnested { input, keys, list, .. } => {
                let columns = input.columns();
                let rows = input.rows(tables, outer).into_iter().map(|row| {
                    let scope = Scope { columns: &columns, row: &row, outer };
                    let mut out: Row = keys.iter().map(|(key, _)| key.value(tables, &scope)).collect();
                    out.push(list.value(tables, &scope));
                    out
                });
                rows.collect()
            }
        }
    }
}

fn join(
    kind: JoinKind,
    left: &Relation,
    right: &Relation,
    on: &Expr,
    tables: &[Table],
    outer: Option<&Scope<'_>>,
) -> Vec<Row> {
    let columns = [left.columns(), right.columns()].concat();
    let (widths, lefts, rights) =
        ((left.columns().len(), right.columns().len()), left.rows(tables, outer), right.rows(tables, outer));
    let nulls = |width: usize| vec![Value::Null; width];
    let mut rows = Vec::new();
    let mut right_found = vec![false; rights.len()];
    for left in &lefts {
        let mut left_found = false;
        for (right, found) in rights.iter().zip(&mut right_found) {
            let row = [left.clone(), right.clone()].concat();
            if truth(&on.value(tables, &Scope { columns: &columns, row: &row, outer })) == Some(true) {
                (left_found, *found) = (true, true);
                rows.push(row);
            }
        }
        if !left_found && matches!(kind, JoinKind::Left | JoinKind::Full) {
            rows.push([left.clone(), nulls(widths.1)].concat());
        }
    }
    if matches!(kind, JoinKind::Right | JoinKind::Full) {
        let lonely = rights.iter().zip(&right_found).filter(|(_, found)| !**found);
        rows.extend(lonely.map(|(right, _)| [nulls(widths.0), right.clone()].concat()));
    }
    rows
}

/// The rows with the function's value behind: over whole partitions without an order, else up to the last row that is equal in it.
fn window(
    input: &Relation,
    function: &WindowFunction,
    partition: &[Expr],
    keys: &[Key],
    tables: &[Table],
    outer: Option<&Scope<'_>>,
) -> Vec<Row> {
    let columns = input.columns();
    let parted = input.rows(tables, outer).into_iter().map(|row| {
        let scope = Scope { columns: &columns, row: &row, outer };
        let parts: Row = partition.iter().map(|expr| expr.value(tables, &scope)).collect();
        (parts, row)
    });
    let parted: Vec<(Row, Row)> = parted.collect();
    let mut rows = Vec::with_capacity(parted.len());
    for part in distinct(parted.iter().map(|(parts, _)| parts.clone()).collect()) {
        let members = parted.iter().filter(|(parts, _)| *parts == part).map(|(_, row)| row.clone()).collect();
        let mut sorted = with_keys(members, &columns, keys, tables, outer);
        sorted.sort_by(|(left, _), (right, _)| order_of_keys(left, right, keys));
        let is_peer = |a: usize, b: usize| order_of_keys(&sorted[a].0, &sorted[b].0, keys) == Ordering::Equal;
        for index in 0..sorted.len() {
            let first_peer = (0..=index).find(|other| is_peer(*other, index)).unwrap_or(index);
            let end = (index..sorted.len()).take_while(|other| is_peer(*other, index)).count() + index;
            let value = match function {
                WindowFunction::RowNumber => Value::Long(index as i64 + 1),
                WindowFunction::Rank => Value::Long(first_peer as i64 + 1),
                WindowFunction::DenseRank => {
                    let steps = (1..=first_peer).filter(|other| !is_peer(*other, other - 1)).count();
                    Value::Long(steps as i64 + 1)
                }
                WindowFunction::Aggregate(function) => {
                    let frame: Vec<&Row> = sorted[..end].iter().map(|(_, row)| row).collect();
                    aggregate(function, &frame, &columns, tables, outer)
                }
            };
            let mut row = sorted[index].1.clone();
            row.push(value);
            rows.push(row);
        }
    }
    rows
}

//! Computes one result: the output of a query for the rows of one window.

use std::{cmp::Ordering, collections::BTreeMap};

use serde_json::{Map, Value as Json};
use swiftwater_lang::plan::{Body, Expr, Group, OutputColumn, Query, Raw};

use super::{
    Answer, Key, Unsupported,
    aggregate::aggregate,
    answer::AnswerRow,
    eval::{Row, evaluate, is_true},
    rows::{FilteredRow, filtered_rows},
    table::{Table, table},
    value::{Value, total_order},
};

/// Rows that are looked at together, and the first instant of their window and the first after it.
#[derive(Debug, Default)]
pub(super) struct Part<'a> {
    pub(super) rows: Vec<FilteredRow<'a>>,
    pub(super) window: Option<(i64, i64)>,
}

/// The result over these rows; of several parts (sessions), one behind another.
pub(super) fn result(query: &Query, parts: &[Part<'_>]) -> Result<Answer, Unsupported> {
    let mut answered = UnorderedAnswer::default();
    for part in parts {
        match &query.body {
            Body::Raw(raw) => answered.rows.extend(part.rows.iter().map(|kept| raw_row(raw, query, kept))),
            Body::Group(group) => group_rows(group, query, part, &mut answered),
        }
    }
    if answered.has_ties {
        let picks = |group: &Group| group.having.is_some() || query.limit.is_some();
        let is_looked_at = query.outer.is_some() || !query.order_by.is_empty();
        if is_looked_at || matches!(&query.body, Body::Group(group) if picks(group)) {
            return Err(Unsupported("a choice among what TOP leaves open"));
        }
    }
    order(query, &mut answered.rows);
    let answer = Answer {
        rows: answered.rows,
        spare: answered.spare,
        limit: query.limit,
        is_ordered: !query.order_by.is_empty(),
        ties_in_order: matches!(query.body, Body::Raw(_)),
    };
    match &query.outer {
        None => Ok(answer),
        Some(outer) => outer_result(outer, &answer),
    }
}

/// An outer query's result over the records of this one's.
fn outer_result(outer: &Query, inner: &Answer) -> Result<Answer, Unsupported> {
    let events: Vec<Json> = inner.records().into_iter().map(Json::Object).collect();
    let rows = events.iter().flat_map(|event| filtered_rows(outer, event)).collect();
    result(outer, &[Part { rows, window: None }])
}

/// Rows before they are ordered.
#[derive(Default)]
struct UnorderedAnswer {
    rows: Vec<AnswerRow>,
    /// Rows that may stand in place of equals.
    spare: Vec<AnswerRow>,
    /// True if some rows may come in another order.
    has_ties: bool,
}

/// Sorts rows as the query's ORDER BY says; of equal ones the earlier comes first.
fn order(query: &Query, rows: &mut [AnswerRow]) {
    rows.sort_by(|a, b| {
        let orders = query.order_by.iter().zip(a.keys.iter().zip(&b.keys)).map(|(key, (a, b))| {
            let order = total_order(a, b);
            if key.descending { order.reverse() } else { order }
        });
        orders.into_iter().find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    });
}

fn sort_keys(query: &Query, row: Row<'_>) -> Vec<Value> {
    query.order_by.iter().map(|key| evaluate(&key.expr, row)).collect()
}

fn add_columns(record: &mut Map<String, Json>, columns: &[OutputColumn], row: Row<'_>) {
    for column in columns {
        record.insert(column.name.to_string(), evaluate(&column.expr, row).to_json());
    }
}

fn raw_row(raw: &Raw, query: &Query, kept: &FilteredRow<'_>) -> AnswerRow {
    let mut record = Map::new();
    if let (Some(star), Json::Object(fields)) = (&raw.star, kept.json) {
        let fields =
            fields.iter().filter(|(name, _)| !star.without.iter().any(|without| **without == ***name));
        record.extend(fields.map(|(name, value)| (name.clone(), value.clone())));
    }
    add_columns(&mut record, &raw.columns, kept.row());
    AnswerRow { record, keys: sort_keys(query, kept.row()) }
}

/// The groups that HAVING keeps, in the order of their keys; of several grouping sets, one set's behind another's. With
/// an aggregate that returns rows, a group has as many.
fn group_rows(group: &Group, query: &Query, part: &Part<'_>, answered: &mut UnorderedAnswer) {
    let all: Box<[usize]> = (0..group.keys.len()).collect();
    let sets = if group.sets.is_empty() { std::slice::from_ref(&all) } else { &group.sets[..] };
    for (number, set) in sets.iter().enumerate() {
        set_rows(group, query, part, (number, set), answered);
    }
}

/// The groups by the keys at some places; the others are null.
fn set_rows(
    group: &Group,
    query: &Query,
    part: &Part<'_>,
    (number, set): (usize, &[usize]),
    answered: &mut UnorderedAnswer,
) {
    let mut groups: BTreeMap<Key, Vec<&FilteredRow<'_>>> = BTreeMap::new();
    if set.is_empty() {
        groups.insert(Key(vec![Value::Null; group.keys.len()]), Vec::new());
    }
    for kept in &part.rows {
        let mut key = key_of(group, kept);
        let others = (0..group.keys.len()).filter(|place| !set.contains(place));
        others.for_each(|place| key.0[place] = Value::Null);
        groups.entry(key).or_default().push(kept);
    }
    let bits =
        |asked: &[usize]| asked.iter().fold(0, |bits, place| bits * 2 + i64::from(!set.contains(place)));
    for (Key(key), members) in groups {
        let mut slots: Vec<Value> = key.into_iter().map(Value::into_key).collect();
        for wanted in &group.aggregates {
            slots.push(aggregate(
                wanted.function,
                &argument_rows(&wanted.arguments, &wanted.filter, &members),
            ));
        }
        let found = match &group.table {
            None => Table { rows: vec![Vec::new()], spare: Vec::new(), has_ties: false },
            Some(wanted) => table(wanted, &argument_rows(&wanted.arguments, &None, &members)),
        };
        let row_of = |columns: Vec<Value>| -> Option<AnswerRow> {
            // Rows that may change places are known by their group and count.
            let mut ties = slots[..group.keys.len()].to_vec();
            ties.push(Value::Long(number as i64));
            ties.extend(columns.last().cloned());
            let mut slots = slots.clone();
            slots.extend(columns);
            slots.extend(group.groupings.iter().map(|asked| Value::Long(bits(asked))));
            slots.push(part.window.map_or(Value::Null, |(start, _)| Value::Long(start)));
            slots.push(part.window.map_or(Value::Null, |(_, end)| Value::Long(end)));
            let row = Row::of_slots(&slots);
            if !group.having.as_ref().is_none_or(|having| is_true(having, row)) {
                return None;
            }
            let mut record = Map::new();
            add_columns(&mut record, &group.columns, row);
            let keys = if found.has_ties { ties } else { sort_keys(query, row) };
            Some(AnswerRow { record, keys })
        };
        answered.has_ties |= found.has_ties;
        answered.spare.extend(found.spare.iter().cloned().filter_map(row_of));
        answered.rows.extend(found.rows.iter().cloned().filter_map(row_of));
    }
}

/// The group that a row is in.
pub(super) fn key_of(group: &Group, kept: &FilteredRow<'_>) -> Key {
    Key(group.keys.iter().map(|key| evaluate(key, kept.row())).collect())
}

/// An aggregate's arguments, a row for each of the group's rows that it takes in; `true` where it has none.
fn argument_rows(arguments: &[Expr], filter: &Option<Expr>, members: &[&FilteredRow<'_>]) -> Vec<Vec<Value>> {
    let taken =
        members.iter().filter(|kept| filter.as_ref().is_none_or(|filter| is_true(filter, kept.row())));
    taken
        .map(|kept| match arguments {
            [] => vec![Value::Boolean(true)],
            arguments => arguments.iter().map(|argument| evaluate(argument, kept.row())).collect(),
        })
        .collect()
}

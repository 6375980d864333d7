//! Computes the records of a grouped result: HAVING, columns, ORDER BY and LIMIT over the slots of an aggregation.
//!
//! Knows nothing of when windows open and close; the caller passes their bounds. It reads groups and leaves them
//! unchanged. Therefore an additive window can continue with them, and overlapping windows can share them.

use std::cmp::Ordering;

use bumpalo::Bump;
use swiftwater_event::{Millis, Value};
use swiftwater_lang::Dialect;

use super::{GroupTable, Groups, RecordWriter, ResultSet, group_table::GroupRows, record::is_wanted};
use crate::{
    expr::{EvalCounts, KeyOrder, Rows, Scratch, total_order},
    standing::{CompiledBody, CompiledGroup, StandingQuery},
};

/// The error for rows that Bullet cannot sort.
pub(crate) const NO_ORDER: &str = "ORDER BY meets values that cannot be compared with one another";

/// The parameters of a result of groups.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GroupResult<'b> {
    /// The most records.
    pub(crate) limit: Option<u64>,
    /// The windows that the groups are of.
    pub(crate) bounds: Bounds<'b>,
    /// Time of the result.
    pub(crate) now: Millis,
    /// The columns to compute and write; none: all.
    pub(crate) wanted: Option<&'b [bool]>,
}

/// First instants of windows, and the first ones after them.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Bounds<'b> {
    /// The result has no window by time.
    None,
    /// All groups are of one window.
    One(Millis, Millis),
    /// Each group has its own, in the order of the groups: sessions.
    Each(&'b [(Millis, Millis)]),
}

/// The groups of a query, with the one group there that an aggregation without keys has even where nothing came;
/// `None` where the query makes no groups.
pub(crate) fn with_single_group(query: &StandingQuery, groups: Option<Groups>) -> Option<Groups> {
    let CompiledBody::Group(group) = &query.body else { return groups };
    let mut groups = groups.unwrap_or_else(|| Groups::new(group, query.dialect()));
    if group.has_total() {
        groups.ensure_single();
    }
    Some(groups)
}

/// Writes the records of a result. Without ORDER BY they come in the order of their keys, so that the answer does not
/// depend on which shard saw what first.
pub(crate) fn write_groups(
    query: &StandingQuery,
    groups: &Groups,
    of: &GroupResult<'_>,
    result: &mut ResultSet,
) {
    let CompiledBody::Group(group) = &query.body else { return };
    let dialect = query.dialect();
    let arena = Bump::new();
    let mut counts = EvalCounts::default();
    let GroupRows { mut slots, group_of_row, set_of_row, sketches, failure } = groups.evaluate(group, &arena);
    if let Some(failure) = failure {
        result.failure = Some(failure.into());
        return;
    }
    if dialect.errors_become_null() {
        for value in slots.iter_mut().flatten().filter(|value| matches!(value, Value::Error)) {
            *value = Value::Null;
            counts.expression_errors += 1;
        }
    }
    let (starts, ends): (Vec<Value<'_>>, Vec<Value<'_>>) =
        group_of_row.iter().map(|&group| of.bounds.values(group)).unzip();
    slots.extend([starts, ends]);
    let rows =
        chosen_rows(group, &slots, (&set_of_row, group_of_row.len()), of, dialect, &arena, &mut counts);
    let Some(rows) = rows else {
        result.failure = Some(NO_ORDER.into());
        return;
    };
    let kept: Vec<Vec<Value<'_>>> =
        slots.iter().map(|column| rows.iter().map(|&row| column[row as usize]).collect()).collect();
    let input = Rows::Slots { columns: &kept, count: rows.len(), now: of.now };
    let columns: Vec<Vec<Value<'_>>> = group
        .columns
        .iter()
        .enumerate()
        .map(|(place, column)| {
            let mut values = Vec::new();
            if !is_wanted(of.wanted, place) {
                return values;
            }
            column.program.evaluate(&input, &mut Scratch::default(), &arena, &mut counts, &mut values);
            values
        })
        .collect();
    let mut writer = RecordWriter::new(&group.columns, dialect, !group.aggregates.is_empty());
    writer.wanted = of.wanted;
    let mut text = Vec::new();
    for row in 0..rows.len() {
        writer.write(&columns, row, &mut text);
    }
    result.text = text.into();
    result.sketches = sketches;
    result.count += rows.len() as u64;
    result.expression_errors += counts.expression_errors;
}

/// Runs a function over the one row of a group of a native aggregation: the values of its columns. `None` where HAVING
/// leaves it out.
pub(crate) fn with_single_row<R>(
    query: &StandingQuery,
    (groups, number): (&GroupTable, usize),
    of: (Bounds<'_>, Millis),
    (scratch, arena): (&mut Scratch, &Bump),
    look: impl FnOnce(&[Value<'_>]) -> R,
) -> Option<R> {
    let CompiledBody::Group(group) = &query.body else { return None };
    let (bounds, now) = of;
    let mut slots = Vec::with_capacity(group.keys.len() + group.aggregates.len() + group.groupings.len() + 2);
    groups.evaluate_one(group, number, arena, &mut slots);
    slots.iter_mut().filter(|slot| matches!(slot, Value::Error)).for_each(|slot| *slot = Value::Null);
    slots.extend(<[Value<'_>; 2]>::from(bounds.values(0)));
    let mut counts = EvalCounts::default();
    if let Some(having) = &group.having {
        let mut kept = Vec::new();
        having.filter_rows(&Rows::Row { slots: &slots, now }, scratch, arena, &mut counts, &mut kept);
        if kept.is_empty() {
            return None;
        }
    }
    let values = group.columns.iter().map(|column| column.program.value(&slots, now, scratch, arena).0);
    let values: Vec<Value<'_>> = values.collect();
    Some(look(&values))
}

/// The rows that HAVING keeps, in order, as many as LIMIT says; `None` where they have no order.
fn chosen_rows<'a>(
    group: &CompiledGroup,
    slots: &'a [Vec<Value<'a>>],
    (sets, count): (&[u32], usize),
    of: &GroupResult<'_>,
    dialect: Dialect,
    arena: &'a Bump,
    counts: &mut EvalCounts,
) -> Option<Vec<u32>> {
    let input = Rows::Slots { columns: slots, count, now: of.now };
    let mut rows: Vec<u32> = (0..count as u32).collect();
    if let Some(having) = &group.having {
        rows.clear();
        having.filter_rows(&input, &mut Scratch::default(), arena, counts, &mut rows);
    }
    let order: Vec<(Vec<Value<'a>>, KeyOrder)> = group
        .order
        .iter()
        .map(|(program, key)| {
            let mut values = Vec::new();
            program.evaluate(&input, &mut Scratch::default(), arena, counts, &mut values);
            (values, *key)
        })
        .collect();
    // Rows of one group have one key, and stay in the order that their aggregate gave them: the sort is stable.
    let keys = &slots[..group.keys.len()];
    let mut is_comparable = true;
    rows.sort_by(|&a, &b| {
        let (a, b) = (a as usize, b as usize);
        let by_order = order
            .iter()
            .map(|(values, key)| key.compare(&values[a], &values[b], dialect, &mut is_comparable));
        let by_key = keys.iter().map(|values| total_order(&values[a], &values[b]));
        let by_set = sets.get(a).cmp(&sets.get(b));
        by_order.chain([by_set]).chain(by_key).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    });
    // For a table, Bullet's LIMIT counts the points or places that it has, where it is made.
    let is_table_limit = group.table.is_some() && !dialect.errors_become_null();
    if let Some(limit) = of.limit.filter(|_| !is_table_limit) {
        rows.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    }
    is_comparable.then_some(rows)
}

impl Bounds<'_> {
    /// The last two slots of a group's rows.
    fn values(&self, group: u32) -> (Value<'static>, Value<'static>) {
        let bounds = match self {
            Bounds::None => None,
            Bounds::One(start, end) => Some((*start, *end)),
            Bounds::Each(bounds) => bounds.get(group as usize).copied(),
        };
        bounds.map_or((Value::Null, Value::Null), |(start, end)| (Value::Long(start), Value::Long(end)))
    }
}

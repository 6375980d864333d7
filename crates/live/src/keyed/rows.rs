//! Views over another view's rows: inserts added rows into groups, and retracts removed rows from them.
//!
//! Each change consists of rows that are new and rows that are gone; a changed row is one of each. Both are folded into
//! groups of their own ([`RowsFold`]). The new state of a group is its old state with the new rows merged and the old
//! rows retracted. Therefore only counts and sums are possible: they are exact in both directions. A sum of doubles is an
//! expansion that loses nothing. A group without rows is deleted: an aggregate counts them ([`count_rows`]).

use swiftwater_event::EventBatch;
use swiftwater_lang::plan::{Aggregate, AggregateFunction, Body, Expr, Query, Window};

use super::{Changes, Key, KeyMeta, KeyedQuery, UnsupportedView, ViewTime, by_part};
use crate::{
    operate::{GroupTable, InvalidState},
    step::Shard,
};

/// The contribution of changed rows to a view of them.
#[derive(Debug, Default)]
pub struct RowsFold {
    /// The groups of rows that came.
    came: Option<GroupTable>,
    /// The groups of rows that went.
    went: Option<GroupTable>,
    /// Rows that came, and that it is of.
    pub matched: u64,
    /// Number of them with a value that does not fit its wanted type.
    pub mistyped: u64,
    /// Operations that could not be done.
    pub expression_errors: u64,
}

/// The changes by changed rows in a view of them.
#[derive(Debug, Default)]
pub struct RowsChanges {
    /// The states of its keys.
    pub states: Changes,
    /// The same keys.
    pub keys: Vec<Key>,
    /// Groups that were passed over for the length of their keys.
    pub long_keys: u64,
}

/// The reason why rows cannot be taken in.
#[derive(Debug, thiserror::Error)]
pub enum RowsError<E> {
    /// The kept bytes of a key are no state.
    #[error(transparent)]
    State(#[from] InvalidState),
    /// More rows left than came.
    #[error("a row is to be taken out of a group that does not have it")]
    NotThere,
    /// The kept states cannot be read.
    #[error("{0}")]
    Kept(E),
}

/// Adds the count of each group's rows to a query, so that it can be a view of another view's rows. Returns the number of
/// the aggregate that counts them, for [`KeyedQuery::of_rows`].
pub fn count_rows(query: &mut Query) -> Result<usize, UnsupportedView> {
    if query.window != Window::None {
        return Err(UnsupportedView::WindowsOfRows);
    }
    let Body::Group(group) = &mut query.body else { return Err(UnsupportedView::NoGroups) };
    let can_retract = |function: AggregateFunction| {
        matches!(function, AggregateFunction::Count | AggregateFunction::Sum | AggregateFunction::Avg)
    };
    if let Some(other) = group.aggregates.iter().find(|aggregate| !can_retract(aggregate.function)) {
        return Err(UnsupportedView::NotTakenOut(other.function));
    }
    if group.table.is_some() {
        return Err(UnsupportedView::RowsNotTakenOut);
    }
    let counts = |aggregate: &Aggregate| {
        let is_whole = aggregate.arguments.is_empty() && aggregate.filter.is_none();
        aggregate.function == AggregateFunction::Count && is_whole
    };
    if let Some(place) = group.aggregates.iter().position(counts) {
        return Ok(place);
    }
    let place = group.aggregates.len();
    let first_moved = group.keys.len() + place;
    let over_slots = group.having.iter_mut().chain(group.columns.iter_mut().map(|column| &mut column.expr));
    let over_slots = over_slots.chain(query.order_by.iter_mut().map(|key| &mut key.expr));
    over_slots.for_each(|expr| move_slots(expr, first_moved));
    group.aggregates.push(Aggregate {
        function: AggregateFunction::Count,
        arguments: Vec::new(),
        filter: None,
    });
    Ok(place)
}

/// Makes room for a slot before this one.
fn move_slots(expr: &mut Expr, first: usize) {
    match expr {
        Expr::Slot(slot) if *slot >= first => *slot += 1,
        Expr::Call { args, .. } => args.iter_mut().for_each(|arg| move_slots(arg, first)),
        Expr::Slot(_) | Expr::Literal(_) | Expr::Path { .. } => {}
    }
}

impl RowsFold {
    /// Groups that rows came to or went from, at most.
    pub fn len(&self) -> usize {
        [&self.came, &self.went].into_iter().flatten().map(GroupTable::len).sum()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl KeyedQuery {
    /// The same over the rows of another view; `counting` is what [`count_rows`] answered.
    #[must_use]
    pub fn of_rows(self, counting: usize) -> KeyedQuery {
        KeyedQuery { counting: Some(counting), ..self }
    }

    /// Takes in rows, as events, that came (`are_there`), or went.
    pub fn fold_rows(&self, shard: &mut Shard, rows: &EventBatch, are_there: bool, into: &mut RowsFold) {
        let fold = self.fold(shard, rows, ViewTime::default());
        if are_there {
            into.matched += fold.matched;
            into.mistyped += fold.mistyped;
            into.expression_errors += fold.expression_errors;
        }
        let Some(groups) = fold.groups else { return };
        match if are_there { &mut into.came } else { &mut into.went } {
            Some(whole) => whole.merge_all(&groups),
            none => *none = Some(groups),
        }
    }

    /// The changes by these rows, which the view counts at `position`. `state_of` returns the kept state of a key. Keys of
    /// more than so many bytes are ignored.
    pub fn changes_by_rows<E>(
        &self,
        rows: &RowsFold,
        position: u64,
        key_bytes_max: usize,
        mut state_of: impl FnMut(&Key) -> Result<Option<Vec<u8>>, E>,
    ) -> Result<RowsChanges, RowsError<E>> {
        let mut changes = RowsChanges::default();
        let (Some(mut groups), Some(counting)) = (self.no_groups(), self.counting) else {
            return Ok(changes);
        };
        let chosen = |table: &GroupTable| by_part(table, 1, key_bytes_max);
        let came = rows.came.as_ref().map(|table| (table, chosen(table)));
        let went = rows.went.as_ref().map(|table| (table, chosen(table)));
        let mut kept = Vec::new();
        for (table, (of_part, _)) in came.iter().chain(&went) {
            for &group in of_part.iter().flatten() {
                let grouped = table.key(group as usize);
                if groups.find(grouped).is_some() {
                    continue;
                }
                let key = Key::of_group(grouped);
                let state = state_of(&key).map_err(RowsError::Kept)?;
                match &state {
                    Some(state) => groups.insert_state(grouped, self.split_state(state)?.1)?,
                    None => groups.insert_empty(grouped),
                };
                kept.push((key, state));
            }
        }
        if let Some((table, (of_part, long))) = &came {
            groups.merge_chosen(table, &of_part.concat(), &mut Vec::new());
            changes.long_keys += long;
        }
        if let Some((table, (of_part, _))) = &went {
            groups.retract_selected(table, &of_part.concat());
        }
        let stamp = KeyMeta { changed: position, arrival: 0 };
        let mut state = Vec::new();
        for (group, (key, kept)) in kept.into_iter().enumerate() {
            state.clear();
            let rows = groups.rows_left(counting, group).ok_or(RowsError::NotThere)?;
            if rows > 0 {
                self.push_stamp(stamp, &mut state);
                groups.encode_state(group, &mut state);
            }
            let is_same = match &kept {
                None => rows == 0,
                Some(kept) => rows > 0 && self.split_state(kept)?.1 == self.split_state(&state)?.1,
            };
            if !is_same {
                changes.states.push(&key.ordered, &state);
                changes.keys.push(key);
            }
        }
        Ok(changes)
    }
}

#[cfg(test)]
mod tests;

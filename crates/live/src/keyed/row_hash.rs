//! Hashes the visible row of a key, to detect changes of the key's state that do not change its row.
//!
//! A repeated `FIRST(x)`, a `MAX(x)` that is not exceeded, or a row that `HAVING` excludes before and after change no
//! row.
//!
//! Rows are compared by 64 bits of hash: two different rows of a key are considered equal once in 2^64 changes.

use bumpalo::Bump;
use swiftwater_sketch::hash_of_bytes;

use super::{KeyedQuery, Row, grouped};
use crate::{
    expr::Scratch,
    operate::{Bounds, GroupTable, InvalidState, with_single_row, write_row},
};

/// A hash of the row of a key as JSON; `None` where the key has no row.
pub type RowHash = Option<u64>;

/// The memory in which rows are made.
#[derive(Default)]
pub(super) struct Workspace {
    scratch: Scratch,
    arena: Bump,
    text: Vec<u8>,
}

impl Row {
    /// The hash of the row.
    pub fn shown(&self) -> RowHash {
        Some(hash_of_bytes(&self.json))
    }
}

impl KeyedQuery {
    /// The rows of different keys, expired or not, each by its key in the order of its values and its state as in
    /// [`Changes`](super::Changes). Takes memory for all of them at once.
    pub fn shown_by_states<'s>(
        &self,
        states: impl IntoIterator<Item = (&'s [u8], Option<&'s [u8]>)>,
    ) -> Result<Vec<RowHash>, InvalidState> {
        let mut groups = self.no_groups().ok_or(InvalidState)?;
        let mut within = Workspace::default();
        let mut shown = Vec::new();
        for (ordered, state) in states {
            shown.push(match state {
                None => None,
                Some(state) => {
                    let (_, state) = self.split_state(state)?;
                    let group = groups.insert_state(&grouped(ordered)?, state)?;
                    self.shown_by_group(&groups, group, &mut within)
                }
            });
        }
        Ok(shown)
    }

    /// The same of a group.
    pub(super) fn shown_by_group(&self, groups: &GroupTable, group: u32, within: &mut Workspace) -> RowHash {
        let Workspace { scratch, arena, text } = within;
        let bounds = self.windows.as_ref().map_or(Bounds::None, |windows| {
            let start = groups.window(group as usize);
            Bounds::One(start, windows.end(start))
        });
        // The time of a view is when it was created, whenever its rows are made.
        let is_there = with_single_row(
            &self.query,
            (groups, group as usize),
            (bounds, 0),
            (scratch, &*arena),
            |values| {
                text.clear();
                write_row(&self.query, values, text);
            },
        );
        let shown = is_there.map(|()| hash_of_bytes(text));
        arena.reset();
        shown
    }
}

//! What a key's row shows, as a hash: so that a change of a key's state that its row does not show is told from one that it
//! does. A repeated `FIRST(x)`, a `MAX(x)` that is not exceeded, or a row that `HAVING` leaves out before and after show
//! nothing new.
//!
//! Rows are compared by 64 bits of hash: two rows of a key are taken for equal, though they are not, once in 2^64 changes.

use bumpalo::Bump;
use swiftwater_sketch::hash_of_bytes;

use super::{KeyedQuery, Row, grouped};
use crate::{
    expr::Scratch,
    operate::{Bounds, GroupTable, NoState, look_at_row, write_row},
};

/// A hash of the row of a key as JSON; `None` where the key has no row.
pub type Shown = Option<u64>;

/// What rows are made in.
#[derive(Default)]
pub(super) struct Workspace {
    scratch: Scratch,
    arena: Bump,
    text: Vec<u8>,
}

impl Row {
    /// What it shows.
    pub fn shown(&self) -> Shown {
        Some(hash_of_bytes(&self.json))
    }
}

impl KeyedQuery {
    /// What the rows of different keys show, each by its key in the order of its values and its state as
    /// [`Changes`](super::Changes) has them, whether its time is over or not. Takes memory for all of them at once.
    pub fn shown_by_states<'s>(
        &self,
        states: impl IntoIterator<Item = (&'s [u8], Option<&'s [u8]>)>,
    ) -> Result<Vec<Shown>, NoState> {
        let mut groups = self.no_groups().ok_or(NoState)?;
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
    pub(super) fn shown_by_group(&self, groups: &GroupTable, group: u32, within: &mut Workspace) -> Shown {
        let Workspace { scratch, arena, text } = within;
        let bounds = self.windows.as_ref().map_or(Bounds::None, |windows| {
            let start = groups.window(group as usize);
            Bounds::One(start, windows.end(start))
        });
        // The time of a view is when it was created, whenever its rows are made.
        let is_there =
            look_at_row(&self.query, (groups, group as usize), (bounds, 0), (scratch, &*arena), |values| {
                text.clear();
                write_row(&self.query, values, text);
            });
        let shown = is_there.map(|()| hash_of_bytes(text));
        arena.reset();
        shown
    }
}

//! Reads the rows of a view for joins with events.

use std::{fmt, sync::Arc};

use bumpalo::Bump;
use swiftwater_event::{Clock, Value};
use swiftwater_live::{JoinFailure, JoinedRows, Key, KeyRows, LookupRequest, expr::Scratch, value_in};

use super::super::View;
use crate::EngineError;

/// A view that is joined.
pub(super) struct ViewRows {
    view: Arc<View>,
    clock: Arc<dyn Clock>,
}

impl ViewRows {
    pub(super) fn new(view: Arc<View>, clock: Arc<dyn Clock>) -> ViewRows {
        ViewRows { view, clock }
    }
}

impl fmt::Debug for ViewRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ViewRows").field(&self.view.name()).finish()
    }
}

impl JoinedRows for ViewRows {
    fn look_up<'a>(
        &self,
        look_up: &LookupRequest<'_>,
        arena: &'a Bump,
    ) -> Result<Vec<KeyRows<'a>>, JoinFailure> {
        let view = &self.view;
        let failed = |error: EngineError| JoinFailure(error.to_string());
        if view.has_ended() {
            return Err(JoinFailure(format!(
                "view `{}`, which events are joined with, was dropped",
                view.name()
            )));
        }
        if let Some(why) = view.broken() {
            return Err(failed(view.unavailable(why)));
        }
        let now = self.clock.now();
        let (mut scratch, mut within) = (Scratch::default(), Bump::new());
        let mut found: Vec<KeyRows<'a>> = Vec::with_capacity(look_up.keys.len());
        for values in look_up.keys {
            let key = Key::of(values);
            within.reset();
            let row = view.with_row(&key, now, (&mut scratch, &within), |values, _| {
                let wanted = values.iter().zip(look_up.columns);
                &*arena.alloc_slice_fill_iter(wanted.map(|(value, is_wanted)| match *is_wanted {
                    true => value_in(value, arena),
                    false => Value::Null,
                }))
            });
            found.push(match row.map_err(failed)? {
                Some(row) => &*arena.alloc_slice_copy(&[row]),
                None => &[],
            });
        }
        Ok(found)
    }
}

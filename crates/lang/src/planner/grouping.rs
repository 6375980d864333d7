//! Plans grouping sets over the planned keys, and GROUPING, which reports the set of a row.

use swiftwater_event::Type;

use super::{Planner, Typed, check::Ty, group::BEHIND_TABLE, lower::Scope};
use crate::{ast::Node, plan::Expr, source::Fault};

/// A LONG has room for so many, and its sign.
const GROUPING_KEYS_MAX: usize = 63;

/// Sets of places of keys as they are written, as sets of keys: each once, in that order.
pub(super) fn sets_of(sets: &[Vec<usize>], places: &[Option<usize>]) -> Vec<Box<[usize]>> {
    let of = |set: &Vec<usize>| {
        let mut keys: Vec<usize> = Vec::new();
        for key in set.iter().filter_map(|&written| places[written]) {
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        keys.into()
    };
    sets.iter().map(of).collect()
}

impl Planner<'_> {
    /// Records a fault if a bound of the window is in some sets only. `places`: those of the keys that are written, of
    /// which only bounds have none.
    pub(super) fn check_bounds(&mut self, written: &[&Node], sets: &[Vec<usize>], places: &[Option<usize>]) {
        for (number, node) in written.iter().enumerate() {
            if places[number].is_none() && !sets.iter().all(|set| set.contains(&number)) {
                let what = "the window is part of every group, and cannot be in some grouping sets only";
                self.record_fault(Fault::at(node.span, what).hint("Leave it out of GROUP BY."));
            }
        }
    }

    /// `GROUPING(key, …)`.
    pub(super) fn grouping(&mut self, node: &Node, asked: &[Node], scope: Scope) -> Option<Typed> {
        if !scope.is_group() {
            let fault = Fault::at(node.span, "GROUPING is not allowed here");
            return self
                .fault(fault.hint(
                    "It shows which keys a row of GROUP BY has: use it in SELECT, HAVING or ORDER BY.",
                ));
        }
        let mut keys = Vec::new();
        for key in asked {
            match self.resolved(key.bare(), scope).flatten() {
                Some(Typed { expr: Expr::Slot(slot), .. }) if slot < self.keys.len() => keys.push(slot),
                _ if self.keys_are_faulty => return None,
                _ => {
                    let fault = Fault::at(key.span, "this is not a key of GROUP BY");
                    return self.fault(fault.hint("The arguments of GROUPING are keys of GROUP BY."));
                }
            }
        }
        if asked.is_empty() {
            keys = (0..self.keys.len()).collect();
        }
        if keys.len() > GROUPING_KEYS_MAX {
            let message = format!("GROUPING has a bit for each key, and at most {GROUPING_KEYS_MAX} keys");
            return self.fault(Fault::at(node.span, message).hint("Use fewer keys in one GROUPING."));
        }
        let keys: Box<[usize]> = keys.into();
        let place = self.groupings.iter().position(|other| *other == keys).unwrap_or_else(|| {
            self.groupings.push(keys);
            self.groupings.len() - 1
        });
        Some(Typed { expr: Expr::Slot(BEHIND_TABLE + place), ty: Ty::Known(Type::LONG) })
    }
}

//! The decode plan: the union of the paths that queries request.

use std::collections::HashMap;

use crate::{
    Path, Step, Type,
    layout::Layout,
    seek::{Filter, KeyTable, is_plain},
};

/// One path wanted as one type.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Want {
    /// The path.
    pub path: Path,
    /// The wanted type.
    pub ty: Type,
}

/// The place of a want in its plan, and of its column in what is decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WantId(pub u32);

/// The wanted (path, type) pairs of a stream, each once, compiled into a tree of steps that a decoder walks once per
/// event. Immutable: a new set of queries makes a new plan.
#[derive(Debug, Default)]
pub struct DecodePlan {
    wants: Vec<Want>,
    /// The way the column of each is made.
    pub(crate) layouts: Vec<Layout>,
    by_want: HashMap<Want, WantId>,
    pub(crate) root: PlanNode,
    pub(crate) search: Search,
    /// Places in the tree.
    pub(crate) node_count: usize,
}

/// The target of one of the events' own keys.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Target {
    /// Its place in the root.
    pub(crate) child: u32,
    /// The one column to fill with its value; [`Target::NONE`]'s if there are more, or any below it.
    pub(crate) want: u32,
    /// True if the whole value is wanted, as [`PlanNode::whole`].
    pub(crate) whole: bool,
}

impl Target {
    /// A key that is not wanted.
    pub(crate) const NONE: Target = Target { child: u32::MAX, want: u32::MAX, whole: false };
}

/// The way the events' own keys are found.
#[derive(Debug, Default)]
pub(crate) struct Search {
    pub(crate) table: KeyTable,
    /// The targets by the place of each key in the table, which is its place in the root.
    pub(crate) targets: Vec<Target>,
    /// The filter of the keys to look up; `None`: nothing is searched for, and the keys are visited like those of any
    /// object.
    pub(crate) filter: Option<Filter>,
}

impl Search {
    fn of(root: &PlanNode) -> Search {
        let keys = || root.keys.iter().map(|(key, _)| &**key);
        // A key that has to be spelled with escapes makes every event odd that has it.
        if keys().next().is_none() || !keys().all(is_plain) {
            return Search::default();
        }
        let targets = root.keys.iter().enumerate().map(|(child, (_, node))| {
            let want = node.here.first().filter(|_| node.all.len() == 1 && node.is_leaf());
            Target {
                child: child as u32,
                want: want.map_or(Target::NONE.want, |want| want.0),
                whole: node.whole,
            }
        });
        let targets = targets.collect();
        Search { table: KeyTable::new(keys()), targets, filter: Some(Filter::new(keys())) }
    }
}

/// The wants at and below one place.
#[derive(Debug, Default)]
pub(crate) struct PlanNode {
    /// The number of this place in its plan, the root being 0.
    pub(crate) number: usize,
    /// Columns to fill with the value at this very place.
    pub(crate) here: Vec<WantId>,
    /// True if any of these takes the text of a list or an object as it is, so that its end must be known.
    pub(crate) whole: bool,
    /// Places below, by key, in order of first want.
    pub(crate) keys: Vec<(Box<str>, PlanNode)>,
    /// `keys` by name, for objects whose order is not the expected one.
    pub(crate) key_index: HashMap<Box<str>, usize>,
    /// Places below, by list index, ascending.
    pub(crate) indexes: Vec<(u32, PlanNode)>,
    /// All columns at or below this place: what stays null (or in error) when there is nothing here.
    pub(crate) all: Vec<WantId>,
}

impl DecodePlan {
    /// A plan of these wants; equal ones are taken once, the order is kept.
    pub fn new(wants: impl IntoIterator<Item = Want>) -> DecodePlan {
        let mut plan = DecodePlan::default();
        for want in wants {
            if plan.by_want.contains_key(&want) {
                continue;
            }
            let id = WantId(plan.wants.len() as u32);
            plan.root.insert(want.path.steps(), id, want.ty.contains_any());
            plan.by_want.insert(want.clone(), id);
            plan.layouts.push(Layout::of(&want.ty));
            plan.wants.push(want);
        }
        plan.root.number_from(&mut plan.node_count);
        plan.search = Search::of(&plan.root);
        plan
    }

    /// The wants, in the order of the columns.
    pub fn wants(&self) -> &[Want] {
        &self.wants
    }

    /// The column of a want.
    pub fn find(&self, want: &Want) -> Option<WantId> {
        self.by_want.get(want).copied()
    }
}

impl PlanNode {
    /// True if nothing is wanted below this place.
    pub(crate) fn is_leaf(&self) -> bool {
        self.keys.is_empty() && self.indexes.is_empty()
    }

    fn number_from(&mut self, next: &mut usize) {
        self.number = *next;
        *next += 1;
        let keys = self.keys.iter_mut().map(|(_, node)| node);
        keys.chain(self.indexes.iter_mut().map(|(_, node)| node)).for_each(|node| node.number_from(next));
    }

    fn insert(&mut self, steps: &[Step], id: WantId, whole: bool) {
        self.all.push(id);
        let Some((step, rest)) = steps.split_first() else {
            self.here.push(id);
            self.whole |= whole;
            return;
        };
        let below = match step {
            Step::Key(key) => {
                let place = *self.key_index.entry(key.clone()).or_insert_with(|| {
                    self.keys.push((key.clone(), PlanNode::default()));
                    self.keys.len() - 1
                });
                &mut self.keys[place].1
            }
            Step::Index(index) => {
                let place = match self.indexes.binary_search_by_key(index, |(at, _)| *at) {
                    Ok(place) => place,
                    Err(place) => {
                        self.indexes.insert(place, (*index, PlanNode::default()));
                        place
                    }
                };
                &mut self.indexes[place].1
            }
        };
        below.insert(rest, id, whole);
    }
}

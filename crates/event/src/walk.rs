//! Walks events along a plan's tree of steps and notes where each wanted value lies.
//!
//! The walk looks at the colons of the events' own keys only ([`crate::structure`] marks them, [`crate::seek`] filters
//! them). Many wanted keys are first compared with the key at the same place in an earlier event ([`crate::order`]);
//! else a hash table finds them. Events with an escaped key, or with white space before the colon of a key, are walked
//! key by key.
//!
//! A value ends at the next mark. A container is skipped by its brackets. A container that is wanted as a list or a map
//! of a known type is not skipped at all: the code that builds its column ([`crate::build`]) finds its end.

use std::ops::Range;

use crate::{
    EventBatch,
    order::{KeyCursor, KeyPredictor, SEEN_MAX},
    plan::{DecodePlan, PlanNode, Search, Target},
    scan::{is_open, same, skip_blank},
    seek::{Colons, Filter, key_start},
    structure::{
        Marks,
        block::{Block, Isa, with_block},
    },
    text::{string_end, unescape},
};

/// The place of a value in a buffer: 8 bytes. For a list or object that is wanted as a list or a map of a known type, it
/// is the bracket alone: its end is found by the code that reads its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot {
    start: u32,
    /// The end; its highest bit says that the value is a string with escapes.
    end: u32,
}

const ESCAPED: u32 = 1 << 31;

impl Slot {
    /// The slot of a missing value.
    pub(crate) const MISSING: Slot = Slot { start: u32::MAX, end: 0 };
    /// The value cannot be had.
    pub(crate) const ERROR: Slot = Slot { start: u32::MAX, end: 1 };

    pub(crate) fn new(start: usize, end: usize, escaped: bool) -> Slot {
        Slot { start: start as u32, end: end as u32 | if escaped { ESCAPED } else { 0 } }
    }

    pub(crate) fn start(self) -> usize {
        self.start as usize
    }

    pub(crate) fn end(self) -> usize {
        (self.end & !ESCAPED) as usize
    }

    pub(crate) fn is_escaped(self) -> bool {
        self.end & ESCAPED != 0
    }

    /// True if there is a value, though it may be the literal `null`.
    pub(crate) fn is_there(self) -> bool {
        self.start != u32::MAX
    }

    /// The value's text.
    pub(crate) fn text(self, bytes: &[u8]) -> &[u8] {
        &bytes[self.start()..self.end()]
    }
}

/// A key seen at some place among the keys of an object, and what it led to. The next event's key at that place is most
/// likely the same; whether it is, is checked byte by byte.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SeenKey {
    /// The text from the bracket or comma before the key to before the first byte of the value.
    start: u32,
    len: u32,
    /// The index of the key among those of the node.
    child: u32,
}

const NO_CHILD: u32 = u32::MAX;

/// Does the same as [`Walk::members`], with the instructions of `B` allowed.
///
/// # Safety
///
/// The machine has them.
#[inline(always)]
unsafe fn members<B: Block, const GUESS: bool>(
    walk: &mut Walk<'_>,
    batch: &EventBatch,
    plan: &DecodePlan,
    filter: &Filter,
    rows: Range<usize>,
) {
    walk.members::<GUESS>(batch, plan, filter, rows);
}

/// The walk through one event after another of one buffer.
pub(crate) struct Walk<'a> {
    /// The whole buffer: keys remembered from earlier events lie in it.
    pub(crate) bytes: &'a [u8],
    /// A slot a want and row; the rows of one want together.
    pub(crate) slots: &'a mut [Slot],
    pub(crate) rows: usize,
    pub(crate) row: usize,
    /// The buffer's.
    pub(crate) marks: &'a Marks,
    pub(crate) isa: Isa,
    pub(crate) order: &'a mut KeyPredictor,
    pub(crate) colons: &'a mut Colons,
    /// The seen keys by the number of the node.
    pub(crate) seen: &'a mut [Vec<SeenKey>],
    /// The buffer for keys with escapes.
    pub(crate) key: &'a mut Vec<u8>,
}

impl Walk<'_> {
    /// Records the values that the plan wants of all events.
    pub(crate) fn events(&mut self, batch: &EventBatch, plan: &DecodePlan) {
        let mut row = 0;
        while row < batch.len() {
            let span = batch.span(row);
            let filter = plan.search.filter.as_ref();
            let Some(filter) = filter.filter(|_| !self.marks.may_be_odd(span.start, span.end)) else {
                self.row = row;
                self.visit(&plan.root, span.start);
                row += 1;
                continue;
            };
            // As many events as lie close together are searched at once.
            let first = row;
            let mut end = span.end;
            row += 1;
            while row < batch.len() {
                let next = batch.span(row);
                let is_close = next.start - end < 64 && next.end - span.start <= Colons::BYTES_MAX;
                if !is_close || self.marks.may_be_odd(next.start, next.end) {
                    break;
                }
                end = next.end;
                row += 1;
            }
            self.search(batch, plan, filter, first..row);
        }
    }

    /// Records the values that the plan wants of these events, whose keys are spelled plainly.
    fn search(&mut self, batch: &EventBatch, plan: &DecodePlan, filter: &Filter, rows: Range<usize>) {
        let root = &plan.root;
        for row in rows.clone() {
            self.row = row;
            root.indexes.iter().for_each(|(_, child)| self.set(child, Slot::ERROR));
            let span = batch.span(row);
            for id in &root.here {
                self.slots[id.0 as usize * self.rows + row] = Slot::new(span.start, span.end, false);
            }
        }
        let (isa, walk) = (self.isa, self);
        match filter {
            Filter::Suffixes(_) => with_block!(isa, members::<false>(
                walk: &mut Walk<'_>,
                batch: &EventBatch,
                plan: &DecodePlan,
                filter: &Filter,
                rows: Range<usize>,
            )),
            Filter::Tails(_) => with_block!(isa, members::<true>(
                walk: &mut Walk<'_>,
                batch: &EventBatch,
                plan: &DecodePlan,
                filter: &Filter,
                rows: Range<usize>,
            )),
        }
    }

    /// Records the wanted values of these events; their keys are guessed or not.
    #[inline(always)]
    fn members<const GUESS: bool>(
        &mut self,
        batch: &EventBatch,
        plan: &DecodePlan,
        filter: &Filter,
        rows: Range<usize>,
    ) {
        let (start, end) = (batch.span(rows.start).start, batch.span(rows.end - 1).end);
        self.row = rows.start;
        let mut span = batch.span(rows.start);
        let mut event = self.order.begin_event();
        let mut colons = std::mem::take(self.colons);
        for from in (start..end).step_by(Colons::BYTES_MAX) {
            let to = end.min(from + Colons::BYTES_MAX);
            colons.find(self.isa, self.bytes, self.marks, (from, to), filter);
            for &colon in colons.places() {
                let colon = colon as usize;
                while colon >= span.end {
                    self.row += 1;
                    span = batch.span(self.row);
                    self.order.end_event(&event);
                    event = self.order.begin_event();
                }
                // Between events of the batch there may be others.
                if colon >= span.start {
                    self.member::<GUESS>(plan, colon, &mut event);
                }
            }
        }
        self.order.end_event(&event);
        *self.colons = colons;
    }

    /// Records the wanted parts of the value after this colon.
    #[inline(always)]
    fn member<const GUESS: bool>(&mut self, plan: &DecodePlan, colon: usize, event: &mut KeyCursor) {
        let bytes = self.bytes;
        let Search { table, targets, .. } = &plan.search;
        let find = || {
            let start = key_start(bytes, colon);
            let target = table.find(bytes, start, colon - 1).map_or(Target::NONE, |place| targets[place]);
            (start - 1, target)
        };
        let target = if GUESS { self.order.next(bytes, colon, event, find) } else { find().1 };
        if target.child == Target::NONE.child {
            return;
        }
        let at = skip_blank(bytes, colon + 1);
        if target.want == Target::NONE.want {
            return self.below(plan, target, at);
        }
        let slot = if !is_open(bytes[at]) {
            self.slot(at, self.marks.scalar_end(bytes, at).0)
        } else if target.whole {
            Slot::new(at, self.marks.container_end(bytes, at + 1), false)
        } else {
            Slot::new(at, at + 1, false)
        };
        self.slots[target.want as usize * self.rows + self.row] = slot;
    }

    /// Records the wanted parts of the value at `at`, more than once or below it.
    #[inline(never)]
    fn below(&mut self, plan: &DecodePlan, target: Target, at: usize) {
        let (_, child) = &plan.root.keys[target.child as usize];
        // The last of equal keys counts: the values of an earlier one must be removed.
        if !child.is_leaf() {
            self.set(child, Slot::MISSING);
        }
        self.visit(child, at);
    }

    /// Records the wanted values at and below `node`, whose value begins at `at`; returns the value's end.
    fn visit(&mut self, node: &PlanNode, at: usize) -> usize {
        let end = if node.is_leaf() { self.value_end(at) } else { self.inside(node, at) };
        let slot = self.slot(at, end);
        for id in &node.here {
            self.slots[id.0 as usize * self.rows + self.row] = slot;
        }
        end
    }

    #[inline(always)]
    fn slot(&self, start: usize, end: usize) -> Slot {
        Slot::new(start, end, self.marks.is_escaped(self.bytes, start, end))
    }

    /// The end of the value that begins at `at`.
    #[inline(always)]
    fn value_end(&self, at: usize) -> usize {
        self.marks.end(self.bytes, at)
    }

    fn inside(&mut self, node: &PlanNode, at: usize) -> usize {
        match self.bytes[at] {
            b'{' => {
                node.indexes.iter().for_each(|(_, child)| self.set(child, Slot::ERROR));
                if node.keys.is_empty() { self.value_end(at) } else { self.object(node, at) }
            }
            b'[' => {
                node.keys.iter().for_each(|(_, child)| self.set(child, Slot::ERROR));
                self.list(node, at)
            }
            b'n' => self.value_end(at),
            _ => {
                node.keys.iter().for_each(|(_, child)| self.set(child, Slot::ERROR));
                node.indexes.iter().for_each(|(_, child)| self.set(child, Slot::ERROR));
                self.value_end(at)
            }
        }
    }

    fn set(&mut self, node: &PlanNode, slot: Slot) {
        for id in &node.all {
            self.slots[id.0 as usize * self.rows + self.row] = slot;
        }
    }

    fn object(&mut self, node: &PlanNode, mut at: usize) -> usize {
        let bytes = self.bytes;
        let first = skip_blank(bytes, at + 1);
        if bytes[first] == b'}' {
            return first + 1;
        }
        let mut place = 0;
        loop {
            // A key is to come after the bracket or comma at `at`.
            let (value, child) = self.key(node, place, at);
            place += 1;
            if child == NO_CHILD {
                at = if matches!(bytes[value], b'{' | b'[') {
                    self.marks.container_end(bytes, value + 1)
                } else {
                    self.marks.next(value)
                };
            } else {
                let (_, child) = &node.keys[child as usize];
                // The last of equal keys counts: the values of an earlier one must be removed.
                if !child.is_leaf() {
                    self.set(child, Slot::MISSING);
                }
                at = self.visit(child, value);
            }
            at = skip_blank(bytes, at);
            if bytes[at] == b'}' {
                return at + 1;
            }
        }
    }

    /// The `place`th key of its object, after the bracket or comma at `at`: where its value begins, and which it is.
    #[inline(always)]
    fn key(&mut self, node: &PlanNode, place: usize, at: usize) -> (usize, u32) {
        if let Some(&SeenKey { start, len, child }) = self.seen[node.number].get(place)
            && same(self.bytes, start as usize, at, len as usize)
            && self.bytes[at + len as usize] > b' '
        {
            return (at + len as usize, child);
        }
        self.new_key(node, place, at)
    }

    #[cold]
    fn new_key(&mut self, node: &PlanNode, place: usize, at: usize) -> (usize, u32) {
        let key_at = skip_blank(self.bytes, at + 1) + 1;
        let (quote, escaped) = string_end(self.bytes, key_at);
        let colon = skip_blank(self.bytes, quote + 1);
        let value = skip_blank(self.bytes, colon + 1);
        let text = &self.bytes[key_at..quote];
        let text = if escaped {
            self.key.clear();
            unescape(text, self.key);
            self.key.as_slice()
        } else {
            text
        };
        let found = std::str::from_utf8(text).ok().and_then(|key| node.key_index.get(key));
        let child = found.map_or(NO_CHILD, |&place| place as u32);
        let known = SeenKey { start: at as u32, len: (value - at) as u32, child };
        let seen = &mut self.seen[node.number];
        if place < seen.len() {
            seen[place] = known;
        } else if seen.len() < SEEN_MAX {
            // Keys are met one after another, so this one is the next to be remembered.
            seen.push(known);
        }
        (value, child)
    }

    fn list(&mut self, node: &PlanNode, at: usize) -> usize {
        let bytes = self.bytes;
        let mut at = skip_blank(bytes, at + 1);
        let mut wanted = node.indexes.iter().peekable();
        let mut index = 0;
        while bytes[at] != b']' {
            let end = match wanted.peek() {
                None => return self.marks.container_end(bytes, at),
                Some((next, child)) if *next == index => {
                    wanted.next();
                    self.visit(child, at)
                }
                Some(_) => self.value_end(at),
            };
            index += 1;
            at = skip_blank(bytes, end);
            if bytes[at] == b',' {
                at = skip_blank(bytes, at + 1);
            }
        }
        wanted.for_each(|(_, child)| self.set(child, Slot::ERROR));
        at + 1
    }
}

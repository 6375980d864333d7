//! Walks events along a plan's tree of steps and notes where each wanted value lies.

use std::ops::Range;

use crate::{
    EventBatch,
    plan::{DecodePlan, PlanNode},
    scan::{is_space, same, skip_space},
    seek::{Colons, Filter, key_start},
    structure::{Marks, block::Isa},
    text::{string_end, unescape},
};

/// Where a value lies in a buffer: 8 bytes. Of a list or object that is wanted as a list or a map of a known type, it is the
/// bracket alone: where it ends is found by who reads what is in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot {
    start: u32,
    /// The end; its highest bit says that the value is a string with escapes.
    end: u32,
}

const ESCAPED: u32 = 1 << 31;

impl Slot {
    /// There is no value.
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

    /// Whether there is a value, though it may be the literal `null`.
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
    /// Which of the node's keys it is.
    child: u32,
}

const NO_CHILD: u32 = u32::MAX;

/// Keys of one object that are remembered.
const SEEN_MAX: usize = 4096;

/// The order of the events' own keys, as learnt from earlier events of the buffer; after Li et al., "Mison", VLDB 2017.
/// What is guessed from it is checked byte by byte, so it changes no result. Where guesses fail, it is left alone for a
/// while.
#[derive(Debug, Default)]
pub(crate) struct Order {
    /// From the opening quote of each key to behind its closing one.
    keys: Vec<SeenKey>,
    /// Events yet to come without a guess.
    pause: u32,
}

impl Order {
    /// Events that are not guessed at once most guesses failed.
    const PAUSE: u32 = 64;

    /// Forgets all, for another buffer.
    pub(crate) fn forget(&mut self) {
        self.keys.clear();
        self.pause = 0;
    }

    /// Whether the next event's keys are to be guessed.
    fn begin_event(&mut self) -> bool {
        let guess = self.pause == 0;
        self.pause = self.pause.saturating_sub(1);
        guess
    }

    fn end_event(&mut self, event: &Members) {
        if self.pause == 0 && event.wrong * 2 > event.place {
            self.pause = Self::PAUSE;
        }
    }

    #[inline(always)]
    fn learn(&mut self, place: usize, start: usize, end: usize, child: u32) {
        let key = SeenKey { start: start as u32, len: (end - start) as u32, child };
        if place < self.keys.len() {
            self.keys[place] = key;
        } else if place < SEEN_MAX {
            self.keys.push(key);
        }
    }
}

/// What the guesses of an event's keys came to.
struct Members {
    guess: bool,
    /// Which key is next.
    place: usize,
    /// Keys that were guessed wrong.
    wrong: usize,
}

impl SeenKey {
    /// Whether this very text stands right before `colon`.
    #[inline(always)]
    fn is_before(&self, bytes: &[u8], colon: usize) -> bool {
        let len = self.len as usize;
        colon >= len && same(bytes, self.start as usize, colon - len, len)
    }
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
    pub(crate) order: &'a mut Order,
    pub(crate) colons: &'a mut Colons,
    /// By the number of the node.
    pub(crate) seen: &'a mut [Vec<SeenKey>],
    /// For keys with escapes.
    pub(crate) key: &'a mut Vec<u8>,
}

impl Walk<'_> {
    /// Notes what the plan wants of all events.
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

    /// Notes what the plan wants of these events, whose keys are spelled plainly.
    fn search(&mut self, batch: &EventBatch, plan: &DecodePlan, filter: &Filter, rows: Range<usize>) {
        let (start, end) = (batch.span(rows.start).start, batch.span(rows.end - 1).end);
        let root = &plan.root;
        for row in rows.clone() {
            self.row = row;
            root.indexes.iter().for_each(|(_, child)| self.set(child, Slot::ERROR));
            let span = batch.span(row);
            for id in &root.here {
                self.slots[id.0 as usize * self.rows + row] = Slot::new(span.start, span.end, false);
            }
        }
        self.row = rows.start;
        let mut span = batch.span(rows.start);
        let mut member = Members { guess: self.order.begin_event(), place: 0, wrong: 0 };
        let mut colons = std::mem::take(self.colons);
        for from in (start..end).step_by(Colons::BYTES_MAX) {
            let to = end.min(from + Colons::BYTES_MAX);
            colons.find(self.isa, self.bytes, self.marks, (from, to), filter);
            for &colon in colons.places() {
                let colon = colon as usize;
                while colon >= span.end {
                    self.row += 1;
                    span = batch.span(self.row);
                    self.order.end_event(&member);
                    member = Members { guess: self.order.begin_event(), place: 0, wrong: 0 };
                }
                // Between events of the batch there may be others.
                if colon >= span.start {
                    self.member(plan, filter, colon, &mut member);
                }
            }
        }
        self.order.end_event(&member);
        *self.colons = colons;
    }

    /// Notes what is wanted of the value after this colon.
    #[inline(always)]
    fn member(&mut self, plan: &DecodePlan, filter: &Filter, colon: usize, member: &mut Members) {
        let bytes = self.bytes;
        let table = &plan.search.table;
        let child = if let Filter::Suffixes(_) = filter {
            table.find(bytes, key_start(bytes, colon), colon - 1).map_or(NO_CHILD, |child| child as u32)
        } else {
            let place = member.place;
            member.place += 1;
            match self.order.keys.get(place) {
                Some(seen) if member.guess && seen.is_before(bytes, colon) => seen.child,
                seen => {
                    member.wrong += usize::from(member.guess && seen.is_some());
                    let key = key_start(bytes, colon);
                    let child = table.find(bytes, key, colon - 1).map_or(NO_CHILD, |child| child as u32);
                    if member.guess {
                        self.order.learn(place, key - 1, colon, child);
                    }
                    child
                }
            }
        };
        if child != NO_CHILD {
            let (_, child) = &plan.root.keys[child as usize];
            let at = skip_space(bytes, colon + 1);
            if !child.is_leaf() {
                // Of equal keys the last counts: what an earlier one left must go.
                self.set(child, Slot::MISSING);
                self.visit(child, at);
            } else if child.whole || !matches!(bytes[at], b'{' | b'[') {
                self.note(child, at, self.value_end(at));
            } else {
                self.note(child, at, at + 1);
            }
        }
    }

    /// Notes what is wanted at and below `node`, whose value begins at `at`; gives the value's end.
    fn visit(&mut self, node: &PlanNode, at: usize) -> usize {
        let end = if node.is_leaf() { self.value_end(at) } else { self.inside(node, at) };
        self.note(node, at, end);
        end
    }

    /// Notes the value that lies there for who wants the very place.
    #[inline(always)]
    fn note(&mut self, node: &PlanNode, start: usize, end: usize) {
        let slot = Slot::new(start, end, self.marks.is_escaped(self.bytes, start, end));
        for id in &node.here {
            self.slots[id.0 as usize * self.rows + self.row] = slot;
        }
    }

    /// The end of the value that begins at `at`.
    #[inline(always)]
    fn value_end(&self, at: usize) -> usize {
        self.marks.value_end(self.bytes, at).0
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
        let first = skip_space(bytes, at + 1);
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
                // Of equal keys the last counts: what an earlier one left must go.
                if !child.is_leaf() {
                    self.set(child, Slot::MISSING);
                }
                at = self.visit(child, value);
            }
            at = skip_space(bytes, at);
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
            && !is_space(self.bytes[at + len as usize])
        {
            return (at + len as usize, child);
        }
        self.new_key(node, place, at)
    }

    #[cold]
    fn new_key(&mut self, node: &PlanNode, place: usize, at: usize) -> (usize, u32) {
        let key_at = skip_space(self.bytes, at + 1) + 1;
        let (quote, escaped) = string_end(self.bytes, key_at);
        let colon = skip_space(self.bytes, quote + 1);
        let value = skip_space(self.bytes, colon + 1);
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
        let mut at = skip_space(bytes, at + 1);
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
            at = skip_space(bytes, end);
            if bytes[at] == b',' {
                at = skip_space(bytes, at + 1);
            }
        }
        wanted.for_each(|(_, child)| self.set(child, Slot::ERROR));
        at + 1
    }
}

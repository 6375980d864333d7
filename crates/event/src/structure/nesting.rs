//! The third step: computes how brackets nest, and from that where events end and whether a byte lies in an object or in
//! a list.
//!
//! The depth of a byte is a number of two bits, computed for many bytes at once from parities, as the insides of strings
//! are. It covers depths up to [`SHALLOW`]. Deeper brackets are taken one after another.

use super::{
    chunk::{CHUNK, Chunk, Masks},
    pass::{DEPTH_MAX, NONE, Task},
    wide::{Carry, Wide},
};
use crate::scan::skip_space;

/// Brackets that are nested no deeper are taken many at once.
const SHALLOW: usize = 3;

/// The depth, and the starts and ends of events.
pub(super) struct Events {
    depth: usize,
    /// One bit for each open bracket, the innermost lowest: whether it is curly.
    kinds: u64,
    /// Start of the present event, or of the next one.
    pub(super) begin: usize,
    /// The comma before it, in an array.
    comma: usize,
    /// The present event was not all ASCII in an earlier chunk.
    non_ascii: bool,
    /// The place at which to stop: after an event that no other follows.
    pub(super) stop: usize,
}

impl Events {
    /// The state before the first event, which begins here.
    pub(super) fn new(begin: usize) -> Events {
        Events { depth: 0, kinds: 0, begin, comma: NONE, non_ascii: false, stop: NONE }
    }

    /// Records the events that end in the chunk, and the state of the brackets at other bytes. Returns the place of
    /// the first byte that is too deep, or ends an event that is too long or not text.
    ///
    /// # Safety
    ///
    /// The machine has the instructions of `W`.
    #[inline(always)]
    pub(super) unsafe fn nest<W: Wide, const CHECK: bool>(
        &mut self,
        task: &mut Task<'_>,
        first: usize,
        blocks: usize,
        chunk: &mut Chunk,
    ) -> usize {
        let base = first * 64;
        chunk.between = Masks::default();
        chunk.mark_between(base, self.comma);
        // SAFETY: the caller vouches for `W`.
        let after = unsafe { self.shallow::<W, CHECK>(task, blocks, chunk) };
        let mut fault = match &after {
            Some(_) => NONE,
            // SAFETY: the caller vouches for `W`.
            None => unsafe { self.deep::<W, CHECK>(task, first, blocks, chunk) },
        };
        'events: for at in 0..blocks.min(CHUNK) {
            let mut closes = chunk.roots.0[at] & chunk.close.0[at];
            while closes != 0 {
                let place = base + at * 64 + closes.trailing_zeros() as usize;
                closes &= closes - 1;
                if CHECK && !self.is_good(task, base, place + 1, chunk.non_ascii) {
                    fault = fault.min(place);
                }
                self.non_ascii = false;
                task.spans.push((self.begin as u32, place as u32 + 1));
                if !self.seek_next_event(task, place + 1) {
                    self.stop = place + 1;
                    break 'events;
                }
                chunk.mark_between(base, self.comma);
            }
        }
        if let Some((depth, kinds)) = after {
            (self.depth, self.kinds) = (depth, kinds);
        }
        if self.begin < base + blocks * 64 {
            self.non_ascii |= chunk.non_ascii >> (self.begin.saturating_sub(base) / 64) != 0;
        }
        fault
    }

    /// Brackets that nest no deeper than [`SHALLOW`], 512 bytes at a time: the depth at each byte is a number of two bits,
    /// kept in two masks. The lower bit changes with every bracket, so it is their parity; the higher one where the lower
    /// is carried over. An object at some level is recognised by the parity of the curly brackets of that level. Returns
    /// the depth after the chunk, and the kinds of brackets that are open then; `None` if it is deeper somewhere, or may
    /// not be as deep. Without `CHECK`, kinds are of no account.
    ///
    /// # Safety
    ///
    /// The machine has the instructions of `W`.
    #[inline(always)]
    unsafe fn shallow<W: Wide, const CHECK: bool>(
        &self,
        task: &Task<'_>,
        blocks: usize,
        chunk: &mut Chunk,
    ) -> Option<(usize, u64)> {
        if self.depth > SHALLOW || (CHECK && task.depth_max < SHALLOW) {
            return None;
        }
        let kind_at =
            |level: usize| self.depth.checked_sub(level).map_or(0, |above| (self.kinds >> above) & 1);
        let mut low = Carry(self.depth as u64 & 1);
        let mut high = Carry(self.depth as u64 >> 1);
        let mut second = Carry(kind_at(2));
        let mut third = Carry(kind_at(3));
        for group in 0..blocks.min(CHUNK).div_ceil(8) {
            // SAFETY: the caller vouches for `W`.
            unsafe {
                let in_string = chunk.in_string.group::<W>(group);
                let open = chunk.open.group::<W>(group).and_not(in_string);
                let close = chunk.close.group::<W>(group).and_not(in_string);
                let brackets = open.or(close);
                // The bits of the depth before each byte.
                let bit_0 = brackets.parities(&mut low).xor(brackets);
                let carried = open.and(bit_0).or(close.and_not(bit_0));
                let bit_1 = carried.parities(&mut high).xor(carried);
                if open.and(bit_0).and(bit_1).words() != 0 {
                    return None;
                }
                let (at_1, at_2, at_3) = (bit_0.and_not(bit_1), bit_1.and_not(bit_0), bit_0.and(bit_1));
                at_1.store(chunk.top.group_mut(group));
                let roots = open.and_not(bit_0).and_not(bit_1).or(close.and(at_1));
                roots.store(chunk.roots.group_mut(group));
                if !CHECK {
                    continue;
                }
                let curly = chunk.curly.group::<W>(group).and(brackets);
                let edges = curly.and(open.and(at_1).or(close.and(at_2)));
                let in_second = edges.parities(&mut second).xor(edges);
                let edges = curly.and(open.and(at_2).or(close.and(at_3)));
                let in_third = edges.parities(&mut third).xor(edges);
                let object = at_1.or(at_2.and(in_second)).or(at_3.and(in_third));
                object.store(chunk.object.group_mut(group));
                close.and(object.xor(curly)).store(chunk.misfits.group_mut(group));
            }
        }
        let depth = (low.0 | high.0 << 1) as usize;
        let kinds = match depth {
            0 => 0,
            1 => 1,
            2 => 0b10 | second.0,
            _ => 0b100 | second.0 << 1 | third.0,
        };
        Some((depth, kinds))
    }

    /// The same for any depth, one bracket after another. Returns the place of the first byte that is too deep.
    ///
    /// # Safety
    ///
    /// The machine has the instructions of `W`.
    #[inline(never)]
    unsafe fn deep<W: Wide, const CHECK: bool>(
        &mut self,
        task: &Task<'_>,
        first: usize,
        blocks: usize,
        chunk: &mut Chunk,
    ) -> usize {
        let deepest = if CHECK { task.depth_max.min(DEPTH_MAX) } else { usize::MAX };
        let mut fault = NONE;
        let (mut in_object, mut at_top) = (Carry(self.kinds & 1), Carry(u64::from(self.depth == 1)));
        // The edges at which the rest starts or ceases to be in an object, and at depth 1.
        let (mut object_edges, mut top_edges) = (Masks::default(), Masks::default());
        chunk.roots = Masks::default();
        chunk.misfits = Masks::default();
        for at in 0..blocks.min(CHUNK) {
            let mut brackets = (chunk.open.0[at] | chunk.close.0[at]) & !chunk.in_string.0[at];
            while brackets != 0 {
                let place = brackets.trailing_zeros() as usize;
                let bit = brackets & brackets.wrapping_neg();
                brackets &= brackets - 1;
                let is_curly = (chunk.curly.0[at] >> place) & 1;
                let (was_object, was_top) = (self.kinds & 1, self.depth == 1);
                if chunk.open.0[at] & bit != 0 {
                    if self.depth == 0 {
                        chunk.roots.0[at] |= bit;
                    }
                    self.kinds = (self.kinds << 1) | is_curly;
                    self.depth += 1;
                    if self.depth > deepest {
                        fault = fault.min((first + at) * 64 + place);
                    }
                } else {
                    if was_object != is_curly {
                        chunk.misfits.0[at] |= bit;
                    }
                    if was_top {
                        chunk.roots.0[at] |= bit;
                    }
                    self.kinds >>= 1;
                    self.depth = self.depth.saturating_sub(1);
                }
                let behind = (at * 64 + place + 1) % (CHUNK * 64 + 1);
                if let Some(edges) = object_edges.0.get_mut(behind / 64) {
                    *edges |= (was_object ^ (self.kinds & 1)) << (behind % 64);
                    top_edges.0[behind / 64] |= u64::from(was_top != (self.depth == 1)) << (behind % 64);
                }
            }
        }
        for group in 0..blocks.min(CHUNK).div_ceil(8) {
            // SAFETY: the caller vouches for `W`.
            unsafe {
                object_edges.group::<W>(group).parities(&mut in_object).store(chunk.object.group_mut(group));
                top_edges.group::<W>(group).parities(&mut at_top).store(chunk.top.group_mut(group));
            }
        }
        fault
    }

    /// True if the present event, which ends at `end`, is no longer than allowed, and text.
    #[inline(always)]
    fn is_good(&self, task: &Task<'_>, base: usize, end: usize, non_ascii: u64) -> bool {
        let blocks = non_ascii << (63 - (end - 1 - base) / 64) >> (63 - (end - 1 - base) / 64);
        let is_ascii = !self.non_ascii && blocks >> (self.begin.saturating_sub(base) / 64) == 0;
        end - self.begin <= task.event_bytes_max
            && (is_ascii || simdutf8::basic::from_utf8(&task.bytes[self.begin..end]).is_ok())
    }

    /// Finds where the next event begins after one that ends at `end`; `false` if something else follows, or nothing.
    #[inline(always)]
    fn seek_next_event(&mut self, task: &Task<'_>, end: usize) -> bool {
        let bytes = &task.bytes[..task.range.end];
        let mut following = skip_space(bytes, end);
        if task.array {
            if bytes.get(following) != Some(&b',') {
                return false;
            }
            self.comma = following;
            following = skip_space(bytes, following + 1);
        }
        self.begin = following;
        bytes.get(following) == Some(&b'{')
    }
}

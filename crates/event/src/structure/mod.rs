//! Finds and checks the structure of events in one pass over their bytes, and returns it as bits for the decoder.
//!
//! The bytes of a batch are read twice: this pass checks all of them, then the decoder ([`crate::decode`]) reads the
//! requested values. Two bits a byte connect the two. One marks the colons of the events' own keys (not of nested keys),
//! the other all brackets and commas. Nothing within strings is marked. Rare facts are stored for each block of 64
//! bytes: whether it has a backslash, and whether a key is spelled in a way that a search for its plain spelling would
//! miss.
//!
//! The pass works on chunks of 2 KiB in four steps. Each step finishes the chunk before the next step begins.
//!
//! 1. Classify ([`block`]): compare 64 bytes with each relevant character. Each comparison gives a word of 64 bits.
//! 2. Strings ([`pass`]): the parity of the quotes up to each byte shows whether the byte lies in a string; escaped
//!    quotes do not count.
//! 3. Nesting ([`nesting`]): compute how brackets nest, and from that where events end and what is in an object or in a
//!    list.
//! 4. Grammar ([`pass`], [`wide`]): check whether every token is allowed at its place, for 512 bytes at a time.
//!
//! The pass checks everything, for any queries: structure, UTF-8, escapes, numbers, literals, depth and size. There is
//! no laxer mode, as it would save little. The pass only finds where valid events end; [`crate::grammar`] finds the
//! fault of an event that the pass rejects, with its line and column.
//!
//! Both passes go over memory once, from start to end, and faster than the machine prefetches by itself. They therefore
//! prefetch some kilobytes ahead ([`block::AHEAD`]), which makes the check a quarter faster.

pub(crate) mod block;
mod chunk;
mod nesting;
mod pass;
mod wide;

use block::Block;
use block::{Isa, with_block};
use pass::{Task, read};
use wide::Wide;

use crate::scan::{is_open, skip_blank, trim_blank};

/// The marks of one buffer. Memory: a quarter of it.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    /// The colons after the events' own keys; a word for each block of 64 bytes, and eight more.
    colons: Vec<u64>,
    /// Brackets and commas, likewise.
    all: Vec<u64>,
    /// A bit a block: there is a backslash.
    escapes: Vec<u64>,
    /// True if any of these bits is set.
    any_escape: bool,
    /// A bit a block: a key of an event's own has a backslash or no colon right behind it.
    odd: Vec<u64>,
}

/// The limits that the events of a buffer are validated against.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StructureLimits {
    /// Events are in an array: there is a comma between two.
    pub(crate) array: bool,
    pub(crate) event_bytes_max: usize,
    pub(crate) depth_max: usize,
}

impl Marks {
    /// No marks yet, of a buffer of so many bytes.
    pub(crate) fn new(len: usize) -> Marks {
        let blocks = len.div_ceil(64);
        Marks {
            colons: vec![0; blocks + 8],
            all: vec![0; blocks + 8],
            escapes: vec![0; blocks / 64 + 1],
            any_escape: false,
            odd: vec![0; blocks / 64 + 1],
        }
    }

    /// The marks of these events, which are known to be good, with nothing but white space between them.
    pub(crate) fn of(bytes: &[u8], spans: &[(u32, u32)]) -> Marks {
        Self::with(block::widest(), bytes, spans)
    }

    /// Does the same as [`Marks::of`], with these instructions, which the machine has.
    pub(crate) fn with(isa: Isa, bytes: &[u8], spans: &[(u32, u32)]) -> Marks {
        let mut marks = Marks::new(bytes.len());
        if let (Some(&(start, _)), Some(&(_, end))) = (spans.first(), spans.last()) {
            let found = marks.add_all(isa, bytes, (start as usize, end as usize), spans.len());
            debug_assert_eq!(found, spans);
        }
        marks
    }

    /// Marks one more event, which is known to be good.
    pub(crate) fn add(&mut self, bytes: &[u8], start: usize, end: usize) {
        self.add_all(block::widest(), bytes, (start, end), 1);
    }

    /// Marks the events in these bytes, which are known to be good: gives where they are.
    fn add_all(
        &mut self,
        isa: Isa,
        bytes: &[u8],
        (start, end): (usize, usize),
        count: usize,
    ) -> Vec<(u32, u32)> {
        let mut spans = Vec::with_capacity(count);
        let mut task = Task {
            bytes,
            range: start..end,
            array: false,
            event_bytes_max: usize::MAX,
            depth_max: usize::MAX,
            marks: self,
            spans: &mut spans,
        };
        let task = &mut task;
        with_block!(isa, read::<false>(task: &mut Task<'_>));
        spans
    }

    /// Reads events from `at` on (a `{`) as long as they are surely good: marks them and adds them to `spans`.
    pub(crate) fn read(
        &mut self,
        bytes: &[u8],
        at: usize,
        bounds: StructureLimits,
        spans: &mut Vec<(u32, u32)>,
    ) {
        self.read_with(block::widest(), bytes, at, bounds, spans);
    }

    pub(crate) fn read_with(
        &mut self,
        isa: Isa,
        bytes: &[u8],
        at: usize,
        bounds: StructureLimits,
        spans: &mut Vec<(u32, u32)>,
    ) {
        let StructureLimits { array, event_bytes_max, depth_max } = bounds;
        let range = at..bytes.len();
        let mut task = Task { bytes, range, array, event_bytes_max, depth_max, marks: self, spans };
        let task = &mut task;
        with_block!(isa, read::<true>(task: &mut Task<'_>));
    }

    /// Adds the marks of eight blocks.
    ///
    /// # Safety
    ///
    /// The machine has the instructions of `W`.
    #[inline(always)]
    unsafe fn push_marks<W: Wide>(&mut self, block: usize, colons: W, all: W) {
        for (masks, more) in [(&mut self.colons, colons), (&mut self.all, all)] {
            if let Some(masks) = masks[block..].first_chunk_mut() {
                // SAFETY: the caller's.
                unsafe { W::load(masks).or(more).store(masks) };
            }
        }
    }

    fn set_escapes(&mut self, block: usize) {
        self.escapes[block / 64] |= 1 << (block % 64);
        self.any_escape = true;
    }

    /// Adds which of eight blocks have odd keys.
    #[inline(always)]
    fn set_odd(&mut self, block: usize, mut odd: u8) {
        while odd != 0 {
            let block = block + odd.trailing_zeros() as usize;
            self.odd[block / 64] |= 1 << (block % 64);
            odd &= odd - 1;
        }
    }

    /// Takes back what was marked from byte `from` on, up to the end of `block`.
    fn clear_from(&mut self, from: usize, block: usize) {
        for masks in [&mut self.colons, &mut self.all] {
            if let Some([first, rest @ ..]) = masks.get_mut(from / 64..=block) {
                *first &= (1 << (from % 64)) - 1;
                rest.fill(0);
            }
        }
    }

    /// The blocks that the bytes from `start` to `end` touch, with their colons; those of other events are left out.
    #[inline(always)]
    pub(crate) fn colons(&self, start: usize, end: usize) -> impl Iterator<Item = (usize, u64)> {
        let (first, last) = (start / 64, (end - 1) / 64);
        (first..=last).map(move |block| {
            let mut colons = self.colons[block];
            if block == first {
                colons &= u64::MAX << (start % 64);
            }
            if block == last {
                colons &= u64::MAX >> (63 - (end - 1) % 64);
            }
            (block, colons)
        })
    }

    /// The 64 commas and brackets from `at` on, the lowest first.
    #[inline(always)]
    fn from(&self, at: usize) -> u64 {
        let (block, shift) = (at / 64, at % 64);
        let [this, next] = self.all[block..].first_chunk().copied().unwrap_or_default();
        // Two shifts, as one by 64 is none.
        (this >> shift) | (next << 1 << (63 - shift))
    }

    /// The first comma or bracket from `at` on; there must be one.
    #[inline(always)]
    pub(crate) fn next(&self, at: usize) -> usize {
        let marks = self.from(at);
        if marks != 0 { at + marks.trailing_zeros() as usize } else { self.next_far(at + 64) }
    }

    #[inline(never)]
    fn next_far(&self, mut at: usize) -> usize {
        loop {
            let marks = self.from(at);
            if marks != 0 {
                return at + marks.trailing_zeros() as usize;
            }
            at += 64;
        }
    }

    /// The end of the list or object within which `at` lies, outside its strings.
    #[inline(always)]
    pub(crate) fn container_end(&self, bytes: &[u8], mut at: usize) -> usize {
        let mut depth = 1isize;
        loop {
            let mut marks = self.from(at);
            while marks != 0 {
                let place = at + marks.trailing_zeros() as usize;
                marks &= marks - 1;
                // `[` and `{` end in 0b1011, `]` and `}` in 0b1101, a comma in 0b1100.
                let low = bytes[place] & 7;
                depth += isize::from(low == 3) - isize::from(low == 5);
                if depth == 0 {
                    return place + 1;
                }
            }
            at += 64;
        }
    }

    /// The end of the value that begins at `at`.
    #[inline(always)]
    pub(crate) fn end(&self, bytes: &[u8], at: usize) -> usize {
        if is_open(bytes[at]) { self.container_end(bytes, at + 1) } else { self.scalar_end(bytes, at).0 }
    }

    /// The end of the value that begins at `at`, in a list or an object, and the place of the comma or bracket behind it.
    #[inline(always)]
    pub(crate) fn value_end(&self, bytes: &[u8], at: usize) -> (usize, usize) {
        if is_open(bytes[at]) {
            let end = self.container_end(bytes, at + 1);
            (end, skip_blank(bytes, end))
        } else {
            self.scalar_end(bytes, at)
        }
    }

    /// The same of a value that is neither a list nor an object: it ends before the next comma or bracket.
    #[inline(always)]
    pub(crate) fn scalar_end(&self, bytes: &[u8], at: usize) -> (usize, usize) {
        let mark = self.next(at);
        (trim_blank(bytes, mark), mark)
    }

    /// True if the value that lies there is a string with escapes.
    #[inline(always)]
    pub(crate) fn is_escaped(&self, bytes: &[u8], start: usize, end: usize) -> bool {
        self.any_escape
            && bytes[start] == b'"'
            && self.may_escape(start, end)
            && bytes[start..end].contains(&b'\\')
    }

    /// True if there may be a backslash in these bytes.
    #[inline(always)]
    pub(crate) fn may_escape(&self, start: usize, end: usize) -> bool {
        touched(&self.escapes, start, end)
    }

    /// True if keys of the event in these bytes may be spelled oddly.
    #[inline(always)]
    pub(crate) fn may_be_odd(&self, start: usize, end: usize) -> bool {
        touched(&self.odd, start, end)
    }
}

impl Marks {
    /// The places of all marks, in order.
    pub(crate) fn places(&self, isa: Isa, places: &mut Vec<u32>) {
        let marks = self;
        with_block!(isa, write_places(marks: &Marks, places: &mut Vec<u32>));
    }

    /// The number of marks the first and the last block have.
    pub(crate) fn ends(&self) -> u32 {
        let marks = self.all.iter().zip(&self.colons).map(|(all, colons)| (all | colons).count_ones());
        let last = self.all.len().saturating_sub(9);
        marks.clone().next().unwrap_or(0) + marks.clone().nth(last).unwrap_or(0)
    }
}

/// # Safety
///
/// The machine has the instructions of `B`.
#[inline(always)]
unsafe fn write_places<B: Block>(marks: &Marks, places: &mut Vec<u32>) {
    let mut count = 0;
    for (block, (all, colons)) in marks.all.iter().zip(&marks.colons).enumerate() {
        // The part after the last place is truncated at the end.
        if places.len() < count + 64 {
            places.resize((count + 64) * 2, 0);
        }
        let bits = all | colons;
        if let Some(out) = places[count..].first_chunk_mut() {
            // SAFETY: the caller's.
            unsafe { B::places::<12>(bits, (block * 64) as u32, out) };
        }
        count += bits.count_ones() as usize;
    }
    places.truncate(count);
}

/// True if the bit of any block that these bytes touch is set.
#[inline(always)]
fn touched(bits: &[u64], start: usize, end: usize) -> bool {
    let (first, last) = (start / 64, (end - 1) / 64);
    let (mut word, last_word) = (first / 64, last / 64);
    let mut found = bits[word] & (u64::MAX << (first % 64));
    while word < last_word {
        if found != 0 {
            return true;
        }
        word += 1;
        found = bits[word];
    }
    found & (u64::MAX >> (63 - last % 64)) != 0
}

#[cfg(test)]
mod tests;

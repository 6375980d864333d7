//! The structural pass: marks the structure of 64 or 512 bytes at a time, and checks the whole grammar of JSON.
//!
//! Quotes, and with them the insides of strings, are found as in Langdale and Lemire, "Parsing Gigabytes of JSON per
//! Second", VLDB 2019. The rest is arithmetic on bits, as in Cameron et al., "Bitwise Data Parallelism in Regular
//! Expression Matching", PACT 2014. A set bit is a marker at a byte. "The token after each comma" is all commas, moved
//! on by one, plus the white space: the carries of this addition run over the white space to the first byte behind it. A
//! number is checked in the same way, by moving markers over runs of digits. So the tokens of 512 bytes are checked at
//! once, and cost the same whatever they are. Deeply nested brackets are taken one after another.
//!
//! Four steps, each for a whole chunk before the next one begins, so that the values of a step stay in registers, and a
//! mispredicted branch costs its own step only: [`classify`], [`strings`], [`Events::nest`], [`validate_tokens`].
//!
//! The pass only finds *where valid events end*. [`crate::grammar`] reads a rejected event byte by byte and finds its
//! fault. Both must accept the same events; tests check this at every alignment. One exception: the pass does not accept
//! events that are nested deeper than [`DEPTH_MAX`].

use super::{
    Marks,
    block::{AHEAD, Block},
    chunk::{CHUNK, Chunk},
    nesting::Events,
    wide::{Carry, Wide, next, through},
};
use crate::grammar;

/// Kinds of open brackets are kept in one word.
pub(crate) const DEPTH_MAX: usize = 64;

/// The input of a pass.
pub(crate) struct Task<'a> {
    /// The whole buffer.
    pub(crate) bytes: &'a [u8],
    /// Start of the first event (a `{`), and the end of the pass at the latest.
    pub(crate) range: std::ops::Range<usize>,
    /// Events are in an array: there is a comma between two.
    pub(crate) array: bool,
    pub(crate) event_bytes_max: usize,
    pub(crate) depth_max: usize,
    pub(crate) marks: &'a mut Marks,
    /// Receives the events.
    pub(crate) spans: &'a mut Vec<(u32, u32)>,
}

/// The state that passes from one chunk to the next.
#[derive(Debug, Default)]
struct Carries {
    escaped: u64,
    /// The place up to which escapes were checked.
    escapes_end: usize,
    in_string: Carry,
    in_key: Carry,
    closing_quote: Carry,
    scalar: Carry,
    after_open: [Carry; 2],
    after_comma: [Carry; 2],
    after_colon: [Carry; 2],
    after_key: [Carry; 2],
    after_value: [Carry; 2],
    minus: Carry,
    zero: Carry,
    integer: Carry,
    point: Carry,
    fraction: Carry,
    exponent: Carry,
    sign: Carry,
    power: Carry,
}

/// The bytes that a backslash before them escapes, as Keiser and Lemire find them in simdjson 3: a run of backslashes
/// ends in an escaping one if it begins at an even place and ends at an odd one, or the other way round.
#[inline(always)]
fn escaped(backslashes: u64, carry: &mut u64) -> u64 {
    const ODD: u64 = 0xaaaa_aaaa_aaaa_aaaa;
    let first = *carry;
    let may_escape = backslashes & !first;
    let codes = (((may_escape << 1) | ODD).wrapping_sub(may_escape)) ^ ODD;
    *carry = (codes & backslashes) >> 63;
    codes ^ (backslashes | first)
}

/// No place.
pub(super) const NONE: usize = usize::MAX;

/// Reads events one after another as long as they are good: notes where they are and marks their structure, and nothing
/// else's. Without `CHECK` they are known to be good.
///
/// # Safety
///
/// The machine has the instructions of `B`.
#[inline(always)]
pub(super) unsafe fn read<B: Block, const CHECK: bool>(task: &mut Task<'_>) {
    let (from, to) = (task.range.start, task.range.end);
    debug_assert!(from < to && to <= task.bytes.len() && task.bytes[from] == b'{');
    let mut carries = Carries::default();
    let mut events = Events::new(from);
    let mut chunk = Chunk::new();
    let mut first = from / 64;
    loop {
        let blocks = CHUNK.min(to.div_ceil(64) - first);
        let known = task.spans.len();
        // SAFETY: the caller vouches for `B`.
        let fault = unsafe {
            classify::<B, CHECK>(task, first, blocks, &mut chunk);
            let escapes = strings::<B::Wide, CHECK>(task, first, blocks, &mut carries, &mut chunk);
            escapes.min(events.nest::<B::Wide, CHECK>(task, first, blocks, &mut chunk))
        };
        let end = fault.min(events.stop);
        // SAFETY: the caller vouches for `B`.
        let fault =
            unsafe { validate_tokens::<B::Wide, CHECK>(task, first, blocks, end, &mut carries, &mut chunk) }
                .min(fault);
        if fault < events.stop {
            while task.spans.len() > known && task.spans.last().is_some_and(|&(_, end)| end as usize > fault)
            {
                events.begin = task.spans.pop().map_or(from, |(start, _)| start as usize);
            }
            task.marks.clear_from(events.begin, first + blocks - 1);
            return;
        }
        if events.stop != NONE {
            return;
        }
        first += blocks;
        if first * 64 >= to || (first * 64).saturating_sub(events.begin) > task.event_bytes_max {
            // The last event has no end, or it is too late.
            task.marks.clear_from(events.begin, first - 1);
            return;
        }
    }
}

/// Block number `block`, what lies outside the task's range being white space.
///
/// # Safety
///
/// The machine has the instructions of `B`.
#[inline(always)]
unsafe fn load<B: Block>(task: &Task<'_>, block: usize) -> B {
    let base = block * 64;
    let (from, to) = (task.range.start, task.range.end);
    // SAFETY: 64 bytes from there on lie within the buffer, or in the array; the caller vouches for `B`.
    unsafe {
        if base >= from && base + 64 <= to {
            B::load(task.bytes.as_ptr().add(base))
        } else {
            let mut padded = [b' '; 64];
            let (start, end) = (from.max(base), to.min(base + 64));
            padded[start - base..end - base].copy_from_slice(&task.bytes[start..end]);
            B::load(padded.as_ptr())
        }
    }
}

/// The first step: which bytes are what.
///
/// # Safety
///
/// The machine has the instructions of `B`.
#[inline(always)]
unsafe fn classify<B: Block, const CHECK: bool>(
    task: &Task<'_>,
    first: usize,
    blocks: usize,
    chunk: &mut Chunk,
) {
    chunk.non_ascii = 0;
    for at in 0..blocks.min(CHUNK) {
        // SAFETY: the caller vouches for `B`.
        unsafe {
            let loaded = load::<B>(task, first + at);
            B::fetch(task.bytes.as_ptr().wrapping_add((first + at) * 64 + AHEAD));
            chunk.quotes.0[at] = loaded.equal(b'"');
            chunk.backslashes.0[at] = loaded.equal(b'\\');
            chunk.open.0[at] = loaded.equal_folded(b'{');
            chunk.close.0[at] = loaded.equal_folded(b'}');
            chunk.colons.0[at] = loaded.equal(b':');
            chunk.commas.0[at] = loaded.equal(b',');
            if !CHECK {
                continue;
            }
            chunk.curly.0[at] = !loaded.below(b'`');
            chunk.digits.0[at] = loaded.digits();
            chunk.zeros.0[at] = loaded.equal(b'0');
            chunk.minus.0[at] = loaded.equal(b'-');
            chunk.plus.0[at] = loaded.equal(b'+');
            chunk.points.0[at] = loaded.equal(b'.');
            chunk.exponents.0[at] = loaded.equal_folded(b'e');
            chunk.bytes.0[at] = u64::MAX;
            chunk.non_ascii |= u64::from(loaded.non_ascii() != 0) << at;
            let mut spaces = loaded.equal(b' ');
            let controls = loaded.below(0x20);
            if controls != 0 {
                spaces |= loaded.equal(b'\n') | loaded.equal(b'\r') | loaded.equal(b'\t');
            }
            chunk.spaces.0[at] = spaces;
            chunk.controls.0[at] = controls;
        }
    }
    if blocks < CHUNK {
        chunk.clear_from(blocks);
    }
}

/// The second step: finds the bytes in strings. Returns the place of the first bad escape.
///
/// # Safety
///
/// The machine has the instructions of `W`.
#[inline(always)]
unsafe fn strings<W: Wide, const CHECK: bool>(
    task: &mut Task<'_>,
    first: usize,
    blocks: usize,
    carries: &mut Carries,
    chunk: &mut Chunk,
) -> usize {
    let mut fault = NONE;
    for group in 0..blocks.min(CHUNK).div_ceil(8) {
        // SAFETY: the caller vouches for `W`.
        unsafe {
            let with_backslash = chunk.backslashes.group::<W>(group).words();
            if with_backslash != 0 || carries.escaped != 0 {
                fault = fault.min(carries.unescape::<CHECK>(task, first, group, chunk));
            }
            let in_string = chunk.quotes.group::<W>(group).parities(&mut carries.in_string);
            in_string.store(chunk.in_string.group_mut(group));
        }
    }
    fault
}

impl Carries {
    /// Takes escaped quotes out, and checks escapes: gives the place of the first that is none.
    #[cold]
    fn unescape<const CHECK: bool>(
        &mut self,
        task: &mut Task<'_>,
        first: usize,
        group: usize,
        chunk: &mut Chunk,
    ) -> usize {
        let mut fault = NONE;
        for at in group * 8..group * 8 + 8 {
            let backslashes = chunk.backslashes.0[at];
            if backslashes == 0 && self.escaped == 0 {
                continue;
            }
            let escaped = escaped(backslashes, &mut self.escaped);
            chunk.quotes.0[at] &= !escaped;
            if backslashes != 0 {
                task.marks.set_escapes(first + at);
            }
            let mut escaping = if CHECK { backslashes & !escaped } else { 0 };
            while escaping != 0 && fault == NONE {
                let place = (first + at) * 64 + escaping.trailing_zeros() as usize;
                escaping &= escaping - 1;
                // The second half of a surrogate pair was read with the first.
                if place >= self.escapes_end {
                    match grammar::escape(&task.bytes[..task.range.end], place) {
                        Ok(end) => self.escapes_end = end,
                        Err(_) => fault = place,
                    }
                }
            }
        }
        fault
    }
}

/// The fourth step: checks that every token is at an allowed place, and sets the marks. Bytes from `end` on do not
/// count. Returns the place of the first fault, or [`NONE`].
///
/// # Safety
///
/// The machine has the instructions of `W`.
#[inline(always)]
unsafe fn validate_tokens<W: Wide, const CHECK: bool>(
    task: &mut Task<'_>,
    first: usize,
    blocks: usize,
    end: usize,
    carries: &mut Carries,
    chunk: &mut Chunk,
) -> usize {
    for group in 0..blocks.min(CHUNK).div_ceil(8) {
        let base = (first + group * 8) * 64;
        if base >= end {
            break;
        }
        // SAFETY: the caller vouches for `W`.
        unsafe {
            let in_string = chunk.in_string.group::<W>(group);
            let quotes = chunk.quotes.group::<W>(group);
            let (opening_quotes, closing_quotes) = (quotes.and(in_string), quotes.and_not(in_string));
            let open = chunk.open.group::<W>(group).and_not(in_string);
            let close = chunk.close.group::<W>(group).and_not(in_string);
            let colons = chunk.colons.group::<W>(group).and_not(in_string);
            let all_commas = chunk.commas.group::<W>(group).and_not(in_string);
            let commas = all_commas.and_not(chunk.between.group(group));
            let brackets = open.or(close);

            let top = chunk.top.group::<W>(group);
            let structure = brackets.or(commas);
            let live = if end - base >= 512 {
                task.marks.push_marks(first + group * 8, colons.and(top), structure);
                None
            } else {
                let live = W::load(&live(end - base));
                task.marks.push_marks(first + group * 8, colons.and(top).and(live), structure.and(live));
                Some(live)
            };
            let mut odd = colons.and_not(closing_quotes.shifted(&mut carries.closing_quote)).words();
            if !CHECK {
                odd |= chunk.backslashes.group::<W>(group).words();
                task.marks.set_odd(first + group * 8, odd);
                continue;
            }

            let object = chunk.object.group::<W>(group);
            let roots = chunk.roots.group::<W>(group);
            let spaces = chunk.spaces.group::<W>(group).and_not(in_string);
            let mut bad = chunk.controls.group::<W>(group).and(in_string).or(chunk.misfits.group(group));
            let tokens = quotes.or(in_string).or(brackets).or(colons).or(all_commas).or(spaces);
            let scalars = chunk.bytes.group::<W>(group).and_not(tokens);
            let before_scalars = scalars.shifted(&mut carries.scalar);
            let scalar_starts = scalars.and_not(before_scalars);
            let scalar_ends = before_scalars.and_not(scalars);

            // The places that a key may follow, and those that a value may follow.
            let after_open = next(open, spaces, &mut carries.after_open);
            let after_comma = next(commas, spaces, &mut carries.after_comma);
            let after_colon = next(colons, spaces, &mut carries.after_colon);
            let after_either = after_open.or(after_comma);
            let keys = after_either.and(object);
            let values = after_either.and_not(object).or(after_colon);
            bad = bad.or(keys.and_not(opening_quotes.or(close)));
            bad = bad.or(values.and_not(opening_quotes.or(scalar_starts).or(brackets)));
            bad = bad.or(close.and(after_comma.or(after_colon)));
            bad = bad.or(opening_quotes.and_not(keys.or(values)));
            bad = bad.or(scalar_starts.or(open.and_not(roots)).and_not(values));

            // The end of a key or value must be followed by an allowed token.
            let in_key = carries.in_key.0;
            let key_starts = keys.and(opening_quotes);
            let key_quotes = through(key_starts, in_string, &mut carries.in_key);
            bad = bad.or(next(key_quotes, spaces, &mut carries.after_key).xor(colons));
            let ends = closing_quotes.and_not(key_quotes).or(close.and_not(roots));
            // A scalar's end is a place behind it, where the others end at a place of their own.
            let behind = ends.shifted(&mut carries.after_value[0]).or(scalar_ends);
            let after_value = behind.plus(spaces, &mut carries.after_value[1]).and_not(spaces);
            bad = bad.or(after_value.and_not(commas.or(close)));
            bad = bad.or(commas.and_not(after_value));
            bad = bad.or(close.and_not(after_value.or(after_open)));

            let digits = chunk.digits.group::<W>(group);
            let minus = chunk.minus.group::<W>(group);
            bad = bad.or(numbers(chunk, group, scalars, scalar_starts, carries));
            let literals = scalar_starts.and_not(digits.or(minus));
            if literals.words() != 0 {
                literals.store(chunk.literals.group_mut(group));
                chunk.bad.0[group * 8..][..8].fill(0);
                for at in group * 8..group * 8 + 8 {
                    let mut literals = chunk.literals.0[at];
                    while literals != 0 {
                        let place = literals.trailing_zeros();
                        literals &= literals - 1;
                        let is_good =
                            is_literal(&task.bytes[..task.range.end], (first + at) * 64 + place as usize);
                        chunk.bad.0[at] |= u64::from(!is_good) << place;
                    }
                }
                bad = bad.or(chunk.bad.group(group));
            }
            if let Some(live) = live {
                bad = bad.and(live);
            }
            let with_backslash = chunk.backslashes.group::<W>(group).words();
            if bad.words() != 0 {
                // Good events may lie before the fault. Their keys with escapes need not be known exactly.
                task.marks.set_odd(first + group * 8, odd | with_backslash);
                bad.store(chunk.bad.group_mut(group));
                let masks = &chunk.bad.0[group * 8..];
                let at = masks.iter().position(|&mask| mask != 0).unwrap_or_default();
                return base + at * 64 + masks[at].trailing_zeros() as usize;
            }
            if with_backslash != 0 {
                key_starts.store(chunk.literals.group_mut(group));
                key_quotes.store(chunk.bad.group_mut(group));
                odd |= escaped_keys(chunk, group, in_key);
            }
            task.marks.set_odd(first + group * 8, odd);
        }
    }
    NONE
}

/// The first `len` of 512 bits.
fn live(len: usize) -> [u64; 8] {
    std::array::from_fn(|at| match len.saturating_sub(at * 64) {
        0 => 0,
        bits @ 1..64 => (1 << bits) - 1,
        _ => u64::MAX,
    })
}

/// A bit for each of a group's blocks with a backslash in a key: `literals` are the keys' opening quotes, `bad` the
/// closing ones. `in_key`: 1 if it begins within a key.
#[cold]
fn escaped_keys(chunk: &Chunk, group: usize, mut in_key: u64) -> u8 {
    let mut odd = 0;
    for at in 0..8 {
        let block = group * 8 + at;
        let (starts, ends) = (chunk.literals.0[block], chunk.bad.0[block]);
        // From each key's first quote to its last, whatever of it lies in this block.
        let in_keys = ends.wrapping_sub(starts | in_key) & chunk.in_string.0[block];
        odd |= u8::from(chunk.backslashes.0[block] & in_keys != 0) << at;
        in_key = (in_key + u64::from(starts.count_ones())).saturating_sub(u64::from(ends.count_ones()));
    }
    odd
}

/// Bytes that are part of a malformed number, or right behind one, or in no place for a number to begin.
///
/// # Safety
///
/// The machine has the instructions of `W`.
#[inline(always)]
unsafe fn numbers<W: Wide>(chunk: &Chunk, group: usize, scalars: W, starts: W, carries: &mut Carries) -> W {
    // SAFETY: the caller vouches for `W`.
    unsafe {
        let digits = chunk.digits.group::<W>(group);
        let minus = chunk.minus.group::<W>(group);
        let points = chunk.points.group::<W>(group);
        let exponents = chunk.exponents.group::<W>(group);
        // A minus, then one 0 or digits that do not begin with 0.
        let first = starts.and(minus).shifted(&mut carries.minus).or(starts.and(digits));
        let zero = first.and(chunk.zeros.group(group));
        let mut bad = first.and_not(digits);
        let integer = through(first.and(digits).and_not(zero), digits, &mut carries.integer);
        let integer_end = integer.or(zero.shifted(&mut carries.zero));
        // A point and digits.
        let fraction = integer_end.and(points).shifted(&mut carries.point);
        bad = bad.or(fraction.and_not(digits));
        let fraction_end = through(fraction.and(digits), digits, &mut carries.fraction);
        let end = integer_end.and_not(points).or(fraction_end);
        // An `e`, a sign, and digits.
        let exponent_at = end.and(exponents);
        let mut end = end.and_not(exponents);
        if exponent_at.words() != 0 || carries.exponent.0 | carries.sign.0 | carries.power.0 != 0 {
            let exponent = exponent_at.shifted(&mut carries.exponent);
            let signs = exponent.and(minus.or(chunk.plus.group(group)));
            let power = exponent.and_not(signs).or(signs.shifted(&mut carries.sign));
            bad = bad.or(power.and_not(digits));
            end = end.or(through(power.and(digits), digits, &mut carries.power));
        }
        // Behind a number is something that ends one.
        bad.or(end.and(scalars))
    }
}

/// True if a literal stands at `at`, and behind it something that ends one.
#[inline(always)]
fn is_literal(bytes: &[u8], at: usize) -> bool {
    let rest = &bytes[at..];
    let len = match rest {
        [b't', b'r', b'u', b'e', ..] | [b'n', b'u', b'l', b'l', ..] => 4,
        [b'f', b'a', b'l', b's', b'e', ..] => 5,
        _ => return false,
    };
    // Within an event something follows.
    matches!(rest.get(len), Some(b',' | b'}' | b']' | b' ' | b'\n' | b'\r' | b'\t'))
}

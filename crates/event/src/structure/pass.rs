//! One pass over bytes, 64 at a time, that marks structure and checks the whole grammar of JSON with it.
//!
//! Quotes, and with them what lies in strings, are found as in Langdale and Lemire, "Parsing Gigabytes of JSON per
//! Second", VLDB 2019. From there on it is arithmetic on bits, as Cameron et al. do it ("Bitwise Data Parallelism in
//! Regular Expression Matching", PACT 2014): a set bit is a marker at a byte; "the token after each comma" is all
//! commas moved on by one and then, by an addition whose carry runs through runs of set bits, over the white space; a
//! number is checked by moving markers over runs of digits in the same way. So all tokens of a block are checked at once,
//! and a block costs the same whatever is in it, but for its brackets: these are taken one after another, to match them
//! and to know what lies in an object and what in a list.
//!
//! It says *where good events end*, no more. What is wrong with an event that it does not accept, and where, is for
//! [`crate::grammar`] to say, which reads byte by byte; it must accept the same events, which is tested.
//! Not accepted here though good: what is nested deeper than [`DEPTH_MAX`].

use super::{Marks, block::Block};
use crate::{grammar, scan::skip_space};

/// Kinds of open brackets are kept in one word.
pub(crate) const DEPTH_MAX: usize = 64;

/// What to read.
pub(crate) struct Task<'a> {
    /// The whole buffer.
    pub(crate) bytes: &'a [u8],
    /// Where the first event begins (a `{`), and where to stop at the latest.
    pub(crate) range: std::ops::Range<usize>,
    /// Events are in an array: there is a comma between two.
    pub(crate) array: bool,
    pub(crate) event_bytes_max: usize,
    pub(crate) depth_max: usize,
    pub(crate) marks: &'a mut Marks,
    /// Receives the events.
    pub(crate) spans: &'a mut Vec<(u32, u32)>,
}

/// Markers that go over from one block to the next, each in its lowest bit.
#[derive(Debug, Default)]
struct Carry {
    escaped: u64,
    /// All ones within a string.
    in_string: u64,
    /// Within a key.
    key: u64,
    closing_quote: u64,
    scalar: u64,
    // Over white space.
    after_open: u64,
    after_comma: u64,
    after_colon: u64,
    after_key: u64,
    after_value: u64,
    // Within numbers.
    minus: u64,
    zero: u64,
    integer: u64,
    point: u64,
    fraction: u64,
    exponent: u64,
    sign: u64,
    power: u64,
}

/// How deep it is at some place.
#[derive(Debug, Default)]
struct Nesting {
    depth: usize,
    /// One bit for each open bracket, the innermost lowest: whether it is curly.
    kinds: u64,
    /// All ones in an object.
    object: u64,
    /// All ones at depth 1.
    top: u64,
}

/// The token after each of `tokens`, over `spaces`: where it begins.
#[inline(always)]
fn next(tokens: u64, spaces: u64, carry: &mut u64) -> u64 {
    let (sum, over) = ((tokens << 1) | *carry).overflowing_add(spaces);
    // Not both: a marker that ran over the end began in white space there.
    *carry = (tokens >> 63) | u64::from(over);
    sum & !spaces
}

/// Moves each marker from the beginning of a run, or from within, to behind its end.
#[inline(always)]
fn through(markers: u64, runs: u64, carry: &mut u64) -> u64 {
    let (sum, over) = markers.overflowing_add(runs);
    let (sum, over_too) = sum.overflowing_add(*carry);
    *carry = u64::from(over | over_too);
    sum & !runs
}

#[inline(always)]
fn shifted(markers: u64, carry: &mut u64) -> u64 {
    let moved = (markers << 1) | *carry;
    *carry = markers >> 63;
    moved
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

/// Reads events one after another as long as they are good: notes where they are and marks their structure, and nothing
/// else's. Without `CHECK` they are known to be good.
///
/// # Safety
///
/// The machine has the instructions of `B`.
#[inline(always)]
pub(super) unsafe fn read<B: Block, const CHECK: bool>(task: &mut Task<'_>) {
    let bytes = task.bytes;
    let (from, to) = (task.range.start, task.range.end);
    debug_assert!(from < to && to <= bytes.len() && bytes[from] == b'{');
    let deepest = task.depth_max.min(DEPTH_MAX);
    let mut carry = Carry::default();
    let mut nesting = Nesting::default();
    // Where the present event begins, or the next one, and whether what is not ASCII came in it.
    let mut begin = from;
    let mut non_ascii = false;
    // The comma before the next event, and the place up to which escapes were checked.
    let mut comma_between = usize::MAX;
    let mut escapes_checked = 0;
    let mut block = from / 64;
    loop {
        let base = block * 64;
        if base >= to || base.saturating_sub(begin) > task.event_bytes_max {
            // The last event has no end, or comes to it too late.
            break;
        }
        // SAFETY: 64 bytes from `base` on lie within the buffer, or in the array; the caller vouches for `B`.
        let loaded = unsafe {
            if base >= from && base + 64 <= to {
                B::load(bytes.as_ptr().add(base))
            } else {
                let mut padded = [b' '; 64];
                let (start, end) = (from.max(base), to.min(base + 64));
                padded[start - base..end - base].copy_from_slice(&bytes[start..end]);
                B::load(padded.as_ptr())
            }
        };
        // SAFETY, down to the end of the block: the caller vouches for `B`.
        let (quotes, backslashes) = unsafe { (loaded.equal(b'"'), loaded.equal(b'\\')) };
        let mut bad = 0;
        let mut unescaped = quotes;
        if backslashes | carry.escaped != 0 {
            let escaped = escaped(backslashes, &mut carry.escaped);
            unescaped &= !escaped;
            task.marks.set_escapes(block);
            if CHECK {
                let mut starts = backslashes & !escaped;
                while starts != 0 {
                    let place = starts.trailing_zeros();
                    starts &= starts - 1;
                    if base + place as usize >= escapes_checked {
                        match grammar::escape(&bytes[..to], base + place as usize) {
                            Ok(end) => escapes_checked = end,
                            Err(_) => bad |= 1 << place,
                        }
                    }
                }
            }
        }
        let in_string = unsafe { B::prefix_xor(unescaped) } ^ carry.in_string;
        carry.in_string = ((in_string as i64) >> 63) as u64;
        let outside = !in_string;
        let (opening_quotes, closing_quotes) = (unescaped & in_string, unescaped & outside);

        let (open, close, curly) = unsafe {
            let open = loaded.equal_folded(b'{') & outside;
            let close = loaded.equal_folded(b'}') & outside;
            // `[` and `]` have bit 0x20 clear, `{` and `}` set.
            (open, close, if open | close == 0 { 0 } else { !loaded.below(0x60) })
        };
        let colons = unsafe { loaded.equal(b':') } & outside;
        let mut commas = unsafe { loaded.equal(b',') } & outside;
        // Commas between events.
        let mut between = if comma_between / 64 == block { 1 << (comma_between % 64) } else { 0 };
        let high = if CHECK { unsafe { loaded.non_ascii() } } else { 0 };
        non_ascii |= high != 0;

        // Brackets, one after another.
        let (mut object, mut top) = (nesting.object, nesting.top);
        let mut roots = 0;
        let spans_before = task.spans.len();
        let mut stop = None;
        let mut brackets = open | close;
        while brackets != 0 {
            let place = brackets.trailing_zeros();
            let (bit, above) = (1u64 << place, !1u64 << place);
            brackets &= brackets - 1;
            let is_curly = (curly >> place) & 1;
            if open & bit != 0 {
                nesting.kinds = (nesting.kinds << 1) | is_curly;
                nesting.depth += 1;
                if nesting.depth == 1 {
                    roots |= bit;
                }
                bad |= u64::from(CHECK && nesting.depth > deepest) << place;
            } else {
                bad |= ((nesting.kinds ^ is_curly) & 1) << place;
                nesting.kinds >>= 1;
                nesting.depth = nesting.depth.wrapping_sub(1);
            }
            nesting.object = 0u64.wrapping_sub(nesting.kinds & 1);
            nesting.top = 0u64.wrapping_sub(u64::from(nesting.depth == 1));
            object = (object & !above) | (nesting.object & above);
            top = (top & !above) | (nesting.top & above);
            if nesting.depth == 0 {
                roots |= bit;
                let end = base + place as usize + 1;
                if CHECK {
                    let is_text = !non_ascii || simdutf8::basic::from_utf8(&bytes[begin..end]).is_ok();
                    bad |= u64::from(end - begin > task.event_bytes_max || !is_text) << place;
                    non_ascii = high & above != 0;
                }
                task.spans.push((begin as u32, end as u32));
                let mut following = skip_space(&bytes[..to], end);
                if task.array {
                    if bytes[..to].get(following) != Some(&b',') {
                        stop = Some(end);
                        break;
                    }
                    comma_between = following;
                    if following / 64 == block {
                        between |= 1 << (following % 64);
                    }
                    following = skip_space(&bytes[..to], following + 1);
                }
                if following >= to || bytes[following] != b'{' {
                    stop = Some(end);
                    break;
                }
                begin = following;
            }
        }
        // What lies before the place to stop at.
        let live = stop.map_or(u64::MAX, |stop| u64::MAX >> (63 - (stop - 1 - base)));

        commas &= !between;

        let spaced = colons & !shifted(closing_quotes, &mut carry.closing_quote);
        if CHECK {
            let (spaces, controls) = unsafe {
                let controls = loaded.below(0x20);
                let mut spaces = loaded.equal(b' ');
                if controls != 0 {
                    spaces |= loaded.equal(b'\n') | loaded.equal(b'\r') | loaded.equal(b'\t');
                }
                (spaces & outside, controls)
            };
            bad |= controls & in_string;
            let scalars = outside & !(unescaped | open | close | colons | commas | between | spaces);
            let before_scalars = scalars << 1 | carry.scalar;
            let scalar_starts = scalars & !before_scalars;
            let scalar_ends = before_scalars & !scalars;

            // What a key may follow, and what a value.
            let after_open = next(open, spaces, &mut carry.after_open);
            let after_comma = next(commas, spaces, &mut carry.after_comma);
            let after_colon = next(colons, spaces, &mut carry.after_colon);
            let keys = (after_open | after_comma) & object;
            let values = ((after_open | after_comma) & !object) | after_colon;
            let inner_open = open & !roots;
            bad |= keys & !(opening_quotes | close);
            bad |= values & !(opening_quotes | scalar_starts | open | close);
            bad |= close & (after_comma | after_colon);
            bad |= opening_quotes & !(keys | values);
            bad |= (scalar_starts | inner_open) & !values;

            // What keys and values end with is followed by what it should.
            let in_key = carry.key;
            let key_quotes = through(keys & opening_quotes, in_string, &mut carry.key);
            let after_key = next(key_quotes, spaces, &mut carry.after_key);
            bad |= after_key ^ colons;
            let ends = (closing_quotes & !key_quotes) | (close & !roots);
            // A scalar's end is a place after it, where others end at a place of their own.
            let (sum, over) = ((ends << 1) | scalar_ends | carry.after_value).overflowing_add(spaces);
            carry.after_value = (ends >> 63) | u64::from(over);
            let after_value = sum & !spaces;
            bad |= after_value & !(commas | close);
            bad |= commas & !after_value;
            bad |= close & !(after_value | after_open);

            if scalars | carry.scalar != 0 {
                bad |= unsafe { numbers(loaded, scalars, scalar_starts, &mut carry) };
                let mut literals = scalar_starts & !unsafe { loaded.digits() | loaded.equal(b'-') };
                while literals != 0 {
                    let place = literals.trailing_zeros();
                    literals &= literals - 1;
                    bad |= u64::from(!is_literal(&bytes[..to], base + place as usize)) << place;
                }
            }
            carry.scalar = scalars >> 63;

            // Keys that are not spelled plainly are found another way.
            if backslashes != 0 {
                // From each key's first quote to its last, whatever of it lies in this block.
                let began = (keys & opening_quotes) | in_key;
                let in_keys = key_quotes.wrapping_sub(began) & in_string;
                if backslashes & in_keys != 0 {
                    task.marks.set_odd(block);
                }
            }
            if bad & live != 0 {
                let fault = base + (bad & live).trailing_zeros() as usize;
                while task.spans.len() > spans_before
                    && task.spans.last().is_some_and(|&(_, end)| end as usize > fault)
                {
                    let (start, _) = task.spans.pop().unwrap_or_default();
                    begin = start as usize;
                }
                task.marks.put(block, colons & top & live, (open | close | commas) & live);
                task.marks.clear_from(begin, block);
                return;
            }
        } else if backslashes != 0 {
            task.marks.set_odd(block);
        }
        if spaced & live != 0 {
            task.marks.set_odd(block);
        }
        task.marks.put(block, colons & top & live, (open | close | commas) & live);
        if stop.is_some() {
            return;
        }
        block += 1;
    }
    task.marks.clear_from(begin, block - 1);
}

/// Bytes that are part of a malformed number, or right behind one, or in no place for a number to begin.
///
/// # Safety
///
/// The machine has the instructions of `B`.
#[inline(always)]
unsafe fn numbers<B: Block>(loaded: B, scalars: u64, starts: u64, carry: &mut Carry) -> u64 {
    // SAFETY: the caller vouches for `B`.
    let (digits, minus, zeros, points, exponents) = unsafe {
        (
            loaded.digits(),
            loaded.equal(b'-'),
            loaded.equal(b'0'),
            loaded.equal(b'.'),
            loaded.equal_folded(b'e'),
        )
    };
    // A minus, then one 0 or digits that do not begin with 0.
    let first = shifted(starts & minus, &mut carry.minus) | (starts & digits);
    let mut bad = first & !digits;
    let zero = first & zeros;
    let integer_end =
        through(first & digits & !zeros, digits, &mut carry.integer) | shifted(zero, &mut carry.zero);
    // A point and digits.
    let fraction = shifted(integer_end & points, &mut carry.point);
    bad |= fraction & !digits;
    let fraction_end = through(fraction & digits, digits, &mut carry.fraction);
    let end = (integer_end & !points) | fraction_end;
    // An `e`, a sign, and digits.
    let exponent = shifted(end & exponents, &mut carry.exponent);
    let mut end = end & !exponents;
    if exponent | carry.exponent | carry.sign | carry.power != 0 {
        // SAFETY: the caller vouches for `B`.
        let signs = exponent & (minus | unsafe { loaded.equal(b'+') });
        let power = (exponent & !signs) | shifted(signs, &mut carry.sign);
        bad |= power & !digits;
        end |= through(power & digits, digits, &mut carry.power);
    }
    // Behind a number is something that ends one.
    bad | (end & scalars)
}

/// Whether a literal stands at `at`, and behind it something that ends one.
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

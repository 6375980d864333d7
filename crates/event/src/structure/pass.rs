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
    /// Up to where escapes were checked.
    escapes_end: usize,
    /// All ones within a string.
    in_string: u64,
    /// All ones in an object, and at depth 1.
    object: u64,
    top: u64,
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

/// Blocks that are read together: each step goes through all of them before the next begins, so that what a step needs
/// stays in registers, and a branch that is hard to foretell costs its own step only.
const CHUNK: usize = 32;

/// What the blocks of a chunk hold.
struct Chunk {
    unescaped: [u64; CHUNK],
    in_string: [u64; CHUNK],
    open: [u64; CHUNK],
    close: [u64; CHUNK],
    colons: [u64; CHUNK],
    commas: [u64; CHUNK],
    /// Where it changes whether what follows lies in an object, and whether at depth 1; what lies in the chunk behind
    /// goes last.
    object_edges: [u64; CHUNK + 1],
    top_edges: [u64; CHUNK + 1],
    /// Outermost brackets, and commas between events.
    roots: [u64; CHUNK],
    between: [u64; CHUNK],
    /// The places of all brackets, and room for what is written in excess.
    brackets: [u32; CHUNK * 64 + 4],
    brackets_len: usize,
    /// A bit a block: not all is ASCII.
    non_ascii: u64,
}

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
    let mut carry = Carry::default();
    let mut events = Events { begin: from, ..Events::default() };
    let mut chunk = Chunk {
        unescaped: [0; CHUNK],
        in_string: [0; CHUNK],
        open: [0; CHUNK],
        close: [0; CHUNK],
        colons: [0; CHUNK],
        commas: [0; CHUNK],
        object_edges: [0; CHUNK + 1],
        top_edges: [0; CHUNK + 1],
        roots: [0; CHUNK],
        between: [0; CHUNK],
        brackets: [0; CHUNK * 64 + 4],
        brackets_len: 0,
        non_ascii: 0,
    };
    let mut first = from / 64;
    loop {
        let blocks = CHUNK.min(to.div_ceil(64) - first);
        let known = task.spans.len();
        // SAFETY: the caller vouches for `B`.
        let fault = unsafe { classify::<B, CHECK>(task, first, blocks, &mut carry, &mut chunk) };
        let fault = fault.min(events.nest::<CHECK>(task, first, blocks, &mut chunk));
        // SAFETY: the caller vouches for `B`.
        let fault = unsafe { judge::<B, CHECK>(task, first, blocks, fault, &events, &mut carry, &chunk) };
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
            // The last event has no end, or comes to it too late.
            task.marks.clear_from(events.begin, first - 1);
            return;
        }
    }
}

/// No place.
const NONE: usize = usize::MAX;

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

/// The first step: what is in strings, and what is structure. Gives the place of the first bad escape.
///
/// # Safety
///
/// The machine has the instructions of `B`.
#[inline(always)]
unsafe fn classify<B: Block, const CHECK: bool>(
    task: &mut Task<'_>,
    first: usize,
    blocks: usize,
    carry: &mut Carry,
    chunk: &mut Chunk,
) -> usize {
    let mut fault = NONE;
    let mut len = 0;
    chunk.non_ascii = 0;
    for at in 0..blocks {
        // SAFETY, down to the end of the block: the caller vouches for `B`.
        let loaded = unsafe { load::<B>(task, first + at) };
        let (mut unescaped, backslashes) = unsafe { (loaded.equal(b'"'), loaded.equal(b'\\')) };
        if backslashes | carry.escaped != 0 {
            let escaped = escaped(backslashes, &mut carry.escaped);
            unescaped &= !escaped;
            task.marks.set_escapes(first + at);
            if CHECK {
                fault = fault.min(carry.bad_escape(task, (first + at) * 64, backslashes & !escaped));
            }
        }
        let in_string = unsafe { B::prefix_xor(unescaped) } ^ carry.in_string;
        carry.in_string = ((in_string as i64) >> 63) as u64;
        let (open, close) = unsafe { (loaded.equal_folded(b'{'), loaded.equal_folded(b'}')) };
        let (open, close) = (open & !in_string, close & !in_string);
        chunk.unescaped[at] = unescaped;
        chunk.in_string[at] = in_string;
        chunk.open[at] = open;
        chunk.close[at] = close;
        unsafe {
            chunk.colons[at] = loaded.equal(b':') & !in_string;
            chunk.commas[at] = loaded.equal(b',') & !in_string;
            if CHECK {
                chunk.non_ascii |= u64::from(loaded.non_ascii() != 0) << at;
            }
        }
        // Four places are written whether there are so many or not, as branches that depend on it would be foretold badly.
        let mut brackets = open | close;
        let count = brackets.count_ones() as usize;
        let base = ((first + at) * 64) as u32;
        let mut place = len;
        loop {
            for slot in &mut chunk.brackets[place..place + 4] {
                *slot = base + brackets.trailing_zeros();
                brackets &= brackets.wrapping_sub(1);
            }
            if brackets == 0 {
                break;
            }
            place += 4;
        }
        len += count;
    }
    chunk.brackets_len = len;
    fault
}

impl Carry {
    /// The place of the first of these backslashes, all of which escape something, that does it wrongly.
    #[cold]
    fn bad_escape(&mut self, task: &Task<'_>, base: usize, mut backslashes: u64) -> usize {
        while backslashes != 0 {
            let place = base + backslashes.trailing_zeros() as usize;
            backslashes &= backslashes - 1;
            // The second half of a surrogate pair was read with the first.
            if place >= self.escapes_end {
                match grammar::escape(&task.bytes[..task.range.end], place) {
                    Ok(end) => self.escapes_end = end,
                    Err(_) => return place,
                }
            }
        }
        NONE
    }
}

/// The second step: how brackets nest, and with it where events end.
struct Events {
    depth: usize,
    /// One bit for each open bracket, the innermost lowest: whether it is curly.
    kinds: u64,
    /// Where the present event begins, or the next one.
    begin: usize,
    /// The comma before it, in an array.
    comma: usize,
    /// The present event was not all ASCII in an earlier chunk.
    non_ascii: bool,
    /// Where to stop: behind an event that none follows.
    stop: usize,
}

impl Default for Events {
    fn default() -> Self {
        Events { depth: 0, kinds: 0, begin: 0, comma: NONE, non_ascii: false, stop: NONE }
    }
}

impl Events {
    /// Notes the events that end in the chunk. Gives the place of the first bracket that closes what it cannot, lies too
    /// deep, or ends an event that is too long or not text.
    #[inline(always)]
    fn nest<const CHECK: bool>(
        &mut self,
        task: &mut Task<'_>,
        first: usize,
        blocks: usize,
        chunk: &mut Chunk,
    ) -> usize {
        let deepest = task.depth_max.min(DEPTH_MAX);
        let base = first * 64;
        let mut fault = NONE;
        chunk.object_edges = carried(&chunk.object_edges);
        chunk.top_edges = carried(&chunk.top_edges);
        chunk.roots = [0; CHUNK];
        chunk.between = [0; CHUNK];
        chunk.mark_between(base, self.comma);
        for at in 0..chunk.brackets_len {
            let place = chunk.brackets[at] as usize;
            let byte = task.bytes[place];
            // `[` and `{` have bit 2 clear, `]` and `}` set; `{` and `}` have bit 5 set.
            let (closes, is_curly) = (byte & 4 != 0, u64::from(byte >> 5) & 1);
            let (was_object, was_top) = (self.kinds & 1, self.depth == 1);
            if closes {
                if CHECK && was_object != is_curly {
                    fault = fault.min(place);
                }
                self.kinds >>= 1;
                self.depth = self.depth.wrapping_sub(1);
            } else {
                self.kinds = (self.kinds << 1) | is_curly;
                self.depth += 1;
                if CHECK && self.depth > deepest {
                    fault = fault.min(place);
                }
            }
            let behind = place + 1 - base;
            let (block, bit) = (behind / 64 % (CHUNK + 1), behind % 64);
            chunk.object_edges[block] ^= (was_object ^ (self.kinds & 1)) << bit;
            chunk.top_edges[block] ^= u64::from(was_top != (self.depth == 1)) << bit;
            if self.depth > 1 || (self.depth == 1 && place != self.begin) {
                continue;
            }
            chunk.roots[(place - base) / 64 % CHUNK] |= 1 << (place % 64);
            if self.depth == 1 {
                continue;
            }
            let end = place + 1;
            if CHECK && !self.is_good(task, base, end, chunk.non_ascii) {
                fault = fault.min(place);
            }
            self.non_ascii = false;
            task.spans.push((self.begin as u32, end as u32));
            if !self.go_on(task, end) {
                self.stop = end;
                return fault;
            }
            chunk.mark_between(base, self.comma);
        }
        if self.begin < base + blocks * 64 {
            self.non_ascii |= chunk.non_ascii >> (self.begin.saturating_sub(base) / 64) != 0;
        }
        fault
    }

    /// Whether the present event, which ends at `end`, is no longer than allowed, and text.
    #[inline(always)]
    fn is_good(&self, task: &Task<'_>, base: usize, end: usize, non_ascii: u64) -> bool {
        let blocks = non_ascii << (63 - (end - 1 - base) / 64) >> (63 - (end - 1 - base) / 64);
        let is_ascii = !self.non_ascii && blocks >> (self.begin.saturating_sub(base) / 64) == 0;
        end - self.begin <= task.event_bytes_max
            && (is_ascii || simdutf8::basic::from_utf8(&task.bytes[self.begin..end]).is_ok())
    }

    /// Finds where the next event begins after one that ends at `end`; `false` if something else follows, or nothing.
    #[inline(always)]
    fn go_on(&mut self, task: &Task<'_>, end: usize) -> bool {
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

impl Chunk {
    /// Marks a comma between two events, if it lies in this chunk, which begins at `base`.
    #[inline(always)]
    fn mark_between(&mut self, base: usize, comma: usize) {
        if let Some(mask) = comma.checked_sub(base).and_then(|place| self.between.get_mut(place / 64)) {
            *mask |= 1 << (comma % 64);
        }
    }
}

/// The edges of the chunk behind one with these.
#[inline(always)]
fn carried(edges: &[u64; CHUNK + 1]) -> [u64; CHUNK + 1] {
    let mut next = [0; CHUNK + 1];
    next[0] = edges[CHUNK];
    next
}

/// The third step: whether every token stands where it may, and the marks. Given the place of the first fault so far (or
/// [`NONE`]), gives that of the first at all.
///
/// # Safety
///
/// The machine has the instructions of `B`.
#[inline(always)]
unsafe fn judge<B: Block, const CHECK: bool>(
    task: &mut Task<'_>,
    first: usize,
    blocks: usize,
    fault: usize,
    events: &Events,
    carry: &mut Carry,
    chunk: &Chunk,
) -> usize {
    // What lies before the place to stop at is of account.
    let end = fault.min(events.stop);
    for at in 0..blocks {
        let base = (first + at) * 64;
        if base >= end {
            break;
        }
        let live = if end - base >= 64 { u64::MAX } else { (1 << (end - base)) - 1 };
        let (unescaped, in_string) = (chunk.unescaped[at], chunk.in_string[at]);
        let (open, close, colons) = (chunk.open[at], chunk.close[at], chunk.colons[at]);
        let commas = chunk.commas[at] & !chunk.between[at];
        let outside = !in_string;
        let (opening_quotes, closing_quotes) = (unescaped & in_string, unescaped & outside);
        // SAFETY: the caller vouches for `B`.
        let top = unsafe { B::prefix_xor(chunk.top_edges[at]) } ^ carry.top;
        carry.top = ((top as i64) >> 63) as u64;
        task.marks.put(first + at, colons & top & live, (open | close | commas) & live);
        let spaced = colons & !shifted(closing_quotes, &mut carry.closing_quote);
        let mut is_odd = spaced & live != 0;
        if CHECK {
            // SAFETY, down to the end of the block: the caller vouches for `B`.
            let loaded = unsafe { load::<B>(task, first + at) };
            let object = unsafe { B::prefix_xor(chunk.object_edges[at]) } ^ carry.object;
            carry.object = ((object as i64) >> 63) as u64;
            let roots = chunk.roots[at];
            let (spaces, controls) = unsafe {
                let controls = loaded.below(0x20);
                let mut spaces = loaded.equal(b' ');
                if controls != 0 {
                    spaces |= loaded.equal(b'\n') | loaded.equal(b'\r') | loaded.equal(b'\t');
                }
                (spaces & outside, controls)
            };
            let mut bad = controls & in_string;
            let tokens = unescaped | open | close | colons | chunk.commas[at];
            let scalars = outside & !(tokens | spaces);
            let before_scalars = scalars << 1 | carry.scalar;
            let scalar_starts = scalars & !before_scalars;
            let scalar_ends = before_scalars & !scalars;

            // What a key may follow, and what a value.
            let after_open = next(open, spaces, &mut carry.after_open);
            let after_comma = next(commas, spaces, &mut carry.after_comma);
            let after_colon = next(colons, spaces, &mut carry.after_colon);
            let keys = (after_open | after_comma) & object;
            let values = ((after_open | after_comma) & !object) | after_colon;
            bad |= keys & !(opening_quotes | close);
            bad |= values & !(opening_quotes | scalar_starts | open | close);
            bad |= close & (after_comma | after_colon);
            bad |= opening_quotes & !(keys | values);
            bad |= (scalar_starts | (open & !roots)) & !values;

            // What keys and values end with is followed by what it should.
            let in_key = carry.key;
            let key_quotes = through(keys & opening_quotes, in_string, &mut carry.key);
            bad |= next(key_quotes, spaces, &mut carry.after_key) ^ colons;
            let ends = (closing_quotes & !key_quotes) | (close & !roots);
            // A scalar's end is a place after it, where others end at a place of their own.
            let (sum, over) = ((ends << 1) | scalar_ends | carry.after_value).overflowing_add(spaces);
            carry.after_value = (ends >> 63) | u64::from(over);
            let after_value = sum & !spaces;
            bad |= after_value & !(commas | close);
            bad |= commas & !after_value;
            bad |= close & !(after_value | after_open);

            if scalars | carry.scalar != 0 {
                bad |= unsafe { numbers(loaded, scalars, scalar_starts, carry) };
                let mut literals = scalar_starts & !unsafe { loaded.digits() | loaded.equal(b'-') };
                while literals != 0 {
                    let place = literals.trailing_zeros();
                    literals &= literals - 1;
                    bad |=
                        u64::from(!is_literal(&task.bytes[..task.range.end], base + place as usize)) << place;
                }
            }
            carry.scalar = scalars >> 63;
            if bad & live != 0 {
                return base + (bad & live).trailing_zeros() as usize;
            }
            if task.marks.may_escape(base, base + 1) {
                // From each key's first quote to its last, whatever of it lies in this block.
                let in_keys = key_quotes.wrapping_sub((keys & opening_quotes) | in_key) & in_string;
                is_odd |= unsafe { loaded.equal(b'\\') } & in_keys != 0;
            }
        } else {
            is_odd |= task.marks.may_escape(base, base + 1);
        }
        if is_odd {
            task.marks.set_odd(first + at);
        }
    }
    fault
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

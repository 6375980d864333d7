//! Splits bytes into events, and checks the structure and UTF-8 of each, independent of any query.
//!
//! The input is one JSON object, an array of objects, or objects one after another with any white space between them. The
//! first byte that is not white space decides (`[` is an array). The following rules apply where JSON leaves a choice:
//!
//! - An event is a JSON object (RFC 8259); anything else in its place is refused. Equal keys are allowed (the decoder
//!   uses the last one). Numbers may have any size. Half a surrogate pair in an escape is refused.
//! - White space is space, tab, newline and carriage return. Empty lines are ignored. A byte order mark at the very
//!   beginning is skipped. Lines end at a newline.
//! - After a faulty event, reading resumes at the first line that starts after the fault. There is one exception: a line
//!   between the event's beginning and the fault, or the end of the text, begins with `{`. Then the event ends too early
//!   before that line, and reading resumes there. A truncated line thus loses none of the following lines. Bytes may be
//!   read again for that, each at most once for each level of nesting.
//! - A `{` after a `}` and a newline always begins an event; an event that is open there is refused as ending too early.
//!   No valid event contains such a place, so a text can be cut there ([`crate::last_cut`]) and its parts checked
//!   separately.
//! - In an array, a faulty element is skipped up to the next `,` or `]` if its brackets balance, else to the next line.
//!   If there is no next line, the rest belongs to it.
//! - An event over the size limit is refused at its beginning and skipped by its brackets, without being buffered whole.
//!   At most [`CheckLimits::refused_bytes_kept`] bytes of its text are kept.
//! - Results never depend on how the input is cut into chunks.
//!
//! Every event is checked against the whole grammar, numbers, literals and escapes too, whatever a query requests.
//! [`crate::structure`] finds good events many bytes at a time. If it finds none, [`crate::grammar`] reads byte by byte
//! and determines the error.

use bytes::Bytes;

use crate::{
    EventBatch,
    grammar::{self, Fault, Verdict},
    scan::{is_space, skip_space},
    skip::{Skipper, Stop},
    structure::{Marks, StructureLimits},
};

/// The limits beyond which events are refused, and the detail of the reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckLimits {
    /// The longest event, in bytes.
    pub event_bytes_max: usize,
    /// The deepest nesting of lists and objects, the event itself counted; at most 512, whatever is said here.
    pub depth_max: usize,
    /// The number of rejections that are described; all are counted.
    pub rejections_described_max: usize,
    /// Bytes kept of the text of each refused event; 0: none.
    pub refused_bytes_kept: usize,
}

impl Default for CheckLimits {
    fn default() -> Self {
        CheckLimits {
            event_bytes_max: 1 << 20,
            depth_max: 128,
            rejections_described_max: 10,
            refused_bytes_kept: 0,
        }
    }
}

/// One event that was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejection {
    /// Line of the fault in the whole input, from 1.
    pub line: u64,
    /// Column of the fault, in bytes from 1.
    pub column: u64,
    /// The fault.
    pub message: String,
    /// True if it was refused for its size.
    pub oversize: bool,
}

/// The text of an event that was refused, up to where reading went on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedText {
    /// The reason.
    pub rejection: Rejection,
    /// It, without the white space around it; it need not be UTF-8.
    pub text: Vec<u8>,
    /// It was longer than what is kept.
    pub is_cut: bool,
}

/// The result of a piece of input.
#[derive(Debug)]
pub struct Checked {
    /// The good events, in order.
    pub batch: EventBatch,
    /// Number of refused events.
    pub rejected: u64,
    /// The first of them.
    pub rejections: Vec<Rejection>,
    /// Texts of those whose end was reached, where they are kept ([`CheckLimits::refused_bytes_kept`]).
    pub refused: Vec<RefusedText>,
    /// Start of the batch's buffer.
    pub begins: Origin,
}

/// The start of a buffer within an input, to report places in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    line: u64,
    /// Start of that line; before the buffer if negative.
    line_start: i64,
}

impl Origin {
    fn of(base: TextPosition) -> Origin {
        Origin { line: base.line, line_start: 1 - base.column as i64 }
    }

    /// Line and column of byte `at` of the buffer, both from 1. Takes time linear in `at`.
    pub fn place(self, buffer: &[u8], at: usize) -> (u64, u64) {
        let mut lines = Lines {
            first: (self.line, self.line_start),
            counted: 0,
            line: self.line,
            line_start: self.line_start,
        };
        let TextPosition { line, column } = lines.place(buffer, at);
        (line, column)
    }
}

/// Splits and checks a stream of bytes that comes in chunks.
///
/// A chunk's events borrow the chunk itself, unless the chunk before ended within an event: then that event's beginning
/// and the chunk are copied into one buffer once. Memory: an unfinished event, never more than its limit, and the chunk.
#[derive(Debug)]
pub struct Checker {
    limits: CheckLimits,
    state: State,
    /// True if the input is an array.
    array: bool,
    /// True if nothing follows what is read.
    is_last: bool,
    /// The beginning of an unfinished event.
    carry: Vec<u8>,
    /// The skipper that has read `carry`: while it finds no end, the event need not be checked again.
    ahead: Option<Skipper>,
    /// Start of `carry`, or else of the next chunk.
    base: TextPosition,
    /// Rejections described so far.
    described: usize,
    rejected: u64,
    rejections: Vec<Rejection>,
    /// The reason why an event has just been refused, if texts are kept.
    refusal: Option<Rejection>,
    /// The text that is being skipped.
    skipped: Option<SkippedText>,
    refused: Vec<RefusedText>,
}

/// A text that is being skipped, as far as it is retained.
#[derive(Debug, Default)]
struct SkippedText {
    rejection: Option<Rejection>,
    text: Vec<u8>,
    is_cut: bool,
}

/// Line and column, both from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TextPosition {
    line: u64,
    column: u64,
}

#[derive(Debug)]
enum State {
    /// Only white space was read; or not even that, if `fresh`.
    Start { fresh: bool },
    /// The position between two events that are not in an array.
    Between,
    /// The position in an array, where this may come next.
    Array(Expect),
    /// The position within an event that was refused, up to its end.
    Skip { skipper: Skipper, undecided: Option<PendingSizeLimit> },
    /// The position on the rest of a line that is not read.
    RestOfLine,
    /// The position after an array's end.
    Ended,
    /// The input has ended.
    Done,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expect {
    /// An event or the array's end.
    First,
    /// An event.
    Event,
    /// A comma or the array's end.
    Separator,
    /// Any of these: a faulty element was left in the middle.
    Anything,
}

/// An event has exactly the most bytes allowed, but no end yet: if nothing more of it comes, it is not too long, but
/// ends too early.
#[derive(Debug)]
struct PendingSizeLimit {
    begin: TextPosition,
    end: TextPosition,
}

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
const ENDS_EARLY: &str = "the text ends before the event does";

impl Checker {
    /// Begins at line 1 of an input.
    pub fn new(limits: CheckLimits) -> Checker {
        Checker {
            limits,
            state: State::Start { fresh: true },
            array: false,
            is_last: false,
            carry: Vec::new(),
            ahead: None,
            base: TextPosition { line: 1, column: 1 },
            described: 0,
            rejected: 0,
            rejections: Vec::new(),
            refusal: None,
            skipped: None,
            refused: Vec::new(),
        }
    }

    /// The events that this chunk completes. A chunk has at most [`EventBatch::BYTES_MAX`] bytes less one event's; a
    /// larger one is refused as a whole.
    pub fn push(&mut self, chunk: Bytes) -> Checked {
        if chunk.len() > EventBatch::BYTES_MAX - self.carry.len().min(EventBatch::BYTES_MAX) {
            let message = format!("{} bytes at once are too many, divide them into parts", chunk.len());
            self.reject(self.base, message, true);
            self.retain_refused(&chunk);
            return self.checked(EventBatch::empty(), Origin::of(self.base));
        }
        if self.carry.is_empty() {
            return self.read(chunk, true);
        }
        let stop = self.ahead.as_mut().map(|ahead| ahead.read(&chunk, 0));
        if stop == Some(None) && self.carry.len() + chunk.len() <= self.limits.event_bytes_max {
            self.carry.extend_from_slice(&chunk);
            return self.checked(EventBatch::empty(), Origin::of(self.base));
        }
        let mut joined = std::mem::take(&mut self.carry);
        joined.extend_from_slice(&chunk);
        self.read(joined.into(), true)
    }

    /// Bytes of an event whose end has not come.
    pub fn carried_bytes(&self) -> usize {
        self.carry.len()
    }

    /// Ends the input. The rest of it, if any, is an event that ends too early; but if that had a fault before,
    /// events may follow. The checker is used up.
    pub fn finish(&mut self) -> Checked {
        let rest = std::mem::take(&mut self.carry);
        self.is_last = true;
        let mut checked = self.read(rest.into(), true);
        let rest = std::mem::take(&mut self.carry);
        if !rest.is_empty() {
            let end = rest.iter().rposition(|&byte| !is_space(byte)).map_or(0, |last| last + 1);
            let place = Lines::new(self.base).place(&rest, end);
            self.reject(place, ENDS_EARLY.to_owned(), false);
            self.retain_refused(&rest);
        } else if let State::Skip { undecided: Some(undecided), .. } = &self.state {
            self.reject(undecided.end, ENDS_EARLY.to_owned(), false);
        } else if let State::Array(expect) = self.state
            && expect != Expect::Anything
        {
            self.reject(self.base, "the text ends before the array does".to_owned(), false);
        }
        // The skipped text ends here.
        self.state = State::Ended;
        self.retain_refused(&[]);
        self.state = State::Done;
        checked.rejected += std::mem::take(&mut self.rejected);
        checked.rejections.append(&mut self.rejections);
        checked.refused.append(&mut self.refused);
        checked
    }

    fn checked(&mut self, batch: EventBatch, begins: Origin) -> Checked {
        Checked {
            batch,
            begins,
            rejected: std::mem::take(&mut self.rejected),
            rejections: std::mem::take(&mut self.rejections),
            refused: std::mem::take(&mut self.refused),
        }
    }

    fn reject(&mut self, place: TextPosition, message: String, oversize: bool) {
        self.rejected += 1;
        if self.limits.refused_bytes_kept > 0 {
            let message = message.clone();
            self.refusal = Some(Rejection { line: place.line, column: place.column, message, oversize });
        }
        if self.described < self.limits.rejections_described_max {
            self.described += 1;
            self.rejections.push(Rejection { line: place.line, column: place.column, message, oversize });
        }
    }

    /// Retains what a step went over, if it is, or begins, a text that is refused.
    fn retain_refused(&mut self, text: &[u8]) {
        let is_skipping = matches!(self.state, State::Skip { .. } | State::RestOfLine | State::Done);
        if self.refusal.is_none() && self.skipped.is_none() && !is_skipping {
            return;
        }
        let mut skipped = self.skipped.take().unwrap_or_default();
        skipped.rejection = skipped.rejection.or(self.refusal.take());
        let room = self.limits.refused_bytes_kept - skipped.text.len();
        let text = if skipped.text.is_empty() { text.trim_ascii_start() } else { text };
        skipped.is_cut |= text.trim_ascii_end().len() > room;
        skipped.text.extend_from_slice(&text[..text.len().min(room)]);
        if is_skipping {
            self.skipped = Some(skipped);
        } else if let Some(rejection) = skipped.rejection {
            let SkippedText { mut text, is_cut, .. } = skipped;
            text.truncate(text.trim_ascii_end().len());
            self.refused.push(RefusedText { rejection, text, is_cut });
        }
    }

    /// Reads as far as events go, and keeps the rest. `more`: more may follow.
    fn read(&mut self, bytes: Bytes, more: bool) -> Checked {
        let mut reader = Reader {
            bytes: &bytes,
            at: 0,
            lines: Lines::new(self.base),
            marks: Marks::new(bytes.len()),
            spans: Vec::new(),
        };
        let keeps = self.limits.refused_bytes_kept > 0;
        while reader.at < bytes.len() {
            let from = reader.at;
            let goes_on = self.step(&mut reader);
            if keeps {
                self.retain_refused(&bytes[from..reader.at]);
            }
            if !goes_on {
                break;
            }
        }
        let Reader { at, mut lines, marks, spans, .. } = reader;
        // Lines need not be counted where nothing is left to be told of.
        if more || at < bytes.len() {
            self.base = lines.place(&bytes, at);
        }
        self.carry.extend_from_slice(&bytes[at..]);
        self.ahead = None;
        if self.carry.first() == Some(&b'{') {
            let mut ahead = Skipper::new(!self.array);
            ahead.read(&self.carry, 0);
            self.ahead = Some(ahead);
        }
        let batch = if spans.is_empty() { EventBatch::empty() } else { EventBatch::new(bytes, spans, marks) };
        let (line, line_start) = lines.first;
        self.checked(batch, Origin { line, line_start })
    }

    /// One step on; `false` when the rest is to be kept until more comes.
    fn step(&mut self, reader: &mut Reader<'_>) -> bool {
        let bytes = reader.bytes;
        match &mut self.state {
            State::Start { fresh } => {
                if std::mem::take(fresh) {
                    if bytes.starts_with(BYTE_ORDER_MARK) {
                        reader.at = BYTE_ORDER_MARK.len();
                        reader.lines.skip(BYTE_ORDER_MARK.len());
                    } else if BYTE_ORDER_MARK.starts_with(bytes) {
                        *fresh = true;
                        return false;
                    }
                }
                reader.at = skip_space(bytes, reader.at);
                match bytes.get(reader.at) {
                    None => {}
                    Some(b'[') => {
                        self.array = true;
                        self.state = State::Array(Expect::First);
                        reader.at += 1;
                    }
                    Some(_) => self.state = State::Between,
                }
            }
            State::Between => {
                reader.at = skip_space(bytes, reader.at);
                match bytes.get(reader.at) {
                    None => {}
                    Some(b'{') => return self.event(reader),
                    Some(_) => {
                        self.not_an_event(reader);
                        self.state = State::RestOfLine;
                    }
                }
            }
            State::Array(expect) => {
                let expect = *expect;
                reader.at = skip_space(bytes, reader.at);
                let Some(&byte) = bytes.get(reader.at) else { return true };
                return self.array_step(reader, expect, byte);
            }
            State::Skip { .. } => self.skip(reader),
            State::RestOfLine => match memchr::memchr(b'\n', &bytes[reader.at..]) {
                None => reader.at = bytes.len(),
                Some(newline) => {
                    reader.at += newline + 1;
                    self.state = if self.array { State::Array(Expect::Anything) } else { State::Between };
                }
            },
            State::Ended => {
                reader.at = skip_space(bytes, reader.at);
                if reader.at < bytes.len() {
                    let place = reader.place(reader.at);
                    self.reject(place, "expected nothing after the array's end".to_owned(), false);
                    self.state = State::Done;
                }
            }
            State::Done => reader.at = bytes.len(),
        }
        true
    }

    fn array_step(&mut self, reader: &mut Reader<'_>, expect: Expect, byte: u8) -> bool {
        match (expect, byte) {
            (Expect::First | Expect::Separator | Expect::Anything, b']') => {
                self.state = State::Ended;
                reader.at += 1;
            }
            (Expect::Separator | Expect::Anything, b',') => {
                self.state = State::Array(Expect::Event);
                reader.at += 1;
            }
            (Expect::Event, b']') => {
                let place = reader.place(reader.at);
                self.reject(place, "expected an event after `,`".to_owned(), false);
                self.state = State::Array(Expect::Separator);
            }
            (Expect::Separator, _) => {
                let place = reader.place(reader.at);
                self.reject(place, "expected `,` or `]` after an event".to_owned(), false);
                self.state = self.skipping();
            }
            (_, b'{') => return self.event(reader),
            _ => {
                self.not_an_event(reader);
                self.state = self.skipping();
            }
        }
        true
    }

    fn skipping(&self) -> State {
        State::Skip { skipper: Skipper::new(!self.array), undecided: None }
    }

    fn not_an_event(&mut self, reader: &mut Reader<'_>) {
        let place = reader.place(reader.at);
        let found = match reader.bytes[reader.at] {
            b'[' => "a list".to_owned(),
            b'"' => "a string".to_owned(),
            b'-' | b'0'..=b'9' => "a number".to_owned(),
            byte @ 0x21..0x7f => format!("`{}`", byte as char),
            byte => format!("byte 0x{byte:02x}"),
        };
        self.reject(place, format!("expected an event, which is a JSON object, not {found}"), false);
    }

    /// Reads the event that begins here, and what good ones follow; `false` if it is to be kept until more of it comes.
    fn event(&mut self, reader: &mut Reader<'_>) -> bool {
        let bounds = StructureLimits {
            array: self.array,
            event_bytes_max: self.limits.event_bytes_max,
            depth_max: self.limits.depth_max,
        };
        let known = reader.spans.len();
        reader.marks.read(reader.bytes, reader.at, bounds, &mut reader.spans);
        if reader.spans.len() == known {
            return self.event_alone(reader);
        }
        if let Some(&(_, end)) = reader.spans.last() {
            reader.at = end as usize;
        }
        self.state = if self.array { State::Array(Expect::Separator) } else { State::Between };
        true
    }

    /// Reads the event that begins here byte by byte.
    fn event_alone(&mut self, reader: &mut Reader<'_>) -> bool {
        let (begin, most) = (reader.at, self.limits.event_bytes_max);
        let mut verdict = grammar::object(reader.bytes, begin, self.limits.depth_max);
        if let Verdict::Fault(at, _) = verdict
            && at + grammar::LOOK_AHEAD_MAX > begin + most
            && begin + most < reader.bytes.len()
        {
            // Only what lies within the limit may decide, as that may be all there is in another chunking.
            verdict = grammar::object(&reader.bytes[..begin + most], begin, self.limits.depth_max);
        }
        match verdict {
            Verdict::End(end) => {
                self.state = if self.array { State::Array(Expect::Separator) } else { State::Between };
                reader.at = end;
                if end - begin <= most {
                    reader.spans.push((begin as u32, end as u32));
                    reader.marks.add(reader.bytes, begin, end);
                    return true;
                }
                let place = reader.place(begin);
                self.reject_oversize(place);
                if self.array {
                    self.state = self.skipping();
                }
            }
            Verdict::Fault(at, fault) => {
                if let Some((end, next)) = self.boundary(reader.bytes, begin, at) {
                    self.ends_early(reader, end, next);
                } else {
                    self.fault(reader, at, fault);
                }
            }
            Verdict::Incomplete if reader.bytes.len() - begin <= most => {
                match self.boundary(reader.bytes, begin, reader.bytes.len()) {
                    Some((end, next)) if self.is_last => self.ends_early(reader, end, next),
                    _ => return false,
                }
            }
            Verdict::Incomplete => {
                let seen = &reader.bytes[..begin + most];
                let mut skipper = Skipper::new(!self.array);
                skipper.read(seen, begin);
                let end = seen.iter().rposition(|&byte| !is_space(byte)).map_or(begin, |last| last + 1);
                let undecided =
                    PendingSizeLimit { begin: reader.place(begin), end: reader.place(end.max(begin)) };
                reader.at = begin + most;
                self.state = State::Skip { skipper, undecided: Some(undecided) };
            }
        }
        true
    }

    /// The end of the text before the fault at `at`, and the start of another event there, if one begins at or before
    /// the fault.
    fn boundary(&self, bytes: &[u8], begin: usize, at: usize) -> Option<(usize, usize)> {
        if self.array {
            return None;
        }
        let line = memchr::memmem::find(&bytes[begin..(at + 1).min(bytes.len())], b"\n{");
        let next = line.map_or(at, |newline| begin + newline + 1);
        let last = begin + bytes[begin..next].iter().rposition(|&byte| !is_space(byte))?;
        let is_event = bytes.get(next) == Some(&b'{') && bytes[last..next].contains(&b'\n');
        (is_event && (line.is_some() || bytes[last] == b'}')).then_some((last + 1, next))
    }

    fn ends_early(&mut self, reader: &mut Reader<'_>, end: usize, next: usize) {
        let place = reader.place(end);
        self.reject(place, ENDS_EARLY.to_owned(), false);
        reader.at = next;
        self.state = State::Between;
    }

    fn fault(&mut self, reader: &mut Reader<'_>, at: usize, fault: Fault) {
        let place = reader.place(at);
        self.reject(place, fault.to_string(), false);
        reader.at = if self.array { reader.at } else { at };
        self.state = if self.array { self.skipping() } else { State::RestOfLine };
    }

    fn reject_oversize(&mut self, begin: TextPosition) {
        let message = format!("the event is longer than {} bytes", self.limits.event_bytes_max);
        self.reject(begin, message, true);
    }

    /// Reads on in an event that is refused.
    fn skip(&mut self, reader: &mut Reader<'_>) {
        let State::Skip { mut skipper, undecided } = std::mem::replace(&mut self.state, State::Done) else {
            return;
        };
        let bytes = reader.bytes;
        if let Some(undecided) = undecided {
            let next = if skipper.in_string() { reader.at } else { skip_space(bytes, reader.at) };
            skipper.read(&bytes[..next], reader.at);
            reader.at = next;
            if next == bytes.len() {
                self.state = State::Skip { skipper, undecided: Some(undecided) };
                return;
            }
            if skipper.at_boundary(bytes[next]) {
                self.reject(undecided.end, ENDS_EARLY.to_owned(), false);
                self.state = State::Between;
                return;
            }
            self.reject_oversize(undecided.begin);
        }
        loop {
            (reader.at, self.state) = match skipper.read(bytes, reader.at) {
                None => (bytes.len(), State::Skip { skipper, undecided: None }),
                Some(Stop::Closed(at)) if self.array => {
                    reader.at = at + 1;
                    continue;
                }
                Some(Stop::Closed(at)) => (at + 1, State::Between),
                Some(Stop::Separator(at)) if self.array => (at, State::Array(Expect::Separator)),
                Some(Stop::Boundary(at)) => (at, State::Between),
                Some(Stop::Separator(at) | Stop::Broken(at)) => (at, State::RestOfLine),
            };
            return;
        }
    }
}

/// Checks a text that is not an array, or a part of one cut at [`crate::last_cut`], whose first line has this number.
///
/// Nothing is copied. A byte order mark is skipped on line 1 only.
pub fn check_block(bytes: Bytes, limits: &CheckLimits, first_line: u64) -> Checked {
    let mut checker = Checker::new(*limits);
    checker.base.line = first_line;
    checker.state = State::Between;
    let marked = first_line == 1 && bytes.starts_with(BYTE_ORDER_MARK);
    let text = if marked { bytes.slice(BYTE_ORDER_MARK.len()..) } else { bytes };
    if text.len() > EventBatch::BYTES_MAX {
        return checker.push(text);
    }
    checker.is_last = true;
    let Checked { batch, rejected, mut rejections, mut refused, begins } = checker.read(text, false);
    let last = checker.finish();
    rejections.extend(last.rejections);
    refused.extend(last.refused);
    Checked { batch, rejected: rejected + last.rejected, rejections, refused, begins }
}

/// One buffer, as far as it is read.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    lines: Lines,
    marks: Marks,
    spans: Vec<(u32, u32)>,
}

impl Reader<'_> {
    fn place(&mut self, at: usize) -> TextPosition {
        self.lines.place(self.bytes, at)
    }
}

/// Turns places in a buffer into lines and columns, reading forward only as far as asked.
struct Lines {
    /// Line and line start where the buffer begins.
    first: (u64, i64),
    /// Newlines are counted up to here.
    counted: usize,
    line: u64,
    /// Start of `line`; before the buffer if negative.
    line_start: i64,
}

impl Lines {
    fn new(base: TextPosition) -> Lines {
        let Origin { line, line_start } = Origin::of(base);
        let first = (line, line_start);
        Lines { first, counted: 0, line: first.0, line_start: first.1 }
    }

    /// Counts the first line's columns from `at` on.
    fn skip(&mut self, at: usize) {
        self.line_start = at as i64;
        self.first.1 = self.line_start;
    }

    fn place(&mut self, bytes: &[u8], at: usize) -> TextPosition {
        if at < self.counted {
            (self.counted, self.line, self.line_start) = (0, self.first.0, self.first.1);
        }
        let unread = &bytes[self.counted..at];
        if let Some(last) = memchr::memrchr(b'\n', unread) {
            self.line += memchr::memchr_iter(b'\n', unread).count() as u64;
            self.line_start = (self.counted + last + 1) as i64;
        }
        self.counted = at;
        TextPosition { line: self.line, column: (at as i64 - self.line_start + 1) as u64 }
    }
}

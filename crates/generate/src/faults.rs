//! Injects faults into events, for tests of receivers: changes a share of the events of any workload, each in one random
//! place. All but corrupt events stay JSON.
//!
//! Works on the text of a newly generated event, which has no white space between its parts.

use crate::{Events, rng::Rng};

/// A change of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// An object within the event is left out; where there is none, a field.
    Missing,
    /// A value is null instead.
    Null,
    /// A number is a text of the same digits; nothing where the event has none.
    NumberAsText,
    /// A field that nobody knows of, with lists and objects in it, stands before another.
    UnknownField,
    /// The first character of a text, or of a field's name, is written as `\u0000`; it means the same.
    UnicodeEscape,
    /// A field comes twice, and the second time is right.
    DuplicateKey,
    /// The line is no JSON: it was cut off, has a byte that is no UTF-8, a control character in a name, or lacks a colon.
    Corrupt,
}

impl Fault {
    /// All of them, in the order in which they are done to an event.
    pub const ALL: [Fault; 7] = [
        Fault::Missing,
        Fault::Null,
        Fault::NumberAsText,
        Fault::UnknownField,
        Fault::UnicodeEscape,
        Fault::DuplicateKey,
        Fault::Corrupt,
    ];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Fault::Missing => "missing",
            Fault::Null => "null",
            Fault::NumberAsText => "number-as-text",
            Fault::UnknownField => "unknown-field",
            Fault::UnicodeEscape => "unicode-escape",
            Fault::DuplicateKey => "duplicate-key",
            Fault::Corrupt => "corrupt",
        }
    }

    /// The share of events that it is done to where nothing else is said.
    pub fn share(self) -> f64 {
        match self {
            Fault::Corrupt => 0.01,
            _ => 0.1,
        }
    }
}

/// Events of which some are faulty.
pub struct FaultInjector {
    events: Box<dyn Events>,
    rng: Rng,
    /// The share of each fault, and the number of events that have it so far, in the order of [`Fault::ALL`].
    faults: [(f64, u64); Fault::ALL.len()],
    /// The members of the present event.
    members: Vec<Member>,
    open: Vec<Option<usize>>,
    tail: Vec<u8>,
}

/// A field of an object in the event, by where it lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Member {
    /// The place of the quotation mark before its name.
    start: usize,
    value: usize,
    end: usize,
}

impl FaultInjector {
    /// These events with these faults, each at its share, which is between 0 and 1.
    pub fn new(events: Box<dyn Events>, seed: u64, faults: &[(Fault, f64)]) -> FaultInjector {
        let share = |fault| faults.iter().find(|(of, _)| *of == fault).map_or(0.0, |(_, share)| *share);
        FaultInjector {
            events,
            rng: Rng::new(seed ^ 0x5eed_f4a1),
            faults: Fault::ALL.map(|fault| (share(fault), 0)),
            members: Vec::new(),
            open: Vec::new(),
            tail: Vec::new(),
        }
    }

    /// The number of events with each fault so far, of the faults that were asked for.
    pub fn counts(&self) -> impl Iterator<Item = (Fault, u64)> {
        let counted = Fault::ALL.into_iter().zip(self.faults);
        counted.filter(|(_, (share, _))| *share > 0.0).map(|(fault, (_, count))| (fault, count))
    }

    /// Replaces bytes by others.
    fn replace(&mut self, out: &mut Vec<u8>, from: usize, to: usize, by: &[u8]) {
        self.tail.clear();
        self.tail.extend_from_slice(&out[to..]);
        out.truncate(from);
        out.extend_from_slice(by);
        out.extend_from_slice(&self.tail);
    }

    /// A field of which something holds, if there is one.
    fn choose(&mut self, holds: impl Fn(&Member) -> bool) -> Option<Member> {
        let count = self.members.iter().filter(|member| holds(member)).count();
        let chosen = self.rng.below(count);
        self.members.iter().filter(|member| holds(member)).nth(chosen).copied()
    }

    /// Applies a fault to the event that begins there and ends the text; returns true if it was possible.
    fn apply(&mut self, fault: Fault, out: &mut Vec<u8>, start: usize) -> bool {
        find_members(&out[start..out.len() - 1], start, &mut self.members, &mut self.open);
        let first = |member: &Member| out[member.value];
        let chosen = match fault {
            Fault::Missing => self.choose(|member| first(member) == b'{').or_else(|| self.choose(|_| true)),
            Fault::Null => self.choose(|member| first(member) != b'n'),
            Fault::NumberAsText => {
                self.choose(|member| first(member) == b'-' || first(member).is_ascii_digit())
            }
            Fault::UnicodeEscape => {
                self.choose(|member| first(member) == b'"' && is_plain(out[member.value + 1]))
            }
            Fault::UnknownField | Fault::DuplicateKey | Fault::Corrupt => self.choose(|_| true),
        };
        let Some(Member { start: name, value, end }) = chosen else {
            return false;
        };
        match fault {
            Fault::Missing if out[end] == b',' => self.replace(out, name, end + 1, b""),
            Fault::Missing if out[name - 1] == b',' => self.replace(out, name - 1, end, b""),
            Fault::Missing => self.replace(out, name, end, b""),
            Fault::Null => self.replace(out, value, end, b"null"),
            Fault::NumberAsText => {
                self.replace(out, end, end, b"\"");
                self.replace(out, value, value, b"\"");
            }
            Fault::UnknownField => {
                self.replace(out, name, name, br#""x-new":{"of":["a",1,null,{"b":"]}"}],"is":true},"#);
            }
            Fault::UnicodeEscape => {
                let at = if self.rng.below(2) == 0 { name + 1 } else { value + 1 };
                let digit = |nibble: u8| b"0123456789abcdef"[nibble as usize];
                let escaped = [b'\\', b'u', b'0', b'0', digit(out[at] >> 4), digit(out[at] & 15)];
                self.replace(out, at, at + 1, &escaped);
            }
            Fault::DuplicateKey => {
                let other: &[u8] = match out[value] {
                    b'"' => br#""twice","#,
                    b'{' => b"{},",
                    b'[' => b"[],",
                    b't' => b"false,",
                    b'f' => b"true,",
                    _ => b"-1,",
                };
                let twice = [&out[name..value], other].concat();
                self.replace(out, name, name, &twice);
            }
            Fault::Corrupt => self.corrupt(out, start, name, value),
        }
        true
    }

    fn corrupt(&mut self, out: &mut Vec<u8>, start: usize, name: usize, value: usize) {
        match self.rng.below(4) {
            0 => {
                // At least the last brace goes, and at least the first stays.
                let left = 1 + self.rng.below(out.len() - start - 3);
                out.truncate(start + left);
                out.push(b'\n');
            }
            1 => self.replace(out, name + 1, name + 1, b"\xff"),
            2 => self.replace(out, name + 1, name + 1, b"\x01"),
            _ => self.replace(out, value - 1, value, b""),
        }
    }
}

impl Events for FaultInjector {
    fn push(&mut self, out: &mut Vec<u8>) {
        let start = out.len();
        self.events.push(out);
        for (place, fault) in Fault::ALL.into_iter().enumerate() {
            let (share, _) = self.faults[place];
            if share > 0.0 && self.rng.share() < share && self.apply(fault, out, start) {
                self.faults[place].1 += 1;
            }
        }
    }
}

/// True if a character stands for itself, and for nothing else, in a text.
fn is_plain(byte: u8) -> bool {
    (b' '..0x7f).contains(&byte) && byte != b'"' && byte != b'\\'
}

/// Finds all fields of all objects of an event, which begins at `base` of a larger text. Field names have no escapes unless
/// this module wrote them.
fn find_members(event: &[u8], base: usize, members: &mut Vec<Member>, open: &mut Vec<Option<usize>>) {
    members.clear();
    open.clear();
    // The field whose value comes next.
    let mut pending: Option<usize> = None;
    let mut at = 0;
    while let Some(&byte) = event.get(at) {
        let start = at;
        at += 1;
        match byte {
            b'"' => {
                while event.get(at).is_some_and(|byte| *byte != b'"') {
                    at += if event[at] == b'\\' { 2 } else { 1 };
                }
                at += 1;
                if event.get(at) == Some(&b':') {
                    at += 1;
                    pending = Some(members.len());
                    members.push(Member { start: base + start, value: base + at, end: base + at });
                    continue;
                }
            }
            b'{' | b'[' => {
                open.push(pending.take());
                continue;
            }
            b'}' | b']' => pending = open.pop().flatten(),
            b',' => continue,
            _ => {
                while event.get(at).is_some_and(|byte| !b",}]".contains(byte)) {
                    at += 1;
                }
            }
        }
        if let Some(member) = pending.take() {
            members[member].end = base + at;
        }
    }
}

use proptest::prelude::*;

use super::{Marks, StructureLimits, block};
use crate::grammar::{self, Verdict};

const BOUNDS: StructureLimits = StructureLimits { array: false, event_bytes_max: 400, depth_max: 12 };

/// The events from the beginning of `text` on, byte by byte.
fn plainly(text: &[u8], bounds: StructureLimits) -> Vec<(u32, u32)> {
    let mut spans = Vec::new();
    let mut at = 0;
    loop {
        let Verdict::End(end) = grammar::object(text, at, bounds.depth_max) else { return spans };
        if end - at > bounds.event_bytes_max {
            return spans;
        }
        spans.push((at as u32, end as u32));
        at = crate::scan::skip_space(text, end);
        if bounds.array {
            if text.get(at) != Some(&b',') {
                return spans;
            }
            at = crate::scan::skip_space(text, at + 1);
        }
        if text.get(at) != Some(&b'{') {
            return spans;
        }
    }
}

/// The marks of these events, byte by byte.
fn marks_plainly(text: &[u8], spans: &[(u32, u32)]) -> Vec<[u64; 2]> {
    let mut words = vec![[0; 2]; text.len().div_ceil(64) + 8];
    for &(start, end) in spans {
        let (mut in_string, mut escaped, mut depth) = (false, false, 0);
        for place in start as usize..end as usize {
            let bit = 1 << (place % 64);
            match text[place] {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = !in_string,
                _ if in_string => {}
                b':' if depth == 1 => words[place / 64][0] |= bit,
                b',' => words[place / 64][1] |= bit,
                b'{' | b'[' => {
                    depth += 1;
                    words[place / 64][1] |= bit;
                }
                b'}' | b']' => {
                    depth -= 1;
                    words[place / 64][1] |= bit;
                }
                _ => {}
            }
        }
    }
    words
}

/// True if an event has a key of its own with a backslash, or without a colon right behind it.
fn has_odd_key(event: &[u8]) -> bool {
    let (mut in_string, mut escaped, mut depth, mut backslash) = (false, false, 0, false);
    for (place, &byte) in event.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => (escaped, backslash) = (true, true),
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b':' if depth == 1 && (backslash || event[place - 1] != b'"') => return true,
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            _ => {}
        }
        // Nothing of a string value is kept.
        backslash &= in_string || byte == b'"' || byte.is_ascii_whitespace();
    }
    false
}

/// The same of marks.
fn words(marks: &Marks) -> Vec<[u64; 2]> {
    marks.colons.iter().zip(&marks.all).map(|(&colons, &all)| [colons, all]).collect()
}

fn check(text: &[u8], bounds: StructureLimits) {
    let expected = plainly(text, bounds);
    for isa in block::isas() {
        let mut marks = Marks::new(text.len());
        let mut spans = Vec::new();
        marks.read_with(isa, text, 0, bounds, &mut spans);
        let shown = text.escape_ascii();
        assert_eq!(spans, expected, "{isa:?} {shown}");
        assert_eq!(words(&marks), marks_plainly(text, &expected), "{isa:?} {shown}");
        let mut again = Marks::new(text.len());
        spans.iter().for_each(|&(start, end)| again.add(text, start as usize, end as usize));
        assert_eq!(words(&again), words(&marks), "{isa:?} {shown}");
        for &(start, end) in &spans {
            let (start, end) = (start as usize, end as usize);
            let backslash = text[start..end].contains(&b'\\');
            assert!(marks.may_escape(start, end) || !backslash, "{shown}");
            assert!(again.may_escape(start, end) || !backslash, "{shown}");
            let odd = has_odd_key(&text[start..end]);
            assert!(marks.may_be_odd(start, end) || !odd, "{shown}");
            assert!(again.may_be_odd(start, end) || !odd, "{shown}");
        }
    }
}

/// Text that is nearly JSON: tokens in an order that is mostly right.
fn nearly() -> impl Strategy<Value = Vec<u8>> {
    let scalar = prop_oneof![
        8 => "-?(0|[1-9][0-9]{0,9})(\\.[0-9]{1,9})?([eE][+-]?[0-9]{1,3})?",
        1 => "[-+0-9.eEx]{1,8}",
        4 => "true|false|null",
        1 => "tru|nul|falsey|truefalse|nullx|t",
        8 => "\"[ -!#-\\[\\]-~]{0,70}\"",
        3 => "\"([a-z]|\\\\[nrtbf/\"\\\\]|\\\\u00e4|\\\\ud83d\\\\ude00|ä|😀|[{}:,]){0,20}\"",
        1 => "\"([a-z]|\\\\|\\\\x|\\\\u12|\\\\ud800|\\\\ude00|\n|\t|\\\\\\\\){0,9}\"",
        1 => Just("\"".to_owned()),
    ];
    let space = || prop_oneof![12 => Just(String::new()), 4 => Just(" ".to_owned()), 1 => "[ \t\r\n]{0,80}"];
    let token = prop_oneof![30 => Just(String::new()), 1 => "[\\[\\]{},:\"]"];
    // Miri is a hundred times slower.
    let (depth, size, events) = if cfg!(miri) { (1, 6, 1..2) } else { (4, 40, 1..6) };
    let value = scalar.prop_recursive(depth, size, 6, move |inner| {
        let field = (space(), "[a-z]{0,9}|[a-z\\\\]{0,3}", space(), space(), inner.clone(), space())
            .prop_map(|(a, key, b, c, value, d)| format!("{a}\"{key}\"{b}:{c}{value}{d}"));
        prop_oneof![
            (prop::collection::vec(inner, 0..5), space(), space())
                .prop_map(|(parts, a, b)| format!("[{a}{}{b}]", parts.join(&format!("{b},{a}")))),
            (prop::collection::vec(field, 0..5), space())
                .prop_map(|(fields, a)| format!("{{{a}{}}}", fields.join(","))),
        ]
    });
    let comma = || prop_oneof![1 => Just(""), 1 => Just(",")];
    let event = (value, "[a-z]{1,70}|\\\\\\\\[a-z]", space(), token)
        .prop_map(|(value, key, space, token)| format!("{{\"{key}\"{space}:{value}{token}}}"));
    (
        prop::collection::vec((event, space(), comma()), events),
        prop::option::weighted(0.3, (any::<prop::sample::Index>(), any::<u8>())),
    )
        .prop_map(|(events, spoil)| {
            let mut text: Vec<u8> = events
                .into_iter()
                .flat_map(|(event, space, comma)| format!("{event}{space}{comma}").into_bytes())
                .collect();
            if let Some((at, byte)) = spoil {
                let at = at.index(text.len() - 1) + 1;
                text[at] = if byte < 128 { b"\"\\{}[],:0-.e \n\xff\0"[usize::from(byte % 16)] } else { byte };
            }
            text
        })
}

proptest! {
    #[test]
    fn what_is_accepted_and_marked_is_what_the_grammar_says(text in nearly(), array in any::<bool>()) {
        check(&text, StructureLimits { array, ..BOUNDS });
    }

    #[test]
    fn tokens_in_any_order_are_judged_alike(
        tokens in "\\{\"a\":([{}\\[\\],:\"]|\"a\"|\"\\\\\\\\\"| |\n|[-0-9.e]|true|null){0,90}",
    ) {
        check(tokens.as_bytes(), BOUNDS);
    }

    #[test]
    fn numbers_are_judged_alike(
        numbers in prop::collection::vec("-?[0-9]{0,12}(\\.[0-9]{0,70})?([eE][+-]?[0-9]{0,4})?", 1..20),
    ) {
        check(format!("{{\"a\":[{}]}}", numbers.join(",")).as_bytes(), BOUNDS);
        let good: Vec<&str> = numbers
            .iter()
            .map(String::as_str)
            .filter(|number| matches!(grammar::value(format!("{number} ").as_bytes(), 0, 1), Verdict::End(_)))
            .collect();
        check(format!("{{\"a\":[{}]}}", good.join(", ")).as_bytes(), BOUNDS);
    }

    #[test]
    fn reading_goes_on_anywhere([first, text] in prop::array::uniform2(nearly())) {
        // As after an event that was read another way: marks before are kept, those after are as if alone.
        let start = first.len();
        let whole = [first.clone(), text.clone()].concat();
        let mut marks = Marks::new(whole.len());
        let mut spans = Vec::new();
        marks.read(&first, 0, BOUNDS, &mut spans);
        marks.read(&whole, start, BOUNDS, &mut spans);
        prop_assert_eq!(words(&marks), marks_plainly(&whole, &spans));
        let moved: Vec<_> = plainly(&text, BOUNDS)
            .iter()
            .map(|&(from, to)| (from + start as u32, to + start as u32))
            .collect();
        prop_assert!(spans.ends_with(&moved));
    }
}

#[test]
fn every_byte_may_follow_every_other_where_the_grammar_allows_it() {
    let seconds =
        [b'"', b'\\', b'0', b'1', b'-', b'.', b'e', b',', b':', b'}', b']', b'{', b' ', b'n', 0xc3, 7];
    // Miri is a hundred times slower.
    let (places, firsts) = if cfg!(miri) { (56, 29) } else { (7, 1) };
    for place in (0..70).step_by(places) {
        let pad = "x".repeat(place);
        for first in (0..=255u8).step_by(firsts) {
            for second in seconds {
                let text = [b"{\"", pad.as_bytes(), b"\":1", &[first, second], b"2,\"b\":[3]}"].concat();
                check(&text, BOUNDS);
            }
        }
    }
}

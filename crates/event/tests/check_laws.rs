//! Property tests of checking: it accepts what serde_json accepts, and neither chunks nor cuts change anything.

#![allow(clippy::unwrap_used, reason = "a test")]

mod support;

use bytes::Bytes;
use proptest::prelude::*;
use support::{json, object};
use swiftwater_event::{
    CheckLimits, Checked, Checker, RefusedText, Rejection, check_block, first_cut, last_cut,
};

type Outcome = (Vec<String>, u64, Vec<Rejection>, Vec<RefusedText>);

fn add(outcome: &mut Outcome, checked: Checked) {
    for row in 0..checked.batch.len() {
        outcome.0.push(String::from_utf8(checked.batch.event(row).to_vec()).unwrap());
    }
    outcome.1 += checked.rejected;
    outcome.2.extend(checked.rejections);
    outcome.3.extend(checked.refused);
}

fn in_chunks(text: &[u8], limits: CheckLimits, sizes: &[usize]) -> Outcome {
    let mut checker = Checker::new(limits);
    let mut outcome = Outcome::default();
    let mut rest = Bytes::copy_from_slice(text);
    for place in 0.. {
        if rest.is_empty() {
            break;
        }
        let size = sizes.get(place % sizes.len().max(1)).copied().unwrap_or(usize::MAX).clamp(1, rest.len());
        add(&mut outcome, checker.push(rest.split_to(size)));
    }
    add(&mut outcome, checker.finish());
    outcome
}

fn in_blocks(text: &[u8], limits: CheckLimits, blocks: &[&[u8]]) -> Outcome {
    let mut outcome = Outcome::default();
    let mut line = 1;
    assert_eq!(blocks.concat(), text);
    for block in blocks {
        add(&mut outcome, check_block(Bytes::copy_from_slice(block), &limits, line));
        line += block.iter().filter(|&&byte| byte == b'\n').count() as u64;
    }
    outcome
}

fn limits(event_bytes_max: usize) -> CheckLimits {
    CheckLimits {
        event_bytes_max,
        rejections_described_max: usize::MAX,
        refused_bytes_kept: 40,
        ..CheckLimits::default()
    }
}

/// Good objects with any space between them, and then some bytes spoilt.
fn text() -> impl Strategy<Value = Vec<u8>> {
    let space =
        prop_oneof![5 => Just("\n"), 1 => Just(""), 1 => Just("\r\n\n"), 1 => Just(" "), 1 => Just("\n  ")];
    let event = prop_oneof![8 => object(json(3)), 1 => json(2), 1 => Just("garbage".to_owned())];
    let events = prop::collection::vec((event, space), 0..8);
    let spoilt = prop::collection::vec((any::<prop::sample::Index>(), spoiling_byte()), 0..4);
    (events, spoilt).prop_map(|(events, spoilt)| {
        let mut text =
            events.iter().map(|(event, space)| format!("{event}{space}")).collect::<String>().into_bytes();
        for (at, byte) in spoilt {
            if !text.is_empty() {
                let at = at.index(text.len());
                match byte {
                    Some(byte) => text[at] = byte,
                    None => drop(text.remove(at)),
                }
            }
        }
        text
    })
}

fn spoiling_byte() -> impl Strategy<Value = Option<u8>> {
    prop_oneof![
        2 => Just(None),
        4 => prop::sample::select(b"{}[]\",:\\\n 0e-u\0".to_vec()).prop_map(Some),
        1 => any::<u8>().prop_map(Some),
    ]
}

/// Bytes that a failing test shows as text.
#[derive(Clone)]
struct Shown(Vec<u8>);

impl std::fmt::Debug for Shown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "b\"{}\"", self.0.escape_ascii())
    }
}

impl std::ops::Deref for Shown {
    type Target = Vec<u8>;

    fn deref(&self) -> &Vec<u8> {
        &self.0
    }
}

/// The result of serde_json, which refuses numbers beyond a double; these are accepted here.
fn is_object(line: &[u8]) -> bool {
    match serde_json::from_slice::<serde_json::Value>(line) {
        Ok(value) => value.is_object(),
        Err(error) if error.to_string().starts_with("number out of range") => {
            // serde_json does not check that an ignored value is UTF-8.
            line.trim_ascii().starts_with(b"{")
                && std::str::from_utf8(line).is_ok()
                && serde_json::from_slice::<serde::de::IgnoredAny>(line).is_ok()
        }
        Err(_) => false,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn chunks_change_nothing(text in text().prop_map(Shown), most in prop_oneof![Just(1 << 20), 1usize..60], sizes in prop::collection::vec(1usize..40, 1..5)) {
        let whole = in_chunks(&text, limits(most), &[]);
        prop_assert_eq!(&in_chunks(&text, limits(most), &sizes), &whole);
        prop_assert_eq!(&in_chunks(&text, limits(most), &[1]), &whole);
    }

    #[test]
    fn chunks_change_nothing_in_arrays(text in text().prop_map(Shown), most in prop_oneof![Just(1 << 20), 1usize..60], sizes in prop::collection::vec(1usize..40, 1..5)) {
        let mut array = b" [".to_vec();
        array.extend(text.iter().map(|&byte| if byte == b'\n' { b',' } else { byte }));
        array.push(b']');
        let whole = in_chunks(&array, limits(most), &[]);
        prop_assert_eq!(&in_chunks(&array, limits(most), &sizes), &whole);
        prop_assert_eq!(&in_chunks(&array, limits(most), &[1]), &whole);
    }

    #[test]
    fn texts_of_refused_events_are_kept(text in text().prop_map(Shown), most in prop_oneof![Just(1 << 20), 1usize..60], sizes in prop::collection::vec(1usize..40, 1..5)) {
        let (events, count, rejections, refused) =
            in_chunks(&text, CheckLimits { refused_bytes_kept: 1 << 20, ..limits(most) }, &sizes);
        prop_assert_eq!(refused.len() as u64, count);
        prop_assert_eq!(refused.iter().map(|refused| refused.rejection.clone()).collect::<Vec<_>>(), rejections);
        // All of the input is in one or the other, but for white space and what stands between the elements of a list.
        let is_list = text.trim_ascii_start().starts_with(b"[");
        let len = |text: &[u8]| text.iter().filter(|byte| !byte.is_ascii_whitespace()).count();
        let kept: usize = events.iter().map(|event| len(event.as_bytes())).sum::<usize>()
            + refused.iter().map(|refused| len(&refused.text)).sum::<usize>();
        prop_assert!(is_list || text.starts_with(b"\xef") || kept == len(&text), "{} of {}", kept, len(&text));
        prop_assert!(kept <= len(&text));
        prop_assert!(refused.iter().all(|refused| !refused.is_cut));
    }

    #[test]
    fn cuts_change_nothing(text in text().prop_map(Shown), most in prop_oneof![Just(1 << 20), 1usize..60]) {
        prop_assume!(!text.trim_ascii_start().starts_with(b"["));
        let whole = in_chunks(&text, limits(most), &[]);
        prop_assert_eq!(&in_blocks(&text, limits(most), &[&text]), &whole);
        for cut in [last_cut(&text), first_cut(&text)].into_iter().flatten() {
            let (head, tail) = text.split_at(cut);
            prop_assert_eq!(&in_blocks(&text, limits(most), &[head, tail]), &whole);
        }
    }

    #[test]
    fn single_lines_are_accepted_as_serde_json_does(text in text().prop_map(Shown)) {
        for line in text.split(|&byte| byte == b'\n') {
            let trimmed = line.trim_ascii();
            if trimmed.is_empty() || trimmed[0] == b'[' || line.contains(&0x0c) {
                continue;
            }
            let (events, rejected, ..) = in_chunks(line, limits(1 << 20), &[]);
            let alone = events.len() == 1 && rejected == 0;
            prop_assert_eq!(alone, is_object(line), "{:?}", String::from_utf8_lossy(line));
        }
    }

    #[test]
    fn lines_of_one_shape_are_each_checked(event in object(json(3)), lines in 2usize..6, at in any::<prop::sample::Index>(), byte in spoiling_byte()) {
        let line = event.replace('\n', " ").into_bytes();
        let mut spoilt = line.clone();
        let at = at.index(line.len());
        match byte {
            Some(byte) => spoilt[at] = byte,
            None => drop(spoilt.remove(at)),
        }
        // A text that is no longer one line of that length belongs to another law.
        if spoilt.contains(&b'\n') || spoilt.trim_ascii().is_empty() || spoilt.trim_ascii() != spoilt {
            return Ok(());
        }
        let mut text = vec![line.clone(); lines];
        text.insert(lines / 2, spoilt.clone());
        let (events, rejected, ..) = in_chunks(&text.join(&b'\n'), limits(1 << 20), &[]);
        if is_object(&spoilt) {
            prop_assert_eq!((events.len(), rejected), (lines + 1, 0));
        } else {
            prop_assert!(rejected > 0);
            prop_assert!(events.iter().filter(|event| event.as_bytes() == line).count() >= lines - 1);
        }
    }
}

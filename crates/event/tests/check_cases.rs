//! Tests of checking: which events are accepted and refused, and with which messages.

use bytes::Bytes;
use swiftwater_event::{CheckLimits, Checked, Checker};

/// Checks `text` in one chunk; `expected` is an event a line, then a rejection a line as `line:column message`.
fn check(text: &str, expected: &[&str]) {
    check_within(text, CheckLimits { event_bytes_max: 40, ..CheckLimits::default() }, expected);
}

fn check_within(text: &str, limits: CheckLimits, expected: &[&str]) {
    let mut checker = Checker::new(limits);
    let mut events = Vec::new();
    let mut told = Vec::new();
    for Checked { batch, rejections, rejected, .. } in
        [checker.push(Bytes::copy_from_slice(text.as_bytes())), checker.finish()]
    {
        events.extend((0..batch.len()).map(|row| String::from_utf8_lossy(batch.event(row)).into_owned()));
        assert_eq!(rejected, rejections.len() as u64);
        for rejection in rejections {
            let mark = if rejection.oversize { "!" } else { "" };
            told.push(format!("{}:{} {}{mark}", rejection.line, rejection.column, rejection.message));
        }
    }
    events.append(&mut told);
    assert_eq!(events, expected, "{text:?}");
}

#[test]
fn events_come_in_any_layout() {
    check("", &[]);
    check(" \r\n\n", &[]);
    check("{}", &["{}"]);
    check("{\"a\":1}\n{\"a\":2}\r\n\n{\"a\":3}", &["{\"a\":1}", "{\"a\":2}", "{\"a\":3}"]);
    check("{}{} {}\t{}", &["{}", "{}", "{}", "{}"]);
    check("{\n  \"a\": {\n  }\n}\n{\n}\n", &["{\n  \"a\": {\n  }\n}", "{\n}"]);
    check("\u{feff}{}\n", &["{}"]);
    check("[]", &[]);
    check(" [ {} , {\"a\":[1]}\n]\n", &["{}", "{\"a\":[1]}"]);
    check("\u{feff}[{}]", &["{}"]);
}

#[test]
fn a_fault_is_named_with_its_line_and_column() {
    check("{\"a\":1}\n{\"a\":tru}\n{}", &["{\"a\":1}", "{}", "2:6 expected `true`, `false` or `null`"]);
    check("{\"ä\":x}", &["1:7 expected a value"]);
    check("\u{feff}{\"a\" 1}", &["1:6 expected `:` after a key"]);
    check("{\"a\":\"x\ty\"}", &["1:8 control character 0x09 in a string, write it as \\u0009"]);
    check("{\"a\":\"\\ud800\"}", &["1:7 half of a surrogate pair in a string"]);
}

#[test]
fn a_line_that_was_cut_short_takes_no_other_along() {
    for cut in
        ["{\"a\":", "{\"a\":1,", "{\"a\":[1,", "{\"a\":[", "{\"a\":{\"b\":", "{", "{\"a\":1", "{\"a\":tr"]
    {
        let early = match cut {
            "{\"a\":tr" => "1:6 expected `true`, `false` or `null`".to_owned(),
            _ => format!("1:{} the text ends before the event does", cut.len() + 1),
        };
        for rest in ["{\"b\":2}", "{\"b\":2}\n", "{\"b\":2}\n{}\n"] {
            let events: &[&str] = if rest.contains("{}") { &["{\"b\":2}", "{}"] } else { &["{\"b\":2}"] };
            check(&format!("{cut}\n{rest}"), &[events, &[early.as_str()]].concat());
        }
    }
    // An event over several lines is one, as long as it is good or its inner lines are indented.
    check("{\"a\":\n{\"b\":2}\n}\n{}", &["{\"a\":\n{\"b\":2}\n}", "{}"]);
    check("{\"a\":\n {\"b\":2}\n{}", &["{}", "2:9 the text ends before the event does"]);
}

#[test]
fn what_is_no_object_is_no_event() {
    let not = "expected an event, which is a JSON object, not";
    check("1\n{}", &["{}", &format!("1:1 {not} a number")]);
    check("{} \"x\" {}\n{}", &["{}", "{}", &format!("1:4 {not} a string")]);
    check("{}\n[{}]\n", &["{}", &format!("2:1 {not} a list")]);
    check("null", &[&format!("1:1 {not} `n`")]);
    check("\u{1}", &[&format!("1:1 {not} byte 0x01")]);
    check("[1,{}]", &["{}", &format!("1:2 {not} a number")]);
}

#[test]
fn reading_goes_on_after_a_fault() {
    // On the next line.
    check("{\"a\":x} {}\n{}", &["{}", "1:6 expected a value"]);
    // On the fault's own line, where an event begins there and another was open.
    check("{\"a\":1,\n{\"b\":2}\n{}", &["{\"b\":2}", "{}", "1:8 the text ends before the event does"]);
    // At an event after one that lacks its end.
    check("{\"a\":{\"b\":1}\n  {\"c\":2}\n", &["{\"c\":2}", "1:13 the text ends before the event does"]);
    check("{\"a\":\"b\n{}", &["{}", "1:8 control character 0x0a in a string, write it as \\u000a"]);
}

#[test]
fn a_truncated_event_is_told_from_a_faulty_one() {
    let early = "the text ends before the event does";
    check("{\"a\":1}\n{\"a\":", &["{\"a\":1}", &format!("2:6 {early}")]);
    check("{\"a\":\"x", &[&format!("1:8 {early}")]);
    check("{\n\n", &[&format!("1:2 {early}")]);
    check("[{}", &["{}", "1:4 the text ends before the array does"]);
    check("[{}, {", &["{}", &format!("1:7 {early}")]);
}

#[test]
fn an_array_goes_on_after_a_faulty_element() {
    check("[{\"a\":x,\"b\":{}},{}]", &["{}", "1:7 expected a value"]);
    check("[{} {},{}]", &["{}", "{}", "1:5 expected `,` or `]` after an event"]);
    check("[{},]", &["{}", "1:5 expected an event after `,`"]);
    check("[{\"a\":\"b,\n{}\n]", &["{}", "1:10 control character 0x0a in a string, write it as \\u000a"]);
    check("[{\"a\":[1},{},\n{}]", &["{}", "1:9 expected `,` or `]`"]);
    check("[{\"a\":[1},{}]", &["1:9 expected `,` or `]`"]);
    check("[{}]\n{} {}\n", &["{}", "2:1 expected nothing after the array's end"]);
}

#[test]
fn an_event_over_the_limit_is_skipped() {
    let long = "the event is longer than 40 bytes!";
    let event = format!("{{\"a\":\"{}\"}}", "x".repeat(33));
    check(&format!("{event}\n{{}}"), &["{}", &format!("1:1 {long}")]);
    check(&format!("[{event},\n{{}},{event}]"), &["{}", &format!("1:2 {long}"), &format!("2:4 {long}")]);
    let fits = format!("{{\"a\":\"{}\"}}", "x".repeat(32));
    check(&fits, &[&fits]);
}

#[test]
fn an_endless_event_is_not_kept() {
    let mut checker = Checker::new(CheckLimits { event_bytes_max: 1000, ..CheckLimits::default() });
    let mut rejected = checker.push(Bytes::from_static(b"{\"a\":\"")).rejected;
    for _ in 0..1000 {
        rejected += checker.push(Bytes::from(vec![b'x'; 1000])).rejected;
    }
    assert_eq!(rejected, 1);
    let last = checker.push(Bytes::from_static(b"\"}\n{}"));
    assert_eq!((last.rejected, last.batch.len()), (0, 1));
}

#[test]
fn nesting_has_a_limit() {
    let nested = |levels: usize| format!("{{\"a\":{}{}}}", "[".repeat(levels - 1), "]".repeat(levels - 1));
    let within = |levels, expected: &[&str]| {
        let limits = CheckLimits { depth_max: 128, ..CheckLimits::default() };
        check_within(&nested(levels), limits, expected);
    };
    within(128, &[&nested(128)]);
    within(129, &["1:133 nested deeper than 128 levels"]);
    within(100_000, &["1:133 nested deeper than 128 levels"]);
}

#[test]
fn only_some_rejections_are_described() {
    let mut checker = Checker::new(CheckLimits { rejections_described_max: 3, ..CheckLimits::default() });
    let first = checker.push(Bytes::from_static(b"x\nx\n{}\n"));
    let second = checker.push(Bytes::from_static(b"x\nx\n"));
    assert_eq!((first.rejected, first.rejections.len(), first.batch.len()), (2, 2, 1));
    assert_eq!((second.rejected, second.rejections.len(), second.rejections[0].line), (2, 1, 4));
}

#[test]
fn events_are_not_copied_when_a_chunk_holds_them_whole() {
    let chunk = Bytes::from_static(b"{\"a\":1}\n{\"a\":2}\n{\"a\"");
    let checked = Checker::new(CheckLimits::default()).push(chunk.clone());
    assert_eq!(checked.batch.bytes().as_ptr(), chunk.as_ptr());
    assert_eq!(checked.batch.len(), 2);
}

#[test]
fn places_of_events_are_those_in_the_whole_input() {
    let text = "{}\n  {\"a\":\n1} {\"b\":2}\n\u{e4}\n{\"c\":3}";
    for cut in 0..=text.len() {
        let mut checker = Checker::new(CheckLimits::default());
        let (head, tail) = text.as_bytes().split_at(cut);
        let mut places = Vec::new();
        for checked in [
            checker.push(Bytes::copy_from_slice(head)),
            checker.push(Bytes::copy_from_slice(tail)),
            checker.finish(),
        ] {
            let batch = &checked.batch;
            places.extend(
                (0..batch.len()).map(|row| checked.begins.place(batch.bytes(), batch.span(row).start)),
            );
        }
        assert_eq!(places, [(1, 1), (2, 3), (3, 4), (5, 1)], "cut at {cut}");
    }
}

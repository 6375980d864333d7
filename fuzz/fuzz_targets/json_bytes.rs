//! Any bytes, in chunks of any size, through the checker and the decoder: nothing panics, chunks change nothing, single
//! lines are accepted as serde_json accepts them, and what is decoded is what serde_json reads.

#![no_main]

use bumpalo::Bump;
use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use serde_json::Value as Json;
use swiftwater_event::{
    CheckLimits, Checked, Checker, DecodePlan, Decoded, Decoder, EventBatch, Path, Type, Value, Want, check_block,
    parse_value, write_json,
};

fuzz_target!(|input: &[u8]| {
    let Some((sizes, text)) = input.split_at_checked(4) else { return };
    let limits = CheckLimits {
        event_bytes_max: 16 + usize::from(sizes[3]) * 8,
        rejections_described_max: usize::MAX,
        refused_bytes_kept: 100,
        ..CheckLimits::default()
    };
    let whole = run(text, &limits, &[text.len().max(1)]);
    let parts: Vec<usize> = sizes[..3].iter().map(|&size| 1 + usize::from(size)).collect();
    assert_eq!(run(text, &limits, &parts), whole);

    for line in text.split(|&byte| byte == b'\n') {
        one_line(line);
    }
});

/// The events and rejections as text.
fn run(text: &[u8], limits: &CheckLimits, sizes: &[usize]) -> (Vec<Vec<u8>>, u64, String) {
    let mut checker = Checker::new(*limits);
    let (mut events, mut rejected, mut told, mut kept) = (Vec::new(), 0, String::new(), String::new());
    let mut add = |checked: Checked| {
        events.extend((0..checked.batch.len()).map(|row| checked.batch.event(row).to_vec()));
        rejected += checked.rejected;
        checked.rejections.iter().for_each(|rejection| told.push_str(&format!("{rejection:?}\n")));
        checked.refused.iter().for_each(|refused| kept.push_str(&format!("{refused:?}\n")));
        decode(&checked.batch);
    };
    let mut rest = Bytes::copy_from_slice(text);
    for size in sizes.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        add(checker.push(rest.split_to((*size).min(rest.len()))));
    }
    add(checker.finish());
    (events, rejected, told + &kept)
}

fn one_line(line: &[u8]) {
    let checked = check_block(Bytes::copy_from_slice(line), &CheckLimits::default(), 2);
    let accepted = checked.rejected == 0 && checked.batch.len() == 1;
    match serde_json::from_slice::<Json>(line) {
        Ok(value) => assert_eq!(accepted, value.is_object(), "{:?}", line.escape_ascii().to_string()),
        // Numbers of any size and a level more are accepted here.
        Err(error) if error.to_string().starts_with("number out of range") => {}
        Err(error) if error.to_string().starts_with("recursion limit") => {}
        Err(_) => assert!(!accepted, "{:?}", line.escape_ascii().to_string()),
    }
}

fn want(path: &str, ty: Type) -> Want {
    Want { path: Path::parse(path).expect("a path"), ty }
}

/// Decodes in one go and event by event; both must say what serde_json says.
fn decode(batch: &EventBatch) {
    let plan = DecodePlan::new([
        want("a", Type::Any),
        want("a", Type::LONG),
        want("a", Type::STRING),
        want("a", Type::parse("LIST[LONG]").expect("a type")),
        want("a", Type::parse("MAP[LIST[STRING]]").expect("a type")),
        want("a", Type::parse("TIMESTAMP").expect("a type")),
        want("a.b", Type::Any),
        want("a[1]", Type::Any),
        want("a[0].b", Type::DOUBLE),
        want("['']", Type::Any),
    ]);
    // So many keys that they are guessed from the events before, as what most of them are.
    let types = ["ANY", "STRING", "MAP[LONG]", "MAP[STRING]", "DOUBLE", "LIST[MAP[STRING]]", "LONG", "MAP[DOUBLE]", "BOOLEAN"];
    let wide = DecodePlan::new(
        ('a'..='p').zip(types.iter().cycle()).map(|(key, ty)| want(&key.to_string(), Type::parse(ty).expect("a type"))),
    );
    let mut decoder = Decoder::new();
    let decoded = decoder.decode(batch, &wide);
    for row in 0..batch.len() {
        let alone = check_block(Bytes::copy_from_slice(batch.event(row)), &CheckLimits::default(), 1).batch;
        let alone = decoder.decode(&alone, &wide);
        assert_eq!(written(&decoded, row), written(&alone, 0));
        let Ok(event) = serde_json::from_slice::<Json>(batch.event(row)) else { continue };
        let arena = Bump::new();
        agree(&decoded.columns[0].value(row, &arena), &event["a"]);
        if let Some(Json::Object(fields)) = event.get("d") {
            let Value::Map(found) = decoded.columns[3].value(row, &arena) else { panic!("no map") };
            assert_eq!(found.len(), fields.len());
            for (key, part) in found {
                if let Json::String(text) = &fields[*key] {
                    agree(part, &Json::String(text.clone()));
                } else {
                    assert!(matches!(part, Value::Null));
                }
            }
        }
    }
    let decoded = decoder.decode(batch, &plan);
    for row in 0..batch.len() {
        let alone = check_block(Bytes::copy_from_slice(batch.event(row)), &CheckLimits::default(), 1).batch;
        let alone = decoder.decode(&alone, &plan);
        assert_eq!(written(&decoded, row), written(&alone, 0));
        let Ok(event) = serde_json::from_slice::<Json>(batch.event(row)) else { continue };
        let arena = Bump::new();
        for (column, field) in [(0, Some("a")), (9, Some(""))] {
            let expected = field.and_then(|field| event.get(field)).unwrap_or(&Json::Null);
            agree(&decoded.columns[column].value(row, &arena), expected);
        }
        let string = decoded.columns[2].value(row, &arena);
        assert_eq!(matches!(string, Value::String(_)), event.get("a").is_some_and(Json::is_string));
    }
}

fn written(decoded: &Decoded, row: usize) -> Vec<u8> {
    let arena = Bump::new();
    let mut out = Vec::new();
    for column in &decoded.columns {
        let value = column.value(row, &arena);
        write_json(&value, &mut out);
        out.push(if matches!(value, Value::Error) { b'!' } else { b';' });
        let mut again = Vec::new();
        column.fill(&[row as u32], &arena, &mut again);
        let (mut one, mut other) = (Vec::new(), Vec::new());
        write_json(&value, &mut one);
        write_json(&again[0], &mut other);
        assert_eq!(one, other);
        // Written text can be read.
        assert!(std::str::from_utf8(&one).is_ok_and(|text| parse_value(text, &arena).is_some()));
    }
    out
}

fn agree(value: &Value<'_>, expected: &Json) {
    match (value, expected) {
        (Value::Null, Json::Null) => {}
        (Value::Boolean(value), Json::Bool(expected)) => assert_eq!(value, expected),
        (Value::String(value), Json::String(expected)) => assert_eq!(value, expected),
        (Value::Long(value), Json::Number(expected)) => assert_eq!(*value as f64, expected.as_f64().expect("a number")),
        (Value::Double(value), Json::Number(expected)) => {
            // serde_json may be off by one in the last place.
            let expected = expected.as_f64().expect("a number");
            assert!((value - expected).abs() <= expected.abs() * 1e-15 + f64::MIN_POSITIVE, "{value} and {expected}");
        }
        (Value::List(parts), Json::Array(expected)) => {
            assert_eq!(parts.len(), expected.len());
            parts.iter().zip(expected).for_each(|(part, expected)| agree(part, expected));
        }
        (Value::Map(fields), Json::Object(expected)) => {
            assert_eq!(fields.len(), expected.len());
            fields.iter().for_each(|(key, part)| agree(part, &expected[*key]));
        }
        other => panic!("{other:?}"),
    }
}

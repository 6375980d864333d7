//! Compares decoding with a slow decoder over `serde_json::Value`, for any events, plans and batch boundaries.

#![allow(clippy::unwrap_used, reason = "a test")]

mod support;

use bumpalo::Bump;
use bytes::Bytes;
use proptest::prelude::*;
use serde_json::Value as Json;
use support::{json, object};
use swiftwater_event::{
    CheckLimits, DecodePlan, Decoder, EventBatch, Path, Primitive, Step, TimeUnit, Type, Value, Want,
    check_block, parse_value, write_json,
};

fn batch(text: &str) -> EventBatch {
    let checked = check_block(Bytes::copy_from_slice(text.as_bytes()), &CheckLimits::default(), 1);
    assert_eq!((checked.rejected, checked.rejections), (0, vec![]), "{text}");
    checked.batch
}

fn written(value: &Value<'_>) -> String {
    if matches!(value, Value::Error) {
        return "error".to_owned();
    }
    let mut out = Vec::new();
    write_json(value, &mut out);
    String::from_utf8(out).unwrap()
}

/// The value of a want in one event, as JSON text or `error`, and true if it is mistyped.
fn expected(event: &Json, want: &Want) -> (String, bool) {
    let mut value = event;
    for step in want.path.steps() {
        value = match (step, value) {
            (_, Json::Null) => return ("null".to_owned(), false),
            (Step::Key(key), Json::Object(fields)) => match fields.get(&**key) {
                Some(value) => value,
                None => return ("null".to_owned(), false),
            },
            (Step::Index(index), Json::Array(parts)) if (*index as usize) < parts.len() => {
                &parts[*index as usize]
            }
            _ => return ("error".to_owned(), false),
        };
    }
    let mut mistyped = false;
    (as_type(value, &want.ty, &mut mistyped), mistyped)
}

fn as_type(value: &Json, ty: &Type, mistyped: &mut bool) -> String {
    if value.is_null() {
        return "null".to_owned();
    }
    let fitting = match ty {
        Type::Any => Some(as_any(value)),
        Type::Primitive(primitive) => as_primitive(value, *primitive),
        Type::List(inner) => value.as_array().map(|parts| {
            let parts: Vec<_> = parts.iter().map(|part| as_type(part, inner, mistyped)).collect();
            format!("[{}]", parts.join(","))
        }),
        Type::Map(inner) => value.as_object().map(|fields| {
            // serde_json keeps a repeated key where it stood first; here it stands where it was last.
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_by_key(|(key, _)| *key);
            let field = |(key, part): (&String, &Json), mistyped: &mut bool| {
                format!("{}:{}", Json::from(key.as_str()), as_type(part, inner, mistyped))
            };
            let fields: Vec<_> = fields.into_iter().map(|entry| field(entry, mistyped)).collect();
            format!("{{{}}}", fields.join(","))
        }),
    };
    fitting.unwrap_or_else(|| {
        *mistyped = true;
        "null".to_owned()
    })
}

fn as_any(value: &Json) -> String {
    match value {
        Json::Number(number) => match number.as_i64() {
            Some(whole) => whole.to_string(),
            None => format!("{:?}", number.as_f64().unwrap()),
        },
        Json::Array(_) => as_type(value, &Type::List(Box::new(Type::Any)), &mut false),
        Json::Object(_) => as_type(value, &Type::Map(Box::new(Type::Any)), &mut false),
        other => other.to_string(),
    }
}

/// The first that is more than a LONG.
const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;

fn as_primitive(value: &Json, primitive: Primitive) -> Option<String> {
    let whole = || {
        let number = value.as_number()?;
        number.as_i64().or_else(|| {
            let double = number.as_f64()?;
            let fits = (-TWO_TO_63..TWO_TO_63).contains(&double);
            (!number.is_u64() && double.fract() == 0.0 && fits).then_some(double as i64)
        })
    };
    Some(match primitive {
        Primitive::Boolean => value.as_bool()?.to_string(),
        Primitive::Integer => i32::try_from(whole()?).ok()?.to_string(),
        Primitive::Long => whole()?.to_string(),
        Primitive::Float => {
            let text = value.as_number()?.to_string();
            written(&Value::Float(text.parse().unwrap()))
        }
        Primitive::Double => format!("{:?}", value.as_f64()?),
        Primitive::String => Json::from(value.as_str()?).to_string(),
        Primitive::Timestamp(_) => {
            // No text that the generator makes is a time; the unit is microseconds.
            written(&Value::Timestamp(whole()?))
        }
    })
}

/// The same JSON text with the fields of its objects in order, so that two can be compared.
fn sorted(text: &str) -> String {
    fn sort(value: &Value<'_>, out: &mut String) {
        match value {
            Value::Map(fields) => {
                let mut fields: Vec<_> = fields.iter().collect();
                fields.sort_by_key(|(key, _)| *key);
                out.push('{');
                for (place, (key, part)) in fields.into_iter().enumerate() {
                    if place > 0 {
                        out.push(',');
                    }
                    out.push_str(&written(&Value::String(key)));
                    out.push(':');
                    sort(part, out);
                }
                out.push('}');
            }
            Value::List(parts) => {
                out.push('[');
                for (place, part) in parts.iter().enumerate() {
                    if place > 0 {
                        out.push(',');
                    }
                    sort(part, out);
                }
                out.push(']');
            }
            other => out.push_str(&written(other)),
        }
    }
    let arena = Bump::new();
    let mut out = String::new();
    match parse_value(text, &arena) {
        Some(value) => sort(&value, &mut out),
        None => out.push_str(text),
    }
    out
}

fn primitive() -> impl Strategy<Value = Type> {
    prop::sample::select(vec![
        Type::BOOLEAN,
        Type::INTEGER,
        Type::LONG,
        Type::FLOAT,
        Type::DOUBLE,
        Type::STRING,
        Type::Any,
        Type::Primitive(Primitive::Timestamp(TimeUnit::Microsecond)),
    ])
}

fn known() -> impl Strategy<Value = Type> {
    primitive().prop_filter("known", |ty| *ty != Type::Any)
}

fn ty() -> impl Strategy<Value = Type> {
    prop_oneof![
        2 => Just(Type::Any),
        4 => primitive(),
        1 => primitive().prop_map(|inner| Type::list(inner).unwrap()),
        1 => primitive().prop_map(|inner| Type::map(inner).unwrap()),
        1 => known().prop_map(|inner| Type::list(Type::map(inner).unwrap()).unwrap()),
        1 => known().prop_map(|inner| Type::map(Type::list(inner).unwrap()).unwrap()),
    ]
}

fn want() -> impl Strategy<Value = Want> {
    let key = || {
        prop::sample::select(vec!["a", "b", "c", "d", "\"", "aü", ""]).prop_map(|key| Step::Key(key.into()))
    };
    let step = prop_oneof![3 => key(), 1 => (0u32..4).prop_map(Step::Index)];
    (key(), prop::collection::vec(step, 0..3), ty()).prop_map(|(first, rest, ty)| {
        let steps = std::iter::once(first).chain(rest).collect();
        Want { path: Path::new(steps).unwrap(), ty }
    })
}

fn events() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(object(json(4)), 1..12)
}

/// Many fields, in an order that mostly stays, of kinds that mostly stay.
fn wide_events() -> impl Strategy<Value = Vec<String>> {
    let text = || "[a-z ]{0,20}|[a-zä\\\\\"\n]{0,6}".prop_map(|text| Json::from(text).to_string());
    let number = || {
        prop_oneof![
            any::<i32>().prop_map(|number| number.to_string()),
            any::<i64>().prop_map(|number| number.to_string()),
            (any::<i32>(), 0..7)
                .prop_map(|(number, power)| format!("{:?}", f64::from(number) / 10f64.powi(power))),
        ]
    };
    let scalar = move || prop_oneof![text(), number(), any::<bool>().prop_map(|value| value.to_string())];
    let map = move |key: &'static str| {
        let field = (key, scalar()).prop_map(|(key, value)| format!("{}:{value}", Json::from(key)));
        prop::collection::vec(field, 0..4).prop_map(|fields| format!("{{{}}}", fields.join(",")))
    };
    let value = move |field: usize| match field % 4 {
        0 => prop_oneof![20 => text(), 1 => number()].boxed(),
        1 => prop_oneof![20 => number(), 1 => Just("null".to_owned())].boxed(),
        2 => prop_oneof![20 => map("[ab]"), 5 => map("[ab]|[a-z\"ü ]{0,40}"), 1 => scalar()].boxed(),
        _ => prop_oneof![
            20 => prop::collection::vec(map("a|b"), 0..3).prop_map(|maps| format!("[{}]", maps.join(","))),
            1 => map("a"),
        ]
        .boxed(),
    };
    let fields: Vec<_> = (0..WIDE).map(|field| value(field).prop_map(move |value| (field, value))).collect();
    let changes = prop_oneof![
        2 => Just(vec![]),
        1 => prop::collection::vec((0..WIDE, 0..WIDE, 0..4usize), 1..4),
        1 => prop::collection::vec((0..WIDE, 0..WIDE, Just(0)), 40),
    ];
    let event = (fields, changes, 0..8usize).prop_map(|(mut fields, changes, style)| {
        for (a, b, how) in changes {
            let (a, b) = (a % fields.len(), b % fields.len());
            match how {
                0 | 1 => fields.swap(a, b),
                2 => drop(fields.remove(a)),
                _ => fields.insert(b, fields[a].clone()),
            }
        }
        let space = if style == 0 { " " } else { "" };
        let fields: Vec<String> = fields
            .iter()
            .enumerate()
            .map(|(place, (field, value))| {
                let name = wide_name(*field);
                let odd = if style == 1 && place == 5 { " " } else { "" };
                let name = if style == 2 && place == 7 { name.replacen('f', "\\u0066", 1) } else { name };
                format!("\"{name}\"{odd}:{space}{}", value.replace(',', &format!(",{space}")))
            })
            .collect();
        format!("{{{}}}", fields.join(&format!(",{space}")))
    });
    prop::collection::vec(event, 1..6)
}

const WIDE: usize = 24;

fn wide_name(field: usize) -> String {
    format!("{}f{field:02}", "long_".repeat(field % 9))
}

fn wide_type(field: usize) -> Type {
    let values = [Type::STRING, Type::DOUBLE, Type::LONG, Type::BOOLEAN];
    let map = Type::map(values[field / 4 % 4].clone()).unwrap();
    match field % 4 {
        0 => Type::STRING,
        1 => [Type::LONG, Type::DOUBLE, Type::Any][field / 4 % 3].clone(),
        2 => map,
        _ => Type::list(map).unwrap(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn many_fields_of_wide_events_are_decoded_as_serde_json_does(
        events in wide_events(),
        left_out in 0..WIDE,
        few in any::<bool>(),
    ) {
        // A comma within a text may have got a space, in what is parsed here too.
        let parsed: Vec<Json> = events.iter().map(|event| serde_json::from_str(event).unwrap()).collect();
        let wanted = (0..WIDE).filter(|&field| field != left_out && !(few && field % 3 > 0));
        let plan = DecodePlan::new(wanted.map(|field| {
            Want { path: Path::new(vec![Step::Key(wide_name(field).into())]).unwrap(), ty: wide_type(field) }
        }));
        let batch = batch(&events.join("\n"));
        let decoded = Decoder::new().decode(&batch, &plan);
        let arena = Bump::new();
        for (want, column) in plan.wants().iter().zip(&decoded.columns) {
            for (row, event) in parsed.iter().enumerate() {
                let (wanted, bad) = expected(event, want);
                let got = written(&column.value(row, &arena));
                prop_assert_eq!(sorted(&got), sorted(&wanted), "{} AS {} in {}", want.path, want.ty, events[row]);
                prop_assert_eq!(column.mistyped.as_ref().is_some_and(|mask| mask.value(row)), bad);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn decoding_agrees_with_serde_json(events in events(), wants in prop::collection::vec(want(), 1..8), cut in any::<prop::sample::Index>()) {
        let parsed: Vec<Json> = events.iter().map(|event| serde_json::from_str(event).unwrap()).collect();
        let plan = DecodePlan::new(wants);
        let mut decoder = Decoder::new();
        let cut = cut.index(events.len());
        let mut row_from = 0;
        for part in [&events[..], &events[..cut], &events[cut..]] {
            if part.len() < events.len() && part.as_ptr() == events.as_ptr() {
                row_from = 0;
            }
            let batch = batch(&part.join("\n"));
            let decoded = decoder.decode(&batch, &plan);
            prop_assert_eq!(decoded.rows, part.len());
            for (place, want) in plan.wants().iter().enumerate() {
                let column = decoded.column(plan.find(want).unwrap());
                prop_assert!(std::ptr::eq(column, &decoded.columns[place]));
                let arena = Bump::new();
                let mut mistyped = Vec::new();
                let rows: Vec<u32> = (0..part.len() as u32).rev().collect();
                let mut filled = Vec::new();
                column.fill(&rows, &arena, &mut filled);
                for row in 0..part.len() {
                    let event = &parsed[if part.as_ptr() == events.as_ptr() { row } else { cut + row }];
                    let (wanted, bad) = expected(event, want);
                    mistyped.push(bad);
                    let got = written(&column.value(row, &arena));
                    prop_assert_eq!(sorted(&got), sorted(&wanted), "{} AS {} in {}", want.path, want.ty, part[row]);
                    prop_assert_eq!(written(&filled[part.len() - 1 - row]), got);
                }
                let mask = column.mistyped.as_ref().map_or(vec![false; part.len()], |mask| mask.iter().collect());
                prop_assert_eq!(mask, mistyped, "{} AS {}", want.path, want.ty);
                prop_assert!(column.mistyped.as_ref().is_none_or(|mask| mask.count_set_bits() > 0));
            }
            row_from += part.len();
        }
        prop_assert!(row_from >= events.len());
    }

    #[test]
    fn parsing_then_writing_says_the_same(text in json(5)) {
        let arena = Bump::new();
        let value = parse_value(&text, &arena).unwrap();
        let parsed: Json = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(sorted(&written(&value)), sorted(&as_type(&parsed, &Type::Any, &mut false)));
    }

    #[test]
    fn what_is_no_json_is_not_parsed(text in "[\\[\\]{}\",:0-9a-ftrue.\\\\ -]{0,12}") {
        let arena = Bump::new();
        let good = serde_json::from_str::<Json>(&text).is_ok();
        prop_assert_eq!(parse_value(&text, &arena).is_some(), good, "{}", text);
    }
}

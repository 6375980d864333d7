//! Generates values of all kinds for property tests.

use bumpalo::Bump;
use proptest::prelude::*;
use swiftwater_event::Value;

/// A value that owns its parts.
#[derive(Debug, Clone)]
pub(super) enum Owned {
    Null,
    Boolean(bool),
    Integer(i32),
    Long(i64),
    Float(f32),
    Double(f64),
    String(String),
    Timestamp(i64),
    List(Vec<Owned>),
    Map(Vec<(String, Owned)>),
}

impl Owned {
    pub(super) fn in_arena<'a>(&self, arena: &'a Bump) -> Value<'a> {
        match self {
            Owned::Null => Value::Null,
            Owned::Boolean(truth) => Value::Boolean(*truth),
            Owned::Integer(number) => Value::Integer(*number),
            Owned::Long(number) => Value::Long(*number),
            Owned::Float(number) => Value::Float(*number),
            Owned::Double(number) => Value::Double(*number),
            Owned::String(text) => Value::String(arena.alloc_str(text)),
            Owned::Timestamp(micros) => Value::Timestamp(*micros),
            Owned::List(items) => {
                Value::List(arena.alloc_slice_fill_iter(items.iter().map(|item| item.in_arena(arena))))
            }
            Owned::Map(entries) => Value::Map(arena.alloc_slice_fill_iter(
                entries.iter().map(|(key, item)| (&*arena.alloc_str(key), item.in_arena(arena))),
            )),
        }
    }
}

/// Values of all kinds, many of them equal or nearly so.
pub(super) fn value() -> impl Strategy<Value = Owned> {
    let number = prop_oneof![
        any::<i64>(),
        -2i64..3,
        proptest::sample::select(
            &[i64::MIN, i64::MAX, i64::MAX - 1, 1 << 53, (1 << 53) + 1, -2_147_483_648][..]
        ),
    ];
    let scalar = prop_oneof![
        Just(Owned::Null),
        any::<bool>().prop_map(Owned::Boolean),
        (-2i32..3).prop_map(Owned::Integer),
        number.clone().prop_map(Owned::Long),
        number.clone().prop_map(|number| Owned::Double(number as f64)),
        number.prop_map(|number| Owned::Float(number as f32)),
        any::<f64>().prop_map(Owned::Double),
        any::<u64>().prop_map(|bits| Owned::Double(f64::from_bits(bits))),
        proptest::sample::select(&[0.0, -0.0, f64::NAN, f64::INFINITY, 0.5][..]).prop_map(Owned::Double),
        "[ab1é]{0,2}".prop_map(Owned::String),
        (-2i64..3).prop_map(Owned::Timestamp),
    ];
    scalar.prop_recursive(2, 12, 3, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(Owned::List),
            (proptest::collection::btree_map("[abc]", inner, 0..3), any::<bool>()).prop_map(
                |(entries, reverse)| {
                    let mut entries: Vec<_> = entries.into_iter().collect();
                    if reverse {
                        entries.reverse();
                    }
                    Owned::Map(entries)
                }
            ),
        ]
    })
}

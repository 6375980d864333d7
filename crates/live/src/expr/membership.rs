//! Compares one value with a constant, with bounds, and with the elements of a container.

use std::collections::HashSet;

use swiftwater_event::{Kind, Value, Values};
use swiftwater_lang::Dialect;
use swiftwater_lang::plan::Comparison;

use super::compare::{self, compare, holds};
use super::java_type::{JavaPrimitive, JavaType};
use super::predicate::Truth;
use super::program::Context;
use super::value_node::{self, Constant, Node};
use super::{Scratch, containers, pattern};

/// `node comparison constant`, straight over the column where the node is one.
pub(super) fn compare_constant(
    comparison: Comparison,
    node: &Node,
    constant: &Constant,
    selection: &[u32],
    context: &mut Context<'_, '_>,
    out: &mut Vec<Truth>,
) {
    if let Node::Column(column) = node
        && let Some(column) = context.column(column.want)
        && column.errors.is_none()
        && compare_column(comparison, &column.values, constant, selection, context.dialect, out)
    {
        return;
    }
    let dialect = context.dialect;
    let Some(constant) = constant.as_value() else {
        return out.resize(selection.len(), Truth::Error);
    };
    let mut values = context.scratch.take_values();
    node.evaluate(selection, context, &mut values);
    out.extend(values.iter().map(|value| match (value, &constant) {
        (Value::Null, _) => Truth::Null,
        (Value::Error, _) => Truth::Error,
        (_, Value::Null) => Truth::Null,
        _ => match compare(value, &constant, dialect) {
            Some(ordering) => Truth::of(holds(comparison, ordering)),
            None => Truth::Error,
        },
    }));
    context.scratch.emit_values(values);
}

/// The pairs of column and constant that need no values in between: LONG and STRING, the commonest. Their rules are
/// the same in both dialects, but for the order of text, so that only (in)equality of text is taken here.
fn compare_column(
    comparison: Comparison,
    values: &Values,
    constant: &Constant,
    selection: &[u32],
    dialect: Dialect,
    out: &mut Vec<Truth>,
) -> bool {
    let number = match constant {
        Constant::Integer(number) => Some(i64::from(*number)),
        Constant::Long(number) => Some(*number),
        _ => None,
    };
    let text = match constant {
        Constant::String(text) if matches!(comparison, Comparison::Eq | Comparison::Ne) => Some(&**text),
        _ => None,
    };
    match (values, number, text) {
        (Values::Long(longs), Some(number), _) => out.extend(selection.iter().map(|&row| {
            if !value_node::is_valid(longs, row) {
                return Truth::Null;
            }
            Truth::of(holds(comparison, longs.value(row as usize).cmp(&number)))
        })),
        (Values::String(texts), _, Some(text)) => out.extend(selection.iter().map(|&row| {
            if !value_node::is_valid(texts, row) {
                return Truth::Null;
            }
            Truth::of((texts.value(row as usize) == text) == (comparison == Comparison::Eq))
        })),
        (Values::Tagged(tagged), Some(number), _) => {
            const LONG: i8 = Kind::Long as i8;
            const DOUBLE: i8 = Kind::Double as i8;
            const NULL: i8 = Kind::Null as i8;
            out.extend(selection.iter().map(|&row| match value_node::tagged_kind(tagged, row) {
                NULL => Truth::Null,
                LONG => {
                    let value = tagged.longs.value(tagged.offsets[row as usize] as usize);
                    Truth::of(holds(comparison, value.cmp(&number)))
                }
                DOUBLE => {
                    let value = tagged.doubles.value(tagged.offsets[row as usize] as usize);
                    Truth::of(holds(comparison, compare::compare_doubles(value, number as f64, dialect)))
                }
                _ => Truth::Error,
            }));
        }
        (Values::Tagged(tagged), _, Some(text)) => {
            const STRING: i8 = Kind::String as i8;
            const NULL: i8 = Kind::Null as i8;
            out.extend(selection.iter().map(|&row| match value_node::tagged_kind(tagged, row) {
                NULL => Truth::Null,
                STRING => {
                    let value = tagged.strings.value(tagged.offsets[row as usize] as usize);
                    Truth::of((value == text) == (comparison == Comparison::Eq))
                }
                _ => Truth::Error,
            }));
        }
        _ => return false,
    }
    true
}

/// `value BETWEEN (low, high)`, inclusive; numbers as doubles in Bullet.
///
/// If one bound is null, the other may still decide that the value is outside.
pub(super) fn between(value: &Value<'_>, low: &Value<'_>, high: &Value<'_>, dialect: Dialect) -> Truth {
    if matches!(value, Value::Null) {
        return Truth::Null;
    }
    if [value, low, high].iter().any(|operand| matches!(operand, Value::Error)) {
        return Truth::Error;
    }
    let has_null_bound = matches!(low, Value::Null) || matches!(high, Value::Null);
    let is_within = |bound: &Value<'_>, comparison: Comparison| match (bound, dialect) {
        (Value::Null, _) => Truth::Null,
        (_, Dialect::Native) => match compare(value, bound, dialect) {
            Some(ordering) => Truth::of(holds(comparison, ordering)),
            None => Truth::Error,
        },
        (_, Dialect::Bullet) => match (value, bound) {
            (Value::String(value), Value::String(bound)) => {
                Truth::of(holds(comparison, compare::compare_text(value, bound, dialect)))
            }
            _ => match (compare::as_double(value), compare::as_double(bound)) {
                // Java's own operators here: NaN is within nothing, but outside nothing either, which is what is asked
                // where the other bound is null.
                (Some(value), Some(bound)) if value.is_nan() || bound.is_nan() => Truth::of(has_null_bound),
                (Some(value), Some(bound)) if comparison == Comparison::Ge => Truth::of(value >= bound),
                (Some(value), Some(bound)) => Truth::of(value <= bound),
                _ => Truth::Error,
            },
        },
    };
    let is_comparable = compare::as_double(value).is_some() || matches!(value, Value::String(_));
    if dialect == Dialect::Bullet && !is_comparable {
        return Truth::Error;
    }
    match (is_within(low, Comparison::Ge), is_within(high, Comparison::Le)) {
        (Truth::Error, _) | (_, Truth::Error) if dialect == Dialect::Bullet => Truth::Error,
        (Truth::False, _) | (_, Truth::False) => Truth::False,
        (Truth::Error, _) | (_, Truth::Error) => Truth::Error,
        (Truth::Null, _) | (_, Truth::Null) => Truth::Null,
        (Truth::True, Truth::True) => Truth::True,
    }
}

/// The state of a search over elements that has not ended yet.
#[derive(Default)]
struct Search {
    null: bool,
    incomparable: bool,
}

impl Search {
    /// Takes in one comparison; returns the result if it ends the search. Bullet: at a comparison that throws,
    /// native: at a hit only, so that no order of elements matters.
    fn step(
        &mut self,
        element: &Value<'_>,
        hit: Option<bool>,
        on_hit: Truth,
        dialect: Dialect,
    ) -> Option<Truth> {
        match (element, hit) {
            (Value::Null, _) => self.null = true,
            (_, Some(true)) => return Some(on_hit),
            (_, Some(false)) => {}
            (_, None) if dialect == Dialect::Bullet => return Some(Truth::Error),
            (_, None) => self.incomparable = true,
        }
        None
    }

    /// The result if nothing ended the search.
    fn end(self, otherwise: Truth) -> Truth {
        match self {
            Search { incomparable: true, .. } => Truth::Error,
            Search { null: true, .. } => Truth::Null,
            _ => otherwise,
        }
    }
}

/// `left comparison ANY right`, `left comparison ALL right`; neither operand null or an error.
pub(super) fn quantified(
    left: &Value<'_>,
    comparison: Comparison,
    all: bool,
    right: &Value<'_>,
    declared: Option<JavaType>,
    dialect: Dialect,
) -> Truth {
    let Value::List(items) = right else { return Truth::Error };
    let is_typed = dialect == Dialect::Native
        || matches!(
            containers::java_type(right, declared),
            JavaType::List(Some(_)) | JavaType::MapList(Some(_))
        );
    let (on_hit, otherwise) = if all { (Truth::False, Truth::True) } else { (Truth::True, Truth::False) };
    let mut search = Search::default();
    for item in *items {
        let ordering = compare(left, item, dialect).filter(|_| is_typed);
        let hit = ordering.map(|ordering| holds(comparison, ordering) != all);
        if let Some(truth) = search.step(item, hit, on_hit, dialect) {
            return truth;
        }
    }
    search.end(otherwise)
}

/// Returns true if a list or map contains a value equal to `needle`: a list of maps and a map of maps are
/// searched in their innermost values. Neither operand is null or an error.
pub(super) fn contains(
    container: &Value<'_>,
    needle: &Value<'_>,
    declared: Option<JavaType>,
    dialect: Dialect,
) -> Truth {
    let mut search = Search::default();
    let (is_typed, is_nested) = match dialect {
        Dialect::Native => (true, true),
        Dialect::Bullet => match containers::java_type(container, declared) {
            JavaType::List(element) | JavaType::Map(element) => (element.is_some(), false),
            JavaType::MapList(element) | JavaType::MapMap(element) => (element.is_some(), true),
            _ => return Truth::Error,
        },
    };
    let mut look = |value: &Value<'_>| -> Option<Truth> {
        let equal = |value: &Value<'_>| {
            compare(needle, value, dialect).filter(|_| is_typed).map(std::cmp::Ordering::is_eq)
        };
        match value {
            Value::Map(entries) if is_nested => {
                entries.iter().find_map(|(_, value)| search.step(value, equal(value), Truth::True, dialect))
            }
            value => search.step(value, equal(value), Truth::True, dialect),
        }
    };
    let found = match container {
        Value::List(items) => items.iter().find_map(&mut look),
        Value::Map(entries) => entries.iter().find_map(|(_, value)| look(value)),
        _ => Some(Truth::Error),
    };
    found.unwrap_or_else(|| search.end(Truth::False))
}

/// CONTAINSKEY in the native dialect, where it is true.
pub(crate) fn native_has_key(container: &Value<'_>, key: &str) -> bool {
    contains_key(container, &Value::String(key), None, Dialect::Native) == Truth::True
}

/// CONTAINSKEY: of a map, of a map of maps (outer keys, then inner), of any map in a list. Neither operand is null or
/// an error.
pub(super) fn contains_key(
    container: &Value<'_>,
    key: &Value<'_>,
    declared: Option<JavaType>,
    dialect: Dialect,
) -> Truth {
    let Value::String(key) = key else { return Truth::Error };
    let has = |entries: &[(&str, Value<'_>)]| entries.iter().any(|(name, _)| name == key);
    let (looks_inside, is_list) = match (dialect, container) {
        (Dialect::Native, Value::Map(_)) => (true, false),
        (Dialect::Native, Value::List(_)) => (true, true),
        (Dialect::Native, _) => return Truth::Error,
        (Dialect::Bullet, _) => match containers::java_type(container, declared) {
            JavaType::Map(_) => (false, false),
            JavaType::MapMap(_) => (true, false),
            JavaType::MapList(_) => (true, true),
            _ => return Truth::Error,
        },
    };
    let mut search = Search::default();
    let mut look = |value: &Value<'_>| match value {
        Value::Map(entries) => search.step(value, Some(has(entries)), Truth::True, dialect),
        // A map in native may hold both maps and other values; only in a list every element has to be a map.
        value if is_list || matches!(value, Value::Null) => search.step(value, None, Truth::True, dialect),
        _ => None,
    };
    let found = match container {
        Value::Map(entries) if has(entries) => Some(Truth::True),
        Value::Map(entries) if looks_inside => {
            let holds_maps = entries.iter().any(|(_, value)| matches!(value, Value::Map(_)));
            if holds_maps || dialect == Dialect::Bullet {
                entries.iter().find_map(|(_, value)| look(value))
            } else {
                None
            }
        }
        Value::Map(_) => None,
        Value::List(items) => items.iter().find_map(look),
        _ => Some(Truth::Error),
    };
    found.unwrap_or_else(|| search.end(Truth::False))
}

/// `text RLIKE pattern`, the pattern compiled when it is first seen.
pub(super) fn matches(text: &str, pattern: &str, scratch: &mut Scratch) -> Truth {
    match scratch.pattern(pattern, pattern::compile_java) {
        Some(pattern) => pattern.matches(text),
        None => Truth::Error,
    }
}

/// `text RLIKE ANY patterns`: stops at the first hit.
pub(super) fn matches_any(text: &str, patterns: &[Value<'_>], scratch: &mut Scratch) -> Truth {
    let mut null = false;
    for pattern in patterns {
        match pattern {
            Value::Null => null = true,
            Value::String(pattern) => match matches(text, pattern, scratch) {
                Truth::False => {}
                truth => return truth,
            },
            _ => return Truth::Error,
        }
    }
    if null { Truth::Null } else { Truth::False }
}

/// The constants of `x IN (…)`, looked up by hash where they are all texts, by bisection where all whole numbers.
#[derive(Debug)]
pub(super) struct ConstantSet {
    items: Vec<Constant>,
    lookup: Lookup,
    null: bool,
}

#[derive(Debug)]
enum Lookup {
    Texts(HashSet<Box<str>>),
    Wholes(Vec<i64>),
    None,
}

impl ConstantSet {
    pub(super) fn new(items: Vec<Constant>) -> ConstantSet {
        let null = items.iter().any(|item| matches!(item, Constant::Null));
        let values = || items.iter().filter(|item| !matches!(item, Constant::Null));
        let texts: Option<HashSet<Box<str>>> = values()
            .map(|item| match item {
                Constant::String(text) => Some(text.clone()),
                _ => None,
            })
            .collect();
        let wholes: Option<Vec<i64>> = values()
            .map(|item| match item {
                Constant::Integer(number) => Some(i64::from(*number)),
                Constant::Long(number) => Some(*number),
                _ => None,
            })
            .collect();
        let lookup = match (texts, wholes) {
            (Some(texts), _) if !texts.is_empty() => Lookup::Texts(texts),
            (_, Some(mut wholes)) => {
                wholes.sort_unstable();
                Lookup::Wholes(wholes)
            }
            _ => Lookup::None,
        };
        ConstantSet { items, lookup, null }
    }

    /// Returns true if the value equals one of the constants.
    pub(super) fn contains(&self, value: &Value<'_>, dialect: Dialect) -> Truth {
        let miss = || if self.null { Truth::Null } else { Truth::False };
        match (&self.lookup, value) {
            (_, Value::Null) => return Truth::Null,
            (_, Value::Error) => return Truth::Error,
            (Lookup::Texts(texts), Value::String(text)) => {
                return if texts.contains(*text) { Truth::True } else { miss() };
            }
            (Lookup::Wholes(wholes), Value::Integer(_) | Value::Long(_)) => {
                let found =
                    compare::as_long(value).is_some_and(|number| wholes.binary_search(&number).is_ok());
                return if found { Truth::True } else { miss() };
            }
            _ => {}
        }
        // In Bullet a list whose elements have several types compares with nothing.
        let is_typed = dialect == Dialect::Native || self.is_of_one_type();
        let mut search = Search::default();
        for item in &self.items {
            let Some(item) = item.as_value() else { return Truth::Error };
            let hit = compare(value, &item, dialect).filter(|_| is_typed).map(std::cmp::Ordering::is_eq);
            if let Some(truth) = search.step(&item, hit, Truth::True, dialect) {
                return truth;
            }
        }
        search.end(Truth::False)
    }

    fn is_of_one_type(&self) -> bool {
        let mut types = self.items.iter().filter_map(|item| {
            match item.as_value().map(|value| JavaType::of_value(&value)) {
                Some(JavaType::Primitive(primitive)) => Some(primitive),
                _ => None,
            }
        });
        let first: Option<JavaPrimitive> = types.next();
        types.all(|ty| Some(ty) == first)
    }
}

//! Describes the paths that a sample of events has: the types of their values, how often they are missing, and the values
//! themselves.
//!
//! A path is one that a query can name, and it is written as a query writes it. Nested objects are entered up to
//! [`STEPS_MAX`] steps, lists at their first [`ELEMENTS_MAX`] elements; a path says when something below it was left out.
//! At most [`PATHS_MAX`] paths are described, those of the newest events first. Everything is exact: the sample is small.
//! Cost: as the sample's size; its caller runs it where it may take milliseconds.

mod scalar;

use std::collections::{BTreeMap, HashMap};

use bumpalo::Bump;
use swiftwater_event::{Path, Step, Type, Value, parse_value, write_json};
use swiftwater_lang::plan::Expr;

pub use self::scalar::ScalarValue;
use self::scalar::{Scalar, TYPES, cut, type_of};
use crate::RecentEvent;

/// Steps of the longest path.
const STEPS_MAX: usize = 8;
/// Elements of a list that have paths.
const ELEMENTS_MAX: usize = 4;
/// Paths that are described.
const PATHS_MAX: usize = 4096;
/// The most frequent values of a path.
const TOP_VALUES: usize = 10;
/// The paths of a sample of events.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct EventPaths {
    /// The most frequent first, then by name.
    pub paths: Vec<EventPath>,
    /// True if there are more paths.
    pub has_more: bool,
}

/// A path of a sample of events. Shares are from 0 to 1.
#[derive(Debug, Clone, PartialEq)]
pub struct EventPath {
    /// The path as a query writes it.
    pub path: String,
    /// JSON's types of the values that are not null, with the share of these values; the most frequent first.
    pub types: Vec<(&'static str, f64)>,
    /// The share of the events in which the value is null.
    pub null: f64,
    /// The share of the events that have no such path.
    pub missing: f64,
    /// The number of distinct values that are neither null nor lists nor objects.
    pub distinct: u64,
    /// The least and the greatest of those of the most frequent type; `false` is less than `true`.
    pub range: Option<(ScalarValue, ScalarValue)>,
    /// The most frequent of those of all types, with their shares of all values that are not null; of equally frequent ones
    /// the least first.
    pub top: Vec<(ScalarValue, f64)>,
    /// The value of the newest event whose value is not null; of a list or an object, its JSON text.
    pub example: Option<ScalarValue>,
    /// True if something below the path is left out: too deep, too far back in a list, or not to be named by a query.
    pub has_more: bool,
}

impl EventPaths {
    /// Describes up to `paths_max` paths of events, which are given oldest first.
    pub fn of(events: &[RecentEvent], paths_max: usize) -> EventPaths {
        let arena = Bump::new();
        let mut tree = Tree::default();
        // The newest come first, so that theirs are the paths and the examples.
        for event in events.iter().rev() {
            let text = std::str::from_utf8(&event.event).unwrap_or_default();
            if let Some(Value::Map(fields)) = parse_value(text, &arena) {
                tree.add_fields(None, fields);
            }
        }
        let mut nodes: Vec<(String, &Node<'_>)> =
            tree.nodes.iter().map(|node| (path_text(&node.path), node)).collect();
        let has_more = tree.has_more || nodes.len() > paths_max;
        nodes.sort_by(|(a, one), (b, other)| other.present.cmp(&one.present).then_with(|| a.cmp(b)));
        nodes.truncate(paths_max);
        let describe = |(path, node): (String, &Node<'_>)| node.describe(path, events.len());
        EventPaths { paths: nodes.into_iter().map(describe).collect(), has_more }
    }
}

/// The text of a path in a query.
fn path_text(path: &Path) -> String {
    Expr::Path { path: path.clone(), ty: Type::Any }.to_string()
}

/// All paths so far.
#[derive(Debug, Default)]
struct Tree<'e> {
    nodes: Vec<Node<'e>>,
    /// The nodes by the node above, and the step from there.
    places: HashMap<(Option<usize>, StepKey<'e>), usize>,
    has_more: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum StepKey<'e> {
    Name(&'e str),
    Place(u32),
}

/// One path.
#[derive(Debug)]
struct Node<'e> {
    path: Path,
    /// Events that have it, with null or another value.
    present: u64,
    nulls: u64,
    types: [u64; TYPES.len()],
    values: BTreeMap<Scalar<'e>, u64>,
    example: Option<ScalarValue>,
    has_more: bool,
}

impl<'e> Tree<'e> {
    fn add_fields(&mut self, above: Option<usize>, fields: &'e [(&'e str, Value<'e>)]) {
        for (name, value) in fields {
            // A query cannot name a field of the event without a name.
            if above.is_none() && name.is_empty() {
                self.has_more = true;
                continue;
            }
            self.add(above, StepKey::Name(name), value);
        }
    }

    fn add(&mut self, above: Option<usize>, step: StepKey<'e>, value: &'e Value<'e>) {
        let Some(place) = self.place(above, step) else {
            self.has_more = true;
            return;
        };
        let node = &mut self.nodes[place];
        node.add(value);
        let is_deepest = node.path.steps().len() == STEPS_MAX;
        match value {
            Value::Map(fields) if is_deepest => node.has_more |= !fields.is_empty(),
            Value::List(elements) if is_deepest => node.has_more |= !elements.is_empty(),
            Value::Map(fields) => self.add_fields(Some(place), fields),
            Value::List(elements) => {
                node.has_more |= elements.len() > ELEMENTS_MAX;
                for (at, element) in elements.iter().take(ELEMENTS_MAX).enumerate() {
                    self.add(Some(place), StepKey::Place(at as u32), element);
                }
            }
            _ => {}
        }
    }

    /// The node of a path, made if it is new; none if there are too many.
    fn place(&mut self, above: Option<usize>, step: StepKey<'e>) -> Option<usize> {
        if let Some(place) = self.places.get(&(above, step)) {
            return Some(*place);
        }
        if self.nodes.len() == PATHS_MAX {
            return None;
        }
        let own = match step {
            StepKey::Name(name) => Step::Key(name.into()),
            StepKey::Place(at) => Step::Index(at),
        };
        let path = above.map_or_else(Path::event, |above| self.nodes[above].path.clone()).then(own);
        self.nodes.push(Node {
            path,
            present: 0,
            nulls: 0,
            types: [0; TYPES.len()],
            values: BTreeMap::new(),
            example: None,
            has_more: false,
        });
        self.places.insert((above, step), self.nodes.len() - 1);
        Some(self.nodes.len() - 1)
    }
}

impl<'e> Node<'e> {
    fn add(&mut self, value: &'e Value<'e>) {
        self.present += 1;
        let Some(ty) = type_of(value) else {
            self.nulls += 1;
            return;
        };
        self.types[ty] += 1;
        let scalar = Scalar::of(value);
        if self.example.is_none() {
            self.example = Some(scalar.map_or_else(|| ScalarValue::Text(cut(&json(value))), Scalar::shown));
        }
        if let Some(scalar) = scalar {
            *self.values.entry(scalar).or_default() += 1;
        }
    }

    fn describe(&self, path: String, events: usize) -> EventPath {
        let values = self.present - self.nulls;
        let share = |count: u64, of: u64| count as f64 / of.max(1) as f64;
        let mut types: Vec<(usize, u64)> =
            self.types.iter().copied().enumerate().filter(|(_, count)| *count > 0).collect();
        types.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let of_type = |ty: usize| move |value: &&Scalar<'_>| value.ty() == ty;
        let range = types.first().and_then(|(ty, _)| {
            let least = self.values.keys().find(of_type(*ty))?;
            let greatest = self.values.keys().rfind(of_type(*ty))?;
            Some((least.shown(), greatest.shown()))
        });
        let mut top: Vec<(&Scalar<'_>, u64)> =
            self.values.iter().map(|(value, count)| (value, *count)).collect();
        // The sort is stable, and the values come in their order.
        top.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        EventPath {
            path,
            types: types.into_iter().map(|(ty, count)| (TYPES[ty], share(count, values))).collect(),
            null: share(self.nulls, events as u64),
            missing: share(events as u64 - self.present, events as u64),
            distinct: self.values.len() as u64,
            range,
            top: top
                .iter()
                .take(TOP_VALUES)
                .map(|(value, count)| (value.shown(), share(*count, values)))
                .collect(),
            example: self.example.clone(),
            has_more: self.has_more,
        }
    }
}

fn json(value: &Value<'_>) -> String {
    let mut text = Vec::new();
    write_json(value, &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "what fails here fails a test")]
mod tests {
    use proptest::prelude::*;
    use swiftwater_lang::{Dialect, ParseOptions, parse_expression};

    use super::*;

    fn paths(events: &[&str], paths_max: usize) -> EventPaths {
        let events = events.iter().enumerate().map(|(at, event)| RecentEvent {
            arrival: 0,
            offset: at as u64,
            event: event.as_bytes().into(),
        });
        EventPaths::of(&events.collect::<Vec<_>>(), paths_max)
    }

    fn names(paths: &EventPaths) -> Vec<&str> {
        paths.paths.iter().map(|path| path.path.as_str()).collect()
    }

    fn text(text: &str) -> ScalarValue {
        ScalarValue::Text(text.to_owned())
    }

    #[test]
    fn values_of_a_path_are_counted_by_type_and_value() {
        let found = paths(
            &[r#"{"a":"x"}"#, r#"{"a":"w"}"#, r#"{"a":7}"#, r#"{"a":null}"#, r#"{"b":1}"#, r#"{"a":"x"}"#],
            9,
        );
        assert_eq!(names(&found), ["a", "b"]);
        assert!(!found.has_more);
        let expected = EventPath {
            path: "a".to_owned(),
            types: vec![("string", 0.75), ("number", 0.25)],
            null: 1.0 / 6.0,
            missing: 1.0 / 6.0,
            distinct: 3,
            range: Some((text("w"), text("x"))),
            top: vec![(text("x"), 0.5), (ScalarValue::Long(7), 0.25), (text("w"), 0.25)],
            example: Some(text("x")),
            has_more: false,
        };
        assert_eq!(found.paths[0], expected);
        assert_eq!(paths(&[], 9), EventPaths::default());
    }

    #[test]
    fn numbers_are_compared_by_their_value() {
        let found = paths(
            &[
                r#"{"n":9007199254740993}"#,
                r#"{"n":9007199254740992.0}"#,
                r#"{"n":10}"#,
                r#"{"n":10.0}"#,
                r#"{"n":9}"#,
                r#"{"n":1e300}"#,
                r#"{"n":-9223372036854775808}"#,
                r#"{"n":-0.0}"#,
                r#"{"n":0}"#,
                r#"{"n":-0.5}"#,
            ],
            9,
        );
        let path = &found.paths[0];
        assert_eq!(path.distinct, 8);
        assert_eq!(path.range, Some((ScalarValue::Long(i64::MIN), ScalarValue::Double(1e300))));
        let numbers: Vec<String> = path.top.iter().map(|(value, _)| format!("{value:?}")).collect();
        let order = [
            "Double(-0.0)",
            "Long(10)",
            "Long(-9223372036854775808)",
            "Double(-0.5)",
            "Long(9)",
            "Double(9007199254740992.0)",
            "Long(9007199254740993)",
            "Double(1e300)",
        ];
        // Of equal numbers the newest is shown.
        let order = order.map(|number| match number {
            "Double(-0.0)" => "Long(0)",
            "Long(10)" => "Double(10.0)",
            other => other,
        });
        assert_eq!(numbers, order);
    }

    #[test]
    fn objects_and_lists_are_entered_so_far() {
        let found = paths(&[r#"{"l":[1,{"x":[]},3,4,5],"o":{"p":{"q r":true}},"o'":{}}"#], 99);
        let expected = ["\"o'\"", "l", "l[0]", "l[1]", "l[1].x", "l[2]", "l[3]", "o", "o.p", "o.p['q r']"];
        assert_eq!(names(&found), expected);
        let with_more: Vec<&str> =
            found.paths.iter().filter(|path| path.has_more).map(|path| path.path.as_str()).collect();
        assert_eq!((with_more, found.has_more), (vec!["l"], false));
        let list = found.paths.iter().find(|path| path.path == "l").unwrap();
        assert_eq!(list.types, [("array", 1.0)]);
        assert_eq!((list.distinct, &list.range, list.top.len()), (0, &None, 0));
        assert_eq!(list.example, Some(text(r#"[1,{"x":[]},3,4,5]"#)));
        let deep = format!("{}1{}", r#"{"a":"#.repeat(9), "}".repeat(9));
        let found = paths(&[&deep], 99);
        assert_eq!(names(&found).last(), Some(&"a.a.a.a.a.a.a.a"));
        assert_eq!((found.paths.len(), found.paths[7].has_more, found.has_more), (8, true, false));
    }

    #[test]
    fn paths_beyond_the_limits_are_left_out() {
        let found = paths(&[r#"{"a":1,"b":1,"c":1}"#, r#"{"c":1}"#], 2);
        assert_eq!((names(&found), found.has_more), (vec!["c", "a"], true));
        let found = paths(&[r#"{"":1,"a":{"":1}}"#], 9);
        assert_eq!((names(&found), found.has_more), (vec!["a", "a['']"], true));
        let fields: Vec<String> = (0..PATHS_MAX + 1).map(|field| format!("\"f{field}\":1")).collect();
        let found = paths(&[r#"{"old":1}"#, &format!("{{{}}}", fields.join(","))], PATHS_MAX);
        assert_eq!((found.paths.len(), found.has_more), (PATHS_MAX, true));
        assert!(!names(&found).contains(&"old"));
    }

    #[test]
    fn long_texts_are_cut_at_a_character() {
        let long = "é".repeat(201);
        let found = paths(&[&format!("{{\"a\":\"{long}\"}}"), &format!("{{\"a\":\"{long}2\"}}")], 9);
        assert_eq!(found.paths[0].distinct, 2);
        assert_eq!(found.paths[0].example, Some(text(&format!("{}…", "é".repeat(200)))));
        let found = paths(&[&format!("{{\"a\":\"{}\"}}", "é".repeat(200))], 9);
        assert_eq!(found.paths[0].example, Some(text(&"é".repeat(200))));
    }

    proptest! {
        #[test]
        fn a_path_is_written_as_the_language_reads_it(first in "\\PC{1,8}", second in "\\PC{0,8}|select|Time|now") {
            let path = Path::field(first.as_str()).then(Step::Key(second.as_str().into())).then(Step::Index(3));
            let options = ParseOptions::new(Dialect::Native, 0);
            let read = parse_expression(&path_text(&path), &options);
            prop_assert_eq!(read.unwrap(), Expr::Path { path, ty: Type::Any });
        }

        #[test]
        fn shares_add_up(values in proptest::collection::vec("null|true|[1-9][0-9]?|[0-9]\\.5|\"[a-c]\"|\\[1\\]|missing", 1..40)) {
            let events: Vec<String> = values
                .iter()
                .map(|value| if value == "missing" { "{}".to_owned() } else { format!("{{\"v\":{value}}}") })
                .collect();
            let found = paths(&events.iter().map(String::as_str).collect::<Vec<_>>(), 9);
            let present = values.iter().filter(|value| *value != "missing").count();
            let nulls = values.iter().filter(|value| *value == "null").count();
            let Some(path) = found.paths.first() else {
                prop_assert_eq!(present, 0);
                return Ok(());
            };
            prop_assert_eq!(path.missing, (values.len() - present) as f64 / values.len() as f64);
            prop_assert_eq!(path.null, nulls as f64 / values.len() as f64);
            let sum: f64 = path.types.iter().map(|(_, share)| share).sum();
            prop_assert!((sum - f64::from(u8::from(present > nulls))).abs() < 1e-9);
            let mut scalars: Vec<&str> =
                values.iter().map(String::as_str).filter(|value| !matches!(*value, "missing" | "null" | "[1]")).collect();
            scalars.sort_unstable();
            scalars.dedup();
            prop_assert_eq!(path.distinct as usize, scalars.len());
        }
    }
}

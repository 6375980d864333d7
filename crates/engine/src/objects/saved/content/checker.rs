//! Reads a JSON value by its expected form, and reports each fault with its path.

use std::ops::RangeInclusive;

use serde_json::{Map, Value};
use swiftwater_event::did_you_mean;

/// The most faults that are reported.
const FAULTS_MAX: usize = 20;

/// A fault of a content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContentFault {
    /// The place, as a JSON pointer: `/panels/3/source/text`; empty: the whole.
    pub path: String,
    /// The fault.
    pub message: String,
}

/// The faults found so far.
#[derive(Debug, Default)]
pub(super) struct Faults(Vec<ContentFault>);

impl Faults {
    pub(super) fn add(&mut self, path: &str, message: impl Into<String>) {
        if self.0.len() < FAULTS_MAX {
            self.0.push(ContentFault { path: path.to_owned(), message: message.into() });
        }
    }

    pub(super) fn into_list(self) -> Vec<ContentFault> {
        self.0
    }
}

/// A value and its place.
pub(super) struct Place<'v> {
    pub(super) path: String,
    pub(super) value: &'v Value,
}

/// An object whose members are known by name.
pub(super) struct Members<'v> {
    path: String,
    members: &'v Map<String, Value>,
}

impl<'v> Place<'v> {
    pub(super) fn root(value: &'v Value) -> Place<'v> {
        Place { path: String::new(), value }
    }

    /// The value as an object that has no other members than these.
    pub(super) fn object(&self, known: &[&str], faults: &mut Faults) -> Option<Members<'v>> {
        let members = self.any_object(faults)?;
        for name in members.members.keys().filter(|name| !known.contains(&name.as_str())) {
            let near = did_you_mean(name, known.iter().copied());
            let name = short(name);
            let message = match near {
                Some(near) => format!("there is no member `{name}` here; did you mean `{near}`?"),
                None => format!("there is no member `{name}` here; members are {}", known.join(", ")),
            };
            faults.add(&self.path, message);
        }
        Some(members)
    }

    /// The value as an object with any members.
    pub(super) fn any_object(&self, faults: &mut Faults) -> Option<Members<'v>> {
        match self.value {
            Value::Object(members) => Some(Members { path: self.path.clone(), members }),
            _ => self.fault("an object", faults),
        }
    }

    /// The values of a list of so many.
    pub(super) fn list(&self, size: RangeInclusive<usize>, faults: &mut Faults) -> Vec<Place<'v>> {
        let Value::Array(values) = self.value else {
            self.fault::<()>("a list", faults);
            return Vec::new();
        };
        if !size.contains(&values.len()) {
            faults
                .add(&self.path, format!("a list of {} to {} values is expected", size.start(), size.end()));
            return Vec::new();
        }
        let place = |(at, value)| Place { path: format!("{}/{at}", self.path), value };
        values.iter().enumerate().map(place).collect()
    }

    /// A text of so many characters.
    pub(super) fn text(&self, size: RangeInclusive<usize>, faults: &mut Faults) -> Option<&'v str> {
        let Value::String(text) = self.value else { return self.fault("a text", faults) };
        if !size.contains(&text.chars().count()) {
            let message = format!("a text of {} to {} characters is expected", size.start(), size.end());
            faults.add(&self.path, message);
        }
        Some(text)
    }

    pub(super) fn integer(&self, range: RangeInclusive<u64>, faults: &mut Faults) -> Option<u64> {
        let number = self.value.as_u64().filter(|number| range.contains(number));
        if number.is_none() {
            faults
                .add(&self.path, format!("an integer from {} to {} is expected", range.start(), range.end()));
        }
        number
    }

    pub(super) fn one_of(&self, words: &[&str], faults: &mut Faults) -> Option<&'v str> {
        let word = self.value.as_str();
        if let Some(word) = word.filter(|word| words.contains(word)) {
            return Some(word);
        }
        let near = word.and_then(|word| did_you_mean(word, words.iter().copied()));
        let near = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
        faults.add(&self.path, format!("one of {} is expected{near}", words.join(", ")));
        None
    }

    /// A text, a number, true, false or null.
    pub(super) fn scalar(&self, faults: &mut Faults) {
        if self.value.is_array() || self.value.is_object() {
            self.fault::<()>("a text, a number, true, false or null", faults);
        }
    }

    fn fault<T>(&self, expected: &str, faults: &mut Faults) -> Option<T> {
        faults.add(&self.path, format!("{expected} is expected"));
        None
    }
}

impl<'v> Members<'v> {
    /// A member that may be missing.
    pub(super) fn optional(&self, name: &str) -> Option<Place<'v>> {
        let path = format!("{}/{}", self.path, name.replace('~', "~0").replace('/', "~1"));
        self.members.get(name).map(|value| Place { path, value })
    }

    /// A member that must not be missing.
    pub(super) fn required(&self, name: &str, faults: &mut Faults) -> Option<Place<'v>> {
        let found = self.optional(name);
        if found.is_none() {
            faults.add(&self.path, format!("the member `{name}` is missing"));
        }
        found
    }

    pub(super) fn len(&self) -> usize {
        self.members.len()
    }
}

/// A text of the content as a message has it.
fn short(text: &str) -> String {
    let mut short: String = text.chars().take(60).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

/// Reports each duplicate.
pub(super) fn check_unique<'v>(
    what: &str,
    texts: impl IntoIterator<Item = (String, &'v str)>,
    faults: &mut Faults,
) {
    let mut seen = std::collections::HashSet::new();
    for (path, text) in texts {
        if !seen.insert(text) {
            faults.add(&path, format!("{what} `{}` is a duplicate", short(text)));
        }
    }
}

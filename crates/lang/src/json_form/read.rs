//! A JSON reader that records the position of each value in the text, and parses a value only as far as it is read.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, SeqAccess, Visitor},
};
use serde_json::value::RawValue;

use crate::source::{Fault, Span};

/// All whole numbers up to it are a double.
const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;

/// One JSON value, still as text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Node<'t> {
    text: &'t str,
    /// Start of `text` in the query.
    start: usize,
}

/// An object's entries in the order of the text; of equal keys all.
pub(super) struct Object<'t> {
    entries: Vec<(Cow<'t, str>, Node<'t>)>,
}

impl<'t> Node<'t> {
    /// The whole text; a fault where it is no JSON.
    pub(super) fn root(text: &'t str) -> Result<Node<'t>, Fault> {
        let raw: &RawValue = serde_json::from_str(text).map_err(|error| {
            let at = offset_of(text, error.line(), error.column());
            let whole = error.to_string();
            let what = whole.split(" at line ").next().unwrap_or_default().to_owned();
            Fault::at(Span::new(at, (at + 1).min(text.len())), format!("this is not JSON: {what}"))
        })?;
        Ok(Node::within(text, raw, 0))
    }

    /// `raw` must lie in `outer`, which begins at `outer_start`.
    fn within(outer: &'t str, raw: &'t RawValue, outer_start: usize) -> Node<'t> {
        let text = raw.get();
        Node { text, start: outer_start + (text.as_ptr() as usize - outer.as_ptr() as usize) }
    }

    pub(super) fn span(&self) -> Span {
        Span::new(self.start, self.start + self.text.len())
    }

    pub(super) fn is_object(&self) -> bool {
        self.text.starts_with('{')
    }

    pub(super) fn is_null(&self) -> bool {
        self.text == "null"
    }

    pub(super) fn object(&self, what: &str) -> Result<Object<'t>, Fault> {
        let entries: Entries<'t> = self.parsed(what, "an object")?;
        let entries =
            entries.0.into_iter().map(|(key, raw)| (key.0, Node::within(self.text, raw, self.start)));
        Ok(Object { entries: entries.collect() })
    }

    pub(super) fn list(&self, what: &str) -> Result<Vec<Node<'t>>, Fault> {
        let items: Items<'t> = self.parsed(what, "a list")?;
        Ok(items.0.into_iter().map(|raw| Node::within(self.text, raw, self.start)).collect())
    }

    /// The text of a string; that of a number, TRUE or FALSE as it is written.
    pub(super) fn text(&self, what: &str) -> Result<Cow<'t, str>, Fault> {
        if self.text.starts_with(['{', '[', 'n']) {
            return Err(self.wrong(what, "text"));
        }
        if !self.text.starts_with('"') {
            return Ok(Cow::Borrowed(self.text));
        }
        let key: Text<'t> = self.parsed(what, "text")?;
        Ok(key.0)
    }

    /// A whole number above 0, also as text, and as a fraction that is none (`2e4`, `20000.0`).
    pub(super) fn positive(&self, what: &str) -> Result<u64, Fault> {
        let text = self.text(what)?;
        let whole = || {
            let number: f64 = text.trim().parse().ok()?;
            (number.fract() == 0.0 && number.abs() <= WHOLE_MAX).then_some(number as i64)
        };
        let number = text.trim().parse::<i64>().ok().or_else(whole).filter(|number| *number > 0);
        number
            .and_then(|number| u64::try_from(number).ok())
            .ok_or_else(|| Fault::at(self.span(), format!("{what} must be a whole number above 0")))
    }

    /// A number, also as text; not NaN or infinite.
    pub(super) fn number(&self, what: &str) -> Result<f64, Fault> {
        let number = self.text(what)?.trim().parse::<f64>().ok().filter(|number| number.is_finite());
        number.ok_or_else(|| self.wrong(what, "a number"))
    }

    fn wrong(&self, what: &str, wanted: &str) -> Fault {
        Fault::at(self.span(), format!("{what} must be {wanted}"))
    }

    fn parsed<T: Deserialize<'t>>(&self, what: &str, wanted: &str) -> Result<T, Fault> {
        serde_json::from_str(self.text).map_err(|_| self.wrong(what, wanted))
    }
}

impl<'t> Object<'t> {
    pub(super) fn entries(&self) -> &[(Cow<'t, str>, Node<'t>)] {
        &self.entries
    }

    /// The last value of this key; an explicit null counts as none.
    pub(super) fn get(&self, key: &str) -> Option<&Node<'t>> {
        let found = self.entries.iter().rev().find(|(name, _)| name == key);
        found.map(|(_, node)| node).filter(|node| !node.is_null())
    }

    /// Does the same as [`Object::get`] for a required member; `owner` is this object.
    pub(super) fn need(&self, key: &str, owner: &Node<'t>) -> Result<&Node<'t>, Fault> {
        self.get(key).ok_or_else(|| Fault::at(owner.span(), format!("`{key}` is missing here")))
    }
}

/// The byte at a line and column (in bytes, from 1) as serde_json counts them.
fn offset_of(text: &str, line: usize, column: usize) -> usize {
    let start: usize = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    (start + column.saturating_sub(1)).min(text.len())
}

struct Text<'t>(Cow<'t, str>);

impl<'t> Deserialize<'t> for Text<'t> {
    fn deserialize<D: Deserializer<'t>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;
        impl<'t> Visitor<'t> for TextVisitor {
            type Value = Text<'t>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("text")
            }
            fn visit_borrowed_str<E>(self, text: &'t str) -> Result<Text<'t>, E> {
                Ok(Text(Cow::Borrowed(text)))
            }
            fn visit_str<E>(self, text: &str) -> Result<Text<'t>, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(TextVisitor)
    }
}

struct Entries<'t>(Vec<(Text<'t>, &'t RawValue)>);

impl<'t> Deserialize<'t> for Entries<'t> {
    fn deserialize<D: Deserializer<'t>>(deserializer: D) -> Result<Self, D::Error> {
        struct EntriesVisitor;
        impl<'t> Visitor<'t> for EntriesVisitor {
            type Value = Entries<'t>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'t>>(self, mut map: A) -> Result<Entries<'t>, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }
        deserializer.deserialize_map(EntriesVisitor)
    }
}

struct Items<'t>(Vec<&'t RawValue>);

impl<'t> Deserialize<'t> for Items<'t> {
    fn deserialize<D: Deserializer<'t>>(deserializer: D) -> Result<Self, D::Error> {
        struct ItemsVisitor;
        impl<'t> Visitor<'t> for ItemsVisitor {
            type Value = Items<'t>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }
            fn visit_seq<A: SeqAccess<'t>>(self, mut seq: A) -> Result<Items<'t>, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = seq.next_element()? {
                    items.push(item);
                }
                Ok(Items(items))
            }
        }
        deserializer.deserialize_seq(ItemsVisitor)
    }
}
